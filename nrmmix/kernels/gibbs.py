"""Collapsed marginal Gibbs: one observation at a time (Neal 2000, algorithm 3, for normalised random measures).

Given v, observation i of group g joins cluster m with weight K(x_g, mu_m) (n_m - sigma)/(tau + A) p(y_i | y_m), or opens a new one with
weight p(y_i) sum_p R0(p) mass K(x_g, p) (tau + A_p)^(sigma - 1), its location drawn from the terms of that sum.
"""

from __future__ import annotations

import math

from nrmmix.kernels.clusters import attach, detach, score_columns, score_without, weigh
from nrmmix.kernels.entry import MOVE_T, entry
from nrmmix.kernels.jit import fast, kernel
from nrmmix.kernels.nrm import draw_index, draw_location
from nrmmix.kernels.state import BAD_ROW, BROKEN, CURSOR, DONE, N_CLUSTERS, N_MOVED, N_SCORED, NEED_ROOM


@fast
def prior_weights(out, K, log_weight, location, log_K_row):
    if log_K_row.shape[0] == 1:
        for k in range(K):
            out[k] = log_weight[k]
    else:
        for k in range(K):
            out[k] = log_weight[k] + log_K_row[location[k]]


@kernel
def gibbs_one(data, state, i, rng):
    """Redraw the cluster of observation i, which may be unassigned (-1)."""
    K = state.num[N_CLUSTERS]
    k_old = state.labels[i]
    g = data.group[i]
    alone = k_old >= 0 and state.size[k_old] == 1
    own = -1 if alone else k_old
    p = state.score
    prior_weights(p, K, state.log_weight, state.location, state.log_K[g])
    if own >= 0:
        n = state.size[own]
        p[own] += state.log_size[n - 1] - state.log_size[n]
    weight = p[own] if own >= 0 else 0.0
    score_columns(data, state.stat, state.work, p, K, i, own)
    if own >= 0 and math.isnan(p[own]):
        p[own] = weight + score_without(data, state, i, own)
    new = k_old if alone else K  # a singleton's own column stands for the new cluster
    p[new] = data.alone[i] + state.log_new[g]
    m = K if alone else K + 1
    state.num[N_SCORED] += m
    k = draw_index(p, m, rng.random())
    if k < 0:
        state.num[BAD_ROW] = i
        return BROKEN
    if k == new:
        location = draw_location(data, state, g, rng)
        if alone:
            state.location[k] = location
            weigh(state, k)
            return DONE
    else:
        location = 0
        if k == k_old:
            return DONE
    state.num[N_MOVED] += 1
    if k_old >= 0:
        last = K - 1
        detach(data, state, i)
        if alone and k == last:  # the last cluster took the place of the emptied one
            k = k_old
    attach(data, state, i, k, location)
    return DONE


@entry(MOVE_T)
def gibbs(data, state, rng):
    """One sweep over all observations."""
    n = state.labels.shape[0]
    room = state.size.shape[0] - 3
    for i in range(state.num[CURSOR], n):
        if state.num[N_CLUSTERS] > room:
            state.num[CURSOR] = i
            return NEED_ROOM
        status = gibbs_one(data, state, i, rng)
        if status != DONE:
            return status
    state.num[CURSOR] = 0
    return DONE


@kernel
def allocate(data, state, order, rng):
    """Sequential start: unassigned observations enter one by one, each drawn given those before it."""
    for t in range(state.num[CURSOR], order.shape[0]):
        if state.num[N_CLUSTERS] > state.size.shape[0] - 3:
            state.num[CURSOR] = t
            return NEED_ROOM
        status = gibbs_one(data, state, order[t], rng)
        if status != DONE:
            return status
    state.num[CURSOR] = 0
    return DONE
