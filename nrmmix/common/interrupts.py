"""Ctrl-C where it would do harm: modules cannot be imported, nor kernels loaded, from half-way on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_delayed() -> Iterator[None]:
    """Within the block a first Ctrl-C waits until its end; a second one does not wait.

    Examples
    --------
    >>> with interrupts_delayed():
    ...     import decimal
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield  # only the main thread is interrupted, and SIGINT may be ignored
        return
    waiting: list[FrameType | None] = []

    def handler(number: int, frame: FrameType | None) -> None:
        waiting.append(frame)
        if len(waiting) > 1:
            usual(number, frame)

    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
        if len(waiting) == 1:
            usual(signal.SIGINT, waiting[0])
