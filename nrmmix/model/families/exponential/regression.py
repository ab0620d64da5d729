"""Exponential forms of regression components, of one response or several: with a prior that is fixed, or whose scales are learnt."""

from __future__ import annotations

from copy import copy

import numpy as np
from scipy.special import gammaln

from nrmmix.kernels.families import matrix_regression, regression
from nrmmix.model.families.exponential.base import Exponential, best_logs, factor_rows, inverses, natural, products, symmetric
from nrmmix.model.families.exponential.gaussian import LOG_PI, LOG_TWO_PI, Wishart
from nrmmix.model.priors.hyperpriors import Gamma

NARROW, NARROW_ROWS = 2.0, 5  # variances of the rounding error below which a component of more rows is as narrow as that


class RegressionForm(Exponential):
    """y = G'z + e, e ~ N(0, Lambda^-1), Lambda ~ Wishart(nu, S_0^-1), G | Lambda ~ MN(G_0, D^-1, Lambda^-1), S_0 and D diagonal.

    In whitened coordinates, where S_0 and D are 1 unless they are learnt.  Statistics: products of y (d) among each other, of z (q) with
    y, of z among each other.  One response is d = 1, for which the kernels have columns of their own.

    Of responses that are rounded the products of y have the variance of the rounding error with them: so is E log N(y + e) over e uniform
    on the cell of a value, a lower bound of the log of the mean density there, and no component is narrower than the cell.
    """

    is_learnt = False

    def __init__(self, nu: float, G: np.ndarray, log_unit: float):
        """`G` (q, d) the prior mean; `log_unit` the log of dy_user/dy."""
        self.nu, self.G, self.log_unit = nu, G, log_unit
        q, d = G.shape
        self.ends = np.cumsum([d * (d + 1) // 2, q * d, q * (q + 1) // 2])
        self.n_stat = int(self.ends[-1])
        self.n_column = regression.n_stat(q, self.is_learnt) if d == 1 else matrix_regression.n_stat(q, d, self.is_learnt)
        self.rounding: np.ndarray | None = None  # covariance (d, d) of the rounding error, where there is one
        self.set_scales(np.ones(q), np.ones(d))

    def of_rounded(self, covariance: np.ndarray | None) -> RegressionForm:
        """Return the form for responses with such a rounding error, in the coordinates of the kernels."""
        made = copy(self)
        made.rounding = covariance
        return made

    def narrow(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        if self.rounding is None:
            return np.zeros(len(N), bool)
        variance = np.diagonal(self._posterior(s)[2], axis1=1, axis2=2) / (self.nu + N)[:, None]
        return (N > NARROW_ROWS) & (variance < NARROW * np.diagonal(self.rounding)).any(axis=1)

    def set_scales(self, shrinkage: np.ndarray, noise: np.ndarray) -> None:
        """D = diag(shrinkage), S_0 = diag(noise)."""
        self.shrinkage, self.noise = shrinkage, noise
        self.start = Wishart(np.array([self.nu]), np.diag(noise)[None]).log_normaliser()[0]
        self.start -= 0.5 * len(noise) * np.log(shrinkage).sum()  # what the prior has of log_z

    def rows(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.hstack([y, inputs]).T)

    def fill(self, rows: np.ndarray, out: np.ndarray) -> None:
        q, d = self.G.shape
        y, z = rows[:d], rows[d:]
        products(y, out[: self.ends[0]])
        if self.rounding is not None:
            out[: self.ends[0]] += self.rounding[np.triu_indices(d)][:, None]
        for a in range(q):
            first = self.ends[0] + a * d
            np.multiply(y, z[a], out=out[first : first + d])
        products(z, out[self.ends[1] :])

    def log_h(self, y: np.ndarray, inputs: np.ndarray) -> np.ndarray:
        return np.full(len(y), -0.5 * self.G.shape[1] * LOG_TWO_PI - self.log_unit)

    def _posterior(self, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The factor of P_n (K, q, q), G_n (K, q, d) and S_n (K, d, d)."""
        q, d = self.G.shape
        prior = self.shrinkage[:, None] * self.G
        L = np.linalg.cholesky(np.diag(self.shrinkage) + symmetric(s[:, self.ends[1] :], q))
        half = np.linalg.solve(L, prior + s[:, self.ends[0] : self.ends[1]].reshape(-1, q, d))  # G_n' P_n G_n = half' half
        S = np.diag(self.noise) + self._at_least(self.G.T @ prior + symmetric(s[:, : self.ends[0]], d) - np.swapaxes(half, 1, 2) @ half)
        return L, np.linalg.solve(np.swapaxes(L, 1, 2), half), S

    def _at_least(self, S: np.ndarray) -> np.ndarray:
        """Sums of squares of residuals (K, d, d), which rounding may leave negative, as nothing below 0; a fixed prior outweighs that."""
        return S

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
            parts = [np.stack([N, c, S[:, 0, 0]]), mean, factor_rows(L)]
        else:
            parts = [np.stack([N, c]), mean, factor_rows(L), factor_rows(root)]
        return np.concatenate([*parts, np.full((self.n_column - sum(map(len, parts)), K), np.nan)])  # scratch

    def digits_left(self, N: np.ndarray, s: np.ndarray) -> np.ndarray:
        whole = self.noise + self.shrinkage @ self.G**2 + np.diagonal(symmetric(s[:, : self.ends[0]], self.G.shape[1]), axis1=1, axis2=2)
        return (np.diagonal(self._posterior(s)[2], axis1=1, axis2=2) / whole).min(axis=1)


NOISE = Gamma(0.5, 1.0)  # of each noise scale
BOUNDS = (-27.6, 13.8), (-32.2, 6.9)  # of their logs: where kernels that draw them lose digits, and beyond


class LearntRegressionForm(RegressionForm):
    """Regression with point estimates of shrinkage, one for each group of columns, and noise scale: those best for all components.

    The bound then has the prior density of their logarithms, and is one of the density of the data and these.
    """

    is_learnt = True

    def __init__(self, nu: float, d: int, log_unit: float, start: tuple[np.ndarray, np.ndarray], groups: np.ndarray, law: Gamma):
        """`start` shrinkage (q,) and noise scale (d,); `groups` (q,) of each column the first that shares its shrinkage, of that `law`."""
        super().__init__(nu, np.zeros((len(groups), d)), log_unit)
        self.members = [np.flatnonzero(groups == first) for first in np.unique(groups)]
        self.laws = law, NOISE
        self.set_scales(*start)

    def _at_least(self, S: np.ndarray) -> np.ndarray:
        if S.shape[1] == 1:
            return np.maximum(S, 0.0)
        values, vectors = np.linalg.eigh(S)
        return (vectors * np.maximum(values, 0.0)[:, None]) @ np.swapaxes(vectors, 1, 2)

    @property
    def log_prior(self) -> float:
        """Log prior of the logs of the parameters that are learnt, with constants."""
        shrinkage = np.array([self.shrinkage[own[0]] for own in self.members])
        unit = [0.5 * LOG_PI if law.shape == 0.5 else gammaln(law.shape) for law in self.laws]  # gammaln(0.5) is off in its last digits
        parts = zip((shrinkage, self.noise), self.laws, unit, strict=True)
        return float(sum((law.shape * np.log(law.rate * x) - law.rate * x - one).sum() for x, law, one in parts))

    def learnt(self, N: np.ndarray, s: np.ndarray) -> RegressionForm:
        """The form with the parameters that are best for such components, not worse than these."""
        count, d = len(self.members), self.G.shape[1]
        place = np.empty(len(self.shrinkage), np.int64)
        for g, own in enumerate(self.members):
            place[own] = g
        trial = copy(self)
        shape, rate = (np.repeat([getattr(law, name) for law in self.laws], [count, d]) for name in ("shape", "rate"))

        def descent(logs: np.ndarray) -> tuple[float, np.ndarray]:
            x = np.exp(logs)
            trial.set_scales(x[place], x[count:])
            L, G, S = trial._posterior(s)
            precision = Wishart(self.nu + N, S).mean()
            spread = d * np.diagonal(inverses(L), axis1=1, axis2=2) + np.einsum("kaj,kjl,kal->ka", G, precision, G)
            of_columns = 0.5 * (d - trial.shrinkage * spread).sum(axis=0)
            of_noise = 0.5 * (self.nu - trial.noise * np.diagonal(precision, axis1=1, axis2=2)).sum(axis=0)
            slope = np.concatenate([np.bincount(place, of_columns, count), of_noise]) + shape - rate * x
            return -float(trial.log_z(N, s).sum() + trial.log_prior), -slope

        now = np.log(np.concatenate([[self.shrinkage[own[0]] for own in self.members], self.noise]))
        found = best_logs(descent, now, [BOUNDS[0]] * count + [BOUNDS[1]] * d)
        if found is None:
            return self
        best = np.exp(found)
        return self.with_shared({"shrinkage": best[place], "noise_scale": best[count:]})

    @property
    def shared(self) -> dict[str, np.ndarray]:
        """Parameters of all components by their names among draws."""
        return {"shrinkage": self.shrinkage, "noise_scale": self.noise}

    def with_shared(self, values: dict[str, np.ndarray]) -> RegressionForm:
        made = copy(self)
        made.set_scales(values["shrinkage"], values["noise_scale"])
        return made
