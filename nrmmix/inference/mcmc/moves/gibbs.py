"""Collapsed Gibbs sweeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nrmmix.common.messages import count
from nrmmix.common.registry import plugin
from nrmmix.inference.mcmc.moves.base import Move, ScratchSize
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import Entry
from nrmmix.kernels.moves import gibbs, nearby
from nrmmix.model.pack import arrays_of
from nrmmix.model.specification import Specification


@plugin
@dataclass(frozen=True)
class Gibbs(Move):
    """Collapsed marginal Gibbs: every observation in turn, component parameters and locations of new atoms integrated out.

    Exact for every prior and family, for mixtures and density regression (Neal 2000, algorithm 3; for normalised random measures
    Favaro & Teh 2013).  Parameters that cannot be integrated out are drawn once a sweep (Neal 2000, algorithm 8).

    In mixtures of Gaussians with full covariance, of 20,000 rows and more of at most 16 responses, none of them missing, sweeps leave out
    clusters that are too far away where tuning has come to 500 or more.  Draws have the law of sweeps over all clusters, of which nothing
    is left out; rows are then visited in another order, those that are near one another together.

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
    calls: ClassVar[tuple[int, ...]] = (*layout.OF_COLUMNS, *layout.OF_SWEEPS, layout.Block.BOUND)

    subset: int | None = None

    def __post_init__(self) -> None:
        if self.subset is not None:
            object.__setattr__(self, "subset", count("subset", self.subset, 1))

    def options(self, model: Specification) -> tuple[float, ...]:
        if not self._has_bounds(model):
            return (float(self.subset or 0),)
        return (
            0.0, 0.0, float(nearby.sweep_nearby.address), float(nearby.MIN_CLUSTERS), nearby.LOG_FAR, nearby.LOG_FAR_OF_NEW,
            float(nearby.BLOCK_ROWS), float(nearby.GROUP_ROWS), float(nearby.MAX_NEAR), float(nearby.MAX_OF_GROUP),
        )

    def scratch_size(self, model: Specification) -> ScratchSize:
        at_once = all(entries.score_four is not None for entries in model.packed.entries)
        trial = gibbs.TRIAL if at_once else 0
        if self._has_bounds(model):
            d, n_stat = model.packed.rows.y.shape[1], arrays_of(model, 1, entries=())[1].stat.shape[0]
            most = nearby.MAX_NEAR + nearby.MAX_OF_GROUP
            floats, ints = nearby.scratch_size(model.n_obs, d, n_stat, len(model.packed.entries), most)
            return ScratchSize(floats, ints, trial=trial)
        return ScratchSize(ints=0 if self.subset is None else model.n_obs, trial=trial)

    def can_have_learnt(self, learnt: np.ndarray, model: Specification) -> bool:
        if not self._has_bounds(model):
            return not learnt.any()
        counts = learnt[[nearby.LEFT, nearby.PAUSE]]
        whole = bool((counts == np.floor(counts)).all() and (counts >= 0).all() and (counts <= nearby.LONGEST_PAUSE).all())
        return learnt[gibbs.BY_PLACE] in (0.0, 1.0) and whole

    def _has_bounds(self, model: Specification) -> bool:
        """Whether sweeps may leave out clusters that are far away."""
        if self.subset is not None or model.is_regression or any(entries.bound is None for entries in model.packed.entries):
            return False
        return not (np.isnan(model.packed.rows.y).any() or model.packed.rows.missing.size)

    def option_error(self, model: Specification) -> str:
        if self.subset is not None and self.subset > model.n_obs:
            return f"subset={self.subset} is more than the {model.n_obs} observations"
        return ""
