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


def by_turns(cases: Iterable[Any], of: int = 2, first: int = 0) -> list[Any]:
    """Cases for `pytest.mark.parametrize`, each a value, a tuple of values or a `pytest.param`: every `of`-th.

    The others are marked `nightly`; those that are marked already do not count.
    """
    made = [case if hasattr(case, "marks") else pytest.param(*(case if isinstance(case, tuple) else (case,))) for case in cases]
    turns = itertools.count()
    return [case if case.marks or next(turns) % of == first else pytest.param(*case.values, marks=pytest.mark.nightly) for case in made]
