"""Weights of clusters, joined, parted, entered and opened, against the law of partitions from its definition."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import naive
import numpy as np
import pytest
from scipy.special import logsumexp
from support.cover import by_turns
from support.models import mixture, regression
from support.states import point_of, problem_of, started

import nrmmix as nm
from nrmmix.kernels.core import clusters
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.measure import weights
from nrmmix.model.pack import arrays_of

PRIORS = {
    "DP": nm.DirichletProcess(0.8), "NGGP": nm.NGGP(1.3, 0.3, tau=0.7), "Pitman-Yor": nm.PitmanYor(0.9, 0.4),
    "finite": nm.FiniteMixture(4, 1.1), "stable": nm.NormalizedStable(0.35),
}
PARTITIONS = ([0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 1, 1, 2, 0, 2], [0, 1, 2, 3, 0, 1], [0, 0, 0, 0, 0, 1])


def model_of(prior, locations):
    if not locations:
        return mixture(6, 1, prior=PRIORS[prior])
    return regression(6, nm.SquaredExponential(0.5) if locations is True else locations, prior=PRIORS[prior], values=3)


def state_of(model, labels):
    G = arrays_of(model, 1)[1].v.shape[0]
    return started(model, labels, v=np.linspace(0.7, 2.1, G), room=12)


def log_weight(data, state, k):
    n = state.size[k]
    if not weights.has_locations(state):
        return weights.log_weight_of_size(state, n)
    terms = state.cache.log_R0 + state.cache.log_K_sum[k] - (n - state.hyper[layout.Hyper.SIGMA]) * state.cache.log_b
    return state.cache.log_scale[0] + state.cache.log_rising[n] + logsumexp(terms)


def log_prior(data, state):
    K = state.num[layout.Count.CLUSTERS]
    return sum(log_weight(data, state, k) for k in range(K)) + state.cache.log_next[1:K].sum()


def log_law(model, data, state):
    """log p(partition | v) up to a constant, locations summed over; of mixtures by a stable process u is integrated out as well."""
    problem, point = problem_of(model, data), point_of(state)
    if problem.measure == "stable" and not model.is_regression:
        problem = replace(problem, marginal=True)
    places = product(range(len(problem.R0)), repeat=point.n_clusters)
    return logsumexp([naive.log_measure(problem, replace(point, locations=place)) for place in places])


@pytest.mark.parametrize("locations", [False, True], ids=["mixture", "regression"])
@pytest.mark.parametrize("prior", PRIORS)
def test_weights_make_the_prior_of_a_partition(prior, locations):
    model = model_of(prior, locations)
    found, wanted = [], []
    for labels in PARTITIONS:
        data, state = state_of(model, labels)
        found.append(log_prior(data, state))
        wanted.append(log_law(model, data, state))
    np.testing.assert_allclose(np.diff(found), np.diff(wanted), rtol=1e-9, atol=1e-9)


def taken_out(data, state, i):
    """Weights of observation i, which leaves its cluster: in that one from within, then in each; and the prior without it."""
    own, g, K = state.labels[i], data.group[i], state.num[layout.Count.CLUSTERS]
    weights.log_join_weights(data, state, K, g, own)
    inside = state.scratch.score[own]
    clusters.detach(data, state, i)
    weights.log_join_weights(data, state, K, g, -1)
    return inside, state.scratch.score[:K].copy(), log_prior(data, state)


@pytest.mark.parametrize("locations", by_turns([False, True, nm.Box(0.9)], 2, 1), ids=str)
@pytest.mark.parametrize("prior", PRIORS)
def test_one_observation_changes_the_prior_by_its_weight(prior, locations):
    """In every cluster, in a new one, and in its own without itself; beside the prior of mixtures each row brings (tau + u)^-1."""
    model = model_of(prior, locations)
    for labels in PARTITIONS:
        data, state = state_of(model, labels)
        per_row = 0.0 if locations else float(np.log(state.hyper[layout.Hyper.TAU] + state.cache.A[0]))
        for i in range(6):
            own, g = state.labels[i], data.group[i]
            if state.size[own] == 1:
                continue
            K = state.num[layout.Count.CLUSTERS]
            inside, join, before = taken_out(data, state, i)
            assert inside == pytest.approx(join[own], rel=1e-10)
            gains = [*join, weights.log_new_weight(state, g, K, 0.0)]
            for k, gain in enumerate(gains):
                clusters.attach(data, state, i, k)
                assert log_prior(data, state) - before == pytest.approx(gain + per_row, rel=1e-9, abs=1e-9)
                clusters.detach(data, state, i)
            clusters.attach(data, state, i, own)


@pytest.mark.parametrize("kernel", [nm.SquaredExponential(0.4), nm.SquaredExponential(0.012), nm.Epanechnikov(0.9)], ids=str)
def test_weights_by_many_locations(kernel):
    """Of six clusters at 45 locations; under a narrow kernel K underflows, and so do probabilities of locations."""
    model = regression(60, kernel, values=45)
    data, _ = state_of(model, np.full(60, -1))
    place = np.argsort(np.argsort(model.grid.values[:, 0]))[data.group]
    labels = np.unique(place // 8, return_inverse=True)[1]
    data, state = state_of(model, labels)
    K = state.num[layout.Count.CLUSTERS]
    assert K == 6 and state.cache.A.shape[0] == 45
    ways = set()
    for i in (*range(0, 60, 4), int(place.argmin()), int(place.argmax())):
        own, g = state.labels[i], data.group[i]
        ways.add(bool((state.cache.K[g] == 0.0).any()))
        inside, join, before = taken_out(data, state, i)
        assert inside == pytest.approx(join[own], rel=1e-9, abs=1e-9)
        for k in range(K):
            clusters.attach(data, state, i, k)
            gain = log_prior(data, state) - before
            assert join[k] == pytest.approx(gain, rel=1e-9, abs=1e-7) if gain > -690.0 else join[k] < -600.0
            clusters.detach(data, state, i)
        clusters.attach(data, state, i, own)
    assert (True in ways) == (str(kernel) != str(nm.SquaredExponential(0.4)))


@pytest.mark.parametrize("locations", [False, True])
@pytest.mark.parametrize("prior", PRIORS)
def test_two_as_one(prior, locations):
    model = model_of(prior, locations)
    for labels in PARTITIONS[1:]:
        data, state = state_of(model, labels)
        K = state.num[layout.Count.CLUSTERS]
        for k, m in pairwise(range(K)):
            together = np.where(np.array(labels) == m, k, labels)
            as_one = state_of(model, np.unique(together, return_inverse=True)[1])
            split = weights.log_split_weight(data, state, state.cache.log_K_sum, k, m, state.size[k], state.size[m], K - 1)
            assert split == pytest.approx(log_prior(data, state) - log_prior(*as_one), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("locations", [False, True])
@pytest.mark.parametrize("prior", PRIORS)
def test_parts(prior, locations):
    """Rows 2, 3 and 5 enter a part one by one: what each brings, before it enters and from within, is the ratio of weights of clusters."""
    model = model_of(prior, locations)
    data, state = state_of(model, PARTITIONS[0])
    reach = np.full((weights.REACH, state.cache.log_K_sum.shape[1]), np.nan)
    weights.empty_part(reach, 1)
    weights.extend_part(data, state, reach, 1, 2, 1.0)
    weights.weigh_part(data, state, reach, 1, 1)
    members = [2]
    for i in (3, 5):
        before = weights.log_part_weight(data, state, reach, 1, len(members), i, False)
        old, new = (state_of(model, [0 if j in rows else 1 for j in range(6)]) for rows in (members, [*members, i]))
        first = [int(one[1].labels[2]) for one in (old, new)]
        wanted = log_weight(*new, first[1]) - log_weight(*old, first[0])
        assert before == pytest.approx(wanted, rel=1e-9, abs=1e-9)
        members.append(i)
        weights.extend_part(data, state, reach, 1, i, 1.0)
        weights.weigh_part(data, state, reach, 1, len(members))
        assert weights.log_part_weight(data, state, reach, 1, len(members), i, True) == pytest.approx(before, rel=1e-9, abs=1e-9)
