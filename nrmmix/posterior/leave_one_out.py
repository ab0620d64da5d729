"""Leave-one-out cross-validation by Pareto smoothed importance sampling.

Draws weighted by 1/density of a row are draws of the posterior without it.  The largest weights are replaced by quantiles of a generalised
Pareto distribution fitted to them, whose shape says how far the answer can be trusted (Vehtari, Gelman & Gabry 2017, Statistics and
Computing 27; Vehtari et al. 2024, JMLR 25); the fit is that of Zhang & Stephens (2009, Technometrics 51).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nrmmix.posterior import diagnostics

MIN_DRAWS, RELIABLE = 50, 0.7  # of the smoothing, and the shape up to which it is reliable
MIN_TAIL = 5  # weights of a tail that can be fitted


@dataclass(frozen=True, repr=False)
class LeaveOneOut:
    """Expected log density of rows that were left out.

    Attributes
    ----------
    elpd, se : float
        Sum over the rows of the log density of each given the others, in nats, and its standard error over rows.
    p_loo : float
        Effective number of parameters: how much larger the sum is where rows are not left out.
    rows : DataFrame
        By row `elpd` and `pareto_k`, the shape; above 0.7 the row's value cannot be trusted.
    """

    elpd: float
    se: float
    p_loo: float
    rows: pd.DataFrame

    @property
    def n_doubtful(self) -> int:
        """Rows whose value cannot be trusted."""
        return int((self.rows["pareto_k"] > RELIABLE).sum())

    @property
    def doubts(self) -> str:
        """Say in how many rows the value cannot be trusted; empty where it can in all."""
        doubtful = self.n_doubtful
        if not doubtful:
            return ""
        rows, them = ("row", "it") if doubtful == 1 else ("rows", "these")
        return f"Pareto k above {RELIABLE} in {doubtful} {rows}: refit without {them}"

    def __repr__(self) -> str:
        n = len(self.rows)
        text = f"Leave-one-out of {n} rows: elpd {self.elpd:.1f} ± {self.se:.1f} nats, {self.elpd / n:.3f} a row; p_loo {self.p_loo:.1f}"
        return f"{text}; {self.doubts or f'every Pareto k below {RELIABLE}'}"


def leave_one_out(log_density: np.ndarray, index: pd.Index) -> LeaveOneOut:
    """Compare models by leave-one-out, from log densities (chain, draw, n) of rows under 50 draws or more of the random measure."""
    chains, draws, n = log_density.shape
    if chains * draws < MIN_DRAWS:
        raise ValueError(f"loo needs at least {MIN_DRAWS} draws, not {chains * draws}; draw more, or use log_density on held-out rows.")
    elpd, shape = np.full(n, np.nan), np.full(n, np.nan)
    flat = log_density.reshape(-1, n)
    for i in range(n):
        values = flat[:, i]
        if np.isfinite(values).all():
            size = diagnostics.ess(np.exp(log_density[..., i] - values.max()), kind="mean")
            weights, shape[i] = smoothed(-values, size / len(values) if np.isfinite(size) else 1.0)
            elpd[i] = np.logaddexp.reduce(weights + values)
    top = flat.max(axis=0)
    within = np.log(np.exp(flat - top).mean(axis=0)) + top
    seen = ~np.isnan(elpd)
    se = float(np.sqrt(seen.sum()) * elpd[seen].std(ddof=1)) if seen.sum() > 1 else np.nan
    rows = pd.DataFrame({"elpd": elpd, "pareto_k": shape}, index=index)
    return LeaveOneOut(float(elpd[seen].sum()), se, float((within - elpd)[seen].sum()), rows)


def smoothed(log_ratios: np.ndarray, efficiency: float = 1.0) -> tuple[np.ndarray, float]:
    """Normalised logarithms (T,) of importance ratios with a smoothed tail, and the shape of that.

    Examples
    --------
    >>> weights, k = smoothed(np.log(np.random.default_rng(0).pareto(4.0, 4000)))
    >>> abs(float(np.logaddexp.reduce(weights))) < 1e-9, 0.1 < k < 0.4
    (True, True)
    """
    ratios = log_ratios - log_ratios.max()
    T = len(ratios)
    size = int(np.ceil(min(0.2 * T, 3.0 * np.sqrt(T / efficiency))))
    shape = np.inf
    if size >= MIN_TAIL:
        order = np.argsort(ratios)
        tail, cut = order[-size:], max(ratios[order[-size - 1]], np.log(np.finfo(float).tiny))
        above = np.exp(ratios[tail]) - np.exp(cut)
        if above[-1] > 1e-14 and above[0] >= 0:
            shape, scale = _pareto(np.maximum(above, 1e-300))
            p = (np.arange(size) + 0.5) / size
            quantiles = scale * (np.expm1(-shape * np.log1p(-p)) / shape if shape != 0 else -np.log1p(-p))
            ratios = ratios.copy()
            ratios[tail] = np.minimum(np.log(quantiles + np.exp(cut)), 0.0)
        else:  # all of the tail is alike
            shape = 0.0
    return ratios - np.logaddexp.reduce(ratios), float(shape)


def _pareto(x: np.ndarray) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution of sorted positive x, the shape drawn a little to 1/2."""
    n = len(x)
    m = 30 + int(np.sqrt(n))
    b = 1.0 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))
    b = b / (3.0 * x[int(n / 4 + 0.5) - 1]) + 1.0 / x[-1]
    k = np.log1p(-b[:, None] * x).mean(axis=1)
    profile = n * (np.log(-(b / k)) - k - 1.0)
    weight = np.exp(profile - profile.max())
    at = float((b * weight).sum() / weight.sum())
    shape = float(np.log1p(-at * x).mean())
    scale = -shape / at
    return (n * shape + 10 * 0.5) / (n + 10), scale
