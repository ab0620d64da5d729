"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import platform
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

LONGEST = 200  # characters of a path in a message


def target(path: Any, ending: str, what: str) -> Path:
    """A path whose name has an ending and that a file can be written to; to be called before long work.  `what` is the file, for messages.

    A ValueError where the name ends in something else, an OSError where there is no such folder, or nothing can be written there.

    Examples
    --------
    >>> target("fit.txt", ".npz", "a saved fit")
    Traceback (most recent call last):
    ValueError: the name of a saved fit must end in .npz, not 'fit.txt'.
    """
    out = Path(named(path, ending, what))
    check(out)
    return out


def named(path: Any, ending: str, what: str) -> str:
    """A path as text, whose name has an ending; whether there can be such a file is not asked."""
    try:
        out = Path(path)
    except TypeError:
        raise TypeError(f"the path of {what} must be a string or a path, not {path!r}.") from None
    if out.suffix.lower() != ending:
        raise ValueError(f"the name of {what} must end in {ending}, not {str(out)!r}.")
    return str(out)


def check(out: Path) -> None:
    """An OSError or a ValueError where a file cannot be written, or not without harm; a file is made there, and goes again."""
    if "\0" in str(out):
        raise ValueError(f"{str(out)!r} is no path: it holds a null character.")
    try:
        place = _followed(out)
        if place.is_dir():
            raise IsADirectoryError(f"{str(out)!r} is a folder.")
        if not place.parent.is_dir():
            folder = place.parent if out.is_symlink() else out.parent
            raise FileNotFoundError(f"{str(out)!r} cannot be written: there is no folder {str(folder)!r}.")
        there = place.stat() if place.exists() else None
    except OSError as error:
        raise error if error.errno is None else _said(out, error) from None
    if there is not None and not stat.S_ISREG(there.st_mode):
        raise ValueError(f"{str(out)!r} is no file that can be replaced, but {_kind(there.st_mode)}.")
    if there is not None and not os.access(place, os.W_OK):
        raise PermissionError(f"{str(out)!r} cannot be written: permission denied.")
    if there is not None and not _can_keep_owner(there):
        raise PermissionError(f"{str(out)!r} belongs to another user, whose file would be replaced by one of yours; take another name.")
    try:
        if len(os.fsencode(place.name)) > os.pathconf(place.parent, "PC_NAME_MAX"):
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    except (AttributeError, ValueError):
        pass  # where the system does not say, the trial below is all there is
    except OSError as error:
        raise _said(out, error) from None
    sweep(place)
    try:
        os.unlink(_temporary(place))
    except OSError as error:
        raise _said(out, error) from None


def _said(out: Path, error: OSError) -> OSError:
    """Return the same error, with the path and in words."""
    why = "permission denied" if isinstance(error, PermissionError) else (error.strerror or str(error)).lower()
    path = str(out)
    short = path if len(path) <= LONGEST else f"{path[: LONGEST // 2]} ... {path[-LONGEST // 2 :]}"
    return type(error)(f"{short!r} cannot be written: {why}.")


def _followed(path: Path) -> Path:
    """Return the path that a path leads to: links are followed, for it is the file that is to be replaced."""
    try:
        found = path.resolve()
    except RuntimeError:  # of Python 3.11 and 3.12, where links lead in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
    if found.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return found


def _kind(mode: int) -> str:
    kinds = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISBLK, "a device"), (stat.S_ISCHR, "a device"))
    return next((name for test, name in kinds if test(mode)), "something else")


def _can_keep_owner(there: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or os.geteuid() in (0, there.st_uid)


# ---- temporary files, beside those whose place they take

def prefix_of(path: Path) -> str:
    """Return the prefix of the temporary files of a path, whose name may be as long as names can be."""
    return f".nrmmix-{zlib.crc32(os.fsencode(path.name)):08x}-{zlib.crc32(platform.node().encode()):08x}-"


def _temporary(path: Path) -> str:
    """A new empty file, which says by its name who has made it; its permissions are those that the user's files get."""
    while True:
        name = str(path.parent / f"{prefix_of(path)}{os.getpid()}-{os.urandom(4).hex()}.tmp")
        try:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            return name
        except FileExistsError:
            continue


def sweep(path: Path) -> None:
    """Temporary files of a path go that processes of this machine have left which are no more."""
    prefix = prefix_of(path)
    try:
        left = [entry.path for entry in os.scandir(path.parent) if entry.name.startswith(prefix)]
    except OSError:
        return
    for name in left:
        number = os.path.basename(name)[len(prefix) :].split("-")[0]
        try:
            if number.isdecimal() and not _is_alive(int(number)):
                os.unlink(name)
        except OSError:
            pass  # another has been quicker, or may and we may not


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # there is no harmless way to ask
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` once the block has ended well and all is on the disk; else nothing changes.

    Links are followed; permissions and, as far as this user may, owner and group stay those of the file that was there.
    """
    path = _followed(path)
    sweep(path)
    name = _temporary(path)
    try:
        with open(name, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            there = path.stat()
            _keep_owner(name, there)
            os.chmod(name, there.st_mode & 0o7777)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    _sync_folder(path.parent)


def _keep_owner(name: str, there: os.stat_result) -> None:
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(name, there.st_uid if os.geteuid() == 0 else -1, there.st_gid)


def _sync_folder(folder: Path) -> None:
    """The new name is on the disk too, where folders can be asked for that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
