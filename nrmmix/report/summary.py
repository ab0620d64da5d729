"""Summary tables of a fit, with a verdict on convergence in words.

A fit does not need statsmodels: this module is imported when a summary is asked for, and of statsmodels only `iolib`.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from nrmmix.diagnostics import table as table_of
from nrmmix.priors import DirichletProcess
from nrmmix.report.tables import EscapedSummary, table

if TYPE_CHECKING:
    import pandas as pd
    from statsmodels.iolib.summary import Summary
    from statsmodels.iolib.table import SimpleTable

    from nrmmix.results import MCMCResult

WIDTH = 96  # characters; more only where names of quantities are long
SHOWN_CLUSTERS = 10  # values of the number of clusters with a column of their own

# Chains agree below 1.01 with 400 effective draws (Vehtari et al. 2021), and cannot be trusted above 1.05 or with fewer than 100.
RHAT_GOOD, RHAT_BAD = 1.01, 1.05
ESS_GOOD, ESS_BAD = 400, 100
LARGEST_DRAWS = 10_000  # of a chain that a remedy asks for; beyond, it asks for thinning

COLUMNS = {
    "mean": "mean", "sd": "sd", "q5": "5%", "q95": "95%", "ess": "ESS bulk", "ess_tail": "ESS tail", "rhat": "R-hat",
    "mcse": "MCSE",
}


def summary(fit: MCMCResult) -> Summary:
    """Tables of the model, the hyperparameters and the number of clusters, and a verdict on convergence.

    Numbers are shown to two significant digits of their Monte Carlo standard error.

    Parameters
    ----------
    fit : MCMCResult

    Returns
    -------
    statsmodels.iolib.summary.Summary
        With `as_text()`, `as_html()`, `as_latex()` and `as_csv()`.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
    >>> len(summary(fit).tables)
    4
    """
    quantities = _quantities(fit)
    width = max(WIDTH, 9 * len(COLUMNS) + max(map(len, quantities.index)))
    tables = [
        _model_table(fit, width), _run_table(fit, width), _parameter_table(quantities, width), _cluster_table(fit, width),
    ]
    return EscapedSummary(tables, verdict(fit, quantities), width)


def _quantities(fit: MCMCResult) -> pd.DataFrame:
    """Diagnostics of what is reported."""
    values = {name: fit.draws[name] for name in fit.scalars}
    if isinstance(fit.model.prior, DirichletProcess):
        del values["sigma"]  # not a hyperparameter of this prior
    if "u" in values:
        values["log(u)"] = np.log(values.pop("u"))  # the tail of u is so long that its mean says nothing
    return table_of(values)


# ------------------------------------------------------------------------------------------------ the verdict


def verdict(fit: MCMCResult, quantities: pd.DataFrame) -> str:
    """Whether the chains can be trusted, and what to do if not.

    Parameters
    ----------
    fit : MCMCResult
    quantities : DataFrame
        Diagnostics, as `fit.diagnostics()` gives them.

    Returns
    -------
    str

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=3, tune=0, chains=2, rng=1)
    >>> verdict(fit, fit.diagnostics())
    'Convergence cannot be judged from 3 draws a chain. Run longer: tune=500, draws=1000.'
    """
    varied = quantities.dropna(subset=["ess"])
    if fit.draws.n_draws < 4:
        return f"Convergence cannot be judged from {fit.draws.n_draws} draws a chain. {_remedy(fit, 1.0)}"
    if varied.empty:
        return f"Convergence cannot be judged: nothing varied among the draws. {_remedy(fit, 1.0)}"
    rhat, ess = varied["rhat"], varied[["ess", "ess_tail"]].min(axis=1)
    bad = (rhat > RHAT_BAD) | (ess < ESS_BAD)
    factor = ESS_GOOD / ess.min()
    if bad.any():
        worst = rhat[bad].idxmax() if (rhat > RHAT_BAD).any() else ess.idxmin()
        others = [name for name in varied.index[bad] if name != worst]
        also = f" Nor {', '.join(others)}." if others else ""
        text = (
            f"Do not trust {worst}: R-hat {format_rhat(rhat[worst])}, effective sample size {ess[worst]:.0f}.{also} "
            + _remedy(fit, max(4.0, factor))
        )
    else:
        numbers = f"largest R-hat {format_rhat(rhat.max())}, smallest effective sample size {ess.min():.0f}."
        if rhat.max() > RHAT_GOOD or ess.min() < ESS_GOOD:
            text = f"Chains nearly agree: {numbers} {_remedy(fit, max(2.0, factor))}"
        else:
            text = f"Chains agree: {numbers}"
    if fit.draws.n_chains == 1:
        text += " Whether other chains would agree is not known: there is one; use chains=4."
    if fit.interrupted:
        text += " Sampling was stopped before the end."
    return text


def _remedy(fit: MCMCResult, factor: float) -> str:
    """Run arguments for `factor` times as many iterations, at least the usual numbers, rounded up."""
    iterations = max(_round_up(fit.draws.n_draws * fit.thin * factor), 1000)
    thin = math.ceil(iterations / LARGEST_DRAWS)
    thinned = f", thin={thin}" if thin > 1 else ""
    return f"Run longer: tune={_round_up(max(fit.tune, 250) * 2.0)}, draws={_round_up(iterations / thin)}{thinned}."


def _round_up(x: float) -> int:
    step = 10 ** math.floor(math.log10(x))
    return math.ceil(x / step) * step


# -------------------------------------------------------------------------------------------------- the tables


def _model_table(fit: MCMCResult, width: int) -> SimpleTable:
    model, frame = fit.model, fit.model.frame
    rows = [
        ("Formula:", model.formula or "(every column is a response)"),
        ("Responses:", ", ".join(frame.response_names)),
        ("Covariates:", ", ".join(frame.covariate_names) or "none"),
        ("Prior:", str(model.prior)),
        ("Family:", model.family.describe()[0][1].split(":")[0]),
    ]
    if model.kernel is not None:
        rows.append(("Kernel:", str(model.kernel)))
    rows.append(("Seed:", str(fit.seed)))
    cells = [
        [key if number == 0 else "", line]
        for key, text in rows
        for number, line in enumerate(textwrap.wrap(text, width - 16))
    ]
    title = "Kernel-NRM density regression" if model.is_regression else "NRM mixture"
    return table(cells, [13, width - 16], "ll", title=title, colsep="   ")


def _run_table(fit: MCMCResult, width: int) -> SimpleTable:
    used, rows = fit.model.n_obs, len(fit.model.frame.used)
    cells: list[list[object]] = [
        ["Observations:", used, "Method:", fit.method, "Chains:", fit.draws.n_chains],
        ["Dropped rows:", rows - used, "Tune:", fit.tune, "Draws a chain:", fit.draws.n_draws],
        ["Interrupted:", "yes" if fit.interrupted else "no", "Thin:", fit.thin, "Seconds:", f"{fit.seconds:.2f}"],
    ]
    keys = (13, 7, 14)
    value = (width - sum(keys) - 5 * 3) // 3
    widths = [keys[0], value, keys[1], value, keys[2], width - sum(keys) - 5 * 3 - 2 * value]
    return table(cells, widths, "lrlrlr", colsep="   ")


def _parameter_table(quantities: pd.DataFrame, width: int) -> SimpleTable:
    cells = [[name, *_parameter_row(row)] for name, row in quantities.iterrows()]
    rest = (width - max(map(len, quantities.index))) // len(COLUMNS) - 1
    widths = [width - (rest + 1) * len(COLUMNS)] + [rest] * len(COLUMNS)
    return table(cells, widths, "l" + "r" * len(COLUMNS), headers=["", *COLUMNS.values()])


def _parameter_row(row: pd.Series) -> list[str]:
    if np.isnan(row["sd"]):
        return [f"{row['mean']:.4g}", "constant"] + [""] * (len(COLUMNS) - 2)
    numbers = [rounded(row[name], row["mcse"]) for name in ("mean", "sd", "q5", "q95")]
    sizes = ["" if np.isnan(row[name]) else f"{row[name]:.0f}" for name in ("ess", "ess_tail")]
    error = "" if np.isnan(row["mcse"]) else rounded(row["mcse"], row["mcse"])
    return [*numbers, *sizes, format_rhat(row["rhat"]), error]


def _cluster_table(fit: MCMCResult, width: int) -> SimpleTable:
    values, counts = np.unique(fit.draws["n_clusters"], return_counts=True)
    share = counts / counts.sum()
    shown = np.sort(np.argsort(-share, kind="stable")[:SHOWN_CLUSTERS])
    shown = shown[share[shown] >= 0.005]
    headers = [str(value) for value in values[shown]]
    cells = [f"{p:.2f}" for p in share[shown]]
    if (other := 1 - share[shown].sum()) >= 0.005:
        headers, cells = [*headers, "other"], [*cells, f"{other:.2f}"]
    first = "Number of clusters"
    widths = [len(first)] + [max(5, len(text)) for text in headers]
    return table(
        [["Probability", *cells]], widths, "l" + "r" * len(cells), headers=[first, *headers], total=width, colsep="  "
    )


# ------------------------------------------------------------------------------------------------- the numbers


def rounded(value: float, error: float) -> str:
    """A number with as many decimals as two significant digits of its Monte Carlo error have.

    Parameters
    ----------
    value, error : float
        Where the error is NaN or 0, four significant digits are shown.

    Returns
    -------
    str

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
    return f"{round(float(value), decimals):.{max(decimals, 0)}f}"


def format_rhat(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3f}" if value < 10 else "> 10"
