"""The exponential form of Gaussian components of spherical covariance."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import digamma, gammaln

from nrmmix.kernels.families.gaussian import spherical as kernels
from nrmmix.model.families.exponential.base import Exponential
from nrmmix.model.families.exponential.gaussian import LOG_PI, LOG_TWO_PI, expectations_of


class SphericalForm(Exponential):
    """lambda ~ Gamma(nu/2, rate 1/2), mu_j | lambda ~ N(0, 1/(r lambda)): statistics y, and the sum of squares.

    Known means, 0, need no y; where cells are missing each response has its own count, the sum of an indicator.
    """

    def __init__(self, r: float, nu: float, d: int, log_spread: float, known_mean: bool, own_counts: bool):
        self.r, self.nu, self.d, self.log_spread, self.known, self.own = r, nu, d, log_spread, known_mean, own_counts
        self.square = 0 if known_mean else d  # place of the sum of squares
        self.n_stat = self.square + 1 + (d if own_counts else 0)
        self.n_column = kernels.n_stat(d, own_counts)

    def fill(self, rows: np.ndarray, out: np.ndarray) -> None:
        y = rows[: self.d]
        if not self.known:
            out[: self.d] = y
        out[self.square] = np.einsum("jb,jb->b", y, y)
        out[self.square + 1 :] = rows[self.d :]

    def log_h(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return (~np.isnan(y)).sum(axis=1) * (-0.5 * LOG_TWO_PI - self.log_spread)

    def _posterior(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Counts (K, d), cells T (K,), means of mu (K, d) and Psi (K,)."""
        n = s[:, self.square + 1 :] if self.own else np.broadcast_to(N[:, None], (len(N), self.d))
        psi = 1.0 + s[:, self.square]
        if self.known:
            return n, n.sum(axis=1), np.zeros((len(N), self.d)), psi
        mean = s[:, : self.d] / (self.r + n)
        return n, n.sum(axis=1), mean, psi - (s[:, : self.d] * mean).sum(axis=1)

    def log_z(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        n, cells, _, psi = self._posterior(N, s)
        df = self.nu + cells
        found = gammaln(df / 2) - gammaln(self.nu / 2) - 0.5 * df * np.log(psi) + 0.5 * cells * math.log(2.0)
        return found if self.known else found + 0.5 * np.log(self.r / (self.r + n)).sum(axis=1)

    def expectations(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n, cells, mean, psi = self._posterior(N, s)
        precision = ((self.nu + cells) / psi)[:, None]
        a = np.broadcast_to(0.5 * (np.log(psi / 2) - digamma((self.nu + cells) / 2))[:, None], n.shape)
        return expectations_of(precision, None if self.known else mean, self.r + n, a, self.own)

    def columns(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        n, cells, mean, psi = self._posterior(N, s)
        d, df = self.d, self.nu + cells
        head = np.full((2, len(N)), np.nan)
        if not self.own:
            ratio = np.ones(len(N)) if self.known else (self.r + N) / (self.r + N + 1.0)
            c = gammaln((df + d) / 2) - gammaln(df / 2) + 0.5 * d * (np.log(ratio) - LOG_PI - np.log(psi)) - d * self.log_spread
            head = np.stack([c, ratio / psi])
        return np.concatenate([head, psi[None], cells[None], mean.T, n.T if self.own else N[None]])

    def digits_left(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        return self._posterior(N, s)[3] / (1.0 + s[:, self.square])
