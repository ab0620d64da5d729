"""Output of the command line: messages, results and pictures."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nrmmix.common import files
from nrmmix.common.messages import printable
from nrmmix.common.stderr import tell


def say(text: str) -> None:
    tell(f"nrmmix: {printable(text)}")


def printable_lines(text: str) -> str:
    """A text of several lines, without what a terminal would obey."""
    return "\n".join(map(printable, text.split("\n")))


def let_streams_write() -> None:
    """Let streams write what they cannot encode by its number; a stream that is closed or missing is one that nobody reads."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            if stream is None or stream.closed:
                setattr(sys, name, io.StringIO())
            elif hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        except (AttributeError, ValueError, OSError):
            pass


def abandon_output(name: str = "stdout") -> None:
    """Lead a stream that cannot be written to nowhere, with what Python still holds for it (`| head` has left, a disk is full)."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), getattr(sys, name).fileno())
    except (OSError, ValueError, AttributeError):
        setattr(sys, name, io.StringIO())


def settle_streams() -> None:
    """Write what Python still holds for the streams: where that fails at the end of the process, Python makes its status 120."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except (OSError, ValueError, AttributeError):
            abandon_output(name)


def message_of(error: BaseException) -> str:
    # The text of a KeyError is the repr of its argument; an OSError of the system has a number and a file.
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return text or type(error).__name__


@contextmanager
def warnings_said() -> Iterator[None]:
    """Warnings of the package as messages, without the line of code that gave them; the summary has the verdict on convergence."""
    from nrmmix.posterior.convergence import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.showwarning = lambda message, *_: say(f"warning: {message}")
        yield


def picture_path(name: str) -> Path:
    """A path that a picture can be written to; checked before the sampling, which may take long."""
    from matplotlib.backend_bases import FigureCanvasBase

    path = Path(name)
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix[1:].lower() not in known:
        raise ValueError(f"--plot {name!r}: the name must end in one of {', '.join('.' + ending for ending in known)}")
    files.check(path)
    return path


def save_picture(result: Any, path: Path) -> None:
    import matplotlib

    if "matplotlib.pyplot" not in sys.modules:
        matplotlib.use("Agg")  # a file needs no window; a session that has chosen its backend keeps it
    import numpy as np
    from matplotlib import pyplot

    figure = np.ravel(result.plot())[0].figure
    try:
        figure.savefig(path, dpi=150)
    finally:
        pyplot.close(figure)
    say(f"picture saved to {path}")
