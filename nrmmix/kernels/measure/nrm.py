"""The normalised random measure: v, locations, mass, sigma and the widths given the partition.

The mixture is the case G = P = 1, K = 1, where V = A = u.  The part of the joint that the measure's total mass enters is
exp(-mass * T) with T = sum_p R0(p) psi1(A_p); where the mass has a Gamma(a0, b0) prior it is integrated out of the updates of v, sigma
and the widths, leaving (b0 + T)^-(a0 + K).  A Dirichlet process mixture has no u: its mass is drawn with u integrated out.

The Pitman-Yor process with theta and sigma > 0 is the generalised gamma process with tau = 1 whose mass has the prior
Gamma(theta / sigma, 1 / sigma) (Pitman & Yor 1997).  With the mass integrated out everywhere, mass^K exp(-mass T) becomes

    prod_(k < K) (theta + k sigma) (1 + sigma T)^-(theta / sigma + K) = prod_(k < K) (theta + k sigma) exp(-(theta + sigma K) L),

L = log (sum_p R0(p) (1 + A_p)^sigma) / sigma, the logarithm of the power mean of order sigma of 1 + A.  A finite measure of M atoms with
sizes Gamma(theta / M, 1) is the same with sigma = -theta / M: nothing is left of the second factor when K = M.  In a mixture u cancels.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import ALL_T, GROWTH_T, call_all, call_growth, entry
from nrmmix.kernels.core.jit import fast, inlined, kernel, root
from nrmmix.kernels.core.locations import add_row, log_row
from nrmmix.kernels.core.slots import fill_slots
from nrmmix.kernels.core.special import exp_any, log_pos, take_exp
from nrmmix.kernels.core.state import (
    BETA,
    COLUMN,
    DONE,
    FINITE,
    GAMMA,
    GIBBS_TYPE,
    LOG_V_MAX,
    LOGARITHM,
    LOGNORMAL,
    OF_DEGREE,
    PITMAN_YOR,
    STABLE,
    TINY,
    Count,
    Hyper,
    Setup,
)

LOG_TINY = math.log(TINY)


# ---- the Levy measure


@inlined
def psi1_at(log_b, sigma, log_tau, tau_power):
    """psi / mass = ((A + tau)^sigma - tau^sigma) / sigma at log_b = log(A + tau), continuous at sigma = 0; sigma may be negative.

    tau_power = tau^sigma, or 0 for tau = 0 (log_tau is then unused), where A = 0 is TINY.
    """
    if tau_power == 0.0:
        return (exp_any(min(sigma * log_b, 700.0)) if log_b > LOG_TINY + 1e-9 else 0.0) / sigma
    span = log_b - log_tau
    z = min(sigma * span, 700.0)
    # (e^z - 1)/z: the series where the difference would cancel
    series = 1.0 + z / 2.0 * (1.0 + z / 3.0 * (1.0 + z / 4.0 * (1.0 + z / 5.0 * (1.0 + z / 6.0 * (1.0 + z / 7.0 * (
        1.0 + z / 8.0 * (1.0 + z / 9.0 * (1.0 + z / 10.0 * (1.0 + z / 11.0 * (1.0 + z / 12.0))))))))))
    direct = (exp_any(z) - 1.0) / (z if abs(z) > 0.3 else 1.0)
    return tau_power * span * (direct if abs(z) > 0.3 else series)


@kernel
def power_of_tau(sigma, tau):
    return math.exp(sigma * math.log(tau)) if tau > 0.0 else 0.0


@fast
def weighted_sums(base, K_row, v, c, R0, sigma, tau):
    """(sum_p c_p log b_p, sum_p R0(p) psi1) at b_p = base_p + v K_p."""
    P = base.shape[0]
    logs, total = 0.0, 0.0
    if sigma == 0.0:
        for p in range(P):
            log_b = log_pos(max(base[p] + v * K_row[p], TINY))
            logs += c[p] * log_b
            total += R0[p] * log_b
        total -= math.log(tau) * R0.sum()
    else:
        tau_power = power_of_tau(sigma, tau)
        log_tau = math.log(tau) if tau > 0.0 else 0.0
        for p in range(P):
            log_b = log_pos(max(base[p] + v * K_row[p], TINY))
            logs += c[p] * log_b
            total += R0[p] * psi1_at(log_b, sigma, log_tau, tau_power)
    return logs, total


@fast
def log_end(base, K_row, v, sigma, tau):
    """Log of the b_p with the largest term of the power mean: sums from there on have terms of one sign."""
    low, high = math.inf, 0.0
    for p in range(base.shape[0]):
        b = tau + base[p] + v * K_row[p]
        low, high = min(low, b), max(high, b)
    return math.log(max(high if sigma > 0.0 else low, TINY))


@fast
def power_sums(base, K_row, v, c, R0, sigma, tau):
    """(sum_p c_p log b_p, L) at b_p = tau + base_p + v K_p, L the logarithm of the power mean of order sigma of b."""
    log_top = log_end(base, K_row, v, sigma, tau)
    logs, total = 0.0, 0.0
    for p in range(base.shape[0]):
        log_b = log_pos(max(tau + base[p] + v * K_row[p], TINY))
        logs += c[p] * log_b
        total += R0[p] * psi1_at(log_b, sigma, log_top, 1.0)
    return logs, log_top + (total if sigma == 0.0 else math.log1p(sigma * total) / sigma)


@root
@kernel
def log_hyperprior(row, x):
    """Log density of a hyperprior up to its constant; minus infinity outside its range."""
    kind, a, b = row[0], row[1], row[2]
    if kind == GAMMA:
        return (a - 1.0) * math.log(x) - b * x if x > 0.0 else -math.inf
    if kind == BETA:
        return (a - 1.0) * math.log(x) + (b - 1.0) * math.log1p(-x) if 0.0 < x < 1.0 else -math.inf
    if kind == LOGNORMAL:
        return -math.log(x) - 0.5 * ((math.log(x) - a) / b) ** 2 if x > 0.0 else -math.inf
    return 0.0


# ---- what the total mass brings to the joint


@kernel
def is_mixture(data):
    return data.distance.shape[0] == 0


@kernel
def is_integrated(data):
    """Whether the total mass is integrated out of every move; it also is of a mixture by a stable process, together with u."""
    kind = data.setup[Setup.MEASURE]
    return kind == PITMAN_YOR or kind == FINITE or kind == GIBBS_TYPE or (kind == STABLE and is_mixture(data))


@kernel
def mass_of_new(data, mass, sigma, K):
    """theta + sigma K, to which the weight of a new cluster beside K others is proportional; exactly 0 where there can be none."""
    kind = data.setup[Setup.MEASURE]
    if kind == FINITE:
        M = data.setup[Setup.COMPONENTS]
        return mass * (float(max(M - K, 0)) / M)
    if kind == STABLE:
        return sigma * K
    return mass + sigma * K


@kernel
def log_rising(data, mass, sigma, K):
    """log prod_(0 < k < K) (theta + sigma k)"""
    total = 0.0
    for k in range(1, K):
        new = mass_of_new(data, mass, sigma, k)
        total += math.log(new) if new > 0.0 else -math.inf
    return total


@kernel
def log_V_ratio(data, row, K):
    """log V(K + 1) - log V(K) of a Gibbs-type prior."""
    after = data.log_V[row, K + 1]
    return after - data.log_V[row, K] if after > -math.inf else -math.inf


@kernel
def recorded_sigma(data, state):
    """Sigma, or 0 for a finite measure, of which only the mass is a parameter."""
    return 0.0 if data.setup[Setup.MEASURE] == FINITE else state.hyper[Hyper.SIGMA]


@inlined
def growth_sums(data, state, base, K_row, v, c, R0):
    """(sum_p c_p log b_p, T or L) at b_p = base_p + v K_p, tau in the base; T of some of the locations where R0 is of these."""
    if is_integrated(data):
        return power_sums(base, K_row, v, c, R0, state.hyper[Hyper.SIGMA], 0.0)
    return weighted_sums(base, K_row, v, c, R0, state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU])


@entry(GROWTH_T)
def total_growth_entry(data, state, sigma):
    if is_integrated(data):
        return power_sums(state.cache.A, state.cache.K[0], 0.0, data.R0, data.R0, sigma, state.hyper[Hyper.TAU])[1]
    return total_psi1(data, state, sigma)


@kernel
def total_growth(data, state, sigma):
    """T, or L where the mass is integrated out, at the current A."""
    return call_growth(data.setup[Setup.GROWTH], data, state, sigma)


@inlined
def mass_term(data, state, sigma, growth):
    """log of exp(-mass T), or of its integral over a prior of the mass together with mass^K, up to what v and the widths do not enter."""
    K = state.num[Count.CLUSTERS]
    if is_integrated(data):
        return -mass_of_new(data, state.hyper[Hyper.MASS], sigma, K) * growth
    if data.setup[Setup.MEASURE] == STABLE:
        return -sigma * growth
    prior = data.hyperprior[Hyper.MASS]
    if prior[0] == GAMMA:
        return -(prior[1] + K) * math.log(prior[2] + growth)
    return -state.hyper[Hyper.MASS] * growth


@kernel
def draw_stable_u(state, rng):
    """u of a mixture by a stable process, u^sigma ~ Gamma(K): recorded, while no move depends on it."""
    log_u = math.log(max(rng.standard_gamma(float(state.num[Count.CLUSTERS])), TINY)) / state.hyper[Hyper.SIGMA]
    state.v[0] = math.exp(max(-LOG_V_MAX, min(LOG_V_MAX, log_u)))
    recompute_A(state)


# ---- what follows from v, locations and hyperparameters


@kernel
def recompute_A(state):
    G, P = state.cache.K.shape
    for p in range(P):
        state.cache.A[p] = 0.0
    for g in range(G):
        first, last = state.cache.band[g, 0], state.cache.band[g, 1]
        add_row(state.cache.A[first:last], state.cache.K[g, first:last], state.v[g])


@kernel
def scale(data, s):
    """The covariate whose width scales matrix s of log K, or -1; and the degree."""
    at = Setup.COVARIATES + data.distance.shape[0] + 2 * s
    return data.setup[at + COLUMN], data.setup[at + OF_DEGREE]


@kernel
def set_log_kernel(data, state):
    """log K of the state's widths: what its matrices are multiplied by; of a kernel without scales its values, lent the place of K.

    K itself is there again after `set_kernel_from_log`.  Until then `locations.log_row_lent` has the rows of log K.
    """
    for s in range(state.cache.ratio.shape[0] if data.setup[Setup.SCALES] == 1 else 0):
        column, degree = scale(data, s)
        if column >= 0:
            width = state.hyper[Hyper.WIDTH + column]
            state.cache.ratio[s] = width ** (-degree) if degree != LOGARITHM else -math.log(width)
    for g in range(state.cache.K.shape[0] if state.cache.ratio.shape[0] == 0 else 0):
        row, _ = log_row(data, state, g)
        for p in range(state.cache.K.shape[1]):
            state.cache.K[g, p] = row[p]


@fast
def exp_of(log_row, ratio, out):
    """out_p = exp(ratio log_row_p)"""
    for p in range(out.shape[0]):
        out[p] = exp_any(ratio * log_row[p])


@kernel
def set_kernel_from_log(data, state):
    """K, and where each of its rows is not 0."""
    for g in range(state.cache.K.shape[0]):
        if state.cache.ratio.shape[0] == 0:
            take_exp(state.cache.K[g], 0.0)
        else:
            row, ratio = log_row(data, state, g)
            exp_of(row, ratio, state.cache.K[g])
        first, last = 0, state.cache.K.shape[1]
        while first < last and state.cache.K[g, first] == 0.0:
            first += 1
        while last > first and state.cache.K[g, last - 1] == 0.0:
            last -= 1
        state.cache.band[g, 0], state.cache.band[g, 1] = first, last


@entry(ALL_T)
def set_kernel_entry(data, state):
    set_log_kernel(data, state)
    set_kernel_from_log(data, state)
    return DONE


@entry(ALL_T)
def set_kernel_of_slots(data, state):
    """Set the kernel of a sparse product by the codes of the slots, all of which may come into reach."""
    for p in range(state.scratch.occupied_slots.shape[0]):
        state.scratch.occupied_slots[p] = 0
    fill_slots(data, state, state.scratch.occupied_slots)
    for g in range(state.cache.K.shape[0]):
        state.cache.band[g, 0], state.cache.band[g, 1] = 0, state.cache.K.shape[1]
    return DONE


@kernel
def set_kernel(data, state):
    """The covariate kernel at the state's widths; that of a mixture is 1."""
    if not is_mixture(data):
        call_all(data.setup[Setup.SET_KERNEL], data, state)


@kernel
def exponents(state, c):
    """c_p = sum over clusters at p of (n_m - sigma)."""
    for p in range(c.shape[0]):
        c[p] = 0.0
    for k in range(state.num[Count.CLUSTERS]):
        c[state.location[k]] += state.size[k] - state.hyper[Hyper.SIGMA]


@root
@kernel
def total_psi1(data, state, sigma):
    total = 0.0
    tau = state.hyper[Hyper.TAU]
    tau_power = power_of_tau(sigma, tau)
    log_tau = math.log(tau) if tau > 0.0 else 0.0
    for p in range(state.cache.A.shape[0]):
        total += data.R0[p] * psi1_at(math.log(max(tau + state.cache.A[p], TINY)), sigma, log_tau, tau_power)
    return total
