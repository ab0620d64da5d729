"""Laws of one response, by cluster: densities, distribution functions and quantiles of arrays.

Parameters are arrays that broadcast against the points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import special


class Law(Protocol):
    """A law with parameters of shape (I, k): I rows of inputs, k clusters."""

    discrete: bool  # whole numbers or categories: the density is a probability
    ordered: bool  # whether there is a distribution function

    def density(self, x: Any) -> np.ndarray: ...

    def cdf(self, x: Any) -> np.ndarray: ...

    def quantile(self, p: Any) -> np.ndarray: ...


def spread_out(law: Any) -> Any:
    """The law with parameters (I, 1, k): points (J, 1) then give (I, J, k)."""
    return type(law)(*(np.asarray(parameter)[:, None, :] for parameter in law))


class StudentT(NamedTuple):
    """Student's t with location, scale and degrees of freedom."""

    centre: Any
    spread: Any
    df: Any
    discrete, ordered = False, True

    def density(self, x: Any) -> np.ndarray:
        z, h = (x - self.centre) / self.spread, 0.5 * (self.df + 1.0)
        constant = special.gammaln(h) - special.gammaln(0.5 * self.df) - 0.5 * np.log(math.pi * self.df)
        return np.exp(constant - h * np.log1p(z * z / self.df)) / self.spread

    def cdf(self, x: Any) -> np.ndarray:
        return special.stdtr(self.df, (x - self.centre) / self.spread)

    def quantile(self, p: Any) -> np.ndarray:
        return self.centre + self.spread * special.stdtrit(self.df, p)


class NormalGamma(NamedTuple):
    """N(mean, variance + 1/precision), precision ~ Gamma(shape, rate); where these are infinite the precision is too.

    Quadrature by the trapezoid over the logarithm of the precision, on all that a gamma density does not leave below 1e-16.
    """

    mean: Any
    variance: Any
    shape: Any
    rate: Any
    discrete, ordered = False, True

    def _mixed(self, x: Any, of_normal: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """Mean of a function of x - mean and the standard deviation over the precision."""
        parameters = np.broadcast_arrays(np.asarray(x, float) - self.mean, self.variance, self.shape, self.rate)
        e, variance, shape, rate = parameters
        out = of_normal(e, np.sqrt(variance))
        for a, b in {*zip(shape.ravel().tolist(), rate.ravel().tolist(), strict=True)}:
            if a < math.inf:
                own = (shape == a) & (rate == b)
                step = min(0.2, 0.7 / math.sqrt(a + 1.0))
                log_t = np.arange(math.log(a) - 40.0 / a - 9.0 / math.sqrt(a), math.log(a + 10.0 * math.sqrt(a) + 60.0), step)
                weight = step * np.exp(a * log_t - np.exp(log_t) - special.gammaln(a))
                some = weight > 0
                sd = np.sqrt(variance[own][:, None] + b * np.exp(np.minimum(-log_t[some], 600.0)))
                out[own] = (weight[some] * of_normal(e[own][:, None], sd)).sum(axis=1)
        return out

    def density(self, x: Any) -> np.ndarray:
        return self._mixed(x, lambda e, sd: np.exp(-0.5 * (e / sd) ** 2) / (math.sqrt(2.0 * math.pi) * sd))

    def cdf(self, x: Any) -> np.ndarray:
        return self._mixed(x, lambda e, sd: special.ndtr(e / sd))

    def quantile(self, p: Any) -> np.ndarray:
        """Bisection in t, the quantile being mean + unit sinh t."""
        unit = np.sqrt(self.variance + np.where(np.isinf(self.shape), 0.0, self.rate) / self.shape)
        low = np.full(np.broadcast_shapes(np.shape(p), np.shape(unit), np.shape(self.mean)), -300.0)
        high = -low
        for _ in range(64):
            t = 0.5 * (low + high)
            below = self.cdf(self.mean + unit * np.sinh(t)) < p
            low, high = np.where(below, t, low), np.where(below, high, t)
        return self.mean + unit * np.sinh(0.5 * (low + high))


class Normal(NamedTuple):
    """Normal with mean and standard deviation."""

    mean: Any
    sd: Any
    discrete, ordered = False, True

    def density(self, x: Any) -> np.ndarray:
        z = (x - self.mean) / self.sd
        return np.exp(-0.5 * z * z) / (math.sqrt(2.0 * math.pi) * self.sd)

    def cdf(self, x: Any) -> np.ndarray:
        return special.ndtr((x - self.mean) / self.sd)

    def quantile(self, p: Any) -> np.ndarray:
        return self.mean + self.sd * special.ndtri(p)
