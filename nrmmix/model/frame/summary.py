"""What defaults of hyperparameters are taken from: sums over the rows of a table, in memory or part by part.

Both add up in the same order, so that they agree to the bit: NumPy adds the rows of a table of several columns one after the other, and
halves one column again and again, and so it does each column of a table that is kept by columns.  Values far from all others, which
defaults are not to follow, are found by quartiles, and these need the table: of rows that are loaded part by part defaults follow all
values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from nrmmix.model.frame.unusual import without_far

Of = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (rows, k) from responses (rows, d) and inputs (rows, e)
WeighedPiece: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray | None]
LEAF = 8192  # rows of a column that are added at once; a multiple of 128, up to which NumPy's own halving does not go on


class Summary:
    """Of responses y (n, d), NaN where missing, and inputs x (n, e) in memory, each row as often as its weight (n,) says."""

    def __init__(self, y: np.ndarray, x: np.ndarray | None = None, weight: np.ndarray | None = None):
        self.y, self.x, self.weight = y, np.zeros((len(y), 0)) if x is None else x, weight
        self.n: float = len(y) if weight is None else float(weight.sum())
        self.d = y.shape[1]

    def usual(self) -> Summary:
        """The same without values that are far from all others of their response; itself where there are none."""
        usual = without_far(self.y, self.weight)
        return self if usual is self.y else Summary(usual, self.x, self.weight)

    def sums(self, of: Of) -> np.ndarray:
        """Sums (k,) over all rows."""
        found = of(self.y, self.x)
        return np.sum(found, axis=0) if self.weight is None else self.weight @ found

    def sums_by_column(self, of: Of) -> np.ndarray:
        """The same of tables that are kept by columns, as inputs are."""
        return np.sum(np.asfortranarray(of(self.y, self.x)), axis=0) if self.weight is None else self.sums(of)

    @property
    def has_gaps(self) -> bool:
        return bool(np.isnan(self.y).any())

    def span(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest values (d,)."""
        return np.nanmin(self.y, axis=0, initial=np.inf), np.nanmax(self.y, axis=0, initial=-np.inf)

    def largest_inputs(self) -> np.ndarray:
        """(e,) of each input the largest absolute value."""
        return np.abs(self.x).max(axis=0, initial=0.0)

    def input_means(self) -> np.ndarray:
        """(e,)"""
        return self.sums_by_column(lambda y, x: x) / self.n

    def input_spreads(self) -> np.ndarray:
        """(e,) standard deviations."""
        mean = self.input_means()
        return np.sqrt(self.sums_by_column(lambda y, x: (x - mean) ** 2) / max(self.n - 1, 1))

    def without(self, at: np.ndarray) -> Summary:
        """The same with responses that equal their number in `at` (d,) taken for missing."""
        return Summary(np.where(self.y == at, np.nan, self.y), self.x, self.weight)

    # ---- what follows from these

    def counts(self) -> np.ndarray:
        """(d,) values that are there."""
        return self.sums(lambda y, x: ~np.isnan(y))

    def means(self) -> np.ndarray:
        return self.sums(lambda y, x: np.where(np.isnan(y), 0.0, y)) / self.counts()

    def squares(self, about: Any) -> np.ndarray:
        """(d,) sums of squares about something."""
        def of(y: np.ndarray, x: np.ndarray) -> np.ndarray:
            gap = np.where(np.isnan(y), 0.0, y - about)
            return gap * gap

        return self.sums(of)

    def variances(self) -> np.ndarray:
        return self.squares(self.means()) / (self.counts() - 1)

    def reach(self, centre: np.ndarray, spread: np.ndarray) -> float:
        """The largest |y - centre| / spread."""
        low, high = self.span()
        ends = np.abs(np.stack([(low - centre) / spread, (high - centre) / spread]))
        return float(np.max(ends, initial=0.0))


class StreamedSummary(Summary):
    """The same of rows that come part by part, in pieces y (rows, d), x (rows, e) and weights, None where each row counts once.

    What has been found is in `kept`, under names that begin with `where`: rows are not gone through again for it.
    """

    def __init__(
        self, rows: int, pieces: Callable[[], Iterator[WeighedPiece]], span: tuple[np.ndarray, np.ndarray], gaps: bool,
        kept: dict[str, np.ndarray] | None = None, where: str = "", size: float | None = None,
    ):
        self.rows, self.n, self.d, self.pieces = rows, rows if size is None else size, len(span[0]), pieces
        self._span, self._gaps = span, gaps
        self._kept, self._where = {} if kept is None else kept, where

    def usual(self) -> Summary:
        return self

    def sums(self, of: Of) -> np.ndarray:
        return column_sums(self.rows, (np.ascontiguousarray(_times(of(y, x), weight)) for y, x, weight in self.pieces()))

    def sums_by_column(self, of: Of) -> np.ndarray:
        return column_sums(self.rows, (_times(of(y, x), weight) for y, x, weight in self.pieces()), by_column=True)

    @property
    def has_gaps(self) -> bool:
        return self._gaps

    def span(self) -> tuple[np.ndarray, np.ndarray]:
        return self._span

    def without(self, at: np.ndarray) -> Summary:
        def pieces() -> Iterator[WeighedPiece]:
            return ((np.where(y == at, np.nan, y), x, weight) for y, x, weight in self.pieces())

        return StreamedSummary(self.rows, pieces, self._span, True, self._kept, f"{self._where}apart, ", self.n)

    def counts(self) -> np.ndarray:
        if not self._gaps:
            return np.full(self.d, self.n)
        return self._once("counts", super().counts)

    def means(self) -> np.ndarray:
        return self._once("means", super().means)

    def variances(self) -> np.ndarray:
        return self._once("variances", super().variances)

    def largest_inputs(self) -> np.ndarray:
        return self._once("largest", lambda: np.max([np.abs(x).max(axis=0, initial=0.0) for _, x, _ in self.pieces()], axis=0))

    def input_means(self) -> np.ndarray:
        return self._once("input means", super().input_means)

    def input_spreads(self) -> np.ndarray:
        return self._once("input spreads", super().input_spreads)

    def _once(self, name: str, found: Callable[[], np.ndarray]) -> np.ndarray:
        key = f"{self._where}{name}"
        if key not in self._kept:
            self._kept[key] = found()
        return self._kept[key]


def _times(values: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    return values if weight is None else values * weight[:, None]


def column_sums(n: int, pieces: Iterator[np.ndarray], by_column: bool = False) -> np.ndarray:
    """Sums over the rows of n in all, in pieces (rows, k): to the bit what `numpy.sum` of them in one array gives, kept by rows or columns.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(10_001, 1))
    >>> bool(column_sums(10_001, iter(np.array_split(x, 7)))[0] == x.sum(axis=0)[0])
    True
    """
    first = next(pieces, None)
    if first is None:
        return np.zeros(0)
    if first.shape[1] != 1 and not by_column:
        total = np.add.reduce(first, axis=0)
        for piece in pieces:
            total = np.add.reduce(np.concatenate([total[None], piece]), axis=0)
        return total
    rest = [first]

    def taken(size: int) -> np.ndarray:
        while sum(map(len, rest)) < size:
            rest.append(next(pieces))
        whole = np.concatenate(rest)
        rest[:] = [whole[size:]]
        return whole[:size]

    def halved(size: int) -> np.ndarray:
        if size <= LEAF:
            return np.array([np.add.reduce(np.ascontiguousarray(column)) for column in taken(size).T])
        half = size // 2
        half -= half % 8
        before = halved(half)
        return before + halved(size - half)

    return halved(n)
