"""The only door to kernel arrays: type, order, copy and finiteness are settled here.

Every function returns freshly copied, writable, C-ordered arrays, so that compiled kernels always see the
same type and no caller's array is ever changed.
"""

from __future__ import annotations

import datetime
import numbers
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common.messages import MAX_NAMES, listed, quoted, row_name, shown
from nrmmix.common.warnings import warn
from nrmmix.model.frame.tables import COUNT_BOUND, COUNTS, as_frame

__all__ = ["check_distinct", "check_finite", "column", "floats", "labels", "matrix", "reals"]

CONSTANT = 1e-12  # a range below this share of the largest magnitude counts as no variation
LARGEST = 1e100  # squares, and products of some of them, must neither overflow
TOO_FAR = 1e100  # in prior standard deviations: squares must not overflow
SMALLEST = 1 / LARGEST  # nor underflow
EXACT = 2.0**53  # from here on a float does not tell all integers apart


def floats(values: Any, name: str, index: pd.Index | None = None, what: str = "column") -> np.ndarray:
    """One column of numbers or booleans (0/1) as float64 (n,), which may hold inf; None, NaN, NA and NaT become NaN.

    An object column may hold numbers.  For messages, as in "response 'y'", are `what`, `name` and `index`, the labels of the rows, which
    default to those of a Series.  The ValueError for a value that is not a real number names its row.

    Examples
    --------
    >>> floats(pd.array([1, None, 3], dtype="Int64"), "x")
    array([ 1., nan,  3.])
    """
    series = _series(values, name, what)
    index = series.index if index is None and isinstance(values, pd.Series) else index
    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        raise ValueError(
            f"The {what} {name!r} is categorical and not numeric; convert it with astype(float) if its "
            "categories are numbers."
        )
    if pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype):
        with np.errstate(over="ignore"):  # of a longer type: becomes inf, which is found and named
            return np.array(series.to_numpy(dtype=np.float64, na_value=np.nan))
    items = list(series.astype(object))
    out = np.empty(len(items))
    for i, item in enumerate(items):
        if _is_missing(item):
            out[i] = np.nan
        elif isinstance(item, (numbers.Real, Decimal, np.bool_)) and not isinstance(item, np.timedelta64):  # which counts as an integer
            out[i] = _to_float(item, name, index, what, i)
        else:
            raise ValueError(
                f"The {what} {name!r} holds {shown(item)} ({type(item).__name__}) in {row_name(i, index)}, not "
                f"a real number; {_remedy(item)}."
            )
    return out


def _remedy(item: Any) -> str:
    if isinstance(item, (datetime.date, np.datetime64, pd.Period)):
        return "use the time since some date, for instance (dates - dates.min()) / pandas.Timedelta(days=1)"
    if isinstance(item, (datetime.timedelta, np.timedelta64)):
        return "divide the column by a unit of time, for instance pandas.Timedelta(days=1)"
    if isinstance(item, (complex, np.complexfloating)):
        return "use its real and imaginary parts as two columns"
    if isinstance(item, (list, tuple, dict, set, np.ndarray)):
        return "the column is nested: give one number a row, in columns of their own"
    if isinstance(item, datetime.time):
        return "use a number, for instance its hours, hour + minute / 60"
    if isinstance(item, pd.Interval):
        return "make categories of the column with astype('category'), or use the middle of each"
    if isinstance(item, (bytes, bytearray)):
        return "decode it, for instance with Series.str.decode('utf-8')"
    return f"convert it{', for instance with pandas.to_numeric' if isinstance(item, str) else ' to a number, or to text with astype(str)'}"


def _series(values: Any, name: str, what: str) -> pd.Series:
    if isinstance(values, pd.Series):
        return values
    if np.ndim(values) != 1:
        raise ValueError(f"The {what} {name!r} must have one dimension, not {np.ndim(values)}.")
    return pd.Series(values)


def _is_missing(item: Any) -> bool:
    # pandas.isna would look inside lists
    if isinstance(item, (float, np.floating)):
        return bool(np.isnan(item))
    if isinstance(item, Decimal):
        return item.is_nan()
    return item is None or item is pd.NA or item is pd.NaT


def _to_float(item: Any, name: str, index: pd.Index | None, what: str, position: int) -> float:
    try:
        return float(item)
    except (OverflowError, ValueError) as error:
        raise ValueError(
            f"The {what} {name!r} holds a number in {row_name(position, index)} that does not fit a 64-bit "
            "float; rescale the column."
        ) from error


def column(
    values: pd.Series, name: str, levels: Sequence[Any] | None = None, *, numeric: bool = False, finite: bool = True, codes: bool = False,
) -> np.ndarray | pd.Categorical:
    """One column of a table as numbers (n,), NaN where missing, or if it holds text or categories as a Categorical.

    A Categorical has the given levels, those of the training data.  Without them it keeps the order of declared categories, drops those
    that do not occur, and sorts the levels of text.  With `numeric` the column must hold numbers; with `codes` these are told apart.

    A ValueError for a column that mixes text with anything else or holds neither numbers nor text, for inf if it has to be finite, for a
    level that is not among `levels`, and for an integer that tells apart what its float does not; the message names the row.

    Examples
    --------
    >>> column(pd.Series(["b", "a", None]), "group").categories.tolist()
    ['a', 'b']
    >>> column(pd.Series([True, False]), "treated")
    array([1., 0.])
    """
    if levels is not None and not numeric and (found := _codes(values, levels)) is not None:
        return pd.Categorical.from_codes(found, categories=list(levels))
    categories = isinstance(values.dtype, pd.CategoricalDtype)
    items = [] if pd.api.types.is_numeric_dtype(values.dtype) and levels is None else list(values.astype(object))
    text = categories or any(isinstance(item, str) for item in items)
    if numeric or (levels is None and not text):
        out = floats(values, name)
        passed = np.isnan(out) if finite else ~np.isfinite(out)
        check_finite(np.where(passed, 0.0, out)[:, None], [name], values.index, "column", largest=np.inf)
        if codes:
            _check_exact(out, values, name)
        if levels is not None:
            check_levels(out, name, levels, values.index)
        return out
    if levels is not None:
        check_levels(items, name, levels, values.index)
    elif categories:
        return pd.Categorical(values).remove_unused_categories()
    else:
        levels = sorted({item for item in items if isinstance(item, str)})
        for i, item in enumerate(items):
            if not (isinstance(item, str) or _is_missing(item)):
                raise ValueError(
                    f"The column {name!r} holds text and also {shown(item)} ({type(item).__name__}) in "
                    f"{row_name(i, values.index)}; convert the column to one type."
                )
    number = {level: code for code, level in enumerate(levels)}  # True is 1 here, as in `check_levels`, and not to pandas
    return pd.Categorical.from_codes([-1 if _is_missing(item) else number[item] for item in items], categories=list(levels))


def _check_exact(read: np.ndarray, values: pd.Series, name: str) -> None:
    large = np.abs(read) >= EXACT
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "iu":
        with np.errstate(invalid="ignore"):
            large &= read.astype(values.dtype) != values.to_numpy()
    for i in np.flatnonzero(large).tolist():
        item = values.iloc[i]
        if isinstance(item, numbers.Integral) and int(item) != int(read[i]):
            raise ValueError(
                f"The column {name!r} holds the code {shown(item)} in {row_name(i, values.index)}, which has too many digits for a 64-bit "
                f"float; make text of its codes, data[{name!r}].astype(str), in new data too."
            )


def _codes(values: pd.Series, levels: Sequence[Any]) -> np.ndarray | None:
    """Numbers of the levels (n,), -1 where missing; None where a value is no level, or has no hash, or levels are not all text."""
    if not all(isinstance(level, str) for level in levels):
        return None
    items = values.astype(object).to_numpy()
    try:
        codes = pd.Index(list(levels), dtype=object).get_indexer(items)
    except TypeError:
        return None
    return codes if all(map(_is_missing, items[codes < 0])) else None


def check_levels(items: Iterable[Any], name: str, levels: Sequence[Any], index: pd.Index | None) -> None:
    """Raise a ValueError that names the first item that is neither missing nor one of the levels."""
    known = set(levels)
    for i, item in enumerate(items):
        if not _is_missing(item) and not (isinstance(item, Hashable) and item in known):
            raise ValueError(
                f"The column {name!r} holds the level {shown(item)} in {row_name(i, index)}, "
                f"which the training data do not have; the known levels are {listed(map(shown, levels))}."
            )


def check_text(values: pd.Series, name: str) -> None:
    """Raise a ValueError where a column of text holds numbers or dates for the most part: it was hardly meant as categories.

    Examples
    --------
    >>> check_text(pd.Series(["low", "high", "3"]), "dose")
    """
    text = {item: item.strip() for item in values.dropna() if isinstance(item, str)}
    for what, reads, convert in _HARDLY_CATEGORIES:
        found = {item: bool(reads(stripped)) for item, stripped in text.items()}
        if 2 * sum(found.values()) <= len(found):
            continue
        odd = next((i for i, item in enumerate(values) if found.get(item) is False), None)
        apart = "" if odd is None else f", apart from {shown(values.iloc[odd])} in {row_name(odd, values.index)}"
        example = shown(next(item for item, is_one in found.items() if is_one))
        raise ValueError(f"The column {name!r} holds {what} as text{apart}; {convert.format(example)}, or write C({name}) for categories.")


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return any(letter.isdigit() for letter in text)  # not "nan" and "infinity"


_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{4}([/.])\d{1,2}\2\d{1,2}|\d{1,2}([/.-])\d{1,2}\3(\d{2}|\d{4})")
_OF_YEAR = re.compile(r"(\d{4})[-/](0[1-9]|1[0-2])|(0[1-9]|1[0-2])[-/]\d{4}")
_NAMED = r"(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?|dec(ember)?)\.?"
_BY_NAME = re.compile(
    rf"\d{{1,2}}\.?[-/ ]?{_NAMED}[-/, ]*(\d{{4}}|\d{{2}})|{_NAMED}[-/, ]+(\d{{1,2}}, *)?\d{{4}}|\d{{4}}[-/ ]{_NAMED}([-/ ]\d{{1,2}})?",
    re.IGNORECASE,
)


def _reads_as_date(text: str) -> bool:
    """Whether text is a day, or a month of a year; seasons such as 2009-10 are none."""
    if (month := _OF_YEAR.fullmatch(text)) is not None:
        return month[1] is None or int(month[2]) != (int(month[1]) + 1) % 100
    return bool(_DATE.fullmatch(text) or _BY_NAME.fullmatch(text))


_HARDLY_CATEGORIES: tuple[tuple[str, Callable[[str], object], str], ...] = (  # what text is, how it is told, and what to do
    ("numbers", _reads_as_number, "convert it with pandas.to_numeric"),
    ("numbers with commas", re.compile(r"[+-]?\d+(,\d+)+([eE][+-]?\d+|\.\d+)?").fullmatch,
     "read the file by pandas.read_csv with decimal=',' or thousands=','"),
    ("dates", _reads_as_date,
     "convert it with pandas.to_datetime, as dates such as {} become days"),
)


def check_counts(values: np.ndarray, name: str, index: pd.Index | None, rows: np.ndarray, binary: bool = False) -> None:
    """Raise a ValueError that names the first of (n,) values, NaN where missing, that is no count, or not 0 or 1.

    Examples
    --------
    >>> check_counts(np.array([0.0, 3.0, np.nan]), "visits", None, np.arange(3))
    """
    with np.errstate(invalid="ignore"):
        good = np.isin(values, (0.0, 1.0)) if binary else (values >= 0) & (values == np.floor(values)) & (values < COUNT_BOUND)
    bad = np.flatnonzero(~(good | np.isnan(values)))
    if len(bad):
        i = int(bad[0])
        what = "0 or 1" if binary else f"a count: {COUNTS}"
        raise ValueError(f"The response {name!r} is {shown(values[i])} in {row_name(rows[i], index)}, not {what}.")


def is_boolean(values: pd.Series) -> bool:
    """Whether a column holds True and False, which are no counts."""
    if values.dtype == object:
        return pd.api.types.infer_dtype(values, skipna=True) == "boolean"
    return pd.api.types.is_bool_dtype(values.dtype)


def missing_mask(values: np.ndarray | pd.Categorical) -> np.ndarray:
    """Return the (n,) bool mask of missing entries of what :func:`column` returns."""
    if isinstance(values, pd.Categorical):
        return np.asarray(values.codes == -1)
    return np.isnan(values)


def complete_rows(columns: Mapping[str, np.ndarray | pd.Categorical], index: pd.Index, *, drop: bool) -> np.ndarray:
    """Return the (n,) bool mask of rows without missing values; warn about the others or raise."""
    masks = {name: missing_mask(values) for name, values in columns.items()}
    used = ~np.any(list(masks.values()), axis=0)
    gaps = {name: mask for name, mask in masks.items() if mask.any()}
    counts = "missing values in " + listed(f"{name} ({mask.sum()})" for name, mask in gaps.items())
    if gaps and not drop:
        name, mask = next(iter(gaps.items()))
        where = row_name(np.flatnonzero(mask)[0], index)
        raise ValueError(f"The column {name!r} misses {where}; fill it or use missing='drop' ({counts}).")
    if not used.any():
        raise ValueError(f"No row of {len(used)} is complete: {counts}; fill them or use fewer columns.")
    if gaps:
        message = f"{(~used).sum()} of {len(used)} rows dropped: {counts}"
        warn(message)
    return used


def matrix(
    values: Any, names: Sequence[str] | None = None, index: pd.Index | None = None, what: str = "response", rows: np.ndarray | None = None
) -> np.ndarray:
    """A table of finite numbers, (n, d) or (n,), of any layout and real type or of objects that are numbers, as float64 (n, d).

    For messages are `names`, default those of a DataFrame, else y1 to yd; `index`, the labels of the rows, default those of a DataFrame;
    `what`, the role of the columns; and `rows`, positions in `index` where `values` is a subset of a longer table.

    A ValueError for the wrong number of dimensions or names, and for values that are not finite numbers, names row and column.

    Examples
    --------
    >>> matrix([1, 2, 3]).shape
    (3, 1)
    """
    if isinstance(values, pd.DataFrame) or hasattr(values, "to_pandas"):
        values = as_frame(values, allow_empty=True)
        index = values.index if index is None else index
        names = list(values.columns) if names is None else names
        columns = [values.iloc[:, j] for j in range(values.shape[1])]
        shape = values.shape
    else:
        array = _as_array(values, what)
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2:
            raise ValueError(f"The {what}s must form a table of 1 or 2 dimensions, not {array.ndim}.")
        columns = [array[:, j] for j in range(array.shape[1])]
        shape = array.shape
    names = [f"y{j + 1}" for j in range(shape[1])] if names is None else list(names)
    if len(names) != shape[1]:
        raise ValueError(f"The {what}s have {shape[1]} columns but {len(names)} names: {', '.join(names)}.")
    out = np.empty(shape)
    for j, (item, name) in enumerate(zip(columns, names)):
        out[:, j] = floats(item, name, index if rows is None else None, what)
    check_finite(out, names, index, what, rows)
    return out


def reals(values: Any, what: str, *, booleans: bool = False) -> np.ndarray:
    """An argument of any shape as a float64 array, a copy; True and False as 1 and 0 where `booleans` are allowed.

    The ValueError where it does not hold real numbers, or its rows differ in length, begins with `what`.

    Examples
    --------
    >>> reals([1, 2], "at")
    array([1., 2.])
    """
    try:
        array = np.array(values)
        refused = (str, bytes) if booleans else (str, bytes, bool, np.bool_)  # which float() would take
        fits = array.dtype.kind in ("biuf" if booleans else "iuf")
        if fits or (array.dtype.kind == "O" and not any(isinstance(item, refused) for item in array.flat)):
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise ValueError(f"{what} must hold real numbers, not {shown(values)}.")


def _as_array(values: Any, what: str) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray):
        return np.ma.filled(values.astype(np.float64), np.nan)
    try:
        return np.asarray(values)
    except ValueError as error:
        raise ValueError(f"The rows of the {what}s differ in length; give a rectangular table.") from error


def check_finite(
    values: np.ndarray, names: Sequence[str], index: pd.Index | None = None, what: str = "response", rows: np.ndarray | None = None, *,
    largest: float = LARGEST, remedy: str = "",
) -> None:
    """Raise a ValueError that names the first row of (n, d) `values` that is not finite or too large, and its column.

    `remedy` says what to do where the values were computed from finite ones.
    """
    bad = ~(np.isfinite(values) & (np.abs(values) <= largest))
    if not bad.any():
        return
    i, j = map(int, np.argwhere(bad)[0])
    value = values[i, j]
    if np.isfinite(value):
        remedy = f"numbers go up to {largest:g}: rescale the column"
    elif not remedy:
        remedy = "drop or fill it" if np.isnan(value) else "use a finite number, or NaN where it is missing"
    where = row_name(i if rows is None else rows[i], index)
    raise ValueError(f"The {what} {names[j]!r} is {value} in {where}; {remedy}.")


def check_distinct(
    values: np.ndarray, names: Sequence[str], what: str = "response", n: int | None = None, cells: Mapping[str, str] | None = None
) -> None:
    """A ValueError that names all columns of (n, d) that are constant (range below 1e-12 of magnitude, or 1e-100), or two that are equal.

    Nothing is checked where n < 2.  With `n` the values are of some of so many rows, which show what there is.  `cells` has, by names of
    columns that cannot be left out because levels of factors make them, what to do instead.

    Examples
    --------
    >>> check_distinct(np.array([[1e6, 0.0], [1e6 + 1e-3, 1.0]]), ["a", "b"])
    """
    n, cells = len(values) if n is None else n, cells or {}
    if n < 2:
        return
    top, bottom = np.nanmax(values, axis=0), np.nanmin(values, axis=0)  # of cells that are not missing
    spread, flat = top - bottom, np.flatnonzero(is_constant(values)).tolist()
    if flat:
        gaps = np.isnan(values).sum(axis=0)
        rounded = [j for j in flat if not spread[j] and abs(bottom[j]) >= EXACT]  # integers may have varied before they were floats
        varying = [j for j in flat if spread[j]] + rounded
        why = {
            j: f"varies by {spread[j]:g} only around {bottom[j]:g}, which is lost in rounding" if spread[j]
            else f"is constant ({bottom[j] + 0.0:g} in all {n} rows used)" if not gaps[j]
            else f"is constant ({bottom[j]:g} in {f'the {n - gaps[j]} of {n}' if n == len(values) else 'all'} rows used that have it)"
            for j in flat
        }
        why |= {j: f"{why[j]} once rounded to 64-bit floats" for j in rounded}
        instead = next((cells[names[j]] for j in flat if names[j] in cells), "")
        if len(flat) == 1:
            offset = ": subtract an offset, or leave it out" if rounded else ": subtract an offset" if varying else ""
            remedy = offset or f"; {instead or 'leave it out'}"
            raise ValueError(f"The {what} {names[flat[0]]!r} {why[flat[0]]}{remedy}.")
        remedy = instead or "leave them out"
        remedy += f", or subtract an offset from {quoted(names[j] for j in varying[:MAX_NAMES])}" if varying else ""
        raise ValueError(f"{len(flat)} {what}s do not vary: {listed(f'{names[j]!r} {why[j]}' for j in flat)}; {remedy}.")
    for j in np.flatnonzero(spread < SMALLEST).tolist():
        raise ValueError(f"The {what} {names[j]!r} varies by {spread[j]:g} only, less than {SMALLEST:g}; rescale it.")
    seen: dict[bytes, list[str]] = {}
    for j, name in enumerate(names):
        seen.setdefault((values[:, j] + 0.0).tobytes(), []).append(name)  # + 0.0 makes one of the two zeros
    if alike := [" and ".join(map(repr, same)) for same in seen.values() if len(same) > 1]:
        of_each = "of each of these" if len(alike) > 1 else "of them"
        instead = next((cells[name] for same in seen.values() if len(same) > 1 for name in same if name in cells), "")
        raise ValueError(f"The {what}s {'; '.join(alike[:MAX_NAMES])} are equal in every row; {instead or f'leave one {of_each} out'}.")


def is_constant(values: np.ndarray) -> np.ndarray:
    """(d,) whether the range of a column of (n, d) is lost in rounding: below 1e-12 of its magnitude.

    Examples
    --------
    >>> is_constant(np.array([[1e6, 0.0], [1e6 + 1e-7, 1.0]]))
    array([ True, False])
    """
    top, bottom = np.nanmax(values, axis=0), np.nanmin(values, axis=0)
    return top - bottom <= CONSTANT * np.maximum(top, -bottom)


def check_row_labels(values: Any, index: pd.Index, what: str) -> None:
    """Raise a ValueError where a Series has other row labels than the data, whose order numbers one a row go by.

    Examples
    --------
    >>> check_row_labels(pd.Series([0, 1]), pd.RangeIndex(2), "labels")
    """
    if isinstance(values, pd.Series) and not values.index.equals(index):
        raise ValueError(
            f"{what}: the Series has other row labels than the data, or has them in another order; give it the index of the data, or "
            f"{what}.to_numpy() where the order is that of the rows."
        )


def labels(values: Any, n: int, index: pd.Index | None = None, what: str = "labels") -> np.ndarray:
    """Labels of clusters, n whole numbers of any type, as int64 (n,), a copy; `index`, labels of the rows, and `what` are for messages.

    A ValueError for a wrong length or number of dimensions, missing values and values that are not whole numbers.

    Examples
    --------
    >>> labels([0.0, 1.0, 1.0], 3)
    array([0, 1, 1])
    """
    if np.ndim(values) != 1:
        raise ValueError(f"The {what} must have one dimension, not {np.ndim(values)}; give one per row.")
    if len(values) != n:
        raise ValueError(f"There are {len(values)} {what} for {n} rows; give one per row.")
    array = np.asarray(values)
    if array.dtype.kind in "bi":
        return array.astype(np.int64)
    whole = floats(values, what, index, "argument")
    bad = ~(np.isfinite(whole) & (whole == np.floor(whole)) & (np.abs(whole) <= EXACT))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise ValueError(f"The {what} hold {whole[i]} in {row_name(i, index)}; they must be whole numbers such as 0, 1, 2.")
    return whole.astype(np.int64)
