"""Components with a point mass: a response has one value with a probability, and otherwise a family of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from nrmmix.common.messages import listed
from nrmmix.common.registry import plugin
from nrmmix.common.warnings import warn
from nrmmix.kernels.families import categorical, hurdle
from nrmmix.model.families.base import Family, Observed, Packed, Parameter, RowError, numbers, one_each, positives
from nrmmix.model.families.discrete import Bernoulli
from nrmmix.model.families.distributions import Distribution, WithPointMass
from nrmmix.model.families.exponential import BinaryForm, Exponential
from nrmmix.model.families.gaussian.family import Gaussian
from nrmmix.model.frame.arrays import LARGEST, reals
from nrmmix.model.frame.summary import Summary
from nrmmix.model.frame.tables import Levels, Totals

HALF = 0.5  # Jeffreys' prior


@plugin
@dataclass(frozen=True, eq=False)
class Hurdle(Family):
    """A point mass beside a continuous family: in every component y = at with probability pi, and otherwise y follows the family.

    pi ~ Beta(a, b) in each component, independent of the family's parameters: pi is integrated out, as these are.  For responses of
    which many are exactly 0, such as expenses, rainfall or doses, or at another limit, such as a score's lowest value.

    Parameters
    ----------
    family : Family, default `Gaussian()`
        What responses apart from the point follow: `Gaussian`, `Regression`, `SemiconjugateGaussian` or a continuous family of one's own.
        Its hyperparameters that are not given are taken from the rows that are not at the point.
    at : float or array_like, (d,), default 0.0
        The point, in the units of the response; responses are there where they equal it exactly.  Of several responses one number for
        all, or one for each.
    a, b : float or array_like, (d,), default 0.5
        Parameters of the beta prior of pi; by default Jeffreys' prior.

    Raises
    ------
    ValueError
        If the family is not continuous, is a hurdle itself or has no way with missing responses; if there are several responses and it
        is not independent by response; if an argument is out of range or does not fit the responses; if all responses are at the point.

    Warns
    -----
    UserWarning
        If no response is at the point: the family alone would do.

    Notes
    -----
    The marginal likelihood of a cluster is that of a Beta-Bernoulli for which rows are at the point, times that of the family for the
    others, for which the rows at the point are missing.  So all methods suit it that suit the family: every sampler, searches,
    variational inference, density regression.

    In density regression pi depends on covariates as all of the conditional distribution does, by the weights of the components.  Lines in
    the covariates, the default of a density regression without a hurdle, are `Hurdle(Regression("1 + x"))` behind one.

    Distribution functions jump at the point, and probabilities to exceed it do not count it; quantiles are the point where the
    distribution function jumps over their probability; simulated responses are there exactly.  Densities are with respect to length and a
    unit of mass at the point: `kind="density"` is at the point itself the probability there, and elsewhere a density per unit of the
    response, and so are `log_density` and the leave-one-out densities of `loo`, which can be compared between fits with the same point.

    The probabilities pi of clusters are in the tables of clusters as "probability y = 0"; parameters of the family are named as those of
    responses "apart from 0".

    Examples
    --------
    >>> import numpy as np
    >>> import nrmmix as nm
    >>> rng = np.random.default_rng(0)
    >>> expenses = np.where(rng.random(200) < 0.75, 0.0, rng.normal(5.0, 1.0, 200))
    >>> fit = nm.fit("y ~ 1", {"y": expenses}, family=nm.Hurdle(nm.Gaussian(), at=0.0), draws=50, tune=50, chains=2, rng=1)
    >>> p = fit.predict(kind="exceedance", at=0.0)["estimate"].iloc[0]
    >>> bool(abs(p - (expenses > 0).mean()) < 0.03)
    True
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"hurdle": {}}
    family: Any = None
    at: Any = 0.0
    a: Any = HALF
    b: Any = HALF
    points: Bernoulli | None = field(default=None, init=False, repr=False)  # whether responses are at the point; set by `resolve`
    takes_missing: ClassVar[bool] = True
    independent: ClassVar[bool] = True

    def __init__(self, family: Family | None = None, at: Any = 0.0, *, a: Any = HALF, b: Any = HALF) -> None:
        family = Gaussian() if family is None else family
        if not isinstance(family, Family):
            raise ValueError(f"Hurdle: family must be an object such as nm.Gaussian(), not {family!r}.")
        name = type(family).__name__
        if isinstance(family, Hurdle):
            raise ValueError("Hurdle: family is a hurdle itself, and there is one point mass only; give the family behind it.")
        if family.reads != "numbers":
            raise ValueError(f"Hurdle: {name} components are not continuous, and have point masses of their own; take nm.Gaussian().")
        if not family.takes_missing or (isinstance(family, Gaussian) and family.covariance == "tied"):
            raise ValueError(f"Hurdle: {name} has no way with missing responses, which those at the point are to it; take nm.Gaussian().")
        point = np.zeros(0) if isinstance(at, (bool, str)) else reals(at, "Hurdle: at")
        if point.ndim > 1 or not point.size or not (np.abs(point) <= LARGEST).all():
            raise ValueError(f"Hurdle: at must be a finite number, or one for each response, not {at!r}.")
        for argument, value in (("a", a), ("b", b)):
            if value is None:
                raise ValueError(f"Hurdle: {argument} must be a number greater than 0, or one for each response, not None.")
            object.__setattr__(self, argument, positives("Hurdle", argument, value))
        object.__setattr__(self, "family", family)
        object.__setattr__(self, "at", float(point) if point.ndim == 0 else point)

    @property
    def design(self) -> str | None:
        return self.family.design

    def resolve(self, y: Any, names: tuple[str, ...] | None = None, inputs: np.ndarray | None = None, levels: Levels = None) -> Hurdle:
        y = np.asarray(y, float)
        made = self._for(names or tuple(f"y{j + 1}" for j in range(y.shape[1])), Summary(y))
        with _apart_alone():
            return made._with_family(made.family.resolve(made._apart(y), made.names, inputs, levels))

    def resolve_from(self, summary: Summary, names: tuple[str, ...], levels: Levels = None) -> Hurdle:
        made = self._for(names, summary)
        with _apart_alone():
            return made._with_family(made.family.resolve_from(summary.without(made._at), names, levels)).with_values(is_streamed=True)

    def rounding_units(self, y: Any) -> dict[str, float]:
        return self.family.rounding_units(y)

    def of_more_rows(self) -> Hurdle:
        return self.with_values(family=self.family.of_more_rows(), is_streamed=True)

    def _for(self, names: tuple[str, ...], summary: Summary) -> Hurdle:
        """Return a hurdle with hyperparameters of its own for so many responses, and a family that suits them."""
        d = len(names)
        at = one_each("Hurdle", "at", self.at, d, "responses")
        a, b = (one_each("Hurdle", name, getattr(self, name), d, "responses") for name in ("a", "b"))
        family = _by_response(self.family, names).with_values(
            input_names=self.input_names, input_groups=self.input_groups, input_coding=self.input_coding
        )
        if self.points is None:
            _check_points(summary, names, at)
        points = Bernoulli(a, b).with_values(a=a, b=b, names=names)
        return self.with_values(family=family, at=float(at[0]) if d == 1 else at, a=a, b=b, points=points, names=names)

    def _with_family(self, family: Family) -> Hurdle:
        if isinstance(family, Gaussian):  # new rows may be at the point where no row of the data is
            family = family.with_values(form=replace(family.resolved, incomplete=True))
        return self.with_values(family=family, input_names=family.input_names)

    @property
    def point_masses(self) -> tuple[float, ...]:
        return tuple(np.unique(self.at).tolist())

    # ---- what is asked of a hurdle is asked of both

    @property
    def _at(self) -> np.ndarray:
        """(d,)"""
        return np.atleast_1d(self.at)

    @property
    def _points(self) -> Bernoulli:
        return self.settled(self.points)

    def _apart(self, y: Any) -> np.ndarray:
        """Responses (n, d), those at the point missing."""
        return np.where(y == self._at, np.nan, y)

    def _is_at(self, y: Any) -> np.ndarray:
        """(n, d) 1 at the point, 0 elsewhere, NaN where missing."""
        return np.where(np.isnan(y), np.nan, y == self._at)

    def observe(self, y: Any) -> list[Observed]:
        return [self.family.observe(self._apart(y)), self._points.observe(self._is_at(y))]

    def observe_inputs(self, inputs: np.ndarray) -> np.ndarray:
        return self.family.observe_inputs(inputs)

    def exponential(self, y: Any) -> list[Exponential]:
        apart = np.vstack([self._apart(y), np.full((1, len(self.names)), np.nan)])  # new rows may be at the point, if none of these is
        return [self.family.exponential(apart), BinaryForm(self._points.a, self._points.b)]

    def pack(self, y: Any, inputs: np.ndarray) -> list[Packed]:
        """Both have one place for means, where the second puts those of the hurdle."""
        of_family, of_points = self.family.pack(self._apart(y), inputs), self._points.pack(self._is_at(y), inputs)
        if of_family.entries.impute is not None:
            raise ValueError(
                f"Hurdle: {type(self.family).__name__} draws missing responses, which those at the point are to it, and does not integrate "
                "them out; take nm.Gaussian()."
            )
        zero, one = self.family.means(np.array([np.zeros(len(self.names)), np.ones(len(self.names))]))
        at = (self._at - zero) / (one - zero)
        entries = of_points.entries._replace(mean=hurdle.hurdle_mean, mean_theta=hurdle.hurdle_mean_theta)
        return [of_family._replace(n_mean=0), of_points._replace(constant=np.append(of_points.constant, at), entries=entries)]

    def means(self, values: np.ndarray) -> np.ndarray:
        return self.family.means(values)

    def _of_columns(self, stat: np.ndarray) -> list[np.ndarray]:
        """Rows of the kernels' statistics that are the family's, and those of the points."""
        return np.split(stat, [-categorical.n_stat(len(self.names), 2 * len(self.names))])

    def _of_atoms(self, theta: np.ndarray) -> list[np.ndarray]:
        return np.split(theta, [-2 * len(self.names) - 1])

    def _together(self, points: list[Any], others: list[Any]) -> list[Distribution | None]:
        return [
            WithPointMass(of_points.probability, np.full((1, 1), at), other)
            for of_points, at, other in zip(points, self._at, others, strict=True)
        ]

    def predictive_distributions(self, stat: np.ndarray, n_columns: int, inputs: np.ndarray) -> list[Distribution | None]:
        own, points = self._of_columns(stat)
        return self._together(
            self._points.predictive_distributions(points, n_columns, inputs), self.family.predictive_distributions(own, n_columns, inputs)
        )

    def component_distributions(self, theta: np.ndarray, inputs: np.ndarray) -> list[Distribution | None]:
        own, points = self._of_atoms(theta)
        return self._together(self._points.component_distributions(points, inputs), self.family.component_distributions(own, inputs))

    def cluster_parameters(self, stat: np.ndarray, n_columns: int) -> list[Parameter]:
        """The probability of the point in each response, and the parameters of the family."""
        own, of_points = self._of_columns(stat)
        points = zip(self._points.cluster_parameters(of_points, n_columns), self._at, strict=True)
        shown = f"{self._at[0]:g}" if len(set(self._at)) == 1 else "at"
        return [
            *(p._replace(name=f"{p.name} = {at:g}") for p, at in points),
            *(p._replace(name=f"{p.name} apart from {shown}") for p in self.family.cluster_parameters(own, n_columns)),
        ]

    def draw_responses(self, theta: np.ndarray, inputs: np.ndarray, rng: np.random.Generator, totals: Totals = None) -> np.ndarray:
        own, points = self._of_atoms(theta)
        is_at = self._points.draw_responses(points, inputs, rng)
        return np.where(is_at == 1.0, self._at, self.family.draw_responses(own, inputs, rng))

    def describe(self) -> list[str]:
        first, *rest = self.family.describe()
        at, a, b = (numbers(own[0] if np.ndim(own) and len(set(own)) == 1 else own) for own in (self.at, self.a, self.b))
        prior = f"Beta({a}, {b})"
        return [f"Hurdle: y = {at} with probability pi ~ {prior}, otherwise", first, *rest]


def _by_response(family: Family, names: tuple[str, ...]) -> Family:
    """The family in a form that integrates out missing responses one by one, the same law; a ValueError where it has none."""
    if isinstance(family, Gaussian) and len(names) == 1 and not family.is_diagonal:
        matrices = {name: getattr(family, name) for name in ("known_covariance", "scale")}
        values = {name: value if value is None else np.ravel(value) for name, value in matrices.items()}
        return Gaussian("diagonal", known_mean=family.known_mean, m=family.m, r=family.r, nu=family.nu, **values)
    if len(names) > 1 and not family.independent:
        own = ", ".join(f"{name!r}: nm.Hurdle(...)" for name in names[:3]) + (", ..." if len(names) > 3 else "")
        raise ValueError(
            f"Hurdle: {type(family).__name__} components of several responses depend on all of them, and rows have some of "
            f"{listed(names)} at the point and others not; give each a hurdle of its own, family={{{own}}}, or one behind which responses "
            'are independent, nm.Hurdle(nm.Gaussian("diagonal")).'
        )
    return family


@contextmanager
def _apart_alone() -> Iterator[None]:
    """Says of what a family misses in the data that it is given only some of them."""
    try:
        yield
    except RowError:
        raise
    except ValueError as error:
        raise ValueError(f"{error} Behind a hurdle rows at its point do not count.") from None


def _check_points(summary: Summary, names: tuple[str, ...], at: np.ndarray) -> None:
    """Refuse responses that are nowhere but at the point, and warn of those that are nowhere there."""
    there, known = summary.sums(lambda y, x: y == at), summary.counts()
    for name, point, some, total in zip(names, at, there, known, strict=True):
        if some == total:
            raise ValueError(
                f"Hurdle: the response {name!r} is {point:g} in all {int(total)} rows that have it, and nothing is left for the family; "
                "leave the response out, or give another at=."
            )
        if some == 0:
            warn(f"Hurdle: the response {name!r} is nowhere exactly {point:g}: its family alone would do, or another at= is meant")
