"""Normal components whose mean and precision are independent a priori."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nrmmix.common.messages import flag, number
from nrmmix.common.registry import plugin
from nrmmix.kernels.families import semiconjugate
from nrmmix.kernels.families.semiconjugate import KNOWN, OWN, SHARED
from nrmmix.model.families import parameter_laws
from nrmmix.model.families.base import Entries, Family, Packed, Parameter, check_variances, numbers
from nrmmix.model.families.distributions import Distribution, Normal, NormalGamma
from nrmmix.model.families.exponential import Exponential, NotExponential
from nrmmix.model.frame.arrays import reals
from nrmmix.model.frame.tables import Totals
from nrmmix.model.frame.unusual import without_far
from nrmmix.model.priors.hyperpriors import Gamma

# Defaults, chosen by held-out score: benchmarks/default_regression.py.
VARIANCE = 2.0
SHAPE = 1.0
SPREAD = 0.02
MIN_SHAPE = 0.025  # below, precisions drawn from the prior leave floating point
NODES = 801  # of quadratures over log precision


@plugin
@dataclass(frozen=True, eq=False)
class SemiconjugateGaussian(Family):
    """Independent normal responses, mean and precision of a component independent a priori.

    Response j of a component has y_j ~ N(mu_j, 1/lambda_j), mu_j ~ N(m_j, variance_j) and lambda_j ~ Gamma(shape_j, rate_j).  Unlike in
    `Gaussian(covariance="diagonal")`, how far apart components are does not depend on how wide they are; and all components may have
    one precision, as in the likelihood of Foti & Williamson (2012).

    Parameters
    ----------
    mean : (m, variance), optional
        Two numbers, or arrays (d,), in the units of the responses; default the sample means, and 2 sample variances.
    precision : Gamma, float, or sequence of d of these, optional
        Prior of the precisions, the reciprocal variances within a component, or what they are known to be; default
        Gamma(1, 0.02 sample variance) for each response.
    shared_precision : bool, default False
        Whether all components have the same precisions, drawn from this prior.

    Raises
    ------
    ValueError
        If a hyperparameter is out of range or does not fit the responses, here or when the family meets the data.

    Notes
    -----
    The parameters cannot be integrated out together: they are part of the chain, `fit.draws["theta"]` (chain, draw, cluster, 2d), clusters
    as in `labels`: d means, then d precisions unless these are known or shared.  Shared ones are `fit.draws["precision"]` (chain, draw, d).
    `log_joint` has their densities under the prior, but leaves out that of shared precisions, as it does for all hyperpriors.  Labels
    are drawn by algorithm 8 of Neal (2000), parameters from their full conditionals.

    The defaults follow the units of the responses: a component's standard deviation is typically sqrt(0.02) = 0.14 of the sample's.  Among
    40 candidates their mean regret of held-out log density, over four problems from galaxy, acidity, faithful and iris, was 0.03 nats an
    observation, and the largest, 0.04, was the smallest of all (benchmarks/default_regression.py).  Values far from all others do not
    count, as in the defaults of `Gaussian`.  A missing cell counts for nothing (`missing="marginalize"`).

    Examples
    --------
    >>> import nrmmix as nm
    >>> galaxy = nm.datasets.load_galaxy()
    >>> family = nm.SemiconjugateGaussian(shared_precision=True)
    >>> fit = nm.fit("velocity_km_s ~ 1", galaxy, family=family, draws=50, tune=50, chains=2, rng=1)
    >>> fit.draws["precision"].shape
    (2, 50, 1)
    """

    mean: Any = None
    precision: Any = None
    shared_precision: bool = False
    takes_missing: ClassVar[bool] = True
    independent: ClassVar[bool] = True

    def __init__(self, mean: Any = None, precision: Any = None, shared_precision: bool = False) -> None:
        if mean is not None and not (isinstance(mean, (tuple, list)) and len(mean) == 2):
            raise ValueError(f"SemiconjugateGaussian: mean must be a pair (m, variance), not {mean!r}.")
        shared_precision = flag("SemiconjugateGaussian: shared_precision", shared_precision)
        precision = precision.tolist() if isinstance(precision, np.ndarray) else precision
        several = isinstance(precision, (tuple, list))
        for one in precision if several else (precision,):
            if not (isinstance(one, Gamma) or (one is None and not several) or 0 < number(one) < math.inf):
                raise ValueError(
                    "SemiconjugateGaussian: precision must be nm.Gamma(shape, rate), a finite number greater than 0, or one of these for "
                    f"each response, not {one!r}."
                )
            if isinstance(one, Gamma) and one.shape < MIN_SHAPE:
                raise ValueError(
                    f"SemiconjugateGaussian: the shape {one.shape:g} of a precision is so small that draws underflow; take {MIN_SHAPE:g} "
                    "or more."
                )
        if several and len({isinstance(one, Gamma) for one in precision}) > 1:
            raise ValueError("SemiconjugateGaussian: precisions must be all known or all from a gamma distribution.")
        if shared_precision and precision is not None and not isinstance(precision[0] if several and precision else precision, Gamma):
            raise ValueError("SemiconjugateGaussian: a known precision is that of all components; leave shared_precision out.")
        mean = None if mean is None else tuple(mean)
        for name, value in (("mean", mean), ("precision", precision), ("shared_precision", shared_precision)):
            object.__setattr__(self, name, value)

    def resolve(self, y: Any, names: tuple[str, ...] | None = None, inputs: np.ndarray | None = None,
                levels: Sequence[tuple[Any, ...] | None] | None = None) -> SemiconjugateGaussian:
        d = y.shape[1]
        names = names or tuple(f"y{j + 1}" for j in range(d))
        usual = without_far(y)
        spread = _variances(usual, names) if self.mean is None or self.precision is None else np.ones(d)
        if self.mean is None:
            mean = np.nanmean(usual, axis=0), VARIANCE * spread
        else:
            mean = _each("m", self.mean[0], d), _each("variance", self.mean[1], d)
            if not (mean[1] > 0).all():
                raise ValueError(f"SemiconjugateGaussian: the variance of the means must be greater than 0, not {mean[1].tolist()}.")
        precision = self.precision
        if precision is None:
            precision = tuple(Gamma(SHAPE, SHAPE * SPREAD * float(one)) for one in spread)
        elif not isinstance(precision, (tuple, list)):
            precision = (precision,) * d
        if len(precision) != d:
            raise ValueError(f"SemiconjugateGaussian: precision must be one for all responses, or {d} of them, not {len(precision)}.")
        return self.with_values(mean=mean, precision=tuple(precision), names=names)

    # ---- arrays for the kernels, in the units of the responses; the rest needs resolved hyperparameters

    @property
    def dim(self) -> int:
        return len(self.precision)

    @property
    def _kind(self) -> int:
        return KNOWN if not isinstance(self.precision[0], Gamma) else SHARED if self.shared_precision else OWN

    @property
    def _gamma(self) -> tuple[np.ndarray, np.ndarray]:
        """Shape and rate (d,) of the precisions; infinite where they are known."""
        shape, rate = ([getattr(one, name, math.inf) for one in self.precision] for name in ("shape", "rate"))
        return np.array(shape), np.array(rate)

    def exponential(self, y: Any) -> Exponential:
        raise NotExponential(
            "means and precisions of SemiconjugateGaussian components are held and drawn, not integrated out; use nm.Gaussian()"
        )

    def pack(self, y: Any, inputs: np.ndarray) -> Packed:
        d, kind = self.dim, self._kind
        start = np.array([one.mean if isinstance(one, Gamma) else one for one in self.precision], float)
        entries = Entries.named(semiconjugate, "semiconjugate", "alone", "redraw", *(("redraw_shared",) if kind == SHARED else ()))
        constant = np.concatenate([start, [float(kind)], *self.mean, *self._gamma])
        return Packed(
            constant, semiconjugate.n_stat(d), semiconjugate.n_theta(d), 1, d, entries, n_explicit=2 * d if kind == OWN else d,
            shared={"precision": np.arange(d)} if kind == SHARED else {},
        )

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        """Return the distribution of clusters under the parameters held, of columns without members that of the prior."""
        d = self.dim
        distributions: list[Distribution | None] = []
        new = stat[2 * d, :n_columns] == 0
        (m, v), (shape, rate) = self.mean, self._gamma
        for j in range(d):
            mu = np.where(new, m[j], stat[j, :n_columns])
            if self._kind == OWN:
                variance = np.where(new, v[j], 1.0 / np.where(new, 1.0, stat[d + j, :n_columns]))
                of_new = (np.where(new, parameter[j], math.inf) for parameter in (shape, rate))
                distributions.append(NormalGamma(*(parameter[None] for parameter in (mu, variance, *of_new))))
            else:
                spread = np.sqrt(np.where(new, v[j], 0.0) + 1.0 / stat[d + j, :n_columns])
                distributions.append(Normal(mu[None], spread[None]))
        return distributions

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        d = self.dim
        return [Normal(theta[None, j], 1.0 / np.sqrt(theta[None, d + j])) for j in range(d)]

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator, totals: Totals = None) -> np.ndarray:
        d = self.dim
        return (theta[:d] + rng.standard_normal(theta[:d].shape) / np.sqrt(theta[d:])).T

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        """Posterior means and standard deviations of mean and standard deviation given the members, whatever parameters are held."""
        d = self.dim
        counts, means, squares = stat[2 * d + 1 : 5 * d + 1, :n_columns].reshape(3, d, n_columns)
        found = []
        for j, name in enumerate(self.names):
            of_mean, of_sd = self._moments(j, counts[j], means[j], squares[j])
            found.append(Parameter(f"mean {name}", *of_mean))
            if self._kind != KNOWN:
                found.append(Parameter(f"sd {name}", *of_sd))
        return found

    def _moments(self, j: int, n: np.ndarray, mean: np.ndarray, square: np.ndarray) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return mean, sd and quantiles of the mean and of the sd, by quadrature over log precision, shared or of each cluster (k,)."""
        m, v = self.mean[0][j], self.mean[1][j]
        shape, rate = (parameter[j] for parameter in self._gamma)
        if self._kind == KNOWN:
            x, weight = np.full((1, len(n)), math.log(self.precision[j])), np.ones((1, len(n)))
        else:
            joined = np.sum if self._kind == SHARED else lambda f, axis, keepdims: f

            def log_posterior(x: np.ndarray) -> np.ndarray:
                precision = np.exp(x)
                growth = 1.0 + n * v * precision
                f = 0.5 * (n * x - np.log(growth) - precision * (square + n * (mean - m) ** 2 / growth))
                return joined(f, axis=1, keepdims=True) + shape * x - rate * precision

            of_all = square + n * (mean - m) ** 2
            sure = joined(np.stack([n, of_all]), axis=1, keepdims=True)
            ends = np.stack([np.log((shape + 0.5 * sure[0]) / (rate + 0.5 * sure[1])), np.full(sure[0].shape, math.log(shape / rate))])
            span = 40.0 / shape + 9.0 / math.sqrt(shape)
            low, high = ends.min(axis=0) - span, ends.max(axis=0) + span
            for _ in range(5):  # on what carries the integral, found on coarser nodes
                x = low + (high - low) * np.linspace(0.0, 1.0, NODES)[:, None]
                f = log_posterior(x)
                kept, step = f > f.max(axis=0) - 40.0, (high - low) / (NODES - 1)
                low, high = np.where(kept, x, np.inf).min(axis=0) - step, np.where(kept, x, -np.inf).max(axis=0) + step
            weight = np.exp(f - f.max(axis=0))
        weight = weight / weight.sum(axis=0)
        precision = np.exp(x)
        growth = 1.0 + n * v * precision
        of_mu, sd = m + (mean - m) * n * v * precision / growth, np.broadcast_to(np.exp(-0.5 * x), growth.shape)
        first, first_sd = (weight * of_mu).sum(axis=0), (weight * sd).sum(axis=0)
        second = (weight * (v / growth + (of_mu - first) ** 2)).sum(axis=0)
        second_sd = np.sqrt((weight * (sd - first_sd) ** 2).sum(axis=0))
        weight = np.broadcast_to(weight, growth.shape)
        of_normals = parameter_laws.of_normals(of_mu, np.sqrt(v / growth), weight)
        return (first, np.sqrt(second), of_normals), (first_sd, second_sd, parameter_laws.of_nodes(sd, weight))

    def describe(self) -> list[str]:
        title = "Gaussian, independent responses: mu ~ N(m, variance)"
        if self.precision is None or self.mean is None or not self.names:
            return [title]
        shape, rate = self._gamma
        of_all = " of all components" if self._kind == SHARED else ""
        if self._kind == KNOWN:
            lines = [f"{title}, known precision", f"precision = {_listed(self.precision)}"]
        else:
            lines = [f"{title}, precision ~ Gamma(shape, rate)", f"precision{of_all}: shape = {_listed(shape)}, rate = {_listed(rate)}"]
        return [lines[0], f"m = {_listed(self.mean[0])}, variance = {_listed(self.mean[1])}", lines[1]]


def _listed(values: Sequence[float] | np.ndarray) -> str:
    """One number, or those of all responses; the unit of each is its own, so that none counts as small."""
    if len(values) > 8:
        return numbers(values)
    shown = ", ".join(f"{value:.5g}" for value in values)
    return f"[{shown}]" if len(values) > 1 else shown


def _each(name: str, value: Any, d: int) -> np.ndarray:
    """A number for all responses, or one for each."""
    array = reals(value, f"SemiconjugateGaussian: {name}")
    if array.shape not in ((), (d,)):
        raise ValueError(f"SemiconjugateGaussian: {name} must be a number or have shape ({d},) for these responses, not {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"SemiconjugateGaussian: {name} must be finite, not {array.tolist()}.")
    return np.broadcast_to(array, (d,)).copy()


def _variances(y: np.ndarray, names: Sequence[str]) -> np.ndarray:
    out = np.empty(y.shape[1])
    for j in range(len(names)):
        seen = y[~np.isnan(y[:, j]), j]
        with np.errstate(over="ignore", invalid="ignore"):
            out[j] = seen.var(ddof=1) if len(seen) > 1 else 0.0
    check_variances("SemiconjugateGaussian", names, out, instead="mean= and precision=", most=1e290)
    return out
