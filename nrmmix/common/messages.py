"""How arguments are checked and refused, in one wording."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable
from numbers import Real
from typing import Any


def count(name: str, value: Any, least: int, most: int | None = None) -> int:
    """A checked integer argument."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}.")
    if most is not None and number > most:
        raise ValueError(f"{name} must be at most {most:,}; that many at once could not be interrupted.")
    return number


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """The end of a sentence that refuses a name: the nearest one that is known, if one is near."""
    near = difflib.get_close_matches(str(name), tuple(known), 1)
    return f"; did you mean {near[0]!r}?" if near else "."


def one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}{did_you_mean(value, known)}")
    return value


def seconds(name: str, value: Any) -> float | None:
    """A checked number of seconds, or None for no limit."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, Real) or not value > 0):
        raise ValueError(f"{name} must be greater than 0 seconds, not {value!r}.")
    return value
