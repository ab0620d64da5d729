"""Covariate kernels against their formulas."""


import naive
import numpy as np
import pandas as pd
import pytest
from support.models import regression
from support.states import problem_of, started

import nrmmix as nm


@pytest.mark.parametrize("q", [1, 2, 3])
def test_covariate_kernels(q):
    width = np.array([0.4, 0.15, 2.0])[:q]
    for kernel, reference in ((nm.SquaredExponential, naive.squared_exponential), (nm.Box, naive.box)):
        model = regression(25, kernel(list(width)), q=q, values=12)
        data, state = started(model, np.zeros(25, int) - 1)
        problem = problem_of(model, data)
        np.testing.assert_array_equal(data.group, problem.group)
        wanted = reference(problem.x, problem.mu, width)
        np.testing.assert_allclose(state.K, wanted, rtol=1e-13)
        np.testing.assert_allclose(np.exp(state.ratio[0] * state.log_K), wanted, rtol=1e-13)
        np.testing.assert_allclose(state.A, state.v @ wanted, rtol=1e-13)


def test_squared_exponential_does_not_underflow_in_logs():
    model = regression(6, nm.SquaredExponential(0.001), values=2)
    data, state = started(model, np.full(6, -1))
    np.testing.assert_allclose(state.ratio[0] * state.log_K, -0.5 * (data.distance[0] / 0.001) ** 2, rtol=1e-14)
    assert (state.K[data.distance[0] > 0.1] == 0.0).all()


def test_box_is_open_at_its_edge():
    table = pd.DataFrame({"x": [0.0, 0.1, 0.3, 0.6], "y": [0.0, 1.0, 2.0, 3.0]})
    model = nm.Model("y ~ x", table, kernel=nm.Box(0.3, scale=None))  # 0.6 - 0.3 and 0.3 - 0.0 are the width, up to rounding
    _, state = started(model, np.full(4, -1))
    np.testing.assert_array_equal(state.K, [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]])
