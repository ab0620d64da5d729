"""Atoms of completely random measures: jumps above a level, and what lies below it."""

from __future__ import annotations

import math

import numpy as np

from nrmmix.kernels.jit import allocating, kernel


@kernel
def expected_count(c, sigma, level):
    """Bound on the mean number of jumps above the level: the two Poisson means of `jumps_above`."""
    t = max(level, 1.0)
    low = c * math.log(t / level) if sigma == 0.0 else c * (level**-sigma - t**-sigma) / sigma
    return low + c * t ** (-1.0 - sigma) * math.exp(-t)


@allocating
def jumps_above(c, sigma, level, rng):
    """Jumps z > level of a Poisson process of intensity c z^(-1-sigma) e^-z, by thinning.

    Below t = max(level, 1) proposals come from the power law and e^-z is thinned; above t from the exponential, and the power is.
    """
    t = max(level, 1.0)
    low = c * math.log(t / level) if sigma == 0.0 else c * (level**-sigma - t**-sigma) / sigma
    n_low = rng.poisson(low) if low > 0.0 else 0
    n_high = rng.poisson(c * t ** (-1.0 - sigma) * math.exp(-t))
    out = np.empty(n_low + n_high)
    kept = 0
    for _ in range(n_low):
        r = rng.random()
        if sigma == 0.0:
            z = level * (t / level) ** r
        else:
            z = (level**-sigma - r * (level**-sigma - t**-sigma)) ** (-1.0 / sigma)
        if rng.random() < math.exp(-z):
            out[kept] = z
            kept += 1
    for _ in range(n_high):
        z = t + rng.standard_exponential()
        if rng.random() < (z / t) ** (-1.0 - sigma):
            out[kept] = z
            kept += 1
    return out[:kept]


@kernel
def mass_below(c, sigma, level):
    """Mean of the sum of all jumps below the level: c times the lower incomplete gamma function, by its series of positive terms."""
    s = 1.0 - sigma
    term = 1.0 / s
    total = term
    for k in range(1, 10_000):
        term *= level / (s + k)
        total += term
        if term < 1e-17 * total:
            break
    return c * math.exp(s * math.log(level) - level) * total
