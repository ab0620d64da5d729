"""Sparse counts: matrices of SciPy, and DataFrames with sparse columns, as CSR arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common import messages
from nrmmix.model.frame import tables


def is_sparse(data: Any) -> bool:
    """Whether data are a sparse matrix or array of SciPy, or a DataFrame whose columns are all sparse."""
    if isinstance(data, pd.DataFrame):
        return data.shape[1] > 0 and all(isinstance(dtype, pd.SparseDtype) for dtype in data.dtypes)
    return hasattr(data, "tocsr") and hasattr(data, "nnz")


def column_names(data: Any) -> tuple[str, ...]:
    """Names of the columns of sparse data: y1, y2, ... where they have none."""
    if isinstance(data, pd.DataFrame):
        return tuple(tables.as_frame(data, allow_empty=True).columns)
    return tuple(f"y{j + 1}" for j in range(data.shape[1]))


def row_index(data: Any) -> pd.Index:
    """Labels of the rows of sparse data."""
    return data.index if isinstance(data, pd.DataFrame) else pd.RangeIndex(data.shape[0])


def sparse_counts(data: Any, names: tuple[str, ...] | None = None) -> Any:
    """Counts as a CSR array of floats in canonical form, a copy: of a sparse matrix or array of SciPy, a DataFrame, or a 2-D ndarray.

    `names` are the columns that are wanted, those of the training data; columns of a DataFrame are found by them.  A ValueError or
    TypeError if an entry is not a count, or columns are missing.

    Examples
    --------
    >>> sparse_counts(np.array([[0, 2], [1, 0]])).data
    array([2., 1.])
    """
    from scipy.sparse import csr_array

    if isinstance(data, pd.DataFrame):
        data = _of_frame(data, names)
    elif tables.is_plain(data) and data.ndim == 2:
        data = csr_array(data)
    if not is_sparse(data):
        raise TypeError("The model was built from sparse counts; give new data as a sparse matrix, a DataFrame or a 2-D array.")
    if np.issubdtype(data.dtype, np.complexfloating):
        raise ValueError("The sparse matrix holds complex numbers, which are no counts; give whole numbers.")
    if data.dtype == bool:
        raise ValueError("The sparse matrix holds True and False, which are no counts; give whole numbers.")
    made = csr_array(data, dtype=np.float64, copy=True)
    made.sum_duplicates()
    made.eliminate_zeros()
    if names is not None and made.shape[1] != len(names):
        raise ValueError(f"The new data have {made.shape[1]} columns; the model was built from {len(names)}.")
    bad = np.flatnonzero(~((made.data > 0) & (made.data == np.floor(made.data)) & (made.data < tables.COUNT_BOUND)))
    if len(bad):
        row = int(np.searchsorted(made.indptr, bad[0], side="right")) - 1
        column = int(made.indices[bad[0]])
        name = f"y{column + 1}" if names is None else names[column]
        raise ValueError(f"The response {name!r} is {messages.plain(made.data[bad[0]])} in row {row}, not a count: {tables.COUNTS}.")
    return made


def _of_frame(frame: pd.DataFrame, names: tuple[str, ...] | None) -> Any:
    """The columns of a DataFrame as a sparse matrix."""
    frame = tables.as_frame(frame, allow_empty=True)
    if names is not None:
        for name in names:
            if name not in frame:
                raise messages.unknown_column(name, list(frame.columns), "the new data")
        frame = frame[list(names)]
    if not is_sparse(frame):
        from scipy.sparse import csr_array

        return csr_array(frame.to_numpy(dtype=np.float64))
    for name, dtype in frame.dtypes.items():
        if dtype.fill_value != 0:
            raise ValueError(f"The sparse column {name!r} has the fill value {dtype.fill_value!r}; counts are 0 where nothing is stored.")
    return frame.sparse.to_coo()
