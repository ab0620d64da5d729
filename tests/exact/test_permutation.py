"""The permutation sampler against all partitions of 5 and 6 observations: every kind of it, every prior, families of every kind."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact.enumeration import dirichlet_log_eppf, partition_posterior, total_variation, z_score
from exact.hyperparameters import HYPER, base, hyper_posterior, observations
from exact.matrix import PRIORS, families
from scipy.special import gammaln, logsumexp
from support.cover import by_turns, each_once

import nrmmix as nm
from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.state import Count
from nrmmix.kernels.moves.permutation.permutation import LAST, move

CHAINS = 16
CASES = families()
FULL = "Gaussian, full, d = 2"
MEASURES = ("DP(1)", "NGGP(0.8, 0.2)", "NGGP(0.5, 0.6, tau 2)", "NIG(0.7)", "PY(0.9, 0.3)")
KINDS = {
    "table": [nm.Permutation("table")],
    "metropolis": [nm.Permutation()],
    "table, markov": [nm.Permutation("table", order="markov")],
    "metropolis, markov": [nm.Permutation(order="markov")],
    "beam 0.3": [nm.Permutation(beam=0.3), nm.Gibbs(subset=1)],
    "beam 0.01": [nm.Permutation(beam=0.01), nm.Gibbs(subset=1)],
    "beam 0.3, markov": [nm.Permutation(beam=0.3, order="markov"), nm.Gibbs(subset=1)],
    "uniform after projections": [nm.Permutation(order="projection")],
}


def distance(prior: str, family: str, moves: list, draws: int, rng: int = 1) -> tuple[float, float]:
    case, (measure, log_eppf) = CASES[family], PRIORS[prior]
    fit = case.build(measure).fit(moves, draws=draws, tune=100, chains=CHAINS, rng=rng)
    return total_variation(partition_posterior(case.n, log_eppf, case.log_marginal), fit.draws["labels"], deviations=5.0)


@pytest.mark.parametrize(("kind", "prior"), by_turns(each_once(KINDS, MEASURES)))
def test_every_kind(kind, prior):
    apart, limit = distance(prior, FULL, KINDS[kind], draws=1500)
    assert limit < 0.07, "too few draws to tell"
    assert apart < limit


@pytest.mark.parametrize(("family", "kind", "prior"), each_once(
    ["Gaussian, diagonal", "Gaussian, known covariance", "Multinomial, sparse", "blocks of three families, cells missing",
     "Gaussian, full, cells missing"],
    ["metropolis", "metropolis, markov"], MEASURES,
))
def test_families(family, kind, prior):
    apart, limit = distance(prior, family, KINDS[kind], draws=600)
    assert limit < 0.08, "too few draws to tell"
    assert apart < limit


def test_missing_cells_and_a_beam():
    apart, limit = distance("NGGP(0.8, 0.2)", "Gaussian, full, cells missing", KINDS["beam 0.3"], draws=2000)
    assert limit < 0.05, "too few draws to tell"
    assert apart < limit


@entry(MOVE_T)
def always_adapting(data, state, memory, rng):
    """The slope follows the present number of clusters after tuning too."""
    tuning = state.num[Count.TUNING]
    state.num[Count.TUNING] = 1
    memory.learnt[LAST] = state.num[Count.CLUSTERS]
    status = move(data, state, memory, True, rng)
    state.num[Count.TUNING] = tuning
    return status


@entry(MOVE_T)
def whatever_the_beam(data, state, memory, rng):
    """The old partition need not be in the beam."""
    return move(data, state, memory, False, rng)


class AlwaysAdapting(nm.Permutation):
    entry = always_adapting


class WhateverTheBeam(nm.Permutation):
    entry = whatever_the_beam


WRONG = {
    "always adapting": [AlwaysAdapting()],
    "whatever the beam of 0.3": [WhateverTheBeam(beam=0.3), nm.Gibbs(subset=1)],
    "whatever the beam of 0.05": [WhateverTheBeam(beam=0.05), nm.Gibbs(subset=1)],
}


@pytest.mark.parametrize("wrong", by_turns(WRONG, 4, 3))
def test_wrong_ones_are_found(wrong):
    apart, limit = distance("DP(1)", FULL, WRONG[wrong], draws=3000)
    assert apart > 2 * limit


class Uncertain(nm.GibbsType):
    """Finite mixtures of two or of four components, each as likely, with Dirichlet parameter 0.6."""

    def __init__(self) -> None:
        super().__init__(sigma=-0.6)

    def log_v(self, n: int) -> np.ndarray:
        table = np.full(n + 1, -np.inf)
        for k in range(1, min(n, 4) + 1):
            terms = [
                gammaln(0.6 * M) - gammaln(0.6 * M + n) + k * math.log(0.6) + gammaln(M + 1) - gammaln(M - k + 1)
                for M in (2, 4) if k <= M
            ]
            table[k] = logsumexp(terms) + math.log(0.5)
        return table


def uncertain_log_eppf(sizes: tuple[int, ...]) -> float:
    return float(logsumexp([dirichlet_log_eppf(sizes, M, 0.6 * M) for M in (2, 4)]) + math.log(0.5))


@pytest.mark.parametrize(("prior", "kind"), each_once(
    ["stable(0.4)", "PY(-0.2, 0.5)", "finite(3, 1.2)", "finite(20, 2)", "of one's own"],
    ["table", "metropolis", "metropolis, markov", "beam 0.3"],
))
def test_priors_with_a_bound_or_a_table(prior, kind):
    measure, log_eppf = (Uncertain(), uncertain_log_eppf) if prior == "of one's own" else PRIORS[prior]
    case = CASES["Gaussian, diagonal"]
    fit = case.build(measure).fit(KINDS[kind], draws=2000, tune=100, chains=CHAINS, rng=1)
    apart, limit = total_variation(partition_posterior(case.n, log_eppf, case.log_marginal), fit.draws["labels"], deviations=5.0)
    assert limit < 0.07, "too few draws to tell"
    assert apart < limit


@pytest.mark.parametrize(
    ("prior", "integrate_mass", "kind"), each_once(["DP", "NGGP"], [True, False], ["metropolis", "table", "beam and Gibbs"]))
def test_sampled_hyperparameters(prior, integrate_mass, kind):
    measure, mass_prior, sigma_prior = HYPER[prior]
    X, family = observations(6, 1), base(1)
    program = "table" if kind == "table" else "metropolis"
    moves = [nm.Permutation(program, integrate_mass=integrate_mass, beam=0.1 if kind == "beam and Gibbs" else None)]
    if kind == "beam and Gibbs":
        moves.append(nm.Gibbs(subset=1))
    fit = nm.Model(data=X, prior=measure, family=nm.Gaussian(**family)).fit(moves, draws=1600, tune=100, chains=CHAINS, rng=5)
    mass, sigma, K = hyper_posterior(X, family, mass_prior, sigma_prior)
    assert abs(z_score(fit.draws["mass"], mass)) < 4
    assert abs(z_score(fit.draws["n_clusters"].astype(float), K)) < 4
    if prior == "NGGP":
        assert abs(z_score(fit.draws["sigma"], sigma)) < 4
    assert fit.draws["mass"].mean(axis=1).std() < 0.1 * mass, "too few draws to tell"


def test_projections_need_tuning():
    model = CASES[FULL].build(nm.DirichletProcess(1.0))
    with pytest.raises(ValueError, match="random projections run in tuning only"):
        model.fit([nm.Permutation(order="projection"), nm.Gibbs()], draws=10, tune=0)
