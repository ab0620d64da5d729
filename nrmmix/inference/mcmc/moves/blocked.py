"""The blocked Gibbs sampler of finite measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nrmmix.common.registry import plugin
from nrmmix.inference.mcmc.moves.base import MAX_COLUMNS, Move, ScratchSize, over_limit
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import Entry
from nrmmix.kernels.moves.atoms import blocked
from nrmmix.model.specification import Specification


@plugin
@dataclass(frozen=True)
class Blocked(Move):
    """Blocked Gibbs sampler: sizes, parameters and locations of all components of a `FiniteMixture` are drawn, then all labels at once.

    After Ishwaran & James (2001); with a covariate kernel it is the finite sampler of Foti & Williamson (2012), with the locations of the
    atoms drawn too.  For mixtures and density regression, of every family.  Each iteration evaluates the density of every observation
    under every component, and drawn components mix more slowly than `Gibbs`, which integrates them out and has the same posterior.

    Examples
    --------
    >>> import nrmmix as nm
    >>> galaxy = nm.datasets.load_galaxy()
    >>> fit = nm.fit("velocity_km_s ~ 1", galaxy, prior=nm.FiniteMixture(20), method="blocked", draws=50, tune=50, chains=2, rng=1)
    >>> fit.method
    'blocked'
    """

    name: ClassVar[str] = "blocked"
    entry: ClassVar[Entry] = blocked.blocked
    calls: ClassVar[tuple[int, ...]] = layout.OF_ATOMS

    def scratch_size(self, model: Specification) -> ScratchSize:
        return ScratchSize(*blocked.scratch_size(model.n_obs, model.prior.components))

    def refusal(self, model: Specification) -> str:
        if not model.prior.components:
            return f"it draws all components, and {type(model.prior).__name__} has infinitely many; it needs a FiniteMixture"
        return ""

    def option_error(self, model: Specification) -> str:
        locations = 0 if model.grid is None else len(model.grid.locations)
        size = 16 * model.prior.components * (model.packed.n_stat + locations)
        return over_limit(f"the {model.prior.components:,} components", size, MAX_COLUMNS, "; take nm.Gibbs()")
