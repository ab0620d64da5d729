"""Functionals of the random distribution, their Rao-Blackwell estimates and the bands of the random measure.

A functional has J values in each cluster of a draw and under each component, for each of I rows of inputs.  Those of a distribution are
their averages, by the predictive weights for the estimate and by the weights of a drawn measure for the band; `finish` makes what is
wanted of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from scipy import special

from nrmmix.common.seeds import draw_seeds
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.predictive import cluster_means, component_densities, component_means, predictive_scores, predictive_weights
from nrmmix.model.families.distributions import Distribution, spread_out
from nrmmix.model.replicates import parts
from nrmmix.posterior.predict.rows import Target
from nrmmix.posterior.predict.states import Atoms, Reach, Replay, prior_distributions, random_measure

# Quantiles are read off the cdf between points that lie as densely as the clusters of some draws do, at quantiles of each cluster's
# predictive, thinned to so many for each cluster; and at points geometrically spaced to QUANTILE_REACH ranges out, for the tails.
LOGITS = np.linspace(-8.0, 8.0, 33)  # of the probabilities; from draw to draw they shift within their spacing
GRID_DRAWS, POINTS_EACH, FEWEST_POINTS, MOST_POINTS = 40, 40, 600, 3000
TAIL_POINTS, QUANTILE_REACH = 60, 1e4
FEWER = 4  # times fewer points where each row of inputs has a grid of its own
MANY = 500  # clusters and atoms that are counted on where memory is shared out among rows of inputs

class Functional:
    """J values by row of inputs and by cluster or component, and the W that are made of their averages."""

    replay: Replay
    J: int
    W: int
    whole: Any = False  # (W,) whether the functional is a whole number

    def predictive(self) -> np.ndarray:
        """(I, J, K + 1): in the clusters of the loaded draw, last in a new one."""
        raise NotImplementedError

    def component(self, theta: np.ndarray) -> np.ndarray:
        """(I, J, M): under parameters (T, M)."""
        raise NotImplementedError

    def finish(self, values: np.ndarray, given: np.ndarray) -> np.ndarray:
        """Averages (cases, J) to (cases, W), for cases of the rows of inputs `given`."""
        return values


class Mean(Functional):
    """Means of some responses at rows of inputs (I, e)."""

    def __init__(self, replay: Replay, responses: np.ndarray, inputs: np.ndarray):
        self.replay = replay
        of = replay.model.blocks.mean_responses()
        self.which = np.concatenate([np.flatnonzero(of == j) for j in responses])
        self.J, self.W = replay.model.packed.n_mean, len(self.which)
        self.points = replay.points(replay.model.frame.response[np.zeros(len(inputs), np.int64)], inputs)  # whatever the responses

    def predictive(self) -> np.ndarray:
        return cluster_means(self.points, self.replay.state, self.J).swapaxes(1, 2)

    def component(self, theta: np.ndarray) -> np.ndarray:
        return component_means(self.points, theta, self.J).swapaxes(1, 2)

    def finish(self, values: np.ndarray, given: np.ndarray) -> np.ndarray:
        return self.replay.model.blocks.means(values, self.replay.model.packed)[..., self.which]


class Density(Functional):
    """Joint densities of points (J, d), NaN where a response is not known, which then is left out.

    At every row of inputs (I, e), or where they are matched, point by point at inputs (J, e).
    """

    def __init__(self, replay: Replay, points: Any, inputs: np.ndarray, matched: bool = False):
        J = points.shape[0]
        self.replay, self.J, self.W = replay, J, J
        self.log_coefficient = np.reshape(replay.model.blocks.log_coefficient(points), (-1, 1))
        self.shape = (1, J) if matched else (len(inputs), J)
        if not matched and len(inputs) > 1:
            points, inputs = np.tile(points, (len(inputs), 1)), np.repeat(inputs, J, axis=0)
        self.points = replay.points(points, inputs)

    def predictive(self) -> np.ndarray:
        return self._densities(predictive_scores(self.points, self.replay.state))

    def component(self, theta: np.ndarray) -> np.ndarray:
        return self._densities(component_densities(self.points, theta, self.replay.model.packed.n_work))

    def _densities(self, logs: np.ndarray) -> np.ndarray:
        return np.exp(logs.reshape(*self.shape, -1) + self.log_coefficient)


class Marginal(Functional):
    """Functions of points, each one of the response whose number is in `responses` (J,); inputs as of `Density`.

    Points are (J,), or (I, J) where each row of inputs has its own.
    """

    def __init__(self, replay: Replay, points: np.ndarray, responses: np.ndarray, inputs: np.ndarray, matched: bool = False):
        self.replay, self.points, self.responses, self.inputs, self.matched = replay, points, responses, inputs, matched
        self.J = self.W = points.shape[-1]

    def predictive(self) -> np.ndarray:
        model, state = self.replay.model, self.replay.state
        K = int(state.num[layout.N_CLUSTERS])
        return self._values(model.blocks.predictive_distributions(state.stat, K + 1, self.inputs, model.packed), K + 1)

    def component(self, theta: np.ndarray) -> np.ndarray:
        return self._values(self.replay.model.blocks.component_distributions(theta, self.inputs, self.replay.model.packed), theta.shape[1])

    def _values(self, laws: list[Distribution | None], columns: int) -> np.ndarray:
        """(I, J, columns)"""
        out = np.empty((1 if self.matched else len(self.inputs), self.J, columns))
        for response in np.unique(self.responses):
            own = np.flatnonzero(self.responses == response)
            law = _of_rows(laws[response], own) if self.matched else spread_out(laws[response])
            out[:, own] = self.of_law(law, self.points[..., own, None])
        return out

    @staticmethod
    def of_law(law: Distribution, points: np.ndarray) -> np.ndarray:
        raise NotImplementedError


def _of_rows(law: Any, rows: np.ndarray) -> Any:
    """The law whose parameters are those of some rows, where they differ by row."""
    return type(law)(*(p[rows] if len(p) > 1 else p for p in map(np.asarray, law)))


class MarginalDensity(Marginal):
    @staticmethod
    def of_law(law: Distribution, points: np.ndarray) -> np.ndarray:
        return law.density(points)


class Cdf(Marginal):
    @staticmethod
    def of_law(law: Distribution, points: np.ndarray) -> np.ndarray:
        return law.cdf(np.floor(points) if law.discrete else points)


class Quantile(Cdf):
    """Quantiles of some responses, those of one after those of another, from the cdf divided by its limit.

    Of a number where the cdf crosses q; of a count the smallest whose cdf is q or more, among neighbouring grid points, which of counts
    up to some thousands are all whole numbers.
    """

    def __init__(self, replay: Replay, responses: np.ndarray, q: np.ndarray, inputs: np.ndarray):
        laws = prior_distributions(replay.model)
        self.q, self.discrete = q, [laws[j].discrete for j in responses]
        self.grids = _quantile_grids(replay, responses, self.discrete, inputs)
        points = np.hstack([np.broadcast_to(grid, (len(inputs), grid.shape[1])) for grid in self.grids])
        super().__init__(replay, points, np.repeat(responses, [grid.shape[1] for grid in self.grids]), inputs)
        self.W, self.whole = len(responses) * len(q), np.repeat(self.discrete, len(q))

    def finish(self, values: np.ndarray, given: np.ndarray) -> np.ndarray:
        cdfs = np.split(values, np.cumsum([grid.shape[1] for grid in self.grids])[:-1], axis=1)
        out = np.empty((len(values), len(self.grids), len(self.q)))
        for j, (grid, discrete, of_cases) in enumerate(zip(self.grids, self.discrete, cdfs, strict=True)):
            read = _smallest if discrete else np.interp
            for case, cdf in enumerate(of_cases):
                out[case, j] = read(self.q, np.maximum.accumulate(cdf) / cdf[-1], grid[given[case] if len(grid) > 1 else 0])
        return out.reshape(len(values), self.W)


def _smallest(q: np.ndarray, cdf: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Smallest whole numbers whose cdf is q or more; between grid points that are no neighbours, by a straight line."""
    at = np.minimum(np.searchsorted(cdf, q * (1.0 - 1e-12)), len(grid) - 1)
    before = np.maximum(at - 1, 0)
    rise = np.where(at > 0, cdf[at] - cdf[before], 1.0)
    share = np.clip((q - cdf[before]) / np.where(rise > 0, rise, 1.0), 0.0, 1.0)
    between = np.ceil(grid[before] + share * (grid[at] - grid[before]) - 1e-9)
    return np.where(grid[at] - grid[before] > 1, np.clip(between, grid[before] + 1, grid[at]), grid[at])


def _quantile_grids(replay: Replay, responses: np.ndarray, discrete: Sequence[bool], inputs: np.ndarray) -> list[np.ndarray]:
    """Sorted points (I, J) of each response, or (1, J) for all rows of inputs."""
    model, step = replay.model, -(-len(replay) // GRID_DRAWS)
    found: list[list[np.ndarray]] = [[] for _ in responses]
    shifts = (LOGITS[1] - LOGITS[0]) * np.arange(GRID_DRAWS) / GRID_DRAWS
    total = draws = 0
    for _, shift in zip(islice(replay, None, None, step), shifts):
        n_columns = int(replay.state.num[layout.N_CLUSTERS]) + 1
        laws = model.blocks.predictive_distributions(replay.state.stat, n_columns, inputs, model.packed)
        p = special.expit(LOGITS + shift)[:, None]
        for points, j in zip(found, responses, strict=True):
            quantiles = spread_out(laws[j]).quantile(p)
            points.append(quantiles.reshape(len(quantiles), -1))
        total, draws = total + n_columns, draws + 1
    most = int(np.clip(POINTS_EACH * total / draws, FEWEST_POINTS, MOST_POINTS))
    every = [np.sort(np.concatenate(points, axis=1)) for points in found]
    fewer = FEWER if inputs.shape[1] else 1
    return [_whole_grid(near, most) if whole else _grid(near, most, fewer) for near, whole in zip(every, discrete, strict=True)]


def _grid(near: np.ndarray, most: int, fewer: int) -> np.ndarray:
    """Points (I, J) of numbers: some of those near the clusters (I, N), and the tails."""
    near = near[:, np.linspace(0, near.shape[1] - 1, min(near.shape[1], most // fewer)).astype(int)]
    low, high = near[:, :1], near[:, -1:]
    far = (high - low) / 2 * np.geomspace(1.0, QUANTILE_REACH, TAIL_POINTS // fewer)[1:]
    return np.hstack([(low + high) / 2 - far[:, ::-1], near, (low + high) / 2 + far])


def _whole_grid(near: np.ndarray, most: int) -> np.ndarray:
    """Whole numbers (1, J): all of the lower range, of what is above those near the clusters, and the upper tail."""
    least, last = near.min(), near.max()
    far = (last - least + 1) * np.geomspace(1.0, QUANTILE_REACH, TAIL_POINTS)
    above = near.ravel()[np.linspace(0, near.size - 1, min(near.size, most)).astype(int)]
    return np.unique(np.concatenate([[least - 1], np.arange(least, min(last, least + most) + 1), above, [last], np.rint(last + far)]))[None]


def everywhere(
    make: Callable[[np.ndarray], Functional], W: int, replay: Replay, target: Target, interval: float, seed: np.random.SeedSequence
) -> np.ndarray:
    """(cases, W, 3): estimate and band for every case, of the functional that `make` makes for rows of inputs."""
    reach, table = Reach(replay.model, target), np.zeros((target.n_cases, W, 3))
    for cases, functional, given in _pieces(make, target):
        J = functional.J
        each = 8 * (len(replay) * W + 3 * J + (MANY * J if target.has_inputs else 0))
        for part in parts(len(cases), each):
            own = _Cases(replay, reach, target.place[cases[part]], given[part])
            estimate, sampled = np.zeros((len(part), J)), np.zeros((len(replay), len(part), W))
            for s, (width, child) in enumerate(zip(replay, draw_seeds(seed, len(replay)), strict=True)):
                predictive = functional.predictive()
                estimate += own.expected(width, predictive) / len(replay)
                atoms = random_measure(replay, child)
                sampled[s] = functional.finish(
                    own.under(width, atoms, functional.component(atoms.theta), predictive[..., -1:]), given[part]
                )
            table[cases[part]] = np.stack([functional.finish(estimate, given[part]), *_band(sampled, interval, functional.whole)], axis=-1)
    return table


def _pieces(make: Callable[[np.ndarray], Functional], target: Target) -> Iterator[tuple[np.ndarray, Functional, np.ndarray]]:
    """Cases of few enough inputs for their values to be held at once, the functional for these, and the inputs of each case."""
    I = len(target.inputs)
    J = make(target.inputs[:1]).J if I > 1 else 1
    for some in parts(I, 8 * 3 * J * MANY):
        cases = np.flatnonzero((target.given >= some[0]) & (target.given <= some[-1]))
        yield cases, make(target.inputs[some]), target.given[cases] - some[0]


class _Cases:
    """Averages of a functional for cases, each with its covariates and its row of inputs."""

    def __init__(self, replay: Replay, reach: Reach, place: np.ndarray, given: np.ndarray):
        self.replay, self.reach, self.given = replay, reach, given
        self.places, self.place = np.unique(place, return_inverse=True)

    def expected(self, width: np.ndarray, values: np.ndarray) -> np.ndarray:
        """(cases, J) averages of values (I, J, K + 1) by the predictive weights."""
        return self._average(predictive_weights(self.replay.data, self.replay.state, self._kernel(width)), values)

    def under(self, width: np.ndarray, atoms: Atoms, values: np.ndarray, of_rest: np.ndarray) -> np.ndarray:
        """(cases, J) averages of values (I, J, M) of atoms and (I, J, 1) of the rest by the weights of a drawn measure."""
        share, rest = atoms.shares(self._kernel(width))
        return self._average(share, values) + self._average(rest[:, None], of_rest)

    def _kernel(self, width: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(self.reach.at(width)[self.places])

    def _average(self, share: np.ndarray, values: np.ndarray) -> np.ndarray:
        if len(values) == 1:
            return (share @ values[0].T)[self.place]
        return np.einsum("ck,cjk->cj", share[self.place], values[self.given])


def at_rows(
    functional: Callable[[np.ndarray, np.ndarray], Functional],
    rows: np.ndarray,
    replay: Replay,
    target: Target,
    interval: float,
    seed: np.random.SeedSequence,
) -> np.ndarray:
    """(len(rows), 3): of each row, by its position in the target, the value that `functional` has for it.

    `functional` is given places in `rows`, and the inputs of these rows.
    """
    table = np.zeros((len(rows), 3))
    for part in parts(len(rows), 8 * len(replay)):
        own = target.take(rows[part])
        values, reach, place = functional(part, own.own_inputs()), Reach(replay.model, own), own.place[own.row]
        estimate, sampled = np.zeros(len(part)), np.zeros((len(replay), len(part)))
        for s, (width, child) in enumerate(zip(replay, draw_seeds(seed, len(replay)), strict=True)):
            K = reach.at(width)
            predictive = values.predictive()[0]
            estimate += (predictive_weights(replay.data, replay.state, K)[place] * predictive).sum(axis=1) / len(replay)
            atoms = random_measure(replay, child)
            share, rest = atoms.shares(K)
            sampled[s] = (share[place] * values.component(atoms.theta)[0]).sum(axis=1) + rest[place] * predictive[:, -1]
        table[part] = np.stack([estimate, *_band(sampled, interval)], axis=-1)
    return table


def _band(sampled: np.ndarray, interval: float, whole: Any = False) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles over draws; of whole numbers the next ones outside."""
    tail = (1 - interval) / 2
    lower, upper = np.quantile(sampled, [tail, 1 - tail], axis=0)
    return np.where(whole, np.floor(lower + 1e-9), lower), np.where(whole, np.ceil(upper - 1e-9) + 0.0, upper)  # not -0
