"""Folder of machine code, and what may go wrong with it.

numba keeps it in a folder, by function and types of arguments, but looks at the one file alone in which a function stands.  So the folder
here is one for each version of all sources of kernels, of numba, and kind of processor.  It is beside the package where that may be
written, else in the user's folder for caches, or where `NUMBA_CACHE_DIR` says.  What whoever installed the package has left beside it
(`nrmmix warmup`) serves those too who may only read it.  A folder that is full, damaged, or cannot be written costs the time of compiling,
and nothing else.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding as llvm
import numba
from numba import config
from numba.core import event
from numba.core.errors import NumbaError

PACKAGE = Path(__file__).parents[2]
PACKAGE_CACHE = PACKAGE / "__pycache__"  # beside the package's own files
PREFIX, READY = "nrmmix-", "ready"
VERSIONS = 4  # of one place, whose folders are kept
PATIENCE = 60.0  # seconds for which a process waits for what another compiles; that one may have been ended
PAUSE = 0.02  # seconds

unsaved: list[OSError] = []  # why files could not be written
_lock = threading.RLock()
_shared: Claims | None = None
T = TypeVar("T")


@cache
def digest() -> str:
    """Return a digest of all that machine code depends on beside the function and the types."""
    found = sha256()
    for file in sorted((PACKAGE / "kernels").rglob("*.py")):
        found.update(file.read_bytes())
    versions = numba.__version__, llvm.llvm_version_info, sys.version_info[:2]
    processor = llvm.get_host_cpu_name(), sorted(llvm.get_host_cpu_features().items())
    found.update(repr((versions, processor, config.BOUNDSCHECK, str(config.OPT))).encode())
    return found.hexdigest()[:16]


def user_caches() -> Path:
    """The user's folder for caches."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local").expanduser()
    if sys.platform == "darwin":
        return Path("~/Library/Caches").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()


def folder() -> Path | None:
    """Return the folder of code; one of this process alone where nothing can be written, but code can be read; else None."""
    return _folder(str(config.CACHE_DIR or ""))[0]


def is_kept() -> bool:
    """Whether there is a folder in which machine code can be kept for later runs."""
    return _folder(str(config.CACHE_DIR or ""))[1]


@cache
def _folder(asked: str) -> tuple[Path | None, bool]:
    for place in [Path(asked)] if asked else [PACKAGE_CACHE, user_caches() / "nrmmix"]:
        found = place / f"{PREFIX}{digest()}"
        if _can_be_written(found):
            if not asked and place != PACKAGE_CACHE:
                _copy(PACKAGE_CACHE / found.name, found)
            _forget_old(place, found)
            return found, True
    shared = PACKAGE_CACHE / f"{PREFIX}{digest()}"
    if asked or not shared.is_dir():
        return None, False
    own = Path(tempfile.mkdtemp(prefix=PREFIX))
    atexit.register(shutil.rmtree, own, ignore_errors=True)
    _copy(shared, own)
    return own, False


def _can_be_written(path: Path) -> bool:
    try:
        (path / READY).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
        os.utime(path)
    except (OSError, RuntimeError):  # also where there is no home folder
        return False
    return True


def _copy(source: Path, target: Path) -> None:
    """Files that are there and not here; an index last, for it says what code there is."""
    try:
        missing = [file for file in source.rglob("*") if file.is_file() and not (target / file.relative_to(source)).exists()]
        for file in sorted(missing, key=lambda file: (file.suffix != ".nbc", file.suffix == "")):
            to = target / file.relative_to(source)
            to.parent.mkdir(parents=True, exist_ok=True)
            part = to.with_name(f"{to.name}.{os.getpid()}")
            shutil.copyfile(file, part)
            os.replace(part, to)
    except OSError:  # what is missing is compiled
        pass


def _forget_old(place: Path, own: Path) -> None:
    """Folders of versions that were last used before the last few."""
    try:
        others = sorted((one for one in place.glob(f"{PREFIX}*") if one != own), key=lambda one: -one.stat().st_mtime)
        for one in others[VERSIONS - 1 :]:
            shutil.rmtree(one, ignore_errors=True)
    except OSError:
        pass


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}".replace("<", "").replace(">", "")


def is_ready(function: Callable[..., Any]) -> bool:
    """Whether there is machine code for a function."""
    return (found := folder()) is not None and (found / READY / _name(function)).exists()


def made(function: Callable[..., Any], make: Callable[[bool], T]) -> T:
    """Return what `make` compiles, or loads; it is told whether it has a folder for machine code."""
    with _lock:
        if (place := folder()) is None:
            return _said(False, lambda: make(False))
        ready = is_ready(function)
        if _shared is not None and not ready and not _shared.claim(_name(function)):
            _shared.wait(_name(function), PATIENCE)
            ready = is_ready(function)
        try:
            found = _said(ready, lambda: _made_in(place, function, make))
            try:
                (place / READY / _name(function)).touch()
            except OSError as error:
                unsaved.append(error)
            return found
        finally:
            if _shared is not None:
                _shared.finish(_name(function))


def _said(ready: bool, make: Callable[[], T]) -> T:
    """Listeners hear of it, as numba tells them where it compiles for Python."""
    if ready:
        return make()
    with event.trigger_event("numba:compile"):
        return make()


def _made_in(place: Path, function: Callable[..., Any], make: Callable[[bool], T]) -> T:
    try:
        with _kept_in(place):
            return make(True)
    except NumbaError:
        raise
    except OSError as error:  # the folder is full, or is gone
        unsaved.append(error)
        return make(False)
    except Exception:  # of any kind where a file is broken
        name = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}".replace("<", "").replace(">", "")
        for file in place.rglob(f"{name}-*.nb*"):
            file.unlink()
        with _kept_in(place):
            return make(True)


@contextmanager
def _kept_in(place: Path) -> Iterator[None]:
    """Within the block numba finds this folder for the functions that it is given; afterwards its own."""
    before, config.CACHE_DIR = config.CACHE_DIR, str(place)
    try:
        yield
    finally:
        config.CACHE_DIR = before


# ---- several processes


class Claims:
    """Who compiles what, or does what else only one process is to do: files in a folder."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        self.own: set[str] = set()

    def claim(self, one: str) -> bool:
        """Whether nobody had claimed it."""
        try:
            (self.folder / f"{one}.claimed").touch(exist_ok=False)
        except OSError:
            return False
        self.own.add(one)
        return True

    def finish(self, one: str) -> None:
        (self.folder / f"{one}.finished").touch()

    def is_finished(self, one: str) -> bool:
        return (self.folder / f"{one}.finished").exists()

    def wait(self, one: str, seconds: float) -> None:
        """Until another process has finished it, but not longer."""
        until = time.monotonic() + seconds
        while one not in self.own and not self.is_finished(one) and time.monotonic() < until:
            time.sleep(PAUSE)


def share(claims: Claims | None) -> Claims | None:
    """Let this process and others of the same claims compile nothing twice: others wait for who begins.  Returns what was so before."""
    global _shared
    before, _shared = _shared, claims
    return before
