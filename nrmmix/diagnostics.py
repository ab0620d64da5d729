"""Convergence diagnostics on plain arrays: `nrmmix.posterior.diagnostics` by its short name."""

from nrmmix.posterior.diagnostics import *  # noqa: F403
from nrmmix.posterior.diagnostics import __all__  # noqa: F401
