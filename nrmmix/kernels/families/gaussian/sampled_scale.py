"""Scales of Gaussian components that are drawn, one for each response and all clusters (Huang & Wand 2013; Richardson & Green 1997).

Psi_0 = diag(c), c_j ~ Gamma(a_j, rate a_j) in the coordinates of the kernels, where responses are over the roots of the prior means of
their scales.  Means and precisions are integrated out, so that given the partition, with Psi_k = Psi_0 + what the rows of cluster k add,

    p(c_j | ...) ~ c_j^(a_j - 1 + K nu/2) e^(-a_j c_j) prod_k |Psi_k|^-((nu + n_k)/2),

and |Psi_k| is linear in c_j: it grows by 1 + (c - c_j) w_k, w_k = (Psi_k^-1)_jj, from c_j to c.  The density of log c_j is concave; it is
drawn by a slice.  A draw by which some |Psi_k| would change by a factor beyond `LOST`, and digits be lost, is refused, in either direction.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import REDRAW_SHARED_T, entry
from nrmmix.kernels.core.jit import fast, inlined, kernel
from nrmmix.kernels.core.slicing import slices_under
from nrmmix.kernels.core.special import log_pos
from nrmmix.kernels.core.state import RESCALED, STALE, Block
from nrmmix.kernels.families.gaussian import normal_gamma, normal_wishart
from nrmmix.kernels.families.gaussian.pooling import rotate
from nrmmix.kernels.families.shared import LOST, places

MIN_SCALE, MAX_SCALE = 1e-12, 1e12  # of c: beyond, digits of the statistics are lost
STEP = 1.0  # of log c
LEAST = LOST * LOST  # in place of a factor that rounds to less
WORN = 1e-2  # a factor of |Psi_k| below which statistics are built anew from the rows


@fast
def _log_density(of, z):
    """Log density of z = log c up to a constant; the n_k and w_k are two rows of `stat`."""
    stat, sizes, weights, K, nu, shape, old = of
    c = math.exp(z)
    change, total = c - old, 0.0
    n, w = stat[sizes], stat[weights]
    for k in range(K):
        total += (nu + n[k]) * log_pos(max(1.0 + change * w[k], LEAST))
    return (shape + 0.5 * nu * K) * z - shape * c - 0.5 * total


_slice = slices_under(_log_density)


@kernel
def _drawn(stat, sizes, weights, K, nu, shape, old, rng):
    """A new c_j, which is the old one where digits would be lost; and whether statistics are to be built anew."""
    if K == 0:
        return min(max(rng.standard_gamma(shape) / shape, MIN_SCALE), MAX_SCALE), False
    c = math.exp(_slice((stat, sizes, weights, K, nu, shape, old), math.log(old), STEP, rng))
    c = min(max(c, MIN_SCALE), MAX_SCALE)
    least, most = 1.0, 1.0
    for k in range(K):
        growth = 1.0 + (c - old) * stat[weights, k]
        least, most = min(least, growth), max(most, growth)
    return (c, least < WORN) if least > LOST and most * LOST < 1.0 else (old, False)


@inlined
def _inverse_diagonal(stat, L, row, d, k, j):
    """(Psi_k^-1)_jj = |L^-1 e_j|^2; the rows from `row` on are lost."""
    total = 0.0
    for a in range(j, d):
        p = L + a * (a + 1) // 2
        z = 1.0 if a == j else 0.0
        for i in range(j, a):
            z -= stat[p + i, k] * stat[row + i, k]
        z *= stat[p + a, k]
        stat[row + a, k] = z
        total += z * z
    return total


@entry(REDRAW_SHARED_T)
def gaussian_redraw_shared(rows, stat, block, K, rng):
    s, o, _, d = places(block)
    L = s + normal_wishart.MEAN + d
    row = L + d * (d + 1) // 2
    shapes = normal_wishart.prior_diagonal(rows, o, d, d - 1) + 1
    nu, stale = rows.constant[o + normal_wishart.NU], False
    for j in range(d):
        at = normal_wishart.prior_diagonal(rows, o, d, j)
        old = rows.constant[at]
        for k in range(K):
            stat[row, k] = _inverse_diagonal(stat, L, row, d, k, j)
        new, worn = _drawn(stat, s, row, K, nu, rows.constant[shapes + j], old, rng)
        stale = stale or worn
        rows.constant[at] = new
        root, sign = math.sqrt(abs(new - old)), 1.0 if new > old else -1.0
        for k in range(K):
            for a in range(j, d):
                stat[row + a, k] = root if a == j else 0.0
            rotate(stat, L, row, d, k, sign, j)
    for k in range(K):
        normal_wishart.refresh(rows, stat, block, k)
    return STALE if stale else RESCALED


@entry(REDRAW_SHARED_T)
def normal_gamma_redraw_shared(rows, stat, block, K, rng):
    s, o, d = block[Block.STAT], block[Block.CONSTANT], block[Block.LAST] - block[Block.FIRST]
    own, nu = rows.constant[o + normal_gamma.OWN] != 0.0, rows.constant[o + normal_gamma.NU]
    first, prior, stale = s + normal_gamma.MEAN, normal_gamma.priors(rows, block), False
    for j in range(d):
        sizes, g, psi = first + 3 * d + (j if own else 0), first + d + j, first + 2 * d + j
        for k in range(K):
            stat[g, k] = 1.0 / stat[psi, k]
        old = rows.constant[prior + j]
        new, worn = _drawn(stat, sizes, g, K, nu, rows.constant[prior + d + j], old, rng)
        stale = stale or worn
        rows.constant[prior + j] = new
        for k in range(K):
            r_n = rows.constant[o + normal_gamma.R] + stat[sizes, k]
            stat[psi, k] += new - old
            stat[g, k] = r_n / (r_n + 1.0) / stat[psi, k]
    for k in range(K):
        if own:
            for j in range(d):
                normal_gamma.refresh_cell(rows, stat, block, k, j)
        normal_gamma.refresh(rows, stat, block, k)
    return STALE if stale else RESCALED
