"""Random measures and their hyperparameters, checked and printable."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from nrmmix.common.messages import number, positive
from nrmmix.common.registry import plugin
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.measure.prior import seat_urn
from nrmmix.model.priors.expected import COARSE, expected_by_pitman_yor, expected_clusters, expected_of_finite, mean_over
from nrmmix.model.priors.hyperpriors import Beta, Gamma, Hyperparameter, Hyperprior, LogNormal, describe, hyper_start, hyperparameter
from nrmmix.model.priors.n_clusters import cluster_law, finite_law, pitman_yor_law

MAX_MASS = 1e12  # beyond, u is lost in rounding
MAX_COMPONENTS = 10**6
MIN_STABLE = 1e-6  # sigma; a power of 1/sigma, u leaves floating point far below
_DEFAULT_MASS = Gamma(1.0, 1.0)
_DEFAULT_SIGMA = Beta(1.0, 2.0)


class Prior:
    """A random measure: its hyperparameters, and what kernels are told of it."""

    role: ClassVar[str] = "prior"
    title: ClassVar[str] = ""
    kind: ClassVar[int] = layout.CRM
    integrates_u: ClassVar[bool] = True  # whether u is integrated out of the joint of a mixture
    integrates_mass: ClassVar[bool] = False  # of a mixture: whether the total mass is out of the joint too, which is no product given u
    has_random_measure: ClassVar[bool] = True  # whether there is one to draw, not a law of partitions alone
    records_sigma: ClassVar[bool] = True  # whether draws have the sigma that kernels hold, or 0
    parameters: ClassVar[tuple[str, ...]] = ("mass", "sigma")  # those that can be given or sampled

    mass: Hyperparameter = 1.0
    sigma: Hyperparameter = 0.0
    tau: float = 1.0
    components: int = 0

    def kind_of(self, regression: bool) -> int:
        """One of the measures of `nrmmix.kernels.core.state`; refuses a model that the prior does not suit."""
        return self.kind

    def has_given_mass(self, regression: bool) -> bool:
        """Whether it is a completely random measure, normalised, of given mass: then a gamma prior of the mass is conjugate given u."""
        return not self.integrates_mass

    def kernel_values(self, mass: float, sigma: float) -> tuple[float, float]:
        """Mass and sigma as kernels hold them: what is no parameter follows from what is."""
        return mass, sigma

    def permits(self, mass: Any, sigma: Any) -> Any:
        """Whether mass and sigma, as recorded, are in range; elementwise."""
        return (mass > 0) & (sigma >= 0) & (sigma < 1)

    def log_tables(self, n: int) -> np.ndarray:
        """Data.log_V of `nrmmix.kernels.core.state` for n observations."""
        return np.zeros((0, 0))

    def law_of_n_clusters(self, n: int) -> np.ndarray:
        """P(K = 1), P(K = 2), ... of the number of clusters among n observations of a mixture; see `nm.Model.prior_n_clusters`."""
        raise NotImplementedError(f"{type(self).__name__} needs the method law_of_n_clusters(n).")

    def seat_rows(self, n: int, masses: np.ndarray, sigmas: np.ndarray, generators: list[np.random.Generator]) -> list[np.ndarray]:
        """Partitions (n,) from the law before data, one at each mass and sigma; of a mixture where the mass is integrated out."""
        raise NotImplementedError(f"{type(self).__name__} needs the method seat_rows(n, masses, sigmas, generators).")

    def expected_n_clusters(self, n: int) -> float:
        """The mean of that law; NaN where a prior does not say it."""
        return math.nan

    def lower_bound_constant(self, n: int, mass: float, u: float, psi1: float) -> float:
        """log p(X, partition) of a mixture, with u where the joint has it, but for the factors of its clusters.

        `psi1` is psi(u) / mass.  Where the mass is integrated out this is log V_n(1).
        """
        raise NotImplementedError(f"{type(self).__name__} needs the method lower_bound_constant(n, mass, u, psi1).")

    def draw_mass(self, mass: float, sigma: float, rng: np.random.Generator) -> float:
        """The mass of the completely random measure of density regression, given the hyperparameters."""
        return mass

    def start(self) -> tuple[float, float]:
        """Mass and sigma at the start of a chain, as kernels hold them."""
        return self.kernel_values(hyper_start(self.mass), hyper_start(self.sigma))

    def __str__(self) -> str:
        parts = [describe(name, getattr(self, name)) for name in self.parameters]
        if self.tau not in (0.0, 1.0):
            parts.append(f"tau = {self.tau:g}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _mass(name: str, value: Hyperparameter) -> Hyperparameter:
    return hyperparameter(f"{name}: mass", value, (Gamma, LogNormal), below=MAX_MASS)


def _sigma(name: str, value: Hyperparameter, *, zero: bool = True) -> Hyperparameter:
    return hyperparameter(f"{name}: sigma", value, (Beta,), below=1.0, zero=zero)


@dataclass(frozen=True)
class _GeneralizedGamma(Prior):
    """A homogeneous normalised generalised gamma measure with mass, sigma and tau."""

    mass: Hyperparameter = _DEFAULT_MASS
    sigma: Hyperparameter = field(default=0.0, init=False)
    tau: float = field(default=1.0, init=False)
    integrates_u: ClassVar[bool] = False

    def law_of_n_clusters(self, n: int) -> np.ndarray:
        return cluster_law(n, self.mass, self.sigma, self.tau)

    def expected_n_clusters(self, n: int) -> float:
        return mean_over(self.mass, self.sigma, lambda mass, sigma: expected_clusters(n, mass * self.tau**sigma, sigma, COARSE))

    def lower_bound_constant(self, n: int, mass: float, u: float, psi1: float) -> float:
        return (n - 1) * math.log(u) - math.lgamma(n) - mass * psi1 - n * math.log(u + self.tau)

    def __post_init__(self) -> None:
        name = type(self).__name__
        why = "; the law of the partition depends on tau only through mass * tau**sigma, so tau = 1 loses nothing"
        object.__setattr__(self, "mass", _mass(name, self.mass))
        object.__setattr__(self, "sigma", _sigma(name, self.sigma))
        object.__setattr__(self, "tau", positive(f"{name}: tau", self.tau, why))


@plugin
@dataclass(frozen=True)
class DirichletProcess(_GeneralizedGamma):
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

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"dp": {}}
    title: ClassVar[str] = "Dirichlet process"
    integrates_u: ClassVar[bool] = True
    parameters: ClassVar[tuple[str, ...]] = ("mass",)

    def lower_bound_constant(self, n: int, mass: float, u: float, psi1: float) -> float:
        return math.lgamma(mass) - math.lgamma(mass + n)


@plugin
@dataclass(frozen=True)
class NGGP(_GeneralizedGamma):
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

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"nggp": {}}
    sigma: Hyperparameter = _DEFAULT_SIGMA
    tau: float = field(default=1.0, kw_only=True)
    title: ClassVar[str] = "normalized generalized gamma process"


@plugin
@dataclass(frozen=True)
class NormalizedInverseGaussian(_GeneralizedGamma):
    """Normalised inverse Gaussian process (Lijoi, Mena & Prünster 2005): the NGGP with sigma = 1/2.

    Parameters
    ----------
    mass, tau
        See `NGGP`.

    Raises
    ------
    ValueError
        If a hyperparameter is out of range.

    Examples
    --------
    >>> print(NormalizedInverseGaussian())
    NormalizedInverseGaussian(mass ~ Gamma(1, 1), sigma = 0.5)
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"nig": {}}
    sigma: Hyperparameter = field(default=0.5, init=False)
    tau: float = field(default=1.0, kw_only=True)
    title: ClassVar[str] = "normalized inverse Gaussian process"


class Urn(Prior):
    """A prior whose total mass is integrated out of a mixture: the next row joins a cluster with probability in proportion to n_c - sigma,
    a new one in proportion to `weights_of_new`."""

    integrates_mass: ClassVar[bool] = True

    def weights_of_new(self, mass: float, sigma: float, K: np.ndarray) -> np.ndarray:
        """Return the weights of a new cluster by the numbers of clusters K; mass and sigma as kernels hold them."""
        return mass + sigma * K

    def lower_bound_constant(self, n: int, mass: float, u: float, psi1: float) -> float:
        return math.lgamma(mass + 1) - math.lgamma(mass + n)

    def seat_rows(self, n: int, masses: np.ndarray, sigmas: np.ndarray, generators: list[np.random.Generator]) -> list[np.ndarray]:
        """Labels (n,) of partitions of a mixture, one for each generator."""
        drawn = []
        for mass, sigma, rng in zip(masses, sigmas, generators, strict=True):
            mass, sigma = map(float, self.kernel_values(mass, sigma))
            labels, sizes = np.zeros(n, np.int64), np.zeros(n)
            sizes[0] = 1.0
            seat_urn(labels, sizes, 1, n, 1, sigma, self.weights_of_new(mass, sigma, np.arange(n + 1.0)), rng)
            drawn.append(labels)
        return drawn


@plugin
@dataclass(frozen=True)
class PitmanYor(Urn):
    """Pitman-Yor process (Pitman & Yor 1997); in density regression the kernel-weighted measure with the random mass that gives it.

    Observation n + 1 joins a cluster of n_c with probability (n_c - sigma) / (mass + n), a new one with (mass + sigma K) / (mass + n).

    Parameters
    ----------
    mass : float, Gamma or LogNormal, default Gamma(1, 1)
        Often written theta.  A number must be greater than -sigma, and 0 or greater where sigma has a prior; density regression needs
        one greater than 0.
    sigma : float in [0, 1) or Beta, default Beta(1, 2)
        Discount; 0 is the Dirichlet process.

    Raises
    ------
    ValueError
        If a hyperparameter is out of range or has a distribution that does not apply.

    Examples
    --------
    >>> print(PitmanYor(mass=1.0, sigma=0.25))
    PitmanYor(mass = 1, sigma = 0.25)
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"py": {}}
    mass: Hyperparameter = _DEFAULT_MASS
    sigma: Hyperparameter = _DEFAULT_SIGMA
    title: ClassVar[str] = "Pitman-Yor process"
    kind: ClassVar[int] = layout.PITMAN_YOR

    def __post_init__(self) -> None:
        sigma = _sigma("PitmanYor", self.sigma)
        object.__setattr__(self, "sigma", sigma)
        x = number(self.mass)
        if isinstance(self.mass, Hyperprior) or x > 0 or (isinstance(sigma, float) and sigma == 0.0):
            object.__setattr__(self, "mass", _mass("PitmanYor", self.mass))
        elif isinstance(sigma, float) and not x > -sigma:
            raise ValueError(
                f"PitmanYor: mass must be a number greater than -sigma = {-sigma:g} or a distribution (nm.Gamma or nm.LogNormal), "
                f"not {self.mass!r}."
            )
        elif not isinstance(sigma, float) and x != 0:
            raise ValueError(
                f"PitmanYor: mass must be a number of at least 0, where sigma has a prior, or a distribution (nm.Gamma or nm.LogNormal), "
                f"not {self.mass!r}; a negative mass needs a fixed sigma greater than -mass."
            )
        else:
            object.__setattr__(self, "mass", x)

    def kind_of(self, regression: bool) -> int:
        if regression and isinstance(self.mass, float) and self.mass <= 0:
            raise ValueError(
                f"PitmanYor: mass must be greater than 0 in density regression, not {self.mass:g}; "
                "nm.NormalizedStable(sigma) is the measure with mass = 0."
            )
        # without a discount the kernel-weighted measure has a mass that is given
        return layout.CRM if regression and self.sigma == 0.0 else self.kind

    def has_given_mass(self, regression: bool) -> bool:
        return self.kind_of(regression) == layout.CRM

    def draw_mass(self, mass: float, sigma: float, rng: np.random.Generator) -> float:
        return mass if self.sigma == 0.0 else max(rng.standard_gamma(mass / sigma) * sigma, layout.TINY)

    def law_of_n_clusters(self, n: int) -> np.ndarray:
        return pitman_yor_law(n, self.mass, self.sigma)

    def expected_n_clusters(self, n: int) -> float:
        return mean_over(self.mass, self.sigma, lambda mass, sigma: expected_by_pitman_yor(n, mass, sigma))

    def permits(self, mass: Any, sigma: Any) -> Any:
        return (mass > -sigma) & (sigma >= 0) & (sigma < 1)


@plugin
@dataclass(frozen=True)
class NormalizedStable(Urn):
    """Normalised stable process (Kingman 1975): the Pitman-Yor process with mass 0, and the limit of the NGGP at tau = 0.

    The data say nothing of its mass, which is sigma throughout.

    Parameters
    ----------
    sigma : float in (0, 1) or Beta, default Beta(1, 2)
        Stability index.

    Raises
    ------
    ValueError
        If sigma is out of range.

    Examples
    --------
    >>> print(NormalizedStable(0.5))
    NormalizedStable(sigma = 0.5)
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"stable": {}}
    sigma: Hyperparameter = _DEFAULT_SIGMA
    tau: float = field(default=0.0, init=False)
    title: ClassVar[str] = "normalized stable process"
    kind: ClassVar[int] = layout.STABLE
    integrates_u: ClassVar[bool] = False
    parameters: ClassVar[tuple[str, ...]] = ("sigma",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", _sigma("NormalizedStable", self.sigma, zero=False))
        if isinstance(self.sigma, float) and self.sigma < MIN_STABLE:
            why = "below, all rows are one cluster"
            raise ValueError(f"NormalizedStable: sigma must be at least {MIN_STABLE:g}, not {self.sigma!r}; {why}.")

    def kernel_values(self, mass: float, sigma: float) -> tuple[float, float]:
        return sigma, sigma

    def weights_of_new(self, mass: float, sigma: float, K: np.ndarray) -> np.ndarray:
        return sigma * K

    def law_of_n_clusters(self, n: int) -> np.ndarray:
        return PitmanYor(0.0, self.sigma).law_of_n_clusters(n)

    def expected_n_clusters(self, n: int) -> float:
        return PitmanYor(0.0, self.sigma).expected_n_clusters(n)

    def lower_bound_constant(self, n: int, mass: float, u: float, psi1: float) -> float:
        return -math.lgamma(n)

    def permits(self, mass: Any, sigma: Any) -> Any:
        return (sigma > 0) & (sigma < 1)


@plugin
@dataclass(frozen=True)
class FiniteMixture(Urn):
    """A mixture of a fixed number of components with symmetric Dirichlet weights; in density regression a measure of so many atoms.

    The weights of a mixture have the distribution Dirichlet(mass / components, ..., mass / components).  With a covariate kernel the
    atoms have sizes Gamma(mass / components, 1) and locations of their own, and one row's weights are in proportion to size times
    kernel.  As the components grow in number the Dirichlet process with this mass is approached (Ishwaran & Zarepour 2002).

    Parameters
    ----------
    components : int
        From 1 to 1,000,000; clusters are the components that observations belong to.
    mass : float, Gamma or LogNormal, default 1.0
        Sum of the weights' parameters.

    Raises
    ------
    ValueError
        If components is not such an integer, or mass is not a positive number or one of the distributions.

    Examples
    --------
    >>> print(FiniteMixture(3))
    FiniteMixture(components = 3, mass = 1)
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"finite": {}}
    components: int = field()  # without the default that `Prior` has
    mass: Hyperparameter = 1.0
    title: ClassVar[str] = "symmetric Dirichlet weights"
    kind: ClassVar[int] = layout.FINITE
    records_sigma: ClassVar[bool] = False
    parameters: ClassVar[tuple[str, ...]] = ("mass",)

    def __post_init__(self) -> None:
        M = self.components
        if isinstance(M, bool) or not isinstance(M, (int, np.integer)) or not 1 <= M <= MAX_COMPONENTS:
            raise ValueError(
                f"FiniteMixture: components must be an integer from 1 to {MAX_COMPONENTS}, not {M!r}; "
                "nm.DirichletProcess(mass) is the limit of many components."
            )
        object.__setattr__(self, "components", int(M))
        object.__setattr__(self, "mass", _mass("FiniteMixture", self.mass))

    def kernel_values(self, mass: float, sigma: float) -> tuple[float, float]:
        return mass, -mass / self.components

    def weights_of_new(self, mass: float, sigma: float, K: np.ndarray) -> np.ndarray:
        return mass * np.maximum(self.components - K, 0) / self.components

    def law_of_n_clusters(self, n: int) -> np.ndarray:
        return finite_law(n, self.mass, self.components)

    def expected_n_clusters(self, n: int) -> float:
        return mean_over(self.mass, 0.0, lambda mass, _: expected_of_finite(n, mass, self.components))

    def permits(self, mass: Any, sigma: Any) -> Any:
        return (mass > 0) & (sigma == 0)

    def __str__(self) -> str:
        return f"FiniteMixture(components = {self.components}, {describe('mass', self.mass)})"
