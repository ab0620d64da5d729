"""Poisson components with exposures, gamma prior, independent by response: y_ij ~ Poisson(e_i lambda_j), lambda_j ~ Gamma(a_j, b_j).

NaN in y is a missing cell: each response counts the rows in which it was observed.  e_i is the block's input, or 1 where it has none.

Rows of stat: sum of y log e - log y! over members; then of each response the sum S of y, the sum E of e, and two caches, with
B = b + E: 1/B and log B, or where e = 1 always -(a + S) log(1 + 1/B) and log(1 + B).
Constants: a (d), b (d), reach (d), see `nrmmix.kernels.families.rising`.
Rows of theta: of each response log lambda and lambda.
"""

from __future__ import annotations

import math

import numpy as np

from nrmmix.kernels.core.entry import COMBINE_T, DENSITY_T, EMPTY_T, MARGINAL_T, MEAN_T, SAMPLE_T, SCORE_T, UPDATE_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import draw_log_gamma, log1p_pos, log_pos, log_rising
from nrmmix.kernels.core.state import DONE, LOST_PRECISION, Block
from nrmmix.kernels.families.rising import SMALL, gather, ones, take_logs
from nrmmix.kernels.families.shared import LOST, clear, padded, places

EACH = 4  # rows of stat for each response
LOG_FACTORIAL = np.array([math.lgamma(y + 1.0) for y in range(256)])


def n_stat(d):
    return 1 + EACH * d


@kernel
def _log_factorial(y):
    return LOG_FACTORIAL[int(y)] if y < 256.0 else log_rising(1.0, y)


@kernel
def _exposure(rows, block, i):
    return rows.y[i, block[Block.INPUT]] if block[Block.INPUT_LAST] > block[Block.INPUT] else 1.0


@kernel
def _refresh(rows, stat, block, k, j):
    o, r = block[Block.CONSTANT], block[Block.STAT] + 1 + EACH * j
    B = rows.constant[o + block[Block.LAST] - block[Block.FIRST] + j] + stat[r + 1, k]
    if block[Block.INPUT_LAST] > block[Block.INPUT]:
        stat[r + 2, k] = 1.0 / B
        stat[r + 3, k] = math.log(B)
    else:
        stat[r + 2, k] = -(rows.constant[o + j] + stat[r, k]) * math.log1p(1.0 / B)
        stat[r + 3, k] = math.log1p(B)


@entry(EMPTY_T)
def poisson_empty(rows, stat, block, k):
    s, o, first, d = places(block)
    clear(stat, s, s + 1 + EACH * d, k)
    for j in range(d):
        _refresh(rows, stat, block, k, j)
    return DONE


@entry(UPDATE_T)
def poisson_update(rows, stat, block, k, i, sign):
    s, o, first, d = places(block)
    e = _exposure(rows, block, i)
    log_e = math.log(e)
    sound = True
    for j in range(d):
        y = rows.y[i, first + j]
        if math.isnan(y):
            continue
        r = s + 1 + EACH * j
        b = rows.constant[o + d + j]
        before = b + stat[r + 1, k]
        stat[s, k] += sign * (y * log_e - _log_factorial(y))
        stat[r, k] += sign * y
        stat[r + 1, k] += sign * e
        if b + stat[r + 1, k] < LOST * before and block[Block.INPUT_LAST] > block[Block.INPUT]:  # whole numbers lose nothing
            sound = False
            stat[r + 1, k] = max(stat[r + 1, k], 0.0)
        _refresh(rows, stat, block, k, j)
    return DONE if sound else LOST_PRECISION


@entry(COMBINE_T)
def poisson_combine(rows, source, target, block, k, m):
    s = block[Block.STAT]
    target[s, m] += source[s, k]
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        r = s + 1 + EACH * j
        if source[r + 1, k] > 0.0:
            target[r, m] += source[r, k]
            target[r + 1, m] += source[r + 1, k]
            _refresh(rows, target, block, m, j)
    return DONE


@kernel
def _without(rows, stat, block, k, i):
    """Log predictive of member i given the other members; NaN where their exposures are lost in its own."""
    s, o, first, d = places(block)
    e = _exposure(rows, block, i)
    log_e = math.log(e)
    total, product = 0.0, 1.0
    for j in range(d):
        y = rows.y[i, first + j]
        if math.isnan(y):
            continue
        r = s + 1 + EACH * j
        B = rows.constant[o + d + j] + stat[r + 1, k]
        before = rows.constant[o + d + j] + (stat[r + 1, k] - e)
        if before < LOST * B and block[Block.INPUT_LAST] > block[Block.INPUT]:
            return math.nan
        A = rows.constant[o + j] + (stat[r, k] - y)
        total += y * log_e - _log_factorial(y) - A * log1p_pos(e / before)
        if y > SMALL:
            total += log_rising(A, y) - y * log_pos(B)
            continue
        for _ in range(int(y)):
            product *= A / B
            A += 1.0
            if not 1e-150 < product < 1e150:
                total += log_pos(product)
                product = 1.0
    return total + log_pos(product)


@entry(SCORE_T, fast=True)
def poisson_score(rows, stat, work, out, block, K, i, own):
    """Negative binomial log densities."""
    before = out[own] if own >= 0 else 0.0
    K = padded(K, stat, out)
    s, o, first, d = places(block)
    exposed = block[Block.INPUT_LAST] > block[Block.INPUT]
    e = _exposure(rows, block, i)
    log_e = math.log(e)
    product = work[0]
    ones(product, K)
    used, constant = 0.0, 0.0
    for j in range(d):
        y = rows.y[i, first + j]
        if math.isnan(y):
            continue
        r = s + 1 + EACH * j
        a = rows.constant[o + j]
        constant += y * log_e - _log_factorial(y)
        if exposed:
            for k in range(K):
                growth = log1p_pos(e * stat[r + 2, k])
                out[k] -= (a + stat[r, k]) * growth + y * (growth + stat[r + 3, k])
        else:
            for k in range(K):
                out[k] += stat[r + 2, k] - y * stat[r + 3, k]
        if y > 0.0:
            used = gather(stat, r, a, y, rows.constant[o + 2 * d + j], used, product, out, K)
    if used > 0.0:
        take_logs(product, out, K)
    for k in range(K):
        out[k] += constant
    if own >= 0:
        out[own] = before + _without(rows, stat, block, own, i)
    return DONE


@entry(MARGINAL_T)
def poisson_marginal(rows, stat, block, k):
    s, o, first, d = places(block)
    total = stat[s, k]
    for j in range(d):
        a, b = rows.constant[o + j], rows.constant[o + d + j]
        S, E = stat[s + 1 + EACH * j, k], stat[s + 2 + EACH * j, k]
        total += log_rising(a, S) - a * math.log1p(E / b) - S * math.log(b + E)
    return total


@entry(SAMPLE_T)
def poisson_sample(rows, stat, theta, block, k, m, rng):
    s, o, first, d = places(block)
    t = block[Block.THETA]
    for j in range(d):
        r = s + 1 + EACH * j
        value = draw_log_gamma(rows.constant[o + j] + stat[r, k], rng) - math.log(rows.constant[o + d + j] + stat[r + 1, k])
        theta[t + 2 * j, m] = value
        theta[t + 2 * j + 1, m] = math.exp(value)
    return DONE


@entry(DENSITY_T, fast=True)
def poisson_density(rows, theta, work, out, block, M, i):
    t, first = block[Block.THETA], block[Block.FIRST]
    e = _exposure(rows, block, i)
    log_e = math.log(e)
    constant = 0.0
    for j in range(block[Block.LAST] - first):
        y = rows.y[i, first + j]
        if math.isnan(y):
            continue
        constant += y * log_e - _log_factorial(y)
        log_rate, rate = theta[t + 2 * j], theta[t + 2 * j + 1]
        for m in range(M):
            out[m] += y * log_rate[m] - e * rate[m]
    for m in range(M):
        out[m] += constant
    return DONE


@entry(MEAN_T)
def poisson_mean(rows, stat, out, block, k, i):
    """Exposure times the expected rate."""
    s, o, first, d = places(block)
    for j in range(d):
        r = s + 1 + EACH * j
        rate = (rows.constant[o + j] + stat[r, k]) / (rows.constant[o + d + j] + stat[r + 1, k])
        out[block[Block.MEANS] + j] = _exposure(rows, block, i) * rate
    return DONE


@entry(MEAN_T)
def poisson_mean_theta(rows, theta, out, block, m, i):
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        out[block[Block.MEANS] + j] = _exposure(rows, block, i) * theta[block[Block.THETA] + 2 * j + 1, m]
    return DONE
