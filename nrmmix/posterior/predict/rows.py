"""The rows that predictions are wanted for, and the covariate kernel there.

Rows with the same covariates and inputs have the same prediction: `PredictionRows` holds each such case once, and what row of the
caller has which.  `CovariateWeights` is what density regression weighs atoms by at the covariates of these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common.messages import plain
from nrmmix.model.families.base import rows_of
from nrmmix.model.frame.formula import ModelFrame
from nrmmix.model.frame.rows import read_rows
from nrmmix.model.specification import Specification


@dataclass(frozen=True)
class PredictionRows:
    """Rows where predictions are wanted: the caller's rows, and the distinct cases of covariates and inputs among them."""

    index: pd.Index  # the caller's rows
    row: np.ndarray  # (rows,) case of each, -1 where a covariate or an input is missing
    place: np.ndarray  # (cases,) row of `covariates` of each case
    covariates: np.ndarray | None  # (R, q) distinct covariate rows; None for a mixture
    given: np.ndarray  # (cases,) row of `inputs` of each case
    inputs: np.ndarray  # (I, e) distinct rows of inputs; I = 1 and e = 0 where no family has any

    @property
    def n_cases(self) -> int:
        return len(self.place)

    @property
    def has_inputs(self) -> bool:
        return self.inputs.shape[1] > 0

    def own_inputs(self) -> np.ndarray:
        """Inputs (rows, e) of each row, none of which may miss one; (1, 0) where there are none."""
        return self.inputs[self.given[self.row]] if self.has_inputs else self.inputs

    def take(self, rows: np.ndarray) -> PredictionRows:
        """Some of the rows, by their positions; none of them may miss a covariate or an input."""
        cases, row = np.unique(self.row[rows], return_inverse=True)
        places, place = np.unique(self.place[cases], return_inverse=True)
        of_inputs, given = np.unique(self.given[cases], return_inverse=True)
        covariates = None if self.covariates is None else self.covariates[places]
        return PredictionRows(self.index[rows], row, place, covariates, given, self.inputs[of_inputs])


def prediction_rows(model: Specification, data: Any) -> PredictionRows:
    """Distinct covariate rows and inputs of new data, or where these are None of the data that were fitted."""
    read, covariates = read_rows(model.frame, data), None
    index = read.index
    place = np.zeros(len(index), np.int64)
    if model.is_regression:
        x, ok = read.covariates()
        covariates, found = np.unique(x[ok], axis=0, return_inverse=True)
        place[:] = -1
        place[ok] = found.reshape(-1)
    R = 1 if covariates is None else len(covariates)
    if not model.frame.inputs.shape[1]:
        return PredictionRows(index, place, np.arange(R), covariates, np.zeros(R, np.int64), np.zeros((1, 0)))
    values, ok = read.inputs()
    ok = ok & (place >= 0)
    with rows_of(index, np.flatnonzero(ok)):
        model.blocks.observe_inputs(values[ok])
    inputs, given = np.unique(values[ok], axis=0, return_inverse=True)
    row = np.full(len(index), -1, np.int64)
    pairs, row[ok] = np.unique(given * R + place[ok], return_inverse=True)
    return PredictionRows(index, row, pairs % R, covariates, pairs // R, inputs)


def covariates_text(frame: ModelFrame, values: np.ndarray, digits: int = 6) -> str:
    """Values (q,) of the covariates in words, those of categories by the names of their levels."""
    levels = [frame.covariate_columns[name] if one else None for name, one in zip(frame.covariate_names, frame.is_category, strict=True)]
    return ", ".join(
        f"{name} = {value:.{digits}g}" if own is None else f"{name} = {own[int(value)]}"
        for name, own, value in zip(frame.covariate_names, levels, values, strict=True)
    )


def insist_in_memory(model: Specification, newdata: Any, what: str) -> None:
    """A ValueError where the rows that were fitted are wanted and are not in memory."""
    if newdata is None and model.frame.is_streamed:
        raise ValueError(f"{what}: the rows that were fitted are not in memory; give some of them as newdata=.")


def observed(y: Any, limits: np.ndarray | None = None) -> np.ndarray:
    """Rows of responses of which something is known, limits among them."""
    if not isinstance(y, np.ndarray):
        return np.ones(y.shape[0], bool)
    unknown: np.ndarray = np.isnan(y) if limits is None else np.isnan(y) & np.isnan(limits[..., 0])
    return np.logical_not(unknown.all(axis=1))


class CovariateWeights:
    """Covariate kernel between distinct covariate rows and the locations of atoms, (R, P); worked out anew only for other widths.

    Of a mixture, which has no covariates, it is the single number 1.  `places` says which of the distinct covariate rows; default all.
    """

    def __init__(self, model: Specification, rows: PredictionRows, places: np.ndarray | None = None):
        self.model, self.rows = model, rows
        self.distance: np.ndarray | None = None
        if rows.covariates is not None:
            self.places = np.arange(len(rows.covariates)) if places is None else places
            assert model.grid is not None
            self.distance = model.grid.distances(rows.covariates[self.places])
        self._last: tuple[bytes, np.ndarray, np.ndarray] | None = None

    def at(self, widths: np.ndarray) -> np.ndarray:
        """Rows (R, P) of the kernel at widths (q,), each up to a factor; a ValueError if a row is out of reach of every location."""
        return np.ones((1, 1)) if self.distance is None else self._both(widths)[1]

    def log_at(self, widths: np.ndarray) -> np.ndarray:
        """Their logarithms, of which none underflows."""
        return np.zeros((1, 1)) if self.distance is None else self._both(widths)[0]

    def _both(self, widths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        last = self._last  # threads share this object
        if last is None or last[0] != widths.tobytes():
            assert self.distance is not None
            log_K = self.model.log_kernel(self.distance, widths)
            self._check(log_K)
            # the conditional distribution does not change when a row of K is scaled: far out the largest is 1
            log_K = log_K - log_K.max(axis=1, keepdims=True)
            self._last = last = (widths.tobytes(), log_K, np.exp(log_K))
        return last[1:]

    def _check(self, log_K: np.ndarray) -> None:
        out = np.flatnonzero(np.isneginf(log_K.max(axis=1, initial=-np.inf)))
        if len(out):
            rows, place = self.rows, self.places[out[0]]
            assert rows.covariates is not None
            position = int(np.flatnonzero((rows.row >= 0) & (rows.place[rows.row] == place))[0])
            at = covariates_text(self.model.frame, rows.covariates[place])
            raise ValueError(
                f"row {plain(rows.index[position])!r} ({at}) is out of reach of every location of {self.model.kernel}: "
                "there is no density there; predict closer to the data, or fit a wider kernel."
            )
