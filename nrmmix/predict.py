"""Predictions as tables: which functional of the posterior is asked for, at which rows and points, and the index of the answer.

Estimates are Rao-Blackwell means over draws: weights and component densities with everything integrated out that can be.  Bands are
quantiles over draws of the random measure itself: atoms' weights and parameters drawn, the mass of unseen atoms included.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from nrmmix import membership
from nrmmix.arrays import reals
from nrmmix.compiling import announced
from nrmmix.curves import Cdf, Density, Functional, MarginalDensity, Mean, Quantile, at_rows, everywhere
from nrmmix.replay import Replay, Target, default_seed, log_terms, parts, targets
from nrmmix.sampling import count, seed_sequence
from nrmmix.tables import as_frame

if TYPE_CHECKING:
    from nrmmix.model import Model
    from nrmmix.results import MCMCResult

KINDS = ("mean", "density", "cdf", "quantile", "cluster")
GRID = 100  # points of a response's grid


@dataclass(frozen=True)
class Query:
    """What a prediction is of."""

    fit: MCMCResult
    newdata: Any
    target: Target
    responses: np.ndarray  # (k,) numbers of the responses asked for
    named: bool  # whether the index tells them apart
    interval: float
    draws: int
    seed: np.random.SeedSequence

    @property
    def model(self) -> Model:
        return self.fit.model

    @property
    def names(self) -> np.ndarray:
        return np.array(self.model.frame.response_names)

    def replay(self) -> Replay:
        return Replay(self.fit, self.draws)

    def own(self) -> np.ndarray | None:
        """(rows, d) responses of the rows; None where the new data have none."""
        return _own_responses(self.model, self.newdata, self.responses)

    def everywhere(self, functional: Functional) -> np.ndarray:
        return everywhere(functional, functional.replay, self.target, self.interval, self.seed)


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
    response: str | Sequence[str] | None = None,
) -> pd.DataFrame:
    """Posterior of a functional of the conditional distribution; see `MCMCResult.predict`."""
    if isinstance(newdata, str):
        raise ValueError(f"newdata must be a DataFrame, not {newdata!r}; did you mean kind={newdata!r}?")
    if not (isinstance(kind, str) and kind in KINDS):
        near = difflib.get_close_matches(str(kind), KINDS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"unknown kind {kind!r}; there are {', '.join(map(repr, KINDS))}{hint}")
    if isinstance(interval, bool) or not isinstance(interval, Real) or not 0 < interval < 1:
        raise ValueError(f"interval must be between 0 and 1, not {interval!r}.")
    if kind not in ("density", "cdf") and at is not None:
        raise ValueError(f'at belongs to kind="density" and "cdf"; a {kind} has no points.')
    if kind == "cluster" and response is not None:
        raise ValueError("a cluster has all responses; leave response= out.")
    size = count("draws", draws, 1)
    seed = default_seed(fit) if rng is None else seed_sequence(rng)
    chosen = _chosen(fit.model, response)
    named = fit.model.n_dim > 1 if response is None else not isinstance(response, str)
    target = targets(fit.model, newdata)
    query = Query(fit, newdata, target, chosen, named, float(interval), size, seed)
    with announced():
        if kind == "mean":
            return _mean(query)
        if kind == "quantile":
            return _quantile(query, q)
        if kind == "cluster":
            return _cluster(query)
        return _curve(query, kind, at, joint=kind == "density" and response is None and fit.model.n_dim > 1)


def log_density(fit: MCMCResult, newdata: Any = None, draws: int | None = 1000) -> pd.Series:
    """Log of the posterior mean density of each row's own response; see `MCMCResult.log_density`."""
    target, y = targets(fit.model, newdata), _own_responses(fit.model, newdata)
    if y is None:
        raise ValueError(f"newdata has no {_lacking(fit.model, newdata)}; log_density needs the response.")
    replay = Replay(fit, None if draws is None else count("draws", draws, 1))
    ok = np.flatnonzero((target.row >= 0) & np.isfinite(y).all(axis=1))
    out = np.full(len(y), np.nan)
    with announced():
        for part in parts(len(ok), 8 * 4 * (int(fit.draws["n_clusters"].max()) + 1)):
            rows = ok[part]
            total = np.full(len(rows), -np.inf)
            for terms in log_terms(replay, target.take(rows), y[rows]):
                total = np.logaddexp(total, logsumexp(terms, axis=1))
            out[rows] = total - np.log(len(replay))
    return pd.Series(out, index=target.index, name="log_density")


# ---- kinds


def _mean(query: Query) -> pd.DataFrame:
    table = query.everywhere(Mean(query.replay(), query.responses))
    blocks, of = query.model.blocks, query.model.blocks.mean_responses()
    names = np.array([name for j in query.responses for name in np.array(blocks.mean_names())[of == j]])
    return _of_rows(query, table, {"response": names} if query.named or len(names) > 1 else {})


def _quantile(query: Query, q: Any) -> pd.DataFrame:
    """Quantiles of the averaged cdf, and of each draw's cdf for the band."""
    probabilities = np.atleast_1d(reals(q, "q"))
    if probabilities.ndim != 1 or not len(probabilities) or not ((probabilities > 0) & (probabilities < 1)).all():
        raise ValueError(f"q must hold probabilities between 0 and 1, not {q!r}.")
    table = query.everywhere(Quantile(query.replay(), query.responses, probabilities))
    levels = _levels(query, np.repeat(query.responses, len(probabilities)))
    return _of_rows_or_alone(query, table, levels | {"q": np.tile(probabilities, len(query.responses))})


def _curve(query: Query, kind: str, at: Any, joint: bool) -> pd.DataFrame:
    """Density or cdf: at each row's own response, or of every row at every point."""
    model, replay = query.model, query.replay()
    n, each = len(query.target.index), 1 if joint else len(query.responses)

    def functional(points: np.ndarray, responses: np.ndarray) -> Functional:
        if joint or (kind == "density" and model.n_dim == 1):
            return Density(replay, points)
        return (MarginalDensity if kind == "density" else Cdf)(replay, points[:, 0], responses)

    def levels(points: np.ndarray, responses: np.ndarray) -> dict[str, np.ndarray]:
        if joint:
            return dict(zip(query.names, points.T, strict=True))
        return _levels(query, responses) | {"y": points[:, 0]}

    own = query.own() if at is None else None
    if own is None:
        points = _grid(query, joint) if at is None else _points(at, len(query.responses))
        responses = np.repeat(query.responses, len(points))
        points = points if joint else points.T.reshape(-1, 1)  # one response after the other
        return _of_rows_or_alone(query, query.everywhere(functional(points, responses)), levels(points, responses))
    points = own if joint else own[:, query.responses].reshape(-1, 1)
    responses, rows = np.tile(query.responses, n), np.repeat(np.arange(n), each)
    ok = np.flatnonzero((query.target.row[rows] >= 0) & np.isfinite(points).all(axis=1))
    table = np.full((len(rows), 3), np.nan)
    table[ok] = at_rows(
        lambda part: functional(points[ok[part]], responses[ok[part]]), rows[ok], replay, query.target, query.interval, query.seed
    )
    return _frame(table, _index(query.target.index, each, levels(points, responses)))


def _cluster(query: Query) -> pd.DataFrame:
    if query.newdata is None:
        return membership.of_training_rows(query.fit, query.draws)
    y = query.own()
    if y is None:
        lacking = _lacking(query.model, query.newdata)
        raise ValueError(f'newdata has no {lacking}; kind="cluster" needs the responses of the rows.')
    return membership.of_rows(query.fit, query.target, y, query.draws)


# ---- responses and points


def _chosen(model: Model, response: Any) -> np.ndarray:
    """Numbers of the responses asked for."""
    names = list(model.frame.response_names)
    if response is None:
        return np.arange(len(names))
    if not isinstance(response, Iterable):
        raise TypeError(f"response must be the name of a response or a sequence of names, not {response!r}.")
    given = [response] if isinstance(response, str) else list(response)
    if not given:
        raise ValueError(f"response is empty; the responses are {', '.join(names)}.")
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(str(name), names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise ValueError(f"unknown response {name!r}; the responses are {', '.join(names)}{hint}")
        if given.count(name) > 1:
            raise ValueError(f"response {name!r} stands twice; give it once.")
    return np.array([names.index(name) for name in given])


def _own_responses(model: Model, newdata: Any, which: Iterable[int] | None = None) -> np.ndarray | None:
    return model.frame.response if newdata is None else model.frame.new_response(newdata, which)


def _lacking(model: Model, newdata: Any) -> str:
    """The columns of responses that new data with all covariates do not have."""
    return ", ".join(name for name in model.frame.source if name not in as_frame(newdata, allow_empty=True))


def _points(at: Any, k: int) -> np.ndarray:
    """(m, k) points of k responses."""
    points = reals(at, "at")
    if points.ndim <= 1:
        points = points.reshape(-1, 1) if k == 1 else points.reshape(1, -1)
    if points.ndim != 2 or points.shape[1] != k or len(points) == 0:
        wanted = "(m,)" if k == 1 else f"(m, {k})"
        raise ValueError(f"at must have shape {wanted} with m >= 1, not {np.shape(at)}.")
    if not np.isfinite(points).all():
        raise ValueError("at must be finite.")
    return points


def _grid(query: Query, joint: bool) -> np.ndarray:
    """(GRID, k): over the range of each response and a tenth more on either side."""
    if joint:
        raise ValueError(f"newdata has no {_lacking(query.model, query.newdata)}; give the points of the joint density as at=.")
    y = query.model.frame.response[:, query.responses]
    margin = 0.1 * np.ptp(y, axis=0)
    return np.linspace(y.min(axis=0) - margin, y.max(axis=0) + margin, GRID)


# ---- tables


def _levels(query: Query, responses: np.ndarray) -> dict[str, np.ndarray]:
    return {"response": query.names[responses]} if query.named else {}


def _of_rows_or_alone(query: Query, table: np.ndarray, levels: dict[str, np.ndarray]) -> pd.DataFrame:
    """A mixture without new data has one distribution: no rows to tell apart."""
    if query.newdata is not None or query.model.is_regression:
        return _of_rows(query, table, levels)
    if len(levels) == 1:
        ((name, values),) = levels.items()
        return _frame(table, pd.Index(values, name=name))
    return _frame(table, pd.MultiIndex.from_arrays(list(levels.values()), names=list(levels)))


def _of_rows(query: Query, table: np.ndarray, levels: dict[str, np.ndarray]) -> pd.DataFrame:
    """Values (R, W, 3) of distinct covariate rows as those of the caller's rows; NaN where a covariate is missing."""
    row, index = query.target.row, query.target.index
    out = np.full((len(row), *table.shape[1:]), np.nan)
    out[row >= 0] = table[row[row >= 0]]
    if not levels:
        return _frame(out, index)
    return _frame(out, _index(index, table.shape[1], {name: np.tile(values, len(row)) for name, values in levels.items()}))


def _index(index: pd.Index, each: int, levels: dict[str, np.ndarray]) -> pd.MultiIndex:
    """Every row of the caller `each` times, with levels added."""
    position = np.repeat(np.arange(len(index)), each)
    own = [index.get_level_values(level)[position] for level in range(index.nlevels)]
    return pd.MultiIndex.from_arrays([*own, *levels.values()], names=[*index.names, *levels])


def _frame(table: np.ndarray, index: pd.Index) -> pd.DataFrame:
    return pd.DataFrame(table.reshape(-1, 3), index=index, columns=["estimate", "lower", "upper"])
