"""New rows for a variational fit: those before keep their probabilities of the components, and are remembered by their sums alone.

That is coordinate ascent on the bound of all rows seen, in which the factors of the earlier rows stay as they are: it needs nothing of them
but expected counts and statistics, and the part of the bound that is theirs.  Components that only new rows are in may be born, merged and
deleted as in any fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nrmmix.inference.executors import executor_of
from nrmmix.inference.variational.climb import Climb, Pass, Settings
from nrmmix.inference.variational.memory import Batches, Memory
from nrmmix.inference.variational.merges import SLACK
from nrmmix.inference.variational.options import MemoizedVB, Variational
from nrmmix.model.families.exponential import Statistics
from nrmmix.model.families.exponential.streamed import StreamedRows
from nrmmix.model.priors.hyperpriors import Hyperparameter
from nrmmix.posterior.factors import Factors


class Continued(Memory):
    """A memory whose last share is that of earlier rows, which are not visited."""

    def __init__(self, mass: Hyperparameter, batches: Batches, factors: Factors, bound: float):
        super().__init__(factors.exponential, mass, batches)
        R, K = len(batches.rounds), factors.n_components
        self.N, self.s = np.zeros((R + 1, K)), np.zeros((R + 1, K, self.exponential.n_stat))
        self.N[-1], self.s[-1], self.H = factors.N, factors.s, np.zeros((R + 1, K))
        self.earlier = bound - factors.log_evidence  # entropies of the earlier rows, and their log h
        self.ids = self._new_ids(K)
        self.total()

    @property
    def may_go(self) -> np.ndarray:
        """(K,) whether no earlier row is in a component: it may be deleted, and of two merged one must be such."""
        return self.N[-1] == 0.0

    @property
    def visited(self) -> np.ndarray:
        """(K,) expected counts of the rows that are visited."""
        return self.N[:-1].sum(axis=0)

    def bound(self) -> float:
        return super().bound() + self.earlier

    def is_worth_it(self, target: int, N: np.ndarray, gain: float) -> bool:
        """Say whether a new component gains enough, by itself or, next to a component with earlier rows, by taking the new rows alone."""
        if self.may_go[target]:
            return super().is_worth_it(target, N, gain)
        n, s = self.N[:, target], self.s[:, target]
        log_z = self.exponential.log_z(np.array([n[:-1].sum(), n[-1], n.sum()]), np.stack([s[:-1].sum(axis=0), s[-1], s.sum(axis=0)]))
        return max(gain, 0.0) + float(log_z[0] + log_z[1] - log_z[2]) > SLACK

    def put_in_place(self, target: int, N: np.ndarray, s: np.ndarray) -> list[int]:
        """Components in place of one as far as new rows are in it; the earlier ones stay."""
        if self.may_go[target]:
            return super().put_in_place(target, N, s)
        own = self.N[:-1, target]
        scale, share = own.sum() / N.sum(), np.append(own / max(own.sum(), 1e-300), 0.0)
        for sums in (self.N, self.s, self.H):
            sums[:-1, target] = 0.0
        return self._with_further(np.arange(self.n_components), share, N * scale, s * scale)


def updated(
    rows: Statistics | StreamedRows, mass: Hyperparameter, method: Variational, factors: Factors, bound: float,
    rng: np.random.Generator, first: int, executor: Any = None,
) -> tuple[Factors, float, list[Pass], bool]:
    """Factors and bound of the rows seen, new ones (`rows`) included; passes over these, numbered after the first; whether it converged."""
    is_memoized = isinstance(method, MemoizedVB)
    batches, round_size = method.division_of_new(rows.n)
    settings = Settings(
        method.passes, method.tolerance(), merges=not is_memoized or bool(method.moves()[1]), births=not is_memoized or method.moves()[0],
    )
    passes: list[Pass] = []
    with executor_of(executor).open() as run:
        memory = Continued(mass, Batches(rows, batches, round_size=round_size, executor=run), factors, bound)
        climb = Climb(memory, settings, rng, learns=False)
        climb.run(lambda made: passes.append(made._replace(number=first + made.number)))
    assert climb.kept is not None  # after a pass
    found, bound = climb.kept
    return found, bound, passes, climb.has_converged
