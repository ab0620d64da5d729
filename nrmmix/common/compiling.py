"""A word on stderr when kernels are compiled, which happens once on a machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

from nrmmix.common.progress import tell


class _Announcer(event.Listener):
    """Says so once in a process, with how long it will take and a `caution`, where these are known."""

    said, caution, time, later = False, "", "", "later runs find them on disk"

    def on_start(self, _event: Any) -> None:
        if not self.said:
            self.said = True
            tell(f"nrmmix: compiling kernels{self.time}{self.caution}; {self.later} ...")

    def on_end(self, _event: Any) -> None:
        pass


_ANNOUNCER = _Announcer()


def expect_longer(reason: str) -> None:
    """Compiling takes longer on this machine than it should, and who is told of it is told why."""
    _ANNOUNCER.caution = f" (slowly: {reason})"


def expect(seconds: float) -> None:
    """Compiling takes about so long, which who is told of it is told too."""
    _ANNOUNCER.time = f", {text(5 * max(round(seconds / 5), 1))}"


def expect_again() -> None:
    """Nothing that is compiled can be kept, which who is told of it is told too."""
    _ANNOUNCER.later = "in each process anew, until NUMBA_CACHE_DIR names a folder that can be written"


def text(seconds: int) -> str:
    """In words.

    Examples
    --------
    >>> text(25), text(120)
    ('about 25 s', 'about 2 min')
    """
    return f"about {seconds} s" if seconds < 90 else f"about {round(seconds / 60)} min"


@contextmanager
def announced() -> Iterator[None]:
    """Within the block, say so when something has to be compiled rather than loaded from the cache."""
    with event.install_listener("numba:compile", _ANNOUNCER):
        yield
