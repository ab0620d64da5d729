"""Defaults that can be told from the same values given by a user."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T", int, str)


class _Whole(int):
    pass


class _Word(str):
    __slots__ = ()


def default(value: T) -> T:
    """An int or str for a signature, with which `given` knows that nothing was given.

    Examples
    --------
    >>> draws = default(1000)
    >>> draws, given(draws=draws, tune=1000, cores=None)
    (1000, {'tune': 1000})
    """
    return _Whole(value) if isinstance(value, int) else _Word(value)


def given(**arguments: Any) -> dict[str, Any]:
    """The arguments that are neither None nor a default."""
    return {name: value for name, value in arguments.items() if value is not None and not isinstance(value, (_Whole, _Word))}


def plain(value: Any) -> Any:
    """The value of a default as an ordinary int or str; anything else as it is."""
    if isinstance(value, _Whole):
        return int(value)
    return str(value) if isinstance(value, _Word) else value
