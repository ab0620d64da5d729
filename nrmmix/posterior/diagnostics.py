"""Convergence diagnostics on plain arrays with axes (chain, draw).

The estimators are those of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021, Bayesian Analysis 16, 667-718) with Geyer's initial
monotone sequence (1992, Statistical Science 7, 473-483).  The integrated autocorrelation time is τ = 1 + 2 Σ ρ_k, so that the effective
sample size of N draws is N/τ.  Every autocorrelation is that of a centred series.

A quantity that is not defined (fewer than four draws, a constant series) is NaN; NaN or infinite draws are an error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["autocorrelation", "ess", "iact", "mcse", "rhat", "table"]

MIN_DRAWS = 4
ROUNDING = 1e-14  # of a quantity that is constant but for the order of its sums
COLUMNS = ("mean", "sd", "q5", "q95", "ess", "ess_tail", "rhat", "mcse", "iact")

EssKind = Literal["bulk", "tail", "mean", "raw"]


def autocorrelation(x: Any, lags: int | Sequence[int] | None = None) -> np.ndarray:
    """Autocorrelation of each chain around its own mean.

    Parameters
    ----------
    x : array_like, shape (chains, draws) or (draws,)
        A vector is one chain.
    lags : int or sequence of int, optional
        A number asks for lags 0, 1, ..., `lags`; a sequence for exactly these.  Default: up to 100, or `draws` - 1 where that is less.

    Returns
    -------
    ndarray, shape (chains, number of lags)
        Sums of lagged products are divided by the number of draws at every lag (the estimate that keeps the sequence positive definite).
        NaN in the row of a constant chain and at lags that the chain is too short for.

    Raises
    ------
    ValueError
        `x` holds NaN or infinity or has the wrong number of axes; a lag is negative or not a whole number.

    Examples
    --------
    >>> import numpy as np
    >>> autocorrelation([[1.0, -1.0, 1.0, -1.0]], 2)
    array([[ 1.  , -0.75,  0.5 ]])
    """
    x = _as_chains(x)
    n_draws = x.shape[1]
    if lags is None:
        lags = max(min(100, n_draws - 1), 0)
    wanted = np.arange(lags + 1) if isinstance(lags, int | np.integer) else np.asarray(lags)
    if wanted.ndim != 1 or wanted.size == 0 or wanted.dtype.kind not in "iu" or wanted.min() < 0:
        raise ValueError(f"lags must be whole numbers from 0 on, got {lags!r}")
    out = np.full((x.shape[0], wanted.size), np.nan)
    reached = wanted < n_draws
    for chain, row in zip(x, out, strict=True):
        if n_draws > 1 and np.ptp(chain) > 0:
            covariance = _autocovariance(_rescale(chain[None, :]))[0]
            row[reached] = covariance[wanted[reached]] / covariance[0]
    return out


def iact(x: Any) -> float:
    """Integrated autocorrelation time, τ = 1 + 2 Σ ρ_k.

    The sum is truncated by Geyer's initial monotone sequence.  With several chains the autocorrelations are pooled as in Vehtari et al.
    (2021): the variance between the chains counts as correlation that never decays, so chains that disagree give a large τ.

    Parameters
    ----------
    x : array_like, shape (chains, draws) or (draws,)

    Returns
    -------
    float
        About 1 for independent draws, below 1 for draws that alternate (never below 1/log10(N) for N draws),
        NaN for fewer than four draws a chain or constant draws.

    Raises
    ------
    ValueError
        `x` holds NaN or infinity or has the wrong number of axes.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> bool(abs(iact(rng.normal(size=(4, 1000))) - 1) < 0.2)
    True
    """
    x = _as_chains(x)
    return _iact(x) if _defined(x) else np.nan


def ess(x: Any, kind: EssKind = "bulk") -> float:
    """Effective sample size.

    Parameters
    ----------
    x : array_like, shape (chains, draws) or (draws,)
    kind : {"bulk", "tail", "mean", "raw"}, default "bulk"
        bulk: of the rank-normalised draws of split chains.  tail: the smaller one of the effective sizes for
        the 5% and the 95% quantile.  mean: of the draws of split chains, which is the one behind `mcse`.
        raw: number of draws divided by `iact`, neither split nor ranked.

    Returns
    -------
    float
        NaN for fewer than four draws a chain or constant draws.

    Raises
    ------
    ValueError
        Unknown `kind`; `x` holds NaN or infinity or has the wrong number of axes.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> 3500 < ess(rng.normal(size=(4, 1000))) < 4500
    True
    """
    if kind not in ("bulk", "tail", "mean", "raw"):
        raise ValueError(f"kind must be 'bulk', 'tail', 'mean' or 'raw', got {kind!r}")
    x = _as_chains(x)
    if not _defined(x):
        return np.nan
    if kind == "bulk":
        return _ess(_rank_normal(_split(x)))
    if kind == "tail":
        return _ess_tail(x)
    if kind == "mean":
        return _ess(_split(x))
    return _ess(x)


def rhat(x: Any) -> float:
    """Rank-normalised split R-hat: the larger one for the draws and for their distances from the median.

    Parameters
    ----------
    x : array_like, shape (chains, draws) or (draws,)
        A single chain is compared with itself, first half against second half.

    Returns
    -------
    float
        About 1 where the chains agree, infinity where every half chain is constant and they differ, NaN for
        fewer than four draws a chain or constant draws.

    Raises
    ------
    ValueError
        `x` holds NaN or infinity or has the wrong number of axes.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> draws = rng.normal(size=(4, 1000))
    >>> rhat(draws) < 1.01, rhat(draws + np.arange(4)[:, None]) > 1.1
    (True, True)
    """
    x = _as_chains(x)
    if not _defined(x):
        return np.nan
    halves = _split(x)
    folded = np.abs(halves - np.median(halves))
    # A two-valued series can be constant once folded: then the unfolded value stands alone.
    return float(np.fmax(_rhat(_rank_normal(halves)), _rhat(_rank_normal(folded))))


def mcse(x: Any) -> float:
    """Monte Carlo standard error of the mean of all draws, sd / sqrt(ess(x, "mean")).

    Parameters
    ----------
    x : array_like, shape (chains, draws) or (draws,)

    Returns
    -------
    float
        NaN for fewer than four draws a chain or constant draws.

    Raises
    ------
    ValueError
        `x` holds NaN or infinity or has the wrong number of axes.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> bool(abs(mcse(rng.normal(size=(4, 2500))) - 0.01) < 0.001)
    True
    """
    x = _as_chains(x)
    return _sd(x) / float(np.sqrt(_ess(_split(x)))) if _defined(x) else np.nan


def table(named: Mapping[str, Any]) -> pd.DataFrame:
    """Summary and diagnostics of several scalar quantities.

    Parameters
    ----------
    named : mapping of str to array_like, shape (chains, draws) or (draws,)

    Returns
    -------
    DataFrame
        One row a name, in the order given; columns mean, sd, q5, q95, ess (bulk), ess_tail, rhat, mcse (of
        the mean), iact.  All but the mean are NaN for a constant quantity: nothing was estimated there.

    Raises
    ------
    ValueError
        Draws hold NaN or infinity or have the wrong number of axes; the message gives the name.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> table({"mass": rng.gamma(2.0, size=(2, 500)), "sigma": np.zeros((2, 500))})["iact"].round(0)
    mass     1.0
    sigma    NaN
    Name: iact, dtype: float64
    """
    import pandas as pd

    rows = [_row(_as_chains(draws, name)) for name, draws in named.items()]
    return pd.DataFrame(rows, index=list(named), columns=list(COLUMNS), dtype=np.float64)


# -------------------------------------------------------------------------------------------------- the parts

def _as_chains(x: Any, name: str | None = None) -> np.ndarray:
    """Float array (chains, draws) of finite values."""
    label = "draws" if name is None else f"draws of {name!r}"
    x = np.asarray(x, dtype=np.float64)
    if x.ndim == 1:
        x = x[None, :]
    if x.ndim != 2 or x.shape[0] == 0:
        raise ValueError(f"{label} must have axes (chain, draw), got shape {x.shape}")
    if not np.isfinite(x).all():
        raise ValueError(f"{label} contain NaN or infinity")
    return x


def _defined(x: np.ndarray) -> bool:
    return x.shape[1] >= MIN_DRAWS and np.ptp(x) > ROUNDING * np.abs(x).max()


def _rescale(x: np.ndarray) -> np.ndarray:
    """Draws that vary, shifted and scaled to the order of one: squares neither overflow nor vanish."""
    x = x - x[0, 0]
    return x / np.abs(x).max()


def _sd(x: np.ndarray) -> float:
    """Standard deviation of draws whose squares may overflow."""
    scale = 2.0 ** math.frexp(np.abs(x).max())[1]
    return float(x.std(ddof=1)) if scale < 1e100 else float(scale * (x / scale).std(ddof=1))


def _split(x: np.ndarray) -> np.ndarray:
    """Halves of every chain as chains of their own; of an odd number of draws the middle one is left out."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, x.shape[1] - half :]])


def _rank_normal(x: np.ndarray) -> np.ndarray:
    """Normal scores of the ranks over all chains, ties averaged (Blom's offset 3/8)."""
    # not scipy.stats.rankdata: every fit looks at its diagnostics, and scipy.stats takes a second to import
    _, place, counts = np.unique(x, return_inverse=True, return_counts=True)
    rank = np.cumsum(counts) - (counts - 1) / 2.0
    return ndtri((rank[place].reshape(x.shape) - 0.375) / (x.size + 0.25))


def _autocovariance(x: np.ndarray) -> np.ndarray:
    """Lags 0 to draws - 1 by chain, divided by the number of draws; zero padding keeps ends apart."""
    n_draws = x.shape[1]
    length = next_fast_len(2 * n_draws, real=True)
    spectrum = rfft(x - x.mean(axis=1, keepdims=True), n=length, axis=1)
    return irfft(spectrum.real**2 + spectrum.imag**2, n=length, axis=1)[:, :n_draws] / n_draws


def _pooled_autocorrelation(x: np.ndarray) -> np.ndarray:
    """Autocorrelation over all chains; differences between chain means enter as correlation at every lag."""
    n_chains, n_draws = x.shape
    covariance = _autocovariance(x)
    within = covariance[:, 0].mean() * n_draws / (n_draws - 1)
    total = covariance[:, 0].mean()
    if n_chains > 1:
        total += x.mean(axis=1).var(ddof=1)
    rho = 1 - (within - covariance.mean(axis=0)) / total
    rho[0] = 1.0
    return rho


def _iact(x: np.ndarray) -> float:
    # Draws that vary can be constant once split (the middle one is left out) or turned into an indicator.
    if np.ptp(x) == 0:
        return np.nan
    n_draws = x.shape[1]
    rho = _pooled_autocorrelation(_rescale(x))
    n_pairs = max((n_draws - 1) // 2, 1)
    pairs = rho[0 : 2 * n_pairs : 2] + rho[1 : 2 * n_pairs : 2]
    # Initial positive sequence: the pairs before the first one that is not positive, or all but the last one
    # of a short series.
    stops = np.flatnonzero(pairs <= 0)
    n_kept = int(stops[0]) if stops.size else n_pairs - 1
    # Initial monotone sequence.  The even term next in line is counted once where it is positive: without it
    # draws that alternate are credited too much.
    tau = -1 + 2 * np.minimum.accumulate(pairs[:n_kept]).sum() + max(rho[2 * n_kept], 0.0)
    return float(max(tau, 1 / np.log10(x.size)))


def _ess(x: np.ndarray) -> float:
    return x.size / _iact(x)


def _ess_tail(x: np.ndarray) -> float:
    low, high = np.quantile(x, (0.05, 0.95))
    below = x <= high
    if below.all():
        # Discrete draws: the 95% quantile is their maximum.
        below = x < high
    lower, upper = (_ess(_split(indicator.astype(np.float64))) for indicator in (x <= low, below))
    return float(np.fmin(lower, upper))


def _rhat(x: np.ndarray) -> float:
    n_draws = x.shape[1]
    # By range: the variance of a constant chain is often not zero but a rounding error.
    if np.ptp(x, axis=1).max() == 0:
        return np.inf if np.ptp(x) > 0 else np.nan
    within = x.var(axis=1, ddof=1).mean()
    between = x.mean(axis=1).var(ddof=1)
    return float(np.sqrt((n_draws - 1) / n_draws + between / within))


def _row(x: np.ndarray) -> list[float]:
    """Values of one row in the order of `COLUMNS`."""
    if x.shape[1] == 0:
        return [np.nan] * len(COLUMNS)
    if np.ptp(x) == 0:
        return [float(x[0, 0])] + [np.nan] * (len(COLUMNS) - 1)
    low, high = np.quantile(x, (0.05, 0.95))
    return [x.mean(), _sd(x), low, high, ess(x), ess(x, "tail"), rhat(x), mcse(x), iact(x)]
