"""Gaussian components under the normal-Wishart prior, in the units of the data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from exact.enumeration import gaussian_log_marginal
from scipy.special import gammaln


@dataclass(frozen=True)
class Base:
    """Lambda ~ Wishart(nu, scale^-1), mu | Lambda ~ N(m, (r Lambda)^-1)."""

    m: np.ndarray
    r: float
    nu: float
    scale: np.ndarray

    @property
    def dim(self) -> int:
        return len(self.m)


def posterior(X: np.ndarray, base: Base) -> Base:
    """The base measure after the observations X (n, d)."""
    n = len(X)
    if n == 0:
        return base
    mean = X.mean(axis=0)
    centred = X - mean
    gap = mean - base.m
    return Base(
        m=base.m + n / (base.r + n) * gap,
        r=base.r + n,
        nu=base.nu + n,
        scale=base.scale + centred.T @ centred + base.r * n / (base.r + n) * np.outer(gap, gap),
    )


def log_marginal(X: np.ndarray, base: Base) -> float:
    """log p(X), component parameters integrated out."""
    return gaussian_log_marginal(X, base.m, base.r, base.nu, base.scale)


def log_predictive(x: np.ndarray, X: np.ndarray, base: Base) -> float:
    """log p(x | X): a multivariate t with nu_n - d + 1 degrees of freedom."""
    after = posterior(X, base)
    d = base.dim
    df = after.nu - d + 1
    shape = after.scale * (after.r + 1) / (after.r * df)
    # spelled out: scipy's multivariate_t refuses shapes that it takes for singular
    quadratic = (x - after.m) @ np.linalg.solve(shape, x - after.m)
    return float(
        gammaln((df + d) / 2) - gammaln(df / 2) - 0.5 * d * math.log(df * math.pi) - 0.5 * np.linalg.slogdet(shape)[1]
        - 0.5 * (df + d) * math.log1p(quadratic / df)
    )
