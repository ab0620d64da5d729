"""Replicates against the predictive distribution of `predict`, their tables and their seeds.

That rows of a replicate share a random measure is in tests/exact/test_predict.py.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support.cover import by_turns
from support.length import by_day

import nrmmix as nm
from nrmmix.model import replicates as of_rows
from nrmmix.posterior.predict import simulate
from nrmmix.posterior.predict.states import states_of

RUN = {"draws": 100, "tune": 100, "chains": 2, "rng": 1}


@pytest.fixture(scope="module")
def data():
    return nm.datasets.load_mcycle()


@pytest.fixture(scope="module")
def regression(data):
    return nm.fit("accel_g ~ times_ms", data, **RUN)


@pytest.fixture(scope="module")
def faithful():
    return nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), prior=nm.NGGP(), **RUN)


def check(fit, new, drawn):
    """Kolmogorov-Smirnov of one row of each replicate (rows, draws) against the predictive distribution function.

    All recorded draws are gone through equally often, which makes replicates less varied than independent observations, never more.
    """
    grid = np.quantile(drawn, np.linspace(0, 1, max(100, drawn.shape[1] // 16)))  # between whose points the function is a line
    cdfs = fit.predict(new, "cdf", at=grid, draws=10_000)["estimate"].to_numpy().reshape(len(drawn), -1)
    for values, cdf in zip(drawn, cdfs, strict=True):
        assert stats.kstest(np.interp(values, grid, cdf), "uniform").pvalue > 0.005


@pytest.mark.parametrize("kernel", by_turns([nm.SquaredExponential(0.05), nm.Box(0.1)]), ids=["smooth", "box"])
def test_replicates_have_the_predictive_distribution(data, kernel):
    """At each of three covariates, atoms of clusters, unseen atoms and the rest together."""
    fit = nm.fit("accel_g ~ times_ms", data, kernel=kernel, prior=nm.NGGP(2.0, 0.5), **RUN)
    new = pd.DataFrame({"times_ms": [5.0, 25.0, 57.6]})
    check(fit, new, fit.simulate(new, draws=by_day(8_000), rng=3)["accel_g"].unstack("draw").to_numpy())


def test_where_most_of_the_mass_is_unseen():
    """Two observations and a mass of 50: nearly all rows are from components that no observation has."""
    family = nm.Gaussian(m=0.0, r=0.5, nu=6.0, scale=1.0)
    fit = nm.Model(data=np.array([[0.0], [0.2]]), prior=nm.DirichletProcess(50.0), family=family).fit(**RUN)
    drawn = fit.simulate(np.zeros((1, 1)), draws=by_day(8_000), rng=1)["y1"].to_numpy()
    check(fit, None, drawn[None, :])
    assert drawn.std() > 0.8  # the observed clusters alone would have 0.4


def test_responses_from_components():
    """Mean and covariance of responses from one component of three responses."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3)) @ np.array([[2.0, 0, 0], [1, 30, 0], [0.5, 2, 0.1]]) + [5, -40, 1]
    fit = nm.Model(data=X, prior=nm.DirichletProcess(1.0)).fit(init="one", draws=1, tune=0, chains=1, rng=1)
    family, state = fit.model.family, next(iter(states_of(fit.posterior, None)))
    atoms, N = state.measure(np.random.SeedSequence(1)), 40_000
    drawn = family.draw_responses(np.repeat(atoms.theta[:, :1], N, axis=1), np.zeros((N, 0)), rng)
    laws = family.component_distributions(atoms.theta[:, :1], np.zeros((1, 0)))
    mean, sd = (np.array([getattr(law, name)[0, 0] for law in laws]) for name in ("mean", "sd"))
    W = atoms.theta[4:, 0].reshape(3, 3)
    covariance = np.linalg.inv(W.T @ W) * np.outer(family.form.spread, family.form.spread)
    assert (np.abs(drawn.mean(axis=0) - mean) < 4.5 * sd / math.sqrt(N)).all()
    error = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / N)
    assert (np.abs(np.cov(drawn.T) - covariance) < 4.5 * error).all()


def test_new_components_are_from_the_prior():
    """Precision Gamma(nu/2, rate scale/2), mean N(m, 1/(r precision)), in the units of the data."""
    family = nm.Gaussian(m=10.0, r=0.5, nu=6.0, scale=8.0)
    fit = nm.Model(data=np.array([[9.0], [12.0]]), prior=nm.DirichletProcess(1.0), family=family).fit(draws=1, tune=0, chains=1, rng=1)
    theta = next(iter(states_of(fit.posterior, None))).new_components(4000, np.random.default_rng(2))
    (law,) = fit.model.family.component_distributions(theta, np.zeros((1, 0)))
    mean, sd = law.mean[0], law.sd[0]
    assert stats.kstest(1 / sd**2, stats.gamma(3.0, scale=1 / 4.0).cdf).pvalue > 0.005
    assert stats.kstest((mean - 10.0) / sd * math.sqrt(0.5), stats.norm.cdf).pvalue > 0.005


def test_rows_take_atoms_by_their_shares():
    share = np.array([[0.2, 0.5], [0.0, 1.0], [0.0, 0.0]])
    row = np.array([0, 0, 0, 1, 1, 2, 2])
    uniform = np.array([0.1, 0.3, 0.7001, 0.0, 0.999999, 0.0, 0.999999])
    assert simulate.atoms_by_shares(share, row, uniform).tolist() == [0, 1, 2, 1, 1, 2, 2]


def test_table(faithful, regression, data):
    table = faithful.simulate(draws=3)
    assert list(table) == ["eruptions_min", "waiting_min"] and table.index.names == [None, "draw"]
    assert len(table) == 3 * 272 and table.index.get_level_values("draw").tolist()[:273] == [0] * 272 + [1]
    assert table.xs(1, level="draw").index.equals(nm.datasets.load_faithful().index)
    index = pd.MultiIndex.from_tuples([("u", 1), ("u", 2)], names=["run", "step"])
    table = regression.simulate(pd.DataFrame({"times_ms": [10.0, np.nan]}, index=index), draws=4)
    assert table.index.names == ["run", "step", "draw"] and table["accel_g"].isna().tolist() == [False, True] * 4
    assert len(faithful.simulate({"z": [1, 2]})) == 2
    assert regression.simulate().index.get_level_values(0).equals(data.index)
    again = regression.simulate(pd.DataFrame({"times_ms": [10.0]}, index=pd.Index([7], name="draw")), draws=2)  # as simulated rows have
    assert again.reset_index()[["draw of the row", "draw"]].to_numpy().tolist() == [[7, 0], [7, 1]]
    assert len(regression.simulate(pd.DataFrame({"times_ms": []}), draws=2)) == 0


@pytest.mark.parametrize("which", ["faithful", "regression"])
def test_seeds(which, request):
    fit = request.getfixturevalue(which)
    first = fit.simulate(draws=2, rng=5)
    pd.testing.assert_frame_equal(first, fit.simulate(draws=2, rng=5))
    pd.testing.assert_frame_equal(fit.simulate(draws=2), fit.simulate(draws=2))
    assert not np.allclose(first, fit.simulate(draws=2, rng=6))


@pytest.mark.parametrize("which", ["faithful", "regression"])
@pytest.mark.parametrize("memory", [1, 10**6])
def test_replicates_do_not_depend_on_the_memory(which, memory, request, monkeypatch):
    fit = request.getfixturevalue(which)
    whole = fit.simulate(draws=2, rng=5)
    monkeypatch.setattr(of_rows, "MEMORY", memory)
    np.testing.assert_allclose(fit.simulate(draws=2, rng=5), whole, rtol=1e-9)


def test_more_replicates_than_draws(data):
    """The recorded draws again, each with a measure of its own."""
    fit = nm.fit("accel_g ~ 1", data, draws=3, tune=50, chains=1, rng=1)
    values = fit.simulate(draws=9, rng=1)["accel_g"].unstack("draw").to_numpy()
    assert len(np.unique(values)) == values.size


def test_errors(data, regression):
    box = nm.fit("accel_g ~ times_ms", data, kernel=nm.Box(0.1), draws=4, tune=4, chains=1, rng=1)
    with pytest.raises(ValueError, match=r"row 1 \(times_ms = 99\) is out of reach"):
        box.simulate({"times_ms": [10.0, 99.0]})
    with pytest.raises(ValueError, match="draws must be an integer of at least 1, not 0"):
        regression.simulate(draws=0)
    with pytest.raises(ValueError, match="rng must be"):
        regression.simulate(rng=-1)
    with pytest.raises(ValueError, match="newdata must be a DataFrame, not 'x'"):
        regression.simulate("x")
