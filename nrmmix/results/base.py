"""Base of every result of a fit, however it was found: predictions and clusters; summaries, pictures and reports from `shown`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import pandas as pd

from nrmmix.common.messages import absent, guided
from nrmmix.common.warnings import warn
from nrmmix.model.frame.rows import NewRows, Rows
from nrmmix.model.specification import Specification
from nrmmix.posterior.draws import Draws, NotKept, Posterior
from nrmmix.posterior.kernel_factors import AnyPosterior
from nrmmix.posterior.partition import Partition
from nrmmix.posterior.predict.membership import KINDS as OF_CLUSTERS
from nrmmix.results.clustering import Clustered
from nrmmix.results.shown import Shown

if TYPE_CHECKING:
    from nrmmix.posterior.imputation import Imputations

Kind = Literal["mean", "density", "cdf", "exceedance", "survival", "hazard", "quantile", "cluster", "membership"]


class Result(Clustered, Shown):
    """Base of the results of fits: what was fitted, and the entropy of the random numbers.

    Those of predictions and searches follow from the seed where they are given none.  Most have draws of the posterior; one that has none
    says what predictions are made from, and which partition is its estimate.
    """

    draws: Draws
    _kinds: Callable[[], tuple[str, ...]]  # of pictures, where the method has its own

    def __init__(self, model: Specification, seed: int, draws: Draws | None = None) -> None:
        self.model, self.seed = model, seed
        if draws is not None:
            self.draws = draws
        self._partitions: dict[tuple[Any, ...], Partition] = {}

    def __getattr__(self, name: str) -> Any:
        return absent(self, name)

    @property
    def posterior(self) -> AnyPosterior:
        """Posterior that predictions are made from: the specification, the draws or factors, and the seed."""
        self._insist_on_draws(*getattr(self, "lacking", ()))
        return Posterior(self.model, self.draws, self.seed)

    def _insist_on_draws(self, *names: str) -> None:
        """A NotKept where there are none, or these have not been kept."""
        if self.draws.n_draws == 0:
            raise NotKept("the fit has no draws: it was stopped before the first one; fit.extend() goes on where it stopped.")
        if lacking := [name for name in names if name not in self.draws]:
            raise NotKept(f"the fit has no draws of {', '.join(lacking)}: they were left out by store=; fit again without it.")

    def _averaged(self, kind: str, draws: int) -> AnyPosterior:
        """Return what a prediction averages over, of which it takes so many draws."""
        return self.posterior

    def _estimate(self) -> np.ndarray:
        return self.partition().labels

    # ---- the random density

    @guided
    def predict(
        self, newdata: Any = None, kind: Kind = "mean", *, at: Any = None, q: Any = (0.05, 0.5, 0.95), interval: float = 0.9,
        draws: int = 500, rng: Any = None, response: str | Sequence[str] | None = None, given: str | Sequence[str] | None = None,
        out: Any = None, units: Literal["formula", "response"] = "formula",
    ) -> pd.DataFrame | Path:
        """Posterior means and credible bands of a functional of the random density.

        Parameters
        ----------
        newdata : DataFrame, path or other source, optional
            Rows to predict for, with the covariates and what else components depend on, such as an exposure; default the rows that were
            fitted.  One row may be a Series by the names of columns, `data.iloc[0]`, or a dict of single values.
            A .parquet, .csv or .npy file, and whatever else can be loaded part by part, is never in memory as a whole.
        kind : {"mean", "density", "cdf", "exceedance", "survival", "hazard", "quantile", "cluster", "membership"}, default "mean"
            Means of the responses, their density, distribution functions, probabilities of more than `at`, the same as curves of survival,
            hazards, which are the density over that, or quantiles of each response, or the cluster of the point estimate `partition()`
            that a row most probably belongs to, or the probabilities of all of them.
        at : array_like, (m,) or (m, d) with d responses, optional
            Points at which to evaluate the density, cdf, survival, hazard or exceedance, which needs them; levels of responses that have
            categories.  Every row is combined with every point.  Default: of densities and cdfs the row's own response, NaN where that is
            censored; where new data hold no response, and of survival and hazards, a grid: of a number 100 points, of a count whole
            numbers, of categories all levels.
        q : float or sequence of floats, default (0.05, 0.5, 0.95)
            Probabilities of the quantiles.
        interval : float, default 0.9
            Probability of the band from `lower` to `upper`.
        draws : int, default 500
            Number of posterior draws to use, spread over the chains.
        rng : int, SeedSequence, Generator or None
            Seed of the random densities behind the band; None follows from the fit's seed, so that predictions repeat themselves.
        response : str or sequence of str, optional
            Responses whose marginals are wanted, of several; points `at` then have one column for each.  Default: the joint density;
            distribution functions and quantiles of every response.
        given : str or sequence of str, optional
            Responses that the rows of new data hold: predictions are of the others given these, in their own units, with a level
            `response` where several are left.  Rows that miss one of them are NaN.
        out : path, optional
            File, its name ending in .parquet or .csv, that the table is written to, its index as columns, part by part.
        units : {"formula", "response"}, default "formula"
            Units of responses that the formula transforms: as the formula has them, or those of the column, in which points `at` are then
            too: `log(wage) ~ x` is predicted as a wage.  There is a way back from functions that take each value once: log, log10, log2,
            log1p, sqrt, cbrt, logit, center, standardize, numbers added and multiplied, and others.

        Returns
        -------
        DataFrame
            Columns estimate, lower, upper.  The index is that of the rows, with levels added: `y` (curves of one response), one
            for each response (joint density), `response` (several responses), `q` (quantiles).  Quantiles of a mixture without new
            data, and its density and cdf at points `at`, have no level of rows, unless its components have inputs: then they differ
            from row to row.  Rows in which a covariate or an input is missing are NaN.
            Its `attrs["units"]` says in what units the numbers are: those of the response for means and quantiles.
            With `kind="cluster"` columns cluster and probability: of a new row that it belongs there, given its responses, with cluster -1
            for one that the estimate does not have; of a fitted row, the posterior mean share of its companions that are with it there.
            With `kind="membership"` what `membership` gives.
            With `out` the path of the file.

        Raises
        ------
        ValueError
            If an argument cannot be used, a response has no such functional, or a row is out of reach of every location of the covariate
            kernel.

        Notes
        -----
        Densities of counts and categories are probabilities, those of responses of several kinds densities times probabilities.  Where a
        number has a probability of its own, as the point of `Hurdle`, its density there is that probability, and elsewhere one per unit;
        distribution functions jump there.
        Means: of a binary response the probability of 1; of categories the probability of each level, `response` then being
        `colour[red]` and so on; of counts given their total (`Multinomial`) the shares; these have no laws of their own, only the density
        of all counts of a row given their total.  Categories have no distribution function and no quantiles; the quantile of a count
        is the smallest whole number whose distribution function is q or more.  Where some responses of a row are missing its density is
        that of the others, and so is its cluster.

        With `given` the estimate is E[f(y_given, y)] / E[f(y_given)], the law of a new row of which these responses are observed, and the
        band that of the random conditional density once the row is among the data: it has an atom of the measure, drawn given it too.
        Without it new data of a mixture that hold some of its responses are refused where the prediction would ignore them.

        Bands are quantiles over draws of the random measure.  Of the atoms that no row belongs to each location of the covariate kernel
        has its largest drawn, until the variance of the sum of the others is 1e-8 of the sum of squares of those, up to 1e-3 where that
        takes more than 300 of them besides one for each location, and more where it takes more than 2,000; so what is left out is as
        small at any x, however far from the data.  The estimate is an average over all that a draw can be, and where it lies beyond these
        quantiles, as of a density far in a tail, the band reaches to it: it then has the probability of `interval` or more.  A single draw
        has no band, and both ends are the functional of that draw.

        In the units of the column densities are multiplied by the slope of the transformation, quantiles are taken back, and so are points.
        Means are those of the column, not means taken back: averages over the atoms of draws of the random measure.  Where the column is
        bounded, as behind logit, the estimate is their mean.  Behind log, and other functions whose inverse grows without bound, it is
        their median: the predictive distribution has the tails of Student's t, whose exponential has no mean, which a warning says.
        What a component has beyond the range of the transformation, as below 0 of sqrt, counts as its end.

        Sparse counts: the means, the same in every row, have the index `response` alone, and densities that of the rows alone.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=50, tune=50, chains=2, rng=1)
        >>> fit.predict({"times_ms": [10.0, 30.0]}, draws=50, rng=1).shape
        (2, 3)
        >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), draws=50, tune=50, chains=2, rng=1)
        >>> fit.predict({"eruptions_min": [2.0, 4.5]}, given="eruptions_min")["estimate"].round(-1).tolist()
        [50.0, 80.0]
        """
        from nrmmix.posterior.predict.tables import predict
        from nrmmix.results.streams import of_parts

        def of_rows(rows: Rows) -> pd.DataFrame:
            return predict(
                self._averaged(kind, draws), rows, kind, at=at, q=q, interval=interval, draws=draws, rng=rng, response=response,
                given=given, units=units, estimate=self._estimate,
            )

        tables = self._own_clusters(kind) if kind in OF_CLUSTERS and newdata is None else None
        return of_parts(self.model, newdata, out, of_rows, at is None and kind != "quantile", tables)

    def _own_clusters(self, kind: str) -> Iterator[pd.DataFrame] | None:
        """Clusters of rows that are not in memory, part by part."""

    @guided
    def contrasts(
        self,
        values: Mapping[str, Any],
        kind: Literal["mean", "density", "cdf", "exceedance", "survival", "hazard", "quantile"] = "mean",
        *,
        at: Any = None,
        q: Any = (0.05, 0.5, 0.95),
        interval: float = 0.9,
        draws: int = 500,
        rng: Any = None,
        response: str | Sequence[str] | None = None,
        units: Literal["formula", "response"] = "formula",
    ) -> pd.DataFrame:
        """Differences of a functional of the random density between values of a column, with credible bands.

        Parameters
        ----------
        values : dict
            From one column that the conditional distribution depends on to two or more values of it, and if need be from others to one
            value, at which they are held: `{"x": [10, 20], "group": "a"}`.  Columns that are not named are held at the median of their
            numbers, or the most frequent of their levels.
        kind : {"mean", "density", "cdf", "exceedance", "survival", "hazard", "quantile"}, default "mean"
        at, q, interval, draws, rng, response, units
            See `predict`; all but means and quantiles need `at`.

        Returns
        -------
        DataFrame
            Columns estimate, lower, upper, one row for each pair of values: the later one's functional less the earlier one's.  Index
            `contrast`, such as "20 - 10", with the levels that `predict` adds.  Bands are of the difference: both values are looked up in
            the same draw of the random measure.  NaN where one of the two values is missing.

        Raises
        ------
        ValueError
            If no column or several have more than one value, a name is unknown, or an argument cannot be used.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=50, tune=50, chains=2, rng=1)
        >>> fit.contrasts({"times_ms": [15, 20, 30]}, draws=50, rng=1).index.tolist()
        ['20 - 15', '30 - 15', '30 - 20']
        """
        from nrmmix.posterior.predict.contrasts import contrasts

        return contrasts(
            self._averaged(kind, draws), values, kind, at=at, q=q, interval=interval, draws=draws, rng=rng, response=response, units=units
        )

    @guided
    def log_density(
        self, newdata: Any = None, *, draws: int | None = 1000, average: Literal["density", "log"] = "density", out: Any = None
    ) -> pd.Series | Path:
        """Logarithm of the posterior mean density of the responses, one a row.

        Parameters
        ----------
        newdata, out
            Rows with responses and covariates, and a file to write to; see `predict`.
        draws : int or None, default 1000
            Number of posterior draws to average over, spread over the chains; None for all.
        average : {"density", "log"}, default "density"
            Average the density and take its logarithm, the predictive density; or average the logarithms of the draws' densities, which
            is smaller (equation 14 of Foti & Williamson 2012).

        Returns
        -------
        Series
            With the index of the rows; its mean over held-out rows is a held-out score.  Of rows that miss some responses it is the density
            of the others; rows that miss all, a covariate or an input are NaN.  Multinomial coefficients are counted.  At the point of a
            `Hurdle` it is the probability there.  Of a censored response it is the probability of its limits, given the others of the row.

        Warns
        -----
        UserWarning
            If three of the rows or more, and not all of them, hold the same values as rows that were fitted, more than chance would have
            it: a mean over such a table is no held-out score.

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
        from nrmmix.posterior.held_out import MIN_ROWS, described, seen_rows
        from nrmmix.posterior.predict.tables import log_density
        from nrmmix.results.streams import of_parts, opened

        rows = opened(self.model, newdata)
        found = of_parts(self.model, rows, out, lambda part: log_density(self.posterior, part, draws, average))
        if isinstance(found, pd.Series) and isinstance(rows, NewRows):
            seen = seen_rows(self.model, rows)
            if MIN_ROWS <= len(seen) < len(found):
                warn(f"log_density: {described(seen, found.index)} were fitted: there it is in-sample, and the mean no held-out score.")
        return found

    @guided
    def simulate(
        self, newdata: Any = None, draws: int = 1, rng: Any = None, given: str | Sequence[str] | None = None,
        units: Literal["formula", "response"] = "formula",
    ) -> pd.DataFrame:
        """Replicates of the responses from the posterior predictive distribution.

        In each replicate all rows are drawn from one draw of the random measure, so that a replicate is a data set like the observed.

        Parameters
        ----------
        newdata : DataFrame, optional
            Rows with covariates and inputs, and of counts given their total the counts, whose totals the replicates have; default the
            rows that were fitted.
        draws : int, default 1
            Number of replicates, from posterior draws spread over the chains.
        rng : int, SeedSequence, Generator or None
            Seed; None follows from the fit's seed.
        given : str or sequence of str, optional
            Responses that the rows hold and keep: the others are drawn given these, every row for itself, by the law of `predict`.
        units : {"formula", "response"}, default "formula"
            Whether responses that the formula transforms are as it has them, or in the units and with the names of their columns.

        Returns
        -------
        DataFrame
            One column a response, categorical where it has categories, sparse where the model was given sparse counts; the index is
            that of the rows with a level `draw` added, replicates one after the other.  Rows in which a covariate, an input or a total
            is missing are NaN.

        Raises
        ------
        ValueError
            If an argument cannot be used, new data lack the counts whose totals are needed, or a row is out of reach of every location of
            the covariate kernel.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> fit.simulate(draws=3, rng=1).shape
        (246, 1)
        """
        from nrmmix.posterior.predict.simulate import simulate

        return simulate(self.posterior, newdata, draws, rng, given, units)

    @guided
    def impute(self, draws: int = 20, rng: Any = None, *, data: Any = None, interval: float = 0.9) -> Imputations:
        """Completed tables: missing responses drawn from the posterior, given the other cells of their row and its cluster.

        Parameters
        ----------
        draws : int, default 20
            Number of tables, each from another draw of the posterior as long as there are enough.
        rng : int, SeedSequence, Generator or None
            Seed; None follows from the fit's seed.
        data : DataFrame, optional
            The table that was fitted, where completed tables are to have all its columns; default those that the model uses.
        interval : float, default 0.9
            Probability of the intervals in `cells`.

        Returns
        -------
        Imputations
            A list of DataFrames, rows, columns and types as fitted; `cells` has an estimate and an interval for each missing cell.

        Raises
        ------
        ValueError
            If nothing is missing, as where rows were dropped; if a response with gaps is computed from columns, or counts given a total; if
            `data` is not the table that was fitted.

        Examples
        --------
        >>> import nrmmix as nm
        >>> data = nm.datasets.load_faithful().astype(float)
        >>> data.loc[3, "waiting_min"] = np.nan
        >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", data, missing="marginalize", draws=50, tune=50, chains=2, rng=1)
        >>> tables = fit.impute(draws=3)
        >>> len(tables), bool(tables[0]["waiting_min"].isna().any()), list(tables.cells)
        (3, False, ['estimate', 'lower', 'upper'])
        """
        from nrmmix.posterior.imputation import impute

        return impute(self.posterior, draws, rng, data, interval)

    @guided
    def augment(self, newdata: Any = None) -> pd.DataFrame:
        """The data with what the fit says of each row.

        Parameters
        ----------
        newdata : DataFrame, optional
            Default the rows that were fitted.

        Returns
        -------
        DataFrame
            The data, then .fitted and .resid (one each a mean of `predict`, with its name where there are several), .log_density, .cluster
            and .probability; what needs the response is left out where new data have none.  Fitted values of a mixture are expectations
            given the row's cluster, in each draw its own, and of a missing cell given the other cells of the row too; those of density
            regression given the covariates.  Residuals are NaN where the response is missing; of counts given their total they are
            observed less fitted shares; categories have none.  Of sparse counts only the last three columns are given.

        Raises
        ------
        ValueError
            If the new data cannot be used.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> list(fit.augment())
        ['velocity_km_s', '.fitted', '.resid', '.log_density', '.cluster', '.probability']
        """
        from nrmmix.report.frames import augment

        return augment(self, newdata)


# ---- what becomes of what a method gives back

WRAPPERS: dict[type, Callable[[Specification, Any], Any]] = {}  # by the type of what a method gives back
Wrapper = TypeVar("Wrapper", bound=Callable[..., Any])


def wraps(outcome: type) -> Callable[[Wrapper], Wrapper]:
    """Decorator: a class, or a function, that makes the result of outcomes of a type from the model and one of these."""

    def register(wrapper: Wrapper) -> Wrapper:
        WRAPPERS[outcome] = wrapper
        return wrapper

    return register


def result_of(outcome: Any, model: Specification) -> Any:
    """The result of a fit, from what its method gave back."""
    return WRAPPERS[type(outcome)](model, outcome)
