"""Source that data are, as users give them: a path, an array on the disk, an object with parts, an iterator; or none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common.messages import shown
from nrmmix.model.frame.sources.base import Source
from nrmmix.model.frame.sources.files import CsvSource, ParquetSource
from nrmmix.model.frame.sources.own import ArraySource, IteratedSource, OwnSource
from nrmmix.model.frame.sparse import is_sparse
from nrmmix.model.frame.whole import insist_on_kind

ENDINGS = (".parquet", ".csv", ".npy")


def source_of(data: Any) -> Source | None:
    """The source that data are, where they are to be loaded part by part; None for tables in memory.

    Sources are the path of a .parquet file, of a folder of them, of a .csv or a .npy file, a memmap, an object with `n_batches` and `load`,
    a list of tables, or a function that gives tables one after the other.  A FileNotFoundError, ValueError or TypeError if there is no
    such file, it is of another kind, or an iterator cannot begin anew.

    Examples
    --------
    >>> source_of([np.zeros((3, 2)), np.ones((4, 2))]).n_batches
    2
    >>> source_of(np.zeros((3, 2))) is None
    True
    """
    if isinstance(data, Source):
        return data
    if isinstance(data, (str, os.PathLike)):
        return _of_path(data)
    if isinstance(data, np.memmap) and data.dtype.names is None:
        return ArraySource(data)
    if isinstance(data, (np.ndarray, pd.DataFrame, pd.Series, dict)) or is_sparse(data):
        return None
    if hasattr(data, "load") and hasattr(data, "n_batches"):
        return OwnSource(data)
    if any(hasattr(data, name) for name in ("to_pandas", "__dataframe__", "to_delayed")):
        return None
    if isinstance(data, (list, tuple)):
        return IteratedSource(data) if data and all(_is_table(part) for part in data) else None
    if callable(data) and not isinstance(data, type):
        return IteratedSource(_restartable(data))
    if hasattr(data, "__iter__"):
        if iter(data) is data:
            raise TypeError(
                f"data are a {type(data).__name__}, which can be gone through once only, and every pass begins anew: give the function "
                "that makes it, a list of tables, or an object whose __iter__ begins anew."
            )
        return IteratedSource(data)
    return None


def _is_table(part: Any) -> bool:
    if isinstance(part, dict):
        return all(np.ndim(values) == 1 for values in part.values())
    return is_sparse(part) or isinstance(part, pd.DataFrame) or (isinstance(part, np.ndarray) and part.ndim == 2)


def _restartable(function: Callable[[], Any]) -> Callable[[], Any]:
    first = function()
    if not hasattr(first, "__iter__"):
        raise TypeError(f"the function given as data returned {shown(first)}; it must return an iterator over tables.")
    if iter(first) is first and function() is first:
        raise TypeError("the function given as data returns the same iterator every time, which cannot begin anew; have it make a new one.")
    return function


def found_again(path: str | None) -> Source | None:
    """The source at a path that a file names; None where there is none any more, which is said once rows are asked for."""
    try:
        return None if path is None else source_of(path)
    except (OSError, ValueError, ImportError):
        return None


def _of_path(data: Any) -> Source | None:
    path = Path(data)
    text = os.fspath(data)
    if not path.exists():
        if path.suffix.lower() in ENDINGS and path.suffix.lower() != ".csv":
            raise FileNotFoundError(f"there is no file {shown(str(text))}; give the path of one, or a table.")
        return None  # a name, which is no table
    if path.is_dir() or path.suffix.lower() in (".parquet", ".pq"):
        return ParquetSource(str(text))
    if path.suffix.lower() == ".csv":
        return CsvSource(str(text))
    if path.suffix.lower() == ".npy":
        return ArraySource(str(text))
    insist_on_kind(path)
    return None  # compressed, which cannot be read from its middle, and so as a whole
