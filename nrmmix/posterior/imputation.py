"""Missing cells drawn from the posterior, and what is expected of rows given the clusters that they are in.

In a draw of the posterior a row that was fitted is in a cluster.  The parameters of all clusters are drawn given their members, which is
what the observed cells say, and missing cells then have their law under the row's component given its observed cells: one more step of a
Gibbs sampler, which leaves the posterior as it is.  The cells of one draw belong together, those of different draws spread as the posterior
does, so that completed tables are proper multiple imputations (Rubin 1987, Multiple Imputation for Nonresponse in Surveys).  After
variational inference the component of a row and the parameters are drawn from q, under which they are independent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from nrmmix.common.compiling import announced
from nrmmix.common.messages import count, listed, probability
from nrmmix.common.seeds import prediction_seed
from nrmmix.model.families.base import rows_of
from nrmmix.model.frame.tables import as_frame, names_of_levels
from nrmmix.model.replicates import parts
from nrmmix.model.specification import Specification
from nrmmix.posterior.draws import Posterior
from nrmmix.posterior.factors import FactorPosterior
from nrmmix.posterior.given import Conditioned, Known, drawing, log_weights, torn_blocks
from nrmmix.posterior.kernel_factors import AnyPosterior
from nrmmix.posterior.predict.rows import CovariateWeights, PredictionRows, prediction_rows
from nrmmix.posterior.predict.states import SoftStates, States, joint_law, partitions_of, states_of

STATES = 500  # behind expectations and intervals


class Imputations(list):
    """Completed tables, one after the other as they were drawn, and a table of the cells.

    Attributes
    ----------
    cells : DataFrame
        One row for each missing cell, by the label of its row and the name of its response: estimate, the expected value given the other
        cells of the row, and lower and upper, between which it lies with the posterior probability asked for.  Of categories one row for
        each level, `colour[red]`, with its probability as estimate and no interval.
    """

    def __init__(self, tables: Sequence[pd.DataFrame], cells: pd.DataFrame) -> None:
        super().__init__(tables)
        self.cells = cells

    def __repr__(self) -> str:
        rows, columns = self[0].shape
        missing = self.cells.index.droplevel("response").nunique()
        return f"{len(self)} completed tables of {rows} rows and {columns} columns; {missing} rows had gaps: .cells has their intervals"


class Gaps(NamedTuple):
    """The rows that miss something, as kernels read them."""

    rows: np.ndarray  # (R,) positions
    y: np.ndarray  # (R, d), NaN where missing
    inputs: np.ndarray  # (R, e)
    totals: list[np.ndarray | None]
    alike: list[np.ndarray]  # rows 0..R-1 that miss the same responses

    @classmethod
    def of(cls, model: Specification) -> Gaps:
        frame = model.frame
        gap = np.zeros((0, model.n_dim), bool) if frame.is_sparse else np.isnan(frame.response)
        rows = np.flatnonzero(gap.any(axis=1))
        _, pattern = np.unique(gap[rows], axis=0, return_inverse=True)
        y = np.zeros((0, model.n_dim)) if frame.is_sparse else frame.response[rows]
        alike = [np.flatnonzero(pattern.reshape(-1) == one) for one in range(int(pattern.max(initial=-1)) + 1)]
        return cls(rows, y, frame.inputs[rows], model.blocks.totals(y), alike)


def impute(
    posterior: AnyPosterior, draws: int = 20, rng: Any = None, data: Any = None, interval: float = 0.9
) -> Imputations:
    """Completed tables; see `nrmmix.MCMCResult.impute`."""
    model, size, share = posterior.specification, count("draws", draws, 1), probability("interval", interval)
    if isinstance(posterior, FactorPosterior):
        posterior = posterior._replace(draws=max(size, STATES))
    table, gaps = _table(model, data), Gaps.of(model)
    _check(model, gaps)
    seed = prediction_seed(posterior.seed, rng)
    states = states_of(posterior, max(size, STATES))
    total = max(size, len(states))
    values, expected = np.empty((total, *gaps.y.shape)), np.zeros((len(gaps.rows), model.packed.n_mean))
    with announced():
        for t, (drawn, means) in zip(range(total), _completions(states, gaps, np.random.default_rng(seed)), strict=False):
            values[t] = drawn
            expected += means / total
    chosen = (np.arange(size) * total) // size
    return Imputations([_completed(model, table, gaps, values[t]) for t in chosen], _cells(model, gaps, values, expected, share))


def expected_cells(posterior: AnyPosterior, draws: int = STATES) -> tuple[np.ndarray, np.ndarray]:
    """Positions (R,) of the rows that miss something, and means (R, n_mean) of all responses given the others of the row."""
    gaps = Gaps.of(posterior.specification)
    expected = np.zeros((len(gaps.rows), posterior.specification.packed.n_mean))
    if len(gaps.rows):
        states = states_of(posterior, draws)
        rng = np.random.default_rng(prediction_seed(posterior.seed))
        for (_, means), _ in zip(_completions(states, gaps, rng), range(len(states)), strict=False):
            expected += means / len(states)
    return gaps.rows, expected


def _completions(states: States, gaps: Gaps, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draw by draw, over and over, the rows (R, d) with what is missing drawn, and means (R, n_mean) given what is there."""
    model, each = states.model, np.arange(len(gaps.rows))
    has_inputs = gaps.inputs.shape[1] > 0
    points = states.points(None, gaps.inputs if has_inputs else np.zeros((1, 0)))
    of = model.blocks.mean_responses()
    torn = [torn_blocks(model, ~np.isnan(gaps.y[rows[0]])) for rows in gaps.alike]
    for cluster, state in chain.from_iterable(zip(_clusters(again, gaps.rows, rng), again, strict=True) for again in repeat(states)):
        drawn = state.drawn_clusters(rng)
        whole = model.blocks.draw_responses(drawn.theta[:, cluster], gaps.inputs, rng, model.packed, gaps.totals)
        means = model.blocks.means(drawn.means(points), model.packed)[each if has_inputs else 0, cluster]
        for rows, blocks in zip(gaps.alike, torn, strict=True):
            for b, columns in blocks:
                y = gaps.y[np.ix_(rows, columns)]
                joint = joint_law(drawn, b, gaps.inputs[rows] if has_inputs else np.zeros((1, 0))).of(cluster[rows])
                whole[np.ix_(rows, columns)] = joint.completed(y, drawing(rng))
                for j, law in zip(columns, joint.given(y)[1], strict=True):
                    if law is not None:
                        means[rows, int(np.flatnonzero(of == j)[0])] = law[0][:, 0]
        yield np.where(np.isnan(gaps.y), whole, gaps.y), means


def _clusters(states: States, rows: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Return, for each state, the clusters (R,) of the rows at these positions."""
    return states.drawn_clusters_of(rows, rng) if isinstance(states, SoftStates) else (labels[rows] for labels in partitions_of(states))


# ---- what is expected of rows given their clusters

def fitted(posterior: AnyPosterior, draws: int = STATES) -> np.ndarray:
    """(n, n_mean) means of the responses of the rows that were fitted, given the cluster of the row; of missing cells given the others.

    Of a cluster the posterior mean of its mean, averaged over draws of the partition.
    """
    model = posterior.specification
    if not isinstance(posterior, Posterior):  # clusters that rows belong to by halves
        return fitted_to_new(posterior, None, model.frame.response, draws)
    states, rows = states_of(posterior, draws), prediction_rows(model, None)
    given = rows.given[rows.row]
    out = np.zeros((model.n_obs, model.packed.n_mean))
    with announced():
        for part in parts(len(rows.inputs), 8 * model.packed.n_mean * (states.most_clusters + 1)):
            points = states.points(None, rows.inputs[part])
            own = np.flatnonzero((given >= part[0]) & (given <= part[-1]))
            for labels, state in zip(partitions_of(states), states, strict=True):
                means = model.blocks.means(state.means(points), model.packed)
                out[own] += means[given[own] - part[0], labels[own]] / len(states)
        positions, expected = expected_cells(posterior, draws)
    if len(positions):
        of = model.blocks.mean_responses()
        out[positions] = np.where(np.isnan(model.frame.response[positions])[:, of], expected, out[positions])
    return out


def fitted_to_new(posterior: AnyPosterior, newdata: Any, y: np.ndarray, draws: int = STATES) -> np.ndarray:
    """(rows, n_mean) the same for new rows, of which the responses y (rows, d) are known, NaN where they are not.

    Of a known response the mean in the clusters that the row may belong to, of another its mean given those that are known.
    """
    model, states = posterior.specification, states_of(posterior, draws)
    rows = prediction_rows(model, newdata)
    out = np.full((len(rows.index), model.packed.n_mean), np.nan)
    ok = np.flatnonzero(rows.row >= 0)
    _, pattern = np.unique(np.isnan(y[ok]), axis=0, return_inverse=True)
    with announced():
        for one in range(int(pattern.max(initial=-1)) + 1):
            alike = ok[pattern.reshape(-1) == one]
            for part in parts(len(alike), 8 * (model.packed.n_mean + 4) * (states.most_clusters + 1)):
                with rows_of(rows.index, alike[part]):
                    out[alike[part]] = _means_given(states, rows.take(alike[part]), y[alike[part]])
    return out


def _means_given(states: States, rows: PredictionRows, y: np.ndarray) -> np.ndarray:
    """(rows, n_mean) of rows that have the same responses; each state counts by what it says of them."""
    model, known = states.model, Known(states, y, rows.own_inputs())
    covariates, place = CovariateWeights(model, rows), rows.place[rows.row]
    total, top = np.zeros((len(y), model.packed.n_mean)), np.full((len(y), 1), -np.inf)
    norm = np.zeros((len(y), 1))
    for state in states:
        here = Conditioned(state, known, model)
        terms = log_weights(state, covariates, place) + here.log_known
        higher = np.maximum(top, logsumexp(terms, axis=1, keepdims=True))
        weight, earlier, top = np.exp(terms - higher), np.exp(top - higher), higher
        means = here.means()
        of_state = weight @ means[0] if len(means) == 1 else np.einsum("rc,rcm->rm", weight, means)
        total, norm = total * earlier + of_state, norm * earlier + weight.sum(axis=1, keepdims=True)
    return total / norm


# ---- tables

def _check(model: Specification, gaps: Gaps) -> None:
    frame = model.frame
    if not len(gaps.rows):
        dropped = len(frame.used) - model.n_obs
        why = f", and {dropped} that miss something were dropped before: fit with missing=\"marginalize\" to keep them" if dropped else ""
        raise ValueError(f"impute: no response is missing in the {model.n_obs} rows that were fitted{why}.")
    for j in np.flatnonzero(np.isnan(gaps.y).any(axis=0)):
        name, part = frame.response_names[j], frame.parts_of_responses[j]
        if not part.is_plain:
            raise ValueError(
                f"impute: the response {name!r} is computed from {listed(map(repr, part.columns))}, whose cells do not follow from it; "
                "make it a column of the data and fit that."
            )
        if frame.reads[j] == "composition":
            raise ValueError(f"impute: {name!r} counts given the total of its row, which is missing with it; drop those rows.")


def _table(model: Specification, data: Any) -> pd.DataFrame:
    """The rows that were fitted, with the columns of the model, or of the table that the caller gives."""
    frame = model.frame
    if data is None:
        return frame.source
    table = as_frame(data)
    if len(table) != len(frame.used):
        raise ValueError(f"impute: data has {len(table)} rows, and the model was fitted to a table of {len(frame.used)}; give that table.")
    table = table.loc[frame.used]
    for name in frame.source.columns:
        if name not in table or not table[name].isna().to_numpy().tolist() == frame.source[name].isna().to_numpy().tolist():
            raise ValueError(f"impute: the column {name!r} of data is not the one that was fitted; give the table that was fitted.")
    return table


def _completed(model: Specification, table: pd.DataFrame, gaps: Gaps, values: np.ndarray) -> pd.DataFrame:
    """The table with values (R, d) in its missing cells, columns of the types that they have."""
    out = table.copy()
    frame = model.frame
    for j in np.flatnonzero(np.isnan(gaps.y).any(axis=0)):
        (name,), gap, levels = frame.parts_of_responses[j].columns, np.isnan(gaps.y[:, j]), frame.levels[j]
        new, column = values[gap, j], out[name]
        if levels is not None:
            cells: list[Any] = [levels[int(code)] for code in new]
        elif pd.api.types.is_bool_dtype(column.dropna().infer_objects().dtype):
            cells = [bool(value) for value in new]
        elif frame.reads[j] in ("counts", "binary") and not pd.api.types.is_float_dtype(column.dtype):
            cells = [int(value) for value in new]
        else:
            cells = new.tolist()
        filled = column.astype(object).to_numpy(copy=True)
        filled[gaps.rows[gap]] = cells
        out[name] = pd.Series(filled, index=out.index, dtype=object).astype(column.dtype)
    return out


def _cells(model: Specification, gaps: Gaps, values: np.ndarray, expected: np.ndarray, interval: float) -> pd.DataFrame:
    """Estimate and interval of each missing cell, row by row."""
    of, names = model.blocks.mean_responses(), np.array(model.blocks.mean_names(), dtype=object)
    row, mean = np.nonzero(np.isnan(gaps.y)[:, of])
    tail = (1 - interval) / 2
    drawn = values[:, row, of[mean]]
    whole = np.array([reads != "numbers" for reads in model.frame.reads])[of[mean]]
    lower, upper = np.quantile(drawn, [tail, 1 - tail], axis=0)
    lower, upper = np.where(whole, np.floor(lower), lower), np.where(whole, np.ceil(upper), upper)
    ends = np.where(np.array([levels is not None for levels in model.frame.levels])[of[mean]], np.nan, [lower, upper])
    index = model.frame.index[gaps.rows[row]]
    own = [index.get_level_values(level) for level in range(index.nlevels)]
    return pd.DataFrame(
        {"estimate": expected[row, mean], "lower": ends[0], "upper": ends[1]},
        index=pd.MultiIndex.from_arrays([*own, names[mean]], names=names_of_levels(index, ["response"])),
    )
