"""Scales of Gaussian components that are drawn, one for each response and all clusters (Huang & Wand 2013; Richardson & Green 1997).

Psi_0 = diag(c), c_j ~ Gamma(a_j, rate a_j) in the coordinates of the kernels, where responses are over the roots of the prior means of
their scales.  Given the precisions of K components

    c_j ~ Gamma(a_j + K nu/2, rate a_j + sum_k Lambda_k,jj/2),

and these are drawn for it given the partition and c, then forgotten.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import REDRAW_SHARED_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.state import STALE, Block
from nrmmix.kernels.families.gaussian import normal_gamma, normal_wishart
from nrmmix.kernels.families.shared import places

MIN_SCALE, MAX_SCALE = 1e-12, 1e12  # of c: beyond, digits of the statistics are lost


@kernel
def _drawn(shape, nu, K, total, rng):
    c = rng.standard_gamma(shape + 0.5 * nu * K) / (shape + 0.5 * total)
    return min(max(c, MIN_SCALE), MAX_SCALE)


@kernel
def _add_precision(rows, stat, block, k, totals, rng):
    """Add the diagonal of a draw of Lambda = W'W given the members of k, row by row of W L = A', as in `gaussian_sample`."""
    s, o, _, d = places(block)
    L = s + normal_wishart.MEAN + d
    row = L + d * (d + 1) // 2
    nu_n = rows.constant[o + normal_wishart.NU] + stat[s, k]
    for a in range(d):
        for j in range(d):
            stat[row + j, k] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (nu_n - a))) if j == a else 0.0 if j < a else rng.standard_normal()
        for j in range(d - 1, -1, -1):
            w = stat[row + j, k]
            for i in range(j + 1, d):
                w -= stat[row + i, k] * stat[L + i * (i + 1) // 2 + j, k]
            w *= stat[L + j * (j + 3) // 2, k]
            stat[row + j, k] = w
            rows.constant[totals + j] += w * w


@entry(REDRAW_SHARED_T)
def gaussian_redraw_shared(rows, stat, block, K, rng):
    _, o, _, d = places(block)
    shapes = normal_wishart.prior_diagonal(rows, o, d, d - 1) + 1
    totals = shapes + d
    for j in range(d):
        rows.constant[totals + j] = 0.0
    for k in range(K):
        _add_precision(rows, stat, block, k, totals, rng)
    nu = rows.constant[o + normal_wishart.NU]
    for j in range(d):
        at = normal_wishart.prior_diagonal(rows, o, d, j)
        rows.constant[at] = _drawn(rows.constant[shapes + j], nu, K, rows.constant[totals + j], rng)
    return STALE


@entry(REDRAW_SHARED_T)
def normal_gamma_redraw_shared(rows, stat, block, K, rng):
    s, o, d = block[Block.STAT], block[Block.CONSTANT], block[Block.LAST] - block[Block.FIRST]
    own, nu = rows.constant[o + normal_gamma.OWN] != 0.0, rows.constant[o + normal_gamma.NU]
    first, prior = s + normal_gamma.MEAN, normal_gamma.priors(rows, block)
    for j in range(d):
        total = 0.0
        for k in range(K):
            n = stat[first + 3 * d + (j if own else 0), k]
            total += 2.0 * rng.standard_gamma(0.5 * (nu + n)) / stat[first + 2 * d + j, k]
        rows.constant[prior + j] = _drawn(rows.constant[prior + d + j], nu, K, total, rng)
    return STALE
