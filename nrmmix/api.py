"""The front doors: `Model`, and `fit` in one call."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Mapping
from textwrap import indent
from typing import TYPE_CHECKING, Any, Literal

from nrmmix.common.interrupts import interrupts_delayed
from nrmmix.common.messages import absent, guided
from nrmmix.common.warnings import warn
from nrmmix.common.words import ATTRIBUTES
from nrmmix.kernels.core import jit
from nrmmix.model.families import Family
from nrmmix.model.priors.covariate_kernels import CovariateKernel
from nrmmix.model.priors.measures import Prior
from nrmmix.model.specification import Specification

if TYPE_CHECKING:
    import pandas as pd

    from nrmmix.results.mcmc import MCMCResult
    from nrmmix.results.search import SearchResult
    from nrmmix.results.variational import VariationalResult

if reason := jit.untested():
    warn(reason)

OF_FITS = {*ATTRIBUTES, *"predict plot summary partition draws simulate report save log_density contrasts tidy augment".split()}

LOG = logging.getLogger("nrmmix")  # fits at level INFO; silent unless the caller sets up logging
LOG.addHandler(logging.NullHandler())


class Model(Specification):
    """A normalized random measure mixture, or with covariates a kernel-weighted density regression.

    Parameters
    ----------
    formula : str, optional
        Responses joined by `+`, then `~`, then `1` (a mixture) or covariates (density regression).  Without a formula every column of
        the data is a response.  A response may be censored: `Surv(time, event)`, event 1 where the time is that of the event and 0 where
        it is later, or `interval(lower, upper)`, equal ends where the value was seen, one of them infinite where only the other is known;
        transformed within, `Surv(log(time), event)`.  Gaussian, regression and Poisson components have them, of counts both ends being
        possible; chains draw the values within their limits.
    data : DataFrame, dict of columns, or ndarray (n, d) without a formula; or a source
        The data: a DataFrame of pandas or polars, a table of Arrow, or anything with `to_pandas()`, `__arrow_c_stream__()` or
        `__dataframe__()`.  A source is loaded part by part and may be larger than memory: the path of a .parquet file or a folder of them,
        of a .csv or a .npy file, a `numpy.memmap`, a list of tables, a function that begins anew with tables whenever it is called, or an
        object with `n_batches` and `load(b)`.  Fits of sources are variational.
    family : Family or dict, optional
        Component family; default `Gaussian()`, or with numeric covariates `Regression("1 + ...")` on these, its shrinkage learnt, and where
        the kernel is `SparseProduct` and there is one response on factors too, of up to 40 levels in all, and where there are several
        covariates on the squares of up to 20 numbers, about the middle of their range, unless the formula has them, up to 2,000 rows, and
        then `shrinkage=Gamma(1/2, 0.0005)`.  A dict has families by the names of their responses, as in
        `{"age + weight": nm.Gaussian(), "smoker": nm.Bernoulli()}`: within a component they are independent.
    prior : DirichletProcess, NGGP, NormalizedInverseGaussian, PitmanYor, NormalizedStable, FiniteMixture or a GibbsType, optional
        Random measure; default `DirichletProcess()`.
    kernel : SquaredExponential, Laplace, Epanechnikov, Triangular, Box, Matching, Product or SparseProduct, optional
        Covariate kernel; default `SquaredExponential()` of one covariate that is a number, `SparseProduct()` of several, or of categories;
        from 200,000 rows on `SparseProduct(places=21, widths=(0.02, 0.05, 0.1, 0.2, 0.4))`.
    missing : "drop", "raise" or "marginalize", default "drop"
        Rows with a missing value in a variable of the formula are dropped with a warning that counts them, or refused.  "marginalize"
        keeps rows that miss some of their responses: of these only the others count.  Rows that miss a covariate are dropped then too.
    weights : str or array_like, (n,), optional
        How often each row counts: the name of a column, or one number for each row of the data (a Series must have their labels); default
        once.  0 leaves a row out, which is said.  Whole numbers are exact in every method: defaults of hyperparameters and the posterior
        are those of the table in which rows are repeated.  Chains and searches repeat them, so that copies of a row may lie in different
        clusters; their fit is of those rows (`fit.model.n_obs` is the sum of the weights), and its labels, partition and `augment()` have
        one row for each copy, by the caller's labels, which then repeat: `fit.augment().groupby(level=0)` has what a row's copies do.
        Variational inference goes through the distinct rows, its responsibilities times the weights, and has one row for each.  It alone
        takes other weights than whole numbers: the bound is then that of a likelihood in which the density of each row has its weight as
        its power; `center`, `scale`, `bs` and the like learn from the rows as they stand then, as where they count as 10 million or more.
        Of a source weights are the name of a column.

    Attributes
    ----------
    frame : nrmmix.model.frame.formula.ModelFrame
        Responses (n, d), covariates (n, q) and the index of the rows used.
    family, prior, kernel
        As given, the family's defaults filled in by numbers.
    blocks : nrmmix.model.families.Blocks
        The families with their responses.
    grid : nrmmix.model.priors.covariate_kernels.Grid or None
        Covariate groups and candidate locations.
    n_obs, n_dim : int
        Observations used, and responses.

    Raises
    ------
    ValueError
        If the formula, the data or an option cannot be used; the message names the column, row or argument.

    Warns
    -----
    UserWarning
        If rows are dropped, or left out because their weight is 0.  If values of a continuous response are ties, 30 values or more: one
        that 25% of them have (2%, where it is ten times as frequent as the values beside it), or few distinct ones, each many times.  If
        values lie far from all others, as
        `nrmmix.Gaussian` says: default priors and ranges of covariates are taken from the others then.  Of a source, which is not in
        memory, nothing is said of ties and values far away, and defaults follow all rows.

    Examples
    --------
    >>> import nrmmix as nm
    >>> model = nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle(), kernel=nm.Box(0.2))
    >>> model.n_obs
    133
    """

    def __getattr__(self, name: str) -> Any:
        if name in OF_FITS:
            raise AttributeError(f"'Model' object has no attribute {name!r}; fit it first, fit = model.fit(), and ask the fit.")
        return absent(self, name, of_fits=False)

    @guided
    def fit(
        self, method: Any = "auto", *, draws: int | Literal["auto"] = "auto", tune: int = 1000, thin: int = 1, chains: int = 4,
        init: Any = "spread", rng: Any = None, cores: Any = None, progress: bool | None = None, time_limit: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None, every: float | str = "5min",
        store: Literal["all", "partition", "scalars"] = "all",
    ) -> MCMCResult | SearchResult | VariationalResult:
        """Sample the posterior, or search for one good partition.

        Parameters
        ----------
        method : str, move, list of moves or Cycle, default "auto"
            A name of `Model.methods`: `"gibbs"`, `"split_merge"` (with Gibbs), `"slice"`, `"permutation"` (with Gibbs), `"tree"`
            (with Gibbs), `"tree_published"`, `"blocked"` and `"sngp"`; a move with options, such as `nm.Slice()`; a list such as
            `[nm.SplitMerge(), nm.Gibbs(subset=100)]`, run in turn in every iteration; or an `nm.Cycle`.  `"auto"` is, for mixtures
            whose component parameters are integrated out, from 500 rows or from three responses on `"tree"`, or `"split_merge"` where
            that does not suit (trees too large for memory, so many columns that they take long, families without an entry `combine`); for
            fewer rows of two responses, and for density regressions by such families, `"split_merge"`; else `"gibbs"`.  It is never
            variational inference, but says where that is worth a thought: for density regressions of 20,000 rows and more.
            `"bhc"` and `"ibhc"`, or `nm.BHC(...)` and `nm.IBHC(...)`, are searches: they take rng, progress and time_limit (when it is
            over, a tree that is not finished is given up) and refuse what belongs to chains.
        draws : int or "auto", default "auto"
            Draws to record in each chain.  "auto" goes on until the chains agree: until of the number of clusters, the log joint density,
            the hyperparameters, and in density regression the mean and the quartiles at a few rows spread over all covariates, the
            smallest effective sample size is 400 and the largest R-hat 1.01, or the time limit is over.  At most 1,000 draws of each
            chain are kept (fewer where they would take more than 2 GB): when there are so many, every second one goes and `thin` doubles.
            What is kept is to the bit what `draws=fit.draws.n_draws, thin=fit.thin, tune=fit.tune` draws.
        tune, thin, chains : int, default 1000, 1 and 4
            Iterations of each chain before the first draw, and for each draw; every chain runs tune + draws * thin iterations.  Of
            `draws="auto"` tuning ends when it has taken a third of the time limit.
        init : str, array of int, (n,) or (chains, n), or one or several fits of the same rows, default "spread"
            Start of the chains: `"sequential"` (observations enter one by one in random order), `"one"` cluster, `"each"` its
            own, labels of the rows used, or the clusters of fits, dealt to the chains.  `"spread"`, so that R-hat can see a wrong mode:
            of mixtures, where `tune` is at least 200, chains start sequentially, from one cluster (up to 3,000 rows) and from each row
            its own (up to 500) in turn, with a tied covariance from cuts of a Ward tree, the best one and one into twice as many
            clusters; of density regressions by sparse products of 30 rows or more, each chain at an optimum of the
            variational bound of its own (`nrmmix.VB`), where the family has one; of other models sequentially.  A start by
            `"sequential"` or `"each"` of a mixture whose component parameters are integrated out, with `tune` of at least 200 and up to
            20,000 rows, goes through 40 sweeps at powers of the likelihood that rise from 0.02 to 1 (simulated annealing): otherwise
            rows that have entered one by one may stay each alone, far below the best partition.  For mixtures whose component
            parameters are integrated out also `"ibhc"`, the trees of incremental Bayesian hierarchical clustering (`nm.IBHC`, before
            they are joined) in a random order of each chain's own, and `"ibhc_noisy"`, rows put on top of such trees, which are not
            split (Lee & Choi 2015, section 4.1).
        rng : int, SeedSequence, Generator or None
            Seed.  The same seed gives the same draws bit for bit, whatever the number of cores.  None draws one, kept as `fit.seed`.
        cores : int or dask.distributed.Client, optional
            Threads; default as many as there are processors, at most `chains`.  Of a Client the workers of its cluster run the chains, in
            turns of about half a second between which chains come back here: the draws are the same to the bit, and a turn whose worker
            dies is done anew.
        progress : bool, optional
            Show a progress line on stderr; default only on a terminal.
        time_limit : float, optional
            Seconds of sampling after which the chains stop and keep what was drawn; default none, and with `draws="auto"` 120 (`math.inf`
            for none).  They stop before the next call of a move, or within it: sweeps over all rows go on later in their middle; of other
            calls one that takes longer than 0.3 s more is given up, and the chain goes back by half a second or one iteration.  The
            building of the model, starts by trees and compilation, which happens once on a machine, do not count.  Where it is over
            before the first draw the fit has none, but `fit.extend` goes on where it stopped.
        checkpoint : str or path-like, optional
            File, its name ending in .npz, to which the draws made so far and the state of the chains are written as they go, whole or not
            at all.  `nrmmix.resume` goes on from there, to the same bits, whatever ended the process; `nrmmix.load` reads it too.  The
            file has the whole fit at the end.  A file of that name that is there is replaced: a new call begins anew.  With it SIGTERM
            and SIGHUP stop the chains, and end the process once it is written.
        every : float or str, default "5min"
            Time between two checkpoints: seconds, or a text such as "30s", "5min" or "2h".
        store : {"all", "partition", "scalars"}, default "all"
            What is kept of each draw: all that predictions need; labels and numbers; or numbers alone, for diagnostics.

        Returns
        -------
        MCMCResult
            Of a search a SearchResult, of variational inference a VariationalResult.

        Raises
        ------
        ValueError
            If an argument is out of range, or the method does not use it, or there is not enough memory for the draws.
        OSError
            If the checkpoint cannot be written, before anything is sampled.
        KeyboardInterrupt
            If Ctrl-C came before the first draw; the exception's attribute `fit` can be extended.  Later it ends the chains; the fit has
            what they have drawn.

        Examples
        --------
        >>> import nrmmix as nm
        >>> model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())
        >>> model.fit(draws=20, tune=20, chains=2, rng=1).draws["labels"].shape
        (2, 20, 82)
        """
        with interrupts_delayed():
            from nrmmix.inference.methods import instead_of_chains, method_of, model_for, run
            from nrmmix.results import result_of
            from nrmmix.results.running import guarded, saver_of

        self = self._in_memory(method)
        arguments = {
            "draws": draws, "tune": tune, "thin": thin, "chains": chains, "init": init, "rng": rng, "cores": cores, "progress": progress,
            "time_limit": time_limit, "checkpoint": checkpoint, "every": every, "store": store,
        }
        model = model_for(method, self)
        name, chosen = method_of(method, model)
        if isinstance(method, str) and method == "auto" and (advice := instead_of_chains(model)):
            warn(advice)
        for argument, value in arguments.items():
            if argument not in chosen.accepts and not _same(value, DEFAULTS[argument]):
                raise ValueError(f"{argument} {chosen.why_not.format(method=name)}; leave it out.")
        accepted = {argument: value for argument, value in arguments.items() if argument in chosen.accepts}
        LOG.info("fit %s of %d rows by %s", self.formula or "every column", model.n_obs, name)
        if not chosen.handles_interrupts:
            result = result_of(run(chosen, model, name, **accepted), model)
        else:
            accepted["checkpoint"] = saver_of(model, checkpoint, accepted.pop("every"))
            result = guarded(lambda: result_of(run(chosen, model, name, **accepted), model), endings=checkpoint is not None)
        LOG.info("%s", " ".join(repr(result).split()))
        return result

    def _in_memory(self, method: Any) -> Model:
        """Load all rows into memory, where the method needs them there and their file fits; else return the model as it is."""
        if self.of_file is None or not self.frame.is_streamed:
            return self
        path, given = self.of_file
        from nrmmix.inference.methods import read_for

        table = read_for(method, path)
        return self if table is path else type(self)(self.formula, table, **given)

    def methods(self) -> pd.DataFrame:
        """The methods that have a name, and whether they suit this model.

        Returns
        -------
        DataFrame
            By name of the method: `moves` or the search, whether it `suits`, and the `reason` where it does not.

        Examples
        --------
        >>> import nrmmix as nm
        >>> table = nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle()).methods()
        >>> table.index[table["suits"]].tolist()
        ['auto', 'gibbs', 'split_merge', 'slice', 'tree', 'sngp', 'vb', 'stochastic_vb', 'memoized_vb']
        """
        from nrmmix.inference.methods import table

        return table(self)

    def prior_predictive(self, draws: int = 100, rng: Any = None) -> pd.DataFrame:
        """Data sets drawn from the prior: hyperparameters, random measure, then every row; see `nrmmix.model.prior_predictive.simulate`.

        Examples
        --------
        >>> import nrmmix as nm
        >>> nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy()).prior_predictive(draws=2, rng=1).shape
        (164, 1)
        """
        from nrmmix.model.prior_predictive import simulate

        return simulate(self.expanded(), draws, rng)

    def prior_n_clusters(self) -> pd.Series:
        """Prior distribution of the number of clusters of the rows used; see `nrmmix.model.prior_predictive.n_clusters`.

        Examples
        --------
        >>> import nrmmix as nm
        >>> model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy(), prior=nm.DirichletProcess(1.0))
        >>> prior = model.prior_n_clusters()
        >>> round(float((prior.index * prior).sum()), 3)
        4.99
        """
        from nrmmix.model.prior_predictive import n_clusters

        return n_clusters(self.expanded())

    def log_joint(
        self, labels: Any, *, u: float | None = None, v: Any = None, locations: Any = None, imputed: Any = None, theta: Any = None,
        precision: Any = None, scale: Any = None, covariance: Any = None, shrinkage: Any = None, noise_scale: Any = None,
        codes: Any = None, **hyper_values: float,
    ) -> float:
        """Log joint density of data and partition at given hyperparameters.

        log p(X, partition) for mixtures by a Dirichlet or Pitman-Yor process, finite or of Gibbs type; for the others log p(X, partition,
        u) at the given u, or with u integrated out where u is not given.  In density regression log p(y, partition, locations, log v), a
        density in log v: in v itself it would be mostly the sum of -log v, whose tails are heavy and say nothing of the fit.  Hyperpriors
        are not added.  Where missing cells are drawn, not integrated out, the data X are the observed and the imputed cells.  Parameters
        of components that are not integrated out come with their density under the prior.

        Parameters
        ----------
        labels : array_like of int, (n,)
            Cluster of each row used; any integers.  Of rows that have weights one for each copy, those of a row one after the other.
        u : float, optional
            Auxiliary variable of a mixture.
        v : array_like, (G,)
            Auxiliary variables of density regression, one for each distinct covariate row in sorted order, or each bin
            (`model.grid.values`).
        locations : array_like of int, (K,)
            Location of each cluster, as a row of `model.grid.locations`, clusters in the order in which they first appear.
        imputed : array_like, (n_missing,)
            Values of the missing cells that fits draw, row by row, in the units of the responses: one draw of `fit.draws["imputed"]`.
        theta : array_like, (K, parameters)
            Parameters of each cluster that fits do not integrate out, as in `fit.draws["theta"]`, clusters in the same order.
        precision : array_like, (d,)
            Precisions that all clusters share, as in `fit.draws["precision"]`.
        scale : array_like, (d,)
            Scales of `nm.Gaussian` that are sampled, as multiples of their prior means, as in `fit.draws["scale"]`.
        covariance : array_like, (d (d + 1)/2,)
            Covariance of all components of `nm.Gaussian("tied")`, as in `fit.draws["covariance"]`: its lower triangle, row by row.
        shrinkage, noise_scale : array_like, (q,) and (d,)
            Of regression components that learn them, as in `fit.draws["shrinkage"]` and `fit.draws["noise_scale"]`.
        codes : array_like of int, (slots, q)
            Codes of the slots of `nm.SparseProduct`, as in `fit.draws["codes"]`; the density is given them.
        **hyper_values : float
            `mass`, `sigma`, `width`; those that the model fixes may be left out, and a `sigma` that is 0 throughout may be given as 0.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If an argument is missing, unknown or of the wrong shape.

        Examples
        --------
        >>> import nrmmix as nm
        >>> X = np.array([[0.0], [0.1], [3.0]])
        >>> model = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=nm.Gaussian(m=0, r=1, nu=3, scale=1))
        >>> round(model.log_joint([0, 0, 1]), 4)
        -7.3046
        """
        from nrmmix.model.log_joint import log_joint

        shared = {"precision": precision, "scale": scale, "covariance": covariance, "shrinkage": shrinkage, "noise_scale": noise_scale}
        return log_joint(self.expanded(), labels, u, v, locations, imputed, theta, shared, codes, hyper_values=hyper_values)


@guided
def fit(
    formula: str | None = None, data: Any = None, *, family: Family | str | Mapping[Any, Family | str] | None = None,
    prior: Prior | str | float | None = None, kernel: CovariateKernel | str | None = None,
    missing: Literal["drop", "raise", "marginalize"] = "drop", weights: Any = None, method: Any = "auto",
    draws: int | Literal["auto"] = "auto", tune: int = 1000, thin: int = 1, chains: int = 4, init: Any = "spread", rng: Any = None,
    cores: Any = None, progress: bool | None = None, time_limit: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None, every: float | str = "5min", store: Literal["all", "partition", "scalars"] = "all",
) -> MCMCResult | SearchResult | VariationalResult:
    """Fit a mixture (`responses ~ 1`) or a density regression (`responses ~ covariates`).

    The same as `nm.Model(formula, data, ...).fit(method, ...)`.  Arguments from `draws` on are of the run: chains take all of them,
    searches `rng`, `progress` and `time_limit`, variational inference these and `init`; one that a method does not use is refused.  What
    one method alone has is an argument of its class, as in `method=nm.VB(starts=2)`.

    Parameters
    ----------
    {parameters}

    Returns
    -------
    MCMCResult
        Of a search, such as `method="ibhc"`, a SearchResult, of variational inference a VariationalResult.

    Raises
    ------
    ValueError
        If an argument cannot be used; the message names it and says what would work.

    See Also
    --------
    nrmmix.Gibbs, nrmmix.SplitMerge, nrmmix.Slice, nrmmix.Permutation, nrmmix.TreeGuided, nrmmix.Blocked, nrmmix.SNGP : moves of chains.
    nrmmix.Cycle : several moves in turn.
    nrmmix.BHC, nrmmix.IBHC : searches.
    nrmmix.VB, nrmmix.StochasticVB, nrmmix.MemoizedVB : variational inference.

    Examples
    --------
    >>> import nrmmix as nm
    >>> result = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=20, tune=20, chains=2, rng=1)
    >>> result.draws["A"].shape
    (2, 20, 160)
    """
    if isinstance(data, (str, os.PathLike)):
        with interrupts_delayed():
            from nrmmix.inference.methods import read_for
        data = read_for(method, data)
    return Model(formula, data, family=family, prior=prior, kernel=kernel, missing=missing, weights=weights).fit(
        method, draws=draws, tune=tune, thin=thin, chains=chains, init=init, rng=rng, cores=cores, progress=progress,
        time_limit=time_limit, checkpoint=checkpoint, every=every, store=store,
    )


def _parameters(documented: Any) -> str:
    """The section of a docstring on parameters, without its heading."""
    lines = (inspect.getdoc(documented) or "").split("\n\n")
    start = next(i for i, part in enumerate(lines) if part.startswith("Parameters\n-"))
    end = next(i for i, part in enumerate(lines) if i > start and part.split("\n")[1:2] and set(part.split("\n")[1]) == {"-"})
    return "\n\n".join(lines[start:end]).split("\n", 2)[2]


if fit.__doc__:  # python -OO leaves none; both are documented once, where they are used
    fit.__doc__ = fit.__doc__.replace("{parameters}", indent(f"{_parameters(Model)}\n{_parameters(Model.fit)}", "    ").lstrip())

DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(Model.fit).parameters.items()}


def _same(value: Any, default: Any) -> bool:
    """Whether an argument is its default; one that is an array is not."""
    return value is default or (isinstance(value, (int, str)) and value == default)
