"""The rows that predictions are wanted for: distinct cases of covariates and inputs, and blocks of rows that fit into memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nrmmix.model.families.base import rows_of

if TYPE_CHECKING:
    from nrmmix.model.specification import Specification



@dataclass(frozen=True)
class Target:
    """Where predictions are wanted: the caller's rows, and the distinct cases of covariates and inputs among them."""

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

    def take(self, rows: np.ndarray) -> Target:
        """Some of the rows, by their positions; none of them may miss a covariate or an input."""
        cases, row = np.unique(self.row[rows], return_inverse=True)
        places, place = np.unique(self.place[cases], return_inverse=True)
        of_inputs, given = np.unique(self.given[cases], return_inverse=True)
        covariates = None if self.covariates is None else self.covariates[places]
        return Target(self.index[rows], row, place, covariates, given, self.inputs[of_inputs])


def targets(model: Specification, newdata: Any) -> Target:
    """Distinct covariate rows and inputs of new or training data."""
    frame, covariates = model.frame, None
    if newdata is None:
        index = frame.index
        place = model.grid.group if model.is_regression else np.zeros(len(index), np.int64)
        covariates = model.grid.values if model.is_regression else None
    elif model.is_regression:
        x, index, ok = frame.new_covariates(newdata)
        place = np.full(len(index), -1, np.int64)
        covariates, place[ok] = np.unique(x[ok], axis=0, return_inverse=True)
    else:
        index = frame.new_index(newdata)
        place = np.zeros(len(index), np.int64)
    R = 1 if covariates is None else len(covariates)
    if not frame.inputs.shape[1]:
        return Target(index, place, np.arange(R), covariates, np.zeros(R, np.int64), np.zeros((1, 0)))
    values, ok = (frame.inputs, np.ones(len(index), bool)) if newdata is None else frame.new_inputs(newdata)
    ok = ok & (place >= 0)
    with rows_of(index, np.flatnonzero(ok)):
        model.blocks.observe_inputs(values[ok])
    inputs, given = np.unique(values[ok], axis=0, return_inverse=True)
    row = np.full(len(index), -1, np.int64)
    pairs, row[ok] = np.unique(given * R + place[ok], return_inverse=True)
    return Target(index, row, pairs % R, covariates, pairs // R, inputs)


def observed(y: Any) -> np.ndarray:
    """Rows of responses of which something is known."""
    return ~np.isnan(y).all(axis=1) if isinstance(y, np.ndarray) else np.ones(y.shape[0], bool)




