"""Exponential forms of the families: log marginals of whole clusters, expectations as derivatives, columns as kernels make them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact.matrix import families
from scipy.special import gammaln

import nrmmix as nm
from nrmmix.model.families.exponential import NotExponential
from nrmmix.posterior.predict.kernel_states import clusters_of

WITHOUT = ("Gaussian, full, cells missing", "Gaussian, known covariance, cells missing", "semiconjugate Gaussian")
SIDES = [name for name in families() if name not in WITHOUT]
WHOLE = "Gaussian, full, whole rows missing"  # beside another response, which they have
MASS = 0.7


def model_of(name):
    if name != WHOLE:
        return families()[name].build(nm.DirichletProcess(MASS))
    rng = np.random.default_rng(3)
    data = {"a": rng.normal(size=6), "b": rng.normal(size=6), "c": [0, 1, 1, 0, 1, 1], "x": np.arange(6.0)}
    data["d"] = [1.0, 0.5, 2.0, np.nan, 0.0, 1.0]
    data["a"][2] = data["b"][2] = np.nan
    family = {
        "a + b": nm.Gaussian(m=[0.1, 0.2], r=0.3, nu=4, scale=[[1, 0.2], [0.2, 2]]), "c": nm.Bernoulli(1, 2),
        "d": nm.Regression("1 + x", shrinkage=None),
    }
    return nm.Model("a + b + c + d ~ 1", data, family=family, prior=nm.DirichletProcess(MASS), missing="marginalize")


def form_and_rows(model):
    form = model.exponential()
    return form, model.statistics(form)


def whole(form, rows, labels):
    """Counts and statistics of the clusters of a partition."""
    R = np.eye(labels.max() + 1)[:, labels]
    return R.sum(axis=1), rows.whole().totals(R)


@pytest.mark.parametrize("name", [*SIDES, WHOLE])
def test_log_z_of_whole_clusters_is_the_log_marginal(name):
    model = model_of(name)
    form, rows = form_and_rows(model)
    for labels in (np.zeros(rows.n, int), np.arange(rows.n), np.arange(rows.n) % 2, np.minimum(np.arange(rows.n), 2)):
        N, s = whole(form, rows, labels)
        eppf = len(N) * math.log(MASS) + gammaln(N).sum() + gammaln(MASS) - gammaln(MASS + rows.n)
        found = form.log_z(N, s).sum() + rows.log_h.sum()
        assert found == pytest.approx(model.log_joint(labels) - eppf, abs=1e-9)
        if name != WHOLE:
            want = sum(families()[name].log_marginal(np.flatnonzero(labels == k).tolist()) for k in range(len(N)))
            assert found == pytest.approx(want, abs=1e-8)


@pytest.mark.parametrize("name", [*SIDES, WHOLE])
def test_expectations_are_derivatives_of_log_z(name):
    form, rows = form_and_rows(model_of(name))
    r = np.random.default_rng(1).random((2, rows.n))
    N, s = r.sum(axis=1), rows.whole().totals(r)
    eta, a = form.expectations(N, s)
    assert eta.shape == s.shape and a.shape == N.shape
    e = 1e-5
    for j in range(form.n_stat):
        step = np.zeros_like(s)
        step[:, j] = e
        assert (form.log_z(N, s + step) - form.log_z(N, s - step)) / (2 * e) == pytest.approx(eta[:, j], abs=1e-6, rel=1e-7)
    assert (form.log_z(N + e, s) - form.log_z(N - e, s)) / (2 * e) == pytest.approx(-a, abs=1e-6)


@pytest.mark.parametrize("name", [*SIDES, WHOLE])
def test_columns_of_whole_clusters_are_those_of_the_kernels(name):
    model = model_of(name)
    form, rows = form_and_rows(model)
    labels = np.minimum(np.arange(rows.n), 2)
    columns = form.columns(*whole(form, rows, labels))
    stat = clusters_of(model, labels).state.stat[:, :3]
    assert columns.shape == stat.shape
    kept = ~np.isnan(columns)  # not scratch, nor what only marginal likelihoods read
    assert kept.mean() > 0.6 and columns[kept] == pytest.approx(stat[kept], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", WITHOUT)
def test_families_without_a_natural_side_say_so(name):
    with pytest.raises(NotExponential, match=r"nm\.Gaussian|diagonal"):
        model_of(name).exponential()


def test_a_mutant_fails():
    """A statistic counted twice, or a count without its prior, is found."""
    model = model_of("Gaussian, full, d = 2")
    form, rows = form_and_rows(model)
    N, s = whole(form, rows, np.arange(rows.n) % 2)
    right = form.log_z(N, s).sum()
    for wrong in ((N, 1.001 * s), (N + 0.001, s)):
        assert abs(form.log_z(*wrong).sum() - right) > 1e-5
