"""Pictures of what the clusters of the point estimate are like: their shares, means or lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nrmmix.common.compiling import announced
from nrmmix.common.messages import count
from nrmmix.model.frame.arrays import column as read_column
from nrmmix.model.frame.rows import NewRows
from nrmmix.model.specification import Specification
from nrmmix.plots import style
from nrmmix.plots.clustering import Clustering
from nrmmix.plots.kinds import SHARE, check, kind, shapes, typical_inputs, values_of
from nrmmix.posterior.draws import Posterior
from nrmmix.posterior.predict.kernel_states import completed_clusters
from nrmmix.results.mcmc import MCMCResult

PANELS, WORDS = 6, 10  # largest clusters, and their largest shares
MAX_MEANS = 6  # means that pictures of the data show as well
ROWS = 20  # clusters of an image
MIN_MEMBERS = 2  # members of a cluster whose line is thin
NAMED = 40  # means with a tick of their own
WITHIN = 0.9  # of the rows, whose clusters the colours of an image span
POINTS = 100  # along a line


def means(fit: MCMCResult, labels: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """Means (I, K, W) of the responses in the clusters of a partition at rows of inputs (I, e), or (1, e)."""
    draws = fit.posterior.draws if isinstance(fit.posterior, Posterior) else None
    with announced():
        values = [clusters.means(clusters.points(None, inputs)) for clusters in completed_clusters(fit.model, labels, draws)]
    return np.mean([fit.model.blocks.means(one[:, :-1], fit.model.packed) for one in values], axis=0)


def _needs_many(model: Specification) -> str | None:
    if SHARE in shapes(model).values() or len(model.blocks.mean_names()) > MAX_MEANS:
        return None
    return f"needs counts given their total, or more than {MAX_MEANS} responses"


@kind(_needs_many, "largest shares, or many means, of each cluster")
def profiles(fit: MCMCResult, ax: Any = None, *, clusters: int = PANELS, words: int = WORDS) -> Any:
    """Draw what distinguishes the clusters of the point estimate: largest shares of counts given totals, or means of all responses.

    Of counts given their total a panel for each of the largest clusters, with its largest posterior mean shares; the hollow marks are
    the shares in all data.  Otherwise an image: posterior means of the twenty largest clusters, a column each, in standard deviations
    from the mean of the response; colours span what clusters of nine tenths of the rows do.

    Parameters
    ----------
    fit, ax
        See `plot`.
    clusters : int, default 6
        Most clusters with a panel, the largest.
    words : int, default 10
        Shares in a panel.

    Returns
    -------
    Axes, or an ndarray of Axes, one for each cluster

    Raises
    ------
    ValueError
        If the model has few responses, a number is out of range, or `ax` holds another number of axes than there are pictures.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> data = np.random.default_rng(0).poisson([[40, 5, 5], [5, 5, 40]] * 20)
    >>> fit = nm.fit(data=data, family=nm.Multinomial(), draws=50, tune=50, chains=2, rng=1)
    >>> [one.get_title() for one in profiles(fit, Figure().subplots(1, 2), clusters=2)]
    ['cluster 0 (20)', 'cluster 1 (20)']
    """
    check(fit.model, "profiles")
    clusters, words = count("clusters", clusters, 1), count("words", words, 1)
    found = fit.partition()
    inputs = fit.model.frame.inputs
    values = means(fit, found.labels, inputs.mean(axis=0, keepdims=True))[0]
    order = np.argsort(-found.sizes, kind="stable")
    if SHARE in shapes(fit.model).values():
        return _largest_shares(fit.model, ax, values, found.sizes, order[:clusters], words)
    order = order[:ROWS]
    return _image(fit.model, ax, values[order], [f"cluster {k} ({found.sizes[k]})" for k in order], found.sizes[order])


def _largest_shares(model: Specification, ax: Any, values: np.ndarray, sizes: np.ndarray, order: np.ndarray, words: int) -> Any:
    shape_of, names = shapes(model), np.array(model.blocks.mean_names(), dtype=object)
    of = np.array(model.frame.response_names, dtype=object)[model.blocks.mean_responses()]
    own = np.flatnonzero([shape_of[name] == SHARE for name in of])
    overall = np.concatenate([_overall(model, block.columns) for block in model.blocks.blocks if block.family.needs_totals])
    titles = [f"cluster {k} ({sizes[k]})" for k in order]
    with style.panels(ax, titles, "clusters", size=(3.4, 0.24 * min(words, len(own)) + 0.9)) as axes:
        for one, k, title in zip(axes, order, titles, strict=True):
            top = np.argsort(-values[k, own], kind="stable")[:words][::-1]
            y = np.arange(len(top))
            one.barh(y, values[k, own[top]], color=style.BLUE, alpha=0.65, label="posterior mean share")
            hollow = {"linestyle": "", "marker": "o", "markersize": 5, "markerfacecolor": "none", "color": "black"}
            one.plot(overall[top], y, label="share in all data", **hollow)
            one.set_yticks(y, [style.literal(str(name)) for name in names[own[top]]])
            style.dress(one, "share", "")
            one.set_title(title, fontsize=9)
            one.margins(x=0.05)
        if ax is None and len(axes) > 1:
            return style.finish(axes, True)
        return axes[0] if len(axes) == 1 else axes


def _overall(model: Specification, columns: np.ndarray) -> np.ndarray:
    counts = model.frame.response[:, columns]
    total = np.asarray(counts.sum(axis=0), float) if model.frame.is_sparse else np.nansum(counts, axis=0)
    return total / total.sum()


def _image(model: Specification, ax: Any, values: np.ndarray, titles: Sequence[str], sizes: np.ndarray) -> Any:
    observed = _observed(model)
    sd = np.nanstd(observed, axis=0)
    z = (values - np.nanmean(observed, axis=0)) / np.where(sd > 0, sd, 1.0)
    names = model.blocks.mean_names()
    shown = [style.literal(name) for name in names] if len(names) <= NAMED else []
    size = (max(3.6, 0.32 * len(titles) + 0.09 * max(map(len, names)) + 2.2), max(3.2, (0.2 if shown else 0.05) * len(names) + 1.6))
    with style.panels(ax, ["profiles"], size=(min(size[0], 12.0), min(size[1], 12.0)), single=True) as (ax,):
        bound = _bound(z, sizes)
        image = ax.imshow(z.T, cmap="RdBu_r", vmin=-bound, vmax=bound, aspect="auto", interpolation="nearest")
        beyond = "both" if np.abs(z).max() > bound else "neither"
        style.color_bar(ax, image, ("mean, in standard deviations", "from that of all"), extend=beyond)
        style.dress(ax, "", "" if shown else f"{len(names)} responses, in their order")
        ax.set_yticks(range(len(shown)), shown)
        ax.set_xticks(range(len(titles)), titles, rotation=60, ha="right", rotation_mode="anchor")
        return ax


def _bound(z: np.ndarray, sizes: np.ndarray) -> float:
    """Limit of the colours: what nine tenths of the rows stay within, whatever a few far clusters do; theirs is the last colour."""
    each = np.abs(z).max(axis=1)
    order = np.argsort(each)
    share = np.cumsum(sizes[order]) / sizes.sum()
    return float(max(each[order][np.searchsorted(share, WITHIN)], 1e-12))


def _observed(model: Specification) -> np.ndarray:
    """(n, W) observed values behind the means: indicators of categories."""
    columns = []
    for name, levels in zip(model.frame.response_names, model.frame.levels, strict=True):
        y = values_of(model, name)
        columns += [y] if levels is None else [np.where(np.isnan(y), np.nan, y == code) for code in range(len(levels))]
    return np.column_stack(columns)


# ---- components with inputs

def _needs_lines(model: Specification) -> str | None:
    if model.is_regression:
        return "needs a mixture, and this is density regression"
    columns, numeric = model.frame.input_columns, model.n_dim == 1 and model.frame.reads == ("numbers",)
    if len(columns) != 1 or not numeric:
        return "needs one response, a number, whose components depend on one column, as with nm.Regression"
    if not isinstance(read_column(model.frame.source[columns[0]], columns[0]), np.ndarray):
        return f"needs a numeric column, and {columns[0]!r} has levels"
    return None


@kind(_needs_lines, "mean of each cluster over the column of a nm.Regression")
def components(fit: MCMCResult, ax: Any = None, *, draws: int = 500, points: int = POINTS) -> Any:
    """Mean of each cluster of the point estimate over the column that its components depend on, with the data.

    Lines run over the range of the members; small clusters, whose lines say little, are drawn thinner.

    Parameters
    ----------
    fit, ax
        See `plot`.
    draws : int, default 500
        Posterior draws behind the probabilities that rows belong to their clusters: the less sure, the fainter their marks.
    points : int, default 100
        Points along the column.

    Returns
    -------
    Axes

    Raises
    ------
    ValueError
        If the model is none of such components.

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> x = np.arange(40.0)
    >>> data = {"x": x, "y": np.where(x % 2 == 0, x, 30 - 2 * x) + np.sin(x)}
    >>> fit = nm.fit("y ~ 1", data, family=nm.Regression("1 + x"), draws=50, tune=50, chains=2, rng=1)
    >>> components(fit, Figure().subplots()).get_xlabel()
    'x'
    """
    check(fit.model, "components")
    model, points = fit.model, count("points", points, 2)
    (name,), (response,) = model.frame.input_columns, model.frame.response_names
    found = Clustering.of(fit, draws)
    x = np.asarray(read_column(model.frame.source[name], name), float)
    grid = style.padded(x, 0.0, points)
    inputs, _ = NewRows(model.frame, typical_inputs(model) | {name: grid}).inputs()
    lines = means(fit, found.labels, inputs)[..., 0]
    with style.panels(ax, ["components"]) as (ax,):
        found.scatter(ax, x, values_of(model, response))
        for rank, k in enumerate(found.by_size):
            own = x[found.labels == k]
            within = (grid >= own.min()) & (grid <= own.max())
            width = style.LINE if len(own) > MIN_MEMBERS else 0.7
            ax.plot(grid[within], lines[within, k], color=style.CYCLE[rank % len(style.CYCLE)], linewidth=width)
        style.dress(ax, name, response)
        style.legend(ax, found.handles(ax))
        return ax
