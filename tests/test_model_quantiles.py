"""Values of covariates that come part by part: counted as in memory, and beyond that with ranks as near as it says."""

from __future__ import annotations

import numpy as np
import pytest
from support.cover import by_turns

from nrmmix.model.frame import quantiles
from nrmmix.model.frame.quantiles import Tally

RNG = np.random.default_rng(3)


def counted(x, parts):
    tally = Tally()
    for part in np.array_split(x, parts):
        tally.add(part)
    return tally.total()


@pytest.mark.parametrize("parts", [1, 7, 400])
def test_values_are_counted_as_in_memory(parts):
    for x in (RNG.integers(50, size=200_000).astype(float), RNG.normal(size=150_001), np.array([3.0, 1.0]), np.repeat(2.5, 80_000)):
        values, sizes = np.unique(x, return_counts=True)
        found = counted(x, min(parts, len(x)))
        assert np.array_equal(found.values, values) and np.array_equal(found.sizes, sizes) and found.n_rows == len(x)


def largest_error(found, x):
    """Of the ranks of all values of the column, as a share of the rows."""
    x = np.sort(x)
    at = np.searchsorted(found.values, x, side="right")
    ranks = np.concatenate([[0], np.cumsum(found.sizes)])[at]
    return np.abs(ranks - np.searchsorted(x, x, side="right")).max() / len(x)


@pytest.mark.parametrize("order", by_turns(["shuffled", "ascending", "descending", "heavy ties"], 2, 1))
def test_ranks_of_many_values_are_as_near_as_it_says(order):
    n = 1_500_000
    x = RNG.lognormal(sigma=2.0, size=n)
    if order == "heavy ties":
        x[RNG.random(n) < 0.7] = 1.0
    elif order != "shuffled":
        x = np.sort(x) if order == "ascending" else np.sort(x)[::-1]
    found = counted(x, 31)
    assert quantiles.MAX_VALUES < len(np.unique(x)) and found.n_rows == n and len(found.values) < quantiles.MAX_VALUES
    assert largest_error(found, x) <= np.log2(n / quantiles.BUFFER) / (2 * quantiles.BUFFER) + 1 / n
    assert found.values[0] == x.min() and found.values[-1] == x.max() and (np.diff(found.values) > 0).all()
    other = counted(x, 200)
    assert np.array_equal(found.values, other.values) and np.array_equal(found.sizes, other.sizes), "parts do not matter"


def test_halves_that_are_always_the_same_lean_to_one_side(monkeypatch):
    monkeypatch.setattr(quantiles, "MAX_VALUES", 10)
    monkeypatch.setattr(quantiles, "BUFFER", 32)
    x = RNG.permutation(20_000.0 + np.arange(20_000.0))
    fair = largest_error(counted(x, 5), x)
    assert fair <= np.log2(len(x) / 32) / 64 + 1 / len(x)
    real = quantiles.Quantiles._put

    def wrong(self, buffer):
        self.turns = [0] * len(self.turns)
        real(self, buffer)

    monkeypatch.setattr(quantiles.Quantiles, "_put", wrong)
    assert 2 * fair < largest_error(counted(x, 5), x)
