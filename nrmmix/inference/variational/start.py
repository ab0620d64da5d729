"""Starts of variational fits: counts and statistics of components, from seeds among the rows, labels, or an earlier fit."""

from __future__ import annotations

import numpy as np

from nrmmix.model.families.exponential import Features, Statistics

SEED_ROWS = 1000  # rows that seeds are chosen among
SHARE = 0.02  # of the rows of a component that count for the overall mean in its seed, so that it is a proper component
CUT = 0.99  # quantile of the distances beyond which they count alike: outliers are no seeds
STARTS = ("k-means++", "random")


def seeded(rows: Statistics, K: int, rng: np.random.Generator, how: str) -> tuple[np.ndarray, np.ndarray]:
    """Counts and statistics of K components, each about one row.

    "k-means++": rows that are unlikely under the components so far are preferred, by the difference of their log densities: the
    divergence of the family; "random": any rows.
    """
    n, size = rows.n, rows.size
    sample = rows if n <= SEED_ROWS else rows.take(np.sort(rng.choice(n, SEED_ROWS, replace=False)))
    features, K = sample.whole(), min(K, sample.n)
    each = None if sample.weight is None else sample.weight / sample.weight.sum()
    mean = features.totals(np.full((1, sample.n), 1.0 / sample.n) if each is None else each[None])[0]
    weight = max(1.0, SHARE * size / K)
    best: np.ndarray | None = None
    at = int(rng.integers(sample.n) if each is None else rng.choice(sample.n, p=each))
    s, taken = np.empty((K, len(mean))), np.zeros(sample.n, bool)
    for k in range(K):
        taken[at] = True
        row = _row(features, at)
        s[k] = row + 0.5 * weight * (mean + row)
        gap = np.zeros(sample.n)
        if how == "k-means++":
            eta, a = rows.exponential.expectations(np.array([1.0 + weight]), s[k : k + 1])
            score = features.scores(eta)[0] - a[0] + sample.log_h
            best = score if best is None else np.maximum(best, score)
            gap = best.max() - best
            gap = np.minimum(gap, np.quantile(gap, CUT))
        gap = np.where(taken, 0.0, gap if each is None else gap * each)
        if not gap.sum() > 0:
            gap = ~taken * 1.0
        at = int(rng.choice(sample.n, p=gap / gap.sum())) if gap.sum() > 0 else at
    return np.full(K, size / K), s * (size / K) / (1.0 + weight)


def _row(features: Features, at: int) -> np.ndarray:
    parts = [] if features.dense is None else [features.dense[:, at]]
    if features.sparse is not None:
        parts.append(features.sparse[[at]].toarray()[0])
    return np.concatenate(parts)


def of_labels(rows: Statistics, labels: np.ndarray, K: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Counts and statistics of the clusters 0, ..., K - 1 of a partition; K, which some of its rows do not show, is that of the labels."""
    K = int(labels.max()) + 1 if K is None else K
    s = np.zeros((K, rows.exponential.n_stat))
    for start, stop, features in rows.blocks(0, rows.n):
        inside, weight = np.eye(K)[:, labels[start:stop]], rows.weight_of(slice(start, stop))
        s += features.totals(inside if weight is None else inside * weight)
    return np.bincount(labels, rows.weight, K).astype(float), s
