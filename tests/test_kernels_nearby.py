"""What sweeps of very many clusters are made of: places of rows, bounds, lists of near clusters, halts."""

from __future__ import annotations

import itertools

import numba
import numpy as np
import pandas as pd
import pytest
from support.states import check_columns, started

import nrmmix as nm
from nrmmix.inference.mcmc.chain import Record, new_chain
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.methods import named
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.clusters import score_columns
from nrmmix.kernels.core.entry import call_bound
from nrmmix.kernels.families.gaussian import bounds
from nrmmix.kernels.moves import nearby, places

NAMES = ("LOG_FAR", "LOG_FAR_OF_NEW", "MAX_NEAR", "MAX_OF_GROUP")


@pytest.fixture
def small(monkeypatch):
    """Tables of few rows are swept like those of very many."""
    monkeypatch.setattr(nearby, "MIN_ROWS", 1)
    monkeypatch.setattr(nearby, "MIN_CLUSTERS", 20)


# ---- places


def placed(y, most=16, of_group=128):
    n, d = y.shape
    order, begins, heads = np.zeros(n, np.int64), np.zeros(n + 1, np.int64), np.zeros(n, np.int64)
    blocks = places.put_in_places(y, most, of_group, order, begins, heads, np.zeros(n), np.zeros(d), np.zeros(places.STACK, np.int64))
    return order, begins[: blocks + 1], heads[:blocks]


def tables():
    rng = np.random.default_rng(1)
    yield "normal", rng.normal(size=(1000, 3))
    yield "clusters", rng.normal(size=(1000, 2)) + 100.0 * rng.normal(size=(40, 2))[rng.integers(40, size=1000)]
    yield "far out", rng.standard_cauchy(size=(1000, 1)) ** 3
    yield "identical", np.ones((1000, 2))
    yield "values", rng.integers(0, 3, size=(1000, 2)).astype(float)
    yield "one row", np.zeros((1, 1))


@pytest.mark.parametrize(("name", "y"), list(tables()))
def test_rows_have_their_places(name, y):
    order, begins, heads = placed(y)
    np.testing.assert_array_equal(np.sort(order), np.arange(len(y)))
    assert begins[0] == 0 and begins[-1] == len(y) and heads[0] == 1
    sizes = np.diff(begins)
    assert (sizes > 0).all() and sizes.max() <= 16
    groups = np.add.reduceat(sizes, np.flatnonzero(heads))
    assert groups.max() <= 128
    np.testing.assert_array_equal(order, placed(y)[0])
    if name == "clusters":  # none is in pieces but for its size
        spread = np.mean([y[order[a:b]].std(axis=0).max() for a, b in itertools.pairwise(begins)])
        assert spread < 2.0


# ---- bounds


@numba.njit
def bound(address, rows, stat, work, reach, out, block, first, K, members):
    return call_bound(address, rows, stat, work, reach, out, block, first, K, members)


@numba.njit
def score(data, state, out, K, i):
    score_columns(data, state.stat, state.scratch.work, out, K, i, -1)


@pytest.mark.parametrize(("d", "sampled"), [(1, False), (1, True), (2, False), (3, True), (6, True), (bounds.MAX_RESPONSES, False)])
def test_no_score_exceeds_its_bound(small, d, sampled):
    """Clusters of all sizes and shapes; balls from none to wide ones."""
    rng = np.random.default_rng(d)
    n, K = 400, 37
    labels = np.append(np.arange(K), rng.integers(0, 1 + K // 2, n - K))
    X = rng.normal(size=(n, d)) @ np.diag(10.0 ** rng.uniform(-2, 2, d)) @ rng.normal(size=(d, d)) + 5.0 * rng.normal(size=(K, d))[labels]
    family = None if sampled else nm.Gaussian(scale=0.02 * (d + 1) * np.diag(X.var(axis=0)))
    data, state = started(nm.Model(data=X, family=family), labels, room=n)
    block, reach = data.block[0], np.zeros(state.stat.shape[1])
    nobody = np.zeros(0, np.int64)
    arguments = (block[layout.Block.BOUND], data.rows, state.stat, state.scratch.work, reach)
    bound(*arguments, state.scratch.score, block, 0, K, nobody)
    gaps = []
    for members in [np.array([7]), *(rng.choice(n, size, replace=False) for size in (1, 2, 5, 16)), np.flatnonzero(labels == 3)]:
        found, most = np.zeros(len(reach)), np.full(K, -np.inf)
        bound(*arguments, found, block, 0, K, members)
        for i in members:
            out = np.zeros(len(reach))
            score(data, state, out, K, i)
            most = np.maximum(most, out[:K])
        assert (found[:K] >= most).all()
        if len(members) == 1:
            np.testing.assert_allclose(found[:K], most, rtol=1e-5, atol=1e-4)  # nothing but the slack
        gaps.append(np.median(found[:K] - most))
    assert max(gaps) < 40.0 * d
    L = np.zeros((d, d))
    s, at = block[layout.Block.STAT], np.tril_indices(d)
    for k in range(K):
        L[at] = state.stat[s + 4 + d : s + 4 + d + len(at[0]), k]
        L[np.diag_indices(d)] = 1.0 / np.diag(L)
        largest = np.linalg.norm(np.linalg.inv(L), 2)
        assert largest * (1 - 1e-9) <= reach[k] <= largest * d**0.125 * (1 + 1e-9)
    one = reach.copy()
    reach[:] = -1.0
    for k in range(K):  # one by one, as they change
        bound(*arguments, state.scratch.score, block, k, k + 1, nobody)
    np.testing.assert_array_equal(one[:K], reach[:K])


# ---- sweeps


def crowd(n, d, K, distance, seed=3):
    rng = np.random.default_rng(seed)
    labels = np.append(np.arange(K), rng.integers(0, K, n - K))
    return rng.normal(size=(n, d)) + distance * rng.normal(size=(K, d))[labels], labels


def models():
    X, labels = crowd(600, 3, 40, 6.0)
    two = pd.DataFrame(X, columns=list("abc")).assign(**dict(zip("de", crowd(600, 2, 5, 3.0, 4)[0].T, strict=True)))
    yield "apart", nm.Model(data=crowd(600, 3, 40, 30.0)[0]), labels
    yield "overlapping", nm.Model(data=X, prior=nm.NGGP(5.0, 0.4)), labels
    yield "two blocks", nm.Model(
        "a + b + c + d + e ~ 1", two, prior=nm.NGGP(20.0, 0.4), family={"a + b + c": nm.Gaussian(), "d + e": nm.Gaussian()}), labels


def chain_of(model, labels, seed=1, draws=1):
    record = Record.allocate(model, draws)
    return new_chain(model, named("gibbs")[1], labels, np.random.default_rng(seed), record), update_addresses(model)


def go(chain, updates, iterations):
    chain.control[loop.LIMIT] = chain.iteration + iterations
    chain.run(updates, 10**9, 1)
    assert chain.control[loop.STATUS] == 0


@pytest.mark.parametrize("values", [(16.0, 7.0, 512, 1536), (2.0, 1e3, 48, 312), (-1.0, 1e3, 512, 1536)], ids=["usual", "no room", "far"])
@pytest.mark.parametrize("name", ["apart", "overlapping", "two blocks"])
def test_a_sweep_leaves_all_in_order(monkeypatch, small, name, values):
    """Clusters come and go; their statistics are those of their members, and nothing is left in the lists."""
    for what, value in zip(NAMES, values, strict=True):
        monkeypatch.setattr(nearby, what, value)
    (model, labels), = ((model, labels) for one, model, labels in models() if one == name)
    chain, updates = chain_of(model, labels)
    numbers = set()
    for _ in range(12):
        go(chain, updates, 1)
        numbers.add(int(chain.state.num[layout.Count.CLUSTERS]))
        ints, n = chain.program.ints, model.n_obs
        assert chain.program.learnt[0, 0] == 1.0 or numbers == {numbers.pop()}
        lists = ints[1 + 3 * n + 1 + places.STACK :]
        for most in (int(values[3]), int(values[2])):
            assert (lists[: n + nearby.ROOM] == -1).all() and lists[n + nearby.ROOM + most] == 0
            lists = lists[n + nearby.ROOM + most + 1 :]
        assert len(lists) == 0
    check = chain.state.labels
    np.testing.assert_array_equal(np.bincount(check), chain.state.size[: check.max() + 1])
    if name != "two blocks":
        check_columns(model, chain.data, chain.state)
    assert len(numbers) > 1 or name == "apart"


def test_a_halt_makes_no_difference(small):
    """A sweep that halts between groups goes on as if it had not; the state has no room for so many at first either."""
    _, model, labels = list(models())[1]
    (one, updates), (other, _) = chain_of(model, labels), chain_of(model, labels)
    go(one, updates, 6)
    halts = 0
    other.control[loop.LIMIT] = 6
    while other.iteration < 6:
        other.state.num[layout.Count.HALT] = 1
        loop.run(
            other.data, other.state, other.rng, other.program, updates, 10**9, 1, *other.record, other.control)
        status = int(other.control[loop.STATUS])
        assert status in (0, layout.HALTED, layout.NEED_ROOM)
        other.control[loop.STATUS] = 0
        if status == layout.NEED_ROOM:
            other.state = layout.enlarged(other.state)
        halts += status == layout.HALTED
    assert halts > 6
    np.testing.assert_array_equal(one.state.labels, other.state.labels)
    np.testing.assert_array_equal(one.state.hyper, other.state.hyper)


def test_the_order_is_settled_in_tuning(monkeypatch, small):
    _, model, labels = next(iter(models()))
    chain, updates = chain_of(model, labels)
    go(chain, updates, 1)
    assert chain.program.learnt[0, 0] == 1.0
    chain.program.option[0, 3] = 1000.0  # clusters that there are not
    kept = chain.program.learnt[0].copy()
    chain.control[loop.LIMIT] = 2
    chain.run(updates, 0, 1)
    np.testing.assert_array_equal(chain.program.learnt[0], kept)
    chain.control[loop.LIMIT] = 3
    chain.run(updates, 10**9, 1)
    assert chain.program.learnt[0, 0] == 0.0


@pytest.mark.parametrize("change", ["missing", "columns", "subset", "diagonal", "few"])
def test_what_is_swept_as_ever(small, monkeypatch, change):
    X, _ = crowd(60, 3, 10, 5.0)
    move, family = nm.Gibbs(), nm.Gaussian()
    options = {}
    if change == "missing":
        X[3, 1], options = np.nan, {"missing": "marginalize"}
    if change == "columns":
        X = np.hstack([X] * 6) + np.random.default_rng(0).normal(size=(60, 18))
    if change == "subset":
        move = nm.Gibbs(subset=20)
    if change == "diagonal":
        family = nm.Gaussian("diagonal")
    if change == "few":
        monkeypatch.setattr(nearby, "MIN_ROWS", 61)
    model = nm.Model(data=X, family=family, **options)
    assert len(move.options(model)) == 1
    assert not move.can_have_learnt(np.array([1.0, 0.0, 0.0, 0.0]), model)
    assert nm.Gibbs().can_have_learnt(np.zeros(4), model)


def test_saved_and_extended_it_goes_on_as_it_would_have(small, tmp_path):
    _, model, labels = list(models())[1]
    arguments = {"tune": 4, "chains": 2, "rng": 1, "init": labels}
    whole = model.fit("gibbs", draws=8, **arguments)
    part = model.fit("gibbs", draws=3, **arguments)
    part.save(tmp_path / "part.npz")
    again = nm.load(tmp_path / "part.npz").extend(5)
    assert all(one.state["kept"][0, 0] == 1.0 for one in again.checkpoints)
    np.testing.assert_array_equal(whole.draws["labels"], again.draws["labels"])
    np.testing.assert_array_equal(whole.draws["log_joint"], again.draws["log_joint"])
