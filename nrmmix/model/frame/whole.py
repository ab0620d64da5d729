"""Files that fit into memory, read as one table; of those that do not, and of kinds that are not read, what to do."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common import machine
from nrmmix.common.messages import SHELL, listed, shown
from nrmmix.model.frame.sources.files import ParquetSource, open_parquet

COPIES = 6.0  # of a table, that reading it and making a model of it take for a moment
PARQUET, TEXT, COMPRESSED = (".parquet", ".pq"), (".csv", ".tsv"), (".gz", ".bz2", ".xz", ".zip")
EXPANSION = 8.0  # of compressed text, about
LINES_OF_JSON = (".jsonl", ".ndjson")
READERS = {  # of other kinds of files, by pandas
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods"), "read_excel"), ".feather": "read_feather", ".arrow": "read_feather",
    ".json": "read_json", ".dta": "read_stata", ".sav": "read_spss", ".sas7bdat": "read_sas", ".xpt": "read_sas", ".h5": "read_hdf",
    ".orc": "read_orc", ".fwf": "read_fwf", ".pkl": "read_pickle", ".pickle": "read_pickle", **dict.fromkeys(LINES_OF_JSON, "read_json"),
}
OF_R = (".rds", ".rdata", ".rda")


def is_file(data: Any) -> bool:
    """Whether data are the path of a file, or of a folder, that is there."""
    return isinstance(data, (str, os.PathLike)) and Path(data).exists()


def size_of(path: Any) -> float:
    """Bytes, about, that the table of a file takes in memory."""
    path = Path(path)
    ending = path.suffix.lower()
    if path.is_dir() or ending in PARQUET:
        files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        of_files = [open_parquet(file).metadata for file in files]
        stored = sum(one.row_group(g).total_byte_size for one in of_files for g in range(one.num_row_groups))
        return max(stored, 8.0 * sum(one.num_rows * one.num_columns for one in of_files))
    return path.stat().st_size * (EXPANSION if ending in COMPRESSED else 1.0)


def fits(path: Any) -> bool:
    """Whether a model of the table of a file fits into what is free of memory."""
    return COPIES * size_of(path) <= machine.available()


def too_large(path: Any) -> str:
    """Say in figures that a file does not fit."""
    return f"it takes about {machine.text(COPIES * size_of(path))}, and {machine.text(machine.available())} are free"


def whole(path: Any) -> Any:
    """The table of a file, or the array of a .npy file.

    A FileNotFoundError, ValueError or MemoryError if there is no such file, it is of a kind that is not read, cannot be read, or does not
    fit into memory.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pd.DataFrame({"y": [1.5, 2.5]}).to_csv(f"{folder}/small.csv.gz", index=False)
    ...     whole(f"{folder}/small.csv.gz")["y"].tolist()
    [1.5, 2.5]
    """
    place, text = Path(path), os.fspath(path)
    if not place.exists():
        raise FileNotFoundError(f"There is no file {shown(text)}; give the path of one, or a table.")
    insist_on_kind(place)
    if not fits(place):
        raise MemoryError(f"{text!r} does not fit into memory: {too_large(place)}; give a table of fewer rows or columns.")
    if place.is_dir() or place.suffix.lower() in PARQUET:
        return pd.concat(ParquetSource(text).parts(), ignore_index=True)
    try:
        if place.suffix.lower() == ".npy":
            return np.load(place, allow_pickle=False)
        exact: dict[str, Any] = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}
        return pd.read_csv(place, sep="\t" if ".tsv" in place.suffixes else ",", **exact)
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{text!r} cannot be read: {str(error).strip()}; read it with pandas, and give the table.") from None


def insist_on_kind(place: Path) -> None:
    """Refuse files that are neither Parquet, text nor arrays, with what makes a table of them."""
    *before, last = ["", *(ending.lower() for ending in place.suffixes)]
    known = (*PARQUET, *TEXT, ".npy")
    if place.is_dir() or last in known or last == ".zip" or (last in COMPRESSED and before and before[-1] in TEXT):
        return
    refuse_other_kinds(place)
    raise ValueError(
        f"{str(place)!r} ends in none of {listed([*known, '.csv.gz', '.zip'])}; give such a file, a folder of .parquet files, or a table."
    )


def refuse_other_kinds(place: Path) -> None:
    """Refuse files of Excel, R, Stata and others."""
    ending = place.suffix.lower()
    if ending in OF_R:
        raise ValueError(f"{place.name!r} is a file of R; write it there as csv, write.csv(table, \"table.csv\", row.names = FALSE).")
    if ending == ".npz":
        raise ValueError(
            f"{place.name!r} holds several arrays, or is a saved fit, and no table; save one array by numpy.save as .npy, or give csv or "
            "Parquet."
        )
    if ending in READERS:
        call = f"pandas.{READERS[ending]}({place.name!r}{', lines=True' if ending in LINES_OF_JSON else ''})"
        if SHELL.get():
            first = "save the sheet as csv" if READERS[ending] == "read_excel" else "convert it to csv or Parquet"
            raise ValueError(f"{place.name!r} is no text, Parquet or .npy file; {first}, or in Python give nrmmix.fit the table {call}.")
        raise ValueError(f"{place.name!r} is no text, Parquet or .npy file; give the table, {call}.")
