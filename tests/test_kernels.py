"""Compiled kernels against the references in `naive`."""

import json
import math
import re
from collections import Counter
from dataclasses import replace

import naive
import numba
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from support.chains import same_draws
from support.frequencies import LEAST_P, chi_square
from support.models import far_away, gaussian, mixture, regression
from support.processes import subprocess_of
from support.states import check_columns, copy_of, point_of, problem_of, started

import nrmmix as nm
from nrmmix.inference.mcmc import moves, sampling
from nrmmix.inference.mcmc.cycle import program as program_of
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.methods import CYCLES
from nrmmix.kernels import chain
from nrmmix.kernels.core import clusters
from nrmmix.kernels.core import locations as places
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import MOVE_T, call_density, call_mean, call_sample, call_scalar, call_step, entry
from nrmmix.kernels.core.jit import JIT
from nrmmix.kernels.measure import auxiliary, hyper, nrm
from nrmmix.kernels.moves import gibbs
from nrmmix.model.pack import arrays_of

# ---- building states, and reading them back


def restore(state, saved):
    for array, original in zip(state, saved, strict=True):
        array[...] = original


# Entry points have addresses, and only compiled functions call them (without compilation njit leaves a function as it is).
@numba.njit
def sample_column(data, stat, theta, k, m, rng):
    call_sample(data.block[0, layout.SAMPLE], data.rows, stat, theta, data.block[0], k, m, rng)


@numba.njit
def density_columns(data, theta, work, out, M, i):
    call_density(data.block[0, layout.DENSITY], data.rows, theta, work, out, data.block[0], M, i)


@numba.njit
def mean_column(data, stat, out, k):
    call_mean(data.block[0, layout.MEAN], data.rows, stat, out, data.block[0], k, 0)


@numba.njit
def mean_theta_column(data, theta, out, m):
    call_mean(data.block[0, layout.MEAN_THETA], data.rows, theta, out, data.block[0], m, 0)


@numba.njit
def step_at(address, data, state, rng):
    return call_step(address, data, state, rng)


@numba.njit
def scalar_at(address, data, state, which, z):
    return call_scalar(address, data, state, which, z)


def step(entry_point, data, state, rng):
    assert step_at(entry_point.address, data, state, rng) == layout.DONE


def scalar(entry_point, data, state, which, z):
    return scalar_at(entry_point.address, data, state, which, float(z))


# ---- the references among themselves


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


# ---- the Gaussian family


def scaled_statistics(model, data, stat, k):
    """n, posterior mean and scale matrix in the units of the data, from a column of statistics."""
    d = model.n_dim
    mean = stat[4 : 4 + d, k]
    L = np.zeros((d, d))
    row = 4 + d
    for a in range(d):
        for b in range(a):
            L[a, b] = stat[row, k]
            row += 1
        L[a, a] = 1.0 / stat[row, k]
        row += 1
    spread = np.diag(np.sqrt(np.diag(model.family.scale)))
    return stat[0, k], model.family.m + spread @ mean, spread @ L @ L.T @ spread


DIMENSIONS = [1, 2, 3, 7]


@pytest.mark.parametrize("d", DIMENSIONS)
def test_gaussian_statistics_after_adding_and_removing(d):
    model = mixture(30, d, seed=d)
    data, state = started(model, np.full(30, -1))
    base = problem_of(model, data).base
    rng = np.random.default_rng(d)
    k, members = 3, []
    clusters.empty_column(data, state.stat, k)
    for _ in range(200):
        if members and rng.random() < 0.45:
            i = members.pop(rng.integers(len(members)))
            assert clusters.update_column(data, state.stat, k, i, -1.0)
        elif len(members) < 30:
            i = int(rng.choice([j for j in range(30) if j not in members]))
            members.append(i)
            assert clusters.update_column(data, state.stat, k, i, 1.0)
        X = model.frame.response[members]
        wanted = naive.posterior(X, base)
        n, mean, scale = scaled_statistics(model, data, state.stat, k)
        assert n == len(members)
        np.testing.assert_allclose(mean, wanted.m, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(scale, wanted.scale, rtol=1e-9, atol=1e-9)
        if members:
            assert clusters.marginal_column(data, state.stat, k) == pytest.approx(naive.log_marginal(X, base), rel=1e-10)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_gaussian_scores_of_many_columns(d):
    n, K = 40, 9
    rng = np.random.default_rng(10 + d)
    labels = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    model = mixture(n, d, seed=d)
    data, state = started(model, labels)
    base = problem_of(model, data).base
    y = model.frame.response
    for i in range(n):
        own = labels[i]
        out = np.full(len(state.size), 0.25)  # scores are added to what is there
        clusters.score_columns(data, state.stat, state.work, out, K, i, -1)
        wanted = [naive.log_predictive(y[i], y[labels == k], base) for k in range(K)]
        np.testing.assert_allclose(out[:K] - 0.25, wanted, rtol=1e-9)
        # leave-one-out in its own column, and nowhere else
        again = np.full(len(state.size), 0.25)
        clusters.score_columns(data, state.stat, state.work, again, K, i, own)
        rest = (np.arange(n) != i) & (labels == own)
        assert again[own] - 0.25 == pytest.approx(naive.log_predictive(y[i], y[rest], base), rel=1e-8)
        others = np.setdiff1d(np.arange(K), [own])
        np.testing.assert_array_equal(again[others], out[others])


@pytest.mark.parametrize("d", DIMENSIONS)
def test_gaussian_score_without_itself_is_the_score_after_removal(d):
    model = mixture(12, d, seed=d)
    data, state = started(model, np.zeros(12, int))
    for i in range(12):
        within = np.zeros(len(state.size))
        clusters.score_columns(data, state.stat, state.work, within, 1, i, 0)
        clusters.copy_column(state.stat, state.stat, 0, 5)
        assert clusters.update_column(data, state.stat, 5, i, -1.0)
        after = np.zeros(len(state.size))
        clusters.score_columns(data, state.stat, state.work, after, 6, i, -1)
        assert within[0] == pytest.approx(after[5], rel=1e-9)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_gaussian_alone_is_the_prior_predictive(d):
    model = mixture(8, d, seed=d)
    data, _ = started(model, np.full(8, -1))
    base = problem_of(model, data).base
    wanted = [naive.log_marginal(model.frame.response[[i]], base) for i in range(8)]
    np.testing.assert_allclose(data.log_prior_predictive, wanted, rtol=1e-11)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_gaussian_chain_rule(d):
    """The predictives of the observations one after the other make up the marginal."""
    model = mixture(50, d, seed=d)
    data, state = started(model, np.full(50, -1))
    clusters.empty_column(data, state.stat, 0)
    total = 0.0
    for i in range(50):
        out = np.zeros(len(state.size))
        clusters.score_columns(data, state.stat, state.work, out, 1, i, -1)
        total += out[0]
        clusters.update_column(data, state.stat, 0, i, 1.0)
    assert total == pytest.approx(clusters.marginal_column(data, state.stat, 0), rel=1e-11)
    assert total == pytest.approx(naive.log_marginal(model.frame.response, problem_of(model, data).base), rel=1e-11)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("size", [0, 9])
def test_gaussian_posterior_draws(d, size):
    model = mixture(max(size, 2), d, seed=d, family=gaussian(d, np.random.default_rng(d), r=0.8, nu=d + 8.0))
    data, state = started(model, np.full(model.n_obs, -1))
    clusters.empty_column(data, state.stat, 0)
    for i in range(size):
        clusters.update_column(data, state.stat, 0, i, 1.0)
    # in the coordinates of the kernels, where the prior is m = 0 and scale has a diagonal of 1
    spread = np.sqrt(np.diag(model.family.scale))
    unit = naive.Base(np.zeros(d), model.family.r, model.family.nu, model.family.scale / np.outer(spread, spread))
    after = naive.posterior(data.rows.y[:size], unit)
    T = 20_000
    theta = np.zeros((model.packed.n_theta, T))
    rng = np.random.default_rng(7)
    for m in range(T):
        sample_column(data, state.stat, theta, 0, m, rng)
    log_det, mu, W = theta[0], theta[1 : 1 + d].T, theta[1 + d :].T.reshape(T, d, d)
    precision = np.einsum("tki,tkj->tij", W, W)
    np.testing.assert_allclose(log_det, 0.5 * np.linalg.slogdet(precision)[1], rtol=1e-8, atol=1e-8)

    def agrees(draws, wanted):
        """Means within 4.5 standard errors."""
        error = draws.std(axis=0) / math.sqrt(T)
        assert (np.abs(draws.mean(axis=0) - wanted) < 4.5 * error).all()

    V = np.linalg.inv(after.scale)
    agrees(precision, after.nu * V)
    agrees((precision - after.nu * V) ** 2, after.nu * (V**2 + np.outer(np.diag(V), np.diag(V))))
    agrees(mu, after.m)
    gap = mu - after.m
    agrees(np.einsum("ti,tj->tij", gap, gap), after.scale / (after.r * (after.nu - d - 1)))
    # mean given precision: r_n (mu - m_n)' Lambda (mu - m_n) ~ chi-square(d), independent of Lambda
    squared = after.r * np.einsum("ti,tij,tj->t", gap, precision, gap)
    assert stats.kstest(squared, stats.chi2(d).cdf).pvalue > LEAST_P
    assert abs(stats.spearmanr(squared, log_det).statistic) < 4.5 / math.sqrt(T)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_gaussian_density_and_means(d):
    model = mixture(9, d, seed=d)
    data, state = started(model, [0, 0, 1, 1, 1, 0, 0, 1, 0])
    base = problem_of(model, data).base
    rng = np.random.default_rng(3)
    M = 11
    theta = np.zeros((model.packed.n_theta, M))
    for m in range(M):
        sample_column(data, state.stat, theta, m % 2, m, rng)
    factor = np.diag(np.sqrt(np.diag(base.scale)))
    for i in range(9):
        out = np.full(M + 2, 0.5)
        density_columns(data, theta, np.zeros((model.packed.n_work, M)), out, M, i)
        for m in range(M):
            W = theta[1 + d :, m].reshape(d, d) @ np.linalg.inv(factor)  # back in the units of the data
            mean = base.m + factor @ theta[1 : 1 + d, m]
            wanted = multivariate_normal.logpdf(model.frame.response[i], mean, np.linalg.inv(W.T @ W))
            assert out[m] - 0.5 == pytest.approx(wanted, rel=1e-8)
        assert (out[M:] == 0.5).all()
    out = np.zeros(d)
    for k in (0, 1):
        mean_column(data, state.stat, out, k)
        members = model.frame.response[state.labels == k]
        np.testing.assert_allclose(model.family.means(out), naive.posterior(members, base).m, rtol=1e-10)
    mean_theta_column(data, theta, out, 4)
    np.testing.assert_array_equal(out, theta[1 : 1 + d, 4])


# ---- clusters: observations entering and leaving


@pytest.mark.parametrize("model", [
    pytest.param(lambda: mixture(30, 2, prior=nm.NGGP(1.0, 0.4)), id="mixture"),
    pytest.param(lambda: regression(30, nm.SquaredExponential(0.3), d=3), id="regression"),
])
def test_detach_and_attach_keep_the_invariants(model):
    model = model()
    data, state = started(model, np.full(30, -1), room=40, v=np.random.default_rng(5).gamma(2.0, size=len(arrays_of(model, 1)[1].v)))
    rng = np.random.default_rng(4)
    labels = np.full(30, -1)
    for step in range(5000):
        i = int(rng.integers(30))
        if state.labels[i] >= 0:
            clusters.detach(data, state, i)
            labels[i] = -1
        else:
            K = int(state.num[layout.N_CLUSTERS])
            k = int(rng.integers(K + 1))
            company = np.flatnonzero(state.labels == k)
            clusters.attach(data, state, i, k)
            labels[i] = labels[company[0]] if len(company) else step + 1000  # a name of its own
        assert naive.canonical(state.labels) == naive.canonical(labels)
        if step % 250 == 249:
            check_columns(model, data, state)


@pytest.mark.parametrize("distance", [1e4, 1e6, 1e9])
@pytest.mark.parametrize("d", DIMENSIONS)
def test_an_outlier_leaves_correct_statistics_behind(d, distance):
    model = mixture(10, d, y=far_away(d, distance), family=nm.Gaussian(m=np.zeros(d), r=0.1, nu=d + 2.0, scale=np.eye(d)))
    data, state = started(model, np.zeros(10, int))
    # taking it out of the statistics alone loses their digits, and says so
    clusters.copy_column(state.stat, state.stat, 0, 3)
    assert not clusters.update_column(data, state.stat, 3, 4, -1.0)
    clusters.detach(data, state, 4)
    check_columns(model, data, state, rtol=1e-12)
    base = problem_of(model, data).base
    wanted = naive.posterior(np.delete(model.frame.response, 4, axis=0), base)
    _, mean, scale = scaled_statistics(model, data, state.stat, 0)
    np.testing.assert_allclose(mean, wanted.m, rtol=1e-10)
    np.testing.assert_allclose(scale, wanted.scale, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_an_outlier_in_several_columns_leaves_correct_statistics_behind(d):
    """100 standard deviations out in one column, 10^4 in the next: no pivot loses too much, all of them together do."""
    sd = 100.0 ** -np.arange(1.0, d + 1)
    y = np.random.default_rng(d).normal(size=(10, d)) * sd
    y[4] = 1.0
    model = mixture(10, d, y=y, family=nm.Gaussian(m=np.zeros(d), r=0.1, nu=d + 2.0, scale=np.diag(sd**2)))
    data, state = started(model, np.zeros(10, int))
    clusters.detach(data, state, 4)
    check_columns(model, data, state, rtol=1e-9)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("distance", [1e4, 1e6, 1e9])
def test_the_score_of_an_outlier_without_itself(d, distance):
    model = mixture(10, d, y=far_away(d, distance), family=nm.Gaussian(m=np.zeros(d), r=0.1, nu=d + 2.0, scale=np.eye(d)))
    data, state = started(model, np.zeros(10, int))
    out = np.zeros(len(state.size))
    clusters.score_columns(data, state.stat, state.work, out, 1, 4, 0)
    assert math.isnan(out[0])
    rest = np.delete(model.frame.response, 4, axis=0)
    wanted = naive.log_predictive(model.frame.response[4], rest, problem_of(model, data).base)
    assert clusters.score_without(data, state, 4, 0) == pytest.approx(wanted, rel=1e-10)


def test_log_joint_of_data_far_from_zero():
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 40)
    # multiples of 2^-20: adding 10^6 is exact
    y = np.round(rng.normal(size=(40, 2)) * 0.01 * 2**20) / 2**20
    values = []
    for shift in (0.0, 1e6):
        model = nm.Model(data=y + shift, prior=nm.DirichletProcess(1.0))
        data, state = started(model, naive.canonical(labels))
        for _ in range(3):  # and after every observation has left and come back
            values.append(nrm.log_joint(data, state))
            for i in rng.permutation(40):
                k = int(state.labels[i])
                if state.size[k] > 1:
                    clusters.detach(data, state, i)
                    clusters.attach(data, state, i, k)
    np.testing.assert_allclose(values, values[0], rtol=1e-8)


# ---- covariate kernels


@pytest.mark.parametrize("q", [1, 2, 3])
def test_covariate_kernels(q):
    width = np.array([0.4, 0.15, 2.0])[:q]
    for kernel, reference in ((nm.SquaredExponential, naive.squared_exponential), (nm.Box, naive.box)):
        model = regression(25, kernel(list(width)), q=q, values=12)
        data, state = started(model, np.zeros(25, int) - 1)
        problem = problem_of(model, data)
        np.testing.assert_array_equal(data.group, problem.group)
        wanted = reference(problem.x, problem.mu, width)
        np.testing.assert_allclose(state.K, wanted, rtol=1e-13)
        np.testing.assert_allclose(np.exp(state.log_K), wanted, rtol=1e-13)
        np.testing.assert_allclose(state.A, state.v @ wanted, rtol=1e-13)


def test_squared_exponential_does_not_underflow_in_logs():
    model = regression(6, nm.SquaredExponential(0.001), values=2)
    data, state = started(model, np.full(6, -1))
    np.testing.assert_allclose(state.log_K, -0.5 * (data.distance[0] / 0.001) ** 2, rtol=1e-14)
    assert (state.K[data.distance[0] > 0.1] == 0.0).all()


def test_box_is_open_at_its_edge():
    table = pd.DataFrame({"x": [0.0, 0.1, 0.3, 0.6], "y": [0.0, 1.0, 2.0, 3.0]})
    model = nm.Model("y ~ x", table, kernel=nm.Box(0.3, scale=None))  # 0.6 - 0.3 and 0.3 - 0.0 are the width, up to rounding
    _, state = started(model, np.full(4, -1))
    np.testing.assert_array_equal(state.K, [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]])


# ---- the joint


def joint_cases():
    yield "dp", mixture(9, 2, prior=nm.DirichletProcess(0.7)), {}
    yield "dp-sampled", mixture(9, 1, prior=nm.DirichletProcess()), {"mass": 2.3}
    for sigma in (1e-9, 0.05, 0.4, 0.9):
        yield f"nggp-{sigma}", mixture(9, 2, prior=nm.NGGP(1.3, tau=0.6)), {"sigma": sigma}
    yield "nggp-0", mixture(9, 2, prior=nm.NGGP(1.3, 0.0)), {}
    yield "nig", mixture(9, 3, prior=nm.NormalizedInverseGaussian(1.1, tau=2.5)), {}
    priors = {"dp": nm.DirichletProcess(0.7), "nggp": nm.NGGP(0.7, 0.3, tau=1.7), "nig": nm.NormalizedInverseGaussian(2)}
    priors |= {"py": nm.PitmanYor(0.7, 0.3), "stable": nm.NormalizedStable(0.3), "finite": nm.FiniteMixture(3, 0.7)}
    for name in ("py", "stable", "finite"):
        yield name, mixture(9, 2, prior=priors[name]), {}
    yield "py-negative", mixture(9, 2, prior=nm.PitmanYor(-0.2, 0.3)), {}
    yield "finite-many", mixture(9, 2, prior=nm.FiniteMixture(500, 3.0)), {}
    for name, prior in priors.items():
        yield f"se-{name}", regression(9, nm.SquaredExponential(0.4), prior=prior), {}
        yield f"box-{name}", regression(9, nm.Box(0.8), prior=prior, d=2), {}
    yield "se-widths", regression(9, nm.SquaredExponential([0.4, 0.9, 0.2]), q=3), {}
    yield "se-shared", regression(9, nm.SquaredExponential(), q=2), {"widths": [0.5, 0.5]}
    yield "box-widths", regression(9, nm.Box([0.9, 1.1]), q=2), {}


JOINTS = {name: (model, hyper) for name, model, hyper in joint_cases()}


def random_point(model, rng, n_clusters=3, **hyper):
    """A state at random labels, locations that reach their members, v, and prior weights of the locations."""
    n = model.n_obs
    data, state = arrays_of(model, 8)
    G, P = len(state.v), len(data.R0)
    R0 = rng.dirichlet(np.full(P, 3.0))
    labels = np.concatenate([np.arange(n_clusters), rng.integers(0, n_clusters, n - n_clusters)])
    data, state = started(model, np.full(n, -1), **hyper)  # for K at the widths
    locations = np.full(n_clusters, -1)
    for k in range(n_clusters):
        open_to = [p for p in rng.permutation(P) if (state.K[data.group[labels == k], p] > 0).all()]
        if not open_to:  # a box: keep what the location of the first member reaches
            return random_point(model, rng, n_clusters, **hyper)
        locations[k] = open_to[0]
    v = rng.gamma(2.0, size=G) if model.is_regression or model.has_u else None
    return started(model, labels, locations=locations, v=v, R0=R0, **hyper)


@pytest.mark.parametrize("name", JOINTS)
def test_log_joint(name):
    model, hyper = JOINTS[name]
    rng = np.random.default_rng(6)
    for _ in range(5):
        data, state = random_point(model, rng, **hyper)
        wanted = naive.log_joint(problem_of(model, data), point_of(state))
        assert math.isfinite(wanted)
        assert nrm.log_joint(data, state) == pytest.approx(wanted, rel=1e-10)


def test_log_joint_of_the_model_integrates_u_out():
    for prior in (nm.NGGP(1.3, 0.4, tau=0.6), nm.NormalizedInverseGaussian(0.5), nm.NGGP(0.8, 0.0)):
        model = mixture(9, 2, prior=prior)
        labels = (0, 1, 0, 2, 2, 1, 0, 0, 1)
        data, state = started(model, labels)
        problem, point = problem_of(model, data), point_of(state)
        sizes = [len(point.members(k)) for k in range(3)]
        wanted = naive.log_likelihood(problem, point) + naive.log_eppf(sizes, point.mass, point.sigma, point.tau)
        assert model.log_joint(labels) == pytest.approx(wanted, rel=1e-10)


# ---- full conditionals of v and the hyperparameters


def density_cases():
    mass = nm.Gamma(1.5, 0.8)
    yield "mixture", mixture(9, 1, prior=nm.NGGP(0.9, nm.Beta(1, 2), tau=0.7))
    yield "mixture-mass", mixture(9, 1, prior=nm.NGGP(mass, nm.Beta(2, 3)))
    yield "se", regression(9, nm.SquaredExponential(nm.LogNormal(-1, 0.7)), prior=nm.NGGP(0.9, nm.Beta(1, 2)))
    yield "se-mass", regression(9, nm.SquaredExponential(nm.Gamma(2, 3)), prior=nm.NGGP(mass, nm.Beta(1, 2), tau=1.4))
    yield "se-dp", regression(9, nm.SquaredExponential(0.3), prior=nm.DirichletProcess(mass))
    yield "se-widths", regression(
        9, nm.SquaredExponential([nm.LogNormal(-1, 0.7), 0.8, nm.Beta(2, 2)]), prior=nm.NGGP(mass, nm.Beta(1, 2)), q=3
    )
    yield "se-shared", regression(9, nm.SquaredExponential(nm.Beta(2, 1)), prior=nm.NGGP(nm.LogNormal(0, 1), 0.4), q=2)
    yield "box", regression(9, nm.Box(nm.LogNormal(0, 0.5)), prior=nm.NGGP(mass, 0.5))
    width = nm.LogNormal(-1, 0.7)
    yield "se-py", regression(9, nm.SquaredExponential(width), prior=nm.PitmanYor(mass, nm.Beta(1, 2)))
    yield "se-stable", regression(9, nm.SquaredExponential(width), prior=nm.NormalizedStable(nm.Beta(1, 2)))
    yield "se-finite", regression(9, nm.SquaredExponential(width), prior=nm.FiniteMixture(5, mass))
    yield "box-full", regression(9, nm.Box(nm.LogNormal(0, 0.5)), prior=nm.FiniteMixture(3, 2.0))  # as many components as clusters


DENSITIES = dict(density_cases())


def integrates_mass(model):
    return isinstance(model.prior.mass, nm.Gamma) and model.prior.kind == layout.CRM


def density_point(name, seed=8):
    return random_point(DENSITIES[name], np.random.default_rng(seed))


def agree_up_to_a_constant(found, wanted, rtol=1e-9):
    found, wanted = np.array(found), np.array(wanted)
    assert np.isfinite(wanted).sum() >= 3
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(wanted))
    use = np.isfinite(wanted)
    first = np.flatnonzero(use)[0]
    gaps = wanted[use] - wanted[first]
    np.testing.assert_allclose(found[use] - found[first], gaps, rtol=rtol, atol=rtol * (1 + np.abs(gaps).max()))


@pytest.mark.parametrize("name", DENSITIES)
def test_log_density_of_v(name):
    model = DENSITIES[name]
    data, state = density_point(name)
    problem, point = problem_of(model, data), point_of(state)
    K = problem.K(point.widths)
    c = np.zeros(len(problem.R0))
    nrm.exponents(state, c)
    wanted_c = [sum(len(point.members(k)) - point.sigma for k in range(3) if point.locations[k] == p) for p in range(len(c))]
    np.testing.assert_allclose(c, wanted_c, rtol=1e-13)
    xs = [-9.0, -1.0, 0.0, 0.7, 3.0, 12.0]
    for g in range(len(point.v)):
        rest = point.tau + sum((point.v[h] * K[h] for h in range(len(K)) if h != g), np.zeros(K.shape[1]))
        n_g = float((problem.group == g).sum())
        found = [auxiliary.log_density_v(data, state, n_g, x, -layout.LOG_V_MAX, layout.LOG_V_MAX, rest, K[g].copy(), c) for x in xs]
        wanted = [naive.log_density_v(problem, point, g, x, without_mass=integrates_mass(model)) for x in xs]
        agree_up_to_a_constant(found, wanted)
    for groups in (list(range(len(K))), [0], list(range(len(K)))[-2:]):
        inside = np.isin(np.arange(len(K)), groups)
        base, within = point.tau + point.v[~inside] @ K[~inside], point.v[inside] @ K[inside]
        count = float(inside[problem.group].sum())
        found = [auxiliary.log_density_v(data, state, count, x, -layout.LOG_V_MAX, layout.LOG_V_MAX, base, within, c) for x in xs]
        wanted = [naive.log_density_scale(problem, point, groups, x, without_mass=integrates_mass(model)) for x in xs]
        agree_up_to_a_constant(found, wanted)
    assert auxiliary.log_density_v(data, state, 9.0, 3.01, -600.0, 3.0, base, within, c) == -np.inf
    assert auxiliary.log_density_v(data, state, 9.0, -3.01, -3.0, 600.0, base, within, c) == -np.inf


@pytest.mark.parametrize("sigma", [0.0, 1e-7, 0.3, 0.9])
def test_weighted_sums_and_total_psi1(sigma):
    rng = np.random.default_rng(3)
    tau = 0.7
    for P in (1, 2, 9, 40):
        base, K, c, R0 = tau + rng.gamma(1, size=P), rng.random(P), rng.gamma(1, size=P), rng.dirichlet(np.ones(P))
        c[rng.random(P) < 0.3] = 0.0
        for v in (0.0, 1e-3, 2.0, 1e9):
            A = base - tau + v * K
            logs, total = nrm.weighted_sums(base, K, v, c, R0, sigma, tau)
            assert logs == pytest.approx(float(np.sum(c * np.log(tau + A))), rel=1e-12, abs=1e-13)
            wanted = sum(w * naive.psi1(a, sigma, tau) for w, a in zip(R0, A, strict=True))
            assert total == pytest.approx(wanted, rel=1e-11)
    model = DENSITIES["se-mass"]
    data, state = density_point("se-mass")
    wanted = sum(w * naive.psi1(a, sigma, 1.4) for w, a in zip(data.R0, state.A, strict=True))
    assert model.prior.tau == 1.4
    assert nrm.total_psi1(data, state, sigma) == pytest.approx(wanted, rel=1e-11)


@pytest.mark.parametrize("sigma", [-7.0, -0.4, -1e-7, 0.0, 1e-7, 0.3, 0.9])
def test_power_sums(sigma):
    rng = np.random.default_rng(3)
    for P in (1, 2, 9, 40):
        base, K, c, R0 = 1 + rng.gamma(1, size=P), rng.random(P), rng.gamma(1, size=P), rng.dirichlet(np.ones(P))
        for v in (0.0, 1e-3, 2.0, 1e9, 1e200):
            log_b = np.log(base + v * K)
            logs, mean = nrm.power_sums(base, K, v, c, R0, sigma, 0.0)
            assert logs == pytest.approx(float(c @ log_b), rel=1e-12)
            if abs(sigma) < 1e-6:
                wanted = R0 @ log_b + 0.5 * sigma * (R0 @ log_b**2 - (R0 @ log_b) ** 2)
            else:
                wanted = logsumexp(np.log(R0) + sigma * log_b) / sigma
            assert mean == pytest.approx(wanted, rel=1e-10)
            assert nrm.power_sums(base - 1, K, v, c, R0, sigma, 1.0)[1] == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("name", ["mixture", "mixture-mass", "se", "se-mass", "se-widths", "se-py", "se-stable"])
def test_log_density_of_sigma(name):
    model = DENSITIES[name]
    for seed in (1, 2):
        data, state = density_point(name, seed)
        problem, point = problem_of(model, data), point_of(state)
        zs = [-12.0, -4.0, -1.0, 0.0, 0.5, 2.0, 6.0]
        found = [scalar(hyper.log_density_sigma, data, state, layout.SIGMA, z) for z in zs]
        wanted = [naive.log_density_sigma(problem, point, z, without_mass=integrates_mass(model)) for z in zs]
        agree_up_to_a_constant(found, wanted)


def test_log_density_of_sigma_without_v():
    model = mixture(9, 1, prior=nm.PitmanYor(0.8, nm.Beta(1, 2)))
    data, state = random_point(model, np.random.default_rng(2))
    problem, point = problem_of(model, data), point_of(state)
    zs = [-20.0, -4.0, -1.0, 0.5, 6.0]
    found = [scalar(hyper.log_density_sigma, data, state, layout.SIGMA, z) for z in zs]
    agree_up_to_a_constant(found, [naive.log_density_sigma(problem, point, z, without_mass=False) for z in zs])


@pytest.mark.parametrize("name", ["dp-gamma", "dp-lognormal", "nggp-lognormal", "se-shared", "py", "finite", "se-py", "se-finite"])
def test_log_density_of_mass(name):
    model = {
        "dp-gamma": lambda: mixture(9, 1, prior=nm.DirichletProcess(nm.Gamma(2, 0.5))),
        "dp-lognormal": lambda: mixture(9, 1, prior=nm.DirichletProcess(nm.LogNormal(0.3, 1.5))),
        "nggp-lognormal": lambda: mixture(9, 1, prior=nm.NGGP(nm.LogNormal(0.3, 1.5), 0.25)),
        "py": lambda: mixture(9, 1, prior=nm.PitmanYor(nm.Gamma(2, 0.5), 0.4)),
        "finite": lambda: mixture(9, 1, prior=nm.FiniteMixture(4, nm.LogNormal(0.3, 1.5))),
    }.get(name, lambda: DENSITIES[name])()
    data, state = random_point(model, np.random.default_rng(9))
    problem, point = problem_of(model, data), point_of(state)
    zs = [-9.0, -3.0, -0.5, 0.0, 1.0, 4.0]
    found = [scalar(hyper.log_density_mass, data, state, layout.MASS, z) for z in zs]
    agree_up_to_a_constant(found, [naive.log_density_mass(problem, point, z) for z in zs])


@pytest.mark.parametrize(("name", "j"), [
    ("se", 0), ("se-mass", 0), ("se-widths", 0), ("se-widths", 2), ("se-shared", 0), ("box", 0),
    ("se-py", 0), ("se-stable", 0), ("se-finite", 0), ("box-full", 0),
])
@pytest.mark.parametrize("carry", [False, True])
def test_log_density_of_a_width(name, j, carry):
    model = DENSITIES[name]
    logit = isinstance(model.widths[j], nm.Beta)
    data, state = density_point(name)
    problem, point = problem_of(model, data), point_of(state)
    state.carried[0] = np.log(state.v * naive.reach(problem, point, point.widths))
    before = copy_of(state)
    zs = [-1.5, -0.8, -0.3, 0.0, 0.1, 0.6, 1.3]
    found = [scalar(hyper.log_density_width, data, state, layout.WIDTH + j + carry * hyper.CARRY, z) for z in zs]
    options = dict(without_mass=integrates_mass(model), logit=logit, carry=carry)
    wanted = [naive.log_density_width(problem, point, j, z, **options) for z in zs]
    agree_up_to_a_constant(found, wanted)
    # only scratch space has changed
    for field in ("hyper", "K", "log_K", "A", "v", "labels", "location"):
        np.testing.assert_array_equal(getattr(state, field), getattr(before, field))


def test_log_density_of_hyperparameters_outside_their_range():
    data, state = density_point("se-widths")
    densities = {
        layout.SIGMA: hyper.log_density_sigma, layout.MASS: hyper.log_density_mass,
        layout.WIDTH: hyper.log_density_width, layout.WIDTH + 2: hyper.log_density_width,
    }
    for which, density in densities.items():
        for z in (-601.0, 601.0, -np.inf, np.inf):
            assert scalar(density, data, state, which, z) == -np.inf
    assert scalar(hyper.log_density_sigma, data, state, layout.SIGMA, 40.0) == -np.inf  # rounds to sigma = 1


def regions_of(state, data):
    """Groups whose first observations are in one cluster."""
    region = {}
    for g in range(len(state.v)):
        region.setdefault(int(state.labels[np.flatnonzero(data.group == g)[0]]), []).append(g)
    return list(region.values())


STRETCHED = [name for name, model in DENSITIES.items() if model.is_regression]


@pytest.mark.parametrize("name", STRETCHED)
def test_log_density_of_a_stretch(name):
    """What `stretch` gathers before its step stays, so its density can be asked for afterwards."""
    model = DENSITIES[name]
    seen = set()
    for seed in range(4):
        data, state = density_point(name, seed)
        point, regions = point_of(state), regions_of(state, data)
        seen.add(len(regions))
        auxiliary.find_regions(data, state)
        assert [np.flatnonzero(state.region == r).tolist() for r in np.unique(state.region)] == regions
        auxiliary.stretch(data, state, np.random.default_rng(0))
        shift = np.log(state.v / point.v)
        level = np.zeros(len(shift))
        for region in regions:
            level[region] = math.log(point.v[region[0]])
        np.testing.assert_allclose(shift, level * (shift[0] / level[0]), rtol=1e-8, atol=1e-9)
        zs = [-3.0, -1.0, -0.2, 0.0, 0.4, 1.0, 1.8]
        found = [scalar(auxiliary.log_density_stretch, data, state, 0, z) for z in zs]
        options = dict(without_mass=integrates_mass(model))
        wanted = [naive.log_density_stretch(problem_of(model, data), point, regions, z, **options) for z in zs]
        agree_up_to_a_constant(found, wanted)
        assert scalar(auxiliary.log_density_stretch, data, state, 0, 20.0) == -np.inf  # beyond the bound of v
    assert max(seen) > 1


# ---- slice sampling: the draws have the density that was sampled


def check_draws(z, log_density, lo, hi):
    """Draws of a scalar against the distribution with the given log density on (lo, hi)."""
    grid = np.linspace(lo, hi, 1500)
    log_p = np.array([log_density(x) for x in grid])
    p = np.exp(log_p - log_p.max())
    assert max(p[0], p[-1]) < 1e-6
    cdf = np.concatenate([[0.0], np.cumsum((p[1:] + p[:-1]) / 2)])
    assert ((z > lo) & (z < hi)).all()
    assert stats.kstest(z, lambda x: np.interp(x, grid, cdf / cdf[-1])).pvalue > LEAST_P


@pytest.mark.parametrize("group", [0, 2])
def test_slice_v_draws(group):
    model = regression(9, nm.SquaredExponential(0.4), prior=nm.NGGP(0.9, 0.35))
    data, state = random_point(model, np.random.default_rng(8))
    problem, point = problem_of(model, data), point_of(state)
    K = problem.K(point.widths)
    rest = point.tau + point.v @ K - point.v[group] * K[group]
    c = np.zeros(len(problem.R0))
    nrm.exponents(state, c)
    n_g = float((problem.group == group).sum())
    rng = np.random.default_rng(1)
    x, draws = 0.0, []
    for _ in range(12_000):
        x = auxiliary.slice_v(data, state, n_g, x, -layout.LOG_V_MAX, layout.LOG_V_MAX, rest, K[group].copy(), c, rng)
        draws.append(x)
    check_draws(np.array(draws[::4]), lambda t: naive.log_density_v(problem, point, group, t, without_mass=False), -20, 30)


@pytest.mark.parametrize("case", [
    "mass-dp", "mass-nggp", "sigma", "sigma-mixture", "width", "width-beta", "width-carry", "width-beta-carry",
])
def test_slice_hyper_draws(case):
    model = {
        "mass-dp": lambda: mixture(9, 1, prior=nm.DirichletProcess(nm.Gamma(2, 0.5))),
        "mass-nggp": lambda: mixture(9, 1, prior=nm.NGGP(nm.LogNormal(0.3, 1.5), 0.25)),
        "sigma": lambda: regression(9, nm.SquaredExponential(0.4), prior=nm.NGGP(0.9, nm.Beta(1, 2))),
        "sigma-mixture": lambda: mixture(9, 1, prior=nm.NGGP(0.9, nm.Beta(2, 3))),
        "width": lambda: regression(9, nm.SquaredExponential(nm.LogNormal(-1, 0.7)), prior=nm.NGGP(0.9, 0.2)),
        "width-beta": lambda: regression(9, nm.SquaredExponential(nm.Beta(2, 2)), prior=nm.NGGP(0.9, 0.2), q=2),
    }[case.removesuffix("-carry")]()
    carry = case.endswith("-carry")
    which = {"mass": layout.MASS, "sigma": layout.SIGMA, "width": layout.WIDTH}[case.split("-")[0]]
    data, state = random_point(model, np.random.default_rng(8))
    problem, point = problem_of(model, data), point_of(state)
    rng = np.random.default_rng(2)
    draws = np.empty(12_000)
    for t in range(len(draws)):
        if which == layout.WIDTH:
            hyper.update_width(data, state, which, int(carry), rng)
        else:
            step(hyper.update_sigma if which == layout.SIGMA else hyper.update_mass, data, state, rng)
        draws[t] = state.hyper[which]
    if carry:
        held = naive.reach(problem, point, point.widths) * point.v
        np.testing.assert_allclose(naive.reach(problem, point, point_of(state).widths) * state.v, held, rtol=1e-7)
    draws = draws[::4]
    logit = which == layout.SIGMA or "beta" in case
    z = np.log(draws) - np.log1p(-draws) if logit else np.log(draws)
    density = {
        layout.MASS: lambda t: naive.log_density_mass(problem, point, t),
        layout.SIGMA: lambda t: naive.log_density_sigma(problem, point, t, without_mass=False),
        layout.WIDTH: lambda t: naive.log_density_width(problem, point, 0, t, without_mass=False, logit=logit, carry=carry),
    }[which]
    check_draws(z, density, -25.0, 20.0)


@pytest.mark.parametrize(("moves_of_v", "regions"), [
    ("v", 2), ("levels", 2), ("both", 2), ("both", 1),  # with one region levels alone keep the ratio of the two
])
def test_moves_of_v_draw_both_groups(moves_of_v, regions):
    """Groups in turn, regions, their common scale and the stretch leave p(v | the rest) as it is: against the density on a grid."""
    table = pd.DataFrame({"x": [0.0, 0.0, 1.0, 1.0, 1.0], "y": [0.1, 1.0, -0.4, 0.3, 2.0]})
    model = nm.Model("y ~ x", table, kernel=nm.SquaredExponential(0.7), prior=nm.NGGP(0.9, 0.4), family=nm.Gaussian(scale=1.0))
    labels = [0, 1, 1, 0, 1] if regions == 2 else [0, 1, 0, 1, 1]
    data, state = started(model, labels, locations=[0, 1], R0=[0.4, 0.6])
    assert len(regions_of(state, data)) == regions
    problem, point = problem_of(model, data), point_of(state)
    updates = {"v": [auxiliary.update_v], "levels": [auxiliary.update_levels], "both": [auxiliary.update_v, auxiliary.update_levels]}
    rng = np.random.default_rng(3)
    draws = np.empty((20_000, 2))
    for t in range(len(draws)):
        for update in updates[moves_of_v]:
            step(update, data, state, rng)
        draws[t] = np.log(state.v)
    np.testing.assert_allclose(state.A, state.v @ state.K, rtol=1e-12)
    grid = np.arange(-12.0, 18.0, 0.4)
    log_p = np.array([
        [naive.log_posterior(problem, replace(point, v=np.exp([s, t]))) + s + t for t in grid] for s in grid
    ])
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    s, t = np.meshgrid(grid, grid, indexing="ij")
    # smooth functions only: the grid is a trapezoid rule
    for function in (lambda a, b: a, lambda a, b: b, lambda a, b: a * a, lambda a, b: a * b, lambda a, b: (a - b) ** 2):
        wanted = (p * function(s, t)).sum()
        values = function(draws[:, 0], draws[:, 1])
        batches = values.reshape(100, -1).mean(axis=1)  # batch means carry the autocorrelation
        assert abs(values.mean() - wanted) < 4.5 * batches.std(ddof=1) / 10


@pytest.mark.parametrize("groups", [[0, 1, 2, 3, 4], [1, 2, 4], [3]], ids=str)
def test_rescale_draws(groups):
    """The scale of the chosen groups; the others stay."""
    model = regression(9, nm.SquaredExponential([0.4, 0.8]), prior=nm.NGGP(0.9, 0.35), q=2)
    data, state = random_point(model, np.random.default_rng(8))
    problem, point = problem_of(model, data), point_of(state)
    state.chosen[:] = np.isin(np.arange(5), groups)
    c = np.zeros(len(problem.R0))
    nrm.exponents(state, c)
    rng = np.random.default_rng(4)
    draws = np.empty(12_000)
    for t in range(len(draws)):
        auxiliary.rescale(data, state, c, rng)
        log_c = np.log(state.v / point.v)
        np.testing.assert_allclose(log_c, np.where(np.isin(np.arange(5), groups), log_c[groups[0]], 0.0), atol=1e-8)
        draws[t] = log_c[groups[0]]
    check_draws(
        draws[::4], lambda x: naive.log_density_scale(problem, point, groups, x, without_mass=False), -25, 30
    )


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 0]], ids=str)
def test_v_stays_within_its_bound(labels):
    """The tail of log v is polynomial at sigma = 0: it gets there within thousands of iterations."""
    table = pd.DataFrame({"x": [0.0, 0.5, 1.0], "y": [0.0, 0.1, 0.05]})
    model = nm.Model("y ~ x", table, family=nm.Gaussian(m=0.0, scale=1.0), prior=nm.DirichletProcess())
    data, state = started(model, labels, v=np.full(3, math.exp(0.95 * layout.LOG_V_MAX)), widths=0.5)
    saved = copy_of(state)
    rng = np.random.default_rng(0)
    for _ in range(500):
        restore(state, saved)
        for update in (auxiliary.update_v, auxiliary.update_levels):
            step(update, data, state, rng)
            assert np.isfinite(state.A).all()
            assert np.log(state.v).max() <= layout.LOG_V_MAX * (1 + 1e-12)


@pytest.mark.parametrize("name", ["mixture-mass", "se", "se-widths", "se-shared", "box", "se-py", "se-stable", "se-finite"])
def test_updates_leave_every_cache_fresh(name):
    model = DENSITIES[name]
    data, state = density_point(name)
    updates = update_addresses(model)
    sampled = {name.split("_")[0] for name in model.sampled}  # one update for all widths
    assert len(updates) == (3 if model.is_regression else 1) + len(sampled)
    rng = np.random.default_rng(5)
    for _ in range(50):
        for address in updates:
            assert step_at(address, data, state, rng) == layout.DONE
        nrm.refresh_caches(data, state)
        point = point_of(state)
        problem = problem_of(model, data)
        K = problem.K(point.widths)
        np.testing.assert_allclose(state.K, K, rtol=1e-11)
        np.testing.assert_allclose(state.A, point.v @ K, rtol=1e-11)
        check_columns(model, data, state)
        sizes = np.arange(1, model.n_obs + 1)
        np.testing.assert_allclose(state.log_size[1 : model.n_obs + 1], np.log(sizes - point.sigma), rtol=1e-12, atol=1e-14)
        rate = problem.R0 * point.mass * (point.tau + state.A) ** (point.sigma - 1)
        new = np.arange(state.log_next.shape[0])
        if name == "se-py":
            rate /= point.mass * (problem.R0 @ (point.tau + state.A) ** point.sigma)
            np.testing.assert_allclose(state.log_next[1:], np.log(point.mass + point.sigma * new[1:]), rtol=1e-12, atol=1e-14)
        elif name == "se-finite":
            assert point.sigma == -point.mass / 5
            rate /= point.mass * (problem.R0 @ (point.tau + state.A) ** point.sigma)
            np.testing.assert_allclose(np.exp(state.log_next[1:]), point.mass * np.maximum(1 - new[1:] / 5, 0), rtol=1e-12, atol=1e-300)
        else:
            assert not state.log_next.any() and (name != "se-stable" or point.mass == point.sigma)
        np.testing.assert_allclose(state.log_new, np.log(K @ rate), rtol=1e-11, atol=1e-11)
        if problem.shared:
            assert (point.widths == point.widths[0]).all()
        assert math.isfinite(nrm.log_joint(data, state))


def test_update_mass_draws_from_its_gamma():
    """The mass comes last: given v, sigma and the partition of the same sweep it is an exact gamma draw."""
    data, state = density_point("se-mass")
    rng = np.random.default_rng(6)
    draws = np.empty(3000)
    for t in range(len(draws)):
        step(hyper.update_mass, data, state, rng)
        draws[t] = state.hyper[layout.MASS]
    point = point_of(state)
    total = sum(w * naive.psi1(a, point.sigma, point.tau) for w, a in zip(data.R0, state.A, strict=True))
    assert stats.kstest(draws, stats.gamma(1.5 + 3, scale=1 / (0.8 + total)).cdf).pvalue > LEAST_P


@pytest.mark.parametrize("kernel", [nm.SquaredExponential(0.3), nm.Box(0.5), nm.SquaredExponential([0.5, 0.2])], ids=str)
def test_update_locations_frequencies(kernel):
    model = regression(9, kernel, q=2 if not kernel.shared_width else 1)
    data, state = random_point(model, np.random.default_rng(4), n_clusters=3)
    problem, point = problem_of(model, data), point_of(state)
    rng = np.random.default_rng(5)
    counts = [Counter() for _ in range(3)]
    for _ in range(8000):
        step(places.update_locations, data, state, rng)
        for k in range(3):
            counts[k][int(state.location[k])] += 1
    for k in range(3):
        p = naive.location_conditional(problem, point, k)
        assert chi_square(counts[k], dict(enumerate(p))) > LEAST_P


# ---- Gibbs


@pytest.mark.parametrize("sigma", [0.0, 0.3])
@pytest.mark.parametrize("kernel", [nm.SquaredExponential(0.25), nm.Box(0.4), nm.SquaredExponential([0.5, 0.3])], ids=str)
def test_prior_weights_are_ratios_of_h(kernel, sigma):
    """h(c + i)/h(c), `own` without i; in a state that many observations have entered and left."""
    q = 2 if not kernel.shared_width else 1
    model = regression(25, kernel, prior=nm.NGGP(1.5, sigma, tau=0.8), q=q, values=11)
    rng = np.random.default_rng(7)
    G, P = arrays_of(model, 1)[1].K.shape
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
            k = int(rng.integers(state.num[layout.N_CLUSTERS] + 1))
            company = data.group[np.append(np.flatnonzero(state.labels == k), i)]
            if (state.K[company] > 0).all(axis=0).any():  # some location reaches them all
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
                gibbs.prior_weights(state, K, data.group[i], without)
                for k in range(K):
                    if k == without:
                        rest = [j for j in point.members(k) if j != i]
                        wanted = h[k] - naive.log_h(problem, point, rest)
                    elif k == own:
                        continue  # i would be there twice
                    else:
                        wanted = joined[k] - h[k]
                    assert state.score[k] == pytest.approx(wanted, rel=1e-9, abs=1e-9)
                    checked += 1
            assert state.log_new[data.group[i]] == pytest.approx(naive.log_h(problem, point, [i]), rel=1e-11, abs=1e-11)
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
        next(p for p in rng.permutation(len(data.R0)) if (state.K[data.group[labels == k], p] > 0).all())
        for k in range(labels.max() + 1)
    ]
    v = rng.gamma(2.0, size=len(state.v)) if model.is_regression or model.has_u else None
    return model, *started(model, labels, locations=locations, v=v, R0=rng.dirichlet(np.full(len(data.R0), 3.0)))


@pytest.mark.parametrize(("name", "which"), [
    (name, which) for name in GIBBS for which in ("first", "last", "alone", "unassigned")
    if (name, which) != ("one-cluster", "alone")
])
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
    assert chi_square(gibbs_counts(data, state, i, 6000), wanted) > LEAST_P


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
        assert state.num[layout.N_CLUSTERS] == 1 and state.labels[2] == 0
        step(places.update_locations, data, state, rng)
        counts[int(state.location[0])] += 1
    p = naive.location_conditional(problem, point_of(state), 0)
    assert chi_square(counts, dict(enumerate(p))) > LEAST_P


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
    clusters.score_columns(data, state.stat, state.work, out, 1, 3, 0)
    assert math.isnan(out[0])
    wanted = naive.gibbs_conditional_without_locations(problem_of(model, data), point_of(state), 3)
    assert sorted(wanted.values()) == pytest.approx([0.5, 0.5])
    assert chi_square(gibbs_counts(data, state, 3, 4000), wanted) > LEAST_P
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
        assert chi_square(gibbs_counts(data, state, i, 4000), wanted) > LEAST_P


def test_gibbs_says_which_observation_has_no_score():
    model = mixture(5, 1)
    data, state = started(model, [0, 0, 1, 1, 1])
    data.log_prior_predictive[3] = -np.inf
    state.log_weight[:] = -np.inf
    assert gibbs.gibbs_one(data, state, 3, np.random.default_rng(0)) == layout.BROKEN
    assert state.num[layout.BAD_ROW] == 3
    assert state.labels.tolist() == [0, 0, 1, 1, 1]


# ---- the chain


def draws_of(model, *, draws=40, tune=20, chains=1, rng=1, **options):
    """Draws without what results add to them."""
    options = {"thin": 1, "init": "sequential", "cores": 1, "progress": False, "time_limit": None} | options
    return sampling.sample(model, "gibbs", draws=draws, tune=tune, chains=chains, rng=rng, **options).draws


def test_record_numbers_clusters_by_first_appearance():
    model = regression(8, nm.SquaredExponential(0.4), values=4)
    labels = np.array([2, 0, 2, 3, 1, 0, 1, 3])
    data, state = started(model, labels, locations=[3, 1, 0, 2])
    out, where = np.full((3, 8), -9, np.int32), np.full((3, 8), -9, np.int32)
    v, scalars = np.zeros((3, len(state.v))), np.zeros((3, chain.R_WIDTH + 1))
    before = copy_of(state)
    chain.record(data, state, 1, out, where, v, scalars, np.zeros((3, 0, 0)), np.zeros((3, 0)), np.zeros((3, 0)))
    assert out[1].tolist() == list(naive.canonical(labels)) == [0, 1, 0, 2, 3, 1, 3, 2]
    assert where[1].tolist() == [0, 3, 0, 2, 1, 3, 1, 2]
    assert (out[[0, 2]] == -9).all() and (where[[0, 2]] == -9).all()
    np.testing.assert_array_equal(v[1], state.v)
    wanted = naive.log_joint(problem_of(model, data), point_of(state))
    assert scalars[1, chain.R_CLUSTERS] == 4
    assert scalars[1, chain.R_JOINT] == pytest.approx(wanted, rel=1e-10)
    assert scalars[1, [chain.R_MASS, chain.R_SIGMA, chain.R_WIDTH]].tolist() == [0.7, 0.3, 0.4]
    for name in set(layout.State._fields) - {"score"}:  # scratch
        np.testing.assert_array_equal(getattr(state, name), getattr(before, name))


BY_CLUSTER = ("size", "stat", "theta", "location", "log_weight", "score", "work")  # the cluster last


def test_enlarged_keeps_what_a_state_holds():
    model = regression(12, nm.SquaredExponential(0.4), d=2)
    data, state = started(model, [0, 1, 2, 0, 1, 2, 3, 3, 4, 4, 4, 4], locations=[1, 0, 2, 3, 1])
    wider = layout.enlarged(state)
    old = len(state.size)
    assert len(wider.size) > old
    for name in layout.State._fields:
        a, b = getattr(state, name), getattr(wider, name)
        if name in BY_CLUSTER:
            np.testing.assert_array_equal(a, b[..., :old])
            assert b.shape[-1] == len(wider.size) and b.dtype == a.dtype and b.flags.c_contiguous
        elif name in ("log_K_sum", "location_probability"):
            np.testing.assert_array_equal(a, b[:old])
            assert b.shape == (len(wider.size), a.shape[1]) and b.dtype == a.dtype and b.flags.c_contiguous
        else:
            assert a is b
    assert nrm.log_joint(data, wider) == nrm.log_joint(data, state)


MODELS = {
    "mixture": lambda: mixture(40, 2, prior=nm.NGGP(3.0)),
    "mixture-dp": lambda: mixture(40, 3, prior=nm.DirichletProcess(4.0)),
    "regression": lambda: regression(40, nm.SquaredExponential(), prior=nm.NGGP(3.0, 0.5), values=9),
    "regression-box": lambda: regression(40, nm.Box(0.4), prior=nm.DirichletProcess(4.0), values=9),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("init", ["sequential", "one"])
def test_a_chain_that_runs_out_of_room_goes_on_as_if_it_had_not(monkeypatch, name, init):
    model = MODELS[name]()
    if init == "one" and name == "regression-box":
        init = np.unique(model.frame.covariates, return_inverse=True)[1].reshape(-1) // 2
    enlarged = []
    original = layout.enlarged

    def counted(state):
        enlarged.append(len(state.size))
        return original(state)

    monkeypatch.setattr(layout, "enlarged", counted)
    monkeypatch.setattr(layout, "capacity", lambda n_clusters: 7)
    small = draws_of(model, init=init, draws=100)
    assert enlarged and small["n_clusters"].max() > 4
    enlarged.clear()
    monkeypatch.setattr(layout, "capacity", lambda n_clusters: 400)
    same_draws(draws_of(model, init=init, draws=100), small)
    assert not enlarged


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_draws_on_any_number_of_cores(name):
    model = MODELS[name]()
    one = draws_of(model, chains=3, cores=1, rng=7)
    same_draws(one, draws_of(model, chains=3, cores=2, rng=7))
    assert not np.array_equal(one["labels"][0], one["labels"][1])
    assert not np.array_equal(one["labels"], draws_of(model, chains=3, rng=8)["labels"])


def test_the_global_generator_of_numpy_is_left_alone():
    before = np.random.get_state()  # noqa: NPY002
    for name in ("mixture", "regression"):
        draws_of(MODELS[name](), rng=3)
        draws_of(MODELS[name](), rng=None, draws=2)
    after = np.random.get_state()  # noqa: NPY002
    assert before[0] == after[0] and before[2:] == after[2:]
    np.testing.assert_array_equal(before[1], after[1])


def test_recorded_joints_are_those_of_the_recorded_draws():
    for name in MODELS:
        model = MODELS[name]()
        draws = draws_of(model, draws=5, tune=100)
        for t in range(5):
            labels = draws["labels"][0, t]
            hyper = {key: float(draws[key][0, t]) for key in ("mass", "sigma")}
            K = labels.max() + 1
            first = [int(np.flatnonzero(labels == k)[0]) for k in range(K)]
            locations, v = None, None
            if model.is_regression:
                hyper["widths"] = float(draws["width"][0, t])
                locations, v = draws["locations"][0, t, first], draws["v"][0, t]
                np.testing.assert_array_equal(draws["locations"][0, t], np.asarray(locations)[labels])
            elif model.has_u:
                v = draws["u"][0, t]
            data, state = started(model, labels, locations=locations, v=v, **hyper)
            wanted = naive.log_joint(problem_of(model, data), point_of(state))
            assert draws["log_joint"][0, t] == pytest.approx(wanted, rel=1e-9)
            assert draws["n_clusters"][0, t] == K


@entry(MOVE_T)
def failing_move(data, state, memory, rng):
    return 0 if rng.random() < 0.1 else layout.DONE  # 0 is also what an exception inside an entry point gives


class FailingMove(moves.Gibbs):
    entry = failing_move


def test_a_move_that_fails_is_an_error():
    with pytest.raises(RuntimeError, match=r"broke off at iteration .*status 0"):
        sampling.sample(
            mixture(10, 1), FailingMove(), draws=200, tune=0, thin=1, chains=1, init="one", rng=1, cores=1, progress=False,
            time_limit=None,
        )


def test_thinning_keeps_every_so_many_draws():
    model = MODELS["regression"]()
    every, third = draws_of(model, draws=30), draws_of(model, draws=10, thin=3)
    for name in every:
        np.testing.assert_array_equal(every[name][:, 2::3], third[name])


# ---- without compilation, with bounds checked, and how much is compiled

# Written to be run by itself: two short fits, their draws saved.
SCRIPT = '''
import sys
import numpy as np
import pandas as pd
import nrmmix as nm
from nrmmix.inference.mcmc.sampling import sample

def fits(n, draws, tune):
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"x": np.round(rng.random(n), 1), "y": rng.normal(size=n), "z": rng.normal(size=n)})
    models = {
        "mixture": nm.Model("y + z ~ 1", table, prior=nm.NGGP(), family=nm.Gaussian(m=[0, 0], r=0.3, nu=4, scale=np.eye(2))),
        "regression": nm.Model("y ~ x", table, prior=nm.NGGP(), family=nm.Gaussian(m=0, r=0.3, nu=3, scale=1)),
    }
    out = {}
    for name, model in models.items():
        run = sample(model, "gibbs", draws=draws, tune=tune, thin=1, chains=1, init="sequential", rng=11, cores=1,
                     progress=False, time_limit=None)
        out |= {f"{name}-{key}": values for key, values in run.draws.items()}
    return out
'''

SIGNATURES = '''
import importlib, json, pkgutil
import nrmmix.kernels
from numba.core.dispatcher import Dispatcher

# other layouts and types of the same data, one to seven dimensions, both kernels, every kind of prior
rng = np.random.default_rng(0)
y = rng.normal(size=(20, 3))
table = pd.DataFrame(y, columns=list("abc"))
wide = rng.normal(size=(20, 7))
options = dict(draws=70, tune=2, thin=1, chains=1, init="sequential", rng=1, cores=1, progress=False, time_limit=None)
for model in (
    nm.Model(data=np.asfortranarray(y)), nm.Model(data=y.astype(np.float32)[::-1, :1]), nm.Model(data=wide),
    nm.Model(data={"y": y[:, 0].tolist()}), nm.Model(data=table, prior=nm.NormalizedInverseGaussian(1)),
    nm.Model(data=table.astype("Float64"), prior=nm.NGGP(nm.LogNormal(0, 1))),
    nm.Model("a ~ b", table, kernel=nm.Box(0.3)), nm.Model("a + b ~ c", table, prior=nm.DirichletProcess(2)),
    nm.Model("a ~ b + c", table, kernel=nm.SquaredExponential([nm.Beta(1, 1), 0.2]), prior=nm.NGGP(1, 0.5)),
):
    sample(model, "gibbs", **(options | {"init": "each" if model.n_dim == 3 else "sequential"}))
for method in (
    [nm.SplitMerge(), nm.SplitMerge(proposal="sequential"), nm.Gibbs(subset=3)], "slice", nm.Permutation("table"),
    [nm.Permutation(beam=0.1, order="markov"), nm.Permutation(order="projection"), nm.Gibbs()],
):
    for prior in (nm.NGGP(), nm.FiniteMixture(5, 2.0)):
        sample(nm.Model(data=y, prior=prior), method, **options)
found = {}
for module in pkgutil.walk_packages(nrmmix.kernels.__path__, "nrmmix.kernels."):
    for name, value in vars(importlib.import_module(module.name)).items():
        if isinstance(value, Dispatcher) and value.py_func.__module__ == module.name:
            found[module.name + "." + name] = [str(s) for s in value.signatures]
'''


def test_plain_python_gives_the_same_draws(tmp_path):
    """The kernels are ordinary Python: without compilation they make the same draws from the same seed."""
    subprocess_of(SCRIPT + "\nnp.savez(sys.argv[1], **fits(8, 20, 10))", tmp_path / "plain.npz", NUMBA_DISABLE_JIT="1")
    here: dict = {}
    exec(SCRIPT, here)
    compiled = here["fits"](8, 20, 10)
    with np.load(tmp_path / "plain.npz") as plain:
        assert sorted(plain) == sorted(compiled)
        for name, values in compiled.items():
            if values.dtype.kind == "i":
                np.testing.assert_array_equal(plain[name], values, err_msg=name)
            else:
                np.testing.assert_allclose(plain[name], values, rtol=1e-9, err_msg=name)
    assert len(np.unique(compiled["mixture-labels"][0], axis=0)) > 1
    assert len(np.unique(compiled["regression-labels"][0], axis=0)) > 1


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="nothing is compiled")
def test_bounds_are_kept_and_arrays_of_one_kind_reach_every_kernel(tmp_path):
    """Compiled from scratch with bounds checked: no index leaves its array, and each kernel meets one layout of each argument."""
    script = SCRIPT + SIGNATURES + "\nfound['draws'] = [fits(30, 100, 30)['mixture-labels'].shape]\nprint(json.dumps(found))"
    output = subprocess_of(script, quiet=True, NUMBA_BOUNDSCHECK="1", NUMBA_CACHE_DIR=str(tmp_path))
    signatures = json.loads(output.splitlines()[-1])
    assert signatures.pop("draws") == [[1, 100, 30]]
    for name in (
        "chain.run", "chain.start", "moves.gibbs.gibbs_one", "core.clusters.attach", "core.locations.weigh_locations",
        "measure.nrm.weighted_sums",
    ):
        assert signatures[f"nrmmix.kernels.{name}"], name
    # numba compiles literals apart; what must not differ are the types of arrays and numbers
    literal = re.compile(r"Literal\[(int|bool)\]\([^)]*\)")
    kinds = {
        name: {literal.sub(lambda at: {"int": "int64", "bool": "bool"}[at[1]], one) for one in all_}
        for name, all_ in signatures.items()
    }
    assert not {name: several for name, several in kinds.items() if len(several) > 1}


def test_the_chain_stops_when_told_and_when_there_is_no_room():
    model = mixture(6, 1)
    data, state = started(model, np.arange(6), room=1)
    assert len(state.size) - 3 >= 6
    tight = layout.State(*(
        a[..., :7].copy() if name in BY_CLUSTER else a[:7].copy() if name in ("log_K_sum", "location_probability") else a
        for name, a in zip(layout.State._fields, state, strict=True)
    ))
    control = np.zeros(chain.CONTROL, np.int64)
    control[chain.LIMIT] = 10**6
    program, updates = program_of(CYCLES["gibbs"], model), update_addresses(model)
    scalars = np.zeros((5, chain.R_WIDTH))
    chain.run(
        data, tight, np.random.default_rng(0), program, updates, 0, 1, np.zeros((5, 6), np.int32), np.zeros((5, 0), np.int32),
        np.zeros((5, 0)), scalars, np.zeros((5, 0, 0)), np.zeros((5, 0)), np.zeros((5, 0)), control,
    )
    assert control[chain.STATUS] == layout.NEED_ROOM and control[chain.ITERATION] == 0
    control[:] = 0
    control[chain.LIMIT], control[chain.STOP] = 10**6, 1
    chain.run(
        data, state, np.random.default_rng(0), program, updates, 0, 1, np.zeros((5, 6), np.int32), np.zeros((5, 0), np.int32),
        np.zeros((5, 0)), scalars, np.zeros((5, 0, 0)), np.zeros((5, 0)), np.zeros((5, 0)), control,
    )
    assert control[chain.ITERATION] == 0
