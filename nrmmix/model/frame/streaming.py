"""Formulas on sources: the frame of a model whose rows are loaded part by part.

What a frame must know of a table, the levels of categories, which columns hold numbers, that they vary, it learns from few rows that show
it: those with the smallest and largest values, the first of each level and of each pattern of gaps.  Then the rows are gone through once
as new data: each part is checked, and where it begins among the rows used is noted, with a digest of all that is used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from nrmmix.common.messages import listed, quoted, row_name
from nrmmix.common.warnings import warn
from nrmmix.model.frame import arrays
from nrmmix.model.frame.formula import MISSING, ModelFrame, model_frame, restored_frame
from nrmmix.model.frame.sources import Source, SourceChanged, source_of
from nrmmix.model.frame.sparse import is_sparse, sparse_counts
from nrmmix.model.frame.summary import StreamedSummary
from nrmmix.model.frame.syntax import Syntax, parse, parse_design
from nrmmix.model.frame.tables import unknown_column

FEW = 50  # rows from the beginning that are looked at with the others
MOST_PATTERNS = 4096  # of gaps
LEARNING = {"center", "standardize", "scale", "bs", "cr", "cc", "te"}  # functions that learn from the whole column


@dataclass(frozen=True, eq=False)
class Index:
    """Where the parts of a source begin, and what all rows used have in common."""

    rows: np.ndarray  # (parts + 1,) rows before each part
    used: np.ndarray  # (parts + 1,) of these the used ones
    digest: str  # of what is used
    low: np.ndarray  # (d,) smallest responses
    high: np.ndarray  # (d,)
    has_gaps: bool


@dataclass(frozen=True, eq=False)
class StreamedFrame(ModelFrame):
    """A frame of rows that stay where they are: `response`, `inputs`, `index` and `source` are of the few rows that it was learnt from."""

    rows: Source | None = None  # None where it came from a file that does not say where the data are
    places: Index = field(default=None, repr=False)  # type: ignore[assignment]
    missing: str = "drop"
    stamp: tuple[Any, ...] = field(default=(), repr=False)  # fingerprint of the source when it was first gone through

    is_streamed: ClassVar[bool] = True

    @property
    def n_used(self) -> int:
        return int(self.places.used[-1])

    @property
    def n_rows(self) -> int:
        return int(self.places.rows[-1])

    def summary(self, columns: np.ndarray, inputs: np.ndarray) -> StreamedSummary:
        """What defaults of some responses, which have some of the inputs, are taken from."""
        def pieces() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for y, x, _ in self.pieces():
                yield np.ascontiguousarray(y[:, columns]), x[:, inputs]

        places = self.places
        return StreamedSummary(self.n_used, pieces, (places.low[columns], places.high[columns]), places.has_gaps)

    def pieces(self, first: int = 0, last: int | None = None) -> Iterator[tuple[Any, np.ndarray, pd.Index]]:
        """Responses and inputs of rows used, from one to before another, part by part, and the labels of these rows.

        A SourceChanged where the source has other rows than when it was first gone through.
        """
        places, last = self.places, self.n_used if last is None else last
        if first >= last:
            return
        start = int(np.searchsorted(places.used, first, side="right")) - 1
        stop = int(np.searchsorted(places.used, last, side="left"))
        source = self._source()
        if source.fingerprint() != self.stamp:
            raise SourceChanged(f"{source} has been changed since it was first read; fit again, with data that stay as they are.")
        for b, table in zip(range(start, stop), source.parts(start, stop), strict=True):
            y, x, index = self._of_part(table, b)
            before = int(places.used[b])
            some = slice(max(first - before, 0), min(last - before, y.shape[0]))
            if some.stop > some.start:
                yield y[some], x[some], index[some]

    def _source(self) -> Source:
        if self.rows is None:
            raise ValueError("the rows that were fitted cannot be found: give them as newdata=.")
        return self.rows

    def _of_part(self, table: Any, b: int) -> tuple[Any, np.ndarray, pd.Index]:
        """What is used of part b."""
        places = self.places
        expected = int(places.rows[b + 1] - places.rows[b])
        table = labelled(table, int(places.rows[b]))
        if table.shape[0] != expected:
            raise SourceChanged(f"{self._source().place(b)} had {expected} rows when it was first read, and now has {table.shape[0]}.")
        y, x, used = read_part(self, table, self.missing)
        if int(used.sum()) != int(places.used[b + 1] - places.used[b]):
            raise SourceChanged(f"{self._source().place(b)} has other missing values than when it was first read.")
        index = pd.RangeIndex(int(places.rows[b]), int(places.rows[b]) + expected)
        return (y, x, index) if used.all() else (y[used], x[used], index[used])

    def tables(self) -> Iterator[Any]:
        """The source part by part, as it was given."""
        for b, table in enumerate(self._source().parts()):
            yield labelled(table, int(self.places.rows[b]))

    def __reduce__(self) -> tuple[Any, ...]:
        _, given = super().__reduce__()
        return restored_stream, (*given, self.rows, self.places, self.missing, self.stamp)


def restored_stream(*given: Any) -> StreamedFrame:
    """The frame whose `source`, `used`, ..., `rows`, `places`, `missing` and `stamp` these are."""
    *of_few, rows, places, missing, stamp = given
    return streamed(restored_frame(*of_few), rows, places, missing, stamp)


def streamed(
    few: ModelFrame, rows: Source | None, places: Index, missing: str, stamp: tuple[Any, ...] | None = None
) -> StreamedFrame:
    """A frame that was learnt from few rows as that of all rows of a source; `stamp` is its fingerprint, by default that of now."""
    if stamp is None:
        stamp = () if rows is None else rows.fingerprint()
    own = {one.name: getattr(few, one.name) for one in fields(ModelFrame)}
    return StreamedFrame(**own, rows=rows, places=places, missing=missing, stamp=stamp)


def found_again(path: str | None) -> Source | None:
    """The source at a path that a file names; None where there is none any more, which is said once rows are asked for."""
    try:
        return None if path is None else source_of(path)
    except (OSError, ValueError, ImportError):
        return None


def labelled(table: Any, first: int) -> Any:
    """A part whose rows are called by their positions in the whole."""
    return table if is_sparse(table) else table.set_axis(pd.RangeIndex(first, first + len(table)), axis="index")


def read_part(frame: ModelFrame, table: Any, missing: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """Responses and inputs of a part, and which rows are used."""
    if frame.is_sparse:
        y = sparse_counts(table, frame.response_names)
        return y, np.zeros((y.shape[0], 0)), np.ones(y.shape[0], bool)
    if not frame.designs and (plain := _plain(frame, table)) is not None:
        return plain, np.zeros((len(plain), 0)), np.ones(len(plain), bool)
    y = frame.new_response(table)
    if y is None:
        lacking = next(name for part in frame.parts_of_responses for name in part.columns if name not in table)
        raise unknown_column(lacking, list(table.columns), "the new rows")
    gaps = np.isnan(y)
    arrays.check_finite(np.where(gaps, 0.0, y), frame.response_names, table.index)
    x, used = frame.new_inputs(table) if frame.designs else (np.zeros((len(table), 0)), np.ones(len(table), bool))
    if missing == "marginalize":
        empty = np.flatnonzero(used & gaps.all(axis=1))
        if len(empty):
            where = row_name(empty[0], table.index)
            raise ValueError(f"All responses are missing in {where}, which then says nothing; drop such rows, or use missing='drop'.")
    else:
        used = used & ~gaps.any(axis=1)
    return y, x, used


def _plain(frame: ModelFrame, table: pd.DataFrame) -> np.ndarray | None:
    """Responses that are columns of floats as they are, all there and none too large: nothing is to be computed, checked or left out."""
    parts = frame.parts_of_responses
    if not all(part.is_plain and part.reads == "numbers" and part.columns[0] in table for part in parts):
        return None
    own = table[[part.columns[0] for part in parts]]
    if any(dtype != np.float64 for dtype in own.dtypes):
        return None
    y = np.ascontiguousarray(own.to_numpy())
    largest = max(float(y.max(initial=0.0)), -float(y.min(initial=0.0)))  # NaN where any is
    return y if largest <= arrays.LARGEST else None


@contextmanager
def in_part(source: Source, b: int) -> Iterator[None]:
    """Errors say which part they are of."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        raise ValueError(f"{text.removesuffix('.')} ({source.place(b)}).") from None


def streamed_frame(
    formula: str | None, source: Source, missing: str = "drop", reads: Callable[[Sequence[str]], Sequence[str]] | None = None,
    designs: Sequence[str] = (),
) -> StreamedFrame:
    """Read responses and inputs of a source; arguments and errors are those of `model_frame`.

    There are no covariates: density regression needs its table in memory.

    Examples
    --------
    >>> from nrmmix.model.frame.sources import source_of
    >>> parts = [{"a": [1.0, 2.0], "b": [0.0, 3.0]}, {"a": [4.0], "b": [None]}]
    >>> frame = streamed_frame("a ~ 1", source_of(parts))
    >>> frame.n_used, [y.shape for y, *_ in frame.pieces()]
    (3, [(2, 1), (1, 1)])
    """
    if missing not in MISSING:
        raise ValueError(f"missing={missing!r} is not available; use {' or '.join(f'missing={kind!r}' for kind in MISSING)}.")
    of_responses, of_inputs = _columns(formula, source, designs)
    from_array = formula is None and source.from_array
    if formula is not None or designs:
        source = source.select([*of_responses, *(name for name in of_inputs if name not in of_responses)])
    stamp = source.fingerprint()
    gathered = _Gathered(source, of_responses, of_inputs, missing)
    few = model_frame(formula, gathered.table(), "drop" if gathered.is_sparse else "marginalize", reads, designs)
    few = replace(few, from_array=from_array)
    return streamed(few, source, index_of(few, source, missing), missing, stamp)


def _columns(formula: str | None, source: Source, designs: Sequence[str]) -> tuple[list[str], list[str]]:
    """Columns of the responses, and of the inputs."""
    known = list(source.names)
    checks = [Syntax(factor.code, known) for design in designs for term in parse_design(design, known) for factor in term.factors]
    inputs = list(dict.fromkeys(name for check in checks for name in check.columns))
    if formula is None:
        responses = [name for name in known if name not in inputs]
    else:
        left, right = parse(formula, known)
        if any(term.factors for term in right):
            raise ValueError(
                f"{formula!r} has covariates, and density regression needs its table in memory: give pandas.read_parquet(path), or "
                "responses ~ 1."
            )
        own = [Syntax(factor.code, known) for term in left for factor in term.factors]
        responses = list(dict.fromkeys(name for check in own for name in check.columns))
        checks += own
    learning = LEARNING.intersection(*[set().union(*(check.called for check in checks))])
    if learning:
        raise ValueError(
            f"{quoted(sorted(learning))} learns from the whole column, which is not in memory; compute it beforehand, or leave it out."
        )
    return responses, inputs


class _Gathered:
    """What the first way through a source finds: the rows that a frame is learnt from, and what is missing."""

    def __init__(self, source: Source, responses: list[str], inputs: list[str], missing: str):
        self.responses, self.inputs, self.missing = responses, inputs, missing
        self.n = self.dropped = 0
        self.kept: dict[int, pd.DataFrame] = {}  # by position
        self.sparse: list[Any] = []
        self.ends: dict[tuple[str, bool], tuple[float, int]] = {}  # by column, and whether it is the largest
        self.levels: dict[str, set[Any]] = {}
        self.gaps = dict.fromkeys([*responses, *inputs], 0)
        self.patterns: set[bytes] = set()
        self.kinds: dict[str, tuple[bool, int]] = {}
        self.equal = list(combinations(responses, 2))
        for b, table in enumerate(source.parts()):
            if is_sparse(table):
                self.n += table.shape[0]
                self.sparse += [table[:FEW]] if sum(part.shape[0] for part in self.sparse) < FEW else []
                continue
            with in_part(source, b):
                self._part(labelled(table, self.n), b)
        if self.n == 0:
            raise ValueError(f"{source} has no rows; give at least one row.")
        if not self.is_sparse and self.dropped == self.n:
            raise ValueError(f"No row of {self.n} is complete: {self._counts()}; fill them or use fewer columns.")
        for name in self.responses:
            if self.gaps[name] == self.n > 0:
                raise ValueError(f"The response {name!r} is missing in all {self.n} rows; leave it out.")
        if self.dropped:
            warn(f"{self.dropped} of {self.n} rows dropped: {self._counts()}")

    @property
    def is_sparse(self) -> bool:
        return bool(self.sparse)

    def table(self) -> Any:
        """The rows, in their order."""
        if self.is_sparse:
            from scipy.sparse import vstack

            return vstack(self.sparse).tocsr()
        return pd.concat([self.kept[position] for position in sorted(self.kept)])

    def _counts(self) -> str:
        return "missing values in " + listed(f"{name} ({count})" for name, count in self.gaps.items() if count)

    def _part(self, table: pd.DataFrame, b: int) -> None:
        values = {name: arrays.column(table[name], name) for name in self.gaps}
        masks = {name: arrays.missing_mask(own) for name, own in values.items()}
        self._check_kinds(values, masks, b)
        for name, mask in masks.items():
            count = int(mask.sum())
            self.gaps[name] += count
            if count and self.missing == "raise":
                where = row_name(np.flatnonzero(mask)[0], table.index)
                raise ValueError(f"The column {name!r} misses {where}; fill it or use missing='drop'.")
        needed = self.inputs if self.missing == "marginalize" else list(self.gaps)
        used = ~np.any([np.zeros(len(table), bool), *(masks[name] for name in needed)], axis=0)
        rows = np.flatnonzero(used)
        self.dropped += len(table) - len(rows)
        found = set(rows[: max(FEW - len(self.kept), 0)].tolist())
        for name, own in values.items():
            found |= self._ends(name, own, rows, self.n) if isinstance(own, np.ndarray) else self._levels(name, own, rows)
        found |= self._patterns(np.column_stack([masks[name] for name in self.responses]), rows) | self._equals(values, rows)
        for i in found:
            self.kept[self.n + i] = table.iloc[[i]]
        self.n += len(table)

    def _check_kinds(self, values: dict[str, Any], masks: dict[str, np.ndarray], b: int) -> None:
        """A ValueError where a column holds numbers in one part and text in another; parts without any value say nothing."""
        for name, own in values.items():
            if masks[name].all():
                continue
            is_text = not isinstance(own, np.ndarray)
            was, where = self.kinds.setdefault(name, (is_text, b))
            if was != is_text:
                words = ("numbers", "text")
                raise ValueError(f"the column {name!r} holds {words[was]} in part {where} and {words[is_text]} here; convert one of them.")

    def _ends(self, name: str, values: np.ndarray, rows: np.ndarray, first: int) -> set[int]:
        """The row of the smallest value so far and that of the largest, where this part has them."""
        rows = rows[~np.isnan(values[rows])]
        found = set()
        for is_largest in (False, True) if len(rows) else ():
            sign = -1.0 if is_largest else 1.0
            i = int(rows[np.argmin(sign * values[rows])])
            best = self.ends.get((name, is_largest))
            if best is None or sign * values[i] < sign * best[0]:
                self.ends[name, is_largest] = float(values[i]), first + i
                found.add(i)
        return found

    def _levels(self, name: str, values: pd.Categorical, rows: np.ndarray) -> set[int]:
        known = self.levels.setdefault(name, set())
        codes, first = np.unique(values.codes[rows], return_index=True)
        new = {i for code, i in zip(codes.tolist(), first.tolist(), strict=True) if code >= 0 and values.categories[code] not in known}
        known |= set(values.categories[codes[codes >= 0]])
        return {int(rows[i]) for i in new}

    def _patterns(self, masks: np.ndarray, rows: np.ndarray) -> set[int]:
        some = rows[masks[rows].any(axis=1)]
        if not len(some) or len(self.patterns) > MOST_PATTERNS:
            return set()
        patterns, first = np.unique(np.packbits(masks[some], axis=1), axis=0, return_index=True)
        new = [int(some[i]) for pattern, i in zip(patterns, first.tolist(), strict=True) if pattern.tobytes() not in self.patterns]
        self.patterns |= {pattern.tobytes() for pattern in patterns}
        return set(new)

    def _equals(self, values: dict[str, Any], rows: np.ndarray) -> set[int]:
        """Rows that tell columns apart that were equal so far."""
        found = set()
        for pair in self.equal.copy():
            a, b = (values[name] for name in pair)
            if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
                apart = np.flatnonzero(a[rows] != b[rows])
                if not len(apart):
                    continue
                found.add(int(rows[apart[0]]))
            self.equal.remove(pair)
        return found


def index_of(frame: ModelFrame, source: Source, missing: str) -> Index:
    """The second way through a source, with the frame that the first one has led to."""
    d = len(frame.response_names)
    rows, used, digest, has_gaps = [0], [0], hashlib.blake2b(digest_size=16), False
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    for b, table in enumerate(source.parts()):
        with in_part(source, b):
            y, x, own = read_part(frame, labelled(table, rows[-1]), missing)
        rows.append(rows[-1] + len(own))
        used.append(used[-1] + int(own.sum()))
        y, x = y[own], x[own]
        for array in (y, x) if isinstance(y, np.ndarray) else (np.diff(y.indptr), y.indices, y.data):
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
        if isinstance(y, np.ndarray) and len(y):
            has_gaps = has_gaps or bool(np.isnan(y).any())
            low, high = np.fmin(low, np.nanmin(y, axis=0, initial=np.inf)), np.fmax(high, np.nanmax(y, axis=0, initial=-np.inf))
    return Index(np.array(rows), np.array(used), digest.hexdigest(), low, high, has_gaps)
