"""The permutation-augmented sampler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nrmmix.common.messages import flag, number, one_of
from nrmmix.common.registry import plugin
from nrmmix.inference.mcmc.moves.base import MAX_COLUMNS, MAX_TABLE, Move, ScratchSize, only_conjugate_mixtures, over_limit
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import Entry
from nrmmix.kernels.moves.permutation import permutation
from nrmmix.model.specification import Specification

ORDERS = ("uniform", "markov", "projection")


@plugin
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
    calls: ClassVar[tuple[int, ...]] = layout.OF_COLUMNS
    kinds: ClassVar[tuple[str, ...]] = ("partition",)
    dynamic_program: str = "metropolis"
    beam: float | None = None
    order: str = "uniform"
    integrate_mass: bool = False

    def __post_init__(self) -> None:
        one_of("dynamic_program", self.dynamic_program, ("metropolis", "table"))
        one_of("order", self.order, ORDERS)
        object.__setattr__(self, "integrate_mass", flag("integrate_mass", self.integrate_mass))
        if self.beam is None:
            return
        if not 0 <= number(self.beam) < 1:
            raise ValueError(f"beam must be None or a number in [0, 1), the share of the sum that may be lost, not {self.beam!r}.")
        if self.dynamic_program == "table":
            raise ValueError('a beam needs dynamic_program="metropolis"; the table is exact and has none.')
        object.__setattr__(self, "beam", float(self.beam))

    def options(self, model: Specification) -> tuple[float, ...]:
        return (
            float(self.dynamic_program == "table"), -1.0 if self.beam is None else self.beam, float(ORDERS.index(self.order)),
            float(self.integrate_mass),
        )

    def scratch_size(self, model: Specification) -> ScratchSize:
        rows = model.packed.rows
        directions = rows.y.shape[1] + int(rows.indices.max(initial=-1)) + 1 if self.order == "projection" else 0
        return ScratchSize(*permutation.scratch_size(model.n_obs, directions, self.dynamic_program == "table", self.order == "markov"))

    def is_irreducible(self) -> bool:
        return self.beam is None  # one of 0 loses what rounds to 0

    def can_have_learnt(self, learnt: np.ndarray, model: Specification) -> bool:
        return bool((learnt >= 0).all()) and learnt[permutation.USUAL] <= model.n_obs

    def needs_tune(self) -> str:
        return "random projections run in tuning only" if self.order == "projection" else ""

    def refusal(self, model: Specification) -> str:
        return only_conjugate_mixtures(model)

    def option_error(self, model: Specification) -> str:
        n = model.n_obs
        needed = 8 * permutation.scratch_size(n, 0, True, False)[0] if self.dynamic_program == "table" else 0
        markov = self.order == "markov"
        columns = 8 * n * model.packed.n_stat * ((self.beam is None) + markov)
        beam = f"; give a beam{' and order=' + repr('uniform') if markov else ''}"
        why = over_limit(f"the table of {n} observations", needed, MAX_TABLE, '; take dynamic_program="metropolis"')
        why = why or over_limit("its columns of statistics", columns, MAX_COLUMNS, beam)
        if not why and self.integrate_mass and not model.has_gamma_mass:
            return f"integrate_mass needs a mass with a gamma prior, of a normalised random measure, and the prior is {model.prior}"
        return why
