"""Slice sampler: weights and components of the random measure are drawn, then all labels independently of each other.

In a mixture all is at fixed u, in sizes times tau + u: of an occupied atom J_c ~ Gamma(n_c - sigma, 1), of the others as in
`nrmmix.kernels.measure.atoms`.  With slices u_i ~ U(0, J_(s_i)) the label of observation i is one of the finitely many atoms of at
least the size u_i, with probability in proportion to its density alone (Griffin & Walker 2011).

In density regression (Foti & Williamson 2012) atoms have locations too, drawn first, J_c ~ Gamma(n_c - sigma, tau + A) and u_i ~
U(0, K(x_i, mu) J).  An atom at p matters where it is larger than the least u_i / K(x_i, p) of all observations.  That bound is the
location's own: with one for all locations there would be many more atoms.

Where more atoms than max_atoms are expected the partition stays as it is.  That depends on slices, v and c only, which are held while the
labels are drawn: exact.  Missing cells that are drawn count as observed here, and are drawn anew at the end.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.locations import draw_locations
from nrmmix.kernels.core.special import draw_index
from nrmmix.kernels.core.state import BROKEN, DONE, GIVE_UP, GIVEN_UP, HEED_EVERY, NEED_ROOM, PROPOSED, SKIPPED, Count, Hyper
from nrmmix.kernels.measure.atoms import draw_located, draw_others
from nrmmix.kernels.measure.crm import most_jumps
from nrmmix.kernels.measure.weights import has_locations
from nrmmix.kernels.moves.atoms.draws import add_densities, draw_atoms, take_labels
from nrmmix.kernels.moves.shared import sort_together


def scratch_size(n, max_atoms, components, with_locations):
    """Slices, then sizes of atoms; labels, the number of atoms, their origins, and their locations by origin."""
    atoms = n + (components or most_jumps(float(max_atoms)))
    return n + atoms, n + 1 + atoms * (2 if with_locations else 1), 0, True


@kernel
def draw_sizes(data, state, memory, rng):
    """Slices of all observations, and sizes of the clusters' atoms and of all others above the lowest slice.

    The number of atoms; 0 where more than option[0] others are expected.
    """
    slices, sizes = memory.floats[: state.labels.shape[0]], memory.floats[state.labels.shape[0] :]
    sigma, K = state.hyper[Hyper.SIGMA], state.num[Count.CLUSTERS]
    for k in range(K):
        sizes[k] = rng.standard_gamma(state.size[k] - sigma)
    level = math.inf
    for i in range(slices.shape[0]):
        slices[i] = sizes[state.labels[i]] * (1.0 - rng.random())
        level = min(level, slices[i])
    others = draw_others(data, state, level, memory.option[0], sizes[K:], rng)
    return K + others if others >= 0 else 0


@kernel
def draw_located_sizes(data, state, memory, rng):
    """Draw sizes with locations, of density regression."""
    n, K = state.labels.shape[0], state.num[Count.CLUSTERS]
    slices, sizes, place = memory.floats[:n], memory.floats[n:], memory.ints[memory.floats.shape[0] + 1 :]
    lowest, level = state.scratch.by_group[0], state.scratch.by_location[3]
    draw_locations(state, rng)
    for k in range(K):
        place[k] = state.location[k]
        sizes[k] = rng.standard_gamma(state.size[k] - state.hyper[Hyper.SIGMA]) / (state.hyper[Hyper.TAU] + state.cache.A[place[k]])
    for g in range(lowest.shape[0]):
        lowest[g] = math.inf
    for i in range(n):
        g, k = data.group[i], state.labels[i]
        slices[i] = state.cache.K[g, place[k]] * sizes[k] * (1.0 - rng.random())
        lowest[g] = min(lowest[g], slices[i])
    for p in range(level.shape[0]):
        level[p] = math.inf
        for g in range(lowest.shape[0]):
            if state.cache.K[g, p] > 0.0:
                level[p] = min(level[p], lowest[g] / state.cache.K[g, p])
    others = draw_located(data, state, level, memory.option[0], sizes[K:], place[K:], rng)
    return K + others if others >= 0 else 0


@kernel
def count_from(sizes, M, slice_):
    """Count the atoms, by decreasing size, that are of at least this size."""
    low, high = 0, M
    while low < high:
        middle = (low + high) // 2
        if sizes[middle] >= slice_:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def draw_labels(data, state, slices, sizes, place, origin, labels, M, rng):
    """The atom of each observation, among those of at least the size of its slice, by the density of its cells."""
    p = state.scratch.score
    for i in range(labels.shape[0]):
        if state.num[Count.HALT] == GIVE_UP and i % HEED_EVERY == 0:
            return GIVEN_UP
        count = count_from(sizes, M, slices[i])  # K is at most 1
        labels[i] = 0
        if count == 1:
            continue
        for m in range(count):
            p[m] = 0.0
        if has_locations(state):
            K_row = state.cache.K[data.group[i]]
            for m in range(count):
                if K_row[place[origin[m]]] * sizes[m] < slices[i]:
                    p[m] = -math.inf
        add_densities(data, state, p, count, i)
        state.num[Count.SCORED] += count
        labels[i] = draw_index(p, count, rng.random())
        if labels[i] < 0:
            state.num[Count.BAD_ROW] = i
            return BROKEN
    return DONE


@kernel
def draw_partition(data, state, memory, M, rng):
    """Parameters of the atoms, labels given these and the slices; DONE, BROKEN or GIVEN_UP."""
    n = state.labels.shape[0]
    slices, sizes = memory.floats[:n], memory.floats[n:]
    labels, origin, place = memory.ints[:n], memory.ints[n + 1 :], memory.ints[memory.floats.shape[0] + 1 :]  # as many as sizes
    for m in range(M):
        origin[m] = m
    sort_together(sizes[:M], origin, 1.0)
    draw_atoms(data, state, origin, M, rng)
    status = draw_labels(data, state, slices, sizes, place, origin, labels, M, rng)
    if status == DONE:
        take_labels(data, state, memory, labels, origin, M, rng)
    return status


@entry(MOVE_T)
def slice_sampler(data, state, memory, rng):
    """option[0] max_atoms.  floats: slices (n,), sizes of atoms; ints: labels (n,), the number of atoms, their origins, locations.

    The tally has labels proposed and changed, and calls skipped.
    """
    n = state.labels.shape[0]
    if state.num[Count.CURSOR] == 0:
        if has_locations(state):
            memory.ints[n] = draw_located_sizes(data, state, memory, rng)
        else:
            memory.ints[n] = draw_sizes(data, state, memory, rng)
        memory.tally[PROPOSED] += n
        state.num[Count.SCORED] += n  # slices cost as well
        if memory.ints[n] == 0:
            memory.tally[SKIPPED] += 1.0
            return DONE
        if memory.ints[n] == memory.floats.shape[0] - n:  # that there is no room for more has no probability
            return BROKEN
    M = memory.ints[n]
    if M > state.size.shape[0] - 3:
        state.num[Count.CURSOR] = 1  # slices and sizes stay: to draw them anew would favour those that need few atoms
        return NEED_ROOM
    state.num[Count.CURSOR] = 0
    return draw_partition(data, state, memory, M, rng)
