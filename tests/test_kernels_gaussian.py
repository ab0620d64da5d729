"""The Gaussian family's kernels against the references in `naive`, and clusters whose statistics lose their digits."""

import math

import naive
import numba
import numpy as np
import pytest
from scipy import stats
from scipy.stats import multivariate_normal
from support.cover import by_turns
from support.frequencies import MIN_P
from support.models import far_away, gaussian, mixture, regression
from support.states import check_columns, problem_of, started

import nrmmix as nm
from nrmmix.kernels.core import clusters
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import call_density, call_mean, call_sample, call_step, call_transfer
from nrmmix.kernels.measure import joint
from nrmmix.model.pack import arrays_of

pytestmark = pytest.mark.filterwarnings("ignore:.*quartile ranges away:UserWarning")  # rows far out are what is tested


# Entry points have addresses, and only compiled functions call them (without compilation njit leaves a function as it is).
@numba.njit
def sample_column(data, stat, theta, k, m, rng):
    call_sample(data.block[0, layout.Block.SAMPLE], data.rows, stat, theta, data.block[0], k, m, rng)


@numba.njit
def density_columns(data, theta, work, out, M, i):
    call_density(data.block[0, layout.Block.DENSITY], data.rows, theta, work, out, data.block[0], M, i)


@numba.njit
def mean_column(data, stat, out, k):
    call_mean(data.block[0, layout.Block.MEAN], data.rows, stat, out, data.block[0], k, 0)


@numba.njit
def mean_theta_column(data, theta, out, m):
    call_mean(data.block[0, layout.Block.MEAN_THETA], data.rows, theta, out, data.block[0], m, 0)


@numba.njit
def step_at(address, data, state, rng):
    return call_step(address, data, state, rng)


def step(entry_point, data, state, rng):
    assert step_at(entry_point.address, data, state, rng) == layout.DONE


# ---- the Gaussian family


@numba.njit
def score_all(data, state):
    clusters.score_four(data, state)


@numba.njit
def transfer(data, stat, k, m, i):
    return call_transfer(data.block[0, layout.Block.TRANSFER], data.rows, stat, data.block[0], k, m, i)


@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_transfer_is_two_updates(d, far):
    """But for the last bits, and it says where digits are lost; the column is then no one's."""
    rng = np.random.default_rng(d)
    n, K = 60, 4
    labels = rng.integers(0, K, n)
    y = rng.normal(size=(n, d)) + 3.0 * rng.normal(size=(K, d))[labels]
    y[0] += 1e5 * far
    data, state = started(nm.Model(data=y, prior=nm.DirichletProcess(0.8), family=gaussian(d, rng)), labels, room=n)
    found = []
    for i in range(n):
        k, m = labels[i], (labels[i] + 1 + i % (K - 1)) % K
        one, other = state.stat.copy(), state.stat.copy()
        sound = clusters.update_column(data, one, k, i, -1.0)
        clusters.update_column(data, one, m, i, 1.0)
        found.append(transfer(data, other, k, m, i) == layout.DONE)
        assert found[-1] == sound
        used = 4 + d + d * (d + 1) // 2  # behind them is scratch
        for c in range(K):
            if sound or c != k:  # one row 1e5 away leaves 6 digits of the others' squares
                close = 1e-6 if far and labels[0] in (c, k) else 1e-11
                np.testing.assert_allclose(other[:used, c], one[:used, c], rtol=close, atol=close)
    assert all(found[1:]) and found[0] != far


@pytest.mark.parametrize("d", [4, 5, 6, 11, 64])
def test_four_rows_at_once_are_scored_as_one_by_one(d):
    """But for the last bits, in clusters of one member and of many."""
    rng = np.random.default_rng(d)
    n, K = 150, 21
    labels = np.append(np.arange(K), rng.integers(0, K - 2, n - K))  # the last two clusters have one member
    y = rng.normal(size=(n, d)) + 3.0 * rng.normal(size=(K, d))[labels]
    model = nm.Model(data=y, prior=nm.DirichletProcess(0.8), family=gaussian(d, rng))
    data, state = started(model, labels, room=n)
    four, own = state.scratch.four[layout.ROWS_OF_FOUR :], state.scratch.four[layout.OWN_OF_FOUR :]
    W = state.scratch.work.shape[0] - 1
    for rows in ([0, 40, 80, 120], [20, 41, 42, 149], [60, 1, 2, 19], [7, 60, 8, 7]):
        for r, i in enumerate(rows):
            four[r], own[r] = i, labels[i] if state.size[labels[i]] > 1 else -1
        score_all(data, state)
        found = state.scratch.work[W - layout.FOUR : W, :K].copy()
        for r, i in enumerate(rows):
            one = np.zeros(state.scratch.score.shape[0])
            clusters.score_columns(data, state.stat, state.scratch.work, one, K, i, own[r])
            np.testing.assert_allclose(found[r], one[:K], rtol=1e-13, atol=1e-13)


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
        clusters.score_columns(data, state.stat, state.scratch.work, out, K, i, -1)
        wanted = [naive.log_predictive(y[i], y[labels == k], base) for k in range(K)]
        np.testing.assert_allclose(out[:K] - 0.25, wanted, rtol=1e-9)
        # leave-one-out in its own column, and nowhere else
        again = np.full(len(state.size), 0.25)
        clusters.score_columns(data, state.stat, state.scratch.work, again, K, i, own)
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
        clusters.score_columns(data, state.stat, state.scratch.work, within, 1, i, 0)
        clusters.copy_column(state.stat, state.stat, 0, 5)
        assert clusters.update_column(data, state.stat, 5, i, -1.0)
        after = np.zeros(len(state.size))
        clusters.score_columns(data, state.stat, state.scratch.work, after, 6, i, -1)
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
        clusters.score_columns(data, state.stat, state.scratch.work, out, 1, i, -1)
        total += out[0]
        clusters.update_column(data, state.stat, 0, i, 1.0)
    assert total == pytest.approx(clusters.marginal_column(data, state.stat, 0), rel=1e-11)
    assert total == pytest.approx(naive.log_marginal(model.frame.response, problem_of(model, data).base), rel=1e-11)


@pytest.mark.parametrize("d", by_turns(DIMENSIONS, 2, 1))
@pytest.mark.parametrize("size", by_turns([0, 9], 2, 1))
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
    assert stats.kstest(squared, stats.chi2(d).cdf).pvalue > MIN_P
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
            K = int(state.num[layout.Count.CLUSTERS])
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
    clusters.score_columns(data, state.stat, state.scratch.work, out, 1, 4, 0)
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
            values.append(joint.log_joint(data, state))
            for i in rng.permutation(40):
                k = int(state.labels[i])
                if state.size[k] > 1:
                    clusters.detach(data, state, i)
                    clusters.attach(data, state, i, k)
    np.testing.assert_allclose(values, values[0], rtol=1e-8)
