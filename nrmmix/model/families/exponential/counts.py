"""Exponential forms of counts, binary responses and categories."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import digamma, gammaln

from nrmmix.kernels.families import categorical as kernels_of_levels
from nrmmix.kernels.families import poisson as kernels_of_poisson
from nrmmix.model.families.exponential.base import Exponential

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class PoissonForm(Exponential):
    """y ~ Poisson(e lambda), lambda ~ Gamma(a, b) for each response: statistics y and e.

    The exposure e of a row is one statistic for all responses, or where cells are missing one for each; without exposures and gaps there
    is none, as N counts them.
    """

    def __init__(self, shape: np.ndarray, rate: np.ndarray, has_exposure: bool, own_counts: bool):
        self.shape, self.rate, self.has_exposure, self.own = shape, rate, has_exposure, own_counts
        self.d = len(shape)
        self.n_stat = self.d + (self.d if own_counts else int(has_exposure))
        self.n_column = kernels_of_poisson.n_stat(self.d)

    def _exposure(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return inputs if self.has_exposure else np.ones((len(y), 1))

    def rows(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        parts = [np.nan_to_num(y)]
        if self.own:
            parts.append(np.where(np.isnan(y), 0.0, self._exposure(y, inputs)))
        elif self.has_exposure:
            parts.append(inputs)
        return np.ascontiguousarray(np.hstack(parts).T)

    def fill(self, rows: np.ndarray, out: np.ndarray) -> None:
        out[:] = rows

    def log_h(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return np.nansum(y * np.log(self._exposure(y, inputs)) - gammaln(y + 1.0), axis=1)

    def _posterior(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shape and rate (K, d)."""
        exposure = s[:, self.d :] if self.own or self.has_exposure else N[:, None]
        return self.shape + s[:, : self.d], self.rate + exposure

    def log_z(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        shape, rate = self._posterior(N, s)
        return (gammaln(shape) - gammaln(self.shape) + self.shape * np.log(self.rate) - shape * np.log(rate)).sum(axis=1)

    def expectations(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shape, rate = self._posterior(N, s)
        eta, mean = digamma(shape) - np.log(rate), shape / rate
        if self.own:
            return np.hstack([eta, -mean]), np.zeros(len(N))
        if self.has_exposure:
            return np.column_stack([eta, -mean.sum(axis=1)]), np.zeros(len(N))
        return eta, mean.sum(axis=1)

    def columns(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        shape, rate = (values.T for values in self._posterior(N, s))
        caches = (1.0 / rate, np.log(rate)) if self.has_exposure else (-shape * np.log1p(1.0 / rate), np.log1p(rate))
        each = np.stack([shape - self.shape[:, None], rate - self.rate[:, None], *caches], axis=1)  # (d, EACH, K)
        factorials = np.full((1, len(N)), np.nan)  # what a marginal likelihood needs is not kept
        return np.concatenate([factorials, each.reshape(-1, len(N))])


class DirichletForm(Exponential):
    """Counts of levels with a Dirichlet prior, those of each response for itself: statistics the counts, rows of a CSR matrix.

    Of a multinomial all columns are the levels of one response; coefficients are left out.
    """

    is_sparse: ClassVar[bool] = True

    def __init__(self, concentrations: Sequence[np.ndarray], is_multinomial: bool):
        self.concentration = np.concatenate(list(concentrations))
        self.starts = np.concatenate([[0], np.cumsum([len(own) for own in concentrations])]).astype(np.int64)
        self.is_multinomial = is_multinomial
        self.n_stat = int(self.starts[-1])
        self.n_column = self.n_stat + 1 if is_multinomial else kernels_of_levels.n_stat(len(concentrations), self.n_stat)
        self.prior = np.add.reduceat(self.concentration, self.starts[:-1])  # total of each response
        self.start = gammaln(self.concentration).sum() - gammaln(self.prior).sum()

    def rows(self, y: Any, inputs: np.ndarray) -> csr_array:
        """Return the rows of a multinomial, whose `y` holds the counts themselves, `Counts` of `nrmmix.model.families.base`."""
        from scipy.sparse import csr_array

        if self.is_multinomial:
            return csr_array((y.counts, y.indices, y.indptr), shape=(len(y.indptr) - 1, self.n_stat))
        here = ~np.isnan(y)
        indices = (np.where(here, y, 0.0).astype(np.int64) + self.starts[:-1])[here]
        indptr = np.concatenate([[0], np.cumsum(here.sum(axis=1))])
        return csr_array((np.ones(len(indices)), indices, indptr), shape=(len(y), self.n_stat))

    def log_h(self, y: Any, inputs: np.ndarray) -> np.ndarray:
        return np.zeros(len(y.indptr) - 1 if self.is_multinomial else len(y))

    def _posterior(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Concentrations (K, S), and their totals by response (K, responses)."""
        alpha = self.concentration + np.maximum(s, 0.0)
        return alpha, np.add.reduceat(alpha, self.starts[:-1], axis=1)

    def log_z(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        alpha, total = self._posterior(s)
        return gammaln(alpha).sum(axis=1) - gammaln(total).sum(axis=1) - self.start

    def expectations(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        alpha, total = self._posterior(s)
        return digamma(alpha) - self._spread(digamma(total)), np.zeros(len(N))

    def _spread(self, by_response: np.ndarray) -> np.ndarray:
        return np.repeat(by_response, np.diff(self.starts), axis=1)

    def columns(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        alpha, total = self._posterior(s)
        counts = np.maximum(s, 0.0).T
        if self.is_multinomial:
            return np.concatenate([counts, counts.sum(axis=0, keepdims=True)])
        logs = np.log(alpha / self._spread(total)).T
        own = np.stack([counts[start:stop].sum(axis=0) for start, stop in pairwise(self.starts)])
        return np.concatenate([counts, logs, np.zeros((1, len(N))), own])


class BinaryForm(DirichletForm):
    """Responses 0 and 1, NaN where missing, the probability of 1 Beta(a, b): counts of both, dense as statistics of continuous families."""

    is_sparse: ClassVar[bool] = False

    def __init__(self, a: np.ndarray, b: np.ndarray):
        super().__init__(list(np.stack([b, a], axis=1)), is_multinomial=False)

    def rows(self, y: Any, inputs: np.ndarray) -> np.ndarray:
        return np.stack([y.T == 0.0, y.T == 1.0], axis=1).reshape(self.n_stat, len(y)).astype(float)

    def fill(self, rows: np.ndarray, out: np.ndarray) -> None:
        out[:] = rows
