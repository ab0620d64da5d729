"""Permutation-augmented sampler of mixtures (Liang, Jordan & Taskar 2007): an order of the observations, then a partition into segments.

An order is drawn in which the members of every cluster stand together; its probability given the partition is 1/K! times a factor of each
cluster, 1/|c|! for uniform orders.  So given it, a partition into segments of the order has a probability proportional to

    A(K) prod_c B(c),   A(K) = prod_(0 < k < K) exp(log_next[k]) / K!,   log B(c) = log_cluster + log_rising[|c|] + log p(y_c) - log |c|!

at fixed u.  It is drawn exactly by a table over the number of segments, or from weights prod_c B(c) exp(slope) and accepted or not.
The slope, log A(K + 1) - log A(K) at a usual number of clusters, has to be fixed: it follows the number of clusters in tuning only.

With a Gamma(a0, b0) prior the mass may be integrated out: A(K) = Gamma(a0 + K) / (b0 + psi1)^(a0 + K) / K!, B without the mass.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import rebuild
from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import draw_index
from nrmmix.kernels.core.state import BROKEN, DONE, GIVEN_UP, NEED_ROOM, PROPOSED, SKIPPED, Count, Hyper
from nrmmix.kernels.measure.auxiliary import draw_psi1
from nrmmix.kernels.measure.weights import log_cluster, refresh_caches
from nrmmix.kernels.moves.imputation import redraw_cells
from nrmmix.kernels.moves.permutation.orders import markov_order, projected_order, uniform_order
from nrmmix.kernels.moves.permutation.segments import (
    COUNT,
    GROWTH,
    LIVE,
    LOG_CLUSTER,
    OUTSIDE,
    SLOPE,
    VALUE,
    Plan,
    draw_from_table,
    sum_forward,
    tabulate,
)
from nrmmix.kernels.moves.shared import exceeds, set_partition

# Memory.option: whether there is a table; the beam, or -1; one of the orders; whether the mass is integrated out.
TABLE, BEAM, ORDER, INTEGRATE_MASS = 0, 1, 2, 3
MARKOV, PROJECTION = 1.0, 2.0  # 0 for uniform
# Memory.learnt: the usual number of clusters, the iterations of tuning that it is learnt from, and the number last proposed in tuning.
USUAL, SEEN, LAST = 0, 1, 2


def scratch_size(n, n_directions, table, markov):
    """Return what `plan_of` cuts from a memory, and columns of statistics of single observations: ScratchSize(floats, ints, trial)."""
    floats = VALUE + 2 * (n + 1) + 2 * n + (3 * n if markov else 0) + n_directions + ((n + 1) * (n + 1) if table else 0)
    return floats, 5 * n + COUNT, n if markov else 0


@kernel
def plan_of(memory, n):
    a, w = memory.floats, memory.ints
    t = VALUE + 2 * (n + 1) + 2 * n
    scan = 3 if memory.option[ORDER] == MARKOV else 0
    t_scan = t + scan * n
    t_table = a.shape[0] - ((n + 1) * (n + 1) if memory.option[TABLE] == 1.0 else 0)
    t_B = t_table + ((n + 1) * (n + 2) // 2 if memory.option[TABLE] == 1.0 else 0)
    b = VALUE + n + 1
    return Plan(
        w[:n], w[n : 2 * n], w[2 * n : 3 * n], w[3 * n : 4 * n], w[4 * n : 5 * n], w[5 * n : 5 * n + COUNT],
        a[:VALUE], a[VALUE:b], a[b : b + n], a[b + n : b + 2 * n + 1], a[b + 2 * n + 1 : t], a[t:t_scan].reshape((scan, n)),
        a[t_scan:t_table], a[t_B:], a[t_table:t_B],
    )


@kernel
def is_search(state, memory):
    """Whether the order is along a random direction: the move then searches for partitions, and is accepted."""
    return memory.option[ORDER] == PROJECTION and state.num[Count.TUNING] == 1


@kernel
def digamma(x):
    """Compute digamma for x >= 1: upwards to 8 and on, then the asymptotic series, to 1e-11."""
    value = 0.0
    while x < 8.0:
        value -= 1.0 / x
        x += 1.0
    z = 1.0 / (x * x)
    return value + math.log(x) - 0.5 / x - z * (1.0 / 12.0 - z * (1.0 / 120.0 - z * (1.0 / 252.0 - z * (1.0 / 240.0 - z / 132.0))))


# ---- A(K)


@kernel
def log_A_ratio(data, state, memory, plan, K):
    """log A(K + 1) - log A(K); without K! in a search."""
    value = state.cache.log_next[K]
    if memory.option[INTEGRATE_MASS] == 1.0:
        a0, b0 = data.hyperprior[Hyper.MASS, 1], data.hyperprior[Hyper.MASS, 2]
        value = math.log(a0 + K) - math.log(b0 + plan.value[GROWTH])
    return value if is_search(state, memory) else value - math.log(K + 1.0)


@kernel
def slope_at(data, state, memory, plan, K):
    """The slope of log A at K clusters, or at the most that there can be."""
    value = 0.0
    if memory.option[INTEGRATE_MASS] == 1.0:
        a0, b0 = data.hyperprior[Hyper.MASS, 1], data.hyperprior[Hyper.MASS, 2]
        value = digamma(a0 + K) - math.log(b0 + plan.value[GROWTH])
    else:
        while K > 0 and state.cache.log_next[K] == -math.inf:
            K -= 1
        value = state.cache.log_next[K] if K > 0 else 0.0
    return value if is_search(state, memory) else value - digamma(K + 1.0)


@kernel
def usual_number(state, memory):
    """The number of clusters that the slope is taken at: in tuning the one last proposed, afterwards a mean with weights growing in tuning.

    Taken at the present number a chain of one cluster would refuse all that it proposes for ever.
    """
    K, learnt = state.num[Count.CLUSTERS], memory.learnt
    if state.num[Count.TUNING] == 1 or learnt[SEEN] == 0.0:
        learnt[SEEN] += 1.0
        learnt[USUAL] += (K - learnt[USUAL]) * 2.0 / (learnt[SEEN] + 1.0)
        learnt[LAST] = K if learnt[SEEN] == 1.0 else learnt[LAST]
    return max(1, min(state.labels.shape[0], int(learnt[LAST if state.num[Count.TUNING] == 1 else USUAL] + 0.5)))


# ---- the move


@kernel
def draw_order(data, state, memory, plan, rng):
    source, rank, first = plan.labels, plan.begin, plan.chosen  # scratch as yet
    if memory.option[ORDER] == MARKOV:
        return markov_order(data, state, plan.order, source, rank, first, plan.weight, rng)
    if is_search(state, memory):
        projected_order(data, state, plan.order, source, rank, first, plan.direction, plan.base, plan.weight, rng)
    else:
        uniform_order(state, plan.order, source, rank, first, rng)
    return DONE


@kernel
def tabulate_sizes(state, memory, plan):
    """Tabulate the part of log B in a cluster's size: its prior, and the probability of the order of its members."""
    log_factorial = 0.0
    for m in range(1, plan.by_size.shape[0]):
        log_factorial += math.log(m)
        order = log_factorial
        if is_search(state, memory):
            order = 0.0
        elif memory.option[ORDER] == MARKOV:  # the first is uniform; for the others see segments.scan_from
            order = math.log(m)
        plan.by_size[m] = state.cache.log_rising[m] - order


@kernel
def prepare(data, state, memory, plan, rng):
    """All that the dynamic program needs: the order with the old clusters in it, and the parts of A and B."""
    plan.value[LOG_CLUSTER] = log_cluster(state)
    if memory.option[INTEGRATE_MASS] == 1.0:
        plan.value[LOG_CLUSTER] -= math.log(state.hyper[Hyper.MASS])
        plan.value[GROWTH] = draw_psi1(data, state, rng)
    plan.value[SLOPE] = slope_at(data, state, memory, plan, usual_number(state, memory))
    tabulate_sizes(state, memory, plan)
    status = draw_order(data, state, memory, plan, rng)
    begin = 0
    for r in range(plan.order.shape[0]):
        plan.old_begin[r] = -1
        if r + 1 == begin + state.size[state.labels[plan.order[begin]]]:
            plan.old_begin[r] = begin
            begin = r + 1
    plan.count[LIVE] = 0
    plan.log_g[0] = 0.0
    return status


@kernel
def draw_by_number(data, state, memory, plan, rng):
    """The table; the number of clusters from it and A, and a partition into so many."""
    n = plan.order.shape[0]
    plan.value[SLOPE] = 0.0
    for r in range(n):
        plan.log_g[r] = 0.0
    most = 1
    while most < n and log_A_ratio(data, state, memory, plan, most) > -math.inf:
        most += 1
    if tabulate(data, state, plan, most) != DONE:
        return GIVEN_UP
    log_A = 0.0
    for K in range(1, most + 1):
        plan.weight[K - 1] = log_A + plan.table[n * (n + 1) // 2 + K]
        if K < most:
            log_A += log_A_ratio(data, state, memory, plan, K)
    drawn = draw_index(plan.weight, most, rng.random())
    if drawn < 0:
        state.num[Count.BAD_ROW] = plan.order[n - 1]
        return BROKEN
    return draw_from_table(state, plan, drawn + 1, rng)


@kernel
def follow_back(plan):
    """Labels of the partition whose segments plan.chosen has; how many there are, and how many members those have that are no old ones."""
    K, moved, last = 0, 0, plan.order.shape[0] - 1
    while last >= 0:
        begin = plan.chosen[last]
        if plan.old_begin[last] != begin:
            moved += last + 1 - begin
        for r in range(begin, last + 1):
            plan.labels[plan.order[r]] = K
        K += 1
        last = begin - 1
    return K, moved


@kernel
def log_ratio(data, state, memory, plan, K_new):
    """log of A(K_new) exp(-slope K_new) over the same of the old partition."""
    K_old = state.num[Count.CLUSTERS]
    value = 0.0
    for K in range(min(K_old, K_new), max(K_old, K_new)):
        step = log_A_ratio(data, state, memory, plan, K) - plan.value[SLOPE]
        value += step if K_new > K_old else -step
    return value


@kernel
def finish(data, state, memory, plan, is_within, rng):
    """Accept the partition that was drawn, or stay; then draw what was integrated out."""
    K, moved, accepted = state.num[Count.CLUSTERS], 0, False
    if is_within:
        K, moved = follow_back(plan)
        if K > state.size.shape[0] - 3:
            state.num[Count.CURSOR] = plan.order.shape[0]
            return NEED_ROOM
        memory.learnt[LAST] = K
        value = 0.0
        if is_search(state, memory):
            value = 0.0 if K == 1 or state.cache.log_next[K - 1] > -math.inf else -math.inf  # whether the prior allows so many
        elif memory.option[TABLE] == 0.0:
            value = log_ratio(data, state, memory, plan, K)
        accepted = exceeds(memory, 0, value, -rng.standard_exponential())
    else:
        memory.tally[PROPOSED] += 1.0
        memory.tally[SKIPPED] += 1.0
    if accepted:
        state.num[Count.MOVED] += moved
        set_partition(data, state, plan.labels, K)
    else:
        rebuild(data, state)
    if memory.option[INTEGRATE_MASS] == 1.0:
        a0, b0 = data.hyperprior[Hyper.MASS, 1], data.hyperprior[Hyper.MASS, 2]
        state.hyper[Hyper.MASS] = rng.standard_gamma(a0 + state.num[Count.CLUSTERS]) / (b0 + plan.value[GROWTH])
        refresh_caches(data, state)
    if data.rows.missing.shape[0] > 0:
        for i in range(state.labels.shape[0]):
            redraw_cells(data, state, i, rng)
    state.num[Count.CURSOR] = 0
    return DONE


@kernel
def move(data, state, memory, holds_old, rng):
    """The move, with `holds_old` as in `segments.sum_forward`."""
    n = state.labels.shape[0]
    plan = plan_of(memory, n)
    beam = memory.option[BEAM]
    status = DONE
    if state.num[Count.CURSOR] == 0:
        wide = memory.option[TABLE] == 1.0 or memory.option[ORDER] == MARKOV or beam < 0.0
        if wide and n > state.size.shape[0] - 4:
            return NEED_ROOM
        status = prepare(data, state, memory, plan, rng)
        if status == DONE and memory.option[TABLE] == 1.0:
            status = draw_by_number(data, state, memory, plan, rng)
            state.num[Count.CURSOR] = n
    if status == DONE and state.num[Count.CURSOR] < n:
        status = sum_forward(data, state, plan, beam, holds_old and not is_search(state, memory), rng)
    if status != DONE and status != OUTSIDE:
        return status
    return finish(data, state, memory, plan, status == DONE, rng)


@entry(MOVE_T)
def permutation(data, state, memory, rng):
    """Options and what is learnt: see the top of the module; floats and ints: `plan_of`."""
    return move(data, state, memory, True, rng)
