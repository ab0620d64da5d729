"""Prior weights of the clusters and of a new one for one more observation, in a recorded draw."""

from __future__ import annotations

import math

import numpy as np

from nrmmix.kernels.core.jit import fast, inlined, kernel, root
from nrmmix.kernels.core.special import exp_any, log_pos
from nrmmix.kernels.core.state import CRM, FINITE, GIBBS_TYPE, LOG_V_MAX, TINY, Count, Hyper, Setup
from nrmmix.kernels.measure import nrm

# Of the trapezoid in s, whose error is 1e-8, and 5e-7 where tails are heavy; at first v exp(-rate v) is 1e-13 of its largest.
STEP, FIRST = 0.3, -3.4
NEGLIGIBLE = 1e-13
FARTHEST, UNIT = math.exp(500.0), math.exp(400.0)  # of tau + A, beyond which sizes of atoms are taken in 1 / UNIT
LARGEST = 1e36  # of numbers whose products of eight are within floating point, as 1 / LARGEST is the least
# Of the first nodes, more than a light tail has, what does not depend on the rate: log v - log v_0, its exponential, and d log v / ds.
_S = FIRST + STEP * np.arange(64)
LOG_GROWTH, GROWTH, SLOPE = _S - np.exp(-_S), np.exp(_S - np.exp(-_S)), 1.0 + np.exp(-_S)


@root
@kernel
def mixture_weights(data, state, out):
    """W_c = (n_c - sigma) rho / n and W_new = 1 - (n - sigma K) rho / n with rho = E[u/(u + tau) | partition].

    Where the mass is integrated out: W_c and W_new in proportion to n_c - sigma and theta + sigma K, or what the table has for it.
    """
    n = float(state.labels.shape[0])
    K = state.num[Count.CLUSTERS]
    mass, sigma, tau = state.hyper[Hyper.MASS], state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU]
    if data.setup[Setup.MEASURE] == CRM:
        rho = n / (n + mass) if sigma == 0.0 else expected_share(n, K, mass, sigma, tau)
        for k in range(K):
            out[k] = (state.size[k] - sigma) * rho / n
        out[K] = 1.0 - (n - sigma * K) * rho / n
        return
    new = math.exp(nrm.log_V_ratio(data, 1, K)) if data.setup[Setup.MEASURE] == GIBBS_TYPE else nrm.mass_of_new(data, mass, sigma, K)
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


# ---- density regression: what there is at v = V of one extra group, b_p = base_p + v K_p


@fast
def fill_octets(base, K_row, octet):
    """octet[:, q]: coefficients, from the constant one on, of the product over eight locations of b_p as a polynomial in v.

    There is room for as many as `octets`; where there are fewer locations, those that lack are 1.
    """
    Q = octet.shape[1]
    octet[:] = 0.0
    octet[0] = 1.0
    for i in range(8):
        first = i * Q
        many = min(Q, base.shape[0] - first)
        for j in range(i + 1, 0, -1):
            for q in range(many):
                octet[j, q] = octet[j, q] * base[first + q] + octet[j - 1, q] * K_row[first + q]
        for q in range(many):
            octet[0, q] *= base[first + q]


def octets(P):
    """Return how many there are, with whole vectors of eight of them."""
    return 8 * -(-P // 64)


@fast
def octet_sums(octet, v):
    """(sum_p log b_p, sum_p K_p / b_p): a logarithm and a quotient, of derivative and value, for eight locations."""
    logs, quotients = 0.0, 0.0
    for q in range(octet.shape[1]):
        value = octet[8, q]
        slope = value
        value = value * v + octet[7, q]
        slope = slope * v + value
        value = value * v + octet[6, q]
        slope = slope * v + value
        value = value * v + octet[5, q]
        slope = slope * v + value
        value = value * v + octet[4, q]
        slope = slope * v + value
        value = value * v + octet[3, q]
        slope = slope * v + value
        value = value * v + octet[2, q]
        slope = slope * v + value
        value = value * v + octet[1, q]
        slope = slope * v + value
        value = value * v + octet[0, q]
        logs += log_pos(value)
        quotients += slope / value
    return logs, quotients


@kernel
def are_multiplied(data, base, K_row, integrated, sigma):
    """Whether `octet_sums` are all that is needed, and up to which v their products are within floating point; 0 if not."""
    R0 = data.R0
    if integrated or sigma != 0.0:
        return 0.0
    low, high, K_high = math.inf, 0.0, TINY
    for p in range(base.shape[0]):
        low, high, K_high = min(low, base[p]), max(high, base[p]), max(K_high, K_row[p])
        if R0[p] != R0[0]:
            return 0.0
    return LARGEST / K_high if low > 1.0 / LARGEST and high < LARGEST else 0.0


@fast
def growth_and_new(base, K_row, v, R0, sigma, tau):
    """sum_p R0(p) psi1, and sum_p R0(p) K_p b_p^(sigma - 1), the rate at which new atoms of a unit of mass are joined."""
    growth, new = 0.0, 0.0
    if sigma == 0.0:
        for p in range(base.shape[0]):
            b = base[p] + v * K_row[p]
            growth += R0[p] * log_pos(b)
            new += R0[p] * K_row[p] / b
        return growth, new
    tau_power = nrm.power_of_tau(sigma, tau)
    log_tau = math.log(tau) if tau > 0.0 else 0.0
    for p in range(base.shape[0]):
        b = base[p] + v * K_row[p]
        log_b = log_pos(b)
        growth += R0[p] * nrm.psi1_at(log_b, sigma, log_tau, tau_power)
        new += R0[p] * K_row[p] * exp_any(min(sigma * (log_b - log_tau), 700.0)) / b  # an exponential that psi1 takes too
    return growth, new * tau_power if tau > 0.0 else new


@fast
def power_growth_and_new(base, K_row, v, R0, sigma):
    """As `nrm.power_sums` with tau in the base, and sum_p R0(p) K_p b_p^(sigma - 1) exp(-sigma L)."""
    log_end = nrm.log_end(base, K_row, v, sigma, 0.0)
    total, new = 0.0, 0.0
    for p in range(base.shape[0]):
        b = base[p] + v * K_row[p]
        log_b = log_pos(b)
        total += R0[p] * nrm.psi1_at(log_b, sigma, log_end, 1.0)
        new += R0[p] * K_row[p] * exp_any(min(sigma * (log_b - log_end), 700.0)) / b
    beyond = total if sigma == 0.0 else math.log1p(sigma * total) / sigma
    return log_end + beyond, new * math.exp(-sigma * beyond)


@fast
def rates_and_logs(v, near, K, rates):
    """The rates at which an observation joins each cluster, into `rates`, and their sum; and sum_k (n_k - sigma) log b.

    `near`: base, covariate kernel and n_k - sigma at the location of each cluster.
    """
    total, logs = 0.0, 0.0
    for k in range(K):
        b = near[0, k] + v * near[1, k]
        rates[k] = near[1, k] * near[2, k] / b
        total += rates[k]
        logs += near[2, k] * log_pos(b)
    return total, logs


@inlined
def node(j, log_v0, v0):
    """log v, v and d log v / ds at node j of the trapezoid; v_0 = 1 / rate."""
    if j < LOG_GROWTH.shape[0]:
        return log_v0 + LOG_GROWTH[j], v0 * GROWTH[j], SLOPE[j]
    s = FIRST + STEP * j
    fall = math.exp(-s)
    log_v = log_v0 + s - fall
    return log_v, math.exp(log_v), 1.0 + fall


@root
@kernel
def regression_weights(data, state, K_rows, octet, out):
    """out (R, K + 1): quadrature over v = V of one extra group for each row of its covariate kernel (R, P); they sum to 1 in each draw.

    The integrand falls from v = 0 on, at first as exp(-rate v): a trapezoid in s with log v = s - exp(-s) - log(rate) has few nodes where
    v is small, and takes whatever tail there is (double exponential quadrature, Takahasi & Mori 1974).
    A finite measure has no atom in reach of the group with some probability; the weights are given that it has one, and are 0 where
    all its atoms are occupied and out of reach.  `octet` (9, `octets`) is scratch.
    """
    K = state.num[Count.CLUSTERS]
    mass, sigma, tau = state.hyper[Hyper.MASS], state.hyper[Hyper.SIGMA], state.hyper[Hyper.TAU]
    integrated = nrm.is_integrated(data)
    if integrated:
        mass = nrm.mass_of_new(data, mass, sigma, K)
    base, near, rates, largest = state.scratch.by_location[0], state.scratch.work, state.scratch.score, 0.0
    for p in range(base.shape[0]):
        base[p] = max(tau + state.cache.A[p], TINY)
        largest = max(largest, base[p])
    if largest > FARTHEST:  # the trapezoid would end amid the integrand: sizes of atoms in another unit change no weight
        for p in range(base.shape[0]):
            base[p] = max(base[p] / UNIT, TINY)
        tau /= UNIT
        mass *= 1.0 if integrated else math.exp(sigma * math.log(UNIT))
    for k in range(K):
        near[0, k], near[2, k] = base[state.location[k]], state.size[k] - sigma
    for r in range(K_rows.shape[0]):
        K_row, weight = K_rows[r], out[r]
        for k in range(K):
            near[1, k] = K_row[state.location[k]]
        for k in range(K + 1):
            weight[k] = 0.0
        as_products = are_multiplied(data, base, K_row, integrated, sigma)
        if as_products > 0.0:
            fill_octets(base, K_row, octet)
        j, v, log_v, slope, log_v0, v0, logs0, growth0, best = -1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        while True:
            if v < as_products:
                growth, new = octet_sums(octet, v)
                growth, new = data.R0[0] * growth, data.R0[0] * new
            elif integrated:
                growth, new = power_growth_and_new(base, K_row, v, data.R0, sigma)
            else:
                growth, new = growth_and_new(base, K_row, v, data.R0, sigma, tau)
            rates[K] = mass * new
            rate, logs = rates_and_logs(v, near, K, rates)
            rate += rates[K]
            if j < 0:  # v = 0 says what the nodes are
                if rate == 0.0:
                    break
                log_v0, v0, logs0, growth0 = -math.log(rate), 1.0 / rate, logs, growth
            else:
                survival = math.exp(-(logs - logs0) - mass * (growth - growth0))  # minus its derivative in v is the rate times it
                last = log_v + STEP > LOG_V_MAX
                factor = (0.5 if last else 1.0) * STEP * v * slope * survival
                best = max(best, factor * rate)
                negligible = factor * rate < NEGLIGIBLE * best
                if last and data.setup[Setup.MEASURE] != FINITE:  # a heavy tail: what is left of the integral, in proportions of its end
                    factor += survival / rate
                for k in range(K + 1):
                    weight[k] += factor * rates[k]
                if last or negligible:
                    break
            j += 1
            log_v, v, slope = node(j, log_v0, v0)
        if data.setup[Setup.MEASURE] == FINITE:
            total = 0.0
            for k in range(K + 1):
                total += weight[k]
            for k in range(K + 1 if total > 0.0 else 0):
                weight[k] /= total
