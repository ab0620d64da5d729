"""Executors of the same work on many parts: in this process, in threads of it, or by the workers of a Dask cluster.

Results are summed in a tree whose form follows from the number of parts alone, so that no number depends on who has done the work.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event
from typing import Any, NamedTuple, Protocol

from nrmmix import __version__
from nrmmix.common.machine import available_cores, one_blas_thread

HELD = 0.4  # share of the workers' memory that parts may stay in
PATIENCE, TRIALS = 2.0, 4  # seconds after which it is asked whether the workers are still there; rounds that all of them may die in
BATCHES = ", or more batches, so that each is smaller"


class Span(NamedTuple):
    """A part: its number, its first row and the row before which it ends."""

    number: int
    first: int
    last: int


class Rows(Protocol):
    """Rows of which tasks are given parts."""

    @property
    def n(self) -> int: ...

    @property
    def is_streamed(self) -> bool: ...

    def part(self, first: int, last: int) -> Any:
        """Some of the rows, in memory."""


Task = Callable[[Any, Span], Any]  # what is done with a part
Join = Callable[[Any, Any], Any]  # of two results, that of the earlier parts first


class Tree:
    """Results joined two by two, then these two by two, and so on, as they come in."""

    def __init__(self, join: Join):
        self.join = join
        self.stack: list[tuple[int, Any]] = []

    def add(self, result: Any) -> None:
        level = 0
        while self.stack and self.stack[-1][0] == level:
            result, level = self.join(self.stack.pop()[1], result), level + 1
        self.stack.append((level, result))

    def total(self) -> Any:
        result = self.stack.pop()[1]
        while self.stack:
            result = self.join(self.stack.pop()[1], result)
        return result


class OneProcess:
    """One part after the other, each forgotten before the next is loaded."""

    workers = 1

    def gather(self, rows: Rows, spans: Sequence[Span], task: Task, join: Join) -> Any:
        """Return the results of a task on each part, joined."""
        tree = Tree(join)
        for span in spans:
            tree.add(task(rows.part(span.first, span.last), span))
        return tree.total()

    @contextmanager
    def open(self) -> Iterator[OneProcess]:
        """Within the block it may be asked to work."""
        with one_blas_thread():
            yield self


class Threads(OneProcess):
    """So many parts at once, each in memory while it is worked on: products of matrices and most of NumPy let others run meanwhile."""

    def __init__(self, workers: int | None = None):
        self.workers = workers or available_cores()

    def gather(self, rows: Rows, spans: Sequence[Span], task: Task, join: Join) -> Any:
        tree = Tree(join)
        for result in self.pool.map(lambda span: task(rows.part(span.first, span.last), span), spans):
            tree.add(result)
        return tree.total()

    @contextmanager
    def open(self) -> Iterator[Threads]:
        with one_blas_thread(), ThreadPoolExecutor(self.workers) as self.pool:
            yield self


class Dask(OneProcess):
    """Workers of a cluster, by the client of `dask.distributed`.

    Everything is the result of a task, the parameters too: what a worker held that has died is computed anew, from the source on.
    """

    def __init__(self, client: Any, argument: str = "executor", part: str = "part", remedy: str = BATCHES):
        self.client, self.number, self.argument = client, itertools.count(), argument
        self.deaths = (
            f"workers of {argument}= died again and again over the same {part}, which most often is for want of memory: give them more of "
            f"it{remedy}."
        )
        self.run = f"nrmmix-{os.getpid()}-{os.urandom(6).hex()}"
        self.parts: dict[tuple[int, int, int], Any] = {}  # held by the workers
        self.sources: dict[int, tuple[Any, Any]] = {}

    @contextmanager
    def open(self) -> Iterator[Dask]:
        if getattr(self.client, "asynchronous", False):
            raise ValueError(
                f"{self.argument}= is an asynchronous Client, which a fit cannot wait for; give Client(..., asynchronous=False)."
            )
        if getattr(self.client, "status", "running") != "running":
            raise ValueError(
                f"{self.argument}= is a Client that is {self.client.status}: its scheduler cannot be reached; connect a new one."
            )
        with one_blas_thread(), self._in_words():
            self._check_workers()
            try:
                yield self
            finally:
                self.parts.clear()
                self.sources.clear()

    def _check_workers(self) -> None:
        found = self.client.run(version)
        if not found:
            raise ValueError(f"the cluster of {self.argument}= has no workers; start some.")
        for address, own in found.items():
            if own != __version__:
                raise ValueError(f"the worker {address} has nrmmix {own} and this process {__version__}; install one version everywhere.")
        self.workers = len(found)

    def gather(self, rows: Rows, spans: Sequence[Span], task: Task, join: Join) -> Any:
        with self._in_words(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            for _ in range(TRIALS):
                addresses = sorted(self.client.nthreads())
                total = self._planned(rows, spans, task, join, addresses)
                if self._is_done(total, partial(self._are_gone, addresses), PATIENCE):
                    return total.result()
                # what is bound to workers that have all died waits for ever, with allow_other_workers too (distributed 2026.8)
                self.parts.clear()
                self.sources.clear()
            raise RuntimeError(self.deaths)

    def _are_gone(self, addresses: Sequence[str]) -> bool:
        return not {*addresses} & {*self.client.nthreads()}

    def _planned(self, rows: Rows, spans: Sequence[Span], task: Task, join: Join, addresses: Sequence[str]) -> Any:
        """The joined result as a task.  Parts are dealt out to the workers, and visited where they are.

        The visits too are bound to them: Dask would give a worker that has the parameters more than its share of a round.
        """
        of_all = self.submit(same, task)
        tree = Tree(lambda a, b: self.submit(joined, join, a, b))
        for span in spans:
            where = {"workers": [addresses[span.number % len(addresses)]], "allow_other_workers": True} if addresses else {}
            tree.add(self.submit(visited, of_all, self._part(rows, span, where), span, **where))
        return tree.total()

    def submit(self, function: Callable[..., Any], *arguments: Any, **where: Any) -> Any:
        """A task of its own, whatever others are like it."""
        return self.client.submit(function, *arguments, key=f"{function.__name__}-{self.run}-{next(self.number)}", **where)

    def result(self, future: Any, is_given_up: Callable[[], bool] = lambda: False, patience: float = PATIENCE) -> Any:
        """Return the result of a task; None where it was given up."""
        with self._in_words():
            if self._is_done(future, is_given_up, patience):
                return future.result()
            future.cancel()
            return None

    @staticmethod
    def _is_done(future: Any, is_given_up: Callable[[], bool], patience: float) -> bool:
        """Wait for a task, and ask now and then whether it is given up.

        `Future.result(timeout=...)` would raise what it likes where a timeout comes as the task ends (distributed 2026.8).
        """
        done = Event()
        future.add_done_callback(lambda _: done.set())
        while not done.wait(patience) and not future.done():
            if is_given_up():
                return False
        return True

    def _part(self, rows: Rows, span: Span, where: dict[str, Any]) -> Any:
        """The part as a task: held from its first use on where all of them fit into the memory of the workers."""
        key = (id(rows), span.first, span.last)
        if key in self.parts:
            return self.parts[key]
        if not rows.is_streamed:  # rows of this process travel once
            self.parts[key] = self.submit(same, rows.part(span.first, span.last), **where)
            self.sources.setdefault(id(rows), (rows, None))  # an id lasts as long as what has it
            return self.parts[key]
        if id(rows) not in self.sources:
            self.sources[id(rows)] = rows, self.submit(same, rows)
        loaded = self.submit(load, self.sources[id(rows)][1], span.first, span.last, **where)
        streamed: Any = rows
        if streamed.n_bytes <= HELD * self._memory():
            self.parts[key] = loaded
        return loaded

    def _memory(self) -> float:
        """Bytes that the workers may take in all."""
        limits = [own.get("memory_limit") or 0 for own in self.client.scheduler_info(n_workers=-1)["workers"].values()]
        return float(sum(limits))

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Put an error of Dask into words that say what to do."""
        try:
            yield
        except (ValueError, RuntimeError, FloatingPointError, KeyboardInterrupt):
            raise
        except Exception as error:
            name = type(error).__name__
            if name == "KilledWorker":
                raise RuntimeError(self.deaths) from error
            if name in ("CommClosedError", "FutureCancelledError", "CancelledError", "TimeoutError") or isinstance(error, OSError):
                if self.client.status == "running" and isinstance(error, OSError) and name not in ("CommClosedError", "TimeoutError"):
                    raise  # of a file, on a worker
                raise RuntimeError(
                    f"the scheduler of {self.argument}= has gone away; connect a new Client, and resume from the checkpoint if there is "
                    "one."
                ) from error
            if isinstance(error, ImportError) and "nrmmix" in str(error):
                raise ValueError(f"workers of {self.argument}= have no nrmmix ({error}); install version {__version__} there.") from error
            raise


# ---- what workers run

def version() -> str:
    return __version__


def same(value: Any) -> Any:
    return value


def load(rows: Rows, first: int, last: int) -> Any:
    return rows.part(first, last)


def visited(task: Task, part: Any, span: Span) -> Any:
    with one_blas_thread():
        return task(part, span)


def joined(join: Join, a: Any, b: Any) -> Any:
    return join(a, b)


def executor_of(given: Any) -> OneProcess:
    """Return the executor for an option `executor`: None, "threads", a number of threads, or a Client of dask.distributed."""
    if given is None:
        return OneProcess()
    if given == "threads" or isinstance(given, int):
        return Threads(None if given == "threads" else given)
    return Dask(given)


def checked(given: Any) -> Any:
    """An option `executor` that can be used; a ValueError otherwise."""
    if given is None or (isinstance(given, str) and given == "threads"):
        return given
    if isinstance(given, int) and not isinstance(given, bool) and given >= 1:
        return given
    if is_client(given):
        return given
    raise ValueError(f'executor must be None, "threads", a number of threads, or a Client of dask.distributed, not {given!r}.')


def is_client(given: Any) -> bool:
    """Whether it is a client of dask.distributed, which need not be imported for that."""
    return any(base.__module__.startswith("distributed.") and base.__name__ == "Client" for base in type(given).__mro__)
