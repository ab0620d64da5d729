"""Memory of memoized variational inference: of each round of batches the statistics of its last visit, and their sums.

A round has the same batches in every pass, so that batches themselves need remember nothing, wherever they are: what is done with one is a
function of its rows and of the parameters.  All changes of the components, births, merges, deletions and sorting, are linear maps of the
component axis, made here on the sums and on every round's share alike.  The bound is exact once every round has been visited since the
last change that left shares to be guessed (`is_exact`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from nrmmix.inference.executors import OneProcess, Span, Task
from nrmmix.inference.variational.start import of_labels
from nrmmix.model.families.exponential import Features, Stacked, Statistics
from nrmmix.model.families.exponential.streamed import StreamedRows
from nrmmix.model.priors.hyperpriors import Hyperparameter
from nrmmix.posterior.factors import Factors, local_step

EMPTY = 1e-8  # rows of a component, up to which it has none


class LocalSums(NamedTuple):
    """Result of a visit of batches: counts, statistics, entropies, entropies of pairs; sums of log h; rows that were asked for."""

    N: np.ndarray
    s: np.ndarray
    H: np.ndarray
    H_pairs: np.ndarray
    log_h: float = 0.0
    sample: tuple[CollectedRows, ...] = ()


class CollectedRows(NamedTuple):
    """Rows of a component that were collected."""

    target: int
    rows: np.ndarray  # their numbers
    r: np.ndarray  # probabilities with which they are in it
    what: Statistics


def added(a: LocalSums, b: LocalSums) -> LocalSums:
    """Visits of two sets of batches as one."""
    return LocalSums(a.N + b.N, a.s + b.s, a.H + b.H, a.H_pairs + b.H_pairs, a.log_h + b.log_h, a.sample + b.sample)


class Observer(Protocol):
    """Observer of the probabilities that a visit finds; each batch has its own generator, whoever visits it."""

    def of_batch(self, number: int) -> Callable[[int, np.ndarray], None]:
        """A function of the first row of a block and of the probabilities (K, b) of its rows."""

    def taken(self, seen: Any, part: Statistics, first: int) -> tuple[CollectedRows, ...]:
        """The rows that this function has chosen."""


class LocalStep(NamedTuple):
    """Work on a batch at given parameters: a function of the rows and of what batch it is, which travels to workers."""

    eta: np.ndarray
    const: np.ndarray
    pairs: np.ndarray | None
    watch: Observer | None

    def __call__(self, part: Statistics, span: Span) -> LocalSums:
        chosen = None if self.watch is None else self.watch.of_batch(span.number)
        blocks = ((start, part.weight_of(slice(start, stop)), features) for start, stop, features in part.blocks(0, part.n))
        found = self.over(blocks, chosen)
        sample = () if self.watch is None else self.watch.taken(chosen, part, span.first)
        return found._replace(log_h=part.log_h_total, sample=sample)

    def over(self, blocks: Iterable[Block], seen: Callable[[int, np.ndarray], None] | None = None) -> LocalSums:
        """Local steps for blocks of rows."""
        K, S = self.eta.shape
        out = LocalSums(np.zeros(K), np.zeros((K, S)), np.zeros(K), np.zeros(0 if self.pairs is None else len(self.pairs)))
        for first, weight, features in blocks:
            found = local_step(features, self.eta, self.const, self.pairs, weight)
            for total, part in zip(out, found[1:], strict=False):
                total += part
            if seen is not None:
                seen(first, found.r if weight is None else found.r / weight)
        return out


Block = tuple[int, np.ndarray | None, Features]  # first row, weights of the rows or None, statistics


def total_of(part: Statistics, span: Span) -> tuple[np.ndarray, float]:
    """Sums of the statistics of a batch, and of log h."""
    return part.total(), part.log_h_total


def sums_of_labels(labels: np.ndarray, K: int, part: Statistics, span: Span) -> tuple[np.ndarray, np.ndarray]:
    """Counts and statistics of K clusters in a batch, by labels of all rows."""
    return of_labels(part, labels[span.first : span.last], K)


def added_totals(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return a[0] + b[0], a[1] + b[1]


class Batches:
    """Rows, divided into batches as they come, batches into rounds, and if need be a weight for each row.

    The batches of a round are visited at the same parameters, by whatever workers there are, and their statistics are summed: what is
    remembered is the sum of a round.  Of rows in memory alone: `keep` holds their statistics, for samples that are gone through many times.
    """

    def __init__(
        self, rows: Statistics | StreamedRows, batches: int, keep: bool = False, weight: np.ndarray | None = None, round_size: int = 1,
        executor: OneProcess | None = None,
    ):
        self.rows, self.weight, self.executor = rows, weight, executor or OneProcess()
        if (keep or weight is not None) and rows.weight is not None:  # rows of a sample that count more often than once
            self.weight = rows.weight if weight is None else weight * rows.weight
        ends = np.linspace(0, rows.n, batches + 1).astype(int).tolist()
        self.spans = [Span(b, first, last) for b, (first, last) in enumerate(pairwise(ends))]
        self.rounds = [self.spans[b : b + round_size] for b in range(0, batches, round_size)]
        self.kept: Any = None
        if keep:
            assert isinstance(rows, Statistics)
            self.kept = rows.whole()
        self._log_h = np.full(len(self.rounds), np.nan)
        if self.is_local:
            assert isinstance(rows, Statistics)
            self._log_h[:] = 0.0
            self._log_h[0] = float(rows.log_h.sum() if self.weight is None else rows.log_h @ self.weight)

    @property
    def is_local(self) -> bool:
        """Whether it is a sample, which is never sent anywhere."""
        return self.kept is not None or self.weight is not None

    @property
    def size(self) -> float:
        """Rows, each as often as it counts."""
        return float(self.rows.size if self.weight is None else self.weight.sum())

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each round."""
        return np.array([own[-1].last - own[0].first for own in self.rounds])

    @property
    def log_h(self) -> float:
        """Sum of log h over all rows."""
        for number in np.flatnonzero(np.isnan(self._log_h)):
            self._log_h[number] = self._totals(self.rounds[number])[1]
        return float(self._log_h.sum())

    def total(self) -> np.ndarray:
        """(S,) sums of the statistics of all rows."""
        return self._totals(self.spans)[0]

    def of_labels(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Counts and statistics of the clusters 0, ..., K - 1 of a partition of all rows."""
        task = partial(sums_of_labels, labels, int(labels.max()) + 1)
        return self.executor.gather(self.rows, self.spans, task, added_totals)

    def _totals(self, spans: Sequence[Span]) -> tuple[np.ndarray, float]:
        return self.executor.gather(self.rows, spans, total_of, added_totals)

    def blocks(self, number: int) -> Iterator[Block]:
        """Blocks of the rows of a round of a sample: first row, weights, statistics."""
        first, last = self.rounds[number][0].first, self.rounds[number][-1].last
        for start, stop, features in self._features(first, last):
            yield start, None if self.weight is None else self.weight[start:stop], features

    def _features(self, first: int, last: int) -> Iterator[tuple[int, int, Features]]:
        if self.kept is None:
            yield from self.rows.blocks(first, last)
        else:
            dense, of_sparse = self.kept
            part = Features(None if dense is None else dense[:, first:last], None if of_sparse is None else of_sparse[first:last])
            yield first, last, part


def visit(batches: Batches, number: int, factors: Factors, pairs: np.ndarray | None = None, watch: Observer | None = None) -> LocalSums:
    """Local steps for the rows of a round."""
    if batches.is_local:
        return LocalStep(factors.eta, factors.const, pairs, None).over(batches.blocks(number))
    step = LocalStep(factors.eta, factors.const, pairs, watch)
    found = batches.executor.gather(batches.rows, batches.rounds[number], cast(Task, step), added)
    batches._log_h[number] = found.log_h
    return found


class Snapshot(NamedTuple):
    """Shares of the rounds and names of the components."""

    N: np.ndarray
    s: np.ndarray
    H: np.ndarray
    ids: list[int]


class Memory:
    """Counts N (R, K), statistics s (R, K, S) and entropies H (R, K) by round, their sums, and the factors given these.

    `ids` name the components for good, whatever place they have.
    """

    def __init__(self, exponential: Stacked, mass: Hyperparameter, batches: Batches):
        self.exponential, self.mass, self.batches = exponential, mass, batches
        self.next_id = 0
        self.is_exact = False

    def start(self, N: np.ndarray, s: np.ndarray) -> None:
        """Start from counts and statistics of all rows under some q(z): every round is taken to look like the whole."""
        share = self.batches.sizes / self.batches.rows.n
        self.N, self.s, self.H = share[:, None] * N, share[:, None, None] * s, np.zeros((len(share), len(N)))
        self.ids = self._new_ids(len(N))
        self.is_exact = False
        self.total()

    def _new_ids(self, size: int) -> list[int]:
        self.next_id += size
        return list(range(self.next_id - size, self.next_id))

    @property
    def n_components(self) -> int:
        return len(self.ids)

    @property
    def may_go(self) -> np.ndarray:
        """(K,) whether a component may be deleted."""
        return np.ones(self.n_components, bool)

    @property
    def visited(self) -> np.ndarray:
        """(K,) expected counts of the rows that are visited."""
        return self.factors.N

    def is_worth_it(self, target: int, N: np.ndarray, gain: float) -> bool:
        """Whether components of a fresh fit, which gain so much against one, are to be tried in the place of another."""
        return len(N) > 1 and gain > 0

    def total(self) -> None:
        """Sums and factors from the rounds' shares, so that no rounding adds up."""
        self._N, self._s, self._H = self.N.sum(axis=0), self.s.sum(axis=0), self.H.sum(axis=0)
        self.refresh()

    def learn(self) -> None:
        """Parameters of all components, where families have such, as is best for these."""
        if self.exponential.is_learnt:
            self.exponential = self.exponential.learnt(np.maximum(self._N, 0.0), self._s)
            self.refresh()

    def refresh(self) -> None:
        self.factors = Factors(self.exponential, self.mass, self._N, self._s)

    def replace(self, b: int, found: LocalSums) -> None:
        """A round's new share in place of the old one."""
        # not in place: earlier factors keep their statistics
        self._N = self._N + (found.N - self.N[b])
        self._s = self._s + (found.s - self.s[b])
        self._H = self._H + (found.H - self.H[b])
        self.N[b], self.s[b], self.H[b] = found.N, found.s, found.H
        self.refresh()

    def bound(self) -> float:
        """The evidence lower bound, with all constants."""
        return self.factors.log_evidence + float(self._H.sum()) + self.batches.log_h

    # ---- changes of the components

    def take(self, places: np.ndarray) -> None:
        """Components in another order, or some of them."""
        self.N, self.s, self.H = self.N[:, places], self.s[:, places], self.H[:, places]
        self.ids = [self.ids[k] for k in places]
        self.total()

    def sort(self) -> None:
        """Sort components by decreasing counts, which never lowers the bound."""
        order = np.argsort(-self._N, kind="stable")
        if (np.diff(order) < 0).any():
            self.take(order)

    def drop_empty(self) -> None:
        """Without components that no row is in; the bound without such a last one is the same."""
        some = np.flatnonzero(self._N > EMPTY)
        if 0 < len(some) < self.n_components:
            self.take(some)

    def join(self, a: int, b: int, lost: np.ndarray) -> None:
        """Component b into a; `lost` (R,) says how much less their entropy then is in each round."""
        self.N[:, a] += self.N[:, b]
        self.s[:, a] += self.s[:, b]
        self.H[:, a] += self.H[:, b] - lost
        self.take(np.delete(np.arange(self.n_components), b))

    def put_in_place(self, target: int, N: np.ndarray, s: np.ndarray) -> list[int]:
        """Components in place of one, in the proportions of their counts N and statistics s; the next pass makes the shares true."""
        scale, share = self._N[target] / N.sum(), self.N[:, target] / max(self._N[target], 1e-300)
        return self._with_further(np.delete(np.arange(self.n_components), target), share, N * scale, s * scale)

    def _with_further(self, keep: np.ndarray, share: np.ndarray, N: np.ndarray, s: np.ndarray) -> list[int]:
        """Some components, and new ones behind them whose counts and statistics the rounds have in given shares."""
        born = self._new_ids(len(N))
        self.N = np.hstack([self.N[:, keep], share[:, None] * N])
        self.s = np.concatenate([self.s[:, keep], share[:, None, None] * s], axis=1)
        self.H = np.hstack([self.H[:, keep], np.zeros((len(share), len(N)))])
        self.ids = [self.ids[k] for k in keep] + born
        self.is_exact = False
        self.total()
        return born

    def snapshot(self) -> Snapshot:
        return Snapshot(self.N.copy(), self.s.copy(), self.H.copy(), list(self.ids))

    def restore(self, kept: Snapshot) -> None:
        """As it was when the snapshot was taken after a whole pass."""
        self.N, self.s, self.H, self.ids = kept.N.copy(), kept.s.copy(), kept.H.copy(), list(kept.ids)
        self.is_exact = True
        self.total()

    def become(self, other: Memory) -> None:
        """Take the components of another memory of the same rows as they were after a whole pass, with what they share, under new names."""
        self.exponential = other.exponential
        self.restore(other.snapshot()._replace(ids=self._new_ids(other.n_components)))
