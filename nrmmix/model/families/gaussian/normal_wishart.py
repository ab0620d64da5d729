"""Gaussian components of full covariance: normal-Wishart prior, or a known mean and a Wishart prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, multigammaln

from nrmmix.kernels.families.gaussian import bounds, sampled_scale, tiles
from nrmmix.kernels.families.gaussian import normal_wishart as kernels
from nrmmix.kernels.families.gaussian.affinity import gaussian_affinity
from nrmmix.kernels.families.gaussian.missing import n_work, score_gaps
from nrmmix.kernels.moves import nearby
from nrmmix.model.families.base import Entries, Observed, Packed, Parameter, matrix_in_words
from nrmmix.model.families.distributions import Distribution, Elliptical, Normal, StudentT
from nrmmix.model.families.exponential import Exponential, LearntWishartForm, NormalWishartForm, NotExponential
from nrmmix.model.families.exponential.base import lower_factors, whole_if_missing
from nrmmix.model.families.gaussian.conjugate_prior import KNOWN, ConjugatePrior, correlations, described, means_and_sds, shapes
from nrmmix.model.priors.hyperpriors import Gamma


def log_multigamma(a: np.ndarray, d: int) -> np.ndarray:
    """Logs (n,) of the multivariate gamma function of d dimensions at a (n,): what SciPy's gives one by one, to the bit."""
    return 0.25 * d * (d - 1) * np.log(np.pi) + gammaln(a[:, None] - np.arange(d) / 2.0).sum(axis=1)


@dataclass(frozen=True)
class NormalWishart(ConjugatePrior):
    """Lambda ~ Wishart(nu, scale^-1), mu | Lambda ~ N(centre, (r Lambda)^-1); r = KNOWN where the mean is known."""

    nu: float
    scale: np.ndarray  # (d, d); the prior mean of one that is sampled
    laws: tuple[Gamma, ...] = ()  # of the diagonal of a scale that is sampled

    def observe(self, y: Any) -> Observed:
        """Return rows for the chain, which draws missing cells of rows that have some, from 0 on; rows that have none stay NaN."""
        z = self.coordinates(y)
        gaps = np.isnan(z)
        if not gaps.any():
            return Observed(z)
        drawn = gaps & ~gaps.all(axis=1, keepdims=True)
        z[drawn] = 0.0
        return Observed(z, missing=drawn.astype(np.uint8))

    @property
    def _correlations(self) -> np.ndarray:
        """Scale (d, d) in the kernels' units."""
        return self.scale / np.outer(self.spread, self.spread)

    def pack(self, n: int) -> Packed:
        d, r, nu = self.dim, self.r, self.nu
        factor = np.linalg.cholesky(self.scale) / self.spread[:, None]
        log_spread = np.log(self.spread)
        size = np.arange(n + 2.0)
        r_n, df = r + size, nu + size - d + 1
        predictive = (
            gammaln((df + d) / 2) - gammaln(df / 2) + 0.5 * d * (np.log(r_n) - np.log1p(r_n) - math.log(math.pi)) - log_spread.sum()
        )
        marginal = (
            log_multigamma((nu + size) / 2, d) - multigammaln(nu / 2, d) + nu * np.log(np.diag(factor)).sum()
            + 0.5 * d * (math.log(r) - np.log(r_n) - size * math.log(math.pi)) - size * log_spread.sum()
        )
        packed = factor[np.tril_indices(d)]
        packed[np.arange(d) * (np.arange(d) + 3) // 2] = 1.0 / np.diag(factor)
        constant = np.concatenate(
            [[r, nu, -log_spread.sum(), n + 2.0, float(len(self.laws) > 0)], predictive, marginal, log_spread, packed,
             self._correlations[np.tril_indices(d)], *([shapes(self.laws)] if self.laws else [])]
        )
        entries = Entries.named(kernels, "gaussian", "combine", *(["impute"] if self.incomplete else []))
        many = n >= nearby.MIN_ROWS and d <= bounds.MAX_RESPONSES
        entries = entries._replace(
            score_gaps=score_gaps,
            affinity=gaussian_affinity if d <= kernels.MAX_RESPONSES else None,
            transfer=kernels.gaussian_transfer if d <= kernels.MAX_IN_ONE_CALL else None,
            score_four=kernels.gaussian_score_four if kernels.MIN_AT_ONCE <= d <= tiles.MAX_RESPONSES else None,
            bound=bounds.gaussian_bound if many and not self.incomplete else None,
            redraw_shared=sampled_scale.gaussian_redraw_shared if self.laws else None,
        )
        begin = len(constant) - d - d * (d + 1) // 2  # of the prior matrix, of a scale that is sampled
        shared = {"scale": begin + np.arange(d) * (np.arange(d) + 3) // 2} if self.laws else {}
        return Packed(constant, kernels.n_stat(d), kernels.n_theta(d), n_work(d), d, entries, shared=shared)

    def exponential(self, y: np.ndarray) -> Exponential:
        gaps = np.isnan(y)
        if (gaps.any(axis=1) & ~gaps.all(axis=1)).any():
            raise NotExponential(
                "cells of responses with a full covariance are missing, which chains draw and for which there is no closed form; use "
                'covariance="diagonal", or missing="drop"'
            )
        log_spread, known = float(np.log(self.spread).sum()), self.r == KNOWN
        if self.laws:
            return whole_if_missing(LearntWishartForm(shapes(self.laws), self.r, self.nu, log_spread, known), y)
        return whole_if_missing(NormalWishartForm(self.r, self.nu, self._correlations, log_spread, known), y)

    def _columns(self, stat: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Location (k, d), factor of Psi_n (k, d, d) in the kernels' units, degrees of freedom and r_n (k,)."""
        d = self.dim
        n, own = stat[0, :n_columns], stat[kernels.MEAN :, :n_columns]
        return self.means(own[:d].T), lower_factors(own[d : d + d * (d + 1) // 2], d), self.nu + n - d + 1.0, self.r + n

    def _marginals(self, stat: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return, for each response, location (k, d) and diagonal of Psi_n (k, d); degrees of freedom and r_n (k,)."""
        centre, L, df, r_n = self._columns(stat, n_columns)
        return centre, (L**2).sum(axis=2) * self.spread**2, df, r_n

    def joint_predictive(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> Elliptical:
        centre, L, df, r_n = self._columns(stat, n_columns)
        root = self.spread[:, None] * L * np.sqrt((1.0 + 1.0 / r_n) / df)[:, None, None]
        return Elliptical(centre[None], (root @ np.swapaxes(root, 1, 2))[None], df)

    def joint_component(self, theta: np.ndarray, inputs: np.ndarray) -> Elliptical:
        d = self.dim
        root = self.spread[:, None] * np.linalg.inv(np.moveaxis(theta[1 + d :].reshape(d, d, -1), -1, 0))
        centre = self.means(theta[1 : 1 + d].T)
        return Elliptical(centre[None], (root @ np.swapaxes(root, 1, 2))[None], np.full(len(centre), np.inf))

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        centre, square, df, r_n = self._marginals(stat, n_columns)
        spread = np.sqrt(square * ((1.0 + 1.0 / r_n) / df)[:, None])
        return [StudentT(centre[None, :, j], spread[None, :, j], df[None, :]) for j in range(self.dim)]

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        d = self.dim
        W = np.moveaxis(theta[1 + d :].reshape(d, d, -1), -1, 0)
        sd = np.sqrt((np.linalg.inv(W) ** 2).sum(axis=2)) * self.spread
        mean = self.means(theta[1 : 1 + d].T)
        return [Normal(mean[None, :, j], sd[None, :, j]) for j in range(d)]

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        centre, L, df, r_n = self._columns(stat, n_columns)
        square, length = (L**2).sum(axis=2) * self.spread**2, np.sqrt((L**2).sum(axis=2))

        def share(i: int, j: int) -> np.ndarray:
            return (L[:, i] * L[:, j]).sum(axis=1) / (length[:, i] * length[:, j])

        return means_and_sds(self.names, centre, square, df, r_n) + correlations(self.names, df, share)

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        d = self.dim
        W = np.moveaxis(theta[1 + d :].reshape(d, d, -1), -1, 0)
        z = rng.standard_normal((theta.shape[1], d, 1))
        return self.means(theta[1 : 1 + d].T + np.linalg.solve(W, z)[..., 0])

    def describe(self) -> list[str]:
        known = self.r == KNOWN
        if self.dim == 1:
            law = "mu known" if known else "mu | lambda ~ N(m, 1/(r lambda))"
            first = f"mu = {self.centre[0]:.5g}" if known else f"m = {self.centre[0]:.5g}, r = {self.r:g}"
            scale = described(self.laws) if self.laws else f"= {self.scale[0, 0]:.5g}"
            return [f"Gaussian: lambda ~ Gamma(nu/2, rate scale/2), {law}", f"{first}, nu = {self.nu:g}, scale {scale}"]
        scale = f"= diag(s), s_j {described(self.laws)}" if self.laws else f"= {matrix_in_words(self.scale)}"
        mean, of_mean = (", known mean", "") if known else ("", ", mu | Lambda ~ N(m, (r Lambda)^-1)")
        title = f"Gaussian, full covariance{mean}: Lambda ~ Wishart(nu, scale^-1){of_mean}"
        return [title, f"{self.mean_in_words}, nu = {self.nu:g}", f"scale {scale}"]
