"""Pictures of searches: their trees over rows, and those that they share with other fits."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

import numpy as np

from nrmmix.inference.search.tree import Tree
from nrmmix.plots import style
from nrmmix.plots.clustering import rank_by_size
from nrmmix.plots.kinds import KINDS
from nrmmix.results.search import PICTURES, SearchResult

MAX_LEAVES = 120  # rows that have a place each; of more, the trees below the cut are triangles
LINEAR = 10.0  # log d up to which the axis is linear
NAMED = 30  # clusters whose numbers are written below them


def available(fit: SearchResult) -> tuple[str, ...]:
    """The pictures that there are of a search."""
    return tuple(kind for kind in PICTURES if kind not in KINDS or KINDS[kind].refusal(fit.model) is None)


def drawing(kind: str) -> Callable[..., Any]:
    """The function that draws a kind."""
    return dendrogram if kind == PICTURES[0] else KINDS[kind].draw


def dendrogram(fit: SearchResult, ax: Any = None, *, leaves: bool | None = None) -> Any:
    """The tree that a search has found, its clusters in colours.

    A node stands at the smallest log d of the nodes from itself up to the root, which are all above the cut where its children are in
    different clusters: the tree is cut at the dashed line, d = 1.  The axis is linear between -10 and 10, and logarithmic beyond.
    Colours are those of the picture of clusters, by size; black joins clusters.

    Parameters
    ----------
    fit : SearchResult
    ax : matplotlib Axes, optional
        Where to draw; default a new figure.
    leaves : bool, optional
        Whether every row has a place of its own.  Otherwise the tree of a cluster is a triangle as wide as its share of the rows.
        Default: up to 120 rows.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import nrmmix as nm
    >>> from matplotlib.figure import Figure
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="ibhc", rng=1)
    >>> dendrogram(fit, Figure().subplots()).get_xlabel()
    'rows, by cluster'
    """
    from matplotlib.collections import LineCollection, PolyCollection

    tree, n = fit.tree, fit.tree.n_leaves
    leaves = n <= MAX_LEAVES if leaves is None else bool(leaves)
    cut = tree.cut(fit.n_clusters)
    height = _heights(tree)
    inner = height[n:]
    low, high = float(inner.min(initial=0.0)), float(inner.max(initial=0.0))
    floor = height[:n] = low - 1.0
    rank = rank_by_size(fit.labels)
    color = [style.CYCLE[rank[fit.labels[tree.rows(node)[0]]] % len(style.CYCLE)] for node in cut]
    colors = dict(zip(cut.tolist(), color, strict=True))
    with style.panels(ax, ["dendrogram"]) as (ax,):
        place = _places(tree, [] if leaves else colors)
        lines, shades, triangles, fills = [], [], [], []
        waiting = [(tree.root, "black", False)]
        while waiting:
            node, shade, below = waiting.pop()
            if node in colors:
                shade, below = colors[node], True
            if below and not leaves:
                ends = place[tree.rows(node)[[0, -1]]] + [-0.5, 0.5]
                triangles.append([(ends[0], floor), (place[node], height[node]), (ends[1], floor)])
                fills.append(shade)
                continue
            if node < n:
                continue
            left, right = int(tree.left[node - n]), int(tree.right[node - n])
            bar = [(place[left], height[node]), (place[right], height[node])]
            lines.append([(place[left], height[left]), *bar, (place[right], height[right])])
            shades.append(shade)
            waiting += [(left, shade, below), (right, shade, below)]
        if triangles:
            ax.add_collection(PolyCollection(triangles, facecolors=fills, edgecolors=fills, linewidths=1.0))
        ax.add_collection(LineCollection(lines, colors=shades, linewidths=0.8 if leaves else 1.0))
        ax.axhline(0.0, color=style.GREY, linestyle="--", linewidth=1.0)
        ax.annotate(
            "d = 1", (1.0, 0.0), (3, 0), xycoords=ax.get_yaxis_transform(), textcoords="offset points", va="center", fontsize=style.SMALL
        )
        ax.set_yscale("symlog", linthresh=LINEAR)
        ax.set_xlim(-1.0, n)
        ax.set_ylim(floor, 1.2 * high + 1.0)
        style.dress(ax, "rows, by cluster", "log d")
        if len(cut) <= NAMED:
            middles = [place[tree.rows(node)].mean() for node in cut]
            numbers = [str(fit.labels[tree.rows(node)[0]]) for node in cut]
            ax.set_xticks(middles, numbers)
        else:
            ax.set_xticks([])
        return ax


def _heights(tree: Tree) -> np.ndarray:
    """(2n - 1,) smallest log d from each internal node up to the root."""
    n = tree.n_leaves
    height = np.zeros(2 * n - 1)
    height[n:] = tree.log_d
    for j in range(n - 2, -1, -1):  # parents come after children
        for child in (tree.left[j], tree.right[j]):
            if child >= n:
                height[child] = min(height[child], height[n + j])
    return height


def _places(tree: Tree, blocks: Container[int]) -> np.ndarray:
    """(2n - 1,) where nodes stand: rows in their order, blocks in the middle of theirs, others in the middle of their children."""
    n = tree.n_leaves
    place = np.empty(2 * n - 1)
    place[tree.order] = np.arange(n)
    for j in range(n - 1):
        ends = place[tree.rows(n + j)[[0, -1]]] if n + j in blocks else place[[tree.left[j], tree.right[j]]]
        place[n + j] = ends.mean()
    return place
