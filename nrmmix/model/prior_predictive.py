"""Prior before any fit: the number of clusters, data sets, and the mass for a number of clusters one expects."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import gamma, poch

from nrmmix.common.compiling import announced
from nrmmix.common.messages import count, guided, number, shown
from nrmmix.common.seeds import seed_sequence
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.clusters import empty_column
from nrmmix.kernels.core.state import TINY
from nrmmix.kernels.families.shared_parameters import redraw_shared
from nrmmix.kernels.measure.prior import seat, seat_finite
from nrmmix.kernels.predictive import draw_components
from nrmmix.model.frame.labels import canonical
from nrmmix.model.pack import arrays_of
from nrmmix.model.priors.expected import expected_clusters
from nrmmix.model.priors.hyperpriors import Hyperparameter, Hyperprior
from nrmmix.model.priors.n_clusters import MAX_WORK, SIGMA_MAX
from nrmmix.model.replicates import Replicates, known, parts
from nrmmix.model.specification import Specification

PARTITIONS = 2000  # drawn where the law of the number of clusters has no closed form
TRIES = 1000  # at widths with which every row is in reach of a location
MAX_N = 10**9  # of `mass_for_clusters`
LOG_MASS = (-80.0, 80.0)  # between which it searches


# ---- the number of clusters

def n_clusters(model: Specification) -> pd.Series:
    """Prior distribution of the number of clusters among the rows of a model.

    Mixtures: exact up to quadrature, with hyperparameters that have a prior integrated out; the probabilities sum to 1 within 1e-8.
    Numbers of clusters at the upper end that have probability 1e-9 together are left out.  Density regression: no closed form is
    known, and the probabilities are frequencies in 2,000 partitions drawn from the prior with a fixed seed, so that their standard
    error is at most 0.011.

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
    For given hyperparameters the law is that of Antoniak (1974) for the Dirichlet process, of Lijoi, Mena & Prünster (2007) for
    the normalised generalised gamma process, and of Gnedin & Pitman (2006) for the others.  Ratios of neighbouring generalised factorial
    coefficients follow from a recursion of positive terms, in which nothing cancels or overflows; integrals over the auxiliary variable
    u (James, Lijoi & Prünster 2009) and the mass are by the trapezoid, those over sigma by Gauss-Jacobi rules of increasing order
    until two agree within 1e-6.

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
            work = float(PARTITIONS) * model.n_obs * max(1, model.prior.components)
            if work > MAX_WORK:
                raise ValueError(
                    f"the law of the number of clusters is out of reach: {PARTITIONS} simulated partitions of {model.n_obs} rows among "
                    f"{model.prior.components} components; take fewer components."
                )
            drawn = [len(locations) for _, locations, _ in simulate_partitions(model, PARTITIONS, np.random.SeedSequence(0))]
            law = np.bincount(drawn)[1:] / PARTITIONS
        else:
            law = model.prior.law_of_n_clusters(model.n_obs)
    return pd.Series(law, index=pd.RangeIndex(1, len(law) + 1, name="n_clusters"), name="probability")


# ---- data sets

def simulate(model: Specification, draws: int = 100, rng: Any = None) -> pd.DataFrame:
    """Data sets from the prior predictive distribution.

    Each is drawn anew from the top: hyperparameters from their priors, the partition of the rows (in density regression with the
    locations of its clusters), the parameters of each cluster from the family's prior, and a response for every row.  Nothing is
    truncated: see Notes.  A covariate kernel's widths are redrawn while they leave a row out of reach of every location, as at
    such widths the model gives that row no density.

    Parameters
    ----------
    model : Specification
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
    The mass of a kernel-weighted Pitman-Yor process comes from its gamma distribution.  In mixtures by a Pitman-Yor or stable process,
    finite or of Gibbs type each row joins a cluster with its predictive probability.  A finite kernel-weighted measure has its atoms
    drawn, again while they leave a row out of their reach, as at such atoms the model gives that row no density.

    Examples
    --------
    >>> import nrmmix as nm
    >>> model = nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle())
    >>> replicates = simulate(model, draws=3, rng=1)
    >>> replicates.shape, list(replicates.columns), replicates.index.names[-1]
    ((399, 1), ['accel_g'], 'draw')
    """
    if model.frame.is_streamed:
        raise ValueError("prior predictive data have as many rows as the data, which are not in memory; give a table of some of them.")
    size, seed = count("draws", draws, 1), seed_sequence(rng)
    data, state = arrays_of(model, 1, entries=(*layout.OF_COLUMNS, layout.Block.SAMPLE), moves=False)
    out, totals = Replicates(size, model.frame.index, model), model.blocks.totals(model.frame.response)
    ok = np.flatnonzero(np.broadcast_to(known(totals), model.n_obs))
    with announced():
        for draw, (labels, locations, generator) in enumerate(simulate_partitions(model, size, seed)):
            if len(data.shared):
                redraw_shared(data, state, generator)  # without clusters: from the prior
            empty_column(data, state.stat, 0)
            theta = draw_components(data, state, model.packed.n_theta, 0, len(locations), generator)
            for part in parts(len(ok), 8 * (2 * model.packed.n_theta + model.n_dim)):
                rows = ok[part]
                own = [None if total is None else total[rows] for total in totals]
                out.put(draw, rows, model.blocks.draw_responses(
                    theta[:, labels[rows]], model.frame.inputs[rows], generator, model.packed, own
                ))
    return out.table()


def simulate_partitions(
    model: Specification, size: int, seed: np.random.SeedSequence
) -> Iterator[tuple[np.ndarray, np.ndarray, np.random.Generator]]:
    """Partitions from the prior: labels, locations of the clusters, and the generator that goes on with each."""
    of_measure, of_widths, of_each = seed.spawn(3)
    rng = np.random.default_rng(of_measure)
    prior = model.prior
    masses = _drawn(prior.mass, size, rng)
    sigmas = np.minimum(_drawn(prior.sigma, size, rng), SIGMA_MAX)
    children = of_each.spawn(size)
    if not model.is_regression and prior.integrates_mass:
        generators = [np.random.default_rng(child) for child in children]
        for labels, generator in zip(prior.seat_rows(model.n_obs, masses, sigmas, generators), generators, strict=True):
            yield labels, np.zeros(labels.max() + 1, np.int64), generator
        return
    group = np.zeros(model.n_obs, np.int64) if model.grid is None else model.grid.group
    R0 = np.ones(1) if model.grid is None else model.grid.weights
    reaches = _reaches(model, np.random.default_rng(of_widths))
    for mass, sigma, log_K, child in zip(masses, sigmas, reaches, children, strict=False):
        generator = np.random.default_rng(child)
        if prior.components:
            yield *_finite_partition(model, log_K, R0, group, mass, generator), generator
            continue
        mass, sigma = prior.kernel_values(prior.draw_mass(mass, sigma, generator), sigma)
        yield *seat(log_K, R0, group, mass, sigma, prior.tau, generator), generator


def _finite_partition(
    model: Specification, log_K: np.ndarray, R0: np.ndarray, group: np.ndarray, mass: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Labels and locations of the clusters by a finite kernel-weighted measure."""
    M, P = model.prior.components, len(R0)
    shape = mass / M
    for _ in range(TRIES):
        place = rng.choice(P, size=M, p=R0)
        out = ~np.isfinite(log_K[:, np.bincount(place, minlength=P) > 0]).any(axis=1)
        if not out.any():
            break
    else:
        row = int(np.flatnonzero(out[group])[0])
        raise ValueError(
            f"row {model.frame.index[row]!r} is out of reach of all {M} atoms, and in {TRIES} draws of the atoms of {model.prior} no one "
            f"had all rows in reach; use more components or a wider kernel than {model.kernel}."
        )
    # Gamma(shape) is Gamma(shape + 1) U^(1/shape), in logarithms for where it underflows
    log_size = np.log(rng.standard_gamma(shape + 1.0, M)) + np.log1p(-rng.random(M)) / shape
    atom = np.empty(len(group), np.int64)
    seat_finite(log_K, group, place, log_size, rng, atom)
    labels, _ = canonical(atom)
    return labels, place[atom[np.unique(labels, return_index=True)[1]]]


def _reaches(model: Specification, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """log K (G, P) of the covariate kernel at widths from their priors, without end."""
    if not model.is_regression:
        yield from repeat(np.zeros((1, 1)))
    if (slots := model.slots) is not None:
        while True:
            yield slots.log_K_of(slots.code_log_K, slots.draw_codes(slots.draw_inclusion(rng), rng))
    assert model.grid is not None
    distance = model.grid.distance
    if not any(name in model.sampled for name in model.width_names):
        yield from repeat(model.log_kernel(distance, model.start_widths()))
    tries = 0
    while True:
        recorded = [model.widths[j] for j in model.width_columns.values()]
        for width in np.stack([_drawn(value, TRIES, rng) for value in recorded], axis=1):
            log_K = model.log_kernel(distance, model.widths_of(width))
            out = ~np.isfinite(log_K).any(axis=1)
            tries = tries + 1 if out.any() else 0
            if not tries:
                yield log_K
            elif tries == TRIES:
                row = int(np.flatnonzero(out[model.grid.group])[0])
                raise ValueError(
                    f"row {model.frame.index[row]!r} is out of reach of every location at width {width.tolist()}, and in {TRIES} draws "
                    f"of the width of {model.kernel} no one had all rows in reach; use a prior of wider kernels, or add locations."
                )


def _drawn(value: Hyperparameter, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draws of a hyperparameter; what underflows is the smallest positive number."""
    if not isinstance(value, Hyperprior):
        return np.full(size, value)
    return np.maximum(value.distribution.rvs(size, random_state=rng), TINY)


# ---- the mass for a number of clusters

@guided
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
    if not 0 <= number(sigma) < 1:
        raise ValueError(f"sigma must be a number in [0, 1), not {sigma!r}.")
    least = float(poch(n, sigma) / gamma(1.0 + sigma))
    if not least < number(expected) < n:
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
