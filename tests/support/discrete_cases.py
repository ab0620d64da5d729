"""Data and families of counts, yes and no, and categories, with their marginals written down."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from exact.marginals import bernoulli_log_marginal, categorical_log_marginal, multinomial_log_marginal, poisson_log_marginal
from scipy.sparse import csr_array

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.model.pack import arrays_of

N = 40
EPS = np.finfo(float).eps


def with_gaps(y, rng):
    y = y.astype(float)
    y[rng.random(y.shape) < 0.15] = np.nan
    y[np.isnan(y).all(axis=1), 0] = 0.0
    return y


def frame(y, **more):
    return pd.DataFrame(y, columns=[f"y{j + 1}" for j in range(y.shape[1])]).assign(**more)


class Case:
    """A model, and the closed form of log p of some of its rows."""

    def __init__(self, data, family, log_marginal, n_dim, formula=None):
        self.model = nm.Model(formula, data, family=family, prior=nm.DirichletProcess(1.0), missing="marginalize")
        self.family, self.log_marginal, self.n_dim = self.model.family, log_marginal, n_dim

    def started(self, labels):
        data, state = arrays_of(self.model, max(int(np.max(labels)) + 1, 1))
        chain.start(data, state, np.asarray(labels, np.int64))
        return data, state

    def log_predictive(self, i, members):
        members = [int(j) for j in members]
        return self.log_marginal([*members, i]) - (self.log_marginal(members) if members else 0.0)


def poisson_counts(rng):
    return with_gaps(rng.poisson([0.3, 4.0, 20.0, 60.0, 3000.0], (N, 5)), rng)


def poisson_case():
    rng = np.random.default_rng(1)
    y, a, b = poisson_counts(rng), np.array([0.3, 1.0, 2.0, 0.1, 5.0]), np.array([0.5, 0.3, 0.1, 2.0, 0.01])
    return Case(frame(y), nm.Poisson(a, b), lambda c: poisson_log_marginal(y[c], np.ones(len(c)), a, b), 5)


def exposure_case():
    rng = np.random.default_rng(2)
    y, e = poisson_counts(rng), rng.gamma(2.0, size=N)
    a, b = np.array([0.3, 1.0, 2.0, 0.1, 5.0]), np.array([0.5, 0.3, 0.1, 2.0, 0.01])
    return Case(frame(y, e=e), nm.Poisson(a, b, exposure="e"), lambda c: poisson_log_marginal(y[c], e[c], a, b), 5)


def bernoulli_case():
    rng = np.random.default_rng(3)
    y = with_gaps(rng.random((N, 7)) < [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98], rng)
    a, b = rng.gamma(1.0, size=7), rng.gamma(1.0, size=7)
    return Case(frame(y), nm.Bernoulli(a, b), lambda c: bernoulli_log_marginal(y[c], a, b), 7)


def categorical_case():
    rng = np.random.default_rng(4)
    y = with_gaps(np.stack([rng.integers(0, L, N) for L in (2, 3, 9)], axis=1), rng)
    y[:9, 2] = np.arange(9)
    words = frame(y).map(lambda code: None if math.isnan(code) else f"level {code:.0f}")
    alpha = [np.full(L, 0.4) for L in (2, 3, 9)]
    return Case(words, nm.Categorical(0.4), lambda c: categorical_log_marginal(y[c], alpha), 3)


def word_counts():
    rng = np.random.default_rng(5)
    y = rng.poisson(rng.gamma(0.3, 3.0, size=(N, 12))).astype(float)
    y[:, 3] *= 50
    y[y.sum(axis=1) == 0, 0] = 1.0
    return y, rng.gamma(1.0, 0.5, size=12) + 0.01


def multinomial_case(sparse=True):
    y, alpha = word_counts()
    data = csr_array(y) if sparse else frame(y)
    return Case(data, nm.Multinomial(alpha), lambda c: multinomial_log_marginal(y[c], alpha), 12)


CASES = {
    "Poisson": poisson_case, "Poisson, exposure": exposure_case, "Bernoulli": bernoulli_case, "Categorical": categorical_case,
    "Multinomial": multinomial_case,
}
