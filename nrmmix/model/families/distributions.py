"""Distributions of one response, by cluster: densities, distribution functions and quantiles of arrays.

Parameters are arrays that broadcast against the points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from scipy import special

from nrmmix.kernels.core.mixing import find_crossings, mix_t, solve_normal
from nrmmix.kernels.core.special import interpolate_columns


class Distribution(Protocol):
    """Distributions with parameters of shape (I, k), or (1, k): I rows of inputs, k clusters."""

    discrete: bool  # whole numbers or categories: the density is a probability, as it is at the point masses of `WithPointMass`
    ordered: bool  # whether there is a distribution function

    def density(self, x: Any) -> np.ndarray: ...

    def cdf(self, x: Any) -> np.ndarray: ...

    def quantile(self, p: Any) -> np.ndarray: ...


def mapped(distribution: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    """Return the distribution with all parameters changed, those of a distribution within it too."""
    return type(distribution)(*(mapped(p, change) if isinstance(p, tuple) else change(np.asarray(p)) for p in distribution))


def spread_out(distribution: Any) -> Any:
    """Return the distribution with parameters (I, 1, k): points (J, 1) then give (I, J, k)."""
    return mapped(distribution, lambda parameter: parameter[:, None, :])


class StudentT(NamedTuple("StudentT", [("centre", Any), ("spread", Any), ("df", Any)])):
    """Student's t with location, scale and degrees of freedom."""

    discrete, ordered = False, True

    def density(self, x: Any) -> np.ndarray:
        z, h = (x - self.centre) / self.spread, 0.5 * (self.df + 1.0)
        constant = special.gammaln(h) - special.gammaln(0.5 * self.df) - 0.5 * np.log(math.pi * self.df)
        return np.exp(constant - h * np.log1p(z * z / self.df)) / self.spread

    def cdf(self, x: Any) -> np.ndarray:
        z, df = (x - self.centre) / self.spread, np.asarray(self.df, float)
        k = df.shape[-1] if df.ndim else 0
        if df.size == k and z.shape[-1:] == (k,) and 2 * z.size > k * NODES:
            return _interpolated_cdf(z, df.ravel())
        return special.stdtr(df, z)

    def quantile(self, p: Any) -> np.ndarray:
        return self.centre + self.spread * special.stdtrit(self.df, p)

    def mixed_cdf(self, points: np.ndarray, weight: np.ndarray, given: np.ndarray) -> np.ndarray:
        """(C, J): of mixtures with weights (C, k) at points (I, J), each at the row of inputs that `given` (C,) says; df is by column.

        As the product of the weights with `cdf`, which keeps a number for each component.
        """
        I, k = len(points), weight.shape[1]
        centre, spread = (_rows(parameter, I, k) for parameter in (self.centre, self.spread))
        df, (values, slopes) = _rows(self.df, 1, k)[0], _tables(np.ravel(self.df))
        out = np.empty((len(weight), points.shape[1]))
        mix_t(points, centre, spread, df, values, slopes, WIDTH, weight, given, np.empty(points.shape[1]), out)
        return out


NODES, WIDTH = 1201, 15.0  # of a table of a t distribution function, equally spaced in asinh(z): errors are below 1e-8


@lru_cache(512)  # 20 kB each: the same numbers come again from draw to draw
def _table(df: float) -> tuple[np.ndarray, np.ndarray]:
    """Values (NODES,) and slopes by node spacing of the distribution function of t with so many degrees of freedom."""
    nodes = np.linspace(-WIDTH, WIDTH, NODES)
    slopes = StudentT(0.0, 1.0, df).density(np.sinh(nodes)) * np.cosh(nodes) * (nodes[1] - nodes[0])
    return special.stdtr(df, np.sinh(nodes)), slopes


def _tables(df: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and slopes (k, NODES) for df (k,)."""
    values, slopes = zip(*map(_table, df.tolist()), strict=True)
    return np.stack(values), np.stack(slopes)


def _rows(parameter: Any, I: int, k: int) -> np.ndarray:
    return np.ascontiguousarray(np.broadcast_to(parameter, (I, k)), float)


def _interpolated_cdf(z: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Distribution functions of t with df (k,) at z (..., k), from a table of each, for incomplete beta functions take long."""
    values, slopes = _tables(df)
    out, flat = np.empty(z.shape), np.ascontiguousarray(z, float)
    interpolate_columns(flat.reshape(-1), values, slopes, WIDTH, out.reshape(-1))
    far = np.isnan(out)
    if far.any():
        out[far] = special.stdtr(np.broadcast_to(df, z.shape)[far], z[far])
    return out


def crossings(q: np.ndarray, cdf: np.ndarray, grid: np.ndarray, given: np.ndarray) -> np.ndarray:
    """(C, len(q)): where each row of cdf (C, J), straight in its log odds, reaches q of its last; the first or last point beyond.

    Points are grid (I, J), at the row of inputs that `given` (C,) says, or those of one row for all.
    """
    out = np.empty((len(cdf), len(q)))
    own = given if len(grid) > 1 else np.zeros(len(cdf), np.int64)
    find_crossings(np.ascontiguousarray(q, float), np.ascontiguousarray(cdf, float), np.ascontiguousarray(grid, float), own, out)
    return out


class NormalGamma(NamedTuple("NormalGamma", [("mean", Any), ("variance", Any), ("shape", Any), ("rate", Any)])):
    """N(mean, variance + 1/precision), precision ~ Gamma(shape, rate); where these are infinite the precision is too.

    Quadrature by the trapezoid over the logarithm of the precision, on all that a gamma density does not leave below 1e-16.
    """

    discrete, ordered = False, True

    def _mixed(self, x: Any, of_normal: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """Mean of a function of x - mean and the standard deviation over the precision."""
        parameters = np.broadcast_arrays(np.asarray(x, float) - self.mean, self.variance, self.shape, self.rate)
        e, variance, shape, rate = parameters
        out = of_normal(e, np.sqrt(variance))
        for a, b in {*zip(shape.ravel().tolist(), rate.ravel().tolist(), strict=True)}:
            if a < math.inf:
                own = (shape == a) & (rate == b)
                step = min(0.2, 0.7 / math.sqrt(a + 1.0))
                log_t = np.arange(math.log(a) - 40.0 / a - 9.0 / math.sqrt(a), math.log(a + 10.0 * math.sqrt(a) + 60.0), step)
                weight = step * np.exp(a * log_t - np.exp(log_t) - special.gammaln(a))
                some = weight > 0
                sd = np.sqrt(variance[own][:, None] + b * np.exp(np.minimum(-log_t[some], 600.0)))
                out[own] = (weight[some] * of_normal(e[own][:, None], sd)).sum(axis=1)
        return out

    def density(self, x: Any) -> np.ndarray:
        return self._mixed(x, lambda e, sd: np.exp(-0.5 * (e / sd) ** 2) / (math.sqrt(2.0 * math.pi) * sd))

    def cdf(self, x: Any) -> np.ndarray:
        return self._mixed(x, lambda e, sd: special.ndtr(e / sd))

    def quantile(self, p: Any) -> np.ndarray:
        """Bisection in t, the quantile being mean + unit sinh t."""
        unit = np.sqrt(self.variance + np.where(np.isinf(self.shape), 0.0, self.rate) / self.shape)
        low = np.full(np.broadcast_shapes(np.shape(p), np.shape(unit), np.shape(self.mean)), -300.0)
        high = -low
        for _ in range(64):
            t = 0.5 * (low + high)
            below = self.cdf(self.mean + unit * np.sinh(t)) < p
            low, high = np.where(below, t, low), np.where(below, high, t)
        return self.mean + unit * np.sinh(0.5 * (low + high))


class Normal(NamedTuple("Normal", [("mean", Any), ("sd", Any)])):
    """Normal with mean and standard deviation."""

    discrete, ordered = False, True

    def density(self, x: Any) -> np.ndarray:
        z = (x - self.mean) / self.sd
        return np.exp(-0.5 * z * z) / (math.sqrt(2.0 * math.pi) * self.sd)

    def cdf(self, x: Any) -> np.ndarray:
        return special.ndtr((x - self.mean) / self.sd)

    def quantile(self, p: Any) -> np.ndarray:
        return self.mean + self.sd * special.ndtri(p)

    def mixture_quantiles(
        self, q: np.ndarray, weight: np.ndarray, rest: np.ndarray, others: StudentT, inputs: int, given: np.ndarray
    ) -> np.ndarray:
        """(C, len(q)): quantiles of mixtures of these normals with weights (C, k) and of one t distribution with weights `rest` (C,).

        Parameters are of `inputs` rows of inputs, of which `given` (C,) says those of each mixture.
        """
        mean, sd = (_rows(parameter, inputs, weight.shape[1]) for parameter in self)
        centre, spread = (_rows(parameter, inputs, 1)[:, 0] for parameter in (others.centre, others.spread))
        df = float(np.ravel(others.df)[0])
        (values,), (slopes,) = _tables(np.array([df]))
        out = np.empty((len(weight), len(q)))
        of_each = special.ndtri(q), special.stdtrit(df, q)
        solve_normal(q, *of_each, weight, mean, sd, rest, centre, spread, df, values, slopes, WIDTH, given, out)
        return out


LocationScale: TypeAlias = Normal | StudentT  # laws of a response that others, which are known, are dependent on


class Elliptical(NamedTuple):
    """Multivariate t of d responses, normal where the degrees of freedom are infinite, for I rows of inputs and k clusters.

    Given some of its responses the others are multivariate t again, with as many degrees of freedom more as responses are given
    (Ding 2016, "On the conditional distribution of the multivariate t distribution", The American Statistician 70).
    """

    centre: np.ndarray  # (I, k, d), I = 1 where they are the same in all rows
    scale: np.ndarray  # (I, k, d, d)
    df: np.ndarray  # (k,), or (I, k)

    def of(self, clusters: np.ndarray) -> Elliptical:
        """Return the law of each of J rows in one cluster (J,), as the only one."""
        rows = np.arange(len(clusters)) if len(self.centre) > 1 else np.zeros(len(clusters), np.int64)
        of_scale = rows if len(self.scale) > 1 else np.zeros(len(clusters), np.int64)
        return Elliptical(self.centre[rows, clusters][:, None], self.scale[of_scale, clusters][:, None], self.df[clusters][:, None])

    def completed(self, y: np.ndarray, drawn: Callable[[int, LocationScale], np.ndarray]) -> np.ndarray:
        """Rows y (J, d), NaN in the same columns of all of them, with what is not known as `drawn` of a column and its law given the rest.

        Of a single cluster; laws have parameters (J, 1), and so has what is drawn.
        """
        whole = y.copy()
        for j in np.flatnonzero(np.isnan(y[0])):
            law = self.given(whole)[1][j]
            assert law is not None  # of a response that is not known
            whole[:, j] = drawn(int(j), law)[:, 0]
        return whole

    def given(self, y: np.ndarray) -> tuple[np.ndarray, list[LocationScale | None]]:
        """Return, for rows y (J, d), NaN in the same columns of all, the log density (J, k) of what is known, and the law of each response.

        J = I unless I = 1.  Laws have parameters (J, k), of which degrees of freedom that are the same in all rows are (1, k), and are
        None for responses that are known.
        """
        d, J, k = y.shape[1], len(y), self.centre.shape[1]
        known = ~np.isnan(y[0])
        seen, rest = np.flatnonzero(known), np.flatnonzero(~known)
        factor = np.linalg.cholesky(self.scale[..., seen[:, None], seen])
        gap = y[:, None, seen] - self.centre[..., seen]  # (J, k, g)
        z = _solve_lower(factor, gap)
        square, g = (z**2).sum(axis=-1), len(seen)
        log_det = np.log(np.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
        normal = np.isinf(self.df)
        df = np.where(normal, 1.0, self.df)
        of_t = special.gammaln(0.5 * (df + g)) - special.gammaln(0.5 * df) - 0.5 * g * np.log(math.pi * df)
        of_t = of_t - 0.5 * (df + g) * np.log1p(square / df)
        log_density = np.where(normal, -0.5 * (g * math.log(2.0 * math.pi) + square), of_t) - log_det
        slope = _solve_lower(factor[..., None, :, :], np.swapaxes(self.scale[..., seen[:, None], rest], -1, -2))  # (I, k, rest, g)
        growth = np.where(normal, 1.0, (df + square) / (df + g))
        laws: list[LocationScale | None] = [None] * d
        for a, j in enumerate(rest.tolist()):
            centre = self.centre[..., j] + (slope[..., a, :] * z).sum(axis=-1)
            left = self.scale[..., j, j] - (slope[..., a, :] ** 2).sum(axis=-1)
            spread = np.sqrt(np.maximum(left, 1e-15 * self.scale[..., j, j]) * growth)
            centre, spread = np.broadcast_to(centre, (J, k)), np.broadcast_to(spread, (J, k))
            laws[j] = Normal(centre, spread) if normal.all() else StudentT(centre, spread, (self.df + g).reshape(-1, k))
        return log_density, laws


def _solve_lower(factor: np.ndarray, b: np.ndarray) -> np.ndarray:
    """x with factor x = b, of lower triangular factors (..., g, g) and b (..., g)."""
    x = np.empty(np.broadcast_shapes(factor.shape[:-1], b.shape))
    for a in range(factor.shape[-1]):
        x[..., a] = (b[..., a] - (factor[..., a, :a] * x[..., :a]).sum(axis=-1)) / factor[..., a, a]
    return x


# ---- probabilities of intervals

def tails(law: StudentT | Normal | PoissonDistribution | NegativeBinomial, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of up to x and of more, each to full accuracy; x may be infinite."""
    if isinstance(law, (StudentT, Normal)):
        z = (x - law[0]) / law[1]
        return (special.stdtr(law.df, z), special.stdtr(law.df, -z)) if isinstance(law, StudentT) else (special.ndtr(z), special.ndtr(-z))
    y = np.clip(np.floor(x), 0.0, LARGEST_COUNT)
    if isinstance(law, PoissonDistribution):
        both = special.pdtr(y, law.mean), special.pdtrc(y, law.mean)
    else:
        both = tuple(special.betainc(*ends) for ends in (
            (law.shape, y + 1.0, 1.0 / (1.0 + law.scale)), (y + 1.0, law.shape, law.scale / (1.0 + law.scale))))
    return np.where(x < 0, 0.0, both[0]), np.where(x < 0, 1.0, both[1])


def log_between(law: StudentT | Normal | PoissonDistribution | NegativeBinomial, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Log of the probability of lower <= y <= upper, either end infinite, from the tail in which the interval lies.

    Examples
    --------
    >>> float(log_between(Normal(0.0, 1.0), np.array(30.0), np.array(np.inf)).round(3)), special.log_ndtr(-30.0).round(3).item()
    (-454.321, -454.321)
    """
    (below, beyond), (up_to, above) = tails(law, lower - 1.0 if law.discrete else lower), tails(law, upper)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(np.where(below < 0.5, up_to - below, beyond - above), 0.0))


# ---- a point mass beside another distribution

class WithPointMass(NamedTuple("WithPointMass", [("probability", Any), ("at", Any), ("otherwise", Any)])):
    """The number `at`, the same everywhere, with a probability; else what a distribution gives that has no point masses.

    The density is with respect to length and a unit of mass at the point, where it is a probability.
    """

    discrete, ordered = False, True

    def density(self, x: Any) -> np.ndarray:
        return np.where(np.equal(x, self.at), self.probability, (1.0 - self.probability) * self.otherwise.density(x))

    def cdf(self, x: Any) -> np.ndarray:
        return (1.0 - self.probability) * self.otherwise.cdf(x) + self.probability * np.greater_equal(x, self.at)

    def quantile(self, p: Any) -> np.ndarray:
        rest = 1.0 - self.probability
        below = rest * self.otherwise.cdf(self.at)
        share = np.where(p <= below, p, p - self.probability) / np.maximum(rest, TINY)
        on_point = (p > below) & (p <= below + self.probability)
        return np.where(on_point, self.at, self.otherwise.quantile(np.clip(share, TINY, ALMOST_ONE)))


TINY, ALMOST_ONE = 1e-300, 1.0 - 2.0**-53


def point_masses(distribution: Any) -> np.ndarray:
    """(m,) the numbers of a continuous distribution that have a probability of their own."""
    return np.ravel(distribution.at) if isinstance(distribution, WithPointMass) else np.zeros(0)


def without_point_masses(distribution: Any) -> Any:
    return distribution.otherwise if isinstance(distribution, WithPointMass) else distribution


# ---- counts and categories; parameters are arrays (I, k) that broadcast against the points

LARGEST_COUNT = 2.0**53  # whole numbers beyond are not all floats


def _is_count(x: Any) -> np.ndarray:
    return (x >= 0) & (x == np.floor(x))


def _smallest(cdf: Callable[[np.ndarray], np.ndarray], p: np.ndarray) -> np.ndarray:
    """Smallest count whose distribution function reaches p: doubling, then bisection."""
    shape = np.broadcast_shapes(np.shape(p), np.shape(cdf(np.zeros(1))))
    low, high = np.full(shape, -1.0), np.zeros(shape)
    while (short := (cdf(high) < p) & (high < LARGEST_COUNT)).any():
        low, high = np.where(short, high, low), np.where(short, 2.0 * high + 1.0, high)
    while (high - low > 1.0).any():
        middle = np.floor(0.5 * (low + high))
        enough = cdf(middle) >= p
        low, high = np.where(enough, low, middle), np.where(enough, np.maximum(middle, low + 1.0), high)
    return high


class PoissonDistribution(NamedTuple("PoissonDistribution", [("mean", Any)])):
    """Poisson with its mean."""

    discrete, ordered = True, True

    def density(self, x: Any) -> np.ndarray:
        y = np.where(_is_count(x), x, 0.0)
        return np.where(_is_count(x), np.exp(special.xlogy(y, self.mean) - self.mean - special.gammaln(y + 1.0)), 0.0)

    def cdf(self, x: Any) -> np.ndarray:
        return np.where(np.less(x, 0), 0.0, special.pdtr(np.floor(np.maximum(x, 0.0)), self.mean))

    def quantile(self, p: Any) -> np.ndarray:
        return _smallest(self.cdf, np.asarray(p))


class NegativeBinomial(NamedTuple("NegativeBinomial", [("shape", Any), ("scale", Any)])):
    """Poisson whose mean is `scale` times a gamma variate of rate 1 and the shape given."""

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


class BernoulliDistribution(NamedTuple("BernoulliDistribution", [("probability", Any)])):
    """0 or 1, with the probability of 1."""

    discrete, ordered = True, True

    def density(self, x: Any) -> np.ndarray:
        return np.where(np.equal(x, 1), self.probability, np.where(np.equal(x, 0), 1.0 - self.probability, 0.0))

    def cdf(self, x: Any) -> np.ndarray:
        return np.where(np.less(x, 0), 0.0, np.where(np.less(x, 1), 1.0 - self.probability, 1.0))

    def quantile(self, p: Any) -> np.ndarray:
        return np.where(np.asarray(p) > 1.0 - np.asarray(self.probability), 1.0, 0.0)


class CategoricalDistribution(NamedTuple("CategoricalDistribution", [("probability", Any)])):
    """Levels 0, 1, ... with probabilities (I, k, L), the levels last; they have no order."""

    discrete, ordered = True, False

    def density(self, x: Any) -> np.ndarray:
        return sum(np.equal(x, level) * self.probability[..., level] for level in range(self.probability.shape[-1]))

    def cdf(self, x: Any) -> np.ndarray:
        raise ValueError("categories have no order, and so no distribution function.")

    def quantile(self, p: Any) -> np.ndarray:
        raise ValueError("categories have no order, and so no quantiles.")
