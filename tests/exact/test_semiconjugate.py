"""Gibbs with held parameters against all partitions: own, shared and known precisions, beside conjugate blocks, with a kernel."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import (
    KernelJoint,
    gaussian_log_marginal,
    location_posterior,
    nrm_log_eppf,
    partition_posterior,
    total_variation,
    z_score,
)
from exact.marginals import regression_log_marginal, semiconjugate_log_marginal
from exact.shared_precision import MEAN, PRECISION, PRIORS, RATE, SHAPE, VARIANCE, M, N, Y, shared_posterior
from scipy import stats
from support.cover import only
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.state import DONE
from nrmmix.kernels.moves.algorithm8 import AUXILIARY
from nrmmix.kernels.moves.gibbs import gibbs_one

CHAINS, DRAWS = 16, by_day(4_000)


def of_column(y, precision=(SHAPE, RATE)):
    seen = y[~np.isnan(y)]
    return semiconjugate_log_marginal(seen, M, VARIANCE, precision) if len(seen) else 0.0


def posterior(prior, of_block):
    _, mass, sigma = PRIORS[prior]
    return partition_posterior(N, lambda sizes: nrm_log_eppf(sizes, mass, sigma), of_block)


def check(fit, wanted, limit=0.06):
    distance, largest = total_variation(wanted, fit.draws["labels"])
    assert largest < coarser(limit), "too few draws to tell"
    assert distance < largest


def run(model, rng, **options):
    return model.fit("gibbs", **({"draws": DRAWS, "tune": 200, "chains": CHAINS, "rng": rng} | options))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("precision", ["own", "known"])
def test_partition_posterior(prior, precision):
    given, of_reference = (PRECISION, (SHAPE, RATE)) if precision == "own" else (2.5, 2.5)
    model = nm.Model(data=Y[:, :1], prior=PRIORS[prior][0], family=nm.SemiconjugateGaussian(MEAN, given))
    check(run(model, 1), posterior(prior, lambda b: of_column(Y[b, 0], of_reference)))


def test_two_responses_with_a_missing_cell():
    y = Y.copy()
    y[1, 0] = np.nan
    model = nm.Model(data=y, prior=PRIORS["NGGP"][0], family=nm.SemiconjugateGaussian(MEAN, PRECISION), missing="marginalize")
    wanted = posterior("NGGP", lambda b: of_column(y[b, 0]) + of_column(y[b, 1]))
    check(run(model, 2, init="each"), wanted)


@entry(MOVE_T)
def forgetful_sweep(data, state, memory, rng):
    """Algorithm 8 that gives each of the new parameters the whole weight of a new cluster."""
    for i in range(state.labels.shape[0]):
        state.cache.log_new[0] += math.log(AUXILIARY)
        gibbs_one(data, state, i, rng)
        state.cache.log_new[0] -= math.log(AUXILIARY)
    return DONE


class Forgetful(nm.Gibbs):
    entry = forgetful_sweep


def test_wrong_weights_are_noticed():
    model = nm.Model(data=Y[:, :1], prior=PRIORS["DP"][0], family=nm.SemiconjugateGaussian(MEAN, PRECISION))
    fit = model.fit(Forgetful(), draws=DRAWS, tune=200, chains=CHAINS, init="one", rng=3)
    distance, limit = total_variation(posterior("DP", lambda b: of_column(Y[b, 0])), fit.draws["labels"])
    assert distance > 2 * limit


@pytest.mark.parametrize(("prior", "d"), [("DP", 1), ("NGGP", 2)])
def test_shared_precision(prior, d):
    y = Y[:, :d]
    model = nm.Model(data=y, prior=PRIORS[prior][0], family=nm.SemiconjugateGaussian(MEAN, PRECISION, shared_precision=True))
    fit = run(model, 4, init="one")
    wanted, means = shared_posterior(prior, y)
    check(fit, wanted)
    assert fit.draws["precision"].shape == (CHAINS, DRAWS, d)
    for j in range(d):
        assert abs(z_score(fit.draws["precision"][..., j], means[j])) < 4
        assert fit.draws["precision"][..., j].mean(axis=1).std() < coarser(0.2 * means[j]), "too few draws to tell"


def test_beside_conjugate_blocks():
    x = np.array([-1.0, -0.4, 0.3, 0.9, 1.4])
    w = np.array([0.4, -0.2, 0.8, 1.5, 0.1])
    line = {"b": np.array([0.3, 0.2]), "precision": np.array([[0.5, 0.1], [0.1, 0.4]]), "nu": 3.0, "scale": 0.4}
    gaussian = {"m": np.array([0.1]), "r": 0.5, "nu": 3.0, "scale": np.array([[0.5]])}
    data = pd.DataFrame({"x": x, "y": Y[:, 0], "z": Y[:, 1], "w": w})
    family = {"w": nm.Gaussian(**gaussian), "y": nm.SemiconjugateGaussian(MEAN, PRECISION), "z": nm.Regression("1 + x", **line)}
    model = nm.Model("y + z + w ~ 1", data, prior=PRIORS["DP"][0], family=family)
    design = np.column_stack([np.ones(N), x])
    wanted = posterior("DP", lambda b: (
        of_column(Y[b, 0]) + regression_log_marginal(design[b], Y[b, 1], **line) + gaussian_log_marginal(w[b][:, None], **gaussian)
    ))
    check(run(model, 5), wanted)


@pytest.mark.parametrize("sigma", only([0.0, 0.3], 0.3))
def test_with_a_covariate_kernel(sigma):
    x, y = np.array([0.0, 0.0, 1.0, 1.0]), Y[[0, 1, 2, 4], 0]
    kernel = nm.SquaredExponential(0.7, locations=[0.0, 1.0])
    prior = nm.NGGP(0.9, sigma) if sigma else nm.DirichletProcess(0.9)
    family = nm.SemiconjugateGaussian(MEAN, PRECISION)
    model = nm.Model("y ~ x", pd.DataFrame({"x": x, "y": y}), kernel=kernel, prior=prior, family=family)
    K = np.exp(-np.subtract.outer([0.0, 1.0], [0.0, 1.0]) ** 2 / (2 * 0.7**2))
    of_rows = cache(lambda rows: of_column(y[list(rows)]))
    wanted = location_posterior(KernelJoint(K, [0, 0, 1, 1], 0.9, sigma, 161), lambda b: of_rows(tuple(b)))
    fit = run(model, 6)
    distance, limit = total_variation(wanted, np.concatenate([fit.draws["labels"], fit.draws["locations"]], axis=-1))
    assert limit < coarser(0.06), "too few draws to tell"
    assert distance < limit


def test_parameters_given_the_partition():
    """Moments of the held mean and precision of the cluster of the first row, over draws in which all rows are together."""
    model = nm.Model(data=Y[:, :1], prior=nm.DirichletProcess(1.0), family=nm.SemiconjugateGaussian(MEAN, PRECISION))
    fit = run(model, 7)
    together = fit.draws["n_clusters"] == 1
    x = np.linspace(-12.0, 7.0, 1901)
    precision, y = np.exp(x), Y[:, 0]
    f = stats.gamma.logpdf(precision, SHAPE, scale=1 / RATE) + x
    f = f + np.array([semiconjugate_log_marginal(y, M, VARIANCE, float(value)) for value in precision])
    weight = np.exp(f - f.max()) / np.exp(f - f.max()).sum()
    mu = (M / VARIANCE + precision * y.sum()) / (1 / VARIANCE + N * precision)
    for value, wanted in (
        (fit.draws["theta"][..., 0, 0], weight @ mu),
        (fit.draws["theta"][..., 0, 1], weight @ precision),
        (fit.draws["theta"][..., 0, 0] ** 2, weight @ (mu**2 + 1 / (1 / VARIANCE + N * precision))),
    ):
        by_chain = np.array([one[here].mean() for one, here in zip(value, together, strict=True)])
        z = (by_chain.mean() - wanted) / (by_chain.std(ddof=1) / math.sqrt(CHAINS))
        assert abs(z) < 4
        assert by_chain.std() < 0.2 * abs(wanted) + 0.1
