"""Hyperparameters given the partition, v and the locations: sigma, the widths and the mass.

Where the mass has a gamma prior it is integrated out of the updates of the others.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import SCALAR_T, STEP_T, entry
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.locations import log_row_lent, log_terms, normalise, refresh_locations, sum_log_K
from nrmmix.kernels.core.slicing import slice_step
from nrmmix.kernels.core.special import add_exp, exp_any, log_pos
from nrmmix.kernels.core.state import (
    BETA,
    CRM,
    DONE,
    FINITE,
    FIXED,
    GAMMA,
    LOG_V_MAX,
    LOGARITHM,
    OUT_OF_REACH,
    PITMAN_YOR,
    STABLE,
    TINY,
    Count,
    Hyper,
    Setup,
)
from nrmmix.kernels.measure import nrm

# A slice of a width is tried as wide as slices mostly were in tuning: each end takes an exponential of every group and location.
LEARNING, SLICE_OVER_MOVE, MIN_STEP = 0.05, 4.0, 1e-6
SAME = 1e-14  # widths whose ratio is so near 1 differ by rounding alone

@kernel
def unbounded(kind, x):
    return math.log(x) - math.log1p(-x) if kind == BETA else math.log(x)


@kernel
def bounded(kind, z):
    if kind == BETA:
        return 1.0 / (1.0 + math.exp(-z)) if z > 0.0 else math.exp(z) / (1.0 + math.exp(z))
    return math.exp(z)


@kernel
def draw(data, state, which, density, rng):
    """One slice step for hyperparameter `which` on its unbounded scale."""
    kind = data.hyperprior[which, 0]
    return bounded(kind, slice_step(data.setup[density], data, state, which, unbounded(kind, state.hyper[which]), state.step[which], rng))


@kernel
def log_prior_density(data, which, z):
    """Log density of z, the hyperparameter on its unbounded scale, minus infinity where it rounds to a bound; and the hyperparameter."""
    kind = data.hyperprior[which, 0]
    x = bounded(kind, z) if abs(z) <= 600.0 else 0.0
    if x <= 0.0 or (kind == BETA and x >= 1.0):
        return -math.inf, x
    return nrm.log_hyperprior(data.hyperprior[which], x) + (math.log(x) + math.log1p(-x) if kind == BETA else z), x


@entry(SCALAR_T)
def log_density_sigma(data, state, which, z):
    value, sigma = log_prior_density(data, Hyper.SIGMA, z)
    if value == -math.inf:
        return value
    K = state.num[Count.CLUSTERS]
    value += cluster_terms(state, sigma)
    if data.setup[Setup.MEASURE] == PITMAN_YOR:
        value += nrm.log_rising(data, state.hyper[Hyper.MASS], sigma, K)
    elif data.setup[Setup.MEASURE] == STABLE:  # mass^K, or with u integrated out prod_(0 < k < K) sigma k
        value += (K - 1 if nrm.is_mixture(data) else K) * math.log(sigma)
    return value + nrm.mass_term(data, state, sigma, nrm.total_growth(data, state, sigma))


@kernel
def cluster_terms(state, sigma):
    """log prod_m Gamma(n_m - sigma) / Gamma(1 - sigma) (tau + A)^sigma"""
    value, gap = 0.0, math.lgamma(1.0 - sigma)
    for k in range(state.num[Count.CLUSTERS]):
        value += math.lgamma(state.size[k] - sigma) - gap
        value += sigma * math.log(max(state.hyper[Hyper.TAU] + state.cache.A[state.location[k]], TINY))
    return value


@entry(SCALAR_T)
def log_density_mass(data, state, which, z):
    value, mass = log_prior_density(data, Hyper.MASS, z)
    if value == -math.inf:
        return value
    K, with_v = state.num[Count.CLUSTERS], data.setup[Setup.JOINT_WITH_V] == 1
    if data.setup[Setup.MEASURE] == CRM:
        value += K * math.log(mass)
        if with_v:
            return value - mass * nrm.total_growth(data, state, state.hyper[Hyper.SIGMA])
        return value + math.lgamma(mass) - math.lgamma(mass + state.labels.shape[0])  # u integrated out
    sigma = state.hyper[Hyper.SIGMA]
    if data.setup[Setup.MEASURE] == FINITE:
        sigma = -mass / data.setup[Setup.COMPONENTS]
        value += cluster_terms(state, sigma)
    value += nrm.log_rising(data, mass, sigma, K) - nrm.mass_of_new(data, mass, sigma, K) * nrm.total_growth(data, state, sigma)
    if with_v:
        return value + math.log(mass)
    # in a mixture the terms with u in the last line are (1 + u)^-mass
    b, n = state.hyper[Hyper.TAU] + state.cache.A[0], state.labels.shape[0]
    return value + mass * math.log(b) + math.lgamma(mass + 1.0) - math.lgamma(mass + n)


@entry(STEP_T)
def update_sigma(data, state, rng):
    state.hyper[Hyper.SIGMA] = draw(data, state, Hyper.SIGMA, Setup.SIGMA_DENSITY, rng)
    if data.setup[Setup.MEASURE] == STABLE:
        state.hyper[Hyper.MASS] = state.hyper[Hyper.SIGMA]
        if nrm.is_mixture(data):
            nrm.draw_stable_u(state, rng)
    return DONE


@entry(STEP_T)
def update_mass(data, state, rng):
    prior = data.hyperprior[Hyper.MASS]
    if prior[0] == GAMMA and data.setup[Setup.JOINT_WITH_V] == 1 and data.setup[Setup.MEASURE] == CRM:
        rate = prior[2] + nrm.total_growth(data, state, state.hyper[Hyper.SIGMA])
        state.hyper[Hyper.MASS] = rng.standard_gamma(prior[1] + state.num[Count.CLUSTERS]) / rate
    else:
        state.hyper[Hyper.MASS] = draw(data, state, Hyper.MASS, Setup.MASS_DENSITY, rng)
    if data.setup[Setup.MEASURE] == FINITE:
        state.hyper[Hyper.SIGMA] = -state.hyper[Hyper.MASS] / data.setup[Setup.COMPONENTS]
    return DONE


# ---- widths that all atoms share, with the locations integrated out


@entry(STEP_T)
def update_widths(data, state, rng):
    """One slice step for each width; the locations are to be drawn anew after it.

    V_g is carried along: Z_g = V_g sum_k n_k K(x_g, mu_k) is held, mu_k the location that suits cluster k best at the width.  That is a
    shift of log V_g which labels and widths determine, of unit Jacobian.  An observation far out under a narrow kernel needs a large
    V_g, so that with V fixed a width hardly moves.
    """
    G = state.v.shape[0]
    for which in range(Hyper.WIDTH, state.hyper.shape[0]):
        kind = data.hyperprior[which, 0]
        if kind != FIXED:
            find_best_locations(state)
            fill_reach(data, state, 1.0, False, 0, G)
            for g in range(G):
                state.scratch.by_group[0, g] = math.log(state.v[g]) + state.scratch.by_group[1, g]
            old = state.hyper[which]
            width = draw(data, state, which, Setup.WIDTH_DENSITY, rng)
            set_width(data, state, which, width)
            if state.num[Count.TUNING] != 0:
                moved = abs(unbounded(kind, width) - unbounded(kind, old))
                state.step[which] = max(state.step[which] + LEARNING * (SLICE_OVER_MOVE * moved - state.step[which]), MIN_STEP)
            nrm.set_log_kernel(data, state)
            if scales_as_one(data, state):  # the best locations are the same at every width
                scale_sums(state, change_of_log_K(data, old, width))
            else:
                sum_log_K(data, state, True)
                find_best_locations(state)
            fill_reach(data, state, 1.0, True, 0, G)
            for g in range(G):
                state.v[g] = math.exp(state.scratch.by_group[0, g] - state.scratch.by_group[1, g])
            nrm.set_kernel_from_log(data, state)
            nrm.recompute_A(state)
    refresh_locations(data, state)
    return DONE


@kernel
def scales_as_one(data, state):
    """Whether a width scales all of log K."""
    return data.setup[Setup.SCALES] != 0 and state.cache.ratio.shape[0] == 1


@kernel
def change_of_log_K(data, old, width):
    """Return the factor of log K from one width to another, where a width scales all of it."""
    degree = nrm.scale(data, 0)[1]
    return (old / width) ** degree if degree != LOGARITHM else math.log(width) / math.log(old)


@kernel
def scale_sums(state, change):
    for k in range(state.num[Count.CLUSTERS]):
        for p in range(state.cache.log_K_sum.shape[1]):
            state.cache.log_K_sum[k, p] *= change


@entry(SCALAR_T)
def log_density_width(data, state, which, z):
    """Log density of a width in the coordinates log V, V carried along: prior, prod_g V_g^n_g, prod_c h(c) and the mass term.

    `find_best_locations` was called at the width of the state.  What is left of log K and its sums is that of the width tried.
    """
    value, width = log_prior_density(data, which, z)
    if value == -math.inf:
        return value
    old, as_one, change = state.hyper[which], scales_as_one(data, state), 1.0
    if as_one:  # sums of log K grow by this
        change = change_of_log_K(data, old, width)
        sound = are_reached(state, change)
    else:
        set_width(data, state, which, width)
        nrm.set_log_kernel(data, state)
        set_width(data, state, which, old)
        sum_log_K(data, state, True)
        sound = find_best_locations(state)
    if not sound:
        return -math.inf
    sigma, tau = state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU]
    G, P = state.cache.K.shape
    rows = state.scratch.by_location
    base, A, log_b, terms = rows[0], rows[1], rows[2], rows[3]
    is_known = as_one and abs(change - 1.0) < SAME  # where a slice begins
    for p in range(P):
        base[p] = tau
        A[p] = state.cache.A[p] if is_known else 0.0
    for begin in range(0, G, P):
        end = min(begin + P, G)
        fill_reach(data, state, change, True, begin, end)
        for g in range(begin, end):
            log_v = state.scratch.by_group[0, g] - state.scratch.by_group[1, g]
            if abs(log_v) > LOG_V_MAX:
                return -math.inf
            value += data.group_size[g] * log_v
            if not is_known:
                row, ratio = log_row_lent(data, state, g, True)
                add_exp(A, row, ratio * change, log_v)  # no matrix of the kernel at the new width is kept
    for p in range(P):
        log_b[p] = log_pos(max(tau + A[p], TINY))
        terms[p] = 0.0
    growth = nrm.growth_sums(data, state, base, A, 1.0, terms, data.R0)[1]
    for k in range(state.num[Count.CLUSTERS]):
        for p in range(P):
            base[p] = change * state.cache.log_K_sum[k, p]
        top = log_terms(base, base, 0.0, state.cache.log_R0, log_b, state.size[k] - sigma, terms)
        value += top + math.log(normalise(terms, top))
    return value + nrm.mass_term(data, state, sigma, growth)


@kernel
def find_best_locations(state):
    """state.location: for each cluster the p of the largest sum_(i in c) log K(x_i, p); whether each has one that reaches all members."""
    sums = state.cache.log_K_sum
    for k in range(state.num[Count.CLUSTERS]):
        best = 0
        for p in range(sums.shape[1]):
            if sums[k, p] > sums[k, best]:
                best = p
        state.location[k] = best
    return are_reached(state, 1.0)


@kernel
def are_reached(state, ratio):
    """Whether the best location of each cluster reaches all of its members, where log K is multiplied by a ratio."""
    for k in range(state.num[Count.CLUSTERS]):
        if not ratio * state.cache.log_K_sum[k, state.location[k]] > OUT_OF_REACH:
            return False
    return True


@kernel
def fill_reach(data, state, change, is_lent, begin, end):
    """by_group[1, g] = log sum_k n_k K(x_g, mu_k), K to the power `change`, of groups begin, ..., end - 1.

    Sums are of as many groups at once as there is room for in `part`.
    """
    K, P = state.num[Count.CLUSTERS], state.scratch.region_A.shape[1]
    for first in range(begin, end, P):
        count = min(P, end - first)
        for b in range(count):
            row, ratio = log_row_lent(data, state, first + b, is_lent)
            for k in range(K):
                state.scratch.region_A[k, b] = ratio * change * row[state.location[k]]
        log_sums_of_columns(state.scratch.region_A, state.size, K, count, state.scratch.by_group[1, first : first + count])


@fast
def log_sums_of_columns(terms, size, K, count, out):
    """out_b = log sum_k n_k exp(terms_kb); two rows of `terms` behind the K are scratch."""
    top, total = terms[K], terms[K + 1]
    for b in range(count):
        top[b], total[b] = terms[0, b], 0.0
    for k in range(K):
        row = terms[k]
        for b in range(count):
            top[b] = max(top[b], row[b])
    for k in range(K):
        row, n = terms[k], float(size[k])
        for b in range(count):
            total[b] += n * exp_any(row[b] - top[b])
    for b in range(count):
        out[b] = top[b] + log_pos(total[b])


@kernel
def set_width(data, state, which, x):
    if data.setup[Setup.SHARED_WIDTH] == 1:
        for j in range(Hyper.WIDTH, state.hyper.shape[0]):
            state.hyper[j] = x
    else:
        state.hyper[which] = x
