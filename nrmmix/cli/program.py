"""Command line: fit a model to a table, look at a saved fit, predict from it, and what goes with that.

Results go to standard output, messages to standard error.  Exit status: 0 for a result, 1 for a failure on the way, 2 for input
that cannot be used, 130 for an interrupt before the first draw, 143 and 129 where SIGTERM or SIGHUP has ended the sampling.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

from nrmmix.cli import fitting, pages, saved, tables
from nrmmix.cli.arguments import parser
from nrmmix.cli.output import abandon_output, in_shell, let_streams_write, message_of, say, settle_streams
from nrmmix.common.messages import SHELL, advice


def _warmup(options: argparse.Namespace) -> int:
    from nrmmix.cli.compiling import warmup  # imports numba, which takes longer than what other commands begin with

    return warmup(options)


COMMANDS = {
    "fit": fitting.fit, "resume": fitting.resume, "summary": saved.summary, "predict": saved.predict, "report": saved.report,
    "compare": saved.compare, "vignettes": pages.vignettes, "datasets": tables.datasets, "warmup": _warmup,
}


def _not_known(unknown: Sequence[str], known: tuple[str, ...]) -> str:
    """Say that there is no such option, and which is meant."""
    option = next((text for text in unknown if text.startswith("--")), None)
    if option is None:
        return f"unrecognized arguments: {' '.join(unknown)}"
    name = option[2:].partition("=")[0].replace("-", "_")
    return f"unrecognized arguments: {' '.join(unknown)}{in_shell(advice(name, tuple(one for one in known if one != 'run')))}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with arguments, by default those of the process, and give back the exit status.

    By argparse, a SystemExit after `--help` and `--version` and for arguments that it refuses.

    Examples
    --------
    >>> main(["datasets"])  # doctest: +ELLIPSIS
    name      rows  columns
    acidity    155  log_anc
    ...
    0
    """
    given = sys.argv[1:] if argv is None else argv
    let_streams_write()
    token = SHELL.set("-")
    try:
        status = _run(given)
        sys.stdout.flush()  # a disk that is full is found here, where it can be said
        return status
    except KeyboardInterrupt as error:
        say(str(error) or "stopped")
        return 130
    except BrokenPipeError:
        abandon_output()
        return 1
    except (ValueError, TypeError, KeyError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        say(f"error: {message_of(error)}")
        return 2
    except (OSError, FloatingPointError, MemoryError, RuntimeError) as error:
        say(f"error: {message_of(error)}")
        return 1
    finally:
        SHELL.reset(token)
        settle_streams()


def _run(given: Sequence[str]) -> int:
    # argparse takes -1,2 and -1e3 for options; what begins with a space is none, and a number all the same
    made = parser(given[:1], COMMANDS)
    try:
        options, unknown = made.parse_known_args([f" {text}" if re.match(r"-\.?\d", text) else text for text in given])
        if unknown:
            made.error(_not_known(unknown, tuple(vars(options))))
    except SystemExit:
        sys.stdout.flush()  # the text of --help
        raise
    return options.run(options)
