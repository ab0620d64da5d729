"""The least work a Gibbs sweep must do: score and sample all n x K pairs, statistics frozen."""

from __future__ import annotations

from nrmmix.kernels.core.clusters import score_columns
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import draw_near
from nrmmix.kernels.core.state import FOUR, Count
from nrmmix.kernels.measure.weights import log_join_weights
from nrmmix.kernels.moves.gibbs import MIN_FOR_FOUR, can_score_four, score_next_four


@kernel
def frozen_sweep(data, state, rng):
    """By fours where a sweep does so."""
    K, n, W = state.num[Count.CLUSTERS], state.labels.shape[0], state.scratch.work.shape[0] - 1
    total, by_four = 0, K >= MIN_FOR_FOUR and can_score_four(data, state)
    for i in range(n):
        log_join_weights(data, state, K, data.group[i], -1)
        if by_four and i < n - n % FOUR:
            if i % FOUR == 0:
                score_next_four(data, state, data.group[:0], i)  # rows in their order
            for k in range(K):
                state.scratch.score[k] += state.scratch.work[W - FOUR + i % FOUR, k]
        else:
            score_columns(data, state.stat, state.scratch.work, state.scratch.score, K, i, -1)
        total += draw_near(state.scratch.score, K, state.scratch.score[state.labels[i]], rng.random())
    return total
