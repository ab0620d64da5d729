"""Laws of one response, by cluster: densities, distribution functions and quantiles of arrays.

Parameters are arrays that broadcast against the points.
"""

from __future__ import annotations

import math
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
