"""Kernels of predictions against their naive references."""

from __future__ import annotations

import naive
import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.kernels.predictive import cluster_means, predictive_scores, predictive_weights
from nrmmix.posterior.predict.rows import targets
from nrmmix.posterior.predict.states import Reach, Replay

PRIORS = [nm.DirichletProcess(1.3), nm.NGGP(0.8, 0.3), nm.NGGP(0.8, 0.6, tau=2.0)]
RUN = {"draws": 5, "tune": 30, "chains": 1, "rng": 3}


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_mixture_weights(prior):
    y = np.random.default_rng(0).normal(size=(12, 1))
    fit = nm.Model(data=y, prior=prior).fit(**RUN)
    replay = Replay(fit.posterior, None)
    for t, _ in enumerate(replay):
        sizes = np.bincount(fit.draws["labels"][0, t])
        found = predictive_weights(replay.data, replay.state, np.ones((1, 1)))[0]
        np.testing.assert_allclose(found, naive.mixture_weights(sizes, float(prior.mass), float(prior.sigma), prior.tau), rtol=1e-6)


@pytest.mark.parametrize("kernel", [nm.SquaredExponential(0.3), nm.Box(0.4)], ids=str)
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_regression_weights(prior, kernel):
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": np.linspace(0, 1, 8).round(2), "y": rng.normal(size=8)})
    fit = nm.fit("y ~ x", data, prior=prior, kernel=kernel, **RUN)
    replay, reach = Replay(fit.posterior, None), Reach(fit.model, targets(fit.model, pd.DataFrame({"x": [0.0, 0.35, 1.1]})))
    for t, width in enumerate(replay):
        labels, where = fit.draws["labels"][0, t], fit.draws["locations"][0, t]
        sizes = np.bincount(labels)
        at = np.array([where[labels == c][0] for c in range(len(sizes))])
        A = fit.draws["v"][0, t] @ np.exp(kernel.log_kernel(fit.model.grid.distance, width))
        K_rows = reach.at(width)
        found = predictive_weights(replay.data, replay.state, K_rows)
        for K, row in zip(K_rows, found, strict=True):
            wanted = naive.predictive_weights(sizes, A[at], A, K[at], K, float(prior.mass), float(prior.sigma), prior.tau)
            np.testing.assert_allclose(row, wanted, atol=1e-6)


def test_scores_and_means_of_clusters():
    y = np.random.default_rng(2).normal(size=(10, 2))
    fit = nm.Model(data=y, prior=nm.DirichletProcess(1.0)).fit(**RUN)
    family = fit.model.family
    base = naive.Base(family.m, family.r, family.nu, family.scale)
    new = np.array([[0.3, -0.2], [4.0, 1.0]])
    replay = Replay(fit.posterior, None)
    points = replay.points(new)
    for t, _ in enumerate(replay):
        labels = fit.draws["labels"][0, t]
        members = [y[labels == c] for c in range(labels.max() + 1)] + [y[:0]]
        wanted = [[naive.log_predictive(x, own, base) for own in members] for x in new]
        np.testing.assert_allclose(predictive_scores(points, replay.state), wanted, atol=1e-9)
        means = [naive.posterior(own, base).m for own in members]
        np.testing.assert_allclose(family.means(cluster_means(replay.points(new[:1]), replay.state, 2)[0]), means, atol=1e-9)
