"""Random measures and hyperpriors: what a user writes, checked and printable.

A hyperparameter is a number, which fixes it, or a distribution, which has it sampled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Any, ClassVar

from nrmmix.kernels.state import BETA, FIXED, GAMMA, LOGNORMAL

MAX_MASS = 1e12  # beyond, u is lost in rounding


def _number(value: Any) -> float:
    """A real number as a float; NaN for anything else."""
    try:
        return float(value) if isinstance(value, (Real, Decimal)) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def _positive(name: str, value: float) -> float:
    if not 0 < _number(value) < math.inf:
        raise ValueError(f"{name} must be a finite number greater than 0, not {value!r}.")
    return float(value)


@dataclass(frozen=True)
class Hyperprior:
    """A distribution of one hyperparameter."""

    kind: ClassVar[int] = FIXED

    def row(self) -> tuple[float, float, float]:
        """Kind and two parameters, as kernels read them."""
        raise TypeError(f"{type(self).__name__} cannot be used as a hyperprior.")

    @property
    def mean(self) -> float:
        raise TypeError(f"{type(self).__name__} cannot be used as a hyperprior.")

    @property
    def distribution(self) -> Any:
        """The distribution as one of `scipy.stats`, frozen: `pdf`, `ppf`, `rvs`."""
        raise TypeError(f"{type(self).__name__} cannot be used as a hyperprior.")


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _positive("Gamma: shape", self.shape))
        object.__setattr__(self, "rate", _positive("Gamma: rate", self.rate))

    def row(self) -> tuple[float, float, float]:
        return (GAMMA, self.shape, self.rate)

    @property
    def mean(self) -> float:
        return self.shape / self.rate

    @property
    def distribution(self) -> Any:
        from scipy import stats

        return stats.gamma(self.shape, scale=1.0 / self.rate)

    def __str__(self) -> str:
        return f"Gamma({self.shape:g}, {self.rate:g})"


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", _positive("Beta: a", self.a))
        object.__setattr__(self, "b", _positive("Beta: b", self.b))

    def row(self) -> tuple[float, float, float]:
        return (BETA, self.a, self.b)

    @property
    def mean(self) -> float:
        return self.a / (self.a + self.b)

    @property
    def distribution(self) -> Any:
        from scipy import stats

        return stats.beta(self.a, self.b)

    def __str__(self) -> str:
        return f"Beta({self.a:g}, {self.b:g})"


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
        if not math.isfinite(_number(self.mu)):
            raise ValueError(f"LogNormal: mu must be a finite number, not {self.mu!r}.")
        object.__setattr__(self, "mu", float(self.mu))
        object.__setattr__(self, "sd", _positive("LogNormal: sd", self.sd))

    def row(self) -> tuple[float, float, float]:
        return (LOGNORMAL, self.mu, self.sd)

    @property
    def mean(self) -> float:
        exponent = self.mu + 0.5 * self.sd**2
        return math.exp(exponent) if exponent < 709.0 else math.inf

    @property
    def distribution(self) -> Any:
        from scipy import stats

        return stats.lognorm(self.sd, scale=math.exp(self.mu))

    def __str__(self) -> str:
        return f"LogNormal({self.mu:.4g}, {self.sd:g})"


Hyperparameter = float | Hyperprior


def hyperparameter(
    name: str, value: Hyperparameter, kinds: tuple[type[Hyperprior], ...], *, below: float = math.inf, zero: bool = False
) -> Hyperparameter:
    """A checked hyperparameter: a number in (0, below), or [0, below) with `zero`, or one of the distributions in `kinds`."""
    allowed = " or ".join(f"nm.{kind.__name__}" for kind in kinds)
    if isinstance(value, Hyperprior):
        if not isinstance(value, kinds):
            raise ValueError(f"{name} cannot have a {type(value).__name__} prior; use a number or {allowed}.")
        return value
    x = _number(value)
    if not (x > 0 or (zero and x == 0)) or not x < below:
        interval = f"{'[' if zero else '('}0, {below:g})"
        raise ValueError(f"{name} must be a number in {interval} or a distribution ({allowed}), not {value!r}.")
    return x


def hyper_row(value: Hyperparameter) -> tuple[float, float, float]:
    return value.row() if isinstance(value, Hyperprior) else (FIXED, 0.0, 0.0)


def hyper_start(value: Hyperparameter) -> float:
    """Where a chain starts: the number itself, or the prior's mean, or the median of a log-normal, whose mean can be far out."""
    if isinstance(value, LogNormal):
        return math.exp(min(max(value.mu, -20.0), 20.0))
    return value.mean if isinstance(value, Hyperprior) else float(value)


def describe(name: str, value: Hyperparameter) -> str:
    return f"{name} ~ {value}" if isinstance(value, Hyperprior) else f"{name} = {value:g}"


_DEFAULT_MASS = Gamma(1.0, 1.0)
_DEFAULT_SIGMA = Beta(1.0, 2.0)


@dataclass(frozen=True)
class Prior:
    """A homogeneous normalised generalised gamma measure with mass, sigma and tau."""

    mass: Hyperparameter = _DEFAULT_MASS
    sigma: Hyperparameter = field(default=0.0, init=False)
    tau: float = field(default=1.0, init=False)
    title: ClassVar[str] = ""
    # Whether u is integrated out of the joint of a mixture.
    marginal: ClassVar[bool] = False

    def _check(self) -> None:
        name = type(self).__name__
        object.__setattr__(self, "mass", hyperparameter(f"{name}: mass", self.mass, (Gamma, LogNormal), below=MAX_MASS))
        object.__setattr__(self, "sigma", hyperparameter(f"{name}: sigma", self.sigma, (Beta,), below=1.0, zero=True))

    def _check_tau(self) -> None:
        name = type(self).__name__
        if isinstance(self.tau, bool) or not isinstance(self.tau, Real) or not 0 < self.tau < math.inf:
            raise ValueError(
                f"{name}: tau must be a finite number greater than 0, not {self.tau!r}; "
                "the law of the partition depends on tau only through mass * tau**sigma, so tau = 1 loses nothing."
            )
        object.__setattr__(self, "tau", float(self.tau))

    def __str__(self) -> str:
        parts = [describe("mass", self.mass)]
        if not isinstance(self, DirichletProcess):
            parts.append(describe("sigma", self.sigma))
            if self.tau != 1.0:
                parts.append(f"tau = {self.tau:g}")
        return f"{type(self).__name__}({', '.join(parts)})"


@dataclass(frozen=True)
class DirichletProcess(Prior):
    """Dirichlet process; in density regression the kernel-weighted gamma process (Foti & Williamson 2012).

    Parameters
    ----------
    mass : float, Gamma or LogNormal, default Gamma(1, 1)
        Concentration.  A number fixes it, a distribution has it sampled.

    Raises
    ------
    ValueError
        If mass is not a positive number or one of the distributions.

    Examples
    --------
    >>> print(DirichletProcess(mass=1.0))
    DirichletProcess(mass = 1)
    """

    title: ClassVar[str] = "Dirichlet process"
    marginal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self._check()


@dataclass(frozen=True)
class NGGP(Prior):
    """Normalised generalised gamma process (James, Lijoi & Prünster 2009), Lévy density
    mass / Gamma(1 - sigma) w^(-1 - sigma) exp(-tau w).

    Parameters
    ----------
    mass : float, Gamma or LogNormal, default Gamma(1, 1)
        Lee & Choi (2015) write sigma times their mass for it.
    sigma : float in [0, 1) or Beta, default Beta(1, 2)
        Stability index; 0 is the Dirichlet process.
    tau : float, default 1.0
        Tilt.  The law of the partition depends on (sigma, mass tau^sigma) only, so it is never sampled.

    Raises
    ------
    ValueError
        If a hyperparameter is out of range or has a distribution that does not apply.

    Examples
    --------
    >>> print(NGGP(mass=1.0, sigma=0.25))
    NGGP(mass = 1, sigma = 0.25)
    """

    sigma: Hyperparameter = _DEFAULT_SIGMA
    tau: float = field(default=1.0, kw_only=True)
    title: ClassVar[str] = "normalized generalized gamma process"

    def __post_init__(self) -> None:
        self._check()
        self._check_tau()


@dataclass(frozen=True)
class NormalizedInverseGaussian(Prior):
    """Normalised inverse Gaussian process (Lijoi, Mena & Prünster 2005): the NGGP with sigma = 1/2.

    Parameters
    ----------
    mass : float, Gamma or LogNormal, default Gamma(1, 1)
        As in `NGGP`.
    tau : float, default 1.0
        As in `NGGP`.

    Raises
    ------
    ValueError
        If a hyperparameter is out of range.

    Examples
    --------
    >>> print(NormalizedInverseGaussian())
    NormalizedInverseGaussian(mass ~ Gamma(1, 1), sigma = 0.5)
    """

    sigma: Hyperparameter = field(default=0.5, init=False)
    tau: float = field(default=1.0, kw_only=True)
    title: ClassVar[str] = "normalized inverse Gaussian process"

    def __post_init__(self) -> None:
        self._check()
        self._check_tau()
