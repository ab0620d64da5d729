"""A prior from outside the package: the mixture of finite mixtures (Miller & Harrison 2018)."""

from __future__ import annotations

import math

import numpy as np
from exact.enumeration import gaussian_log_marginal
from scipy import stats
from scipy.special import gammaln, logsumexp

import nrmmix as nm

FAMILY = {"m": np.array([0.0]), "r": 0.4, "nu": 3.0, "scale": np.array([[0.6]])}
Y = np.array([-0.6, 0.5, 0.7, -1.2, 1.4, 0.1])


class Mixtures(nm.GibbsType):
    """k - 1 components ~ Poisson(rate), weights ~ Dirichlet(gamma, ..., gamma)."""

    title = "mixture of finite mixtures"

    def __init__(self, gamma, rate=1.0):
        super().__init__(sigma=-gamma)
        self.gamma, self.rate = gamma, rate
        self._k = np.arange(1, 200.0)
        self._log_p = stats.poisson.logpmf(self._k - 1, rate)

    def log_terms(self, n, t):
        """log of k (k - 1) ... (k - t + 1) / (gamma k)^(n) p(k) over k."""
        k = np.maximum(self._k, t)  # others have no term
        terms = gammaln(k + 1) - gammaln(k - t + 1) + gammaln(self.gamma * k) - gammaln(self.gamma * k + n) + self._log_p
        return np.where(self._k >= t, terms, -np.inf)

    def log_v(self, n):
        """With gamma^t, which the clusters' factors gamma (gamma + 1) ... (gamma + n_c - 1) have and (1 + gamma) ... have not."""
        return np.array([0.0] + [logsumexp(self.log_terms(n, t)) + t * math.log(self.gamma) for t in range(1, n + 1)])


def log_eppf(sizes, gamma=0.7, rate=1.0):
    """Over the number of components, and the ways to name the clusters; weights integrated out."""
    s, t = np.array(sizes), len(sizes)
    terms = []
    for k in range(t, 60):
        of_weights = gammaln(k * gamma) - gammaln(k * gamma + s.sum()) + (gammaln(s + gamma) - gammaln(gamma)).sum()
        terms.append(stats.poisson.logpmf(k - 1, rate) + gammaln(k + 1) - gammaln(k - t + 1) + of_weights)
    return float(logsumexp(terms))


def log_marginal(block):
    return gaussian_log_marginal(Y[block][:, None], **FAMILY)
