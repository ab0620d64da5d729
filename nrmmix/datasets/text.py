"""Tables from text files: every line must have as many fields as the header, and what was guessed is said."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common.messages import are_values, known_name, printable, shown

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}  # the last where no other is
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
TYPES = ("str", "int", "float", "category")
LOOKED_AT = 200  # lines, to find the separator
DATE = re.compile(  # year first, or last; then hour, what is beyond it, and zone
    r"(?:(?P<year>\d{4})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})|(?P<one>\d{1,2})(?P<mark>[-/.])(?P<two>\d{1,2})(?P=mark)(?P<last>\d{4}))"
    r"(?:[ T](?P<hour>\d{1,2})(?P<rest>:\d{2}(?::\d{2}(?:\.\d+)?)?))?(?P<zone>Z|[+-]\d{2}:?\d{2})?"
)
DECIMAL_COMMA = re.compile(r"\s*[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?\s*")
SAID_SEPARATOR = re.compile(r'"?sep=(.)"?\r?\n')  # first line of files of Excel
MARKS_OF_THOUSANDS = (",", ".", "'", " ", "\u00a0", "\u202f", "_")
GROUPED = r"\s*[+-]?\d{{1,3}}(?:{0}\d{{3}})+(?:{1}\d*)?\s*"  # of a mark and a decimal mark
MARKED = r"\s*[+-]?\d[\d{0}]*(?:{1}\d*)?\s*"
BY_THOUSANDS = r"\s*[+-]?[1-9]\d{{0,2}}(?:{0}\d{{2,3}})*{0}\d{{3}}(?:{1}\d*)?\s*"  # 12,34,567 too, and not 0,123
OF_R = "in R write.csv(table, row.names = FALSE)"
MOSTLY = 0.5  # share of numbers from which on a column of text is spoken of


def read_table(
    path: Path, *, sep: str | None = None, decimal: str = ".", thousands: str | None = None, encoding: str | None = None,
    dtype: Mapping[str, str] | None = None, na: Sequence[str] | None = None,
) -> tuple[pd.DataFrame, list[str]]:
    """A table, and remarks on what was guessed or looks wrong.

    Parameters
    ----------
    path : Path
        Text file, its first line the names of the columns, after lines that begin with # or name the separator, as `sep=;`; also
        compressed, its name ending in .gz, .bz2, .xz, or .zip of one file; or "-" for standard input.
    sep : str, optional
        What stands between fields; default the one of comma, semicolon, tab, bar and space by which all lines have as many fields.
    decimal : str, default "."
        Decimal mark.
    thousands : str, optional
        Mark between thousands; default none, or the one that every number of a column has which can be no decimal mark.  Given, each
        number of a column must have it where thousands end.
    encoding : str, default "utf-8", or "utf-16" of files that begin with its mark
    dtype : dict, optional
        By name of a column "str", "int", "float" or "category"; what is read as text on demand becomes categories, as codes may be numbers,
        but for dates.
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
    path = Path("standard input") if str(path) == "-" else path
    text = _decoded(path, encoding)
    if not text.strip():
        raise ValueError(f"{path.name!r} cannot be read as csv: it is empty")
    text, said = _without_remarks(text)
    sep = said if sep is None else sep
    if sep is None:
        sep = _separator(text)
        if sep != ",":
            remarks.append(f"{path.name!r}: fields are separated by {SEPARATORS[sep]}")
    if len(sep) != 1 or len(decimal) != 1 or sep == decimal:
        raise ValueError(f"--sep {sep!r} and --decimal {decimal!r} must be one character each, and differ")
    if thousands is not None and (len(thousands) != 1 or thousands == decimal or thousands.isdigit()):
        raise ValueError(f"--thousands {thousands!r} must be one character that is neither a digit nor the decimal mark {decimal!r}")
    names = _check_lines(path.name, text, sep)
    dtype = {known_name("column in --dtype", name, names): kind for name, kind in (dtype or {}).items()}
    for name, kind in dtype.items():
        if kind not in TYPES:
            raise ValueError(f"--dtype {name}={kind}: there are {', '.join(TYPES)}")
    how: dict[str, Any] = {"sep": sep, "decimal": decimal, "thousands": thousands, "index_col": False, "skipinitialspace": True}
    how |= {} if na is None else {"na_values": ["", *na], "keep_default_na": False}
    try:
        with np.errstate(invalid="ignore"):  # of nothing as an integer, which is refused
            table = pd.read_csv(io.StringIO(text), dtype=dtype, **how)
    except (ValueError, TypeError, OverflowError) as error:
        why = _misfit(pd.read_csv(io.StringIO(text), dtype=str, **how), dtype, decimal) or error
        raise ValueError(f"{path.name!r} cannot be read as csv: {why}") from None
    if thousands is not None:
        numbers = [not isinstance(of, pd.CategoricalDtype) and pd.api.types.is_numeric_dtype(of) for of in table.dtypes]
        _check_thousands(path.name, text, sep, numbers, decimal, thousands)
    for name in table:
        if dtype.get(name) == "str":
            if not table[name].dropna().astype(str).str.fullmatch(DATE).all():  # dates as text are asked about
                table[name] = table[name].astype("category")
        elif name not in dtype and not pd.api.types.is_numeric_dtype(table[name]) and not pd.api.types.is_bool_dtype(table[name]):
            table[name] = _looked_at(path.name, table[name], decimal, remarks)
    return table, remarks


def _misfit(table: pd.DataFrame, dtype: Mapping[str, str], decimal: str) -> str:
    """Say which cell, of a table of text, is not of the type that its column is given; nothing where all are."""
    for name in (name for name, kind in dtype.items() if name in table and kind in ("int", "float")):
        read = pd.to_numeric(table[name].str.replace(decimal, ".", regex=False), errors="coerce")
        text = read.isna() & table[name].notna()
        wrong = text if dtype[name] == "float" else ~(read % 1 == 0)
        if wrong.any():
            i = int(wrong.to_numpy().argmax())
            cell = "nothing" if pd.isna(table[name].iloc[i]) else shown(table[name].iloc[i])
            return (
                f"the column {shown(name)} holds {cell} in row {i}, which is no {dtype[name]}; give --dtype "
                f"{printable(name)}={'str' if text.any() else 'float'}, or leave --dtype out"
            )
    return ""


def _content(path: Path) -> bytes:
    """The bytes of a file, or of standard input, without compression."""
    if path == Path("standard input"):
        return sys.stdin.buffer.read()
    try:
        if path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as file:
                names = [name for name in file.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
                if len(names) != 1:
                    raise ValueError(f"{path.name!r} holds {len(names)} files ({', '.join(map(shown, names[:8]))}); give a .zip of one")
                return file.read(names[0])
        with OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
            return file.read()
    except (zipfile.BadZipFile, gzip.BadGzipFile, lzma.LZMAError, EOFError, RuntimeError) as error:
        raise ValueError(f"{path.name!r} cannot be read: {error}") from None


def _decoded(path: Path, encoding: str | None) -> str:
    content = _content(path)
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


def _without_remarks(text: str) -> tuple[str, str | None]:
    """A text with empty lines for those before its names that are remarks, and the separator that its first line may give."""
    said = SAID_SEPARATOR.match(text)
    if not said and not text.lstrip().startswith("#"):
        return text, None
    lines = io.StringIO("\n" + text[said.end() :] if said else text, newline="").readlines()
    first = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), 0)
    last, names = lines[first - 1], lines[first]
    alike = re.match(r"#\w", last) and any(last.count(sep) == names.count(sep) > 0 for sep in SEPARATORS)
    if last.startswith("#") and (alike or are_values(re.split(r"[\s,;|]+", names.strip()))):
        first -= 1  # names, as in "#id,x,y"
    return "".join(["\n"] * first + lines[first:]), said and said[1]


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
        if sep == " " and most > 0.0:
            break
        counts = []
        for _, fields in _records(text[: 2**20], sep):
            counts.append(len(fields))
            if len(counts) > LOOKED_AT:
                break
        if counts and counts[0] > 1:
            alike = sum(count == counts[0] for count in counts) / len(counts)
            if sep == " ":  # also of lines with names, which R writes
                alike = float(len(set(counts[1:])) == 1 and counts[1] - counts[0] in (0, 1))
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
                row_names = f"; if the first field of each line is its name, the header needs a name for it ({OF_R})" if more else ""
                raise ValueError(
                    f"line {line} has {len(fields)} fields{ends}, and the header {len(names)} ({', '.join(map(shown, names[:8]))}"
                    f"{', ...' if len(names) > 8 else ''}); correct the line, or give --sep{row_names}"
                )
    except ValueError as error:
        raise ValueError(f"{name!r} cannot be read as csv: {error}") from None
    return names


def _check_thousands(file: str, text: str, sep: str, numbers: list[bool], decimal: str, mark: str) -> None:
    """A ValueError where a column of numbers has the mark elsewhere than between thousands: without it they would be others."""
    marks = re.escape(mark), re.escape(decimal)
    marked, by_thousands = re.compile(MARKED.format(*marks)), re.compile(BY_THOUSANDS.format(*marks))
    names: list[str] = []
    for line, fields in _records(text, sep):
        if not names:
            names = fields
            continue
        for name, field, of_numbers in zip(names, fields, numbers, strict=True):
            if of_numbers and mark in field and marked.fullmatch(field) and not by_thousands.fullmatch(field):
                hint = f", or --decimal {mark} if it is a decimal mark" if mark in ",." else ""
                raise ValueError(
                    f"{file!r} cannot be read as csv: {shown(field)} in the column {shown(name.strip())}, line {line}, has "
                    f"{shown(mark)} elsewhere than between thousands; leave out --thousands{hint}"
                )


def _thousands(there: pd.Series, decimal: str) -> str | None:
    """The mark between thousands by which all of a column are numbers, where it can be no decimal mark; None where there is none."""
    for mark in MARKS_OF_THOUSANDS:
        if mark == decimal:
            continue
        grouped = re.compile(GROUPED.format(re.escape(mark), re.escape(decimal)))
        plain = re.compile(rf"\s*[+-]?\d+(?:{re.escape(decimal)}\d*)?\s*")
        has = there.str.contains(mark, regex=False) & there.str.fullmatch(grouped)
        plain_of = (there.str.count(re.escape(mark)) > 1) | there.str.contains(decimal, regex=False)  # which can be no decimal mark
        sure = mark not in ",." or decimal == "," or plain_of[has].any()
        if has.any() and sure and (has | there.str.fullmatch(plain)).all():
            return mark
    return None


def _example(there: pd.Series, mark: str) -> str:
    return str(there[there.str.contains(mark, regex=False)].iloc[0])


def _dates(file: str, there: pd.Series, remarks: list[str]) -> pd.Series | None:
    """Dates in one order; where years come last parts above 12 tell it, else dots, of which days come first; None where nothing does."""
    parts = there.str.extract(DATE)
    last = parts[parts["last"].notna()]
    if len(last):
        above = last[["one", "two"]].astype(int) > 12
        example, column = shown(there[above.any(axis=1).idxmax()]), f"{file!r}: the column {shown(there.name)}"
        if above.any().all() or not (above.any().any() or (last["mark"] == ".").any()):
            why = "no one order fits them" if above.any().all() else f"{example} may begin with a day or a month"
            remarks.append(f"{column} has dates that are not read, as {why}; write them yyyy-mm-dd")
            return None
        first, second = ("two", "one") if above["two"].any() else ("one", "two")  # day, month
        remarks.append(f"{column} has dates that begin with a {'day' if first == 'one' else 'month'}, as {example}")
        for name, own in (("year", "last"), ("month", second), ("day", first)):
            parts[name] = parts[name].fillna(parts[own])
    text = parts["year"] + "-" + parts["month"].str.zfill(2) + "-" + parts["day"].str.zfill(2)
    text += (" " + parts["hour"].str.zfill(2) + parts["rest"]).fillna("") + parts["zone"].fillna("")
    try:
        return pd.to_datetime(text, format="ISO8601", utc=bool(parts["zone"].notna().any()))
    except (ValueError, OverflowError):
        return None


def _looked_at(file: str, values: pd.Series, decimal: str, remarks: list[str]) -> pd.Series:
    """A column of text: dates become dates; numbers that were not read are spoken of."""
    there = values.dropna().astype(str)
    if there.empty:
        return values
    if there.str.fullmatch(DATE).all():
        read = _dates(file, there, remarks)
        return values if read is None else read.reindex(values.index)
    if (mark := _thousands(there, decimal)) is not None:
        example = shown(_example(there, mark))
        remarks.append(f"{file!r}: the column {shown(values.name)} has {shown(mark)} between thousands, as in {example}")
        plain = values.str.replace(mark, "", regex=False).str.strip()
        return pd.to_numeric(plain.str.replace(decimal, ".", regex=False))
    if decimal != "," and there.str.fullmatch(DECIMAL_COMMA).mean() > MOSTLY:
        marked = there[there.str.contains(",", regex=False)]
        if marked.str.fullmatch(BY_THOUSANDS.format(",", re.escape(decimal))).all():
            raise ValueError(
                f"{file!r} cannot be read as csv: {shown(_example(there, ','))} in the column {shown(values.name)} has a decimal comma or "
                "a mark between thousands; give --decimal , or --thousands ,"
            )
        raise ValueError(f"{file!r} cannot be read as csv: the column {shown(values.name)} has decimal commas; give --decimal ,")
    wrong = there[pd.to_numeric(there, errors="coerce").isna()]
    if 0 < len(wrong) < (1 - MOSTLY) * len(there):
        kinds = [shown(one) for one in dict.fromkeys(wrong)][:3]
        remarks.append(
            f"{file!r}: the column {shown(values.name)} is taken for text, because of {', '.join(kinds)} in row {int(wrong.index[0])}; "
            f"give --na {printable(wrong.iloc[0])} if that is a missing value, --dtype {printable(str(values.name))}=str if it is text"
        )
    return values


