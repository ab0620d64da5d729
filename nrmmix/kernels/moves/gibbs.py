"""Collapsed marginal Gibbs: one observation at a time (Neal 2000, algorithm 3, for normalised random measures).

Given v, observation i joins cluster c of a mixture with weight (n_c - sigma)/(tau + u) p(y_i | y_c), or opens a new one with mass (tau +
u)^(sigma - 1) p(y_i).  In density regression the first factors are h(c + i)/h(c) and h(i) of `nrmmix.kernels.core.locations`. Where the
total mass is integrated out, the weight of a new cluster depends on the number of other clusters too: `log_next`. Where parameters cannot
be integrated out, see `nrmmix.kernels.moves.algorithm8`; where missing cells cannot, `nrmmix.kernels.moves.imputation`.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import copy_column, pass_on, relocate, score_columns, score_four, score_without
from nrmmix.kernels.core.entry import MOVE_T, call_move, call_one, entry
from nrmmix.kernels.core.jit import inlined, kernel, root, woven
from nrmmix.kernels.core.special import FAR, draw_index, draw_near, prefetch
from nrmmix.kernels.core.state import (
    ACCEPTED,
    BROKEN,
    CHANGED,
    DONE,
    FOUR,
    GIVE_UP,
    GIVEN_UP,
    HALTED,
    HEED_EVERY,
    NEED_ROOM,
    OWN_OF_FOUR,
    PROPOSED,
    ROWS_OF_FOUR,
    Block,
    Count,
    Setup,
)
from nrmmix.kernels.measure.weights import has_locations, log_join_weights, log_new_weight
from nrmmix.kernels.moves.imputation import redraw_cells
from nrmmix.kernels.moves.shared import random_subset

MIN_FOR_FOUR = 16  # clusters; fewer are scored as fast one by one
NEARBY, MANY = 2, 3  # options: the entry point of sweeps of very many clusters, and how many are so
HEATED_SWEEPS, LOWEST_POWER = 40, 0.02  # of a start, and of the likelihood in the first of them
BY_PLACE = 0  # learnt: 1 where rows are visited in the order of their places
TRIAL = 8  # columns of Scratch.trial: three observations change two clusters each


@inlined
def own_cluster(state, i):
    """The cluster that observation i shares with others, or -1."""
    k = state.labels[i]
    return k if k >= 0 and state.size[k] > 1 else -1


@woven
@kernel
def gibbs_one(data, state, i, rng):
    """Redraw the cluster of observation i, which may be unassigned (-1)."""
    own = own_cluster(state, i)
    log_join_weights(data, state, state.num[Count.CLUSTERS], data.group[i], own)
    if data.explicit.shape[0] > 0:
        return call_one(data.setup[Setup.ALGORITHM8], data, state, i, own, rng)
    if state.num[Count.HEAT] > 0:
        keep_weights(state)
    score_all(data, state, i, own)
    if state.num[Count.HEAT] > 0:
        take_power(state)
    return draw_cluster(data, state, i, rng)


# ---- powers of the likelihood, at which chains may start


@inlined
def power(state):
    """Return the power of the likelihood: it rises to 1, where no heated sweeps are still to come."""
    return 1.0 - (1.0 - LOWEST_POWER) * state.num[Count.HEAT] / HEATED_SWEEPS


@kernel
def keep_weights(state):
    """Put the log weights of the clusters aside, for `take_power`."""
    kept = state.scratch.work[state.scratch.work.shape[0] - 1]
    for k in range(state.num[Count.CLUSTERS]):
        kept[k] = state.scratch.score[k]


@kernel
def take_power(state):
    """Make of log weight + log predictive in scratch.score the log weight of clusters whose likelihood is raised to the power."""
    kept, beta = state.scratch.work[state.scratch.work.shape[0] - 1], power(state)
    for k in range(state.num[Count.CLUSTERS]):
        state.scratch.score[k] = kept[k] + beta * (state.scratch.score[k] - kept[k])


@woven
@kernel
def score_all(data, state, i, own):
    """Add to scratch.score, which holds log weights, the log predictives of observation i, without itself in `own` (or -1)."""
    K, p = state.num[Count.CLUSTERS], state.scratch.score
    weight = p[own] if own >= 0 else 0.0
    score_columns(data, state.stat, state.scratch.work, p, K, i, own)
    if own >= 0 and math.isnan(p[own]):
        p[own] = weight + score_without(data, state, i, own)


@woven
@kernel
def draw_cluster(data, state, i, rng):
    """Observation i goes to a cluster that is drawn by the log weights of all, in scratch.score, or to a new one."""
    p, K, k_old = state.scratch.score, state.num[Count.CLUSTERS], state.labels[i]
    alone = k_old >= 0 and state.size[k_old] == 1
    new = k_old if alone else K  # a singleton's own column stands for the new cluster
    m = K if alone else K + 1
    log_alone = data.log_prior_predictive[i]
    if state.num[Count.HEAT] > 0:
        log_alone *= power(state)
    p[new] = log_new_weight(state, data.group[i], m - 1, log_alone)
    state.num[Count.SCORED] += m
    r = rng.random()
    if state.num[Count.HEAT] > 0:
        k = draw_index(p, m, r)
    else:
        k = draw_near(p, m, p[new if alone or k_old < 0 else k_old], r)
    if k == FAR:
        own = own_cluster(state, i)
        log_join_weights(data, state, K, data.group[i], own)
        score_all(data, state, i, own)
        p[new] = log_new_weight(state, data.group[i], m - 1, data.log_prior_predictive[i])
        k = draw_index(p, m, r)
    if k < 0:
        state.num[Count.BAD_ROW] = i
        return BROKEN
    if k == k_old:
        return DONE
    if k_old >= 0 and not alone and k < K:
        pass_on(data, state, i, k)
    else:
        relocate(data, state, i, k)
    return DONE


# ---- four observations at once
#
# The statistics of all clusters are read once for them: they are scored in the clusters as these are before the first of the four is
# redrawn.  Then they are redrawn one after the other as ever, each scored anew in the clusters that one before it has left or entered.


@kernel
def can_score_four(data, state):
    """Whether all families have the entry, component parameters are integrated out and no cells are missing."""
    if data.rows.missing.shape[0] > 0 or data.explicit.shape[0] > 0 or state.scratch.trial.shape[1] < TRIAL or state.num[Count.HEAT] > 0:
        return False
    for b in range(data.block.shape[0]):
        if data.block[b, Block.SCORE_FOUR] == 0:
            return False
    return True


@kernel
def score_next_four(data, state, order, t):
    """Score the observations at places t..t + 3 of the order, or those rows where it is empty."""
    four = state.scratch.four
    for r in range(FOUR):
        i = order[t + r] if order.shape[0] > 0 else t + r
        four[ROWS_OF_FOUR + r], four[OWN_OF_FOUR + r] = i, own_cluster(state, i)
    four[CHANGED] = 0
    score_four(data, state)


@kernel
def add_changed(four, k):
    """Cluster k (or none, -1) has changed since the four were scored."""
    first = CHANGED + 1
    last = first + four[CHANGED]
    for t in range(first, last):
        if four[t] == k:
            return
    if k >= 0:
        four[last] = k
        four[CHANGED] += 1


@woven
@kernel
def score_one_of_four(data, state, r, own):
    """Add to scratch.score the log predictives of the r-th of the four in all clusters, without itself in `own` (or -1)."""
    K, W, p = state.num[Count.CLUSTERS], state.scratch.work.shape[0] - 1, state.scratch.score
    trial, four = state.scratch.trial, state.scratch.four
    found, scores, i = state.scratch.work[W], state.scratch.work[W - FOUR + r], four[ROWS_OF_FOUR + r]
    weight = p[own] if own >= 0 else 0.0
    m, place = 0, -1
    for t in range(CHANGED + 1, CHANGED + 1 + four[CHANGED]):
        k = four[t]
        if k < K:
            if k == own:
                place = m
            copy_column(state.stat, trial, k, m)
            found[m] = p[k]
            m += 1
    for k in range(K):
        p[k] += scores[k]
    if m > 0:
        score_columns(data, trial, state.scratch.work, found, m, i, place)
        m = 0
        for t in range(CHANGED + 1, CHANGED + 1 + four[CHANGED]):
            if four[t] < K:
                p[four[t]] = found[m]
                m += 1
    if own >= 0 and math.isnan(p[own]):
        p[own] = weight + score_without(data, state, i, own)


@woven
@kernel
def gibbs_one_of_four(data, state, i, r, rng):
    """Draw the cluster of the r-th of the observations that `score_next_four` has scored."""
    own, k_old, moved = own_cluster(state, i), state.labels[i], state.num[Count.MOVED]
    log_join_weights(data, state, state.num[Count.CLUSTERS], data.group[i], own)
    score_one_of_four(data, state, r, own)
    status = draw_cluster(data, state, i, rng)
    if state.num[Count.MOVED] != moved:
        add_changed(state.scratch.four, k_old)
        add_changed(state.scratch.four, state.labels[i])
    return status


# ---- sweeps


@kernel
def allocate(data, state, order, count, rng):
    """Redraw the clusters of the first observations of the order, one by one; of the rows where it is empty.

    Those that are unassigned enter, each given those before it: the sequential start.  A sweep of all rows halts when it
    is told to; others give up when they have to, and a start goes on at CURSOR.
    """
    first, at_once = state.num[Count.CURSOR], -FOUR
    fours, by_location, has_missing = can_score_four(data, state), has_locations(state), data.rows.missing.shape[0] > 0
    for t in range(first, count):
        if state.num[Count.HALT] != 0 and t > first and t % HEED_EVERY == 0:
            state.num[Count.CURSOR] = t
            if order.shape[0] == 0:
                return HALTED
            if state.num[Count.HALT] == GIVE_UP:
                return GIVEN_UP
        i = order[t] if order.shape[0] > 0 else t
        if state.num[Count.CLUSTERS] > state.size.shape[0] - 3:
            state.num[Count.CURSOR] = t
            return NEED_ROOM
        if by_location and t + 1 < count:
            prefetch(state.cache.K[data.group[order[t + 1] if order.shape[0] > 0 else t + 1]])
        if fours and t >= at_once + FOUR and t + FOUR <= count and state.num[Count.CLUSTERS] >= MIN_FOR_FOUR:
            score_next_four(data, state, order, t)
            at_once = t
        if t < at_once + FOUR:
            status = gibbs_one_of_four(data, state, i, t - at_once, rng)
        else:
            status = gibbs_one(data, state, i, rng)
        if status != DONE:
            return status
        if has_missing:
            redraw_cells(data, state, i, rng)
    state.num[Count.CURSOR] = 0
    return DONE


@entry(MOVE_T)
def gibbs(data, state, memory, rng):
    """One sweep over all observations, or over a subset of option[0] of them that does not depend on the partition.

    ints: where there is a subset, the numbers of all observations in some order (all 0 at first); if option[1] is 1 those to visit.
    Where option[2] is an address of `nrmmix.kernels.moves.nearby`, tuning says whether it sweeps: the order may not follow the partition.
    """
    n = state.labels.shape[0]
    order, count = memory.ints, n
    if memory.option.shape[0] > MANY and memory.option[NEARBY] != 0.0:
        if state.num[Count.TUNING] != 0 and state.num[Count.CURSOR] == 0:
            memory.learnt[BY_PLACE] = 1.0 if state.num[Count.CLUSTERS] >= int(memory.option[MANY]) else 0.0
        if memory.learnt[BY_PLACE] != 0.0:
            return call_move(int(memory.option[NEARBY]), data, state, memory, rng)
        order = memory.ints[:0]
    if order.shape[0] > 0:
        count = int(memory.option[0])
        if state.num[Count.CURSOR] == 0 and memory.option[1] == 0.0:
            for i in range(n):
                order[i] = i
            random_subset(order, count, rng)
    moved = state.num[Count.MOVED]
    status = allocate(data, state, order, count, rng)
    memory.tally[ACCEPTED] += state.num[Count.MOVED] - moved
    if status == DONE:
        memory.tally[PROPOSED] += count
    return status


@root
@kernel
def enter(address, data, state, memory, rng):
    """Observations enter one by one, by the entry point `gibbs` at its address: its machine code serves sweeps too."""
    return call_move(address, data, state, memory, rng)
