"""Collapsed Gibbs where clusters are very many: every draw is one of all clusters, but hardly any row is scored in all.

Rows are visited in blocks of neighbours (`nrmmix.kernels.moves.places`).  Of a group of blocks, and then of each block, a family says for
each cluster what no row's log predictive there exceeds.  Those for which that is very little are far, and B is the sum of their weights as
if they had as much; the others are near, and each row is scored in these.  With N the weights of the near ones and a new cluster, the row
goes to one of them with probability N/(N + B) at once.  Otherwise it is scored in all; the far ones have weights F <= B together.  With
probability F/B it goes to one of those, and else to any, new or not, by their weights.  So a cluster of weight w has the probability

    near: w/(N + B) (1 + (B - F)/(N + F)) = w/(N + F),    far: w/F F/(N + B) + w/(N + F) (B - F)/(N + B) = w/(N + F),

that of a Gibbs step: which clusters are near is a matter of time, not of the law, and may depend on anything.  Only the order in which
rows are visited may not depend on the partition.  A cluster that a row enters or leaves is near from then on, and the bounds of the others
hold until the block, or the group, ends.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nrmmix.kernels.core.clusters import copy_column, relocate, score_columns, score_without
from nrmmix.kernels.core.entry import MOVE_T, call_bound, entry
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.special import draw_index, exp_any
from nrmmix.kernels.core.state import ACCEPTED, BROKEN, DONE, HALTED, NEED_ROOM, PROPOSED, Block, Count
from nrmmix.kernels.measure.weights import log_join_weights, log_new_weight
from nrmmix.kernels.moves.gibbs import allocate, gibbs_one, own_cluster
from nrmmix.kernels.moves.places import STACK, put_in_places
from nrmmix.kernels.trees.forest import log_add

MIN_ROWS, MIN_CLUSTERS = 20_000, 500  # of a table, and of a partition, from which on this is faster
BLOCK_ROWS, GROUP_ROWS = 16, 128  # at most, in a block, and in a group of blocks
LOG_FAR, LOG_FAR_OF_NEW = 16.0, 7.0  # far: so much below the best, or below a new cluster
MAX_NEAR, MAX_OF_GROUP = 512, 1536  # clusters that are near to a block, and to a group; where there are more, rows are scored in all
CROWDED = 2  # blocks without room, less those with it, from which on the rest of a group is swept as ever
LEFT, PAUSE, LONGEST_PAUSE = 1, 2, 255.0  # learnt, behind that of `gibbs`: groups that are not tried, as yet and after a crowded one
# option: behind those of `gibbs`, and clusters from which on there are near ones, the others of these
MANY, FAR, FAR_OF_NEW, IN_BLOCK, IN_GROUP, NEAR, NEAR_OF_GROUP = 3, 4, 5, 6, 7, 8, 9
# In pairs of row and cluster as a sweep scores them: a bound, and what a row costs beside its near clusters.
WORK_OF_BOUND, WORK_OF_ROW = 1, 80
ROOM = 16  # numbers of clusters beyond those of observations: up to whole vectors
BLOCKS, WORDS = 0, 1  # Memory.ints begins with the number of blocks, 0 before rows have been put in places


def scratch_size(n, d, n_stat, blocks, most):
    """Floats and integers for n rows of d responses, and `most` near clusters in the two lists."""
    return (n_stat + blocks) * most + blocks * (n + ROOM) + d, WORDS + 3 * n + 1 + STACK + 2 * (n + ROOM + 1) + most


class Near(NamedTuple):
    """Clusters that are near."""

    number: np.ndarray  # (most,) int64, their numbers
    place: np.ndarray  # (n + ROOM,) int64, by cluster: where it is among them, or -1 where it is far
    column: np.ndarray  # (S, most) copies of their statistics
    reach: np.ndarray  # (blocks, most) copies of what families' bounds need beside
    count: np.ndarray  # (1,) int64


@kernel
def _enlist(near, k):
    """Cluster k is near; where it is among them."""
    m = near.place[k]
    if m < 0:
        m = near.count[0]
        near.number[m], near.place[k] = k, m
        near.count[0] = m + 1
    return m


@kernel
def _add(state, reach, near, k):
    """Cluster k is near, and its statistics are as they are now."""
    m = _enlist(near, k)
    copy_column(state.stat, near.column, k, m)
    copy_column(reach, near.reach, k, m)


@kernel
def _copy(source, target, near):
    """Columns of all near clusters, row by row as they are in memory."""
    for r in range(target.shape[0]):
        for m in range(near.count[0]):
            target[r, m] = source[r, near.number[m]]


@kernel
def _forget(near):
    """All are far."""
    for m in range(near.count[0]):
        near.place[near.number[m]] = -1
    near.count[0] = 0


@kernel
def _emptied(near, k, last):
    """Cluster k is no more, and the last one has its number."""
    m, moved = near.place[k], near.place[last]
    if k != last:
        near.place[k] = moved
        if moved >= 0:
            near.number[moved] = k
    near.place[last] = -1
    if m >= 0:
        end = near.count[0] - 1
        near.count[0] = end
        if m < end:
            near.number[m] = near.number[end]
            near.place[near.number[m]] = m
            copy_column(near.column, near.column, end, m)
            copy_column(near.reach, near.reach, end, m)


@fast
def _best(bound, m):
    best = -math.inf
    for k in range(m):
        best = max(best, bound[k])
    return best


@fast
def _sum_below(bound, m, cut):
    """Sum of exp(bound - cut) where that is less than 1."""
    total = 0.0
    for k in range(m):
        total += exp_any(bound[k] - cut) if bound[k] < cut else 0.0
    return total


@kernel
def _cut(data, state, option, bound, m, members):
    """Log weights of less than this are far, of the m that are bounded."""
    new = math.inf
    for r in range(members.shape[0]):
        new = min(new, log_new_weight(state, 0, state.num[Count.CLUSTERS], data.log_prior_predictive[members[r]]))
    return max(_best(bound, m) - option[FAR], new - option[FAR_OF_NEW])


@kernel
def _fill_reach(data, state, reach, first, last, nobody):
    """Compute what bounds of clusters first..last-1 need beside their statistics."""
    for b in range(data.block.shape[0]):
        block = data.block[b]
        call_bound(block[Block.BOUND], data.rows, state.stat, state.scratch.work, reach[b], state.scratch.score, block, first, last, nobody)


@kernel
def _add_bounds(data, state, stat, reach, m, members):
    """Add to scratch.score[:m] what log predictives of members in clusters that they are not in do not exceed."""
    for b in range(data.block.shape[0]):
        block = data.block[b]
        call_bound(block[Block.BOUND], data.rows, stat, state.scratch.work, reach[b], state.scratch.score, block, 0, m, members)
    state.num[Count.SCORED] += WORK_OF_BOUND * m


@kernel
def _part(data, state, option, reach, group, near, members, log_B):
    """Find the clusters that are near to some rows, and log B of all the others; not a number where there is no room.

    Of those that are near to a group, or of all where that has none; log B of those that are far from it.
    """
    m, bound, most = group.count[0], state.scratch.score, near.number.shape[0] - 2 * members.shape[0]
    if m > 0:
        for e in range(m):
            bound[e] = state.cache.log_weight[group.number[e]]
        _add_bounds(data, state, group.column, group.reach, m, members)
    else:
        m = state.num[Count.CLUSTERS]
        for k in range(m):
            bound[k] = state.cache.log_weight[k]
        _add_bounds(data, state, state.stat, reach, m, members)
    cut = _cut(data, state, option, bound, m, members)
    total = _sum_below(bound, m, cut)
    for r in range(members.shape[0]):  # the clusters that they are in
        _enlist(near, state.labels[members[r]])
    for e in range(m):
        if not bound[e] < cut:  # or it is not a number
            if near.count[0] >= most:
                return math.nan
            _enlist(near, group.number[e] if group.count[0] > 0 else e)
    _copy(state.stat, near.column, near)
    _copy(reach, near.reach, near)
    return log_add(log_B, cut + math.log(total)) if total > 0.0 else log_B


@kernel
def _score_near(data, state, i, near):
    """Log weights of the near clusters for observation i into scratch.score; how many options there are.

    A singleton's own column stands for a new cluster; else that stands behind all.
    """
    p, own, k_old, m = state.scratch.score, own_cluster(state, i), state.labels[i], near.count[0]
    for e in range(m):
        p[e] = state.cache.log_weight[near.number[e]]
    at, weight = -1, 0.0
    if own >= 0:
        at, n = near.place[own], state.size[own]
        p[at] += state.cache.log_size[n - 1] - state.cache.log_size[n]
        weight = p[at]
    score_columns(data, near.column, state.scratch.work, p, m, i, at)
    if own >= 0 and math.isnan(p[at]):
        p[at] = weight + score_without(data, state, i, own)
    K = state.num[Count.CLUSTERS]
    state.num[Count.SCORED] += m + WORK_OF_ROW
    if own >= 0:
        p[m] = log_new_weight(state, 0, K, data.log_prior_predictive[i])
        return m + 1
    p[near.place[k_old]] = log_new_weight(state, 0, K - 1, data.log_prior_predictive[i])
    return m


@kernel
def _draw_by_all(data, state, i, near, log_B, rng):
    """The cluster of an observation that has not come to a near one, or K for a new one; -1 if a weight is not a number."""
    p, K, own, k_old = state.scratch.score, state.num[Count.CLUSTERS], own_cluster(state, i), state.labels[i]
    log_join_weights(data, state, K, 0, own)
    weight = p[own] if own >= 0 else 0.0
    score_columns(data, state.stat, state.scratch.work, p, K, i, own)
    if own >= 0 and math.isnan(p[own]):
        p[own] = weight + score_without(data, state, i, own)
    m = K + 1 if own >= 0 else K
    p[K if own >= 0 else k_old] = log_new_weight(state, 0, m - 1, data.log_prior_predictive[i])
    state.num[Count.SCORED] += m
    share = 0.0  # F/B
    for k in range(K):
        if near.place[k] < 0:
            share += math.exp(min(p[k] - log_B, 0.0))
    if rng.random() < share:
        for k in range(m):
            if k == K or near.place[k] >= 0:
                p[k] = -math.inf
    return draw_index(p, m, rng.random())


@kernel
def _keep_up(data, state, reach, group, near, k_old, was_alone, k, nobody):
    """An observation has left k_old, which it may have been alone in, for what is cluster k now; a list of none stays so."""
    last = state.num[Count.CLUSTERS]
    if was_alone:
        copy_column(reach, reach, last, k_old)
    else:
        _fill_reach(data, state, reach, k_old, k_old + 1, nobody)
    _fill_reach(data, state, reach, k, k + 1, nobody)
    for some in (group, near):
        if some.count[0] > 0:
            if was_alone:
                _emptied(some, k_old, last)
            else:
                _add(state, reach, some, k_old)
            _add(state, reach, some, k)


@kernel
def _redraw(data, state, i, near, log_B, rng):
    """A Gibbs step of observation i, whose cluster is near; a status."""
    p, k_old = state.scratch.score, state.labels[i]
    options = _score_near(data, state, i, near)
    p[options] = log_B
    e = draw_index(p, options + 1, rng.random())
    if e == options:
        k = _draw_by_all(data, state, i, near, log_B, rng)
    else:
        k = near.number[e] if 0 <= e < near.count[0] else state.num[Count.CLUSTERS]
    if e < 0 or k < 0:
        state.num[Count.BAD_ROW] = i
        return BROKEN
    if k != k_old:
        relocate(data, state, i, k)
    return DONE


@kernel
def _sweep_block(data, state, option, reach, members, group, near, log_B, rng):
    """The observations of a block; a status, and whether there was room.  Where too many clusters are near, they are scored in all."""
    log_B = _part(data, state, option, reach, group, near, members, log_B)
    has_room = not math.isnan(log_B)
    if not has_room:
        _forget(near)
    status = DONE
    for r in range(members.shape[0]):
        i, moved = members[r], state.num[Count.MOVED]
        k_old = state.labels[i]
        was_alone = state.size[k_old] == 1
        if has_room:
            status = _redraw(data, state, i, near, log_B, rng)
        else:
            status = gibbs_one(data, state, i, rng)
        if status != DONE:
            break
        if state.num[Count.MOVED] != moved:
            _keep_up(data, state, reach, group, near, k_old, was_alone, state.labels[i], members[:0])
    _forget(near)
    return status, has_room


@kernel
def _is_tried(learnt):
    """Whether it is the turn of a group to have near clusters; counts those that have not."""
    if learnt[LEFT] > 0.0:
        learnt[LEFT] -= 1.0
        return False
    return True


@kernel
def _take_heed(learnt, had_room):
    """After a group that was too crowded more and more are not tried."""
    if had_room:
        learnt[PAUSE] = 0.0
    else:
        learnt[PAUSE] = min(2.0 * learnt[PAUSE] + 1.0, LONGEST_PAUSE)
        learnt[LEFT] = learnt[PAUSE]


@kernel
def _near_of(ints, floats, n, n_stat, blocks, most):
    """One of the two lists in scratch, and what of it is left."""
    a, b, c, e = n + ROOM, n + ROOM + most, n_stat * most, (n_stat + blocks) * most
    near = Near(ints[a:b], ints[:a], floats[:c].reshape((n_stat, most)), floats[c:e].reshape((blocks, most)), ints[b : b + 1])
    return near, ints[b + 1 :], floats[e:]


@entry(MOVE_T)
def sweep_nearby(data, state, memory, rng):
    """One sweep over all observations, in the order of their places.

    ints: the number of blocks, the order, where blocks begin, which begin a group, a stack, two lists of near clusters.
    """
    n, n_stat, d, blocks = state.labels.shape[0], state.stat.shape[0], data.rows.y.shape[1], data.block.shape[0]
    ints, floats, option = memory.ints[WORDS:], memory.floats, memory.option
    order, begins, heads, stack = ints[:n], ints[n : 2 * n + 1], ints[2 * n + 1 : 3 * n + 1], ints[3 * n + 1 : 3 * n + 1 + STACK]
    group, ints, floats = _near_of(ints[3 * n + 1 + STACK :], floats, n, n_stat, blocks, int(option[NEAR_OF_GROUP]))
    near, ints, floats = _near_of(ints, floats, n, n_stat, blocks, int(option[NEAR]))
    reach = floats[: blocks * (n + ROOM)].reshape((blocks, n + ROOM))
    if memory.ints[BLOCKS] == 0:
        rows, of_group = int(option[IN_BLOCK]), int(option[IN_GROUP])
        memory.ints[BLOCKS] = put_in_places(data.rows.y, rows, of_group, order, begins, heads, floats[:n], floats[n : n + d], stack)
        for k in range(n + ROOM):
            group.place[k] = near.place[k] = -1
    begin, moved, log_B, status = state.num[Count.CURSOR], state.num[Count.MOVED], -math.inf, DONE
    done, end, is_parted, has_reach, crowded = begin, 0, False, False, 0
    for s in range(memory.ints[BLOCKS]):
        t, last = begins[s], begins[s + 1]
        if t < done:
            continue
        if heads[s] == 1:  # a sweep goes on with a group, not within one, for its list would be another then
            state.num[Count.CURSOR] = t
            if state.num[Count.HALT] != 0 and t > begin:
                status = HALTED
                break
            if state.num[Count.CLUSTERS] > state.size.shape[0] - 3 - int(option[IN_GROUP]):
                status = NEED_ROOM
                break
            end = s + 1
            while begins[end] < n and heads[end] == 0:
                end += 1
            _forget(group)
            is_parted, log_B = _is_tried(memory.learnt) and state.num[Count.CLUSTERS] >= int(option[MANY]), -math.inf
            if is_parted:
                if not has_reach:
                    _fill_reach(data, state, reach, 0, state.num[Count.CLUSTERS], order[:0])
                log_B = _part(data, state, option, reach, near, group, order[t : begins[end]], log_B)
                if math.isnan(log_B):  # blocks begin with all
                    _forget(group)
                    log_B = -math.inf
            has_reach, crowded = is_parted, 0
        if is_parted:
            status, has_room = _sweep_block(data, state, option, reach, order[t:last], group, near, log_B, rng)
            crowded += -1 if has_room else 1
            if crowded >= CROWDED or s + 1 == end:
                is_parted = crowded < CROWDED
                has_reach = is_parted
                _take_heed(memory.learnt, is_parted)
        else:
            state.num[Count.CURSOR], done = t, begins[end]
            status = allocate(data, state, order, done, rng)
        if status != DONE:
            break
    _forget(group)
    memory.tally[ACCEPTED] += state.num[Count.MOVED] - moved
    if status == DONE:
        state.num[Count.CURSOR] = 0
        memory.tally[PROPOSED] += n
    return status
