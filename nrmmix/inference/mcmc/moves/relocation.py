"""Atoms that change place together with the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nrmmix.common.registry import plugin
from nrmmix.inference.mcmc.moves.base import Move, ScratchSize
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import Entry
from nrmmix.kernels.moves.atoms import relocation
from nrmmix.model.specification import Specification


@plugin
@dataclass(frozen=True)
class Relocation(Move):
    """Relocation of atoms: in density regression, location and weight of clusters' atoms are drawn with all labels integrated out.

    Parameters and weights of the clusters' atoms are drawn.  Three of them get another of some locations (with its width, where atoms have
    their own) and of some weights, by the likelihood of the mixture that results, so that rows need not follow one by one.  Then all labels
    are drawn at once, independently given the atoms.  Exact for every prior that has a random measure, every family and kernel.  It leaves
    the number of clusters as it is, and runs in a list with `Gibbs`: last, for then v and the locations need no updates of their own.
    `method="split_merge"`, the default of density regression, has it so, but for sparse products of kernels.

    Examples
    --------
    >>> import nrmmix as nm
    >>> mcycle = nm.datasets.load_mcycle()
    >>> fit = nm.fit("accel_g ~ times_ms", mcycle, method=[nm.Relocation(), nm.Gibbs()], draws=50, tune=50, chains=2, rng=1)
    >>> fit.method
    'relocation + gibbs'
    """

    name: ClassVar[str] = "relocation"
    entry: ClassVar[Entry] = relocation.relocate
    calls: ClassVar[tuple[int, ...]] = (*layout.OF_COLUMNS, *layout.OF_ATOMS)
    draws_v: ClassVar[bool] = True

    def scratch_size(self, model: Specification) -> ScratchSize:
        return ScratchSize(*relocation.scratch_size(model.n_obs))

    def refusal(self, model: Specification) -> str:
        if not model.is_regression:
            return "it moves atoms to other locations, and this is a mixture (responses ~ 1)"
        return ""

    def is_irreducible(self) -> bool:
        return False
