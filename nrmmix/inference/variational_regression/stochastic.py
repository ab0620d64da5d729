"""Stochastic variational inference of kernel-weighted measures: steps towards the sums of one round of batches at a time.

Counts, statistics and rates are natural parameters of q(phi) and q(weights, mass), and H and G those that the chance of a code has: what a
batch says of all rows is averaged with what was known before, which is a step along the natural gradient (Hoffman, Blei, Wang & Paisley
2013).  Of these averages follow, as in coordinate ascent, shrinkage, noise scale, the scale of V and the codes, each time that half of what
they are made of is new.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nrmmix.inference.variational_regression.climb import MIN_COUNT, Climb, Pass
from nrmmix.inference.variational_regression.memory import Kept, Memory, Seen, added, each
from nrmmix.posterior.kernel_factors import KernelFactors

HALF = 0.5  # of the averages that is left of those at which codes were last moved


class Passing(Memory):
    """A memory that keeps nothing of a visit."""

    def visit(self, number: int, factors: KernelFactors, kept: Kept | None = None) -> Seen:
        found = super().visit(number, factors, kept)
        self.seen[number] = None
        return found

    def scale_v(self, factor: float) -> None:
        """Nothing: v is found anew at every visit."""


def scaled(seen: Seen, factor: float) -> Seen:
    """Sums over so many times as many rows of the same kind."""
    return each(lambda x: factor * x, seen)


class Descent(Climb):
    """Passes of steps, t of size (t + delay)^-kappa, from factors and the sums over all rows that these are of."""

    def __init__(self, memory: Passing, start: KernelFactors, rng: np.random.Generator, total: Seen, kappa: float, delay: float):
        super().__init__(memory, start, rng, search=False)
        self.total, self.kappa, self.delay = total, kappa, delay
        self.steps, self.left = 0, 1.0
        self._align()

    def run(
        self, passes: int, tol: float, report: Callable[[Pass], None] | None = None, watch: Callable[[str, float], None] | None = None
    ) -> None:
        """So many passes; at the end the rows are visited with the components as they are, and the bound is exact."""
        try:
            for number in range(1, passes + 1):
                bounds, moved = [], 0
                for b in self.rng.permutation(len(self.memory.rounds)):
                    self.steps += 1
                    bounds.append(self.step(b, (self.steps + self.delay) ** -self.kappa))
                    if watch is not None:
                        watch("step", bounds[-1])
                    moved += self.turn() if self.left <= HALF else 0
                clusters = int((self.total.N >= MIN_COUNT).sum())
                self.passes.append(Pass(number, self.factors.n_components, clusters, float(np.mean(bounds)), moved))
                if report is not None:
                    report(self.passes[-1])
        finally:
            if self.passes:
                self.end()

    def step(self, b: int, rho: float) -> float:
        """Towards round b; an unbiased estimate of the bound of the factors before it, whose rows are so many copies of the round.

        q(weights, mass) and q(phi) are those of the counts, rates and statistics of `now`: their divergence from the prior is what these
        expect less their log evidence.
        """
        now = self.factors
        found = self.memory.visit(b, now)
        found = scaled(found, self.memory.rows.size / found.n)
        A = (found.G[0] * np.exp(now.log_k[0])).sum(axis=0)
        expected = float((found.N - now.N) @ now.const + np.sum((found.s - now.s) * now.eta) - (A - now.A) @ now.weights.expected)
        of_rows = found.entropy + found.log_v + found.n + float((found.H * now.log_k).sum()) + found.log_h
        self.total = each(lambda x, y: (1.0 - rho) * x + rho * y, self.total, found)
        self.left *= 1.0 - rho
        self.refresh()
        return now.log_evidence + expected + of_rows

    def turn(self) -> int:
        """Set what is best for the averages: shrinkage and noise scale, the scale of V, codes, of which so many change."""
        before, self.left = self.factors.codes, 1.0
        self.learn()
        self.scale_v()
        self.move_codes()
        self._align()
        self.scale_v()
        return int(np.count_nonzero(self.factors.codes != before))

    def _align(self) -> None:
        """Make the rates of a component the same by all covariates: where one has another code, G of the others is still that of the old.

        It becomes so much larger or smaller; what is wrong about it then is averaged away.
        """
        rates = (self.total.G * np.exp(self.factors.log_k)).sum(axis=1)
        factor = np.where(rates > 0.0, self.factors.A / np.where(rates > 0.0, rates, 1.0), 1.0)
        self.total = self.total._replace(G=self.total.G * factor[:, None, :])

    def end(self) -> None:
        """The best factors given r and v at the present ones, and their bound."""
        found = self.memory.visit(0, self.factors)
        for b in range(1, len(self.memory.rounds)):
            found = added(found, self.memory.visit(b, self.factors))
        self.total, self.changed = found, np.zeros_like(self.changed)
        self.refresh()
