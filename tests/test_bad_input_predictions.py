"""Bad input to predictions, to other methods of a fit and on the command line: a message that names it, or it works."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from support.bad_input import check, fit, table

import nrmmix as nm
from nrmmix.cli import main

# ------------------------------------------------------------------------------------------------ predictions


@pytest.fixture(scope="module")
def regression():
    return fit("y ~ x + g", kernel=nm.Product({"x": nm.Box(0.3), "g": nm.Matching(0.2)}))


@pytest.fixture(scope="module")
def mixture():
    return fit("y + z ~ 1")


ROW = {"x": [0.5], "g": ["a"]}
NEW = {
    "missing column": ({"x": [0.5]}, ValueError, "no column 'g' in the new data. The only column is 'x'"),
    "misspelt column": ({"x": [0.5], "G": ["a"]}, ValueError, "no column 'g' in the new data"),
    "text": ({"x": ["half"], "g": ["a"]}, ValueError, r"column 'x' holds 'half' \(str\) in row 0"),
    "dates": ({"x": pd.to_datetime(["2020"]), "g": ["a"]}, ValueError, "column 'x' holds Timestamp.*time since"),
    "unseen level": ({"x": [0.5, 0.6], "g": ["a", "q"]}, ValueError, "'g' holds the level 'q' in row 1.*known levels are 'a', 'b', 'c'"),
    "level of another type": ({"x": [0.5], "g": [1]}, ValueError, "column 'g' holds the level 1 in row 0"),
    "inf": ({"x": [np.inf], "g": ["a"]}, ValueError, "column 'x' is inf in row 0"),
    "very large": ({"x": [1e200], "g": ["a"]}, ValueError, r"covariate 'x' is 1e\+200 in row 0; numbers go up to 1e\+100"),
    "out of reach": ({"x": [9.0], "g": ["a"]}, ValueError, r"row 0 \(.*x = 9, g = a\) is out of reach of every location of Product"),
    "an array": (np.zeros((2, 2)), TypeError, "built from named columns; give new data as a DataFrame or a dict"),
    "a list": ([1, 2], TypeError, "type list are not supported"),
    "a kind": ("density", ValueError, r"newdata must be a DataFrame, not 'density'; did you mean kind='density'"),
    "one name twice": (pd.concat([table(), table()], axis=1), ValueError, "'y' occurs more than once"),
}


@pytest.mark.parametrize("name", NEW)
def test_new_data(regression, name):
    data, error, message = NEW[name]
    check(lambda: regression.predict(data), error, message)
    if name != "a kind":
        check(lambda: regression.predict(data, kind="quantile"), error, message)


def test_new_data_without_rows(regression, mixture):
    for kind in ("mean", "density", "cdf", "quantile"):
        assert len(regression.predict(table().head(0), kind=kind)) == 0
    assert len(mixture.predict(table().head(0))) == 0
    assert regression.log_density(table().head(0)).shape == (0,)


def test_new_data_with_gaps_keep_the_index(regression):
    index = pd.MultiIndex.from_tuples([("k", 1), ("k", 1), ("l", 2)])
    new = pd.DataFrame({"x": [0.2, np.nan, 0.4], "g": ["a", "b", None]}, index=index)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = regression.predict(new)
    assert list(out.index) == list(index)
    assert out.notna().all(axis=1).tolist() == [True, False, False]
    out = regression.predict(new.set_axis(["same"] * 3), kind="quantile", q=0.5)
    assert list(out.index) == [("same", 0.5)] * 3 and out["estimate"].isna().tolist() == [False, True, True]


PREDICTIONS = {
    "unknown kind": ({"kind": "mena"}, "unknown kind 'mena'; there are 'mean', .*did you mean 'mean'"),
    "kind of None": ({"kind": None}, "unknown kind None; there are 'mean'"),
    "at of a mean": ({"at": 1.0}, 'at belongs to kind="density", "cdf" and "exceedance"'),
    "at of text": ({"kind": "density", "at": "a"}, "at must hold (real )?numbers, not 'a'"),
    "at of numbers as text": ({"kind": "density", "at": ["0", "1"]}, r"at must hold real numbers, not \['0', '1'\]"),
    "at of True": ({"kind": "density", "at": True}, "at must hold real numbers, not True"),
    "q of text": ({"kind": "quantile", "q": "0.5"}, "q must hold real numbers, not '0.5'"),
    "at NaN": ({"kind": "cdf", "at": np.nan}, "at must be finite"),
    "at of no points": ({"kind": "density", "at": []}, r"at must have shape \(m,\) with m >= 1, not \(0,\)"),
    "at of two responses": ({"kind": "density", "at": [[1, 2]]}, r"at must have shape \(m,\)"),
    "at far out": ({"kind": "density", "at": 1e300}, "prior standard deviations out"),
    "q of 0": ({"kind": "quantile", "q": 0}, "q must hold probabilities between 0 and 1, not 0"),
    "q of 1": ({"kind": "quantile", "q": [0.5, 1]}, "q must hold probabilities between 0 and 1"),
    "q NaN": ({"kind": "quantile", "q": np.nan}, "q must hold probabilities"),
    "no q": ({"kind": "quantile", "q": []}, "q must hold probabilities"),
    "interval of 1": ({"interval": 1}, "interval must be between 0 and 1, not 1"),
    "interval as text": ({"interval": "90%"}, "interval must be between 0 and 1, not '90%'"),
    "draws": ({"draws": 0}, "draws must be an integer of at least 1"),
    "rng": ({"rng": "a"}, "rng must be a non-negative int"),
}


@pytest.mark.parametrize("name", PREDICTIONS)
def test_prediction_arguments(regression, name):
    options, message = PREDICTIONS[name]
    check(lambda: regression.predict(ROW, **options), ValueError, message)


def test_other_methods(regression, mixture):
    check(lambda: regression.log_density(ROW), ValueError, "newdata has no y; log_density needs the response")
    check(lambda: mixture.predict(kind="density", at=[1, 2, 3]), ValueError, r"at must have shape \(m, 2\)")
    check(lambda: mixture.predict(kind="cdf", at=0), ValueError, r"not \(\); with response='\w+' points are of one response\.")
    check(lambda: mixture.plot("mean"), ValueError, "plot 'mean' needs density regression, and this is a mixture; for this model there are")
    check(lambda: mixture.plot("densty"), ValueError, "densty")
    check(lambda: regression.partition("vii"), ValueError, "loss must be one of 'vi', 'binder', not 'vii'")
    check(lambda: regression.partition(max_clusters=0), ValueError, "max_clusters must be")
    check(lambda: regression.autocorrelation("mas"), ValueError, "'mas' is unknown; there are .*did you mean 'mass'")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["y ~ w"], "no column 'w' in the data. The columns are y, z, x, g"),
        (["y ~"], "nothing after the tilde"),
        (["y ~ __import__('os').system('x')"], "not allowed"),
        (["y ~ g", "--kernel", "box", "--width", "-1"], "width must be a number"),
        (["y ~ 1", "--mass", "0"], "mass must be a number"),
        (["y ~ 1", "--draws", "0"], "draws must be an integer of at least 1"),
        (["y ~ 1", "--method", "gibs"], "did you mean 'gibbs'"),
    ],
)
def test_the_command_line(tmp_path, capsys, arguments, message):
    table().to_csv(tmp_path / "table.csv", index=False)
    assert main(["fit", *arguments, "--data", str(tmp_path / "table.csv")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and message in err and "Traceback" not in err
