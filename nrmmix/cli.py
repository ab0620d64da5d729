"""Command line: fit a model to a table, and list the data sets that come with the package.

Results go to standard output, messages to standard error.  Exit status: 0 for a result, 1 for a failure on the way, 2 for input
that cannot be used, 130 for an interrupt before the first draw.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nrmmix import __version__

if TYPE_CHECKING:
    import pandas as pd

    from nrmmix.model import Model

EXAMPLES = """examples:
  nrmmix datasets
  nrmmix fit "eruptions_min + waiting_min ~ 1" --data faithful
  nrmmix fit "accel_g ~ times_ms" --data mcycle --kernel box --width 0.1 --seed 1 --plot mcycle.png
  nrmmix fit "y ~ x" --data measurements.csv --prior nggp --draws 5000 --thin 2
"""

PRIORS = {"dp": "DirichletProcess", "nggp": "NGGP", "nig": "NormalizedInverseGaussian"}
# Iterations are cheap on small tables, and neighbouring draws much alike: by default one in THIN is kept, ROWS / rows on large ones.
THIN, ROWS = 20, 5000
KERNELS = {"se": "SquaredExponential", "box": "Box"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the name of the program; default those of the process.

    Returns
    -------
    int
        Exit status.

    Raises
    ------
    SystemExit
        By argparse, after `--help` and `--version` and for arguments that it refuses.

    Examples
    --------
    >>> main(["datasets"])  # doctest: +ELLIPSIS
    name      rows  columns
    acidity    155  log_anc
    ...
    0
    """
    options = _parser().parse_args(argv)
    try:
        return options.run(options)
    except KeyboardInterrupt as error:
        _say(str(error) or "stopped")
        return 130
    except BrokenPipeError:
        # The reader of the output has left (`| head`): what Python still holds for it goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, TypeError, KeyError, OSError) as error:
        _say(f"error: {_message(error)}")
        return 2
    except (FloatingPointError, MemoryError, RuntimeError) as error:
        _say(f"error: {_message(error)}")
        return 1


def _parser() -> argparse.ArgumentParser:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="nrmmix", description="Bayesian nonparametric mixtures and density regression.", epilog=EXAMPLES,
        formatter_class=plain,
    )
    parser.add_argument("--version", action="version", version=f"nrmmix {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    fit = commands.add_parser(
        "fit", help="fit a model and print its summary", description="Fit a model and print it and its summary.", epilog=EXAMPLES,
        formatter_class=plain,
    )
    fit.set_defaults(run=_fit)
    fit.add_argument("formula", metavar="FORMULA", help='responses joined by +, a tilde, 1 (a mixture) or covariates: "y ~ x"')
    fit.add_argument("--data", required=True, metavar="NAME|FILE.csv", help="a data set of `nrmmix datasets`, or a csv file")
    fit.add_argument("--missing", choices=("drop", "raise"), default="drop", help="rows with missing values (default: drop)")
    model = fit.add_argument_group("model")
    model.add_argument("--prior", choices=tuple(PRIORS), default="dp", help="random measure (default: dp)")
    model.add_argument("--mass", type=float, metavar="X", help="fix the mass (default: sampled)")
    model.add_argument("--sigma", type=float, metavar="X", help="fix sigma of nggp (default: sampled)")
    model.add_argument("--kernel", choices=tuple(KERNELS), help="covariate kernel (default with covariates: se)")
    model.add_argument("--width", type=float, metavar="X", help="fix the kernel's width, for covariates in [0, 1] (se: 0.05)")
    run = fit.add_argument_group("sampling")
    run.add_argument("--method", default="auto", metavar="NAME", help="sampler (default: auto)")
    for name, default, text in (
        ("draws", 1000, "draws to keep in each chain"), ("tune", 2000, "iterations before the first draw"), ("chains", 4, "chains"),
    ):
        run.add_argument(f"--{name}", type=int, default=default, metavar="N", help=f"{text} (default: {default})")
    run.add_argument("--thin", type=int, metavar="N", help=f"iterations for each draw (default: {THIN}, fewer from {ROWS // THIN} rows on)")
    run.add_argument("--seed", type=int, metavar="N", help="seed (default: a fresh one, shown in the summary)")
    run.add_argument("--cores", type=int, metavar="N", help="threads (default: as many as processors, at most one a chain)")
    run.add_argument(
        "--progress", action=argparse.BooleanOptionalAction, default=None, help="progress on stderr (default: on a terminal)"
    )
    fit.add_argument("--plot", metavar="FILE", help="save a picture; the ending chooses its format, such as .png, .pdf or .svg")

    datasets = commands.add_parser("datasets", help="list the data sets", description="List the data sets that come with nrmmix.")
    datasets.set_defaults(run=_datasets)
    return parser


# -------------------------------------------------------------------------------------------------- commands


def _fit(options: argparse.Namespace) -> int:
    target = None if options.plot is None else _picture(options.plot)
    if options.seed is not None and options.seed < 0:
        raise ValueError(f"--seed must be 0 or greater, not {options.seed}")
    with _warnings_said():
        model = _model(options)
        if target is not None:
            from nrmmix import plots

            plots.check(model)
        thin = max(1, min(THIN, ROWS // model.n_obs)) if options.thin is None else options.thin
        result = model.fit(
            options.method, draws=options.draws, tune=options.tune, thin=thin, chains=options.chains, rng=options.seed,
            cores=options.cores, progress=options.progress,
        )
    if result.interrupted:
        _say(f"stopped early; {result.draws.n_draws} of {options.draws} draws of each chain are kept")
    print(f"{model}\n\n{result.summary().as_text()}", flush=True)
    if target is not None:
        _save(result, target)
    return 0


def _model(options: argparse.Namespace) -> Model:
    import nrmmix as nm

    data = _table(options.data)
    if options.sigma is not None and options.prior != "nggp":
        raise ValueError(f"--sigma belongs to --prior nggp, not {options.prior}")
    given = {name: getattr(options, name) for name in ("mass", "sigma") if getattr(options, name) is not None}
    prior = getattr(nm, PRIORS[options.prior])(**given)
    kernel = None
    if options.kernel == "box" and options.width is None:
        raise ValueError("--kernel box needs --width; covariates are scaled to [0, 1]")
    if options.kernel is not None or options.width is not None:
        kernel = getattr(nm, KERNELS[options.kernel or "se"])(options.width)
    return nm.Model(options.formula, data, prior=prior, kernel=kernel, missing=options.missing)


def _table(name: str) -> pd.DataFrame:
    """A file, or a data set by name; what looks like neither is an error that says so."""
    import pandas as pd

    from nrmmix import datasets

    path = Path(name)
    if path.suffix.lower() == ".csv" or path.is_file():
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {name!r}")
        try:
            return pd.read_csv(path)
        except ValueError as error:
            raise ValueError(f"{name!r} cannot be read as csv: {error}") from None
    if name not in datasets.names():
        near = difflib.get_close_matches(name, datasets.names(), 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"there is no data set {name!r} (there are {', '.join(datasets.names())}) and no such csv file{hint}")
    return datasets.load(name)


def _datasets(_options: argparse.Namespace) -> int:
    from nrmmix import datasets

    print(f"{'name':<8}{'rows':>6}  columns")
    for name in datasets.names():
        table = datasets.load(name)
        print(f"{name:<8}{len(table):>6}  {', '.join(table.columns)}")
    return 0


# -------------------------------------------------------------------------------------------------- pictures


def _picture(name: str) -> Path:
    """A path that a picture can be written to; checked before the sampling, which may take long."""
    from matplotlib.backend_bases import FigureCanvasBase

    path = Path(name)
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix[1:].lower() not in known:
        raise ValueError(f"--plot {name!r}: the name must end in one of {', '.join('.' + ending for ending in known)}")
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else f"there is no folder {str(path.parent)!r}"
        raise ValueError(f"--plot {name!r}: {what}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"--plot {name!r}: cannot be written")
    return path


def _save(result: Any, path: Path) -> None:
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
    _say(f"picture saved to {path}")


# -------------------------------------------------------------------------------------------------- messages


def _say(text: str) -> None:
    print(f"nrmmix: {text}", file=sys.stderr, flush=True)


def _message(error: BaseException) -> str:
    # The text of a KeyError is the repr of its argument; an OSError of the system has a number and a file.
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return text or type(error).__name__


@contextmanager
def _warnings_said() -> Iterator[None]:
    """Warnings of the package as messages, without the line of code that gave them."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_: _say(f"warning: {message}")
        yield
