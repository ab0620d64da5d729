"""Benchmarks: `python -m benchmarks` prints ours, the floor and the ratio, `make bench` this commit beside another.

Times are CPU seconds of one thread; medians of repeats.
"""

import warnings

from nrmmix.posterior.convergence import ConvergenceWarning

# short chains are what is timed here
warnings.simplefilter("ignore", ConvergenceWarning)
