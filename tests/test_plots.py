"""Pictures: artists show what was predicted, and axes come back."""

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import nrmmix as nm
from nrmmix import plots

RUN = {"draws": 50, "tune": 20, "chains": 2, "rng": 1, "cores": 1}
FEW = {"draws": 20, "points": 15}


@pytest.fixture(scope="module")
def galaxy():
    return nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), **RUN)


@pytest.fixture(scope="module")
def faithful():
    return nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), **RUN)


@pytest.fixture(scope="module")
def mcycle():
    return nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), **RUN)


@pytest.fixture
def ax():
    return Figure().subplots()


@pytest.fixture(autouse=True)
def no_figure_is_left():
    before = pyplot.get_fignums()
    yield
    assert pyplot.get_fignums() == before


def labelled(ax, label):
    (artist,) = [child for child in ax.get_children() if child.get_label() == label]
    return artist


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# ---- mixtures


def test_density_of_one_response(galaxy, ax):
    assert galaxy.plot(ax=ax, draws=20, points=40) is ax
    grid, values = labelled(ax, "posterior mean density").get_data()
    table = galaxy.predict(kind="density", at=grid, draws=20)
    observed = nm.datasets.load_galaxy()["velocity_km_s"]
    assert len(grid) == 40 and grid[0] < observed.min() and grid[-1] > observed.max()
    assert np.array_equal(values, table["estimate"])
    band = labelled(ax, "90% credible band").get_paths()[0].vertices
    assert {*table["lower"], *table["upper"]} <= set(band[:, 1])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("velocity_km_s", "density")
    assert legend(ax) == ["data", "90% credible band", "posterior mean density"]


def test_histogram_and_rug_show_the_data(galaxy, ax):
    galaxy.plot(ax=ax, **FEW)
    assert sum(bar.get_height() * bar.get_width() for bar in ax.patches) == pytest.approx(1.0)
    (rug,) = [one for one in ax.collections if isinstance(one, LineCollection)]
    observed = nm.datasets.load_galaxy()["velocity_km_s"]
    assert np.array_equal([segment[0, 0] for segment in rug.get_segments()], observed)


def test_interval_names_the_band(galaxy, ax):
    galaxy.plot("density", ax, interval=0.5, **FEW)
    assert "50% credible band" in legend(ax)


def test_contours_enclose_the_stated_probability(faithful, ax):
    faithful.plot(ax=ax, draws=20, points=60)
    (lines,) = [one for one in ax.collections if getattr(one, "labelTexts", None)]
    assert {text.get_text() for text in lines.labelTexts} == {"50%", "80%", "95%"}
    x, y = (np.linspace(*limits, 60) for limits in (ax.get_xlim(), ax.get_ylim()))
    at = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    values = faithful.predict(kind="density", at=at, draws=20)["estimate"].to_numpy()
    share = values / values.sum()
    inside = [share[values >= level].sum() for level in lines.levels]  # from the outermost to the innermost
    assert np.allclose(inside, [0.95, 0.8, 0.5], atol=0.02)
    points = labelled(ax, "data")
    assert np.array_equal(np.column_stack(points.get_data()), nm.datasets.load_faithful().to_numpy())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("eruptions_min", "waiting_min")


def test_level_outside_the_grid_is_left_out():
    values = np.full((10, 10), 0.006)  # holds 0.6
    assert plots._level(values, 1.0, 0.5) == 0.006
    assert plots._level(values, 1.0, 0.8) is None


def test_more_responses_have_no_picture():
    iris = nm.datasets.load_iris().drop(columns="species")
    with pytest.raises(ValueError, match=r"one or two responses, not 4 .*not available yet"):
        plots.check(nm.Model(data=iris))


# ---- density regression


def test_mean_with_its_band(mcycle, ax):
    assert mcycle.plot("mean", ax, **FEW) is ax
    x, curve = labelled(ax, "posterior mean of E[y | x]").get_data()
    table = mcycle.predict({"times_ms": x}, draws=20)
    observed = nm.datasets.load_mcycle()
    assert (x[0], x[-1], len(x)) == (observed["times_ms"].min(), observed["times_ms"].max(), 15)
    assert np.array_equal(curve, table["estimate"])
    band = labelled(ax, "90% credible band").get_paths()[0].vertices
    assert {*table["lower"], *table["upper"]} <= set(band[:, 1])
    assert np.array_equal(np.column_stack(labelled(ax, "data").get_data()), observed.to_numpy())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("times_ms", "accel_g")


def test_conditional_density_as_an_image(mcycle, ax):
    assert mcycle.plot("conditional", ax, **FEW) is ax
    (image,) = ax.images
    left, right, bottom, top = image.get_extent()
    x, y = ((np.arange(15) + 0.5) / 15 * (high - low) + low for low, high in ((left, right), (bottom, top)))
    table = mcycle.predict({"times_ms": x}, "density", at=y, draws=20)
    assert np.allclose(image.get_array(), table["estimate"].to_numpy().reshape(15, 15).T, rtol=1e-6)
    assert image.colorbar.ax.get_ylabel() == "density of accel_g"
    assert legend(ax) == ["data", "posterior mean of E[y | x]"]
    x, curve = labelled(ax, "posterior mean of E[y | x]").get_data()
    assert np.array_equal(curve, mcycle.predict({"times_ms": x}, draws=20)["estimate"])
    assert np.array_equal(np.column_stack(labelled(ax, "data").get_data()), nm.datasets.load_mcycle().to_numpy())


def test_both_kinds_side_by_side(mcycle):
    axes = mcycle.plot(**FEW)
    try:
        assert axes.shape == (2,) and axes[0].figure is axes[1].figure
        assert not axes[0].images and len(axes[1].images) == 1
        assert axes[0].get_ylim() == axes[1].get_ylim() and axes[0].get_xlim() == axes[1].get_xlim()
    finally:
        pyplot.close(axes[0].figure)


def test_a_new_figure_is_made_without_ax(galaxy):
    made = galaxy.plot(**FEW)
    try:
        assert pyplot.fignum_exists(made.figure.number)
    finally:
        pyplot.close(made.figure)


def test_one_ax_shows_the_mean(mcycle, ax):
    assert mcycle.plot(ax=ax, **FEW) is ax
    assert not ax.images


def test_transformed_covariates_are_drawn_over_their_column(ax):
    fit = nm.fit("accel_g ~ log(times_ms)", nm.datasets.load_mcycle(), draws=4, tune=0, chains=1, rng=1)
    fit.plot("mean", ax, **FEW)
    assert ax.get_xlabel() == "times_ms"
    assert labelled(ax, "posterior mean of E[y | x]").get_xdata()[-1] == nm.datasets.load_mcycle()["times_ms"].max()


def test_nothing_is_drawn_out_of_reach(ax):
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(0, 0.2, 15), rng.uniform(0.8, 1, 15)])
    table = pd.DataFrame({"x": x, "y": rng.normal(size=30)})
    fit = nm.fit("y ~ x", table, kernel=nm.Box(0.1), draws=4, tune=0, chains=1, rng=1)
    fit.plot("conditional", ax, draws=4, points=21)
    grid, curve = labelled(ax, "posterior mean of E[y | x]").get_data()
    far = np.abs(grid[:, None] - x).min(axis=1) > 0.1 * np.ptp(x)
    assert far.any() and np.array_equal(np.isnan(curve), far)
    assert np.array_equal(np.isnan(np.ma.filled(ax.images[0].get_array(), np.nan)).all(axis=0), far)


def test_dollar_signs_in_names_are_letters(ax):
    table = pd.DataFrame({"$x_$": np.random.default_rng(1).normal(size=20)})
    fit = nm.Model(data=table).fit(draws=4, tune=0, chains=1, rng=1)
    fit.plot(ax=ax, **FEW)
    ax.figure.canvas.draw()
    assert ax.get_xlabel() == r"\$x_\$"


# ---- refusals


def test_unknown_names_say_what_there_is(mcycle):
    with pytest.raises(ValueError, match="kind of plot 'means'; there are 'density', 'mean', 'conditional'; did you mean 'mean'"):
        mcycle.plot("means")
    with pytest.raises(ValueError, match=r"unknown option 'point'; .*did you mean 'points'"):
        mcycle.plot("mean", point=3)


def test_kinds_that_do_not_suit_the_model(galaxy, mcycle):
    with pytest.raises(ValueError, match="'density' does not suit density regression; there is 'mean' or 'conditional'"):
        mcycle.plot("density")
    with pytest.raises(ValueError, match="'mean' does not suit a mixture; there is 'density'"):
        galaxy.plot("mean")


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ x + z", r"one covariate, not 2 \(x, z\)"),
        ("y + z ~ x", "one response, not 2"),
        ("y ~ g", "numeric covariate; 'g' has levels"),
        ("y ~ C(k)", "numeric covariate; 'k' has levels"),
    ],
)
def test_regressions_without_a_picture(formula, message):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(rng.normal(size=(20, 3)), columns=["x", "y", "z"]).assign(g=["a", "b"] * 10, k=[1, 2] * 10)
    with pytest.raises(ValueError, match=message):
        plots.check(nm.Model(formula, table))


def test_points_must_be_a_number(galaxy, ax):
    with pytest.raises(ValueError, match="points must be an integer of at least 2, not 1"):
        galaxy.plot(ax=ax, points=1)
