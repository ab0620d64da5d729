"""Command line: fit a model to a table, look at a saved fit, predict from it, and what goes with that.

Results go to standard output, messages to standard error.  Exit status: 0 for a result, 1 for a failure on the way, 2 for input
that cannot be used, 130 for an interrupt before the first draw.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nrmmix import __version__
from nrmmix.common import files
from nrmmix.common.interrupts import interrupts_delayed
from nrmmix.common.messages import did_you_mean
from nrmmix.common.registry import shell_names

if TYPE_CHECKING:
    import pandas as pd

    from nrmmix.api import Model

EXAMPLES = """examples:
  nrmmix fit "eruptions_min + waiting_min ~ 1" --data faithful
  nrmmix fit "accel_g ~ times_ms" --data mcycle --seed 1 --save mcycle.npz --plot mcycle.png
  nrmmix summary mcycle.npz
  nrmmix predict mcycle.npz --data new.csv --kind quantile > quantiles.csv
  nrmmix report mcycle.npz mcycle.html
"""
FIT_EXAMPLES = """examples:
  nrmmix fit "eruptions_min + waiting_min ~ 1" --data faithful
  nrmmix fit "accel_g ~ times_ms" --data mcycle --kernel box --width 0.1 --seed 1 --plot mcycle.png
  nrmmix fit "y ~ x" --data measurements.csv --prior nggp --draws 5000 --thin 2 --save fit.npz --report fit.html
  nrmmix fit "eruptions_min + waiting_min ~ 1" --data faithful --method memoized_vb --seed 1
  nrmmix fit "age + visits ~ 1" --data patients.csv --family gaussian=age poisson=visits --missing marginalize
"""
SUMMARY_EXAMPLES = """examples:
  nrmmix summary fit.npz
  nrmmix summary fit.npz --format latex > table.tex
"""
PREDICT_EXAMPLES = """examples:
  nrmmix predict fit.npz                                          the mean of every row that was fitted
  nrmmix predict fit.npz --data new.csv --kind quantile --q 0.1 0.9
  nrmmix predict fit.npz --kind density --at 10000 20000 30000    of a mixture of one response
  nrmmix predict fit.npz --kind density --at 2,55 4.5,80          of two
  nrmmix predict fit.npz --data new.csv --kind cluster
"""
REPORT_EXAMPLES = """examples:
  nrmmix report fit.npz fit.html
"""
WARMUP_EXAMPLES = """examples:
  nrmmix warmup          compile for this user; later fits start at once
  NUMBA_CACHE_DIR=/shared/cache nrmmix warmup
"""

OPTIONS = ("mass", "sigma", "components")  # of priors
# Iterations are cheap on small tables, and neighbouring draws much alike: by default one in THIN is kept, ROWS / rows on large ones.
THIN, ROWS = 20, 5000
RUN = {"draws": 1000, "tune": 2000, "chains": 4}
FORMATS = {"text": "as_text", "html": "as_html", "latex": "as_latex", "csv": "as_csv"}


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
    try:
        # argparse takes -1,2 and -1e3 for options; what begins with a space is none, and a number all the same
        options = _parser(given[:1]).parse_args([f" {text}" if re.match(r"-\.?\d", text) else text for text in given])
        return options.run(options)
    except KeyboardInterrupt as error:
        _say(str(error) or "stopped")
        return 130
    except BrokenPipeError:
        # The reader of the output has left (`| head`): what Python still holds for it goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, TypeError, KeyError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        _say(f"error: {_message(error)}")
        return 2
    except (OSError, FloatingPointError, MemoryError, RuntimeError) as error:
        _say(f"error: {_message(error)}")
        return 1


def _parser(wanted: Sequence[str]) -> argparse.ArgumentParser:
    """All commands; the options of `fit` where it is the one that is wanted: they name what can be plugged in, which is slow to import."""
    parser = argparse.ArgumentParser(
        prog="nrmmix", description="Bayesian nonparametric mixtures and density regression.", epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"nrmmix {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, run: Any, text: str, examples: str = "") -> argparse.ArgumentParser:
        made = commands.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(run=run)
        return made

    fit = command("fit", _fit, "fit a model and print its summary", FIT_EXAMPLES)
    if list(wanted) == ["fit"]:
        _fit_arguments(fit)
    summary = command("summary", _summary, "print the summary of a saved fit", SUMMARY_EXAMPLES)
    predict = command("predict", _predict, "print predictions of a saved fit as csv", PREDICT_EXAMPLES)
    report = command("report", _report, "write a saved fit as one HTML page with pictures", REPORT_EXAMPLES)
    for made in (summary, predict, report):
        made.add_argument("fit", metavar="FIT.npz", help="a fit saved by `nrmmix fit --save` or `fit.save()`")
    summary.add_argument("--format", choices=tuple(FORMATS), default="text", help="of the output (default: text)")
    predict.add_argument("--data", metavar="NAME|FILE.csv", help="new rows (default: those that were fitted)")
    predict.add_argument("--kind", default="mean", metavar="KIND", help="mean, density, cdf, quantile or cluster (default: mean)")
    predict.add_argument("--at", nargs="+", metavar="Y", help="points of densities and cdfs; of several responses with commas: 2,55")
    predict.add_argument("--q", nargs="+", type=float, metavar="P", help="probabilities of quantiles (default: 0.05 0.5 0.95)")
    predict.add_argument("--response", action="append", metavar="NAME", help="marginal of one of several responses; may be repeated")
    predict.add_argument("--interval", type=float, default=0.9, metavar="P", help="probability of the bands (default: 0.9)")
    predict.add_argument("--draws", type=int, default=500, metavar="N", help="posterior draws to use (default: 500)")
    predict.add_argument("--seed", type=int, metavar="N", help="seed of the bands (default: follows from the fit's)")
    report.add_argument("out", metavar="FILE.html", help="the page to write")
    command("datasets", _datasets, "list the data sets that come with nrmmix")
    command("warmup", _warmup, "compile everything once, so that later fits start at once", WARMUP_EXAMPLES)
    return parser


def _fit_arguments(fit: argparse.ArgumentParser) -> None:
    with interrupts_delayed():
        from nrmmix.inference.methods import CYCLES, SEARCHES, VARIATIONAL

    fit.add_argument("formula", metavar="FORMULA", help='responses joined by +, a tilde, 1 (a mixture) or covariates: "y ~ x"')
    fit.add_argument("--data", required=True, metavar="NAME|FILE.csv", help="a data set of `nrmmix datasets`, or a csv file")
    fit.add_argument("--missing", choices=("drop", "raise", "marginalize"), default="drop", help="rows with missing values (default: drop)")
    model = fit.add_argument_group("model")
    model.add_argument(
        "--family", nargs="+", default=["gaussian"], metavar="NAME",
        help=f"of all responses, one of {', '.join(shell_names('family'))}; or several, each with its responses: "
        "gaussian=age+weight poisson=visits (default: gaussian)",
    )
    model.add_argument("--prior", choices=tuple(shell_names("prior")), default="dp", help="random measure (default: dp)")
    model.add_argument("--mass", type=float, metavar="X", help="fix the mass (default: sampled; of finite 1)")
    model.add_argument("--sigma", type=float, metavar="X", help="fix sigma of nggp, py or stable (default: sampled)")
    model.add_argument("--components", type=int, metavar="M", help="number of components of finite")
    model.add_argument("--kernel", choices=tuple(shell_names("kernel")), help="covariate kernel (default with covariates: se)")
    model.add_argument("--width", type=float, metavar="X", help="fix the kernel's width, for covariates in [0, 1] (se: one for each atom)")
    run = fit.add_argument_group("sampling")
    run.add_argument(
        "--method", default="auto", metavar="NAME",
        help=f"auto (the default), {', '.join(f'{name} (not exact)' if one.bias else name for name, one in CYCLES.items())}; "
        f"{' and '.join(SEARCHES)} search for one partition; {', '.join(VARIATIONAL)} are variational",
    )
    for name, text in (("draws", "draws to keep in each chain"), ("tune", "iterations before the first draw"), ("chains", "chains")):
        run.add_argument(f"--{name}", type=int, metavar="N", help=f"{text} (default: {RUN[name]})")
    run.add_argument("--thin", type=int, metavar="N", help=f"iterations for each draw (default: {THIN}, fewer from {ROWS // THIN} rows on)")
    run.add_argument("--seed", type=int, metavar="N", help="seed (default: a fresh one, shown in the summary)")
    run.add_argument("--cores", type=int, metavar="N", help="threads (default: as many as processors, at most one a chain)")
    run.add_argument("--time-limit", type=float, metavar="S", help="seconds after which the chains stop and keep what was drawn")
    run.add_argument("--progress", action=argparse.BooleanOptionalAction, default=None, help="progress on stderr (default: on a terminal)")
    out = fit.add_argument_group("output, besides the summary")
    out.add_argument("--save", metavar="FILE.npz", help="save the fit, for the other commands and `nrmmix.load`")
    out.add_argument("--report", metavar="FILE.html", help="write a page with tables and pictures")
    out.add_argument("--plot", metavar="FILE", help="save a picture; the ending chooses its format, such as .png, .pdf or .svg")


# -------------------------------------------------------------------------------------------------- commands

def _fit(options: argparse.Namespace) -> int:
    # checked before the sampling, which may take long
    picture = None if options.plot is None else _picture(options.plot)
    saved = None if options.save is None else files.target(options.save, ".npz", "a saved fit")
    page = None if options.report is None else files.target(options.report, ".html", "a report")
    seed = _seed(options)
    from nrmmix.inference.methods import SEARCHES, VARIATIONAL

    for name in ("save", "report"):
        if options.method in SEARCHES and getattr(options, name) is not None:
            raise ValueError(f"--{name} needs draws, and --method {options.method} is a search; leave it out")
    with _warnings_said():
        model = _model(options)
        given = {name: getattr(options, name) for name in ("draws", "tune", "chains", "thin") if getattr(options, name) is not None}
        if options.method not in SEARCHES and options.method not in VARIATIONAL:
            given = RUN | {"thin": max(1, min(THIN, ROWS // model.n_obs))} | given
        result = model.fit(options.method, rng=seed, cores=options.cores, progress=options.progress, time_limit=options.time_limit, **given)
        if result.interrupted and options.method in SEARCHES:
            _say(f"stopped early; the best of {len(result.bounds)} passes is kept")
        elif result.interrupted and options.method in VARIATIONAL:
            _say(f"stopped early; what {len(result.passes)} passes have found is kept")
        elif result.interrupted:
            _say(f"stopped early; {result.draws.n_draws} of {given['draws']} draws of each chain are kept")
        if saved is not None:
            _say(f"fit saved to {result.save(saved)}")
        print(result.summary().as_text(), flush=True)
        if picture is not None:
            _save(result, picture)
        if page is not None:
            _say(f"report written to {result.report(page)}")
    return 0


def _seed(options: argparse.Namespace) -> int | None:
    if options.seed is not None and options.seed < 0:
        raise ValueError(f"--seed must be 0 or greater, not {options.seed}")
    return options.seed


def _summary(options: argparse.Namespace) -> int:
    print(getattr(_load(options).summary(), FORMATS[options.format])())
    return 0


def _predict(options: argparse.Namespace) -> int:
    given: dict[str, Any] = {"q": options.q} if options.q is not None else {}
    if options.q is not None and options.kind != "quantile":
        raise ValueError(f"--q belongs to --kind quantile, not {options.kind}")
    if options.response is not None:
        given["response"] = options.response[0] if len(options.response) == 1 else options.response
    data, fit = None if options.data is None else _table(options.data), _load(options)
    if options.at is not None:
        from nrmmix.posterior.predict.points import response_columns

        levels = [fit.model.frame.levels[j] for j in response_columns(fit.model, given.get("response"))]
        given["at"] = [_point(text, levels) for text in options.at]
    table = fit.predict(data, options.kind, interval=options.interval, draws=options.draws, rng=_seed(options), **given)
    table.index.names = ["row" if name is None else name for name in table.index.names]
    table.to_csv(sys.stdout)
    return 0


def _point(text: str, levels: Sequence[Any]) -> Any:
    """A point of the responses: numbers, or levels of those that have categories."""
    parts = [text] if len(levels) == 1 and levels[0] is not None else text.split(",")
    values: list[Any] = []
    for part, of_response in zip(parts, [*levels, *[None] * len(parts)]):
        by_text = {str(level): level for level in of_response or ()}
        try:
            values.append(by_text[part] if part in by_text else float(part))
        except ValueError:
            if of_response is None:
                raise ValueError(f"--at {text!r} is no number, nor numbers joined by commas") from None
            values.append(part)
    return values[0] if len(values) == 1 else values


def _report(options: argparse.Namespace) -> int:
    page = files.target(options.out, ".html", "a report")
    with _warnings_said():
        _say(f"report written to {_load(options).report(page)}")
    return 0


def _load(options: argparse.Namespace) -> Any:
    import nrmmix as nm

    return nm.load(options.fit)


def _warmup(_options: argparse.Namespace) -> int:
    """Short fits that between them call nearly all that is compiled: of Gaussian components with known parameters not all forms."""
    import time

    import nrmmix as nm

    started = time.perf_counter()
    faithful, mcycle = nm.datasets.load_faithful(), nm.datasets.load_mcycle()
    widths = nm.LogNormal(-2, 1)
    models = [
        nm.Model("eruptions_min + waiting_min ~ 1", faithful),
        *(nm.Model("waiting_min ~ 1", faithful, prior=nm.NGGP(mass)) for mass in (nm.Gamma(1, 1), nm.LogNormal(0, 1))),
        *(nm.Model("accel_g ~ times_ms", mcycle, prior=nm.NGGP(), kernel=kernel(widths)) for kernel in (nm.SquaredExponential, nm.Box)),
        nm.Model("eruptions_min + waiting_min ~ 1", faithful.where(faithful < 90), missing="marginalize"),
    ]
    for model in models:
        fit = model.fit(draws=5, tune=5, chains=1, rng=1)
        for kind in ("mean", "density", "quantile", "cluster"):
            fit.predict(kind=kind, draws=5)
        fit.simulate()
        fit.log_density()
        fit.similarity()
        fit.summary()
        model.prior_predictive(draws=1, rng=1)
    nm.Model("waiting_min ~ 1", faithful, prior=nm.PitmanYor()).prior_predictive(draws=1, rng=1)
    nm.Model("accel_g ~ times_ms", mcycle, prior=nm.FiniteMixture(50)).prior_predictive(draws=1, rng=1)
    wait, long = faithful["waiting_min"].astype(int), faithful["eruptions_min"] > 3
    several = faithful.assign(
        half=faithful["waiting_min"] / 2, root=faithful["waiting_min"] ** 0.5, count=wait, long=long,
        kind=long.map({True: "long", False: "short"}), tens=wait // 10, rest=wait % 10 + 1,
    )
    family = {
        "eruptions_min": nm.Regression("1 + waiting_min"), "half": nm.Gaussian("diagonal"), "root": nm.SemiconjugateGaussian(),
        "count": nm.Poisson(), "long": nm.Bernoulli(), "kind": nm.Categorical(), "tens + rest": nm.Multinomial(),
    }
    fit = nm.fit(f"{' + '.join(family)} ~ 1", several, family=family, draws=5, tune=5, chains=1, rng=1)
    fit.predict(several.iloc[:5], draws=5)
    fit.predict(kind="density", draws=5)
    _say(f"compiled in {time.perf_counter() - started:.0f} s")
    return 0


def _model(options: argparse.Namespace) -> Model:
    import nrmmix as nm

    data = _table(options.data)
    kernel = None
    if options.kernel is not None or options.width is not None:
        kind, given = shell_names("kernel")[options.kernel or "se"]
        if options.width is None and kind.default_widths is None:
            raise ValueError(f"--kernel {options.kernel} needs --width; covariates are scaled to [0, 1]")
        kernel = kind(options.width, **given)
    family, prior = _family(options.family), _prior(options)
    return nm.Model(options.formula, data, family=family, prior=prior, kernel=kernel, missing=options.missing)


def _prior(options: argparse.Namespace) -> Any:
    priors = shell_names("prior")
    given = {name: getattr(options, name) for name in OPTIONS if getattr(options, name) is not None}
    takes = {name: [short for short, (kind, _) in priors.items() if name in signature(kind).parameters] for name in OPTIONS}
    for name in given:
        if options.prior not in takes[name]:
            raise ValueError(f"--{name} belongs to --prior {' or '.join(takes[name])}, not {options.prior}")
    kind, fixed = priors[options.prior]
    for name, one in signature(kind).parameters.items():
        if one.default is one.empty and name not in given:
            raise ValueError(f"--prior {options.prior} needs --{name}")
    return kind(**fixed, **given)


def _family(given: Sequence[str]) -> Any:
    """A family by name, or several by the names of their responses."""
    known = shell_names("family")

    def made(name: str) -> Any:
        if name not in known:
            raise ValueError(f"--family {name!r} is unknown; there are {', '.join(known)}{did_you_mean(name, known)}")
        kind, options = known[name]
        return kind(**options)

    if len(given) == 1 and "=" not in given[0]:
        return made(given[0])
    families = {}
    for text in given:
        name, _, responses = text.partition("=")
        if not responses:
            raise ValueError(f"--family {text!r}: of several families each needs its responses, {text}=NAME+NAME")
        families[responses] = made(name)
    return families


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
        hint = did_you_mean(name, datasets.names())
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
    """Warnings of the package as messages, without the line of code that gave them; the summary has the verdict on convergence."""
    from nrmmix.posterior.convergence import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.showwarning = lambda message, *_: _say(f"warning: {message}")
        yield
