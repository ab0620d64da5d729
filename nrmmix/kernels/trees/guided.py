"""Tree-guided moves that leave the posterior invariant (after Lee & Choi 2015).

A cluster c is drawn, and every other one joins it with odds rho d^-eta, where log d(c, c') = log h(c) + log h(c') - log h(c u c') and h is
the potential of a cluster under a guide of constants.  Where none joins, c is split along its tree, the restriction of the guide tree
(`nrmmix.kernels.trees.guide_tree`); otherwise all of them are merged.  Every probability is an ordinary function of partitions, so that the
Metropolis-Hastings ratio is exact.  A split is proposed in one of two ways, drawn beforehand:

blocks: the path above an inner node is put into blocks by StocInsert (`nrmmix.kernels.trees.splits`), and the probability is a product.
scan: two members are drawn, each with those nearest to it on its side of the tree; the others join one or the other, and restricted Gibbs
scans follow (as in `nrmmix.kernels.moves.split_merge`).  All before the last scan depends on the union of the two clusters alone, and is
drawn anew to undo a split: only of the last scan a probability is needed.

In density regression locations are integrated out, and weights h(c) of clusters enter the ratio alone.  The guide has the covariates beside
the responses (`nrmmix.kernels.trees.guide_data`): what is drawn by it reads `wide` in place of `data`.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import affinities, combine_columns, copy_column, log_union, marginal_column, update_column
from nrmmix.kernels.core.entry import MOVE_T, call_move, entry
from nrmmix.kernels.core.jit import inlined, kernel
from nrmmix.kernels.core.locations import add_row
from nrmmix.kernels.core.special import draw_integer, log_sigmoid, with_factor
from nrmmix.kernels.core.state import DONE, PROPOSED, TALLY, Count
from nrmmix.kernels.measure.weights import (
    REACH,
    empty_part,
    extend_part,
    has_locations,
    log_weight_of,
    weigh_as,
    weigh_part,
)
from nrmmix.kernels.moves.shared import exceeds
from nrmmix.kernels.moves.split_merge import (
    FIRST_PART,
    SECOND_PART,
    WHOLE,
    choose_part,
    join_clusters,
    log_split_ratio,
    part_clusters,
    scan_parts,
    score_parts,
    start_parts,
)
from nrmmix.kernels.trees import splits
from nrmmix.kernels.trees.forest import log_add
from nrmmix.kernels.trees.guide_data import GUIDE, POSTERIOR
from nrmmix.kernels.trees.guide_tree import collect, induced_tree

SPLIT, MERGE = 0, 1  # kinds of the tally
CORE = 8  # members of each part from which a split by a scan sets out
# In pairs that a Gibbs sweep of a dozen clusters or more scores in up to twice the time: a member's part in a split by a scan (in one
# into blocks twice that), an affinity that is found with many at once, a level of the guide tree that an observation descends; and for a
# union's statistics and log marginal 8, and 3 for each row of statistics.
WORK_OF_MEMBER, WORK_OF_AFFINITY, WORK_OF_LEVEL = 33, 12, 65
WANTED_JOINS = 0.7  # clusters that join on average: what rho is adapted to
ADAPT = 0.05
LOWEST_LOG_RHO = -60.0


@kernel
def grow_chosen(wide, state, guide):
    """The tree of the members of the chosen clusters; how many there are."""
    count = collect(guide.tree, state.labels, guide.chosen)
    induced_tree(wide, state.scratch.trial, guide.forest, guide.tree, count)
    state.num[Count.SCORED] += 2 * count * WORK_OF_MEMBER
    return count


@kernel
def collect_chosen(state, guide):
    """The members of the chosen clusters, for a split by a scan; how many there are."""
    count = collect(guide.tree, state.labels, guide.chosen)
    state.num[Count.SCORED] += count * WORK_OF_MEMBER
    return count


@kernel
def log_odds_of(guide, size, other_size, affinity):
    """Log odds that two clusters join, by their sizes and what `affinities` says of them."""
    rising = guide.forest.log_rising
    log_d = guide.forest.guide[0] + rising[size] + rising[other_size] - rising[size + other_size] - affinity
    return guide.pull[1] - guide.pull[0] * log_d


@kernel
def marginal_of(data, state, found, m):
    """log p of cluster m, found when it is first asked for: guide.marginal of the posterior, guide.wide of the guide."""
    if math.isnan(found[m]):
        found[m] = marginal_column(data, state.stat, m)
    return found[m]


@inlined
def left_out(guide, own, m):
    """Whether cluster m cannot join the column at hand, whose number among the clusters is `own`, or -1: the chosen are in it then."""
    return m == own or (own < 0 and guide.chosen[m] != 0)


@kernel
def weigh_pairs(wide, state, guide, stat, k, size, marginal, own):
    """guide.odds of all clusters that are not left out: log odds to join column k of `stat`.

    Its log marginal has to be given where it is none of the clusters.
    """
    K, odds = state.num[Count.CLUSTERS], guide.odds
    known = affinities(wide, stat, k, state.stat, K, odds)
    for m in range(K):
        if not left_out(guide, own, m):
            if not known or math.isnan(odds[m]):
                alone = marginal_of(wide, state, guide.wide, own) if own >= 0 else marginal
                union = log_union(wide, stat, k, state.stat, m, state.scratch.trial, splits.UNION)
                odds[m] = union - alone - marginal_of(wide, state, guide.wide, m)
            odds[m] = log_odds_of(guide, size, state.size[m], odds[m])
    state.num[Count.SCORED] += K * (WORK_OF_AFFINITY if known else 8 + 3 * state.stat.shape[0])


@kernel
def log_pick(wide, state, guide, stat, k, size, marginal, own):
    """log probability that just the chosen clusters join column k of `stat`, once it is drawn; the others as in `weigh_pairs`."""
    weigh_pairs(wide, state, guide, stat, k, size, marginal, own)
    log_q, product = 0.0, 1.0
    for m in range(state.num[Count.CLUSTERS]):
        if not left_out(guide, own, m):
            odds = guide.odds[m] if guide.chosen[m] != 0 else -guide.odds[m]
            log_q, product = with_factor(log_q, product, odds, 1.0 / (1.0 + math.exp(min(-odds, 700.0))))
    return log_q + math.log(product)


# ---- two ways to split, and to undo a merge


@kernel
def log_of_numbers(state, K, blocks):
    """Log ratio of the numbers of clusters when one of K becomes `blocks`."""
    total = 0.0
    for t in range(K, K + blocks - 1):
        total += state.cache.log_next[t]
    return total


@kernel
def log_merge_back(wide, state, guide, stat, first, blocks, K):
    """log probability to pick one of the blocks, columns from `first` on, and just the others with it, when they are clusters.

    guide.size and guide.wide_union hold their sizes and log marginals; the cluster that they come from is chosen, alone of K.
    """
    total = -math.inf
    for a in range(blocks):
        log_p = log_pick(wide, state, guide, stat, first + a, guide.size[a], guide.wide_union[a], -1)
        for b in range(blocks):
            if b != a:
                union = log_union(wide, stat, first + a, stat, first + b, state.scratch.trial, splits.UNION)
                affinity = union - guide.wide_union[a] - guide.wide_union[b]
                log_p += log_sigmoid(log_odds_of(guide, guide.size[a], guide.size[b], affinity))
        total = log_add(total, log_p)
    return total - math.log(K - 1 + blocks)


@kernel
def reach_of_blocks(data, state, guide, blocks, count):
    """Sums of log K of blocks, to which guide.part says that the members belong; nothing in a mixture."""
    if has_locations(state):
        for b in range(blocks):
            empty_part(guide.reach, REACH + b)
        for t in range(count):
            extend_part(data, state, guide.reach, REACH + guide.part[t], guide.tree.member[t], 1.0)


@kernel
def weigh_unions(wide, state, guide, first, blocks):
    """guide.wide_union of blocks, columns of `trial` from `first` on; in a mixture guide.union is the same."""
    if has_locations(state):
        for b in range(blocks):
            guide.wide_union[b] = marginal_column(wide, state.scratch.trial, first + b)


@entry(MOVE_T)
def into_blocks(data, state, memory, rng):
    """Split the cluster that was picked into blocks, along its tree."""
    guide, wide, data = splits.guide_in(memory.divided), data.views[GUIDE], data.views[POSTERIOR]
    k, log_q, trial, K = memory.ints[splits.PICKED], memory.floats[splits.LOG_Q], state.scratch.trial, state.num[Count.CLUSTERS]
    count = grow_chosen(wide, state, guide)
    log_uniform = -rng.standard_exponential()
    v, log_node = splits.sample_sub(guide, count, rng)
    blocks, log_path = splits.climb(wide, state.scratch.trial, guide, v, count, guide.target[:0], rng)
    log_q += log_node + log_path
    gain = log_of_numbers(state, K, blocks) - log_weight_of(data, state, state.size[k], state.cache.log_K_sum[k])
    gain -= marginal_of(data, state, guide.marginal, k)
    reach_of_blocks(data, state, guide, blocks, count)
    for b in range(blocks):
        guide.union[b] = marginal_column(data, trial, splits.BLOCKS + b)
        gain += log_weight_of(data, state, guide.size[b], guide.reach[REACH + b]) + guide.union[b]
    if gain - log_q + math.log(blocks) - math.log(K - 1 + blocks) <= log_uniform:  # the most that there can be
        memory.tally[SPLIT * TALLY + PROPOSED] += 1.0
        return DONE
    weigh_unions(wide, state, guide, splits.BLOCKS, blocks)
    log_back = log_merge_back(wide, state, guide, trial, splits.BLOCKS, blocks, K)
    if not exceeds(memory, SPLIT, gain + log_back - log_q, log_uniform):
        return DONE
    for b in range(blocks):
        place = k if b == 0 else K + b - 1
        copy_column(trial, state.stat, splits.BLOCKS + b, place)
        state.size[place], guide.marginal[place], guide.wide[place] = guide.size[b], guide.union[b], guide.wide_union[b]
        weigh_as(data, state, place, guide.reach[REACH + b])
    state.num[Count.CLUSTERS] = K + blocks - 1
    for t in range(count):
        if guide.part[t] > 0:
            state.labels[guide.tree.member[t]] = K + guide.part[t] - 1
            state.num[Count.MOVED] += 1
    return DONE


@inlined
def enter_part(data, state, guide, place, which):
    guide.part[place] = which
    guide.size[which] += 1
    update_column(data, state.scratch.trial, which, guide.tree.member[place], 1.0)
    extend_part(data, state, guide.reach, which, guide.tree.member[place], 1.0)
    weigh_part(data, state, guide.reach, which, guide.size[which])


@kernel
def set_core(data, state, guide, at, low, high, which):
    """The CORE members nearest to place `at` in the tree, of those in low..high, are one part; from where to where they are."""
    between = guide.tree.between
    first, last = at, at
    while last - first + 1 < CORE and (first > low or last < high):
        if last == high or (first > low and between[first - 1] > between[last]):
            first -= 1
            enter_part(data, state, guide, first, which)
        else:
            last += 1
            enter_part(data, state, guide, last, which)
    return first, last


@kernel
def set_out(data, state, guide, count, rng):
    """Two parts of the collected members, in columns FIRST_PART and SECOND_PART, and the places of an anchor in each.

    Two members are drawn, and those nearest to them in the two subtrees in which they part are the parts' cores.  The others join one or
    the other by their predictive, the nearest in the tree first.  Depends on the members alone.
    """
    between, member = guide.tree.between, guide.tree.member
    a, b = draw_integer(count, rng), draw_integer(count - 1, rng)
    if b >= a:
        b += 1
    a, b = min(a, b), max(a, b)
    at = a
    for t in range(a, b):
        if between[t] < between[at]:
            at = t
    low, high = at, at + 1
    while low > 0 and between[low - 1] > between[at]:
        low -= 1
    while high < count - 1 and between[high] > between[at]:
        high += 1
    start_parts(data, state, guide.reach, member[a], member[b], guide.size)
    guide.part[a], guide.part[b] = 0, 1
    first, inner = set_core(data, state, guide, a, low, at, 0)
    outer, last = set_core(data, state, guide, b, at + 1, high, 1)
    while first > 0 or inner + 1 < outer or last < count - 1:  # places first..inner and outer..last are in a part
        nearest, t = -1, -1
        if first > 0:
            nearest, t = between[first - 1], first - 1
        if last < count - 1 and between[last] > nearest:
            nearest, t = between[last], last + 1
        if inner + 1 < outer and max(between[inner], between[outer - 1]) > nearest:
            t = inner + 1 if between[inner] > between[outer - 1] else outer - 1
        first, last = min(first, t), max(last, t)
        if t == inner + 1:
            inner = t
        elif t == outer - 1:
            outer = t
        score_parts(data, state, guide.reach, member, guide.part, member[a], member[b], guide.size, member[t], -1)
        which, _, _ = choose_part(state.scratch.score, -1, rng)
        enter_part(data, state, guide, t, which)
    return a, b


@kernel
def run_scans(data, state, guide, count, a, b, forced, scans, rng):
    """Restricted Gibbs scans from where `set_out` arrived, with anchors at places a and b; the log probability of the last.

    Forced, the last one leads to the clusters that the members are in.  guide.owner holds the members but for the anchors, and their parts.
    """
    n = guide.part.shape[0]
    member = guide.tree.member
    i, j = member[a], member[b]
    members, part, target = guide.owner[: count - 2], guide.owner[n : n + count - 2], guide.target[: count - 2]
    t = 0
    for s in range(count):
        if s != a and s != b:
            members[t], part[t] = member[s], guide.part[s]
            target[t] = 0 if state.labels[member[s]] == state.labels[i] else 1
            t += 1
    log_q = 0.0
    for s in range(scans):
        log_q = scan_parts(data, state, guide.reach, members, part, target, forced and s == scans - 1, i, j, guide.size, rng)
    return log_q


@entry(MOVE_T)
def by_scan(data, state, memory, rng):
    """Split the cluster that was picked by a restricted Gibbs scan."""
    guide, wide, data = splits.guide_in(memory.divided), data.views[GUIDE], data.views[POSTERIOR]
    k, log_q, trial, K = memory.ints[splits.PICKED], memory.floats[splits.LOG_Q], state.scratch.trial, state.num[Count.CLUSTERS]
    n, count = guide.part.shape[0], collect_chosen(state, guide)
    log_uniform = -rng.standard_exponential()
    a, b = set_out(data, state, guide, count, rng)
    log_q += run_scans(data, state, guide, count, a, b, False, int(memory.option[splits.SCANS]), rng)
    copy_column(state.stat, trial, k, WHOLE)
    gain = log_split_ratio(data, state, trial, guide.reach, FIRST_PART, SECOND_PART, guide.size[0], guide.size[1], K)
    if gain - log_q + math.log(2.0) - math.log(K + 1.0) <= log_uniform:
        memory.tally[SPLIT * TALLY + PROPOSED] += 1.0
        return DONE
    for part in range(2):
        guide.union[part] = marginal_column(data, trial, FIRST_PART + part)
    weigh_unions(wide, state, guide, FIRST_PART, 2)
    log_back = log_merge_back(wide, state, guide, trial, FIRST_PART, 2, K)
    if not exceeds(memory, SPLIT, gain + log_back - log_q, log_uniform):
        return DONE
    state.num[Count.MOVED] += guide.size[1]
    part_clusters(data, state, guide.reach, guide.owner[: count - 2], guide.owner[n : n + count - 2], guide.size, k, guide.tree.member[b])
    guide.marginal[k], guide.marginal[K] = guide.union[0], guide.union[1]
    guide.wide[k], guide.wide[K] = guide.wide_union[0], guide.wide_union[1]
    return DONE


@entry(MOVE_T)
def split_back(data, state, memory, rng):
    """LOG_BACK: log probability that the clusters that are chosen come from their union by a split of the kind at hand."""
    guide, wide, data = splits.guide_in(memory.divided), data.views[GUIDE], data.views[POSTERIOR]
    if memory.ints[splits.BY_SCAN] == 0:
        count = grow_chosen(wide, state, guide)
        block_of = guide.target[: state.num[Count.CLUSTERS]]
        for m in range(block_of.shape[0]):
            block_of[m] = -1
        memory.floats[splits.LOG_BACK] = splits.split_probability(wide, state.scratch.trial, guide, state.labels, count, block_of, rng)
        return DONE
    count, member = collect_chosen(state, guide), guide.tree.member
    a, b = set_out(data, state, guide, count, rng)
    if state.labels[member[a]] == state.labels[member[b]]:
        memory.floats[splits.LOG_BACK] = -math.inf
    else:
        memory.floats[splits.LOG_BACK] = run_scans(data, state, guide, count, a, b, True, int(memory.option[splits.SCANS]), rng)
    return DONE


# ---- proposals


@kernel
def join_chosen(data, state, guide, marginal, wide_marginal):
    """The chosen clusters become one, the first of them; its statistics are in column WHOLE."""
    chosen = guide.chosen
    kept = 0
    while chosen[kept] == 0:
        kept += 1
    for m in range(state.num[Count.CLUSTERS] - 1, kept, -1):
        if chosen[m] != 0:
            state.num[Count.MOVED] += state.size[m]
            join_clusters(data, state, kept, m)  # the last cluster comes to m
            last = state.num[Count.CLUSTERS]
            guide.marginal[m], guide.wide[m], chosen[m] = guide.marginal[last], guide.wide[last], chosen[last]
    guide.marginal[kept], guide.wide[kept] = marginal, wide_marginal


@entry(MOVE_T)
def merge(data, state, memory, rng):
    """Merge the cluster that was picked with those that are chosen to join it.

    Refused as soon as it is clear that it will be: a probability is at most 1.
    """
    guide, wide, posterior = splits.guide_in(memory.divided), data.views[GUIDE], data.views[POSTERIOR]
    k, blocks, scan = memory.ints[splits.PICKED], memory.ints[splits.JOINED] + 1, memory.ints[splits.BY_SCAN] != 0
    log_q = memory.floats[splits.LOG_Q]
    trial, K, chosen = state.scratch.trial, state.num[Count.CLUSTERS], guide.chosen
    log_uniform = -rng.standard_exponential()
    possible = blocks <= (2 if scan else splits.MAX_BLOCKS)
    size, gain = 0, -log_of_numbers(state, K + 1 - blocks, blocks)
    if possible:
        copy_column(state.stat, trial, k, WHOLE)
        empty_part(guide.reach, splits.OF_UNION)
        for m in range(K):
            if chosen[m] != 0:
                if m != k:
                    combine_columns(posterior, state.stat, trial, m, WHOLE)
                size += state.size[m]
                log_K_sum = state.cache.log_K_sum[m]
                gain -= log_weight_of(posterior, state, state.size[m], log_K_sum) + marginal_of(posterior, state, guide.marginal, m)
                add_row(guide.reach[splits.OF_UNION], log_K_sum, 1.0)
        marginal = marginal_column(posterior, trial, WHOLE)
        wide_marginal = marginal_column(wide, trial, WHOLE) if has_locations(state) else marginal
        gain += log_weight_of(posterior, state, size, guide.reach[splits.OF_UNION]) + marginal - math.log(K + 1.0 - blocks)
        possible = gain - log_q > log_uniform
    if possible:
        for m in range(K):
            if chosen[m] != 0 and m != k:
                log_other = log_pick(wide, state, guide, state.stat, m, state.size[m], 0.0, m)
                log_q = log_add(log_q, log_other - math.log(K))
        gain += log_pick(wide, state, guide, trial, WHOLE, size, wide_marginal, -1)
        possible = gain - log_q > log_uniform
    if not possible:
        memory.tally[MERGE * TALLY + PROPOSED] += 1.0
        return DONE
    call_move(int(memory.option[splits.BACK]), data, state, memory, rng)
    if exceeds(memory, MERGE, gain + memory.floats[splits.LOG_BACK] - log_q, log_uniform):
        join_chosen(posterior, state, guide, marginal, wide_marginal)
    return DONE


@kernel
def pick(wide, state, guide, memory, rng):
    """The cluster of a global move, and those that join it; how many do.

    Each joins by itself, with probability p.  A uniform number says how long clusters are left behind: the next to join is the first at
    which the probability that none has, the product of 1 - p since the last, is below it.
    """
    K = state.num[Count.CLUSTERS]
    memory.ints[splits.BY_SCAN] = 1 if rng.random() < memory.option[splits.SHARE] else 0
    k = draw_integer(K, rng)
    for m in range(K):
        guide.chosen[m] = 0
    weigh_pairs(wide, state, guide, state.stat, k, state.size[k], 0.0, k)
    joined, log_q = 0, -math.log(K)
    none, until = 1.0, 1.0 - rng.random()
    for m in range(K):
        if m == k:
            continue
        product = none / (1.0 + math.exp(min(guide.odds[m], 700.0)))
        if product < until:
            guide.chosen[m] = 1
            joined += 1
            log_q += math.log(none) + log_sigmoid(guide.odds[m])
            product, until = 1.0, 1.0 - rng.random()
        none = product
    guide.chosen[k] = 1
    memory.ints[splits.PICKED], memory.ints[splits.JOINED], memory.floats[splits.LOG_Q] = k, joined, log_q + math.log(none)
    return joined


@kernel
def adapt(state, memory, guide, joined):
    """Adapt log rho in tuning, so that as many clusters join as are wanted."""
    if state.num[Count.TUNING] != 0:
        guide.pull[1] = min(max(guide.pull[1] + ADAPT * (WANTED_JOINS - joined), LOWEST_LOG_RHO), 0.0)
        memory.learnt[splits.LOG_RHO] = guide.pull[1]


@entry(MOVE_T)
def global_move(data, state, memory, rng):
    """Part of an iteration: a cluster is drawn, and split, or merged with those that join it."""
    # its part in the next tree
    state.num[Count.SCORED] += int(WORK_OF_LEVEL * memory.ints[splits.LEVELS] / memory.option[splits.REFRESH])
    guide = splits.guide_in(memory.divided)
    joined = pick(data.views[GUIDE], state, guide, memory, rng)
    adapt(state, memory, guide, joined)
    if joined > 0:
        return call_move(int(memory.option[splits.MERGE]), data, state, memory, rng)
    if state.size[memory.ints[splits.PICKED]] > 1:
        way = splits.SCAN if memory.ints[splits.BY_SCAN] != 0 else splits.BLOCK
        return call_move(int(memory.option[way]), data, state, memory, rng)
    return DONE
