"""States of a variational posterior: the factors, again and again, with a random measure of its own each time.

Components are scored, drawn and averaged by the same kernels as the clusters of recorded draws, from columns of fractional statistics.
Those of a density regression are of one start after the other, each as often as its weight says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import logsumexp

from nrmmix.kernels.core import state as layout
from nrmmix.kernels.measure.atoms import COARSEST, FINEST
from nrmmix.kernels.measure.atoms import MAX_FINEST as ALWAYS
from nrmmix.model.pack import provide
from nrmmix.model.specification import Specification
from nrmmix.posterior.factors import FactorPosterior, drawn_components
from nrmmix.posterior.kernel_factors import KernelFactorPosterior, KernelFactors
from nrmmix.posterior.predict.kernel_states import DrawnMeasure, KernelState
from nrmmix.posterior.predict.rows import CovariateWeights

MAX_UNSEEN = 1000  # further atoms that are drawn one by one
PLACEHOLDER_ROWS = 1000  # rows that kernels' arrays are made for, which predictions do not read
SOMEWHERE = 1e-9  # rows of a component in each cluster, so that empty ones have shares
UNEQUAL = 200  # states at least, where starts have other weights than all the same


def _members(model: Specification, estimate: np.ndarray, rows: slice) -> np.ndarray:
    """(b, C) how often each of some rows counts in its cluster of a partition (n,), 0 in others."""
    inside, weight = np.eye(int(estimate.max()) + 1)[estimate[rows]], model.frame.weight
    return inside if weight is None else weight[rows, None] * inside


class Made(dict[str, tuple[Any, np.ndarray]]):
    """Arrays by name that are the same in every draw, and the objects that they were last made of."""

    def of(self, name: str, given: Any, make: Callable[[Any], np.ndarray]) -> np.ndarray:
        if name not in self or self[name][0] is not given:
            self[name] = given, make(given)
        return self[name][1]


class FactorState(KernelState):
    """The components of q and a new one; a `states.PosteriorState`."""

    def __init__(self, posterior: FactorPosterior):
        model, factors = posterior.specification, posterior.factors
        super().__init__(model, factors.n_components)
        self.factors = factors
        self.fill(factors.exponential, factors.N, factors.s)
        self._made = Made()

    def weights(self, covariates: CovariateWeights) -> np.ndarray:
        weights, rest = self.factors.sticks.expected_weights
        return np.append(weights, rest)[None]

    def log_densities(self, points: Any) -> np.ndarray:
        return self._made.of("densities", points, super().log_densities)

    def measure(self, rng: np.random.SeedSequence | np.random.Generator) -> DrawnMeasure:
        rng = np.random.default_rng(rng)
        provide(self.model, self.data.block, (layout.Block.SAMPLE,))
        weights, rest, mass = self.factors.sticks.draw(rng)
        further: list[float] = []
        squares = 0.0
        while rest * rest / (1.0 + mass) > (FINEST if len(further) < ALWAYS else COARSEST) * squares and len(further) < MAX_UNSEEN:
            v = rng.beta(1.0, mass)
            further.append(rest * v)
            squares += (rest * v) ** 2
            rest *= 1.0 - v
        theta = self.draw_components(0, len(weights) + len(further), rng)
        with np.errstate(divide="ignore"):
            log_weight = np.log(np.concatenate([weights, further]))
            return DrawnMeasure(self.model, self.widths, log_weight, np.zeros(len(log_weight), np.int64), theta, np.log([rest]))


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
            there = _members(self.model, estimate, some)
            np.add.at(own, r.argmax(axis=0), there)
            inside += r @ there
        share = np.eye(C)[np.where(own.any(axis=1, keepdims=True), own, inside).argmax(axis=1)]
        return (share for _ in range(self.size))

    def company(self, estimate: np.ndarray) -> np.ndarray:
        """The probability of the components that count for the cluster that each row is in."""
        share, found = next(iter(self.shares_in(estimate))), np.empty(len(estimate))
        for some, r in self.posterior.blocks():
            found[some] = (r * share.T[estimate[some]].T).sum(axis=0)
        return np.minimum(found, 1.0)

    def membership(self, estimate: np.ndarray) -> np.ndarray:
        share, found = next(iter(self.shares_in(estimate))), np.empty((len(estimate), int(estimate.max()) + 1))
        for some, r in self.posterior.blocks():
            found[some] = r.T @ share
        return found

    def drawn_clusters_of(self, rows: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Components (R,) of the fitted rows at positions (R,), drawn from q anew for each state."""
        own = self.posterior._replace(rows=self.posterior.rows.take(rows))
        r = np.hstack([r for _, r in own.blocks()])
        return (drawn_components(r, 1, rng)[0] for _ in range(self.size))


# ---- density regression

class KernelFactorState(KernelState):
    """The components of one start; a `states.PosteriorState`.  The measure is finite: a new component has no weight."""

    def __init__(self, model: Specification, factors: KernelFactors):
        is_large = model.n_obs > PLACEHOLDER_ROWS or model.frame.is_streamed
        super().__init__(model.of_few(PLACEHOLDER_ROWS) if is_large else model, factors.n_components)
        self.factors = factors
        self.fill(factors.exponential, factors.N, factors.s)
        self._made = Made()

    @property
    def widths(self) -> np.ndarray:
        """Codes of the components, where these are of slots of their own."""
        return self.factors.codes if self.model.slots is not None else super().widths

    @property
    def _place(self) -> np.ndarray:
        M = self.factors.n_components
        return np.arange(M) if self.model.slots is not None else self.factors.codes[:, 0]

    def weights(self, covariates: CovariateWeights) -> np.ndarray:
        return self._made.of("weights", covariates, self._weights)

    def _weights(self, covariates: CovariateWeights) -> np.ndarray:
        share = covariates.log_at(self.widths)[:, self._place] + self.factors.log_weight
        share = np.exp(share - logsumexp(share, axis=1, keepdims=True))
        return np.column_stack([share, np.zeros(len(share))])

    def log_densities(self, points: layout.Data) -> np.ndarray:
        scores = super().log_densities
        return self._made.of("densities", points, lambda points: scores(self.adopted(points)))

    def means(self, points: layout.Data) -> np.ndarray:
        means = super().means
        return self._made.of("means", points, lambda points: means(self.adopted(points)))

    def measure(self, rng: np.random.SeedSequence | np.random.Generator) -> DrawnMeasure:
        rng = np.random.default_rng(rng)
        provide(self.model, self.data.block, (layout.Block.SAMPLE,))
        log_weight, M = self.factors.weights.draw_log(rng), self.factors.n_components
        theta, place = self.draw_components(0, M, rng), self._place
        assert self.model.grid is not None
        nothing = np.full(M if self.model.slots is not None else len(self.model.grid.weights), -np.inf)
        return DrawnMeasure(self.model, self.widths, log_weight, place, theta, nothing)


class KernelFactorDraws:
    """The `states.States` of a variational density regression: at most `limit` states, `posterior.draws` of them or one for each start."""

    def __init__(self, posterior: KernelFactorPosterior, limit: int | None):
        self.model, self.posterior = posterior.specification, posterior
        weights = posterior.weights
        some = np.flatnonzero(weights > 0)
        least = len(some) if np.ptp(weights[some]) < 1e-12 else UNEQUAL
        wanted = max(posterior.draws, least)
        size = wanted if limit is None else max(min(limit, wanted), 1)
        size = max(size // least, 1) * least if least == len(some) else size  # each as often as the others
        ends = np.cumsum(weights) / weights.sum()
        self._set(np.minimum(np.searchsorted(ends, (np.arange(size) + 0.5) / size), len(weights) - 1))

    def _set(self, which: np.ndarray) -> None:
        self.which = which
        self.made: dict[int, KernelFactorState] = {}
        self.most_clusters = max(one.n_components for one in self.posterior.fits)
        self.most_atoms = self.most_clusters

    def _state(self, number: int) -> KernelFactorState:
        if number not in self.made:
            self.made[number] = KernelFactorState(self.model, self.posterior.fits[number])
        return self.made[number]

    def __len__(self) -> int:
        return len(self.which)

    def __iter__(self) -> Iterator[KernelFactorState]:
        return (self._state(int(number)) for number in self.which)

    def points(self, y: Any, inputs: np.ndarray) -> layout.Data:
        return self._state(int(self.which[0])).points(y, inputs)

    def part(self, first: int, last: int) -> KernelFactorDraws:
        made = object.__new__(KernelFactorDraws)
        made.model, made.posterior = self.model, self.posterior
        made._set(self.which[first:last])
        return made

    def adopted(self, points: layout.Data) -> layout.Data:
        return points  # each state puts its own constants there

    # ---- soft clusters

    def _shares(self, number: int, estimate: np.ndarray) -> np.ndarray:
        """(M, C) of the rows of each component of a start the shares in the clusters of a partition, as of `FactorDraws.shares_in`."""
        C = int(estimate.max()) + 1
        if self.model.frame.is_streamed:  # clusters are those of components, of one start
            return np.eye(C)[estimate]
        inside = np.full((self.posterior.fits[number].n_components, C), SOMEWHERE)
        for some, r in self.posterior.blocks(number):
            inside += r @ _members(self.model, estimate, some)
        return inside / inside.sum(axis=1, keepdims=True)

    def shares_in(self, estimate: np.ndarray) -> Iterator[np.ndarray]:
        """Return, for each state (M, C), the shares of its components that lie in the clusters of a partition."""
        known = {number: self._shares(number, estimate) for number in map(int, np.unique(self.which))}
        return (known[int(number)] for number in self.which)

    def company(self, estimate: np.ndarray) -> np.ndarray:
        """(n,) the mean probability that another row of a row's component is in its cluster of a partition."""
        found = np.zeros(len(estimate))
        for number, times in zip(*np.unique(self.which, return_counts=True), strict=True):
            share = self._shares(int(number), estimate)
            for some, r in self.posterior.blocks(int(number)):
                found[some] += times * (r * share.T[estimate[some]].T).sum(axis=0)
        return np.minimum(found / len(self.which), 1.0)

    def membership(self, estimate: np.ndarray) -> np.ndarray:
        """(n, C) the mean probabilities that another row of a row's component is in the clusters of a partition."""
        found = np.zeros((len(estimate), int(estimate.max()) + 1))
        for number, times in zip(*np.unique(self.which, return_counts=True), strict=True):
            share = self._shares(int(number), estimate)
            for some, r in self.posterior.blocks(int(number)):
                found[some] += times / len(self.which) * (r.T @ share)
        return found

    def drawn_clusters_of(self, rows: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Components (R,) of the fitted rows at positions (R,), drawn from q anew for each state."""
        own = self.posterior._replace(rows=self.posterior.rows.take(rows))
        known = {number: np.hstack([r for _, r in own.blocks(number)]) for number in map(int, np.unique(self.which))}
        return (drawn_components(known[int(number)], 1, rng)[0] for number in self.which)
