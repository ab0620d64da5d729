"""Random measures, what they say of partitions, and covariate kernels.  u and the mass may be arrays: a value for each."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln, logsumexp


def psi1(u, sigma: float, tau: float):
    """psi(u) / mass"""
    if sigma == 0:
        return np.log1p(u / tau)
    if tau == 0:
        return u**sigma / sigma
    return tau**sigma * np.expm1(sigma * np.log1p(u / tau)) / sigma


def psi(u, mass, sigma: float, tau: float):
    """Laplace exponent: the integral of (1 - exp(-u w)) rho(dw)."""
    return mass * psi1(u, sigma, tau)


def log_kappa(m: int, u, mass, sigma: float, tau: float):
    """Log of the integral of w^m exp(-u w) rho(dw)."""
    return np.log(mass) + gammaln(m - sigma) - gammaln(1 - sigma) - (m - sigma) * np.log(u + tau)


def log_eppf_given_u(sizes: Sequence[int], u, mass: float, sigma: float, tau: float):
    """log p(partition, u)"""
    n = sum(sizes)
    return (n - 1) * np.log(u) - gammaln(n) - psi(u, mass, sigma, tau) + sum(log_kappa(m, u, mass, sigma, tau) for m in sizes)


def log_eppf(sizes: Sequence[int], mass: float, sigma: float, tau: float) -> float:
    """log p(partition), u integrated out by quadrature."""
    x = np.arange(-60.0, 150.0, 0.05)
    return float(logsumexp(log_eppf_given_u(sizes, np.exp(x), mass, sigma, tau) + x) + math.log(0.05))


def log_crp(sizes: Sequence[int], mass: float) -> float:
    """log p(partition) of the Dirichlet process, in closed form."""
    n = sum(sizes)
    return float(len(sizes) * math.log(mass) + sum(gammaln(m) for m in sizes) + gammaln(mass) - gammaln(mass + n))


def log_pitman_yor(sizes: Sequence[int], theta: float, sigma: float) -> float:
    """log p(partition) of the Pitman-Yor process: clusters filled one after the other by its urn."""
    value, m = 0.0, 0
    for K, size in enumerate(sizes):
        for joined in range(size):
            if m > 0:
                value += math.log(theta + sigma * K if joined == 0 else joined - sigma) - math.log(theta + m)
            m += 1
    return value


def log_finite(sizes: Sequence[int], theta: float, M: int) -> float:
    """log p(partition) given labels of M components with Dirichlet weights, over all ways to name the clusters."""
    a, K, n = theta / M, len(sizes), sum(sizes)
    if K > M:
        return -math.inf
    named = gammaln(theta) - gammaln(theta + n) + sum(gammaln(m + a) - gammaln(a) for m in sizes)
    return float(named + gammaln(M + 1) - gammaln(M - K + 1))


def squared_exponential(x: np.ndarray, mu: np.ndarray, width: np.ndarray) -> np.ndarray:
    """K (G, P) of rows x (G, D) and mu (P, D)."""
    return np.exp(-0.5 * (((x[:, None, :] - mu) / width) ** 2).sum(axis=-1))


def box(x: np.ndarray, mu: np.ndarray, width: np.ndarray) -> np.ndarray:
    """1 where every covariate is within its width."""
    return (np.abs(x[:, None, :] - mu) < width).all(axis=-1).astype(float)


def mixture_weights(sizes: np.ndarray, mass: float, sigma: float, tau: float) -> np.ndarray:
    """Ratios of the EPPF with one observation more, u integrated out."""
    sizes = list(sizes)
    longer = [[*sizes[:k], sizes[k] + 1, *sizes[k + 1 :]] for k in range(len(sizes))] + [[*sizes, 1]]
    return np.exp([log_eppf(s, mass, sigma, tau) - log_eppf(sizes, mass, sigma, tau) for s in longer])


def factorial_coefficients(n: int, sigma: float) -> np.ndarray:
    """S(n, k), k = 0..n: sums over the partitions of n into k blocks of prod Gamma(n_c - sigma) / Gamma(1 - sigma)."""
    S = np.array([1.0])
    for m in range(n):
        # the next observation joins one of k blocks, with factors that sum to m - sigma k, or makes a new one
        S = np.append(S * (m - sigma * np.arange(m + 1)), 0.0) + np.insert(S, 0, 0.0)
    return S


def log_u_integral(n: int, k: int, sigma: float, log_moment) -> float:
    """log of the integral over u of u^(n-1) (u+1)^-(n - sigma k) M(psi1(u)), where M(s) = E[mass^k exp(-mass s)]."""
    x = np.arange(-60.0, 300.0, 0.02)
    return float(logsumexp([n * t - (n - sigma * k) * np.logaddexp(0.0, t) + log_moment(psi1(math.exp(t), sigma, 1.0)) for t in x])
                 + math.log(0.02))


def seat(K: np.ndarray, group: Sequence[int], mass: float, sigma: float, tau: float, rng: np.random.Generator) -> tuple[list, list]:
    """A partition from the prior and its locations: at each location b grows until an event there, and the earliest is the next row's."""
    P = K.shape[1]
    labels: list[int] = []
    location: list[int] = []

    def event(b: float, p: int) -> tuple[float, bool]:
        """The b of the next event after b, and whether it is a new atom."""
        gap = rng.standard_exponential() / (mass / P)  # of psi1 until a new atom
        new = b * math.exp(gap) if sigma == 0 else (b**sigma + sigma * gap) ** (1 / sigma)
        load = sum(labels.count(c) - sigma for c in range(len(location)) if location[c] == p)
        joined = b * math.exp(rng.standard_exponential() / load) if load > 0 else math.inf
        return min((new, True), (joined, False))

    A = np.zeros(P)
    events = [event(tau, p) for p in range(P)]
    for g in group:
        v, p = min(((events[p][0] - tau - A[p]) / K[g, p], p) for p in np.flatnonzero(K[g]))
        A += v * K[g]
        if events[p][1]:
            labels.append(len(location))
            location.append(int(p))
        else:
            here = [c for c in range(len(location)) if location[c] == p]
            steps = np.cumsum([labels.count(c) - sigma for c in here])
            labels.append(here[int(np.searchsorted(steps, rng.random() * steps[-1], side="right"))])
        events[p] = event(tau + A[p], p)
    return labels, location
