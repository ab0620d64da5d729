"""Draws: arrays with leading axes (chain, draw), by name; and the posterior that they are of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from nrmmix.common.messages import did_you_mean
from nrmmix.model.specification import Specification


class Draws(Mapping[str, np.ndarray]):
    """Recorded draws of a fit.

    A read-only mapping from names to arrays whose first two axes are chain and draw: `n_clusters`, `log_joint`, `mass`, `sigma`
    (constant where fixed), `width` of a covariate kernel, `u` (mixtures whose joint has one) or `A` (..., n_locations), `labels`
    (..., n_obs) int32 numbered by first appearance, and in density regression `locations` (..., n_obs) int32, the location of each
    observation's cluster as a row of `model.grid.locations`.  Of families whose parameters are not integrated out `theta` (..., most
    clusters, parameters), NaN where a draw has fewer clusters, and `precision` (..., responses) where all clusters share it.
    Where missing cells are drawn and not integrated out, `imputed` (..., cells) holds them row by row, in the units of the responses.

    Raises
    ------
    KeyError
        For an unknown name; the message lists the names.

    Examples
    --------
    >>> draws = Draws({"mass": np.ones((2, 5))})
    >>> draws.n_chains, draws.n_draws, list(draws)
    (2, 5, ['mass'])
    """

    def __init__(self, values: dict[str, np.ndarray]):
        self._values = values
        for array in values.values():
            array.setflags(write=False)

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            return self._values[name]
        except KeyError:
            raise KeyError(f"no draws named {name!r}; there are {', '.join(self._values)}{did_you_mean(name, self._values)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def n_chains(self) -> int:
        return next(iter(self._values.values())).shape[0]

    @property
    def n_draws(self) -> int:
        return next(iter(self._values.values())).shape[1]

    def flat(self, name: str) -> np.ndarray:
        """The draws of all chains one after the other."""
        values = self[name]
        return values.reshape(-1, *values.shape[2:])

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}{tuple(array.shape[2:]) or ''}" for name, array in self._values.items())
        return f"Draws({self.n_chains} chains x {self.n_draws} draws: {shapes})"


class Posterior(NamedTuple):
    """What predictions are made from, whoever made the draws."""

    specification: Specification
    draws: Draws
    seed: int  # entropy of the random numbers; those of predictions follow from it where they are given none
