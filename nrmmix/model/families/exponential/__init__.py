"""The exponential form of component families, which variational inference works on.

In each family that has one, log p(x | phi) = log h(x) + T(x)'eta(phi) - a(phi) with a conjugate prior: what is known of a component are
the number N of its rows, which may be a fraction, and the sum s of their statistics T.
"""

from nrmmix.model.families.exponential.base import Exponential, NotExponential, WholeRows
from nrmmix.model.families.exponential.counts import BinaryForm, DirichletForm, PoissonForm
from nrmmix.model.families.exponential.gaussian import KnownCovarianceForm, NormalGammaForm, NormalWishartForm
from nrmmix.model.families.exponential.learnt_scale import LearntGammaForm, LearntWishartForm
from nrmmix.model.families.exponential.regression import LearntRegressionForm, RegressionForm
from nrmmix.model.families.exponential.stacked import BLOCK, Features, Stacked, Statistics, joined

__all__ = [
    "BLOCK", "BinaryForm", "DirichletForm", "Exponential", "Features", "KnownCovarianceForm", "LearntGammaForm", "LearntRegressionForm",
    "LearntWishartForm", "NormalGammaForm", "NormalWishartForm", "NotExponential",
    "PoissonForm", "RegressionForm", "Stacked", "Statistics", "WholeRows", "joined",
]
