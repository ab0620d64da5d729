"""Membership of rows in clusters of the point estimate, and with what probability.

In a draw a new row belongs to the draw's clusters in proportion to predictive weights times densities, p_k, the last of them a new
cluster, and a cluster k of the draw to a cluster c of the estimate with the share of its members that lie there, |k ∩ c| / |k|.
The sum over draws of sum_k p_k |k ∩ c| / |k|, divided by that of sum_k p_k, is the posterior probability of c given the row as well: a draw
counts as much as it makes the row likely.  What is left is that of a new cluster.

A row that was fitted is in one cluster k of each draw, and its probability of c is the mean share of the other members of k that lie in c;
where it is alone in the draw it is in c if it is alone there, else in a new cluster.  The weight of c in a random measure is, in the same
way, the sum over k of the weight of k times the share of its members that lie in c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common.seeds import draw_seeds
from nrmmix.model.families.base import rows_of
from nrmmix.model.replicates import parts
from nrmmix.posterior.predict.densities import log_terms
from nrmmix.posterior.predict.rows import CovariateWeights, PredictionRows, observed
from nrmmix.posterior.predict.states import SoftStates, States, partitions_of

KINDS = ("cluster", "membership")  # of predictions
NEW = -1  # label of a cluster that the estimate does not have


def of_training_rows(states: States, estimate: np.ndarray) -> pd.DataFrame:
    """Labels of the estimate, and the probability that each row belongs where it is."""
    found = states.company(estimate) if isinstance(states, SoftStates) else _company(states, estimate)
    return _frame(estimate, found, states.model.frame.index)


def training_table(states: States, estimate: np.ndarray) -> pd.DataFrame:
    """Probabilities of every cluster for the fitted rows, in the last column of a new one."""
    n, C = len(estimate), int(estimate.max()) + 1
    if isinstance(states, SoftStates):
        return table(np.column_stack([states.membership(estimate), np.zeros(n)]), states.model.frame.index)
    total, alone = np.zeros((n, C + 1)), np.where(np.bincount(estimate)[estimate] == 1, estimate, C)
    blocks = list(parts(n, 8 * 2 * (C + 1)))
    for labels in partitions_of(states):
        counts = _counts(labels, estimate)
        size = counts.sum(axis=1)
        share = np.column_stack([counts / np.maximum(size - 1, 1)[:, None], np.zeros(len(counts))])
        share[size == 1] = 0.0
        for rows in blocks:
            k = labels[rows]
            total[rows] += share[k]
            # less the row itself, which is no companion of its own
            others = size[k] > 1
            total[rows, np.where(others, estimate[rows], alone[rows])] += np.where(others, -1.0 / np.maximum(size[k] - 1, 1), 1.0)
    return table(np.maximum(total / len(states), 0.0), states.model.frame.index)


def table_of_rows(states: States, estimate: np.ndarray, rows: PredictionRows, y: Any, limits: Any = None) -> pd.DataFrame:
    """Return the table for rows with responses y (rows, d), or limits; NaN where all are missing, or a covariate or an input."""
    return table(probabilities(states, estimate, rows, y, limits), rows.index)


def table(probability: np.ndarray, index: pd.Index) -> pd.DataFrame:
    """Probabilities (rows, C + 1) with the clusters as columns."""
    return pd.DataFrame(probability, index=index, columns=pd.Index([*range(probability.shape[1] - 1), NEW], name="cluster"))


def weights(states: States, estimate: np.ndarray, seed: np.random.SeedSequence) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights (C,) of the clusters of a mixture that are expected, and those (states, C) of draws of the random measure."""
    one = np.zeros(1, np.int64)
    covariates = CovariateWeights(states.model, PredictionRows(pd.RangeIndex(1), one, one, None, one, np.zeros((1, 0))))
    expected, drawn = [], []
    for shares, state, child in zip(_shares(states, estimate), states, draw_seeds(seed, len(states)), strict=True):
        K = len(shares)
        expected.append(state.weights(covariates)[0, :K] @ shares)
        drawn.append(state.measure(child).shares(covariates)[0][0, :K] @ shares)
    return np.mean(expected, axis=0), np.array(drawn)


def of_rows(states: States, estimate: np.ndarray, rows: PredictionRows, y: Any, limits: np.ndarray | None = None) -> pd.DataFrame:
    """The most probable cluster of rows with responses y (rows, d), or limits of them as of `log_terms`, NEW for a new one.

    Responses that are missing do not count.  There is no cluster where all are, or a covariate or an input.
    """
    shares = probabilities(states, estimate, rows, y, limits)
    C, ok = shares.shape[1] - 1, np.flatnonzero(~np.isnan(shares[:, 0]))
    cluster = np.ma.masked_all(len(rows.index), np.int64)
    best = shares[ok].argmax(axis=1)
    cluster[ok] = np.where(best < C, best, NEW)
    return _frame(cluster, shares.max(axis=1), rows.index)


def probabilities(
    states: States, estimate: np.ndarray, rows: PredictionRows, y: Any, limits: np.ndarray | None = None
) -> np.ndarray:
    """(rows, C + 1) posterior probabilities of the clusters of the estimate, the last that of a new one; NaN where nothing is known."""
    among_known, log_odds = among_known_and_new(states, estimate, rows, y, limits)
    with np.errstate(over="ignore"):
        new = 1.0 / (1.0 + np.exp(-log_odds))
        return np.column_stack([among_known / (1.0 + np.exp(log_odds))[:, None], new])


def among_known_and_new(
    states: States, estimate: np.ndarray, rows: PredictionRows, y: Any, limits: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, C) probabilities of the clusters given that a row belongs to one of them, and (rows,) log odds of a new one against these.

    Known clusters are added up apart from a new one, beside which they vanish far out.
    """
    C = int(estimate.max()) + 1
    ok = np.flatnonzero((rows.row >= 0) & observed(y, limits))
    among, log_odds = np.full((len(rows.index), C), np.nan), np.full(len(rows.index), np.nan)
    for part in parts(len(ok), 8 * (4 * (states.most_clusters + 1) + C)):
        some = ok[part]
        total, top = np.zeros((len(some), C)), np.full((len(some), 1), -np.inf)
        new, top_of_new = np.zeros((len(some), 1)), np.full((len(some), 1), -np.inf)
        with rows_of(rows.index, some):
            own = None if limits is None else limits[some]
            for shares, terms in zip(_shares(states, estimate), log_terms(states, rows.take(some), y[some], own), strict=True):
                weight, top, total = _rescaled(terms[:, :-1], top, total)
                total += weight @ shares
                weight, top_of_new, new = _rescaled(terms[:, -1:], top_of_new, new)
                new += weight
        size = total.sum(axis=1, keepdims=True)
        among[some] = np.where(size > 0, total, 1.0) / np.where(size > 0, size, C)
        with np.errstate(divide="ignore"):
            log_odds[some] = (top_of_new - np.where(size > 0, top, 0.0) + np.log(new) - np.log(size))[:, 0]
    return among, log_odds


def _rescaled(terms: np.ndarray, top: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """exp(terms) and sums over earlier ones, both over the exponential of the largest term so far, and the log of that."""
    higher = np.maximum(top, terms.max(axis=1, keepdims=True))
    by = np.where(np.isneginf(higher), 0.0, higher)  # nothing has had any weight so far
    return np.exp(terms - by), higher, total * np.exp(top - by)


def _company(states: States, estimate: np.ndarray) -> np.ndarray:
    """(n,) mean shares of the companions of each fitted row that are in its cluster of the estimate with it.

    In a draw in which a row has none it is in that cluster if it is alone there too, else in a new one.
    """
    alone, total = np.bincount(estimate)[estimate] == 1, np.zeros(len(estimate))
    for labels in partitions_of(states):
        counts = _counts(labels, estimate)
        together, others = counts[labels, estimate] - 1, counts.sum(axis=1)[labels] - 1
        total += np.where(others > 0, together / np.maximum(others, 1), alone)
    return total / len(states)


def _shares(states: States, estimate: np.ndarray) -> Iterator[np.ndarray]:
    """Return, for each state (K, C), the shares of its clusters that lie in the clusters of the estimate."""
    if isinstance(states, SoftStates):
        yield from states.shares_in(estimate)
        return
    for labels in partitions_of(states):
        counts = _counts(labels, estimate)
        yield counts / counts.sum(axis=1, keepdims=True)


def _counts(labels: np.ndarray, estimate: np.ndarray) -> np.ndarray:
    """(K, C): members of each cluster of a draw that lie in each cluster of the estimate."""
    K, C = int(labels.max()) + 1, int(estimate.max()) + 1
    return np.bincount(labels.astype(np.int64) * C + estimate, minlength=K * C).reshape(K, C)


def _frame(cluster: np.ndarray, probability: np.ndarray, index: pd.Index) -> pd.DataFrame:
    labels = pd.arrays.IntegerArray(np.ma.getdata(cluster).copy(), np.ma.getmaskarray(cluster).copy())
    return pd.DataFrame({"cluster": labels, "probability": probability}, index=index)
