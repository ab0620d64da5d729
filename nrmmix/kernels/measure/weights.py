"""Prior weights of clusters given v and the hyperparameters, of mixtures and density regression alike, and the numbers kept for them.

Up to a constant a partition has the prior

    prod_c weight(c) prod_(0 < k < K) exp(log_next[k]).

In a mixture weight(c) is kappa(n_c, u) = mass Gamma(n_c - sigma)/Gamma(1 - sigma) (tau + u)^-(n_c - sigma), in density regression h(c) of
`nrmmix.kernels.core.locations`.  Where the total mass is integrated out something that the partition does not enter takes the place of the
mass, and log_next is not 0: see `refresh_caches`.  Moves on the partition ask here for weights, and need not know which random measure it
is, or whether there are locations.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import ALL_T, call_all, entry
from nrmmix.kernels.core.jit import inlined, kernel, root, woven
from nrmmix.kernels.core.locations import (
    add_log_K,
    location_weight,
    location_weight_without,
    location_weights,
    log_location_sum,
    multiply,
    refresh_locations,
    weigh_locations,
    weighted_sum,
)
from nrmmix.kernels.core.special import log_pos
from nrmmix.kernels.core.state import DONE, GIBBS_TYPE, TINY, Count, Hyper, Setup
from nrmmix.kernels.measure.nrm import is_integrated, is_mixture, log_V_ratio, mass_of_new, total_growth

PARTS = 2
REACH = 2 * PARTS  # rows


@inlined
def has_locations(state):
    """Whether atoms have locations, which are integrated out."""
    return state.cache.location_probability.shape[1] > 0


# ---- one observation


@woven
@kernel
def log_join_weights(data, state, K, g, own):
    """scratch.score[:K] = log weight(c + i) - log weight(c) of each cluster c for an observation i of group g, in `own` (or -1)."""
    p, log_weight = state.scratch.score, state.cache.log_weight  # not looked up at each k: a write into p could have changed them
    if not has_locations(state):
        for k in range(K):
            p[k] = log_weight[k]
        if own >= 0:
            n = state.size[own]
            p[own] += state.cache.log_size[n - 1] - state.cache.log_size[n]
    else:
        location_weights(data, state, K, g)
        if own >= 0:
            log_K_sum, over_b = state.cache.log_K_sum[own], state.cache.probability_over_b[own]
            p[own] = location_weight_without(data, state, log_K_sum, over_b, state.size[own], g)


@inlined
def log_new_weight(state, g, others, log_p):
    """Log weight of a new cluster, beside so many others, of an observation of group g that has the log density log_p there."""
    return log_p + state.cache.log_new[g] + state.cache.log_next[others]


# ---- whole clusters


@root
@kernel
def log_cluster(state):
    """Contribution of every cluster of a mixture to the log prior at fixed u, its size apart: log of mass (tau + u)^sigma, or 0."""
    return state.cache.log_new[0] + log_pos(state.hyper[Hyper.TAU] + state.cache.A[0])


@kernel
def log_weight_of_size(state, size):
    """Log weight of a mixture's cluster of so many, but for (tau + u)^-size, which all partitions share."""
    return log_cluster(state) + state.cache.log_rising[size]


@kernel
def log_weight_of(data, state, size, log_K_sum):
    """Log weight of a cluster of so many, in density regression with this sum of log K (P,)."""
    if not has_locations(state):
        return log_weight_of_size(state, size)
    log_sum = log_location_sum(data, state, log_K_sum, size, state.scratch.by_location[2])
    return state.cache.log_scale[0] + state.cache.log_rising[size] + log_sum


@kernel
def typical_log_weight(data, state):
    """Contribution of every cluster to the log prior, its size and the place of its observations apart: a constant for guides of trees."""
    if not has_locations(state):
        return log_cluster(state)
    total = 0.0
    for p in range(state.cache.log_b.shape[0]):
        total += data.R0[p] * state.cache.log_b[p]
    return state.cache.log_scale[0] + state.hyper[Hyper.SIGMA] * total


@kernel
def log_split_weight(data, state, reach, first, second, n_first, n_second, others):
    """Log weight of two clusters, the second beside so many others, over that of the two as one.

    reach[first] and reach[second], (P,) rows of `Cache.log_K_sum` or of scratch like it, say where they reach in density regression.
    """
    sizes = state.cache.log_rising[n_first] + state.cache.log_rising[n_second] - state.cache.log_rising[n_first + n_second]
    if not has_locations(state):
        return log_cluster(state) + state.cache.log_next[others] + sizes
    whole, terms = state.scratch.by_location[1], state.scratch.by_location[2]
    for p in range(whole.shape[0]):
        whole[p] = reach[first, p] + reach[second, p]
    return (
        state.cache.log_scale[0] + state.cache.log_next[others] + sizes + log_location_sum(data, state, reach[first], n_first, terms)
        + log_location_sum(data, state, reach[second], n_second, terms)
        - log_location_sum(data, state, whole, n_first + n_second, terms)
    )


# ---- two parts of a cluster that a move tries: of `reach` (REACH, P), scratch of the move, rows `part` have their sums of log K, rows
# PARTS + part the posterior of their locations over tau + A; P = 0 in a mixture


@kernel
def empty_part(reach, part):
    for p in range(reach.shape[1]):
        reach[part, p] = 0.0


@kernel
def extend_part(data, state, reach, part, i, sign):
    """Observation i enters (+1) or leaves (-1) a part."""
    if has_locations(state):
        add_log_K(data, state, data.group[i], sign, reach[part])


@kernel
def weigh_part(data, state, reach, part, size):
    """Refresh the posterior of the location of a part of so many, before `log_part_weight`."""
    if has_locations(state):
        log_location_sum(data, state, reach[part], size, reach[PARTS + part])
        multiply(reach[PARTS + part], state.cache.inverse_b, reach[PARTS + part])


@kernel
def log_part_weight(data, state, reach, part, size, i, is_in):
    """Log weight of a part of so many with observation i, over that without it."""
    if not has_locations(state):
        return state.cache.log_size[size - (1 if is_in else 0)]
    if is_in:
        return location_weight_without(data, state, reach[part], reach[PARTS + part], size, data.group[i])
    return location_weight(state, reach[PARTS + part], size, data.group[i])


@kernel
def weigh_as(data, state, k, log_K_sum):
    """Refresh what is kept of cluster k, whose members have this sum of log K (P,)."""
    weigh(state, k)
    if has_locations(state):
        for p in range(log_K_sum.shape[0]):
            state.cache.log_K_sum[k, p] = log_K_sum[p]
        weigh_locations(data, state, k)


# ---- what is kept


@kernel
def weigh(state, k):
    """Refresh log (n_c - sigma) - log (tau + u) of a mixture's cluster."""
    state.cache.log_weight[k] = state.cache.log_size[state.size[k]] - state.cache.log_b[0]


@kernel
def weigh_with(data, state, i, k, sign):
    """Refresh what is kept of cluster k, which observation i has entered (+1) or left (-1)."""
    weigh(state, k)
    if has_locations(state):
        add_log_K(data, state, data.group[i], sign, state.cache.log_K_sum[k])
        weigh_locations(data, state, k)


@entry(ALL_T)
def refresh_caches_entry(data, state):
    G, P = state.cache.K.shape
    sigma, tau = state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU]
    for m in range(1, state.cache.log_size.shape[0]):
        state.cache.log_size[m] = log_pos(m - sigma)
    state.cache.log_rising[1] = 0.0
    for m in range(2, state.cache.log_size.shape[0]):
        state.cache.log_rising[m] = state.cache.log_rising[m - 1] + state.cache.log_size[m - 1]
    if is_integrated(data):  # log (theta + sigma K), or what a table says; beside no other cluster there is no choice
        for K in range(1, state.cache.log_next.shape[0]):
            if data.setup[Setup.MEASURE] == GIBBS_TYPE:
                state.cache.log_next[K] = log_V_ratio(data, 0, K) if K < state.labels.shape[0] else -math.inf
            else:
                new = mass_of_new(data, state.hyper[Hyper.MASS], sigma, K)
                state.cache.log_next[K] = math.log(new) if new > 0.0 else -math.inf
    scale = math.log(state.hyper[Hyper.MASS]) if not is_integrated(data) else -sigma * total_growth(data, state, sigma)
    state.cache.log_scale[0] = scale
    state.cache.log_b[0] = log_pos(tau + state.cache.A[0])
    for k in range(state.num[Count.CLUSTERS]):
        weigh(state, k)
    rate = state.scratch.by_location[0]
    for p in range(P):
        rate[p] = data.R0[p] * math.exp((sigma - 1.0) * math.log(max(tau + state.cache.A[p], TINY)) + scale)
    for g in range(G):
        first, last = state.cache.band[g, 0], state.cache.band[g, 1]
        state.cache.log_new[g] = math.log(weighted_sum(rate[first:last], state.cache.K[g, first:last]))
    if has_locations(state):
        refresh_locations(data, state)
    return DONE


@kernel
def refresh_caches(data, state):
    """Cached logarithms after any change of v, the hyperparameters or the locations.

    A new cluster beside K others has the weight exp(log_new + log_next[K]).  `log_scale` is log mass, or where the mass is integrated out
    what takes its place, 1 / (1 + sigma T) = exp(-sigma L).
    """
    call_all(data.setup[Setup.REFRESH], data, state)


@kernel
def set_A(data, state, A):
    """A of a recorded draw, from which predictions follow; in a mixture it is u, and what is kept is refreshed."""
    for p in range(A.shape[0]):
        state.cache.A[p] = A[p]
    if is_mixture(data):
        state.v[0] = A[0]
        refresh_caches(data, state)
