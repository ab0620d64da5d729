"""Sources of rows in files: Parquet, by pyarrow, and CSV.

Both are read in any order of their parts: of a Parquet file by row groups, of which parts are slices, of a CSV file by the places of lines,
found when the file is first gone through.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nrmmix.common.messages import row_name, shown, unknown_column
from nrmmix.model.frame.sources.base import PART, Source, SourceChanged, stamp

TEXT = 1 << 20  # bytes of a part of a CSV file
EXTRA = 'pyarrow is not installed, which reads Parquet: pip install "nrmmix[parquet]"'


def open_parquet(file: Any) -> Any:
    """Return a Parquet file of pyarrow; a ValueError if it is none."""
    reader = parquet().ParquetFile
    try:
        return reader(file)
    except Exception as error:
        raise ValueError(f"{str(file)!r} cannot be read as Parquet: {str(error).splitlines()[0]}") from None


def parquet() -> Any:
    """The module of pyarrow that reads Parquet; an ImportError that says how to get it."""
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError(EXTRA) from None
    return parquet


class Slice(NamedTuple):
    """A part of a Parquet file."""

    file: str
    group: int  # row group
    first: int  # row of the group
    last: int


class ParquetSource(Source):
    """A Parquet file, or a folder of them in the order of their names.

    Row groups of about 65,536 rows serve best: of a larger one what comes before a part is decoded, and left, each time.
    """

    remedy = "the table, pandas.read_parquet(path)"

    def __init__(self, path: str):
        self.path = path
        self.files = [path] if not Path(path).is_dir() else sorted(map(str, Path(path).rglob("*.parquet")))
        if not self.files:
            raise FileNotFoundError(f"the folder {path!r} holds no .parquet file.")
        self.slices: list[Slice] = []
        self.kinds: dict[str, str] = {}
        for file in self.files:
            opened = self._open(file)
            kinds = {field.name: _kind(field.type) for field in opened.schema_arrow}
            self._check(file, kinds)
            for group in range(opened.metadata.num_row_groups):
                ends = [*range(0, opened.metadata.row_group(group).num_rows, PART), opened.metadata.row_group(group).num_rows]
                self.slices += [Slice(file, group, first, last) for first, last in pairwise(ends)]
        self.names = tuple(self.kinds)
        self.stamps = self.fingerprint()
        if not self.slices:
            raise ValueError(f"{path!r} has no rows (columns: {', '.join(self.names)}); give at least one row.")

    def _open(self, file: str) -> Any:
        """An open file, of this thread's own."""
        own = _OPEN.__dict__.setdefault("files", {})
        key = stamp(file)
        if own.get(file, (None,))[0] != key:
            own[file] = key, open_parquet(file)
        return own[file][1]

    def _check(self, file: str, kinds: dict[str, str]) -> None:
        """A ValueError where a file has other columns than the first one."""
        if not self.kinds:
            self.kinds = kinds
            return
        for name, kind in self.kinds.items():
            if name not in kinds:
                raise ValueError(f"the column {name!r} of {self.files[0]!r} is not in {file!r}; all parts need the same columns.")
            if kinds[name] != kind and "nothing" not in (kinds[name], kind):
                raise ValueError(f"the column {name!r} holds {kind} in {self.files[0]!r} and {kinds[name]} in {file!r}; convert one.")

    @property
    def n_batches(self) -> int:
        return len(self.slices)

    def load(self, b: int) -> pd.DataFrame:
        return next(self.parts(b, b + 1))

    def parts(self, first: int = 0, last: int | None = None) -> Iterator[pd.DataFrame]:
        for file in self.stamps:
            _insist_unchanged(file)
        wanted = self.slices[first : self.n_batches if last is None else last]
        for (file, group), together in groupby(wanted, lambda part: part[:2]):
            own = list(together)
            taken = self._reader(file, group, own[0].first)
            for part in own:
                yield taken(part.last - part.first)

    def _reader(self, file: str, group: int, skip: int) -> Callable[[int], pd.DataFrame]:
        """A function that gives so many rows more of a row group, after some that are skipped."""
        import pyarrow

        batches = self._open(file).iter_batches(batch_size=PART, row_groups=[group], columns=list(self.names), use_threads=False)
        rest: list[Any] = []
        while skip > 0:
            batch = next(batches)
            if len(batch) > skip:
                rest.append(batch.slice(skip))
            skip -= len(batch)

        def taken(size: int) -> pd.DataFrame:
            own, have = [], 0
            while have < size:
                batch = rest.pop() if rest else next(batches)
                if have + len(batch) > size:
                    rest.append(batch.slice(size - have))
                    batch = batch.slice(0, size - have)
                own.append(batch)
                have += len(batch)
            table = pyarrow.Table.from_batches(own).select(list(self.names)).to_pandas()
            return table.reset_index()[list(self.names)] if set(self.names) - {*table.columns} else table  # pandas has made one its index

        return taken

    def fingerprint(self) -> tuple[Any, ...]:
        return tuple(stamp(file) for file in self.files)

    def select(self, names: Sequence[str]) -> ParquetSource:
        made = object.__new__(ParquetSource)
        vars(made).update(vars(self) | {"names": tuple(names)})
        return made

    def place(self, b: int) -> str:
        part = self.slices[b]
        return f"{part.file!r}, row group {part.group}, rows {part.first} to {part.last - 1} of it"


_OPEN = threading.local()


def _insist_unchanged(then: tuple[Any, ...]) -> None:
    """A SourceChanged where the stamp of a file is not what it was."""
    if stamp(then[0]) != then:
        raise SourceChanged(f"{then[0]!r} has been changed since it was first read; fit again, with a file that stays as it is.")


def _kind(dtype: Any) -> str:
    """Say in a word what a column of Parquet holds."""
    import pyarrow.types as types

    if types.is_null(dtype):
        return "nothing"
    if types.is_dictionary(dtype):
        dtype = dtype.value_type
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype) or types.is_boolean(dtype):
        return "numbers"
    return "text" if types.is_string(dtype) or types.is_large_string(dtype) else str(dtype)


class CsvSource(Source):
    """A CSV file with a line of names; numbers are read to the last bit.  `na` stands for missing values: nothing, NA, nan by default."""

    remedy = "the table, pandas.read_csv(path)"
    path: str

    def __init__(self, path: str, sep: str = ",", decimal: str = ".", encoding: str = "utf-8", na: Sequence[str] | None = None):
        self.path = path
        self.options: dict[str, Any] = {"sep": sep, "decimal": decimal, "encoding": encoding}
        if int(pd.__version__.split(".")[0]) < 3:  # from then on it is the default
            self.options["float_precision"] = "round_trip"
        if na is not None:
            self.options |= {"na_values": list(na), "keep_default_na": False}
        self.stamps = stamp(path)
        with open(path, "rb") as file:
            self.header = _line(file)
            self.places = [file.tell(), *_places(file)]
        try:
            self.all_names = tuple(pd.read_csv(io.BytesIO(self.header), **self.options).columns)
        except (pd.errors.EmptyDataError, UnicodeDecodeError) as error:
            raise ValueError(f"{path!r} cannot be read: its first line must name the columns ({error}).") from None
        if len(self.places) < 2:
            raise ValueError(f"{path!r} has no rows (columns: {', '.join(self.all_names)}); give at least one row.")
        self.names = self.all_names
        self.is_text: dict[str, bool] = {}
        first = self.load(0)
        self.is_text = {name: not pd.api.types.is_numeric_dtype(first[name].dtype) for name in first}

    @property
    def n_batches(self) -> int:
        return len(self.places) - 1

    def load(self, b: int) -> pd.DataFrame:
        _insist_unchanged(self.stamps)
        with open(self.path, "rb") as file:
            file.seek(self.places[b])
            text = file.read(self.places[b + 1] - self.places[b])
        as_text = {name: str for name, is_text in self.is_text.items() if is_text}
        try:
            frame = pd.read_csv(io.BytesIO(text), header=None, names=list(self.all_names), usecols=list(self.names), index_col=False,
                                dtype=as_text, **self.options)
        except (pd.errors.ParserError, UnicodeDecodeError) as error:
            raise ValueError(f"{self.place(b)} cannot be read: {str(error).strip()}") from None
        for name in frame:
            if self.is_text and not self.is_text[name] and not pd.api.types.is_numeric_dtype(frame[name].dtype):
                self._refuse(frame[name], name, b)
        return frame[list(self.names)]

    def _refuse(self, values: pd.Series, name: str, b: int) -> None:
        """Text in a column that held numbers in the first part."""
        bad = np.flatnonzero(pd.to_numeric(values, errors="coerce").isna() & values.notna())
        if len(bad):
            i = int(bad[0])
            raise ValueError(
                f"the column {name!r} holds numbers in the first rows and {shown(values.iloc[i])} in {row_name(i)} of {self.place(b)}; "
                "correct it, or have what stands for missing values read as such (na=)."
            )

    def fingerprint(self) -> tuple[Any, ...]:
        return stamp(self.path)

    def select(self, names: Sequence[str]) -> CsvSource:
        for name in names:
            if name not in self.all_names:
                raise unknown_column(name, list(self.all_names), repr(self.path))
        made = object.__new__(CsvSource)
        vars(made).update(vars(self) | {"names": tuple(names)})
        return made

    def place(self, b: int) -> str:
        return f"{self.path!r}, the part from byte {self.places[b]} on"


def _line(file: Any) -> bytes:
    """The first line, in which names in quotes may hold ends of lines."""
    line = file.readline()
    while line.count(b'"') % 2:
        more = file.readline()
        if not more:
            break
        line += more
    return line


def _places(file: Any) -> Iterator[int]:
    """Ends of parts: after an end of a line that is not in quotes."""
    done = file.tell()
    end = os.fstat(file.fileno()).st_size
    while done < end:
        file.seek(done)
        text = file.read(TEXT)
        while done + len(text) < end:
            cut = text.rfind(b"\n")
            while cut >= 0 and text.count(b'"', 0, cut + 1) % 2:
                cut = text.rfind(b"\n", 0, cut)
            if cut >= 0:
                text = text[: cut + 1]
                break
            more = file.read(TEXT)
            if not more:
                break
            text += more
        done += len(text)
        if text.strip():
            yield done
