"""One tree over all observations, and the trees that it induces on clusters.

The guide tree grows from all observations in a random order (`sink`), with a guide of constants: it depends on the data and on
that order, never on the partition.  Its restriction to a cluster is therefore a deterministic function of the cluster, and no rounding can
change its shape.  The tree is kept as the order of its leaves and, between neighbours there, the depth of their last common ancestor: a
subtree is a range of leaves, and the restriction to some of them has the smallest depth between two of them as its root.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nrmmix.kernels.compiling.handles import F1, I1, handle
from nrmmix.kernels.core.clusters import update_column
from nrmmix.kernels.core.jit import inlined, kernel
from nrmmix.kernels.core.state import GIVE_UP, HEED_EVERY, Count
from nrmmix.kernels.trees.forest import grow_above, join, load_union, log_d, log_union_with, plant_leaves

BALANCE = 1.0  # power of its size that a subtree's likelihood is divided by
ORDERS = 2**31 - 2  # so many numbers of orders there are
FLOOR = 1e-3  # weight of a node whose members surely belong together, in SampleSub


@handle
class GuideTree(NamedTuple):
    """Scratch of a move; the first three describe the tree, the others are for walks through it and through a cluster's tree."""

    order: I1  # (n,) observations as leaves from left to right
    gap: I1  # (n,) depth of the last common ancestor of leaves p and p + 1
    weight: F1  # (n,) of that ancestor in SampleSub
    member: I1  # (n,) observations of a cluster, in that order
    between: I1  # (n,) gaps between them
    stack: I1  # (n + 1,)
    pending: I1  # (n + 1,)


@kernel
def shuffle(order, number):
    """All observations in the order that belongs to a number in 1..ORDERS.

    By a generator of its own (Park & Miller 1988), not the chain's: the number is all that has to be saved.
    """
    seed = number
    for i in range(order.shape[0]):
        order[i] = i
    for t in range(order.shape[0] - 1, 0, -1):
        seed = seed * 48271 % (ORDERS + 1)
        s = seed * (t + 1) // (ORDERS + 1)
        order[t], order[s] = order[s], order[t]


@inlined
def weight_of(log_d):
    """The probability that two subtrees are two clusters, and a little."""
    return 1.0 / (1.0 + math.exp(min(-log_d, 700.0))) + FLOOR


@kernel
def node_weight(forest, v):
    """Weight of an internal node in SampleSub."""
    return weight_of(log_d(forest, v))


@kernel
def log_predictive(data, trial, work, forest, v, i):
    """log p(y_i | leaves of v), and log h of both together."""
    c = forest.count[v]
    log_h = log_union_with(data, trial, work, forest, v, i)
    return log_h - forest.log_h[v] - forest.log_rising[c + 1] + forest.log_rising[c], log_h


@kernel
def sink(data, trial, work, forest, root, i):
    """Insert leaf i into a tree; its root.

    In SeqInsert everything that is like both subtrees goes on top of them, for the larger two subtrees of one cluster are, the more surely
    they belong together; and a subtree of several clusters repels even what belongs to one of them.  So here i goes down to the
    child under which it is more likely, for its size, unless it is like neither and they are more like each other.
    """
    n = data.group.shape[0]
    v, log_h = root, log_union_with(data, trial, work, forest, root, i)
    while v >= n:
        left, right = forest.left[v], forest.right[v]
        log_left, h_left = log_predictive(data, trial, work, forest, left, i)
        log_right, h_right = log_predictive(data, trial, work, forest, right, i)
        log_d = forest.log_h[i] + min(forest.log_h[left] - h_left, forest.log_h[right] - h_right)
        if log_d > max(0.0, forest.log_h[left] + forest.log_h[right] - forest.log_h[v]):
            break
        goes_left = log_left - BALANCE * math.log(forest.count[left]) >= log_right - BALANCE * math.log(forest.count[right])
        update_column(data, forest.bank[v - n], 0, i, 1.0)
        forest.count[v] += 1
        forest.log_h[v] = log_h
        v, log_h = (left, h_left) if goes_left else (right, h_right)
    new = grow_above(forest, v, i, log_h)
    load_union(data, forest.bank[new - n], forest, v, i, 0)
    return new if v == root else root


@kernel
def plant_guide_tree(data, state, forest, tree):
    """Grow the tree from the observations in the order `tree.order`, which becomes that of its leaves; the sum of their depths.

    Nothing of use where the move has to give up.
    """
    n = tree.order.shape[0]
    plant_leaves(data, state.scratch.trial, forest)
    root = tree.order[0]
    for t in range(1, n):
        if state.num[Count.HALT] == GIVE_UP and t % HEED_EVERY == 0:
            return 0
        root = sink(data, state.scratch.trial, state.scratch.work, forest, root, tree.order[t])
    v, depth, p, total = root, 0, 0, 0
    while True:
        while v >= n:
            v = forest.left[v]
            depth += 1
        tree.order[p] = v
        total += depth
        while v != root and forest.right[forest.up[v]] == v:
            v = forest.up[v]
            depth -= 1
        if v == root:
            return total
        v = forest.up[v]
        depth -= 1
        tree.gap[p] = depth
        tree.weight[p] = weight_of(forest.log_h[forest.left[v]] + forest.log_h[forest.right[v]] - forest.log_h[v])
        p += 1
        v = forest.right[v]
        depth += 1


@kernel
def sample_range(tree, first, last, rng):
    """SampleSub among the internal nodes above leaves first..last-1, two at least: the leaves below the node that is drawn."""
    total = 0.0
    for p in range(first, last - 1):
        total += tree.weight[p]
    r = rng.random() * total
    at = last - 2
    for p in range(first, last - 1):
        r -= tree.weight[p]
        if r < 0.0:
            at = p
            break
    low, high = at, at
    while low > first and tree.gap[low - 1] > tree.gap[at]:
        low -= 1
    while high < last - 2 and tree.gap[high + 1] > tree.gap[at]:
        high += 1
    return low, high + 2


@kernel
def collect(tree, labels, chosen):
    """Members of the clusters that are marked in `chosen` into tree.member and tree.between; how many."""
    count, least = 0, np.iinfo(np.int64).max
    for p in range(tree.order.shape[0]):
        i = tree.order[p]
        if chosen[labels[i]] != 0:
            if count > 0:
                tree.between[count - 1] = least
            tree.member[count] = i
            count += 1
            least = tree.gap[p]
        else:
            least = min(least, tree.gap[p])
    return count


@kernel
def join_last(data, trial, forest, tree, count):
    """The two subtrees that wait last become one; how many wait then."""
    tree.stack[count - 2] = join(data, trial, forest, tree.stack[count - 2], tree.stack[count - 1])
    return count - 1


@kernel
def induced_tree(data, trial, forest, tree, count):
    """The tree of the `count` members that were collected, in `forest`; its root."""
    forest.free[forest.bank.shape[0]] = forest.bank.shape[0]  # all nodes are free, to be taken in the same order: n, n + 1, ...
    waiting, operators = 0, 0
    for t in range(count):
        forest.up[tree.member[t]] = -1
        tree.stack[waiting] = tree.member[t]
        waiting += 1
        if t == count - 1:
            break
        while operators > 0 and tree.pending[operators - 1] > tree.between[t]:
            operators -= 1
            waiting = join_last(data, trial, forest, tree, waiting)
        tree.pending[operators] = tree.between[t]
        operators += 1
    while waiting > 1:
        waiting = join_last(data, trial, forest, tree, waiting)
    return tree.stack[0]
