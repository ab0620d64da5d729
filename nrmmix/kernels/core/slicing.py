"""Slice sampling of one variable, with stepping out and shrinkage (Neal 2003)."""

from __future__ import annotations

from nrmmix.kernels.core.entry import call_scalar
from nrmmix.kernels.core.jit import kernel

STEP = 1.5


@kernel
def slice_step(density, data, state, which, start, step, rng):
    """A point of the slice under the log density at address `density`, called with (data, state, which, z); `step` is tried first."""
    level = call_scalar(density, data, state, which, start) - rng.standard_exponential()
    lo = start - step * rng.random()
    hi = lo + step
    while call_scalar(density, data, state, which, lo) > level:
        lo -= step
    while call_scalar(density, data, state, which, hi) > level:
        hi += step
    while True:
        z = lo + (hi - lo) * rng.random()
        if call_scalar(density, data, state, which, z) >= level or not hi - lo > 1e-13:
            return z
        if z < start:
            lo = z
        else:
            hi = z
