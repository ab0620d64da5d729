"""States of a variational posterior: the factors, again and again, with a random measure of its own each time.

Components are scored, drawn and averaged by the same kernels as the clusters of recorded draws, from columns of fractional statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.clusters import empty_column
from nrmmix.model.pack import provide
from nrmmix.posterior.factors import FactorPosterior, drawn_components
from nrmmix.posterior.predict.kernel_states import DrawnMeasure, KernelState, unseen_level
from nrmmix.posterior.predict.rows import CovariateWeights

MOST_UNSEEN = 1000  # further atoms that are drawn one by one


class FactorState(KernelState):
    """The components of q and a new one; a `states.PosteriorState`."""

    def __init__(self, posterior: FactorPosterior):
        model, factors = posterior.specification, posterior.factors
        super().__init__(model, factors.n_components)
        self.factors, K = factors, factors.n_components
        self.state.stat[:, :K] = posterior.rows.side.columns(factors.N, factors.s)
        empty_column(self.data, self.state.stat, K)
        self.state.num[layout.N_CLUSTERS] = K
        self._scored: tuple[Any, np.ndarray] | None = None

    def weights(self, covariates: CovariateWeights) -> np.ndarray:
        weights, rest = self.factors.sticks.expected_weights
        return np.append(weights, rest)[None]

    def log_densities(self, points: Any) -> np.ndarray:
        if self._scored is None or self._scored[0] is not points:  # the same in every draw
            self._scored = points, super().log_densities(points)
        return self._scored[1]

    def measure(self, rng: np.random.SeedSequence | np.random.Generator) -> DrawnMeasure:
        rng = np.random.default_rng(rng)
        provide(self.model, self.data.block, (layout.SAMPLE,))
        weights, rest, mass = self.factors.sticks.draw(rng)
        least, further = unseen_level(self.model.n_obs) / self.model.n_obs, []
        while rest > least and len(further) < MOST_UNSEEN:
            v = rng.beta(1.0, mass)
            further.append(rest * v)
            rest *= 1.0 - v
        weight = np.concatenate([weights, further])
        theta = self.draw_components(0, len(weight), rng)
        return DrawnMeasure(self.model, self.widths, weight, np.zeros(len(weight), np.int64), theta, np.array([rest]))


class FactorDraws:
    """The `states.States` of a variational posterior: `posterior.draws` times the same state, at most `limit` times."""

    def __init__(self, posterior: FactorPosterior, limit: int | None):
        self.model, self.posterior = posterior.specification, posterior
        self.size = posterior.draws if limit is None else min(limit, posterior.draws)
        self.most_clusters = posterior.factors.n_components
        self.most_atoms = self.most_clusters + 100
        self.state = FactorState(posterior)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[FactorState]:
        return (self.state for _ in range(self.size))

    def points(self, y: Any, inputs: np.ndarray) -> layout.Data:
        return self.state.points(y, inputs)

    def part(self, first: int, last: int) -> FactorDraws:
        return FactorDraws(self.posterior, last - first)

    def adopted(self, points: layout.Data) -> layout.Data:
        return self.state.adopted(points)

    def shares_in(self, estimate: np.ndarray) -> Iterator[np.ndarray]:
        """Each component counts for one cluster: that of the rows of which it is the most probable, or else where most of it lies.

        `estimate` has the clusters of rows; where rows are not in memory those of components, as `component_clusters` gives them.
        """
        K, C = self.most_clusters, int(estimate.max()) + 1
        if self.model.frame.is_streamed:
            return (np.eye(C)[estimate] for _ in range(self.size))
        own, inside = np.zeros((K, C)), np.zeros((K, C))
        for some, r in self.posterior.blocks():
            np.add.at(own, (r.argmax(axis=0), estimate[some]), 1.0)
            inside += r @ np.eye(C)[estimate[some]]
        share = np.eye(C)[np.where(own.any(axis=1, keepdims=True), own, inside).argmax(axis=1)]
        return (share for _ in range(self.size))

    def company(self, estimate: np.ndarray) -> np.ndarray:
        """The probability of the components that count for the cluster that each row is in."""
        share, found = next(iter(self.shares_in(estimate))), np.empty(len(estimate))
        for some, r in self.posterior.blocks():
            found[some] = (r * share.T[estimate[some]].T).sum(axis=0)
        return np.minimum(found, 1.0)

    def drawn_clusters_of(self, rows: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Components (R,) of the fitted rows at positions (R,), drawn from q anew for each state."""
        own = self.posterior._replace(rows=self.posterior.rows.take(rows))
        r = np.hstack([r for _, r in own.blocks()])
        return (drawn_components(r, 1, rng)[0] for _ in range(self.size))
