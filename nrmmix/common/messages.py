"""How arguments are checked and refused, in one wording."""

from __future__ import annotations

import difflib
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    pass

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


def one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    if value not in known:
        near = difflib.get_close_matches(str(value), known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}{hint}")
    return value
