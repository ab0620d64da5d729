"""Responses given others, and missing cells, against enumeration of all partitions and quadrature."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import gaussian_log_marginal, nrm_log_eppf, partitions
from scipy.integrate import simpson
from scipy.special import logsumexp
from support.length import by_day, coarser

import nrmmix as nm

FAMILY = {"m": np.array([0.0, 1.0]), "r": 0.4, "nu": 4.0, "scale": np.array([[0.6, 0.5], [0.5, 3.0]])}
Y = np.array([[-0.6, 0.3], [0.5, 4.0], [0.7, 2.1], [-1.2, -1.0]])


@lru_cache
def log_prior(sizes, mass):
    return nrm_log_eppf(sizes, mass, 0.0)


def evidence(Y, family, mass=1.3):
    """log p(Y), partitions summed out; `family` gives log marginals of clusters."""
    logs = []
    for labels in partitions(len(Y)):
        blocks = [[i for i in range(len(Y)) if labels[i] == c] for c in range(max(labels) + 1)]
        logs.append(log_prior(tuple(sorted(len(b) for b in blocks)), mass) + sum(family(Y[b]) for b in blocks))
    return logsumexp(logs)


def full(X):
    return gaussian_log_marginal(X, **FAMILY)


def chains(fit):
    for c in range(fit.draws.n_chains):
        one = nm.MCMCResult.__new__(nm.MCMCResult)
        one.__dict__ = dict(fit.__dict__)
        one.draws = type(fit.draws)({name: values[c : c + 1].copy() for name, values in fit.draws.items()})
        yield one


def agree(by_chain, exact, precision):
    by_chain = np.array(by_chain)
    error = by_chain.std(axis=0, ddof=1) / math.sqrt(len(by_chain))
    assert (error < coarser(precision)).all(), f"too few draws to tell: {error}"
    assert (np.abs(by_chain.mean(axis=0) - exact) < 5 * error).all(), (by_chain.mean(axis=0), exact, error)


def test_one_response_given_the_other():
    """Density, distribution function and mean of the second response of a fifth row whose first one is known."""
    fit = nm.Model(data=Y, prior=nm.DirichletProcess(1.3), family=nm.Gaussian(**FAMILY)).fit(
        draws=by_day(60), thin=5, tune=100, chains=16, rng=1)
    known, at, coarse = 0.4, np.array([0.0, 3.0]), np.linspace(-40.0, 40.0, 161)
    density = np.exp([evidence(np.vstack([Y, [known, y]]), full) for y in np.concatenate([at, coarse])])
    step = coarse[1] - coarse[0]
    norm = density[2:].sum() * step
    mean = (density[2:] * coarse).sum() * step / norm
    below = simpson(density[2:][coarse <= 0.0], dx=step) / norm  # the trapezoidal rule is off by step^2 / 12 times the slope at 0
    new = pd.DataFrame({"y1": [known]})

    def answers(one):
        found = [one.predict(new, "density", given=["y1"], at=at)["estimate"].to_numpy(), one.predict(new, given=["y1"])["estimate"]]
        return np.concatenate([*found, one.predict(new, "cdf", given=["y1"], at=[0.0])["estimate"]])

    agree([answers(one) for one in chains(fit)], np.concatenate([density[:2] / norm, [mean, below]]), 0.05)


DIAGONAL = {"m": np.array([0.0, 1.0]), "r": 0.4, "nu": 4.0, "scale": np.array([0.6, 3.0])}
KNOWN = np.array([[1.0, 0.7], [0.7, 2.0]])


def diagonal(X):
    return sum(
        gaussian_log_marginal(X[:, [j]], DIAGONAL["m"][[j]], DIAGONAL["r"], DIAGONAL["nu"], DIAGONAL["scale"][[[j]]]) for j in range(2)
    )


def known_covariance(X):
    n = len(X)
    S = np.kron(np.eye(n), KNOWN) + np.kron(np.ones((n, n)), KNOWN / 0.4)
    e = (X - DIAGONAL["m"]).ravel()
    return float(-0.5 * (e @ np.linalg.solve(S, e) + np.linalg.slogdet(2 * math.pi * S)[1]))


CASES = {
    "full": (nm.Gaussian(**FAMILY), full), "diagonal": (nm.Gaussian("diagonal", **DIAGONAL), diagonal),
    "known": (nm.Gaussian(known_covariance=KNOWN, m=DIAGONAL["m"], r=0.4), known_covariance),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["full", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("known", "diagonal"))])
def test_a_missing_cell(name):
    """Its mean and distribution function given all that is observed."""
    family, log_marginal = CASES[name]
    torn = Y.copy()
    torn[2, 1] = np.nan
    fit = nm.Model(data=torn, prior=nm.DirichletProcess(1.3), family=family, missing="marginalize").fit(
        draws=by_day(200), thin=4, tune=100, chains=16, rng=2
    )
    grid = np.linspace(-30.0, 30.0, 301)
    density = np.exp([evidence(np.where(np.isnan(torn), y, torn), log_marginal) for y in grid])
    density /= density.sum()
    exact = [(density * grid).sum(), (density * (grid < 1.9)).sum()]

    def answers(one):
        found = one.impute(draws=60, rng=3)
        return [found.cells["estimate"].iloc[0], np.mean([table["y2"].iloc[2] < 1.9 for table in found])]

    agree([answers(one) for one in chains(fit)], exact, 0.05)
    at_random = [table["y2"].iloc[2] for table in fit.impute(draws=400, rng=4)]
    assert np.std(at_random) > 0.5 * math.sqrt((density * (grid - exact[0]) ** 2).sum()), "draws spread, they are no estimates"
