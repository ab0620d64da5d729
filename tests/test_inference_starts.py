"""Starts of chains: from different ends, and at rising powers of the likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from support.chains import same_draws
from support.cover import by_turns

import nrmmix as nm
from nrmmix.inference.mcmc import start as starts


def noise(n, d, seed=2):
    return np.random.default_rng(seed).normal(size=(n, d))


def groups(n, d, seed=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 8.0 * rng.integers(0, 3, n)[:, None]


@pytest.mark.parametrize(("n", "d", "covariance"), by_turns([
    (60, 10, "full"), (100, 15, "diagonal"), (60, 20, "diagonal"), (120, 6, "full"),
], 4))
def test_one_lump_is_found_from_every_end(n, d, covariance):
    """Rows that enter one by one stay each alone in many dimensions, hundreds of nats below one cluster, and chains then agree on it."""
    model = nm.Model(data=noise(n, d), family=nm.Gaussian(covariance))
    for init in ("spread", "sequential", "each", "one"):
        fit = model.fit("gibbs", init=init, draws=200, tune=300, chains=3, rng=1)
        assert (fit.draws["n_clusters"].mean(axis=1) < 1.5).all(), init


@pytest.mark.parametrize("d", by_turns([2, 5]))
def test_groups_are_found_from_every_end(d):
    """Powers of the likelihood melt what is frozen, and groups that the data part come back."""
    model = nm.Model(data=groups(150, d))
    for init in ("spread", "sequential", "each"):
        assert model.fit(init=init, draws=200, tune=300, rng=1).partition().n_clusters == 3, init


def test_chains_start_from_different_ends():
    model = nm.Model(data=noise(40, 2))
    found = starts.starts_of(model, "spread", 5, 1000, lambda: None)
    assert [one.heated for one in found] == [True, False, True, False, True]
    assert [int(one.labels.max()) for one in found] == [-1, 0, 39, 0, -1]
    finite = nm.Model(data=noise(40, 2), prior=nm.FiniteMixture(3))
    assert [int(one.labels.max()) for one in starts.starts_of(finite, "spread", 4, 1000, lambda: None)] == [-1, 0, -1, 0]
    few = starts.starts_of(model, "spread", 3, starts.MIN_TUNE - 1, lambda: None)
    assert all(not one.heated and (one.labels == -1).all() for one in few)
    held = nm.Model(data=noise(40, 2), family=nm.SemiconjugateGaussian())
    assert not any(one.heated for one in starts.starts_of(held, "spread", 4, 1000, lambda: None))


def test_a_start_that_is_interrupted_goes_on(tmp_path):
    """A limit of no time stops a chain before it has begun, and one of little within its start: what follows is the same to the bit."""
    model = nm.Model(data=groups(3000, 4))
    whole = model.fit("gibbs", draws=20, tune=200, chains=2, rng=5)
    for limit in (1e-9, 0.02, 0.05):
        part = model.fit("gibbs", draws=20, tune=200, chains=2, rng=5, time_limit=limit)
        assert part.draws.n_draws < 20
        part.save(tmp_path / "part.npz")
        longer = nm.load(tmp_path / "part.npz").extend(20 - part.draws.n_draws)
        same_draws(longer.draws, whole.draws)


def test_the_number_of_cores_changes_no_bit():
    model = nm.Model(data=groups(100, 3))
    one, two = (model.fit("gibbs", draws=20, tune=200, chains=4, rng=5, cores=cores) for cores in (1, 2))
    same_draws(one.draws, two.draws)
