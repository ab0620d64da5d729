"""Completed tables: columns, types, intervals; fitted values of new rows; what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm

RUN = {"draws": 60, "tune": 60, "chains": 2, "rng": 1}
N = 60


def table():
    rng = np.random.default_rng(3)
    z = rng.integers(0, 2, N)
    a = rng.normal(5.0 * z, 1.0)
    whole = pd.DataFrame({
        "note": [f"row {i}" for i in range(N)], "a": a, "b": 2.0 * a + rng.normal(0, 0.3, N),
        "k": pd.array(rng.poisson(2 + 9 * z), "Int64"),
        "s": pd.array(rng.random(N) < 0.1 + 0.8 * z, "boolean"), "c": pd.Categorical(np.where(z, "red", "blue"), ["red", "blue", "green"]),
        "t": np.where(z, "up", "down").astype(object), "x": rng.normal(size=N),
    }, index=pd.Index([f"r{i}" for i in range(N)], name="id"))
    torn, gap = whole.copy(), rng.random((N, 6)) < 0.12
    gap[gap.sum(axis=1) > 3] = False
    for j, name in enumerate(["a", "b", "k", "s", "c", "t"]):
        torn.loc[gap[:, j], name] = np.nan if name in "ab" else pd.NA if name in "ks" else None
    return whole, torn, gap


WHOLE, TORN, GAP = table()
FAMILY = {"a + b": nm.Gaussian(), "k": nm.Poisson(), "s": nm.Bernoulli(), "c + t": nm.Categorical()}


@pytest.fixture(scope="module")
def fit():
    return nm.fit("a + b + k + s + c + t ~ 1", TORN, family=FAMILY, missing="marginalize", **RUN)


def test_tables_have_the_caller_s_columns_and_types(fit):
    found = fit.impute(draws=4, data=TORN)
    assert len(found) == 4 and all(list(one) == list(TORN) and one.index.equals(TORN.index) for one in found)
    for one in found:
        pd.testing.assert_series_equal(one.dtypes, TORN.dtypes)
        assert not one.drop(columns="note").isna().any().any()
        for j, name in enumerate(["a", "b", "k", "s", "c", "t"]):
            assert (one.loc[~GAP[:, j], name] == TORN.loc[~GAP[:, j], name]).all(), "what was observed stays"
    assert found[0]["a"].tolist() != found[1]["a"].tolist() and {type(value) for value in found[0]["t"]} == {str}
    assert list(fit.impute(2)[0]) == ["a", "b", "k", "s", "c", "t"], "by default the columns of the model"
    assert "4 completed tables of 60 rows" in repr(found)
    again = fit.impute(draws=4, data=TORN)
    assert all(one.equals(other) for one, other in zip(found, again)), "they follow from the seed"
    assert not fit.impute(4, rng=5)[0].equals(again[0])


def test_cells_are_expected_given_the_row(fit):
    cells = fit.impute(draws=2, interval=0.8).cells
    rows = np.flatnonzero(GAP[:, 1] & ~GAP[:, 0])
    estimate = cells.xs("b", level="response").loc[WHOLE.index[rows]]
    truth = WHOLE["b"].iloc[rows]
    assert np.abs(estimate["estimate"] - truth).max() < 1.5, "the other column of the pair says nearly all"
    assert np.abs(truth - WHOLE["b"].mean()).mean() > 3 and (estimate["upper"] - estimate["lower"]).max() < 3
    assert ((truth >= estimate["lower"]) & (truth <= estimate["upper"])).mean() > 0.5
    counts = cells.xs("k", level="response")
    assert (counts[["lower", "upper"]] % 1 == 0).all().all()
    levels = cells.loc[cells.index.get_level_values("response").str.startswith("c[")]
    assert levels["lower"].isna().all() and np.allclose(levels["estimate"].groupby(level="id").sum(), 1)
    augmented = fit.augment()
    assert np.abs(augmented.loc[estimate.index, ".fitted_b"] - estimate["estimate"]).max() < 0.2
    assert augmented[".resid_b"].isna().tolist() == GAP[:, 1].tolist()


def test_new_rows_are_fitted_given_what_they_have(fit):
    new = pd.DataFrame({"a": [0.0, 5.0, np.nan], "k": [2, 11, 11]})
    found = fit.augment(new)
    given = fit.predict(new.iloc[:2], given=["a", "k"], response="b")["estimate"].to_numpy()
    np.testing.assert_allclose(found[".fitted_b"].iloc[:2], given, rtol=1e-9)
    assert abs(found[".fitted_b"].iloc[2] - 10) < 2 and found[".fitted_c[red]"].iloc[2] > 0.8 > 0.2 > found[".fitted_c[red]"].iloc[0]
    # without anything known the law of all rows
    one = nm.fit("a ~ 1", WHOLE, **RUN)
    np.testing.assert_allclose(one.augment({"z": [1]})[".fitted"], one.predict({"z": [1]})["estimate"], rtol=1e-9)


def test_several_regressions_and_inputs():
    data = WHOLE[["a", "b", "x"]].copy()
    data.loc["r3", ["a", "b"]] = np.nan
    data.loc["r4", "b"] = np.nan
    family = {"a": nm.Regression("1 + x"), "b": nm.Regression("1 + x")}
    with pytest.raises(ValueError, match="All responses are missing"):
        nm.fit("a + b ~ 1", data, family=family, missing="marginalize", **RUN)
    data.loc["r3", "a"] = 0.0
    found = nm.fit("a + b ~ 1", data, family=family, missing="marginalize", **RUN).impute(3, data=data)
    assert np.isfinite(found[0].to_numpy()).all() and found.cells.shape == (2, 3)


@pytest.mark.nightly
def test_density_regression_too():
    data = WHOLE[["a", "b", "x"]].copy()
    data.loc["r5", "b"] = np.nan
    fit = nm.fit("a + b ~ x", data, family=nm.Gaussian(), missing="marginalize", **RUN)
    cells, augmented = fit.impute(3).cells, fit.augment()
    assert abs(cells["estimate"].iloc[0] - WHOLE.loc["r5", "b"]) < 2
    assert augmented.loc["r5", ".fitted_b"] == pytest.approx(cells["estimate"].iloc[0])
    assert augmented.loc["r6", ".fitted_b"] == pytest.approx(fit.predict(data.loc[["r6"]], response="b")["estimate"].iloc[0])


def test_what_is_refused(fit):
    whole = nm.fit("a + b ~ 1", WHOLE, **RUN)
    with pytest.raises(ValueError, match=r"no response is missing in the 60 rows that were fitted\.$"):
        whole.impute()
    with pytest.warns(UserWarning, match="dropped"):
        dropped = nm.fit("a + b ~ 1", TORN, **RUN)
    with pytest.raises(ValueError, match='were dropped before: fit with missing="marginalize"'):
        dropped.impute()
    with pytest.raises(ValueError, match="draws must be an integer of at least 1"):
        fit.impute(0)
    with pytest.raises(ValueError, match="data has 3 rows, and the model was fitted to a table of 60"):
        fit.impute(data=TORN.head(3))
    with pytest.raises(ValueError, match="the column 'a' of data is not the one that was fitted"):
        fit.impute(data=WHOLE)
    computed = nm.fit("exp(a) + b ~ 1", TORN, missing="marginalize", **RUN)
    with pytest.raises(ValueError, match=r"the response 'exp\(a\)' is computed from 'a'"):
        computed.impute()
