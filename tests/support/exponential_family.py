"""A component family from outside the package: exponential waiting times with a gamma prior on the rate.

Nothing here is known to nrmmix: `nm.Model(..., family=Exponential())` is all that it takes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nrmmix.extending import (
    COMBINE_T,
    DENSITY_T,
    DONE,
    EMPTY_T,
    MARGINAL_T,
    MEAN_T,
    SAMPLE_T,
    SCORE_T,
    UPDATE_T,
    Block,
    Distribution,
    Entries,
    Family,
    Packed,
    Parameter,
    entry,
)

# ---- entry points

# A block has d columns y[:, FIRST:LAST]; of each a column of statistics holds n and the sum of what was observed.


@entry(EMPTY_T)
def empty(rows, stat, block, k):
    for r in range(2 * (block[Block.LAST] - block[Block.FIRST])):
        stat[block[Block.STAT] + r, k] = 0.0
    return DONE


@entry(UPDATE_T)
def update(rows, stat, block, k, i, sign):
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        x = rows.y[i, block[Block.FIRST] + j]
        if x == x:  # a missing cell counts nowhere
            stat[block[Block.STAT] + 2 * j, k] += sign
            stat[block[Block.STAT] + 2 * j + 1, k] += sign * x
    return DONE


@entry(SCORE_T)
def score(rows, stat, work, out, block, K, i, own):
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        x = rows.y[i, block[Block.FIRST] + j]
        if x == x:
            n, total = stat[block[Block.STAT] + 2 * j], stat[block[Block.STAT] + 2 * j + 1]
            shape, rate = rows.constant[block[Block.CONSTANT] + 2 * j], rows.constant[block[Block.CONSTANT] + 2 * j + 1]
            for k in range(K):
                itself = 1.0 if k == own else 0.0
                a, b = shape + n[k] - itself, rate + total[k] - itself * x
                out[k] += math.log(a) + a * math.log(b) - (a + 1.0) * math.log(b + x)
    return DONE


@entry(MARGINAL_T)
def marginal(rows, stat, block, k):
    value = 0.0
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        n, total = stat[block[Block.STAT] + 2 * j, k], stat[block[Block.STAT] + 2 * j + 1, k]
        shape, rate = rows.constant[block[Block.CONSTANT] + 2 * j], rows.constant[block[Block.CONSTANT] + 2 * j + 1]
        value += math.lgamma(shape + n) - math.lgamma(shape) + shape * math.log(rate) - (shape + n) * math.log(rate + total)
    return value


@entry(SAMPLE_T)
def sample(rows, stat, theta, block, k, m, rng):
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        n, total = stat[block[Block.STAT] + 2 * j, k], stat[block[Block.STAT] + 2 * j + 1, k]
        shape, rate = rows.constant[block[Block.CONSTANT] + 2 * j], rows.constant[block[Block.CONSTANT] + 2 * j + 1]
        theta[block[Block.THETA] + j, m] = rng.standard_gamma(shape + n) / (rate + total)
    return DONE


@entry(DENSITY_T)
def density(rows, theta, work, out, block, M, i):
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        x = rows.y[i, block[Block.FIRST] + j]
        if x == x:
            for m in range(M):
                out[m] += math.log(theta[block[Block.THETA] + j, m]) - theta[block[Block.THETA] + j, m] * x
    return DONE


@entry(MEAN_T)
def mean(rows, stat, out, block, k, i):
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        shape, rate = rows.constant[block[Block.CONSTANT] + 2 * j], rows.constant[block[Block.CONSTANT] + 2 * j + 1]
        out[block[Block.MEANS] + j] = (rate + stat[block[Block.STAT] + 2 * j + 1, k]) / (shape + stat[block[Block.STAT] + 2 * j, k] - 1.0)
    return DONE


@entry(MEAN_T)
def mean_theta(rows, theta, out, block, m, i):
    for j in range(block[Block.LAST] - block[Block.FIRST]):
        out[block[Block.MEANS] + j] = 1.0 / theta[block[Block.THETA] + j, m]
    return DONE


@entry(COMBINE_T)
def combine(rows, source, target, block, k, m):
    for r in range(2 * (block[Block.LAST] - block[Block.FIRST])):
        target[block[Block.STAT] + r, m] += source[block[Block.STAT] + r, k]
    return DONE


# ---- the family, and laws of one response: of a component, and with its rate integrated out


class ExponentialLaw(NamedTuple("ExponentialLaw", [("rate", np.ndarray)])):
    discrete, ordered = False, True

    def density(self, x: Any) -> np.ndarray:
        return np.where(x < 0, 0.0, self.rate * np.exp(-self.rate * x))

    def cdf(self, x: Any) -> np.ndarray:
        return -np.expm1(-self.rate * np.maximum(x, 0.0))

    def quantile(self, p: Any) -> np.ndarray:
        return -np.log1p(-p) / self.rate


class LomaxLaw(NamedTuple("LomaxLaw", [("shape", np.ndarray), ("rate", np.ndarray)])):
    discrete, ordered = False, True

    def density(self, x: Any) -> np.ndarray:
        return np.where(x < 0, 0.0, self.shape / self.rate * (1.0 + np.maximum(x, 0.0) / self.rate) ** (-self.shape - 1.0))

    def cdf(self, x: Any) -> np.ndarray:
        return -np.expm1(-self.shape * np.log1p(np.maximum(x, 0.0) / self.rate))

    def quantile(self, p: Any) -> np.ndarray:
        return self.rate * np.expm1(-np.log1p(-p) / self.shape)


@dataclass(frozen=True, eq=False)
class Exponential(Family):
    """Waiting times y ~ Exponential(rate), rate ~ Gamma(shape, rate (shape - 1) * sample mean) by column.

    Parameters
    ----------
    shape : float, default 2.0
        Of the gamma prior; greater than 1.
    rate : float or (d,), optional
        Of the gamma prior, in the units of the responses; by default such that the mean of a component is expected at the sample mean.

    Raises
    ------
    ValueError
        If a response is negative.

    Examples
    --------
    >>> Exponential(3.0, rate=1.5).rate
    1.5
    """

    shape: float = 2.0
    rate: Any = None
    takes_missing: ClassVar[bool] = True  # its entries pass over cells that are NaN

    def resolve(self, y: np.ndarray, names: Any = None, inputs: Any = None, levels: Any = None) -> Exponential:
        for j, name in enumerate(names):
            if (y[:, j] < 0).any():
                raise ValueError(f"Exponential: the response {name!r} has negative values; waiting times are 0 or more.")
        rate = (self.shape - 1.0) * np.nanmean(y, axis=0) if self.rate is None else self.rate
        return self.with_values(rate=np.broadcast_to(np.asarray(rate, float), (y.shape[1],)), names=names)

    def pack(self, y: np.ndarray, inputs: np.ndarray) -> Packed:
        d = len(self.rate)
        constant = np.stack([np.full(d, self.shape), self.rate], axis=1).ravel()
        return Packed(constant, 2 * d, d, 1, d, Entries(empty, update, score, marginal, sample, density, mean, mean_theta, combine=combine))

    def _posterior(self, stat: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
        return self.shape + stat[0::2, :n_columns], self.rate[:, None] + stat[1::2, :n_columns]

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        return [LomaxLaw(shape[None], rate[None]) for shape, rate in zip(*self._posterior(stat, n_columns), strict=True)]

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        return [ExponentialLaw(rate[None]) for rate in theta]

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        return [
            Parameter(f"rate {name}", shape / rate, np.sqrt(shape) / rate)
            for name, shape, rate in zip(self.names, *self._posterior(stat, n_columns), strict=True)
        ]

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator, totals: Any = None) -> np.ndarray:
        return rng.standard_exponential((theta.shape[1], theta.shape[0])) / theta.T

    def describe(self) -> list[str]:
        return [f"Exponential: rate ~ Gamma({self.shape:g}, {np.array2string(self.rate, precision=4)})"]
