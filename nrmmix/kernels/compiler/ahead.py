"""Kernels that a run will call, compiled by other processes while this one compiles those that it needs first.

What each process compiles goes to the cache on disk, where the others find it; it is the same code, whoever makes it.  A kernel belongs to
the process that claims it first, by a file in a folder that they share.  A process that needs a kernel which another has claimed waits for
it, and compiles others meanwhile; where the other one dies, or has no luck, it compiles the kernel itself.
"""

from __future__ import annotations

import importlib
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from numba.core import event

PROCESSES = "NRMMIX_COMPILE_PROCESSES"  # how many compile at once; the default is one for each core, and not more than MOST
MOST = 4  # each types again what kernels share, so that more gain little
GAIN = 0.7  # of a further process, for it starts later and types again what kernels share
PAUSE = 0.02  # seconds

_team: Team | None = None
_begin: Callable[[], None] | None = None


class Needed(NamedTuple):
    """A kernel by its name, the types by which Python calls it (an entry point has those itself), and about how long compiling takes."""

    module: str
    name: str
    types: tuple[Any, ...] | None = None
    seconds: float = 1.0

    @classmethod
    def of(cls, function: Callable[..., Any], types: tuple[Any, ...] | None = None, seconds: float = 1.0) -> Needed:
        return cls(function.__module__, function.__qualname__, types, seconds)

    def kernel(self) -> Any:
        """The entry point, or what Python calls."""
        made = importlib.import_module(self.module)
        for part in self.name.split("."):
            made = getattr(made, part)
        return made

    def compile(self) -> None:
        if self.types is None:
            assert self.kernel().address
        else:
            self.kernel().compile(self.types)

    def is_ready(self) -> bool:
        """Whether nothing has to be compiled.  What cannot be found by its name alone, helpers leave to who needs it."""
        try:
            made = self.kernel()
        except (ImportError, AttributeError):
            return False
        if self.types is None:
            return bool(made.is_ready)
        asked = getattr(made, "is_ready_for", None)  # what numba compiles in its own way cannot say what is on disk
        return self.types in made.overloads if asked is None else asked(self.types)


def compile_if_possible(one: Needed) -> None:
    """Compile it; where that fails, who needs it tries again, and says what is wrong."""
    try:
        one.compile()
    except Exception:
        pass


def seconds(needed: Sequence[Needed], processes: int) -> float:
    """About how long so many processes take to compile all: each further one is worth GAIN of the first."""
    return max([one.seconds for one in needed] + [sum(one.seconds for one in needed) / (1.0 + GAIN * (processes - 1))])


class Claims:
    """Who compiles what: files in a folder."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        self.own: set[tuple[str, str]] = set()

    def _file(self, one: tuple[str, str], end: str) -> Path:
        return self.folder / f"{one[0]}.{one[1]}.{end}"

    def claim(self, one: tuple[str, str]) -> bool:
        """Whether nobody had claimed it."""
        try:
            self._file(one, "claimed").touch(exist_ok=False)
        except OSError:
            return False
        self.own.add(one)
        return True

    def finish(self, one: tuple[str, str]) -> None:
        self._file(one, "finished").touch()

    def is_finished(self, one: tuple[str, str]) -> bool:
        return self._file(one, "finished").exists()

    def wait(self, one: tuple[str, str], seconds: float) -> None:
        """Until another process has finished it, but not longer."""
        until = time.monotonic() + seconds
        while one not in self.own and not self.is_finished(one) and time.monotonic() < until:
            time.sleep(PAUSE)


def helpers_of(module: str, many: int, told: Any) -> list[subprocess.Popen[bytes]]:
    """So many processes, or as many as can be had, that run `help_out` of a module and read what they are told; none has helpers itself."""
    root = str(Path(__file__).parents[3])
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])]), PROCESSES: "1"}
    command = [sys.executable, "-P", "-c", f"from {module} import help_out; help_out()"]
    made = []
    try:
        for _ in range(many):
            made.append(subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
            ))
            with made[-1].stdin as to:  # type: ignore[union-attr]
                pickle.dump(told, to)
    except OSError:  # no memory, no processes; or the last one has ended
        pass
    return made


class Team:
    """This process and those that help it, from the first kernel that has to be compiled to the end of the block."""

    def __init__(self, folder: str, needed: Sequence[Needed], helpers: int):
        self.claims = Claims(folder)
        self.needed = {(one.module, one.name): one for one in reversed(needed)}  # those that are needed first, first
        self.helpers = helpers_of(__name__, helpers, (folder, os.getpid(), list(needed)))

    def wait_for(self, one: tuple[str, str]) -> None:
        """Until this process may compile it, or finds it on disk.  Meanwhile it compiles what it will need later."""
        if self.needed.pop(one, None) is None or self.claims.claim(one):
            return
        while not self.claims.is_finished(one) and any(helper.poll() is None for helper in self.helpers):
            later = next((name for name in self.needed if self.claims.claim(name)), None)
            if later is None:
                time.sleep(PAUSE)
            else:
                compile_if_possible(self.needed.pop(later))
                self.claims.finish(later)

    def end(self) -> None:
        end(self.helpers)


def end(helpers: Sequence[subprocess.Popen[bytes]]) -> None:
    for helper in helpers:
        helper.terminate()
    for helper in helpers:
        helper.wait()


def processes_for(cores: int) -> int:
    """How many compile at once, this one among them."""
    asked = os.environ.get(PROCESSES, "")
    return max(int(asked) if asked.isdigit() else min(cores, MOST), 1) if sys.executable else 1


@contextmanager
def before_first(begin: Callable[[], None]) -> Iterator[None]:
    """Within the block `begin` is called once, when a kernel is not on disk and is about to be compiled."""
    global _begin
    if _begin is not None:
        yield
        return
    _begin = begin
    try:
        with event.install_listener("numba:compile", _Beginning()):
            yield
    finally:
        _begin = None


class _Beginning(event.Listener):
    """What numba compiles for Python it says before it comes to a `KernelCompiler`."""

    def on_start(self, _event: Any) -> None:
        begins()

    def on_end(self, _event: Any) -> None:
        pass


@contextmanager
def helped(needed: Callable[[], Sequence[Needed]], cores: int, expect: Callable[[float], None]) -> Iterator[None]:
    """Within the block other processes, if there are cores for them, compile too once something has to be compiled.

    `needed` is called then, and gives all kernels that the block will call, those that take longest first; `expect` is told about how many
    seconds those will take that are not on disk.
    """
    global _team
    if _begin is not None:
        yield
        return
    processes = processes_for(cores)
    folder: list[TemporaryDirectory[str]] = []

    def begin() -> None:
        global _team
        missing = [one for one in needed() if not one.is_ready()]
        used = min(processes, max(len(missing), 1))
        expect(seconds(missing, used))
        if used == 1:
            return
        try:
            folder.append(TemporaryDirectory(prefix="nrmmix-", ignore_cleanup_errors=True))
            _team = Team(folder[0].name, missing, used - 1)
        except OSError:  # no folder for it: this one compiles all
            pass

    try:
        with before_first(begin):
            yield
    finally:
        if _team is not None:
            _team.end()
            _team = None
        for made in folder:
            made.cleanup()


def begins() -> None:
    """To be called when a kernel is not on disk and is about to be compiled."""
    global _begin
    if _begin is not None:
        begin, _begin = _begin, _nothing_more
        begin()


def _nothing_more() -> None:
    """Of a block in which something has been compiled."""


def wait_for(function: Callable[..., Any]) -> None:
    """To be called before a kernel is compiled or loaded."""
    if _team is not None:
        _team.wait_for((function.__module__, function.__qualname__))


def help_out() -> None:
    """What a helper does: compile what nobody has claimed, until there is nothing left or nobody who needs it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the process that it helps
    folder, parent, needed = pickle.load(sys.stdin.buffer)
    claims = Claims(folder)
    for one in needed:
        if os.getppid() != parent:
            return
        if claims.claim(one[:2]):
            compile_if_possible(one)
            claims.finish(one[:2])
