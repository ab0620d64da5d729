"""Atoms of completely random measures: jumps above a level, or the largest, and what lies below."""

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
def log_level(log_c, sigma, log_least):
    """log of the level below which the jumps have a sum of the variance exp(log_least), or less: c level^(2 - sigma) / (2 - sigma)."""
    return (log_least + math.log(2.0 - sigma) - log_c) / (2.0 - sigma)


@kernel
def log_expected_level(c, sigma, least):
    """Return the level where `draw_largest` should stop: the sum of squares is c Gamma(2 - sigma), or that of the largest jump."""
    log_largest = -1.0 / c if sigma == 0.0 else -math.log1p(sigma / c) / sigma
    log_squares = max(math.log(c) + math.lgamma(2.0 - sigma), 2.0 * log_largest)
    return min(log_level(math.log(c), sigma, math.log(least) + log_squares), log_largest)


@kernel
def log_low_proposals(c, sigma, at):
    """log of the mean number of jumps between exp(at) and 1 under the power law, at < 0."""
    if sigma == 0.0:
        return math.log(-c * at)
    ratio = -sigma * at
    return math.log(c / sigma) + (ratio if ratio > 40.0 else math.log(math.expm1(ratio)))


@kernel
def draw_largest(c, sigma, least, out, rng):
    """Logarithms of the largest jumps of a Poisson process of intensity c z^(-1-sigma) e^-z into `out`; how many, and log of their least.

    They end at a level below which jumps have a sum whose variance is `least` of the sum of the squares of those above, or where there is
    no more room.  By thinning, as in `draw_jumps`, but downwards from 1 by the power law: what is above a level that only jumps above it
    have a say in leaves those below a Poisson process as before.  Jumps of a small c are out of the range of numbers: hence logarithms.
    """
    top = 1.0
    while c * top ** (-1.0 - sigma) * math.exp(-top) > 0.5 * out.shape[0]:
        top *= 1.25
    count, squares = 0, 0.0  # sum of squares, in units of the first jump below 1 where there is none above
    arrival, high = rng.standard_exponential(), c * top ** (-1.0 - sigma) * math.exp(-top)
    while arrival < high and count < out.shape[0]:
        z = top + rng.standard_exponential()
        if rng.random() < (z / top) ** (-1.0 - sigma):
            out[count] = math.log(z)
            squares += z * z
            count += 1
        arrival += rng.standard_exponential()
    if top > 1.0 or count == out.shape[0]:
        return count, math.log(top)
    unit, log_c = 0.0, math.log(c)
    level = -math.inf if count == 0 else min(log_level(log_c, sigma, math.log(least * squares)), 0.0)
    arrival = 0.0
    while count < out.shape[0]:
        arrival += rng.standard_exponential()
        log_z = -arrival / c if sigma == 0.0 else -math.log1p(sigma * arrival / c) / sigma
        if log_z < level:
            return count, level
        if rng.random() < math.exp(-math.exp(log_z)):
            if count == 0:
                unit = log_z
            out[count] = log_z
            squares += math.exp(2.0 * (log_z - unit))
            count += 1
            level = min(log_level(log_c, sigma, math.log(least * squares) + 2.0 * unit), log_z)
    return count, out[count - 1]


@kernel
def log_mass_below(c, sigma, log_level):
    """log of the mean sum of the jumps below a level: c times the lower incomplete gamma function, by its series of positive terms."""
    s, level = 1.0 - sigma, math.exp(log_level)
    term = 1.0 / s
    total = term
    for k in range(1, 10_000):
        term *= level / (s + k)
        total += term
        if term < 1e-17 * total:
            break
    return math.log(c) + s * log_level - level + math.log(total)
