"""The forms of the regression family: one response, or several; all hyperparameters are numbers.

`factor` is upper triangular with factor'factor = precision, `constant` (q,) the coefficients of 1, `level` one of each response.  In the
kernels y = F^-1 (y - level), F F' = scale, z = factor'^-1 x and G = factor (B - constant level') F^-T: then y = G'z + e again.  Where the
prior is learnt precision is factor' D factor and scale F S F', D and S diagonal: shrinkage and noise scale, in the constants of kernels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from nrmmix.common.messages import listed
from nrmmix.kernels.families import matrix_regression, regression
from nrmmix.model.families import parameter_laws as laws
from nrmmix.model.families.base import Entries, Observed, Packed, Parameter, matrix_in_words, numbers
from nrmmix.model.families.distributions import Distribution, Elliptical, Normal, StudentT
from nrmmix.model.families.exponential import Exponential, LearntRegressionForm, RegressionForm
from nrmmix.model.families.exponential.base import lower_factors, whole_if_missing
from nrmmix.model.families.form import Form
from nrmmix.model.frame.unusual import rounding_units
from nrmmix.model.priors.hyperpriors import Gamma

LEARNT = (
    "of all components: shrinkage ~ Gamma({}, rate {}) for each column{}, noise_scale ~ Gamma(1/2, rate 1) for each response"
)

SHRINKAGE = Gamma(0.5, 0.5)


@dataclass(frozen=True)
class Linear(Form):
    """Base of the forms.  `describe(precision)` has the law in words and numbers; `precision` is the last line where nothing is drawn."""

    names: tuple[str, ...]
    input_names: tuple[str, ...]
    b: Any  # (q,), of several responses (q, d)
    nu: float
    scale: Any  # a number, of several responses (d, d)
    level: Any  # a number, of several responses (d,)
    constant: np.ndarray  # (q,)
    factor: np.ndarray  # (q, q)
    start: tuple[np.ndarray, np.ndarray] | None = None  # shrinkage (q,) and noise scale (d,) that chains begin with; None: both are 1
    groups: np.ndarray | None = None  # (q,) of each column the first of those that have one shrinkage; None: each its own
    shrinkage: Gamma = SHRINKAGE  # the law of each that is drawn
    units: np.ndarray | None = None  # (d,) that responses of rows which are not in memory are rounded to; None where rows are there

    @property
    def is_learnt(self) -> bool:
        """Whether shrinkage and noise scale are drawn."""
        return self.start is not None

    @property
    def _prior_mean(self) -> np.ndarray:
        """(q, d) the prior mean of the coefficients in the kernels."""
        B = self.b - np.multiply.outer(self.constant, self.level)
        return self._in_kernels(self.factor @ np.reshape(B, (len(B), len(self.names))))

    def _constants(self, marginal: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the constants that kernels read, and where in them parameters of all clusters are."""
        g, log_unit = self._prior_mean, self._log_unit
        q, d = g.shape
        shrinkage, noise = (np.ones(q), np.ones(d)) if self.start is None else self.start
        groups = np.arange(q) if self.groups is None else self.groups
        ends = np.cumsum([4 + g.size, q, d])
        places = {"shrinkage": np.arange(ends[0], ends[1]), "noise_scale": np.arange(ends[1], ends[2])}
        law = [self.shrinkage.shape, self.shrinkage.rate]
        constants = np.concatenate([[self.nu, -log_unit, *law], g.ravel(), shrinkage, noise, groups, marginal])
        return constants, places if self.is_learnt else {}

    @property
    def _learnt(self) -> str:
        """Return what is drawn, for people."""
        together = self.groups is not None and len(np.unique(self.groups)) < len(self.groups)
        shape, rate = ("1/2" if value == 0.5 else f"{value:g}" for value in (self.shrinkage.shape, self.shrinkage.rate))
        return LEARNT.format(shape, rate, ", one for all levels of a factor" if together else "")

    @property
    def _further(self) -> tuple[str, ...]:
        """Names of the entry points that not every family has."""
        return ("combine", "redraw_shared") if self.is_learnt else ("combine",)

    def observe_inputs(self, inputs: np.ndarray) -> np.ndarray:
        from scipy.linalg import solve_triangular

        return np.ascontiguousarray(solve_triangular(self.factor, inputs.T, trans="T", check_finite=False).T)

    def coefficients(self, g: np.ndarray) -> np.ndarray:
        """Coefficients in the units of the data of those of the kernels: (q, ...), of several responses (q, d, ...)."""
        raise NotImplementedError

    def exponential(self, y: np.ndarray) -> Exponential:
        log_unit, G, d = self._log_unit, self._prior_mean, len(self.names)
        if self.start is None:
            form = RegressionForm(self.nu, G, log_unit)
        else:
            groups = np.arange(len(G)) if self.groups is None else self.groups
            form = LearntRegressionForm(self.nu, d, log_unit, self.start, groups, self.shrinkage)
        units = self.units_of(np.reshape(y, (-1, d)))
        if units.any():
            error = self._in_kernels(np.diag(units / math.sqrt(12.0)))
            form = form.of_rounded(error.T @ error)
        return whole_if_missing(form, y)

    def units_of(self, y: np.ndarray) -> np.ndarray:
        """(d,) what responses (n, d) are rounded to, or all rows, of which these are some; 0 where they are not."""
        return rounding_units(y) if self.units is None else self.units

    @property
    def _log_unit(self) -> float:
        """The log of dy_user/dy."""
        raise NotImplementedError

    def _in_kernels(self, B: np.ndarray) -> np.ndarray:
        """Rows (q, d) in the units of the responses in those of the kernels."""
        raise NotImplementedError

    def _spread_of_coefficients(self, L: np.ndarray) -> np.ndarray:
        """Standard deviations (q, k) of the coefficients over that of the residuals, from factors (k, q, q) of P_n."""
        # rows of factor^-1 L'^-1: their squares add up to the diagonal of the coefficients' covariance over s2
        root = np.linalg.solve(np.swapaxes(L, 1, 2), np.eye(L.shape[1]))
        return np.sqrt((np.linalg.solve(self.factor, root) ** 2).sum(axis=2)).T


def _quadratic_forms(z: np.ndarray, L: np.ndarray) -> np.ndarray:
    """(I, k) z' (L L')^-1 z of rows z (I, q) and factors (k, q, q)."""
    return (np.linalg.solve(L, np.broadcast_to(z.T, (len(L), *z.T.shape))) ** 2).sum(axis=1).T


def _coefficients(names: Iterable[str], values: np.ndarray, spread: np.ndarray, df: np.ndarray, S: np.ndarray) -> list[Parameter]:
    """Coefficients (q, k) of one response; `spread` (q, k) is their standard deviation over that of the residuals, of S and df (k,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sd = spread * np.where(df > 2, np.sqrt(S / (df - 2)), np.nan)
    of_each = zip(names, values, sd, spread * np.sqrt(S / df), strict=True)
    return [Parameter(f"coef {name}", np.where(df > 1, b, np.nan), own, laws.student_t(b, unit, df)) for name, b, own, unit in of_each]


class OneResponse(Linear):
    """1/s2 ~ Gamma(nu/2, rate scale/2), beta | s2 ~ N(b, s2 precision^-1)."""

    @property
    def _unit(self) -> float:
        return math.sqrt(self.scale)

    def observe(self, y: Any) -> Observed:
        return Observed(np.ascontiguousarray((y - self.level) / self._unit))

    def coefficients(self, g: np.ndarray) -> np.ndarray:
        shift = (self.level * self.constant).reshape(-1, *(1,) * (g.ndim - 1))
        return shift + self._unit * np.linalg.solve(self.factor, g.reshape(len(g), -1)).reshape(g.shape)

    def pack(self, n: int) -> Packed:
        q = len(self.b)
        size = np.arange(n + 2.0)
        marginal = gammaln((self.nu + size) / 2) - gammaln(self.nu / 2) - size * (0.5 * math.log(math.pi) + self._log_unit)
        entries = Entries.named(regression, "regression", *self._further)
        constants, shared = self._constants(marginal)
        n_stat = regression.n_stat(q, self.is_learnt)
        return Packed(constants, n_stat, regression.n_theta(q), regression.n_work(q), 1, entries, shared=shared)

    @property
    def _log_unit(self) -> float:
        return math.log(self._unit)

    def _in_kernels(self, B: np.ndarray) -> np.ndarray:
        return B / self._unit

    def means(self, values: np.ndarray) -> np.ndarray:
        return self.level + self._unit * values

    def _columns(self, stat: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the columns nu + n (k,), S_n (k,), g_n (q, k) and the Cholesky factor of P_n (k, q, q)."""
        q, first = len(self.b), regression.MEAN
        L = lower_factors(stat[first + q : first + q + q * (q + 1) // 2, :n_columns], q)
        return self.nu + stat[0, :n_columns], stat[2, :n_columns], stat[first : first + q, :n_columns], L

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        df, S, g, L = self._columns(stat, n_columns)
        z = self.observe_inputs(inputs)
        Q = _quadratic_forms(z, L)
        spread = self._unit * np.sqrt(S / df * (1.0 + Q))
        return [StudentT(self.means(z @ g), spread, df[None])]

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        mean = self.means(self.observe_inputs(inputs) @ theta[2:])
        return [Normal(mean, np.broadcast_to(self._unit / theta[1], mean.shape))]

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        df, S, g, L = self._columns(stat, n_columns)
        beta = self.coefficients(g)
        spread = self._unit * self._spread_of_coefficients(L)
        sd, of_sd = laws.sd_moments(df, S)
        law = laws.standard_deviation(df, self._unit**2 * S)
        found = _coefficients(self.input_names, beta, spread, df, S)
        return [*found, Parameter(f"sd {self.names[0]}", self._unit * sd, self._unit * of_sd, law)]

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        mean = np.einsum("ma,am->m", self.observe_inputs(inputs), theta[2:])
        return self.means(mean + rng.standard_normal(theta.shape[1]) / theta[1])[:, None]

    def describe(self, precision: str) -> list[str]:
        if self.is_learnt:
            return [
                f"Regression on {listed(self.input_names)}, standardised: 1/s2 ~ Gamma(nu/2, rate noise_scale/2), "
                "beta | s2 ~ N(0, s2 diag(shrinkage)^-1)",
                f"nu = {self.nu:g}; {self._learnt}",
                f"standardised response: ({self.names[0]} - {self.level:.5g}) / {self._unit:.5g}",
            ]
        return [
            f"Regression on {', '.join(self.input_names)}: 1/s2 ~ Gamma(nu/2, rate scale/2), beta | s2 ~ N(b, s2 precision^-1)",
            f"b = {numbers(self.b)}, nu = {self.nu:g}, scale = {self.scale:.5g}",
            precision,
        ]


class SeveralResponses(Linear):
    """Lambda ~ Wishart(nu, scale^-1), B | Lambda ~ MN(b, precision^-1, Lambda^-1)."""

    @property
    def _root(self) -> np.ndarray:
        """F, lower triangular with F F' = scale."""
        return np.linalg.cholesky(self.scale)

    def observe(self, y: Any) -> Observed:
        from scipy.linalg import solve_triangular

        out = np.full(y.shape, np.nan)
        seen = ~np.isnan(y[:, 0])
        out[seen] = solve_triangular(self._root, (y[seen] - self.level).T, lower=True, check_finite=False).T
        return Observed(out)

    def coefficients(self, g: np.ndarray) -> np.ndarray:
        shift = np.multiply.outer(self.constant, self.level).reshape(g.shape[:2] + (1,) * (g.ndim - 2))
        inner = np.linalg.solve(self.factor, g.reshape(len(g), -1)).reshape(g.shape)
        return shift + np.einsum("ij,aj...->ai...", self._root, inner)

    def pack(self, n: int) -> Packed:
        q, d = self.b.shape
        size = np.arange(n + 2.0)
        marginal = -size * (0.5 * d * math.log(math.pi) + self._log_unit)
        for j in range(d):
            marginal += gammaln((self.nu + size - j) / 2) - gammaln((self.nu - j) / 2)
        k = matrix_regression
        entries = Entries.named(k, "matrix_regression", *self._further)
        constants, shared = self._constants(marginal)
        return Packed(constants, k.n_stat(q, d, self.is_learnt), k.n_theta(q, d), k.n_work(q, d), d, entries, shared=shared)

    @property
    def _log_unit(self) -> float:
        return float(np.log(np.diag(self._root)).sum())

    def _in_kernels(self, B: np.ndarray) -> np.ndarray:
        return np.linalg.solve(self._root, B.T).T

    def means(self, values: np.ndarray) -> np.ndarray:
        return self.level + values @ self._root.T

    def _columns(self, stat: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return nu + n - d + 1 (k,), S_n in units of the data (k, d, d), G_n (q, d, k) and the factor of P_n (k, q, q)."""
        (q, d), first = self.b.shape, matrix_regression.MEAN
        P = first + q * d
        S = P + q * (q + 1) // 2
        root = self._root @ lower_factors(stat[S : S + d * (d + 1) // 2, :n_columns], d)
        G = stat[first:P, :n_columns].reshape(q, d, n_columns)
        return self.nu + stat[0, :n_columns] - d + 1.0, root @ np.swapaxes(root, 1, 2), G, lower_factors(stat[P:S, :n_columns], q)

    def _predicted(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Centres (I, k, d), S_n, by what shares (I, k) of it rows vary, and degrees of freedom (k,)."""
        df, S, G, L = self._columns(stat, n_columns)
        z = self.observe_inputs(inputs)
        return self.means(np.einsum("ia,ajk->ikj", z, G)), S, (1.0 + _quadratic_forms(z, L)) / df, df

    def joint_predictive(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> Elliptical:
        centre, S, share, df = self._predicted(stat, n_columns, inputs)
        return Elliptical(centre, S * share[:, :, None, None], df)

    def joint_component(self, theta: np.ndarray, inputs: np.ndarray) -> Elliptical:
        mean, root = self._drawn(theta, self.observe_inputs(inputs), "ia,ajm->imj")
        return Elliptical(mean, (root @ np.swapaxes(root, 1, 2))[None], np.full(theta.shape[1], np.inf))

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        centre, S, share, df = self._predicted(stat, n_columns, inputs)
        spread = np.sqrt(np.diagonal(S, axis1=1, axis2=2) * share[:, :, None])
        return [StudentT(centre[..., j], spread[..., j], df[None]) for j in range(len(self.names))]

    def _drawn(self, theta: np.ndarray, z: np.ndarray, rows: str) -> tuple[np.ndarray, np.ndarray]:
        """Means of parameters (n_theta, M) at inputs z, and W^-1 in the units of the data (M, d, d)."""
        q, d = self.b.shape
        G = theta[1 : 1 + q * d].reshape(q, d, -1)
        W = np.moveaxis(theta[1 + q * d :].reshape(d, d, -1), -1, 0)
        return self.means(np.einsum(rows, z, G)), self._root @ np.linalg.inv(W)

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        mean, root = self._drawn(theta, self.observe_inputs(inputs), "ia,ajm->imj")
        sd = np.sqrt((root**2).sum(axis=2))
        return [Normal(mean[..., j], np.broadcast_to(sd[:, j], mean.shape[:2])) for j in range(len(self.names))]

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        df, S, G, L = self._columns(stat, n_columns)
        B, spread = self.coefficients(G), self._spread_of_coefficients(L)
        coefficients, sds, correlations = [], [], []
        for j, name in enumerate(self.names):
            coefficients += _coefficients([f"{of} of {name}" for of in self.input_names], B[:, j], spread, df, S[:, j, j])
            sds.append(laws.sd_parameter(name, df, S[:, j, j]))
            for i in range(j):
                share = S[:, i, j] / np.sqrt(S[:, i, i] * S[:, j, j])
                correlations.append(laws.correlation_parameter((self.names[i], name), df + 1.0, share))
        return [*coefficients, *sds, *correlations]

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        mean, root = self._drawn(theta, self.observe_inputs(inputs), "ma,ajm->mj")
        return mean + (root @ rng.standard_normal((theta.shape[1], len(self.names), 1)))[..., 0]

    def describe(self, precision: str) -> list[str]:
        if self.is_learnt:
            units = zip(self.names, self.level, np.sqrt(np.diag(self.scale)), strict=True)
            return [
                f"Regression of {len(self.names)} responses on {listed(self.input_names)}, standardised: "
                "Lambda ~ Wishart(nu, diag(noise_scale)^-1), B | Lambda ~ MN(0, diag(shrinkage)^-1, Lambda^-1)",
                f"nu = {self.nu:g}; {self._learnt}",
                f"standardised responses: {', '.join(f'({name} - {level:.5g}) / {unit:.5g}' for name, level, unit in units)}",
            ]
        return [
            f"Regression of {len(self.names)} responses on {', '.join(self.input_names)}: Lambda ~ Wishart(nu, scale^-1), "
            "B | Lambda ~ MN(b, precision^-1, Lambda^-1)",
            f"b = {numbers(self.b)}, nu = {self.nu:g}",
            f"scale = {matrix_in_words(self.scale)}",
            precision,
        ]
