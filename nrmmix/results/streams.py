"""Predictions for rows that are not all in memory: part by part, to a table or to a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from nrmmix.common import files
from nrmmix.common.messages import listed
from nrmmix.model.frame.rows import FittedRows, NewRows, Rows, read_part, read_rows
from nrmmix.model.frame.sources.base import Source
from nrmmix.model.frame.sources.files import parquet
from nrmmix.model.frame.sources.opening import ENDINGS, source_of
from nrmmix.model.frame.streaming import labelled
from nrmmix.model.frame.tables import names_of_levels
from nrmmix.model.specification import Specification
from nrmmix.posterior.factors import FactorPosterior
from nrmmix.posterior.kernel_factors import KernelFactorPosterior
from nrmmix.posterior.predict.membership import table

OUT = (".parquet", ".csv")
Table: TypeAlias = pd.DataFrame | pd.Series


def of_parts(
    model: Specification, newdata: Any, out: Any, of: Callable[[Rows], Table], own_rows: bool = True, tables: Iterator[Table] | None = None,
) -> Table | Path:
    """Return what `of` makes of new data, part by part where they are a source; with `out` written to that file, whose path is given back.

    Where the rows that were fitted are not in memory and `own_rows` are wanted `of` is asked for parts of these, or `tables` are what was
    made of them.
    """
    where = None if out is None else _target(out)
    if where is not None:
        insist_apart(where, [newdata, getattr(newdata, "path", None), getattr(getattr(model.frame, "rows", None), "path", None)])
    rows = opened(model, newdata)
    if isinstance(rows, FittedRows) and model.frame.is_streamed and own_rows:
        found = map(of, _own(model)) if tables is None else tables
    elif isinstance(rows, Source):
        found = map(of, _parts(model, rows))
    else:
        table = of(rows)
        return table if where is None else _written([table], where)
    if where is not None:
        return _written(found, where)
    held = list(found)
    whole = pd.concat(held)
    whole.attrs = held[0].attrs
    return whole


def opened(model: Specification, newdata: Any) -> Rows | Source:
    """Rows in memory, which have been read or are to be read once, or a source of parts."""
    source = None if isinstance(newdata, (FittedRows, NewRows)) else new_source(newdata)
    return read_rows(model.frame, newdata) if source is None else source


def new_source(newdata: Any) -> Source | None:
    """The source that new data are; None for a table, and for a word that can be no file."""
    if isinstance(newdata, (str, os.PathLike)) and not Path(newdata).exists():
        if Path(newdata).suffix.lower() in ENDINGS:
            raise FileNotFoundError(f"there is no file {str(newdata)!r}.")
        return None
    return None if newdata is None else source_of(newdata)


def _parts(model: Specification, source: Source) -> Iterator[NewRows]:
    first = 0
    for part in source.parts():
        if part.shape[0]:
            yield NewRows(model.frame, labelled(part, first))
        first += part.shape[0]


def _own(model: Specification) -> Iterator[NewRows]:
    """The rows that were fitted, without those that were dropped."""
    frame: Any = model.frame  # a streamed one
    for part in frame.tables():
        used = read_part(frame, part, frame.missing).used
        if used.any():
            yield NewRows(frame, part[used])


def _target(out: Any) -> Path:
    given = os.fspath(out) if isinstance(out, os.PathLike) else out
    if not (isinstance(given, str) and Path(given).suffix.lower() in OUT):
        raise ValueError(f"out must be the name of a file that ends in {listed(OUT)}, not {given!r}.")
    path = Path(given)
    files.check(path)
    if path.suffix.lower() == OUT[0]:
        parquet()
    return path


def insist_apart(out: Path, read: Iterable[Any]) -> None:
    """A ValueError where a file to write is one that is read, or in a folder of such files; what is no path of a file is passed over."""
    for one in read:
        if not isinstance(one, (str, os.PathLike)) or not Path(one).exists():
            continue
        place, of_data = out.resolve(), Path(one).resolve()
        if of_data == place or of_data in place.parents or (place.exists() and place.samefile(of_data)):
            raise ValueError(f"{str(out)!r} cannot be written: the data are read from {str(one)!r}; take another name.")


def _written(tables: Iterable[Table], path: Path) -> Path:
    """Tables as one file, their index as columns: whole or not at all."""
    with files.replaced(path) as file:
        writer: Any = None
        try:
            for number, table in enumerate(tables):
                frame = table.to_frame() if isinstance(table, pd.Series) else table
                frame = frame.rename_axis(index=["row" if name is None else name for name in frame.index.names], columns=None)
                names = names_of_levels(frame.index, frame.columns)[: frame.index.nlevels]
                frame = frame.rename_axis(index=names).reset_index().rename(columns=str)
                if path.suffix.lower() == ".csv":
                    frame.to_csv(file, index=False, header=number == 0)
                    continue
                import pyarrow

                held = pyarrow.Table.from_pandas(frame, schema=None if writer is None else writer.schema, preserve_index=False)
                if writer is None:
                    writer = parquet().ParquetWriter(file, held.schema)
                writer.write_table(held)
        finally:
            if writer is not None:
                writer.close()
    return path


def own_clusters(posterior: FactorPosterior | KernelFactorPosterior, of_component: np.ndarray, kind: str) -> Iterator[pd.DataFrame]:
    """Part by part the most probable cluster of each fitted row, and the probability of the components that count for it.

    With `kind="membership"` the probabilities of all clusters.
    """
    share = np.eye(int(of_component.max()) + 1)[of_component]  # (K, C)
    rows: Any = posterior.rows  # streamed ones
    for part, piece in rows.parts():
        if kind == "membership":
            every = np.zeros((part.n, share.shape[1] + 1))
            for some, r in posterior.probabilities(part):
                every[some, :-1] = r.T @ share
            yield table(every, piece.index)
            continue
        cluster, probability = np.empty(part.n, np.int64), np.empty(part.n)
        for some, r in posterior.probabilities(part):
            cluster[some] = of_component[r.argmax(axis=0)]
            probability[some] = np.minimum((r * share.T[cluster[some]].T).sum(axis=0), 1.0)
        yield pd.DataFrame({"cluster": pd.array(cluster, dtype="Int64"), "probability": probability}, index=piece.index)
