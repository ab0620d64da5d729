"""Pictures of variational fits: how the bound and the number of clusters went, and how surely rows are in their components."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from nrmmix import plots
from nrmmix.common.messages import known_word
from nrmmix.plots import style
from nrmmix.plots.kinds import KINDS, OF_CHAINS, ORDER, options_of
from nrmmix.results.shown import PlotKind
from nrmmix.results.variational import PICTURES, VariationalResult

MAX_ROWS, MAX_COMPONENTS = 2000, 60  # that a picture of responsibilities resolves
STREAMED = ("elbo", "n_clusters")  # where rows are not in memory
SHARED = ("density", "clusters", "uncertainty")  # with other fits


def available(fit: VariationalResult) -> tuple[str, ...]:
    """The pictures that there are of a fit."""
    if fit.model.frame.is_streamed:
        return STREAMED
    if fit.model.is_regression:
        shared = plots.available(fit.model)
        return (*(kind for kind in ORDER if kind not in OF_CHAINS and kind in shared), *OWN)
    return tuple(kind for kind in PICTURES if kind not in SHARED or KINDS[kind].refusal(fit.model) is None)


def plot(fit: VariationalResult, picture: str | None = None, /, ax: Any = None, **options: Any) -> Any:
    """Draw a variational fit; see `VariationalResult.plot`."""
    kinds, kind = available(fit), options.pop("kind", None) if picture is None else picture
    if fit.model.is_regression and kind not in OWN and not fit.model.frame.is_streamed:
        if kind is not None:
            known_word("kind of plot of a variational fit", kind, kinds)
        return plots.plot(fit, cast(PlotKind, kind), ax, **options)
    kind = kinds[0] if kind is None else kind
    if kind in (*PICTURES, *KINDS) and kind not in kinds and fit.model.frame.is_streamed:
        raise ValueError(f"the picture {kind!r} needs the rows, which are not in memory; there are {', '.join(map(repr, kinds))}.")
    known_word("kind of plot of a variational fit", kind, PICTURES)
    if kind in SHARED:
        return plots.plot(fit, cast(PlotKind, kind), ax, **options)
    for name in options:
        known_word(f"option of plot {kind!r}", name, options_of(OWN[kind]))
    return OWN[kind](fit, ax, **options)


def elbo(fit: VariationalResult, ax: Any = None, *, skip: int = 1) -> Any:
    """The evidence lower bound at the end of each pass, the first left out, which would press the others flat.

    Circles are passes before births, after which the bound may fall for a pass.

    Parameters
    ----------
    fit : VariationalResult
    ax : matplotlib Axes, optional
    skip : int, default 1
        Passes that are left out at the beginning; none if there are no others.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="vb", rng=1)
    >>> elbo(fit, Figure().subplots()).get_ylabel()
    'evidence lower bound'
    """
    shown = fit.passes.iloc[min(skip, len(fit.passes) - 1) :]
    with style.panels(ax, ["elbo"]) as (ax,):
        ax.plot(shown.index, shown["elbo"], color=style.BLUE, linewidth=style.LINE, label="bound")
        births = shown[shown["born"] > 0] if "born" in shown else shown[:0]
        if len(births):
            ax.plot(births.index, births["elbo"], linestyle="", marker="o", markersize=5, color=style.ORANGE, label="births follow")
            style.legend(ax)
        style.dress(ax, "pass", "evidence lower bound")
        ax.ticklabel_format(axis="y", style="plain", useOffset=False)
        ax.xaxis.get_major_locator().set_params(integer=True)
        return ax


def n_clusters(fit: VariationalResult, ax: Any = None) -> Any:
    """Components with half a row or more at the end of each pass.

    Parameters
    ----------
    fit : VariationalResult
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="vb", rng=1)
    >>> n_clusters(fit, Figure().subplots()).get_ylabel()
    'clusters'
    """
    with style.panels(ax, ["n_clusters"]) as (ax,):
        ax.step(fit.passes.index, fit.passes["n_clusters"], where="mid", color=style.BLUE, linewidth=style.LINE)
        style.dress(ax, "pass", "clusters")
        ax.set_ylim(0, None)
        for axis in (ax.xaxis, ax.yaxis):
            axis.get_major_locator().set_params(integer=True)
        return ax


def responsibilities(fit: VariationalResult, ax: Any = None) -> Any:
    """Probabilities of the components, one a column, for rows in the order of their most probable ones.

    Of more than 2,000 rows 2,000 are drawn, evenly spaced in that order; of more than 60 components the largest.

    Parameters
    ----------
    fit : VariationalResult
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="memoized_vb", rng=1)
    >>> responsibilities(fit, Figure().subplots()).images[0].get_array().shape == (82, fit.n_components)
    True
    """
    with style.panels(ax, ["responsibilities"]) as (ax,):
        component, probability = fit.posterior.most_probable()
        rows = np.lexsort([-probability, component])
        if len(rows) > MAX_ROWS:
            rows = rows[(np.arange(MAX_ROWS) * len(rows)) // MAX_ROWS]
        posterior = fit.posterior._replace(rows=fit.posterior.rows.take(rows))
        with_rows = max(fit.n_clusters, 1) if fit.model.is_regression else MAX_COMPONENTS
        shown = np.hstack([r[: min(with_rows, MAX_COMPONENTS)] for _, r in posterior.blocks()]).T
        image = ax.imshow(shown, cmap="viridis", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        style.color_bar(ax, image, "probability")
        some = f"{len(rows):,} of {fit.model.n_obs:,} rows" if len(rows) < fit.model.n_obs else "rows"
        style.dress(ax, "component, the largest first", f"{some}, by most probable component")
        ax.xaxis.get_major_locator().set_params(integer=True)
        return ax


OWN = {draw.__name__: draw for draw in (elbo, n_clusters, responsibilities)}


def drawing(kind: str) -> Callable[..., Any]:
    """The function that draws a kind."""
    return OWN.get(kind) or KINDS[kind].draw
