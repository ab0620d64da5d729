"""Hyperparameters given the partition, v and the locations: sigma, the widths and the mass.

Where the mass has a gamma prior it is integrated out of the updates of the others.
"""

from __future__ import annotations

import math

from nrmmix.kernels.core.entry import SCALAR_T, STEP_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.locations import add_row
from nrmmix.kernels.core.slicing import slice_step
from nrmmix.kernels.core.special import exp_any
from nrmmix.kernels.core.state import (
    BETA,
    COMPONENTS,
    CRM,
    DONE,
    FINITE,
    FIXED,
    GAMMA,
    JOINT_WITH_V,
    LOG_V_MAX,
    MASS,
    MASS_DENSITY,
    MEASURE,
    N_CLUSTERS,
    PITMAN_YOR,
    SHARED_WIDTH,
    SIGMA,
    SIGMA_DENSITY,
    STABLE,
    TAU,
    TINY,
    WIDTH,
    WIDTH_DENSITY,
)
from nrmmix.kernels.measure import nrm

CARRY = 1000  # added to a width's number: v is carried along


@kernel
def unbounded(kind, x):
    return math.log(x) - math.log1p(-x) if kind == BETA else math.log(x)


@kernel
def bounded(kind, z):
    if kind == BETA:
        return 1.0 / (1.0 + math.exp(-z)) if z > 0.0 else math.exp(z) / (1.0 + math.exp(z))
    return math.exp(z)


@kernel
def draw(data, state, which, density, carry, rng):
    """One slice step for hyperparameter `which` on its unbounded scale."""
    kind = data.hyperprior[which, 0]
    return bounded(kind, slice_step(data.setup[density], data, state, which + carry, unbounded(kind, state.hyper[which]), rng))


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
    value, sigma = log_prior_density(data, SIGMA, z)
    if value == -math.inf:
        return value
    K = state.num[N_CLUSTERS]
    value += cluster_terms(state, sigma)
    if data.setup[MEASURE] == PITMAN_YOR:
        value += nrm.log_rising(data, state.hyper[MASS], sigma, K)
    elif data.setup[MEASURE] == STABLE:  # mass^K, or with u integrated out prod_(0 < k < K) sigma k
        value += (K - 1 if nrm.is_mixture(data) else K) * math.log(sigma)
    return value + nrm.mass_term(data, state, sigma, nrm.total_growth(data, state, sigma))


@kernel
def cluster_terms(state, sigma):
    """log prod_m Gamma(n_m - sigma) / Gamma(1 - sigma) (tau + A)^sigma"""
    value, gap = 0.0, math.lgamma(1.0 - sigma)
    for k in range(state.num[N_CLUSTERS]):
        value += math.lgamma(state.size[k] - sigma) - gap
        value += sigma * math.log(max(state.hyper[TAU] + state.A[state.location[k]], TINY))
    return value


@entry(SCALAR_T)
def log_density_mass(data, state, which, z):
    value, mass = log_prior_density(data, MASS, z)
    if value == -math.inf:
        return value
    K, with_v = state.num[N_CLUSTERS], data.setup[JOINT_WITH_V] == 1
    if data.setup[MEASURE] == CRM:
        value += K * math.log(mass)
        if with_v:
            return value - mass * nrm.total_psi1(data, state, state.hyper[SIGMA])
        return value + math.lgamma(mass) - math.lgamma(mass + state.labels.shape[0])  # u integrated out
    sigma = state.hyper[SIGMA]
    if data.setup[MEASURE] == FINITE:
        sigma = -mass / data.setup[COMPONENTS]
        value += cluster_terms(state, sigma)
    value += nrm.log_rising(data, mass, sigma, K) - nrm.mass_of_new(data, mass, sigma, K) * nrm.total_growth(data, state, sigma)
    if with_v:
        return value + math.log(mass)
    # in a mixture the terms with u in the last line are (1 + u)^-mass
    return value + mass * math.log(state.hyper[TAU] + state.A[0]) + math.lgamma(mass + 1.0) - math.lgamma(mass + state.labels.shape[0])


@entry(STEP_T)
def update_sigma(data, state, rng):
    state.hyper[SIGMA] = draw(data, state, SIGMA, SIGMA_DENSITY, 0, rng)
    if data.setup[MEASURE] == STABLE:
        state.hyper[MASS] = state.hyper[SIGMA]
        if nrm.is_mixture(data):
            nrm.draw_stable_u(state, rng)
    return DONE


@entry(STEP_T)
def update_mass(data, state, rng):
    prior = data.hyperprior[MASS]
    if prior[0] == GAMMA and data.setup[JOINT_WITH_V] == 1 and data.setup[MEASURE] == CRM:
        rate = prior[2] + nrm.total_psi1(data, state, state.hyper[SIGMA])
        state.hyper[MASS] = rng.standard_gamma(prior[1] + state.num[N_CLUSTERS]) / rate
    else:
        state.hyper[MASS] = draw(data, state, MASS, MASS_DENSITY, 0, rng)
    if data.setup[MEASURE] == FINITE:
        state.hyper[SIGMA] = -state.hyper[MASS] / data.setup[COMPONENTS]
    return DONE


@entry(STEP_T)
def update_widths(data, state, rng):
    for which in range(WIDTH, state.hyper.shape[0]):
        if data.hyperprior[which, 0] != FIXED:
            for carry in range(2):
                update_width(data, state, which, carry, rng)
    return DONE


@entry(SCALAR_T)
def log_density_width(data, state, which, z):
    """In log V coordinates, with V fixed, or with V carried along (`which` + CARRY; see `update_width`)."""
    carry = which >= CARRY
    which = which - CARRY if carry else which
    value, width = log_prior_density(data, which, z)
    if value == -math.inf:
        return value
    old = state.hyper[which]
    set_width(data, state, which, width)
    nrm.evaluate_kernel(data, state, state.log_trial, state.trial)
    set_width(data, state, which, old)
    G, P = state.K.shape
    reached = 0.0
    for i in range(state.labels.shape[0]):
        log_K = state.log_trial[data.group[i], state.location[state.labels[i]]]
        if log_K <= nrm.OUT_OF_REACH:
            return -math.inf
        reached += log_K
    value += reached
    log_v = state.carried[1]
    for g in range(G):
        log_v[g] = state.carried[0, g] - log_reach(state, state.log_trial[g]) if carry else math.log(state.v[g])
        value += data.group_size[g] * log_v[g]
        if abs(log_v[g]) > LOG_V_MAX:
            return -math.inf
    base, c, A = state.plane[0], state.plane[1], state.plane[2]
    for p in range(P):
        base[p] = state.hyper[TAU]
        A[p] = 0.0
    for g in range(G):
        add_row(A, state.trial[g], math.exp(log_v[g]))
    nrm.exponents(state, c)
    logs, growth = nrm.growth_sums(data, state, base, A, 1.0, c)
    return value + nrm.mass_term(data, state, state.hyper[SIGMA], growth) - logs


@kernel
def log_reach(state, log_K_row):
    """log sum_m n_m K(x_g, mu_m)"""
    top = -math.inf
    for k in range(state.num[N_CLUSTERS]):
        top = max(top, log_K_row[state.location[k]])
    total = 0.0
    for k in range(state.num[N_CLUSTERS]):
        total += state.size[k] * exp_any(log_K_row[state.location[k]] - top)
    return top + math.log(total)


@kernel
def set_width(data, state, which, x):
    if data.setup[SHARED_WIDTH] == 1:
        for j in range(WIDTH, state.hyper.shape[0]):
            state.hyper[j] = x
    else:
        state.hyper[which] = x


@kernel
def update_width(data, state, which, carry, rng):
    """One slice step for a width, V fixed or carried along.

    Carried along, Z_g = V_g sum_m n_m K(x_g, mu_m) is held instead of V_g: a shift of log V_g, of unit Jacobian.  An observation far out
    under a narrow kernel needs a large V_g, so that with V fixed a width hardly moves.
    """
    G = state.v.shape[0]
    if carry:
        for g in range(G):
            state.carried[0, g] = math.log(state.v[g]) + log_reach(state, state.log_K[g])
    set_width(data, state, which, draw(data, state, which, WIDTH_DENSITY, carry * CARRY, rng))
    nrm.evaluate_kernel(data, state, state.log_K, state.K)
    if carry:
        for g in range(G):
            state.v[g] = math.exp(state.carried[0, g] - log_reach(state, state.log_K[g]))
    nrm.recompute_A(state)
