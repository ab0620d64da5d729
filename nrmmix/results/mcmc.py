"""Result of chains: thin methods over the draws."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nrmmix.common.messages import count, did_you_mean, guided
from nrmmix.common.warnings import warn
from nrmmix.inference.mcmc import proposals
from nrmmix.inference.mcmc.driving import TIME
from nrmmix.inference.mcmc.length import AUTO, SECONDS
from nrmmix.inference.mcmc.sampling import Run
from nrmmix.model.specification import Specification
from nrmmix.posterior import diagnostics
from nrmmix.posterior.convergence import WARN_FROM, Evidence, unmoved, warn_unless_converged
from nrmmix.posterior.draws import Posterior, not_kept
from nrmmix.results.base import Result, wraps
from nrmmix.results.shared_shrinkage import too_far_a_priori
from nrmmix.results.shown import Saved

if TYPE_CHECKING:
    from nrmmix.posterior.leave_one_out import LeaveOneOut


class MCMCResult(Saved, Result):
    """Posterior draws of a model, and what can be computed from them.

    Made by `Model.fit` and `nrmmix.fit`.

    Parameters
    ----------
    model : Model
        What was fitted.
    run : nrmmix.inference.mcmc.sampling.Run
        What sampling gave back.

    Attributes
    ----------
    model : Model
    draws : nrmmix.posterior.draws.Draws
        Arrays with leading axes (chain, draw), by name.
    method : str
        Name of the sampler.
    cycle : nrmmix.Cycle
        Its moves, with their options.
    tune, thin : int
        Iterations before the first draw, and iterations for each draw.
    seed : int
        Entropy of the random numbers: `rng=fit.seed` draws the same again.
    seconds : float
        Wall clock of sampling, compilation left out.
    moved : float
        Changes of a label for each observation and iteration: of a Gibbs sweep the share of updates that changed a label.
    interrupted : bool
        Whether sampling was stopped before the end; the draws made until then are kept.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
    >>> fit.draws.n_chains, fit.draws.n_draws, fit.seed
    (2, 50, 1)
    """

    def __init__(self, model: Specification, run: Run) -> None:
        super().__init__(model, run.seed, run.draws)
        self.run = run
        self.method, self.cycle, self.tune, self.thin = run.method, run.cycle, run.tune, run.thin
        self.seconds, self.interrupted = run.seconds, run.interrupted
        self.moved, self.checkpoints = run.label_changes, run.checkpoints

    @property
    def lacking(self) -> tuple[str, ...]:
        """Names of the draws that predictions need and that `store=` has left out."""
        return not_kept(self.model, self.draws)

    # ---- convergence

    @property
    def scalars(self) -> tuple[str, ...]:
        """Names of the draws that are one number each and do not depend on how clusters are numbered."""
        return tuple(name for name, values in self.draws.items() if values.ndim == 2)

    @property
    def evidence(self) -> Evidence:
        """Return the evidence for a verdict on the chains, beside `diagnostics()`; see `nrmmix.posterior.convergence.verdict`."""
        looked_at = bool(self.checkpoints) and self.model.n_obs > 1
        still = unmoved(self.draws, self.moved == 0, self.run.one_start, self.run.init_given) if looked_at else ""
        objections = (still, proposals.skip_warning(self.run, self.model.n_obs))
        return Evidence(
            self.draws.n_chains, self.draws.n_draws, self.tune, self.thin, self.interrupted, self.cycle.bias,
            objection=next(filter(None, objections), ""), seconds=self.seconds, by_itself=self.run.goal == AUTO, limit=self._limit_reached,
            one_start=self.run.one_start and self.run.init_given and self.model.n_obs > 1,
        )

    @property
    def _limit_reached(self) -> float:
        """Seconds of the time limit, where it has ended the run; else 0."""
        if self.run.stopped != TIME:
            return 0.0
        return self.run.time_limit or SECONDS

    @guided
    def diagnostics(self) -> pd.DataFrame:
        """Posterior summaries and convergence diagnostics of every label-invariant number among the draws.

        Returns
        -------
        DataFrame
            One row for each of `n_clusters`, `log_joint`, `mass`, `sigma`, widths and `u` where the model has them; the columns
            are those of `nrmmix.diagnostics.table`.  A fixed hyperparameter has its value as mean and NaN elsewhere.
            Then rows for the proposals of moves such as split-merge: "split accepted" (the mean is the acceptance rate), "split log
            ratio" (mean and sd of the log Metropolis-Hastings ratio), and so on; see `proposals`.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> list(fit.diagnostics().index)
        ['n_clusters', 'log_joint', 'mass', 'sigma']
        """
        found = diagnostics.table({name: self.draws[name] for name in self.scalars})
        made = proposals.rows(self.run, self.model.n_obs)
        return found if made.empty else pd.concat([found, made])

    @guided
    def curve_diagnostics(self) -> pd.DataFrame | None:
        """Convergence of what a fit says of the responses: of a density regression curves, of a mixture its density.

        Returns
        -------
        DataFrame or None
            Means and distribution functions at a few rows spread over all covariates, see `nrmmix.posterior.curves.curve_diagnostics`; or
            log densities at rows spread over all responses, see `nrmmix.posterior.curves.density_diagnostics`.  None of sparse counts, of
            fewer than 4 draws a chain, and where `store=` has left out what they need.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=20, tune=20, chains=2, rng=1)
        >>> fit.curve_diagnostics().shape[0]
        20
        """
        found = self._curves
        return None if found is None else found.copy()

    @cached_property
    def _curves(self) -> pd.DataFrame | None:
        """Computed once: a fit warns, its summary and its report say what became of them."""
        from nrmmix.posterior.curves import response_diagnostics

        if self.draws.n_draws < 4 or self.lacking or self.model.frame.is_sparse:
            return None
        return response_diagnostics(Posterior(self.model, self.draws, self.seed))

    @guided
    def proposals(self) -> pd.DataFrame:
        """Return the outcomes of the proposals of each move; see `nrmmix.inference.mcmc.proposals.table`.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="split_merge", draws=9, tune=9, rng=1)
        >>> fit.proposals()["kind"].tolist()
        ['split', 'merge', 'sequential split', 'sequential merge', '']
        """
        return proposals.table(self.run)

    @guided
    def autocorrelation(self, name: str, lags: int = 40) -> pd.DataFrame:
        """Autocorrelation of one quantity within each chain.

        Parameters
        ----------
        name : str
            One of `fit.scalars`, the first rows of `diagnostics()`.
        lags : int, default 40
            Largest lag, at most the number of draws less 1.

        Returns
        -------
        DataFrame, lag by chain
            NaN where a chain is constant.

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
        if name not in self.scalars:
            what = "is not one number a draw" if name in self.draws else "is unknown"
            raise ValueError(f"autocorrelation: {name!r} {what}; there are {', '.join(self.scalars)}{did_you_mean(name, self.scalars)}")
        lags = min(count("lags", lags, 0), max(self.draws.n_draws - 1, 0))
        values = diagnostics.autocorrelation(self.draws[name], lags)
        return pd.DataFrame(
            values.T, index=pd.RangeIndex(values.shape[1], name="lag"), columns=pd.RangeIndex(values.shape[0], name="chain"),
        )

    # ---- covariates

    @guided
    def importance(
        self, *, interval: float = 0.9, draws: int = 200, rows: int = 50, rng: Any = None, response: str | None = None
    ) -> pd.DataFrame:
        """Measure the importance of each covariate of a density regression: how many rows use it, and how far it moves the response.

        Parameters
        ----------
        interval : float, default 0.9
            Probability of the intervals from lower to upper.
        draws : int, default 200
            Number of posterior draws behind the effects, spread over the chains; `use` and `inclusion` are of all draws.
        rows : int, default 50
            Number of rows that are moved along each covariate, evenly spaced among the fitted ones.
        rng : int, SeedSequence, Generator or None
            Seed by which these rows are drawn instead.
        response : str, optional
            The response that effects are on; default the first.

        Returns
        -------
        DataFrame
            One row a covariate, with columns

            - use, use_lower, use_upper: share of the rows whose cluster's kernel depends on the covariate;
            - inclusion, inclusion_lower, inclusion_upper: chance with which an atom, whether it has rows or not, depends on it;
            - effect, effect_lower, effect_upper: how far it moves the mean, in units of the response.  A row is moved along the column
              behind the covariate, to nine quantiles of a number or all levels of a category by their frequency, the other columns as they
              are, and the standard deviation of E[y | x] over these values taken; the effect is the root mean square of that over rows;
            - effect_q05, effect_q95: the same of the 5% and the 95% quantile of y given x, without an interval and of fewer rows and draws;
            - rhat: the larger of the R-hats of use and inclusion.

        Raises
        ------
        ValueError
            If the model is a mixture, an argument is out of range, or draws have not been kept (fit with `store="all"`).

        Notes
        -----
        Atoms choose their covariates with `nm.SparseProduct`.  With other kernels all atoms depend on all covariates: use and inclusion are
        1, and rhat NaN.  Components that are lines in a covariate can have an effect of it without its use by kernels.  An effect
        is never negative, and that of a covariate without any is not quite 0: compare it with others.  Covariates that are computed from
        one column share its effect; for one of several columns these are moved together, to their values in nine rows.  Of a response of
        categories the effect is that on the probability that moves most, and it has no quantiles.  `attrs["units"]` has the units.

        Examples
        --------
        >>> import nrmmix as nm
        >>> iris = nm.datasets.load_iris()
        >>> fit = nm.fit("petal_width_cm ~ petal_length_cm + species", iris, draws=50, tune=50, chains=2, rng=1)
        >>> found = fit.importance(draws=20, rows=10)
        >>> found.index.tolist(), bool((found["effect"] > 0).all())
        (['petal_length_cm', 'species'], True)
        """
        from nrmmix.posterior.importance import importance, insist_on_covariates

        insist_on_covariates(self.model)
        return importance(self.posterior, interval=interval, draws=draws, rows=rows, rng=rng, response=response)

    # ---- reports

    def _summary(self) -> Any:
        self._insist_on_draws()
        from nrmmix.report.summary import summary

        return summary(self)

    @guided
    def tidy(self) -> pd.DataFrame:
        """Label-invariant parameters, one a row.

        Returns
        -------
        DataFrame
            Columns term, estimate (posterior mean), std_error (posterior standard deviation), conf_low, conf_high (90% interval), ess,
            rhat, mcse.  Its `attrs["units"]` has the unit of each term: nats for log_joint, shares of the covariate's range for widths of
            covariates that are scaled.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> list(fit.tidy()["term"])
        ['n_clusters', 'log_joint', 'mass']
        """
        from nrmmix.report.frames import tidy

        return tidy(self)

    @guided
    def glance(self) -> pd.DataFrame:
        """The whole fit in one row: model, sampler, size, number of clusters, fit and convergence.

        `mean_log_density` is NaN where `store=` has left out the draws that it needs.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> int(fit.glance()["n_obs"].iloc[0])
        82
        """
        from nrmmix.report.frames import glance

        return glance(self)

    @guided
    def loo(self) -> LeaveOneOut:
        """Leave-one-out cross-validation by Pareto smoothed importance sampling; see `nrmmix.posterior.leave_one_out`.

        Each draw of the random measure gives each row a density; weighted by its reciprocal draws are those without the row.  At the point
        of a `Hurdle` that is the probability there: fits of the same responses can be compared if they have the same points.

        Returns
        -------
        LeaveOneOut
            elpd, se, p_loo, in nats; rows, a DataFrame of elpd and pareto_k by row.

        Raises
        ------
        ValueError
            If there are fewer than 50 draws.

        Warns
        -----
        UserWarning
            Where Pareto k is above 0.7 in some rows, as where one is alone in a cluster: refit without these.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("waiting_min ~ 1", nm.datasets.load_faithful(), draws=100, tune=100, chains=2, rng=1)
        >>> found = fit.loo()
        >>> found.rows.shape, found.p_loo < 15
        ((272, 2), True)
        """
        from nrmmix.posterior.leave_one_out import leave_one_out
        from nrmmix.results.datatree import pointwise

        found = leave_one_out(pointwise(self), self.model.frame.index)
        if found.doubts:
            warn(f"loo: {found.doubts}.")
        return found

    @guided
    def to_datatree(self, log_likelihood: bool = True, posterior_predictive: bool = True) -> Any:
        """The fit as an xarray DataTree for ArviZ; see `nrmmix.results.datatree.to_datatree`.

        Raises
        ------
        ImportError
            If xarray is not installed.
        """
        from nrmmix.results.datatree import to_datatree

        return to_datatree(self, log_likelihood, posterior_predictive)

    @guided
    def to_arviz(self, log_likelihood: bool = True, posterior_predictive: bool = True) -> Any:
        """The fit as what the ArviZ that is installed works on; see `nrmmix.results.datatree.to_arviz`.

        Raises
        ------
        ImportError
            If ArviZ is not installed, or too old.
        """
        from nrmmix.results.datatree import to_arviz

        return to_arviz(self, log_likelihood, posterior_predictive)

    # ---- keeping and continuing

    @guided
    def extend(
        self, draws: int | str = "auto", *, cores: Any = None, progress: bool | None = None, time_limit: float | None = None,
        checkpoint: Any = None, every: Any = "5min",
    ) -> MCMCResult:
        """Go on sampling: a fit with so many draws more in each chain, the same as if it had never stopped.

        Parameters
        ----------
        draws : int or "auto", default "auto"
            Draws to add to each chain; "auto" goes on until they are worth 400 independent ones, see `Model.fit`.
        cores, progress, time_limit, checkpoint, every
            See `Model.fit`.

        Returns
        -------
        MCMCResult
            A new one; this one stays as it is.

        Raises
        ------
        ValueError
            If an argument is out of range.

        Examples
        --------
        >>> import nrmmix as nm
        >>> model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())
        >>> longer = model.fit(draws=20, tune=20, chains=2, rng=1).extend(30)
        >>> bool((longer.draws["labels"] == model.fit(draws=50, tune=20, chains=2, rng=1).draws["labels"]).all())
        True
        """
        from nrmmix.results.running import go_on

        return go_on(self, draws, checkpoint, every, cores=cores, progress=progress, time_limit=time_limit)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by the format of saved fits; what a pickle holds besides runs when it is loaded, whoever wrote it."""
        from nrmmix.results.saving import from_bytes, to_bytes

        return from_bytes, (to_bytes(self),)

    def __repr__(self) -> str:
        model = self.model
        what = "kernel-NRM density regression" if model.is_regression else "NRM mixture"
        stopped = ", stopped early by its time limit" if self._limit_reached else ", stopped early" if self.interrupted else ""
        found = "no draws yet; .extend() goes on"
        if self.draws.n_draws:
            found = f"{np.mean(self.draws['n_clusters']):.1f} clusters on average; more in .summary(), .plot(), .predict()"
        return (
            f"MCMCResult: {what} {model.formula or 'of every column'} ({model.n_obs} observations)\n"
            f"  {self.draws.n_chains} chains x {self.draws.n_draws} draws by {self.method} "
            f"(tune {self.tune}, thin {self.thin}), {self.seconds:.1f} s, seed {self.seed}{stopped}\n"
            f"  {found}"
        )


@wraps(Run)
def _(model: Specification, run: Run) -> MCMCResult:
    result = MCMCResult(model, run)
    # the density of a mixture takes kernels that a fit does without: the summary speaks of it
    warn_unless_converged(result.evidence, result.diagnostics, result.curve_diagnostics if model.is_regression else lambda: None)
    if result.draws.n_draws >= WARN_FROM and (unbounded := too_far_a_priori(model, result.draws)):
        warn(unbounded)
    return result
