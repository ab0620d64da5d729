"""Natural side of regression components, of one response or several."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from nrmmix.kernels.families import matrix_regression, regression
from nrmmix.model.families.exponential.base import Exponential, factor_rows, inverses, natural, products, symmetric
from nrmmix.model.families.exponential.gaussian import LOG_PI, LOG_TWO_PI, Wishart


class RegressionSide(Exponential):
    """y = G'z + e, e ~ N(0, Lambda^-1), Lambda ~ Wishart(nu, I), G | Lambda ~ MN(G_0, I, Lambda^-1) in whitened coordinates.

    Statistics: products of y (d) among each other, of z (q) with y, of z among each other.  One response is d = 1, for which the kernels
    have columns of their own.
    """

    def __init__(self, nu: float, G: np.ndarray, log_unit: float):
        """`G` (q, d) the prior mean; `log_unit` the log of dy_user/dy."""
        self.nu, self.G, self.log_unit = nu, G, log_unit
        q, d = G.shape
        self.ends = np.cumsum([d * (d + 1) // 2, q * d, q * (q + 1) // 2])
        self.n_stat = int(self.ends[-1])
        self.n_column = regression.n_stat(q) if d == 1 else matrix_regression.n_stat(q, d)
        self.start = Wishart(np.array([nu]), np.eye(d)[None]).log_normaliser()[0]

    def rows(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.hstack([y, inputs]).T)

    def fill(self, rows: np.ndarray, out: np.ndarray) -> None:
        q, d = self.G.shape
        y, z = rows[:d], rows[d:]
        products(y, out[: self.ends[0]])
        for a in range(q):
            first = self.ends[0] + a * d
            np.multiply(y, z[a], out=out[first : first + d])
        products(z, out[self.ends[1] :])

    def log_h(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return np.full(len(y), -0.5 * self.G.shape[1] * LOG_TWO_PI - self.log_unit)

    def _posterior(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The factor of P_n (K, q, q), G_n (K, q, d) and S_n (K, d, d)."""
        q, d = self.G.shape
        L = np.linalg.cholesky(np.eye(q) + symmetric(s[:, self.ends[1] :], q))
        B = self.G + s[:, self.ends[0] : self.ends[1]].reshape(-1, q, d)
        half = np.linalg.solve(L, B)  # G_n' P_n G_n = half' half
        S = np.eye(d) + self.G.T @ self.G + symmetric(s[:, : self.ends[0]], d) - np.swapaxes(half, 1, 2) @ half
        return L, np.linalg.solve(np.swapaxes(L, 1, 2), half), S

    def log_z(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        L, _, S = self._posterior(s)
        log_root = np.log(np.diagonal(L, axis1=1, axis2=2)).sum(axis=1)
        return Wishart(self.nu + N, S).log_normaliser() - self.start - self.G.shape[1] * log_root

    def expectations(self, N: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        (q, d), K = self.G.shape, len(N)
        L, G, S = self._posterior(s)
        wishart = Wishart(self.nu + N, S)
        precision = wishart.mean()
        cross = G @ precision
        of_inputs = d * inverses(L) + cross @ np.swapaxes(G, 1, 2)
        eta = np.hstack([natural(precision), cross.reshape(K, q * d), natural(of_inputs)])
        return eta, -0.5 * wishart.mean_log_det()

    def columns(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        (q, d), K = self.G.shape, len(N)
        L, G, S = self._posterior(s)
        root = np.linalg.cholesky(S)
        nu_n = self.nu + N
        # marginal[n + 1] - marginal[n] of the kernels' tables
        rise = gammaln((nu_n + 1) / 2) - gammaln((nu_n - d + 1) / 2) - 0.5 * d * LOG_PI - self.log_unit
        c = rise - np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        mean = G.reshape(K, q * d).T
        if d == 1:
            return np.concatenate([np.stack([N, c, S[:, 0, 0]]), mean, factor_rows(L), np.full((q, K), np.nan)])
        return np.concatenate([np.stack([N, c]), mean, factor_rows(L), factor_rows(root), np.full((2 * q + d, K), np.nan)])

    def digits_left(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        whole = 1.0 + (self.G**2).sum(axis=0) + np.diagonal(symmetric(s[:, : self.ends[0]], self.G.shape[1]), axis1=1, axis2=2)
        return (np.diagonal(self._posterior(s)[2], axis1=1, axis2=2) / whole).min(axis=1)
