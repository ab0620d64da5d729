"""Summaries from which defaults of hyperparameters are taken: sums over the rows of a table, in memory or part by part.

Both add up in the same order, so that they agree to the bit: NumPy adds the rows of a table of several columns one after the other, and
halves one column again and again, and so it does each column of a table that is kept by columns.  Values far from all others, which
defaults are not to follow, are found by quartiles: of rows that are loaded part by part those of the values counted on the way that
checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from nrmmix.model.frame.quantiles import Counted
from nrmmix.model.frame.unusual import NO_FENCES, Fences, far_cells, fences_of, rounding_of, without_far

Of = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (rows, k) from responses (rows, d) and inputs (rows, e)
WeighedPiece: TypeAlias = tuple[np.ndarray, ...]
LEAF = 8192  # rows of a column that are added at once; a multiple of 128, up to which NumPy's own halving does not go on


class Summary:
    """Summary of responses y (n, d), NaN where missing, and inputs x (n, e) in memory, each row as often as its weight (n,) says."""

    def __init__(self, y: np.ndarray, x: np.ndarray | None = None, weight: np.ndarray | None = None):
        self.y, self.x, self.weight = y, np.zeros((len(y), 0)) if x is None else x, weight
        self.n: float = len(y) if weight is None else float(weight.sum())
        self.d = y.shape[1]

    def usual(self) -> Summary:
        """Return the summary without values that are far from all others of their response; itself where there are none."""
        usual = without_far(self.y, self.weight)
        return self if usual is self.y else Summary(usual, self.x, self.weight)

    def usual_rows(self) -> Summary:
        """Return the summary without the responses of rows in which one is far from all others, and without such inputs."""
        y, x = np.where(far_cells(self.y, self.weight).any(axis=1, keepdims=True), np.nan, self.y), without_far(self.x, self.weight)
        return self if np.array_equal(y, self.y, equal_nan=True) and x is self.x else Summary(y, x, self.weight)

    def sums(self, of: Of) -> np.ndarray:
        """Sums (k,) over all rows."""
        found = of(self.y, self.x)
        return np.sum(found, axis=0) if self.weight is None else self.weight @ found

    def sums_by_column(self, of: Of) -> np.ndarray:
        """Return the sums of tables that are kept by columns, as inputs are."""
        return np.sum(np.asfortranarray(of(self.y, self.x)), axis=0) if self.weight is None else self.sums(of)

    def rounding_units(self) -> np.ndarray | None:
        """None: of rows in memory these are found when they are asked for."""
        return None

    @property
    def has_missing(self) -> bool:
        return bool(np.isnan(self.y).any())

    def span(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest values (d,)."""
        return np.nanmin(self.y, axis=0, initial=np.inf), np.nanmax(self.y, axis=0, initial=-np.inf)

    def largest_inputs(self) -> np.ndarray:
        """(e,) of each input the largest absolute value."""
        return np.fmax.reduce(np.abs(self.x), axis=0, initial=0.0)

    def input_counts(self) -> Any:
        """(e,) inputs that are there, one number where all are."""
        return self.sums_by_column(lambda y, x: ~np.isnan(x)) if np.isnan(self.x).any() else self.n

    def input_means(self) -> np.ndarray:
        """(e,)"""
        return self.sums_by_column(lambda y, x: _or_nothing(x)) / self.input_counts()

    def input_spreads(self) -> np.ndarray:
        """(e,) standard deviations."""
        mean = self.input_means()
        return np.sqrt(self.sums_by_column(lambda y, x: _or_nothing((x - mean) ** 2)) / np.maximum(self.input_counts() - 1, 1))

    def without(self, at: np.ndarray) -> Summary:
        """Return the summary with responses that equal their number in `at` (d,) taken for missing."""
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

    def max_distance(self, centre: np.ndarray, spread: np.ndarray) -> float:
        """The largest |y - centre| / spread."""
        low, high = self.span()
        ends = np.abs(np.stack([(low - centre) / spread, (high - centre) / spread]))
        return float(np.max(ends, initial=0.0))


class StreamedSummary(Summary):
    """Summary of rows that come part by part, in pieces y (rows, d), x (rows, e) and, where rows have them, weights (rows,).

    What has been found is in `kept`, under names that begin with `where`: rows are not gone through again for it.  `counted` has the
    values of the d responses and e inputs, None of those that nobody has counted.
    """

    def __init__(
        self, rows: int, pieces: Callable[[], Iterator[WeighedPiece]], span: tuple[np.ndarray, np.ndarray], gaps: bool,
        kept: dict[str, np.ndarray] | None = None, where: str = "", size: float | None = None,
        counted: Sequence[Counted | None] = (), input_gaps: bool = False,
    ):
        self._counted, self._input_gaps = counted, input_gaps
        self.rows, self.n, self.d, self.pieces = rows, rows if size is None else size, len(span[0]), pieces
        self._span, self._gaps = span, gaps
        self._kept, self._where = {} if kept is None else kept, where

    def usual(self) -> Summary:
        fences = self._fences()[: self.d]
        if not any(own.most < np.inf for own in fences):
            return self
        return self._changed("usual", lambda y, x: (np.where(_far(y, fences), np.nan, y), x))

    def usual_rows(self) -> Summary:
        fences = self._fences()
        of_y, of_x = fences[: self.d], fences[self.d :]
        if not any(own.most < np.inf for own in fences):
            return self
        return self._changed("usual rows", lambda y, x: (
            np.where(_far(y, of_y).any(axis=1, keepdims=True), np.nan, y), np.where(_far(x, of_x), np.nan, x)
        ), input_gaps=True)

    def _fences(self) -> list[Fences]:
        """Limits beyond which responses and inputs are far from all others; without end for rows that nobody has counted."""
        name = f"{self._where}reach"
        if name not in self._kept and self._counted:
            self._kept[name] = np.array([NO_FENCES if own is None else fences_of(*own) for own in self._counted])
        return [Fences(*own) for own in self._kept.get(name, ())]

    def sums(self, of: Of) -> np.ndarray:
        return column_sums(self.rows, (np.ascontiguousarray(_times(of(y, x), *weight)) for y, x, *weight in self.pieces()))

    def sums_by_column(self, of: Of) -> np.ndarray:
        return column_sums(self.rows, (_times(of(y, x), *weight) for y, x, *weight in self.pieces()), by_column=True)

    @property
    def has_missing(self) -> bool:
        return self._gaps

    def span(self) -> tuple[np.ndarray, np.ndarray]:
        return self._span

    def without(self, at: np.ndarray) -> Summary:
        counted = [
            None if own is None else own.without(own.values == at[j]) if j < self.d else own for j, own in enumerate(self._counted)
        ]
        return self._changed("apart", lambda y, x: (np.where(y == at, np.nan, y), x), counted)

    def _changed(
        self, how: str, change: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
        counted: Sequence[Counted | None] = (), input_gaps: bool = False,
    ) -> Summary:
        """Return the summary with responses and inputs changed, some of them to missing ones."""
        def pieces() -> Iterator[WeighedPiece]:
            return ((*change(y, x), *weight) for y, x, *weight in self.pieces())

        return StreamedSummary(self.rows, pieces, self._span, True, self._kept, f"{self._where}{how}, ", self.n, counted, input_gaps)

    def rounding_units(self) -> np.ndarray:
        """(d,) what responses are rounded to, see `rounding_unit`; 0 of those that nobody has counted."""
        name = f"{self._where}units"
        if name not in self._kept and self._counted:
            self._kept[name] = np.array([0.0 if own is None else rounding_of(own) for own in self._counted[: self.d]])
        return self._kept.get(name, np.zeros(self.d))

    def counts(self) -> np.ndarray:
        return self._found("counts") if self._gaps else np.full(self.d, self.n)

    def means(self) -> np.ndarray:
        return self._found("means")

    def variances(self) -> np.ndarray:
        return self._found("variances")

    def largest_inputs(self) -> np.ndarray:
        return self._found("largest")

    def input_counts(self) -> Any:
        return self._found("input counts") if self._input_gaps else self.n

    def input_means(self) -> np.ndarray:
        return self._found("input means")

    def input_spreads(self) -> np.ndarray:
        return self._found("input spreads")

    def _found(self, name: str) -> np.ndarray:
        """Return what was found on a way through the rows: one for means and what needs none, one for squares about them."""
        if f"{self._where}{name}" not in self._kept:
            found = self._about_means() if name in ("variances", "input spreads") else self._as_they_are()
            self._kept.update({f"{self._where}{own}": values for own, values in found.items()})
        return self._kept[f"{self._where}{name}"]

    def _as_they_are(self) -> dict[str, np.ndarray]:
        means = Means(self.rows, self._input_gaps)
        for y, x, *weight in self.pieces():
            means.add(y, x, *weight)
        return means.found(self._gaps, self.n)

    def _about_means(self) -> dict[str, np.ndarray]:
        mean, input_mean, squares, of_inputs = self.means(), self.input_means(), ColumnSums(self.rows), ColumnSums(self.rows, True)
        for y, x, *weight in self.pieces():
            gap = np.where(np.isnan(y), 0.0, y - mean)
            squares.add(_times(gap * gap, *weight))
            of_inputs.add(_times(_or_nothing((x - input_mean) ** 2), *weight))
        return {
            "variances": squares.total() / (self.counts() - 1),
            "input spreads": np.sqrt(of_inputs.total() / np.maximum(self.input_counts() - 1, 1)),
        }


def _far(values: np.ndarray, fences: Sequence[Fences]) -> np.ndarray:
    """Mask of the cells (rows, k) that are far from all others of their columns."""
    return np.stack([own.far(column) for own, column in zip(fences, values.T, strict=True)], axis=1) if fences else np.isinf(values)


def _or_nothing(values: np.ndarray) -> np.ndarray:
    """Zero in place of NaN."""
    return np.where(np.isnan(values), 0.0, values)


def _times(values: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    return values if weight is None else values * weight[:, None]


class Means:
    """Means of responses and inputs of n rows, in pieces, and what else needs nothing of them but one way through."""

    def __init__(self, n: int, input_gaps: bool = False):
        self.n = n
        self.there, self.sums, self.inputs, self.largest = ColumnSums(n), ColumnSums(n), ColumnSums(n, True), np.zeros(())
        self.inputs_there = ColumnSums(n, True) if input_gaps else None

    def add(self, y: np.ndarray, x: np.ndarray, weight: np.ndarray | None = None) -> None:
        gaps = np.isnan(y)
        self.there.add(_times(~gaps, weight))
        self.sums.add(_times(np.where(gaps, 0.0, y), weight))
        if self.inputs_there is not None:
            self.inputs_there.add(_times(~np.isnan(x), weight))
        self.inputs.add(_times(x if self.inputs_there is None else _or_nothing(x), weight))
        self.largest = np.maximum(self.largest, np.fmax.reduce(np.abs(x), axis=0, initial=0.0))

    def found(self, has_missing: bool, size: float) -> dict[str, np.ndarray]:
        """Return sums by their names in a `StreamedSummary`, rows counted up to `size`; counts only where responses have gaps."""
        total = self.sums.total()
        counts = self.there.total() if has_missing else np.full(len(total), size)
        own = {} if self.inputs_there is None else {"input counts": self.inputs_there.total()}
        found = own | {"means": total / counts, "input means": self.inputs.total() / own.get("input counts", size), "largest": self.largest}
        return found | ({"counts": counts} if has_missing else {})


class ColumnSums:
    """Sums over the rows of n in all, in pieces (rows, k): to the bit what `numpy.sum` gives of them in one array, by rows or columns."""

    def __init__(self, n: int, by_column: bool = False):
        self.by_column = by_column
        self.rows: np.ndarray | None = None  # the sum so far, of rows one after the other
        self.halves: list[np.ndarray] = []  # sums of parts of columns, in their order
        self.rest: list[np.ndarray] = []
        self.plan = _halved(n) if n else iter(())
        self.next = next(self.plan, None)

    def add(self, piece: np.ndarray) -> None:
        if piece.shape[1] != 1 and not self.by_column:
            piece = np.ascontiguousarray(piece)
            self.rows = np.add.reduce(piece if self.rows is None else np.concatenate([self.rows[None], piece]), axis=0)
            return
        self.rest.append(piece)
        held = sum(map(len, self.rest))
        while self.next is not None and held >= self.next:
            if self.next == 0:
                last = self.halves.pop()
                self.halves[-1] = self.halves[-1] + last
            else:
                whole = self.rest[0] if len(self.rest) == 1 else np.concatenate(self.rest)
                part, self.rest = whole[: self.next], [whole[self.next :]]
                self.halves.append(np.array([np.add.reduce(np.ascontiguousarray(column)) for column in part.T]))
                held -= self.next
            self.next = next(self.plan, None)

    def total(self) -> np.ndarray:
        if self.rows is not None:
            return self.rows
        return self.halves[0] if self.halves else np.zeros(0)


def _halved(size: int) -> Iterator[int]:
    """Rows of a column that are added at once, one after the other; 0 where the two sums before become one."""
    if size <= LEAF:
        yield size
        return
    half = size // 2
    half -= half % 8
    yield from _halved(half)
    yield from _halved(size - half)
    yield 0


def column_sums(n: int, pieces: Iterator[np.ndarray], by_column: bool = False) -> np.ndarray:
    """Sum the columns of pieces that come one after the other.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(10_001, 1))
    >>> bool(column_sums(10_001, iter(np.array_split(x, 7)))[0] == x.sum(axis=0)[0])
    True
    """
    sums = ColumnSums(n, by_column)
    for piece in pieces:
        sums.add(piece)
    return sums.total()
