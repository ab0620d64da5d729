"""Guide of trees in density regression, packed: a Gaussian of known variance for the covariates beside the model's families.

A guide is any function of data and an ordering, so that its constants are a matter of speed alone: the standard deviation of the covariates
within a cluster is the kernel's width, and the prior of their mean spreads over all of them.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from nrmmix.kernels.core import state as layout
from nrmmix.kernels.trees.guide_data import marginal_of_nothing, score_nothing
from nrmmix.model.families.base import Packed
from nrmmix.model.families.gaussian.known_covariance import KnownCovariance
from nrmmix.model.specification import Specification

NARROWEST, OF_CATEGORIES = 0.01, 0.3  # standard deviations in scaled covariates


def guide_of(model: Specification) -> tuple[Packed, np.ndarray]:
    """The Gaussian, and the covariates (n, q) in its coordinates; one for each level of a category."""
    grid = model.grid
    assert grid is not None  # of a density regression
    x = grid.scales.coordinates(grid.values)[grid.group]
    widths = grid.width if model.slots is not None else np.where(np.isnan(grid.width), model.start_widths(), grid.width)
    widths = widths[:, ~grid.scales.category]
    spread = np.full(x.shape[1], OF_CATEGORIES)
    span = np.maximum(np.ptp(x, axis=0), np.finfo(float).tiny)
    spread[: widths.shape[1]] = np.clip(np.exp(np.log(widths).mean(axis=0)), NARROWEST * span[: widths.shape[1]], span[: widths.shape[1]])
    family = KnownCovariance(x.mean(axis=0), spread, tuple(map(str, range(x.shape[1]))), False, r=0.1, covariance=spread**2)
    return family.pack(model.n_obs), family.observe(x).y


def size_of(model: Specification, with_guide: bool) -> tuple[int, int]:
    """Rows of statistics and of scratch, with those of the guide where it is wanted; a mixture has none of its own."""
    packed = model.packed
    if not (with_guide and model.is_regression):
        return packed.n_stat, packed.n_work
    own, _ = guide_of(model)
    return packed.n_stat + own.n_stat, max(packed.n_work, own.n_work)


def guided(model: Specification, data: layout.Data, entries: Collection[int]) -> layout.Data:
    """The data of a density regression with covariates beside the responses, and the blocks that read them, with these entry points."""
    own, x = guide_of(model)
    rows, packed = data.rows, model.packed
    first = rows.y.shape[1]
    block = np.zeros(len(layout.Block), np.int64)
    block[[layout.Block.FIRST, layout.Block.LAST, layout.Block.INPUT, layout.Block.INPUT_LAST]] = first, first + x.shape[1], first, first
    block[[layout.Block.MEANS, layout.Block.STAT, layout.Block.THETA]] = packed.n_mean, packed.n_stat, packed.n_theta
    block[layout.Block.CONSTANT] = len(rows.constant)
    block[list(entries)] = own.entries.addresses([column - layout.Block.EMPTY for column in entries])
    silent = block.copy()
    silent[layout.Block.SCORE], silent[layout.Block.MARGINAL] = score_nothing.address, marginal_of_nothing.address
    missing = rows.missing
    if missing.size:
        missing = np.ascontiguousarray(np.hstack([missing, np.zeros(x.shape, np.uint8)]))
    rows = rows._replace(
        y=np.ascontiguousarray(np.hstack([rows.y, x])), missing=missing, constant=np.concatenate([rows.constant, own.constant]))
    guide = np.stack([np.vstack([data.block, silent]), np.vstack([data.block, block])])
    return data._replace(rows=rows, guide=guide, log_guide=np.zeros(model.n_obs))
