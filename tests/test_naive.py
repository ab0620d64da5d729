"""The references among themselves: laws sum to one, and special cases are special cases."""

import math
from collections import Counter
from dataclasses import replace

import naive
import numpy as np
import pytest


@pytest.mark.parametrize(("mass", "sigma", "tau"), [(0.7, 0.0, 1.0), (0.7, 0.3, 1.0), (1.6, 0.5, 2.0), (0.4, 0.8, 0.5)])
def test_naive_partition_law_sums_to_one(mass, sigma, tau):
    sizes = Counter(tuple(sorted(np.bincount(labels).tolist())) for labels in naive.partitions(5))
    assert sum(sizes.values()) == 52
    log_p = {s: naive.log_eppf(s, mass, sigma, tau) for s in sizes}
    assert sum(count * math.exp(log_p[s]) for s, count in sizes.items()) == pytest.approx(1.0, abs=1e-8)
    if sigma == 0:
        for s, value in log_p.items():
            assert value == pytest.approx(naive.log_crp(s, mass), abs=1e-8)


def test_naive_kernel_measure_sums_to_one():
    """Over all partitions and locations, v integrated out on a grid."""
    problem = naive.Problem(
        y=np.zeros((3, 1)), base=None, group=np.array([0, 1, 1]), x=np.array([[0.0], [1.0]]), mu=np.array([[0.1], [0.8]]),
        R0=np.array([0.3, 0.7]), kernel=naive.squared_exponential,
    )
    point = naive.Point((), (), np.ones(2), 1.1, 0.4, 1.0, np.array([0.6]))
    states = list(naive.all_joint_states(problem, point))
    grid, step = np.arange(-24.0, 14.0, 0.5), 0.5
    total = 0.0
    for s in grid:
        for t in grid:
            v = np.exp([s, t])
            # the sum over states, with the factors that all of them share taken out
            K = problem.K(point.widths)
            A = v @ K
            outer = math.log(v[1]) - sum(problem.R0 * [naive.psi(a, 1.1, 0.4, 1.0) for a in A]) + s + t
            if outer < -40:
                continue
            kappa = {(m, p): math.log(problem.R0[p]) + naive.log_kappa(m, A[p], 1.1, 0.4, 1.0) for m in (1, 2, 3) for p in (0, 1)}
            for at in states:
                value = sum(kappa[len(at.members(k)), p] for k, p in enumerate(at.locations))
                value += sum(math.log(K[problem.group[i], at.locations[k]]) for i, k in enumerate(at.labels))
                total += math.exp(outer + value) * step**2
    assert total == pytest.approx(1.0, abs=1e-4)
    at = replace(states[3], v=np.array([0.3, 2.0]))
    K = problem.K(at.widths)
    A = at.v @ K
    by_hand = math.log(2.0) - sum(problem.R0 * [naive.psi(a, 1.1, 0.4, 1.0) for a in A])
    by_hand += sum(
        math.log(problem.R0[p]) + naive.log_kappa(len(at.members(k)), A[p], 1.1, 0.4, 1.0) for k, p in enumerate(at.locations)
    )
    by_hand += sum(math.log(K[problem.group[i], at.locations[k]]) for i, k in enumerate(at.labels))
    assert naive.log_measure(problem, at) == pytest.approx(by_hand, rel=1e-12)


def test_naive_mixture_is_the_kernel_measure_with_one_location():
    problem = naive.Problem(
        y=np.zeros((5, 1)), base=None, group=np.zeros(5, int), x=np.zeros((1, 0)), mu=np.zeros((1, 0)), R0=np.ones(1)
    )
    point = naive.Point((0, 1, 0, 0, 2), (0, 0, 0), np.array([2.3]), 0.9, 0.35, 1.4, np.zeros(0))
    assert naive.log_measure(problem, point) == pytest.approx(naive.log_eppf_given_u([3, 1, 1], 2.3, 0.9, 0.35, 1.4), rel=1e-12)


def test_naive_predictive_is_a_ratio_of_marginals():
    rng = np.random.default_rng(0)
    base = naive.Base(rng.normal(size=3), 0.4, 4.5, np.diag([1.0, 2.0, 0.3]) + 0.1)
    X = rng.normal(size=(6, 3))
    wanted = naive.log_marginal(X, base) - naive.log_marginal(X[:5], base)
    assert naive.log_predictive(X[5], X[:5], base) == pytest.approx(wanted, rel=1e-11)


def test_naive_conditional_without_locations_is_the_product_over_clusters():
    """p(y, s | V) factorises over clusters once the locations are summed over."""
    rng = np.random.default_rng(1)
    problem = naive.Problem(
        y=rng.normal(size=(5, 1)), base=naive.Base(np.zeros(1), 0.5, 3.0, np.eye(1)), group=np.array([0, 1, 1, 2, 0]),
        x=np.array([[0.0], [0.4], [1.0]]), mu=np.array([[0.1], [0.8]]), R0=np.array([0.3, 0.7]), kernel=naive.squared_exponential,
    )
    point = naive.Point((0, 1, 0, 1, 2), (0, 1, 0), rng.gamma(2.0, size=3), 1.1, 0.4, 1.0, np.array([0.6]))

    def log_h(members):
        return naive.log_h(problem, point, members) + naive.log_marginal(problem.y[members], problem.base)

    found = naive.gibbs_conditional_without_locations(problem, point, 3)
    weight = {
        (0, 1, 0, 1, 2): log_h([1, 3]) - log_h([1]), (0, 1, 0, 0, 2): log_h([0, 2, 3]) - log_h([0, 2]),
        (0, 1, 0, 2, 2): log_h([3, 4]) - log_h([4]), (0, 1, 0, 2, 3): log_h([3]),
    }
    total = sum(math.exp(w) for w in weight.values())
    assert found == pytest.approx({labels: math.exp(w) / total for labels, w in weight.items()}, rel=1e-10)
