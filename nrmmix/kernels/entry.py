"""Entry points by their former path; all that extensions need is in `nrmmix.extending`."""

from nrmmix.kernels.core.entry import *  # noqa: F403
