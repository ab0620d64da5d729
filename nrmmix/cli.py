"""Command line: fit a model to a table, look at a saved fit, predict from it, and what goes with that.

Results go to standard output, messages to standard error.  Exit status: 0 for a result, 1 for a failure on the way, 2 for input
that cannot be used, 130 for an interrupt before the first draw, 143 and 129 where SIGTERM or SIGHUP has ended the sampling.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nrmmix.arguments import FORMATS, parser
from nrmmix.common import files
from nrmmix.common.interrupts import stoppable
from nrmmix.common.messages import SHELL, did_you_mean, duration, printable
from nrmmix.common.progress import tell
from nrmmix.common.registry import shell_names

if TYPE_CHECKING:

    from nrmmix.api import Model

OPTIONS = ("mass", "sigma", "components")  # of priors
RUN = ("draws", "tune", "chains", "thin", "store")  # options that are arguments of `Model.fit`, whose defaults they have
BY_PARTS = (".parquet", ".pq", ".npy")  # endings of files that are read part by part
PLACES = ("sep", "decimal", "encoding", "dtype", "na")  # options of how a table is read


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
    _let_streams_write()
    token = SHELL.set("-")
    try:
        # argparse takes -1,2 and -1e3 for options; what begins with a space is none, and a number all the same
        options = parser(given[:1], COMMANDS).parse_args([f" {text}" if re.match(r"-\.?\d", text) else text for text in given])
        return options.run(options)
    except KeyboardInterrupt as error:
        _say(str(error) or "stopped")
        return 130
    except BrokenPipeError:
        _abandon_output()
        return 1
    except (ValueError, TypeError, KeyError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        _say(f"error: {_message(error)}")
        return 2
    except (OSError, FloatingPointError, MemoryError, RuntimeError) as error:
        _say(f"error: {_message(error)}")
        return 1
    finally:
        SHELL.reset(token)


# -------------------------------------------------------------------------------------------------- commands

def _fit(options: argparse.Namespace) -> int:
    # checked before the sampling, which may take long
    picture = None if options.plot is None else _picture(options.plot)
    saved = None if options.save is None else files.target(options.save, ".npz", "a saved fit")
    page = None if options.report is None else files.target(options.report, ".html", "a report")
    seed = _seed(options)
    import nrmmix as nm
    from nrmmix.inference.methods import CYCLES, SEARCHES, VARIATIONAL

    for name in ("save", "report"):
        if options.method in SEARCHES and getattr(options, name) is not None:
            raise ValueError(f"--{name} needs draws, and --method {options.method} is a search; leave it out")
    checkpoint = options.checkpoint
    if checkpoint is None and saved is not None and options.method in ("auto", *CYCLES):
        checkpoint = _checkpoint_of(saved)
    with _warnings_said():
        model = _model(options)
        given = {name: getattr(options, name) for name in RUN if getattr(options, name) is not None}
        if "draws" in given:
            given["draws"] = _draws(given["draws"])
        if checkpoint is not None:
            given |= {"checkpoint": checkpoint, "every": options.every}

        method: Any = options.method
        if checkpoint is not None and method in VARIATIONAL:
            if method != "memoized_vb":
                raise ValueError(f"--checkpoint belongs to chains and to --method memoized_vb, not {method}; leave it out")
            method = nm.MemoizedVB(checkpoint=given.pop("checkpoint"))
            given.pop("every")

        def work() -> Any:
            return model.fit(
                method, rng=seed, cores=options.cores, progress=options.progress, time_limit=options.time_limit, **given,
            )

        if options.method in SEARCHES or options.method in VARIATIONAL:
            result = work()
            if result.interrupted and options.method in SEARCHES:
                _say(f"stopped early; the best of {len(result.bounds)} passes is kept")
            elif result.interrupted:
                _say(f"stopped early; what {len(result.passes)} passes have found is kept")
            if saved is not None:
                _say(f"fit saved to {result.save(saved)}")
            return _shown(result, picture, page)
        return _sampled(work, saved, checkpoint, picture, page, given.get("draws"))


def _resume(options: argparse.Namespace) -> int:
    import nrmmix as nm

    own = Path(options.fit)
    # of a run that was killed there is the checkpoint; the fit of that name, if any, is of a run before
    kept = _checkpoint_of(own) if _checkpoint_of(own).is_file() else own
    saved = files.target(own, ".npz", "a saved fit")
    run = {"every": options.every, "cores": options.cores, "progress": options.progress, "time_limit": options.time_limit}

    from nrmmix.inference.variational.checkpoint import is_checkpoint

    if own.is_file() and is_checkpoint(own):
        if options.draws is not None:
            raise ValueError(f"--draws belongs to chains, and {options.fit!r} is the checkpoint of a variational fit; leave it out")
        with _warnings_said():
            return _shown(nm.resume(own, progress=options.progress, time_limit=options.time_limit), None, None)

    def work() -> Any:
        if options.draws is None:
            return nm.resume(kept, **run)
        return nm.load(kept).extend(_draws(options.draws), checkpoint=kept, **run)

    with _warnings_said():
        return _sampled(work, saved, kept, None, None)


def _sampled(
    work: Any, saved: Path | None, checkpoint: Any, picture: Path | None, page: Path | None, wanted: int | str | None = None
) -> int:
    """Sample, save and show; a signal ends the sampling only, and what was drawn is kept."""
    if saved is not None:
        SHELL.set(str(saved))
    with stoppable(endings=True) as stop:
        result = work()
        drawn, goal = result.draws.n_draws, wanted or result.run.goal
        if result.interrupted and drawn:
            why = f", as the time limit of {duration(result.evidence.limit)} was over" if result.evidence.limit else ""
            _say(f"stopped early; {drawn} {'' if goal == 'auto' else f'of {goal} '}draws of each chain are kept{why}")
        if saved is not None and (drawn or stop.signal or result.interrupted):
            _say(f"fit saved to {result.save(saved)}")
            if checkpoint is not None and Path(checkpoint) == _checkpoint_of(saved):
                Path(checkpoint).unlink(missing_ok=True)
        if drawn == 0:
            more = f"; nrmmix resume {saved} goes on" if saved is not None else "; give more seconds, or less --tune"
            _say(f"{'stopped' if stop.signal else 'time_limit was over'} before the first draw was recorded{more}")
            return 128 + stop.signal if stop.signal else 1
    return 128 + stop.signal if stop.is_final else _shown(result, picture, page)


def _checkpoint_of(saved: Path) -> Path:
    """Where checkpoints of a fit go until it is saved."""
    return saved.with_name(f"{saved.stem}.checkpoint.npz")


def _draws(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--draws must be a number or auto, not {text!r}") from None


def _shown(result: Any, picture: Path | None, page: Path | None) -> int:
    """Print and draw a result; a reader of the output that has left costs neither picture nor report."""
    status = 0
    try:
        print(_printable_lines(result.summary().as_text()), flush=True)
    except OSError:
        _abandon_output()
        status = 1
    if picture is not None:
        _save(result, picture)
    if page is not None:
        _say(f"report written to {result.report(page)}")
    return status


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
    data, fit = None if options.data is None else _table(options), _load(options)
    if options.at is not None:
        from nrmmix.posterior.predict.points import response_columns

        levels = [fit.model.frame.levels[j] for j in response_columns(fit.model, given.get("response"))]
        given["at"] = [_point(text, levels) for text in options.at]
    out = options.out
    table = fit.predict(data, options.kind, interval=options.interval, draws=options.draws, rng=_seed(options), out=out, **given)
    if out is not None:
        _say(f"predictions written to {table}")
        return 0
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

    SHELL.set(str(options.fit))
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

    data = _table(options)
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


def _table(options: argparse.Namespace) -> Any:
    """A file, or a data set by name; what looks like neither is an error that says so."""
    from nrmmix import datasets
    from nrmmix.datasets.text import read_table

    name, path = options.data, Path(options.data)
    given = {one: getattr(options, one) for one in PLACES if getattr(options, one) is not None}
    if path.suffix.lower() in BY_PARTS or path.is_dir():
        if given:
            raise ValueError(f"--{next(iter(given))} is of csv files, and {name!r} is none; leave it out")
        return name
    if getattr(options, "stream", False):
        return _streamed(path, given)
    if ".csv" in path.suffixes or path.exists():
        if not path.exists() or path.is_dir():
            raise FileNotFoundError(f"there is no file {name!r}")
        given["sep"] = {"tab": "\t", "\\t": "\t", "space": " "}.get(given.get("sep", ""), given.get("sep"))
        if "dtype" in given:
            pairs = [text.rpartition("=") for text in given["dtype"]]
            if wrong := [text for text, (column, _, _) in zip(given["dtype"], pairs, strict=True) if not column]:
                raise ValueError(f"--dtype {wrong[0]!r}: give a column and its type, such as {wrong[0]}=str")
            given["dtype"] = {column: kind for column, _, kind in pairs}
        table, remarks = read_table(path, **given)
        for remark in remarks:
            _say(remark)
        return table
    if name not in datasets.names():
        hint = did_you_mean(name, datasets.names())
        raise ValueError(f"there is no data set {name!r} (there are {', '.join(datasets.names())}) and no such csv file{hint}")
    if given:
        raise ValueError(f"--{next(iter(given))} is of csv files, and {name!r} is a data set of nrmmix; leave it out")
    return datasets.load(name)


def _streamed(path: Path, given: dict[str, Any]) -> Any:
    """A csv file that is read part by part."""
    from nrmmix.model.frame.files import CsvSource

    if not path.is_file() or path.suffix.lower() != ".csv":
        raise FileNotFoundError(f"--stream reads csv files part by part, and there is no such file {str(path)!r}")
    if "dtype" in given:
        raise ValueError("--dtype is not available with --stream; leave one of them out")
    return CsvSource(str(path), **given)


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
    files.check(path)
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
    tell(f"nrmmix: {printable(text)}")


def _printable_lines(text: str) -> str:
    """A text of several lines, without what a terminal would obey."""
    return "\n".join(map(printable, text.split("\n")))


def _let_streams_write() -> None:
    """What a stream cannot encode is written by its number; a stream that is closed or missing is one that nobody reads."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        try:
            if stream is None or stream.closed:
                setattr(sys, name, io.StringIO())
            elif hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        except (AttributeError, ValueError, OSError):
            pass


def _abandon_output() -> None:
    """The reader of the output has left (`| head`): what Python still holds for it goes nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        sys.stdout = io.StringIO()


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


COMMANDS = {
    "fit": _fit, "resume": _resume, "summary": _summary, "predict": _predict, "report": _report, "datasets": _datasets, "warmup": _warmup,
}
