"""Split-merge of density regression, locations integrated out, against quadrature over v for every partition and set of locations."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from exact import priors
from exact.enumeration import KernelJoint, location_posterior, normalised, total_variation
from exact.priors import log_marginal, regression, states
from support.cover import by_turns, each_once, only
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.kernels.moves import split_merge

CHAINS, DRAWS = 8, by_day(10_000)
MOVES = {
    "sequential": nm.SplitMerge(proposals=2, proposal="sequential"),
    "restricted Gibbs": nm.SplitMerge(proposals=2, scans=1),
}


# covariate of each observation, locations, kernel
DESIGNS = priors.DESIGNS | {
    "3 locations": ([0.0, 1.0, 1.0, 0.0], [0.0, 0.4, 1.0], nm.SquaredExponential(0.5, locations=[0.0, 0.4, 1.0])),
    "3 groups": ([0.0, 0.5, 1.0], [0.2, 0.8], nm.SquaredExponential(0.2, locations=[0.2, 0.8])),
}


@pytest.mark.parametrize(("design", "sigma", "move"), only(
    each_once(DESIGNS, [0.0, 0.3], MOVES), ("box", 0.3, "restricted Gibbs"),
))
def test_partition_and_locations(design, sigma, move):
    data, K, group, kernel = priors.setting(design, DESIGNS)
    fit = regression(data, kernel, priors.nggp(sigma)).fit(MOVES[move], draws=DRAWS, tune=500, chains=CHAINS, rng=11)
    assert fit.proposals()["accepted"].min() > 0
    priors.compare(fit, location_posterior(KernelJoint(K, group, 1.3, sigma, 161 if K.shape[0] == 2 else 101), log_marginal))


@pytest.mark.nightly
@pytest.mark.parametrize(("measure", "move"), only(
    each_once(priors.MEASURES, MOVES), ("finite-2", "sequential"),
))
def test_other_measures(measure, move):
    data, K, group, kernel = priors.setting("se")
    prior, law = priors.of_measure(K, group, **priors.SPREAD.get(measure, {"points": 161}))[measure]
    fit = priors.regression(data, kernel, prior).fit(MOVES[move], draws=DRAWS, tune=500, chains=CHAINS, rng=5)
    log_p = priors.with_likelihood(law(), len(data))
    priors.compare(fit, normalised(list(log_p), list(log_p.values())))


@pytest.mark.nightly
@pytest.mark.parametrize("move", only(MOVES, "sequential"))
def test_widths_of_atoms(move):
    data, _, group, _ = priors.setting("se", DESIGNS)
    d = np.abs(np.subtract.outer([0.0, 1.0], [0.1, 0.8]))
    K = np.stack([np.exp(-(d[:, p] ** 2) / (2 * w**2)) for p in range(2) for w in (0.4, 1.2)], axis=1)
    kernel = nm.SquaredExponential(nm.PerAtom((0.4, 1.2)), locations=[0.1, 0.8])
    fit = regression(data, kernel, nm.NGGP(1.3, 0.3)).fit(MOVES[move], draws=DRAWS, tune=500, chains=CHAINS, rng=3)
    priors.compare(fit, location_posterior(KernelJoint(K, group, 1.3, 0.3, 161), log_marginal))


@pytest.mark.nightly
@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_in_a_list_with_a_sampled_width(sigma):
    """What `method="split_merge"` stands for and Gibbs alone draw the same law, width included."""
    data, _, _, _ = priors.setting("se", DESIGNS)
    built = regression(data, nm.SquaredExponential(nm.LogNormal(-0.5, 0.6), locations=[0.0, 1.0]), priors.nggp(sigma))
    fits = [built.fit(method, draws=DRAWS, tune=500, chains=CHAINS, rng=7) for method in ("split_merge", "gibbs")]
    assert fits[0].cycle.moves[0].proposal == "sequential" and isinstance(fits[0].cycle.moves[-1], nm.Relocation)
    for name in ("width", "n_clusters"):
        means = [fit.draws[name].mean(axis=1) for fit in fits]
        error = np.sqrt(sum(mean.var(ddof=1) / CHAINS for mean in means))
        assert abs(means[0].mean() - means[1].mean()) < 5 * error
        assert error < coarser(0.02 * means[1].mean()), "too few draws to tell"


# ---- wrong moves

WRONG = (  # what stands in `split_merge`, and what takes its place
    ("trial, reach, FIRST_PART, SECOND_PART,", "trial, reach, FIRST_PART, FIRST_PART,"),  # one part for both
    ("state.cache.log_K_sum, k_i, k_j,", "state.cache.log_K_sum, k_i, k_i,"),  # one cluster for both
)


@dataclass(frozen=True)
class Mutant(nm.SplitMerge):
    entry: ClassVar = None


@pytest.mark.parametrize("wrong", by_turns([None, (WRONG[0],), (WRONG[1],)], 4, 3), ids=["right", "splits", "merges"])
def test_wrong_ratios_are_found(monkeypatch, wrong):
    move = inspect.getsource(split_merge.split_merge.function)
    if wrong:
        assert move.count(wrong[0]) == 1
        move = move.replace(*wrong)
    space = dict(vars(split_merge))
    exec(move, space)
    monkeypatch.setattr(Mutant, "entry", space["split_merge"])
    data, K, group, kernel = priors.setting("3 groups", DESIGNS)  # so narrow a kernel that ratios differ much
    moves = [Mutant(proposals=2, proposal="sequential")]
    fit = regression(data, kernel, nm.NGGP(1.3, 0.3)).fit(moves, draws=2 * DRAWS, tune=500, chains=CHAINS, rng=2)
    exact = location_posterior(KernelJoint(K, group, 1.3, 0.3, 101), log_marginal)
    distance, limit = total_variation(exact, states(fit))
    assert distance > 1.5 * limit if wrong else distance < limit
