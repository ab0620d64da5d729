"""Pitman-Yor, normalised stable and finite measures with their laws of partitions and locations, written down from definitions."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pandas as pd
from exact.enumeration import (
    KernelJoint,
    dirichlet_log_eppf,
    gaussian_log_marginal,
    nrm_log_eppf,
    total_variation,
    urn_log_eppf,
)
from scipy.special import gammaln, logsumexp
from support.length import coarser

import nrmmix as nm

FAMILY = {"m": np.array([0.0]), "r": 0.4, "nu": 3.0, "scale": np.array([[0.6]])}
Y = np.array([-0.6, 0.5, 0.7, -1.2, 1.4, 0.1, -2.0])
POINTS = np.array([-1.0, 0.3, 2.5])


def log_marginal(block, y=Y):
    return log_marginal_of(*np.asarray(y)[block].tolist())


@cache
def log_marginal_of(*values):
    return gaussian_log_marginal(np.array(values)[:, None], **FAMILY)


def clusters_of(labels):
    return [[i for i in range(len(labels)) if labels[i] == c] for c in range(max(labels) + 1)]


PRIORS = {
    "PY-0.2": (nm.PitmanYor(1.0, 0.2), lambda s: urn_log_eppf(s, 1.0, 0.2)),
    "PY-0.6": (nm.PitmanYor(0.7, 0.6), lambda s: urn_log_eppf(s, 0.7, 0.6)),
    "PY-negative": (nm.PitmanYor(-0.15, 0.3), lambda s: urn_log_eppf(s, -0.15, 0.3)),
    "PY-zero": (nm.PitmanYor(0.0, 0.4), lambda s: urn_log_eppf(s, 0.0, 0.4)),
    "PY-Dirichlet": (nm.PitmanYor(1.3, 0.0), lambda s: nrm_log_eppf(s, 1.3, 0.0)),
    "stable": (nm.NormalizedStable(0.4), lambda s: urn_log_eppf(s, 0.0, 0.4)),
    "finite-1": (nm.FiniteMixture(1), lambda s: dirichlet_log_eppf(s, 1, 1.0)),
    "finite-2": (nm.FiniteMixture(2), lambda s: dirichlet_log_eppf(s, 2, 1.0)),
    "finite-4": (nm.FiniteMixture(4, 6.0), lambda s: dirichlet_log_eppf(s, 4, 6.0)),
    "finite-9": (nm.FiniteMixture(9, 0.8), lambda s: dirichlet_log_eppf(s, 9, 0.8)),
    "NGGP-0": (nm.NGGP(1.3, 0.0), lambda s: nrm_log_eppf(s, 1.3, 0.0)),  # u in the state, of which the Dirichlet process has none
    "PY-as-NGGP": (nm.NGGP(nm.Gamma(1.0 / 0.4, 1 / 0.4), 0.4), lambda s: urn_log_eppf(s, 1.0, 0.4)),
}


def possible(posterior):
    """Without partitions of probability 0, which a sampler must never visit."""
    return {state: p for state, p in posterior.items() if p > 0}


def mixture(prior, n=6):
    return nm.Model(data=Y[:n, None], prior=prior, family=nm.Gaussian(**FAMILY))


class StableJoint(KernelJoint):
    """tau = 0 and mass = sigma."""

    def __init__(self, K, group, sigma, **grid):
        super().__init__(K, group, sigma, sigma, **grid)
        A = [sum(self.v[g] * K[g, p] for g in range(len(K))) for p in range(K.shape[1])]
        self.log_b = [np.log(a) for a in A]
        self.total = sum(self.R0[p] * A[p] ** sigma / sigma for p in range(K.shape[1]))


class FiniteJoint:
    """M atoms with sizes Gamma(mass / M, 1) integrated out: all assignments of the rows to atoms, and all locations of all atoms."""

    def __init__(self, K, group, M, mass, points=161, lo=-30.0, hi=50.0):
        self.K, self.group, self.M, self.a = K, list(group), M, mass / M
        axis = np.linspace(lo, hi, points)
        log_v = np.meshgrid(*([axis] * len(K)), indexing="ij")
        n_g = np.bincount(self.group, minlength=len(K))
        self.base = sum(n_g[g] * log_v[g] - gammaln(n_g[g]) for g in range(len(K))) + len(K) * math.log(axis[1] - axis[0])
        self.log_b = [np.log1p(sum(np.exp(log_v[g]) * K[g, p] for g in range(len(K)))) for p in range(K.shape[1])]
        self._cache = {}

    def log_integral(self, atoms):
        """Over V, of a sorted tuple (size, location) of all atoms."""
        if atoms not in self._cache:
            f = self.base
            for size, p in atoms:
                f = f + gammaln(size + self.a) - gammaln(self.a) - (size + self.a) * self.log_b[p]
            self._cache[atoms] = logsumexp(f)
        return self._cache[atoms]

    def posterior(self, log_likelihood):
        """Of (labels, location of each observation)."""
        n, P = len(self.group), self.K.shape[1]
        logs = {}
        for z in itertools.product(range(self.M), repeat=n):
            number = {}
            labels = tuple(number.setdefault(m, len(number)) for m in z)
            sizes = np.bincount(z, minlength=self.M)
            for mu in itertools.product(range(P), repeat=self.M):
                reach = [self.K[self.group[i], mu[z[i]]] for i in range(n)]
                if min(reach) > 0:
                    log_p = self.log_integral(tuple(sorted(zip(sizes.tolist(), mu, strict=True)))) - self.M * math.log(P)
                    logs.setdefault(labels + tuple(mu[m] for m in z), []).append(log_p + np.log(reach).sum())
        summed = {state: logsumexp(values) + sum(map(log_likelihood, clusters_of(state[:n]))) for state, values in logs.items()}
        return summed


DESIGNS = {
    "se": ([0.0, 0.0, 1.0, 1.0], [0.0, 1.0], nm.SquaredExponential(0.7, locations=[0.0, 1.0])),
    "box": ([0.0, 0.0, 1.0, 1.0], [-0.5, 0.5, 1.5], nm.Box(0.8, locations=[-0.5, 0.5, 1.5])),
}


def kernel_matrix(kernel, groups, locations):
    d = np.abs(np.subtract.outer(groups, locations))
    width = kernel.widths[0]
    return (d < width).astype(float) if isinstance(kernel, nm.Box) else np.exp(-(d**2) / (2 * width**2))


def setting(design, designs=DESIGNS):
    """Data, K (G, P), the group of each observation and the kernel of one of `designs`."""
    x, locations, kernel = designs[design]
    groups, group = np.unique(x, return_inverse=True)
    return pd.DataFrame({"x": x, "y": Y[: len(x)]}), kernel_matrix(kernel, groups, locations), group, kernel


def regression(data, kernel, prior):
    return nm.Model("y ~ x", data, kernel=kernel, prior=prior, family=nm.Gaussian(**FAMILY))


def nggp(sigma):
    return nm.DirichletProcess(1.3) if sigma == 0 else nm.NGGP(1.3, sigma)


def compare(fit, exact, limit_at_most=0.07):
    distance, limit = total_variation(exact, states(fit), deviations=6.0)  # errors of states go together
    assert limit < coarser(limit_at_most), "too few draws to tell"
    assert distance < limit


def states(fit):
    return np.concatenate([fit.draws["labels"], fit.draws["locations"]], axis=-1)


def of_measure(K, group, **grid):
    """Each measure with the law that it should have, as log weights of (labels, locations)."""
    sigma = 0.4

    def pairs(joint):
        return {labels + tuple(where[c] for c in labels): joint.log_joint(labels, where) for labels, where in joint.states()}

    return {
        "PY": (nm.PitmanYor(0.9, sigma), lambda: pairs(KernelJoint(K, group, (0.9 / sigma, 1 / sigma), sigma, **grid))),
        "PY-Dirichlet": (nm.PitmanYor(1.3, 0.0), lambda: pairs(KernelJoint(K, group, 1.3, 0.0, **grid))),
        "stable": (nm.NormalizedStable(sigma), lambda: pairs(StableJoint(K, group, sigma, **grid))),
        "finite-2": (nm.FiniteMixture(2, 1.5), lambda: FiniteJoint(K, group, 2, 1.5, **grid).posterior(lambda block: 0.0)),
        "finite-3": (nm.FiniteMixture(3, 0.9), lambda: FiniteJoint(K, group, 3, 0.9, **grid).posterior(lambda block: 0.0)),
    }


MEASURES = tuple(of_measure(np.ones((2, 1)), [0, 1]))
SPREAD = {"stable": {"points": 281, "lo": -70.0, "hi": 70.0}}  # of V: without tilt its tails are those of powers


def with_likelihood(law, n, y=Y):
    return {s: value + sum(log_marginal(b, y) for b in clusters_of(s[:n])) for s, value in law.items()}
