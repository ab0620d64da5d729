"""Predictions as tables: which functional of the posterior is asked for, at which rows and points, and the index of the answer.

Estimates are Rao-Blackwell means over draws: weights and component densities with everything integrated out that can be.  Bands are
quantiles over draws of the random measure itself: atoms' weights and parameters drawn, those of unseen atoms included; they reach to
estimates that lie outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from nrmmix.common.compiling import announced
from nrmmix.common.messages import count, known_word, listed, one_of, probability
from nrmmix.common.seeds import prediction_seed
from nrmmix.common.warnings import warn
from nrmmix.model.families.base import rows_of
from nrmmix.model.frame.rows import FittedRows, NewRows, Rows, read_rows
from nrmmix.model.frame.tables import names_of_levels
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
from nrmmix.posterior.predict.points import (
    check_marginal,
    given_points,
    grid,
    label,
    names_of_means,
    probabilities_of_quantiles,
    response_columns,
)
from nrmmix.posterior.predict.rows import PredictionRows, observed, prediction_rows
from nrmmix.posterior.predict.states import States, states_of
from nrmmix.posterior.predict.units import Units

KINDS = ("mean", "density", "cdf", "exceedance", "survival", "hazard", "quantile", *membership.KINDS)
OF_POINTS = {"density": MarginalDensity, "cdf": Cdf, "exceedance": Exceedance, "survival": Exceedance, "hazard": Hazard}
OF_CLUSTERS = {"cluster": membership.of_rows, "membership": membership.table_of_rows}
AT_OWN = ("density", "cdf")  # which are of the row's own response where there are no points
AVERAGES = ("density", "log")
QUANTILES = (0.05, 0.5, 0.95)  # that there are where none are asked for
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
    kind: str
    read: Rows
    rows: PredictionRows
    responses: np.ndarray  # (k,) numbers of the responses asked for
    known: np.ndarray | None  # (d,) those given which predictions are
    named: bool  # whether the index tells responses apart
    joint: bool  # whether the density is that of all of them together
    at: Any
    q: Any
    interval: float
    draws: int
    seed: np.random.SeedSequence
    units: Units
    estimate: Callable[[], np.ndarray]

    @property
    def model(self) -> Specification:
        return self.posterior.specification

    @property
    def names(self) -> np.ndarray:
        return np.array(self.model.frame.response_names)

    @property
    def means(self) -> np.ndarray:
        """Names of the means of the responses asked for."""
        return names_of_means(self.model, self.responses)

    def states(self) -> States:
        return states_of(self.posterior, self.draws)

    def over_cases(self, make: Callable[[np.ndarray], Functional], W: int, states: States) -> np.ndarray:
        return over_cases(make, W, states, self.rows, self.interval, self.seed)


def predict(
    posterior: AnyPosterior, read: Rows, kind: str, *, at: Any, q: Any, interval: float, draws: int, rng: Any,
    response: str | Sequence[str] | None, given: str | Sequence[str] | None, units: str, estimate: Callable[[], np.ndarray],
) -> pd.DataFrame:
    """Posterior of a functional of the conditional distribution; see `nrmmix.MCMCResult.predict`.

    `estimate` gives the labels of the point estimate of the partition, which `kind="cluster"` is about.
    """
    model = posterior.specification
    if isinstance(read.data, str) and not is_file(read.data):
        meant = f"did you mean kind={read.data!r}?" if read.data in KINDS else "there is no such file."
        raise ValueError(f"newdata must be a DataFrame, not {read.data!r}; {meant}")
    known_word("kind", kind, KINDS)
    share = probability("interval", interval)
    check_points(kind, at, q)
    if kind in membership.KINDS and response is not None:
        raise ValueError("a cluster has all responses; leave response= out.")
    size = count("draws", draws, 1)
    seed = prediction_seed(posterior.seed, rng)
    known = None if given is None else known_responses(model, given)
    if known is None:
        responses = response_columns(model, response)
        _check_nothing_ignored(model, read, kind, at, responses)
    else:
        responses = _not_known(model, response, known)
    named = len(responses) > 1 if response is None else not isinstance(response, str)
    to = Units(model, units, () if kind in membership.KINDS else responses)
    if kind == "mean":
        if known is not None and not all(back.is_affine for back in to.back.values()):
            raise ValueError('units="response": means given some responses are those of the formula; take kind="quantile".')
        to.insist_on_means()
    joint = kind == "density" and response is None and len(responses) > 1
    rows = prediction_rows(model, read)
    query = Query(posterior, kind, read, rows, responses, known, named, joint, at, q, share, size, seed, to, estimate)
    with announced():
        table = _answered(query)
    table.attrs["units"] = UNITS[kind] + (f", in the units of {listed(back.column for back in to.back.values())}" if to.back else "")
    return table


def _answered(query: Query) -> pd.DataFrame:
    if query.kind in membership.KINDS:
        return _cluster(query)
    if query.known is not None:
        return _given(query)
    if query.model.frame.is_sparse:
        return _of_sparse(query)
    return {"mean": _mean, "quantile": _quantile}.get(query.kind, _curve)(query)


def check_points(kind: str, at: Any, q: Any) -> None:
    """Refuse points where a functional has none, an exceedance without them, and probabilities of what is no quantile."""
    if kind != "quantile" and not (isinstance(q, tuple) and q == QUANTILES):
        raise ValueError(f'q belongs to kind="quantile", not to {kind!r}; the probability of the band is interval=.')
    if kind not in OF_POINTS and at is not None:
        raise ValueError(f'at belongs to kind="density", "cdf" and "exceedance", also "survival" and "hazard"; a {kind} has no points.')
    if kind == "exceedance" and at is None:
        raise ValueError('kind="exceedance" is the probability that the response is larger than something; say what by at=.')


def log_density(
    posterior: AnyPosterior, newdata: Any = None, draws: int | None = 1000, average: str = "density"
) -> pd.Series:
    """Log of the posterior mean density of each row's own response, or mean of its log; see `MCMCResult.log_density`."""
    one_of("average", average, AVERAGES)
    read = read_rows(posterior.specification.frame, newdata)
    rows, y = prediction_rows(posterior.specification, read), read.responses()
    if y is None:
        raise ValueError(f"newdata has no {', '.join(read.lacking())}; log_density needs the response.")
    states = states_of(posterior, None if draws is None else count("draws", draws, 1))
    limits = read.limits()
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
    return _of_rows(query, _means(query), {"response": query.means} if query.named or len(query.means) > 1 else {})


def _means(query: Query) -> np.ndarray:
    states = query.states()
    return query.over_cases(lambda inputs: query.units.mean(states, query.responses, inputs), len(query.means), states)


def _of_sparse(query: Query) -> pd.DataFrame:
    """Means of sparse counts, the same in every row, or densities of whole rows: single counts have no law of their own."""
    if query.kind == "mean":
        return _frame(_means(query)[0], pd.Index(query.means, name="response"))
    if not query.joint:
        check_marginal(query.model, query.responses, query.kind)
    if query.at is not None:
        raise ValueError("a density of sparse counts is that of rows: give the rows as newdata=, not at=.")
    states, counts = query.states(), query.read.responses(query.responses)
    make = lambda some, inputs: Density(states, counts[some], inputs, True)  # noqa: E731
    found = _over_own(query, states, counts, np.arange(len(query.rows.index)), make)
    return _frame(found, _index(query.rows.index, 1, {}))


def _quantile(query: Query) -> pd.DataFrame:
    """Quantiles of the averaged cdf, and of each draw's cdf for the band."""
    probabilities = probabilities_of_quantiles(query.q)
    check_marginal(query.model, query.responses, "quantile")
    states, W = query.states(), len(query.responses) * len(probabilities)
    table = query.over_cases(lambda inputs: query.units.quantile(states, query.responses, probabilities, inputs), W, states)
    levels = _levels(query, np.repeat(query.responses, len(probabilities)))
    return _of_rows_or_alone(query, table, levels | {"q": np.tile(probabilities, len(query.responses))})


def _curve(query: Query) -> pd.DataFrame:
    """Density or cdf: at each row's own response, or of every row at every point."""
    if not query.joint:
        check_marginal(query.model, query.responses, query.kind)
    own = query.read.responses(query.responses) if query.at is None and query.kind in AT_OWN else None
    return _at_points(query) if own is None else _at_own(query, own)


def _at_points(query: Query) -> pd.DataFrame:
    model, states = query.model, query.states()
    if query.joint and query.at is None:
        raise ValueError(f"newdata has no {', '.join(query.read.lacking())}; give the points of the joint density as at=.")
    given = None
    if query.at is not None:
        given = query.units.points(given_points(model, query.at, query.responses, query.units.back), query.responses, query.kind)
    if query.joint:
        assert given is not None
        points, responses = given, query.responses
    else:  # one response after the other
        columns = [grid(model, j) for j in query.responses] if given is None else list(given.T)
        points, responses = np.concatenate(columns)[:, None], np.repeat(query.responses, list(map(len, columns)))
    table = query.over_cases(lambda inputs: _of_points(query, states, points, responses, inputs), len(points), states)
    return _of_rows_or_alone(query, _in_units(query, table, points, responses), _levels_of_points(query, points, responses))


def _at_own(query: Query, own: np.ndarray) -> pd.DataFrame:
    """At responses (rows, d) of the rows themselves, those asked for one after the other or together."""
    states, n, each = query.states(), len(query.rows.index), 1 if query.joint else len(query.responses)
    points = own if query.joint else own[:, query.responses].reshape(-1, 1)
    responses, positions = query.responses if query.joint else np.tile(query.responses, n), np.repeat(np.arange(n), each)

    def make(some: np.ndarray, inputs: np.ndarray) -> Functional:
        return _of_points(query, states, points[some], responses if query.joint else responses[some], inputs, True)

    table = _in_units(query, _over_own(query, states, points, positions, make), points, responses)
    return _frame(table, _index(query.rows.index, each, _levels_of_points(query, points, responses)))


def _over_own(
    query: Query, states: States, points: Any, positions: np.ndarray, make: Callable[[np.ndarray, np.ndarray], Functional]
) -> np.ndarray:
    """(len(positions), 3): values at points, each of the row at its position; NaN where nothing is known of the point or the row."""
    ok = np.flatnonzero((query.rows.row[positions] >= 0) & observed(points))
    table = np.full((len(positions), 3), np.nan)

    def of_rows(part: np.ndarray, inputs: np.ndarray) -> Functional:
        with rows_of(query.rows.index, positions[ok[part]]):
            return make(ok[part], inputs)

    table[ok] = over_rows(of_rows, positions[ok], states, query.rows, query.interval, query.seed)
    return table


def _of_points(
    query: Query, states: States, points: np.ndarray, responses: np.ndarray, inputs: np.ndarray, matched: bool = False
) -> Functional:
    if query.joint or (query.kind == "density" and query.model.n_dim == 1):
        return Density(states, points, inputs, matched)
    return OF_POINTS[query.kind](query.units.evaluated(query.kind, points[:, 0], responses), responses, inputs, matched)


def _levels_of_points(query: Query, points: np.ndarray, responses: np.ndarray) -> dict[str, np.ndarray]:
    if query.joint:
        of = [(j, np.full(len(points), j), column) for j, column in zip(responses, points.T, strict=True)]
        return {query.names[j]: label(query.model, own, query.units.shown(column, own)) for j, own, column in of}
    return _levels(query, responses) | {"y": label(query.model, responses, query.units.shown(points[:, 0], responses))}


def _in_units(query: Query, table: np.ndarray, points: np.ndarray, responses: np.ndarray) -> np.ndarray:
    if not query.units.back:
        return table
    if query.joint:
        return table * query.units.jacobian(points, responses)[:, None]
    return query.units.changed(query.kind, table, points[:, 0], responses)


def _cluster(query: Query) -> pd.DataFrame:
    read, kind = query.read, query.kind
    if query.known is not None:
        return OF_CLUSTERS[kind](query.states(), query.estimate(), query.rows, known_values(read, query.known))
    if isinstance(read, FittedRows):
        own = membership.of_training_rows if kind == "cluster" else membership.training_table
        return own(query.states(), query.estimate())
    y = read.responses(query.responses)
    if y is None:
        raise ValueError(f'newdata has no {", ".join(read.lacking())}; kind="{kind}" needs the responses of the rows.')
    return OF_CLUSTERS[kind](query.states(), query.estimate(), query.rows, y, read.limits(query.responses))


def _given(query: Query) -> pd.DataFrame:
    """A functional of the responses that are not known, of rows that are known to hold some."""
    model, kind, wanted, known, joint = query.model, query.kind, query.responses, query.known, query.joint
    assert known is not None
    y, states = known_values(query.read, known), query.states()
    complete, points = ~np.isnan(y[:, known]).any(axis=1), None
    if kind == "mean":
        levels = {"response": query.means} if query.named or len(query.means) > len(wanted) else {}
    elif kind == "quantile":
        probabilities = probabilities_of_quantiles(query.q)
        check_marginal(model, wanted, "quantile")
        levels = _levels(query, np.repeat(wanted, len(probabilities))) | {"q": np.tile(probabilities, len(wanted))}
    else:
        if not joint and not (kind == "density" and model.n_dim - known.sum() == 1):
            check_marginal(model, wanted, kind)
        points, own = _points_given(query)
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
    if points is None:
        W = max(len(values) for values in levels.values()) if levels else 1
        levels = {name: np.tile(values, len(y)) for name, values in levels.items()}
    else:
        m, k = points.shape[1:]
        at_each = np.broadcast_to(points, (len(y), m, k))
        flat, W = (at_each.reshape(-1, k), m) if joint else (at_each.swapaxes(1, 2).reshape(-1, 1), m * k)
        of_flat = wanted if joint else np.tile(of_rows, len(y))
        levels = _levels_of_points(query, flat, of_flat)
    out = np.full((len(y), W, 3), np.nan)
    if found is not None:
        out[positions] = found
    if points is not None:
        out = _in_units(query, out.reshape(-1, 3), flat, of_flat).reshape(out.shape)
    elif kind == "mean":
        for a, j in enumerate(map(int, wanted)):  # affine
            if back := query.units.back.get(j):
                out[:, a] = back.inverse(out[:, a][:, [0, 1, 2] if back.increases else [0, 2, 1]])
    return _frame(out, _index(query.rows.index, W, levels))


def _points_given(query: Query) -> tuple[np.ndarray, bool]:
    """Points (rows, m, k) of the responses wanted, or (1, m, k) for all rows; and whether they are the rows' own responses."""
    model, wanted = query.model, query.responses
    if query.at is not None:
        return query.units.points(given_points(model, query.at, wanted, query.units.back), wanted, query.kind)[None], False
    own = query.read.responses(wanted) if query.kind in AT_OWN else None
    if own is not None:
        return own[:, wanted][:, None, :], True
    if len(wanted) > 1:
        lacking = [model.frame.response_names[j] for j in wanted]
        what = "the points of the joint density" if query.joint else "points"
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


def _check_nothing_ignored(model: Specification, read: Rows, kind: str, at: Any, responses: np.ndarray) -> None:
    """Refuse new data of a mixture that hold some of its responses where the prediction would not look at them; warn where they hold all.

    Where components have inputs, rows that hold all responses are taken for a test set: what is predicted differs by their inputs.
    """
    if isinstance(read, FittedRows) or model.is_regression or model.frame.is_sparse or kind in membership.KINDS:
        return
    there = [not read.lacking([j]) for j in range(model.n_dim)]
    if not any(there) or (kind in AT_OWN and at is None and all(there[j] for j in responses)):
        return
    if all(there):
        if not model.frame.input_columns:
            blocks = model.blocks.blocks
            parts = len(blocks) > 1 or (model.n_dim > 1 and not blocks[0].family.needs_totals)  # counts given their total go together
            law = "given= some of them for the law of the others, " if parts else ""
            warn(
                f"the prediction is the same in every row: the {kind} of a mixture does not depend on the responses that newdata holds. "
                f'Take {law}kind="cluster" or fit.augment(newdata) for what the rows tell; or leave newdata out.'
            )
        return
    present = [name for name, one in zip(model.frame.response_names, there, strict=True) if one]
    some = present[0] if len(present) == 1 else present
    raise ValueError(
        f"newdata holds {listed(map(repr, present))}, on which this prediction would not depend: add given={some!r} for the law of the "
        "other responses given that, or leave newdata out for the law of all rows."
    )


# ---- tables

def _levels(query: Query, responses: np.ndarray) -> dict[str, np.ndarray]:
    return {"response": query.names[responses]} if query.named else {}


def _of_rows_or_alone(query: Query, table: np.ndarray, levels: dict[str, np.ndarray]) -> pd.DataFrame:
    """A mixture without inputs and new data has one distribution: no rows to tell apart."""
    if isinstance(query.read, NewRows) or query.model.is_regression or query.rows.has_inputs:
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
    return table_of(out, index, levels)


def table_of(table: np.ndarray, index: pd.Index, levels: dict[str, np.ndarray]) -> pd.DataFrame:
    """Values (rows, W, 3), the W of each row told apart by levels."""
    if not levels:
        return _frame(table, index)
    return _frame(table, _index(index, table.shape[1], {name: np.tile(values, len(index)) for name, values in levels.items()}))


def _index(index: pd.Index, each: int, levels: dict[str, np.ndarray]) -> pd.Index:
    """Every row of the caller `each` times, with levels added."""
    position = np.repeat(np.arange(len(index)), each)
    if not levels:
        return index[position]
    own = [index.get_level_values(level)[position] for level in range(index.nlevels)]
    return pd.MultiIndex.from_arrays([*own, *levels.values()], names=names_of_levels(index, levels))


def _frame(table: np.ndarray, index: pd.Index) -> pd.DataFrame:
    return pd.DataFrame(table.reshape(-1, 3), index=index, columns=["estimate", "lower", "upper"])
