"""A word on stderr when kernels are compiled, which happens once on a machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

from nrmmix.common.progress import tell


class _Announcer(event.Listener):
    """Says so once in a process, with a `caution` where there is one."""

    said, caution = False, ""

    def on_start(self, _event: Any) -> None:
        if not self.said:
            self.said = True
            tell(f"nrmmix: compiling kernels{self.caution}; later runs find them on disk ...")

    def on_end(self, _event: Any) -> None:
        pass


_ANNOUNCER = _Announcer()


def expect_longer(reason: str) -> None:
    """Compiling takes longer on this machine than it should, and who is told of it is told why."""
    _ANNOUNCER.caution = f" (slowly: {reason})"


@contextmanager
def announced() -> Iterator[None]:
    """Within the block, say so when something has to be compiled rather than loaded from the cache."""
    with event.install_listener("numba:compile", _ANNOUNCER):
        yield
