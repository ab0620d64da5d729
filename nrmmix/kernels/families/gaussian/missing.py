"""Full Gaussian components where a row misses some of its cells: scores and densities of the others, draws of the missing ones.

Of a factor L of Psi_n the rows of observed cells, o, are brought back into lower triangular form by rotations of columns: R_o with
R_o R_o' = (Psi_n)_oo.  What is left of the rows of missing cells, rotated alike, is their regression on the observed ones and a
square root of what the regression leaves.  The marginal of a multivariate t has the same degrees of freedom.

Rows of work: z (d); q; cosine; sine; the rows of the factor (d x d), observed ones packed to the left.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import SCORE_T, entry
from nrmmix.kernels.core.jit import fast, inlined, kernel
from nrmmix.kernels.core.special import log_pos
from nrmmix.kernels.core.state import DONE, MISSING, Block
from nrmmix.kernels.families.shared import LOG_TWO_PI, places

MEAN, R, NU, LENGTH, TABLES = 4, 0, 1, 3, 5  # as in `normal_wishart`
LOG_PI = math.log(math.pi)


def n_work(d):
    return d + 3 + d * d


@inlined
def misses(rows, i, column):
    return rows.missing[i, column] == MISSING


@fast
def _rotated(rows, stat, work, block, begin, end, i, whole):
    """The factor's rows into work, for columns begin..end-1; rows of missing cells only where they are wanted as a `whole`."""
    first, base = block[Block.FIRST], block[Block.STAT] + MEAN
    d = block[Block.LAST] - first
    F = d + 3
    p = base + d
    for a in range(d):
        if whole or not misses(rows, i, first + a):
            for j in range(a):
                for k in range(begin, end):
                    work[F + a * d + j, k] = stat[p + j, k]
            for k in range(begin, end):
                work[F + a * d + a, k] = 1.0 / stat[p + a, k]
            for j in range(a + 1, d):
                for k in range(begin, end):
                    work[F + a * d + j, k] = 0.0
        p += a + 1
    count = 0
    cosine, sine = work[d + 1], work[d + 2]
    for a in range(d):
        if misses(rows, i, first + a):
            continue
        # from the right: the diagonal is greater than 0, so that no rotation is of nothing
        for j in range(a, count, -1):
            left, right = work[F + a * d + count], work[F + a * d + j]
            for k in range(begin, end):
                length = math.sqrt(left[k] * left[k] + right[k] * right[k])
                cosine[k] = left[k] / length
                sine[k] = right[k] / length
                left[k] = length
                right[k] = 0.0
            for b in range(d):
                gap = misses(rows, i, first + b)
                if (gap and not whole) or (b <= a and not gap):
                    continue
                left_b, right_b = work[F + b * d + count], work[F + b * d + j]
                for k in range(begin, end):
                    x, y = left_b[k], right_b[k]
                    left_b[k] = cosine[k] * x + sine[k] * y
                    right_b[k] = cosine[k] * y - sine[k] * x
        count += 1


@fast
def _solved(rows, stat, work, block, begin, end, i):
    """z = R_o^-1 (y_o - mu_o), q = z'z; the number of observed cells."""
    first, mean = block[Block.FIRST], block[Block.STAT] + MEAN
    d = block[Block.LAST] - first
    F = d + 3
    for k in range(begin, end):
        work[d, k] = 0.0
    count = 0
    for a in range(d):
        if misses(rows, i, first + a):
            continue
        x = rows.y[i, first + a]
        z = work[count]
        for k in range(begin, end):
            z[k] = x - stat[mean + a, k]
        for j in range(count):
            for k in range(begin, end):
                z[k] -= work[F + a * d + j, k] * work[j, k]
        for k in range(begin, end):
            z[k] /= work[F + a * d + count, k]
            work[d, k] += z[k] * z[k]
        count += 1
    return count


@kernel
def score_missing(rows, stat, work, out, block, K, i):
    """Add to out[:K] the log predictives of the observed cells: a multivariate t with nu + n - d + 1 degrees of freedom."""
    s, o, first, d = places(block)
    _rotated(rows, stat, work, block, 0, K, i, False)
    size = _solved(rows, stat, work, block, 0, K, i)
    spreads = o + TABLES + 2 * int(rows.constant[o + LENGTH])
    constant, count = -0.5 * size * LOG_PI, 0
    for a in range(d):
        if not misses(rows, i, first + a):
            constant -= rows.constant[spreads + a]
            for k in range(K):
                out[k] -= log_pos(work[d + 3 + a * d + count, k])
            count += 1
    for k in range(K):
        df = rows.constant[o + NU] + stat[s, k] - d + 1.0
        f = stat[s + 3, k]
        r_n = rows.constant[o + R] + stat[s, k]
        out[k] += constant + math.lgamma(0.5 * (df + size)) - math.lgamma(0.5 * df) + 0.5 * size * math.log(r_n / (r_n + 1.0))
        out[k] -= 0.5 * (df + size) * log_pos(1.0 + f * work[d, k])


@entry(SCORE_T)
def score_gaps(rows, stat, work, out, block, K, i, own):
    """Score a row that misses some cells."""
    score_missing(rows, stat, work, out, block, K, i)
    if own >= 0:
        out[own] = math.nan  # the column has the cells that were drawn: they go with the row
    return DONE


@kernel
def impute_missing(rows, stat, work, block, k, i, rng):
    """Draw the missing cells of row i given the others: a multivariate t with as many more degrees of freedom as cells are observed."""
    s, o, first, d = places(block)
    F = d + 3
    _rotated(rows, stat, work, block, k, k + 1, i, True)
    size = _solved(rows, stat, work, block, k, k + 1, i)
    df = rows.constant[o + NU] + stat[s, k] - d + 1.0 + size
    f = stat[s + 3, k]
    spread = math.sqrt((1.0 + f * work[d, k]) / (2.0 * f * rng.standard_gamma(0.5 * df)))
    for j in range(size, d):
        work[j, k] = spread * rng.standard_normal()
    for a in range(d):
        if misses(rows, i, first + a):
            total = stat[s + MEAN + a, k]
            for j in range(d):
                total += work[F + a * d + j, k] * work[j, k]
            rows.y[i, first + a] = total


@fast
def density_missing(rows, theta, work, out, block, M, i):
    """Add to out[:M] the log densities of the observed cells under N(mean, (W'W)^-1), the missing ones integrated out.

    With the columns of W of missing cells in triangular form, T, by rotations of rows, |W (y - mean)|^2 is least over the missing cells
    in the rows below T.
    """
    s, o, first, d = places(block)
    t = block[Block.THETA]
    spreads = o + TABLES + 2 * int(rows.constant[o + LENGTH])
    F, W = d + 3, t + 1 + d
    gaps, constant = 0, 0.0
    for a in range(d):
        for m in range(M):
            work[a, m] = 0.0
    for j in range(d):
        if misses(rows, i, first + j):
            for a in range(d):
                for m in range(M):
                    work[F + a * d + gaps, m] = theta[W + a * d + j, m]
            gaps += 1
            continue
        constant -= 0.5 * LOG_TWO_PI + rows.constant[spreads + j]
        x, mean = rows.y[i, first + j], theta[t + 1 + j]
        for a in range(d):
            for m in range(M):
                work[a, m] += theta[W + a * d + j, m] * (x - mean[m])
    for m in range(M):
        out[m] += constant + theta[t, m]
    cosine, sine = work[d + 1], work[d + 2]
    for c in range(gaps):
        top = work[F + c * d + c]
        for b in range(c + 1, d):
            below = work[F + b * d + c]
            for m in range(M):
                length = math.sqrt(top[m] * top[m] + below[m] * below[m])
                cosine[m] = top[m] / length if length > 0.0 else 1.0
                sine[m] = below[m] / length if length > 0.0 else 0.0
                top[m] = length
            for g in range(c + 1, gaps):
                for m in range(M):
                    x, y = work[F + c * d + g, m], work[F + b * d + g, m]
                    work[F + c * d + g, m] = cosine[m] * x + sine[m] * y
                    work[F + b * d + g, m] = cosine[m] * y - sine[m] * x
            for m in range(M):
                x, y = work[c, m], work[b, m]
                work[c, m] = cosine[m] * x + sine[m] * y
                work[b, m] = cosine[m] * y - sine[m] * x
        for m in range(M):
            out[m] -= log_pos(top[m])
    for a in range(gaps, d):
        for m in range(M):
            out[m] -= 0.5 * work[a, m] * work[a, m]
