"""The exact posterior of a sparse product on four rows of two distinct covariate values: by enumeration of partitions, of the codes of all
slots and of the slots of clusters, and by quadrature over v."""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.special import betaln, gammaln

ROWS = (-22.0, 24.0, 161)  # of log v


def partitions(n):
    found = [(0,)]
    for _ in range(n - 1):
        found = [one + (k,) for one in found for k in range(max(one) + 2)]
    return found


def psi1(A, sigma):
    return np.log1p(A) if sigma == 0 else np.expm1(sigma * np.log1p(A)) / sigma


class SparsePosterior:
    """Probabilities of (partition, codes of the slots), codes a tuple by slot of tuples by covariate.

    Parameters
    ----------
    tables : list of (1 + N, G) arrays
        Log kernels of the codes of each covariate at the two groups, that of code 0 first.
    log_marginal : callable
        Of a tuple of rows.
    inclusion : float or (a, b)
        Chance of a code that is not 0, or the parameters of its beta prior.
    """

    def __init__(self, tables, log_marginal, slots=2, sigma=0.0, a0=6.0, b0=3.0, inclusion=0.45):
        n, group = 4, (0, 0, 1, 1)
        grid = np.linspace(*ROWS)
        v1, v2 = np.exp(grid)[:, None], np.exp(grid)[None, :]
        in_v = 2.0 * (grid[:, None] + grid[None, :])
        blocks = {b: log_marginal(b) for r in range(1, n + 1) for b in itertools.combinations(range(n), r)}
        each = list(itertools.product(*(range(len(table)) for table in tables)))
        self.keys, weights = [], []
        for codes in itertools.product(each, repeat=slots):
            log_K = np.array([[sum(table[c, g] for table, c in zip(tables, code)) for code in codes] for g in (0, 1)])
            A = [v1 * math.exp(log_K[0, p]) + v2 * math.exp(log_K[1, p]) for p in range(slots)]
            log_b, T = [np.log1p(a) for a in A], sum(psi1(a, sigma) for a in A) / slots
            prior = 0.0
            for j, table in enumerate(tables):
                used = sum(code[j] > 0 for code in codes)
                prior -= used * math.log(len(table) - 1)
                if isinstance(inclusion, tuple):
                    a, b = inclusion
                    prior += betaln(a + used, b + slots - used) - betaln(a, b)
                else:
                    prior += used * math.log(inclusion) + (slots - used) * math.log1p(-inclusion)
            for partition in partitions(n):
                K = max(partition) + 1
                total = 0.0
                for at in itertools.product(range(slots), repeat=K):
                    value, log_v = prior + gammaln(a0 + K) - K * math.log(slots), in_v - (a0 + K) * np.log(b0 + T)
                    for k, p in enumerate(at):
                        block = tuple(i for i in range(n) if partition[i] == k)
                        value += gammaln(len(block) - sigma) - gammaln(1 - sigma) + blocks[block]
                        value += sum(log_K[group[i], p] for i in block)
                        log_v = log_v - (len(block) - sigma) * log_b[p]
                    total += math.exp(value) * np.exp(log_v).sum()
                self.keys.append((partition, codes))
                weights.append(total)
        self.probability = np.array(weights) / sum(weights)

    def by_partition(self):
        found = {}
        for (partition, _), p in zip(self.keys, self.probability):
            found[partition] = found.get(partition, 0.0) + p
        return found

    def by_use(self):
        """(slots and covariates in use) -> probability: how many codes of each covariate are not 0."""
        found = {}
        for (_, codes), p in zip(self.keys, self.probability):
            used = tuple(sum(code[j] > 0 for code in codes) for j in range(len(codes[0])))
            found[used] = found.get(used, 0.0) + p
        return found
