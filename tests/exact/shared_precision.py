"""The posterior of semiconjugate components whose precision is shared, by enumeration and quadrature."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from exact.enumeration import normalised, nrm_log_eppf, partitions
from exact.marginals import semiconjugate_log_marginal
from scipy import stats

import nrmmix as nm

Y = np.array([[-1.1, 0.2], [0.9, 1.3], [0.2, -0.7], [0.6, 0.4], [1.9, 1.6]])
N = len(Y)
M, VARIANCE, SHAPE, RATE = 0.2, 1.3, 1.5, 0.4
MEAN, PRECISION = (M, VARIANCE), nm.Gamma(SHAPE, RATE)
PRIORS = {"DP": (nm.DirichletProcess(1.0), 1.0, 0.0), "NGGP": (nm.NGGP(0.8, 0.4), 0.8, 0.4)}


def shared_posterior(prior, y):
    """Partitions, and the posterior mean of the shared precision of each column: quadrature outside of the sum over partitions."""
    _, mass, sigma = PRIORS[prior]
    x = np.linspace(-9.0, 5.0, 141)
    weight = stats.gamma.logpdf(np.exp(x), SHAPE, scale=1 / RATE) + x

    @cache
    def of_block(block, j):
        return np.array([semiconjugate_log_marginal(y[list(block), j], M, VARIANCE, float(value)) for value in np.exp(x)])

    states, logs, means = [], [], []
    for labels in partitions(N):
        blocks = [tuple(i for i in range(N) if labels[i] == c) for c in range(max(labels) + 1)]
        total, mean = nrm_log_eppf([len(b) for b in blocks], mass, sigma), []
        for j in range(y.shape[1]):
            f = weight + sum(of_block(b, j) for b in blocks)
            total += f.max() + math.log(np.exp(f - f.max()).sum())
            mean.append(np.average(np.exp(x), weights=np.exp(f - f.max())))
        states.append(labels)
        logs.append(total)
        means.append(mean)
    law = normalised(states, logs)
    return law, np.array(list(law.values())) @ np.array(means)
