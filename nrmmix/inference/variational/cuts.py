"""Partitions to start from: cuts of trees over the rows, which depend on nothing that components share."""

from __future__ import annotations

import math

import numpy as np

from nrmmix.model.frame.labels import canonical

MAX_ROWS = 2000  # beyond them trees take longer than what they are starts of
CLUSTERS = (2, 3, 4, 5, 6, 8, 11)
BY_HALVES = 1.0 - 2.0 / math.pi  # of the variance of a normal variable what is left within its two halves
MIN_PART = 0.1  # of the rows on either side of a split
MIN_LEFT = 0.02  # of a variance within two parts, or within clusters
ROUNDING = 1e-6
PASSES = 20  # of k-means at most


def partitions(columns: np.ndarray, most: int) -> list[np.ndarray]:
    """Labels (n,) of rows in several partitions of 2 to `most` clusters, no two of them alike; `columns` (C, n) are numbers.

    Ward's trees, one of the standardised columns, one of their principal axes, each with its singular value as variance (Scrucca &
    Raftery 2015), are cut at several heights, and each cut is improved by k-means with a variance of each column.  Groups may differ in
    few of many columns: those whose values fall into two parts count for more.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    found: dict[bytes, np.ndarray] = {}
    for X in _coordinates(columns):
        tree = linkage(X, "ward")
        for K in CLUSTERS:
            if K <= min(most, len(X) - 1):
                labels = _improved(X, fcluster(tree, K, "maxclust"))
                found.setdefault(labels.tobytes(), labels)
    return [labels for labels in found.values() if labels.any()]


def _coordinates(columns: np.ndarray) -> list[np.ndarray]:
    """Standardised columns (n, C') and principal axes (n, C''), stretched; none where no column has more than two values, as indicators."""
    some = [one - one.mean() for one in columns if len(np.unique(one)) > 2]
    if not some:
        return []
    X = np.stack([one / one.std() for one in some], axis=1)
    u, length, _ = np.linalg.svd(X, full_matrices=False)
    axes = length > ROUNDING * length[0]
    return [one * (BY_HALVES / _left_by_halves(one)) for one in (X, u[:, axes] * np.sqrt(length[axes]))]


def _left_by_halves(X: np.ndarray) -> np.ndarray:
    """(C,) share of the variance of each column that is left within two parts, cut where that is least."""
    n, least = len(X), max(1, int(MIN_PART * len(X)))
    size = np.arange(least, n - least + 1)
    sums = np.cumsum(np.sort(X, axis=0), axis=0)
    off = sums[size - 1] - size[:, None] / n * sums[-1]  # by how much the sum of a part differs from its share of the whole
    between = (off**2 * (n / (size * (n - size)))[:, None]).max(axis=0)
    return np.maximum(1.0 - between / (n * X.var(axis=0)), MIN_LEFT)


def _improved(X: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Labels after k-means in which each column is measured by what varies within clusters."""
    least = MIN_LEFT * X.var(axis=0)
    labels, K = canonical(labels)
    for _ in range(PASSES):
        member = np.eye(K)[labels]
        centres = (member.T @ X) / member.sum(axis=0)[:, None]
        scaled = centres / np.maximum(((X - centres[labels]) ** 2).mean(axis=0), least)
        before, (labels, K) = labels, canonical(((scaled * centres).sum(axis=1) - 2.0 * X @ scaled.T).argmin(axis=1))
        if np.array_equal(before, labels):
            break
    return labels
