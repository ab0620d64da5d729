"""Ctrl-C, and the signals that end a process, where they would do harm.

Modules cannot be imported, nor kernels loaded, from half-way on: `interrupts_delayed`.  Chains keep what they have drawn: in a `stoppable`
block a signal sets a flag, which those who work look at, and raises nothing, wherever it comes.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from nrmmix.common.stderr import tell

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))  # Windows has no SIGHUP
SLOW = 3  # signals, from which on it is said that they have been heard


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


@dataclass
class Stop:
    """Whether work is to end, and why: the number of the first signal that asked for it, 0 where none has."""

    signal: int = 0
    times: int = field(default=0, repr=False)
    impatient: bool = field(default=False, repr=False)  # whether a second signal raises KeyboardInterrupt: nothing is lost yet

    def __call__(self, number: int, _frame: FrameType | None = None) -> None:
        """A signal has come."""
        self.signal, self.times = self.signal or number, self.times + 1
        if self.impatient and self.times > 1:
            raise KeyboardInterrupt
        if self.times == SLOW:
            tell("\nnrmmix: heard; the move that is running must end first ...")

    @property
    def is_final(self) -> bool:
        """Whether the process is to end, not only the work."""
        return self.signal in ENDING

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """Within the block, in which kernels are compiled, a first signal waits and a second one does not."""
        before, self.impatient = self.impatient, True
        try:
            yield
        finally:
            self.impatient = before


_OUTER: list[Stop] = []  # of the blocks that the main thread is in


def is_stoppable() -> bool:
    """Whether this is the main thread, in a `stoppable` block: whoever opened it decides what comes after a signal."""
    return bool(_OUTER) and threading.current_thread() is threading.main_thread()


@contextmanager
def stoppable(endings: bool = False) -> Iterator[Stop]:
    """Within the block Ctrl-C, and with `endings` also SIGTERM and SIGHUP, raise nothing: they set the flag that the block is given.

    Blocks within each other share one flag, so that who has opened the first decides what comes after it.  Signals that are ignored, or
    that the process handles in its own way, are left alone, but for SIGINT.

    Examples
    --------
    >>> with stoppable() as stop:
    ...     signal.raise_signal(signal.SIGINT)
    ...     stop.signal == signal.SIGINT
    True
    """
    if threading.current_thread() is not threading.main_thread():
        yield Stop()  # signals are the main thread's
        return
    stop = _OUTER[0] if _OUTER else Stop()
    before = {signal.SIGINT: signal.getsignal(signal.SIGINT)}
    if endings:
        before |= {number: signal.SIG_DFL for number in ENDING if signal.getsignal(number) is signal.SIG_DFL}
    before = {number: usual for number, usual in before.items() if callable(usual) or number in ENDING}
    _OUTER.append(stop)
    try:
        for number in before:
            signal.signal(number, stop)
        yield stop
    finally:
        _OUTER.pop()
        for number, usual in before.items():
            signal.signal(number, usual)
