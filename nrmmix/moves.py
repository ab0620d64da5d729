"""Moves on the partition: the options of each, which models each one suits, and lists of them."""

from __future__ import annotations

import difflib
import operator
from dataclasses import dataclass, fields
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from nrmmix.kernels import gibbs, permutation, slice_sampler, split_merge
from nrmmix.kernels import state as layout
from nrmmix.kernels.entry import Entry

if TYPE_CHECKING:
    import numpy as np

    from nrmmix.model import Model


ORDERS = ("uniform", "markov", "projection")
MOST = 10**6  # proposals, scans and atoms of one call, which is not interrupted
MOST_TABLE = 2**30  # bytes of the dynamic program's table in each chain
MOST_COLUMNS = 2**32  # and of its columns of statistics


class Room(NamedTuple):
    """Scratch that a move needs: floats, integers, columns of statistics, and whether parameters of atoms."""

    number: int = 0
    whole: int = 0
    side: int = 0
    theta: bool = False


@dataclass(frozen=True)
class Move:
    """What all moves have in common."""

    name: ClassVar[str]
    entry: ClassVar[Entry]
    exact: ClassVar[bool] = True  # whether it leaves the posterior invariant
    runs_alone: ClassVar[bool] = False  # whether it keeps what other moves would not keep up

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of proposals that are counted; none where every one is accepted."""
        return ()

    def options(self, model: Model) -> tuple[float, ...]:
        """What the kernel reads, in its order."""
        return ()

    def room(self, model: Model) -> Room:
        return Room()

    def refusal(self, model: Model) -> str:
        """Why the move cannot run on a model; empty where it can."""
        return ""

    def complaint(self, model: Model) -> str:
        """What is wrong with its options on a model that it suits; empty if nothing."""
        return ""

    def needs_tune(self) -> str:
        """Why the move cannot run without tuning; empty where it can."""
        return ""

    def is_irreducible(self) -> bool:
        """Whether the move alone reaches every partition."""
        return True

    def can_have_kept(self, kept: np.ndarray, model: Model) -> bool:
        """Whether it may have learnt this, finite numbers that a file says, in tuning."""
        return True

    def __str__(self) -> str:
        given = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given)})"


def count(name: str, value: Any, least: int, most: int | None = None) -> int:
    """A checked integer argument."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}.")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most:,}; that many at once could not be interrupted.")
    return number


def one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        near = difflib.get_close_matches(str(value), known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}{hint}")
    return value


_ONLY_MIXTURES = "it moves partitions of mixtures (responses ~ 1), and this is a density regression"


def only_conjugate_mixtures(model: Model) -> str:
    if model.is_regression:
        return _ONLY_MIXTURES
    if len(model.packed.held):
        return "it needs component parameters that are integrated out, and the family's are not"
    return ""


def only_with_unions(model: Model) -> str:
    """Why clusters of a model cannot be joined, as trees need it; empty where they can."""
    if why := only_conjugate_mixtures(model):
        return why
    for block, entries in zip(model.blocks.blocks, model.packed.entries, strict=True):
        if entries.combine is None:
            return f"it adds clusters to one another, and {type(block.family).__name__} has no entry `combine`"
    return ""


@dataclass(frozen=True)
class Gibbs(Move):
    """Collapsed marginal Gibbs: every observation in turn, component parameters and locations of new atoms integrated out.

    Exact for every prior and family, for mixtures and density regression (Neal 2000, algorithm 3; for normalised random measures
    Favaro & Teh 2013).  Parameters that cannot be integrated out are drawn once a sweep (Neal 2000, algorithm 8).

    Parameters
    ----------
    subset : int, optional
        Visit so many observations in each iteration, drawn anew without replacement and independently of the partition (`Gibbs_sub`
        of Lee & Choi 2015); default all of them, in the order of the rows.

    Raises
    ------
    ValueError
        If subset is less than 1, or more than the observations of the model that is fitted.

    Examples
    --------
    >>> print(Gibbs(subset=50))
    Gibbs(subset=50)
    """

    name: ClassVar[str] = "gibbs"
    entry: ClassVar[Entry] = gibbs.gibbs

    subset: int | None = None

    def __post_init__(self) -> None:
        if self.subset is not None:
            object.__setattr__(self, "subset", count("subset", self.subset, 1))

    def options(self, model: Model) -> tuple[float, ...]:
        return (float(self.subset or 0),)

    def room(self, model: Model) -> Room:
        return Room(whole=0 if self.subset is None else model.n_obs)

    def complaint(self, model: Model) -> str:
        if self.subset is not None and self.subset > model.n_obs:
            return f"subset={self.subset} is more than the {model.n_obs} observations"
        return ""


@dataclass(frozen=True)
class SplitMerge(Move):
    """Split-merge: two observations drawn at random are parted, or their clusters joined, by Metropolis-Hastings at fixed u.

    For mixtures by every prior, of families whose component parameters are integrated out.  It changes many labels at once but rarely
    single ones: best in a list with `Gibbs`.  `method="split_merge"` is one proposal of each of the two kinds below, then `Gibbs`.
    Where a merge is refused whatever the probability of the split that would undo it, that probability is not computed, nor its log
    ratio.

    Parameters
    ----------
    proposals : int, default 1
        Proposals in each iteration.
    scans : int, default 5
        Restricted Gibbs scans between the random allocation of a cluster's members to two parts and the scan whose result is proposed.
    proposal : {"restricted_gibbs", "sequential"}
        How a split is made: by those scans (Jain & Neal 2004), or by adding the members one by one to the two parts (Dahl 2003), which
        has no scans.

    Raises
    ------
    ValueError
        If proposals is not in 1..10^6, scans not in 0..10^6, or proposal is unknown.

    Examples
    --------
    >>> import nrmmix as nm
    >>> galaxy = nm.datasets.load_galaxy()
    >>> fit = nm.fit("velocity_km_s ~ 1", galaxy, method=[nm.SplitMerge(scans=3), nm.Gibbs()], draws=50, tune=50, chains=2, rng=1)
    >>> fit.method
    'split_merge + gibbs'
    """

    name: ClassVar[str] = "split_merge"
    entry: ClassVar[Entry] = split_merge.split_merge
    proposals: int = 1
    scans: int = 5
    proposal: str = "restricted_gibbs"

    def __post_init__(self) -> None:
        object.__setattr__(self, "proposals", count("proposals", self.proposals, 1, MOST))
        object.__setattr__(self, "scans", count("scans", self.scans, 0, MOST))
        one_of("proposal", self.proposal, ("restricted_gibbs", "sequential"))

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("split", "merge") if self.proposal == "restricted_gibbs" else ("sequential split", "sequential merge")

    def options(self, model: Model) -> tuple[float, ...]:
        return (float(self.proposals), float(self.scans), float(self.proposal == "sequential"))

    def room(self, model: Model) -> Room:
        return Room(whole=3 * model.n_obs + 2, side=split_merge.SIDE)

    def refusal(self, model: Model) -> str:
        return only_conjugate_mixtures(model)


@dataclass(frozen=True)
class Slice(Move):
    """Slice sampler: weights and components of the random measure are drawn, all atoms above the smallest slice among them.

    The measure comes from its posterior given u; of the atoms that no observation belongs to, those above the lowest slice are a
    Poisson process with the exponentially tilted Levy intensity, and all of them are drawn (Griffin & Walker 2011).  The labels are then
    independent given weights and components.  A slice can be so low that more than `max_atoms` atoms would be needed on average, the more
    often the larger sigma, the mass and the number of observations are.  Then the partition stays as it is in that iteration, which is
    exact and counted (`fit.proposals()`).

    For every prior that has a random measure (not `GibbsType`) and every family; for `FiniteMixture` all components are drawn.
    Components that are drawn, not integrated out, mix more slowly than `Gibbs` (benchmarks/slice.py), the more so from one cluster.

    Parameters
    ----------
    max_atoms : int, default 10,000
        Mean number of unoccupied atoms beyond which an iteration is skipped.

    Raises
    ------
    ValueError
        If max_atoms is not in 1..10^6.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="slice", draws=50, tune=50, chains=2, rng=1)
    >>> fit.method
    'slice'
    """

    name: ClassVar[str] = "slice"
    entry: ClassVar[Entry] = slice_sampler.slice_sampler
    max_atoms: int = 10_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_atoms", count("max_atoms", self.max_atoms, 1, MOST))

    def options(self, model: Model) -> tuple[float, ...]:
        return (float(self.max_atoms),)

    def room(self, model: Model) -> Room:
        return Room(*slice_sampler.room(model.n_obs, self.max_atoms, model.prior.components))

    def refusal(self, model: Model) -> str:
        if model.is_regression:
            return _ONLY_MIXTURES
        if model.prior.kind == layout.TABLE:
            return f"it draws the random measure, and {type(model.prior).__name__} has a law of partitions only"
        return ""


@dataclass(frozen=True)
class Permutation(Move):
    """Permutation-augmented sampler: given an ordering of the data, a partition into segments of it is drawn as a whole.

    An ordering is drawn in which the members of every cluster stand together; given it, all partitions into segments are summed over by a
    dynamic program and one is drawn (Liang, Jordan & Taskar 2007).  For mixtures by every prior whose component parameters are integrated
    out.

    Parameters
    ----------
    dynamic_program : {"metropolis", "table"}
        "table": one table entry for each number of observations and of clusters; exact draws, n^3 operations and n^2 memory.
        "metropolis": the factor of the prior that depends on the number of clusters is replaced by beta^-K, and the draw accepted
        or not; n^2 operations.  beta follows the number of clusters in tuning, and is kept afterwards; without tuning it is that of the
        start, where few proposals may be accepted.
    beam : float, optional
        With "metropolis": at each position keep only the segments that hold all but this share of the sum.  The old partition must be
        within the beam, or the move stays.  A beam needs another move beside it that reaches every partition, such as `Gibbs`.  A
        segment that begins a cluster in many dimensions is light at first: the share should be small enough to keep it, such as 1e-32.
    order : {"uniform", "markov", "projection"}
        How the members of a cluster are put in order: uniformly; each with the probability of its predictive given the one before it
        (n^2 more operations); or along a random direction.  A random projection has no known probability: such moves search, and are made
        in tuning only.  After it the order is uniform.
    integrate_mass : bool, default False
        Integrate the mass out of the draw of a partition, and draw it after that; needs a mass with a gamma prior, of a Dirichlet process
        or another normalised random measure with a mass of its own.

    Raises
    ------
    ValueError
        If an option is unknown, the beam is not in [0, 1), or it is given with dynamic_program="table".

    Examples
    --------
    >>> import nrmmix as nm
    >>> galaxy = nm.datasets.load_galaxy()
    >>> moves = [nm.Permutation(order="projection", beam=1e-32), nm.Gibbs()]
    >>> nm.fit("velocity_km_s ~ 1", galaxy, method=moves, draws=50, tune=50, chains=2, rng=1).method
    'permutation + gibbs'
    """

    name: ClassVar[str] = "permutation"
    entry: ClassVar[Entry] = permutation.permutation
    dynamic_program: str = "metropolis"
    beam: float | None = None
    order: str = "uniform"
    integrate_mass: bool = False

    def __post_init__(self) -> None:
        one_of("dynamic_program", self.dynamic_program, ("metropolis", "table"))
        one_of("order", self.order, ORDERS)
        if not isinstance(self.integrate_mass, bool):
            raise ValueError(f"integrate_mass must be True or False, not {self.integrate_mass!r}.")
        if self.beam is None:
            return
        if isinstance(self.beam, bool) or not isinstance(self.beam, Real) or not 0 <= self.beam < 1:
            raise ValueError(f"beam must be None or a number in [0, 1), the share of the sum that may be lost, not {self.beam!r}.")
        if self.dynamic_program == "table":
            raise ValueError('a beam needs dynamic_program="metropolis"; the table is exact and has none.')
        object.__setattr__(self, "beam", float(self.beam))

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("partition",)

    def options(self, model: Model) -> tuple[float, ...]:
        return (
            float(self.dynamic_program == "table"), -1.0 if self.beam is None else self.beam, float(ORDERS.index(self.order)),
            float(self.integrate_mass),
        )

    def room(self, model: Model) -> Room:
        rows = model.packed.rows
        directions = rows.y.shape[1] + int(rows.indices.max(initial=-1)) + 1 if self.order == "projection" else 0
        return Room(*permutation.room(model.n_obs, directions, self.dynamic_program == "table", self.order == "markov"))

    def is_irreducible(self) -> bool:
        return self.beam is None  # one of 0 loses what rounds to 0

    def can_have_kept(self, kept: np.ndarray, model: Model) -> bool:
        return bool((kept >= 0).all()) and kept[permutation.USUAL] <= model.n_obs

    def needs_tune(self) -> str:
        return "random projections run in tuning only" if self.order == "projection" else ""

    def refusal(self, model: Model) -> str:
        return only_conjugate_mixtures(model)

    def complaint(self, model: Model) -> str:
        n = model.n_obs
        needed = 8 * permutation.room(n, 0, True, False)[0] if self.dynamic_program == "table" else 0
        if needed > MOST_TABLE:
            return (
                f"the table of {n} observations would take {needed / 2**30:.1f} GiB in each chain, and {MOST_TABLE / 2**30:g} GiB is the "
                'limit; take dynamic_program="metropolis"'
            )
        markov = self.order == "markov"
        columns = 8 * n * model.packed.n_stat * ((self.beam is None) + markov)
        if columns > MOST_COLUMNS:
            return (
                f"its columns of statistics would take {columns / 2**30:.1f} GiB in each chain, and {MOST_COLUMNS / 2**30:g} GiB is the "
                f"limit; give a beam{' and order=' + repr('uniform') if markov else ''}"
            )
        if self.integrate_mass and not model.has_gamma_mass:
            return f"integrate_mass needs a mass with a gamma prior, of a normalised random measure, and the prior is {model.prior}"
        return ""
