"""Dates as covariates: days since the first, of new data since the same one."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common.messages import row_name, shown
from nrmmix.model.frame.arrays import floats

DAY, MICROSECOND = pd.Timedelta(days=1), pd.Timedelta(microseconds=1)
OBJECTS = ("date", "datetime", "datetime64", "period")  # columns of objects that hold dates, in the words of pandas
FARTHEST = 3_700_000  # days, more than from the year 1 to the year 9999
SPELT = (str, datetime.date, np.datetime64, pd.Period)  # what a date of new data may be


def in_days(frame: pd.DataFrame, columns: Iterable[str]) -> tuple[pd.DataFrame, dict[str, pd.Timestamp]]:
    """A table whose columns of dates, among some of its own, hold days since the first date of each; and these first dates.

    Examples
    --------
    >>> table, first = in_days(pd.DataFrame({"day": pd.to_datetime(["2020-01-03", "2020-01-01", None])}), ["day"])
    >>> table["day"].tolist(), first
    ([2.0, 0.0, nan], {'day': Timestamp('2020-01-01 00:00:00')})
    """
    first = first_dates(frame, columns)
    return _replaced(frame, {name: _as_dates(frame[name], name) for name in first}, first), first


def first_dates(frame: pd.DataFrame, columns: Iterable[str]) -> dict[str, pd.Timestamp]:
    """The first date of each column of dates among some of a table; none of columns without any.

    A ValueError where some dates of a column have a time zone and others have none.

    Examples
    --------
    >>> first_dates(pd.DataFrame({"day": pd.to_datetime(["2020-01-03", "2020-01-01"]), "x": [1.0, 2.0]}), ["day", "x"])
    {'day': Timestamp('2020-01-01 00:00:00')}
    """
    dates = {name: _as_dates(frame[name], name) for name in columns if name in frame and _holds_dates(frame[name])}
    return {name: values.min() for name, values in dates.items() if values.notna().any()}


def in_days_since(frame: pd.DataFrame, first: Mapping[str, pd.Timestamp]) -> pd.DataFrame:
    """New data whose columns of dates hold days since given ones; numbers are such days already, text is dates of ISO 8601.

    A ValueError if text is no date, a number is farther than any date, or dates have a time zone where others or those that were fitted
    had none, or the other way round.

    Examples
    --------
    >>> in_days_since(pd.DataFrame({"day": ["2020-02-01"]}), {"day": pd.Timestamp("2020-01-01")})
        day
    0  31.0
    """
    dates = {}
    for name in first:
        if name in frame and not (_holds_dates(frame[name]) or _holds_text(frame[name])):
            _check_days(frame[name], name, first[name])
        elif name in frame:
            read = _as_dates(frame[name], name)
            # where no date is given, none lacks a zone
            dates[name] = read if read.notna().any() else read.dt.tz_localize(None).dt.tz_localize(first[name].tz)
        if name in dates and (dates[name].dt.tz is None) != (first[name].tz is None):
            have, had = ("no time zone", "one") if first[name].tz is not None else ("a time zone", "none")
            raise ValueError(f"The dates of {name!r} have {have}, and those that were fitted had {had}; convert the column.")
    return _replaced(frame, dates, first)


def from_days(frame: pd.DataFrame, first: Mapping[str, pd.Timestamp]) -> pd.DataFrame:
    """A table with dates, to the microsecond, in its columns of days since given ones.

    Examples
    --------
    >>> from_days(pd.DataFrame({"day": [31.5, np.nan]}), {"day": pd.Timestamp("2020-01-01")})["day"].tolist()
    [Timestamp('2020-02-01 12:00:00'), NaT]
    """
    since = {name: np.rint(frame[name].to_numpy(float) * (DAY / MICROSECOND)) for name in first if name in frame}
    return frame.assign(**{name: _after(first[name], values) for name, values in since.items()}) if since else frame


def _after(first: pd.Timestamp, passed: np.ndarray) -> pd.Index:
    """Instants so many microseconds after the first, NaT where that is NaN."""
    gaps = np.isnan(passed)
    return first.as_unit("us") + pd.Index(np.where(gaps, np.timedelta64("NaT"), np.where(gaps, 0.0, passed).astype("timedelta64[us]")))


def describe(name: str, first: pd.Timestamp) -> str:
    """Say what a column of dates is counted from.

    Examples
    --------
    >>> describe("day", pd.Timestamp("2020-01-01"))
    'day: days since 2020-01-01'
    """
    return f"{name}: days since {first.date() if first == first.normalize() and first.tz is None else first}"


def _check_days(values: pd.Series, name: str, first: pd.Timestamp) -> None:
    days = floats(values, name)
    if (far := np.isfinite(days) & (np.abs(days) > FARTHEST)).any():
        raise ValueError(f"The column {name!r} holds {_cell(values, far)}, farther than any date; give dates, or {describe(name, first)}.")


def _replaced(frame: pd.DataFrame, dates: Mapping[str, pd.Series], first: Mapping[str, pd.Timestamp]) -> pd.DataFrame:
    return frame.assign(**{name: (values - first[name]) / DAY for name, values in dates.items()}) if dates else frame


def _holds_dates(values: pd.Series) -> bool:
    if pd.api.types.is_datetime64_any_dtype(values.dtype) or isinstance(values.dtype, pd.PeriodDtype):
        return True
    return values.dtype == object and pd.api.types.infer_dtype(values, skipna=True) in OBJECTS


def _holds_text(values: pd.Series) -> bool:
    """Whether some of a column of new data may be read as a date, though it is no column of dates."""
    if pd.api.types.is_numeric_dtype(values.dtype):
        return False
    return isinstance(values.dtype, pd.CategoricalDtype) or any(isinstance(item, SPELT) for item in values)


def _as_dates(values: pd.Series, name: str) -> pd.Series:
    """Dates of one type; those with a time zone in UTC, periods by their beginnings, text as ISO 8601 has it."""
    if isinstance(values.dtype, pd.PeriodDtype):
        values = values.dt.to_timestamp()
    if isinstance(values.dtype, pd.ArrowDtype) and values.dtype.type is datetime.date:  # which lacks what columns of dates have
        values = values.astype(object)
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return values.dt.tz_convert("UTC") if values.dt.tz is not None else values
    items = pd.Series([_stamp(item) for item in values], values.index, dtype=object)
    read = pd.to_datetime(items, format="ISO8601", errors="coerce", utc=True)
    if (wrong := (read.isna() & values.notna()).to_numpy()).any():
        raise ValueError(f"The column {name!r} holds dates, and {_cell(values, wrong)} is none; write 2020-12-31.")
    zoned = np.array([_has_zone(item) for item in items], bool)
    plain = ~zoned & values.notna().to_numpy()
    if zoned.any() and plain.any():
        raise ValueError(
            f"The column {name!r} holds dates with a time zone, as {_cell(values, zoned)}, and without, as {_cell(values, plain)}; "
            "give all of them one, or none."
        )
    return read if zoned.any() else read.dt.tz_localize(None)


def _cell(values: pd.Series, where: np.ndarray) -> str:
    i = int(where.argmax())
    return f"{shown(values.iloc[i])} in {row_name(i, values.index)}"


def _stamp(item: Any) -> Any:
    """A date as pandas reads it; None of what is none, such as a number, which it would read too."""
    return item.to_timestamp() if isinstance(item, pd.Period) else item if isinstance(item, SPELT) else None


def _has_zone(item: Any) -> bool:
    read = pd.Timestamp(item) if isinstance(item, str) else item
    return isinstance(read, datetime.datetime) and read.tzinfo is not None
