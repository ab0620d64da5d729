"""Resources of the machine: processors for independent work, and memory, of what is free and of what the control group allows."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
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
    return max(min(free(), left_in_group()), 0.0)


def free() -> float:
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


def left_in_group() -> float:
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


def in_threads(
    function: Callable[..., Any], arguments: Iterable[Any], threads: int | None = None, stop: Callable[[], None] = lambda: None
) -> list[Any]:
    """Results of a function of one argument for each, in order; as many threads as processors unless told.

    An exception, an interrupt too, waits for what is running, after it has called `stop`, and drops what is not.
    """
    threads, arguments = available_cores() if threads is None else threads, list(arguments)
    if min(threads, len(arguments)) <= 1:
        return [function(argument) for argument in arguments]
    with ThreadPoolExecutor(min(threads, len(arguments))) as pool:
        futures = [pool.submit(function, argument) for argument in arguments]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


# ---- threads of the linear algebra that NumPy and SciPy call

MAPS = Path("/proc/self/maps")
NAMES = ("openblas_{}_num_threads", "openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "scipy_openblas_{}_num_threads64_")
_HELD = threading.Lock()
_DEPTH: list[list[tuple[Any, int]]] = []  # of the blocks that are open now: what the outermost has to set back


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within the block products of matrices use one thread: with several, sums are added in another order, and last bits differ.

    By threadpoolctl where it is installed; without it OpenBLAS, which NumPy and SciPy bring along, is found on Linux.  Elsewhere the
    environment decides, as OPENBLAS_NUM_THREADS=1 does.

    Examples
    --------
    >>> with one_blas_thread():
    ...     pass
    """
    with _HELD:
        _DEPTH.append([(put, get()) for put, get in pools_of(len(sys.modules))] if not _DEPTH else [])
        for put, _ in _DEPTH[0]:
            put(1)
    try:
        yield
    finally:
        with _HELD:
            if len(_DEPTH) == 1:
                for put, size in _DEPTH[0]:
                    put(size)
                _DEPTH.clear()
            else:
                _DEPTH.pop()


@lru_cache(1)
def pools_of(modules: int) -> list[tuple[Callable[[int], Any], Callable[[], int]]]:
    """Return `blas_pools()`, sought anew when the number of modules has changed: a search takes 10 ms, and workers ask often."""
    return blas_pools()


def blas_pools() -> list[tuple[Callable[[int], Any], Callable[[], int]]]:
    """Return, for each library that is loaded, functions that set and give the number of its threads."""
    try:
        from threadpoolctl import ThreadpoolController

        blas = ThreadpoolController().select(user_api="blas").lib_controllers
        return [(one.set_num_threads, one.get_num_threads) for one in blas]
    except ImportError:
        pass
    found: list[tuple[Any, Any]] = []
    try:
        lines = MAPS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for path in sorted({line.split(maxsplit=5)[-1] for line in lines if "openblas" in line}):
        try:
            library = ctypes.CDLL(path, mode=getattr(os, "RTLD_NOLOAD", 0))
        except OSError:
            continue
        for name in NAMES:
            put, get = (getattr(library, name.format(verb), None) for verb in ("set", "get"))
            if put is not None and get is not None:
                found.append((put, get))
                break
    return found
