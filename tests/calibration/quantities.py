"""What is ranked: functions of data and state, computed alike for the truth and for draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, multigammaln

from calibration.simulators import Base, State, kernel


class Design(NamedTuple):
    """What of a data set is not random."""

    x: np.ndarray  # (G,) covariate of each group; one group in a mixture
    group: np.ndarray  # (n,)
    places: np.ndarray  # (P,) locations
    at_x: float  # where the density and the conditional mean are asked for
    at_y: np.ndarray  # (d,)


class Components(NamedTuple):
    """Normal-Wishart posteriors of the clusters and, last, the prior of a new one."""

    size: np.ndarray  # (K + 1,)
    m: np.ndarray  # (K + 1, d)
    scale: np.ndarray  # (K + 1, d, d)


def components(y: np.ndarray, labels: np.ndarray, base: Base) -> Components:
    z = y - base.m
    member = np.equal.outer(np.arange(labels.max() + 2), labels).astype(float)
    size, total = member.sum(axis=1), member @ z
    squares = np.einsum("ki,ia,ib->kab", member, z, z, optimize=True)
    shift = total / (base.r + size)[:, None]
    return Components(size, base.m + shift, base.scale + squares - np.einsum("ka,kb->kab", shift, total))


def log_likelihood(of: Components, base: Base) -> float:
    """log p(y | partition), the components integrated out."""
    d, n = len(base.m), of.size.sum()
    log_norm = [multigammaln((base.nu + size) / 2, d) for size in of.size] - (base.nu + of.size) / 2 * np.linalg.slogdet(of.scale)[1]
    log_norm = log_norm - d / 2 * np.log(base.r + of.size)
    return float((log_norm - log_norm[-1]).sum() - n * d / 2 * np.log(np.pi))


def log_predictives(of: Components, base: Base, y: np.ndarray) -> np.ndarray:
    """log density (K + 1,) of a new observation y: multivariate t."""
    d, r = len(base.m), base.r + of.size
    df = base.nu + of.size - d + 1
    shape = of.scale * ((r + 1) / (r * df))[:, None, None]
    gap = y - of.m
    square = np.einsum("ka,ka->k", gap, np.linalg.solve(shape, gap[..., None])[..., 0])
    constant = gammaln((df + d) / 2) - gammaln(df / 2) - d / 2 * np.log(df * np.pi) - np.linalg.slogdet(shape)[1] / 2
    return constant - (df + d) / 2 * np.log1p(square / df)


def weights(state: State, design: Design) -> np.ndarray:
    """Probabilities (K + 1,) given the state's v that an observation at x* falls into each cluster, or a new one.

    Not quite those of the predictive distribution, for which v is averaged over; any function of state and data may be ranked.
    """
    A = state.v @ kernel(design.x, design.places, state.width) if state.A is None else state.A
    at_x = kernel(np.array([design.at_x]), design.places, state.width)[0]
    place = state.location[np.unique(state.labels, return_index=True)[1]]
    joins = at_x[place] * (np.bincount(state.labels) - state.sigma) / (1.0 + A[place])
    new = state.mass / len(A) * (at_x * (1.0 + A) ** (state.sigma - 1.0)).sum()
    both = np.append(joins, new)
    return both / both.sum()


def quantities(y: np.ndarray, state: State, design: Design, base: Base, sampled: tuple[str, ...]) -> dict[str, float]:
    of = components(y, state.labels, base)
    share = weights(state, design)
    log_density = np.logaddexp.reduce(np.log(np.maximum(share, 1e-300)) + log_predictives(of, base, design.at_y))
    found = {name: getattr(state, name) for name in sampled}
    found |= {"clusters": state.labels.max() + 1, "log likelihood": log_likelihood(of, base), "log density at a point": log_density}
    if state.scale is not None:
        found |= {f"scale of y{j + 1}": value for j, value in enumerate(state.scale)}
    if np.isfinite(state.width):
        found["mean at a point"] = float(share @ of.m[:, 0])
    return found
