"""Pictures of every functional over several covariates, and in the units of the column behind a response."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from support.cover import by_turns

import nrmmix as nm

pytestmark = pytest.mark.filterwarnings("ignore:.*(converge|agree|R-hat|effective|chains).*")
FEW = {"draws": 20, "points": 4}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"age": rng.uniform(20, 60, 80), "tenure": rng.uniform(0, 20, 80), "site": rng.choice(["Bern", "Zug"], 80)})
    return table.assign(wage=np.exp(2 + 0.01 * table["age"] + 0.3 * (table["site"] == "Zug") + 0.3 * rng.normal(size=80)))


@pytest.fixture(scope="module")
def fit(data):
    return nm.fit("log(wage) ~ age + tenure + site", data, draws=40, tune=40, chains=2, rng=1, progress=False)


@pytest.fixture(scope="module")
def one(data):
    return nm.fit("log(wage) ~ age", data, draws=40, tune=40, chains=2, rng=1, progress=False)


def lines(ax):
    return [line for line in ax.lines if len(line.get_xdata()) == 4]


@pytest.mark.parametrize(
    ("options", "predicted"),
    by_turns([
        ({}, {}), ({"kind": "quantile"}, {"kind": "quantile", "q": 0.5}),
        ({"kind": "exceedance", "y": 3.0}, {"kind": "exceedance", "at": [3.0]}),
        ({"kind": "cdf", "y": 20.0, "units": "response"}, {"kind": "cdf", "at": [20.0], "units": "response"}),
        ({"kind": "density", "y": 3.0}, {"kind": "density", "at": [3.0]}),
        ({"kind": "quantile", "q": 0.9, "units": "response"}, {"kind": "quantile", "q": 0.9, "units": "response"}),
    ], 2, 1),
)
def test_effects_are_predictions(fit, options, predicted):
    """A number and a factor together: the curve of each level is what `predict` says at held values."""
    axes = fit.plot("effects", Figure().subplots(1, 3), at={"tenure": 5.0}, **options, **FEW)
    assert [ax.get_xlabel() for ax in axes] == ["age", "tenure", "site"]
    curves = lines(axes[0])
    assert [line.get_label() for line in curves] == ["site = Bern", "site = Zug"]
    for line, level in zip(curves, ("Bern", "Zug"), strict=True):
        rows = pd.DataFrame({"age": line.get_xdata(), "tenure": 5.0, "site": level})
        assert line.get_ydata() == pytest.approx(fit.predict(rows, **predicted, draws=20)["estimate"].to_numpy())
    assert [tick.get_text() for tick in axes[2].get_xticklabels()] == ["Bern", "Zug"]


def test_names_of_axes(fit):
    ax = fit.plot("effects", Figure().subplots(), kind="exceedance", y=20, units="response", x="age", **FEW)
    assert ax.get_ylabel() == "P(wage > 20 | x)"
    strokes = ax.lines[0].get_ydata()
    assert set(np.round(strokes, 2)) == {-0.04, 1.04} and (strokes > 1).sum() == (np.exp(fit.model.frame.response[:, 0]) > 20).sum()
    mean = fit.plot("effects", Figure().subplots(), units="response", x="age", by="", **FEW)
    assert mean.get_ylabel() == "wage" and lines(mean)[0].get_label() == "posterior median of E[wage | x]"
    assert mean.lines[0].get_ydata() == pytest.approx(np.exp(fit.model.frame.response[:, 0]))
    several = fit.plot("effects", Figure().subplots(), kind="quantile", q=[0.1, 0.5, 0.9], x="age", **FEW)
    assert [line.get_label() for line in lines(several)] == ["10% and 90% quantiles", "median", "10% and 90% quantiles"]


def test_averages_of_probabilities(fit):
    ax = fit.plot("effects", Figure().subplots(), kind="exceedance", y=3.0, x="site", average=True, **FEW)
    estimate = ax.lines[-1].get_ydata()
    source = fit.model.frame.source
    some = source.iloc[np.unique(np.linspace(0, len(source) - 1, 12).astype(int))]
    for level, value in zip(("Bern", "Zug"), estimate, strict=True):
        wanted = fit.predict(some.assign(site=level), kind="exceedance", at=[3.0], draws=20)["estimate"].mean()
        assert value == pytest.approx(wanted, abs=1e-9)


def test_quantiles_over_several_covariates(fit, one):
    axes = fit.plot("quantiles", Figure().subplots(1, 3), q=[0.25, 0.5, 0.75], units="response", **FEW)
    assert [ax.get_ylabel() for ax in axes] == ["wage"] * 3 and len(lines(axes[0])) == 3
    assert one.plot("quantiles", Figure().subplots(), units="response", **FEW).get_ylabel() == "wage"
    with pytest.raises(ValueError, match="by is for several covariates"):
        one.plot("quantiles", Figure().subplots(), by="site")


@pytest.mark.parametrize("picture", ["mean", "conditional", "slices"])
def test_units_of_pictures_over_one_covariate(one, picture):
    ax = one.plot(picture, Figure().subplots(), units="response", draws=20, points=12)
    assert "wage" in (ax.get_ylabel(), ax.get_xlabel())
    low, high = ax.get_xlim() if picture == "slices" else ax.get_ylim()
    assert low > 0 or picture == "mean"
    assert high > np.exp(one.model.frame.response).max() * 0.9


def test_contrasts_of_every_kind(fit):
    values = {"site": ["Bern", "Zug"]}
    ax = fit.plot("contrasts", Figure().subplots(), kind="quantile", q=0.9, values=values, units="response", draws=20)
    assert ax.get_xlabel() == "difference of 90% quantile of wage" and ax.get_yticklabels()[0].get_text() == "site: Zug - Bern"
    wanted = fit.contrasts(values, "quantile", q=0.9, units="response", draws=20)["estimate"].iloc[0]
    assert ax.lines[-1].get_xdata()[0] == pytest.approx(wanted)


def test_contrasts_of_many_long_levels_leave_room_for_the_axes():
    h = np.arange(40) % 8
    data = pd.DataFrame({"y": np.random.default_rng(0).normal(size=40), "h": [f"level number {i} of the department" for i in h]})
    ax = nm.fit("y ~ h", data, draws=5, tune=5, chains=1, rng=1).plot("contrasts", draws=5)
    ax.figure.canvas.draw()
    assert ax.get_window_extent().width > 0.3 * ax.figure.bbox.width
    pyplot.close(ax.figure)


def test_what_is_refused(fit, one):
    with pytest.raises(ValueError, match=r"kind of effect 'quantil'.*quantile"):
        fit.plot("effects", kind="quantil")
    with pytest.raises(ValueError, match="a quantile has none"):
        fit.plot("effects", kind="quantile", y=1.0)
    with pytest.raises(ValueError, match="option of plot 'mean' 'kind'"):
        one.plot("mean", kind="quantile")
    assert one.plot(kind="mean", ax=Figure().subplots(), **FEW).get_ylabel() == "log(wage)"


# ---- mixtures, replicates and planes in the units of the column

@pytest.fixture(scope="module")
def mixture(data):
    table = data.assign(hours=np.exp(np.random.default_rng(2).normal(3.0, 0.2, 80)))
    return nm.fit("log(wage) + sqrt(hours) + age ~ 1", table, draws=40, tune=40, chains=2, rng=1, progress=False)


def test_density_of_a_response(mixture, data):
    ax = mixture.plot("density", Figure().subplots(), response="log(wage)", units="response", draws=20)
    line = next(one for one in ax.lines if one.get_label() == "posterior mean density")
    x, y = line.get_data()
    assert ax.get_xlabel() == "wage" and x.min() > 0 and np.trapezoid(y, x) == pytest.approx(1.0, abs=0.1)
    wanted = mixture.predict(kind="density", at=x, response="log(wage)", units="response", draws=20)["estimate"]
    np.testing.assert_array_equal(y, wanted)
    heights = [bar.get_height() * bar.get_width() for bar in ax.patches]
    assert sum(heights) == pytest.approx(1.0) and ax.patches[-1].get_x() + ax.patches[-1].get_width() == pytest.approx(data["wage"].max())


def test_densities_of_pairs(mixture, monkeypatch):
    from nrmmix.plots import mixtures

    seen = []
    monkeypatch.setattr(mixtures, "contours", lambda ax, x1, x2, values, named=True: seen.append((x1, x2, values)))
    axes = mixture.plot("density", units="response", draws=20, points=12)
    assert [ax.get_xlabel() for ax in axes[2]] == ["wage", "hours", "age"]
    (x1, x2, values), *_ = seen
    of_one = mixture.predict(kind="density", at=x1, response="log(wage)", units="response", draws=100)["estimate"].to_numpy()
    np.testing.assert_allclose(np.trapezoid(values, x2, axis=0), of_one, rtol=0.02, atol=0.01 * of_one.max())
    points = axes[1, 0].lines[0].get_xdata()
    assert np.array_equal(points, mixture.model.frame.source["wage"])


@pytest.mark.parametrize("curve", ["density", "ecdf"])
def test_replicates(one, data, curve):
    ax = one.plot("ppc", Figure().subplots(), units="response", draws=5, curve=curve)
    own = next(line for line in ax.lines if line.get_label() == "data")
    x, y = own.get_data()
    assert ax.get_xlabel() == "wage, over all rows" and x.min() > 0
    if curve == "ecdf":
        np.testing.assert_allclose(y, (data["wage"].to_numpy() <= x[:, None]).mean(axis=1))
        replicate = np.exp(one.simulate(draws=5, rng=None)["log(wage)"].to_numpy().reshape(5, -1)[0])
        np.testing.assert_allclose(ax.lines[0].get_ydata(), (replicate <= x[:, None]).mean(axis=1))
    else:
        assert np.trapezoid(y, x) == pytest.approx(1.0, abs=0.05)


def test_planes(fit):
    ax = fit.plot("surface", Figure().subplots(), units="response", draws=20, points=5)
    (image,), bar = ax.images, ax.figure.axes[-1]
    assert "posterior median of E[wage | x]" in bar.get_ylabel()
    assert 5 < image.get_array().min() and image.get_array().max() < 30
    points = next(one for one in ax.collections if len(one.get_offsets()) == 80)
    np.testing.assert_allclose(points.get_array(), fit.model.frame.source["wage"])


def test_survival():
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"t": np.exp(rng.normal(1, 0.7, 40)), "seen": rng.integers(0, 2, 40)})
    censored = nm.fit("Surv(log(t), seen) ~ 1", data, draws=20, tune=20, chains=2, rng=1, progress=False)
    plain = nm.fit("Surv(t, seen) ~ 1", data, draws=20, tune=20, chains=2, rng=1, progress=False)
    ax = censored.plot("survival", Figure().subplots(), draws=10, units="response")
    other = plain.plot("survival", Figure().subplots(), draws=10)
    assert ax.get_xlabel() == "t" and ax.lines[0].get_xdata().min() > 0
    (x, y), (u, v) = ax.lines[1].get_data(), other.lines[1].get_data()
    np.testing.assert_allclose((x[1:-1], y[1:-1]), (u[1:-1], v[1:-1]), err_msg="Kaplan-Meier is of the times, whatever their units")
    replicates = censored.plot("ppc", Figure().subplots(), units="response", draws=5)
    assert replicates.get_xlabel() == "t" and replicates.get_xlim()[0] > 0


def test_held_values_are_a_dict(fit):
    with pytest.raises(TypeError, match=r"at must be a dict of covariates and their values, not 1\.0; the point of .* is y="):
        fit.plot("effects", kind="exceedance", at=1.0)
