"""Base of every component family: what it offers to the rest of the package.

A family has two sides.  Entry points (`nrmmix.kernels.core.entry`) work on columns of sufficient statistics, and `pack` hands them over
together with constants.  Methods in NumPy turn statistics and parameters of the kernels into distributions, moments and random responses.
A new family, from outside the package too, is a class derived from `Family`; nothing has to be registered before it can be fitted.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pandas as pd

from nrmmix.common.messages import positive, row_name
from nrmmix.model.families.distributions import Distribution, Elliptical
from nrmmix.model.families.exponential.base import Exponential, NotExponential
from nrmmix.model.frame.arrays import reals
from nrmmix.model.frame.columns.exchangeable import Coding
from nrmmix.model.frame.summary import Summary
from nrmmix.model.frame.tables import Levels, Totals

MAX_TOTAL = 1e15  # of counts, where their sums are not known when tables are made
EXTREME = 1e50  # hyperparameters of counts: products of several must not overflow
MAX_NU = 1e10  # degrees of freedom; beyond, differences of log gamma functions are lost in rounding


class Entries(NamedTuple):
    """Entry points of a family, with the signatures of `nrmmix.kernels.core.entry`; None where a family does without."""

    empty: Any
    update: Any
    score: Any
    marginal: Any
    sample: Any
    density: Any
    mean: Any
    mean_theta: Any
    alone: Any = None  # log p(y_i), where a score in an empty column is not that
    impute: Any = None  # missing cells are drawn, not integrated out
    redraw: Any = None  # parameters are held in the columns and drawn given their members
    combine: Any = None  # two columns into one, for trees; families of held parameters have none
    affinity: Any = None  # of one column with many at once, where that is faster than the columns that `combine` makes of them
    score_four: Any = None  # of four rows at once, where that is faster than one after the other
    transfer: Any = None  # from one column to another, where that is faster than two updates
    bound: Any = None  # above the log predictives of all rows of a few that are near one another, for sweeps of very many clusters
    score_gaps: Any = None  # what `score` calls for rows of which cells are missing, where that is a long function of its own
    redraw_shared: Any = None  # parameters of all clusters stand in the constants and are drawn given all of them

    @classmethod
    def named(cls, kernels: Any, prefix: str, *further: str) -> Entries:
        """Those of a module that begin with a prefix: all that a family must have, and which of the others."""
        names = [name for name in cls._fields if name not in cls._field_defaults] + list(further)
        return cls(**{name: getattr(kernels, f"{prefix}_{name}") for name in names})

    def addresses(self, which: Collection[int]) -> list[int]:
        """Return the addresses of those at some places, 0 where there is none; what has no address yet is compiled, or loaded."""
        return [0 if self[place] is None else self[place].address for place in which]


class Counts(NamedTuple):
    """Sparse counts by row, as in a CSR matrix."""

    indptr: np.ndarray  # (n + 1,) int64
    indices: np.ndarray  # (nonzeros,) int64
    counts: np.ndarray  # (nonzeros,) float64


class Observed(NamedTuple):
    """Observations as kernels read them."""

    y: np.ndarray  # (n, d) in the coordinates of the kernels, NaN in missing cells; d = 0 for counts
    counts: Counts | None = None
    missing: np.ndarray | None = None  # (n, d) uint8: cells of y that the chain draws; y holds numbers there


class Packed(NamedTuple):
    """A family as kernels read it."""

    constant: np.ndarray  # hyperparameters, and tables for as many observations as there are
    n_stat: int
    n_theta: int
    n_work: int
    n_mean: int  # numbers that the entries `mean` and `mean_theta` write
    entries: Entries
    n_explicit: int = 0  # first rows of stat, parameters drawn by the entry `redraw`
    shared: Mapping[str, np.ndarray] = MappingProxyType({})  # places in `constant` of parameters of all clusters, by what draws call them
    is_matrix: bool = False  # they are the lower triangle of a positive definite matrix, row by row


class Parameter(NamedTuple):
    """A parameter of the components: its posterior given the members, for each of k clusters."""

    name: str  # of the parameter and of its response, such as "mean waiting_min"
    mean: np.ndarray  # (k,)
    sd: np.ndarray  # (k,); NaN where there is none
    quantile: Callable[[float], np.ndarray] | None = None  # (k,) at a probability; None of a family that has none
    is_detail: bool = False  # whether summaries leave it out


class RowError(ValueError):
    """A row that a family cannot use; `{row}` in the message stands for the name of the row, which families do not know."""

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message.replace("{row}", f"row {row}"))
        self.message, self.row = message, int(row)


@contextmanager
def rows_of(index: pd.Index, rows: np.ndarray | None = None) -> Iterator[None]:
    """Has a RowError name the row as the caller knows it; `rows` are the positions in the index of the rows that families see."""
    try:
        yield
    except RowError as error:
        position = error.row if rows is None else rows[error.row]
        raise ValueError(error.message.replace("{row}", row_name(position, index))) from None


@dataclass(frozen=True, eq=False)
class Family:
    """Base of the component families.

    A family stands for one block of responses, d columns of the data, independent of other blocks within a component.
    Hyperparameters that were not given are None until `resolve` has taken them from the data.  Each argument of the constructor is also an
    attribute: from them a saved family is made again.

    Attributes
    ----------
    reads : {"numbers", "counts", "composition", "binary", "categories"}
        How the responses are read: categories as numbers 0, 1, ... of their levels.
    design : str or None
        Right side of a formula whose columns are the family's inputs, row by row: covariates of a regression, an exposure.  None for none.
    takes_missing : bool
        Whether responses may be NaN, in cells that then count for nothing or are drawn; False unless a family says so.
    takes_censored : bool
        Whether responses may be censored: kernel coordinates of each are its own, so that limits are limits there.  See `with_censored`.
    point_masses : tuple of float
        Of responses that are numbers, values that have a probability of their own within a component; none unless a family says so.  Of
        other families values that many rows share are warned of when a model is made.
    independent : bool
        Whether the responses of a row are independent of each other within a component, its parameters integrated out too.  A family of
        several responses that are not has `joint_predictive` and `joint_component`, or its responses are given all or none.

    Notes
    -----
    `stat` and `theta` of the methods are the family's own rows of the kernels' arrays, one column a cluster; `inputs` (I, e) are rows of
    inputs, I = 1 and e = 0 where the family has none.  A family that is several in the kernels, such as `Hurdle`, has `pack`, `observe` and
    `exponential` give lists, one item for each, all in one order; `stat` and `theta` then have the rows of all of them.
    """

    names: tuple[str, ...] = field(default=(), init=False, repr=False)  # of the responses; set by `resolve`
    input_names: tuple[str, ...] = field(default=(), init=False, repr=False)  # columns of the design; set before `resolve`
    input_groups: tuple[int, ...] = field(default=(), init=False, repr=False)  # of each the first column of its term, if it has categories
    input_coding: Coding | None = field(default=None, init=False, repr=False)  # of levels of factors, where these may be inputs
    is_streamed: bool = field(default=False, init=False, repr=False)  # set where rows that `pack` sees are few of many, or change
    role: ClassVar[str] = "family"
    reads: ClassVar[str] = "numbers"
    needs_totals: ClassVar[bool] = False  # responses are counts given the total of their row
    takes_missing: ClassVar[bool] = False
    independent: ClassVar[bool] = False
    takes_censored: ClassVar[bool] = False

    @property
    def design(self) -> str | None:
        return None

    @property
    def point_masses(self) -> tuple[float, ...]:
        return ()

    def with_values(self, **values: Any) -> Any:
        """A copy with other values of its fields."""
        made = copy.copy(self)
        for name, value in values.items():
            object.__setattr__(made, name, value)
        return made

    def with_censored(self) -> Family:
        """The resolved family for responses some of which chains draw within limits; a ValueError, in words, where it cannot have them."""
        return self

    def settled(self, value: Any) -> Any:
        """A value that `resolve` sets; a ValueError where it has not."""
        if value is None:
            who = type(self).__name__
            raise ValueError(f"{who}: hyperparameters are taken from the data when a model is made; ask its family, model.family.")
        return value

    # ---- to be written for each family

    def resolve(self, y: Any, names: tuple[str, ...] | None = None, inputs: np.ndarray | None = None, levels: Levels = None) -> Family:
        """The family with every hyperparameter a number, defaults taken from the responses y (n, d), NaN where missing.

        Raises
        ------
        ValueError
            If a hyperparameter does not fit the responses, a default cannot be had from them, or a response is not of the family's kind.
        """
        raise NotImplementedError

    def resolve_from(self, summary: Summary, names: tuple[str, ...], levels: Levels = None) -> Family:
        """Resolve from sums over rows that are loaded part by part; a ValueError where a family needs them all at once."""
        raise ValueError(
            f"{type(self).__name__} takes its hyperparameters from the whole table, which is not in memory; give a table, such as "
            "pandas.read_parquet(path)."
        )

    def rounding_units(self, y: Any) -> dict[str, float]:
        """Units to which responses (n, d) are rounded, by name, where variational inference has a rule for that; 0 where they are not."""
        return {}

    def of_more_rows(self) -> Family:
        """The family where the rows that `pack` sees are few of many, or count more often than once."""
        return self.with_values(is_streamed=True)

    def totals_of_tables(self, totals: np.ndarray) -> np.ndarray:
        """Totals (d,) of counts that tables are made for: those of the rows that `pack` sees, where these are not few of many."""
        return np.full(len(totals), MAX_TOTAL) if self.is_streamed else totals

    def observe(self, y: Any) -> Observed | list[Observed]:
        """Responses (n, d), of the data or new ones, as kernels read them."""
        return Observed(np.ascontiguousarray(y, float))

    def observe_inputs(self, inputs: np.ndarray) -> np.ndarray:
        """Inputs (n, e), of the data or new ones, as kernels read them; a RowError for rows that the family cannot use."""
        return inputs

    def pack(self, y: Any, inputs: np.ndarray) -> Packed | list[Packed]:
        """Constants, tables that serve the data's responses (n, d) and inputs (n, e), and entry points."""
        raise NotImplementedError

    def exponential(self, y: Any) -> Exponential | list[Exponential]:
        """The exponential form, for responses y (n, d), which say what is missing; a NotExponential, in words, where there is none.

        Variational inference alone needs it.
        """
        raise NotExponential(f"{type(self).__name__} components have no natural side that is integrated out in closed form")

    def means(self, values: np.ndarray) -> np.ndarray:
        """Means (..., n_mean) that the kernels' entries wrote, in the units of the responses."""
        return values

    def cells(self, values: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Cells (..., k) of the family's responses `which` (k,) that the kernels drew, in the units of the responses."""
        return values

    def mean_names(self) -> tuple[str, ...]:
        """A name for each of the n_mean means: those of the responses, unless there are more of them."""
        return self.names

    def mean_responses(self) -> np.ndarray:
        """Numbers of the family's responses that each of the n_mean means belongs to."""
        one_each = len(self.mean_names()) == len(self.names)
        return np.arange(len(self.names)) if one_each else np.zeros(len(self.mean_names()), np.int64)

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        """Return the predictive distribution of each response, parameters (I, n_columns); None for one that has none of its own."""
        raise NotImplementedError

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        """Return the distribution of each response under parameters (n_theta, M); parameters (I, M)."""
        raise NotImplementedError

    def joint_predictive(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> Elliptical | None:
        """The joint law of the responses by cluster, parameters integrated out; None of a family that has none in closed form."""
        return None

    def joint_component(self, theta: np.ndarray, inputs: np.ndarray) -> Elliptical | None:
        """Return the joint distribution of the responses under parameters (n_theta, M)."""
        return None

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        """Posterior means and standard deviations of the parameters of clusters, the most telling first."""
        raise NotImplementedError

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator, totals: Totals = None) -> np.ndarray:
        """One response (M, d) from each component of parameters (n_theta, M); inputs (M, e); of counts, totals (M,) of the rows."""
        raise NotImplementedError

    def describe(self) -> list[str]:
        """The family in words and numbers, for the printed model."""
        raise NotImplementedError

    def log_coefficient(self, y: Any) -> np.ndarray | float:
        """Constants (n,) of the rows that scores leave out and log densities have: logs of multinomial coefficients."""
        return 0.0


def none_or_positive(who: str, name: str, value: Any) -> float | None:
    """A hyperparameter that is None or a finite number greater than 0."""
    return None if value is None else positive(f"{who}: {name}", value)


def positives(who: str, name: str, value: Any) -> Any:
    """A hyperparameter that is None, or one or several numbers greater than 0 and within `EXTREME`."""
    if value is None:
        return None
    array = np.zeros(0) if isinstance(value, bool) else reals(value, f"{who}: {name}")
    if array.ndim > 1 or not array.size or not ((array >= 1 / EXTREME) & (array <= EXTREME)).all():
        raise ValueError(
            f"{who}: {name} must be a number greater than 0, or several, between {1 / EXTREME:g} and {EXTREME:g}, not {value!r}."
        )
    return float(array) if array.ndim == 0 else array


def shaped(who: str, name: str, value: Any, shape: tuple[int, ...], of: str) -> np.ndarray:
    """A finite array of the shape that `of` asks for; one number where that is a single one."""
    array = reals(value, f"{who}: {name}")
    if array.ndim == 0 and shape[0] == 1:
        array = array.reshape(shape)
    if array.shape != shape:
        raise ValueError(f"{who}: {name} must have shape {shape} for {of}, not {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{who}: {name} must be finite, not {array.tolist()}.")
    return array


def positive_definite(who: str, name: str, value: Any, size: int, of: str) -> tuple[np.ndarray, np.ndarray]:
    """A positive definite matrix as it was given, and its Cholesky factor."""
    matrix = shaped(who, name, value, (size, size), of)
    if not np.allclose(matrix, matrix.T, rtol=1e-8, atol=0):
        raise ValueError(f"{who}: {name} must be symmetric.")
    try:
        return matrix, np.linalg.cholesky((matrix + matrix.T) / 2)
    except np.linalg.LinAlgError:
        raise ValueError(f"{who}: {name} must be positive definite, not {matrix.tolist()}.") from None


def check_variances(
    who: str, names: Sequence[str], values: Iterable[float], what: str = "variance", instead: str = "scale=", most: float = math.inf
) -> None:
    """A ValueError that names the first response whose variance is no number to take a default from."""
    for name, value in zip(names, values, strict=True):
        if not 1.0 / most < value < most:
            raise ValueError(
                f"{who}: response {name!r} has {what} {value:g}; leave it out if it is constant, rescale it if its numbers are too large "
                f"or too small, or give {instead}."
            )


def one_each(who: str, name: str, value: Any, size: int, what: str) -> np.ndarray:
    """One number, or as many as there are of `what`, as an array (size,)."""
    array = np.asarray(value, dtype=float)
    if array.ndim and array.shape != (size,):
        raise ValueError(f"{who}: {name} has {array.size} numbers for {size} {what}; give one number, or one for each.")
    return np.broadcast_to(array, (size,)).copy()


def numbers(values: Any) -> str:
    """Numbers of an array as the printed model shows them, many of them by their range."""
    a = np.asarray(values, dtype=float)
    if a.ndim == 0:
        return f"{float(a):.5g}"
    if a.size > 8 and a.ndim == 1:
        return f"{a.min():.4g} to {a.max():.4g} ({a.size} values)"
    return np.array2string(a, precision=4, separator=", ", suppress_small=True).replace("\n", "")


def matrix_in_words(matrix: np.ndarray) -> str:
    """Numbers of a square matrix, of a diagonal one those of its diagonal."""
    diagonal = np.diag(matrix)
    return f"diag({numbers(diagonal)})" if np.array_equal(matrix, np.diag(diagonal)) else numbers(matrix)
