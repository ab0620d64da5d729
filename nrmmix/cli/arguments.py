"""The arguments of the command line, and its help."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

from nrmmix import __version__
from nrmmix.common.interrupts import interrupts_delayed
from nrmmix.common.registry import shell_names

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
  nrmmix fit "age + visits ~ 1" --data patients.csv --family gaussian=age poisson=visits --missing marginalize
  nrmmix fit "y ~ x" --data measurements.csv.gz
  zcat measurements.csv.gz | nrmmix fit "y ~ x" --data -
  nrmmix fit "a + b ~ 1" --data points.parquet --method memoized_vb --checkpoint run.npz
  nrmmix fit "y ~ x + plot" --data german.csv --sep ";" --decimal , --encoding cp1252 --dtype plot=str --na . -99
"""
RESUME_EXAMPLES = """examples:
  nrmmix resume fit.npz                      after `nrmmix fit ... --save fit.npz` was ended, in whatever way
  nrmmix resume run.npz                      the checkpoint of a variational fit
  nrmmix resume fit.npz --draws 3000         3000 draws more of each chain
  nrmmix resume fit.npz --draws auto --time-limit 600
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
  nrmmix predict fit.npz --data big.parquet --kind cluster --out clusters.parquet
"""
COMPARE_EXAMPLES = """examples:
  nrmmix compare normal.npz lines.npz --data held_out.csv      log densities of rows that neither has seen
  nrmmix compare normal.npz lines.npz                          leave-one-out of the rows of both
"""
VIGNETTES_EXAMPLES = """examples:
  nrmmix vignettes --list
  nrmmix vignettes getting_started --to pages      one, as .html, .md and .ipynb
  nrmmix vignettes papers --fast                   those on papers, in their short forms
  nrmmix vignettes                                 all; takes half an hour and more
"""
REPORT_EXAMPLES = """examples:
  nrmmix report fit.npz fit.html
"""
WARMUP_EXAMPLES = """examples:
  nrmmix warmup          compile for this user; later fits start at once
  NUMBA_CACHE_DIR=/shared/cache nrmmix warmup
"""

FORMATS = {"text": "as_text", "html": "as_html", "latex": "as_latex", "csv": "as_csv"}


def parser(wanted: Sequence[str], run: Mapping[str, Callable[[argparse.Namespace], int]]) -> argparse.ArgumentParser:
    """All commands, and what runs each.

    The options of `fit` are there where it is the command that is wanted: they name what can be plugged in, which is slow to import.
    """
    made_of = argparse.ArgumentParser(
        prog="nrmmix", description="Bayesian nonparametric mixtures and density regression.", epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made_of.add_argument("--version", action="version", version=f"nrmmix {__version__}")
    commands = made_of.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, text: str, examples: str = "") -> argparse.ArgumentParser:
        made = commands.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", epilog=examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(run=run[name])
        return made

    fit = command("fit", "fit a model and print its summary", FIT_EXAMPLES)
    if list(wanted) == ["fit"]:
        _fit_arguments(fit)
        _json_argument(fit, "the summary")
    resume = command("resume", "go on with a fit that was ended, or make it longer", RESUME_EXAMPLES)
    resume.add_argument("fit", metavar="FIT.npz", help="a fit saved by `nrmmix fit --save`, or its checkpoint")
    resume.add_argument("--draws", metavar="N|auto", help="draws to add to each chain (default: those that were asked for at first)")
    _limit_arguments(resume)
    _json_argument(resume, "the summary")
    summary = command("summary", "print the summary of a saved fit", SUMMARY_EXAMPLES)
    predict = command("predict", "print predictions of a saved fit as csv", PREDICT_EXAMPLES)
    report = command("report", "write a saved fit as one HTML page with pictures", REPORT_EXAMPLES)
    for made in (summary, predict, report):
        made.add_argument("fit", metavar="FIT.npz", help="a fit saved by `nrmmix fit --save` or `fit.save()`")
    _json_argument(summary, "the summary")
    _json_argument(predict, "the predictions")
    compare = command("compare", "compare saved fits by the log density of rows", COMPARE_EXAMPLES)
    compare.add_argument("fits", nargs="+", metavar="FIT.npz", help="two or more saved fits of the same responses")
    compare.add_argument("--data", metavar="NAME|FILE", help="held-out rows, a file or - (default: those fitted, left out in turn)")
    _table_arguments(compare)
    _json_argument(compare, "the table")
    summary.add_argument("--format", choices=tuple(FORMATS), default="text", help="of the output (default: text)")
    predict.add_argument("--data", metavar="NAME|FILE", help="new rows, a file or - for standard input (default: those that were fitted)")
    predict.add_argument("--out", metavar="FILE", help="a .parquet or .csv file to write to, part by part (default: standard output)")
    _table_arguments(predict)
    kinds = "mean, density, cdf, exceedance, survival, hazard, quantile, cluster or membership (default: mean)"
    predict.add_argument("--kind", default="mean", metavar="KIND", help=kinds)
    points = "points of densities, cdfs, exceedances, survival and hazards; of several responses with commas: 2,55"
    predict.add_argument("--at", nargs="+", metavar="Y", help=points)
    predict.add_argument("--q", nargs="+", type=float, metavar="P", help="probabilities of quantiles (default: 0.05 0.5 0.95)")
    predict.add_argument("--response", action="append", metavar="NAME", help="marginal of one of several responses; may be repeated")
    units = ("formula", "response")
    predict.add_argument("--units", choices=units, default=units[0], help="of responses such as log(y) (default: formula)")
    predict.add_argument("--interval", type=float, default=0.9, metavar="P", help="probability of the bands (default: 0.9)")
    predict.add_argument("--draws", type=int, default=500, metavar="N", help="posterior draws to use (default: 500)")
    predict.add_argument("--seed", type=int, metavar="N", help="seed of the bands (default: follows from the fit's)")
    report.add_argument("out", metavar="FILE.html", help="the page to write")
    _json_argument(command("datasets", "list the data sets that come with nrmmix"), "the list")
    vignettes = command("vignettes", "run the pages of the documentation, or list them", VIGNETTES_EXAMPLES)
    vignettes.add_argument("names", nargs="*", metavar="NAME", help="vignettes, or the groups guide and papers (default: all)")
    vignettes.add_argument("--list", action="store_true", help="list them, and run none")
    vignettes.add_argument("--fast", action="store_true", help="short forms, which those of the group papers have")
    vignettes.add_argument("--to", default="nrmmix_vignettes", metavar="FOLDER", help="where pages go (default: nrmmix_vignettes)")
    vignettes.add_argument(
        "--format", nargs="+", choices=("html", "md", "ipynb"), default=("html", "md", "ipynb"), help="of the pages (default: all three)"
    )
    command("warmup", "compile everything once, so that later fits start at once", WARMUP_EXAMPLES)
    return made_of


def _fit_arguments(fit: argparse.ArgumentParser) -> None:
    with interrupts_delayed():
        from nrmmix.inference.methods import CYCLES, SEARCHES, VARIATIONAL

    fit.add_argument("formula", metavar="FORMULA", help='responses joined by +, a tilde, 1 (a mixture) or covariates: "y ~ x"')
    fit.add_argument(
        "--data", required=True, metavar="NAME|FILE",
        help="a data set of `nrmmix datasets`; a file, .csv, .csv.gz, .zip, .parquet or .npy; or - for csv from standard input. For "
        "variational methods .parquet and .npy files may be larger than memory",
    )
    table = fit.add_argument_group("how a csv file is read")
    _table_arguments(table)
    table.add_argument("--stream", action="store_true", help="part by part, for variational methods: the file may be larger than memory")
    fit.add_argument("--missing", choices=("drop", "raise", "marginalize"), default="drop", help="rows with missing values (default: drop)")
    fit.add_argument("--weights", metavar="COLUMN", help="how often each row counts (default: once); fractions need a variational method")
    model = fit.add_argument_group("model")
    model.add_argument(
        "--family", nargs="+", metavar="NAME",
        help=f"of all responses, one of {', '.join(shell_names('family'))}; or several, each with its responses: "
        "gaussian=age+weight poisson=visits (default: gaussian, and lines in the covariates where there are any)",
    )
    model.add_argument("--prior", choices=tuple(shell_names("prior")), default="dp", help="random measure (default: dp)")
    model.add_argument("--mass", type=float, metavar="X", help="fix the mass (default: sampled; of finite 1)")
    model.add_argument("--sigma", type=float, metavar="X", help="fix sigma of nggp, py or stable (default: sampled)")
    model.add_argument("--components", type=int, metavar="M", help="number of components of finite")
    model.add_argument("--kernel", choices=tuple(shell_names("kernel")), help="covariate kernel (default: se for one number, else sparse)")
    model.add_argument("--width", type=float, metavar="X", help="fix the kernel's width, for covariates in [0, 1] (se: one for each atom)")
    run = fit.add_argument_group("sampling")
    run.add_argument(
        "--method", default="auto", metavar="NAME",
        help=f"auto (the default), {', '.join(f'{name} (not exact)' if one.bias else name for name, one in CYCLES.items())}; "
        f"{' and '.join(SEARCHES)} search for one partition; {', '.join(VARIATIONAL)} are variational",
    )
    run.add_argument("--draws", metavar="N|auto", help="draws to keep in each chain (default: auto, until the chains agree)")
    for name, text in (
        ("tune", "iterations before the first draw (default: 1000)"), ("chains", "chains (default: 4)"),
        ("thin", "iterations for each draw (default: 1)"),
    ):
        run.add_argument(f"--{name}", type=int, metavar="N", help=text)
    run.add_argument("--store", choices=("all", "partition", "scalars"), help="what is kept of each draw (default: all)")
    run.add_argument("--init", metavar="NAME", help="start of the chains, such as sequential, one, each or ibhc (default: spread)")
    run.add_argument("--seed", "--rng", type=int, metavar="N", help="seed (default: a fresh one, shown in the summary)")
    _limit_arguments(run)
    run.add_argument(
        "--checkpoint", metavar="FILE.npz",
        help="draws so far, for `nrmmix resume` (default: with --save FIT.npz FIT.checkpoint.npz, until the fit is saved)",
    )
    out = fit.add_argument_group("output, besides the summary")
    out.add_argument("--save", metavar="FILE.npz", help="save the fit, for the other commands and `nrmmix.load`")
    out.add_argument("--report", metavar="FILE.html", help="write a page with tables and pictures")
    out.add_argument("--plot", metavar="FILE", help="save a picture; the ending chooses its format, such as .png, .pdf or .svg")


def _limit_arguments(run: argparse._ActionsContainer) -> None:
    run.add_argument("--cores", type=int, metavar="N", help="threads (default: as many as processors, at most one a chain)")
    run.add_argument(
        "--time-limit", type=float, metavar="S",
        help="seconds after which the chains stop and keep what was drawn (default: with draws auto 120, else none)",
    )
    run.add_argument("--every", metavar="TIME", default="5min", help="time between checkpoints: seconds, 30s, 5min, 2h (default: 5min)")
    run.add_argument("--progress", action=argparse.BooleanOptionalAction, default=None, help="progress on stderr (default: on a terminal)")


def _json_argument(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--json", action="store_true", help=f"print {what} as JSON")


def _table_arguments(table: argparse._ActionsContainer) -> None:
    table.add_argument(
        "--sep", metavar="C", help="what stands between fields, or tab, space, comma, semicolon or pipe (default: found out, and said)",
    )
    table.add_argument("--decimal", metavar="C", help="decimal mark (default: .)")
    table.add_argument("--thousands", metavar="C", help="mark between thousands, as in 1,234 (default: found out where it is plain)")
    table.add_argument("--encoding", metavar="NAME", help="of the text (default: utf-8)")
    table.add_argument("--dtype", nargs="+", metavar="COL=TYPE", help="columns that are str, int, float or category")
    table.add_argument("--na", nargs="+", metavar="TEXT", help="what stands for missing values (default: nothing, NA, nan and their like)")
