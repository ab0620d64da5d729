"""Pictures in general: every kind draws for every model that it suits, and all else is refused in words."""

import inspect
from typing import get_args, get_type_hints

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from support import pictures
from support.cover import by_turns
from support.pictures import FEW, MODELS, RUN, fitted, flat, labelled, legend, table

import nrmmix as nm
from nrmmix import plots
from nrmmix.plots.kinds import KINDS, ORDER

leaves_nothing = pictures.leaves_nothing
ALWAYS = {"ppc", "similarity", "n_clusters", "trace", "autocorrelation"}
CLASSES = ("faithful", "four", "seven", "nggp", "fixed", "width", "levels", "two_responses", "mixed", "three")
RENDERED = ("four", "levels", "two_responses")  # layout and ink take most of the time


def options(kind):
    return {name: value for name, value in FEW.items() if kind in KINDS and name in KINDS[kind].options}


@pytest.mark.parametrize("name", by_turns(CLASSES))
def test_every_available_kind_draws(name):
    fit = fitted(name)
    kinds = plots.available(fit.model)
    assert {*kinds} >= ALWAYS and list(kinds) == [kind for kind in ORDER if kind in kinds]
    for kind in kinds:
        axes = fit.plot(kind, **options(kind))
        try:
            made = [one for one in flat(axes) if one.get_visible()]
            assert made and all(isinstance(one, Axes) and one.has_data() for one in made)
            assert made[0].figure is pyplot.gcf() and all(one.figure is made[0].figure for one in made)
            if name in RENDERED:
                made[0].figure.canvas.draw()
        finally:
            pyplot.close("all")


@pytest.mark.parametrize("name", by_turns(MODELS))
def test_what_is_not_available_is_refused(name):
    model = fitted(name).model
    for kind in {*KINDS} - {*plots.available(model)}:
        with pytest.raises(ValueError, match=rf"plot '{kind}' needs .*; for this model there are .*'trace'"):
            plots.check(model, kind)
        with pytest.raises(ValueError, match=f"plot '{kind}' needs "):
            KINDS[kind].draw(fitted(name))


@pytest.mark.parametrize(
    ("formula", "method"), [("y ~ 1", "vb"), ("y ~ x", "vb"), ("y ~ 1", "bhc"), ("y ~ 1", "gibbs"), ("y ~ x", "gibbs")]
)
def test_every_kind_that_a_fit_has_draws(formula, method):
    """And no other: variational fits have no traces, searches what they say, and chains nothing of draws that were left out."""
    x = np.linspace(0, 1, 40)
    model = nm.Model(formula, {"y": 2 * x + np.random.default_rng(1).normal(0, 0.2, 40), "x": x})
    stores = ["all", "partition", "scalars"] if method == "gibbs" else [None]
    for store in stores:
        run = {"draws": 5, "tune": 5, "chains": 1, "store": store} if store else {}
        fit = model.fit(method, rng=1, progress=False, **run)
        kinds = plots.available(fit)
        for kind in kinds:
            fit.plot(kind, **options(kind))
            pyplot.close("all")
        for kind in {*plots.available(model), "elbo"} - {*kinds}:
            with pytest.raises(ValueError, match=r"unknown kind of plot|the fit has no draws of"):
                fit.plot(kind)


def test_hints_name_every_kind_and_every_option():
    """What editors complete and type checkers read."""
    from nrmmix.plots.methods import trees, variational
    from nrmmix.results.shown import PlotKind, PlotOptions

    own = [trees.dendrogram, *variational.OWN.values()]
    assert {*get_args(PlotKind)} == {*KINDS} | {one.__name__ for one in own}
    taken = {name for one in KINDS.values() for name in one.options}
    taken |= {one.name for draw in own for one in inspect.signature(draw).parameters.values() if one.kind is one.KEYWORD_ONLY}
    assert {*get_type_hints(PlotOptions)} == taken
    assert inspect.signature(nm.fit).parameters.keys() >= inspect.signature(nm.Model.fit).parameters.keys() - {"self"}


def test_kinds_are_public_functions_with_examples():
    assert {*KINDS} == {*ORDER} == {*plots.__all__} - {"available", "check", "plot"}
    for name, one in KINDS.items():
        assert getattr(plots, name) is one.draw and ">>>" in one.draw.__doc__
        (row,) = [line.split("  ") for line in plots.plot.__doc__.splitlines() if line.startswith(f"    {name} ")]
        described = row[-1].replace("bands", "draws, interval, rng") if one.options else ""
        assert tuple(described.strip().split(", ")) == (one.options or ("",))


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("galaxy", ("density",)), ("faithful", ("density",)), ("four", ("density",)), ("seven", ("profiles",)),
        ("mcycle", ("mean", "conditional")), ("levels", ("mean",)), ("two_responses", ("mean",)),
        ("plane", ("effects",)), ("three", ("effects",)), ("mixed", ("effects",)),
    ],
)  # fmt: skip
def test_default_kinds(name, kinds):
    assert plots.check(fitted(name).model) == kinds


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("mcycle", "density", "needs a mixture, and this is density regression"),
        ("seven", "density", "at most 6 responses, not 7"),
        ("galaxy", "mean", "needs density regression, and this is a mixture"),
        ("plane", "slices", r"one covariate, not 2 \(x, b\)"),
        ("levels", "conditional", "numeric covariate, and 'group' has levels"),
        ("counted", "conditional", "numeric covariate, and 'k' has levels"),
        ("three", "clusters", r"at most two covariates, not 3 \(b, c, x\)"),
        ("fixed", "prior_posterior", "a hyperparameter that is sampled, and all are fixed"),
    ],
)
def test_refusals_say_what_is_needed(name, kind, message):
    with pytest.raises(ValueError, match=message):
        plots.check(fitted(name).model, kind)


def test_unknown_names_say_what_there_is():
    message = r"unknown kind of plot 'means'; there are 'components', 'density', 'mean', .*; did you mean 'mean'"
    with pytest.raises(ValueError, match=message):
        fitted("mcycle").plot("means")
    with pytest.raises(ValueError, match=r"option of plot 'mean' 'point'; there are 'response', 'points', .*did you mean 'points'"):
        fitted("mcycle").plot("mean", point=3)
    with pytest.raises(ValueError, match="option of plot 'similarity' 'draws'; there are 'loss'"):
        fitted("mcycle").plot("similarity", draws=3)
    with pytest.raises(ValueError, match="option of plot 'n_clusters' 'draws'; there are none"):
        fitted("mcycle").plot("n_clusters", draws=3)
    with pytest.raises(ValueError, match="unknown response 'e'; there are 'a', 'b'"):
        fitted("two_responses").plot("mean", response="e")
    with pytest.raises(ValueError, match="once each"):
        fitted("two_responses").plot("mean", response=["a", "a"])


@pytest.mark.parametrize(
    ("name", "kind", "wrong", "message"),
    [
        ("galaxy", "density", {"points": 1}, "points must be an integer of at least 2, not 1"),
        ("galaxy", "density", {"interval": 2}, "interval must be between 0 and 1"),
        ("galaxy", "similarity", {"loss": "ari"}, "loss"),
        ("galaxy", "ppc", {"curve": "box"}, "unknown curve 'box'; there are 'density', 'ecdf'"),
        ("galaxy", "ppc", {"draws": 0}, "draws must be an integer of at least 1"),
        ("galaxy", "trace", {"name": "sigma"}, "'sigma' is fixed"),
        ("galaxy", "autocorrelation", {"name": "masses"}, "unknown quantity 'masses'; .*did you mean 'mass'"),
        ("galaxy", "prior_posterior", {"name": "sigma"}, "unknown sampled hyperparameter 'sigma'; there are 'mass'"),
        ("mcycle", "quantiles", {"q": [0.5, 2]}, "probabilities between 0 and 1"),
        ("mcycle", "slices", {"x": []}, "x is empty"),
        ("levels", "slices", {"x": ["red", "green"]}, "green"),
        ("plane", "clusters", {"response": "a"}, "shows no response"),
    ],
)
def test_wrong_options_are_refused_and_leave_no_figure(name, kind, wrong, message):
    with pytest.raises(ValueError, match=message):
        fitted(name).plot(kind, **wrong)


# ---- axes


def test_given_axes_come_back():
    ax = Figure().subplots()
    for name, kind in (("galaxy", "density"), ("faithful", "density"), ("mcycle", "mean"), ("galaxy", "similarity"), ("seven", "clusters")):
        ax = Figure().subplots()
        assert fitted(name).plot(kind, ax, **options(kind)) is ax and ax.has_data()
    assert fitted("mcycle").plot(ax=ax, **FEW) is ax and not ax.images  # of the two kinds the mean


def test_as_many_axes_as_pictures():
    axes = Figure().subplots(1, 2)
    made = fitted("two_responses").plot("mean", axes, **FEW)
    assert list(made) == list(axes) and [one.get_ylabel() for one in axes] == ["a", "b"]
    assert legend(axes[0]) == ["data", "90% credible band", "posterior mean of E[y | x]"] and axes[1].get_legend() is None
    with pytest.raises(ValueError, match=r"ax holds 1 axes for 2 pictures \(a, b\); give as many, or choose among them by response="):
        fitted("two_responses").plot("mean", axes[0], **FEW)
    with pytest.raises(ValueError, match=r"ax holds 2 axes for 1 pictures \(similarity\); give as many.$"):
        fitted("galaxy").plot("similarity", axes)
    with pytest.raises(TypeError, match="ax must be matplotlib Axes or an array of them, not Figure"):
        fitted("galaxy").plot(ax=Figure())
    for kind in ("density", "clusters"):
        with pytest.raises(ValueError, match="leave out ax"):
            fitted("four").plot(kind, axes)


def test_two_kinds_side_by_side():
    axes = fitted("mcycle").plot(**FEW)
    try:
        assert axes.shape == (2,) and axes[0].figure is axes[1].figure
        assert not axes[0].images and len(axes[1].images) == 1
        assert axes[0].get_ylim() == axes[1].get_ylim() and axes[0].get_xlim() == axes[1].get_xlim()
    finally:
        pyplot.close(axes[0].figure)


def test_one_legend_for_several_panels():
    axes = fitted("two_responses").plot("mean", **FEW)
    try:
        (of_all,) = axes[0].figure.legends
        assert [text.get_text() for text in of_all.get_texts()] == ["data", "90% credible band", "posterior mean of E[y | x]"]
        assert all(one.get_legend() is None for one in axes)
    finally:
        pyplot.close(axes[0].figure)


def test_a_long_legend_takes_several_rows():
    axes = [Figure(figsize=size).subplots() for size in ((10, 4), (3, 4))]
    for ax in axes:
        fitted("galaxy").plot("density", ax, **FEW)
    assert [ax.get_legend()._ncols for ax in axes] == [3, 1]


def test_dollar_signs_in_names_are_letters():
    ax = fitted("dollars").plot("mean", Figure().subplots(), **FEW)
    ax.figure.canvas.draw()
    assert ax.get_ylabel() == r"\$_\$" and ax.get_xlabel() == "x"


def test_levels_of_a_covariate_are_read_back():
    columns = fitted("counted").model.frame.covariate_columns
    assert columns == {"k": (1.0, 2.0, 3.0)}
    assert fitted("mixed").model.frame.covariate_columns == {"x": None, "group": ("blue", "red")}
    assert fitted("spline").model.frame.covariate_columns == {"x": None}
    assert fitted("galaxy").model.frame.covariate_columns == {}


def test_one_row_and_one_draw_can_be_drawn():
    data = table()[["a", "b"]].iloc[:1]
    family = nm.Gaussian(scale=np.eye(2))
    fit = nm.Model(data=data, family=family).fit(**RUN | {"draws": 1, "chains": 1})
    for kind in {*plots.available(fit.model)} - {"prior_posterior"}:
        axes = fit.plot(kind, **options(kind))
        pyplot.close(flat(axes)[0].figure)
    assert labelled(fit.plot("prior_posterior", Figure().subplots()), "posterior") is not None


HOSTILE = {"red": "r\x1b[31med", "blue": "bl\u202eue"}
UNSEEN = {
    "mixture": lambda: nm.Model(data=table()[["a", "b"]].set_axis(["a\x1b[2J", "b\n$c$"], axis=1)),
    "many": lambda: nm.Model(data=table()[list("abcdefg")].set_axis([f"{name}\x07\t$" for name in "abcdefg"], axis=1)),
    "counts": lambda: nm.Model(
        data=(9 * table()[["a", "b", "c"]].abs()).astype(int).set_axis(["u\x00", "v\r", "w\u200b"], axis=1), family=nm.Multinomial()
    ),
    "levels": lambda: nm.Model("a ~ group", table().assign(group=table()["group"].map(HOSTILE))),
    "mixed": lambda: nm.Model("a + b ~ x + group", table().assign(group=table()["group"].map(HOSTILE))),
    "categories": lambda: nm.Model("group ~ x", table().assign(group=table()["group"].map(HOSTILE)), family=nm.Categorical()),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", by_turns(UNSEEN, 6, 4))
def test_characters_that_are_not_seen_are_escaped(name):
    """In labels, ticks, titles and legends of every picture a name from the data neither breaks lines nor hides nor starts mathematics."""
    fit = UNSEEN[name]().fit(**RUN)
    for kind in plots.available(fit.model):
        axes = flat(fit.plot(kind, **options(kind)))
        figure = axes[0].figure
        try:
            figure.canvas.draw()
            for one in figure.findobj(Text):
                shown = one.get_text()
                assert all(line.isprintable() for line in shown.split("\n")), (kind, shown)
                assert shown.count("$") == shown.count(r"\$") or "mathdefault" in shown or "times10" in shown, (kind, shown)
                several = ("autocorrelation of", "mean, in standard deviations", "share of rows", "sd of E[")
                assert "\n" not in shown or shown.startswith(several), (kind, shown)
        finally:
            pyplot.close(figure)


def test_axes_with_a_logarithmic_scale_keep_it():
    fit = nm.fit("a ~ 1", {"a": np.r_[np.arange(10.0), 30 + np.arange(10.0)]}, draws=10, tune=10, chains=1, rng=1)
    ax = Figure().subplots()
    ax.set_yscale("log")
    assert fit.plot("density", ax=ax, **FEW).get_yscale() == "log"


def test_names_that_begin_with_an_underscore_are_in_the_legend():
    """Matplotlib leaves such labels out."""
    data = {"y": ["_low", "high", "_low", "high", "high", "_low"], "_x": np.arange(6.0)}
    fit = nm.fit("y ~ _x", data, family=nm.Categorical(), draws=10, tune=10, chains=1, rng=1)
    ax = fit.plot("mean", **FEW)
    assert [label.strip() for label in legend(ax)] == ["_low", "high"] and ax.get_xlabel() == "_x"
    pyplot.close(ax.figure)


def test_axes_in_a_part_of_a_figure():
    """Which has no width of its own: legends and ticks go by that of the whole."""
    left, right = Figure(layout="constrained").subfigures(1, 2)
    model = nm.Model("y ~ 1", {"y": ["a", "b", "b", "a", "c", "a"]}, family=nm.Categorical())
    fit = model.fit(draws=10, tune=10, chains=1, rng=1)
    assert fit.plot("density", ax=left.subplots(), draws=5).get_legend() is not None
    assert len(fit.plot("density", ax=right.subplots(), draws=5).get_xticklabels()) == 3
