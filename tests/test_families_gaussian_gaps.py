"""The forms of the Gaussian family where rows miss some of their cells: scores, drawn cells, and what a user sees."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from exact.marginals import with_missing_cells
from scipy import stats
from support.cover import by_turns
from support.gaussian_forms import CLOSED, FORMS, MIN_P, RUN, data_set, density_columns, form, impute, sample_columns, started, with_gaps

import nrmmix as nm
from nrmmix.kernels.core import clusters
from nrmmix.kernels.core import state as layout
from nrmmix.model.pack import provide
from nrmmix.posterior.predict.rows import CovariateWeights, prediction_rows
from nrmmix.posterior.predict.states import states_of

# ---- rows that miss some of their cells


def hole(y, *cells):
    y = y.copy()
    for i, j in cells:
        y[i, j] = np.nan
    return y


@pytest.mark.parametrize("d", by_turns([2, 4]))
@pytest.mark.parametrize("name", FORMS)
def test_scores_of_new_rows_with_gaps(name, d):
    """A model of complete data: the integral over the missing cells, of all patterns with one or two of them."""
    model, data, state, marginal = started(name, 12, d, labels=[0] * 7 + [1] * 5)
    y = model.frame.response
    new = np.random.default_rng(7).normal(size=(3, d))
    new = hole(new, (0, 0), (1, d - 1)) if d == 2 else hole(new, (0, 0), (1, 1), (1, 3), (2, 0), (2, 2))
    rows, table = model.blocks.to_kernel_arrays(new, np.zeros((3, 0)), model.packed.table)
    block = data.block.copy()
    block[:, : table.shape[1]] = table
    provide(model, block, (layout.Block.SCORE_GAPS,))
    points = data._replace(rows=rows._replace(constant=data.rows.constant), block=block)
    clusters.empty_column(data, state.stat, 2)
    for i in range(3):
        out = np.zeros(len(state.size))
        clusters.score_columns_and_new(points, state.stat, state.scratch.work, out, 2, i)
        for k, members in enumerate((y[:7], y[7:], y[:0])):
            both = np.vstack([members, new[[i]]])
            whole = marginal(members) if len(members) else 0.0
            wanted = (marginal if name in CLOSED else lambda X: with_missing_cells(X, marginal, points=241))(both) - whole
            assert out[k] == pytest.approx(wanted, rel=1e-8)
    # under parameters, the marginal of the normal law
    theta, rng, M = np.zeros((model.packed.n_theta, 5)), np.random.default_rng(1), 5
    sample_columns(data, state.stat, theta, 0, rng)
    work = np.zeros((model.packed.n_work, M))
    grid = np.linspace(-60.0, 60.0, 4001)
    for i in range(2 if d == 2 else 1):
        out, (gap,) = np.zeros(M), np.flatnonzero(np.isnan(new[i]))
        density_columns(points, theta, work, out, M, i)
        filled = np.repeat(new[[i]], len(grid), axis=0)
        filled[:, gap] = grid
        filled_rows, _ = model.blocks.to_kernel_arrays(filled, np.zeros((len(grid), 0)), model.packed.table)
        whole = data._replace(rows=filled_rows._replace(constant=data.rows.constant))
        logs = np.zeros((len(grid), M))
        for j in range(len(grid)):
            density_columns(whole, theta, work, logs[j], M, j)
        np.testing.assert_allclose(np.exp(out), np.exp(logs).sum(axis=0) * (grid[1] - grid[0]), rtol=1e-8)


@pytest.mark.parametrize("name", ["full", "full, known mean"])
def test_density_of_a_row_with_two_gaps(name):
    model, data, state, _ = started(name, 9, 4, labels=[0] * 9)
    theta = np.zeros((model.packed.n_theta, 3))
    sample_columns(data, state.stat, theta, 0, np.random.default_rng(0))
    new = hole(np.ones((1, 4)), (0, 1), (0, 2))
    rows, _ = model.blocks.to_kernel_arrays(new, np.zeros((1, 0)), model.packed.table)
    out, spread = np.zeros(3), np.sqrt(np.diag(model.family.scale))
    density_columns(data._replace(rows=rows._replace(constant=data.rows.constant)), theta, np.zeros((model.packed.n_work, 3)), out, 3, 0)
    for m in range(3):
        W = theta[5:, m].reshape(4, 4)
        covariance = (np.linalg.inv(W.T @ W) * np.outer(spread, spread))[np.ix_([0, 3], [0, 3])]
        mean = (model.family.means(theta[1:5, m]))[[0, 3]]
        assert out[m] == pytest.approx(stats.multivariate_normal.logpdf(new[0, [0, 3]], mean, covariance), rel=1e-9)


@pytest.mark.parametrize("gap", [0, 1, 2])
@pytest.mark.parametrize("name", ["full", "full, known mean"])
def test_drawn_cells_have_their_conditional_law(name, gap):
    """One cell, given the row's others and seven members of its cluster: its distribution function by quadrature."""
    y = hole(data_set(8, 3), (7, gap))
    model, data, state, marginal = started(name, 8, 3, y=y, labels=[0] * 7 + [-1])
    rows = np.empty((20_000, 3))
    impute(data, state, 0, 7, rows, np.random.default_rng(gap))
    centre = model.family.known_mean if model.family.m is None else model.family.m
    drawn = rows[:, gap] * np.sqrt(model.family.scale[gap, gap]) + centre[gap]
    grid = np.sinh(np.linspace(-9.0, 9.0, 6001))
    stack = np.repeat(y[None], len(grid), axis=0)
    stack[:, 7, gap] = grid
    p = np.exp(marginal(stack) - marginal(stack).max()) * np.sqrt(1.0 + grid**2)
    cdf = np.cumsum(p) - 0.5 * p
    assert stats.kstest(drawn, lambda x: np.interp(x, grid, cdf / p.sum())).pvalue > MIN_P


def test_several_drawn_cells_are_correlated_as_they_should_be():
    y = hole(data_set(12, 4), (11, 1), (11, 3))
    model, data, state, marginal = started("full", 12, 4, y=y, labels=[0] * 11 + [-1])
    T = 40_000
    rows = np.empty((T, 4))
    impute(data, state, 0, 11, rows, np.random.default_rng(0))
    drawn = rows[:, [1, 3]] * np.sqrt(np.diag(model.family.scale))[[1, 3]] + model.family.m[[1, 3]]
    z = np.linspace(-4.5, 4.5, 161)
    a, b = np.meshgrid(np.sinh(z), np.sinh(z), indexing="ij")
    stack = np.repeat(y[None], a.size, axis=0)
    stack[:, 11, 1], stack[:, 11, 3] = a.ravel(), b.ravel()
    p = np.exp(marginal(stack) - marginal(stack).max()) * np.cosh(z)[:, None].repeat(161, axis=1).ravel() * np.tile(np.cosh(z), 161)
    p /= p.sum()
    for f in (lambda x, y: x, lambda x, y: y, lambda x, y: x * y, lambda x, y: np.tanh(x) * np.tanh(y), lambda x, y: np.abs(x - y)):
        values = f(drawn[:, 0], drawn[:, 1])
        assert abs(values.mean() - (p * f(a.ravel(), b.ravel())).sum()) < 4.5 * values.std() / math.sqrt(T)


@pytest.fixture(scope="module")
def fit():
    return nm.Model("a + b + c ~ 1", with_gaps(), prior=nm.NGGP(1.0, 0.3), missing="marginalize").fit(**RUN)


def test_draws_of_missing_cells(fit):
    y = fit.model.frame.response
    imputed = fit.draws["imputed"]
    assert imputed.shape == (2, 30, np.isnan(y).sum()) and imputed.dtype == np.float64
    assert (np.ptp(imputed, axis=1) > 0).all()
    # in the units of the data and row by row: the recorded joint density is that of these cells
    for t in (0, 29):
        labels = fit.draws["labels"][1, t]
        values = {name: fit.draws[name][1, t] for name in ("u", "scale")}
        joint = fit.model.log_joint(labels, imputed=imputed[1, t], **values)
        assert joint == pytest.approx(fit.draws["log_joint"][1, t], rel=1e-9)
        filled = y.copy()
        filled[np.isnan(y)] = imputed[1, t]
        family = fit.model.family
        given = nm.Gaussian(m=family.m, r=family.r, nu=family.nu, scale=family.scale)
        whole = nm.Model(data=filled, prior=fit.model.prior, family=given)
        assert whole.log_joint(labels, **values) == pytest.approx(joint, rel=1e-12)


def test_log_joint_wants_the_cells(fit):
    labels = np.zeros(40, int)
    with pytest.raises(ValueError, match=r"this model draws \d+ missing cells; give their values, imputed="):
        fit.model.log_joint(labels)
    with pytest.raises(ValueError, match="imputed must hold"):
        fit.model.log_joint(labels, imputed=[1.0])
    with pytest.raises(ValueError, match="draws no missing cells; leave imputed= out"):
        nm.Model(data=np.eye(3)).log_joint([0, 0, 0], imputed=[1.0], mass=1.0)


def test_chains_go_on_as_if_they_had_not_stopped(fit, tmp_path):
    whole = fit.model.fit(**RUN | {"draws": 50})
    longer = fit.extend(20)
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    from_file = again.extend(20)
    for name in whole.draws:
        np.testing.assert_array_equal(longer.draws[name], whole.draws[name], err_msg=name)
        np.testing.assert_array_equal(from_file.draws[name], whole.draws[name], err_msg=name)
    pd.testing.assert_series_equal(again.log_density(), fit.log_density())
    one = fit.model.fit(**RUN | {"cores": 2})
    np.testing.assert_array_equal(one.draws["imputed"], fit.draws["imputed"])


def test_log_density_of_rows_with_gaps(fit):
    """Of each row the density of its own cells: by draws, with the drawn cells of the data in their place."""
    new = pd.DataFrame({"a": [0.5, np.nan], "b": [np.nan, 4.0], "c": [1.0, np.nan]})
    found = fit.log_density(new)
    y, family, terms = fit.model.frame.response, fit.model.family, []
    states, covariates = states_of(fit.posterior, None), CovariateWeights(fit.model, prediction_rows(fit.model, None))
    for c in range(2):
        for t in range(30):
            filled = y.copy()
            filled[np.isnan(y)] = fit.draws["imputed"][c, t]
            terms.append((filled, fit.draws["labels"][c, t], np.diag(fit.draws["scale"][c, t] * [law.mean for law in family.scale])))
    total = np.zeros(2)
    for (filled, labels, scale), state in zip(terms, states, strict=True):
        weight = state.weights(covariates)[0]
        for k in range(len(weight)):
            members = filled[labels == k]
            n, gap = len(members), (members.mean(axis=0) if len(members) else family.m) - family.m
            r_n, df = family.r + n, family.nu + n - 2
            psi = scale + family.r * n / r_n * np.outer(gap, gap)
            if n:
                psi = psi + (members - members.mean(axis=0)).T @ (members - members.mean(axis=0))
            mean = family.m + n / r_n * gap
            for i, seen in enumerate(([0, 2], [1])):
                shape = psi[np.ix_(seen, seen)] * (r_n + 1) / (r_n * df)
                total[i] += weight[k] * stats.multivariate_t.pdf(new.to_numpy()[i, seen], mean[seen], shape, df=df)
    np.testing.assert_allclose(found, np.log(total / len(terms)), rtol=1e-8)


def test_cells_of_several_families_come_row_by_row():
    table = with_gaps()
    table["k"] = np.where(np.arange(40) % 3 == 0, np.nan, np.arange(40) % 4)
    family = {"c + a": nm.Gaussian(), "k": nm.Poisson(), "b": nm.Gaussian()}
    model = nm.Model("a + b + c + k ~ 1", table, family=family, missing="marginalize")
    fit = model.fit(**RUN)
    y = model.frame.response[:, :3]
    gap = np.isnan(y)
    drawn = gap.copy()
    drawn[:, 1] = False  # alone in its block: a row without it counts for nothing there
    drawn[gap[:, 0] & gap[:, 2], :] = False
    row, response = model.blocks.drawn(model.packed)
    np.testing.assert_array_equal(np.argwhere(drawn), np.column_stack([row, response]))
    t = fit.draws["imputed"][0, -1]
    own = {name: fit.draws[name][0, -1] for name in ("mass", "scale")}
    assert model.log_joint(fit.draws["labels"][0, -1], imputed=t, **own) == pytest.approx(fit.draws["log_joint"][0, -1], rel=1e-10)
    assert (np.abs(t - np.nanmean(y, axis=0)[response]) < 40).all()
    # a swap of units would show: column a is a thousand times as large
    scaled = table.assign(a=1000.0 * table["a"])
    other = nm.Model("a + b + c + k ~ 1", scaled, family=family, missing="marginalize").fit(**RUN)
    np.testing.assert_allclose(other.draws["imputed"][0, -1], t * np.where(response == 0, 1000.0, 1.0), rtol=1e-9)


@pytest.mark.parametrize("name", by_turns(FORMS))
def test_density_regression_with_gaps(name):
    table = with_gaps()
    table["x"] = np.arange(40) % 8
    family, _ = form(name, 3)
    fit = nm.fit("a + b + c ~ x", table, family=family, missing="marginalize", **RUN)
    assert np.isfinite(fit.draws["log_joint"]).all() and np.isfinite(fit.log_density()).all()
    assert ("imputed" in fit.draws) == (name not in CLOSED)
    assert np.isfinite(fit.predict(kind="mean").to_numpy()).all()
