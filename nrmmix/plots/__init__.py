"""Pictures of a fit: axes in, axes out; nothing is shown or saved here.

pyplot is imported only where a figure has to be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nrmmix.common.messages import known_name
from nrmmix.plots import style
from nrmmix.plots.chains import autocorrelation, n_clusters, prior_posterior, trace
from nrmmix.plots.clustering import clusters, similarity
from nrmmix.plots.kinds import KINDS, available, check
from nrmmix.plots.mixtures import density
from nrmmix.plots.predictive import ppc
from nrmmix.plots.profiles import components, profiles
from nrmmix.plots.regressions import conditional, mean, quantiles, slices

if TYPE_CHECKING:
    from nrmmix.results.mcmc import MCMCResult

__all__ = [
    "autocorrelation", "available", "check", "clusters", "components", "conditional", "density", "mean", "n_clusters", "plot", "ppc",
    "prior_posterior", "profiles", "quantiles", "similarity", "slices", "trace",
]


def plot(fit: MCMCResult, kind: str | None = None, ax: Any = None, **options: Any) -> Any:
    """Draw a fit.

    ================  ===========================================================  =====================================
    kind              what is drawn                                                options
    ================  ===========================================================  =====================================
    components        mean of each cluster over the column of a nm.Regression      draws, points
    density           density or probabilities of a mixture; pairs of up to 6      response, points, bands
    mean              E[y | x] over one covariate                                  response, points, bands
    quantiles         conditional quantiles over one covariate                     q, response, points, bands
    conditional       conditional density over a numeric covariate as an image     response, points, bands
    slices            conditional densities at a few values of one covariate       x, response, points, bands
    profiles          largest shares, or many means, of each cluster               clusters, words
    ppc               simulated data sets beside the data                          response, curve, draws, rng
    clusters          point estimate of the clustering, up to two covariates       response, draws
    similarity        probabilities that two rows share a cluster                  loss
    n_clusters        number of clusters, posterior and prior
    prior_posterior   sampled hyperparameters, posterior and prior                 name
    trace             what the chains drew                                         name
    autocorrelation   of what the chains drew, by lag                              name, lags
    ================  ===========================================================  =====================================

    Parameters
    ----------
    fit : MCMCResult
    kind : str, optional
        None draws the density of a mixture, and of a regression of one response on one number its mean and its conditional density side
        by side, with `ax` the mean; of other models the first of components, density, mean, profiles and trace that there is.
    ax : matplotlib Axes or array of Axes, optional
        Where to draw, as many as there are pictures: one for each response or quantity, of which `response` or `name` chooses.  Legends
        stand above the axes: `layout="constrained"` makes room for them.  Default a new figure.
    **options
        Those of the kind, described by the function of its name.  Bands are draws : int, default 500, posterior draws to use;
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
    kinds = check(fit.model, kind)
    if ax is not None:
        kinds = kinds[:1]
    for name in options:
        known_name(f"option of plot {kinds[0]!r}", name, KINDS[kinds[0]].options)
    if len(kinds) == 1:
        return KINDS[kinds[0]].draw(fit, ax, **options)
    with style.figure(1, len(kinds), style.SIDE) as grid:
        axes = grid[0]
        for name, one in zip(kinds, axes, strict=True):
            KINDS[name].draw(fit, one, **options)
        axes[0].set_ylim(axes[-1].get_ylim())
        return axes
