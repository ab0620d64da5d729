"""Regression components: in each a line, or another linear function of inputs, and a residual variance or covariance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from nrmmix.common.registry import plugin
from nrmmix.model.families.base import MAX_NU, Observed, RowError, check_variances, none_or_positive, numbers, positive_definite, shaped
from nrmmix.model.families.form import FormFamily
from nrmmix.model.families.linear import SHRINKAGE, Linear, OneResponse, SeveralResponses
from nrmmix.model.frame.columns.exchangeable import Coding
from nrmmix.model.frame.summary import Summary
from nrmmix.model.frame.tables import Levels
from nrmmix.model.frame.unusual import far_cells, without_far
from nrmmix.model.priors.hyperpriors import Gamma

# Defaults, chosen by held-out score: benchmarks/default_regression.py.
R = 0.01
NU = 2.0
SPREAD = 0.01
MIN_NU = 0.05  # above d - 1; below, draws from the prior leave floating point
COLLINEAR = 1e-10  # share of a column's length that is left outside the span of the others; least eigenvalue of correlations


@plugin
@dataclass(frozen=True, eq=False)
class Regression(FormFamily):
    """Linear regression in every component: a conjugate prior, the scales of which are learnt from all components.

    One response y with inputs x, the q columns of the design: y = x'beta + e, e ~ N(0, s2), with beta | s2 ~ N(b, s2 precision^-1) and
    1/s2 ~ Gamma(nu/2, rate scale/2).  Of d responses, all on the same inputs, each has a column of the coefficients B (q, d):
    y = B'x + e, e ~ N(0, Lambda^-1), with Lambda ~ Wishart(nu, scale^-1) and B | Lambda ~ MN(b, precision^-1, Lambda^-1), which for
    d = 1 is the same law.  In a mixture this is clusterwise regression; with a covariate kernel it is density regression by locally
    linear components.

    By default how far coefficients are from 0, column by column, and how large residuals are is learnt from all components: the responses
    and the columns but the intercept are centred and divided by their standard deviations, b = 0, precision = diag(shrinkage) and
    scale = diag(noise_scale), with shrinkage_j ~ Gamma(1/2, rate 1/2), or the law that is given, and noise_scale_k ~ Gamma(1/2, rate 1),
    of all components.
    Columns that code the levels of one factor have one shrinkage together and are only centred.  Effects of levels are random effects,
    whose spread is learnt: 1/shrinkage_j is the prior variance of the difference of any two, so that it does not matter which level comes
    first, nor how levels are coded.  Slopes in an interaction of a factor and a number are likewise, the columns divided by their largest
    value; the coefficient of the number itself that is shrunk is there the mean of the slopes of all levels.

    The conjugate prior is normal-inverse-gamma, of several responses matrix-normal-Wishart.

    Parameters
    ----------
    design : str
        Right side of a formula, such as "1 + x"; it has an intercept unless it says "0 + ".
    shrinkage : {"auto", "sampled", None} or Gamma, default "auto"
        "sampled": shrinkage and noise scale are drawn; `nu` is the one hyperparameter.  `Gamma(shape, rate)`: likewise, each shrinkage
        from this law; "sampled" is `Gamma(1/2, 1/2)`.  None: `b`, `r` or `precision`, `nu` and `scale` are fixed, with the defaults below.
        "auto": None where one of these is given, otherwise "sampled".
    b : array_like, (q,), of several responses (q, d), optional
        Prior mean of the coefficients; default the least-squares representation of the constant mean(y) in the columns of the design:
        with an intercept, mean(y) there and 0 elsewhere.
    r : float, optional
        Prior weight in observations: precision = r X'X / n, X the design of the data; default 0.01.
    precision : array_like, (q, q), optional
        Positive definite, in place of r.
    nu : float, optional
        Degrees of freedom; default d + 1, which is 2 for one response; at least d - 0.95.
    scale : float, of several responses array_like, (d, d), optional
        In squared units of the responses, positive definite; default 0.01 nu cov(y), cov(y) the sample covariance of the responses, of
        one its variance, and diag(variances) where it is singular.  The prior mean of Lambda is nu scale^-1.

    Raises
    ------
    ValueError
        If a hyperparameter is out of range, has the wrong shape or does not go with `shrinkage`, here or when the family meets the data;
        if a row misses some of several responses; without shrinkage, if columns of the design are linearly dependent and `precision` is
        not given.

    Notes
    -----
    With shrinkage ~ Gamma(1/2, rate) the prior of one coefficient over s is a Cauchy distribution of scale sqrt(2 rate): the smaller the
    rate, the nearer to 0 are coefficients of columns without an effect.  `nm.Gamma(1/2, 0.0005)` is the default of `Model` where its lines
    have squares.

    With `shrinkage="sampled"` coefficients and residual variances are integrated out of all moves, as without; once a sweep they are
    drawn given the partition, shrinkage and noise scale given them, and they are dropped.  `fit.draws["shrinkage"]` (chain, draw, q) and
    `fit.draws["noise_scale"]` (chain, draw, d) are in standardised units: 1/shrinkage_j is the prior variance of coefficient j over that of
    the residuals.  Fits do not depend on the units of responses and columns, nor on their zeros where the design has an intercept.
    Columns that are constant or linearly dependent are harmless, for the prior is proper.  Without an intercept columns are divided by
    their root mean squares and not centred; where constants are linear combinations of them, as of the levels of a factor, responses
    are centred all the same.  `method="tree_published"` needs `shrinkage=None`; variational inference has point estimates of
    them; searches, and trees that proposals are made by, take shrinkage and noise scale as chains begin with them, 0.01 and 0.01 nu.

    With `shrinkage=None` and its defaults nothing depends on the units of the responses, or on which linear combinations of them are
    taken, nor on how the inputs are coded: designs that span the same functions give the same fit.  The residual standard deviation of a
    component is typically sqrt(0.01) = 0.1 of the sample's, and its regression function spreads over sqrt(0.01 / r) = 1 sample standard
    deviation. Among 30 candidates the mean regret of held-out log density, over seven problems from galaxy, faithful, iris, mcycle and
    simulated lines, was 0.03 nats an observation; the least, at the edge of the candidates, was 0.02 (benchmarks/default_regression.py).
    Those problems have one response; several keep the numbers, so that one response has one default.

    Values of responses and columns that are far from all others, as `Gaussian` says, count in no default and in no standard deviation.

    Variational inference takes responses that repeats say to be rounded to a unit u (60% of the rows have a value that
    others have, and all differences are multiples of u) for such: y^2 counts as y^2 + u^2 / 12, its mean over the cell of the value, so
    that no component is narrower than sqrt(u^2 / 12).  Densities are those before rounding; the probability of a recorded value is an
    integral over its cell, about u times them.  Chains have no such rule: there ties are spikes, which a warning says.

    A row whose responses are all missing counts for nothing (`missing="marginalize"`).  One that misses some of several is refused;
    families of their own, `family={"y1": nm.Regression("1 + x"), "y2": nm.Regression("1 + x")}`, take such rows, their responses then
    independent within a component.

    The conjugate analysis is in Gelman et al., Bayesian Data Analysis (2013, chapter 14), and of several responses in Rossi, Allenby &
    McCulloch, Bayesian Statistics and Marketing (2005, chapter 2); r X'X / n is the prior of unit information,
    r observations strong (Kass & Wasserman 1995).

    Examples
    --------
    >>> import nrmmix as nm
    >>> x = np.arange(20.0)
    >>> data = {"x": x, "y": np.where(x % 2 == 0, x, 30 - 2 * x)}
    >>> fit = nm.fit("y ~ 1", data, family=nm.Regression("1 + x"), draws=50, tune=50, chains=2, rng=1)
    >>> fit.partition().n_clusters
    2
    """

    design: str = "1"
    b: Any = None
    r: float | None = None
    precision: Any = None
    nu: float | None = None
    scale: Any = None
    shrinkage: str | Gamma | None = "auto"
    takes_missing: ClassVar[bool] = True
    takes_censored: ClassVar[bool] = True

    def __init__(self, design: str, *, b: Any = None, r: float | None = None, precision: Any = None, nu: float | None = None,
                 scale: Any = None, shrinkage: str | Gamma | None = "auto") -> None:
        if not isinstance(design, str):
            raise ValueError(f"Regression: design must be the right side of a formula, such as '1 + x', not {design!r}.")
        if r is not None and precision is not None:
            raise ValueError("Regression: give r or precision, not both; precision = r X'X / n.")
        values = {"r": none_or_positive("Regression", "r", r), "nu": none_or_positive("Regression", "nu", nu)}
        matrix = isinstance(scale, list | tuple) or getattr(scale, "ndim", 0) > 0  # checked when the responses are known
        values["scale"] = scale if matrix else none_or_positive("Regression", "scale", scale)
        if not (shrinkage is None or isinstance(shrinkage, Gamma) or (isinstance(shrinkage, str) and shrinkage in ("auto", "sampled"))):
            raise ValueError(f'Regression: shrinkage must be "sampled", nm.Gamma(shape, rate), None or "auto", not {shrinkage!r}.')
        given = [name for name, value in (("b", b), ("r", r), ("precision", precision), ("scale", scale)) if value is not None]
        if given and shrinkage not in ("auto", None):
            raise ValueError(f"Regression: {given[0]} is a hyperparameter of shrinkage=None; where shrinkage is drawn only nu is one.")
        if shrinkage == "auto":
            shrinkage = None if given or nu is not None else "sampled"
        for name, value in (values | {"design": design, "b": b, "precision": precision, "shrinkage": shrinkage}).items():
            object.__setattr__(self, name, value)

    def resolve(self, y: Any, names: tuple[str, ...] | None = None, inputs: np.ndarray | None = None, levels: Levels = None) -> Regression:
        names = names or tuple(f"y{j + 1}" for j in range(y.shape[1]))
        if inputs is None:
            raise ValueError("Regression: resolve needs the inputs, the columns of the design.")
        _check_whole_rows(y, names, self.design)
        q, d, y = inputs.shape[1], y.shape[1], y[~np.isnan(y[:, 0])]
        columns = self.input_names or tuple(f"x{a + 1}" for a in range(q))
        nu = self._degrees(d)
        if self.shrinkage is not None:
            form = _standardised(y, names, inputs, columns, nu, self._groups_of(q), self._coding_of(q), self._law)
            return self.with_values(names=names, input_names=columns, nu=nu, form=form)
        usual = y[~far_cells(y).any(axis=1)]
        scale = self._scale(usual, names, nu)
        r, precision = self.r, None
        if self.precision is None:
            r = R if r is None else r
            of_usual = inputs[~far_cells(inputs).any(axis=1)]
            _check_independent(of_usual, columns)
            upper: Any = np.linalg.qr(of_usual, mode="r")
            factor = math.sqrt(r / len(of_usual)) * upper
        else:
            precision, lower = positive_definite("Regression", "precision", self.precision, q, "this design")
            factor = lower.T
        constant = _constant(inputs)
        b = _of_means(usual, constant) if self.b is None else shaped("Regression", "b", self.b, (q,) if d == 1 else (q, d), "this design")
        form = _form(names, columns, inputs, b, nu, scale, constant, factor)
        return self.with_values(names=names, input_names=columns, b=b, r=r, precision=precision, nu=nu, scale=scale, form=form)

    def resolve_from(self, summary: Summary, names: tuple[str, ...], levels: Levels = None) -> Regression:
        if self.shrinkage is None:
            return cast(Regression, super().resolve_from(summary, names, levels))  # which raises
        if self.form is not None and self.form.names == names:  # of the first rows, where new ones are added to them
            return self
        columns, nu, usual = self.input_names, self._degrees(summary.d), summary.usual_rows()
        mean, spread = usual.input_means(), usual.input_spreads()
        if not _has_intercept(mean, spread):
            raise ValueError(
                f"Regression: of rows that are not in memory the design needs an intercept, and {self.design!r} has none; write 1 + ..."
            )
        variances = usual.variances()
        check_variances("Regression", names, variances)
        groups = self._groups_of(len(columns))
        constant, level = np.eye(len(columns))[0] / mean[0], usual.means()
        factor = _scales(mean, spread, lambda own: usual.largest_inputs()[own].max(), self._coding_of(len(columns)))
        one = summary.d == 1
        b = level[0] * constant if one else np.outer(constant, level)
        kind, scale = (OneResponse, float(variances[0])) if one else (SeveralResponses, np.diag(variances))
        start = np.full(len(columns), R), np.full(summary.d, SPREAD * nu)
        of_constant = np.atleast_1d(_mean_of_constant(b[0] * mean[0], int(summary.n)))
        middle, units = float(of_constant[0]) if one else of_constant, summary.rounding_units()
        form = kind(names, columns, b, nu, scale, middle, constant, factor, start, groups, self._law, units)
        return self.with_values(names=names, nu=nu, form=form, is_streamed=True)

    def rounding_units(self, y: Any) -> dict[str, float]:
        return dict(zip(self.names, self.resolved.units_of(np.asarray(y, float)).tolist(), strict=True))

    @property
    def _law(self) -> Gamma:
        """Law of each shrinkage that is drawn."""
        return self.shrinkage if isinstance(self.shrinkage, Gamma) else SHRINKAGE

    def _groups_of(self, q: int) -> np.ndarray:
        """(q,) of each column the first of those that have one shrinkage."""
        return np.array(self.input_groups or range(q), dtype=np.int64)

    def _coding_of(self, q: int) -> Coding:
        return Coding.without_levels(q) if self.input_coding is None else self.input_coding

    def _degrees(self, d: int) -> float:
        nu = float(NU + d - 1 if self.nu is None else self.nu)
        if nu < d - 1 + MIN_NU:
            near = "small" if d == 1 else f"near d - 1 = {d - 1} or below"
            raise ValueError(f"Regression: nu = {nu:g} is so {near} that draws overflow; take {d - 1 + MIN_NU:g} or more.")
        if nu > MAX_NU:
            raise ValueError(f"Regression: nu = {nu:g} is lost in rounding; take {MAX_NU:g} or less.")
        return nu

    def _scale(self, y: np.ndarray, names: tuple[str, ...], nu: float) -> Any:
        """A number, of several responses a matrix."""
        if len(names) == 1:
            if self.scale is None:
                return float(SPREAD * nu * _variance(y[:, 0], names[0]))
            return none_or_positive("Regression", "scale", float(shaped("Regression", "scale", self.scale, (1, 1), "one response")[0, 0]))
        if self.scale is None:
            return SPREAD * nu * _spread(y, names)
        scale, _ = positive_definite("Regression", "scale", self.scale, len(names), "these responses")
        return (scale + scale.T) / 2

    # ---- what the form does; it needs resolved hyperparameters

    @property
    def factor(self) -> np.ndarray:
        """Upper triangular factor with factor'factor = precision."""
        return self.resolved.factor

    def observe(self, y: Any) -> Observed:
        _check_whole_rows(y, self.names, self.design)
        return super().observe(y)

    def observe_inputs(self, inputs: np.ndarray) -> np.ndarray:
        return self.resolved.observe_inputs(inputs)

    def coefficients(self, g: np.ndarray) -> np.ndarray:
        """Coefficients in the units of the data of those of the kernels: (q, ...), of several responses (q, d, ...)."""
        return self.resolved.coefficients(g)

    def with_censored(self) -> Regression:
        if len(self.names) > 1:
            own = ", ".join(f"{name!r}: nm.Regression({self.design!r})" for name in self.names)
            raise ValueError(
                f"Regression of several responses has no way with censored ones ({', '.join(self.names)}); give each its own, "
                f"family={{{own}}}."
            )
        return self

    def cells(self, values: np.ndarray, which: np.ndarray) -> np.ndarray:
        return self.means(values[..., None])[..., 0]

    def describe(self) -> list[str]:
        if self.form is None:
            return [f"Regression on {self.design}"]
        if self.form.is_learnt:
            return self.form.describe("")
        weight = f"r = {self.r:g}: precision = r X'X / n" if self.precision is None else "precision"
        return self.form.describe(f"{weight} = {numbers(self.factor.T @ self.factor)}")


def _constant(inputs: np.ndarray) -> np.ndarray:
    """Coefficients of the least-squares representation of 1 in the columns of a design."""
    length = np.maximum(np.linalg.norm(inputs, axis=0), 1e-300)
    share = np.linalg.lstsq(inputs / length, np.ones(len(inputs)), rcond=None)[0]
    return np.where(np.abs(share) > COLLINEAR * np.abs(share).max(), share, 0.0) / length


def _of_means(y: np.ndarray, constant: np.ndarray) -> np.ndarray:
    """Coefficients of the means of the responses, (q,), of several (q, d)."""
    mean = [column.mean() for column in y.T]
    return mean[0] * constant if len(mean) == 1 else np.outer(constant, mean)


def _mean_of_constant(value: Any, n: int) -> Any:
    """The mean of n times the same, rounded as that of an array is: `_form` takes it of the rows."""
    return np.mean(np.broadcast_to(value, (n, *np.shape(value))), axis=0)


def _form(
    names: tuple[str, ...], columns: tuple[str, ...], inputs: np.ndarray, b: np.ndarray, nu: float, scale: Any, constant: np.ndarray,
    factor: np.ndarray, start: tuple[np.ndarray, np.ndarray] | None = None, groups: np.ndarray | None = None, law: Gamma = SHRINKAGE,
) -> Linear:
    """Return the form of a design; where it has constants, responses are differences from one: their digits are not spent on it."""
    spanned = np.allclose(inputs @ constant, 1.0, rtol=0, atol=1e-8)
    level = (inputs @ b).mean(axis=0) if spanned else np.zeros(b.shape[1:])
    one = len(names) == 1
    kind = OneResponse if one else SeveralResponses
    return kind(names, columns, b, nu, scale, float(level) if one else level, constant, factor, start, groups, law)


def _standardised(
    y: np.ndarray, names: tuple[str, ...], inputs: np.ndarray, columns: tuple[str, ...], nu: float, groups: np.ndarray,
    coding: Coding, law: Gamma,
) -> Linear:
    """The form with shrinkage: responses in standard deviations from their means, and so the columns beside an intercept, the first.

    Columns of the levels of a factor, which have one shrinkage, are only centred: rare levels are not to differ more than others.  What
    they are multiplied by, in an interaction, is divided by the largest of its values.
    """
    y = y[~far_cells(y).any(axis=1)]
    variances = np.array([_variance(column, name) for column, name in zip(y.T, names, strict=True)])
    q, usual = inputs.shape[1], without_far(inputs)
    whole = usual is inputs
    mean = inputs.mean(axis=0) if whole else np.nanmean(usual, axis=0)
    with np.errstate(over="ignore"):
        spread = inputs.std(axis=0, ddof=1) if whole else np.nanstd(usual, axis=0, ddof=1)
    factor = _scales(mean, spread, lambda own: np.nanmax(np.abs(usual[:, own])), coding)
    constant = np.eye(q)[0] / mean[0] if _has_intercept(mean, spread) else _constant(inputs)
    start = np.full(q, R), np.full(len(names), SPREAD * nu)  # as far as a component's line is from constant without shrinkage
    scale = float(variances[0]) if len(names) == 1 else np.diag(variances)
    return _form(names, columns, inputs, _of_means(y, constant), nu, scale, constant, factor, start, groups, law)


def _has_intercept(mean: np.ndarray, spread: np.ndarray) -> bool:
    """Whether the first column of a design is constant, by means and standard deviations of its columns."""
    return bool(len(mean) > 0 and mean[0] != 0.0 and spread[0] <= COLLINEAR * abs(mean[0]))


def _scales(mean: np.ndarray, spread: np.ndarray, largest: Callable[[np.ndarray], float], coding: Coding) -> np.ndarray:
    """Factor (q, q) by which columns are standardised; `largest` gives the largest absolute value of some columns."""
    intercept = _has_intercept(mean, spread)
    if intercept:
        unit = np.where(spread > COLLINEAR * np.abs(mean), spread, np.abs(mean))  # of a column that is constant, its value
        unit[0] = mean[0]
    else:
        unit = np.hypot(mean, spread)
    measured = coding.measured_by.any(axis=1)
    for by in np.unique(coding.measured_by[measured], axis=0):
        unit[(coding.measured_by == by).all(axis=1)] = largest(by)
    factor = np.where(unit == 0.0, 1.0, unit)[:, None] * coding.root
    factor[~measured] /= np.diag(coding.root)[~measured, None]
    if intercept:
        factor[0, 1:] = mean[1:]
    return factor


def _check_whole_rows(y: np.ndarray, names: tuple[str, ...], design: str) -> None:
    """A RowError for a row that has some of several responses and misses others."""
    gaps = np.isnan(y)
    some = np.flatnonzero(gaps.any(axis=1) & ~gaps.all(axis=1))
    if len(some):
        own = ", ".join(f"{name!r}: nm.Regression({design!r})" for name in names)
        raise RowError(
            f"Regression: {{row}} misses the response {names[int(gaps[some[0]].argmax())]!r} but not all of {', '.join(names)}, and a row "
            f"counts in a regression of several responses with all of them or not at all; give each its own, family={{{own}}}, or use "
            "missing='drop'.",
            some[0],
        )


def _spread(y: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """Sample covariance of the responses, the variances alone where it is singular."""
    variances = np.array([_variance(column, name) for column, name in zip(y.T, names, strict=True)])
    covariance = np.cov(y, rowvar=False)
    sd = np.sqrt(variances)
    regular = np.linalg.eigvalsh(covariance / np.outer(sd, sd))[0] > COLLINEAR
    return (covariance + covariance.T) / 2 if regular else np.diag(variances)


def _variance(y: np.ndarray, name: str) -> float:
    if len(y) < 2:
        raise ValueError("Regression: the default scale needs at least 2 observations; give scale=, or more data.")
    with np.errstate(over="ignore", invalid="ignore"):
        variance = float(y.var(ddof=1))
    check_variances("Regression", [name], [variance])
    return variance


def _check_independent(inputs: np.ndarray, columns: Sequence[str]) -> None:
    """The columns of the design must be linearly independent."""
    from scipy.linalg import qr, solve_triangular

    n, q = inputs.shape
    length = np.linalg.norm(inputs, axis=0)
    zero = np.flatnonzero(length == 0)
    if len(zero):
        raise ValueError(f"Regression: the design column {columns[zero[0]]!r} is 0 in every row; leave it out, or give precision=.")
    if n < q:
        raise ValueError(f"Regression: the design has {q} columns but there are {n} rows; use fewer columns, or give precision=.")
    R, pivot = qr(inputs / length, mode="r", pivoting=True)
    R = R[:q]
    rank = int((np.abs(np.diag(R)) > COLLINEAR).sum())
    if rank < q:
        share = solve_triangular(R[:rank, :rank], R[:rank, rank])
        others = [columns[pivot[a]] for a in range(rank) if abs(share[a]) > 1e-6]
        raise ValueError(
            f"Regression: the design column {columns[pivot[rank]]!r} is a linear combination of {', '.join(map(repr, others))}; leave one "
            "of them out, use center() where a column is far from 0 against its range, or give precision=."
        )
