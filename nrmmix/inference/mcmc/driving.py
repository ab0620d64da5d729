"""Chains side by side: turns, progress, time limits, and what is saved on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from nrmmix.common.interrupts import Stop
from nrmmix.common.progress import Progress
from nrmmix.common.stderr import tell
from nrmmix.inference.mcmc.chain import Chain
from nrmmix.inference.mcmc.workers import Cluster, Threads
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core import state as layout

TURN = 0.5  # seconds, about, after which chains wait for each other: none is far behind when they are stopped
GROWTH = 4  # at most, of the iterations of a turn over those of the last one
LOOK = 0.1  # seconds between two looks at the clock
PATIENCE = 0.3  # seconds after which moves that are told to stop give up what they have begun

TIME, INTERRUPT = REASONS = ("time limit", "interrupt")  # why chains were stopped


class Saver:
    """Writer of what a run leaves on the disk on its way: `write` gets what there is, in a thread of its own, one call at a time.

    A write that fails is told, and costs no draws.
    """

    def __init__(self, write: Callable[[Any], None], every: float) -> None:
        self.write, self.every, self.last = write, every, -np.inf
        self.pool = ThreadPoolExecutor(1)
        self.pending: Future[None] | None = None
        self.failed = ""

    @property
    def is_due(self) -> bool:
        return time.perf_counter() >= self.last + self.every and (self.pending is None or self.pending.done())

    def save(self, snapshot: Any) -> None:
        """Begin to write, once the last write has ended."""
        self.finish()
        self.last = time.perf_counter()
        self.pending = self.pool.submit(self.write, snapshot)

    def finish(self) -> None:
        """Wait for what is being written."""
        if self.pending is None:
            return
        try:
            self.pending.result()
        except Exception as error:  # whatever it is: a disk that is full must not end a run
            self.failed = f"{type(error).__name__}: {error}"
        self.pending = None

    def __enter__(self) -> Saver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.finish()
        self.pool.shutdown()


@dataclass
class Driver:
    """Runs chains up to where they are told, unless it is told to stop."""

    runs: list[Chain]
    workers: Threads | Cluster
    stop: Stop
    deadline: float | None  # by time.perf_counter
    line: Progress
    saver: Saver | None = None
    snapshot: Callable[[], Any] | None = None
    goal: str = ""  # what progress shows in place of the share
    stopped: str = ""

    def __post_init__(self) -> None:
        self.pool = ThreadPoolExecutor(self.workers.size)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.pool.shutdown()

    @property
    def is_broken(self) -> bool:
        return any(run.control[loop.STATUS] or run.failed for run in self.runs)

    def to(self, end: int, tune: int, thin: int, deadline: float | None = None, of: tuple[int, int] | None = None) -> bool:
        """Run all chains up to iteration `end`, draws being counted from `tune` on; whether they got there.

        A deadline before that of the whole run ends this part only.  `of` is the first and last iteration that progress is shown of.
        """
        began, end_of_line = of or (min(run.iteration for run in self.runs), end)
        limits = [limit for limit in (deadline, self.deadline) if limit is not None]
        step = 0  # chains that have not started do so first
        while not self.stopped and not self.is_broken:
            self._save()
            first = min(run.iteration for run in self.runs)
            if first >= end and not any(len(run.order) for run in self.runs):
                return True
            for run in self.runs:
                run.control[loop.LIMIT] = max(min(first + step, end), run.iteration)
            started = time.perf_counter()
            reason = self._turn(tune, thin, min(limits, default=np.inf), began, end_of_line)
            if reason:
                over = self.deadline is not None and time.perf_counter() >= self.deadline
                self.stopped = reason if reason == INTERRUPT or over else ""
                break
            elapsed = time.perf_counter() - started
            step = max(1, min(GROWTH * step, int(TURN * step / max(elapsed, 1e-9))))
        return min(run.iteration for run in self.runs) >= end

    def _turn(self, tune: int, thin: int, deadline: float, began: int, end: int) -> str:
        """One turn of all chains, and why it was cut short."""
        for run in self.runs:
            run.control[loop.STOP] = run.state.num[layout.Count.HALT] = 0
        futures = [self.pool.submit(self.workers.turn, run, tune, thin) for run in self.runs]
        pending: set[Future[None]] = set(futures)
        reason, told = "", np.inf
        while pending:
            _, pending = wait(pending, timeout=LOOK)
            self._show(began, end)
            if not reason and self.stop.signal:
                reason = INTERRUPT
            if not reason and time.perf_counter() >= deadline:
                reason = TIME
            if reason:
                told = min(told, time.perf_counter())
                for run in self.runs:
                    run.stop(give_up=time.perf_counter() >= told + PATIENCE)
        for future in futures:
            future.result()
        return reason

    def _show(self, began: int, end: int) -> None:
        share = min(max(sum(run.iteration - began for run in self.runs) / max(len(self.runs) * (end - began), 1), 0.0), 1.0)
        chains = f"{len(self.runs)} chain{'s' if len(self.runs) > 1 else ''}"
        if not self.goal:
            self.line.update(f"{chains}: {share:4.0%}", share)
            return
        left = None if self.deadline is None else max(self.deadline - time.perf_counter(), 0.0)
        self.line.update(f"{chains}: {min(run.iteration for run in self.runs):,} iterations{self.goal}", 0.0, left)

    def _save(self) -> None:
        if self.saver is not None and self.saver.is_due and self.snapshot is not None:
            self.saver.save(self.snapshot())
            self.tell()

    def tell(self) -> None:
        """Say once that something could not be saved."""
        if self.saver is not None and self.saver.failed:
            tell(f"\nnrmmix: the checkpoint could not be written ({self.saver.failed}); the chains go on.")
            self.saver.failed = ""
