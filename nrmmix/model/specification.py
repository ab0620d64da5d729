"""The model: a printable specification that exists before anything is sampled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from nrmmix.common.interrupts import held
from nrmmix.defaults import default, given, plain
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.covariates import constant
from nrmmix.kernels.measure import auxiliary, hyper
from nrmmix.model.families import Blocks, Family, Gaussian, assign, designs
from nrmmix.model.frame.formula import ModelFrame, model_frame
from nrmmix.model.frame.tables import listed
from nrmmix.model.priors.covariate_kernels import CovariateKernel, SquaredExponential
from nrmmix.model.priors.grid import Grid
from nrmmix.model.priors.hyperpriors import Gamma, Hyperparameter, hyper_row, hyper_start
from nrmmix.model.priors.measures import DirichletProcess, Prior
from nrmmix.posterior.convergence import warn_unless_converged

if TYPE_CHECKING:
    import pandas as pd

    from nrmmix.results.mcmc import MCMCResult
    from nrmmix.results.search import SearchResult

SEQUENTIAL = default("sequential")


class Model:
    """A normalized random measure mixture, or with covariates a kernel-weighted density regression.

    Parameters
    ----------
    formula : str, optional
        Responses joined by `+`, then `~`, then `1` (a mixture) or covariates (density regression).  Without a formula every column of
        the data is a response.
    data : DataFrame, or anything with `to_pandas()`, or ndarray (n, d) without a formula
        The data.
    family : Family or dict, optional
        Component family; default `Gaussian()`.  A dict has families by the names of their responses, as in
        `{"age + weight": nm.Gaussian(), "smoker": nm.Bernoulli()}`: within a component they are independent.
    prior : DirichletProcess, NGGP, NormalizedInverseGaussian, PitmanYor, NormalizedStable, FiniteMixture or a GibbsType, optional
        Random measure; default `DirichletProcess()`.
    kernel : SquaredExponential or Box, optional
        Covariate kernel; default `SquaredExponential()` when there are covariates.
    missing : "drop", "raise" or "marginalize", default "drop"
        Rows with a missing value in a variable of the formula are dropped with a warning that counts them, or refused.  "marginalize"
        keeps rows that miss some of their responses: of these only the others count.  Rows that miss a covariate are dropped then too.

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

    Examples
    --------
    >>> import nrmmix as nm
    >>> model = nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle(), kernel=nm.Box(0.2))
    >>> model.n_obs
    133
    """

    def __init__(
        self,
        formula: str | None = None,
        data: Any = None,
        *,
        family: Family | Mapping[Any, Family] | None = None,
        prior: Prior | None = None,
        kernel: CovariateKernel | None = None,
        missing: str = "drop",
    ) -> None:
        if data is None:
            raise ValueError("data is missing; give a DataFrame, or with formula=None an array.")
        family = Gaussian() if family is None else family
        prior = DirichletProcess() if prior is None else prior
        if not isinstance(family, Mapping):
            _check_type("family", family, Family, "nm.Gaussian()")
        _check_type("prior", prior, Prior, "nm.DirichletProcess() or nm.NGGP()")
        if kernel is not None:
            _check_type("kernel", kernel, CovariateKernel, "nm.SquaredExponential() or nm.Box(width)")
        if isinstance(data, ModelFrame):
            self.frame = data
        else:
            self.frame = model_frame(formula, data, missing, lambda names: assign(family, names).reads, designs(family))
        self.formula = formula
        self.prior = prior
        self._measure = prior.kind_of(self.frame.covariates is not None)
        self._log_V = prior.log_tables(self.n_obs)
        self.blocks = Blocks.resolved(assign(family, self.frame.response_names), self.frame)
        self.family: Family | dict[Any, Family] = self.blocks.blocks[0].family
        if isinstance(family, Mapping):
            self.family = dict(zip(family, (block.family for block in self.blocks.blocks), strict=True))
        self.kernel: CovariateKernel | None = None
        self.grid: Grid | None = None
        if self.frame.covariates is not None:
            self.kernel = SquaredExponential() if kernel is None else kernel
            self.grid = self.kernel.grid(self.frame.covariates, self.frame.covariate_names)
            self._check_reach(self.frame.covariates, self.frame.index)
        elif kernel is not None:
            raise ValueError("kernel is given but the formula has no covariates; write `response ~ covariate`.")
        self.packed = self.blocks.pack(self.frame.response, self.frame.inputs)

    # ---- what it is

    @property
    def n_obs(self) -> int:
        return self.frame.response.shape[0]

    @property
    def n_dim(self) -> int:
        return self.frame.response.shape[1]

    @property
    def is_regression(self) -> bool:
        return self.grid is not None

    @property
    def has_gamma_mass(self) -> bool:
        """Whether the mass has a gamma prior, which is conjugate given u, and is that of a completely random measure."""
        return isinstance(self.prior.mass, Gamma) and self._measure == layout.EXPLICIT

    @property
    def has_u(self) -> bool:
        """Whether the joint of a mixture keeps the auxiliary variable u."""
        return not self.is_regression and not self.prior.marginal

    @property
    def widths(self) -> tuple[Hyperparameter, ...]:
        if self.kernel is None:
            return ()
        return self.kernel.width_of(len(self.frame.covariate_names), self.frame.covariate_names)

    @property
    def width_names(self) -> tuple[str, ...]:
        """Names of the widths among the draws: `width`, or one for each covariate."""
        if self.kernel is None:
            return ()
        if self.kernel.shared_width:
            return ("width",)
        return tuple(f"width_{name}" for name in self.frame.covariate_names)

    @property
    def sampled(self) -> tuple[str, ...]:
        """Names of the hyperparameters that are sampled."""
        values = {"mass": self.prior.mass, "sigma": self.prior.sigma}
        values |= dict(zip(self.width_names, self.widths, strict=False))
        return tuple(name for name, value in values.items() if not isinstance(value, float))

    def __str__(self) -> str:
        lines = [("formula", self.formula or "(every column)")]
        dropped = len(self.frame.used) - self.n_obs
        text = f"{self.n_obs} rows" + (f" ({dropped} dropped: missing values)" if dropped else "")
        names = listed(self.frame.response_names) if self.frame.is_sparse else ", ".join(self.frame.response_names)
        lines.append(("data", f"{text}; response{'s' if self.n_dim > 1 else ''} {names}"))
        lines.append(("prior", f"{self.prior} ({self.prior.title})"))
        lines += self.blocks.describe()
        if self.kernel is not None and self.grid is not None:
            lines.append(("kernel", f"{self.kernel}: {self.kernel.formula}"))
            scaled = "scaled to [0, 1]" if self.kernel.scale == "unit" else "in their own units"
            count = f"{len(self.grid.values)} distinct values, {len(self.grid.locations)} locations"
            lines.append(("covariates", f"{', '.join(self.frame.covariate_names)} ({count}), {scaled}"))
        title = "Kernel-NRM density regression" if self.is_regression else "NRM mixture"
        return "\n".join([title] + [f"  {label:<11}{text}" for label, text in lines])

    __repr__ = __str__

    # ---- fitting and evaluating

    def fit(
        self,
        method: Any = "auto",
        *,
        draws: int = default(1000),
        tune: int = default(1000),
        thin: int = default(1),
        chains: int = default(4),
        init: Any = SEQUENTIAL,
        rng: Any = None,
        cores: int | None = None,
        progress: bool | None = None,
        time_limit: float | None = None,
    ) -> MCMCResult | SearchResult:
        """Sample the posterior, or search for one good partition.

        Parameters
        ----------
        method : str, move, list of moves or Cycle, default "auto"
            A name of `Model.methods`: `"gibbs"`, `"split_merge"` (with Gibbs), `"slice"`, `"permutation"` (with Gibbs), `"tree"`
            (with Gibbs), `"tree_published"`; a move with options, such as `nm.Slice()`; a list such as
            `[nm.SplitMerge(), nm.Gibbs(subset=100)]`, run in turn in every iteration; or an `nm.Cycle`.  `"auto"` is, for mixtures
            whose component parameters are integrated out, from 500 rows or from three responses on `"tree"`, or `"split_merge"` where
            that does not suit (trees too large for memory, families without an entry `combine`); else `"gibbs"`.
            `"bhc"` and `"ibhc"`, or `nm.BHC(...)` and `nm.IBHC(...)`, are searches: they take rng, progress and time_limit (no pass is
            begun after it, nor ended) and refuse what belongs to chains.
        draws, tune, thin, chains : int
            Every chain runs tune + draws * thin iterations and records `draws` of them.
        init : str or array of int, (n,) or (chains, n), default "sequential"
            Start of the chains: `"sequential"` (observations enter one by one in random order), `"one"` cluster, `"each"` its
            own, or labels of the rows used.  For mixtures whose component parameters are integrated out also `"ibhc"`, the
            trees of incremental Bayesian hierarchical clustering (`nm.IBHC`, before they are joined) in a random order of each chain's
            own, and `"ibhc_noisy"`, rows put on top of such trees, which are not split (Lee & Choi 2015, section 4.1).
        rng : int, SeedSequence, Generator or None
            Seed.  The same seed gives the same draws bit for bit, whatever the number of cores.  None draws one, kept as `fit.seed`.
        cores : int, optional
            Threads; default as many as there are processors, at most `chains`.
        progress : bool, optional
            Show a progress line on stderr; default only on a terminal.
        time_limit : float, optional
            Seconds of sampling after which the chains stop and keep what was drawn; like Ctrl-C at the end of an iteration.

        Returns
        -------
        MCMCResult
            Of a search a SearchResult.

        Raises
        ------
        ValueError
            If an argument is out of range, or the method does not use it.

        Examples
        --------
        >>> import nrmmix as nm
        >>> model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())
        >>> model.fit(draws=20, tune=20, chains=2, rng=1).draws["labels"].shape
        (2, 20, 82)
        """
        with held():
            from nrmmix.inference.mcmc.sampling import sample
            from nrmmix.inference.search.options import search_of
            from nrmmix.inference.search.run import run_search
            from nrmmix.results.mcmc import MCMCResult
            from nrmmix.results.search import SearchResult

        if (search := search_of(method)) is not None:
            for name in given(draws=draws, tune=tune, thin=thin, chains=chains, init=init, cores=cores):
                raise ValueError(f"{name} belongs to chains, and {search.name} is a search; leave it out.")
            return SearchResult(self, search, *run_search(self, search, rng=rng, progress=progress, time_limit=time_limit))
        run = sample(
            self, method, draws=plain(draws), tune=plain(tune), thin=plain(thin), chains=plain(chains), init=plain(init), rng=rng,
            cores=cores, progress=progress, time_limit=time_limit,
        )
        result = MCMCResult(self, run)
        warn_unless_converged(result)
        return result

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
        ['auto', 'gibbs']
        """
        from nrmmix.inference.mcmc.cycle import table

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

        return simulate(self, draws, rng)

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

        return n_clusters(self)

    def log_joint(
        self, labels: Any, *, u: float | None = None, v: Any = None, locations: Any = None, imputed: Any = None, theta: Any = None,
        precision: Any = None, **hyper_values: float,
    ) -> float:
        """Log joint density of data and partition at given hyperparameters.

        log p(X, partition) for mixtures by a Dirichlet or Pitman-Yor process, finite or of Gibbs type; for the others
        log p(X, partition, u) at the given u, or with u integrated out where u is not given.  In density regression
        log p(y, partition, locations, v), a density in v.  Hyperpriors are not added.
        Where missing cells are drawn, not integrated out, the data X are the observed and the imputed cells.  Parameters of components
        that are not integrated out come with their density under the prior.

        Parameters
        ----------
        labels : array_like of int, (n,)
            Cluster of each row used; any integers.
        u : float, optional
            Auxiliary variable of a mixture.
        v : array_like, (G,)
            Auxiliary variables of density regression, one for each distinct covariate row in sorted order (`model.grid.values`).
        locations : array_like of int, (K,)
            Location of each cluster, as a row of `model.grid.locations`, clusters in the order in which they first appear.
        imputed : array_like, (n_missing,)
            Values of the missing cells that fits draw, row by row, in the units of the responses: one draw of `fit.draws["imputed"]`.
        theta : array_like, (K, parameters)
            Parameters of each cluster that fits do not integrate out, as in `fit.draws["theta"]`, clusters in the same order.
        precision : array_like, (d,)
            Precisions that all clusters share, as in `fit.draws["precision"]`.
        **hyper_values : float
            `mass`, `sigma`, `width`; those that the model fixes may be left out.

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

        return log_joint(self, labels, u, v, locations, imputed, theta, precision, hyper_values)

    # ---- arrays for the kernels

    def arrays(self, n_clusters: int, n_side: int = 0, with_theta: bool = False) -> tuple[layout.Data, layout.State]:
        """Kernel arrays with room for so many clusters, nothing assigned, hyperparameters at their starting values.

        `n_side` and `with_theta`: scratch columns and parameters for moves that need them.
        """
        n, packed, grid = self.n_obs, self.packed, self.grid
        block = np.zeros((len(packed.table), layout.BLOCK), np.int64)
        block[:, : layout.EMPTY] = packed.table
        for row, entries in zip(block, packed.entries, strict=True):
            row[layout.EMPTY :] = [0 if entry is None else entry.address for entry in entries]
        if grid is None:
            group, distance = np.zeros(n, np.int64), np.zeros((0, 1, 1))
            covariate_entry = constant
        else:
            group, distance = grid.group, grid.distance
            covariate_entry = self.kernel.entry
        G, P = distance.shape[1:]
        widths = self.widths
        shared = self.kernel is not None and self.kernel.shared_width
        rows = [hyper_row(self.prior.mass), hyper_row(self.prior.sigma), hyper_row(1.0)]
        rows += [hyper_row(1.0 if shared and j > 0 else w) for j, w in enumerate(widths)]
        setup = np.zeros(layout.SETUP, np.int64)
        with_v = self.is_regression or not self.prior.marginal
        setup[layout.JOINT_WITH_V] = int(with_v)
        setup[layout.SHARED_WIDTH] = int(shared)
        setup[layout.COVARIATE] = covariate_entry.address
        setup[layout.MEASURE], setup[layout.COMPONENTS] = self._measure, self.prior.components
        conjugate = with_v and self.has_gamma_mass
        densities = {
            layout.SIGMA_DENSITY: (hyper.log_density_sigma, "sigma" in self.sampled),
            layout.MASS_DENSITY: (hyper.log_density_mass, "mass" in self.sampled and not conjugate),
            layout.WIDTH_DENSITY: (hyper.log_density_width, any(name in self.sampled for name in self.width_names)),
            layout.STRETCH_DENSITY: (auxiliary.log_density_stretch, self.is_regression),
        }
        for place, (density, used) in densities.items():  # compiled only where used
            setup[place] = density.address if used else 0
        data = layout.Data(
            rows=packed.own_rows(),
            block=block,
            alone=np.zeros(n),
            group=group,
            group_size=np.bincount(group, minlength=G).astype(float),
            distance=distance,
            R0=np.full(P, 1.0 / P),
            hyperprior=np.array(rows),
            setup=setup,
            held=packed.held,
            shared=packed.shared,
            log_V=self._log_V,
        )
        cap = layout.capacity(n_clusters)
        start = [*self.prior.start(), self.prior.tau, *map(hyper_start, widths)]
        state = layout.State(
            labels=np.full(n, -1, np.int64),
            size=np.zeros(cap, np.int64),
            stat=np.zeros((packed.n_stat, cap)),
            side=np.zeros((packed.n_stat, n_side)),
            theta=np.zeros((packed.n_theta if with_theta else 0, cap)),
            location=np.zeros(cap, np.int64),
            reach=np.zeros((cap, P if self.is_regression else 0)),
            where=np.zeros((cap, P if self.is_regression else 0)),
            log_weight=np.zeros(cap),
            log_size=np.zeros(n + 2),
            log_grown=np.zeros(n + 2),
            log_next=np.zeros(n + 2),
            v=data.group_size.copy() if with_v else np.ones(G),
            A=np.zeros(P),
            log_new=np.zeros(G),
            log_R0=np.zeros(P),
            log_b=np.zeros(P),
            exposure=np.zeros((G, P)),
            K=np.ones((G, P)),
            log_K=np.zeros((G, P)),
            hyper=np.array(start, dtype=float),
            num=np.zeros(layout.NUM, np.int64),
            score=np.zeros(cap),
            work=np.zeros((packed.n_work + 1, cap)),
            plane=np.zeros((3, P)),
            trial=np.zeros((G, P)),
            log_trial=np.zeros((G, P)),
            region=np.zeros(G, np.int64),
            chosen=np.zeros(G, np.int64),
            carried=np.zeros((4, G)),
        )
        return data, state

    def start_widths(self) -> np.ndarray:
        return np.array([hyper_start(w) for w in self.widths])

    def _check_reach(self, covariates: np.ndarray, index: Any) -> None:
        """Every observation must be within reach of a location at fixed widths, or at the start of sampled ones."""
        log_K = self.kernel.log_kernel(self.grid.distance, self.start_widths())
        out = ~np.isfinite(log_K).any(axis=1)
        if out.any():
            row = int(np.flatnonzero(out[self.grid.group])[0])
            raise ValueError(
                f"row {index[row]!r} ({', '.join(self.frame.covariate_names)} = {covariates[row].tolist()}) is out of reach of "
                f"every location of {self.kernel}; widen the kernel or add locations near it."
            )
        idle = ~np.isfinite(log_K).any(axis=0)
        if idle.any() and self._measure == layout.STABLE:
            place = self.grid.locations[np.flatnonzero(idle)[0]].tolist()
            raise ValueError(
                f"the location {place} of {self.kernel} is out of reach of every row, and nm.NormalizedStable, whose atoms have no scale "
                "of their own, says nothing of those there; leave the location out, widen the kernel, or take nm.PitmanYor."
            )


def _check_type(name: str, value: Any, wanted: type, example: str) -> None:
    if isinstance(value, type) and issubclass(value, wanted):
        raise ValueError(f"{name} is the class {value.__name__}; make an object of it, {value.__name__}(...).")
    if not isinstance(value, wanted):
        raise ValueError(f"{name} must be an object such as {example}, not {value!r}.")
