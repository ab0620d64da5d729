"""Component families: what a user writes, its data-scaled defaults, and its arrays for the kernels."""

from nrmmix.families.base import Counts, Entries, Family, Observed, Packed, Parameter
from nrmmix.families.blocks import Block, Blocks, PackedBlocks, assign, designs
from nrmmix.families.discrete import Bernoulli, Categorical, Poisson
from nrmmix.families.gaussian import Gaussian, lee_choi_base
from nrmmix.families.multinomial import Multinomial
from nrmmix.families.regression import Regression
from nrmmix.families.semiconjugate import SemiconjugateGaussian

__all__ = [
    "Bernoulli", "Block", "Blocks", "Categorical", "Counts", "Entries", "Family", "Gaussian", "Multinomial", "Observed", "Packed",
    "PackedBlocks", "Parameter", "Poisson", "Regression", "SemiconjugateGaussian", "assign", "designs", "lee_choi_base",
]
