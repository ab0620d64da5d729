"""The factors of a variational posterior, and what follows from them for blocks of rows.

q(z) q(phi) q(v, mass): the parameters phi_k of component k have the posterior law given an expected count N_k and expected statistics s_k,
sticks and mass the best law given the counts; a row's component then has probabilities r_k in proportion to
exp(E log w_k + E log p(x | phi_k)).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nrmmix.model.families.exponential import Features, Stacked, Statistics
from nrmmix.model.priors.hyperpriors import Hyperparameter
from nrmmix.model.priors.sticks import Sticks
from nrmmix.model.specification import Specification

if TYPE_CHECKING:
    from nrmmix.model.families.exponential.streamed import StreamedRows

TINY = 1e-300


class Local(NamedTuple):
    """Sums of a block of b rows under given factors; with weights of the rows, each row counts so often."""

    r: np.ndarray  # (K, b) probabilities of the components, times the weights
    N: np.ndarray  # (K,) sums of r
    s: np.ndarray  # (K, S) statistics
    H: np.ndarray  # (K,) entropies, sums of -r log r
    H_pairs: np.ndarray  # (pairs,) entropies of pairs of components as one


def local_step(
    features: Features, eta: np.ndarray, const: np.ndarray, pairs: np.ndarray | None = None, weight: np.ndarray | None = None
) -> Local:
    """Probabilities of the components for a block of rows, and their sums: two products, whatever the family.

    `eta` (K, S) and `const` (K,) are those of `Factors`, `pairs` (pairs, 2) numbers of components, `weight` (b,).  It calls matmul, exp,
    log, max, sum and take of the arrays' own namespace, changes none of them, and is the only thing that all rows go through: dense
    features on an accelerator are visited there.
    """
    xp = namespace_of(eta)
    score = features.scores(eta) + const[:, None]
    score = score - xp.max(score, axis=0)
    r = xp.exp(score)
    total = xp.sum(r, axis=0)
    r = r * (1.0 / total if weight is None else weight / total)
    H = xp.matmul(r, xp.log(total)) - xp.sum(r * score, axis=1)
    return Local(r, xp.sum(r, axis=1), features.totals(r), H, _pair_entropies(xp, r, pairs, weight))


def namespace_of(array: Any) -> Any:
    """The functions that go with an array: those of NumPy, or of whatever library it is of."""
    return array.__array_namespace__() if hasattr(array, "__array_namespace__") else np


def _pair_entropies(xp: Any, r: Any, pairs: Any, weight: Any) -> Any:
    """Sums of -(r_a + r_b) log(r_a + r_b), where r is times a weight less (r_a + r_b) times its log."""
    if pairs is None or not len(pairs):
        return r[:0, 0]
    both = xp.take(r, xp.asarray(pairs[:, 0]), axis=0) + xp.take(r, xp.asarray(pairs[:, 1]), axis=0)
    H = -xp.sum(both * xp.log(both + TINY), axis=1)
    return H if weight is None else H + xp.matmul(both, xp.log(weight))


class Factors:
    """The best q(phi) q(v, mass) given expected counts N (K,) and statistics s (K, S), components in the order of their sticks.

    Attributes
    ----------
    N, s
    eta, const : ndarray, (K, S) and (K,)
        E log w_k + E log p(x | phi_k) = const_k + eta_k'T(x) + log h(x).
    log_z : ndarray, (K,)
        log normalisers of q(phi_k), less that of the prior.
    exponential : Stacked
        The families, with what is learnt of all components.
    sticks : Sticks
    """

    def __init__(self, exponential: Stacked, mass: Hyperparameter, N: np.ndarray, s: np.ndarray):
        self.N, self.s = np.maximum(N, 0.0), s
        self.exponential = exponential
        self.eta, a = exponential.expectations(self.N, s)
        self.sticks = Sticks(mass, self.N)
        self.const = self.sticks.expected_log_weights - a

    @property
    def n_components(self) -> int:
        return len(self.N)

    @cached_property
    def log_z(self) -> np.ndarray:
        return self.exponential.log_z(self.N, self.s)  # only where the bound is asked for

    @property
    def log_evidence(self) -> float:
        """The bound but for entropies and log h of the rows."""
        return float(self.log_z.sum() + self.exponential.log_prior + self.sticks.log_evidence)


class FactorPosterior(NamedTuple):
    """Posterior that predictions are made from where q stands for it: the counterpart of `nrmmix.posterior.draws.Posterior`."""

    specification: Specification
    factors: Factors
    rows: Statistics | StreamedRows  # those that were fitted
    seed: int
    draws: int = 1  # of the random measure, for bands

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """Blocks of the fitted rows, and the probabilities (K, b) of the components there."""
        return self.probabilities(self.rows)

    def probabilities(self, rows: Statistics | StreamedRows) -> Iterator[tuple[slice, np.ndarray]]:
        """Return the probabilities of the components for any rows."""
        for start, stop, features in rows.blocks(0, rows.n):
            yield slice(start, stop), local_step(features, self.factors.eta, self.factors.const).r

    def most_probable(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the most probable component (n,) int32 of each fitted row, and the probability of that (n,)."""
        return most_probable(self.blocks(), self.rows.n)

    def component_clusters(self) -> np.ndarray:
        """(K,) of each component the cluster that it counts for, of partitions of rows by their most probable components.

        Clusters are numbered by size, of equal ones by their first rows; a component that is the most probable of no row counts for the
        cluster where most of it lies.  Nothing is held of the rows.
        """
        return component_clusters(self.blocks(), self.factors.n_components, self.rows.n)


def most_probable(blocks: Iterator[tuple[slice, np.ndarray]], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the most probable component (n,) int32 of each row, and the probability of that (n,), from blocks as below."""
    component, probability = np.empty(n, np.int32), np.empty(n)
    for some, r in blocks:
        component[some], probability[some] = r.argmax(axis=0), r.max(axis=0)
    return component, probability


def component_clusters(blocks: Iterator[tuple[slice, np.ndarray]], K: int, n: int) -> np.ndarray:
    """Clusters (K,) of components, from blocks of n rows and probabilities (K, b) of the components there."""
    first, size, inside = np.full(K, n), np.zeros(K, np.int64), np.zeros((K, K))
    for some, r in blocks:
        best = r.argmax(axis=0)
        there, at = np.unique(best, return_index=True)
        first[there] = np.minimum(first[there], some.start + at)
        size += np.bincount(best, minlength=K)
        inside += r @ np.eye(K)[best]
    order = np.lexsort([first, -size])[: int((size > 0).sum())]
    number = np.full(K, -1)
    number[order] = np.arange(len(order))
    return np.where(number >= 0, number, number[order][inside[:, order].argmax(axis=1)])


def drawn_components(r: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """(size, b) components drawn from probabilities r (K, b)."""
    K, b = r.shape
    steps = np.cumsum(r, axis=0)
    ends = (steps / steps[-1]).T + np.arange(b)[:, None]  # rows end to end: one sorted array
    found = np.searchsorted(ends.ravel(), np.arange(b) + rng.random((size, b)), side="right")
    return np.clip(found - K * np.arange(b), 0, K - 1)
