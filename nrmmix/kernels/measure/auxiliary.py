"""The auxiliary variables v given the partition, the locations and the hyperparameters.

The mixture is the case G = P = 1, where V = A = u.  In density regression all V_g are drawn at once, see `nrmmix.kernels.measure.masses`,
followed by moves of many of them together.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import SCALAR_T, STEP_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.locations import add_row
from nrmmix.kernels.core.slicing import STEP, slice_step, slices_under
from nrmmix.kernels.core.special import draw_log_gamma
from nrmmix.kernels.core.state import DONE, LOG_V_MAX, STABLE, TINY, Count, Hyper, Setup
from nrmmix.kernels.measure.nrm import (
    draw_stable_u,
    exponents,
    growth_sums,
    mass_term,
    recompute_A,
    total_psi1,
)

ALL = -1


@kernel
def log_density_v(data, state, count, x, floor, ceiling, base, K_row, c):
    if x > ceiling or x < floor:
        return -math.inf
    logs, growth = growth_sums(data, state, base, K_row, math.exp(x), c, data.R0)
    return count * x - logs + mass_term(data, state, state.hyper[Hyper.SIGMA], growth)


@kernel
def _log_density_of(of, x):
    data, state, count, floor, ceiling, base, K_row, c = of
    return log_density_v(data, state, count, x, floor, ceiling, base, K_row, c)


_slice = slices_under(_log_density_of)


@kernel
def slice_v(data, state, count, start, floor, ceiling, base, K_row, c, rng):
    """One slice step for x = log v in [floor, ceiling] of count x - sum_p c_p log(base_p + v K_p) + (mass term)."""
    start = max(floor, min(start, ceiling))
    return _slice((data, state, count, floor, ceiling, base, K_row, c), start, 1.0 + 2.0 / math.sqrt(count), rng)


@entry(STEP_T)
def update_u(data, state, rng):
    """One slice step for log u of a mixture; of one by a stable process u is drawn."""
    if data.setup[Setup.MEASURE] == STABLE:
        draw_stable_u(state, rng)
        return DONE
    base, c = state.scratch.by_location[0], state.scratch.by_location[1]
    exponents(state, c)
    base[0] = state.hyper[Hyper.TAU]
    x = slice_v(data, state, data.group_size[0], math.log(state.v[0]), -LOG_V_MAX, LOG_V_MAX, base, state.cache.K[0], c, rng)
    state.v[0] = math.exp(x)
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
def draw_psi1(data, state, rng):
    """psi1(u) of a mixture; of a Dirichlet process, which has no u, drawn: tau / (tau + u) ~ Beta(mass, n) given the mass."""
    if data.setup[Setup.JOINT_WITH_V] == 1:
        return total_psi1(data, state, state.hyper[Hyper.SIGMA])
    ratio = draw_log_gamma(float(state.labels.shape[0]), rng) - draw_log_gamma(state.hyper[Hyper.MASS], rng)
    return ratio + math.log1p(math.exp(-ratio)) if ratio > 0.0 else math.log1p(math.exp(ratio))


@kernel
def find_regions(data, state):
    """region[g], 0, 1, ... in order of their first groups: alike where the first observations of two groups share a cluster.  How many."""
    for k in range(state.num[Count.CLUSTERS]):
        state.scratch.score[k] = -1.0
    for i in range(state.labels.shape[0] - 1, -1, -1):
        state.scratch.region[data.group[i]] = state.labels[i]
    count = 0
    for g in range(state.scratch.region.shape[0]):
        k = state.scratch.region[g]
        if state.scratch.score[k] < 0.0:
            state.scratch.score[k] = count
            count += 1
        state.scratch.region[g] = int(state.scratch.score[k])
    return count


@entry(STEP_T)
def update_levels(data, state, rng):
    """The common scale of all V_g, that of each region, and the stretch of the regions' levels.

    Where A is large against tau only ratios of the V_g matter much: then levels differ between regions by orders of magnitude, under a
    heavy tail, and would move slowly by single V_g.  Regions do not depend on v, so each slice step leaves the posterior as it is.
    """
    exponents(state, state.scratch.by_location[1])
    regions = find_regions(data, state)
    gather_regions(data, state, regions)
    rescale(data, state, regions, ALL, rng)
    if state.num[Count.CLUSTERS] > 1:
        for r in range(regions):
            rescale(data, state, regions, r, rng)
        stretch(data, state, regions, rng)
    recompute_A(state)
    return DONE


@kernel
def gather_regions(data, state, regions):
    """Gather, for each region, `level`, log V of its first group, the largest and smallest log V, observations, and its part of A."""
    rows, part = state.scratch.by_group, state.scratch.region_A
    level, top, bottom, count = rows[0], rows[1], rows[2], rows[3]
    for r in range(regions):
        top[r], bottom[r], count[r] = -math.inf, math.inf, 0.0
        for p in range(part.shape[1]):
            part[r, p] = 0.0
    for g in range(state.v.shape[0]):
        r, log_v = state.scratch.region[g], math.log(state.v[g])
        if count[r] == 0.0:
            level[r] = log_v
        top[r] = max(top[r], log_v)
        bottom[r] = min(bottom[r], log_v)
        count[r] += data.group_size[g]
        add_row(part[r], state.cache.K[g], state.v[g])


@kernel
def rescale(data, state, regions, which, rng):
    """One slice step for the common log scale of the V_g of region `which`, or of ALL."""
    rows, part = state.scratch.by_group, state.scratch.region_A
    level, top, bottom, count = rows[0], rows[1], rows[2], rows[3]
    base, c, within = state.scratch.by_location[0], state.scratch.by_location[1], state.scratch.by_location[2]
    for p in range(base.shape[0]):
        base[p] = state.hyper[Hyper.TAU]
        within[p] = 0.0
    total, largest, smallest = 0.0, -math.inf, math.inf
    for r in range(regions):
        if which == ALL or which == r:
            add_row(within, part[r], 1.0)
            total += count[r]
            largest, smallest = max(largest, top[r]), min(smallest, bottom[r])
        else:
            add_row(base, part[r], 1.0)
    floor, ceiling = min(-LOG_V_MAX - smallest, 0.0), max(LOG_V_MAX - largest, 0.0)
    x = slice_v(data, state, total, 0.0, floor, ceiling, base, within, c, rng)
    root_of_scale = math.exp(0.5 * x)  # the scale itself may underflow where what it scales does not
    for g in range(state.scratch.region.shape[0]):
        if which == ALL or which == state.scratch.region[g]:
            state.v[g] *= root_of_scale
            state.v[g] *= root_of_scale
    for r in range(regions):
        if which == ALL or which == r:
            level[r] += x
            top[r] += x
            bottom[r] += x
            for p in range(base.shape[0]):
                part[r, p] *= root_of_scale
                part[r, p] *= root_of_scale


@kernel
def stretch(data, state, regions, rng):
    """One slice step for s in log V_g + (s - 1) l_r, l_r the level of region r: Jacobian s^(number of regions)."""
    level = state.scratch.by_group[0]
    s = math.exp(slice_step(data.setup[Setup.STRETCH_DENSITY], data, state, regions, 0.0, STEP, rng))
    for g in range(state.v.shape[0]):
        root_of_scale = math.exp(0.5 * (s - 1.0) * level[state.scratch.region[g]])
        state.v[g] *= root_of_scale
        state.v[g] *= root_of_scale


@entry(SCALAR_T)
def log_density_stretch(data, state, regions, z):
    """Log density of z = log s of `stretch`, from what is gathered of each of so many regions."""
    rows, part = state.scratch.by_group, state.scratch.region_A
    level, top, bottom, count = rows[0], rows[1], rows[2], rows[3]
    base, c, A = state.scratch.by_location[0], state.scratch.by_location[1], state.scratch.by_location[2]
    if abs(z) > 50.0:
        return -math.inf
    for p in range(A.shape[0]):
        base[p] = state.hyper[Hyper.TAU]
        A[p] = 0.0
    value = 0.0
    for r in range(regions):
        shift = (math.exp(z) - 1.0) * level[r]
        if (shift > 0.0 and shift + top[r] > LOG_V_MAX) or (shift < 0.0 and shift + bottom[r] < -LOG_V_MAX):
            return -math.inf
        value += z + count[r] * shift
        root_of_scale = math.exp(0.5 * shift)
        for p in range(A.shape[0]):
            A[p] += part[r, p] * root_of_scale * root_of_scale
    exponents(state, c)
    logs, growth = growth_sums(data, state, base, A, 1.0, c, data.R0)
    return value + mass_term(data, state, state.hyper[Hyper.SIGMA], growth) - logs
