"""Pictures of a density regression over several covariates: one varies, or two, and the others are held or averaged over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
import pandas as pd

from nrmmix.common.messages import count, flag, known_name, listed
from nrmmix.model.specification import Specification
from nrmmix.plots import kinds, style
from nrmmix.plots.kinds import Bands, Covariate, check, covariates, kind, responses
from nrmmix.plots.regressions import DASHES, Along, Grid, quantile_curves, reached
from nrmmix.plots.wanted import Wanted, back_of, called, in_units, said_in_the_label, seen_in, with_one_mean
from nrmmix.posterior.representatives import spaced
from nrmmix.results.mcmc import MCMCResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUANTILES, QUANTILE_POINTS = (0.05, 0.25, 0.5, 0.75, 0.95), 60  # points along one covariate: quantiles take much longer than means
POINTS, PLANE_POINTS = 30, 40  # along a covariate, and along each axis of a plane
AVERAGED, AVERAGED_DRAWS = 12, 150  # rows over whose other covariates is averaged, and draws of it
MAX_LEVELS = 6  # of a category whose levels have a curve each
MAX_CONTRASTS, LONGEST = 30, 100  # in one picture, and letters of the name of one


def _needs_one_mean(model: Specification) -> str | None:
    why = kinds.needs_regression(model)
    return why or (None if with_one_mean(model) else "needs a response that is a number, a count or binary")


def _needs_several(model: Specification) -> str | None:
    if len(model.frame.covariate_columns) == 1:
        return "needs two covariates or more; plot 'mean' is over one"
    return _needs_one_mean(model)


@kind(_needs_several, "E[y | x], quantiles or probabilities over each of several covariates, the others held or averaged")
def effects(
    fit: MCMCResult, ax: Any = None, *, kind: str = "mean", q: float | Sequence[float] = 0.5, y: float | None = None,
    x: str | Sequence[str] | None = None, response: str | None = None, at: Mapping[str, Any] | None = None, average: bool = False,
    by: str | None = None, points: int | None = None, units: str = "formula", **bands: Unpack[Bands],
) -> Any:
    """Draw the response over one covariate after the other, with credible bands, the other covariates at stated values.

    A panel for each covariate: a curve over a number, a stroke with a bar for each level of a category.  The data are behind it, whatever
    their other covariates; behind probabilities strokes above and below say on which side of the point they lie.  Where there is one
    category of up to six levels, curves over numbers are drawn for each of its levels, unless there are several quantiles.

    Parameters
    ----------
    fit, ax, **bands
        See `plot`.
    kind : {"mean", "quantile", "exceedance", "cdf", "density"}, default "mean"
        Functional of the conditional distribution, as of `MCMCResult.predict`.
    q : float or sequence of float, default 0.5
        Probabilities of quantiles; of several the median has a band.
    y : float, optional
        Point of an exceedance, a distribution function or a density; default the median of the response.
    x : str or sequence of str, optional
        Covariates that have a panel; default all.
    response : str, optional
        Default the first that has a mean of its own, or for other kinds is a number or a count.
    at : dict, optional
        Values at which covariates are held while another varies; default the medians of numbers, the most frequent of levels.  They are
        named above the panels.
    average : bool, default False
        Average over the other covariates of the rows instead of holding them, of twelve rows evenly spaced where there are more: draw by
        draw, so that bands are of the average; of 150 draws unless `draws` says more.
    by : str, optional
        A category whose levels have curves of their own; "" for none.
    points : int, default 30
        Points along a number.
    units : {"formula", "response"}, default "formula"
        Units of a response that the formula transforms, see `MCMCResult.predict`.

    Returns
    -------
    Axes, or an ndarray of Axes, one for each covariate

    Raises
    ------
    ValueError
        If there are no two covariates, a name is unknown, an option does not suit the kind, or `ax` holds another number of axes than there
        are covariates.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> iris = nm.datasets.load_iris()
    >>> fit = nm.fit("petal_width_cm ~ petal_length_cm + species", iris, draws=50, tune=50, chains=2, rng=1)
    >>> [one.get_xlabel() for one in effects(fit, Figure().subplots(1, 2), draws=20, points=10)]
    ['petal_length_cm', 'species']
    >>> ax = effects(fit, Figure().subplots(), kind="exceedance", y=1.5, x="petal_length_cm", draws=20, points=10)
    >>> ax.get_ylabel()
    'P(petal_width_cm > 1.5 | x)'
    """
    check(fit.model, "effects")
    points = POINTS if points is None else count("points", points, 2)
    wanted = Wanted.of(fit, response, kind, q, y, units)
    return _panels(wanted, ax, x, _held(fit.model, at), flag("average", average), by, points, bands)


def _panels(
    wanted: Wanted, ax: Any, x: str | Sequence[str] | None, held: dict[str, Any], average: bool, by: str | None, points: int, bands: Bands
) -> Any:
    """A panel for each covariate."""
    every = covariates(wanted.fit.model)
    grouping = _grouping(every, "" if by is None and len(wanted.labels) > 1 else by)
    names = {one.name: one for one in every}
    chosen = list(names) if x is None else [x] if isinstance(x, str) else list(x)
    found = [names[known_name("covariate", one, names)] for one in chosen]
    with style.panels(ax, [one.name for one in found], "x") as axes:
        for one, covariate in zip(axes, found, strict=True):
            line = Along(covariate, points)
            groups: list[Any] = [None] if grouping is None or covariate.name == grouping.name else list(grouping.levels or ())
            wanted.data(one, covariate.scattered(), alpha=0.3)
            for number, group in enumerate(groups):
                single = style.ORANGE if grouping is None else "black"
                color = single if group is None else style.CYCLE[number % len(style.CYCLE)]
                label = None if grouping is None or group is None else style.entry(f"{style.literal(grouping.name)} = {style.text(group)}")
                fixed = {} if grouping is None or group is None else {grouping.name: group}
                _effect(wanted, one, line, held, fixed, average, color, label, bands)
            line.dress(one, wanted.axis)
            if line.is_number and not average:
                _say_what_is_held(one, held, [covariate.name, getattr(grouping, "name", "")])
        return style.finish(axes, ax is None)


def _effect(
    wanted: Wanted, ax: Axes, line: Along, held: dict[str, Any], fixed: dict[str, Any], average: bool, color: str, label: str | None,
    bands: Bands,
) -> None:
    """Curves, or strokes at levels, one of them with the band; what is held gives way to averages, what is fixed does not."""
    fit, values, varied, labels = wanted.fit, line.values, line.covariate.name, wanted.labels
    if average:
        some = fit.model.frame.source.iloc[spaced(fit.model.n_obs, AVERAGED)]
        rows = pd.concat([some.assign(**{varied: value, **fixed}) for value in values])
        table = wanted.averaged(rows, len(some), **{"draws": AVERAGED_DRAWS} | bands)
        labels = [f"{one.removesuffix(' of E[y | x]')}, averaged over the other covariates" for one in labels]
    else:
        rows = pd.DataFrame({key: [value] * len(values) for key, value in (held | fixed).items()} | {varied: values})
        table = np.full((len(values), len(labels), 3), np.nan)
        there = reached(fit, rows)
        table[there] = wanted.predict(rows[there], **bands)
    interval = f"{bands.get('interval', 0.9):.0%} credible band"
    if wanted.banded is not None:
        _, lower, upper = table[:, wanted.banded].T
        shown = (interval if len(labels) == 1 else f"{interval} of the median") if label is None else None
        line.band(ax, lower, upper, color, shown)
    for k, text in enumerate(labels):
        own = text if label is None else label if len(labels) == 1 else f"{label}, {text}"
        line.curve(ax, table[:, k, 0], color, own, DASHES[wanted.looks[k] % len(DASHES)])


def _held(model: Specification, at: Mapping[str, Any] | None) -> dict[str, Any]:
    """A value of every column that the conditional distribution depends on."""
    if at is not None and not isinstance(at, Mapping):
        raise TypeError(f"at must be a dict of covariates and their values, not {at!r}; the point of a probability or a density is y=.")
    columns = tuple(dict.fromkeys([*model.frame.covariate_columns, *model.frame.input_columns]))
    given = {known_name("covariate", name, columns): value for name, value in (at or {}).items()}
    return {name: model.frame.typical_value(name) for name in columns} | given


def _say_what_is_held(ax: Axes, held: dict[str, Any], varied: Sequence[str]) -> None:
    text = ", ".join(f"{style.literal(key)} = {style.text(value)}" for key, value in held.items() if key not in varied)
    style.remark(ax, f"at {text}" if 0 < len(text) < 60 else "")


def _grouping(found: Sequence[Covariate], by: str | None) -> Covariate | None:
    """The category that has curves of its own."""
    categories = {one.name: one for one in found if one.levels is not None}
    if by:
        return categories[known_name("category among the covariates", by, categories)]
    few = [one for one in categories.values() if len(one.levels or ()) <= MAX_LEVELS]
    return few[0] if by is None and len(categories) == len(few) == 1 else None


# ---- two covariates

def _needs_two_numbers(model: Specification) -> str | None:
    why = _needs_several(model)
    if why is None and sum(levels is None for levels in model.frame.covariate_columns.values()) < 2:
        why = "needs two covariates that are numbers; plot 'effects' shows categories"
    return why


@kind(_needs_two_numbers, "E[y | x] in the plane of two covariates as a heat map")
def surface(
    fit: MCMCResult, ax: Any = None, *, x: Sequence[str] | None = None, response: str | None = None, at: Mapping[str, Any] | None = None,
    points: int | None = None, draws: int = 200, units: str = "formula",
) -> Any:
    """Posterior mean of E[y | x] in the plane of two covariates, the others held, with the data in the same colours.

    Beyond the data it is what the prior makes of its surroundings: colours fade with the distance from the nearest row, and where no
    location is in reach nothing is drawn.

    Parameters
    ----------
    fit, ax
        See `plot`.
    x : two names, optional
        Covariates that are numbers; default the first two.
    response, at, units
        See `effects`.
    points : int, default 40
        Points along each axis.
    draws : int, default 200
        Posterior draws to use.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If there are no two covariates that are numbers, or a name is unknown.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> iris = nm.datasets.load_iris()
    >>> fit = nm.fit("petal_width_cm ~ petal_length_cm + sepal_length_cm", iris, draws=50, tune=50, chains=2, rng=1)
    >>> surface(fit, Figure().subplots(), draws=20, points=10).get_ylabel()
    'sepal_length_cm'
    """
    check(fit.model, "surface")
    model, points = fit.model, PLANE_POINTS if points is None else count("points", points, 2)
    wanted = Wanted.of(fit, response, "mean", 0.5, None, units)
    numbers = {one.name: one for one in covariates(model) if one.levels is None}
    chosen = list(numbers)[:2] if x is None else list(x)
    if len(chosen) != 2 or len(set(chosen)) != 2 or isinstance(x, str):
        raise ValueError(f"x must name two of the covariates {listed(numbers)}, not {x!r}.")
    chosen = [known_name("covariate that is a number", one, numbers) for one in chosen]
    pair = [numbers[one] for one in chosen]
    first, second = (style.padded(one.observed, 0.02, points) for one in pair)
    plane = np.stack(np.meshgrid(first, second), axis=-1).reshape(-1, 2)
    held = _held(model, at)
    rows = pd.DataFrame({key: [value] * len(plane) for key, value in held.items()} | dict(zip(chosen, plane.T, strict=True)))
    there = reached(fit, rows)
    values = np.full(len(plane), np.nan)
    values[there] = wanted.predict(rows[there], draws=draws)[:, 0, 0]
    y, _ = seen_in(model, wanted.name, wanted.back)
    low, high = (float(end(np.concatenate([np.nanquantile(y, [0.02, 0.98]), values[there]]))) for end in (np.min, np.max))
    scale = np.array([np.ptp(first), np.ptp(second)])
    seen = np.column_stack([one.observed for one in pair]) / scale
    gap = np.array([((seen - point) ** 2).sum(axis=1).min() for point in plane / scale]) ** 0.5
    alpha = np.clip(1.15 - 6.0 * gap, 0.25, 1.0)
    with style.panels(ax, ["surface"]) as (ax,):
        steps = (first[1] - first[0]) / 2, (second[1] - second[0]) / 2
        image = ax.imshow(
            values.reshape(points, points), cmap="viridis", vmin=low, vmax=high, origin="lower", aspect="auto", interpolation="nearest",
            alpha=alpha.reshape(points, points),
            extent=(first[0] - steps[0], first[-1] + steps[0], second[0] - steps[1], second[-1] + steps[1]),
        )
        ax.scatter(*(one.observed for one in pair), c=y, cmap="viridis", vmin=low, vmax=high, s=16, edgecolors="white", linewidths=0.5,
                   rasterized=len(y) > 5000, label="data, in the same colours")
        shown = wanted.labels[0] if wanted.back is not None else f"posterior mean of E[{wanted.name} | x]"
        style.color_bar(ax, image, shown).solids.set_alpha(1.0)
        style.dress(ax, *(one.label for one in pair))
        _say_what_is_held(ax, held, chosen)
        style.legend(ax)
        return ax


# ---- quantiles

def _needs_order(model: Specification) -> str | None:
    return kinds.needs_regression(model) or kinds.needs_ordered(model)


@kind(_needs_order, "conditional quantiles over each covariate")
def quantiles(
    fit: MCMCResult, ax: Any = None, *, q: Sequence[float] = QUANTILES, response: str | Sequence[str] | None = None,
    at: Mapping[str, Any] | None = None, by: str | None = None, points: int | None = None, units: str = "formula", **bands: Unpack[Bands],
) -> Any:
    """Quantiles of the conditional distribution, over the data, with the credible band of the median.

    Of several covariates over each of them, the others held, as `effects` draws them, of one response.

    Parameters
    ----------
    fit, ax, **bands
        See `plot`.
    q : sequence of float, default (0.05, 0.25, 0.5, 0.75, 0.95)
        Probabilities; the band is drawn where 0.5 is one of them.
    response : str or sequence of str, optional
        Default every response; of several covariates the first that is a number or a count.
    at, by
        Of several covariates, see `effects`.
    points : int, default 60
        Points along the covariate; of several 30.
    units : {"formula", "response"}, default "formula"
        See `effects`.

    Returns
    -------
    Axes, or an ndarray of Axes, one for each response

    Raises
    ------
    ValueError
        If the model has no covariate or no such response, `q` holds anything but probabilities, or as `effects`.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=50, tune=50, chains=2, rng=1)
    >>> ax = quantiles(fit, Figure().subplots(), q=[0.1, 0.9], draws=20, points=10)
    >>> [line.get_label() for line in ax.lines]
    ['data', '10% and 90%', '_child2']
    """
    check(fit.model, "quantiles")
    if len(fit.model.frame.covariate_columns) > 1:
        if response is not None and not isinstance(response, str):
            raise ValueError("response: quantiles over several covariates are of one response; give its name.")
        wanted = Wanted.of(fit, response, "quantile", q, None, units)
        return _panels(wanted, ax, None, _held(fit.model, at), False, by, POINTS if points is None else count("points", points, 2), bands)
    for option, value in (("at", at), ("by", by)):
        if value is not None:
            raise ValueError(f"{option} is for several covariates, and there is one; leave it out.")
    names, grid = responses(fit.model, response, kinds.ORDERED), Grid(fit, points, QUANTILE_POINTS)
    shares = np.unique(np.asarray(q, dtype=float))
    with style.panels(ax, names, "response") as axes:
        for one, name in zip(axes, names, strict=True):
            back = back_of(fit.model, name, units)
            grid.data(one, in_units(fit.model, name, back))
            table = grid.spread(grid.predict("quantile", q=shares, response=name, units=units, **bands), len(shares))
            if 0.5 in shares:
                median = table[:, int(shares.searchsorted(0.5))]
                grid.band(one, median[:, 1], median[:, 2], style.ORANGE, f"{bands.get('interval', 0.9):.0%} credible band of the median")
            quantile_curves(one, grid, table[..., 0], shares)
            grid.dress(one, called(name, back))
        return style.finish(axes, ax is None, note=kinds.not_drawn(fit.model, response, names, kinds.ORDERED))


# ---- differences

@kind(_needs_one_mean, "differences of E[y | x] between values of a covariate")
def contrasts(
    fit: MCMCResult, ax: Any = None, *, values: Mapping[str, Any] | None = None, kind: str = "mean", q: float = 0.5,
    y: float | None = None, response: str | None = None, units: str = "formula", **bands: Unpack[Bands],
) -> Any:
    """Differences of E[y | x], of a quantile or of a probability between values of covariates; see `MCMCResult.contrasts`.

    Parameters
    ----------
    fit, ax, **bands
        See `plot`.
    values : dict, optional
        Of one covariate the values to compare, of others one at which they are held; default, for each covariate in turn, its quantiles at
        10, 50 and 90%, or its levels, the others at medians and most frequent levels.
    kind, q, y, response, units
        See `effects`; one quantile.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        As `MCMCResult.contrasts`.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=50, tune=50, chains=2, rng=1)
    >>> ax = contrasts(fit, Figure().subplots(), values={"times_ms": [15, 20, 30]}, draws=20)
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['times_ms: 20 - 15', 'times_ms: 30 - 15', 'times_ms: 30 - 20']
    """
    check(fit.model, "contrasts")
    own = Wanted.of(fit, response, kind, q, y, units)
    if len(own.q) > 1:
        raise ValueError(f"q must be one probability, not {q!r}.")
    wanted = [values] if values is not None else [{one.name: _compared(one)} for one in covariates(fit.model)]
    shown: list[tuple[str, np.ndarray]] = []
    for one in wanted:
        with said_in_the_label():
            table = fit.contrasts(one, cast(Any, kind), **own.options, **bands)
        varied = next((key for key, own in one.items() if np.ndim(own) and len(own) > 1), "")
        shown += [(f"{varied}: {label}", row) for label, row in zip(table.index.get_level_values(0), table.to_numpy(), strict=True)]
    shown = shown[:MAX_CONTRASTS]
    names = [style.shortened(label, LONGEST) for label, _ in shown]
    size = 4.0 + 0.08 * max([28, *map(len, names)]), max(2.4, 0.3 * len(shown) + 1.2)
    with style.panels(ax, ["contrasts"], size=size, single=True) as (ax,):
        ax.axvline(0.0, color=style.GREY, linewidth=0.8)
        interval = f"{bands.get('interval', 0.9):.0%} credible interval"
        style.intervals(ax, np.array([row for _, row in shown]), "estimate of the difference", interval)
        what = f"E[{own.column} | x]" if kind == "mean" else f"{own.labels[0]} of {own.column}" if kind == "quantile" else own.axis
        style.dress(ax, f"difference of {what}", "")
        style.rows(ax, names)
        style.legend(ax)
        return ax


def _compared(covariate: Covariate) -> list[Any]:
    if covariate.levels is not None:
        return list(covariate.levels)
    return [float(f"{value:.4g}") for value in np.unique(np.quantile(covariate.observed, (0.1, 0.5, 0.9), method="nearest"))]
