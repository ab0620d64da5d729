"""What the machine offers: processors for independent work, and memory, of what is free and of what the control group allows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

SHARE = 0.5  # of what is free, beyond which a warning is given
MEMINFO, CGROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def available() -> float:
    """Bytes that this process can still take.

    Examples
    --------
    >>> available() > 0
    True
    """
    return max(min(_free(), _left_in_group()), 0.0)


def _free() -> float:
    """Bytes that are free; where the system does not say, all that there are, or what an array may have at most."""
    try:
        for line in MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * float(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return float(sys.maxsize)


def _left_in_group() -> float:
    """Bytes up to the limit of the control group, of version 2 or 1; infinite where there is none."""
    left = float("inf")
    for most, used, counts in (("memory.max", "memory.current", "memory.stat"), ("memory/memory.limit_in_bytes",
                               "memory/memory.usage_in_bytes", "memory/memory.stat")):
        limit, taken = _number(CGROUP / most), _number(CGROUP / used)
        if limit is not None and taken is not None:
            left = min(left, limit - taken + _reclaimable(CGROUP / counts))
    return left


def _number(path: Path) -> float | None:
    try:
        return float(path.read_text(encoding="ascii"))  # "max" is no number
    except (OSError, ValueError):
        return None


def _reclaimable(path: Path) -> float:
    """Bytes of files in memory that make way."""
    try:
        counts = dict(line.split() for line in path.read_text(encoding="ascii").splitlines())
        return float(counts.get("total_inactive_file", counts.get("inactive_file", 0)))
    except (OSError, ValueError):
        return 0.0


def text(size: float) -> str:
    """A number of bytes in words.

    Examples
    --------
    >>> text(3.21e9), text(12)
    ('3.2 GB', '12 bytes')
    """
    for unit, name in UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size:.0f} bytes"


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
