"""Incremental Bayesian hierarchical clustering (Lee & Choi 2015, section 2.3): observations enter trees one by one.

Column k of `state.stat` has the statistics of tree k as a whole, so that an observation is scored against all trees at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nrmmix.kernels.core.clusters import attach, copy_column, score_columns, update_column
from nrmmix.kernels.core.jit import kernel, root
from nrmmix.kernels.core.state import DONE, NEED_ROOM, Count
from nrmmix.kernels.trees.bhc import log_distance
from nrmmix.kernels.trees.forest import cut_path, insert_leaf, insert_tree, load, log_add, log_d, plant_leaf

MAX_SPLITS = 16  # while one observation enters: a part of a split tree that enters another may split that one in turn

# IbhcScratch.num
AT = 0  # how many observations have been taken up
PENDING = 1  # parts of split trees that wait
SPLITS = 2  # since the last observation was taken up
ON_TOP, WITHIN, SPLIT = 3, 4, 5  # counts: observations and parts put above a tree, or into it, and trees split
NUM = 6


class IbhcScratch(NamedTuple):
    """The trees of the columns of a state."""

    root: np.ndarray  # (n,) of each column
    log_h: np.ndarray  # (n,) log potentials of the roots
    log_phi: np.ndarray  # (n,)
    pending: np.ndarray  # (n,) subtrees to be inserted, the last one first
    num: np.ndarray  # (NUM,)


@kernel
def chosen(K, best, least, most):
    """The nearest of K trees, or K for a new one: where it is too far, unless there may be no more."""
    return K if K < most and not least <= 0.0 else min(best, K - 1)


@kernel
def nearest_to_row(data, state, scratch, i, log_alone, most):
    """Step 1: the tree with the smallest dissimilarity to observation i, whose own potential is given; K for a new one.

    `scratch.score` is left with the log potential of each tree's members and i as one cluster.
    """
    K = state.num[Count.CLUSTERS]
    p = state.scratch.score
    for k in range(K):
        p[k] = scratch.log_h[k] + state.cache.log_size[state.size[k]]
    score_columns(data, state.stat, state.scratch.work, p, K, i, -1)
    best, least = K, math.inf
    for k in range(K):
        d = log_alone + scratch.log_phi[k] - p[k]
        if d < least:
            best, least = k, d
    return chosen(K, best, least, most)


@kernel
def nearest_to_tree(data, state, forest, scratch, x, most):
    """Find the tree nearest to a subtree x, or to an observation of which cells are drawn."""
    K = state.num[Count.CLUSTERS]
    best, least = K, math.inf
    for k in range(K):
        d = log_distance(data, state.scratch.trial, forest, scratch.root[k], x)
        if d < least:
            best, least = k, d
    return chosen(K, best, least, most)


@kernel
def note_root(state, forest, scratch, k, root):
    scratch.root[k] = root
    scratch.log_h[k], scratch.log_phi[k] = forest.log_h[root], forest.log_phi[root]
    state.size[k] = forest.count[root]


@kernel
def split_tree(state, forest, scratch, k, v):
    """Cut the path from node v of tree k to the root: the parts wait, the children of v to be taken first."""
    first = scratch.num[PENDING]
    last = first + cut_path(forest, v, scratch.pending[first:])
    a, b = first, last - 1
    while a < b:
        scratch.pending[a], scratch.pending[b] = scratch.pending[b], scratch.pending[a]
        a, b = a + 1, b - 1
    scratch.num[PENDING] = last
    K = state.num[Count.CLUSTERS] - 1
    state.num[Count.CLUSTERS] = K
    if k < K:
        copy_column(state.stat, state.stat, K, k)
        note_root(state, forest, scratch, k, scratch.root[K])


@root
@kernel
def grow(data, state, forest, scratch, order, until, most):
    """Steps 1 to 3 for the observations in order[:until] that are not in yet, into at most so many trees.

    Step 3: of the nodes above what has entered, the lowest with d > 1 is where its tree is split; the parts enter like observations.  When
    an observation has caused MAX_SPLITS splits the parts that still wait enter without, so that it comes to an end.
    """
    n = data.group.shape[0]
    by_scores = data.rows.missing.shape[0] == 0
    while scratch.num[PENDING] > 0 or scratch.num[AT] < until:
        K = state.num[Count.CLUSTERS]
        if K > state.size.shape[0] - 3:
            return NEED_ROOM
        if scratch.num[PENDING] > 0:
            scratch.num[PENDING] -= 1
            x = scratch.pending[scratch.num[PENDING]]
        else:
            x = order[scratch.num[AT]]
            scratch.num[AT] += 1
            scratch.num[SPLITS] = 0
            plant_leaf(data, state.scratch.trial, forest, x)
        if x < n and by_scores:
            k = nearest_to_row(data, state, scratch, x, forest.log_phi[x], most)
        else:
            k = nearest_to_tree(data, state, forest, scratch, x, most)
        if k == K:
            load(data, state.stat, forest, x, k)
            note_root(state, forest, scratch, k, x)
            state.num[Count.CLUSTERS] = K + 1
            continue
        if x < n:
            root = insert_leaf(data, state.scratch.trial, state.scratch.work, forest, scratch.root[k], x)
            update_column(data, state.stat, k, x, 1.0)
        else:
            root = insert_tree(data, state.scratch.trial, forest, scratch.root[k], x)
            load(data, state.stat, forest, root, k)
        note_root(state, forest, scratch, k, root)
        v = forest.up[x]
        scratch.num[ON_TOP if v == root else WITHIN] += 1
        if scratch.num[SPLITS] == MAX_SPLITS or K == most:
            continue
        while v >= 0 and log_d(forest, v) <= 0.0:
            v = forest.up[v]
        if v >= 0:
            scratch.num[SPLITS] += 1
            scratch.num[SPLIT] += 1
            split_tree(state, forest, scratch, k, v)
    return DONE


@root
@kernel
def heap_up(data, state, scratch, log_cluster, order, most):
    """The noisy start of section 4.1: each observation goes on top of the tree that step 1 chooses; nothing is split.

    Then the potentials of the roots are all that is needed of the trees.
    """
    for t in range(scratch.num[AT], order.shape[0]):
        K = state.num[Count.CLUSTERS]
        if K > state.size.shape[0] - 3:
            return NEED_ROOM
        i = order[t]
        log_alone = log_cluster + data.log_prior_predictive[i]
        k = nearest_to_row(data, state, scratch, i, log_alone, most)
        if k == K:
            scratch.log_h[k] = scratch.log_phi[k] = log_alone
        else:
            scratch.log_h[k] = state.scratch.score[k]  # with i, as `nearest_to_row` leaves it
            scratch.log_phi[k] = log_add(scratch.log_h[k], scratch.log_phi[k] + log_alone)
        attach(data, state, i, k)
        scratch.num[AT] = t + 1
    return DONE
