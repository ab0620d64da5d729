"""A word on stderr when kernels are compiled, which happens once on a machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

from nrmmix.common.stderr import tell
from nrmmix.kernels.compiling import disk

SOON = "a few seconds"


class Announcer(event.Listener):
    """Says so with how long it will take, as `estimate` has it in seconds; the same words once in a process."""

    def __init__(self) -> None:
        self.estimate: Callable[[], float] | None = None
        self.time = SOON
        self.said: set[str] = set()
        self.within = False

    def on_start(self, _event: Any) -> None:
        if self.estimate is not None:
            estimate, self.estimate = self.estimate, None
            self.time = text(5 * round(estimate() / 5))
        later = "later runs find them on disk"
        if not disk.is_kept():
            later = "in each process anew, until NUMBA_CACHE_DIR names a folder that can be written"
        self._say(f"nrmmix: compiling kernels, {self.time}; {later} ...")

    def on_end(self, _event: Any) -> None:
        for reason in disk.unsaved[:1]:
            self._say(f"nrmmix: what was compiled cannot be kept for later runs: {reason.strerror or reason}")

    def _say(self, line: str) -> None:
        if line not in self.said:
            self.said.add(line)
            tell(line)


ANNOUNCER = Announcer()


def text(seconds: int) -> str:
    """Describe the compilation in words.

    Examples
    --------
    >>> text(0), text(25), text(120)
    ('a few seconds', 'about 25 s', 'about 2 min')
    """
    if seconds == 0:
        return SOON
    return f"about {seconds} s" if seconds < 90 else f"about {round(seconds / 60)} min"


@contextmanager
def announced(estimate: Callable[[], float] | None = None) -> Iterator[None]:
    """Within the block, say so when something has to be compiled rather than loaded; with the seconds that the estimate gives then."""
    if ANNOUNCER.within:
        yield
        return
    ANNOUNCER.within, ANNOUNCER.time, ANNOUNCER.estimate = True, SOON, estimate
    try:
        with event.install_listener("numba:compile", ANNOUNCER):
            yield
    finally:
        ANNOUNCER.within = False
