"""Distributions of responses against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from nrmmix.model.families.distributions import NODES, Normal, StudentT, spread_out


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


@pytest.mark.parametrize("seed", range(4))
def test_mixtures_are_added_up_and_solved_for(seed):
    """Of t distributions, as the product of weights and values; of normals and one t distribution, as the distribution function says."""
    rng = np.random.default_rng(seed)
    I, C, k = 3, 5, 6
    given, weight = rng.integers(0, I, C), rng.dirichlet(np.full(k + 1, 0.2), C)
    df = np.array([0.5, 1.0, 2.5, 7.0, 40.0, 1e4])
    t = StudentT(rng.normal(0, 3, (I, k)), rng.uniform(0.01, 2.0, (I, k)), df[None])
    points = np.sort(np.hstack([rng.normal(0, 5, (I, 40)), 10.0 ** rng.uniform(0, 10, (I, 8)) * rng.choice([-1.0, 1.0], (I, 8))]), axis=1)
    values = stats.t.cdf((points[:, :, None] - t.centre[:, None]) / t.spread[:, None], df)
    np.testing.assert_allclose(t.mixed_cdf(points, weight[:, :k], given), np.einsum("ck,cjk->cj", weight[:, :k], values[given]), atol=1e-8)
    assert np.isnan(t.mixed_cdf(np.full((I, 1), np.nan), weight[:, :k], given)).all()
    # the first column is a t distribution, which may have no weight; the others are normal
    weight[0], weight[1] = np.eye(k + 1)[2], np.eye(k + 1)[0]
    weight[2, 0] = 0.0
    weight[2] /= weight[2].sum()
    normal, new = Normal(t.centre, t.spread), StudentT(rng.normal(size=(1, 1)), np.array([[3.0]]), np.array([[2.0]]))
    q = np.array([1e-6, 0.05, 0.5, 0.9, 1 - 1e-5])
    found = normal.mixture_quantiles(q, weight[:, 1:].copy(), weight[:, 0].copy(), new, I, given)
    for c, i in enumerate(given):
        own = weight[c, 1:] @ stats.norm.cdf((found[c] - t.centre[i][:, None]) / t.spread[i][:, None])
        own += weight[c, 0] * stats.t.cdf((found[c] - new.centre[0, 0]) / 3.0, 2.0)
        np.testing.assert_allclose(own, q, atol=3e-8)
    np.testing.assert_allclose(found[0], normal.quantile(q[:, None, None])[:, given[0], 1], atol=1e-5)
