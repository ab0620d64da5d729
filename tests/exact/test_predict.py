"""Predictions against enumeration: ratios of evidences with one observation more, and the law of the random measure."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import KernelJoint, gaussian_log_marginal, normalised, nrm_log_eppf, partition_posterior, partitions
from scipy import special, stats
from scipy.special import logsumexp
from support.cover import by_turns, each_once
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.kernels.core.jit import allocating
from nrmmix.kernels.measure.crm import jumps_above, log_mass_below
from nrmmix.posterior.predict.rows import CovariateWeights, prediction_rows
from nrmmix.posterior.predict.states import states_of
from nrmmix.results.datatree import pointwise

FAMILY = {"m": np.array([0.0]), "r": 0.4, "nu": 3.0, "scale": np.array([[0.6]])}
Y = np.array([-0.6, 0.5, 0.7, -1.2, 1.4])
POINTS = np.array([-1.0, 0.3, 2.5])


def mixture_evidence(y, mass, sigma):
    """log p(y), all partitions and u summed out."""
    marginals, logs = {}, []
    for labels in partitions(len(y)):
        blocks = [tuple(i for i in range(len(y)) if labels[i] == c) for c in range(max(labels) + 1)]
        for b in blocks:
            if b not in marginals:
                marginals[b] = gaussian_log_marginal(y[list(b)][:, None], **FAMILY)
        logs.append(nrm_log_eppf([len(b) for b in blocks], mass, sigma) + sum(marginals[b] for b in blocks))
    return logsumexp(logs)


def regression_evidence(y, joint):
    logs = []
    for labels, locations in joint.states():
        blocks = [[i for i in range(len(y)) if labels[i] == c] for c in range(max(labels) + 1)]
        logs.append(joint.log_joint(labels, locations) + sum(gaussian_log_marginal(y[b][:, None], **FAMILY) for b in blocks))
    return logsumexp(logs)


def chain_of(fit, c):
    one = nm.MCMCResult.__new__(nm.MCMCResult)
    one.__dict__ = dict(fit.__dict__)
    one.draws = type(fit.draws)({name: values[c : c + 1].copy() for name, values in fit.draws.items()})
    return one


def check(fit, evaluate, exact, precision=0.02, another=None):
    """The estimate lies within five standard errors, estimated between 16 chains, of the exact density: t with 15 degrees of freedom.

    `another` way to it gives the same number from the same draws, those of the first chain.
    """
    by_chain = [evaluate(chain_of(fit, c)) for c in range(fit.draws.n_chains)]
    compare(np.array(by_chain), exact, precision)
    if another is not None:
        np.testing.assert_allclose(another(chain_of(fit, 0)), by_chain[0], rtol=1e-9)


def compare(by_chain, exact, precision=0.02):
    error = by_chain.std(axis=0, ddof=1) / math.sqrt(len(by_chain))
    assert (error < coarser(precision) * exact).all(), "too few draws to tell"
    assert (np.abs(by_chain.mean(axis=0) - exact) < 5 * error).all()


PRIORS = {"DP": (nm.DirichletProcess(1.3), 0.0), "NGGP": (nm.NGGP(1.3, 0.3), 0.3), "NIG": (nm.NormalizedInverseGaussian(1.3), 0.5)}


@pytest.mark.parametrize("prior", by_turns(PRIORS, 3, 1))
def test_mixture_density_and_log_density(prior):
    measure, sigma = PRIORS[prior]
    fit = nm.Model(data=Y[:, None], prior=measure, family=nm.Gaussian(**FAMILY)).fit(
        draws=by_day(500), thin=4, tune=200, chains=16, rng=1)
    evidence = mixture_evidence(Y, 1.3, sigma)
    exact = np.exp([mixture_evidence(np.append(Y, y), 1.3, sigma) - evidence for y in POINTS])
    check(fit, lambda one: np.exp(one.log_density(POINTS[:, None])), exact, precision=0.005,
          another=lambda one: one.predict(kind="density", at=POINTS)["estimate"].to_numpy())


@pytest.mark.parametrize(("x_new", "sigma"), by_turns(each_once([0.0, 0.6], [0.0, 0.3]), 2, 1))
def test_regression_density(sigma, x_new):
    """At a covariate of the training data, and at another: one group more."""
    x, locations, width = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0]), 0.6
    prior = nm.DirichletProcess(1.3) if sigma == 0 else nm.NGGP(1.3, sigma)
    kernel = nm.SquaredExponential(width, locations=locations)
    data = pd.DataFrame({"x": x, "y": Y[:3]})
    fit = nm.Model("y ~ x", data, kernel=kernel, prior=prior, family=nm.Gaussian(**FAMILY)).fit(
        draws=by_day(375), thin=4, tune=300, chains=16, rng=2
    )

    def joint(values):
        groups, group = np.unique(values, return_inverse=True)
        K = np.exp(-(np.subtract.outer(groups, locations) ** 2) / (2 * width**2))
        return KernelJoint(K, group, 1.3, sigma, points=161 if len(groups) == 2 else 101)

    evidence = regression_evidence(Y[:3], joint(x))
    longer = joint(np.append(x, x_new))
    exact = np.exp([regression_evidence(np.append(Y[:3], y), longer) - evidence for y in POINTS])
    at = pd.DataFrame({"x": [x_new]})
    rows = pd.DataFrame({"x": x_new, "y": POINTS})
    check(fit, lambda one: np.exp(one.log_density(rows)), exact, precision=0.005,
          another=lambda one: one.predict(at, kind="density", at=POINTS)["estimate"].to_numpy())


FAMILY_2 = {"m": np.array([0.0, 1.0]), "r": 0.4, "nu": 4.0, "scale": np.array([[0.6, 0.2], [0.2, 3.0]])}
Y_2 = np.array([[-0.6, 0.3], [0.5, 4.0], [0.7, 2.1], [-1.2, -1.0]])


def clusters_of(labels):
    return [[i for i in range(len(labels)) if labels[i] == c] for c in range(max(labels) + 1)]


def posterior_t(members, j):
    """The predictive t of response j in a cluster with responses (m, 2): degrees of freedom, location, scale."""
    m, r, nu = len(members), FAMILY_2["r"], FAMILY_2["nu"]
    x = members[:, j] if m else np.zeros(1)
    centre, gap = FAMILY_2["m"][j], x.mean() - FAMILY_2["m"][j]
    psi = FAMILY_2["scale"][j, j] + (m > 0) * (((x - x.mean()) ** 2).sum() + r * m / (r + m) * gap**2)
    df = nu + m - 1  # that of the joint t, and of its marginals
    return df, centre + m / (r + m) * gap, math.sqrt(psi * (r + m + 1) / ((r + m) * df))


def allocations(X, mass, sigma):
    """Partitions of the rows X with their probabilities, and the predictive weight of each cluster, the last a new one."""
    posterior = partition_posterior(
        len(X), lambda sizes: nrm_log_eppf(sizes, mass, sigma), lambda b: gaussian_log_marginal(X[b], **FAMILY_2)
    )
    for labels, probability in posterior.items():
        blocks = clusters_of(labels)
        sizes = [len(b) for b in blocks]
        longer = [[s + (k == c) for k, s in enumerate(sizes)] for c in range(len(sizes))] + [[*sizes, 1]]
        weights = np.exp(np.array([nrm_log_eppf(s, mass, sigma) for s in longer]) - nrm_log_eppf(sizes, mass, sigma))
        yield probability, [*blocks, []], weights


def test_marginals_and_clusters_of_two_responses():
    """Densities, distribution functions and quantiles of each response, and the cluster of a new row."""
    prior, family = nm.NGGP(1.3, 0.3), nm.Gaussian(**FAMILY_2)
    fit = nm.Model(data=Y_2, prior=prior, family=family).fit(draws=by_day(160), tune=100, thin=3, chains=16, rng=1)
    cases = list(allocations(Y_2, 1.3, 0.3))
    assert sum(p * weights.sum() for p, _, weights in cases) == pytest.approx(1.0, abs=1e-8)

    def exact(j, function, at):
        return sum(p * w * function(at, *posterior_t(Y_2[b], j)) for p, blocks, weights in cases for b, w in zip(blocks, weights))

    at = np.array([[-1.0, 0.0], [0.4, 2.5]])
    density = np.concatenate([exact(j, stats.t.pdf, at[:, j]) for j in range(2)])
    check(fit, lambda one: one.predict(kind="density", at=at, response=["y1", "y2"])["estimate"].to_numpy(), density)
    cdf = np.concatenate([exact(j, stats.t.cdf, at[:, j]) for j in range(2)])
    check(fit, lambda one: one.predict(kind="cdf", at=at)["estimate"].to_numpy(), cdf)

    def below_quantiles(one):
        found = one.predict(kind="quantile", q=[0.3, 0.7], draws=30)["estimate"].to_numpy().reshape(2, 2)
        return np.concatenate([exact(j, stats.t.cdf, found[j]) for j in range(2)])

    check(fit, below_quantiles, np.array([0.3, 0.7, 0.3, 0.7]))

    new, estimate = np.array([0.6, 3.0]), fit.partition().labels
    probability = np.zeros(estimate.max() + 2)
    for p, blocks, weights in cases:
        before = [gaussian_log_marginal(Y_2[b], **FAMILY_2) if b else 0.0 for b in blocks]
        after = [gaussian_log_marginal(np.vstack([Y_2[b], new]), **FAMILY_2) for b in blocks]
        terms = weights * np.exp(np.subtract(after, before))
        for b, term in zip(blocks, terms):
            np.add.at(probability, estimate[b] if b else [-1], p * term / max(len(b), 1))
    probability /= probability.sum()
    best = int(probability.argmax())
    assert fit.predict(new[None, :], kind="cluster")["cluster"].iloc[0] == (best if best < len(probability) - 1 else -1)
    check(fit, lambda one: one.predict(new[None, :], kind="cluster")["probability"].to_numpy(), probability[[best]])


MOMENTS = {"m": np.array([0.0]), "r": 0.4, "nu": 12.0, "scale": np.array([[6.0]])}  # with fourth moments


def moments(members):
    """Mean of the predictive of a cluster, and the mean square of its component's mean."""
    m, r, nu = len(members), MOMENTS["r"], MOMENTS["nu"]
    mean = members.mean() if m else 0.0
    psi = 6.0 + ((members - mean) ** 2).sum() + r * m / (r + m) * mean**2
    centre = m * mean / (r + m)
    return centre, centre**2 + psi / ((nu + m - 2) * (r + m))


@pytest.mark.parametrize(("sigma", "x_new"), by_turns([(0.0, None), (0.3, None), (0.3, (0.0, 1.0))], 3, 2))
def test_rows_of_a_replicate_share_the_random_measure(sigma, x_new):
    """The mean product of two new rows: they share a component or have two, by enumeration with both rows added."""
    y, x, locations, width = 2.5 * Y[:3], np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0]), 0.6
    prior = nm.DirichletProcess(1.3) if sigma == 0 else nm.NGGP(1.3, sigma)
    states, logs, products, singles = [], [], [], []
    many = 30  # rows of each kind in a replicate: any of the first and any of the second are a pair
    if x_new is None:
        spread = [(labels, nrm_log_eppf(np.bincount(labels), 1.3, sigma)) for labels in partitions(5)]
        model = nm.Model(data=y[:, None], prior=prior, family=nm.Gaussian(**MOMENTS))
        new = np.zeros((2 * many, 1))
    else:
        values = np.append(x, x_new)
        K = np.exp(-(np.subtract.outer(locations, locations) ** 2) / (2 * width**2))
        joint = KernelJoint(K, values.astype(int), 1.3, sigma, points=101)
        spread = [(labels, joint.log_joint(labels, where)) for labels, where in joint.states()]
        kernel = nm.SquaredExponential(width, locations=locations)
        model = nm.Model("y ~ x", pd.DataFrame({"x": x, "y": y}), prior=prior, kernel=kernel, family=nm.Gaussian(**MOMENTS))
        new = pd.DataFrame({"x": np.repeat(x_new, many)})
    for number, (labels, log_prior) in enumerate(spread):
        old = [[i for i in block if i < 3] for block in clusters_of(labels)]
        first, second = (moments(y[old[labels[i]]]) for i in (3, 4))
        states.append(number)
        logs.append(log_prior + sum(gaussian_log_marginal(y[b][:, None], **MOMENTS) for b in old if b))
        products.append(first[1] if labels[3] == labels[4] else first[0] * second[0])
        singles.append((first[0], second[0]))
    weight = np.array(list(normalised(states, logs).values()))
    exact, alone = weight @ products, weight @ singles

    draws = by_day(1500)
    fit = model.fit(draws=draws, tune=200, thin=5, chains=16, rng=4)
    drawn = fit.simulate(new, draws=16 * draws, rng=5).to_numpy().reshape(16, draws, 2, many).mean(axis=3)
    for values, wanted in ((drawn[..., 0], alone[0]), (drawn[..., 1], alone[1]), (drawn.prod(axis=2), exact)):
        means = values.mean(axis=1)
        error = means.std(ddof=1) / 4
        assert abs(means.mean() - wanted) < 4.5 * error
    assert abs(exact - alone.prod()) > 10 * error, "rows drawn from measures of their own would pass"


def test_pointwise_densities_leave_one_out():
    """Given the drawn measure rows are independent: 1/density averages to 1 / (density of the row given the others)."""
    model = nm.Model(data=Y[:, None], prior=nm.NGGP(1.3, 0.3), family=nm.Gaussian(**FAMILY))
    fit = model.fit(draws=by_day(400), tune=200, thin=2, chains=16, rng=1)
    evidence = mixture_evidence(Y, 1.3, 0.3)
    others = np.array([mixture_evidence(np.delete(Y, i), 1.3, 0.3) for i in range(len(Y))])
    by_chain = np.exp(-pointwise(fit)).mean(axis=1)
    compare(by_chain, np.exp(others - evidence))

    pytest.importorskip("xarray")
    with warnings.catch_warnings():  # of what ArviZ itself imports, and of its own plans
        warnings.simplefilter("ignore")
        arviz = pytest.importorskip("arviz")
        tree = fit.to_datatree()
        found = arviz.loo(arviz.from_datatree(tree) if hasattr(arviz, "InferenceData") else tree, pointwise=True)
    elpd = np.asarray(found.elpd_i if hasattr(found, "elpd_i") else found.loo_i)
    error = by_chain.std(axis=0, ddof=1) / 4 * np.exp(evidence - others)  # of the logarithm
    assert (np.abs(elpd - (evidence - others)) < 5 * error).all()


@pytest.mark.parametrize("kernel", [None, nm.SquaredExponential(0.05), nm.Box(0.2)])
@pytest.mark.parametrize("prior", [nm.DirichletProcess(), nm.NGGP(), nm.NormalizedInverseGaussian(tau=3.0)])
def test_weights_sum_to_one_in_every_draw(kernel, prior):
    data = nm.datasets.load_mcycle()
    fit = nm.fit("accel_g ~ 1" if kernel is None else "accel_g ~ times_ms", data, prior=prior, kernel=kernel,
                 draws=20, tune=50, chains=2, rng=1)
    new = None if kernel is None else pd.DataFrame({"times_ms": [2.4, 20.0, 33.3, 57.6, 60.0]})
    covariates = CovariateWeights(fit.model, prediction_rows(fit.model, new))
    for state in states_of(fit.posterior, None):
        weights = state.weights(covariates)
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-6)


def test_weights_with_a_heavy_tail():
    """Almost no mass and no cluster in reach: the integrand over v falls off like v^-0.0005, and the weights still sum to one."""
    data = pd.DataFrame({"x": [0.0, 0.1, 0.2, 0.3], "y": Y[:4]})
    kernel = nm.Box(0.35, locations=[0.0, 0.3, 0.8, 1.3], scale=None)
    fit = nm.fit("y ~ x", data, prior=nm.DirichletProcess(0.001), kernel=kernel, draws=10, tune=20, chains=1, rng=1)
    covariates = CovariateWeights(fit.model, prediction_rows(fit.model, pd.DataFrame({"x": [0.15, 1.3]})))
    for state in states_of(fit.posterior, None):
        weights = state.weights(covariates)
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-6)
        assert weights[1, -1] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("regression", "sigma"), by_turns(each_once([False, True], [0.0, 0.3]), 2, 1))
def test_random_measure_has_the_estimate_as_its_mean(sigma, regression):
    """Averages over draws of the random measure given one recorded state of u; quadrature over u or v left to many states."""
    prior = nm.DirichletProcess(1.3) if sigma == 0 else nm.NGGP(1.3, sigma)
    data = pd.DataFrame({"x": [0.0, 0.0, 1.0, 1.0, 0.5], "y": Y})
    kernel = nm.SquaredExponential(0.6, locations=[0.0, 1.0]) if regression else None
    model = nm.Model("y ~ x" if regression else "y ~ 1", data, prior=prior, kernel=kernel, family=nm.Gaussian(**FAMILY))
    fit = model.fit(draws=by_day(2000), thin=2, tune=300, chains=4, rng=3)
    new = pd.DataFrame({"x": [0.2]})
    table = fit.predict(new, kind="mean", draws=4 * by_day(2000), interval=0.9)
    states, covariates = states_of(fit.posterior, None), CovariateWeights(model, prediction_rows(model, new))
    points, sampled = states.points(None, np.zeros((1, 0))), []
    for state, seed in zip(states, np.random.SeedSequence(5).spawn(len(states)), strict=True):
        atoms = state.measure(seed)
        values = atoms.means(points)[0]
        share, _ = atoms.shares(covariates)
        sampled.append(float(model.family.means(share @ values)[0, 0]))
    sampled = np.array(sampled).reshape(8, -1)
    error = sampled.mean(axis=1).std(ddof=1) / math.sqrt(8)
    assert abs(sampled.mean() - float(table["estimate"].iloc[0])) < 4 * error + 0.002
    np.testing.assert_allclose(np.quantile(sampled, [0.05, 0.95]), table[["lower", "upper"]].iloc[0], atol=coarser(0.05))


@pytest.mark.nightly
def test_band_is_that_of_the_random_density():
    """Dirichlet process, one observation: F ~ DP(mass + 1) with base (mass H + delta)/(mass + 1), by stick breaking."""
    mass, y, at = 2.0, np.array([0.4]), 0.9
    family = {"m": np.array([0.0]), "r": 0.5, "nu": 4.0, "scale": np.array([[1.0]])}
    model = nm.Model(data=y[:, None], prior=nm.DirichletProcess(mass), family=nm.Gaussian(**family))
    fit = model.fit(draws=4000, tune=10, chains=1, rng=4)
    band = fit.predict(kind="density", at=[at], draws=4000, interval=0.8).iloc[0]

    rng, size, sticks = np.random.default_rng(0), 20_000, 60

    def components(r, nu, scale, m, shape):
        precision = rng.gamma(nu / 2, 2 / scale, shape)
        mean = m + rng.normal(size=shape) / np.sqrt(r * precision)
        return stats.norm.pdf(at, mean, 1 / np.sqrt(precision))

    r_n, m_n = 1.5, y[0] / 1.5
    own = components(r_n, 5.0, 1.0 + 0.5 / 1.5 * y[0] ** 2, m_n, size)
    v = rng.beta(1, mass, (size, sticks))
    weight = v * np.cumprod(np.concatenate([np.ones((size, 1)), 1 - v[:, :-1]], axis=1), axis=1)
    unseen = (weight * components(0.5, 4.0, 1.0, 0.0, (size, sticks))).sum(axis=1)
    share = rng.beta(1, mass, size)
    sampled = share * own + (1 - share) * unseen
    lower, upper = np.quantile(sampled, [0.1, 0.9])
    # standard errors of the quantiles of 4,000 draws
    for q, value, found in ((0.1, lower, band["lower"]), (0.9, upper, band["upper"])):
        width = np.quantile(sampled, q + 0.02) - np.quantile(sampled, q - 0.02)
        error = math.sqrt(q * (1 - q) / 4000) * width / 0.04
        assert abs(found - value) < 5 * error


@allocating
def draw_jumps_often(c, sigma, level, times, rng):
    """(times,) number, sum and least of the jumps; infinity where there is none."""
    counts, sums, least = np.zeros(times), np.zeros(times), np.full(times, np.inf)
    for t in range(times):
        for z in jumps_above(c, sigma, level, rng):
            counts[t] += 1
            sums[t] += z
            least[t] = min(least[t], z)
    return counts, sums, least


@pytest.mark.parametrize(("c", "sigma", "level"), [(0.7, 0.0, 0.01), (2.0, 0.3, 0.05), (1.5, 0.6, 0.2), (3.0, 0.4, 1.7)])
def test_jumps_of_the_measure(c, sigma, level):
    """Number, sum and Laplace functional of jumps with intensity c z^(-1-sigma) e^-z against quadrature."""
    z = np.exp(np.linspace(math.log(level), math.log(60.0), 200_001))
    intensity = c * z ** (-1 - sigma) * np.exp(-z)

    def integral(f):
        return np.trapezoid(f * intensity, z)

    rng = np.random.default_rng(8)
    counts, sums, least = draw_jumps_often(c, sigma, level, 40_000, rng)
    assert least.min() >= level
    for sample, mean, variance in (
        (counts, integral(np.ones_like(z)), integral(np.ones_like(z))), (sums, integral(z), integral(z**2)),
    ):
        assert abs(sample.mean() - mean) < 4 * math.sqrt(variance / len(sums))
    laplace = np.exp(-sums)
    assert abs(laplace.mean() - math.exp(-integral(1 - np.exp(-z)))) < 4 * laplace.std() / math.sqrt(len(sums))
    below = np.exp(np.linspace(-60, math.log(level), 200_001))
    expected = np.trapezoid(c * below ** (-sigma) * np.exp(-below), below)
    assert math.exp(log_mass_below(c, sigma, math.log(level))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("regression", by_turns([False, True], 2, 1))
def test_cdf_and_quantiles_belong_to_the_density(regression):
    """The cdf is the integral of the density, estimate for estimate, and the quantiles are its inverse."""
    data = nm.datasets.load_mcycle()
    formula = "accel_g ~ times_ms" if regression else "accel_g ~ 1"
    fit = nm.fit(formula, data, family=nm.Gaussian(), draws=40, tune=100, chains=2, rng=1)
    new = pd.DataFrame({"times_ms": [20.0]})
    grid = np.linspace(-1500, 1500, 30_001)
    density = fit.predict(new, kind="density", at=grid, draws=20)["estimate"].to_numpy()
    cdf = fit.predict(new, kind="cdf", at=grid, draws=20)
    integral = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2) * (grid[1] - grid[0])])
    np.testing.assert_allclose(cdf["estimate"] - cdf["estimate"].iloc[0], integral, atol=2e-5)
    assert (np.diff(cdf.to_numpy(), axis=0) >= -1e-12).all()
    q = [0.01, 0.25, 0.5, 0.9, 0.99]
    quantile = fit.predict(new, kind="quantile", q=q, draws=20)
    assert list(quantile.index.get_level_values("q")) == q
    sd = data["accel_g"].std()
    np.testing.assert_allclose(quantile["estimate"], np.interp(q, cdf["estimate"], grid), atol=0.003 * sd)
    assert (quantile["lower"] <= quantile["upper"]).all()


def test_cdf_at_rows_is_the_cdf_at_points():
    fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=30, tune=50, chains=1, rng=2)
    new = pd.DataFrame({"times_ms": [10.0, 30.0], "accel_g": [0.0, 20.0]}, index=["a", "b"])
    own = fit.predict(new, kind="cdf", draws=30)
    both = fit.predict(new, kind="cdf", at=[0.0, 20.0], draws=30)
    np.testing.assert_allclose(own.to_numpy(), both.loc[[("a", 0.0), ("b", 20.0)]].to_numpy())


def test_marginals_of_several_responses():
    """Predictive t and component normal marginals against their definitions, in the units of the data."""
    X = np.random.default_rng(0).normal(size=(12, 3)) @ np.array([[2.0, 0, 0], [1, 30, 0], [0.5, 2, 0.1]]) + [5, -40, 1]
    own = nm.Gaussian(scale=0.08 * np.diag(X.var(axis=0)))
    fit = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=own).fit(init="one", draws=1, tune=0, chains=1, rng=1)
    family, d = fit.model.family, X.shape[1]
    states = states_of(fit.posterior, None)
    (state,) = states
    K = int(fit.draws["n_clusters"][0, 0])
    laws = state.distributions(np.zeros((1, 0)))
    centre, spread = (np.stack([getattr(law, name)[0] for law in laws], axis=1) for name in ("centre", "spread"))
    df = laws[0].df[0]
    for k in range(K + 1):
        own = X[fit.draws["labels"][0, 0] == k]
        m, r_n, nu_n = len(own), family.r + len(own), family.nu + len(own)
        mean = own.mean(axis=0) if m else family.m
        psi = family.scale + (own - mean).T @ (own - mean) + family.r * m / r_n * np.outer(mean - family.m, mean - family.m)
        np.testing.assert_allclose(centre[k], (family.r * family.m + m * mean) / r_n)
        assert df[k] == pytest.approx(nu_n - d + 1)
        np.testing.assert_allclose(spread[k], np.sqrt(np.diag(psi) * (r_n + 1) / (r_n * df[k])))
    atoms = state.measure(np.random.SeedSequence(1))
    laws = atoms.distributions(np.zeros((1, 0)))
    mean, sd = (np.stack([getattr(law, name)[0] for law in laws], axis=1) for name in ("mean", "sd"))
    np.testing.assert_allclose(mean, family.means(atoms.means(states.points(None, np.zeros((1, 0))))[0]))
    W = atoms.theta[1 + d :, 0].reshape(d, d)
    covariance = np.linalg.inv(W.T @ W) * np.outer(family.form.spread, family.form.spread)
    np.testing.assert_allclose(sd[0], np.sqrt(np.diag(covariance)))


@pytest.mark.parametrize("level", [1e-8, 0.01, 1.0, 9.0, 40.0, 300.0])
@pytest.mark.parametrize("sigma", [0.0, 0.3, 0.9])
def test_log_mass_below_a_level(sigma, level):
    expected = 1.7 * special.gamma(1 - sigma) * special.gammainc(1 - sigma, level)
    assert math.exp(log_mass_below(1.7, sigma, math.log(level))) == pytest.approx(expected, rel=1e-12)


def test_far_from_the_data_nothing_underflows():
    """The density far out is that of the nearest atoms, whatever the size of the kernel there."""
    data = nm.datasets.load_mcycle()
    fit = nm.fit("accel_g ~ times_ms", data, draws=20, tune=20, chains=1, rng=1)
    table = fit.predict(pd.DataFrame({"times_ms": [57.6, 150.0, 158.0, 1000.0]}), kind="density", at=[0.0])
    assert np.isfinite(table.to_numpy()).all() and (table["estimate"] > 0).all()
    with pytest.raises(ValueError, match="prior standard deviations out"):
        fit.predict(kind="density", at=[1e200])


def test_index_levels_are_kept():
    data = nm.datasets.load_mcycle().head(6)
    data.index = pd.MultiIndex.from_product([["a", "b"], [1, 2, 3]], names=["run", "step"])
    fit = nm.fit("accel_g ~ times_ms", data, family=nm.Gaussian(scale=1.0), draws=5, tune=5, chains=1, rng=1)
    assert fit.predict(kind="density", at=[0.0, 1.0]).index.names == ["run", "step", "y"]
    assert fit.predict().index.equals(data.index)
