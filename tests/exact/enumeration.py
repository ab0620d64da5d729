"""Exact posteriors by enumeration and quadrature, and the distance of sampled frequencies from them.

Nothing here uses the package: only the mathematics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np
from scipy.special import gammaln, multigammaln


def partitions(n: int) -> Iterator[tuple[int, ...]]:
    """Label vectors of all partitions of n observations, numbered by first appearance."""

    def extend(labels: tuple[int, ...], k: int) -> Iterator[tuple[int, ...]]:
        if len(labels) == n:
            yield labels
            return
        for c in range(k + 1):
            yield from extend((*labels, c), max(k, c + 1))

    yield from extend((), 0)


def gaussian_log_marginal(X: np.ndarray, m: np.ndarray, r: float, nu: float, scale: np.ndarray) -> float:
    """log p(X) under Lambda ~ Wishart(nu, scale^-1), mu | Lambda ~ N(m, (r Lambda)^-1)."""
    n, d = X.shape
    mean = X.mean(axis=0)
    scatter = (X - mean).T @ (X - mean)
    psi = scale + scatter + r * n / (r + n) * np.outer(mean - m, mean - m)
    log_det = np.linalg.slogdet(scale)[1], np.linalg.slogdet(psi)[1]
    return float(
        -n * d / 2 * math.log(math.pi)
        + multigammaln((nu + n) / 2, d)
        - multigammaln(nu / 2, d)
        + nu / 2 * log_det[0]
        - (nu + n) / 2 * log_det[1]
        + d / 2 * math.log(r / (r + n))
    )


def psi1(A: np.ndarray, sigma: float, tau: float = 1.0) -> np.ndarray:
    return np.log1p(A / tau) if sigma == 0 else ((A + tau) ** sigma - tau**sigma) / sigma


LOG_U = np.linspace(-45.0, 80.0, 1251)  # integrands are analytic: the error of the trapezoid falls exponentially in the step


def nrm_log_eppf(sizes: Sequence[int], mass: float, sigma: float, tau: float = 1.0) -> float:
    """log p(partition), u integrated out by the trapezoid in log u."""
    n, K = sum(sizes), len(sizes)
    u = np.exp(LOG_U)
    f = n * LOG_U - (n - sigma * K) * np.log(u + tau) - mass * psi1(u, sigma, tau)
    top = f.max()
    integral = top + math.log(np.exp(f - top).sum() * (LOG_U[1] - LOG_U[0]))
    s = np.array(sizes)
    return float(K * math.log(mass) + (gammaln(s - sigma) - gammaln(1 - sigma)).sum() - gammaln(n) + integral)


def urn_log_eppf(sizes: Sequence[int], mass: float, sigma: float) -> float:
    """Clusters filled one after the other by the urn of the Pitman-Yor process."""
    log_p, m, K = 0.0, 0, 0
    for size in sizes:
        for joined in range(size):
            if m > 0:
                log_p += math.log(mass + sigma * K if joined == 0 else joined - sigma) - math.log(mass + m)
            m += 1
        K += 1
    return log_p


def dirichlet_log_eppf(sizes: Sequence[int], M: int, mass: float) -> float:
    """Labels of M components given Dirichlet weights, integrated out; all ways to name the clusters."""
    K, a = len(sizes), mass / M
    if K > M:
        return -math.inf
    s = np.array(sizes)
    return float(gammaln(mass) - gammaln(mass + s.sum()) + (gammaln(s + a) - gammaln(a)).sum() + gammaln(M + 1) - gammaln(M - K + 1))


def partition_posterior(
    n: int, log_eppf: Callable[[tuple[int, ...]], float], log_marginal: Callable[[list[int]], float]
) -> dict[tuple[int, ...], float]:
    """Posterior probability of every partition."""
    marginals: dict[tuple[int, ...], float] = {}
    eppf: dict[tuple[int, ...], float] = {}
    states, logs = [], []
    for labels in partitions(n):
        blocks = [tuple(i for i in range(n) if labels[i] == c) for c in range(max(labels) + 1)]
        for b in blocks:
            if b not in marginals:
                marginals[b] = log_marginal(list(b))
        sizes = tuple(sorted(len(b) for b in blocks))
        if sizes not in eppf:
            eppf[sizes] = log_eppf(sizes)
        states.append(labels)
        logs.append(eppf[sizes] + sum(marginals[b] for b in blocks))
    return normalised(states, logs)


def normalised(states: Sequence[Hashable], logs: Sequence[float]) -> dict:
    weights = np.exp(np.array(logs) - max(logs))
    return dict(zip(states, weights / weights.sum(), strict=True))


def frequencies(posterior: dict, draws: np.ndarray) -> np.ndarray:
    """Frequencies (chains, states) of draws (chains, draws, columns); rows must be states of the posterior."""
    index = {state: j for j, state in enumerate(posterior)}
    counts = np.zeros((draws.shape[0], len(index)))
    base = int(draws.max()) + 1
    digits = base ** np.arange(draws.shape[2])  # rows as numbers: NumPy sorts those faster
    for c, chain in enumerate(draws.astype(np.int64)):
        numbers, times = np.unique(chain @ digits, return_counts=True)
        for number, count in zip(numbers.tolist(), times, strict=True):
            counts[c, index[tuple(number // base**j % base for j in range(len(digits)))]] += count
    return counts / draws.shape[1]


def total_variation(posterior: dict, draws: np.ndarray, deviations: float = 4.0) -> tuple[float, float]:
    """Total variation of the sampled frequencies, and the largest that Monte Carlo error explains.

    The error of each frequency is estimated between chains.  For a right sampler the distance is half a sum of absolute normal
    errors; the limit is its mean plus so many standard deviations.
    """
    p = np.array(list(posterior.values()))
    by_chain = frequencies(posterior, draws)
    error = by_chain.std(axis=0, ddof=1) / math.sqrt(len(by_chain))
    distance = 0.5 * float(np.abs(by_chain.mean(axis=0) - p).sum())
    mean = 0.5 * math.sqrt(2 / math.pi) * float(error.sum())
    sd = 0.5 * math.sqrt(1 - 2 / math.pi) * float(np.sqrt((error**2).sum()))
    return distance, mean + deviations * sd


def z_score(draws: np.ndarray, truth: float) -> float:
    """(mean of draws (chains, draws) - truth) / standard error between chains."""
    means = draws.mean(axis=1)
    return float((means.mean() - truth) / (means.std(ddof=1) / math.sqrt(len(means))))


class KernelJoint:
    """Joint of a kernel-weighted measure, V integrated out on a grid in log V.

    K (G, P); group (n,) of each observation; alpha fixed, or a pair (a0, b0) of a gamma prior integrated out; R0 (P,), else uniform.
    """

    def __init__(self, K: np.ndarray, group: Sequence[int], alpha: float | tuple[float, float], sigma: float, points: int = 201,
                 lo: float = -30.0, hi: float = 50.0, R0: np.ndarray | None = None):
        self.K, self.group, self.alpha, self.sigma = K, list(group), alpha, sigma
        G, P = K.shape
        self.R0 = np.full(P, 1.0 / P) if R0 is None else np.asarray(R0) / np.sum(R0)
        self.n_g = np.bincount(self.group, minlength=G)
        axis = np.linspace(lo, hi, points)
        self.cell = (axis[1] - axis[0]) ** G
        log_v = np.meshgrid(*([axis] * G), indexing="ij")
        self.v = [np.exp(x) for x in log_v]
        A = [sum(self.v[g] * K[g, p] for g in range(G)) for p in range(P)]
        self.log_b = [np.log1p(a) for a in A]
        self.total = sum(self.R0[p] * psi1(A[p], sigma) for p in range(P))
        self.base = sum(self.n_g[g] * log_v[g] - gammaln(self.n_g[g]) for g in range(G))
        self.integrals: dict[tuple[tuple[int, int], ...], float] = {}

    def log_integrand(self, labels: Sequence[int], locations: Sequence[int]) -> np.ndarray:
        K = max(labels) + 1
        sizes = np.bincount(labels)
        if isinstance(self.alpha, tuple):
            a0, b0 = self.alpha
            value = self.base + a0 * math.log(b0) + gammaln(a0 + K) - gammaln(a0) - (a0 + K) * np.log(b0 + self.total)
        else:
            value = self.base + K * math.log(self.alpha) - self.alpha * self.total
        for m in range(K):
            p = locations[m]
            value = value + math.log(self.R0[p]) + gammaln(sizes[m] - self.sigma) - gammaln(1 - self.sigma)
            value = value - (sizes[m] - self.sigma) * self.log_b[p]
        return value + self.log_reach(labels, locations)

    def log_reach(self, labels: Sequence[int], locations: Sequence[int]) -> float:
        """Of the observations from the locations of their clusters."""
        return sum(math.log(self.K[self.group[i], locations[labels[i]]]) for i in range(len(labels)))

    def reachable(self, labels: Sequence[int], locations: Sequence[int]) -> bool:
        return all(self.K[self.group[i], locations[labels[i]]] > 0 for i in range(len(labels)))

    def states(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        for labels in partitions(len(self.group)):
            for locations in np.ndindex(*([self.K.shape[1]] * (max(labels) + 1))):
                if self.reachable(labels, locations):
                    yield labels, locations

    def log_joint(self, labels: Sequence[int], locations: Sequence[int]) -> float:
        """The integral depends on how many observations are at which locations; what they are worth there is a factor before it."""
        reach = self.log_reach(labels, locations)
        clusters = tuple(sorted(zip(np.bincount(labels).tolist(), locations, strict=True)))
        if clusters not in self.integrals:
            f = self.log_integrand(labels, locations) - reach
            top = f.max()
            self.integrals[clusters] = float(top + math.log(np.exp(f - top).sum() * self.cell))
        return self.integrals[clusters] + reach


def location_posterior(joint: KernelJoint, log_marginal: Callable[[list[int]], float]) -> dict[tuple[int, ...], float]:
    """Posterior of (labels, location of each observation), as one tuple."""
    states, logs = [], []
    for labels, locations in joint.states():
        blocks = [[i for i in range(len(labels)) if labels[i] == c] for c in range(max(labels) + 1)]
        states.append(labels + tuple(locations[c] for c in labels))
        logs.append(joint.log_joint(labels, locations) + sum(log_marginal(b) for b in blocks))
    return normalised(states, logs)
