"""Tree-guided moves: the guide tree against plain Python, the edges of the data, chains, and what is refused."""

from __future__ import annotations

import math
from types import SimpleNamespace

import naive
import numpy as np
import pandas as pd
import pytest
from exact.enumeration import gaussian_log_marginal, nrm_log_eppf, partition_posterior, total_variation
from scipy import stats
from support.chains import draws_of, same_draws
from support.cover import by_turns, each_once
from support.exponential_family import Exponential
from support.forests import shape_of
from support.frequencies import MIN_P
from support.models import far_away, mixture, spread
from support.processes import subprocess_of
from support.states import check_columns, started_with_move

import nrmmix as nm
from nrmmix.inference.mcmc.moves.tree_guided import TreeGuided
from nrmmix.kernels import chain
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.state import ACCEPTED, TALLY
from nrmmix.kernels.trees import guide_tree
from nrmmix.kernels.trees import splits as tree_splits
from nrmmix.kernels.trees import sweep as tree_cycle

# rows far out, and ties, are what is tested
pytestmark = pytest.mark.filterwarnings("ignore:.*(quartile ranges away|point masses):UserWarning")

MOVES = {
    "both": TreeGuided(global_moves=5),
    "blocks": TreeGuided(global_moves=5, scan_share=0.0),
    "scan": TreeGuided(global_moves=5, scan_share=1.0, scans=2, depth=1),
    "often anew": TreeGuided(global_moves=3, refresh=7),
}
PRIORS = {
    "dp": nm.DirichletProcess(1.2), "nggp": nm.NGGP(1.5, 0.45), "py": nm.PitmanYor(0.9, 0.3), "finite": nm.FiniteMixture(4, 2.0),
}


def guide_of(program):
    """The scratch of a move that a program begins with."""
    return program.memory[0].divided


def planted(model, labels, rng=1, move=MOVES["both"], **options):
    """A state, its program and the guide after a first iteration."""
    data, state, program = started_with_move(model, move, labels, **options)
    assert chain.one_move(data, state, np.random.default_rng(rng), program, 0) == layout.DONE
    return SimpleNamespace(data=data, state=state, program=program, guide=guide_of(program))


# ---- the guide tree


class Planter:
    """Trees as nested pairs, and what the guide says of them."""

    def __init__(self, model, log_cluster, sigma):
        family = model.family
        base = naive.Base(family.m, family.r, family.nu, family.scale)
        self.y = model.frame.response
        self.log_marginal = lambda rows: naive.log_marginal(self.y[rows], base)
        self.log_cluster, self.sigma, self.known = log_cluster, sigma, {}

    def leaves(self, tree):
        return self.leaves(tree[0]) + self.leaves(tree[1]) if isinstance(tree, tuple) else [tree]

    def h(self, *trees):
        rows = tuple(sorted(i for tree in trees for i in self.leaves(tree)))
        if rows not in self.known:
            self.known[rows] = self.log_cluster + math.lgamma(len(rows) - self.sigma) + self.log_marginal(list(rows))
            self.known[rows] -= math.lgamma(1 - self.sigma)
        return self.known[rows]

    def log_d(self, a, b):
        return self.h(a) + self.h(b) - self.h(a, b)

    def affinity(self, tree, i):
        """log of predictive over size."""
        c = len(self.leaves(tree))
        return self.h(tree, i) - self.h(tree) - math.log(c - self.sigma) - guide_tree.BALANCE * math.log(c)

    def insert(self, tree, i):
        if not isinstance(tree, tuple):
            return tree, i
        left, right = tree
        unlike = min(self.log_d(left, i), self.log_d(right, i))
        if unlike > max(0.0, self.log_d(left, right)):
            return tree, i
        return (self.insert(left, i), right) if self.affinity(left, i) >= self.affinity(right, i) else (left, self.insert(right, i))

    def weight(self, tree):
        return 1.0 / (1.0 + math.exp(-self.log_d(*tree))) + guide_tree.FLOOR

    def nodes(self, tree, depth=0):
        """Internal nodes from left to right, with their depths."""
        if isinstance(tree, tuple):
            yield from self.nodes(tree[0], depth + 1)
            yield tree, depth
            yield from self.nodes(tree[1], depth + 1)


def in_the_order_of(number, n):
    """Park and Miller's generator and Fisher-Yates."""
    order, seed = list(range(n)), number
    for t in range(n - 1, 0, -1):
        seed = seed * 48271 % (2**31 - 1)
        s = int(seed / (2**31 - 1) * (t + 1))
        order[t], order[s] = order[s], order[t]
    return order


def naive_tree(model, program):
    planter = Planter(model, *map(float, program.learnt[0][: tree_splits.GUIDE_SIGMA + 1]))
    order = in_the_order_of(int(program.learnt[0][tree_splits.TREE]) // tree_cycle.AGES, model.n_obs)
    tree = order[0]
    for i in order[1:]:
        tree = planter.insert(tree, i)
    return planter, tree


@pytest.mark.parametrize("rng", [1, 2, 3])
@pytest.mark.parametrize("prior", PRIORS)
def test_the_guide_tree_is_that_of_the_reference(prior, rng):
    model = mixture(25, 2, seed=rng, prior=PRIORS[prior])
    at = planted(model, np.arange(25) % 4, rng)
    planter, tree = naive_tree(model, at.program)
    order, gap, weight = at.guide.tree.order, at.guide.tree.gap, at.guide.tree.weight
    assert order.tolist() == planter.leaves(tree)
    nodes = list(planter.nodes(tree))
    assert gap[:24].tolist() == [depth for _, depth in nodes]
    np.testing.assert_allclose(weight[:24], [planter.weight(node) for node, _ in nodes], rtol=1e-8)
    assert max(depth for _, depth in nodes) > 4


def test_orders_are_uniform():
    seen = np.zeros((5, 5))
    order = np.zeros(5, np.int64)
    for number in np.random.default_rng(0).integers(1, guide_tree.ORDERS + 1, 4000).tolist():
        guide_tree.shuffle(order, number)
        assert order.tolist() == in_the_order_of(number, 5)
        seen[np.arange(5), order] += 1
    assert stats.chisquare(seen.ravel()).pvalue > MIN_P


GAPS = np.random.default_rng(0).normal(size=(20, 2))
GAPS[[3, 7, 11], [0, 1, 0]] = math.nan


@pytest.mark.parametrize("y", [None, GAPS])
def test_the_guide_tree_does_not_depend_on_the_partition_nor_on_drawn_cells(y):
    family = nm.Gaussian(m=np.zeros(2), r=0.3, nu=4.0, scale=np.eye(2))
    model = nm.Model(data=np.nan_to_num(GAPS) if y is None else y, family=family, prior=nm.NGGP(1.0, 0.3), missing="marginalize")
    trees = []
    for labels in (np.zeros(20, int), np.arange(20), np.arange(20) % 3):
        at = planted(model, labels)
        trees.append(at.guide.tree)
        if y is not None:  # they are others now: the tree is planted anew with the same number
            drawn = np.nonzero(at.data.rows.missing)
            before = at.guide.tree.order.copy(), at.guide.tree.gap.copy(), at.guide.tree.weight.copy()
            at.data.rows.y[drawn] += 5.0
            at.program.ints[tree_splits.PLANTED] = 0
            assert chain.one_move(at.data, at.state, np.random.default_rng(2), at.program, 0) == layout.DONE
            for old, new in zip(before, at.guide.tree[:3], strict=True):
                np.testing.assert_array_equal(old, new)
    for tree in trees[1:]:
        for a, b in zip(trees[0][:3], tree[:3], strict=True):
            np.testing.assert_array_equal(a, b)


def restricted(tree, rows):
    if not isinstance(tree, tuple):
        return tree if tree in rows else None
    left, right = (restricted(part, rows) for part in tree)
    if left is None or right is None:
        return right if left is None else left
    return left, right


@pytest.mark.parametrize("rng", range(5))
def test_trees_of_clusters_are_restrictions(rng):
    model = mixture(25, 2, seed=rng, prior=nm.NGGP(1.5, 0.45))
    labels = np.random.default_rng(rng).integers(0, 6, 25)
    at = planted(model, np.arange(25) % 4, rng)
    guide, (planter, tree) = at.guide, naive_tree(model, at.program)
    chosen = np.zeros(26, np.int64)
    for joined in ([0], [1], [2, 5], [0, 1, 3], list(range(6))):
        chosen[:] = 0
        chosen[joined] = 1
        rows = np.flatnonzero(np.isin(labels, joined)).tolist()
        count = guide_tree.collect(guide.tree, labels, chosen)
        wanted = restricted(tree, rows)
        assert guide.tree.member[:count].tolist() == planter.leaves(wanted)
        root = guide_tree.induced_tree(at.data, at.state.scratch.trial, guide.forest, guide.tree, count)
        assert shape_of(guide.forest, root) == wanted
        weights = [guide_tree.node_weight(guide.forest, v) for v in range(25, 25 + count - 1)]
        log_phi = guide.forest.log_phi[root]
        assert log_phi == pytest.approx(log_phi_of(planter, wanted), rel=1e-9)
        assert sorted(weights) == pytest.approx(sorted(weight_within(planter, node) for node, _ in planter.nodes(wanted)), rel=1e-8)


def log_phi_of(planter, tree):
    if not isinstance(tree, tuple):
        return planter.h(tree)
    return float(np.logaddexp(planter.h(tree), log_phi_of(planter, tree[0]) + log_phi_of(planter, tree[1])))


def weight_within(planter, tree):
    log_d = log_phi_of(planter, tree[0]) + log_phi_of(planter, tree[1]) - planter.h(tree)
    return 1.0 / (1.0 + math.exp(min(-log_d, 700.0))) + guide_tree.FLOOR


def test_subtrees_that_local_moves_visit():
    """A node of the whole tree, or of a subtree, by its weight."""
    model = mixture(12, 2, seed=3)
    at = planted(model, np.arange(12) % 4)
    planter, tree = naive_tree(model, at.program)
    rng = np.random.default_rng(0)
    for part in (tree, max(tree, key=lambda half: len(planter.leaves(half)))):
        nodes = [node for node, _ in planter.nodes(part)]
        place = planter.leaves(tree).index(planter.leaves(part)[0])
        ranges = []
        for node in nodes:
            first = planter.leaves(tree).index(planter.leaves(node)[0])
            ranges.append((first, first + len(planter.leaves(node))))
        seen = dict.fromkeys(ranges, 0)
        for _ in range(20_000):
            seen[guide_tree.sample_range(at.guide.tree, place, place + len(nodes) + 1, rng)] += 1
        weight = np.array([planter.weight(node) for node in nodes])
        assert stats.chisquare(list(seen.values()), 20_000 * weight / weight.sum()).pvalue > MIN_P


# ---- partitions


@pytest.mark.parametrize(("move", "prior"), each_once(MOVES, PRIORS))
def test_statistics_after_many_calls(move, prior):
    model = mixture(40, 2, seed=4, prior=PRIORS[prior])
    data, state, program = started_with_move(model, MOVES[move], np.arange(40) % 4, room=60)
    rng = np.random.default_rng(3)
    for step in range(1000):
        assert chain.one_move(data, state, rng, program, 0) == layout.DONE
        if step % 100 == 0:
            check_columns(model, data, state)
    check_columns(model, data, state)
    tally = program.tally[0]
    assert tally[ACCEPTED::TALLY].min() > 10
    assert np.isfinite(tally).all()


@pytest.mark.parametrize(("n", "move"), each_once([1, 2, 3], MOVES))
def test_few_observations(move, n):
    y = np.array([[0.4], [-0.3], [1.6]])[:n]
    model = mixture(n, 1, y=y, prior=nm.DirichletProcess(1.0))
    if n == 1:
        data, state, program = started_with_move(model, MOVES[move], [0])
        assert chain.one_move(data, state, np.random.default_rng(0), program, 0) == layout.DONE
        assert state.labels.tolist() == [0] and not program.tally.any()
        return
    fit = model.fit(MOVES[move], draws=2000, tune=50, chains=12, rng=n)
    family = model.family
    law = partition_posterior(
        n, lambda s: nrm_log_eppf(s, 1.0, 0.0), lambda b: gaussian_log_marginal(y[b], family.m, family.r, family.nu, family.scale))
    distance, limit = total_variation(law, fit.draws["labels"], 5.0)
    assert distance < limit < 0.05


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize(("family", "d", "distance"), [
    ("known", 1, 1e6), ("known", 1, 1e12), ("full", 1, 1e6), ("full", 3, 1e6), ("diagonal", 2, 1e12),
])
def test_far_observations(move, family, d, distance):
    """Dissimilarities beyond the range of floats: nothing overflows, and what is far apart is parted."""
    families = {
        "known": nm.Gaussian(known_covariance=np.eye(d), m=np.zeros(d), r=1e-3),
        "full": nm.Gaussian(m=np.zeros(d), r=0.1, nu=d + 2.0, scale=np.eye(d)),
        "diagonal": nm.Gaussian("diagonal", m=np.zeros(d), r=0.1, nu=3.0, scale=np.ones(d)),
    }
    model = nm.Model(data=far_away(d, distance), family=families[family], prior=nm.DirichletProcess(1.0))
    data, state, program = started_with_move(model, MOVES[move], [0] * 10)
    rng = np.random.default_rng(1)
    for _ in range(200):
        assert chain.one_move(data, state, rng, program, 0) == layout.DONE
    assert (state.labels == state.labels[4]).sum() == 1
    assert np.isfinite(program.tally[0]).all() and np.isfinite(program.learnt[0]).all()
    assert np.isfinite(guide_of(program).tree.weight[:9]).all()


@pytest.mark.parametrize("move", MOVES)
def test_identical_observations(move):
    """Many ties, and one observation more, as a constant column is refused."""
    y = np.append(np.full(60, 0.7), 1.9)[:, None]
    model = mixture(61, 1, y=y, prior=nm.NGGP(1.5, 0.45))
    data, state, program = started_with_move(model, MOVES[move], np.arange(61) % 3, room=80)
    rng = np.random.default_rng(1)
    for _ in range(1000):
        assert chain.one_move(data, state, rng, program, 0) == layout.DONE
    check_columns(model, data, state)
    assert program.tally[0, ACCEPTED::TALLY].min() > 10


# ---- chains


@pytest.mark.parametrize("name", MOVES)
def test_a_chain_that_runs_out_of_room_goes_on_as_if_it_had_not(monkeypatch, name):
    model, original, enlarged = spread(), layout.enlarged, []

    def counted(state):
        enlarged.append(len(state.size))
        return original(state)

    monkeypatch.setattr(layout, "enlarged", counted)
    monkeypatch.setattr(layout, "capacity", lambda n_clusters: 7)
    small = draws_of(model, MOVES[name])
    assert enlarged and small["n_clusters"].max() > 15
    enlarged.clear()
    monkeypatch.setattr(layout, "capacity", lambda n_clusters: 400)
    same_draws(draws_of(model, MOVES[name]), small)
    assert not enlarged


def test_from_every_observation_alone():
    """300 clusters at first, three in the end."""
    rng = np.random.default_rng(2)
    y = rng.normal(size=(300, 1)) * 0.5 + 6.0 * rng.integers(0, 3, 300)[:, None]
    model = nm.Model(data=y, prior=nm.DirichletProcess(0.5), family=nm.Gaussian(m=6.0, r=0.01, nu=3.0, scale=0.5))
    for init in ("one", "each"):
        found = draws_of(model, [TreeGuided(), nm.Gibbs()], init=init, tune=250, draws=50)["n_clusters"]
        assert found.min() >= 3 and found.mean() < 6


CYCLES = {**MOVES, "method": "tree", "by work": nm.Cycle([TreeGuided(global_moves=2, refresh=20), nm.Gibbs(subset=20)], share="work")}


@pytest.mark.parametrize("name", CYCLES)
def test_the_same_seed_gives_the_same_draws_on_any_number_of_cores(name):
    model = mixture(30, 2, prior=nm.NGGP(3.0))
    one = draws_of(model, CYCLES[name], chains=3, rng=7)
    same_draws(one, draws_of(model, CYCLES[name], chains=3, cores=2, rng=7))
    assert not np.array_equal(one["labels"][0], one["labels"][1])
    assert not np.array_equal(one["labels"], draws_of(model, CYCLES[name], chains=3, rng=8)["labels"])


def same_checkpoints(a, b):
    for one, other in zip(a.checkpoints, b.checkpoints, strict=True):
        for what in ("tally", "work", "labels", "kept"):
            np.testing.assert_array_equal(one.state[what], other.state[what])


@pytest.mark.parametrize("y", [None, GAPS], ids=["", "cells drawn"])
@pytest.mark.parametrize("name", by_turns(CYCLES))
def test_going_on_is_as_if_the_chain_had_never_stopped(name, y, tmp_path):
    """From memory and from a file: the guide tree grows again from its number, with the constants that it had."""
    options = {"tune": 30, "chains": 2, "rng": 3, "cores": 1}
    model = mixture(30, 2, prior=nm.NGGP(3.0)) if y is None else nm.Model(data=y, missing="marginalize")
    whole = model.fit(CYCLES[name], draws=40, **options)
    part = model.fit(CYCLES[name], draws=25, **options)
    for parts in (part.extend(15), nm.load(part.save(tmp_path / "fit.npz")).extend(15)):
        same_draws(whole.draws, parts.draws)
        same_checkpoints(whole, parts)
    assert whole.cycle == nm.load(tmp_path / "fit.npz").cycle


@pytest.mark.parametrize(("place", "value"), [
    (tree_splits.GUIDE_SIGMA, 1.0), (tree_splits.LOG_RHO, 0.1), (tree_splits.LOG_RHO, -100.0), (tree_splits.TREE, -1.0),
    (tree_splits.TREE, 3.0), (tree_splits.TREE, tree_cycle.AGES + 0.5), (tree_splits.TREE, 2.0**60),
])
def test_what_a_file_cannot_say(place, value):
    model = mixture(10, 1)
    for kept in (np.zeros(layout.LEARNT), model.fit(TreeGuided(), draws=2, tune=5, chains=1, rng=1).checkpoints[0].state["kept"][0].copy()):
        assert TreeGuided().can_have_learnt(kept, model)
        kept[place] = value
        assert not TreeGuided().can_have_learnt(kept, model)


# ---- what is refused


@pytest.mark.parametrize(("options", "message"), [
    ({"global_moves": 0}, "global_moves must be an integer of at least 1, not 0"),
    ({"global_moves": 1.5}, "global_moves must be an integer"),
    ({"global_moves": True}, "global_moves must be an integer"),
    ({"global_moves": 10**7}, "at most 1,000,000"),
    ({"depth": -1}, "depth must be an integer of at least 1"),
    ({"depth": "2"}, "depth must be an integer"),
    ({"scans": 0}, "scans must be an integer of at least 1"),
    ({"refresh": 0}, "refresh must be an integer of at least 1"),
    ({"refresh": 10**7}, "refresh must be at most 1,000,000"),
    ({"scan_share": -0.1}, "scan_share must be a number from 0 to 1, not -0.1"),
    ({"scan_share": 1.1}, "scan_share must be a number from 0 to 1"),
    ({"scan_share": math.nan}, "scan_share must be a number from 0 to 1"),
    ({"scan_share": True}, "scan_share must be a number from 0 to 1"),
    ({"eta": 0.0}, "eta must be a number from 0.01 to 10, not 0.0"),
    ({"eta": math.inf}, "eta must be a number"),
    ({"eta": "1"}, "eta must be a number"),
])
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        TreeGuided(**options)


class RowsAlone(Exponential):
    """Exponential without the entry by which statistics of two clusters are joined."""

    def pack(self, y, inputs):
        packed = super().pack(y, inputs)
        return packed._replace(entries=packed.entries._replace(combine=None))


@pytest.mark.parametrize(("model", "message"), [
    (lambda: nm.Model(data=GAPS[12:, :1], family=nm.SemiconjugateGaussian()), "parameters that are integrated out"),
    (lambda: nm.Model(data=np.abs(GAPS[12:]), family=RowsAlone()), "RowsAlone has no entry `combine`"),
])
def test_models_that_it_does_not_suit(model, message):
    with pytest.raises(ValueError, match=message):
        model().fit(TreeGuided(), draws=5, tune=5)


def test_trees_that_would_not_fit(monkeypatch):
    monkeypatch.setattr("nrmmix.inference.mcmc.moves.tree_guided.MAX_COLUMNS", 1000)
    with pytest.raises(ValueError, match=r"statistics of its trees would take .* GiB in each chain"):
        mixture(50, 2).fit(TreeGuided(), draws=1)


def test_what_it_says_of_itself():
    assert str(TreeGuided(global_moves=5, eta=1)) == "TreeGuided(global_moves=5, eta=1.0)"
    assert TreeGuided().kinds == ("split", "merge")
    assert TreeGuided().exact and not TreeGuided().runs_alone and TreeGuided().is_irreducible()


# ---- without compilation



def mixed(prior):
    """Responses of four kinds with gaps, of which the chain draws those of one, and an input."""
    rng = np.random.default_rng(4)
    data = pd.DataFrame({
        "a": rng.normal(size=9), "visits": rng.poisson(2.0, 9).astype(float), "smoker": [True, False, None] * 3,
        "colour": ["red", None, "blue"] * 3, "days": rng.integers(1, 5, 9).astype(float),
    })
    data.loc[[0, 5], "a"] = np.nan
    data.loc[[3, 8], "visits"] = np.nan
    family = {"a": nm.Gaussian(), "visits": nm.Poisson(exposure="days"), "smoker": nm.Bernoulli(), "colour": nm.Categorical()}
    return nm.Model("a + visits + smoker + colour ~ 1", data, family=family, prior=prior, missing="marginalize")


STEPS = '''
def digest_of_steps():
    import hashlib
    seen = hashlib.sha256()
    for name, move in MOVES.items():
        for model in (mixture(9, 2, seed=4, prior=PRIORS["nggp"]), mixture(9, 2, seed=4, prior=PRIORS["finite"]), mixed(PRIORS["dp"])):
            data, state, program = started_with_move(model, move, [0, 0, 0, 1, 1, 0, 2, 2, 1])
            rng = np.random.default_rng(1)
            for _ in range(12):
                assert chain.one_move(data, state, rng, program, 0) == 1
                seen.update(state.labels.tobytes())
            if len(model.blocks.blocks) == 1:  # others keep scratch among their rows
                check_columns(model, data, state)
    return seen.hexdigest()
'''
PLAIN = '''
import numpy as np
from test_kernels_tree_guided import MOVES, PRIORS, chain, check_columns, mixed, mixture, started_with_move
''' + STEPS + "print(digest_of_steps())"


@pytest.mark.nightly
def test_without_compilation():
    """The same steps in plain Python, which checks every index."""
    space = dict(globals())
    exec(STEPS, space)
    assert subprocess_of(PLAIN, NUMBA_DISABLE_JIT="1").split() == [space["digest_of_steps"]()]
