"""Gaussian components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln, multigammaln

from nrmmix.arrays import reals
from nrmmix.families.base import Entries, Family, Observed, Packed, Parameter, numbers
from nrmmix.families.laws import Law, Normal, StudentT
from nrmmix.kernels.families import gaussian

# Defaults of the Gaussian family, chosen by held-out score: benchmarks/default_scale.py.
GAUSSIAN_R = 0.01
GAUSSIAN_EXTRA_NU = 1.0
GAUSSIAN_SPREAD = 0.02
LEAST_NU = 0.05  # above d - 1; below, draws from the prior leave floating point


@dataclass(frozen=True, eq=False)
class Gaussian(Family):
    """Gaussian components with a conjugate normal-Wishart prior.

    Precision Lambda ~ Wishart(nu, scale^-1), mean mu | Lambda ~ N(m, (r Lambda)^-1).  Hyperparameters that are not given follow the
    data, so that fits do not depend on the units of the responses: see Notes.

    Parameters
    ----------
    covariance : "full"
        One free covariance matrix a component.
    m : array_like, (d,), optional
        Prior mean of the component means, in the units of the responses; default the sample mean.
    r : float, optional
        Prior weight of m, in observations; default 0.01.
    nu : float, optional
        Degrees of freedom, at least d - 0.95; default d + 1.
    scale : array_like, (d, d), optional
        Positive definite scale matrix, squared units of the responses; default 0.02 nu diag(sample variances).  The prior mean of the
        precision is nu scale^-1, that of the covariance scale / (nu - d - 1) for nu > d + 1.

    Raises
    ------
    ValueError
        If a hyperparameter is out of range or has the wrong shape, here or when the family meets the data.

    Notes
    -----
    With the defaults a component's standard deviation is typically sqrt(0.02) = 0.14 of the sample's, and component means spread over
    sqrt(0.02 / r) = 1.4 sample standard deviations: components are narrow against the data, and can be anywhere in them.  nu = d + 1
    is the weakest whole number of degrees of freedom with which the predictive has a mean.  Among 72 candidates they had the smallest
    mean regret of held-out log density over six problems from galaxy, acidity, faithful, iris and mcycle, 0.02 nats an observation
    (benchmarks/default_scale.py).  In one dimension all hyperparameters may be scalars.

    Examples
    --------
    >>> family = Gaussian(m=20, r=0.01, nu=4, scale=2).resolve(np.array([[19.0], [22.0]]))
    >>> family.scale
    array([[2.]])
    """

    covariance: str = "full"
    m: Any = None
    r: float | None = None
    nu: float | None = None
    scale: Any = None
    arguments: ClassVar[tuple[str, ...]] = ("covariance", "m", "r", "nu", "scale")

    def __init__(self, covariance: str = "full", *, m: Any = None, r: float | None = None, nu: float | None = None,
                 scale: Any = None) -> None:
        if not (isinstance(covariance, str) and covariance == "full"):
            raise ValueError(f'Gaussian: covariance must be "full", not {covariance!r}.')
        for name, value in (("r", r), ("nu", nu)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < math.inf):
                raise ValueError(f"Gaussian: {name} must be a finite number greater than 0, not {value!r}.")
        for name, value in (("covariance", covariance), ("m", m), ("r", r), ("nu", nu), ("scale", scale)):
            object.__setattr__(self, name, value)

    def resolve(self, y: Any, names: tuple[str, ...] | None = None, inputs: np.ndarray | None = None,
                levels: Sequence[tuple[Any, ...] | None] | None = None) -> Gaussian:
        """The family with every hyperparameter a number, defaults taken from the responses y (n, d).

        Raises
        ------
        ValueError
            If a given hyperparameter does not fit d responses, or a default cannot be had from the data.
        """
        n, d = y.shape
        names = names or tuple(f"y{j + 1}" for j in range(d))
        nu = float(d + GAUSSIAN_EXTRA_NU if self.nu is None else self.nu)
        if nu <= d - 1:
            raise ValueError(f"Gaussian: nu must be greater than d - 1 = {d - 1} for {d} responses, not {nu:g}.")
        if nu < d - 1 + LEAST_NU:
            raise ValueError(f"Gaussian: nu = {nu:g} is so near d - 1 = {d - 1} that draws overflow; take {d - 1 + LEAST_NU:g} or more.")
        r = float(GAUSSIAN_R if self.r is None else self.r)
        m = y.mean(axis=0) if self.m is None else self._shaped("m", self.m, (d,))
        if self.scale is not None:
            scale = self._shaped("scale", self.scale, (d, d))
            if not np.allclose(scale, scale.T, rtol=1e-8, atol=0):
                raise ValueError("Gaussian: scale must be symmetric.")
            scale = (scale + scale.T) / 2
        else:
            if n < 2:
                raise ValueError(
                    "Gaussian: the default scale needs at least 2 observations; give scale=, or more data."
                )
            with np.errstate(over="ignore", invalid="ignore"):
                variance = y.var(axis=0, ddof=1)
            for name, value in zip(names, variance, strict=True):
                if not 0 < value < math.inf:
                    raise ValueError(
                        f"Gaussian: response {name!r} has variance {value:g}; leave it out if it is constant, rescale it if its numbers "
                        "are too large or too small, or give scale=."
                    )
            scale = np.diag(GAUSSIAN_SPREAD * nu * variance)
        try:
            np.linalg.cholesky(scale)
        except np.linalg.LinAlgError:
            raise ValueError(f"Gaussian: scale must be positive definite, not {scale.tolist()}.") from None
        return self.with_values(m=m, r=r, nu=nu, scale=scale, names=names)

    @staticmethod
    def _shaped(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
        array = reals(value, f"Gaussian: {name}")
        if array.ndim == 0 and shape[0] == 1:
            array = array.reshape(shape)
        if array.shape != shape:
            raise ValueError(f"Gaussian: {name} must have shape {shape} for these responses, not {array.shape}.")
        if not np.isfinite(array).all():
            raise ValueError(f"Gaussian: {name} must be finite, not {array.tolist()}.")
        return array

    # ---- arrays for the kernels; the rest needs resolved hyperparameters

    @property
    def dim(self) -> int:
        return len(self.m)

    @property
    def factor(self) -> np.ndarray:
        """L with scale = L L', lower triangular."""
        return np.linalg.cholesky(self.scale)

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Kernel coordinates L^-1 (x - m) of points (..., d); NaN stays in its row."""
        from scipy.linalg import solve_triangular

        flat = (np.asarray(x, float) - self.m).reshape(-1, self.dim)
        out = np.full_like(flat, np.nan)
        ok = np.isfinite(flat).all(axis=1)
        out[ok] = solve_triangular(self.factor, flat[ok].T, lower=True).T
        return np.ascontiguousarray(out.reshape(np.shape(x)))

    def observe(self, y: Any) -> Observed:
        return Observed(self.coordinates(y))

    def means(self, values: np.ndarray) -> np.ndarray:
        return values @ self.factor.T + self.m

    def pack(self, y: Any, inputs: np.ndarray) -> Packed:
        """Tables by cluster size."""
        n, d = y.shape
        r, nu = self.r, self.nu
        log_L = float(np.log(np.diag(self.factor)).sum())
        size = np.arange(n + 2.0)
        r_n, df = r + size, nu + size - d + 1
        predictive = (
            gammaln((df + d) / 2) - gammaln(df / 2) + 0.5 * d * (np.log(r_n) - np.log1p(r_n) - math.log(math.pi)) - log_L
        )
        marginal = (
            np.array([multigammaln((nu + s) / 2, d) for s in size]) - multigammaln(nu / 2, d)
            + 0.5 * d * (math.log(r) - np.log(r_n) - size * math.log(math.pi)) - size * log_L
        )
        constant = np.concatenate([[r, nu, -log_L, n + 2.0], predictive, marginal])
        entries = Entries(
            gaussian.gaussian_empty, gaussian.gaussian_update, gaussian.gaussian_score, gaussian.gaussian_marginal,
            gaussian.gaussian_sample, gaussian.gaussian_density, gaussian.gaussian_mean, gaussian.gaussian_mean_theta,
        )
        return Packed(constant, gaussian.n_stat(d), gaussian.n_theta(d), d + 1, d, entries)

    def _marginals(self, stat: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Location (k, d), scale (k, d) and degrees of freedom (k,) of each response's predictive t."""
        d = self.dim
        n, mean = stat[0, :n_columns], stat[gaussian.MEAN : gaussian.MEAN + d, :n_columns].T
        L = np.zeros((n_columns, d, d))
        rows, columns = np.tril_indices(d)
        L[:, rows, columns] = stat[gaussian.MEAN + d : gaussian.MEAN + d + len(rows), :n_columns].T
        diagonal = np.arange(d)
        L[:, diagonal, diagonal] = 1.0 / L[:, diagonal, diagonal]  # kept as reciprocals
        df, r_n = self.nu + n - d + 1.0, self.r + n
        factor = (self.factor @ L) * np.sqrt((r_n + 1.0) / (r_n * df))[:, None, None]
        return self.means(mean), np.sqrt((factor**2).sum(axis=2)), df

    def predictive_laws(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Law | None]:
        centre, spread, df = self._marginals(stat, n_columns)
        return [StudentT(centre[None, :, j], spread[None, :, j], df[None, :]) for j in range(self.dim)]

    def component_laws(self, theta: np.ndarray, inputs: np.ndarray) -> list[Law | None]:
        d = self.dim
        W = np.moveaxis(theta[1 + d :].reshape(d, d, -1), -1, 0)
        factor = np.swapaxes(np.linalg.solve(np.swapaxes(W, 1, 2), np.broadcast_to(self.factor.T, W.shape)), 1, 2)
        mean, sd = self.means(theta[1 : 1 + d].T), np.sqrt((factor**2).sum(axis=2))
        return [Normal(mean[None, :, j], sd[None, :, j]) for j in range(d)]

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        """Of each response the mean and the standard deviation in the component; moments that do not exist are NaN."""
        centre, spread, df = self._marginals(stat, n_columns)
        r_n, df = (self.r + stat[0, :n_columns])[:, None], df[:, None]
        square = spread**2 * r_n * df / (r_n + 1.0)  # of Psi_n: the response's variance is inverse gamma(df / 2, square / 2)
        with np.errstate(divide="ignore", invalid="ignore"):
            of_mean = np.where(df > 2, np.sqrt(square / (r_n * (df - 2))), np.nan)
            sd = np.where(df > 1, np.sqrt(square / 2) * np.exp(gammaln((df - 1) / 2) - gammaln(df / 2)), np.nan)
            of_sd = np.where(df > 2, np.sqrt(np.maximum(square / (df - 2) - sd**2, 0.0)), np.nan)
        mean = np.where(df > 1, centre, np.nan)
        found = []
        for j, name in enumerate(self.names):
            found.append(Parameter(f"mean {name}", mean[:, j], of_mean[:, j]))
            found.append(Parameter(f"sd {name}", sd[:, j], of_sd[:, j]))
        return found

    def draw_responses(
        self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator, totals: np.ndarray | None = None
    ) -> np.ndarray:
        d = self.dim
        W = np.moveaxis(theta[1 + d :].reshape(d, d, -1), -1, 0)
        z = rng.standard_normal((theta.shape[1], d, 1))
        return self.means(theta[1 : 1 + d].T + np.linalg.solve(W, z)[..., 0])

    def describe(self) -> list[str]:
        if self.scale is None:
            return ["Gaussian, full covariance"]
        if self.dim == 1:
            return [
                "Gaussian: lambda ~ Gamma(nu/2, rate scale/2), mu | lambda ~ N(m, 1/(r lambda))",
                f"m = {self.m[0]:.5g}, r = {self.r:g}, nu = {self.nu:g}, scale = {self.scale[0, 0]:.5g}",
            ]
        diagonal = np.diag(self.scale)
        scale = f"diag({numbers(diagonal)})" if np.array_equal(self.scale, np.diag(diagonal)) else numbers(self.scale)
        return [
            "Gaussian, full covariance: Lambda ~ Wishart(nu, scale^-1), mu | Lambda ~ N(m, (r Lambda)^-1)",
            f"m = {numbers(self.m)}, r = {self.r:g}, nu = {self.nu:g}",
            f"scale = {scale}",
        ]


def lee_choi_base(X: Any) -> Gaussian:
    """The base measure of Lee & Choi (2015, section 4): r = 0.1, nu = d + 6, m the sample mean, scale = S / (10 det S)^(1/d).

    S is the sample covariance.  The scale has determinant 1/10 whatever the units of X: it is not scale-equivariant, and the
    default of `Gaussian` is another.

    Parameters
    ----------
    X : array_like, (n, d)
        The data.

    Returns
    -------
    Gaussian

    Raises
    ------
    ValueError
        If X is not a finite matrix with at least d + 1 rows and a positive definite covariance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> round(float(np.linalg.det(lee_choi_base(rng.normal(size=(20, 2))).scale)), 6)
    0.1
    """
    X = np.array(X, dtype=float)
    X = X[:, None] if X.ndim == 1 else X
    if X.ndim != 2 or not np.isfinite(X).all() or len(X) <= X.shape[1]:
        raise ValueError("lee_choi_base needs a finite matrix X with more rows than columns.")
    d = X.shape[1]
    S = np.cov(X.T).reshape(d, d)
    sign, log_det = np.linalg.slogdet(S)
    if sign <= 0 or not np.isfinite(log_det):
        raise ValueError("lee_choi_base needs columns that are not linearly dependent.")
    return Gaussian("full", m=X.mean(axis=0), r=0.1, nu=d + 6.0, scale=S / math.exp((log_det + math.log(10.0)) / d))
