"""Locations of the atoms, integrated out of every move on the partition.

Given v, a cluster c of density regression has the weight

    h(c) = mass Gamma(n_c - sigma)/Gamma(1 - sigma) sum_p R0(p) (tau + A_p)^-(n_c - sigma) prod_(i in c) K(x_i, p),

in place of kappa(n_c, u): the terms of its sum are the posterior of the location.  `log_K_sum` holds sum_i log K(x_i, p),
`location_probability` the normalised terms, `probability_over_b` these over tau + A.  In a mixture all are empty.

Kernels that mixtures share call what is here by address, through functions of the same name as the entry points: so it is compiled once,
and for density regression alone.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import (
    ADD_T,
    ALL_T,
    JOIN_T,
    ROW_T,
    SUM_T,
    WITHOUT_T,
    call_add,
    call_all,
    call_covariate,
    call_join,
    call_row,
    call_sum,
    call_without,
    entry,
)
from nrmmix.kernels.core.jit import fast, inlined, kernel, woven
from nrmmix.kernels.core.lanes import LANES
from nrmmix.kernels.core.special import draw_index, log_pos, prefetch, take_exp, top_of
from nrmmix.kernels.core.state import DONE, FACTOR, LOG_ROW, OUT_OF_REACH, TINY, Count, Hyper, Setup

LOST, MAX_SUM = 1e-307, 1e299  # probabilities that are smaller may be 0; sums that are larger may be infinite, or of what is below TINY
NEGLIGIBLE = 1e-17  # a share of a sum


@fast
def add_row(target, row, sign):
    for p in range(row.shape[0]):
        target[p] += sign * row[p]


@fast
def add_up(log_K, ratio, g, out):
    """out = sum_s ratio_s log_K[s, g]"""
    for p in range(out.shape[0]):
        out[p] = ratio[0] * log_K[0, g, p]
    for s in range(1, ratio.shape[0]):
        add_row(out, log_K[s, g], ratio[s])
    for p in range(out.shape[0]):
        out[p] = out[p] if out[p] > -math.inf else OUT_OF_REACH


@entry(ROW_T)
def evaluate_log_K(distance, setup, hyper, by_location, g, first, last):
    """log K(x_g, p), p from first to last, at the widths in `hyper` into row LOG_ROW of scratch: a product over the covariates.

    An entry point, for only kernels without scales need it.
    """
    P, out = last - first, by_location[LOG_ROW, : last - first]
    for j in range(distance.shape[0]):
        factor = by_location[LOG_ROW if j == 0 else FACTOR, :P]
        of_one, width = distance[j, g, first:last].reshape((1, 1, P)), hyper[Hyper.WIDTH + j : Hyper.WIDTH + j + 1]
        call_covariate(setup[Setup.COVARIATES + j], of_one, width, factor.reshape((1, P)))
        if j > 0:
            add_row(out, factor, 1.0)
    for p in range(P):
        out[p] = out[p] if out[p] > -math.inf else OUT_OF_REACH
    return DONE


@kernel
def evaluate(data, state, g, first, last):
    call_row(data.setup[Setup.LOG_KERNEL], data.distance, data.setup, state.hyper, state.scratch.by_location, g, first, last)


@inlined
def log_row(data, state, g):
    """A row and a number, the product of which is log K(x_g, .): of one matrix as it stands, others are in scratch."""
    if state.cache.ratio.shape[0] == 1:
        return state.cache.log_K[0, g], state.cache.ratio[0]
    if state.cache.ratio.shape[0] == 0:
        evaluate(data, state, g, 0, state.cache.A.shape[0])
    else:
        add_up(state.cache.log_K, state.cache.ratio, g, state.scratch.by_location[LOG_ROW])
    return state.scratch.by_location[LOG_ROW], 1.0


@inlined
def log_row_lent(data, state, g, is_lent):
    """Return the row of log K, where a kernel without scales may have the place of K lent to log K."""
    if is_lent and state.cache.ratio.shape[0] == 0:
        return state.cache.K[g], 1.0
    return log_row(data, state, g)


@entry(ADD_T)
def add_log_K_entry(data, state, g, sign, out):
    row, ratio = log_row(data, state, g)
    add_row(out, row, sign * ratio)
    return DONE


@kernel
def add_log_K(data, state, g, sign, out):
    """out += sign log K(x_g, .)"""
    call_add(data.setup[Setup.ADD_LOG_K], data, state, g, sign, out)


@kernel
def log_K_at(data, state, g, p):
    """log K(x_g, p)"""
    if state.cache.ratio.shape[0] == 0:
        evaluate(data, state, g, p, p + 1)
        return state.scratch.by_location[LOG_ROW, 0]
    total = 0.0
    for s in range(state.cache.ratio.shape[0]):
        total += state.cache.ratio[s] * state.cache.log_K[s, g, p]
    return total if total > -math.inf else OUT_OF_REACH


@inlined
def prefetch_log_K(data, state, g, is_lent):
    """Fetch what `log_row_lent` reads."""
    for s in range(state.cache.ratio.shape[0]):
        prefetch(state.cache.log_K[s, g])
    if state.cache.ratio.shape[0] == 0 and is_lent:
        prefetch(state.cache.K[g])
    for j in range(data.distance.shape[0] if state.cache.ratio.shape[0] == 0 and not is_lent else 0):
        prefetch(data.distance[j, g])


@kernel
def sum_log_K(data, state, is_lent):
    """`log_K_sum` of all clusters, made anew from the rows that `log_row_lent` has."""
    K, n = state.num[Count.CLUSTERS], state.labels.shape[0]
    for k in range(K):
        for p in range(state.cache.log_K_sum.shape[1]):
            state.cache.log_K_sum[k, p] = 0.0
    for i in range(n):
        if i + 1 < n:
            prefetch_log_K(data, state, data.group[i + 1], is_lent)
        if state.labels[i] >= 0:
            row, ratio = log_row_lent(data, state, data.group[i], is_lent)
            add_row(state.cache.log_K_sum[state.labels[i]], row, ratio)


@entry(ALL_T)
def rebuild_log_K_entry(data, state):
    sum_log_K(data, state, False)
    return DONE


@kernel
def rebuild_log_K(data, state):
    """Make log K anew, no matrix being lent."""
    call_all(data.setup[Setup.REBUILD_LOG_K], data, state)


@fast
def multiply(a, b, out):
    """out_p = a_p b_p"""
    for p in range(out.shape[0]):
        out[p] = a[p] * b[p]


@fast
def weighted_sum(a, b):
    """sum_p a_p b_p of two rows of the same length, over all of it: a loop from a first to a last place would not be vectorised."""
    total = 0.0
    for p in range(a.shape[0]):
        total += a[p] * b[p]
    return total


@fast
def log_terms(log_K_sum, log_K_row, sign, log_R0, log_b, power, out):
    """out_p = log R0(p) + log_K_sum_p + sign log K_p - power log(tau + A_p); their maximum."""
    for p in range(out.shape[0]):
        out[p] = log_R0[p] + log_K_sum[p] + sign * log_K_row[p] - power * log_b[p]
    return top_of(out)


@fast
def normalise(terms, top):
    """terms = exp(terms - top), divided by their sum, which is returned."""
    total = take_exp(terms, top)
    share = 1.0 / total
    for p in range(terms.shape[0]):
        terms[p] *= share
    return total


@entry(SUM_T)
def log_location_sum_entry(state, log_K_sum, size, probability):
    top = log_terms(log_K_sum, log_K_sum, 0.0, state.cache.log_R0, state.cache.log_b, size - state.hyper[Hyper.SIGMA], probability)
    return top + math.log(normalise(probability, top))


@kernel
def log_location_sum(data, state, log_K_sum, size, probability):
    """log sum_p R0(p) (tau + A_p)^-(n - sigma) prod K of a cluster of so many; `probability` (P,) becomes the terms, normalised."""
    return call_sum(data.setup[Setup.LOCATION_SUM], state, log_K_sum, size, probability)


@kernel
def weigh_locations(data, state, k):
    """Refresh `location_probability` of cluster k, and `probability_over_b`."""
    log_location_sum(data, state, state.cache.log_K_sum[k], state.size[k], state.cache.location_probability[k])
    multiply(state.cache.location_probability[k], state.cache.inverse_b, state.cache.probability_over_b[k])


@entry(ALL_T)
def refresh_locations_entry(data, state):
    P = state.cache.A.shape[0]
    for p in range(P):
        state.cache.log_R0[p] = math.log(data.R0[p])
        state.cache.log_b[p] = log_pos(max(state.hyper[Hyper.TAU] + state.cache.A[p], TINY))
        state.cache.inverse_b[p] = 1.0 / max(state.hyper[Hyper.TAU] + state.cache.A[p], TINY)
    for k in range(state.num[Count.CLUSTERS]):
        weigh_locations(data, state, k)
    return DONE


@kernel
def refresh_locations(data, state):
    """Renew what is kept of locations, and of those of all clusters, after any change of v or the kernel; `log_K_sum` has to be right."""
    call_all(data.setup[Setup.REFRESH_LOCATIONS], data, state)


@fast
def four_weighted_sums(a, first_row, b, first, last, out):
    """`weighted_sum` of rows first_row, ..., first_row + 3 of `a`, from first to last, and b: b is read once."""
    t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
    a0, a1, a2, a3 = a[first_row, first:last], a[first_row + 1, first:last], a[first_row + 2, first:last], a[first_row + 3, first:last]
    near = b[first:last]
    for p in range(near.shape[0]):
        t0 += a0[p] * near[p]
        t1 += a1[p] * near[p]
        t2 += a2[p] * near[p]
        t3 += a3[p] * near[p]
    out[first_row], out[first_row + 1], out[first_row + 2], out[first_row + 3] = t0, t1, t2, t3


@fast
def log_all(x):
    """Logarithms in place; of what is TINY or less minus infinity."""
    for k in range(x.shape[0]):
        x[k] = log_pos(max(x[k], TINY)) if x[k] > TINY else -math.inf


@entry(JOIN_T)
def location_weights_entry(state, K, g):
    out, probability_over_b = state.scratch.score, state.cache.probability_over_b
    K_row, first, last = state.cache.K[g], state.cache.band[g, 0], state.cache.band[g, 1]
    log_size, size = state.cache.log_size, state.size
    for k in range(0, K - 3, 4):
        four_weighted_sums(probability_over_b, k, K_row, first, last, out)
    for k in range(K // 4 * 4, K):
        out[k] = weighted_sum(probability_over_b[k, first:last], K_row[first:last])
    log_all(out[: min((K + LANES - 1) // LANES * LANES, out.shape[0])])
    for k in range(K):
        out[k] += log_size[size[k]]
    return DONE


@woven
@kernel
def location_weights(data, state, K, g):
    """score[k] = log (n_k - sigma) sum_p location_probability_p K(x_g, p)/(tau + A_p), k < K: the prior weight of joining cluster k.

    Numbers behind score[:K] may be overwritten.
    """
    call_join(data.setup[Setup.JOIN], state, K, g)


@kernel
def location_weight(state, probability_over_b, size, g):
    """Weight of one cluster of so many, whose locations have these probabilities over tau + A (P,), and group g."""
    first, last = state.cache.band[g, 0], state.cache.band[g, 1]
    total = weighted_sum(probability_over_b[first:last], state.cache.K[g, first:last])
    return state.cache.log_size[size] + (math.log(total) if total > TINY else -math.inf)


@entry(WITHOUT_T)
def location_weight_without_entry(data, state, log_K_sum, probability_over_b, size, g):
    total, whole, squares = sums_without(probability_over_b, state.cache.inverse_b, state.cache.K[g])
    if LOST * whole < NEGLIGIBLE * total and total < MAX_SUM and squares < MAX_SUM:
        return state.cache.log_size[size - 1] - math.log(total)
    terms, (row, ratio) = state.scratch.by_location[0], log_row(data, state, g)
    top = log_terms(log_K_sum, row, -ratio, state.cache.log_R0, state.cache.log_b, size - 1 - state.hyper[Hyper.SIGMA], terms)
    normalise(terms, top)
    multiply(terms, state.cache.inverse_b, terms)
    return location_weight(state, terms, size - 1, g)


@kernel
def location_weight_without(data, state, log_K_sum, probability_over_b, size, g):
    """Weight of a member of group g, for its cluster without it, which has others; the sum (P,) and `probability_over_b` are with it.

    With the member the location has probabilities pi_p, and h(c) / h(c - i) = (n_c - 1 - sigma) / sum_p pi_p (tau + A_p) / K(x_g, p).
    Where a pi_p that has underflowed could have a part in that sum, the terms of h(c - i) are computed.
    """
    return call_without(data.setup[Setup.WITHOUT], data, state, log_K_sum, probability_over_b, size, g)


@fast
def sums_without(probability_over_b, inverse_b, K_row):
    """Sums over p of pi_p b_p / K_p, of b_p / K_p and of b_p^2 / K_p; the last is MAX_SUM at least where one K_p is too small for them."""
    total, whole, squares = 0.0, 0.0, 0.0
    for p in range(K_row.shape[0]):
        square = 1.0 / max(K_row[p] * inverse_b[p] * inverse_b[p], TINY)
        total += probability_over_b[p] * square
        whole += inverse_b[p] * square
        squares += square
    return total, whole, squares


@kernel
def draw_locations(state, rng):
    """mu_m: p with probability proportional to R0(p) prod_i K(x_i, p) (tau + A_p)^-(n_m - sigma), also where caches are older than v."""
    P = state.cache.A.shape[0]
    terms = state.scratch.by_location[0]
    for p in range(P):
        state.cache.log_b[p] = log_pos(max(state.hyper[Hyper.TAU] + state.cache.A[p], TINY))
    for k in range(state.num[Count.CLUSTERS]):
        power = state.size[k] - state.hyper[Hyper.SIGMA]
        log_terms(state.cache.log_K_sum[k], state.cache.log_K_sum[k], 0.0, state.cache.log_R0, state.cache.log_b, power, terms)
        state.location[k] = draw_index(terms, P, rng.random())
