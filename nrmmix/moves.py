"""Moves: the options of each, and which model each one suits."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nrmmix.kernels import auxiliary, gibbs, held, hyper, locations
from nrmmix.kernels.entry import Entry

if TYPE_CHECKING:
    from nrmmix.model import Model


@dataclass(frozen=True)
class Gibbs:
    """Collapsed marginal Gibbs: every observation in turn, component parameters and locations of new atoms integrated out.

    Exact for every prior and family, for mixtures and density regression (Neal 2000, algorithm 3; for normalised random measures
    Favaro & Teh 2013).  Parameters that cannot be integrated out are drawn once a sweep (Neal 2000, algorithm 8).

    Examples
    --------
    >>> print(Gibbs())
    Gibbs()
    """

    name: ClassVar[str] = "gibbs"
    entry: ClassVar[Entry] = gibbs.gibbs


Move = Gibbs

# Names of the methods of each model, and their moves.
METHODS: dict[str, tuple[Move, ...]] = {"auto": (Gibbs(),), "gibbs": (Gibbs(),)}


def moves_of(method: str | Move) -> tuple[Move, ...]:
    """The moves that a method name or a move stands for.

    Raises
    ------
    ValueError
        If the name is unknown; names what there is.
    """
    if isinstance(method, Gibbs):
        return (method,)
    if not isinstance(method, str):
        raise ValueError(f"method must be a name or a move such as nm.Gibbs(), not {method!r}; "
                         f"the names are {', '.join(map(repr, METHODS))}.")
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"unknown method {method!r}; there are {', '.join(map(repr, METHODS))}{hint}")
    return METHODS[method]


def entry_addresses(moves: tuple[Move, ...], model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Addresses of the moves on the partition, and of the updates of all else that the model needs, in their order."""
    sampled = model.sampled
    regression = model.is_regression
    updates = (
        (held.update_held, len(model.packed.held) > 0),
        (locations.update_locations, regression),
        (auxiliary.update_v, regression or model.has_u),
        (auxiliary.update_levels, regression),
        (hyper.update_sigma, "sigma" in sampled),
        (hyper.update_widths, any(name in sampled for name in model.width_names)),
        (hyper.update_mass, "mass" in sampled),  # last: where it has a gamma prior the others do without it
    )
    return (
        np.array([move.entry.address for move in moves], np.int64),
        np.array([update.address for update, used in updates if used], np.int64),
    )
