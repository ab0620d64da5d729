"""Functionals of the posterior: means and densities of one more observation, with bands of the random functional.

Estimates are Rao-Blackwell means over draws: weights and component densities with everything integrated out that can be.  Bands are
quantiles over draws of the random measure itself: atoms' weights and parameters drawn, the mass of unseen atoms included.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

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

KINDS = ("mean", "density")
GRID = 100  # points of a response's grid
MEMORY = 2**27  # bytes of sampled functionals held at once


def predict(
    fit: MCMCResult,
    newdata: Any = None,
    kind: str = "mean",
    *,
    at: Any = None,
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
    if isinstance(interval, bool) or not 0 < interval < 1:
        raise ValueError(f"interval must be between 0 and 1, not {interval!r}.")
    if kind == "mean" and at is not None:
        raise ValueError('at belongs to kind="density"; a mean has no points.')
    size = count("draws", draws, 1)
    seed = default_seed(fit) if rng is None else seed_sequence(rng)
    target = targets(fit.model, newdata)
    if kind == "mean":
        return _predict_mean(fit, target, interval, size, seed)
    return _predict_density(fit, target, newdata, at, interval, size, seed)


def log_density(fit: MCMCResult, newdata: Any = None) -> pd.Series:
    """Log of the posterior mean density of each row's own response; see `MCMCResult.log_density`."""
    target, y = targets(fit.model, newdata), _responses(fit.model, newdata)
    if y is None:
        raise ValueError(f"newdata has no {', '.join(fit.model.frame.response_names)}; log_density needs the response.")
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
    index = pd.MultiIndex.from_arrays(
        [np.repeat(target.index, model.n_dim), np.tile(names, len(target.index))], names=[target.index.name, "response"]
    )
    return _frame(table.reshape(-1, 3), index)


# ---- the density


def _predict_density(
    fit: MCMCResult, target: Target, newdata: Any, at: Any, interval: float, size: int, seed: np.random.SeedSequence
) -> pd.DataFrame:
    model = fit.model
    names = ["y"] if model.n_dim == 1 else list(model.frame.response_names)
    own = _responses(model, newdata) if at is None else None
    if own is not None:
        table = _density_of_rows(fit, target, own, interval, size, seed)
        return _frame(table, _point_index(target.index, np.arange(len(own)), own, names))
    points = _grid(model) if at is None else _points(model, at)
    table = _density_of_grid(fit, target, points, interval, size, seed)  # (R, J, 3)
    if newdata is None and not model.is_regression:
        index = pd.Index(points[:, 0], name="y") if model.n_dim == 1 else pd.MultiIndex.from_arrays(points.T, names=names)
        return _frame(table[0], index)
    rows = _by_row(table, target.row).reshape(-1, 3)
    repeated = np.repeat(np.arange(len(target.index)), len(points))
    return _frame(rows, _point_index(target.index, repeated, np.tile(points, (len(target.index), 1)), names))


def _points(model: Model, at: Any) -> np.ndarray:
    points = np.array(at, dtype=float)
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


def _density_of_rows(
    fit: MCMCResult, target: Target, y: np.ndarray, interval: float, size: int, seed: np.random.SeedSequence
) -> np.ndarray:
    """(rows, 3): density of each row's own response."""
    model = fit.model
    ok = (target.row >= 0) & np.isfinite(y).all(axis=1)
    table = np.full((len(y), 3), np.nan)
    table[:, 0] = np.exp(_log_density(fit, target, y, size))
    if not ok.any():
        return table
    for part in np.array_split(np.flatnonzero(ok), 1 + 8 * ok.sum() * size // MEMORY):
        replay, reach = Replay(fit, size), Reach(model, target)
        points, row = replay.points(y[part]), target.row[part]
        sampled = np.zeros((len(replay), len(part)))
        for s, (width, child) in enumerate(zip(replay, draw_seeds(seed, len(replay)), strict=True)):
            K = reach.at(width)[row]
            new = np.exp(predictive_scores(points, replay.state)[:, -1])
            atoms = random_measure(replay, child)
            density = np.exp(component_densities(points, atoms.theta, model.packed.n_work))
            share, rest = atoms.shares(K)
            sampled[s] = (share * density).sum(axis=1) + rest * new
        table[part, 1:] = np.stack(_band(sampled, interval), axis=-1)
    return table


def _density_of_grid(
    fit: MCMCResult, target: Target, points: np.ndarray, interval: float, size: int, seed: np.random.SeedSequence
) -> np.ndarray:
    """(R, J, 3): density at every point for every distinct covariate row."""
    model = fit.model
    R, J = 1 if target.covariates is None else len(target.covariates), len(points)
    table = np.zeros((R, J, 3))
    for part in np.array_split(np.arange(R), min(max(R, 1), 1 + 8 * R * J * size // MEMORY)):
        replay, reach = Replay(fit, size), Reach(model, target)
        at = replay.points(points)
        sampled = np.zeros((len(replay), len(part), J))
        for s, (width, child) in enumerate(zip(replay, draw_seeds(seed, len(replay)), strict=True)):
            if not len(part):
                break
            K = np.ascontiguousarray(reach.at(width)[part])
            scores = np.exp(predictive_scores(at, replay.state))
            table[part, :, 0] += predictive_weights(replay.data, replay.state, K) @ scores.T / len(replay)
            atoms = random_measure(replay, child)
            density = np.exp(component_densities(at, atoms.theta, model.packed.n_work))
            sampled[s] = atoms.average(K, density.T, scores[:, -1])
        table[part, :, 1:] = np.stack(_band(sampled, interval), axis=-1)
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
    return pd.MultiIndex.from_arrays([index[position], *points.T], names=[index.name, *names])


def _frame(table: np.ndarray, index: pd.Index) -> pd.DataFrame:
    return pd.DataFrame(table, index=index, columns=["estimate", "lower", "upper"])
