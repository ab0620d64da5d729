"""Predictions under Pitman-Yor, normalised stable and finite measures, and what these say before data, against enumeration."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import (
    normalised,
    partition_posterior,
    partitions,
    total_variation,
)
from exact.hyperparameters import HYPER_OF_PARTITIONS as HYPER
from exact.hyperparameters import mass_nodes, sigma_nodes
from exact.priors import (
    DESIGNS,
    FAMILY,
    MEASURES,
    POINTS,
    PRIORS,
    SPREAD,
    Y,
    clusters_of,
    kernel_matrix,
    mixture,
    of_measure,
    possible,
    regression,
    setting,
    with_likelihood,
)
from scipy.special import logsumexp
from support.cover import by_turns, each_once, only
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.kernels.core.state import Block
from nrmmix.kernels.predictive import draw_measure
from nrmmix.model.pack import provide
from nrmmix.model.prior_predictive import simulate_partitions
from nrmmix.posterior.predict.rows import CovariateWeights, prediction_rows
from nrmmix.posterior.predict.states import states_of

# ---- predictions


@pytest.mark.parametrize("prior", [name for name in PRIORS if name != "PY-as-NGGP"])
def test_predictive_weights_are_ratios_of_probabilities(prior):
    measure, log_eppf = PRIORS[prior]
    fit = mixture(measure).fit(draws=15, tune=20, chains=2, rng=2)
    states, covariates = states_of(fit.posterior, None), CovariateWeights(fit.model, prediction_rows(fit.model, None))
    for state, labels in zip(states, states.partitions(), strict=True):
        sizes = np.bincount(labels).tolist()
        longer = [[*sizes[:k], sizes[k] + 1, *sizes[k + 1 :]] for k in range(len(sizes))] + [[*sizes, 1]]
        wanted = np.exp([log_eppf(s) - log_eppf(sizes) for s in longer])
        np.testing.assert_allclose(state.weights(covariates)[0], wanted, atol=1e-8)


def by_chain(fit, evaluate):
    out = []
    for c in range(fit.draws.n_chains):
        one = nm.MCMCResult.__new__(nm.MCMCResult)
        one.__dict__ = dict(fit.__dict__)
        one.draws = type(fit.draws)({name: values[c : c + 1].copy() for name, values in fit.draws.items()})
        out.append(evaluate(one))
    return np.array(out)


def close(values, exact):
    error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    assert (error < coarser(0.03) * exact).all(), "too few draws to tell"
    assert (np.abs(values.mean(axis=0) - exact) < 5 * error).all()


@pytest.mark.parametrize(("x_new", "measure"), by_turns(each_once([0.0, 0.6], MEASURES), 4))
def test_regression_density(measure, x_new):
    """Ratios of evidences, at a covariate of the training data and at another: one group more."""
    x, locations = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0])
    kernel = nm.SquaredExponential(0.6, locations=locations)

    def evidence(values, y):
        groups, group = np.unique(values, return_inverse=True)
        grid = SPREAD.get(measure, {"points": 161}) if len(groups) == 2 else {"points": 81}
        if measure == "stable" and len(groups) == 3:
            grid = {"points": 101, "lo": -50.0, "hi": 50.0}
        law = of_measure(kernel_matrix(kernel, groups, locations), group, **grid)[measure][1]()
        return [logsumexp(list(with_likelihood(law, len(values), each).values())) for each in y]

    prior = of_measure(np.ones((2, 1)), [0, 1])[measure][0]
    exact = np.exp(np.array(evidence(np.append(x, x_new), [np.append(Y[:3], y) for y in POINTS])) - evidence(x, [Y[:3]])[0])
    fit = regression(pd.DataFrame({"x": x, "y": Y[:3]}), kernel, prior).fit(draws=by_day(300), tune=300, thin=6, chains=16, rng=2)
    rows = pd.DataFrame({"x": x_new, "y": POINTS})
    close(by_chain(fit, lambda one: np.exp(one.log_density(rows))), exact)


@pytest.mark.parametrize("kernel", [None, nm.SquaredExponential(0.05), nm.Box(0.2)])
@pytest.mark.parametrize("prior", [nm.PitmanYor(), nm.NormalizedStable(), nm.FiniteMixture(5), nm.FiniteMixture(200, nm.Gamma(1, 1))])
def test_weights_sum_to_one_in_every_draw(kernel, prior):
    data = nm.datasets.load_mcycle()
    fit = nm.fit("accel_g ~ 1" if kernel is None else "accel_g ~ times_ms", data, prior=prior, kernel=kernel,
                 family=nm.Gaussian(), draws=10, tune=50, chains=2, rng=1)
    new = None if kernel is None else pd.DataFrame({"times_ms": [2.4, 20.0, 33.3, 57.6]})
    covariates = CovariateWeights(fit.model, prediction_rows(fit.model, new))
    for state in states_of(fit.posterior, None):
        weights = state.weights(covariates)
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-6)
        if state.n_components - 1 == prior.components:
            assert (weights[:, -1] == 0).all()


@pytest.mark.parametrize("prior", by_turns([
    "PY-0.2", "PY-0.6", "PY-negative", "PY-zero", "PY-Dirichlet", "stable", "finite-2", "finite-4", "finite-9",
]))
def test_measure_has_the_predictive_weights_as_its_mean(prior):
    """Given a partition normalised weights do not depend on u, and their means are the predictive weights."""
    measure, _ = PRIORS[prior]
    fit = mixture(measure).fit(init=[0, 0, 1, 1, 1, 0], draws=1, tune=0, chains=1, rng=1)
    (state,) = states_of(fit.posterior, None)
    covariates, K = CovariateWeights(fit.model, prediction_rows(fit.model, None)), state.n_components - 1
    provide(fit.model, state.data.block, (Block.SAMPLE,))
    rng, shares = np.random.default_rng(1), np.zeros((by_day(20_000), K))
    for t in range(len(shares)):
        log_weight, _, _, log_rest = draw_measure(state.data, state.state, fit.model.packed.n_theta, rng)
        weight = np.exp(log_weight)
        shares[t] = weight[:K] / (weight.sum() + np.exp(log_rest).sum())
    wanted = state.weights(covariates)[0, :K]
    error = shares.std(axis=0, ddof=1) / math.sqrt(len(shares))
    # where all components are occupied, and the shares of two sum to 1, the error is that of one of them
    assert (np.abs(shares.mean(axis=0) - wanted) < 4.5 * error).all()
    assert (error < coarser(0.015) * wanted).all(), "too few draws to tell"


@pytest.mark.parametrize(("with_kernel", "measure"), by_turns(each_once([False, True], ["PY", "stable", "finite-3"]), 2, 1))
def test_random_measure_has_the_estimate_as_its_mean(measure, with_kernel):
    """Averages over draws of the random measure given one recorded state of u or v, over many states."""
    prior = of_measure(np.ones((2, 1)), [0, 1])[measure][0]
    data = pd.DataFrame({"x": [0.0, 0.0, 1.0, 1.0, 0.5], "y": Y[:5]})
    kernel = nm.SquaredExponential(0.6, locations=[0.0, 1.0]) if with_kernel else None
    model = nm.Model("y ~ x" if with_kernel else "y ~ 1", data, prior=prior, kernel=kernel, family=nm.Gaussian(**FAMILY))
    fit = model.fit(draws=by_day(800), tune=300, thin=5, chains=4, rng=3)
    new = pd.DataFrame({"x": [0.2]})
    table = fit.predict(new, kind="mean", draws=4 * by_day(800), interval=0.9)
    states, covariates = states_of(fit.posterior, None), CovariateWeights(model, prediction_rows(model, new))
    points, sampled = states.points(None, np.zeros((1, 0))), []
    for state, seed in zip(states, np.random.SeedSequence(5).spawn(len(states)), strict=True):
        atoms = state.measure(seed)
        values = model.family.means(atoms.means(points)[0])
        share, rest = atoms.shares(covariates)
        sampled.append(float((share @ values)[0, 0] + rest[0] * FAMILY["m"][0]))
    sampled = np.array(sampled).reshape(8, -1)
    error = sampled.mean(axis=1).std(ddof=1) / math.sqrt(8)
    assert abs(sampled.mean() - float(table["estimate"].iloc[0])) < 4 * error + 0.002
    np.testing.assert_allclose(np.quantile(sampled, [0.05, 0.95]), table[["lower", "upper"]].iloc[0], atol=coarser(0.08))


@pytest.mark.nightly
def test_pitman_yor_predicts_as_the_generalised_gamma_process_with_a_gamma_mass():
    theta, sigma = 0.8, 0.5
    densities = [
        by_chain(
            mixture(prior).fit(draws=by_day(250), tune=200, thin=6, chains=16, rng=seed),
            lambda one: np.exp(one.log_density(POINTS[:, None])),
        )
        for seed, prior in ((1, nm.PitmanYor(theta, sigma)), (2, nm.NGGP(nm.Gamma(theta / sigma, 1 / sigma), sigma)))
    ]
    means = [values.mean(axis=0) for values in densities]
    error = np.sqrt(sum(values.var(axis=0, ddof=1) / len(values) for values in densities))
    assert (np.abs(means[0] - means[1]) < 4.5 * error).all()
    assert (error < coarser(0.03) * means[0]).all(), "too few draws to tell"


# ---- what the prior says


@pytest.mark.parametrize("prior", [*(name for name in PRIORS if "NGGP" not in name), *HYPER])
def test_prior_law_of_the_number_of_clusters(prior):
    n = 7
    if prior in PRIORS:
        measure, log_eppf = PRIORS[prior]
        nodes = [(1.0, log_eppf)]
    else:
        measure, mass_prior, sigma_prior, general = HYPER[prior]
        nodes = [
            (w * ws, lambda s, mass=mass, sigma=sigma: general(s, mass, sigma))
            for mass, w in mass_nodes(mass_prior) for sigma, ws in sigma_nodes(sigma_prior, 20)
        ]
    count = Counter(tuple(sorted(map(len, clusters_of(labels)))) for labels in partitions(n))
    law = np.zeros(n)
    for weight, log_eppf in nodes:
        for sizes, times in count.items():
            law[len(sizes) - 1] += weight * times * math.exp(log_eppf(sizes))
    found = mixture(measure, n).prior_n_clusters()
    np.testing.assert_allclose(found, law[: len(found)], atol=2e-6)
    assert law[len(found) :].sum() < 2e-9 and found.sum() == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("prior", [nm.PitmanYor(), nm.PitmanYor(nm.Gamma(0.05, 0.05), 0.5), nm.FiniteMixture(30, nm.Gamma(50, 1)),
                                   nm.NormalizedStable(), nm.FiniteMixture(10**6, 2.0), nm.PitmanYor(5e11, 0.1)])
def test_laws_of_many_rows_sum_to_one(prior):
    model = nm.Model(data=np.random.default_rng(0).normal(size=(400, 1)), prior=prior)
    assert model.prior_n_clusters().sum() == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("prior", by_turns(["PY-0.6", "PY-negative", "stable", "finite-4"]))
def test_partitions_from_the_prior(prior):
    measure, log_eppf = PRIORS[prior]
    drawn = np.array([labels for labels, _, _ in simulate_partitions(mixture(measure, 5), 16_000, np.random.SeedSequence(3))])
    exact = possible(partition_posterior(5, log_eppf, lambda block: 0.0))
    distance, limit = total_variation(exact, drawn.reshape(16, -1, 5))
    assert limit < coarser(0.04), "too few draws to tell"
    assert distance < limit


@pytest.mark.parametrize(("design", "measure"), only(each_once(DESIGNS, MEASURES), ("se", "PY")))
def test_partitions_and_locations_from_the_prior(design, measure):
    data, K, group, kernel = setting(design)
    prior, law = of_measure(K, group, **SPREAD.get(measure, {"points": 161}))[measure]
    exact = law()
    if "finite" not in measure:  # a finite measure may have no atom in reach of a row
        assert logsumexp(list(exact.values())) == pytest.approx(0.0, abs=1e-4)
    model = regression(data, kernel, prior)
    drawn = np.array([
        np.concatenate([labels, where[labels]]) for labels, where, _ in simulate_partitions(model, 16_000, np.random.SeedSequence(4))
    ])
    distance, limit = total_variation(normalised(list(exact), list(exact.values())), drawn.reshape(16, -1, 8))
    assert limit < coarser(0.06), "too few draws to tell"
    assert distance < limit
