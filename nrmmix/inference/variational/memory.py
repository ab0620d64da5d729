"""What memoized variational inference remembers: of each batch of rows the statistics of its last visit, and their sums.

All changes of the components, births, merges, deletions and sorting, are made on the sums and on every batch's share alike.  The bound is
exact once every batch has been visited since the last change that left shares to be guessed (`is_exact`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from nrmmix.model.families.exponential import Features, Stacked, Statistics
from nrmmix.model.priors.hyperpriors import Hyperparameter
from nrmmix.posterior.factors import Factors, local_step


class Batches:
    """Rows, divided into batches as they come, and if need be a weight for each row.

    `keep` holds the statistics of all rows in memory, for samples that are gone through many times.
    """

    def __init__(self, rows: Statistics, batches: int, keep: bool = False, weight: np.ndarray | None = None):
        self.rows, self.weight = rows, weight
        ends = np.linspace(0, rows.n, batches + 1).astype(int)
        self.bounds = list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
        self.kept = rows.whole() if keep else None
        self.log_h = float(rows.log_h.sum() if weight is None else rows.log_h @ weight)

    @property
    def size(self) -> float:
        """Rows, each as often as it counts."""
        return float(self.rows.n if self.weight is None else self.weight.sum())

    def blocks(self, b: int):
        """Blocks of the rows of batch b: first row, weights, statistics."""
        for start, stop, features in self._features(*self.bounds[b]):
            yield start, None if self.weight is None else self.weight[start:stop], features

    def _features(self, first: int, last: int):
        if self.kept is None:
            yield from self.rows.blocks(first, last)
        else:
            dense, of_sparse = self.kept
            part = Features(None if dense is None else dense[:, first:last], None if of_sparse is None else of_sparse[first:last])
            yield first, last, part


class Visit(NamedTuple):
    """What a visit of a batch gives: counts, statistics, entropies, and entropies of pairs."""

    N: np.ndarray
    s: np.ndarray
    H: np.ndarray
    H_pairs: np.ndarray


Watch = Callable[[int, np.ndarray], None]  # first row of a block, and probabilities (K, b) of its rows


def visit(batches: Batches, b: int, factors: Factors, pairs: np.ndarray | None = None, watch: Watch | None = None) -> Visit:
    """Local steps for the rows of a batch."""
    K, S = factors.eta.shape
    out = Visit(np.zeros(K), np.zeros((K, S)), np.zeros(K), np.zeros(0 if pairs is None else len(pairs)))
    for first, weight, features in batches.blocks(b):
        found = local_step(features, factors.eta, factors.const, pairs, weight)
        for total, part in zip(out, found[1:], strict=True):
            total += part
        if watch is not None:
            watch(first, found.r)
    return out


class Snapshot(NamedTuple):
    """Shares of the batches and names of the components."""

    N: np.ndarray
    s: np.ndarray
    H: np.ndarray
    ids: list[int]


class Memory:
    """Counts N (B, K), statistics s (B, K, S) and entropies H (B, K) by batch, their sums, and the factors given these.

    `ids` name the components for good, whatever place they have.
    """

    def __init__(self, side: Stacked, mass: Hyperparameter, batches: Batches):
        self.side, self.mass, self.batches = side, mass, batches
        self.next_id = 0
        self.is_exact = False

    def start(self, N: np.ndarray, s: np.ndarray) -> None:
        """From counts and statistics of all rows under some q(z): every batch is taken to look like the whole."""
        share = np.array([stop - start for start, stop in self.batches.bounds]) / self.batches.rows.n
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

    def total(self) -> None:
        """Sums and factors from the batches' shares, so that no rounding adds up."""
        self._N, self._s, self._H = self.N.sum(axis=0), self.s.sum(axis=0), self.H.sum(axis=0)
        self.refresh()

    def refresh(self) -> None:
        self.factors = Factors(self.side, self.mass, self._N, self._s)

    def replace(self, b: int, found: Visit) -> None:
        """A batch's new share in place of the old one."""
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
        """By decreasing counts, which never lowers the bound."""
        order = np.argsort(-self._N, kind="stable")
        if (np.diff(order) < 0).any():
            self.take(order)

    def drop_empty(self, least: float = 1e-8) -> None:
        """Without components that no row is in; the bound without such a last one is the same."""
        some = np.flatnonzero(least < self._N)
        if 0 < len(some) < self.n_components:
            self.take(some)

    def join(self, a: int, b: int, lost: np.ndarray) -> None:
        """Component b into a; `lost` (B,) says how much less their entropy then is in each batch."""
        self.N[:, a] += self.N[:, b]
        self.s[:, a] += self.s[:, b]
        self.H[:, a] += self.H[:, b] - lost
        self.take(np.delete(np.arange(self.n_components), b))

    def put_in_place(self, target: int, N: np.ndarray, s: np.ndarray) -> list[int]:
        """Components in place of one, in the proportions of their counts N and statistics s; the next pass makes the shares true."""
        scale, share = self._N[target] / N.sum(), self.N[:, target] / max(self._N[target], 1e-300)
        born = self._new_ids(len(N))
        keep = np.delete(np.arange(self.n_components), target)
        self.N = np.hstack([self.N[:, keep], share[:, None] * (N * scale)])
        self.s = np.concatenate([self.s[:, keep], share[:, None, None] * (s * scale)], axis=1)
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
