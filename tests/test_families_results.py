"""Every result method for every family: what it gives back, and that predictions agree with each other and with brute force."""

from __future__ import annotations

import io
import json
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from exact import marginals
from scipy.sparse import csr_array, issparse
from scipy.special import gammaln, logsumexp
from support.cover import by_turns

import nrmmix as nm
from nrmmix import plots
from nrmmix.cli import main
from nrmmix.model import replicates as of_rows
from nrmmix.posterior.predict.rows import CovariateWeights, prediction_rows
from nrmmix.posterior.predict.states import states_of

RUN = {"draws": 25, "tune": 40, "chains": 2, "rng": 1}
N = 40


@pytest.fixture(scope="session")
def data():
    rng = np.random.default_rng(3)
    low = rng.random(N) < 0.5
    x, days = rng.uniform(0, 1, N).round(2), rng.integers(1, 6, N).astype(float)
    shares = np.where(low[:, None], [0.6, 0.3, 0.1], [0.1, 0.2, 0.7])
    words = np.array([rng.multinomial(total, p) for total, p in zip(rng.integers(5, 15, N), shares, strict=True)])
    return pd.DataFrame({
        "a": np.where(low, -2.0, 3.0) + 0.5 * rng.normal(size=N), "b": rng.normal(size=N), "x": x, "days": days,
        "line": np.where(low, 1 + 2 * x, 5 - 3 * x) + 0.2 * rng.normal(size=N),
        "visits": rng.poisson(days * np.where(low, 0.5, 4.0)), "smoker": rng.random(N) < np.where(low, 0.2, 0.8),
        "colour": np.where(rng.random(N) < np.where(low, 0.1, 0.8), "red", np.where(rng.random(N) < 0.5, "blue", "green")),
        "w1": words[:, 0], "w2": words[:, 1], "w3": words[:, 2],
    }, index=pd.Index([f"r{i}" for i in range(N)], name="id"))


@pytest.fixture(scope="session")
def gaps(data):
    """The same with missing cells, no row without any response."""
    out = data.astype({"visits": float, "smoker": object, "colour": object})
    out.loc[out.index[::5], "a"] = np.nan
    out.loc[out.index[1::5], "visits"] = np.nan
    out.loc[out.index[2::5], "smoker"] = None
    out.loc[out.index[3::5], "colour"] = None
    return out


MIXED = {"a": nm.Gaussian(), "visits": nm.Poisson(exposure="days"), "smoker": nm.Bernoulli(), "colour": nm.Categorical()}
WORDS = ["w1", "w2", "w3"]
MODELS = {  # formula, family, other arguments
    "full": ("a + b ~ 1", nm.Gaussian(), {}),
    "diagonal": ("a + b ~ 1", nm.Gaussian("diagonal"), {"prior": nm.NGGP()}),
    "semiconjugate": ("a + b ~ 1", nm.SemiconjugateGaussian(), {}),
    "one_precision": ("a ~ x", nm.SemiconjugateGaussian(shared_precision=True), {}),
    "gaps": ("a + b ~ 1", nm.Gaussian(), {"missing": "marginalize"}),
    "regression": ("line ~ 1", nm.Regression("1 + x"), {}),
    "local": ("line ~ x", nm.Regression("1 + x"), {}),
    "planes": ("line + b ~ 1", nm.Regression("1 + x"), {}),
    "planes_over_x": ("line + a ~ x", None, {}),
    "lines_over_days": ("line ~ days", nm.Regression("x"), {}),
    "poisson": ("visits ~ 1", nm.Poisson(), {}),
    "exposure": ("visits ~ 1", nm.Poisson(exposure="days"), {"prior": nm.NGGP(1.0, 0.2)}),
    "counts_over_x": ("visits ~ x", nm.Poisson(), {}),
    "bernoulli": ("smoker ~ 1", nm.Bernoulli(), {}),
    "categorical": ("colour ~ 1", nm.Categorical(), {}),
    "colour_over_x": ("colour ~ x", nm.Categorical(), {}),
    "multinomial": ("w1 + w2 + w3 ~ 1", nm.Multinomial(), {}),
    "mixed": ("a + visits + smoker + colour ~ 1", MIXED, {"missing": "marginalize"}),
    "words_and_more": ("a + w1 + w2 + w3 ~ 1", {"a": nm.Gaussian(), "w1 + w2 + w3": nm.Multinomial()}, {}),
}
ALL = (*MODELS, "sparse")
SHARES = ("multinomial", "sparse")  # no response has a law of its own


@pytest.fixture(scope="session")
def fits(data, gaps):
    """Fits by name, made when asked for."""
    made = {}

    def get(name):
        if name not in made:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                if name == "sparse":
                    made[name] = nm.Model(data=csr_array(data[WORDS].to_numpy()), family=nm.Multinomial()).fit(**RUN)
                else:
                    formula, family, more = MODELS[name]
                    made[name] = nm.fit(formula, gaps if "missing" in more else data, family=family, **more, **RUN)
        return made[name]

    return get


def rows_of(fit, data):
    """Three new rows for a fit."""
    return csr_array(data[WORDS].to_numpy())[:3] if fit.model.frame.is_sparse else data.iloc[:3]


# ---- every method


@pytest.mark.parametrize("name", by_turns(ALL, 6, 0))
def test_tables(fits, data, name):
    fit = fits(name)
    model, new = fit.model, rows_of(fit, data)
    W, sparse = len(model.blocks.mean_names()), model.frame.is_sparse
    for rows, n in ((None, N), (new, 3)):
        mean = fit.predict(rows, draws=10)
        assert mean.shape == (W if sparse else n * W, 3) and np.isfinite(mean.to_numpy()).all()
        assert (mean["lower"] <= mean["upper"]).all()
        log_density = fit.log_density(rows)
        assert log_density.shape == (n,) and np.isfinite(log_density).all()
        cluster = fit.predict(rows, "cluster", draws=10)
        assert cluster.shape == (n, 2) and cluster["probability"].between(0, 1).all()
        simulated = fit.simulate(rows, draws=2, rng=1)
        assert simulated.shape == (2 * n, model.n_dim) and not simulated.isna().to_numpy().any()
        assert list(simulated.columns) == list(model.frame.response_names) and simulated.index.names[-1] == "draw"
        density = fit.predict(rows, "density", draws=10)
        np.testing.assert_array_less(0, density["estimate"].dropna())
        augmented = fit.augment(rows)
        assert len(augmented) == n and {".log_density", ".cluster", ".probability"} <= set(augmented)
    own = fit.predict(new, "density", draws=500)["estimate"].to_numpy()
    if len(own) == 3:
        np.testing.assert_allclose(np.log(own), fit.log_density(new, draws=500), rtol=1e-9)
    assert fit.model.prior_predictive(2, rng=1).shape == (2 * N, model.n_dim)


@pytest.mark.parametrize("name", by_turns(ALL, 6, 1))
def test_reports(fits, name, tmp_path):
    fit = fits(name)
    text = fit.summary().as_text()
    assert "Stability" in text and fit.model.blocks.describe()[0][1][:20] in text
    assert ("Missing cells:" in text) == (name in ("gaps", "mixed"))
    assert len(fit.tidy()) >= 2 and len(fit.glance()) == 1
    assert fit.glance()["family"].iloc[0] == " + ".join(dict.fromkeys(type(block.family).__name__ for block in fit.model.blocks.blocks))
    tree = fit.to_datatree()
    assert tree["log_likelihood"]["y"].shape == (2, 25, N) and np.isfinite(tree["log_likelihood"]["y"]).all()
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    pd.testing.assert_frame_equal(again.predict(draws=10), fit.predict(draws=10), check_exact=True)
    pd.testing.assert_series_equal(again.log_density(), fit.log_density(), check_exact=True)
    pd.testing.assert_frame_equal(again.simulate(draws=2, rng=5), fit.simulate(draws=2, rng=5), check_exact=True)
    assert str(again.model) == str(fit.model) and again.summary().as_text() == fit.summary().as_text()
    np.testing.assert_array_equal(again.extend(3).draws["labels"], fit.extend(3).draws["labels"])


@pytest.mark.parametrize("name", by_turns(ALL, 12, 2))
def test_pictures(fits, name):
    from matplotlib import pyplot

    fit = fits(name)
    kinds = plots.available(fit.model)
    over = ("local", "planes_over_x", "lines_over_days", "one_precision", "counts_over_x", "colour_over_x")
    first = {"regression": "components", **dict.fromkeys(over, "mean")}
    shares = name in (*SHARES, "words_and_more")
    assert plots.check(fit.model)[0] == first.get(name, "profiles" if shares else "density")
    for kind in ("components", "density", "mean", "quantiles", "conditional", "slices", "profiles", "ppc", "clusters"):
        if kind not in kinds:
            with pytest.raises(ValueError, match=f"plot '{kind}' needs"):
                fit.plot(kind)
            continue
        options = {} if kind == "profiles" else {"draws": 5}
        options |= {"points": 12} if kind in ("quantiles", "conditional", "slices", "mean") else {}
        axes = np.ravel(fit.plot(kind, **options))
        axes[0].figure.set_layout_engine("none")  # which takes most of the time; test_plots.py has it
        axes[0].figure.canvas.draw()
        assert all(one.has_data() for one in axes if one.get_visible())
        pyplot.close(axes[0].figure)


def test_what_pictures_show(fits, data):
    from matplotlib.figure import Figure

    fit = fits("poisson")
    ax = fit.plot("density", Figure().subplots(), draws=20)
    heights = [bar.get_height() for bar in ax.containers[0]]
    x = np.array([bar.get_x() + bar.get_width() / 2 for bar in ax.containers[0]])
    np.testing.assert_allclose(heights, [(data["visits"] == value).mean() for value in x], atol=1e-12)
    shown = next(line for line in ax.lines if line.get_label() == "posterior mean probability").get_ydata()
    np.testing.assert_allclose(shown, fit.predict(kind="density", at=x, draws=20)["estimate"])
    stack = fits("colour_over_x").plot("mean", Figure().subplots(), draws=5, points=9)
    top = stack.collections[4].get_paths()[0].vertices  # of the last level: up to 1
    assert np.isclose(top[:, 1].max(), 1.0)
    axes = fits("multinomial").plot("profiles", Figure().subplots(1, 2), clusters=2)
    means = fits("multinomial").summary().as_text()
    assert all(one.get_title().startswith("cluster") for one in axes) and "share w1" in means


# ---- laws of single responses


def probabilities(fit, name, at, **options):
    table = fit.predict(kind="density", at=at, response=name, **options)
    return table.to_numpy().reshape(-1, len(at), 3)


@pytest.mark.parametrize(("fit", "name", "at"), [
    ("poisson", "visits", range(600)), ("exposure", "visits", range(3000)), ("counts_over_x", "visits", range(600)),
    ("bernoulli", "smoker", [0, 1]), ("categorical", "colour", ["blue", "green", "red"]), ("mixed", "colour", ["green", "red", "blue"]),
    ("mixed", "visits", range(3000)), ("colour_over_x", "colour", ["blue", "green", "red"]),
])
def test_probabilities_sum_to_one(fits, fit, name, at):
    """Of the estimate, and with one draw also of the random measure."""
    found = probabilities(fits(fit), name, list(at), draws=1)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=2e-3)
    assert (found >= 0).all()


@pytest.mark.parametrize("name", by_turns([
    "poisson", "exposure", "counts_over_x", "bernoulli", "categorical", "multinomial", "mixed", "regression", "local", "planes",
    "planes_over_x", "lines_over_days", "diagonal", "gaps", "semiconjugate", "one_precision",
], 6))
def test_means_agree_with_replicates(fits, data, name):
    """Every recorded draw is gone through equally often: means vary no more than those of independent replicates."""
    fit, R = fits(name), 1000
    new = data.iloc[:4]
    mean = fit.predict(new, draws=50)["estimate"].to_numpy().reshape(4, -1)
    replicates = fit.simulate(new, draws=R, rng=7)
    columns = []
    for j, response in enumerate(fit.model.frame.response_names):
        values, levels = replicates[response], fit.model.frame.levels[j]
        if levels is not None:
            columns += [(values == level).to_numpy(float) for level in levels]
        elif name == "multinomial":
            columns.append((values / replicates.sum(axis=1)).to_numpy())
        else:
            columns.append(values.to_numpy(float))
    drawn = np.stack(columns, axis=-1).reshape(R, 4, -1)
    assert (np.abs(drawn.mean(axis=0) - mean) < 4.5 * drawn.std(axis=0) / np.sqrt(R) + 1e-12).all()


@pytest.mark.parametrize("name", by_turns(["poisson", "exposure", "counts_over_x", "regression"], 4))
def test_cdf_and_quantiles_agree_with_replicates(fits, data, name):
    fit, R = fits(name), 1000
    new, response = data.iloc[:4], fit.model.frame.response_names[0]
    drawn = fit.simulate(new, draws=R, rng=8)[response].to_numpy(float).reshape(R, 4)
    at = np.unique(np.quantile(drawn, np.linspace(0.05, 0.95, 9), method="nearest"))
    cdf = fit.predict(new, "cdf", at=at, draws=50)["estimate"].to_numpy().reshape(4, -1)
    share = (drawn[:, :, None] <= at).mean(axis=0)
    assert (np.abs(share - cdf) < 4.5 * np.sqrt(cdf * (1 - cdf) / R) + 2e-3).all()

    q = [0.1, 0.5, 0.9]
    table = fit.predict(new, "quantile", q=q, draws=50)
    quantile = table["estimate"].to_numpy().reshape(4, 3)
    at_quantile = fit.predict(new, "cdf", at=np.unique(quantile), draws=50)["estimate"].to_numpy().reshape(4, -1)
    own = np.searchsorted(np.unique(quantile), quantile)
    reached = np.take_along_axis(at_quantile, own, axis=1)
    if name == "regression":
        np.testing.assert_allclose(reached, np.tile(q, (4, 1)), atol=2e-3)
    else:  # the smallest whole number whose cdf is q or more
        assert (table.to_numpy() == np.floor(table.to_numpy())).all()
        assert (reached >= np.array(q) - 1e-9).all()
        below = fit.predict(new, "cdf", at=np.unique(quantile - 1)[np.unique(quantile - 1) >= 0], draws=50)
        below = below["estimate"].unstack("y")
        for i in range(4):
            for k in range(3):
                assert quantile[i, k] == 0 or below.iloc[i][quantile[i, k] - 1] < q[k]


def test_points_and_their_index(fits, data):
    cat, mixed = fits("categorical"), fits("mixed")
    assert fits("poisson").predict(kind="density", at=[0, 3], draws=5).index.tolist() == [0, 3]
    assert cat.predict(kind="density", at=["red", "blue"], draws=5).index.tolist() == ["red", "blue"]
    own = cat.predict(kind="density", draws=5)
    assert own.index.get_level_values("y").tolist() == data["colour"].tolist()
    assert cat.predict(data[["x"]].iloc[:1], "density", draws=5).index.get_level_values("y").tolist() == ["blue", "green", "red"]
    assert cat.predict(draws=5).index.get_level_values("response").unique().tolist() == ["colour[blue]", "colour[green]", "colour[red]"]
    row = mixed.predict(data.iloc[:1], "density", at=[[0.5, 3, 1, "red"], [0.5, 3, 1, "green"]], draws=5)
    assert row.index.names == ["id", "a", "visits", "smoker", "colour"] and row.index[0] == ("r0", 0.5, 3, 1, "red")
    grid = fits("poisson").predict(data[["x"]].iloc[:1], "density", draws=5).index.get_level_values("y")
    assert grid.tolist() == list(range(int(grid.max()) + 1)) and grid.max() > data["visits"].max()
    assert fits("bernoulli").predict(data[["x"]].iloc[:1], "cdf", draws=5).index.get_level_values("y").tolist() == [0, 1]


def test_orders_of_categories_are_not_used():
    levels = pd.Categorical(list("abcd") * 5, ordered=True)
    fit = nm.fit("g ~ 1", pd.DataFrame({"g": levels}), family=nm.Categorical(), draws=5, tune=5, chains=1, rng=1)
    with pytest.raises(ValueError, match=r"the order of 'g' is not used by nm\.Categorical\(\): add up the probabilities of its levels"):
        fit.predict(kind="cdf")
    assert fit.predict(draws=5).index.get_level_values("response").unique().tolist() == ["g[a]", "g[b]", "g[c]", "g[d]"]


def test_what_has_no_answer_is_refused(fits, data):
    for kind in ("cdf", "quantile"):
        with pytest.raises(ValueError, match=r"response 'colour' has categories without an order.*kind=.density."):
            fits("categorical").predict(kind=kind)
        with pytest.raises(ValueError, match=r"'colour'.*or response=\['a', 'visits', 'smoker'\]"):
            fits("mixed").predict(kind=kind)
    with pytest.raises(ValueError, match=r"response 'colour' has categories without an order, and no hazard; use kind=.density."):
        fits("categorical").predict(kind="hazard")
    with pytest.raises(ValueError, match="response 'w2' has no law of its own"):
        fits("multinomial").predict(kind="density", response="w2")
    with pytest.raises(ValueError, match=r"'purple' is no level of the response 'colour'; there are 'blue', 'green', 'red'"):
        fits("categorical").predict(kind="density", at=["purple"])
    with pytest.raises(ValueError, match=r"'visits' is a whole number, 0 or more and less than 2\^53, not 1.5"):
        fits("poisson").predict(kind="density", at=[1.5])
    with pytest.raises(ValueError, match=r"'visits' is a whole number, .*, not 1e\+300"):
        fits("poisson").predict(kind="cdf", at=[1e300])
    with pytest.raises(ValueError, match=r"'smoker' is 0 or 1, not 2"):
        fits("bernoulli").predict(kind="cdf", at=[2])
    with pytest.raises(ValueError, match="newdata must hold the counts w1, w2, w3"):
        fits("multinomial").simulate(data[["x"]])
    with pytest.raises(ValueError, match="give the rows as newdata="):
        fits("sparse").predict(kind="density", at=[[1, 2, 3]])
    with pytest.raises(ValueError, match="There is no column 'days'"):
        fits("exposure").predict(data[["x"]])


# ---- inputs


def test_exposure(fits, data):
    fit = fits("exposure")
    new = pd.DataFrame({"days": [1.0, 4.0, np.nan, 4.0]}, index=list("pqrs"))
    mean = fit.predict(new, draws=20)
    np.testing.assert_allclose(mean.loc["q"], 4 * mean.loc["p"], rtol=1e-9)
    assert mean.loc["r"].isna().all() and mean.loc["s"].equals(mean.loc["q"])
    for kind in ("density", "cdf"):
        table = fit.predict(new, kind, at=[0, 5], draws=20)
        assert table.loc["r"].isna().to_numpy().all()
        alone = fit.predict(new.loc[["q"]], kind, at=[0, 5], draws=20)
        np.testing.assert_allclose(table.loc[["q"]], alone, rtol=1e-12)
    assert fit.simulate(new, draws=3, rng=1).isna()["visits"].unstack("draw").loc[list("pqrs")].to_numpy()[:, 0].tolist() == [
        False, False, True, False
    ]
    assert fit.log_density(new.assign(visits=2)).isna().tolist() == [False, False, True, False]
    assert fit.predict(new.assign(visits=2), "cluster", draws=5)["cluster"].isna().tolist() == [False, False, True, False]
    # without new data a mixture with inputs predicts at its rows
    assert fit.predict(kind="cdf", at=[3], draws=5).index.names == ["id", "y"] and len(fit.predict(kind="quantile", draws=5)) == 3 * N
    fitted = fit.augment()
    np.testing.assert_allclose(fitted[".resid"], fitted["visits"] - fitted[".fitted"])


@pytest.mark.parametrize("kind", ["mean", "density", "cdf", "quantile"])
def test_rows_in_parts(fits, data, kind, monkeypatch):
    """Answers do not depend on how rows of inputs are shared out."""
    for name in ("exposure", "local"):
        options = {"at": [0, 2, 7]} if kind in ("density", "cdf") else {}
        whole = fits(name).predict(data.iloc[:9], kind, draws=6, **options)
        with monkeypatch.context() as patch:
            patch.setattr(of_rows, "MEMORY", 2**15)
            parts = fits(name).predict(data.iloc[:9], kind, draws=6, **options)
        pd.testing.assert_frame_equal(whole, parts, rtol=1e-9)


# ---- against brute force


def brute(fit, log_marginal, row, n):
    """Log posterior mean density of a new row by ratios of marginals: Dirichlet process, every recorded draw."""
    logs = []
    for labels, mass in zip(fit.draws.flat("labels"), fit.draws.flat("mass"), strict=True):
        terms = [np.log(mass / (n + mass)) + log_marginal(np.zeros(0, int), row)]
        for k in range(labels.max() + 1):
            own = np.flatnonzero(labels == k)
            terms.append(np.log(len(own) / (n + mass)) + log_marginal(own, row) - log_marginal(own, None))
        logs.append(logsumexp(terms))
    return logsumexp(logs) - np.log(len(logs))


def test_log_density_by_brute_force(data):
    """Predictive densities as ratios of marginals, written without the package; cells are missing in new rows and in the data."""
    small, new = data.iloc[:8], data.iloc[8:11].astype({"smoker": float, "visits": float})
    new.iloc[1, new.columns.get_loc("visits")] = np.nan
    run = {"draws": 6, "tune": 10, "chains": 1, "rng": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        family = {
            "visits": nm.Poisson(1.5, 0.4, exposure="days"), "smoker": nm.Bernoulli(0.7, 1.1), "colour": nm.Categorical(0.6),
            "a": nm.Gaussian("diagonal", m=0.0, r=0.1, nu=3.0, scale=1.0), "w1 + w2 + w3": nm.Multinomial(0.5),
            "line": nm.Regression("1 + x", b=[0.0, 0.0], precision=np.eye(2), nu=3.0, scale=0.5),
        }
        fit = nm.fit("visits + smoker + colour + a + w1 + w2 + w3 + line ~ 1", small, family=family, **run)
    levels = {level: code for code, level in enumerate(sorted(small["colour"].unique()))}
    new = new[new["colour"].isin(levels)]

    def log_marginal(own, row):
        rows = small.astype({"smoker": float, "visits": float}).iloc[own]
        rows = rows if row is None else pd.concat([rows, new.iloc[[row]]])
        if not len(rows):
            return 0.0
        codes = rows["colour"].map(levels).to_numpy(float)[:, None]
        counts = rows[WORDS].to_numpy(float)
        X = np.column_stack([np.ones(len(rows)), rows["x"]])
        return (
            marginals.poisson_log_marginal(rows[["visits"]].to_numpy(), rows["days"].to_numpy(), np.array([1.5]), np.array([0.4]))
            + marginals.bernoulli_log_marginal(rows[["smoker"]].to_numpy(), np.array([0.7]), np.array([1.1]))
            + marginals.categorical_log_marginal(codes, [np.full(len(levels), 0.6)])
            + marginals.normal_gamma_log_marginal(rows[["a"]].to_numpy(), np.zeros(1), 0.1, 3.0, np.ones(1))
            + marginals.multinomial_log_marginal(counts, np.full(3, 0.5))
            + (gammaln(counts.sum(axis=1) + 1) - gammaln(counts + 1).sum(axis=1)).sum()
            + marginals.regression_log_marginal(X, rows["line"].to_numpy(), np.zeros(2), np.eye(2), 3.0, 0.5)
        )

    wanted = [brute(fit, log_marginal, row, len(small)) for row in range(len(new))]
    np.testing.assert_allclose(fit.log_density(new), wanted, rtol=1e-9)
    np.testing.assert_allclose(np.log(fit.predict(new, "density")["estimate"]), wanted, rtol=1e-9)


def test_rows_with_missing_cells(fits, data):
    """Their density is that of what was observed; where nothing was, there is none."""
    fit = fits("mixed")
    new = data.iloc[:3].astype({"visits": float, "smoker": object, "colour": object})
    only = new.assign(a=np.nan, visits=np.nan, smoker=None)
    of_colour = fit.predict(new, "density", response="colour", draws=50)["estimate"]
    np.testing.assert_allclose(fit.log_density(only), np.log(of_colour), rtol=1e-9)
    nothing = only.assign(colour=None)
    assert fit.log_density(nothing).isna().all() and fit.predict(nothing, "cluster", draws=5)["cluster"].isna().all()
    augmented = fit.augment()
    gaps = fit.model.frame.source["a"].isna()
    assert (augmented[".resid_a"].isna() == gaps).all() and augmented[".fitted_a"].notna().all()
    assert ".resid_colour[red]" not in augmented and ".fitted_colour[red]" in augmented


def test_density_of_an_atom_is_that_of_its_law(fits, data):
    """Under one drawn measure: joint densities of all but counts given their total are products within components."""
    fit = fits("mixed")
    at = [[0.5, 3, 1, "red"], [-1.0, 0, 0, "blue"]]
    joint = fit.predict(data.iloc[:1], "density", at=at, draws=1, rng=4).to_numpy()
    from nrmmix.common.seeds import draw_seeds, seed_sequence

    (state,) = states_of(fit.posterior, 1)
    covariates = CovariateWeights(fit.model, prediction_rows(fit.model, None))
    atoms = state.measure(draw_seeds(seed_sequence(4), 1)[0]).seen_from(covariates)
    inputs = data[["days"]].to_numpy()[:1]
    share, rest = atoms.shares(covariates)
    laws, of_clusters = atoms.distributions(inputs), state.distributions(inputs)
    codes = np.array([[0.5, 3, 1, 2], [-1.0, 0, 0, 0]])
    for i, point in enumerate(codes):
        of_atoms = np.prod([law.density(x)[0] for law, x in zip(laws, point, strict=True)], axis=0)
        of_new = np.prod([law.density(x)[0][-1] for law, x in zip(of_clusters, point, strict=True)])
        np.testing.assert_allclose(joint[i, 1], share[0] @ of_atoms + rest[0] * of_new, rtol=1e-9)


# ---- sparse counts


def test_sparse_counts_are_dense_counts(data):
    counts = data[WORDS].to_numpy()
    names = {"y1": "w1", "y2": "w2", "y3": "w3"}
    dense = nm.Model(data=counts, family=nm.Multinomial()).fit(**RUN)
    sparse = nm.Model(data=csr_array(counts), family=nm.Multinomial()).fit(**RUN)
    np.testing.assert_array_equal(dense.draws["labels"], sparse.draws["labels"])
    np.testing.assert_allclose(dense.log_density(), sparse.log_density(), rtol=1e-12)
    np.testing.assert_allclose(dense.predict(draws=9).iloc[:3], sparse.predict(draws=9), rtol=1e-12)
    assert sparse.predict(draws=9).index.tolist() == list(names) and sparse.predict().index.name == "response"
    new = counts[:4]
    np.testing.assert_allclose(dense.predict(new, "density", draws=9), sparse.predict(csr_array(new), "density", draws=9), rtol=1e-12)
    pd.testing.assert_frame_equal(
        dense.predict(new, "cluster", draws=9).reset_index(drop=True), sparse.predict(csr_array(new), "cluster", draws=9)
    )
    replicates = sparse.simulate(draws=2, rng=3)
    assert issparse(replicates.sparse.to_coo())
    np.testing.assert_array_equal(replicates.to_numpy(), dense.simulate(draws=2, rng=3).to_numpy())
    assert (replicates.sum(axis=1).to_numpy().reshape(2, -1) == counts.sum(axis=1)).all()
    tree = sparse.to_datatree()["observed_data"]
    np.testing.assert_array_equal(csr_array((tree["counts"], tree["indices"], tree["indptr"]), shape=counts.shape).toarray(), counts)
    with pytest.warns(UserWarning, match="sparse has seen 4 of 4 rows"):
        assert nm.compare({"sparse": sparse, "again": sparse}, newdata=csr_array(new))["elpd"].nunique() == 1


# ---- files and the command line


def test_damaged_sparse_counts_are_refused(fits, tmp_path):
    path = fits("sparse").save(tmp_path / "fit.npz")
    held = dict(np.load(path))
    header = json.loads(bytes(held["header"]))
    held[header["data"]["sparse"][1]] = held[header["data"]["sparse"][1]] + 10
    np.savez_compressed(tmp_path / "bad.npz", **held)
    with pytest.raises(ValueError, match="is damaged"):
        nm.load(tmp_path / "bad.npz")
    assert zipfile.is_zipfile(tmp_path / "bad.npz")


def test_command_line(data, gaps, tmp_path, capsys):
    file, fit = tmp_path / "data.csv", tmp_path / "fit.npz"
    gaps.reset_index(drop=True).to_csv(file, index=False)
    run = ["--draws", "10", "--tune", "10", "--chains", "1", "--thin", "1", "--seed", "1", "--save", str(fit)]
    formula = "a + visits + colour ~ 1"
    families = ["--family", "gaussian=a", "poisson=visits", "categorical=colour", "--missing", "marginalize"]
    assert main(["fit", formula, "--data", str(file), *families, *run]) == 0
    assert "Poisson" in capsys.readouterr().out
    assert nm.load(fit).model.n_obs == N
    assert main(["predict", str(fit), "--kind", "density", "--response", "colour", "--at", "red", "blue", "--draws", "5"]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert table["y"].tolist() == ["red", "blue"] and table["estimate"].between(0, 1).all()
    assert main(["predict", str(fit), "--kind", "density", "--response", "colour", "--at", "pink"]) == 2
    assert "'pink' is no level" in capsys.readouterr().err
    for given, words in (
        (["--family", "gausian"], "did you mean 'gaussian'?"), (["--family", "gaussian", "poisson=visits"], "each needs its responses"),
        (["--family", "poisson"], "visits"),
    ):
        assert main(["fit", formula if words != "visits" else "a + visits ~ 1", "--data", str(file), *given, *run]) == 2
        assert words in capsys.readouterr().err or words == "visits"
    for family in ("diagonal", "bernoulli", "multinomial"):
        of = {"diagonal": "a + b ~ 1", "bernoulli": "smoker ~ 1", "multinomial": "w1 + w2 + w3 ~ 1"}[family]
        assert main(["fit", of, "--data", str(file), "--family", family, *run]) == 0
