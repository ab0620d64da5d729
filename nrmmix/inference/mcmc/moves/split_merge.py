"""Split-merge moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nrmmix.common.messages import count, one_of
from nrmmix.common.registry import plugin
from nrmmix.inference.mcmc.moves.base import MAX_PER_CALL, Move, ScratchSize, only_conjugate
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import Entry
from nrmmix.kernels.measure.weights import REACH
from nrmmix.kernels.moves import split_merge
from nrmmix.model.specification import Specification


@plugin
@dataclass(frozen=True)
class SplitMerge(Move):
    """Split-merge: two observations drawn at random are parted, or their clusters joined, by Metropolis-Hastings at fixed u or v.

    For mixtures and density regressions by every prior, of families whose component parameters are integrated out; so are the locations
    of a density regression. It changes many labels at once but rarely single ones: best in a list with `Gibbs`. `method="split_merge"` is
    one proposal of each of the two kinds below, then `Gibbs`; for density regression, whose default it is, a sequential one, `Gibbs` and
    `Relocation`, or of sparse products three sequential ones and `Gibbs`. Where a merge is refused whatever the probability of the split
    that would undo it, that probability is not computed, nor its log ratio.

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
    calls: ClassVar[tuple[int, ...]] = layout.OF_COLUMNS
    proposals: int = 1
    scans: int = 5
    proposal: str = "restricted_gibbs"

    def __post_init__(self) -> None:
        object.__setattr__(self, "proposals", count("proposals", self.proposals, 1, MAX_PER_CALL))
        object.__setattr__(self, "scans", count("scans", self.scans, 0, MAX_PER_CALL))
        one_of("proposal", self.proposal, ("restricted_gibbs", "sequential"))

    @property
    def kinds(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("split", "merge") if self.proposal == "restricted_gibbs" else ("sequential split", "sequential merge")

    def options(self, model: Specification) -> tuple[float, ...]:
        by_scans = 0 if self.proposal == "sequential" else split_merge.restricted_gibbs.address
        return (float(self.proposals), float(self.scans), float(by_scans))

    def scratch_size(self, model: Specification) -> ScratchSize:
        floats = REACH * len(model.grid.locations) if model.grid is not None else 0
        return ScratchSize(floats=floats, ints=split_merge.INTS * model.n_obs + 2 + split_merge.PAIR, trial=split_merge.TRIAL)

    def refusal(self, model: Specification) -> str:
        return only_conjugate(model)
