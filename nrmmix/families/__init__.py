"""Component families: what a user writes, its data-scaled defaults, and its arrays for the kernels."""

from nrmmix.families.base import Counts, Entries, Family, Observed, Packed, Parameter
from nrmmix.families.blocks import Block, Blocks, PackedBlocks, assign, designs
from nrmmix.families.gaussian import Gaussian, lee_choi_base

__all__ = [
    "Block", "Blocks", "Counts", "Entries", "Family", "Gaussian", "Observed", "Packed", "PackedBlocks", "Parameter", "assign", "designs",
    "lee_choi_base",
]
