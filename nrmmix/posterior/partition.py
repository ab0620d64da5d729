"""Partitions as label vectors: co-clustering, losses, point estimates from draws and credible balls.

Draws are an integer array (draws, observations), one partition a row, as `fit.draws.flat("labels")` gives; how clusters are
numbered does not matter.  Two losses are known, both metrics between partitions of n observations:

`"vi"`      the variation of information (Meila 2007, Journal of Multivariate Analysis 98, 873-895), H(a | b) + H(b | a) in
            natural logarithms (base e), between 0 and log n.
`"binder"`  the loss of Binder (1978, Biometrika 65, 31-38) with equal costs, divided by n²/2: the share of ordered pairs of
            observations that one partition joins and the other separates, between 0 and 1 - 1/n.

Point estimates minimise the posterior expected loss; credible balls are those of Wade and Ghahramani (2018, Bayesian Analysis 13, 559-626).
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nrmmix.common.machine import available_cores, in_threads
from nrmmix.common.messages import count, one_of
from nrmmix.kernels import partitions as kernels
from nrmmix.model.frame.labels import by_size, canonical, distinct

__all__ = ["CredibleBall", "Partition", "binder", "canonical", "estimate", "expected_loss", "similarity", "vi"]

SIMILARITY_LIMIT = 20_000  # observations: 1.6 GB
SEARCH_DRAWS = 1_000
SEARCH_CELLS = 2**26  # of the contingency tables, 12 bytes each
SAMPLE, SEARCH_WORK = 2_000, 4e6  # rows, and rows x draws x clusters beyond which a search begins with so many rows
SAMPLE_WORK, SCAN_WORK = 2e6, 5e7  # of the search among these rows, and of a scan of all rows
EXTENDED = 3  # partitions of the sample that the other rows are added to
SCANS, MIN_DRAWS = 4, 50  # of all rows, and draws that both use
AT_ONCE = 2**22  # labels of partitions that a thread compares with draws
SCREENING = 100_000_000  # labels read to find the best of the visited partitions
MIN_CLUSTERS = 16  # clusters that every run is allowed
SHOWN = 12  # sizes in the text of a partition
ROUND = 4  # runs before it is looked whether they agree
TIE = 1e-10  # losses that differ by less are equal


class Loss(NamedTuple):
    """A loss by its function of cluster sizes (see nrmmix.kernels.partitions), and its unit as a function of n."""

    phi: Callable[[np.ndarray], np.ndarray]
    unit: Callable[[int], float]


LOSSES = {
    "vi": Loss(lambda m: m * np.log(np.maximum(m, 1.0)), lambda n: 1.0 / n),
    "binder": Loss(lambda m: m * m, lambda n: 1.0 / n**2),
}


def similarity(labels: Any) -> np.ndarray:
    """Posterior co-clustering: the share of draws in which two observations are in one cluster.

    Parameters
    ----------
    labels : array_like of int, (draws, n)
        At most n = 20,000 observations, whose matrix takes 1.6 GB.

    Returns
    -------
    ndarray of float32, (n, n)

    Raises
    ------
    ValueError
        If `labels` are no draws of partitions, or n is above the limit; the message says how much memory it would take.

    Examples
    --------
    >>> similarity([[0, 0, 1], [0, 1, 1]])
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1. ]], dtype=float32)
    """
    draws, n_clusters = _draws(labels)
    n = draws.shape[1]
    if n > SIMILARITY_LIMIT:
        raise ValueError(
            f"similarity: the matrix of {n:,} observations would take {4e-9 * n**2:.1f} GB; the limit is "
            f"{SIMILARITY_LIMIT:,} observations ({4e-9 * SIMILARITY_LIMIT**2:.1f} GB). Use a subset of the observations."
        )
    out = np.zeros((n, n), np.float32)
    order, end = np.empty_like(draws), np.zeros((len(draws), int(n_clusters.max()) + 2), np.int32)
    kernels.group_members(draws, order, end)
    # Observation i has i pairs: bounds of threads by squares.
    bound = np.unique(np.linspace(0.0, 1.0, 4 * available_cores() + 1) ** 0.5 * n).astype(int)
    in_threads(lambda ends: kernels.coclustering(draws, order, end, *ends, out), pairwise(bound))
    kernels.mirror(out)
    return out


# ---- losses

def _nats(unit: str) -> float:
    """Nats in a unit of information."""
    return {"nats": 1.0, "bits": math.log(2.0)}[one_of("unit", unit, ("nats", "bits"))]


def vi(a: Any, b: Any, unit: str = "nats") -> float:
    """Variation of information between two partitions.

    Parameters
    ----------
    a, b : array_like of int, (n,)
    unit : {"nats", "bits"}, default "nats"
        Natural logarithms, or logarithms to base 2.

    Returns
    -------
    float
        Between 0, where the partitions are equal, and log n.

    Examples
    --------
    >>> round(vi([0, 0, 1, 1], [0, 1, 0, 1], unit="bits"), 6)  # independent: all information differs
    2.0
    >>> vi([0, 0, 1], [5, 5, 2])
    0.0
    """
    return _between(a, b, "vi") / _nats(unit)


def binder(a: Any, b: Any) -> float:
    """Binder's loss between two partitions, as a share of the ordered pairs of observations.

    Parameters
    ----------
    a, b : array_like of int, (n,)

    Returns
    -------
    float
        Twice the number of pairs on which the partitions disagree, divided by n²: between 0 and 1 - 1/n.

    Examples
    --------
    >>> binder([0, 0, 1, 1], [0, 0, 0, 0])  # 4 of the 6 pairs
    0.5
    """
    return _between(a, b, "binder")


def expected_loss(candidates: Any, labels: Any, loss: str = "vi") -> Any:
    """Posterior expected loss of partitions: the exact average over the draws.

    Parameters
    ----------
    candidates : array_like of int, (n,) or (m, n)
        A partition, or one a row.
    labels : array_like of int, (draws, n)
    loss : {"vi", "binder"}

    Returns
    -------
    float, or ndarray, (m,)

    Raises
    ------
    ValueError
        If an argument cannot be used.

    Examples
    --------
    >>> expected_loss([[0, 0, 1, 1], [0, 0, 0, 0]], [[0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]], "binder")
    array([0.33333333, 0.16666667])
    """
    one_of("loss", loss, LOSSES)
    compared = _Compared(*_draws(labels), loss)
    one = np.ndim(candidates) == 1
    rows, _ = _draws([candidates] if one else candidates, "candidates")
    losses = _means(compared, rows)
    return float(losses[0]) if one else losses


def _between(a: Any, b: Any, loss: str) -> float:
    for labels in (a, b):
        if np.ndim(labels) != 1:
            raise ValueError(f"A partition must have one axis, (observations,), not {np.ndim(labels)}.")
    (first,), _ = _draws([a])
    return float(_Compared(*_draws([b]), loss).to(first)[0])


class _Compared:
    """Draws that partitions are compared with; what depends on the draws alone is computed once."""

    def __init__(self, draws: np.ndarray, n_clusters: np.ndarray, loss: str) -> None:
        n = draws.shape[1]
        self.draws, self.n_clusters = draws, n_clusters
        self.gain, self.unit = _gain(loss, n), LOSSES[loss].unit(n)
        self.most = int(n_clusters.max())
        self.own = self._overlaps(np.zeros((1, n), np.int32), np.ones(1, np.int64))[0]

    def _overlaps(self, rows: np.ndarray, K: np.ndarray) -> np.ndarray:
        order, end = np.empty_like(rows), np.zeros((len(rows), int(K.max()) + 2), np.int32)
        kernels.group_members(rows, order, end)
        out, count = np.empty((len(rows), len(self.draws))), np.zeros(self.most, np.int64)
        kernels.overlaps_of_rows(order, end, K, self.draws, self.n_clusters, self.gain, count, out)
        return out

    def to(self, labels: np.ndarray) -> np.ndarray:
        """Loss between a partition and each."""
        return self.to_rows(np.array([labels]))[0]

    def to_rows(self, rows: np.ndarray) -> np.ndarray:
        """Loss between partitions and each, (rows, draws)."""
        if rows.shape[1] != self.draws.shape[1]:
            raise ValueError(f"The partitions differ in length: {rows.shape[1]} observations against {self.draws.shape[1]}.")
        rows, K = _draws(rows)
        level = np.concatenate([[0.0], np.cumsum(self.gain)])
        alone = np.array([level[np.bincount(row)].sum() for row in rows])
        out = alone[:, np.newaxis] + self.own - 2.0 * self._overlaps(rows, K)
        # Two different partitions are at least 2 log 2 (vi) or 2 (binder) apart here: less is rounding.
        return np.where(out < 0.5, 0.0, out) * self.unit


def _means(compared: _Compared, rows: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Mean loss between each row and the draws, by their weights; rows in threads."""
    few = max(AT_ONCE // rows.shape[1], 1)  # rows, of which there are copies
    parts = np.array_split(rows, max(min(len(rows), 4 * available_cores()), math.ceil(len(rows) / few)))
    means = in_threads(lambda part: [np.average(one, weights=weight) for one in compared.to_rows(part)], parts)
    return np.concatenate(means)


# ---- point estimates

@dataclass(frozen=True, eq=False)
class CredibleBall:
    """Partitions nearest to an estimate that together have a given posterior probability, by their extremes.

    Attributes
    ----------
    level : float
        Posterior probability.
    radius : float
        Largest loss between the estimate and a partition in the ball.
    horizontal : ndarray of int32, (m, n)
        Partitions in the ball farthest from the estimate, one a row.
    vertical_upper : ndarray of int32, (m, n)
        Of the partitions in the ball with the fewest clusters those farthest from the estimate.
    vertical_lower : ndarray of int32, (m, n)
        Of the partitions in the ball with the most clusters those farthest from the estimate.

    Examples
    --------
    >>> ball = estimate([[0, 0, 0, 1]] * 9 + [[0, 0, 1, 2]], rng=1).ball(0.99)
    >>> round(ball.radius, 3), ball.vertical_upper.tolist(), ball.vertical_lower.tolist()
    (0.477, [[0, 0, 0, 1]], [[0, 0, 1, 2]])
    """

    level: float
    radius: float
    horizontal: np.ndarray = field(repr=False)
    vertical_upper: np.ndarray = field(repr=False)
    vertical_lower: np.ndarray = field(repr=False)


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """Point estimate of a partition.

    Made by `estimate`.

    Attributes
    ----------
    labels : ndarray of int64, (n,)
        Clusters, numbered by size, the largest 0; of equal ones by first appearance.
    loss : str
        Name of the loss that was minimised.
    expected_loss : float
        Its average over all draws; the variation of information in nats, which `in_unit` gives in bits.
    draws : ndarray of int, (draws, n)
        The partitions drawn from the posterior; none of a search.
    sampled : int
        Rows that the search began with, of many; 0 where it was among all.
    index : pandas.Index or None
        The caller's labels of the rows, of the estimate of a fit in memory.

    Examples
    --------
    >>> found = estimate([[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1]], rng=1)
    >>> found
    Partition(2 clusters of sizes 3, 1; expected vi loss 0.2747)
    >>> found.labels, found.sizes
    (array([0, 0, 0, 1]), array([3, 1]))
    """

    labels: np.ndarray
    loss: str
    expected_loss: float
    draws: np.ndarray
    sampled: int = 0
    index: Any = None

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return int(self.labels.max()) + 1

    @property
    def sizes(self) -> np.ndarray:
        """Number of observations in each cluster."""
        return np.bincount(self.labels)

    def to_series(self) -> pd.Series:
        """The clusters (n,) with the caller's index, or the numbers of the rows.

        Examples
        --------
        >>> estimate([[0, 0, 1], [0, 0, 1]], rng=1).to_series().tolist()
        [0, 0, 1]
        """
        return pd.Series(self.labels, index=self.index, name="cluster")

    def in_unit(self, unit: str) -> float:
        """The expected variation of information in "nats" or "bits"; a ValueError for Binder's loss, which is a share of pairs.

        Examples
        --------
        >>> found = estimate([[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1]], rng=1)
        >>> round(found.in_unit("bits") * math.log(2), 4) == round(found.expected_loss, 4)
        True
        """
        if self.loss != "vi":
            raise ValueError("Binder's loss is a share of pairs, and has no unit; expected_loss is that share.")
        return self.expected_loss / _nats(unit)

    def __repr__(self) -> str:
        sizes = ", ".join(map(str, np.sort(self.sizes)[::-1][:SHOWN])) + (", ..." if self.n_clusters > SHOWN else "")
        by = f"; sought by a sample of {self.sampled:,} of {len(self.labels):,} rows" if self.sampled else ""
        return f"Partition({self.n_clusters} clusters of sizes {sizes}; expected {self.loss} loss {self.expected_loss:.4g}{by})"

    def _repr_html_(self) -> str:
        """Sizes and shares of the clusters, of many the first."""
        table = pd.DataFrame({"size": self.sizes, "share": self.sizes / len(self.labels)}).rename_axis("cluster").head(SHOWN)
        return f"<p>{html.escape(repr(self))}</p>\n{table.to_html(float_format='{:.1%}'.format)}"

    @cached_property
    def credible_ball(self) -> CredibleBall | None:
        """The ball of posterior probability 0.95; None of a search, which draws no partitions."""
        return self.ball() if len(self.draws) else None

    def ball(self, level: float = 0.95) -> CredibleBall:
        """Smallest ball around the estimate that holds at least the share `level` of the draws.

        Distances are those of the loss that was minimised; the definitions are section 4 of Wade and Ghahramani (2018).

        Parameters
        ----------
        level : float, default 0.95
            Above 0 and at most 1.

        Returns
        -------
        CredibleBall

        Raises
        ------
        ValueError
            If the level is out of range, or a search has found the partition.

        Examples
        --------
        >>> found = estimate([[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1]], "binder", rng=1)
        >>> found.ball(0.6).radius, found.ball(0.9).radius, found.ball(0.9).horizontal
        (0.0, 0.375, array([[0, 0, 1, 1]], dtype=int32))
        """
        if not 0.0 < level <= 1.0:
            raise ValueError(f"ball: level must be above 0 and at most 1, not {level!r}.")
        if not len(self.draws):
            raise ValueError("ball: a search has one partition and no draws, and knows nothing of others; chains have, method=\"gibbs\".")
        draws, n_clusters = _draws(self.draws)
        distance = _Compared(draws, n_clusters, self.loss).to(self.labels)
        # The share `level` of the draws is rounded up; 0.95 x 20 is 19 draws, whatever the rounding of the product.
        last = max(math.ceil(level * len(draws) - 1e-9), 1) - 1
        radius = float(np.partition(distance, last)[last])
        inside = np.flatnonzero(distance <= radius + TIE)

        def farthest(among: np.ndarray) -> np.ndarray:
            return np.unique(draws[among[distance[among] >= distance[among].max() - TIE]], axis=0)

        of_inside = n_clusters[inside]
        return CredibleBall(
            level=float(level), radius=radius, horizontal=farthest(inside), vertical_upper=farthest(inside[of_inside == of_inside.min()]),
            vertical_lower=farthest(inside[of_inside == of_inside.max()]),
        )


def estimate(labels: Any, loss: str = "vi", *, max_clusters: int | None = None, runs: int = 16, rng: Any = None) -> Partition:
    """Partition of least posterior expected loss, sought beyond the partitions that were drawn.

    A search in the manner of SALSO (Dahl, Johnson and Müller 2022, Journal of Computational and Graphical Statistics 31,
    1189-1201).  A run allocates the observations one at a time, in random order, each to the cluster in which the partition of
    those allocated so far has the least expected loss; or it starts from one of the best visited partitions.  Then observations
    are moved to better clusters in scans of random order until none moves, and clusters are destroyed and their observations
    allocated anew, which is kept where it lowers the loss.  Expected losses are exact averages over draws throughout, kept up to
    date through the contingency tables of the partition with every draw.

    Parameters
    ----------
    labels : array_like of int, (draws, n)
    loss, max_clusters, runs, rng
        See `MCMCResult.partition`, errors too.  Every other run starts from a visited partition.

    Notes
    -----
    Of more than 1,000 draws the search uses 1,000, evenly spaced, and fewer where the tables of clusters against clusters would
    have more than 2^26 cells (800 MB); the choice among the results of all runs, and `expected_loss`, are by all draws.  Four runs
    go at a time, in threads, and no more once two of all have the same least loss.  Runs allow twice as many clusters as the draws
    have at most, and no less than 16; the best goes on with more where it has as many as that.  Time is proportional to n times
    draws times clusters times runs.

    Of more than 2,000 rows, where rows times draws times clusters are more than 4 million, the search is an approximation: it is among
    2,000 rows drawn at random, and 50 draws or more, spread evenly; to the three best partitions that it finds the other rows are added,
    and all are moved in four scans at most.  The estimate says so (`sampled`).  `expected_loss` is by all rows and draws all the same.

    Examples
    --------
    >>> draws = [[0, 0, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1]]
    >>> found = estimate(draws, rng=1)
    >>> found.labels, round(found.expected_loss, 4)
    (array([0, 0, 0, 1]), 0.2747)
    >>> estimate([[0, 0, 1], [0, 1, 1], [0, 1, 0]], "binder", rng=1).labels  # not among the draws
    array([0, 1, 2])
    """
    one_of("loss", loss, LOSSES)
    runs = count("runs", runs, 1)
    if max_clusters is not None:
        max_clusters = count("max_clusters", max_clusters, 1)
    random = np.random.default_rng(rng)
    draws, n_clusters = _draws(labels)
    n = draws.shape[1]

    limit = _limit(n, n_clusters, max_clusters)
    used = _evenly(len(draws), min(SEARCH_DRAWS, _most_draws(limit, n_clusters)))
    sampled = SAMPLE if n > SAMPLE and n * len(used) * float(n_clusters.mean()) > SEARCH_WORK else 0
    if sampled:
        found = _searched_by_sample(draws, n_clusters, loss, max_clusters, runs, random)
    else:
        found = _searched(draws[used], loss, limit, max_clusters, runs, random)

    candidates, _ = distinct(_draws(np.array([np.zeros(n, np.int64), *found]))[0])
    compared = _Compared(draws, n_clusters, loss)
    losses = _means(compared, candidates)
    best = min(np.flatnonzero(losses <= losses.min() + TIE), key=lambda c: candidates[c].max())  # of equal ones the simplest
    return Partition(by_size(candidates[best]), loss, float(losses[best]), np.asarray(labels), sampled)


def _limit(n: int, n_clusters: np.ndarray, max_clusters: int | None) -> int:
    """Clusters that every run is allowed."""
    return min(n, max_clusters or n, max(2 * int(n_clusters.max()), MIN_CLUSTERS))


def _most_draws(limit: int, n_clusters: np.ndarray) -> int:
    """Draws for whose tables of clusters against clusters there is room."""
    return max(SEARCH_CELLS // (limit * int(n_clusters.max())), 1)


def _searched(
    draws: np.ndarray, loss: str, limit: int, max_clusters: int | None, runs: int, random: np.random.Generator
) -> list[np.ndarray]:
    """The best of the draws, and what runs from them and from nothing find."""
    n = draws.shape[1]
    rows, weight = distinct(draws)
    most = rows.max(axis=1) + 1
    largest = min(n, max_clusters or n, max(SEARCH_CELLS // int(most.sum()), limit))

    visited = rows[most <= limit]
    visited = visited[_screen(visited, rows, weight, loss)[: max(runs // 2, 1)]]
    search = kernels.Search(rows, weight, _gain(loss, n), limit)
    starts = [start for row in visited[: runs // 2] for start in (row, np.full(n, -1))]  # those and none in turn
    starts += [np.full(n, -1)] * (runs - len(starts))
    last, found = _best_of_runs(search, starts, random, _Compared(*_draws(rows), loss), weight)
    while last.max() + 1 == search.limit < largest:
        search.limit = min(4 * search.limit, largest)
        last = search.run(last, random)
        found.append(last)
    return [*visited, *found]


def _searched_by_sample(
    draws: np.ndarray, n_clusters: np.ndarray, loss: str, max_clusters: int | None, runs: int, random: np.random.Generator
) -> list[np.ndarray]:
    """Search among some of many rows, the others added, after scans of all."""
    n, K = draws.shape[1], float(n_clusters.mean())
    some = np.sort(random.choice(n, SAMPLE, replace=False))
    own, n_own = _draws(draws[:, some])
    limit = _limit(SAMPLE, n_own, max_clusters)
    used = _evenly(len(draws), min(max(int(SAMPLE_WORK / (SAMPLE * K)), MIN_DRAWS), _most_draws(limit, n_own)))
    found = _searched(own[used], loss, limit, max_clusters, runs, random)
    few, _ = distinct(_draws(np.array(found))[0])
    few = few[np.argsort(_means(_Compared(own, n_own, loss), few), kind="stable")[:EXTENDED]]
    limit = max(_limit(n, n_clusters, max_clusters), int(few.max()) + 1)
    many = draws[_evenly(len(draws), min(max(int(SCAN_WORK / (n * K)), MIN_DRAWS), _most_draws(limit, n_clusters)))]
    search = kernels.Search(many, np.ones(len(many)), _gain(loss, n), limit)
    starts = np.full((len(few), n), -1)
    starts[:, some] = few
    return [search.run(start, random, SCANS) for start in starts]


def _best_of_runs(
    search: kernels.Search, starts: list[np.ndarray], random: np.random.Generator, compared: _Compared, weight: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The partition of least loss, and all that were found by runs in rounds, until two runs agree on the least loss.

    Runs of a round go in threads, each with random numbers of its own: what is found does not depend on the number of threads.
    """
    seeds = random.integers(2**63, size=(len(starts), 2))
    searches = [search, *(search.another() for _ in range(min(ROUND, available_cores(), SEARCH_CELLS // search.cells) - 1))]

    def run(r: int) -> np.ndarray:
        own = searches.pop()
        labels = own.run(starts[r], np.random.default_rng(seeds[r]))
        searches.append(own)
        return labels

    found, losses, threads = [], [], len(searches)
    for first in range(0, len(starts), ROUND):
        found += in_threads(run, range(first, min(first + ROUND, len(starts))), threads)
        losses += list(_means(compared, np.array(found[first:]), weight))
        if np.sum(np.array(losses) <= min(losses) + TIE) > 1:
            break
    return found[int(np.argmin(losses))], found


def _evenly(length: int, size: int) -> np.ndarray:
    return np.arange(length) if length <= size else np.arange(size) * length // size


def _screen(visited: np.ndarray, rows: np.ndarray, weight: np.ndarray, loss: str) -> np.ndarray:
    """Order of visited partitions by expected loss over as many of the draws as time allows."""
    if not len(visited):
        return np.empty(0, np.int64)
    used = _evenly(len(rows), max(SCREENING // visited.size, 20))
    compared = _Compared(*_draws(rows[used]), loss)
    return np.argsort(_means(compared, visited, weight[used]), kind="stable")


# ---- arguments

def _gain(loss: str, n: int) -> np.ndarray:
    """phi(m + 1) - phi(m) for m = 0..n"""
    return np.diff(LOSSES[loss].phi(np.arange(n + 2.0)))


def _draws(labels: Any, name: str = "labels") -> tuple[np.ndarray, np.ndarray]:
    """A copy (T, n) int32 with every row numbered by first appearance, and the numbers of clusters (T,) int64."""
    try:
        array = np.asarray(labels)
    except ValueError as error:
        raise ValueError(f"{name}: the partitions differ in length; give an array (draws, observations).") from error
    if array.ndim != 2:
        chains = '; `fit.draws.flat("labels")` joins the chains' if array.ndim == 3 else ""
        raise ValueError(f"{name} must have two axes, (draws, observations), not {array.ndim}{chains}.")
    if array.size == 0:
        raise ValueError(f"{name} are empty: there are {array.shape[0]} partitions of {array.shape[1]} observations.")
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers, not {array.dtype}.")
    if array.min() < 0:
        t, i = map(int, np.argwhere(array < 0)[0])
        raise ValueError(f"{name} must not be negative: row {t} has {array[t, i]} for observation {i}.")
    if array.max() >= 2 * array.shape[1] + 1024:  # the names of clusters index a workspace
        array = np.array([canonical(row)[0] for row in array])
    out = np.array(array, np.int32, order="C")
    n_clusters = np.empty(len(out), np.int64)
    kernels.renumber(out, np.full(int(out.max()) + 1, -1, np.int64), n_clusters)
    return out, n_clusters
