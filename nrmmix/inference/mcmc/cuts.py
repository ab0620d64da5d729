"""Starts of components that share a covariance: cuts of a tree of all rows, judged with means and covariance integrated out.

Given a covariance far too small every row is a cluster of its own, and the covariance given those is small again; given that of all rows
together they are one cluster.  So what the covariance and the partition are at the start, single moves hardly change.
"""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.linalg import solve_triangular
from scipy.special import gammaln

from nrmmix.model.families.gaussian.tied import Tied
from nrmmix.model.specification import Specification
from nrmmix.posterior.representatives import spaced

MAX_CLUSTERS = 20
SAMPLE = 3000  # rows of which a tree is made; others join the cluster whose mean is nearest
ROUNDS = 3  # trees, each with distances by the covariance of the cut before


def spread(model: Specification, chains: int) -> list[tuple[np.ndarray, np.ndarray | None]] | None:
    """Return labels (n,) for each chain and no codes, of the best cut and of one into twice as many clusters in turn; None without cuts."""
    found = best_cuts(model)
    return None if found is None else [(found[c % 2], None) for c in range(chains)]


def best_cuts(model: Specification) -> tuple[np.ndarray, np.ndarray] | None:
    """Labels (n,) of the cut of the largest posterior density, by a Dirichlet process of mass 1, and of one into more clusters.

    None where no covariance is shared, and in density regression, where clusters have locations.
    """
    blocks = [(block.columns, form) for block in model.blocks.blocks if isinstance(form := getattr(block.family, "form", None), Tied)]
    if not blocks or model.is_regression or model.frame.is_streamed or model.n_obs < 2:
        return None
    columns, form = max(blocks, key=lambda one: len(one[0]))
    y = model.frame.response[:, columns]
    some = y[spaced(len(y), SAMPLE)]
    most = min(MAX_CLUSTERS, len(some), model.prior.components or MAX_CLUSTERS)
    one = np.zeros(len(some), np.int64)
    best, pair, whiten = -np.inf, (one, one), np.diag(np.sqrt(np.diag(form.mean_covariance(some, one))))
    for _ in range(ROUNDS):
        tree = linkage(solve_triangular(whiten, some.T, lower=True).T, "ward")
        cuts = [fcluster(tree, K, "maxclust").astype(np.int64) - 1 for K in range(1, most + 1)]
        values = [form.log_marginal(some, cut) + gammaln(np.bincount(cut)).sum() for cut in cuts]
        if max(values) <= best:
            break
        best, K = max(values), int(np.argmax(values)) + 1
        pair = cuts[K - 1], cuts[min(2 * K + 1, most) - 1]
        whiten = np.linalg.cholesky(form.mean_covariance(some, pair[0]))
    if len(some) == len(y):
        return pair
    return _nearest(y, some, pair[0], whiten), _nearest(y, some, pair[1], whiten)


def _nearest(y: np.ndarray, some: np.ndarray, labels: np.ndarray, whiten: np.ndarray) -> np.ndarray:
    """Labels of all rows by the cluster of some of them whose mean is nearest."""
    mean = np.array([some[labels == k].mean(axis=0) for k in range(labels.max() + 1)])
    z, centre = (solve_triangular(whiten, values.T, lower=True).T for values in (y, mean))
    nearest = np.argmin([((z - own) ** 2).sum(axis=1) for own in centre], axis=0)
    return np.unique(nearest, return_inverse=True)[1].reshape(-1)
