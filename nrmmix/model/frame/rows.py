"""Rows that a fitted model reads, new ones or those that were fitted: what they hold of its columns, from one table that is read once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from nrmmix.common import messages
from nrmmix.model.frame import tables
from nrmmix.model.frame.columns import dates
from nrmmix.model.frame.columns.censoring import limits_of
from nrmmix.model.frame.formula import ModelFrame
from nrmmix.model.frame.sparse import is_sparse, row_index, sparse_counts


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
            self._limits[needed] = limits_of(list(parts), self.table, self.table.index, which=needed)
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
