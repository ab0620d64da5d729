"""Pictures of densities, conditional distributions and replicates: artists show what was predicted."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from support import pictures
from support.pictures import FEW, fitted, labelled, legend, table, vertices

import nrmmix as nm
from nrmmix.plots import mixtures, predictive, style
from nrmmix.posterior.given import marginal_density

leaves_nothing = pictures.leaves_nothing
MEAN = "posterior mean of E[y | x]"


@pytest.fixture
def ax():
    return Figure().subplots()


def points(ax):
    return np.column_stack(labelled(ax, "data").get_data())


# ---- density


def test_density_of_one_response(ax):
    fit, observed = fitted("galaxy"), nm.datasets.load_galaxy()["velocity_km_s"]
    fit.plot("density", ax, draws=20, points=40)
    grid, values = labelled(ax, "posterior mean density").get_data()
    predicted = fit.predict(kind="density", at=grid, draws=20)
    assert len(grid) == 40 and grid[0] < observed.min() and grid[-1] > observed.max()
    assert np.array_equal(values, predicted["estimate"])
    assert {*predicted["lower"], *predicted["upper"]} <= vertices(labelled(ax, "90% credible band"))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("velocity_km_s", "density")
    assert legend(ax) == ["data", "90% credible band", "posterior mean density"]


def test_histogram_and_rug_show_the_data(ax):
    fitted("galaxy").plot("density", ax, **FEW)
    assert sum(bar.get_height() * bar.get_width() for bar in ax.patches) == pytest.approx(1.0)
    (rug,) = [one for one in ax.collections if isinstance(one, LineCollection)]
    assert np.array_equal([segment[0, 0] for segment in rug.get_segments()], nm.datasets.load_galaxy()["velocity_km_s"])


def test_a_rug_of_many_is_left_out(ax):
    style.rug(ax, np.arange(style.MAX_STROKES + 1.0))
    assert not ax.collections


def test_interval_names_the_band(ax):
    fitted("galaxy").plot("density", ax, interval=0.5, **FEW)
    assert "50% credible band" in legend(ax)


def test_contours_enclose_the_stated_probability(ax):
    fit = fitted("faithful")
    fit.plot("density", ax, draws=20, points=60)
    (lines,) = [one for one in ax.collections if getattr(one, "labelTexts", None)]
    assert {text.get_text() for text in lines.labelTexts} == {"50%", "80%", "95%"}
    x, y = (np.linspace(*limits, 60) for limits in (ax.get_xlim(), ax.get_ylim()))
    at = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    values = fit.predict(kind="density", at=at, draws=20)["estimate"].to_numpy()
    share = values / values.sum()
    inside = [share[values >= level].sum() for level in lines.levels]  # from the outermost to the innermost
    assert np.allclose(inside, [0.95, 0.8, 0.5], atol=0.02)
    assert np.array_equal(points(ax), nm.datasets.load_faithful().to_numpy())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("eruptions_min", "waiting_min")


def test_axes_of_the_plane_follow_the_order_of_the_names(ax):
    fit, other = fitted("faithful"), Figure().subplots()
    fit.plot("density", ax, **FEW)
    fit.plot("density", other, response=("waiting_min", "eruptions_min"), **FEW)
    assert np.array_equal(points(other), nm.datasets.load_faithful().to_numpy()[:, ::-1])
    levels = [next(one.levels for one in axes.collections if hasattr(one, "levels")) for axes in (ax, other)]
    assert np.allclose(*levels)


def test_level_outside_the_grid_is_left_out():
    values = np.full((10, 10), 0.006)  # holds 0.6
    assert mixtures.level_holding(values, 1.0, 0.5) == 0.006
    assert mixtures.level_holding(values, 1.0, 0.8) is None


@pytest.mark.nightly
def test_pairs_of_responses():
    fit = fitted("four")
    axes = fit.plot("density", **FEW)
    try:
        assert axes.shape == (4, 4) and sum(one.get_visible() for one in axes.ravel()) == 10
        for i, name in enumerate("abcd"):
            grid, values = labelled(axes[i, i], "posterior mean density").get_data()
            assert np.array_equal(values, fit.predict(kind="density", at=grid, response=name, draws=20)["estimate"])
            assert axes[3, i].get_xlabel() == name
            for j in range(i):
                assert np.array_equal(points(axes[i, j]), pictures.table()[["abcd"[j], name]])
                assert axes[i, j].get_xlim() == axes[j, j].get_xlim()
        assert [axes[i, 0].get_ylabel() for i in range(4)] == ["density", "b", "c", "d"]
    finally:
        pyplot.close(axes[0, 0].figure)


def test_one_of_several_responses(ax):
    fitted("four").plot("density", ax, response="c", **FEW)
    grid, values = labelled(ax, "posterior mean density").get_data()
    assert ax.get_xlabel() == "c"
    assert np.array_equal(values, fitted("four").predict(kind="density", at=grid, response="c", draws=20)["estimate"])


# ---- replicates


@pytest.mark.parametrize("curve", ["density", "ecdf"])
def test_replicates_beside_the_data(ax, curve):
    fit = fitted("two_responses")
    fit.plot("ppc", ax, response="b", curve=curve, draws=5, rng=3)
    x, of_data = labelled(ax, "data").get_data()
    simulated = fit.simulate(draws=5, rng=3)["b"].to_numpy().reshape(5, -1)
    observed = pictures.table()["b"].to_numpy()
    shape = predictive.smoothed(x, observed) if curve == "density" else predictive.ecdf(x)
    assert np.array_equal(of_data, shape(observed)) and len(ax.lines) == 6
    assert all(np.array_equal(line.get_ydata(), shape(values)) for line, values in zip(ax.lines, simulated))
    assert legend(ax) == ["5 replicates", "data"] and ax.get_xlabel() == "b, over all rows"


def test_replicates_of_a_mixture_are_not_called_pooled(ax):
    fitted("galaxy").plot("ppc", ax, draws=2)
    assert ax.get_xlabel() == "velocity_km_s"


def test_smoothing_against_the_sum_of_kernels():
    rng = np.random.default_rng(1)
    observed, values = rng.normal(size=200), rng.normal(size=300) * 2
    x = style.padded(observed, 0.2, predictive.CELLS)
    iqr = np.subtract(*np.quantile(observed, [0.75, 0.25]))
    width = 0.9 * min(observed.std(), iqr / 1.34) * 200**-0.2
    exact = np.exp(-0.5 * ((x[:, None] - values) / width) ** 2).mean(axis=1) / (width * np.sqrt(2 * np.pi))
    # Values are moved by up to half a cell, 0.006.
    assert np.abs(predictive.smoothed(x, observed)(values) - exact).max() < 0.01 * exact.max()


def test_ecdf_counts_values_at_the_point():
    assert list(predictive.ecdf(np.array([0.0, 1.0, 2.0]))(np.array([1.0, 1.0, 3.0, -1.0]))) == [0.25, 0.75, 0.75]


# ---- density regression


def test_mean_with_its_band(ax):
    fit, observed = fitted("mcycle"), nm.datasets.load_mcycle()
    fit.plot("mean", ax, **FEW)
    x, curve = labelled(ax, MEAN).get_data()
    predicted = fit.predict({"times_ms": x}, draws=20)
    assert (x[0], x[-1], len(x)) == (observed["times_ms"].min(), observed["times_ms"].max(), 15)
    assert np.array_equal(curve, predicted["estimate"])
    assert {*predicted["lower"], *predicted["upper"]} <= vertices(labelled(ax, "90% credible band"))
    assert np.array_equal(points(ax), observed.to_numpy())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("times_ms", "accel_g")


def test_mean_of_one_of_several_responses(ax):
    fit = fitted("two_responses")
    fit.plot("mean", ax, response="b", **FEW)
    x, curve = labelled(ax, MEAN).get_data()
    assert np.array_equal(curve, fit.predict({"x": x}, response="b", draws=20)["estimate"]) and ax.get_ylabel() == "b"


@pytest.mark.parametrize(("name", "column", "levels"), [("levels", "group", ["blue", "red"]), ("counted", "k", [1, 2, 3])])
def test_mean_at_levels(ax, name, column, levels):
    fit = fitted(name)
    fit.plot("mean", ax, draws=20)
    predicted = fit.predict({column: levels}, draws=20)
    x, strokes = labelled(ax, MEAN).get_data()
    assert np.array_equal(x, range(len(levels))) and np.array_equal(strokes, predicted["estimate"])
    bars = [segment[:, 1] for segment in labelled(ax, "90% credible band").get_segments()]
    assert np.array_equal(bars, predicted[["lower", "upper"]])
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [str(level) for level in levels]
    data = points(ax)
    assert np.array_equal(data[:, 1], pictures.table()["a"])
    assert [levels[int(place)] for place in np.round(data[:, 0])] == list(pictures.table()[column])


def test_quantiles_with_the_band_of_the_median(ax):
    fit = fitted("mcycle")
    fit.plot("quantiles", ax, q=[0.9, 0.5, 0.1], **FEW)
    x = labelled(ax, "median").get_xdata()
    predicted = fit.predict({"times_ms": x}, "quantile", q=[0.1, 0.5, 0.9], draws=20)
    drawn = {line.get_label(): line.get_ydata() for line in ax.lines}
    assert np.array_equal(drawn["median"], predicted["estimate"].xs(0.5, level="q"))
    low, high = (line.get_ydata() for line in ax.lines[-2:])
    assert np.array_equal(low, predicted["estimate"].xs(0.1, level="q")) and drawn["10% and 90%"] is low
    assert np.array_equal(high, predicted["estimate"].xs(0.9, level="q"))
    median = predicted.xs(0.5, level="q")
    assert {*median["lower"], *median["upper"]} <= vertices(labelled(ax, "90% credible band of the median"))
    assert legend(ax) == ["data", "90% credible band of the median", "median", "10% and 90%"]


def test_conditional_density_as_an_image(ax):
    fit = fitted("mcycle")
    fit.plot("conditional", ax, draws=20, points=40)
    (image,) = ax.images
    left, right, bottom, top = image.get_extent()
    x, y = ((np.arange(40) + 0.5) / 40 * (high - low) + low for low, high in ((left, right), (bottom, top)))
    predicted = fit.predict({"times_ms": x}, "density", at=y, draws=20)
    assert np.allclose(image.get_array(), predicted["estimate"].to_numpy().reshape(40, 40).T, rtol=1e-6)
    assert image.colorbar.ax.get_ylabel() == "density of accel_g"
    assert legend(ax) == ["data", "median", "5% and 95%"]
    assert np.array_equal(points(ax), nm.datasets.load_mcycle().to_numpy())


def test_quantiles_on_the_image_are_those_of_predict(ax):
    fit = fitted("mcycle")
    fit.plot("conditional", ax, draws=20, points=40)
    x = labelled(ax, "median").get_xdata()
    exact = fit.predict({"times_ms": x}, "quantile", draws=20)["estimate"].unstack("q").to_numpy()
    drawn = np.column_stack([ax.lines[k].get_ydata() for k in (2, 1, 3)])
    inside = np.isfinite(drawn)
    assert inside.mean() > 0.9 and inside[:, 1].all()
    # Interpolated between points of the image: where a narrow peak stands between two of them, off by less than their distance.
    step = np.ptp(ax.get_ylim()) / 39
    assert np.abs(drawn - exact)[inside].max() < step and np.median(np.abs(drawn - exact)[inside]) < 0.15 * step


def test_slices_one_above_the_other(ax):
    fit = fitted("mcycle")
    fit.plot("slices", ax, x=[30.0, 10.0], **FEW)
    lines = [line for line in ax.lines if len(line.get_xdata()) == 15]
    predicted = fit.predict({"times_ms": [30.0, 10.0]}, "density", at=lines[0].get_xdata(), draws=20).to_numpy().reshape(2, 15, 3)
    for foot, (line, values) in enumerate(zip(lines, predicted, strict=True)):
        height = (line.get_ydata() - foot) / values[:, 0]
        assert np.allclose(height, height[0]) and 0 < (values[:, 2] * height[0]).max() < 1
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["30", "10"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("accel_g", "times_ms")


def test_default_slices(ax):
    fitted("mcycle").plot("slices", ax, **FEW)
    shown = [float(tick.get_text()) for tick in ax.get_yticklabels()]
    observed = nm.datasets.load_mcycle()["times_ms"]
    assert shown == [*np.quantile(observed, [0.1, 0.3, 0.5, 0.7, 0.9], method="nearest")]
    other = fitted("levels").plot("slices", Figure().subplots(), **FEW)
    assert [tick.get_text() for tick in other.get_yticklabels()] == ["blue", "red"]


def test_transformed_covariates_are_drawn_over_their_column(ax):
    fit = fitted("dollars")
    fit.plot("mean", ax, **FEW)
    x, curve = labelled(ax, MEAN).get_data()
    assert x[-1] == pictures.table()["x"].max()
    assert np.array_equal(curve, fit.predict({"x": x}, draws=20)["estimate"])


def test_nothing_is_drawn_out_of_reach(ax):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(0, 0.2, 15), rng.uniform(0.8, 1, 15)])
    fit = nm.fit("y ~ x", pd.DataFrame({"x": x, "y": rng.normal(size=30)}), kernel=nm.Box(0.1), draws=4, tune=0, chains=1, rng=1)
    fit.plot("conditional", ax, draws=4, points=21)
    grid, curve = labelled(ax, "median").get_data()
    far = np.abs(grid[:, None] - x).min(axis=1) > 0.1 * np.ptp(x)
    assert far.any() and np.array_equal(np.isnan(curve), far)
    assert np.array_equal(np.isnan(np.ma.filled(ax.images[0].get_array(), np.nan)).all(axis=0), far)
    with pytest.raises(ValueError, match="out of reach"):
        fit.plot("slices", x=[0.5])


# ---- several covariates


def test_effects_are_predictions_at_held_values():
    fit = fitted("mixed")
    axes = fit.plot("effects", response="b", at={"x": 2.0}, by="", draws=20, points=7)
    try:
        assert [one.get_xlabel() for one in axes] == ["x", "group"]
        curve = axes[0].lines[-1]
        often = table()["group"].mode()[0]
        new = pd.DataFrame({"x": curve.get_xdata(), "group": often})
        np.testing.assert_allclose(curve.get_ydata(), fit.predict(new, response="b", draws=20)["estimate"])
        at_levels = fit.predict(pd.DataFrame({"x": 2.0, "group": ["blue", "red"]}), response="b", draws=20)["estimate"]
        np.testing.assert_allclose(axes[1].lines[-1].get_ydata(), at_levels)
        assert f"group = {often}" in axes[0].get_title(loc="right")
    finally:
        pyplot.close("all")


def test_effects_by_a_category_and_averaged():
    fit = fitted("mixed")
    axes = fit.plot("effects", draws=20, points=5)
    labels = [line.get_label() for line in axes[0].lines[1:]]
    assert labels == ["group = blue", "group = red"]
    axes = fit.plot("effects", average=True, by="", draws=20, points=5)
    curve = axes[0].lines[-1]
    rows = table().iloc[np.unique(np.linspace(0, 39, 12).astype(int))]
    expected = [fit.predict(rows.assign(x=x), response="a", draws=20)["estimate"].mean() for x in curve.get_xdata()]
    np.testing.assert_allclose(curve.get_ydata(), expected, rtol=1e-9)
    pyplot.close("all")
    with pytest.raises(ValueError, match="unknown covariate 'z'; there are 'x', 'group'"):
        fit.plot("effects", at={"z": 1})
    with pytest.raises(ValueError, match="unknown category among the covariates 'x'"):
        fit.plot("effects", by="x")


def test_surface_and_contrasts_are_predictions():
    fit = fitted("three")
    ax = fit.plot("surface", x=["c", "x"], at={"b": 0.5}, draws=20, points=6)
    image = ax.images[0].get_array()
    low, high, bottom, top = ax.images[0].get_extent()
    step = (high - low) / 6, (top - bottom) / 6
    new = pd.DataFrame({"b": [0.5], "c": [low + 1.5 * step[0]], "x": [bottom + 2.5 * step[1]]})
    assert image[2, 1] == pytest.approx(fit.predict(new, draws=20)["estimate"].iloc[0])
    pyplot.close("all")
    with pytest.raises(ValueError, match="x must name two of the covariates b, c, x"):
        fit.plot("surface", x=["b"])
    ax = fit.plot("contrasts", values={"b": [0.0, 1.0]}, draws=20)
    expected = fit.contrasts({"b": [0.0, 1.0]}, draws=20)["estimate"]
    np.testing.assert_allclose(ax.lines[-1].get_xdata(), expected)
    pyplot.close("all")


def test_contours_of_pairs_are_marginals():
    """The joint density of two of four responses is the joint of all with the others integrated out."""
    fit = fitted("four")
    at = np.array([[0.1, -0.3], [1.0, 0.5]])
    found = marginal_density(fit.posterior, ("b", "d"), at, 10**6)
    rows = pd.DataFrame({"a": np.nan, "b": at[:, 0], "c": np.nan, "d": at[:, 1]})
    np.testing.assert_allclose(found, np.exp(fit.log_density(rows, draws=None)), rtol=1e-9)
    axes = fit.plot("density", draws=20, points=20)
    assert all(axes[i, j].collections for i, j in zip(*np.tril_indices(4, -1)))
    pyplot.close("all")


@pytest.mark.filterwarnings("ignore:.*quartile ranges away:UserWarning")
def test_one_far_cluster_does_not_wash_out_the_others():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [40, 40, 2])
    X = rng.normal(size=(82, 8)) + np.array([0.0, 3.0, 300.0])[labels][:, None]
    fit = nm.Model(data=X, family=nm.Gaussian("diagonal")).fit(draws=5, tune=0, chains=1, rng=1, init=labels)
    ax = fit.plot("profiles")
    image = ax.images[0]
    z, bound = np.asarray(image.get_array()), image.norm.vmax
    near = [k for k, size in enumerate(fit.partition().sizes) if size > 10]
    assert np.abs(z[:, near[0]] - z[:, near[1]]).min() > 0.2 * bound and np.abs(z).max() > 3 * bound
    pyplot.close("all")
