"""Formulas on sources: the frame of a model whose rows are loaded part by part.

What a frame must know of a table, the levels of categories, which columns hold numbers, that they vary, it learns from few rows that show
it: those with the smallest and largest values, the first of each level and of each pattern of gaps.  Then the rows are gone through once
as new data: each part is checked, and where it begins among the rows used is noted, with a digest of all that is used and the values of
each covariate, by which distances are measured.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from patsy.desc import Term

from nrmmix.common.messages import listed, quoted, row_name, unknown_column
from nrmmix.common.warnings import warn
from nrmmix.model.frame import arrays
from nrmmix.model.frame.columns import dates
from nrmmix.model.frame.columns.censoring import of_two_columns
from nrmmix.model.frame.columns.levels import cells_of
from nrmmix.model.frame.columns.tallies import Tallied
from nrmmix.model.frame.columns.weights import of_column
from nrmmix.model.frame.formula import ModelFrame, check_missing, model_frame, restored_frame
from nrmmix.model.frame.quantiles import Counted, Tally
from nrmmix.model.frame.rows import ROW, read_part
from nrmmix.model.frame.sources.base import Source, SourceChanged
from nrmmix.model.frame.sources.digests import add_to_digest, checks_of, weight_columns
from nrmmix.model.frame.sparse import is_sparse
from nrmmix.model.frame.summary import Means, StreamedSummary, Summary, WeighedPiece
from nrmmix.model.frame.syntax import LEARNING, Syntax, parse, parse_design

FIRST_ROWS = 50  # rows from the beginning that are looked at with the others
MAX_PATTERNS = 4096  # of gaps
FIRST = "rows"  # name among sums of the number of rows that they are of, where further rows have been added to these


OfBlocks: TypeAlias = Callable[[ModelFrame], list[tuple[np.ndarray, np.ndarray]]]


class Piece(NamedTuple):
    """Rows of a part that are used: responses, inputs, covariates, labels."""

    response: Any
    inputs: np.ndarray
    covariates: np.ndarray
    index: pd.Index
    weight: np.ndarray | None = None  # how often each counts; None where once

    def take(self, rows: Any) -> Piece:
        some: list[Any] = [None if values is None else values[rows] for values in self]
        return Piece(*some)


@dataclass(frozen=True, eq=False)
class Index:
    """Index of a source: where its parts begin, and what all rows used have in common."""

    rows: np.ndarray  # (parts + 1,) rows before each part
    used: np.ndarray  # (parts + 1,) of these the used ones
    digest: str  # of what is used
    low: np.ndarray  # (d,) smallest responses
    high: np.ndarray  # (d,)
    has_missing: bool
    covariates: tuple[Counted, ...] = ()  # values of each
    size: float | None = None  # sum of the weights of the rows; None where each counts once
    checks: np.ndarray = field(default_factory=lambda: np.zeros(0))  # (parts, q + 1), by `checks_of`; none of what cannot be loaded again


@dataclass(frozen=True, eq=False)
class StreamedFrame(ModelFrame):
    """A frame of rows that stay where they are: `response`, `inputs`, `index` and `source` are of the few rows that it was learnt from."""

    rows: Source | None = None  # None where it came from a file that does not say where the data are
    places: Index = field(default=None, repr=False)  # type: ignore[assignment]
    missing: str = "drop"
    stamp: tuple[Any, ...] = field(default=(), repr=False)  # fingerprint of the source when it was first gone through
    sums: dict[str, np.ndarray] = field(default_factory=dict, repr=False)  # that defaults of families have been taken from
    tallied: Tallied | None = field(default=None, repr=False)  # values, counted on the way that checked the rows; None of other ways
    has_first: bool = False  # whether the rows that are held are the first of all, from which alone all defaults are taken

    is_streamed: ClassVar[bool] = True

    @property
    def n_used(self) -> int:
        return int(self.places.used[-1])

    @property
    def n_rows(self) -> int:
        return int(self.places.rows[-1])

    @property
    def is_weighted(self) -> bool:
        return self.places.size is not None

    @property
    def size(self) -> float:
        return float(self.n_used if self.places.size is None else self.places.size)

    def summary(self, columns: np.ndarray, inputs: np.ndarray) -> Summary:
        """Summarise some responses, which have some of the inputs, for defaults of hyperparameters."""
        if self.has_first:
            return super().summary(columns, inputs)

        def pieces() -> Iterator[WeighedPiece]:
            for piece in self.pieces():
                weight = () if piece.weight is None else (piece.weight,)
                yield np.ascontiguousarray(piece.response[:, columns]), piece.inputs[:, inputs], *weight

        places = self.places
        rows, size = self.sums.get(FIRST, (self.n_used, self.size))
        ends = places.low[columns], places.high[columns]
        counted = () if self.tallied is None else self.tallied.of(columns, inputs)
        return StreamedSummary(int(rows), pieces, ends, places.has_missing, self.sums, prefix(columns, inputs), float(size), counted)

    def pieces(self, first: int = 0, last: int | None = None) -> Iterator[Piece]:
        """Rows used, from one to before another, part by part.

        A SourceChanged where a part has other rows than when the source was first gone through.
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
            with in_part(source, b):
                piece = self._of_part(table, b)
            before = int(places.used[b])
            some = slice(max(first - before, 0), min(last - before, piece.response.shape[0]))
            if some.stop > some.start:
                yield piece.take(some)

    def _source(self) -> Source:
        if self.rows is None:
            raise ValueError("the rows that were fitted cannot be found: give them as newdata=.")
        return self.rows

    def _of_part(self, table: Any, b: int) -> Piece:
        """Return what is used of part b."""
        places = self.places
        expected = int(places.rows[b + 1] - places.rows[b])
        table = labelled(table, int(places.rows[b]))
        if table.shape[0] != expected:
            raise SourceChanged(f"{self._source().place(b)} had {expected} rows when it was first read, and now has {table.shape[0]}.")
        read = read_part(self, table, self.missing)
        if int(read.used.sum()) != int(places.used[b + 1] - places.used[b]):
            raise SourceChanged(f"{self._source().place(b)} has other missing values than when it was first read.")
        index = pd.RangeIndex(int(places.rows[b]), int(places.rows[b]) + expected)
        y, x, z, _, weight = read.taken()
        if changed := np.flatnonzero(checks_of(y, x, z, weight) != places.checks[b]).tolist():
            which = (*(f" of the covariate {name!r}" for name in self.covariate_names), "")[changed[0]]
            raise SourceChanged(
                f"{self._source().place(b)} has other values{which} than when it was first read; fit again, with data that stay "
                "as they are."
            )
        return Piece(y, x, z, index if read.used.all() else index[read.used], weight)

    def table_of(self, rows: np.ndarray) -> pd.DataFrame:
        """Some of the rows used, by numbers in ascending order, as the source has them."""
        used, found = self.places.used, []
        for b, table in enumerate(self.tables()):
            own = rows[np.searchsorted(rows, used[b]) : np.searchsorted(rows, used[b + 1])] - used[b]
            if len(own):
                found.append(table[read_part(self, table, self.missing).used].iloc[own])
        return pd.concat(found)

    def tables(self) -> Iterator[Any]:
        """The source part by part, as it was given."""
        for b, table in enumerate(self._source().parts()):
            yield labelled(table, int(self.places.rows[b]))

    def __reduce__(self) -> tuple[Any, ...]:
        _, given = super().__reduce__()
        return restored_stream, (*given, self.rows, self.places, self.missing, self.stamp, self.sums, self.has_first)


def prefix(columns: np.ndarray, inputs: np.ndarray) -> str:
    """Return the prefix of the names of sums of some responses and inputs."""
    return f"{','.join(map(str, columns))}/{','.join(map(str, inputs))}/"


def restored_stream(*given: Any) -> StreamedFrame:
    """The frame whose `source`, `used`, ..., `rows`, `places`, `missing`, `stamp`, `sums` and `has_first` these are."""
    *of_few, rows, places, missing, stamp, sums, has_first = given
    return streamed(restored_frame(*of_few, sample_of=int(places.used[-1])), rows, places, missing, stamp, sums, has_first)


def streamed(
    few: ModelFrame, rows: Source | None, places: Index, missing: str, stamp: tuple[Any, ...] | None = None,
    sums: dict[str, np.ndarray] | None = None, has_first: bool = False, tallied: Tallied | None = None,
) -> StreamedFrame:
    """A frame that was learnt from few rows as that of all rows of a source; `stamp` is its fingerprint, by default that of now."""
    if stamp is None:
        stamp = () if rows is None else rows.fingerprint()
    own = {one.name: getattr(few, one.name) for one in fields(ModelFrame)}
    return StreamedFrame(
        **own, rows=rows, places=places, missing=missing, stamp=stamp, sums={} if sums is None else sums, tallied=tallied,
        has_first=has_first,
    )


def labelled(table: Any, first: int) -> Any:
    """A part whose rows are called by their positions in the whole."""
    return table if is_sparse(table) else table.set_axis(pd.RangeIndex(first, first + len(table)), axis="index")


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
    designs: Sequence[str] = (), gathered: Gathered | None = None, weights: str | None = None, blocks: OfBlocks | None = None,
) -> StreamedFrame:
    """Read responses, covariates and inputs of a source; arguments and errors are those of `model_frame`.

    `gathered` is what a first way through it has found, where the designs have no further columns.  `blocks` gives numbers of responses
    and of inputs that defaults are taken from together: the way that checks the rows finds their means.

    Examples
    --------
    >>> from nrmmix.model.frame.sources.opening import source_of
    >>> parts = [{"a": [1.0, 2.0], "b": [0.0, 3.0]}, {"a": [4.0], "b": [None]}]
    >>> frame = streamed_frame("a ~ 1", source_of(parts))
    >>> frame.n_used, [piece.response.shape for piece in frame.pieces()]
    (3, [(2, 1), (1, 1)])
    >>> [own.values.tolist() for own in streamed_frame("a ~ b", source_of(parts[:1])).places.covariates]
    [[0.0, 3.0]]
    """
    gathered = gather(formula, source, missing, designs, weights) if gathered is None else gathered
    source = gathered.source
    of_gaps = "drop" if gathered.is_sparse else "marginalize"
    with gathered.in_parts():
        few = model_frame(formula, gathered.table(), of_gaps, reads, designs, sample_of=gathered.n_used)
    few = replace(few, from_array=formula is None and source.from_array, weighed_by=weights, first_dates=gathered.first_dates)
    those = [] if blocks is None or few.is_sparse else blocks(few)
    means = [(*own, Means(gathered.n - gathered.dropped)) for own in those]
    tallied = None if few.is_sparse else Tallied(few)
    places = index_of(few, source, missing, means=means, tallied=tallied)
    sums: dict[str, np.ndarray] = {}
    for columns, inputs, own in means:
        if own.n == places.used[-1]:  # else what is computed of a row may be missing where its columns are not
            size = own.n if places.size is None else places.size
            sums |= {f"{prefix(columns, inputs)}{name}": values for name, values in own.found(places.has_missing, size).items()}
    return streamed(few, source, places, missing, gathered.stamp, sums, tallied=tallied)


def gather(
    formula: str | None, source: Source, missing: str = "drop", designs: Sequence[str] = (), weights: str | None = None
) -> Gathered:
    """Go through a source for the first time, for what the formula and the designs need of it."""
    check_missing(missing)
    if weights is not None and weights not in source.names:
        raise unknown_column(weights, list(source.names), str(source))
    columns = _columns(formula, source, designs, weights)
    if formula is not None or designs or weights is not None:
        further = [] if weights is None else [weights]
        source = source.select(list(dict.fromkeys([*columns.responses, *columns.needed, *further])))
    return Gathered(source, columns, missing, weights)


class _Columns(NamedTuple):
    responses: list[str]
    needed: list[str]  # by covariates and inputs
    counted: set[str]  # of these, whose numbers are levels


def _columns(formula: str | None, source: Source, designs: Sequence[str], weights: str | None) -> _Columns:
    """Columns of the responses, and of covariates and inputs."""
    known = list(source.names)
    right = [term for design in designs for term in parse_design(design, known)]
    left: list[Term] = []
    if formula is not None:
        left, covariates = parse(formula, known)
        right += covariates
        if censored := next((term.name() for term in left if of_two_columns(term.name())[0]), ""):
            raise ValueError(
                f"{censored}: censored responses need the rows in memory, where chains draw their values; give a table, such as "
                "pandas.read_parquet(path)."
            )
    of_left, of_right = ([Syntax(factor.code, known) for term in side for factor in term.factors] for side in (left, right))
    needed = list(dict.fromkeys(name for check in of_right for name in check.columns))
    responses = list(dict.fromkeys(name for check in of_left for name in check.columns))
    if formula is None:
        responses = [name for name in known if name not in needed and name != weights]
    learning = LEARNING.intersection(*[set().union(*(check.called for check in [*of_left, *of_right]))])
    if learning:
        raise ValueError(
            f"{quoted(sorted(learning))} learns from the whole column, which is not in memory; compute it beforehand, or leave it out."
        )
    return _Columns(responses, needed, set().union(*(check.counted for check in of_right)))


class Gathered:
    """Findings of the first way through a source: the rows that a frame is learnt from, and what is missing."""

    def __init__(self, source: Source, columns: _Columns, missing: str, weights: str | None = None):
        self.source, self.stamp, self.weights, self.idle = source, source.fingerprint(), weights, 0
        self.responses, self.needed, self.counted, self.missing = *columns, missing
        self.n = self.dropped = 0
        self.firsts: list[int] = []  # rows before each part
        self.kept: list[pd.DataFrame] = []
        self.sparse: list[Any] = []
        self.ends: dict[tuple[str, bool], tuple[float, int]] = {}  # by column, and whether it is the largest
        self.levels: dict[str, set[Any]] = {}
        self.gaps = dict.fromkeys([*self.responses, *self.needed], 0)
        self.patterns: set[bytes] = set()
        self.kinds: dict[str, tuple[str, int]] = {}
        self.first_dates: dict[str, pd.Timestamp] = {}  # of columns of dates among those needed
        self.origins: dict[str, pd.Timestamp] = {}  # those of the first part that has some, from which days are counted here
        self.equal = list(combinations(self.responses, 2))
        for b, table in enumerate(source.parts()):
            self.firsts.append(self.n)
            if is_sparse(table):
                self.n += table.shape[0]
                self.sparse += [table[:FIRST_ROWS]] if sum(part.shape[0] for part in self.sparse) < FIRST_ROWS else []
                continue
            with in_part(source, b):
                self._part(labelled(table, self.n), b)
        if self.n == 0:
            raise ValueError(f"{source} has no rows; give at least one row.")
        if self.idle == self.n:
            raise ValueError(f"weights: all {self.n} are 0; give some rows a weight above 0.")
        if self.idle:
            warn(f"{self.idle} of {self.n} rows left out: their weight ({weights!r}) is 0.")
        if not self.is_sparse and self.n_used == 0:
            raise ValueError(f"No row of {self.n} is complete: {self._counts()}; fill them or use fewer columns.")
        for name in self.responses:
            if self.gaps[name] == self.n > 0:
                raise ValueError(f"The response {name!r} is missing in all {self.n} rows; leave it out.")
        if self.dropped:
            warn(f"{self.dropped} of {self.n} rows dropped: {self._counts()}")

    @property
    def is_sparse(self) -> bool:
        return bool(self.sparse)

    @property
    def n_used(self) -> int:
        return self.n - self.idle - self.dropped

    @contextmanager
    def in_parts(self) -> Iterator[None]:
        """Errors about `table`, which name one of its rows, name it by its part and its place there, as errors of a part do."""
        try:
            yield
        except ValueError as error:
            found = ROW.search(str(error))
            if found is None:
                raise
            row = int(found[2] or found[1])
            b = int(np.searchsorted(self.firsts, row, side="right")) - 1
            there = row_name(row - self.firsts[b], pd.RangeIndex(self.firsts[b], row + 1))
            with in_part(self.source, b):
                raise ValueError(str(error).replace(found[0], there)) from None

    def table(self) -> Any:
        """The rows, in their order; days since the first date in place of dates."""
        if self.is_sparse:
            from scipy.sparse import vstack

            return vstack(self.sparse).tocsr()
        return dates.in_days_since(pd.concat(self.kept)[list(self.gaps)], self.first_dates)

    def _counts(self) -> str:
        return "missing values in " + listed(f"{name} ({count})" for name, count in self.gaps.items() if count)

    def _part(self, table: pd.DataFrame, b: int) -> None:
        of_dates = dates.first_dates(table, self.needed)
        in_days = dates.in_days_since(table, {name: self.origins.get(name, first) for name, first in of_dates.items()})
        values = {name: arrays.column(in_days[name], name, codes=name in self.counted) for name in self.gaps}
        masks = {name: arrays.missing_mask(own) for name, own in values.items()}
        self._check_kinds(values, masks, of_dates, b)
        for name, first in of_dates.items():
            self.origins.setdefault(name, first)
            self.first_dates[name] = min(first, self.first_dates.get(name, first))
        for name, mask in masks.items():
            count = int(mask.sum())
            self.gaps[name] += count
            if count and self.missing == "raise":
                where = row_name(np.flatnonzero(mask)[0], table.index)
                raise ValueError(f"The column {name!r} misses {where}; fill it or use missing='drop'.")
        needed = self.needed if self.missing == "marginalize" else list(self.gaps)
        counts = np.ones(len(table), bool) if self.weights is None else of_column(table, self.weights) > 0
        used = ~np.any([~counts, *(masks[name] for name in needed)], axis=0)
        rows = np.flatnonzero(used)
        self.idle += int((~counts).sum())
        self.dropped += int(counts.sum()) - len(rows)
        found = set(rows[: max(FIRST_ROWS - sum(map(len, self.kept)), 0)].tolist())
        for name, own in values.items():
            found |= self._ends(name, own, rows, self.n) if isinstance(own, np.ndarray) else self._levels(name, own, rows)
            if name in self.counted and isinstance(own, np.ndarray):
                found |= self._levels(name, pd.Categorical(own), rows)
        found |= self._patterns(np.column_stack([masks[name] for name in self.responses]), rows) | self._equals(values, rows)
        if found:
            self.kept.append(table.iloc[sorted(found)])
        self.n += len(table)

    def _check_kinds(self, values: dict[str, Any], masks: dict[str, np.ndarray], of_dates: Container[str], b: int) -> None:
        """A ValueError where a column holds numbers in one part and text or dates in another; parts without any value say nothing."""
        for name, own in values.items():
            if masks[name].all():
                continue
            kind = "dates" if name in of_dates else "numbers" if isinstance(own, np.ndarray) else "text"
            was, where = self.kinds.setdefault(name, (kind, b))
            if was != kind:
                raise ValueError(f"the column {name!r} holds {was} in part {where} and {kind} here; convert one of them.")

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
        if not len(some) or len(self.patterns) > MAX_PATTERNS:
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


def index_of(
    frame: ModelFrame, source: Source, missing: str, are_more: bool = False, means: Sequence[tuple[np.ndarray, np.ndarray, Means]] = (),
    tallied: Tallied | None = None,
) -> Index:
    """The second way through a source, with the frame that the first one has led to; covariates of further rows may be constant.

    `means` of some responses and inputs, and what is `tallied` of all, are added to.
    """
    d = len(frame.response_names)
    rows, used, digest, checks, has_missing, size = [0], [0], hashlib.blake2b(digest_size=16), [], False, 0.0
    low, high, covariates = np.full(d, np.inf), np.full(d, -np.inf), _Covariates(frame)
    for b, table in enumerate(source.parts()):
        with in_part(source, b):
            read = read_part(frame, labelled(table, rows[-1]), missing)
        rows.append(rows[-1] + len(read.used))
        used.append(used[-1] + int(read.used.sum()))
        y, x, z, _, weight = read.taken()
        checks.append(checks_of(y, x, z, weight))
        add_to_digest(digest, y, x, z, *weight_columns(weight))
        covariates.add(z, weight)
        for columns, inputs, own in means:
            own.add(np.ascontiguousarray(y[:, columns]), x[:, inputs], weight)
        if tallied is not None:
            tallied.add(y, x, weight)
        size += 0.0 if weight is None else float(weight.sum())
        if isinstance(y, np.ndarray) and len(y):
            has_missing = has_missing or bool(np.isnan(y).any())
            low, high = np.fmin(low, np.nanmin(y, axis=0, initial=np.inf)), np.fmax(high, np.nanmax(y, axis=0, initial=-np.inf))
    of_weights = None if frame.weighed_by is None else size
    found = covariates.total(not are_more)
    return Index(np.array(rows), np.array(used), digest.hexdigest(), low, high, has_missing, found, of_weights, np.array(checks))


class _Covariates:
    """Values of covariates, and rows that show that they vary and differ."""

    def __init__(self, frame: ModelFrame):
        self.names, self.cells, self.n = frame.covariate_names, cells_of(frame.parts_of_covariates), 0
        self.tallies, self.equal = [Tally() for _ in self.names], list(combinations(range(len(self.names)), 2))
        self.apart: list[np.ndarray] = []

    def add(self, z: np.ndarray, weight: np.ndarray | None = None) -> None:
        self.n += len(z)
        for tally, column in zip(self.tallies, z.T, strict=True):
            tally.add(np.ascontiguousarray(column), weight)
        for pair in self.equal.copy():
            i, j = pair
            rows = np.flatnonzero(z[:, i] != z[:, j])
            if len(rows):
                self.apart.append(z[rows[0]])
                self.equal.remove(pair)

    def total(self, insist: bool = True) -> tuple[Counted, ...]:
        """Return the values of each; a ValueError where one is constant, or two are equal, unless one does not insist."""
        found = tuple(tally.total() for tally in self.tallies)
        if found and insist:
            ends = np.array([[own.values[0], own.values[-1]] for own in found]).T
            arrays.check_distinct(np.vstack([ends, *self.apart]), self.names, "covariate", self.n, self.cells)
        return found
