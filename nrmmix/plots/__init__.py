"""Pictures of a fit: axes in, axes out; nothing is shown or saved here.

pyplot is imported only where a figure has to be made.
"""

from __future__ import annotations

from textwrap import indent
from typing import Any, Unpack

from nrmmix.common.messages import known_word
from nrmmix.plots import (  # noqa: F401  they enter KINDS
    chains,
    clustering,
    effects,
    importance,
    mixtures,
    predictive,
    profiles,
    regressions,
    style,
    survival,
)
from nrmmix.plots.kinds import KINDS, available, check, table
from nrmmix.results.base import Result
from nrmmix.results.shown import PlotKind, PlotOptions

__all__ = ["available", "check", "plot", *KINDS]

globals().update({name: kind.draw for name, kind in KINDS.items()})


def plot(fit: Result, picture: PlotKind | None = None, /, ax: Any = None, **options: Unpack[PlotOptions]) -> Any:
    """Draw a fit.

    {table}

    Parameters
    ----------
    fit : MCMCResult, or another result of a fit
    picture : str, optional
        None draws the density of a mixture, and of a regression of one response on one number its mean and its conditional density side
        by side, with `ax` the mean; of other models the first of components, density, mean, effects, profiles, conditional, clusters and
        similarity that there is.
    ax : matplotlib Axes or array of Axes, optional
        Where to draw, as many as there are pictures: one for each response or quantity, of which `response` or `name` chooses.  Legends
        stand above the axes: `layout="constrained"` makes room for them.  Default a new figure.
    **options
        Those of the picture, described by the function of its name; among them the `kind` of pictures that have several, as in
        `plot(fit, "effects", kind="quantile")`.  Bands are draws : int, default 500, posterior draws to use;
        interval : float, default 0.9, probability of the credible band; rng : seed of the band, by default that of the fit.

    Returns
    -------
    Axes, or an ndarray of Axes where there are several pictures

    Raises
    ------
    ValueError
        If the kind or an option is unknown, the kind does not suit the model, or `ax` holds another number of axes than there are pictures.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
    >>> plot(fit, "density", Figure().subplots(), draws=20).get_ylabel()
    'density'
    """
    kinds = check(fit.model, options.pop("kind", None) if picture is None else picture)
    if ax is not None:
        kinds = kinds[:1]
    for name in options:
        known_word(f"option of plot {kinds[0]!r}", name, KINDS[kinds[0]].options)
    if len(kinds) == 1:
        return KINDS[kinds[0]].draw(fit, ax, **options)
    with style.figure(1, len(kinds), style.SIDE) as grid:
        axes = grid[0]
        for name, one in zip(kinds, axes, strict=True):
            KINDS[name].draw(fit, one, **options)
        axes[0].set_ylim(axes[-1].get_ylim())
        return axes


if plot.__doc__:  # python -OO leaves none
    plot.__doc__ = plot.__doc__.replace("{table}", indent(table(), "    ").lstrip())
