"""Gaussian components of diagonal covariance: normal-gamma prior, or known means and a gamma prior."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from nrmmix.kernels.families.gaussian import normal_gamma as kernels
from nrmmix.kernels.families.gaussian import sampled_scale
from nrmmix.model.families.base import Entries, Packed, Parameter, numbers
from nrmmix.model.families.distributions import Distribution, Normal, StudentT
from nrmmix.model.families.exponential import Exponential, LearntGammaForm, NormalGammaForm
from nrmmix.model.families.gaussian.conjugate_prior import KNOWN, ConjugatePrior, described, means_and_sds, shapes
from nrmmix.model.priors.hyperpriors import Gamma


@dataclass(frozen=True)
class NormalGamma(ConjugatePrior):
    """lambda_j ~ Gamma(nu/2, rate spread_j^2/2), mu_j | lambda_j ~ N(centre_j, 1/(r lambda_j)); r = KNOWN where the mean is known."""

    nu: float
    bound: float  # of |y| in kernel coordinates
    laws: tuple[Gamma, ...] = ()  # of the scales, where they are sampled; spread_j^2 is their mean

    def pack(self, n: int) -> Packed:
        d, r, nu = self.dim, self.r, self.nu
        size = np.arange(n + 2.0)
        r_n, nu_n = r + size, nu + size
        predictive = gammaln((nu_n + 1) / 2) - gammaln(nu_n / 2) + 0.5 * (np.log(r_n) - np.log1p(r_n) - math.log(math.pi))
        marginal = gammaln(nu_n / 2) - gammaln(nu / 2) + 0.5 * (math.log(r) - np.log(r_n) - size * math.log(math.pi))
        first = [r, nu, self.bound, n + 2.0, float(self.incomplete), float(len(self.laws) > 0)]
        constant = np.concatenate([first, predictive, marginal, np.log(self.spread), np.ones(d), shapes(self.laws)])
        entries = Entries.named(kernels, "normal_gamma", "combine")
        shared = {}
        if self.laws:
            entries = entries._replace(redraw_shared=sampled_scale.normal_gamma_redraw_shared)
            shared = {"scale": len(constant) - 2 * d + np.arange(d)}
        return Packed(constant, kernels.n_stat(d, self.incomplete), kernels.n_theta(d), kernels.N_WORK, d, entries, shared=shared)

    def exponential(self, y: np.ndarray) -> Exponential:
        values = self.r, self.nu, np.log(self.spread), self.r == KNOWN, self.incomplete
        return LearntGammaForm(shapes(self.laws), *values) if self.laws else NormalGammaForm(*values)

    def _marginals(self, stat: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Location, Psi_n in squared units, degrees of freedom and r_n, (k, d) each."""
        first, d = kernels.MEAN, self.dim
        mean, psi, n = (
            stat[start:stop, :n_columns].T
            for start, stop in ((first, first + d), (first + 2 * d, first + 3 * d), (first + 3 * d, first + 4 * d))
        )
        n = np.broadcast_to(n, mean.shape)
        return self.means(mean), psi * self.spread**2, self.nu + n, self.r + n

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        centre, square, df, r_n = self._marginals(stat, n_columns)
        spread = np.sqrt(square * (1.0 + 1.0 / r_n) / df)
        return [StudentT(centre[None, :, j], spread[None, :, j], df[None, :, j]) for j in range(self.dim)]

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        d = self.dim
        mean, sd = self.means(theta[1 : 1 + d].T), self.spread / theta[1 + d :].T
        return [Normal(mean[None, :, j], sd[None, :, j]) for j in range(d)]

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        return means_and_sds(self.names, *self._marginals(stat, n_columns))

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        d = self.dim
        return self.means(theta[1 : 1 + d].T + rng.standard_normal((theta.shape[1], d)) / theta[1 + d :].T)

    def describe(self) -> list[str]:
        known, of_mean = (", known mean", "") if self.r == KNOWN else ("", ", mu_j | lambda_j ~ N(m_j, 1/(r lambda_j))")
        return [
            f"Gaussian, diagonal covariance{known}: lambda_j ~ Gamma(nu/2, rate scale_j/2){of_mean}",
            f"{self.mean_in_words}, nu = {self.nu:g}",
            f"scale_j {described(self.laws)}" if self.laws else f"scale = {numbers(self.spread**2)}",
        ]
