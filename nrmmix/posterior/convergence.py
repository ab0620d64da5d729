"""Whether the chains of a fit can be trusted, in words, with what to do if not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nrmmix.common.messages import SHELL, duration
from nrmmix.common.warnings import warn

if TYPE_CHECKING:
    import pandas as pd

    from nrmmix.posterior.draws import Draws

# Chains agree below 1.01 with 400 effective draws (Vehtari et al. 2021), and cannot be trusted above 1.05 or with fewer than 100.
RHAT_GOOD, RHAT_BAD = 1.01, 1.05
ESS_GOOD, ESS_BAD = 400, 100
LARGEST_DRAWS = 10_000  # of a chain that a remedy asks for; beyond, it asks for thinning
DENSITY = "log density"  # how rows of the diagnostics of a density begin
WARN_FROM = 100  # draws a chain; nobody takes fewer for a result
ROWS_ALONE = 10  # rows, from which on it is strange that each is a cluster in every draw
ALONE = "Whether other chains would agree is not known: there is one; use chains=4."
TOGETHER = "All chains have started from one partition: leave init= out to see whether others come to the same."
ELSEWHERE = "Start elsewhere (init=), or with other moves (method=)."


class ConvergenceWarning(UserWarning):
    """The chains of a fit disagree, or hold too few effective draws to be used.

    Given by `Model.fit` and `MCMCResult.extend` for runs of 100 or more draws a chain whose R-hat is above 1.05 or whose effective
    sample size is below 100 for some label-invariant quantity, or for some curve of a density regression; in which no move has changed
    the partitions of chains that differ or have never left a common start; or in which slice sampling has skipped more than a fifth of
    its calls.  `summary()` says the same of every run.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():  # where a script looks at the diagnostics itself
    ...     warnings.simplefilter("ignore", ConvergenceWarning)
    """


class Evidence(NamedTuple):
    """Evidence for a verdict on the chains of a run, beside the diagnostics of what was drawn."""

    n_chains: int
    n_draws: int  # of each chain
    tune: int
    thin: int
    interrupted: bool = False
    bias: str = ""  # what is known of the bias of moves that are not exact
    objection: str = ""  # what else speaks against the run
    seconds: float = 0.0  # of sampling
    by_itself: bool = False  # whether the run was to find its length itself
    limit: float = 0.0  # seconds of the time limit, where that has ended it
    one_start: bool = False  # whether the caller has had all chains start from the same partition

    @property
    def clean(self) -> bool:
        """Whether nothing but the diagnostics can speak against the run."""
        return not self.bias and not self.objection

    @property
    def has_ended_itself(self) -> bool:
        """Whether the run went on until what it looks at was worth enough."""
        return self.by_itself and not self.interrupted


def unmoved(draws: Draws, never: bool, one_start: bool, init_given: bool = False) -> str:
    """Say what speaks against partitions that no draw of any chain changes; empty if nothing does, or too few were drawn to tell.

    Where every chain has come to the same one they agree.  It says nothing that they do if no label has changed since the start (`never`)
    and all have started there (`one_start`), and partitions that differ from chain to chain are each where a chain is caught.  Nor does it
    if each row is alone and chains have not started from few clusters too, as they do unless their start is given (`init_given`).
    """
    labels = draws["labels"] if "labels" in draws else None
    if draws.n_draws < WARN_FROM or (labels is not None and (labels.shape[-1] == 1 or not (labels == labels[:, :1]).all())):
        return ""
    if labels is not None and not (labels[0, 0] == labels[:, 0]).all():
        return f"Do not trust the partition: chains keep different ones, and no move has changed them since tuning. {ELSEWHERE}"
    if labels is not None and init_given and labels.shape[-1] >= ROWS_ALONE and len(np.unique(labels[0, 0])) == labels.shape[-1]:
        return f"Do not trust the partition: each row is alone in every draw, and no chain has come from few clusters. {ELSEWHERE}"
    if never and one_start:
        return f"Do not trust the partition: all chains have started from it, and no move has changed it. {ELSEWHERE}"
    if draws.n_chains == 1 and labels is not None:
        return "Do not trust the partition: no move has changed it since tuning."
    return ""


def warn_unless_converged(
    evidence: Evidence, quantities: Callable[[], pd.DataFrame], curves: Callable[[], pd.DataFrame | None] = lambda: None
) -> None:
    """Give a `ConvergenceWarning` where the verdict on a run is that it cannot be trusted."""
    if evidence.n_draws < WARN_FROM:
        return
    table, of_curves = quantities(), curves()
    if evidence.objection or any(_suspect(one.dropna(subset=["ess"])).any() for one in (table, of_curves) if one is not None):
        warn(verdict(evidence, table, of_curves), ConvergenceWarning)


def converged(quantities: pd.DataFrame) -> bool:
    """Whether chains agree: of all that varied R-hat is at most 1.01, with 400 effective draws or more; False where it cannot be judged.

    `quantities` are diagnostics, as `fit.diagnostics()` gives them.
    """
    varied = quantities.dropna(subset=["ess"])
    return len(varied) > 0 and varied["rhat"].max() <= RHAT_GOOD and smallest_ess(varied).min() >= ESS_GOOD


def verdict(evidence: Evidence, quantities: pd.DataFrame, curves: pd.DataFrame | None = None) -> str:
    """Whether the chains can be trusted, and what to do if not, from `fit.evidence`, `fit.diagnostics()` and `fit.curve_diagnostics()`."""
    varied = quantities.dropna(subset=["ess"])
    alone = ALONE if evidence.n_chains == 1 else TOGETHER if evidence.one_start and not evidence.objection else ""
    if evidence.n_draws < 4:
        few = f"Convergence cannot be judged from {evidence.n_draws} draws a chain."
        return _joined(evidence.bias, few, _end(evidence), _remedy(evidence, 1.0))
    if varied.empty:
        judged, remedy = "Chains agree: nothing varied among the draws, and all chains have the same values.", ""
        if not _is_still(evidence, varied) or evidence.objection:
            judged = "Convergence cannot be judged: nothing varied among the draws."
            remedy = _remedy(evidence, 1.0) if evidence.n_draws < WARN_FROM and not evidence.objection else ""
        return _joined(evidence.bias, evidence.objection, judged, _end(evidence), remedy, alone)
    rhat, ess = varied["rhat"], smallest_ess(varied)
    bad = _suspect(varied)
    also = _of_curves(curves)
    of_curves = None if curves is None else curves.dropna(subset=["ess"])
    worth = ess.min() if of_curves is None else min(ess.min(), smallest_ess(of_curves).min())
    if bad.any():
        worst = rhat[bad].idxmax() if (rhat > RHAT_BAD).any() else ess.idxmin()
        others = [name for name in varied.index[bad] if name != worst]
        more = f" Nor {', '.join(others)}." if others else ""
        text = f"Do not trust {worst}: R-hat {format_rhat(rhat[worst])}, effective sample size {math.floor(ess[worst])}.{more}"
    else:
        numbers = f"largest R-hat {format_rhat(rhat.max())}, smallest effective sample size {math.floor(ess.min())}."
        text = f"Chains {'agree' if converged(quantities) else 'nearly agree'}: {numbers}"
    if also:
        text = f"Clusters: {text[0].lower()}{text[1:]}"
    good_enough = not bad.any() and not (also and _suspect(of_curves).any())
    agreed = converged(quantities) and (not also or converged(of_curves))
    if evidence.objection or agreed or (good_enough and evidence.has_ended_itself):
        remedy = ""  # an objection has its own, and a run that has found its length itself need not go on
    else:
        remedy = _remedy(evidence, max(4.0 if bad.any() else 2.0, ESS_GOOD / worth))
    return _joined(evidence.bias, evidence.objection, also, text, _end(evidence), remedy, alone)


def agreed(evidence: Evidence, quantities: pd.DataFrame, curves: pd.DataFrame | None = None) -> bool:
    """Whether chains agree and nothing else speaks against the run; those agree too of which nothing varies, and all have the same values.

    Where there are diagnostics of curves these must agree as well.
    """
    varied = quantities.dropna(subset=["ess"])
    drawn = None if curves is None else curves.dropna(subset=["ess"])
    return evidence.clean and (_is_still(evidence, varied) or converged(quantities)) and (drawn is None or drawn.empty or converged(drawn))


def _is_still(evidence: Evidence, varied: pd.DataFrame) -> bool:
    """Whether nothing varies, in draws enough to say so, and there are chains that could have differed."""
    return varied.empty and evidence.n_chains > 1 and evidence.n_draws >= WARN_FROM


def _end(evidence: Evidence) -> str:
    """Say what ended a run before its end."""
    if not evidence.interrupted:
        return ""
    if not evidence.limit:
        return "Sampling was stopped before the end."
    goal = f", an effective sample size of {ESS_GOOD} and R-hat {RHAT_GOOD}" if evidence.by_itself else ""
    limit = duration(evidence.limit) if evidence.limit >= 1 else f"{evidence.limit:g} s"
    return f"The time limit of {limit} ended sampling before the goal{goal}."


def _of_curves(curves: pd.DataFrame | None) -> str:
    """Say how the chains agree on the curves of a density regression, or on the density of a mixture."""
    varied = None if curves is None else curves.dropna(subset=["ess"])
    if curves is None or varied is None or varied.empty:
        return ""
    what = "Density" if varied.index[0].startswith(DENSITY) else "Curves"
    ess, bad = smallest_ess(varied), _suspect(varied)
    numbers = f"largest R-hat {format_rhat(varied['rhat'].max())}, smallest effective sample size {math.floor(ess.min())}"
    if bad.any():
        worst = varied["rhat"].idxmax() if (varied["rhat"] > RHAT_BAD).any() else ess.idxmin()
        return f"{what}: chains differ, most of all in {worst}: {numbers}."
    of = f"at {len(curves)} rows" if what == "Density" else "of means and quartiles"
    return f"{what}: chains {'agree' if converged(varied) else 'nearly agree'}: {numbers} {of}."


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _remedy(evidence: Evidence, factor: float) -> str:
    """Return what a user can paste for `factor` times as many iterations: a call, or in the shell a command."""
    fit, done = SHELL.get(), evidence.n_draws * evidence.thin
    longer = evidence.seconds * (factor - 1) * done / max(done + evidence.tune, 1)  # of sampling
    if evidence.by_itself:
        limit = _round_up(max(2 * longer, 10))
        if fit == "-":
            return f"Run longer: --time-limit {_round_up(evidence.seconds + limit)}, about {duration(evidence.seconds + longer)}."
        go_on = f"nrmmix resume {fit} --draws auto --time-limit {limit}" if fit else f'fit = fit.extend("auto", time_limit={limit})'
        return f"Go on: {go_on}, about {duration(longer)}."
    iterations = max(_round_up(max(done * factor, 1)), 1000)
    thin = math.ceil(iterations / LARGEST_DRAWS)
    arguments = {"tune": _round_up(max(evidence.tune, 250) * 2.0), "draws": _round_up(iterations / thin)}
    arguments |= {"thin": thin} if thin > 1 else {}
    text = " ".join(f"--{name} {value}" for name, value in arguments.items()) if fit else ", ".join(
        f"{name}={value}" for name, value in arguments.items()
    )
    if evidence.n_draws < 4 or evidence.seconds == 0.0 or fit == "-":
        return f"Run longer: {text}."
    more = _round_up(max(evidence.n_draws * (factor - 1), 1))
    go_on = f"nrmmix resume {fit} --draws {more}" if fit else f"fit = fit.extend({more})"
    return f"Run longer: {text}; or go on: {go_on}, about {duration(longer)}."


def _round_up(x: float) -> int:
    step = 10 ** math.floor(math.log10(x))
    return math.ceil(x / step) * step


def _suspect(varied: pd.DataFrame) -> pd.Series:
    return (varied["rhat"] > RHAT_BAD) | (smallest_ess(varied) < ESS_BAD)


def smallest_ess(quantities: pd.DataFrame) -> pd.Series:
    """Effective draws of each quantity, in the bulk or the tails, whichever are fewer."""
    return quantities[["ess", "ess_tail"]].min(axis=1)


def format_rhat(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3f}" if value < 10 else "> 10"
