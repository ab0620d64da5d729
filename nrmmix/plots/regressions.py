"""Pictures of a density regression over one covariate, which may be a number or have levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from nrmmix.common.messages import count
from nrmmix.model.frame.columns.units import Back
from nrmmix.model.frame.rows import NewRows
from nrmmix.model.specification import Specification
from nrmmix.plots import kinds, style
from nrmmix.plots.kinds import Bands, Covariate, check, covariates, kind, predicted, responses, shapes, values_of
from nrmmix.plots.predictive import counted
from nrmmix.plots.wanted import Wanted, back_of, called, in_units, reached_by, said_in_the_label, seen_in
from nrmmix.results.mcmc import MCMCResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS = 100  # along the covariate, and along the response in an image
SLICE_POINTS = 200  # along the response
SLICES = (0.1, 0.3, 0.5, 0.7, 0.9)  # quantiles of the covariate at which the conditional density is shown
MAX_SLICES = 8  # levels; with more, those that occur most
IMAGE_QUANTILES = (0.05, 0.5, 0.95)
IMAGE_DRAWS = 200  # of the posterior behind an image: of means, which need fewer than bands
DASHES = ("-", "--", "-.", ":")
WIDEST = 0.06  # share of the height of a picture that a value of probability 1 has
RIDGE = 0.92  # height of the densities one above the other


class Along:
    """Values of a covariate, over the range of a number or at every level, and where on its axis they stand."""

    def __init__(self, covariate: Covariate, points: int):
        self.covariate, self.is_number = covariate, covariate.levels is None
        self.values: np.ndarray = (  # (m,)
            style.padded(covariate.observed, 0.0, points) if covariate.levels is None else np.array(covariate.levels, dtype=object)
        )
        self.position = self.values if self.is_number else np.arange(float(len(self.values)))

    def curve(self, ax: Axes, values: np.ndarray, color: str, label: str | None, linestyle: str = "-") -> None:
        """A line over a number, short strokes at levels."""
        if self.is_number:
            ax.plot(self.position, values, color=color, linewidth=style.LINE, linestyle=linestyle, label=label)
        else:
            ax.plot(self.position, values, color=color, linestyle="", marker="_", markersize=22, markeredgewidth=2, label=label)

    def band(self, ax: Axes, lower: np.ndarray, upper: np.ndarray, color: str, label: str | None) -> None:
        """A ribbon over a number, an upright bar at levels."""
        if self.is_number:
            style.band(ax, self.position, lower, upper, color, label)
        else:
            ax.vlines(self.position, lower, upper, color=color, linewidth=7, alpha=0.45, label=label or "")

    def dress(self, ax: Axes, name: str) -> None:
        style.dress(ax, self.covariate.label, name)
        if self.covariate.levels is None:
            ax.set_xlim(style.around(self.position))
        else:
            style.level_axis(ax, "x", self.covariate.levels)


class Grid(Along):
    """Values of the only covariate at which something is predicted."""

    def __init__(self, fit: MCMCResult, points: int | None, default: int = POINTS):
        (covariate,) = covariates(fit.model)
        super().__init__(covariate, default if points is None or covariate.levels is not None else count("points", points, 2))
        self.fit = fit
        # (m,) bool: some location is in reach; between the data there may be gaps
        self.reached = reached(fit, pd.DataFrame({covariate.name: self.values}))

    def predict(self, kind: str, **options: Any) -> pd.DataFrame:
        """Predictions at the values that are reached; other inputs of components are those of `typical_inputs`."""
        return predicted(self.fit, _new_rows(self.fit, self.covariate.name, self.values[self.reached]), kind, **options)

    def spread(self, table: pd.DataFrame, columns: int) -> np.ndarray:
        """(m, columns, 3) predictions, NaN out of reach."""
        out = np.full((len(self.values), columns, 3), np.nan)
        out[self.reached] = table.to_numpy().reshape(-1, columns, 3)
        return out

    def data(self, ax: Axes, y: np.ndarray, **looks: Any) -> None:
        ax.plot(self.covariate.scattered(), y, **style.points(len(y)) | looks)


def _new_rows(fit: MCMCResult, name: str, values: Any) -> dict[str, Any]:
    """New data with values of the covariate."""
    others = {other: value for other, value in kinds.typical_inputs(fit.model).items() if other != name}
    return {name: values} | {other: [value] * len(values) for other, value in others.items()}


def reached(fit: MCMCResult, newdata: pd.DataFrame) -> np.ndarray:
    """Rows that a location reaches at the smallest width among the draws."""
    model = fit.model
    assert model.kernel is not None and model.grid is not None
    if model.slots is not None:  # whose kernels are nowhere 0
        return np.ones(len(newdata), bool)
    widths = model.widths_of([fit.draws[name].min() for name in model.width_names])
    values, _ = NewRows(model.frame, newdata).covariates()
    return np.exp(model.log_kernel(model.grid.distances(values), widths)).max(axis=1) > 0


def _needs_means(model: Specification) -> str | None:
    many = kinds.SHARE in shapes(model).values() and model.n_dim > kinds.MAX_PANELS
    return kinds.needs_one_covariate(model) or (f"needs at most {kinds.MAX_PANELS} counts given their total" if many else None)


@kind(_needs_means, "E[y | x] over one covariate")
def mean(
    fit: MCMCResult, ax: Any = None, *, response: str | Sequence[str] | None = None, points: int | None = None, units: str = "formula",
    **bands: Unpack[Bands],
) -> Any:
    """Posterior mean of E[y | x] with its credible band, over the data.

    A curve with a ribbon where the covariate is a number, a stroke with a bar for each level where it has levels.  Of categories the
    probabilities of all, one upon the other, the data as strokes above.  Further inputs of components, such as an exposure, are at
    their medians.

    Parameters
    ----------
    fit, ax, **bands
        See `plot`.
    response : str or sequence of str, optional
        Default every response.
    points : int, default 100
        Points along the covariate.
    units : {"formula", "response"}, default "formula"
        Units of responses that the formula transforms, see `MCMCResult.predict`.

    Returns
    -------
    Axes, or an ndarray of Axes, one for each response

    Raises
    ------
    ValueError
        If the model has not one covariate, or `ax` holds another number of axes than there are responses.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=50, tune=50, chains=2, rng=1)
    >>> mean(fit, Figure().subplots(), draws=20, points=30).get_ylabel()
    'accel_g'
    """
    check(fit.model, "mean")
    names, grid = responses(fit.model, response), Grid(fit, points)
    with style.panels(ax, names, "response") as axes:
        for one, name in zip(axes, names, strict=True):
            if fit.model.frame.levels[fit.model.frame.response_names.index(name)] is not None:
                _stack(one, grid, name, f"{style.literal(name)} " if len(names) > 1 else "", bands)
                continue
            wanted = Wanted.of(fit, name, "mean", 0.5, None, units) if units != "formula" else None
            with said_in_the_label():
                table = grid.spread(grid.predict("mean", response=name, units=units, **bands), 1)[:, 0]
            grid.data(one, in_units(fit.model, name, None if wanted is None else wanted.back))
            grid.band(one, table[:, 1], table[:, 2], style.ORANGE, f"{bands.get('interval', 0.9):.0%} credible band")
            grid.curve(one, table[:, 0], style.ORANGE, kinds.MEAN if wanted is None else wanted.labels[0])
            grid.dress(one, name if wanted is None else wanted.column)
        return style.finish(axes, ax is None, note=kinds.not_drawn(fit.model, response, names))


def _stack(ax: Axes, grid: Grid, name: str, prefix: str, bands: Bands) -> None:
    """Probabilities of categories one upon the other, and the data above them."""
    levels = kinds.categories_of(grid.fit.model, name)
    shares = grid.spread(grid.predict("mean", response=name, **bands), len(levels))[..., 0]
    foot, observed, x = np.zeros(len(shares)), values_of(grid.fit.model, name), grid.covariate.scattered()
    for code, level in enumerate(levels):
        top, color = foot + shares[:, code], style.CYCLE[code % len(style.CYCLE)]
        label = style.entry(prefix + style.text(level))
        if grid.is_number:
            ax.fill_between(grid.position, foot, top, color=color, alpha=0.6, linewidth=0, label=label)
        else:
            ax.bar(grid.position, shares[:, code], 0.8, bottom=foot, color=color, alpha=0.6, label=label)
        ax.vlines(x[observed == code], 1.02, 1.07, color=color, linewidth=0.8)
        foot = top
    grid.dress(ax, f"probability of {name}")
    ax.set_ylim(0, 1.08)


def _needs_order(model: Specification) -> str | None:
    return kinds.needs_one_covariate(model) or kinds.needs_ordered(model)


def quantile_curves(ax: Axes, grid: Grid, values: np.ndarray, q: np.ndarray) -> None:
    """Curves (m, Q) of quantiles; those that are as far from the median share a label and a look."""
    distance = np.round(np.abs(q - 0.5), 9)
    for rank, one in enumerate(np.unique(distance)):
        same = np.flatnonzero(distance == one)
        label = "median" if one == 0 else " and ".join(f"{100 * q[k]:g}%" for k in same)
        color = style.ORANGE if grid.is_number or one == 0 else style.CYCLE[2 * rank % len(style.CYCLE)]
        for k in same:
            grid.curve(ax, values[:, k], color, label if k == same[0] else None, DASHES[rank % len(DASHES)])


def _needs_a_number(model: Specification) -> str | None:
    why = _needs_order(model)
    if why is None:
        ((name, levels),) = model.frame.covariate_columns.items()
        # Numbers in C(x) have levels too.
        why = f"needs a numeric covariate, and {name!r} has levels" if levels is not None else None
    return why


@kind(_needs_a_number, "conditional density over a numeric covariate as an image")
def conditional(
    fit: MCMCResult, ax: Any = None, *, response: str | Sequence[str] | None = None, points: int | None = None, units: str = "formula",
    **bands: Unpack[Bands],
) -> Any:
    """Posterior mean of the conditional density f(y | x) as an image, with the data and the quantiles 5%, 50% and 95%.

    A value with a probability of its own, as of `Hurdle`, is a strip that is the wider the larger the probability.

    Parameters
    ----------
    fit, ax, **bands
        See `plot`; `draws` is 200 by default, which are enough for means without bands.
    response, units
        See `mean`.
    points : int, default 100
        Points along each axis.

    Returns
    -------
    Axes, or an ndarray of Axes, one for each response

    Raises
    ------
    ValueError
        If the model has not one numeric covariate, or `ax` holds another number of axes than there are responses.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=50, tune=50, chains=2, rng=1)
    >>> conditional(fit, Figure().subplots(), draws=20, points=30).get_xlabel()
    'times_ms'
    """
    from matplotlib.colors import PowerNorm

    check(fit.model, "conditional")
    own: Bands = {"draws": IMAGE_DRAWS, **bands}
    names, grid = responses(fit.model, response, kinds.ORDERED), Grid(fit, points)
    x, size, shape_of = grid.position, len(grid.position), shapes(fit.model)
    half = (x[1] - x[0]) / 2
    with style.panels(ax, names, "response") as axes:
        for one, name in zip(axes, names, strict=True):
            back = back_of(fit.model, name, units)
            y, options = _points_along(fit, name, 0.08, size, back), {"response": name, "units": units, **own}
            step = (y[1] - y[0]) / 2
            values = grid.spread(grid.predict("density", at=y, **options), len(y))[..., 0]
            # Coloured by the root of the density: a narrow peak at one x would otherwise leave all else dark.
            image = one.imshow(
                values.T, cmap="viridis", norm=PowerNorm(0.5, vmin=0), origin="lower", aspect="auto",
                interpolation="bilinear" if shape_of[name] == kinds.NUMBER else "nearest",
                extent=(x[0] - half, x[-1] + half, y[0] - step, y[-1] + step),
            )
            (observed, masses), shown = seen_in(fit.model, name, back), called(name, back)
            apart = f" apart from {' and '.join(f'{at:g}' for at in masses)}" if len(masses) else ""
            style.color_bar(one, image, f"{'density' if shape_of[name] == kinds.NUMBER else 'probability'} of {shown}{apart}")
            for at in masses:
                _widening(one, grid, at, grid.spread(grid.predict("density", at=at, **options), 1)[:, 0, 0])
            grid.data(one, observed, color="white", markeredgecolor="black", markeredgewidth=0.5, markersize=3.5, alpha=1)
            # Quantiles beyond the image are not wanted; those on it can be read off a distribution function on its grid, at a
            # fraction of the cost of predict(kind="quantile").
            if len(masses):
                y = np.union1d(y, [masses, np.nextafter(masses, -np.inf)])
            cdf = grid.spread(grid.predict("cdf", at=y, **options), len(y))[..., 0]
            if shape_of[name] == kinds.NUMBER:
                curves = np.array([np.interp(IMAGE_QUANTILES, row, y, left=np.nan, right=np.nan) for row in cdf])
            else:
                places = np.array([np.searchsorted(row, IMAGE_QUANTILES) for row in cdf])
                curves = np.where(np.isnan(cdf[:, :1]), np.nan, np.append(y, np.nan)[places])
            quantile_curves(one, grid, curves, np.array(IMAGE_QUANTILES))
            grid.dress(one, shown)
            one.set_ylim(y[0] - step, y[-1] + step) if shape_of[name] == kinds.COUNT else one.set_ylim(y[0], y[-1])
        return style.finish(axes, ax is None, note=kinds.not_drawn(fit.model, response, names, kinds.ORDERED))


def _widening(ax: Axes, grid: Grid, at: float, probability: np.ndarray) -> None:
    """A strip at a value with a probability of its own, as wide as that is large."""
    ends = WIDEST * np.subtract(*ax.get_ylim()) / 2 * probability
    looks: dict[str, Any] = {"color": style.CYCLE[4], "alpha": 0.8, "linewidth": 0}
    ax.fill_between(grid.position, at - ends, at + ends, label=f"probability of {at:g}, by width", **looks)


def _points_along(fit: MCMCResult, name: str, margin: float, points: int, back: Back | None) -> np.ndarray:
    """Points along a number, none of which has a probability of its own, or the whole numbers over the range of a count.

    In the units of the column where there is a way back, as far as it reaches.
    """
    if shapes(fit.model)[name] == kinds.COUNT:
        return counted(fit.model, name)
    values, masses = seen_in(fit.model, name, back)
    grid = reached_by(style.padded(values[~np.isnan(values)], margin, points), back)
    return np.where(np.isin(grid, masses), np.nextafter(grid, np.inf), grid)  # where there is a density, and no probability


@kind(_needs_order, "conditional densities at a few values of one covariate")
def slices(
    fit: MCMCResult, ax: Any = None, *, x: Sequence[Any] | None = None, response: str | Sequence[str] | None = None,
    points: int | None = None, units: str = "formula", **bands: Unpack[Bands],
) -> Any:
    """Conditional densities f(y | x) at a few values of x, with their credible bands, one above the other.

    Each is scaled to the same height, so that a narrow one does not press the others flat.  A value with a probability of its own, as of
    `Hurdle`, has a stroke as high as that.

    Parameters
    ----------
    fit, ax, **bands
        See `plot`.
    x : sequence, optional
        Values of the covariate; default its quantiles at 10, 30, 50, 70 and 90%, or its levels, of more than eight those that occur most.
    response, units
        See `mean`.
    points : int, default 200
        Points along the response.

    Returns
    -------
    Axes, or an ndarray of Axes, one for each response

    Raises
    ------
    ValueError
        If the model has not one covariate, a value cannot be used or lies out of reach of every location, or `ax` holds another number
        of axes than there are responses.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=50, tune=50, chains=2, rng=1)
    >>> ax = slices(fit, Figure().subplots(), x=[10.0, 20.0], draws=20, points=30)
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['10', '20']
    """
    check(fit.model, "slices")
    (covariate,), names = covariates(fit.model), responses(fit.model, response, kinds.ORDERED)
    chosen = _slice_values(covariate) if x is None else [x] if np.ndim(x) == 0 else list(x)
    if not chosen:
        raise ValueError("x is empty; give values of the covariate, or leave it out.")
    points = SLICE_POINTS if points is None else count("points", points, 2)
    with style.panels(ax, names, "response") as axes:
        for one, name in zip(axes, names, strict=True):
            back, steps = back_of(fit.model, name, units), shapes(fit.model)[name] == kinds.COUNT
            y, options = _points_along(fit, name, 0.15, points, back), {"response": name, "units": units, **bands}
            rows = _new_rows(fit, covariate.name, chosen)
            table = predicted(fit, rows, "density", at=y, **options).to_numpy().reshape(-1, len(y), 3)
            tables = RIDGE * table / table.max(axis=(1, 2), keepdims=True) + np.arange(len(chosen))[:, None, None]
            for foot, (estimate, lower, upper) in enumerate(tables.transpose(0, 2, 1)):
                one.axhline(foot, color=style.GREY, linewidth=0.5)
                label = None if foot else f"{bands.get('interval', 0.9):.0%} credible band"
                looks = {"step": "mid"} if steps else {}
                one.fill_between(y, lower, upper, color=style.BLUE, alpha=style.FAINT, linewidth=0, label=label, **looks)
                what, looks = ("probability", {"drawstyle": "steps-mid"}) if steps else ("density", {})
                label = None if foot else f"conditional {what}, scaled"
                one.plot(y, estimate, color=style.BLUE, linewidth=style.LINE, label=label, **looks)
            for at in seen_in(fit.model, name, back)[1]:
                p = RIDGE * predicted(fit, rows, "density", at=at, **options)["estimate"].to_numpy()
                feet, label = np.arange(len(chosen)), f"probability of {at:g}, 1 as high as densities"
                one.vlines(np.full(len(p), at), feet, feet + p, color=style.ORANGE, linewidth=3, label=label)
            one.set_xlim(y[0], y[-1])
            style.dress(one, called(name, back), covariate.label)
            style.level_axis(one, "y", chosen)
            one.set_ylim(-0.05, len(chosen))
        return style.finish(axes, ax is None, note=kinds.not_drawn(fit.model, response, names, kinds.ORDERED))


def _slice_values(covariate: Covariate) -> list[Any]:
    if covariate.levels is None:
        return list(np.unique(np.quantile(covariate.observed, SLICES, method="nearest")))
    often = np.argsort(-np.bincount(covariate.observed.astype(int)), kind="stable")[:MAX_SLICES]
    return [covariate.levels[k] for k in np.sort(often)]
