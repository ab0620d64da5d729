"""Moves by their former path; what moves of one's own need is in `nrmmix.extending`."""

from nrmmix.inference.mcmc.moves import *  # noqa: F403
