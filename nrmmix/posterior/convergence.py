"""Whether the chains of a fit can be trusted, in words, with what to do if not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nrmmix.common.warnings import warn

if TYPE_CHECKING:
    import pandas as pd

    from nrmmix.results.mcmc import MCMCResult

# Chains agree below 1.01 with 400 effective draws (Vehtari et al. 2021), and cannot be trusted above 1.05 or with fewer than 100.
RHAT_GOOD, RHAT_BAD = 1.01, 1.05
ESS_GOOD, ESS_BAD = 400, 100
SKIPPED_BAD = 0.2  # share of the calls of slice sampling
LARGEST_DRAWS = 10_000  # of a chain that a remedy asks for; beyond, it asks for thinning
WARN_FROM = 100  # draws a chain; nobody takes fewer for a result


class ConvergenceWarning(UserWarning):
    """The chains of a fit disagree, or hold too few effective draws to be used.

    Given by `Model.fit` and `MCMCResult.extend` for runs of 100 or more draws a chain whose R-hat is above 1.05 or whose effective
    sample size is below 100 for some label-invariant quantity, in which no move has changed the partition, or in which slice sampling has
    skipped more than a fifth of its calls.  `summary()` says the same of every run.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():  # where a script looks at the diagnostics itself
    ...     warnings.simplefilter("ignore", ConvergenceWarning)
    """


def inexact(fit: MCMCResult) -> str:
    """What is known of the bias of moves that do not leave the posterior invariant; empty if all do."""
    return " ".join(f"Not exact: {move.bias}." for move in fit.cycle.moves if not move.exact)


def warn_unless_converged(fit: MCMCResult) -> None:
    """Give a `ConvergenceWarning` where the verdict on a fit is that it cannot be trusted."""
    if fit.draws.n_draws < WARN_FROM:
        return
    quantities = fit.diagnostics()
    if _suspect(quantities.dropna(subset=["ess"])).any() or trouble(fit):
        warn(verdict(fit, quantities), ConvergenceWarning)


def trouble(fit: MCMCResult) -> str:
    """What else speaks against a fit: that its partitions never change, or that slice sampling skipped much; empty if nothing."""
    from nrmmix.inference.mcmc.proposals import rows

    labels = fit.draws["labels"]
    if fit.standings and fit.model.n_obs > 1 and fit.draws.n_draws >= WARN_FROM and (labels == labels[:, :1]).all():
        return "Do not trust the partition: no move has changed it since tuning. Start elsewhere (init=), or with other moves (method=)."
    skipped = rows(fit)["mean"].filter(like="slice skipped").max()
    if skipped > SKIPPED_BAD:
        return (
            f"Slice sampling has skipped {skipped:.0%} of its calls, as too many atoms were needed: give nm.Slice(max_atoms=) more than "
            "it has, or take method='gibbs'."
        )
    return ""


def converged(quantities: pd.DataFrame) -> bool:
    """Whether chains agree: of all that varied R-hat is at most 1.01, with 400 effective draws or more.

    Parameters
    ----------
    quantities : DataFrame
        Diagnostics, as `fit.diagnostics()` gives them.

    Returns
    -------
    bool
        False where it cannot be judged.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=3, tune=0, chains=2, rng=1)
    >>> converged(fit.diagnostics())
    False
    """
    varied = quantities.dropna(subset=["ess"])
    return len(varied) > 0 and varied["rhat"].max() <= RHAT_GOOD and smallest_ess(varied).min() >= ESS_GOOD


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
        return _joined(inexact(fit), f"Convergence cannot be judged from {fit.draws.n_draws} draws a chain. {_remedy(fit, 1.0)}")
    if varied.empty:
        return _joined(inexact(fit), trouble(fit), f"Convergence cannot be judged: nothing varied among the draws. {_remedy(fit, 1.0)}")
    rhat, ess = varied["rhat"], smallest_ess(varied)
    bad = _suspect(varied)
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
        if converged(quantities):
            text = f"Chains agree: {numbers}"
        else:
            text = f"Chains nearly agree: {numbers} {_remedy(fit, max(2.0, factor))}"
    if fit.draws.n_chains == 1:
        text += " Whether other chains would agree is not known: there is one; use chains=4."
    text = _joined(inexact(fit), trouble(fit), text)
    if fit.interrupted:
        text += " Sampling was stopped before the end."
    return text


def _joined(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _remedy(fit: MCMCResult, factor: float) -> str:
    """Run arguments for `factor` times as many iterations, at least the usual numbers, rounded up."""
    iterations = max(_round_up(fit.draws.n_draws * fit.thin * factor), 1000)
    thin = math.ceil(iterations / LARGEST_DRAWS)
    thinned = f", thin={thin}" if thin > 1 else ""
    return f"Run longer: tune={_round_up(max(fit.tune, 250) * 2.0)}, draws={_round_up(iterations / thin)}{thinned}."


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
