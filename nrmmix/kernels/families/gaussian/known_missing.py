"""Gaussian components of known full covariance, normal prior of the mean, where cells of the data are missing.

Responses come centred and scaled, y_j = (x_j - m_j)/s_j with s_j^2 = S_jj, NaN where missing: the prior is mu ~ N(0, R/r) with R the
correlations, and of a row only y_o ~ N(mu_o, R_oo) counts.  The posterior of mu is N(mu_n, V_n), V_n^-1 = r R^-1 + sum_i E_i' R_oo^-1 E_i;
a row enters by T T' = R_oo + V_oo, G = T^-1 V_o., z = T^-1 (y_o - mu_o): mu + G'z, V - G'G, and leaves by T T' = R_oo - V_oo: mu - G'z,
V + G'G.

Rows of stat: all of log p(y_c) but its quadratic form Q, up to 2 pi and s_j; Q; the number of cells and sum log s_j; mu_n (d); V_n
(d x d); scratch: z (d), T, G and the factor of R_oo (d x d each).

Constants: r; log s_j (d); R (d x d); log |R/r|.  Rows of theta: mean (d).
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import COMBINE_T, DENSITY_T, EMPTY_T, MARGINAL_T, SAMPLE_T, SCORE_T, UPDATE_T, entry
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.special import log_pos
from nrmmix.kernels.core.state import DONE, LOST_PRECISION, Block
from nrmmix.kernels.families.shared import LOG_TWO_PI, LOST, add, clear, means_at, places

MEAN = 4  # first row of the mean
R, SPREADS = 0, 1  # in Rows.constant


def n_stat(d):
    return MEAN + 2 * d + 4 * d * d


def n_work(d):
    return d + d * d


@entry(EMPTY_T)
def missing_empty(rows, stat, block, k):
    s, o, first, d = places(block)
    clear(stat, s, s + MEAN + d, k)
    for p in range(d * d):
        stat[s + MEAN + d + p, k] = rows.constant[o + SPREADS + d + p] / rows.constant[o + R]
    return DONE


@kernel
def _solve(rows, stat, block, k, i, sign):
    """T, z and F with F F' = R_oo in their places; z'z, log |T|, log |F|, the least share of a variance left, the number of cells."""
    s, o, first, d = places(block)
    V, Z = s + MEAN + d, s + MEAN + d + d * d
    T, F = Z + d, Z + d + 2 * d * d
    q, log_t, log_f, least, count = 0.0, 0.0, 0.0, 1.0, 0
    for a in range(d):
        if math.isnan(rows.y[i, first + a]):
            continue
        other = 0
        for b in range(a + 1):
            if math.isnan(rows.y[i, first + b]):
                continue
            f = rows.constant[o + SPREADS + d + a * d + b]
            t = f + sign * stat[V + a * d + b, k]
            for j in range(other):
                t -= stat[T + count * d + j, k] * stat[T + other * d + j, k]
                f -= stat[F + count * d + j, k] * stat[F + other * d + j, k]
            if b < a:
                stat[T + count * d + other, k] = t / stat[T + other * d + other, k]
                stat[F + count * d + other, k] = f / stat[F + other * d + other, k]
            else:
                least = min(least, t / f)
                t = max(t, LOST * f)
                stat[T + count * d + other, k] = math.sqrt(t)
                stat[F + count * d + other, k] = math.sqrt(f)
            other += 1
        z = rows.y[i, first + a] - stat[s + MEAN + a, k]
        for j in range(count):
            z -= stat[T + count * d + j, k] * stat[Z + j, k]
        z /= stat[T + count * d + count, k]
        stat[Z + count, k] = z
        q += z * z
        log_t += math.log(stat[T + count * d + count, k])
        log_f += math.log(stat[F + count * d + count, k])
        count += 1
    return q, log_t, log_f, least, count


@kernel
def _move(stat, block, k, count, sign):
    """mu +- G'z and V -+ G'G."""
    s = block[Block.STAT]
    d = block[Block.LAST] - block[Block.FIRST]
    V, Z = s + MEAN + d, s + MEAN + d + d * d
    G = Z + d + d * d
    for c in range(d):
        for j in range(count):
            stat[s + MEAN + c, k] += sign * stat[G + j * d + c, k] * stat[Z + j, k]
        for b in range(d):
            for j in range(count):
                stat[V + c * d + b, k] -= sign * stat[G + j * d + c, k] * stat[G + j * d + b, k]


@entry(UPDATE_T)
def missing_update(rows, stat, block, k, i, sign):
    s, o, first, d = places(block)
    q, log_t, log_f, least, count = _solve(rows, stat, block, k, i, sign)
    V, Z = s + MEAN + d, s + MEAN + d + d * d
    T, G = Z + d, Z + d + d * d
    row = 0
    for a in range(d):
        if math.isnan(rows.y[i, first + a]):
            continue
        stat[s + 3, k] += sign * rows.constant[o + SPREADS + a]
        for c in range(d):
            g = stat[V + a * d + c, k]
            for j in range(row):
                g -= stat[T + row * d + j, k] * stat[G + j * d + c, k]
            stat[G + row * d + c, k] = g / stat[T + row * d + row, k]
        row += 1
    _move(stat, block, k, count, sign)
    # the row's predictive given the others has the covariance T T', or after its removal R_oo (T T')^-1 R_oo, and the same q
    stat[s, k] -= log_t if sign > 0.0 else log_t - 2.0 * log_f
    before = stat[s + 1, k]
    stat[s + 1, k] = before + sign * q
    stat[s + 2, k] += sign * count
    sound = sign > 0.0 or (least >= LOST and 1.0 + before - q >= LOST * (1.0 + before))
    return DONE if sound else LOST_PRECISION


@kernel
def _fuse(stat, block, k, sign):
    """A normal law of mu enters (+1) or leaves (-1) like a row of that mean and covariance C, C in F's place and mean - mu_n in z's.

    C is lost; returns z'z and log |T|.
    """
    s = block[Block.STAT]
    d = block[Block.LAST] - block[Block.FIRST]
    V, Z = s + MEAN + d, s + MEAN + d + d * d
    T, G, C = Z + d, Z + d + d * d, Z + d + 2 * d * d
    q, log_t = 0.0, 0.0
    for a in range(d):
        for b in range(a + 1):
            t = stat[C + a * d + b, k] + sign * stat[V + a * d + b, k]
            for j in range(b):
                t -= stat[T + a * d + j, k] * stat[T + b * d + j, k]
            stat[T + a * d + b, k] = t / stat[T + b * d + b, k] if b < a else math.sqrt(t)
        diagonal = stat[T + a * d + a, k]
        for j in range(a):
            stat[Z + a, k] -= stat[T + a * d + j, k] * stat[Z + j, k]
        stat[Z + a, k] /= diagonal
        q += stat[Z + a, k] * stat[Z + a, k]
        log_t += math.log(diagonal)
        for c in range(d):
            g = stat[V + a * d + c, k]
            for j in range(a):
                g -= stat[T + a * d + j, k] * stat[G + j * d + c, k]
            stat[G + a * d + c, k] = g / diagonal
    _move(stat, block, k, d, sign)
    return q, log_t


@entry(COMBINE_T)
def missing_combine(rows, source, target, block, k, m):
    """The source's law of mu enters, and that of the prior, which it has in it, leaves: V_0 - V is then V_0/2 at least."""
    s, o, first, d = places(block)
    V, Z = s + MEAN + d, s + MEAN + d + d * d
    C = Z + d + 2 * d * d
    if source[s + 2, k] == 0.0:
        return DONE
    add(source, target, s, s + MEAN, k, m)
    for p in range(d * d):
        target[C + p, m] = source[V + p, k]
    for j in range(d):
        target[Z + j, m] = source[s + MEAN + j, k] - target[s + MEAN + j, m]
    q, log_t = _fuse(target, block, m, 1.0)
    target[s, m] -= log_t
    target[s + 1, m] += q
    for p in range(d * d):
        target[C + p, m] = rows.constant[o + SPREADS + d + p] / rows.constant[o + R]
    for j in range(d):
        target[Z + j, m] = -target[s + MEAN + j, m]
    q, log_t = _fuse(target, block, m, -1.0)
    target[s, m] -= log_t - rows.constant[o + SPREADS + d + d * d]
    target[s + 1, m] -= q
    return DONE


@fast
def _score(rows, stat, work, out, block, K, i):
    s, o, first, d = places(block)
    V = s + MEAN + d
    count = 0
    for a in range(d):
        x = rows.y[i, first + a]
        if math.isnan(x):
            continue
        other = 0
        for b in range(a + 1):
            if math.isnan(rows.y[i, first + b]):
                continue
            t, correlation = work[d + count * d + other], rows.constant[o + SPREADS + d + a * d + b]
            for k in range(K):
                t[k] = correlation + stat[V + a * d + b, k]
            for j in range(other):
                for k in range(K):
                    t[k] -= work[d + count * d + j, k] * work[d + other * d + j, k]
            for k in range(K):
                t[k] = t[k] / work[d + other * d + other, k] if b < a else math.sqrt(t[k])
            other += 1
        z = work[count]
        for k in range(K):
            z[k] = x - stat[s + MEAN + a, k]
        for j in range(count):
            for k in range(K):
                z[k] -= work[d + count * d + j, k] * work[j, k]
        constant = -0.5 * LOG_TWO_PI - rows.constant[o + SPREADS + a]
        for k in range(K):
            z[k] /= work[d + count * d + count, k]
            out[k] += constant - log_pos(work[d + count * d + count, k]) - 0.5 * z[k] * z[k]
        count += 1


@entry(SCORE_T)
def missing_score(rows, stat, work, out, block, K, i, own):
    before = out[own] if own >= 0 else 0.0
    _score(rows, stat, work, out, block, K, i)
    if own >= 0:
        o, first = block[Block.CONSTANT], block[Block.FIRST]
        q, log_t, log_f, least, count = _solve(rows, stat, block, own, i, -1.0)
        out[own] = before + log_t - 2.0 * log_f - 0.5 * (q + count * LOG_TWO_PI)
        for a in range(block[Block.LAST] - first):
            if not math.isnan(rows.y[i, first + a]):
                out[own] -= rows.constant[o + SPREADS + a]
        if not least > LOST:
            out[own] = math.nan
    return DONE


@entry(MARGINAL_T)
def missing_marginal(rows, stat, block, k):
    s = block[Block.STAT]
    return stat[s, k] - 0.5 * (stat[s + 1, k] + stat[s + 2, k] * LOG_TWO_PI) - stat[s + 3, k]


@entry(SAMPLE_T)
def missing_sample(rows, stat, theta, block, k, m, rng):
    """mu_n + C z with C C' = V_n."""
    s, t = block[Block.STAT], block[Block.THETA]
    d = block[Block.LAST] - block[Block.FIRST]
    V, Z = s + MEAN + d, s + MEAN + d + d * d
    C = Z + d
    for a in range(d):
        stat[Z + a, k] = rng.standard_normal()
        total = stat[s + MEAN + a, k]
        for b in range(a + 1):
            c = stat[V + a * d + b, k]
            for j in range(b):
                c -= stat[C + a * d + j, k] * stat[C + b * d + j, k]
            c = c / stat[C + b * d + b, k] if b < a else math.sqrt(c)
            stat[C + a * d + b, k] = c
            total += c * stat[Z + b, k]
        theta[t + a, m] = total
    return DONE


@entry(DENSITY_T)
def missing_density(rows, theta, work, out, block, M, i):
    """The factor of R_oo stands in the first column of work, z below it."""
    t, o, first = block[Block.THETA], block[Block.CONSTANT], block[Block.FIRST]
    d = block[Block.LAST] - first
    count = 0
    for a in range(d):
        if math.isnan(rows.y[i, first + a]):
            continue
        other = 0
        for b in range(a + 1):
            if math.isnan(rows.y[i, first + b]):
                continue
            f = rows.constant[o + SPREADS + d + a * d + b]
            for j in range(other):
                f -= work[d + count * d + j, 0] * work[d + other * d + j, 0]
            work[d + count * d + other, 0] = f / work[d + other * d + other, 0] if b < a else math.sqrt(f)
            other += 1
        diagonal = work[d + count * d + count, 0]
        constant = -0.5 * LOG_TWO_PI - rows.constant[o + SPREADS + a] - math.log(diagonal)
        for m in range(M):
            z = rows.y[i, first + a] - theta[t + a, m]
            for j in range(count):
                z -= work[d + count * d + j, 0] * work[j, m]
            work[count, m] = z / diagonal
            out[m] += constant - 0.5 * work[count, m] * work[count, m]
        count += 1
    return DONE


missing_mean, missing_mean_theta = means_at(Block.STAT, MEAN), means_at(Block.THETA, 0)
