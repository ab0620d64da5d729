"""Differences of predictions between values of a column, under the same draws of the random measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nrmmix.common.compiling import announced
from nrmmix.common.messages import count, did_you_mean, listed, plain, probability, shown
from nrmmix.common.names import meant
from nrmmix.common.seeds import prediction_seed
from nrmmix.posterior.predict.functionals import Functional, over_combined
from nrmmix.posterior.predict.points import (
    check_marginal,
    given_points,
    label,
    names_of_means,
    probabilities_of_quantiles,
    response_columns,
)
from nrmmix.posterior.predict.rows import insist_in_memory, prediction_rows
from nrmmix.posterior.predict.states import States, states_of
from nrmmix.posterior.predict.tables import OF_POINTS, QUANTILES, check_points, table_of
from nrmmix.posterior.predict.units import PROBABILITIES, Units

if TYPE_CHECKING:
    from nrmmix.model.specification import Specification
    from nrmmix.posterior.kernel_factors import AnyPosterior

KINDS = ("mean", "quantile", *OF_POINTS)


def contrasts(
    posterior: AnyPosterior,
    values: Any,
    kind: str = "mean",
    *,
    at: Any = None,
    q: Any = QUANTILES,
    interval: float = 0.9,
    draws: int = 500,
    rng: Any = None,
    response: str | Sequence[str] | None = None,
    units: str = "formula",
) -> pd.DataFrame:
    """See `nrmmix.MCMCResult.contrasts`."""
    model = posterior.specification
    if kind not in KINDS:
        raise ValueError(f"contrasts are of {listed(map(repr, KINDS))}, not of {kind!r}{did_you_mean(kind, KINDS)}")
    insist_in_memory(model, None, "contrasts hold columns at their typical values")
    check_points(kind, at, q)
    if kind in OF_POINTS and at is None:
        raise ValueError(f"contrasts of a {kind} need points: give at=.")
    share, size = probability("interval", interval), count("draws", draws, 1)
    name, newdata = _rows_of_contrast(model, values)
    rows, responses = prediction_rows(model, newdata), response_columns(model, response)
    named = model.n_dim > 1 if response is None else not isinstance(response, str)
    seed = prediction_seed(posterior.seed, rng)
    pairs = np.array(list(combinations(range(len(newdata)), 2)))
    known = (rows.row[pairs] >= 0).all(axis=1)
    first, second = rows.row[pairs[known]].T
    differences = lambda values: values[..., second, :] - values[..., first, :]  # noqa: E731
    with announced():
        states = states_of(posterior, size)
        make, W, levels, changed = _functional(states, kind, responses, named, at, q, Units(model, units, responses))
        table = np.full((len(pairs), W, 3), np.nan)  # of pairs with a missing value
        if known.any():
            table[known] = changed(over_combined(make, W, states, rows, differences, share, seed))
    shown = [f"{plain(newdata[name].iloc[b])} - {plain(newdata[name].iloc[a])}" for a, b in pairs]
    return table_of(table, pd.Index(shown, name="contrast"), levels)


def averaged(
    posterior: AnyPosterior, newdata: pd.DataFrame, size: int, *, response: str, interval: float = 0.9, draws: int = 500,
    rng: Any = None, kind: str = "mean", at: Any = None, q: Any = None, units: str = "formula",
) -> np.ndarray:
    """(groups, W, 3): a functional of a response and its band, averaged over each `size` rows of new data that follow one another."""
    model = posterior.specification
    rows, responses = prediction_rows(model, newdata), response_columns(model, response)
    share, limit = probability("interval", interval), count("draws", draws, 1)
    seed = prediction_seed(posterior.seed, rng)
    groups = rows.row.reshape(-1, size)
    averages = lambda values: np.stack([values[..., group, :].mean(axis=-2) for group in groups], axis=-2)  # noqa: E731
    with announced():
        states = states_of(posterior, limit)
        make, W, _, changed = _functional(states, kind, responses, False, at, q, Units(model, units, responses), averages=True)
        return changed(over_combined(make, W, states, rows, averages, share, seed))


def _functional(
    states: States, kind: str, responses: np.ndarray, named: bool, at: Any, q: Any, units: Units, averages: bool = False
) -> tuple[Any, int, dict[str, np.ndarray], Any]:
    """Return what makes the functional, how many values it has, what tells them apart, and what is made of their table.

    The table is of differences, of which 1 - p has the other sign, or with `averages` of averages.
    """
    model = states.model
    names = np.array(model.frame.response_names)
    if kind == "mean":
        means = names_of_means(model, responses)
        units.insist_on_means(say=not averages)
        levels = {"response": means} if named or len(means) > 1 else {}
        return (lambda inputs: units.mean(states, responses, inputs)), len(means), levels, lambda table: table
    check_marginal(model, responses, kind)
    if kind == "quantile":
        probabilities = probabilities_of_quantiles(q)
        W = len(responses) * len(probabilities)
        levels = {"response": np.repeat(names[responses], len(probabilities))} if named else {}
        levels["q"] = np.tile(probabilities, len(responses))
        return (lambda inputs: units.quantile(states, responses, probabilities, inputs)), W, levels, lambda table: table
    given = given_points(model, at, responses, units.back)
    of_points, values = np.repeat(responses, len(given)), units.points(given, responses, kind).T.ravel()
    levels = {"response": names[of_points]} if named else {}

    def make(inputs: np.ndarray) -> Functional:
        return OF_POINTS[kind](units.evaluated(kind, values, of_points), of_points, inputs)

    def changed(table: np.ndarray) -> np.ndarray:
        found = units.changed(kind, table, values, of_points)
        falls = [not units.back[int(j)].increases if int(j) in units.back else False for j in of_points]
        if not averages and kind in PROBABILITIES and any(falls):
            found[..., falls, :] -= 1.0
        return found

    return make, len(values), levels | {"y": label(model, of_points, given.T.ravel())}, changed


def _rows_of_contrast(model: Specification, values: Any) -> tuple[str, pd.DataFrame]:
    """The column that varies, and new data in which the others are held."""
    frame = model.frame
    columns = dict.fromkeys([*frame.covariate_columns, *frame.input_columns])
    if not columns:
        raise ValueError("the distribution depends on no column, so that there is nothing to contrast; write `response ~ covariate`.")
    if not isinstance(values, Mapping) or not values:
        raise ValueError(f"values must be a dict such as {{{next(iter(columns))!r}: [a, b]}}, not {shown(values)}.")
    values = {meant(name, columns) or name: some for name, some in values.items()}
    for name in values:
        if name not in columns:
            raise ValueError(f"the distribution does not depend on {name!r}, but on {listed(columns)}{did_you_mean(name, columns)}")
    given = {name: [value] if np.ndim(value) == 0 else list(value) for name, value in values.items()}
    varied = [name for name, some in given.items() if len(some) != 1]
    if len(varied) != 1 or not given[varied[0]]:
        what = f"{listed(map(repr, varied))} have" if len(varied) > 1 else "no column has"
        raise ValueError(f"{what} several values; give two or more to one column, and one to others that you name.")
    (name,) = varied
    held = {other: frame.typical_value(other) for other in columns if other not in given}
    size = len(given[name])
    return name, pd.DataFrame(
        {other: list(given[other]) if other == name else [given[other][0] if other in given else held[other]] * size for other in columns}
    )
