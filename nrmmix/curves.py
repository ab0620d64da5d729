"""Functionals of the random distribution, their Rao-Blackwell estimates and the bands of the random measure.

A functional has J values in each cluster of a draw and under each component.  Those of a distribution are their averages, by the
predictive weights for the estimate and by the weights of a drawn measure for the band; `finish` makes what is wanted of them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import numpy as np
from scipy import special

from nrmmix.families.laws import Law, spread_out
from nrmmix.kernels import state as layout
from nrmmix.kernels.predictive import cluster_means, component_densities, component_means, predictive_scores, predictive_weights
from nrmmix.replay import Reach, Replay, Target, draw_seeds, parts, random_measure

_NO_INPUTS = np.zeros((1, 0))
# Quantiles are read off the cdf between points that lie as densely as the clusters of some draws do, at quantiles of each cluster's
# predictive, thinned to so many for each cluster; and at points geometrically spaced to QUANTILE_REACH ranges out, for the tails.
LOGITS = np.linspace(-8.0, 8.0, 33)  # of the probabilities; from draw to draw they shift within their spacing
GRID_DRAWS, POINTS_EACH, FEWEST_POINTS, MOST_POINTS = 40, 40, 600, 3000
TAIL_POINTS, QUANTILE_REACH = 60, 1e4


class Functional:
    """J values by cluster and by component, and the W that are made of their averages."""

    replay: Replay
    J: int
    W: int

    def predictive(self) -> np.ndarray:
        """(J, K + 1): in the clusters of the loaded draw, last in a new one."""
        raise NotImplementedError

    def component(self, theta: np.ndarray) -> np.ndarray:
        """(J, M): under parameters (T, M)."""
        raise NotImplementedError

    def finish(self, values: np.ndarray) -> np.ndarray:
        """(..., J) averages to (..., W)."""
        return values


class Mean(Functional):
    """Means of some responses."""

    def __init__(self, replay: Replay, responses: np.ndarray):
        self.replay = replay
        of = replay.model.blocks.mean_responses()
        self.which = np.concatenate([np.flatnonzero(of == j) for j in responses])
        self.J, self.W = replay.model.packed.n_mean, len(self.which)
        self.points = replay.data._replace(rows=replay.data.rows._replace(y=replay.data.rows.y[:1]))

    def predictive(self) -> np.ndarray:
        return cluster_means(self.points, self.replay.state, self.J)[0].T

    def component(self, theta: np.ndarray) -> np.ndarray:
        return component_means(self.points, theta, self.J)[0].T

    def finish(self, values: np.ndarray) -> np.ndarray:
        return self.replay.model.blocks.means(values, self.replay.model.packed)[..., self.which]


class Density(Functional):
    """Joint densities of points (J, d)."""

    def __init__(self, replay: Replay, points: np.ndarray):
        self.replay, self.points = replay, replay.points(points)
        self.J = self.W = len(points)

    def predictive(self) -> np.ndarray:
        return np.exp(predictive_scores(self.points, self.replay.state))

    def component(self, theta: np.ndarray) -> np.ndarray:
        return np.exp(component_densities(self.points, theta, self.replay.model.packed.n_work))


class Marginal(Functional):
    """Functions of points (J,), each one of the response whose number is in `responses` (J,)."""

    def __init__(self, replay: Replay, points: np.ndarray, responses: np.ndarray):
        self.replay, self.points, self.responses = replay, points, responses
        self.J = self.W = len(points)

    def predictive(self) -> np.ndarray:
        model, state = self.replay.model, self.replay.state
        return self._values(model.blocks.predictive_laws(state.stat, int(state.num[layout.N_CLUSTERS]) + 1, _NO_INPUTS, model.packed))

    def component(self, theta: np.ndarray) -> np.ndarray:
        return self._values(self.replay.model.blocks.component_laws(theta, _NO_INPUTS, self.replay.model.packed))

    def _values(self, laws: list[Law | None]) -> np.ndarray:
        """(J, columns)"""
        out = [np.empty(0)] * self.J
        for response in np.unique(self.responses):
            own = np.flatnonzero(self.responses == response)
            values = self.of_law(spread_out(laws[response]), self.points[own][:, None])[0]
            for j, row in zip(own, values, strict=True):
                out[j] = row
        return np.array(out)

    @staticmethod
    def of_law(law: Law, points: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class MarginalDensity(Marginal):
    @staticmethod
    def of_law(law: Law, points: np.ndarray) -> np.ndarray:
        return law.density(points)


class Cdf(Marginal):
    @staticmethod
    def of_law(law: Law, points: np.ndarray) -> np.ndarray:
        return law.cdf(points)


class Quantile(Cdf):
    """Quantiles of some responses, those of one after those of another: where the cdf, divided by its limit, crosses q."""

    def __init__(self, replay: Replay, responses: np.ndarray, q: np.ndarray):
        self.q, self.grids = q, _quantile_grids(replay, responses)
        super().__init__(replay, self.grids.ravel(), np.repeat(responses, self.grids.shape[1]))
        self.W = len(responses) * len(q)

    def finish(self, values: np.ndarray) -> np.ndarray:
        cdfs = values.reshape(-1, *self.grids.shape)
        out = np.empty((len(cdfs), len(self.grids), len(self.q)))
        for of_row, found in zip(cdfs, out, strict=True):
            for j, cdf in enumerate(of_row):
                found[j] = np.interp(self.q, np.maximum.accumulate(cdf) / cdf[-1], self.grids[j])
        return out.reshape(*values.shape[:-1], self.W)


def _quantile_grids(replay: Replay, responses: np.ndarray) -> np.ndarray:
    """(k, J) points of each response, sorted."""
    model, step = replay.model, -(-len(replay) // GRID_DRAWS)
    points, shifts = [], (LOGITS[1] - LOGITS[0]) * np.arange(GRID_DRAWS) / GRID_DRAWS
    for _, shift in zip(islice(replay, None, None, step), shifts):
        n_columns = int(replay.state.num[layout.N_CLUSTERS]) + 1
        laws = model.blocks.predictive_laws(replay.state.stat, n_columns, _NO_INPUTS, model.packed)
        p = special.expit(LOGITS + shift)[:, None]
        points.append(np.stack([spread_out(laws[j]).quantile(p)[0].ravel() for j in responses], axis=1))
    n_clusters = sum(map(len, points)) / (len(points) * len(LOGITS))
    near = np.sort(np.concatenate(points), axis=0)
    J = min(len(near), int(np.clip(POINTS_EACH * n_clusters, FEWEST_POINTS, MOST_POINTS)))
    near = near[np.linspace(0, len(near) - 1, J).astype(int)].T
    middle, half = (near[:, [0]] + near[:, [-1]]) / 2, (near[:, [-1]] - near[:, [0]]) / 2
    far = half * np.geomspace(1.0, QUANTILE_REACH, TAIL_POINTS)[1:]
    return np.concatenate([middle - far[:, ::-1], near, middle + far], axis=1)


def everywhere(
    functional: Functional, replay: Replay, target: Target, interval: float, seed: np.random.SeedSequence
) -> np.ndarray:
    """(R, W, 3): estimate and band for every distinct covariate row."""
    reach, J, W = Reach(replay.model, target), functional.J, functional.W
    table = np.zeros((target.n_distinct, W, 3))
    for part in parts(len(table), 8 * (len(replay) * W + 3 * J)):
        estimate, sampled = np.zeros((len(part), J)), np.zeros((len(replay), len(part), W))
        for s, (width, child) in enumerate(zip(replay, draw_seeds(seed, len(replay)), strict=True)):
            K = np.ascontiguousarray(reach.at(width)[part])
            predictive = functional.predictive()
            estimate += predictive_weights(replay.data, replay.state, K) @ predictive.T / len(replay)
            atoms = random_measure(replay, child)
            sampled[s] = functional.finish(atoms.average(K, functional.component(atoms.theta).T, predictive[:, -1]))
        table[part] = np.stack([functional.finish(estimate), *_band(sampled, interval)], axis=-1)
    return table


def at_rows(
    functional: Callable[[np.ndarray], Functional],
    rows: np.ndarray,
    replay: Replay,
    target: Target,
    interval: float,
    seed: np.random.SeedSequence,
) -> np.ndarray:
    """(len(rows), 3): of each row, by its position in the target, the value that `functional` has for it, given places in `rows`."""
    table = np.zeros((len(rows), 3))
    for part in parts(len(rows), 8 * len(replay)):
        own, values = target.take(rows[part]), functional(part)
        reach = Reach(replay.model, own)
        estimate, sampled = np.zeros(len(part)), np.zeros((len(replay), len(part)))
        for s, (width, child) in enumerate(zip(replay, draw_seeds(seed, len(replay)), strict=True)):
            K = reach.at(width)
            predictive = values.predictive()
            estimate += (predictive_weights(replay.data, replay.state, K)[own.row] * predictive).sum(axis=1) / len(replay)
            atoms = random_measure(replay, child)
            share, rest = atoms.shares(K)
            sampled[s] = (share[own.row] * values.component(atoms.theta)).sum(axis=1) + rest[own.row] * predictive[:, -1]
        table[part] = np.stack([estimate, *_band(sampled, interval)], axis=-1)
    return table


def _band(sampled: np.ndarray, interval: float) -> tuple[np.ndarray, np.ndarray]:
    tail = (1 - interval) / 2
    lower, upper = np.quantile(sampled, [tail, 1 - tail], axis=0)
    return lower, upper
