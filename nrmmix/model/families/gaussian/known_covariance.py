"""Gaussian components of known covariance, full or diagonal: normal prior of the mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from nrmmix.kernels.families.gaussian import known_covariance as kernels
from nrmmix.kernels.families.gaussian import known_missing
from nrmmix.model.families import parameter_laws as laws
from nrmmix.model.families.base import Entries, Packed, Parameter, numbers
from nrmmix.model.families.distributions import Distribution, Elliptical, Normal
from nrmmix.model.families.exponential import Exponential, KnownCovarianceForm, NotExponential
from nrmmix.model.families.gaussian.conjugate_prior import ConjugatePrior


@dataclass(frozen=True)
class KnownCovariance(ConjugatePrior):
    """mu ~ N(centre, S/r).

    Kernel coordinates of complete rows are L^-1 (x - centre) with S = L L', those of rows with missing cells (x_j - centre_j)/spread_j.
    """

    covariance: np.ndarray  # (d, d), or (d,) where it is diagonal

    @property
    def is_full(self) -> bool:
        return self.covariance.ndim == 2

    @property
    def factor(self) -> np.ndarray:
        """Cholesky factor of the correlations."""
        return np.linalg.cholesky(self.covariance) / self.spread[:, None] if self.is_full else np.eye(self.dim)

    def coordinates(self, x: Any) -> np.ndarray:
        from scipy.linalg import solve_triangular

        z = super().coordinates(x)
        if self.is_full:
            whole = np.isfinite(z).all(axis=-1)
            z[whole] = solve_triangular(self.factor, z[whole].T, lower=True).T
        return z

    def means(self, values: np.ndarray) -> np.ndarray:
        return super().means(values @ self.factor.T if self.is_full else values)

    def pack(self, n: int) -> Packed:
        d = self.dim
        log_det = np.log(self.spread).sum() + np.log(np.diag(self.factor)).sum()
        own = self.incomplete and not self.is_full
        constant = [[self.r, -log_det, float(own), float(self.is_full)], np.log(self.spread)]
        if self.is_full:
            constant.append(self.factor.ravel())
        entries = Entries.named(kernels, "known", "combine")
        return Packed(np.concatenate(constant), kernels.n_stat(d, own), d, kernels.n_work(d, self.is_full), d, entries)

    def exponential(self, y: np.ndarray) -> Exponential:
        own = self.incomplete and not self.is_full
        return KnownCovarianceForm(self.r, np.log(self.spread) + np.log(np.diag(self.factor)), own)

    def _posterior(self, stat: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
        """Posterior means of the component means and variances as shares of S_jj, (k, d) each."""
        first, d = kernels.MEAN, self.dim
        mean = self.means(stat[first : first + d, :n_columns].T)
        return mean, np.broadcast_to(1.0 / (self.r + stat[first + d + 1 :, :n_columns].T), mean.shape)

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        mean, share = self._posterior(stat, n_columns)
        sd = self.spread * np.sqrt(1.0 + share)
        return [Normal(mean[None, :, j], sd[None, :, j]) for j in range(self.dim)]

    def _of_means(self, stat: np.ndarray, n_columns: int) -> np.ndarray:
        """(k, d, d) posterior covariances of the component means."""
        return self._posterior(stat, n_columns)[1][:, :1, None] * self.covariance

    def joint_predictive(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> Elliptical | None:
        if not self.is_full:
            return None
        scale = self.covariance + self._of_means(stat, n_columns)
        return Elliptical(self._posterior(stat, n_columns)[0][None], scale[None], np.full(n_columns, np.inf))

    def joint_component(self, theta: np.ndarray, inputs: np.ndarray) -> Elliptical | None:
        if not self.is_full:
            return None
        mean = self.means(theta.T)
        return Elliptical(mean[None], np.broadcast_to(self.covariance, (1, len(mean), *self.covariance.shape)), np.full(len(mean), np.inf))

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        mean = self.means(theta.T)
        return [Normal(mean[None, :, j], np.full((1, len(mean)), self.spread[j])) for j in range(self.dim)]

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        mean, share = self._posterior(stat, n_columns)
        sd = self.spread * np.sqrt(share)
        return [Parameter(f"mean {name}", mean[:, j], sd[:, j], laws.normal(mean[:, j], sd[:, j])) for j, name in enumerate(self.names)]

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.means(theta.T + rng.standard_normal(theta.T.shape))

    def describe(self) -> list[str]:
        kind = "diagonal " if self.dim > 1 and not self.is_full else ""
        return [
            f"Gaussian of known {kind}covariance S: mu ~ N(m, S/r)",
            self.mean_in_words,
            f"S = {numbers(self.covariance)}",
        ]


@dataclass(frozen=True)
class KnownCovarianceWithGaps(KnownCovariance):
    """Form with a full covariance where cells of the data are missing.  Kernel coordinates are (x_j - centre_j)/spread_j."""

    def coordinates(self, x: Any) -> np.ndarray:
        return ConjugatePrior.coordinates(self, x)

    def means(self, values: np.ndarray) -> np.ndarray:
        return ConjugatePrior.means(self, values)

    def pack(self, n: int) -> Packed:
        d = self.dim
        correlations = self.covariance / np.outer(self.spread, self.spread)
        log_det = np.linalg.slogdet(correlations)[1]
        entries = Entries.named(known_missing, "missing", "combine")
        constant = np.concatenate([[self.r], np.log(self.spread), correlations.ravel(), [log_det - d * math.log(self.r)]])
        return Packed(constant, known_missing.n_stat(d), d, known_missing.n_work(d), d, entries)

    def exponential(self, y: np.ndarray) -> Exponential:
        raise NotExponential(
            "cells of responses with a full known covariance are missing, and rows then have precisions of their own; use "
            'covariance="diagonal", or missing="drop"'
        )

    def _posterior(self, stat: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
        first, d = known_missing.MEAN, self.dim
        diagonal = first + d + np.arange(d) * (d + 1)
        return self.means(stat[first : first + d, :n_columns].T), stat[diagonal, :n_columns].T

    def _of_means(self, stat: np.ndarray, n_columns: int) -> np.ndarray:
        first, d = known_missing.MEAN + self.dim, self.dim
        shares = np.moveaxis(stat[first : first + d * d, :n_columns].reshape(d, d, -1), -1, 0)
        return np.outer(self.spread, self.spread) * shares

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.means(theta.T + rng.standard_normal(theta.T.shape) @ self.factor.T)
