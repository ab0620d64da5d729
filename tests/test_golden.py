"""Draws and predictions of a few small fits are those that are stored; `python -m tests.golden` compares all fits.

Where processor and versions are those of the digests, to the bit; everywhere, compiled or not, as numbers within a tolerance.
"""

from __future__ import annotations

import copy
import functools
import json

import pytest

from nrmmix.kernels.core.jit import JIT
from tests import golden

STORED = json.loads(golden.FILE.read_text())
CHEAP = ("gibbs, DP", "split_merge, Pitman-Yor", "regression, DP", "multinomial", "bhc")
MORE = (
    "gibbs, NIG, diagonal", "slice, finite", "permutation, DP", "semiconjugate, slice", "regression, Pitman-Yor, box",
    "regression, slice, NGGP", "mixed blocks", "ibhc", "sparse product, lines",
)
SEVERAL = {"log_joint": -812.25, "mass": 0.75, "sigma": 0.0, "labels": 20725435}


@functools.cache
def record(name):
    return golden.measured([name])[name]


def changed(now, then=SEVERAL):
    return golden.changed_numbers({"numbers": now}, {"numbers": then})


@pytest.mark.parametrize("name", CHEAP)
def test_the_same_to_the_bit(name):
    here = golden.environment() | {"compiled": JIT}
    differs = [f"{what}: {value}" for what, value in (STORED["environment"] | {"compiled": True}).items() if here[what] != value]
    if differs:
        pytest.skip(f"digests were stored with {', '.join(differs)}")
    assert golden.changed_digests(record(name), STORED["fits"][name]) == []


@pytest.mark.parametrize("name", CHEAP + MORE)
def test_the_same_numbers(name):
    if not JIT and name.startswith(("regression,", "sparse product")):
        pytest.skip("density regression takes up to a minute where nothing is compiled")
    assert golden.changed_numbers(record(name), STORED["fits"][name]) == []


def test_every_fit_has_digests_and_numbers():
    assert set(golden.fits()) == set(STORED["fits"])
    for name, fit in STORED["fits"].items():
        assert set(fit) == {*golden.DIGESTS, "numbers"}
        assert len(fit["numbers"]) >= 6 or golden.TURNED_CHAINS.get(name) == (0, 1)


@pytest.mark.parametrize("name", ["log_joint", "mass"])
def test_numbers_within_the_tolerance_are_the_same(name):
    assert changed(SEVERAL) == []
    for factor in (1 + 1e-11, 1 - 1e-11):
        assert changed(SEVERAL | {name: SEVERAL[name] * factor}) == []
    for factor in (1 + 1e-8, 1 - 1e-8, -1.0, float("nan")):
        now = SEVERAL[name] * factor
        assert changed(SEVERAL | {name: now}) == [f"{name}: {SEVERAL[name]} is now {now}"]


def test_whole_numbers_and_zeros_are_compared_exactly():
    assert changed(SEVERAL | {"labels": 20725436}) == ["labels: 20725435 is now 20725436"]
    assert changed(SEVERAL | {"sigma": 1e-300}) == ["sigma: 0.0 is now 1e-300"]


def test_a_number_that_is_new_or_gone_has_changed():
    assert changed(SEVERAL | {"u": 2.0}) == ["u: None is now 2.0"]
    assert changed({}, {"u": 2.0}) == ["u: 2.0 is now None"]


def test_a_stored_number_that_is_changed_is_noticed():
    for name, fit in STORED["fits"].items():
        for what, number in fit["numbers"].items():
            other = copy.deepcopy(fit)
            other["numbers"][what] = number + 1 if isinstance(number, int) else number * (1 + 1e-8) or 1e-8
            assert len(golden.changed_numbers(other, fit)) == 1, (name, what)


def test_places_have_weights_of_their_own():
    assert golden.weighed([3, 1, 2]) == 3 + 2 + 6 and golden.weighed([1, 3, 2]) == 1 + 6 + 6
    assert golden.weighed([3.0, 1.0, 2.0]) == 11 / 6 and golden.weighed([-3.0, 1.0, float("nan")]) == 8 / 6


@pytest.mark.parametrize("changes", [{}, {"draws": "0"}, {"numbers": {}}])
def test_what_is_printed_says_which_digests_and_numbers_have_changed(changes, capsys):
    fit = STORED["fits"]["bhc"]
    assert golden.compare({"bhc": fit | changes}, STORED) is bool(changes)
    printed = capsys.readouterr().out
    assert f"{0 if 'draws' in changes else 1} of 1 fits are the same to the bit." in printed
    assert f"{0 if 'numbers' in changes else 1} of 1 fits have the same numbers, within 1e-09." in printed
    assert printed.count("changed: bhc: digest of draws: ") == ("draws" in changes)
    assert printed.count("changed: bhc: ") == (1 if "draws" in changes else len(fit["numbers"]) if "numbers" in changes else 0)
