"""Recorded draws put back into kernel arrays, the covariate kernel at new rows, and draws of the random measure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nrmmix.chain import TOO_FAR
from nrmmix.kernels import state as layout
from nrmmix.kernels.predictive import draw_components, draw_measure, draw_new, load_draw, predictive_scores, predictive_weights
from nrmmix.sampling import seed_sequence
from nrmmix.tables import as_frame, plain

if TYPE_CHECKING:
    from nrmmix.model import Model
    from nrmmix.results import MCMCResult

OUT_OF_REACH = (
    "a row is out of reach of every atom of a finite measure in some draw: there is no density there; predict closer to the data, or fit "
    "a wider kernel or more components."
)
SMALLEST_JUMP = 0.01  # unseen atoms lighter than this many observations enter by their mean
MEMORY = 2**27  # bytes of working arrays held at once


@dataclass(frozen=True)
class Target:
    """Where predictions are wanted."""

    index: pd.Index  # the caller's rows
    row: np.ndarray  # (rows,) row of `covariates` of each, -1 where a covariate is missing
    covariates: np.ndarray | None  # (R, q) distinct covariate rows; None for a mixture

    @property
    def n_distinct(self) -> int:
        return 1 if self.covariates is None else len(self.covariates)

    def take(self, rows: np.ndarray) -> Target:
        """Some of the rows, by their positions; none of them may miss a covariate."""
        if self.covariates is None:
            return Target(self.index[rows], self.row[rows], None)
        distinct, row = np.unique(self.row[rows], return_inverse=True)
        return Target(self.index[rows], row, self.covariates[distinct])


def targets(model: Model, newdata: Any) -> Target:
    """Distinct covariate rows of new or training data."""
    if newdata is None:
        index = model.frame.index
        if model.is_regression:
            return Target(index, model.grid.group, model.grid.values)
        return Target(index, np.zeros(len(index), np.int64), None)
    if not model.is_regression:
        index = as_frame(newdata, allow_empty=True).index
        return Target(index, np.zeros(len(index), np.int64), None)
    x, index, ok = model.frame.new_covariates(newdata)
    row = np.full(len(index), -1, np.int64)
    values, row[ok] = np.unique(x[ok], axis=0, return_inverse=True)
    return Target(index, row, values)


def parts(n: int, each: int) -> list[np.ndarray]:
    """0..n-1 in blocks, `each` bytes an entry, that fit into MEMORY."""
    step = max(MEMORY // each, 1)
    return [np.arange(start, min(start + step, n)) for start in range(0, n, step)]


class Replay:
    """Recorded draws put back into kernel arrays one by one."""

    def __init__(self, fit: MCMCResult, limit: int | None):
        self.model, self.draws = fit.model, fit.draws
        total = self.draws.n_chains * self.draws.n_draws
        size = total if limit is None else min(limit, total)
        # evenly spaced over all chains
        self.chosen = (np.arange(size) * total) // size
        self.data, self.state = self.model.arrays(int(self.draws["n_clusters"].max()))
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
            load_draw(self.data, self.state, flat["labels"][t], location, v, hyper)
            yield hyper[layout.WIDTH :]

    def points(self, y: np.ndarray) -> layout.Data:
        """Kernel data with other observations in place of the training ones."""
        white = np.ascontiguousarray(self.model.family.whiten(y))
        far = np.abs(white).max(axis=1, initial=0.0) > TOO_FAR
        if far.any():
            raise ValueError(f"the point {y[far][0]} lies more than {TOO_FAR:g} prior standard deviations out; correct it.")
        rows = self.data.rows._replace(y=white)
        return self.data._replace(rows=rows)


class Reach:
    """Covariate kernel of the target rows, (R, P); worked out anew only where widths are sampled."""

    def __init__(self, model: Model, target: Target):
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
            position = int(np.flatnonzero(self.target.row == out[0])[0])
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

    def average(self, K: np.ndarray, values: np.ndarray, of_rest: np.ndarray) -> np.ndarray:
        """Average (R, J) of values (M, J) of the atoms and (J,) of the rest."""
        share, rest = self.shares(K)
        return share @ values + np.outer(rest, of_rest)


def random_measure(replay: Replay, rng: np.random.SeedSequence | np.random.Generator) -> Atoms:
    if replay.model.prior.kind == layout.TABLE:
        return _measure_from_outside(replay, np.random.default_rng(rng))
    if replay.model.prior.kind == layout.STABLE and not (replay.state.A > 0).all():
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
    reach, points = Reach(replay.model, target), replay.points(y)
    for width in replay:
        weights = predictive_weights(replay.data, replay.state, reach.at(width))
        if not (weights.sum(axis=1) > 0).all():  # of a finite measure
            raise ValueError(OUT_OF_REACH)
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)
        yield log_weights[target.row] + predictive_scores(points, replay.state)


def default_seed(fit: MCMCResult) -> np.random.SeedSequence:
    """Follows from the fit's seed, so that a prediction repeats itself; apart from the chains' own streams."""
    return np.random.SeedSequence(fit.seed, spawn_key=(2**31,))


def draw_seeds(seed: np.random.SeedSequence, size: int) -> list[np.random.SeedSequence]:
    """The same seeds for the same draws, however the rows are split."""
    return seed_sequence(seed).spawn(size)


def replicates(values: np.ndarray, index: pd.Index, names: Sequence[str]) -> pd.DataFrame:
    """Replicates (draws, rows, d) of rows as a table, one after the other, with a level `draw` added to the index."""
    draws, n, d = values.shape
    own = [index.get_level_values(level)[np.tile(np.arange(n), draws)] for level in range(index.nlevels)]
    full = pd.MultiIndex.from_arrays([*own, np.repeat(np.arange(draws), n)], names=[*index.names, "draw"])
    return pd.DataFrame(values.reshape(-1, d), index=full, columns=list(names))
