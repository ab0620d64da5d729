"""The natural side of component families, which variational inference works on.

In each family that has one, log p(x | phi) = log h(x) + T(x)'eta(phi) - a(phi) with a conjugate prior: what is known of a component are
the number N of its rows, which may be a fraction, and the sum s of their statistics T.
"""

from nrmmix.model.families.exponential.base import Exponential, NotExponential, WholeRows
from nrmmix.model.families.exponential.counts import BinarySide, DirichletSide, PoissonSide
from nrmmix.model.families.exponential.gaussian import KnownCovarianceSide, NormalGammaSide, NormalWishartSide
from nrmmix.model.families.exponential.learnt_scale import LearntGammaSide, LearntWishartSide
from nrmmix.model.families.exponential.regression import LearntRegressionSide, RegressionSide
from nrmmix.model.families.exponential.stacked import BLOCK, Features, Stacked, Statistics, joined

__all__ = [
    "BLOCK", "BinarySide", "DirichletSide", "Exponential", "Features", "KnownCovarianceSide", "LearntGammaSide", "LearntRegressionSide",
    "LearntWishartSide", "NormalGammaSide", "NormalWishartSide", "NotExponential",
    "PoissonSide", "RegressionSide", "Stacked", "Statistics", "WholeRows", "joined",
]
