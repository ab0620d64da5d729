"""Regression components: kernels against closed forms, invariance, laws, messages."""

from __future__ import annotations

import math

import numba
import numpy as np
import pandas as pd
import pytest
from exact.marginals import regression_log_marginal
from scipy import stats

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.clusters import empty_column, marginal_column, score_columns, update_column
from nrmmix.kernels.predictive import cluster_means, component_densities, component_means, draw_components, predictive_scores
from nrmmix.model.pack import arrays_of

N = 12
HYPER = {
    "b": np.array([0.3, 0.2, -0.1]), "precision": np.array([[0.5, 0.1, 0.0], [0.1, 0.4, 0.1], [0.0, 0.1, 0.9]]), "nu": 3.0, "scale": 0.4,
}


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=n), rng.normal(size=n)
    return pd.DataFrame({"x": x, "w": w, "y": 1.0 + 2.0 * x - w + rng.normal(size=n)})


def design(data):
    return np.column_stack([np.ones(len(data)), data["x"], data["w"]])


def model_of(data, missing="drop", **options):
    return nm.Model("y ~ 1", data, prior=nm.DirichletProcess(1.0), family=nm.Regression("1 + x + w", **(options or HYPER)), missing=missing)


def started(model, labels):
    data, state = arrays_of(model, 8)
    chain.start(data, state, np.asarray(labels, np.int64))
    return data, state


def marginal(table, rows):
    rows = np.asarray(rows, int)
    return regression_log_marginal(design(table)[rows], table["y"].to_numpy()[rows], **HYPER) if len(rows) else 0.0


@pytest.fixture(scope="module")
def column():
    """All but the last row in one column."""
    data = table()
    model = model_of(data)
    labels = np.zeros(N, np.int64)
    labels[-1] = -1
    arrays, state = started(model, labels)
    empty_column(arrays, state.stat, 1)
    return data, model, arrays, state


def test_predictives_in_turn_make_the_marginal():
    data = table()
    model = model_of(data)
    arrays, state = started(model, np.full(N, -1))
    empty_column(arrays, state.stat, 0)
    total = 0.0
    for i in range(N):
        out = np.zeros(state.size.shape[0])
        score_columns(arrays, state.stat, state.scratch.work, out, 1, i, -1)
        total += out[0]
        update_column(arrays, state.stat, 0, i, 1.0)
        assert total == pytest.approx(marginal(data, range(i + 1)), abs=1e-9)
        assert marginal_column(arrays, state.stat, 0) == pytest.approx(total, abs=1e-9)


def test_score_without_itself():
    data = table(30, 3)
    model = model_of(data)
    arrays, state = started(model, np.repeat([0, 1, 2], [20, 9, 1]))
    alone = 0
    for i in range(30):
        out = np.zeros(state.size.shape[0])
        own = int(state.labels[i])
        score_columns(arrays, state.stat, state.scratch.work, out, 3, i, own)
        for k in range(3):
            others = [j for j in range(30) if state.labels[j] == k and j != i]
            wanted = marginal(data, [*others, i]) - marginal(data, others)
            assert out[k] == pytest.approx(wanted, abs=1e-9) or (k == own and math.isnan(out[k]))
            alone += math.isnan(out[k])
    assert alone <= 1, "only the score of the last row without itself may be left to `score_without`"
    assert arrays.log_prior_predictive == pytest.approx([marginal(data, [i]) for i in range(30)], abs=1e-9)


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


def test_a_million_updates_leave_the_statistics():
    data = table(40, 5)
    arrays, state = started(model_of(data), np.where(np.arange(40) < 39, 0, -1))  # tables end at as many as there are
    before = state.stat[:, 0].copy()
    n = len(before) - 3  # without scratch
    assert _in_and_out(arrays, state.stat, np.arange(39), 250_000) == 0
    assert state.stat[:n, 0] == pytest.approx(before[:n], rel=1e-8, abs=1e-8)


def test_a_removal_that_loses_digits_says_so():
    data = table(6, 6)
    data.loc[5, ["x", "w"]] = 1e5, -1e5
    arrays, state = started(model_of(data), np.zeros(6, int))
    assert not update_column(arrays, state.stat, 0, 5, -1.0)
    assert update_column(started(model_of(data), np.zeros(6, int))[0], state.stat, 0, 0, 1.0)
    out = np.zeros(state.size.shape[0])
    arrays, state = started(model_of(data), np.zeros(6, int))
    score_columns(arrays, state.stat, state.scratch.work, out, 1, 5, 0)
    assert math.isnan(out[0])


def test_posterior_draws(column):
    data, model, arrays, state = column
    size = 40_000
    work = state._replace(num=state.num.copy())
    work.num[layout.Count.CLUSTERS] = 0  # so that `draw_components` draws from the prior
    theta = draw_components(arrays, work, model.packed.n_theta, 0, size, np.random.default_rng(1))
    X, y = design(data)[:-1], data["y"].to_numpy()[:-1]
    precision = HYPER["precision"] + X.T @ X
    mean = np.linalg.solve(precision, HYPER["precision"] @ HYPER["b"] + X.T @ y)
    S = HYPER["scale"] + y @ y + HYPER["b"] @ HYPER["precision"] @ HYPER["b"] - mean @ precision @ mean
    df = HYPER["nu"] + N - 1
    family = model.family
    beta = family.coefficients(theta[2:])
    s2 = family.scale / theta[1] ** 2
    assert stats.kstest(S / s2, stats.chi2(df).cdf).pvalue > 1e-4
    for a in range(3):
        z = (beta[a] - mean[a]) / np.sqrt(S / df * np.linalg.inv(precision)[a, a])
        assert stats.kstest(z, stats.t(df).cdf).pvalue > 1e-4
    wanted = np.linalg.inv(precision) * S / (df - 2)
    assert np.cov(beta) == pytest.approx(wanted, abs=6 * np.abs(wanted).max() / math.sqrt(size / 4))
    assert np.log(theta[1]) == pytest.approx(theta[0])
    found = {p.name: p for p in family.cluster_parameters(state.stat, 1)}
    assert list(found) == ["coef Intercept", "coef x", "coef w", "sd y"]
    for a, name in enumerate(("coef Intercept", "coef x", "coef w")):
        assert found[name].mean[0] == pytest.approx(mean[a])
        assert found[name].sd[0] == pytest.approx(math.sqrt(wanted[a, a]))
    law = stats.invgamma(df / 2, scale=S / 2)
    sd = law.expect(math.sqrt)
    assert found["sd y"].mean[0] == pytest.approx(sd, rel=1e-6)
    assert found["sd y"].sd[0] == pytest.approx(math.sqrt(law.mean() - sd**2), rel=1e-4)


def test_densities_means_and_laws(column):
    data, model, arrays, state = column
    family, X, y = model.family, design(data), data["y"].to_numpy()
    K = state.num[layout.Count.CLUSTERS]
    theta = draw_components(arrays, state, model.packed.n_theta, K, 5, np.random.default_rng(2))  # from the prior
    beta, sd = family.coefficients(theta[2:]), math.sqrt(family.scale) / theta[1]
    mean = X @ beta
    assert component_densities(arrays, theta, model.packed.n_work) == pytest.approx(stats.norm(mean, sd).logpdf(y[:, None]), abs=1e-10)
    assert family.means(component_means(arrays, theta, 1)[..., 0]) == pytest.approx(mean)
    (law,) = family.component_distributions(theta, model.frame.inputs)
    assert law.density(y[:, None]) == pytest.approx(stats.norm(mean, sd).pdf(y[:, None]))
    assert law.cdf(y[:, None]) == pytest.approx(stats.norm(mean, sd).cdf(y[:, None]))
    (law,) = family.predictive_distributions(state.stat, 2, model.frame.inputs)
    assert np.log(law.density(y[:, None])) == pytest.approx(predictive_scores(arrays, state), abs=1e-10)
    assert law.cdf(law.quantile(0.3)) == pytest.approx(np.full((N, 2), 0.3))
    assert family.means(cluster_means(arrays, state, 1)[..., 0]) == pytest.approx(law.centre)
    assert law.density(y[:, None])[-1, 0] == pytest.approx(math.exp(marginal(data, range(N)) - marginal(data, range(N - 1))))
    draws = family.draw_responses(np.repeat(theta[:, :1], 40_000, axis=1), np.repeat(X[:1], 40_000, axis=0), np.random.default_rng(3))
    assert draws.shape == (40_000, 1)
    assert stats.kstest(draws[:, 0], stats.norm(mean[0, 0], sd[0]).cdf).pvalue > 1e-4


def test_missing_responses_count_for_nothing():
    data = table()
    data.loc[[2, 7], "y"] = np.nan
    data["z"] = 0.0
    data.loc[3, "z"] = 1.0
    family = {"y": nm.Regression("1 + x + w", **HYPER), "z": nm.Gaussian()}
    model = nm.Model("y + z ~ 1", data, family=family, missing="marginalize")
    arrays, state = started(model, np.zeros(N, int))
    seen = np.flatnonzero(data["y"].notna())
    z = nm.Model("z ~ 1", data, family=nm.Gaussian())
    wanted = marginal(data, seen) + marginal_column(*_arrays(started(z, np.zeros(N, int))), 0)
    assert marginal_column(arrays, state.stat, 0) == pytest.approx(wanted, abs=1e-9)
    assert state.stat[model.packed.table[0, layout.Block.STAT], 0] == len(seen)
    out = np.zeros(state.size.shape[0])
    score_columns(arrays, state.stat, state.scratch.work, out, 1, 2, -1)
    _, of_z = started(z, np.zeros(N, int))
    other = np.zeros(state.size.shape[0])
    score_columns(arrays_of(z, 8)[0], of_z.stat, of_z.scratch.work, other, 1, 2, -1)
    assert out[0] == pytest.approx(other[0], abs=1e-12)


def _arrays(pair):
    return pair[0], pair[1].stat


# ---- nothing depends on units and coding


LABELS = np.repeat([0, 1, 2], [5, 4, 3])


def joint(data, formula):
    return nm.Model("y ~ 1", data, prior=nm.DirichletProcess(1.0), family=nm.Regression(formula, shrinkage=None)).log_joint(LABELS)


@pytest.mark.parametrize("formula", ["1 + x + w", "x + w", "1 + I(3 - 2 * x) + I(x + w)", "1 + center(x) + I(5 * w - 7)"])
def test_recoding_the_design_changes_nothing(formula):
    data = table()
    assert joint(data, formula) == pytest.approx(joint(data, "1 + x + w"), abs=1e-9)


def test_units_of_the_data_change_nothing_but_the_jacobian():
    data = table()
    other = data.assign(y=1e3 * data["y"] + 7e4, x=data["x"] * 60 + 2000, w=-data["w"] / 1e4)
    assert joint(other, "1 + x + w") == pytest.approx(joint(data, "1 + x + w") - N * math.log(1e3), abs=1e-8)
    rng = {"draws": 40, "tune": 20, "chains": 1, "rng": 4}
    one, two = (nm.fit("y ~ 1", d, family=nm.Regression("1 + x + w", shrinkage=None), **rng).draws["labels"] for d in (data, other))
    assert np.array_equal(one, two)


def test_far_from_zero():
    data = table()
    shifted = data.assign(y=data["y"] + 1e9, x=data["x"] + 1e6)
    assert joint(shifted, "1 + x + w") == pytest.approx(joint(data, "1 + x + w"), abs=1e-4)


def test_defaults_are_what_the_documentation_says():
    data = table()
    family = model_of(data, shrinkage=None).family
    X, y = design(data), data["y"].to_numpy()
    assert family.b == pytest.approx([y.mean(), 0, 0], abs=1e-12)
    assert family.factor.T @ family.factor == pytest.approx(family.r * X.T @ X / N)
    from nrmmix.model.families import regression

    assert (family.r, family.nu) == (regression.R, regression.NU)
    assert family.scale == pytest.approx(regression.SPREAD * regression.NU * y.var(ddof=1))
    assert family.precision is None


def test_given_numbers_are_in_the_units_of_the_data():
    data = table()
    model = model_of(data)
    wanted = sum(marginal(data, np.flatnonzero(LABELS == k)) for k in range(3))
    base = nm.Model("y ~ 1", data, prior=nm.DirichletProcess(1.0)).log_joint(LABELS, scale=[1.0])
    other = nm.Model("y ~ 1", data, prior=nm.DirichletProcess(1.0), family=nm.Gaussian(m=0, r=1, nu=3, scale=1))
    assert base != wanted
    eppf = math.lgamma(1) - math.lgamma(1 + N) + sum(math.lgamma(m) for m in (5, 4, 3))
    assert model.log_joint(LABELS) == pytest.approx(wanted + eppf, abs=1e-9)
    assert other.log_joint(LABELS) != pytest.approx(wanted)
    text = str(model)
    assert "Intercept, x, w" in text and "nu = 3" in text and "scale = 0.4" in text


# ---- use


def test_lines_are_found_saved_and_extended(tmp_path):
    rng = np.random.default_rng(8)
    x = rng.uniform(0, 10, 80)
    line = np.arange(80) % 2
    data = pd.DataFrame({"x": x, "y": np.where(line, 3 * x, 20 - x) + 0.3 * rng.normal(size=80)})
    fit = nm.fit("y ~ 1", data, family=nm.Regression("1 + x"), draws=60, tune=100, chains=2, rng=1)
    found = fit.partition().labels
    assert max(np.mean(found == line), np.mean(found == 1 - line)) > 0.95
    again = nm.load(fit.save(tmp_path / "lines.npz"))
    more, wanted = again.extend(20), fit.extend(20)
    whole = nm.fit("y ~ 1", data, family=nm.Regression("1 + x"), draws=80, tune=100, chains=2, rng=1)
    for name in fit.draws:
        assert np.array_equal(more.draws[name], wanted.draws[name])
        assert np.array_equal(more.draws[name], whole.draws[name])
    assert str(again.model) == str(fit.model)


def test_densities_of_new_rows_are_at_their_inputs():
    data = table(40, 2)
    model = nm.Model("y ~ 1", data, prior=nm.DirichletProcess(1.0), family=nm.Regression("1 + x + w", **HYPER))
    fit = model.fit(draws=30, tune=30, chains=1, rng=5)
    new = pd.DataFrame({"x": [0.3, -2.0, 5.0], "w": [1.0, 0.0, -3.0], "y": [1.0, -2.0, 14.0]})
    both = pd.concat([data, new], ignore_index=True)
    logs = []
    for labels in fit.draws.flat("labels"):
        of_row = []
        for j in range(40, 43):
            blocks = [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]
            terms = [math.log(len(b) / 41) + marginal(both, [*b, j]) - marginal(both, b) for b in blocks]
            of_row.append(np.logaddexp.reduce([*terms, math.log(1 / 41) + marginal(both, [j])]))
        logs.append(of_row)
    wanted = np.logaddexp.reduce(logs, axis=0) - math.log(len(logs))
    assert fit.log_density(new).to_numpy() == pytest.approx(wanted, abs=1e-9)
    at = fit.predict(new, kind="mean")
    assert (at["lower"] < at["upper"]).all()
    assert fit.simulate(new, draws=2, rng=1).shape == (6, 1)


BAD = {
    "matrix": (lambda d: nm.Model("y ~ 1", d, family=nm.Regression("1 + x", scale=np.eye(2))), "scale must have shape (1, 1)"),
    "collinear": (
        lambda d: nm.Model("y ~ 1", d.assign(v=2 * d["x"] - d["w"] + 3), family=nm.Regression("1 + x + w + v", shrinkage=None)),
        "linear combination",
    ),
    "zero column": (
        lambda d: nm.Model("y ~ 1", d.assign(v=0.0 * d["x"]), family=nm.Regression("1 + v:x", shrinkage=None)), "'v:x' is 0 in every row"
    ),
    "few rows": (
        lambda d: nm.Model("y ~ 1", d[:2], family=nm.Regression("1 + x + w", shrinkage=None)), "3 columns but there are 2 rows"
    ),
    "both": (lambda d: nm.Regression("1", r=1.0, precision=1.0), "not both"),
    "no design": (lambda d: nm.Regression(3), "right side of a formula"),
    "nu": (lambda d: nm.Regression("1", nu=-1.0), "nu must be"),
    "small nu": (lambda d: nm.Model("y ~ 1", d, family=nm.Regression("1", nu=0.01)), "0.05 or more"),
    "shape of b": (lambda d: nm.Model("y ~ 1", d, family=nm.Regression("1 + x", b=[1.0])), "b must have shape (2,)"),
    "precision": (
        lambda d: nm.Model("y ~ 1", d, family=nm.Regression("1 + x", precision=[[1.0, 2.0], [2.0, 1.0]])), "positive definite"
    ),
    "large nu": (lambda d: nm.Model("y ~ 1", d, family=nm.Regression("1 + x", nu=1e11)), "nu = 1e+11 is lost in rounding"),
    "asymmetric": (lambda d: nm.Model("y ~ 1", d, family=nm.Regression("1 + x", precision=[[1.0, 0.2], [0.0, 1.0]])), "symmetric"),
    "constant": (lambda d: nm.Model("y ~ 1", d.assign(y=1.0), family=nm.Regression("1 + x")), "'y'"),
}


@pytest.mark.parametrize("name", BAD)
def test_messages(name):
    make, message = BAD[name]
    with pytest.raises(ValueError) as error:
        make(table())
    assert message in str(error.value)


def test_collinear_columns_with_a_precision():
    data = table()
    data["v"] = data["x"] + 1.0
    model = nm.Model("y ~ 1", data, prior=nm.DirichletProcess(1.0),
                     family=nm.Regression("1 + x + v", b=np.zeros(3), precision=np.eye(3), nu=3.0, scale=0.4))
    X = np.column_stack([np.ones(N), data["x"], data["v"]])
    wanted = regression_log_marginal(X, data["y"].to_numpy(), np.zeros(3), np.eye(3), 3.0, 0.4)
    eppf = -math.lgamma(1 + N) + math.lgamma(N)
    assert model.log_joint(np.zeros(N, int)) == pytest.approx(wanted + eppf, abs=1e-9)
