"""Slice sampler of mixtures: weights and components of the random measure are drawn, then all labels independently of each other.

All at fixed u, in sizes times tau + u: of an occupied atom J_c ~ Gamma(n_c - sigma, 1), of the others as in
`nrmmix.kernels.measure.atoms`.  With slices u_i ~ U(0, J_(s_i)) the label of observation i is one of the finitely many atoms of at
least the size u_i, with probability in proportion to its density alone (Griffin & Walker 2011).

Where more atoms than max_atoms are expected the partition stays as it is.  That depends on slices and c only, which are held while the
labels are drawn: exact.  Missing cells that are drawn count as observed here, and are drawn anew at the end.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.clusters import empty_column, relocate
from nrmmix.kernels.core.entry import MOVE_T, call_density, call_sample, call_score, entry
from nrmmix.kernels.core.jit import kernel, variable
from nrmmix.kernels.core.special import draw_index
from nrmmix.kernels.core.state import (
    ACCEPTED,
    BAD_ROW,
    BROKEN,
    CURSOR,
    DENSITY,
    DONE,
    N_CLUSTERS,
    N_MOVED,
    N_SCORED,
    NEED_ROOM,
    PROPOSED,
    REDRAW,
    SAMPLE,
    SCORE,
    SIGMA,
    SKIPPED,
    Rows,
)
from nrmmix.kernels.measure.atoms import draw_others
from nrmmix.kernels.measure.crm import most_jumps
from nrmmix.kernels.moves.algorithm8 import redraw_column
from nrmmix.kernels.moves.imputation import redraw_cells
from nrmmix.kernels.moves.shared import set_partition, sort_together


def scratch_size(n, max_atoms, components):
    """Slices, then sizes of atoms; labels, the number of atoms, their origins."""
    atoms = n + (components or most_jumps(float(max_atoms)))
    return n + atoms, n + 1 + atoms, 0, True


@kernel
def draw_sizes(data, state, memory, rng):
    """Slices of all observations, and sizes of the clusters' atoms and of all others above the lowest slice.

    The number of atoms; 0 where more than option[0] others are expected.
    """
    slices, sizes = memory.floats[: state.labels.shape[0]], memory.floats[state.labels.shape[0] :]
    sigma, K = state.hyper[SIGMA], state.num[N_CLUSTERS]
    for k in range(K):
        sizes[k] = rng.standard_gamma(state.size[k] - sigma)
    level = math.inf
    for i in range(slices.shape[0]):
        slices[i] = sizes[state.labels[i]] * (1.0 - rng.random())
        level = min(level, slices[i])
    others = draw_others(data, state, level, memory.option[0], sizes[K:], rng)
    return K + others if others >= 0 else 0


@kernel
def draw_atoms(data, state, origin, M, rng):
    """Parameters of atoms 0..M-1, from the posterior of the cluster that an atom is of, from the prior for those of none.

    Into the columns of theta; those that are held into columns of stat, whose statistics are then nobody's.
    """
    K = state.num[N_CLUSTERS]
    empty_column(data, state.stat, K)
    for b in range(data.block.shape[0]):
        block = data.block[b]
        if block[REDRAW] == 0:
            for m in range(M):
                k = origin[m] if origin[m] < K else K
                call_sample(block[SAMPLE], data.rows, state.stat, state.theta, block, k, m, rng)
    if data.explicit.shape[0] == 0:
        return
    for h in range(data.explicit.shape[0]):
        row = state.stat[data.explicit[h]]
        for k in range(K):
            state.score[k] = row[k]
        for m in range(M):
            if origin[m] < K:
                row[m] = state.score[origin[m]]
    for m in range(M):
        empty_column(data, state.stat, m)
        if origin[m] >= K:
            redraw_column(data, state, m, rng)


@kernel
def count_from(sizes, M, slice_):
    """How many of the atoms, by decreasing size, are of at least this size."""
    low, high = 0, M
    while low < high:
        middle = (low + high) // 2
        if sizes[middle] >= slice_:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def draw_labels(data, state, slices, sizes, labels, M, rng):
    """The atom of each observation, among those of at least the size of its slice, by the density of its cells."""
    r = data.rows
    rows = Rows(r.y, r.missing[:0], r.indptr, r.indices, r.counts, r.constant)  # no cell is missing that has been drawn
    p = state.score
    for i in range(labels.shape[0]):
        count = count_from(sizes, M, slices[i])
        labels[i] = 0
        if count == 1:
            continue
        for m in range(count):
            p[m] = 0.0
        for b in range(data.block.shape[0]):
            block = data.block[b]
            if block[REDRAW] == 0:
                call_density(block[DENSITY], rows, state.theta, state.work, p, block, count, i)
            else:
                call_score(block[SCORE], rows, state.stat, state.work, p, block, count, i, variable(-1))
        state.num[N_SCORED] += count
        labels[i] = draw_index(p, count, rng.random())
        if labels[i] < 0:
            state.num[BAD_ROW] = i
            return BROKEN
    return DONE


@kernel
def number_atoms(data, state, labels, origin, M):
    """Labels of atoms become labels of clusters, numbered by decreasing size; clusters keep the held parameters of their atoms."""
    for m in range(M):
        origin[m] = -1
    for i in range(labels.shape[0]):
        origin[labels[i]] = 0
    K = 0
    for m in range(M):
        if origin[m] == 0:
            for h in range(data.explicit.shape[0]):
                state.stat[data.explicit[h], K] = state.stat[data.explicit[h], m]
            origin[m] = K
            K += 1
    for i in range(labels.shape[0]):
        labels[i] = origin[labels[i]]
    return K


@kernel
def relocate_all(data, state, labels, origin, M):
    """Observations go from the clusters they are in to those of their atoms, one by one."""
    for m in range(M):  # from here on the cluster of an atom, or -1
        if origin[m] >= state.num[N_CLUSTERS]:
            origin[m] = -1
    for i in range(labels.shape[0]):
        k, K = state.labels[i], state.num[N_CLUSTERS]
        own = origin[labels[i]]
        if own == k:
            continue
        alone = state.size[k] == 1
        if own >= 0 or not alone:
            relocate(data, state, i, own if own >= 0 else K)
        else:  # its cluster goes with it to the new atom
            state.num[N_MOVED] += 1
        if alone:
            for m in range(M):
                if origin[m] == k:
                    origin[m] = -1
                elif origin[m] == K - 1 and own >= 0:  # the last cluster took the place of the emptied one
                    origin[m] = k
        origin[labels[i]] = state.labels[i]


@kernel
def draw_partition(data, state, memory, M, rng):
    """Parameters of the atoms, labels given these and the slices; DONE or BROKEN."""
    n = state.labels.shape[0]
    slices, sizes = memory.floats[:n], memory.floats[n:]
    labels, origin = memory.ints[:n], memory.ints[n + 1 :]
    for m in range(M):
        origin[m] = m
    sort_together(sizes[:M], origin, 1.0)
    draw_atoms(data, state, origin, M, rng)
    if draw_labels(data, state, slices, sizes, labels, M, rng) != DONE:
        return BROKEN
    moved = 0
    for i in range(n):
        if origin[labels[i]] != state.labels[i]:
            moved += 1
    memory.tally[ACCEPTED] += moved
    if data.explicit.shape[0] > 0 or 2 * moved > n:
        state.num[N_MOVED] += moved
        set_partition(data, state, labels, number_atoms(data, state, labels, origin, M))
    else:
        relocate_all(data, state, labels, origin, M)
    for i in range(n):
        redraw_cells(data, state, i, rng)
    return DONE


@entry(MOVE_T)
def slice_sampler(data, state, memory, rng):
    """option[0] max_atoms.  floats: slices (n,), sizes of atoms; ints: labels (n,), the number of atoms, their origins.

    The tally has labels proposed and changed, and calls skipped.
    """
    n = state.labels.shape[0]
    if state.num[CURSOR] == 0:
        memory.ints[n] = draw_sizes(data, state, memory, rng)
        memory.tally[PROPOSED] += n
        state.num[N_SCORED] += n  # slices cost as well
        if memory.ints[n] == 0:
            memory.tally[SKIPPED] += 1.0
            return DONE
        if memory.ints[n] == memory.floats.shape[0] - n:  # that there is no room for more has no probability
            return BROKEN
    M = memory.ints[n]
    if M > state.size.shape[0] - 3:
        state.num[CURSOR] = 1  # slices and sizes stay: to draw them anew would favour those that need few atoms
        return NEED_ROOM
    state.num[CURSOR] = 0
    return draw_partition(data, state, memory, M, rng)
