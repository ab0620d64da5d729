"""Binary trees over observations, and where new observations and subtrees enter them (Lee & Choi 2015, sections 2.3 and 3.1).

With phi(h) = kappa(|c|, u) p(X_c) of a cluster, or what stands in for it in the guide, a tree over it has the potential
phi(t) = phi(h) + phi(left) phi(right) (equation 8), and two trees have the dissimilarity d = phi(left) phi(right) / phi(h) (equation 9).
Everything is in logarithms.  No procedure recurses: a tree may be as deep as it has leaves.

Observation i is the leaf i; nodes from n on are internal.  A leaf's statistics are computed from the observation, those of an internal
node are kept: `forest.bank[v - n]` is an array of one column, as entry points of families read them.  Unions are tried in the first
`TRIAL` columns of `trial`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from nrmmix.kernels.compiling.handles import F1, F3, I1, handle
from nrmmix.kernels.core.clusters import combine_columns, copy_column, empty_column, marginal_column, score_columns, update_column
from nrmmix.kernels.core.jit import inlined, kernel, root

TRIAL = 3
GUIDE = 2  # numbers of the guide


@handle
class Forest(NamedTuple):
    """Trees over n observations with room for m internal nodes, m = n being enough for all trees over distinct observations."""

    left: I1  # (n + m,) int64 children and parents; -1 for none
    right: I1
    up: I1
    count: I1  # (n + m,) int64 number of leaves
    log_h: F1  # (n + m,) log phi of the node's leaves as one cluster
    log_phi: F1  # (n + m,) log phi of the tree below
    bank: F3  # (m, S, 1) statistics of internal nodes
    free: I1  # (m + 1,) int64: internal nodes that no tree has, free[m] of them
    log_rising: F1  # (n + 2,) log Gamma(c - sigma)/Gamma(1 - sigma) of the guide by the number c of leaves
    guide: F1  # (GUIDE,) log of what every cluster brings at the guide's u, mass and sigma; the other is the owner's


def scratch_size(n, m, n_stat):
    """Lengths of the arrays of floats and of integers that `forest_of` divides."""
    return 2 * (n + m) + GUIDE + m * n_stat, 4 * (n + m) + m + 1


def forest_of(floats, ints, log_rising, m, n_stat):
    """A forest within two arrays; what stands in them stays."""
    n = log_rising.shape[0] - 2
    t, b = n + m, 2 * (n + m) + GUIDE
    return Forest(
        ints[:t], ints[t : 2 * t], ints[2 * t : 3 * t], ints[3 * t : 4 * t], floats[:t], floats[t : 2 * t],
        floats[b : b + m * n_stat].reshape((m, n_stat, 1)), ints[4 * t : 4 * t + m + 1], log_rising, floats[2 * t : b],
    )


@inlined
def log_add(a, b):
    """log(e^a + e^b)"""
    high, low = max(a, b), min(a, b)
    return high if low == -math.inf else high + math.log1p(math.exp(low - high))


# ---- nodes


@root
@kernel
def clear_forest(forest):
    """No trees: every internal node is free, every leaf alone."""
    t, m = forest.left.shape[0], forest.bank.shape[0]
    for v in range(t):
        forest.left[v] = forest.right[v] = forest.up[v] = -1
        forest.count[v] = 1 if v < t - m else 0
    for k in range(m):
        forest.free[k] = t - 1 - k
    forest.free[m] = m


@kernel
def take_node(forest):
    """An internal node that was free."""
    m = forest.bank.shape[0]
    forest.free[m] -= 1
    return forest.free[forest.free[m]]


@kernel
def release(forest, v):
    """Make an internal node free."""
    m = forest.bank.shape[0]
    forest.left[v] = forest.right[v] = forest.up[v] = -1
    forest.free[forest.free[m]] = v
    forest.free[m] += 1


@kernel
def adopt(forest, v, left, right):
    """Make two roots the children of v."""
    forest.left[v], forest.right[v] = left, right
    forest.up[left] = forest.up[right] = v
    forest.count[v] = forest.count[left] + forest.count[right]


@kernel
def put_in_place(forest, v, other):
    """`other` becomes the child of v's parent in place of v, or a root."""
    p = forest.up[v]
    forest.up[other] = p
    if p >= 0:
        if forest.left[p] == v:
            forest.left[p] = other
        else:
            forest.right[p] = other
    forest.up[v] = -1


@kernel
def first_below(forest, v):
    """The leftmost leaf below v: where a walk through v's nodes begins that has children before parents."""
    while forest.left[v] >= 0:
        v = forest.left[v]
    return v


@kernel
def following(forest, v, root):
    """The node after v in that walk; -1 after the root of it."""
    if v == root:
        return -1
    p = forest.up[v]
    return first_below(forest, forest.right[p]) if forest.left[p] == v else p


@root
@kernel
def nodes_below(forest, v, internal, out):
    """The leaves of v's tree, from left to right, or its internal nodes, children before parents, into out; how many there are."""
    x, number = first_below(forest, v), 0
    while x >= 0:
        if (forest.left[x] >= 0) == internal:
            out[number] = x
            number += 1
        x = following(forest, x, v)
    return number


@kernel
def leaves(forest, v, out):
    return nodes_below(forest, v, False, out)


@root
@kernel
def write_labels(forest, roots, out, members):
    """out[i] = the number of the tree that leaf i is in; members (n,) is scratch."""
    for k in range(roots.shape[0]):
        for t in range(leaves(forest, roots[k], members)):
            out[members[t]] = k


@kernel
def release_tree(forest, root):
    """Make all internal nodes of a tree free, its leaves alone."""
    v = first_below(forest, root)
    while v >= 0:
        after = following(forest, v, root)
        if forest.left[v] >= 0:
            release(forest, v)
        forest.up[v] = -1
        v = after


@kernel
def sibling(forest, v):
    """The other child of v's parent."""
    p = forest.up[v]
    return forest.right[p] if forest.left[p] == v else forest.left[p]


@kernel
def cut_path(forest, v, out):
    """Take node v and all above it away; how many subtrees are left: the children of v first, then what hung beside, from below."""
    out[0], out[1] = forest.left[v], forest.right[v]
    count = 2
    while forest.up[v] >= 0:
        out[count] = sibling(forest, v)
        count += 1
        above = forest.up[v]
        release(forest, v)
        v = above
    release(forest, v)
    for t in range(count):
        forest.up[out[t]] = -1
    return count


# ---- statistics and potentials


@kernel
def load(data, trial, forest, v, column):
    """Statistics of node v into a column of `trial`."""
    n = data.group.shape[0]
    if v < n:
        empty_column(data, trial, column)
        update_column(data, trial, column, v, 1.0)
    else:
        copy_column(forest.bank[v - n], trial, 0, column)


@kernel
def load_union(data, trial, forest, a, b, column):
    """Statistics of nodes a and b together into a column of `trial`."""
    n = data.group.shape[0]
    if a < n:
        a, b = b, a
    load(data, trial, forest, a, column)
    if b < n:
        update_column(data, trial, column, b, 1.0)
    else:
        combine_columns(data, forest.bank[b - n], trial, 0, column)


@kernel
def log_h_of(data, trial, forest, count, column):
    """log phi of so many observations as one cluster, from the column of their statistics."""
    return forest.guide[0] + forest.log_rising[count] + marginal_column(data, trial, column)


@kernel
def plant_leaf(data, trial, forest, i):
    """Potentials of leaf i, alone."""
    forest.left[i] = forest.right[i] = forest.up[i] = -1
    forest.count[i] = 1
    if data.rows.missing.shape[0] == 0 and data.shared.shape[0] == 0:
        forest.log_h[i] = forest.guide[0] + forest.log_rising[1] + data.log_prior_predictive[i]
    else:  # cells that are drawn count in marginals, not in scores; and predictives are at the shared parameters of now
        load(data, trial, forest, i, 0)
        forest.log_h[i] = log_h_of(data, trial, forest, 1, 0)
    forest.log_phi[i] = forest.log_h[i]


@root
@kernel
def plant_leaves(data, trial, forest):
    """No trees but all leaves, alone."""
    clear_forest(forest)
    for i in range(data.group.shape[0]):
        plant_leaf(data, trial, forest, i)


@kernel
def log_union(data, trial, forest, a, b):
    """log phi of the leaves of two nodes as one cluster."""
    load_union(data, trial, forest, a, b, 0)
    return log_h_of(data, trial, forest, forest.count[a] + forest.count[b], 0)


@kernel
def log_union_with(data, trial, work, forest, v, i):
    """Log ratio of joining node v and leaf i, by the log predictive of the observation."""
    if data.rows.missing.shape[0] > 0:
        return log_union(data, trial, forest, v, i)
    n, c = data.group.shape[0], forest.count[v]
    out = work[work.shape[0] - 1]
    out[0] = forest.log_h[v] + forest.log_rising[c + 1] - forest.log_rising[c]
    if v < n:
        load(data, trial, forest, v, 0)
        score_columns(data, trial, work, out, 1, i, -1)
    else:
        score_columns(data, forest.bank[v - n], work, out, 1, i, -1)
    return out[0]


@kernel
def log_d(forest, v):
    """log d of the children of an internal node."""
    return forest.log_phi[forest.left[v]] + forest.log_phi[forest.right[v]] - forest.log_h[v]


@kernel
def weigh_tree(forest, v):
    """Potential of an internal node's tree from those of its children."""
    forest.log_phi[v] = log_add(forest.log_h[v], forest.log_phi[forest.left[v]] + forest.log_phi[forest.right[v]])


@kernel
def refresh_node(data, trial, forest, v):
    """Statistics and potentials of an internal node from its children."""
    left, right = forest.left[v], forest.right[v]
    column = forest.bank[v - data.group.shape[0]]
    forest.count[v] = forest.count[left] + forest.count[right]
    load_union(data, column, forest, left, right, 0)
    forest.log_h[v] = log_h_of(data, column, forest, forest.count[v], 0)
    weigh_tree(forest, v)


@kernel
def refresh_tree(data, trial, forest, root, statistics):
    """Potentials of all nodes of a tree at the present guide; their statistics too, where the observations have changed."""
    n = data.group.shape[0]
    v = first_below(forest, root)
    while v >= 0:
        if v < n:
            up = forest.up[v]
            left, right = forest.left[v], forest.right[v]
            plant_leaf(data, trial, forest, v)
            forest.left[v], forest.right[v], forest.up[v] = left, right, up
        elif statistics:
            refresh_node(data, trial, forest, v)
        else:
            forest.log_h[v] = log_h_of(data, forest.bank[v - n], forest, forest.count[v], 0)
            weigh_tree(forest, v)
        v = following(forest, v, root)


# ---- growing and cutting


@kernel
def join(data, trial, forest, a, b):
    """A new node above two roots, a on its left."""
    v = take_node(forest)
    forest.up[v] = -1
    adopt(forest, v, a, b)
    refresh_node(data, trial, forest, v)
    return v


@kernel
def grow_above(forest, v, x, log_h):
    """A new node with this log phi in the place of v, which becomes its left child, and the root x its right one."""
    new = take_node(forest)
    put_in_place(forest, v, new)
    adopt(forest, new, v, x)
    forest.log_h[new] = log_h
    return new


@kernel
def weigh_path(forest, v):
    """Potentials of the trees of v and of all above it; the root."""
    weigh_tree(forest, v)
    while forest.up[v] >= 0:
        v = forest.up[v]
        weigh_tree(forest, v)
    return v


@kernel
def nearer_child(forest, v, x, log_left, log_right):
    """The child of v that x enters, given log phi of each child with x as one cluster; -1 where x goes on top (SeqInsert)."""
    left, right = forest.left[v], forest.right[v]
    d_left = forest.log_phi[left] + forest.log_phi[x] - log_left
    d_right = forest.log_phi[right] + forest.log_phi[x] - log_right
    if log_d(forest, v) <= min(d_left, d_right):
        return -1
    return left if d_left <= d_right else right


@kernel
def insert_leaf(data, trial, work, forest, root, i):
    """SeqInsert of the planted leaf i into a tree, or into none (-1); the new root."""
    if root < 0:
        return i
    n = data.group.shape[0]
    v, log_h = root, log_union_with(data, trial, work, forest, root, i)
    while v >= n:
        log_left = log_union_with(data, trial, work, forest, forest.left[v], i)
        log_right = log_union_with(data, trial, work, forest, forest.right[v], i)
        child = nearer_child(forest, v, i, log_left, log_right)
        if child < 0:
            break
        update_column(data, forest.bank[v - n], 0, i, 1.0)
        forest.count[v] += 1
        forest.log_h[v] = log_h
        log_h = log_left if child == forest.left[v] else log_right
        v = child
    new = grow_above(forest, v, i, log_h)
    load_union(data, forest.bank[new - n], forest, v, i, 0)
    return weigh_path(forest, new)


@kernel
def insert_tree(data, trial, forest, root, x):
    """SeqInsert of a tree, of root x, into another, or into none (-1); the new root."""
    if root < 0:
        return x
    n, more = data.group.shape[0], forest.count[x]
    whole, first, second = 0, 1, 2  # columns: v with x, its left and its right child with x
    load_union(data, trial, forest, root, x, whole)
    v, log_h = root, log_h_of(data, trial, forest, forest.count[root] + more, whole)
    while v >= n:
        left, right = forest.left[v], forest.right[v]
        load_union(data, trial, forest, left, x, first)
        log_left = log_h_of(data, trial, forest, forest.count[left] + more, first)
        load_union(data, trial, forest, right, x, second)
        log_right = log_h_of(data, trial, forest, forest.count[right] + more, second)
        child = nearer_child(forest, v, x, log_left, log_right)
        if child < 0:
            break
        copy_column(trial, forest.bank[v - n], whole, 0)
        forest.count[v] += more
        forest.log_h[v] = log_h
        if child == left:
            log_h, whole, first = log_left, first, whole
        else:
            log_h, whole, second = log_right, second, whole
        v = child
    new = grow_above(forest, v, x, log_h)
    copy_column(trial, forest.bank[new - n], whole, 0)
    return weigh_path(forest, new)


@kernel
def detach(data, trial, forest, root, v):
    """Take the tree below v out of the tree that it is in; the root of what is left, -1 for nothing."""
    p = forest.up[v]
    if p < 0:
        return -1
    other, above = sibling(forest, v), forest.up[p]
    put_in_place(forest, p, other)
    release(forest, p)
    forest.up[v] = -1
    if above < 0:
        return other
    while above >= 0:
        refresh_node(data, trial, forest, above)
        above = forest.up[above]
    return root
