"""In which cluster of the point estimate a row belongs, and with what probability.

In a draw a new row belongs to the draw's clusters in proportion to predictive weights times densities, p_k, the last of them a new
cluster, and a cluster k of the draw to a cluster c of the estimate with the share of its members that lie there, |k ∩ c| / |k|.
The sum over draws of sum_k p_k |k ∩ c| / |k|, divided by that of sum_k p_k, is the posterior probability of c given the row as well: a draw
counts as much as it makes the row likely.  What is left is that of a new cluster.

A row that was fitted is in one cluster k of each draw, and its probability of c is the mean share of the other members of k that lie in c;
where it is alone in the draw that is 1 if it is alone in c, else 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nrmmix.model.families.base import rows_of
from nrmmix.model.replicates import parts
from nrmmix.posterior.predict.rows import Target, observed
from nrmmix.posterior.predict.states import Replay, log_terms

if TYPE_CHECKING:
    from nrmmix.posterior.draws import Posterior

NEW = -1  # label of a cluster that the estimate does not have


def of_training_rows(posterior: Posterior, estimate: np.ndarray, size: int) -> pd.DataFrame:
    """Labels of the estimate, and the probability that each row belongs where it is."""
    replay = Replay(posterior, size)
    labels = posterior.draws.flat("labels")
    alone = np.bincount(estimate)[estimate] == 1
    total = np.zeros(len(estimate))
    for t in replay.chosen:
        counts = _counts(labels[t], estimate)
        together, others = counts[labels[t], estimate] - 1, counts.sum(axis=1)[labels[t]] - 1
        total += np.where(others > 0, together / np.maximum(others, 1), alone)
    return _frame(estimate, total / len(replay), posterior.specification.frame.index)


def of_rows(posterior: Posterior, estimate: np.ndarray, target: Target, y: Any, size: int) -> pd.DataFrame:
    """The most probable cluster of rows with responses y (rows, d), NEW for a new one.

    Responses that are missing do not count.  There is no cluster where all are, or a covariate or an input.
    """
    replay = Replay(posterior, size)
    labels, C = posterior.draws.flat("labels"), int(estimate.max()) + 1
    ok = np.flatnonzero((target.row >= 0) & observed(y))
    cluster = np.ma.masked_all(len(target.index), np.int64)
    probability = np.full(len(target.index), np.nan)
    for part in parts(len(ok), 8 * (4 * (int(posterior.draws["n_clusters"].max()) + 1) + C)):
        rows = ok[part]
        total, top = np.zeros((len(rows), C + 1)), np.full((len(rows), 1), -np.inf)
        with rows_of(target.index, rows):
            for t, terms in zip(replay.chosen, log_terms(replay, target.take(rows), y[rows]), strict=True):
                higher = np.maximum(top, terms.max(axis=1, keepdims=True))
                total *= np.exp(top - higher)
                p, top = np.exp(terms - higher), higher
                counts = _counts(labels[t], estimate)
                total[:, :C] += p[:, :-1] @ (counts / counts.sum(axis=1, keepdims=True))
                total[:, C] += p[:, -1]
        best = total.argmax(axis=1)
        cluster[rows] = np.where(best < C, best, NEW)
        probability[rows] = total.max(axis=1) / total.sum(axis=1)
    return _frame(cluster, probability, target.index)


def _counts(labels: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """(K, C): members of each cluster of a draw that lie in each cluster of the estimate."""
    K, C = int(labels.max()) + 1, int(estimate.max()) + 1
    return np.bincount(labels.astype(np.int64) * C + estimate, minlength=K * C).reshape(K, C)


def _frame(cluster: np.ndarray, probability: np.ndarray, index: pd.Index) -> pd.DataFrame:
    labels = pd.arrays.IntegerArray(np.ma.getdata(cluster).copy(), np.ma.getmaskarray(cluster).copy())
    return pd.DataFrame({"cluster": labels, "probability": probability}, index=index)
