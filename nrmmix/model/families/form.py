"""Families whose prior has one of several forms, settled where they meet the data: what is asked of such a family is asked of its form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nrmmix.model.families.base import Family, Observed, Packed, Parameter
from nrmmix.model.families.distributions import Distribution, Elliptical
from nrmmix.model.families.exponential import Exponential
from nrmmix.model.frame.tables import Totals


class Form:
    """Base of the forms: each stands for one prior, all hyperparameters numbers.

    A form has the methods that `FormFamily` asks it for, as of a `Family`, but for `pack(n)`: tables for n observations.
    """

    def joint_predictive(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> Elliptical | None:
        return None

    def joint_component(self, theta: np.ndarray, inputs: np.ndarray) -> Elliptical | None:
        return None


@dataclass(frozen=True, eq=False)
class FormFamily(Family):
    """Base of the families with forms."""

    form: Any = field(default=None, init=False, repr=False)  # set by `resolve`

    @property
    def resolved(self) -> Any:
        """The form; a ValueError where hyperparameters are not resolved."""
        return self.settled(self.form)

    def observe(self, y: Any) -> Observed:
        return self.resolved.observe(y)

    def means(self, values: np.ndarray) -> np.ndarray:
        return self.resolved.means(values)

    def exponential(self, y: Any) -> Exponential:
        return self.resolved.exponential(y)

    def pack(self, y: Any, inputs: np.ndarray) -> Packed:
        return self.resolved.pack(len(y))

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        return self.resolved.predictive_distributions(stat, n_columns, inputs)

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        return self.resolved.component_distributions(theta, inputs)

    def joint_predictive(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> Elliptical | None:
        return self.resolved.joint_predictive(stat, n_columns, inputs)

    def joint_component(self, theta: np.ndarray, inputs: np.ndarray) -> Elliptical | None:
        return self.resolved.joint_component(theta, inputs)

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        """Mean or coefficients, standard deviation and correlations of responses in a component; moments that do not exist are NaN."""
        return self.resolved.cluster_parameters(stat, n_columns)

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator, totals: Totals = None) -> np.ndarray:
        return self.resolved.draw_responses(theta, inputs, rng)
