"""Exponential forms of the Gaussian families, one for each form of their prior."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln

from nrmmix.kernels.families.gaussian import known_covariance as kernels_of_known
from nrmmix.kernels.families.gaussian import normal_gamma as kernels_of_diagonal
from nrmmix.kernels.families.gaussian import normal_wishart as kernels_of_full
from nrmmix.model.families.exponential.base import Exponential, factor_rows, inverses, natural, products, symmetric

LOG_PI, LOG_TWO_PI = math.log(math.pi), math.log(2.0 * math.pi)


class Wishart:
    """Expectations of Lambda ~ Wishart(nu, Psi^-1) of so many dimensions, for many nu and Psi at once."""

    def __init__(self, nu: np.ndarray, psi: np.ndarray):
        """`psi` (K, d, d); a LinAlgError if one is not positive definite."""
        self.nu, self.factor = nu, np.linalg.cholesky(psi)
        d = psi.shape[1]
        self.halves = 0.5 * (nu[:, None] - np.arange(d))
        self.log_det = 2.0 * np.log(np.diagonal(self.factor, axis1=1, axis2=2)).sum(axis=1)

    def log_normaliser(self) -> np.ndarray:
        d = self.halves.shape[1]
        return gammaln(self.halves).sum(axis=1) + 0.5 * self.nu * (d * math.log(2.0) - self.log_det)

    def mean(self) -> np.ndarray:
        """E Lambda (K, d, d)."""
        return self.nu[:, None, None] * inverses(self.factor)

    def mean_log_det(self) -> np.ndarray:
        return digamma(self.halves).sum(axis=1) + self.halves.shape[1] * math.log(2.0) - self.log_det


class NormalWishartForm(Exponential):
    """Lambda ~ Wishart(nu, Psi^-1), mu | Lambda ~ N(0, (r Lambda)^-1): statistics y and y_i y_j, i <= j; a known mean, 0, without y."""

    def __init__(self, r: float, nu: float, psi: np.ndarray, log_spread: float, known_mean: bool):
        self.r, self.nu, self.psi, self.log_spread, self.known = r, nu, psi, log_spread, known_mean
        self.d = len(psi)
        self.first = 0 if known_mean else self.d  # of the products
        self.n_stat = self.first + self.d * (self.d + 1) // 2
        self.n_column = kernels_of_full.n_stat(self.d)
        self.start = Wishart(np.array([nu]), psi[None]).log_normaliser()[0]

    def fill(self, rows: np.ndarray, out: np.ndarray) -> None:
        if not self.known:
            out[: self.d] = rows
        products(rows, out[self.first :])

    def log_h(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return np.full(len(y), -0.5 * self.d * LOG_TWO_PI - self.log_spread)

    def _posterior(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """r_n (K,), the mean of mu (K, d) and Psi_n (K, d, d)."""
        psi = self.psi + symmetric(s[:, self.first :], self.d)
        r_n = self.r + N
        if self.known:
            return r_n, np.zeros((len(N), self.d)), psi
        mean = s[:, : self.d] / r_n[:, None]
        return r_n, mean, psi - s[:, : self.d, None] * mean[:, None, :]

    def log_z(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        r_n, _, psi = self._posterior(N, s)
        of_mean = 0.0 if self.known else 0.5 * self.d * np.log(self.r / r_n)
        return Wishart(self.nu + N, psi).log_normaliser() - self.start + of_mean

    def expectations(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r_n, mean, psi = self._posterior(N, s)
        wishart = Wishart(self.nu + N, psi)
        precision = wishart.mean()
        eta, a = natural(precision), -0.5 * wishart.mean_log_det()
        if not self.known:
            linear = (precision @ mean[:, :, None])[:, :, 0]
            eta, a = np.hstack([linear, eta]), a + 0.5 * ((linear * mean).sum(axis=1) + self.d / r_n)
        return eta, a

    def columns(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        d, (r_n, mean, psi) = self.d, self._posterior(N, s)
        L = np.linalg.cholesky(psi)
        df = self.nu + N - d + 1
        log_ratio = np.zeros(len(N)) if self.known else np.log(r_n) - np.log1p(r_n)
        predictive = gammaln((df + d) / 2) - gammaln(df / 2) + 0.5 * d * (log_ratio - LOG_PI) - self.log_spread
        log_root = np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
        head = np.stack([N, predictive - log_root, 0.5 * (self.nu + N + 1.0), np.exp(log_ratio)])
        return np.concatenate([head, mean.T, factor_rows(L), np.full((d, len(N)), np.nan)])

    def digits_left(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        whole = np.diag(self.psi) + np.diagonal(symmetric(s[:, self.first :], self.d), axis1=1, axis2=2)
        return (np.diagonal(self._posterior(N, s)[2], axis1=1, axis2=2) / whole).min(axis=1)


class NormalGammaForm(Exponential):
    """Independent responses, lambda ~ Gamma(nu/2, rate 1/2), mu | lambda ~ N(0, 1/(r lambda)): statistics y and y^2 of each.

    A known mean, 0, needs no y; where cells are missing each response has its own count, the sum of an indicator.
    """

    psi: Any = 1.0  # (d,) where the scale is learnt: then lambda ~ Gamma(nu/2, rate psi/2)

    def __init__(self, r: float, nu: float, log_spread: np.ndarray, known_mean: bool, own_counts: bool):
        self.r, self.nu, self.log_spread, self.known, self.own = r, nu, log_spread, known_mean, own_counts
        self.d = len(log_spread)
        self.first = 0 if known_mean else self.d  # of the squares
        self.n_stat = self.first + (2 if own_counts else 1) * self.d
        self.n_column = kernels_of_diagonal.n_stat(self.d, own_counts)

    def fill(self, rows: np.ndarray, out: np.ndarray) -> None:
        d, first = self.d, self.first
        if self.own:
            out[first + d :] = rows[d:]
            rows = rows[:d]
        if not self.known:
            out[:d] = rows
        np.multiply(rows, rows, out=out[first : first + d])

    def log_h(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return ~np.isnan(y) @ (-0.5 * LOG_TWO_PI - self.log_spread)

    def _posterior(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Count, mean of mu and Psi_n of each response, (K, d)."""
        d, first = self.d, self.first
        n = s[:, first + d :] if self.own else np.broadcast_to(N[:, None], (len(N), d))
        square = self.psi + s[:, first : first + d]
        if self.known:
            return n, np.zeros((len(N), d)), square
        mean = s[:, :d] / (self.r + n)
        return n, mean, square - s[:, :d] * mean

    def log_z(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        n, _, psi = self._posterior(N, s)
        nu_n = self.nu + n
        each = gammaln(nu_n / 2) - gammaln(self.nu / 2) - 0.5 * nu_n * np.log(psi) + 0.5 * n * math.log(2.0)
        each = each + 0.5 * self.nu * np.log(self.psi)
        return (each if self.known else each + 0.5 * np.log(self.r / (self.r + n))).sum(axis=1)

    def expectations(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n, mean, psi = self._posterior(N, s)
        precision = (self.nu + n) / psi
        a = 0.5 * (np.log(psi / 2) - digamma((self.nu + n) / 2))
        return expectations_of(precision, None if self.known else mean, self.r + n, a, self.own)

    def columns(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        n, mean, psi = self._posterior(N, s)
        nu_n = self.nu + n
        ratio = np.ones_like(n) if self.known else (self.r + n) / (self.r + n + 1.0)
        c = gammaln((nu_n + 1) / 2) - gammaln(nu_n / 2) + 0.5 * (np.log(ratio) - LOG_PI - np.log(psi)) - self.log_spread
        head = np.full((2, len(N)), np.nan) if self.own else np.stack([c.sum(axis=1), 0.5 * (self.nu + N + 1.0)])
        counts = [n.T, c.T] if self.own else [N[None]]
        return np.concatenate([head, mean.T, (ratio / psi).T, psi.T, *counts])

    def digits_left(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        return (self._posterior(N, s)[2] / (self.psi + s[:, self.first : self.first + self.d])).min(axis=1)


def expectations_of(
    precision: np.ndarray, mean: np.ndarray | None, r_n: np.ndarray, a: np.ndarray, own_counts: bool
) -> tuple[np.ndarray, np.ndarray]:
    """E[eta] and E[a] of independent normal responses from arrays (K, d): E lambda, the mean of mu or None, r_n, and E[a] but for mu."""
    parts = [-0.5 * precision]
    if mean is not None:
        parts.insert(0, precision * mean)
        a = a + 0.5 * (precision * mean**2 + 1.0 / r_n)
    if own_counts:
        return np.hstack([*parts, -a]), np.zeros(len(a))
    return np.hstack(parts), a.sum(axis=1)


class KnownCovarianceForm(Exponential):
    """y ~ N(mu, I) with mu ~ N(0, I/r) in whitened coordinates: statistic y, and where cells are missing an indicator of each."""

    def __init__(self, r: float, log_spread: np.ndarray, own_counts: bool):
        """`log_spread` of each response; of a full covariance they add up to the log determinant of its factor."""
        self.r, self.log_spread, self.own = r, log_spread, own_counts
        self.d = len(log_spread)
        self.n_stat = (2 if own_counts else 1) * self.d
        self.n_column = kernels_of_known.n_stat(self.d, own_counts)

    def fill(self, rows: np.ndarray, out: np.ndarray) -> None:
        out[:] = rows

    def log_h(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return np.nansum(-0.5 * y**2 - 0.5 * LOG_TWO_PI - np.where(np.isnan(y), np.nan, self.log_spread), axis=1)

    def _posterior(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Count, r_n and mean of each response, (K, d)."""
        n = s[:, self.d :] if self.own else np.broadcast_to(N[:, None], (len(N), self.d))
        r_n = self.r + n
        return n, r_n, s[:, : self.d] / r_n

    def log_z(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        _, r_n, mean = self._posterior(N, s)
        return 0.5 * (np.log(self.r / r_n) + s[:, : self.d] * mean).sum(axis=1)

    def expectations(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        _, r_n, mean = self._posterior(N, s)
        a = 0.5 * (mean**2 + 1.0 / r_n)
        if self.own:
            return np.hstack([mean, -a]), np.zeros(len(N))
        return mean, a.sum(axis=1)

    def columns(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        n, r_n, mean = self._posterior(N, s)
        first = r_n[:, 0]
        c = -self.log_spread.sum() - 0.5 * self.d * (LOG_TWO_PI + np.log((first + 1.0) / first))
        head = np.stack([c, 0.5 * first / (first + 1.0)])
        squares = np.full((1, len(N)), np.nan)  # what a marginal likelihood needs is not kept
        return np.concatenate([head, mean.T, squares, n.T if self.own else N[None]])
