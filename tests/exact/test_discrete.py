"""Families of counts and categories: posteriors of all partitions, and closed forms against quadrature and sums."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import nrm_log_eppf, partition_posterior, total_variation
from exact.marginals import bernoulli_log_marginal, categorical_log_marginal, multinomial_log_marginal, poisson_log_marginal
from scipy import integrate, stats
from scipy.sparse import csr_array
from support.cover import each_once
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.kernels.core.entry import SCORE_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.families import poisson

CHAINS, DRAWS = 16, by_day(2_500)
NAN = np.nan

VISITS = np.array([[0, 3], [1, 40], [0, 2], [6, NAN], [9, 35], [NAN, 5]])
MONTHS = np.array([1.0, 2.5, 0.5, 2.0, 3.0, 1.0])
TICKS = np.array([[1, 1, 0], [1, NAN, 0], [0, 0, 1], [0, 0, 1], [1, 1, NAN], [NAN, 0, 1]])
WORDS = np.array([[3, 0, 1, 0], [2, 1, 0, 0], [0, 0, 5, 1], [0, 0, 2, 40], [1, 0, 0, 0], [0, 1, 2, 6]], float)
NAMES = [["red", "red", "blue", None, "green", "blue"], [1, 1, 2, 2, 1, 2]]
CODES = np.array([[2, 2, 0, NAN, 1, 0], [0, 0, 1, 1, 0, 1]]).T


def table(y: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(y, columns=[f"y{j + 1}" for j in range(y.shape[1])])


def poisson_case(complete=False):
    y = np.where(np.isnan(VISITS), 4.0, VISITS) if complete else VISITS
    a, b = np.array([0.7, 1.3]), np.array([0.4, 0.2])
    return {"data": table(y), "family": nm.Poisson(a, b)}, lambda c: poisson_log_marginal(y[c], np.ones(len(c)), a, b)


def exposure_case():
    a, b = np.array([0.7, 1.3]), np.array([0.4, 0.2])
    data = table(VISITS).assign(months=MONTHS)
    return {"data": data, "family": nm.Poisson(a, b, exposure="months")}, lambda c: poisson_log_marginal(VISITS[c], MONTHS[c], a, b)


def bernoulli_case():
    a, b = np.array([0.7, 1.5, 0.4]), np.array([0.9, 0.3, 2.0])
    return {"data": table(TICKS), "family": nm.Bernoulli(a, b)}, lambda c: bernoulli_log_marginal(TICKS[c], a, b)


def categorical_case():
    alpha = [np.full(3, 0.6), np.full(2, 0.6)]
    data = pd.DataFrame({"colour": NAMES[0], "kind": NAMES[1]})
    return {"data": data, "family": nm.Categorical(0.6)}, lambda c: categorical_log_marginal(CODES[c], alpha)


def multinomial_case(sparse=True):
    alpha = np.array([0.4, 0.2, 1.0, 0.3])
    data = csr_array(WORDS) if sparse else table(WORDS)
    return {"data": data, "family": nm.Multinomial(alpha)}, lambda c: multinomial_log_marginal(WORDS[c], alpha)


def mixed_case():
    """Counts, words and categories side by side; a row misses all its words."""
    a, b, alpha = np.array([0.7]), np.array([0.4]), np.full(3, 0.5)
    words = WORDS[:, 1:].copy()
    words[[0, 1, 4]] += [1.0, 0.0, 0.0]
    words[2] = NAN
    data = pd.DataFrame({"w1": words[:, 0], "kind": NAMES[1], "w2": words[:, 1], "w3": words[:, 2]})
    data = data.assign(visits=VISITS[:, 0], months=MONTHS)
    family = {"visits": nm.Poisson(a, b, exposure="months"), ("w1", "w2", "w3"): nm.Multinomial(0.5), "kind": nm.Categorical(1.1)}

    def log_marginal(c):
        return (
            poisson_log_marginal(VISITS[c][:, :1], MONTHS[c], a, b) + multinomial_log_marginal(np.nan_to_num(words[c]), alpha)
            + categorical_log_marginal(CODES[c][:, 1:], [np.full(2, 1.1)])
        )

    return {"data": data, "family": family}, log_marginal


CASES = {
    "Poisson": lambda: poisson_case(complete=True), "Poisson, missing cells": poisson_case, "Poisson, exposure": exposure_case,
    "Bernoulli": bernoulli_case, "Categorical": categorical_case, "Multinomial": multinomial_case, "several": mixed_case,
}
PRIORS = {"DP": (nm.DirichletProcess(1.0), 1.0, 0.0), "NGGP": (nm.NGGP(0.8, 0.6), 0.8, 0.6)}


def posterior(log_marginal, mass, sigma, n=6):
    return partition_posterior(n, lambda sizes: nrm_log_eppf(sizes, mass, sigma), log_marginal)


@pytest.mark.parametrize(("case", "prior"), each_once(CASES, PRIORS))
def test_partition_posterior(case, prior):
    given, log_marginal = CASES[case]()
    measure, mass, sigma = PRIORS[prior]
    fit = nm.Model(**given, prior=measure, missing="marginalize").fit("gibbs", draws=DRAWS, tune=100, chains=CHAINS, rng=3)
    distance, limit = total_variation(posterior(log_marginal, mass, sigma), fit.draws["labels"])
    assert limit < coarser(0.05), "too few draws to tell"
    assert distance < limit


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("case", [*CASES, "dense"])
def test_log_joint(case, prior):
    given, log_marginal = multinomial_case(sparse=False) if case == "dense" else CASES[case]()
    measure, mass, sigma = PRIORS[prior]
    model = nm.Model(**given, prior=measure, missing="marginalize")
    for labels in [(0, 0, 0, 0, 0, 0), (0, 1, 2, 3, 4, 5), (0, 1, 0, 1, 1, 0), (0, 0, 1, 1, 0, 2)]:
        members = [np.flatnonzero(np.array(labels) == c).tolist() for c in range(max(labels) + 1)]
        wanted = nrm_log_eppf([len(c) for c in members], mass, sigma) + sum(map(log_marginal, members))
        assert model.log_joint(labels) == pytest.approx(wanted, abs=1e-9)


plain_score = kernel(poisson.poisson_score.function)


@entry(SCORE_T)
def biased_score(rows, stat, work, out, block, K, i, own):
    """Scores that forget to take the observation out of its own column."""
    return plain_score(rows, stat, work, out, block, K, i, -1)


class BiasedPoisson(nm.Poisson):
    def pack(self, y, inputs):
        packed = super().pack(y, inputs)
        return packed._replace(entries=packed.entries._replace(score=biased_score))


@pytest.mark.parametrize("prior", PRIORS)
def test_biased_scores_are_rejected(prior):
    given, log_marginal = exposure_case()
    family = given["family"]
    given["family"] = BiasedPoisson(family.shape, family.rate, exposure="months")
    measure, mass, sigma = PRIORS[prior]
    fit = nm.Model(**given, prior=measure, missing="marginalize").fit("gibbs", draws=DRAWS, tune=100, chains=CHAINS, rng=3)
    distance, limit = total_variation(posterior(log_marginal, mass, sigma), fit.draws["labels"])
    assert distance > 2 * limit


# ---- the marginals themselves


def test_poisson_marginal_by_quadrature():
    a, b, e = 0.7, 0.4, MONTHS
    y = VISITS[:, 0]
    seen = ~np.isnan(y)

    def likelihood(rate):
        return stats.gamma(a, scale=1 / b).pdf(rate) * stats.poisson.pmf(y[seen], e[seen] * rate).prod()

    wanted = integrate.quad(likelihood, 0, 40, points=[0.01, 0.5, 2, 5], limit=400, epsabs=0, epsrel=1e-10)[0]
    found = poisson_log_marginal(y[:, None], e, np.array([a]), np.array([b]))
    assert found == pytest.approx(np.log(wanted), abs=1e-8)


def test_bernoulli_marginal_by_quadrature():
    a, b = 0.7, 0.9

    def likelihood(p):
        return stats.beta(a, b).pdf(p) * p**3 * (1 - p) ** 2

    wanted = integrate.quad(likelihood, 0, 1, epsabs=0, epsrel=1e-10)[0]
    assert bernoulli_log_marginal(TICKS[:, :1], np.array([a]), np.array([b])) == pytest.approx(np.log(wanted), abs=1e-8)


def test_marginals_sum_to_one():
    """Over all sequences of three categories, and over all counts of a total, with their coefficients."""
    alpha = np.array([0.4, 0.2, 1.0])
    sequences = np.array(list(itertools.product(range(3), repeat=3)), float)
    assert sum(np.exp(categorical_log_marginal(s[:, None], [alpha])) for s in sequences) == pytest.approx(1, abs=1e-12)
    counts = [c for c in itertools.product(range(6), repeat=3) if sum(c) == 5]
    coefficient = [stats.multinomial(5, np.full(3, 1 / 3)).logpmf(c) + 5 * np.log(3) for c in counts]
    total = sum(np.exp(multinomial_log_marginal(np.array([c]), alpha) + log) for c, log in zip(counts, coefficient, strict=True))
    assert total == pytest.approx(1, abs=1e-12)
