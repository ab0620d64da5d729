"""Pictures of the density of a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from nrmmix.common.messages import count
from nrmmix.model.specification import Specification
from nrmmix.plots import style
from nrmmix.plots.kinds import (
    LEVELS,
    NUMBER,
    SHARE,
    Bands,
    as_often_as_they_count,
    categories_of,
    check,
    kind,
    masses_of,
    predicted,
    responses,
    scattered,
    shapes,
)
from nrmmix.plots.predictive import bars, over_rows
from nrmmix.plots.wanted import back_of, called, reached_by, seen_in
from nrmmix.posterior.given import marginal_density
from nrmmix.results.mcmc import MCMCResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MASSES = (0.5, 0.8, 0.95)  # posterior mean probability inside the contours
MAX_RESPONSES = 6  # responses of a picture of pairs
POINTS, PLANE_POINTS, PAIR_POINTS = 200, 80, 50  # along an axis
PAIR_DRAWS = 100  # behind the contours of pairs
LABEL = "posterior mean density"


def _needs(model: Specification) -> str | None:
    if model.is_regression:
        return "needs a mixture, and this is density regression"
    if model.n_dim > MAX_RESPONSES:
        return (
            f'needs at most {MAX_RESPONSES} responses, not {model.n_dim}: predict(kind="density", response=names, at=points) takes some of '
            "them"
        )
    if SHARE in shapes(model).values():
        return "needs responses with laws of their own, and counts given their total have none"
    return None


@kind(_needs, "density or probabilities of a mixture; pairs of up to 6")
def density(
    fit: MCMCResult, ax: Any = None, *, response: str | Sequence[str] | None = None, points: int | None = None, units: str = "formula",
    **bands: Unpack[Bands],
) -> Any:
    """Posterior mean density of a mixture, with the data.

    One response: histogram, density with its band, and rug; of counts and categories frequencies and probabilities.  Two numbers: points,
    and contours of the density inside which a stated probability lies.  Up to six: the density of each on the diagonal, and below it
    every pair, with contours of the joint density of two numbers.  Where components have inputs, such as exposures, the
    density is that of the rows, averaged over them.  Values with a probability of their own, as of `Hurdle`, have it on an axis at the
    right, and the density is that apart from them.

    Parameters
    ----------
    fit, ax, **bands
        See `plot`.
    response : str or sequence of str, optional
        Responses of which the density is wanted; default all.
    points : int, optional
        Points along an axis; default 200, and 80 in the plane of two responses.
    units : {"formula", "response"}, default "formula"
        Units of responses that the formula transforms, see `MCMCResult.predict`.

    Returns
    -------
    Axes, or for several responses an ndarray (d, d) of Axes, of which those above the diagonal are invisible

    Raises
    ------
    ValueError
        If the model is no mixture or has more than six responses, or `ax` is given for more than two of them.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("log_anc ~ 1", nm.datasets.load_acidity(), draws=50, tune=50, chains=2, rng=1)
    >>> len(density(fit, Figure().subplots(), draws=20, points=30).lines[0].get_xdata())
    30
    """
    check(fit.model, "density")
    names, shape_of = responses(fit.model, response), shapes(fit.model)
    plane = len(names) == 2 == fit.model.n_dim and set(shape_of.values()) == {NUMBER} and not fit.model.frame.input_names
    plane = plane and not any(len(masses_of(fit.model, name)) for name in names)
    points = (PLANE_POINTS if plane else POINTS) if points is None else count("points", points, 2)
    shown = [called(name, back_of(fit.model, name, units)) for name in names]
    if len(names) > 1 and not plane:
        return _pairs(fit, ax, names, shown, points, units, bands)
    with style.panels(ax, [" and ".join(names)], "response") as (ax,):
        if plane:
            _plane(fit, ax, names, points, units, bands)
            style.dress(ax, *shown)
        else:
            _one(fit, ax, names[0], points, units, bands)
            style.dress(ax, shown[0], "density" if shape_of[names[0]] == NUMBER else "probability")
        style.legend(ax)
        return ax


def _one(fit: MCMCResult, ax: Axes, name: str, points: int, units: str, bands: Bands, small: bool = False) -> None:
    if shapes(fit.model)[name] == NUMBER:
        _line(fit, ax, name, points, units, bands, small)
    else:
        bars(fit, ax, name, bands)


def _line(fit: MCMCResult, ax: Axes, name: str, points: int, units: str, bands: Bands, small: bool) -> None:
    back = back_of(fit.model, name, units)
    y, at = seen_in(fit.model, name, back)
    y = y[as_often_as_they_count(fit.model)]
    y = y[~np.isnan(y)]
    apart = y[~np.isin(y, at)]
    grid = reached_by(style.padded(y, 0.12, points), back)
    edges = style.bins(apart)
    heights = np.full(len(apart), 1.0 / (len(y) * (edges[1] - edges[0])))
    ax.hist(apart, bins=edges.tolist(), weights=heights, color=style.GREY, alpha=0.3, edgecolor="white", label="data")

    def densities(points: np.ndarray) -> pd.DataFrame:
        if fit.model.frame.input_names:
            return over_rows(fit, points, name, bands, units)
        return predicted(fit, kind="density", at=points, response=name, units=units, **bands)

    table = densities(np.where(np.isin(grid, at), np.nextafter(grid, np.inf), grid))
    if "lower" in table:
        style.band(ax, grid, table["lower"], table["upper"], style.BLUE, f"{bands.get('interval', 0.9):.0%} credible band")
    ax.plot(grid, table["estimate"], color=style.BLUE, linewidth=style.LINE, label=LABEL)
    style.rug(ax, apart)
    ax.set_xlim(grid[0], grid[-1])
    style.density_axis(ax)
    if len(at):
        table = densities(at)
        ends = table[["lower", "upper"]].to_numpy() if "lower" in table else None
        style.point_masses(ax, at, (y[:, None] == at).mean(axis=0), table["estimate"].to_numpy(), ends, ", right axis", not small)


def _plane(fit: MCMCResult, ax: Axes, names: Sequence[str], points: int, units: str, bands: Bands) -> None:
    backs = [back_of(fit.model, name, units) for name in names]
    y = [seen_in(fit.model, name, back)[0] for name, back in zip(names, backs, strict=True)]
    x1, x2 = (reached_by(style.padded(column, 0.2, points), back) for column, back in zip(y, backs, strict=True))
    ax.plot(*y, **style.points(len(y[0])))
    at = np.stack(np.meshgrid(x1, x2), axis=-1).reshape(-1, 2)
    ordered = at[:, [names.index(name) for name in fit.model.frame.response_names]]
    values = predicted(fit, kind="density", at=ordered, units=units, **bands)
    contours(ax, x1, x2, values["estimate"].to_numpy().reshape(len(x2), len(x1)))


def _contours_of_pair(fit: MCMCResult, ax: Axes, names: tuple[str, str], units: str, bands: Bands) -> None:
    """Contours of the joint density of two of several responses."""
    backs = [back_of(fit.model, name, units) for name in names]
    x1, x2 = (
        reached_by(style.padded(seen_in(fit.model, name, back)[0], 0.2, PAIR_POINTS), back) for name, back in zip(names, backs, strict=True)
    )
    at: np.ndarray = np.stack(np.meshgrid(x1, x2), axis=-1).reshape(-1, 2)
    slope: Any = 1.0
    for column, back in zip(at.T, backs, strict=True):
        if back is not None:
            slope = slope * back.jacobian(column)
            column[:] = back.forward(column)
    values = slope * marginal_density(fit.posterior, names, at, min(bands.get("draws", PAIR_DRAWS), PAIR_DRAWS))
    contours(ax, x1, x2, values.reshape(len(x2), len(x1)), named=False)


def contours(ax: Axes, x1: np.ndarray, x2: np.ndarray, values: np.ndarray, named: bool = True) -> None:
    """Contours of a density (x2, x1) inside which stated probabilities lie; of small panels without numbers."""
    cell = (x1[1] - x1[0]) * (x2[1] - x2[0])
    levels = {level: mass for mass in MASSES if (level := level_holding(values, cell, mass)) is not None}
    if levels:
        heights = sorted(levels)
        shades = [(style.BLUE, 0.08 + 0.10 * depth) for depth in range(len(heights))]
        ax.contourf(x1, x2, values, levels=[*heights, np.inf], colors=shades)
        lines = ax.contour(x1, x2, values, levels=heights, colors=[style.BLUE], linewidths=1.3)
        if named:
            ax.clabel(lines, fmt={level: f"{mass:.0%}" for level, mass in levels.items()}, fontsize=style.SMALL)
        inside = "probability inside" if named else f"{', '.join(f'{mass:.0%}' for mass in MASSES)} inside"
        ax.plot([], [], color=style.BLUE, linewidth=1.3, label=f"{LABEL}, {inside}")
    ax.set_xlim(x1[0], x1[-1])
    ax.set_ylim(x2[0], x2[-1])


def _pairs(
    fit: MCMCResult, ax: Any, names: Sequence[str], shown: Sequence[str], points: int, units: str, bands: Bands
) -> np.ndarray:
    d, shape_of = len(names), shapes(fit.model)
    if ax is not None:
        raise ValueError(f"the densities of {d} responses need {d} x {d} axes of their own; leave out ax, or name one by response=.")
    with style.figure(d, d, (2.1, 1.9)) as axes:
        for i, j in np.argwhere(np.tri(d, dtype=bool)).tolist():
            if i == j:
                _one(fit, axes[i, i], names[i], points, units, bands, small=True)
                axes[i, i].set_yticks([])
            else:
                axes[i, j].sharex(axes[j, j])
                x, y = _placed(fit.model, names[j], units), _placed(fit.model, names[i], units, style.PLASTIC)
                axes[i, j].plot(x, y, **style.points(len(x), 3))
                smooth = not any(len(masses_of(fit.model, name)) for name in (names[i], names[j]))
                if shape_of[names[i]] == shape_of[names[j]] == NUMBER and smooth and not fit.model.frame.input_names:
                    _contours_of_pair(fit, axes[i, j], (names[j], names[i]), units, bands)
                if shape_of[names[i]] == LEVELS:
                    style.level_axis(axes[i, j], "y", categories_of(fit.model, names[i]))
        handles = {one.get_label(): one for ax in (*axes.diagonal(), axes[1, 0]) for one in ax.get_legend_handles_labels()[0]}
        first = "density" if shape_of[names[0]] == NUMBER else "probability"
        style.dress_triangle(axes, shown, [first, *shown[1:]], list(handles.values()))
        return axes


def _placed(model: Specification, name: str, units: str, step: float = style.GOLDEN) -> np.ndarray:
    """Observed values (n,) where to draw them, in these units."""
    back, values = back_of(model, name, units), scattered(model, name, step)
    return values if back is None else back.inverse(values)


def level_holding(values: np.ndarray, cell: float, mass: float) -> float | None:
    """Density above which points of the grid hold the mass; None where the grid does not reach that far into the tails."""
    falling = np.sort(values.ravel())[::-1]
    held = np.cumsum(falling) * cell
    return float(falling[np.searchsorted(held, mass)]) if held[-1] > mass else None
