"""Draws that moves on the atoms of the random measure share: parameters, densities under them, and the partition that atoms make.

Atoms 0..M-1 are the clusters' own and others; `origin` holds the cluster of each, or a number of K or more where it is of none.
"""

from __future__ import annotations

from nrmmix.kernels.core.clusters import empty_column, relocate
from nrmmix.kernels.core.entry import call_density, call_sample, call_score
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.state import ACCEPTED, Block, Count
from nrmmix.kernels.moves.algorithm8 import redraw_column
from nrmmix.kernels.moves.imputation import redraw_cells
from nrmmix.kernels.moves.shared import set_partition


@kernel
def draw_atoms(data, state, origin, M, rng):
    """Parameters of atoms 0..M-1, from the posterior of the cluster that an atom is of, from the prior for those of none.

    Into the columns of theta; those that are held into columns of stat, whose statistics are then nobody's.
    """
    K = state.num[Count.CLUSTERS]
    empty_column(data, state.stat, K)
    for b in range(data.block.shape[0]):
        block = data.block[b]
        if block[Block.REDRAW] == 0:
            for m in range(M):
                k = origin[m] if origin[m] < K else K
                call_sample(block[Block.SAMPLE], data.rows, state.stat, state.scratch.theta, block, k, m, rng)
    if data.explicit.shape[0] == 0:
        return
    for h in range(data.explicit.shape[0]):
        row = state.stat[data.explicit[h]]
        for k in range(K):
            state.scratch.score[k] = row[k]
        for m in range(M):
            if origin[m] < K:
                row[m] = state.scratch.score[origin[m]]
    for m in range(M):
        empty_column(data, state.stat, m)
        if origin[m] >= K:
            redraw_column(data, state, m, rng)


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
        if origin[m] >= state.num[Count.CLUSTERS]:
            origin[m] = -1
    for i in range(labels.shape[0]):
        k, K = state.labels[i], state.num[Count.CLUSTERS]
        own = origin[labels[i]]
        if own == k:
            continue
        alone = state.size[k] == 1
        if own >= 0 or not alone:
            relocate(data, state, i, own if own >= 0 else K)
        else:  # its cluster goes with it to the new atom
            state.num[Count.MOVED] += 1
        if alone:
            for m in range(M):
                if origin[m] == k:
                    origin[m] = -1
                elif origin[m] == K - 1 and own >= 0:  # the last cluster took the place of the emptied one
                    origin[m] = k
        origin[labels[i]] = state.labels[i]


@kernel
def add_densities(data, state, p, count, i):
    """Add to p[:count] the log densities of observation i under the parameters of the first atoms, cells that are drawn among it."""
    rows = data.complete  # no cell is missing that has been drawn
    for b in range(data.block.shape[0]):
        block = data.block[b]
        if block[Block.REDRAW] == 0:
            call_density(block[Block.DENSITY], rows, state.scratch.theta, state.scratch.work, p, block, count, i)
        else:
            call_score(block[Block.SCORE], rows, state.stat, state.scratch.work, p, block, count, i, -1)


@kernel
def take_labels(data, state, memory, labels, origin, M, rng):
    """Labels of atoms (n,) become the partition; missing cells are drawn anew."""
    n, moved = labels.shape[0], 0
    for i in range(n):
        if origin[labels[i]] != state.labels[i]:
            moved += 1
    memory.tally[ACCEPTED] += moved
    if data.explicit.shape[0] > 0 or 2 * moved > n:
        state.num[Count.MOVED] += moved
        set_partition(data, state, labels, number_atoms(data, state, labels, origin, M))
    else:
        relocate_all(data, state, labels, origin, M)
    for i in range(n):
        redraw_cells(data, state, i, rng)
