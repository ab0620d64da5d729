"""Recorded draws put back into kernel arrays, the covariate kernel at new rows, and draws of the random measure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nrmmix.common.compiling import announced
from nrmmix.common.messages import plain
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.clusters import empty_column
from nrmmix.kernels.predictive import draw_components, draw_measure, draw_new, load_draw, predictive_scores, predictive_weights
from nrmmix.model.frame.arrays import TOO_FAR
from nrmmix.model.pack import arrays_of
from nrmmix.posterior.predict.rows import Target

if TYPE_CHECKING:
    from nrmmix.model.families.distributions import Law
    from nrmmix.model.specification import Specification
    from nrmmix.posterior.draws import Posterior

OUT_OF_REACH = (
    "a row is out of reach of every atom of a finite measure in some draw: there is no density there; predict closer to the data, or fit "
    "a wider kernel or more components."
)
SMALLEST_JUMP = 0.01  # unseen atoms lighter than this many observations enter by their mean






def prior_laws(model: Specification) -> list[Law | None]:
    """Of each response its law in a new cluster, at the inputs of the first row; None for a response that has no law of its own."""
    data, state = arrays_of(model, 1)
    with announced():
        empty_column(data, state.stat, 0)
    return model.blocks.predictive_laws(state.stat, 1, model.frame.inputs[:1], model.packed)








class Replay:
    """Recorded draws put back into kernel arrays one by one."""

    def __init__(self, posterior: Posterior, limit: int | None):
        self.model, self.draws = posterior.specification, posterior.draws
        total = self.draws.n_chains * self.draws.n_draws
        size = total if limit is None else min(limit, total)
        # evenly spaced over all chains
        self.chosen = (np.arange(size) * total) // size
        self.data, self.state = arrays_of(self.model, int(self.draws["n_clusters"].max()))
        self._flat = {name: self.draws.flat(name) for name in self.draws}

    def __len__(self) -> int:
        return len(self.chosen)

    def __iter__(self) -> Iterator[np.ndarray]:
        """Load each chosen draw; yields the widths of the covariate kernel."""
        model, flat = self.model, self._flat
        no_locations = np.zeros(0, np.int32)
        for t in self.chosen:
            widths = [flat[name][t] for name in model.width_names]
            if model.kernel is not None and model.kernel.shared_width:
                widths = widths * len(model.frame.covariate_names)
            hyper = np.array([*model.prior.held(flat["mass"][t], flat["sigma"][t]), model.prior.tau, *widths], dtype=float)
            v = flat["v"][t] if "v" in flat else np.array([flat["u"][t] if "u" in flat else 1.0])
            location = flat["locations"][t] if "locations" in flat else no_locations
            if "theta" in flat:
                K = flat["n_clusters"][t]
                self.state.stat[self.data.held, :K] = flat["theta"][t, :K].T
            if "precision" in flat:
                self.data.rows.constant[self.data.shared] = flat["precision"][t]
            if "imputed" in flat:
                frame = model.frame
                self.data.rows.y[:] = model.blocks.completed(frame.response, flat["imputed"][t], frame.inputs, model.packed)
            load_draw(self.data, self.state, flat["labels"][t], location, v, hyper)
            yield hyper[layout.WIDTH :]

    def points(self, y: Any, inputs: np.ndarray | None = None) -> layout.Data:
        """Kernel data with other responses (J, d) and inputs (J, e), or (1, e) for all of them, in place of the training ones."""
        model = self.model
        inputs = np.zeros((1, model.frame.inputs.shape[1])) if inputs is None else inputs
        inputs = np.broadcast_to(inputs, (y.shape[0], inputs.shape[1]))
        rows, table = model.blocks.observe(y, inputs, model.packed.table)
        far = (np.abs(rows.y) > TOO_FAR).any(axis=1)
        if far.any():
            raise ValueError(f"the point {y[far][0]} lies more than {TOO_FAR:g} prior standard deviations out; correct it.")
        block = self.data.block.copy()
        block[:, : layout.EMPTY] = table
        return self.data._replace(rows=rows._replace(constant=self.data.rows.constant), block=block)


class Reach:
    """Covariate kernel of the target rows, (R, P); worked out anew only where widths are sampled."""

    def __init__(self, model: Specification, target: Target):
        self.model, self.target = model, target
        self.distance = None if target.covariates is None else model.grid.distances(target.covariates)
        self._last: tuple[bytes, np.ndarray] | None = None

    def at(self, width: np.ndarray) -> np.ndarray:
        if self.distance is None:
            return np.ones((1, 1))
        if self._last is None or self._last[0] != width.tobytes():
            log_K = self.model.kernel.log_kernel(self.distance, width)
            self._check(log_K)
            # the conditional distribution does not change when a row of K is scaled: far out nothing underflows
            self._last = (width.tobytes(), np.exp(log_K - log_K.max(axis=1, keepdims=True)))
        return self._last[1]

    def _check(self, log_K: np.ndarray) -> None:
        out = np.flatnonzero(np.isneginf(log_K.max(axis=1, initial=-np.inf)))
        if len(out):
            target = self.target
            position = int(np.flatnonzero((target.row >= 0) & (target.place[target.row] == out[0]))[0])
            at = ", ".join(
                f"{name} = {value:g}"
                for name, value in zip(self.model.frame.covariate_names, self.target.covariates[out[0]], strict=True)
            )
            raise ValueError(
                f"row {plain(self.target.index[position])!r} ({at}) is out of reach of every location of {self.model.kernel}: "
                "there is no density there; predict closer to the data, or fit a wider kernel."
            )


@dataclass(frozen=True)
class Atoms:
    """A draw of the unnormalised measure: see `nrmmix.kernels.predictive.draw_measure`."""

    weight: np.ndarray  # (M,)
    place: np.ndarray  # (M,)
    theta: np.ndarray  # (T, M)
    rest: np.ndarray  # (P,)

    def shares(self, K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Normalised weights (R, M) of the atoms and (R,) of the rest at rows of the covariate kernel (R, P)."""
        share, rest = K[:, self.place] * self.weight, K @ self.rest
        total = share.sum(axis=1) + rest
        if not (total > 0).all():  # of a finite measure
            raise ValueError(OUT_OF_REACH)
        return share / total[:, None], rest / total


def random_measure(replay: Replay, rng: np.random.SeedSequence | np.random.Generator) -> Atoms:
    if not replay.model.prior.has_random_measure:
        return _measure_from_outside(replay, np.random.default_rng(rng))
    if replay.model.prior.tau == 0.0 and not (replay.state.A > 0).all():
        raise ValueError(
            f"in a draw a location of {replay.model.kernel} is out of reach of every row, and nm.NormalizedStable, whose atoms have no "
            "scale of their own, says nothing of those there; fit with a prior of wider kernels, or with nm.PitmanYor."
        )
    level = min(max(SMALLEST_JUMP, 1e-4 * replay.model.n_obs), 1.0)
    return Atoms(*draw_measure(replay.data, replay.state, replay.model.packed.n_theta, level, np.random.default_rng(rng)))


def _measure_from_outside(replay: Replay, rng: np.random.Generator) -> Atoms:
    """Weights from a Gibbs-type prior's own `draw_weights`."""
    prior, state = replay.model.prior, replay.state
    K = int(state.num[layout.N_CLUSTERS])
    clusters, further, rest = prior.draw_weights(state.size[:K].copy(), rng)
    weight = np.concatenate([np.asarray(clusters, float).reshape(-1), np.asarray(further, float).reshape(-1)])
    if np.shape(clusters) != (K,) or not np.isfinite([*weight, rest]).all() or min(*weight, rest) < 0 or weight.sum() + rest <= 0:
        raise ValueError(
            f"{type(prior).__name__}.draw_weights must give weights of the {K} clusters, of further atoms, and of what is left, none of "
            "them negative and not all of them 0."
        )
    theta = draw_components(replay.data, replay.state, replay.model.packed.n_theta, len(weight), rng)
    return Atoms(weight, np.zeros(len(weight), np.int64), theta, np.array([float(rest)]))


def new_components(replay: Replay, size: int, rng: np.random.Generator) -> np.ndarray:
    """Parameters (T, size) of components drawn from the prior."""
    return draw_new(replay.data, replay.state, replay.model.packed.n_theta, size, rng)


def log_terms(replay: Replay, target: Target, y: np.ndarray) -> Iterator[np.ndarray]:
    """Draw by draw log of weight times predictive density of each row's y in each cluster, last in a new one, (J, K + 1)."""
    reach, points, place = Reach(replay.model, target), replay.points(y, target.own_inputs()), target.place[target.row]
    coefficient = np.reshape(replay.model.blocks.log_coefficient(y), (-1, 1))
    for width in replay:
        weights = predictive_weights(replay.data, replay.state, reach.at(width))
        if not (weights.sum(axis=1) > 0).all():  # of a finite measure
            raise ValueError(OUT_OF_REACH)
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)
        yield log_weights[place] + predictive_scores(points, replay.state) + coefficient
