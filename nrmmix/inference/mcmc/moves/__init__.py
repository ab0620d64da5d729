"""Moves on the partition and their options, one file each."""

from nrmmix.inference.mcmc.moves.base import Move, ScratchSize
from nrmmix.inference.mcmc.moves.blocked import Blocked
from nrmmix.inference.mcmc.moves.gibbs import Gibbs
from nrmmix.inference.mcmc.moves.permutation import Permutation
from nrmmix.inference.mcmc.moves.published import PublishedTreeGuided
from nrmmix.inference.mcmc.moves.relocation import Relocation
from nrmmix.inference.mcmc.moves.slice import Slice
from nrmmix.inference.mcmc.moves.sngp import SNGP
from nrmmix.inference.mcmc.moves.split_merge import SplitMerge
from nrmmix.inference.mcmc.moves.tree_guided import TreeGuided

__all__ = [
    "SNGP", "Blocked", "Gibbs", "Move", "Permutation", "PublishedTreeGuided", "Relocation", "ScratchSize", "Slice",
    "SplitMerge", "TreeGuided",
]
