"""What a recorded draw says about new observations: predictive weights and scores, and draws of the random measure."""

from __future__ import annotations

import math

import numpy as np

from nrmmix.kernels.core.clusters import empty_column, score_columns_and_new, update_column
from nrmmix.kernels.core.entry import call_density, call_mean, call_sample
from nrmmix.kernels.core.jit import allocating, fast, kernel, variable
from nrmmix.kernels.core.special import exp_any, log_pos
from nrmmix.kernels.core.state import (
    COMPONENTS,
    CRM,
    DENSITY,
    FINITE,
    GIBBS_TYPE,
    LOG_V_MAX,
    MASS,
    MEAN,
    MEAN_THETA,
    MEASURE,
    N_CLUSTERS,
    SAMPLE,
    SIGMA,
    TAU,
    TINY,
)
from nrmmix.kernels.measure.crm import expected_count, jumps_above, mass_below
from nrmmix.kernels.measure.nrm import (
    evaluate_kernel,
    exponents,
    growth_sums,
    is_integrated,
    log_V_ratio,
    mass_of_new,
    power_of_tau,
    psi1_at,
    recompute_A,
    refresh_caches,
    total_growth,
)

STEP = 0.5  # of the trapezoid in log v: its error is 2e-8
NEGLIGIBLE = 1e-14
MAX_JUMPS = 2000.0
MAX_THETA = 4e6  # numbers in the parameters of the unseen atoms


@kernel
def load_draw(data, state, labels, location, v, hyper):
    """Make `state` that of a recorded draw; its columns must have room for one cluster more."""
    for j in range(hyper.shape[0]):
        state.hyper[j] = hyper[j]
    for g in range(v.shape[0]):
        state.v[g] = v[g]
    evaluate_kernel(data, state, state.log_K, state.K)
    recompute_A(state)
    K = 0
    for i in range(labels.shape[0]):
        k = labels[i]
        if k == K:
            empty_column(data, state.stat, k)
            state.size[k] = 0
            state.location[k] = location[i] if location.shape[0] > 0 else 0
            K += 1
        state.labels[i] = k
        state.size[k] += 1
        update_column(data, state.stat, k, i, 1.0)
    state.num[N_CLUSTERS] = K
    empty_column(data, state.stat, K)
    refresh_caches(data, state)


# ---- weights of the clusters and of a new one for one more observation


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
    new = math.exp(log_V_ratio(data, 1, K)) if data.setup[MEASURE] == GIBBS_TYPE else mass_of_new(data, mass, sigma, K)
    total = n - sigma * K + new
    for k in range(K):
        out[k] = (state.size[k] - sigma) / total
    out[K] = new / total


@kernel
def log_density_u(x, n, K, mass, sigma, tau):
    """log p(x | partition) for x = log u, up to a constant."""
    log_b = math.log(math.exp(x) + tau)
    return n * x - (n - sigma * K) * log_b - mass * psi1_at(log_b, sigma, math.log(tau), power_of_tau(sigma, tau))


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

    A finite measure has no atom in reach of the group with some probability; the weights are given that it has one, and are 0 where
    all its atoms are occupied and out of reach.
    """
    K, P = state.num[N_CLUSTERS], state.A.shape[0]
    mass, sigma, tau = state.hyper[MASS], state.hyper[SIGMA], state.hyper[TAU]
    integrated = is_integrated(data)
    shrink = 0.0  # of the mass, by L
    if integrated:
        mass, shrink = mass_of_new(data, mass, sigma, K), sigma
    base, c = state.plane[0], state.plane[1]
    for p in range(P):
        base[p] = max(tau + state.A[p], TINY)
    exponents(state, c)
    logs0, growth0 = growth_sums(data, state, base, K_row, 0.0, c)
    for k in range(K + 1):
        out[k] = 0.0
    rate = weights_at(0.0, 0.0, base, K_row, state.location, state.size, K, data.R0, mass, sigma, shrink * growth0, out)
    if rate == 0.0:
        return
    x = math.log(NEGLIGIBLE / rate)
    best = 0.0
    while True:
        v = math.exp(x)
        logs, growth = growth_sums(data, state, base, K_row, v, c)
        survival = math.exp(-(logs - logs0) - mass * (growth - growth0))  # minus its derivative in v is the integrand's sum
        last = x + STEP > LOG_V_MAX
        factor = (0.5 if last else 1.0) * STEP * v * survival
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
        x += STEP
    if data.setup[MEASURE] == FINITE:
        total = 0.0
        for k in range(K + 1):
            total += out[k]
        for k in range(K + 1):
            out[k] /= total


@allocating
def predictive_weights(data, state, K_rows):
    """(R, K + 1): weights at rows of the covariate kernel (R, P); the last is that of a new atom.  Mixtures have one row."""
    R = K_rows.shape[0]
    out = np.zeros((R, state.num[N_CLUSTERS] + 1))
    for r in range(R):
        if data.distance.shape[0] == 0:
            mixture_weights(data, state, out[r])
        else:
            regression_weights(data, state, K_rows[r], out[r])
    return out


@allocating
def predictive_scores(points, state):
    """(J, K + 1): log predictive of each point of `points.rows` in each cluster, last in a new one."""
    K = state.num[N_CLUSTERS]
    J = points.rows.y.shape[0]
    out = np.zeros((J, K + 1))
    for j in range(J):
        score_columns_and_new(points, state.stat, state.work, out[j], variable(K), j)
    return out


@allocating
def cluster_means(points, state, n_mean):
    """(I, K + 1, n_mean): mean of each cluster's predictive, last that of the prior, at the inputs of each row of `points.rows`."""
    K, I = state.num[N_CLUSTERS], points.rows.y.shape[0]
    out = np.zeros((I, K + 1, n_mean))
    for i in range(I):
        for k in range(K + 1):
            for b in range(points.block.shape[0]):
                call_mean(points.block[b, MEAN], points.rows, state.stat, out[i, k], points.block[b], k, i)
    return out


# ---- draws of the random measure given partition, v and locations


@kernel
def draw_component(data, state, theta, m, k, rng):
    """theta[:, m] from the posterior of the parameters in column k."""
    for b in range(data.block.shape[0]):
        call_sample(data.block[b, SAMPLE], data.rows, state.stat, theta, data.block[b], k, m, rng)


@allocating
def draw_new(data, state, n_theta, size, rng):
    """(T, size): parameters of new clusters."""
    theta = np.zeros((n_theta, size))
    for m in range(size):
        draw_component(data, state, theta, m, state.num[N_CLUSTERS], rng)
    return theta


@allocating
def draw_components(data, state, n_theta, M, rng):
    """(T, M): parameters of the clusters, and of new ones after them."""
    K = state.num[N_CLUSTERS]
    theta = np.zeros((n_theta, M))
    for m in range(M):
        draw_component(data, state, theta, m, min(m, K), rng)
    return theta


@allocating
def draw_measure(data, state, n_theta, level, rng):
    """Atoms of the unnormalised measure: weights (M,), locations (M,), parameters (T, M), and the rest by location (P,).

    Clusters have weight Gamma(n_m - sigma, tau + A) and parameters from their posterior.  Of the unseen atoms those heavier than
    `level` / (tau + A_p), `level` observations' worth, are drawn one by one; the lighter ones are the rest, at their mean.  Where more
    than MAX_JUMPS are expected, or parameters of more than MAX_THETA numbers, the level is raised.
    """
    if data.setup[MEASURE] == FINITE:
        return draw_finite(data, state, n_theta, level, rng)
    K, P = state.num[N_CLUSTERS], state.A.shape[0]
    mass, sigma, tau = state.hyper[MASS], state.hyper[SIGMA], state.hyper[TAU]
    if is_integrated(data) and sigma > 0.0:  # that of the generalised gamma process, given partition and v
        mass = rng.standard_gamma(mass_of_new(data, mass, sigma, K) / sigma) * sigma * math.exp(-sigma * total_growth(data, state, sigma))
    gap = math.gamma(1.0 - sigma)
    expected = 0.0
    for p in range(P):
        expected += expected_count(data.R0[p] * mass * (tau + state.A[p]) ** sigma / gap, sigma, level)
    most = min(MAX_JUMPS, MAX_THETA / max(n_theta, 1))
    while expected > most:
        level *= 2.0
        expected = 0.0
        for p in range(P):
            expected += expected_count(data.R0[p] * mass * (tau + state.A[p]) ** sigma / gap, sigma, level)
    rest = np.zeros(P)
    room = K + int(expected + 10.0 * math.sqrt(expected)) + 50
    weight, place = np.empty(room), np.zeros(room, np.int64)
    for k in range(K):
        p = state.location[k]
        place[k] = p
        weight[k] = rng.standard_gamma(state.size[k] - sigma) / (tau + state.A[p])
    M = K
    for p in range(P):
        b = tau + state.A[p]
        c = data.R0[p] * mass * b**sigma / gap
        z = jumps_above(c, sigma, level, rng)
        for j in range(z.shape[0]):
            if M < room:
                weight[M] = z[j] / b
                place[M] = p
                M += 1
            else:
                rest[p] += z[j] / b
        rest[p] += mass_below(c, sigma, level) / b
    return weight[:M].copy(), place[:M].copy(), draw_components(data, state, n_theta, M, rng), rest


@allocating
def draw_finite(data, state, n_theta, level, rng):
    """As `draw_measure`, of M atoms: those unoccupied are at p with probability in proportion to R0(p) b^-(mass / M), of size
    Gamma(mass / M, b), b = tau + A_p; the lighter ones are the rest, as drawn."""
    K, P, M = state.num[N_CLUSTERS], state.A.shape[0], data.setup[COMPONENTS]
    sigma, tau = state.hyper[SIGMA], state.hyper[TAU]
    terms = np.empty(P)
    for p in range(P):
        terms[p] = math.log(data.R0[p]) + sigma * math.log(tau + state.A[p])
    top = terms.max()
    steps = np.cumsum(np.exp(terms - top))
    size, at = np.empty(M - K), np.empty(M - K, np.int64)
    for j in range(M - K):
        at[j] = min(np.searchsorted(steps, rng.random() * steps[P - 1], side="right"), P - 1)
        size[j] = rng.standard_gamma(-sigma)
    heavy = (size > level).sum()
    while heavy > MAX_JUMPS:
        level *= 2.0
        heavy = (size > level).sum()
    weight, place, rest = np.empty(K + heavy), np.empty(K + heavy, np.int64), np.zeros(P)
    for k in range(K):
        place[k] = state.location[k]
        weight[k] = rng.standard_gamma(state.size[k] - sigma) / (tau + state.A[place[k]])
    m = K
    for j in range(M - K):
        b = tau + state.A[at[j]]
        if size[j] > level:
            weight[m], place[m] = size[j] / b, at[j]
            m += 1
        else:
            rest[at[j]] += size[j] / b
    return weight, place, draw_components(data, state, n_theta, m, rng), rest


@allocating
def component_densities(points, theta, n_work):
    """(J, M): log density of each point under each atom's parameters."""
    J, M = points.rows.y.shape[0], theta.shape[1]
    out = np.zeros((J, M))
    work = np.zeros((n_work, M))
    for j in range(J):
        for b in range(points.block.shape[0]):
            call_density(points.block[b, DENSITY], points.rows, theta, work, out[j], points.block[b], M, j)
    return out


@allocating
def component_means(points, theta, n_mean):
    """(I, M, n_mean): expected responses under each atom's parameters, at the inputs of each row of `points.rows`."""
    M, I = theta.shape[1], points.rows.y.shape[0]
    out = np.zeros((I, M, n_mean))
    for i in range(I):
        for m in range(M):
            for b in range(points.block.shape[0]):
                call_mean(points.block[b, MEAN_THETA], points.rows, theta, out[i, m], points.block[b], m, i)
    return out
