"""Gaussian process regression as the others do it, to compare with: one noise variance, or one that changes with the covariates."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import BSpline
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.stats import norm

STARTS = (0.1, 0.3, 1.0)  # of the length scales, for covariates in [0, 1]
SPLINES, DEGREE = 6, 3  # of the logarithm of the noise


class GaussianProcess:
    """Squared exponential kernel, a length scale for each covariate, hyperparameters of largest marginal likelihood; y standardised."""

    def __init__(self, x: np.ndarray, y: np.ndarray):
        self.x, self.mean = x, y.mean()
        self.y = y - self.mean
        found = [minimize(self._cost, self._start(scale), jac=True, method="L-BFGS-B", bounds=self._bounds()) for scale in STARTS]
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
        return np.full(len(self.x), np.exp(2 * log_parameters[-1]))

    def _cost(self, log_parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Less the log marginal likelihood, and its gradient."""
        K, noise = self._kernel(self.x, self.x, log_parameters), self._noise(log_parameters)
        try:
            factor = cho_factor(K + np.diag(noise + 1e-8), lower=True)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(log_parameters)
        weights = cho_solve(factor, self.y)
        slope = 0.5 * (cho_solve(factor, np.eye(len(self.y))) - np.outer(weights, weights))  # of the cost in each entry of the matrix
        first = len(log_parameters) - 2 - self.x.shape[1]
        gradient = np.zeros_like(log_parameters)
        weighed = slope * K
        for j, x in enumerate(self.x.T):
            gradient[first + j] = (weighed * ((x[:, None] - x) / np.exp(log_parameters[first + j])) ** 2).sum()
        gradient[-2] = 2 * weighed.sum()
        by_row = 2 * np.diag(slope) * noise
        gradient[-1] = by_row.sum()
        gradient[:first] = self._noise_gradient(by_row)
        return float(0.5 * self.y @ weights + np.log(np.diag(factor[0])).sum()), gradient

    def _noise_gradient(self, by_row: np.ndarray) -> np.ndarray:
        return np.empty(0)

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


class Heteroscedastic(GaussianProcess):
    """The logarithm of the noise's sd is a sum of cubic splines of the covariates, coefficients a priori normal; the posterior mode."""

    def __init__(self, x: np.ndarray, y: np.ndarray):
        knots = np.linspace(0.0, 1.0, SPLINES - DEGREE + 1)
        self.knots = np.concatenate([[0.0] * DEGREE, knots, [1.0] * DEGREE])
        self.own = self._basis(x)
        super().__init__(x, y)

    def _basis(self, x: np.ndarray) -> np.ndarray:
        inside = np.clip(x, 0.0, 1.0)
        return np.hstack([BSpline.design_matrix(column, self.knots, DEGREE).toarray() for column in inside.T])

    def _start(self, scale: float) -> np.ndarray:
        return np.concatenate([np.zeros(self.own.shape[1]), super()._start(scale)])

    def _bounds(self) -> list[tuple[float, float]]:
        return [(-4.0, 4.0)] * self.own.shape[1] + super()._bounds()

    def _split(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return parameters[: self.own.shape[1]], parameters[self.own.shape[1] :]

    def _kernel(self, a: np.ndarray, b: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return super()._kernel(a, b, self._split(parameters)[1])

    def _noise(self, parameters: np.ndarray) -> np.ndarray:
        return self._variance(self.own, parameters)

    def _variance(self, basis: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        coefficients, rest = self._split(parameters)
        return np.exp(2 * (rest[-1] + basis @ coefficients))

    def _cost(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        coefficients, _ = self._split(parameters)
        cost, gradient = super()._cost(parameters)
        gradient[: len(coefficients)] += coefficients
        return cost + 0.5 * float(coefficients @ coefficients), gradient

    def _noise_gradient(self, by_row: np.ndarray) -> np.ndarray:
        return self.own.T @ by_row

    def log_density(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        mean, variance = self.predict(x)
        return norm.logpdf(y, mean, np.sqrt(variance + self._variance(self._basis(x), self.parameters)))
