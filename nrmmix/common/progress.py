"""A line of progress on stderr."""

from __future__ import annotations

import sys
import time


class Progress:
    """A line on stderr that is written anew as work goes on; where `show` is None, on a terminal only.

    Examples
    --------
    >>> with Progress(False) as line:
    ...     line.update("pass 1 of 10", 0.1)
    """

    def __init__(self, show: bool | None):
        self.show = sys.stderr.isatty() if show is None else bool(show)
        self.started = time.perf_counter()

    def update(self, text: str, share: float) -> None:
        """What is being done, and the share of it that is done."""
        if self.show:
            elapsed = time.perf_counter() - self.started
            left = f", {elapsed * (1 - share) / share:.0f} s left" if 0 < share < 1 else ""
            sys.stderr.write(f"\r{text}, {elapsed:.0f} s{left}      ")
            sys.stderr.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.show:
            sys.stderr.write("\n")
