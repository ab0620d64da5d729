"""Collapsed marginal Gibbs: one observation at a time (Neal 2000, algorithm 3, for normalised random measures).

Given v, observation i joins cluster c of a mixture with weight (n_c - sigma)/(tau + u) p(y_i | y_c), or opens a new one with mass (tau +
u)^(sigma - 1) p(y_i).  In density regression the first factors are h(c + i)/h(c) and h(i) of `nrmmix.kernels.core.locations`. Where the
total mass is integrated out, the weight of a new cluster depends on the number of other clusters too: `log_next`. Where parameters cannot
be integrated out, see `nrmmix.kernels.moves.algorithm8`; where missing cells cannot, `nrmmix.kernels.moves.imputation`.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import relocate, score_columns, score_without
from nrmmix.kernels.core.entry import MOVE_T, call_move, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import draw_index
from nrmmix.kernels.core.state import (
    ACCEPTED,
    BAD_ROW,
    BROKEN,
    CURSOR,
    DONE,
    GIVE_UP,
    GIVEN_UP,
    HALT,
    HALTED,
    HEED_EVERY,
    N_CLUSTERS,
    N_MOVED,
    N_SCORED,
    NEED_ROOM,
    PROPOSED,
)
from nrmmix.kernels.measure.weights import log_join_weights, log_new_weight
from nrmmix.kernels.moves.algorithm8 import algorithm8_one
from nrmmix.kernels.moves.imputation import redraw_cells
from nrmmix.kernels.moves.shared import random_subset


@kernel
def gibbs_one(data, state, i, rng):
    """Redraw the cluster of observation i, which may be unassigned (-1)."""
    K = state.num[N_CLUSTERS]
    k_old = state.labels[i]
    g = data.group[i]
    alone = k_old >= 0 and state.size[k_old] == 1
    own = -1 if alone else k_old
    p = state.score
    log_join_weights(state, K, g, own)
    if data.explicit.shape[0] > 0:
        return algorithm8_one(data, state, i, own, rng)
    weight = p[own] if own >= 0 else 0.0
    score_columns(data, state.stat, state.work, p, K, i, own)
    if own >= 0 and math.isnan(p[own]):
        p[own] = weight + score_without(data, state, i, own)
    new = k_old if alone else K  # a singleton's own column stands for the new cluster
    m = K if alone else K + 1
    p[new] = log_new_weight(state, g, m - 1, data.log_prior_predictive[i])
    state.num[N_SCORED] += m
    k = draw_index(p, m, rng.random())
    if k < 0:
        state.num[BAD_ROW] = i
        return BROKEN
    if k == k_old:
        return DONE
    relocate(data, state, i, k)
    return DONE


@kernel
def allocate(data, state, order, count, rng):
    """Redraw the clusters of the first observations of the order, one by one; of the rows where it is empty.

    Those that are unassigned enter, each given those before it: the sequential start.  A sweep of all rows halts when it
    is told to; others give up when they have to, and a start goes on at CURSOR.
    """
    first = state.num[CURSOR]
    for t in range(first, count):
        if state.num[HALT] != 0 and t > first and t % HEED_EVERY == 0:
            state.num[CURSOR] = t
            if order.shape[0] == 0:
                return HALTED
            if state.num[HALT] == GIVE_UP:
                return GIVEN_UP
        i = order[t] if order.shape[0] > 0 else t
        if state.num[N_CLUSTERS] > state.size.shape[0] - 3:
            state.num[CURSOR] = t
            return NEED_ROOM
        status = gibbs_one(data, state, i, rng)
        if status != DONE:
            return status
        redraw_cells(data, state, i, rng)
    state.num[CURSOR] = 0
    return DONE


@entry(MOVE_T)
def gibbs(data, state, memory, rng):
    """One sweep over all observations, or over a subset of option[0] of them that does not depend on the partition.

    ints: where there is a subset, the numbers of all observations in some order (all 0 at first); if option[1] is 1 those to visit.
    """
    n = state.labels.shape[0]
    order, count = memory.ints, n
    if order.shape[0] > 0:
        count = int(memory.option[0])
        if state.num[CURSOR] == 0 and memory.option[1] == 0.0:
            for i in range(n):
                order[i] = i
            random_subset(order, count, rng)
    moved = state.num[N_MOVED]
    status = allocate(data, state, order, count, rng)
    memory.tally[ACCEPTED] += state.num[N_MOVED] - moved
    if status == DONE:
        memory.tally[PROPOSED] += count
    return status


@kernel
def enter(address, data, state, memory, rng):
    """Observations enter one by one, by the entry point `gibbs` at its address: its machine code serves sweeps too."""
    return call_move(address, data, state, memory, rng)
