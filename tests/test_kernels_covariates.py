"""Covariate kernels against their formulas."""


import naive
import numba
import numpy as np
import pandas as pd
import pytest
from support.models import regression
from support.states import problem_of, started

import nrmmix as nm
from nrmmix.kernels.core import locations
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.measure.nrm import set_kernel


@numba.njit
def log_K(data, state, g, p):
    return locations.log_K_at(data, state, g, p)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_covariate_kernels(q):
    width = np.array([0.4, 0.15, 2.0])[:q]
    for kernel, reference in ((nm.SquaredExponential, naive.squared_exponential), (nm.Box, naive.box)):
        model = regression(25, kernel(list(width)), q=q, values=12)
        data, state = started(model, np.zeros(25, int) - 1)
        problem = problem_of(model, data)
        np.testing.assert_array_equal(data.group, problem.group)
        wanted = reference(problem.x, problem.mu, width)
        np.testing.assert_allclose(state.cache.K, wanted, rtol=1e-13)
        np.testing.assert_allclose(np.exp(np.tensordot(state.cache.ratio, state.cache.log_K, 1)), wanted, rtol=1e-13)
        np.testing.assert_allclose(state.cache.A, state.v @ wanted, rtol=1e-13)


def test_squared_exponential_does_not_underflow_in_logs():
    model = regression(6, nm.SquaredExponential(0.001), values=2)
    data, state = started(model, np.full(6, -1))
    np.testing.assert_allclose(state.cache.ratio[0] * state.cache.log_K[0], -0.5 * (data.distance[0] / 0.001) ** 2, rtol=1e-14)
    assert (state.cache.K[data.distance[0] > 0.1] == 0.0).all()


def test_box_is_open_at_its_edge():
    table = pd.DataFrame({"x": [0.0, 0.1, 0.3, 0.6], "y": [0.0, 1.0, 2.0, 3.0]})
    model = nm.Model("y ~ x", table, kernel=nm.Box(0.3, scale=None))  # 0.6 - 0.3 and 0.3 - 0.0 are the width, up to rounding
    _, state = started(model, np.full(4, -1))
    np.testing.assert_array_equal(state.cache.K, [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]])


@pytest.mark.parametrize(("kernel", "value"), [
    (nm.Box, lambda z: 1.0 * (z < 1)), (nm.Epanechnikov, lambda z: np.clip(1 - z**2, 0, None)),
    (nm.Triangular, lambda z: np.clip(1 - z, 0, None)),
], ids=["Box", "Epanechnikov", "Triangular"])
def test_kernels_that_end_at_their_width(kernel, value):
    """Eight locations at a time that are all out of reach, some of which are, and those at the end of a row."""
    x = np.linspace(0.0, 1.0, 43)
    model = nm.Model("y ~ x", pd.DataFrame({"x": x, "y": np.cos(9 * x)}), kernel=kernel(nm.LogNormal(-1, 1)))
    data, state = started(model, np.full(43, -1))
    for width in (0.01, 0.03, 0.2, 0.55, 3.0):
        state.hyper[layout.Hyper.WIDTH] = width
        set_kernel(data, state)
        wanted = value(data.distance[0] / width)
        np.testing.assert_allclose(state.cache.K, wanted, rtol=1e-12, atol=1e-14)
        for row, (first, last) in zip(wanted, state.cache.band, strict=True):
            assert (first, last) == (np.flatnonzero(row)[0], np.flatnonzero(row)[-1] + 1)


WIDE = nm.LogNormal(-1, 0.5)
KERNELS = {
    "one": (nm.SquaredExponential(WIDE), 1, True), "one shared": (nm.Laplace(WIDE), 3, True),
    "each": (nm.SquaredExponential([WIDE, WIDE, WIDE]), 3, True), "one fixed": (nm.SquaredExponential([WIDE, 0.3, WIDE]), 3, True),
    "fixed": (nm.Box([0.6, 0.8, 0.9]), 3, True),
    "product": (nm.Product({"x0": nm.Laplace(WIDE), "x1": nm.Box(0.9), "x2": nm.SquaredExponential(WIDE)}), 3, True),
    "atoms": (nm.Product({"x0": nm.Laplace(nm.PerAtom([0.2, 0.5])), "x1": nm.SquaredExponential(0.4)}), 2, True),
    "form": (nm.Triangular(WIDE), 2, False), "a form": (nm.Product({"x0": nm.Box(WIDE), "x1": nm.SquaredExponential(WIDE)}), 2, False),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_at_any_widths_and_what_a_chain_keeps_of_it(name):
    """One matrix of groups by locations; others are shared by all chains."""
    kernel, q, scales = KERNELS[name]
    model = regression(25, kernel, q=q, values=12)
    data, state = started(model, np.full(25, -1))
    _, other = started(model, np.full(25, -1))
    G, P = state.cache.K.shape
    pairs = zip(state.cache, other.cache, strict=True)
    own = [array for array, same in pairs if array is not same and array.size and array.shape[-2:] == (G, P)]
    assert len(own) == 1 and len(state.cache.log_K) == len(model.scales) and bool(model.scales) == scales
    for factor in (1.0, 0.8, 1.7):
        widths = model.start_widths() * factor
        widths = np.where([isinstance(width, float) for width in model.widths], model.start_widths(), widths)
        state.hyper[layout.Hyper.WIDTH :] = widths
        set_kernel(data, state)
        wanted = model.log_kernel(data.distance, widths)
        np.testing.assert_allclose(state.cache.K, np.exp(wanted), rtol=1e-12)
        found = np.array([[log_K(data, state, g, p) for p in range(P)] for g in range(G)])
        np.testing.assert_allclose(found, np.where(np.isfinite(wanted), wanted, layout.OUT_OF_REACH), rtol=1e-12, atol=1e-14)
        rows = np.zeros((G, P))
        for g in range(G):
            locations.add_log_K(data, state, g, 1.0, rows[g])
        np.testing.assert_allclose(rows, found, rtol=1e-14)


def test_a_chance_of_another_category_scales_too():
    table = pd.DataFrame({"group": list("aabbccab"), "x": np.arange(8.0), "y": np.arange(8.0)})
    model = nm.Model("y ~ x + group", table, kernel=nm.Product({"x": nm.SquaredExponential(WIDE), "group": nm.Matching(nm.Beta(1, 2))}))
    data, state = started(model, np.full(8, -1))
    assert state.cache.log_K.shape[0] == 2 and state.cache.log_K is model.log_kernels
    for rho in (0.9, 0.02):
        state.hyper[layout.Hyper.WIDTH :] = 0.3, rho
        set_kernel(data, state)
        np.testing.assert_allclose(state.cache.K, np.exp(model.log_kernel(data.distance, np.array([0.3, rho]))), rtol=1e-12)
