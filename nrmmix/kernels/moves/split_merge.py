"""Split-merge moves: two observations drawn at random are parted, or their clusters joined, together with the others there.

A split is proposed by restricted Gibbs scans from a random allocation (Jain & Neal 2004), or by adding the others one by one, in random
order, to the two clusters that the pair begins (Dahl 2003).  A merge is accepted with the probability that the same proposal would have
drawn the split it undoes.  All at fixed v, which is part of the state, and with the locations of density regression integrated out.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import copy_column, drop_cluster, empty_column, marginal_column, score_columns, update_column
from nrmmix.kernels.core.entry import MOVE_T, call_move, entry
from nrmmix.kernels.core.jit import inlined, kernel
from nrmmix.kernels.core.locations import add_row
from nrmmix.kernels.core.special import draw_integer, with_factor
from nrmmix.kernels.core.state import DONE, GIVE_UP, GIVEN_UP, HEED_EVERY, NEED_ROOM, PROPOSED, TALLY, Count
from nrmmix.kernels.measure.weights import (
    REACH,
    empty_part,
    extend_part,
    log_part_weight,
    log_split_weight,
    weigh_as,
    weigh_part,
)
from nrmmix.kernels.moves.imputation import redraw_cells
from nrmmix.kernels.moves.shared import exceeds, random_subset

# Columns of Scratch.trial: the two clusters, one of them without an observation, and both together.
FIRST_PART, SECOND_PART, WITHOUT, WHOLE = 0, 1, 2, 3
TRIAL = 4
SPLIT, MERGE = 0, 1  # kinds of the tally
PAIR = 4  # numbers behind the rows in memory.ints: the pair, how many others there are with it, and 1 where their parts are given
INTS = 3  # numbers for each row there: others in the clusters of the pair, their parts, and the parts that are given


@kernel
def fill_part(data, trial, column, members, part, i, j, which, without):
    """A column of those that are in part `which`, which i or j began, but for `without`."""
    empty_column(data, trial, column)
    update_column(data, trial, column, i if which == 0 else j, 1.0)
    for t in range(members.shape[0]):
        if part[t] == which and members[t] != without:
            update_column(data, trial, column, members[t], 1.0)


@kernel
def start_part(data, state, reach, part, i):
    empty_column(data, state.scratch.trial, part)
    empty_part(reach, part)
    enter_part(data, state, reach, part, i, 1)


@kernel
def enter_part(data, state, reach, part, i, size):
    """Observation i enters a part, which has so many then."""
    update_column(data, state.scratch.trial, part, i, 1.0)
    extend_part(data, state, reach, part, i, 1.0)
    weigh_part(data, state, reach, part, size)


@kernel
def start_parts(data, state, reach, i, j, sizes):
    start_part(data, state, reach, FIRST_PART, i)
    start_part(data, state, reach, SECOND_PART, j)
    sizes[0], sizes[1] = 1, 1


@inlined
def choose_part(score, wanted, rng):
    """A part by the log weights score[:2], or the one that is wanted (not -1); its log odds and its probability."""
    log_odds = score[1] - score[0]
    if math.isnan(log_odds):  # neither can hold the observation: such a proposal is refused in the end
        log_odds = 0.0
    p = 1.0 / (1.0 + math.exp(min(-log_odds, 700.0)))
    which = wanted
    if which < 0:
        which = 1 if rng.random() < p else 0
    if which == 1:
        return which, log_odds, p
    return which, -log_odds, 1.0 / (1.0 + math.exp(min(log_odds, 700.0)))


@kernel
def score_own_part(data, state, reach, members, part, i, j, sizes, m, own):
    """scratch.score[own], where the family cannot take m out of its column to full accuracy."""
    trial, out = state.scratch.trial, state.scratch.score
    other = out[1 - own]
    copy_column(trial, trial, own, WITHOUT)
    if not update_column(data, trial, WITHOUT, m, -1.0):
        fill_part(data, trial, WITHOUT, members, part, i, j, own, m)
    for which in range(3):
        out[which] = 0.0
    score_columns(data, trial, state.scratch.work, out, 3, m, -1)
    out[own] = log_part_weight(data, state, reach, own, sizes[own], m, True) + out[WITHOUT]
    out[1 - own] = other


@inlined
def score_parts(data, state, reach, members, part, i, j, sizes, m, own):
    """scratch.score[:2] = log weights of the two parts for observation m, without itself in `own` (or -1)."""
    out = state.scratch.score
    for which in range(2):
        out[which] = log_part_weight(data, state, reach, which, sizes[which], m, own == which)
    score_columns(data, state.scratch.trial, state.scratch.work, out, 2, m, own)
    state.num[Count.SCORED] += 2
    if own >= 0 and math.isnan(out[own]):
        score_own_part(data, state, reach, members, part, i, j, sizes, m, own)


@kernel
def scan_parts(data, state, reach, members, part, target, forced, i, j, sizes, rng):
    """One restricted Gibbs scan, or the one that leads to `target` where it is forced; its log probability.

    It ends early where its move has to give up, and all that follows from it will be lost.
    """
    trial = state.scratch.trial
    log_q, product = 0.0, 1.0
    for t in range(members.shape[0]):
        if state.num[Count.HALT] == GIVE_UP and t % HEED_EVERY == 0:
            break
        m, own = members[t], part[t]
        score_parts(data, state, reach, members, part, i, j, sizes, m, own)
        which, log_odds, p = choose_part(state.scratch.score, target[t] if forced else -1, rng)
        log_q, product = with_factor(log_q, product, log_odds, p)
        if which != own:
            part[t] = which
            sizes[own] -= 1
            sizes[which] += 1
            if not update_column(data, trial, own, m, -1.0):
                fill_part(data, trial, own, members, part, i, j, own, -1)
            extend_part(data, state, reach, own, m, -1.0)
            weigh_part(data, state, reach, own, sizes[own])
            enter_part(data, state, reach, which, m, sizes[which])
    return log_q + math.log(product)


@inlined
def others_of(state, memory):
    """Sums of log K of parts; the rows beside the pair, their parts and those that are given; sizes of parts; the pair and its numbers."""
    ints, n = memory.ints, state.labels.shape[0]
    pair = ints[INTS * n + 2 : INTS * n + 2 + PAIR]
    count, reach = pair[2], memory.floats.reshape((REACH, state.cache.log_K_sum.shape[1]))
    return reach, ints[:count], ints[n : n + count], ints[2 * n : 2 * n + count], ints[INTS * n : INTS * n + 2], pair


@entry(MOVE_T)
def restricted_gibbs(data, state, memory, rng):
    """Random allocation, option[1] scans, and a last scan whose log probability counts, which scratch.score[0] gets.

    An entry point of its own, for sequential proposals do without.
    """
    reach, members, part, target, sizes, pair = others_of(state, memory)
    i, j, forced = pair[0], pair[1], pair[3] != 0
    start_parts(data, state, reach, i, j, sizes)
    for t in range(members.shape[0]):
        part[t] = draw_integer(2, rng)
        sizes[part[t]] += 1
        update_column(data, state.scratch.trial, part[t], members[t], 1.0)
        extend_part(data, state, reach, part[t], members[t], 1.0)
    for which in range(2):
        weigh_part(data, state, reach, which, sizes[which])
    for _ in range(int(memory.option[1])):
        scan_parts(data, state, reach, members, part, target, False, i, j, sizes, rng)
    state.scratch.score[0] = scan_parts(data, state, reach, members, part, target, forced, i, j, sizes, rng)
    return DONE


@kernel
def sequential_allocation(data, state, reach, members, part, target, forced, i, j, sizes, rng):
    """Members join the two parts one by one, in the order they come; log probability of the parts."""
    start_parts(data, state, reach, i, j, sizes)
    log_q, product = 0.0, 1.0
    for t in range(members.shape[0]):
        m = members[t]
        score_parts(data, state, reach, members, part, i, j, sizes, m, -1)
        part[t], log_odds, p = choose_part(state.scratch.score, target[t] if forced else -1, rng)
        log_q, product = with_factor(log_q, product, log_odds, p)
        sizes[part[t]] += 1
        enter_part(data, state, reach, part[t], m, sizes[part[t]])
    return log_q + math.log(product)


@kernel
def log_split_ratio(data, state, stat, reach, first, second, n_first, n_second, others):
    """log of p(two clusters) / p(one): columns and rows of the two, their sizes, and the number of clusters beside which the second is new.

    The column of both together is WHOLE.
    """
    return (
        log_split_weight(data, state, reach, first, second, n_first, n_second, others) + marginal_column(data, stat, first)
        + marginal_column(data, stat, second) - marginal_column(data, state.scratch.trial, WHOLE)
    )


@kernel
def part_clusters(data, state, reach, members, part, sizes, k, j):
    """The two parts become clusters: the first in the place of k, the second, which j began, a new one."""
    K = state.num[Count.CLUSTERS]
    copy_column(state.scratch.trial, state.stat, FIRST_PART, k)
    copy_column(state.scratch.trial, state.stat, SECOND_PART, K)
    state.size[k], state.size[K] = sizes[0], sizes[1]
    state.num[Count.CLUSTERS] = K + 1
    state.labels[j] = K
    for t in range(members.shape[0]):
        if part[t] == 1:
            state.labels[members[t]] = K
    weigh_as(data, state, k, reach[FIRST_PART])
    weigh_as(data, state, K, reach[SECOND_PART])


@kernel
def join_clusters(data, state, k, other):
    """Both become cluster k."""
    copy_column(state.scratch.trial, state.stat, WHOLE, k)
    state.size[k] += state.size[other]
    for m in range(state.labels.shape[0]):
        if state.labels[m] == other:
            state.labels[m] = k
    add_row(state.cache.log_K_sum[k], state.cache.log_K_sum[other], 1.0)
    weigh_as(data, state, k, state.cache.log_K_sum[k])
    drop_cluster(state, other)


@entry(MOVE_T)
def split_merge(data, state, memory, rng):
    """option[0] proposals, each a pair, and the split or merge that it asks for; option[2] the entry point of `restricted_gibbs`, or 0.

    ints: (INTS n + 2 + PAIR,); floats: (REACH P,), none in a mixture.
    """
    n, trial = state.labels.shape[0], state.scratch.trial
    for t in range(state.num[Count.CURSOR], int(memory.option[0]) if n > 1 else 0):
        K = state.num[Count.CLUSTERS]
        if K > state.size.shape[0] - 3:
            state.num[Count.CURSOR] = t
            return NEED_ROOM
        i = draw_integer(n, rng)
        j = draw_integer(n - 1, rng)
        if j >= i:
            j += 1
        k_i, k_j = state.labels[i], state.labels[j]
        splits = k_i == k_j
        log_split, count = 0.0, 0
        log_uniform = -rng.standard_exponential()
        if not splits:
            # the probability of the split that would undo it is at most 1: most merges are refused without it
            copy_column(state.stat, trial, k_i, WHOLE)
            for m in range(n):
                if state.labels[m] == k_j:
                    update_column(data, trial, WHOLE, m, 1.0)
                    state.num[Count.SCORED] += 1  # as much work
            log_split = log_split_ratio(data, state, state.stat, state.cache.log_K_sum, k_i, k_j, state.size[k_i], state.size[k_j], K - 1)
            if not -log_split > log_uniform:
                memory.tally[MERGE * TALLY + PROPOSED] += 1.0
                if state.num[Count.HALT] == GIVE_UP:
                    return GIVEN_UP
                continue
        for m in range(n):
            if (state.labels[m] == k_i or state.labels[m] == k_j) and m != i and m != j:
                memory.ints[count] = m
                count += 1
        numbers = memory.ints[INTS * n + 2 :]
        numbers[0], numbers[1], numbers[2], numbers[3] = i, j, count, 0 if splits else 1
        reach, members, part, target, sizes, _ = others_of(state, memory)
        sequential = memory.option[2] == 0.0
        if sequential:
            random_subset(members, count, rng)
        for m in range(count):
            target[m] = 0 if state.labels[members[m]] == k_i else 1
        if sequential:
            log_q = sequential_allocation(data, state, reach, members, part, target, not splits, i, j, sizes, rng)
        else:
            call_move(int(memory.option[2]), data, state, memory, rng)
            log_q = state.scratch.score[0]
        if splits:
            copy_column(state.stat, trial, k_i, WHOLE)
            log_split = log_split_ratio(data, state, trial, reach, FIRST_PART, SECOND_PART, sizes[0], sizes[1], K)
        if exceeds(memory, SPLIT if splits else MERGE, log_split - log_q if splits else log_q - log_split, log_uniform):
            state.num[Count.MOVED] += sizes[1]
            if splits:
                part_clusters(data, state, reach, members, part, sizes, k_i, j)
            else:
                join_clusters(data, state, k_i, k_j)
        if state.num[Count.HALT] == GIVE_UP:
            return GIVEN_UP
    for i in range(n if n > 1 else 0):
        redraw_cells(data, state, i, rng)
    state.num[Count.CURSOR] = 0
    return DONE
