"""The factors of a variational posterior of a kernel-weighted measure.

q(z) q(v) q(pi, mass) q(phi) q(codes): a row i is of component m with probability r_im, V_i ~ Exp(1 / v_i), weights and mass have the best
law given the expected counts N_m and rates A_m = sum_i v_i K_m(x_i), parameters phi_m the posterior law given N_m and expected statistics,
and every component one code for each covariate, with the chances of the codes integrated out.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import logsumexp

from nrmmix.model.families.exponential import Features, Stacked
from nrmmix.model.priors.binned import Binned
from nrmmix.model.priors.gamma_weights import GammaWeights
from nrmmix.model.priors.hyperpriors import Hyperparameter
from nrmmix.model.specification import Specification
from nrmmix.posterior.draws import Posterior
from nrmmix.posterior.factors import FactorPosterior, component_clusters, most_probable

MIN_WEIGHT = 1e-250  # of a weight


class KernelFactors:
    """The best q(pi, mass) q(phi) given expected counts N (M,), statistics s (M, S), rates A (M,) and codes (M, q).

    Attributes
    ----------
    eta, const : ndarray, (M, S) and (M,)
        E log pi_m + E log p(y | phi_m) = const_m + eta_m'T(y) + log h(y).
    log_weight : ndarray, (M,)
        log E pi_m.
    weights : GammaWeights
    """

    def __init__(
        self, binned: Binned, exponential: Stacked, mass: Hyperparameter, N: np.ndarray, s: np.ndarray, A: np.ndarray, codes: np.ndarray
    ):
        self.binned, self.exponential, self.mass = binned, exponential, mass
        self.N, self.s, self.A, self.codes = np.maximum(N, 0.0), s, A, codes
        self.weights = GammaWeights(mass, self.N, A)
        self.eta, a = exponential.expectations(self.N, s)
        self.const = self.weights.expected_log - a
        self.log_weight = np.log(np.maximum(self.weights.expected, MIN_WEIGHT))

    @property
    def n_components(self) -> int:
        return len(self.N)

    @property
    def share(self) -> float:
        """E mass / M, what the prior adds to each count."""
        return self.weights.expected_mass / len(self.N)

    @cached_property
    def log_k(self) -> np.ndarray:
        """(q, B, M)"""
        return np.ascontiguousarray(self.binned.log_tables(self.codes))

    @property
    def log_evidence(self) -> float:
        """The bound but for what rows have of their own: entropies, log v, log kernels and log h."""
        of_components = self.exponential.log_z(self.N, self.s).sum() + self.exponential.log_prior
        return float(of_components + self.weights.log_evidence + self.binned.log_prior(self.codes))

    def moved(self, codes: np.ndarray, shift: np.ndarray) -> KernelFactors:
        """Return factors with other codes, weights times exp(shift) (M,): rows are to be visited, after which rates are what they say."""
        made = copy(self)
        made.codes, made.const, made.log_weight = codes, self.const + shift, self.log_weight + shift
        made.__dict__.pop("log_k", None)
        return made

    def times(self, factor: float) -> KernelFactors:
        """Those of the same components where every row is there so many times."""
        return KernelFactors(self.binned, self.exponential, self.mass, factor * self.N, factor * self.s, factor * self.A, self.codes)

    def without(self, those: np.ndarray) -> KernelFactors:
        """Return factors without components that no row is of any more: rows are to be visited at it."""
        made = copy(self)
        made.const = self.const.copy()
        made.const[those] = -np.inf
        return made

    def largest_first(self) -> KernelFactors:
        """Return the factors, components in the order of their counts."""
        order = np.argsort(-self.N, kind="stable")
        return KernelFactors(self.binned, self.exponential, self.mass, self.N[order], self.s[order], self.A[order], self.codes[order])

    def log_kernels(self, bins: np.ndarray) -> np.ndarray:
        """(n, M) of rows in bins (n, q)."""
        out = np.zeros((len(bins), self.n_components))
        for j, table in enumerate(self.log_k):
            out += table[bins[:, j]]
        return out

    def probabilities(self, features: Features, bins: np.ndarray) -> np.ndarray:
        """(M, b) of the components of rows with such statistics in bins (b, q)."""
        score = features.scores(self.eta).T + self.const + self.log_kernels(bins)
        return np.exp(score - logsumexp(score, axis=1, keepdims=True)).T


class KernelFactorPosterior(NamedTuple):
    """Posterior of a variational density regression for predictions: the counterpart of `nrmmix.posterior.draws.Posterior`."""

    specification: Specification
    fits: tuple[KernelFactors, ...]  # of the starts
    weights: np.ndarray  # (starts,)
    rows: Any  # those that were fitted, with their bins
    seed: int
    draws: int = 1  # of the random measure, for bands

    @property
    def best(self) -> int:
        """The start of the largest weight, of these the first."""
        return int(np.argmax(self.weights))

    @property
    def factors(self) -> KernelFactors:
        """Those of that start."""
        return self.fits[self.best]

    def blocks(self, start: int | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        """Blocks of the fitted rows, and the probabilities (M, b) of the components of a start there, by default the best."""
        return self.probabilities(self.rows, start)

    def probabilities(self, rows: Any, start: int | None = None) -> Iterator[tuple[slice, np.ndarray]]:
        """Return the probabilities of the components for any rows, with their bins."""
        factors = self.fits[self.best if start is None else start]
        for first, last, features, bins in rows.blocks():
            yield slice(first, last), factors.probabilities(features, bins)

    def component_clusters(self) -> np.ndarray:
        """(M,) of each component of the best start the cluster that it counts for; see `nrmmix.posterior.factors.FactorPosterior`."""
        return component_clusters(self.blocks(), self.factors.n_components, self.rows.n)

    def most_probable(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable component (n,) int32 of each fitted row, and the probability of that (n,)."""
        return most_probable(self.blocks(), self.rows.n)


AnyPosterior: TypeAlias = Posterior | FactorPosterior | KernelFactorPosterior
