"""Blocked Gibbs sampler of finite measures: sizes, locations and parameters of all M atoms are drawn, then all labels.

sizes J_m ~ Gamma(mass / M + n_m, tau + A), the location of an atom without observations with probability in proportion to
R0(p) (tau + A_p)^-(mass / M), and labels with probability in proportion to K(x_i, mu_m) J_m p(y_i | theta_m).  Last, in density regression,
V_g | J ~ Gamma(n_g, sum_m K(x_g, mu_m) J_m).  In a mixture tau + u is the same for all atoms and cancels (Ishwaran & James 2001; the finite
sampler of Foti & Williamson 2012).  Missing cells that are drawn count as observed here, and are drawn anew at the end.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.locations import draw_locations, log_K_at
from nrmmix.kernels.core.special import draw_index, draw_log_gamma, draw_share
from nrmmix.kernels.core.state import BROKEN, DONE, GIVE_UP, GIVEN_UP, HEED_EVERY, NEED_ROOM, PROPOSED, TINY, Count, Hyper, Setup
from nrmmix.kernels.measure.atoms import shares_of_locations
from nrmmix.kernels.measure.auxiliary import draw_v_given_rates
from nrmmix.kernels.measure.weights import has_locations, refresh_caches
from nrmmix.kernels.moves.atoms.draws import add_densities, draw_atoms, take_labels


def scratch_size(n, components):
    """Logarithms of sizes, and sizes, of atoms; labels, origins and locations of atoms."""
    return 2 * components, n + 2 * components, 0, True


@kernel
def draw_sizes(data, state, log_sizes, origin, place, rng):
    """Log sizes of all atoms and, in density regression, their locations: the clusters' first."""
    sigma, K, shares, total = state.hyper[Hyper.SIGMA], state.num[Count.CLUSTERS], state.scratch.by_location[0], 0.0
    if has_locations(state):
        draw_locations(state, rng)
        total = shares_of_locations(data, state, shares)
    for m in range(log_sizes.shape[0]):
        origin[m] = m
        log_sizes[m] = draw_log_gamma((state.size[m] if m < K else 0.0) - sigma, rng)
        if has_locations(state):
            place[m] = state.location[m] if m < K else draw_share(shares, shares.shape[0], rng.random() * total)
            log_sizes[m] -= math.log(max(state.hyper[Hyper.TAU] + state.cache.A[place[m]], TINY))


@kernel
def draw_labels(data, state, log_sizes, place, labels, rng):
    """The atom of each observation; DONE, BROKEN or GIVEN_UP."""
    p, M = state.scratch.score, log_sizes.shape[0]
    for i in range(labels.shape[0]):
        if state.num[Count.HALT] == GIVE_UP and i % HEED_EVERY == 0:
            return GIVEN_UP
        for m in range(M):
            p[m] = log_sizes[m]
        if has_locations(state):
            for m in range(M):
                p[m] += log_K_at(data, state, data.group[i], place[m])
        add_densities(data, state, p, M, i)
        labels[i] = draw_index(p, M, rng.random())
        if labels[i] < 0:
            state.num[Count.BAD_ROW] = i
            return BROKEN
    state.num[Count.SCORED] += labels.shape[0] * M
    return DONE


@kernel
def fill_rates(state, sizes, place, rate):
    """rate[g] = sum_m K(x_g, mu_m) J_m"""
    for g in range(rate.shape[0]):
        rate[g] = 0.0
        for m in range(sizes.shape[0]):
            rate[g] += state.cache.K[g, place[m]] * sizes[m]


@entry(MOVE_T)
def blocked(data, state, memory, rng):
    """floats: log sizes and sizes of atoms (2 M,); ints: labels (n,), origins and locations of atoms (2 M,)."""
    n, M = state.labels.shape[0], data.setup[Setup.COMPONENTS]
    if M > state.size.shape[0] - 3:
        return NEED_ROOM
    log_sizes, sizes = memory.floats[:M], memory.floats[M:]
    labels, origin, place = memory.ints[:n], memory.ints[n : n + M], memory.ints[n + M :]
    draw_sizes(data, state, log_sizes, origin, place, rng)
    draw_atoms(data, state, origin, M, rng)
    status = draw_labels(data, state, log_sizes, place, labels, rng)
    if status != DONE:
        return status
    memory.tally[PROPOSED] += n
    take_labels(data, state, memory, labels, origin, M, rng)
    if has_locations(state):
        for m in range(M):
            sizes[m] = math.exp(log_sizes[m])
        fill_rates(state, sizes, place, state.scratch.by_group[0])
        draw_v_given_rates(data, state, state.scratch.by_group[0], rng)
        refresh_caches(data, state)
    return DONE
