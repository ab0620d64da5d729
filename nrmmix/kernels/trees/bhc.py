"""Bayesian hierarchical clustering (Heller & Ghahramani 2005): roots are joined by the smallest dissimilarity, to one tree.

Potentials and dissimilarities are those of `nrmmix.kernels.trees.forest`.  Each root keeps its nearest one among the roots after it, so
that a join costs about as many unions as there are roots.  Of equal dissimilarities the one of the first roots counts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nrmmix.kernels.core.jit import kernel, root
from nrmmix.kernels.trees.forest import join, log_union


class Roots(NamedTuple):
    """The trees that are there, by places 0, 1, ... that stay theirs; a joined tree has the place of the first of the two."""

    node: np.ndarray  # (places,) root
    key: np.ndarray  # (places,) log d to the nearest of the places after it, or no more than that where it is stale
    nearest: np.ndarray  # (places,) which place that is
    stale: np.ndarray  # (places,) 1 where key and nearest have to be found again
    alive: np.ndarray  # (places,) the places that hold a tree, in increasing order, then what was there before
    num: np.ndarray  # (1,) how many of them


@root
@kernel
def gather(roots, number):
    """Places 0..number-1 hold trees; nothing is known of their dissimilarities."""
    roots.num[0] = number
    for s in range(number):
        roots.alive[s] = s
        roots.key[s] = -math.inf
        roots.stale[s] = 1


@kernel
def log_distance(data, trial, forest, a, b):
    return forest.log_phi[a] + forest.log_phi[b] - log_union(data, trial, forest, a, b)


@kernel
def first_nearest(roots, last):
    """Index in `alive` of the place with the smallest key; the last place has none after it."""
    best = 0
    for j in range(1, last):
        if roots.key[roots.alive[j]] < roots.key[roots.alive[best]]:
            best = j
    return best


@kernel
def find_nearest(data, trial, forest, roots, j):
    """The nearest of the places after the j-th."""
    s = roots.alive[j]
    roots.key[s], roots.nearest[s], roots.stale[s] = math.inf, roots.alive[j + 1], 0
    for t in range(j + 1, roots.num[0]):
        d = log_distance(data, trial, forest, roots.node[s], roots.node[roots.alive[t]])
        if d < roots.key[s]:
            roots.key[s], roots.nearest[s] = d, roots.alive[t]


@kernel
def join_places(data, trial, forest, roots, j):
    """Join the j-th place with its nearest; the new tree is compared with those before it, and stale for those after it."""
    a = roots.alive[j]
    b = roots.nearest[a]
    new = join(data, trial, forest, roots.node[a], roots.node[b])
    roots.node[a], roots.key[a], roots.stale[a] = new, -math.inf, 1
    kept = 0
    for t in range(roots.num[0]):
        s = roots.alive[t]
        roots.alive[kept] = s
        kept += s != b
    roots.num[0] = kept
    for t in range(kept):
        s = roots.alive[t]
        if s >= b:
            return
        if s == a:
            continue
        if roots.stale[s] == 0 and (roots.nearest[s] == a or roots.nearest[s] == b):
            roots.stale[s] = 1  # no pair of it that is left is nearer than the one that is gone
        if s > a:
            continue
        d = log_distance(data, trial, forest, roots.node[s], new)
        if d < roots.key[s]:
            roots.key[s], roots.nearest[s], roots.stale[s] = d, a, 0
        elif d == roots.key[s] and roots.stale[s] == 0 and a < roots.nearest[s]:
            roots.nearest[s] = a


@root
@kernel
def agglomerate(data, trial, forest, roots, unions):
    """Join trees until one is left, or about so many unions have been tried; then it is called again."""
    tried = 0
    while roots.num[0] > 1 and tried < unions:
        j = first_nearest(roots, roots.num[0] - 1)
        tried += roots.num[0]
        if roots.stale[roots.alive[j]] == 1:
            find_nearest(data, trial, forest, roots, j)
        else:
            join_places(data, trial, forest, roots, j)
