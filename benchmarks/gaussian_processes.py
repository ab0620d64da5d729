"""Gaussian process regression as the others do it, to compare with: one noise variance, or one that changes with the covariates."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.stats import norm

STARTS = (0.1, 0.3, 1.0)  # of the length scales, for covariates in [0, 1]
PASSES = 12  # of the heteroscedastic process


class GaussianProcess:
    """Squared exponential kernel, a length scale for each covariate, hyperparameters of largest marginal likelihood; y standardised."""

    def __init__(self, x: np.ndarray, y: np.ndarray, noise: np.ndarray | None = None):
        self.x, self.mean = x, y.mean()
        self.y, self.noise = y - self.mean, noise
        found = [minimize(self._cost, self._start(scale), method="L-BFGS-B", bounds=self._bounds()) for scale in STARTS]
        self._set(min(found, key=lambda one: one.fun).x)

    def _start(self, scale: float) -> np.ndarray:
        return np.log([*[scale] * self.x.shape[1], 1.0, 0.3])

    def _bounds(self) -> list[tuple[float, float]]:
        return [(np.log(0.01), np.log(30.0))] * self.x.shape[1] + [(np.log(0.01), np.log(30.0)), (np.log(1e-3), np.log(3.0))]

    def _kernel(self, a: np.ndarray, b: np.ndarray, log_parameters: np.ndarray) -> np.ndarray:
        scales, size = np.exp(log_parameters[:-2]), np.exp(log_parameters[-2])
        gap = (a[:, None, :] - b[None, :, :]) / scales
        return size**2 * np.exp(-0.5 * (gap**2).sum(axis=2))

    def _noise(self, log_parameters: np.ndarray) -> np.ndarray:
        return np.full(len(self.x), np.exp(2 * log_parameters[-1])) if self.noise is None else self.noise

    def _cost(self, log_parameters: np.ndarray) -> float:
        K = self._kernel(self.x, self.x, log_parameters) + np.diag(self._noise(log_parameters) + 1e-8)
        try:
            factor = cho_factor(K, lower=True)
        except np.linalg.LinAlgError:
            return 1e10
        return float(0.5 * self.y @ cho_solve(factor, self.y) + np.log(np.diag(factor[0])).sum())

    def _set(self, log_parameters: np.ndarray) -> None:
        self.parameters = log_parameters
        self.factor = cho_factor(self._kernel(self.x, self.x, log_parameters) + np.diag(self._noise(log_parameters) + 1e-8), lower=True)
        self.weights = cho_solve(self.factor, self.y)

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the function."""
        K = self._kernel(x, self.x, self.parameters)
        size = np.exp(2 * self.parameters[-2])
        return self.mean + K @ self.weights, np.maximum(size - (K * cho_solve(self.factor, K.T).T).sum(axis=1), 1e-10)

    def log_density(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        mean, variance = self.predict(x)
        return norm.logpdf(y, mean, np.sqrt(variance + np.exp(2 * self.parameters[-1])))


class Heteroscedastic:
    """The most likely heteroscedastic process (Kersting et al. 2007): a second process for the logarithm of the noise variance."""

    def __init__(self, x: np.ndarray, y: np.ndarray):
        self.process, noise = GaussianProcess(x, y), None
        for _ in range(PASSES):
            mean, variance = self.process.predict(x)
            level = np.log(0.5 * ((y - mean) ** 2 + variance) + 1e-6)
            self.noise = GaussianProcess(x, level)
            new = np.exp(self.noise.predict(x)[0])
            if noise is not None and np.abs(np.log(new / noise)).max() < 0.01:
                break
            noise = new
            self.process = GaussianProcess(x, y, noise)
        # exp E log of a squared normal is less than its mean; one factor for all makes the residuals' variance right
        mean, variance = self.process.predict(x)
        self.factor = float(np.mean((y - mean) ** 2 / np.exp(self.noise.predict(x)[0])))

    def log_density(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        mean, variance = self.process.predict(x)
        return norm.logpdf(y, mean, np.sqrt(variance + max(self.factor, 1.0) * np.exp(self.noise.predict(x)[0])))
