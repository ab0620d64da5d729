"""The auxiliary variables v given the partition, the locations and the hyperparameters.

The mixture is the case G = P = 1, where V = A = u.  In density regression single V_g are followed by moves of many of them at once.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import SCALAR_T, STEP_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.locations import add_row
from nrmmix.kernels.core.slicing import STEP, slice_step
from nrmmix.kernels.core.special import draw_log_gamma
from nrmmix.kernels.core.state import (
    DONE,
    JOINT_WITH_V,
    LOG_V_MAX,
    MASS,
    MEASURE,
    N_CLUSTERS,
    OF_GROWTH,
    OF_LOGS,
    SIGMA,
    STABLE,
    STRETCH_DENSITY,
    TAU,
    TINY,
)
from nrmmix.kernels.measure.increments import fill_series, fill_weights, increments, relative_to_rest
from nrmmix.kernels.measure.nrm import (
    draw_stable_u,
    exponents,
    growth_sums,
    is_integrated,
    is_mixture,
    mass_slope,
    mass_term,
    recompute_A,
    total_growth,
    total_psi1,
)

ALL = -1
FORGET = 1e-6  # a difference of sums that keeps less than this share of them is summed anew
MANY_GROUPS = 256  # from so many on the part that one V_g has in A is mostly small
MANY_LOCATIONS = 2  # for each cluster: sums over clusters are then shorter than those over locations
SMALL = 0.02  # of tau + A, below which a part of it is so: V_g is then nearly a gamma variable


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
    """One update of each V_g: a slice step for its logarithm, or where it is nearly a gamma variable a proposal of that law."""
    if data.setup[MEASURE] == STABLE and is_mixture(data):
        draw_stable_u(state, rng)
        return DONE
    G, P = state.K.shape
    exponents(state, state.plane[1])
    recompute_A(state)
    # T is a sum over the locations where the mass is not integrated out: what one group has no part in is then left out of its step
    by_parts = not is_integrated(data) and (G >= MANY_GROUPS or is_banded(state))
    growth, first, last = 0.0, 0, P
    if by_parts:
        growth = total_growth(data, state, state.hyper[SIGMA])
    for g in range(G):
        if by_parts:
            first, last = state.band[g, 0], state.band[g, 1]
            largest = share_if_small(data, state, g, first, last)
            if largest >= 0.0:
                growth = update_nearly_gamma(data, state, g, first, last, growth, largest, rng)
                continue
        growth = update_any_v(data, state, g, first, last, growth, by_parts, rng)
    recompute_A(state)
    return DONE


@kernel
def share_if_small(data, state, g, first, last):
    """The largest K(x_g, p) over tau + A without the part of V_g, or -1 where that part may well be large at some location.

    Which of both does not depend on V_g itself.  plane[2] has the quotients, plane[0] A without that part.
    """
    base, relative = state.plane[0, first:last], state.plane[2, first:last]
    largest, slope = relative_to_rest(
        relative, base, state.K[g, first:last], state.A[first:last], state.v[g], state.plane[1, first:last], state.hyper[TAU]
    )
    return largest if data.group_size[g] * largest < SMALL * slope else -1.0


@kernel
def at_clusters(state, relative, first, sizes, near):
    """n_k - sigma of each cluster, and the quotient at its location, which is 0 where the kernel is: sums over these are those over c."""
    for k in range(sizes.shape[0]):
        p = state.location[k] - first
        sizes[k] = state.size[k] - state.hyper[SIGMA]
        near[k] = relative[p] if 0 <= p < relative.shape[0] else 0.0


@kernel
def update_nearly_gamma(data, state, g, first, last, growth, largest, rng):
    """A proposal from Gamma(n_g, rate), where exp(-rate V_g) is to first order what multiplies V_g^(n_g - 1) in its density; T after it."""
    v, sigma, K_row = state.v[g], state.hyper[SIGMA], state.K[g, first:last]
    base, c, relative, weights = state.plane[0, first:last], state.plane[1, first:last], state.plane[2, first:last], data.R0[first:last]
    if sigma != 0.0:
        weights = state.plane[3, first:last]
        fill_weights(weights, data.R0[first:last], base, sigma, state.hyper[TAU])
    K = state.num[N_CLUSTERS]
    if MANY_LOCATIONS * K <= last - first:
        sizes, near = state.score[:K], state.work[0, :K]
        at_clusters(state, relative, first, sizes, near)
        fill_series(state.series, sizes, near, weights, relative, sigma)
    else:
        fill_series(state.series, c, relative, weights, relative, sigma)
    logs, part = increments(state.series, relative, c, weights, v, largest, sigma)
    rate = state.series[OF_LOGS, 0] + mass_slope(data, state, sigma, growth - part) * state.series[OF_GROWTH, 0]
    proposed = rng.standard_gamma(data.group_size[g]) / rate
    more_logs, other = increments(state.series, relative, c, weights, proposed, largest, sigma)
    proposed_growth = growth - part + other
    log_ratio = logs - more_logs + rate * (proposed - v)
    log_ratio += mass_term(data, state, sigma, proposed_growth) - mass_term(data, state, sigma, growth)
    if proposed > 0.0 and rng.standard_exponential() > -log_ratio:
        state.v[g] = proposed
        add_row(state.A[first:last], K_row, proposed - v)
        return proposed_growth
    return growth


@kernel
def update_any_v(data, state, g, first, last, growth, by_parts, rng):
    """Slice step for log V_g by sums from first to last, and T after it where these are parts of it."""
    K_row, A, tau = state.K[g, first:last], state.A[first:last], state.hyper[TAU]
    base, c, R0 = state.plane[0, first:last], state.plane[1, first:last], data.R0[first:last]
    lost = False
    for p in range(base.shape[0]):
        rest = A[p] - state.v[g] * K_row[p]
        lost = lost or rest < FORGET * A[p]
        base[p] = tau + rest
    if lost:
        for p in range(base.shape[0]):
            if A[p] - state.v[g] * K_row[p] < FORGET * A[p]:
                rest = 0.0
                for h in range(state.v.shape[0]):
                    if h != g:
                        rest += state.v[h] * state.K[h, first + p]
                base[p] = tau + rest
    outside = 0.0
    if by_parts:
        outside = growth - growth_sums(data, state, base, K_row, state.v[g], c, R0)[1]
    x = slice_v(data, state, data.group_size[g], math.log(state.v[g]), -LOG_V_MAX, LOG_V_MAX, base, K_row, c, R0, outside, rng)
    state.v[g] = math.exp(x)
    for p in range(base.shape[0]):
        A[p] = (base[p] - tau) + state.v[g] * K_row[p]
    return outside + growth_sums(data, state, base, K_row, state.v[g], c, R0)[1] if by_parts else growth


@kernel
def draw_v_given_rates(data, state, rate, rng):
    """V_g ~ Gamma(n_g, rate_g), rate_g the sum of the sizes of all atoms times K(x_g, mu); what is kept is to be refreshed."""
    for g in range(rate.shape[0]):
        x = draw_log_gamma(data.group_size[g], rng) - math.log(max(rate[g], TINY))
        state.v[g] = math.exp(max(-LOG_V_MAX, min(LOG_V_MAX, x)))
    recompute_A(state)


@kernel
def is_banded(state):
    """Whether most of K is 0 outside its bands, so that sums over them are worth what they take to prepare."""
    G, P = state.K.shape
    within = 0
    for g in range(G):
        within += state.band[g, 1] - state.band[g, 0]
    return 2 * within < G * P


@kernel
def draw_psi1(data, state, rng):
    """psi1(u) of a mixture; of a Dirichlet process, which has no u, drawn: tau / (tau + u) ~ Beta(mass, n) given the mass."""
    if data.setup[JOINT_WITH_V] == 1:
        return total_psi1(data, state, state.hyper[SIGMA])
    ratio = draw_log_gamma(float(state.labels.shape[0]), rng) - draw_log_gamma(state.hyper[MASS], rng)
    return ratio + math.log1p(math.exp(-ratio)) if ratio > 0.0 else math.log1p(math.exp(ratio))


@kernel
def find_regions(data, state):
    """region[g], 0, 1, ... in order of their first groups: alike where the first observations of two groups share a cluster.  How many."""
    for k in range(state.num[N_CLUSTERS]):
        state.score[k] = -1.0
    for i in range(state.labels.shape[0] - 1, -1, -1):
        state.region[data.group[i]] = state.labels[i]
    count = 0
    for g in range(state.region.shape[0]):
        k = state.region[g]
        if state.score[k] < 0.0:
            state.score[k] = count
            count += 1
        state.region[g] = int(state.score[k])
    return count


@entry(STEP_T)
def update_levels(data, state, rng):
    """The common scale of all V_g, that of each region, and the stretch of the regions' levels.

    Where A is large against tau only ratios of the V_g matter much: then levels differ between regions by orders of magnitude, under a
    heavy tail, and would move slowly by single V_g.  Regions do not depend on v, so each slice step leaves the posterior as it is.
    """
    exponents(state, state.plane[1])
    regions = find_regions(data, state)
    gather_regions(data, state, regions)
    rescale(data, state, regions, ALL, rng)
    if state.num[N_CLUSTERS] > 1:
        for r in range(regions):
            rescale(data, state, regions, r, rng)
        stretch(data, state, regions, rng)
    recompute_A(state)
    return DONE


@kernel
def gather_regions(data, state, regions):
    """Of each region: `level`, log V of its first group, the largest and smallest log V, observations, and its part of A."""
    level, top, bottom, count, part = state.carried[0], state.carried[1], state.carried[2], state.carried[3], state.part
    for r in range(regions):
        top[r], bottom[r], count[r] = -math.inf, math.inf, 0.0
        for p in range(part.shape[1]):
            part[r, p] = 0.0
    for g in range(state.v.shape[0]):
        r, log_v = state.region[g], math.log(state.v[g])
        if count[r] == 0.0:
            level[r] = log_v
        top[r] = max(top[r], log_v)
        bottom[r] = min(bottom[r], log_v)
        count[r] += data.group_size[g]
        add_row(part[r], state.K[g], state.v[g])


@kernel
def rescale(data, state, regions, which, rng):
    """One slice step for the common log scale of the V_g of region `which`, or of ALL."""
    level, top, bottom, count, part = state.carried[0], state.carried[1], state.carried[2], state.carried[3], state.part
    base, c, within = state.plane[0], state.plane[1], state.plane[2]
    for p in range(base.shape[0]):
        base[p] = state.hyper[TAU]
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
    x = slice_v(data, state, total, 0.0, floor, ceiling, base, within, c, data.R0, 0.0, rng)
    scale = math.exp(x)
    for g in range(state.region.shape[0]):
        if which == ALL or which == state.region[g]:
            state.v[g] *= scale
    for r in range(regions):
        if which == ALL or which == r:
            level[r] += x
            top[r] += x
            bottom[r] += x
            for p in range(base.shape[0]):
                part[r, p] *= scale


@kernel
def stretch(data, state, regions, rng):
    """One slice step for s in log V_g + (s - 1) l_r, l_r the level of region r: Jacobian s^(number of regions)."""
    level = state.carried[0]
    s = math.exp(slice_step(data.setup[STRETCH_DENSITY], data, state, regions, 0.0, STEP, rng))
    for g in range(state.v.shape[0]):
        state.v[g] *= math.exp((s - 1.0) * level[state.region[g]])


@entry(SCALAR_T)
def log_density_stretch(data, state, regions, z):
    """Log density of z = log s of `stretch`, from what is gathered of each of so many regions."""
    level, top, bottom, count, part = state.carried[0], state.carried[1], state.carried[2], state.carried[3], state.part
    base, c, A = state.plane[0], state.plane[1], state.plane[2]
    if abs(z) > 50.0:
        return -math.inf
    for p in range(A.shape[0]):
        base[p] = state.hyper[TAU]
        A[p] = 0.0
    value = 0.0
    for r in range(regions):
        shift = (math.exp(z) - 1.0) * level[r]
        if (shift > 0.0 and shift + top[r] > LOG_V_MAX) or (shift < 0.0 and shift + bottom[r] < -LOG_V_MAX):
            return -math.inf
        value += z + count[r] * shift
        add_row(A, part[r], math.exp(shift))
    exponents(state, c)
    logs, growth = growth_sums(data, state, base, A, 1.0, c, data.R0)
    return value + mass_term(data, state, state.hyper[SIGMA], growth) - logs
