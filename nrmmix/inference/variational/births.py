"""Births: fresh fits to rows collected from one component, adopted in its place.

A fresh fit starts from many components, waits some passes before its first merges, as blurred components look alike, and is screened by
its bound on the sample.  Fits with few components and rows fail in vain and leave several clusters in one: before a fit ends, each
component is tried once more at length (`THOROUGH`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from nrmmix.inference.variational.memory import Batches, CollectedRows, Memory
from nrmmix.inference.variational.start import seeded
from nrmmix.model.families.exponential import Statistics, joined

MIN_SHARE = 0.1  # probability from which on a row is collected
MIN_ROWS = 20
CHANGED = 0.25  # by so much of its count a component has changed, and is tried again


@dataclass(frozen=True)
class Creation:
    """Thoroughness of fresh fits."""

    components: int  # that they start from
    rows: int  # of a sample, at most
    wait: int  # passes before the first merges
    passes: int  # after these, at most


FIRST = Creation(components=10, rows=10_000, wait=4, passes=25)  # from the one component of all rows
QUICK = Creation(components=10, rows=4000, wait=4, passes=25)
THOROUGH = Creation(components=40, rows=10_000, wait=4, passes=25)
TARGETS = 8  # of a pass


class Fresh(NamedTuple):
    """Components of a fresh fit, and what they raise the bound of the sample by, against one component."""

    N: np.ndarray
    s: np.ndarray
    gain: float


class Watched(NamedTuple):
    """Rows to be collected in a pass, by component; a `memory.Observer`."""

    share: dict[int, float]  # of each target, of a block's rows at most
    most: int
    seed: int

    def of_batch(self, number: int) -> Chosen:
        return Chosen(self, np.random.default_rng((self.seed, number)))

    def taken(self, seen: Chosen, part: Statistics, first: int) -> tuple[CollectedRows, ...]:
        found = []
        for target, rows in seen.rows.items():
            some = np.concatenate(rows) if rows else np.zeros(0, np.int64)
            if len(some):
                found.append(CollectedRows(target, first + some, np.concatenate(seen.r[target]), part.take(some)))
        return tuple(found)


class Chosen:
    """Rows chosen in a batch, block by block, and the probabilities with which they are in their component."""

    def __init__(self, watched: Watched, rng: np.random.Generator):
        self.watched, self.rng = watched, rng
        self.rows: dict[int, list[np.ndarray]] = {t: [] for t in watched.share}
        self.r: dict[int, list[np.ndarray]] = {t: [] for t in watched.share}

    def __call__(self, first: int, r: np.ndarray) -> None:
        for t, share in self.watched.share.items():
            if sum(map(len, self.rows[t])) >= self.watched.most:
                continue
            rows = np.flatnonzero(r[t] > MIN_SHARE)
            most = max(math.ceil(share * r.shape[1]), 1)
            if len(rows) > most:
                rows = np.sort(self.rng.choice(rows, most, replace=False))
            self.rows[t].append(first + rows)
            self.r[t].append(r[t, rows])


class Collector:
    """Rows of some components, spread over the batches, and the probabilities with which they are in them."""

    def __init__(self, memory: Memory, targets: list[int], most: int, rng: np.random.Generator):
        rows = memory.batches.rows.n / memory.batches.size * memory.visited
        share = {t: 1.5 * most / max(rows[t], float(most)) for t in targets}
        self.watched, self.most = Watched(share, most, int(rng.integers(2**63))), most
        self.found: dict[int, list[CollectedRows]] = {t: [] for t in targets}

    def add(self, sample: tuple[CollectedRows, ...]) -> None:
        """Add the rows that a visit has taken."""
        for taken in sample:
            if sum(len(one.rows) for one in self.found[taken.target]) < self.most:
                self.found[taken.target].append(taken)

    def sample(self, target: int) -> tuple[Statistics | None, np.ndarray]:
        """Rows in their order, and probabilities; None where there are no rows."""
        found = self.found[target]
        if not found:
            return None, np.zeros(0)
        rows, r = (np.concatenate([getattr(one, name) for one in found])[: self.most] for name in ("rows", "r"))
        order = np.argsort(rows)
        return joined([one.what for one in found], order), r[order]


class Targets:
    """Components to be tried: the largest first, those that failed rest until they have changed."""

    def __init__(self) -> None:
        self.failed: dict[int, float] = {}  # names, and counts then

    def choose(self, memory: Memory) -> list[int]:
        least = max(float(MIN_ROWS), 2.0 * math.sqrt(memory.exponential.n_stat))
        found = []
        for k in np.argsort(-memory.visited, kind="stable"):
            N, then = memory.visited[k], self.failed.get(memory.ids[k])
            if N > least and (then is None or abs(N - then) > CHANGED * then):
                found.append(int(k))
        return found[:TARGETS]

    def fail(self, memory: Memory, target: int) -> None:
        self.failed[memory.ids[target]] = float(memory.visited[target])


def sample_of(memory: Memory, rows: Statistics, weight: np.ndarray | None) -> Batches:
    """A sample, in so many batches that new factors after each of them do not take longer than the rows."""
    batches = rows.n // max(500, 16 * memory.exponential.n_stat)
    return Batches(rows, min(max(batches, 1), 8), keep=True, weight=weight)


def begin(memory: Memory, sample: Batches, creation: Creation, how: str, rng: np.random.Generator) -> Memory:
    """The memory of a fresh fit to a sample."""
    N, s = seeded(cast(Statistics, sample.rows), creation.components, rng, how)
    scale = sample.size / sample.rows.size
    fresh = Memory(memory.exponential, memory.mass, sample)
    fresh.start(N * scale, s * scale)
    return fresh


def against_one(fresh: Memory) -> Fresh:
    """Result of a fresh fit beside one component."""
    N, s = fresh.factors.N, fresh.factors.s
    one = Memory(fresh.exponential, fresh.mass, fresh.batches)
    one.start(N.sum(keepdims=True), s.sum(axis=0, keepdims=True))
    return Fresh(N, s, fresh.bound() - one.bound())  # one component has no entropy
