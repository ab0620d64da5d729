"""Stochastic steps of the kernel model: one of size 1 towards all rows is coordinate ascent; the mean of estimates is the bound."""

from copy import deepcopy

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, gammaln
from support.variational_regression import MODELS, begun, log_evidence, parts, random_start, simulated, toy

import nrmmix as nm
from nrmmix.inference.variational_regression import stochastic
from nrmmix.inference.variational_regression.climb import Climb
from nrmmix.inference.variational_regression.memory import Memory
from nrmmix.inference.variational_regression.stochastic import Descent, Passing
from nrmmix.model.priors.hyperpriors import log_density_of_log


def descent_of(climb, batches=1, kappa=0.6, delay=1.0):
    memory = Passing(climb.memory.rows, batches)
    return Descent(memory, climb.factors, np.random.default_rng(1), deepcopy(climb.total), kappa, delay)


@pytest.mark.parametrize("which", MODELS)
def test_a_whole_step_is_one_of_coordinate_ascent(which):
    climb = begun(MODELS[which](simulated(200)))
    descent, moved = descent_of(climb), 0
    for _ in range(3):  # in each of the first three passes all that can move moves
        climb.run(len(climb.passes) + 1, 0.0)
        descent.step(0, 1.0)
        moved += descent.turn()
        assert np.array_equal(climb.factors.codes, descent.factors.codes)
        for name in ("N", "s", "A"):
            one, other = getattr(climb.factors, name), getattr(descent.factors, name)
            np.testing.assert_allclose(other, one, rtol=1e-8, atol=1e-8 * np.abs(one).max())
        assert descent.bound() == pytest.approx(climb.bound(), rel=1e-9)
    assert moved > 10 or which != "products"


def of_weights(now, N, A):
    """E log density of weights and mass and of what rows with sums N, A say of them, less E log q: gamma laws at the nodes of the mass."""
    total, weights = 0.0, now.weights
    for value, share in zip(weights.nodes, weights.shares, strict=True):
        each = value / len(now.N)
        law = stats.gamma(each + now.N, scale=1 / weights.rates)
        expected_log = digamma(each + now.N) - np.log(weights.rates)
        prior = ((each - 1) * expected_log - law.mean() - gammaln(each)).sum()
        total += share * (prior + law.entropy().sum() + N @ expected_log - A @ law.mean())
    if len(weights.nodes) > 1:
        u, step, p = np.log(weights.nodes), np.log(weights.nodes[1] / weights.nodes[0]), weights.shares
        total += (p * (log_density_of_log(weights.mass, u) - np.log(np.maximum(p, 1e-300) / step))).sum()
    return total


@pytest.mark.parametrize("mass", [2.0, nm.Gamma(2, 1)], ids=["fixed", "sampled"])
@pytest.mark.parametrize("batches", [1, 5])
def test_estimates_of_steps_have_the_bound_as_their_mean(batches, mass):
    """At factors that are not the best for what rows now say, whose bound is by other means."""
    climb = begun(nm.Model("y ~ x + t", simulated(200), prior=nm.DirichletProcess(mass)))
    climb.run(3, 0.0)
    now, descent = climb.factors, descent_of(climb, batches)
    estimates = [descent.step(b, 0.0) for b in range(batches)]  # steps of size 0: all of the same factors
    best = deepcopy(climb)
    best.begin()
    found, A = best.total, best.factors.A
    a = now.weights.expected_log - now.const
    form = now.exponential
    of_parameters = form.log_z(now.N, now.s).sum() + form.log_prior - (found.N - now.N) @ a + np.sum((found.s - now.s) * now.eta)
    of_rows = found.entropy + found.log_v + found.n + float((found.H * now.log_k).sum()) + found.log_h
    exact = of_parameters + of_weights(now, found.N, A) + now.binned.log_prior(now.codes) + of_rows
    assert np.mean(estimates) == pytest.approx(exact, rel=1e-9)
    assert climb.bound() < np.mean(estimates) < best.bound() - 1e-3  # r and v are better than before, the others not yet


@pytest.mark.nightly
def test_steps_of_batches_end_near_the_optimum_and_below_the_evidence():
    model = toy(2, 1.0)
    binned, rows = parts(model)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        start = random_start(model, binned, rows, rng)
        climb = Climb(Memory(rows), start, rng, search=False)
        climb.begin()
        descent = Descent(Passing(rows, 2), climb.factors, rng, climb.total, 0.6, 1.0)
        descent.run(80, 0.0)
        gap = log_evidence(model, binned, rows, descent.factors.exponential) - descent.bound()
        assert 0 < gap < 12


def test_rates_are_the_same_by_all_covariates():
    climb = begun(MODELS["products"](simulated()), 5)
    descent = descent_of(climb, 5)
    for t in range(1, 40):
        descent.step(t % 5, t**-0.6)
        if descent.left <= stochastic.HALF:
            descent.turn()
        rates = (descent.total.G * np.exp(descent.factors.log_k)).sum(axis=1)
        np.testing.assert_allclose(rates, np.broadcast_to(descent.factors.A, rates.shape), rtol=1e-9)


def test_the_bound_of_the_result_is_exact():
    climb = begun(MODELS["products"](simulated()), 6)
    before, descent = climb.bound(), descent_of(climb, 6)
    descent.run(20, 0.0)
    again = Climb(Memory(climb.memory.rows), descent.factors, np.random.default_rng(1), search=False)
    again.begin()
    assert before + 50 < descent.bound() <= again.bound() < descent.bound() + 20  # a step of coordinate ascent on it
    assert descent.total.N.sum() == pytest.approx(300)


def test_no_code_moves_before_half_of_the_sums_is_new():
    climb = begun(MODELS["products"](simulated()), 5)
    descent, seen = descent_of(climb, 5, kappa=1.0, delay=20.0), []
    codes = descent.factors.codes
    for t in range(1, 15):
        descent.step(t % 5, (t + 20.0) ** -1.0)
        seen.append(descent.left)
        assert np.array_equal(codes, descent.factors.codes)
    np.testing.assert_allclose(seen[-1], np.prod([1 - 1 / (t + 20.0) for t in range(1, 15)]))
