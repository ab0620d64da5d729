"""Code that moves on the partition share: the record of proposals, a partition set as a whole, random subsets, sorting."""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import rebuild
from nrmmix.kernels.core.jit import kernel, root
from nrmmix.kernels.core.special import draw_integer
from nrmmix.kernels.core.state import ACCEPTED, FINITE_RATIOS, LOG_RATIO, LOG_RATIO_2, PROPOSED, TALLY, Count
from nrmmix.kernels.measure.weights import weigh


@kernel
def exceeds(memory, kind, log_ratio, log_uniform):
    """Whether a proposal with this log Metropolis-Hastings ratio is accepted, by the log of a uniform variable; counts it."""
    tally, first = memory.tally, kind * TALLY
    tally[first + PROPOSED] += 1.0
    if log_ratio > -math.inf:
        tally[first + FINITE_RATIOS] += 1.0
        tally[first + LOG_RATIO] += log_ratio
        tally[first + LOG_RATIO_2] += log_ratio * log_ratio
    accepted = log_uniform < log_ratio
    if accepted:
        tally[first + ACCEPTED] += 1.0
    return accepted


@root
@kernel
def set_partition(data, state, labels, n_clusters):
    """Make labels (n,) in 0..n_clusters-1, none of them empty, the partition; there must be room."""
    for k in range(max(n_clusters, state.num[Count.CLUSTERS])):
        state.size[k] = 0
    for i in range(labels.shape[0]):
        state.labels[i] = labels[i]
        state.size[labels[i]] += 1
    state.num[Count.CLUSTERS] = n_clusters
    rebuild(data, state)
    for k in range(n_clusters):
        weigh(state, k)


@kernel
def random_subset(order, m, rng):
    """A uniform subset of m of the entries of `order`, in random order, into its first m places; the others only change places."""
    n = order.shape[0]
    for t in range(m):
        s = t + draw_integer(n - t, rng)
        order[t], order[s] = order[s], order[t]


@kernel
def sift_down(key, index, sign, root, end):
    """Sift down in a heap whose least sign * key is on top."""
    own, number = key[root], index[root]
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and sign * key[child + 1] < sign * key[child]:
            child += 1
        if sign * own <= sign * key[child]:
            break
        key[root], index[root] = key[child], index[child]
        root = child
    key[root], index[root] = own, number


@kernel
def sort_together(key, index, sign):
    """Heapsort of both by decreasing sign * key."""
    for top in range(key.shape[0] // 2 - 1, -1, -1):
        sift_down(key, index, sign, top, key.shape[0])
    for end in range(key.shape[0] - 1, 0, -1):
        key[0], key[end] = key[end], key[0]
        index[0], index[end] = index[end], index[0]
        sift_down(key, index, sign, 0, end)
