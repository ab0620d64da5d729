"""Warnings of columns that families do not expect, when a model is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nrmmix.common.warnings import warn
from nrmmix.model.families.blocks import Blocks
from nrmmix.model.families.regression import Regression
from nrmmix.model.frame.columns.censoring import CensoredPart
from nrmmix.model.frame.formula import ModelFrame
from nrmmix.model.frame.quantiles import Counted
from nrmmix.model.frame.streaming import StreamedFrame
from nrmmix.model.frame.unusual import (
    CODES,
    ENOUGH,
    FarValues,
    counted,
    fences_of,
    may_be_copies,
    warn_of_copies,
    warn_of_far,
    warn_of_ties,
)

RESPONSE, INPUT, COVARIATE = range(3)  # sides of a frame; a place is a side and the number of a column there
MAX_LEVELS = 0.5  # levels of a covariate for each row, beyond which it may be the name of the row


def warn_of_unusual(frame: ModelFrame, blocks: Blocks) -> None:
    """Warn of ties among continuous responses, copies of rows, and values far from all others.

    The latter are looked for among covariates and inputs of regressions too; factors with more levels than half of the rows are named.
    Rows that are not in memory are gone through once more where there are any, to name the rows.  Of sparse counts, and of rows whose
    values have not been counted, nothing is said.
    """
    if frame.is_sparse or (isinstance(frame, StreamedFrame) and frame.tallied is None):
        return
    continuous: dict[str, tuple[int, int]] = {}
    numbers: dict[str, tuple[int, int]] = {}
    inputs: dict[str, tuple[int, int]] = {}
    expected: dict[str, tuple[float, ...]] = {}  # values at which a family has a point mass itself
    for block in blocks.blocks:
        for j in block.columns if block.family.reads in ("numbers", "counts") else ():
            numbers[frame.response_names[j]] = RESPONSE, j
            if block.family.reads == "numbers":
                continuous[frame.response_names[j]] = RESPONSE, j
                expected[frame.response_names[j]] = block.family.point_masses
        if isinstance(block.family, Regression):
            inputs |= {frame.input_names[a]: (INPUT, a) for a in block.inputs}
    if frame.covariates is not None:
        inputs |= {name: (COVARIATE, a) for a, name in enumerate(frame.covariate_names) if not frame.is_category[a]}
    columns, are_exact = _counted(frame, {*numbers.values(), *inputs.values()})

    def recount(values: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Count how often values stand in columns, by name."""
        found = {name: np.zeros(len(own)) for name, own in values.items()}
        for sides, weight, *_ in _parts(frame):
            for name, own in values.items():
                part = counted(sides[RESPONSE][:, continuous[name][1]], weight)
                at = np.minimum(np.searchsorted(part.values, own), max(len(part.values) - 1, 0))
                found[name] += np.where(part.values[at] == own, part.sizes[at], 0.0) if len(part.values) else 0.0
        return found

    censored = {frame.response_names[j] for j, part in enumerate(frame.parts_of_responses) if isinstance(part, CensoredPart)}
    others: dict[str, Counted] = {}
    at_point: dict[str, float] = {}
    for name, place in continuous.items():
        is_point = np.isin(columns[place].values, expected[name])
        others[name] = columns[place].without(is_point)
        at_point |= {name: float(columns[place].sizes[is_point].sum())} if expected[name] else {}
    warn_of_ties(others, censored, at_point, None if are_exact else recount)
    if any(not own for own in expected.values()) and not frame.is_streamed and frame.weight is None:
        _warn_of_copies(frame, {j: columns[RESPONSE, j] for name, (_, j) in continuous.items() if not expected[name]})
    for name, is_category, levels in zip(frame.covariate_names, frame.is_category, _n_levels(frame), strict=True):
        if is_category and frame.n_used >= ENOUGH and levels > MAX_LEVELS * frame.n_used:
            warn(
                f"covariate {name!r} has {levels:,} levels in {frame.n_used:,} rows: does it number or name the rows? Most levels have "
                "one row, and say nothing of others; leave it out, or join levels."
            )
    if frame.limits is not None:
        coded = _with_limits(frame)
        columns |= {(RESPONSE, j): counted(coded[:, j], frame.weight) for side, j in columns if side == RESPONSE}
    ends = {place: own for place, column in columns.items() if (own := fences_of(*column)).most < np.inf}
    if not ends:
        return
    far = {place: FarValues(own) for place, own in ends.items()}
    for sides, _, labels, rows in _parts(frame):
        for (side, j), values in far.items():
            values.add(sides[side][:, j], labels, rows)
    of_numbers, of_inputs = ({name: far[place] for name, place in side.items() if place in far} for side in (numbers, inputs))
    warn_of_far(of_numbers, "defaults of priors take their centre and scale from the other rows")
    warn_of_far(of_inputs, "covariates are scaled by the other rows")


def _with_limits(frame: Any) -> Any:
    """Responses (n, d) that were seen, and in the place of censored ones their limit where it is a code for missing values."""
    if frame.limits is None:
        return frame.seen
    ends = np.where(np.isin(frame.limits, CODES), frame.limits, np.nan)
    return np.where(np.isnan(frame.seen), np.where(np.isnan(ends[..., 0]), ends[..., 1], ends[..., 0]), frame.seen)


def _n_levels(frame: ModelFrame) -> list[int]:
    """Number of levels of each covariate that is a category; 0 of others."""
    return [len(frame.covariate_columns[columns[0]] or ()) if len(columns := frame.columns_of_covariates[name]) == 1 else 0
            for name in frame.covariate_names]


def _warn_of_copies(frame: ModelFrame, continuous: Mapping[int, Counted]) -> None:
    """Warn of copies of rows, told by continuous responses that are columns as they are: a formula may give many rows one value."""
    if may_be_copies(continuous.values(), (one for j, one in continuous.items() if frame.parts_of_responses[j].is_plain)):
        sides = (frame.seen, frame.inputs, frame.covariates)
        warn_of_copies(np.column_stack([side for side in sides if side is not None]))


def _counted(frame: Any, places: Iterable[tuple[int, int]]) -> tuple[dict[tuple[int, int], Counted], bool]:
    """Return the values of columns, and whether all are there."""
    if not frame.is_streamed:
        sides = frame.seen, frame.inputs, frame.covariates  # that many rows were seen to one end is no tie
        return {(side, j): counted(sides[side][:, j], frame.weight) for side, j in places}, True
    tallies = [frame.tallied.responses, frame.tallied.inputs]
    found = {(side, j): frame.places.covariates[j] if side == COVARIATE else tallies[side][j].total() for side, j in places}
    return found, all(tallies[side][j].is_exact for side, j in places if side != COVARIATE)


def _parts(frame: Any) -> Iterable[tuple[tuple[Any, ...], Any, Any, np.ndarray]]:
    """Responses, inputs and covariates part by part, and the weights, labels and positions of their rows."""
    if not frame.is_streamed:
        yield (_with_limits(frame), frame.inputs, frame.covariates), frame.weight, frame.index, frame.used.nonzero()[0]
        return
    for piece in frame.pieces():
        yield (piece.response, piece.inputs, piece.covariates), piece.weight, piece.index, piece.index.to_numpy()
