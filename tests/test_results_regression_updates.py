"""New rows for fits of density regressions: from tables and sources, of fits whose rows are there or gone, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns

import nrmmix as nm

FORMULA = "y ~ x + t + g"
RNG = np.random.default_rng(5)
N = 900
TABLE = pd.DataFrame({"x": RNG.uniform(-2, 2, N), "t": RNG.standard_normal(N).round(1).clip(-2, 2), "g": RNG.choice(list("abc"), N)})
TABLE["y"] = np.sin(2 * TABLE["x"]) + np.where(TABLE["g"] == "a", 1.5, 0) + np.where(TABLE["x"] > 0, 0.4, 0.1) * RNG.standard_normal(N)
TABLE.loc[[0, 1], "x"], TABLE.loc[[0, 1], "t"] = [-2.0, 2.0], [-2.0, 2.0]
OLD, NEW, TEST = TABLE[:400], TABLE[400:700].reset_index(drop=True), TABLE[700:]
METHOD = nm.MemoizedVB(batches=4, starts=2, passes=5, components=25)


@pytest.fixture(scope="module")
def fit():
    return nm.fit(FORMULA, OLD, method=METHOD, rng=1)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    where = tmp_path_factory.mktemp("updates") / "old.csv"
    OLD.to_csv(where, index=False)
    return where


@pytest.fixture(scope="module")
def streamed(path):
    return nm.fit(FORMULA, path, method=METHOD, rng=1)


def same(one, other):
    assert one.elbo == other.elbo and one.starts.equals(other.starts) and one.model.n_obs == other.model.n_obs
    for a, b in zip(one.fits, other.fits, strict=True):
        assert all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ("N", "s", "A", "codes"))


def test_new_rows_are_added(fit):
    more, whole = fit.update(NEW), nm.fit(FORMULA, TABLE[:700], method=METHOD, rng=1)
    assert more.model.n_obs == 700 and fit.model.n_obs == 400 and len(more.passes) > len(fit.passes)
    assert more.factors.N.sum() == pytest.approx(700) and more.passes.index.is_monotonic_increasing
    score = [one.log_density(TEST).mean() for one in (fit, more, whole)]
    assert score[1] > score[0] and score[1] > score[2] - 0.1
    assert list(more.starts["weight"]) == list(fit.starts["weight"])
    assert more.predict(TEST.head(3)).shape == (3, 3) and more.predict(TEST, kind="cluster")["cluster"].nunique() > 1
    assert "700" in str(more.summary()) and np.isfinite(more.elbo)


@pytest.mark.nightly
def test_tables_and_sources_saved_fits_and_workers_give_the_same(fit, streamed, tmp_path):
    NEW.to_csv(tmp_path / "new.csv", index=False)
    for one in (fit, streamed):
        want = one.update(NEW)
        for new in (tmp_path / "new.csv", [NEW[:50], NEW[50:]]):
            same(want, one.update(new))
        same(want, one.update(NEW, executor=2))
        same(want, nm.load(one.save(tmp_path / "fit.npz")).update(NEW))
        again = nm.load(want.save(tmp_path / "more.npz"))
        same(want, again)
        same(want.update(TEST), again.update(TEST))
        np.testing.assert_array_equal(want.log_density(TEST), again.log_density(TEST))
    assert streamed.update(NEW).elbo == pytest.approx(fit.update(NEW).elbo, abs=5.0)


def test_fits_whose_rows_are_gone(tmp_path):
    OLD.to_csv(tmp_path / "gone.csv", index=False)
    nm.fit(FORMULA, tmp_path / "gone.csv", method=METHOD, rng=1).save(tmp_path / "fit.npz")
    (tmp_path / "gone.csv").unlink()
    more = nm.load(tmp_path / "fit.npz").update(NEW)
    assert more.model.n_obs == 700
    with pytest.raises(ValueError, match="the rows that were fitted cannot be found: give them as newdata="):
        more.log_density()


@pytest.mark.parametrize(("formula", "options"), by_turns([
    ("y ~ x", {}), ("y ~ g", {}), ("y + t ~ x", {}), ("y ~ x + g", {"family": {"y": nm.Regression("0 + x")}}),
    ("y ~ x", {"family": nm.Regression("1 + x", shrinkage=None)}), ("y ~ x", {"kernel": nm.Laplace(0.1)}),
    ("k ~ x + g", {"family": nm.Poisson()}), ("y ~ x + t", {"family": nm.Hurdle(nm.Regression("1 + t"))}),
], 4, 3), ids=str)
def test_other_models(formula, options, tmp_path):
    least = 0.0 if "Hurdle" in str(options) else -np.inf
    old, new = (one.assign(k=np.round(np.exp(one["y"])), y=one["y"].clip(lower=least)) for one in (OLD, NEW))
    first = nm.fit(formula, old, method=METHOD, rng=1, **options)
    more = first.update(new)
    same(more, nm.load(more.save(tmp_path / "more.npz")))
    assert more.log_density(new).mean() > first.log_density(new).mean() - 0.02


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*quartile ranges away.*")
def test_what_was_left_out_of_the_first_rows_stays_out(tmp_path):
    wild = OLD.copy()
    wild.loc[3, "x"], wild.loc[4, "y"] = 999.0, -500.0
    more = nm.fit(FORMULA, wild, method=METHOD, rng=1).update(NEW)
    same(more, nm.load(more.save(tmp_path / "more.npz")))
    assert np.median(np.abs(more.predict(TEST)["estimate"] - np.sin(2 * TEST["x"]) - 1.5 * (TEST["g"] == "a"))) < 0.3  # noise of 0.4 or so


METHODS = [
    *(pytest.param(name, marks=pytest.mark.nightly) for name in ("vb", "stochastic_vb")),
    nm.StochasticVB(starts=1, passes=3), nm.VB(starts=2, combine="best"), nm.MemoizedVB(starts=2, combine="equal"),
]


@pytest.mark.parametrize("method", by_turns(METHODS), ids=str)
def test_every_method(method):
    first = nm.fit(FORMULA, OLD, method=method, rng=1)
    more = first.update(NEW.head(30)).update([NEW[30:200], NEW[200:]])
    assert more.model.n_obs == 700 and more.starts["weight"].sum() == pytest.approx(1)
    if getattr(method, "combine", "") == "best":
        assert more.elbo == more.starts["elbo"].max()


@pytest.mark.nightly
def test_batches_that_keep_coming(fit):
    """Rows of a new place are taken up by components that had none."""
    kept = fit
    for t in range(4):
        rng = np.random.default_rng(t)
        batch = pd.DataFrame({"x": rng.uniform(1, 2, 100), "t": rng.uniform(1, 2, 100), "g": "b"})
        kept = kept.update(batch.assign(y=8 + 0.1 * rng.standard_normal(100)))
    at = pd.DataFrame({"x": [1.5, -1.0], "t": [1.5, -1.0], "g": "b"})
    before, after = (one.predict(at)["estimate"].to_numpy() for one in (fit, kept))
    assert kept.model.n_obs == 800 and after[0] > 6 > before[0] and after[1] == pytest.approx(before[1], abs=0.2)


def test_a_single_row_and_rows_of_one_place(fit):
    one = fit.update(NEW.head(1))
    assert one.model.n_obs == 401 and one.elbo == pytest.approx(fit.elbo + fit.log_density(NEW.head(1))[0], abs=3.0)
    assert fit.update([NEW.head(20).assign(x=0.5, t=0.0, g="a")]).model.n_obs == 420


def test_new_rows_that_cannot_be_used(fit, streamed):
    for one in (fit, streamed):
        for new in (NEW.head(9).assign(g="z"), [NEW.head(9).assign(g="z")]):
            with pytest.raises(ValueError, match=r"holds the level 'z'.*which the training data do not have"):
                one.update(new)
        with pytest.raises(ValueError, match="There is no column 't'"):
            one.update(NEW[["x", "g", "y"]])
        with pytest.raises(ValueError, match="there is no complete new row"):
            one.update([NEW.head(2).assign(x=np.nan)])
    with pytest.warns(UserWarning, match="1 of 9 new rows dropped: missing values"):
        assert fit.update(NEW.head(9).assign(t=[np.nan, *NEW["t"][1:9]])).model.n_obs == 408
    with pytest.raises(ValueError, match="executor must be None"):
        fit.update(NEW, executor="fork")
    with pytest.raises(ValueError, match=r"SquaredExponential.* of several covariates goes by the distinct rows.*nm.SparseProduct"):
        nm.fit("y ~ x + t", OLD, kernel=nm.SquaredExponential(0.2), method=METHOD, rng=1).update(NEW)


def test_says_which_rows_lie_beyond_the_first(fit, streamed):
    for one in (fit, streamed):
        with pytest.warns(UserWarning, match=r"covariate 'x' of 2 new rows lies beyond the -2 to 2 of the rows before.*as at that edge"):
            one.update(NEW.assign(x=[3.0, -5.0, *NEW["x"][2:]]))


def test_a_fit_without_sums_says_so(streamed, tmp_path):
    alone = nm.load(streamed.save(tmp_path / "fit.npz"))
    alone._outcome = alone._outcome._replace(sums=())
    with pytest.raises(ValueError, match="saved without the sums over its rows"):
        alone.update(NEW)
