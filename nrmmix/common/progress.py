"""A line of progress on stderr."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

class Progress:
    """A line on stderr, redrawn a few times a second."""

    def __init__(self, show: bool | None, total: int, n_chains: int):
        self.show = sys.stderr.isatty() if show is None else bool(show)
        self.total, self.n_chains = total, n_chains
        self.started = time.perf_counter()

    def update(self, done: int) -> None:
        if not self.show:
            return
        share = done / max(self.total, 1)
        elapsed = time.perf_counter() - self.started
        left = f", {elapsed * (1 - share) / share:.0f} s left" if 0 < share < 1 else ""
        sys.stderr.write(f"\r{self.n_chains} chains: {share:4.0%}, {elapsed:.0f} s{left}      ")
        sys.stderr.flush()

    def close(self) -> None:
        if self.show:
            sys.stderr.write("\n")
