"""Responses and points of a prediction: what callers write, the default grids, and how points stand in tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common.messages import did_you_mean, listed, plain, shown
from nrmmix.common.names import meant
from nrmmix.model.families.distributions import point_masses
from nrmmix.model.frame.arrays import reals
from nrmmix.model.frame.columns.units import Back
from nrmmix.model.frame.tables import COUNT_BOUND
from nrmmix.model.specification import Specification
from nrmmix.posterior.predict.kernel_states import prior_distributions

GRID, MAX_COUNTS = 100, 1000  # points of the grid of a number, and most of one of counts


def response_columns(model: Specification, response: Any) -> np.ndarray:
    """Numbers of the responses asked for; None asks for all.

    A TypeError or ValueError if what is given is no name of a response, nor a sequence of names without repetition.
    """
    names = list(model.frame.response_names)
    if response is None:
        return np.arange(len(names))
    if not isinstance(response, Iterable):
        raise TypeError(f"response must be the name of a response or a sequence of names, not {response!r}.")
    given = [meant(name, names) or name for name in ([response] if isinstance(response, str) else response)]
    if not given:
        raise ValueError(f"response is empty; the responses are {listed(names)}.")
    for name in given:
        if name not in names:
            raise ValueError(f"unknown response {name!r}; the responses are {listed(names)}{did_you_mean(name, names)}")
        if given.count(name) > 1:
            raise ValueError(f"response {name!r} stands twice; give it once.")
    return np.array([names.index(name) for name in given])


def names_of_means(model: Specification, responses: np.ndarray) -> np.ndarray:
    """Names of the means of some responses; of one that has categories one for each level."""
    return np.array(model.blocks.mean_names(), dtype=object)[model.blocks.places_of_means(responses)]


def probabilities_of_quantiles(q: Any) -> np.ndarray:
    """Return the probabilities as an array; a ValueError where they are none."""
    probabilities = np.atleast_1d(reals(q, "q"))
    if probabilities.ndim != 1 or not len(probabilities) or not ((probabilities > 0) & (probabilities < 1)).all():
        raise ValueError(f"q must hold probabilities between 0 and 1, not {q!r}.")
    return probabilities


def why_not(model: Specification, kind: str) -> list[str | None]:
    """Say why each response has no marginal density, distribution function or quantile; None where it has.

    Examples
    --------
    >>> import nrmmix as nm
    >>> why_not(nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy()), "cdf")
    [None]
    """
    found: list[str | None] = []
    for distribution in prior_distributions(model):
        if distribution is None:
            found.append("has no law of its own: it is one of counts that share the total of their row")
        elif kind in ("cdf", "exceedance", "survival", "hazard", "quantile") and not distribution.ordered:
            what = {"quantile": "quantiles", "hazard": "hazard"}.get(kind, "distribution function")
            found.append(f"has categories without an order, and no {what}")
        elif kind == "hazard" and (distribution.discrete or len(point_masses(distribution))):
            found.append("has values with a probability of their own, and no hazard")
        else:
            found.append(None)
    return found


def check_marginal(model: Specification, responses: np.ndarray, kind: str) -> None:
    """Refuse responses of which there is no marginal of this kind."""
    reasons = why_not(model, kind)
    for j in responses:
        if reasons[j] is not None:
            name = model.frame.response_names[j]
            others = [model.frame.response_names[i] for i, why in enumerate(reasons) if why is None]
            instead = 'kind="mean", or the density of whole rows at their own counts'
            instead = 'kind="density"' if "categories" in reasons[j] else 'kind="survival"' if "hazard" in reasons[j] else instead
            hint = f", or response={others[0] if len(others) == 1 else others!r}" if others and len(responses) > 1 else ""
            if "categories" in reasons[j] and _is_ordered(model, int(j)):
                hint += f"; the order of {name!r} is not used by nm.Categorical(): add up the probabilities of its levels (kind='mean')"
            raise ValueError(f"the response {name!r} {reasons[j]}; use {instead}{hint}.")


def _is_ordered(model: Specification, j: int) -> bool:
    """Whether the column of a response with categories has an order."""
    source, (column, *_) = model.frame.source, model.frame.parts_of_responses[j].columns
    return isinstance(source, pd.DataFrame) and bool(getattr(source[column].dtype, "ordered", False))


# ---- points

def given_points(model: Specification, at: Any, responses: np.ndarray, back: Mapping[int, Back]) -> np.ndarray:
    """(m, k) points of k responses as kernels read them: categories by the number of their level.

    Columns of a table are those of the responses by name, or by the name of the column in whose units `back` has them.  A ValueError if
    `at` has another shape, holds no finite numbers, numbers that are no counts of a response that counts, or none of the levels of one that
    has categories.
    """
    k = len(responses)
    levels, kinds = [model.frame.levels[j] for j in responses], [model.frame.reads[j] for j in responses]
    if k > 1:
        names = model.frame.response_names
        at = _in_order(at, [(names[j], *([back[j].column] if j in back else [])) for j in map(int, responses)])
    if all(one is None for one in levels):
        points = reals(at, "at", booleans="binary" in kinds)
    else:
        points = at.to_numpy(object) if isinstance(at, (pd.DataFrame, pd.Series)) else np.array(at, dtype=object)
    if points.ndim <= 1:
        points = points.reshape(-1, 1) if k == 1 else points.reshape(1, -1)
    if points.ndim != 2 or points.shape[1] != k or len(points) == 0:
        wanted = "(m,)" if k == 1 else f"(m, {k})"
        one = f"; with response={model.frame.response_names[responses[0]]!r} points are of one response" if k > 1 else ""
        raise ValueError(f"at must have shape {wanted} with m >= 1, not {np.shape(at)}{one}.")
    columns = []
    for j, of_response, kind, column in zip(responses, levels, kinds, points.T, strict=True):
        name, binary = model.frame.response_names[j], kind == "binary"
        values = reals(column, "at", booleans=binary) if of_response is None else _codes(name, of_response, column)
        if not np.isfinite(values).all():
            raise ValueError("at must be finite.")
        most = 1 if binary else COUNT_BOUND - 1
        none = (values < 0) | (values != np.floor(values)) | (values > most)
        if kind in ("counts", "composition", "binary") and none.any():
            what = "0 or 1" if binary else "a whole number, 0 or more and less than 2^53"
            raise ValueError(f"at: the response {name!r} is {what}, not {values[none][0]:g}.")
        columns.append(values)
    return np.column_stack(columns)


def _in_order(at: Any, names: Sequence[tuple[str, ...]]) -> Any:
    """Points with columns in the order of the responses, each of which has some names; as they are where columns have no names."""
    if isinstance(at, Mapping):
        at = pd.DataFrame({name: np.atleast_1d(values) for name, values in at.items()})
    labels = at.columns if isinstance(at, pd.DataFrame) else at.index if isinstance(at, pd.Series) else ()
    if not any(isinstance(one, str) for one in labels):
        return at
    place: list[int] = []
    for own in names:
        found = [i for i, one in enumerate(labels) if meant(one, own) is not None]
        if len(found) != 1:
            raise ValueError(
                f"at has {'several columns' if found else 'no column'} {own[-1]!r}, but {listed(map(repr, labels))}; it needs one for each "
                "response, or an array with columns in their order."
            )
        place += found
    return at.iloc[:, place] if isinstance(at, pd.DataFrame) else at.iloc[place]


def _codes(name: str, levels: Sequence[Any], values: np.ndarray) -> np.ndarray:
    position = {level: code for code, level in enumerate(levels)}
    codes = np.empty(len(values))
    for i, value in enumerate(map(plain, values)):
        if value not in position:
            there = f"there are {listed(map(shown, levels))}{did_you_mean(value, levels)}"
            raise ValueError(f"at: {shown(value)} is no level of the response {name!r}; {there}")
        codes[i] = position[value]
    return codes


def grid(model: Specification, response: int) -> np.ndarray:
    """Points of a response: of a number its range and a tenth more on both sides, of a count whole numbers, of categories all levels.

    Numbers with a probability of their own are among them.
    """
    levels, y = model.frame.levels[response], model.frame.response[:, response]
    if levels is not None:
        return np.arange(float(len(levels)))
    if model.frame.reads[response] == "binary":
        return np.array([0.0, 1.0])
    y = y[~np.isnan(y)]
    margin = 0.1 * np.ptp(y)
    distribution = prior_distributions(model)[response]
    assert distribution is not None
    if not distribution.discrete:
        points, masses = np.linspace(y.min() - margin, y.max() + margin, GRID), point_masses(distribution)
        return np.union1d(points, masses) if len(masses) else points
    low, high = max(np.floor(y.min() - margin), min(0.0, y.min())), np.ceil(y.max() + max(margin, 1.0))
    return np.unique(np.rint(np.linspace(low, high, int(min(high - low + 1, MAX_COUNTS)))))


def label(model: Specification, responses: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points (m,) of responses (m,) as they stand in an index: levels for categories, whole numbers for counts."""
    levels, reads = model.frame.levels, model.frame.reads
    of = np.unique(responses)
    if all(levels[j] is None for j in of):
        whole = all(reads[j] in ("counts", "composition", "binary") for j in of) and np.isfinite(points).all()
        return points.astype(np.int64) if whole else points
    found = np.array(points, dtype=object)
    for j in of:
        own = np.flatnonzero(responses == j)
        if levels[j] is not None:
            for i in own:
                found[i] = levels[j][int(points[i])] if np.isfinite(points[i]) else np.nan
        elif reads[j] in ("counts", "composition", "binary"):
            found[own] = [int(value) if np.isfinite(value) else value for value in points[own]]
    return found
