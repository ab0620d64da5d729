"""New rows for a variational fit of a density regression: those before keep their r and v, and are remembered by their sums alone.

That is coordinate ascent on the bound of all rows seen, in which the factors of the earlier rows stay as they are, but for one factor of
all v.  H and G of the earlier rows say what another code would gain; G of a covariate is that of the codes that the component had in the
others when these rows were visited.  So a component that gets another code for one covariate keeps those of all others from then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nrmmix.inference.executors import OneProcess, executor_of
from nrmmix.inference.variational.options import Variational
from nrmmix.inference.variational_regression.climb import Climb, Pass
from nrmmix.inference.variational_regression.memory import BinnedRows, Memory, Seen, StreamedBinnedRows, in_order
from nrmmix.posterior.kernel_factors import KernelFactors

SAME = 1e-9  # relative difference of rates that are alike


class Continued(Memory):
    """A memory whose last share is that of earlier rows, which are not visited."""

    def __init__(
        self, rows: BinnedRows | StreamedBinnedRows, batches: int, round_size: int, executor: OneProcess, earlier: Seen
    ):
        super().__init__(rows, batches, round_size, executor)
        self.seen.append(earlier)


class Further(Climb):
    """A climb in which codes move as far as the sums over the earlier rows say what that gains."""

    memory: Continued

    def __init__(self, memory: Continued, start: KernelFactors, rng: np.random.Generator):
        super().__init__(memory, start, rng, search=False)
        earlier = memory.seen[-1]
        assert earlier is not None
        rates = (earlier.G * np.exp(start.log_k)).sum(axis=1)  # those by an old code are others
        self.may_move = np.abs(rates - start.A) <= SAME * start.A  # (q, M)

    def begin(self) -> None:
        super().begin()
        self.changed = self.may_move.argmax(axis=0)
        self.refresh()

    def allowed(self, gains: np.ndarray) -> np.ndarray:
        return np.where(self.may_move, gains, -np.inf)

    def move_codes(self) -> None:
        before = self.factors.codes
        super().move_codes()
        moved = np.flatnonzero((self.factors.codes != before).any(axis=1))
        self.may_move[:, moved] = False
        self.may_move[self.changed[moved], moved] = True


class Start(NamedTuple):
    """One start of a fit of all rows seen."""

    factors: KernelFactors
    bound: float
    passes: list[Pass]  # over the new rows
    has_converged: bool
    sums: Seen


def updated(
    rows: BinnedRows | StreamedBinnedRows, method: Variational, fits: Sequence[KernelFactors], sums: Sequence[Seen],
    seed: np.random.SeedSequence, executor: Any = None,
) -> list[Start]:
    """The starts with new rows; `sums` are those over the earlier rows that the factors `fits` are of."""
    batches, round_size = method.division_of_new(rows.n)
    found = []
    with executor_of(executor).open() as run:
        for start, earlier, own in zip(fits, sums, seed.spawn(len(fits)), strict=True):
            climb = Further(Continued(rows, batches, round_size, run, earlier), start, np.random.default_rng(own))
            climb.run(method.passes, method.tolerance(is_regression=True))
            total = in_order(climb.total, np.argsort(-climb.factors.N, kind="stable"))
            found.append(Start(climb.factors.largest_first(), climb.bound(), climb.passes, climb.has_converged, total))
    return found
