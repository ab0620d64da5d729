"""Tree-guided MCMC as published: clusters with trees of their own, which guide splits, merges and the choice of observations.

Lee & Choi (2015), sections 3.1 to 3.3 and the supplement, to the letter.  The posterior is not invariant under it; for the three reasons
there are options that repair them one by one, so that each can be measured:

    SUBSET      the observations that a local move visits are chosen by the trees that it changes; repaired: all are visited
    TREE        trees carry the history of the chain, and a merge is undone by the split of a cascade, while a split is undone by a merge
                into a tree that was another before; repaired: the tree of a cluster is that of SeqInsert in the order of the rows
    FIRST_PICK  the forward probability of a merge counts one first pick, its reverse (equation 11) all of them; repaired: all

Trees are kept from call to call.  The paper does not say what becomes of potentials when u, the mass or sigma has changed: here the trees
keep their shapes and all potentials are computed anew, statistics too where a parameter of all components has changed.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import draw_integer, log_sigmoid
from nrmmix.kernels.core.state import DONE, GIVE_UP, GIVEN_UP, NEED_ROOM, Count
from nrmmix.kernels.measure.weights import log_cluster
from nrmmix.kernels.moves.gibbs import gibbs_one
from nrmmix.kernels.moves.shared import exceeds, sort_together
from nrmmix.kernels.moves.split_merge import MERGE, SPLIT
from nrmmix.kernels.trees.forest import (
    cut_path,
    detach,
    first_below,
    following,
    insert_leaf,
    join,
    leaves,
    log_add,
    refresh_tree,
    release,
    release_tree,
    write_labels,
)
from nrmmix.kernels.trees.published_trees import (
    CHANGED,
    TREES,
    become_clusters,
    build,
    copy_tree,
    fits,
    grown_again,
    log_d_between,
    sample_node,
    scatter,
    scratch_in,
    weigh_inside,
)

GLOBAL_MOVES, DEPTH, SUBSET, TREE, FIRST_PICK, NO_LOCAL = 0, 1, 2, 3, 4, 5  # options
# Stages of a call, in State.num[Count.CURSOR]: the global moves; labels from the trees; the local move of observation CURSOR - LOCAL.
GLOBAL, LABELS, LOCAL = 0, 1, 2

# ---- global moves


@kernel
def list_outside(scratch, f, marked):
    """Roots of all clusters but f, and but those that are marked where that is asked for; how many."""
    count = 0
    for k in range(scratch.head[TREES]):
        if k != f and not (marked and scratch.mark[k] != 0):
            scratch.outside[count] = scratch.root[k]
            count += 1
    return count


@kernel
def log_left_out(data, state, forest, scratch, v, n_outside):
    """Log probability that none of the trees outside is put into M with tree v."""
    total = 0.0
    for t in range(n_outside):
        total += log_sigmoid(log_d_between(data, state, forest, v, scratch.outside[t]))
    return total


@kernel
def log_picks(data, state, forest, scratch, n_inside, n_outside):
    """Log probability of a merge of the trees inside, whichever of them is picked first (equation 11)."""
    total = -math.inf
    for s in range(n_inside):
        log_q = log_left_out(data, state, forest, scratch, scratch.inside[s], n_outside)
        for t in range(n_inside):
            if t != s:
                log_q += log_sigmoid(-log_d_between(data, state, forest, scratch.inside[s], scratch.inside[t]))
        total = log_add(total, log_q)
    return total - math.log(n_inside + n_outside)


@kernel
def propose_split(data, state, memory, forest, scratch, f, log_q, log_uniform, rng):
    """Propose the trees that cluster f falls into; whether they are accepted."""
    by_rows = memory.option[TREE] == 1.0
    K, whole = scratch.head[TREES], scratch.root[f]
    root, n_old = copy_tree(data, forest, whole, scratch)
    at, log_p = sample_node(forest, root, 0, scratch, -1, rng)
    blocks, log_s = scatter(data, state, forest, scratch, cut_path(forest, at, scratch.hung), 0, rng)
    log_ratio = -forest.log_h[whole] - log_q - log_p - log_s
    moved = 0
    for j in range(blocks):
        if by_rows:
            scratch.inside[j] = grown_again(data, state, forest, scratch, scratch.inside[j])
        log_ratio += forest.log_h[scratch.inside[j]]
        moved += forest.count[scratch.inside[j]] if j > 0 else 0
    if log_uniform < log_ratio:  # which the reverse can only lessen
        log_ratio += log_picks(data, state, forest, scratch, blocks, list_outside(scratch, f, 0))
    else:
        log_ratio = -math.inf
    accepted = exceeds(memory, SPLIT, log_ratio, log_uniform)
    if accepted:
        for t in range(n_old):
            release(forest, scratch.old[t])
        scratch.root[f] = scratch.inside[0]
        for j in range(1, blocks):
            scratch.root[K + j - 1] = scratch.inside[j]
        scratch.head[TREES] = K + blocks - 1
        state.num[Count.MOVED] += moved
        if by_rows:
            write_labels(forest, scratch.root[: scratch.head[TREES]], scratch.label, scratch.inside)
    else:
        for j in range(blocks):
            release_tree(forest, scratch.inside[j])
        for t in range(n_old):
            v = scratch.old[t]
            forest.up[forest.left[v]] = forest.up[forest.right[v]] = v
    return accepted


@kernel
def sort_by_first_row(forest, scratch, n_inside):
    """Order the trees inside but the first by the least observation of each."""
    if n_inside == 2:
        return
    for s in range(1, n_inside):
        number = leaves(forest, scratch.inside[s], scratch.node)
        scratch.tag[s] = scratch.node[0]
        for t in range(1, number):
            scratch.tag[s] = min(scratch.tag[s], scratch.node[t])
    sort_together(scratch.tag[1:n_inside], scratch.inside[1:n_inside], -1.0)


@kernel
def log_split_of_cascade(data, state, forest, scratch, root, first, n_inside, rng):
    """Log probability that a split undoes a cascade: SampleSub of its first node, then new trees of all that came later (equation 12)."""
    log_q = sample_node(forest, root, 0, scratch, first, rng)[1]
    for j in range(2, n_inside):
        log_q -= weigh_inside(data, state, forest, scratch, j, scratch.inside[j])
    return log_q


@kernel
def tag_blocks(data, forest, scratch, root):
    """Tags of all nodes below from those of the leaves: the block that they all are of, or -1."""
    v = first_below(forest, root)
    while v >= 0:
        if v >= data.group.shape[0]:
            left, right = scratch.tag[forest.left[v]], scratch.tag[forest.right[v]]
            scratch.tag[v] = left if left == right else -1
        v = following(forest, v, root)


@kernel
def log_split_into(data, state, forest, scratch, root, rng):
    """Log probability that the split of a tree yields the blocks that its leaves are tagged with; the tree is used up.

    The node to draw is found from the root on: always into the one child that is not within a block.
    """
    tag_blocks(data, forest, scratch, root)
    at = root
    while True:
        left, right = scratch.tag[forest.left[at]], scratch.tag[forest.right[at]]
        if left >= 0 and right >= 0:
            break
        if left < 0 and right < 0:
            return -math.inf
        at = forest.left[at] if left < 0 else forest.right[at]
    log_p = sample_node(forest, root, 0, scratch, at, rng)[1]
    scratch.block[0], scratch.block[1] = scratch.tag[forest.left[at]], scratch.tag[forest.right[at]]
    return log_p + scatter(data, state, forest, scratch, cut_path(forest, at, scratch.hung), 1, rng)[1]


@kernel
def join_marked(scratch, f, root, labels):
    """The clusters that are marked become one with f, whose tree is given; the last ones close the gaps."""
    K = 0
    for k in range(scratch.head[TREES]):
        if scratch.mark[k] == 0:
            scratch.root[K] = root if k == f else scratch.root[k]
            scratch.hung[k] = K
            K += 1
    scratch.head[TREES] = K
    for i in range(labels.shape[0]):
        k = labels[i]
        labels[i] = scratch.hung[f if scratch.mark[k] != 0 else k]


@kernel
def propose_merge(data, state, memory, forest, scratch, f, n_inside, log_q, log_uniform, rng):
    """Propose one tree of cluster f and of those that are marked; whether it is accepted."""
    by_rows = memory.option[TREE] == 1.0
    n_outside = list_outside(scratch, f, 1)
    if memory.option[FIRST_PICK] == 1.0:
        log_q = log_picks(data, state, forest, scratch, n_inside, n_outside)
    sort_by_first_row(forest, scratch, n_inside)
    root, first, moved = scratch.inside[0], -1, 0
    log_ratio = -forest.log_h[root] - log_q
    for j in range(1, n_inside):
        log_ratio -= forest.log_h[scratch.inside[j]]
        moved += forest.count[scratch.inside[j]]
        root = join(data, state.scratch.trial, forest, root, scratch.inside[j])
        if j == 1:
            first = root
    log_ratio += forest.log_h[root]
    if not log_uniform < log_ratio:  # which the reverse can only lessen
        log_ratio = -math.inf
    else:
        if by_rows:
            root = grown_again(data, state, forest, scratch, root)
        log_ratio += log_left_out(data, state, forest, scratch, root, n_outside) - math.log(n_outside + 1.0)
        if by_rows:
            for i in range(scratch.label.shape[0]):
                scratch.tag[i] = scratch.label[i]
            log_ratio += log_split_into(data, state, forest, scratch, root, rng)
        else:
            log_ratio += log_split_of_cascade(data, state, forest, scratch, root, first, n_inside, rng)
    accepted = exceeds(memory, MERGE, log_ratio, log_uniform)
    if accepted:
        state.num[Count.MOVED] += moved
        join_marked(scratch, f, root, scratch.label[: scratch.label.shape[0] if by_rows else 0])
    elif not by_rows:
        for _ in range(1, n_inside):
            below = forest.left[root]
            forest.up[below] = forest.up[forest.right[root]] = -1
            release(forest, root)
            root = below
    return accepted


@kernel
def propose(data, state, memory, forest, scratch, rng):
    """Pick a tree, and for each other whether it is to be joined with it; split the tree if there is none."""
    K = scratch.head[TREES]
    f = draw_integer(K, rng)
    log_uniform = -rng.standard_exponential()
    scratch.inside[0], n_inside = scratch.root[f], 1
    log_q = -math.log(K)
    for k in range(K):
        scratch.mark[k] = 0
        if k != f:
            x = log_d_between(data, state, forest, scratch.root[f], scratch.root[k])
            if -rng.standard_exponential() < log_sigmoid(-x):
                scratch.mark[k] = 1
                scratch.inside[n_inside] = scratch.root[k]
                n_inside += 1
                log_q += log_sigmoid(-x)
            else:
                log_q += log_sigmoid(x)
    if n_inside > 1:
        return propose_merge(data, state, memory, forest, scratch, f, n_inside, log_q, log_uniform, rng)
    if forest.left[scratch.root[f]] < 0:
        return False  # one observation cannot be split
    return propose_split(data, state, memory, forest, scratch, f, log_q, log_uniform, rng)


# ---- local moves


@kernel
def choose_observations(memory, forest, scratch, rng):
    """Mark the leaves of one subtree of each tree, drawn by SampleSub again and again; or all observations."""
    for i in range(scratch.mark.shape[0]):
        scratch.mark[i] = 1 if memory.option[SUBSET] == 1.0 else 0
    if memory.option[SUBSET] == 1.0:
        return
    for k in range(scratch.head[TREES]):
        v = scratch.root[k]
        for _ in range(int(memory.option[DEPTH])):
            v = sample_node(forest, v, 1, scratch, -1, rng)[0]
        for t in range(leaves(forest, v, scratch.inside)):
            scratch.mark[scratch.inside[t]] = 1


@kernel
def visit(data, state, forest, scratch, i, rng):
    """Redraw the cluster of observation i; where it moves, its leaf goes to the tree of the new cluster."""
    k, last, moved = state.labels[i], state.num[Count.CLUSTERS] - 1, state.num[Count.MOVED]
    status = gibbs_one(data, state, i, rng)
    if status != DONE or state.num[Count.MOVED] == moved:
        return status
    rest = detach(data, state.scratch.trial, forest, scratch.root[k], i)
    scratch.root[k] = rest if rest >= 0 else scratch.root[last]  # as the last cluster takes the place of one left empty
    new = state.labels[i]
    tree = scratch.root[new] if state.size[new] > 1 else -1
    scratch.root[new] = insert_leaf(data, state.scratch.trial, state.scratch.work, forest, tree, i)
    scratch.head[TREES] = state.num[Count.CLUSTERS]
    return DONE


@entry(MOVE_T)
def published(data, state, memory, rng):
    """option[0] global moves, then local moves in subtrees of depth option[1]; options[2:5] repairs; option[5] 1 for no local moves."""
    scratch = scratch_in(memory.divided)
    forest, n, most = scratch.forest, data.group.shape[0], state.size.shape[0] - 3
    for c in range(n + 2):
        forest.log_rising[c] = state.cache.log_rising[c]
    forest.guide[0] = log_cluster(state)
    if state.num[Count.CURSOR] == GLOBAL:
        by_rows = memory.option[TREE] == 1.0
        if not by_rows and fits(state, forest, scratch):
            for k in range(scratch.head[TREES]):
                refresh_tree(data, state.scratch.trial, forest, scratch.root[k], data.shared.shape[0] > 0)
        else:
            for i in range(n):
                scratch.label[i] = state.labels[i]
            build(data, state, forest, scratch, scratch.label, state.num[Count.CLUSTERS])
        scratch.head[CHANGED] = 0
        for _ in range(int(memory.option[GLOBAL_MOVES])):
            if propose(data, state, memory, forest, scratch, rng):
                scratch.head[CHANGED] = 1
            if state.num[Count.HALT] == GIVE_UP:
                return GIVEN_UP
            if by_rows:  # whether accepted or not, trees were used up
                build(data, state, forest, scratch, scratch.label, scratch.head[TREES])
        state.num[Count.CURSOR] = LABELS
    if state.num[Count.CURSOR] == LABELS:
        if scratch.head[TREES] > most:
            return NEED_ROOM
        if scratch.head[CHANGED] == 1:
            become_clusters(data, state, forest, scratch)
        if memory.option[NO_LOCAL] == 1.0:
            state.num[Count.CURSOR] = GLOBAL
            return DONE
        choose_observations(memory, forest, scratch, rng)
        state.num[Count.CURSOR] = LOCAL
    for i in range(state.num[Count.CURSOR] - LOCAL, n):
        if scratch.mark[i] == 1:
            if state.num[Count.CLUSTERS] > most:
                state.num[Count.CURSOR] = LOCAL + i
                return NEED_ROOM
            status = visit(data, state, forest, scratch, i, rng)
            if status != DONE:
                return status
    state.num[Count.CURSOR] = GLOBAL
    return DONE
