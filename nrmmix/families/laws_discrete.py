"""Laws of counts and categories; parameters are arrays (I, k) that broadcast against the points, as in `nrmmix.families.laws`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import special

LARGEST = 2.0**53  # whole numbers beyond are not all floats


def _is_count(x: Any) -> np.ndarray:
    return (x >= 0) & (x == np.floor(x))


def _smallest(cdf: Callable[[np.ndarray], np.ndarray], p: np.ndarray) -> np.ndarray:
    """Smallest count whose distribution function reaches p: doubling, then bisection."""
    shape = np.broadcast_shapes(np.shape(p), np.shape(cdf(np.zeros(1))))
    low, high = np.full(shape, -1.0), np.zeros(shape)
    while (short := (cdf(high) < p) & (high < LARGEST)).any():
        low, high = np.where(short, high, low), np.where(short, 2.0 * high + 1.0, high)
    while (high - low > 1.0).any():
        middle = np.floor(0.5 * (low + high))
        enough = cdf(middle) >= p
        low, high = np.where(enough, low, middle), np.where(enough, np.maximum(middle, low + 1.0), high)
    return high


class PoissonLaw(NamedTuple):
    """Poisson with its mean."""

    mean: Any
    discrete, ordered = True, True

    def density(self, x: Any) -> np.ndarray:
        y = np.where(_is_count(x), x, 0.0)
        return np.where(_is_count(x), np.exp(special.xlogy(y, self.mean) - self.mean - special.gammaln(y + 1.0)), 0.0)

    def cdf(self, x: Any) -> np.ndarray:
        return np.where(np.less(x, 0), 0.0, special.pdtr(np.floor(np.maximum(x, 0.0)), self.mean))

    def quantile(self, p: Any) -> np.ndarray:
        return _smallest(self.cdf, np.asarray(p))


class NegativeBinomial(NamedTuple):
    """Poisson whose mean is `scale` times a gamma variate of rate 1 and the shape given."""

    shape: Any
    scale: Any
    discrete, ordered = True, True

    def density(self, x: Any) -> np.ndarray:
        y = np.where(_is_count(x), x, 0.0)
        growth = np.log1p(self.scale)
        log_chance = -self.shape * growth + special.xlogy(y, self.scale) - y * growth
        log_density = log_chance - special.betaln(self.shape, y + 1.0) - np.log(self.shape + y)
        return np.where(_is_count(x), np.exp(log_density), 0.0)

    def cdf(self, x: Any) -> np.ndarray:
        y = np.floor(np.maximum(x, 0.0))
        return np.where(np.less(x, 0), 0.0, special.betainc(self.shape, y + 1.0, 1.0 / (1.0 + self.scale)))

    def quantile(self, p: Any) -> np.ndarray:
        return _smallest(self.cdf, np.asarray(p))


class BernoulliLaw(NamedTuple):
    """0 or 1, with the probability of 1."""

    probability: Any
    discrete, ordered = True, True

    def density(self, x: Any) -> np.ndarray:
        return np.where(np.equal(x, 1), self.probability, np.where(np.equal(x, 0), 1.0 - self.probability, 0.0))

    def cdf(self, x: Any) -> np.ndarray:
        return np.where(np.less(x, 0), 0.0, np.where(np.less(x, 1), 1.0 - self.probability, 1.0))

    def quantile(self, p: Any) -> np.ndarray:
        return np.where(np.asarray(p) > 1.0 - np.asarray(self.probability), 1.0, 0.0)


class CategoricalLaw(NamedTuple):
    """Levels 0, 1, ... with probabilities (I, k, L), the levels last; they have no order."""

    probability: Any
    discrete, ordered = True, False

    def density(self, x: Any) -> np.ndarray:
        return sum(np.equal(x, level) * self.probability[..., level] for level in range(self.probability.shape[-1]))

    def cdf(self, x: Any) -> np.ndarray:
        raise ValueError("categories have no order, and so no distribution function.")

    def quantile(self, p: Any) -> np.ndarray:
        raise ValueError("categories have no order, and so no quantiles.")
