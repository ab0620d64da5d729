"""Tables from text files: every line must have as many fields as the header, and what was guessed is said."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd

from nrmmix.common.messages import known_name, printable, shown

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
TYPES = ("str", "int", "float", "category")
LOOKED_AT = 200  # lines, to find the separator
DAY, TIME = r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4})", r"([ T]\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?)?"
DATE = re.compile(f"{DAY}{TIME}(Z|[+-]\\d{{2}}:?\\d{{2}})?")
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+([eE][+-]?\d+)?\s*")
MOSTLY = 0.5  # share of numbers from which on a column of text is spoken of


def read_table(
    path: Path, *, sep: str | None = None, decimal: str = ".", encoding: str | None = None, dtype: Mapping[str, str] | None = None,
    na: Sequence[str] | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """A table, and remarks on what was guessed or looks wrong.

    Parameters
    ----------
    path : Path
        Text file, its first line the names of the columns; also compressed, its name ending in .gz, .bz2 or .xz.
    sep : str, optional
        What stands between fields; default the one of comma, semicolon, tab and bar by which all lines have the same number of fields.
    decimal : str, default "."
        Decimal mark.
    encoding : str, default "utf-8", or "utf-16" of files that begin with its mark
    dtype : dict, optional
        By name of a column "str", "int", "float" or "category".
    na : sequence of str, optional
        Texts that stand for missing values; default the empty one and those of `pandas.read_csv`, such as NA and nan.

    Returns
    -------
    DataFrame, list of str

    Raises
    ------
    ValueError
        If a line has more or fewer fields than the header, a name occurs twice, or the text cannot be decoded; it names the line.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (file := Path(folder) / "own.csv").write_text("x;y\\n1;2\\n") and read_table(file)[1]
    ["'own.csv': fields are separated by semicolons"]
    """
    remarks: list[str] = []
    text = _decoded(path, encoding)
    if not text.strip():
        raise ValueError(f"{path.name!r} cannot be read as csv: it is empty")
    if sep is None:
        sep = _separator(text)
        if sep != ",":
            remarks.append(f"{path.name!r}: fields are separated by {SEPARATORS[sep]}")
    if len(sep) != 1 or len(decimal) != 1 or sep == decimal:
        raise ValueError(f"--sep {sep!r} and --decimal {decimal!r} must be one character each, and differ")
    names = _check_lines(path.name, text, sep)
    dtype = dict(dtype or {})
    for name, kind in dtype.items():
        known_name("column in --dtype", name, names)
        if kind not in TYPES:
            raise ValueError(f"--dtype {name}={kind}: there are {', '.join(TYPES)}")
    missing = {} if na is None else {"na_values": ["", *na], "keep_default_na": False}
    try:
        table = pd.read_csv(io.StringIO(text), sep=sep, decimal=decimal, dtype=dtype, index_col=False, skipinitialspace=True, **missing)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path.name!r} cannot be read as csv: {error}") from None
    for name in table:
        if name not in dtype and not pd.api.types.is_numeric_dtype(table[name]) and not pd.api.types.is_bool_dtype(table[name]):
            table[name] = _looked_at(path.name, table[name], decimal, remarks)
    return table, remarks


def _decoded(path: Path, encoding: str | None) -> str:
    with OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
        content = file.read()
    marked = next((name for mark, name in MARKS.items() if content.startswith(mark)), "utf-8")
    encoding = marked if encoding is None or (encoding.lower() in ("utf-8", "utf8") and marked == "utf-8-sig") else encoding
    try:
        text = content.decode(encoding)
    except LookupError:
        raise ValueError(f"--encoding {encoding!r} is unknown; there are utf-8, latin-1, cp1252 and others") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{path.name!r} cannot be read as {encoding}: line {line} holds the byte {content[error.start]:#04x}; give --encoding, such as "
            "cp1252 or latin-1"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(f"{path.name!r} holds null characters in line {line}: it is no text file")
    return text


def _records(text: str, sep: str) -> Iterator[tuple[int, list[str]]]:
    """Line, counted from 1, where a record begins, and its fields; empty lines are passed over."""
    reader, line = csv.reader(io.StringIO(text, newline=""), delimiter=sep, skipinitialspace=True), 1
    try:
        for fields in reader:
            if fields and not (len(fields) == 1 and not fields[0].strip()):
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"line {line} cannot be read: {error}") from None


def _separator(text: str) -> str:
    """The one by which the first lines have most often as many fields as the header, of which there is more than one."""
    best, most = ",", 0.0
    for sep in SEPARATORS:
        counts = []
        for _, fields in _records(text[: 2**20], sep):
            counts.append(len(fields))
            if len(counts) > LOOKED_AT:
                break
        if counts and counts[0] > 1:
            alike = sum(count == counts[0] for count in counts) / len(counts)
            if alike > most + 1e-9:
                best, most = sep, alike
    return best


def _check_lines(name: str, text: str, sep: str) -> list[str]:
    """The names of the columns, once all lines have so many fields."""
    names: list[str] = []
    try:
        for line, fields in _records(text, sep):
            if not names:
                names = [field.strip() for field in fields]
                twice = [one for one, count in Counter(names).items() if count > 1 and one]
                if twice:
                    raise ValueError(f"the column name {shown(twice[0])} occurs more than once")
            elif len(fields) != len(names):
                more = len(fields) > len(names)
                ends = " and ends in a separator" if more and not fields[-1].strip() else ""
                row_names = "; if the first field of each line is its name, the header needs a name for it" if more else ""
                raise ValueError(
                    f"line {line} has {len(fields)} fields{ends}, and the header {len(names)} ({', '.join(map(shown, names[:8]))}"
                    f"{', ...' if len(names) > 8 else ''}); correct the line, or give --sep{row_names}"
                )
    except ValueError as error:
        raise ValueError(f"{name!r} cannot be read as csv: {error}") from None
    return names


def _looked_at(file: str, values: pd.Series, decimal: str, remarks: list[str]) -> pd.Series:
    """A column of text: dates become dates, which models refuse; numbers that were not read are spoken of."""
    there = values.dropna().astype(str)
    if there.empty:
        return values
    if there.str.fullmatch(DATE).all():
        try:
            return pd.to_datetime(values, format="mixed", utc=bool(there.str.contains(r"(?:Z|[+-]\d{2}:?\d{2})$").any()))
        except (ValueError, OverflowError):
            return values
    if decimal != "," and there.str.fullmatch(DECIMAL_COMMA).mean() > MOSTLY:
        raise ValueError(f"{file!r} cannot be read as csv: the column {shown(values.name)} has decimal commas; give --decimal ,")
    wrong = there[pd.to_numeric(there, errors="coerce").isna()]
    if 0 < len(wrong) < (1 - MOSTLY) * len(there):
        kinds = [shown(one) for one in dict.fromkeys(wrong)][:3]
        remarks.append(
            f"{file!r}: the column {shown(values.name)} is taken for text, because of {', '.join(kinds)} in row {int(wrong.index[0])}; "
            f"give --na {printable(wrong.iloc[0])} if that is a missing value, --dtype {printable(str(values.name))}=str if it is text"
        )
    return values


