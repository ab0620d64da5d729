"""Region sampler of density regression by a Dirichlet process (the spatial normalised gamma process of Rao & Teh 2009), for any kernel.

At sigma = 0 the atoms at location p, the region p, have the total size g_p, a gamma process of shape mass R0(p), so that given locations

    g_p ~ Gamma(mass R0(p) + n_p, tau + A_p),    V_g | g ~ Gamma(n_g, sum_p K(x_g, p) g_p),

n_p observations in region p; and in each region clusters are the tables of a Chinese restaurant of concentration mass R0(p).  One call:
locations and g are drawn, then the table of each observation, with its region; whole clusters go to other regions with g integrated out;
then g and v.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import relocate, score_columns, score_without
from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.jit import inlined, kernel
from nrmmix.kernels.core.locations import draw_locations, log_K_at
from nrmmix.kernels.core.special import draw_index, draw_log_gamma, draw_share
from nrmmix.kernels.core.state import ACCEPTED, BROKEN, DONE, GIVE_UP, GIVEN_UP, HEED_EVERY, NEED_ROOM, PROPOSED, TINY, Count, Hyper
from nrmmix.kernels.measure.auxiliary import draw_v_given_rates
from nrmmix.kernels.measure.weights import refresh_caches
from nrmmix.kernels.moves.imputation import redraw_cells

SIZE, LOAD, SHARE, NEW = 0, 1, 2, 3  # rows of the scratch: g_p, n_p, log g_p / (mass R0 + n_p), g_p mass R0 / (mass R0 + n_p)
ROWS = 4


@inlined
def set_share(data, state, region, p):
    """After a change of g_p or n_p."""
    mass = state.hyper[Hyper.MASS] * data.R0[p]
    share = region[SIZE, p] / (mass + region[LOAD, p])
    region[SHARE, p] = math.log(max(share, TINY))
    region[NEW, p] = mass * share


@kernel
def draw_regions(data, state, region, rng):
    """g given locations and v."""
    for p in range(region.shape[1]):
        region[LOAD, p] = 0.0
    for k in range(state.num[Count.CLUSTERS]):
        region[LOAD, state.location[k]] += state.size[k]
    for p in range(region.shape[1]):
        shape = state.hyper[Hyper.MASS] * data.R0[p] + region[LOAD, p]
        region[SIZE, p] = math.exp(draw_log_gamma(shape, rng) - state.cache.log_b[p])
        set_share(data, state, region, p)


@kernel
def draw_table(data, state, region, i, rng):
    """Redraw the cluster of observation i, and the location of a new one."""
    K, k_old, g, p = state.num[Count.CLUSTERS], state.labels[i], data.group[i], state.scratch.score
    alone = state.size[k_old] == 1
    left = state.location[k_old]
    region[LOAD, left] -= 1.0
    set_share(data, state, region, left)
    for k in range(K):
        at, n = state.location[k], state.size[k]
        p[k] = log_K_at(data, state, g, at) + region[SHARE, at] + state.cache.log_size[n - 1 if k == k_old else n]
    own = -1 if alone else k_old
    weight = p[k_old]
    score_columns(data, state.stat, state.scratch.work, p, K, i, own)
    if own >= 0 and math.isnan(p[own]):
        p[own] = weight + score_without(data, state, i, own)
    terms, total = state.scratch.by_location[0], 0.0
    for q in range(terms.shape[0]):
        terms[q] = state.cache.K[g, q] * region[NEW, q]
        total += terms[q]
    new = k_old if alone else K  # a singleton's own column stands for the new cluster
    m = K if alone else K + 1
    p[new] = math.log(max(total, TINY)) + data.log_prior_predictive[i]
    state.num[Count.SCORED] += m
    k = draw_index(p, m, rng.random())
    if k < 0:
        state.num[Count.BAD_ROW] = i
        return BROKEN
    at = draw_share(terms, terms.shape[0], rng.random() * total) if k == new else state.location[k]
    if k != k_old:
        relocate(data, state, i, k)
    state.location[state.labels[i]] = at
    region[LOAD, at] += 1.0
    set_share(data, state, region, at)
    return DONE


@kernel
def fill_rates(state, region, rate):
    """rate[g] = sum_p K(x_g, p) g_p"""
    for g in range(rate.shape[0]):
        rate[g] = 0.0
        for p in range(region.shape[1]):
            rate[g] += state.cache.K[g, p] * region[SIZE, p]


@entry(MOVE_T)
def sngp(data, state, memory, rng):
    """floats: (ROWS P,)."""
    n, moved = state.labels.shape[0], state.num[Count.MOVED]
    region = memory.floats.reshape((ROWS, state.cache.A.shape[0]))
    if state.num[Count.CLUSTERS] > state.size.shape[0] - 3:
        return NEED_ROOM
    if state.num[Count.CURSOR] == 0:
        draw_locations(state, rng)
        draw_regions(data, state, region, rng)
    status = DONE
    for i in range(state.num[Count.CURSOR], n):
        if state.num[Count.CLUSTERS] > state.size.shape[0] - 3:
            state.num[Count.CURSOR] = i
            status = NEED_ROOM
            break
        if state.num[Count.HALT] == GIVE_UP and i % HEED_EVERY == 0:
            return GIVEN_UP
        status = draw_table(data, state, region, i, rng)
        if status != DONE:
            break
        redraw_cells(data, state, i, rng)
    memory.tally[ACCEPTED] += state.num[Count.MOVED] - moved
    if status != DONE:
        return status
    state.num[Count.CURSOR] = 0
    memory.tally[PROPOSED] += n
    draw_locations(state, rng)
    draw_regions(data, state, region, rng)
    fill_rates(state, region, state.scratch.by_group[0])
    draw_v_given_rates(data, state, state.scratch.by_group[0], rng)
    refresh_caches(data, state)
    return DONE
