"""Locations and sizes of clusters' atoms, then all labels: of density regression, with labels and v integrated out.

Given the parameters theta of the clusters' atoms, and the mass that unseen atoms have at each location, labels and v integrated out,

    p(mu, pi | all else) = prod_k R0(mu_k) pi_k^(-sigma - 1) exp(-tau pi_k) prod_i N_i / B_i,

    N_i = sum_k pi_k K(x_i, mu_k) p(y_i | theta_k),    B_i = sum_m pi_m K(x_i, mu_m) over all atoms, unseen ones too,

but that no cluster may become empty.  So rows are put in a random order, and the member of each cluster that comes first is its anchor.
Given the anchors a row that is none may join any cluster whose anchor comes before it, whatever others do, and N_i is the sum over these.
Location and size of some clusters, one after the other, are drawn from a grid of some places and some sizes; then all labels, which are
independent; then v given the sizes, which are integrated out again.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.locations import draw_locations, log_K_at
from nrmmix.kernels.core.special import draw_index, draw_integer, draw_share, local_numbers, log_pos, to_shares
from nrmmix.kernels.core.state import ACCEPTED, BROKEN, DONE, GIVE_UP, GIVEN_UP, HEED_EVERY, NEED_ROOM, PROPOSED, TINY, Count, Hyper
from nrmmix.kernels.measure.auxiliary import draw_v_given_rates
from nrmmix.kernels.measure.masses import draw_masses
from nrmmix.kernels.measure.rates import RATE, TOTAL, UNSEEN, fill_rates
from nrmmix.kernels.measure.weights import refresh_caches
from nrmmix.kernels.moves.atoms.draws import add_densities, draw_atoms
from nrmmix.kernels.moves.imputation import redraw_cells
from nrmmix.kernels.moves.shared import random_subset, set_partition

MOVED = 3  # clusters whose atoms move in one call
PLACES, SIZES, STEP = 8, 8, 1.0  # a grid: locations, and sizes a factor exp(STEP) apart
TRIED = PLACES * SIZES
NEARBY = 0.5  # share of the grids whose places are next to one another
LARGEST = 600.0  # log of a size, either way, whose exponential is a number
# Rows of floats (n,): densities in the clusters that move, what others bring to N and B, both without the one in question, K of its places
REST, REST_RATE, OTHERS, OTHERS_RATE, REACH = MOVED, MOVED + 1, MOVED + 2, MOVED + 3, MOVED + 4
ROWS = REACH + PLACES


def scratch_size(n):
    """Floats; orders, ranks and labels of rows; no columns of statistics, but parameters of atoms."""
    return ROWS * n, 3 * n, 0, True


@kernel
def find_anchors(state, order, rank, anchor, rng):
    """A random order of the rows, the rank of each in it, and the rank of the first member of each cluster."""
    for i in range(order.shape[0]):
        order[i] = i
    random_subset(order, order.shape[0], rng)
    for t in range(order.shape[0] - 1, -1, -1):
        rank[order[t]] = t
        anchor[state.labels[order[t]]] = t


@kernel
def add_log_densities(data, state, anchor, rank, i):
    """scratch.score[:K]: log densities of row i in the clusters that it may join, minus infinity in others."""
    p, K, own = state.scratch.score, state.num[Count.CLUSTERS], state.labels[i]
    for k in range(K):
        p[k] = 0.0
    add_densities(data, state, p, K, i)
    stays = anchor[own] == rank
    for k in range(K):
        if anchor[k] > rank or (stays and k != own):
            p[k] = -math.inf


@kernel
def draw_some(count, chosen, rng):
    """`chosen[:MOVED]`: so many clusters at most, all different, and -1 behind them where there are fewer."""
    for c in range(MOVED):
        chosen[c], known = -1.0, c < count
        while known:
            chosen[c], known = draw_integer(count, rng), False
            for b in range(c):
                known = known or chosen[b] == chosen[c]


@kernel
def is_among(chosen, k):
    found = False
    for c in range(MOVED):
        found = found or chosen[c] == k
    return found


@kernel
def draw_places(now, P, place, rng):
    """Some locations, the present one among them, so that each of them would have led to the same with the same probability."""
    count = min(PLACES, P)
    if rng.random() < NEARBY:
        first = now - draw_integer(count, rng)  # some may be beyond either end
        for a in range(count):
            place[a] = first + a
        return count
    place[0] = now
    for a in range(1, count):
        known = True
        while known:
            place[a], known = draw_integer(P, rng), False
            for b in range(a):
                known = known or place[b] == place[a]
    return count


@fast
def log_ratios(others, others_rate, density, reach, size):
    """sum_i log N_i / B_i"""
    total = 0.0
    for i in range(others.shape[0]):
        own = size * reach[i]
        total += log_pos(max((others[i] + own * density[i]) / max(others_rate[i] + own, TINY), TINY))
    return total


@kernel
def fill_others(data, state, floats, chosen, size, c):
    """Fill in what all clusters but the c-th of those that move bring to N and B."""
    for i in range(floats.shape[1]):
        row, total, rate = state.cache.K[data.group[i]], floats[REST, i], floats[REST_RATE, i]
        for b in range(MOVED):
            k = int(chosen[b])
            if b != c and k >= 0:
                own = size[k] * row[state.location[k]]
                total += own * floats[b, i]
                rate += own
        floats[OTHERS, i], floats[OTHERS_RATE, i] = total, rate


@kernel
def move_atom(data, state, floats, chosen, size, c, rng):
    """Draw location and size of the c-th cluster of those that move."""
    P, k = state.cache.A.shape[0], int(chosen[c])
    sigma, tau = state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU]
    z = log_pos(max(size[k], TINY)) - STEP * draw_integer(SIZES, rng)
    fill_others(data, state, floats, chosen, size, c)
    place, weight = local_numbers(PLACES), local_numbers(TRIED)
    count = draw_places(state.location[k], P, place, rng)
    for i in range(floats.shape[1]):
        row = state.cache.K[data.group[i]]
        for a in range(count):
            p = int(place[a])
            floats[REACH + a, i] = row[p] if 0 <= p < P else 0.0
    top = -math.inf
    for a in range(count):
        p = int(place[a])
        for j in range(SIZES):
            value, log_size = -math.inf, z + STEP * j
            if 0 <= p < P and abs(log_size) < LARGEST:
                value = math.log(data.R0[p]) - sigma * log_size - tau * math.exp(log_size)
                value += log_ratios(floats[OTHERS], floats[OTHERS_RATE], floats[c], floats[REACH + a], math.exp(log_size))
            weight[a * SIZES + j] = value
            top = max(top, value)
    total = 0.0
    for x in range(count * SIZES):
        weight[x] = math.exp(weight[x] - top)
        total += weight[x]
    left, x = rng.random() * total - weight[0], 0
    while left >= 0.0 and x < count * SIZES - 1:
        x += 1
        left -= weight[x]
    if weight[x] > 0.0:  # not so after rounding, or where a size was too large to begin with
        state.location[k], size[k] = int(place[x // SIZES]), math.exp(z + STEP * (x % SIZES))


@kernel
def draw_label(data, state, size, anchor, rank, i, rng):
    """A cluster for row i given all atoms, or -1."""
    p, K, row = state.scratch.score, state.num[Count.CLUSTERS], state.cache.K[data.group[i]]
    add_log_densities(data, state, anchor, rank, i)
    top, total = to_shares(p, K)
    if top > -math.inf:
        total = 0.0
        for k in range(K):
            p[k] *= size[k] * row[state.location[k]]
            total += p[k]
        if total > TINY:
            return draw_share(p, K, rng.random() * total)
    add_log_densities(data, state, anchor, rank, i)  # where it is far from all of them
    for k in range(K):
        if p[k] > -math.inf:
            p[k] += math.log(max(size[k], TINY)) + log_K_at(data, state, data.group[i], state.location[k])
    return draw_index(p, K, rng.random())


@kernel
def fill_rest(data, state, floats, chosen, size, anchor, rank):
    """Densities of all rows in the clusters that move, and what other clusters bring to N; GIVEN_UP or DONE.

    scratch.by_group[RATE] has what all but those that move bring to B.
    """
    p, K = state.scratch.score, state.num[Count.CLUSTERS]
    for i in range(floats.shape[1]):
        if state.num[Count.HALT] == GIVE_UP and i % HEED_EVERY == 0:
            return GIVEN_UP
        add_log_densities(data, state, anchor, rank[i], i)
        to_shares(p, K)
        for c in range(MOVED):
            k = int(chosen[c])
            floats[c, i] = 0.0
            if k >= 0:
                floats[c, i], p[k] = p[k], 0.0
        row, total = state.cache.K[data.group[i]], 0.0
        for k in range(K):
            total += p[k] * size[k] * row[state.location[k]]
        floats[REST, i], floats[REST_RATE, i] = total, state.scratch.by_group[RATE, data.group[i]]
    return DONE


@entry(MOVE_T)
def relocate(data, state, memory, rng):
    """floats: (ROWS n,); ints: order, ranks and labels of rows (3 n,)."""
    n, K = state.labels.shape[0], state.num[Count.CLUSTERS]
    if K > state.size.shape[0] - 3:
        return NEED_ROOM
    floats = memory.floats.reshape((ROWS, n))
    order, rank, labels = memory.ints[:n], memory.ints[n : 2 * n], memory.ints[2 * n :]
    size = state.scratch.work[state.scratch.work.shape[0] - 1]
    anchor = state.cache.log_weight  # log weights are made anew with the partition
    draw_locations(state, rng)
    mass, unseen = state.scratch.by_location[TOTAL], state.scratch.by_location[UNSEEN]
    draw_masses(data, state, rng)
    for k in range(K):
        size[k], labels[k] = state.scratch.score[k], k
    draw_atoms(data, state, labels, K, rng)
    find_anchors(state, order, rank, anchor, rng)
    chosen = local_numbers(MOVED)
    draw_some(K, chosen, rng)
    for p in range(mass.shape[0]):
        mass[p] = unseen[p]
    for k in range(K):
        if not is_among(chosen, k):
            mass[state.location[k]] += size[k]
    fill_rates(state.scratch.by_group[RATE], state.cache.K, mass)
    if fill_rest(data, state, floats, chosen, size, anchor, rank) != DONE:
        return GIVEN_UP
    for c in range(min(MOVED, K)):
        move_atom(data, state, floats, chosen, size, c, rng)
    moved = 0
    for i in range(n):
        if state.num[Count.HALT] == GIVE_UP and i % HEED_EVERY == 0:
            return GIVEN_UP
        labels[i] = draw_label(data, state, size, anchor, rank[i], i, rng)
        if labels[i] < 0:
            state.num[Count.BAD_ROW] = i
            return BROKEN
        moved += labels[i] != state.labels[i]
    memory.tally[PROPOSED] += n
    memory.tally[ACCEPTED] += moved
    state.num[Count.MOVED] += moved
    state.num[Count.SCORED] += 2 * n * K
    for c in range(min(MOVED, K)):
        k = int(chosen[c])
        mass[state.location[k]] += size[k]
    fill_rates(state.scratch.by_group[RATE], state.cache.K, mass)
    draw_v_given_rates(data, state, state.scratch.by_group[RATE], rng)
    set_partition(data, state, labels, K)
    refresh_caches(data, state)
    for i in range(n):
        redraw_cells(data, state, i, rng)
    return DONE
