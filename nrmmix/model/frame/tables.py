"""Tables: whatever holds columns becomes a DataFrame."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common.messages import listed, shown
from nrmmix.common.names import bare
from nrmmix.model.frame.whole import whole

__all__ = ["as_frame", "is_plain"]

Levels = Sequence[tuple[Any, ...] | None] | None  # of columns, None for one that has none; None where they are not known
Totals = np.ndarray | None  # (rows,) of the counts of a row; None where there are none

SUPPORTED = (
    "a DataFrame, a dict of columns, a 1-D or 2-D NumPy array, a table of polars or Arrow, or another object with to_pandas()"
)
COUNT_BOUND = 1e9  # differences of log gamma functions keep six digits up to here
COUNTS = "counts are whole numbers, 0 or more and less than 1e9"


def as_frame(data: Any, *, allow_empty: bool = False) -> pd.DataFrame:
    """A DataFrame, Series, mapping of columns, 1-D or 2-D ndarray, or object with `to_pandas()` as a DataFrame with unique string names.

    The columns of an ndarray are named y1 to yd.  The data may be shared with the caller: read, never write.  A TypeError for an
    unsupported type; a ValueError for a table without columns, or without rows unless `allow_empty`, duplicate column names, columns of
    different lengths or a `MultiIndex` of columns.

    Examples
    --------
    >>> as_frame(np.array([[1, 2], [3, 4]])).columns.tolist()
    ['y1', 'y2']
    """
    frame = _to_frame(data)
    if isinstance(frame.columns, pd.MultiIndex):
        raise ValueError("The data have several levels of column names; join them into one string per column.")
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"The column name {name!r} occurs more than once; column names must be unique.")
    if not names:
        raise ValueError("The data have no columns; give at least one column.")
    if not len(frame) and not allow_empty:
        raise ValueError(f"The data have no rows (columns: {listed(names)}); give at least one row.")
    return frame.set_axis(names, axis="columns")


def names_of_levels(index: pd.Index, added: Iterable[str]) -> list[Any]:
    """Names of an index with levels added; its own level of such a name becomes "NAME of the row", as two cannot both become columns.

    Examples
    --------
    >>> names_of_levels(pd.Index([0, 1], name="draw"), ["draw"])
    ['draw of the row', 'draw']
    """
    added = list(added)
    return [*(f"{name} of the row" if name in added else name for name in index.names), *added]


def as_rows(newdata: Any, known: Sequence[str]) -> pd.DataFrame:
    """New rows as a DataFrame, see `as_frame`; a Series by names of columns that are known, or a dict of single values, is one row.

    A Series that has itself the name of a known column is that column, unless all its labels are names of known columns.  A column that is
    called Q("name") as in a formula is the known `name`.

    Examples
    --------
    >>> table = pd.DataFrame({"dose": [1.0, 2.0], "group": ["a", "b"]})
    >>> as_rows(table.iloc[1], ["dose", "group"])
       dose group
    1   2.0     b
    >>> len(as_rows({"dose": 3.0, "group": "a"}, ["dose", "group"])), len(as_rows(table["dose"], ["dose", "group"]))
    (1, 2)
    """
    if isinstance(newdata, pd.Series) and _is_row(newdata, known):
        newdata = newdata.to_frame().T.infer_objects()
    elif isinstance(newdata, Mapping) and newdata and all(pd.api.types.is_scalar(value) for value in newdata.values()):
        newdata = pd.DataFrame([dict(newdata)])
    frame = as_frame(newdata, allow_empty=True)
    quoted = {name: bare(name) for name in frame if name not in known and bare(name) in known and bare(name) not in frame}
    return frame.rename(columns=quoted) if quoted else frame


def _is_row(series: pd.Series, known: Sequence[str]) -> bool:
    labels = series.index.isin(known)
    return bool(labels.all() if series.name in known else labels.any()) and len(series) > 0


def _to_frame(data: Any) -> pd.DataFrame:
    if isinstance(data, pd.DataFrame):
        return data
    if isinstance(data, pd.Series):
        return data.to_frame("y1" if data.name is None else data.name)
    if hasattr(data, "to_pandas") and not _is_polars(data):  # which needs pyarrow for that
        return _from_pandas(data)
    if _is_polars(data):
        return _from_polars(data)
    if hasattr(data, "__arrow_c_stream__") and not isinstance(data, type) and (_arrow() or not hasattr(data, "__dataframe__")):
        return _from_arrow(data)
    if hasattr(data, "compute") and hasattr(data, "to_delayed"):
        raise TypeError(
            f"Data of type {type(data).__name__} of dask are not in memory; give data.compute(), or write them by data.to_parquet(folder) "
            "and give the folder to a variational method."
        )
    if hasattr(data, "__dataframe__") and not isinstance(data, type):
        return _from_interchange(data)
    if isinstance(data, Mapping):
        return _from_columns(data)
    if isinstance(data, np.ndarray):
        return _from_array(data)
    if isinstance(data, (str, os.PathLike)) and os.path.exists(data):
        return _to_frame(whole(data))
    if isinstance(data, (str, os.PathLike)):
        raise TypeError(
            f"Data cannot be a name or path such as {shown(data)}; read the file first: pandas.read_csv(path). There is no such file."
        )
    if hasattr(data, "toarray"):
        raise TypeError(f"Sparse matrices ({type(data).__name__}) are not supported yet; give data.toarray().")
    lazy = "data.collect()" if hasattr(data, "collect") else SUPPORTED
    remedy = "pandas.DataFrame(data), or an array of columns without names" if isinstance(data, (list, tuple)) else lazy
    raise TypeError(f"Data of type {type(data).__name__} are not supported; give {remedy}.")


def _from_pandas(data: Any) -> pd.DataFrame:
    name = type(data).__name__
    try:
        converted = data.to_pandas()
    except Exception as error:
        raise TypeError(f"to_pandas() of {name} failed ({error}); give {SUPPORTED}.") from error
    if not isinstance(converted, (pd.DataFrame, pd.Series)):
        raise TypeError(f"to_pandas() of {name} did not return a DataFrame but {type(converted).__name__}.")
    return _to_frame(converted)


def _is_polars(data: Any) -> bool:
    return type(data).__module__.split(".")[0] == "polars" and hasattr(data, "get_columns")


def _from_polars(data: Any) -> pd.DataFrame:
    """A DataFrame of polars, column by column: numbers as NumPy has them, text, levels of an Enum in their order, others sorted."""
    columns = {}
    for series in data.get_columns():
        kind = str(series.dtype)
        if kind.startswith(("List", "Array", "Struct")):
            raise ValueError(
                f"The column {series.name!r} is nested ({kind}): give one number or text a row, as by unnest or explode, or drop it."
            )
        if kind.startswith(("Object", "Binary")):
            raise ValueError(f"The column {series.name!r} is of the type {kind}, which is neither number nor text: convert it, or drop it.")
        values = series.to_list()
        if kind.startswith(("Categorical", "Enum")):
            levels = getattr(series.dtype, "categories", None) if kind.startswith("Enum") else None
            columns[series.name] = pd.Categorical(values, categories=None if levels is None else list(levels))
        elif kind in ("Boolean",):
            columns[series.name] = pd.array(values, dtype="boolean") if None in values else np.array(values, bool)
        elif kind.startswith(("Int", "UInt")):
            integers = pd.Series(values, dtype=object)
            are_large = any(value is not None and abs(value) >= 2**53 for value in values)  # floats do not tell all of these apart
            columns[series.name] = integers.infer_objects() if None not in values else integers if are_large else integers.astype(float)
        elif kind.startswith(("Float", "Decimal")):
            columns[series.name] = np.array([np.nan if value is None else float(value) for value in values], float)
        else:
            columns[series.name] = pd.Series(values, dtype=object)
    return pd.DataFrame(columns)


def _arrow() -> Any:
    """pyarrow; None where it is not installed."""
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow


def _from_arrow(data: Any) -> pd.DataFrame:
    """Anything with Arrow's protocol of streams, such as readers of batches, and tables of DuckDB, Ibis and nanoarrow."""
    name, arrow = type(data).__name__, _arrow()
    if arrow is None:
        raise TypeError(f"{name} offers its columns by Arrow's protocol, which needs pyarrow: install it, or give {SUPPORTED}.")
    try:
        return arrow.table(data).to_pandas()
    except Exception as error:
        raise TypeError(f"{name} could not be read by Arrow's protocol ({error}); give {SUPPORTED}.") from error


def _from_interchange(data: Any) -> pd.DataFrame:
    """Anything with the dataframe interchange protocol, such as tables of cuDF, Modin, Vaex and Ibis."""
    import warnings

    name = type(data).__name__
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas means to leave the protocol to others one day
            return _to_frame(pd.api.interchange.from_dataframe(data))
    except Exception as error:
        raise TypeError(
            f"{name} could not be read by the dataframe interchange protocol ({error}): its columns must hold numbers, text, categories or "
            "truth values, none of them nested."
        ) from error


def _from_columns(data: Mapping[Any, Any]) -> pd.DataFrame:
    lengths = {}
    for name, values in data.items():
        dimensions = getattr(values, "ndim", 1 if isinstance(values, Sized) else 0)
        if isinstance(values, (str, bytes, Set, Mapping)) or dimensions == 0:
            raise ValueError(
                f"The column {name!r} of the dict is not a list of values but {shown(values)} ({type(values).__name__}); "
                "give every column as a list, an array or a Series."
            )
        if dimensions > 1:
            raise ValueError(f"The column {name!r} of the dict has {dimensions} dimensions; give columns of one dimension.")
        lengths[name] = len(values)
    if len(set(lengths.values())) > 1:
        counted = listed(f"{name!r} has {length}" for name, length in lengths.items())
        raise ValueError(f"The columns of the dict differ in length ({counted}); give columns of one length.")
    frame = pd.DataFrame(dict(data))
    if len(frame) > max(lengths.values(), default=0):  # pandas has lined up the rows by their labels
        raise ValueError("The Series in the dict have different indexes; give them the same one, or values without: .to_numpy().")
    return frame


def _from_array(data: np.ndarray) -> pd.DataFrame:
    if is_plain(data):
        if data.ndim not in (1, 2):
            raise ValueError(f"An array of data must have 1 or 2 dimensions, not {data.ndim}.")
        table = data[:, None] if data.ndim == 1 else data
        return pd.DataFrame(table, columns=[f"y{j + 1}" for j in range(table.shape[1])])
    if data.ndim != 1:
        raise ValueError(f"An array with named fields must have 1 dimension, not {data.ndim}.")
    names = data.dtype.names or ()
    for name in names:
        if data[name].ndim > 1 or data.dtype[name].names:
            raise ValueError(f"The field {name!r} of the array is itself an array or a record; give one number or text a field.")
    return pd.DataFrame({name: data[name] for name in names})


def is_plain(data: Any) -> bool:
    """Whether data are an array without column names."""
    return isinstance(data, np.ndarray) and data.dtype.names is None
