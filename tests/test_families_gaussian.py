"""The forms of the Gaussian family: kernels against plain NumPy and SciPy, missing cells, and what a user sees."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from exact.marginals import known_covariance_log_marginal, normal_gamma_log_marginal, normal_wishart_log_marginal, with_missing_cells
from scipy import stats

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.core import clusters
from nrmmix.kernels.core.entry import call_density, call_impute, call_mean, call_sample
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.state import DENSITY, IMPUTE, MEAN, SAMPLE
from nrmmix.model.pack import arrays_of
from nrmmix.posterior.predict.rows import CovariateWeights, prediction_rows
from nrmmix.posterior.predict.states import states_of

LEAST_P = 1e-4  # of tests with a fixed seed
pytestmark = pytest.mark.filterwarnings("ignore::nrmmix.posterior.convergence.ConvergenceWarning")  # of short runs


@kernel
def sample_columns(data, stat, theta, k, rng):
    for m in range(theta.shape[1]):
        call_sample(data.block[0, SAMPLE], data.rows, stat, theta, data.block[0], k, m, rng)


@kernel
def density_columns(data, theta, work, out, M, i):
    call_density(data.block[0, DENSITY], data.rows, theta, work, out, data.block[0], M, i)


@kernel
def mean_column(data, stat, out, k):
    call_mean(data.block[0, MEAN], data.rows, stat, out, data.block[0], k, 0)


@kernel
def impute(data, state, k, i, drawn, rng):
    """The missing cells of row i, again and again; `drawn` (times, d) keeps the rows."""
    for t in range(drawn.shape[0]):
        call_impute(data.block[0, IMPUTE], data.rows, state.stat, state.work, data.block[0], k, i, rng)
        for j in range(drawn.shape[1]):
            drawn[t, j] = data.rows.y[i, j]


# ---- forms, and their plain counterparts

R, NU = 0.7, 5.5


def matrix(d):
    root = np.linspace(0.7, 1.3, d)
    return (0.6 * np.eye(d) + 0.4) * np.outer(root, root)


def form(name, d):
    """The family, and log p(X) of a stack of data sets, NaN where a cell is missing unless the prior is normal-Wishart."""
    m, full, diagonal, nu = np.linspace(0.5, -0.4, d), matrix(d), np.linspace(0.4, 1.8, d), NU + d
    return {
        "full": (nm.Gaussian(m=m, r=R, nu=nu, scale=full), lambda X: normal_wishart_log_marginal(X, m, R, nu, full)),
        "full, known mean": (nm.Gaussian(known_mean=m, nu=nu, scale=full), lambda X: normal_wishart_log_marginal(X, m, np.inf, nu, full)),
        "diagonal": (nm.Gaussian("diagonal", m=m, r=R, nu=NU, scale=diagonal), lambda X: normal_gamma_log_marginal(X, m, R, NU, diagonal)),
        "diagonal, known mean": (
            nm.Gaussian("diagonal", known_mean=m, nu=NU, scale=diagonal), lambda X: normal_gamma_log_marginal(X, m, np.inf, NU, diagonal)
        ),
        "full, known covariance": (nm.Gaussian(known_covariance=full, m=m, r=R), lambda X: known_covariance_log_marginal(X, m, R, full)),
        "diagonal, known covariance": (
            nm.Gaussian("diagonal", known_covariance=diagonal, m=m, r=R),
            lambda X: known_covariance_log_marginal(X, m, R, np.diag(diagonal)),
        ),
    }[name]


FORMS = ["full", "full, known mean", "diagonal", "diagonal, known mean", "full, known covariance", "diagonal, known covariance"]
CLOSED = FORMS[2:]  # missing cells are integrated out
DIMENSIONS = [1, 2, 5]


def data_set(n, d, gaps=0.0, seed=0):
    rng = np.random.default_rng(100 * d + seed)
    y = rng.normal(size=(n, d)) * 1.5 + 0.3
    hidden = rng.random((n, d)) < gaps
    hidden[np.arange(n), rng.integers(0, d, n)] = False
    y[hidden] = np.nan
    return y


def started(name, n, d, gaps=0.0, labels=None, y=None):
    family, marginal = form(name, d)
    y = data_set(n, d, gaps) if y is None else y
    model = nm.Model(data=y, prior=nm.DirichletProcess(1.0), family=family, missing="marginalize")
    data, state = arrays_of(model, 12)
    chain.start(data, state, np.full(len(y), -1) if labels is None else np.asarray(labels))
    return model, data, state, marginal


def scores(data, state, K, i, own=-1):
    out = np.full(len(state.size), 0.25)
    clusters.score_columns(data, state.stat, state.work, out, K, i, own)
    return out[:K] - 0.25


CASES = [(name, d, 0.0) for name in FORMS for d in DIMENSIONS] + [(name, d, 0.4) for name in CLOSED for d in (2, 5)]


@pytest.mark.parametrize(("name", "d", "gaps"), CASES)
def test_predictives_make_up_the_marginal(name, d, gaps):
    model, data, state, marginal = started(name, 25, d, gaps)
    clusters.empty_column(data, state.stat, 0)
    total = 0.0
    for i in range(25):
        total += scores(data, state, 1, i)[0]
        clusters.update_column(data, state.stat, 0, i, 1.0)
    assert total == pytest.approx(clusters.marginal_column(data, state.stat, 0), rel=1e-11)
    assert total == pytest.approx(marginal(model.frame.response), rel=1e-9)
    alone = [marginal(model.frame.response[[i]]) for i in range(25)]
    np.testing.assert_allclose(data.log_prior_predictive, alone, rtol=1e-9)


@pytest.mark.parametrize(("name", "d", "gaps"), CASES)
def test_scores_are_ratios_of_marginals(name, d, gaps):
    K, n = 9, 40
    labels = np.concatenate([np.arange(K), np.random.default_rng(d).integers(0, K, n - K)])
    model, data, state, marginal = started(name, n, d, gaps, labels)
    y = model.frame.response
    for i in range(0, n, 3):
        own = labels[i]
        wanted = [marginal(np.vstack([y[labels == k], y[[i]]])) - marginal(y[labels == k]) for k in range(K)]
        np.testing.assert_allclose(scores(data, state, K, i), wanted, rtol=1e-8, atol=1e-9)
        rest = (np.arange(n) != i) & (labels == own)
        within = marginal(y[labels == own]) - (marginal(y[rest]) if rest.any() else 0.0)
        again = scores(data, state, K, i, own)
        if rest.any():  # a singleton is never scored without itself
            assert again[own] == pytest.approx(within, rel=1e-7, abs=1e-8)
        others = np.setdiff1d(np.arange(K), [own])
        np.testing.assert_array_equal(again[others], scores(data, state, K, i)[others])


@pytest.mark.parametrize(
    ("name", "d", "gaps", "offset"),
    [(*case, 0.0) for case in CASES] + [(*case, 1e6) for case in CASES if "known" not in case[0]],
)
def test_adding_and_removing_a_million_times(name, d, gaps, offset):
    family, _ = form(name, d)
    y = data_set(30, d, gaps) + offset
    if offset:
        family = nm.Gaussian(family.covariance, r=R, nu=family.nu, scale=family.scale)  # m from the data
    model = nm.Model(data=y, family=family, missing="marginalize")
    data, state = arrays_of(model, 12)
    chain.start(data, state, np.full(30, -1))
    clusters.empty_column(data, state.stat, 0)
    inside = np.zeros(30, bool)
    add_and_remove(data, state, inside, 1_000_000, np.random.default_rng(1))
    clusters.empty_column(data, state.stat, 1)
    for i in np.flatnonzero(inside):
        clusters.update_column(data, state.stat, 1, i, 1.0)
    for i in range(30):
        a, b = scores(data, state, 2, i)
        assert a == pytest.approx(b, rel=1e-8)
    assert clusters.marginal_column(data, state.stat, 0) == pytest.approx(clusters.marginal_column(data, state.stat, 1), rel=1e-8)


@kernel
def add_and_remove(data, state, inside, times, rng):
    size = 0
    for _ in range(times):
        i = int(rng.random() * inside.shape[0])
        if inside[i] and size > 1:
            inside[i] = False
            size -= 1
            if not clusters.update_column(data, state.stat, 0, i, -1.0):
                clusters.empty_column(data, state.stat, 0)
                for j in range(inside.shape[0]):
                    if inside[j]:
                        clusters.update_column(data, state.stat, 0, j, 1.0)
        elif not inside[i]:
            inside[i] = True
            size += 1
            clusters.update_column(data, state.stat, 0, i, 1.0)


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("name", FORMS)
def test_an_outlier_leaves_correct_statistics_behind(name, d):
    y = data_set(12, d)
    y[4] = 1e9
    model, data, state, _ = started(name, 12, d, labels=np.zeros(12, int), y=y)
    clusters.detach(data, state, 4)
    clusters.empty_column(data, state.stat, 1)
    for i in range(12):
        if i != 4:
            clusters.update_column(data, state.stat, 1, i, 1.0)
    for i in range(12):
        a, b = scores(data, state, 2, i)
        assert a == pytest.approx(b, rel=1e-9)


def test_products_of_many_factors_do_not_overflow():
    """Many responses, all of them far out: each factor of the predictive is 1e30."""
    y = np.random.default_rng(0).normal(size=(6, 200))
    y[5] = 1e15
    family = nm.Gaussian("diagonal", m=np.zeros(200), r=R, nu=NU, scale=np.ones(200))
    model = nm.Model(data=y, family=family)
    data, state = arrays_of(model, 3)
    chain.start(data, state, np.array([0, 0, 0, 1, 1, 2]))
    for i in range(6):
        for k, members in enumerate(([0, 1, 2], [3, 4], [5])):
            if i not in members:
                both = normal_gamma_log_marginal(y[[*members, i]], family.m, R, NU, np.ones(200))
                wanted = both - normal_gamma_log_marginal(y[members], family.m, R, NU, np.ones(200))
                assert scores(data, state, 3, i)[k] == pytest.approx(wanted, rel=1e-8)


# ---- parameters

@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize(("name", "gaps"), [(name, 0.0) for name in FORMS] + [(name, 0.3) for name in CLOSED])
def test_densities_and_draws_of_the_parameters(name, d, gaps):
    """Densities averaged over draws of the parameters are the predictive; laws and means agree with them."""
    if d == 1 and gaps:
        return
    model, data, state, _ = started(name, 14, d, gaps, labels=[0] * 11 + [-1] * 3)
    M = 40_000
    theta = np.zeros((model.packed.n_theta, M))
    rng = np.random.default_rng(3)
    sample_columns(data, state.stat, theta, 0, rng)
    work = np.zeros((model.packed.n_work, M))
    for i in range(11, 14):
        out = np.zeros(M)
        density_columns(data, theta, work, out, M, i)
        p = np.exp(out)
        z = (p.mean() - math.exp(scores(data, state, 1, i)[0])) / (p.std() / math.sqrt(M))
        assert abs(z) < 4.5
        laws = model.blocks.component_distributions(theta[:, :5], np.zeros((1, 0)), model.packed)
        seen = np.flatnonzero(~np.isnan(model.frame.response[i]))
        if "diagonal" in name or len(seen) == 1:  # independent within a component
            joint = sum(np.log(laws[j].density(model.frame.response[i, j])[0]) for j in seen)
            np.testing.assert_allclose(out[:5], joint, rtol=1e-9)
    # responses drawn from the components have the predictive law
    drawn = model.blocks.draw_responses(theta, np.zeros((M, 0)), rng, model.packed)
    laws = model.blocks.predictive_distributions(state.stat, 1, np.zeros((1, 0)), model.packed)
    out = np.zeros(d)
    mean_column(data, state.stat, out, 0)
    for j, law in enumerate(laws):
        assert stats.kstest(drawn[:, j], lambda x, law=law: law.cdf(np.reshape(x, (-1, 1)))[:, 0]).pvalue > LEAST_P
        centre = law.mean if hasattr(law, "mean") else law.centre
        assert model.blocks.means(out, model.packed)[j] == pytest.approx(float(centre[0, 0]), rel=1e-12)
    for parameter in model.blocks.cluster_parameters(state.stat, 1, model.packed)[0]:
        j = int(parameter.name.split("y")[-1]) - 1 if "y" in parameter.name else 0
        component = model.blocks.component_distributions(theta, np.zeros((1, 0)), model.packed)[j]
        draws = (component.mean if parameter.name.startswith("mean") else component.sd)[0]
        assert abs(draws.mean() - parameter.mean[0]) < 4.5 * draws.std() / math.sqrt(M)
        assert draws.std() == pytest.approx(parameter.sd[0], rel=0.05)


@pytest.mark.parametrize("name", FORMS)
def test_density_of_a_row_in_full(name):
    model, data, state, _ = started(name, 9, 3, labels=[0] * 9)
    theta, rng = np.zeros((model.packed.n_theta, 7)), np.random.default_rng(2)
    sample_columns(data, state.stat, theta, 0, rng)
    drawn = [model.blocks.draw_responses(np.repeat(theta[:, [m]], 40_000, axis=1), np.zeros((1, 0)), rng, model.packed) for m in range(7)]
    out = np.zeros(7)
    density_columns(data, theta, np.zeros((model.packed.n_work, 7)), out, 7, 0)
    for m in range(7):
        wanted = stats.multivariate_normal.logpdf(model.frame.response[0], drawn[m].mean(axis=0), np.cov(drawn[m].T))
        assert out[m] == pytest.approx(wanted, abs=0.2)  # of the sample covariance


# ---- rows that miss some of their cells


def hole(y, *cells):
    y = y.copy()
    for i, j in cells:
        y[i, j] = np.nan
    return y


@pytest.mark.parametrize("d", [2, 4])
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
    points = data._replace(rows=rows._replace(constant=data.rows.constant), block=block)
    clusters.empty_column(data, state.stat, 2)
    for i in range(3):
        out = np.zeros(len(state.size))
        clusters.score_columns_and_new(points, state.stat, state.work, out, 2, i)
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
    assert stats.kstest(drawn, lambda x: np.interp(x, grid, cdf / p.sum())).pvalue > LEAST_P


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


def with_gaps(n=40, d=3, share=0.2, seed=1):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, d)) @ (np.eye(d) + 0.5 * np.tri(d, k=-1)).T + 4.0 * (np.arange(n)[:, None] % 2)
    hidden = rng.random((n, d)) < share
    hidden[np.arange(n), rng.integers(0, d, n)] = False
    y[hidden] = np.nan
    return pd.DataFrame(y, columns=["a", "b", "c"])


RUN = {"draws": 30, "tune": 20, "chains": 2, "rng": 3, "cores": 1}


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
        values = {name: fit.draws[name][1, t] for name in ("u",)}
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
            terms.append((filled, fit.draws["labels"][c, t]))
    total = np.zeros(2)
    for (filled, labels), state in zip(terms, states, strict=True):
        weight = state.weights(covariates)[0]
        for k in range(len(weight)):
            members = filled[labels == k]
            n, gap = len(members), (members.mean(axis=0) if len(members) else family.m) - family.m
            r_n, df = family.r + n, family.nu + n - 2
            psi = family.scale + family.r * n / r_n * np.outer(gap, gap)
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
    assert model.log_joint(fit.draws["labels"][0, -1], imputed=t, mass=fit.draws["mass"][0, -1]) == pytest.approx(
        fit.draws["log_joint"][0, -1], rel=1e-10
    )
    assert (np.abs(t - np.nanmean(y, axis=0)[response]) < 40).all()
    # a swap of units would show: column a is a thousand times as large
    scaled = table.assign(a=1000.0 * table["a"])
    other = nm.Model("a + b + c + k ~ 1", scaled, family=family, missing="marginalize").fit(**RUN)
    np.testing.assert_allclose(other.draws["imputed"][0, -1], t * np.where(response == 0, 1000.0, 1.0), rtol=1e-9)


@pytest.mark.parametrize("name", FORMS)
def test_density_regression_with_gaps(name):
    table = with_gaps()
    table["x"] = np.arange(40) % 8
    family, _ = form(name, 3)
    fit = nm.fit("a + b + c ~ x", table, family=family, missing="marginalize", **RUN)
    assert np.isfinite(fit.draws["log_joint"]).all() and np.isfinite(fit.log_density()).all()
    assert ("imputed" in fit.draws) == (name not in CLOSED)
    assert np.isfinite(fit.predict(kind="mean").to_numpy()).all()


# ---- what a user gives


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"covariance": "spherical"}, 'covariance must be "full" or "diagonal"'),
        ({"known_mean": 0, "known_covariance": 1.0}, "give one of them"),
        ({"known_mean": 0, "m": 0}, "m does not apply with known_mean; nu and scale do"),
        ({"known_mean": 0, "r": 1.0}, "r does not apply with known_mean; nu and scale do"),
        ({"known_covariance": 1.0, "nu": 3}, "nu does not apply with known_covariance; m and r do"),
        ({"known_covariance": 1.0, "scale": 3}, "scale does not apply with known_covariance; m and r do"),
    ],
)
def test_options_that_do_not_go_together(options, message):
    with pytest.raises(ValueError, match=message):
        nm.Gaussian(**options)


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (nm.Gaussian("diagonal", scale=np.eye(2)), r"scale must have shape \(2,\) for these responses, not \(2, 2\)"),
        (nm.Gaussian("diagonal", scale=1.0), r"scale must have shape \(2,\) for these responses, not \(\)"),
        (nm.Gaussian("diagonal", scale=[1.0, 0.0]), "scale must be greater than 0"),
        (nm.Gaussian("diagonal", nu=0.01), "nu = 0.01 is so near 0 that draws overflow; take 0.05 or more"),
        (nm.Gaussian(nu=1e11), r"nu = 1e\+11 is lost in rounding; take 1e\+10 or less"),
        (nm.Gaussian(known_mean=[0.0, 1.0, 2.0]), r"known_mean must have shape \(2,\)"),
        (nm.Gaussian(known_mean=math.nan), "known_mean must be finite"),
        (nm.Gaussian(known_covariance=[1.0, 2.0]), r"known_covariance must have shape \(2, 2\)"),
        (nm.Gaussian(known_covariance=[[1.0, 2.0], [2.0, 1.0]]), "known_covariance must be positive definite"),
        (nm.Gaussian("diagonal", known_covariance=[1.0, -2.0]), "known_covariance must be greater than 0"),
    ],
)
def test_hyperparameters_that_do_not_fit(family, message):
    with pytest.raises(ValueError, match=message):
        nm.Model(data=np.random.default_rng(0).normal(size=(9, 2)), family=family)


def test_defaults_leave_missing_cells_out():
    y = np.array([[1.0, np.nan], [3.0, 10.0], [np.nan, 14.0], [5.0, 12.0]])
    for family, m, variance in (
        (nm.Gaussian("diagonal"), [3.0, 12.0], [4.0, 4.0]),
        (nm.Gaussian(), [3.0, 12.0], [4.0, 4.0]),
        (nm.Gaussian("diagonal", known_mean=[1.0, 12.0]), None, [20 / 3, 8 / 3]),
    ):
        resolved = nm.Model(data=y, family=family, missing="marginalize").family
        if m is not None:
            np.testing.assert_allclose(resolved.m, m)
        diagonal = np.diag(resolved.scale) if resolved.scale.ndim == 2 else resolved.scale
        np.testing.assert_allclose(diagonal / diagonal[0], np.array(variance) / variance[0])
    with pytest.raises(ValueError, match="default scale needs at least 2 observations of the response 'b'"):
        nm.Gaussian().resolve(np.array([[1.0, np.nan], [2.0, 3.0]]), ("a", "b"))


@pytest.mark.parametrize("name", FORMS)
def test_fits_do_not_depend_on_the_units(name):
    """With the defaults, and a known mean or covariance in the units of the data."""
    y, factor = np.random.default_rng(4).normal(size=(30, 2)) + 3.0 * (np.arange(30)[:, None] % 2), np.array([1000.0, 0.01])
    covariance = name.split(",")[0]

    def family(units):
        if "known mean" in name:
            return nm.Gaussian(covariance, known_mean=[0.5, 1.0] * units)
        if "known covariance" in name:
            return nm.Gaussian(covariance, known_covariance=0.3 * (units**2 if covariance == "diagonal" else np.diag(units**2)))
        return nm.Gaussian(covariance)

    draws = []
    for units in (np.ones(2), factor):
        draws.append(nm.Model(data=y * units, family=family(units)).fit(**RUN).draws["labels"])
    np.testing.assert_array_equal(*draws)


@pytest.mark.parametrize("name", FORMS)
def test_a_saved_family_is_made_again(name, tmp_path):
    family, _ = form(name, 2)
    fit = nm.Model(data=data_set(20, 2), family=family).fit(**RUN)
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    np.testing.assert_array_equal(again.extend(10).draws["log_joint"], fit.extend(10).draws["log_joint"])
    assert str(again.model) == str(fit.model)


def test_families_that_cannot_skip_missing_values_are_refused():
    class Careless(nm.Gaussian):
        takes_missing = False

    with pytest.raises(ValueError, match="Careless has no way with missing values, and response 'b' has some; use missing='drop'"):
        nm.Model("a + b + c ~ 1", with_gaps().assign(a=1.0 * np.arange(40)), family=Careless(), missing="marginalize")
