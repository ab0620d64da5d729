"""Recorded draws put back into kernel arrays, the covariate kernel at new rows, and draws of the random measure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nrmmix.chain import TOO_FAR
from nrmmix.compiling import announced
from nrmmix.families.base import rows_of
from nrmmix.kernels import state as layout
from nrmmix.kernels.clusters import empty_column
from nrmmix.kernels.predictive import draw_components, draw_measure, draw_new, load_draw, predictive_scores, predictive_weights
from nrmmix.sampling import seed_sequence
from nrmmix.tables import plain

if TYPE_CHECKING:
    from nrmmix.families.laws import Law
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
    """Where predictions are wanted: the caller's rows, and the distinct cases of covariates and inputs among them."""

    index: pd.Index  # the caller's rows
    row: np.ndarray  # (rows,) case of each, -1 where a covariate or an input is missing
    place: np.ndarray  # (cases,) row of `covariates` of each case
    covariates: np.ndarray | None  # (R, q) distinct covariate rows; None for a mixture
    given: np.ndarray  # (cases,) row of `inputs` of each case
    inputs: np.ndarray  # (I, e) distinct rows of inputs; I = 1 and e = 0 where no family has any

    @property
    def n_cases(self) -> int:
        return len(self.place)

    @property
    def has_inputs(self) -> bool:
        return self.inputs.shape[1] > 0

    def own_inputs(self) -> np.ndarray:
        """Inputs (rows, e) of each row, none of which may miss one; (1, 0) where there are none."""
        return self.inputs[self.given[self.row]] if self.has_inputs else self.inputs

    def take(self, rows: np.ndarray) -> Target:
        """Some of the rows, by their positions; none of them may miss a covariate or an input."""
        cases, row = np.unique(self.row[rows], return_inverse=True)
        places, place = np.unique(self.place[cases], return_inverse=True)
        of_inputs, given = np.unique(self.given[cases], return_inverse=True)
        covariates = None if self.covariates is None else self.covariates[places]
        return Target(self.index[rows], row, place, covariates, given, self.inputs[of_inputs])


def targets(model: Model, newdata: Any) -> Target:
    """Distinct covariate rows and inputs of new or training data."""
    frame, covariates = model.frame, None
    if newdata is None:
        index = frame.index
        place = model.grid.group if model.is_regression else np.zeros(len(index), np.int64)
        covariates = model.grid.values if model.is_regression else None
    elif model.is_regression:
        x, index, ok = frame.new_covariates(newdata)
        place = np.full(len(index), -1, np.int64)
        covariates, place[ok] = np.unique(x[ok], axis=0, return_inverse=True)
    else:
        index = frame.new_index(newdata)
        place = np.zeros(len(index), np.int64)
    R = 1 if covariates is None else len(covariates)
    if not frame.inputs.shape[1]:
        return Target(index, place, np.arange(R), covariates, np.zeros(R, np.int64), np.zeros((1, 0)))
    values, ok = (frame.inputs, np.ones(len(index), bool)) if newdata is None else frame.new_inputs(newdata)
    ok = ok & (place >= 0)
    with rows_of(index, np.flatnonzero(ok)):
        model.blocks.observe_inputs(values[ok])
    inputs, given = np.unique(values[ok], axis=0, return_inverse=True)
    row = np.full(len(index), -1, np.int64)
    pairs, row[ok] = np.unique(given * R + place[ok], return_inverse=True)
    return Target(index, row, pairs % R, covariates, pairs // R, inputs)


def prior_laws(model: Model) -> list[Law | None]:
    """Of each response its law in a new cluster, at the inputs of the first row; None for a response that has no law of its own."""
    data, state = model.arrays(1)
    with announced():
        empty_column(data, state.stat, 0)
    return model.blocks.predictive_laws(state.stat, 1, model.frame.inputs[:1], model.packed)


def observed(y: Any) -> np.ndarray:
    """Rows of responses of which something is known."""
    return ~np.isnan(y).all(axis=1) if isinstance(y, np.ndarray) else np.ones(y.shape[0], bool)


def known(totals: Sequence[np.ndarray | None]) -> Any:
    """Rows of which no block of counts misses its total; all where no block has any."""
    return np.all([~np.isnan(total) for total in totals if total is not None], axis=0)


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
    reach, points, place = Reach(replay.model, target), replay.points(y, target.own_inputs()), target.place[target.row]
    coefficient = np.reshape(replay.model.blocks.log_coefficient(y), (-1, 1))
    for width in replay:
        weights = predictive_weights(replay.data, replay.state, reach.at(width))
        if not (weights.sum(axis=1) > 0).all():  # of a finite measure
            raise ValueError(OUT_OF_REACH)
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)
        yield log_weights[place] + predictive_scores(points, replay.state) + coefficient


def default_seed(fit: MCMCResult) -> np.random.SeedSequence:
    """Follows from the fit's seed, so that a prediction repeats itself; apart from the chains' own streams."""
    return np.random.SeedSequence(fit.seed, spawn_key=(2**31,))


def draw_seeds(seed: np.random.SeedSequence, size: int) -> list[np.random.SeedSequence]:
    """The same seeds for the same draws, however the rows are split."""
    return seed_sequence(seed).spawn(size)


class Replicates:
    """Replicates of rows of responses on the way, and the table of them."""

    def __init__(self, draws: int, index: pd.Index, model: Model):
        self.draws, self.index, self.frame = draws, index, model.frame
        n, d = len(index), model.n_dim
        self.values = None if self.frame.is_sparse else np.full((draws, n, d), np.nan)
        self.sparse: list[Any] = []  # blocks of rows, in order

    def put(self, draw: int, rows: np.ndarray, values: np.ndarray) -> None:
        """Responses (m, d) of some rows of a replicate; sparse ones of all rows, one block after the other."""
        if self.values is not None:
            self.values[draw, rows] = values
        else:
            from scipy.sparse import csr_array

            self.sparse.append(csr_array(values))

    def table(self) -> pd.DataFrame:
        """One replicate after the other, with a level `draw` added to the index; sparse columns of sparse counts, levels of categories."""
        n = len(self.index)
        own = [self.index.get_level_values(level)[np.tile(np.arange(n), self.draws)] for level in range(self.index.nlevels)]
        full = pd.MultiIndex.from_arrays([*own, np.repeat(np.arange(self.draws), n)], names=[*self.index.names, "draw"])
        names = list(self.frame.response_names)
        if self.values is None:
            from scipy.sparse import vstack

            return pd.DataFrame.sparse.from_spmatrix(vstack(self.sparse, format="csc"), full, names)
        table = pd.DataFrame(self.values.reshape(-1, len(names)), index=full, columns=names)
        for name, levels in zip(names, self.frame.levels, strict=True):
            if levels is not None:
                codes = table[name].fillna(-1).astype(int).to_numpy()
                table[name] = pd.Categorical.from_codes(codes, categories=list(levels))
        return table
