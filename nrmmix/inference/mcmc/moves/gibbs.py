"""Collapsed Gibbs sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nrmmix.common.messages import count
from nrmmix.common.registry import plugin
from nrmmix.inference.mcmc.moves.base import Move, ScratchSize
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import Entry
from nrmmix.kernels.moves import gibbs
from nrmmix.model.specification import Specification


@plugin
@dataclass(frozen=True)
class Gibbs(Move):
    """Collapsed marginal Gibbs: every observation in turn, component parameters and locations of new atoms integrated out.

    Exact for every prior and family, for mixtures and density regression (Neal 2000, algorithm 3; for normalised random measures
    Favaro & Teh 2013).  Parameters that cannot be integrated out are drawn once a sweep (Neal 2000, algorithm 8).

    Parameters
    ----------
    subset : int, optional
        Visit so many observations in each iteration, drawn anew without replacement and independently of the partition (`Gibbs_sub`
        of Lee & Choi 2015); default all of them, in the order of the rows.

    Raises
    ------
    ValueError
        If subset is less than 1, or more than the observations of the model that is fitted.

    Examples
    --------
    >>> print(Gibbs(subset=50))
    Gibbs(subset=50)
    """

    name: ClassVar[str] = "gibbs"
    entry: ClassVar[Entry] = gibbs.gibbs
    calls: ClassVar[tuple[int, ...]] = (*layout.OF_COLUMNS, *layout.OF_SWEEPS)

    subset: int | None = None

    def __post_init__(self) -> None:
        if self.subset is not None:
            object.__setattr__(self, "subset", count("subset", self.subset, 1))

    def options(self, model: Specification) -> tuple[float, ...]:
        return (float(self.subset or 0),)

    def scratch_size(self, model: Specification) -> ScratchSize:
        at_once = all(entries.score_four is not None for entries in model.packed.entries)
        return ScratchSize(ints=0 if self.subset is None else model.n_obs, side=gibbs.ROOM if at_once else 0)

    def complaint(self, model: Specification) -> str:
        if self.subset is not None and self.subset > model.n_obs:
            return f"subset={self.subset} is more than the {model.n_obs} observations"
        return ""
