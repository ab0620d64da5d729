"""Widths of covariate kernels: one for all atoms, fixed or sampled, or one of its own for every atom."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np

from nrmmix.common.messages import number
from nrmmix.common.registry import plugin
from nrmmix.model.priors.hyperpriors import Hyperparameter


@plugin
@dataclass(frozen=True)
class PerAtom:
    """A width of its own for every atom, from a discrete prior; it is integrated out together with the atom's location.

    Parameters
    ----------
    values : sequence of float
        Candidate widths, greater than 0.
    weights : sequence of float, optional
        Their prior probabilities, up to a factor; default all alike.

    Raises
    ------
    ValueError
        If a value or weight is not positive, a value is there twice, or there are not as many weights as values.

    Examples
    --------
    >>> print(PerAtom((0.05, 0.2)))
    PerAtom((0.05, 0.2))
    """

    role: ClassVar[str] = "hyperprior"

    values: tuple[float, ...]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", positive_numbers("PerAtom: values", self.values))
        if len(set(self.values)) < len(self.values):
            twice = next(value for value in self.values if self.values.count(value) > 1)
            raise ValueError(f"PerAtom: the width {twice:g} is there twice; give it once, with a larger weight if need be.")
        if self.weights is not None:
            object.__setattr__(self, "weights", positive_numbers("PerAtom: weights", self.weights))
            if len(self.weights) != len(self.values):
                raise ValueError(f"PerAtom: {len(self.weights)} weights for {len(self.values)} widths; give one for each.")

    @property
    def probabilities(self) -> np.ndarray:
        weights = np.ones(len(self.values)) if self.weights is None else np.array(self.weights)
        return weights / weights.sum()

    def __str__(self) -> str:
        weights = "" if self.weights is None else f", weights={_tuple(self.weights)}"
        return f"PerAtom({_tuple(self.values)}{weights})"

    __repr__ = __str__


Width = Hyperparameter | PerAtom


def candidates(widths: Sequence[PerAtom]) -> tuple[np.ndarray, np.ndarray]:
    """Every combination (W, q) of the values of widths of atoms, and their probabilities (W,); of none one, which is empty."""
    values = np.array(list(product(*(width.values for width in widths))))
    return values, np.array([math.prod(row) for row in product(*(width.probabilities for width in widths))])


def described(width: Width) -> str:
    return f"= {width:g}" if isinstance(width, float) else f"= {width}" if isinstance(width, PerAtom) else f"~ {width}"


def positive_numbers(name: str, values: Any) -> tuple[float, ...]:
    values = values.tolist() if isinstance(values, np.ndarray) else values
    if isinstance(values, (str, Mapping)) or not isinstance(values, Sequence) or not values:
        raise ValueError(f"{name} must be a sequence of numbers greater than 0, not {values!r}.")
    found = tuple(number(value) for value in values)
    if not all(0 < value < math.inf for value in found):
        wrong = next(given for given, value in zip(values, found, strict=True) if not 0 < value < math.inf)
        raise ValueError(f"{name} must be numbers greater than 0; {wrong!r} is none.")
    return found


def _tuple(values: Sequence[float]) -> str:
    return f"({', '.join(f'{value:g}' for value in values)}{',' if len(values) == 1 else ''})"
