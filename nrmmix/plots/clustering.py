"""Pictures of the clustering: the point estimate on the data, and how often rows share a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import numpy as np

from nrmmix.model.specification import Specification
from nrmmix.plots import style
from nrmmix.plots.kinds import (
    LEVELS,
    categories_of,
    check,
    covariates,
    kind,
    levels_of,
    predicted,
    responses,
    scattered,
    shapes,
    suits_all,
    values_of,
)
from nrmmix.posterior.partition import similarity as share_of_draws
from nrmmix.results.mcmc import MCMCResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN_ROWS = 2000  # rows of the similarity matrix that a picture resolves
NAMED = 8  # largest clusters, with a legend or a row of their own
PAIRED = 4  # responses of which every pair is drawn; more are projected on a plane
UNSURE, LOOKS = (0.75, 0.95), ((6, 0.35), (28, 0.6), (75, 0.85))  # shares of less unsure rows; sizes and opacities
FAINTEST = 0.25  # opacity of a row that certainly is not in its cluster
FAR, IQR, MAX_FAR = 15.0, 1.349, 0.05  # standard deviations by quartiles that are very far, and the share of rows that may be


@kind(suits_all, "probabilities that two rows share a cluster")
def similarity(fit: MCMCResult, ax: Any = None, *, loss: str = "vi") -> Any:
    """Posterior probabilities that two rows share a cluster, as an image whose rows follow the point estimate of the clustering.

    Clusters come by size, the largest first, and within each the rows that most surely belong to it; squares mark the clusters.  Of more
    than 2,000 rows 2,000 are drawn, evenly spaced in that order, so that every cluster keeps its share.

    Parameters
    ----------
    fit, ax
        See `plot`.
    loss : {"vi", "binder"}, default "vi"
        Loss of the point estimate, see `MCMCResult.partition`.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If the loss is unknown.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("log_anc ~ 1", nm.datasets.load_acidity(), draws=50, tune=50, chains=2, rng=1)
    >>> similarity(fit, Figure().subplots()).images[0].get_array().shape
    (155, 155)
    """
    from matplotlib.patches import Rectangle

    with style.panels(ax, ["similarity"]) as (ax,):
        labels = fit.partition(cast(Literal["vi", "binder"], loss)).labels
        rows = np.argsort(rank_by_size(labels)[labels], kind="stable")
        if len(rows) > SHOWN_ROWS:
            rows = rows[(np.arange(SHOWN_ROWS) * len(rows)) // SHOWN_ROWS]
        values = share_of_draws(fit.draws.flat("labels")[:, rows])
        cluster = labels[rows]
        own = np.array([row[cluster == mine].mean() for row, mine in zip(values, cluster, strict=True)])
        order = np.lexsort([-own, rank_by_size(labels)[cluster]])
        image = ax.imshow(values[np.ix_(order, order)], cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
        ends = np.flatnonzero(np.diff(cluster, append=-1)) + 1
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            ax.add_patch(Rectangle((start - 0.5, start - 0.5), end - start, end - start, fill=False, edgecolor=style.ORANGE, linewidth=1.2))
        style.color_bar(ax, image, "probability of sharing a cluster")
        some = f"{len(rows):,} of {len(labels):,} rows" if len(rows) < len(labels) else "rows"
        style.dress(ax, f"{some}, by cluster of the point estimate", "")
        return ax


def rank_by_size(labels: np.ndarray) -> np.ndarray:
    """Place of each cluster by size, the largest first; of equal ones the first to appear."""
    rank = np.empty(labels.max() + 1, np.int64)
    rank[np.argsort(-np.bincount(labels), kind="stable")] = np.arange(len(rank))
    return rank


@dataclass(frozen=True)
class Clustering:
    """A point estimate and how it is drawn: clusters by size."""

    labels: np.ndarray  # (n,)
    probability: np.ndarray  # (n,) of belonging to its cluster

    @classmethod
    def of(cls, fit: MCMCResult, draws: int) -> Self:
        table = predicted(fit, kind="cluster", draws=draws)
        return cls(table["cluster"].to_numpy(dtype=np.int64), table["probability"].to_numpy())

    @property
    def by_size(self) -> np.ndarray:
        return np.argsort(rank_by_size(self.labels))

    def scatter(self, ax: Axes, x: np.ndarray, y: np.ndarray) -> None:
        """Rows in the colour and shape of their cluster, the fainter the less surely they belong to it; small clusters on top."""
        from matplotlib.colors import to_rgba_array

        crowd = max(min(1.0, 1000 / len(self.labels)) ** 0.35, 0.3)
        for rank, cluster in enumerate(self.by_size):
            rows = self.labels == cluster
            color = to_rgba_array(style.CYCLE[rank % len(style.CYCLE)]).repeat(rows.sum(), axis=0)
            color[:, 3] = crowd * (FAINTEST + (1 - FAINTEST) * self.probability[rows])
            marker = style.MARKERS[rank % len(style.MARKERS)]
            looks = {"s": 20 * crowd, "linewidths": 0, "rasterized": len(x) > 5000, "label": f"cluster {cluster} ({rows.sum()})"}
            ax.scatter(x[rows], y[rows], c=color, marker=marker, **looks)

    def handles(self, ax: Axes) -> list[Any]:
        """Entries of a legend: the largest clusters, and how many others there are."""
        from matplotlib.lines import Line2D

        named = [
            Line2D([], [], linestyle="", marker=style.MARKERS[rank % len(style.MARKERS)], color=style.CYCLE[rank], label=label)
            for rank, label in enumerate(ax.get_legend_handles_labels()[1][:NAMED])
        ]
        others = len(self.by_size) - NAMED
        return [*named, Line2D([], [], linestyle="", label=f"and {others} more")] if others > 0 else named

    def strip(self, ax: Axes, name: str, y: np.ndarray) -> None:
        """One response: a row of marks for each cluster."""
        rank = np.minimum(rank_by_size(self.labels)[self.labels], NAMED)
        self.scatter(ax, y, rank + 0.7 * style.jitter(len(y)))
        names = [handle.get_label() for handle in self.handles(ax)]
        style.dress(ax, name, "")
        style.rows(ax, names)


class Uncertain(Clustering):
    """Rows by how unsure their cluster is: small, of middle size, and large."""

    @property
    def uncertainty(self) -> np.ndarray:
        return 1.0 - self.probability

    @property
    def bounds(self) -> np.ndarray:
        """Uncertainties from which on rows are of middle size, and large."""
        return np.quantile(self.uncertainty, UNSURE)

    @property
    def ends(self) -> list[str]:
        """Largest uncertainty of each size in words: sizes that end alike are drawn as the smallest of them."""
        return [f"up to {end:.2g}" for end in (*self.bounds, self.uncertainty.max())]

    def scatter(self, ax: Axes, x: np.ndarray, y: np.ndarray) -> None:
        crowd = max(min(1.0, 1000 / len(self.labels)) ** 0.35, 0.3)
        rank, group = rank_by_size(self.labels)[self.labels], np.searchsorted(self.bounds, self.uncertainty, side="left")
        group = np.array([self.ends.index(end) for end in self.ends])[group]
        for level, (size, alpha) in enumerate(LOOKS):  # the large ones on top
            rows = group == level
            color = np.array(style.CYCLE)[rank[rows] % len(style.CYCLE)]
            edge = "black" if level == len(LOOKS) - 1 else "none"
            ax.scatter(x[rows], y[rows], s=size * crowd, c=color, alpha=alpha, edgecolors=edge, linewidths=0.6, rasterized=len(x) > 5000)

    def handles(self, ax: Axes) -> list[Any]:
        from matplotlib.lines import Line2D

        looks: dict[str, Any] = {"linestyle": "", "marker": "o", "color": "0.35"}
        return [
            Line2D([], [], markersize=size**0.5, alpha=alpha, label=end if level else f"uncertainty {end}", **looks)
            for level, ((size, alpha), end) in enumerate(zip(LOOKS, self.ends, strict=True)) if self.ends.index(end) == level
        ]

    def strip(self, ax: Axes, name: str, y: np.ndarray) -> None:
        self.scatter(ax, y, self.uncertainty)
        style.rug(ax, y)
        style.dress(ax, name, "uncertainty")
        ax.set_ylim(bottom=-0.02)
        style.legend(ax, self.handles(ax))


def _needs(model: Specification) -> str | None:
    if model.frame.is_sparse:
        return "needs counts that are not sparse"
    columns = model.frame.covariate_columns
    if len(columns) > 2:
        return f"needs at most two covariates, not {len(columns)} ({', '.join(columns)})"
    return None


@kind(_needs, "point estimate of the clustering, up to two covariates")
def clusters(fit: MCMCResult, ax: Any = None, *, response: str | Sequence[str] | None = None, draws: int = 500) -> Any:
    """The point estimate of the clustering on the data; the less surely a row belongs to its cluster, the fainter its mark.

    A mixture of one response: a row of marks for each cluster.  Two: the plane of both.  Three or four: every pair of them.  More: the
    plane of the first two principal components of the standardised responses, categories by an indicator each, what is missing at the
    mean; where a few rows, one in twenty or fewer, lie very far from the others, components and limits are those of the others, and
    the picture says how many lie outside.  Marks of one count or category stand beside each other.  Density regression: the
    responses over a covariate, or the plane of two covariates.  The legend names the eight largest clusters by their numbers in
    `fit.partition()`, with their sizes.

    Parameters
    ----------
    fit, ax
        See `plot`.
    response : str or sequence of str, optional
        Default every response.
    draws : int, default 500
        Posterior draws behind the probabilities that rows belong to their clusters, those of `MCMCResult.predict`.

    Returns
    -------
    Axes, or an ndarray of Axes: (d - 1, d - 1) for the pairs of d responses, those above the diagonal invisible; one for each response
    of a regression

    Raises
    ------
    ValueError
        If there are more than two covariates, a response is unknown, or `ax` holds another number of axes than there are pictures.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("log_anc ~ 1", nm.datasets.load_acidity(), draws=50, tune=50, chains=2, rng=1)
    >>> clusters(fit, Figure().subplots()).get_xlabel()
    'log_anc'
    """
    check(fit.model, "clusters")
    return _on_the_data(fit, ax, response, Clustering.of(fit, draws))


@kind(_needs, "how uncertain it is to which cluster rows belong")
def uncertainty(fit: MCMCResult, ax: Any = None, *, response: str | Sequence[str] | None = None, draws: int = 500) -> Any:
    """The data, rows the larger and the darker the less sure their cluster is, as mclust draws them.

    Uncertainty is 1 less the probability that a row belongs to its cluster of the point estimate, `fit.clusters()`.  Of each hundred rows
    the five of the largest uncertainty are drawn large, the next twenty of middle size, the others small.  A mixture of one response has
    its uncertainty over the response; other models are drawn as by "clusters".

    Parameters
    ----------
    fit, ax
        See `plot`.
    response : str or sequence of str, optional
        Default every response.
    draws : int, default 500
        Posterior draws behind the probabilities.

    Returns
    -------
    Axes, or an ndarray of Axes, as of "clusters"

    Raises
    ------
    ValueError
        As of "clusters".

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("log_anc ~ 1", nm.datasets.load_acidity(), draws=50, tune=50, chains=2, rng=1)
    >>> uncertainty(fit, Figure().subplots()).get_ylabel()
    'uncertainty'
    """
    check(fit.model, "uncertainty")
    return _on_the_data(fit, ax, response, Uncertain.of(fit, draws))


def _on_the_data(fit: MCMCResult, ax: Any, response: str | Sequence[str] | None, found: Clustering) -> Any:
    names = responses(fit.model, response) if response is not None else fit.model.frame.response_names
    if response is not None and len(fit.model.frame.covariate_columns) == 2:
        raise ValueError("response: the plane of two covariates shows no response; leave it out.")
    if fit.model.is_regression:
        return _over_covariates(fit.model, ax, names, found)
    if len(names) in range(3, PAIRED + 1):
        return _pairs(fit.model, ax, names, found)
    with style.panels(ax, [" and ".join(names)], "response") as (ax,):
        if len(names) == 1:
            found.strip(ax, names[0], scattered(fit.model, names[0], style.PLASTIC))
            _level_axes(fit.model, ax, names[0])
            return ax
        if len(names) > 2:
            y, axes, far = _principal(fit.model, names)
            found.scatter(ax, *y)
            if far.any():
                for limits, values in zip((ax.set_xlim, ax.set_ylim), y, strict=True):
                    limits(*style.padded(values[~far], 0.05, 2))
                inside = [(low <= y[k]) & (y[k] <= high) for k, (low, high) in enumerate((ax.get_xlim(), ax.get_ylim()))]
                axes[0] = (axes[0], _outside(found.labels[~(inside[0] & inside[1])]))
            style.dress(ax, *axes)
        else:
            _plane(fit.model, ax, names[0], names[1], found)
            style.dress(ax, *names)
        style.legend(ax, found.handles(ax))
        return ax


def _plane(model: Specification, ax: Axes, x: str, y: str, found: Clustering) -> None:
    found.scatter(ax, scattered(model, x), scattered(model, y, style.PLASTIC))
    _level_axes(model, ax, x, y)


def _level_axes(model: Specification, ax: Axes, *names: str) -> None:
    for axis, name in zip("xy", names):
        if shapes(model)[name] == LEVELS:
            style.level_axis(ax, axis, categories_of(model, name))


def _pairs(model: Specification, ax: Any, names: Sequence[str], found: Clustering) -> np.ndarray:
    d = len(names)
    if ax is not None:
        raise ValueError(f"the pairs of {d} responses need axes of their own; leave out ax, or name one or two by response=.")
    with style.figure(d - 1, d - 1, (2.6, 2.3)) as axes:
        for i, j in np.argwhere(np.tri(d - 1, dtype=bool)).tolist():
            _plane(model, axes[i, j], names[j], names[i + 1], found)
        style.dress_triangle(axes, names[:-1], names[1:], found.handles(axes[-1, 0]))
        return axes


def _outside(labels: np.ndarray) -> str:
    """Say how many rows are not in the picture, and of which clusters."""
    of = ", ".join(f"{(labels == k).sum()} of cluster {k}" for k in np.unique(labels)[:NAMED])
    return f"outside: {len(labels)} row{'s' if len(labels) > 1 else ''} ({of})"


def _far(y: np.ndarray) -> np.ndarray:
    """(n,) bool: which values (n,) lie very far from the others, by their quartiles."""
    low, middle, high = np.quantile(y, (0.25, 0.5, 0.75))
    return np.abs(y - middle) > FAR * ((high - low) / IQR if high > low else y.std())


def _principal(model: Specification, names: Sequence[str]) -> tuple[np.ndarray, list[Any], np.ndarray]:
    """The first two principal components (2, n) of standardised columns, what to call them, and which rows are too far to count (n,)."""
    columns, far = [], np.zeros(model.n_obs, bool)
    for name in names:
        y, levels = values_of(model, name), levels_of(model, name)
        own = [y] if levels is None else [np.where(np.isnan(y), np.nan, y == code) for code in range(1, len(levels))]
        columns += [np.where(np.isnan(x), np.nanmean(x), x) for x in own]
        if levels is None:
            far |= _far(columns[-1])
    y = np.column_stack(columns)
    far &= far.sum() <= MAX_FAR * len(far)
    y = y[:, y[~far].std(axis=0) > 0]
    z = (y - y[~far].mean(axis=0)) / y[~far].std(axis=0)
    _, length, axes = np.linalg.svd(z[~far], full_matrices=False)
    share = length**2 / (length**2).sum()
    return (z @ axes[:2].T).T, [f"principal component {k + 1} ({share[k]:.0%} of the variance)" for k in range(2)], far


def _over_covariates(model: Specification, ax: Any, names: Sequence[str], found: Clustering) -> Any:
    x, *second = covariates(model)
    shown = {name: scattered(model, name, style.PLASTIC) for name in names} if not second else {second[0].name: second[0].scattered()}
    with style.panels(ax, tuple(shown), "response") as axes:
        for one, (name, y) in zip(axes, shown.items(), strict=True):
            found.scatter(one, x.scattered(), y)
            style.dress(one, x.label, name)
            if not second and shapes(model)[name] == LEVELS:
                style.level_axis(one, "y", categories_of(model, name))
            for axis, covariate in zip("xy", [x, *second]):
                if covariate.levels is not None:
                    style.level_axis(one, axis, covariate.levels)
        return style.finish(axes, ax is None, found.handles(axes[0]))
