"""Partitions into segments of an order: their sum by dynamic programming, and one of them drawn.

A partition of the first r observations of the order into segments has the weight prod_c B(c), and

    g(r) = sum_(i <= r) g(i - 1) B(i..r)                             for weights alone,
    g(r, K) = sum_(i <= r) g(i - 1, K - 1) B(i..r)                   by the number of segments (`table`).

Columns of state.stat hold the segments that end at r, one for each beginning: so log B grows by one log predictive.  A beam keeps at
each r the fewest of them that hold all but a share of the sum (Liang, Jordan & Taskar 2007, section 3.3); it depends on the order, the
data and B only.  All B are relative to prod_i p(y_i), which all partitions share: the part of an observation far out would drown the rest.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nrmmix.kernels.core.clusters import copy_column, empty_column, marginal_column, score_columns, update_column
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.special import draw_index, draw_share, exp_any, log1p_pos, log_pos, to_shares
from nrmmix.kernels.core.state import BROKEN, DONE, GIVE_UP, GIVEN_UP, NEED_ROOM, Count

OUTSIDE = -1  # status: a segment of the old partition is not in the beam
LIVE = 0  # in Plan.count: columns in use
COUNT = 1
SLOPE, LOG_CLUSTER, GROWTH = 0, 1, 2  # in Plan.value; see `nrmmix.kernels.moves.permutation.permutation`
VALUE = 3


class Plan(NamedTuple):
    """Views of a move's memory.  Positions in the order count from 0; log_g and table from no observation on."""

    order: np.ndarray  # (n,)
    begin: np.ndarray  # (n,) where the segment of each column begins
    chosen: np.ndarray  # (n,) where a segment that ends at r begins, if one does in the partition that is drawn
    old_begin: np.ndarray  # (n,) where the old cluster that ends at r begins; -1 where none ends
    labels: np.ndarray  # (n,) the partition that is drawn; scratch before
    count: np.ndarray  # (COUNT,)
    value: np.ndarray  # (VALUE,)
    log_g: np.ndarray  # (n + 1,); 0 where the table is used
    base: np.ndarray  # (n,) log [g(i - 1) B(i..r)] of each column, but for what depends on the length and the scan
    by_size: np.ndarray  # (n + 1,) and what depends on the length
    weight: np.ndarray  # (n,) scratch over columns or clusters
    scan: np.ndarray  # (3, n) of Markov scans: F(s, r), l(s, s + 1), and the sum of l - F from s on; (0, n) for others
    direction: np.ndarray  # of random projections
    B: np.ndarray  # (n (n + 1) / 2,) log B(i..r) at r (r + 1) / 2 + i; empty unless the table is used
    table: np.ndarray  # ((n + 1) (n + 2) / 2,) log g(r, K) at r (r + 1) / 2 + K; likewise


@kernel
def scan_from(data, state, plan, r):
    """Return the part of a segment's log B in its end r, in Markov scans: the third row of plan.scan."""
    F, follow, rest = plan.scan[0], plan.scan[1], plan.scan[2]
    i, out = plan.order[r], state.scratch.score
    for s in range(r):
        out[s] = 0.0
    score_columns(data, state.scratch.trial, state.scratch.work, out, r, i, -1)
    state.num[Count.SCORED] += r
    extend_scan(F, follow, rest, out, r)
    empty_column(data, state.scratch.trial, r)
    update_column(data, state.scratch.trial, r, i, 1.0)


@fast
def extend_scan(F, follow, rest, score, r):
    for s in range(r - 1):
        high, low = max(F[s], score[s]), min(F[s], score[s])
        F[s] = high + log1p_pos(exp_any(low - high))
    rest[r] = 0.0
    if r > 0:
        F[r - 1] = score[r - 1]
        follow[r - 1] = score[r - 1]
    for s in range(r - 1, -1, -1):
        rest[s] = rest[s + 1] + follow[s] - F[s]


@kernel
def extend(data, state, plan, r):
    """Into plan.base and plan.weight the segments that end at r, the one of r alone behind the others; columns do not have r yet."""
    i, L, out = plan.order[r], plan.count[LIVE], state.scratch.score
    empty_column(data, state.stat, L)
    plan.begin[L] = r
    plan.base[L] = plan.log_g[r] + plan.value[SLOPE] + plan.value[LOG_CLUSTER]
    plan.count[LIVE] = L + 1
    state.num[Count.SCORED] += L + 1
    if data.rows.missing.shape[0] > 0:  # cells drawn are part of the data here, and scores would leave a row's own out
        alone = 0.0
        for k in range(L, -1, -1):  # the one of r alone first
            before = marginal_column(data, state.stat, k)
            update_column(data, state.stat, k, i, 1.0)
            gain = marginal_column(data, state.stat, k) - before
            alone = gain if k == L else alone
            plan.base[k] += gain - alone
    else:
        for k in range(L):
            out[k] = 0.0
        score_columns(data, state.stat, state.scratch.work, out, L, i, -1)
        for k in range(L):
            plan.base[k] += out[k] - data.log_prior_predictive[i]
    if plan.scan.shape[0] > 0:
        scan_from(data, state, plan, r)
    weigh_segments(plan, r)


@fast
def weigh_segments(plan, r):
    for k in range(plan.count[LIVE]):
        plan.weight[k] = plan.base[k] + plan.by_size[r + 1 - plan.begin[k]]
    if plan.scan.shape[0] > 0:
        rest = plan.scan[2]
        for k in range(plan.count[LIVE]):
            plan.weight[k] += rest[plan.begin[k]]


@kernel
def enter(data, state, plan, r):
    """Observation r of the order into all columns."""
    if data.rows.missing.shape[0] == 0:
        for k in range(plan.count[LIVE]):
            update_column(data, state.stat, k, plan.order[r], 1.0)


@fast
def least(weight, L):
    k_least, w_least = 0, weight[0]
    for k in range(1, L):
        if weight[k] < w_least:
            k_least, w_least = k, weight[k]
    return k_least


@kernel
def prune(state, plan, beam, total):
    """Leave out the columns of least weight that together hold at most a share `beam` of the total; the sum that is left."""
    weight, lost = plan.weight, 0.0
    while True:
        k = least(weight, plan.count[LIVE])
        if lost + weight[k] > beam * total:
            return total - lost
        lost += weight[k]
        last = plan.count[LIVE] - 1
        plan.count[LIVE] = last
        if k != last:
            copy_column(state.stat, state.stat, last, k)
            plan.begin[k], plan.base[k], weight[k] = plan.begin[last], plan.base[last], weight[last]


@kernel
def is_live(plan, begin):
    for k in range(plan.count[LIVE]):
        if plan.begin[k] == begin:
            return True
    return False


@kernel
def sum_forward(data, state, plan, beam, holds_old, rng):
    """log g, and the beginning of a last segment drawn at each r: whoever follows them back from the end draws a partition.

    Each is used once at most.  beam: the share that may be lost, negative to keep all; holds_old: whether the old partition has to be
    in it.  NEED_ROOM: to be called again.
    """
    for r in range(state.num[Count.CURSOR], plan.order.shape[0]):
        if plan.count[LIVE] > state.size.shape[0] - 4:
            state.num[Count.CURSOR] = r
            return NEED_ROOM
        if state.num[Count.HALT] == GIVE_UP:
            return GIVEN_UP
        extend(data, state, plan, r)
        top, total = to_shares(plan.weight, plan.count[LIVE])
        if top == -math.inf:
            state.num[Count.BAD_ROW] = plan.order[r]
            return BROKEN
        if beam >= 0.0:
            total = prune(state, plan, beam, total)
            if holds_old and plan.old_begin[r] >= 0 and not is_live(plan, plan.old_begin[r]):
                return OUTSIDE
        plan.log_g[r + 1] = top + log_pos(total)
        plan.chosen[r] = plan.begin[draw_share(plan.weight, plan.count[LIVE], total * rng.random())]
        enter(data, state, plan, r)
    return DONE


# ---- by the number of segments


@kernel
def tabulate(data, state, plan, most):
    """plan.B and plan.table, for up to `most` segments; DONE or GIVEN_UP."""
    n = plan.order.shape[0]
    for r in range(n):
        if state.num[Count.HALT] == GIVE_UP:
            return GIVEN_UP
        extend(data, state, plan, r)
        row = plan.B[r * (r + 1) // 2 : (r + 1) * (r + 2) // 2]
        for k in range(r + 1):
            row[k] = plan.weight[k]
        enter(data, state, plan, r)
    plan.table[0] = 0.0
    for r in range(n):
        if state.num[Count.HALT] == GIVE_UP:
            return GIVEN_UP
        fill_row(plan.table, plan.B[r * (r + 1) // 2 : (r + 1) * (r + 2) // 2], plan.base, plan.weight, r, most)
    return DONE


@fast
def fill_row(table, B, top, total, r, most):
    """log g(r + 1, K) for all K up to `most`; top (n,) and total (n,) are scratch."""
    here = table[(r + 1) * (r + 2) // 2 :]
    here[0] = -math.inf
    for K in range(min(r + 1, most)):
        top[K] = -math.inf
        total[K] = 0.0
    for i in range(r + 1):
        before = table[i * (i + 1) // 2 :]
        for K in range(min(i + 1, most)):
            top[K] = max(top[K], before[K] + B[i])
    for i in range(r + 1):
        before = table[i * (i + 1) // 2 :]
        for K in range(min(i + 1, most)):
            total[K] += exp_any(before[K] + B[i] - top[K])
    for K in range(min(r + 1, most)):
        here[K + 1] = top[K] + log_pos(total[K])


@kernel
def draw_from_table(state, plan, n_segments, rng):
    """plan.chosen for a partition into so many segments."""
    last = plan.order.shape[0] - 1
    for K in range(n_segments, 0, -1):
        # the others need one observation each
        for i in range(K - 1, last + 1):
            plan.weight[i - K + 1] = plan.table[i * (i + 1) // 2 + K - 1] + plan.B[last * (last + 1) // 2 + i]
        k = draw_index(plan.weight, last - K + 2, rng.random())
        if k < 0:
            state.num[Count.BAD_ROW] = plan.order[last]
            return BROKEN
        plan.chosen[last] = k + K - 1
        last = plan.chosen[last] - 1
    return DONE
