"""Weights of rows: a fit is that of the table in which each row stands as often as its weight says."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import gaussian_log_marginal, partitions
from scipy.special import gammaln
from support.cover import by_turns, each_once

import nrmmix as nm
from nrmmix.cli import main
from nrmmix.model.frame.columns.weights import quantiles
from nrmmix.report.clusters import clusters

# What weights are compared with are rows that are repeated on purpose
pytestmark = pytest.mark.filterwarnings("ignore:.* rows are the same as others in all that the formula names:UserWarning")

N = 40


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    x, g = rng.uniform(0, 10, N), rng.choice(["a", "b", "c"], N)
    return pd.DataFrame({
        "y": np.where(rng.random(N) < 0.5, 0.0, 6.0) + rng.normal(size=N), "z": rng.normal(size=N), "x": x, "x2": rng.uniform(size=N),
        "g": g, "k": rng.poisson(3.0, N), "line": np.sin(x / 2) + 0.3 * rng.normal(size=N), "w": rng.integers(1, 4, N),
    }, index=[f"r{i}" for i in range(N)])


def repeated(table):
    return table.loc[table.index.repeat(table["w"])]


RUN = {"draws": 6, "tune": 6, "chains": 2, "rng": 3}


@pytest.mark.parametrize(("formula", "options"), by_turns([
    ("y ~ 1", {}),
    ("y + z ~ 1", {"method": "tree", "prior": nm.NGGP()}),
    ("y + k ~ 1", {"family": {"y": nm.Gaussian(), "k": nm.Poisson()}, "method": "split_merge"}),
    ("line ~ x", {}),
    ("line ~ x + x2 + g", {}),
    ("y ~ 1", {"family": nm.SemiconjugateGaussian()}),
]))
def test_chains_draw_what_they_draw_of_the_rows_repeated(table, formula, options):
    options = RUN | options
    fit, other = nm.fit(formula, table, weights="w", **options), nm.fit(formula, repeated(table), **options)
    assert fit.draws.keys() == other.draws.keys()
    for name in fit.draws:
        assert np.array_equal(fit.draws[name], other.draws[name], equal_nan=fit.draws[name].dtype.kind == "f"), name
    assert str(fit.model) == str(other.model) and fit.model.frame.index.equals(repeated(table).index)


def test_searches_find_what_they_find_of_the_rows_repeated(table):
    fit = nm.fit("y ~ 1", table, weights="w", method="ibhc", rng=1)
    other = nm.fit("y ~ 1", repeated(table), method="ibhc", rng=1)
    assert fit.log_joint == other.log_joint and np.array_equal(fit.labels, other.labels)


def test_three_rows_with_weights_are_six_by_enumeration():
    """Weights 2, 1 and 3: log joint and frequencies of all partitions of the six rows, and the bound of one component, are exact."""
    y, w = np.array([[-1.0], [0.4], [2.0]]), np.array([2, 1, 3])
    X, mass = np.repeat(y, w, axis=0), 1.3
    family = nm.Gaussian(m=0.0, r=0.5, nu=3.0, scale=1.0)
    model = nm.Model(data=y, weights=w, prior=nm.DirichletProcess(mass), family=family)
    expected = {}
    for labels in partitions(6):
        sizes = np.bincount(labels)
        log_p = len(sizes) * np.log(mass) + gammaln(sizes).sum() + gammaln(mass) - gammaln(mass + 6)
        blocks = [X[np.array(labels) == k] for k in range(len(sizes))]
        expected[labels] = log_p + sum(gaussian_log_marginal(own, np.zeros(1), 0.5, 3.0, np.eye(1)) for own in blocks)
        assert model.log_joint(labels) == pytest.approx(expected[labels], abs=1e-9)
    log_p = np.array(list(expected.values()))
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    draws = model.fit("gibbs", draws=20_000, tune=200, chains=2, rng=1).draws["labels"].reshape(-1, 6)
    place = {labels: k for k, labels in enumerate(expected)}
    counts = np.bincount([place[tuple(row)] for row in draws.tolist()], minlength=len(p))
    # neighbouring sweeps are correlated: an effective size of a quarter of the draws
    error = 4.5 * np.sqrt(p * (1 - p) / (len(draws) / 4)) + 1e-4
    assert (np.abs(counts / len(draws) - p) < error).all()
    apart = sum(p[place[labels]] for labels in expected if labels[0] != labels[1])
    assert 0.05 < apart < 0.95  # copies may lie apart, and do
    one = model.fit(nm.VB(components=1, merges=False), rng=1)
    of_stick = gammaln(7) + gammaln(1 + mass) - gammaln(7 + mass)  # E v^6 of the first stick
    assert one.elbo == pytest.approx(of_stick + gaussian_log_marginal(X, np.zeros(1), 0.5, 3.0, np.eye(1)), abs=1e-9)


@pytest.mark.parametrize("family", [
    nm.Gaussian(), nm.Gaussian("diagonal"), {"y": nm.Gaussian(), "k": nm.Poisson()}, {"y": nm.Gaussian(), "k": nm.Hurdle(nm.Gaussian())},
])
def test_variational_mixtures_are_those_of_the_rows_repeated(table, family):
    formula, start = "y + k ~ 1" if isinstance(family, dict) else "y + z ~ 1", (table["y"] > 3).to_numpy().astype(int)
    options = {"family": family, "method": nm.VB(tol=1e-13), "rng": 1}
    fit = nm.fit(formula, table, weights="w", init=start, **options)
    other = nm.fit(formula, repeated(table), init=np.repeat(start, table["w"]), **options)
    assert fit.model.n_obs == N and fit.elbo == pytest.approx(other.elbo, rel=1e-10)
    new = table.head(3)
    assert np.allclose(fit.log_density(new), other.log_density(new), rtol=1e-6, atol=1e-6)  # the scale is best to that
    copies = np.repeat(fit.labels, table["w"])
    assert np.array_equal(copies, other.labels) and fit.factors.N.sum() == pytest.approx(table["w"].sum())


@pytest.mark.parametrize(("combine", "formula"), by_turns(each_once(
    ["equal", "stacking"], ["line ~ x", "line ~ x + x2 + g", "y + line ~ x + g"],
), 3, 1))
def test_variational_regressions_are_those_of_the_rows_repeated(table, formula, combine):
    options = {"method": nm.VB(starts=2, components=8, combine=combine), "rng": 1}
    fit, other = nm.fit(formula, table, weights="w", **options), nm.fit(formula, repeated(table), **options)
    assert np.allclose(fit.starts["elbo"], other.starts["elbo"], rtol=1e-10) and fit.elbo == pytest.approx(other.elbo, rel=1e-10)
    new = table.head(4)
    assert np.allclose(fit.predict(new)["estimate"], other.predict(new)["estimate"], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("formula", "family"), by_turns([
    ("y + z ~ 1", nm.Gaussian()), ("y + k ~ 1", {"y": nm.Gaussian(), "k": nm.Poisson()}), ("line ~ x + g", None),
], 3, 1))
def test_clusters_of_variational_fits_are_those_of_the_rows_repeated(table, formula, family):
    is_mixture, start = formula.endswith("~ 1"), (table["y"] > 3).to_numpy().astype(int)
    options = {"family": family, "method": nm.VB(tol=1e-13) if is_mixture else nm.VB(starts=2, components=8), "rng": 1}
    of, ofs = ({"init": start}, {"init": np.repeat(start, table["w"])}) if is_mixture else ({}, {})
    fit, other = nm.fit(formula, table, weights="w", **options, **of), nm.fit(formula, repeated(table), **options, **ofs)
    own, expected = fit.parameters(), other.parameters()
    pd.testing.assert_frame_equal(own, expected, rtol=1e-7, atol=1e-9)
    assert own["mean"].xs("size", level="parameter").sum() == table["w"].sum() and fit.partition().sizes.sum() == N
    found, wanted = clusters(fit), clusters(other)
    assert np.array_equal(found.size, wanted.size) and found.words == wanted.words
    for one, two in [(found.stability, wanted.stability), (found.purity, wanted.purity),
                     *((a.value, b.value) for a, b in zip(found.columns, wanted.columns, strict=True))]:
        assert np.allclose(one, two, rtol=1e-7, equal_nan=True)


@pytest.mark.filterwarnings("ignore:.* values of 'line' are 30 distinct ones")
@pytest.mark.filterwarnings("ignore:the bound and the components are not to be trusted")
def test_defaults_of_variational_regressions_count_rows_by_their_weights(table):
    from nrmmix.inference.variational_regression.run import COMPONENTS

    few = table.head(30).assign(w=np.where(table.head(30)["x"] > 5, 5, 1))
    options = {"family": nm.Gaussian(), "kernel": nm.SquaredExponential(0.2), "method": nm.VB(starts=1), "rng": 1}
    fit, other = nm.fit("line ~ x", few, weights="w", **options), nm.fit("line ~ x", repeated(few), **options)
    assert fit.n_components == other.n_components == COMPONENTS[0] and fit.elbo == pytest.approx(other.elbo, rel=1e-9)
    large = nm.fit("line ~ x", few.assign(w=100), weights="w", **options | {"method": nm.VB(passes=1)})
    assert (large.n_components, len(large.starts)) == (COMPONENTS[1], 3)
    assert nm.Model("line ~ x + x2", few, weights=np.full(30, 1e4)).kernel.places == 21


def test_contrasts_hold_columns_where_the_rows_repeated_have_them(table):
    given = table.assign(w=np.where((table["x2"] > table["x2"].quantile(0.5)) & (table["g"] == "b"), 4, 1))
    options = {"method": nm.VB(starts=1, components=2), "rng": 1}
    fit, other = nm.fit("line ~ x + x2 + g", given, weights="w", **options), nm.fit("line ~ x + x2 + g", repeated(given), **options)
    typical = [[one.model.frame.typical_value(name) for name in ("x2", "g")] for one in (fit, other)]
    assert typical[0][1] == typical[1][1] and typical[0][0] == pytest.approx(typical[1][0]) != table["x2"].median()
    own, expected = (one.contrasts({"x": [2.0, 8.0]}, draws=20)["estimate"] for one in (fit, other))
    assert np.allclose(own, expected, rtol=1e-9)


@pytest.mark.parametrize("formula", ["scale(y) ~ center(x)", "y ~ bs(x, df=4)", "y ~ C(g) + standardize(x)"])
def test_functions_of_whole_columns_learn_from_the_rows_repeated(table, formula):
    own, other = (nm.Model(formula, one, family=nm.Gaussian(), kernel=nm.SquaredExponential(), **weights)
                  for one, weights in ((table, {"weights": "w"}), (repeated(table), {})))
    again = pickle.loads(pickle.dumps(own))
    for a in (own, again):
        for values in ("covariates", "response"):
            expected = np.unique(getattr(other.frame, values), axis=0)
            assert np.allclose(np.unique(getattr(a.frame, values), axis=0), expected, rtol=1e-9, atol=1e-12)
    half = nm.Model(formula, table, weights=table["w"] * 0.5, family=nm.Gaussian(), kernel=nm.SquaredExponential())
    once = nm.Model(formula, table, family=nm.Gaussian(), kernel=nm.SquaredExponential())
    assert np.array_equal(half.frame.covariates, once.frame.covariates)


def test_fractions_have_clusters_too(table):
    """One component of half the weights: its size, and a mean that is that of the weights."""
    half = table["w"] / 2
    fit = nm.fit("y ~ 1", table, weights=half, family=nm.Gaussian(m=0.0, r=1e-9, nu=3.0, scale=1.0), method=nm.VB(components=1), rng=1)
    found = fit.parameters()["mean"].loc[0]
    assert found["size"] == half.sum() and found["mean y"] == pytest.approx(np.average(table["y"], weights=half))
    assert f"{half.sum():g}" in fit.summary().as_text()
    lines = nm.fit("y ~ x", table, weights=table["w"] / 4, family=nm.Gaussian(), method=nm.VB(starts=2, components=8), rng=1)
    assert np.isfinite(lines.parameters()["mean"]).all()  # starts are weighed by rows that are left out, which put less than 1 there


@pytest.mark.parametrize("formula", by_turns(["y + z ~ 1", "line ~ x + x2"]))
def test_a_file_with_a_column_of_weights_is_the_table(table, formula, tmp_path):
    path = tmp_path / "rows.csv"
    table.to_csv(path, index=False)
    options = {"weights": "w", "method": nm.VB(starts=2, components=8) if "x" in formula else nm.VB(components=5), "rng": 1}
    fit, other = nm.fit(formula, str(path), **options), nm.fit(formula, table, **options)
    assert fit.elbo == pytest.approx(other.elbo, rel=1e-9) and fit.model.frame.size == table["w"].sum()
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    assert again.model.frame.size == table["w"].sum() and again.elbo == fit.elbo


def test_rows_that_are_added_bring_their_weights(table):
    fit = nm.fit("y + z ~ 1", table.head(25), weights="w", method="memoized_vb", rng=1)
    further = fit.update(table.tail(15))
    assert further.model.frame.size == table["w"].sum() == pytest.approx(further.factors.N.sum())
    by_array = nm.fit("y + z ~ 1", table.head(25), weights=table["w"].head(25), method="memoized_vb", rng=1)
    with pytest.raises(ValueError, match="weights were an array"):
        by_array.update(table.tail(15))


def test_fractions_are_powers_of_the_likelihood(table):
    """With one component the factors are exact: its bound is the power likelihood under the prior, in closed form."""
    y = table[["y"]].to_numpy()
    w = np.linspace(0.3, 2.0, N)
    m, r, nu, scale = 1.0, 0.5, 3.0, 2.0
    fit = nm.fit(data=y, weights=w, family=nm.Gaussian(m=m, r=r, nu=nu, scale=scale), prior=nm.DirichletProcess(1.0),
                 method=nm.VB(components=1, merges=False), rng=1)
    n, mean = w.sum(), w @ y[:, 0] / w.sum()
    psi = scale + w @ (y[:, 0] - mean) ** 2 + r * n / (r + n) * (mean - m) ** 2
    log_p = -n / 2 * np.log(np.pi) + gammaln((nu + n) / 2) - gammaln(nu / 2) + nu / 2 * np.log(scale) - (nu + n) / 2 * np.log(psi)
    log_p += 0.5 * np.log(r / (r + n)) + gammaln(1.0 + n) + gammaln(2.0) - gammaln(2.0 + n)  # the last three: E v^n of the first stick
    assert fit.elbo == pytest.approx(log_p, rel=1e-10)


def test_defaults_are_those_of_the_rows_repeated(table):
    """Sums with weights, which fractions and very many rows take, agree with rows repeated; far values and ties are those of these rows."""
    from nrmmix.model.families import blocks

    def means_of(model):
        return [law.mean for law in model.family.scale]

    own = nm.Model("y + z ~ 1", table, weights="w")
    half = nm.Model("y + z ~ 1", table, weights=table["w"] * 0.5)
    assert np.allclose(own.family.m, half.family.m)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "REPEATED", 0)
        sums = nm.Model("y + z ~ 1", table, weights="w")
        lines = nm.Model("line ~ x + x2", table, weights="w")
    assert np.allclose(means_of(sums), means_of(own), rtol=1e-12)
    assert np.allclose(lines.family.form.factor, nm.Model("line ~ x + x2", table, weights="w").family.form.factor, rtol=1e-12)
    far = pd.concat([table[["y", "w"]], pd.DataFrame({"y": [1e6], "w": [1]}, index=["far"])])
    with pytest.warns(UserWarning, match="quartile ranges away"):
        model = nm.Model("y ~ 1", far, weights="w")
    assert np.allclose(means_of(model), means_of(nm.Model("y ~ 1", table, weights="w")))
    with pytest.warns(UserWarning, match="of 78 values of 'y' are exactly"):
        nm.Model("y ~ 1", {"y": np.r_[0.0, np.linspace(1, 2, 38)], "w": np.r_[40, np.ones(38)]}, weights="w")


def test_quantiles_are_those_of_the_rows_repeated():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(1, 12))
        values, weight, q = rng.normal(size=n).round(1), rng.integers(1, 5, n), rng.random(4)
        assert np.allclose(quantiles(values, q, weight.astype(float)), np.quantile(np.repeat(values, weight), q), rtol=0, atol=1e-12)


def test_results_have_the_rows_of_the_caller(table, tmp_path):
    fit = nm.fit("y ~ 1", table, weights="w", **RUN)
    assert len(fit.augment()) == table["w"].sum() == len(fit.partition().labels)
    assert fit.augment().groupby(level=0).size().reindex(table.index).tolist() == table["w"].tolist()
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    assert np.array_equal(again.extend(4).draws["labels"], fit.extend(4).draws["labels"])
    vb = nm.fit("y ~ 1", table, weights="w", method="vb", rng=1)
    assert vb.augment().index.equals(table.index) and "rows that count as" in str(vb.model) and "weights='w'" in reproduce(vb)
    loaded = nm.load(vb.save(tmp_path / "vb.npz"))
    assert loaded.elbo == vb.elbo and np.array_equal(loaded.model.frame.weight, table["w"])
    assert loaded.model.fit("gibbs", **RUN).model.n_obs == table["w"].sum()
    assert vb.summary().as_text().count("Weights:") == 1


def test_copies_of_a_row_are_one_where_held_out_rows_are_looked_for(table):
    from nrmmix.posterior.held_out import seen_rows

    model = nm.Model("y + z ~ 1", table, weights=np.full(N, 2)).expanded()
    assert seen_rows(model, table.assign(y=table["y"] + np.where(np.arange(N) < 30, 0.1, 0.0))).tolist() == list(range(30, N))


@pytest.mark.filterwarnings("ignore:.*point masses")
def test_rows_that_repeated_would_not_fit_are_for_variational_inference(table):
    model = nm.Model("y + z ~ 1", table, weights=np.full(N, 1e12))
    with pytest.raises(ValueError, match=r'chains and searches repeat rows, and 40,000,000,000,000 .*method="vb" or "memoized_vb"'):
        model.fit("gibbs", **RUN)
    start = (table["y"] > 3).to_numpy().astype(int)
    assert model.fit("vb", init=start, rng=1).factors.N.sum() == pytest.approx(4e13)


def test_labels_of_a_series_go_by_the_rows():
    """As weights do: numbers that another order has given to rows are refused."""
    table = pd.DataFrame({"y": [0.0, 0.1, 5.0, 5.1]}, index=list("abcd"))
    model = nm.Model("y ~ 1", table)
    own = pd.Series([0, 0, 1, 1], index=table.index)
    assert model.log_joint(own, mass=1.0, scale=[1.0]) == model.log_joint([0, 0, 1, 1], mass=1.0, scale=[1.0])
    for other in (own[::-1], own.reset_index(drop=True)):
        for call in (
            lambda other=other: model.log_joint(other, mass=1.0, scale=[1.0]),
            lambda other=other: model.fit(draws=2, tune=0, chains=1, init=other),
            lambda other=other: model.fit("vb", init=other),
        ):
            with pytest.raises(ValueError, match="the Series has other row labels than the data, or has them in another order"):
                call()
    assert model.fit(draws=2, tune=0, chains=1, init=own).draws.n_draws == 2


def reproduce(fit):
    from nrmmix.report.html import reproduce

    return reproduce(fit)


def test_a_checkpoint_is_of_its_weights(table, tmp_path):
    def fit(path, weights, passes=2):
        method = nm.MemoizedVB(checkpoint=str(path), passes=passes, batches=2)
        family = nm.Gaussian(m=0.0, r=0.1, nu=3.0, scale=1.0)
        return nm.fit("y ~ 1", table, weights=weights, method=method, family=family, rng=1)

    fit(tmp_path / "run.npz", "w")
    whole = nm.resume(tmp_path / "run.npz")
    assert whole.model.frame.size == table["w"].sum()
    with pytest.raises(ValueError, match="other data"):
        fit(tmp_path / "run.npz", table["w"] + 1, passes=3)


def test_a_dot_leaves_out_weights_and_exposures(table, tmp_path):
    own = table[["y", "x", "x2", "w"]]
    assert nm.Model("y ~ .", own).frame.covariate_names == ("x", "x2", "w")
    for data in (own, [own]):
        model = nm.Model("y ~ .", data, weights="w")
        assert model.frame.covariate_names == ("x", "x2") and "w" not in str(model.family)
    assert nm.Model("y ~ . + w", own, weights="w").frame.covariate_names == ("x", "x2", "w")
    counts = table[["k", "x", "w"]]
    for family in (nm.Poisson(exposure="log1p(w)"), {"k": nm.Poisson(exposure="w")}):
        model = nm.Model("k ~ .", counts, family=family)
        assert model.frame.covariate_names == pickle.loads(pickle.dumps(model)).frame.covariate_names == ("x",)
    with pytest.raises(ValueError, match=r"every column is a response, or has weights or an exposure \('w'\), so that none is left"):
        nm.Model("y ~ .", own[["y", "w"]], weights="w")


def test_rows_of_weight_zero_are_left_out(table):
    given = table.assign(w=np.where(np.arange(N) < 3, 0, table["w"]))
    with pytest.warns(UserWarning, match=r"3 of 40 rows left out: their weight \('w'\) is 0"):
        fit = nm.fit("y ~ 1", given, weights="w", **RUN)
    other = nm.fit("y ~ 1", repeated(given.iloc[3:]), **RUN)
    assert np.array_equal(fit.draws["labels"], other.draws["labels"])
    with pytest.warns(UserWarning, match="left out"):
        model = nm.Model(data=table[["y", "z"]].to_numpy(), weights=given["w"].to_numpy())
    assert model.frame.index.tolist() == list(range(3, N)) and model.frame.from_array and model.frame.n_rows == N


def test_weights_that_are_all_one_are_none(table):
    model = nm.Model("y ~ 1", table, weights=np.ones(N))
    assert model.frame.weight is None and str(model) == str(nm.Model("y ~ 1", table))


@pytest.mark.parametrize(("weights", "what"), [
    (lambda t: t["w"] - 5, r"is -\d in row 0 \(index label 'r0'\) \(and in 39 more\); a weight says how often"),
    (lambda t: t["w"].where(np.arange(N) != 7), r"is nan in row 7 \(index label 'r7'\); fill it"),
    (lambda t: np.full(N, np.inf), "weights go up to"),
    (lambda t: t["w"].to_numpy()[:5], "there are 5 for 40 rows"),
    (lambda t: np.zeros(N), "all 40 are 0"),
    (lambda t: np.full(N, 1e-3), "add up to 0.04"),
    (lambda t: list("ab") * 20, r"'weights' holds 'a' \(str\) in row 0"),
    (lambda t: t["w"].iloc[::-1], "other row labels"),
    (lambda t: "ww", "There is no column 'ww' in the data. Did you mean 'w'"),
    (lambda t: 3, "the name of a column, or one number for each row, not 3"),
    (lambda t: np.ones((N, 2)), "the name of a column, or one number for each row"),
    (lambda t: "g", "'g' holds '.' .str. in row 0"),
])
def test_bad_weights_are_refused_by_row(table, weights, what):
    with pytest.raises(ValueError, match=what):
        nm.Model("y ~ 1", table, weights=weights(table))


def test_what_counts_rows_refuses_fractions(table):
    model = nm.Model("y ~ 1", table, weights=table["w"] + 0.5)
    for use in (lambda: model.fit(**RUN), lambda: model.fit("ibhc"), model.prior_n_clusters, lambda: model.log_joint([0] * N)):
        with pytest.raises(ValueError, match=re.escape("need whole numbers") + '.*method="vb" or "memoized_vb"'):
            use()
    suits = model.methods()["suits"]
    assert suits.index[suits].tolist() == ["vb", "stochastic_vb", "memoized_vb"]
    with pytest.raises(ValueError, match="are the name of a column of it"):
        nm.Model("y ~ 1", [table], weights=np.ones(N))


def test_the_shell_takes_a_column_of_weights(table, tmp_path, capsys):
    table.to_csv(tmp_path / "rows.csv", index=False)
    assert main(["fit", "y ~ 1", "--data", str(tmp_path / "rows.csv"), "--weights", "w", "--method", "vb", "--seed", "1"]) == 0
    assert f"{table['w'].sum()}" in capsys.readouterr().out


def test_pictures_count_rows_as_often(table):
    from matplotlib.figure import Figure

    fit = nm.fit("y ~ 1", {"y": [0.5, 1.5, 2.5, 3.5], "w": [20, 3, 3, 3]}, weights="w", method="vb", rng=1)
    ax = fit.plot("density", Figure().subplots())
    heights = [patch.get_height() for patch in ax.patches]
    assert heights[0] / sum(heights) == pytest.approx(0.75)  # of four rows that stand for 29
