"""Masses of the random measure: tempered stable variables by their Laplace transform."""

from __future__ import annotations

import numpy as np
import pytest
from support.cover import each_once

from nrmmix.kernels.measure import masses


@pytest.mark.parametrize(("c", "sigma"), each_once([0.01, 1.0, 1.5, 2.5, 30.0, 3000.0, 1e13], [0.1, 0.5, 0.9]))
def test_tempered_stable_variables_have_their_laplace_transform(sigma, c):
    rng = np.random.default_rng(1)
    x = np.array([masses.draw_tempered_stable(c, sigma, rng) for _ in range(10_000)])
    for s in np.array([0.3, 1.0, 5.0]) / max(1.0, c):
        value = np.exp(-s * x)
        error = value.std() / np.sqrt(len(x))
        assert abs(value.mean() - np.exp(-c * np.expm1(sigma * np.log1p(s)))) < 4.5 * error


@pytest.mark.parametrize("c", [0.01, 1.5, 1e3])
def test_variables_of_a_tiny_sigma_are_finite(c):
    """E exp(-X) = exp(-c (2^sigma - 1)), by which few of them are not next to nothing."""
    rng = np.random.default_rng(1)
    x = np.array([masses.draw_tempered_stable(c, 1e-4, rng) for _ in range(2_000)])
    assert np.isfinite(x).all() and (x >= 0).all()
    assert abs(np.exp(-x).mean() - np.exp(-c * np.expm1(1e-4 * np.log(2)))) < 0.01
