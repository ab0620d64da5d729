"""The result of variational inference for density regression: factors of every start, and what they are averaged by."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common.messages import count
from nrmmix.inference.variational.options import RegressionOutcome
from nrmmix.inference.variational_regression.spread import labels_and_codes
from nrmmix.model.specification import Specification
from nrmmix.posterior.kernel_factors import KernelFactorPosterior
from nrmmix.posterior.predict.membership import KINDS as OF_CLUSTERS
from nrmmix.results.base import Result, wraps
from nrmmix.results.variational import VariationalResult

PASSES = ["elbo", "n_components", "n_clusters", "moved", "merged", "born", "tried", "kept"]


@wraps(RegressionOutcome)
class VariationalRegressionResult(VariationalResult):
    """A variational posterior of a density regression: of each start q(z) q(v) q(weights, mass) q(phi) and codes, and its bound.

    Made by `Model.fit` and `nrmmix.fit` of `y ~ x` with `method="vb"`, `"stochastic_vb"` or `"memoized_vb"`.  Predictions are averages over
    the starts, by their weights, and over the factors.  Bands are of random measures drawn from q, those of one start after those of
    another: they lack that rows could be divided otherwise than some start has it, and are narrower than those of chains.

    Attributes
    ----------
    model : Model
    method : str
    options : VB, StochasticVB or MemoizedVB
    elbo : float
        The average of the starts' bounds by their weights, which is below the bound of their mixture: a lower bound of the log density of
        the responses given the covariates, jointly with the logarithms of shrinkage and noise scale, which are point estimates.
    starts : DataFrame
        By number of the start: elbo, weight, n_components, n_clusters (with half a row or more), passes, converged.
    passes : DataFrame
        Of the start of the largest weight, the first of these: elbo, n_components, n_clusters, and codes moved by the search.
    fits : tuple of nrmmix.posterior.kernel_factors.KernelFactors
        Of each start expected counts `N`, statistics, codes of the kernel, and what follows from them.
    n_clusters, n_components : int
        Of that start, as are clusters, labels and responsibilities.
    weights : Series
        Its E pi_m as shares; components by decreasing counts.
    has_converged : bool
        Whether the tolerance has ended every start.
    seed : int
    seconds : float
    interrupted : bool
        Whether it was stopped; then it has the starts that were there.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), method=nm.VB(starts=2), rng=1)
    >>> fit.predict({"times_ms": [10.0, 30.0]}).shape
    (2, 3)
    """

    def __init__(self, model: Specification, outcome: RegressionOutcome) -> None:
        Result.__init__(self, model, outcome.seed)
        self._outcome = outcome
        self.options, self.method, self.fits = outcome.method, outcome.name, outcome.fits
        self.seconds, self.interrupted = outcome.seconds, outcome.interrupted
        self.has_converged = bool(outcome.has_converged.all()) and not outcome.interrupted
        self.elbo = float(outcome.weights @ outcome.bounds)
        last = [own[-1] for own in outcome.passes]
        self.starts = pd.DataFrame({
            "elbo": outcome.bounds, "weight": outcome.weights, "n_components": [one.n_components for one in last],
            "n_clusters": [one.n_clusters for one in last], "passes": [len(own) for own in outcome.passes],
            "converged": outcome.has_converged,
        }).rename_axis("start")
        table = pd.DataFrame(outcome.passes[self.posterior.best]).set_index("number").rename_axis("pass")
        self.passes = table.rename(columns={"bound": "elbo"})[PASSES]
        self.factors = self.posterior.factors
        self._clusters = self._most_probable = None

    @property
    def posterior(self) -> KernelFactorPosterior:
        return KernelFactorPosterior(self.model, self.fits, self._outcome.weights, self._outcome.rows, self.seed)

    def _averaged(self, kind: str, draws: int) -> KernelFactorPosterior:
        posterior = self.posterior
        if kind in OF_CLUSTERS and self.model.frame.is_streamed:  # clusters are those of the components of one start
            posterior = posterior._replace(fits=(posterior.factors,), weights=np.ones(1))
        return posterior._replace(draws=1 if kind in OF_CLUSTERS else count("draws", draws, 1))

    @property
    def weights(self) -> pd.Series:
        expected = self.factors.weights.expected
        return pd.Series(expected / expected.sum(), index=pd.RangeIndex(len(expected), name="component"), name="weight")

    @property
    def expected_mass(self) -> float:
        return float(self._outcome.weights @ [one.weights.expected_mass for one in self.fits])

    def update(self, newdata: Any, *, rng: Any = None, executor: Any = None) -> VariationalResult:
        """A fit of the rows seen, new ones added to those before, which are not gone through again.

        The earlier rows keep their r and v (but for one factor of all v), so that what is needed of them are sums: counts, statistics, and
        H and G by bins of the covariates (see `nrmmix.inference.variational_regression.memory`).  Given these every step is one of
        coordinate ascent on the bound of all rows seen: weights, mass, parameters, shrinkage, noise scale, and the codes of the kernel.
        What differs from going through all rows again: earlier rows do not move between components, and a component that gets another
        code for one covariate keeps its others from then on, as G of these is not known.

        Parameters
        ----------
        newdata : DataFrame, path or other source
            Rows with the responses and covariates of the model.
        rng : int, SeedSequence, Generator or None
            Seed of the order of the batches; None follows from the fit's seed and the number of rows.
        executor : optional
            See `nrmmix.MemoizedVB`.

        Returns
        -------
        VariationalResult
            A new one; this one stays as it is.  Its `elbo` is that of the rows seen, `model.n_obs` their number.  Covariates are measured
            as those of the first rows were, by their ranks and ranges: a value beyond them counts as at the edge, with a warning.
            Starts keep their weights, unless `combine="best"`.  It cannot find the rows again: `predict` needs newdata=, and
            `importance` is refused.

        Raises
        ------
        ValueError
            If the new rows cannot be used, such as for a level that the first rows do not have; for kernels of several covariates other
            than `nrmmix.SparseProduct`; for a fit that was saved without sums, by an earlier version.

        Examples
        --------
        >>> import nrmmix as nm
        >>> motorcycle = nm.datasets.load_mcycle().sort_values("accel_g")
        >>> fit = nm.fit("accel_g ~ times_ms", motorcycle[::2], method=nm.VB(starts=2), rng=1)
        >>> further = fit.update(motorcycle[1::2].query("4 < times_ms < 55"))
        >>> further.model.n_obs > fit.model.n_obs
        True
        """
        from nrmmix.results.updating import updated_starts

        return updated_starts(self, newdata, rng, executor)

    def starting_points(self) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """Return, for each start, those of large weights first, labels (n,) for chains to begin with, and codes of their clusters."""
        order = np.argsort(-self.posterior.weights, kind="stable")
        return [labels_and_codes(self.posterior, int(start)) for start in order]

    def importance(
        self, *, interval: float = 0.9, draws: int = 200, rows: int = 50, rng: Any = None, response: str | None = None
    ) -> pd.DataFrame:
        """Measure the importance of each covariate; see `MCMCResult.importance`.

        Parameters
        ----------
        interval, draws, rows, rng, response
            As there; bands of `use` go from the smallest to the largest of the starts, those of effects over random measures drawn from q.
            Where rows are not in memory, those that are moved and the values that they are moved to are of 20,000 evenly spaced rows.

        Returns
        -------
        DataFrame

        Raises
        ------
        ValueError
            If an argument cannot be used, or the fitted rows are in a source that cannot be found.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), method=nm.VB(starts=2), rng=1)
        >>> fit.importance(draws=20, rows=10)["use"].tolist()
        [1.0]
        """
        from nrmmix.posterior.importance import importance

        frame: Any = self.model.frame
        if frame.is_streamed and frame.rows is None:
            raise ValueError(
                "importance moves rows along covariates, and those that were fitted cannot be found; summary() has the share that uses "
                "each."
            )
        return importance(self.posterior._replace(draws=draws), interval=interval, draws=draws, rows=rows, rng=rng, response=response)

    def __repr__(self) -> str:
        model, starts = self.model, self.starts
        stopped = ", stopped early" if self.interrupted else "" if self.has_converged else ", not converged"
        of = f"{len(starts)} starts" if len(starts) > 1 else "one start"
        return (
            f"VariationalResult: kernel-NRM density regression {model.formula or ''} ({model.n_obs} observations)\n"
            f"  {of} by {self.method} ({self.options.combine}), {starts['n_clusters'].min()} to {starts['n_clusters'].max()} components "
            f"with rows, {self.seconds:.1f} s, seed {self.seed}{stopped}\n"
            f"  evidence lower bound {self.elbo:.2f}; more in .summary(), .plot(), .predict()"
        )
