"""Every name that families, priors, moves, covariate kernels and pictures of one's own need.

================== =================================================================================================================
all of them        `register`, which lets saved fits hold objects of a class
entry points       `entry`, with a signature: `EMPTY_T`, `UPDATE_T`, `SCORE_T`, `MARGINAL_T`, `SAMPLE_T`, `DENSITY_T`, `MEAN_T`, and where
                   a family has them `ALONE_T`, `IMPUTE_T`, `REDRAW_T`, `REDRAW_SHARED_T`, `COMBINE_T`, `AFFINITY_T`,
                   `SCORE_FOUR_T`, `TRANSFER_T`, `BOUND_T`; `MOVE_T`; `COVARIATE_T`.
                   They give back a status: `DONE`, `NEED_ROOM` for more columns, `BROKEN`, `LOST_PRECISION`, `STALE`
a family           `Family`, `Entries`, `Packed`, `Observed`, `Counts`, `Parameter`, `Distribution` of a response, `RowError`; in
                   entry points the columns of a `Block`: `FIRST`, `LAST`, `INPUT`, `INPUT_LAST`, `MEANS`, `STAT`, `THETA`, `CONSTANT`
a prior            `GibbsType`
a move             `Move`, `ScratchSize`; `only_conjugate`, `only_conjugate_mixtures`, `only_with_unions`, reasons to refuse a model; in
                   entry points `CLUSTERS` and `CURSOR` of `Count`, places in `state.num`, `gibbs_one`, `redraw_cells`
a covariate kernel `CovariateKernel`
a picture          `kind`, and `suits_all` for one that suits every model
================== =================================================================================================================

`CONTRIBUTING.md` shows how each is made, and `tests/` has one of each.

Examples
--------
>>> import math
>>> import nrmmix as nm
>>> @entry(COVARIATE_T)
... def exponential(distance, width, log_K):
...     for g in range(log_K.shape[0]):
...         for p in range(log_K.shape[1]):
...             log_K[g, p] = 0.0
...             for j in range(distance.shape[0]):
...                 log_K[g, p] -= distance[j, g, p] / width[j]
...     return DONE
>>> class AbsoluteExponential(CovariateKernel):
...     entry = exponential
...     formula = "K(x, mu) = exp(-d / width)"
>>> print(nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle(), kernel=AbsoluteExponential(0.1)).kernel)
AbsoluteExponential(width = 0.1)
"""

from nrmmix.common.registry import register
from nrmmix.inference.mcmc.moves.base import Move, ScratchSize, only_conjugate, only_conjugate_mixtures, only_with_unions
from nrmmix.kernels.core.entry import (
    AFFINITY_T,
    ALONE_T,
    BOUND_T,
    COMBINE_T,
    COVARIATE_T,
    DENSITY_T,
    EMPTY_T,
    IMPUTE_T,
    MARGINAL_T,
    MEAN_T,
    MOVE_T,
    REDRAW_SHARED_T,
    REDRAW_T,
    SAMPLE_T,
    SCORE_FOUR_T,
    SCORE_T,
    TRANSFER_T,
    UPDATE_T,
    entry,
)
from nrmmix.kernels.core.state import BROKEN, DONE, LOST_PRECISION, NEED_ROOM, STALE, Block, Count
from nrmmix.kernels.moves.gibbs import gibbs_one
from nrmmix.kernels.moves.imputation import redraw_cells
from nrmmix.model.families.base import Counts, Entries, Family, Observed, Packed, Parameter, RowError
from nrmmix.model.families.distributions import Distribution
from nrmmix.model.priors.covariate_kernels import CovariateKernel
from nrmmix.model.priors.gibbs_type import GibbsType
from nrmmix.plots.kinds import kind, suits_all

__all__ = [
    "AFFINITY_T", "ALONE_T", "BOUND_T", "BROKEN", "COMBINE_T", "COVARIATE_T", "DENSITY_T", "DONE", "EMPTY_T", "IMPUTE_T", "LOST_PRECISION",
    "MARGINAL_T", "MEAN_T", "MOVE_T", "NEED_ROOM", "REDRAW_SHARED_T", "REDRAW_T", "SAMPLE_T", "SCORE_FOUR_T", "SCORE_T", "STALE",
    "TRANSFER_T", "UPDATE_T", "Block", "Count", "Counts", "CovariateKernel", "Distribution", "Entries", "Family", "GibbsType", "Move",
    "Observed", "Packed", "Parameter", "RowError", "ScratchSize", "entry", "gibbs_one", "kind", "only_conjugate", "only_conjugate_mixtures",
    "only_with_unions", "redraw_cells", "register", "suits_all",
]
