"""Responses of two columns, of which some values are known by the ends alone between which they lie.

`Surv(time, event)` is a time at which an event was seen (1), or until which none was (0); `interval(lower, upper)` any two ends, which are
equal where the value was seen, one of them infinite where only the other is known.  In the place of a value that was not seen stands one
within its limits: its finite end, or the middle of both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from nrmmix.common.messages import row_name, shown
from nrmmix.model.frame import arrays
from nrmmix.model.frame.syntax import CENSORED

SHOWN = 4  # rows that a message names


def of_two_columns(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the name of a response of two columns, and what stands in it, arithmetic in I(); of any other nothing.

    Examples
    --------
    >>> of_two_columns("Surv(log(time), event)"), of_two_columns("log(time)")
    (('Surv', ('log(time)', 'event')), ('', ()))
    """
    node = ast.parse(text, mode="eval").body
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CENSORED):
        return "", ()
    parts = ((one, ast.get_source_segment(text, one) or "") for one in node.args)
    return node.func.id, tuple(part if isinstance(one, (ast.Name, ast.Call)) else f"I({part})" for one, part in parts)


@dataclass(frozen=True, eq=False)
class CensoredPart:
    """A response of two columns, in the place of a part of one: `first` and `second` are those of its columns."""

    kind: str  # of CENSORED
    text: str
    first: Any
    second: Any
    reads: str = "numbers"

    what: ClassVar[str] = "response"
    is_plain: ClassVar[bool] = False
    is_censored: ClassVar[bool] = True
    levels: ClassVar[dict[str, Any]] = {}

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.first.columns, *self.second.columns)))

    @property
    def name(self) -> str:
        return self.first.name if self.kind == "Surv" else self.text

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def columns_of_names(self) -> list[tuple[str, ...]]:
        """Columns that its name is computed from."""
        return [self.columns]

    def read(self, frame: pd.DataFrame) -> dict[str, Any]:
        """The columns as numbers; missing values pass."""
        found = self.first.read(frame) | self.second.read(frame)
        for name, values in found.items():
            if not isinstance(values, np.ndarray):
                remedy = ": 1 where the event was seen, 0 where it was not" if name in self.second.columns and self.kind == "Surv" else ""
                raise ValueError(f"The column {name!r} of {self.text} holds text or categories; give numbers{remedy}.")
        return found

    def fit(self, frame: pd.DataFrame, weight: np.ndarray | None = None) -> CensoredPart:
        """Learn from rows what is computed, and check what they hold."""
        fitted = replace(self, first=self.first.fit(frame, weight=weight), second=self.second.fit(frame, weight=weight))
        if self.kind == "Surv" and not self.first.is_plain:
            fitted._check_increasing(frame)
        lower, upper = fitted.limits(frame, frame.index).T
        for end, side in ((upper, "right"), (lower, "left")):
            if not np.isfinite(end).any():
                raise ValueError(
                    f"Every value of {self.text} is censored at the {side}: nothing says how far beyond its limit any of them lies; give "
                    f"rows in which {'the event was seen' if self.kind == 'Surv' else 'the other end is known'}."
                )
        return fitted

    def _check_increasing(self, frame: pd.DataFrame) -> None:
        """Refuse a function that falls, or that has several columns: a limit from below is none of it."""
        values, _ = self.first.compute(frame, frame.index)
        raw = list(self.first.read(frame).values())
        order = np.argsort(raw[0])
        if len(raw) > 1 or (np.diff(values[order, 0]) < 0).any():
            raise ValueError(
                f"{self.text}: {self.first.name!r} does not grow with one column, so that a time until which nothing was seen is no limit "
                "from below; write interval(lower, upper) with both ends as columns."
            )

    def limits(self, frame: pd.DataFrame, index: pd.Index, rows: np.ndarray | None = None) -> np.ndarray:
        """(m, 2) the ends between which each value lies, NaN where one is missing; a ValueError names rows where they cannot be right."""
        rows = np.arange(len(frame)) if rows is None else rows
        (one, has_one), (two, has_two) = (part.compute(frame, index, rows) for part in (self.first, self.second))
        lower, upper, there = one[:, 0], two[:, 0], has_one & has_two
        if self.kind == "Surv":
            bad = there & ~np.isin(upper, (0.0, 1.0))
            if bad.any():
                held = shown(upper[bad][0])
                raise ValueError(
                    f"The event of {self.text} is {held} in {_rows(bad, rows, index)}; it is 1 where the event was seen and 0 where it was "
                    "not until then (censored at the right). Other codes, such as 1 and 2, are to be made these."
                )
            upper = np.where(upper == 1.0, lower, np.inf)
        ends = np.where(there[:, None], np.stack([lower, upper], axis=1), np.nan)
        if self.kind == "interval":
            if (bad := ends[:, 0] > ends[:, 1]).any():
                raise ValueError(f"The lower end of {self.text} is above the upper one in {_rows(bad, rows, index)}; exchange them there.")
            if (bad := (ends[:, 0] == np.inf) | (ends[:, 1] == -np.inf)).any():
                where = _rows(bad, rows, index)
                raise ValueError(f"{self.text} lies beyond all numbers in {where}; an infinite end is -inf below, or inf above.")
            if (bad := np.asarray(np.isinf(ends).all(axis=1))).any():
                raise ValueError(f"Both ends of {self.text} are infinite in {_rows(bad, rows, index)}, which say nothing; drop such rows.")
        if self.reads in ("counts", "composition", "binary"):
            for end in ends.T:
                arrays.check_counts(np.where(np.isfinite(end), end, np.nan), self.name, index, rows, binary=self.reads == "binary")
            ends[:, 0] = np.where(ends[:, 0] == -np.inf, 0.0, ends[:, 0])
        return ends

    def compute(self, frame: pd.DataFrame, index: pd.Index, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(m, 1) the values that were seen, and what stands in the place of the others; NaN in rows that miss a column, and their mask."""
        lower, upper = self.limits(frame, index, rows).T
        with np.errstate(invalid="ignore"):
            middle = lower + 0.5 * (upper - lower)
        if self.reads == "counts":
            middle = np.floor(middle)
        values = np.where(np.isinf(lower), upper, np.where(np.isinf(upper) | (lower == upper), lower, middle))
        return values[:, None], ~np.isnan(lower)


def limits_of(
    parts: Sequence[Any], frame: pd.DataFrame, index: pd.Index, rows: np.ndarray | None = None, *, which: Iterable[int] | None = None
) -> np.ndarray | None:
    """(m, d, 2) ends between which responses, of all or of some, lie that were not seen, NaN elsewhere; None where there are none."""
    ends = np.full((len(frame), len(parts), 2), np.nan)
    for j in range(len(parts)) if which is None else which:
        if getattr(parts[j], "is_censored", False):
            ends[:, j] = parts[j].limits(frame, index, rows)
    ends[~(ends[..., 0] < ends[..., 1])] = np.nan
    return None if np.isnan(ends).all() else ends


def _rows(bad: np.ndarray, rows: np.ndarray, index: pd.Index) -> str:
    """Some of so many rows, by name."""
    found = rows[np.flatnonzero(bad)]
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(row_name(i, index) for i in found[:SHOWN]) + more
