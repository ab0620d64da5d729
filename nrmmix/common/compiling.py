"""A word on stderr when kernels are compiled, which happens once on a machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

from nrmmix.common.progress import tell

FEW = "a few seconds"


class _Announcer(event.Listener):
    """Says so with how long it will take, and a `caution` where there is one; the same words once in a process."""

    def __init__(self) -> None:
        self.time, self.times, self.caution, self.later = FEW, 1.0, "", "later runs find them on disk"
        self.said: set[str] = set()
        self.within = False

    def on_start(self, _event: Any) -> None:
        line = f"nrmmix: compiling kernels, {self.time}{self.caution}; {self.later} ..."
        if line not in self.said:
            self.said.add(line)
            tell(line)

    def on_end(self, _event: Any) -> None:
        pass


_ANNOUNCER = _Announcer()


def expect_longer(times: float, reason: str) -> None:
    """Compiling takes so many times as long in this process as it should, and who is told of it is told why."""
    _ANNOUNCER.times, _ANNOUNCER.caution = times, f" (slowly: {reason})"


def expect(seconds: float) -> None:
    """Within such a block compiling takes about so long, which who is told of it is told too."""
    _ANNOUNCER.time = text(5 * round(_ANNOUNCER.times * seconds / 5))


def expect_again() -> None:
    """Nothing that is compiled can be kept, which who is told of it is told too."""
    _ANNOUNCER.later = "in each process anew, until NUMBA_CACHE_DIR names a folder that can be written"


def say_not_kept(reason: OSError) -> None:
    """What was compiled could not be written to disk, which is said once in a process."""
    line = f"nrmmix: what was compiled cannot be kept for later runs: {reason.strerror or reason}"
    if line not in _ANNOUNCER.said:
        _ANNOUNCER.said.add(line)
        tell(line)


def text(seconds: int) -> str:
    """In words.

    Examples
    --------
    >>> text(0), text(25), text(120)
    ('a few seconds', 'about 25 s', 'about 2 min')
    """
    if seconds == 0:
        return FEW
    return f"about {seconds} s" if seconds < 90 else f"about {round(seconds / 60)} min"


@contextmanager
def announced() -> Iterator[None]:
    """Within the block, say so when something has to be compiled rather than loaded from the cache."""
    if _ANNOUNCER.within:
        yield
        return
    _ANNOUNCER.within, _ANNOUNCER.time = True, FEW
    try:
        with event.install_listener("numba:compile", _ANNOUNCER):
            yield
    finally:
        _ANNOUNCER.within = False
