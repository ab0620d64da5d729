"""Slice sampling of one variable, with stepping out and shrinkage (Neal 2003)."""

from __future__ import annotations

from nrmmix.kernels.core.entry import call_scalar
from nrmmix.kernels.core.jit import Kernel, kernel

STEP = 1.5


def slices_under(log_density: Kernel) -> Kernel:
    """Return a kernel (of, start, step, rng): a point of the slice under log_density(of, z); `step` is tried first."""

    def step_of(of, start, step, rng):
        level = log_density(of, start) - rng.standard_exponential()
        lo = start - step * rng.random()
        hi = lo + step
        while log_density(of, lo) > level:
            lo -= step
        while log_density(of, hi) > level:
            hi += step
        while True:
            z = lo + (hi - lo) * rng.random()
            if log_density(of, z) >= level or not hi - lo > 1e-13:
                return z
            if z < start:
                lo = z
            else:
                hi = z

    step_of.__qualname__ = f"slices_under_{log_density.__name__}"  # all that tells one's compiled symbol in the cache from another's
    return kernel(step_of)


@kernel
def _log_density_at(of, z):
    density, data, state, which = of
    return call_scalar(density, data, state, which, z)


_step_at = slices_under(_log_density_at)


@kernel
def slice_step(density, data, state, which, start, step, rng):
    """A point of the slice under the log density at address `density`, called with (data, state, which, z)."""
    return _step_at((density, data, state, which), start, step, rng)
