"""Densities of rows in each cluster of a state; where a response is known by its limits alone, their probability given the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from nrmmix.model.families.base import RowError
from nrmmix.model.families.distributions import log_between
from nrmmix.model.specification import Specification
from nrmmix.posterior.predict.rows import CovariateWeights, PredictionRows
from nrmmix.posterior.predict.states import Components, States, joint_law


class WithinLimits:
    """Limits (J, d, 2), NaN where there are none, of rows y (J, d), NaN where a response was not seen, at inputs (J, e) or (1, e).

    A RowError for a row with several censored responses that depend on each other within a component.
    """

    def __init__(self, model: Specification, y: np.ndarray, inputs: np.ndarray, limits: np.ndarray):
        self.y, self.inputs, self.limits = y, inputs, limits
        self.cells: list[tuple[int, int | None, np.ndarray]] = []  # response, its block where it depends on others, rows
        censored = ~np.isnan(limits[..., 0])
        for b, block in enumerate(model.blocks.blocks):
            apart = block.family.independent or len(block.columns) == 1
            several = np.flatnonzero(censored[:, block.columns].sum(axis=1) > 1)
            if not apart and len(several):
                what = ", ".join(block.family.names)
                raise RowError(f"{{row}} has several censored responses among {what}, whose joint probability is not computed.", several[0])
            for j in block.columns:
                rows = np.flatnonzero(censored[:, j])
                others = ~np.isnan(y[np.ix_(rows, block.columns)])
                _, pattern = np.unique(others, axis=0, return_inverse=True)
                for one in range(int(pattern.max(initial=-1)) + 1):
                    alike = rows[pattern.reshape(-1) == one]
                    given = not apart and bool((~np.isnan(y[alike[0], block.columns])).any())
                    self.cells.append((int(j), b if given else None, alike))
        self.columns = [block.columns for block in model.blocks.blocks]

    def log_probabilities(self, of: Components) -> np.ndarray:
        """(J, C)"""
        out = np.zeros((len(self.y), of.n_components))
        for j, b, rows in self.cells:
            inputs = self.inputs[rows] if self.inputs.shape[1] else self.inputs
            if b is None:
                law: Any = of.distributions(inputs)[j]
            else:
                joint, columns = joint_law(of, b, inputs), self.columns[b]
                law = joint.given(self.y[np.ix_(rows, columns)])[1][int(np.flatnonzero(columns == j)[0])]
            lower, upper = (self.limits[rows, j, end, None] for end in (0, 1))
            out[rows] += log_between(law, lower, upper)
        return out


def log_terms(states: States, rows: PredictionRows, y: np.ndarray, limits: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """State by state log of weight times density of each row's y in each cluster, last in a new one, (J, K + 1).

    Where a response is known by its limits alone, see `NewRows.limits`, y is NaN and their probability a factor.
    """
    covariates, points, place = CovariateWeights(states.model, rows), states.points(y, rows.own_inputs()), rows.place[rows.row]
    coefficient = np.reshape(states.model.blocks.log_coefficient(y), (-1, 1))
    within = None if limits is None else WithinLimits(states.model, y, rows.own_inputs(), limits)
    for state in states:
        with np.errstate(divide="ignore"):
            log_weights = np.log(state.weights(covariates))
        terms = log_weights[place] + state.log_densities(points) + coefficient
        yield terms if within is None else terms + within.log_probabilities(state)
