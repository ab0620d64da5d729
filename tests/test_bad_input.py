"""Input that cannot be used, through the public interface: the message names the culprit and says what would work."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csr_matrix
from support.bad_input import SHORT, Foreign, N, check, fit, model, table, with_value

import nrmmix as nm

# ------------------------------------------------------------------------------------------------ the data

DATA = {
    "a list": ([[1, 2]], TypeError, r"type list are not supported; give pandas.DataFrame\(data\)"),
    "a list of dicts": ([{"y": 1, "x": 2}], TypeError, r"give pandas.DataFrame\(data\)"),
    "a name": ("galaxy", TypeError, r"name or path such as 'galaxy'; read the file first: pandas.read_csv"),
    "a path": (Path("table.csv"), TypeError, "read the file first"),
    "a number": (3.5, TypeError, "type float are not supported; give a DataFrame, a dict of columns"),
    "a class": (pd.DataFrame, TypeError, "type type are not supported"),
    "a sparse matrix": (csr_matrix(np.eye(3)), ValueError, r"A sparse matrix holds counts for one nm.Multinomial"),
    "a sparse array": (coo_array(np.eye(3)), ValueError, r"give data.toarray\(\) for other families"),
    "0 dimensions": (np.array(1.0), ValueError, "1 or 2 dimensions, not 0"),
    "3 dimensions": (np.zeros((2, 2, 2)), ValueError, "1 or 2 dimensions, not 3"),
    "a table of records": (np.zeros((2, 2), dtype=[("y", float)]), ValueError, "named fields must have 1 dimension, not 2"),
    "a field that is an array": (np.zeros(2, dtype=[("y", float, 3)]), ValueError, "field 'y' of the array is itself an array"),
    "no rows": (table().head(0), ValueError, r"no rows \(columns: y, z, x, g\); give at least one"),
    "no columns": (pd.DataFrame(index=[1]), ValueError, "no columns"),
    "an empty dict": ({}, ValueError, "no columns"),
    "one name twice": (pd.concat([table(), table()], axis=1), ValueError, "column name 'y' occurs more than once"),
    "the number 1 and the text": (pd.DataFrame([[1, 2]], columns=[1, "1"]), ValueError, "column name '1' occurs more than once"),
    "columns in levels": (table().T.set_index([[*"ab"] * 2, [*"cdef"]]).T, ValueError, "several levels of column names; join them"),
    "lists of different lengths": ({"y": [1, 2], "x": [1]}, ValueError, r"differ in length \('y' has 2, 'x' has 1\)"),
    "a number as column": ({"y": [1.0], "x": 3}, ValueError, r"column 'x' of the dict is not a list of values but 3 \(int\)"),
    "text as column": ({"y": "abc"}, ValueError, "column 'y' of the dict is not a list of values but 'abc'"),
    "a table as column": ({"y": np.ones((2, 2))}, ValueError, "column 'y' of the dict has 2 dimensions"),
    "Series that do not match": (
        {"y": pd.Series([1, 2]), "x": pd.Series([1, 2], index=[8, 9])}, ValueError, "Series in the dict have different indexes",
    ),
    "to_pandas() of a number": (Foreign(3), TypeError, r"to_pandas\(\) of Foreign did not return a DataFrame but int"),
    "to_pandas() that fails": (Foreign(OSError("gone")), TypeError, r"to_pandas\(\) of Foreign failed \(gone\)"),
    "None": (None, ValueError, "data is missing; give a DataFrame"),
}


@pytest.mark.parametrize("name", DATA)
def test_data_that_are_no_table(name):
    data, error, message = DATA[name]
    check(lambda: nm.Model("y ~ 1", data), error, message)


@pytest.mark.parametrize("formula", ["y ~ x", None])
def test_a_dict_of_a_misspelt_type(formula):
    check(lambda: nm.Model(formula, [("y", [1, 2])]), TypeError, "type list")


BASE = np.random.default_rng(3).normal(size=(9, 2)).round(3)
SPELLINGS = {
    "read-only": np.frombuffer(BASE.tobytes()).reshape(9, 2),
    "F-ordered": np.asfortranarray(BASE),
    "strided": np.repeat(np.repeat(BASE, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": BASE[::-1, ::-1].copy()[::-1, ::-1],
    "big-endian": BASE.astype(">f8"),
    "longdouble": BASE.astype(np.longdouble),
    "objects": BASE.astype(object),
    "decimals": np.vectorize(lambda value: Decimal(str(value)), otypes=[object])(BASE),
    "fractions": np.vectorize(lambda value: Fraction(str(value)), otypes=[object])(BASE),
    "masked": np.ma.masked_array(BASE),
    "matrix": BASE.view(np.matrix),
    "records": np.rec.fromarrays(BASE.T, names="y1,y2"),
    "DataFrame": pd.DataFrame(BASE, columns=["y1", "y2"]),
    "nullable": pd.DataFrame(BASE, columns=["y1", "y2"]).astype("Float64"),
    "sparse columns": pd.DataFrame(BASE, columns=["y1", "y2"]).astype(pd.SparseDtype(float)),
    "dict": {"y1": list(BASE[:, 0]), "y2": tuple(BASE[:, 1])},
    "to_pandas()": Foreign(pd.DataFrame(BASE, columns=["y1", "y2"])),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_of_a_table_gives_the_same_draws(name):
    plain, spelt = fit(None, BASE), fit("y1 + y2 ~ 1" if name == "dict" else None, SPELLINGS[name])
    np.testing.assert_array_equal(spelt.draws["labels"], plain.draws["labels"])
    np.testing.assert_array_equal(spelt.draws["log_joint"], plain.draws["log_joint"])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_narrow_floats_are_widened_first(dtype):
    narrow = BASE.astype(dtype)
    np.testing.assert_array_equal(fit(None, narrow).draws["log_joint"], fit(None, narrow.astype(float)).draws["log_joint"])


def test_a_series_and_masked_entries():
    np.testing.assert_array_equal(fit(None, table()["y"]).draws["labels"], fit("y ~ 1").draws["labels"])
    with pytest.warns(UserWarning, match=r"1 of 9 rows dropped: missing values in y2 \(1\)"):
        assert nm.Model(None, np.ma.masked_array(BASE, mask=BASE == BASE[4, 1])).n_obs == 8


# ----------------------------------------------------------------------------------------------- its columns

VALUES = {  # a column of each kind: as a response, as a covariate; None where it works
    "integers": (range(N), None, None),
    "booleans": ([True, False] * 6, None, None),
    "Int64": (pd.array(range(N), dtype="Int64"), None, None),
    "Float64": (pd.array(np.arange(N) / 3, dtype="Float64"), None, None),
    "boolean": (pd.array([True, False] * 6, dtype="boolean"), None, None),
    "string": (pd.array(["a", "b"] * 6, dtype="string"), "'v' holds text or categories; a response is one column of numbers", None),
    "text": (["a", "b"] * 6, "'v' holds text or categories", None),
    "category": (pd.Categorical(["a", "b"] * 6), "'v' holds text or categories", None),
    "categories of numbers": (pd.Categorical([1, 2] * 6), "'v' holds text or categories", None),
    "objects": (np.arange(N).astype(object), None, None),
    "decimals": ([Decimal(i) / 3 for i in range(N)], None, None),
    "fractions": ([Fraction(i, 3) for i in range(N)], None, None),
    "numbers as text": ([str(i) for i in range(N)], "'v' holds text", r"'v' holds numbers as text; convert it with pandas.to_numeric"),
    "text among numbers": ([*range(N - 1), "?"], "'v' holds text and also 0", "'v' holds text and also 0"),
    "a typo among numbers as text": ([*map(str, range(N - 1)), "1l"], "'v' holds text", r"apart from '1l' in row 11"),
    "dates": (pd.date_range("2020", periods=N), r"'v' holds Timestamp.*in row 0.*\(dates - dates.min\(\)\) / pandas.Timedelta", None),
    "dates of Python": ([datetime.date(2020, 1, i + 1) for i in range(N)], r"'v' holds datetime.date.*time since some date", None),
    "periods": (pd.period_range("2020", periods=N, freq="D"), "'v' holds Period.*time since some date", None),
    "durations": (pd.timedelta_range("1D", periods=N), r"'v' holds Timedelta.*divide the column by a unit of time", ...),
    "complex numbers": (np.arange(N) * 1j, "'v' holds .*complex.*in row 0.*real and imaginary parts as two columns", ...),
    "bytes": ([b"a", b"b"] * 6, "'v' holds b'a'", ...),
    "lists": ([[i] for i in range(N)], r"'v' holds \[0\] \(list\) in row 0", ...),
    "huge integers": ([10**400 + i for i in range(N)], "'v' holds a number in row 0 that does not fit a 64-bit float; rescale", ...),
    "integers that differ in the last digits": (
        [10**17 + 100 * i for i in range(N)], r"'v' varies by 1104 only around 1e\+17, which is lost in rounding: subtract an offset", ...,
    ),
    "integers that differ in digits that no float has": (
        np.arange(N, dtype=np.uint64) + np.uint64(2**63),
        r"'v' is constant \(9.22337e\+18 in all 12 rows used\) once rounded to 64-bit floats: subtract an offset, or leave it out", ...,
    ),
    "constant": ([5] * N, r"response 'v' is constant \(5 in all 12 rows used\); leave it out", r"covariate 'v' is constant \(5 in all 12"),
    "constant text": (["a"] * N, "'v' holds text", r"covariate 'v' is constant \('a' in all 12 rows used\); leave it out"),
    "nothing": ([None] * N, r"No row of 12 is complete: missing values in v \(12\)", ...),
    "inf": ([np.inf, *range(N - 1)], "'v' is inf in row 0; use a finite number, or NaN where it is missing", ...),
    "very large": ([3e300, *range(N - 1)], r"response 'v' is 3e\+300 in row 0; numbers go up to 1e\+100", r"'v' is 3e\+300 in row 0"),
    "subnormal": (np.arange(N) * 5e-324, "'v' varies by 5.43472e-323 only, less than 1e-100; rescale it", ...),
}


@pytest.mark.parametrize("name", VALUES)
def test_kinds_of_columns(name):
    values, as_response, as_covariate = VALUES[name]
    as_covariate = as_response if as_covariate is ... else as_covariate
    data = table(v=values)
    for formula, message in (("v ~ x", as_response), ("y ~ v", as_covariate)):
        if message is None:
            draws = nm.fit(formula, data, **SHORT).draws
            assert np.isfinite(draws["log_joint"]).all()
        else:
            check(lambda: nm.Model(formula, data), ValueError, message)  # noqa: B023


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "string", "category", "object"])
def test_missing_values_of_every_kind_are_dropped_and_counted(dtype):
    values = pd.Series([0, 1, 1] * 4).astype("boolean" if dtype == "boolean" else "Int64")
    if dtype in ("string", "category", "object"):
        values = values.map({0: "a", 1: "b"}).astype(dtype)
    values = values.mask(np.arange(N) == 4).astype(dtype)
    with pytest.warns(UserWarning, match=r"^1 of 12 rows dropped: missing values in v \(1\)$"):
        assert nm.Model("y ~ v", table(v=values)).n_obs == 11


@pytest.mark.parametrize("column", ["y", "x"])
def test_missing_and_infinite_values(column):
    data = with_value(column, 3, np.nan)
    for call in (lambda: nm.Model("y ~ x", data), lambda: nm.fit("y ~ x", data, **SHORT)):
        with pytest.warns(UserWarning, match=rf"1 of 12 rows dropped: missing values in {column} \(1\)") as caught:
            call()
        assert caught[0].filename == __file__  # the line that called the package
    check(lambda: nm.Model("y ~ x", data, missing="raise"), ValueError, f"column '{column}' misses row 3; fill it or use missing='drop'")
    check(lambda: nm.Model("y ~ x", with_value(column, 3, -np.inf)), ValueError, f"column '{column}' is -inf in row 3")


def test_rows_are_named_by_their_labels():
    data = table().set_index(pd.MultiIndex.from_product([["k", "l"], range(6)]))
    data.iloc[7, 2] = np.inf
    check(lambda: nm.Model("y ~ x", data), ValueError, r"'x' is inf in row 7 \(index label \('l', 1\)\)")
    data.index = ["same"] * N
    check(lambda: nm.Model("y ~ x", data), ValueError, r"'x' is inf in row 7 \(index label 'same'\)")


def test_no_row_is_left():
    data = table()
    data.loc[:5, "x"], data.loc[6:, "y"] = np.nan, np.nan
    check(lambda: nm.Model("y ~ x", data), ValueError, r"No row of 12 is complete: missing values in y \(6\), x \(6\); fill them")


def test_a_response_seen_once():
    data = table(y=[1.5] + [np.nan] * (N - 1))
    message = r"'y' is constant \(1.5 in the 1 of 12 rows used that have it\)"
    check(lambda: nm.Model("y + z ~ 1", data, missing="marginalize"), ValueError, message)


def test_families_of_responses_that_are_sums():
    data = table(c=np.arange(N))
    models = [
        nm.Model("log(c + 1) + y + c ~ 1", data, family={key: nm.Gaussian("diagonal"), "c": nm.Poisson()})
        for key in ("log(c + 1) + y", ("log(c + 1)", "y"))
    ]
    assert str(models[0]) == str(models[1])
    family = {"log(c+2)": nm.Gaussian(), "y + c": nm.Gaussian()}
    formula = "log(c + 1) + y + c ~ 1"
    told = r"'log\(c\+2\)', which is no response; the responses are log\(c \+ 1\), y, c"
    check(lambda: model(formula, data, family=family), ValueError, told)
    family["log(c+1)"] = family.pop("log(c+2)")  # spaces make no other name
    assert model(formula, data, family=family).n_dim == 3


def test_equal_columns():
    data = table(copy=table()["x"], twin=table()["y"])
    check(lambda: nm.Model("y ~ x + copy", data), ValueError, "covariates 'x' and 'copy' are equal in every row; leave one of them out")
    check(lambda: nm.Model("y + twin ~ 1", data), ValueError, "responses 'y' and 'twin' are equal in every row")
    check(lambda: nm.Model("y + y ~ 1", data), ValueError, "response stands twice on the left side 'y \\+ y'")


def test_one_or_two_observations():
    """Two rows are enough; one needs the scale of the components, and everything then works on it."""
    two = fit("y ~ x", table().head(2))
    assert np.isfinite(two.log_density()).all() and two.predict().notna().all().all()
    check(lambda: nm.Model("y ~ 1", table().head(1)), ValueError, "default scale needs at least 2 observations; give scale=, or more data")
    for formula in ("y ~ 1", "y ~ x"):
        one = fit(formula, table().head(1), family=nm.Gaussian(scale=1.0))
        assert (one.draws["n_clusters"] == 1).all()
        for kind in ("mean", "density", "cdf", "quantile"):
            assert np.isfinite(one.predict(kind=kind)).all().all()
        assert one.partition().labels.tolist() == [0] and one.similarity().tolist() == [[1.0]]
        assert "y ~" in one.summary().as_text()


# ----------------------------------------------------------------------------------------------- the formula

FORMULAS = {
    "import": ("y ~ __import__('os').system('x')", r"__import__\('os'\).system.*no attributes"),
    "import on the left": ("__import__('os').system('x') ~ 1", r"not allowed"),
    "lambda": ("y ~ (lambda: 0)()", "'lambda' is not allowed"),
    "attribute": ("y ~ x.values", "'x.values' is not allowed: there are no attributes, apart from np.log"),
    "f-string": ("y ~ f'{x}'", "not allowed"),
    "walrus": ("y ~ (w := x)", "not allowed"),
    "powers of powers": ("y ~ x ** 2 ** 9 ** 9", "a power needs a column and an exponent up to 100"),
    "very long": ("y ~ " + "x + " * 1000 + "x", "it has 4005 characters, and a formula has up to 2000"),
    "deep": ("y ~ " + "(" * 200 + "x" + ")" * 200, "brackets are nested more than 30 deep"),
    "deep without brackets": ("y ~ " + "-" * 1900 + "x", "not allowed"),
    "null byte": ("y ~ x\x00", r"it holds a control character \(U\+0000\)"),
    "invisible": ("y ~ x\u200b", r"it holds ZERO WIDTH SPACE \(U\+200B\)"),
    "another x": ("y ~ \u0445", r"no column '\u0445' \('\u0445' is CYRILLIC SMALL LETTER HA\) in the data.*The columns are y, z, x, g"),
    "a wide x": ("y ~ \uff58", "Python reads it differently; if it is a column write Q"),
    "backticks": ("y ~ `x`", "'`x`' is not allowed: write x"),
    "bar": ("y ~ x | g", r"'x \| g' is not allowed: random effects of groups are not available"),
    "comment": ("y ~ x # text", "'# text' is not allowed"),
    "unknown": ("y ~ xs", "no column 'xs' in the data. Did you mean 'x'"),
    "unknown response": ("yy ~ x", "no column 'yy' in the data. Did you mean 'y'"),
    "both sides": ("y ~ log(y)", "column 'y' stands on both sides of the formula"),
    "empty": ("", "formula is empty; write responses, a tilde and covariates"),
    "no tilde": ("y", "no tilde between responses and covariates; write 'y ~ 1'"),
    "equals sign": ("y = x", "write 'y ~ x'"),
    "two tildes": ("y ~ x ~ g", "has several tildes, and a formula has one"),
    "no response": ("~ x", "has no response; write it before the tilde, 'y ~ x'"),
    "nothing on the right": ("y ~", "nothing after the tilde; without covariates write 'y ~ 1'"),
    "no intercept": ("y ~ 0", "leaves nothing; without covariates write 'y ~ 1', which has no intercept to drop"),
    "text in a function": ("y ~ log(g)", r"'log\(g\)' computes with 'g', which holds text or categories"),
    "text in a sum": ("y ~ I(g + x)", r"'I\(g \+ x\)' computes with 'g'"),
    "text response": ("g ~ x", "response 'g' holds text or categories; a response is one column of numbers"),
    "spline as response": ("bs(y, df=4) ~ x", r"response 'bs\(y, df=4\)' has 4 columns"),
    "spline without df": ("y ~ bs(x)", r"'bs\(x\)' is not allowed: bs needs df or knots"),
    "spline with text": ("y ~ bs(x, df='a')", "df is a whole number from 1 to 1000"),
    "spline of few": ("y ~ cr(x, df=2)", "df of cr must be at least 3 here"),
    "spline of a spline": ("y ~ bs(bs(x, df=4), df=4)", "bs stands alone, not within another function"),
    "spline out of bounds": ("y ~ bs(x, df=4, upper_bound=0.5)", r"upper_bound=0.5\)' cannot be evaluated: some data points fall outside"),
    "knots of text": ("y ~ bs(x, knots=['a'])", "knots is a list of numbers"),
    "constraints": ("y ~ cr(x, df=4, constraints=[1])", "constraints is 'center'"),
    "levels": ("y ~ C(g, levels=['a', 'b', 'c', 'c'])", "levels is a list of different values"),
    "too few levels": ("y ~ C(g, levels=['a'])", "'b' does not match any of the expected levels"),
    "contrast": ("y ~ C(g, Treatment(7))", "level 7 is out of range"),
    "contrast with too much": ("y ~ C(g, Helmert(1))", "Helmert takes no arguments"),
    "scores": ("y ~ C(g, Poly(3))", "scores is a list of numbers"),
    "not finite": ("y ~ log(x)", r"covariate 'log\(x\)' is -inf in row 0; the formula has no finite value there, and log1p\(x\) has"),
    "a large product": ("y ~ te(cr(x, df=40), cr(z, df=40))", "makes up to 1600 covariates, and there is room for 1000"),
    "a number": ("y ~ x + 2", "numbers besides '0' and '1' are only allowed with"),
    "a number before a name": ("y ~ 2 * x", r"'2 \* x' is not allowed: arithmetic stands within I\(\), I\(2 \* x\)"),
    "response of levels": ("C(g) ~ x", r"one column of numbers. Write g with the family nm.Categorical\(\)"),
    "response of several columns": ("bs(y, df=3) ~ x", "has 3 columns; a response is one column of numbers. Write y itself"),
    "knots beyond the data": ("y ~ bs(x, knots=[1e6])", r"fall above upper bound \([\d.]+\)"),
    "minus": ("y ~ -x", "'-x' cannot be evaluated: Unary minus"),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    formula, message = FORMULAS[name]
    check(lambda: nm.Model(formula, table()), ValueError, message)


@pytest.mark.parametrize("formula", [b"y ~ x", ["y", "x"], 3, table()], ids=["bytes", "list", "number", "data"])
def test_formulas_that_are_no_text(formula):
    check(lambda: nm.Model(formula, table()), TypeError, "formula must be a string such as 'y ~ x', not (bytes|list|int|DataFrame)")


def test_categories_do_not_explode():
    many = pd.DataFrame({"y": np.arange(2000.0), "g": [f"name {i}" for i in range(2000)]})
    check(lambda: nm.Model("y ~ g", many), ValueError, "makes up to 2000 covariates, and there is room for 1000; 'g' has 2000 levels")


# ----------------------------------------------------------------------- priors, families, kernels, run arguments

SPECIFICATIONS = {
    "mass": (lambda: nm.DirichletProcess(0), r"DirichletProcess: mass must be a number in \(0, 1e\+12\) or a distribution"),
    "mass below 0": (lambda: nm.NGGP(-1.0), "NGGP: mass must be a number"),
    "sigma of 1": (lambda: nm.NGGP(1.0, 1.0), r"NGGP: sigma must be a number in \[0, 1\)"),
    "sigma below 0": (lambda: nm.NGGP(1.0, -0.1), "sigma must be a number"),
    "distribution of sigma": (lambda: nm.NGGP(1.0, nm.Gamma(1, 1)), "sigma cannot have a Gamma prior; use a number or nm.Beta"),
    "width": (lambda: nm.Box(0), r"Box: width must be a number in \(0, inf\)"),
    "masses of no size": (lambda: nm.DirichletProcess(nm.Gamma(1, 1e-300)), r"mass must lie in \(0, 1e\+12\), and the middle of its prior"),
    "masses far out": (lambda: nm.NGGP(nm.LogNormal(500, 1)), r"mass must lie in \(0, 1e\+12\)"),
    "width near 0": (lambda: nm.SquaredExponential(1e-200), r"SquaredExponential: width must be a number in \(1e-100, inf\)"),
    "width near 0, sampled": (lambda: nm.SquaredExponential(nm.LogNormal(-500, 1)), r"width must lie in \(1e-100, inf\)"),
    "width near 0, per atom": (lambda: nm.SquaredExponential(nm.PerAtom((1e-200, 1.0))), "width must be above 1e-100"),
    "width below 0": (lambda: nm.SquaredExponential(-0.1), "SquaredExponential: width must be"),
    "width NaN": (lambda: nm.Box(np.nan), "not nan"),
    "one width NaN": (lambda: nm.Box([0.1, np.nan]), "not nan"),
    "widths in a table": (lambda: nm.Box(np.ones((2, 2))), r"not \[1.0, 1.0\]"),
    "no width": (lambda: nm.Box(), "Box: width is needed, a number or a distribution"),
    "no rho": (lambda: nm.Matching(), "Matching: rho is needed, a number or a distribution.$"),
    "text as locations": (
        lambda: nm.Box(0.1, locations="ab"), "Box: locations must be one of 'unique', 'spaced', 'quantiles', 'farthest', not 'ab'"
    ),
    "complex locations": (lambda: nm.Box(0.1, locations=[1j]), "Box: locations must hold real numbers"),
    "ragged locations": (lambda: nm.Box(0.1, locations=[[1], [2, 3]]), r"locations must hold real numbers, not \[\[1\], \[2, 3\]\]"),
    "scale": (lambda: nm.Box(0.1, scale="std"), 'scale must be "unit" or None'),
    "r": (lambda: nm.Gaussian(r=0), "Gaussian: r must be a finite number greater than 0"),
    "nu": (lambda: model("y + z ~ 1", family=nm.Gaussian(nu=0.5)), "nu must be greater than d - 1 = 1 for 2 responses, not 0.5"),
    "m": (lambda: model("y ~ 1", family=nm.Gaussian(m=[1, 2])), r"m must have shape \(1,\) for these responses, not \(2,\)"),
    "m of text": (lambda: model("y ~ 1", family=nm.Gaussian(m="a")), "m must hold (real )?numbers, not 'a'"),
    "scale of a number as text": (lambda: model("y ~ 1", family=nm.Gaussian(scale="2")), "scale must hold real numbers, not '2'"),
    "shape of scale": (lambda: model("y + z ~ 1", family=nm.Gaussian(scale=np.eye(3))), r"scale must have shape \(2, 2\).*not \(3, 3\)"),
    "scale below 0": (lambda: model("y ~ 1", family=nm.Gaussian(scale=-1)), "scale must be positive definite"),
    "scale not definite": (lambda: model("y + z ~ 1", family=nm.Gaussian(scale=[[1, 2], [2, 1]])), "scale must be positive definite"),
    "scale not symmetric": (lambda: model("y + z ~ 1", family=nm.Gaussian(scale=[[1, 0.5], [0, 1]])), "scale must be symmetric"),
    "family by no name": (lambda: model(family="gauss"), "unknown family 'gauss'; there are .*did you mean 'gaussian'"),
    "family as class": (lambda: model(family=nm.Gaussian), r"make an object of it, Gaussian\(...\)"),
    "prior by no name": (lambda: model(prior="dirichlet"), "unknown prior 'dirichlet'; there are 'dp', "),
    "kernel by number": (lambda: model(kernel=0.1), r"kernel must be an object such as nm.SquaredExponential\(\)"),
    "kernel of a mixture": (lambda: model("y ~ 1", kernel=nm.Box(0.1)), "kernel is given but the formula has no covariates"),
    "widths": (lambda: model(kernel=nm.Box([0.1, 0.2])), r"2 widths for 1 covariates \(x\); give one width, or one for each"),
    "shape of locations": (lambda: model(kernel=nm.Box(0.1, locations=[[1, 2]])), r"locations must have shape \(P, 1\)"),
    "locations far out": (lambda: model(kernel=nm.Box(0.1, locations=[1e200])), r"locations must be finite, and not beyond 1e\+100"),
    "out of reach": (lambda: model(kernel=nm.Box(0.1, locations=[0.5])), r"row 0 \(x = \[0.0\]\) is out of reach of every location of Box"),
    "missing": (lambda: model(missing="ignore"), "missing='ignore' is not available; use missing='drop' or missing='raise'"),
}


@pytest.mark.parametrize("name", SPECIFICATIONS)
def test_specifications(name):
    call, message = SPECIFICATIONS[name]
    check(call, ValueError, message)


def test_misspelt_keywords():
    check(lambda: nm.DirichletProcess(mas=1.0), TypeError, "mas")
    check(lambda: nm.Gaussian(sclae=1.0), TypeError, "sclae")
    check(lambda: fit(burnin=10), TypeError, "burnin")
    check(lambda: nm.FiniteMixture(), TypeError, "components")


RUNS = {
    "draws of 0": ({"draws": 0}, "draws must be an integer of at least 1, not 0"),
    "draws of 2.0": ({"draws": 2.0}, "draws must be an integer of at least 1, not 2.0"),
    "draws as text": ({"draws": "3"}, "draws must be an integer of at least 1 or \"auto\", not '3'"),
    "draws as bool": ({"draws": True}, "draws must be an integer"),
    "draws of None": ({"draws": None}, "draws must be an integer"),
    "draws of 1.5": ({"draws": 1.5}, 'draws must be an integer of at least 1, not 1.5; or give "auto"'),
    "absurd draws": ({"draws": 10**12}, r"draws=1000000000000 of 1 chains would take .* GB"),
    "tune": ({"tune": -1}, "tune must be an integer of at least 0, not -1"),
    "thin": ({"thin": 0}, "thin must be an integer of at least 1, not 0"),
    "chains": ({"chains": 0}, "chains must be an integer of at least 1"),
    "chains as text": ({"chains": "two"}, "chains must be an integer"),
    "method": ({"method": "gibs"}, "unknown method 'gibs'; there are .*'gibbs'.*; did you mean 'gibbs'"),
    "method as class": ({"method": nm.Gibbs}, r"method must be a name or a move such as nm.Gibbs\(\)"),
    "init of wrong length": ({"init": [0, 1]}, "2 init for 12 rows; give one per row"),
    "init of one number": ({"init": 5}, "init must be one of 'sequential', .* labels, or fits of the same rows, not 5"),
    "init True": ({"init": True}, "init must be one of 'sequential', .* not True"),
    "init of too few": ({"init": [0, 0, 0]}, "3 init for 12 rows; give one per row, the label of its cluster, or one of 'sequential'"),
    "init misspelt": ({"init": "sequental"}, "init must be one of 'sequential', 'one', 'each'"),
    "init NaN": ({"init": [np.nan] * N}, "init hold nan in row 0; they must be whole numbers"),
    "init of fractions": ({"init": [0.5] * N}, "init hold 0.5 in row 0"),
    "init of text": ({"init": ["a"] * N}, "init"),
    "init of complex numbers": ({"init": [1j] * N}, "init"),
    "init of other chains": ({"init": np.zeros((2, N), int)}, "init has labels for 2 chains but chains=1"),
    "init of 3 dimensions": ({"init": np.zeros((1, 1, N), int)}, "init must have one dimension, not 3"),
    "rng below 0": ({"rng": -1}, "rng must be a non-negative int, a SeedSequence, a Generator or None, not -1"),
    "rng as text": ({"rng": "seed"}, "rng must be a non-negative int"),
    "rng of the old kind": ({"rng": np.random.RandomState(1)}, "rng must be a non-negative int"),
    "cores": ({"cores": 0}, "cores must be an integer of at least 1"),
    "time_limit": ({"time_limit": 0}, "time_limit must be greater than 0 seconds"),
    "time_limit NaN": ({"time_limit": np.nan}, "time_limit must be greater than 0 seconds"),
    "time_limit as text": ({"time_limit": "3"}, "time_limit must be greater than 0 seconds, as a number such as 60, not '3'"),
    "time_limit True": ({"time_limit": True}, "time_limit must be greater than 0 seconds, as a number such as 60, not True"),
    "progress as text": ({"progress": "yes"}, "progress must be True or False, not 'yes'"),
    "progress as number": ({"progress": 1}, "progress must be True or False, not 1"),
}


@pytest.mark.parametrize("name", RUNS)
def test_run_arguments(name):
    options, message = RUNS[name]
    check(lambda: fit(**options), ValueError, message)


def test_any_whole_numbers_are_labels():
    start = np.array([0, 1, 2] * 4)
    first = fit(init=start).draws["labels"]
    for other in (start - 5, start.astype(float), pd.Series(start, dtype="Int64"), list(start * 10**9)):
        np.testing.assert_array_equal(fit(init=other).draws["labels"], first)


def test_a_time_between_checkpoints_needs_their_file(tmp_path):
    run = {"draws": 5, "tune": 5, "chains": 1, "rng": 1}
    with pytest.raises(ValueError, match="every is the time between checkpoints, and there are none: name their file"):
        nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), every=30, **run)
    nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), every=30, checkpoint=tmp_path / "kept.npz", **run)
    assert (tmp_path / "kept.npz").is_file()
