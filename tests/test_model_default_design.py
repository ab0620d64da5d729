"""Squares and products in the default design of density regressions: which columns have them, about where, and what that does."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.model import default_design as module
from nrmmix.model.default_design import default_family

RNG = np.random.default_rng(3)
N = 150
TABLE = pd.DataFrame({
    "x": np.r_[0.0, 4.04, RNG.uniform(0, 4, N - 2)], "z": np.r_[-1.0, 1.0, RNG.uniform(-1, 1, N - 2)], "g": RNG.choice(list("ab"), N),
    "two": RNG.integers(0, 2, N), "year": np.r_[1990, 2021, RNG.integers(1990, 2021, N - 2)],
    "of two": np.r_[-53, -47, RNG.uniform(-53, -47, N - 2)],
    "day": pd.date_range("2020-01-01", periods=N), "square": RNG.normal(size=N), "level": RNG.integers(0, 4, N),
})
TABLE["y"] = TABLE["x"] ** 2 + 0.2 * RNG.normal(size=N)


def squares(formula, data=TABLE, **options):
    design = default_family(formula, data, True, **options).design.split(" + I(")[0]
    return [f"square({one}" for one in design.split(" + square(")[1:]]


def products(formula, data=TABLE, **options):
    return [f"I({one}" for one in default_family(formula, data, True, **options).design.split(" + I(")[1:]]


@pytest.mark.parametrize(("formula", "want"), [
    ("y ~ x + z", ["square(x - 2.02)", "square(z)"]), ("y ~ x + g", ["square(x - 2.02)"]), ("y ~ x", []),
    ("y ~ two + z", ["square(z)"]), ("y ~ year + day", ["square(year - 2005.5)", "square(day - 74.5)"]),
    ("y ~ log(x + 1) + x:z + year", ["square(year - 2005.5)"]), ("y ~ bs(x, df=4) + z", ["square(z)"]), ("y ~ C(level) + z", ["square(z)"]),
    ("y ~ square + z", []), ("y + x ~ z + year", []), ("y ~ g", []),
])
def test_of_several_covariates_numbers_have_squares_about_the_middle_of_their_range(formula, want):
    assert squares(formula) == want
    family = nm.Model(formula, TABLE).family
    assert family.design == default_family(formula, TABLE, True).design
    assert getattr(family, "shrinkage", "sampled") == (nm.Gamma(0.5, 0.0005) if want else "sampled")
    assert ("shrinkage ~ Gamma(1/2, rate 0.0005) for each column" in "".join(family.describe())) == bool(want)
    without = default_family(formula, TABLE)
    assert isinstance(without, nm.Gaussian) or ("square(" not in without.design and without.shrinkage == "sampled")


@pytest.mark.parametrize(("formula", "want"), [
    ("y ~ x + z", ["I((x - 2.02) * z)"]), ("y ~ x + g", []), ("y ~ x", []), ("y ~ two + z", ["I((two - 0.5) * z)"]), ("y ~ two + g", []),
    ("y ~ x + z + year", ["I((x - 2.02) * z)", "I((x - 2.02) * (year - 2005.5))", "I(z * (year - 2005.5))"]), ("y ~ bs(x, df=4) + z", []),
    ("y ~ square + z", []), ("y + x ~ z + year", []),
])
def test_few_numbers_have_products(formula, want):
    assert products(formula) == want
    model = nm.Model(formula, TABLE)
    assert list(model.frame.input_names[len(model.frame.input_names) - len(want) :]) == want


@pytest.mark.parametrize(("formula", "want"), [
    ("y ~ x * z", "1 + x + z + x:z + square(x - 2.02) + square(z)"), ("y ~ z:x + x + z", "1 + z:x + x + z + square(x - 2.02) + square(z)"),
    ("y ~ x + I(x**2) + z", "1 + x + I(x ** 2) + z + square(z) + I((x - 2.02) * z)"), ("y ~ x + I(x**2)", "1 + x + I(x ** 2)"),
    ("y ~ x + z + z:g", "1 + x + z + square(x - 2.02) + square(z) + I((x - 2.02) * z)"),
])
def test_curves_that_the_formula_has_are_not_added_again_and_the_intercept_stays(formula, want):
    model = nm.Model(formula, TABLE)
    assert model.family.design == want and model.frame.input_names[0] == "Intercept"


def test_products_are_of_the_numbers_about_their_middles():
    model = nm.Model("y ~ x + z", TABLE)
    np.testing.assert_allclose(model.frame.inputs[:, -1], (TABLE["x"] - 2.02) * TABLE["z"], atol=1e-12)


def test_a_column_named_as_the_function_of_products():
    renamed = TABLE.rename(columns={"x": "I"})
    assert not products("y ~ I + z", renamed) and nm.Model("y ~ I + z", renamed).frame.input_names[-1] == "z"


def test_a_middle_below_zero_and_a_name_in_quotes():
    (found,) = squares('y ~ Q("of two") + g')
    assert found == 'square(Q("of two") + 50)' and nm.Model('y ~ Q("of two") + g', TABLE).frame.input_names[-1] == found


def test_units_and_zeros_move_the_middle_with_the_data():
    for factor, shift in (1.0, 0.0), (1000.0, 0.0), (0.01, 0.0), (1.0, 1e7):
        (found,) = squares("y ~ x + g", TABLE.assign(x=factor * TABLE["x"] + shift))
        middle = float(found.removeprefix("square(x - ").removesuffix(")"))
        assert middle == pytest.approx(2.0 * factor + shift, abs=0.05 * factor)
        model = nm.Model("y ~ x + g", TABLE.assign(x=factor * TABLE["x"] + shift))
        inputs = model.blocks.blocks[0].family.observe_inputs(model.frame.inputs)
        base = nm.Model("y ~ x + g", TABLE)
        np.testing.assert_allclose(inputs, base.blocks.blocks[0].family.observe_inputs(base.frame.inputs), atol=1e-6)


def test_rows_that_are_dropped_do_not_count():
    gaps = TABLE.assign(z=[np.nan, *TABLE["z"][1:]], x=[40.0, *TABLE["x"][1:]])
    assert squares("y ~ x + z", gaps)[0] == squares("y ~ x + z", gaps[1:])[0] != squares("y ~ x + g", gaps)[0]


def test_many_rows_and_many_columns_have_lines():
    assert squares("y ~ x + z", rows=module.MAX_SQUARED_ROWS) and not squares("y ~ x + z", rows=module.MAX_SQUARED_ROWS + 1)
    assert products("y ~ x + z", rows=module.MAX_MULTIPLIED_ROWS) and not products("y ~ x + z", rows=module.MAX_MULTIPLIED_ROWS + 1)
    wide = pd.DataFrame(RNG.normal(size=(50, 22)), columns=["y", *(f"x{j}" for j in range(21))])
    formula = "y ~ " + " + ".join(wide.columns[1:])
    assert not squares(formula, wide) and len(squares(formula.removesuffix(" + x20"), wide)) == 20
    assert len(products("y ~ x0 + x1 + x2 + x3 + x4", wide)) == 10 and not products("y ~ x0 + x1 + x2 + x3 + x4 + x5", wide)


def test_sources_and_weights_have_those_of_the_table():
    formula, want = "y ~ x + z + g", nm.Model("y ~ x + z + g", TABLE).family.design
    streamed = nm.Model(formula, [TABLE[:60], TABLE[60:]])
    assert streamed.family.design == want and streamed.family.form.shrinkage == module.SHRINKAGE
    weighted = nm.Model(formula, TABLE, weights=np.where(TABLE["x"] > 3, 2.0, 1.0))
    assert weighted.family.design == weighted.expanded().family.design == want
    assert weighted.family.shrinkage == weighted.expanded().family.shrinkage == module.SHRINKAGE
    assert "square(" not in nm.Model(formula, [TABLE] * 14).family.design  # 2,100 rows


def test_where_covariates_are_far_from_zero_there_is_an_intercept_as_elsewhere():
    x, y = np.linspace(0.0, 10.0, 40), np.sin(np.arange(40.0))
    for offset in (0.0, 1e9, 1e11):
        assert nm.Model("y ~ x", {"x": x + offset, "y": y}).family.design == "1 + x"
        assert nm.Model("y ~ x + z", {"x": x + offset, "z": y**2 + offset, "y": y}).family.design.startswith("1 + x + z")
        assert nm.Model("y ~ cr(x, df=4)", {"x": x + offset, "y": y}).family.design == "0 + cr(x, df=4)"


@pytest.mark.nightly
def test_lines_are_hardly_worse_with_squares_and_products_than_without():
    """Columns without an effect are shrunk to it: the mean of a line is nearer than without them by least squares."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(400, 3))
    mean = 2.0 * x[:, 1]
    table = pd.DataFrame(x, columns=list("abc")).assign(y=mean + rng.normal(size=400))
    with warnings.catch_warnings(action="ignore"):
        fit = nm.fit("y ~ a + b + c", table[:60], draws=100, tune=100, chains=2, rng=1, progress=False)
    error = fit.predict(table[60:])["estimate"].to_numpy() - mean[60:]
    lines = np.c_[np.ones(400), x]
    all_terms = np.c_[lines, x**2, x[:, [0, 0, 1]] * x[:, [1, 2, 2]]]
    by_least_squares = [
        np.sqrt(np.mean((terms[60:] @ np.linalg.lstsq(terms[:60], table["y"][:60], rcond=None)[0] - mean[60:]) ** 2))
        for terms in (lines, all_terms)
    ]
    rmse = np.sqrt(np.mean(error**2))
    assert rmse < 1.2 * by_least_squares[0] < by_least_squares[1]
