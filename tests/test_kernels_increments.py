"""The update of v by parts of sums: by series, and within bands."""

import math

import numpy as np
import pandas as pd
import pytest
from support.states import copy_of

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import call_step
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.measure import auxiliary, nrm
from nrmmix.kernels.measure import increments as steps
from nrmmix.model.pack import arrays_of


@kernel
def step_at(address, data, state, rng):
    return call_step(address, data, state, rng)


@pytest.mark.parametrize("sigma", [0.0, 1e-7, 0.3, 0.9])
def test_increments_are_differences_of_the_sums(sigma):
    """By the series, beyond it, and for a change that takes V_g away."""
    rng = np.random.default_rng(5)
    P, tau = 37, 0.7
    K, A, c, R0 = rng.random(P), rng.gamma(2.0, 5.0, P), rng.gamma(1.0, 30.0, P), rng.dirichlet(np.ones(P))
    q, weights, series = np.empty(P), np.empty(P), np.empty((2, layout.ORDER))
    largest = steps.relative_to(q, K, A, tau)
    np.testing.assert_allclose(q, K / (tau + A), rtol=1e-14)
    assert largest == q.max()
    steps.fill_weights(weights, R0, A, sigma, tau)
    np.testing.assert_allclose(weights, R0 * (tau + A) ** sigma, rtol=1e-13)
    steps.fill_series(series, q, c, weights, sigma)
    before = nrm.weighted_sums(tau + A, K, 0.0, c, R0, sigma, tau)
    for z in (-0.999 * (A / K).min() * largest, -steps.NEAR, -1e-3, 1e-9, 0.02, steps.NEAR, 1.001 * steps.NEAR, 0.5, 40.0):
        after = nrm.weighted_sums(tau + A, K, z / largest, c, R0, sigma, tau)
        found = steps.increments(series, q, c, weights, z / largest, largest, sigma)
        np.testing.assert_allclose(found, np.subtract(after, before), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("prior", [nm.DirichletProcess(), nm.NGGP(nm.Gamma(1, 1), 0.4), nm.NormalizedStable(0.5)], ids=str)
@pytest.mark.parametrize("kernel", [nm.SquaredExponential(0.1), nm.Epanechnikov(0.3)], ids=str)
def test_the_update_of_v_by_parts_is_that_of_whole_sums(prior, kernel):
    """The same random numbers give the same v, but for rounding, whether a group's step is by a series, within its band or by all sums."""
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 1, 400)
    model = nm.Model("y ~ x", pd.DataFrame({"x": x, "y": x + rng.normal(size=400)}), family=nm.Gaussian(), prior=prior, kernel=kernel)
    data, state = arrays_of(model, 8)
    chain.start(data, state, (3 * x).astype(np.int64))
    few = copy_of(state)
    shares = state.v * (state.K / (state.hyper[layout.TAU] + state.A)).max(axis=1)
    assert (shares < auxiliary.SMALL).sum() > 20
    assert step_at(auxiliary.update_v.address, data, state, np.random.default_rng(3)) == layout.DONE
    by_whole_sums(data, few, np.random.default_rng(3))
    np.testing.assert_allclose(state.v, few.v, rtol=1e-6)
    np.testing.assert_allclose(state.A, state.v @ state.K, rtol=1e-12)


def by_whole_sums(data, state, rng):
    """`update_v` in Python, each group's step by sums over all locations."""
    c = np.zeros(len(state.A))
    nrm.exponents(state, c)
    for g in range(len(state.v)):
        rest = state.hyper[layout.TAU] + np.delete(state.v, g) @ np.delete(state.K, g, axis=0)
        x = auxiliary.slice_v(
            data, state, data.group_size[g], math.log(state.v[g]), -layout.LOG_V_MAX, layout.LOG_V_MAX, rest, state.K[g].copy(), c,
            data.R0, 0.0, 0.0, 0.0, rng,
        )
        state.v[g] = math.exp(x)
