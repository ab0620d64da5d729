"""A Gibbs sampler that is wrong: a test of exactness that it passes is worth nothing."""

from __future__ import annotations

import nrmmix as nm
from nrmmix.kernels.core.clusters import attach, detach, score_columns
from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import draw_index
from nrmmix.kernels.core.state import DONE, NEED_ROOM, Count
from nrmmix.kernels.measure.weights import log_join_weights


@kernel
def _biased(data, state, i, rng):
    """Gibbs that forgets to take the observation out of its own cluster's size: n_c for n_c - 1."""
    K, k_old = state.num[Count.CLUSTERS], state.labels[i]
    alone = state.size[k_old] == 1
    own = -1 if alone else k_old
    p = state.scratch.score
    log_join_weights(data, state, K, 0, -1)
    score_columns(data, state.stat, state.scratch.work, p, K, i, own)
    new = k_old if alone else K
    p[new] = data.log_prior_predictive[i] + state.cache.log_new[0]
    k = draw_index(p, K if alone else K + 1, rng.random())
    if k == k_old:
        return DONE
    last = K - 1
    detach(data, state, i)
    if alone and k == last:
        k = k_old
    attach(data, state, i, k)
    return DONE


@entry(MOVE_T)
def biased_sweep(data, state, memory, rng):
    for i in range(state.num[Count.CURSOR], state.labels.shape[0]):
        if state.num[Count.CLUSTERS] > state.size.shape[0] - 3:
            state.num[Count.CURSOR] = i
            return NEED_ROOM
        _biased(data, state, i, rng)
    state.num[Count.CURSOR] = 0
    return DONE


class BiasedGibbs(nm.Gibbs):
    entry = biased_sweep
