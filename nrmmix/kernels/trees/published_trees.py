"""Trees that the published tree-guided sampler keeps, and the two operations on them: SampleSub and StocInsert.

Lee & Choi (2015), section 3.1.  Every cluster has a tree in the move's memory, from call to call.  A split works on a copy of one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from nrmmix.kernels.compiling.handles import F1, I1, handle, reader
from nrmmix.kernels.core.clusters import copy_column
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import exp_any
from nrmmix.kernels.core.state import Count
from nrmmix.kernels.measure.weights import weigh
from nrmmix.kernels.trees.forest import (
    Forest,
    adopt,
    first_below,
    following,
    forest_of,
    insert_leaf,
    insert_tree,
    leaves,
    load,
    log_add,
    log_d,
    log_union,
    log_union_with,
    plant_leaves,
    release_tree,
    take_node,
    write_labels,
)
from nrmmix.kernels.trees.forest import scratch_size as scratch_size_of_forest

BUILT, TREES, CHANGED = 0, 1, 2  # in PublishedScratch.head: whether there are trees, how many, whether others than those of the state
HEAD = 3


@handle
class PublishedScratch(NamedTuple):
    """Views of the move's memory, of n observations and m = 2 n internal nodes."""

    forest: Forest
    head: I1  # (HEAD,)
    root: I1  # (n,) of each cluster's tree
    inside: I1  # (n,) roots of the trees that a proposal joins, or that it parts one into
    outside: I1  # (n,) roots of the others
    hung: I1  # (n,) what `cut_path` leaves
    old: I1  # (n,) internal nodes of the tree that a split began with
    mark: I1  # (n,) 1 for clusters that are joined, or for observations that a local move visits
    block: I1  # (n,) tags of the trees inside, where a split is forced
    label: I1  # (n,) clusters of observations, where trees are made from them
    node: I1  # (2 n,) nodes of a tree
    tag: I1  # (n + m,) what a node stands for elsewhere
    weight: F1  # (2 n,) of nodes, or log weights of blocks


scratch_in = reader(PublishedScratch)


def scratch_size(n, n_stat):
    floats, integers = scratch_size_of_forest(n, 2 * n, n_stat)
    return floats + 3 * n + 2, integers + HEAD + 13 * n


def scratch_of(floats, ints, n, n_stat):
    """The move's scratch, divided."""
    m = floats.shape[0] - 3 * n - 2
    head = ints.shape[0] - HEAD - 13 * n
    w = ints[head + HEAD :]
    return PublishedScratch(
        forest_of(floats[:m], ints[:head], floats[m : m + n + 2], 2 * n, n_stat),
        ints[head : head + HEAD], w[:n], w[n : 2 * n], w[2 * n : 3 * n], w[3 * n : 4 * n], w[4 * n : 5 * n], w[5 * n : 6 * n],
        w[6 * n : 7 * n], w[7 * n : 8 * n], w[8 * n : 10 * n], w[10 * n :], floats[m + n + 2 :],
    )


# ---- trees and clusters


@kernel
def build(data, state, forest, scratch, labels, n_clusters):
    """Trees of clusters by SeqInsert in the order of the rows."""
    plant_leaves(data, state.scratch.trial, forest)
    for k in range(n_clusters):
        scratch.root[k] = -1
    for i in range(labels.shape[0]):
        scratch.root[labels[i]] = insert_leaf(data, state.scratch.trial, state.scratch.work, forest, scratch.root[labels[i]], i)
    scratch.head[BUILT], scratch.head[TREES] = 1, n_clusters


@kernel
def fits(state, forest, scratch):
    """Whether the trees are those of the state's clusters."""
    K = state.num[Count.CLUSTERS]
    if scratch.head[BUILT] == 0 or scratch.head[TREES] != K:
        return False
    for k in range(K):
        number = leaves(forest, scratch.root[k], scratch.inside)
        if number != state.size[k]:
            return False
        for t in range(number):
            if state.labels[scratch.inside[t]] != k:
                return False
    return True


@kernel
def become_clusters(data, state, forest, scratch):
    """The state takes over the clusters of the trees; there must be room."""
    K = scratch.head[TREES]
    write_labels(forest, scratch.root[:K], state.labels, scratch.inside)
    for k in range(K, state.num[Count.CLUSTERS]):
        state.size[k] = 0
    state.num[Count.CLUSTERS] = K
    for k in range(K):
        state.size[k] = forest.count[scratch.root[k]]
        load(data, state.stat, forest, scratch.root[k], k)
        weigh(state, k)
    scratch.head[CHANGED] = 0


@kernel
def grown_again(data, state, forest, scratch, root):
    """The tree over the leaves of another by SeqInsert in the order of the rows."""
    n = data.group.shape[0]
    if root < n:
        return root
    for i in range(n):
        scratch.tag[i] = 0
    for t in range(leaves(forest, root, scratch.node)):
        scratch.tag[scratch.node[t]] = 1
    release_tree(forest, root)
    new = -1
    for i in range(n):
        if scratch.tag[i] == 1:
            new = insert_leaf(data, state.scratch.trial, state.scratch.work, forest, new, i)
    return new


@kernel
def log_d_between(data, state, forest, a, b):
    """log d of two trees."""
    state.num[Count.SCORED] += 1
    if b < data.group.shape[0]:
        log_h = log_union_with(data, state.scratch.trial, state.scratch.work, forest, a, b)
    else:
        log_h = log_union(data, state.scratch.trial, forest, a, b)
    return forest.log_phi[a] + forest.log_phi[b] - log_h


# ---- SampleSub and StocInsert


@kernel
def weigh_nodes(forest, root, with_leaves, scratch):
    """Nodes below a root, and their weights d + max d in SampleSub in units of max d; how many, and the sum of the weights."""
    count, top = 0, -math.inf
    v = first_below(forest, root)
    while v >= 0:
        is_leaf = forest.left[v] < 0
        if with_leaves or not is_leaf:
            scratch.node[count] = v
            scratch.weight[count] = -math.inf if is_leaf else log_d(forest, v)
            top = max(top, scratch.weight[count])
            count += 1
        v = following(forest, v, root)
    total = 0.0
    for t in range(count):
        scratch.weight[t] = 1.0 + (exp_any(scratch.weight[t] - top) if top > -math.inf else 0.0)
        total += scratch.weight[t]
    return count, total


@kernel
def sample_node(forest, root, with_leaves, scratch, wanted, rng):
    """A node drawn by SampleSub, or the one that is wanted (not -1), and its log probability."""
    count, total = weigh_nodes(forest, root, with_leaves, scratch)
    left, t = 0.0 if wanted >= 0 else rng.random() * total, 0
    while t < count - 1:
        left -= scratch.weight[t]
        if scratch.node[t] == wanted or (wanted < 0 and left < 0.0):
            break
        t += 1
    return scratch.node[t], math.log(scratch.weight[t] / total)


@kernel
def weigh_inside(data, state, forest, scratch, blocks, x):
    """Log weights in StocInsert of tree x: in scratch.weight of each of the first `blocks` trees inside, 0 of none; log of their sum."""
    total = 0.0
    for j in range(blocks):
        scratch.weight[j] = -log_d_between(data, state, forest, scratch.inside[j], x)
        total = log_add(total, scratch.weight[j])
    scratch.weight[blocks] = 0.0
    return total


@kernel
def scatter(data, state, forest, scratch, count, forced, rng):
    """StocInsert of the subtrees of a path, the first two trees inside; how many trees are inside then, and the log probability.

    Where it is forced, subtrees go to the block that their tag names; blocks have theirs in scratch.block.
    """
    scratch.inside[0], scratch.inside[1] = scratch.hung[0], scratch.hung[1]
    blocks, log_q = 2, 0.0
    for t in range(2, count):
        x = scratch.hung[t]
        total = weigh_inside(data, state, forest, scratch, blocks, x)
        j = 0
        if forced:
            while j < blocks and scratch.block[j] != scratch.tag[x]:
                j += 1
        else:
            left = rng.random()
            while j < blocks:
                left -= math.exp(scratch.weight[j] - total)
                if left < 0.0:
                    break
                j += 1
        log_q += scratch.weight[j] - total
        if j < blocks and x < data.group.shape[0]:
            scratch.inside[j] = insert_leaf(data, state.scratch.trial, state.scratch.work, forest, scratch.inside[j], x)
        elif j < blocks:
            scratch.inside[j] = insert_tree(data, state.scratch.trial, forest, scratch.inside[j], x)
        else:
            scratch.inside[blocks] = x
            scratch.block[blocks] = scratch.tag[x]
            blocks += 1
    return blocks, log_q


@kernel
def copy_tree(data, forest, root, scratch):
    """A copy of a tree of internal nodes, which takes the leaves over; its root, and how many nodes are in scratch.old."""
    n = data.group.shape[0]
    count, v = 0, first_below(forest, root)
    while v >= 0:
        if v < n:
            scratch.tag[v] = v
        else:
            new = take_node(forest)
            adopt(forest, new, scratch.tag[forest.left[v]], scratch.tag[forest.right[v]])
            forest.log_h[new], forest.log_phi[new] = forest.log_h[v], forest.log_phi[v]
            copy_column(forest.bank[v - n], forest.bank[new - n], 0, 0)
            scratch.tag[v] = new
            scratch.old[count] = v
            count += 1
        v = following(forest, v, root)
    forest.up[scratch.tag[root]] = -1
    return scratch.tag[root], count
