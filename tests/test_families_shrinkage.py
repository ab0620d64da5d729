"""Regression with `shrinkage="sampled"`: its arguments, units, columns that others need refused, and use."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.core.clusters import marginal_column
from nrmmix.model.pack import arrays_of

RUN = {"draws": 60, "tune": 60, "chains": 2, "rng": 1, "cores": 1}


def lines(n=80, seed=8):
    rng = np.random.default_rng(seed)
    x, line = rng.uniform(0, 10, n), np.arange(n) % 2
    y = np.where(line, 3 * x, 20 - x) + 0.3 * rng.normal(size=n)
    return pd.DataFrame({"x": x, "y": y, "w": rng.normal(size=n), "t": rng.uniform(size=n), "y2": 0.5 * y + x + 0.2 * rng.normal(size=n)})


# ---- arguments


def test_fixed_hyperparameters_leave_shrinkage_out():
    assert nm.Regression("1 + x").shrinkage == "sampled"
    assert nm.Regression("1 + x", shrinkage=None).shrinkage is None
    for given in ({"b": [0.0, 1.0]}, {"r": 0.1}, {"precision": np.eye(2)}, {"nu": 3.0}, {"scale": 1.0}):
        assert nm.Regression("1 + x", **given).shrinkage is None
    assert nm.Regression("1 + x", nu=3.0, shrinkage="sampled").shrinkage == "sampled"
    assert nm.Regression("1 + x", nu=3.0, shrinkage=nm.Gamma(2, 3)).shrinkage == nm.Gamma(2, 3)


@pytest.mark.parametrize("shrinkage", ["sampled", nm.Gamma(1, 1)])
@pytest.mark.parametrize("name", ["b", "r", "precision", "scale"])
def test_hyperparameters_that_do_not_apply(name, shrinkage):
    with pytest.raises(ValueError, match=f"{name} is a hyperparameter of shrinkage=None"):
        nm.Regression("1 + x", shrinkage=shrinkage, **{name: 1.0})


@pytest.mark.parametrize("value", ["foo", True, 1.0, "none", nm.Beta(1, 2), nm.Gamma])
def test_unknown_shrinkage(value):
    with pytest.raises(ValueError, match=r'must be "sampled", nm\.Gamma\(shape, rate\), None or "auto"'):
        nm.Regression("1 + x", shrinkage=value)


def test_methods_that_need_it_fixed():
    model = nm.Model("y ~ 1", lines(), family=nm.Regression("1 + x"))
    with pytest.raises(ValueError, match="shrinkage=None"):
        model.fit("tree_published")
    for method in ("bhc", "ibhc"):
        fit = model.fit(method, rng=1)
        assert np.isfinite(fit.log_joint) and np.isfinite(fit.log_density()).all()


@pytest.mark.parametrize("left", ["y", "y + y2"])
def test_a_law_of_shrinkage_that_is_given(left, tmp_path):
    """That of "sampled" has its draws to the bit; both are printed and saved."""
    def fit(shrinkage, **options):
        return nm.fit(f"{left} ~ 1", lines(), family=nm.Regression("1 + x + w", shrinkage=shrinkage), **RUN | options)

    own, same = fit("sampled"), fit(nm.Gamma(0.5, 0.5))
    assert all(np.array_equal(own.draws[name], same.draws[name]) for name in ("labels", "shrinkage", "noise_scale"))
    other = fit(nm.Gamma(0.75, 0.02))
    assert "shrinkage ~ Gamma(0.75, rate 0.02) for each column" in str(other.model)
    other.save(tmp_path / "fit.npz")
    again = nm.load(tmp_path / "fit.npz")
    assert again.model.family.shrinkage == nm.Gamma(0.75, 0.02) and str(again.model) == str(other.model)
    assert again.log_density().sum() == other.log_density().sum()


def test_constant_responses_are_refused():
    with pytest.raises(ValueError, match="'y'"):
        nm.Model("y ~ 1", lines().assign(y=1.0), family=nm.Regression("1 + x"))


# ---- units, and columns without a use


@pytest.mark.parametrize("left", ["y", "y + y2"])
def test_units_change_nothing_but_the_units(left):
    """Powers of two and sums that are exact: the standardised data are the same up to rounding."""
    data = lines()
    other = data.assign(y=1024 * data["y"] + 4096, y2=data["y2"] / 4 - 8, x=16 * data["x"] - 64)
    one, two = (nm.fit(f"{left} ~ 1", d, family=nm.Regression("1 + x + w"), **RUN | {"draws": 10, "tune": 5}) for d in (data, other))
    assert np.array_equal(one.draws["labels"], two.draws["labels"])
    np.testing.assert_allclose(one.draws["shrinkage"], two.draws["shrinkage"], rtol=1e-6)
    np.testing.assert_allclose(one.draws["noise_scale"], two.draws["noise_scale"], rtol=1e-6)
    expected, found = one.predict(rng=1)["estimate"].to_numpy(), two.predict(rng=1)["estimate"].to_numpy()
    d = 1 if left == "y" else 2
    scale, shift = np.array([1024.0, 0.25])[:d], np.array([4096.0, -8.0])[:d]
    np.testing.assert_allclose(found.reshape(-1, d), expected.reshape(-1, d) * scale + shift, rtol=1e-6)
    units = np.log(1024.0) + (np.log(0.25) if left != "y" else 0.0)
    np.testing.assert_allclose(two.log_density(), one.log_density() - units, atol=1e-6)


def test_columns_that_say_nothing_are_harmless():
    data = lines().assign(twin=lambda d: 3 - 2 * d["x"], same=7.0, zero=0.0)
    fit = nm.fit("y ~ 1", data, family=nm.Regression("1 + x + twin + same + zero"), **RUN)
    alone = nm.fit("y ~ 1", data, family=nm.Regression("1 + x"), **RUN)
    assert np.isfinite(fit.draws["log_joint"]).all()
    assert abs(fit.log_density().mean() - alone.log_density().mean()) < 0.1
    near = np.abs(fit.predict()["estimate"] - alone.predict()["estimate"])
    assert near.median() < 0.5
    few = nm.fit("y ~ 1", data[:3], family=nm.Regression("1 + x + twin + same + zero"), **RUN)
    assert np.isfinite(few.predict()["estimate"]).all()


@pytest.mark.parametrize("right", ["0 + x", "0 + C(side)", "1", "x:w"])
def test_designs_without_an_intercept(right):
    data = lines().assign(side=lambda d: np.where(d["w"] > 0, "left", "right"))
    fit = nm.fit("y ~ 1", data, family=nm.Regression(right), **RUN)
    assert np.isfinite(fit.log_density(data.iloc[:5])).all() and np.isfinite(fit.predict()["estimate"]).all()


# ---- use


@pytest.mark.parametrize(("formula", "family"), by_turns([
    ("y ~ t", nm.Regression("1 + x")), ("y + y2 ~ 1", nm.Regression("1 + x")),
    ("y + y2 ~ 1", {"y": nm.Regression("1 + x"), "y2": nm.Regression("1 + x + w")}),
    ("y + y2 ~ 1", {"y": nm.Regression("1 + x"), "y2": nm.SemiconjugateGaussian(shared_precision=True)}),
]))
def test_saved_loaded_and_extended(tmp_path, formula, family):
    data = lines()
    fit = nm.fit(formula, data, family=family, **RUN)
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    whole = nm.fit(formula, data, family=family, **RUN | {"draws": 80})
    more, wanted = again.extend(20), fit.extend(20)
    for name in fit.draws:
        assert np.array_equal(again.draws[name], fit.draws[name], equal_nan=True)
        assert np.array_equal(more.draws[name], wanted.draws[name], equal_nan=True)
        assert np.array_equal(more.draws[name], whole.draws[name], equal_nan=True)
    assert str(again.model) == str(fit.model)
    pd.testing.assert_series_equal(again.log_density(), fit.log_density())
    assert "shrinkage" in fit.summary().as_text() or "shrinkage" not in fit.diagnostics().index
    q = 5 if isinstance(family, dict) and isinstance(family["y2"], nm.Regression) else 2
    assert fit.draws["shrinkage"].shape == (2, 60, q)


def test_predictions_use_the_values_of_each_draw():
    """The log density of a row far out is the mean over draws of what the joint densities say, with each draw's own values."""
    data = lines(20)
    model = nm.Model("y ~ 1", data, prior=nm.DirichletProcess(1.0), family=nm.Regression("1 + x"))
    fit = model.fit("gibbs", **RUN | {"draws": 15})
    row = pd.DataFrame({"x": [15.0], "y": [-30.0]})
    both = pd.concat([data, row], ignore_index=True)
    standard = (data["y"].mean(), data["y"].std(), data["x"].mean(), data["x"].std())
    y, x = (both["y"] - standard[0]).to_numpy() / standard[1], (both["x"] - standard[2]).to_numpy() / standard[3]
    X = np.column_stack([np.ones(21), x])
    from exact.marginals import regression_log_marginal

    logs = []
    labels, shrinkage, noise = (fit.draws.flat(name) for name in ("labels", "shrinkage", "noise_scale"))
    for s, lam, ps in zip(labels, shrinkage, noise, strict=True):
        def marginal(b, lam=lam, ps=ps):
            return regression_log_marginal(X[b], y[b], np.zeros(2), np.diag(lam), 2.0, float(ps[0])) if len(b) else 0.0

        blocks = [np.flatnonzero(s == k) for k in range(s.max() + 1)] + [np.zeros(0, int)]
        sizes = [len(b) or 1.0 for b in blocks]
        terms = [np.log(m / 21) + marginal(np.append(b, 20)) - marginal(b) for m, b in zip(sizes, blocks, strict=True)]
        logs.append(np.logaddexp.reduce(terms))
    wanted = np.logaddexp.reduce(logs) - np.log(len(logs)) - np.log(standard[1])
    assert fit.log_density(row).iloc[0] == pytest.approx(wanted, abs=1e-9)


def test_prior_predictive_data():
    model = nm.Model("y ~ 1", lines(), family=nm.Regression("1 + x"))
    drawn = model.prior_predictive(draws=5, rng=1)
    assert drawn.shape == (400, 1) and np.isfinite(drawn).all().all()


# ---- levels of factors


def leveled(n=150, n_levels=6, seed=3):
    rng = np.random.default_rng(seed)
    g = rng.integers(0, n_levels, n)
    x = rng.uniform(size=n)
    y = 2.0 * g + np.sin(4 * x) + 0.2 * rng.normal(size=n)
    return pd.DataFrame({"x": x, "g": [f"l{one:03d}" for one in g], "h": np.where(rng.random(n) < 0.5, "u", "v"), "y": y, "y2": -y})


def test_factors_are_in_the_default_lines_of_sparse_products():
    data = leveled()
    assert nm.Model("y ~ x + g + h", data).family.design.startswith("1 + x + g + h + square(x - 0.50")
    assert nm.Model("y ~ g", data).family.design == nm.Model("y ~ g", data, kernel=nm.SparseProduct(slots=20)).family.design == "1 + g"
    assert nm.Model("y ~ C(g) + x", data).family.design.startswith("1 + x + square(x - ")  # coded: columns of numbers, each with a kernel
    assert nm.Model("y + y2 ~ x + g", data).family.design == "1 + x"  # rows may miss one response
    assert nm.Model("y ~ x + g", data, kernel=nm.Product({"x": nm.Box(0.5), "g": nm.Matching(0.1)})).family.design == "1 + x"
    many = leveled(400, 60)
    assert nm.Model("y ~ x + g + h", many).family.design.startswith("1 + x + h + square(x - ")


def test_levels_have_one_shrinkage_and_are_not_scaled():
    data = leveled()
    data = data[(data["g"] != "l003") | (data.groupby("g").cumcount() < 2)]  # a level of two rows
    model = nm.Model("y ~ x + g + h", data)
    frame = model.frame
    assert frame.input_names[:7] == ("Intercept", *(f"g[T.l{one:03d}]" for one in range(1, 6)), "h[T.v]")
    assert frame.input_groups == (0, 1, 1, 1, 1, 1, 6, 7, 8)
    assert "one for all levels of a factor" in str(model) and "one for all levels" not in str(nm.Model("y ~ x + h", data))
    precision = model.family.factor[1:6, 1:6].T @ model.family.factor[1:6, 1:6]
    np.testing.assert_allclose(precision, 2.0 * (np.eye(5) - 1 / 6), atol=1e-12)  # differences of two levels have variance 1
    assert np.diag(model.family.factor)[6] == pytest.approx(frame.inputs[:, 6].std(ddof=1))
    fit = model.fit(draws=40, tune=200, chains=2, rng=1)
    drawn = fit.draws["shrinkage"]
    assert drawn.shape[-1] == 9 and not np.ptp(drawn[..., 1:6], axis=-1).any() and np.ptp(drawn[..., 1]) > 0
    new = pd.DataFrame({"x": 0.5, "g": sorted(set(data["g"])), "h": "u"})
    assert np.abs(np.diff(fit.predict(new, rng=1)["estimate"]) - 2.0).max() < 1.0


DESIGNS = (
    "1 + x + {}", "1 + {} + {}:h", "1 + h:{}", "1 + h + {}:h", "1 + x + {} + x:{}", "1 + x:{}", "1 + x + h + x:h", "1 + x + h:{}:x",
    "1 + bs(x, df=4) + {} + {}:bs(x, df=4)",
)


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("coding", ["g", "C(g, Sum)", "C(g, Helmert)", "C(g, Treatment('l002'))"])
def test_answers_do_not_depend_on_the_names_of_levels_nor_on_their_coding(design, coding):
    def of(data, coding):
        terms = design.format(*[coding] * design.count("{}"))
        model = nm.Model("y ~ x + g + h", data, family=nm.Regression(terms))
        arrays, state = arrays_of(model, 2)
        chain.start(arrays, state, np.zeros(len(data), np.int64))
        return np.append(arrays.log_prior_predictive, marginal_column(arrays, state.stat, 0))

    data = leveled(40)
    new = {f"l{a:03d}": f"l{b:03d}" for a, b in enumerate([5, 2, 0, 1, 4, 3])}
    renamed = data.assign(g=data["g"].map(new), h=data["h"].map({"u": "v", "v": "u"}))
    np.testing.assert_allclose(of(renamed, coding), of(data, "g"), rtol=1e-9)


@pytest.mark.parametrize("design", ["1 + x + g", "1 + x + g + x:g + h", "1 + g + g:h"])
def test_levels_of_rows_that_are_not_in_memory_are_alike_too(design, tmp_path):
    data = leveled(200)
    data.to_csv(tmp_path / "rows.csv", index=False)
    whole, part = (nm.Model("y ~ x + g + h", one, family=nm.Regression(design)) for one in (data, str(tmp_path / "rows.csv")))
    np.testing.assert_allclose(part.family.factor, whole.family.factor, rtol=1e-9, atol=1e-12)


def test_interactions_of_factors_have_a_shrinkage_of_their_own():
    model = nm.Model("y ~ x + g", leveled(), family=nm.Regression("1 + x + g + x:g"))
    groups = np.array(model.frame.input_groups)
    assert len(np.unique(groups)) == 4 and (np.bincount(groups)[np.unique(groups)] == [1, 5, 1, 5]).all()
    fit = model.fit(draws=5, tune=5, chains=1, rng=1)
    assert fit.draws["shrinkage"].shape == (1, 5, 12)
    wide = leveled().assign(x=lambda d: 1024 * d["x"])
    other = nm.Model("y ~ x + g", wide, family=nm.Regression("1 + x + g + x:g")).fit(draws=5, tune=5, chains=1, rng=1)
    np.testing.assert_allclose(other.draws["shrinkage"], fit.draws["shrinkage"], rtol=1e-6)
