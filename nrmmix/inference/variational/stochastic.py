"""Stochastic variational inference: steps towards the statistics of one batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nrmmix.inference.variational.climb import MIN_COUNT, Pass
from nrmmix.inference.variational.memory import Memory, visit
from nrmmix.inference.variational.options import StochasticVB
from nrmmix.posterior.factors import Factors


class Descent:
    """Passes of steps; at the end the rows are visited with the components as they are."""

    def __init__(self, memory: Memory, method: StochasticVB, rng: np.random.Generator):
        self.batches, self.method, self.rng = memory.batches, method, rng
        self.exponential, self.mass, self.factors = memory.exponential, memory.mass, memory.factors
        self.kept: tuple[Factors, float] | None = None
        self.has_converged = False

    def run(self, report: Callable[[Pass], None]) -> None:
        batches, step = self.batches, 0
        try:
            for number in range(1, self.method.passes + 1):
                bounds = []
                for b in self.rng.permutation(len(batches.rounds)):
                    step += 1
                    bounds.append(self.step(b, (step + self.method.delay) ** -self.method.kappa))
                order = np.argsort(-self.factors.N, kind="stable")
                self.exponential = self.exponential.learnt(self.factors.N, self.factors.s)
                self.factors = Factors(self.exponential, self.mass, self.factors.N[order], self.factors.s[order])
                clusters = int((self.factors.N >= MIN_COUNT).sum())
                made = Pass(number, self.factors.n_components, clusters, float(np.mean(bounds)), 0, 0)
                self.kept = self.kept or (self.factors, made.bound)
                report(made)
        finally:
            if self.kept is not None:
                self.kept = self._exact()

    def step(self, b: int, rho: float) -> float:
        """Towards batch b; an unbiased estimate of the bound of the factors before it, whose rows are so many copies of the batch.

        q(phi) and q(v, mass) are those of the counts and statistics of `now`, so their divergence from the prior is what these expect
        less their log evidence.  The log evidence of the batch's own statistics would be the bound of components fitted to the batch.
        """
        batches, now = self.batches, self.factors
        found = visit(batches, b, now)
        scale = batches.rows.n / int(batches.sizes[b])
        N, s = scale * found.N, scale * found.s
        expected = float((N - now.N) @ now.const + np.sum((s - now.s) * now.eta))
        self.factors = Factors(self.exponential, self.mass, (1 - rho) * now.N + rho * N, (1 - rho) * now.s + rho * s)
        return now.log_evidence + expected + scale * float(found.H.sum()) + batches.log_h

    def _exact(self) -> tuple[Factors, float]:
        """The best factors given the rows' probabilities under the present ones, and their bound."""
        found = [visit(self.batches, b, self.factors) for b in range(len(self.batches.rounds))]
        sums: Any = (sum(parts) for parts in zip(*((one.N, one.s, one.H) for one in found), strict=True))
        N, s, H = sums
        order = np.argsort(-N, kind="stable")
        factors = Factors(self.exponential, self.mass, N[order], s[order])
        return factors, factors.log_evidence + float(H.sum()) + self.batches.log_h
