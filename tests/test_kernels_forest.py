"""Compiled trees against those of `naive.trees`: the same shapes, statistics and potentials."""

from __future__ import annotations

import math
from collections import Counter

import naive
import numpy as np
import pandas as pd
import pytest
from exact import marginals
from naive.trees import Trees, log_product_form
from scipy.sparse import csr_array
from support.cover import by_turns
from support.forests import Case, check, check_free, shape_of
from support.processes import subprocess_of

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.trees import forest as trees
from nrmmix.model.pack import arrays_of

LOG_CLUSTER, SIGMA = -0.7, 0.3  # of the guide
BASE = naive.Base(np.array([0.2, -0.3]), 0.3, 4.5, np.array([[1.0, 0.3], [0.3, 0.8]]))


def case_of(model, log_marginal, m=None):
    n = model.n_obs
    m = m or n
    data, state = arrays_of(model, 12, trees.TRIAL)
    chain.start(data, state, np.zeros(n, np.int64))
    log_rising = np.array([0.0] + [math.lgamma(c - SIGMA) - math.lgamma(1 - SIGMA) for c in range(1, n + 2)])
    floats, integers = trees.scratch_size(n, m, model.packed.n_stat)
    forest = trees.Forest(*(np.zeros(n + m, np.int64) for _ in range(4)), *(np.zeros(n + m) for _ in range(2)),
                          np.zeros((m, model.packed.n_stat, 1)), np.zeros(m + 1, np.int64), log_rising, np.array([LOG_CLUSTER, 0.0]))
    assert (floats, integers) == tuple(sum(a.size for a in forest if a is not log_rising and a.dtype == kind) for kind in (float, int))
    trees.clear_forest(forest)
    for i in range(n):
        trees.plant_leaf(data, state.scratch.trial, forest, i)
    return Case(data, state, forest, Trees(log_product_form(LOG_CLUSTER, SIGMA, log_marginal)), n)


def gaussian(y):
    family = nm.Gaussian(m=BASE.m, r=BASE.r, nu=BASE.nu, scale=BASE.scale)
    return case_of(nm.Model(data=y, family=family, prior=nm.DirichletProcess(1.0)), lambda rows: naive.log_marginal(y[rows], BASE))


def scattered(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) * 0.6 + rng.choice([-2.5, 0.0, 2.5], size=(n, 2))


def counts(n=14, seed=1):
    rng = np.random.default_rng(seed)
    words = np.array([rng.multinomial(8, p) for p in rng.dirichlet(np.full(5, 0.3), size=3)[rng.integers(0, 3, n)]])
    words[0] = 0, 1, 0, 0, 2  # a column of zeros would be refused
    model = nm.Model(data=csr_array(words), family=nm.Multinomial(0.4), prior=nm.DirichletProcess(1.0))
    return case_of(model, lambda rows: marginals.multinomial_log_marginal(words[rows], np.full(5, 0.4)))


def blocks(n=12, seed=2):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"y": rng.normal(size=n) * 2, "visits": rng.poisson(3.0, n).astype(float), "smoker": rng.integers(0, 2, n) * 1.0})
    table.loc[3, "y"] = table.loc[5, "smoker"] = math.nan
    family = {
        "y": nm.Gaussian("diagonal", m=0.2, r=0.3, nu=4.0, scale=1.0), "visits": nm.Poisson(0.8, 0.3), "smoker": nm.Bernoulli(0.7, 1.2)
    }
    model = nm.Model(data=table, family=family, prior=nm.DirichletProcess(1.0), missing="marginalize")

    def log_marginal(rows):
        own = table.iloc[rows]
        return (
            marginals.normal_gamma_log_marginal(own[["y"]].to_numpy(), np.array([0.2]), 0.3, 4.0, np.array([1.0]))
            + marginals.poisson_log_marginal(own[["visits"]].to_numpy(), np.ones(len(rows)), np.array([0.8]), np.array([0.3]))
            + marginals.bernoulli_log_marginal(own[["smoker"]].to_numpy(), np.array([0.7]), np.array([1.2]))
        )

    return case_of(model, log_marginal)


def far():
    """log d of thousands: far from one another under a known covariance."""
    S = np.array([[1.0, 0.4], [0.4, 2.0]])
    y = np.append(scattered(8), [[1e3, 0.0], [1e3, 3.0], [-3e2, 1e3], [4e3, 4e3]], axis=0)
    model = nm.Model(data=y, family=nm.Gaussian(known_covariance=S, m=np.zeros(2), r=0.01), prior=nm.DirichletProcess(1.0))
    return case_of(model, lambda rows: marginals.known_covariance_log_marginal(y[rows], np.zeros(2), 0.01, S))


CASES = {
    "gaussian": lambda: gaussian(scattered(24)),
    "identical": lambda: gaussian(np.append(np.full((9, 2), 0.4), scattered(3), axis=0)),
    "two values": lambda: gaussian(np.tile([[0.0, 0.0], [3.0, 1.0]], (6, 1))),
    "far": far,
    "counts": counts,
    "blocks": blocks,
}


def insert(case, root, i):
    return trees.insert_leaf(case.data, case.state.scratch.trial, case.state.scratch.work, case.forest, root, i)


def grown(case, order):
    """The same tree in both, by SeqInsert in an order."""
    root, tree = -1, None
    for i in map(int, order):
        root = insert(case, root, i)
        leaf = case.trees.leaf(i)
        tree = leaf if tree is None else case.trees.insert(tree, leaf, shape_of(case.forest, root))
    return root, tree


@pytest.mark.parametrize("name", CASES)
def test_leaves_enter_as_in_the_reference(name):
    case = CASES[name]()
    for seed in range(4):
        trees.clear_forest(case.forest)
        root, tree = grown(case, np.random.default_rng(seed).permutation(case.n))
        check(case, root, tree)
        check_free(case, root)


def test_all_three_places_occur():
    """On top of a tree, and into its left and its right child."""
    case, seen = CASES["gaussian"](), Counter()
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(case.n)
        tree = case.trees.leaf(int(order[0]))
        for i in map(int, order[1:]):
            (new,) = case.trees.insertions(tree, case.trees.leaf(i))
            place = "top" if new.parts[0].shape == tree.shape else "left" if i in new.parts[0].leaves else "right"
            seen[place] += bool(tree.parts)
            tree = new
    assert min(seen[place] for place in ("top", "left", "right")) > 3


def test_ties():
    """On top rather than below, left rather than right."""
    case = CASES["gaussian"]()
    root = trees.join(case.data, case.state.scratch.trial, case.forest, 0, 1)
    case.forest.log_phi[1] = case.forest.log_phi[0]
    case.forest.log_h[root] = 2 * case.forest.log_phi[0] - 3.0  # the children's log d is 3
    top = case.forest.log_phi[0] + case.forest.log_phi[2] - 3.0
    for left, right, wanted in ((0.0, 0.0, -1), (0.0, -1.0, -1), (1.0, 1.0, 0), (1.0, 2.0, 1), (0.0, 1.0, 1)):
        assert trees.nearer_child(case.forest, root, 2, top + left, top + right) == wanted


@pytest.mark.parametrize("name", CASES)
def test_trees_enter_as_in_the_reference(name):
    case = CASES[name]()
    for seed in range(4):
        trees.clear_forest(case.forest)
        parts = np.array_split(np.random.default_rng(seed).permutation(case.n), [1, 3, case.n // 2, case.n - 2])
        (root, tree), *others = [grown(case, part) for part in parts]
        for other, other_tree in others:
            apart = trees.log_union(case.data, case.state.scratch.trial, case.forest, root, other)
            assert apart == pytest.approx(case.trees.h(tree, other_tree), rel=1e-9)
            root = trees.insert_tree(case.data, case.state.scratch.trial, case.forest, root, other)
            tree = case.trees.insert(tree, other_tree, shape_of(case.forest, root))
            check(case, root, tree)
        check_free(case, root)


@pytest.mark.parametrize("name", CASES)
def test_joined_trees(name):
    case = CASES[name]()
    half = case.n // 2
    (a, tree_a), (b, tree_b) = grown(case, range(half)), grown(case, range(half, case.n))
    root = trees.join(case.data, case.state.scratch.trial, case.forest, a, b)
    tree = case.trees.pair(tree_a, tree_b)
    check(case, root, tree)
    assert trees.log_d(case.forest, root) == pytest.approx(case.trees.log_d(tree_a, tree_b), rel=1e-9)


@pytest.mark.parametrize("name", by_turns(CASES, 3))
def test_subtrees_taken_out_and_put_back(name):
    case, rng = CASES[name](), np.random.default_rng(5)
    root, tree = grown(case, rng.permutation(case.n))
    for _ in range(30):
        nodes = [node for node in case.trees.nodes(tree) if node is not tree]
        cut = nodes[rng.integers(len(nodes))]
        v = node_of(case.forest, root, cut.shape)
        root, tree = trees.detach(case.data, case.state.scratch.trial, case.forest, root, v), case.trees.without(tree, cut.shape)
        check(case, root, tree)
        check(case, v, cut)
        check_free(case, root, v)
        if len(cut.leaves) == 1:
            root = insert(case, root, v)
        else:
            root = trees.insert_tree(case.data, case.state.scratch.trial, case.forest, root, v)
        tree = case.trees.insert(tree, cut, shape_of(case.forest, root))
        check(case, root, tree)
    assert trees.detach(case.data, case.state.scratch.trial, case.forest, root, root) == -1
    check_free(case, root)


def node_of(forest, root, shape):
    if shape_of(forest, root) == shape:
        return int(root)
    for child in (forest.left[root], forest.right[root]):
        found = -1 if child < 0 else node_of(forest, int(child), shape)
        if found >= 0:
            return found
    return -1


@pytest.mark.parametrize("statistics", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_another_guide(name, statistics):
    """Trees keep their shapes while the potentials follow the guide."""
    case = CASES[name]()
    root, tree = grown(case, np.random.default_rng(7).permutation(case.n))
    case.forest.guide[0] = -1.9
    if statistics:
        case.forest.bank[:] = math.nan
    trees.refresh_tree(case.data, case.state.scratch.trial, case.forest, root, statistics)
    log_h = case.trees.log_h
    other = case._replace(trees=Trees(lambda rows: log_h(rows) - LOG_CLUSTER - 1.9))
    check(other, root, other.trees.of(tree.shape))


def test_dissimilarities_beyond_the_range_of_floats():
    case = far()
    root, tree = grown(case, range(case.n))
    assert max(abs(case.trees.log_d(*node.parts)) for node in case.trees.nodes(tree) if node.parts) > 5000.0
    check(case, root, tree)


def test_trees_given_back():
    case = CASES["gaussian"]()
    a, tree_a = grown(case, range(10))
    b, _ = grown(case, range(10, case.n))
    trees.release_tree(case.forest, b)
    check(case, a, tree_a)
    check_free(case, a)
    assert (case.forest.up[10 : case.n] == -1).all()
    b, tree_b = grown(case, range(10, case.n))
    check(case, b, tree_b)
    trees.release_tree(case.forest, 0 if case.forest.up[0] < 0 else a)
    trees.release_tree(case.forest, b)
    check_free(case)


def test_a_tree_as_deep_as_it_has_leaves():
    """Nothing recurses."""
    n = 20_000
    y = np.linspace(0.0, 1.0, n)[:, None]
    model = nm.Model(data=y, family=nm.Gaussian(m=0.0, r=0.1, nu=3.0, scale=1.0), prior=nm.DirichletProcess(1.0))
    data, state = arrays_of(model, 8, trees.TRIAL)
    chain.start(data, state, np.zeros(n, np.int64))
    forest = trees.Forest(*(np.zeros(2 * n, np.int64) for _ in range(4)), np.zeros(2 * n), np.zeros(2 * n),
                          np.zeros((n, model.packed.n_stat, 1)), np.zeros(n + 1, np.int64), state.cache.log_rising, np.zeros(2))
    trees.clear_forest(forest)
    root = 0
    for i in range(n):
        trees.plant_leaf(data, state.scratch.trial, forest, i)
        root = trees.join(data, state.scratch.trial, forest, root, i) if i else 0
    assert trees.first_below(forest, root) == 0 and forest.count[root] == n
    trees.refresh_tree(data, state.scratch.trial, forest, root, True)
    assert forest.log_phi[root] >= forest.log_h[root]
    out = np.zeros(n, np.int64)
    assert trees.leaves(forest, root, out) == n and (out == np.arange(n)).all()
    trees.release_tree(forest, root)
    assert forest.free[n] == n


PLAIN = '''
from test_kernels_forest import gaussian, grown, check, scattered, test_subtrees_taken_out_and_put_back, CASES
case = gaussian(scattered(8))
check(case, *grown(case, range(8)))
CASES.update(gaussian=lambda: gaussian(scattered(8)))
test_subtrees_taken_out_and_put_back("gaussian")
'''


@pytest.mark.nightly
def test_without_compilation():
    """The same in plain Python, which checks every index."""
    subprocess_of(PLAIN, NUMBA_DISABLE_JIT="1")
