"""In which cluster of the point estimate a row belongs, and with what probability.

In a draw a new row belongs to the draw's clusters in proportion to predictive weights times densities, p_k, the last of them a new
cluster, and a cluster k of the draw to a cluster c of the estimate with the share of its members that lie there, |k ∩ c| / |k|.
The sum over draws of sum_k p_k |k ∩ c| / |k|, divided by that of sum_k p_k, is the posterior probability of c given the row as well: a draw
counts as much as it makes the row likely.  What is left is that of a new cluster.

A row that was fitted is in one cluster k of each draw, and its probability of c is the mean share of the other members of k that lie in c;
where it is alone in the draw that is 1 if it is alone in c, else 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.model.families.base import rows_of
from nrmmix.model.replicates import parts
from nrmmix.posterior.predict.rows import PredictionRows, observed
from nrmmix.posterior.predict.states import SoftStates, States, log_terms

NEW = -1  # label of a cluster that the estimate does not have


def of_training_rows(states: States, estimate: np.ndarray) -> pd.DataFrame:
    """Labels of the estimate, and the probability that each row belongs where it is."""
    found = states.company(estimate) if isinstance(states, SoftStates) else _company(states, estimate)
    return _frame(estimate, found, states.model.frame.index)


def of_rows(states: States, estimate: np.ndarray, rows: PredictionRows, y: Any) -> pd.DataFrame:
    """The most probable cluster of rows with responses y (rows, d), NEW for a new one.

    Responses that are missing do not count.  There is no cluster where all are, or a covariate or an input.
    """
    shares = probabilities(states, estimate, rows, y)
    C, ok = shares.shape[1] - 1, np.flatnonzero(~np.isnan(shares[:, 0]))
    cluster = np.ma.masked_all(len(rows.index), np.int64)
    best = shares[ok].argmax(axis=1)
    cluster[ok] = np.where(best < C, best, NEW)
    return _frame(cluster, shares.max(axis=1), rows.index)


def probabilities(states: States, estimate: np.ndarray, rows: PredictionRows, y: Any) -> np.ndarray:
    """(rows, C + 1) posterior probabilities of the clusters of the estimate, the last that of a new one; NaN where nothing is known."""
    return _normalised(log_probabilities(states, estimate, rows, y))


def probabilities_among_known(states: States, estimate: np.ndarray, rows: PredictionRows, y: Any) -> np.ndarray:
    """(rows, C) posterior probabilities of the clusters of the estimate, given that a row belongs to one of them, however far it is."""
    return _normalised(log_probabilities(states, estimate, rows, y)[:, :-1])


def log_probabilities(states: States, estimate: np.ndarray, rows: PredictionRows, y: Any) -> np.ndarray:
    """(rows, C + 1) logs of the same, up to a number of each row.

    Those of known clusters are added up apart from that of a new one, beside which they may vanish.
    """
    C = int(estimate.max()) + 1
    ok = np.flatnonzero((rows.row >= 0) & observed(y))
    out = np.full((len(rows.index), C + 1), np.nan)
    for part in parts(len(ok), 8 * (4 * (states.most_clusters + 1) + C)):
        some = ok[part]
        total, top = np.zeros((len(some), C)), np.full((len(some), 1), -np.inf)
        new = np.full(len(some), -np.inf)
        with rows_of(rows.index, some):
            for shares, terms in zip(_shares(states, estimate), log_terms(states, rows.take(some), y[some]), strict=True):
                higher = np.maximum(top, terms[:, :-1].max(axis=1, keepdims=True))
                of = np.where(np.isneginf(higher), 0.0, higher)  # no cluster has had any weight there so far
                total = total * np.exp(top - of) + np.exp(terms[:, :-1] - of) @ shares
                top, new = higher, np.logaddexp(new, terms[:, -1])
        with np.errstate(divide="ignore"):
            out[some, :C] = np.log(total) + np.where(np.isneginf(top), 0.0, top)
        out[some, C] = new
    return out


def _normalised(logs: np.ndarray) -> np.ndarray:
    p = np.exp(logs - logs.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def _company(states: States, estimate: np.ndarray) -> np.ndarray:
    """(n,) mean shares of the companions of each fitted row that are in its cluster of the estimate with it."""
    alone, total = np.bincount(estimate)[estimate] == 1, np.zeros(len(estimate))
    for labels in states.partitions():
        counts = _counts(labels, estimate)
        together, others = counts[labels, estimate] - 1, counts.sum(axis=1)[labels] - 1
        total += np.where(others > 0, together / np.maximum(others, 1), alone)
    return total / len(states)


def _shares(states: States, estimate: np.ndarray) -> Iterator[np.ndarray]:
    """Of each state (K, C): the shares of its clusters that lie in the clusters of the estimate."""
    if isinstance(states, SoftStates):
        yield from states.shares_in(estimate)
        return
    for labels in states.partitions():
        counts = _counts(labels, estimate)
        yield counts / counts.sum(axis=1, keepdims=True)


def _counts(labels: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """(K, C): members of each cluster of a draw that lie in each cluster of the estimate."""
    K, C = int(labels.max()) + 1, int(estimate.max()) + 1
    return np.bincount(labels.astype(np.int64) * C + estimate, minlength=K * C).reshape(K, C)


def _frame(cluster: np.ndarray, probability: np.ndarray, index: pd.Index) -> pd.DataFrame:
    labels = pd.arrays.IntegerArray(np.ma.getdata(cluster).copy(), np.ma.getmaskarray(cluster).copy())
    return pd.DataFrame({"cluster": labels, "probability": probability}, index=index)
