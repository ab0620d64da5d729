"""Trees that a search has found beside those of `naive.searches`."""

from __future__ import annotations

import pytest
from naive.searches import Gardener, Tree

import nrmmix as nm
from nrmmix.inference.search.grower import TreeGrower
from nrmmix.kernels.core import state as layout

TIE = 1e-9


def naive_tree(tree: nm.searches.Tree, node: int | None = None) -> Tree:
    """The same tree as objects."""
    node, n = tree.root if node is None else node, tree.n_leaves
    children = () if node < n else tuple(naive_tree(tree, int(side[node - n])) for side in (tree.left, tree.right))
    return Tree(frozenset(tree.rows(node).tolist()), float(tree.log_phi[node]), children)


def gardener(grower: TreeGrower, log_marginal) -> Gardener:
    return Gardener(log_marginal, float(grower.forest.guide[0]), float(grower.state.hyper[layout.Hyper.SIGMA]))


def agree(found: Tree, wanted: Tree, naive: Gardener) -> bool:
    """The same tree with the same potentials; where a decision was a tie, rounding may have made another."""
    a, b = found.clades, naive.again(found).clades
    assert all(a[rows] == pytest.approx(b[rows], abs=1e-8) for rows in b)
    return naive.gap < TIE or set(a) == set(wanted.clades)
