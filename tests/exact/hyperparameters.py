"""Posterior means of sampled hyperparameters, by enumeration and quadrature, and the models that have them."""

from __future__ import annotations

import math

import numpy as np
from exact.enumeration import LOG_U, dirichlet_log_eppf, gaussian_log_marginal, partition_posterior, psi1, urn_log_eppf
from scipy import stats
from scipy.special import gammaln

import nrmmix as nm


def observations(n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(100 * n + d)
    return np.concatenate([rng.normal(size=(n // 2, d)), 1.5 + 0.5 * rng.normal(size=(n - n // 2, d))])


def base(d: int) -> dict:
    scale = np.eye(d) + (0.3 if d > 1 else 0.0) * (np.ones((d, d)) - np.eye(d))
    return {"m": np.full(d, 0.5), "r": 0.3, "nu": d + 2.0, "scale": scale}


def hyper_posterior(X, family, mass_prior, sigma_prior):
    """Posterior means of mass, sigma and K by quadrature over mass, sigma and u and enumeration of partitions."""
    n = len(X)
    sizes_of = {}
    for labels, p in partition_posterior(n, lambda sizes: 0.0, lambda b: gaussian_log_marginal(X[b], **family)).items():
        key = tuple(sorted(np.bincount(labels)))
        sizes_of[key] = sizes_of.get(key, 0.0) + p  # likelihood summed over the partitions of these sizes
    z = np.linspace(-14, 6, 161)  # log mass
    if sigma_prior is None:
        sigmas, sigma_weight = np.zeros(1), np.ones(1)
    elif isinstance(sigma_prior, float):
        sigmas, sigma_weight = np.array([sigma_prior]), np.ones(1)
    else:
        node, weight = np.polynomial.legendre.leggauss(48)
        sigmas = 0.5 * (node + 1)
        sigma_weight = weight / 2 * sigma_prior.pdf(sigmas)
    u, mass = np.exp(LOG_U), np.exp(z)
    prior = mass_prior.pdf(mass) * mass
    powers = np.stack([prior * mass**k for k in range(n + 2)], axis=1)
    total = np.zeros(4)
    for sigma, w in zip(sigmas, sigma_weight, strict=True):
        over_mass = np.exp(-np.outer(psi1(u, sigma), mass)) @ powers  # integrals of mass^k times what u leaves of it, at each u
        for sizes, likelihood in sizes_of.items():
            K, s = len(sizes), np.array(sizes)
            f = np.exp(n * LOG_U - (n - sigma * K) * np.log1p(u) + (gammaln(s - sigma) - gammaln(1 - sigma)).sum())
            m0, m1 = f @ over_mass[:, K], f @ over_mass[:, K + 1]
            total += w * likelihood * np.array([m0, m1, sigma * m0, K * m0])
    return total[1:] / total[0]


HYPER = {
    "DP": (nm.DirichletProcess(nm.Gamma(2, 1)), stats.gamma(2), None),
    "DP-lognormal": (nm.DirichletProcess(nm.LogNormal(0.2, 0.7)), stats.lognorm(0.7, scale=math.exp(0.2)), None),
    "NGGP": (nm.NGGP(nm.Gamma(2, 1), nm.Beta(1, 2)), stats.gamma(2), stats.beta(1, 2)),
    "NGGP-lognormal": (nm.NGGP(nm.LogNormal(0.2, 0.7), nm.Beta(2, 2)), stats.lognorm(0.7, scale=math.exp(0.2)), stats.beta(2, 2)),
    "NIG": (nm.NormalizedInverseGaussian(nm.Gamma(2, 1)), stats.gamma(2), 0.5),
}


GAMMA, LOGNORMAL = stats.gamma(2), stats.lognorm(0.7, scale=math.exp(0.2))
HYPER_OF_PARTITIONS = {  # prior, distributions of mass and sigma or their values, log probability of a partition
    "PY": (nm.PitmanYor(nm.Gamma(2, 1), nm.Beta(1, 2)), GAMMA, stats.beta(1, 2), urn_log_eppf),
    "PY-lognormal": (nm.PitmanYor(nm.LogNormal(0.2, 0.7), 0.3), LOGNORMAL, 0.3, urn_log_eppf),
    "PY-sigma": (nm.PitmanYor(0.0, nm.Beta(2, 2)), 0.0, stats.beta(2, 2), urn_log_eppf),
    "stable": (nm.NormalizedStable(nm.Beta(1, 2)), 0.0, stats.beta(1, 2), urn_log_eppf),
    "finite": (nm.FiniteMixture(4, nm.Gamma(2, 1)), GAMMA, 0.0, lambda s, mass, _: dirichlet_log_eppf(s, 4, mass)),
    "finite-lognormal": (nm.FiniteMixture(9, nm.LogNormal(0.2, 0.7)), LOGNORMAL, 0.0, lambda s, mass, _: dirichlet_log_eppf(s, 9, mass)),
}


def mass_nodes(mass, size=100):  # means of the posterior are the same to 1e-9 with twice as many
    if isinstance(mass, float):
        return [(mass, 1.0)]
    z = np.linspace(-14, 5, size)
    return list(zip(np.exp(z), mass.pdf(np.exp(z)) * np.exp(z) * (z[1] - z[0]), strict=True))


def sigma_nodes(sigma, size=20):
    if isinstance(sigma, float):
        return [(sigma, 1.0)]
    node, weight = np.polynomial.legendre.leggauss(size)
    return list(zip(0.5 * (node + 1), 0.5 * weight * sigma.pdf(0.5 * (node + 1)), strict=True))
