"""Independent work in threads; kernels let go of the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def available_cores() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1


def in_threads(function: Callable[..., Any], arguments: Iterable[Any], threads: int | None = None) -> list[Any]:
    """Results of a function of one argument for each, in order; as many threads as processors unless told.

    An exception, an interrupt too, waits for what is running and drops what is not.
    """
    threads, arguments = available_cores() if threads is None else threads, list(arguments)
    if min(threads, len(arguments)) <= 1:
        return [function(argument) for argument in arguments]
    with ThreadPoolExecutor(min(threads, len(arguments))) as pool:
        futures = [pool.submit(function, argument) for argument in arguments]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
