"""Gaussian components, full covariance: log p(y_a, y_b) - log p(y_a) - log p(y_b) of one column with many others at once.

Only the determinant of Psi_12 is wanted (see `pooling`), not its factor in a column.  LANES columns at a time are brought together, and
every loop over them is innermost and of fixed length.  Sums keep their order: with a known mean r is 1e300, and means are next to nothing.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import AFFINITY_T, entry
from nrmmix.kernels.core.jit import inlined
from nrmmix.kernels.core.lanes import LANES
from nrmmix.kernels.core.special import local_numbers, log_pos
from nrmmix.kernels.core.state import DONE, Block
from nrmmix.kernels.families.gaussian.normal_wishart import LENGTH, MAX_RESPONSES, MEAN, NU, ROOM, TABLES, R, log_scale, spreads
from nrmmix.kernels.families.gaussian.pooling import pool
from nrmmix.kernels.families.shared import LOST, places

AT_ONCE = 4  # pivots multiplied before a logarithm is taken
MIN_PRODUCT = 1e-300  # of such a product, in columns that are not trusted
VECTORS, MATRICES = MAX_RESPONSES * LANES, ROOM * LANES  # numbers in LANES of each
COLUMNS = MEAN * LANES + VECTORS + MATRICES


@inlined
def _log_marginal(rows, o, n, log_det):
    """marginal[n] - (nu + n)/2 log|Psi_n|, without a scale that is drawn; n may be beyond the table where columns share observations."""
    length = int(rows.constant[o + LENGTH])
    marginal = rows.constant[o + TABLES + length + min(int(n), length - 1)]
    return marginal - 0.5 * (rows.constant[o + NU] + n) * log_det


@inlined
def _log_det(rows, o, n, c):
    """log|Psi_n| from the predictive's c."""
    return 2.0 * (rows.constant[o + TABLES + int(n)] - c)


@inlined
def _gather(other, s, n_rows, first, K, tile):
    """Columns first, first + 1, ... of `other` side by side; the last of the K again where there are no more."""
    if first + LANES <= K:
        for p in range(n_rows):
            row = other[s + p, first : first + LANES]
            for t in range(LANES):
                tile[p * LANES + t] = row[t]
    else:
        for p in range(n_rows):
            for t in range(LANES):
                tile[p * LANES + t] = other[s + p, min(first + t, K - 1)]


@inlined
def _of_one(rows, stat, block, k, d, lift, c, b, fixed, square):
    """Compute, for column k, b, Psi_1 - Psi_0 - c b b' packed by rows, and the squared diagonal of Psi_1's factor."""
    L = block[Block.STAT] + MEAN + d
    prior = spreads(rows, block[Block.CONSTANT]) + d + d * (d + 1) // 2
    p = 0
    for a in range(d):
        b[a] = stat[block[Block.STAT] + MEAN + a, k] * lift
        x = 1.0 / stat[L + p + a, k]
        square[a] = x * x
        q = 0
        for j in range(a + 1):
            total = -c * b[a] * b[j] - rows.constant[prior + p + j]
            for i in range(j + 1):
                first = x if i == a else stat[L + p + i, k]
                second = 1.0 / stat[L + q + i, k] if i == j else stat[L + q + i, k]
                total += first * second
            q += j + 1
            fixed[p + j] = total
        p += a + 1


@inlined
def _pool_all(d, b, fixed, square, w, tile, e, psi, trusted):
    """Psi_12 = `fixed` + Psi_2 + w e e'.  The diagonals of the factors in the tile become themselves again."""
    p = 0
    for a in range(d):
        row, diagonal = (MEAN + d + p) * LANES, (MEAN + d + p + a) * LANES
        for t in range(LANES):
            e[a * LANES + t] = b[a] - tile[(MEAN + a) * LANES + t]
            tile[diagonal + t] = 1.0 / tile[diagonal + t]
        q = 0
        for j in range(a + 1):
            at, other_row = (p + j) * LANES, (MEAN + d + q) * LANES
            for t in range(LANES):
                psi[at + t] = fixed[p + j] + w[t] * e[a * LANES + t] * e[j * LANES + t]
            for i in range(j + 1):
                for t in range(LANES):
                    psi[at + t] += tile[row + i * LANES + t] * tile[other_row + i * LANES + t]
            q += j + 1
        if a > 0:  # no more is lost in a pivot than the diagonal is larger
            at = (p + a) * LANES
            for t in range(LANES):
                y = tile[diagonal + t]
                trusted[t] = trusted[t] if max(square[a], y * y) >= LOST * psi[at + t] else 0.0
        p += a + 1


@inlined
def _log_dets(d, psi, scaled, inverse, product, log_det):
    """log|Psi_12| by pivots; Psi_12 = X D^-1 X' with D the diagonal of X, which takes the place of psi, and X D^-1 that of `scaled`."""
    p = 0
    for a in range(d):
        q, pivot = 0, (p + a) * LANES
        for j in range(a):
            at = (p + j) * LANES
            for i in range(j):
                for t in range(LANES):
                    psi[at + t] -= psi[(p + i) * LANES + t] * scaled[(q + i) * LANES + t]
            for t in range(LANES):
                scaled[at + t] = psi[at + t] * inverse[j * LANES + t]
                psi[pivot + t] -= psi[at + t] * scaled[at + t]
            q += j + 1
        for t in range(LANES):
            inverse[a * LANES + t] = 1.0 / psi[pivot + t]
            product[t] *= psi[pivot + t]
        if a % AT_ONCE == AT_ONCE - 1 or a == d - 1:
            for t in range(LANES):
                log_det[t] += log_pos(max(product[t], MIN_PRODUCT))
                product[t] = 1.0
        p += a + 1


@entry(AFFINITY_T)
def gaussian_affinity(rows, stat, other, out, block, k, K):
    """NaN where the determinant would lose digits."""
    s, o, _, d = places(block)
    r, n_1 = rows.constant[o + R], stat[s, k]
    if n_1 == 0.0:
        return DONE
    b, fixed, square = local_numbers(MAX_RESPONSES), local_numbers(ROOM), local_numbers(MAX_RESPONSES)
    tile, psi, e, inverse = local_numbers(COLUMNS), local_numbers(MATRICES), local_numbers(VECTORS), local_numbers(VECTORS)
    scaled = local_numbers(MATRICES)
    w, product, log_det, trusted = local_numbers(LANES), local_numbers(LANES), local_numbers(LANES), local_numbers(LANES)
    lift, _, _, c = pool(r, n_1, n_1)
    _of_one(rows, stat, block, k, d, lift, c, b, fixed, square)
    alone = _log_marginal(rows, o, n_1, _log_det(rows, o, n_1, stat[s + 1, k])) + log_scale(rows, o, d)
    for first in range(0, K, LANES):
        _gather(other, s, MEAN + d + d * (d + 1) // 2, first, K, tile)
        for t in range(LANES):
            w[t] = pool(r, n_1, tile[t])[2]
            product[t], log_det[t], trusted[t] = 1.0, 0.0, 1.0
        _pool_all(d, b, fixed, square, w, tile, e, psi, trusted)
        _log_dets(d, psi, scaled, inverse, product, log_det)
        for t in range(min(LANES, K - first)):
            n_2 = tile[t]
            union = _log_marginal(rows, o, n_1 + n_2, log_det[t])
            own = _log_marginal(rows, o, n_2, _log_det(rows, o, n_2, tile[LANES + t]))
            out[first + t] += union - alone - own if trusted[t] != 0.0 else math.nan
    return DONE
