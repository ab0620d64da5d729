"""Prior weights of the clusters and of a new one for one more observation, in a recorded draw."""

from __future__ import annotations

import math

from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.special import exp_any, log_pos
from nrmmix.kernels.core.state import CRM, FINITE, GIBBS_TYPE, LOG_V_MAX, MASS, MEASURE, N_CLUSTERS, SIGMA, TAU, TINY
from nrmmix.kernels.measure import nrm

STEP, FIRST = 0.28, -3.5  # of the trapezoid in s, whose error is 1e-8; at first v exp(-rate v) is 1e-13 of its largest
NEGLIGIBLE = 1e-14


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
def weights_at(v, factor, base, K_row, location, size, K, R0, mass, sigma, log_scale, out):
    """Add factor times the integrand's terms at v to out[:K + 1]; their sum, without the factor.

    The mass of the new atoms is that of `mass` / exp(log_scale).
    """
    rate = 0.0
    for k in range(K):
        p = location[k]
        term = K_row[p] * (size[k] - sigma) / (base[p] + v * K_row[p])
        out[k] += factor * term
        rate += term
    new = 0.0
    for p in range(R0.shape[0]):
        b = base[p] + v * K_row[p]
        power = 1.0 / b if sigma == 0.0 else exp_any((sigma - 1.0) * log_pos(b) - log_scale)
        new += R0[p] * K_row[p] * power
    out[K] += factor * mass * new
    return rate + mass * new


@kernel
def regression_weights(data, state, K_row, out):
    """Quadrature over v = V of one extra group with covariate kernel K_row; sums to 1 in each draw.

    The integrand falls from v = 0 on, at first as exp(-rate v): a trapezoid in s with log v = s - exp(-s) - log(rate) has few nodes where
    v is small, and takes whatever tail there is (double exponential quadrature, Takahasi & Mori 1974).
    A finite measure has no atom in reach of the group with some probability; the weights are given that it has one, and are 0 where
    all its atoms are occupied and out of reach.
    """
    K, P = state.num[N_CLUSTERS], state.A.shape[0]
    mass, sigma, tau = state.hyper[MASS], state.hyper[SIGMA], state.hyper[TAU]
    integrated = nrm.is_integrated(data)
    shrink = 0.0  # of the mass, by L
    if integrated:
        mass, shrink = nrm.mass_of_new(data, mass, sigma, K), sigma
    base, c = state.plane[0], state.plane[1]
    for p in range(P):
        base[p] = max(tau + state.A[p], TINY)
    nrm.exponents(state, c)
    logs0, growth0 = nrm.growth_sums(data, state, base, K_row, 0.0, c, data.R0)
    for k in range(K + 1):
        out[k] = 0.0
    rate = weights_at(0.0, 0.0, base, K_row, state.location, state.size, K, data.R0, mass, sigma, shrink * growth0, out)
    if rate == 0.0:
        return
    s, x0, best = FIRST, -math.log(rate), 0.0
    while True:
        x = x0 + s - math.exp(-s)
        v = math.exp(x)
        logs, growth = nrm.growth_sums(data, state, base, K_row, v, c, data.R0)
        survival = math.exp(-(logs - logs0) - mass * (growth - growth0))  # minus its derivative in v is the integrand's sum
        last = x + STEP > LOG_V_MAX
        factor = (0.5 if last else 1.0) * STEP * v * (1.0 + math.exp(-s)) * survival
        rate = weights_at(v, factor, base, K_row, state.location, state.size, K, data.R0, mass, sigma, shrink * growth, out)
        if last:  # a heavy tail: what is left of the integral, in the proportions of its end
            if data.setup[MEASURE] != FINITE:
                weights_at(
                    v, survival / rate, base, K_row, state.location, state.size, K, data.R0, mass, sigma, shrink * growth, out
                )
            break
        best = max(best, factor * rate)
        if factor * rate < NEGLIGIBLE * best:
            break
        s += STEP
    if data.setup[MEASURE] == FINITE:
        total = 0.0
        for k in range(K + 1):
            total += out[k]
        for k in range(K + 1):
            out[k] /= total


@kernel
def next_weights(data, state, K_row, out):
    """Into out (K + 1,) for an observation with the row K_row of the covariate kernel, which a mixture does not read."""
    if nrm.is_mixture(data):
        mixture_weights(data, state, out)
    else:
        regression_weights(data, state, K_row, out)
