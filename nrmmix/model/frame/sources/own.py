"""Sources of rows in arrays on the disk, in objects of the user's with `n_batches` and `load`, and in what can be iterated over anew."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common.messages import unknown_column
from nrmmix.model.frame import tables
from nrmmix.model.frame.sources.base import PART, Source, SourceChanged, stamp
from nrmmix.model.frame.sparse import column_names, is_sparse


class ArraySource(Source):
    """A two-dimensional array on the disk or in memory, `numpy.memmap` or the name of a .npy file; columns are called y1 to yd."""

    def __init__(self, array: Any):
        if isinstance(array, (str, os.PathLike)):
            self.path = str(array)
            array = _opened(self.path)
        self.array = array
        self.file = getattr(array, "filename", None) or self.path
        if array.ndim not in (1, 2) or 0 in array.shape:
            raise ValueError(f"{self} has the shape {array.shape}; an array of data has one or two dimensions and at least one row.")
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{self} holds {array.dtype}; give an array of real numbers.")
        self.names = tuple(f"y{j + 1}" for j in range(1 if array.ndim == 1 else array.shape[1]))
        self.from_array, self.remedy = True, "the array in memory, numpy.array(numpy.load(path))"

    @property
    def n_batches(self) -> int:
        return -(-len(self.array) // PART)

    def load(self, b: int) -> pd.DataFrame:
        rows = np.array(self.array[b * PART : (b + 1) * PART])  # a copy: pages of a memmap count as memory of the process
        return pd.DataFrame(rows.reshape(len(rows), -1), columns=list(self.names))

    def fingerprint(self) -> tuple[Any, ...]:
        return () if self.file is None else stamp(self.file)

    def __getstate__(self) -> dict[str, Any]:
        """A file is opened again where it is needed; its pages do not travel."""
        return vars(self) | ({"array": None} if self.file is not None else {})

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.array is None:
            self.array = _opened(str(self.file))

    def __str__(self) -> str:
        return "the array" if self.file is None else repr(str(self.file))


def _opened(path: str) -> np.ndarray:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path!r} is no array that numpy.save has written: {error}") from None


class OwnSource(Source):
    """An object of the user's with `n_batches` and `load(b)`; `names` and `fingerprint` where it has them.

    With threads `load` is called by several of them at once.
    """

    def __init__(self, given: Any):
        self.given = given
        first = as_part(given.load(0), None, "part 0")
        self.names = tuple(map(str, getattr(given, "names", None) or column_names_of(first)))
        self.from_array = tables.is_plain(given.load(0)) and getattr(given, "names", None) is None
        if not 0 < self.n_batches:
            raise ValueError(f"{type(given).__name__}.n_batches is {self.n_batches!r}; a source has at least one part.")

    @property
    def n_batches(self) -> int:
        n = self.given.n_batches
        return int(n() if callable(n) else n)

    def load(self, b: int) -> Any:
        return as_part(self.given.load(b), self.names, f"part {b}")

    def fingerprint(self) -> tuple[Any, ...]:
        own = getattr(self.given, "fingerprint", None)
        return () if own is None else (str(own()),)

    def __str__(self) -> str:
        return type(self.given).__name__


class IteratedSource(Source):
    """Tables that come one after the other, and again from the first one when asked anew: a list of them, or a function that begins anew.

    A part that lies before the last one that was loaded costs going through all before it once more.
    """

    def __init__(self, given: Any):
        self.given = given
        first = next(iter(self._anew()), None)
        if first is None:
            raise ValueError(f"{self} has no parts; give at least one table.")
        part = as_part(first, None, "part 0")
        self.names, self.from_array = tuple(column_names_of(part)), tables.is_plain(first)
        self._size: int | None = None
        self._at, self._rest = 0, iter(())
        self._lock = threading.Lock()

    def _anew(self) -> Iterator[Any]:
        return iter(self.given() if callable(self.given) else self.given)

    @property
    def n_batches(self) -> int:
        if self._size is None:
            self._size = sum(1 for _ in self._anew())
        return self._size

    def load(self, b: int) -> Any:
        with self._lock:  # threads go through it together
            if b < self._at or self._at == 0:
                self._at, self._rest = 0, self._anew()
            part = next(islice(self._rest, b - self._at, None), None)
            self._at = b + 1
        if part is None:
            raise SourceChanged(f"{self} had {self.n_batches} parts when it was first gone through, and now ends before part {b}.")
        return as_part(part, self.names, f"part {b}")

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_at": 0, "_rest": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return "the iterator"


def as_part(data: Any, names: Sequence[str] | None, what: str) -> Any:
    """A table as a DataFrame with given columns, or a CSR matrix as it is; a ValueError or TypeError names the part."""
    if is_sparse(data) and not isinstance(data, pd.DataFrame):
        return data.tocsr()
    try:
        frame = tables.as_frame(data, allow_empty=True)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what}: {error}") from None
    if names is None:
        return frame
    if tables.is_plain(data) and len(frame.columns) == len(names):
        return frame.set_axis(list(names), axis="columns")
    for name in names:
        if name not in frame:
            raise unknown_column(name, list(frame.columns), what)
    return frame[list(names)]


def column_names_of(part: Any) -> tuple[str, ...]:
    return column_names(part) if is_sparse(part) else tuple(part.columns)
