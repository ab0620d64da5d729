"""What rows say of the components of a kernel-weighted measure: sums over batches, remembered by round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from nrmmix.inference.executors import OneProcess, Span
from nrmmix.kernels.variational import visit_rows
from nrmmix.model.families.exponential import Statistics
from nrmmix.posterior.kernel_factors import KernelFactors

NOTHING = np.zeros((0, 0))


class Seen(NamedTuple):
    """Sums over rows: counts N (M,) and statistics s (M, S) by r; by bins H (q, B, M) of r and G (q, B, M) of v times all factors of the
    kernel but that of the covariate; the entropy of r, log v, and how many rows."""

    N: np.ndarray
    s: np.ndarray
    H: np.ndarray
    G: np.ndarray
    entropy: float
    log_v: float
    n: float


def added(a: Seen, b: Seen) -> Seen:
    return Seen(*(x + y for x, y in zip(a, b, strict=True)))


def without(a: Seen, b: Seen) -> Seen:
    return Seen(*(x - y for x, y in zip(a, b, strict=True)))


@dataclass(frozen=True)
class BinnedRows:
    """Rows as statistics, and the bins (n, q) of their covariates."""

    statistics: Statistics
    bins: np.ndarray
    is_streamed: ClassVar[bool] = False

    @property
    def n(self) -> int:
        return len(self.bins)

    def part(self, first: int, last: int) -> BinnedRows:
        return BinnedRows(self.statistics.part(first, last), self.bins[first:last])

    def take(self, rows: np.ndarray) -> BinnedRows:
        return BinnedRows(self.statistics.take(rows), self.bins[rows])


class Kept(NamedTuple):
    """Of rows that stay in memory r and w (n, M)."""

    r: np.ndarray
    w: np.ndarray


@dataclass(frozen=True)
class LocalStep:
    """What is done with rows at given factors; it travels to workers."""

    eta: np.ndarray
    const: np.ndarray
    log_k: np.ndarray
    log_weight: np.ndarray

    @classmethod
    def of(cls, factors: KernelFactors) -> LocalStep:
        return cls(factors.eta, factors.const, factors.log_k, factors.log_weight)

    def __call__(self, rows: BinnedRows, span: Span | None = None, kept: Kept | None = None) -> Seen:
        M, S = self.eta.shape
        N, s, sums, scratch = np.zeros(M), np.zeros((M, S)), np.zeros(2), np.empty(M)
        H, G, inverse_k = np.zeros(self.log_k.shape), np.zeros(self.log_k.shape), np.exp(-self.log_k)
        for first, last, features in rows.statistics.blocks(0, rows.n):
            r = np.ascontiguousarray(features.scores(self.eta).T)
            r += self.const
            w = NOTHING if kept is None else kept.w[first:last]
            visit_rows(r, rows.bins[first:last], self.log_k, inverse_k, self.log_weight, scratch, w, H, G, sums)
            N += r.sum(axis=0)
            s += features.totals(r.T)
            if kept is not None:
                kept.r[first:last] = r
        G /= np.exp(self.log_weight)
        return Seen(N, s, H, G, float(sums[0]), float(sums[1]), float(rows.n))


class Memory:
    """The sums of each round's last visit, and those of all."""

    def __init__(self, rows: BinnedRows, batches: int = 1, round_size: int = 1, executor: OneProcess | None = None):
        self.rows, self.executor = rows, executor or OneProcess()
        ends = np.linspace(0, rows.n, batches + 1).astype(int).tolist()
        spans = [Span(b, first, last) for b, (first, last) in enumerate(pairwise(ends))]
        self.rounds: Sequence[list[Span]] = [spans[b : b + round_size] for b in range(0, batches, round_size)]
        self.log_h = float(rows.statistics.log_h.sum())
        self.seen: list[Seen | None] = [None] * len(self.rounds)

    def visit(self, number: int, factors: KernelFactors, kept: Kept | None = None) -> Seen:
        """Sums of a round at given factors, in place of those of its last visit."""
        step = LocalStep.of(factors)
        found = step(self.rows, None, kept) if kept is not None else self.executor.gather(self.rows, self.rounds[number], step, added)
        self.seen[number] = found
        return found

    def total(self) -> Seen:
        """Anew, so that no rounding adds up."""
        found = self.seen[0]
        for further in self.seen[1:]:
            found = added(found, further)
        return found

    def scale_v(self, factor: float) -> None:
        """All v_i times a factor."""
        self.seen = [one._replace(G=one.G * factor, log_v=one.log_v + one.n * np.log(factor)) for one in self.seen]
