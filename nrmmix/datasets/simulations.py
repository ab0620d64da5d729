"""Simulated data with the truth behind them.

All draw from `numpy.random.default_rng(rng)` and never from NumPy's global generator.

Examples
--------
>>> X, labels = simulate_toy(rng=1)
>>> X.shape, len(set(labels))
((1300, 2), 13)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logsumexp

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "DynamicTruth", "MixedTruth", "MixtureTruth", "regression_density", "simulate_dynamic_mixture", "simulate_edge_patches",
    "simulate_mixed", "simulate_mixture", "simulate_regression", "simulate_toy",
]

RandomSource = int | np.random.SeedSequence | np.random.Generator | None

CROSSING_SD = 0.5  # of both components of simulate_regression
DYNAMIC_WIDTH = 0.2  # within which components of `simulate_dynamic_mixture` are active


@dataclass(frozen=True)
class MixtureTruth:
    """Parameters of a Gaussian mixture that data were drawn from.

    Attributes
    ----------
    weights : ndarray, shape (n_clusters,)
    means : ndarray, shape (n_clusters, n_dim)
    covariances : ndarray, shape (n_clusters, n_dim, n_dim)
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    def log_density(self, points: Any) -> np.ndarray:
        """Log density of the mixture.

        Parameters
        ----------
        points : array_like, shape (m, n_dim)

        Returns
        -------
        ndarray, shape (m,)

        Examples
        --------
        >>> truth = MixtureTruth(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1)))
        >>> truth.log_density([[0.0]]).round(4)
        array([-0.9189])
        """
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.means.shape[1]:
            raise ValueError(f"points must have shape (m, {self.means.shape[1]}), got {points.shape}")
        terms = np.empty((len(self.weights), len(points)))
        components = zip(self.weights, self.means, self.covariances, strict=True)
        for k, (weight, mean, covariance) in enumerate(components):
            root = np.linalg.cholesky(covariance)
            z = np.linalg.solve(root, (points - mean).T)
            terms[k] = np.log(weight) - np.log(np.diag(root)).sum() - 0.5 * (z**2).sum(axis=0)
        return logsumexp(terms, axis=0) - 0.5 * points.shape[1] * np.log(2 * np.pi)


def simulate_toy(rng: RandomSource = None, *, n_clusters: int = 13, size: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Bivariate Gaussian clusters of equal size, some well apart and some that overlap.

    Mean and covariance of each cluster are drawn from a normal-inverse-Wishart distribution: Σ ~ IW(8, 0.065 I), so that E Σ = 0.013 I, and
    μ | Σ ~ N(0, Σ / 0.02).  With the default numbers the spread of the clusters and the scatter of their means are like those of the toy
    data of Lee and Choi (2015), whose clusters have regularly spaced means: 12 on a ring around one.

    Parameters
    ----------
    rng : int, SeedSequence, Generator or None, default None
    n_clusters : int, default 13
    size : int, default 100
        Points in each cluster.

    Returns
    -------
    X : ndarray, shape (n_clusters * size, 2)
        In random order.
    labels : ndarray of int, shape (n_clusters * size,)
        True clusters, numbered from 0 by first appearance.

    Raises
    ------
    ValueError
        A number is less than 1.

    Examples
    --------
    >>> X, labels = simulate_toy(rng=1)
    >>> X.shape, np.bincount(labels).tolist() == [100] * 13
    ((1300, 2), True)
    """
    from scipy.stats import invwishart

    _at_least_one(n_clusters=n_clusters, size=size)
    rng = np.random.default_rng(rng)
    covariances = invwishart.rvs(8, 0.065 * np.eye(2), size=n_clusters, random_state=rng).reshape(-1, 2, 2)
    means = _draw(np.arange(n_clusters), np.zeros((n_clusters, 2)), covariances / 0.02, rng)
    labels = _by_appearance(rng.permutation(np.repeat(np.arange(n_clusters), size)))
    return _draw(labels, means, covariances, rng), labels


def simulate_mixture(
    n: int, dim: int = 2, n_clusters: int = 3, rng: RandomSource = None, *, separation: float = 6.0, weights: Sequence[float] | None = None
) -> tuple[np.ndarray, np.ndarray, MixtureTruth]:
    """Gaussian mixture with full covariances whose means keep a distance.

    The principal axes of every component have a random direction and standard deviations between 1/2 and 1.

    Parameters
    ----------
    n : int
        Number of points.
    dim : int, default 2
    n_clusters : int, default 3
    rng : int, SeedSequence, Generator or None, default None
    separation : float, default 6.0
        No two means are nearer than this.  As no direction has a standard deviation above 1, components
        hardly overlap from about 6 on; 0 puts no constraint on the means, which are then standard normal.
    weights : sequence of float, optional
        Component probabilities up to a factor; equal by default.

    Returns
    -------
    X : ndarray, shape (n, dim)
    labels : ndarray of int, shape (n,)
        True component of each point, numbered as in the truth; few points or small weights can leave a component empty.
    truth : MixtureTruth
        Weights, means and covariances, with their `log_density`.

    Raises
    ------
    ValueError
        A number is less than 1, `separation` is negative or not finite, `weights` do not fit.

    Examples
    --------
    >>> X, labels, truth = simulate_mixture(500, dim=3, n_clusters=4, rng=1)
    >>> X.shape, truth.means.shape, truth.log_density(X).shape
    ((500, 3), (4, 3), (500,))
    """
    _at_least_one(n=n, dim=dim, n_clusters=n_clusters)
    if not 0 <= separation < np.inf:
        raise ValueError(f"separation must be non-negative and finite, got {separation}")
    share = np.ones(n_clusters) if weights is None else np.array(weights, dtype=np.float64)
    if share.shape != (n_clusters,) or not np.isfinite(share).all() or share.min() <= 0:
        raise ValueError(f"weights must be {n_clusters} positive numbers, got {weights!r}")
    rng = np.random.default_rng(rng)
    share /= share.sum()
    means = _spread_means(n_clusters, dim, separation, rng)
    covariances = np.stack([_random_covariance(dim, rng) for _ in range(n_clusters)])
    labels = rng.choice(n_clusters, size=n, p=share)
    return _draw(labels, means, covariances, rng), labels, MixtureTruth(share, means, covariances)


def simulate_regression(n: int = 400, rng: RandomSource = None) -> pd.DataFrame:
    """Two regression lines that cross, with probabilities that change along the covariate.

    x is uniform on [0, 1].  Component 0 has mean 3 - 6x, component 1 mean 6x - 3, both standard deviation
    0.5; component 1 has probability 1 / (1 + exp(2 - 4x)).  So the density of y has two modes at both ends
    and a single one in the middle, where the lines cross, and the upper mode is the larger one at both ends.

    Parameters
    ----------
    n : int, default 400
    rng : int, SeedSequence, Generator or None, default None

    Returns
    -------
    DataFrame
        n rows; columns x, y and component (the true one, 0 or 1).

    Raises
    ------
    ValueError
        `n` is less than 1.

    See Also
    --------
    regression_density : the true density of y given x.

    Examples
    --------
    >>> simulate_regression(300, rng=1).columns.tolist()
    ['x', 'y', 'component']
    """
    import pandas as pd

    _at_least_one(n=n)
    rng = np.random.default_rng(rng)
    x = rng.uniform(size=n)
    means, probabilities = _crossing(x)
    component = (rng.uniform(size=n) < probabilities[1]).astype(np.int64)
    y = np.where(component == 1, means[1], means[0]) + CROSSING_SD * rng.normal(size=n)
    return pd.DataFrame({"x": x, "y": y, "component": component})


def regression_density(x: Any, y: Any) -> np.ndarray:
    """True density of y given x for data of `simulate_regression`.

    Parameters
    ----------
    x, y : array_like
        Of shapes that broadcast.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> regression_density(0.5, 0.0).round(4)
    np.float64(0.7979)
    """
    means, probabilities = _crossing(np.asarray(x, dtype=np.float64))
    z = [(np.asarray(y, dtype=np.float64) - mean) / CROSSING_SD for mean in means]
    peak = 1 / (CROSSING_SD * np.sqrt(2 * np.pi))
    return peak * (probabilities[0] * np.exp(-0.5 * z[0] ** 2) + probabilities[1] * np.exp(-0.5 * z[1] ** 2))


@dataclass(frozen=True)
class DynamicTruth:
    """A mixture whose components are active around their locations.

    Attributes
    ----------
    locations, means : ndarray, shape (n_components,)
        Where the components are active, and the means of their normal distributions.
    width, variance : float
        Components within less than `width` are active, all alike; the variance of each.
    """

    locations: np.ndarray
    means: np.ndarray
    width: float
    variance: float

    def density(self, time: Any, y: Any) -> np.ndarray:
        """True density of y at a time, of shapes that broadcast; NaN where no component is active."""
        time, y = np.broadcast_arrays(np.asarray(time, float), np.asarray(y, float))
        active = np.abs(time[..., None] - self.locations) < self.width
        peaks = np.exp(-0.5 * (y[..., None] - self.means) ** 2 / self.variance) / np.sqrt(2 * np.pi * self.variance)
        with np.errstate(invalid="ignore"):
            return (active * peaks).sum(axis=-1) / active.sum(axis=-1)


def simulate_dynamic_mixture(
    n_components: int = 12, n_stamps: int = 10, n_each: int = 60, rng: RandomSource = None
) -> tuple[pd.DataFrame, DynamicTruth]:
    """A mixture whose components come and go with time, as the synthetic data of Foti & Williamson (2012, section 4.1).

    Time stamps are equally spaced in [0, 1]; each component is located at one of them and active at those within less than 0.2.  An
    observation at a stamp is of one of its active components, all alike, and normal with its mean and variance 10.  The paper does not say
    where the means come from: here from N(0, 100).  Locations are drawn until every stamp has an active component.

    Parameters
    ----------
    n_components : int, default 12
    n_stamps : int, default 10
    n_each : int, default 60
        Observations at each stamp.
    rng : int, SeedSequence, Generator or None, default None

    Returns
    -------
    data : DataFrame
        Columns time, y and component, the true one.
    truth : DynamicTruth
        The parameters, and the true density.

    Raises
    ------
    ValueError
        A number is less than 1, or there are so few components that they cannot cover the stamps.

    Examples
    --------
    >>> data, truth = simulate_dynamic_mixture(rng=1)
    >>> data.shape, bool(np.isfinite(np.log(truth.density(data["time"], data["y"]))).all())
    ((600, 3), True)
    """
    import pandas as pd

    _at_least_one(n_components=n_components, n_stamps=n_stamps, n_each=n_each)
    rng = np.random.default_rng(rng)
    stamps = np.linspace(0.0, 1.0, n_stamps)
    for _ in range(10_000):
        locations = rng.choice(stamps, n_components)
        active = np.abs(stamps[:, None] - locations) < DYNAMIC_WIDTH
        if active.any(axis=1).all():
            break
    else:
        raise ValueError(f"{n_components} components do not cover {n_stamps} stamps in 10,000 draws of their locations; use more.")
    truth = DynamicTruth(locations, rng.normal(0.0, 10.0, n_components), DYNAMIC_WIDTH, 10.0)
    component = np.concatenate([rng.choice(np.flatnonzero(row), n_each) for row in active])
    y = truth.means[component] + np.sqrt(truth.variance) * rng.normal(size=len(component))
    return pd.DataFrame({"time": np.repeat(stamps, n_each), "y": y, "component": component}), truth


@dataclass(frozen=True)
class MixedTruth:
    """Parameters of a mixture of columns of different kinds.

    Attributes
    ----------
    weights : ndarray, shape (n_clusters,)
    means, sds : ndarray, shape (n_clusters,)
        Of the normal column `height`.
    rates : ndarray, shape (n_clusters,)
        Of the Poisson column `visits`, per month of exposure.
    probabilities : ndarray, shape (n_clusters,)
        Of True in the column `smoker`.
    shares : ndarray, shape (n_clusters, 3)
        Of the levels "blue", "green" and "red" of the column `colour`.
    """

    weights: np.ndarray
    means: np.ndarray
    sds: np.ndarray
    rates: np.ndarray
    probabilities: np.ndarray
    shares: np.ndarray


def simulate_mixed(
    n: int = 300, n_clusters: int = 3, rng: RandomSource = None, *, missing: float = 0.0
) -> tuple[pd.DataFrame, np.ndarray, MixedTruth]:
    """Mixture of rows with a normal, a count, a binary and a categorical column, independent within a component.

    Parameters
    ----------
    n : int, default 300
        Number of rows.
    n_clusters : int, default 3
    rng : int, SeedSequence, Generator or None, default None
    missing : float in [0, 1), default 0.0
        Probability that a cell of the four responses is missing; every row keeps at least one.

    Returns
    -------
    table : DataFrame
        n rows; columns height, visits, smoker and colour, and months, the exposure of visits.
    labels : ndarray of int, shape (n,)
        True component of each row, numbered as in the truth.
    truth : MixedTruth

    Raises
    ------
    ValueError
        A number is less than 1, or `missing` is out of range.

    Examples
    --------
    >>> table, labels, truth = simulate_mixed(100, rng=1)
    >>> table.columns.tolist(), truth.shares.shape
    (['height', 'visits', 'smoker', 'colour', 'months'], (3, 3))
    """
    import pandas as pd

    _at_least_one(n=n, n_clusters=n_clusters)
    if not 0 <= missing < 1:
        raise ValueError(f"missing must be at least 0 and less than 1, got {missing}")
    rng = np.random.default_rng(rng)
    truth = MixedTruth(
        weights=np.full(n_clusters, 1 / n_clusters), means=170 + 12 * rng.permutation(np.arange(n_clusters) - (n_clusters - 1) / 2),
        sds=rng.uniform(3, 6, size=n_clusters), rates=np.exp(rng.normal(size=n_clusters)),
        probabilities=rng.beta(0.5, 0.5, size=n_clusters), shares=rng.dirichlet(np.full(3, 0.5), size=n_clusters),
    )
    labels = rng.choice(n_clusters, size=n, p=truth.weights)
    months = rng.integers(1, 25, size=n)
    level = (rng.uniform(size=(n, 1)) > np.cumsum(truth.shares, axis=1)[labels, :-1]).sum(axis=1)
    table = pd.DataFrame({
        "height": truth.means[labels] + truth.sds[labels] * rng.normal(size=n), "visits": rng.poisson(months * truth.rates[labels]),
        "smoker": rng.uniform(size=n) < truth.probabilities[labels], "colour": np.array(["blue", "green", "red"])[level],
    })
    if missing:
        gap = rng.uniform(size=table.shape) < missing
        gap[np.arange(n), rng.integers(0, 4, size=n)] = False
        table = table.astype(object).mask(gap).astype({"height": float, "visits": float})
    return table.assign(months=months), labels, truth


def simulate_edge_patches(n: int = 100_000, *, rng: RandomSource = None) -> tuple[np.ndarray, np.ndarray, MixtureTruth]:
    """Image patches of 5 x 5 pixels with a strong edge, whose direction is one of eight: after the toy data of Hughes & Sudderth (2013).

    A mixture of eight equally common Gaussians of mean 0.  In each the covariance is that of edges of random contrast and place in one
    direction, and of noise.  Clusters differ in covariance alone.

    Parameters
    ----------
    n : int, default 100000
        Patches.
    rng : int, SeedSequence, Generator or None
        Seed.

    Returns
    -------
    X : ndarray, shape (n, 25)
        Pixels row by row.
    labels : ndarray of int, shape (n,)
        Direction of the edge of each patch, label k at an angle of k pi / 8.
    truth : MixtureTruth

    Raises
    ------
    ValueError
        If n is less than 1.

    Examples
    --------
    >>> X, labels, truth = simulate_edge_patches(1000, rng=1)
    >>> X.shape, truth.covariances.shape
    ((1000, 25), (8, 25, 25))
    """
    _at_least_one(n=n)
    generator = np.random.default_rng(rng)
    place = np.arange(5) - 2.0
    along = [np.cos(a) * place[None, :] + np.sin(a) * place[:, None] for a in np.pi * np.arange(8) / 8]
    edges = [np.stack([np.tanh(2.0 * (u - offset)).ravel() for offset in (-1.0, 0.0, 1.0)]) for u in along]
    covariances = np.stack([edge.T @ edge / 3 + 0.05 * np.eye(25) for edge in edges])
    truth = MixtureTruth(np.full(8, 1 / 8), np.zeros((8, 25)), covariances)
    labels = generator.integers(8, size=n)
    X = np.empty((n, 25))
    for k, root in enumerate(np.linalg.cholesky(covariances)):
        rows = np.flatnonzero(labels == k)
        X[rows] = generator.normal(size=(len(rows), 25)) @ root.T
    return X, labels, truth


# ---- the parts

def _crossing(x: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Means and probabilities of the two components at `x`."""
    upward = expit(4 * x - 2)
    return (3 - 6 * x, 6 * x - 3), (1 - upward, upward)


def _at_least_one(**numbers: int) -> None:
    for name, number in numbers.items():
        if number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")


def _draw(labels: np.ndarray, means: np.ndarray, covariances: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One Gaussian point for each label."""
    noise = rng.normal(size=(len(labels), means.shape[1]))
    return means[labels] + np.einsum("nij,nj->ni", np.linalg.cholesky(covariances)[labels], noise)


def _by_appearance(labels: np.ndarray) -> np.ndarray:
    """Labels renamed to 0, 1, ... in the order in which they come up."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _spread_means(n_clusters: int, dim: int, separation: float, rng: np.random.Generator) -> np.ndarray:
    """Normal points drawn one by one; one that is too near is refused and widens the law: this ends."""
    scale = max(separation, 1.0)
    means = np.empty((n_clusters, dim))
    placed = 0
    while placed < n_clusters:
        means[placed] = scale * rng.normal(size=dim)
        if (np.linalg.norm(means[:placed] - means[placed], axis=1) >= separation).all():
            placed += 1
        else:
            scale *= 1.05
    return means


def _random_covariance(dim: int, rng: np.random.Generator) -> np.ndarray:
    """Random directions, standard deviations uniform on [1/2, 1]."""
    directions, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    root = directions * rng.uniform(0.5, 1.0, size=dim)
    return root @ root.T
