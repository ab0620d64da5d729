"""Distinct values of a column that comes part by part, and how many rows have each: exactly, or where they are many as quantiles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MAX_VALUES = 200_000  # distinct values that are kept as they are
BUFFER = 16_384  # values that are sorted at once, beyond that
PENDING = 65_536  # values that are collected, at least, before they are counted
MIN_SORTED = 128  # values that are sorted at once, however small the share of the memory is


class Counted(NamedTuple):
    """Values (m,) in ascending order, and of each the rows that have it."""

    values: np.ndarray
    sizes: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, weight: np.ndarray | None = None) -> Counted:
        """Count a column (n,), each row as often as its weight (n,) says."""
        if weight is None:
            return cls(*np.unique(x, return_counts=True))
        values, place = np.unique(x, return_inverse=True)
        return cls(values, np.bincount(place.reshape(-1), weight))

    @property
    def n_rows(self) -> int:
        return int(self.sizes.sum())

    def without(self, which: np.ndarray) -> Counted:
        """Return the counts without the values that a mask (m,) says; itself where it says none."""
        return Counted(self.values[~which], self.sizes[~which]) if which.any() else self


class Tally:
    """Counts the values of a column, in parts of any size: what comes out depends on the rows and their order alone.

    Up to 200,000 distinct values are counted exactly.  Of more the ranks are wrong by at most log2(n / 16384) / 32768 of the n rows, 0.0002
    for a million and 0.0005 for a billion; the smallest and the largest value are those of the column.  With a `share` of the
    memory 200,000 and 16,384 are that share of them.

    Examples
    --------
    >>> tally = Tally()
    >>> tally.add(np.array([2.0, 1.0, 2.0]))
    >>> tally.add(np.array([1.0, 2.0]))
    >>> tally.total().values.tolist(), tally.total().sizes.tolist()
    ([1.0, 2.0], [2, 3])
    """

    def __init__(self, share: float = 1.0) -> None:
        self.most, self.at_once = int(share * MAX_VALUES), int(share * PENDING)
        self.exact: Counted | None = Counted(np.zeros(0), np.zeros(0, np.int64))
        self.pending: list[Counted] = []
        self.quantiles = Quantiles(min(max(int(share * BUFFER), MIN_SORTED), BUFFER))

    @property
    def is_exact(self) -> bool:
        """Whether all values are there; counts what is pending."""
        self.total()
        return self.exact is not None

    def add(self, x: np.ndarray, weight: np.ndarray | None = None) -> None:
        """Further rows (b,), none of them NaN, each as often as its weight (b,) says; beyond 200,000 distinct values each once."""
        self.quantiles.add(x)
        if self.exact is not None:
            self.pending.append(Counted(x, np.ones(len(x), np.int64) if weight is None else weight))
            if sum(len(one.values) for one in self.pending) >= max(self.at_once, len(self.exact.values)):
                self._count()

    def _count(self) -> None:
        assert self.exact is not None
        whole, self.pending = merged(self.exact, *self.pending), []
        self.exact = whole if len(whole.values) <= self.most else None

    def total(self) -> Counted:
        """Total of what has been counted so far."""
        if self.exact is not None and self.pending:
            self._count()
        return self.quantiles.total() if self.exact is None else self.exact


def merged(*parts: Counted) -> Counted:
    values, place = np.unique(np.concatenate([one.values for one in parts]), return_inverse=True)
    of_parts = np.concatenate([one.sizes for one in parts])
    sizes = np.zeros(len(values), of_parts.dtype)
    np.add.at(sizes, place.reshape(-1), of_parts)
    return Counted(values, sizes)


class Quantiles:
    """Sorted buffers, two of which become one by every second value of both (Munro & Paterson 1980, Selection and sorting).

    A value of level h stands for 2^h rows.  Where two buffers of that level become one no rank changes by more than 2^h rows, and so often
    does that happen that each level adds n / (2 x 16384) at most.
    """

    def __init__(self, size: int = BUFFER) -> None:
        self.size = size
        self.rest = np.zeros(0)
        self.levels: list[np.ndarray | None] = []
        self.turns: list[int] = []  # of each level, whether the first of the values is left out next time
        self.low, self.high = np.inf, -np.inf

    def add(self, x: np.ndarray) -> None:
        self.low, self.high = min(self.low, x.min(initial=np.inf)), max(self.high, x.max(initial=-np.inf))
        self.rest = np.concatenate([self.rest, x])
        while len(self.rest) >= self.size:
            self._put(np.sort(self.rest[: self.size]))
            self.rest = self.rest[self.size :]

    def _put(self, buffer: np.ndarray) -> None:
        level = 0
        while level < len(self.levels) and (other := self.levels[level]) is not None:
            both = np.sort(np.concatenate([other, buffer]))
            buffer = both[self.turns[level] :: 2]
            self.levels[level], self.turns[level] = None, 1 - self.turns[level]
            level += 1
        if level == len(self.levels):
            self.levels.append(None)
            self.turns.append(0)
        self.levels[level] = buffer

    def total(self) -> Counted:
        there = [(buffer, 2**level) for level, buffer in enumerate(self.levels) if buffer is not None]
        whole = Counted(*np.unique(self.rest, return_counts=True))
        for buffer, size in there:
            values, counts = np.unique(buffer, return_counts=True)
            whole = merged(whole, Counted(values, counts * size))
        values = whole.values.copy()
        values[0], values[-1] = self.low, self.high  # which may have been left out
        return Counted(values, whole.sizes)
