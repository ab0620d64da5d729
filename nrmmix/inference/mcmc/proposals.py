"""Outcomes of the proposals of moves: acceptance rates and log ratios, pooled over chains."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.inference.mcmc.moves.base import Move
from nrmmix.inference.mcmc.sampling import Run
from nrmmix.kernels.core import state as layout
from nrmmix.posterior.diagnostics import COLUMNS


def table(run: Run) -> pd.DataFrame:
    """Counts of every move since the end of tuning, pooled over chains.

    Returns
    -------
    DataFrame
        One row for each move and kind of proposal.  `move`, `kind` ("" where every label drawn is taken), `calls` in each iteration
        (mean over chains), `proposed` (labels of Gibbs and slice sampling, else proposals), `accepted` (share of them; of labels: that
        changed), `log_ratio` and `log_ratio_sd` (mean and standard deviation of the logarithms of Metropolis-Hastings ratios that were
        computed and are finite: most merges are refused before), and `skipped` (those of the calls that left the partition as it was:
        of slice sampling for want of atoms, of a permutation move because the old partition was outside the beam).

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method=[nm.SplitMerge(), nm.Gibbs()], draws=9, tune=9, rng=1)
    >>> fit.proposals()[["move", "kind"]].values.tolist()
    [['split_merge', 'split'], ['split_merge', 'merge'], ['gibbs', '']]
    """
    columns = ["move", "kind", "calls", "proposed", "accepted", "log_ratio", "log_ratio_sd", "skipped"]
    if not run.checkpoints:  # of a run that was put together, not sampled
        return pd.DataFrame(columns=columns)
    tally = np.sum([checkpoint.state["tally"] for checkpoint in run.checkpoints], axis=0)
    calls = np.mean([checkpoint.state["work"][:, layout.CALLS] for checkpoint in run.checkpoints], axis=0)
    rows: list[tuple[Any, ...]] = []
    for j, move in enumerate(run.cycle.moves):
        for k, kind in enumerate(move.kinds or ("",)):
            count = tally[j, k * layout.TALLY : (k + 1) * layout.TALLY]
            mean, sd = _moments(*count[[layout.FINITE_RATIOS, layout.LOG_RATIO, layout.LOG_RATIO_2]])
            proposed = int(count[layout.PROPOSED])
            share = count[layout.ACCEPTED] / proposed if proposed else math.nan
            rows.append((move.name, kind, calls[j], proposed, share, mean, sd, int(count[layout.SKIPPED])))
    return pd.DataFrame(rows, columns=columns)


def _moments(n: float, total: float, squares: float) -> tuple[float, float]:
    """Mean and standard deviation from sums."""
    if n == 0:
        return math.nan, math.nan
    mean = total / n
    return mean, math.sqrt(max(squares / n - mean * mean, 0.0) * n / (n - 1)) if n > 1 else math.nan


def rows(run: Run, n: int) -> pd.DataFrame:
    """Acceptance rates, log ratios and skipped calls, of `n` observations, as rows of `MCMCResult.diagnostics`: mean and sd, else NaN."""
    found: dict[str, tuple[float, float]] = {}
    for move, row in _by_move(run):
        if row.kind:
            found[_free(f"{row.kind} accepted", found)] = (row.accepted, math.nan)
            found[_free(f"{row.kind} log ratio", found)] = (row.log_ratio, row.log_ratio_sd)
        if row.skipped:
            found[_free(f"{row.move} skipped", found)] = (move.share_skipped(row.skipped, row.proposed, n), math.nan)
    out = pd.DataFrame(math.nan, index=list(found), columns=list(COLUMNS), dtype=np.float64)
    out[["mean", "sd"]] = np.array(list(found.values()), dtype=float).reshape(-1, 2)
    return out


def skip_warning(run: Run, n: int) -> str:
    """Say what moves object to in a run of which they have skipped too much; empty if nothing.  `n` observations."""
    said = (move.skip_warning(move.share_skipped(row.skipped, row.proposed, n)) for move, row in _by_move(run) if row.skipped)
    return " ".join(filter(None, said))


def _by_move(run: Run) -> Iterator[tuple[Move, Any]]:
    """The rows of the table, each with its move."""
    moves = [move for move in run.cycle.moves for _ in move.kinds or ("",)] if run.checkpoints else []
    return zip(moves, table(run).itertuples(), strict=True)


def _free(name: str, taken: dict[str, Any]) -> str:
    """A name for the row of a second move of the same kind."""
    return name if name not in taken else next(f"{name} ({k})" for k in range(2, len(taken) + 3) if f"{name} ({k})" not in taken)
