"""Collapsed Gibbs with every form of the Gaussian family, with and without missing cells, against all partitions."""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations

import numpy as np
import pytest
from exact.enumeration import nrm_log_eppf, partition_posterior, total_variation
from exact.marginals import (
    known_covariance_log_marginal,
    normal_gamma_log_marginal,
    normal_wishart_log_marginal,
    with_missing_cells,
)
from support.cover import by_turns, each_once

import nrmmix as nm
from nrmmix.kernels.core.clusters import copy_column, has_gaps
from nrmmix.kernels.core.entry import IMPUTE_T, call_update, entry
from nrmmix.kernels.core.state import DONE, Block
from nrmmix.kernels.families.gaussian.missing import impute_missing

CHAINS, DRAWS, TUNE = 16, 3_000, 100
LIMIT = 0.04
MASS, R, NU = 0.8, 0.3, 3.5
PRIORS = {"DP": (nm.DirichletProcess(MASS), 0.0), "NGGP": (nm.NGGP(MASS, 0.4), 0.4)}


def observations(n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(10 * n + d)
    y = np.concatenate([rng.normal(size=(n // 2, d)), 1.5 + 0.5 * rng.normal(size=(n - n // 2, d))])
    return y @ (np.eye(d) + 0.4 * np.tri(d, k=-1)).T


def matrix(d: int, size: float) -> np.ndarray:
    return size * (np.eye(d) + 0.4 * (np.ones((d, d)) - np.eye(d))) * np.outer(np.arange(1, d + 1), np.arange(1, d + 1)) ** 0.5


def form(name: str, d: int):
    """The family, and its marginal."""
    m, full, diagonal = np.linspace(0.5, 0.2, d), matrix(d, 0.6), np.linspace(0.4, 0.8, d)
    nu = NU + d
    return {
        "full": (nm.Gaussian(m=m, r=R, nu=nu, scale=full), lambda X: normal_wishart_log_marginal(X, m, R, nu, full)),
        "diagonal": (
            nm.Gaussian("diagonal", m=m, r=R, nu=NU, scale=diagonal), lambda X: normal_gamma_log_marginal(X, m, R, NU, diagonal)
        ),
        "full, known mean": (nm.Gaussian(known_mean=m, nu=nu, scale=full), lambda X: normal_wishart_log_marginal(X, m, np.inf, nu, full)),
        "diagonal, known mean": (
            nm.Gaussian("diagonal", known_mean=m, nu=NU, scale=diagonal), lambda X: normal_gamma_log_marginal(X, m, np.inf, NU, diagonal)
        ),
        "full, known covariance": (
            nm.Gaussian(known_covariance=full, m=m, r=R), lambda X: known_covariance_log_marginal(X, m, R, full)
        ),
        "diagonal, known covariance": (
            nm.Gaussian("diagonal", known_covariance=diagonal, m=m, r=R),
            lambda X: known_covariance_log_marginal(X, m, R, np.diag(diagonal)),
        ),
    }[name]


FORMS = ["diagonal", "full, known mean", "diagonal, known mean", "full, known covariance", "diagonal, known covariance"]


def check(model: nm.Model, posterior: dict, seed: int) -> None:
    fit = model.fit("gibbs", draws=DRAWS, tune=TUNE, chains=CHAINS, rng=seed)
    distance, limit = total_variation(posterior, fit.draws["labels"])
    assert limit < LIMIT, "too few draws to tell"
    assert distance < limit


def posterior(X: np.ndarray, marginal, sigma: float) -> dict:
    return partition_posterior(len(X), lambda sizes: nrm_log_eppf(sizes, MASS, sigma), lambda block: marginal(X[block]))


@pytest.mark.parametrize(("name", "prior", "d"), each_once(FORMS, PRIORS, [1, 2]))
def test_partition_posterior(name, prior, d):
    measure, sigma = PRIORS[prior]
    family, marginal = form(name, d)
    X = observations(6, d)
    check(nm.Model(data=X, prior=measure, family=family), posterior(X, marginal, sigma), seed=d)


GAPS = {
    2: [(0, 0), (2, 1), (4, 0)],
    3: [(0, 0), (0, 2), (2, 1), (3, 0), (4, 2)],
}


def with_gaps(n: int, d: int) -> np.ndarray:
    X = observations(n, d)
    for i, j in GAPS[d]:
        X[i, j] = np.nan
    return X


CLOSED = ["diagonal", "diagonal, known mean", "diagonal, known covariance", "full, known covariance"]


@pytest.mark.parametrize(("name", "prior", "d"), each_once(CLOSED, PRIORS, [2, 3]))
def test_missing_cells_integrated_out(name, prior, d):
    measure, sigma = PRIORS[prior]
    family, marginal = form(name, d)
    X = with_gaps(6, d)
    model = nm.Model(data=X, prior=measure, family=family, missing="marginalize")
    check(model, posterior(X, marginal, sigma), seed=d)


# ---- missing cells that the chain draws

DRAWN = {
    "apart": (2, [(0, 0), (3, 1)]),
    "one row": (3, [(1, 0), (1, 2)]),
    "two rows": (3, [(0, 1), (4, 0)]),
}


@lru_cache
def drawn_problem(name: str, where: str):
    """Data with gaps, family, and the marginal of every block, the missing cells integrated out by quadrature."""
    d, gaps = DRAWN[where]
    X = observations(5, d)
    for i, j in gaps:
        X[i, j] = np.nan
    family, marginal = form(name, d)
    blocks = {b: with_missing_cells(X[list(b)], marginal) for size in range(1, 6) for b in combinations(range(5), size)}
    return X, family, lambda sigma: partition_posterior(5, lambda s: nrm_log_eppf(s, MASS, sigma), lambda b: blocks[tuple(b)])


@pytest.mark.parametrize(("name", "prior", "where"), by_turns(each_once(["full", "full, known mean"], PRIORS, DRAWN), 3))
def test_missing_cells_drawn(name, prior, where):
    measure, sigma = PRIORS[prior]
    X, family, exact = drawn_problem(name, where)
    check(nm.Model(data=X, prior=measure, family=family, missing="marginalize"), exact(sigma), seed=5)


@entry(IMPUTE_T)
def never(rows, stat, work, block, k, i, rng):
    """Leaves the cells as they are."""
    return DONE


@entry(IMPUTE_T)
def given_itself(rows, stat, work, block, k, i, rng):
    """Draws the cells from the predictive of a cluster that has the row and its old cells."""
    if has_gaps(rows, i, block[Block.FIRST], block[Block.LAST]):
        spare = stat.shape[1] - 1
        copy_column(stat, stat, k, spare)
        call_update(block[Block.UPDATE], rows, stat, block, spare, i, 1.0)
        impute_missing(rows, stat, work, block, spare, i, rng)
    return DONE


@pytest.mark.parametrize("mutant", by_turns([never, given_itself]))
def test_cells_drawn_wrongly_are_noticed(mutant):
    class Mutant(nm.Gaussian):
        def pack(self, y, inputs):
            packed = super().pack(y, inputs)
            return packed._replace(entries=packed.entries._replace(impute=mutant))

    X, family, exact = drawn_problem("full", "apart")
    given = {name: getattr(family, name) for name in ("m", "r", "nu", "scale")}
    model = nm.Model(data=X, prior=PRIORS["DP"][0], family=Mutant(**given), missing="marginalize")
    fit = model.fit("gibbs", draws=DRAWS, tune=TUNE, chains=CHAINS, rng=1)
    distance, limit = total_variation(exact(0.0), fit.draws["labels"])
    assert distance > 2 * limit
