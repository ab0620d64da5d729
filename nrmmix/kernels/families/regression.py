"""Regression components: one response, linear in its inputs, normal-inverse-gamma prior.

Responses and inputs come whitened by the prior (`nrmmix.model.families.Regression`): y = z'g + e with g | s2 ~ N(g0, s2 D^-1),
D = diag(shrinkage), and 1/s2 ~ Gamma(nu/2, rate scale/2).  Shrinkage and scale are 1, or come with standardised responses and inputs and
are drawn: those of all clusters from Gamma(shape, rate) each and Gamma(1/2, rate 1).  Rows that miss the response count for nothing.

Rows of stat: n; c of the predictive; S_n; the mean g_n (q); the Cholesky factor of P_n = D + sum z z' packed by rows, its diagonal as
reciprocals; q of scratch; where shrinkage and scale are drawn room for rows of theta.
With Q = z' P_n^-1 z and e = y - z'g_n the predictive is Student's t with nu + n degrees of freedom:
c - log(1 + Q)/2 - (nu + n + 1)/2 log(1 + e^2 / (S_n (1 + Q))), c = marginal[n + 1] - marginal[n] - log(S_n)/2.

Constants: nu, log |dy/dy_user|, shape and rate of shrinkage, g0 (q), shrinkage (q), scale, of each column the first of those that have
one shrinkage (q), then marginal[0..]: what of log p(y_c) depends on n alone.
Rows of theta: log w, w, g (q) with s2 = 1/w^2.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import COMBINE_T, DENSITY_T, EMPTY_T, MARGINAL_T, MEAN_T, REDRAW_SHARED_T, SAMPLE_T, SCORE_T, UPDATE_T, entry
from nrmmix.kernels.core.jit import fast, inlined, kernel
from nrmmix.kernels.core.special import log_pos
from nrmmix.kernels.core.state import DONE, LOST_PRECISION, STALE, Block
from nrmmix.kernels.families.gaussian.pooling import LOST, rotate
from nrmmix.kernels.families.shared import padded

MEAN = 3  # first row of the mean
NU, JACOBIAN, SHAPE, RATE, START = 0, 1, 2, 3, 4  # in Rows.constant; START: of g0
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
MIN_SHRINKAGE = 1e-14  # shrinkage, and squared scale, below which digits are lost


def n_stat(q, redrawn=False):
    return MEAN + 2 * q + q * (q + 1) // 2 + (n_theta(q) if redrawn else 0)


def n_theta(q):
    return 2 + q


def n_work(q):
    return q + 2


@inlined
def _prior(block):
    """Places in the constants of shrinkage, scale and marginal."""
    q = block[Block.INPUT_LAST] - block[Block.INPUT]
    shrinkage = block[Block.CONSTANT] + START + q
    return shrinkage, shrinkage + q, shrinkage + 2 * q + 1


@kernel
def draw_shrinkage(constant, first, shrinkage, group, a, squares, coefficients, rng):
    """One shrinkage of all columns whose group begins with a, given the sum of the squares of so many coefficients over s2."""
    shape, rate = constant[first + SHAPE] + 0.5 * coefficients, constant[first + RATE] + 0.5 * squares
    drawn = max(rng.standard_gamma(shape) / rate, MIN_SHRINKAGE)
    for b in range(a, group.shape[0]):
        if group[b] == a:
            constant[shrinkage + b] = drawn


@kernel
def _refresh(rows, stat, block, k):
    s = block[Block.STAT]
    marginal = _prior(block)[2] + int(stat[s, k])
    stat[s + 1, k] = rows.constant[marginal + 1] - rows.constant[marginal] - 0.5 * math.log(stat[s + 2, k])


@entry(EMPTY_T)
def regression_empty(rows, stat, block, k):
    s = block[Block.STAT]
    q = block[Block.INPUT_LAST] - block[Block.INPUT]
    shrinkage, scale, _ = _prior(block)
    stat[s, k] = 0.0
    stat[s + 2, k] = rows.constant[scale]
    p = s + MEAN + q
    for a in range(q):
        stat[s + MEAN + a, k] = rows.constant[block[Block.CONSTANT] + START + a]
        for _ in range(a):
            stat[p, k] = 0.0
            p += 1
        stat[p, k] = 1.0 / math.sqrt(rows.constant[shrinkage + a])
        p += 1
    _refresh(rows, stat, block, k)
    return DONE


@kernel
def _residual(rows, stat, block, k, i):
    e = rows.y[i, block[Block.FIRST]]
    for a in range(block[Block.INPUT_LAST] - block[Block.INPUT]):
        e -= rows.y[i, block[Block.INPUT] + a] * stat[block[Block.STAT] + MEAN + a, k]
    return e


@kernel
def _solve(rows, stat, out, block, k, i):
    """out[:q, k] = L^-1 z_i; its sum of squares Q."""
    q = block[Block.INPUT_LAST] - block[Block.INPUT]
    p = block[Block.STAT] + MEAN + q
    total = 0.0
    for a in range(q):
        x = rows.y[i, block[Block.INPUT] + a]
        for j in range(a):
            x -= stat[p, k] * out[j, k]
            p += 1
        x *= stat[p, k]
        p += 1
        out[a, k] = x
        total += x * x
    return total


@inlined
def _scratch(block):
    q = block[Block.INPUT_LAST] - block[Block.INPUT]
    return block[Block.STAT] + MEAN + q + q * (q + 1) // 2


@kernel
def _gain(stat, block, k, e, sign):
    """The mean and S_n, with a row or without it: its inputs in scratch, lost, and e = y - z'g_n; False where digits are lost."""
    s, row = block[Block.STAT], _scratch(block)
    q = block[Block.INPUT_LAST] - block[Block.INPUT]
    L = s + MEAN + q
    left = 1.0
    for a in range(q):  # L^-1 z
        x = stat[row + a, k]
        for b in range(a):
            x -= stat[L + a * (a + 1) // 2 + b, k] * stat[row + b, k]
        x *= stat[L + a * (a + 1) // 2 + a, k]
        stat[row + a, k] = x
        left += sign * x * x
    sound = left >= LOST
    left = max(left, LOST)
    before = stat[s + 2, k]
    after = before + sign * e * e / left
    stat[s + 2, k] = max(after, LOST * before)
    for a in range(q - 1, -1, -1):  # P_n^-1 z
        x = stat[row + a, k]
        for b in range(a + 1, q):
            x -= stat[L + b * (b + 1) // 2 + a, k] * stat[row + b, k]
        stat[row + a, k] = x * stat[L + a * (a + 1) // 2 + a, k]
        stat[s + MEAN + a, k] += sign * stat[row + a, k] * e / left
    return sound and after >= LOST * before


@entry(UPDATE_T)
def regression_update(rows, stat, block, k, i, sign):
    """The mean and S_n, then a rank-one update of the factor of P_n."""
    if math.isnan(rows.y[i, block[Block.FIRST]]):
        return DONE
    s, row = block[Block.STAT], _scratch(block)
    q = block[Block.INPUT_LAST] - block[Block.INPUT]
    stat[s, k] += sign
    for a in range(q):
        stat[row + a, k] = rows.y[i, block[Block.INPUT] + a]
    sound = _gain(stat, block, k, _residual(rows, stat, block, k, i), sign)
    for a in range(q):
        stat[row + a, k] = rows.y[i, block[Block.INPUT] + a]
    left, least = rotate(stat, s + MEAN + q, row, q, k, sign, 0)
    _refresh(rows, stat, block, k)
    return DONE if sound and least >= LOST else LOST_PRECISION


@entry(COMBINE_T)
def regression_combine(rows, source, target, block, k, m):
    """The columns of the source's factor enter as rows on whose line g_1 is; those of the prior, which it has in it, leave.

    P_1 + P_2 is at most 2 P_12, and its S at most 2 S_12: no removal costs digits.
    """
    s, row = block[Block.STAT], _scratch(block)
    q = block[Block.INPUT_LAST] - block[Block.INPUT]
    g, L = s + MEAN, s + MEAN + q
    if source[s, k] == 0.0:
        return DONE
    target[s, m] += source[s, k]
    shrinkage, scale, _ = _prior(block)
    target[s + 2, m] += source[s + 2, k] - rows.constant[scale]
    for j in range(q):
        for step in range(2):
            e = 0.0
            for a in range(q):
                p = L + a * (a + 1) // 2 + j
                z = 0.0 if a < j else 1.0 / source[p, k] if a == j else source[p, k]
                target[row + a, m] = z
                e += z * (source[g + a, k] - target[g + a, m])
            if step == 0:
                _gain(target, block, m, e, 1.0)
        rotate(target, L, row, q, m, 1.0, j)
    for j in range(q):
        root = math.sqrt(rows.constant[shrinkage + j])
        for step in range(2):
            for a in range(q):
                target[row + a, m] = root if a == j else 0.0
            if step == 0:
                _gain(target, block, m, root * (rows.constant[block[Block.CONSTANT] + START + j] - target[g + j, m]), -1.0)
        rotate(target, L, row, q, m, -1.0, j)
    _refresh(rows, target, block, m)
    return DONE


@fast
def _score(y, stat, work, out, s, first, q, response, nu, K, i):
    """out[:K] += log predictive, the loops over clusters innermost."""
    Q, E = work[q], work[q + 1]
    for k in range(K):
        Q[k] = 1.0
        E[k] = response
    p = s + MEAN + q
    for a in range(q):
        x = y[i, first + a]
        for k in range(K):
            E[k] -= x * stat[s + MEAN + a, k]
        for k in range(K):
            work[a, k] = x
        for j in range(a):
            for k in range(K):
                work[a, k] -= stat[p, k] * work[j, k]
            p += 1
        for k in range(K):
            w = work[a, k] * stat[p, k]
            work[a, k] = w
            Q[k] += w * w
        p += 1
    for k in range(K):
        E[k] = 1.0 + E[k] * E[k] / (stat[s + 2, k] * Q[k])
    for k in range(K):
        out[k] += stat[s + 1, k] - 0.5 * log_pos(Q[k])
    for k in range(K):
        out[k] -= 0.5 * (nu + stat[s, k] + 1.0) * log_pos(E[k])


@kernel
def _without(rows, stat, work, block, k, i):
    """Log predictive of member i given the other members; NaN when too few digits are left."""
    s = block[Block.STAT]
    n = int(stat[s, k])
    left = 1.0 - _solve(rows, stat, work, block, k, i)
    if not left >= LOST:
        return math.nan
    e = _residual(rows, stat, block, k, i)
    S = stat[s + 2, k]
    before = S - e * e / left
    if not before >= LOST * S:
        return math.nan
    marginal = _prior(block)[2] + n
    constant = rows.constant[marginal] - rows.constant[marginal - 1]
    nu = rows.constant[block[Block.CONSTANT] + NU]
    return constant + 0.5 * (math.log(left) - math.log(before)) - 0.5 * (nu + n) * math.log(S / before)


@entry(SCORE_T)
def regression_score(rows, stat, work, out, block, K, i, own):
    response = rows.y[i, block[Block.FIRST]]
    if math.isnan(response):
        return DONE
    before = out[own] if own >= 0 else 0.0
    q, nu = block[Block.INPUT_LAST] - block[Block.INPUT], rows.constant[block[Block.CONSTANT] + NU]
    _score(rows.y, stat, work, out, block[Block.STAT], block[Block.INPUT], q, response, nu, padded(K, stat, out), i)
    if own >= 0:
        out[own] = before + _without(rows, stat, work, block, own, i)
    return DONE


@entry(MARGINAL_T)
def regression_marginal(rows, stat, block, k):
    """marginal[n] + (log|D| + nu log scale - log|P_n| - (nu + n) log S_n)/2."""
    s = block[Block.STAT]
    q = block[Block.INPUT_LAST] - block[Block.INPUT]
    n, nu = int(stat[s, k]), rows.constant[block[Block.CONSTANT] + NU]
    shrinkage, scale, marginal = _prior(block)
    value = rows.constant[marginal + n]
    value -= 0.5 * (nu + n) * math.log(stat[s + 2, k])
    if rows.constant[scale] != 1.0:
        value += 0.5 * nu * math.log(rows.constant[scale])
    for a in range(q):
        if rows.constant[shrinkage + a] != 1.0:
            value += 0.5 * math.log(rows.constant[shrinkage + a])
    p = s + MEAN + q - 1
    for a in range(q):
        p += a + 1
        value += math.log(stat[p, k])
    return value


@kernel
def _sample(rows, stat, theta, t, block, k, m, rng):
    """1/s2 ~ Gamma((nu + n)/2, rate S_n/2), g = g_n + s L^-T x, into theta[t:, m]."""
    s = block[Block.STAT]
    q = block[Block.INPUT_LAST] - block[Block.INPUT]
    L = s + MEAN + q
    w = math.sqrt(2.0 * rng.standard_gamma(0.5 * (rows.constant[block[Block.CONSTANT] + NU] + stat[s, k])) / stat[s + 2, k])
    theta[t, m] = math.log(w)
    theta[t + 1, m] = w
    for a in range(q - 1, -1, -1):
        x = rng.standard_normal()
        for b in range(a + 1, q):
            x -= stat[L + b * (b + 1) // 2 + a, k] * theta[t + 2 + b, m]
        theta[t + 2 + a, m] = x * stat[L + a * (a + 1) // 2 + a, k]
    for a in range(q):
        theta[t + 2 + a, m] = stat[s + MEAN + a, k] + theta[t + 2 + a, m] / w


@entry(SAMPLE_T)
def regression_sample(rows, stat, theta, block, k, m, rng):
    _sample(rows, stat, theta, block[Block.THETA], block, k, m, rng)
    return DONE


@entry(REDRAW_SHARED_T)
def regression_redraw_shared(rows, stat, block, K, rng):
    """g and s2 of the columns, then shrinkage and scale given these."""
    q = block[Block.INPUT_LAST] - block[Block.INPUT]
    t = _scratch(block) + q
    shrinkage, scale, _ = _prior(block)
    total = 0.0
    for k in range(K):
        _sample(rows, stat, stat, t, block, k, k, rng)
        total += stat[t + 1, k] * stat[t + 1, k]
    nu = rows.constant[block[Block.CONSTANT] + NU]
    rows.constant[scale] = max(rng.standard_gamma(0.5 * (1.0 + nu * K)) / (1.0 + 0.5 * total), MIN_SHRINKAGE * MIN_SHRINKAGE)
    group = rows.constant[scale + 1 : scale + 1 + q]
    for a in range(q):
        if group[a] != a:
            continue
        total, count = 0.0, 0
        for b in range(a, q):
            if group[b] == a:
                count += K
                for k in range(K):
                    e = stat[t + 1, k] * (stat[t + 2 + b, k] - rows.constant[block[Block.CONSTANT] + START + b])
                    total += e * e
        draw_shrinkage(rows.constant, block[Block.CONSTANT], shrinkage, group, a, total, count, rng)
    return STALE


@entry(DENSITY_T, fast=True)
def regression_density(rows, theta, work, out, block, M, i):
    t, e, y = block[Block.THETA], work[0], rows.y[i, block[Block.FIRST]]
    if math.isnan(y):
        return DONE
    constant = rows.constant[block[Block.CONSTANT] + JACOBIAN] - HALF_LOG_TWO_PI
    for m in range(M):
        e[m] = y
    for a in range(block[Block.INPUT_LAST] - block[Block.INPUT]):
        x, g = rows.y[i, block[Block.INPUT] + a], theta[t + 2 + a]
        for m in range(M):
            e[m] -= x * g[m]
    for m in range(M):
        z = e[m] * theta[t + 1, m]
        out[m] += constant + theta[t, m] - 0.5 * z * z
    return DONE


@kernel
def _product(rows, coefficients, first, block, k, i):
    total = 0.0
    for a in range(block[Block.INPUT_LAST] - block[Block.INPUT]):
        total += rows.y[i, block[Block.INPUT] + a] * coefficients[first + a, k]
    return total


@entry(MEAN_T)
def regression_mean(rows, stat, out, block, k, i):
    out[block[Block.MEANS]] = _product(rows, stat, block[Block.STAT] + MEAN, block, k, i)
    return DONE


@entry(MEAN_T)
def regression_mean_theta(rows, theta, out, block, m, i):
    out[block[Block.MEANS]] = _product(rows, theta, block[Block.THETA] + 2, block, m, i)
    return DONE
