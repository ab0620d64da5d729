"""Gaussian components, full covariance: a number that no log predictive of a few rows exceeds, for many columns at once.

The rows lie in a ball with centre z and radius rho.  With L the factor of Psi_n a row y has

    |L^-1 (y - mu)| >= |L^-1 (z - mu)| - s rho,    s^8 = sum of the squares of the elements of Psi_n^-2,

for s is no less than the largest singular value of L^-1: the eighth power of that is the largest eigenvalue of Psi_n^-4, and the sum its
trace.  At worst, where all eigenvalues are equal, s is d^(1/8) times as large.  The log predictive falls as the left side grows.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import BOUND_T, entry
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.lanes import LANES, all_lanes, lanes_at, less, less_product, plus_product, put_lanes, times
from nrmmix.kernels.core.special import local_numbers, log_pos
from nrmmix.kernels.core.state import DONE
from nrmmix.kernels.families.gaussian.normal_wishart import MEAN
from nrmmix.kernels.families.shared import places

MAX_RESPONSES = 16  # responses for which there is room
ROOM = MAX_RESPONSES * (MAX_RESPONSES + 1) // 2
LANES_OF_ROW, LANES_OF_FACTOR, LANES_OF_SQUARE = MAX_RESPONSES * LANES, ROOM * LANES, MAX_RESPONSES * MAX_RESPONSES * LANES
SLACK = 1e-6  # of both terms: more than rounding loses in a factor that keeps any digits


@kernel
def _ball(y, members, first, d, centre):
    """The centre of a ball with the rows in it, and its radius; NaN where a cell is missing."""
    for j in range(d):
        total = 0.0
        for r in range(members.shape[0]):
            total += y[members[r], first + j]
        centre[j] = total / members.shape[0]
    most = 0.0
    for r in range(members.shape[0]):
        square = 0.0
        for j in range(d):
            e = y[members[r], first + j] - centre[j]
            square += e * e
        if not square <= most:
            most = square
    return math.sqrt(most)


@kernel
def _fill_reach(stat, reach, mean, d, first, last):
    """s of columns first..last-1, both multiples of LANES."""
    cap = stat.shape[1]
    inverse, product, full = local_numbers(LANES_OF_FACTOR), local_numbers(LANES_OF_SQUARE), local_numbers(LANES)
    for k in range(first, last, LANES):
        p = (mean + d) * cap + k
        begin = 0
        for a in range(d):  # row a of L^-1; the diagonal of L is there as reciprocals
            diagonal = lanes_at(stat, p + a * cap)
            for j in range(a):
                x = all_lanes(0.0)
                for b in range(j, a):
                    x = less_product(x, lanes_at(stat, p + b * cap), lanes_at(inverse, (b * (b + 1) // 2 + j) * LANES))
                put_lanes(inverse, (begin + j) * LANES, times(x, diagonal))
            put_lanes(inverse, (begin + a) * LANES, diagonal)
            begin += a + 1
            p += (a + 1) * cap
        for j in range(d):
            for m in range(j + 1):  # of Psi_n^-1
                x = all_lanes(0.0)
                for a in range(j, d):
                    row = a * (a + 1) // 2
                    x = plus_product(x, lanes_at(inverse, (row + j) * LANES), lanes_at(inverse, (row + m) * LANES))
                put_lanes(product, (j * d + m) * LANES, x)
                put_lanes(product, (m * d + j) * LANES, x)
        total = all_lanes(0.0)
        for j in range(d):
            for m in range(j + 1):  # of Psi_n^-2
                x = all_lanes(0.0)
                for a in range(d):
                    x = plus_product(x, lanes_at(product, (j * d + a) * LANES), lanes_at(product, (m * d + a) * LANES))
                total = plus_product(total, times(x, all_lanes(1.0 if m == j else 2.0)), x)
        put_lanes(full, 0, total)
        for r in range(LANES):
            reach[k + r] = math.sqrt(math.sqrt(math.sqrt(full[r])))


@kernel
def _squares(centre, stat, work, mean, d, K):
    """work[0, k] = |L^-1 (centre - mu)|^2 of columns k < K, a multiple of LANES."""
    cap = stat.shape[1]
    solved = local_numbers(LANES_OF_ROW)
    for k in range(0, K, LANES):
        q = all_lanes(0.0)
        p = (mean + d) * cap + k
        for a in range(d):
            z = less(all_lanes(centre[a]), lanes_at(stat, (mean + a) * cap + k))
            for j in range(a):
                z = less_product(z, lanes_at(stat, p), lanes_at(solved, j * LANES))
                p += cap
            z = times(z, lanes_at(stat, p))
            p += cap
            put_lanes(solved, a * LANES, z)
            q = plus_product(q, z, z)
        put_lanes(work, k, q)


@fast
def _add_bounds(stat, work, reach, out, s, K, radius):
    """out += c - h log(1 + f q), q the least that there is in the ball."""
    c, h, f = s + 1, s + 2, s + 3
    far = radius * (1.0 + SLACK)
    for k in range(K):
        x = math.sqrt(work[0, k]) * (1.0 - SLACK) - reach[k] * far
        x = x if x > 0.0 else 0.0
        work[0, k] = x * x
    for k in range(K):  # a second loop, as in scores
        out[k] += stat[c, k] - stat[h, k] * log_pos(1.0 + stat[f, k] * work[0, k]) + SLACK


@entry(BOUND_T)
def gaussian_bound(rows, stat, work, reach, out, block, first, K, members):
    """At most MAX_RESPONSES responses, all of them there; arrays have room for whole vectors of columns."""
    s, o, response, d = places(block)
    first, last = first // LANES * LANES, (K + LANES - 1) // LANES * LANES
    if members.shape[0] == 0:
        _fill_reach(stat, reach, s + MEAN, d, first, last)
        return DONE
    centre = local_numbers(MAX_RESPONSES)
    radius = _ball(rows.y, members, response, d, centre)
    _squares(centre, stat, work, s + MEAN, d, last)
    _add_bounds(stat, work, reach, out, s, last, radius)
    return DONE
