"""Predictions as tables: which functional of the posterior is asked for, at which rows and points, and the index of the answer.

Estimates are Rao-Blackwell means over draws: weights and component densities with everything integrated out that can be.  Bands are
quantiles over draws of the random measure itself: atoms' weights and parameters drawn, those of unseen atoms included; they reach to
estimates that lie outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from nrmmix.common.compiling import announced
from nrmmix.common.messages import count, known_name, listed, one_of, probability
from nrmmix.common.seeds import prediction_seed, seed_sequence
from nrmmix.common.warnings import warn
from nrmmix.model.families.base import rows_of
from nrmmix.model.frame.arrays import reals
from nrmmix.model.frame.whole import is_file
from nrmmix.model.replicates import parts
from nrmmix.model.specification import Specification
from nrmmix.posterior.given import ConditionedStates, DensityGiven, Known, MeanGiven, known_responses, known_values, over_known
from nrmmix.posterior.kernel_factors import AnyPosterior
from nrmmix.posterior.predict import membership
from nrmmix.posterior.predict.densities import log_terms
from nrmmix.posterior.predict.functionals import (
    Cdf,
    Density,
    Exceedance,
    Functional,
    Hazard,
    MarginalDensity,
    over_cases,
    over_rows,
)
from nrmmix.posterior.predict.points import check_marginal, given_points, grid, label, response_columns
from nrmmix.posterior.predict.rows import PredictionRows, limits_of_rows, observed, prediction_rows
from nrmmix.posterior.predict.states import States, states_of
from nrmmix.posterior.predict.units import Units

KINDS = ("mean", "density", "cdf", "exceedance", "survival", "hazard", "quantile", *membership.KINDS)
OF_POINTS = {"density": MarginalDensity, "cdf": Cdf, "exceedance": Exceedance, "survival": Exceedance, "hazard": Hazard}
OF_CLUSTERS = {"cluster": membership.of_rows, "membership": membership.table_of_rows}
AT_OWN = ("density", "cdf")  # which are of the row's own response where there are no points
AVERAGES = ("density", "log")
UNITS = {  # of predictions, in their `attrs["units"]`
    **dict.fromkeys(("mean", "quantile"), "those of the response; of binary responses and categories probabilities, of shares shares"),
    "density": "probability per unit of each response; of counts, categories and point masses probabilities",
    "hazard": "events per unit of the response",
    **dict.fromkeys(("cdf", "exceedance", "survival", *membership.KINDS), "probabilities"),
}


@dataclass(frozen=True)
class Query:
    """Query of a prediction: what it is of."""

    posterior: AnyPosterior
    newdata: Any
    rows: PredictionRows
    responses: np.ndarray  # (k,) numbers of the responses asked for
    named: bool  # whether the index tells them apart
    interval: float
    draws: int
    seed: np.random.SeedSequence
    units: Units

    @property
    def model(self) -> Specification:
        return self.posterior.specification

    @property
    def names(self) -> np.ndarray:
        return np.array(self.model.frame.response_names)

    def states(self) -> States:
        return states_of(self.posterior, self.draws)

    def over_cases(self, make: Callable[[np.ndarray], Functional], W: int, states: States) -> np.ndarray:
        return over_cases(make, W, states, self.rows, self.interval, self.seed)


def predict(
    posterior: AnyPosterior, newdata: Any = None, kind: str = "mean", *, at: Any = None, q: Any = (0.05, 0.5, 0.95),
    interval: float = 0.9, draws: int = 500, rng: Any = None, response: str | Sequence[str] | None = None,
    given: str | Sequence[str] | None = None, units: str = "formula", estimate: Callable[[], np.ndarray],
) -> pd.DataFrame:
    """Posterior of a functional of the conditional distribution; see `nrmmix.MCMCResult.predict`.

    `estimate` gives the labels of the point estimate of the partition, which `kind="cluster"` is about.
    """
    if isinstance(newdata, str) and not is_file(newdata):
        meant = f"did you mean kind={newdata!r}?" if newdata in KINDS else "there is no such file."
        raise ValueError(f"newdata must be a DataFrame, not {newdata!r}; {meant}")
    known_name("kind", kind, KINDS)
    share = probability("interval", interval)
    check_points(kind, at)
    if kind in membership.KINDS and response is not None:
        raise ValueError("a cluster has all responses; leave response= out.")
    model, size = posterior.specification, count("draws", draws, 1)
    seed = prediction_seed(posterior.seed) if rng is None else seed_sequence(rng)
    known = None if given is None else known_responses(model, given)
    if known is None:
        responses = response_columns(model, response)
        named = model.n_dim > 1 if response is None else not isinstance(response, str)
        _check_nothing_ignored(model, newdata, kind, at, responses)
    else:
        responses = _not_known(model, response, known)
        named = len(responses) > 1 if response is None else not isinstance(response, str)
    to = Units(model, units, () if kind in membership.KINDS else responses)
    if kind == "mean":
        if known is not None and not all(back.is_affine for back in to.back.values()):
            raise ValueError('units="response": means given some responses are those of the formula; take kind="quantile".')
        to.insist_on_means()
    query = Query(posterior, newdata, prediction_rows(model, newdata), responses, named, share, size, seed, to)
    with announced():
        table = _predicted(query, kind, known, at, q, response, estimate)
    table.attrs["units"] = UNITS[kind] + (f", in the units of {listed(back.column for back in to.back.values())}" if to.back else "")
    return table


def _predicted(
    query: Query, kind: str, known: np.ndarray | None, at: Any, q: Any, response: Any, estimate: Callable[[], np.ndarray]
) -> pd.DataFrame:
    model = query.model
    if known is not None:
        y = known_values(model, query.newdata, known)
        if kind in membership.KINDS:
            return OF_CLUSTERS[kind](query.states(), estimate(), query.rows, y)
        return _given(query, kind, known, y, at, q, kind == "density" and response is None and len(query.responses) > 1)
    if kind == "mean":
        return _mean(query)
    if kind == "quantile":
        return _quantile(query, q)
    if kind in membership.KINDS:
        return _cluster(query, kind, estimate)
    return _curve(query, kind, at, joint=kind == "density" and response is None and model.n_dim > 1)


def check_points(kind: str, at: Any) -> None:
    """Refuse points where a functional has none, and an exceedance without them."""
    if kind not in OF_POINTS and at is not None:
        raise ValueError(f'at belongs to kind="density", "cdf" and "exceedance", also "survival" and "hazard"; a {kind} has no points.')
    if kind == "exceedance" and at is None:
        raise ValueError('kind="exceedance" is the probability that the response is larger than something; say what by at=.')


def log_density(
    posterior: AnyPosterior, newdata: Any = None, draws: int | None = 1000, average: str = "density"
) -> pd.Series:
    """Log of the posterior mean density of each row's own response, or mean of its log; see `MCMCResult.log_density`."""
    one_of("average", average, AVERAGES)
    model = posterior.specification
    rows, y = prediction_rows(model, newdata), _own_responses(model, newdata)
    if y is None:
        raise ValueError(f"newdata has no {_lacking(model, newdata)}; log_density needs the response.")
    states = states_of(posterior, None if draws is None else count("draws", draws, 1))
    limits = limits_of_rows(model, newdata)
    ok = np.flatnonzero((rows.row >= 0) & observed(y, limits))
    out = np.full(len(rows.index), np.nan)
    with announced():
        for part in parts(len(ok), 8 * 4 * (states.most_clusters + 1)):
            some = ok[part]
            total = np.full(len(some), -np.inf) if average == "density" else np.zeros(len(some))
            with rows_of(rows.index, some):
                for terms in log_terms(states, rows.take(some), y[some], None if limits is None else limits[some]):
                    one = logsumexp(terms, axis=1)
                    total = np.logaddexp(total, one) if average == "density" else total + one
            out[some] = total - np.log(len(states)) if average == "density" else total / len(states)
    return pd.Series(out, index=rows.index, name="log_density")


# ---- kinds

def _mean(query: Query) -> pd.DataFrame:
    states, blocks = query.states(), query.model.blocks
    of, every = blocks.mean_responses(), np.array(blocks.mean_names(), dtype=object)
    names = np.concatenate([every[of == j] for j in query.responses])
    table = query.over_cases(lambda inputs: query.units.mean(states, query.responses, inputs), len(names), states)
    if query.model.frame.is_sparse:  # the same in every row
        return _frame(table[0], pd.Index(names, name="response"))
    return _of_rows(query, table, {"response": names} if query.named or len(names) > 1 else {})


def _quantile(query: Query, q: Any) -> pd.DataFrame:
    """Quantiles of the averaged cdf, and of each draw's cdf for the band."""
    probabilities = _probabilities(q)
    check_marginal(query.model, query.responses, "quantile")
    states, W = query.states(), len(query.responses) * len(probabilities)
    table = query.over_cases(lambda inputs: query.units.quantile(states, query.responses, probabilities, inputs), W, states)
    levels = _levels(query, np.repeat(query.responses, len(probabilities)))
    return _of_rows_or_alone(query, table, levels | {"q": np.tile(probabilities, len(query.responses))})


def _probabilities(q: Any) -> np.ndarray:
    probabilities = np.atleast_1d(reals(q, "q"))
    if probabilities.ndim != 1 or not len(probabilities) or not ((probabilities > 0) & (probabilities < 1)).all():
        raise ValueError(f"q must hold probabilities between 0 and 1, not {q!r}.")
    return probabilities


def _curve(query: Query, kind: str, at: Any, joint: bool) -> pd.DataFrame:
    """Density or cdf: at each row's own response, or of every row at every point."""
    model, states = query.model, query.states()
    if not joint:
        check_marginal(model, query.responses, kind)
    if joint and model.frame.is_sparse and at is not None:
        raise ValueError("a density of sparse counts is that of rows: give the rows as newdata=, not at=.")

    def functional(points: Any, responses: np.ndarray, inputs: np.ndarray, matched: bool = False) -> Functional:
        if joint or (kind == "density" and model.n_dim == 1):
            return Density(states, points, inputs, matched)
        return OF_POINTS[kind](query.units.evaluated(kind, points[:, 0], responses), responses, inputs, matched)

    def levels(points: Any, responses: np.ndarray) -> dict[str, np.ndarray]:
        if model.frame.is_sparse:
            return {}
        if joint:
            of = [np.full(len(points), j) for j in range(model.n_dim)]
            return {name: label(model, of[j], query.units.shown(points[:, j], of[j])) for j, name in enumerate(query.names)}
        return _levels(query, responses) | {"y": label(model, responses, query.units.shown(points[:, 0], responses))}

    def in_units(table: np.ndarray, points: Any, responses: np.ndarray) -> np.ndarray:
        if not query.units.back:
            return table
        if joint:
            return table * query.units.jacobian(points, responses)[:, None]
        return query.units.changed(kind, table, points[:, 0], responses)

    own = _own_responses(model, query.newdata, query.responses) if at is None and kind in AT_OWN else None
    if own is None:
        if joint and at is None:
            raise ValueError(f"newdata has no {_lacking(model, query.newdata)}; give the points of the joint density as at=.")
        given = None if at is None else query.units.points(given_points(model, at, query.responses), query.responses)
        if joint:
            assert given is not None
            points, responses = given, query.responses
        else:  # one response after the other
            columns = [grid(model, j) for j in query.responses] if given is None else list(given.T)
            points, responses = np.concatenate(columns)[:, None], np.repeat(query.responses, list(map(len, columns)))
        table = query.over_cases(lambda inputs: functional(points, responses, inputs), len(points), states)
        return _of_rows_or_alone(query, in_units(table, points, responses), levels(points, responses))
    n, each = len(query.rows.index), 1 if joint else len(query.responses)
    points = own if joint else own[:, query.responses].reshape(-1, 1)
    responses, positions = query.responses if joint else np.tile(query.responses, n), np.repeat(np.arange(n), each)
    ok = np.flatnonzero((query.rows.row[positions] >= 0) & observed(points))
    table = np.full((len(positions), 3), np.nan)

    def of_rows(part: np.ndarray, inputs: np.ndarray) -> Functional:
        with rows_of(query.rows.index, positions[ok[part]]):
            return functional(points[ok[part]], responses if joint else responses[ok[part]], inputs, True)

    table[ok] = over_rows(of_rows, positions[ok], states, query.rows, query.interval, query.seed)
    return _frame(in_units(table, points, responses), _index(query.rows.index, each, levels(points, responses)))


def _cluster(query: Query, kind: str, estimate: Callable[[], np.ndarray]) -> pd.DataFrame:
    if query.newdata is None:
        own = membership.of_training_rows if kind == "cluster" else membership.training_table
        return own(query.states(), estimate())
    y = _own_responses(query.model, query.newdata, query.responses)
    if y is None:
        lacking = _lacking(query.model, query.newdata)
        raise ValueError(f'newdata has no {lacking}; kind="{kind}" needs the responses of the rows.')
    limits = limits_of_rows(query.model, query.newdata, query.responses)
    return OF_CLUSTERS[kind](query.states(), estimate(), query.rows, y, limits)


def _given(query: Query, kind: str, known: np.ndarray, y: np.ndarray, at: Any, q: Any, joint: bool) -> pd.DataFrame:
    """A functional of the responses that are not known, of rows that are known to hold y (rows, d)."""
    model, states, wanted = query.model, query.states(), query.responses
    complete, points = ~np.isnan(y[:, known]).any(axis=1), None
    if kind == "mean":
        of, every = model.blocks.mean_responses(), np.array(model.blocks.mean_names(), dtype=object)
        names = np.concatenate([every[of == j] for j in wanted])
        levels = {"response": names} if query.named or len(names) > len(wanted) else {}
    elif kind == "quantile":
        probabilities = _probabilities(q)
        check_marginal(model, wanted, "quantile")
        levels = _levels(query, np.repeat(wanted, len(probabilities))) | {"q": np.tile(probabilities, len(wanted))}
    else:
        if not joint and not (kind == "density" and model.n_dim - known.sum() == 1):
            check_marginal(model, wanted, kind)
        points, own = _points_given(query, kind, known, at, joint)
        if own:
            complete &= ~np.isnan(points).any(axis=(1, 2))
    of_rows = wanted if joint or points is None else np.repeat(wanted, points.shape[1])
    positions = np.flatnonzero((query.rows.row >= 0) & complete)

    def make(part: np.ndarray, of_part: Known, rows: PredictionRows) -> Functional:
        each = np.zeros((len(part), 1))  # rows have laws of their own
        if kind == "mean":
            return MeanGiven(model, wanted)
        if kind == "quantile":
            conditioned = ConditionedStates(states, of_part, rows)
            return query.units.quantile(conditioned, wanted, probabilities, each, conditioned.relevant)
        assert points is not None
        some = points[positions[part]] if len(points) > 1 else np.repeat(points, len(part), axis=0)
        if joint or (kind == "density" and model.n_dim - known.sum() == 1):
            whole = np.repeat(of_part.y[:, None, :], some.shape[1], axis=1)
            whole[:, :, wanted] = some
            return DensityGiven(states, of_part, whole)
        flat = some.swapaxes(1, 2).reshape(len(part), -1)
        return OF_POINTS[kind](np.stack([query.units.evaluated(kind, row, of_rows) for row in flat]), of_rows, each)

    found = over_known(make, y, positions, states, query.rows, query.interval, query.seed) if len(positions) else None
    if points is not None:
        m = points.shape[1]
        at_each = np.broadcast_to(points, (len(y), m, len(wanted)))
        flat: np.ndarray
        if joint:
            flat = at_each.reshape(-1, len(wanted))
            shown = [query.units.shown(flat[:, a], np.full(len(flat), j)) for a, j in enumerate(wanted)]
            levels = {query.names[j]: label(model, np.full(len(flat), j), shown[a]) for a, j in enumerate(wanted)}
        else:
            flat = at_each.swapaxes(1, 2).reshape(-1)
            levels = {name: np.tile(values, len(y)) for name, values in _levels(query, of_rows).items()}
            levels |= {"y": label(model, np.tile(of_rows, len(y)), query.units.shown(flat, np.tile(of_rows, len(y))))}
        W = m if joint else m * len(wanted)
    else:
        W = max(len(values) for values in levels.values()) if levels else 1
        levels = {name: np.tile(values, len(y)) for name, values in levels.items()}
    out = np.full((len(y), W, 3), np.nan)
    if found is not None:
        out[positions] = found
    if query.units.back and points is not None:
        if joint:
            out *= query.units.jacobian(flat, wanted).reshape(len(y), W, 1)
        else:
            out = query.units.changed(kind, out.reshape(-1, 3), flat, np.tile(of_rows, len(y))).reshape(out.shape)
    elif query.units.back and kind == "mean":
        for a, j in enumerate(wanted):  # affine
            if int(j) in query.units.back:
                back = query.units.back[int(j)]
                out[:, a] = back.inverse(out[:, a][:, [0, 1, 2] if back.increases else [0, 2, 1]])
    return _frame(out, _index(query.rows.index, W, levels))


def _points_given(query: Query, kind: str, known: np.ndarray, at: Any, joint: bool) -> tuple[np.ndarray, bool]:
    """Points (rows, m, k) of the responses wanted, or (1, m, k) for all rows; and whether they are the rows' own responses."""
    model, wanted = query.model, query.responses
    if at is not None:
        return query.units.points(given_points(model, at, wanted), wanted)[None], False
    own = _own_responses(model, query.newdata, wanted) if kind in AT_OWN else None
    if own is not None:
        return own[:, wanted][:, None, :], True
    if len(wanted) > 1:
        lacking = [model.frame.response_names[j] for j in wanted]
        what = "the points of the joint density" if joint else "points"
        raise ValueError(f"newdata does not hold all of {listed(lacking)}; give {what} as at=, or name one by response=.")
    return grid(model, wanted[0])[None, :, None], False


# ---- responses

def _not_known(model: Specification, response: Any, known: np.ndarray) -> np.ndarray:
    """Numbers of the responses asked for, by default all that are not given."""
    responses = np.flatnonzero(~known) if response is None else response_columns(model, response)
    names = model.frame.response_names
    for j in responses[known[responses]]:
        others = listed(repr(names[i]) for i in np.flatnonzero(~known))
        raise ValueError(f"the response {names[j]!r} is given; ask for others by response=: {others}.")
    return responses


def _check_nothing_ignored(model: Specification, newdata: Any, kind: str, at: Any, responses: np.ndarray) -> None:
    """Refuse new data of a mixture that hold some of its responses where the prediction would not look at them; warn where they hold all.

    Where components have inputs, rows that hold all responses are taken for a test set: what is predicted differs by their inputs.
    """
    if newdata is None or model.is_regression or model.frame.is_sparse or kind in membership.KINDS:
        return
    there = [not model.frame.lacking(newdata, [j]) for j in range(model.n_dim)]
    if not any(there) or (kind in AT_OWN and at is None and all(there[j] for j in responses)):
        return
    if all(there):
        if not model.frame.input_columns:
            law = 'given= some of them for the law of the others, ' if model.n_dim > 1 else ""
            warn(
                f"the prediction is the same in every row: the {kind} of a mixture does not depend on the responses that newdata holds. "
                f'Take {law}kind="cluster" or fit.augment(newdata) for what the rows tell; or leave newdata out.'
            )
        return
    held = [name for name, one in zip(model.frame.response_names, there, strict=True) if one]
    some = held[0] if len(held) == 1 else held
    raise ValueError(
        f"newdata holds {listed(map(repr, held))}, on which this prediction would not depend: add given={some!r} for the law of the other "
        "responses given that, or leave newdata out for the law of all rows."
    )


def _own_responses(model: Specification, newdata: Any, which: Iterable[int] | None = None) -> Any:
    """(rows, d) responses of the rows, NaN where they are missing or censored; None where the new data have none."""
    return model.frame.seen if newdata is None else model.frame.new_response(newdata, which)


def _lacking(model: Specification, newdata: Any) -> str:
    """The columns of responses that new data with all covariates do not have."""
    return ", ".join(name for name in model.frame.source if name not in model.frame.rows_of(newdata))


# ---- tables

def _levels(query: Query, responses: np.ndarray) -> dict[str, np.ndarray]:
    return {"response": query.names[responses]} if query.named else {}


def _of_rows_or_alone(query: Query, table: np.ndarray, levels: dict[str, np.ndarray]) -> pd.DataFrame:
    """A mixture without inputs and new data has one distribution: no rows to tell apart."""
    if query.newdata is not None or query.model.is_regression or query.rows.has_inputs:
        return _of_rows(query, table, levels)
    if len(levels) == 1:
        ((name, values),) = levels.items()
        return _frame(table, pd.Index(values, name=name))
    return _frame(table, pd.MultiIndex.from_arrays(list(levels.values()), names=list(levels)))


def _of_rows(query: Query, table: np.ndarray, levels: dict[str, np.ndarray]) -> pd.DataFrame:
    """Values (cases, W, 3) as those of the caller's rows; NaN where a covariate or an input is missing."""
    row, index = query.rows.row, query.rows.index
    out = np.full((len(row), *table.shape[1:]), np.nan)
    out[row >= 0] = table[row[row >= 0]]
    if not levels:
        return _frame(out, index)
    return _frame(out, _index(index, table.shape[1], {name: np.tile(values, len(row)) for name, values in levels.items()}))


def _index(index: pd.Index, each: int, levels: dict[str, np.ndarray]) -> pd.Index:
    """Every row of the caller `each` times, with levels added."""
    position = np.repeat(np.arange(len(index)), each)
    if not levels:
        return index[position]
    own = [index.get_level_values(level)[position] for level in range(index.nlevels)]
    return pd.MultiIndex.from_arrays([*own, *levels.values()], names=[*index.names, *levels])


def _frame(table: np.ndarray, index: pd.Index) -> pd.DataFrame:
    return pd.DataFrame(table.reshape(-1, 3), index=index, columns=["estimate", "lower", "upper"])
