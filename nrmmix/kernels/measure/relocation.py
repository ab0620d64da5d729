"""Location and mass of a cluster's atom together, with v integrated out.

Given the partition, and locations mu and sizes pi of all atoms, v integrated out,

    p(mu_k, pi_k | all else) = R0(mu_k) pi_k^(n_k - sigma - 1) exp(-tau pi_k) prod_(i in k) K(x_i, mu_k) / prod_g B_g^n_g,

B_g = sum_m pi_m K(x_g, mu_m).  Where a cluster is the only one near, neither its width nor its size matters, for they cancel; but the v_g
of those rows then lie wherever both put them, over many orders of magnitude, and given v no other width has a chance.  So location and
size move together and without v: a Gibbs step among some locations and, at each, a window of values of z = log pi_k + (the mean over the
members of log K), which labels and location shift by a constant.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.special import draw_integer, local_numbers, log_pos
from nrmmix.kernels.core.state import OUT_OF_REACH, TINY, Count, Hyper
from nrmmix.kernels.measure.rates import OCCUPIED, OTHERS, RATE, fill_others, take_column

PLACES = 8  # locations that are tried at once, the present one among them
WINDOW = 16  # values of z that are tried at each
STEP = 1.0
TRIED = PLACES * WINDOW
LARGEST = 600.0  # log of a mass, either way, whose exponential is a number
COLUMN = 2  # Scratch.by_group, behind the rates


@fast
def log_rates(others, column, mass, size):
    """sum_g n_g log(others_g + mass column_g)"""
    total = 0.0
    for g in range(others.shape[0]):
        total += size[g] * log_pos(max(others[g] + mass * column[g], TINY))
    return total


@kernel
def relocate(data, state, rng):
    """The atom of one cluster; masses and rates follow.  scratch.score[:K] has the sizes of the clusters' atoms."""
    P, k = state.cache.A.shape[0], draw_integer(state.num[Count.CLUSTERS], rng)
    sigma, tau, n, now = state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU], state.size[k], state.location[k]
    occupied, log_K_sum = state.scratch.by_location[OCCUPIED], state.cache.log_K_sum[k]
    others, column = state.scratch.by_group[OTHERS], state.scratch.by_group[COLUMN]
    z = log_pos(max(state.scratch.score[k], TINY))
    if abs(z) >= LARGEST:
        return
    fill_others(state, now, state.scratch.score[k])
    z += log_K_sum[now] / n - STEP * draw_integer(WINDOW, rng)
    place, weight = local_numbers(PLACES), local_numbers(TRIED)
    top, count = -math.inf, min(PLACES, P)
    place[0] = now
    for a in range(count):
        if a > 0:
            known = True
            while known:
                place[a], known = draw_integer(P, rng), False
                for b in range(a):
                    known = known or place[b] == place[a]
        p = int(place[a])
        take_column(state.cache.K, p, column)
        for j in range(WINDOW):
            weight[a * WINDOW + j] = -math.inf
            log_mass = z + STEP * j - log_K_sum[p] / n
            if log_K_sum[p] > OUT_OF_REACH and abs(log_mass) < LARGEST:
                mass = math.exp(log_mass)
                value = math.log(data.R0[p]) + log_K_sum[p] + (n - sigma) * log_mass - tau * mass
                value -= log_rates(others, column, mass, data.group_size)
                weight[a * WINDOW + j] = value
                top = max(top, value)
    sum_of_weights = 0.0
    for x in range(count * WINDOW):
        sum_of_weights += math.exp(weight[x] - top)
    left, x = rng.random() * sum_of_weights, 0
    while x < count * WINDOW - 1:
        left -= math.exp(weight[x] - top)
        if left < 0.0:
            break
        x += 1
    p = int(place[x // WINDOW])
    mass = math.exp(z + STEP * (x % WINDOW) - log_K_sum[p] / n)
    occupied[now] = max(occupied[now] - state.scratch.score[k], 0.0)
    occupied[p] += mass
    state.location[k], state.scratch.score[k] = p, mass
    for g in range(others.shape[0]):
        state.scratch.by_group[RATE, g] = others[g] + mass * state.cache.K[g, p]
