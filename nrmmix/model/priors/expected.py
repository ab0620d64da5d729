"""The number of clusters that a prior expects among the rows of a mixture, before they are seen."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import gammaln

from nrmmix.model.priors.hyperpriors import Beta, Hyperparameter, Hyperprior
from nrmmix.model.priors.n_clusters import beta_rule, mass_rule

NODES_OF_MASS, NODES_OF_SIGMA = 33, 16
COARSE = 0.1  # step where many values of mass and sigma are averaged: six digits are left


def mean_over(mass: Hyperparameter, sigma: Hyperparameter, given: Callable[[float, float], float]) -> float:
    """Average of what is expected given mass and sigma over their priors."""
    masses = mass_rule(mass, NODES_OF_MASS) if isinstance(mass, Hyperprior) else ([mass], [1.0])
    sigmas = beta_rule(sigma, NODES_OF_SIGMA) if isinstance(sigma, Beta) else ([sigma], [1.0])
    return float(sum(
        share * weight * given(float(theta), float(value))
        for value, share in zip(*sigmas, strict=True) for theta, weight in zip(*masses, strict=True) if share * weight > 1e-9
    ))


def expected_by_pitman_yor(n: int, mass: float, sigma: float) -> float:
    """E[K] for a Pitman-Yor process: (mass/sigma) ((mass + sigma)_n / (mass)_n - 1), where sigma > 0.

    Examples
    --------
    >>> round(expected_by_pitman_yor(3, 1.0, 0.5), 6)  # by the urn 1 + 1.5/2 + (1 + 0.5 * 1.75)/3
    2.375
    """
    if sigma == 0.0:
        return expected_clusters(n, mass, 0.0)
    log_ratio = gammaln(mass + sigma + n) - gammaln(mass + sigma) - gammaln(mass + n) + gammaln(mass + 1.0)
    return (math.exp(log_ratio) - mass) / sigma


def expected_of_finite(n: int, mass: float, components: int) -> float:
    """E[K] for symmetric Dirichlet weights: M (1 - (mass (1 - 1/M))_n / (mass)_n).

    Examples
    --------
    >>> expected_of_finite(2, 2.0, 2)  # uniform weights: one cluster with probability 2/3
    1.3333333333333333
    """
    if components == 1:
        return 1.0
    rest = mass * (1.0 - 1.0 / components)
    return -components * math.expm1(gammaln(rest + n) - gammaln(rest) - gammaln(mass + n) + gammaln(mass))


def expected_clusters(n: int, mass: float, sigma: float, step: float = 0.02) -> float:
    """Compute E[K] among n observations at tau = 1, for a normalised generalised gamma process.

    E[(1 - (1 - P)^n) / P], P the weight of the atom that an observation falls on: P = B u / (u + 1), where psi(u) has the exponential
    distribution with mean 1 and B is Beta(1 - sigma, sigma), or 1 at sigma = 0.  Trapezoids in log psi(u), and in t where logit B = sinh t,
    the latter in steps of so much.

    Examples
    --------
    >>> round(expected_clusters(3, 1.0, 0.0), 6)  # 1 + 1/2 + 1/3
    1.833333
    """
    y = np.arange(math.log(1e-17 / n), 4.0, 0.2)
    s = np.exp(y)
    weight = 0.2 * np.exp(y - s)
    growth = s / mass if sigma == 0.0 else np.log1p(sigma * s / mass) / sigma  # log(u + 1)
    share = -np.expm1(-growth)
    if sigma == 0.0:
        return float(weight @ (-np.expm1(-n * growth) / share))
    t = np.arange(-math.asinh((40.0 + math.log(n)) / (1.0 - sigma)), math.asinh(40.0 / sigma), step)
    log_b = -np.logaddexp(0.0, -np.sinh(t))
    beta = step * np.cosh(t) * np.exp((1.0 - sigma) * log_b - sigma * np.logaddexp(0.0, np.sinh(t))) * math.sin(math.pi * sigma) / math.pi
    p = np.maximum(np.multiply.outer(share, np.exp(log_b)), 1e-290)
    with np.errstate(divide="ignore"):  # p = 1
        return float(weight @ (-np.expm1(n * np.log1p(-p)) / p) @ beta)
