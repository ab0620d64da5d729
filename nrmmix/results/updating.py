"""New rows for a variational fit: what is read of them, the fit of all rows seen, and the model of these."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import vstack

from nrmmix.common.seeds import seed_sequence
from nrmmix.common.warnings import warn
from nrmmix.inference.executors import checked
from nrmmix.inference.variational import update
from nrmmix.inference.variational_regression import update as update_of_starts
from nrmmix.inference.variational_regression.memory import BinnedRows, Memory, Seen, StreamedBinnedRows
from nrmmix.inference.variational_regression.run import binned_of, rows_of_model
from nrmmix.model.families.base import rows_of
from nrmmix.model.families.exponential import Stacked, Statistics
from nrmmix.model.families.exponential.streamed import StreamedRows
from nrmmix.model.frame.formula import restored_frame
from nrmmix.model.frame.quantiles import Counted
from nrmmix.model.frame.rows import NewRows, read_part
from nrmmix.model.frame.streaming import FIRST, Index, index_of, streamed
from nrmmix.model.priors.binned import Binned
from nrmmix.model.specification import Specification
from nrmmix.posterior.kernel_factors import KernelFactors
from nrmmix.results.streams import new_source

if TYPE_CHECKING:
    from nrmmix.results.variational import VariationalResult
    from nrmmix.results.variational_regression import VariationalRegressionResult


class New(NamedTuple):
    """New rows, how many they are and what they have in common; those of a table that are used, and their covariates."""

    rows: Statistics | StreamedRows
    places: Index
    table: Any = None
    covariates: Any = None
    weight: Any = None


def updated(fit: VariationalResult, new: Any, rng: Any, executor: Any) -> VariationalResult:
    """See `VariationalResult.update`."""
    model, exponential = fit.model, fit.factors.exponential
    seed, started = _seed_of(fit, rng), time.perf_counter()
    read = _read(model, exponential, new)
    found, bound, passes, has_converged = update.updated(
        read.rows, model.prior.mass, fit.options, fit.factors, fit.elbo, np.random.default_rng(seed), len(fit.passes), checked(executor)
    )
    in_memory = read.table is not None and not model.frame.is_streamed
    larger = _with_table(model, read) if in_memory else _counted(model, read.places)
    outcome = fit._outcome._replace(
        rows=larger.statistics(exponential), factors=found, elbo=bound, passes=[*fit._outcome.passes, *passes], has_converged=has_converged,
        seconds=fit.seconds + time.perf_counter() - started,
    )
    return type(fit)(larger, outcome)


def updated_starts(fit: VariationalRegressionResult, new: Any, rng: Any, executor: Any) -> VariationalRegressionResult:
    """See `VariationalRegressionResult.update`."""
    model, outcome, seed, started = fit.model, fit._outcome, _seed_of(fit, rng), time.perf_counter()
    if model.slots is None and len(model.frame.covariate_names) > 1:
        raise ValueError(
            f"update: {model.kernel} of several covariates goes by the distinct rows of all data; take nm.SparseProduct(), the default."
        )
    read = _read(model, fit.factors.exponential, new)
    larger = _counted(model, read.places)
    binned = binned_of(larger)
    _warn_of_edges(larger, read.places.covariates)
    fits, sums = _with_sums(fit, binned)
    rows: BinnedRows | StreamedBinnedRows
    if isinstance(read.rows, StreamedRows):
        rows = StreamedBinnedRows(read.rows, binned)
    else:
        rows = BinnedRows(read.rows, binned.bins(read.covariates))
    found = update_of_starts.updated(rows, fit.options, fits, sums, seed, checked(executor))
    passes = [
        [*before, *(made._replace(number=len(before) + made.number) for made in one.passes)]
        for before, one in zip(outcome.passes, found, strict=True)
    ]
    bounds = np.array([one.bound for one in found])
    weights = np.eye(len(found))[int(bounds.argmax())] if fit.options.combine == "best" else outcome.weights
    made = outcome._replace(
        rows=rows_of_model(larger, binned), fits=tuple(one.factors for one in found), bounds=bounds, weights=weights, passes=passes,
        has_converged=np.array([one.has_converged for one in found]), seconds=fit.seconds + time.perf_counter() - started,
        sums=tuple(one.sums for one in found),
    )
    return type(fit)(larger, made)


def _seed_of(fit: VariationalResult, rng: Any) -> np.random.SeedSequence:
    return np.random.SeedSequence((fit.seed, fit.model.n_obs)) if rng is None else seed_sequence(rng)


# ---- the new rows

def _read(model: Specification, exponential: Stacked, new: Any) -> New:
    """Read what is used of new rows; a ValueError where that is nothing."""
    frame, source, missing = model.frame, new_source(new), _missing(model.frame)
    if frame.is_weighted and frame.weighed_by is None:
        raise ValueError("update: weights were an array, and new rows have none; fit with the name of a column, or fit all rows anew.")
    if source is None:
        found = _of_table(model, exponential, new)
    else:
        if not frame.is_sparse:
            of_covariates = [name for columns in frame.columns_of_covariates.values() for name in columns]
            needed = [name for part in frame.parts_of_responses for name in part.columns] + list(frame.input_columns) + of_covariates
            needed += [] if frame.weighed_by is None else [frame.weighed_by]
            source = source.select(list(dict.fromkeys(needed)))
        places = index_of(frame, source, missing, are_more=True)
        found = New(StreamedRows(exponential, model.blocks, streamed(frame, source, places, missing)), places)
    if found.rows.n == 0:
        raise ValueError("update: there is no complete new row; give at least one.")
    return found


def _of_table(model: Specification, exponential: Stacked, new: Any) -> New:
    frame = model.frame
    rows = NewRows(frame, new)
    table = new if frame.is_sparse else rows.as_given if frame.weighed_by is not None else rows.table
    read = read_part(frame, table, _missing(frame))
    used = read.used
    if not used.all():
        why = "missing values" if read.weight is None else "missing values, or a weight of 0"
        warn(f"{int((~used).sum())} of {len(used)} new rows dropped: {why}")
    y, x, z, _, weight = read.taken()
    index = rows.index[used]
    with rows_of(index):
        found = replace(model.blocks.statistics(exponential, y, x), weight=weight)
    if not np.isfinite(found.dense).all():
        where = index[int(np.flatnonzero(~np.isfinite(found.dense).all(axis=0))[0])]
        raise ValueError(f"update: row {where!r} misses some of its responses, as no row did that was fitted; leave it out.")
    ends: tuple[Any, Any] = np.inf, -np.inf
    if isinstance(y, np.ndarray) and len(y):
        ends = np.fmin.reduce(y, axis=0), np.fmax.reduce(y, axis=0)
    rows_of_parts, used_of_parts = np.array([0, len(used)]), np.array([0, y.shape[0]])
    places = Index(rows_of_parts, used_of_parts, "", *ends, has_missing=False, covariates=_values(z), size=found.size)
    return New(found, places, y if frame.is_sparse else table.loc[used], z, weight)


def _values(covariates: np.ndarray) -> tuple[Counted, ...]:
    return tuple(Counted(*np.unique(column, return_counts=True)) for column in covariates.T)


def _missing(frame: Any) -> str:
    """Return what is done with rows that miss some responses: as with those that were fitted."""
    if frame.is_streamed:
        return frame.missing
    return "marginalize" if not frame.is_sparse and np.isnan(frame.response).any() else "drop"


def _warn_of_edges(larger: Specification, new: tuple[Counted, ...]) -> None:
    """Say which new rows lie beyond the covariates of the rows before."""
    frame: Any = larger.frame
    for name, before, now, is_category in zip(frame.covariate_names, frame.places.covariates, new, frame.is_category, strict=True):
        low, high = before.values[0], before.values[-1]
        beyond = int(now.sizes[(now.values < low) | (now.values > high)].sum())
        if beyond and not is_category:
            warn(
                f"update: the covariate {name!r} of {beyond} new rows lies beyond the {low:g} to {high:g} of the rows before; in the fit "
                "they count as at that edge. Fit all rows together where that matters."
            )


# ---- the rows before

def _with_sums(fit: VariationalRegressionResult, binned: Binned) -> tuple[list[KernelFactors], list[Seen]]:
    """Return, for each start, its factors, and the sums over its rows: those kept, or of rows in memory those at these factors."""
    model, outcome = fit.model, fit._outcome
    if not model.frame.is_streamed:
        covariates: Any = model.frame.covariates  # a regression has some
        rows = BinnedRows(outcome.rows.statistics, binned.bins(covariates))
        begun = [KernelFactors(binned, one.exponential, one.mass, one.N, one.s, one.A, one.codes) for one in fit.fits]
        sums = [Memory(rows).visit(0, one) for one in begun]
        rates = [(own.G[0] * np.exp(one.log_k[0])).sum(axis=0) for one, own in zip(begun, sums, strict=True)]
        fits = [
            KernelFactors(binned, one.exponential, one.mass, own.N, own.s, A, one.codes)
            for one, own, A in zip(begun, sums, rates, strict=True)
        ]
        return fits, sums
    if not outcome.sums:
        raise ValueError("update: this fit was saved without the sums over its rows, to which new ones are added; fit the rows together.")
    return list(fit.fits), list(outcome.sums)


# ---- the model of all rows seen

def _with_table(model: Specification, new: New) -> Specification:
    """A model of the rows before and of a table of new ones."""
    frame = model.frame
    if frame.is_sparse:
        data: Any = vstack([frame.response, new.table]).tocsr()
    else:
        data = pd.concat([frame.source, new.table[list(frame.source.columns)]])
    whole = None
    if new.weight is not None:
        whole = np.concatenate([np.ones(frame.n_used) if frame.weight is None else frame.weight, new.weight])
    of_frame = frame.formula, data, np.ones(data.shape[0], bool), frame.from_array, frame.reads, frame.designs
    given = *of_frame, whole, frame.weighed_by, frame.first_dates
    return type(model)(model.formula, restored_frame(*given), family=model.family, prior=model.prior)


def _counted(model: Specification, new: Index) -> Specification:
    """A model of the rows before and of new ones, which it cannot find again; covariates are measured as those before were."""
    frame: Any = model.frame
    low, high = (frame.places.low, frame.places.high) if frame.is_streamed else (np.inf, -np.inf)
    if not frame.is_streamed and not frame.is_sparse:
        low, high = np.fmin.reduce(frame.response, axis=0), np.fmax.reduce(frame.response, axis=0)
    d = np.zeros(len(frame.response_names))
    covariates: tuple[Counted, ...] = ()
    if frame.covariates is not None:
        covariates = frame.places.covariates if frame.is_streamed else _values(frame.covariates)
    places = Index(
        np.array([0, frame.n_rows + new.rows[-1]]), np.array([0, frame.n_used + new.used[-1]]), "", np.fmin(low, new.low) + d,
        np.fmax(high, new.high) + d, _missing(frame) == "marginalize", covariates,
        None if frame.weighed_by is None else frame.size + (new.used[-1] if new.size is None else new.size),
    )
    sums = {FIRST: np.array([frame.n_used, frame.size])} | frame.sums if frame.is_streamed else {}
    has_first = frame.has_first if frame.is_streamed else True
    larger = streamed(frame, None, places, _missing(frame), sums=sums, has_first=has_first)
    return type(model)(model.formula, larger, family=model.family, prior=model.prior, kernel=model.kernel)
