"""Location of a cluster's atom together with the level of all masses on one side of it, with v integrated out; of a Dirichlet process.

Where two clusters meet, the ratio of their masses is known from where they meet, and where both do not matter it is not: a narrower atom
needs, to meet both of its neighbours where it did, another mass than before and other masses of all that is beyond one of them, by many
orders of magnitude.  Given the partition, locations mu, sizes pi of clusters' atoms, and masses M_p of unseen ones, v integrated out,

    p(mu, log pi, log M | partition) = prod_k R0(mu_k) pi_k^n_k exp(-tau pi_k) prod_(i in k) K(x_i, mu_k)
                                       prod_p M_p^(alpha R0(p)) exp(-tau M_p) / prod_g B_g^n_g.

A cluster k is drawn, and one side.  Proposed are another location of its atom, that pi_k K(x, mu_k) stays as it is halfway to the next
cluster on the other side, and that all masses on the side are multiplied so that their ratio to pi_k K(x, mu_k) stays as it is halfway to
the next cluster there.  What is on which side depends on the partition and on the matrix K alone, so shifts of log masses have a
Jacobian of 1.  Groups are in the order of the covariate.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import STEP_T, entry
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.locations import add_row, log_K_at
from nrmmix.kernels.core.special import draw_integer, exp_any, log_pos
from nrmmix.kernels.core.state import DONE, OUT_OF_REACH, TINY, Count, Hyper
from nrmmix.kernels.measure.auxiliary import draw_v_given_rates
from nrmmix.kernels.measure.masses import draw_masses
from nrmmix.kernels.measure.rates import OCCUPIED, UNSEEN, fill_rates, take_column

MOVED = 3  # clusters in one call
TRIED = 24  # locations, one after the other
NEARBY = 0.5  # share of these that are within REACH of the present one
REACH = 8
LARGEST = 600.0  # log of a mass, either way, whose exponential is a number
BESIDE, CENTRE = 2, 3  # Scratch.by_location, behind OCCUPIED and UNSEEN: masses on the side; where locations are, in groups
# Scratch.by_group: rates by all masses but those on the side and the cluster's, by those on the side; K at the atom's location and another
REST, SIDE, COLUMN, TRIAL = 0, 1, 2, 3


@kernel
def fill_positions(data, state, position):
    """position_k: mean group of the members of cluster k."""
    K = state.num[Count.CLUSTERS]
    for k in range(K):
        position[k] = 0.0
    for i in range(state.labels.shape[0]):
        position[state.labels[i]] += data.group[i]
    for k in range(K):
        position[k] /= state.size[k]


@kernel
def fill_centres(state, centre, total):
    """centre_p: mean group at location p, weighted by K."""
    for p in range(total.shape[0]):
        centre[p], total[p] = 0.0, TINY
    for g in range(state.cache.K.shape[0]):
        add_row(centre, state.cache.K[g], float(g))
        add_row(total, state.cache.K[g], 1.0)
    for p in range(total.shape[0]):
        centre[p] /= total[p]


@kernel
def halfway(state, position, k, sign):
    """The group halfway to the next cluster upwards (sign 1) or downwards (-1), or -1 where there is none."""
    best = math.inf
    for j in range(state.num[Count.CLUSTERS]):
        gap = sign * (position[j] - position[k])
        if gap > 0.0:
            best = min(best, gap)
    return int(position[k] + 0.5 * sign * best + 0.5) if best < math.inf else -1


@fast
def log_rates(others, side, column, scale, mass, size):
    """sum_g n_g log(others_g + scale side_g + mass column_g)"""
    total = 0.0
    for g in range(others.shape[0]):
        total += size[g] * log_pos(max(others[g] + scale * side[g] + mass * column[g], TINY))
    return total


@kernel
def draw_location(now, P, rng):
    """Another location, so that each of two leads to the other with the same probability; -1 beyond either end."""
    if rng.random() < NEARBY:
        p = now + (1 + draw_integer(REACH, rng)) * (1 if rng.random() < 0.5 else -1)
        return p if 0 <= p < P else -1
    return draw_integer(P, rng)


@kernel
def divide(data, state, k, sign, there):
    """Collect the masses on the side of cluster k beyond group `there`, and all others but that of k, by location; and their rates.

    Returns the observations on the side, the mass, and the shape of the gamma law of its unseen part; zeros where `there` is -1.
    """
    rows = state.scratch.by_location
    occupied, unseen, beside, centre = rows[OCCUPIED], rows[UNSEEN], rows[BESIDE], rows[CENTRE]
    position, n, mass, shape = state.cache.log_weight, 0.0, 0.0, 0.0
    for p in range(occupied.shape[0]):
        if there >= 0 and sign * (centre[p] - there) > 0.0:
            occupied[p], beside[p] = 0.0, unseen[p]
            shape += state.hyper[Hyper.MASS] * data.R0[p]
        else:
            occupied[p], beside[p] = unseen[p], 0.0
    for j in range(state.num[Count.CLUSTERS]):
        if there >= 0 and sign * (position[j] - position[k]) > 0.0:
            beside[state.location[j]] += state.scratch.score[j]
            n += state.size[j]
        elif j != k:
            occupied[state.location[j]] += state.scratch.score[j]
    for p in range(beside.shape[0]):
        mass += beside[p]
    fill_rates(state.scratch.by_group[REST], state.cache.K, occupied)
    fill_rates(state.scratch.by_group[SIDE], state.cache.K, beside)
    return n, mass, shape


@kernel
def multiply_side(state, k, sign, there, scale):
    """Multiply the masses on the side of cluster k beyond group `there`."""
    unseen, centre, position = state.scratch.by_location[UNSEEN], state.scratch.by_location[CENTRE], state.cache.log_weight
    for p in range(unseen.shape[0]):
        if sign * (centre[p] - there) > 0.0:
            unseen[p] *= scale
    for j in range(state.num[Count.CLUSTERS]):
        if sign * (position[j] - position[k]) > 0.0:
            state.scratch.score[j] *= scale


@kernel
def shift_side(data, state, k, sign, rng):
    """Propose locations of the atom of cluster k, one after the other; by_group[REST] has the rates by all masses after it."""
    rows = state.scratch.by_group
    others, side, column, trial = rows[REST], rows[SIDE], rows[COLUMN], rows[TRIAL]
    here, there = halfway(state, state.cache.log_weight, k, -sign), halfway(state, state.cache.log_weight, k, sign)
    n_side, mass_side, shape = divide(data, state, k, sign, there)
    tau, now, n, log_K_sum = state.hyper[Hyper.TAU], state.location[k], state.size[k], state.cache.log_K_sum[k]
    log_scale, log_mass = 0.0, log_pos(max(state.scratch.score[k], TINY))
    take_column(state.cache.K, now, column)
    rates = log_rates(others, side, column, 1.0, exp_any(log_mass), data.group_size)
    for _ in range(TRIED):
        p = draw_location(now, state.cache.A.shape[0], rng)
        if p < 0 or p == now or not log_K_sum[p] > OUT_OF_REACH:
            continue
        held = here if here >= 0 else there
        change = log_K_at(data, state, held, now) - log_K_at(data, state, held, p) if held >= 0 else 0.0
        shift = change + log_K_at(data, state, there, p) - log_K_at(data, state, there, now) if here >= 0 and there >= 0 else 0.0
        if not (abs(log_mass + change) < LARGEST and abs(log_scale + shift) < LARGEST):
            continue
        mass, scale = exp_any(log_mass + change), exp_any(log_scale + shift)
        take_column(state.cache.K, p, trial)
        tried = log_rates(others, side, trial, scale, mass, data.group_size)
        value = math.log(data.R0[p] / data.R0[now]) + log_K_sum[p] - log_K_sum[now]
        value += n * change + (n_side + shape) * shift - (tried - rates)
        value -= tau * (mass - exp_any(log_mass) + (scale - exp_any(log_scale)) * mass_side)
        if -rng.standard_exponential() < value:
            now, rates, log_mass, log_scale = p, tried, log_mass + change, log_scale + shift
            for g in range(column.shape[0]):
                column[g] = trial[g]
    mass, scale = exp_any(log_mass), exp_any(log_scale)
    state.location[k], state.scratch.score[k] = now, mass
    if there >= 0:
        multiply_side(state, k, sign, there, scale)
    for g in range(others.shape[0]):
        others[g] += scale * side[g] + mass * column[g]


@entry(STEP_T)
def update_sides(data, state, rng):
    """Locations of some clusters and masses on one side of each; then V given all masses, which are integrated out again."""
    K, position = state.num[Count.CLUSTERS], state.cache.log_weight  # log weights are made anew after all updates
    fill_positions(data, state, position)
    fill_centres(state, state.scratch.by_location[CENTRE], state.scratch.by_location[OCCUPIED])
    draw_masses(data, state, rng)
    for _ in range(MOVED):
        shift_side(data, state, draw_integer(K, rng), 1 if rng.random() < 0.5 else -1, rng)
    draw_v_given_rates(data, state, state.scratch.by_group[REST], rng)
    return DONE
