"""Gaussian components of known covariance S, normal prior of the mean.

Observations come whitened (`nrmmix.model.families.gaussian.known_covariance`): y = L^-1 (x - m) with S = L L', so that the prior is mu ~
N(0, I/r), and components are N(mu, I).  Where S is diagonal, L is, and NaN is a missing cell that is left out.  Where it is not, a row with
missing cells comes as (x_j - m_j)/s_j with s_j^2 = S_jj; such rows can be scored (`score_missing`), but not enter.

Rows of stat: c, h of the predictive c - h |y - mu_n|^2; mu_n (d); Q of the marginal, exp(-Q/2) its exponential; n, or where cells are
missing n of each response (d).

Constants: r, -log |L|, whether each response counts its own observations, whether S is full; log s_j (d); the factor of the
correlations of S (d x d) where it is full.
Rows of theta: mean (d).
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import COMBINE_T, DENSITY_T, EMPTY_T, MARGINAL_T, SAMPLE_T, SCORE_T, UPDATE_T, entry
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.special import log_pos
from nrmmix.kernels.core.state import DONE, LOST_PRECISION, Block
from nrmmix.kernels.families.gaussian.pooling import pool
from nrmmix.kernels.families.shared import LOG_TWO_PI, LOST, add, clear, is_complete, means_at, padded, places

MEAN = 2  # first row of the mean
R, JACOBIAN, OWN, FULL, SPREADS = 0, 1, 2, 3, 4  # in Rows.constant


def n_stat(d, own):
    return MEAN + d + 1 + (d if own else 1)


def n_work(d, full):
    return d + d * (d + 1) // 2 if full else 1


@kernel
def refresh(rows, stat, block, k):
    """c and h."""
    s, o, first, d = places(block)
    r_n = rows.constant[o + R] + stat[s + MEAN + d + 1, k]
    stat[s, k] = rows.constant[o + JACOBIAN] - 0.5 * d * (LOG_TWO_PI + math.log((r_n + 1.0) / r_n))
    stat[s + 1, k] = 0.5 * r_n / (r_n + 1.0)


@entry(EMPTY_T)
def known_empty(rows, stat, block, k):
    s, o, first, d = places(block)
    counts = d if rows.constant[o + OWN] != 0.0 else 1
    clear(stat, s + MEAN, s + MEAN + d + 1 + counts, k)
    refresh(rows, stat, block, k)
    return DONE


@entry(UPDATE_T)
def known_update(rows, stat, block, k, i, sign):
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    counts = s + MEAN + d + 1
    if not own:
        stat[counts, k] += sign
    change = 0.0
    for j in range(d):
        y = rows.y[i, first + j]
        if math.isnan(y):
            continue
        if own:
            stat[counts + j, k] += sign
        r_n = rows.constant[o + R] + stat[counts + (j if own else 0), k]
        e = y - stat[s + MEAN + j, k]
        # Q changes by +-(r_m / (r_m + 1)) e^2, e = y - mu_m, with m the smaller of the two sizes
        stat[s + MEAN + j, k] += sign * e / r_n
        if sign > 0.0:
            change += e * e * ((r_n - 1.0) / r_n)
        else:
            e += e / r_n
            change -= e * e * (r_n / (r_n + 1.0))
    before = stat[s + MEAN + d, k]
    stat[s + MEAN + d, k] = before + change
    refresh(rows, stat, block, k)
    return DONE if 1.0 + before + change >= LOST * (1.0 + before) else LOST_PRECISION


@entry(COMBINE_T)
def known_combine(rows, source, target, block, k, m):
    """See `pooling`; Q is a sum of squares about mu_n, like the trace of Psi_n."""
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    counts = s + MEAN + d + 1
    change = source[s + MEAN + d, k]
    for j in range(d):
        n = counts + (j if own else 0)
        if source[n, k] > 0.0:
            lift, gain, w, c = pool(rows.constant[o + R], source[n, k], target[n, m])
            b = source[s + MEAN + j, k] * lift
            e = b - target[s + MEAN + j, m]
            target[s + MEAN + j, m] += gain * e
            change += w * e * e - c * b * b
    add(source, target, counts, counts + (d if own else 1), k, m)
    target[s + MEAN + d, m] += change
    refresh(rows, target, block, m)
    return DONE


@fast
def _score(y, stat, work, out, s, first, d, K, i):
    K = padded(K, stat, out)
    total = work[0]
    for k in range(K):
        total[k] = 0.0
    for j in range(d):
        x, mean = y[i, first + j], stat[s + MEAN + j]
        for k in range(K):
            z = x - mean[k]
            total[k] += z * z
    c, h = stat[s], stat[s + 1]
    for k in range(K):
        out[k] += c[k] - h[k] * total[k]


@fast
def _score_cells(rows, stat, out, block, K, i):
    """Score a row cell by cell, missing cells left out."""
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    r = rows.constant[o + R]
    for j in range(d):
        x = rows.y[i, first + j]
        if math.isnan(x):
            continue
        constant = -0.5 * LOG_TWO_PI - rows.constant[o + SPREADS + j]
        n, mean = stat[s + MEAN + d + 1 + (j if own else 0)], stat[s + MEAN + j]
        for k in range(K):
            z, f = x - mean[k], (r + n[k]) / (r + n[k] + 1.0)
            out[k] += constant + 0.5 * log_pos(f) - 0.5 * f * z * z


@kernel
def factor_of_observed(rows, work, block, i, correlations, first_row):
    """Cholesky factor of the correlations of the cells that row i has, packed into work[first_row:, 0].

    `correlations` says where in the constants their factor (d x d) begins.
    """
    first = block[Block.FIRST]
    d = block[Block.LAST] - first
    row = first_row
    a_row = first_row
    for a in range(d):
        if math.isnan(rows.y[i, first + a]):
            continue
        a_row = row
        b_row = first_row
        count = 0
        for b in range(a + 1):
            if math.isnan(rows.y[i, first + b]):
                continue
            value = 0.0
            for j in range(b + 1):
                value += rows.constant[correlations + a * d + j] * rows.constant[correlations + b * d + j]
            for j in range(count):
                value -= work[a_row + j, 0] * work[b_row + j, 0]
            if a == b:
                work[a_row + count, 0] = math.sqrt(value)
            else:
                work[a_row + count, 0] = value / work[b_row + count, 0]
            count += 1
            b_row += count
        row += count
    return row


@kernel
def _distance(rows, means, work, block, i, k, first_mean):
    """|C^-1 (y_o - mu_o)|^2 with C of `factor_of_observed` and mu_o from whitened means; the number of cells; log |C| and log s_j."""
    first, o = block[Block.FIRST], block[Block.CONSTANT]
    d = block[Block.LAST] - first
    correlations = o + SPREADS + d
    q, log_det, count = 0.0, 0.0, 0
    row = d
    for a in range(d):
        z = rows.y[i, first + a]
        if math.isnan(z):
            continue
        for j in range(a + 1):
            z -= rows.constant[correlations + a * d + j] * means[first_mean + j, k]
        for j in range(count):
            z -= work[row + j, 0] * work[j, 0]
        z /= work[row + count, 0]
        work[count, 0] = z
        q += z * z
        log_det += math.log(work[row + count, 0]) + rows.constant[o + SPREADS + a]
        count += 1
        row += count
    return q, log_det, count


@kernel
def score_missing(rows, stat, work, out, block, K, i):
    s, o, first, d = places(block)
    factor_of_observed(rows, work, block, i, o + SPREADS + d, d)
    for k in range(K):
        q, log_det, count = _distance(rows, stat, work, block, i, k, s + MEAN)
        r_n = rows.constant[o + R] + stat[s + MEAN + d + 1, k]
        out[k] -= 0.5 * count * (LOG_TWO_PI + math.log((r_n + 1.0) / r_n)) + log_det + 0.5 * q * r_n / (r_n + 1.0)


@kernel
def _without(rows, stat, block, k, i):
    """Log predictive of member i given the other members."""
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    found = 0.0 if own else rows.constant[o + JACOBIAN]
    for j in range(d):
        x = rows.y[i, first + j]
        if math.isnan(x):
            continue
        n = stat[s + MEAN + d + 1 + (j if own else 0), k]
        r_before = rows.constant[o + R] + n - 1.0
        # the only one of its cell: what is left is the prior, whose mean is 0
        z = x if n == 1.0 else (x - stat[s + MEAN + j, k]) * ((r_before + 1.0) / r_before)
        f = r_before / (r_before + 1.0)
        found += 0.5 * math.log(f) - 0.5 * LOG_TWO_PI - 0.5 * f * z * z
        if own:
            found -= rows.constant[o + SPREADS + j]
    return found


@entry(SCORE_T)
def known_score(rows, stat, work, out, block, K, i, own):
    before = out[own] if own >= 0 else 0.0
    o, first = block[Block.CONSTANT], block[Block.FIRST]
    if rows.constant[o + OWN] == 0.0 and is_complete(rows, block, i):
        _score(rows.y, stat, work, out, block[Block.STAT], first, block[Block.LAST] - first, K, i)
    elif rows.constant[o + FULL] == 0.0:
        _score_cells(rows, stat, out, block, K, i)
    else:
        score_missing(rows, stat, work, out, block, K, i)
    if own >= 0:
        out[own] = before + _without(rows, stat, block, own, i)
    return DONE


@entry(MARGINAL_T)
def known_marginal(rows, stat, block, k):
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    r = rows.constant[o + R]
    total = -0.5 * stat[s + MEAN + d, k]
    if not own:
        total += stat[s + MEAN + d + 1, k] * rows.constant[o + JACOBIAN]
    for j in range(d):
        n = stat[s + MEAN + d + 1 + (j if own else 0), k]
        total += 0.5 * math.log(r / (r + n)) - 0.5 * n * LOG_TWO_PI
        if own:
            total -= n * rows.constant[o + SPREADS + j]
    return total


@entry(SAMPLE_T)
def known_sample(rows, stat, theta, block, k, m, rng):
    s, o, first, d = places(block)
    own = rows.constant[o + OWN] != 0.0
    for j in range(d):
        r_n = rows.constant[o + R] + stat[s + MEAN + d + 1 + (j if own else 0), k]
        theta[block[Block.THETA] + j, m] = stat[s + MEAN + j, k] + rng.standard_normal() / math.sqrt(r_n)
    return DONE


@fast
def _density(y, theta, work, out, t, first, d, constant, M, i):
    total = work[0]
    for m in range(M):
        total[m] = 0.0
    for j in range(d):
        x, mean = y[i, first + j], theta[t + j]
        for m in range(M):
            z = x - mean[m]
            total[m] += z * z
    for m in range(M):
        out[m] += constant - 0.5 * total[m]


@fast
def _density_cells(rows, theta, out, t, first, d, o, M, i):
    for j in range(d):
        x, mean = rows.y[i, first + j], theta[t + j]
        if math.isnan(x):
            continue
        constant = -0.5 * LOG_TWO_PI - rows.constant[o + SPREADS + j]
        for m in range(M):
            z = x - mean[m]
            out[m] += constant - 0.5 * z * z


@kernel
def density_missing(rows, theta, work, out, block, M, i):
    d = block[Block.LAST] - block[Block.FIRST]
    factor_of_observed(rows, work, block, i, block[Block.CONSTANT] + SPREADS + d, d)
    for m in range(M):
        q, log_det, count = _distance(rows, theta, work, block, i, m, block[Block.THETA])
        out[m] -= 0.5 * count * LOG_TWO_PI + log_det + 0.5 * q


@entry(DENSITY_T)
def known_density(rows, theta, work, out, block, M, i):
    t, o, first = block[Block.THETA], block[Block.CONSTANT], block[Block.FIRST]
    d = block[Block.LAST] - first
    if is_complete(rows, block, i):
        _density(rows.y, theta, work, out, t, first, d, rows.constant[o + JACOBIAN] - 0.5 * d * LOG_TWO_PI, M, i)
    elif rows.constant[o + FULL] == 0.0:
        _density_cells(rows, theta, out, t, first, d, o, M, i)
    else:
        density_missing(rows, theta, work, out, block, M, i)
    return DONE


known_mean, known_mean_theta = means_at(Block.STAT, MEAN), means_at(Block.THETA, 0)
