"""Missing values and other bad data under a formula."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from support.formula_table import example_table

from nrmmix.model.frame.formula import model_frame
from nrmmix.model.frame.rows import NewRows
from nrmmix.model.frame.sources.opening import source_of
from nrmmix.model.frame.streaming import gather, streamed_frame


@pytest.fixture
def table():
    return example_table()


def test_dropped_rows_are_counted(table):
    table.loc["r1", "x"] = np.nan
    table.loc[["r1", "r4"], "y"] = None
    table.loc["r6", "group"] = None
    table.loc["r7", "z"] = np.nan
    message = r"^3 of 12 rows dropped: missing values in y \(2\), x \(1\), group \(1\)$"
    with pytest.warns(UserWarning, match=message):
        frame = model_frame("y ~ x + group", table)
    assert list(np.flatnonzero(~frame.used)) == [1, 4, 6]
    assert list(frame.index) == [label for label in table.index if label not in ("r1", "r4", "r6")]
    assert frame.response.shape == (9, 1) and np.isfinite(frame.covariates).all()


def test_the_warning_points_at_the_caller(table):
    table.loc["r1", "x"] = np.nan
    with pytest.warns(UserWarning) as caught:
        model_frame("y ~ x", table)
    assert caught[0].filename == __file__


def test_unused_columns_may_be_missing_or_odd(table):
    table["z"] = np.nan
    table["group"] = pd.Timestamp("2020-01-01")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model_frame("y ~ x", table).used.all()


def test_nullable_types_and_objects(table):
    table["count"] = table["count"].astype("Int64")
    table["flag"] = table["flag"].astype("boolean")
    table.loc["r0", "count"] = pd.NA
    table.loc["r3", "flag"] = pd.NA
    table["x"] = table["x"].astype(object)
    with pytest.warns(UserWarning, match="2 of 12"):
        frame = model_frame("y ~ count + flag + x", table)
    np.testing.assert_array_equal(frame.covariates[:, 0], table["count"].drop(["r0", "r3"]).astype(float))
    assert frame.covariate_names == ("count", "flag", "x") and set(frame.covariates[:, 1]) == {0.0, 1.0}


def test_missing_raise_names_the_place(table):
    table.loc["r4", "x"] = np.nan
    with pytest.raises(ValueError, match=r"'x' misses row 4 \(index label 'r4'\)"):
        model_frame("y ~ x", table, missing="raise")
    assert model_frame("y ~ z", table, missing="raise").used.all()


@pytest.mark.parametrize("missing", ["impute", None, "ignore"])
def test_missing_modes(table, missing):
    with pytest.raises(ValueError, match="use missing='drop' or missing='raise' or missing='marginalize'"):
        model_frame("y ~ x", table, missing=missing)


def test_no_row_left(table):
    table.loc[table.index[:6], "x"] = np.nan
    table.loc[table.index[6:], "y"] = np.nan
    with pytest.raises(ValueError, match=r"No row of 12 is complete: missing values in y \(6\), x \(6\)"):
        model_frame("y ~ x", table)


@pytest.mark.parametrize("column", ["y", "x"])
def test_infinite_values_are_not_missing(table, column):
    table.loc["r5", column] = -np.inf
    table.loc["r5", "z"] = np.nan
    with pytest.raises(ValueError, match=rf"'{column}' is -inf in row 5 \(index label 'r5'\)"):
        model_frame("y + z ~ x", table)


def test_transformations_must_stay_finite(table):
    table.loc["r2", "z"] = np.nan
    table.loc["r8", "x"] = 0.0
    with (
        pytest.warns(UserWarning, match="1 of 12"),
        pytest.raises(ValueError, match=r"covariate 'log\(x\)' is -inf in row 8 \(index label 'r8'\)"),
    ):
        model_frame("y + z ~ log(x)", table)


def test_constant_columns(table):
    table["x"] = 7.0
    for formula, what in (("y ~ x", "covariate"), ("x ~ y", "response"), ("x + y ~ 1", "response")):
        with pytest.raises(ValueError, match=f"{what} 'x' is constant"):
            model_frame(formula, table)
    with pytest.raises(ValueError, match=r"covariate 'x' is constant \(7 in all 12 rows used\); leave it out"):
        model_frame("y ~ C(x)", table)
    table["x"] = 1e6 + 1e-4 * table["y"]
    assert model_frame("x ~ 1", table).response.std() > 0


def test_equal_columns(table):
    table["copy"] = table["x"]
    with pytest.raises(ValueError, match="covariates 'x' and 'copy' are equal"):
        model_frame("y ~ x + copy", table)
    with pytest.raises(ValueError, match="responses 'x' and 'copy' are equal"):
        model_frame("x + copy ~ z", table)
    with pytest.raises(ValueError, match="stands twice"):
        model_frame("y + y ~ x", table)


@pytest.mark.parametrize("formula, column, word", [
    ("Q('log(x)') + log(x) ~ 1", "log(x)", "response 'log(x)'"),
    ("y ~ Q('log(x)') + log(x)", "log(x)", "covariate 'log(x)'"),
    ("y ~ x*z + Q('x:z')", "x:z", "covariate 'x:z'"),
])
def test_columns_that_are_called_as_what_is_computed(table, formula, column, word):
    table[column] = np.arange(12.0) ** 2
    with pytest.raises(ValueError, match=re.escape(word) + " is both a column and computed from 'x'.*; rename the column"):
        model_frame(formula, table)
    assert len(model_frame(f"y ~ Q({column!r}) + x", table).covariate_names) == 2


def test_one_row_is_not_called_constant(table):
    frame = model_frame("y ~ x", table.head(1))
    assert frame.response.shape == (1, 1) and frame.covariates.shape == (1, 1)


@pytest.mark.parametrize("left", ["group", "C(count)", "y + group"])
def test_text_responses(table, left):
    with pytest.raises(ValueError, match=r"response '(group|C\(count\))' holds text or categories"):
        model_frame(f"{left} ~ x", table)


def test_a_response_is_one_column(table):
    with pytest.raises(ValueError, match=r"'bs\(y, df=4\)' has 4 columns"):
        model_frame("bs(y, df=4) ~ x", table)


def test_dates_and_mixtures_of_types(table):
    table["when"] = pd.date_range("2020-01-01", periods=len(table))
    with pytest.raises(ValueError, match="'when' holds Timestamp"):
        model_frame("when ~ x", table)
    table["mixed"] = table["group"].astype(object)
    table.loc["r2", "mixed"] = 4
    with pytest.raises(ValueError, match=r"'mixed' holds text and also 4 \(int\) in row 2"):
        model_frame("y ~ mixed", table)


def test_errors_of_patsy_keep_message_and_piece(table):
    with pytest.raises(ValueError, match=r"cannot be evaluated: .*df=1 is too small"):
        model_frame("y ~ bs(x, df=1)", table)
    with pytest.raises(ValueError, match=r"'1.5' cannot be evaluated"):
        model_frame("y ~ x + 1.5", table)
    with pytest.raises(ValueError, match="only allowed with"):
        model_frame("y ~ x + 2", table)
    with pytest.raises(ValueError, match="Unary minus"):
        model_frame("y ~ -x", table)


IDS = 2**60 + np.arange(12) % 3 * 100


@pytest.mark.parametrize("ids", [IDS, IDS.astype(object), pd.array(IDS, dtype="Int64"), 2**60 + np.arange(12) % 3])
def test_codes_that_floats_do_not_tell_apart(table, ids):
    table["id"] = ids
    for formula, reads in (("y ~ C(id)", None), ("y ~ C(id + 1)", None), ("id ~ x", lambda names: ["categories"] * len(names))):
        with pytest.raises(ValueError, match=r"'id' holds the code 11529215046068\d+ in row 1 .*, data\['id'\].astype\(str\)"):
            model_frame(formula, table, reads=reads)
    with pytest.raises(ValueError, match="'id' holds the code"):
        gather("y ~ C(id)", source_of([table[:6], table[6:]]))
    assert len(model_frame("y ~ C(id)", table.assign(id=table["id"].astype(str))).covariate_names) == 2


def test_large_codes_that_floats_tell_apart(table):
    table["id"] = 2**60 + np.arange(12) % 3 * 1024
    frame = model_frame("y ~ C(id)", table)
    assert frame.covariate_names[0] == f"C(id)[T.{2**60 + 1024}]"
    with pytest.raises(ValueError, match=f"'id' holds the code {2**60 + 1025} in row 0"):
        NewRows(frame, {"id": [2**60 + 1025]}).covariates()


@pytest.mark.parametrize("column, contrast, levels", [
    ("group", "Treatment('zz')", "level 'zz' is not found; the levels are 'a', 'b', 'c'"),
    ("count", "Treatment(9)", "level 9 is out of range; the levels are 0, 1, 2, 3, 4"),
    ("count", "Treatment(-1)", "level -1 is out of range"),  # not the last one
    ("group", "Sum(0)", "level 0 is out of range"),
])
def test_contrasts_with_no_level(table, column, contrast, levels):
    for formula in (f"y ~ C({column}, {contrast})", f"y ~ 0 + C({column}, {contrast})"):
        with pytest.raises(ValueError, match=re.escape(contrast) + ".* cannot be evaluated: " + levels):
            model_frame(formula, table)
    assert model_frame("y ~ C(count, Treatment(2))", table).covariate_names[1] == "C(count, Treatment(2))[T.1]"


def test_levels_that_are_written_alike(table):
    table["c"] = pd.Categorical([1, "1", "b"] * 4, categories=[1, "1", "b"])
    for formula in ("c ~ 1", "y ~ 0 + C(c)", "y ~ x:c"):
        with pytest.raises(ValueError, match="levels 1 and '1' of 'c' are written alike"):
            model_frame(formula, table)
    with pytest.raises(ValueError, match="levels 1 and '1' of 'c' are written alike"):
        model_frame("c ~ 1", table, reads=lambda names: ["categories"])
    assert model_frame("y ~ c", table).covariate_columns["c"] == (1, "1", "b")


TOGETHER = "a formula cannot leave out levels that no row has together: make one column of 'a', 'b' in the data"


@pytest.mark.parametrize("formula, message", [
    ("y ~ a * b", r"'a\[T.w\]:b\[q\]' is constant \(0 in all 12 rows used\); " + TOGETHER),
    ("y ~ C(a) * C(b, Treatment('q'))", r"'C\(a\)\[T.w\]' and .* are equal in every row; " + TOGETHER),
    ("y ~ C(a, levels=['u', 'v', 'w', 'x'])", r"\[T.x\]\" is constant .*; if no row has this level of 'a', leave it out of levels=\."),
])
def test_cells_that_no_row_is_in(table, formula, message):
    table = table.assign(a=list("uuuuvvvvwwww"), b=list("pqpqpqpqpppp"))
    with pytest.raises(ValueError, match=message):
        model_frame(formula, table)
    with pytest.raises(ValueError, match=message):
        streamed_frame(formula, source_of([table.iloc[:6], table.iloc[6:]]))
