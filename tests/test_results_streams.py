"""Results of fits whose rows are not in memory: predictions are those of a fit in memory, part by part; and new rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix import cli
from nrmmix.posterior.factors import local_step

FORMULA = "a + b ~ 1"
RNG = np.random.default_rng(5)
N = 4000
Z = RNG.integers(3, size=N)
TABLE = pd.DataFrame(RNG.normal(size=(N, 2)) + 6.0 * np.stack([Z % 2, Z // 2], axis=1), columns=["a", "b"])
PARTS = [TABLE[:1500], TABLE[1500:1501], TABLE[1501:]]
METHOD = nm.MemoizedVB(batches=4)


@pytest.fixture(scope="module")
def fit():
    return nm.fit(FORMULA, TABLE, method=METHOD, rng=1)


@pytest.fixture(scope="module")
def streamed():
    return nm.fit(FORMULA, PARTS, method=METHOD, rng=1)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    where = tmp_path_factory.mktemp("streams") / "t.csv"
    TABLE.to_csv(where, index=False)
    return where


def test_clusters_and_densities_are_those_of_the_fit_in_memory(fit, streamed, path):
    assert np.array_equal(fit.labels, streamed.labels) and np.array_equal(fit.responsibilities(), streamed.responsibilities())
    assert fit.predict(kind="cluster").equals(streamed.predict(kind="cluster"))
    for new in (TABLE, path, PARTS):
        assert fit.predict(TABLE, kind="cluster").equals(streamed.predict(new, kind="cluster"))
        assert fit.log_density(TABLE).equals(streamed.log_density(new))
    assert fit.log_density().equals(streamed.log_density())
    at = [[0.0, 0.0], [6.0, 6.0]]
    assert fit.predict(kind="density", at=at, draws=20).equals(streamed.predict(kind="density", at=at, draws=20))
    assert fit.predict(kind="quantile", draws=20).equals(streamed.predict(kind="quantile", draws=20))
    assert streamed.partition().sizes.tolist() == fit.partition().sizes.tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predictions_go_to_a_file(fit, streamed, path, ending, tmp_path):
    if ending == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow reads and writes Parquet")
    read = pd.read_csv if ending == "csv" else pd.read_parquet
    want = fit.predict(TABLE, kind="cluster").reset_index(names="row")
    for one, new in ((streamed, path), (streamed, TABLE), (fit, path)):
        out = one.predict(new, kind="cluster", out=tmp_path / f"labels.{ending}")
        found = read(out)
        assert out == tmp_path / f"labels.{ending}" and (found["cluster"] == want["cluster"]).all() and (found["row"] == want["row"]).all()
        assert found["probability"].to_numpy() == pytest.approx(want["probability"].to_numpy(), abs=1e-15)
    own = read(streamed.predict(kind="cluster", out=tmp_path / f"own.{ending}"))
    assert (own["cluster"] == fit.predict(kind="cluster")["cluster"].to_numpy()).all()
    density = read(streamed.log_density(path, out=tmp_path / f"density.{ending}"))
    assert list(density) == ["row", "log_density"] and density["log_density"].to_numpy() == pytest.approx(fit.log_density(TABLE).to_numpy())
    several = read(fit.predict(path, kind="mean", draws=5, out=tmp_path / f"means.{ending}"))
    assert list(several) == ["row", "response", "estimate", "lower", "upper"] and len(several) == 2 * N


def test_a_chain_predicts_for_files_too(path, tmp_path):
    fit = nm.fit("a ~ 1", TABLE.head(60), draws=20, tune=20, chains=1, rng=1)
    with pytest.warns(UserWarning, match="60 of 4,000 rows .* were fitted"):
        of_table = fit.log_density(TABLE)
    assert fit.log_density(path).equals(of_table)
    out = fit.predict(path, kind="cluster", out=tmp_path / "labels.csv")
    assert (pd.read_csv(out)["cluster"] == fit.predict(TABLE, kind="cluster")["cluster"].to_numpy()).all()


def test_a_file_that_is_read_is_not_written_over(fit, streamed, path, tmp_path):
    """By its name, by a link to it, as that of the fitted rows, or in a folder of files."""
    link, folder = tmp_path / "link.csv", tmp_path / "parts"
    TABLE.head(20).to_csv(own := tmp_path / "own.csv")
    before = own.read_bytes()
    link.symlink_to(own)
    folder.mkdir()
    TABLE.head(20).to_parquet(folder / "a.parquet")
    for newdata, out in ((own, own), (own, link), (link, own), (folder, folder / "b.parquet")):
        with pytest.raises(ValueError, match=r"cannot be written: the data are read from .*; take another name"):
            fit.predict(newdata, kind="cluster", out=out)
        with pytest.raises(ValueError, match="cannot be written: the data are read from"):
            fit.log_density(newdata, out=out)
    saved = str(fit.save(tmp_path / "fit.npz"))
    assert cli.main(["predict", saved, "--data", str(own), "--kind", "cluster", "--out", str(own)]) == 2
    assert own.read_bytes() == before and [one.name for one in folder.iterdir()] == ["a.parquet"]


def test_levels_of_an_index_that_are_called_as_columns_are(fit, tmp_path):
    rows = TABLE.head(3).rename_axis("cluster")
    out = fit.predict(rows, kind="cluster", out=tmp_path / "own.csv")
    assert list(pd.read_csv(out)) == ["cluster of the row", "cluster", "probability"]


def test_report_has_the_pictures_that_need_no_rows(streamed, tmp_path):
    page = streamed.report(tmp_path / "fit.html").read_text(encoding="utf-8")
    assert page.count("<img") == 2 and 'id="elbo"' in page and 'id="n_clusters"' in page and "Predictions are averaged" not in page


def test_what_needs_the_rows_says_so(streamed, tmp_path):
    for call in (streamed.simulate, streamed.augment, lambda: streamed.contrasts({"a": [1, 2]})):
        with pytest.raises(ValueError, match="the rows that were fitted are not in memory; give some of them as newdata="):
            call()
    assert len(streamed.augment(TABLE.head(3))) == 3 and len(streamed.simulate(TABLE.head(3))) == 3
    with pytest.raises(ValueError, match="the picture 'density' needs the rows"):
        streamed.plot("density")
    assert "Component" in streamed.summary().as_text() and np.isnan(streamed.glance()["mean_log_density"].iloc[0])
    with pytest.raises(ValueError, match=r"out must be the name of a file that ends in \.parquet, \.csv"):
        streamed.predict(TABLE, out=tmp_path / "out.txt")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        streamed.predict(TABLE, out=tmp_path / "no" / "out.csv")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        streamed.predict("nowhere.parquet")
    with pytest.raises(ValueError, match="did you mean kind='cluster'"):
        streamed.predict("cluster")
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_middle_leaves_no_file(fit, tmp_path):
    with pytest.raises(ValueError, match=r"not a real number|holds text"):
        fit.predict([TABLE[:5], pd.DataFrame({"a": ["x"], "b": [1.0]})], kind="cluster", out=tmp_path / "labels.csv")
    assert list(tmp_path.iterdir()) == []


def test_saved_fits_find_their_rows_again(fit, path, tmp_path):
    saved = nm.fit(FORMULA, path, method=METHOD, rng=1).save(tmp_path / "fit.npz")
    again = nm.load(saved)
    assert again.elbo == fit.elbo and again.model.n_obs == N and np.array_equal(again.labels, fit.labels)
    assert saved.stat().st_size < 60_000
    other = nm.load(nm.fit(FORMULA, PARTS, method=METHOD, rng=1).save(tmp_path / "other.npz"))
    assert other.predict(TABLE, kind="cluster").equals(fit.predict(TABLE, kind="cluster"))
    with pytest.raises(ValueError, match="the rows that were fitted cannot be found: give them as newdata="):
        other.log_density()


def test_saved_regressions_need_no_rows(tmp_path):
    """Their scales are not in the family, and rows are not asked for them."""
    fit = nm.fit("a ~ 1", PARTS, family=nm.Regression("1 + b"), method=nm.MemoizedVB(batches=4, passes=5), rng=1)
    for number, one in enumerate((fit, fit.update(TABLE.head(50)))):
        again = nm.load(one.save(tmp_path / f"{number}.npz"))
        assert again.log_density(TABLE).equals(one.log_density(TABLE)) and again.elbo == one.elbo


def test_command_line(fit, path, tmp_path, capsys):
    saved, run, out = (str(tmp_path / name) for name in ("fit.npz", "run.npz", "labels.csv"))
    given = ["fit", FORMULA, "--data", str(path), "--stream", "--method", "memoized_vb", "--seed", "1"]
    assert cli.main([*given, "--save", saved, "--checkpoint", run]) == 0
    assert f"{N}" in capsys.readouterr().out and nm.load(saved).model.frame.is_streamed
    assert cli.main(["resume", run]) == 0 and "Lower bound:" in capsys.readouterr().out
    assert cli.main(["predict", saved, "--data", str(path), "--kind", "cluster", "--out", out]) == 0
    assert (pd.read_csv(out)["cluster"] == fit.predict(TABLE, kind="cluster")["cluster"].to_numpy()).all()
    for arguments, message in (
        (["fit", FORMULA, "--data", str(path), "--stream"], "not in memory, where chains and searches need it"),
        ([*given[:-2], "--checkpoint", str(tmp_path / "x.npz"), "--method", "vb"], "--checkpoint belongs to chains and to --method"),
        (["fit", FORMULA, "--data", "nowhere.csv", "--stream"], "there is no such file"),
        (["resume", run, "--draws", "5"], "--draws belongs to chains"),
    ):
        assert cli.main(arguments) == 2 and message in capsys.readouterr().err


# ---- new rows

NEW = pd.DataFrame(np.random.default_rng(3).normal(size=(900, 2)) + [3.0, 14.0], columns=["a", "b"])  # a cluster of their own


def test_new_rows_of_known_clusters(fit):
    old = TABLE.sample(800, random_state=1)
    more = fit.update(old)
    whole = nm.fit(FORMULA, pd.concat([TABLE, old]), family=fit.model.family, method=METHOD, rng=1)
    assert more.model.n_obs == N + 800 == len(more.labels) and more.n_clusters == 3 == whole.n_clusters
    assert 0 <= whole.elbo - more.elbo < 1.0 and fit.model.n_obs == N and more.has_converged
    assert len(more.passes) > len(fit.passes) and more.passes.index.is_monotonic_increasing


@pytest.mark.nightly
def test_new_rows_may_have_clusters_of_their_own(fit):
    for new in (NEW, pd.concat([NEW, TABLE.sample(500, random_state=2)])):
        more = fit.update(new)
        assert more.n_clusters == 4 and sorted(more.factors.N)[0] == pytest.approx(900, abs=20)
        whole = nm.fit(FORMULA, pd.concat([TABLE, new]), family=fit.model.family, method=METHOD, rng=1)
        assert 0 <= whole.elbo - more.elbo < 1e-3 * abs(whole.elbo)


def test_the_bound_is_that_of_the_rows_seen(fit):
    """Against entropies and log h of the probabilities that old and new rows have."""
    new = TABLE.sample(700, random_state=3).reset_index(drop=True)
    more = fit.update(new)
    exponential, H = fit.model.exponential(), 0.0
    before = fit.model.statistics(exponential)
    found = local_step(before.whole(), fit.factors.eta, fit.factors.const)
    assert found.N == pytest.approx(fit.factors.N, rel=1e-3)
    earlier = fit.elbo - fit.factors.log_evidence
    assert earlier == pytest.approx(found.H.sum() + before.log_h.sum(), abs=0.5)
    rows = nm.Model(FORMULA, new, family=fit.model.family).statistics(exponential)
    own = local_step(rows.whole(), more.factors.eta, more.factors.const)
    H = own.H.sum() + rows.log_h.sum()
    assert more.elbo == pytest.approx(more.factors.log_evidence + earlier + H, abs=0.05)


@pytest.mark.nightly
def test_every_kind_of_fit_can_be_updated(fit, streamed, path, tmp_path):
    want = fit.update(NEW)
    NEW.to_csv(tmp_path / "new.csv", index=False)
    loaded = nm.load(streamed.save(tmp_path / "fit.npz"))
    for one, new in ((streamed, NEW), (fit, tmp_path / "new.csv"), (streamed, [NEW[:50], NEW[50:]]), (loaded, NEW)):
        more = one.update(new)
        assert more.elbo == want.elbo and more.model.n_obs == N + 900 and more.model.frame.is_streamed
        assert nm.load(more.save(tmp_path / "more.npz")).update(NEW.head(40)).model.n_obs == N + 940
        assert (more.predict(NEW, kind="cluster")["cluster"].nunique()) == 1
    assert fit.update(NEW, executor=2).elbo == want.elbo
    for name in ("vb", "stochastic_vb"):
        assert nm.fit(FORMULA, TABLE, method=name, rng=1).update(NEW).model.n_obs == N + 900


def test_batches_that_keep_coming(fit):
    """Clusters are born as they come, and a batch costs its own rows alone: no other is asked for."""
    rng = np.random.default_rng(4)
    centres = np.array([[20.0, 0.0], [-20.0, 5.0], [0.0, 40.0]])
    for t, centre in enumerate(centres):
        for _ in range(2):
            fit = fit.update(pd.DataFrame(centre + rng.normal(size=(400, 2)), columns=["a", "b"]))
        assert fit.n_clusters == 4 + t and fit.model.n_obs == N + 800 * (t + 1) and fit.has_converged
    assert np.sort(fit.factors.N[:6])[:3] == pytest.approx(800, abs=20)
    assert fit.predict(pd.DataFrame(centres, columns=["a", "b"]), kind="cluster")["cluster"].nunique() == 3


def test_new_rows_that_cannot_be_used(fit):
    gaps = NEW.head(4).copy()
    gaps.iloc[0, 0] = np.nan
    with pytest.warns(UserWarning, match="1 of 4 new rows dropped: missing values"):
        assert fit.update(gaps).model.n_obs == N + 3
    with pytest.raises(ValueError, match="there is no complete new row"), pytest.warns(UserWarning, match="1 of 1 new rows"):
        fit.update(gaps.head(1))
    with pytest.raises(ValueError, match="There is no column 'b' in the new rows"):
        fit.update(NEW[["a"]])
    with pytest.raises(ValueError, match="executor must be None"):
        fit.update(NEW, executor="fork")
