"""Atoms of completely random measures: jumps above a level, and what lies below it."""

from __future__ import annotations

import math

import numpy as np

from nrmmix.kernels.core.jit import allocating, kernel, root
from nrmmix.kernels.core.state import TINY


@kernel
def proposal_means(c, sigma, level):
    """Mean numbers of proposals of `draw_jumps`, from the power law and from the exponential; infinite at a level of 0."""
    if level < TINY:
        return math.inf, 0.0
    t = max(level, 1.0)
    ratio = math.log(t) - math.log(level)
    low = c * ratio if sigma == 0.0 else c * t**-sigma * math.expm1(min(sigma * ratio, 700.0)) / sigma
    return low, c * t ** (-1.0 - sigma) * math.exp(-t)


@kernel
def expected_count(c, sigma, level):
    """Bound on the mean number of jumps above the level: that of their proposals."""
    low, high = proposal_means(c, sigma, level)
    return low + high


@root
@kernel
def most_jumps(mean):
    """A Poisson variable of this mean is smaller but with a probability below 1e-60."""
    return int(mean + 20.0 * math.sqrt(mean)) + 200


@kernel
def draw_jumps(c, sigma, level, out, rng):
    """Jumps z > level of a Poisson process of intensity c z^(-1-sigma) e^-z into `out`, as long as there is room; how many.

    By thinning: below t = max(level, 1) proposals come from the power law and e^-z is thinned; above t from the exponential, and the power
    is.  Proposals are the arrivals of a Poisson process of rate 1.
    """
    low, high = proposal_means(c, sigma, level)
    t = max(level, 1.0)
    ratio = math.log(t) - math.log(level)
    shrink = math.expm1(-sigma * ratio)
    count = 0
    arrival = rng.standard_exponential()
    while arrival < low and count < out.shape[0]:
        r = arrival / low
        z = level * math.exp(r * ratio if sigma == 0.0 else -math.log1p(r * shrink) / sigma)
        if rng.random() < math.exp(-z):
            out[count] = z
            count += 1
        arrival += rng.standard_exponential()
    arrival = rng.standard_exponential()
    while arrival < high and count < out.shape[0]:
        z = t + rng.standard_exponential()
        if rng.random() < (z / t) ** (-1.0 - sigma):
            out[count] = z
            count += 1
        arrival += rng.standard_exponential()
    return count


@allocating
def jumps_above(c, sigma, level, rng):
    """Jumps z > level of a Poisson process of intensity c z^(-1-sigma) e^-z."""
    out = np.empty(most_jumps(expected_count(c, sigma, level)))
    return out[: draw_jumps(c, sigma, level, out, rng)]


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
