"""One iteration of tree-guided MCMC: the guide tree kept or planted anew, global moves, then Gibbs on the leaves of a subtree.

The guide tree is planted anew after a fixed number of global moves, in an order that follows from a number drawn then.  Its constants,
and the odds of a join, follow the chain in tuning and are kept afterwards.  The leaves that the local moves visit are those of a subtree
of the guide tree, drawn by SampleSub: they do not depend on the partition.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import MOVE_T, call_move, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import draw_integer, log_pos
from nrmmix.kernels.core.state import DONE, GIVE_UP, GIVEN_UP, NEED_ROOM, Count, Hyper
from nrmmix.kernels.measure.weights import typical_log_weight
from nrmmix.kernels.trees import splits
from nrmmix.kernels.trees.guide_data import GUIDE, PLANTED, copy_observed, fill_log_guide, is_guided, refresh_guide
from nrmmix.kernels.trees.guide_tree import ORDERS, plant_guide_tree, sample_range, shuffle
from nrmmix.kernels.trees.splits import GUIDE_CLUSTER, GUIDE_SIGMA, LOG_RHO, TREE

AGES = 2**16  # learnt[TREE] = number * AGES + age, in iterations


@kernel
def follow(data, state, memory):
    """The guide's constants become those of the chain; where all components of a finite mixture are taken, as if one were not."""
    K = state.num[Count.CLUSTERS]
    while K > 1 and state.cache.log_next[K] == -math.inf:
        K -= 1
    memory.learnt[GUIDE_CLUSTER] = typical_log_weight(data, state) + max(state.cache.log_next[K], -100.0)
    memory.learnt[GUIDE_SIGMA] = state.hyper[Hyper.SIGMA]


@kernel
def number_of_tree(memory):
    return int(memory.learnt[TREE]) // AGES


@kernel
def plant_by_number(data, state, memory, guide):
    """The guide tree that belongs to the kept number, and the guide at the kept constants."""
    sigma, forest = memory.learnt[GUIDE_SIGMA], guide.forest
    forest.guide[0] = memory.learnt[GUIDE_CLUSTER]
    forest.log_rising[1] = 0.0
    for m in range(2, forest.log_rising.shape[0]):
        forest.log_rising[m] = forest.log_rising[m - 1] + log_pos(m - 1.0 - sigma)
    shuffle(guide.tree.order, number_of_tree(memory))
    if is_guided(data):
        fill_log_guide(data.views[GUIDE], state.scratch.trial)
    copy_observed(data)
    memory.ints[splits.LEVELS] = plant_guide_tree(data.views[PLANTED], state, forest, guide.tree)
    memory.ints[splits.PLANTED] = number_of_tree(memory)


@entry(MOVE_T)
def begin(data, state, memory, rng):
    """Part of an iteration: the guide tree is one iteration older, or new; the leaves that local moves will visit."""
    learnt, guide = memory.learnt, splits.guide_in(memory.divided)
    if is_guided(data):
        refresh_guide(data, state)
    if learnt[TREE] == 0.0:
        learnt[GUIDE_CLUSTER], learnt[GUIDE_SIGMA] = memory.option[splits.START_CLUSTER], memory.option[splits.START_SIGMA]
    age = int(learnt[TREE]) % AGES
    if learnt[TREE] == 0.0 or age * memory.option[splits.GLOBAL_MOVES] >= memory.option[splits.REFRESH] or age == AGES - 1:
        if state.num[Count.TUNING] != 0:
            follow(data, state, memory)
        learnt[TREE] = float((1 + draw_integer(ORDERS, rng)) * AGES)
    learnt[TREE] += 1.0
    if memory.ints[splits.PLANTED] != number_of_tree(memory):
        plant_by_number(data, state, memory, guide)
        if state.num[Count.HALT] == GIVE_UP:
            return GIVEN_UP
    first, last = 0, guide.tree.order.shape[0]
    for _ in range(int(memory.option[splits.DEPTH])):
        if last - first > 1:
            first, last = sample_range(guide.tree, first, last, rng)
    memory.ints[splits.FIRST_LEAF], memory.ints[splits.LAST_LEAF], memory.ints[splits.IS_LOCAL] = first, last, 0
    guide.pull[0], guide.pull[1] = memory.option[splits.ETA], learnt[LOG_RHO]
    for k in range(state.num[Count.CLUSTERS]):
        guide.marginal[k] = guide.wide[k] = math.nan
    return DONE


@entry(MOVE_T)
def tree_guided(data, state, memory, rng):
    """One iteration; `option` and `learnt` as in `splits`."""
    n, moves = state.labels.shape[0], int(memory.option[splits.GLOBAL_MOVES])
    if n < 2:
        return DONE
    if state.num[Count.CURSOR] == 0:
        if call_move(int(memory.option[splits.PLANT]), data, state, memory, rng) == GIVEN_UP:
            return GIVEN_UP
        state.num[Count.CURSOR] = 1
    if memory.ints[splits.IS_LOCAL] == 0:
        while state.num[Count.CURSOR] <= moves:
            if state.num[Count.CLUSTERS] > state.size.shape[0] - 3 - splits.MAX_BLOCKS:
                return NEED_ROOM
            call_move(int(memory.option[splits.GLOBAL]), data, state, memory, rng)
            if state.num[Count.HALT] == GIVE_UP:
                return GIVEN_UP
            state.num[Count.CURSOR] += 1
        if state.num[Count.CLUSTERS] > state.size.shape[0] - 3:
            return NEED_ROOM
        memory.ints[splits.IS_LOCAL], state.num[Count.CURSOR] = 1, 0
        memory.parts[0].option[0] = memory.ints[splits.LAST_LEAF] - memory.ints[splits.FIRST_LEAF]
        memory.parts[0].option[1] = 1.0
    local, first = memory.parts[0], splits.place_of_order(n) + memory.ints[splits.FIRST_LEAF]
    for t in range(int(local.option[0])):
        local.ints[t] = memory.ints[first + t]
    return call_move(int(memory.option[splits.LOCAL]), data, state, local, rng)
