"""What the prior says: against enumeration of partitions, quadrature and closed forms."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import naive
import numpy as np
import pandas as pd
import pytest
from exact.enumeration import KernelJoint, nrm_log_eppf, partitions
from scipy import integrate, stats
from scipy.special import betaln, digamma, gammaln
from support.cover import by_turns
from support.frequencies import chi_square

import nrmmix as nm
from nrmmix.kernels.measure.prior import log_integrals, next_ratios, seat
from nrmmix.model.priors import n_clusters as cluster_laws
from nrmmix.model.priors.expected import expected_clusters
from nrmmix.model.priors.n_clusters import cluster_law

SIGMAS = [0.0, 1e-6, 0.3, 0.9]
MASSES = [1.3, nm.Gamma(2.0, 0.7), nm.LogNormal(0.2, 0.8)]


def dirichlet_law(n, mass):
    """The number of clusters is a sum of independent indicators with probabilities mass / (mass + i)."""
    mass = np.atleast_1d(mass)
    law = np.zeros((n, len(mass)))
    law[0] = 1.0
    for i in range(1, n):
        p = mass / (mass + i)
        law[1:] = law[1:] * (1 - p) + law[:-1] * p
        law[0] *= 1 - p
    return law


def enumerated_law(n, mass, sigma, tau=1.0):
    law = np.zeros(n)
    for labels in partitions(n):
        sizes = tuple(sorted(Counter(labels).values()))
        law[len(sizes) - 1] += math.exp(nrm_log_eppf(sizes, mass, sigma, tau))
    return law


def mixture(n, prior, **options):
    y = np.random.default_rng(0).normal(size=(n, 1))
    return nm.Model(data=y, prior=prior, **options)


# ---- the number of clusters


@pytest.mark.parametrize("sigma", SIGMAS)
def test_ratios_of_factorial_coefficients(sigma):
    n = 40
    S = naive.factorial_coefficients(n, sigma)
    edge = np.zeros(n)
    edge[1:] = 1.0 / (np.arange(1, n) - sigma)
    for first, last in ((2, 8), (9, 9), (10, 40)):  # each goes on where the one before it stopped
        ratio = np.empty(last + 1 - first)
        next_ratios(n, sigma, first, edge, ratio, np.empty_like(ratio), np.empty_like(ratio))
        np.testing.assert_allclose(ratio, S[first : last + 1] / S[first - 1 : last], rtol=1e-12)


def test_naive_coefficients_are_stirling_numbers():
    np.testing.assert_array_equal(naive.factorial_coefficients(5, 0.0), [0, 24, 50, 35, 10, 1])


def log_moment(mass, k):
    """log E[mass^k exp(-mass s)] as a function of s."""
    if isinstance(mass, float):
        return lambda s: k * math.log(mass) - mass * s
    z = np.linspace(-40.0, 12.0, 2001)
    at = np.exp(z)
    weights = mass.distribution.logpdf(at) + (k + 1) * z + math.log(z[1] - z[0])

    def moment(s):
        f = weights - at * s
        top = f.max()
        return top + math.log(np.exp(f - top).sum())

    return moment


@pytest.mark.parametrize("mass", MASSES, ids=str)
@pytest.mark.parametrize(("n", "k", "sigma"), by_turns([(1, 1, 0.3), (30, 4, 0.0), (30, 30, 0.6), (2000, 700, 0.9)]))
def test_integral_over_u_and_mass(mass, n, k, sigma):
    out = np.empty(1)
    log_integrals(float(n), np.array([float(k)]), cluster_laws.mass_row(mass, sigma, 1.0), sigma, 0.0, out)
    assert out[0] == pytest.approx(naive.log_u_integral(n, k, sigma, log_moment(mass, k)), abs=1e-7)


@pytest.mark.parametrize("tau", [1.0, 2.5])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_law_against_enumeration(sigma, tau):
    np.testing.assert_allclose(cluster_law(6, 0.8, sigma, tau), enumerated_law(6, 0.8, sigma, tau), atol=1e-9)


@pytest.mark.parametrize("mass", [0.01, 1.0, 40.0])
def test_dirichlet_process(mass):
    law = cluster_law(500, mass, 0.0)
    expected = dirichlet_law(500, mass)[:, 0]
    np.testing.assert_allclose(law, expected[: len(law)], atol=1e-11)
    assert expected[len(law) :].sum() < 1e-8


@pytest.mark.parametrize("mass", MASSES[1:], ids=str)
def test_hyperprior_of_the_mass(mass):
    law = cluster_law(20, mass, 0.0)
    z, step = np.linspace(-30.0, 8.0, 2001, retstep=True)
    expected = dirichlet_law(20, np.exp(z)) @ (mass.distribution.pdf(np.exp(z)) * np.exp(z) * step)
    np.testing.assert_allclose(law, expected[: len(law)], atol=1e-9)


@pytest.mark.parametrize("tau", [1.0, 3.0])
def test_hyperprior_of_sigma(tau):
    prior = nm.Beta(3.0, 2.0)
    law = cluster_law(40, nm.Gamma(1, 1), prior, tau)
    expected = np.zeros(40)
    for x, weight in zip(*np.polynomial.legendre.leggauss(40), strict=True):
        sigma = 0.5 * (x + 1)
        part = cluster_law(40, nm.Gamma(1, 1), sigma, tau)
        expected[: len(part)] += 0.5 * weight * prior.distribution.pdf(sigma) * part
    np.testing.assert_allclose(law, expected, atol=1e-7)


@pytest.mark.parametrize(("a", "b"), [(1.0, 2.0), (1.0, 1.0), (0.05, 0.05), (1e4, 2e4)])
def test_rule_over_sigma(a, b):
    node, weight = cluster_laws.beta_rule(nm.Beta(a, b), 24)
    assert (np.diff(node) < 0).all() and 0 <= node.min() and node.max() < 1
    for power in range(6):
        assert weight @ node**power == pytest.approx(math.exp(betaln(a + power, b) - betaln(a, b)), rel=1e-10)


@pytest.mark.parametrize("prior", [
    nm.DirichletProcess(), nm.NGGP(), nm.NGGP(50.0, nm.Beta(2, 2)), nm.NormalizedInverseGaussian(nm.LogNormal(-3, 2)),
    nm.NGGP(1e-6, 0.01), nm.NGGP(1e-6, 0.99, tau=7.0), nm.NGGP(1e4, 0.5), nm.NGGP(nm.Gamma(0.05, 0.1), 0.4),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("n", by_turns([2, 300]))
def test_probabilities_sum_to_one(prior, n):
    law = mixture(n, prior).prior_n_clusters()
    assert law.name == "probability" and law.index.name == "n_clusters" and law.index[0] == 1
    assert (law >= 0).all()
    assert abs(law.sum() - 1) < 1e-8


def test_one_row():
    model = nm.Model(data=np.array([[0.3]]), family=nm.Gaussian(m=0, scale=1), prior=nm.NGGP())
    assert model.prior_n_clusters().to_dict() == {1: pytest.approx(1.0, abs=1e-9)}


@pytest.mark.parametrize("mass", [nm.Gamma(0.05, 0.1), nm.LogNormal(0.0, 1.0)], ids=str)
@pytest.mark.parametrize("sigma", [0.0, 0.95])
def test_interpolated_integrals_are_those_computed_one_by_one(mass, sigma, monkeypatch):
    law = cluster_law(600, mass, sigma)
    monkeypatch.setattr(cluster_laws, "MAX_SEPARATE", 600)
    np.testing.assert_allclose(law, cluster_law(600, mass, sigma), rtol=1e-8, atol=1e-300)


def test_many_rows():
    law = cluster_law(1_000_000, 2.0, 0.0)
    k = np.arange(1, len(law) + 1)
    assert abs(law.sum() - 1) < 1e-8
    assert k @ law == pytest.approx(2 * (digamma(1e6 + 2) - digamma(2)), abs=1e-5)
    law = cluster_law(10_000, 1.0, 0.4)
    assert abs(law.sum() - 1) < 1e-8
    assert np.arange(1, len(law) + 1) @ law == pytest.approx(expected_clusters(10_000, 1.0, 0.4), abs=1e-5)


@pytest.mark.parametrize(("n", "sigma", "limit"), [(10**9, 0.0, "1e[+]10"), (10**7, nm.Beta(1, 2), "2e[+]08")])
def test_too_many_rows(n, sigma, limit):
    with pytest.raises(ValueError, match=f"out of reach: {n} rows times 32 clusters or more, where the limit is {limit}.*Take fewer rows"):
        cluster_law(n, 1.0, sigma)


# ---- partitions


def kernel_matrix(kind, x, locations, width):
    d = np.abs(np.subtract.outer(x, locations))
    return (d < width).astype(float) if kind == "box" else np.exp(-(d**2) / (2 * width**2))


def drawn(K, group, mass, sigma, tau, size, seed=1):
    rng = np.random.default_rng(seed)
    with np.errstate(divide="ignore"):
        log_K = np.log(K)
    for _ in range(size):
        labels, locations = seat(log_K, np.full(log_K.shape[1], 1 / log_K.shape[1]), np.array(group), mass, sigma, tau, rng)
        yield tuple(labels.tolist()), tuple(locations.tolist())


@pytest.mark.parametrize("sigma", SIGMAS)
def test_seats_are_those_of_the_naive_reference(sigma):
    K = kernel_matrix("box", [0.0, 0.5, 1.0], [0.0, 0.3, 0.9], 0.7)
    group = [0, 1, 2, 0, 1, 1, 2, 0]
    rng = np.random.default_rng(1)
    for found in drawn(K, group, 2.0, sigma, 1.5, 20):
        labels, locations = naive.seat(K, group, 2.0, sigma, 1.5, rng)
        assert found == (tuple(labels), tuple(locations))


@pytest.mark.parametrize(("sigma", "tau"), by_turns([(0.0, 1.0), (0.3, 2.0), (0.9, 1.0)], 3, 1))
def test_partitions_of_a_mixture(sigma, tau):
    counts = Counter(labels for labels, _ in drawn(np.ones((1, 1)), [0] * 5, 0.8, sigma, tau, 20_000))
    law = {labels: math.exp(nrm_log_eppf(tuple(Counter(labels).values()), 0.8, sigma, tau)) for labels in partitions(5)}
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-8)
    assert chi_square(counts, law) > 1e-3


@pytest.mark.parametrize("sigma", [0.0, 0.4])
@pytest.mark.parametrize("kind", by_turns(["box", "squared exponential"], 2, 1))
@pytest.mark.parametrize("mass", by_turns([0.2, 1.5]))
def test_partitions_and_locations_of_a_regression(kind, mass, sigma):
    K, group = kernel_matrix(kind, [0.0, 1.0], [-0.2, 0.4, 1.1], 0.7), [0, 1, 0]
    joint = KernelJoint(K, group, mass, sigma, points=601, lo=-30.0, hi=30.0 / mass)
    law = {state: math.exp(joint.log_joint(*state)) for state in joint.states()}
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-6)
    assert chi_square(Counter(drawn(K, group, mass, sigma, 1.0, 20_000)), law) > 1e-3


@pytest.mark.parametrize("mass", [1e-2, 1e-8, 1e-290])
def test_tiny_mass_in_reach(mass):
    """As the mass goes to 0 one location outweighs all others, and another all that are left: each row takes the first in its reach."""
    K, group = kernel_matrix("box", [0.0, 1.0, 2.0], [-0.5, 0.5, 1.5, 2.5], 0.8), [0, 1, 2, 1]
    expected = Counter()
    for order in itertools.permutations(range(4)):
        first = tuple(next(p for p in order if K[g, p] > 0) for g in group)
        expected[naive.canonical(first)] += 1 / 24
    size = 4000
    counts = Counter(labels for labels, _ in drawn(K, group, mass, 0.0, 1.0, size))
    slack = 4 * mass  # new atoms at a location, and locations of nearly equal weight, have probability of the order of the mass
    for labels in expected | counts:
        p = expected[labels]
        assert abs(counts[labels] / size - p) < 4 * math.sqrt(p * (1 - p) / size) + slack


def regression(kernel, prior, x=(0.0, 1.0, 0.0), family=None):
    data = pd.DataFrame({"x": x, "y": np.linspace(-1.0, 1.0, len(x))})
    return nm.Model("y ~ x", data, kernel=kernel, prior=prior, family=family)


def test_number_of_clusters_of_a_regression():
    locations = [-0.2, 0.4, 1.1]
    model = regression(nm.SquaredExponential(0.7, locations=locations), nm.NGGP(1.5, 0.3))
    joint = KernelJoint(kernel_matrix("se", [0.0, 1.0], locations, 0.7), [0, 1, 0], 1.5, 0.3)
    expected = np.zeros(3)
    for labels, where in joint.states():
        expected[max(labels)] += math.exp(joint.log_joint(labels, where))
    law = model.prior_n_clusters()
    assert law.sum() == pytest.approx(1.0) and law.index.name == "n_clusters"
    assert (np.abs(law - expected) < 4 * np.sqrt(expected * (1 - expected) / 2000)).all()
    pd.testing.assert_series_equal(law, model.prior_n_clusters())


def test_hyperparameters_are_drawn():
    """Two rows share a cluster of a Dirichlet process with probability E[1 / (1 + mass)]."""
    prior = nm.DirichletProcess(nm.Gamma(2.0, 1.0))
    law = regression(nm.Box(5.0, locations=[0.5]), prior, x=(0.0, 1.0)).prior_n_clusters()
    expected = integrate.quad(lambda a: prior.mass.distribution.pdf(a) / (1 + a), 0, np.inf)[0]
    assert abs(law[1] - expected) < 4 * math.sqrt(expected * (1 - expected) / 2000)


def test_widths_are_drawn_within_reach():
    """Rows at 0 and 1, one location at 0.25: only boxes wider than 0.75 reach both, and then there is one group of locations."""
    prior, family = nm.DirichletProcess(1e-9), nm.Gaussian(m=0, r=1, nu=3, scale=1)
    wide = regression(nm.Box(nm.Gamma(8, 8), locations=[0.25]), prior, (0.0, 1.0), family)
    assert wide.prior_n_clusters().to_dict() == {1: 1.0}
    narrow = regression(nm.Box(nm.Gamma(1e-5, 1e-5), locations=[0.25]), prior, (0.0, 1.0), family)  # of mean 1, and hardly ever near it
    with pytest.raises(ValueError, match=r"row 0 is out of reach of every location at width .*in 1000 draws of the width of Box"):
        narrow.prior_predictive(2, rng=1)


# ---- data sets


@pytest.mark.parametrize("sigma", by_turns([0.0, 0.5], 2, 1))
def test_moments_of_data_sets(sigma):
    """A row is t distributed; two rows have the variance of a component's mean in common where they share a cluster."""
    nu, r, m = 40.0, 0.5, 3.0
    family = nm.Gaussian(m=m, r=r, nu=nu, scale=nu - 2)  # the mean of a component's variance is 1
    prior = nm.DirichletProcess(1.0) if sigma == 0 else nm.NGGP(1.0, sigma)
    size = 4000
    y = mixture(2, prior, family=family).prior_predictive(size, rng=3).to_numpy().reshape(size, 2)
    df = nu
    law = stats.t(df, m, math.sqrt((nu - 2) / df * (1 + 1 / r)))
    assert stats.kstest(y[:, 0], law.cdf).pvalue > 1e-3 and stats.kstest(y[:, 1], law.cdf).pvalue > 1e-3
    assert law.var() == pytest.approx(1 + 1 / r)
    product = (y[:, 0] - m) * (y[:, 1] - m)
    expected = cluster_law(2, 1.0, sigma)[0] / r
    assert abs(product.mean() - expected) < 4 * product.std() / math.sqrt(size)


def test_two_responses_in_a_regression():
    data = pd.DataFrame({"x": [0.0, 0.5, 1.0], "a": [1.0, 2.0, 4.0], "b": [0.0, 1.0, -1.0]}, index=pd.Index(["p", "q", "r"], name="id"))
    scale = 28.0 * np.array([[1.0, 0.5], [0.5, 4.0]])  # covariance of a component: scale / (nu - d - 1)
    model = nm.Model("a + b ~ x", data, family=nm.Gaussian(m=[1.0, -1.0], r=0.5, nu=31.0, scale=scale))
    found = model.prior_predictive(3000, rng=1)
    assert list(found.columns) == ["a", "b"] and found.index.names == ["id", "draw"]
    assert list(found.index[:4]) == [("p", 0), ("q", 0), ("r", 0), ("p", 1)]
    for name in "pqr":
        y = found.loc[name].to_numpy()
        centred = y - [1.0, -1.0]
        assert (np.abs(centred.mean(axis=0)) < 4 * y.std(axis=0) / math.sqrt(3000)).all()
        for i, j in ((0, 0), (0, 1), (1, 1)):
            product = centred[:, i] * centred[:, j]
            assert abs(product.mean() - 3.0 * scale[i, j] / 28.0) < 4 * product.std() / math.sqrt(3000)


def test_seeds():
    model = mixture(10, nm.NGGP())
    once = model.prior_predictive(3, rng=5)
    pd.testing.assert_frame_equal(once, model.prior_predictive(3, rng=5))
    generator = np.random.default_rng(5)
    assert not model.prior_predictive(3, rng=generator).equals(model.prior_predictive(3, rng=generator))
    assert not once.equals(model.prior_predictive(3, rng=6))
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    model.prior_predictive(1)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize(("draws", "rng", "message"), [(0, 1, "draws must be an integer of at least 1"), (1.5, 1, "draws"), (1, -1, "rng")])
def test_bad_arguments(draws, rng, message):
    with pytest.raises(ValueError, match=message):
        mixture(3, nm.DirichletProcess()).prior_predictive(draws, rng=rng)


@pytest.mark.parametrize("prior", [nm.Gamma(2, 4), nm.Beta(1, 3), nm.LogNormal(0.3, 0.5)], ids=str)
def test_distributions_of_hyperpriors(prior):
    assert prior.distribution.mean() == pytest.approx(prior.mean)
    x = np.array([0.1, 0.4, 0.7])
    from nrmmix.kernels.measure.nrm import log_hyperprior

    density = [log_hyperprior(np.array(prior.row()), value) for value in x]
    np.testing.assert_allclose(np.diff(density), np.diff(prior.distribution.logpdf(x)))


def test_a_hyperprior_without_a_distribution():
    from nrmmix.model.priors.hyperpriors import Hyperprior

    with pytest.raises(TypeError, match="Hyperprior cannot be used as a hyperprior"):
        _ = Hyperprior().distribution


# ---- the mass for a number of clusters


@pytest.mark.parametrize(("expected", "n"), [(1.001, 2), (1.999, 2), (5, 100), (99.9, 100), (20, 10**6), (999_000, 10**6), (3, 10**9)])
def test_mass_of_a_dirichlet_process(expected, n):
    mass = nm.mass_for_clusters(expected, n)
    if mass < 1e4:
        assert mass * (digamma(mass + n) - digamma(mass)) == pytest.approx(expected, rel=1e-9)
    else:  # the difference cancels: sum_i mass / (mass + i)
        assert (mass / (mass + np.arange(n))).sum() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("sigma", [1e-4, 0.25, 0.5, 0.95])
@pytest.mark.parametrize("mass", [1e-3, 1.0, 200.0])
def test_expected_clusters_are_the_mean_of_the_law(sigma, mass):
    law = cluster_law(120, mass, sigma)
    mean = np.arange(1, len(law) + 1) @ law
    assert expected_clusters(120, mass, sigma) == pytest.approx(mean, rel=1e-7)
    assert nm.mass_for_clusters(mean, 120, sigma) == pytest.approx(mass, rel=1e-3)


@pytest.mark.parametrize("prior", [
    nm.DirichletProcess(), nm.DirichletProcess(0.7), nm.NGGP(), nm.NGGP(2.0, nm.Beta(2, 3), tau=0.4), nm.NGGP(nm.LogNormal(0.2, 0.7), 0.3),
    nm.NormalizedInverseGaussian(), nm.PitmanYor(), nm.PitmanYor(-0.2, 0.5), nm.NormalizedStable(), nm.FiniteMixture(4),
    nm.FiniteMixture(1), nm.FiniteMixture(6, nm.Gamma(2, 1)),
])
def test_number_of_clusters_that_a_model_expects(prior):
    law = prior.law_of_n_clusters(80)
    assert prior.expected_n_clusters(80) == pytest.approx(np.arange(1, len(law) + 1) @ law, rel=2e-5)
    assert "clusters expected before the data are seen" in str(nm.Model(data=np.arange(9.0) ** 2, prior=prior))


@pytest.mark.parametrize("sigma", [0.1, 0.6, 0.99])
@pytest.mark.parametrize("n", [2, 1000, 10**9])
def test_limit_of_a_stable_process(n, sigma):
    """As the mass goes to 0: Gamma(n + sigma) / (Gamma(n) Gamma(1 + sigma)), or n^sigma / Gamma(1 + sigma) for many observations."""
    found = expected_clusters(n, 1e-30, sigma)
    if n <= 1000:
        assert found == pytest.approx(math.exp(gammaln(n + sigma) - gammaln(n) - gammaln(1 + sigma)), rel=1e-10)
    else:
        assert found == pytest.approx(n**sigma / math.gamma(1 + sigma), rel=1e-8)
    with pytest.raises(ValueError, match="expected must be greater than"):
        nm.mass_for_clusters(found * 0.99, n, sigma)
    assert nm.mass_for_clusters(0.9 * found + 0.1 * n, n, sigma) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 10), "expected must be greater than 1 and less than n = 10, not 1"),
        ((10, 10), "less than n = 10"),
        ((math.nan, 10), "expected must be"),
        (("5", 10), "expected must be"),
        ((5, 100, 0.5), r"greater than 11.2\d* and less than n = 100 at sigma = 0.5, not 5; .*whatever the mass"),
        ((1.5, 1), "n must be an integer of at least 2, not 1"),
        ((5, 10.5), "n must be an integer"),
        ((5, 10**10), "n must be at most"),
        ((5, 10, 1.0), r"sigma must be a number in \[0, 1\), not 1.0"),
        ((5, 10, -0.1), "sigma must be"),
        ((np.nextafter(10, 0), 10), "too near to 10, the limit"),
    ],
)
def test_bad_arguments_of_mass_for_clusters(arguments, message):
    with pytest.raises(ValueError, match=message):
        nm.mass_for_clusters(*arguments)


def test_a_law_out_of_reach_is_refused():
    data = {"y": np.arange(12.0) ** 1.5, "x": np.arange(12.0)}
    with pytest.raises(ValueError, match="among 1000000 components; take fewer"):
        nm.Model("y ~ x", data, prior=nm.FiniteMixture(10**6)).prior_n_clusters()
    with pytest.raises(ValueError, match="sigma must be at least 1e-06"):
        nm.NormalizedStable(1e-200)
