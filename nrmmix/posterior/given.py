"""The law of some responses of a row given others.

A component that holds the known responses of a row, y_G, with density p_k(y_G) gains that factor in weight, and the others have in it
their law given y_G: of independent responses that which they had, of jointly Gaussian ones a multivariate t again.  Averages over states
of the posterior weigh each by what it says of y_G too,

    p(y_R | y_G, data) = E[f(y_G, y_R)] / E[f(y_G)],

the mean of the random conditional density once the row's y_G is observed as well.  Bands are quantiles of that posterior: the row is in
the measure that is drawn, and draws count by the density of y_G that is expected of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
from scipy.special import logsumexp

from nrmmix.common.messages import did_you_mean, listed
from nrmmix.common.names import meant
from nrmmix.common.seeds import draw_seeds
from nrmmix.model.families.base import Family, rows_of
from nrmmix.model.families.blocks import Block
from nrmmix.model.families.distributions import Distribution, Elliptical, LocationScale, Normal, StudentT, mapped
from nrmmix.model.frame.rows import Rows
from nrmmix.model.replicates import MEMORY, parts
from nrmmix.model.specification import Specification
from nrmmix.posterior.kernel_factors import AnyPosterior
from nrmmix.posterior.predict.functionals import MANY, Functional, outward, with_band
from nrmmix.posterior.predict.kernel_states import INVISIBLE
from nrmmix.posterior.predict.rows import CovariateWeights, PredictionRows, prediction_rows
from nrmmix.posterior.predict.states import Components, Measure, PosteriorState, States, joint_law, states_of

TOGETHER = 64  # rows at most, for the atoms that they join are evaluated at all of them
NEGLIGIBLE = 1e-3  # share of a row's heaviest component below which one has no points of its own on the grid of quantiles


def known_responses(model: Specification, given: Any) -> np.ndarray:
    """(d,) bool: the responses that are given by name.

    A TypeError or ValueError if what is given is no name of a response, nor a sequence of names, or are all responses; or some of a
    block that has no law given some of it.
    """
    names = list(model.frame.response_names)
    if not isinstance(given, Iterable):
        raise TypeError(f"given must be the name of a response or a sequence of names, not {given!r}.")
    others = [*model.frame.covariate_columns, *model.frame.input_columns]
    wanted = [meant(name, [*names, *others]) or name for name in ([given] if isinstance(given, str) else given)]
    for name in wanted:
        if name in others:
            raise ValueError(f"given: {name!r} is no response but a column that predictions depend on anyway; leave it out of given.")
        if name not in names:
            raise ValueError(f"given: {name!r} is no response; the responses are {listed(names)}{did_you_mean(name, names)}")
        if wanted.count(name) > 1:
            raise ValueError(f"given: the response {name!r} stands twice; give it once.")
    if not wanted:
        raise ValueError(f"given is empty; name some of the responses {listed(names)}, or leave it out.")
    if len(wanted) == len(names):
        raise ValueError(f"given names every response ({listed(names)}), so that none is left to predict; leave some out.")
    known = np.array([name in wanted for name in names])
    for block in model.blocks.blocks:
        if _is_torn(block, known) and type(block.family).joint_predictive is Family.joint_predictive:
            what = ", ".join(names[j] for j in block.columns[:8]) + (" and others" if len(block.columns) > 8 else "")
            why = (
                "are counts given the total of their row, which some of them do not tell" if block.family.needs_totals else
                f"belong to one {type(block.family).__name__}, which does not say how they depend on each other"
            )
            raise ValueError(f"given: {what} {why}; give all of them or none.")
    return known


def known_values(read: Rows, known: np.ndarray) -> np.ndarray:
    """(rows, d) what rows hold of the responses that are known; NaN elsewhere."""
    y = read.responses(np.flatnonzero(known))
    if y is None:
        lacking = read.lacking(np.flatnonzero(known))
        raise ValueError(f"newdata has no column {listed(map(repr, lacking))}, which given names; add it to newdata.")
    return np.where(known, y, np.nan)


def torn_blocks(model: Specification, known: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Numbers and columns of the blocks of dependent responses of which some are known and some are not."""
    return [(b, block.columns) for b, block in enumerate(model.blocks.blocks) if _is_torn(block, known)]


def _is_torn(block: Block, known: np.ndarray) -> bool:
    """Whether some of a block of dependent responses are known, and some are not."""
    own = known[block.columns]
    return bool(own.any() and not own.all() and not block.family.independent)


class Known:
    """Rows (J, d) of which the same responses are known, others NaN, at inputs (J, e), or (1, e) for all of them."""

    def __init__(self, states: States, y: np.ndarray, inputs: np.ndarray):
        known = ~np.isnan(y[0]) if len(y) else np.zeros(y.shape[1], bool)
        self.y, self.inputs, self.size = y, inputs, len(y)
        self.torn = torn_blocks(states.model, known)
        of_kernels = y.copy()  # which leave out what is NaN
        for _, columns in self.torn:
            of_kernels[:, columns] = np.nan
        self.points = states.points(of_kernels, inputs)
        self.of_means = states.points(None, inputs)


class Conditioned:
    """Components given what rows are known to hold: a `states.Components` whose distributions are of each row."""

    _laws: dict[int, Any]  # `LocationScale`, of responses that depend on others that are known

    def __init__(self, of: Components, known: Known, model: Specification):
        self.of, self.known, self.model, self.n_components = of, known, model, of.n_components
        self.log_known = self.own(of.log_densities(known.points))  # (J, C) log density of what is known
        self._laws = {}
        for b, columns in known.torn:
            log_density, laws = self._joint(b).given(known.y[:, columns])
            self.log_known = self.log_known + log_density
            self._laws |= {int(j): law for j, law in zip(columns, laws, strict=True) if law is not None}

    def distributions(self, inputs: np.ndarray) -> list[Distribution | None]:
        return [self._laws.get(j, law) for j, law in enumerate(self.of.distributions(self.known.inputs))]

    def some(self, atoms: np.ndarray) -> Conditioned:
        """Some of the atoms of a measure, by a mask (M,)."""
        made = object.__new__(Conditioned)
        made.of, made.known, made.model, made.n_components = cast(Measure, self.of).some(atoms), self.known, self.model, int(atoms.sum())
        made.log_known = self.log_known[:, atoms]
        made._laws = {j: mapped(law, lambda p: p[:, atoms] if p.shape[1] > 1 else p) for j, law in self._laws.items()}
        return made

    def own(self, values: np.ndarray) -> np.ndarray:
        """Values of rows (J or 1, ..., C) under the components that are meant: here all of them."""
        return values

    def _joint(self, block: int) -> Elliptical:
        return joint_law(self.of, block, self.known.inputs)

    def means(self) -> np.ndarray:
        """(J, C, n_mean), or (1, C, n_mean) where they are the same in all rows; in the units of the responses."""
        return self._with_laws(self.model.blocks.means(self.of.means(self.known.of_means), self.model.packed))

    def _with_laws(self, values: np.ndarray) -> np.ndarray:
        blocks = self.model.blocks
        if self._laws:
            values = np.broadcast_to(values, (self.known.size, *values.shape[1:])).copy()
            for j, law in self._laws.items():
                values[..., int(np.flatnonzero(blocks.mean_responses() == j)[0])] = law[0]
        return values


class OwnAtoms(Conditioned):
    """Distributions of J atoms and J rows, to each row its own, as the only component."""

    def __init__(self, of: Components, known: Known, model: Specification):
        super().__init__(of, known, model)
        self.n_components = 1

    def _joint(self, block: int) -> Elliptical:
        return super()._joint(block).of(np.arange(self.known.size))

    def own(self, values: np.ndarray) -> np.ndarray:
        every = np.arange(values.shape[-1])
        return values[every if len(values) > 1 else 0, ..., every][..., None]

    def distributions(self, inputs: np.ndarray) -> list[Distribution | None]:
        every = np.arange(self.known.size)

        def own(parameter: np.ndarray) -> np.ndarray:
            return parameter if parameter.shape[1] == 1 else parameter[every if len(parameter) > 1 else 0, every][:, None]

        return [
            self._laws[j] if j in self._laws else None if law is None else mapped(law, own)
            for j, law in enumerate(self.of.distributions(self.known.inputs))
        ]

    def means(self) -> np.ndarray:
        values = self.of.means(self.known.of_means).swapaxes(1, 2)
        return self._with_laws(self.model.blocks.means(self.own(values).swapaxes(1, 2), self.model.packed))


class MeanGiven(Functional):
    """Means of some responses."""

    def __init__(self, model: Specification, responses: np.ndarray):
        self.which = model.blocks.places_of_means(responses)
        self.J = self.W = len(self.which)

    def values(self, of: Any) -> np.ndarray:
        return of.means()[..., self.which].swapaxes(1, 2)


class DensityGiven(Functional):
    """Joint density of what is not known at points (J, m, d) for each row, which hold what is known too."""

    def __init__(self, states: States, known: Known, points: np.ndarray):
        J, m, d = points.shape
        self.J = self.W = m
        inputs = np.repeat(known.inputs, m, axis=0) if len(known.inputs) > 1 else known.inputs
        self.model, self.shape, blocks = states.model, (J, m), states.model.blocks
        self.whole_rows = Known(states, points.reshape(-1, d), inputs)
        coefficient = blocks.log_coefficient(points.reshape(-1, d)) - np.repeat(np.zeros(J) + blocks.log_coefficient(known.y), m)
        self.log_coefficient = coefficient.reshape(J, m, 1)

    def values(self, of: Any) -> np.ndarray:
        joint = of.own(Conditioned(of.of, self.whole_rows, self.model).log_known.reshape(*self.shape, -1))
        marginal = of.log_known[:, None, :]
        return np.where(np.isneginf(marginal), 0.0, np.exp(joint - np.where(np.isneginf(marginal), 0.0, marginal) + self.log_coefficient))


class ConditionedStates:
    """States given what rows are known to hold, for the grids of quantiles."""

    def __init__(self, states: States, known: Known, rows: PredictionRows):
        self.states, self.known, self.model = states, known, states.model
        self.covariates, self.place = CovariateWeights(states.model, rows), rows.place[rows.row]

    def __len__(self) -> int:
        return len(self.states)

    def __iter__(self) -> Iterator[Conditioned]:
        for state in self.states:
            found = Conditioned(state, self.known, self.model)
            self._terms = log_weights(state, self.covariates, self.place) + found.log_known
            yield found

    def relevant(self, quantiles: np.ndarray) -> np.ndarray:
        """Quantiles (J or 1, P, C) in the components of the last state, for each row those of its heaviest in place of negligible ones."""
        light = self._terms < self._terms.max(axis=1, keepdims=True) + np.log(NEGLIGIBLE)
        quantiles = np.broadcast_to(quantiles, (len(light), *quantiles.shape[1:]))
        heaviest = np.take_along_axis(quantiles, self._terms.argmax(axis=1)[:, None, None], axis=2)
        return np.where(light[:, None, :], heaviest, quantiles)


def marginal_density(posterior: AnyPosterior, names: Sequence[str], at: np.ndarray, draws: int) -> np.ndarray:
    """(m,) posterior mean joint density of some responses of a mixture without inputs, whatever the others, at points (m, k) of these."""
    states, frame = states_of(posterior, draws), posterior.specification.frame
    y = np.full((len(at), len(frame.response_names)), np.nan)
    y[:, [frame.response_names.index(name) for name in names]] = at
    known, found = Known(states, y, np.zeros((1, 0))), np.zeros(len(at))
    rows = prediction_rows(posterior.specification, None).take(np.zeros(1, np.int64))
    covariates = CovariateWeights(posterior.specification, rows)
    for state in states:
        terms = np.log(np.maximum(state.weights(covariates), 1e-300)) + Conditioned(state, known, states.model).log_known
        found += np.exp(terms).sum(axis=1) / len(states)
    return found


def log_weights(state: PosteriorState, covariates: CovariateWeights, place: np.ndarray) -> np.ndarray:
    """(J, K + 1)"""
    with np.errstate(divide="ignore"):
        return np.log(state.weights(covariates))[place]


def drawing(rng: np.random.Generator) -> Callable[[int, LocationScale], np.ndarray]:
    """Return what draws a column from its law, normal or t with parameters (J, 1); see `Elliptical.completed`."""

    def drawn(_: int, law: LocationScale) -> np.ndarray:
        noise = rng.standard_normal(len(law[0])) if isinstance(law, Normal) else rng.standard_t(law.df[:, 0])
        return law[0] + law[1] * noise[:, None]

    return drawn


def draw_rest(
    state: PosteriorState, clusters: np.ndarray, y: np.ndarray, inputs: np.ndarray, totals: list[np.ndarray | None],
    rng: np.random.Generator,
) -> np.ndarray:
    """(M, d) rows y with what is NaN in them, in the same responses of all, drawn in the cluster (M,) of each given the rest."""
    model = state.model
    values = model.blocks.draw_responses(state.components(clusters, rng), inputs, rng, model.packed, totals)
    for b, columns in torn_blocks(model, ~np.isnan(y[0])):
        joint = joint_law(state, b, inputs if inputs.shape[1] else inputs[:1])
        values[:, columns] = joint.of(clusters).completed(y[:, columns], drawing(rng))
    return np.where(np.isnan(y), values, y)


def over_known(
    make: Callable[[np.ndarray, Known, PredictionRows], Functional], y: np.ndarray, positions: np.ndarray, states: States,
    rows: PredictionRows, interval: float, seed: np.random.SeedSequence,
) -> np.ndarray:
    """(len(positions), W, 3): estimate and band of a functional, of each of the rows at `positions`, of which y (rows, d) is known.

    `make` is given places in `positions`, what these rows are known to hold, and the rows.
    """
    first, S = rows.take(positions[:1]), len(states)
    trial = make(np.arange(1), Known(states, y[positions[:1]], first.own_inputs()), first)
    table = np.zeros((len(positions), trial.W, 3))
    each = max(S * trial.W + 4 * MANY * trial.J, MEMORY // (8 * TOGETHER))
    for part in parts(len(positions), 8 * each):
        some = positions[part]
        own = rows.take(some)
        with rows_of(rows.index, some):
            known = Known(states, y[some], own.own_inputs())
            functional = make(part, known, own)
        covariates, place, cases = CovariateWeights(states.model, own), own.place[own.row], np.arange(len(part))
        joining = Joining(states.model, known)
        total, norm, top = np.zeros((len(part), functional.J)), np.zeros((len(part), 1)), np.full((len(part), 1), -np.inf)
        sampled, log_mass = np.zeros((S, len(part), functional.W)), np.zeros((S, len(part), 1))
        for s, (state, child) in enumerate(zip(states, draw_seeds(seed, S), strict=True)):
            here = Conditioned(state, known, states.model)
            terms = log_weights(state, covariates, place) + here.log_known
            values = functional.values(here)
            higher = np.maximum(top, terms.max(axis=1, keepdims=True))
            weight, earlier, top = np.exp(terms - higher), np.exp(top - higher), higher
            total = total * earlier + _averaged(weight, values)
            norm = norm * earlier + weight.sum(axis=1, keepdims=True)
            drawn, log_mass[s] = _under_measure(state, child, here, functional, values, covariates, place, joining)
            sampled[s] = functional.finish(drawn, cases)
        band = weighted_band(sampled, np.exp(log_mass - log_mass.max(axis=0)), interval, functional.whole)
        table[part] = with_band(functional.finish(total / norm, cases), *band, S)
    return table


class Joining:
    """Rows of which some responses are known as they join clusters: points that are made once, and the random numbers of a draw.

    All rows are drawn with the same numbers, so that the band of a row does not depend on which others are predicted with it.
    """

    def __init__(self, model: Specification, known: Known):
        self.model, self.known, self.rng = model, known, np.random.default_rng(0)
        of = ~np.isnan(known.y[0]) if known.size else np.zeros(known.y.shape[1], bool)
        self.blocks = model.blocks.with_some(of)
        some = [block.columns for block in model.blocks.blocks if block.family.independent and of[block.columns].any()]
        self.beside = [int(j) for columns in some for j in columns[~of[columns]]]  # not known, in the block of others that are
        self.whole = known.y.copy()
        for block in model.blocks.blocks:
            if block.family.needs_totals and not of[block.columns].any():
                self.whole[:, block.columns] = 0.0
        self.points: Any = None

    def seed(self, seed: np.random.SeedSequence) -> tuple[float, np.ndarray]:
        """Draw for a state the probability at which an atom is chosen, and those at which unknown responses (d,) are."""
        self.rng.bit_generator.state = np.random.PCG64(seed).state
        choice, *rest = self.rng.random(1 + self.whole.shape[1])
        return choice, np.array(rest)

    def atoms(self, state: PosteriorState, here: Conditioned, clusters: np.ndarray, at: np.ndarray) -> Measure:
        """The atoms (J,) that the rows join, each with its row: first what is not known of responses that are drawn together."""
        known = self.known
        for b, columns in known.torn:
            def quantiles(j: int, law: LocationScale, own: np.ndarray = at[columns]) -> np.ndarray:
                return law.quantile(own[j])

            joint = joint_law(state, b, known.inputs).of(clusters)
            self.whole[:, columns] = joint.completed(known.y[:, columns], quantiles)

        def in_clusters(parameter: np.ndarray) -> np.ndarray:
            return parameter[np.arange(known.size) if len(parameter) > 1 else 0, clusters if parameter.shape[1] > 1 else 0]

        laws = here.distributions(known.inputs) if self.beside else []
        for j in self.beside:
            if isinstance(laws[j], (Normal, StudentT)):  # others leave out what is not known
                self.whole[:, j] = mapped(laws[j], in_clusters).quantile(at[j])
        if self.points is None:
            self.points = state.points(self.whole, known.inputs)
        elif known.torn or self.beside:
            self.points = state.refilled(self.points, self.whole, known.inputs)
        return state.joined(clusters, self.points, self.blocks, self.rng)


def _under_measure(
    state: PosteriorState, seed: np.random.SeedSequence, here: Conditioned, functional: Functional, values: np.ndarray,
    covariates: CovariateWeights, place: np.ndarray, joining: Joining,
) -> tuple[np.ndarray, np.ndarray]:
    """Averages (J, functional.J) under a draw of the random measure given that each row came from it, and log weights (J, 1) of these.

    The row chooses an atom by its share times the density of what is known there, parameters integrated out, and that atom's parameters
    are drawn given the row too.  The sum over atoms is the weight, in which only shares are drawn: however far what is known lies from
    the data, an atom is where it is.
    """
    known = here.known
    choice, at = joining.seed(seed.spawn(1)[0])
    measure, K, J = state.measure(seed), state.n_components - 1, known.size
    share, rest = measure.shares(covariates)
    there, M = Conditioned(measure, known, here.model), share.shape[1]
    with np.errstate(divide="ignore"):
        log_share = np.log(np.column_stack([share, rest]))[place]  # the last of what is left
    terms = log_share + here.log_known[:, np.minimum(np.arange(M + 1), K)]
    log_mass = logsumexp(terms, axis=1, keepdims=True)
    steps = np.cumsum(np.exp(terms[:, : max(M, K + 1)] - log_mass), axis=1)  # what is left only where no atom stands for the prior
    chosen = np.minimum((steps < choice * steps[:, -1:]).sum(axis=1), steps.shape[1] - 1)
    atom = OwnAtoms(joining.atoms(state, here, np.minimum(chosen, K), at), known, here.model)

    log_weight = np.hstack([log_share + np.column_stack([there.log_known, here.log_known[:, -1:]]), np.zeros((J, 1))])
    every = np.arange(J)
    log_weight[every, -1] = log_share[every, chosen] + atom.log_known[:, 0]
    log_weight[every, chosen] = -np.inf
    weight = np.exp(log_weight - logsumexp(log_weight, axis=1, keepdims=True))
    light = weight[:, :M] <= INVISIBLE
    left = weight[:, M] + np.where(light, weight[:, :M], 0.0).sum(axis=1)  # as far as the row is concerned
    seen = ~light.all(axis=0)
    drawn = left[:, None] * values[..., -1] + weight[:, -1:] * functional.values(atom)[..., 0]
    if seen.any():
        drawn = drawn + _averaged(np.where(light, 0.0, weight[:, :M])[:, seen], functional.values(there.some(seen)))
    return drawn, log_mass


def _averaged(weight: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(rows, J): sums of values (rows or 1, J, C) by weights (rows, C)."""
    return weight @ values[0].T if len(values) == 1 else np.einsum("rc,rjc->rj", weight, values)


def weighted_band(sampled: np.ndarray, weight: np.ndarray, interval: float, whole: Any = False) -> tuple[np.ndarray, np.ndarray]:
    """Quantiles of draws (S, ...) by their weights, which broadcast against them; of whole numbers the next ones outside.

    Between the middles of the steps of the weighted distribution function lie straight lines.
    """
    order = np.argsort(sampled, axis=0)
    values = np.take_along_axis(sampled, order, axis=0)
    weight = np.take_along_axis(np.broadcast_to(weight, sampled.shape), order, axis=0)
    steps = np.cumsum(weight, axis=0)
    middle = (steps - 0.5 * weight) / steps[-1]
    ends = []
    for p in ((1 - interval) / 2, (1 + interval) / 2):
        after = np.clip((middle < p).sum(axis=0), 1, max(len(values) - 1, 1))[None]
        before = after - 1
        if len(values) == 1:
            after = before
        low, high = (np.take_along_axis(values, at, axis=0)[0] for at in (before, after))
        left, right = (np.take_along_axis(middle, at, axis=0)[0] for at in (before, after))
        share = np.clip((p - left) / np.where(right > left, right - left, 1.0), 0.0, 1.0)
        ends.append(low + share * (high - low))
    lower, upper = ends
    return outward(lower, upper, whole)
