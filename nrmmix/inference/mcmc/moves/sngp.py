"""The region sampler of the spatial normalised gamma process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nrmmix.common.registry import plugin
from nrmmix.inference.mcmc.moves.base import Move, ScratchSize, only_conjugate
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import Entry
from nrmmix.kernels.moves import sngp
from nrmmix.model.specification import Specification


@plugin
@dataclass(frozen=True)
class SNGP(Move):
    """Region sampler of the spatial normalised gamma process (Rao & Teh 2009): the total size of the atoms at each location is drawn.

    Given these, observations choose tables in the regions that reach them, as in a Chinese restaurant for each region; then whole
    clusters go to other regions with the sizes integrated out.  Rao & Teh have the box kernel; it is exact for any kernel.  For density
    regression by a `DirichletProcess`, or an `NGGP` with sigma=0, of families whose component parameters are integrated out.

    Examples
    --------
    >>> import nrmmix as nm
    >>> mcycle = nm.datasets.load_mcycle()
    >>> fit = nm.fit("accel_g ~ times_ms", mcycle, method="sngp", draws=50, tune=50, chains=2, rng=1)
    >>> fit.method
    'sngp'
    """

    name: ClassVar[str] = "sngp"
    entry: ClassVar[Entry] = sngp.sngp
    calls: ClassVar[tuple[int, ...]] = layout.OF_COLUMNS

    def scratch_size(self, model: Specification) -> ScratchSize:
        return ScratchSize(floats=sngp.ROWS * len(model.grid.locations) if model.grid is not None else 0)

    def refusal(self, model: Specification) -> str:
        if not model.is_regression:
            return "it draws the sizes of regions of covariates, and this is a mixture (responses ~ 1)"
        prior = model.prior
        if not prior.has_given_mass(True) or "sigma" in model.sampled or prior.sigma != 0:
            return f"its regions are gamma processes: it needs a DirichletProcess, or an NGGP with sigma=0, and the prior is {prior}"
        return only_conjugate(model)
