"""Multinomial components, Dirichlet prior: rows of counts over a vocabulary, given their totals.

Counts are sparse, those of row i at `Rows.indptr[Block.FIRST + i]` and on.  Multinomial coefficients are left out.

Rows of stat: counts of the d words; their total.
Constants: d; the sum of the concentrations; concentrations (d); reach (d), see `nrmmix.kernels.families.rising`; the number of entries
of the table that follows, log Gamma(a + c) - log Gamma(a) of all counts c that a cluster can have; 0 where concentrations a differ.
Rows of theta: log probabilities (d).
"""

from __future__ import annotations

from nrmmix.kernels.core.entry import AFFINITY_T, COMBINE_T, DENSITY_T, EMPTY_T, MARGINAL_T, MEAN_T, SAMPLE_T, SCORE_T, UPDATE_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import log_rising
from nrmmix.kernels.core.state import DONE, Block
from nrmmix.kernels.families.rising import gather, ones, take_logs
from nrmmix.kernels.families.shared import add, clear, draw_log_shares, padded, shares

WORDS, TOTAL, ALPHA = 0, 1, 2  # in Rows.constant


@entry(EMPTY_T)
def multinomial_empty(rows, stat, block, k):
    s = block[Block.STAT]
    clear(stat, s, s + int(rows.constant[block[Block.CONSTANT] + WORDS]) + 1, k)
    return DONE


@kernel
def _add(rows, stat, block, k, i, sign):
    s = block[Block.STAT]
    total = 0.0
    for p in range(rows.indptr[block[Block.FIRST] + i], rows.indptr[block[Block.FIRST] + i + 1]):
        stat[s + rows.indices[p], k] += sign * rows.counts[p]
        total += rows.counts[p]
    stat[s + int(rows.constant[block[Block.CONSTANT] + WORDS]), k] += sign * total


@entry(UPDATE_T)
def multinomial_update(rows, stat, block, k, i, sign):
    _add(rows, stat, block, k, i, sign)
    return DONE


@entry(COMBINE_T)
def multinomial_combine(rows, source, target, block, k, m):
    s = block[Block.STAT]
    add(source, target, s, s + int(rows.constant[block[Block.CONSTANT] + WORDS]) + 1, k, m)
    return DONE


@entry(SCORE_T, fast=True)
def multinomial_score(rows, stat, work, out, block, K, i, own):
    """out[:K] += log of rising factorials of the words over that of the total."""
    if own >= 0:  # counts are whole numbers: what is taken out comes back to the last bit
        _add(rows, stat, block, own, i, -1.0)
    K = padded(K, stat, out)
    s, o, f = block[Block.STAT], block[Block.CONSTANT], block[Block.FIRST]
    d = int(rows.constant[o + WORDS])
    product = work[0]
    ones(product, K)
    used, total = 0.0, 0.0
    for p in range(rows.indptr[f + i], rows.indptr[f + i + 1]):
        w, c = rows.indices[p], rows.counts[p]
        total += c
        used = gather(stat, s + w, rows.constant[o + ALPHA + w], c, rows.constant[o + ALPHA + d + w], used, product, out, K)
    take_logs(product, out, K)
    alpha = rows.constant[o + TOTAL]
    for k in range(K):
        out[k] -= log_rising(alpha + stat[s + d, k], total)
    if own >= 0:
        _add(rows, stat, block, own, i, 1.0)
    return DONE


@kernel
def _table(rows, block):
    """Return where the table of log rising factorials begins in the constants, and its length."""
    at = block[Block.CONSTANT] + ALPHA + 2 * int(rows.constant[block[Block.CONSTANT] + WORDS])
    return at + 1, int(rows.constant[at])


@entry(MARGINAL_T)
def multinomial_marginal(rows, stat, block, k):
    s, o = block[Block.STAT], block[Block.CONSTANT]
    d = int(rows.constant[o + WORDS])
    table, length = _table(rows, block)
    total = -log_rising(rows.constant[o + TOTAL], stat[s + d, k])
    for w in range(d):
        c = stat[s + w, k]
        if c > 0.0:
            total += rows.constant[table + int(c)] if c < length else log_rising(rows.constant[o + ALPHA + w], c)
    return total


@entry(AFFINITY_T, fast=True)
def multinomial_affinity(rows, stat, other, out, block, k, K):
    s, o = block[Block.STAT], block[Block.CONSTANT]
    d = int(rows.constant[o + WORDS])
    table, length = _table(rows, block)
    constant, alpha = rows.constant, rows.constant[o + TOTAL]
    total = stat[s + d, k]
    alone = log_rising(alpha, total)
    for m in range(K):
        out[m] += alone - log_rising(alpha + other[s + d, m], total)
    for w in range(d):
        c = stat[s + w, k]
        if c == 0.0:
            continue
        a = constant[o + ALPHA + w]
        alone = log_rising(a, c)
        for m in range(K):
            n = other[s + w, m]
            if n == 0.0:  # most are: then the word says nothing
                continue
            if c + n < length:
                at = table + int(n)
                out[m] += constant[at + int(c)] - constant[at] - alone
            else:
                out[m] += log_rising(a + n, c) - alone
    return DONE


@entry(SAMPLE_T)
def multinomial_sample(rows, stat, theta, block, k, m, rng):
    o = block[Block.CONSTANT]
    d = int(rows.constant[o + WORDS])
    draw_log_shares(rows.constant, stat, theta, o + ALPHA, block[Block.STAT], block[Block.THETA], d, k, m, rng)
    return DONE


@entry(DENSITY_T, fast=True)
def multinomial_density(rows, theta, work, out, block, M, i):
    t, f = block[Block.THETA], block[Block.FIRST]
    for p in range(rows.indptr[f + i], rows.indptr[f + i + 1]):
        w, c = rows.indices[p], rows.counts[p]
        for m in range(M):
            out[m] += c * theta[t + w, m]
    return DONE


@entry(MEAN_T)
def multinomial_mean(rows, stat, out, block, k, i):
    """Expected share of each word."""
    s, o = block[Block.STAT], block[Block.CONSTANT]
    d = int(rows.constant[o + WORDS])
    total = rows.constant[o + TOTAL] + stat[s + d, k]
    for w in range(d):
        out[block[Block.MEANS] + w] = (rows.constant[o + ALPHA + w] + stat[s + w, k]) / total
    return DONE


multinomial_mean_theta = shares
