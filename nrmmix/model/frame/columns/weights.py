"""Weights of rows: how often each counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nrmmix.common.messages import row_name, shown, unknown_column
from nrmmix.common.warnings import warn
from nrmmix.model.frame import arrays, tables
from nrmmix.model.frame.sparse import is_sparse

LARGEST = 1e15  # up to which sums of weights are exact
MOST_COPIES = 1e7  # of rows, which functions of whole columns learn from
MIN_SIZE = 2.0  # rows that all weights together must count for: variances need two


class Weighed(NamedTuple):
    """The rows of a table that count, and how often."""

    data: Any  # a table without the rows whose weight is 0, and where it has no formula without the column of weights
    weight: np.ndarray | None  # (rows,) of these; None where each counts once
    kept: np.ndarray  # (rows of the table,) bool
    column: str | None  # that they are from

    def of(self, frame: Any, from_array: bool) -> Any:
        """A `nrmmix.model.frame.formula.ModelFrame` of that table, with its weights, as one of all rows."""
        used = self.kept.copy()
        used[used] = frame.used
        weight = None if self.weight is None else self.weight[frame.used]
        return replace(frame, used=used, from_array=from_array or frame.from_array, weight=weight, weighed_by=self.column)


def weighed(data: Any, weights: Any, formula: str | None) -> Weighed:
    """Weights of the rows of a table: the name of a column, or an array or Series with one number a row.

    A ValueError for weights that are missing, negative, infinite, all 0 or no numbers names the row; rows of weight 0 are left out with a
    warning.

    Examples
    --------
    >>> found = weighed({"y": [1.0, 2.0, 4.0], "w": [1, 3, 2]}, "w", "y ~ 1")
    >>> found.weight, len(found.data)
    (array([1., 3., 2.]), 3)
    """
    matrix = is_sparse(data) and not isinstance(data, pd.DataFrame)
    table = data if matrix else tables.as_frame(data)
    name, values = "weights", weights
    if isinstance(weights, str):
        known = [] if matrix else list(table.columns)
        if weights not in known:
            raise unknown_column(weights, known) if known else ValueError(
                f"weights={weights!r} names a column, and a sparse matrix has no names; give an array with a number for each row."
            )
        name, values = weights, table[weights]
        table = table.drop(columns=weights) if formula is None else table
    n = table.shape[0]
    weight = checked(values, name, n, None if matrix else table.index)
    kept = weight > 0
    if not kept.any():
        raise ValueError(f"weights: all {n} are 0; give some rows a weight above 0.")
    if not kept.all():
        if matrix:
            raise ValueError(f"weights: {row_name(int(np.argmin(kept)), None)} has the weight 0; leave such rows out of the matrix.")
        table, weight = table.loc[kept], weight[kept]
        warn(f"{int((~kept).sum())} of {n} rows left out: their weight{'' if name == 'weights' else f' ({name!r})'} is 0.")
    if weight.sum() < min(MIN_SIZE, n):
        raise ValueError(
            f"weights add up to {weight.sum():.3g}: the rows would count as fewer than {MIN_SIZE:g}; multiply them, by {n} / sum "
            "for instance."
        )
    return Weighed(table, None if (weight == 1.0).all() else weight, kept, weights if isinstance(weights, str) else None)


def checked(values: Any, name: str, n: int, index: pd.Index | None = None) -> np.ndarray:
    """Weights (n,) as float64.

    Examples
    --------
    >>> checked([1, 2], "weights", 2)
    array([1., 2.])
    """
    if index is not None:
        arrays.check_row_labels(values, index, "weights")
    if np.ndim(values) != 1 or isinstance(values, (dict, set)):
        raise ValueError(f"weights must be the name of a column, or one number for each row, not {shown(values)}.")
    if len(values) != n:
        raise ValueError(f"weights: there are {len(values)} for {n} rows; give one for each.")
    weight = arrays.floats(values, name, index, "column of weights" if name != "weights" else "argument")
    bad = np.flatnonzero(~((weight >= 0) & (weight <= LARGEST)))
    if len(bad):
        i = int(bad[0])
        more = f" (and in {len(bad) - 1} more)" if len(bad) > 1 else ""
        remedy = (
            "fill it, or drop the row" if np.isnan(weight[i]) else "a weight says how often a row counts: 0 leaves it out" if weight[i] < 0
            else f"weights go up to {LARGEST:g}"
        )
        raise ValueError(f"weights: {_who(name)} is {shown(weight[i])} in {row_name(i, index)}{more}; {remedy}.")
    return weight


def of_column(table: Any, column: str) -> np.ndarray:
    """Weights of the rows of a table, or of a part of one, by the name of their column."""
    if column not in table:
        raise unknown_column(column, list(table.columns), "the new rows")
    return checked(table[column], column, len(table), table.index)


def _who(name: str) -> str:
    return "the weight" if name == "weights" else repr(name)


def are_counts(weight: np.ndarray) -> bool:
    """Whether weights are whole numbers, so that rows may be repeated.

    Examples
    --------
    >>> are_counts(np.array([1.0, 3.0])), are_counts(np.array([0.5, 3.0]))
    (True, False)
    """
    return bool((weight == np.floor(weight)).all())


def copies(weight: np.ndarray) -> np.ndarray:
    """Numbers of the rows, each as often as it counts; each once where weights are not whole numbers, or the copies too many.

    Examples
    --------
    >>> copies(np.array([1.0, 3.0])), copies(np.array([0.5, 3.0]))
    (array([0, 1, 1, 1]), array([0, 1]))
    """
    rows = np.arange(len(weight))
    return np.repeat(rows, weight.astype(np.int64)) if are_counts(weight) and weight.sum() <= MOST_COPIES else rows


def insist_on_counts(weight: np.ndarray, index: pd.Index) -> None:
    """A ValueError where weights are not whole numbers, which says which methods take them."""
    bad = np.flatnonzero(weight != np.floor(weight))
    if len(bad):
        raise ValueError(
            f"weights: that of {row_name(int(bad[0]), index)} is {weight[bad[0]]:g}; chains and searches count rows, and need whole "
            'numbers. Other weights are powers of the likelihood, which variational inference takes: method="vb" or "memoized_vb".'
        )


def quantiles(values: np.ndarray, q: Any, weight: np.ndarray | None) -> np.ndarray:
    """Quantiles of (n,) values: of whole weights those of the table in which rows are repeated, of others by the distribution function.

    Examples
    --------
    >>> quantiles(np.array([3.0, 1.0]), 0.25, np.array([1.0, 3.0])) == np.quantile([1.0, 1.0, 1.0, 3.0], 0.25)
    np.True_
    """
    if weight is None:
        return np.quantile(values, q)
    if not are_counts(weight):
        return np.quantile(values, q, weights=weight, method="inverted_cdf")
    order = np.argsort(values, kind="stable")
    end, x = np.cumsum(weight[order]), values[order]
    at = np.asarray(q) * (end[-1] - 1.0)
    low = np.floor(at)
    a, b = (x[np.searchsorted(end, np.minimum(place, end[-1] - 1.0), side="right")] for place in (low, low + 1.0))
    return a + (b - a) * (at - low)
