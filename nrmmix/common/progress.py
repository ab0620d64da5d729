"""Progress: a line on stderr, in notebooks a bar."""

from __future__ import annotations

import sys
import time
from typing import Any

from nrmmix.common.messages import flag


class Progress:
    """A line on stderr that is written anew as work goes on; where `show` is None, on a terminal and in notebooks only.

    In a notebook with tqdm installed it is a bar of `tqdm.auto`.

    A stream that cannot be written to costs the line, not the work.

    Examples
    --------
    >>> with Progress(False) as line:
    ...     line.update("pass 1 of 10", 0.1)
    """

    def __init__(self, show: bool | None):
        show = None if show is None else flag("progress", show)
        notebook = "ipykernel" in sys.modules
        try:
            self.show = sys.stderr.isatty() or notebook if show is None else show
        except (AttributeError, ValueError, OSError):  # no stream, or a closed one
            self.show = False
        self.started = time.perf_counter()
        self.bar = _bar() if self.show and notebook else None

    def update(self, text: str, share: float, left: float | None = None) -> None:
        """Show the task, the share of it that is done, and the seconds left where they do not follow from it."""
        if self.bar is not None:
            self.bar.set_description(text, refresh=False)
            self.bar.update(max(round(100 * share) - self.bar.n, 0))
        elif self.show:
            elapsed = time.perf_counter() - self.started
            if left is None and 0 < share < 1:
                left = elapsed * (1 - share) / share
            self._write(f"\r{text}, {elapsed:.0f} s{'' if left is None else f', {left:.0f} s left'}      ")

    def _write(self, text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (AttributeError, ValueError, OSError):
            self.show = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.bar is not None:
            self.bar.close()
        elif self.show:
            self._write("\n")


def _bar() -> Any:
    """A bar of hundredths; None where tqdm is not installed."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets it is a bar of text
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return None
    return tqdm(total=100, unit="%", leave=False)
