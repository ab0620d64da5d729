"""Fits as tables of numbers, row by row, and compared with each other."""

import sys

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.inference.mcmc.sampling import Run
from nrmmix.posterior.convergence import verdict
from nrmmix.posterior.draws import Draws
from nrmmix.results.mcmc import MCMCResult

RUN = {"draws": 40, "tune": 30, "chains": 2, "rng": 1, "cores": 1}
FORMULA = "eruptions_min + waiting_min ~ 1"


@pytest.fixture(scope="module")
def faithful():
    return nm.datasets.load_faithful().set_axis([f"day {i}" for i in range(272)], axis="index")


@pytest.fixture(scope="module")
def mixture(faithful):
    return nm.fit(FORMULA, faithful.iloc[:200], prior=nm.NGGP(sigma=0.2), **RUN)


@pytest.fixture(scope="module")
def regression(faithful):
    table = faithful.assign(unused="text")
    table.loc["day 3", "eruptions_min"] = np.nan
    with pytest.warns(UserWarning, match="1 of 200 rows dropped"):
        return nm.fit("waiting_min ~ eruptions_min", table.iloc[:200], **RUN)


@pytest.fixture(scope="module")
def plain(faithful):
    return nm.fit("waiting_min ~ 1", faithful.iloc[:200], **RUN)


def made(model, **values):
    shape = next(iter(values.values())).shape
    fixed = {"n_clusters": np.ones(shape, int), "log_joint": np.full(shape, -1.0), "mass": np.ones(shape), "sigma": np.zeros(shape)}
    values = fixed | values
    values["labels"] = np.zeros((*shape, model.n_obs), np.int32)
    return MCMCResult(model, Run(Draws(values), "gibbs", 5, 2, 7, 1.5, 0.1, False, ()))


# ---- tidy, glance


def test_tidy_holds_the_diagnostics(mixture):
    table, numbers = mixture.tidy(), mixture.diagnostics()
    assert list(table) == ["term", "estimate", "std_error", "conf_low", "conf_high", "ess", "rhat", "mcse"]
    assert list(table["term"]) == ["n_clusters", "log_joint", "mass", "sigma", "log(u)"]
    rows = table.set_index("term")
    same = {"estimate": "mean", "std_error": "sd", "conf_low": "q5", "conf_high": "q95", "ess": "ess", "rhat": "rhat", "mcse": "mcse"}
    for ours, theirs in same.items():
        assert rows.loc["mass", ours] == numbers.loc["mass", theirs]
    assert rows.loc["mass", "estimate"] == mixture.draws["mass"].mean()
    assert rows.loc["mass", "conf_low"] == np.quantile(mixture.draws["mass"], 0.05)
    assert rows.loc["sigma", "estimate"] == 0.2 and rows.loc["sigma"].drop("estimate").isna().all()
    assert rows.loc["log(u)", "estimate"] == pytest.approx(np.log(mixture.draws["u"]).mean())


def test_glance_is_one_row(mixture, regression):
    table = mixture.glance()
    assert len(table) == 1
    row = table.iloc[0]
    assert dict(row[:8]) == {
        "formula": FORMULA, "prior": "NGGP(mass ~ Gamma(1, 1), sigma = 0.2)", "family": "Gaussian", "method": "split_merge", "n_obs": 200,
        "n_responses": 2, "n_chains": 2, "n_draws": 40,
    }
    assert row["n_clusters"] == mixture.draws["n_clusters"].mean() and row["log_joint"] == mixture.draws["log_joint"].mean()
    assert row["mean_log_density"] == pytest.approx(mixture.log_density().mean())
    tidy = mixture.tidy()
    assert row["max_rhat"] == tidy["rhat"].max()
    assert row["min_ess"] == min(tidy["ess"].min(), mixture.diagnostics()["ess_tail"].min())
    assert row["seconds"] == mixture.seconds and not row["converged"]
    both = pd.concat([table, regression.glance()], ignore_index=True)
    assert list(both["n_obs"]) == [200, 199] and both.notna().all(axis=None)


@pytest.mark.parametrize(("draws", "shift", "converged"), [(1000, 0.0, True), (80, 0.0, False), (1000, 0.15, False)])
def test_glance_says_whether_chains_agree(plain, monkeypatch, draws, shift, converged):
    monkeypatch.setattr(MCMCResult, "log_density", lambda self: pd.Series([0.0]))
    mass = np.exp(np.random.default_rng(1).normal(size=(4, draws)) + shift * np.arange(4)[:, None])
    fit = made(plain.model, mass=mass)
    assert bool(fit.glance()["converged"].iloc[0]) is converged
    assert verdict(fit.evidence, fit.diagnostics()).startswith("Chains agree") is converged


# ---- augment


def test_augment_of_the_training_rows(regression):
    table = regression.augment()
    model = regression.model
    assert list(table) == ["waiting_min", "eruptions_min", ".fitted", ".resid", ".log_density", ".cluster", ".probability"]
    assert len(table) == 199 and "day 3" not in table.index and table.index.equals(model.frame.index)
    assert np.array_equal(table[".fitted"], regression.predict()["estimate"])
    assert np.allclose(table[".resid"], table["waiting_min"] - table[".fitted"], rtol=0, atol=1e-12)
    assert np.array_equal(table[".log_density"], regression.log_density())
    assert np.array_equal(table[".cluster"], regression.partition().labels)
    assert np.array_equal(table[".probability"], regression.predict(kind="cluster")["probability"])


def test_augment_of_several_responses_names_each(mixture, faithful):
    table = mixture.augment(faithful.iloc[200:])
    ends = ["_eruptions_min", "_waiting_min"]
    estimates = [f".{what}{end}" for what in ("fitted", "resid") for end in ends]
    assert list(table)[2:] == [*estimates, ".log_density", ".cluster", ".probability"]
    for name in ("eruptions_min", "waiting_min"):
        fitted = table[f".fitted_{name}"]
        assert np.allclose(table[f".resid_{name}"], faithful[name].iloc[200:] - fitted)
        # each row has the mean of its cluster, and not that of all rows
        within = faithful[name].groupby(np.where(faithful["eruptions_min"] < 3, 0, 1)).mean()
        assert np.corrcoef(fitted, np.where(faithful["eruptions_min"].iloc[200:] < 3, within[0], within[1]))[0, 1] > 0.98


def test_fitted_values_of_a_mixture_are_those_of_the_row_s_cluster(mixture):
    """Draw by draw the posterior mean of the mean of the cluster that the row is in: in closed form, with the family's numbers."""
    model, labels = mixture.model, mixture.draws.flat("labels")
    chosen = labels[(np.arange(min(500, len(labels))) * len(labels)) // min(500, len(labels))]
    y, family = model.frame.response, model.family
    expected = np.zeros_like(y)
    for row in chosen:
        for k in range(row.max() + 1):
            own = row == k
            expected[own] += (y[own].sum(axis=0) + family.r * family.m) / (own.sum() + family.r) / len(chosen)
    found = mixture.augment()[[".fitted_eruptions_min", ".fitted_waiting_min"]]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_augment_of_new_rows_keeps_them_all(regression, faithful):
    new = faithful.iloc[200:206].assign(note=list("abcdef"))
    new.index = ["x", "x", "y", "z", "z", "z"]
    new.iloc[1, new.columns.get_loc("eruptions_min")] = np.nan
    new.iloc[2, new.columns.get_loc("waiting_min")] = np.nan
    table = regression.augment(new)
    pd.testing.assert_frame_equal(table[list(new)], new)
    assert list(table[".fitted"].isna()) == [False, True, False, False, False, False]
    for name in (".resid", ".log_density", ".cluster", ".probability"):
        assert list(table[name].isna()) == [False, True, True, False, False, False]
    assert table[".probability"].dropna().between(0, 1).all()


def test_augment_without_responses_leaves_out_what_needs_them(regression, mixture):
    assert list(regression.augment({"eruptions_min": [2.0, 4.0]})) == ["eruptions_min", ".fitted"]
    assert list(mixture.augment({"waiting_min": [60.0]})) == ["waiting_min", ".fitted_eruptions_min", ".fitted_waiting_min"]


def test_augment_of_an_array():
    X = np.random.default_rng(1).normal(size=(30, 2))
    table = nm.Model(data=X).fit(**RUN).augment(X[:3])
    assert list(table)[:4] == ["y1", "y2", ".fitted_y1", ".fitted_y2"] and len(table) == 3


def test_augment_refuses_columns_that_are_there(regression, faithful):
    with pytest.raises(ValueError, match=r"column '\.cluster', which the data have already; rename"):
        regression.augment(faithful.rename_axis("day").assign(**{".cluster": 1}))
    assert ".cluster" in regression.augment(faithful.iloc[:2].assign(cluster=1))


# ---- compare


def test_compare_ranks_by_held_out_log_density(plain, regression, faithful):
    new = faithful.iloc[200:]
    table = nm.compare(plain, regression, newdata=new)
    assert list(table.index) == ["fit 2", "fit 1"] and table.index.name == "fit"
    assert list(table) == ["elpd", "se", "mean", "difference", "difference_se", "n"]
    better, worse = regression.log_density(new).to_numpy(), plain.log_density(new).to_numpy()
    for name, scores in (("fit 2", better), ("fit 1", worse)):
        assert table.loc[name, "elpd"] == pytest.approx(scores.sum()) and table.loc[name, "mean"] == pytest.approx(scores.mean())
        assert table.loc[name, "se"] == pytest.approx(np.sqrt(72 * scores.var(ddof=1)))
    assert (table.loc["fit 2", ["difference", "difference_se"]] == 0).all()
    assert table.loc["fit 1", "difference"] == pytest.approx((worse - better).sum()) and table.loc["fit 1", "difference"] < 0
    assert table.loc["fit 1", "difference_se"] == pytest.approx(np.sqrt(72) * (worse - better).std(ddof=1))
    named = nm.compare({"waiting": plain, "given": regression}, newdata=new)
    assert list(named.index) == ["given", "waiting"] and np.array_equal(named, table)


def test_compare_leaves_out_rows_that_miss_something(plain, regression, faithful):
    new = faithful.iloc[200:].copy()
    new.iloc[0, 0], new.iloc[5, 1], new.iloc[5, 0] = np.nan, np.nan, np.nan
    with pytest.warns(UserWarning, match="compare: 2 of 72 rows left out"):
        table = nm.compare(plain, regression, newdata=new)
    rest = np.setdiff1d(np.arange(72), [0, 5])
    assert (table["n"] == 70).all()
    assert table.loc["fit 1", "elpd"] == pytest.approx(plain.log_density(new.iloc[rest]).sum())
    with pytest.raises(ValueError, match="no row has a density"):
        nm.compare(plain, regression, newdata=new.iloc[[0, 5]])


def test_compare_of_one_row_has_no_standard_error(plain, faithful):
    table = nm.compare(plain, newdata=faithful.iloc[[200]])
    assert table["se"].isna().all() and table["n"].iloc[0] == 1


def test_compare_takes_responses_in_any_order(mixture, faithful):
    turned = nm.fit("waiting_min + eruptions_min ~ 1", faithful.iloc[:200], **RUN)
    assert len(nm.compare(mixture, turned, newdata=faithful.iloc[200:])) == 2


def test_compare_says_what_is_wrong(mixture, plain, regression, faithful):
    new = faithful.iloc[200:]
    with pytest.raises(ValueError, match="fit 1 has waiting_min and fit 2 eruptions_min, waiting_min"):
        nm.compare(plain, mixture, newdata=new)
    with pytest.raises(ValueError, match="there are no fits"):
        nm.compare(newdata=new)
    with pytest.raises(TypeError, match=r"fit 2 is a DataFrame; .* as newdata="):
        nm.compare(plain, new)
    with pytest.raises(TypeError, match="b is a int"):
        nm.compare({"a": plain, "b": 3}, newdata=new)
    with pytest.raises(ValueError, match=r"fitted to different rows \(200 and 199\)"):
        nm.compare(plain, regression)
    without_chains = nm.fit("waiting_min ~ 1", faithful.iloc[:200], method="vb", rng=1)
    with pytest.raises(ValueError, match="compare: b is no fit by chains, by which rows can be left out; give held-out rows as newdata="):
        nm.compare({"a": plain, "b": without_chains})
    assert len(nm.compare({"a": plain, "b": without_chains}, newdata=new)) == 2


@pytest.mark.filterwarnings("ignore:loo")
def test_compare_by_leaving_out_needs_no_arviz_and_is_that_of_each_fit(faithful, plain, monkeypatch):
    for name in ("arviz", "arviz_stats", "arviz_stats.base", "xarray"):
        monkeypatch.setitem(sys.modules, name, None)
    other = nm.fit("waiting_min ~ eruptions_min", faithful.iloc[:200], **RUN)
    with pytest.warns(UserWarning, match=r"cannot be trusted for .*other: Pareto k above 0\.7"):
        table = nm.compare({"plain": plain, "other": other})
    for name, fit in (("plain", plain), ("other", other)):
        own = fit.loo()
        assert table.loc[name, "elpd"] == pytest.approx(own.elpd, rel=1e-12) and table.loc[name, "se"] == pytest.approx(own.se, rel=1e-12)
        assert table.loc[name, "pareto_k"] == own.rows["pareto_k"].max()


@pytest.mark.filterwarnings("ignore")
def test_compare_by_leaving_out_agrees_with_arviz(plain):
    arviz = pytest.importorskip("arviz")
    table, found = nm.compare(plain), arviz.loo(plain.to_arviz())
    elpd = float(getattr(found, "elpd", getattr(found, "elpd_loo", np.nan)))
    assert table["elpd"].iloc[0] == pytest.approx(elpd, abs=0.1 * table["se"].iloc[0])


def test_units_are_said(mixture, regression):
    assert regression.tidy().attrs["units"]["log_joint"] == "nats" and regression.tidy().attrs["units"]["n_clusters"] == "clusters"
    assert mixture.predict(kind="quantile", draws=5).attrs["units"].startswith("those of the response")
    assert "per unit" in mixture.predict({"eruptions_min": [2.0]}, "density", given="eruptions_min", at=[60], draws=5).attrs["units"]
    widths = nm.fit("waiting_min ~ eruptions_min", nm.datasets.load_faithful(), kernel=nm.SquaredExponential(nm.LogNormal(-2, 1)), **RUN)
    assert widths.tidy().attrs["units"]["width"] == "share of the covariate's range"
