"""Covariate kernels: their options, places, groups, what they print and refuse."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.kernels.chain import start
from nrmmix.model.pack import arrays_of
from nrmmix.model.priors.grid import Scales, bins


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    n = 60
    found = pd.DataFrame({"x": rng.random(n) * 30, "z": rng.random(n), "g": rng.choice(["a", "b", "c"], n)})
    found["y"] = np.sin(found["x"]) + (found["g"] == "b") + 0.1 * rng.normal(size=n)
    return found


def test_defaults(table):
    one = nm.Model("y ~ x", table)
    assert one.kernel.width == nm.PerAtom((0.02, 0.04, 0.08, 0.16)) and one.sampled == ("mass",)
    np.testing.assert_allclose(np.unique(one.grid.locations), np.linspace(table["x"].min(), table["x"].max(), 40))
    assert one.grid.distance.shape == (1, 60, 160) and "40 locations x 4 widths" in str(one)
    several = nm.Model("y ~ x + z", table)
    assert isinstance(several.kernel, nm.SparseProduct) and several.sampled == ("mass",) and several.width_names == ()
    assert "60 distinct values, 150 slots" in str(several) and several.grid.distance.shape == (2, 0, 150)
    assert isinstance(several.family, nm.Regression) and several.family.shrinkage == nm.Gamma(0.5, 0.0005)
    assert several.family.design.startswith("1 + x + z + square(x - ")
    two = nm.Model("y ~ x + z", table, kernel=nm.SquaredExponential())
    assert two.kernel.width == nm.PerAtom((0.05, 0.1, 0.2, 0.5)) and len(two.grid.locations) == 200
    assert {tuple(row) for row in two.grid.locations} <= {tuple(row) for row in table[["x", "z"]].to_numpy()}
    fixed = nm.Model("y ~ x", table, kernel=nm.SquaredExponential(0.05))
    assert len(fixed.grid.locations) == 60 and fixed.width_names == ("width",)


def test_a_basis_with_the_constant_in_it_needs_no_intercept(table):
    assert nm.Model("y ~ cr(x, df=3)", table, kernel=nm.Box(0.9)).family.design == "0 + cr(x, df=3)"
    assert nm.Model("y ~ bs(x, df=4)", table, kernel=nm.Box(0.9)).family.design == "1 + bs(x, df=4)"
    twice = table.assign(w=2 * table["x"])
    assert nm.Model("y ~ x + w", twice).family.design.startswith("1 + x + w + ")  # harmless where shrinkage is learnt
    with pytest.raises(ValueError, match="linear combination"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nm.Model("y ~ x + w", twice, family=nm.Regression("1 + x + w", shrinkage=None))


def test_categories_have_a_kernel_of_their_own(table):
    default = nm.Model("y ~ x + g", table)
    assert isinstance(default.kernel, nm.SparseProduct) and isinstance(nm.Model("y ~ g", table).kernel, nm.SparseProduct)
    assert [table.is_category for table in default.slots.tables] == [False, True]
    fit = default.fit(draws=20, tune=20, chains=1, rng=1)
    assert fit.predict({"x": [3.0], "g": ["b"]}).shape == (1, 3)
    with pytest.raises(ValueError, match=r"'d'.*'g'|'g'.*'d'"):
        fit.predict({"x": [3.0], "g": ["d"]})
    model = nm.Model("y ~ x + g", table, kernel=nm.Product({"x": nm.SquaredExponential(), "g": nm.Matching(0.1)}))
    assert "g: Matching(rho = 0.1)" in str(model) and model.frame.covariate_names == ("x", "g")
    assert model.family.design == "1 + x" and model.frame.is_category.tolist() == [False, True]
    only = nm.Model("y ~ g", table, kernel=nm.Matching(0.1))
    assert isinstance(only.family, nm.Gaussian) and len(only.grid.locations) == 3
    fit = model.fit(draws=20, tune=20, chains=1, rng=1)
    assert fit.predict({"x": [3.0], "g": ["b"]}).shape == (1, 3)
    with pytest.raises(ValueError, match=r"'d'.*'g'|'g'.*'d'"):
        fit.predict({"x": [3.0], "g": ["d"]})
    sampled = nm.Model("y ~ x + g", table, kernel=nm.Product({"x": nm.Box(0.5), "g": nm.Matching(nm.Beta(1, 1))}))
    assert sampled.width_names == ("width_x", "rho_g") and sampled.sampled == ("mass", "rho_g")
    rho = sampled.fit(draws=40, tune=40, chains=1, rng=1).draws["rho_g"]
    assert np.ptp(rho) > 0 and ((rho > 0) & (rho < 1)).all()


@pytest.mark.parametrize(("locations", "count"), [
    ("unique", 60), (("farthest", 7), 7), (("quantiles", 5), 5), (("spaced", 9), 9), ([1.0, 2.0, 25.0], 3), ("spaced", 200),
])
def test_places(table, locations, count):
    grid = nm.Model("y ~ x", table, kernel=nm.Laplace(0.3, locations=locations)).grid
    assert grid.locations.shape == (count, 1) and grid.weights.sum() == pytest.approx(1)
    assert (np.diff(grid.locations[:, 0]) > 0).all()


def test_weights_stay_with_their_places(table):
    grid = nm.Model("y ~ x", table, kernel=nm.Laplace(0.3, locations=[25.0, 1.0, 2.0], weights=[1, 2, 5])).grid
    np.testing.assert_array_equal(grid.locations[:, 0], [1.0, 2.0, 25.0])
    np.testing.assert_allclose(grid.weights, [0.25, 0.625, 0.125])


def test_groups_are_bins_at_quantiles(table):
    model = nm.Model("y ~ x", table, kernel=nm.SquaredExponential(groups=6))
    assert model.grid.binned and "6 bins at quantiles" in str(model)
    np.testing.assert_array_equal(np.bincount(model.grid.group), [10] * 6)
    for g, value in enumerate(model.grid.values[:, 0]):
        assert value == pytest.approx(table["x"][model.grid.group == g].mean())
    assert not nm.Model("y ~ x", table, kernel=nm.SquaredExponential(groups=60)).grid.binned
    fit = model.fit(draws=20, tune=20, chains=1, rng=1)
    assert len(fit.predict()["estimate"].unique()) == 60, "predictions are at the rows themselves"


def test_bins_of_several_covariates_never_mix_categories(table):
    codes = table["g"].astype("category").cat.codes.to_numpy(float)
    values = np.column_stack([table["x"], table["z"], codes])
    category = np.array([False, False, True])
    found = bins(values, np.ones(len(values)), Scales.of(values, category, ~category), 12)
    assert len(found) == 12 and sorted(np.concatenate(found)) == list(range(60))
    assert all(len(set(codes[rows])) == 1 for rows in found) and max(map(len, found)) <= 10


def test_the_band_of_a_row_is_where_its_kernel_is_not_zero(table):
    model = nm.Model("y ~ x", table, kernel=nm.Epanechnikov(nm.PerAtom((0.05, 0.2))), prior=nm.NGGP(1.0, 0.3))
    data, state = arrays_of(model, 8)
    start(data, state, np.zeros(60, np.int64))
    K = np.exp(model.log_kernel(data.distance, model.start_widths()))
    for row, (first, last) in zip(K, state.cache.band, strict=True):
        assert 0 < last - first < K.shape[1] and not row[:first].any() and not row[last:].any() and row[first] > 0 and row[last - 1] > 0
    np.testing.assert_allclose(state.cache.A, state.v @ K, rtol=1e-12)
    rate = data.R0 * state.hyper[0] * (1 + state.cache.A) ** (0.3 - 1)
    np.testing.assert_allclose(np.exp(state.cache.log_new), K @ rate, rtol=1e-12)
    np.testing.assert_allclose(state.cache.inverse_b, 1 / (1 + state.cache.A), rtol=1e-12)


def test_narrow_kernels_and_unlike_ranges_are_warned_of(table):
    with pytest.warns(UserWarning, match="so narrow that atoms see one covariate value each, 1 observations a location"):
        nm.Model("y ~ x", table, kernel=nm.SquaredExponential(1e-6))
    wide = table.assign(z=table["z"] * 1e5)
    with pytest.warns(UserWarning, match="with scale=None one width serves 'x', whose range is 2.*, and 'z'"):
        nm.Model("y ~ x + z", wide, kernel=nm.SquaredExponential(5e3, scale=None))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nm.Model("y ~ x + z", wide)


@pytest.mark.parametrize(("make", "message"), [
    (lambda t: nm.PerAtom((0.1, 0.1)), "the width 0.1 is there twice"),
    (lambda t: nm.PerAtom(()), "must be a sequence of numbers greater than 0"),
    (lambda t: nm.PerAtom((0.1, -1)), "-1 is none"),
    (lambda t: nm.PerAtom((0.1, 0.2), (1,)), "1 weights for 2 widths"),
    (lambda t: nm.Matching(1.5), r"rho must be a number in \(0, 1\)"),
    (lambda t: nm.Matching(), "rho is needed"),
    (lambda t: nm.Box(0.1, groups=1), "groups must be an integer of at least 2"),
    (lambda t: nm.Box(0.1, weights=[1, 2]), "weights belong to locations that you give"),
    (lambda t: nm.Box(0.1, locations="farthes"), "did you mean 'farthest'"),
    (lambda t: nm.Product({}), "must be a dict from names of covariates"),
    (lambda t: nm.Product({"x": nm.Box(0.1, groups=9)}), "are those of the product"),
    (lambda t: nm.Model("y ~ x + g", t, kernel=nm.SquaredExponential(0.1)), "the covariate 'g' holds categories"),
    (lambda t: nm.Model("y ~ x", t, kernel=nm.Matching(0.1)), "the covariate 'x' holds numbers"),
    (lambda t: nm.Model("y ~ x", t, kernel=nm.Box(0.1, locations=[1, 1])), "location .1.0. is there twice"),
    (lambda t: nm.Model("y ~ x", t, kernel=nm.Box(0.5, locations=[[1, 2]])), r"shape \(P, 1\)"),
    (lambda t: nm.Model("y ~ x", t, kernel=nm.Box(0.9, locations=[1, 9], weights=[1])), "1 weights for 2 locations"),
    (lambda t: nm.Model("y ~ x + z", t, kernel=nm.Product({"x": nm.Box(0.9)})), "the covariate 'z' has no kernel"),
    (lambda t: nm.Model("y ~ x", t, kernel=nm.Product({"xx": nm.Box(0.9)})), "there is no covariate 'xx'"),
    (lambda t: nm.Model("y ~ x + z", t, kernel=nm.SquaredExponential([nm.PerAtom((0.1, 0.2)), nm.LogNormal(0, 1)])),
     "the width in 'z' is sampled"),
    (lambda t: nm.Model("y ~ x + z", t, kernel=nm.Box(0.9, locations="spaced")), "spaced equally in one covariate"),
    (lambda t: nm.Model("y ~ x", t, kernel=nm.Box(nm.PerAtom((0.01, 0.02)), locations=[1.0])), "out of reach of every location"),
    (lambda t: nm.Model("y ~ x + z", t, kernel=nm.Laplace([nm.PerAtom(np.arange(1, 12) / 9)] * 2)), "more than 4000; give fewer widths"),
    (lambda t: nm.Model("y ~ x + g", t, kernel=nm.Product({"x": nm.Box(9), "g": nm.Matching(0.1)}, locations=[[1, 7]])),
     "numbers of its levels"),
])
def test_bad_input(table, make, message):
    with pytest.raises(ValueError, match=message):
        make(table)


def test_kernels_survive_files(table, tmp_path):
    kernels = {"x": nm.Epanechnikov(nm.PerAtom((0.2, 0.4), (1, 2))), "g": nm.Matching(nm.PerAtom((0.1, 0.6)))}
    kernel = nm.Product(kernels, locations=("farthest", 9), groups=20)
    fit = nm.fit("y ~ x + g", table, kernel=kernel, draws=10, tune=10, chains=1, rng=1)
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    assert str(again.model) == str(fit.model) and again.predict().equals(fit.predict())
    np.testing.assert_array_equal(again.extend(5).draws["labels"], fit.extend(5).draws["labels"])
