"""Gaussian components of spherical covariance: one precision for all responses, means as of a normal-gamma prior, or known."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from nrmmix.kernels.families.gaussian import spherical as kernels
from nrmmix.model.families.base import Entries, Packed, Parameter
from nrmmix.model.families.distributions import Distribution, Elliptical, Normal, StudentT
from nrmmix.model.families.exponential.base import Exponential
from nrmmix.model.families.exponential.spherical import SphericalForm
from nrmmix.model.families.gaussian.conjugate_prior import KNOWN, ConjugatePrior, means_and_sds


@dataclass(frozen=True)
class Spherical(ConjugatePrior):
    """lambda ~ Gamma(nu/2, rate scale/2), mu_j | lambda ~ N(centre_j, 1/(r lambda)), scale = spread^2; r = KNOWN where means are known."""

    nu: float

    def pack(self, n: int) -> Packed:
        d, r, nu = self.dim, self.r, self.nu
        size = np.arange(n + 2.0)
        r_n, nu_n, log_spread = r + size, nu + d * size, math.log(self.spread[0])
        predictive = gammaln((nu_n + d) / 2) - gammaln(nu_n / 2)
        predictive += 0.5 * d * (np.log(r_n) - np.log1p(r_n) - math.log(math.pi)) - d * log_spread
        constant = np.concatenate([[r, nu, float(self.incomplete), log_spread], predictive])
        entries = Entries.named(kernels, "spherical", "combine")
        return Packed(constant, kernels.n_stat(d, self.incomplete), kernels.n_theta(d), kernels.N_WORK, d, entries)

    def exponential(self, y: np.ndarray) -> Exponential:
        return SphericalForm(self.r, self.nu, self.dim, math.log(self.spread[0]), self.r == KNOWN, self.incomplete)

    def _marginals(self, stat: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Locations (k, d), Psi in squared units (k,), degrees of freedom (k,) and r_n (k, d)."""
        d, own = self.dim, stat[:, :n_columns]
        mean, n = own[kernels.MEAN : kernels.MEAN + d].T, own[kernels.MEAN + d :].T
        r_n = np.broadcast_to(self.r + n, mean.shape)
        return self.means(mean), own[kernels.PSI] * self.spread[0] ** 2, self.nu + own[kernels.CELLS], r_n

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        centre, square, df, r_n = self._marginals(stat, n_columns)
        spread = np.sqrt((square / df)[:, None] * (1.0 + 1.0 / r_n))
        return [StudentT(centre[None, :, j], spread[None, :, j], df[None, :]) for j in range(self.dim)]

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        mean, sd = self.means(theta[1:].T), self.spread[0] / theta[0]
        return [Normal(mean[None, :, j], sd[None, :]) for j in range(self.dim)]

    def joint_predictive(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> Elliptical:
        centre, square, df, r_n = self._marginals(stat, n_columns)
        return Elliptical(centre[None], _diagonal((square / df)[:, None] * (1.0 + 1.0 / r_n))[None], df)

    def joint_component(self, theta: np.ndarray, inputs: np.ndarray) -> Elliptical:
        centre = self.means(theta[1:].T)
        variance = np.broadcast_to(((self.spread[0] / theta[0]) ** 2)[:, None], centre.shape)
        return Elliptical(centre[None], _diagonal(variance)[None], np.full(len(centre), np.inf))

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        return means_and_sds(self.names, *self._marginals(stat, n_columns))

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return self.means((theta[1:] + rng.standard_normal((self.dim, theta.shape[1])) / theta[0]).T)

    def describe(self) -> list[str]:
        known, of_mean = (", known mean", "") if self.r == KNOWN else ("", ", mu | lambda ~ N(m, 1/(r lambda) I)")
        return [
            f"Gaussian, spherical covariance{known}: lambda ~ Gamma(nu/2, rate scale/2){of_mean}",
            f"{self.mean_in_words}, nu = {self.nu:g}, scale = {self.spread[0] ** 2:.5g}",
        ]


def _diagonal(values: np.ndarray) -> np.ndarray:
    """(k, d, d) from diagonals (k, d)."""
    return values[:, :, None] * np.eye(values.shape[1])
