"""Gibbs steps on the partition against the references in `naive`."""

import math
from collections import Counter

import naive
import numba
import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns, each_once
from support.frequencies import MIN_P, chi_square
from support.models import mixture, regression
from support.states import check_columns, copy_of, point_of, problem_of, restore, started

import nrmmix as nm
from nrmmix.kernels.core import clusters
from nrmmix.kernels.core import locations as places
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import call_step
from nrmmix.kernels.measure import weights
from nrmmix.kernels.moves import gibbs
from nrmmix.model.pack import arrays_of


@numba.njit
def step_at(address, data, state, rng):
    return call_step(address, data, state, rng)


def step(entry_point, data, state, rng):
    assert step_at(entry_point.address, data, state, rng) == layout.DONE


@pytest.mark.parametrize(("kernel", "sigma"), each_once(
    [nm.SquaredExponential(0.25), nm.Box(0.4), nm.SquaredExponential([0.5, 0.3])], [0.0, 0.3],
), ids=str)
def test_prior_weights_are_ratios_of_h(kernel, sigma):
    """h(c + i)/h(c), `own` without i; in a state that many observations have entered and left."""
    q = 2 if not kernel.shared_width else 1
    model = regression(25, kernel, prior=nm.NGGP(1.5, sigma, tau=0.8), q=q, values=11)
    rng = np.random.default_rng(7)
    G, P = arrays_of(model, 1)[1].cache.K.shape
    data, state = started(
        model, np.full(25, -1), room=25, v=rng.gamma(1.0, size=G) * 10.0 ** rng.integers(-2, 3, G), R0=rng.dirichlet(np.full(P, 2.0))
    )
    problem = problem_of(model, data)
    checked = 0
    for step in range(4001):
        i = int(rng.integers(25))
        if state.labels[i] >= 0:
            clusters.detach(data, state, i)
        else:
            k = int(rng.integers(state.num[layout.Count.CLUSTERS] + 1))
            company = data.group[np.append(np.flatnonzero(state.labels == k), i)]
            if (state.cache.K[company] > 0).all(axis=0).any():  # some location reaches them all
                clusters.attach(data, state, i, k)
        if step % 1000 not in (0, 17):
            continue
        point = point_of(state)
        K = point.n_clusters
        h = [naive.log_h(problem, point, point.members(k)) for k in range(K)]
        for i in range(25):
            own = point.labels[i]
            joined = [naive.log_h(problem, point, sorted({*point.members(k), i})) for k in range(K)]
            for without in (-1, own) if own >= 0 and state.size[own] > 1 else (-1,):
                weights.log_join_weights(data, state, K, data.group[i], without)
                for k in range(K):
                    if k == without:
                        rest = [j for j in point.members(k) if j != i]
                        wanted = h[k] - naive.log_h(problem, point, rest)
                    elif k == own:
                        continue  # i would be there twice
                    else:
                        wanted = joined[k] - h[k]
                    assert state.scratch.score[k] == pytest.approx(wanted, rel=1e-9, abs=1e-9)
                    checked += 1
            assert state.cache.log_new[data.group[i]] == pytest.approx(naive.log_h(problem, point, [i]), rel=1e-11, abs=1e-11)
    assert checked > 500


def gibbs_counts(data, state, i, times, seed=0):
    """Partitions that redrawing observation i again and again from the same state gives, by canonical labels."""
    saved = copy_of(state)
    rng = np.random.default_rng(seed)
    counts = Counter()
    for _ in range(times):
        restore(state, saved)
        assert gibbs.gibbs_one(data, state, i, rng) == layout.DONE
        counts[tuple(state.labels.tolist())] += 1
    restore(state, saved)
    out = Counter()
    for labels, count in counts.items():
        out[naive.canonical(labels)] += count
    return out


def gibbs_cases():
    """A model, and labels; None puts the observations of each covariate group together."""
    yield "dp", mixture(7, 1, prior=nm.DirichletProcess(1.2)), [0, 0, 1, 1, 1, 2, 3]
    yield "nggp", mixture(7, 2, prior=nm.NGGP(1.5, 0.45)), [0, 0, 1, 1, 2, 2, 3]
    yield "nig", mixture(7, 3, prior=nm.NormalizedInverseGaussian(2.0, tau=0.5)), [3, 0, 1, 1, 2, 2, 0]
    yield "se", regression(7, nm.SquaredExponential(0.35), prior=nm.NGGP(1.5, 0.45), values=4), [0, 1, 2, 3, 0, 1, 0]
    yield "box", regression(7, nm.Box(0.6), prior=nm.NGGP(1.5, 0.45), values=4), None
    kernel = nm.SquaredExponential([0.5, 1.5])
    yield "se-2", regression(7, kernel, prior=nm.DirichletProcess(2), q=2, values=3), [0, 1, 2, 2, 1, 1, 2]
    yield "py", mixture(7, 1, prior=nm.PitmanYor(1.2, 0.45)), [0, 0, 1, 1, 1, 2, 3]
    yield "finite", mixture(7, 1, prior=nm.FiniteMixture(5, 2.0)), [0, 0, 1, 1, 1, 2, 3]
    yield "full", mixture(7, 1, prior=nm.FiniteMixture(4, 2.0)), [0, 0, 1, 1, 1, 2, 3]
    yield "se-py", regression(7, nm.SquaredExponential(0.35), prior=nm.PitmanYor(1.2, 0.45), values=4), [0, 1, 2, 3, 0, 1, 0]
    yield "se-stable", regression(7, nm.SquaredExponential(0.35), prior=nm.NormalizedStable(0.45), values=4), [0, 1, 2, 3, 0, 1, 0]
    yield "se-finite", regression(7, nm.SquaredExponential(0.35), prior=nm.FiniteMixture(5, 2.0), values=4), [0, 1, 2, 3, 0, 1, 0]
    yield "one-cluster", mixture(3, 1, prior=nm.NGGP(1.5, 0.45)), [0, 0, 0]


GIBBS = {name: case for name, *case in gibbs_cases()}


def started_gibbs(name):
    model, labels = GIBBS[name]
    rng = np.random.default_rng(3)
    data, state = started(model, np.full(model.n_obs, -1))
    labels = data.group.copy() if labels is None else np.array(labels)
    locations = [
        next(p for p in rng.permutation(len(data.R0)) if (state.cache.K[data.group[labels == k], p] > 0).all())
        for k in range(labels.max() + 1)
    ]
    v = rng.gamma(2.0, size=len(state.v)) if model.is_regression or model.has_u else None
    return model, *started(model, labels, locations=locations, v=v, R0=rng.dirichlet(np.full(len(data.R0), 3.0)))


@pytest.mark.parametrize(("name", "which"), by_turns([
    (name, which) for name in GIBBS for which in ("first", "last", "alone", "unassigned")
    if (name, which) != ("one-cluster", "alone")
], 6))
def test_gibbs_one_frequencies(name, which):
    model, data, state = started_gibbs(name)
    sizes = state.size[state.labels]
    i = {
        "first": np.flatnonzero(sizes > 1)[0], "last": np.flatnonzero(sizes > 1)[-1],
        "alone": np.flatnonzero(sizes == 1)[0] if (sizes == 1).any() else -1, "unassigned": 1,
    }[which]
    assert i >= 0
    if which == "unassigned":
        clusters.detach(data, state, i)
    wanted = naive.gibbs_conditional_without_locations(problem_of(model, data), point_of(state), i)
    assert sum(p > 0.01 for p in wanted.values()) >= 2
    assert chi_square(gibbs_counts(data, state, i, 3000), wanted) > MIN_P


def test_gibbs_one_without_company():
    """The first observation to enter, and a singleton that is the only cluster."""
    model = regression(4, nm.SquaredExponential(0.4), values=3)
    data, state = started(model, np.full(4, -1), R0=[0.2, 0.5, 0.3])
    problem = problem_of(model, data)
    counts = Counter()
    rng = np.random.default_rng(1)
    saved = copy_of(state)
    for _ in range(4000):
        restore(state, saved)
        gibbs.gibbs_one(data, state, 2, rng)
        assert state.num[layout.Count.CLUSTERS] == 1 and state.labels[2] == 0
        places.draw_locations(state, rng)
        counts[int(state.location[0])] += 1
    p = naive.location_conditional(problem, point_of(state), 0)
    assert chi_square(counts, dict(enumerate(p))) > MIN_P


def test_gibbs_one_where_the_statistics_lose_their_digits():
    """A far observation that stays in its cluster half of the time: its own column is scored anew."""
    y = np.array([[0.0], [0.3], [-0.2], [3e4]])
    family = nm.Gaussian(m=0.0, r=1e-9, nu=0.3, scale=1.0)
    base = naive.Base(np.zeros(1), 1e-9, 0.3, np.eye(1))
    inside = naive.log_predictive(y[3], y[:3], base) + math.log(3)
    mass = math.exp(inside - naive.log_marginal(y[3:], base))
    model = mixture(4, 1, y=y, family=family, prior=nm.DirichletProcess(mass))
    data, state = started(model, [0, 0, 0, 0])
    out = np.zeros(len(state.size))
    clusters.score_columns(data, state.stat, state.scratch.work, out, 1, 3, 0)
    assert math.isnan(out[0])
    wanted = naive.gibbs_conditional_without_locations(problem_of(model, data), point_of(state), 3)
    assert sorted(wanted.values()) == pytest.approx([0.5, 0.5])
    assert chi_square(gibbs_counts(data, state, 3, 4000), wanted) > MIN_P
    rng = np.random.default_rng(0)
    while state.labels[3] == 0:
        gibbs.gibbs_one(data, state, 3, rng)
    check_columns(model, data, state, rtol=1e-12)


def test_gibbs_one_with_one_location():
    """The kernel's value counts for clusters as for new ones where all atoms share a location."""
    table = pd.DataFrame({"x": [0.0, 0.2, 0.9, 1.0, 0.5], "y": [0.1, 1.0, -0.4, 0.3, 2.0]})
    kernel = nm.SquaredExponential(0.4, locations=[0.0])
    model = nm.Model("y ~ x", table, kernel=kernel, prior=nm.DirichletProcess(1.0), family=nm.Gaussian(scale=1.0))
    data, state = started(model, [0, 1, 0, 1, 1])
    for i in (0, 3):
        wanted = naive.gibbs_conditional_without_locations(problem_of(model, data), point_of(state), i)
        assert chi_square(gibbs_counts(data, state, i, 4000), wanted) > MIN_P


def test_gibbs_says_which_observation_has_no_score():
    model = mixture(5, 1)
    data, state = started(model, [0, 0, 1, 1, 1])
    data.log_prior_predictive[3] = -np.inf
    state.cache.log_weight[:] = -np.inf
    assert gibbs.gibbs_one(data, state, 3, np.random.default_rng(0)) == layout.BROKEN
    assert state.num[layout.Count.BAD_ROW] == 3
    assert state.labels.tolist() == [0, 0, 1, 1, 1]


# ---- four observations at once


@numba.njit
def sweep(data, state, order, rng):
    return gibbs.allocate(data, state, order, order.shape[0] if order.shape[0] > 0 else state.labels.shape[0], rng)


def crowd(n, d, distance, seed=3, K=30):
    """Rows about K centres, and which."""
    rng = np.random.default_rng(seed)
    labels = np.append(np.arange(K), rng.integers(0, K, n - K))
    return rng.normal(size=(n, d)) + distance * rng.normal(size=(K, d))[labels], labels


def crowded(name):
    """Models of some 30 clusters, far apart or not, and their partitions."""
    X, labels = crowd(240, 5, 4.0 if name == "apart" else 2.0)
    table, prior = pd.DataFrame(X, columns=list("abcde")), nm.NGGP(5.0, 0.4)
    if name == "two blocks":
        table[list("fghi")] = crowd(240, 4, 2.0, seed=4)[0]
        family = {"a + b + c + d + e": nm.Gaussian(), "f + g + h + i": nm.Gaussian()}
        return nm.Model("a + b + c + d + e + f + g + h + i ~ 1", table, family=family), labels
    if name == "regression":
        table["x"] = np.linspace(0.0, 1.0, 240).round(1)
        return nm.Model("a + b + c + d + e ~ x", table, prior=prior, family=nm.Gaussian(), kernel=nm.SquaredExponential(0.4)), labels
    return nm.Model(data=X, prior=prior), labels


@pytest.mark.parametrize("subset", [False, True], ids=["rows", "subset"])
@pytest.mark.parametrize("name", ["apart", "overlapping", "two blocks", "regression"])
def test_sweeps_of_four_make_the_draws_of_sweeps_one_by_one(name, subset):
    """Clusters are left, entered, opened and emptied between the scoring of a row and its turn."""
    model, labels = crowded(name)
    states = [started(model, labels, room=240, trial=gibbs.TRIAL if many else 0) for many in (True, False)]
    rngs = [np.random.default_rng(5) for _ in states]
    assert gibbs.can_score_four(*states[0]) and not gibbs.can_score_four(*states[1])
    numbers = []
    for turn in range(12):
        order = np.random.default_rng(turn).permutation(240)[:101].copy() if subset else np.zeros(0, np.int64)
        for (data, state), rng in zip(states, rngs, strict=True):
            if turn == 6:  # some enter anew
                for i in range(0, 240, 3):
                    clusters.detach(data, state, i)
            assert sweep(data, state, order, rng) == layout.DONE
        (_, one), (_, other) = states
        np.testing.assert_array_equal(one.labels, other.labels)
        assert one.num[layout.Count.MOVED] == other.num[layout.Count.MOVED]
        numbers.append(int(one.num[layout.Count.CLUSTERS]))
    if name != "two blocks":
        check_columns(model, *states[0])
    assert sum(K >= gibbs.MIN_FOR_FOUR for K in numbers) >= 3 and (len(set(numbers)) > 1 or name == "apart"), numbers


def test_a_sweep_that_forgets_what_has_changed_is_found():
    """The same without the scores made anew: draws differ at once, so the test above sees them."""
    model, labels = crowded("overlapping")
    (data, one), (_, other) = (started(model, labels, room=240, trial=gibbs.TRIAL) for _ in range(2))
    rng = np.random.default_rng(5)
    sweep(data, one, np.zeros(0, np.int64), rng)
    rng = np.random.default_rng(5)
    for t in range(0, 240, 4):
        gibbs.score_next_four(data, other, np.zeros(0, np.int64), t)
        for r in range(4):
            other.scratch.four[layout.CHANGED] = 0
            gibbs.gibbs_one_of_four(data, other, t + r, r, rng)
    assert (one.labels != other.labels).any()


@pytest.mark.parametrize("n_clusters", [1, 21, 22, 53, 54, 5000])
def test_columns_fill_whole_vectors(n_clusters):
    """Four rows are scored in columns by eights, and every cluster must be among them; no eight straddle two cache lines."""
    model = mixture(30, 5)
    _, state = arrays_of(model, n_clusters)
    for one in (state, layout.enlarged(state)):
        assert one.stat.shape[1] >= n_clusters + 3 and one.stat.shape[1] % 8 == 0
        assert all(array.ctypes.data % layout.LINE == 0 for array in (one.stat, one.scratch.work, one.scratch.score))


def test_an_observation_far_from_its_own_cluster_goes_home():
    """Its score there is so much smaller than elsewhere that weights relative to it would overflow."""
    rng = np.random.default_rng(3)
    group = np.repeat([0, 1], 20)
    X = rng.normal(size=(40, 2)) + 1e4 * group[:, None]
    start = group.copy()
    start[3] = 1
    family = nm.Gaussian(known_covariance=np.eye(2))
    fit = nm.Model(data=X, family=family, prior=nm.DirichletProcess(1.0)).fit("gibbs", draws=1, tune=0, chains=1, rng=1, init=start)
    labels = fit.draws["labels"][0, 0]
    assert not set(labels[group == 0]) & set(labels[group == 1])
