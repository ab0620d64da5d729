"""Independent normal responses, mean and precision independent a priori: mu_j ~ N(m_j, v_j), lambda_j ~ Gamma(shape_j, rate_j).

The parameters of a column are held in it and drawn given its members (`nrmmix.kernels.moves.algorithm8`).  Precisions are those of each
cluster, or one for all clusters: then they stand in the constants, drawn (SHARED) or known (KNOWN).  Missing cells, NaN, count for nothing.

Rows of stat, d responses: mu (d); lambda (d), a copy of the constants where they are not OWN; the number of members; of each response
its number of observed members (d), their mean (d) and sum of squares about it (d); sum_j log(lambda_j / 2 pi) / 2.
Constants: lambda of all clusters (d); OWN, SHARED or KNOWN; m (d); v (d); shape (d); rate (d).
Rows of theta: mu (d), lambda (d).
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import (
    ALONE_T,
    DENSITY_T,
    EMPTY_T,
    MARGINAL_T,
    MEAN_T,
    REDRAW_SHARED_T,
    REDRAW_T,
    SAMPLE_T,
    SCORE_T,
    UPDATE_T,
    entry,
)
from nrmmix.kernels.core.jit import fast, inlined, kernel
from nrmmix.kernels.core.special import log_pos
from nrmmix.kernels.core.state import DONE, LOST_PRECISION, TINY, Block
from nrmmix.kernels.families.shared import LOG_TWO_PI, LOST, clear, is_complete, means_at

OWN, SHARED, KNOWN = 0, 1, 2


def n_stat(d):
    return 5 * d + 2


def n_theta(d):
    return 2 * d


@inlined
def _members(block):
    return block[Block.STAT] + 2 * (block[Block.LAST] - block[Block.FIRST])


@inlined
def _kind(rows, block):
    return int(rows.constant[block[Block.CONSTANT] + block[Block.LAST] - block[Block.FIRST]])


@inlined
def _prior(rows, block, which, j):
    """m, v, shape or rate (which = 0, 1, 2, 3) of response j."""
    d = block[Block.LAST] - block[Block.FIRST]
    return rows.constant[block[Block.CONSTANT] + d + 1 + which * d + j]


@kernel
def _refresh(rows, stat, block, k):
    """Copies of precisions that are not the column's own, and the logarithm that follows from its precisions."""
    d = block[Block.LAST] - block[Block.FIRST]
    total = -0.5 * d * LOG_TWO_PI
    for j in range(d):
        if _kind(rows, block) != OWN:
            stat[block[Block.STAT] + d + j, k] = rows.constant[block[Block.CONSTANT] + j]
        total += 0.5 * math.log(max(stat[block[Block.STAT] + d + j, k], TINY))
    stat[_members(block) + 1 + 3 * d, k] = total


@entry(EMPTY_T)
def semiconjugate_empty(rows, stat, block, k):
    first = _members(block)
    clear(stat, first, first + 3 * (block[Block.LAST] - block[Block.FIRST]) + 1, k)
    _refresh(rows, stat, block, k)
    return DONE


@entry(UPDATE_T)
def semiconjugate_update(rows, stat, block, k, i, sign):
    members = _members(block)
    d = block[Block.LAST] - block[Block.FIRST]
    stat[members, k] += sign
    sound = True
    for j in range(d):
        y = rows.y[i, block[Block.FIRST] + j]
        if math.isnan(y):
            continue
        count, mean, square = members + 1 + j, members + 1 + d + j, members + 1 + 2 * d + j
        n = stat[count, k] + sign
        stat[count, k] = n
        if n <= 0.0:
            stat[mean, k] = 0.0
            stat[square, k] = 0.0
            continue
        e = y - stat[mean, k]
        stat[mean, k] += sign * e / n
        before = stat[square, k]
        stat[square, k] = max(before + sign * e * (y - stat[mean, k]), 0.0)
        sound = sound and stat[square, k] >= LOST * before
    return DONE if sound else LOST_PRECISION


@fast
def _score(rows, stat, out, block, s, K, i):
    """Cell by cell, missing cells left out; means are rows s, s + 1, ... of `stat`, and precisions follow."""
    d = block[Block.LAST] - block[Block.FIRST]
    for j in range(d):
        y = rows.y[i, block[Block.FIRST] + j]
        if math.isnan(y):
            continue
        for k in range(K):
            e, precision = y - stat[s + j, k], stat[s + d + j, k]
            out[k] += 0.5 * (log_pos(precision) - LOG_TWO_PI - precision * e * e)


@fast
def _score_complete(y, stat, out, s, first, d, K, i):
    """Score all cells of a row, none of them missing."""
    logs = stat[s + 5 * d + 1]
    for k in range(K):
        out[k] += logs[k]
    for j in range(d):
        x, mean, precision = y[i, first + j], stat[s + j], stat[s + d + j]
        for k in range(K):
            e = x - mean[k]
            out[k] -= 0.5 * precision[k] * e * e


@entry(SCORE_T)
def semiconjugate_score(rows, stat, work, out, block, K, i, own):
    """Densities under the parameters held, in the column of i itself too."""
    if is_complete(rows, block, i):
        _score_complete(rows.y, stat, out, block[Block.STAT], block[Block.FIRST], block[Block.LAST] - block[Block.FIRST], K, i)
    else:
        _score(rows, stat, out, block, block[Block.STAT], K, i)
    return DONE


@entry(MARGINAL_T)
def semiconjugate_marginal(rows, stat, block, k):
    """log p(y_c | parameters) + log p(parameters); the prior of precisions that clusters share is a hyperprior, left out."""
    members = _members(block)
    d = block[Block.LAST] - block[Block.FIRST]
    value = 0.0
    for j in range(d):
        n, mean, square = stat[members + 1 + j, k], stat[members + 1 + d + j, k], stat[members + 1 + 2 * d + j, k]
        mu, precision = stat[block[Block.STAT] + j, k], stat[block[Block.STAT] + d + j, k]
        value += 0.5 * n * (math.log(precision) - LOG_TWO_PI) - 0.5 * precision * (square + n * (mean - mu) ** 2)
        v = _prior(rows, block, 1, j)
        value -= 0.5 * (math.log(v) + LOG_TWO_PI + (mu - _prior(rows, block, 0, j)) ** 2 / v)
        if _kind(rows, block) == OWN:
            a, b = _prior(rows, block, 2, j), _prior(rows, block, 3, j)
            value += a * math.log(b) - math.lgamma(a) + (a - 1.0) * math.log(precision) - b * precision
    return value


@entry(REDRAW_T)
def semiconjugate_redraw(rows, stat, block, k, rng):
    """mu given lambda, then lambda given mu."""
    s, members = block[Block.STAT], _members(block)
    d = block[Block.LAST] - block[Block.FIRST]
    kind = _kind(rows, block)
    for j in range(d):
        n, mean, square = stat[members + 1 + j, k], stat[members + 1 + d + j, k], stat[members + 1 + 2 * d + j, k]
        a, b = _prior(rows, block, 2, j) + 0.5 * n, _prior(rows, block, 3, j) + 0.5 * square
        if kind == OWN and stat[s + d + j, k] == 0.0:  # never drawn: the start of a chain
            stat[s + d + j, k] = a / b
        weight = stat[s + d + j, k] * n
        m, v = _prior(rows, block, 0, j), _prior(rows, block, 1, j)
        centre = m + (mean - m) * weight * v / (1.0 + weight * v)
        mu = centre + math.sqrt(v / (1.0 + weight * v)) * rng.standard_normal()
        stat[s + j, k] = mu
        if kind == OWN:
            stat[s + d + j, k] = max(rng.standard_gamma(a) / (b + 0.5 * n * (mean - mu) ** 2), TINY)
    _refresh(rows, stat, block, k)
    return DONE


@entry(REDRAW_SHARED_T)
def semiconjugate_redraw_shared(rows, stat, block, K, rng):
    """lambda of all clusters, given theirs of mu."""
    s, members = block[Block.STAT], _members(block)
    d = block[Block.LAST] - block[Block.FIRST]
    for j in range(d):
        n, square = 0.0, 0.0
        for c in range(K):
            e = stat[members + 1 + d + j, c] - stat[s + j, c]
            n += stat[members + 1 + j, c]
            square += stat[members + 1 + 2 * d + j, c] + stat[members + 1 + j, c] * e * e
        a, b = _prior(rows, block, 2, j) + 0.5 * n, _prior(rows, block, 3, j) + 0.5 * square
        rows.constant[block[Block.CONSTANT] + j] = max(rng.standard_gamma(a) / b, TINY)
    for c in range(K):
        _refresh(rows, stat, block, c)
    return DONE


@entry(SAMPLE_T)
def semiconjugate_sample(rows, stat, theta, block, k, m, rng):
    """The parameters held; of a column without members, from the prior."""
    t = block[Block.THETA]
    d = block[Block.LAST] - block[Block.FIRST]
    new = stat[_members(block), k] == 0.0
    for j in range(d):
        theta[t + j, m], theta[t + d + j, m] = stat[block[Block.STAT] + j, k], stat[block[Block.STAT] + d + j, k]
        if new:
            theta[t + j, m] = _prior(rows, block, 0, j) + math.sqrt(_prior(rows, block, 1, j)) * rng.standard_normal()
        if new and _kind(rows, block) == OWN:
            theta[t + d + j, m] = max(rng.standard_gamma(_prior(rows, block, 2, j)) / _prior(rows, block, 3, j), TINY)
    return DONE


@entry(DENSITY_T)
def semiconjugate_density(rows, theta, work, out, block, M, i):
    _score(rows, theta, out, block, block[Block.THETA], M, i)
    return DONE


@entry(MEAN_T)
def semiconjugate_mean(rows, stat, out, block, k, i):
    new = stat[_members(block), k] == 0.0
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        out[block[Block.MEANS] + j] = _prior(rows, block, 0, j) if new else stat[block[Block.STAT] + j, k]
    return DONE


semiconjugate_mean_theta = means_at(Block.THETA, 0)


@kernel
def log_normal_gamma(square, v, a, b):
    """log of the density at distance sqrt(square) from its mean of N(0, v + 1/lambda), lambda ~ Gamma(a, b): trapezoid in x = log lambda.

    The integrand falls to the right of log(a/b) like a gamma density, doubly exponentially in the end; to the left of the mode of the
    prior and that of the likelihood by the prior and, where 1/lambda is the larger part of the variance, as exp(x/2) besides.
    """
    mode = math.log(a / b)
    hi = math.log((a + 10.0 * math.sqrt(a) + 60.0) / b)
    far = max(v, square)
    lo = max(min(mode, -math.log(max(square, TINY))) - 40.0 / a - 9.0 / math.sqrt(a), min(mode, -math.log(far)) - 80.0)
    n = int((hi - lo) / min(0.2, 0.7 / math.sqrt(a + 1.0))) + 1
    step = (hi - lo) / n
    top, total = -math.inf, 0.0
    for r in range(n + 1):
        x = lo + r * step
        variance = v + math.exp(-x)
        f = a * x - b * math.exp(x) - 0.5 * (math.log(variance) + square / variance)
        if f > top:
            total = total * math.exp(top - f) + 1.0
            top = f
        else:
            total += math.exp(f - top)
    return top + math.log(total * step) + a * math.log(b) - math.lgamma(a) - 0.5 * LOG_TWO_PI


@entry(ALONE_T)
def semiconjugate_alone(rows, block, i):
    d = block[Block.LAST] - block[Block.FIRST]
    value = 0.0
    for j in range(d):
        e = rows.y[i, block[Block.FIRST] + j] - _prior(rows, block, 0, j)
        if math.isnan(e):
            continue
        v = _prior(rows, block, 1, j)
        if _kind(rows, block) == OWN:
            value += log_normal_gamma(e * e, v, _prior(rows, block, 2, j), _prior(rows, block, 3, j))
        else:
            v += 1.0 / rows.constant[block[Block.CONSTANT] + j]
            value -= 0.5 * (LOG_TWO_PI + math.log(v) + e * e / v)
    return value
