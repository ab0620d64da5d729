"""Components with a point mass: laws in closed form, every method, density regression, what is refused, pictures and files."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import KernelJoint, location_posterior, total_variation
from exact.marginals import bernoulli_log_marginal, regression_log_marginal
from matplotlib.figure import Figure
from scipy import integrate, stats
from support.cover import by_turns
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.kernels import predictive
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.clusters import empty_column
from nrmmix.model.families.distributions import Normal, StudentT, WithPointMass, point_masses, spread_out
from nrmmix.model.frame.summary import Summary
from nrmmix.model.pack import provide
from nrmmix.posterior.predict.kernel_states import clusters_of
from nrmmix.posterior.predict.points import grid

A, B = 0.6, 1.3
M, R, NU, SCALE = 0.4, 0.3, 3.0, 1.2
SPENT = np.array([0.0, 2.5, 0.0, -0.7, 0.0, 0.2, 1.1, 3.0, 0.0, 0.4])
LABELS = np.array([0, 0, 0, 1, 0, 1, 1, 2, 0, 0])
FAST = {"draws": 100, "tune": 150, "chains": 2, "rng": 1}


def fixed(**options):
    return nm.Hurdle(nm.Gaussian(m=M, r=R, nu=NU, scale=SCALE), a=A, b=B, **options)


@pytest.fixture(scope="module")
def clusters():
    return with_a_new_one(nm.Model("y ~ 1", {"y": SPENT}, family=fixed()))


def with_a_new_one(model):
    found = clusters_of(model, LABELS)
    empty_column(found.data, found.state.stat, 3)
    return found


def law(rows):
    """Probability of 0, and Student's t otherwise, given the rows of a cluster: from the definitions."""
    y = SPENT[rows]
    x = y[y != 0]
    n, mean = len(x), x.mean() if len(x) else 0.0
    square = SCALE + ((x - mean) ** 2).sum() + R * n / (R + n) * (mean - M) ** 2
    centre = (R * M + n * mean) / (R + n)
    spread = np.sqrt(square * (1 + 1 / (R + n)) / (NU + n))
    return (A + (y == 0).sum()) / (A + B + len(y)), stats.t(NU + n, centre, spread)


LAWS = [law(np.flatnonzero(LABELS == k)) for k in range(3)] + [law(np.zeros(0, int))]
AT = np.array([-1.0, -1e-9, 0.0, 1e-9, 0.7, 4.0])


def test_predictive_laws_in_closed_form(clusters):
    (found,) = clusters.distributions(np.zeros((1, 0)))
    assert point_masses(found).tolist() == [0.0] and not found.discrete and found.ordered
    for k, (p, t) in enumerate(LAWS):
        assert found.density(AT[:, None])[:, k] == pytest.approx(np.where(AT == 0, p, (1 - p) * t.pdf(AT)))
        assert found.cdf(AT[:, None])[:, k] == pytest.approx((1 - p) * t.cdf(AT) + p * (AT >= 0))


def test_scores_are_log_densities(clusters):
    y = np.append(AT, np.nan)[:, None]
    found = clusters.log_densities(clusters.points(y, np.zeros((1, 0))))
    want = np.array([np.log(np.append(np.where(AT == 0, p, (1 - p) * t.pdf(AT)), 1.0)) for p, t in LAWS])
    assert found == pytest.approx(want.T, abs=1e-10)


def test_means_of_clusters_and_of_atoms(clusters):
    """The kernels against the sums that they stand for; the point is not 0 in the coordinates of the family."""
    model, points = clusters.model, clusters.points(None, np.zeros((1, 0)))
    found = model.blocks.means(clusters.means(points), model.packed)[0, :, 0]
    assert found == pytest.approx([(1 - p) * t.mean() for p, t in LAWS])
    theta = clusters.components(np.array([0, 1, 2, 3, 3]), np.random.default_rng(1))
    provide(model, points.block, (layout.Block.MEAN_THETA,))
    of_atoms = model.blocks.means(predictive.component_means(points, theta, model.packed.n_mean), model.packed)[0, :, 0]
    (own,) = model.blocks.component_distributions(theta, np.zeros((1, 0)), model.packed)
    assert of_atoms == pytest.approx(((1 - own.probability) * own.otherwise.mean)[0])
    provide(model, points.block, (layout.Block.DENSITY,))
    y = clusters.points(AT[:, None], np.zeros((1, 0)))
    provide(model, y.block, (layout.Block.DENSITY,))
    densities = predictive.component_densities(y, theta, model.packed.n_work)
    assert np.exp(densities) == pytest.approx(own.density(AT[:, None]))


def test_another_point_moves_the_mean():
    family = nm.Hurdle(nm.Gaussian(m=M, r=R, nu=NU, scale=SCALE), at=-7.0, a=A, b=B)
    model = nm.Model("y ~ 1", {"y": np.where(SPENT == 0, -7.0, SPENT)}, family=family)
    found = with_a_new_one(model)
    values = model.blocks.means(found.means(found.points(None, np.zeros((1, 0)))), model.packed)[0, :, 0]
    assert values == pytest.approx([(1 - p) * t.mean() - 7.0 * p for p, t in LAWS])


def test_parameters_of_clusters(clusters):
    ((p, mean, sd),) = clusters.parameters()
    assert (p.name, mean.name, sd.name) == ("probability y = 0", "mean y apart from 0", "sd y apart from 0")
    assert p.mean == pytest.approx([p for p, _ in LAWS[:3]])
    assert p.sd[1] == pytest.approx(stats.beta(A, B + 3).std()) and mean.mean == pytest.approx([t.mean() for _, t in LAWS[:3]])


@pytest.mark.parametrize("otherwise", [Normal(np.array([[0.5, -1.0]]), np.array([[1.0, 0.2]])), StudentT(*np.ones((3, 1, 2)))])
@pytest.mark.parametrize("at", [0.0, 0.3])
def test_quantiles_invert_the_distribution_function(otherwise, at):
    law = WithPointMass(np.array([[0.3, 1.0 - 1e-17]]), np.full((1, 1), at), otherwise)
    p = np.linspace(0.01, 0.99, 99)[:, None]
    found = law.quantile(p)
    assert (law.cdf(found) >= p - 1e-9).all() and (law.cdf(found - 1e-6) <= p + 1e-5).all()
    assert (found[:, 1] == at).all() and (found[:, 0] == at).mean() == pytest.approx(0.3, abs=0.02)
    assert spread_out(law).cdf(p).shape == (1, 99, 2)


def test_a_density_and_its_point_mass_make_one(clusters):
    (found,) = clusters.distributions(np.zeros((1, 0)))
    rest, _ = integrate.quad_vec(lambda x: found.density(x)[0], -500, 500, epsabs=1e-10, limit=5000, points=[1e-12])
    assert rest + found.probability[0] == pytest.approx(1.0, abs=2e-4)


# ---- fits

def zeros(n=600, seed=0):
    rng = np.random.default_rng(seed)
    return {"y": np.where(rng.random(n) < 0.75, 0.0, rng.choice([1.0, 2.0, 3.0, 7.0, 12.0], n))}


SAMPLERS, OTHERS = ("gibbs", "split_merge", "tree", "slice", "permutation"), ("ibhc", "bhc", "vb", "memoized_vb", "stochastic_vb")


@pytest.mark.parametrize("method", by_turns([*SAMPLERS, *OTHERS], 6))
def test_three_quarters_zeros(method):
    data = zeros()
    options = {"draws": 100, "tune": 100, "chains": 2} if method in SAMPLERS else {}
    fit = nm.fit("y ~ 1", data, family=nm.Hurdle(nm.Gaussian(), at=0.0), method=method, rng=1, **options)
    share = (data["y"] > 0).mean()
    assert fit.predict(kind="exceedance", at=0.0)["estimate"].iloc[0] == pytest.approx(share, abs=0.03)
    assert fit.predict()["estimate"].iloc[0] == pytest.approx(data["y"].mean(), abs=0.1)
    simulated = fit.simulate(draws=20, rng=1)["y"].to_numpy()
    assert (simulated == 0).mean() == pytest.approx(1 - share, abs=0.03)


@pytest.fixture(scope="module")
def fit():
    return nm.fit("y ~ 1", zeros(), family=nm.Hurdle(), **FAST)


def test_predictions_jump(fit):
    point = fit.predict(kind="density", at=0.0)
    cdf = fit.predict(kind="cdf", at=[-1e-12, 0.0])["estimate"].to_numpy()
    assert np.diff(cdf)[0] == pytest.approx(point["estimate"].iloc[0], abs=1e-9) and cdf[0] < 0.01
    assert 1 - cdf[1] == pytest.approx(fit.predict(kind="exceedance", at=0.0)["estimate"].iloc[0])
    quantiles = fit.predict(kind="quantile", q=[0.05, 0.5, 0.7, 0.8, 0.95])
    assert (quantiles["estimate"].to_numpy()[:3] == 0).all() and quantiles["estimate"].iloc[3:].to_numpy() == pytest.approx([2, 12], abs=1)
    of_cdf = fit.predict(kind="cdf", at=quantiles["estimate"].iloc[3:])["estimate"]
    assert of_cdf.to_numpy() == pytest.approx([0.8, 0.95], abs=0.002)
    assert 0.0 in grid(fit.model, 0) and point.attrs["units"].endswith("point masses probabilities")


def test_log_densities_are_with_respect_to_length_and_the_point(fit):
    y = zeros()["y"]
    found = fit.log_density()
    at = np.array([0.0, 2.0])
    want = np.log(fit.predict(kind="density", at=at, draws=1000)["estimate"].to_numpy())
    assert [found[np.flatnonzero(y == one)[0]] for one in at] == pytest.approx(want, abs=1e-9)
    left_out = fit.loo()
    assert left_out.rows["elpd"][np.flatnonzero(y == 0)].mean() == pytest.approx(np.log((y == 0).mean()), abs=0.05)


@pytest.mark.filterwarnings("ignore:.*(point masses|in-sample)")
def test_fits_with_other_points_are_not_compared(fit):
    other = nm.fit("y ~ 1", zeros(), draws=60, tune=50, chains=2, rng=1)
    with pytest.raises(ValueError, match=r"cannot be compared with others; fit 1 has one at y = 0 and fit 2 none"):
        nm.compare(fit, other)
    assert list(nm.compare(fit, fit, newdata=zeros())["n"]) == [600, 600]


def test_a_saved_fit_predicts_alike(fit, tmp_path):
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    assert str(again.model) == str(fit.model)
    for options in ({"kind": "quantile"}, {"kind": "cdf", "at": [0.0, 1.0]}):
        pd.testing.assert_frame_equal(again.predict(**options), fit.predict(**options))
    assert str(copy.deepcopy(fit.model)) == str(fit.model)


def test_prior_predictive_data_have_the_point():
    found = nm.Model("y ~ 1", zeros(), family=nm.Hurdle(a=2.0, b=6.0)).prior_predictive(draws=400, rng=1)["y"].to_numpy()
    assert (found == 0).mean() == pytest.approx(0.25, abs=0.04)


# ---- density regression

def regression_data(n=500):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, n)
    return pd.DataFrame({"x": x, "y": np.where(rng.random(n) < 1 / (1 + np.exp(-2 * x)), 0.0, 1.5 + x + 0.4 * rng.normal(size=n))})


@pytest.mark.parametrize("method", ["auto", pytest.param("vb", marks=pytest.mark.nightly)])
def test_the_probability_depends_on_the_covariate(method):
    options = {"draws": 100, "tune": 200, "chains": 2} if method == "auto" else {}
    fit = nm.fit("y ~ x", regression_data(), family=nm.Hurdle(nm.Regression("1 + x")), method=method, rng=1, **options)
    new = {"x": [-1.5, -0.75, 0.0, 0.75, 1.5]}
    x = np.array(new["x"])
    p = 1 / (1 + np.exp(-2 * x))
    assert fit.predict(new, "density", at=0.0)["estimate"].to_numpy() == pytest.approx(p, abs=0.08)
    assert fit.predict(new)["estimate"].to_numpy() == pytest.approx((1 - p) * (1.5 + x), abs=0.16)
    above = (1 - p) * stats.norm.sf(0.0, 1.5 + x, 0.4)
    assert fit.predict(new, "exceedance", at=0.0)["estimate"].to_numpy() == pytest.approx(above, abs=0.08)
    median = fit.predict(new, "quantile", q=0.5)["estimate"].to_numpy()
    assert (median[3:] == 0).all() and median[1] == pytest.approx(0.67, abs=0.1)


X, DESIGN = np.array([0.0, 0.0, 1.0, 1.0]), np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
FEW = np.array([0.0, -1.2, 0.0, 1.4])
HYPER = {"b": np.array([0.1, 0.5]), "precision": np.array([[0.5, 0.1], [0.1, 0.8]]), "nu": 4.0, "scale": 1.0}


def exact(sigma, a):
    def of_block(block):
        rows = np.array(block)
        apart = rows[FEW[rows] != 0]
        value = bernoulli_log_marginal((FEW[rows] == 0.0)[:, None].astype(float), np.array([a]), np.array([B]))
        return value + (regression_log_marginal(DESIGN[apart], FEW[apart], **HYPER) if len(apart) else 0.0)

    K = np.exp(-np.subtract.outer([0.0, 1.0], [0.0, 1.0]) ** 2 / (2 * 0.7**2))
    return location_posterior(KernelJoint(K, [0, 0, 1, 1], 0.9, sigma), of_block)


@pytest.mark.parametrize(("method", "sigma"), by_turns([("gibbs", 0.0), ("tree", 0.0), ("split_merge", 0.3), ("slice", 0.3)], 4))
def test_partitions_and_locations_of_density_regression(method, sigma):
    kernel, prior = nm.SquaredExponential(0.7, locations=[0.0, 1.0]), nm.NGGP(0.9, sigma) if sigma else nm.DirichletProcess(0.9)
    family = nm.Hurdle(nm.Regression("1 + x", **HYPER), a=A, b=B)
    model = nm.Model("y ~ x", {"x": X, "y": FEW}, kernel=kernel, prior=prior, family=family)
    fit = model.fit(method, draws=by_day(4000), tune=200, chains=8, rng=4)
    states = np.concatenate([fit.draws["labels"], fit.draws["locations"]], axis=-1)
    distance, limit = total_variation(exact(sigma, A), states)
    assert limit < coarser(0.06) and distance < limit
    if method == "gibbs":  # another prior of the probability is found
        wrong, limit = total_variation(exact(sigma, 4 * A), states)
        assert wrong > limit


# ---- several responses, missing ones, rows that come later

def pairs(n=200):
    rng = np.random.default_rng(2)
    y, z = rng.normal(size=(2, n))
    return pd.DataFrame({"y": np.where(rng.random(n) < 0.4, 0.0, y), "z": np.where(rng.random(n) < 0.3, 2.0, z + y)})


@pytest.mark.nightly
def test_one_hurdle_of_two_responses_is_two_hurdles():
    one = nm.Model("y + z ~ 1", pairs(), family=nm.Hurdle(nm.Gaussian("diagonal"), at=[0.0, 2.0]))
    two = nm.Model("y + z ~ 1", pairs(), family={"z": nm.Hurdle(at=2.0), "y": nm.Hurdle()})
    labels = np.arange(200) % 3
    own = {"mass": 1.0, "scale": [0.5, 0.5]}
    assert one.log_joint(labels, **own) == pytest.approx(two.log_joint(labels, **own))
    found = [model.fit("gibbs", **FAST).predict(kind="exceedance", at=[[0.0, 2.0]]) for model in (one, two)]
    assert found[0]["estimate"].to_numpy() == pytest.approx(found[1]["estimate"].to_numpy(), abs=0.02)


@pytest.mark.nightly
def test_given_the_other_response():
    data = pairs(250).assign(z=lambda d: np.where(d["y"] == 0, 2.0, d["z"]))
    fit = nm.fit("y + z ~ 1", data, family={"y": nm.Hurdle(), "z": nm.Hurdle(at=2.0)}, **FAST)
    new = {"z": [2.0, 0.5]}
    p = fit.predict(new, "density", at=0.0, given="z")["estimate"].to_numpy()
    joint = fit.predict(kind="density", at=[[0.0, 2.0], [0.0, 0.5]])["estimate"].to_numpy()
    marginal = fit.predict(kind="density", at=[2.0, 0.5], response="z")["estimate"].to_numpy()
    assert p == pytest.approx(joint / marginal) and p[0] > 0.4
    drawn = fit.simulate(new, draws=400, given="z", rng=1)["y"].to_numpy().reshape(400, 2)
    assert (drawn == 0).mean(axis=0) == pytest.approx(p, abs=0.08)
    assert (fit.predict(new, "quantile", q=0.5, given="z")["estimate"].iloc[0] == 0) == (p[0] > 0.5)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*point masses")
def test_missing_responses_are_drawn_with_the_point():
    data = pairs(400).assign(z=lambda d: np.where(d["y"] == 0, 10.0, d["z"]))
    gone = np.arange(400) % 4 == 0
    family = {"y": nm.Hurdle(), "z": nm.Gaussian()}
    fit = nm.fit("y + z ~ 1", data.assign(y=data["y"].mask(gone)), family=family, missing="marginalize", **FAST)
    truth, drawn = data["y"][gone] == 0, np.mean([table["y"][gone] == 0 for table in fit.impute(draws=20, rng=1)], axis=0)
    assert drawn[truth].mean() > 0.97 and drawn[~truth].mean() < 0.03
    assert fit.augment().loc[gone & (data["y"] == 0), ".fitted_y"].abs().max() < 0.1


@pytest.mark.parametrize("family", by_turns([nm.Hurdle(), nm.Hurdle(nm.Regression("1 + x"))]), ids=["Gaussian", "Regression"])
def test_rows_at_the_point_can_come_later(family):
    data = regression_data()
    apart = data[data["y"] != 0].head(100)
    with pytest.warns(UserWarning, match="the response 'y' is nowhere exactly 0: its family alone would do, or another at= is meant"):
        fit = nm.fit("y ~ 1", apart, family=family, method="memoized_vb", rng=1)
    later = fit.update(data[data["y"] == 0].head(100))
    p = [one.predict({"x": [0.0]} if family.design else None, "density", at=0.0)["estimate"].iloc[0] for one in (fit, later)]
    assert p[0] < 0.05 and 0.3 < p[1] < 0.7


class Parts:
    """Rows that are loaded part by part."""

    n_batches = 4

    def load(self, b):
        return regression_data().iloc[125 * b : 125 * b + 125]


@pytest.mark.parametrize("family", [nm.Hurdle(), nm.Hurdle(nm.Regression("1 + x"))], ids=["Gaussian", "Regression"])
def test_rows_that_are_loaded_part_by_part(family):
    method = nm.MemoizedVB(components=3, passes=20)
    fits = [nm.fit("y ~ 1", data, family=family, method=method, rng=1) for data in (Parts(), regression_data())]
    assert str(fits[0].model.family) == str(fits[1].model.family) and fits[0].elbo == pytest.approx(fits[1].elbo)
    assert Summary(np.array([[0.0], [1.0]])).without(np.zeros(1)).counts().tolist() == [1]


# ---- defaults, and what is refused

@pytest.mark.filterwarnings("ignore:.*point masses")
def test_defaults_are_those_of_the_rows_apart_from_the_point():
    y = zeros()["y"]
    apart = nm.Model("y ~ 1", {"y": y[y != 0]}).family
    found = nm.Model("y ~ 1", {"y": y}, family=nm.Hurdle()).family
    assert (found.at, found.a.tolist(), found.b.tolist()) == (0.0, [0.5], [0.5])
    assert found.family.m == pytest.approx(apart.m) and found.family.scale[0].mean == pytest.approx(apart.scale[0].mean)
    assert (found.family.nu, found.family.r) == (apart.nu, apart.r)
    assert found.describe()[0] == "Hurdle: y = 0 with probability pi ~ Beta(0.5, 0.5), otherwise"
    one = np.zeros(len(y), int)  # the same law as the family in another form
    families = (nm.Hurdle(nm.Gaussian(*form)) for form in ((), ("diagonal",)))
    both = [nm.Model("y ~ 1", {"y": y}, family=family).log_joint(one, mass=1.0, scale=[0.5]) for family in families]
    assert both[0] == pytest.approx(both[1])


@pytest.mark.parametrize(("make", "message"), [
    (lambda: nm.Hurdle(at=np.nan), "at must be a finite number, or one for each response, not nan"),
    (lambda: nm.Hurdle(at="0"), "at must be a finite number"),
    (lambda: nm.Hurdle(a=0), "a must be a number greater than 0"),
    (lambda: nm.Hurdle(b=None), "b must be a number greater than 0, or one for each response, not None"),
    (lambda: nm.Hurdle(nm.Poisson()), "Poisson components are not continuous, and have point masses of their own"),
    (lambda: nm.Hurdle(nm.Hurdle()), "family is a hurdle itself"),
    (lambda: nm.Hurdle(nm.Gaussian), "family must be an object such as nm.Gaussian\\(\\)"),
    (lambda: nm.Hurdle().observe(np.zeros((1, 1))), "hyperparameters are taken from the data when a model is made"),
    (lambda: nm.Hurdle().resolve(np.zeros((5, 1))), "'y1' is 0 in all 5 rows that have it, and nothing is left for the family"),
    (lambda: nm.Model("y ~ 1", {"y": [0.0] * 9 + [1.0]}, family=nm.Hurdle()), "at least 2 observations .* rows at its point do not count"),
    (lambda: nm.Model("y ~ 1", zeros(), family=nm.Hurdle(b=[1, 2])), "b has 2 numbers for 1 responses"),
    (lambda: nm.Model("y + z ~ 1", pairs(), family=nm.Hurdle()), "give each a hurdle of its own, family=.'y': nm.Hurdle"),
])
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_families_that_draw_missing_responses_are_refused(monkeypatch):
    """They would be drawn for rows at the point too."""
    model = nm.Model("y ~ 1", zeros(), family=nm.Hurdle())
    packed = model.family.family.pack(np.zeros((1, 1)), np.zeros((1, 0)))
    drawing = packed._replace(entries=packed.entries._replace(impute=packed.entries.update))
    monkeypatch.setattr(nm.Gaussian, "pack", lambda *_: drawing)
    with pytest.raises(ValueError, match="Gaussian draws missing responses, which those at the point are to it"):
        nm.Model("y ~ 1", zeros(), family=nm.Hurdle()).fit("gibbs", **FAST)


def test_a_constant_response_is_refused():
    with pytest.raises(ValueError, match="The response 'y' is constant"):
        nm.Model("y ~ 1", {"y": np.zeros(9)}, family=nm.Hurdle())


def test_the_family_may_hold_its_parameters():
    fit = nm.fit("y ~ 1", zeros(), family=nm.Hurdle(nm.SemiconjugateGaussian()), **FAST)
    assert fit.predict(kind="exceedance", at=0.0)["estimate"].iloc[0] == pytest.approx((zeros()["y"] > 0).mean(), abs=0.03)
    assert nm.VB().refusal(fit.model).startswith("nm.VB") or "integrated out" in nm.VB().refusal(fit.model)


# ---- pictures

def test_pictures_have_the_point(fit):
    ax = Figure().subplots()
    fit.plot("density", ax=ax, draws=20)
    own = ax.figure.axes[1]
    assert own.get_ylabel() == "probability of 0" and own.get_ylim() == (0, 1)
    assert own.lines[0].get_ydata() == pytest.approx((zeros()["y"] == 0).mean(), abs=0.03)
    assert own.patches[0].get_height() == pytest.approx((zeros()["y"] == 0).mean())
    area = sum(bar.get_height() * bar.get_width() for bar in ax.patches)
    assert area == pytest.approx((zeros()["y"] != 0).mean())
    ax = Figure().subplots()
    fit.plot("ppc", ax=ax, draws=20)
    assert ax.figure.axes[1].lines[0].get_ydata() == pytest.approx((zeros()["y"] == 0).mean(), abs=0.05)


@pytest.mark.nightly
def test_pictures_of_density_regression_have_the_point():
    fit = nm.fit("y ~ x", regression_data(), family=nm.Hurdle(nm.Regression("1 + x")), draws=50, tune=100, chains=2, rng=1)
    for kind in ("conditional", "slices"):
        ax = Figure().subplots()
        fit.plot(kind, ax=ax, draws=20, points=30)
        assert any("probability of 0" in text.get_text() for text in ax.get_legend().get_texts()), kind
    heights = np.diff(ax.collections[-1].get_segments(), axis=1)[:, 0, 1]
    assert len(heights) == 5 and (np.diff(heights) > 0).all() and heights[-1] <= 0.92
