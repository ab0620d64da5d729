"""The model: what it accepts, refuses and prints; priors, families, kernels and log_joint."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.model.log_joint import log_integral_over_u
from nrmmix.model.priors.grid import farthest_points


@pytest.fixture(scope="module")
def mcycle():
    return nm.datasets.load_mcycle()


def test_a_model_prints_before_anything_is_sampled(mcycle):
    text = str(nm.Model("accel_g ~ times_ms", mcycle, kernel=nm.Box(0.2), prior=nm.NGGP(1.5)))
    for part in ("density regression", "accel_g ~ times_ms", "133 rows", "NGGP(mass = 1.5, sigma ~ Beta(1, 2))", "Box(width = 0.2)",
                 "94 distinct values, 94 locations", "nu = 2", "Regression on Intercept, times_ms"):
        assert part in text
    text = str(nm.Model("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful()))
    assert "NRM mixture" in text and "eruptions_min, waiting_min" in text and "Wishart" in text


def test_dropped_rows_are_counted(mcycle):
    data = mcycle.copy()
    data.loc[[3, 5], "accel_g"] = np.nan
    with pytest.warns(UserWarning, match="2 of 133 rows dropped"):
        model = nm.Model("accel_g ~ times_ms", data)
    assert model.n_obs == 131 and "2 dropped" in str(model)
    with pytest.raises(ValueError, match="accel_g"):
        nm.Model("accel_g ~ times_ms", data, missing="raise")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"data": None}, "data is missing"),
        ({"formula": np.zeros((3, 2)), "data": None}, "the first argument, a formula, is ndarray; name the data, data="),
        ({"formula": "accel_g ~ tmes_ms"}, "times_ms"),
        ({"family": 3.5}, r"family must be an object such as nm.Gaussian\(\)"),
        ({"family": nm.Gaussian}, "family is the class Gaussian; make an object"),
        ({"prior": [1.0]}, "prior must be an object"),
        ({"prior": nm.Gamma(1, 1)}, "prior must be an object"),
        ({"kernel": 0.05}, "kernel must be an object"),
        ({"formula": "accel_g ~ 1", "kernel": nm.Box(0.2)}, "no covariates"),
        ({"kernel": nm.Box((0.2, 0.3))}, "2 widths for 1 covariates"),
        ({"kernel": nm.Box(0.2, locations=[[0.0, 1.0]])}, r"locations must have shape \(P, 1\)"),
        ({"kernel": nm.Box(0.2, locations=[np.nan])}, "locations must be finite"),
        ({"kernel": nm.Box(0.05, locations=[2.4, 57.6])}, "out of reach of every location of Box"),
    ],
)
def test_bad_arguments(mcycle, options, message):
    arguments = {"formula": "accel_g ~ times_ms", "data": mcycle} | options
    with pytest.raises(ValueError, match=message):
        nm.Model(arguments.pop("formula"), arguments.pop("data"), **arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nm.Gamma(0, 1), "Gamma: shape must be a finite number greater than 0, not 0"),
        (lambda: nm.Gamma(1, -1), "Gamma: rate"),
        (lambda: nm.Gamma(1, np.nan), "Gamma: rate"),
        (lambda: nm.Beta(1, np.inf), "Beta: b"),
        (lambda: nm.LogNormal(np.inf, 1), "LogNormal: mu"),
        (lambda: nm.LogNormal(0, 0), "LogNormal: sd"),
        (lambda: nm.DirichletProcess(0), r"DirichletProcess: mass must be a number in \(0, 1e\+12\)"),
        (lambda: nm.DirichletProcess(-1.0), "mass"),
        (lambda: nm.DirichletProcess(np.nan), "mass"),
        (lambda: nm.DirichletProcess(True), "mass"),
        (lambda: nm.DirichletProcess("1"), "mass"),
        (lambda: nm.DirichletProcess(nm.Beta(1, 1)), "mass cannot have a Beta prior; use a number or nm.Gamma or nm.LogNormal"),
        (lambda: nm.NGGP(1.0, 1.0), r"NGGP: sigma must be a number in \[0, 1\)"),
        (lambda: nm.NGGP(1.0, -0.1), "sigma"),
        (lambda: nm.NGGP(1.0, nm.Gamma(1, 1)), "sigma cannot have a Gamma prior"),
        (lambda: nm.NGGP(tau=0), "tau must be a finite number greater than 0"),
        (lambda: nm.PitmanYor(-0.3, 0.3), r"PitmanYor: mass must be a number greater than -sigma = -0.3 or a distribution"),
        (lambda: nm.PitmanYor(np.nan, 0.3), "mass must be a number greater than -sigma = -0.3"),
        (lambda: nm.PitmanYor(0.0, 0.0), r"PitmanYor: mass must be a number in \(0, 1e\+12\)"),
        (lambda: nm.PitmanYor(-0.1), "PitmanYor: mass must be a number of at least 0, where sigma has a prior.* needs a fixed sigma"),
        (lambda: nm.PitmanYor(1.0, 1.0), r"PitmanYor: sigma must be a number in \[0, 1\)"),
        (lambda: nm.PitmanYor(nm.Beta(1, 1), 0.2), "PitmanYor: mass cannot have a Beta prior"),
        (lambda: nm.PitmanYor(1e13, 0.2), "PitmanYor: mass must be a number in"),
        (lambda: nm.NormalizedStable(0.0), r"NormalizedStable: sigma must be a number in \(0, 1\)"),
        (lambda: nm.NormalizedStable(nm.Gamma(1, 1)), "sigma cannot have a Gamma prior"),
        (lambda: nm.FiniteMixture(0), "FiniteMixture: components must be an integer from 1 to 1000000, not 0"),
        (lambda: nm.FiniteMixture(True), "components must be an integer"),
        (lambda: nm.FiniteMixture(2.0), "components must be an integer"),
        (lambda: nm.FiniteMixture(10**6 + 1), "nm.DirichletProcess\\(mass\\) is the limit of many components"),
        (lambda: nm.FiniteMixture(3, 0.0), "FiniteMixture: mass must be a number"),
        (lambda: nm.NormalizedInverseGaussian(tau=-1), "tau"),
        (lambda: nm.Gaussian("diagonally"), 'covariance must be "full"'),
        (lambda: nm.Gaussian(r=0), "r must be a finite number greater than 0"),
        (lambda: nm.Gaussian(nu=-2), "nu must be"),
        (lambda: nm.SquaredExponential(0), "width must be a number"),
        (lambda: nm.SquaredExponential(-0.1), "width"),
        (lambda: nm.SquaredExponential(()), "width is empty"),
        (lambda: nm.SquaredExponential("wide"), "width"),
        (lambda: nm.SquaredExponential(0.1, scale="standard"), 'scale must be "unit" or None'),
        (lambda: nm.Box(), "width is needed"),
    ],
)
def test_bad_specifications(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("family", "message"),
    [
        (nm.Gaussian(m=[0, 0, 0]), r"m must have shape \(2,\)"),
        (nm.Gaussian(m=[0, np.inf]), "m must be finite"),
        (nm.Gaussian(nu=1.01), "nu = 1.01 is so near d - 1 = 1 that draws overflow; take 1.05 or more"),
        (nm.Gaussian(nu=1.0), "nu must be greater than d - 1 = 1"),
        (nm.Gaussian(scale=1.0), r"scale must have shape \(2, 2\)"),
        (nm.Gaussian(scale=[[1, 2], [2, 1]]), "scale must be positive definite"),
        (nm.Gaussian(scale=[[1, 0.5], [0.4, 1]]), "scale must be symmetric"),
    ],
)
def test_bad_families_for_two_responses(family, message):
    with pytest.raises(ValueError, match=message):
        nm.Model(data=np.random.default_rng(0).normal(size=(10, 2)), family=family)


def test_defaults_of_the_family_are_numbers_from_the_data():
    X = np.random.default_rng(0).normal(size=(30, 2)) * [1.0, 50.0] + 3
    family = nm.Model(data=X).family
    np.testing.assert_allclose(family.m, X.mean(axis=0))
    assert family.nu == 3 and family.r == 0.01
    np.testing.assert_allclose([law.mean for law in family.scale], 0.1 * 3 * X.var(axis=0, ddof=1))
    tied = nm.Model(data=X, family=nm.Gaussian("tied")).family
    np.testing.assert_allclose(tied.scale, np.diag(0.02 * 3 * X.var(axis=0, ddof=1)))
    np.testing.assert_allclose(family.means(family.coordinates(X)), X)


def test_few_observations():
    with pytest.raises(ValueError, match="at least 2 observations"):
        nm.Model(data=np.array([[1.0]]))
    fit = nm.Model(data=np.array([[1.0]]), family=nm.Gaussian(m=0, scale=1)).fit(draws=5, tune=5, chains=1, rng=1)
    assert (fit.draws["n_clusters"] == 1).all()
    fit = nm.Model(data=np.array([[1.0], [2.0]])).fit(draws=5, tune=5, chains=1, rng=1)
    assert set(np.unique(fit.draws["n_clusters"])) <= {1, 2}


def test_more_responses_than_observations():
    X = np.random.default_rng(0).normal(size=(5, 8))
    fit = nm.Model(data=X).fit(draws=5, tune=5, chains=1, rng=1)
    assert np.isfinite(fit.draws["log_joint"]).all()


def test_lee_choi_base():
    X = np.random.default_rng(0).normal(size=(40, 3)) * [1, 2, 3]
    family = nm.lee_choi_base(X)
    assert family.r == 0.1 and family.nu == 9
    assert np.linalg.det(family.scale) == pytest.approx(0.1)
    np.testing.assert_allclose(family.scale / family.scale[0, 0], np.cov(X.T) / np.cov(X.T)[0, 0])
    with pytest.raises(ValueError, match="linearly dependent"):
        nm.lee_choi_base(np.ones((5, 2)))
    with pytest.raises(ValueError, match="more rows than columns"):
        nm.lee_choi_base(np.eye(3))


# ---- covariates


def test_groups_locations_and_scaling(mcycle):
    grid = nm.Model("accel_g ~ times_ms", mcycle, kernel=nm.SquaredExponential(0.05)).grid
    assert grid.values.shape == grid.locations.shape == (94, 1)
    np.testing.assert_array_equal(grid.values[grid.group, 0], mcycle["times_ms"])
    assert grid.distance.shape == (1, 94, 94) and grid.distance.max() == pytest.approx(1.0)
    own = nm.Model("accel_g ~ times_ms", mcycle, kernel=nm.SquaredExponential(5.0, scale=None)).grid
    assert own.distance.max() == pytest.approx(57.6 - 2.4)


def test_many_covariate_values_get_spread_locations():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.random(500), "z": rng.random(500), "y": rng.normal(size=500)})
    grid = nm.Model("y ~ x + z", data, kernel=nm.SquaredExponential((0.2, 0.3))).grid
    assert grid.locations.shape == (200, 2) and grid.distance.shape == (2, 500, 200)
    at = farthest_points(data[["x", "z"]].to_numpy(), 10)
    assert len(set(at)) == 10


def test_kernels_are_what_they_say(mcycle):
    d = np.array([[[0.0, 0.1, 0.2]], [[0.0, 0.3, 0.1]]])
    se = nm.SquaredExponential((0.1, 0.2)).log_kernel(d, np.array([0.1, 0.2]))
    np.testing.assert_allclose(se[0], [0.0, -0.5 - 1.125, -2 - 0.125])
    box = nm.Box((0.2, 0.2)).log_kernel(d, np.array([0.2, 0.2]))
    np.testing.assert_array_equal(box[0], [0.0, -np.inf, -np.inf])  # a distance equal to the width is outside


def test_two_covariates_fit_and_predict():
    data = nm.datasets.load_iris()
    kernel = nm.SquaredExponential((0.2, nm.LogNormal(-1.5, 0.5)))
    fit = nm.fit("petal_length_cm ~ sepal_length_cm + sepal_width_cm", data, kernel=kernel, draws=30, tune=30, chains=2, rng=1)
    assert (fit.draws["width_sepal_length_cm"] == 0.2).all()
    assert np.ptp(fit.draws["width_sepal_width_cm"]) > 0
    fitted = fit.predict()["estimate"]
    assert np.corrcoef(fitted, data["petal_length_cm"])[0, 1] > 0.8


# ---- log_joint


@pytest.fixture(scope="module")
def small():
    return pd.DataFrame({"x": [0.0, 0.0, 1.0], "y": [0.1, -0.3, 2.0]})


@pytest.mark.parametrize(
    ("formula", "prior", "arguments", "message"),
    [
        ("y ~ 1", nm.DirichletProcess(), {}, "mass is sampled in this model; give its value, mass="),
        ("y ~ 1", nm.DirichletProcess(1.0), {"u": 1.0}, "u is integrated out"),
        ("y ~ 1", nm.DirichletProcess(1.0), {"v": [1.0]}, "v and locations belong to density regression"),
        ("y ~ 1", nm.DirichletProcess(1.0), {"mas": 1.0}, "did you mean 'mass'"),
        ("y ~ 1", nm.DirichletProcess(1.0), {"mass": -1.0}, "mass = -1.0 is out of range"),
        ("y ~ 1", nm.NGGP(1.0, 0.3), {"sigma": 1.0}, "sigma = 1.0 is out of range"),
        ("y ~ 1", nm.NGGP(1.0, 0.3), {"u": 0.0}, "u must be a finite number greater than 0"),
        ("y ~ 1", nm.PitmanYor(1.0, 0.3), {"mass": -0.3}, "mass = -0.3 is out of range"),
        ("y ~ 1", nm.FiniteMixture(3), {"sigma": 0.3}, "unknown hyperparameter 'sigma'; this model has mass"),
        ("y ~ 1", nm.NormalizedStable(), {"mass": 0.3}, "unknown hyperparameter 'mass'; this model has sigma"),
        ("y ~ 1", nm.NormalizedStable(), {}, "sigma is sampled in this model"),
        ("y ~ x", nm.PitmanYor(1.0, 0.3), {"mass": 0.0, "v": [1.0, 1.0], "locations": [0]}, "mass = 0.0 is out of range"),
        ("y ~ x", nm.DirichletProcess(1.0), {}, "needs v and locations"),
        ("y ~ x", nm.DirichletProcess(1.0), {"u": 1.0}, "u belongs to mixtures"),
        ("y ~ x", nm.DirichletProcess(1.0), {"v": [1.0], "locations": [0]}, "v must hold 2 positive numbers"),
        ("y ~ x", nm.DirichletProcess(1.0), {"v": [1.0, 1.0], "locations": [2]}, "locations must hold 1 integers in 0..1"),
    ],
)
def test_log_joint_arguments(small, formula, prior, arguments, message):
    kernel = nm.SquaredExponential(0.5) if "x" in formula else None
    model = nm.Model(formula, small, prior=prior, kernel=kernel)
    with pytest.raises(ValueError, match=message):
        model.log_joint([0, 0, 0], **arguments)
    with pytest.raises(ValueError, match="labels"):
        model.log_joint([0, 0], **arguments)


@pytest.mark.parametrize("prior", [nm.DirichletProcess(1.0), nm.FiniteMixture(3), nm.NormalizedInverseGaussian(1.0)])
def test_log_joint_takes_constants_as_draws_have_them(small, prior):
    model = nm.Model("y ~ 1", small, prior=prior)
    fit = model.fit(draws=1, tune=0, chains=1, rng=1, progress=False)
    state = {name: fit.draws[name][0, 0] for name in ("mass", "sigma", "u", "scale") if name in fit.draws.keys()}
    assert model.log_joint(fit.draws["labels"][0, 0], **state) == pytest.approx(fit.draws["log_joint"][0, 0])


def test_log_joint_is_minus_infinity_out_of_reach(small):
    model = nm.Model("y ~ x", small, prior=nm.DirichletProcess(1.0), kernel=nm.Box(0.5), family=nm.Regression("1 + x", shrinkage=None))
    assert model.log_joint([0, 0, 0], v=[1.0, 1.0], locations=[0]) == -np.inf
    assert np.isfinite(model.log_joint([0, 0, 1], v=[1.0, 1.0], locations=[0, 1]))


def test_log_joint_does_not_depend_on_label_names(small):
    model = nm.Model("y ~ 1", small, prior=nm.NGGP(1.0, 0.3))
    assert model.log_joint([0, 1, 0], scale=[0.5]) == model.log_joint([9, -4, 9], scale=[0.5])


@pytest.mark.parametrize(("n", "K", "mass", "sigma", "tau"), [(1, 1, 0.5, 0.0, 1.0), (50, 3, 2.0, 0.7, 2.0), (10_000, 40, 1.0, 0.1, 1.0)])
def test_integral_over_u(n, K, mass, sigma, tau):
    x = np.linspace(-60, 600, 2_000_001)
    with np.errstate(over="ignore"):
        u = np.exp(x)
        psi = mass * (np.log1p(u / tau) if sigma == 0 else ((u + tau) ** sigma - tau**sigma) / sigma)
        f = n * x - (n - sigma * K) * np.log(u + tau) - psi
    expected = f.max() + np.log(np.exp(f - f.max()).sum() * (x[1] - x[0]))
    assert log_integral_over_u(n, K, mass, sigma, tau) == pytest.approx(expected, abs=1e-7)


@pytest.mark.external
def test_published_log_joints():
    """Lee & Choi's data, their base measure, DP(1): the true partitions."""
    for file, expected, tolerance in (("tgmcmc_toy_1300x2.npz", -1577.5696, 1e-4), ("tgmcmc_10k_10000x6.npz", -73513.52, 0.01)):
        with np.load(nm.datasets.external(file)) as z:
            X, labels = z["X"], z["labels"]
        model = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=nm.lee_choi_base(X))
        assert model.log_joint(labels) == pytest.approx(expected, abs=tolerance)


def test_log_joint_of_a_simulated_twin():
    """The same quantity on simulated data, from the formulas of the Dirichlet process and the normal-Wishart."""
    from exact.enumeration import gaussian_log_marginal
    from scipy.special import gammaln

    X, labels = nm.datasets.simulate_toy(rng=1)
    base = nm.lee_choi_base(X)
    model = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=base)
    sizes = np.bincount(labels)
    expected = gammaln(sizes).sum() - gammaln(len(X) + 1)
    expected += sum(gaussian_log_marginal(X[labels == c], base.m, base.r, base.nu, base.scale) for c in range(len(sizes)))
    assert model.log_joint(labels) == pytest.approx(expected, abs=1e-8)


def test_priors_that_a_model_does_not_suit():
    data = pd.DataFrame({"y": [0.1, 0.5, 0.7, 2.0], "x": [0.0, 0.1, 0.2, 1.0]})
    box = nm.Box(0.3, locations=[0.1, 0.6, 1.0])
    for prior, message in (
        (nm.PitmanYor(0.0, 0.3), r"mass must be greater than 0 in density regression, not 0; nm\.NormalizedStable\(sigma\)"),
        (nm.PitmanYor(-0.1, 0.3), "mass must be greater than 0 in density regression, not -0.1"),
        (nm.NormalizedStable(), r"the location \[0.6\] of Box.* is out of reach of every row.* take nm\.PitmanYor"),
    ):
        with pytest.raises(ValueError, match=message):
            nm.Model("y ~ x", data, prior=prior, kernel=box)
    nm.Model("y ~ x", data, prior=nm.PitmanYor(0.1, 0.3), kernel=box)
    for init in ("each", [0, 1, 2, 3]):
        with pytest.raises(ValueError, match=r'init has 4 clusters.* has 3 components; use init="sequential"'):
            nm.fit("y ~ 1", data, prior=nm.FiniteMixture(3), init=init, draws=5, tune=5, chains=1)
    fit = nm.fit("y ~ 1", data, prior=nm.FiniteMixture(3), init=[0, 1, 2, 2], draws=5, tune=5, chains=1, rng=1)
    assert fit.draws["n_clusters"].max() <= 3 and (fit.draws["sigma"] == 0).all()
    assert fit.model.log_joint([0, 1, 2, 3]) == -np.inf


def test_rows_that_no_component_of_a_finite_measure_reaches():
    data = pd.DataFrame({"y": [0.1, 0.5, 0.7, 0.2], "x": [0.0, 0.1, 0.2, 0.1]})
    kernel = nm.Box(0.3, locations=[0.1, 0.6, 1.0], scale=None)
    fit = nm.fit("y ~ x", data, prior=nm.FiniteMixture(1), kernel=kernel, draws=5, tune=5, chains=1, rng=1)
    for predict in (fit.predict, fit.log_density, fit.simulate):
        with pytest.raises(ValueError, match=r"out of reach of every atom of a finite measure in some draw.* or more components"):
            predict(pd.DataFrame({"x": [1.0], "y": [0.0]}))
    assert np.isfinite(fit.predict().to_numpy()).all()
    far = nm.Model("y ~ x", pd.DataFrame({"y": [0.0, 1.0], "x": [0.1, 1.0]}), prior=nm.FiniteMixture(1), kernel=kernel)
    with pytest.raises(ValueError, match=r"is out of reach of all 1 atoms, and in 1000 draws.* use more components or a wider kernel"):
        far.prior_predictive(draws=1, rng=1)


@pytest.mark.parametrize(("prior", "text"), [
    (nm.PitmanYor(1.0, 0.25), "PitmanYor(mass = 1, sigma = 0.25) (Pitman-Yor process)"),
    (nm.NormalizedStable(), "NormalizedStable(sigma ~ Beta(1, 2)) (normalized stable process)"),
    (nm.FiniteMixture(4, nm.Gamma(2, 1)), "FiniteMixture(components = 4, mass ~ Gamma(2, 1)) (symmetric Dirichlet weights)"),
])
def test_measures_are_printed_and_summarised(prior, text):
    model = nm.Model("accel_g ~ 1", nm.datasets.load_mcycle(), prior=prior)
    fit = model.fit(draws=10, tune=10, chains=2, rng=1)
    assert text in str(model) and str(prior) in str(fit.summary())
    assert {"mass", "sigma"} & set(fit.tidy()["term"]) == set(prior.parameters)
    assert set(fit.glance()["prior"]) == {str(prior)}
