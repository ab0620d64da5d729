"""What a fit gives back: thin methods over the draws."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np

from nrmmix import diagnostics

if TYPE_CHECKING:
    import pandas as pd
    from statsmodels.iolib.summary import Summary

    from nrmmix.model import Model
    from nrmmix.partition import Partition
    from nrmmix.sampling import Run


class MCMCResult:
    """Posterior draws of a model, and what can be computed from them.

    Made by `Model.fit` and `nrmmix.fit`.

    Parameters
    ----------
    model : Model
        What was fitted.
    run : nrmmix.sampling.Run
        What sampling gave back.

    Attributes
    ----------
    model : Model
    draws : nrmmix.draws.Draws
        Arrays with leading axes (chain, draw), by name.
    method : str
        Name of the sampler.
    tune, thin : int
        Iterations before the first draw, and iterations for each draw.
    seed : int
        Entropy of the random numbers: `rng=fit.seed` draws the same again.
    seconds : float
        Wall clock of sampling, compilation left out.
    interrupted : bool
        Whether sampling was stopped before the end; the draws made until then are kept.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
    >>> fit.draws.n_chains, fit.draws.n_draws, fit.seed
    (2, 50, 1)
    """

    def __init__(self, model: Model, run: Run) -> None:
        self.model = model
        self.draws = run.draws
        self.method, self.tune, self.thin = run.method, run.tune, run.thin
        self.seed, self.seconds, self.interrupted = run.seed, run.seconds, run.interrupted

    # ---- the random density

    def predict(
        self,
        newdata: Any = None,
        kind: str = "mean",
        *,
        at: Any = None,
        q: Any = (0.05, 0.5, 0.95),
        interval: float = 0.9,
        draws: int = 500,
        rng: Any = None,
    ) -> pd.DataFrame:
        """Posterior means and credible bands of a functional of the random density.

        Parameters
        ----------
        newdata : DataFrame, optional
            Rows to predict for; default the rows that were fitted.
        kind : {"mean", "density", "cdf", "quantile"}, default "mean"
            The mean of the responses, their density, or the distribution function or quantiles of a single response.
        at : array_like, (m,) or (m, d) with d responses, optional
            Points at which to evaluate the density or cdf; every row is combined with every point.  Default: the row's own response, or
            a grid where new data hold no response.
        q : float or sequence of floats, default (0.05, 0.5, 0.95)
            Probabilities of the quantiles.
        interval : float, default 0.9
            Probability of the band from `lower` to `upper`.
        draws : int, default 500
            Number of posterior draws to use, spread over the chains.
        rng : int, SeedSequence, Generator or None
            Seed of the random densities behind the band; None follows from the fit's seed, so that predictions repeat themselves.

        Returns
        -------
        DataFrame
            Columns estimate, lower, upper.  The index is that of the rows, with a level `y` (density or cdf of one response), a level
            for each response (density of several), a level `response` (mean of several) or `q` (quantiles) added.  Density, cdf and
            quantiles of a mixture without new data have the points or `q` alone as their index.  Rows in which a covariate is missing are
            NaN.

        Raises
        ------
        ValueError
            If an argument cannot be used, or a row is out of reach of every location of the covariate kernel.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=50, tune=50, chains=2, rng=1)
        >>> fit.predict({"times_ms": [10.0, 30.0]}, draws=50, rng=1).shape
        (2, 3)
        """
        from nrmmix.predict import predict

        return predict(self, newdata, kind, at=at, q=q, interval=interval, draws=draws, rng=rng)

    def log_density(self, newdata: Any = None) -> pd.Series:
        """Logarithm of the posterior mean density of the responses, one a row.

        Parameters
        ----------
        newdata : DataFrame, optional
            Rows with responses and covariates; default the rows that were fitted.

        Returns
        -------
        Series
            With the index of the rows; its mean over held-out rows is a held-out score.

        Raises
        ------
        ValueError
            If the new data hold no responses, or a row is out of reach of every location of the covariate kernel.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> fit.log_density().shape
        (82,)
        """
        from nrmmix.predict import log_density

        return log_density(self, newdata)

    # ---- convergence

    @property
    def scalars(self) -> tuple[str, ...]:
        """Names of the draws that are one number each and do not depend on how clusters are numbered."""
        return tuple(name for name, values in self.draws.items() if values.ndim == 2)

    def partition(self, loss: str = "vi", *, max_clusters: int | None = None, runs: int = 16, rng: Any = None) -> Partition:
        """Point estimate of the clustering: the partition of least posterior expected loss that a search finds.

        The search goes beyond the visited draws (Dahl, Johnson & Müller 2022); see `nrmmix.partition.estimate`.

        Parameters
        ----------
        loss : {"vi", "binder"}, default "vi"
            Variation of information, or Binder's loss.
        max_clusters : int, optional
            Most clusters that the estimate may have.
        runs : int, default 16
            Starts of the search.
        rng : int, SeedSequence, Generator or None
            Seed of the search; None follows from the fit's seed, so that the estimate repeats itself.

        Returns
        -------
        nrmmix.partition.Partition
            labels (n,) of the rows used, loss, expected_loss, n_clusters, sizes, credible_ball.

        Raises
        ------
        ValueError
            If an argument cannot be used.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), draws=50, tune=50, chains=2, rng=1)
        >>> fit.partition("binder").labels.shape
        (272,)
        """
        from nrmmix.partition import estimate
        from nrmmix.replay import default_seed

        seed = np.random.default_rng(default_seed(self)) if rng is None else rng
        return estimate(self.draws.flat("labels"), loss, max_clusters=max_clusters, runs=runs, rng=seed)

    def similarity(self) -> np.ndarray:
        """Posterior probabilities that two rows share a cluster.

        Returns
        -------
        ndarray of float32, (n, n)

        Raises
        ------
        ValueError
            Above 20,000 rows, whose matrix would not fit.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> fit.similarity().shape
        (82, 82)
        """
        from nrmmix.partition import similarity

        return similarity(self.draws.flat("labels"))

    def diagnostics(self) -> pd.DataFrame:
        """Posterior summaries and convergence diagnostics of every label-invariant number among the draws.

        Returns
        -------
        DataFrame
            One row for each of `n_clusters`, `log_joint`, `mass`, `sigma`, widths and `u` where the model has them; the columns
            are those of `nrmmix.diagnostics.table`.  A fixed hyperparameter has its value as mean and NaN elsewhere.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> list(fit.diagnostics().index)
        ['n_clusters', 'log_joint', 'mass', 'sigma']
        """
        return diagnostics.table({name: self.draws[name] for name in self.scalars})

    def autocorrelation(self, name: str, lags: int = 40) -> pd.DataFrame:
        """Autocorrelation of one quantity within each chain.

        Parameters
        ----------
        name : str
            One of the rows of `diagnostics()`.
        lags : int, default 40
            Largest lag.

        Returns
        -------
        DataFrame, lag by chain
            NaN at lags that the chains are too short for and where a chain is constant.

        Raises
        ------
        ValueError
            If the name is unknown or not one number a draw, or lags is negative.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> fit.autocorrelation("mass", 5).shape
        (6, 2)
        """
        import pandas as pd

        if name not in self.scalars:
            near = difflib.get_close_matches(str(name), self.scalars, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            what = "is not one number a draw" if name in self.draws else "is unknown"
            raise ValueError(f"autocorrelation: {name!r} {what}; there are {', '.join(self.scalars)}{hint}")
        values = diagnostics.autocorrelation(self.draws[name], lags)
        return pd.DataFrame(
            values.T,
            index=pd.RangeIndex(values.shape[1], name="lag"),
            columns=pd.RangeIndex(values.shape[0], name="chain"),
        )

    # ---- reports

    def summary(self) -> Summary:
        """Tables of the model, the hyperparameters and the number of clusters, and a verdict on convergence in words.

        Returns
        -------
        statsmodels.iolib.summary.Summary
            Prints as text; `as_html()`, `as_latex()` and `as_csv()` give other formats.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> "velocity_km_s ~ 1" in fit.summary().as_text()
        True
        """
        from nrmmix.report.summary import summary

        return summary(self)

    def plot(self, kind: str | None = None, ax: Any = None, **options: Any) -> Any:
        """Draw the fit; see `nrmmix.plots.plot`.

        Parameters
        ----------
        kind : str, optional
            `"density"` for a mixture; `"mean"` or `"conditional"` for density regression, by default both.
        ax : matplotlib Axes, optional
            Where to draw; default a new figure.
        **options
            draws, points, interval, rng.

        Returns
        -------
        Axes, or an array of two

        Raises
        ------
        ValueError
            If the kind is unknown or does not suit the model.

        Examples
        --------
        >>> import nrmmix as nm
        >>> from matplotlib.figure import Figure
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> fit.plot(ax=Figure().subplots(), draws=20).get_xlabel()
        'velocity_km_s'
        """
        from nrmmix.plots import plot

        return plot(self, kind, ax, **options)

    def __repr__(self) -> str:
        model = self.model
        stopped = ", stopped early" if self.interrupted else ""
        return (
            f"MCMCResult: {_title(model)} {model.formula or 'of every column'} ({model.n_obs} observations)\n"
            f"  {self.draws.n_chains} chains x {self.draws.n_draws} draws by {self.method} "
            f"(tune {self.tune}, thin {self.thin}), {self.seconds:.1f} s, seed {self.seed}{stopped}\n"
            f"  {np.mean(self.draws['n_clusters']):.1f} clusters on average; more in .summary(), .plot(), .predict()"
        )


def _title(model: Model) -> str:
    return "kernel-NRM density regression" if model.is_regression else "NRM mixture"
