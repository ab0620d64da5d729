"""Sums of what rows say of the components of a kernel-weighted measure, over batches, remembered by round."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from nrmmix.inference.executors import OneProcess, Span
from nrmmix.inference.variational.memory import Batches
from nrmmix.kernels.variational import visit_rows
from nrmmix.model.families.exponential import Features, Statistics, joined
from nrmmix.model.families.exponential.streamed import StreamedRows
from nrmmix.model.frame.streaming import Piece
from nrmmix.model.priors.binned import Binned
from nrmmix.posterior.kernel_factors import KernelFactors

NOTHING, ONCE = np.zeros((0, 0)), np.zeros(0)
BLOCK = 2048  # rows whose statistics are held at once: threads wait for each other between blocks
AT_ONCE = 64  # rows that go through the table of one covariate after that of another


class Seen(NamedTuple):
    """Sums over rows: counts N (M,) and statistics s (M, S) by r; by bins H (q, B, M) of r and G (q, B, M) of v times all factors of the
    kernel but that of the covariate; the entropy of r, log v, how many rows, and log h."""

    N: np.ndarray
    s: np.ndarray
    H: np.ndarray
    G: np.ndarray
    entropy: float
    log_v: float
    n: float
    log_h: float


def each(make: Callable[..., Any], *sums: Seen) -> Seen:
    """Sums made one by one of those of others."""
    return Seen(*map(make, *sums))


def added(a: Seen, b: Seen) -> Seen:
    return each(operator.add, a, b)


def in_order(seen: Seen, order: np.ndarray) -> Seen:
    """Components in another order."""
    return seen._replace(N=seen.N[order], s=seen.s[order], H=seen.H[..., order], G=seen.G[..., order])


@dataclass(frozen=True)
class BinnedRows:
    """Rows as statistics, and the bins (n, q) of their covariates."""

    statistics: Statistics
    bins: np.ndarray
    is_streamed: ClassVar[bool] = False

    @property
    def n(self) -> int:
        return len(self.bins)

    @property
    def size(self) -> float:
        """Rows, each as often as it counts."""
        return self.statistics.size

    def part(self, first: int, last: int) -> BinnedRows:
        return BinnedRows(self.statistics.part(first, last), self.bins[first:last])

    def take(self, rows: np.ndarray) -> BinnedRows:
        return BinnedRows(self.statistics.take(rows), self.bins[rows])

    def blocks(self) -> Iterator[tuple[int, int, Features, np.ndarray]]:
        """Blocks of all rows, and their bins."""
        for first, last, features in self.statistics.blocks(0, self.n, BLOCK):
            yield first, last, features, self.bins[first:last]


class StreamedBinnedRows:
    """Binned rows that stay where they are: the part that is wanted is loaded, and forgotten."""

    is_streamed: ClassVar[bool] = True

    def __init__(self, statistics: StreamedRows, binned: Binned):
        self.statistics, self.binned = statistics, binned
        self.n, self.size, self.frame = statistics.n, statistics.size, statistics.frame

    @property
    def n_bytes(self) -> float:
        return self.statistics.n_bytes

    def part(self, first: int, last: int) -> BinnedRows:
        return self._joined(self.statistics.parts(first, last))

    def take(self, rows: np.ndarray) -> BinnedRows:
        return self._joined(self.statistics.chosen(rows))

    def _joined(self, parts: Iterator[tuple[Statistics, Piece]]) -> BinnedRows:
        found = [(part, self.binned.bins(piece.covariates)) for part, piece in parts]
        return BinnedRows(joined([part for part, _ in found]), np.concatenate([bins for _, bins in found]))

    def parts(self) -> Iterator[tuple[BinnedRows, Piece]]:
        """All rows, part by part, and what they were made of."""
        for part, piece in self.statistics.parts():
            yield BinnedRows(part, self.binned.bins(piece.covariates)), piece

    def blocks(self) -> Iterator[tuple[int, int, Features, np.ndarray]]:
        before = 0
        for part, _ in self.parts():
            for first, last, features, bins in part.blocks():
                yield before + first, before + last, features, bins
            before += part.n


def sample_of(rows: BinnedRows | StreamedBinnedRows, most: int, rng: np.random.Generator) -> BinnedRows:
    """At most so many of the rows, in memory."""
    if rows.n > most:
        return rows.take(np.sort(rng.choice(rows.n, most, replace=False)))
    return rows.take(np.arange(rows.n)) if isinstance(rows, StreamedBinnedRows) else rows


class Kept(NamedTuple):
    """Kept r and w (n, M) of rows that stay in memory."""

    r: np.ndarray
    w: np.ndarray


@dataclass(frozen=True)
class LocalStep:
    """Work on rows at given factors; it travels to workers."""

    eta: np.ndarray
    const: np.ndarray
    log_k: np.ndarray
    log_weight: np.ndarray

    @classmethod
    def of(cls, factors: KernelFactors) -> LocalStep:
        return cls(factors.eta, factors.const, factors.log_k, factors.log_weight)

    def __call__(self, rows: BinnedRows, span: Span | None = None, kept: Kept | None = None) -> Seen:
        M, S = self.eta.shape
        N, s, sums, scratch = np.zeros(M), np.zeros((M, S)), np.zeros(2), np.empty((AT_ONCE, M))
        H, W = np.zeros(self.log_k.shape), np.zeros(self.log_k.shape)
        buffer = np.empty((min(BLOCK, rows.n), M))
        for first, last, features, bins in rows.blocks():
            r = features.scores_by_row(self.eta, buffer)
            r += self.const
            w = NOTHING if kept is None else kept.w[first:last]
            often = rows.statistics.weight_of(slice(first, last))
            visit_rows(r, bins, self.log_k, self.log_weight, scratch, w, H, W, sums, ONCE if often is None else often)
            if kept is not None:
                kept.r[first:last] = r
            if often is not None:
                r *= often[:, None]
            N += r.sum(axis=0)
            s += features.totals(r.T)
        G = W * np.exp(-self.log_k) / np.exp(self.log_weight)  # without a covariate's own factor, which all rows of a bin share, and E pi
        return Seen(N, s, H, G, float(sums[0]), float(sums[1]), rows.size, rows.statistics.log_h_total)


class Memory:
    """The sums of each round's last visit, and those of all."""

    def __init__(
        self, rows: BinnedRows | StreamedBinnedRows, batches: int = 1, round_size: int = 1, executor: OneProcess | None = None
    ):
        made: Any = rows  # of the batches of mixtures what does not ask for their statistics
        self.rows, self.batches = rows, Batches(made, batches, round_size=round_size, executor=executor)
        self.seen: list[Seen | None] = [None] * len(self.rounds)  # of rounds, and of rows that are not visited if there are any

    @property
    def rounds(self) -> list[list[Span]]:
        return self.batches.rounds

    def anew(self) -> Memory:
        """One of the same batches that has seen nothing."""
        made = copy(self)
        made.seen = [None] * len(self.rounds)
        return made

    def visit(self, number: int, factors: KernelFactors, kept: Kept | None = None) -> Seen:
        """Sums of a round at given factors, in place of those of its last visit."""
        step = LocalStep.of(factors)
        if kept is not None:
            found = step(cast(BinnedRows, self.rows), None, kept)
        else:
            found = self.batches.executor.gather(self.rows, self.rounds[number], step, added)
        self.seen[number] = found
        return found

    def total(self) -> Seen:
        """Anew, so that no rounding adds up."""
        found, *others = cast(list[Seen], self.seen)
        for further in others:
            found = added(found, further)
        return found

    def scale_v(self, factor: float) -> None:
        """All v_i times a factor."""
        seen = cast(list[Seen], self.seen)
        self.seen = [one._replace(G=one.G * factor, log_v=one.log_v + one.n * np.log(factor)) for one in seen]
