"""Tables of other libraries, leave-one-out, logging, bars in notebooks."""

from __future__ import annotations

import logging
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import nrmmix as nm
from nrmmix.common.progress import Progress
from nrmmix.model.frame.tables import as_frame
from nrmmix.posterior.leave_one_out import leave_one_out, smoothed

TABLE = pd.DataFrame({"a": [1.0, 2.0, 3.5], "g": pd.Categorical(["x", "y", "x"]), "b": [True, False, True], "k": [1, 2, 3]})


class Foreign:
    """A table of another library, which has the interchange protocol alone."""

    def __init__(self, table):
        self.table = table

    def __dataframe__(self, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.table.__dataframe__(**options)


class Column:
    def __init__(self, name, dtype, values, levels=None):
        self.name, self.dtype, self._values = name, dtype, values
        if levels is not None:
            self.cat = SimpleNamespace(get_categories=lambda: levels)

    def to_list(self):
        return self._values


class DataFrame:
    """What of polars is read; a real one where that is installed."""

    __module__ = "polars.dataframe.frame"

    def __init__(self, *columns):
        self._columns = columns

    def get_columns(self):
        return list(self._columns)


def test_interchange_protocol():
    found = as_frame(Foreign(TABLE))
    assert found["a"].tolist() == [1.0, 2.0, 3.5] and found["g"].astype(str).tolist() == ["x", "y", "x"]
    assert found["k"].tolist() == [1, 2, 3] and found["b"].tolist() == [True, False, True]
    data = nm.datasets.load_faithful()
    run = {"draws": 5, "tune": 5, "chains": 1, "rng": 1}
    ours, theirs = nm.fit("waiting_min ~ 1", data, **run), nm.fit("waiting_min ~ 1", Foreign(data), **run)
    assert np.array_equal(ours.draws["labels"], theirs.draws["labels"])
    nested = pd.DataFrame({"a": [[1, 2], [3]]})
    with pytest.raises(TypeError, match=r"interchange protocol .* none of them nested"):
        as_frame(Foreign(nested))


def test_polars_without_pyarrow():
    found = as_frame(DataFrame(
        Column("a", "Float64", [1.0, None]), Column("g", "Categorical", ["y", "x"], ["y", "x"]), Column("b", "Boolean", [True, False]),
        Column("s", "String", ["u", None]),
    ))
    assert np.isnan(found["a"][1]) and found["g"].cat.categories.tolist() == ["y", "x"] and found["b"].dtype == bool
    for kind in ("List(Int64)", "Struct({'p': Int64})", "Array(Float64, shape=(2,))"):
        with pytest.raises(ValueError, match="column 'n' is nested"):
            as_frame(DataFrame(Column("n", kind, [[1], [2]])))


def test_real_polars():
    polars = pytest.importorskip("polars")
    found = as_frame(polars.DataFrame({"a": [1.0, None], "s": ["u", "v"], "b": [True, False]}))
    assert np.isnan(found["a"][1]) and found["s"].tolist() == ["u", "v"]
    with pytest.raises(ValueError, match="nested"):
        as_frame(polars.DataFrame({"n": [[1], [2]]}))


def test_leave_one_out_of_one_component():
    """One normal component: the density of each row given the others is a t in closed form."""
    y = np.random.default_rng(2).normal(size=40)
    family = nm.Gaussian(m=0.0, r=0.5, nu=3.0, scale=1.0)
    fit = nm.Model(data=y, prior=nm.FiniteMixture(1), family=family).fit(draws=2000, tune=5, chains=2, rng=1)
    found = fit.loo()
    exact = []
    for i in range(len(y)):
        rest = np.delete(y, i)
        n, mean = len(rest), rest.mean()
        psi = 1.0 + ((rest - mean) ** 2).sum() + 0.5 * n / (n + 0.5) * mean**2
        df, r = 3.0 + n, 0.5 + n
        exact.append(stats.t.logpdf(y[i], df, n * mean / r, np.sqrt(psi * (1 + 1 / r) / df)))
    np.testing.assert_allclose(found.rows["elpd"], exact, atol=0.05)
    assert found.elpd == pytest.approx(sum(exact), abs=0.15) and 1 < found.p_loo < 3 and found.n_doubtful == 0
    assert "every Pareto k below 0.7" in repr(found) and found.se > 0


def test_shape_of_the_tail():
    rng = np.random.default_rng(1)
    for shape in (0.2, 0.5, 0.9):
        found = np.mean([smoothed(np.log(stats.genpareto(shape).rvs(4000, random_state=rng)))[1] for _ in range(10)])
        assert abs(found - shape) < 0.08
    assert smoothed(np.zeros(100))[1] == 0.0


def test_leave_one_out_says_what_cannot_be_trusted():
    y = np.r_[np.random.default_rng(0).normal(size=20), 30.0]
    fit = nm.Model(data=y).fit(draws=100, tune=50, chains=2, rng=1)
    with pytest.warns(UserWarning, match="Pareto k above 0.7"):
        assert fit.loo().n_doubtful >= 1
    with pytest.raises(ValueError, match="at least 50 draws, not 6"):
        leave_one_out(np.zeros((2, 3, 4)), pd.RangeIndex(4))


def test_fits_are_logged(caplog):
    with caplog.at_level(logging.INFO, "nrmmix"):
        nm.fit("waiting_min ~ 1", nm.datasets.load_faithful(), draws=5, tune=5, chains=1, rng=1)
    first, last = [record.getMessage() for record in caplog.records]
    assert first == "fit waiting_min ~ 1 of 272 rows by gibbs" and "1 chains x 5 draws" in last


def test_bar_in_notebooks(monkeypatch):
    made = []

    class Bar:
        def __init__(self, **options):
            self.n, self.closed = 0, False
            made.append(self)

        def set_description(self, text, refresh):
            self.text = text

        def update(self, by):
            self.n += by

        def close(self):
            self.closed = True

    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace(auto=SimpleNamespace(tqdm=Bar)))
    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=Bar))
    with Progress(None) as line:
        line.update("chain 1", 0.5)
        line.update("chain 1", 1.0)
    assert made[0].n == 100 and made[0].closed and made[0].text == "chain 1"
    with Progress(False):
        pass
    assert len(made) == 1
