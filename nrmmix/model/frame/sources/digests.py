"""Digests of rows that stay where they are, by which it is known that they are those of before."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np


def weight_columns(weight: np.ndarray | None) -> tuple[np.ndarray, ...]:
    """Weights of rows (n, 1), where there are any."""
    return () if weight is None else (weight[:, None],)


def add_to_digest(digest: Any, y: Any, *others: np.ndarray) -> None:
    """Add what is used of some rows to a digest, row by row, so that it does not matter how they are divided into parts."""
    for array in (np.hstack([y, *others]),) if isinstance(y, np.ndarray) else (np.diff(y.indptr), y.indices, y.data):
        digest.update(_bytes(array))


def checks_of(y: Any, inputs: np.ndarray, covariates: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """(q + 1,) sums that change with any bit of what is used of a part: one of each covariate, and one of all else."""
    others = (y,) if isinstance(y, np.ndarray) else (y.indptr, y.indices, y.data)
    return np.array([*map(_sum, covariates.T), _sum(*others, inputs, *weight_columns(weight))])


def _sum(*arrays: np.ndarray) -> int:
    found = 0
    for array in arrays:
        found = zlib.crc32(_bytes(array), found)  # a fraction of the time of the digest: every load of a part is checked
    return found


def _bytes(array: np.ndarray) -> Any:
    return np.ascontiguousarray(array).view(np.uint8).data
