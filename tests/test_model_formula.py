"""Formulas: what is refused, how tables become arrays, and what happens to new data."""

import copy
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from support.formula_table import example_table

from nrmmix.model.frame.formula import model_frame
from nrmmix.model.frame.rows import NewRows


@pytest.fixture
def table():
    return example_table()


REFUSED = [
    "__import__('os').system('x') ~ 1",
    "y ~ x.__class__",
    "y ~ x.mean()",
    "y ~ [x for x in y]",
    "y ~ I([v for v in x])",
    "y ~ (lambda: 0)()",
    "y ~ I(lambda: x)",
    'y ~ np.load("f")',
    "y ~ np.linalg.inv(x)",
    "y ~ np.fromfile(x)",
    'y ~ open("f")',
    "y ~ eval(x)",
    'y ~ getattr(x, "values")',
    "y ~ x if x else z",
    "y ~ x; z",
    "y ~ I(x)[0]",
    "y ~ x[0]",
    "y ~ x[1:2]",
    "y ~ I(x)(z)",
    "y ~ I(x > 2)",
    "y ~ x == z",
    "y ~ x and z",
    "y ~ x % z",
    "y ~ x // z",
    "y ~ x @ z",
    "y ~ (w := x)",
    "y ~ I(w := x)",
    "y ~ f'{x}'",
    "y ~ I(f'{x}')",
    "y ~ {x}",
    "y ~ I({x: z})",
    "y ~ log(*x)",
    "y ~ bs(x, **z)",
    "y ~ log(x, z)",
    "y ~ np.log(x, out=z)",
    "y ~ log(x, where=z)",
    "y ~ __builtins__",
    'y ~ Q("__builtins__")',
    "y ~ Q(x)",
    'y ~ Q("x", "z")',
    'y ~ "x"',
    "y ~ b'x'",
    'y ~ I("a" * 999999999)',
    "y ~ I([1] * 999999999)",
    "y ~ I(9 ** 9 ** 9 ** 9)",
    "y ~ I(x + 9 ** 9)",
    "y ~ x ** 999999",
    "y ~ I(x ** 101)",
    "y ~ I(1e999 * x)",
    "y ~ I(1j * x)",
    "y ~ I(2)",
    "y ~ np.pi",
    "y ~ True",
    "y ~ 0x10",
    "0b1 ~ x",
    "y ~ x # comment",
    "y ~ x \\\n + z",
    "y ~ x\x00",
    "y ~ bs(x, df=z)",
    "y ~ bs(x, df=10000000)",
    "y ~ bs(x, 10000000)",
    "y ~ bs(x, knots=[z])",
    "y ~ bs(x, colour=3)",
    "y ~ C(x, open)",
    "y ~ C(x, Treatment(z))",
    "y ~ C(x, contrast=np.log)",
    "y ~ I(x:z)",
    "y ~ ｃenter(x)",
    "y ~ x ~ z",
    "(y ~ x)",
    "y ~ x z",
    "y ~ (x",
    "y ~ x)",
    "y ~ 'x",
    "y ~ import",
    "y ~ x +",
    "y ~ " + "(" * 300 + "x" + ")" * 300,
    "y ~ " + "-" * 1500 + "x",
    "y ~ " + "I(" * 200 + "x" + ")" * 200,
    "y ~ " + " + ".join(["x"] * 1000),
    "y ~ " + "+".join(["x"] * 990),
    "y ~ (x + z + count + flag + group) ** 4 * (x + z + count + flag + group) ** 4 * (x + z) ** 2",
]


@pytest.mark.parametrize("formula", REFUSED)
def test_refuses_what_is_not_in_the_grammar(table, formula, monkeypatch):
    def never(*arguments, **options):
        raise AssertionError("a refused formula was evaluated")

    monkeypatch.setattr("patsy.eval.EvalEnvironment.eval", never)
    with pytest.raises(ValueError, match=r"not allowed|There is no column"):
        model_frame(formula, table)


@pytest.mark.parametrize(
    ("formula", "piece", "why"),
    [
        ("y ~ x.__class__", "'x.__class__'", "attributes"),
        ("y ~ x + log(z > 1)", "'>'", "operator"),
        ("y ~ x + open('f:g')", "\"open('f:g')\"", "open is not one of the functions. "),
        ("Log(y) ~ x", "'Log(y)'", "did you mean log?"),
        ("y ~ standardise(x)", "'standardise(x)'", "did you mean standardize?"),
        ("y ~ center_(x)", "'center_(x)'", "did you mean center?"),
        ("surv(x, z) ~ y", "'surv(x, z)'", "did you mean Surv?"),
        ("y ~ x:z + I(x)[0]", "'I(x)[0]'", "Subscript"),
        ("y ~ I(x:z)", "'x:z'", "BinOp"),
        ("y ~ lambda: x", "'lambda'", "Python"),
    ],
)
def test_refusal_shows_the_piece_and_what_is_allowed(table, formula, piece, why):
    with pytest.raises(ValueError) as error:
        model_frame(formula, table)
    text = str(error.value)
    assert piece in text and why in text
    assert "log1p" in text and 'Q("any name")' in text and "Surv(time, event)" in text


def test_names_of_the_caller_are_out_of_reach(table):
    secret = table["x"]
    with pytest.raises(ValueError, match="no column 'secret'"):
        model_frame("y ~ secret", table)
    assert secret is not None


@pytest.mark.parametrize("formula", ["", "   ", "\n"])
def test_empty_formula(table, formula):
    with pytest.raises(ValueError, match="formula is empty"):
        model_frame(formula, table)


def test_formula_that_is_no_string(table):
    with pytest.raises(TypeError, match="not DataFrame; give data as data="):
        model_frame(table, None)


def test_missing_tilde_suggests_one(table):
    with pytest.raises(ValueError, match=r"'y \+ z ~ 1'"):
        model_frame("y + z", table)


@pytest.mark.parametrize("formula", ["~ x", " ~ 1"])
def test_missing_response(table, formula):
    with pytest.raises(ValueError, match="has no response"):
        model_frame(formula, table)


@pytest.mark.parametrize(
    "left", ["1 + y", "0 + y", "y - 1", "y + 1", "y:z", "y * z", "y / z", "y - z", "(y+z)**2"]
)
def test_only_sums_on_the_left(table, left):
    with pytest.raises(ValueError, match=r"joined by \+"):
        model_frame(f"{left} ~ x", table)


def test_unknown_column_suggests_the_nearest(table):
    with pytest.raises(ValueError) as error:
        model_frame("y ~ grup", table)
    assert "'grup'" in str(error.value) and "Did you mean 'group'" in str(error.value)
    assert "y, z, x, count, flag, group, my col" in str(error.value)
    with pytest.raises(ValueError, match="Did you mean 'my col'"):
        model_frame('y ~ Q("mycol")', table)


@pytest.mark.parametrize("formula", ["y ~ y", "log(x) ~ z + sin(x)", 'Q("my col") ~ Q("my col")'])
def test_column_on_both_sides(table, formula):
    with pytest.raises(ValueError, match="both sides"):
        model_frame(formula, table)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~", "'y ~' has nothing after the tilde; without covariates write 'y ~ 1'"),
        *((f"y ~ {right}", "no intercept to drop") for right in ("0", "-1", "1 + 0", "x - x - 1")),
    ],
)
def test_nothing_on_the_right(table, formula, message):
    with pytest.raises(ValueError, match=message):
        model_frame(formula, table)


@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x - x", "y ~ 0 + 1"])
def test_no_covariates(table, formula):
    frame = model_frame(formula, table)
    assert frame.covariates is None and frame.covariate_names == ()
    np.testing.assert_array_equal(frame.response, table[["y"]])
    rows = NewRows(frame, table.head(3))
    values, ok = rows.covariates()
    assert values.shape == (3, 0) and ok.all() and list(rows.index) == ["r0", "r1", "r2"]


def test_several_responses_and_layout(table):
    frame = model_frame('y + log(x) + Q("my col") + flag ~ count', table)
    assert frame.response_names == ("y", "log(x)", "my col", "flag")
    expected = np.column_stack([table["y"], np.log(table["x"]), table["my col"], table["flag"]])
    np.testing.assert_array_equal(frame.response, expected)
    for array in (frame.response, frame.covariates):
        assert array.dtype == np.float64 and array.flags.c_contiguous and array.flags.writeable
    assert frame.used.all() and frame.index.equals(table.index)
    frame.response[:] = 0
    assert table["y"].abs().min() > 0


def test_covariates_have_no_intercept(table):
    frame = model_frame("y ~ x + z + x:z + np.sin(2 * np.pi * x) + I(x ** 2)", table)
    assert frame.covariate_names == ("x", "z", "x:z", "np.sin(2 * np.pi * x)", "I(x ** 2)")
    x, z = table["x"], table["z"]
    np.testing.assert_allclose(frame.covariates, np.column_stack([x, z, x * z, np.sin(2 * np.pi * x), x**2]))


def test_operators_follow_patsy(table):
    assert model_frame("y ~ x * z", table).covariate_names == ("x", "z", "x:z")
    assert model_frame("y ~ (x + z + count) ** 2 - x:z", table).covariate_names == (
        *("x", "z", "count", "x:count", "z:count"),
    )
    assert model_frame("y ~\n  x / z", table).covariate_names == ("x", "x:z")


def test_categories_are_coded_against_the_dropped_intercept(table):
    assert model_frame("y ~ C(group)", table).covariate_names == ("C(group)[T.b]", "C(group)[T.c]")
    frame = model_frame("y ~ C(group) - 1", table)
    assert frame.covariate_names == ("C(group)[a]", "C(group)[b]", "C(group)[c]")
    np.testing.assert_array_equal(frame.covariates.sum(axis=1), 1.0)
    assert model_frame("y ~ 0 + C(group)", table).covariate_names == frame.covariate_names


def test_categories_as_they_stand_are_one_column(table):
    """The number of their level, after the numbers, with an intercept and without."""
    wanted = pd.Categorical(table["group"]).codes
    for formula in ("y ~ group", "y ~ group - 1", "y ~ 0 + group"):
        frame = model_frame(formula, table)
        assert frame.covariate_names == ("group",) and frame.is_category.tolist() == [True]
        np.testing.assert_array_equal(frame.covariates[:, 0], wanted)
    frame = model_frame("y ~ group * x", table)
    assert frame.covariate_names == ("x", "group[T.b]:x", "group[T.c]:x", "group")
    assert frame.is_category.tolist() == [False, False, False, True]
    assert model_frame("y ~ group:x", table).covariate_names == ("group[a]:x", "group[b]:x", "group[c]:x")


def test_numbers_have_no_intercept_to_drop(table):
    plain = model_frame("y ~ x + z", table)
    for formula in ("y ~ x + z - 1", "y ~ 0 + x + z", "y ~ -1 + x + z"):
        frame = model_frame(formula, table)
        assert frame.covariate_names == plain.covariate_names
        np.testing.assert_array_equal(frame.covariates, plain.covariates)


@pytest.mark.parametrize(("texts", "says"), [
    (["2020-01-01", "2020-01-02", "2020-01-03 10:00"], "as text; convert it with pandas.to_datetime, as dates such as '2020-01-01' become"),
    (["31.12.2020", "1.1.2021", "2.1.21"], "dates as text"), (["12/31/2020", "1/2/2021", "2020/1/2"], "dates as text"),
    (["2020-01", "2020-02", "2021-01"], "dates as text; convert it with"), (["01/2020", "02/2020", "12/2021"], "dates as text"),
    (["01-Jan-2020", "2-feb-20", "31-Dec-2021"], "dates as text"), (["Jan 2020", "March 2020", "May 3, 2021"], "dates as text"),
    (["2020-Jan-01", "2020-Feb-01", "2020 Mar"], "dates as text"),
    (["1,5", "0,25", "-3,1"], "numbers with commas as text; read the file by pandas.read_csv"),
    (["1,234", "12,345.5", "x"], "apart from 'x'"),
])
def test_dates_and_decimal_commas_as_text_are_no_categories(table, texts, says):
    table["when"] = texts * 4
    with pytest.raises(ValueError, match=says):
        model_frame("y ~ when", table)
    assert len(model_frame("y ~ C(when)", table).covariate_names) == 2


def test_ranges_and_codes_are_categories(table):
    for levels in (["20-30", "30-40", "2019-20"], ["a,b", "1,b", "c"], ["1-2-3-4", "A1", "10.2"], ["2020-Q1", "2020-Q2", "2021-Q1"],
                   ["2009-10", "2010-11", "2011-12"], ["Mar 10", "May", "Dec 5"], ["Jan", "Feb", "Mar"], ["2020-13", "2020-21", "2020-45"]):
        table["group"] = levels * 4
        assert model_frame("y ~ group", table).covariate_names == ("group",)


def test_numbers_as_text_are_no_categories(table):
    table["dose"] = ["1", "2.5", "1e3"] * 4
    with pytest.raises(ValueError, match=r"'dose' holds numbers as text; convert it with pandas.to_numeric, or write C\(dose\)"):
        model_frame("y ~ dose", table)
    table.loc["r7", "dose"] = "?"
    with pytest.raises(ValueError, match=r"numbers as text, apart from '\?' in row 7 \(index label 'r7'\)"):
        model_frame("y ~ dose", table)
    assert len(model_frame("y ~ C(dose)", table).covariate_names) == 3
    table["dose"] = table["dose"].astype("category")
    frame = model_frame("y ~ dose", table)
    assert frame.covariate_names == ("dose",) and np.unique(frame.covariates).tolist() == [0, 1, 2, 3]
    table["dose"] = ["nan", "infinity", "3"] * 4
    assert model_frame("y ~ C(dose)", table).covariate_names == ("C(dose)[T.infinity]", "C(dose)[T.nan]")
    np.testing.assert_array_equal(model_frame("y ~ dose", table).covariates[:3, 0], [2, 1, 0])


def test_category_order_contrasts_and_numbers_in_C(table):
    table["group"] = pd.Categorical(table["group"], categories=["c", "unused", "b", "a"])
    assert model_frame("y ~ C(group)", table).covariate_names == ("C(group)[T.b]", "C(group)[T.a]")
    np.testing.assert_array_equal(model_frame("y ~ group", table).covariates[:, 0], table["group"].map({"c": 0, "b": 1, "a": 2}))
    assert model_frame("y ~ C(group, Treatment('b'))", table).covariate_names == (
        *("C(group, Treatment('b'))[T.c]", "C(group, Treatment('b'))[T.a]"),
    )
    assert model_frame("y ~ C(group, Sum)", table).covariates.min() == -1
    assert model_frame("y ~ C(group, levels=['a', 'b', 'c'])", table).covariate_names[0].endswith("[T.b]")
    assert model_frame("y ~ C(flag)", table).covariate_names == ("C(flag)[T.1]",)
    assert model_frame("y ~ C(count + 0.5)", table).covariate_names[0] == "C(count + 0.5)[T.1.5]"
    table["group"] = pd.Categorical(table["count"], categories=[3, 4, 0, 1, 2])
    assert model_frame("y ~ C(group)", table).covariate_names[:2] == ("C(group)[T.4]", "C(group)[T.0]")
    np.testing.assert_array_equal(model_frame("y ~ group", table).covariates[:, 0], table["count"].map({3: 0, 4: 1, 0: 2, 1: 3, 2: 4}))


def test_columns_named_like_functions():
    table = pd.DataFrame({"C": [1.0, 2.0, 4.0], "scale": [3.0, 1.0, 2.0], "class": [0.0, 5.0, 1.0]})
    frame = model_frame("C ~ scale", table)
    np.testing.assert_array_equal(frame.covariates[:, 0], table["scale"])
    np.testing.assert_array_equal(model_frame("log(C) ~ 1", table).response[:, 0], np.log(table["C"]))
    with pytest.raises(ValueError, match="'scale' as a function and as a column"):
        model_frame("C ~ scale(scale)", table)
    with pytest.raises(ValueError, match=r"write Q\('class'\)"):
        model_frame("C ~ class", table)
    assert model_frame("C ~ Q('class')", table).covariate_names == ("class",)


def test_strings_with_operators_are_columns():
    table = {"a:b ~ c@d": [1.0, 2.0, 4.0], "e": [3, 1, 2]}
    frame = model_frame("e ~ Q('a:b ~ c@d')", table)
    assert frame.covariate_names == ("a:b ~ c@d",)
    np.testing.assert_array_equal(frame.covariates[:, 0], [1, 2, 4])


# ---------------------------------------------------------------- new data


def test_new_covariates_keep_order_index_and_missing_rows(table):
    frame = model_frame("y ~ x + group", table)
    new = pd.DataFrame(
        {"group": ["c", None, "a", "b"], "x": [2, 3, np.nan, 4]}, index=pd.Index(["k", "k", "l", "m"])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = NewRows(frame, new)
        (values, ok), index = rows.covariates(), rows.index
    assert list(index) == ["k", "k", "l", "m"] and list(ok) == [True, False, False, True]
    np.testing.assert_array_equal(values[ok], [[2, 2], [4, 1]])
    assert np.isnan(values[~ok]).all() and values.flags.c_contiguous and values.flags.writeable
    assert frame.covariate_names == ("x", "group")
    coded = model_frame("y ~ x + C(group)", table)
    np.testing.assert_array_equal(NewRows(coded, new).covariates()[0][ok], [[0, 1, 2], [1, 0, 4]])
    assert coded.covariate_names == ("C(group)[T.b]", "C(group)[T.c]", "x")


def test_new_data_reproduce_the_training_data(table):
    frame = model_frame("log(x) + z ~ standardize(count) * group + bs(y, df=5) + C(flag)", table)
    rows = NewRows(frame, table)
    values, ok = rows.covariates()
    np.testing.assert_array_equal(values, frame.covariates)
    np.testing.assert_array_equal(rows.responses(), frame.response)
    assert ok.all() and rows.index.equals(table.index)


def test_transformations_use_the_state_of_the_training_data(table):
    frame = model_frame("y ~ center(x) + bs(x, df=4) + cr(z, df=3)", table)
    part = table.iloc[[3, 8]]
    values = NewRows(frame, part).covariates()[0]
    np.testing.assert_allclose(values, frame.covariates[[3, 8]], rtol=0, atol=1e-14)
    np.testing.assert_allclose(values[:, 0], part["x"] - table["x"].mean())
    centred = model_frame("center(y) ~ 1", table)
    np.testing.assert_allclose(NewRows(centred, {"y": [5.0]}).responses()[0, 0], 5.0 - table["y"].mean())


def test_state_comes_from_the_used_rows_only(table):
    table.loc["r0", "y"] = np.nan
    table.loc["r0", "group"] = "only here"
    table.loc["r0", "x"] = 1e9
    with pytest.warns(UserWarning, match="1 of 12"):
        frame = model_frame("y ~ center(x) + group", table)
    values = NewRows(frame, {"x": [0.0], "group": ["a"]}).covariates()[0]
    np.testing.assert_allclose(values, [[-table["x"].iloc[1:].mean(), 0.0]])
    with pytest.raises(ValueError, match="'only here'"):
        NewRows(frame, table).covariates()


def test_splines_outside_of_the_training_range(table):
    frame = model_frame("y ~ bs(x, df=4)", table)
    with pytest.raises(ValueError, match=r"'bs\(x, df=4\)' cannot be evaluated: .*outside the outermost.*cr\(x, df=4\), which goes on"):
        NewRows(frame, {"x": [2.0, 100.0]}).covariates()


@pytest.mark.parametrize("term", ["cr(x, df=4)", "bs(x, df=4, lower_bound=-9, upper_bound=200)"])
def test_splines_that_go_on(table, term):
    """What the error of a B-spline beyond its knots names in its place."""
    ends = table["x"].max() + np.array([1.0, 2.0, 3.0])
    values = NewRows(model_frame(f"y ~ {term}", table), {"x": ends}).covariates()[0]
    assert np.isfinite(values).all()
    if term.startswith("cr"):
        np.testing.assert_allclose(np.diff(values, 2, axis=0), 0.0, atol=1e-9)


@pytest.mark.parametrize("term", ["group", "C(group)", "C(group, Sum)"])
def test_unseen_levels(table, term):
    frame = model_frame(f"y ~ {term}", table)
    with pytest.raises(ValueError, match=r"'group' holds the level 'q' in row 1 \(index label 9\).*'a', 'b'"):
        NewRows(frame, pd.DataFrame({"group": ["a", "q"]}, index=[5, 9])).covariates()


def test_unseen_numbers_in_C(table):
    frame = model_frame("y ~ C(count) + x", table)
    with pytest.raises(ValueError, match=r"'count' holds the level 7 in row 0.*are 0, 1, 2, 3, 4\."):
        NewRows(frame, {"count": [7], "x": [1]}).covariates()
    np.testing.assert_array_equal(NewRows(frame, {"count": [3.0], "x": [1]}).covariates()[0], [[0, 0, 1, 0, 1]])


def test_categorical_new_data_with_other_categories(table):
    new = pd.DataFrame({"group": pd.Categorical(["c", "b"], categories=["c", "b"])})
    np.testing.assert_array_equal(NewRows(model_frame("y ~ group", table), new).covariates()[0], [[2], [1]])
    np.testing.assert_array_equal(NewRows(model_frame("y ~ C(group)", table), new).covariates()[0], [[0, 1], [1, 0]])


def test_bad_new_data(table):
    frame = model_frame("y ~ log(x) + group", table)
    with pytest.raises(ValueError, match=r"no column 'group' in the new data.*columns are x, grup"):
        NewRows(frame, {"x": [1.0], "grup": ["a"]}).covariates()
    with pytest.raises(ValueError, match="'x' is inf in row 1"):
        NewRows(frame, {"x": [1.0, np.inf], "group": ["a", "a"]}).covariates()
    with pytest.raises(ValueError, match=r"'log\(x\)' is nan in row 2 \(index label 'c'\)"):
        NewRows(frame, pd.DataFrame({"x": [1.0, None, -1.0], "group": "a"}, index=list("abc"))).covariates()
    with pytest.raises(ValueError, match="'x' holds 'one'"):
        NewRows(frame, {"x": ["one"], "group": ["a"]}).covariates()
    with pytest.raises(TypeError, match="named columns"):
        NewRows(frame, np.ones((3, 2))).covariates()
    with pytest.raises(TypeError, match="named columns"):
        NewRows(frame, np.ones((3, 2))).responses()


def test_new_data_without_rows(table):
    frame = model_frame("y + z ~ bs(x, df=4) + group", table)
    rows = NewRows(frame, table.head(0))
    values, ok = rows.covariates()
    assert values.shape == (0, 5) and len(rows.index) == 0 and ok.shape == (0,)
    assert rows.responses().shape == (0, 2)


def test_new_data_of_missing_rows_only(table):
    frame = model_frame("y ~ bs(x, df=4)", table)
    values, ok = NewRows(frame, {"x": [None, np.nan]}).covariates()
    assert values.shape == (2, 4) and np.isnan(values).all() and not ok.any()


def test_new_response(table):
    frame = model_frame("log(x) + y ~ z", table)
    index = pd.date_range("2020", periods=3)
    new = pd.DataFrame({"x": [1.0, np.nan, np.e], "y": [np.nan, 2.0, 3.0]}, index=index)
    np.testing.assert_allclose(NewRows(frame, new).responses(), [[0.0, np.nan], [np.nan, 2.0], [1.0, 3.0]])
    assert NewRows(frame, new[["x"]]).responses() is None
    assert NewRows(frame, {"z": [1.0]}).responses() is None
    with pytest.raises(ValueError, match="'y' is inf in row 0"):
        NewRows(frame, {"x": [1.0], "y": [np.inf]}).responses()
    with pytest.raises(ValueError, match=r"response 'log\(x\)' is -inf in row 0"):
        NewRows(frame, {"x": [0.0], "y": [1.0]}).responses()


# ---------------------------------------------------------------- without a formula


def test_without_a_formula_every_column_is_a_response(table):
    frame = model_frame(None, table[["y", "my col", "flag"]])
    assert frame.formula is None and frame.covariates is None
    assert frame.response_names == ("y", "my col", "flag")
    np.testing.assert_array_equal(frame.response, table[["y", "my col", "flag"]].astype(float))
    with pytest.raises(ValueError, match="'group' holds 'b'"):
        model_frame(None, table)
    with pytest.raises(TypeError, match="named columns"):
        NewRows(frame, np.ones((2, 3))).responses()


def test_arrays(table):
    values = np.asfortranarray(np.random.default_rng(2).normal(size=(8, 3)).astype(np.float32))
    values.flags.writeable = False
    frame = model_frame(None, values)
    assert frame.response_names == ("y1", "y2", "y3")
    np.testing.assert_array_equal(frame.response, values)
    assert frame.response.flags.c_contiguous and frame.response.flags.writeable
    np.testing.assert_array_equal(NewRows(frame, np.array([[1, 2, np.nan]])).responses(), [[1, 2, np.nan]])
    named = pd.DataFrame(values[:2], columns=["y1", "y2", "y3"])
    np.testing.assert_array_equal(NewRows(frame, named).responses(), values[:2])
    assert NewRows(frame, np.ones((4, 3))).covariates()[0].shape == (4, 0)
    with pytest.raises(ValueError, match="have 2 columns; the model was built from 3"):
        NewRows(frame, np.ones((4, 2))).responses()
    assert NewRows(model_frame(None, np.arange(5.0)), np.array([7.0])).responses().tolist() == [[7.0]]


def test_array_with_missing_rows():
    with pytest.warns(UserWarning, match=r"1 of 3 rows dropped: missing values in y2 \(1\)"):
        frame = model_frame(None, np.array([[1.0, 2.0], [2.0, np.nan], [3.0, 5.0]]))
    assert frame.index.tolist() == [0, 2]


def test_formula_on_an_array():
    frame = model_frame("y1 ~ y2", np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 5.0]]))
    assert frame.covariates[:, 0].tolist() == [2.0, 4.0, 5.0]


# ---------------------------------------------------------------- the object


def test_pickle_and_copy_rebuild_the_frame(table):
    table.loc["r3", "x"] = np.nan
    with pytest.warns(UserWarning, match="1 of 12"):
        frame = model_frame("y ~ center(x) + group", table)
    new = {"x": [3.0, None], "group": ["c", "a"]}
    for other in (pickle.loads(pickle.dumps(frame)), copy.deepcopy(frame)):
        np.testing.assert_array_equal(other.covariates, frame.covariates)
        np.testing.assert_array_equal(NewRows(other, new).covariates()[0], NewRows(frame, new).covariates()[0])
        np.testing.assert_array_equal(other.used, frame.used)
        assert other.index.equals(frame.index) and other.formula == frame.formula


def test_frozen(table):
    frame = model_frame("y ~ x", table)
    with pytest.raises(AttributeError):
        frame.formula = "z ~ x"
    assert "y ~ x" in repr(frame) and "array" not in repr(frame)


def test_import_is_light():
    code = (
        "import sys; import nrmmix.model.frame.formula; "
        "print([m for m in ('statsmodels', 'matplotlib', 'numba') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
