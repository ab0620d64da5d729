"""Bands beyond the data, in gaps, at levels with few rows, and given what is far: they widen, and the estimate lies inside them."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns, only

import nrmmix as nm
from nrmmix.posterior.predict.functionals import with_band

RUN = {"draws": 120, "tune": 120, "chains": 2, "rng": 1}
PRIORS = {
    "gamma": nm.DirichletProcess(), "NGGP": nm.NGGP(), "NIG": nm.NormalizedInverseGaussian(), "Pitman-Yor": nm.PitmanYor(1.0, 0.3),
    "finite": nm.FiniteMixture(20),
}


@pytest.fixture(scope="module")
def two_stretches():
    """A line of slope 2 over two stretches of x."""
    rng = np.random.default_rng(0)
    x = np.r_[rng.uniform(0, 1, 60), rng.uniform(4, 5, 60)]
    return pd.DataFrame({"x": x, "y": 2 * x + rng.normal(0, 0.2, 120)})


def checked(table):
    """The widths of bands, all of which hold their estimates."""
    assert np.isfinite(table.to_numpy()).all()
    assert (table["lower"] <= table["estimate"]).all() and (table["estimate"] <= table["upper"]).all()
    return (table["upper"] - table["lower"]).to_numpy()


@pytest.mark.parametrize("prior", by_turns(PRIORS, 5, 1))
def test_bands_widen_with_the_distance(two_stretches, prior):
    """Of means of lines; the prior mean, where bands ended before, is an end of none."""
    fit = nm.fit("y ~ x", two_stretches, prior=PRIORS[prior], **RUN)
    x = [0.5, 4.5, 8.0, 20.0, 50.0, 1000.0]
    band = fit.predict({"x": x}, draws=240)
    width = checked(band)
    assert (np.diff(width[1:]) > 0).all() and width[2] > 3 * width[:2].max()
    assert width[4] > 20 and width[5] > 10 * width[4]
    assert len(np.unique(np.round(band[["lower", "upper"]].to_numpy(), 6))) == 12


def test_bands_widen_in_a_gap(two_stretches):
    """Between two lines of which neither goes on as the other."""
    table = two_stretches.assign(y=two_stretches["y"].where(two_stretches["x"] < 2, 30 - 4 * two_stretches["x"]))
    width = checked(nm.fit("y ~ x", table, **RUN).predict({"x": [0.5, 2.0, 2.5, 3.0, 4.5]}, draws=240))
    assert width[1:4].max() > 5 * max(width[0], width[4])


@pytest.mark.parametrize("family", by_turns([nm.Gaussian(), nm.Gaussian(m=5.0, r=0.05, nu=4.0, scale=0.2)]))
def test_constant_components_have_the_spread_of_the_prior_far_away(two_stretches, family):
    fit = nm.fit("y ~ x", two_stretches, family=family, kernel=nm.SquaredExponential(0.1), **RUN)
    width = checked(fit.predict({"x": [0.5, 8.0, 50.0, 1e4]}, draws=240))
    assert (width[2:] > 3 * width[0]).all()


@pytest.fixture(scope="module")
def of_two_methods(two_stretches):
    return nm.fit("y ~ x", two_stretches, **RUN), nm.fit("y ~ x", two_stretches, method="vb", rng=1)


@pytest.mark.parametrize(("kind", "options"), by_turns([
    ("mean", {}), ("quantile", {"q": [0.001, 0.1, 0.5, 0.999]}), ("density", {"at": [-50.0, 0.0, 5.0, 40.0]}),
    ("cdf", {"at": [-50.0, 0.0, 5.0, 40.0]}), ("exceedance", {"at": [-50.0, 0.0, 5.0, 40.0]}),
], 5, 1))
def test_every_kind_holds_its_estimate(of_two_methods, kind, options):
    """At rows too, and in differences; with few draws, of which an estimate is hardly ever between the extremes of quantiles."""
    for fit in of_two_methods:
        for draws in (3, 100):
            width = checked(fit.predict({"x": [0.5, 2.5, 8.0, 100.0]}, kind, draws=draws, **options))
            assert (width > 0).any()
        if kind in ("density", "cdf", "exceedance"):
            checked(fit.predict({"x": [0.5, 20.0], "y": [1.0, 40.0]}, kind, draws=20, **({"at": [3.0]} if kind == "exceedance" else {})))
        checked(fit.contrasts({"x": [0.5, 20.0]}, kind, draws=20, **options))


@pytest.mark.nightly
def test_several_covariates_and_a_level_with_few_rows():
    rng = np.random.default_rng(2)
    n = 160
    table = pd.DataFrame({"x": rng.uniform(0, 1, n), "z": rng.normal(size=n), "g": np.where(np.arange(n) < 3, "rare", "common")})
    table["y"] = np.sin(5 * table["x"]) + 0.5 * table["z"] + (table["g"] == "rare") + 0.2 * rng.normal(size=n)
    fit = nm.fit("y ~ x + z", table, **RUN)
    width = checked(fit.predict({"x": [0.5, 3.0, 30.0, 300.0], "z": [0.0, 0.0, 0.0, 0.0]}))
    assert (np.diff(width) > 0).all()
    width = checked(fit.predict({"x": [0.5, 3.0, 30.0], "z": [0.0, 10.0, 100.0]}))
    assert (np.diff(width) > 0).all()
    fit = nm.fit("y ~ x + g", table, **RUN)
    width = checked(fit.predict({"x": [0.5, 0.5], "g": ["common", "rare"]}))
    assert width[1] > 2 * width[0]


@pytest.mark.nightly
def test_several_responses(two_stretches):
    rng = np.random.default_rng(1)
    table = two_stretches.assign(k=rng.poisson(1 + two_stretches["x"]))
    fit = nm.fit("y + k ~ x", table, family={"y": nm.Regression("1 + x"), "k": nm.Poisson()}, **RUN)
    band = fit.predict({"x": [0.5, 8.0, 50.0, 500.0]})
    for name in ("y", "k"):
        width = checked(band.xs(name, level="response"))
        assert (width[1:] > 2 * width[0]).all() and (name == "k" or (np.diff(width) > 0).all())
    checked(fit.predict({"x": [0.5, 50.0]}, "quantile"))


@pytest.mark.nightly
def test_variational_density_regression(two_stretches):
    fit = nm.fit("y ~ x", two_stretches, method="vb", rng=1)
    width = checked(fit.predict({"x": [0.5, 4.5, 8.0, 20.0, 50.0]}))
    assert width[4] > width[2] > width[0] and width[3] > 0.5


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 150)
    a = 4 * z + rng.normal(size=150)
    return pd.DataFrame({"a": a, "b": 2 * a * (1 - z) - a * z + rng.normal(0, 0.5, 150), "k": rng.poisson(1 + 4 * z), "x": rng.random(150)})


@pytest.mark.parametrize("method", by_turns(["gibbs", "memoized_vb"]))
@pytest.mark.parametrize("prior", ["gamma", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("NGGP", "finite"))])
def test_given_what_is_far_away(pairs, method, prior):
    """Joint Gaussian components: the band of one response widens with the distance of the other, and does not end at its prior mean."""
    if method == "memoized_vb" and prior != "gamma":
        pytest.skip("variational mixtures are of Dirichlet processes")
    run = RUN if method == "gibbs" else {"rng": 1}
    fit = nm.fit("a + b ~ 1", pairs, method=method, prior=PRIORS[prior], **run)
    for far in ([4.0, 20.0, 60.0, 200.0], [0.0, -20.0, -60.0, -200.0]):
        width = checked(fit.predict({"a": far}, given="a", draws=240))
        assert (np.diff(width) > 0).all() and width[3] > 100
    for kind, options in (("quantile", {"q": [0.05, 0.9]}), ("cdf", {"at": [0.0, 30.0]}), ("density", {"at": [0.0, 30.0]})):
        checked(fit.predict({"a": [2.0, 60.0]}, kind, given="a", draws=60, **options))


@pytest.mark.parametrize("family", only(["blocks", "semiconjugate", "over x"], "over x"))
def test_given_in_other_models(pairs, family):
    if family == "over x":
        fit = nm.fit("a + b ~ x", pairs, family=nm.Gaussian(), **RUN)
        width = checked(fit.predict({"a": [0.0, 0.0, 60.0], "x": [0.5, 30.0, 30.0]}, given="a"))
        assert width[1] > width[0] and width[2] > 20
        return
    blocks = {"a + b": nm.Gaussian(), "k": nm.Poisson()} if family == "blocks" else {"a + b": nm.SemiconjugateGaussian(), "k": nm.Poisson()}
    fit = nm.fit("a + b + k ~ 1", pairs, family=blocks, **RUN)
    band = fit.predict({"a": [4.0, 60.0], "k": [5, 200]}, given=["a", "k"])
    width = checked(band)
    assert width[1] > width[0]
    checked(fit.predict({"b": [0.0, 60.0]}, given="b"))


@pytest.mark.nightly
def test_bands_are_the_same_with_threads(two_stretches, monkeypatch):
    from nrmmix.posterior.predict import functionals

    fit = nm.fit("y ~ x", two_stretches, **RUN)
    new = {"x": np.linspace(-10, 20, 40)}
    tables = []
    for worth in (0.0, 1e9):
        monkeypatch.setattr(functionals, "WORTH_THREADS", worth)
        tables.append(fit.predict(new, draws=100))
    pd.testing.assert_frame_equal(*tables, check_exact=True)


def test_band_reaches_to_an_estimate_outside():
    found = with_band(np.array([0.5, 3.0, -1.0]), np.zeros(3), np.ones(3), 100)
    np.testing.assert_array_equal(found, [[0.5, 0, 1], [3, 0, 3], [-1, -1, 1]])
    np.testing.assert_array_equal(with_band(np.array([0.5]), np.zeros(1), np.zeros(1), 1), [[0.5, 0, 0]])


def test_quantiles_are_where_the_distribution_function_has_their_probability():
    """Estimates are read off a few hundred points in each row; between them log odds are straight."""
    q = np.array([0.05, 0.1, 0.3, 0.5, 0.9])
    with warnings.catch_warnings(action="ignore"):
        fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=40, tune=40, chains=2, rng=1, progress=False)
    for x in (10.0, 20.0):
        at = fit.predict({"times_ms": [x]}, kind="quantile", q=q, draws=5)["estimate"].to_numpy()
        p = fit.predict({"times_ms": [x]}, kind="cdf", at=at, draws=5)["estimate"].to_numpy()
        assert np.abs(np.log(p / q * (1 - q) / (1 - p))).max() < 0.02
