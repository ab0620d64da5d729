"""Proposals of a climb beyond its steps: merges, deletions and births, and what a sample of the rows proposes.

Of rows in memory all are tried once the climb has come to rest.  Of others a sample is fitted from where the climb stands, its codes
searched with r and v optimised out, components joined, left out and born; what it ends with, scaled up to all rows, is
a proposal, which all rows are then visited at.  Whatever is tried is kept only where the bound of all rows is higher with it.
"""

from __future__ import annotations

from dataclasses import dataclass

from nrmmix.inference.variational_regression.births import born
from nrmmix.inference.variational_regression.climb import Climb, Made, Pass
from nrmmix.inference.variational_regression.memory import Memory, sample_of
from nrmmix.inference.variational_regression.merges import delete, merge

FROM_SAMPLE = 20_000  # rows of a proposal
OF_SAMPLE, AFTER_MOVES = 7, 4  # passes over them
EVERY, FIRST = 3, 3  # passes over all rows from one proposal to the next, and before the first
VISITS = 3  # passes in which a proposal must win
TRIALS = 7  # passes in which births must
ENOUGH = 1e-3  # nats a row that a proposal must gain for another one to follow
MAX_PROPOSALS = 8  # proposals


NOTHING = Made()


@dataclass(frozen=True)
class Proposals:
    """Proposals that a climb is to make."""

    births: bool = False
    merges: bool = False
    from_samples: bool = False

    def are_left(self, passes: list[Pass], n: float) -> bool:
        """Whether another one is worth while after such passes over n rows."""
        tried = [k for k, one in enumerate(passes) if one.tried]
        if not tried:
            return self.births or self.merges or self.from_samples
        last = tried[-1]
        if len(tried) >= MAX_PROPOSALS or not passes[last].kept:
            return False
        return not self.from_samples or last == 0 or passes[last].bound - passes[last - 1].bound >= ENOUGH * n

    def are_due(self, passes: list[Pass], n: float, at_rest: bool) -> bool:
        """Whether one is to be made after these passes, the last of which has ended `at_rest`."""
        number = len(passes) + 1
        in_turn = self.from_samples and number >= FIRST and number % EVERY == 0
        return (at_rest or in_turn) and self.are_left(passes, n)

    def make(self, climb: Climb) -> Made:
        """Make the proposals of a climb, and return what becomes of it."""
        if self.from_samples:
            return self._from_sample(climb)
        merged = merge(climb) + delete(climb) if self.merges else 0
        found, count = born(climb) if self.births else (climb.factors, 0)
        if count and not climb.against(found, TRIALS):
            count = 0
        return Made(0, merged, count, 1, int(merged + count > 0))

    def _from_sample(self, climb: Climb) -> Made:
        some = sample_of(climb.memory.rows, FROM_SAMPLE, climb.rng)
        share = some.size / climb.memory.rows.size
        trial = Climb(Memory(some), climb.factors.times(share), climb.rng, search=True)
        trial.run(OF_SAMPLE, 0.0)
        own = NOTHING
        if self.births or self.merges:
            own = Proposals(self.births, self.merges).make(trial)
            if own.kept:
                trial.run(len(trial.passes) + AFTER_MOVES, 0.0)
        moved = int((trial.factors.codes != climb.factors.codes).sum())
        if not climb.against(trial.factors.times(1.0 / share), VISITS):
            return Made(tried=1)
        return Made(moved, own.merged, own.born, 1, 1)
