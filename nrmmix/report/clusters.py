"""Clusters of the point estimate: size, stability, purity, and the parameters of their components."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np
import pandas as pd

from nrmmix.common.messages import listed
from nrmmix.model.families import Gaussian, Parameter
from nrmmix.model.families.gaussian.family import is_law
from nrmmix.model.frame.unusual import counted, on_rounding
from nrmmix.model.specification import Specification
from nrmmix.posterior.draws import Draws, Posterior
from nrmmix.posterior.factors import FactorPosterior
from nrmmix.posterior.kernel_factors import KernelFactorPosterior
from nrmmix.posterior.partition import SAMPLE, Partition
from nrmmix.posterior.predict.kernel_states import parameters_of
from nrmmix.results.base import Result

WORK_LIMIT = 1e8  # rows x draws x clusters beyond which no partition is sought unasked: one to three seconds
LABELS_LIMIT = 5e7  # the same of rows x draws, where the search is by a sample
DEFAULT = ("vi", None, 16)  # what `fit.partition()` is kept under
MAX_IN_FULL = 6  # parameters of a family; with more, only means are reported
MAX_PARAMETERS = 40  # of a family that are reported
DRAWS = 500  # behind the shares of pairs that are together
TOP_WORDS = 8  # of counts given their total, those whose shares are largest
FEW_ROWS = 10  # in a cluster on average, below which they do not show how wide clusters are
WIDER, MIN_IN_WIDE = 2.0, 5  # standard deviations of a cluster over those of its rows, and how many rows, from which on it is said
STRETCHED = 1.3  # the same in the direction of the prior mean, of a full covariance
MIN_TIES = 3  # members of a cluster of one value, from which on it is said
DRAWS_OF_TIES, ROWS_OF_TIES = 5, 0.1  # draws of a chain that are looked at, and the share of the rows that must be in such clusters
SHARE = "share "  # how the names of such shares begin
APART = 0.5  # clusters: by more than that the number of a partition is another than that of the draws


class Column(NamedTuple):
    """One number of every cluster."""

    name: str
    value: np.ndarray  # (K,)
    sd: np.ndarray  # (K,) posterior standard deviation; NaN where there is none


class Words(NamedTuple):
    """The largest shares of every cluster, of many: of words, or of levels of a category."""

    name: str
    top: tuple[tuple[tuple[str, float], ...], ...]  # of each cluster, words and their shares


class Clusters(NamedTuple):
    """Clusters of a partition, largest first; they are numbered so."""

    partition: Partition
    label: np.ndarray  # (K,) of `partition.labels`
    size: np.ndarray  # (K,) rows, each as often as it counts
    stability: np.ndarray  # (K,) posterior probability that two of its members share a cluster; NaN of one member
    purity: np.ndarray  # (K,) mean share of a member's companions in a draw that are members; where it has none 0, or 1 of one member
    columns: tuple[Column, ...]
    words: tuple[Words, ...]
    n_left_out: int  # parameters of which there is no column


def affordable(fit: Result) -> bool:
    """Whether `fit.partition()` is there already, or takes no more than a few seconds."""
    if DEFAULT in fit._partitions:
        return True
    if fit.model.n_obs > SAMPLE:
        return fit.draws["labels"].size <= LABELS_LIMIT
    return fit.model.n_obs * float(fit.draws["n_clusters"].sum()) <= WORK_LIMIT


def clusters(fit: Result) -> Clusters:
    """Describe each cluster of `fit.partition()`.

    Stability is the mean over pairs of members of the posterior probability that they share a cluster, purity that over members of the
    probability that `fit.predict(kind="cluster")` gives: of the rows that share a cluster with a member in a draw, the share that are
    members; 0 in draws in which it is alone, or 1 where it is the only member.  A fragment of a cluster is pure but not stable where the
    rest belongs to it.  Parameters have their posterior mean and standard deviation given this partition, in closed form; the means and
    levels of covariates are those of the members.  Rows count as often as their weights say.  Of many shares the largest are named, of
    other parameters of a family at most forty given, and those left out counted.
    """
    found = fit.partition()
    labels, weight, size = found.labels, fit.model.frame.weight, fit.model.frame.sizes_of(found.labels)
    probability = cast(pd.DataFrame, fit.predict(kind="cluster"))["probability"].to_numpy(dtype=float)
    purity = np.bincount(labels, probability if weight is None else weight * probability) / size
    posterior = fit.posterior
    if isinstance(posterior, Posterior):
        stability = together(posterior.draws.flat("labels"), labels)
        of_families, words, n_left_out = parameters(fit.model, found, posterior.draws)
    else:
        stability = together_by_shares(posterior, labels, weight)
        of_families, words, n_left_out = parameters(fit.model, found, None, posterior.factors.exponential.shared)
    means, levels = _covariates(fit.model, labels, size)
    columns, words = [*of_families, *means], [*words, *levels]
    order = np.argsort(-size, kind="stable")
    return Clusters(
        found, order, size[order], stability[order], purity[order],
        tuple(Column(name, value[order], sd[order]) for name, value, sd in columns),
        tuple(Words(name, tuple(top[k] for k in order)) for name, top in words), n_left_out,
    )


def tie_notes(model: Specification, found: Clusters, labels: np.ndarray | None = None) -> list[str]:
    """Say what clusters have one value alone of a continuous response, by a point mass or rounding, and what does for rounding.

    Where the partition has none, chains are counted whose draws do, by their `labels` (chains, draws, n).

    Examples
    --------
    >>> import warnings
    >>> import nrmmix as nm
    >>> with warnings.catch_warnings(action="ignore"):
    ...     fit = nm.fit("y ~ 1", {"y": np.repeat([1.0, 2.0, 3.0], 20)}, draws=50, tune=50, chains=2, rng=1)
    >>> tie_notes(fit.model, clusters(fit))
    ["Clusters 0 to 2 hold one value of 'y' each, repeated: these are ties, not groups."]
    """
    if model.frame.is_sparse:
        return []
    notes = []
    for block in model.blocks.blocks:
        for j in block.columns if block.family.reads == "numbers" else ():
            y, name, expected = model.frame.seen[:, j], model.frame.response_names[j], block.family.point_masses
            tied = [int(k) for k in found.label if _is_tied(y[found.partition.labels == k], expected)]
            if said := _of_tied(tied, repr(name)) if tied else _of_tied_chains(y, repr(name), labels, expected):
                notes.append(" ".join(filter(None, [said, on_rounding(name, counted(y))])))
    return notes


def _of_tied(tied: Sequence[int], name: str) -> str:
    several = len(tied) > 1
    in_a_row = several and sorted(tied) == list(range(min(tied), max(tied) + 1))
    which = f"{min(tied)} to {max(tied)}" if in_a_row else listed(map(str, tied))
    words = ("s", "hold", f"{name} each", "groups") if several else ("", "holds", name, "a group")
    return f"Cluster{words[0]} {which} {words[1]} one value of {words[2]}, repeated: these are ties, not {words[3]}."


def _of_tied_chains(y: np.ndarray, name: str, labels: np.ndarray | None, expected: Collection[float]) -> str:
    """Say in how many chains draws have clusters of one value each, of so many rows that they are no chance; empty if in none."""
    if labels is None or not on_rounding(name, counted(y)):
        return ""
    looked_at = np.linspace(labels.shape[1] // 2, labels.shape[1] - 1, DRAWS_OF_TIES).astype(int)
    n = sum(min(_rows_of_ties(y, chain[draw], expected) for draw in looked_at) >= ROWS_OF_TIES * len(y) for chain in labels)
    return f"In {n} of {len(labels)} chains clusters hold one value of {name} each, repeated: these are ties, not groups." if n else ""


def _rows_of_ties(y: np.ndarray, labels: np.ndarray, expected: Collection[float]) -> int:
    """Number of rows in clusters of one value, if two clusters or more are; 0 otherwise."""
    sizes = [int((labels == k).sum()) for k in np.unique(labels) if _is_tied(y[labels == k], expected)]
    return sum(sizes) if len(sizes) > 1 else 0


def _is_tied(values: np.ndarray, expected: Collection[float]) -> bool:
    """Whether the values of a cluster, NaN where missing, are one, and not a point mass that is expected."""
    seen = values[~np.isnan(values)]
    return len(seen) >= MIN_TIES and bool((seen == seen[0]).all()) and float(seen[0]) not in expected


def notes_on_clusters(model: Specification, found: Clusters, labels: np.ndarray | None = None) -> list[str]:
    """Say which clusters are ties, also of draws by their `labels`, and where widths or numbers of clusters follow the prior, not the rows.

    Examples
    --------
    >>> import nrmmix as nm
    >>> y = np.random.default_rng(1).normal(size=16) + np.repeat([0.0, 9.0], 8)
    >>> fit = nm.fit("y ~ 1", {"y": y}, family=nm.Gaussian("spherical"), draws=50, tune=50, chains=2, rng=1)
    >>> notes_on_clusters(fit.model, clusters(fit))[0][:62]
    'Clusters have 8.0 rows on average, too few to show how wide cl'
    """
    return [*tie_notes(model, found, labels), *filter(None, [_scale_note(model, found.partition), _width_note(model, found)])]


def _width_note(model: Specification, found: Clusters) -> str:
    """Say which cluster is wider than its rows, in a column or towards the prior mean: one far off is as wide as the prior lets it be."""
    family, y = model.family, model.frame.response
    if model.is_regression or model.frame.weight is not None or not (isinstance(family, Gaussian) and _has_default_prior(family, y)):
        return ""
    scale = np.zeros(y.shape[1]) if is_law(family.scale) else np.asarray(family.scale, dtype=float)
    scale = np.diag(scale) if scale.ndim == 2 else np.broadcast_to(scale, y.shape[1])
    most, at, furthest = WIDER, (0, 0, 0.0, 0.0), 0.0
    stretched = _Stretched(0, STRETCHED, 0.0)
    for number, k in enumerate(found.label):
        own = y[found.partition.labels == k]
        n = (~np.isnan(own)).sum(axis=0)
        if n.min() < MIN_IN_WIDE:
            continue
        variance, far = np.nanvar(own, axis=0, ddof=1), (np.nanmean(own, axis=0) - family.m) ** 2
        fitted = (scale + (n - 1) * variance + family.r * n / (n + family.r) * far) / n
        ratio = np.sqrt(np.divide(fitted, variance, out=np.zeros(len(n)), where=variance > 0))
        stretched = max(stretched, _stretched(number, own, family), key=lambda one: one.ratio)
        furthest = max(furthest, float(np.max(np.divide(far, variance, out=np.zeros(len(n)), where=variance > 0))))
        if ratio.max() > most:
            most, j = ratio.max(), int(ratio.argmax())
            at = number, j, math.sqrt(fitted[j]), math.sqrt(variance[j])
    if most == WIDER or furthest == 0.0:
        return stretched.note()
    number, j, by_prior, of_rows = at
    first = "" if family.covariance == "full" else f'"{family.covariance}", '
    v = {"full": "the diagonal matrix of the variances", "diagonal": "the variances", "spherical": "the mean variance"}[family.covariance]
    return (
        f"Cluster {number} is wider by the prior, whose scale and r follow the range of all rows, than by its own rows: its standard "
        f"deviation of {model.frame.response_names[j]!r} is about {by_prior:.3g}, and {of_rows:.3g} of the rows. Groups that are near "
        f"each other may be joined. See what stays with family=nm.Gaussian({first}scale=v, r={1 / furthest:.2g}), v being "
        f"{f'{of_rows**2:.3g}' if y.shape[1] == 1 else f'{v} of the rows of cluster {number}'}."
    )


class _Stretched(NamedTuple):
    """A cluster, its standard deviation over that of its rows in the direction of the prior mean, and its squared distance from there."""

    number: int
    ratio: float
    distance: float  # in covariances of its rows

    def note(self) -> str:
        """Say what the prior does to it; empty if it is none."""
        if not self.distance:
            return ""
        return (
            f"Cluster {self.number} is stretched by the prior towards the mean of all rows: its standard deviation in that direction is "
            f"about {self.ratio:.2g} times that of its own rows, and its columns seem correlated by that. See what stays with "
            f"family=nm.Gaussian(r={1 / self.distance:.2g})."
        )


def _stretched(number: int, own: np.ndarray, family: Gaussian) -> _Stretched:
    n, d = own.shape
    if family.covariance != "full" or d == 1 or n < 2 * d or np.isnan(own).any():
        return _Stretched(number, 0.0, 0.0)
    far, covariance = own.mean(axis=0) - family.m, np.cov(own, rowvar=False)
    distance = float(far @ np.linalg.lstsq(covariance, far)[0])
    return _Stretched(number, math.sqrt(1.0 + family.r / (family.r + n) * max(distance, 0.0)), distance)


def _scale_note(model: Specification, partition: Partition) -> str:
    family, K, n = model.family, partition.n_clusters, model.frame.size
    few = n < FEW_ROWS * K
    if K < 2 or model.is_regression or not (few and isinstance(family, Gaussian) and _has_default_scale(family, model.frame.response)):
        return ""
    first = "" if family.covariance == "full" else f'"{family.covariance}", '
    return (
        f"Clusters have {n / K:.1f} rows on average, too few to show how wide clusters are: how many there are follows the "
        f"default scale of the prior. See what stays with family=nm.Gaussian({first}scale=10 * fit.model.family.scale)."
    )


def _has_default_scale(family: Gaussian, y: np.ndarray) -> bool:
    """Whether components are as wide, before they meet the data, as they are by default; a scale that is sampled follows the data."""
    return not is_law(family.scale) and _has_default_prior(family, y)


def _has_default_prior(family: Gaussian, y: np.ndarray) -> bool:
    """Whether widths and distances of components with unknown means and variances of their own are, a priori, those by default."""
    if family.covariance == "tied" or family.known_mean is not None or family.known_covariance is not None:
        return False
    try:
        default = family.with_values(scale=None, r=None).resolve(y)
    except ValueError:  # of few or constant values there is no default
        return False
    scales = default.scale, family.scale
    return default.r == family.r and (all(map(is_law, scales)) or (not any(map(is_law, scales)) and np.array_equal(*scales)))


def why_counts_differ(mean: float, partition: Partition) -> str:
    """Why a partition has more or fewer clusters than draws have on average, in a sentence; empty where it has about as many.

    Examples
    --------
    >>> from nrmmix.posterior.partition import estimate
    >>> found = estimate([[0, 0, 1, 1], [0, 0, 1, 1]], rng=1)
    >>> why_counts_differ(2.4, found), why_counts_differ(4.2, found)[:47]
    ('', 'Draws have 4.2 clusters on average, the table 2')
    """
    if abs(mean - partition.n_clusters) <= APART:
        return ""
    return (
        f"Draws have {mean:.1f} clusters on average, the table {partition.n_clusters}: the mean counts every cluster of every draw, small "
        "ones that come and go too, and the table is one partition, the point estimate of least expected loss."
    )


def together(draws: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return, for each cluster of a partition (n,), the mean over its pairs of the share of draws (T, n) in which they are together.

    NaN of a single member.  Of more than 500 draws 500 are used, evenly spaced.
    """
    size = np.bincount(labels)
    total, T = np.zeros(len(size)), min(len(draws), DRAWS)
    for t in (np.arange(T) * len(draws)) // T:
        K = int(draws[t].max()) + 1
        both = np.bincount(labels * K + draws[t], minlength=len(size) * K).reshape(len(size), K).astype(float)
        total += (both * (both - 1.0)).sum(axis=1) / T
    return np.where(size > 1, total / np.maximum(size * (size - 1.0), 1.0), np.nan)


def together_by_shares(
    posterior: FactorPosterior | KernelFactorPosterior, labels: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """Return such means where rows belong to components by shares r: of a pair the sum over components of the products of their shares.

    A row of weight w stands for w rows, which are pairs too.
    """
    w = np.ones(len(labels)) if weight is None else weight
    size = np.bincount(labels, w)
    total = np.zeros((len(size), posterior.factors.n_components))
    with_itself = np.zeros(len(size))
    for rows, r in posterior.blocks():
        np.add.at(total, labels[rows], (r * w[rows]).T)
        with_itself += np.bincount(labels[rows], weights=w[rows] * (r**2).sum(axis=0), minlength=len(size))
    pairs = np.where(size > 1, size * (size - 1.0), np.nan)
    return np.maximum((total**2).sum(axis=1) - with_itself, 0.0) / pairs  # fractions may have less in all than with themselves


def parameters(
    model: Specification, partition: Partition, draws: Draws | None, shared: Mapping[str, np.ndarray] | None = None
) -> tuple[list[Column], list[Words], int]:
    """Parameters of the clusters of a partition as columns, shares as leading words where they are many, and how many were left out."""
    columns, words, left_out = [], [], 0
    for every in parameters_of(model, partition.labels, draws, shared):
        own = shown = [parameter for parameter in every if not parameter.is_detail]
        if len(own) > MAX_IN_FULL:
            if own[0].name.startswith(SHARE):
                words.append(_words(own))
                continue
            shown = [parameter for parameter in own if parameter.name.startswith("mean ")] or own
        left_out += len(shown[MAX_PARAMETERS:])
        columns += [Column(*parameter[:3]) for parameter in shown[:MAX_PARAMETERS]]
    return columns, words, left_out


def _words(shares: list[Parameter]) -> Words:
    names = [parameter.name.removeprefix(SHARE) for parameter in shares]
    return _leading("Largest shares", names, np.array([parameter.mean for parameter in shares]))


def _leading(title: str, names: list[str], shares: np.ndarray) -> Words:
    """The largest shares (words, K) of each cluster; none of those that it has none of."""
    top = np.argsort(-shares, axis=0, kind="stable")[:TOP_WORDS].T
    found = tuple(tuple((names[j], float(shares[j, k])) for j in rows if shares[j, k] > 0) for k, rows in enumerate(top))
    return Words(title, found)


def _covariates(model: Specification, labels: np.ndarray, size: np.ndarray) -> tuple[list[Column], list[Words]]:
    """Describe the members of each cluster: means of covariates that are numbers, the commonest levels of those that are categories."""
    frame = model.frame
    if frame.covariates is None:
        return [], []
    means, levels = [], []
    weight = np.ones(len(labels)) if frame.weight is None else frame.weight
    for name, x, is_category in zip(frame.covariate_names, frame.covariates.T, frame.is_category, strict=True):
        if not is_category:
            means.append(Column(f"mean {name}", np.bincount(labels, weights=weight * x) / size, np.full(len(size), np.nan)))
            continue
        own = frame.covariate_columns[name]
        assert own is not None  # of a category
        count = np.bincount(labels * len(own) + x.astype(int), weight, minlength=len(size) * len(own)).reshape(len(size), -1)
        levels.append(_leading(f"Levels of {name}", list(map(str, own)), (count / size[:, None]).T))
    return means, levels
