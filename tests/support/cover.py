"""Which combinations of parameters every run tests, and which are left to the night."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def each_once(*axes: Iterable[Any]) -> list[Any]:
    """All combinations, for `pytest.mark.parametrize`; but for a few in which every value occurs, they are marked `nightly`."""
    axes: list[Sequence[Any]] = [list(axis) for axis in axes]
    # in every round an axis starts one step, two steps, ... further on, so that axes of the same length do not go together
    often = {
        tuple((t + j * (t // len(axis))) % len(axis) for j, axis in enumerate(axes)) for t in range(max(map(len, axes)))
    }
    return [
        pytest.param(*(axis[i] for axis, i in zip(axes, at, strict=True)), marks=() if at in often else pytest.mark.nightly)
        for at in itertools.product(*(range(len(axis)) for axis in axes))
    ]


def only(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """Cases for `pytest.mark.parametrize`, of which those in `kept` run by day; all others are marked `nightly`."""
    made = [_made(case) for case in cases]
    wanted = [_made(case).values for case in kept]
    if unknown := [values for values in wanted if values not in [case.values for case in made]]:
        raise ValueError(f"there are no cases {unknown}.")
    return [pytest.param(*case.values, marks=() if case.values in wanted else pytest.mark.nightly, id=case.id) for case in made]


def _made(case: Any) -> Any:
    """A case as a `pytest.param`: of a tuple, each of its values."""
    return case if hasattr(case, "marks") else pytest.param(*(case if isinstance(case, tuple) else (case,)))


def by_turns(cases: Iterable[Any], of: int = 2, first: int = 0) -> list[Any]:
    """Cases for `pytest.mark.parametrize`, each a value, a tuple of values or a `pytest.param`: every `of`-th.

    The others are marked `nightly`; those that are marked already do not count.
    """
    made = [_made(case) for case in cases]
    turns = itertools.count()
    return [
        case if case.marks or next(turns) % of == first else pytest.param(*case.values, marks=pytest.mark.nightly, id=case.id)
        for case in made
    ]
