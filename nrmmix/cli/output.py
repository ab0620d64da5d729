"""Output of the command line: messages, results and pictures."""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nrmmix.common import files
from nrmmix.common.messages import printable
from nrmmix.common.registry import shell_names
from nrmmix.common.stderr import tell

OBJECT = re.compile(r"(such as |the family |)(?<!\()(?<!': )nm\.(\w+)\(\)")
ARGUMENT = re.compile(r'\b(kind|q|method|missing|units)=(?:"(\w+)"|\[([\d., ]+)\]|(\d+\.?\d*))(?:,(?= q=))?')
IN_SHELL = (  # what is said in Python, and with the options here
    (r"give NaN in its place, as by data\.replace\((.+?), float\('nan'\)\)", r"give --na \1"),
    (r"Then give them, as by pandas\.read_csv\(file, names=\[\.\.\.\]\)", "Then write one above them"),
    (r"\(a DataFrame(?: of rows)?\)", "(a file)"),
    (r"convert it with pandas\.to_datetime,", "write all of them yyyy-mm-dd and leave out --dtype,"),
    (r"convert it with pandas\.to_numeric,", "give --na with what is no number and leave out --dtype,"),
    (r"read the file by pandas\.read_csv with decimal=',' or thousands=','", "give --decimal , or --thousands ,"),
)


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


def in_shell(text: str) -> str:
    """A message with options of the command line in the place of arguments and objects of Python.

    Examples
    --------
    >>> in_shell('kind="quantile", q=0.5 has medians; give it the family nm.Categorical()')
    '--kind quantile --q 0.5 has medians; give it --family categorical'
    """
    for pattern, said in IN_SHELL:
        text = re.sub(pattern, said, text)
    text = ARGUMENT.sub(lambda found: f"--{found[1]} {(found[2] or found[3] or found[4]).replace(',', '')}", text)
    return OBJECT.sub(_object, text) if "nm." in text else text


def _object(found: re.Match[str]) -> str:
    for role in ("family", "prior", "kernel"):
        for name, (kind, options) in shell_names(role).items():
            if kind.__name__ == found[2] and not options:
                return found[1] + name if found[1] == "such as " else f"--{role} {name}"
    return found[0]


def message_of(error: BaseException) -> str:
    # The text of a KeyError is the repr of its argument; an OSError of the system has a number and a file.
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return in_shell(text) or type(error).__name__


@contextmanager
def warnings_said() -> Iterator[None]:
    """Warnings of the package as messages, without the line of code that gave them; the summary has the verdict on convergence."""
    from nrmmix.posterior.convergence import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.showwarning = lambda message, *_: say(f"warning: {in_shell(str(message))}")
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
