"""Draws from the prior: hyperparameters, partition, auxiliary variables, data.  Plain NumPy, exact, nothing of the package's samplers.

The random measure is a sum over locations p of independent generalized gamma measures with the Levy intensity
a R0(p) / Gamma(1 - sigma) w^(-1 - sigma) e^(-w), tau = 1.  A mixture has one location and K = 1.

1. T_p, the total mass at p, has the Laplace transform exp(-a R0(p) ((1 + s)^sigma - 1) / sigma): an exponentially tilted stable law,
   at sigma = 0 a gamma law.
2. Observation i falls on location p with probability proportional to K(x_i, p) T_p; v_g ~ Gamma(n_g, rate sum_p K(x_g, p) T_p).
3. Given v and the n_p observations at p, with T_p integrated out, the partition at p has probability proportional to
   prod_c a R0(p) Gamma(n_c - sigma) / Gamma(1 - sigma) (1 + A_p)^(sigma - n_c), A_p = sum_g v_g K(x_g, p).
   So k clusters have a probability proportional to (a R0(p) (1 + A_p)^sigma)^k S(n_p, k), where S(n, k), the sum of
   prod_c Gamma(n_c - sigma) / Gamma(1 - sigma) over partitions into k, obeys S(n + 1, k) = S(n, k - 1) + (n - sigma k) S(n, k).
   At sigma = 0 these are the Stirling numbers of the Chinese restaurant process.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import nrmmix as nm


class State(NamedTuple):
    """What a posterior draw holds, true or sampled."""

    labels: np.ndarray  # (n,) by first appearance
    location: np.ndarray  # (n,) of the cluster of each observation
    v: np.ndarray  # (G,)
    mass: float
    sigma: float
    width: float  # infinite in a mixture
    A: np.ndarray | None = None  # (P,) of draws of density regression, which do not keep v
    scale: np.ndarray | None = None  # (d,) where it is sampled


class Base(NamedTuple):
    """Normal-Wishart prior of the components: Lambda ~ Wishart(nu, scale^-1), mean | Lambda ~ N(m, (r Lambda)^-1)."""

    m: np.ndarray
    r: float
    nu: float
    scale: np.ndarray


def hyperparameter(value: Any, rng: np.random.Generator) -> float:
    """A number, or a draw from its prior."""
    if isinstance(value, nm.Gamma):
        return rng.gamma(value.shape, 1.0 / value.rate)
    if isinstance(value, nm.Beta):
        return rng.beta(value.a, value.b)
    if isinstance(value, nm.LogNormal):
        return rng.lognormal(value.mu, value.sd)
    return float(value)


def kernel(x: np.ndarray, places: np.ndarray, width: float) -> np.ndarray:
    """Squared exponential K (points, P); 1 at infinite width."""
    return np.exp(-0.5 * ((np.asarray(x)[:, None] - places) / width) ** 2)


def total_mass(mass: float, sigma: float, rng: np.random.Generator) -> float:
    """T of a generalized gamma measure, tau = 1: a sum of stable variables (Kanter 1975), each kept with probability e^-S."""
    if sigma == 0.0:
        return rng.gamma(mass)
    c = mass / sigma
    pieces = max(1, round(c))  # so that each is kept with a probability of about e^-1 at least
    total, wanted = 0.0, pieces
    while wanted:
        angle, e = rng.uniform(0.0, np.pi, wanted), rng.exponential(size=wanted)
        stable = np.sin(sigma * angle) / np.sin(angle) ** (1.0 / sigma) * (np.sin((1.0 - sigma) * angle) / e) ** ((1.0 - sigma) / sigma)
        piece = (c / pieces) ** (1.0 / sigma) * stable
        piece = piece[rng.random(wanted) < np.exp(-piece)]
        total, wanted = total + piece.sum(), wanted - len(piece)
    return total


def log_numbers(n: int, sigma: float) -> np.ndarray:
    """log S(m, k) for m, k = 0..n."""
    table = np.full((n + 1, n + 1), -np.inf)
    table[0, 0] = 0.0
    for m in range(n):
        k = np.arange(1, m + 2)
        stay = np.log(np.maximum(m - sigma * k, 1e-300))
        table[m + 1, k] = np.logaddexp(table[m, k - 1], table[m, k] + stay)
    return table


def partition(n: int, log_weight: float, log_S: np.ndarray, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """Labels of n observations; each cluster has the weight exp(log_weight) Gamma(size - sigma) / Gamma(1 - sigma)."""
    log_p = np.arange(1, n + 1) * log_weight + log_S[n, 1 : n + 1]
    k = 1 + int((log_p + rng.gumbel(size=n)).argmax())
    opens = np.zeros(n, bool)  # who begins a cluster, found from the last observation back
    for m in range(n, 0, -1):
        opens[m - 1] = rng.random() < np.exp(log_S[m - 1, k - 1] - log_S[m, k])
        k -= opens[m - 1]
    labels, sizes = np.zeros(n, int), []
    for i in range(n):
        if opens[i]:
            labels[i] = len(sizes)
            sizes.append(1.0 - sigma)
        else:
            sums = np.cumsum(sizes)
            labels[i] = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
            sizes[labels[i]] += 1.0
    return labels


def measure(mass: float, sigma: float, K: np.ndarray, group: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Labels and location of each observation, and v; K (G, P) of groups and locations, group (n,)."""
    G, P = K.shape
    n = len(group)
    rate = K * [total_mass(mass / P, sigma, rng) for _ in range(P)]
    sums = np.cumsum(rate, axis=1)
    location = (rng.random(n)[:, None] * sums[group, -1:] >= sums[group]).sum(axis=1)
    v = rng.gamma(np.bincount(group, minlength=G)) / sums[:, -1]
    A = v @ K
    log_S = log_numbers(np.bincount(location).max(), sigma)
    labels, seen = np.zeros(n, int), 0
    for p in np.unique(location):
        here = np.flatnonzero(location == p)
        labels[here] = seen + partition(len(here), np.log(mass / P) + sigma * np.log1p(A[p]), log_S, sigma, rng)
        seen = labels[here].max() + 1
    return by_appearance(labels), location, v


def by_appearance(labels: np.ndarray) -> np.ndarray:
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def responses(labels: np.ndarray, base: Base, rng: np.random.Generator) -> np.ndarray:
    """Data (n, d): for each cluster a precision by Bartlett's decomposition and a mean, for each observation a normal draw."""
    d = len(base.m)
    root = np.linalg.cholesky(np.linalg.inv(base.scale))
    y = np.empty((len(labels), d))
    for c in range(labels.max() + 1):
        bartlett = np.tril(rng.standard_normal((d, d)), -1) + np.diag(np.sqrt(rng.chisquare(base.nu - np.arange(d))))
        to_normal = np.linalg.inv(root @ bartlett)  # z @ to_normal has the covariance Lambda^-1
        mean = base.m + rng.standard_normal(d) @ to_normal / np.sqrt(base.r)
        own = labels == c
        y[own] = mean + rng.standard_normal((own.sum(), d)) @ to_normal
    return y
