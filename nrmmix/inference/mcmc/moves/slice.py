"""The slice sampler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nrmmix.common.messages import count
from nrmmix.common.registry import plugin
from nrmmix.inference.mcmc.moves.base import MAX_PER_CALL, Move, ScratchSize
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import Entry
from nrmmix.kernels.moves.atoms.slice import scratch_size, slice_sampler
from nrmmix.model.specification import Specification

SKIPPED_BAD = 0.2  # share of the calls


@plugin
@dataclass(frozen=True)
class Slice(Move):
    """Slice sampler: weights and components of the random measure are drawn, all atoms above the smallest slice among them.

    The measure comes from its posterior given u; of the atoms that no observation belongs to, those above the lowest slice are a
    Poisson process with the exponentially tilted Levy intensity, and all of them are drawn (Griffin & Walker 2011).  The labels are then
    independent given weights and components.  A slice can be so low that more than `max_atoms` atoms would be needed on average, the more
    often the larger sigma, the mass and the number of observations are.  Then the partition stays as it is in that iteration, which is
    exact and counted (`fit.proposals()`).

    In density regression the atoms' locations are drawn as well, and each location has its own bound below which no atom is needed (Foti &
    Williamson 2012, without an approximation).

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
    entry: ClassVar[Entry] = slice_sampler
    calls: ClassVar[tuple[int, ...]] = layout.OF_ATOMS
    max_atoms: int = 10_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_atoms", count("max_atoms", self.max_atoms, 1, MAX_PER_CALL))

    def options(self, model: Specification) -> tuple[float, ...]:
        return (float(self.max_atoms),)

    def scratch_size(self, model: Specification) -> ScratchSize:
        return ScratchSize(*scratch_size(model.n_obs, self.max_atoms, model.prior.components, model.is_regression))

    def refusal(self, model: Specification) -> str:
        if not model.prior.has_random_measure:
            return f"it draws the random measure, and {type(model.prior).__name__} has a law of partitions only"
        return ""

    def share_skipped(self, skipped: int, proposed: int, n: int) -> float:
        return skipped / (proposed / n)  # labels are counted, n in a call

    def skip_warning(self, share: float) -> str:
        if share <= SKIPPED_BAD:
            return ""
        return (
            f"Slice sampling has skipped {share:.0%} of its calls, as too many atoms were needed: give nm.Slice(max_atoms=) more than "
            "it has, or take method='gibbs'."
        )
