"""Covariates as kernels read them: groups of equal rows, candidate locations, scaled distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Grid:
    """Covariates as kernels read them."""

    values: np.ndarray  # (G, q) distinct covariate rows, in the data's units
    group: np.ndarray  # (n,) int64: row of `values` of each observation
    locations: np.ndarray  # (P, q) candidate locations, in the data's units
    offset: np.ndarray  # (q,) scaling: (x - offset) / span
    span: np.ndarray
    distance: np.ndarray  # (q, G, P) scaled distances of groups and locations

    def distances(self, x: np.ndarray) -> np.ndarray:
        """Scaled distances (q, m, P) of covariate rows x (m, q) from the locations."""
        scaled = (x - self.offset) / self.span
        at = (self.locations - self.offset) / self.span
        return np.ascontiguousarray(np.abs(scaled.T[:, :, None] - at.T[:, None, :]))


def farthest_points(x: np.ndarray, count: int) -> np.ndarray:
    """Indices of `count` rows of x (m, q), each the farthest from those before it, the first nearest to the mean."""
    chosen = [int(((x - x.mean(axis=0)) ** 2).sum(axis=1).argmin())]
    gap = ((x - x[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count:
        chosen.append(int(gap.argmax()))
        gap = np.minimum(gap, ((x - x[chosen[-1]]) ** 2).sum(axis=1))
    return np.sort(np.array(chosen))
