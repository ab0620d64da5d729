"""The slice sampler alone against all partitions: every kind of measure and of family, the cap, growth, and mutants that are found out."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import (
    LOG_U,
    gaussian_log_marginal,
    nrm_log_eppf,
    partition_posterior,
    partitions,
    psi1,
    total_variation,
    urn_log_eppf,
    z_score,
)
from exact.hyperparameters import HYPER_OF_PARTITIONS, LOGNORMAL, base, mass_nodes, observations, sigma_nodes
from exact.matrix import DEVIATIONS, PRIORS, Y, families
from exact.shared_precision import MEAN, PRECISION, shared_posterior
from exact.shared_precision import Y as Y_SHARED
from scipy import stats
from scipy.special import gammaln
from support.cover import by_turns, each_once

import nrmmix as nm
from nrmmix.inference.mcmc.chain import Record, new_chain
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.methods import named
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.state import Count
from nrmmix.kernels.moves.atoms.slice import draw_partition, draw_sizes
from nrmmix.kernels.moves.shared import sort_together

CHAINS = 16


def remembered(case):
    """Marginals are the same for every prior."""
    log_marginal = cache(lambda block: case.log_marginal(list(block)))
    return case._replace(log_marginal=lambda block: log_marginal(tuple(block)))


CASES = {name: remembered(case) for name, case in families().items()}
FULL = CASES["Gaussian, full, d = 2"]
CHOSEN = (
    "Gaussian, full, d = 2", "Gaussian, full, cells missing", "Gaussian, diagonal, cells missing", "Gaussian, known covariance",
    "semiconjugate Gaussian", "Multinomial, sparse", "blocks of three families, cells missing",
)


def law(prior, case=FULL):
    return partition_posterior(case.n, PRIORS[prior][1], case.log_marginal)


def run(model, draws, method=None, rng=1, **options):
    return model.fit(method or nm.Slice(max_atoms=200), **({"draws": draws, "tune": 200, "chains": CHAINS, "rng": rng} | options))


def check(fit, posterior, largest=0.05):
    distance, limit = total_variation(posterior, fit.draws["labels"], DEVIATIONS)
    assert limit < largest, "too few draws to tell"
    assert distance <= limit  # of one observation both are 0


def skipped(fit):
    """Share of the calls."""
    tally = np.array([checkpoint.state["tally"][0] for checkpoint in fit.checkpoints])
    return float((tally[:, layout.SKIPPED] * fit.model.n_obs / tally[:, layout.PROPOSED]).mean())


@pytest.mark.parametrize(
    ("prior", "family"), by_turns(each_once([name for name in PRIORS if name not in ("NGGP(0.8, 0)", "finite(20, 2)")], CHOSEN)))
def test_partition_posterior(prior, family):
    case = CASES[family]
    check(run(case.build(PRIORS[prior][0]), 2500), law(prior, case), 0.07)


@pytest.mark.parametrize(
    ("prior", "n"), each_once(["DP(1)", "NGGP(0.5, 0.6, tau 2)", "PY(-0.2, 0.5)", "stable(0.4)", "finite(3, 1.2)"], [1, 2]))
def test_one_and_two_observations(prior, n):
    S = np.array([[1.0, 0.3], [0.3, 1.5]])
    model = nm.Model(data=Y[:n], prior=PRIORS[prior][0], family=nm.Gaussian(m=[0.2, 0.4], r=0.3, nu=4.0, scale=S))
    check(run(model, 2000), partition_posterior(n, PRIORS[prior][1], FULL.log_marginal))


@pytest.mark.nightly
def test_a_precision_that_components_share():
    y = Y_SHARED[:, :2]
    model = nm.Model(data=y, prior=nm.NGGP(0.8, 0.4), family=nm.SemiconjugateGaussian(MEAN, PRECISION, shared_precision=True))
    fit = run(model, 6000, nm.Slice(max_atoms=50))
    wanted, means = shared_posterior("NGGP", y)
    check(fit, wanted)
    for j in range(2):
        assert abs(z_score(fit.draws["precision"][..., j], means[j])) < 4


def test_held_parameters_stay_with_their_clusters():
    """Groups so far apart that the partition stays: every row keeps the mean and the precision of its cluster."""
    y = np.repeat([-300.0, 0.0, 300.0], 6)[:, None] + np.linspace(-0.5, 0.5, 18)[:, None]
    family = nm.SemiconjugateGaussian((0.0, 9e4), nm.Gamma(2.0, 0.1))
    model = nm.Model(data=y, prior=nm.PitmanYor(1.0, 0.3), family=family)
    chain = new_chain(model, named("slice")[1], np.repeat([0, 1, 2], 6), np.random.default_rng(1), Record.allocate(model, 50))
    before = chain.state.stat[model.packed.explicit][:, chain.state.labels]
    chain.run(np.zeros(0, np.int64), 0, 1)
    for draw, theta in zip(chain.record.labels, chain.record.explicit, strict=True):
        np.testing.assert_array_equal(draw, np.repeat([0, 1, 2], 6))
        np.testing.assert_array_equal(theta[draw].T, before)
    assert chain.program.tally[0, layout.PROPOSED] == 50 * 18


X, FAMILY = observations(6, 1), base(1)
SAMPLED = {name: HYPER_OF_PARTITIONS[name] for name in ("PY", "stable", "finite")}
SAMPLED["DP"] = (nm.DirichletProcess(nm.LogNormal(0.2, 0.7)), LOGNORMAL, 0.0, urn_log_eppf)


def likelihood_of_sizes():
    """Summed over the partitions of the same sizes."""
    total = Counter()
    for labels in partitions(6):
        blocks = [np.flatnonzero(np.array(labels) == c) for c in range(max(labels) + 1)]
        total[tuple(sorted(map(len, blocks)))] += math.exp(sum(gaussian_log_marginal(X[b], **FAMILY) for b in blocks))
    return total


def check_means(measure, wanted):
    """Posterior means of mass, sigma and K."""
    fit = run(nm.Model(data=X, prior=measure, family=nm.Gaussian(**FAMILY)), 3500, rng=5)
    assert abs(z_score(fit.draws["n_clusters"].astype(float), wanted[2])) < 4
    for parameter, value in zip(("mass", "sigma"), wanted, strict=False):
        if parameter in fit.model.sampled:
            assert abs(z_score(fit.draws[parameter], value)) < 4
            assert fit.draws[parameter].mean(axis=1).std() < 0.1 * value, "too few draws to tell"


@pytest.mark.parametrize("prior", by_turns(SAMPLED))
def test_sampled_hyperparameters(prior):
    measure, mass_prior, sigma_prior, log_eppf = SAMPLED[prior]
    likelihood, total = likelihood_of_sizes(), np.zeros(4)
    for mass, w in mass_nodes(mass_prior):
        for sigma, ws in sigma_nodes(sigma_prior):
            for sizes, p in likelihood.items():
                total += w * ws * p * math.exp(log_eppf(sizes, mass, sigma)) * np.array([1.0, mass, sigma, len(sizes)])
    check_means(measure, total[1:] / total[0])


def test_sampled_hyperparameters_beside_u():
    """mass ~ Gamma(2, 1) integrated out at each u; sigma and u on grids."""
    likelihood, total, u = likelihood_of_sizes(), np.zeros(4), np.exp(LOG_U)
    for sigma, w in sigma_nodes(stats.beta(1, 2)):
        rate = 1.0 + psi1(u, sigma)
        for sizes, p in likelihood.items():
            K, s = len(sizes), np.array(sizes)
            grown = (gammaln(s - sigma) - gammaln(1 - sigma)).sum()
            q = w * p * np.exp(6 * LOG_U - (6 - sigma * K) * np.log1p(u) + grown + gammaln(2 + K) - (2 + K) * np.log(rate))
            total += np.array([q.sum(), (q * (2 + K) / rate).sum(), sigma * q.sum(), K * q.sum()])
    check_means(nm.NGGP(nm.Gamma(2, 1), nm.Beta(1, 2)), total[1:] / total[0])


# ---- the cap


@pytest.mark.nightly
@pytest.mark.parametrize(("sigma", "max_atoms"), by_turns([(0.6, 40), (0.8, 150)]))
def test_calls_that_are_skipped(sigma, max_atoms):
    """More than half of them: the law is the same."""
    model = FULL.build(nm.NGGP(0.8, sigma))
    posterior = partition_posterior(FULL.n, lambda sizes: nrm_log_eppf(sizes, 0.8, sigma), FULL.log_marginal)
    fit = run(model, 10_000, nm.Slice(max_atoms))
    check(fit, posterior)
    assert 0.5 < skipped(fit) < 0.95
    assert skipped(run(model, 1000, nm.Slice(2 * max_atoms))) < skipped(fit) < skipped(run(model, 1000, nm.Slice(max_atoms // 2)))


def test_calls_are_counted():
    """A call that moves nothing: of labels that never changed the tally has none, and skipped calls have no changes."""
    fit = run(FULL.build(nm.DirichletProcess(1.0)), 300, "slice", chains=2)
    for checkpoint, labels in zip(fit.checkpoints, fit.draws["labels"], strict=True):
        tally = checkpoint.state["tally"][0]
        assert tally[layout.PROPOSED] == 300 * FULL.n
        assert tally[layout.SKIPPED] == 0
        changed = (labels[1:] != labels[:-1]).any(axis=1).sum()
        assert changed <= tally[layout.ACCEPTED] <= tally[layout.PROPOSED]


# ---- mutants


FORGETS, HURRIES = 1.0, 2.0


@entry(MOVE_T)
def mutant(data, state, memory, rng):
    """FORGETS all atoms of no cluster but one; HURRIES: draws slices and sizes anew until there are few atoms, as if for want of room."""
    M = draw_sizes(data, state, memory, rng)
    while memory.option[1] == HURRIES and M > 6:
        M = draw_sizes(data, state, memory, rng)
    if memory.option[1] == FORGETS:
        M = min(M, state.num[Count.CLUSTERS] + 1)
    return draw_partition(data, state, memory, M, rng)


class Mutant(nm.Slice):
    entry = mutant
    fault = 0.0

    def options(self, model):
        return (*super().options(model), self.fault)


class Forgetful(Mutant):
    fault = FORGETS


class Hurried(Mutant):
    fault = HURRIES


@pytest.mark.parametrize("move", [Forgetful, Hurried])
def test_mutants_are_found_out(move):
    fit = run(FULL.build(PRIORS["NGGP(0.8, 0.2)"][0]), 4000, move(), rng=7)
    distance, limit = total_variation(law("NGGP(0.8, 0.2)"), fit.draws["labels"], DEVIATIONS)
    assert distance > 2 * limit


# ---- room


def test_room_grows_and_draws_do_not_depend_on_it():
    """A call that wants room goes on with the slices and atoms it has: draws are those of a chain that had room from the start."""
    data = np.random.default_rng(3).normal(size=(40, 1)).cumsum(axis=0)
    model = nm.Model(data=data, prior=nm.NGGP(2.0, 0.7), family=nm.Gaussian(m=0, r=0.1, nu=3, scale=1))
    chains = []
    for doublings in (0, 0, 9):
        record = Record.allocate(model, 60)
        chain = new_chain(model, named("slice")[1], np.zeros(40, np.int64), np.random.default_rng(5), record)
        for _ in range(doublings):
            chain.state = layout.enlarged(chain.state)
        first = chain.state.size.shape[0]
        chain.run(update_addresses(model), 0, 1)
        chains.append((chain, first))
    (a, small), (b, _), (c, large) = chains
    assert a.state.size.shape[0] > 4 * small
    assert c.state.size.shape[0] == large
    for other in (b, c):
        np.testing.assert_array_equal(a.record.labels, other.record.labels)
        np.testing.assert_array_equal(a.record.scalars, other.record.scalars)
    assert len(np.unique(a.record.scalars[:, 0])) > 3


@pytest.mark.parametrize("M", [1, 2, 3, 10, 1000])
def test_atoms_are_sorted(M):
    rng = np.random.default_rng(M)
    sizes = rng.choice(rng.exponential(size=M // 2 + 1), M)  # ties
    sorted_sizes, origin = sizes.copy(), np.arange(M)
    sort_together(sorted_sizes, origin, 1.0)
    np.testing.assert_array_equal(sorted_sizes, -np.sort(-sizes))
    np.testing.assert_array_equal(sizes[origin], sorted_sizes)
    assert len(set(origin)) == M


# ---- models it does not suit


class Antoniak(nm.GibbsType):
    def __init__(self):
        super().__init__(sigma=0.0)

    def log_v(self, n):
        return np.full(n + 1, -math.lgamma(n + 1.0))


def test_refusals():
    line = pd.DataFrame({"x": [0.0, 1.0, 2.0], "y": [0.0, 0.5, 3.0]})
    with pytest.raises(ValueError, match="draws the random measure, and Antoniak has a law of partitions only; methods for this model are"):
        nm.Model("y ~ 1", line, prior=Antoniak()).fit("slice", draws=10)
