"""Length of chains: a number of draws, or until the draws are worth as many independent ones as are wanted.

By itself a run takes draws in rounds.  After each it looks at the effective sample sizes and R-hat of what is reported: of numbers, and
where these are enough of what takes longer, the curves of a density regression or the density of a mixture.  When there is no room for
more draws every second one goes, and from then on twice as many iterations leave one.  What is kept after D draws and k halvings is to the
bit what `draws=D, thin=2**k` keeps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nrmmix.common import machine
from nrmmix.common.messages import count
from nrmmix.common.warnings import warn
from nrmmix.inference.mcmc.store import Store
from nrmmix.model.specification import Specification
from nrmmix.posterior import diagnostics
from nrmmix.posterior.convergence import ESS_GOOD, RHAT_GOOD, smallest_ess
from nrmmix.posterior.draws import Draws, Posterior, not_kept

AUTO = "auto"
MAX_DRAWS, MIN_DRAWS = 1000, 100  # draws of each chain
BYTES = 2e9  # of draws of all chains, beyond which fewer than MAX_DRAWS are kept
SECONDS = 120.0  # the limit of time where none is given
OF_TUNING = 1 / 3  # share of it that tuning may take
SOONEST, LATEST = 0.6, 2.0  # share of the iterations that draws seem to need, and times those done, after which curves are looked at again
QUARTERS = 4  # of what is kept at most, of which two are left after a halving; a round of draws is half of one


def checked(draws: Any) -> int | str:
    """A number of draws, or "auto"."""
    if isinstance(draws, str) and draws == AUTO:
        return AUTO
    if isinstance(draws, str):
        raise ValueError(f'draws must be an integer of at least 1 or "auto", not {draws!r}.')
    try:
        return count("draws", draws, 1)
    except ValueError as error:
        raise ValueError(f'{str(error)[:-1]}; or give "auto", as many as are enough.') from None


def most_draws(store: Store) -> int:
    """Draws of each chain that are kept at most, a multiple of QUARTERS; fewer where they take much memory, and said where it is short."""
    each = max(store.bytes_each, 1)
    wanted, room = min(MAX_DRAWS, max(BYTES / each, MIN_DRAWS)), machine.SHARE * machine.available() / (2 * each)  # halving takes a copy
    if room < QUARTERS:
        raise ValueError(
            f"{QUARTERS} draws of {store.chains} chains would take {machine.text(QUARTERS * each)}, and this machine has "
            f'{machine.text(machine.available())} free; keep less of each: store="partition" or "scalars".'
        )
    if room < wanted:
        warn(
            f"memory is short: of each chain at most {int(room)} draws are kept, spread over all iterations; "
            'store="partition" or "scalars" takes less.'
        )
    return QUARTERS * (int(min(wanted, room)) // QUARTERS)


def size_of_round(most: int) -> int:
    """Draws between two looks."""
    return most // (2 * QUARTERS if most % (2 * QUARTERS) == 0 else QUARTERS)


def next_round(draws: int, most: int) -> int:
    """Draws at which the next look is taken."""
    size = size_of_round(most)
    return min((draws // size + 1) * size, most)


@dataclass(frozen=True)
class Look:
    """Worth of the draws at one look."""

    ess: float = 0.0  # the smallest; 0 where it cannot be told
    rhat: float = math.inf  # the largest
    varied: bool = True  # whether anything has
    is_costly: bool = False  # whether curves or densities were looked at

    @property
    def is_enough(self) -> bool:
        return self.ess >= ESS_GOOD and self.rhat <= RHAT_GOOD

    @property
    def growth(self) -> float:
        """Factor of the iterations until the next look at curves or densities, which costs as much as thousands of sweeps.

        Effective draws grow, and R-hat less 1 falls, about in proportion to iterations.
        """
        if self.ess == 0.0:
            return 1.0
        return min(max(SOONEST * max(ESS_GOOD / self.ess, (self.rhat - 1.0) / (RHAT_GOOD - 1.0)), 1.0), LATEST)

    def __str__(self) -> str:
        if self.ess == 0.0:
            return ""
        return f", ESS {self.ess:.0f} of {ESS_GOOD}" + (f", R-hat {self.rhat:.3f} of {RHAT_GOOD}" if math.isfinite(self.rhat) else "")


def look(model: Specification, values: dict[str, np.ndarray], seed: int) -> Look:
    """At the hyperparameters, the number of clusters and the log joint; if these suffice, at what the fit says of the responses."""
    found = _worth(diagnostics.table({name: one for name, one in values.items() if one.ndim == 2}))
    if not found.is_enough or model.frame.is_sparse or not_kept(model, values):
        return found
    from nrmmix.posterior.curves import response_diagnostics

    of_responses = _worth(response_diagnostics(Posterior(model, Draws({name: one[:] for name, one in values.items()}), seed)))
    if not of_responses.varied:
        return replace(found, is_costly=True)
    return Look(min(found.ess, of_responses.ess), max(found.rhat, of_responses.rhat), is_costly=True)


def _worth(quantities: Any) -> Look:
    varied = quantities.dropna(subset=["ess"])
    if varied.empty:
        return Look(varied=False)
    return Look(float(smallest_ess(varied).min()), float(varied["rhat"].max()))
