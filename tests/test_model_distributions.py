"""Distributions of responses against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from nrmmix.model.families.distributions import NODES, StudentT, spread_out


@pytest.mark.parametrize("rows", [1, 5])
def test_the_table_of_t_distribution_functions(rows):
    """Few points are looked up by incomplete beta functions, many in a table."""
    rng = np.random.default_rng(rows)
    df = np.array([0.5, 1.0, 3.7, 30.0, 1e4])
    centre, spread = rng.normal(size=(rows, 5)), rng.uniform(0.5, 2.0, (rows, 5))
    t = spread_out(StudentT(centre, spread, df[None]))
    tails = 10.0 ** rng.uniform(0, 12, 500) * rng.choice([-1.0, 1.0], 500)
    x = np.concatenate([rng.normal(0, 5, 2 * NODES), tails])[:, None]
    many = t.cdf(x)
    assert many.shape == (rows, len(x), 5)
    np.testing.assert_allclose(many, stats.t.cdf((x - centre[:, None]) / spread[:, None], df), rtol=0, atol=1e-8)
    np.testing.assert_array_equal(t.cdf(x[:7]), stats.t.cdf((x[:7] - centre[:, None]) / spread[:, None], df))
    np.testing.assert_allclose(t.cdf(t.quantile(x[:9] ** 0 * 0.3)), 0.3, atol=1e-9)
