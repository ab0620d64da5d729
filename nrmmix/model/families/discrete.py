"""Components of counts with exposures, of binary responses and of categories: conjugate, and independent by response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from nrmmix.common.messages import plain
from nrmmix.common.registry import plugin
from nrmmix.kernels.families import categorical, poisson, rising
from nrmmix.model.families import distributions as laws
from nrmmix.model.families.base import Entries, Family, Observed, Packed, Parameter, RowError, numbers, one_each, positives
from nrmmix.model.families.distributions import Distribution
from nrmmix.model.families.exponential import DirichletForm, Exponential, PoissonForm
from nrmmix.model.families.parameter_laws import beta, gamma
from nrmmix.model.frame.arrays import LARGEST
from nrmmix.model.frame.summary import Summary
from nrmmix.model.frame.tables import COUNT_BOUND, Levels, Totals

# Defaults, chosen by held-out score: benchmarks/default_discrete.py.
POISSON_SHAPE = 1.0
BERNOULLI_STRENGTH = 1.0
CATEGORICAL_CONCENTRATION = 0.1
HALF = 0.5  # a count, or an observation, that defaults add where a column has none


def _whole(y: Any, names: Sequence[str], who: str, below: Sequence[float] | np.ndarray) -> np.ndarray:
    """Responses (n, d) that are whole numbers from 0 up to below a bound, or NaN."""
    y = np.ascontiguousarray(y, float)
    with np.errstate(invalid="ignore"):
        good = ((y >= 0) & (y == np.floor(y)) & (y < np.asarray(below))) | np.isnan(y)
    if not good.all():
        i, j = map(int, np.argwhere(~good)[0])
        value = plain(y[i, j])
        raise RowError(f"{who}: the response {names[j]!r} is {value} in {{row}}, which has no probability; leave such rows out.", i)
    return y


@plugin
@dataclass(frozen=True, eq=False)
class Poisson(Family):
    """Poisson components with a conjugate gamma prior, independent by response: counts, with or without exposure.

    y_ij ~ Poisson(e_i lambda_j), lambda_j ~ Gamma(shape_j, rate_j).  The exposure e_i is the time, area or number of chances in which
    the counts of row i came up; without one it is 1.

    Parameters
    ----------
    shape : float or array_like, (d,), optional
        Shape of the prior of each rate lambda_j; default 1: an exponential prior.
    rate : float or array_like, (d,), optional
        Rate of that prior, in units of the exposure; default shape / (sum of y_j / sum of e), by which the prior mean of lambda_j is the
        rate of the sample.  Where `rate` alone is given, the shape is the one that has this mean.
    exposure : str, optional
        A column of the data, or an expression as in formulas, positive in every row.

    Raises
    ------
    ValueError
        If a hyperparameter is not positive or does not fit the responses, here or when the family meets the data.

    Notes
    -----
    Overdispersed counts need no family of their own: a negative binomial law is a mixture of Poisson laws with gamma rates, and mixtures of
    Poisson components spread as widely as the counts do.  Counts that spread less than a Poisson law are for `nrmmix.Categorical`.

    The predictive of a cluster is negative binomial with mean e_i (shape + sum y) / (rate + sum e).  The default follows the data in the
    units of the exposure.  Where all counts of a column are 0 its default takes half a count for their sum.  Counts far from all others
    are left out of it, as `Gaussian` says.

    Among shapes from 0.1 to 4 the default had the smallest mean regret of held-out log density, 0.005 nats a row over five problems
    (benchmarks/default_discrete.py).

    Examples
    --------
    >>> import nrmmix as nm
    >>> data = {"visits": [0, 1, 9, 12], "months": [6, 6, 12, 12]}
    >>> model = nm.Model("visits ~ 1", data, family=nm.Poisson(exposure="months"), prior=nm.DirichletProcess(1.0))
    >>> model.family.rate.round(3)
    array([1.636])
    >>> round(model.log_joint([0, 0, 1, 1]), 3)
    -12.221
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"poisson": {}}
    shape: Any = None
    rate: Any = None
    exposure: str | None = None
    takes_missing: ClassVar[bool] = True
    takes_censored: ClassVar[bool] = True
    independent: ClassVar[bool] = True
    reads: ClassVar[str] = "counts"

    def __init__(self, shape: Any = None, rate: Any = None, *, exposure: str | None = None) -> None:
        if exposure is not None and not (isinstance(exposure, str) and exposure.strip()):
            raise ValueError(f"Poisson: exposure must be the name of a column, or an expression in quotes, not {exposure!r}.")
        object.__setattr__(self, "shape", positives("Poisson", "shape", shape))
        object.__setattr__(self, "rate", positives("Poisson", "rate", rate))
        object.__setattr__(self, "exposure", exposure)

    @property
    def design(self) -> str | None:
        return None if self.exposure is None else f"0 + {self.exposure}"

    def resolve(self, y: Any, names: tuple[str, ...] | None = None, inputs: np.ndarray | None = None, levels: Levels = None) -> Poisson:
        n, d = y.shape
        names = names or tuple(f"y{j + 1}" for j in range(d))
        inputs = np.zeros((n, 0)) if inputs is None else inputs
        y = _whole(y, names, "Poisson", np.full(d, COUNT_BOUND))
        return self._resolved(Summary(y, inputs), names)

    def resolve_from(self, summary: Summary, names: tuple[str, ...], levels: Levels = None) -> Poisson:
        return self._resolved(summary, names).with_values(is_streamed=True)

    def _resolved(self, summary: Summary, names: tuple[str, ...]) -> Poisson:
        given = {name: getattr(self, name) for name in ("shape", "rate")}
        shape, rate = (None if one is None else one_each("Poisson", name, one, summary.d, "responses") for name, one in given.items())
        if shape is None or rate is None:
            usual = summary.usual()
            totals = np.maximum(usual.sums(lambda y, x: np.nan_to_num(y)), HALF)
            mean = totals / usual.sums(lambda y, x: self._exposure(x) * ~np.isnan(y))
            if shape is None:
                shape = np.full(summary.d, POISSON_SHAPE) if rate is None else rate * mean
            rate = shape / mean if rate is None else rate
        return self.with_values(shape=shape, rate=rate, names=names)

    def with_censored(self) -> Poisson:
        return self.with_values(is_streamed=True)  # counts that are drawn may be larger than all that were seen

    def observe_inputs(self, inputs: np.ndarray) -> np.ndarray:
        """The exposures, checked: greater than 0, NaN where a new row has none."""
        if self.exposure is None:
            return inputs
        if inputs.shape[1] != 1:
            raise ValueError(f"Poisson: the exposure {self.exposure!r} makes {inputs.shape[1]} columns; give one column of numbers.")
        e = inputs[:, 0]
        bad = np.flatnonzero(~((e > 0) & (e <= LARGEST) | np.isnan(e)))
        if len(bad):
            value = plain(e[bad[0]])
            raise RowError(f"Poisson: the exposure {self.exposure!r} is {value} in {{row}}; it must be finite and greater than 0.", bad[0])
        return inputs

    def _exposure(self, inputs: np.ndarray) -> np.ndarray:
        """(I, 1)"""
        return np.ones((1, 1)) if self.exposure is None else self.observe_inputs(inputs)

    def observe(self, y: Any) -> Observed:
        return Observed(_whole(y, self.names, "Poisson", np.full(len(self.names), COUNT_BOUND)))

    def exponential(self, y: Any) -> Exponential:
        return PoissonForm(self.shape, self.rate, self.exposure is not None, bool(np.isnan(y).any()))

    def pack(self, y: Any, inputs: np.ndarray) -> Packed:
        d = len(self.shape)
        reach = rising.reach(self.shape, self.totals_of_tables(np.nansum(y, axis=0)))
        entries = Entries.named(poisson, "poisson", "combine")
        return Packed(np.concatenate([self.shape, self.rate, reach]), poisson.n_stat(d), 2 * d, 1, d, entries)

    def posterior_parameters(self, stat: np.ndarray, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
        """Shape and rate (d, k) of each lambda."""
        sums, exposures = stat[1 :: poisson.EACH, :n_columns], stat[2 :: poisson.EACH, :n_columns]
        return self.shape[:, None] + sums, self.rate[:, None] + exposures

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        e, posterior = self._exposure(inputs), self.posterior_parameters(stat, n_columns)
        return [laws.NegativeBinomial(shape[None, :], e / rate[None, :]) for shape, rate in zip(*posterior, strict=True)]

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        e = self._exposure(inputs)
        return [laws.PoissonDistribution(e * rate[None, :]) for rate in theta[1::2]]

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        """The rate of each response: expected count at exposure 1."""
        shape, rate = self.posterior_parameters(stat, n_columns)
        mean, sd = shape / rate, np.sqrt(shape) / rate
        return [Parameter(f"rate {name}", mean[j], sd[j], gamma(shape[j], rate[j])) for j, name in enumerate(self.names)]

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator, totals: Totals = None) -> np.ndarray:
        return rng.poisson(self._exposure(inputs) * theta[1::2].T).astype(float)

    def describe(self) -> list[str]:
        of = "lambda" if self.exposure is None else f"{self.exposure} lambda"
        lines = [f"Poisson: y ~ Poisson({of}), lambda ~ Gamma(shape, rate)"]
        if self.shape is not None and self.rate is not None:
            lines.append(f"shape = {numbers(np.squeeze(self.shape))}, rate = {numbers(np.squeeze(self.rate))}")
        return lines


@dataclass(frozen=True, eq=False)
class _Levels(Family):
    """Base of Bernoulli and Categorical: responses are levels 0, 1, ..., their probabilities Dirichlet, independent by response."""

    takes_missing: ClassVar[bool] = True
    independent: ClassVar[bool] = True

    def _concentrations(self) -> list[np.ndarray]:
        """(L,) of each response with L levels."""
        raise NotImplementedError

    def _starts(self) -> np.ndarray:
        """(d + 1,) number of the first level of each response, all levels end to end."""
        return np.concatenate([[0], np.cumsum([len(own) for own in self._concentrations()])])

    def observe(self, y: Any) -> Observed:
        return Observed(_whole(y, self.names, type(self).__name__, [len(own) for own in self._concentrations()]))

    def exponential(self, y: Any) -> Exponential:
        return DirichletForm(self._concentrations(), is_multinomial=False)

    def _packed(self, n_mean: int, mean: Any, mean_theta: Any) -> Packed:
        alpha, starts = self._concentrations(), self._starts()
        d, T = len(alpha), int(starts[-1])
        constant = np.concatenate([[T], starts, [own.sum() for own in alpha], *alpha])
        entries = Entries.named(categorical, "categorical", "combine")._replace(mean=mean, mean_theta=mean_theta)
        return Packed(constant, categorical.n_stat(d, T), T + 1, 0, n_mean, entries)

    def posterior_parameters(self, stat: np.ndarray, n_columns: int) -> list[np.ndarray]:
        """Concentrations (k, L) of each response."""
        starts = self._starts()
        return [own + stat[starts[j] : starts[j + 1], :n_columns].T for j, own in enumerate(self._concentrations())]

    def probabilities_of(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the probabilities (M, L) of each response under parameters (n_theta, M)."""
        return [np.exp(theta[start:stop]).T for start, stop in pairwise(self._starts())]

    def _moments(self, stat: np.ndarray, n_columns: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return posterior mean and standard deviation (k, L) of the probabilities of each response."""
        found = []
        for alpha in self.posterior_parameters(stat, n_columns):
            total = alpha.sum(axis=1, keepdims=True)
            mean = alpha / total
            found.append((mean, np.sqrt(mean * (1.0 - mean) / (total + 1.0))))
        return found

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator, totals: Totals = None) -> np.ndarray:
        drawn = []
        for p in self.probabilities_of(theta):
            steps = np.cumsum(p, axis=1)
            drawn.append((rng.random((len(p), 1)) * steps[:, -1:] >= steps[:, :-1]).sum(axis=1))
        return np.stack(drawn, axis=1).astype(float)


@plugin
@dataclass(frozen=True, eq=False)
class Bernoulli(_Levels):
    """Bernoulli components with a conjugate beta prior, independent by response: True and False, or 1 and 0.

    y_ij ~ Bernoulli(p_j), p_j ~ Beta(a_j, b_j).

    Parameters
    ----------
    a, b : float or array_like, (d,), optional
        Both, or neither.  Default a = q, b = 1 - q, with q = (number of ones + 1/2) / (number of observations + 1) of each column.

    Raises
    ------
    ValueError
        If one of a and b is given without the other, is not positive, or does not fit the responses.

    Notes
    -----
    A column with 0 and 1 swapped has the default with a and b swapped: the fit is the same.  A constant column can be fitted.

    Among priors of this form and even ones, a = b, with a + b from 0.25 to 4, the default had the smallest mean regret of held-out log
    density, 0.02 nats a row over four problems (benchmarks/default_discrete.py).

    Examples
    --------
    >>> import nrmmix as nm
    >>> data = {"smoker": [True, False, False, True], "treated": [1, 0, 0, 1]}
    >>> model = nm.Model(data=data, family=nm.Bernoulli(1, 1), prior=nm.DirichletProcess(1.0))
    >>> round(model.log_joint([0, 1, 1, 0]), 3)
    -7.573
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"bernoulli": {}}
    a: Any = None
    b: Any = None
    reads: ClassVar[str] = "binary"

    def __init__(self, a: Any = None, b: Any = None) -> None:
        if (a is None) != (b is None):
            raise ValueError("Bernoulli: give both a and b, or neither.")
        object.__setattr__(self, "a", positives("Bernoulli", "a", a))
        object.__setattr__(self, "b", positives("Bernoulli", "b", b))

    def resolve(self, y: Any, names: tuple[str, ...] | None = None, inputs: np.ndarray | None = None, levels: Levels = None) -> Bernoulli:
        d = y.shape[1]
        names = names or tuple(f"y{j + 1}" for j in range(d))
        return self.resolve_from(Summary(_whole(y, names, "Bernoulli", np.full(d, 2.0))), names)

    def resolve_from(self, summary: Summary, names: tuple[str, ...], levels: Levels = None) -> Bernoulli:
        d = summary.d
        if self.a is None:
            share = (summary.sums(lambda y, x: np.nan_to_num(y)) + HALF) / (summary.counts() + 2 * HALF)
            a, b = BERNOULLI_STRENGTH * share, BERNOULLI_STRENGTH * (1.0 - share)
        else:
            a, b = one_each("Bernoulli", "a", self.a, d, "responses"), one_each("Bernoulli", "b", self.b, d, "responses")
        return self.with_values(a=a, b=b, names=names)

    def _concentrations(self) -> list[np.ndarray]:
        return list(np.stack([self.b, self.a], axis=1))  # level 0 first

    def pack(self, y: Any, inputs: np.ndarray) -> Packed:
        return self._packed(len(self.a), categorical.bernoulli_mean, categorical.bernoulli_mean_theta)

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        return [laws.BernoulliDistribution(mean[None, :, 1]) for mean, _ in self._moments(stat, n_columns)]

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        return [laws.BernoulliDistribution(p[None, :, 1]) for p in self.probabilities_of(theta)]

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        """The probability of 1 in each response."""
        moments, posterior = self._moments(stat, n_columns), self.posterior_parameters(stat, n_columns)
        return [
            Parameter(f"probability {name}", mean[:, 1], sd[:, 1], beta(alpha[:, 1], alpha[:, 0]))
            for name, (mean, sd), alpha in zip(self.names, moments, posterior, strict=True)
        ]

    def describe(self) -> list[str]:
        lines = ["Bernoulli: y ~ Bernoulli(p), p ~ Beta(a, b)"]
        if self.a is not None:
            lines.append(f"a = {numbers(np.squeeze(self.a))}, b = {numbers(np.squeeze(self.b))}")
        return lines


@plugin
@dataclass(frozen=True, eq=False)
class Categorical(_Levels):
    """Categorical components with a conjugate Dirichlet prior, independent by response: text, categories or numbers that name levels.

    The probabilities of a response's levels are Dirichlet(concentration, ..., concentration).

    Parameters
    ----------
    concentration : float or array_like, (L,), optional
        One number, or one for each of the L levels in their order: that of declared categories, else sorted.  Default 0.1.

    Raises
    ------
    ValueError
        If the concentration is not positive or does not fit the levels, or a response has one level only.

    Notes
    -----
    Levels are those of the rows used.  The default does not depend on how they are named or ordered.

    Among concentrations from 0.1 to 4, for each level, shared out evenly among the levels or by how often they occur, the default had
    the smallest mean regret of held-out log density, 0.03 nats a row over four problems (benchmarks/default_discrete.py).

    Examples
    --------
    >>> import nrmmix as nm
    >>> data = {"colour": ["red", "blue", "red", "green"]}
    >>> model = nm.Model(data=data, family=nm.Categorical(1.0), prior=nm.DirichletProcess(1.0))
    >>> model.family.mean_names()
    ('colour[blue]', 'colour[green]', 'colour[red]')
    >>> round(model.log_joint([0, 1, 0, 1]), 3)
    -7.455
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"categorical": {}}
    concentration: Any = None
    levels: tuple[tuple[Any, ...], ...] = ()  # of each response; set by `resolve`
    reads: ClassVar[str] = "categories"

    def __init__(self, concentration: Any = None) -> None:
        object.__setattr__(self, "concentration", positives("Categorical", "concentration", concentration))

    def resolve(self, y: Any, names: tuple[str, ...] | None = None, inputs: np.ndarray | None = None, levels: Levels = None) -> Categorical:
        d = y.shape[1]
        names = names or tuple(f"y{j + 1}" for j in range(d))
        if levels is None:
            levels = [tuple(range(int(top) + 1)) for top in np.nanmax(y, axis=0)]
        of_all = [own or () for own in levels]
        for name, own in zip(names, of_all, strict=True):
            if len(own) < 2:
                raise ValueError(f"Categorical: the response {name!r} has one level only, {own[0]!r}; leave it out.")
            if self.concentration is not None:
                one_each("Categorical", "concentration", self.concentration, len(own), f"levels of {name!r}")
        _whole(y, names, "Categorical", [len(own) for own in of_all])
        concentration = CATEGORICAL_CONCENTRATION if self.concentration is None else self.concentration
        return self.with_values(concentration=concentration, levels=tuple(map(tuple, of_all)), names=names)

    def resolve_from(self, summary: Summary, names: tuple[str, ...], levels: Levels = None) -> Categorical:
        return self.resolve(np.full((0, summary.d), np.nan), names, None, levels)

    def _concentrations(self) -> list[np.ndarray]:
        return [one_each("Categorical", "concentration", self.concentration, len(own), "levels") for own in self.levels]

    def pack(self, y: Any, inputs: np.ndarray) -> Packed:
        return self._packed(len(self.mean_names()), categorical.categorical_mean, categorical.categorical_mean_theta)

    def mean_names(self) -> tuple[str, ...]:
        """Names of the levels, whose means are probabilities."""
        return tuple(f"{name}[{plain(level)}]" for name, own in zip(self.names, self.levels, strict=True) for level in own)

    def mean_responses(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.names)), [len(own) for own in self.levels])

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        return [laws.CategoricalDistribution(mean[None]) for mean, _ in self._moments(stat, n_columns)]

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        return [laws.CategoricalDistribution(p[None]) for p in self.probabilities_of(theta)]

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        """The probability of each level."""
        names, found = iter(self.mean_names()), []
        for (mean, sd), alpha in zip(self._moments(stat, n_columns), self.posterior_parameters(stat, n_columns), strict=True):
            for own, of_mean, of_sd in zip(alpha.T, mean.T, sd.T, strict=True):
                found.append(Parameter(f"probability {next(names)}", of_mean, of_sd, beta(own, alpha.sum(axis=1) - own)))
        return found

    def describe(self) -> list[str]:
        lines = ["Categorical: probabilities of the levels ~ Dirichlet(concentration)"]
        if self.levels:
            counts = ", ".join(f"{name} has {len(own)} levels" for name, own in zip(self.names, self.levels, strict=True))
            lines.append(f"concentration = {numbers(self.concentration)}; {counts}")
        return lines
