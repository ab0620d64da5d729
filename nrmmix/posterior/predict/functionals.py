"""Functionals of the random distribution, their Rao-Blackwell estimates and the bands of the random measure.

A functional is a number that a distribution of responses has: a mean, a density or distribution function at a point, a quantile.  It has J
values under each component, for each of I rows of inputs.  Those of a mixture of components are their averages: by the predictive weights
of a state's clusters for the estimate, by the shares of a drawn measure's atoms for the band; `finish` makes what is wanted of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import islice, pairwise
from typing import Any

import numpy as np
from scipy import special

from nrmmix.common.machine import in_threads, one_blas_thread
from nrmmix.common.seeds import draw_seeds
from nrmmix.model.families.distributions import (
    Distribution,
    Normal,
    StudentT,
    crossings,
    mapped,
    point_masses,
    spread_out,
    tails,
    without_point_masses,
)
from nrmmix.model.replicates import parts
from nrmmix.model.specification import Specification
from nrmmix.posterior.predict.kernel_states import prior_distributions
from nrmmix.posterior.predict.rows import CovariateWeights, PredictionRows
from nrmmix.posterior.predict.states import Components, Measure, PosteriorState, States, StatesInParts

# Quantiles are read off the cdf between points that lie as densely as the clusters of some draws do, at quantiles of each cluster's
# predictive, thinned to so many for each cluster; and at points geometrically spaced to QUANTILE_REACH ranges out, for the tails.
LOGITS = np.linspace(-8.0, 8.0, 33)  # of the probabilities; from draw to draw they shift within their spacing
GRID_DRAWS, POINTS_EACH, MIN_POINTS, MAX_POINTS = 40, 40, 600, 3000
TAIL_POINTS, QUANTILE_REACH = 60, 1e4
THINNING = 4  # times fewer points where each row of inputs has a grid of its own
STRETCHES, MIN_STATES = 8, 10  # states are gone through in so many stretches, of at least so many each
# Seconds that a state has to take, as the first few say after the very first: of less most is Python, for which threads wait in turn.
WORTH_THREADS, TRIED = 1.5e-3, 4
MANY = 500  # clusters and atoms that are counted on where memory is shared out among rows of inputs


class Functional:
    """J values by row of inputs and by component, and the W that are made of their averages."""

    J: int
    W: int
    n_at_once = MANY  # components whose values are held at once
    whole: Any = False  # (W,) whether the functional is a whole number
    points_of_states: Any = None  # what the states have made of points, where the functional needs that

    def values(self, of: Any) -> np.ndarray:
        """(I, J, C): under each of some `Components`, clusters or atoms, or of these given what rows are known to hold."""
        raise NotImplementedError

    def finish(self, values: np.ndarray, given: np.ndarray) -> np.ndarray:
        """Averages (cases, J) to (cases, W), for cases of the rows of inputs `given`."""
        return values

    def settled(self, estimate: np.ndarray, sampled: np.ndarray) -> np.ndarray:
        """The estimate (..., W), or what is made of draws (draws, ..., W) where it has to come from these."""
        return estimate

    def shortcut(self, state: PosteriorState, measure: Measure, cases: Cases) -> tuple[np.ndarray, np.ndarray] | None:
        """Averages (cases, J) over a state's clusters, and (cases, W) of a drawn measure, where there is a quicker way than by `values`."""
        return None

    def for_states(self, states: StatesInParts) -> Functional:
        """Return the functional for other states of the posterior, whose arrays are not those for which it was made."""
        if self.points_of_states is None:
            return self
        made = copy(self)
        made.points_of_states = states.adopted(self.points_of_states)
        return made


class Mean(Functional):
    """Means of some responses at rows of inputs (I, e)."""

    def __init__(self, states: States, responses: np.ndarray, inputs: np.ndarray):
        self.model = states.model
        self.which = self.model.blocks.places_of_means(responses)
        self.J, self.W = self.model.packed.n_mean, len(self.which)
        self.points_of_states = states.points(None, inputs)

    def values(self, of: Components) -> np.ndarray:
        return of.means(self.points_of_states).swapaxes(1, 2)

    def finish(self, values: np.ndarray, given: np.ndarray) -> np.ndarray:
        return self.model.blocks.means(values, self.model.packed)[..., self.which]


class Density(Functional):
    """Joint densities of points (J, d), NaN where a response is not known, which then is left out.

    At every row of inputs (I, e), or where they are matched, point by point at inputs (J, e).
    """

    def __init__(self, states: States, points: Any, inputs: np.ndarray, matched: bool = False):
        J = points.shape[0]
        self.J, self.W = J, J
        self.log_coefficient = np.reshape(states.model.blocks.log_coefficient(points), (-1, 1))
        self.shape = (1, J) if matched else (len(inputs), J)
        if not matched and len(inputs) > 1:
            points, inputs = np.tile(points, (len(inputs), 1)), np.repeat(inputs, J, axis=0)
        self.points_of_states = states.points(points, inputs)

    def values(self, of: Components) -> np.ndarray:
        return np.exp(of.log_densities(self.points_of_states).reshape(*self.shape, -1) + self.log_coefficient)


class Marginal(Functional):
    """Functions of points, each one of the response whose number is in `responses` (J,); inputs as of `Density`.

    Points are (J,), or (I, J) where each row of inputs has its own.
    """

    def __init__(self, points: np.ndarray, responses: np.ndarray, inputs: np.ndarray, matched: bool = False):
        self.points, self.responses, self.inputs, self.matched = points, responses, inputs, matched
        self.J = self.W = points.shape[-1]

    def values(self, of: Components) -> np.ndarray:
        distributions = of.distributions(self.inputs)
        out = np.empty((1 if self.matched else len(self.inputs), self.J, of.n_components))
        for response in np.unique(self.responses):
            own = np.flatnonzero(self.responses == response)
            distribution = distribution_of_rows(distributions[response], own) if self.matched else spread_out(distributions[response])
            out[:, own] = self.at(distribution, self.points[..., own, None])
        return out

    @staticmethod
    def at(distribution: Distribution, points: np.ndarray) -> np.ndarray:
        """The function of a distribution at points that broadcast against its parameters."""
        raise NotImplementedError


def distribution_of_rows(distribution: Any, rows: np.ndarray) -> Any:
    """The distributions whose parameters are those of some rows, where they differ by row."""
    return mapped(distribution, lambda parameter: parameter[rows] if len(parameter) > 1 else parameter)


class MarginalDensity(Marginal):
    """Densities of single responses, or probabilities of counts and categories."""

    @staticmethod
    def at(distribution: Distribution, points: np.ndarray) -> np.ndarray:
        return distribution.density(points)


class Cdf(Marginal):
    """Distribution functions of single responses."""

    @staticmethod
    def at(distribution: Distribution, points: np.ndarray) -> np.ndarray:
        return distribution.cdf(np.floor(points) if distribution.discrete else points)


class Exceedance(Marginal):
    """Probabilities that single responses are larger than points."""

    @staticmethod
    def at(distribution: Distribution, points: np.ndarray) -> np.ndarray:
        return 1.0 - Cdf.at(distribution, points)


class Beyond(Exceedance):
    """Exceedance to full accuracy far out, for what is divided by it."""

    @staticmethod
    def at(distribution: Distribution, points: np.ndarray) -> np.ndarray:
        return tails(distribution, points)[1] if isinstance(distribution, (Normal, StudentT)) else Exceedance.at(distribution, points)


class Hazard(Marginal):
    """Hazards of single responses at points: density over the probability of more, those of the mixture and not of its components."""

    def __init__(self, points: np.ndarray, responses: np.ndarray, inputs: np.ndarray, matched: bool = False):
        super().__init__(points, responses, inputs, matched)
        self.parts = [kind(points, responses, inputs, matched) for kind in (MarginalDensity, Beyond)]
        self.J = 2 * self.W

    def values(self, of: Components) -> np.ndarray:
        return np.concatenate([part.values(of) for part in self.parts], axis=1)

    def finish(self, values: np.ndarray, given: np.ndarray) -> np.ndarray:
        density, beyond = np.split(values, 2, axis=1)
        return density / np.where(beyond > 0.0, beyond, np.nan)


class Quantile(Cdf):
    """Quantiles of some responses, those of one after those of another, from the cdf divided by its limit.

    Of a number where the cdf crosses q, or jumps over it; of a count the smallest whose cdf is q or more, among neighbouring grid points,
    which of counts up to some thousands are all whole numbers.
    """

    def __init__(
        self, states: States, responses: np.ndarray, q: np.ndarray, inputs: np.ndarray,
        relevant: Callable[[np.ndarray], np.ndarray] = lambda quantiles: quantiles,
    ):
        distributions = prior_distributions(states.model)
        self.q, self.asked, self.discrete = q, responses, [distributions[j].discrete for j in responses]
        if all(isinstance(distributions[j], StudentT) for j in responses):
            self.n_at_once = 1  # see `shortcut`
        self.masses = [point_masses(distributions[j]) for j in responses]
        self.grids = [
            _with_jumps(grid, own) for grid, own in
            zip(_quantile_grids(states, responses, self.discrete, inputs, relevant), self.masses, strict=True)
        ]
        points = np.hstack([np.broadcast_to(grid, (len(inputs), grid.shape[1])) for grid in self.grids])
        super().__init__(points, np.repeat(responses, [grid.shape[1] for grid in self.grids]), inputs)
        self.W, self.whole = len(responses) * len(q), np.repeat(self.discrete, len(q))

    def finish(self, values: np.ndarray, given: np.ndarray) -> np.ndarray:
        cdfs = np.split(values, np.cumsum([grid.shape[1] for grid in self.grids])[:-1], axis=1)
        out = np.empty((len(values), len(self.grids), len(self.q)))
        for j, (grid, discrete, of_cases) in enumerate(zip(self.grids, self.discrete, cdfs, strict=True)):
            if discrete:
                for case, cdf in enumerate(of_cases):
                    near = grid[given[case] if len(grid) > 1 else 0]
                    out[case, j] = _smallest(self.q, np.maximum.accumulate(cdf) / cdf[-1], near)
            else:
                out[:, j] = crossings(self.q, of_cases, grid, given)
                for at in self.masses[j]:
                    out[:, j][(out[:, j] >= just_below(at)) & (out[:, j] <= at)] = at
        return out.reshape(len(values), -1)

    def shortcut(self, state: PosteriorState, measure: Measure, cases: Cases) -> tuple[np.ndarray, np.ndarray] | None:
        """Solve where rows have inputs: distribution functions of t are added up, where that of normal atoms is q is solved for."""
        clusters, atoms = state.distributions(self.inputs), measure.distributions(self.inputs)
        own = [(clusters[j], atoms[j]) for j in self.asked]
        if not self.inputs.shape[1] or not all(isinstance(a, StudentT) and isinstance(b, Normal) and len(a.df) == 1 for a, b in own):
            return None
        weights, (share, rest) = state.weights(cases.covariates)[cases.place], measure.shares(cases.covariates)
        cdfs, quantiles = [], []
        for grid, (t, normal) in zip(self.grids, own, strict=True):
            new = StudentT(*(parameter[..., -1:] for parameter in t))
            cdfs.append(t.mixed_cdf(grid, weights, cases.given))
            quantiles.append(normal.mixture_quantiles(self.q, share[cases.place], rest[cases.place], new, len(self.inputs), cases.given))
        return np.hstack(cdfs), np.hstack(quantiles)


def _smallest(q: np.ndarray, cdf: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Smallest whole numbers whose cdf is q or more; between grid points that are no neighbours, by a straight line."""
    at = np.minimum(np.searchsorted(cdf, q * (1.0 - 1e-12)), len(grid) - 1)
    before = np.maximum(at - 1, 0)
    rise = np.where(at > 0, cdf[at] - cdf[before], 1.0)
    share = np.clip((q - cdf[before]) / np.where(rise > 0, rise, 1.0), 0.0, 1.0)
    between = np.ceil(grid[before] + share * (grid[at] - grid[before]) - 1e-9)
    return np.where(grid[at] - grid[before] > 1, np.clip(between, grid[before] + 1, grid[at]), grid[at])


def _quantile_grids(
    states: States, responses: np.ndarray, discrete: Sequence[bool], inputs: np.ndarray, relevant: Callable[[np.ndarray], np.ndarray],
) -> list[np.ndarray]:
    """Sorted points (I, J) of each response, or (1, J) for all rows of inputs, made of those quantiles that are relevant."""
    step = -(-len(states) // GRID_DRAWS)
    found: list[list[np.ndarray]] = [[] for _ in responses]
    shifts = (LOGITS[1] - LOGITS[0]) * np.arange(GRID_DRAWS) / GRID_DRAWS
    total = used = 0
    for state, shift in zip(islice(states, None, None, step), shifts):
        distributions = state.distributions(inputs)
        p = special.expit(LOGITS + shift)[:, None]
        for points, j in zip(found, responses, strict=True):
            quantiles = relevant(spread_out(without_point_masses(distributions[j])).quantile(p))
            points.append(quantiles.reshape(len(quantiles), -1))
        total, used = total + state.n_components, used + 1
    most = int(np.clip(POINTS_EACH * total / used, MIN_POINTS, MAX_POINTS))
    every = [np.sort(np.concatenate(points, axis=1)) for points in found]
    fewer = THINNING if inputs.shape[1] else 1
    return [_whole_grid(near, most) if whole else _grid(near, most, fewer) for near, whole in zip(every, discrete, strict=True)]


def _grid(near: np.ndarray, most: int, fewer: int) -> np.ndarray:
    """Points (I, J) of numbers: some of those near the clusters (I, N), and the tails."""
    near = near[:, np.linspace(0, near.shape[1] - 1, min(near.shape[1], most // fewer)).astype(int)]
    low, high = near[:, :1], near[:, -1:]
    far = (high - low) / 2 * np.geomspace(1.0, QUANTILE_REACH, TAIL_POINTS // fewer)[1:]
    return np.hstack([(low + high) / 2 - far[:, ::-1], near, (low + high) / 2 + far])


def just_below(at: float) -> float:
    return float(np.nextafter(at, -np.inf))


def _with_jumps(grid: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """The grid with point masses and the numbers just below them: straight lines between these are where the cdf jumps."""
    if not len(masses):
        return grid
    jumps = np.concatenate([[just_below(at), at] for at in masses])
    return np.sort(np.hstack([grid, np.broadcast_to(jumps, (len(grid), len(jumps)))]), axis=1)


def _whole_grid(near: np.ndarray, most: int) -> np.ndarray:
    """Whole numbers (1, J): all of the lower range, of what is above those near the clusters, and the upper tail."""
    least, last = near.min(), near.max()
    far = (last - least + 1) * np.geomspace(1.0, QUANTILE_REACH, TAIL_POINTS)
    above = near.ravel()[np.linspace(0, near.size - 1, min(near.size, most)).astype(int)]
    return np.unique(np.concatenate([[least - 1], np.arange(least, min(last, least + most) + 1), above, [last], np.rint(last + far)]))[None]


def over_cases(
    make: Callable[[np.ndarray], Functional], W: int, states: States, rows: PredictionRows, interval: float, seed: np.random.SeedSequence
) -> np.ndarray:
    """(cases, W, 3): estimate and band for every case, of the functional that `make` makes for rows of inputs."""
    table = np.zeros((rows.n_cases, W, 3))
    for cases, estimate, sampled, functional in _over_parts(make, W, states, rows, seed):
        table[cases] = _with_its_band(functional.settled(estimate, sampled), sampled, interval, functional.whole)
    return table


def over_combined(
    make: Callable[[np.ndarray], Functional], W: int, states: States, rows: PredictionRows, combine: Callable[[np.ndarray], np.ndarray],
    interval: float, seed: np.random.SeedSequence,
) -> np.ndarray:
    """(..., W, 3): what `combine` makes of the values (..., cases, W) of all cases, for the band of those of each draw of the measure."""
    estimates, drawn = np.zeros((rows.n_cases, W)), np.zeros((len(states), rows.n_cases, W))
    for cases, estimate, sampled, functional in _over_parts(make, W, states, rows, seed):
        estimates[cases], drawn[:, cases], settled = estimate, sampled, functional.settled
    sampled = combine(drawn)
    return _with_its_band(settled(combine(estimates), sampled), sampled, interval)


def over_states(make: Callable[[np.ndarray], Functional], W: int, states: States, rows: PredictionRows) -> np.ndarray:
    """(states, cases, W): the functional of what each state expects, by its predictive weights, with no draw of the random measure."""
    found = np.zeros((len(states), rows.n_cases, W))
    locations = 0 if states.model.grid is None else len(states.model.grid.weights)
    for cases, functional, given in _pieces(make, rows):
        each = 8 * (functional.J * (3 + MANY) + locations * (2 if rows.covariates is None else 2 + rows.covariates.shape[1]))
        for part in parts(len(cases), each):
            own = Cases(states.model, rows, cases[part], given[part])

            def work(
                state: PosteriorState, functional: Functional, t: int, _: Any, own: Cases = own, those: np.ndarray = cases[part],
                given: np.ndarray = given[part],
            ) -> Any:
                found[t, those] = functional.finish(own.expected(state, functional.values(state)), given)
                return 0.0

            _mean_over(states, functional, np.random.SeedSequence(0), work)
    return found


def _over_parts(
    make: Callable[[np.ndarray], Functional], W: int, states: States, rows: PredictionRows, seed: np.random.SeedSequence
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, Functional]]:
    """Some cases, their estimates (cases, W), draws (draws, cases, W), and the functional of them."""
    for cases, functional, given in _pieces(make, rows):
        J = functional.J
        each = 8 * (len(states) * W + 3 * J + (functional.n_at_once * J if rows.has_inputs else 0))
        for part in parts(len(cases), each):
            own = Cases(states.model, rows, cases[part], given[part])
            sampled = np.zeros((len(states), len(part), W))

            def work(
                state: PosteriorState, functional: Functional, t: int, child: Any, own: Cases = own, sampled: np.ndarray = sampled,
                given: np.ndarray = given[part],
            ) -> Any:
                measure = state.measure(child).seen_from(own.covariates)
                found = functional.shortcut(state, measure, own)
                if found is not None:
                    sampled[t] = found[1]
                    return found[0]
                values = functional.values(state)
                of_atoms = own.under(measure, functional.values(measure), values[..., -1:])
                sampled[t] = functional.finish(of_atoms, given)
                return own.expected(state, values)

            estimate = _mean_over(states, functional, seed, work)
            yield cases[part], functional.finish(estimate, given[part]), sampled, functional


def _mean_over(
    states: States, functional: Functional, seed: np.random.SeedSequence, work: Callable[[PosteriorState, Functional, int, Any], np.ndarray]
) -> np.ndarray:
    """The mean over states of what `work` gives for a state, the functional for it, its number and its seed.

    Where states can be gone through in parts and take long enough threads do that; which are added up first does not depend on them.
    """
    seeds, stopped, ends = draw_seeds(seed, len(states)), threading.Event(), np.zeros(len(states))

    def total(some: States, functional: Functional, first: int, found: Any = 0.0) -> Any:
        for t, state in enumerate(some, first):
            if stopped.is_set():
                break
            found = found + work(state, functional, t, seeds[t])
            ends[t] = time.perf_counter()
        return found

    if not isinstance(states, StatesInParts):
        return total(states, functional, 0) / len(states)

    def of_part(part: tuple[int, int, Any]) -> Any:
        first, end, found = part
        some = states.part(first, end)
        return total(some, functional.for_states(some), first, found)

    bounds = np.linspace(0, len(states), min(STRETCHES, -(-len(states) // MIN_STATES)) + 1).astype(int).tolist()
    tried = min(TRIED, bounds[1])
    with one_blas_thread():  # of which each would have several
        found = of_part((0, tried, 0.0))
        each = (ends[tried - 1] - ends[0]) / max(tried - 1, 1)
        stretches = [(tried, bounds[1], found), *((*part, 0.0) for part in pairwise(bounds[1:]))]
        return sum(in_threads(of_part, stretches, None if each > WORTH_THREADS else 1, stopped.set)) / len(states)


def _pieces(make: Callable[[np.ndarray], Functional], rows: PredictionRows) -> Iterator[tuple[np.ndarray, Functional, np.ndarray]]:
    """Cases of few enough inputs for their values to be held at once, the functional for these, and the inputs of each case."""
    I = len(rows.inputs)
    each = 1
    if I > 1:
        one = make(rows.inputs[:1])
        each = one.J * one.n_at_once
    for some in parts(I, 8 * 3 * each):
        cases = np.flatnonzero((rows.given >= some[0]) & (rows.given <= some[-1]))
        yield cases, make(rows.inputs[some]), rows.given[cases] - some[0]


class Cases:
    """Averages of a functional for cases, each with its covariates and its row of inputs."""

    def __init__(self, model: Specification, rows: PredictionRows, cases: np.ndarray, given: np.ndarray):
        places, place = np.unique(rows.place[cases], return_inverse=True)
        self.covariates, self.given = CovariateWeights(model, rows, places), given
        in_order = len(place) == len(places) and (place[:-1] < place[1:]).all()
        self.place = slice(None) if in_order else place  # no copies where there is nothing to choose

    def expected(self, state: PosteriorState, values: np.ndarray) -> np.ndarray:
        """(cases, J) averages of values (I, J, K + 1) by the predictive weights."""
        return self._average(state.weights(self.covariates), values)

    def under(self, measure: Measure, values: np.ndarray, of_rest: np.ndarray) -> np.ndarray:
        """(cases, J) averages of values (I, J, M) of atoms and (I, J, 1) of the rest by the shares of a drawn measure."""
        share, rest = measure.shares(self.covariates)
        return self._average(np.column_stack([share, rest]), np.concatenate([values, of_rest], axis=-1))

    def _average(self, share: np.ndarray, values: np.ndarray) -> np.ndarray:
        if len(values) == 1:
            return (share @ values[0].T)[self.place]
        return np.einsum("ck,cjk->cj", share[self.place], values[self.given])


def over_rows(
    make: Callable[[np.ndarray, np.ndarray], Functional], positions: np.ndarray, states: States, rows: PredictionRows, interval: float,
    seed: np.random.SeedSequence,
) -> np.ndarray:
    """(len(positions), 3): of each of the rows at `positions` the value that the functional has for it.

    `make` is given places in `positions`, and the inputs of these rows; its functional has one value for each.
    """
    table = np.zeros((len(positions), 3))
    for part in parts(len(positions), 8 * len(states)):
        own = rows.take(positions[part])
        functional, covariates, place = make(part, own.own_inputs()), CovariateWeights(states.model, own), own.place[own.row]
        sampled = np.zeros((len(states), len(part)))

        def work(
            state: PosteriorState, functional: Functional, t: int, child: Any, covariates: CovariateWeights = covariates,
            place: np.ndarray = place, sampled: np.ndarray = sampled,
        ) -> np.ndarray:
            values, measure = functional.values(state)[0], state.measure(child).seen_from(covariates)
            share, rest = measure.shares(covariates)
            sampled[t] = (share[place] * functional.values(measure)[0]).sum(axis=1) + rest[place] * values[:, -1]
            return (state.weights(covariates)[place] * values).sum(axis=1)

        estimate = _mean_over(states, functional, seed, work)
        table[part] = _with_its_band(estimate, sampled, interval)
    return table


def _with_its_band(estimate: np.ndarray, sampled: np.ndarray, interval: float, whole: Any = False) -> np.ndarray:
    """(..., 3): estimate and quantiles over draws (draws, ...)."""
    tail = (1 - interval) / 2
    lower, upper = np.quantile(sampled, [tail, 1 - tail], axis=0)
    return with_band(estimate, *outward(lower, upper, whole), len(sampled))


def outward(lower: np.ndarray, upper: np.ndarray, whole: Any) -> tuple[np.ndarray, np.ndarray]:
    """Ends of a band; of functionals that are whole numbers the next ones outside."""
    return np.where(whole, np.floor(lower + 1e-9), lower), np.where(whole, np.ceil(upper - 1e-9) + 0.0, upper)  # not -0


def with_band(estimate: np.ndarray, lower: np.ndarray, upper: np.ndarray, draws: int) -> np.ndarray:
    """(..., 3): estimate and band; where the estimate lies beyond the quantiles of its draws the band reaches to it.

    A mean can lie there: that of a density far in a tail, where few draws have any, or of a mean with heavy tails; and so can a quantile
    of the averaged distribution.  The band then has the probability asked for, or more.  One draw has no band: both ends are that draw.
    """
    if draws == 1:
        return np.stack([estimate, lower, upper], axis=-1)
    return np.stack([estimate, np.minimum(lower, estimate), np.maximum(upper, estimate)], axis=-1)
