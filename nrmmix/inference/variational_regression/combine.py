"""Weights of several starts: alike, the best bound alone, or those that predict rows best that are left out."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from nrmmix.inference.variational_regression.memory import BinnedRows, Kept, LocalStep, StreamedBinnedRows, sample_of
from nrmmix.model.families.exponential import Features
from nrmmix.posterior.kernel_factors import KernelFactors

MAX_ROWS = 2000  # that weights are found by
MIN_SHARE = 1e-4  # share of a component in a row, by covariates or by the response, for it to count there
STEPS, TOL = 1000, 1e-10  # of the ascent, least gain of a step in nats a row


def weights_of(
    how: str, rows: BinnedRows | StreamedBinnedRows, fits: list[KernelFactors], bounds: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """(starts,) weights, which add up to 1."""
    if len(fits) == 1 or how == "equal":
        return np.full(len(fits), 1.0 / len(fits))
    if how == "best":
        return np.eye(len(fits))[int(np.argmax(bounds))]
    some = sample_of(rows, MAX_ROWS, rng)
    return stacked(np.stack([left_out(one, some, some.n == rows.n) for one in fits], axis=1), some.statistics.weight)


def stacked(log_density: np.ndarray, often: np.ndarray | None = None) -> np.ndarray:
    """Weights (S,) that maximise the mean over rows of the log of the weighted density, from log densities (n, S) (Yao et al. 2018).

    `often` (n,) is how often each row counts.
    """
    n, S = log_density.shape
    size, power = (n, None) if often is None else (float(often.sum()), often[:, None])
    log_weight, last = np.full(S, -np.log(S)), -np.inf
    for _ in range(STEPS):  # each step raises it, as an EM step does
        each = log_density + log_weight
        total = logsumexp(each, axis=1)
        log_weight = logsumexp(each - total[:, None], axis=0, b=power) - np.log(size)
        mean = float(np.average(total, weights=often))
        if mean - last < TOL:
            break
        last = mean
    return np.exp(log_weight)


def left_out(factors: KernelFactors, rows: BinnedRows, are_all: bool) -> np.ndarray:
    """(n,) log predictive density of each of some fitted rows, its own share taken out of the statistics of the components.

    What others are of stays as it is: an approximation, exact where a row moves no other.  Where rows `are_all` that were fitted statistics
    are those of the same shares: of earlier ones a row that has moved to a component would take more away than it has put there.  Of a row
    that counts more than once one copy is left out, of one that counts less all that it has put there.
    """
    log_z, out = factors.exponential.log_z, np.empty(rows.n)
    kept = Kept(np.empty((rows.n, factors.n_components)), np.empty((rows.n, factors.n_components)))
    sums = LocalStep.of(factors)(rows, None, kept)
    weight = rows.statistics.weight
    most = np.ones(rows.n) if weight is None else np.minimum(weight, 1.0)
    N_all, s_all = (sums.N, sums.s) if are_all else (factors.N, factors.s)
    for first, last, features in rows.statistics.blocks(0, rows.n):
        r, w = kept.r[first:last], kept.w[first:last]
        T = features.dense.T if features.sparse is None and features.dense is not None else _dense(features)
        row, k = np.nonzero((r > MIN_SHARE) | (w > MIN_SHARE))
        share = most[first:last][row] * r[row, k]
        N, s = N_all[k] - share, s_all[k] - share[:, None] * T[row]
        log_p = np.full(r.shape, -np.inf)
        log_p[row, k] = log_z(N + 1.0, s + T[row]) - log_z(np.maximum(N, 0.0), s) + np.log(np.maximum(w[row, k], 1e-300))
        out[first:last] = logsumexp(log_p, axis=1)
    return out + rows.statistics.log_h


def _dense(features: Features) -> np.ndarray:
    parts = [] if features.dense is None else [features.dense.T]
    return np.hstack([*parts, features.sparse.toarray()])
