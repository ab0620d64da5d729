"""Censored values, which are known by their limits alone: part of the data for every move, and part of the chain's state.

Once a sweep each of them is drawn given the cluster of its row, the other members of that and the other cells of the row, component
parameters integrated out: from the log predictive of the row, whatever its family.  What the limits leave is laid out between 0 and 1, a
half-line by t / (1 + t) of the distance t from its end, and sampled by slices that shrink from all of it (Neal 2003); so nothing is to be
tuned, and tails may be as far out as they like.  A count is the whole part of a number, uniform above it.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import copy_column, empty_column, fill_column, score_columns, score_columns_and_new, update_column
from nrmmix.kernels.core.entry import STEP_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.state import DONE, IS_COUNT, OF_COLUMN, OF_ROW, Count
from nrmmix.kernels.moves.imputation import redraw_cells

NARROWEST = 1e-14  # of a slice


@kernel
def _at(u, lower, upper):
    """The value at u, and the log of its derivative up to a constant."""
    if math.isinf(upper):
        return lower + u / (1.0 - u), -2.0 * math.log1p(-u)
    if math.isinf(lower):
        return upper - u / (1.0 - u), -2.0 * math.log1p(-u)
    return lower + (upper - lower) * u, 0.0


@kernel
def _place_of(y, lower, upper):
    """The u of a value, which it is the value at."""
    if math.isinf(upper):
        return (y - lower) / (1.0 + (y - lower))
    if math.isinf(lower):
        return (upper - y) / (1.0 + (upper - y))
    return (y - lower) / (upper - lower)


@kernel
def _log_density(data, state, c, u):
    """Log density of cell c at u given column 0, up to a constant; the value is left in its place."""
    i, j = data.censored[c, OF_ROW], data.censored[c, OF_COLUMN]
    y, log_slope = _at(u, data.limit[c, 0], data.limit[c, 1])
    data.rows.y[i, j] = math.floor(y) if data.censored[c, IS_COUNT] != 0 else y
    out = state.scratch.work[state.scratch.work.shape[0] - 1]
    out[0] = log_slope
    score_columns(data, state.stat, state.scratch.work, out, 1, i, -1)
    return out[0]


@kernel
def draw_cell(data, state, c, rng):
    """Draw cell c given the members of column 0, among which its row is not."""
    i, j = data.censored[c, OF_ROW], data.censored[c, OF_COLUMN]
    y = data.rows.y[i, j]
    if data.censored[c, IS_COUNT] != 0:
        y += rng.random()
    start = min(max(_place_of(y, data.limit[c, 0], data.limit[c, 1]), 0.0), 1.0 - NARROWEST)
    level = _log_density(data, state, c, start) - rng.standard_exponential()
    first, last = 0.0, 1.0
    while last - first > NARROWEST:
        u = first + (last - first) * rng.random()
        if _log_density(data, state, c, u) >= level:
            return
        if u < start:
            first = u
        else:
            last = u
    _log_density(data, state, c, start)  # where digits end the value stays


@entry(STEP_T)
def update_censored(data, state, rng):
    """Every censored value, row after row; then what rows are likely alone, which moves keep."""
    censored, K = data.censored, state.num[Count.CLUSTERS]
    for c in range(censored.shape[0]):
        i = censored[c, OF_ROW]
        k = state.labels[i]
        if c == 0 or censored[c - 1, OF_ROW] != i:
            if state.size[k] == 1:
                empty_column(data, state.stat, k)
            elif not update_column(data, state.stat, k, i, -1.0):
                fill_column(data, state, k, k, i)
            if k != 0:  # scores are those of the first columns
                copy_column(state.stat, state.stat, 0, K)
                copy_column(state.stat, state.stat, k, 0)
        draw_cell(data, state, c, rng)
        if c + 1 == censored.shape[0] or censored[c + 1, OF_ROW] != i:
            if k != 0:
                copy_column(state.stat, state.stat, K, 0)
            update_column(data, state.stat, k, i, 1.0)
            redraw_cells(data, state, i, rng)
    copy_column(state.stat, state.stat, 0, K)
    empty_column(data, state.stat, 0)
    for c in range(censored.shape[0]):
        state.scratch.score[0] = 0.0
        score_columns_and_new(data, state.stat, state.scratch.work, state.scratch.score, 0, censored[c, OF_ROW])
        data.log_prior_predictive[censored[c, OF_ROW]] = state.scratch.score[0]
    copy_column(state.stat, state.stat, K, 0)
    return DONE
