"""Variational methods and their options."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from nrmmix.common import files
from nrmmix.common.messages import count, flag, number, one_of, positive
from nrmmix.common.registry import plugin, written
from nrmmix.inference import executors
from nrmmix.inference.method import Method
from nrmmix.model.families.exponential import NotExponential
from nrmmix.model.priors.measures import DirichletProcess, FiniteMixture

if TYPE_CHECKING:
    from nrmmix.inference.variational.climb import Pass
    from nrmmix.model.families.exponential import Statistics
    from nrmmix.model.families.exponential.streamed import StreamedRows
    from nrmmix.model.specification import Specification
    from nrmmix.posterior.factors import Factors
    from nrmmix.posterior.kernel_factors import KernelFactors

COMPONENTS = 25  # unless there are fewer rows
MAX_COUNT = 10**6
TOL = 1e-6, 1e-4  # nats a row: of mixtures and of density regression
COMBINATIONS = ("stacking", "equal", "best")  # of starts
ROWS_EACH = 1024  # of a round, by default
MAX_ROWS = 65_536  # of a batch, by default: what is in memory at once


@dataclass(frozen=True)
class Variational(Method):
    """Base of the variational methods."""

    name: ClassVar[str]
    accepts: ClassVar[frozenset[str]] = frozenset(("init", "rng", "progress", "time_limit"))
    takes_streams: ClassVar[bool] = True
    takes_weights: ClassVar[bool] = True
    merges_mixtures: ClassVar[bool | str] = True  # what merges= is where it is left out
    how_to_merge: ClassVar[tuple[str, ...]] = ()  # what merges= may be beside True and False
    why_not: ClassVar[str] = "belongs to chains, and {method} is variational inference"
    most_rounds: ClassVar[int]  # where batches= is left out

    if TYPE_CHECKING:  # options of all methods, and of those whose batches are asked for

        @property
        def components(self) -> int | None: ...

        @property
        def passes(self) -> int: ...

        @property
        def starts(self) -> int | None: ...

        @property
        def combine(self) -> str: ...

        @property
        def batches(self) -> int | None: ...

        @property
        def round_size(self) -> int | None: ...

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, self.checked(one.name, getattr(self, one.name)))

    @classmethod
    def checked(cls, name: str, value: Any) -> Any:
        """An option in its range."""
        if name == "combine":
            return one_of("combine", value, COMBINATIONS)
        if name in ("components", "batches", "passes", "round_size", "starts"):
            return None if value is None and name != "passes" else count(name, value, 1, MAX_COUNT)
        if name == "executor":
            return executors.checked(value)
        if name == "checkpoint":
            return None if value is None else files.named(value, ".npz", "a checkpoint")
        if name == "kappa":
            if not 0.5 <= number(value) <= 1:
                raise ValueError(f"kappa must be from 0.5 to 1, so that steps neither die out nor stay, not {value!r}.")
            return float(value)
        if name == "merges" and isinstance(value, str):
            if value in cls.how_to_merge:
                return value
            other = "".join(f' or "{how}"' for how in cls.how_to_merge)
            raise ValueError(f"merges must be True or False{other}, not {value!r}.")
        if name in ("tol", "births", "merges") and value is None:
            return None
        return flag(name, value) if name in ("births", "merges") else positive(name, value)

    def tolerance(self, is_regression: bool = False) -> float:
        """Nats a row that a pass must gain for another one to follow."""
        given: float | None = getattr(self, "tol", None)
        return TOL[is_regression] if given is None else given

    def moves(self, is_regression: bool = False) -> tuple[bool, bool | str]:
        """Whether components are born, and whether and how they are joined; by default, of mixtures, what the method is known for."""
        births, merges = getattr(self, "births", False), getattr(self, "merges", False)
        births = not is_regression if births is None else births
        return births, (False if is_regression else self.merges_mixtures) if merges is None else merges

    def refusal(self, model: Specification) -> str:
        if why := self._refusal_of_regression(model) if model.is_regression else self._refusal_of_mixture(model):
            return why
        try:
            model.exponential()
        except NotExponential as lacking:
            return f"nm.{self}: {lacking}"
        return ""

    def _refusal_of_mixture(self, model: Specification) -> str:
        if getattr(self, "starts", None) is not None:
            return f"nm.{self}: starts= are of density regression, whose predictions are averages over them; leave it out"
        if not isinstance(model.prior, DirichletProcess):
            return (
                f"nm.{self} needs nm.DirichletProcess(), whose sticks are independent beta variables; those of "
                f"{type(model.prior).__name__} are not, and have no factor in closed form"
            )
        return ""

    def _refusal_of_regression(self, model: Specification) -> str:
        prior, kernel = model.prior, model.kernel
        if not isinstance(prior, (DirichletProcess, FiniteMixture)):
            return (
                f"nm.{self} needs the gamma weights of nm.DirichletProcess() or nm.FiniteMixture(); those of {type(prior).__name__} have "
                "no factor in closed form"
            )
        given = getattr(self, "components", None)
        if getattr(self, "merges", None) == "greedy":
            return f"nm.{self}: greedy merges are of mixtures; density regression has merges=True, which keeps those that raise the bound"
        if isinstance(prior, FiniteMixture) and given not in (None, prior.components):
            return f"nm.{self}: components={given}, and {prior} has {prior.components}; leave components= out"
        if model.sampled and any(name in model.width_columns for name in model.sampled):
            return f"nm.{self}: the width of {kernel} is sampled, which has no factor in closed form; give a number or nm.PerAtom"
        grid = None if model.slots is not None else model.grid
        if grid is not None and not np.isfinite(model.log_kernel(grid.distance, model.start_widths())).all():
            return f"nm.{self}: {kernel} is 0 beyond its width, and the bound then minus infinity; take nm.SquaredExponential()"
        return ""

    def check(self, model: Specification) -> None:
        """A ValueError if an option does not fit the data."""
        for name in ("components", "batches"):
            value, n = getattr(self, name, None), model.n_obs
            if name == "components" and model.is_regression:
                n = max(int(model.frame.size), 1)  # rows by their weights, as of the default
            if value is not None and value > n:
                each = "one row" if name == "batches" else "a row that it starts from"
                raise ValueError(f"nm.{self}: {name}={value} for {n} rows; each has {each} at least: give {name}={n} or less.")

    def division(self, n: int) -> tuple[int, int]:
        """Return the number of batches of n rows, and how many make a round, after which the parameters change."""
        rounds = getattr(self, "batches", None)
        if rounds is None:
            rounds = min(max(n // ROWS_EACH, 1), self.most_rounds)
        given: int | None = getattr(self, "round_size", None)
        if given is not None:
            return (rounds, given) if self.batches is not None else (rounds * given, given)
        if getattr(self, "batches", None) is not None:
            return rounds, 1
        size = -(-n // (rounds * MAX_ROWS))
        return rounds * size, size

    def division_of_new(self, n: int) -> tuple[int, int]:
        """Return the same for n new rows that a fit is updated with, in memoized passes whatever the method."""
        method = self if isinstance(self, MemoizedVB) else MemoizedVB()
        return method.division(n) if method.batches is None or method.batches <= n else (n, 1)

    __str__ = written


@plugin
@dataclass(frozen=True)
class VB(Variational):
    """Variational inference on all rows at once, for Dirichlet process mixtures and density regression.

    Coordinate ascent of the evidence lower bound: each pass gives every row probabilities of the components, then every component, and the
    sticks with the mass, the law that is best given these.  The bound never falls, and has all constants: fits with different numbers of
    components can be compared by it.

    Parameters
    ----------
    components : int, optional
        Components to start from; default 25, of density regression 40, and 100 beyond 2,000 rows, or as many as there are rows.
    passes : int, default 500
        Passes over the rows, at most.
    tol : float, optional
        Stop where a pass raises the bound by less, in nats a row; default 1e-6, of density regression 1e-4.
    merges : "end" or bool, optional
        Join two components of a mixture after a pass where that raises the bound: once it has settled ("end", the default), after every
        pass (True), or never.  Of density regression, once it has settled, or never, which is the default; see the notes.
    starts : int, optional
        Of density regression: fits from so many starts, over which predictions are averages; default 12, and 3 beyond 2,000 rows.
    combine : {"stacking", "equal", "best"}, default "stacking"
        How they are averaged over: by the weights that maximise the leave-one-out predictive density of the rows, of 2,000 of them at most;
        all alike; or the one of the highest bound alone.

    Raises
    ------
    ValueError
        If an option is out of range.

    Notes
    -----
    `fit(init=)` is "k-means++", the default, seeds far from each other in the divergence of the family; "random", any rows; labels of the
    rows used; or an earlier fit of the same rows, whose clusters it starts from.  Which bound is reached depends on the start.  Without
    merges a fit stops with several components in the place of one where each has come to rest; components that are joined early on, while
    they are blurred, can take away what the data hold.  Where the scale of Gaussian components is sampled, as it is by default from five
    responses on, a fit with merges tries fewer components too and, up to 2,000 rows and unless `init` holds labels, starts from cuts of
    Ward's trees, with no more than `components` clusters; the highest bound is kept.

    Density regression, `y ~ x`, is by the finite measure of so many components, each with gamma weight Gamma(mass / components, 1), its own
    codes of the kernel, and the conjugate prior of its family; it starts from cuts of the covariates.  Covariates of more than 128 values
    are binned for the fit.  Codes, shrinkage and noise scale are point estimates, all else has a law; the bound is that of the density of
    the data and of the logarithms of these two.  Over several starts it is the average of theirs, which is below that of their mixture.
    Of more than 10,000 rows, or of batches, codes are searched on samples: every third pass all rows are visited with what a sample of
    20,000 proposes, which is kept where the bound is then higher.

    With `merges` components are joined whose probabilities are correlated, and left out where they have few rows, as far as the bound
    rises; `fit.passes` counts them.  The bound is a poor guide between optima: merges and births (`MemoizedVB`) raise it, take two to four
    times as long, and change the density of held-out rows little (`benchmarks/variational_regression.py --moves`), so they are off.

    Of rows that are not in memory covariates are measured by the values of all rows, exactly up to 200,000 distinct ones each, and beyond
    that by ranks that are wrong by at most 0.0005 of the rows (`nrmmix.model.frame.quantiles`); beyond 10,000 rows starts are found on so
    many, as in memory.  The numbers are those of the same rows in memory: to the bit, or to rounding where several responses or the
    columns of a design are standardised part by part.  Several covariates need `SparseProduct`, the default; in one, other kernels
    than that take more than 1,000 values in bins at quantiles.

    References
    ----------
    Blei & Jordan (2006), Variational inference for Dirichlet process mixtures, Bayesian Analysis 1.  Unlike there sticks and mass are one
    factor, which bounds the evidence more tightly.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), method=nm.VB(components=10, merges=True), rng=1)
    >>> fit.n_clusters
    2
    """

    name: ClassVar[str] = "vb"
    most_rounds: ClassVar[int] = 1
    merges_mixtures: ClassVar[bool | str] = "end"
    how_to_merge: ClassVar[tuple[str, ...]] = ("end",)
    components: int | None = None
    passes: int = 500
    tol: float | None = None
    merges: bool | str | None = None
    starts: int | None = None
    combine: str = "stacking"


@plugin
@dataclass(frozen=True)
class StochasticVB(Variational):
    """Stochastic variational inference (Hoffman, Blei, Wang & Paisley 2013), for Dirichlet process mixtures and density regression.

    After each batch the statistics of the components go a step towards those of the batch, taken for all rows: step t has size
    (t + delay)^-kappa.  The bound of a pass is the mean of unbiased estimates, one from each batch; after the last pass the rows are
    visited once more with the components as they are, which makes the bound of the result exact.

    Parameters
    ----------
    components : int, optional
        Default 25, of density regression 40, and 100 beyond 2,000 rows, or as many as rows where these are fewer.
    batches : int, optional
        Default one for each 1,024 rows, at most 100; beyond 6.5 million rows so many that none has more than 65,536, in 100 rounds.
    passes : int, default 50
    kappa : float, default 0.6
        From 0.5 to 1.  At 0.5 the squares of the steps have no finite sum, which convergence asks for: the components come to rest more
        slowly than they forget where they began.
    delay : float, default 1.0
        Greater than 0.
    round_size : int, optional
        Batches that a step is towards together: so many can be worked on at once.  Default 1, where batches= is given or one of 100 rounds
        has no more than 65,536 rows.  Results depend on it, and not on who does the work.
    executor : None, "threads", int or dask.distributed.Client, optional
        Who visits the batches of a round; see `MemoizedVB`.
    starts : int, optional
        Of density regression: fits from so many starts, over which predictions are averages; default 12, and 3 beyond 2,000 rows.
    combine : {"stacking", "equal", "best"}, default "stacking"
        How they are averaged over; see `VB`.

    Raises
    ------
    ValueError
        If an option is out of range.

    See Also
    --------
    VB : where it starts, and what density regression is by.
    MemoizedVB : batches without a step size, with an exact bound.

    Notes
    -----
    In density regression a step moves the expected counts, statistics and rates of the components, and the sums over bins by which the
    codes of their kernels are judged.  Each time that half of these is new, shrinkage, noise scale and codes become what is best for them,
    of each component the code of one covariate at most.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), method=nm.StochasticVB(batches=4), rng=1)
    >>> fit.n_clusters > 1
    True
    """

    name: ClassVar[str] = "stochastic_vb"
    most_rounds: ClassVar[int] = 100
    components: int | None = None
    batches: int | None = None
    passes: int = 50
    kappa: float = 0.6
    delay: float = 1.0
    round_size: int | None = None
    executor: Any = None
    starts: int | None = None
    combine: str = "stacking"


@plugin
@dataclass(frozen=True)
class MemoizedVB(Variational):
    """Memoized variational inference with births and merges (Hughes & Sudderth 2013), for mixtures and density regression.

    The components are updated after each batch of rows, of which the statistics of the last visit are remembered: the bound is exact after
    every batch and never falls.  Merges are accepted where they raise the bound.  Births are fresh fits to rows of one component,
    adopted in its place, and undone if the bound is lower after the pass and its merges; before the fit ends every component is tried
    once more at length.  So the number of components is found, from one on.

    Parameters
    ----------
    components : int, optional
        Components to start from; default 1 with births, otherwise 25, or as many as rows where these are fewer.
    batches : int, optional
        Default one for each 1,024 rows, at most 20; beyond 1.3 million rows so many that none has more than 65,536, in 20 rounds.
    passes : int, default 100
        Passes over the rows, at most.
    births : bool, optional
        Default True for mixtures, False for density regression.
    merges : bool or "greedy", optional
        Default True for mixtures, False for density regression.  "greedy", of mixtures alone, accepts merges that raise the bound of one
        round alone: the GreedyMerge of the paper, which is there to be compared with and removes structure where rounds are small.
    tol : float, optional
        Stop where a pass raises the bound by less, in nats a row, and nothing else is left to try; default 1e-6, of density regression
        1e-4.
    round_size : int, optional
        Batches that are visited at the same parameters, before the components change: so many can be worked on at once.  Default 1, where
        batches= is given or one of 20 rounds has no more than 65,536 rows.  Results depend on it, and not on who does the work.
    checkpoint : str or path-like, optional
        File, its name ending in .npz, to which all that the fit knows is written after each pass, whole or not at all.  The same call goes
        on from there where the file exists, to the same bits as if it had never stopped, and so does `nrmmix.resume`.
    executor : None, "threads", int or dask.distributed.Client, optional
        Who visits the batches of a round: this process (default), as many threads of it as processors or so many, or the workers of a
        cluster (the extra `nrmmix[dask]`), where what a worker has lost that died is computed anew.  There is as much to do at once as a
        round has batches: of fewer than 1.3 million rows give round_size=.
    starts : int, optional
        Of density regression: fits from so many starts, over which predictions are averages; default 12, and 3 beyond 2,000 rows.
    combine : {"stacking", "equal", "best"}, default "stacking"
        How they are averaged over: by the weights that maximise the leave-one-out predictive density of the rows, of 2,000 of them at most;
        all alike; or the one of the highest bound alone.

    Raises
    ------
    ValueError
        If an option is out of range; when the fit starts, if the checkpoint is of another model, other data or other options, or the
        executor's scheduler cannot be reached.
    RuntimeError
        If the data change while they are gone through, the scheduler goes away, or workers die again and again over the same batch.

    See Also
    --------
    VB : where it starts.

    Notes
    -----
    For density regression see the notes of `VB`.  A birth gives a component without rows those of another
    that fit worst in it, and the search for codes moves both apart; it is kept if the bound of all rows is higher then, and `fit.passes`
    counts it.  There are never more components than at the start.

    Data may be larger than memory, in a file or a source of the user's: a batch is in memory while it is visited.  A round has
    the same batches in every pass, so that the sums of rounds are all that must be remembered, and no batch remembers anything.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), method="memoized_vb", rng=1)
    >>> fit.n_clusters
    2
    """

    name: ClassVar[str] = "memoized_vb"
    most_rounds: ClassVar[int] = 20
    how_to_merge: ClassVar[tuple[str, ...]] = ("greedy",)
    components: int | None = None
    batches: int | None = None
    passes: int = 100
    births: bool | None = None
    merges: bool | str | None = None
    tol: float | None = None
    round_size: int | None = None
    checkpoint: str | None = None
    executor: Any = None
    starts: int | None = None
    combine: str = "stacking"


class RegressionOutcome(NamedTuple):
    """Result of a variational fit of a density regression: factors of every start that was finished, and their weights."""

    method: Variational
    name: str
    rows: Any  # BinnedRows
    fits: tuple[KernelFactors, ...]
    bounds: np.ndarray
    weights: np.ndarray
    passes: list[list[Any]]  # of each start
    has_converged: np.ndarray
    seed: int
    seconds: float
    interrupted: bool
    sums: tuple[Any, ...] = ()  # of each start its sums over the rows, a `Seen`, where these are not in memory: new rows are added to them


class VariationalOutcome(NamedTuple):
    """Result of a variational fit: the factors by their counts and statistics."""

    method: Variational
    name: str
    rows: Statistics | StreamedRows
    factors: Factors
    elbo: float
    passes: list[Pass]
    has_converged: bool
    seed: int
    seconds: float
    interrupted: bool
