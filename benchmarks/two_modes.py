"""Simulated data whose posterior has two modes, apart by a whole group of points, neither of which has nearly all the weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import nrmmix as nm
from nrmmix.inference.mcmc.chain import Record


@dataclass
class TwoModes:
    """A posterior with two modes: `statistic` of labels (draws, n) is at least `high` in one, at most `low` in the other."""

    model: nm.Model
    starts: tuple[np.ndarray, np.ndarray]  # labels in the one mode, and in the other
    statistic: Callable[[np.ndarray], np.ndarray]
    low: float = 0.25
    high: float = 0.75

    def see(self, record: Record) -> np.ndarray:
        return self.statistic(record.labels)

    def modes_of(self, value: np.ndarray) -> np.ndarray:
        """1 or 0 of each draw: in the one mode or the other; between the thresholds that of the draw before."""
        out, now = np.empty(len(value)), float(value[0] > (self.low + self.high) / 2)
        for t, x in enumerate(value):
            now = 1.0 if x >= self.high else 0.0 if x <= self.low else now
            out[t] = now
        return out


def together(labels: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of labels (draws, n): share of the pairs of a member of a and one of b that are in one cluster."""
    return np.array([(draw[a, None] == draw[None, b]).mean() for draw in labels])


def grid(n_clusters: int, dim: int, step: float = 10.0) -> np.ndarray:
    means = np.zeros((n_clusters, dim))
    means[:, 0], means[:, 1] = np.arange(n_clusters) % 4 * step, np.arange(n_clusters) // 4 * step
    return means


def pair_of(model: nm.Model, truth: np.ndarray) -> TwoModes:
    """Whether the last two groups are one cluster."""
    last = truth.max()
    a, b = (np.flatnonzero(truth == k)[:20] for k in (last - 1, last))
    return TwoModes(model, (np.minimum(truth, last - 1), truth), lambda labels: together(labels, a, b))


def inverse_wishart(X: np.ndarray) -> nm.Gaussian:
    d = X.shape[1]
    return nm.Gaussian(m=X.mean(axis=0), r=0.01, nu=d + 3.0, scale=np.eye(d))


def apart_pair() -> TwoModes:
    """14 groups of 40 in 5 dimensions, two of them 5.6 standard deviations apart."""
    truth = np.repeat(np.arange(14), 40)
    means = grid(14, 5)
    means[-1] = means[-2] + [5.6, 0, 0, 0, 0]
    X = means[truth] + np.random.default_rng(1).normal(size=(len(truth), 5))
    return pair_of(nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=inverse_wishart(X)), truth)


def corner() -> TwoModes:
    """12 groups in 5 dimensions; one of 40 has two of 15 beside it at right angles, and is one cluster with either of them."""
    truth = np.repeat(np.arange(12), [40] * 9 + [15, 40, 15])
    means = grid(12, 5)
    means[-3:] = [0, -15, 0, 0, 0]
    means[-3, 0], means[-1, 2] = 4.8, 4.8 * 1.17
    X = means[truth] + np.random.default_rng(1).normal(size=(len(truth), 5))
    left, middle, right = (np.flatnonzero(truth == k)[:20] for k in (9, 10, 11))
    return TwoModes(
        nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=inverse_wishart(X)),
        (np.where(truth == 10, 9, truth), np.where(truth == 10, 11, truth)),
        lambda labels: together(labels, left, middle) - together(labels, middle, right), -0.4, 0.4,
    )


def overlap() -> TwoModes:
    """12 groups of 40 in 20 dimensions, known covariance, two of them 3.55 standard deviations apart."""
    truth = np.repeat(np.arange(12), 40)
    means = grid(12, 20)
    means[-1] = means[-2]
    means[-1, 0] += 3.55
    X = means[truth] + np.random.default_rng(1).normal(size=(len(truth), 20))
    family = nm.Gaussian(known_covariance=np.eye(20), m=X.mean(axis=0), r=0.01)
    return pair_of(nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=family), truth)


def documents() -> TwoModes:
    """400 documents of 60 tokens, 60 words, 10 topics, the last 0.79 of the way to the one before it."""
    rng = np.random.default_rng(1)
    topics = rng.dirichlet(np.full(60, 0.3), 10)
    topics[-1] += 0.79 * (topics[-2] - topics[-1])
    truth = np.repeat(np.arange(10), 40)
    counts = np.array([rng.multinomial(60, topics[k]) for k in truth])
    return pair_of(nm.Model(data=counts, prior=nm.DirichletProcess(1.0), family=nm.Multinomial(0.3)), truth)


TWO_MODES = (apart_pair, corner, overlap, documents)
