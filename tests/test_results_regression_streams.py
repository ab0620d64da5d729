"""Results of density regressions whose rows are not in memory: predictions for files, to files, and fits that are saved."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns

import nrmmix as nm
from nrmmix import cli

FORMULA = "y ~ x + t + g"
RNG = np.random.default_rng(5)
N = 900
TABLE = pd.DataFrame({"x": RNG.uniform(-2, 2, N), "t": RNG.standard_normal(N).round(1), "g": RNG.choice(list("abc"), N)})
TABLE["y"] = np.sin(2 * TABLE["x"]) + np.where(TABLE["g"] == "a", 1.5, 0) + np.where(TABLE["x"] > 0, 0.4, 0.1) * RNG.standard_normal(N)
METHOD = nm.MemoizedVB(batches=4, starts=2, passes=4, components=20)
NEW = TABLE.sample(120, random_state=1).reset_index(drop=True)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    where = tmp_path_factory.mktemp("streams") / "t.csv"
    TABLE.to_csv(where, index=False)
    return where


@pytest.fixture(scope="module")
def fit():
    return nm.fit(FORMULA, TABLE, method=METHOD, rng=1)


@pytest.fixture(scope="module")
def streamed(path):
    return nm.fit(FORMULA, path, method=METHOD, rng=1)


@pytest.mark.parametrize(("kind", "options"), by_turns([
    ("mean", {}), ("quantile", {"q": [0.1, 0.9]}), ("density", {}), ("cdf", {"at": [0.0, 1.0]}), ("exceedance", {"at": 0.5}),
]))
def test_predictions_are_those_of_the_fit_in_memory(fit, streamed, kind, options):
    want = fit.predict(NEW, kind, draws=10, **options)
    for new in (NEW, [NEW[:50], NEW[50:]]):
        found = streamed.predict(new, kind, draws=10, **options)
        pd.testing.assert_frame_equal(found, want if new is NEW else found)
        np.testing.assert_allclose(found["estimate"], want["estimate"], rtol=1e-7, atol=1e-7)


def test_log_densities_and_components_are_those_of_the_fit_in_memory(fit, streamed):
    np.testing.assert_array_equal(fit.log_density(NEW), streamed.log_density(NEW))
    np.testing.assert_allclose(fit.log_density(), streamed.log_density(), rtol=1e-9)
    np.testing.assert_array_equal(fit.labels, streamed.labels)
    np.testing.assert_allclose(fit.responsibilities(), streamed.responsibilities(), atol=1e-12)
    np.testing.assert_allclose(fit.predict(draws=5)["estimate"], streamed.predict(draws=5)["estimate"], rtol=1e-9)


def test_clusters_are_those_of_the_components_of_the_best_start(streamed):
    own = streamed.predict(kind="cluster")
    np.testing.assert_array_equal(own["cluster"], streamed.labels)
    new = streamed.predict(TABLE, kind="cluster")
    assert (own["cluster"].to_numpy() == new["cluster"].to_numpy()).mean() > 0.97, "bins and exact kernels differ a little"
    np.testing.assert_allclose(own["probability"], new["probability"], atol=0.2)
    assert own["probability"].between(0, 1).all()


@pytest.mark.parametrize("ending", by_turns(["csv", "parquet"]))
def test_predictions_go_to_a_file(fit, streamed, path, ending, tmp_path):
    if ending == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow reads and writes Parquet")
    read = pd.read_csv if ending == "csv" else pd.read_parquet
    want = fit.predict(TABLE, draws=5)
    for one, new in ((streamed, path), (streamed, None), (fit, path)):
        found = read(one.predict(new, draws=5, out=tmp_path / f"means.{ending}"))
        assert list(found) == ["row", "estimate", "lower", "upper"] and found["row"].tolist() == list(range(N))
        np.testing.assert_allclose(found["estimate"], want["estimate"], rtol=1e-9)
    bands = read(streamed.predict(path, "quantile", q=[0.05, 0.95], draws=5, out=tmp_path / f"bands.{ending}"))
    assert len(bands) == 2 * N and set(bands["q"]) == {0.05, 0.95}
    clusters = read(streamed.predict(kind="cluster", out=tmp_path / f"clusters.{ending}"))
    np.testing.assert_array_equal(clusters["cluster"], streamed.labels)
    scores = read(streamed.log_density(path, out=tmp_path / f"scores.{ending}"))
    np.testing.assert_allclose(scores["log_density"], fit.log_density(TABLE), rtol=1e-9)


def test_new_levels_and_missing_covariates(streamed):
    with pytest.raises(ValueError, match=r"holds the level 'z'.*which the training data do not have"):
        streamed.predict([NEW[:5], NEW[5:9].assign(g="z")])
    gaps = NEW[:4].assign(x=[np.nan, 0.0, 1.0, 2.0])
    assert streamed.predict([gaps])["estimate"].isna().tolist() == [True, False, False, False]


def test_saved_fits_need_no_rows(streamed, path, tmp_path):
    saved = streamed.save(tmp_path / "fit.npz")
    again, packed = nm.load(saved), pickle.loads(pickle.dumps(streamed))
    for other in (again, packed):
        np.testing.assert_array_equal(other.log_density(NEW), streamed.log_density(NEW))
        np.testing.assert_array_equal(other.labels, streamed.labels)
        pd.testing.assert_frame_equal(other.starts, streamed.starts)
        pd.testing.assert_frame_equal(other.passes, streamed.passes)
        assert str(other.summary()) == str(streamed.summary()) and str(other.model) == str(streamed.model)
    gone = tmp_path / "gone.csv"
    TABLE.to_csv(gone, index=False)
    nm.fit(FORMULA, gone, method=METHOD, rng=1).save(tmp_path / "gone.npz")
    gone.unlink()
    alone = nm.load(tmp_path / "gone.npz")
    np.testing.assert_array_equal(alone.log_density(NEW), streamed.log_density(NEW))
    np.testing.assert_array_equal(alone.predict(NEW, kind="cluster")["cluster"], streamed.predict(NEW, kind="cluster")["cluster"])
    with pytest.raises(ValueError, match="the rows that were fitted cannot be found: give them as newdata="):
        alone.log_density()


@pytest.mark.nightly
@pytest.mark.parametrize("formula", by_turns(["y ~ t", "y ~ x", "y + x ~ t"], 3, 2))
def test_one_covariate_and_several_responses(formula, path, tmp_path):
    found = nm.fit(formula, path, method=METHOD, rng=1)
    want = nm.fit(formula, TABLE, method=METHOD, rng=1)
    again = nm.load(found.save(tmp_path / "fit.npz"))
    new = NEW[["x", "t"]].head(20)
    for one in (found, again):
        np.testing.assert_allclose(one.predict(new)["estimate"], want.predict(new)["estimate"], rtol=1e-7)
    assert (found.predict(NEW, kind="cluster")["cluster"] >= 0).all()


def test_reports_and_what_needs_the_rows(streamed, tmp_path):
    text = str(streamed.summary())
    assert "Start" in text and "The rows are not in memory" in text and "Covariate" in text
    page = streamed.report(tmp_path / "fit.html").read_text(encoding="utf-8")
    assert 'id="elbo"' in page and "needs the rows" not in page
    assert streamed.glance()["n_obs"].iloc[0] == N and streamed.plot("elbo") is not None and streamed.plot("n_clusters") is not None
    for call in (streamed.simulate, streamed.augment, lambda: streamed.contrasts({"x": [0.0, 1.0]})):
        with pytest.raises(ValueError, match="the rows that were fitted are not in memory; give some of them as newdata="):
            call()
    for kind in ("mean", "importance", "responsibilities"):
        with pytest.raises(ValueError, match=f"the picture '{kind}' needs the rows"):
            streamed.plot(kind)
    assert len(streamed.augment(NEW.head(3))) == 3 and streamed.simulate(NEW.head(3), draws=2).shape == (6, 1)


@pytest.mark.nightly
def test_importance_goes_to_the_source_for_rows(fit, streamed, path, tmp_path):
    given = {"draws": 10, "rows": 12, "rng": 1}
    pd.testing.assert_frame_equal(fit.importance(**given), streamed.importance(**given), rtol=1e-6)
    gaps = TABLE.copy()
    gaps.loc[[5, 700], "x"] = np.nan
    with pytest.warns(UserWarning, match="2 of 900 rows dropped"):
        one, other = (nm.fit("y ~ log(x + 9) + t + x:t", data, method=METHOD, rng=1) for data in (gaps, [gaps[:300], gaps[300:]]))
    pd.testing.assert_frame_equal(one.importance(**given), other.importance(**given), rtol=1e-4)
    gone = nm.fit(FORMULA, [TABLE], method=METHOD, rng=1).save(tmp_path / "fit.npz")
    with pytest.raises(ValueError, match=r"those that were fitted cannot be found; summary\(\) has the share"):
        nm.load(gone).importance()


def test_command_line(tmp_path, capsys):
    path, saved, out = (str(tmp_path / name) for name in ("few.csv", "fit.npz", "means.csv"))
    TABLE[:80].to_csv(path, index=False)
    given = ["fit", "y ~ x + g", "--data", path, "--stream", "--method", "memoized_vb", "--seed", "1"]
    assert cli.main([*given, "--save", saved]) == 0 and "80" in capsys.readouterr().out
    fit = nm.load(saved)
    assert fit.model.frame.is_streamed
    assert cli.main(["predict", saved, "--data", path, "--out", out]) == 0
    np.testing.assert_allclose(pd.read_csv(out)["estimate"], fit.predict(TABLE[:80])["estimate"], rtol=1e-6)
