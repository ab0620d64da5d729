"""Gibbs with regression components against all partitions: alone, beside another block, with missing responses, with a kernel."""

from __future__ import annotations

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
)
from exact.marginals import matrix_regression_log_marginal, regression_log_marginal
from support.cover import only
from support.length import by_day, coarser

import nrmmix as nm

CHAINS, DRAWS = 16, by_day(3_500)
X = np.array([-1.0, -0.4, 0.1, 0.7, 1.1, 1.6])
Y = np.array([-1.1, 0.9, 0.2, 0.5, -0.4, 1.8])
DESIGN = np.column_stack([np.ones(6), X])
HYPER = {"b": np.array([0.3, 0.2]), "precision": np.array([[0.5, 0.1], [0.1, 0.4]]), "nu": 3.0, "scale": 0.4}
PRIORS = {"DP": (nm.DirichletProcess(1.0), 1.0, 0.0), "NGGP": (nm.NGGP(0.8, 0.4), 0.8, 0.4)}


def log_marginal(block):
    return regression_log_marginal(DESIGN[block], Y[block], **HYPER)


def posterior(prior, of_block):
    _, mass, sigma = PRIORS[prior]
    return partition_posterior(6, lambda sizes: nrm_log_eppf(sizes, mass, sigma), of_block)


def check(fit, wanted):
    distance, limit = total_variation(wanted, fit.draws["labels"])
    assert limit < coarser(0.04), "too few draws to tell"
    assert distance < limit


@pytest.mark.parametrize("prior", PRIORS)
def test_partition_posterior(prior):
    data = pd.DataFrame({"x": X, "y": Y})
    model = nm.Model("y ~ 1", data, prior=PRIORS[prior][0], family=nm.Regression("1 + x", **HYPER))
    check(model.fit("gibbs", draws=DRAWS, tune=200, chains=CHAINS, rng=1), posterior(prior, log_marginal))


PLANE = {
    "b": np.array([[0.3, -0.1], [0.2, 0.4]]), "precision": HYPER["precision"], "nu": 3.5, "scale": np.array([[0.4, 0.15], [0.15, 0.6]]),
}
TWO = np.column_stack([Y, 0.5 * Y[::-1] + X])


def two_log_marginal(block):
    return matrix_regression_log_marginal(DESIGN[block], TWO[block], **PLANE)


@pytest.mark.parametrize("move", [nm.Gibbs(), nm.SplitMerge(proposals=3)], ids=["gibbs", "split_merge"])
@pytest.mark.parametrize("prior", PRIORS)
def test_partition_posterior_of_two_responses(prior, move):
    data = pd.DataFrame({"x": X, "y": TWO[:, 0], "z": TWO[:, 1]})
    model = nm.Model("y + z ~ 1", data, prior=PRIORS[prior][0], family=nm.Regression("1 + x", **PLANE))
    wanted = posterior(prior, two_log_marginal)
    check(model.fit(move, draws=DRAWS, tune=200, chains=CHAINS, rng=1), wanted)


def test_dependent_responses_are_not_two_regressions():
    """The distance is beyond its limit where the reference takes the residuals for independent."""
    data = pd.DataFrame({"x": X, "y": TWO[:, 0], "z": TWO[:, 1]})
    model = nm.Model("y + z ~ 1", data, prior=nm.DirichletProcess(1.0), family=nm.Regression("1 + x", **PLANE))
    fit = model.fit("gibbs", draws=DRAWS, tune=200, chains=CHAINS, rng=1)
    wrong = posterior("DP", lambda b: sum(
        regression_log_marginal(DESIGN[b], TWO[b, j], PLANE["b"][:, j], PLANE["precision"], PLANE["nu"] - 1, PLANE["scale"][j, j])
        for j in range(2)
    ))
    distance, limit = total_variation(wrong, fit.draws["labels"])
    assert distance > 2 * limit


def test_wrong_marginal_is_noticed():
    """The distance is beyond its limit where the reference forgets the uncertainty of the slope."""
    data = pd.DataFrame({"x": X, "y": Y})
    model = nm.Model("y ~ 1", data, prior=nm.DirichletProcess(1.0), family=nm.Regression("1 + x", **HYPER))
    fit = model.fit("gibbs", draws=DRAWS, tune=200, chains=CHAINS, rng=1)
    stiff = HYPER | {"precision": HYPER["precision"] * np.array([[1.0, 1.0], [1.0, 4.0]])}
    wrong = posterior("DP", lambda b: regression_log_marginal(DESIGN[b], Y[b], **stiff))
    distance, limit = total_variation(wrong, fit.draws["labels"])
    assert distance > 2 * limit


def test_beside_a_gaussian_block():
    z = np.array([0.2, -0.5, 0.4, 1.0, 1.4, 0.9])
    gaussian = {"m": np.array([0.1]), "r": 0.5, "nu": 3.0, "scale": np.array([[0.5]])}
    family = {"z": nm.Gaussian(**gaussian), "y": nm.Regression("1 + x", **HYPER)}
    model = nm.Model("y + z ~ 1", pd.DataFrame({"x": X, "y": Y, "z": z}), prior=nm.DirichletProcess(1.0), family=family)
    wanted = posterior("DP", lambda b: log_marginal(b) + gaussian_log_marginal(z[b][:, None], **gaussian))
    check(model.fit("gibbs", draws=DRAWS, tune=200, chains=CHAINS, rng=2), wanted)


def test_missing_responses():
    """Two regressions: rows that miss one response count in the other."""
    y, z = Y.copy(), Y[::-1].copy()
    y[1], z[[0, 4]] = np.nan, np.nan
    family = {"y": nm.Regression("1 + x", **HYPER), "z": nm.Regression("0 + x", b=0.1, precision=0.7, nu=2.5, scale=0.6)}
    data = pd.DataFrame({"x": X, "y": y, "z": z})
    model = nm.Model("y + z ~ 1", data, prior=nm.NGGP(0.8, 0.4), family=family, missing="marginalize")

    def of_block(block):
        b = np.array(block)
        seen, other = b[~np.isnan(y[b])], b[~np.isnan(z[b])]
        value = regression_log_marginal(DESIGN[seen], y[seen], **HYPER) if len(seen) else 0.0
        if len(other):
            value += regression_log_marginal(DESIGN[other, 1:], z[other], np.array([0.1]), np.array([[0.7]]), 2.5, 0.6)
        return value

    check(model.fit("gibbs", draws=DRAWS, tune=200, chains=CHAINS, rng=3), posterior("NGGP", of_block))


@pytest.mark.parametrize("sigma", only([0.0, 0.3], 0.0))
def test_with_a_covariate_kernel(sigma):
    x = np.array([0.0, 0.0, 1.0, 1.0])
    y = Y[[0, 1, 3, 5]]
    kernel = nm.SquaredExponential(0.7, locations=[0.0, 1.0])
    family = nm.Regression("1 + x", **HYPER)
    prior = nm.NGGP(0.9, sigma) if sigma else nm.DirichletProcess(0.9)
    model = nm.Model("y ~ x", pd.DataFrame({"x": x, "y": y}), kernel=kernel, prior=prior, family=family)
    K = np.exp(-np.subtract.outer([0.0, 1.0], [0.0, 1.0]) ** 2 / (2 * 0.7**2))
    design = np.column_stack([np.ones(4), x])
    wanted = location_posterior(
        KernelJoint(K, [0, 0, 1, 1], 0.9, sigma, 161), lambda b: regression_log_marginal(design[b], y[b], **HYPER)
    )
    fit = model.fit("gibbs", draws=DRAWS, tune=200, chains=CHAINS, rng=4)
    distance, limit = total_variation(wanted, np.concatenate([fit.draws["labels"], fit.draws["locations"]], axis=-1))
    assert limit < coarser(0.06), "too few draws to tell"
    assert distance < limit
