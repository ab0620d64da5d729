"""The prior law of the number of clusters of a mixture."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from numpy.polynomial import chebyshev
from scipy.linalg import eigh_tridiagonal
from scipy.special import betaln, gammaln, logsumexp, poch

from nrmmix.kernels.core.state import FIXED, GAMMA
from nrmmix.kernels.measure.prior import log_integrals, next_ratios
from nrmmix.model.priors.hyperpriors import Beta, Hyperparameter, Hyperprior, fixed, hyper_row

TAIL = 1e-9  # probability of more clusters than are listed
COLUMNS = 256  # numbers of clusters worked on at once
MAX_SEPARATE, NODES = 32, 24  # integrals computed one by one, and those of many of which the others follow
MAX_WORK = 1e10  # rows times clusters
MAX_WORK_EACH = 2e8  # likewise, for each of the many values of a sigma with a prior
AGREEMENT = 1e-6  # of the laws by two rules over sigma, as a sum of absolute differences
MASS_AGREEMENT = 1e-9  # likewise over the mass
SIGMA_MAX = 1.0 - 1e-12


def cluster_law(n: int, mass: Hyperparameter, sigma: Hyperparameter, tau: float = 1.0) -> np.ndarray:
    """P(K = 1), P(K = 2), ... of the number of clusters among n observations, for a normalised generalised gamma process.

    Examples
    --------
    >>> cluster_law(3, 1.0, 0.0).round(6)  # |s(3, k)| / 3!
    array([0.333333, 0.5     , 0.166667])
    """

    def given(value: float, max_work: float) -> np.ndarray:
        return _law(n, value, max_work, _Integrals(n, mass_row(mass, value, tau), value))

    return _shown(_over_sigma(n, sigma, given))


def pitman_yor_law(n: int, mass: Hyperparameter, sigma: Hyperparameter) -> np.ndarray:
    """Return the law of K for a Pitman-Yor process; at mass 0 for a normalised stable process."""

    def given(value: float, max_work: float) -> np.ndarray:
        return _over_mass(mass, lambda theta, weight: _law(n, value, max_work, _rising(n, theta, weight, sigma=value)))

    return _shown(_over_sigma(n, sigma, given))


def finite_law(n: int, mass: Hyperparameter, components: int) -> np.ndarray:
    """Return the law of K for a mixture of so many components.

    Examples
    --------
    >>> finite_law(3, 2.0, 2).round(6)  # uniform weights
    array([0.5, 0.5])
    """
    return _shown(_over_mass(mass, lambda theta, weight: _finite(n, components, theta, weight)))


def table_law(n: int, sigma: float, log_V: np.ndarray) -> np.ndarray:
    """Return the law of K for log V_n(k) at index k."""
    table = log_V + gammaln(n)
    return _shown(_law(n, sigma, MAX_WORK, lambda first, width: table[first : first + width]))


def _shown(law: np.ndarray) -> np.ndarray:
    """Without the upper end that has probability TAIL."""
    beyond = np.cumsum(law[::-1])[::-1]
    return law[: max(1, np.count_nonzero(beyond > TAIL))]


def _over_sigma(n: int, sigma: Hyperparameter, law_at: Callable[[float, float], np.ndarray]) -> np.ndarray:
    """A law integrated over sigma, of rules of increasing order until two agree: `law_at` has a value and the most work for it."""
    if not isinstance(sigma, Beta):
        return law_at(fixed(sigma), MAX_WORK)
    law = np.zeros(0)
    for size in (16, 32, 64, 128, 256, 512):  # 512 agree with 1,024 within 1e-10 at the most rows possible
        before, law = law, np.zeros(n)
        # the largest sigma, whose law has most terms, comes first: what is too much is refused at once
        for value, weight in zip(*beta_rule(sigma, size), strict=True):
            part = law_at(value, MAX_WORK_EACH)
            law[: len(part)] += weight * part
        if len(before) and np.abs(law - before).sum() < AGREEMENT:
            break
    return law


def _over_mass(mass: Hyperparameter, law_at: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    """A law integrated over the mass: `law_at` has nodes and weights, of rules of increasing order until two agree."""
    if not isinstance(mass, Hyperprior):
        return law_at(np.array([mass]), np.ones(1))
    law = np.zeros(0)
    for size in (33, 65, 129, 257, 513, 1025, 2049):
        before, law = law, law_at(*mass_rule(mass, size))
        if len(before) and np.abs(_mixed([law, -before])).sum() < MASS_AGREEMENT:
            break
    return law


def _mixed(laws: Iterable[np.ndarray]) -> np.ndarray:
    """Sum of laws of different lengths."""
    laws = list(laws)
    total = np.zeros(max(map(len, laws)))
    for law in laws:
        total[: len(law)] += law
    return total


def mass_rule(mass: Hyperprior, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights, which sum to 1, of the trapezoid in t where log mass = centre + scale sinh t."""
    kind, a, b = hyper_row(mass)
    centre, scale = (math.log(a / b), 1.0 / math.sqrt(a)) if kind == GAMMA else (a, b)

    def log_density(t: np.ndarray) -> np.ndarray:
        x = scale * np.sinh(t)  # log mass - centre
        density = a * (x - np.expm1(np.minimum(x, 700.0))) if kind == GAMMA else -0.5 * np.sinh(t) ** 2
        return density + np.log(np.cosh(t))

    coarse = np.linspace(-12.0, 12.0, 2401)
    inside = coarse[log_density(coarse) > -45.0]
    t = np.linspace(inside[0], inside[-1], size)
    weight = np.exp(log_density(t))
    return np.exp(np.clip(centre + scale * np.sinh(t), -700.0, 700.0)), weight / weight.sum()


def _finite(n: int, components: int, theta: np.ndarray, weight: np.ndarray) -> np.ndarray:
    max_work = MAX_WORK_EACH if len(theta) > 1 else MAX_WORK
    laws = (_law(n, -mass / components, max_work, _rising(n, np.array([mass]), np.ones(1), components)) for mass in theta)
    return _mixed(law * share for law, share in zip(laws, weight, strict=True))


def _rising(n: int, theta: np.ndarray, weight: np.ndarray, components: int = 0, sigma: float = 0.0) -> Callable[[int, int], np.ndarray]:
    """log of Gamma(n) E[prod_(0 < j < k) (theta + sigma j)] / (theta + 1)_(n - 1) for k = first, ..., first + width - 1, block after block.

    For a finite mixture the factors are theta (1 - j / M).
    """
    # (theta + 1)_(n - 1) by the beta function, in which nothing cancels
    log_total = np.log(weight) + (betaln(theta + 1.0, n - 1.0) + math.log(n - 1.0) if n > 1 else 0.0)

    def block(first: int, width: int) -> np.ndarray:
        nonlocal log_total
        j = np.arange(first - 1, first + width - 1)
        if components:
            factor = np.outer(theta, np.maximum(components - j, 0) / components)
        else:
            factor = theta[:, None] + sigma * j
        with np.errstate(divide="ignore"):
            steps = np.log(np.where(j > 0, factor, 1.0))
        logs = log_total[:, None] + np.cumsum(steps, axis=1)
        log_total = logs[:, -1]
        return logsumexp(logs, axis=0)

    return block


class _Integrals:
    """Integrals of a generalised gamma process: E[integral over u], block after block."""

    def __init__(self, n: int, mass: np.ndarray, sigma: float):
        self.n, self.mass, self.sigma, self.mode = n, mass, sigma, 0.0

    def __call__(self, first: int, width: int) -> np.ndarray:
        integral, self.mode = _log_integrals(self.n, first, width, self.mass, self.sigma, self.mode)
        return integral


def _law(n: int, sigma: float, max_work: float, log_weights: Callable[[int, int], np.ndarray]) -> np.ndarray:
    """P(K = k) = S(n, k) / Gamma(n) exp(log_weights) for k = 1, 2, ... until what is left is less than TAIL.

    `log_weights(first, width)` is called for one block of k after the other.
    """
    # log S(n, 1) / Gamma(n)
    if sigma < 0.0:
        log_factorial = -math.log(n - 1.0) - betaln(1.0 - sigma, n - 1.0) if n > 1 else 0.0
    else:
        log_factorial = -gammaln(1.0 - sigma) - math.log(poch(n - sigma, sigma))
    law: list[np.ndarray] = []
    first, total = 1, 0.0
    while first <= n and total < 1.0 - TAIL:
        width = min(max(MAX_SEPARATE, first - 1), COLUMNS, n + 1 - first)
        last = first + width - 1
        if n * float(last) > max_work:
            raise ValueError(
                f"the law of the number of clusters is out of reach: {n} rows times {last} clusters or more, where the limit is "
                f"{max_work:.3g}. Take fewer rows, or a prior with fewer clusters or with a fixed sigma; nm.mass_for_clusters has no such "
                "limit."
            )
        ratio = np.ones(width)
        new = ratio
        if first == 1:  # S(n, 1) is there from the start
            new, edge = ratio[1:], np.zeros(n)
            edge[1:] = 1.0 / (np.arange(1, n) - sigma)
        if len(new):
            next_ratios(n, sigma, max(first, 2), edge, new, np.empty_like(new), np.empty_like(new))
        log_S = log_factorial + np.cumsum(np.log(ratio))
        law.append(np.exp(log_S + log_weights(first, width)))
        total += law[-1].sum()
        log_factorial = log_S[-1]
        first = last + 1
    return np.concatenate(law)


def _log_integrals(n: int, first: int, width: int, mass: np.ndarray, sigma: float, mode: float) -> tuple[np.ndarray, float]:
    """Logs of the integrals for k = first, ..., first + width - 1, and where the last has its mode.

    They are smooth in log k: of many, those at Chebyshev nodes are computed and the others interpolated, where the coefficients
    say that this is exact; else both halves are done likewise.
    """
    k = np.arange(first, first + width, dtype=float)
    if width <= MAX_SEPARATE:
        out = np.empty(width)
        return out, log_integrals(float(n), k, mass, sigma, mode, out)
    lo, hi = math.log(k[0]), math.log(k[-1])
    x = chebyshev.chebpts2(NODES)
    values = np.empty(NODES)
    last = log_integrals(float(n), np.exp(lo + 0.5 * (hi - lo) * (x + 1.0)), mass, sigma, mode, values)
    coefficients = chebyshev.chebfit(x, values, NODES - 1)
    if np.abs(coefficients[-3:]).max() > 1e-10 + 1e-14 * np.abs(values).max():
        half = width // 2
        below, mode = _log_integrals(n, first, half, mass, sigma, mode)
        above, mode = _log_integrals(n, first + half, width - half, mass, sigma, mode)
        return np.concatenate([below, above]), mode
    return chebyshev.chebval(2.0 * (np.log(k) - lo) / (hi - lo) - 1.0, coefficients), last


def mass_row(mass: Hyperparameter, sigma: float, tau: float) -> np.ndarray:
    """The hyperprior of mass tau^sigma, which is the mass at tau = 1."""
    factor = tau**sigma
    if not isinstance(mass, Hyperprior):
        return np.array([FIXED, mass * factor, 0.0])
    kind, a, b = hyper_row(mass)
    return np.array([kind, a, b / factor] if kind == GAMMA else [kind, a + math.log(factor), b])


def beta_rule(prior: Beta, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Jacobi nodes in decreasing order, and weights that sum to 1 (Golub & Welsch 1969)."""
    p, q = prior.b - 1.0, prior.a - 1.0  # exponents of 1 - x and 1 + x on (-1, 1)
    k = np.arange(1.0, size)
    s = 2.0 * k + p + q
    diagonal = np.concatenate([[(q - p) / (p + q + 2.0)], (q - p) * (q + p) / (s * (s + 2.0))])
    square = 4.0 * k * (k + p) * (k + q) * (k + p + q) / (s * s * (s + 1.0) * np.where(k > 1, s - 1.0, 1.0))
    square[0] = 4.0 * (1.0 + p) * (1.0 + q) / ((p + q + 2.0) ** 2 * (p + q + 3.0))  # where the general form can be 0 / 0
    x, vectors = eigh_tridiagonal(diagonal, np.sqrt(square))
    return np.clip(0.5 * (1.0 + x), 0.0, SIGMA_MAX)[::-1], vectors[0, ::-1] ** 2
