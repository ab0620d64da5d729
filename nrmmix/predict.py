"""Functionals of the posterior: means and densities of one more observation, with bands of the random functional.

Estimates are Rao-Blackwell means over draws: weights and component densities with everything integrated out that can be.  Bands are
quantiles over draws of the random measure itself: atoms' weights and parameters drawn, the mass of unseen atoms included.
"""

from __future__ import annotations

import difflib
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import special, stats
from scipy.special import logsumexp

from nrmmix.compiling import announced
from nrmmix.kernels import state as layout
from nrmmix.kernels.predictive import (
    cluster_means,
    component_densities,
    component_means,
    predictive_scores,
    predictive_weights,
)
from nrmmix.replay import Reach, Replay, Target, default_seed, draw_seeds, random_measure, targets
from nrmmix.sampling import count, seed_sequence

if TYPE_CHECKING:
    from nrmmix.model import Model
    from nrmmix.results import MCMCResult

KINDS = ("mean", "density", "cdf", "quantile")
GRID = 100  # points of a response's grid
# Quantiles are read off the cdf at so many points over the data, and half as many geometrically spaced to QUANTILE_REACH ranges out.
QUANTILE_POINTS, QUANTILE_REACH = 800, 1e4
MEMORY = 2**27  # bytes of sampled functionals held at once


def predict(
    fit: MCMCResult,
    newdata: Any = None,
    kind: str = "mean",
    *,
    at: Any = None,
    q: Any = (0.05, 0.5, 0.95),
    interval: float = 0.9,
    draws: int = 500,
    rng: Any = None,
) -> pd.DataFrame:
    """Posterior of a functional of the conditional distribution; see `MCMCResult.predict`."""
    if isinstance(newdata, str):
        raise ValueError(f"newdata must be a DataFrame, not {newdata!r}; did you mean kind={newdata!r}?")
    if kind not in KINDS:
        near = difflib.get_close_matches(str(kind), KINDS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"unknown kind {kind!r}; there are {', '.join(map(repr, KINDS))}{hint}")
    if isinstance(interval, bool) or not isinstance(interval, Real) or not 0 < interval < 1:
        raise ValueError(f"interval must be between 0 and 1, not {interval!r}.")
    if kind in ("mean", "quantile") and at is not None:
        raise ValueError(f'at belongs to kind="density" and "cdf"; a {kind} has no points.')
    if kind in ("cdf", "quantile") and fit.model.n_dim > 1:
        raise ValueError(f'kind="{kind}" needs one response; this model has {fit.model.n_dim}.')
    size = count("draws", draws, 1)
    seed = default_seed(fit) if rng is None else seed_sequence(rng)
    target = targets(fit.model, newdata)
    with announced():
        if kind == "mean":
            return _predict_mean(fit, target, interval, size, seed)
        if kind == "quantile":
            return _predict_quantile(fit, target, newdata, q, interval, size, seed)
        return _predict_curve(fit, target, newdata, at, Density if kind == "density" else Cdf, interval, size, seed)


def log_density(fit: MCMCResult, newdata: Any = None) -> pd.Series:
    """Log of the posterior mean density of each row's own response; see `MCMCResult.log_density`."""
    target, y = targets(fit.model, newdata), _responses(fit.model, newdata)
    if y is None:
        raise ValueError(f"newdata has no {', '.join(fit.model.frame.response_names)}; log_density needs the response.")
    with announced():
        value = _log_density(fit, target, y, None)
    return pd.Series(value, index=target.index, name="log_density")


def _responses(model: Model, newdata: Any) -> np.ndarray | None:
    return model.frame.response if newdata is None else model.frame.new_response(newdata)


def _log_density(fit: MCMCResult, target: Target, y: np.ndarray, limit: int | None) -> np.ndarray:
    """log (1/T) sum_t density_t(y) row by row; NaN where something is missing."""
    replay, reach = Replay(fit, limit), Reach(fit.model, target)
    ok = (target.row >= 0) & np.isfinite(y).all(axis=1)
    out = np.full(len(y), np.nan)
    if not ok.any():
        return out
    points, row = replay.points(y[ok]), target.row[ok]
    total = np.full(ok.sum(), -np.inf)
    for width in replay:
        weights = predictive_weights(replay.data, replay.state, reach.at(width))
        with np.errstate(divide="ignore"):
            log_weights = np.log(weights)[row]
        total = np.logaddexp(total, logsumexp(log_weights + predictive_scores(points, replay.state), axis=1))
    out[ok] = total - np.log(len(replay))
    return out


# ---- the mean


def _predict_mean(fit: MCMCResult, target: Target, interval: float, size: int, seed: np.random.SeedSequence) -> pd.DataFrame:
    model = fit.model
    replay, reach = Replay(fit, size), Reach(model, target)
    R = 1 if target.covariates is None else len(target.covariates)
    estimate = np.zeros((R, model.n_dim))
    sampled = np.zeros((len(replay), R, model.n_dim))
    if R:
        for s, (width, child) in enumerate(zip(replay, seed.spawn(len(replay)), strict=True)):
            K = reach.at(width)
            weights = predictive_weights(replay.data, replay.state, K)
            means = cluster_means(replay.data, replay.state)
            estimate += model.family.unwhiten(weights @ means) / len(replay)
            atoms = random_measure(replay, child)
            values = component_means(replay.data, atoms.theta)
            sampled[s] = model.family.unwhiten(atoms.average(K, values, means[-1]))
    table = np.stack([estimate, *_band(sampled, interval)], axis=-1)
    table = _by_row(table, target.row)
    if model.n_dim == 1:
        return _frame(table[:, 0], target.index)
    names = list(model.frame.response_names)
    position, column = np.repeat(np.arange(len(target.index)), model.n_dim), np.tile(names, len(target.index))
    return _frame(table.reshape(-1, 3), _point_index(target.index, position, column[:, None], ["response"]))


# ---- densities and cdfs


class Density:
    """Densities of points (J, d) in the clusters of a draw, and under components."""

    def __init__(self, replay: Replay, points: np.ndarray):
        self.replay, self.points = replay, replay.points(points)

    def predictive(self) -> np.ndarray:
        """(J, K + 1): last in a new cluster."""
        return np.exp(predictive_scores(self.points, self.replay.state))

    def component(self, theta: np.ndarray) -> np.ndarray:
        """(J, M)"""
        return np.exp(component_densities(self.points, theta, self.replay.model.packed.n_work))


class Cdf:
    """The same of the distribution function of one response."""

    def __init__(self, replay: Replay, points: np.ndarray):
        self.replay, self.points = replay, points

    def predictive(self) -> np.ndarray:
        state = self.replay.state
        centre, spread, df = self.replay.model.family.predictive_marginals(state.stat, int(state.num[layout.N_CLUSTERS]) + 1)
        return stats.t.cdf((self.points - centre[:, 0]) / spread[:, 0], df)

    def component(self, theta: np.ndarray) -> np.ndarray:
        mean, sd = self.replay.model.family.component_marginals(theta)
        return special.ndtr((self.points - mean[:, 0]) / sd[:, 0])


def _predict_curve(
    fit: MCMCResult, target: Target, newdata: Any, at: Any, curve: type, interval: float, size: int, seed: np.random.SeedSequence
) -> pd.DataFrame:
    """Density or cdf: at each row's own response, or of every row at every point."""
    model = fit.model
    names = ["y"] if model.n_dim == 1 else list(model.frame.response_names)
    own = _responses(model, newdata) if at is None else None
    if own is not None:
        table = _at_rows(fit, target, own, curve, interval, size, seed)
        return _frame(table, _point_index(target.index, np.arange(len(own)), own, names))
    points = _grid(model) if at is None else _points(model, at)
    table = _at_points(fit, target, points, curve, interval, size, seed)  # (R, J, 3)
    if newdata is None and not model.is_regression:
        index = pd.Index(points[:, 0], name="y") if model.n_dim == 1 else pd.MultiIndex.from_arrays(points.T, names=names)
        return _frame(table[0], index)
    rows = _by_row(table, target.row).reshape(-1, 3)
    repeated = np.repeat(np.arange(len(target.index)), len(points))
    return _frame(rows, _point_index(target.index, repeated, np.tile(points, (len(target.index), 1)), names))


def _predict_quantile(
    fit: MCMCResult, target: Target, newdata: Any, q: Any, interval: float, size: int, seed: np.random.SeedSequence
) -> pd.DataFrame:
    """Quantiles of the averaged cdf, and of each draw's cdf for the band."""
    probabilities = np.atleast_1d(np.array(q, dtype=float))
    if probabilities.ndim != 1 or not len(probabilities) or not ((probabilities > 0) & (probabilities < 1)).all():
        raise ValueError(f"q must hold probabilities between 0 and 1, not {q!r}.")
    model = fit.model
    y = model.frame.response[:, 0]
    half = 0.7 * (np.ptp(y) or 10 * np.sqrt(model.family.scale[0, 0]))
    far = half * np.geomspace(1.0, QUANTILE_REACH, QUANTILE_POINTS // 4)[1:]  # tails are those of t distributions
    points = (y.min() + y.max()) / 2 + np.concatenate([-far[::-1], np.linspace(-half, half, QUANTILE_POINTS), far])
    table = _at_points(fit, target, points[:, None], Cdf, interval, size, seed, probabilities)
    if newdata is None and not model.is_regression:
        return _frame(table[0], pd.Index(probabilities, name="q"))
    rows = _by_row(table, target.row).reshape(-1, 3)
    repeated = np.repeat(np.arange(len(target.index)), len(probabilities))
    column = np.tile(probabilities, len(target.index))[:, None]
    return _frame(rows, _point_index(target.index, repeated, column, ["q"]))


def _inverse(cdf: np.ndarray, points: np.ndarray, q: np.ndarray) -> np.ndarray:
    """(R, Q): where cdfs (R, J) at sorted points, divided by their limit, cross the probabilities."""
    out = np.empty((len(cdf), len(q)))
    for r, row in enumerate(cdf):
        out[r] = np.interp(q, np.maximum.accumulate(row) / row[-1], points)
    return out


def _points(model: Model, at: Any) -> np.ndarray:
    try:
        points = np.array(at, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"at must hold numbers, not {at!r}.") from None
    if model.n_dim == 1 and points.ndim <= 1:
        points = points.reshape(-1, 1)
    elif model.n_dim > 1 and points.ndim == 1:
        points = points.reshape(1, -1)
    if points.ndim != 2 or points.shape[1] != model.n_dim or len(points) == 0:
        wanted = "(m,)" if model.n_dim == 1 else f"(m, {model.n_dim})"
        raise ValueError(f"at must have shape {wanted} with m >= 1, not {np.shape(at)}.")
    if not np.isfinite(points).all():
        raise ValueError("at must be finite.")
    return points


def _grid(model: Model) -> np.ndarray:
    if model.n_dim > 1:
        raise ValueError(
            f"newdata has no {', '.join(model.frame.response_names)} and there are several responses; give the points as at=."
        )
    y = model.frame.response[:, 0]
    margin = 0.1 * np.ptp(y)
    return np.linspace(y.min() - margin, y.max() + margin, GRID)[:, None]


def _at_rows(
    fit: MCMCResult, target: Target, y: np.ndarray, curve: type, interval: float, size: int, seed: np.random.SeedSequence
) -> np.ndarray:
    """(rows, 3): the curve at each row's own response."""
    model = fit.model
    ok = (target.row >= 0) & np.isfinite(y).all(axis=1)
    table = np.full((len(y), 3), np.nan)
    if not ok.any():
        return table
    for part in np.array_split(np.flatnonzero(ok), 1 + 8 * ok.sum() * size // MEMORY):
        replay, reach = Replay(fit, size), Reach(model, target)
        values, row = curve(replay, y[part]), target.row[part]
        estimate, sampled = np.zeros(len(part)), np.zeros((len(replay), len(part)))
        for s, (width, child) in enumerate(zip(replay, draw_seeds(seed, len(replay)), strict=True)):
            K = reach.at(width)
            predictive = values.predictive()
            estimate += (predictive_weights(replay.data, replay.state, K)[row] * predictive).sum(axis=1) / len(replay)
            atoms = random_measure(replay, child)
            share, rest = atoms.shares(K[row])
            sampled[s] = (share * values.component(atoms.theta)).sum(axis=1) + rest * predictive[:, -1]
        table[part] = np.stack([estimate, *_band(sampled, interval)], axis=-1)
    return table


def _at_points(
    fit: MCMCResult,
    target: Target,
    points: np.ndarray,
    curve: type,
    interval: float,
    size: int,
    seed: np.random.SeedSequence,
    q: np.ndarray | None = None,
) -> np.ndarray:
    """(R, J, 3): the curve at every point for every distinct covariate row; with q its inverse there, (R, Q, 3)."""
    model = fit.model
    R, J = 1 if target.covariates is None else len(target.covariates), len(points)
    width_out = J if q is None else len(q)

    def finish(values: np.ndarray) -> np.ndarray:
        return values if q is None else _inverse(values, points[:, 0], q)

    table = np.zeros((R, width_out, 3))
    for part in np.array_split(np.arange(R), min(max(R, 1), 1 + 8 * R * width_out * size // MEMORY)):
        replay, reach = Replay(fit, size), Reach(model, target)
        values = curve(replay, points)
        estimate, sampled = np.zeros((len(part), J)), np.zeros((len(replay), len(part), width_out))
        for s, (width, child) in enumerate(zip(replay, draw_seeds(seed, len(replay)), strict=True)):
            if not len(part):
                break
            K = np.ascontiguousarray(reach.at(width)[part])
            predictive = values.predictive()
            estimate += predictive_weights(replay.data, replay.state, K) @ predictive.T / len(replay)
            atoms = random_measure(replay, child)
            sampled[s] = finish(atoms.average(K, values.component(atoms.theta).T, predictive[:, -1]))
        table[part] = np.stack([finish(estimate), *_band(sampled, interval)], axis=-1)
    return table


# ---- tables


def _band(sampled: np.ndarray, interval: float) -> tuple[np.ndarray, np.ndarray]:
    tail = (1 - interval) / 2
    lower, upper = np.quantile(sampled, [tail, 1 - tail], axis=0)
    return lower, upper


def _by_row(table: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Values of each of the caller's rows; NaN where a covariate is missing."""
    out = np.full((len(row), *table.shape[1:]), np.nan)
    out[row >= 0] = table[row[row >= 0]]
    return out


def _point_index(index: pd.Index, position: np.ndarray, points: np.ndarray, names: list[str]) -> pd.MultiIndex:
    own = [index.get_level_values(level)[position] for level in range(index.nlevels)]
    return pd.MultiIndex.from_arrays([*own, *points.T], names=[*index.names, *names])


def _frame(table: np.ndarray, index: pd.Index) -> pd.DataFrame:
    return pd.DataFrame(table, index=index, columns=["estimate", "lower", "upper"])
