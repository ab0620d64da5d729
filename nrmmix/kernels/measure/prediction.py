"""Prior weights of the clusters and of a new one for one more observation, in a recorded draw."""

from __future__ import annotations

import math

from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.special import exp_any, log_pos
from nrmmix.kernels.core.state import CRM, FINITE, GIBBS_TYPE, LOG_V_MAX, MASS, MEASURE, N_CLUSTERS, SIGMA, TAU, TINY
from nrmmix.kernels.measure import nrm

# Of the trapezoid in s, whose error is 1e-8, and 5e-7 where tails are heavy; at first v exp(-rate v) is 1e-13 of its largest.
STEP, FIRST = 0.3, -3.4
NEGLIGIBLE = 1e-13


@kernel
def mixture_weights(data, state, out):
    """W_c = (n_c - sigma) rho / n and W_new = 1 - (n - sigma K) rho / n with rho = E[u/(u + tau) | partition].

    Where the mass is integrated out: W_c and W_new in proportion to n_c - sigma and theta + sigma K, or what the table has for it.
    """
    n = float(state.labels.shape[0])
    K = state.num[N_CLUSTERS]
    mass, sigma, tau = state.hyper[MASS], state.hyper[SIGMA], state.hyper[TAU]
    if data.setup[MEASURE] == CRM:
        rho = n / (n + mass) if sigma == 0.0 else expected_share(n, K, mass, sigma, tau)
        for k in range(K):
            out[k] = (state.size[k] - sigma) * rho / n
        out[K] = 1.0 - (n - sigma * K) * rho / n
        return
    new = math.exp(nrm.log_V_ratio(data, 1, K)) if data.setup[MEASURE] == GIBBS_TYPE else nrm.mass_of_new(data, mass, sigma, K)
    total = n - sigma * K + new
    for k in range(K):
        out[k] = (state.size[k] - sigma) / total
    out[K] = new / total


@kernel
def log_density_u(x, n, K, mass, sigma, tau):
    """log p(x | partition) for x = log u, up to a constant."""
    log_b = math.log(math.exp(x) + tau)
    return n * x - (n - sigma * K) * log_b - mass * nrm.psi1_at(log_b, sigma, math.log(tau), nrm.power_of_tau(sigma, tau))


@kernel
def expected_share(n, K, mass, sigma, tau):
    """E[u/(u + tau)] by the trapezoid in log u, from the mode outwards; the density is log-concave."""
    lo, hi = -60.0, 600.0
    for _ in range(100):  # golden section
        a, b = hi - 0.6180339887 * (hi - lo), lo + 0.6180339887 * (hi - lo)
        if log_density_u(a, n, K, mass, sigma, tau) < log_density_u(b, n, K, mass, sigma, tau):
            lo = a
        else:
            hi = b
    mode = 0.5 * (lo + hi)
    top = log_density_u(mode, n, K, mass, sigma, tau)
    # a fifth of the standard deviation at the mode resolves the density
    curvature = (
        2.0 * top - log_density_u(mode - 0.01, n, K, mass, sigma, tau) - log_density_u(mode + 0.01, n, K, mass, sigma, tau)
    ) / 1e-4
    step = 0.2 / math.sqrt(max(curvature, 0.01))
    total, share = 0.0, 0.0
    for direction in (-1.0, 1.0):
        x = mode if direction > 0.0 else mode - step
        while -700.0 < x < 600.0:
            p = math.exp(log_density_u(x, n, K, mass, sigma, tau) - top)
            total += p
            share += p / (1.0 + tau * math.exp(-x))
            if p < 1e-16:
                break
            x += direction * step
    return share / total


@fast
def sums_and_new(base, K_row, v, c, R0, sigma, tau):
    """As `nrm.weighted_sums`, and sum_p R0(p) K_p b_p^(sigma - 1), the rate at which new atoms of a unit of mass are joined."""
    logs, growth, new = 0.0, 0.0, 0.0
    if sigma == 0.0:
        for p in range(base.shape[0]):
            b = max(base[p] + v * K_row[p], TINY)
            log_b = log_pos(b)
            logs += c[p] * log_b
            growth += R0[p] * log_b
            new += R0[p] * K_row[p] / b
        return logs, growth - math.log(tau) * R0.sum(), new
    tau_power = nrm.power_of_tau(sigma, tau)
    log_tau = math.log(tau) if tau > 0.0 else 0.0
    for p in range(base.shape[0]):
        b = max(base[p] + v * K_row[p], TINY)
        log_b = log_pos(b)
        logs += c[p] * log_b
        growth += R0[p] * nrm.psi1_at(log_b, sigma, log_tau, tau_power)
        new += R0[p] * K_row[p] * exp_any(min(sigma * (log_b - log_tau), 700.0)) / b  # an exponential that psi1 takes too
    return logs, growth, new * tau_power if tau > 0.0 else new


@fast
def power_sums_and_new(base, K_row, v, c, R0, sigma):
    """As `nrm.power_sums` with tau in the base, and sum_p R0(p) K_p b_p^(sigma - 1) exp(-sigma L)."""
    log_end = nrm.log_end(base, K_row, v, sigma, 0.0)
    logs, total, new = 0.0, 0.0, 0.0
    for p in range(base.shape[0]):
        b = max(base[p] + v * K_row[p], TINY)
        log_b = log_pos(b)
        logs += c[p] * log_b
        total += R0[p] * nrm.psi1_at(log_b, sigma, log_end, 1.0)
        new += R0[p] * K_row[p] * exp_any(min(sigma * (log_b - log_end), 700.0)) / b
    beyond = total if sigma == 0.0 else math.log1p(sigma * total) / sigma
    return logs, log_end + beyond, new * math.exp(-sigma * beyond)


@fast
def rates_at(v, base, K_row, state, rates):
    """The rates at v at which an observation joins each cluster, into `rates`; their sum."""
    total = 0.0
    for k in range(state.num[N_CLUSTERS]):
        p = state.location[k]
        rates[k] = K_row[p] * (state.size[k] - state.hyper[SIGMA]) / (base[p] + v * K_row[p])
        total += rates[k]
    return total


@kernel
def regression_weights(data, state, K_row, out):
    """Quadrature over v = V of one extra group with covariate kernel K_row; sums to 1 in each draw.

    The integrand falls from v = 0 on, at first as exp(-rate v): a trapezoid in s with log v = s - exp(-s) - log(rate) has few nodes where
    v is small, and takes whatever tail there is (double exponential quadrature, Takahasi & Mori 1974).
    A finite measure has no atom in reach of the group with some probability; the weights are given that it has one, and are 0 where
    all its atoms are occupied and out of reach.
    """
    K = state.num[N_CLUSTERS]
    mass, sigma, tau = state.hyper[MASS], state.hyper[SIGMA], state.hyper[TAU]
    integrated = nrm.is_integrated(data)
    if integrated:
        mass = nrm.mass_of_new(data, mass, sigma, K)
    base, c, rates = state.plane[0], state.plane[1], state.score
    for p in range(base.shape[0]):
        base[p] = max(tau + state.A[p], TINY)
    nrm.exponents(state, c)
    for k in range(K + 1):
        out[k] = 0.0
    s, v, x0, logs0, growth0, best = FIRST - STEP, 0.0, 0.0, 0.0, 0.0, -1.0
    while True:
        if integrated:
            logs, growth, new = power_sums_and_new(base, K_row, v, c, data.R0, sigma)
        else:
            logs, growth, new = sums_and_new(base, K_row, v, c, data.R0, sigma, tau)
        rates[K] = mass * new
        rate = rates_at(v, base, K_row, state, rates) + rates[K]
        last = False
        if best < 0.0:  # the first point, v = 0, says what the others are
            if rate == 0.0:
                return
            x0, logs0, growth0, best = -math.log(rate), logs, growth, 0.0
        else:
            survival = math.exp(-(logs - logs0) - mass * (growth - growth0))  # minus its derivative in v is the rate times it
            last = math.log(v) + STEP > LOG_V_MAX
            factor = (0.5 if last else 1.0) * STEP * v * (1.0 + math.exp(-s)) * survival
            best = max(best, factor * rate)
            negligible = factor * rate < NEGLIGIBLE * best
            if last and data.setup[MEASURE] != FINITE:  # a heavy tail: what is left of the integral, in the proportions of its end
                factor += survival / rate
            for k in range(K + 1):
                out[k] += factor * rates[k]
            if last or negligible:
                break
        s += STEP
        v = math.exp(x0 + s - math.exp(-s))
    if data.setup[MEASURE] == FINITE:
        total = 0.0
        for k in range(K + 1):
            total += out[k]
        for k in range(K + 1):
            out[k] /= total
