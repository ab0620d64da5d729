"""The auxiliary variables v given the partition, the locations and the hyperparameters.

The mixture is the case G = P = 1, where V = A = u.  In density regression single V_g are followed by moves of many of them at once.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import SCALAR_T, STEP_T, entry
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.locations import add_row
from nrmmix.kernels.core.slicing import slice_step
from nrmmix.kernels.core.special import draw_log_gamma, log_pos
from nrmmix.kernels.core.state import DONE, JOINT_WITH_V, LOG_V_MAX, MASS, MEASURE, N_CLUSTERS, SIGMA, STABLE, STRETCH_DENSITY, TAU, TINY
from nrmmix.kernels.measure.nrm import (
    draw_stable_u,
    exponents,
    growth_sums,
    is_integrated,
    is_mixture,
    mass_term,
    power_of_tau,
    psi1_at,
    recompute_A,
    total_psi1,
)

ALL = -1
FORGET = 1e-6  # a difference of sums that keeps less than this share of them is summed anew


@kernel
def log_density_v(data, state, count, x, floor, ceiling, base, K_row, c, R0, outside):
    if x > ceiling or x < floor:
        return -math.inf
    logs, growth = growth_sums(data, state, base, K_row, math.exp(x), c, R0)
    return count * x - logs + mass_term(data, state, state.hyper[SIGMA], growth + outside)


@kernel
def slice_v(data, state, count, start, floor, ceiling, base, K_row, c, R0, outside, rng):
    """One slice step for x = log v in [floor, ceiling] of count x - sum_p c_p log(base_p + v K_p) + (mass term).

    Where the arrays are of some of the locations, `outside` is what the others add to T.
    """
    start = max(floor, min(start, ceiling))
    level = log_density_v(data, state, count, start, floor, ceiling, base, K_row, c, R0, outside) - rng.standard_exponential()
    width = 1.0 + 2.0 / math.sqrt(count)
    lo = start - width * rng.random()
    hi = lo + width
    while log_density_v(data, state, count, lo, floor, ceiling, base, K_row, c, R0, outside) > level:
        lo -= width
    while log_density_v(data, state, count, hi, floor, ceiling, base, K_row, c, R0, outside) > level:
        hi += width
    while True:
        x = lo + (hi - lo) * rng.random()
        if log_density_v(data, state, count, x, floor, ceiling, base, K_row, c, R0, outside) >= level or not hi - lo > 1e-13:
            return x
        if x < start:
            lo = x
        else:
            hi = x


@entry(STEP_T)
def update_v(data, state, rng):
    """One slice step for each log V_g."""
    if data.setup[MEASURE] == STABLE and is_mixture(data):
        draw_stable_u(state, rng)
        return DONE
    G, P = state.K.shape
    tau = state.hyper[TAU]
    base, c, psi = state.plane[0], state.plane[1], state.plane[2]
    exponents(state, c)
    recompute_A(state)
    banded = is_banded(data, state)
    if banded:
        psi1_terms(data, state, 0, P, psi)
    for g in range(G):
        K_row = state.K[g]
        first, last, outside = 0, P, 0.0
        if banded:
            first, last = state.band[g, 0], state.band[g, 1]
            outside = sum_of(psi[:first]) + sum_of(psi[last:])
        lost = False
        for p in range(first, last):
            rest = state.A[p] - state.v[g] * K_row[p]
            lost = lost or rest < FORGET * state.A[p]
            base[p] = tau + rest
        if lost:
            for p in range(first, last):
                if state.A[p] - state.v[g] * K_row[p] < FORGET * state.A[p]:
                    rest = 0.0
                    for h in range(G):
                        if h != g:
                            rest += state.v[h] * state.K[h, p]
                    base[p] = tau + rest
        x = slice_v(
            data, state, data.group_size[g], math.log(state.v[g]), -LOG_V_MAX, LOG_V_MAX, base[first:last], K_row[first:last],
            c[first:last], data.R0[first:last], outside, rng,
        )
        state.v[g] = math.exp(x)
        for p in range(first, last):
            state.A[p] = (base[p] - tau) + state.v[g] * K_row[p]
        if banded:
            psi1_terms(data, state, first, last, psi)
    recompute_A(state)
    return DONE


@kernel
def draw_v_given_rates(data, state, rate, rng):
    """V_g ~ Gamma(n_g, rate_g), rate_g the sum of the sizes of all atoms times K(x_g, mu); what is kept is to be refreshed."""
    for g in range(rate.shape[0]):
        x = draw_log_gamma(data.group_size[g], rng) - math.log(max(rate[g], TINY))
        state.v[g] = math.exp(max(-LOG_V_MAX, min(LOG_V_MAX, x)))
    recompute_A(state)


@kernel
def is_banded(data, state):
    """Whether most of K is 0 outside its bands, so that sums over them are worth what they take to prepare."""
    if is_integrated(data):  # L is no sum over the locations
        return False
    G, P = state.K.shape
    within = 0
    for g in range(G):
        within += state.band[g, 1] - state.band[g, 0]
    return 2 * within < G * P


@kernel
def psi1_terms(data, state, first, last, psi):
    """psi[p] = R0(p) psi1(A_p) at first, ..., last - 1."""
    sigma, tau = state.hyper[SIGMA], state.hyper[TAU]
    log_tau, tau_power = math.log(tau) if tau > 0.0 else 0.0, power_of_tau(sigma, tau)
    fill_psi1(psi[first:last], data.R0[first:last], state.A[first:last], sigma, tau, log_tau, tau_power)


@fast
def fill_psi1(psi, R0, A, sigma, tau, log_tau, tau_power):
    for p in range(psi.shape[0]):
        psi[p] = R0[p] * psi1_at(log_pos(max(tau + A[p], TINY)), sigma, log_tau, tau_power)


@fast
def sum_of(row):
    total = 0.0
    for p in range(row.shape[0]):
        total += row[p]
    return total


@kernel
def draw_psi1(data, state, rng):
    """psi1(u) of a mixture; of a Dirichlet process, which has no u, drawn: tau / (tau + u) ~ Beta(mass, n) given the mass."""
    if data.setup[JOINT_WITH_V] == 1:
        return total_psi1(data, state, state.hyper[SIGMA])
    ratio = draw_log_gamma(float(state.labels.shape[0]), rng) - draw_log_gamma(state.hyper[MASS], rng)
    return ratio + math.log1p(math.exp(-ratio)) if ratio > 0.0 else math.log1p(math.exp(ratio))


@kernel
def find_regions(data, state):
    """region[g]: the first group whose first observation shares its cluster with that of group g."""
    for k in range(state.num[N_CLUSTERS]):
        state.score[k] = -1.0
    for i in range(state.labels.shape[0] - 1, -1, -1):
        state.region[data.group[i]] = state.labels[i]
    for g in range(state.region.shape[0]):
        k = state.region[g]
        if state.score[k] < 0.0:
            state.score[k] = g
        state.region[g] = int(state.score[k])


@entry(STEP_T)
def update_levels(data, state, rng):
    """The common scale of all V_g, that of each region, and the stretch of the regions' levels.

    Where A is large against tau only ratios of the V_g matter much: then levels differ between regions by orders of magnitude, under a
    heavy tail, and would move slowly by single V_g.  Regions do not depend on v, so each slice step leaves the posterior as it is.
    """
    exponents(state, state.plane[1])
    find_regions(data, state)
    gather_regions(data, state)
    rescale(data, state, ALL, rng)
    if state.num[N_CLUSTERS] > 1:
        for r in range(state.v.shape[0]):
            if state.region[r] == r:
                rescale(data, state, r, rng)
        stretch(data, state, rng)
    recompute_A(state)
    return DONE


@kernel
def gather_regions(data, state):
    """Of each region r: `level`, log V of its first group, the largest and smallest log V, observations, and its part of A."""
    level, top, bottom, count, part = state.carried[0], state.carried[1], state.carried[2], state.carried[3], state.trial
    for g in range(state.v.shape[0]):
        r, log_v = state.region[g], math.log(state.v[g])
        if r == g:
            level[r], top[r], bottom[r] = log_v, log_v, log_v
            count[r] = 0.0
            for p in range(part.shape[1]):
                part[r, p] = 0.0
        top[r] = max(top[r], log_v)
        bottom[r] = min(bottom[r], log_v)
        count[r] += data.group_size[g]
        add_row(part[r], state.K[g], state.v[g])


@kernel
def rescale(data, state, which, rng):
    """One slice step for the common log scale of the V_g of region `which`, or of ALL."""
    level, top, bottom, count, part = state.carried[0], state.carried[1], state.carried[2], state.carried[3], state.trial
    base, c, within = state.plane[0], state.plane[1], state.plane[2]
    for p in range(base.shape[0]):
        base[p] = state.hyper[TAU]
        within[p] = 0.0
    total, largest, smallest = 0.0, -math.inf, math.inf
    for r in range(state.region.shape[0]):
        if state.region[r] == r:
            if which == ALL or which == r:
                add_row(within, part[r], 1.0)
                total += count[r]
                largest, smallest = max(largest, top[r]), min(smallest, bottom[r])
            else:
                add_row(base, part[r], 1.0)
    floor, ceiling = min(-LOG_V_MAX - smallest, 0.0), max(LOG_V_MAX - largest, 0.0)
    x = slice_v(data, state, total, 0.0, floor, ceiling, base, within, c, data.R0, 0.0, rng)
    scale = math.exp(x)
    for g in range(state.region.shape[0]):
        r = state.region[g]
        if which == ALL or which == r:
            state.v[g] *= scale
            if r == g:
                level[r] += x
                top[r] += x
                bottom[r] += x
                for p in range(base.shape[0]):
                    part[r, p] *= scale


@kernel
def stretch(data, state, rng):
    """One slice step for s in log V_g + (s - 1) l_r, l_r the level of region r: Jacobian s^(number of regions)."""
    level = state.carried[0]
    s = math.exp(slice_step(data.setup[STRETCH_DENSITY], data, state, 0, 0.0, rng))
    for g in range(state.v.shape[0]):
        state.v[g] *= math.exp((s - 1.0) * level[state.region[g]])


@entry(SCALAR_T)
def log_density_stretch(data, state, which, z):
    """Log density of z = log s of `stretch`, from what is gathered of each region."""
    level, top, bottom, count, part = state.carried[0], state.carried[1], state.carried[2], state.carried[3], state.trial
    base, c, A = state.plane[0], state.plane[1], state.plane[2]
    if abs(z) > 50.0:
        return -math.inf
    for p in range(A.shape[0]):
        base[p] = state.hyper[TAU]
        A[p] = 0.0
    value = 0.0
    for r in range(state.region.shape[0]):
        if state.region[r] == r:
            shift = (math.exp(z) - 1.0) * level[r]
            if (shift > 0.0 and shift + top[r] > LOG_V_MAX) or (shift < 0.0 and shift + bottom[r] < -LOG_V_MAX):
                return -math.inf
            value += z + count[r] * shift
            add_row(A, part[r], math.exp(shift))
    exponents(state, c)
    logs, growth = growth_sums(data, state, base, A, 1.0, c, data.R0)
    return value + mass_term(data, state, state.hyper[SIGMA], growth) - logs
