"""Sources of rows: tables that are loaded part by part, because they are larger than memory or not all there at once.

A source has `names` of its columns, `n_batches` parts, `load(b)`, which gives part b as a table, and `fingerprint()`, which changes where
the data behind it do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

PART = 16_384  # rows of a part, where the source has no parts of its own


class SourceChanged(RuntimeError):
    """The data behind a source are not what they were."""


class Source:
    """Base of the sources; parts are DataFrames with the columns `names`, or CSR matrices."""

    names: tuple[str, ...]
    path: str | None = None  # by which it is found again, where it is a file
    from_array: bool = False
    remedy: str = "one table of all rows"  # what gives the rows in memory

    @property
    def n_batches(self) -> int:
        raise NotImplementedError

    def load(self, b: int) -> Any:
        """Part b, a copy: a table with the columns `names`."""
        raise NotImplementedError

    def parts(self, first: int = 0, last: int | None = None) -> Iterator[Any]:
        """Parts from one to before another, by default all."""
        for b in range(first, self.n_batches if last is None else last):
            yield self.load(b)

    def fingerprint(self) -> tuple[Any, ...]:
        """Return what changes where the data do, as far as that is seen without reading them."""
        return ()

    def select(self, names: Sequence[str]) -> Source:
        """Return the source with these columns alone, where that saves reading."""
        return self

    def place(self, b: int) -> str:
        """Say where part b is, for messages."""
        return f"part {b} of {self}"

    def __str__(self) -> str:
        return repr(self.path) if self.path is not None else "the source"


def stamp(path: Any) -> tuple[Any, ...]:
    """Size and time of a file."""
    try:
        there = os.stat(path)
    except OSError as error:
        raise SourceChanged(f"{str(path)!r} cannot be read any more: {error.strerror}.") from None
    return str(path), there.st_size, there.st_mtime_ns
