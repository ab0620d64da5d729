"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO


def target(path: Any, ending: str, what: str) -> Path:
    """A path whose name has an ending and that a file can be written to; to be called before long work.  `what` is the file, for messages.

    A ValueError where the name ends in something else, an OSError where there is no such folder, or nothing can be written there.

    Examples
    --------
    >>> target("fit.txt", ".npz", "a saved fit")
    Traceback (most recent call last):
    ValueError: the name of a saved fit must end in .npz, not 'fit.txt'.
    """
    try:
        out = Path(path)
    except TypeError:
        raise TypeError(f"the path of {what} must be a string or a path, not {path!r}.") from None
    if out.suffix.lower() != ending:
        raise ValueError(f"the name of {what} must end in {ending}, not {str(out)!r}.")
    if out.is_dir():
        raise IsADirectoryError(f"{str(out)!r} is a folder.")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"{str(out)!r} cannot be written: there is no folder {str(out.parent)!r}.")
    if not os.access(out.parent, os.W_OK) or (out.exists() and not os.access(out, os.W_OK)):
        raise PermissionError(f"{str(out)!r} cannot be written: permission denied.")
    return out


@contextmanager
def replaced(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` once the block has ended well; else nothing changes."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
