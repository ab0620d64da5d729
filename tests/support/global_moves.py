"""Tree-guided moves without the Gibbs steps that follow: splits and merges reach every partition by themselves."""

from __future__ import annotations

from dataclasses import dataclass

from nrmmix.inference.mcmc.moves.tree_guided import TreeGuided
from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.state import DONE, Count
from nrmmix.kernels.trees import splits


@entry(MOVE_T)
def stay(data, state, memory, rng):
    state.num[Count.CURSOR] = 0
    return DONE


@dataclass(frozen=True)
class GlobalMoves(TreeGuided):
    def options(self, model):
        option = list(super().options(model))
        option[splits.LOCAL] = float(stay.address)
        return tuple(option)
