"""Splits along a tree: SampleSub draws an inner node, and what hangs from the path above it is put into blocks by StocInsert.

Given the tree and the blocks that path is unique: from the root on it leads into the one subtree whose leaves do not all belong to one
block.  So the probability of the blocks is a product (Lee & Choi 2015, supplement A; the potential of a block that a subtree is put into is
that of a tree with both below its root, for which no tree has to be built).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from nrmmix.kernels.compiling.handles import F1, F2, I1, handle, reader
from nrmmix.kernels.core.clusters import combine_columns, copy_column
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.measure.weights import REACH
from nrmmix.kernels.trees.forest import Forest, first_below, forest_of, load, log_add, log_h_of
from nrmmix.kernels.trees.forest import scratch_size as scratch_size_of_forest
from nrmmix.kernels.trees.guide_tree import GuideTree, node_weight

MAX_BLOCKS = 12  # of one split; more are neither proposed nor undone
UNION, MOVING, BLOCKS = 4, 5, 6  # columns of Scratch.trial; 0..3 are those of trees and of split-merge
TRIAL = BLOCKS + MAX_BLOCKS
OF_UNION = REACH + MAX_BLOCKS  # rows of Guide.reach; that of block b is REACH + b
REACHES = OF_UNION + 1


@handle
class Guide(NamedTuple):
    """Scratch of the move."""

    forest: Forest  # of the cluster at hand; its log_rising and guide[0] are the guide's constants
    tree: GuideTree
    marginal: F1  # (n + 1,) log p(y_c) of every cluster; NaN until it is asked for
    wide: F1  # (n + 1,) log p(y_c, x_c) by the guide; in a mixture the same numbers in the same place, as of the two unions
    odds: F1  # (n + 1,) log odds that a cluster joins the one at hand
    chosen: I1  # (n + 1,) int64, 1 for clusters that join, and the one at hand
    part: I1  # (n,) int64, block of each member
    target: I1  # (n,) int64
    owner: I1  # (2 n,) int64, by node: the cluster that all leaves belong to, or -1
    size: I1  # (MAX_BLOCKS,) int64, of the blocks
    phi: F1  # (MAX_BLOCKS,) their running log potentials
    union: F1  # (MAX_BLOCKS,) log h of each with the subtree that is inserted, or their log p(y_c)
    wide_union: F1  # (MAX_BLOCKS,) log p(y_c, x_c)
    weight: F1  # (MAX_BLOCKS + 1,)
    pull: F1  # (2,) eta and log rho
    reach: F2  # (REACHES, P): rows of `nrmmix.kernels.measure.weights`, those of blocks, and of a union


guide_in = reader(Guide)

# option
GLOBAL_MOVES, DEPTH, SCANS, REFRESH, ETA, START_CLUSTER, START_SIGMA = 0, 1, 2, 3, 4, 5, 6
SHARE = 7  # of the global moves that split by a scan
# addresses of the entry points of its parts, each compiled alone
PLANT, GLOBAL, LOCAL, SCAN, BLOCK, MERGE, BACK = 8, 9, 10, 11, 12, 13, 14
# learnt: the guide's constants, log rho, and the guide tree's number and age
GUIDE_CLUSTER, GUIDE_SIGMA, LOG_RHO, TREE = 0, 1, 2, 3
# Memory.ints begins with the number of the tree in the scratch; the leaves that local moves visit, and whether they are on the way; the
# cluster that a global move picked, how many join it, and the way of a split; the sum of the depths of the tree's leaves.  Memory.floats
# begins with the log probabilities of the pick and, in a merge, of the split that leads back.
PLANTED, FIRST_LEAF, LAST_LEAF, IS_LOCAL, PICKED, JOINED, BY_SCAN, LEVELS, WORDS = 0, 1, 2, 3, 4, 5, 6, 7, 8
LOG_Q, LOG_BACK, ETA_AND_RHO, NUMBERS = 0, 1, 2, 4


def scratch_size(n, n_stat, P):
    """Floats and integers of scratch for n observations and P locations, 0 in a mixture."""
    floats, ints = scratch_size_of_forest(n, n, n_stat)
    located = n + 1 + MAX_BLOCKS + REACHES * P if P else 0
    return NUMBERS + n + 2 + floats + 3 * n + 2 + 3 * MAX_BLOCKS + 1 + located, WORDS + ints + 11 * n + 3 + MAX_BLOCKS


@kernel
def place_of_order(n):
    """Return where `order` of the `GuideTree` begins, its leaves from left to right."""
    return WORDS + 9 * n + 1


def guide_of(floats, ints, n, n_stat, P):
    """The move's scratch, divided; `n_stat` with the guide's own statistics, P locations, 0 in a mixture."""
    whole, whole_ints = floats, ints
    m, t = 4 * n + 2 + n * n_stat, WORDS + 9 * n + 1  # of the forest; `place_of_order`
    rising = NUMBERS + n + 2
    floats, ints = whole[rising + m :], whole_ints[t:]
    forest = forest_of(whole[rising : rising + m], whole_ints[WORDS:t], whole[NUMBERS:rising], n, n_stat)
    tree = GuideTree(
        ints[:n], ints[n : 2 * n], floats[:n], ints[2 * n : 3 * n], ints[3 * n : 4 * n], ints[4 * n : 5 * n + 1],
        ints[5 * n + 1 : 6 * n + 2],
    )
    ints, b = ints[6 * n + 2 :], 3 * n + 2
    e = b + 3 * MAX_BLOCKS + 1
    wide, wide_union = floats[n : 2 * n + 1], floats[b + MAX_BLOCKS : b + 2 * MAX_BLOCKS]
    if P > 0:
        wide, wide_union = floats[e : e + n + 1], floats[e + n + 1 : e + n + 1 + MAX_BLOCKS]
        e += n + 1 + MAX_BLOCKS
    return Guide(
        forest, tree, floats[n : 2 * n + 1], wide, floats[2 * n + 1 : b], ints[: n + 1],
        ints[n + 1 : 2 * n + 1], ints[2 * n + 1 : 3 * n + 1],
        ints[3 * n + 1 : 5 * n + 1], ints[5 * n + 1 : 5 * n + 1 + MAX_BLOCKS], floats[b : b + MAX_BLOCKS],
        floats[b + MAX_BLOCKS : b + 2 * MAX_BLOCKS], wide_union, floats[b + 2 * MAX_BLOCKS : b + 3 * MAX_BLOCKS + 1],
        whole[ETA_AND_RHO:NUMBERS], floats[e : e + REACHES * P].reshape((REACHES, P)),
    )


@kernel
def first_place(guide, v, count):
    """Place among the collected members of the leftmost leaf below v."""
    leaf = first_below(guide.forest, v)
    for t in range(count):
        if guide.tree.member[t] == leaf:
            return t
    return -1


@kernel
def total_weight(guide, count):
    """Sum of the weights of the internal nodes of a tree with `count` leaves."""
    n = guide.part.shape[0]
    total = 0.0
    for v in range(n, n + count - 1):
        total += node_weight(guide.forest, v)
    return total


@kernel
def sample_sub(guide, count, rng):
    """An internal node of the tree of the members, and the log probability that it is drawn."""
    n = guide.part.shape[0]
    total = total_weight(guide, count)
    v, r = n, rng.random() * total - node_weight(guide.forest, n)
    while not r < 0.0 and v < n + count - 2:
        v += 1
        r -= node_weight(guide.forest, v)
    return v, math.log(node_weight(guide.forest, v) / total)


@kernel
def mark(guide, first, last, block):
    for t in range(first, last):
        guide.part[t] = block


@kernel
def open_block(data, trial, guide, b, v):
    """Block b begins with the leaves below node v."""
    load(data, trial, guide.forest, v, BLOCKS + b)
    guide.size[b], guide.phi[b] = guide.forest.count[v], guide.forest.log_phi[v]


@kernel
def weigh_blocks(data, trial, guide, blocks, v):
    """guide.weight[:blocks] = -log d of the blocks and node v, whose statistics come into column MOVING; 0 behind them for a new block."""
    forest = guide.forest
    load(data, trial, forest, v, MOVING)
    for b in range(blocks):
        copy_column(trial, trial, BLOCKS + b, UNION)
        combine_columns(data, trial, trial, MOVING, UNION)
        guide.union[b] = log_h_of(data, trial, forest, guide.size[b] + forest.count[v], UNION)
        guide.weight[b] = guide.union[b] - guide.phi[b] - forest.log_phi[v]
    guide.weight[blocks] = 0.0


@kernel
def stoc_insert(data, trial, guide, blocks, v, wanted, rng):
    """Put node v into one of the blocks, or a new one where there may be one more; the wanted one, if not -1.

    Returns the block and the log probability.
    """
    weigh_blocks(data, trial, guide, blocks, v)
    options = min(blocks + 1, MAX_BLOCKS)
    total = -math.inf
    for b in range(options):
        total = log_add(total, guide.weight[b])
    for b in range(options):
        guide.weight[b] -= total
    b = wanted
    if b < 0:
        b = options - 1
        r = rng.random()
        for a in range(options - 1):
            r -= math.exp(guide.weight[a])
            if r < 0.0:
                b = a
                break
    log_p = guide.weight[b]
    if b == blocks:
        copy_column(trial, trial, MOVING, BLOCKS + b)
        guide.size[b], guide.phi[b] = guide.forest.count[v], guide.forest.log_phi[v]
    else:
        combine_columns(data, trial, trial, MOVING, BLOCKS + b)
        guide.phi[b] = log_add(guide.union[b], guide.phi[b] + guide.forest.log_phi[v])
        guide.size[b] += guide.forest.count[v]
    return b, log_p


@kernel
def climb(data, trial, guide, v, count, block_of, rng):
    """Climb from node v to the root: blocks from its two subtrees, and all that hang from the path are put into blocks.

    block_of (K,) holds a block for each cluster, -1 for those without one yet: the path is then that to the present clusters, by the owners
    of nodes.  Where it is empty the blocks are drawn.  Returns the number of blocks and the log probability; more than MAX_BLOCKS: -inf.
    """
    forest = guide.forest
    forced = block_of.shape[0] > 0
    first = first_place(guide, v, count)
    middle, last = first + forest.count[forest.left[v]], first + forest.count[v]
    open_block(data, trial, guide, 0, forest.left[v])
    open_block(data, trial, guide, 1, forest.right[v])
    mark(guide, first, middle, 0)
    mark(guide, middle, last, 1)
    if forced:
        block_of[guide.owner[forest.left[v]]] = 0
        block_of[guide.owner[forest.right[v]]] = 1
    blocks, log_q = 2, 0.0
    while forest.up[v] >= 0:
        above = forest.up[v]
        hanging = forest.left[above] + forest.right[above] - v
        wanted = -1
        if forced:
            wanted = block_of[guide.owner[hanging]]
            if wanted < 0:
                wanted = blocks
        if wanted >= MAX_BLOCKS:
            return blocks, -math.inf
        b, log_p = stoc_insert(data, trial, guide, blocks, hanging, wanted, rng)
        log_q += log_p
        if b == blocks:
            blocks += 1
            if forced:
                block_of[guide.owner[hanging]] = b
        m = forest.count[hanging]
        if forest.left[above] == v:
            mark(guide, last, last + m, b)
            last += m
        else:
            mark(guide, first - m, first, b)
            first -= m
        v = above
    return blocks, log_q


@kernel
def claim_nodes(guide, labels, count):
    """guide.owner of the members' leaves and of the nodes above them."""
    forest, owner = guide.forest, guide.owner
    n = guide.part.shape[0]
    for t in range(count):
        owner[guide.tree.member[t]] = labels[guide.tree.member[t]]
    for v in range(n, n + count - 1):  # children come before parents
        a, b = owner[forest.left[v]], owner[forest.right[v]]
        owner[v] = a if a == b else -1


@kernel
def split_probability(data, trial, guide, labels, count, block_of, rng):
    """log probability that the members' tree is split into the clusters that they are in; block_of (K,) is -1 for these."""
    forest, owner = guide.forest, guide.owner
    claim_nodes(guide, labels, count)
    v = guide.part.shape[0] + count - 2
    while True:
        a, b = owner[forest.left[v]], owner[forest.right[v]]
        if a >= 0 and b >= 0:
            break
        if a < 0 and b < 0:
            return -math.inf
        v = forest.left[v] if a < 0 else forest.right[v]
    log_q = math.log(node_weight(forest, v) / total_weight(guide, count))
    _, log_path = climb(data, trial, guide, v, count, block_of, rng)
    return log_q + log_path
