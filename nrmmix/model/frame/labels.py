"""Labels of clusters."""

from __future__ import annotations

import numpy as np


def canonical(labels: np.ndarray) -> tuple[np.ndarray, int]:
    """Labels (n,), integers, numbered 0..K-1 by first appearance, int64, and K.

    Examples
    --------
    >>> canonical(np.array([7, 7, 2]))
    (array([0, 0, 1]), 2)
    """
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.reshape(-1)], len(first)


def by_size(labels: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Labels (n,), integers, numbered by the size of their cluster, the largest 0; of equal ones by first appearance.

    Rows count as often as their weights (n,) say.

    Examples
    --------
    >>> by_size(np.array([7, 2, 2, 5]))
    array([1, 0, 0, 2])
    """
    first, K = canonical(labels)
    rank = np.empty(K, np.int64)
    rank[np.argsort(-np.bincount(first, weight), kind="stable")] = np.arange(K)
    return rank[first]


def distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different rows of labels, in order of appearance, and how often each occurs.

    Examples
    --------
    >>> distinct(np.array([[0, 1], [0, 0], [0, 1]]))
    (array([[0, 1],
           [0, 0]]), array([2., 1.]))
    """
    seen: dict[bytes, int] = {}
    index = [seen.setdefault(row.tobytes(), len(seen)) for row in rows]
    _, first, count = np.unique(index, return_index=True, return_counts=True)
    return rows[first], count.astype(np.float64)
