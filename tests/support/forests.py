"""Compiled trees beside those of `naive.trees`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from naive.trees import Tree, Trees

from nrmmix.kernels.core import clusters
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.trees import forest as trees


class Case(NamedTuple):
    data: layout.Data
    state: layout.State
    forest: trees.Forest
    trees: Trees
    n: int


def shape_of(forest, v):
    return int(v) if forest.left[v] < 0 else (shape_of(forest, forest.left[v]), shape_of(forest, forest.right[v]))


def check(case, root, tree, rtol=1e-9):
    """Shape, links, counts, statistics and potentials of every node."""
    forest, n = case.forest, case.n
    assert forest.up[root] == -1

    def same(v: int, tree: Tree):
        assert forest.count[v] == len(tree.leaves)
        np.testing.assert_allclose([forest.log_h[v], forest.log_phi[v]], [tree.log_h, tree.log_phi], rtol=rtol, atol=1e-9)
        if not tree.parts:
            assert v == tree.shape and forest.left[v] == forest.right[v] == -1
            return
        assert v >= n
        column = forest.bank[v - n]
        again = np.zeros((column.shape[0], 1))
        clusters.empty_column(case.data, again, 0)
        for i in tree.leaves:
            clusters.update_column(case.data, again, 0, i, 1.0)
        wanted = clusters.marginal_column(case.data, again, 0)
        assert clusters.marginal_column(case.data, column, 0) == pytest.approx(wanted, rel=rtol, abs=1e-9)
        out, other = np.zeros(1), np.zeros(1)
        for i in range(n):  # predictives see what marginals do not
            out[0] = other[0] = 0.0
            clusters.score_columns(case.data, column, case.state.scratch.work, out, 1, i, -1)
            clusters.score_columns(case.data, again, case.state.scratch.work, other, 1, i, -1)
            assert out[0] == pytest.approx(other[0], rel=1e-6, abs=1e-6)
        for child, part in zip((forest.left[v], forest.right[v]), tree.parts, strict=True):
            assert forest.up[child] == v
            same(int(child), part)

    same(int(root), tree)
    out = np.zeros(n, np.int64)
    assert trees.leaves(forest, root, out) == len(tree.leaves) and tuple(out[: len(tree.leaves)]) == tree.leaves


def check_free(case, *roots):
    """Every internal node is in one of the trees or free, and there once."""
    forest, m = case.forest, case.forest.bank.shape[0]
    free = forest.free[: forest.free[m]].tolist()
    used = []

    def walk(v):
        if forest.left[v] >= 0:
            used.append(int(v))
            walk(forest.left[v])
            walk(forest.right[v])

    for root in roots:
        walk(root)
    assert sorted(free + used) == list(range(case.n, case.n + m))
