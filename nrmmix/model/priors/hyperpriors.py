"""Hyperparameters: a number, which fixes one, or a distribution, which has it sampled."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, fields
from typing import Any, ClassVar

import numpy as np

from nrmmix.common.messages import number, positive
from nrmmix.common.registry import plugin
from nrmmix.kernels.core.state import BETA, FIXED, GAMMA, LOGNORMAL


@dataclass(frozen=True)
class Hyperprior:
    """A distribution of one hyperparameter."""

    role: ClassVar[str] = "hyperprior"
    kind: ClassVar[int] = FIXED

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, positive(f"{type(self).__name__}: {one.name}", getattr(self, one.name)))

    def row(self) -> tuple[float, float, float]:
        """Kind and two parameters, as kernels read them."""
        return (self.kind, *astuple(self))

    @property
    def mean(self) -> float:
        raise TypeError(f"{type(self).__name__} cannot be used as a hyperprior.")

    @property
    def middle(self) -> float:
        """The mean, or the median of a log-normal, whose mean can be far out."""
        return self.mean

    @property
    def distribution(self) -> Any:
        """The distribution as one of `scipy.stats`, frozen: `pdf`, `ppf`, `rvs`."""
        from scipy import stats

        return self._of(stats)

    def _of(self, stats: Any) -> Any:
        raise TypeError(f"{type(self).__name__} cannot be used as a hyperprior.")

    def __str__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{value:g}' for value in astuple(self))})"


@plugin
@dataclass(frozen=True)
class Gamma(Hyperprior):
    """Gamma distribution with mean shape/rate.

    Parameters
    ----------
    shape, rate : float
        Both greater than 0.

    Examples
    --------
    >>> Gamma(2, 4).mean
    0.5
    """

    shape: float
    rate: float
    kind: ClassVar[int] = GAMMA

    @property
    def mean(self) -> float:
        return self.shape / self.rate

    def _of(self, stats: Any) -> Any:
        return stats.gamma(self.shape, scale=1.0 / self.rate)


@plugin
@dataclass(frozen=True)
class Beta(Hyperprior):
    """Beta distribution on (0, 1).

    Parameters
    ----------
    a, b : float
        Both greater than 0.

    Examples
    --------
    >>> Beta(1, 3).mean
    0.25
    """

    a: float
    b: float
    kind: ClassVar[int] = BETA

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)

    def _of(self, stats: Any) -> Any:
        return stats.beta(self.a, self.b)


@plugin
@dataclass(frozen=True)
class LogNormal(Hyperprior):
    """Log-normal distribution: the logarithm is normal with mean mu and standard deviation sd.

    Parameters
    ----------
    mu : float
        Any finite number.
    sd : float
        Greater than 0.

    Examples
    --------
    >>> round(LogNormal(0, 1).mean, 4)
    1.6487
    """

    mu: float
    sd: float
    kind: ClassVar[int] = LOGNORMAL

    def __post_init__(self) -> None:
        if not math.isfinite(number(self.mu)):
            raise ValueError(f"LogNormal: mu must be a finite number, not {self.mu!r}.")
        object.__setattr__(self, "mu", float(self.mu))
        object.__setattr__(self, "sd", positive("LogNormal: sd", self.sd))

    @property
    def mean(self) -> float:
        exponent = self.mu + 0.5 * self.sd**2
        return math.exp(exponent) if exponent < 709.0 else math.inf

    @property
    def middle(self) -> float:
        return math.exp(self.mu) if self.mu < 709.0 else math.inf

    def _of(self, stats: Any) -> Any:
        return stats.lognorm(self.sd, scale=math.exp(self.mu))

    def __str__(self) -> str:
        return f"LogNormal({self.mu:.4g}, {self.sd:g})"


Hyperparameter = float | Hyperprior


def hyperparameter(
    name: str, value: Hyperparameter, kinds: tuple[type[Hyperprior], ...], *,
    above: float = 0.0, below: float = math.inf, zero: bool = False,
) -> Hyperparameter:
    """A checked hyperparameter: a number in (above, below), or [0, below) with `zero`, or one of the distributions in `kinds`.

    The middle of a distribution, from which chains start, is in that interval too.
    """
    allowed = " or ".join(f"nm.{kind.__name__}" for kind in kinds)
    if isinstance(value, Hyperprior) and not isinstance(value, kinds):
        raise ValueError(f"{name} cannot have a {type(value).__name__} prior; use a number or {allowed}.")
    if isinstance(value, Hyperprior):
        if not above < value.middle < below:
            raise ValueError(f"{name} must lie in ({above:g}, {below:g}), and the middle of its prior {value} is {value.middle:g}.")
        return value
    x = number(value)
    if not (x > above or (zero and x == 0)) or not x < below:
        interval = f"{'[' if zero else '('}{above if x > 0 else 0:g}, {below:g})"
        raise ValueError(f"{name} must be a number in {interval} or a distribution ({allowed}), not {value!r}.")
    return x


def hyper_row(value: Hyperparameter) -> tuple[float, float, float]:
    return value.row() if isinstance(value, Hyperprior) else (FIXED, 0.0, 0.0)


def hyper_start(value: Hyperparameter) -> float:
    """Return the start of a chain: the number itself, or the prior's mean, or the median of a log-normal, whose mean can be far out."""
    if isinstance(value, LogNormal):
        return math.exp(min(max(value.mu, -20.0), 20.0))
    return value.mean if isinstance(value, Hyperprior) else fixed(value)


def fixed(value: Hyperparameter) -> float:
    """The number of a hyperparameter that is not sampled."""
    if isinstance(value, Hyperprior):
        raise TypeError(f"a number is needed here, not {value}.")
    return float(value)


def describe(name: str, value: Hyperparameter) -> str:
    return f"{name} ~ {value}" if isinstance(value, Hyperprior) else f"{name} = {value:g}"


def log_density_of_log(prior: Gamma | LogNormal, u: np.ndarray) -> np.ndarray:
    """log density of the logarithm of a variable, at values u."""
    if isinstance(prior, LogNormal):
        return -0.5 * ((u - prior.mu) / prior.sd) ** 2 - math.log(prior.sd * math.sqrt(2.0 * math.pi))
    return prior.shape * u - prior.rate * np.exp(u) + prior.shape * math.log(prior.rate) - math.lgamma(prior.shape)
