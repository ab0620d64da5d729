"""Families of counts and categories: kernels against closed forms, laws against scipy, defaults, and what is refused."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from exact.marginals import bernoulli_log_marginal, categorical_log_marginal, multinomial_log_marginal, poisson_log_marginal
from scipy import stats
from scipy.sparse import coo_array, csr_array
from scipy.special import digamma, polygamma

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.core import clusters
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.predictive import cluster_means, component_densities, component_means, draw_component
from nrmmix.model.families.distributions import BernoulliDistribution, CategoricalDistribution, NegativeBinomial, PoissonDistribution
from nrmmix.model.pack import arrays_of

N = 40
EPS = np.finfo(float).eps


def with_gaps(y, rng):
    y = y.astype(float)
    y[rng.random(y.shape) < 0.15] = np.nan
    y[np.isnan(y).all(axis=1), 0] = 0.0
    return y


def frame(y, **more):
    return pd.DataFrame(y, columns=[f"y{j + 1}" for j in range(y.shape[1])]).assign(**more)


class Case:
    """A model, and the closed form of log p of some of its rows."""

    def __init__(self, data, family, log_marginal, n_dim, formula=None):
        self.model = nm.Model(formula, data, family=family, prior=nm.DirichletProcess(1.0), missing="marginalize")
        self.family, self.log_marginal, self.n_dim = self.model.family, log_marginal, n_dim

    def started(self, labels):
        data, state = arrays_of(self.model, max(int(np.max(labels)) + 1, 1))
        chain.start(data, state, np.asarray(labels, np.int64))
        return data, state

    def log_predictive(self, i, members):
        members = [int(j) for j in members]
        return self.log_marginal([*members, i]) - (self.log_marginal(members) if members else 0.0)


def poisson_counts(rng):
    return with_gaps(rng.poisson([0.3, 4.0, 20.0, 60.0, 3000.0], (N, 5)), rng)


def poisson_case():
    rng = np.random.default_rng(1)
    y, a, b = poisson_counts(rng), np.array([0.3, 1.0, 2.0, 0.1, 5.0]), np.array([0.5, 0.3, 0.1, 2.0, 0.01])
    return Case(frame(y), nm.Poisson(a, b), lambda c: poisson_log_marginal(y[c], np.ones(len(c)), a, b), 5)


def exposure_case():
    rng = np.random.default_rng(2)
    y, e = poisson_counts(rng), rng.gamma(2.0, size=N)
    a, b = np.array([0.3, 1.0, 2.0, 0.1, 5.0]), np.array([0.5, 0.3, 0.1, 2.0, 0.01])
    return Case(frame(y, e=e), nm.Poisson(a, b, exposure="e"), lambda c: poisson_log_marginal(y[c], e[c], a, b), 5)


def bernoulli_case():
    rng = np.random.default_rng(3)
    y = with_gaps(rng.random((N, 7)) < [0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98], rng)
    a, b = rng.gamma(1.0, size=7), rng.gamma(1.0, size=7)
    return Case(frame(y), nm.Bernoulli(a, b), lambda c: bernoulli_log_marginal(y[c], a, b), 7)


def categorical_case():
    rng = np.random.default_rng(4)
    y = with_gaps(np.stack([rng.integers(0, L, N) for L in (2, 3, 9)], axis=1), rng)
    y[:9, 2] = np.arange(9)
    words = frame(y).map(lambda code: None if math.isnan(code) else f"level {code:.0f}")
    alpha = [np.full(L, 0.4) for L in (2, 3, 9)]
    return Case(words, nm.Categorical(0.4), lambda c: categorical_log_marginal(y[c], alpha), 3)


def word_counts():
    rng = np.random.default_rng(5)
    y = rng.poisson(rng.gamma(0.3, 3.0, size=(N, 12))).astype(float)
    y[:, 3] *= 50
    y[y.sum(axis=1) == 0, 0] = 1.0
    return y, rng.gamma(1.0, 0.5, size=12) + 0.01


def multinomial_case(sparse=True):
    y, alpha = word_counts()
    data = csr_array(y) if sparse else frame(y)
    return Case(data, nm.Multinomial(alpha), lambda c: multinomial_log_marginal(y[c], alpha), 12)


CASES = {
    "Poisson": poisson_case, "Poisson, exposure": exposure_case, "Bernoulli": bernoulli_case, "Categorical": categorical_case,
    "Multinomial": multinomial_case,
}


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
        clusters.score_columns(data, state.stat, state.work, out, K, i, -1)
        wanted = [case.log_predictive(i, np.flatnonzero(labels == k)) for k in range(K)]
        np.testing.assert_allclose(out[:K] - 0.25, wanted, rtol=1e-9, atol=1e-9)
        own, again = labels[i], np.full(len(state.size), 0.25)
        before = state.stat.copy()
        clusters.score_columns(data, state.stat, state.work, again, K, i, own)
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
        clusters.score_columns(data, state.stat, state.work, out, 1, i, -1)
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
    clusters.score_columns(data, state.stat, state.work, out, 1, N - 1, 0)
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
                clusters.score_columns(data, state.stat, state.work, out, 1, i, own)
                total += out[0]
            assert math.isfinite(total)


def test_sparse_and_dense_counts_are_the_same():
    sparse, dense = multinomial_case(True), multinomial_case(False)
    labels = np.arange(N) % 4
    for a, b in zip(sparse.started(labels)[1], dense.started(labels)[1], strict=True):
        np.testing.assert_array_equal(a, b)
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
    data, state, theta = sampled(case, members, 20_000)
    family, stat = case.family, state.stat[:, :1]
    if isinstance(family, nm.Poisson):
        shape, rate = family._posterior(stat, 1)
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
    return [own[0] for own in family._posterior(stat, 1)]


def shares(family, theta):
    return [np.exp(theta)] if isinstance(family, nm.Multinomial) else [p.T for p in family._probabilities(theta)]


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
        clusters.score_columns(data, state.stat, state.work, out, K, i, -1)
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
    data, state, theta = sampled(case, range(9), 20_000)
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


# ---- hyperparameters from the data


def test_poisson_default_follows_the_unit_of_the_exposure():
    y, e = np.array([[0, 4], [2, 9], [5, 1]]), np.array([1.0, 2.0, 0.5])
    small, large = (nm.Model(data=frame(y, e=s * e), family=nm.Poisson(exposure="e")) for s in (1.0, 1000.0))
    np.testing.assert_allclose(large.family.rate, 1000 * small.family.rate)
    np.testing.assert_allclose(small.family.shape / small.family.rate, y.sum(axis=0) / e.sum())
    assert large.log_joint([0, 0, 1], mass=1.0) == pytest.approx(small.log_joint([0, 0, 1], mass=1.0), rel=1e-12)


def test_poisson_rate_alone_keeps_the_mean():
    model = nm.Model(data=frame(np.array([[2, 4], [4, 8]])), family=nm.Poisson(rate=3.0))
    np.testing.assert_allclose(model.family.shape, [9.0, 18.0])


def test_poisson_column_of_zeros():
    model = nm.Model(data=frame(np.array([[0, 4], [0, 8], [0, 1]])), family=nm.Poisson())
    shape, rate = model.family.shape, model.family.rate
    np.testing.assert_allclose(shape / rate, [1 / 6, 13 / 3])
    assert np.isfinite(model.fit(draws=5, tune=5, chains=1, rng=1).draws["log_joint"]).all()


def test_bernoulli_default_does_not_tell_0_from_1():
    rng = np.random.default_rng(12)
    y = with_gaps(rng.random((30, 4)) < [0.1, 0.5, 0.8, 1.1], rng)  # the last column is constant
    labels = rng.integers(0, 3, 30)
    swapped = [nm.Model(data=frame(table), family=nm.Bernoulli(), missing="marginalize") for table in (y, 1 - y)]
    np.testing.assert_allclose(swapped[0].family.a, swapped[1].family.b, rtol=1e-14)
    joints = [model.log_joint(labels, mass=1.0) for model in swapped]
    assert joints[0] == pytest.approx(joints[1], rel=1e-12) and math.isfinite(joints[0])


def test_categorical_default_does_not_depend_on_names():
    rng = np.random.default_rng(13)
    codes = rng.integers(0, 4, 30)
    labels = rng.integers(0, 3, 30)
    tables = [{"v": np.array(names)[codes]} for names in (["a", "b", "c", "d"], ["z", "q", "a", "m"], [7, 3, 9, 1])]
    joints = [nm.Model(data=table, family=nm.Categorical()).log_joint(labels, mass=1.0) for table in tables]
    np.testing.assert_allclose(joints, joints[0], rtol=1e-12)


def test_concentration_of_each_level():
    data = pd.DataFrame({"v": pd.Categorical(["lo", "hi", "lo", "mid"], categories=["lo", "mid", "hi", "never"])})
    model = nm.Model(data=data, family=nm.Categorical([1.0, 2.0, 3.0]))
    assert model.family.mean_names() == ("v[lo]", "v[mid]", "v[hi]")
    codes = np.array([[0], [2], [0], [1]])
    wanted = categorical_log_marginal(codes, [np.array([1.0, 2.0, 3.0])])
    assert model.log_joint([0, 0, 0, 0], mass=1.0) == pytest.approx(wanted + math.log(6 / 24), rel=1e-12)


def test_log_coefficient():
    y, _ = word_counts()
    wanted = [stats.multinomial(row.sum(), np.full(12, 1 / 12)).logpmf(row) + row.sum() * math.log(12) for row in y]
    np.testing.assert_allclose(nm.Model(data=frame(y), family=nm.Multinomial()).family.log_coefficient(y), wanted, rtol=1e-9)


def test_the_printed_model_shows_the_numbers():
    visits = {"visits": [0, 1, 9, 12], "months": [6, 6, 12, 12]}
    text = str(nm.Model("visits ~ 1", visits, family=nm.Poisson(2.0, exposure="months")))
    assert "Poisson(months lambda)" in text and "shape = 2, rate = 3.2727" in text
    assert "a = 0.5, b = 0.5" in str(nm.Model(data={"x": [0, 1]}, family=nm.Bernoulli()))
    assert "colour has 2 levels" in str(nm.Model(data={"colour": ["a", "b"]}, family=nm.Categorical()))
    assert "concentration = 0.1 for each of 12 columns" in str(nm.Model(data=csr_array(word_counts()[0]), family=nm.Multinomial()))


def test_means_of_several_blocks_are_in_the_order_of_the_responses():
    data = pd.DataFrame({"kind": ["a", "b", "c", "a"], "n": [1, 2, 3, 4], "sex": ["m", "f", "f", "m"], "ok": [True, False, True, True]})
    family = {"sex + kind": nm.Categorical(), "ok": nm.Bernoulli(), "n": nm.Poisson()}
    model = nm.Model("kind + n + sex + ok ~ 1", data, family=family)
    assert model.blocks.mean_names() == ("kind[a]", "kind[b]", "kind[c]", "n", "sex[f]", "sex[m]", "ok")
    assert model.blocks.mean_responses().tolist() == [0, 0, 0, 1, 2, 2, 3]
    values = np.arange(7.0)  # as kernels write them: sex, kind, ok, n
    assert model.blocks.means(values, model.packed).tolist() == [2, 3, 4, 6, 0, 1, 5]


@pytest.mark.parametrize("name", CASES)
def test_a_saved_fit_is_the_fit(name, tmp_path):
    model = CASES[name]().model
    fit = model.fit(draws=6, tune=4, chains=2, rng=1)
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    assert str(again.model) == str(fit.model)
    labels = fit.draws["labels"][1, 3]
    assert again.model.log_joint(labels, mass=1.0) == fit.model.log_joint(labels, mass=1.0)
    np.testing.assert_array_equal(again.draws["labels"], fit.draws["labels"])


# ---- what is refused


def refuse(match, data, family, **more):
    with pytest.raises(ValueError, match=match):
        nm.Model(data=data, family=family, **more)


def test_bad_hyperparameters():
    for bad in (0, -1, True, "x", 1e60, [1, 0], [[1, 2]], [], float("nan")):
        with pytest.raises(ValueError, match="Poisson: rate"):
            nm.Poisson(1.0, bad)
    with pytest.raises(ValueError, match="both a and b"):
        nm.Bernoulli(1.0)
    with pytest.raises(ValueError, match="concentration"):
        nm.Multinomial(None)
    with pytest.raises(ValueError, match="exposure"):
        nm.Poisson(exposure=2.0)
    y = frame(np.array([[0, 1], [1, 0], [1, 1]]))
    refuse("shape has 3 numbers for 2 responses", y, nm.Poisson([1, 2, 3]))
    refuse("a has 3 numbers for 2 responses", y, nm.Bernoulli([1, 2, 3], [1, 2, 3]))
    refuse("concentration has 3 numbers for 2 columns", y, nm.Multinomial([1, 2, 3]))
    refuse("concentration has 3 numbers for 2 levels of 'y1'", y, nm.Categorical([1, 2, 3]))


@pytest.mark.parametrize("family", [nm.Poisson(), nm.Multinomial()], ids=lambda family: type(family).__name__)
def test_what_is_no_count(family):
    refuse("'y2' is -1 in row 1, not a count", frame(np.array([[1, 2], [3, -1]])), family)
    refuse("'y1' is 0.5 in row 0, not a count", frame(np.array([[0.5, 2], [3, 1]])), family)
    refuse("'y1' is 1000000000 in row 0, not a count: .* less than 1e9", frame(np.array([[1e9, 2], [3, 1]])), family)
    refuse("True and False", pd.DataFrame({"a": [True, False], "b": [1, 2]}), family)
    refuse("not categorical|holds 'x'|not a real number", pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}), family)


def test_what_is_not_binary():
    refuse("'y1' is 2 in row 1, not 0 or 1", frame(np.array([[1, 0], [2, 1]])), nm.Bernoulli())
    refuse("'y1' is 0.5 in row 0, not 0 or 1", frame(np.array([[0.5, 0], [1, 1]])), nm.Bernoulli())


def test_exposures_that_are_none():
    def table(e):
        return pd.DataFrame({"y": [1, 2, 3], "e": e}, index=["a", "b", "c"])

    refuse(r"exposure 'e' is 0 in row 1 \(index label 'b'\)", table([1, 0, 2]), nm.Poisson(exposure="e"))
    refuse("exposure 'e' is -2 in row 2", table([1, 1, -2]), nm.Poisson(exposure="e"))
    refuse("exposure 'e' makes 3 columns", table(["u", "v", "w"]), nm.Poisson(exposure="e"))
    refuse("exposure 'e [+] y2' makes 2 columns", table([1, 2, 3]).assign(y2=[4, 5, 7]), nm.Poisson(exposure="e + y2"))
    refuse("months", table([1, 2, 3]), nm.Poisson(exposure="months"))
    model = nm.Model("y ~ 1", table([1, 2, 3]), family=nm.Poisson(exposure="np.exp(e)"))
    np.testing.assert_allclose(model.frame.inputs[:, 0], np.exp([1, 2, 3]))


def test_documents_that_say_nothing():
    y = np.array([[1, 2, 0], [0, 0, 0], [0, 1, 1]])
    refuse("all counts are 0 in row 1", csr_array(y), nm.Multinomial())
    table = frame(y)
    table.index = ["a", "b", "c"]
    refuse(r"all counts are 0 in row 1 \(index label 'b'\)", table, nm.Multinomial())
    refuse("one column of counts", csr_array(y[:, :1] + 1), nm.Multinomial())
    for bad in (-1.0, 0.5, np.nan):
        refuse("'y2' is .* in row 2, not a count", csr_array(np.where(np.arange(9).reshape(3, 3) == 7, bad, y)), nm.Multinomial())
    refuse("True and False", csr_array(y > 0), nm.Multinomial())
    refuse("complex numbers", csr_array(y * 1j), nm.Multinomial())
    for shape in ((3,), (3, 0), (0, 3)):
        refuse(f"shape {re.escape(str(shape))}; give a matrix", coo_array(np.zeros(shape)), nm.Multinomial())
    torn = np.array([[1, 2, 1], [np.nan, 3, 0], [0, 1, 1]])
    refuse("'y1' is missing in row 1", frame(torn), nm.Multinomial(), missing="marginalize")


@pytest.mark.parametrize("kind", ["mean", "quantile", "density", "cluster", "log_density", "simulate"])
def test_new_rows_are_named_as_the_caller_knows_them(kind):
    """Rows that miss something, or equal others, are not looked at: what is wrong is in the third row all the same."""

    def ask(fit, new):
        if kind == "simulate":
            return fit.simulate(new, rng=1)
        return fit.log_density(new) if kind == "log_density" else fit.predict(new, kind=kind)

    run = {"draws": 3, "tune": 2, "chains": 1, "rng": 1}
    visits = {"visits": [0, 1, 9, 12], "months": [6, 6, 12, 12]}
    fit = nm.fit("visits ~ 1", visits, family=nm.Poisson(exposure="months"), **run)
    with pytest.raises(ValueError, match=r"'months' is 0 in row 2 \(index label 'c'\)") as error:
        ask(fit, pd.DataFrame({"visits": 1, "months": [np.nan, 6, 0, 6]}, index=list("abcd")))
    assert type(error.value) is ValueError
    if kind in ("density", "cluster", "log_density"):
        fit = nm.fit("a + b ~ 1", {"a": [1, 2, 3], "b": [2, 2, 1]}, family=nm.Multinomial(), **run)
        with pytest.raises(ValueError, match=r"'a' is missing in row 2 \(index label 'c'\)"):
            ask(fit, pd.DataFrame({"a": [np.nan, 1, np.nan], "b": [np.nan, 2, 1]}, index=list("abc")))


def test_a_response_of_one_level():
    refuse("'v' has one level only, 'a'", {"v": ["a", "a"], "w": ["p", "q"]}, nm.Categorical())


def test_levels_that_the_training_data_do_not_have():
    fit = nm.fit("v ~ 1", {"v": ["a", "b", "b", "a"]}, family=nm.Categorical(), draws=5, tune=5, chains=1, rng=1)
    with pytest.raises(ValueError, match="'c' in row 1"):
        fit.log_density({"v": ["a", "c"]})
    with pytest.raises(ValueError, match="no probability"):
        fit.model.family.observe(np.array([[2.0]]))
    with pytest.raises(ValueError, match="no probability"):
        nm.Model(data={"x": [0, 1]}, family=nm.Bernoulli()).family.observe(np.array([[0.0], [3.0]]))
