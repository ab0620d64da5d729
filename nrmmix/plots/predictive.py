"""Observations of the fitted model; probabilities of counts and categories beside their frequencies in the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nrmmix.common.messages import count, known_word
from nrmmix.model.frame.columns.units import Back
from nrmmix.model.specification import Specification
from nrmmix.plots import style
from nrmmix.plots.kinds import (
    COUNT,
    LEVELS,
    Bands,
    as_often_as_they_count,
    categories_of,
    check,
    kind,
    not_drawn,
    predicted,
    responses,
    shapes,
    values_of,
)
from nrmmix.plots.survival import is_censored, observed_curve
from nrmmix.plots.wanted import back_of, called, reached_by, seen_in
from nrmmix.posterior.predict.points import grid, label
from nrmmix.posterior.representatives import spaced
from nrmmix.results.mcmc import MCMCResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = ("density", "ecdf")
CELLS = 512  # of the grid on which densities are smoothed
MAX_MARKS = 60  # values with a mark of their own; more are a curve
MAX_ROWS = 60  # over whose inputs a density is averaged
LABEL = "posterior mean probability"


def _needs(model: Specification) -> str | None:
    return "needs counts that are not sparse: simulate() gives replicates of them" if model.frame.is_sparse else None


@kind(_needs, "simulated data sets beside the data")
def ppc(
    fit: MCMCResult, ax: Any = None, *, response: str | Sequence[str] | None = None, curve: str = "density", draws: int = 50,
    rng: Any = None, units: str = "formula",
) -> Any:
    """Posterior predictive check: data sets simulated from the fit beside the observed one, response by response.

    Each replicate has the rows of the data.  In density regression its responses are pooled over all rows, as the observed are.  Of
    counts and categories: frequencies in the data as bars, and the range that holds 90% of those in the replicates; of counts given
    their total, shares of it.  Values with a probability of their own, as of `Hurdle`, have an axis at the right for that, with their
    shares in the data and the range of those in the replicates, and densities are of the others.  Of censored responses the share of each
    replicate that is larger than y, beside the curve of Kaplan & Meier or Turnbull (see `survival`).

    Parameters
    ----------
    fit, ax
        See `plot`.
    response : str or sequence of str, optional
        Default every response, of more than twelve the first.
    curve : {"density", "ecdf"}, default "density"
        Densities smoothed by one bandwidth, that of the observed values by Silverman's rule, or empirical distribution functions.
    draws : int, default 50
        Number of replicates.
    rng : int, SeedSequence, Generator or None
        Seed of the replicates, by default that of the fit.
    units : {"formula", "response"}, default "formula"
        Units of responses that the formula transforms, see `MCMCResult.predict`.

    Returns
    -------
    Axes, or an ndarray of Axes, one for each response

    Raises
    ------
    ValueError
        If a response or the curve is unknown, or `ax` holds another number of axes than there are responses.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("log_anc ~ 1", nm.datasets.load_acidity(), draws=50, tune=50, chains=2, rng=1)
    >>> len(ppc(fit, Figure().subplots(), draws=10).lines)  # ten replicates and the data
    11
    """
    known_word("curve", curve, CURVES)
    check(fit.model, "ppc")
    names, n_obs, shape_of = responses(fit.model, response), fit.model.n_obs, shapes(fit.model)
    draws = count("draws", draws, 1)
    with style.panels(ax, names, "response") as axes:
        replicates = fit.simulate(draws=draws, rng=rng)
        for one, name in zip(axes, names, strict=True):
            back = back_of(fit.model, name, units)
            pooled = f"{called(name, back)}, over all rows" if fit.model.is_regression else called(name, back)
            (observed, at), simulated = seen_in(fit.model, name, back), _simulated(fit.model, replicates, name).reshape(-1, n_obs)
            simulated = simulated if back is None else back.inverse(simulated)
            if is_censored(fit.model, name):
                _survival(fit.model, one, name, simulated, back)
                style.dress(one, pooled, "survival probability")
                continue
            if shape_of[name] == LEVELS or (shape_of[name] == COUNT and curve == "density"):
                _frequencies(fit.model, one, name, observed, simulated)
                style.dress(one, pooled, "share of the rows")
                continue
            observed, at = observed[~np.isnan(observed)], at if curve == "density" else np.zeros(0)
            x = reached_by(style.padded(observed, 0.2, CELLS), back)
            shape = smoothed(x, observed, at) if curve == "density" else ecdf(x)
            for k, values in enumerate(simulated):
                label = None if k else f"{len(simulated)} replicates"
                one.plot(x, shape(values[~np.isnan(values)]), color=style.BLUE, linewidth=0.6, alpha=0.35, label=label)
            one.plot(x, shape(observed), color="black", linewidth=style.LINE, label="data")
            one.set_xlim(x[0], x[-1])
            if curve == "density":
                style.density_axis(one)
            if len(at):
                own = np.array([shares(values, at) for values in simulated])
                ends = np.quantile(own, [0.05, 0.95], axis=0).T
                style.point_masses(one, at, shares(observed, at), np.median(own, axis=0), ends, " in the replicates, right axis")
            style.dress(one, pooled, "density" if curve == "density" else "distribution function")
        return style.finish(axes, ax is None, note=not_drawn(fit.model, response, names))


def _survival(model: Specification, ax: Axes, name: str, simulated: np.ndarray, back: Back | None) -> None:
    """Shares of each replicate beyond y, and the curve of the rows that assumes nothing."""
    values, _ = seen_in(model, name, back)
    x = reached_by(style.padded(values[~np.isnan(values)], 0.1, CELLS), back)
    beyond = ecdf(x)
    for k, one in enumerate(simulated):
        label = None if k else f"{len(simulated)} replicates"
        ax.plot(x, 1.0 - beyond(one[~np.isnan(one)]), color=style.BLUE, linewidth=0.6, alpha=0.35, label=label)
    observed_curve(ax, model, name, x, back)
    ax.set_xlim(x[0], x[-1])


def _simulated(model: Specification, replicates: pd.DataFrame, name: str) -> np.ndarray:
    """Replicates of a response as `values_of` has the data."""
    j = model.frame.response_names.index(name)
    for block in model.blocks.blocks:
        if block.family.needs_totals and j in block.columns:
            names = [model.frame.response_names[i] for i in block.columns]
            return (replicates[name] / replicates[names].sum(axis=1)).to_numpy()
    values = replicates[name]
    return np.where(values.isna(), np.nan, values.cat.codes) if model.frame.levels[j] is not None else values.to_numpy(float)


def _frequencies(model: Specification, ax: Axes, name: str, observed: np.ndarray, simulated: np.ndarray) -> None:
    x = counted(model, name)
    of_replicates = np.array([shares(values, x) for values in simulated])
    lower, middle, upper = np.quantile(of_replicates, [0.05, 0.5, 0.95], axis=0)
    ax.bar(x, shares(observed, x), width=0.85 * (x[1] - x[0]), color=style.GREY, alpha=0.35, label="frequencies in the data")
    ax.vlines(x, lower, upper, color=style.BLUE, linewidth=4, alpha=0.45, label=f"90% of {len(simulated)} replicates")
    ax.plot(x, middle, color=style.BLUE, linestyle="", marker="o", markersize=4, label="their median")
    value_axis(ax, model, name, x)
    style.density_axis(ax)


def smoothed(x: np.ndarray, observed: np.ndarray, at: Sequence[float] | np.ndarray = ()) -> Callable[[np.ndarray], np.ndarray]:
    """Kernel density estimates on the grid x, apart from point masses; values beyond it count too."""
    observed = observed[~np.isin(observed, at)]
    spread = np.subtract(*np.quantile(observed, [0.75, 0.25])) / 1.34
    sd = observed.std()
    step = x[1] - x[0]
    width = max(0.9 * (min(sd, spread) if spread > 0 else sd) * len(observed) ** -0.2, step)
    reach = int(np.ceil(4 * width / step))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / width) ** 2)
    edges = x[0] + step * (np.arange(len(x) + 2 * reach + 1) - reach - 0.5)

    def estimate(values: np.ndarray) -> np.ndarray:
        held = np.histogram(values[~np.isin(values, at)], edges)[0] / (len(values) * step * kernel.sum())
        return np.convolve(held, kernel, "valid")

    return estimate


def ecdf(x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: np.searchsorted(np.sort(values), x, side="right") / len(values)


# ---- counts and categories

def counted(model: Specification, name: str) -> np.ndarray:
    """Values of a response that have a probability: whole numbers over the range of the data, or the numbers of all categories."""
    return grid(model, model.frame.response_names.index(name))


def shares(values: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Relative frequencies of the values `of` among observed ones, those that are missing left out."""
    values = values[~np.isnan(values)]
    return (values[:, None] == of).mean(axis=0) if len(values) * len(of) < 10**7 else np.array([(values == x).mean() for x in of])


def over_rows(fit: MCMCResult, points: np.ndarray, name: str, bands: Bands, units: str = "formula") -> pd.DataFrame:
    """Densities at points, averaged over the inputs of the rows, of many over some of them; for averages there is no band."""
    model = fit.model
    some = np.lexsort(model.frame.inputs.T)[spaced(model.n_obs, MAX_ROWS)]
    rows = model.frame.source.iloc[some].reset_index(drop=True)
    j = model.frame.response_names.index(name)
    at = label(model, np.full(len(points), j), points)
    table = predicted(fit, rows, "density", at=at, response=name, units=units, **bands)
    return pd.DataFrame({"estimate": table["estimate"].to_numpy().reshape(len(rows), -1).mean(axis=0)})


def bars(fit: MCMCResult, ax: Axes, name: str, bands: Bands) -> None:
    """Frequencies as bars, probabilities as points with their bands, or where there are many values as a curve."""
    model, x = fit.model, counted(fit.model, name)
    y = values_of(model, name)[as_often_as_they_count(model)]
    ax.bar(x, shares(y, x), width=0.85 * (x[1] - x[0]), color=style.GREY, alpha=0.35, label="data")
    if model.frame.input_names:
        table = over_rows(fit, x, name, bands)
    else:
        j = model.frame.response_names.index(name)
        table = predicted(fit, kind="density", at=label(model, np.full(len(x), j), x), response=name, **bands)
    interval = f"{bands.get('interval', 0.9):.0%} credible band"
    if len(x) > MAX_MARKS:
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
        style.level_axis(ax, "x", categories_of(model, name))
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlim(x[0] - 0.7, x[-1] + 0.7)
