"""Component families: their options, defaults scaled by the data, and their constants for the kernels."""

from nrmmix.model.families.base import Counts, Entries, Family, Observed, Packed, Parameter
from nrmmix.model.families.blocks import Block, Blocks, PackedBlocks, assign, designs
from nrmmix.model.families.discrete import Bernoulli, Categorical, Poisson
from nrmmix.model.families.gaussian.family import Gaussian, lee_choi_base
from nrmmix.model.families.hurdle import Hurdle
from nrmmix.model.families.multinomial import Multinomial
from nrmmix.model.families.regression import Regression
from nrmmix.model.families.semiconjugate import SemiconjugateGaussian

__all__ = [
    "Bernoulli", "Block", "Blocks", "Categorical", "Counts", "Entries", "Family", "Gaussian", "Hurdle", "Multinomial", "Observed",
    "Packed", "PackedBlocks", "Parameter", "Poisson", "Regression", "SemiconjugateGaussian", "assign", "designs", "lee_choi_base",
]
