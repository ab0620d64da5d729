"""Categorical components, Dirichlet prior, independent by response; binary responses are those of two levels.

Responses are numbers 0, 1, ... of their levels, NaN where missing: each response counts the rows in which it was observed.

Levels of all responses are numbered end to end, T of them.
Rows of stat: counts (T); log predictive probabilities (T); a row of zeros; observations of each response (d).
Constants: T; of each response its first level, and T (d + 1); sums of its concentrations (d); concentrations (T).
Rows of theta: log probabilities (T); a row of zeros.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import COMBINE_T, DENSITY_T, EMPTY_T, MARGINAL_T, MEAN_T, SAMPLE_T, SCORE_T, UPDATE_T, entry
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.special import log_pos, log_rising
from nrmmix.kernels.core.state import DONE, Block
from nrmmix.kernels.families.shared import add, clear, draw_log_shares, padded, places, shares

LEVELS, STARTS = 0, 1  # in Rows.constant


def n_stat(d, T):
    return 2 * T + 1 + d


@kernel
def probability(rows, stat, block, k, j, level):
    """Posterior mean of the probability of a level of response j."""
    s, o, first, d = places(block)
    T = int(rows.constant[o + LEVELS])
    total = rows.constant[o + STARTS + d + 1 + j] + stat[s + 2 * T + 1 + j, k]
    return (rows.constant[o + STARTS + 2 * d + 1 + level] + stat[s + level, k]) / total


@kernel
def _refresh(rows, stat, block, k, j):
    """Log predictive probabilities of response j."""
    s, o, first, d = places(block)
    T = int(rows.constant[o + LEVELS])
    for level in range(int(rows.constant[o + STARTS + j]), int(rows.constant[o + STARTS + j + 1])):
        stat[s + T + level, k] = log_pos(probability(rows, stat, block, k, j, level))


@entry(EMPTY_T)
def categorical_empty(rows, stat, block, k):
    s, o, first, d = places(block)
    clear(stat, s, s + 2 * int(rows.constant[o + LEVELS]) + 1 + d, k)
    for j in range(d):
        _refresh(rows, stat, block, k, j)
    return DONE


@entry(UPDATE_T)
def categorical_update(rows, stat, block, k, i, sign):
    s, o, first, d = places(block)
    T = int(rows.constant[o + LEVELS])
    for j in range(d):
        y = rows.y[i, first + j]
        if not math.isnan(y):
            stat[s + int(rows.constant[o + STARTS + j]) + int(y), k] += sign
            stat[s + 2 * T + 1 + j, k] += sign
            _refresh(rows, stat, block, k, j)
    return DONE


@entry(COMBINE_T)
def categorical_combine(rows, source, target, block, k, m):
    s, o, first, d = places(block)
    T = int(rows.constant[o + LEVELS])
    add(source, target, s, s + T, k, m)
    for j in range(d):
        observed = s + 2 * T + 1 + j
        if source[observed, k] > 0.0:
            target[observed, m] += source[observed, k]
            _refresh(rows, target, block, m, j)
    return DONE


@kernel
def _level(rows, block, i, j):
    """The level that row i has in response j; T, that of zeros, where it is missing or there is no such response."""
    o, first = block[Block.CONSTANT], block[Block.FIRST]
    if j < block[Block.LAST] - first and not math.isnan(rows.y[i, first + j]):
        return int(rows.constant[o + STARTS + j]) + int(rows.y[i, first + j])
    return int(rows.constant[o + LEVELS])


@fast
def _add_logs(rows, logs, base, out, block, K, i):
    """out[:K] += rows of `logs` for the levels of row i, four at a time."""
    for j in range(0, block[Block.LAST] - block[Block.FIRST], 4):
        r0, r1 = base + _level(rows, block, i, j), base + _level(rows, block, i, j + 1)
        r2, r3 = base + _level(rows, block, i, j + 2), base + _level(rows, block, i, j + 3)
        for k in range(K):
            out[k] += (logs[r0, k] + logs[r1, k]) + (logs[r2, k] + logs[r3, k])


@kernel
def _without(rows, stat, block, k, i):
    """Log predictive of member i given the other members."""
    s, o, first, d = places(block)
    T = int(rows.constant[o + LEVELS])
    alpha, sums = o + STARTS + 2 * d + 1, o + STARTS + d + 1
    product, total = 1.0, 0.0
    for j in range(d):
        if not math.isnan(rows.y[i, first + j]):
            level = _level(rows, block, i, j)
            product *= (rows.constant[alpha + level] + stat[s + level, k] - 1.0) / (
                rows.constant[sums + j] + stat[s + 2 * T + 1 + j, k] - 1.0
            )
            if product < 1e-150:
                total += log_pos(product)
                product = 1.0
    return total + log_pos(product)


@entry(SCORE_T)
def categorical_score(rows, stat, work, out, block, K, i, own):
    before = out[own] if own >= 0 else 0.0
    T = int(rows.constant[block[Block.CONSTANT] + LEVELS])
    _add_logs(rows, stat, block[Block.STAT] + T, out, block, padded(K, stat, out), i)
    if own >= 0:
        out[own] = before + _without(rows, stat, block, own, i)
    return DONE


@entry(MARGINAL_T)
def categorical_marginal(rows, stat, block, k):
    s, o, first, d = places(block)
    T = int(rows.constant[o + LEVELS])
    total = 0.0
    for j in range(d):
        total -= log_rising(rows.constant[o + STARTS + d + 1 + j], stat[s + 2 * T + 1 + j, k])
    for level in range(T):
        total += log_rising(rows.constant[o + STARTS + 2 * d + 1 + level], stat[s + level, k])
    return total


@entry(SAMPLE_T)
def categorical_sample(rows, stat, theta, block, k, m, rng):
    s, o, first, d = places(block)
    t, alpha = block[Block.THETA], o + STARTS + 2 * d + 1
    for j in range(d):
        start, stop = int(rows.constant[o + STARTS + j]), int(rows.constant[o + STARTS + j + 1])
        draw_log_shares(rows.constant, stat, theta, alpha + start, s + start, t + start, stop - start, k, m, rng)
    theta[t + int(rows.constant[o + LEVELS]), m] = 0.0
    return DONE


@entry(DENSITY_T)
def categorical_density(rows, theta, work, out, block, M, i):
    _add_logs(rows, theta, block[Block.THETA], out, block, M, i)
    return DONE


@entry(MEAN_T)
def categorical_mean(rows, stat, out, block, k, i):
    """Probability of each level."""
    o = block[Block.CONSTANT]
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        for level in range(int(rows.constant[o + STARTS + j]), int(rows.constant[o + STARTS + j + 1])):
            out[block[Block.MEANS] + level] = probability(rows, stat, block, k, j, level)
    return DONE


@entry(MEAN_T)
def bernoulli_mean(rows, stat, out, block, k, i):
    """Probability of 1, the second of two levels."""
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        out[block[Block.MEANS] + j] = probability(rows, stat, block, k, j, 2 * j + 1)
    return DONE


@entry(MEAN_T)
def bernoulli_mean_theta(rows, theta, out, block, m, i):
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        out[block[Block.MEANS] + j] = math.exp(theta[block[Block.THETA] + 2 * j + 1, m])
    return DONE


categorical_mean_theta = shares
