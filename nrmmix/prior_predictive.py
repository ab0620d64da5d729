"""What the prior says before any fit: the number of clusters, data sets, and the mass for a number of clusters one expects."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import repeat
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.polynomial import chebyshev
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import brentq
from scipy.special import gamma, gammaln, poch

from nrmmix.compiling import announced
from nrmmix.kernels.clusters import empty_column
from nrmmix.kernels.held import redraw
from nrmmix.kernels.predictive import draw_new
from nrmmix.kernels.prior import log_integrals, next_ratios, seat
from nrmmix.kernels.state import FIXED, GAMMA, TINY
from nrmmix.priors import Beta, Hyperparameter, Hyperprior, hyper_row
from nrmmix.replay import Replicates, known, parts
from nrmmix.sampling import count, seed_sequence
from nrmmix.tables import shown

if TYPE_CHECKING:
    from nrmmix.model import Model

TAIL = 1e-9  # probability of more clusters than are listed
COLUMNS = 256  # numbers of clusters worked on at once
FEW, NODES = 32, 24  # integrals computed one by one, and those of many of which the others follow
MAX_WORK = 1e10  # rows times clusters
MAX_WORK_EACH = 2e8  # likewise, for each of the many values of a sigma with a prior
AGREEMENT = 1e-6  # of the laws by two rules over sigma, as a sum of absolute differences
PARTITIONS = 2000  # drawn where the law of the number of clusters has no closed form
TRIES = 1000  # at widths with which every row is in reach of a location
SIGMA_MAX = 1.0 - 1e-12
MAX_N = 10**9  # of `mass_for_clusters`
LOG_MASS = (-80.0, 80.0)  # between which it searches


# ---- the number of clusters


def n_clusters(model: Model) -> pd.Series:
    """Prior distribution of the number of clusters among the rows of a model.

    Mixtures: exact up to quadrature, with hyperparameters that have a prior integrated out; the probabilities sum to 1 within 1e-8.
    Numbers of clusters at the upper end that have probability 1e-9 together are left out.  Density regression: no closed form is
    known, and the probabilities are frequencies in 2,000 partitions drawn from the prior with a fixed seed, so that their standard
    error is at most 0.011.

    Parameters
    ----------
    model : Model

    Returns
    -------
    Series
        Name `probability`, index `n_clusters` from 1.

    Raises
    ------
    ValueError
        If rows times clusters exceed 1e10, or 2e8 where sigma has a prior: a million rows of a Dirichlet process with 5,000 clusters
        are possible, 10,000 rows of any prior are.

    Notes
    -----
    For given hyperparameters the law is that of Antoniak (1974) for the Dirichlet process, and of Lijoi, Mena & Prünster (2007) for
    the normalised generalised gamma process.  Ratios of neighbouring generalised factorial coefficients follow from a recursion of
    positive terms, in which nothing cancels or overflows; the integral over the auxiliary variable u (James, Lijoi & Prünster 2009)
    and the mass is by the trapezoid, that over sigma by Gauss-Jacobi rules of increasing order until two agree within 1e-6.

    Examples
    --------
    >>> import nrmmix as nm
    >>> model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy(), prior=nm.DirichletProcess(1.0))
    >>> n_clusters(model).round(3).head(3)
    n_clusters
    1    0.012
    2    0.061
    3    0.141
    Name: probability, dtype: float64
    """
    with announced():
        if model.is_regression:
            drawn = [len(locations) for _, locations, _ in _partitions(model, PARTITIONS, np.random.SeedSequence(0))]
            law = np.bincount(drawn)[1:] / PARTITIONS
        else:
            law = cluster_law(model.n_obs, model.prior.mass, model.prior.sigma, model.prior.tau)
    return pd.Series(law, index=pd.RangeIndex(1, len(law) + 1, name="n_clusters"), name="probability")


def cluster_law(n: int, mass: Hyperparameter, sigma: Hyperparameter, tau: float = 1.0) -> np.ndarray:
    """P(K = 1), P(K = 2), ... of the number of clusters among n observations; see `n_clusters`.

    Examples
    --------
    >>> cluster_law(3, 1.0, 0.0).round(6)  # |s(3, k)| / 3!
    array([0.333333, 0.5     , 0.166667])
    """
    if isinstance(sigma, Beta):
        law = np.zeros(0)
        for size in (16, 32, 64, 128, 256, 512):  # 512 agree with 1,024 within 1e-10 at the most rows possible
            before, law = law, np.zeros(n)
            # the largest sigma, whose law has most terms, comes first: what is too much is refused at once
            for value, weight in zip(*_beta_rule(sigma, size), strict=True):
                part = _law(n, _mass_row(mass, value, tau), value, MAX_WORK_EACH)
                law[: len(part)] += weight * part
            if len(before) and np.abs(law - before).sum() < AGREEMENT:
                break
    else:
        law = _law(n, _mass_row(mass, sigma, tau), sigma, MAX_WORK)
    beyond = np.cumsum(law[::-1])[::-1]
    return law[: max(1, np.count_nonzero(beyond > TAIL))]


def _law(n: int, mass: np.ndarray, sigma: float, max_work: float) -> np.ndarray:
    """P(K = k) for k = 1, 2, ... until what is left is less than TAIL; tau is 1."""
    log_factorial = -gammaln(1.0 - sigma) - math.log(poch(n - sigma, sigma))  # log S(n, k) / Gamma(n)
    law: list[np.ndarray] = []
    first, total, mode = 1, 0.0, 0.0
    while first <= n and total < 1.0 - TAIL:
        width = min(max(FEW, first - 1), COLUMNS, n + 1 - first)
        last = first + width - 1
        if n * float(last) > max_work:
            raise ValueError(
                f"the law of the number of clusters is out of reach: {n} rows times {last} clusters or more, where the limit is "
                f"{max_work:.3g}.  Take fewer rows, or a prior with fewer clusters or with a fixed sigma; nm.mass_for_clusters has no such "
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
        integral, mode = _log_integrals(n, first, width, mass, sigma, mode)
        law.append(np.exp(log_S + integral))
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
    if width <= FEW:
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


def _mass_row(mass: Hyperparameter, sigma: float, tau: float) -> np.ndarray:
    """The hyperprior of mass tau^sigma, which is the mass at tau = 1."""
    factor = tau**sigma
    if not isinstance(mass, Hyperprior):
        return np.array([FIXED, mass * factor, 0.0])
    kind, a, b = hyper_row(mass)
    return np.array([kind, a, b / factor] if kind == GAMMA else [kind, a + math.log(factor), b])


def _beta_rule(prior: Beta, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Jacobi nodes in decreasing order, and weights that sum to 1 (Golub & Welsch 1969)."""
    p, q = prior.b - 1.0, prior.a - 1.0  # exponents of 1 - x and 1 + x on (-1, 1)
    k = np.arange(1.0, size)
    s = 2.0 * k + p + q
    diagonal = np.concatenate([[(q - p) / (p + q + 2.0)], (q - p) * (q + p) / (s * (s + 2.0))])
    square = 4.0 * k * (k + p) * (k + q) * (k + p + q) / (s * s * (s + 1.0) * np.where(k > 1, s - 1.0, 1.0))
    square[0] = 4.0 * (1.0 + p) * (1.0 + q) / ((p + q + 2.0) ** 2 * (p + q + 3.0))  # where the general form can be 0 / 0
    x, vectors = eigh_tridiagonal(diagonal, np.sqrt(square))
    return np.clip(0.5 * (1.0 + x), 0.0, SIGMA_MAX)[::-1], vectors[0, ::-1] ** 2


# ---- data sets


def simulate(model: Model, draws: int = 100, rng: Any = None) -> pd.DataFrame:
    """Data sets from the prior predictive distribution.

    Each is drawn anew from the top: hyperparameters from their priors, the partition of the rows (in density regression with the
    locations of its clusters), the parameters of each cluster from the family's prior, and a response for every row.  Nothing is
    truncated: see Notes.  A covariate kernel's widths are redrawn while they leave a row out of reach of every location, as at
    such widths the model gives that row no density.

    Parameters
    ----------
    model : Model
    draws : int, default 100
        Number of data sets.
    rng : int, SeedSequence, Generator or None
        Seed; None draws one.

    Returns
    -------
    DataFrame
        One column a response, as `MCMCResult.simulate` has them; the index is that of the rows used with a level `draw` added, data sets
        one after the other.  Counts given their total have the totals of the data.

    Raises
    ------
    ValueError
        If an argument is out of range, or hardly any width from the prior has all rows in reach of a location.

    Notes
    -----
    Rows are seated one after the other by the marginal law of the partition, with one auxiliary variable for each group of covariates,
    that of James, Lijoi & Prünster (2009): arrivals at the atoms of a completely random measure are Poisson, those of group g with
    rates K(x_g, mu_m) w_m, and with the weights w_m integrated out the next arrival at each cluster, and at a new atom at each
    location, can be drawn by inversion.  In density regression this is the kernel-weighted measure of Foti & Williamson (2012).

    Examples
    --------
    >>> import nrmmix as nm
    >>> model = nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle())
    >>> replicates = simulate(model, draws=3, rng=1)
    >>> replicates.shape, list(replicates.columns), replicates.index.names[-1]
    ((399, 1), ['accel_g'], 'draw')
    """
    size, seed = count("draws", draws, 1), seed_sequence(rng)
    data, state = model.arrays(1)
    out, totals = Replicates(size, model.frame.index, model), model.blocks.totals(model.frame.response)
    ok = np.flatnonzero(np.broadcast_to(known(totals), model.n_obs))
    with announced():
        for draw, (labels, locations, generator) in enumerate(_partitions(model, size, seed)):
            if len(data.shared):
                redraw(data, state, generator)  # without clusters: from the prior
            empty_column(data, state.stat, 0)
            theta = draw_new(data, state, model.packed.n_theta, len(locations), generator)
            for part in parts(len(ok), 8 * (2 * model.packed.n_theta + model.n_dim)):
                rows = ok[part]
                own = [None if total is None else total[rows] for total in totals]
                out.put(draw, rows, model.blocks.draw_responses(
                    theta[:, labels[rows]], model.frame.inputs[rows], generator, model.packed, own
                ))
    return out.table()


def _partitions(
    model: Model, size: int, seed: np.random.SeedSequence
) -> Iterator[tuple[np.ndarray, np.ndarray, np.random.Generator]]:
    """Partitions from the prior: labels, locations of the clusters, and the generator that goes on with each."""
    of_measure, of_widths, of_each = seed.spawn(3)
    rng = np.random.default_rng(of_measure)
    masses = _drawn(model.prior.mass, size, rng)
    sigmas = np.minimum(_drawn(model.prior.sigma, size, rng), SIGMA_MAX)
    group = model.grid.group if model.is_regression else np.zeros(model.n_obs, np.int64)
    reaches = _reaches(model, np.random.default_rng(of_widths))
    for mass, sigma, log_K, child in zip(masses, sigmas, reaches, of_each.spawn(size), strict=False):
        generator = np.random.default_rng(child)
        yield *seat(log_K, group, mass, sigma, model.prior.tau, generator), generator


def _reaches(model: Model, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """log K (G, P) of the covariate kernel at widths from their priors, without end."""
    if not model.is_regression:
        yield from repeat(np.zeros((1, 1)))
    kernel, distance = model.kernel, model.grid.distance
    if not any(name in model.sampled for name in model.width_names):
        yield from repeat(kernel.log_kernel(distance, model.start_widths()))
    tries = 0
    while True:
        for width in np.stack([_drawn(value, TRIES, rng) for value in kernel.widths], axis=1):
            log_K = kernel.log_kernel(distance, np.resize(width, len(distance)))  # a shared width is that of all covariates
            out = ~np.isfinite(log_K).any(axis=1)
            tries = tries + 1 if out.any() else 0
            if not tries:
                yield log_K
            elif tries == TRIES:
                row = int(np.flatnonzero(out[model.grid.group])[0])
                raise ValueError(
                    f"row {model.frame.index[row]!r} is out of reach of every location at width {width.tolist()}, and in {TRIES} draws "
                    f"of the width of {kernel} no one had all rows in reach; use a prior of wider kernels, or add locations."
                )


def _drawn(value: Hyperparameter, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draws of a hyperparameter; what underflows is the smallest positive number."""
    if not isinstance(value, Hyperprior):
        return np.full(size, value)
    return np.maximum(value.distribution.rvs(size, random_state=rng), TINY)


# ---- the mass for a number of clusters


def mass_for_clusters(expected: float, n: int, sigma: float = 0.0) -> float:
    """Mass at which the prior expects so many clusters among n observations of a mixture.

    Parameters
    ----------
    expected : float
        Number of clusters, between 1 and n.  For sigma > 0 it must exceed that of the normalised stable process, to which the measure
        tends as the mass goes to 0: Gamma(n + sigma) / (Gamma(n) Gamma(1 + sigma)).
    n : int
        Number of observations, at least 2 and at most 10^9.
    sigma : float in [0, 1), default 0.0
        Stability index: 0 is the Dirichlet process, else the normalised generalised gamma process with tau = 1.

    Returns
    -------
    float
        For `DirichletProcess(mass)` or `NGGP(mass, sigma)`.

    Raises
    ------
    ValueError
        If an argument is out of range; the message says which numbers of clusters are possible.

    Notes
    -----
    For the Dirichlet process the expected number is mass (digamma(mass + n) - digamma(mass)) (Antoniak 1974).

    Examples
    --------
    >>> round(mass_for_clusters(5, n=100), 4)
    0.9476
    >>> round(mass_for_clusters(20, n=100, sigma=0.5), 4)
    0.8055
    """
    n = count("n", n, 2)
    if n > MAX_N:
        raise ValueError(f"n must be at most {MAX_N:.0e}, not {n}.")
    if isinstance(sigma, bool) or not isinstance(sigma, Real) or not 0 <= sigma < 1:
        raise ValueError(f"sigma must be a number in [0, 1), not {sigma!r}.")
    least = float(poch(n, sigma) / gamma(1.0 + sigma))
    if isinstance(expected, bool) or not isinstance(expected, Real) or not least < expected < n:
        why = f" at sigma = {sigma:g}" if sigma > 0 else ""
        raise ValueError(
            f"expected must be greater than {least:.6g} and less than n = {n}{why}, not {shown(expected)}; "
            f"the number of clusters is at least {least:.6g} on average, whatever the mass."
        )

    def excess(log_mass: float) -> float:
        return expected_clusters(n, math.exp(log_mass), float(sigma)) - expected

    lo, hi = LOG_MASS
    if excess(lo) >= 0 or excess(hi) <= 0:
        limit = least if excess(lo) >= 0 else n
        raise ValueError(f"expected = {shown(expected)} is too near to {limit:.6g}, the limit, to be told from it.")
    return math.exp(brentq(excess, lo, hi, xtol=1e-12))


def expected_clusters(n: int, mass: float, sigma: float) -> float:
    """E[K] among n observations at tau = 1.

    E[(1 - (1 - P)^n) / P], P the weight of the atom that an observation falls on: P = B u / (u + 1), where psi(u) has the exponential
    distribution with mean 1 and B is Beta(1 - sigma, sigma), or 1 at sigma = 0.  Trapezoids in log psi(u), and in t where
    logit B = sinh t.

    Examples
    --------
    >>> round(expected_clusters(3, 1.0, 0.0), 6)  # 1 + 1/2 + 1/3
    1.833333
    """
    y = np.arange(math.log(1e-17 / n), 4.0, 0.2)
    s = np.exp(y)
    weight = 0.2 * np.exp(y - s)
    growth = s / mass if sigma == 0.0 else np.log1p(sigma * s / mass) / sigma  # log(u + 1)
    share = -np.expm1(-growth)
    if sigma == 0.0:
        return float(weight @ (-np.expm1(-n * growth) / share))
    t = np.arange(-math.asinh((40.0 + math.log(n)) / (1.0 - sigma)), math.asinh(40.0 / sigma), 0.02)
    log_b = -np.logaddexp(0.0, -np.sinh(t))
    beta = 0.02 * np.cosh(t) * np.exp((1.0 - sigma) * log_b - sigma * np.logaddexp(0.0, np.sinh(t))) * math.sin(math.pi * sigma) / math.pi
    p = np.maximum(np.multiply.outer(share, np.exp(log_b)), 1e-290)
    with np.errstate(divide="ignore"):  # p = 1
        return float(weight @ (-np.expm1(n * np.log1p(-p)) / p) @ beta)
