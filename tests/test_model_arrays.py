"""Every spelling of a table becomes the same float64 array, and bad entries are named."""

import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from nrmmix.common.messages import unknown_column
from nrmmix.model.frame import arrays, tables

BASE = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])


def read_only(values):
    values = values.copy()
    values.flags.writeable = False
    return values


SPELLINGS = {
    "plain": BASE,
    "fortran": np.asfortranarray(BASE),
    "strided": np.repeat(np.repeat(BASE, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": BASE[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": read_only(BASE),
    "float32": BASE.astype(np.float32),
    "float16": BASE.astype(np.float16),
    "longdouble": BASE.astype(np.longdouble),
    "big-endian": BASE.astype(">f8"),
    "integers": BASE.astype(np.int16),
    "unsigned": BASE.astype(np.uint64),
    "objects": BASE.astype(object),
    "decimals": np.array([[Decimal(int(v)) for v in row] for row in BASE], dtype=object),
    "list": BASE.tolist(),
    "frame": pd.DataFrame(BASE, columns=["a", "b"]),
    "nullable": pd.DataFrame(BASE).astype("Int64"),
    "mixed frame": pd.DataFrame(BASE).astype({0: "Float32", 1: "int8"}),
    "masked": np.ma.masked_array(BASE),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_matrix_gives_one_layout(name):
    source = SPELLINGS[name]
    out = arrays.matrix(source)
    np.testing.assert_array_equal(out, BASE)
    assert type(out) is np.ndarray and out.dtype == np.float64 and out.dtype.isnative
    assert out.flags.c_contiguous and out.flags.writeable and out.flags.owndata
    assert not np.shares_memory(out, BASE)
    out[:] = -1.0
    np.testing.assert_array_equal(np.asarray(SPELLINGS["plain"]), [[1, 2], [3, 4], [5, 7]])


def test_matrix_shapes():
    assert arrays.matrix([1.0, 2.0]).shape == (2, 1)
    assert arrays.matrix(np.empty((0, 3))).shape == (0, 3)
    assert arrays.matrix(np.array([True, False])).tolist() == [[1.0], [0.0]]
    with pytest.raises(ValueError, match="1 or 2 dimensions, not 3"):
        arrays.matrix(np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match="differ in length"):
        arrays.matrix([[1, 2], [3]])
    with pytest.raises(ValueError, match="2 columns but 1 names: a"):
        arrays.matrix(BASE, ["a"])


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_matrix_names_the_entry_that_is_not_finite(value, shown):
    bad = BASE.copy()
    bad[2, 1] = value
    with pytest.raises(ValueError, match=rf"response 'b' is {shown} in row 2 \(index label 'r'\)"):
        arrays.matrix(bad, ["a", "b"], pd.Index(["p", "q", "r"]))
    with pytest.raises(ValueError, match=rf"covariate 'y2' is {shown} in row 2;"):
        arrays.matrix(bad, what="covariate")
    with pytest.raises(ValueError, match=r"row 2 \(index label 9\)"):
        arrays.matrix(pd.DataFrame(bad, index=[7, 8, 9]))


def test_matrix_names_rows_of_a_longer_table():
    bad = np.array([[1.0], [np.nan]])
    with pytest.raises(ValueError, match=r"row 3 \(index label 'd'\)"):
        arrays.matrix(bad, ["a"], pd.Index(list("abcd")), rows=np.array([1, 3]))


def test_masked_entries_are_missing():
    masked = np.ma.masked_array(BASE, mask=BASE == 4.0)
    with pytest.raises(ValueError, match="'y2' is nan in row 1"):
        arrays.matrix(masked)
    assert np.isnan(tables.as_frame(masked).loc[1, "y2"])


@pytest.mark.parametrize("bad", ["3.2", 1j, [1.0], pd.Timestamp("2020-01-01")])
def test_objects_that_are_not_numbers(bad):
    values = pd.Series([1.0, bad], dtype=object, index=["i", "j"])
    with pytest.raises(ValueError, match=r"response 'v' holds .* in row 1 \(index label 'j'\)"):
        arrays.floats(values, "v", what="response")


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "Timestamp.*time since some date"),
        (np.array(["2020-01-01", "2020-01-02"], "M8[D]"), "time since some date"),
        (pd.to_timedelta([1, 2], unit="D"), "divide the column by a unit of time"),
        (np.array([np.timedelta64(1, "D"), 2.0], object), "divide the column by a unit of time"),
        ([1j, 2.0], "real and imaginary parts"),
        (["1", "2"], "pandas.to_numeric"),
        ([b"1", b"2"], r"decode it, for instance with Series.str.decode\('utf-8'\)"),
        (pd.interval_range(0, 2), r"make categories of the column with astype\('category'\)"),
        ([datetime.time(3)], "its hours"),
        ([object()], r"convert it to a number, or to text with astype\(str\)"),
    ],
)
def test_remedies(values, remedy):
    with pytest.raises(ValueError, match=remedy):
        arrays.floats(values, "v")


def test_messages_do_not_grow_with_what_they_show():
    with pytest.raises(ValueError) as error:
        arrays.floats(["a" * 10_000], "v")
    assert len(str(error.value)) < 300
    assert len(str(unknown_column("x", [f"column{i}" for i in range(10_000)]))) < 500


def test_complex_and_categorical_columns():
    with pytest.raises(ValueError, match="not a real number"):
        arrays.floats(np.array([1j, 2.0]), "v")
    with pytest.raises(ValueError, match="'v' is categorical"):
        arrays.floats(pd.Series(pd.Categorical([1, 2])), "v")
    with pytest.raises(ValueError, match="64-bit"):
        arrays.floats(np.array([1, 10**400], dtype=object), "v")


def test_floats_keep_missing_values():
    values = [1, None, pd.NA, np.nan, np.float32("nan"), pd.NaT, Decimal("sNaN"), Fraction(1, 2), True]
    out = arrays.floats(pd.Series(values, dtype=object), "v")
    np.testing.assert_array_equal(out, [1, *[np.nan] * 6, 0.5, 1])
    np.testing.assert_array_equal(arrays.floats(pd.array([True, None]), "v"), [1, np.nan])
    with pytest.raises(ValueError, match="one dimension, not 2"):
        arrays.floats(BASE, "v")


def test_floats_are_a_copy():
    out = arrays.floats(pd.Series([1, 2], dtype="int8"), "v")
    assert out.dtype == np.float64 and out.flags.writeable and out.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "values",
    [[0, 2, 1], (0.0, 2.0, 1.0), np.array([0, 2, 1], dtype=np.int8), pd.Series([0, 2, 1], dtype="Int64")],
)
def test_labels(values):
    out = arrays.labels(values, 3)
    assert out.dtype == np.int64 and out.flags.writeable and out.tolist() == [0, 2, 1]


def test_labels_are_copied():
    values = np.array([0, 1], dtype=np.int64)
    arrays.labels(values, 2)[:] = 5
    assert values.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([0, 1], "There are 2 init for 3 rows"),
        ([[0, 1, 2]], "one dimension, not 2"),
        (3, "one dimension, not 0"),
        ([0, 1.5, 2], r"1.5 in row 1 \(index label 'b'\)"),
        ([0, 1, None], "nan in row 2"),
        ([0, np.inf, 1], "inf in row 1"),
        ([0, 1e30, 1], "whole numbers"),
        (["a", "b", "c"], "holds 'a'"),
    ],
)
def test_bad_labels(values, message):
    with pytest.raises(ValueError, match=message):
        arrays.labels(values, 3, pd.Index(["a", "b", "c"]), what="init")


class Foreign:
    """A table of another library."""

    def __init__(self, result):
        self.result = result

    def to_pandas(self):
        return self.result


def test_a_series_is_a_row_or_a_column():
    values = pd.Series([1.0, 2.0, 3.0], index=["x", "u", "v"], name="x")
    assert tables.as_rows(values, ["y", "x"]).to_dict("list") == {"x": [1.0, 2.0, 3.0]}  # by its own name
    for name in (None, "u", 7):
        assert tables.as_rows(values.rename(name), ["y", "x"]).to_dict("list") == {"x": [1.0], "u": [2.0], "v": [3.0]}
    assert len(tables.as_rows(values[:1], ["y", "x"])) == len(tables.as_rows(values, ["x", "u", "v"])) == 1
    assert tables.as_rows(values[:0], ["x"]).shape == (0, 1)


def test_as_frame_accepts():
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]}, index=["p", "q"])
    assert tables.as_frame(frame).index.tolist() == ["p", "q"]
    assert tables.as_frame(Foreign(frame)).equals(frame)
    assert tables.as_frame({"a": [1, 2], "b": (3, 4)}).columns.tolist() == ["a", "b"]
    assert tables.as_frame(frame["a"]).columns.tolist() == ["a"]
    assert tables.as_frame(pd.Series([1, 2])).columns.tolist() == ["y1"]
    assert tables.as_frame(np.ones(3)).shape == (3, 1)
    assert tables.as_frame(np.ones((3, 2))).columns.tolist() == ["y1", "y2"]
    records = np.array([(1, 2.0)], dtype=[("u", int), ("v", float)])
    assert tables.as_frame(records).columns.tolist() == ["u", "v"]
    assert tables.as_frame(pd.DataFrame({0: [1], 1: [2]})).columns.tolist() == ["0", "1"]
    assert arrays.matrix(Foreign(frame)).tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_as_frame_leaves_the_input_alone():
    frame = pd.DataFrame({0: [1], 1: [2]})
    tables.as_frame(frame)
    assert frame.columns.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (pd.DataFrame({"a": []}), ValueError, r"no rows \(columns: a\)"),
        (pd.DataFrame(index=[1, 2]), ValueError, "no columns"),
        (np.empty((0, 2)), ValueError, "no rows"),
        (np.zeros((2, 2, 2)), ValueError, "1 or 2 dimensions, not 3"),
        (np.array(1.0), ValueError, "1 or 2 dimensions, not 0"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), ValueError, "'a' occurs more than once"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), ValueError, "'1' occurs more than once"),
        (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])), ValueError, "several levels"),
        ({"a": [1, 2], "b": [1]}, ValueError, r"differ in length \('a' has 2, 'b' has 1\); give columns of one length"),
        ({"a": 1}, ValueError, r"column 'a' of the dict is not a list of values but 1 \(int\)"),
        ({"a": "bc"}, ValueError, "column 'a' of the dict is not a list"),
        ({"a": {1, 2}}, ValueError, "column 'a' of the dict is not a list"),
        ({"a": np.ones((2, 2))}, ValueError, "column 'a' of the dict has 2 dimensions"),
        ({"a": pd.Series([1, 2]), "b": pd.Series([1, 2], index=[4, 5])}, ValueError, "different indexes"),
        (np.zeros((2, 2), dtype=[("a", int)]), ValueError, "named fields must have 1 dimension, not 2"),
        (np.zeros(2, dtype=[("a", int, 2)]), ValueError, "field 'a' of the array is itself an array"),
        ([[1, 2]], TypeError, r"type list are not supported; give pandas.DataFrame\(data\), or an array of columns without names"),
        (None, TypeError, "NoneType"),
        ("data.csv", TypeError, r"name or path such as 'data.csv'; read the file first: pandas.read_csv"),
        (Path("data.csv"), TypeError, "name or path"),
        (csr_array([[1.0]]), TypeError, r"Sparse matrices \(csr_array\) are not supported yet; give data.toarray\(\)"),
        (Foreign(3), TypeError, "did not return a DataFrame but int"),
        (Foreign, TypeError, r"to_pandas\(\) of type failed"),
    ],
)
def test_as_frame_refuses(data, error, message):
    with pytest.raises(error, match=message):
        tables.as_frame(data)


def test_as_frame_may_be_empty():
    assert tables.as_frame({"a": []}, allow_empty=True).shape == (0, 1)


def test_column_kinds():
    text = arrays.column(pd.Series(["b", None, "a"]), "g")
    assert isinstance(text, pd.Categorical) and text.categories.tolist() == ["a", "b"]
    assert arrays.missing_mask(text).tolist() == [False, True, False]
    ordered = arrays.column(pd.Series(pd.Categorical(["b", "a"], categories=["b", "c", "a"])), "g")
    assert ordered.categories.tolist() == ["b", "a"]
    numbers = arrays.column(pd.Series([1, None], dtype=object), "x")
    assert numbers.tolist()[0] == 1.0 and arrays.missing_mask(numbers).tolist() == [False, True]
    assert arrays.column(pd.Series(["a"]), "g", ["b", "a"]).codes.tolist() == [1]
    with pytest.raises(ValueError, match="'x' holds 'a'"):
        arrays.column(pd.Series(["a"]), "x", numeric=True)
    with pytest.raises(ValueError, match="'x' is inf in row 0"):
        arrays.column(pd.Series([np.inf]), "x")


def test_levels_that_are_numbers_are_found_as_python_finds_them():
    """Columns of 0 and 1 come back as booleans from some files; to pandas True is no 1 among categories."""
    nullable, mixed = pd.array([True, False], dtype="boolean"), pd.Series([True, 0], dtype=object)
    for given in (pd.Series([True, False]), pd.Series([1.0, 0.0]), nullable, mixed):
        assert arrays.column(pd.Series(given), "g", [0, 1]).codes.tolist() == [1, 0]
    assert arrays.column(pd.Series([1, None, 0], dtype="Int64"), "g", [False, True]).codes.tolist() == [1, -1, 0]


def test_unseen_levels_of_any_type():
    for item in ("c", 4, ["a"]):
        with pytest.raises(ValueError, match=r"in row 1.*known levels are 'a', 'b'"):
            arrays.column(pd.Series(["a", item], dtype=object), "g", ("a", "b"))


def test_check_distinct():
    noise = np.array([0.0, 1e-4, 3e-4])
    arrays.check_distinct(np.column_stack([1e6 + noise, noise]), ["a", "b"])
    with pytest.raises(ValueError, match=r"'a' is constant \(1e\+06 in all 3 rows"):
        arrays.check_distinct((1e6 + 0 * noise)[:, None], ["a"])
    with pytest.raises(ValueError, match=r"'a' varies by .* only around 1e\+06, which is lost in rounding: subtract"):
        arrays.check_distinct((1e6 + noise * 1e-4)[:, None], ["a"])
    with pytest.raises(ValueError, match="covariate 'b' is constant"):
        arrays.check_distinct(np.column_stack([noise, np.zeros(3)]), ["a", "b"], "covariate")
    with pytest.raises(ValueError, match="'a' and 'c' are equal"):
        arrays.check_distinct(np.column_stack([noise, -noise, noise]), ["a", "b", "c"])
    with pytest.raises(ValueError, match="'a' and 'b' are equal"):
        arrays.check_distinct(np.array([[0.0, -0.0], [1.0, 1.0]]), ["a", "b"])
    arrays.check_distinct(np.ones((1, 2)), ["a", "b"])
    with pytest.raises(ValueError, match=r"'a' varies by 3e-120 only, less than 1e-100; rescale"):
        arrays.check_distinct(1e-116 * noise[:, None], ["a"])


def test_numbers_have_a_limit():
    with pytest.raises(ValueError, match=r"response 'y2' is 1e\+101 in row 1; numbers go up to 1e\+100: rescale the column"):
        arrays.matrix([[1.0, 2.0], [3.0, 1e101]])
    assert arrays.column(pd.Series([1e200]), "x").tolist() == [1e200]  # log(x) is within the limit


def test_arguments_are_numbers_and_no_text():
    for given in ([1, 2], np.array([1, Decimal(2)], object), pd.Series([1, 2], dtype="Int64"), np.array([1.0, 2.0], np.float16)):
        assert arrays.reals(given, "at").tolist() == [1.0, 2.0]
    assert arrays.reals(True, "init", booleans=True) == 1.0 and np.isnan(arrays.reals([None], "at"))
    text = ["1"], np.array(["1", 2], object), pd.Series(["1"], dtype="string"), b"1", [b"1"]
    for given in (*text, True, [False, True], np.array([1, True], object), np.array(["2020"], "M8[D]"), 1j):
        with pytest.raises(ValueError, match="at must hold real numbers, not "):
            arrays.reals(given, "at")
