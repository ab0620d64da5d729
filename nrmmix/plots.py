"""Pictures of a fit: axes in, axes out; nothing is shown or saved here.

pyplot is imported only where a figure has to be made.  Colours are those of Okabe and Ito and of viridis, which people with the
usual kinds of colour blindness can tell apart.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from nrmmix.model import Model
    from nrmmix.results import MCMCResult

__all__ = ["check", "conditional", "density", "mean", "plot"]

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8C8C8C"
MASSES = (0.5, 0.8, 0.95)  # posterior mean probability inside the contours
POINTS = {"density": 200, "plane": 80, "mean": 100, "conditional": 100}
OPTIONS = ("draws", "points", "interval", "rng")


def plot(fit: MCMCResult, kind: str | None = None, ax: Axes | None = None, **options: Any) -> Any:
    """Draw a fit.

    Parameters
    ----------
    fit : MCMCResult
    kind : str, optional
        `"density"` for a mixture of one or two responses.  For density regression of one response on one column `"mean"`, the
        conditional mean with its band, or `"conditional"`, the conditional density as an image.  None draws the density of a
        mixture, and of a regression both kinds side by side, or with `ax` the mean.
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.
    **options
        draws : int, default 500, posterior draws to use; points : int, points along an axis; interval : float, default 0.9,
        probability of bands; rng : seed of the bands, by default that of the fit.

    Returns
    -------
    Axes, or an ndarray of two Axes

    Raises
    ------
    ValueError
        If the kind or an option is unknown, or the model has no such picture.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
    >>> plot(fit, "density", Figure().subplots(), draws=20).get_ylabel()
    'density'
    """
    for name in options:
        if name not in OPTIONS:
            raise ValueError(_unknown("option", name, OPTIONS))
    kinds = check(fit.model, kind)
    if ax is not None or len(kinds) == 1:
        return KINDS[kinds[0]](fit, ax, **options)
    axes = _new_axes(len(kinds))
    for name, one in zip(kinds, axes, strict=True):
        KINDS[name](fit, one, **options)
    axes[0].set_ylim(axes[-1].get_ylim())
    return axes


def check(model: Model, kind: str | None = None) -> tuple[str, ...]:
    """Kinds of pictures that a call of `plot` draws; nothing has to be sampled for it.

    Parameters
    ----------
    model : Model
    kind : str, optional

    Returns
    -------
    tuple of str

    Raises
    ------
    ValueError
        If the kind is unknown, or the model has no such picture.

    Examples
    --------
    >>> import nrmmix as nm
    >>> check(nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle()))
    ('mean', 'conditional')
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(_unknown("kind of plot", kind, tuple(KINDS)))
    wanted = ("mean", "conditional") if model.is_regression else ("density",)
    if kind is not None and kind not in wanted:
        what = "density regression" if model.is_regression else "a mixture"
        raise ValueError(f"plot {kind!r} does not suit {what}; there is {' or '.join(map(repr, wanted))}.")
    if model.is_regression:
        _source_column(model)
        if model.n_dim > 1:
            raise ValueError(f"plots of density regression need one response, not {model.n_dim}; use predict() instead.")
    elif model.n_dim > 2:
        raise ValueError(
            f"the density plot needs one or two responses, not {model.n_dim} (pairs and marginals are not available yet); "
            'use predict(kind="density", at=points).'
        )
    return wanted if kind is None else (kind,)


# ------------------------------------------------------------------------------------------------- mixtures


def density(
    fit: MCMCResult, ax: Axes | None = None, *, draws: int = 500, points: int | None = None, interval: float = 0.9,
    rng: Any = None,
) -> Axes:
    """Posterior mean density of a mixture with the data.

    One response: histogram, density, band and rug.  Two: points, and contours of the posterior mean density inside which a stated
    probability lies.

    Parameters
    ----------
    fit : MCMCResult
    ax : matplotlib Axes, optional
    draws, interval, rng
        See `MCMCResult.predict`.
    points : int, optional
        Points along an axis; default 200 for one response, 80 for two.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If the model is not a mixture of one or two responses.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("log_anc ~ 1", nm.datasets.load_acidity(), draws=50, tune=50, chains=2, rng=1)
    >>> len(density(fit, Figure().subplots(), draws=20, points=30).lines[0].get_xdata())
    30
    """
    check(fit.model, "density")
    ax = _new_axes(1)[0] if ax is None else ax
    y = fit.model.frame.response
    if fit.model.n_dim == 2:
        return _plane(fit, ax, y, draws, _size(points, "plane"), interval, rng)
    grid = _padded(y[:, 0], 0.12, _size(points, "density"))
    table = fit.predict(kind="density", at=grid, interval=interval, draws=draws, rng=rng)
    ax.hist(y[:, 0], bins=_bins(y[:, 0]), density=True, color=GREY, alpha=0.3, edgecolor="white", label="data")
    _band(ax, grid, table, interval, BLUE)
    ax.plot(grid, table["estimate"], color=BLUE, linewidth=1.8, label="posterior mean density")
    ax.vlines(y[:, 0], 0, 0.03, transform=ax.get_xaxis_transform(), color="black", linewidth=0.6, alpha=0.6)
    ax.set_xlim(grid[0], grid[-1])
    ax.set_ylim(0, None)
    ax.ticklabel_format(axis="y", scilimits=(-3, 4), useMathText=True)
    _dress(ax, fit.model.frame.response_names[0], "density")
    return ax


def _plane(
    fit: MCMCResult, ax: Axes, y: np.ndarray, draws: int, points: int, interval: float, rng: Any
) -> Axes:
    x1, x2 = (_padded(column, 0.2, points) for column in y.T)
    at = np.stack(np.meshgrid(x1, x2), axis=-1).reshape(-1, 2)
    values = fit.predict(kind="density", at=at, interval=interval, draws=draws, rng=rng)["estimate"]
    values = values.to_numpy().reshape(points, points)
    cell = (x1[1] - x1[0]) * (x2[1] - x2[0])
    levels = {mass: level for mass in MASSES if (level := _level(values, cell, mass)) is not None}
    ax.plot(*y.T, linestyle="", marker="o", markersize=3.5, color=GREY, markeredgewidth=0, alpha=0.7, label="data")
    if levels:
        heights = sorted(levels.values())
        names = {levels[mass]: f"{mass:.0%}" for mass in levels}
        shades = [(BLUE, 0.08 + 0.10 * depth) for depth in range(len(heights))]
        ax.contourf(x1, x2, values, levels=[*heights, np.inf], colors=shades)
        lines = ax.contour(x1, x2, values, levels=heights, colors=[BLUE], linewidths=1.3)
        ax.clabel(lines, fmt=names, fontsize=8)
        ax.plot([], [], color=BLUE, linewidth=1.3, label="posterior mean density,\nprobability inside")
    ax.set_xlim(x1[0], x1[-1])
    ax.set_ylim(x2[0], x2[-1])
    _dress(ax, fit.model.frame.response_names[0], fit.model.frame.response_names[1])
    return ax


def _level(values: np.ndarray, cell: float, mass: float) -> float | None:
    """Density above which points of the grid hold the mass; None where the grid does not reach that far into the tails."""
    falling = np.sort(values.ravel())[::-1]
    held = np.cumsum(falling) * cell
    return float(falling[np.searchsorted(held, mass)]) if held[-1] > mass else None


# ---------------------------------------------------------------------------------------- density regression


def mean(
    fit: MCMCResult, ax: Axes | None = None, *, draws: int = 500, points: int | None = None, interval: float = 0.9,
    rng: Any = None,
) -> Axes:
    """Posterior mean of E[y | x] with its credible band, over the data.

    Parameters
    ----------
    fit : MCMCResult
    ax : matplotlib Axes, optional
    draws, interval, rng
        See `MCMCResult.predict`.
    points : int, default 100
        Points along the covariate.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If the model is not a regression of one response on one numeric column.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=50, tune=50, chains=2, rng=1)
    >>> mean(fit, Figure().subplots(), draws=20, points=30).get_ylabel()
    'accel_g'
    """
    check(fit.model, "mean")
    ax = _new_axes(1)[0] if ax is None else ax
    x, table = _mean_curve(fit, _size(points, "mean"), draws, interval, rng)
    column = _source_column(fit.model)
    ax.plot(
        fit.model.frame.source[column], fit.model.frame.response[:, 0], linestyle="", marker="o", markersize=4, color=GREY,
        markeredgewidth=0, alpha=0.7, label="data",
    )
    _band(ax, x, table, interval, ORANGE)
    ax.plot(x, table["estimate"], color=ORANGE, linewidth=1.8, label="posterior mean of E[y | x]")
    ax.set_xlim(_around(x))
    _dress(ax, column, fit.model.frame.response_names[0])
    return ax


def conditional(
    fit: MCMCResult, ax: Axes | None = None, *, draws: int = 500, points: int | None = None, interval: float = 0.9,
    rng: Any = None,
) -> Axes:
    """Posterior mean of the conditional density f(y | x) as an image, with the data and the mean curve.

    Parameters
    ----------
    fit : MCMCResult
    ax : matplotlib Axes, optional
    draws, interval, rng
        See `MCMCResult.predict`.
    points : int, default 100
        Points along each axis.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If the model is not a regression of one response on one numeric column.

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
    ax = _new_axes(1)[0] if ax is None else ax
    size = _size(points, "conditional")
    column, name = _source_column(fit.model), fit.model.frame.response_names[0]
    x, curve = _mean_curve(fit, size, draws, interval, rng)
    observed = fit.model.frame.response[:, 0]
    y = _padded(observed, 0.08, size)
    values = np.full((size, size), np.nan)
    ok = curve["estimate"].notna().to_numpy()
    table = fit.predict({column: x[ok]}, "density", at=y, interval=interval, draws=draws, rng=rng)
    values[ok] = table["estimate"].to_numpy().reshape(-1, size)
    half = (x[1] - x[0]) / 2, (y[1] - y[0]) / 2
    # Coloured by the root of the density: a narrow peak at one x would otherwise leave all else dark.
    image = ax.imshow(
        values.T, cmap="viridis", norm=PowerNorm(0.5, vmin=0), origin="lower", aspect="auto", interpolation="bilinear",
        extent=(x[0] - half[0], x[-1] + half[0], y[0] - half[1], y[-1] + half[1]),
    )
    bar = ax.figure.colorbar(image, ax=ax, label=_literal(f"density of {name}"))
    bar.outline.set_visible(False)
    ax.plot(
        fit.model.frame.source[column], observed, linestyle="", marker="o", markersize=3.5, markerfacecolor="white",
        markeredgecolor="black", markeredgewidth=0.5, label="data",
    )
    ax.plot(x, curve["estimate"], color=ORANGE, linewidth=1.8, label="posterior mean of E[y | x]")
    ax.set_xlim(_around(x))
    ax.set_ylim(y[0], y[-1])
    _dress(ax, column, name, frameon=True)
    return ax


KINDS: dict[str, Callable[..., Any]] = {"density": density, "mean": mean, "conditional": conditional}


def _mean_curve(
    fit: MCMCResult, points: int, draws: int, interval: float, rng: Any
) -> tuple[np.ndarray, pd.DataFrame]:
    """Grid over the covariate and predictions of the mean there; NaN where no location is in reach."""
    import pandas as pd

    column = _source_column(fit.model)
    x = _padded(fit.model.frame.source[column].to_numpy(dtype=float), 0.0, points)
    table = pd.DataFrame(np.nan, index=x, columns=["estimate", "lower", "upper"])
    ok = _reached(fit, pd.DataFrame({column: x}))
    table.loc[ok] = fit.predict({column: x[ok]}, "mean", interval=interval, draws=draws, rng=rng).to_numpy()
    return x, table


def _reached(fit: MCMCResult, newdata: pd.DataFrame) -> np.ndarray:
    """Rows that a location reaches at the smallest width among the draws; between the data there may be gaps."""
    model = fit.model
    assert model.kernel is not None and model.grid is not None
    widths = np.array([fit.draws[name].min() for name in model.width_names])
    if model.kernel.shared_width:
        widths = np.repeat(widths, len(model.frame.covariate_names))
    values, _, _ = model.frame.new_covariates(newdata)
    return np.exp(model.kernel.log_kernel(model.grid.distances(values), widths)).max(axis=1) > 0


def _source_column(model: Model) -> str:
    """The numeric column behind the covariates: `x` for `y ~ log(x)`."""
    columns = [name for part in model.frame._covariates for name in part.columns]
    if len(columns) > 1:
        raise ValueError(
            f"plots of density regression need one covariate, not {len(columns)} ({', '.join(columns)}); use predict() at values "
            "of your choice, or a formula with one of them."
        )
    name = columns[0]
    # Numbers in C(x) have levels too.
    if any(part.levels for part in model.frame._covariates):
        raise ValueError(f"plots of density regression need a numeric covariate; {name!r} has levels. Use predict() instead.")
    return name


# ---------------------------------------------------------------------------------------------------- style


def _new_axes(count: int) -> np.ndarray:
    from matplotlib import pyplot

    size = (6.2, 4.2) if count == 1 else (11.0, 4.2)
    _, axes = pyplot.subplots(1, count, figsize=size, layout="constrained", squeeze=False)
    return axes[0]


def _dress(ax: Axes, x: str, y: str, frameon: bool = False) -> None:
    ax.set_xlabel(_literal(x))
    ax.set_ylabel(_literal(y))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=frameon, framealpha=0.9, edgecolor="none", fontsize=8)


def _band(ax: Axes, x: np.ndarray, table: pd.DataFrame, interval: float, color: str) -> None:
    ax.fill_between(
        x, table["lower"].to_numpy(), table["upper"].to_numpy(), color=color, alpha=0.22, linewidth=0,
        label=f"{interval:.0%} credible band",
    )


def _literal(name: str) -> str:
    """A name from the data: dollar signs would start mathematics."""
    return name.replace("$", r"\$")


def _size(points: int | None, kind: str) -> int:
    from nrmmix.sampling import count

    return POINTS[kind] if points is None else count("points", points, 2)


def _padded(values: np.ndarray, share: float, points: int) -> np.ndarray:
    """A grid over the range of the values and a share of it on both sides."""
    margin = share * np.ptp(values)
    return np.linspace(values.min() - margin, values.max() + margin, points)


def _around(x: np.ndarray) -> tuple[float, float]:
    """Limits that leave room for the marks of the outermost observations; nothing is predicted there."""
    margin = 0.015 * (x[-1] - x[0])
    return x[0] - margin, x[-1] + margin


def _bins(values: np.ndarray) -> np.ndarray:
    """Edges by the rule of Freedman and Diaconis, between 10 and 60 bins: one far value would ask for thousands."""
    iqr = np.subtract(*np.quantile(values, [0.75, 0.25]))
    step = 2 * iqr / len(values) ** (1 / 3)
    wanted = np.ptp(values) / step if step > 0 else 10
    return np.linspace(values.min(), values.max(), int(np.clip(np.ceil(wanted), 10, 60)) + 1)


def _unknown(what: str, name: object, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(str(name), known, 1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"unknown {what} {name!r}; there are {', '.join(map(repr, known))}{hint}"
