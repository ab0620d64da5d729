"""Gaussian components, full covariance: q = |L^-1 (y - mu)|^2 of a row, or four, in many columns, LANES columns at a time.

Statistics are those of `normal_wishart`: the mean in the rows from `mean` on, the factor behind it, packed by rows, its diagonal as
reciprocals.  A number of the factor is read once for all rows, and sums stay in registers; the order of operations is that of a loop over
columns.
"""

from __future__ import annotations

from nrmmix.kernels.core.jit import inlined, kernel, woven
from nrmmix.kernels.core.lanes import LANES, all_lanes, lanes_at, less, less_product, plus_product, put_lanes, times
from nrmmix.kernels.core.special import local_numbers

MIN_RESPONSES = 5  # responses; with fewer, loops over all columns are as fast for one row
MAX_RESPONSES = 64  # responses for which there is room
FOUR_LANES = 4 * LANES
SOLVED, SOLVED_OF_FOUR = MAX_RESPONSES * LANES, MAX_RESPONSES * FOUR_LANES  # numbers of scratch


@inlined
def fits(d, K):
    """Whether `squares` can be called, and is worth it."""
    return MIN_RESPONSES <= d <= MAX_RESPONSES and K % LANES == 0


@woven
@kernel
def squares(y, stat, work, mean, first, d, K, i):
    """work[d, k] = q of row i in columns k < K, a multiple of LANES."""
    cap, width = stat.shape[1], work.shape[1]
    solved = local_numbers(SOLVED)
    for k in range(0, K, LANES):
        q = all_lanes(0.0)
        p = (mean + d) * cap + k
        for a in range(d):
            z = less(all_lanes(y[i, first + a]), lanes_at(stat, (mean + a) * cap + k))
            for j in range(a):
                z = less_product(z, lanes_at(stat, p), lanes_at(solved, j * LANES))
                p += cap
            z = times(z, lanes_at(stat, p))
            p += cap
            put_lanes(solved, a * LANES, z)
            q = plus_product(q, z, z)
        put_lanes(work, d * width + k, q)


@woven
@kernel
def squares_of_four(y, stat, work, mean, first, d, K, i):
    """work[r, k] = q of row i[r] in columns k < K, a multiple of LANES; at most MAX_RESPONSES responses."""
    cap, width = stat.shape[1], work.shape[1]
    i0, i1, i2, i3 = i[0], i[1], i[2], i[3]
    solved = local_numbers(SOLVED_OF_FOUR)
    for k in range(0, K, LANES):
        q0 = q1 = q2 = q3 = all_lanes(0.0)
        p = (mean + d) * cap + k
        for a in range(d):
            m = lanes_at(stat, (mean + a) * cap + k)
            z0, z1 = less(all_lanes(y[i0, first + a]), m), less(all_lanes(y[i1, first + a]), m)
            z2, z3 = less(all_lanes(y[i2, first + a]), m), less(all_lanes(y[i3, first + a]), m)
            for j in range(a):
                x, b = lanes_at(stat, p), j * FOUR_LANES
                z0, z1 = less_product(z0, x, lanes_at(solved, b)), less_product(z1, x, lanes_at(solved, b + LANES))
                b += 2 * LANES
                z2, z3 = less_product(z2, x, lanes_at(solved, b)), less_product(z3, x, lanes_at(solved, b + LANES))
                p += cap
            x, b = lanes_at(stat, p), a * FOUR_LANES
            z0, z1, z2, z3 = times(z0, x), times(z1, x), times(z2, x), times(z3, x)
            p += cap
            put_lanes(solved, b, z0)
            put_lanes(solved, b + LANES, z1)
            put_lanes(solved, b + 2 * LANES, z2)
            put_lanes(solved, b + 3 * LANES, z3)
            q0, q1, q2, q3 = plus_product(q0, z0, z0), plus_product(q1, z1, z1), plus_product(q2, z2, z2), plus_product(q3, z3, z3)
        put_lanes(work, k, q0)
        put_lanes(work, width + k, q1)
        put_lanes(work, 2 * width + k, q2)
        put_lanes(work, 3 * width + k, q3)
