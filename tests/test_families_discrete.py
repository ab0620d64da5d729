"""Families of counts and categories: kernels against closed forms, laws against scipy, defaults, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact.marginals import poisson_log_marginal
from scipy import stats
from scipy.sparse import csr_array
from scipy.special import digamma, polygamma
from support.discrete_cases import CASES, EPS, Case, N, frame, multinomial_case, word_counts
from support.length import by_day

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.core import clusters
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.predictive import cluster_means, component_densities, component_means, draw_component
from nrmmix.model.families.distributions import BernoulliDistribution, CategoricalDistribution, NegativeBinomial, PoissonDistribution
from nrmmix.model.pack import arrays_of


@pytest.fixture(scope="module", params=CASES)
def case(request):
    return CASES[request.param]()


# ---- kernels


@pytest.mark.parametrize("K", [1, 3, 11])
def test_scores(case, K):
    rng = np.random.default_rng(K)
    labels = np.concatenate([np.arange(K), rng.integers(0, K, N - K)])
    data, state = case.started(labels)
    for i in range(0, N, 3):
        out = np.full(len(state.size), 0.25)  # scores are added to what is there
        clusters.score_columns(data, state.stat, state.scratch.work, out, K, i, -1)
        wanted = [case.log_predictive(i, np.flatnonzero(labels == k)) for k in range(K)]
        np.testing.assert_allclose(out[:K] - 0.25, wanted, rtol=1e-9, atol=1e-9)
        own, again = labels[i], np.full(len(state.size), 0.25)
        before = state.stat.copy()
        clusters.score_columns(data, state.stat, state.scratch.work, again, K, i, own)
        rest = np.flatnonzero((labels == own) & (np.arange(N) != i))
        assert again[own] - 0.25 == pytest.approx(case.log_predictive(i, rest), abs=1e-9, rel=1e-9)
        others = np.setdiff1d(np.arange(K), [own])
        np.testing.assert_array_equal(again[others], out[others])
        np.testing.assert_array_equal(state.stat, before)


def test_chain_rule(case):
    """The predictives of the rows one after the other make up the marginal."""
    data, state = case.started(np.full(N, -1))
    clusters.empty_column(data, state.stat, 0)
    total = 0.0
    for i in range(N):
        out = np.zeros(len(state.size))
        clusters.score_columns(data, state.stat, state.scratch.work, out, 1, i, -1)
        total += out[0]
        clusters.update_column(data, state.stat, 0, i, 1.0)
    assert total == pytest.approx(clusters.marginal_column(data, state.stat, 0), rel=1e-11)
    assert total == pytest.approx(case.log_marginal(list(range(N))), rel=1e-11)
    np.testing.assert_allclose(data.log_prior_predictive, [case.log_marginal([i]) for i in range(N)], rtol=1e-10, atol=1e-10)


@kernel
def add_and_remove(data, stat, order, inside):
    for i in order:
        if not clusters.update_column(data, stat, 0, i, -1.0 if inside[i] else 1.0):
            return False
        inside[i] = not inside[i]
    return True


def churn(data, stat, rng, times):
    """Add and remove random members of column 0 many times; the members at the end."""
    inside = np.zeros(N, bool)
    assert add_and_remove(data, stat, rng.integers(0, N, times), inside)
    return np.flatnonzero(inside)


def test_statistics_after_many_updates(case):
    data, state = case.started(np.full(N, -1))
    clusters.empty_column(data, state.stat, 0)
    times = 200_000
    members = churn(data, state.stat, np.random.default_rng(6), times)
    clusters.empty_column(data, state.stat, 1)
    for i in members:
        clusters.update_column(data, state.stat, 1, i, 1.0)
    assert 5 < len(members) < N
    # sums of exposures and of log y! are rounded in every update: a random walk, which chains end by adding them up anew
    drift = EPS * math.sqrt(times) * 1e6
    np.testing.assert_allclose(state.stat[:, 0], state.stat[:, 1], rtol=1e-9, atol=drift)
    wanted = case.log_marginal(members.tolist())
    assert clusters.marginal_column(data, state.stat, 0) == pytest.approx(wanted, rel=1e-11, abs=drift)


def test_whole_numbers_stay_exact(case):
    data, state = case.started(np.full(N, -1))
    clusters.empty_column(data, state.stat, 0)
    before = state.stat[:, 0].copy()
    rounded = np.zeros(len(before), bool)
    if isinstance(case.family, nm.Poisson):  # the sum of log y!, and with exposures all but the counts
        rounded[0] = True
        if case.family.exposure:
            rounded[2::4] = rounded[3::4] = rounded[4::4] = True
    members = churn(data, state.stat, np.random.default_rng(7), 1_000_000)
    for i in members:
        clusters.update_column(data, state.stat, 0, i, -1.0)
    np.testing.assert_array_equal(state.stat[~rounded, 0], before[~rounded])
    assert (~rounded).sum() >= case.n_dim


def test_exposures_that_lose_their_digits_are_added_up_anew():
    """One row was watched 1e14 times as long as the others."""
    rng = np.random.default_rng(8)
    e = np.append(rng.gamma(2.0, size=N - 1), 1e14)
    y, a, b = rng.poisson(3.0, (N, 1)).astype(float), np.array([1.0]), np.array([1e-3])
    case = Case(frame(y, e=e), nm.Poisson(a, b, exposure="e"), lambda c: poisson_log_marginal(y[c], e[c], a, b), 1)
    data, state = case.started(np.zeros(N, int))
    out = np.zeros(len(state.size))
    clusters.score_columns(data, state.stat, state.scratch.work, out, 1, N - 1, 0)
    assert math.isnan(out[0])
    assert clusters.score_without(data, state, N - 1, 0) == pytest.approx(case.log_predictive(N - 1, range(N - 1)), rel=1e-10)
    clusters.detach(data, state, N - 1)
    assert clusters.marginal_column(data, state.stat, 0) == pytest.approx(case.log_marginal(list(range(N - 1))), rel=1e-12)


@pytest.mark.parametrize("alpha", [1e-50, 1e-8, 1e50])
def test_products_of_extreme_factors_neither_overflow_nor_vanish(alpha):
    y, _ = word_counts()
    words = Case(csr_array(y), nm.Multinomial(alpha), lambda c: 0.0, 12)
    counts = Case(frame(y), nm.Poisson(alpha, 1.0), lambda c: 0.0, 12)
    for case in (words, counts):
        data, state = case.started(np.zeros(N, int))
        for i in range(N):
            total = 0.0
            for own in (-1, 0):
                out = np.zeros(len(state.size))
                clusters.score_columns(data, state.stat, state.scratch.work, out, 1, i, own)
                total += out[0]
            assert math.isfinite(total)


def test_sparse_and_dense_counts_are_the_same():
    sparse, dense = multinomial_case(True), multinomial_case(False)
    labels = np.arange(N) % 4
    states = [each.started(labels)[1] for each in (sparse, dense)]
    for name in (*layout.State._fields, *layout.Cache._fields):
        if name not in ("cache", "scratch"):
            np.testing.assert_array_equal(*(layout.array_of(state, name) for state in states), err_msg=name)
    run = {"draws": 50, "tune": 20, "chains": 2, "rng": 3}
    fits = [each.model.fit(**run) for each in (sparse, dense)]
    np.testing.assert_array_equal(fits[0].draws["labels"], fits[1].draws["labels"])
    y = word_counts()[0]
    np.testing.assert_array_equal(sparse.family.log_coefficient(csr_array(y)), dense.family.log_coefficient(y))


def test_log_density_of_rows(case):
    """Log of the mean over draws of the mixture of clusters' predictives and the prior's, coefficients included."""
    fit = case.model.fit(draws=4, tune=4, chains=1, init=np.arange(N) % 3, rng=2)
    found = fit.log_density().to_numpy()
    coefficient = np.broadcast_to(case.family.log_coefficient(case.model.frame.response), N)
    complete = [i for i in range(0, N, 5) if np.isfinite(found[i])]
    for i in complete:
        density = 0.0
        for labels in fit.draws["labels"][0]:
            groups = [np.flatnonzero(labels == k) for k in range(labels.max() + 1)]
            density += sum(len(c) * np.exp(case.log_predictive(i, c)) for c in groups) + np.exp(case.log_predictive(i, []))
        assert found[i] == pytest.approx(np.log(density / 4 / (N + 1)) + coefficient[i], abs=1e-8)
    assert len(complete) > 1


# ---- parameters of components


def sampled(case, members, draws, seed=9):
    data, state = case.started(np.full(N, -1))
    clusters.empty_column(data, state.stat, 0)
    for i in members:
        clusters.update_column(data, state.stat, 0, i, 1.0)
    theta, rng = np.zeros((case.model.packed.n_theta, draws)), np.random.default_rng(seed)
    for m in range(draws):
        draw_component(data, state, theta, m, 0, rng)
    return data, state, theta


def agrees(draws, wanted):
    """Means within 4.5 standard errors."""
    error = draws.std(axis=-1) / math.sqrt(draws.shape[-1])
    assert (np.abs(draws.mean(axis=-1) - wanted) < 4.5 * error + 1e-12).all()


@pytest.mark.parametrize("members", [(), range(9)], ids=["prior", "posterior"])
def test_draws_of_parameters(case, members):
    data, state, theta = sampled(case, members, by_day(50_000))
    family, stat = case.family, state.stat[:, :1]
    if isinstance(family, nm.Poisson):
        shape, rate = family.posterior_parameters(stat, 1)
        agrees(theta[0::2], digamma(shape[:, 0]) - np.log(rate[:, 0]))
        agrees((theta[0::2] - theta[0::2].mean(axis=1, keepdims=True)) ** 2, polygamma(1, shape[:, 0]))
        agrees(theta[1::2], (shape / rate)[:, 0])
        np.testing.assert_allclose(np.exp(theta[0::2]), theta[1::2], rtol=1e-12)
        return
    for alpha, p in zip(alphas(family, stat), shares(family, theta), strict=True):
        np.testing.assert_allclose(p.sum(axis=0), 1.0, rtol=1e-12)
        total = alpha.sum()
        agrees(p, alpha / total)
        agrees(p**2, alpha * (alpha + 1) / (total * (total + 1)))
        agrees(np.log(p), digamma(alpha) - digamma(total))


def alphas(family, stat):
    if isinstance(family, nm.Multinomial):
        return [family.concentration + stat[:-1, 0]]
    return [own[0] for own in family.posterior_parameters(stat, 1)]


def shares(family, theta):
    return [np.exp(theta)] if isinstance(family, nm.Multinomial) else [p.T for p in family.probabilities_of(theta)]


def test_densities_of_components(case):
    data, _, theta = sampled(case, range(9), 13)
    found = component_densities(data, theta, case.model.packed.n_work)
    response = case.model.frame.response
    y = response.toarray() if case.model.frame.is_sparse else response
    wanted = np.zeros_like(found)
    if isinstance(case.family, nm.Multinomial):
        found = found + case.family.log_coefficient(response)[:, None]
        wanted = np.stack([stats.multinomial(y.sum(axis=1), p / p.sum()).logpmf(y) for p in np.exp(theta).T], axis=1)
    else:
        inputs = case.model.frame.inputs
        for j, law in enumerate(case.family.component_distributions(theta, inputs)):
            with np.errstate(divide="ignore"):
                wanted += np.where(np.isnan(y[:, [j]]), 0.0, np.log(law.density(np.nan_to_num(y[:, [j]]))))
    seen = wanted > -650  # of the others some density is no normal number
    assert seen.mean() > 0.5 and (found[~seen] < -600).all()
    np.testing.assert_allclose(found[seen], wanted[seen], rtol=1e-9, atol=1e-8)


def test_predictive_distributions_are_the_scores(case):
    """Products over responses of the laws' densities."""
    if isinstance(case.family, nm.Multinomial):
        assert case.family.predictive_distributions(np.zeros((13, 2)), 2, np.zeros((1, 0))) == [None] * 12
        return
    K, labels = 3, np.arange(N) % 3
    data, state = case.started(labels)
    y, inputs = case.model.frame.response, case.model.frame.inputs
    compared = 0
    for i in range(0, N, 7):
        out = np.zeros(len(state.size))
        clusters.score_columns(data, state.stat, state.scratch.work, out, K, i, -1)
        laws = case.family.predictive_distributions(state.stat, K, inputs[i : i + 1])
        seen = [law.density(y[i, j])[0] for j, law in enumerate(laws) if not math.isnan(y[i, j])]
        with np.errstate(divide="ignore"):
            wanted = np.log(seen).sum(axis=0)
        there = wanted > -650  # of the others some density is no normal number
        np.testing.assert_allclose(out[:K][there], wanted[there], rtol=1e-9, atol=1e-8)
        compared += there.sum()
    assert compared > 9


def test_means(case):
    """Those of the kernels are those of the laws, at the inputs of each row."""
    K = 3
    data, state = case.started(np.arange(N) % K)
    rng = np.random.default_rng(10)
    theta = np.zeros((case.model.packed.n_theta, K))
    for m in range(K):
        draw_component(data, state, theta, m, m, rng)
    n_mean = case.model.packed.n_mean
    found, of_components = cluster_means(data, state, n_mean)[:, :K], component_means(data, theta, n_mean)
    assert n_mean == len(case.family.mean_names())
    inputs = case.model.frame.inputs if case.family.design else np.zeros((1, 0))
    if isinstance(case.family, nm.Multinomial):
        shares = case.family.concentration[:, None] + state.stat[:12, :K]
        wanted, of_theta = (shares / shares.sum(axis=0)).T[None], np.exp(theta).T[None]
    else:
        of_clusters = case.family.predictive_distributions(state.stat, K, inputs)
        pairs = [tuple(map(mean_of, pair)) for pair in zip(of_clusters, case.family.component_distributions(theta, inputs), strict=True)]
        wanted, of_theta = (np.concatenate(parts, axis=-1) for parts in zip(*pairs, strict=True))
    np.testing.assert_allclose(found, np.broadcast_to(wanted, found.shape), rtol=1e-12)
    np.testing.assert_allclose(of_components, np.broadcast_to(of_theta, found.shape), rtol=1e-12)


def mean_of(law):
    """(I, k, 1), or (I, k, L) of categories."""
    if isinstance(law, CategoricalDistribution):
        return law.probability
    if isinstance(law, NegativeBinomial):
        return (law.shape * law.scale)[..., None]
    return (law.mean if isinstance(law, PoissonDistribution) else law.probability)[..., None]


def test_cluster_parameters(case):
    data, state, theta = sampled(case, range(9), by_day(50_000))
    found = case.family.cluster_parameters(state.stat, 1)
    if isinstance(case.family, nm.Poisson):
        draws = dict(zip([f"rate {name}" for name in case.family.names], theta[1::2], strict=True))
    else:
        what, p = "share" if isinstance(case.family, nm.Multinomial) else "probability", np.concatenate(shares(case.family, theta))
        names = case.family.names if isinstance(case.family, nm.Bernoulli) else case.family.mean_names()
        draws = dict(zip([f"{what} {name}" for name in names], p[1::2] if isinstance(case.family, nm.Bernoulli) else p, strict=True))
    assert {parameter.name for parameter in found} == set(draws)
    for parameter in found:
        agrees(draws[parameter.name], parameter.mean[0])
        agrees((draws[parameter.name] - parameter.mean[0]) ** 2, parameter.sd[0] ** 2)


def test_words_that_differ_most_come_first():
    y = np.array([[9, 0, 5, 1], [8, 1, 4, 1], [0, 9, 5, 1], [0, 7, 6, 1]])
    model = nm.Model(data=frame(y), family=nm.Multinomial(0.1))
    data, state = arrays_of(model, 2)
    chain.start(data, state, np.array([0, 0, 1, 1]))
    names = [parameter.name for parameter in model.family.cluster_parameters(state.stat, 2)]
    assert set(names[:2]) == {"share y1", "share y2"} and len(names) == 4


def test_drawn_responses(case):
    """Means and variances of responses from one component."""
    M = 20_000
    _, _, theta = sampled(case, range(9), 1)
    theta = np.repeat(theta, M, axis=1)
    rng, inputs = np.random.default_rng(11), np.full((M, 1 if case.family.design else 0), 2.5)
    if isinstance(case.family, nm.Multinomial):
        with pytest.raises(ValueError, match="totals"):
            case.family.draw_responses(theta, inputs, rng)
        drawn = case.family.draw_responses(theta, inputs, rng, np.full(M, 20)).T
        p = np.exp(theta[:, 0])
        assert (drawn.sum(axis=0) == 20).all()
        likely = p > 1e-3
        assert (drawn[~likely].mean(axis=1) < 0.05).all()
        agrees(drawn[likely], 20 * p[likely])
        agrees((drawn - 20 * p[:, None])[likely] ** 2, (20 * p * (1 - p))[likely])
        return
    drawn = case.family.draw_responses(theta, inputs, rng).T
    for y, law in zip(drawn, case.family.component_distributions(theta[:, :1], inputs[:1]), strict=True):
        for value in np.unique(y)[:12]:
            p = law.density(value).item()
            assert abs((y == value).mean() - p) < 4.5 * math.sqrt(p * (1 - p) / M) + 4 / M


# ---- laws


LAWS = {
    "Poisson": (PoissonDistribution(np.array([[0.01, 3.0, 700.0]])), lambda k: stats.poisson([0.01, 3.0, 700.0][k])),
    "negative binomial": (
        NegativeBinomial(np.array([[0.05, 3.0, 4e5]]), np.array([[2.0, 0.7, 1e-3]])),
        lambda k: stats.nbinom([0.05, 3.0, 4e5][k], 1 / (1 + np.array([2.0, 0.7, 1e-3])[k])),
    ),
    "Bernoulli": (BernoulliDistribution(np.array([[0.01, 0.5, 0.93]])), lambda k: stats.bernoulli([0.01, 0.5, 0.93][k])),
}


@pytest.mark.parametrize("name", LAWS)
def test_laws_against_scipy(name):
    law, reference = LAWS[name]
    assert law.discrete and law.ordered
    x = np.concatenate([np.arange(-2, 30), [0.5, 1.5, 399, 400, 700, 701.5, 900]])[:, None]
    p = np.concatenate([np.linspace(0.001, 0.999, 37), [1e-9, 1 - 1e-9]])[:, None]
    for k in range(3):
        one = reference(k)
        whole = x == np.floor(x)
        pmf = np.where(whole, one.pmf(np.where(whole, x, 0)), 0.0)[:, 0]
        np.testing.assert_allclose(law.density(x)[:, k], pmf, rtol=1e-8, atol=1e-300)
        np.testing.assert_allclose(law.cdf(x)[:, k], one.cdf(x)[:, 0], rtol=1e-9, atol=1e-300)
        np.testing.assert_array_equal(law.quantile(p)[:, k], one.ppf(p)[:, 0])


def test_law_of_categories():
    law = CategoricalDistribution(np.array([[[0.2, 0.8, 0.0], [0.1, 0.3, 0.6]]]))
    assert law.discrete and not law.ordered
    np.testing.assert_allclose(law.density(np.array([[0.0], [2.0], [5.0], [0.5]])), [[0.2, 0.1], [0.0, 0.6], [0, 0], [0, 0]])
    for method in (law.cdf, law.quantile):
        with pytest.raises(ValueError, match="order"):
            method(0.5)
