"""How arguments are checked and refused, and how messages name values, names and rows: one wording for all."""

from __future__ import annotations

import difflib
import math
import operator
from collections.abc import Iterable
from contextvars import ContextVar
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

SHELL: ContextVar[str] = ContextVar("SHELL", default="")  # of the command line: the file of the fit, or "-" where none is kept

LONGEST, MOST = 60, 20  # characters of a value, and names, that a message shows


# ---- arguments

def number(value: Any) -> float:
    """A real number as a float; NaN for anything else.

    Examples
    --------
    >>> number(2), number("2"), number(True)
    (2.0, nan, nan)
    """
    try:
        return float(value) if isinstance(value, (Real, Decimal)) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def positive(name: str, value: Any, why: str = "") -> float:
    """A checked number that is finite and greater than 0; `why` ends the message."""
    if not 0 < number(value) < math.inf:
        raise ValueError(f"{name} must be a finite number greater than 0, not {value!r}{why}.")
    return float(value)


def between(name: str, value: Any, least: float, most: float) -> float:
    """A checked number from the least to the most, ends included."""
    if not least <= number(value) <= most:
        raise ValueError(f"{name} must be a number from {least:g} to {most:g}, not {value!r}.")
    return float(value)


def probability(name: str, value: Any) -> float:
    """A checked number between 0 and 1, ends left out."""
    if not 0 < number(value) < 1:
        raise ValueError(f"{name} must be between 0 and 1, not {value!r}.")
    return float(value)


def seconds(name: str, value: Any) -> float | None:
    """A checked limit of time; None where there is none."""
    if value is None:
        return None
    if not number(value) > 0:
        raise ValueError(f"{name} must be greater than 0 seconds, not {value!r}.")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """A checked True or False, NumPy's too."""
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{name} must be True or False, not {value!r}.")
    return bool(value)


def count(name: str, value: Any, least: int, most: int | None = None) -> int:
    """A checked integer argument."""
    try:
        whole = operator.index(value)
    except TypeError:
        whole = least - 1
    if isinstance(value, bool) or whole < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}.")
    if most is not None and whole > most:
        raise ValueError(f"{name} must be at most {most:,}; that many at once could not be interrupted.")
    return whole


def one_of(name: str, value: Any, known: Iterable[str]) -> str:
    """A checked argument that is one of a few words."""
    known = tuple(known)
    if not (isinstance(value, str) and value in known):
        raise ValueError(f"{name} must be one of {quoted(known)}, not {value!r}{did_you_mean(value, known)}")
    return value


def known_name(what: str, name: Any, known: Iterable[str]) -> str:
    """A checked name of something that there is, of a `what`."""
    known = tuple(known)
    if not (isinstance(name, str) and name in known):
        raise ValueError(f"unknown {what} {name!r}; there are {quoted(known) or 'none'}{did_you_mean(name, known)}")
    return name


def did_you_mean(name: Any, known: Iterable[Any], cutoff: float = 0.6) -> str:
    """The end of a message about an unknown name: the known one that is most like it, or a full stop where none is.

    Examples
    --------
    >>> did_you_mean("Gaussain", ["gaussian", "poisson"]), did_you_mean("x", ["gaussian"])
    ("; did you mean 'gaussian'?", '.')
    """
    near = nearest(name, known, cutoff)
    return "." if near is None else f"; did you mean {near!r}?"


def nearest(name: Any, known: Iterable[Any], cutoff: float = 0.6) -> str | None:
    """The known name that is most like another, whatever their capitals; None where none is."""
    by_letters = {str(one).lower(): str(one) for one in known}
    near = difflib.get_close_matches(str(name).lower(), by_letters, 1, cutoff)
    return by_letters[near[0]] if near else None


# ---- values, names and rows

def plain(item: Any) -> Any:
    """An item without NumPy's wrapping; a whole float as an int."""
    if isinstance(item, tuple):  # a label of several levels
        return tuple(plain(part) for part in item)
    item = item.item() if isinstance(item, np.generic) else item
    return int(item) if isinstance(item, float) and item.is_integer() else item


def shown(item: Any) -> str:
    """An item as messages show it, which is not at any length.

    Examples
    --------
    >>> shown("a"), shown(np.float64(2)), len(shown("a" * 1000))
    ("'a'", '2', 60)
    """
    text = " ".join(repr(plain(item)).split("\n"))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def printable(text: str) -> str:
    """A text whose control characters, and others that are not seen, are escaped: a terminal does not obey them.

    Examples
    --------
    >>> printable("a\x1b[2Jb\n"), printable("größe m²")
    ('a\\x1b[2Jb\\n', 'größe m²')
    """
    return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def quoted(names: Iterable[str]) -> str:
    """Join names in quotes by commas."""
    return ", ".join(map(repr, names))


def listed(items: Iterable[str]) -> str:
    """Join names by commas, the first of them where there are many.

    Examples
    --------
    >>> listed(["x", "y"])
    'x, y'
    """
    items = list(map(printable, items))
    more = f", ... ({len(items)} all told)" if len(items) > MOST else ""
    return ", ".join(items[:MOST]) + more


def duration(seconds: float) -> str:
    """A time in words, of two digits at most.

    Examples
    --------
    >>> duration(0.2), duration(34.4), duration(200), duration(9000)
    ('1 s', '34 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.2g} h"


def row_name(position: int, index: pd.Index | None = None) -> str:
    """Describe a row by its position, counted from 0, and where that differs by its index label.

    Examples
    --------
    >>> import pandas as pd
    >>> row_name(3), row_name(1, pd.Index(["a", "b"]))
    ('row 3', "row 1 (index label 'b')")
    """
    position = int(position)
    if index is None:
        return f"row {position}"
    label = plain(index[position])
    if isinstance(label, int) and label == position:
        return f"row {position}"
    return f"row {position} (index label {shown(label)})"
