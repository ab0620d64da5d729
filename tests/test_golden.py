"""Draws and predictions of a few small fits are those of the stored digests, to the bit; `python -m tests.golden` compares all."""

from __future__ import annotations

import json

import pytest

from nrmmix.kernels.core.jit import JIT
from tests import golden

STORED = json.loads(golden.FILE.read_text())
CHEAP = ("gibbs, DP", "split_merge, Pitman-Yor", "regression, DP", "multinomial", "bhc")


@pytest.mark.parametrize("name", CHEAP)
def test_the_same_to_the_bit(name):
    here = golden.environment() | {"compiled": JIT}
    differs = [f"{what}: {value}" for what, value in (STORED["environment"] | {"compiled": True}).items() if here[what] != value]
    if differs:
        pytest.skip(f"digests were stored with {', '.join(differs)}")
    assert golden.measured([name]) == {name: STORED["fits"][name]}


def test_every_fit_has_a_digest():
    assert set(golden.fits()) == set(STORED["fits"])
