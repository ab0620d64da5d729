"""Kernels of predictions against their naive references."""

from __future__ import annotations

import naive
import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.kernels.core.state import Hyper
from nrmmix.kernels.measure.prediction import fill_octets, octet_sums, octets
from nrmmix.posterior.predict.rows import CovariateWeights, prediction_rows
from nrmmix.posterior.predict.states import states_of

PRIORS = [nm.DirichletProcess(1.3), nm.NGGP(0.8, 0.3), nm.NGGP(0.8, 0.6, tau=2.0)]
RUN = {"draws": 5, "tune": 30, "chains": 1, "rng": 3}


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_mixture_weights(prior):
    y = np.random.default_rng(0).normal(size=(12, 1))
    fit = nm.Model(data=y, prior=prior).fit(**RUN)
    covariates = CovariateWeights(fit.model, prediction_rows(fit.model, None))
    for t, state in enumerate(states_of(fit.posterior, None)):
        sizes = np.bincount(fit.draws["labels"][0, t])
        found = state.weights(covariates)[0]
        np.testing.assert_allclose(found, naive.mixture_weights(sizes, float(prior.mass), float(prior.sigma), prior.tau), rtol=1e-6)


@pytest.mark.parametrize("kernel", [nm.SquaredExponential(0.3), nm.Box(0.4)], ids=str)
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_regression_weights(prior, kernel):
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": np.linspace(0, 1, 8).round(2), "y": rng.normal(size=8)})
    fit = nm.fit("y ~ x", data, prior=prior, kernel=kernel, **RUN)
    covariates = CovariateWeights(fit.model, prediction_rows(fit.model, pd.DataFrame({"x": [0.0, 0.35, 1.1]})))
    width = np.array(kernel.widths, float)
    for t, state in enumerate(states_of(fit.posterior, None)):
        labels, where = fit.draws["labels"][0, t], fit.draws["locations"][0, t]
        sizes = np.bincount(labels)
        at = np.array([where[labels == c][0] for c in range(len(sizes))])
        A = fit.draws["A"][0, t]
        K_rows, found = covariates.at(width), state.weights(covariates)
        for K, row in zip(K_rows, found, strict=True):
            wanted = naive.predictive_weights(sizes, A[at], A, K[at], K, float(prior.mass), float(prior.sigma), prior.tau)
            np.testing.assert_allclose(row, wanted, atol=1e-6)


def test_scores_and_means_of_clusters():
    y = np.random.default_rng(2).normal(size=(10, 2))
    fit = nm.Model(data=y, prior=nm.DirichletProcess(1.0)).fit(**RUN)
    family = fit.model.family
    scales = fit.draws["scale"] * [law.mean for law in family.scale]
    new = np.array([[0.3, -0.2], [4.0, 1.0]])
    states = states_of(fit.posterior, None)
    points = states.points(new, np.zeros((1, 0)))
    for t, state in enumerate(states):
        labels, base = fit.draws["labels"][0, t], naive.Base(family.m, family.r, family.nu, np.diag(scales[0, t]))
        members = [y[labels == c] for c in range(labels.max() + 1)] + [y[:0]]
        wanted = [[naive.log_predictive(x, own, base) for own in members] for x in new]
        np.testing.assert_allclose(state.log_densities(points), wanted, atol=1e-9)
        means = [naive.posterior(own, base).m for own in members]
        np.testing.assert_allclose(family.means(state.means(points)[0]), means, atol=1e-9)


@pytest.mark.parametrize("P", [1, 7, 40, 64, 65, 200])
@pytest.mark.parametrize("v", [0.0, 3e-8, 0.7, 4e20])
def test_sums_of_logarithms_and_quotients_by_eight(P, v):
    rng = np.random.default_rng(P)
    base, K = rng.gamma(0.3, 1.0, P) + 1e-30, rng.uniform(size=P) ** 9 * (rng.uniform(size=P) < 0.8)
    octet = np.full((9, octets(P)), np.nan)
    fill_octets(base, K, octet)
    logs, quotients = octet_sums(octet, v)
    b = base + v * K
    np.testing.assert_allclose(logs, np.log(b).sum(), rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(quotients, (K / b).sum(), rtol=1e-12)


@pytest.mark.parametrize("mass, kernel", [(1.3, nm.Laplace(0.05)), (0.01, nm.Box(0.1, locations=np.linspace(0, 1, 11)[:, None]))], ids=str)
def test_weights_by_products_are_those_by_logarithms(mass, kernel):
    """Also where no cluster is in reach, and the tail so heavy that products of eight are beyond floating point."""
    x = np.concatenate([np.linspace(0, 0.2, 10), np.linspace(0.8, 1, 10)])
    data = pd.DataFrame({"x": x, "y": np.random.default_rng(1).normal(size=20)})
    fit = nm.fit("y ~ x", data, prior=nm.DirichletProcess(mass), kernel=kernel, **RUN)
    covariates = CovariateWeights(fit.model, prediction_rows(fit.model, pd.DataFrame({"x": [0.0, 0.15, 0.5, 1.0]})))
    for state in states_of(fit.posterior, None):
        by_products = state.weights(covariates)
        state.data.R0[0] *= 1.0 + 1e-13  # no longer all the same
        by_logarithms = state.weights(covariates)
        state.data.R0[0] /= 1.0 + 1e-13
        np.testing.assert_allclose(by_products, by_logarithms, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(by_products.sum(axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize("prior", [nm.DirichletProcess(0.01), nm.NGGP(0.8, 0.3), nm.FiniteMixture(4)], ids=str)
def test_weights_where_v_is_as_large_as_it_may_be(prior):
    """Where tau is nothing beside A, sizes of atoms may be in any unit: A as large as e^600 gives the weights that e^50 gives."""
    x = np.linspace(0, 1, 12)
    data = pd.DataFrame({"x": x, "y": np.random.default_rng(1).normal(size=12)})
    fit = nm.fit("y ~ x", data, prior=prior, kernel=nm.SquaredExponential(0.1, locations=np.linspace(0, 1, 9)[:, None]), **RUN)
    covariates = CovariateWeights(fit.model, prediction_rows(fit.model, pd.DataFrame({"x": [-0.3, 0.0, 0.15, 0.5]})))
    for state in states_of(fit.posterior, None):
        A, hyper = state.state.cache.A, state.state.hyper
        A *= np.exp(50.0 - np.log(A).min())
        hyper[Hyper.MASS] *= np.exp(-50.0 * hyper[Hyper.SIGMA]) if hyper[Hyper.SIGMA] > 0 else 1.0
        wanted = state.weights(covariates)
        shift = 600.0 - np.log(A).max()
        A *= np.exp(shift)
        hyper[Hyper.MASS] *= np.exp(-shift * hyper[Hyper.SIGMA]) if hyper[Hyper.SIGMA] > 0 else 1.0
        np.testing.assert_allclose(state.weights(covariates), wanted, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(wanted.sum(axis=1), 1.0, atol=1e-6)
