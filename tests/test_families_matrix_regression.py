"""Regression components of several responses: kernels against closed forms, invariance, laws, messages, use."""

from __future__ import annotations

import math

import numba
import numpy as np
import pandas as pd
import pytest
from exact.marginals import matrix_regression_log_marginal
from scipy import stats
from support.cover import each_once

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.clusters import empty_column, marginal_column, score_columns, update_column
from nrmmix.kernels.predictive import cluster_means, component_densities, component_means, draw_components, predictive_scores
from nrmmix.model.families import regression
from nrmmix.model.families.linear import SeveralResponses
from nrmmix.model.pack import arrays_of

N, Q = 12, 3
PRECISION = np.array([[0.5, 0.1, 0.0], [0.1, 0.4, 0.1], [0.0, 0.1, 0.9]])
MIXING = np.array([[1.0, 0.4, -0.3], [0.0, 0.8, 0.5], [0.0, 0.0, 1.2]])
DIMENSIONS = (2, 3)


def names(d):
    return [f"y{j + 1}" for j in range(d)]


def formula(d, right="1"):
    return f"{' + '.join(names(d))} ~ {right}"


def hyper(d):
    b = np.arange(1.0, Q * d + 1).reshape(Q, d) * 0.1 - 0.4
    return {"b": b, "precision": PRECISION, "nu": d + 1.5, "scale": 0.4 * MIXING[:d, :d] @ MIXING[:d, :d].T}


def table(d, n=N, seed=0):
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=n), rng.normal(size=n)
    y = np.outer(x, np.arange(1, d + 1)) - w[:, None] + rng.normal(size=(n, d)) @ MIXING[:d, :d]
    return pd.DataFrame({"x": x, "w": w, **dict(zip(names(d), y.T, strict=True))})


def design(data):
    return np.column_stack([np.ones(len(data)), data["x"], data["w"]])


def model_of(data, d, missing="drop", **options):
    family = nm.Regression("1 + x + w", **(options or hyper(d)))
    return nm.Model(formula(d), data, prior=nm.DirichletProcess(1.0), family=family, missing=missing)


def started(model, labels):
    data, state = arrays_of(model, 8)
    chain.start(data, state, np.asarray(labels, np.int64))
    return data, state


def marginal(data, rows, d):
    rows = np.asarray(rows, int)
    return matrix_regression_log_marginal(design(data)[rows], data[names(d)].to_numpy()[rows], **hyper(d)) if len(rows) else 0.0


def eppf(*sizes):
    return math.lgamma(1) - math.lgamma(1 + sum(sizes)) + sum(math.lgamma(m) for m in sizes)


@pytest.fixture(scope="module", params=DIMENSIONS)
def column(request):
    """All but the last row in one column."""
    d = request.param
    data = table(d)
    model = model_of(data, d)
    labels = np.zeros(N, np.int64)
    labels[-1] = -1
    arrays, state = started(model, labels)
    empty_column(arrays, state.stat, 1)
    return d, data, model, arrays, state


# ---- kernels against the closed form


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("d", DIMENSIONS)
def test_predictives_in_any_order_make_the_marginal(d, seed):
    data = table(d)
    arrays, state = started(model_of(data, d), np.full(N, -1))
    empty_column(arrays, state.stat, 0)
    order, total = np.random.default_rng(seed).permutation(N), 0.0
    for m, i in enumerate(order):
        out = np.zeros(state.size.shape[0])
        score_columns(arrays, state.stat, state.scratch.work, out, 1, i, -1)
        total += out[0]
        assert update_column(arrays, state.stat, 0, i, 1.0)
        assert total == pytest.approx(marginal(data, order[: m + 1], d), abs=1e-9)
        assert marginal_column(arrays, state.stat, 0) == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_score_without_itself(d):
    data = table(d, 30, 3)
    arrays, state = started(model_of(data, d), np.repeat([0, 1, 2], [20, 9, 1]))
    alone = 0
    for i in range(30):
        out = np.zeros(state.size.shape[0])
        own = int(state.labels[i])
        score_columns(arrays, state.stat, state.scratch.work, out, 3, i, own)
        for k in range(3):
            others = [j for j in range(30) if state.labels[j] == k and j != i]
            wanted = marginal(data, [*others, i], d) - marginal(data, others, d)
            assert out[k] == pytest.approx(wanted, abs=1e-9) or (k == own and math.isnan(out[k]))
            alone += math.isnan(out[k])
    assert alone <= 1, "only the score of the last row without itself may be left to `score_without`"
    assert arrays.log_prior_predictive == pytest.approx([marginal(data, [i], d) for i in range(30)], abs=1e-9)


def test_one_response_has_the_same_law():
    """The form of several responses, of one."""
    data = table(2)[["x", "w", "y1"]].rename(columns={"y1": "y"})
    of_one = {"b": np.array([0.3, 0.2, -0.1]), "precision": PRECISION, "nu": 3.0, "scale": 0.4}
    model = nm.Model("y ~ 1", data, prior=nm.DirichletProcess(1.0), family=nm.Regression("1 + x + w", **of_one))
    one = model.family.form
    several = SeveralResponses(
        one.names, one.input_names, one.b[:, None], one.nu, np.array([[one.scale]]), np.array([one.level]), one.constant, one.factor
    )
    y, labels = data[["y"]].to_numpy(), np.zeros(N, int)
    np.testing.assert_allclose(several.observe(y).y, one.observe(y).y)
    wanted, state = started(model, labels)
    found = nm.Model("y ~ 1", data, prior=nm.DirichletProcess(1.0), family=nm.Regression("1 + x + w", **of_one))
    object.__setattr__(found.family, "form", several)
    packed = found.blocks.pack(found.frame.response, found.frame.inputs)
    object.__setattr__(found, "packed", packed)
    arrays, other = started(found, labels)
    assert marginal_column(arrays, other.stat, 0) == pytest.approx(marginal_column(wanted, state.stat, 0), abs=1e-10)
    for i in range(N):
        out, expected = np.zeros(other.size.shape[0]), np.zeros(state.size.shape[0])
        score_columns(arrays, other.stat, other.scratch.work, out, 1, i, 0)
        score_columns(wanted, state.stat, state.scratch.work, expected, 1, i, 0)
        assert out[0] == pytest.approx(expected[0], abs=1e-10)
    ours, theirs = several.cluster_parameters(other.stat, 1), one.cluster_parameters(state.stat, 1)
    assert [p.name for p in ours] == ["coef Intercept of y", "coef x of y", "coef w of y", "sd y"]
    for own, expected in zip(ours, theirs, strict=True):
        assert own.mean == pytest.approx(expected.mean) and own.sd == pytest.approx(expected.sd)


@numba.njit
def _in_and_out(data, stat, rows, times):
    """Rows enter and leave column 0 in turn; how often a removal lost digits."""
    lost = 0
    for t in range(times):
        i = rows[t % rows.shape[0]]
        update_column(data, stat, 0, i, 1.0)
        if not update_column(data, stat, 0, rows[(7 * t + 3) % rows.shape[0]], -1.0):
            lost += 1
        update_column(data, stat, 0, rows[(7 * t + 3) % rows.shape[0]], 1.0)
        update_column(data, stat, 0, i, -1.0)
    return lost


@pytest.mark.parametrize("d", DIMENSIONS)
def test_a_million_updates_leave_the_statistics(d):
    arrays, state = started(model_of(table(d, 40, 5), d), np.where(np.arange(40) < 39, 0, -1))  # tables end at as many as there are
    before = state.stat[:, 0].copy()
    n = len(before) - 2 * Q - d  # without scratch
    assert _in_and_out(arrays, state.stat, np.arange(39), 250_000) == 0
    assert state.stat[:n, 0] == pytest.approx(before[:n], rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(("far", "d"), each_once(["inputs", "responses"], DIMENSIONS))
def test_a_removal_that_loses_digits_says_so(d, far):
    data = table(d, 6, 6)
    if far == "inputs":
        data.loc[5, ["x", "w"]] = 1e4, -1e4
    else:
        data.loc[5, "y2"] = 1e4
    model = model_of(data, d)
    arrays, state = started(model, np.zeros(6, int))
    assert update_column(arrays, state.stat, 0, 0, -1.0)
    assert not update_column(arrays, state.stat, 0, 5, -1.0)
    out = np.zeros(state.size.shape[0])
    arrays, state = started(model, np.zeros(6, int))
    score_columns(arrays, state.stat, state.scratch.work, out, 1, 5, 0)
    assert math.isnan(out[0])
    fit = model.fit("gibbs", draws=200, tune=5, chains=1, rng=1)  # rebuilds what it must
    for labels, found in zip(fit.draws["labels"][0], fit.draws["log_joint"][0], strict=True):
        parts = [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]
        assert found == pytest.approx(sum(marginal(data, part, d) for part in parts) + eppf(*map(len, parts)), abs=1e-5)


# ---- parameters and laws


def posterior(data, d):
    """Precision of the rows of B, its mean, S_n, degrees of freedom of Lambda, of all rows but the last."""
    X, Y = design(data)[:-1], data[names(d)].to_numpy()[:-1]
    own = hyper(d)
    P = PRECISION + X.T @ X
    B = np.linalg.solve(P, PRECISION @ own["b"] + X.T @ Y)
    S = own["scale"] + Y.T @ Y + own["b"].T @ PRECISION @ own["b"] - B.T @ P @ B
    return P, B, S, own["nu"] + N - 1


def in_units(family, theta, d):
    """B (q, d, M) and the residual covariances (M, d, d) of parameters of the kernels."""
    B = family.coefficients(theta[1 : 1 + Q * d].reshape(Q, d, -1))
    W = np.moveaxis(theta[1 + Q * d :].reshape(d, d, -1), -1, 0)
    root = np.linalg.cholesky(family.scale) @ np.linalg.inv(W)
    return B, root @ np.swapaxes(root, 1, 2)


def test_posterior_draws(column):
    d, data, model, arrays, state = column
    size = 40_000
    work = state._replace(num=state.num.copy())
    work.num[layout.Count.CLUSTERS] = 0  # draws are from column K
    theta = draw_components(arrays, work, model.packed.n_theta, 0, size, np.random.default_rng(1))
    P, mean, S, nu = posterior(data, d)
    B, covariance = in_units(model.family, theta, d)
    df = nu - d + 1
    assert theta[0] == pytest.approx(np.linalg.slogdet(np.moveaxis(theta[1 + Q * d :].reshape(d, d, -1), -1, 0))[1])
    for j in range(d):
        assert stats.kstest(S[j, j] / covariance[:, j, j], stats.chi2(df).cdf).pvalue > 1e-4
        for a in range(Q):
            z = (B[a, j] - mean[a, j]) / np.sqrt(S[j, j] / df * np.linalg.inv(P)[a, a])
            assert stats.kstest(z, stats.t(df).cdf).pvalue > 1e-4
    assert stats.kstest(np.linalg.det(S) / np.linalg.det(covariance), np.prod(
        [stats.chi2(nu - j).rvs(size, random_state=j) for j in range(d)], axis=0)).pvalue > 1e-4
    lam = np.linalg.inv(covariance)
    wanted = nu * np.linalg.inv(S)
    assert lam.mean(axis=0) == pytest.approx(wanted, abs=6 * np.abs(lam).std(axis=0).max() / math.sqrt(size))
    wanted = np.kron(np.linalg.inv(P), S / (df - 2))
    assert np.cov(B.reshape(Q * d, -1)) == pytest.approx(wanted, abs=8 * np.abs(wanted).max() / math.sqrt(size / 4))


def test_cluster_parameters_are_moments_of_draws(column):
    d, data, model, arrays, state = column
    size = 40_000
    work = state._replace(num=state.num.copy())
    work.num[layout.Count.CLUSTERS] = 0
    theta = draw_components(arrays, work, model.packed.n_theta, 0, size, np.random.default_rng(5))
    B, covariance = in_units(model.family, theta, d)
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    drawn = {f"coef {of} of {name}": B[a, j] for j, name in enumerate(names(d)) for a, of in enumerate(("Intercept", "x", "w"))}
    drawn |= {f"sd {name}": sd[:, j] for j, name in enumerate(names(d))}
    drawn |= {
        f"corr {names(d)[i]}, {names(d)[j]}": covariance[:, i, j] / (sd[:, i] * sd[:, j]) for j in range(d) for i in range(j)
    }
    found = model.family.cluster_parameters(state.stat, 1)
    assert [p.name for p in found] == list(drawn)
    for p in found:
        values = drawn[p.name]
        assert p.mean[0] == pytest.approx(values.mean(), abs=5 * values.std() / math.sqrt(size)), p.name
        assert p.sd[0] == pytest.approx(values.std(), rel=0.05), p.name
        for q in (0.1, 0.8):
            assert (values <= p.quantile(q)[0]).mean() == pytest.approx(q, abs=4.5 * math.sqrt(q * (1 - q) / size)), p.name
    empty = model.family.cluster_parameters(state.stat, 2)
    assert all(np.isfinite(p.mean[1]) for p in empty)  # nu = d + 1.5 has a mean


def test_densities_means_and_laws(column):
    d, data, model, arrays, state = column
    family, X, Y = model.family, design(data), data[names(d)].to_numpy()
    K = int(state.num[layout.Count.CLUSTERS])
    theta = draw_components(arrays, state, model.packed.n_theta, K, 5, np.random.default_rng(2))  # from the prior
    B, covariance = in_units(family, theta, d)
    mean = np.einsum("ia,ajm->imj", X, B)
    wanted = np.array([[stats.multivariate_normal(mean[i, m], covariance[m]).logpdf(Y[i]) for m in range(5)] for i in range(N)])
    assert component_densities(arrays, theta, model.packed.n_work) == pytest.approx(wanted, abs=1e-9)
    assert family.means(component_means(arrays, theta, d)) == pytest.approx(mean)
    for j, law in enumerate(family.component_distributions(theta, model.frame.inputs)):
        own = stats.norm(mean[..., j], np.sqrt(covariance[:, j, j]))
        assert law.density(Y[:, [j]]) == pytest.approx(own.pdf(Y[:, [j]]))
        assert law.cdf(Y[:, [j]]) == pytest.approx(own.cdf(Y[:, [j]]))
    scores = predictive_scores(arrays, state)
    assert scores[-1, 0] == pytest.approx(marginal(data, range(N), d) - marginal(data, range(N - 1), d))
    P, B_n, S, nu = posterior(data, d)
    df, Q_n = nu - d + 1, np.einsum("ia,ab,ib->i", X, np.linalg.inv(P), X)
    for i in range(N):
        law = stats.multivariate_t(X[i] @ B_n, S * (1 + Q_n[i]) / df, df)
        assert scores[i, 0] == pytest.approx(law.logpdf(Y[i]))
    laws = family.predictive_distributions(state.stat, 2, model.frame.inputs)
    assert family.means(cluster_means(arrays, state, d)) == pytest.approx(np.stack([law.centre for law in laws], axis=-1))
    for j, law in enumerate(laws):
        own = stats.t(df, X @ B_n[:, j], np.sqrt(S[j, j] * (1 + Q_n) / df))
        assert law.density(Y[:, [j]])[:, 0] == pytest.approx(own.pdf(Y[:, j]))
        assert law.cdf(law.quantile(0.3)) == pytest.approx(np.full((N, 2), 0.3))
    size = 40_000
    draws = family.draw_responses(np.repeat(theta[:, :1], size, axis=1), np.repeat(X[:1], size, axis=0), np.random.default_rng(3))
    assert draws.shape == (size, d)
    for j in range(d):
        assert stats.kstest(draws[:, j], stats.norm(mean[0, 0, j], math.sqrt(covariance[0, j, j])).cdf).pvalue > 1e-4
    assert np.cov(draws.T) == pytest.approx(covariance[0], abs=8 * np.abs(covariance[0]).max() / math.sqrt(size))


# ---- missing responses


def test_rows_without_responses_count_for_nothing():
    d, data = 2, table(2)
    data.loc[[2, 7], names(d)] = np.nan
    data["z"] = 1.0 * (np.arange(N) == 3)
    family = {"y1 + y2": nm.Regression("1 + x + w", **hyper(d)), "z": nm.Gaussian()}
    model = nm.Model("y1 + y2 + z ~ 1", data, family=family, missing="marginalize")
    arrays, state = started(model, np.zeros(N, int))
    z, of_z = started(nm.Model("z ~ 1", data, family=nm.Gaussian()), np.zeros(N, int))
    seen = np.flatnonzero(data["y1"].notna())
    assert marginal_column(arrays, state.stat, 0) == pytest.approx(marginal(data, seen, d) + marginal_column(z, of_z.stat, 0), abs=1e-9)
    out, other = np.zeros(state.size.shape[0]), np.zeros(state.size.shape[0])
    score_columns(arrays, state.stat, state.scratch.work, out, 1, 2, -1)
    score_columns(z, of_z.stat, of_z.scratch.work, other, 1, 2, -1)
    assert out[0] == pytest.approx(other[0], abs=1e-12)
    assert np.isfinite(model.fit(draws=5, tune=5, chains=1, rng=1).log_density()).all()


def test_rows_that_miss_some_are_refused():
    data = table(2).set_index(pd.Index([f"r{i}" for i in range(N)]))
    data.loc["r4", "y2"] = np.nan
    with pytest.raises(ValueError) as error:
        model_of(data, 2, missing="marginalize")
    for part in ("'r4'", "'y2'", "family={'y1': nm.Regression('1 + x + w'), 'y2': nm.Regression('1 + x + w')}", "missing='drop'"):
        assert part in str(error.value)
    with pytest.warns(UserWarning, match="1 of 12 rows dropped"):
        assert model_of(data, 2).n_obs == N - 1
    apart = {name: nm.Regression("1 + x + w") for name in names(2)}
    assert nm.Model(formula(2), data, family=apart, missing="marginalize").n_obs == N
    fit = model_of(table(2), 2).fit(draws=5, tune=5, chains=1, rng=1)
    with pytest.raises(ValueError, match=r"r4.*misses the response 'y2'"):
        fit.log_density(data)


# ---- nothing depends on units and coding


LABELS = np.repeat([0, 1, 2], [5, 4, 3])


def joint(data, d, right="1 + x + w"):
    return nm.Model(formula(d), data, prior=nm.DirichletProcess(1.0), family=nm.Regression(right, shrinkage=None)).log_joint(LABELS)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_recoding_and_mixing_change_nothing_but_the_jacobian(d):
    data = table(d)
    wanted = joint(data, d)
    for right in ("x + w", "1 + I(3 - 2 * x) + I(x + w)", "1 + center(x) + I(5 * w - 7)"):
        assert joint(data, d, right) == pytest.approx(wanted, abs=1e-9)
    A = MIXING[:d, :d].T * np.array([1e3, 1.0, -0.02])[:d]
    other = data.assign(x=data["x"] * 60 + 2000, **dict(zip(names(d), (data[names(d)].to_numpy() @ A).T + 7e4, strict=True)))
    assert joint(other, d) == pytest.approx(wanted - N * np.linalg.slogdet(A)[1], abs=1e-7)
    run = {"draws": 40, "tune": 20, "chains": 1, "rng": 4}
    family = nm.Regression("1 + x + w", shrinkage=None)
    one, two = (nm.fit(formula(d), rows, family=family, **run).draws["labels"] for rows in (data, other))
    assert np.array_equal(one, two)


def test_far_from_zero():
    data = table(2)
    shifted = data.assign(y1=data["y1"] + 1e9, y2=data["y2"] - 1e8, x=data["x"] + 1e6)
    assert joint(shifted, 2) == pytest.approx(joint(data, 2), abs=1e-4)


def test_defaults_are_what_the_documentation_says():
    data = table(3)
    family = model_of(data, 3, shrinkage=None).family
    X, Y = design(data), data[names(3)].to_numpy()
    assert family.b == pytest.approx(np.outer([1, 0, 0], Y.mean(axis=0)), abs=1e-12)
    assert family.factor.T @ family.factor == pytest.approx(family.r * X.T @ X / N)
    assert (family.r, family.nu) == (regression.R, regression.NU + 2)
    assert family.scale == pytest.approx(regression.SPREAD * family.nu * np.cov(Y.T))
    twin = data.assign(y3=2 * data["y1"] - data["y2"])
    variances = twin[names(3)].var().to_numpy()
    assert model_of(twin, 3, shrinkage=None).family.scale == pytest.approx(regression.SPREAD * family.nu * np.diag(variances))


def test_given_numbers_are_in_the_units_of_the_data():
    data = table(2)
    model = model_of(data, 2)
    wanted = sum(marginal(data, np.flatnonzero(LABELS == k), 2) for k in range(3))
    assert model.log_joint(LABELS) == pytest.approx(wanted + eppf(5, 4, 3), abs=1e-9)
    text = str(model)
    for part in ("Regression of 2 responses on Intercept, x, w", "Wishart(nu, scale^-1)", "MN(b, precision^-1, Lambda^-1)", "nu = 3.5"):
        assert part in text
    covariance = pd.DataFrame(hyper(2)["scale"])
    assert model_of(data, 2, **(hyper(2) | {"scale": covariance})).log_joint(LABELS) == pytest.approx(model.log_joint(LABELS))


BAD = {
    "nu": ({"nu": 1.01}, "near d - 1 = 1 or below that draws overflow; take 1.05 or more"),
    "large nu": ({"nu": 1e11}, "nu = 1e+11 is lost in rounding"),
    "one number": ({"scale": 1.0}, "scale must have shape (2, 2)"),
    "negative": ({"scale": -1.0}, "scale must be"),
    "indefinite": ({"scale": [[1.0, 2.0], [2.0, 1.0]]}, "scale must be positive definite"),
    "asymmetric": ({"scale": [[1.0, 0.2], [0.0, 1.0]]}, "scale must be symmetric"),
    "shape of b": ({"b": [1.0, 2.0]}, "b must have shape (3, 2)"),
    "constant": ({}, "'y1' is constant"),
}


@pytest.mark.parametrize("name", BAD)
def test_messages(name):
    options, message = BAD[name]
    data = table(2).assign(**({} if options else {"y1": 1.0}))
    with pytest.raises(ValueError) as error:
        nm.Model(formula(2), data, family=nm.Regression("1 + x + w", **options))
    assert message in str(error.value)
    with pytest.raises(ValueError, match="when a model is made"):
        nm.Regression("1 + x").means(np.zeros(2))


# ---- use


def crossing(n=80):
    """Two planes of two responses over x, and which."""
    rng = np.random.default_rng(8)
    x, line = rng.uniform(0, 10, n), np.arange(n) % 2
    y1 = np.where(line, 3 * x, 20 - x) + 0.3 * rng.normal(size=n)
    return pd.DataFrame({"x": x, "t": rng.uniform(size=n), "y1": y1, "y2": 0.5 * y1 + x + 0.2 * rng.normal(size=n)}), line


def test_planes_are_found_saved_and_extended(tmp_path):
    data, line = crossing()
    fit = nm.fit(formula(2), data, family=nm.Regression("1 + x"), draws=60, tune=100, chains=2, rng=1)
    found = fit.partition().labels
    assert max(np.mean(found == line), np.mean(found == 1 - line)) > 0.95
    again = nm.load(fit.save(tmp_path / "planes.npz"))
    more, wanted = again.extend(20), fit.extend(20)
    whole = nm.fit(formula(2), data, family=nm.Regression("1 + x"), draws=80, tune=100, chains=2, rng=1)
    for name in fit.draws:
        assert np.array_equal(more.draws[name], wanted.draws[name])
        assert np.array_equal(more.draws[name], whole.draws[name])
    assert str(again.model) == str(fit.model)
    text = fit.summary().as_text()
    assert "coef x of y2" in text and "corr y1, y2" in text


@pytest.mark.nightly
def test_densities_of_new_rows_are_at_their_inputs():
    d, data = 2, table(2, 40, 2)
    fit = model_of(data, d).fit(draws=30, tune=30, chains=1, rng=5)
    new = pd.DataFrame({"x": [0.3, -2.0, 5.0], "w": [1.0, 0.0, -3.0], "y1": [1.0, -2.0, 14.0], "y2": [0.0, -3.0, 9.0]})
    both, logs = pd.concat([data, new], ignore_index=True), []
    for labels in fit.draws.flat("labels"):
        of_row = []
        for j in range(40, 43):
            blocks = [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]
            terms = [math.log(len(b) / 41) + marginal(both, [*b, j], d) - marginal(both, b, d) for b in blocks]
            of_row.append(np.logaddexp.reduce([*terms, math.log(1 / 41) + marginal(both, [j], d)]))
        logs.append(of_row)
    wanted = np.logaddexp.reduce(logs, axis=0) - math.log(len(logs))
    assert fit.log_density(new).to_numpy() == pytest.approx(wanted, abs=1e-9)


def test_density_regression_of_several_responses():
    """Lines by default; every kind of prediction; the joint density and the marginal ones."""
    data, _ = crossing(60)
    fit = nm.fit("y1 + y2 ~ x", data, draws=20, tune=40, chains=2, rng=1)
    assert isinstance(fit.model.family, nm.Regression) and fit.model.family.design == "1 + x"
    assert fit.draws["shrinkage"].shape == (2, 20, 2) and fit.draws["noise_scale"].shape == (2, 20, 2)
    new = pd.DataFrame({"x": [2.0, 8.0]})
    mean = fit.predict(new)
    assert mean.shape == (4, 3) and (mean["lower"] <= mean["upper"]).all()
    grid = np.linspace(-40, 60, 2001)
    cdf = fit.predict(new, "cdf", at=grid, response="y1")["estimate"].to_numpy().reshape(2, -1)
    density = fit.predict(new, "density", at=grid, response="y1")["estimate"].to_numpy().reshape(2, -1)
    assert np.trapezoid(density, grid) == pytest.approx(cdf[:, -1] - cdf[:, 0], abs=1e-3)
    quantile = fit.predict(new, "quantile", q=[0.5], response="y1")["estimate"].to_numpy()
    assert [np.interp(q, grid, c) for q, c in zip(quantile, cdf, strict=True)] == pytest.approx([0.5, 0.5], abs=5e-3)
    above = fit.predict(new, "exceedance", at=[10.0], response="y1")["estimate"].to_numpy()
    assert above == pytest.approx([1 - np.interp(10.0, grid, c) for c in cdf], abs=5e-3)
    own = fit.predict(new, "density", at=[[6.0, 5.0]])["estimate"]
    assert len(own) == 2 and (own > 0).all()
    assert fit.simulate(new, draws=3, rng=1).shape == (6, 2)
    drawn = fit.simulate(new, draws=2000, rng=2)["y1"].to_numpy().reshape(2000, 2)
    assert (drawn > 10).mean(axis=0) == pytest.approx(above, abs=0.06)


def test_lines_in_one_column_weights_over_another():
    data, line = crossing(60)
    data["y"] = data["y1"] + 4.0 * data["t"]
    for left, d in (("y", 1), ("y1 + y2", 2)):
        fit = nm.fit(f"{left} ~ t", data, family=nm.Regression("x"), draws=20, tune=40, chains=1, rng=1)
        assert fit.model.frame.covariate_names == ("t",) and fit.model.family.input_names == ("Intercept", "x")
        new = pd.DataFrame({"x": [1.0, 9.0], "t": [0.2, 0.2]})
        mean = fit.predict(new)["estimate"].to_numpy()
        assert len(mean) == 2 * d and abs(mean[d] - mean[0]) > 1.0, "the mean follows x"
        assert fit.simulate(new, draws=2, rng=1).shape == (4, d)
        with pytest.raises(ValueError, match="x"):
            fit.predict(new[["t"]])


def test_one_shrinkage_that_does_not_suit_all_responses_is_said():
    """Two tight groups of one response: a component that no row belongs to is then anywhere in the other."""
    rng = np.random.default_rng(0)
    x = rng.random(300)
    z, place = x + rng.normal(size=300), np.where(rng.random(300) < 0.5, 0.0, 10.0)
    run = {"draws": 150, "tune": 150, "chains": 2, "rng": 1}
    data = {"x": x, "z": z, "k": place + 1e-4 * rng.normal(size=300), "wide": place + rng.normal(size=300)}
    with pytest.warns(UserWarning, match=r"Bands of 'z' are too wide: .* components of 'k' are so narrow .*'z': nm.Regression\('1 \+ x'\)"):
        fit = nm.fit("k + z ~ x", data, **run)
    assert "Bands of 'z' are too wide" in fit.summary().as_text()

    def width(fit):
        band = fit.predict({"x": [0.5]}, response="z", rng=1)
        return float((band["upper"] - band["lower"]).iloc[0])

    own = nm.fit("k + z ~ x", data, family={"k": nm.Regression("1 + x"), "z": nm.Regression("1 + x")}, **run)
    usual = nm.fit("wide + z ~ x", data, **run)
    assert width(fit) > 20 * width(own) and width(usual) < 5 * width(own)
    assert not any("too wide" in one.summary().as_text() for one in (own, usual))
