"""Gibbs where component parameters cannot be integrated out: they are held in the columns (Neal 2000, algorithm 8).

Observation i joins a cluster with its prior weight times the density under the cluster's parameters, or opens a new one with one of
AUXILIARY parameters from the prior, each with its share of the weight of a new cluster.  A singleton's own parameters are the first of
them.  Of blocks whose parameters are integrated out the predictive takes the place of the density.  Once a sweep all held parameters
are drawn given partition and data.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import copy_column, empty_column, relocate, score_columns, score_without, update_column
from nrmmix.kernels.core.entry import ONE_T, STEP_T, call_redraw, entry
from nrmmix.kernels.core.jit import kernel, root
from nrmmix.kernels.core.special import draw_index
from nrmmix.kernels.core.state import BROKEN, DONE, Block, Count
from nrmmix.kernels.measure.weights import log_new_weight

AUXILIARY = 2  # columns K and K + 1: there is room for no more


@kernel
def redraw_column(data, state, k, rng):
    """Held parameters of column k given its members, from the prior where it has none."""
    for b in range(data.block.shape[0]):
        if data.block[b, Block.REDRAW] != 0:
            call_redraw(data.block[b, Block.REDRAW], data.rows, state.stat, data.block[b], k, rng)


@root
@kernel
def redraw(data, state, rng):
    """Held parameters of all clusters."""
    for k in range(state.num[Count.CLUSTERS]):
        redraw_column(data, state, k, rng)


@entry(STEP_T)
def update_explicit(data, state, rng):
    redraw(data, state, rng)
    return DONE


@entry(ONE_T)
def algorithm8_one(data, state, i, own, rng):
    """Redraw the cluster of observation i; scratch.score holds the prior weights, `own` is its cluster if it has other members (or -1)."""
    K = state.num[Count.CLUSTERS]
    k_old = state.labels[i]
    alone = k_old >= 0 and own < 0
    p = state.scratch.score
    weight = p[own] if own >= 0 else 0.0
    new = log_new_weight(state, data.group[i], K - 1 if alone else K, 0.0) - math.log(AUXILIARY)
    m = K + AUXILIARY
    if alone:
        empty_column(data, state.stat, k_old)
        p[k_old] = new
        m -= 1
    for k in range(K, m):
        empty_column(data, state.stat, k)
        redraw_column(data, state, k, rng)
        p[k] = new
    score_columns(data, state.stat, state.scratch.work, p, m, i, own)
    if own >= 0 and math.isnan(p[own]):
        p[own] = weight + score_without(data, state, i, own)
    state.num[Count.SCORED] += m
    k = draw_index(p, m, rng.random())
    if k < 0:
        state.num[Count.BAD_ROW] = i
        return BROKEN
    if alone and (k == k_old or k >= K):  # still alone, with its own parameters or others
        if k >= K:
            copy_column(state.stat, state.stat, k, k_old)
        update_column(data, state.stat, k_old, i, 1.0)
        return DONE
    if k == k_old:
        return DONE
    if k > K:
        copy_column(state.stat, state.stat, k, K)
        k = K
    relocate(data, state, i, k)
    return DONE
