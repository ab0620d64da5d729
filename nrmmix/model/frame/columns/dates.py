"""Dates as covariates: days since the first, of new data since the same one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from nrmmix.common.messages import row_name, shown

DAY = pd.Timedelta(days=1)
OBJECTS = ("date", "datetime", "datetime64", "period")  # columns of objects that hold dates, in the words of pandas


def in_days(frame: pd.DataFrame, columns: Iterable[str]) -> tuple[pd.DataFrame, dict[str, pd.Timestamp]]:
    """A table whose columns of dates, among some of its own, hold days since the first date of each; and these first dates.

    Examples
    --------
    >>> table, first = in_days(pd.DataFrame({"day": pd.to_datetime(["2020-01-03", "2020-01-01", None])}), ["day"])
    >>> table["day"].tolist(), first
    ([2.0, 0.0, nan], {'day': Timestamp('2020-01-01 00:00:00')})
    """
    first = first_dates(frame, columns)
    return _replaced(frame, {name: _as_dates(frame[name]) for name in first}, first), first


def first_dates(frame: pd.DataFrame, columns: Iterable[str]) -> dict[str, pd.Timestamp]:
    """The first date of each column of dates among some of a table; none of columns without any.

    Examples
    --------
    >>> first_dates(pd.DataFrame({"day": pd.to_datetime(["2020-01-03", "2020-01-01"]), "x": [1.0, 2.0]}), ["day", "x"])
    {'day': Timestamp('2020-01-01 00:00:00')}
    """
    dates = {name: _as_dates(frame[name]) for name in columns if name in frame and _holds_dates(frame[name])}
    return {name: values.min() for name, values in dates.items() if values.notna().any()}


def in_days_since(frame: pd.DataFrame, first: Mapping[str, pd.Timestamp]) -> pd.DataFrame:
    """New data whose columns of dates hold days since given ones; numbers are such days already, text is dates of ISO 8601.

    Raises
    ------
    ValueError
        If text is no date, or dates have a time zone where those that were fitted had none, or the other way round.

    Examples
    --------
    >>> in_days_since(pd.DataFrame({"day": ["2020-02-01"]}), {"day": pd.Timestamp("2020-01-01")})
        day
    0  31.0
    """
    dates = {}
    for name in first:
        if name not in frame or pd.api.types.is_numeric_dtype(frame[name].dtype):
            continue
        values = frame[name]
        if _holds_dates(values):
            dates[name] = _as_dates(values)
        elif pd.api.types.infer_dtype(values, skipna=True) in ("string", "categorical"):
            read = pd.to_datetime(values.astype(object), format="ISO8601", errors="coerce", utc=first[name].tz is not None)
            if (wrong := read.isna() & values.notna()).any():
                i = int(wrong.to_numpy().argmax())
                what = f"{shown(values.iloc[i])} in {row_name(i, values.index)}"
                raise ValueError(f"The column {name!r} holds dates, and {what} is none; write 2020-12-31.")
            dates[name] = _as_dates(read)
        if name in dates and (dates[name].dt.tz is None) != (first[name].tz is None):
            have, had = ("no time zone", "one") if first[name].tz is not None else ("a time zone", "none")
            raise ValueError(f"The dates of {name!r} have {have}, and those that were fitted had {had}; convert the column.")
    return _replaced(frame, dates, first)


def describe(name: str, first: pd.Timestamp) -> str:
    """Say what a column of dates is counted from.

    Examples
    --------
    >>> describe("day", pd.Timestamp("2020-01-01"))
    'day: days since 2020-01-01'
    """
    return f"{name}: days since {first.date() if first == first.normalize() and first.tz is None else first}"


def _replaced(frame: pd.DataFrame, dates: Mapping[str, pd.Series], first: Mapping[str, pd.Timestamp]) -> pd.DataFrame:
    return frame.assign(**{name: (values - first[name]) / DAY for name, values in dates.items()}) if dates else frame


def _holds_dates(values: pd.Series) -> bool:
    if pd.api.types.is_datetime64_any_dtype(values.dtype) or isinstance(values.dtype, pd.PeriodDtype):
        return True
    return values.dtype == object and pd.api.types.infer_dtype(values, skipna=True) in OBJECTS


def _as_dates(values: pd.Series) -> pd.Series:
    """Dates of one type; those with a time zone in UTC, periods by their beginnings."""
    if isinstance(values.dtype, pd.PeriodDtype) or (values.dtype == object and pd.api.types.infer_dtype(values, skipna=True) == "period"):
        values = pd.Series(pd.PeriodIndex(values).to_timestamp(), index=values.index)
    dates = pd.to_datetime(values)
    return dates.dt.tz_convert("UTC") if dates.dt.tz is not None else dates
