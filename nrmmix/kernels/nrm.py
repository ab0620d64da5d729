"""The normalised random measure: v, locations, mass, sigma and the widths given the partition.

The mixture is the case G = P = 1, K = 1, where V = A = u.  The part of the joint that the measure's total mass enters is
exp(-mass * T) with T = sum_p R0(p) psi1(A_p); where the mass has a Gamma(a0, b0) prior it is integrated out of the updates of v, sigma
and the widths, leaving (b0 + T)^-(a0 + K).  A Dirichlet process mixture has no u: its mass is drawn with u integrated out.
"""

from __future__ import annotations

import math

from nrmmix.kernels.clusters import marginal_column, weigh
from nrmmix.kernels.entry import call_covariate
from nrmmix.kernels.jit import fast, inlined, kernel
from nrmmix.kernels.locations import refresh_reach
from nrmmix.kernels.special import exp_any, log_pos
from nrmmix.kernels.state import (
    BETA,
    COVARIATE,
    GAMMA,
    JOINT_WITH_V,
    LOGNORMAL,
    MASS,
    N_CLUSTERS,
    SIGMA,
    TAU,
    TINY,
    WIDTH,
)

OUT_OF_REACH = -1e6  # log K of K = 0: sums of it can be taken back


# ---- the Levy measure


@inlined
def psi1_at(log_b, sigma, log_tau, tau_power):
    """psi / mass = ((A + tau)^sigma - tau^sigma) / sigma at log_b = log(A + tau), continuous at sigma = 0.

    tau_power = tau^sigma, or 0 for tau = 0 (log_tau is then unused).
    """
    if tau_power == 0.0:
        return exp_any(min(sigma * log_b, 700.0)) / sigma
    span = log_b - log_tau
    z = min(sigma * span, 700.0)
    # (e^z - 1)/z: the series where the difference would cancel
    series = 1.0 + z / 2.0 * (1.0 + z / 3.0 * (1.0 + z / 4.0 * (1.0 + z / 5.0 * (1.0 + z / 6.0 * (1.0 + z / 7.0 * (
        1.0 + z / 8.0 * (1.0 + z / 9.0 * (1.0 + z / 10.0 * (1.0 + z / 11.0 * (1.0 + z / 12.0))))))))))
    direct = (exp_any(z) - 1.0) / (z if z > 0.3 else 1.0)
    return tau_power * span * (direct if z > 0.3 else series)


@kernel
def power_of_tau(sigma, tau):
    if tau == 0.0:
        return 0.0
    return math.exp(sigma * math.log(tau))


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


@kernel
def mass_term(data, state, total):
    """log of exp(-mass T), or of its integral over a gamma prior together with mass^K."""
    prior = data.hyperprior[MASS]
    if prior[0] == GAMMA:
        return -(prior[1] + state.num[N_CLUSTERS]) * math.log(prior[2] + total)
    return -state.hyper[MASS] * total


# ---- what follows from v, locations and hyperparameters


@fast
def recompute_A(state):
    G, P = state.K.shape
    for p in range(P):
        state.A[p] = 0.0
    for g in range(G):
        v, row = state.v[g], state.K[g]
        for p in range(P):
            state.A[p] += v * row[p]


@kernel
def refresh(data, state):
    """Cached logarithms after any change of v, the hyperparameters or the locations."""
    G, P = state.K.shape
    mass, sigma, tau = state.hyper[MASS], state.hyper[SIGMA], state.hyper[TAU]
    for m in range(1, state.log_size.shape[0]):
        state.log_size[m] = log_pos(m - sigma)
    for k in range(state.num[N_CLUSTERS]):
        weigh(state, k)
    rate = state.plane[0]
    for p in range(P):
        rate[p] = data.R0[p] * mass * math.exp((sigma - 1.0) * math.log(max(tau + state.A[p], TINY)))
    for g in range(G):
        total = 0.0
        for p in range(P):
            total += rate[p] * state.K[g, p]
        state.log_new[g] = math.log(total)
    if state.where.shape[1] > 0:
        refresh_reach(data, state)


@kernel
def evaluate_kernel(data, state, log_K, K):
    """Covariate kernel at the current widths."""
    call_covariate(data.setup[COVARIATE], data.distance, state.hyper[WIDTH:], log_K)
    for g in range(K.shape[0]):
        for p in range(K.shape[1]):
            if log_K[g, p] == -math.inf:
                log_K[g, p] = OUT_OF_REACH
            K[g, p] = exp_any(log_K[g, p])


@kernel
def exponents(state, c):
    """c_p = sum over clusters at p of (n_m - sigma)."""
    for p in range(c.shape[0]):
        c[p] = 0.0
    for k in range(state.num[N_CLUSTERS]):
        c[state.location[k]] += state.size[k] - state.hyper[SIGMA]


@kernel
def total_psi1(data, state, sigma):
    total = 0.0
    tau = state.hyper[TAU]
    tau_power = power_of_tau(sigma, tau)
    log_tau = math.log(tau) if tau > 0.0 else 0.0
    for p in range(state.A.shape[0]):
        total += data.R0[p] * psi1_at(math.log(max(tau + state.A[p], TINY)), sigma, log_tau, tau_power)
    return total


# ---- the joint


@kernel
def log_joint(data, state):
    """log p(y, partition), with u or v where the prior's joint has them; see math of the random measure in the documentation."""
    n = state.labels.shape[0]
    mass, sigma, tau = state.hyper[MASS], state.hyper[SIGMA], state.hyper[TAU]
    K = state.num[N_CLUSTERS]
    value = K * math.log(mass)
    for k in range(K):
        value += marginal_column(data, state.stat, k) + math.lgamma(state.size[k] - sigma) - math.lgamma(1.0 - sigma)
    if data.setup[JOINT_WITH_V] == 0:
        return value + math.lgamma(mass) - math.lgamma(mass + n)
    for k in range(K):
        p = state.location[k]
        value += math.log(data.R0[p]) - (state.size[k] - sigma) * math.log(max(tau + state.A[p], TINY))
    for g in range(state.v.shape[0]):
        value += (data.group_size[g] - 1.0) * math.log(state.v[g]) - math.lgamma(data.group_size[g])
    for i in range(n):
        log_K = state.log_K[data.group[i], state.location[state.labels[i]]]
        if log_K <= OUT_OF_REACH:
            return -math.inf
        value += log_K
    return value - mass * total_psi1(data, state, sigma)
