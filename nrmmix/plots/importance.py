"""Picture of what covariates matter."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from nrmmix.model.specification import Specification
from nrmmix.plots import kinds, style
from nrmmix.plots.kinds import Bands, check, kind, shapes
from nrmmix.results.mcmc import MCMCResult

MAX_COVARIATES = 30  # covariates that are drawn, those of the largest effects


def _needs_slots(model: Specification) -> str | None:
    if model.is_regression and model.slots is None:
        return "needs the kernel nm.SparseProduct, by which atoms choose their covariates"
    return kinds.needs_regression(model) or (None if len(model.frame.covariate_names) > 1 else "needs two covariates or more")


@kind(_needs_slots, "use of each covariate, and the size of its effect")
def importance(fit: MCMCResult, ax: Any = None, *, response: str | None = None, **bands: Unpack[Bands]) -> Any:
    """Share of the rows whose cluster depends on each covariate, and how far the covariate moves E[y | x], with credible intervals.

    The effect is the standard deviation of E[y | x] over values of the covariate, the root mean square over rows whose other covariates
    stay as they are; triangles are the same of the 5% and the 95% quantile.  See `MCMCResult.importance`.

    Parameters
    ----------
    fit, ax, **bands
        See `plot`; by default 200 draws.
    response : str, optional
        The response that effects are on; default the first.

    Returns
    -------
    ndarray of two Axes
        Covariates in the order of their effects, the largest on top; of more than thirty those of the largest effects.

    Raises
    ------
    ValueError
        If the kernel is no `nm.SparseProduct`, there is one covariate alone, or `ax` holds another number of axes than two.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> iris = nm.datasets.load_iris()
    >>> fit = nm.fit("petal_width_cm ~ petal_length_cm + species", iris, draws=50, tune=50, chains=2, rng=1)
    >>> axes = importance(fit, Figure().subplots(1, 2), draws=20)
    >>> sorted(tick.get_text() for tick in axes[0].get_yticklabels())
    ['petal_length_cm', 'species']
    """
    check(fit.model, "importance")
    name = fit.model.frame.response_names[0] if response is None else response
    table = fit.importance(response=name, **bands).sort_values("effect", ascending=False, kind="stable")
    total, table = len(table), table.iloc[:MAX_COVARIATES]
    interval = f"{bands.get('interval', 0.9):.0%} credible interval"
    places = np.arange(len(table))
    with style.panels(ax, ["use", "effect"], size=(4.2, max(2.4, 0.32 * len(table) + 1.5))) as axes:
        of_use, of_effect = axes
        for one, column in ((of_use, "use"), (of_effect, "effect")):
            one.hlines(places, 0.0, table[column], color=style.GREY, linewidth=0.8, zorder=1)
            style.intervals(one, table[[column, f"{column}_lower", f"{column}_upper"]].to_numpy(), "posterior mean", interval)
        for q, marker, color, beside in (("05", "^", style.ORANGE, 0.24), ("95", "v", style.CYCLE[2], -0.24)):
            if table[f"effect_q{q}"].notna().all():
                of_effect.plot(
                    table[f"effect_q{q}"], places + beside, linestyle="", marker=marker, markersize=4.5, markeredgewidth=0, color=color,
                    label=f"effect on the {q.lstrip('0')}% quantile",
                )
        category = shapes(fit.model)[name] == kinds.LEVELS
        moved = "a probability" if category else f"E[{name} | x]"
        style.dress(of_use, ("share of rows whose cluster", "depends on the covariate"), "")
        style.dress(of_effect, (f"sd of {moved}", "over values of the covariate"), "")
        of_use.set_xlim(0.0, 1.02)
        of_effect.set_xlim(0.0, None)
        for one in axes:
            one.set_yticks(places, [style.literal(label) for label in table.index] if one is of_use or ax is not None else [])
            one.set_ylim(len(table) - 0.4, -0.6)
        return style.finish(axes, ax is None, note="" if len(table) == total else f"{len(table)} of {total} covariates")
