"""Probabilities of counts and categories beside their frequencies in the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from nrmmix.model.specification import Specification
from nrmmix.plots import style
from nrmmix.plots.kinds import LEVELS, Bands, levels_of, shapes, values_of
from nrmmix.posterior.predict.points import grid, label
from nrmmix.results.mcmc import MCMCResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 60  # values with a mark of their own; more are a curve
MOST_ROWS = 60  # over whose inputs a density is averaged
LABEL = "posterior mean probability"


def counted(model: Specification, name: str) -> np.ndarray:
    """Values of a response that have a probability: whole numbers over the range of the data, or the numbers of all categories."""
    return grid(model, model.frame.response_names.index(name))


def shares(values: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Relative frequencies of the values `of` among observed ones, those that are missing left out."""
    values = values[~np.isnan(values)]
    return (values[:, None] == of).mean(axis=0) if len(values) * len(of) < 10**7 else np.array([(values == x).mean() for x in of])


def over_rows(fit: MCMCResult, points: np.ndarray, name: str, bands: Bands) -> pd.DataFrame:
    """Densities at points, averaged over the inputs of the rows, of many over some of them; for averages there is no band."""
    model = fit.model
    order = np.lexsort(model.frame.inputs.T)
    some = order[np.unique(np.linspace(0, model.n_obs - 1, MOST_ROWS).astype(int))]
    rows = model.frame.source.iloc[some].reset_index(drop=True)
    j = model.frame.response_names.index(name)
    at = label(model, np.full(len(points), j), points)
    table = fit.predict(rows, "density", at=at, response=name, **bands)
    return pd.DataFrame({"estimate": table["estimate"].to_numpy().reshape(len(rows), -1).mean(axis=0)})


def bars(fit: MCMCResult, ax: Axes, name: str, bands: Bands) -> None:
    """Frequencies as bars, probabilities as points with their bands, or where there are many values as a curve."""
    model, x = fit.model, counted(fit.model, name)
    ax.bar(x, shares(values_of(model, name), x), width=0.85 * (x[1] - x[0]), color=style.GREY, alpha=0.35, label="data")
    if model.frame.input_names:
        table = over_rows(fit, x, name, bands)
    else:
        j = model.frame.response_names.index(name)
        table = fit.predict(kind="density", at=label(model, np.full(len(x), j), x), response=name, **bands)
    interval = f"{bands.get('interval', 0.9):.0%} credible band"
    if len(x) > FEW:
        if "lower" in table:
            style.band(ax, x, table["lower"], table["upper"], style.BLUE, interval)
        ax.plot(x, table["estimate"], color=style.BLUE, linewidth=style.LINE, label=LABEL)
    else:
        if "lower" in table:
            ax.vlines(x, table["lower"], table["upper"], color=style.BLUE, linewidth=4, alpha=0.45, label=interval)
        ax.plot(x, table["estimate"], color=style.BLUE, linestyle="", marker="o", markersize=4.5, label=LABEL)
    value_axis(ax, model, name, x)
    style.density_axis(ax)


def value_axis(ax: Axes, model: Specification, name: str, x: np.ndarray) -> None:
    """Ticks at levels, or at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    if shapes(model)[name] == LEVELS:
        style.level_axis(ax, "x", levels_of(model, name))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlim(x[0] - 0.7, x[-1] + 0.7)
