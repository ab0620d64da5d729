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
from nrmmix.kernels.core.locations import draw_locations
from nrmmix.kernels.measure import auxiliary, nrm
from nrmmix.kernels.measure import increments as steps
from nrmmix.model.pack import arrays_of


@kernel
def step_at(address, data, state, rng):
    return call_step(address, data, state, rng)


@pytest.mark.parametrize("sigma", [0.0, 1e-7, 0.3, 0.9])
def test_increments_are_differences_of_the_sums(sigma):
    """By the series, and beyond it."""
    rng = np.random.default_rng(5)
    P, tau, v = 37, 0.7, 1.3
    K, rest, c, R0 = rng.random(P), rng.gamma(2.0, 5.0, P), rng.gamma(1.0, 30.0, P), rng.dirichlet(np.ones(P))
    q, base, weights, series = np.empty(P), np.empty(P), np.empty(P), np.empty((2, layout.ORDER))
    largest, slope = steps.relative_to_rest(q, base, K, rest + v * K, v, c, tau)
    np.testing.assert_allclose(base, rest, rtol=1e-14)
    np.testing.assert_allclose(q, K / (tau + rest), rtol=1e-14)
    assert largest == q.max()
    assert slope == pytest.approx(c @ q, rel=1e-14)
    steps.fill_weights(weights, R0, rest, sigma, tau)
    np.testing.assert_allclose(weights, R0 * (tau + rest) ** sigma, rtol=1e-13)
    steps.fill_series(series, c, q, weights, q, sigma)
    before = nrm.weighted_sums(tau + rest, K, 0.0, c, R0, sigma, tau)
    for z in (1e-9, 1e-3, 0.02, steps.NEAR, 1.001 * steps.NEAR, 0.5, 40.0):
        after = nrm.weighted_sums(tau + rest, K, z / largest, c, R0, sigma, tau)
        found = steps.increments(series, q, c, weights, z / largest, largest, sigma)
        np.testing.assert_allclose(found, np.subtract(after, before), rtol=1e-9, atol=1e-10)


def begun(prior, kernel, n=400, clusters=3):
    """Data and state of a small density regression."""
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 1, n)
    table = pd.DataFrame({"x": x, "y": x + rng.normal(size=n)})
    data, state = arrays_of(nm.Model("y ~ x", table, family=nm.Gaussian(), prior=prior, kernel=kernel), clusters)
    chain.start(data, state, (clusters * x).astype(np.int64))
    draw_locations(state, rng)
    return data, state


PRIORS = [nm.DirichletProcess(), nm.DirichletProcess(2.0), nm.NGGP(nm.Gamma(1, 1), 0.4), nm.NormalizedStable(0.5)]


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_a_proposal_of_the_gamma_law_leaves_the_conditional_of_v_as_it_is(prior):
    """The mean and variance of one V_g, given all others, beside quadrature; by the gamma law alone the mean is told from it."""
    data, state = begun(prior, nm.SquaredExponential(0.3), 300)
    P, c = len(state.A), state.plane[1]
    nrm.exponents(state, c)
    growth = nrm.total_growth(data, state, state.hyper[layout.SIGMA])
    q = state.K / (state.hyper[layout.TAU] + state.A - state.v[:, None] * state.K)
    small = np.array([auxiliary.share_if_small(data, state, g, 0, P) > 0 for g in range(len(state.v))])
    g = int(np.argmax(np.where(small, q**2 @ c / (q @ c) ** 2, 0)))  # where the law is the least like a gamma law
    assert small[g]
    rest = state.A - state.v[g] * state.K[g]
    mean, variance, alone = by_quadrature(data, state, g, rest)
    drawn = drawn_v(data, state, g, growth, 1_000_000, np.random.default_rng(7))
    error = math.sqrt(variance / len(drawn))
    # nearly all proposals are accepted, and do not depend on where they begin: draws are nearly independent
    assert drawn.mean() == pytest.approx(mean, abs=4.5 * error)
    assert drawn.var() == pytest.approx(variance, rel=4.5 * math.sqrt(8 / len(drawn)))
    assert abs(alone - mean) > 9 * error, (abs(alone - mean) / error)
    np.testing.assert_allclose(state.A, rest + state.v[g] * state.K[g], rtol=1e-9)


@pytest.mark.parametrize("kernel", [nm.SquaredExponential(0.3), nm.Epanechnikov(0.5)], ids=str)
def test_which_update_a_v_gets_does_not_depend_on_it(kernel):
    data, state = begun(nm.DirichletProcess(), kernel)
    nrm.exponents(state, state.plane[1])
    found = []
    for v in (1e-9, 1e-3, 1.0, 100.0, 1e5):
        state.v[7] = v
        nrm.recompute_A(state)
        found.append(auxiliary.share_if_small(data, state, 7, *state.band[7]))
    np.testing.assert_allclose(found, found[0], rtol=1e-9)
    assert found[0] > 0


@pytest.mark.parametrize("kernel", [nm.SquaredExponential(0.1), nm.Epanechnikov(0.3)], ids=str)
def test_sums_over_clusters_are_those_over_locations(kernel):
    """Of locations that no cluster has c is 0, and of those that the kernel does not reach the quotient."""
    data, state = begun(nm.NGGP(nm.Gamma(1, 1), 0.4), kernel, clusters=6)
    state.location[1] = state.location[0]
    c, sigma, K = state.plane[1], state.hyper[layout.SIGMA], int(state.num[layout.N_CLUSTERS])
    nrm.exponents(state, c)
    over_clusters, over_locations, beyond = np.empty((2, layout.ORDER)), np.empty((2, layout.ORDER)), 0
    for g in (0, 150, 399):
        first, last = state.band[g]
        auxiliary.share_if_small(data, state, g, first, last)
        q, weights = state.plane[2, first:last].copy(), np.ones(last - first)
        sizes, near = np.empty(K), np.empty(K)
        auxiliary.at_clusters(state, q, first, sizes, near)
        steps.fill_series(over_clusters, sizes, near, weights, q, sigma)
        steps.fill_series(over_locations, c[first:last], q, weights, q, sigma)
        np.testing.assert_allclose(over_clusters, over_locations, rtol=1e-12)
        assert auxiliary.MANY_LOCATIONS * K <= last - first and np.count_nonzero(c) < K
        beyond += np.count_nonzero((state.location[:K] < first) | (state.location[:K] >= last))
    assert (beyond > 0) == isinstance(kernel, nm.Epanechnikov)


@kernel
def many_updates(data, state, g, growth, rng, out):
    P = state.A.shape[0]
    for t in range(out.shape[0]):
        largest = auxiliary.share_if_small(data, state, g, 0, P)
        growth = auxiliary.update_nearly_gamma(data, state, g, 0, P, growth, largest, rng)
        out[t] = state.v[g]
    return growth


def drawn_v(data, state, g, growth, draws, rng):
    out = np.empty(draws)
    growth = many_updates(data, state, g, growth, rng, out)
    assert growth == pytest.approx(nrm.total_growth(data, state, state.hyper[layout.SIGMA]), rel=1e-9)
    return out


def by_quadrature(data, state, g, rest):
    """Mean and variance of V_g, and the mean of the law that is proposed."""
    sigma, tau, n, K = state.hyper[layout.SIGMA], state.hyper[layout.TAU], data.group_size[g], state.K[g]
    c = np.zeros(len(rest))
    nrm.exponents(state, c)

    def log_density(v):
        logs, growth = nrm.weighted_sums(tau + rest, K, v, c, data.R0, sigma, tau)
        return (n - 1) * math.log(v) - logs + nrm.mass_term(data, state, sigma, growth)

    assert n == 1
    scale = 1e-7 / (log_density(1e-7) - log_density(2e-7))
    v = np.linspace(1e-6, 60, 60_001) * scale
    logs = np.array([log_density(one) for one in v])
    p = np.exp(logs - logs.max())
    mean = (v * p).sum() / p.sum()
    return mean, ((v - mean) ** 2 * p).sum() / p.sum(), scale


@pytest.mark.parametrize("prior", PRIORS, ids=str)
@pytest.mark.parametrize("kernel", [nm.SquaredExponential(0.004), nm.Epanechnikov(0.01)], ids=str)
def test_the_update_of_v_by_parts_is_that_of_whole_sums(prior, kernel):
    """The same random numbers give the same v, but for rounding, whether a group's step is within its band or by all sums."""
    data, state = begun(prior, kernel, clusters=100)
    few, P = copy_of(state), len(state.A)
    nrm.exponents(state, state.plane[1])
    assert max(auxiliary.share_if_small(data, state, g, 0, P) for g in range(len(state.v))) == -1
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
            data.R0, 0.0, rng,
        )
        state.v[g] = math.exp(x)
