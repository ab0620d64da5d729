"""Pictures of the chains: what was drawn of numbers that depend on no numbering of the clusters."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from nrmmix.common.messages import count, known_name
from nrmmix.model.priors.hyperpriors import Hyperprior
from nrmmix.model.specification import Specification
from nrmmix.plots import style
from nrmmix.plots.kinds import check, kind, quantities, suits_all
from nrmmix.posterior import diagnostics
from nrmmix.results.mcmc import MCMCResult

NEGLIGIBLE = 1e-3  # prior probability beyond the axis that need not be mentioned
WIDEST = 3  # of the axis of a number of clusters, in lengths of the posterior
GRID = 400  # points of a prior density


@kind(suits_all, "number of clusters, posterior and prior")
def n_clusters(fit: MCMCResult, ax: Any = None) -> Any:
    """Posterior probabilities of the number of clusters as bars, and those of the prior as points.

    The axis ends where the posterior does, or where the prior has 95% of its probability but not further than three times as far; the
    legend says how much of the prior lies beyond.

    Parameters
    ----------
    fit, ax
        See `plot`.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("log_anc ~ 1", nm.datasets.load_acidity(), draws=50, tune=50, chains=2, rng=1)
    >>> bars = n_clusters(fit, Figure().subplots()).patches
    >>> len(bars) == max(fit.draws.flat("n_clusters").tolist())
    True
    """
    from matplotlib.ticker import MaxNLocator

    with style.panels(ax, ["n_clusters"]) as (ax,):
        posterior = np.bincount(fit.draws.flat("n_clusters").astype(np.int64)) / fit.draws.flat("n_clusters").size
        last, entries = len(posterior) - 1, [
            ax.bar(np.arange(1, len(posterior)), posterior[1:], width=0.8, color=style.BLUE, alpha=0.75, label="posterior")
        ]
        try:
            prior = cast(Any, fit.model).prior_n_clusters()  # a `nrmmix.Model`, which pictures know no further
        except ValueError:  # beyond its limit of rows
            entries[0].set_label("posterior (the prior cannot be computed for so many rows)")
        else:
            held = prior.cumsum()
            furthest = int(held.index[np.searchsorted(held, 0.95).clip(max=len(held) - 1)])
            last = max(last, min(furthest, WIDEST * len(posterior)))
            shown = prior[prior.index <= last]
            beyond = 1 - shown.sum()
            entries += ax.plot(
                shown.index, shown, color=style.ORANGE, marker="o", markersize=4, linewidth=1,
                label="prior" if beyond < NEGLIGIBLE else f"prior ({beyond:.1%} beyond)",
            )
        ax.set_xlim(0.3, last + 0.7)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        style.density_axis(ax)
        style.dress(ax, "number of clusters", "probability")
        style.legend(ax, entries)
        return ax


def _needs_sampled(model: Specification) -> str | None:
    return None if model.sampled else "needs a hyperparameter that is sampled, and all are fixed"


@kind(_needs_sampled, "sampled hyperparameters, posterior and prior")
def prior_posterior(fit: MCMCResult, ax: Any = None, *, name: str | None = None) -> Any:
    """Posterior of each sampled hyperparameter as a histogram, and the density of its prior.

    Parameters
    ----------
    fit, ax
        See `plot`.
    name : str, optional
        Hyperparameter; default each one that is sampled.

    Returns
    -------
    Axes, or an ndarray of Axes, one for each hyperparameter

    Raises
    ------
    ValueError
        If every hyperparameter is fixed, or the name is not that of a sampled one.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("log_anc ~ 1", nm.datasets.load_acidity(), draws=50, tune=50, chains=2, rng=1)
    >>> prior_posterior(fit, Figure().subplots(), name="mass").get_xlabel()
    'mass'
    """
    check(fit.model, "prior_posterior")
    priors = {name: value for name, value in fit.model.hyperparameters.items() if isinstance(value, Hyperprior)}
    if name is not None:
        name = known_name("sampled hyperparameter", name, tuple(priors))
        priors = {name: priors[name]}
    with style.panels(ax, tuple(priors), "name") as axes:
        for one, (term, prior) in zip(axes, priors.items(), strict=True):
            draws, distribution = fit.draws.flat(term), prior.distribution
            low = min(draws.min(), distribution.ppf(0.01))
            high = max(draws.max(), distribution.ppf(0.95))
            # Midpoints: a density may be infinite at the end of its range.
            edges = np.linspace(low, high, GRID + 1)
            middle = (edges[1:] + edges[:-1]) / 2
            heights, _, _ = one.hist(draws, bins=style.bins(draws), density=True, color=style.BLUE, alpha=0.5, label="posterior")
            values = distribution.pdf(middle)
            one.plot(middle, values, color=style.ORANGE, linewidth=style.LINE, label=f"prior {prior}")
            one.set_xlim(low, high)
            style.density_axis(one)
            # A prior that rises without bound near 0 would press the histogram flat.
            one.set_ylim(0, 1.05 * max(heights.max(), min(values.max(), 3 * heights.max())))
            style.dress(one, term, "density")
            style.legend(one)
        return axes[0] if len(axes) == 1 else axes


@kind(suits_all, "what the chains drew")
def trace(fit: MCMCResult, ax: Any = None, *, name: str | None = None) -> Any:
    """Draw what each chain drew, draw by draw, of the numbers that depend on no numbering of the clusters.

    Parameters
    ----------
    fit, ax
        See `plot`.
    name : str, optional
        One of `n_clusters`, `log_joint`, the sampled hyperparameters, and `u` where the model has it; default all, one above the other.

    Returns
    -------
    Axes, or an ndarray of Axes, one for each quantity

    Raises
    ------
    ValueError
        If the name is unknown or fixed, or `ax` holds another number of axes than there are quantities.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("log_anc ~ 1", nm.datasets.load_acidity(), draws=50, tune=50, chains=2, rng=1)
    >>> len(trace(fit, Figure().subplots(), name="mass").lines)
    2
    """
    names = quantities(fit, name)
    with style.panels(ax, names, "name", columns=1, size=(8.0, 1.9)) as axes:
        for number, (one, term) in enumerate(zip(axes, names, strict=True)):
            for chain, values in enumerate(fit.draws[term]):
                one.plot(np.arange(1, len(values) + 1), values, color=_shade(chain), linewidth=0.7, alpha=0.75, label=f"chain {chain}")
            if term == "u":
                one.set_yscale("log")
            one.margins(x=0.01)
            last = number == len(names) - 1
            style.dress(one, "draw" if last else "", term)
            one.tick_params(labelbottom=last)
        axes[0].figure.align_ylabels(axes)
        return style.finish(axes, ax is None)


@kind(suits_all, "of what the chains drew, by lag")
def autocorrelation(fit: MCMCResult, ax: Any = None, *, name: str | None = None, lags: int = 40) -> Any:
    """Autocorrelation within each chain, with the band that 95% of the values of independent draws would lie in.

    Parameters
    ----------
    fit, ax
        See `plot`.
    name : str, optional
        One of the quantities of `trace`; default all.
    lags : int, default 40
        Largest lag.

    Returns
    -------
    Axes, or an ndarray of Axes, one for each quantity

    Raises
    ------
    ValueError
        If the name is unknown or fixed, lags is negative, or `ax` holds another number of axes than there are quantities.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("log_anc ~ 1", nm.datasets.load_acidity(), draws=50, tune=50, chains=2, rng=1)
    >>> len(autocorrelation(fit, Figure().subplots(), name="mass", lags=10).lines[-1].get_xdata())
    11
    """
    names, lags = quantities(fit, name), min(count("lags", lags, 0), max(fit.draws.n_draws - 1, 0))
    with style.panels(ax, names, "name") as axes:
        bound = 1.96 / np.sqrt(fit.draws.n_draws)
        for one, term in zip(axes, names, strict=True):
            long_tailed = term == "u"
            table = diagnostics.autocorrelation(np.log(fit.draws[term]) if long_tailed else fit.draws[term], lags)
            one.axhspan(-bound, bound, color=style.GREY, alpha=style.FAINT, linewidth=0, label="independent draws")
            one.axhline(0, color="black", linewidth=0.6)
            for chain, values in enumerate(table):
                one.plot(values, color=_shade(chain), linewidth=1.2, label=f"chain {chain}")
            one.set_ylim(min(-0.25, 1.1 * np.nanmin(table, initial=0.0)), 1.04)
            style.dress(one, "lag", ("autocorrelation of", "log(u)" if long_tailed else term))
        return style.finish(axes, ax is None)


def _shade(chain: int) -> str:
    return style.CYCLE[chain % len(style.CYCLE)]
