"""Summary tables of a fit, with a verdict on convergence in words.

A fit does not need statsmodels: this module is imported when a summary is asked for, and of statsmodels only `iolib`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nrmmix.common.messages import listed
from nrmmix.inference.mcmc.moves.gibbs import Gibbs
from nrmmix.model.frame.columns.dates import describe
from nrmmix.posterior.convergence import agreed, format_rhat, verdict
from nrmmix.posterior.importance import use, use_by_factors
from nrmmix.report.clusters import Clusters, Column, affordable, clusters, notes_on_clusters, why_counts_differ
from nrmmix.report.frames import quantities
from nrmmix.report.support import support_notes
from nrmmix.report.tables import Report, Table
from nrmmix.results.base import Result
from nrmmix.results.mcmc import MCMCResult
from nrmmix.results.search import SearchResult
from nrmmix.results.shared_shrinkage import too_far_a_priori
from nrmmix.results.variational import VariationalResult
from nrmmix.results.variational_regression import VariationalRegressionResult

WIDTH = 96  # characters; more only where names of quantities are long
SHOWN = 10  # numbers of clusters with a column, and clusters with a row of their own
LONGEST = 700  # characters of one text
MAX_COMPONENTS = 50  # in the table of those of a source
MAX_ROWS = 200_000  # beyond which clusters are not looked at row by row
OF_START = " of the start of the largest weight"
WAYS = {"equal": "alike", "stacking": "by stacking", "best": "not at all: the highest bound alone counts"}
MAX_COVARIATES = 30  # with a row of their own, those of which most rows make use

OF_COVARIATES = (
    "Covariates. Use by rows: share of the rows whose cluster depends on the covariate by the kernel. Inclusion: chance with which an atom "
    "does. Effects on the response: fit.importance()."
)
COLUMNS = {"mean": "mean", "sd": "sd", "q5": "5%", "q95": "95%", "ess": "ESS bulk", "ess_tail": "ESS tail", "rhat": "R-hat", "mcse": "MCSE"}
Rows = list[tuple[str, str]]


class Checked(NamedTuple):
    """The numbers of chains that tables report, what is said of their convergence, and whether they agree."""

    numbers: pd.DataFrame
    verdict: str
    agree: bool

    @classmethod
    def of(cls, fit: MCMCResult) -> Checked:
        numbers, curves = quantities(fit), fit.curve_diagnostics()
        agree = agreed(fit.evidence, numbers, curves if fit.model.is_regression else None)
        return cls(numbers, verdict(fit.evidence, numbers, curves), agree)


def summary(fit: MCMCResult, checked: Checked | None = None, says: bool = True) -> Report:
    """Tables of the model, priors, sampler, hyperparameters and clusters, and a verdict on convergence; see `MCMCResult.summary`.

    Numbers are shown to two significant digits of their Monte Carlo standard error, parameters of clusters to two of their posterior
    standard deviation.  Where the search for a point estimate of the clustering would take more than a few seconds, the table of clusters
    is left out until `fit.partition()` has been called.  What comes out as LaTeX needs the package booktabs.  `checked` is what has been
    computed before, for it takes longest.  Without `says` the verdict is left to the page that the tables stand on.
    """
    numbers, said, _ = Checked.of(fit) if checked is None else checked
    width, covariates = max(WIDTH, 9 * len(COLUMNS) + max(map(len, numbers.index))), fit.model.slots is not None and not fit.lacking
    of_clusters: list[str] = []
    tables = [
        _model_table(fit, width), _prior_table(fit, width), _run_table(fit, width), _parameter_table(numbers, width),
        *([_covariate_table(use(fit.model, fit.draws), width)] if covariates else []),
        *([_move_table(fit, width)] if len(fit.cycle.moves) > 1 or fit.cycle.moves[0] != Gibbs() else []), _count_table(fit, width),
    ]
    counts = ""
    if lacking := fit.lacking:
        note = f"The clusters of a point estimate are not shown: draws of {', '.join(lacking)} have not been kept (store=)."
    elif affordable(fit):
        found = clusters(fit)
        of_clusters = notes_on_clusters(fit.model, found, fit.draws["labels"])
        tables += [*_cluster_tables(found, width), *_word_tables(found, width)]
        by = f", sought by a sample of {found.partition.sampled:,} rows" if found.partition.sampled else ""
        note = (
            f"Clusters, numbered by size: fit.partition(), of expected {found.partition.loss.upper()} loss "
            f"{found.partition.expected_loss:.3g} nats{by}. Stability: posterior probability that two members share a cluster. Purity: of "
            "the rows that share a cluster with a member, the posterior mean share that are members. Parameters: posterior mean ± standard "
            "deviation given this partition."
        )
        note += _left_out(found)
        counts = why_counts_differ(float(fit.draws["n_clusters"].mean()), found.partition)
    else:
        note = "The clusters of a point estimate are not shown, as the search takes long: call fit.partition(), then summary() shows them."
    of_support = [] if fit.lacking else [*filter(None, [too_far_a_priori(fit.model, fit.draws)]), *support_notes(fit)]
    notes = [
        *([OF_COVARIATES] if covariates else []), note, *filter(None, [counts]), *of_clusters, *of_support, *([said] if says else []),
    ]
    return Report(tables, notes, width)


def search_summary(fit: SearchResult, says: bool = True) -> Report:
    """Tables of the model, the search and the clusters; see `SearchResult.summary`."""
    found = clusters(fit)
    tables = [
        _model_table(fit, WIDTH), _prior_table(fit, WIDTH), _search_table(fit, WIDTH), *_cluster_tables(found, WIDTH, stability=False),
        *_word_tables(found, WIDTH),
    ]
    note = f"{search_verdict(fit) + ' ' if says else ''}Parameters: posterior mean ± standard deviation given this partition."
    return Report(tables, [note + _left_out(found), *notes_on_clusters(fit.model, found)], WIDTH)


def search_verdict(fit: SearchResult) -> str:
    """Say what a search is no answer to."""
    return f"One partition, found by a search ({fit.method}), not samples from the posterior: nothing here says how sure it is."


def variational_summary(fit: VariationalResult, says: bool = True) -> Report:
    """Tables of the model, the passes and the clusters; see `VariationalResult.summary`."""
    said = [variational_verdict(fit)] if says else []
    own = [_start_table(fit, WIDTH)] if isinstance(fit, VariationalRegressionResult) else []
    if own and fit.model.slots is not None:
        own.append(_covariate_table(use_by_factors(fit.posterior), WIDTH))
    if fit.model.frame.is_streamed or fit.model.n_obs > MAX_ROWS:
        tables = [_model_table(fit, WIDTH), _prior_table(fit, WIDTH), _pass_table(fit, WIDTH), *own, _component_table(fit, WIDTH)]
        note = "Components: expected numbers of rows, and weights."
        note += " The rows are not in memory." if fit.model.frame.is_streamed else ""
        return Report(tables, [note, *said], WIDTH)
    found = clusters(fit)
    tables = [
        _model_table(fit, WIDTH), _prior_table(fit, WIDTH), _pass_table(fit, WIDTH), *own, *_cluster_tables(found, WIDTH),
        *_word_tables(found, WIDTH),
    ]
    note = (
        f"Clusters: rows by their most probable components{OF_START if own else ''}. Stability: the mean probability of the members "
        "under q. Parameters: posterior mean ± standard deviation given this partition."
    )
    return Report(tables, [note + _left_out(found), *notes_on_clusters(fit.model, found), *support_notes(fit), *said], WIDTH)


def _left_out(found: Clusters) -> str:
    return f" {found.n_left_out} parameters more are not shown." if found.n_left_out else ""


def variational_verdict(fit: VariationalResult) -> str:
    """Whether the bound has settled, and what it is."""
    if isinstance(fit, VariationalRegressionResult):
        return _verdict_of_starts(fit)
    if fit.interrupted:
        state = "Stopped before it had converged: it is as after the last whole pass."
    elif fit.has_converged:
        state = "Converged to a local optimum of the bound: another start, rng=, may lead to another, of which the higher is the better."
    else:
        state = "The passes were over before the bound had settled; give more, passes=."
    return f"{state} Variational inference, not samples: bands take the division of the rows for given and are too narrow."


def _verdict_of_starts(fit: VariationalRegressionResult) -> str:
    starts, how = fit.starts, WAYS[fit.options.combine]
    if fit.interrupted:
        state = "Stopped before all starts had converged: it has those that were there."
    elif fit.has_converged:
        state = "Converged to a local optimum."
        if len(starts) > 1:
            state = f"All {len(starts)} starts converged, each to an optimum of its own."
    else:
        state = f"In {int((~starts['converged']).sum())} of {len(starts)} starts the passes were over before the bound had settled."
    return f"{state} Predictions average over them {how}. Variational inference, not samples: bands are too narrow."


# -------------------------------------------------------------------------------------------------- the tables

def _model_table(fit: Result, width: int) -> Table:
    model, frame = fit.model, fit.model.frame
    rows = [
        ("Formula:", model.formula or "(every column is a response)"),
        ("Responses:", listed(frame.response_names) if frame.is_sparse else ", ".join(frame.response_names)),
        ("Covariates:", ", ".join(frame.covariate_names) or "none"),
        *(("Dates:", describe(*item)) for item in frame.first_dates.items()),
        ("Seed:", str(fit.seed)),
    ]
    return _pairs(rows, width, model.title)


def _prior_table(fit: Result, width: int) -> Table:
    model = fit.model
    rows = [("Measure:", f"{model.prior} ({model.prior.title})")]
    rows += [(f"{label.capitalize()}:" if label else "", text) for label, text in model.blocks.describe()]
    if model.kernel is not None and model.grid is not None:
        rows += [
            ("Kernel:", f"{model.kernel}, {model.kernel.formula}"),
            ("Locations:", f"{model.describe_groups()}; covariates {model.describe_scale()}"),
        ]
    return _pairs(rows, width)


def _pairs(rows: Rows, width: int, title: str = "") -> Table:
    """Names and texts, long texts in several lines."""
    cells = [(key, text if len(text) <= LONGEST else f"{text[:LONGEST]} ... (all of it: print(fit.model))") for key, text in rows]
    return Table(cells, [13, width - 16], "ll", title=title, colsep="   ", wrap=True)


def _columns(headers: Sequence[str], cells: Iterable[Iterable[Any]], width: int, left: int = 1) -> Table:
    """Columns as wide as what they hold, so many of them texts, at the left, and the others numbers."""
    aligns = "l" * left + "r" * (len(headers) - left)
    return Table(cells, [0] * len(headers), aligns, headers=headers, total=width, colsep="  ")


def _run_table(fit: MCMCResult, width: int) -> Table:
    used, rows, response = fit.model.n_obs, fit.model.frame.n_rows, fit.model.frame.response
    gaps = int(np.isnan(response).sum()) if isinstance(response, np.ndarray) else 0
    limits = fit.model.frame.limits
    pairs = [
        ("Observations:", used), ("Method:", fit.method if " + " not in fit.method else "list of moves"), ("Chains:", fit.draws.n_chains),
        ("Dropped rows:", rows - used), ("Tune:", fit.tune), ("Draws a chain:", fit.draws.n_draws),
        ("Labels moved:", f"{100 * fit.moved:.3g}%"), ("Thin:", fit.thin), ("Seconds:", f"{fit.seconds:.2f}"),
        _ended(fit),
        ("", "") if limits is None else ("Censored:", int((~np.isnan(limits[..., 0])).sum())),
        ("Missing cells:", gaps) if gaps else ("", ""),
    ]
    return _three_pairs(pairs, (13, 7, 14), width)


def _ended(fit: MCMCResult) -> tuple[str, str]:
    """Whether and by what the run was ended before its goal."""
    if fit.evidence.limit:
        return "Ended by:", "time limit"
    return "Interrupted:", "yes" if fit.interrupted else "no"


def _search_table(fit: SearchResult, width: int) -> Table:
    used, rows = fit.model.n_obs, fit.model.frame.n_rows
    hyper = [(f"{name}:", f"{value:.4g}") for name, value in fit.hyper.items()]
    pairs = [
        ("Observations:", used), ("Method:", fit.method), ("Log joint:", f"{fit.log_joint:.2f}"),
        ("Dropped rows:", rows - used), ("Passes:", len(fit.bounds)), ("Lower bound:", f"{fit.lower_bound:.2f}"),
        ("Clusters:", fit.n_clusters), ("Seconds:", f"{fit.seconds:.2f}"), ("Interrupted:", "yes" if fit.interrupted else "no"),
        *hyper,
    ]
    pairs += [("", "")] * (-len(pairs) % 3)
    return _three_pairs(pairs, (13, 8, 12), width)


def _pass_table(fit: VariationalResult, width: int) -> Table:
    used, rows = fit.model.n_obs, fit.model.frame.n_rows
    pairs = [
        ("Observations:", used), ("Method:", fit.method), ("Lower bound:", f"{fit.elbo:.2f}"),
        ("Dropped rows:", rows - used), ("Passes:", len(fit.passes)), ("Converged:", "yes" if fit.has_converged else "no"),
        ("Clusters:", fit.n_clusters), ("Components:", fit.n_components), ("Interrupted:", "yes" if fit.interrupted else "no"),
        ("Seconds:", f"{fit.seconds:.2f}"), ("E[mass]:", f"{fit.expected_mass:.4g}"),
        ("Weights:", f"{fit.model.frame.size:.10g}") if fit.model.frame.is_weighted else ("", ""),
    ]
    return _three_pairs(pairs, (13, 11, 12), width)


def _start_table(fit: VariationalRegressionResult, width: int) -> Table:
    """Each start: its bound, and what it counts."""
    cells = [
        [k, f"{row.elbo:.2f}", f"{row.weight:.3f}", row.n_clusters, row.passes, "yes" if row.converged else "no"]
        for k, row in zip(fit.starts.index, fit.starts.itertuples(), strict=True)
    ]
    return _columns(["Start", "Lower bound", "Weight", "With rows", "Passes", "Converged"], cells, width, left=0)


def _component_table(fit: VariationalResult, width: int) -> Table:
    """The largest components, by what is expected of them."""
    N, weights = fit.factors.N, fit.weights.to_numpy()
    cells = [[k, f"{N[k]:.1f}", f"{weights[k]:.4f}"] for k in range(min(len(N), MAX_COMPONENTS))]
    return Table(cells, [10, 20, 12], "rrr", headers=["Component", "Rows", "Weight"], total=width, colsep="  ")


def _three_pairs(pairs: Sequence[tuple[str, object]], keys: tuple[int, int, int], width: int) -> Table:
    """Names, as wide as `keys`, and values, three pairs beside each other."""
    cells = [[cell for pair in pairs[row : row + 3] for cell in pair] for row in range(0, len(pairs), 3)]
    value = (width - sum(keys) - 5 * 3) // 3
    widths = [keys[0], value, keys[1], value, keys[2], width - sum(keys) - 5 * 3 - 2 * value]
    return Table(cells, widths, "lrlrlr", colsep="   ")


def _move_table(fit: MCMCResult, width: int) -> Table:
    """Proposals of the moves."""
    cells = [
        [
            row.move, row.kind or "labels", f"{row.calls:.3g}", row.proposed,
            "" if np.isnan(row.accepted) else f"{100 * row.accepted:.3g}%",
            *("" if np.isnan(x) else f"{x:.4g}" for x in (row.log_ratio, row.log_ratio_sd)), row.skipped,
        ]
        for row in fit.proposals().itertuples()
    ]
    return _columns(["Move", "Proposal", "Calls", "Proposed", "Accepted", "Log ratio", "sd", "Skipped"], cells, width, left=2)


def _parameter_table(numbers: pd.DataFrame, width: int) -> Table:
    cells = [[name, *_parameter_row(row)] for name, row in numbers.iterrows()]
    rest = (width - max(map(len, numbers.index))) // len(COLUMNS) - 1
    widths = [width - (rest + 1) * len(COLUMNS)] + [rest] * len(COLUMNS)
    return Table(cells, widths, "l" + "r" * len(COLUMNS), headers=["", *COLUMNS.values()])


def _covariate_table(found: pd.DataFrame, width: int) -> Table:
    """Return, for each covariate, how many rows are in clusters that depend on it, and the chance that an atom does."""
    if others := max(len(found) - MAX_COVARIATES, 0):
        found = found.nlargest(MAX_COVARIATES, "use")
    numbers = found.drop(columns="rhat").to_numpy()
    cells = [[name, *_shares(row), format_rhat(rhat)] for name, row, rhat in zip(found.index, numbers, found["rhat"], strict=True)]
    if others:
        cells.append([f"others ({others})"] + [""] * 7)
    return _columns(["Covariate", "Use by rows", "5%", "95%", "Inclusion", "5%", "95%", "R-hat"], cells, width)


def _parameter_row(row: pd.Series) -> list[str]:
    if np.isnan(row["sd"]):
        return [f"{row['mean']:.4g}", "constant"] + [""] * (len(COLUMNS) - 2)
    numbers = [rounded(row[name], row["mcse"]) for name in ("mean", "sd", "q5", "q95")]
    sizes = ["" if np.isnan(row[name]) else f"{row[name]:.0f}" for name in ("ess", "ess_tail")]
    error = "" if np.isnan(row["mcse"]) else rounded(row["mcse"], row["mcse"])
    return [*numbers, *sizes, format_rhat(row["rhat"]), error]


def _count_table(fit: MCMCResult, width: int) -> Table:
    values, counts = np.unique(fit.draws["n_clusters"], return_counts=True)
    share = counts / counts.sum()
    shown = np.sort(np.argsort(-share, kind="stable")[:SHOWN])
    shown = shown[share[shown] >= 0.005]
    headers = [str(value) for value in values[shown]]
    cells = [f"{p:.2f}" for p in share[shown]]
    if (other := 1 - share[shown].sum()) >= 0.005:
        headers, cells = [*headers, "other"], [*cells, f"{other:.2f}"]
    first = "Number of clusters"
    widths = [len(first)] + [max(5, len(text)) for text in headers]
    return Table([["Probability", *cells]], widths, "l" + "r" * len(cells), headers=[first, *headers], total=width, colsep="  ")


def _cluster_tables(found: Clusters, width: int, stability: bool = True) -> list[Table]:
    """One table: a row for each cluster, or where columns would not fit a row for each parameter.

    Of a single partition stability and purity say nothing.
    """
    labels = [str(label) for label in found.label[:SHOWN]]
    rest = found.size[SHOWN:]
    first = {"Cluster": labels, "Size": [f"{size:.10g}" for size in found.size[:SHOWN]]}
    if stability:
        first |= {"Stability": _shares(found.stability[:SHOWN]), "Purity": _shares(found.purity[:SHOWN])}
    own = {column.name: _estimates(column) for column in found.columns}
    if _wide(first | own) > width:
        return [_turned(first, own, found, width)]
    if len(rest):
        more = [f"others ({len(rest)})", f"{rest.sum():.10g}"]
        if stability:
            paired = np.nan_to_num(found.stability[SHOWN:]) * (rest > 1)
            pairs = rest * (rest - 1.0)
            of_pairs = (paired * pairs).sum() / pairs.sum() if pairs.sum() else np.nan
            more += _shares([of_pairs, np.average(found.purity[SHOWN:], weights=rest)])
        for texts, text in zip(first.values(), more, strict=True):
            texts.append(text)
        for texts in own.values():
            texts.append("")
    panel = first | own
    return [_columns(list(panel), zip(*panel.values(), strict=True), width)]


def _turned(first: dict[str, list[str]], own: dict[str, list[str]], found: Clusters, width: int) -> Table:
    """Parameters in rows, and as many of the largest clusters in columns as fit; without standard deviations where all would not."""
    rows = {name: texts for name, texts in first.items() if name != "Cluster"} | own
    plain = {column.name: [text.split(" ± ")[0] for text in own[column.name]] for column in found.columns}
    for shown in (rows, rows | plain):
        wide = [max(len(first["Cluster"][k]), *(len(texts[k]) for texts in shown.values())) + 2 for k in range(len(first["Cluster"]))]
        fitting = int((max(map(len, shown)) + np.cumsum(wide) <= width).sum())
        if fitting == len(wide):
            break
    fitting = max(fitting, 1)
    cells = [[name, *texts[:fitting]] for name, texts in shown.items()]
    left = len(found.label) - fitting
    if left:
        cells = [[*row, ""] for row in cells]
        cells[0][-1] = f"{found.size[fitting:].sum():.10g}"
    headers = ["Cluster", *first["Cluster"][:fitting], *([f"others ({left})"] if left else [])]
    if left and _wide({str(j): [header, *(row[j] for row in cells)] for j, header in enumerate(headers)}) > width and fitting > 1:
        cells, headers = [[*row[: fitting], row[-1]] for row in cells], [*headers[:fitting], f"others ({left + 1})"]
        cells[0][-1] = f"{found.size[fitting - 1 :].sum():.10g}"
    return _columns(headers, cells, width)


def _word_tables(found: Clusters, width: int) -> list[Table]:
    """The largest shares of each cluster, one cluster a row."""
    labels = [str(label) for label in found.label[:SHOWN]]
    return [
        Table(
            [[label, ", ".join(f"{word} {share:.2g}" for word, share in top)] for label, top in zip(labels, words.top, strict=False)],
            [len("Cluster"), width - len("Cluster") - 2], "ll", headers=["Cluster", words.name], colsep="  ", wrap=True,
        )
        for words in found.words
    ]


def _wide(panel: dict[str, list[str]]) -> int:
    """Characters of a row."""
    return sum(max(len(name), *map(len, texts)) + 2 for name, texts in panel.items()) - 2


def _shares(values: np.ndarray | list[float]) -> list[str]:
    return ["" if np.isnan(value) else f"{value:.2f}" for value in values]


def _estimates(column: Column) -> list[str]:
    """Values with their standard deviations; nothing where a moment does not exist."""
    texts = []
    for value, sd in zip(column.value[:SHOWN], column.sd[:SHOWN], strict=True):
        text = "" if np.isnan(value) else rounded(value, sd)
        texts.append(text if np.isnan(sd) else f"{text} ± {rounded(sd, sd)}")
    return texts


# ------------------------------------------------------------------------------------------------- the numbers

def rounded(value: float, error: float) -> str:
    """A number with as many decimals as two significant digits of its error have; with four significant digits where that is NaN or 0.

    Examples
    --------
    >>> rounded(2.71828, 0.0123), rounded(-1234.56, 6.7), rounded(12345.6, 230.0), rounded(0.5, np.nan)
    ('2.718', '-1234.6', '12350', '0.5')
    """
    if not (np.isfinite(error) and error > 0):
        return f"{value:.4g}"
    decimals = 1 - math.floor(math.log10(error))
    if decimals > 6 or abs(value) >= 1e8:
        return f"{value:.3e}"
    return f"{round(float(value), decimals) + 0.0:.{max(decimals, 0)}f}"  # no sign of a zero
