"""What moves on the partition of a mixture share: the record of proposals, a partition set as a whole, random subsets."""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import rebuild
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import draw_integer
from nrmmix.kernels.core.state import ACCEPTED, FINITE_RATIOS, LOG_RATIO, LOG_RATIO_2, N_CLUSTERS, PROPOSED, TALLY
from nrmmix.kernels.measure.weights import weigh


@kernel
def accept(memory, kind, log_ratio, rng):
    """Whether a proposal with this log Metropolis-Hastings ratio is accepted; counts it."""
    return exceeds(memory, kind, log_ratio, -rng.standard_exponential())


@kernel
def exceeds(memory, kind, log_ratio, log_uniform):
    """The same with the logarithm of the uniform variable that has been drawn for it."""
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


@kernel
def set_partition(data, state, labels, n_clusters):
    """Make labels (n,) in 0..n_clusters-1, none of them empty, the partition of a mixture; there must be room."""
    for k in range(max(n_clusters, state.num[N_CLUSTERS])):
        state.size[k] = 0
    for i in range(labels.shape[0]):
        state.labels[i] = labels[i]
        state.size[labels[i]] += 1
    state.num[N_CLUSTERS] = n_clusters
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


