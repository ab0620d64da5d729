"""Columns of cluster statistics: the sums over a model's blocks, and observations entering and leaving clusters.

Invariants between moves: columns 0..K-1 are the clusters, none of them empty; `size`, `stat`, `location` and, in the cache, `log_weight`
of a column belong together; every label is in 0..K-1.
"""

from __future__ import annotations

from nrmmix.kernels.core.entry import (
    call_affinity,
    call_alone,
    call_combine,
    call_empty,
    call_marginal,
    call_score,
    call_score_four,
    call_transfer,
    call_update,
)
from nrmmix.kernels.core.jit import kernel, root
from nrmmix.kernels.core.locations import rebuild_log_K, weigh_locations
from nrmmix.kernels.core.state import DONE, FOUR, MISSING, OWN_OF_FOUR, ROWS_OF_FOUR, Block, Count
from nrmmix.kernels.measure.weights import has_locations, weigh_with


@root
@kernel
def empty_column(data, stat, k):
    for b in range(data.block.shape[0]):
        call_empty(data.block[b, Block.EMPTY], data.rows, stat, data.block[b], k)


@kernel
def update_column(data, stat, k, i, sign):
    """Add or remove observation i; False when a removal lost its digits and the column must be rebuilt."""
    sound = True
    for b in range(data.block.shape[0]):
        if call_update(data.block[b, Block.UPDATE], data.rows, stat, data.block[b], k, i, sign) != DONE:
            sound = False
    return sound


@kernel
def has_gaps(rows, i, first, last):
    """Whether row i misses any of the cells first..last-1 that the chain draws with its cluster, or a new row does."""
    if rows.missing.shape[0] > 0:
        for j in range(first, last):
            if rows.missing[i, j] == MISSING:
                return True
    return False


@kernel
def score_columns(data, stat, work, out, K, i, own):
    """Add to out[:K] the log predictive of observation i in each column, without i itself in column `own` (or -1).

    What stands in out[K:] may be overwritten.  A family that cannot take i out of `own` to full accuracy gives NaN there.
    """
    for b in range(data.block.shape[0]):
        call_score(data.block[b, Block.SCORE], data.rows, stat, work, out, data.block[b], K, i, own)


@kernel
def score_four(data, state):
    """Log predictives of scratch.four's observations in all clusters, into the last rows of scratch.work but one.

    Families must have the entry; their own clusters without themselves, NaN as in `score_columns`.
    """
    K, W = state.num[Count.CLUSTERS], state.scratch.work.shape[0] - 1
    out = state.scratch.work[W - FOUR : W]
    i, own = state.scratch.four[ROWS_OF_FOUR : ROWS_OF_FOUR + FOUR], state.scratch.four[OWN_OF_FOUR : OWN_OF_FOUR + FOUR]
    for r in range(FOUR):
        for k in range(K):
            out[r, k] = 0.0
    for b in range(data.block.shape[0]):
        call_score_four(data.block[b, Block.SCORE_FOUR], data.rows, state.stat, state.scratch.work, out, data.block[b], K, i, own)


@kernel
def score_columns_and_new(data, stat, work, out, K, i):
    """Add to out[:K] the log predictive of i in each column, and to out[K] log p(y_i); column K must be empty."""
    for b in range(data.block.shape[0]):
        block = data.block[b]
        if block[Block.ALONE] == 0:
            call_score(block[Block.SCORE], data.rows, stat, work, out, block, K + 1, i, -1)
        else:
            new = out[K]
            call_score(block[Block.SCORE], data.rows, stat, work, out, block, K, i, -1)
            out[K] = new + call_alone(block[Block.ALONE], data.rows, block, i)


@kernel
def fill_log_prior_predictive(data, state):
    """data.log_prior_predictive[i] = log p(y_i); the column after the last cluster is lost."""
    K = state.num[Count.CLUSTERS]
    copy_column(state.stat, state.stat, 0, K)  # scores are those of the first columns
    empty_column(data, state.stat, 0)
    for i in range(data.group.shape[0]):
        state.scratch.score[0] = 0.0
        score_columns_and_new(data, state.stat, state.scratch.work, state.scratch.score, 0, i)
        data.log_prior_predictive[i] = state.scratch.score[0]
    if K > 0:
        copy_column(state.stat, state.stat, K, 0)


@kernel
def marginal_column(data, stat, k):
    total = 0.0
    for b in range(data.block.shape[0]):
        total += call_marginal(data.block[b, Block.MARGINAL], data.rows, stat, data.block[b], k)
    return total


@kernel
def combine_columns(data, source_stat, target_stat, source, target):
    """Add the observations of column `source` to those of another column `target`."""
    for b in range(data.block.shape[0]):
        call_combine(data.block[b, Block.COMBINE], data.rows, source_stat, target_stat, data.block[b], source, target)


@kernel
def log_union(data, stat, k, other, m, trial, spare):
    """log p of the observations in column k of `stat` together with those in column m of `other`; column `spare` of `trial` is lost."""
    copy_column(stat, trial, k, spare)
    combine_columns(data, other, trial, m, spare)
    return marginal_column(data, trial, spare)


@kernel
def affinities(data, stat, k, other, K, out):
    """out[:K] = log p(y_a, y_b) - log p(y_a) - log p(y_b), a in column k of `stat` and b in each column of `other`, if families have it.

    False if one has not; then log unions say the same, as they do where the sum is NaN.
    """
    for b in range(data.block.shape[0]):
        if data.block[b, Block.AFFINITY] == 0:
            return False
    for m in range(K):
        out[m] = 0.0
    for b in range(data.block.shape[0]):
        call_affinity(data.block[b, Block.AFFINITY], data.rows, stat, other, out, data.block[b], k, K)
    return True


@kernel
def copy_column(source_stat, target_stat, source, target):
    for r in range(source_stat.shape[0]):
        target_stat[r, target] = source_stat[r, source]


@kernel
def fill_column(data, state, column, k, without):
    """Statistics of the members of cluster k, `without` one of them (or -1), into a column."""
    empty_column(data, state.stat, column)
    for j in range(state.labels.shape[0]):
        if state.labels[j] == k and j != without:
            update_column(data, state.stat, column, j, 1.0)


@kernel
def fill_columns(data, state):
    """All statistics of clusters from the observations."""
    for k in range(state.num[Count.CLUSTERS]):
        empty_column(data, state.stat, k)
    for i in range(state.labels.shape[0]):
        if state.labels[i] >= 0:
            update_column(data, state.stat, state.labels[i], i, 1.0)


@kernel
def rebuild(data, state):
    """All statistics and sums from the observations: rounding does not accumulate over a long run."""
    fill_columns(data, state)
    if has_locations(state):
        rebuild_log_K(data, state)
        for k in range(state.num[Count.CLUSTERS]):
            weigh_locations(data, state, k)


@kernel
def drop_cluster(state, k):
    """The last cluster moves into the place of k, which nobody is in."""
    last = state.num[Count.CLUSTERS] - 1
    state.num[Count.CLUSTERS] = last
    if k != last:
        copy_column(state.stat, state.stat, last, k)
        state.size[k] = state.size[last]
        state.location[k] = state.location[last]
        state.cache.log_weight[k] = state.cache.log_weight[last]
        for p in range(state.cache.log_K_sum.shape[1]):
            state.cache.log_K_sum[k, p] = state.cache.log_K_sum[last, p]
            state.cache.location_probability[k, p] = state.cache.location_probability[last, p]
            state.cache.probability_over_b[k, p] = state.cache.probability_over_b[last, p]
        left = state.size[k]
        for j in range(state.labels.shape[0]):
            if state.labels[j] == last:
                state.labels[j] = k
                left -= 1
                if left == 0:
                    break
    state.size[last] = 0


@kernel
def detach(data, state, i):
    """Take observation i out of its cluster; the last cluster moves into the place of one left empty."""
    k = state.labels[i]
    state.labels[i] = -1
    state.size[k] -= 1
    if state.size[k] > 0:
        if not update_column(data, state.stat, k, i, -1.0):
            fill_column(data, state, k, k, -1)
        weigh_with(data, state, i, k, -1.0)
    else:
        drop_cluster(state, k)


@kernel
def open_cluster(data, state):
    """A cluster more, without observations."""
    k = state.num[Count.CLUSTERS]
    empty_column(data, state.stat, k)
    state.size[k] = 0
    for p in range(state.cache.log_K_sum.shape[1]):
        state.cache.log_K_sum[k, p] = 0.0
    state.num[Count.CLUSTERS] = k + 1


@kernel
def attach(data, state, i, k):
    """Put observation i into cluster k; k = K opens a new one."""
    if k == state.num[Count.CLUSTERS]:
        open_cluster(data, state)
    state.labels[i] = k
    state.size[k] += 1
    update_column(data, state.stat, k, i, 1.0)
    weigh_with(data, state, i, k, 1.0)


@kernel
def relocate(data, state, i, k):
    """Observation i, which may be unassigned (-1), goes to cluster k, another than its own; k = K opens a new one."""
    state.num[Count.MOVED] += 1
    k_old = state.labels[i]
    if k_old >= 0:
        last = state.num[Count.CLUSTERS] - 1
        alone = state.size[k_old] == 1
        detach(data, state, i)
        if alone and k == last:  # the last cluster took the place of the emptied one
            k = k_old
    attach(data, state, i, k)


@kernel
def pass_on(data, state, i, k):
    """Move an observation that leaves others behind and joins others, by families' own entries where they have one."""
    k_old, lost = state.labels[i], False
    state.num[Count.MOVED] += 1
    state.labels[i] = k
    state.size[k_old] -= 1
    state.size[k] += 1
    for b in range(data.block.shape[0]):
        block = data.block[b]
        if block[Block.TRANSFER] != 0:
            lost |= call_transfer(block[Block.TRANSFER], data.rows, state.stat, block, k_old, k, i) != DONE
        else:
            lost |= call_update(block[Block.UPDATE], data.rows, state.stat, block, k_old, i, -1.0) != DONE
            call_update(block[Block.UPDATE], data.rows, state.stat, block, k, i, 1.0)
    if lost:
        fill_column(data, state, k_old, k_old, -1)
    weigh_with(data, state, i, k_old, -1.0)
    weigh_with(data, state, i, k, 1.0)


@kernel
def score_without(data, state, i, k):
    """Log predictive of member i of cluster k given the other members, from statistics without it."""
    spare = state.num[Count.CLUSTERS] + 2  # behind the columns of new clusters
    copy_column(state.stat, state.stat, k, spare)
    if not update_column(data, state.stat, spare, i, -1.0):
        fill_column(data, state, spare, k, i)
    out = state.scratch.work[state.scratch.work.shape[0] - 1]
    out[spare] = 0.0
    score_columns(data, state.stat, state.scratch.work, out, spare + 1, i, -1)
    return out[spare]
