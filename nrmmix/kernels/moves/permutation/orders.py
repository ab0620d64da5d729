"""Orders of the observations in which the members of every cluster stand together (Liang, Jordan & Taskar 2007, sections 3 and 4).

Clusters come in uniformly random order, and so do members within a cluster, or by a Markov scan: the first uniformly, each next with
probability proportional to its predictive density given the one before it.  Along a random direction clusters are sorted by their mean
projection and members by their own: nothing is known of the probability of such an order.
"""

from __future__ import annotations

from nrmmix.kernels.core.clusters import empty_column, score_columns, update_column
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.special import draw_index
from nrmmix.kernels.core.state import BROKEN, DONE, GIVE_UP, GIVEN_UP, Block, Count
from nrmmix.kernels.moves.shared import random_subset, sort_together


@kernel
def count_up(out):
    for i in range(out.shape[0]):
        out[i] = i


@kernel
def group(labels, n_clusters, rank, source, first, order):
    """The entries of `source` into `order`, cluster by cluster by their rank, otherwise as they come; first (n_clusters,) is scratch."""
    for k in range(n_clusters):
        first[k] = 0
    for i in range(labels.shape[0]):
        first[rank[labels[i]]] += 1
    total = 0
    for k in range(n_clusters):
        total += first[k]
        first[k] = total - first[k]
    for t in range(source.shape[0]):
        k = rank[labels[source[t]]]
        order[first[k]] = source[t]
        first[k] += 1


@kernel
def uniform_order(state, order, source, rank, first, rng):
    K = state.num[Count.CLUSTERS]
    count_up(source)
    random_subset(source, source.shape[0], rng)
    count_up(rank[:K])
    random_subset(rank[:K], K, rng)
    group(state.labels, K, rank, source, first, order)


@kernel
def markov_scan(data, state, members, weight, rng):
    """Members, in uniform order, in the order of a Markov scan; scratch.trial holds the one before in its first column."""
    out = state.scratch.score
    for t in range(members.shape[0] - 2):
        if state.num[Count.HALT] == GIVE_UP:
            return GIVEN_UP
        empty_column(data, state.scratch.trial, 0)
        update_column(data, state.scratch.trial, 0, members[t], 1.0)
        left = members.shape[0] - t - 1
        for s in range(left):
            out[0] = 0.0
            score_columns(data, state.scratch.trial, state.scratch.work, out, 1, members[t + 1 + s], -1)
            weight[s] = out[0]
        state.num[Count.SCORED] += left
        s = draw_index(weight, left, rng.random())
        if s < 0:
            state.num[Count.BAD_ROW] = members[t]
            return BROKEN
        members[t + 1], members[t + 1 + s] = members[t + 1 + s], members[t + 1]
    return DONE


@kernel
def markov_order(data, state, order, source, rank, first, weight, rng):
    uniform_order(state, order, source, rank, first, rng)
    begin = 0
    while begin < order.shape[0]:
        k = state.labels[order[begin]]
        status = markov_scan(data, state, order[begin : begin + state.size[k]], weight, rng)
        if status != DONE:
            return status
        begin += state.size[k]
    return DONE


@fast
def project(rows, n_responses, direction, out):
    """out[i] = projection of row i on `direction`: its responses in kernel coordinates, then shares of words in sparse counts."""
    n = out.shape[0]
    for i in range(n):
        total = 0.0
        for j in range(n_responses):
            y = rows.y[i, j]
            total += direction[j] * y if y == y else 0.0
        out[i] = total
    for first in range(0, rows.indptr.shape[0], n + 1):
        for i in range(n):
            along, count = 0.0, 0.0
            for p in range(rows.indptr[first + i], rows.indptr[first + i + 1]):
                along += direction[n_responses + rows.indices[p]] * rows.counts[p]
                count += rows.counts[p]
            out[i] += along / max(count, 1.0)


@kernel
def projected_order(data, state, order, source, rank, first, direction, along, mean, rng):
    """along (n,), mean (K,) and first (n,) are scratch."""
    K = state.num[Count.CLUSTERS]
    n_responses = data.block[0, Block.INPUT]
    for b in range(data.block.shape[0]):
        n_responses = min(n_responses, data.block[b, Block.INPUT])
    for j in range(direction.shape[0]):
        direction[j] = rng.standard_normal()
    project(data.rows, n_responses, direction, along)
    for k in range(K):
        mean[k] = 0.0
    for i in range(state.labels.shape[0]):
        k = state.labels[i]
        mean[k] += along[i] / state.size[k]
    count_up(first[:K])
    sort_together(mean[:K], first, -1.0)
    for t in range(K):
        rank[first[t]] = t
    count_up(source)
    sort_together(along, source, -1.0)
    group(state.labels, K, rank, source, first, order)
