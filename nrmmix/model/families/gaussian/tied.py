"""Gaussian components of tied covariance: one covariance matrix for all of them, drawn; normal prior of the means given it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nrmmix.kernels.families.gaussian import tied as kernels
from nrmmix.model.families.base import Entries, Packed, Parameter, matrix_in_words
from nrmmix.model.families.distributions import Distribution, Elliptical, Normal
from nrmmix.model.families.exponential import Exponential, NotExponential
from nrmmix.model.families.gaussian.conjugate_prior import ConjugatePrior, correlations, means_and_sds


@dataclass(frozen=True)
class Tied(ConjugatePrior):
    """Sigma ~ inverse Wishart(nu, scale), mu | Sigma ~ N(centre, Sigma/r); spread = 1, so that draws of Sigma are in squared units."""

    nu: float
    scale: np.ndarray  # (d, d)

    def pack(self, n: int) -> Packed:
        d, t = self.dim, self.dim * (self.dim + 1) // 2
        prior, unknown = self.scale[np.tril_indices(d)], np.full(t, np.nan)  # the factor of Sigma, made by the first call of `empty`
        constant = np.concatenate(
            [[self.r, 0.0, 0.0, 1.0], np.zeros(d), np.zeros(d * d), [self.nu], prior / self.nu, unknown, prior, np.zeros(2 * t + d)]
        )
        places = kernels.covariance_place(d) + np.arange(t)
        entries = Entries.named(kernels, "tied", "combine", "redraw_shared")
        return Packed(
            constant, kernels.n_stat(d), kernels.n_theta(d), kernels.n_work(d), d, entries, shared={"covariance": places}, is_matrix=True
        )

    def exponential(self, y: np.ndarray) -> Exponential:
        raise NotExponential('the covariance that "tied" components share is drawn by chains; use covariance="full" or "diagonal"')

    def _posterior_scale(self, y: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Psi_n (d, d): given a partition Sigma ~ inverse Wishart(nu + n, Psi_n)."""
        found = self.scale.copy()
        for k in range(int(labels.max()) + 1):
            z = y[labels == k] - self.centre
            mean = z.mean(axis=0)
            found += (z - mean).T @ (z - mean) + self.r * len(z) / (self.r + len(z)) * np.outer(mean, mean)
        return found

    def log_marginal(self, y: np.ndarray, labels: np.ndarray) -> float:
        """log p(y | partition), means and covariance integrated out, up to what does not depend on the partition."""
        of_means = 0.5 * self.dim * np.log(self.r / (self.r + np.bincount(labels))).sum()
        return float(of_means - 0.5 * (self.nu + len(y)) * np.linalg.slogdet(self._posterior_scale(y, labels))[1])

    def mean_covariance(self, y: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Psi_n / (nu + n), about the posterior mean of Sigma given a partition."""
        return self._posterior_scale(y, labels) / (self.nu + len(y))

    def _factors(self, values: np.ndarray) -> np.ndarray:
        """(k, d, d) from lower triangles, one a column."""
        L = np.zeros((values.shape[1], self.dim, self.dim))
        L[:, *np.tril_indices(self.dim)] = values.T
        return L

    def _columns(self, stat: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Means (k, d), L (k, d, d), r + n (k,) and the sum over columns of S (d, d), in the units of z."""
        d, first, t = self.dim, kernels.MEAN + self.dim + 2, self.dim * (self.dim + 1) // 2
        own = stat[:, :n_columns]
        L, S = self._factors(own[first + t : first + 2 * t]), self._factors(own[first : first + t]).sum(axis=0)
        mean = self.means(np.einsum("kab,bk->ka", L, own[kernels.MEAN : kernels.MEAN + d]))
        return mean, L, self.r + own[first - 1], S + np.tril(S, -1).T

    def joint_predictive(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> Elliptical:
        mean, L, r_n, _ = self._columns(stat, n_columns)
        scale = L @ np.swapaxes(L, 1, 2) * (1.0 + 1.0 / r_n)[:, None, None]
        return Elliptical(mean[None], scale[None], np.full(n_columns, np.inf))

    def joint_component(self, theta: np.ndarray, inputs: np.ndarray) -> Elliptical:
        mean, L = self._components(theta)
        return Elliptical(mean[None], (L @ np.swapaxes(L, 1, 2))[None], np.full(len(mean), np.inf))

    def _components(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        L = self._factors(theta[self.dim :])
        return self.means(np.einsum("mab,bm->ma", L, theta[: self.dim])), L

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        return _marginals(self.joint_predictive(stat, n_columns, inputs))

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        return _marginals(self.joint_component(theta, inputs))

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        """Sigma is integrated out: given who is in all clusters it is inverse Wishart(nu + n, scale + L S L')."""
        mean, L, r_n, S = self._columns(stat, n_columns)
        df = np.full(n_columns, self.nu + (r_n - self.r).sum() - self.dim + 1.0)
        scale = self.scale + L[0] @ S @ L[0].T

        def share(i: int, j: int) -> np.ndarray:
            return np.full(n_columns, scale[i, j] / np.sqrt(scale[i, i] * scale[j, j]))

        square = np.broadcast_to(np.diag(scale), mean.shape)
        return means_and_sds(self.names, mean, square, df, r_n) + correlations(self.names, df, share)

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        mean, L = self._components(theta)
        return mean + np.einsum("mab,mb->ma", L, rng.standard_normal(mean.shape))

    def describe(self) -> list[str]:
        what = "variance" if self.dim == 1 else "covariance"
        return [
            f"Gaussian, one {what} Sigma of all components: Sigma ~ inverse Wishart(nu, scale), mu | Sigma ~ N(m, Sigma/r)",
            f"{self.mean_in_words}, nu = {self.nu:g}",
            f"scale = {matrix_in_words(self.scale) if self.dim > 1 else f'{self.scale[0, 0]:.5g}'}",
        ]


def _marginals(joint: Elliptical) -> list[Distribution | None]:
    mean, scale = joint[0], joint[1]
    return [Normal(mean[:, :, j], np.sqrt(scale[:, :, j, j])) for j in range(mean.shape[2])]
