"""Rows that a fitted model reads, new ones or those that were fitted: what they hold of its columns, from one table that is read once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from nrmmix.common import messages
from nrmmix.common.messages import row_name, unknown_column
from nrmmix.model.frame import arrays, tables
from nrmmix.model.frame.columns import dates
from nrmmix.model.frame.columns.censoring import limits_of
from nrmmix.model.frame.columns.weights import of_column
from nrmmix.model.frame.formula import ModelFrame
from nrmmix.model.frame.sparse import is_sparse, row_index, sparse_counts

ROW = re.compile(r"\brow (\d+)(?: \(index label (\d+)\))?")  # as of `row_name`, where labels are numbers of rows


class FittedRows:
    """The rows that were fitted, with what the frame holds of them; :class:`NewRows` has the same of others."""

    data = None  # what a caller gave

    def __init__(self, frame: ModelFrame):
        self.frame, self.index, self.as_given = frame, frame.index, frame.source

    def covariates(self) -> tuple[np.ndarray, np.ndarray]:
        assert self.frame.covariates is not None
        return self.frame.covariates, np.ones(len(self.index), bool)

    def inputs(self) -> tuple[np.ndarray, np.ndarray]:
        return self.frame.inputs, np.ones(len(self.index), bool)

    def responses(self, which: Iterable[int] | None = None) -> Any:
        return self.frame.seen

    def limits(self, which: Iterable[int] | None = None) -> np.ndarray | None:
        return self.frame.limits

    def lacking(self, which: Iterable[int] | None = None) -> list[str]:
        return []


class NewRows:
    """New rows, by the columns, levels and transformations of a frame; each table is made when it is first asked for.

    Examples
    --------
    >>> from nrmmix.model.frame.formula import model_frame
    >>> frame = model_frame("y ~ x", {"y": [1.0, 2.0], "x": [3.0, 4.0]})
    >>> rows = NewRows(frame, {"x": [5, None]})
    >>> rows.covariates()[0].ravel(), rows.responses() is None, rows.lacking()
    (array([ 5., nan]), True, ['y'])
    """

    def __init__(self, frame: ModelFrame, data: Any):
        self.frame, self.data = frame, data
        self._limits: dict[tuple[int, ...], np.ndarray | None] = {}

    @cached_property
    def as_given(self) -> pd.DataFrame:
        """The rows as a DataFrame, of whatever columns."""
        frame = self.frame
        parts = [*frame.parts_of_responses, *frame.parts_of_covariates, *frame.parts_of_inputs]
        return tables.as_rows(self.data, [name for part in parts for name in part.columns])

    @cached_property
    def table(self) -> pd.DataFrame:
        """The rows as a DataFrame, with numbers for dates; a TypeError or ValueError where they are not like the training data."""
        found, frame = self.as_given, self.frame
        if tables.is_plain(self.data) and not frame.from_array:
            raise TypeError("The model was built from named columns; give new data as a DataFrame or a dict.")
        if tables.is_plain(self.data) and found.shape[1] != len(frame.response_names):
            d = len(frame.response_names)
            one_row = "; one row is newdata[None]" if self.data.shape == (d,) else ""
            raise ValueError(f"The new data have {found.shape[1]} columns; the model was built from {d}{one_row}.")
        return dates.in_days_since(found, frame.first_dates) if frame.first_dates else found

    @cached_property
    def index(self) -> pd.Index:
        """Labels of the rows."""
        return row_index(self.data) if is_sparse(self.data) else self.as_given.index

    def covariates(self) -> tuple[np.ndarray, np.ndarray]:
        """Compute the covariates, with levels and transformations of the training data.

        They are (m, q), NaN in rows where one is missing; then comes the (m,) mask of the rows without missing ones.  A ValueError or
        TypeError for a column that is not there, an unseen level, inf, a transformation that is not finite; for an array where the model
        was built from named columns.
        """
        return self._computed(self.frame.parts_of_covariates)

    def inputs(self) -> tuple[np.ndarray, np.ndarray]:
        """Compute the (m, e) inputs and the mask of the rows that have them all; errors as for :meth:`covariates`."""
        return self._computed(self.frame.parts_of_inputs)

    def _computed(self, parts: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
        table = self.table
        columns, ok = [np.empty((len(table), 0))], np.ones(len(table), dtype=bool)
        for part in parts:
            for name in part.columns:
                if name not in table:
                    raise messages.unknown_column(name, list(table.columns), "the new data")
            values, complete = part.compute(table, table.index)
            columns.append(values)
            ok &= complete
        values = np.hstack(columns)
        values[~ok] = np.nan  # whichever part misses one
        return values, ok

    def responses(self, which: Iterable[int] | None = None) -> Any:
        """Compute the (m, d) responses, NaN where missing or censored; None if a response column is absent.

        Of responses other than `which`, by default all, the columns may be absent.  Errors are those of :meth:`covariates`.
        """
        frame = self.frame
        if frame.is_sparse:
            return sparse_counts(self.data, frame.response_names)
        table, parts = self.table, frame.parts_of_responses
        needed = range(len(parts)) if which is None else which
        out = np.full((len(table), len(parts)), np.nan)
        for j in needed:
            if any(name not in table for name in parts[j].columns):
                return None
            out[:, [j]] = parts[j].compute(table, table.index)[0]
        limits = self.limits(needed)
        return out if limits is None else np.where(np.isnan(limits[..., 0]), out, np.nan)

    def limits(self, which: Iterable[int] | None = None) -> np.ndarray | None:
        """Ends between which responses lie, see `limits_of`, their columns as of :meth:`responses`."""
        if self.frame.is_sparse:
            return None
        parts = self.frame.parts_of_responses
        needed = tuple(range(len(parts)) if which is None else map(int, which))
        if needed not in self._limits:
            self._limits[needed] = limits_of(parts, self.table, self.table.index, which=needed)
        return self._limits[needed]

    def lacking(self, which: Iterable[int] | None = None) -> list[str]:
        """Columns behind some responses, by default all, that the rows do not have."""
        parts = self.frame.parts_of_responses
        needed = range(len(parts)) if which is None else which
        return [name for name in dict.fromkeys(name for j in needed for name in parts[j].columns) if name not in self.as_given]


Rows: TypeAlias = FittedRows | NewRows


def read_rows(frame: ModelFrame, data: Any) -> Rows:
    """New rows, or where data are None those that were fitted; rows that have been read are what they are."""
    if isinstance(data, (FittedRows, NewRows)):
        return data
    return FittedRows(frame) if data is None else NewRows(frame, data)


# ---- parts of rows that are not in memory

class Read(NamedTuple):
    """Responses (m, d), inputs (m, e) and covariates (m, q) of a part, and which of its rows are used."""

    response: Any
    inputs: np.ndarray
    covariates: np.ndarray
    used: np.ndarray
    weight: np.ndarray | None = None  # (m,) how often each row counts; None where once

    def taken(self) -> Read:
        """The rows that are used."""
        if self.used.all():
            return self
        rows: list[Any] = [None if values is None else values[self.used] for values in self]
        return Read(*rows)


def read_part(frame: ModelFrame, table: Any, missing: str) -> Read:
    """Read what a frame needs of a part."""
    if frame.is_sparse:
        y = sparse_counts(table, frame.response_names)
        return _alone(y)
    weight = None if frame.weighed_by is None else of_column(table, frame.weighed_by)
    counts = np.ones(len(table), bool) if weight is None else weight > 0
    if not frame.designs and frame.covariates is None and (plain := _plain(frame, table)) is not None:
        return _alone(plain)._replace(used=counts, weight=weight)
    # what is not used is not looked at: a level or a value there may be one that no row used has
    complete = counts & ~_misses(frame, table, missing)
    if complete.all():
        return _read(frame, table, missing)._replace(weight=weight)
    return _spread(_read_named(frame, table, complete, missing), complete)._replace(weight=weight)


def _misses(frame: ModelFrame, table: pd.DataFrame, missing: str) -> np.ndarray:
    """Whether rows miss something without which they are not used."""
    parts = [*frame.parts_of_covariates, *frame.parts_of_inputs, *(frame.parts_of_responses if missing != "marginalize" else ())]
    needed = dict.fromkeys(name for part in parts for name in part.columns if name in table)
    return table[list(needed)].isna().to_numpy().any(axis=1)


def _read_named(frame: ModelFrame, table: pd.DataFrame, those: np.ndarray, missing: str) -> Read:
    """Read some of the rows; errors name them by their places among all."""
    places = np.flatnonzero(those)
    try:
        return _read(frame, table[those].set_axis(pd.Index(places), axis="index"), missing)
    except ValueError as error:
        raise ValueError(ROW.sub(lambda found: row_name(int(found[2] or found[1]), table.index), str(error))) from None


def _spread(some: Read, those: np.ndarray) -> Read:
    """Put what has been read of some rows in its place among all, of which the others are not used."""
    def among_all(values: np.ndarray) -> np.ndarray:
        out = np.full((len(those), *values.shape[1:]), np.nan)
        out[those] = values
        return out

    used = those.copy()
    used[those] = some.used
    return Read(among_all(some.response), among_all(some.inputs), among_all(some.covariates), used)


def _read(frame: ModelFrame, table: pd.DataFrame, missing: str) -> Read:
    """Read all rows of a table."""
    rows = NewRows(frame, table)
    y = rows.responses()
    if y is None:
        raise unknown_column(rows.lacking()[0], list(table.columns), "the new rows")
    gaps = np.isnan(y)
    arrays.check_finite(np.where(gaps, 0.0, y), frame.response_names, table.index)
    x, used = rows.inputs() if frame.designs else (np.zeros((len(table), 0)), np.ones(len(table), bool))
    z = np.zeros((len(table), 0))
    if frame.covariates is not None:
        z, known = rows.covariates()
        used = used & known
        arrays.check_finite(z[known], frame.covariate_names, table.index, "covariate", np.flatnonzero(known))
    if missing == "marginalize":
        empty = np.flatnonzero(used & gaps.all(axis=1))
        if len(empty):
            where = row_name(empty[0], table.index)
            raise ValueError(f"All responses are missing in {where}, which then says nothing; drop such rows, or use missing='drop'.")
    else:
        used = used & ~gaps.any(axis=1)
    return Read(y, x, z, used)


def _alone(y: Any) -> Read:
    """Responses that all are used."""
    nothing = np.zeros((y.shape[0], 0))
    return Read(y, nothing, nothing, np.ones(y.shape[0], bool))


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
