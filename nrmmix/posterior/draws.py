"""Draws: arrays with leading axes (chain, draw), by name; and the posterior that they are of."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from nrmmix.common import machine
from nrmmix.common.messages import did_you_mean
from nrmmix.common.warnings import warn
from nrmmix.model.specification import Specification

COPIES = 2  # of partitions, as int32, that a search takes
SMALL = 2**25  # bytes up to which labels are int32; beyond, they have the smallest type that holds them


def label_type(shape: tuple[int, ...], most: int) -> np.dtype:
    """Type of an array of labels or locations, none above `most`: int32 where that takes little memory, else as small as can be.

    Examples
    --------
    >>> label_type((4, 1000, 272), 7), label_type((4, 1000, 10**5), 7), label_type((4, 1000, 10**5), 200)
    (dtype('int32'), dtype('int8'), dtype('int16'))
    """
    if 4 * math.prod(shape) <= SMALL:
        return np.dtype(np.int32)
    kinds: tuple[Any, ...] = (np.int8, np.int16, np.int32)
    return next(np.dtype(kind) for kind in kinds if most <= np.iinfo(kind).max)


def as_labels(values: np.ndarray) -> np.ndarray:
    """Labels or locations of draws in the type that they are kept in."""
    return values.astype(label_type(values.shape, int(values.max(initial=0))), copy=False)


class Draws(Mapping[str, np.ndarray]):
    """Recorded draws of a fit.

    A read-only mapping from names to arrays whose first two axes are chain and draw: `n_clusters`, `log_joint`, `mass`, `sigma`
    (constant where fixed), `width` of a covariate kernel, `u` (mixtures whose joint has one) or `A` (..., n_locations), `labels`
    (..., n_obs) numbered by first appearance, and in density regression `locations` (..., n_obs), the location of each observation's
    cluster as a row of `model.grid.locations`; both int32, or where that would take more than 32 MB int16 or int8 if these hold them.
    With `nm.SparseProduct` `codes` (..., slots, covariates), small integers, and `inclusion` (..., covariates), the chances with which
    slots use covariates.  Of families whose parameters are not integrated out `theta` (..., most clusters, parameters), NaN where a
    draw has fewer clusters, and `precision` (..., responses) where all clusters share it; of `nm.Gaussian` with a
    scale that is sampled `scale` (..., responses), as multiples of its prior mean; of `nm.Gaussian("tied")` `covariance`
    (..., d (d + 1)/2) of its d responses, the lower triangle row by row, in their squared units; of regressions that learn their shrinkage
    `shrinkage` (..., columns) and `noise_scale` (..., responses).  Where missing cells are drawn and not integrated out, and where
    responses are censored, `imputed` (..., cells) holds them row by row, in the units of the responses.

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


class NotKept(ValueError, AttributeError):
    """Error of a fit without the draws that are asked for; an AttributeError too, so that `hasattr` is False of what is made of them."""


class Posterior(NamedTuple):
    """Posterior that predictions are made from, whoever made the draws."""

    specification: Specification
    draws: Draws
    seed: int  # entropy of the random numbers; those of predictions follow from it where they are given none


def not_kept(model: Specification, draws: Collection[str]) -> tuple[str, ...]:
    """Names of the draws that predictions need and that are not among these, for `store=` has left them out."""
    needed = ["labels", *(("locations", "A") if model.is_regression else ()), *(("theta",) if len(model.packed.explicit) else ())]
    needed += [*model.packed.shared_names, *(("codes", "inclusion") if model.slots is not None else ())]
    return tuple(name for name in needed if name not in draws)


def partitions_in_memory(draws: Draws) -> np.ndarray:
    """Partitions (draws, n) of all chains; of those that memory has no room for, which are copied as int32, evenly spread ones."""
    labels, free = draws.flat("labels"), machine.available()
    needed = COPIES * 4 * labels.size
    if needed <= machine.SHARE * free:
        return labels
    every = math.ceil(needed / (machine.SHARE * free))
    if every > len(labels) // 2:
        raise ValueError(
            f"{len(labels)} partitions of {labels.shape[1]} rows would take {machine.text(needed)}, and this machine has "
            f"{machine.text(free)} free; free some."
        )
    warn(f"memory is short: of {len(labels)} draws every {every}th is used")
    return labels[::every]
