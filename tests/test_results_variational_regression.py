"""Variational fits of density regressions as users meet them."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from support.cover import by_turns

import nrmmix as nm
from nrmmix.inference.variational_regression.combine import stacked
from nrmmix.inference.variational_regression.spread import spread

MCYCLE = nm.datasets.load_mcycle()


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"x": rng.uniform(-2, 2, 300), "t": rng.standard_normal(300), "g": rng.choice(list("abc"), 300)})
    mean = np.sin(2 * data["x"]) + np.where(data["g"] == "a", 1.5, 0)
    return data.assign(y=mean + np.where(data["x"] > 0, 0.4, 0.1) * rng.standard_normal(300))


@pytest.fixture(scope="module")
def fit(table):
    return nm.fit("y ~ x + t + g", table, method=nm.VB(starts=3), rng=1)


def test_finds_what_is_there(table, fit):
    new = pd.DataFrame({"x": [1.0, 1.0, -1.0], "t": 0.0, "g": ["a", "b", "b"]})
    truth = np.sin(2 * new["x"]) + np.where(new["g"] == "a", 1.5, 0)
    np.testing.assert_allclose(fit.predict(new)["estimate"], truth, atol=0.3)  # the noise has an sd of 0.4
    width = np.diff(fit.predict(new, kind="quantile", q=[0.05, 0.95])["estimate"].to_numpy().reshape(3, 2), axis=1).ravel()
    assert width[2] < 0.5 * width[0], "the spread changes with x"
    use = fit.importance(draws=20, rows=20)
    assert use.loc["x", "use"] > 0.8 > 0.3 > use.loc["t", "use"]
    assert use.loc["t", "effect"] < 0.2 * use.loc["x", "effect"]
    assert fit.has_converged and fit.starts["weight"].sum() == pytest.approx(1)
    assert fit.elbo == pytest.approx((fit.starts["weight"] * fit.starts["elbo"]).sum())
    assert (np.diff(fit.passes["elbo"]) > -1e-6).all()


def test_bands_and_draws_agree_with_the_estimate(fit):
    new = pd.DataFrame({"x": [0.5], "t": [0.0], "g": ["b"]})
    found = fit.predict(new, draws=300).iloc[0]
    assert found["lower"] < found["estimate"] < found["upper"]
    simulated = fit.simulate(pd.concat([new] * 200), draws=20, rng=1)["y"]
    assert simulated.mean() == pytest.approx(found["estimate"], abs=5 * simulated.std() / np.sqrt(20))


def test_is_the_same_again_and_from_a_file(table, fit, tmp_path):
    again = nm.fit("y ~ x + t + g", table, method=nm.VB(starts=3), rng=1)
    np.testing.assert_array_equal(again.log_density(), fit.log_density())
    fit.save(tmp_path / "fit.npz")
    for other in (nm.load(tmp_path / "fit.npz"), pickle.loads(pickle.dumps(fit))):
        np.testing.assert_array_equal(other.log_density(), fit.log_density())
        np.testing.assert_array_equal(other.labels, fit.labels)
        pd.testing.assert_frame_equal(other.starts, fit.starts)
        pd.testing.assert_frame_equal(other.passes, fit.passes)
        assert str(other.summary()) == str(fit.summary())


@pytest.mark.parametrize("executor", by_turns(["threads", 2], 2, 1))
def test_threads_change_no_bit(table, executor):
    fits = [
        nm.fit("y ~ x + t + g", table, method=nm.MemoizedVB(starts=1, batches=4, round_size=2, executor=one), rng=1)
        for one in (None, executor)
    ]
    assert fits[0].elbo == fits[1].elbo and fits[0].method == "memoized_vb"
    np.testing.assert_array_equal(*(one.log_density() for one in fits))


@pytest.mark.nightly
def test_memoized_is_near_the_full_one(table, fit):
    found = nm.fit("y ~ x + t + g", table, method=nm.MemoizedVB(starts=3, batches=5), rng=1)
    assert found.log_density().mean() == pytest.approx(fit.log_density().mean(), abs=0.1)


def test_ways_to_combine(table, fit):
    equal = nm.fit("y ~ x + t + g", table, method=nm.VB(starts=3, combine="equal"), rng=1)
    best = nm.fit("y ~ x + t + g", table, method=nm.VB(starts=3, combine="best"), rng=1)
    assert equal.starts["weight"].tolist() == [1 / 3] * 3 and best.elbo == fit.starts["elbo"].max()
    assert not np.allclose(equal.log_density(), best.log_density())


def test_stacking_maximises_the_mean_log_density():
    rng = np.random.default_rng(1)
    log_density = np.log(rng.gamma(1.0, size=(500, 3)) * [1.0, 1.2, 0.3])
    found = stacked(log_density)
    value = lambda w: np.log(np.exp(log_density) @ w).mean()  # noqa: E731
    for _ in range(200):
        other = found + 0.02 * rng.standard_normal(3)
        if (other >= 0).all():
            assert value(other / other.sum()) <= value(found) + 1e-9


@pytest.mark.parametrize("passes", by_turns([1, 3, 10], 3, 1))
def test_a_row_takes_no_more_from_a_component_than_it_has_put_there(passes):
    """Rows far out in the covariates that have just moved: taken from older sums they would leave no positive definite matrix."""
    rng = np.random.default_rng(0 if passes < 10 else 2)
    x, z = rng.standard_t(1.5, 80), rng.standard_t(1.5, 80)
    data = {"x": x, "z": z, "y": 0.1 * x**2 + np.abs(z) + 0.05 * rng.normal(size=80)}
    family = nm.Regression("1 + x + z + square(x) + square(z) + x:z")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of values far from all others
        fit = nm.fit("y ~ x + z", data, family=family, method=nm.VB(starts=3, passes=passes), rng=0 if passes < 10 else 2)
    assert fit.starts["weight"].sum() == pytest.approx(1) and (fit.starts["weight"] >= 0).all()


@pytest.mark.nightly
def test_mixtures_in_a_covariate_of_one_number():
    fit = nm.fit("accel_g ~ times_ms", MCYCLE, method=nm.VB(starts=2), rng=1)
    assert fit.predict({"times_ms": [20.0]})["estimate"].iloc[0] == pytest.approx(-104, abs=15)
    for kind in ("mean", "quantiles", "elbo", "responsibilities"):
        assert fit.plot(kind) is not None


@pytest.mark.parametrize("half", [1.0, 2.0])
def test_two_modes_all_along_a_covariate_are_found(half):
    """Two lines a few standard deviations apart, half of the rows each: no cut of the covariate tells them apart."""
    rng = np.random.default_rng(0)
    x, side = rng.uniform(0, 1, 300), half * rng.choice([-1, 1], 300)
    fit = nm.fit("y ~ x", {"x": x, "y": 3 * x + side + rng.normal(0, 0.3, 300)}, method=nm.VB(starts=2), rng=1)
    y = 1.5 + np.array([-half, 0.0, half])
    density = fit.predict(pd.DataFrame({"x": [0.5]}), kind="density", at=y)["estimate"].to_numpy()
    truth = norm(y[[0, 2]], 0.3).pdf(y[:, None]).mean(axis=1)
    assert density == pytest.approx(truth, abs=0.15)


@pytest.mark.parametrize("beside", ["a factor", "a factor, in one level", "a number"])
def test_two_modes_are_found_beside_another_covariate(beside):
    """Shrinkage learnt from one wide component kept the levels of further ones together."""
    rng = np.random.default_rng(0)
    x, side, sd = rng.uniform(0, 1, (2, 600)), rng.choice([-1.0, 1.0], 600), 0.15
    g = rng.choice(["a", "b"], 600)
    data = {"x": x[0], "g": x[1] if beside == "a number" else g}
    wide = np.where(g == "a", 1.0, 0.0) if beside == "a factor, in one level" else np.ones(600)
    line = 0.5 * x[0] - (x[1] if beside == "a number" else 0.0)
    table = pd.DataFrame(data | {"y": line + wide * side + rng.normal(0, sd, 600)})
    fit = nm.fit("y ~ x + g", table[:300], method=nm.VB(starts=2), rng=1)
    centres = (line + np.array([[-1.0], [1.0]]) * wide)[:, 300:]
    law = np.log(norm(centres, sd).pdf(table["y"][300:].to_numpy()).mean(axis=0))
    assert np.mean(fit.log_density(table[300:])) == pytest.approx(law.mean(), abs=0.15)  # one wide component is 0.6 below


def test_warns_where_components_are_used_up():
    with pytest.warns(UserWarning, match="nearly all of the 4 components have rows.*components=8"):
        nm.fit("accel_g ~ times_ms", MCYCLE, method=nm.VB(starts=1, components=4), rng=1)


def test_auto_says_where_it_would_be_quicker():
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"x": rng.integers(50, size=20_000), "y": rng.standard_normal(20_000)})
    with pytest.warns(UserWarning, match='chains of 20,000 rows take long to agree; method="vb"'):
        nm.fit("y ~ x", data, draws=1, tune=0, chains=1, rng=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nm.fit("y ~ x", data, method="gibbs", draws=1, tune=0, chains=1, rng=1)


def test_stops_in_time_with_what_is_there(table):
    fit = nm.fit("y ~ x + t + g", table, method=nm.VB(starts=50, tol=1e-12, passes=10_000), rng=1, time_limit=2.0)
    assert fit.interrupted and not fit.has_converged and 1 <= len(fit.starts) < 50
    assert "Stopped before" in str(fit.summary())
    assert np.isfinite(fit.log_density()).all()


@pytest.mark.parametrize(("options", "message"), [
    ({"method": "stochastic_vb", "prior": nm.NGGP()}, "gamma weights of nm.DirichletProcess.*those of NGGP have no"),
    ({"method": "vb", "prior": nm.NGGP()}, "gamma weights of nm.DirichletProcess.*those of NGGP have no"),
    ({"method": "vb", "prior": nm.FiniteMixture(5), "of": nm.VB(components=6)}, "components=6, and .*has 5"),
    ({"method": "vb", "kernel": nm.Box(0.3)}, "is 0 beyond its width"),
    ({"method": "vb", "kernel": nm.SquaredExponential(nm.LogNormal(-2, 1))}, "is sampled, which has no factor"),
    ({"method": "vb", "family": nm.SemiconjugateGaussian()}, "not integrated out"),
    ({"method": "vb", "init": "each"}, "starts from cuts"),
    ({"method": "vb", "draws": 10}, "draws belongs to chains"),
    ({"of": nm.MemoizedVB(merges="greedy")}, "greedy merges are of mixtures; density regression has merges=True"),
    ({"of": nm.VB(components=10**5)}, "components=100000 for 133 rows"),
])
def test_bad_input(options, message):
    options = dict(options)
    method = options.pop("of", options.pop("method", None))
    options.pop("method", None)
    with pytest.raises(ValueError, match=message):
        nm.fit("accel_g ~ times_ms", MCYCLE, method=method, **options)


def test_bad_options():
    with pytest.raises(ValueError, match="combine must be one of"):
        nm.VB(combine="mean")
    with pytest.raises(ValueError, match="starts must be"):
        nm.VB(starts=0)
    with pytest.raises(ValueError, match="starts= are of density regression"):
        nm.fit("accel_g ~ 1", MCYCLE, method=nm.VB(starts=2))


def test_factor_of_many_levels():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"g": [f"level {k}" for k in rng.integers(60, size=400)], "t": rng.standard_normal(400)})
    data["y"] = data["t"] + 0.1 * rng.standard_normal(400)
    fit = nm.fit("y ~ g + t", data, method=nm.VB(starts=1), rng=1)
    assert fit.predict(pd.DataFrame({"g": ["level 3"], "t": [1.0]}))["estimate"].iloc[0] == pytest.approx(1.0, abs=0.15)


# ---- chains that start there

@pytest.mark.parametrize("options", [{"components": 1}, {"components": 5, "batches": 40}, {"components": 40}], ids=str)
@pytest.mark.filterwarnings("ignore:nearly all of the")
def test_moves_of_the_smallest_fits(table, options):
    fit = nm.fit("y ~ x + t", table.head(40), method=nm.MemoizedVB(births=True, merges=True, starts=1, passes=8, **options), rng=1)
    assert np.isfinite(fit.log_density()).all() and (np.diff(fit.passes["elbo"]) > -1e-6).all()
    assert {"merged", "born", "tried", "kept"} <= set(fit.passes)


def test_compact_kernels_of_a_product_have_a_floor(table):
    fit = nm.fit("y ~ x + t", table, kernel=nm.SparseProduct({"x": nm.Box(0.2)}), method=nm.VB(starts=1, passes=5), rng=1)
    assert np.isfinite(fit.elbo) and np.isfinite(fit.log_density(table.head(20).assign(x=5.0))).all()


def test_chains_start_from_fits(table, fit):
    chains = nm.fit("y ~ x + t + g", table, init=fit, draws=5, tune=0, chains=4, rng=1)
    away = nm.fit("y ~ x + t + g", table, init="sequential", draws=5, tune=0, chains=4, rng=1)
    assert chains.draws["log_joint"][:, 0].mean() > away.draws["log_joint"][:, 0].mean() + 50
    other = nm.fit("y ~ x + t + g", table, method=nm.VB(starts=1), rng=2)
    nm.fit("y ~ x + t + g", table, init=[fit, other], draws=2, tune=0, chains=4, rng=1)
    with pytest.raises(ValueError, match="the fit is of 300 rows, and there are 299"):
        nm.fit("y ~ x + t + g", table.iloc[1:], init=fit, draws=2, tune=0, rng=1)


@pytest.mark.nightly
def test_default_start_is_spread(table):
    fits = [nm.fit("y ~ x + t + g", table, draws=2, tune=0, chains=3, rng=1, **more) for more in ({}, {"init": "spread"})]
    np.testing.assert_array_equal(*(one.draws["labels"] for one in fits))
    assert len({one.tobytes() for one in fits[0].draws["labels"][:, 0]}) == 3, "each chain its own"


def test_spread_suits_any_prior_and_many_rows():
    rng = np.random.default_rng(3)
    data = pd.DataFrame(rng.standard_normal((2500, 2)), columns=["a", "b"]).assign(y=lambda one: np.abs(one["a"]))
    found = spread(nm.Model("y ~ a + b", data, prior=nm.NGGP()), 2, np.random.SeedSequence(1))
    for labels, codes in found:
        assert labels.shape == (2500,) and labels[0] == 0 and codes.shape == (labels.max() + 1, 2)
    assert spread(nm.Model("y ~ a", data), 2, np.random.SeedSequence(1)) is None
    assert spread(nm.Model("y ~ a + b", data.head(20)), 2, np.random.SeedSequence(1)) is None
