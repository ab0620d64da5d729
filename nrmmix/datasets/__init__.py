"""Classic data sets that come with the package, files of the user, and simulated data with the truth."""

from nrmmix.datasets import loaders, simulations
from nrmmix.datasets.loaders import *  # noqa: F403
from nrmmix.datasets.simulations import *  # noqa: F403

__all__ = [*loaders.__all__, *simulations.__all__]
