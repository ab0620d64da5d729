"""Births: components that have no rows begin with those rows of others that fit worst there, with the codes of these.

The search for codes then moves both apart, and each has parameters of its own.  Where a part of a region is badly explained, as beside
a second mode, or at its ends, the rows that fit worst are of that part.
"""

from __future__ import annotations

import numpy as np

from nrmmix.inference.variational_regression.climb import MIN_COUNT, Climb
from nrmmix.inference.variational_regression.start import MIN_ROWS_OF_FIT, WORST
from nrmmix.posterior.kernel_factors import KernelFactors

AT_ONCE = 8


def born(climb: Climb) -> tuple[KernelFactors, int]:
    """Factors with components born of those that two parts explain best, and how many they are."""
    now, r, rows = climb.factors, climb.shares, climb.memory.rows
    free = np.flatnonzero(now.N < MIN_COUNT)[:AT_ONCE]
    share = np.zeros_like(r)  # of each row in its component that a part of its own would begin with
    for first, last, features, _ in rows.blocks():
        features.scores_by_row(now.eta, share[first:last])
    for m in range(now.n_components):
        own = r[:, m] >= MIN_COUNT
        share[:, m] = (share[:, m] <= np.quantile(share[own, m], WORST)) * r[:, m] if own.sum() >= MIN_ROWS_OF_FIT else 0.0
    if rows.statistics.weight is not None:
        share *= rows.statistics.weight[:, None]
    N, s = share.sum(axis=0), np.zeros_like(now.s)
    for first, last, features, _ in rows.blocks():
        s += features.totals(share[first:last].T)
    rest = np.maximum(now.N - N, 0.0)
    some = np.flatnonzero((N >= 1.0) & (rest >= 1.0))
    if not len(some) or not len(free):
        return now, 0
    gain = np.full(len(N), -np.inf)
    log_z, p = now.exponential.log_z, N[some] / now.N[some]
    gain[some] = log_z(N[some], s[some]) + log_z(rest[some], (now.s - s)[some]) - log_z(now.N[some], now.s[some])
    gain[some] += now.N[some] * (p * np.log(p) + (1.0 - p) * np.log1p(-p))
    parents = some[np.argsort(-gain[some], kind="stable")][: len(free)]
    counts, sums, rates, codes = now.N.copy(), now.s.copy(), now.A.copy(), now.codes.copy()
    for child, parent in zip(free, parents, strict=False):
        counts[child], sums[child], codes[child], rates[child] = N[parent], s[parent], codes[parent], now.A[parent]
        counts[parent], sums[parent] = rest[parent], now.s[parent] - s[parent]
    return KernelFactors(now.binned, now.exponential, now.mass, counts, sums, rates, codes), len(parents)
