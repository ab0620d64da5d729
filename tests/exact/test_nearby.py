"""Gibbs sweeps with clusters that are far against all partitions of six observations: whatever is far, in blocks and groups; wrong ones."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from exact import matrix
from exact.enumeration import total_variation
from support.cover import by_turns
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.kernels.moves import nearby

CHAINS, DRAWS = 16, by_day(2500)
FULL = "Gaussian, full, d = 2"
FAR = {  # LOG_FAR and LOG_FAR_OF_NEW
    "none": (1e3, 1e3), "some": (1.0, 1e3), "by the new one": (1e3, -0.5), "all others": (-5.0, 1e3), "all others, much less": (-0.1, 1e3),
}
ROOMS = {  # BLOCK_ROWS, GROUP_ROWS, MAX_NEAR, MAX_OF_GROUP
    "one block": (16, 128, 32, 64), "rows alone": (1, 6, 16, 32),
    "blocks of two": (2, 6, 16, 32), "groups of three": (2, 3, 16, 32), "no room": (2, 6, 8, 16),
}
PRIORS = ("DP(1)", "NGGP(0.8, 0.2)", "PY(-0.2, 0.5)", "finite(3, 1.2)")


def fitted(monkeypatch: Any, prior: str, far: str, room: str, move: Any = None, draws: int = DRAWS) -> Any:
    """A fit of six observations, as if they were very many."""
    names = ("LOG_FAR", "LOG_FAR_OF_NEW", "BLOCK_ROWS", "GROUP_ROWS", "MAX_NEAR", "MAX_OF_GROUP")
    for name, value in zip(names, (*FAR[far], *ROOMS[room]), strict=True):
        monkeypatch.setattr(nearby, name, value)
    monkeypatch.setattr(nearby, "MIN_ROWS", 1)
    monkeypatch.setattr(nearby, "MIN_CLUSTERS", 1)
    model = matrix.families()[FULL].build(matrix.PRIORS[prior][0])
    fit = model.fit(move or nm.Gibbs(), draws=draws, tune=50, chains=CHAINS, rng=3)
    assert all(checkpoint.state["kept"][0, 0] == 1.0 for checkpoint in fit.checkpoints), "rows were not visited by place"
    return fit


def check(fit: Any, prior: str) -> tuple[float, float]:
    return total_variation(matrix.law(prior, FULL), fit.draws["labels"], matrix.DEVIATIONS)


CASES = [(PRIORS[(i + j) % len(PRIORS)], far, room) for i, far in enumerate(FAR) for j, room in enumerate(ROOMS)]


@pytest.mark.parametrize(("prior", "far", "room"), by_turns(CASES))
def test_partition_posterior(monkeypatch, prior, far, room):
    distance, limit = check(fitted(monkeypatch, prior, far, room), prior)
    assert limit < coarser(0.07), "too few draws to tell"
    assert distance < limit


# ---- wrong sweeps: what stands in the kernels, and what takes its place where `it` is asked for

WHICH = "state.num[7]"  # an entry that nothing else uses
WRONG = {
    "far clusters are as good as gone": ("_redraw", "p[options] = log_B", "p[options] = -math.inf if {it} else log_B"),
    "bounds are as good as weights": (
        "_draw_by_all", "    if rng.random() < share:", "    share = 2.0 if {it} and share > 0.0 else share\n    if rng.random() < share:"),
    "copies stay as they were": (
        "_keep_up", "                _add(state, reach, some, k_old)\n            _add(state, reach, some, k)",
        "                if not {it}:\n                    _add(state, reach, some, k_old)\n"
        "            if not {it} or some.place[k] < 0:\n                _add(state, reach, some, k)"),
}


@cache
def mutants() -> Any:
    """An entry point that is wrong in the way that option[10] says."""
    sources = {}
    for name in ("_draw_by_all", "_keep_up", "_redraw", "_sweep_block", "sweep_nearby"):
        function = getattr(nearby, name)
        sources[name] = inspect.getsource(getattr(function, "function", getattr(function, "py_func", function)))
    for number, (name, right, instead) in enumerate(WRONG.values(), 1):
        assert sources[name].count(right) == 1, right
        sources[name] = sources[name].replace(right, instead.format(it=f"({WHICH} == {number})"))
    begin = "    done, end, is_parted"
    assert sources["sweep_nearby"].count(begin) == 1
    sources["sweep_nearby"] = sources["sweep_nearby"].replace(begin, f"    {WHICH} = int(option[10])\n{begin}")
    space = dict(vars(nearby))
    exec("\n\n".join(sources.values()), space)
    return space["sweep_nearby"]


@dataclass(frozen=True)
class Mutant(nm.Gibbs):
    wrong: int = 0

    def options(self, model):
        option = list(super().options(model))
        option[2] = float(mutants().address)
        return (*option, float(self.wrong))


@pytest.mark.parametrize("wrong", by_turns(["", *WRONG], 4, 1))
def test_wrong_sweeps_are_found(monkeypatch, wrong):
    number = 1 + list(WRONG).index(wrong) if wrong else 0
    far, room = ("none", "one block") if number == 3 else ("all others", "rows alone")
    distance, limit = check(fitted(monkeypatch, "DP(1)", far, room, Mutant(wrong=number)), "DP(1)")
    assert distance > 1.5 * limit if wrong else distance < limit < coarser(0.045)
