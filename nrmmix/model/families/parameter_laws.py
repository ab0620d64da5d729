"""Posterior laws of the parameters of clusters, as their quantiles: functions of a probability that give one number for each cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from nrmmix.model.families.base import Parameter

Quantiles = Callable[[float], np.ndarray]
NODES = 32  # of quadrature over each of two chi-squared variates
HALVINGS = 45  # of intervals in which a quantile lies


def normal(mean: Any, sd: Any) -> Quantiles:
    """Summarise N(mean, sd^2)."""
    return lambda p: mean + sd * special.ndtri(p)


def student_t(centre: Any, spread: Any, df: Any) -> Quantiles:
    """Summarise t with location, scale and degrees of freedom.

    Examples
    --------
    >>> student_t(np.zeros(1), np.ones(1), np.ones(1))(0.75).round(6)  # Cauchy
    array([1.])
    """
    return lambda p: centre + spread * special.stdtrit(df, p)


def standard_deviation(df: Any, square: Any) -> Quantiles:
    """Summarise the root of a variance that is inverse gamma(df / 2, square / 2)."""
    return lambda p: np.sqrt(0.5 * square / special.gammainccinv(0.5 * df, p))


def sd_moments(df: np.ndarray, square: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of that root; NaN where they do not exist."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(df > 1, np.sqrt(square / 2) * np.exp(special.gammaln((df - 1) / 2) - special.gammaln(df / 2)), np.nan)
        return mean, np.where(df > 2, np.sqrt(np.maximum(square / (df - 2) - mean**2, 0.0)), np.nan)


def sd_parameter(name: str, df: np.ndarray, square: np.ndarray) -> Parameter:
    """The standard deviation of a response, whose variance is inverse gamma(df / 2, square / 2)."""
    return Parameter(f"sd {name}", *sd_moments(df, square), standard_deviation(df, square))


def gamma(shape: Any, rate: Any) -> Quantiles:
    """Summarise Gamma(shape, rate)."""
    return lambda p: special.gammaincinv(shape, p) / rate


def beta(a: Any, b: Any) -> Quantiles:
    """Summarise Beta(a, b)."""
    return lambda p: special.betaincinv(a, b, p)


def correlation(m: np.ndarray, share: np.ndarray) -> Quantiles:
    """Summarise the correlation of Lambda^-1, Lambda ~ Wishart(m, S^-1) of two responses, `share` (k,) that of S.

    With r of S it is t / sqrt(1 + t^2) for t = (r / sqrt(1 - r^2) sqrt(B) + z) / sqrt(A), where z is standard normal, A chi-squared of
    m - 1 degrees of freedom and B of m (Odell & Feiveson 1966, Journal of the American Statistical Association 61); A and B are
    integrated out by quadrature.

    Examples
    --------
    >>> correlation(np.array([9.0]), np.array([0.0]))(0.5).round(6) + 0.0  # symmetric
    array([0.])
    """
    nodes, weight = np.polynomial.legendre.leggauss(NODES)
    u, weight = 0.5 * (nodes + 1.0), 0.5 * weight

    def quantile(p: float) -> np.ndarray:
        out = np.empty(len(m))
        for k, (df, r) in enumerate(zip(m, np.clip(share, -1.0 + 1e-15, 1.0 - 1e-15), strict=True)):
            A, B = (np.sqrt(2.0 * special.gammaincinv(0.5 * one, u)) for one in (df - 1.0, df))
            shift = (r / np.sqrt(1.0 - r * r) * B)[:, None]

            def below(angle: float, A: np.ndarray = A, shift: np.ndarray = shift) -> float:
                return float(weight @ special.ndtr(np.tan(angle) * A - shift) @ weight)

            low, high = -0.5 * np.pi, 0.5 * np.pi  # t = tan(angle), and the correlation its sine
            for _ in range(HALVINGS):
                angle = 0.5 * (low + high)
                low, high = (angle, high) if below(angle) < p else (low, angle)
            out[k] = np.sin(0.5 * (low + high))
        return out

    return quantile


def of_nodes(values: np.ndarray, weight: np.ndarray) -> Quantiles:
    """Summarise a law by its values (N, k) at nodes, in decreasing order, and their weights (N, k), which add up to 1."""

    def quantile(p: float) -> np.ndarray:
        above = np.cumsum(weight, axis=0) - 0.5 * weight
        both = np.broadcast_arrays(values, above)
        return np.array([np.interp(1.0 - p, own, x) for x, own in zip(both[0].T, both[1].T, strict=True)])

    return quantile


def of_normals(mean: np.ndarray, sd: np.ndarray, weight: np.ndarray) -> Quantiles:
    """Summarise mixtures of normals (N, k) with weights (N, k) that add up to 1."""

    def quantile(p: float) -> np.ndarray:
        reach = 40.0 * sd
        low, high = (mean - reach).min(axis=0), (mean + reach).max(axis=0)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            below = (weight * special.ndtr((middle - mean) / sd)).sum(axis=0) < p
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    return quantile


def correlation_parameter(names: tuple[str, str], m: np.ndarray, share: np.ndarray, is_detail: bool = False) -> Parameter:
    """The correlation of Lambda^-1, Lambda ~ Wishart(m, S^-1) of two responses, `share` that of S.

    It has the law of the correlation of a sample with m degrees of freedom (Anderson 2003, section 4.2).
    """
    square = np.minimum(share**2, 1.0 - 1e-15)
    gain = np.exp(2.0 * (special.gammaln((m + 1) / 2) - special.gammaln(m / 2)) - np.log(m / 2))
    mean = share * gain * special.hyp2f1(0.5, 0.5, m / 2 + 1, square)
    second = 1.0 - (m - 1) / m * (1.0 - square) * special.hyp2f1(1.0, 1.0, m / 2 + 1, square)
    sd = np.sqrt(np.maximum(second - mean**2, 0.0))
    return Parameter(f"corr {names[0]}, {names[1]}", mean, sd, correlation(m, share), is_detail)
