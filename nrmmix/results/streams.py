"""Predictions for rows that are not all in memory: part by part, to a table or to a file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
from scipy.sparse import vstack

from nrmmix.common import files
from nrmmix.common.messages import listed
from nrmmix.common.seeds import seed_sequence
from nrmmix.common.warnings import warn
from nrmmix.inference.executors import checked
from nrmmix.inference.variational import update
from nrmmix.model.families.base import rows_of
from nrmmix.model.families.exponential import Stacked, Statistics
from nrmmix.model.families.exponential.streamed import StreamedRows
from nrmmix.model.frame.files import parquet
from nrmmix.model.frame.formula import restored_frame
from nrmmix.model.frame.sources import ENDINGS, Source, source_of
from nrmmix.model.frame.streaming import Index, index_of, labelled, read_part, streamed
from nrmmix.model.specification import Specification
from nrmmix.posterior.factors import FactorPosterior
from nrmmix.posterior.kernel_factors import KernelFactorPosterior

if TYPE_CHECKING:
    from nrmmix.results.variational import VariationalResult

OUT = (".parquet", ".csv")
Table: TypeAlias = pd.DataFrame | pd.Series


def of_parts(model: Specification, newdata: Any, out: Any, of: Callable[[Any], Table], own_rows: bool = True,
             tables: Iterator[Table] | None = None) -> Table | Path:
    """What `of` makes of new data, part by part where they are a source; with `out` written to that file, whose path is given back.

    Without new data `of` is asked for None, unless the rows that were fitted are not in memory and `own_rows` are wanted: then it is asked
    for these, or `tables` are what was made of them.
    """
    where = None if out is None else _target(out)
    source = new_source(newdata)
    if newdata is None and model.frame.is_streamed and own_rows:
        found = map(of, _own(model)) if tables is None else tables
    elif source is None:
        table = of(newdata)
        return table if where is None else _written([table], where)
    else:
        found = map(of, _parts(source))
    if where is not None:
        return _written(found, where)
    held = list(found)
    whole = pd.concat(held)
    whole.attrs = held[0].attrs
    return whole


def new_source(newdata: Any) -> Source | None:
    """The source that new data are; None for a table, and for a word that can be no file."""
    if isinstance(newdata, (str, os.PathLike)) and not Path(newdata).exists():
        if Path(newdata).suffix.lower() in ENDINGS:
            raise FileNotFoundError(f"there is no file {str(newdata)!r}.")
        return None
    return None if newdata is None else source_of(newdata)


def _parts(source: Source) -> Iterator[Any]:
    first = 0
    for part in source.parts():
        if part.shape[0]:
            yield labelled(part, first)
        first += part.shape[0]


def _own(model: Specification) -> Iterator[Any]:
    """The rows that were fitted, without those that were dropped."""
    frame: Any = model.frame  # a streamed one
    for part in frame.tables():
        used = read_part(frame, part, frame.missing).used
        if used.any():
            yield part[used]


def _target(out: Any) -> Path:
    path = Path(out)
    if path.suffix.lower() not in OUT:
        raise ValueError(f"out must be the name of a file that ends in {listed(OUT)}, not {str(out)!r}.")
    files.check(path)
    if path.suffix.lower() == OUT[0]:
        parquet()
    return path


def _written(tables: Iterable[Table], path: Path) -> Path:
    """Tables as one file, their index as columns: whole or not at all."""
    with files.replaced(path) as file:
        writer: Any = None
        try:
            for number, table in enumerate(tables):
                frame = table.to_frame() if isinstance(table, pd.Series) else table
                names = ["row" if name is None else name for name in frame.index.names]
                frame = frame.rename_axis(index=names).reset_index()
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


def own_clusters(posterior: FactorPosterior | KernelFactorPosterior, of_component: np.ndarray) -> Iterator[pd.DataFrame]:
    """Part by part the most probable cluster of each fitted row, and the probability of the components that count for it."""
    share = np.eye(int(of_component.max()) + 1)[of_component]  # (K, C)
    rows: Any = posterior.rows  # streamed ones
    for part, piece in rows.parts():
        cluster, probability = np.empty(part.n, np.int64), np.empty(part.n)
        for some, r in posterior.probabilities(part):
            cluster[some] = of_component[r.argmax(axis=0)]
            probability[some] = np.minimum((r * share.T[cluster[some]].T).sum(axis=0), 1.0)
        yield pd.DataFrame({"cluster": pd.array(cluster, dtype="Int64"), "probability": probability}, index=piece.index)


# ---- new rows for a fit

def updated(fit: VariationalResult, new: Any, rng: Any, executor: Any) -> VariationalResult:
    """See `VariationalResult.update`."""
    model, frame, side = fit.model, fit.model.frame, fit.factors.side
    if frame.is_weighted and frame.weighed_by is None:
        raise ValueError("update: weights were an array, and new rows have none; fit with the name of a column, or fit all rows anew.")
    seed = np.random.SeedSequence((fit.seed, model.n_obs)) if rng is None else seed_sequence(rng)
    started, source = time.perf_counter(), new_source(new)
    rows: Statistics | StreamedRows
    if source is None:
        larger, rows = _with_table(model, side, new)
    else:
        needed = [name for part in frame.parts_of_responses for name in part.columns] + list(frame.input_columns)
        needed += [] if frame.weighed_by is None else [frame.weighed_by]
        places = index_of(frame, source if frame.is_sparse else source.select(needed), _missing(frame))
        own = streamed(frame, source if frame.is_sparse else source.select(needed), places, _missing(frame))
        larger, rows = _counted(model, places), StreamedRows(side, model.blocks, own)
    if rows.n == 0:
        raise ValueError("update: there is no complete new row; give at least one.")
    found, bound, passes, has_converged = update.updated(
        rows, model.prior.mass, fit.options, fit.factors, fit.elbo, np.random.default_rng(seed), len(fit.passes), checked(executor)
    )
    outcome = fit._outcome._replace(
        rows=larger.statistics(side), factors=found, elbo=bound, passes=[*fit._outcome.passes, *passes], has_converged=has_converged,
        seconds=fit.seconds + time.perf_counter() - started,
    )
    return type(fit)(larger, outcome)


def _missing(frame: Any) -> str:
    """What is done with rows that miss some responses: as with those that were fitted."""
    if frame.is_streamed:
        return frame.missing
    return "marginalize" if not frame.is_sparse and np.isnan(frame.response).any() else "drop"


def _with_table(model: Specification, side: Stacked, new: Any) -> tuple[Specification, Statistics]:
    """A model of the rows before and of a table of new ones, and the new ones."""
    frame = model.frame
    table = new if frame.is_sparse else frame.rows_of(new) if frame.weighed_by is not None else frame.table(new)
    read = read_part(frame, table, _missing(frame))
    used = read.used
    if not used.all():
        why = "missing values" if read.weight is None else "missing values, or a weight of 0"
        warn(f"{int((~used).sum())} of {len(used)} new rows dropped: {why}")
    y, x, _, _, weight = read.taken()
    index = frame.new_index(new)[used]
    with rows_of(index):
        rows = replace(model.blocks.statistics(side, y, x), weight=weight)
    if not np.isfinite(rows.dense).all():
        where = index[int(np.flatnonzero(~np.isfinite(rows.dense).all(axis=0))[0])]
        raise ValueError(f"update: row {where!r} misses some of its responses, as no row did that was fitted; leave it out.")
    if frame.is_streamed:
        ends: tuple[Any, Any] = np.inf, -np.inf
        if isinstance(y, np.ndarray) and len(y):
            ends = np.fmin.reduce(y, axis=0), np.fmax.reduce(y, axis=0)
        places = Index(np.array([0, len(used)]), np.array([0, y.shape[0]]), "", *ends, has_gaps=False, size=rows.size)
        return _counted(model, places), rows
    if frame.is_sparse:
        data: Any = vstack([frame.response, y]).tocsr()
    else:
        data = pd.concat([frame.source, table.loc[used, list(frame.source.columns)]])
    whole = None
    if weight is not None:
        whole = np.concatenate([np.ones(frame.n_used) if frame.weight is None else frame.weight, weight])
    given = frame.formula, data, np.ones(data.shape[0], bool), frame.from_array, frame.reads, frame.designs, whole, frame.weighed_by
    return type(model)(model.formula, restored_frame(*given), family=model.family, prior=model.prior), rows


def _counted(model: Specification, new: Index) -> Specification:
    """A model of the rows before and of new ones, which it cannot find again."""
    frame: Any = model.frame
    low, high = (frame.places.low, frame.places.high) if frame.is_streamed else (np.inf, -np.inf)
    if not frame.is_streamed and not frame.is_sparse:
        low, high = np.fmin.reduce(frame.response, axis=0), np.fmax.reduce(frame.response, axis=0)
    d = np.zeros(len(frame.response_names))
    places = Index(
        np.array([0, frame.n_rows + new.rows[-1]]), np.array([0, frame.n_used + new.used[-1]]), "", np.fmin(low, new.low) + d,
        np.fmax(high, new.high) + d, _missing(frame) == "marginalize",
        size=None if frame.weighed_by is None else frame.size + (new.used[-1] if new.size is None else new.size),
    )
    larger = streamed(frame, None, places, _missing(frame), sums=getattr(frame, "sums", None))
    return type(model)(model.formula, larger, family=model.family, prior=model.prior)
