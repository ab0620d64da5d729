"""Every covariate kernel, widths of atoms, weights of locations, categories and products against quadrature over v, with own formulas."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import KernelJoint, gaussian_log_marginal, location_posterior, total_variation
from support.cover import by_turns, only
from support.length import by_day, coarser

import nrmmix as nm

CHAINS, DRAWS = 8, by_day(5_000)
FAMILY = {"m": np.array([0.0]), "r": 0.4, "nu": 3.0, "scale": np.array([[0.6]])}
Y = np.array([-0.6, 0.5, 0.7, -1.2])
X = np.array([0.0, 0.0, 1.0, 1.0])
PLACES = [0.1, 0.8]

SHAPES = {
    "SquaredExponential": lambda d, w: np.exp(-(d**2) / (2 * w**2)),
    "Laplace": lambda d, w: np.exp(-d / w),
    "Box": lambda d, w: (d < w).astype(float),
    "Epanechnikov": lambda d, w: np.clip(1 - d**2 / w**2, 0, None),
    "Triangular": lambda d, w: np.clip(1 - d / w, 0, None),
}


def log_marginal(block):
    return log_marginal_of(*block)


@cache
def log_marginal_of(*block):
    return gaussian_log_marginal(Y[list(block)][:, None], **FAMILY)


def check(kernel, K, group, sigma, table, formula, R0=None, draws=DRAWS):
    prior = nm.DirichletProcess(1.3) if sigma == 0 else nm.NGGP(1.3, sigma)
    model = nm.Model(formula, table, kernel=kernel, prior=prior, family=nm.Gaussian(**FAMILY))
    fit = model.fit("gibbs", draws=draws, tune=500, chains=CHAINS, rng=3)
    np.testing.assert_allclose(np.exp(model.log_kernel(model.grid.distance, model.start_widths())), K, atol=1e-12)
    points = 201 if len(K) == 2 else 61  # a cube of them for three groups; the law is the same to 1e-4
    exact = location_posterior(KernelJoint(K, group, 1.3, sigma, points, R0=R0), log_marginal)
    states = np.concatenate([fit.draws["labels"], fit.draws["locations"]], axis=-1)
    distance, limit = total_variation(exact, states, deviations=6.0)  # errors of states go together: places and widths change slowly
    assert limit < coarser(0.05), "too few draws to tell"
    assert distance < limit
    return fit


@pytest.mark.parametrize(("name", "width", "sigma"), by_turns([
    ("Laplace", 0.6, 0.3), ("Epanechnikov", 1.1, 0.0), ("Triangular", 1.2, 0.3), ("Box", 0.85, 0.0),
], 4, 2))
def test_kernels(name, width, sigma):
    K = SHAPES[name](np.abs(np.subtract.outer([0.0, 1.0], PLACES)), width)
    check(getattr(nm, name)(width, locations=PLACES), K, [0, 0, 1, 1], sigma, {"x": X, "y": Y}, "y ~ x")


@pytest.mark.parametrize(("name", "sigma"), only(
    [("SquaredExponential", 0.0), ("SquaredExponential", 0.3), ("Epanechnikov", 0.3)], ("Epanechnikov", 0.3),
))
def test_widths_of_atoms(name, sigma):
    """Two places times two widths, with weights of both: the pair of an atom is drawn with its weight, and so is the partition."""
    values, chances, of_places = (0.4, 1.2), (1.0, 3.0), (2.0, 1.0)
    kernel = getattr(nm, name)(nm.PerAtom(values, chances), locations=PLACES, weights=of_places)
    d = np.abs(np.subtract.outer([0.0, 1.0], PLACES))
    K = np.stack([SHAPES[name](d[:, p], w) for p in range(2) for w in values], axis=1)
    R0 = np.array([a * b for a in of_places for b in chances])
    fit = check(kernel, K, [0, 0, 1, 1], sigma, {"x": X, "y": Y}, "y ~ x", R0=R0)
    assert "width" not in fit.draws and "PerAtom((0.4, 1.2), weights=(1, 3))" in str(fit.model)
    np.testing.assert_allclose(fit.model.grid.weights, R0 / R0.sum())
    np.testing.assert_array_equal(fit.model.grid.width[:, 0], [0.4, 1.2, 0.4, 1.2])


def test_a_product_with_categories():
    """One covariate of numbers, one of categories, each with its own kernel; the locations are the three rows that occur."""
    table = pd.DataFrame({"x": [0.0, 0.0, 1.0, 1.0], "group": ["a", "b", "b", "b"], "y": Y})
    rows, group = np.array([[0.0, 0], [0.0, 1], [1.0, 1]]), [0, 1, 2, 2]
    d = np.abs(rows[:, None, :] - rows[None, :, :])
    K = np.exp(-(d[..., 0] ** 2) / (2 * 0.7**2)) * np.where(d[..., 1] > 0, 0.25, 1.0)
    kernel = nm.Product({"x": nm.SquaredExponential(0.7), "group": nm.Matching(0.25)})
    check(kernel, K, group, 0.3, table, "y ~ x + group", draws=by_day(4000))


@pytest.mark.nightly
def test_two_covariates_with_a_width_of_atoms_in_both():
    table = pd.DataFrame({"x": [0.0, 0.0, 1.0, 1.0], "z": [0.0, 0.0, 2.0, 0.5], "y": Y})
    kernel = nm.Laplace(nm.PerAtom((0.5, 1.5)), locations=[[0.0, 1.0], [1.0, 0.0]])
    d = np.array([[0.5, 1.0], [1.0 + 0.25, 0.25], [1.0 + 0.5, 1.0]])  # sums over both of the distances of the three rows, z scaled by 2
    K = np.stack([np.exp(-d[:, p] / w) for p in range(2) for w in (0.5, 1.5)], axis=1)
    check(kernel, K, [0, 0, 2, 1], 0.0, table, "y ~ x + z", draws=7000)


@pytest.mark.parametrize("sigma", only([0.0, 0.3], 0.0))
def test_a_wrong_weight_of_the_widths_is_found(sigma):
    """The check is worth something: with even weights in place of 1 to 3 the law of the pairs is another."""
    d = np.abs(np.subtract.outer([0.0, 1.0], PLACES))
    K = np.stack([SHAPES["SquaredExponential"](d[:, p], w) for p in range(2) for w in (0.4, 1.2)], axis=1)
    kernel = nm.SquaredExponential(nm.PerAtom((0.4, 1.2), (1.0, 3.0)), locations=PLACES)
    with pytest.raises(AssertionError) as found:
        check(kernel, K, [0, 0, 1, 1], sigma, {"x": X, "y": Y}, "y ~ x")
    assert "too few" not in str(found.value)
