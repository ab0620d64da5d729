"""Diagnostics against processes with known autocorrelation, direct sums and reference values."""

import doctest

import numpy as np
import pytest
from scipy import special, stats
from scipy.signal import lfilter

from nrmmix.posterior import diagnostics as dx

KINDS = ("bulk", "tail", "mean", "raw")


@pytest.fixture
def rng():
    return np.random.default_rng(20250101)


def ar1(chains, draws, rho, rng):
    """Stationary first-order autoregression: autocorrelations rho^k, so τ = (1 + rho) / (1 - rho)."""
    noise = rng.normal(size=(chains, draws))
    noise[:, 0] /= np.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise, axis=1)


def waves(chains, draws):
    """Chains that need no random generator."""
    c = np.arange(chains)[:, None]
    t = np.arange(draws)[None, :]
    return np.sin(0.3 * c) + 0.5 * np.sin(0.2 * t + c) + np.sin((c + 1.0) * t**1.5)


# ------------------------------------------------------------------------------------------- autocorrelation


def test_autocorrelation_is_the_centred_sum(rng):
    x = 1e6 + rng.normal(size=(3, 57))
    found = dx.autocorrelation(x, 56)
    assert found.shape == (3, 57)
    for row, chain in zip(found, x - x.mean(axis=1, keepdims=True), strict=True):
        for lag in range(57):
            direct = np.sum(chain[: 57 - lag] * chain[lag:]) / np.sum(chain**2)
            # Values near 10^6 are stored to 1e-10.
            assert row[lag] == pytest.approx(direct, abs=1e-8)


def test_autocorrelation_of_ar1_decays_geometrically(rng):
    n, rho = 100_000, 0.8
    found = dx.autocorrelation(ar1(1, n, rho, rng), 10)[0]
    # Bartlett: the variance of an estimate is at most (1 + rho²) / (1 - rho²) / n.
    error = np.sqrt((1 + rho**2) / (1 - rho**2) / n)
    assert np.abs(found - rho ** np.arange(11)).max() < 4 * error


def test_autocorrelation_lags(rng):
    x = rng.normal(size=(2, 30))
    whole = dx.autocorrelation(x, 29)
    np.testing.assert_array_equal(dx.autocorrelation(x, [3, 0, 7]), whole[:, [3, 0, 7]])
    np.testing.assert_array_equal(dx.autocorrelation(x), whole)
    assert dx.autocorrelation(rng.normal(size=(1, 500))).shape == (1, 101)
    beyond = dx.autocorrelation(x, 31)
    assert np.isnan(beyond[:, 30:]).all() and np.isfinite(beyond[:, :30]).all()
    for lags in (-1, [1, -2], [], [0.5], [[1]]):
        with pytest.raises(ValueError, match="lags"):
            dx.autocorrelation(x, lags)


def test_autocorrelation_of_constant_and_of_very_different_chains(rng):
    x = rng.normal(size=(3, 40))
    x[1] = 0.1
    found = dx.autocorrelation(x, 5)
    assert np.isnan(found[1]).all() and np.isfinite(found[[0, 2]]).all()
    x[1] = 1e-200 * x[0]
    np.testing.assert_allclose(dx.autocorrelation(x, 5)[1], found[0], atol=1e-12)


# ------------------------------------------------------------------------------------------------ known time


@pytest.mark.parametrize("shape", [(1, 20_000), (4, 5_000)])
@pytest.mark.parametrize("rho", [-0.6, 0.0, 0.5, 0.9])
def test_iact_of_ar1(rho, shape):
    truth = (1 + rho) / (1 - rho)
    found = np.array([dx.iact(ar1(*shape, rho, np.random.default_rng([7, k]))) for k in range(25)])
    # Four standard errors of the mean of 25, and half a standard deviation for the bias of stopping the sum
    # where the estimates stop being positive.
    assert abs(found.mean() - truth) < (4 / np.sqrt(25) + 0.5) * found.std(ddof=1)


def test_iact_is_not_that_of_an_uncentred_series(rng):
    x = rng.normal(size=(4, 2000))
    assert dx.iact(x + 1e4) == pytest.approx(dx.iact(x), rel=1e-6)
    assert dx.iact(1e-170 * x) == pytest.approx(dx.iact(x), rel=1e-12)


def test_raw_ess_is_draws_over_iact(rng):
    x = ar1(3, 800, 0.7, rng)
    assert dx.ess(x, "raw") == pytest.approx(x.size / dx.iact(x), rel=1e-12)


def test_ess_of_independent_draws():
    found = np.array(
        [
            [dx.ess(np.random.default_rng([3, k]).normal(size=(4, 1000)), kind) for kind in KINDS]
            for k in range(25)
        ]
    )
    error = found.std(axis=0, ddof=1)
    assert (np.abs(found.mean(axis=0) - 4000) < (4 / np.sqrt(25) + 0.5) * error).all()
    assert (error < 400).all()


def test_bulk_ess_does_not_depend_on_the_scale(rng):
    x = ar1(4, 500, 0.5, rng)
    assert dx.ess(np.exp(5 * x), "bulk") == pytest.approx(dx.ess(x, "bulk"), rel=1e-12)
    assert dx.rhat(x) == pytest.approx(dx.rhat(3 - 2 * x), rel=1e-12)


def test_tail_ess_of_discrete_draws_with_a_full_upper_tail(rng):
    # More than 5% of the draws are at the maximum, so that "up to the 95% quantile" holds for all of them.
    x = rng.integers(0, 3, size=(4, 1000))
    assert 2500 < dx.ess(x, "tail") < 6000


def test_mcse_is_the_spread_of_means():
    scores = []
    for k in range(400):
        x = ar1(4, 1000, 0.6, np.random.default_rng([11, k]))
        scores.append(x.mean() / dx.mcse(x))
    # The standard deviation of 400 nearly normal scores has standard error 1/sqrt(800).
    assert abs(np.std(scores) - 1) < 4 / np.sqrt(800)


# -------------------------------------------------------------------------------------------------- R-hat


def test_rhat_of_chains_that_agree():
    found = [dx.rhat(np.random.default_rng([5, k]).normal(size=(4, 1000))) for k in range(50)]
    assert max(found) < 1.01


def test_rhat_and_ess_see_shifted_means(rng):
    x = rng.normal(size=(4, 1000))
    x[3] += 2
    assert dx.rhat(x) > 1.2
    assert dx.ess(x) < 50
    assert dx.iact(x) > 50


def test_rhat_sees_different_spreads(rng):
    x = rng.normal(size=(4, 1000)) * np.array([1.0, 1.0, 1.0, 5.0])[:, None]
    assert dx.rhat(x) > 1.1
    # Means agree: only the folded draws show it.
    z = special.ndtri((stats.rankdata(x).reshape(8, 500) - 0.375) / (x.size + 0.25))
    within, between = z.var(axis=1, ddof=1).mean(), z.mean(axis=1).var(ddof=1)
    assert np.sqrt(499 / 500 + between / within) < 1.01


def test_rhat_of_one_chain_sees_a_drift(rng):
    x = rng.normal(size=1000)
    assert dx.rhat(x) < 1.02
    assert dx.rhat(x + np.linspace(0, 3, 1000)) > 1.3


def test_rhat_of_stuck_chains_is_infinite():
    x = np.repeat([[0.1], [0.7], [0.3]], 50, axis=1)
    assert dx.rhat(x) == np.inf
    assert dx.ess(x) < 6


def test_two_valued_draws_stay_finite(rng):
    x = rng.permuted(np.repeat([[0, 1]], 500, axis=0).reshape(4, 250), axis=1)
    assert np.isfinite(dx.rhat(x)) and np.isfinite(dx.ess(x, "tail"))


# ---------------------------------------------------------------------------------------- reference values


@pytest.mark.parametrize(
    ("x", "bulk", "tail", "mean", "raw", "rhat", "mcse"),
    [
        (waves(4, 250), 203.48710154902534, 312.16641112266717, 221.52914026206537, 203.61541636383862,
         1.0675143870724655, 0.0569938556346742),
        (waves(2, 101), 73.19967375268727, 129.9326994181226, 81.27054001421625, 74.69601038753235,
         1.006429453881706, 0.0896647289565329),
        (waves(3, 9), 33.12506980107854, 33.12506980107854, 33.12506980107854, 38.64682163229266,
         1.0367386767964157, 0.12717666282435489),
        (np.round(3 * waves(4, 250)), 210.71530407270413, 328.92137334695184, 227.51319333690284,
         208.85753239074342, 1.0651673041941916, 0.16961179448023533),
    ],
    ids=["four", "odd", "short", "ties"],
)  # fmt: skip
def test_values_of_arviz_stats(x, bulk, tail, mean, raw, rhat, mcse):
    """Computed with arviz-stats 0.8.0 (raw is its method "identity")."""
    found = [dx.ess(x, kind) for kind in KINDS] + [dx.rhat(x), dx.mcse(x)]
    np.testing.assert_allclose(found, [bulk, tail, mean, raw, rhat, mcse], rtol=1e-8)


# ----------------------------------------------------------------------------------------- limits and errors

SCALARS = [dx.iact, dx.rhat, dx.mcse] + [lambda x, kind=kind: dx.ess(x, kind) for kind in KINDS]


@pytest.mark.parametrize("function", SCALARS)
@pytest.mark.parametrize("chains", [1, 4])
def test_short_chains_give_nan(function, chains, rng):
    for draws in range(4):
        assert np.isnan(function(rng.normal(size=(chains, draws))))
    for draws in range(4, 12):
        assert not np.isnan(function(rng.normal(size=(chains, draws))))


@pytest.mark.parametrize("function", SCALARS)
def test_constant_draws_give_nan(function):
    for value in (0.0, 0.1, -1e300):
        assert np.isnan(function(np.full((4, 100), value)))


@pytest.mark.parametrize("function", SCALARS)
def test_a_single_odd_draw_in_the_middle(function):
    """It is left out when the chain is split: what remains is constant. No exception, no warning."""
    x = np.zeros((1, 9))
    x[0, 4] = 1
    value = function(x)
    assert np.isnan(value) or value > 0


@pytest.mark.parametrize("function", [dx.autocorrelation, *SCALARS])
def test_bad_draws_are_refused(function, rng):
    x = rng.normal(size=(2, 20))
    for bad in (np.nan, np.inf):
        x[1, 3] = bad
        with pytest.raises(ValueError, match="NaN or infinity"):
            function(x)
    for shape in ((2, 20, 2), (), (0, 20)):
        with pytest.raises(ValueError, match="axes"):
            function(np.zeros(shape))


def test_unknown_kind(rng):
    with pytest.raises(ValueError, match="'bulk', 'tail', 'mean' or 'raw'"):
        dx.ess(rng.normal(size=(2, 20)), "median")


def test_examples_run():
    assert doctest.testmod(dx).failed == 0


def test_arguments_are_left_alone(rng):
    x = rng.normal(size=(4, 100))
    x.flags.writeable = False
    copy = x.copy()
    dx.table({"x": x})
    dx.autocorrelation(x)
    np.testing.assert_array_equal(x, copy)


# -------------------------------------------------------------------------------------------------- table


def test_table(rng):
    x = ar1(4, 500, 0.5, rng)
    count = rng.integers(2, 6, size=(4, 500))
    found = dx.table({"mass": x, "sigma": np.full((4, 500), 0.25), "n_clusters": count})
    assert list(found.columns) == ["mean", "sd", "q5", "q95", "ess", "ess_tail", "rhat", "mcse", "iact"]
    assert list(found.index) == ["mass", "sigma", "n_clusters"]
    assert (found.dtypes == np.float64).all()
    expected = [x.mean(), x.std(ddof=1), *np.quantile(x, (0.05, 0.95)), dx.ess(x), dx.ess(x, "tail")]
    np.testing.assert_allclose(found.loc["mass"], [*expected, dx.rhat(x), dx.mcse(x), dx.iact(x)], rtol=1e-12)
    assert found.loc["sigma", "mean"] == 0.25
    assert found.loc["sigma"].drop("mean").isna().all()
    assert found.loc["n_clusters"].notna().all()


def test_table_of_short_draws(rng):
    found = dx.table({"x": rng.normal(size=(2, 3)), "none": np.empty((2, 0)), "one": [[1.5]]})
    assert found.loc["x", ["mean", "sd", "q5", "q95"]].notna().all()
    assert found.loc["x", ["ess", "ess_tail", "rhat", "mcse", "iact"]].isna().all()
    assert found.loc["none"].isna().all()
    assert found.loc["one", "mean"] == 1.5
    assert dx.table({}).shape == (0, 9)


def test_table_names_what_is_wrong():
    with pytest.raises(ValueError, match="'mass'"):
        dx.table({"mass": np.array([[1.0, np.nan]])})
