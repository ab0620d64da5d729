"""The least work a Gibbs sweep must do: score and sample all n x K pairs, statistics frozen."""

from __future__ import annotations

from nrmmix.kernels.core.clusters import score_columns
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import draw_index
from nrmmix.kernels.core.state import N_CLUSTERS
from nrmmix.kernels.measure.weights import log_join_weights


@kernel
def frozen_sweep(data, state, rng):
    K = state.num[N_CLUSTERS]
    total = 0
    for i in range(state.labels.shape[0]):
        log_join_weights(state, K, data.group[i], -1)
        score_columns(data, state.stat, state.work, state.score, K, i, -1)
        total += draw_index(state.score, K, rng.random())
    return total
