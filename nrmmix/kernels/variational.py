"""Variational inference of kernel-weighted measures row by row: local steps, and the search for codes.

A component m has a log kernel that is a sum over covariates j of tables, one value for each bin: log_k[j, bin, m].  With E log weights and
E log densities of the components a row i has

    r_im proportional to exp(score_im + sum_j log_k[j, u_ij, m]),    w_im proportional to exp(log_weight_m + sum_j log_k[j, u_ij, m]),

the probabilities of its component, and the share that each component has in its rate of V: with v_i = 1 / B_i, B_i the sum that w is
divided by, w_im = v_i E pi_m K_im.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.jit import fast, kernel, root, woven
from nrmmix.kernels.core.special import exp_any

TINY = 1e-300
NEARLY = 1e-16  # of what is left of a probability
FACTORS = 4  # that are multiplied before a logarithm may be taken
SMALLEST, LARGEST = 1e-60, 1e60
FARTHEST = 30.0  # log factor of a weight
MIN_COUNT = 0.5  # rows of a component whose codes are worth a look


@woven
@fast
def largest(values):
    top = values[0]
    for m in range(values.shape[0]):
        top = max(top, values[m])
    return top


@woven
@fast
def normalise(values, top):
    """exp(values - top) over their sum, which comes back."""
    total = 0.0
    for m in range(values.shape[0]):
        values[m] = exp_any(values[m] - top)
        total += values[m]
    for m in range(values.shape[0]):
        values[m] /= total
    return total


@woven
@fast
def add_times(total, values, factor):
    for m in range(total.shape[0]):
        total[m] += factor * values[m]


@woven
@fast
def dot(a, b):
    total = 0.0
    for m in range(a.shape[0]):
        total += a[m] * b[m]
    return total


@root
@kernel
def visit_rows(scores, bins, log_k, log_weight, w, kept, H, W, sums, often):
    """Local steps of rows: scores (b, M) become r; H, W (q, B, M) gain r and w, and sums theirs, as often as each row counts (b,), or once.

    sums: entropy of r; log v.  `kept` (b, M) gets w where it has rows.  `w` (some, M) is scratch: so many rows go through the tables of one
    covariate after the other, which stay in the cache that a core has to itself.
    """
    entropy, log_v = 0.0, 0.0  # no entries of sums: those of another thread may be in the same cache line
    for first in range(0, scores.shape[0], w.shape[0]):
        last = min(first + w.shape[0], scores.shape[0])
        own, at = scores[first:last], bins[first:last]
        add_log_kernels(own, at, log_k, w)
        for i in range(own.shape[0]):
            times = often[first + i] if often.shape[0] > 0 else 1.0
            add_times(w[i], log_weight, 1.0)
            top = largest(w[i])
            log_v -= times * (top + math.log(normalise(w[i], top)))
            entropy += times * entropy_of(own[i], largest(own[i]))
            if kept.shape[0] > 0:
                for m in range(w.shape[1]):
                    kept[first + i, m] = w[i, m]
        for j in range(bins.shape[1]):
            for i in range(own.shape[0]):
                times, b = often[first + i] if often.shape[0] > 0 else 1.0, at[i, j]
                add_times(H[j, b], own[i], times)
                add_times(W[j, b], w[i], times)
    sums[0] += entropy
    sums[1] += log_v


@woven
@kernel
def add_log_kernels(scores, bins, log_k, total):
    """Rows of total (some, M) become the sums of the log kernels of scores (b, M), b at most so many, which gain these."""
    for i in range(scores.shape[0]):
        for m in range(scores.shape[1]):
            total[i, m] = 0.0
    for j in range(bins.shape[1]):
        for i in range(scores.shape[0]):
            add_times(total[i], log_k[j, bins[i, j]], 1.0)
    for i in range(scores.shape[0]):
        add_times(scores[i], total[i], 1.0)


@woven
@fast
def entropy_of(values, top):
    """Scores become probabilities; the entropy of these."""
    total, mean = 0.0, 0.0
    for m in range(values.shape[0]):
        score = values[m] - top
        p = exp_any(score)
        total += p
        mean += p * (score if p > 0.0 else 0.0)
        values[m] = p
    for m in range(values.shape[0]):
        values[m] /= total
    return math.log(total) - mean / total


# ---- codes, with r and v optimised out

@woven
@fast
def next_product(above, below, ratio, r, w):
    """above[c] times 1 + r (ratio[c] - 1), below[c] times 1 + w (ratio[c] - 1)"""
    r1, w1 = max(1.0 - r, NEARLY), max(1.0 - w, NEARLY)
    for c in range(above.shape[0]):
        above[c] *= r1 + r * ratio[c]
        below[c] *= w1 + w * ratio[c]


@kernel
def bank(product, gain, sign, at_end):
    """Into the sum of logarithms goes what a product might lose, at the end every one."""
    for c in range(product.shape[0]):
        if at_end or product[c] > LARGEST or product[c] < SMALLEST:
            gain[c] += sign * math.log(max(product[c], TINY))
            product[c] = 1.0


@kernel
def fill_ratios(r, bins, m, j, log_k, now, count, scale, ratio, often):
    """scale[c]: log factor of the weight of component m with code c of covariate j in place of `now`; ratio[b, c] of its rates in bin b;
    False where it has hardly a row."""
    size = 0.0
    for c in range(count):
        scale[c] = 0.0
    for i in range(r.shape[0]):
        b, share = bins[i, j], r[i, m] * (often[i] if often.shape[0] > 0 else 1.0)
        size += share
        for c in range(count):
            scale[c] += share * (log_k[b, now] - log_k[b, c])
    if size < MIN_COUNT:
        return False
    for c in range(count):
        scale[c] = min(max(scale[c] / size, -FARTHEST), FARTHEST)
    for b in range(ratio.shape[0]):
        for c in range(count):
            ratio[b, c] = math.exp(log_k[b, c] - log_k[b, now] + scale[c])
    return True


@root
@kernel
def search_codes(r, w, bins, codes, order, log_k, counts, log_prior, weight, share, least, shift, ratio, work, often):
    """Codes one by one where they raise the bound, r (n, M), v and the scale of the component's weight optimised out; how many changed.

    The gain of code c' of component m in place of c, its weight times s = exp(-mean over members of log k(c') / k(c)), is

        sum_i log [(1 + r_im (s rho_i - 1)) / (1 + w_im (s rho_i - 1))] + share log s - E pi_m (s - 1) + log P(c') / P(c),

    rho_i = k(c') / k(c) at row i.  `order` says which (component, covariate) are looked at, m q + j; `log_k` (q, B, C) are tables of all
    codes, `counts` (q,) how many there are, `log_prior` (q, C), `weight` (M,) E pi, `share` E mass / M; `often` (n,) is how often each row
    counts, empty where once.  r, w and codes are made those of the new codes, `shift` (M,) gains log s.
    """
    q, moved = bins.shape[1], 0
    scale, above, below, gain = work[0], work[1], work[2], work[3]
    for o in range(order.shape[0]):
        m, j = order[o] // q, order[o] % q
        now, count = codes[m, j], counts[j]
        if not fill_ratios(r, bins, m, j, log_k[j], now, count, scale, ratio, often):
            continue
        for c in range(count):
            above[c], below[c], gain[c] = 1.0, 1.0, 0.0
        for i in range(r.shape[0]):
            next_product(above[:count], below[:count], ratio[bins[i, j]], r[i, m], w[i, m])
            own = often.shape[0] > 0  # then rows have powers of their own
            at_end, times = own or i == r.shape[0] - 1, often[i] if own else 1.0
            if i % FACTORS == FACTORS - 1 or at_end:
                bank(above[:count], gain, times, at_end)
                bank(below[:count], gain, -times, at_end)
        best, found = least, now
        for c in range(count):
            value = gain[c] + share * scale[c] - weight[m] * (math.exp(scale[c]) - 1.0) + log_prior[j, c] - log_prior[j, now]
            if c != now and value > best:
                best, found = value, c
        if found != now:
            moved += 1
            codes[m, j] = found
            shift[m] += scale[found]
            weight[m] *= math.exp(scale[found])
            for i in range(r.shape[0]):
                rho = ratio[bins[i, j], found]
                a = 1.0 / (max(1.0 - r[i, m], NEARLY) + r[i, m] * rho)
                b = 1.0 / (max(1.0 - w[i, m], NEARLY) + w[i, m] * rho)
                for k in range(r.shape[1]):
                    r[i, k] *= a
                    w[i, k] *= b
                r[i, m] *= rho
                w[i, m] *= rho
    return moved
