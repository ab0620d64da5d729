"""Tables of other libraries, leave-one-out, logging, bars in notebooks."""

from __future__ import annotations

import logging
import sys
import time
import warnings
from datetime import date
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import nrmmix as nm
from nrmmix.common.progress import Progress
from nrmmix.model.frame.tables import as_frame
from nrmmix.posterior.leave_one_out import LeaveOneOut, leave_one_out, smoothed

TABLE = pd.DataFrame({"a": [1.0, 2.0, 3.5], "g": pd.Categorical(["x", "y", "x"]), "b": [True, False, True], "k": [1, 2, 3]})


class Foreign:
    """A table of another library, which has the interchange protocol alone."""

    def __init__(self, table):
        self.table = table

    def __dataframe__(self, **options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.table.__dataframe__(**options)


class Enum:
    """A type of polars that has levels."""

    categories = ("y", "x")

    def __str__(self):
        return "Enum(categories=['y', 'x'])"


class Column:
    def __init__(self, name, dtype, values):
        self.name, self.dtype, self._values = name, dtype, values

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
        Column("a", "Float64", [1.0, None]), Column("g", Enum(), ["y", "x"]), Column("b", "Boolean", [True, False]),
        Column("s", "String", ["u", None]), Column("i", "Int64", [2**60 + 1, None]), Column("j", "UInt64", [2**63 + 1, 3]),
    ))
    assert found["i"].tolist() == [2**60 + 1, None] and found["j"].tolist() == [2**63 + 1, 3]
    assert np.isnan(found["a"][1]) and found["g"].cat.categories.tolist() == ["y", "x"] and found["b"].dtype == bool
    for kind in ("List(Int64)", "Struct({'p': Int64})", "Array(Float64, shape=(2,))"):
        with pytest.raises(ValueError, match="column 'n' is nested"):
            as_frame(DataFrame(Column("n", kind, [[1], [2]])))
    with pytest.raises(ValueError, match="column 'n' is of the type Binary, which is neither number nor text"):
        as_frame(DataFrame(Column("n", "Binary", [b"1"])))


RUN = {"draws": 5, "tune": 5, "chains": 1, "rng": 1}


def table_with_gaps():
    rng = np.random.default_rng(1)
    y = rng.normal(size=30)
    return {
        "y": [None if i == 4 else float(one) for i, one in enumerate(y)], "k": [None if i == 2 else i % 5 for i in range(30)],
        "g": [None if i == 7 else "uv"[i % 2] for i in range(30)], "b": [i % 3 == 0 for i in range(30)],
        "d": [Decimal(i) / 4 for i in range(30)],
    }


def same_fits(tables, formula="y + k + g + b ~ d"):
    """Tables of whatever kind give the same draws and predictions."""
    family = {"y": nm.Gaussian(), "k": nm.Poisson(), "g": nm.Categorical(), "b": nm.Bernoulli()}
    fits = [nm.fit(formula, table, family=family, missing="marginalize", **RUN) for table in tables]
    for fit in fits[1:]:
        assert np.array_equal(fit.draws["labels"], fits[0].draws["labels"])
    found = [fit.predict(table, draws=5, rng=1) for fit, table in zip(fits, tables, strict=True)]
    for one in found[1:]:
        pd.testing.assert_frame_equal(one, found[0])


def test_real_polars():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    columns = table_with_gaps()
    enum = polars.Enum(["v", "u"])
    table = polars.DataFrame(columns)
    same_fits([pd.DataFrame(columns), table, table.with_columns(polars.col("g").cast(polars.Categorical))])
    found = as_frame(polars.DataFrame({"a": [1.0, None], "s": ["u", "v"], "b": [True, False]}).with_columns(e=polars.col("s").cast(enum)))
    assert np.isnan(found["a"][1]) and found["s"].tolist() == ["u", "v"] and found["e"].cat.categories.tolist() == ["v", "u"]
    for nested in ([[1], [2]], [{"p": 1}, {"p": 2}], polars.Series([[1, 2], [3, 4]], dtype=polars.Array(polars.Int64, 2))):
        with pytest.raises(ValueError, match="column 'n' is nested"):
            nm.Model("y ~ 1", polars.DataFrame({"y": [1.0, 2.0], "n": nested}))
    with pytest.raises(ValueError, match="column 'n' is of the type Binary"):
        as_frame(polars.DataFrame({"n": [b"1"]}))
    with pytest.raises(TypeError, match=r"LazyFrame are not supported; give data\.collect\(\)"):
        as_frame(polars.LazyFrame({"a": [1.0]}))
    dates = polars.DataFrame({"y": [1.0, 2.0], "t": [date(2020, 1, 1), date(2020, 1, 2)]})
    assert nm.Model("y ~ t", dates).frame.covariates.ravel().tolist() == [0.0, 1.0]  # days since the first


class Stream:
    """What offers Arrow's protocol alone."""

    def __init__(self, table):
        self.__arrow_c_stream__ = table.__arrow_c_stream__


def test_real_arrow():
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    columns = table_with_gaps()
    table = arrow.table(columns)
    coded = table.set_column(2, "g", table["g"].dictionary_encode())
    same_fits([pd.DataFrame(columns), table, coded, Stream(table), Foreign(pd.DataFrame(columns | {"d": np.arange(30) / 4}))])
    assert as_frame(table.to_reader()).shape == (30, 5) and as_frame(arrow.record_batch({"a": [1.0, 2.0]}))["a"].tolist() == [1.0, 2.0]
    for nested in ([[1], [2], [3]], [{"p": 1}] * 3, arrow.array([[("p", 1)]] * 3, arrow.map_(arrow.string(), arrow.int64()))):
        beside = arrow.table({"y": [1.0, 2.0, 4.0], "n": nested})
        assert nm.Model("y ~ 1", beside).n_obs == 3, "columns that are not used may hold anything"
        for formula in ("y ~ n", "n ~ 1"):
            with pytest.raises(ValueError, match=r"column 'n' holds .* in row 0, not a real number; the column is nested"):
                nm.Model(formula, beside)
    with pytest.raises(TypeError, match="Stream could not be read by Arrow's protocol"):
        as_frame(Stream(arrow.chunked_array([[1.0]])))


def test_frames_of_dask():
    frames = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    table = frames.from_pandas(pd.DataFrame({"y": np.arange(20.0)}), npartitions=2)
    for data in (table, table.to_dask_array(lengths=True)):
        for method in ("auto", "vb"):
            with pytest.raises(TypeError, match=r"of dask are not in memory; give data\.compute\(\), or write"):
                nm.fit(None, data, method=method)


def test_arrow_streams_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TypeError, match="SimpleNamespace offers its columns by Arrow's protocol, which needs pyarrow"):
        as_frame(SimpleNamespace(__arrow_c_stream__=None))


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


@pytest.mark.filterwarnings("ignore:.*quartile ranges away:UserWarning")
def test_leave_one_out_says_what_cannot_be_trusted():
    y = np.r_[np.random.default_rng(0).normal(size=20), 30.0]
    fit = nm.Model(data=y, family=nm.Gaussian(scale=0.04 * y[:20].var())).fit(draws=100, tune=50, chains=2, rng=1)
    with pytest.warns(UserWarning, match="Pareto k above 0.7"):
        assert fit.loo().n_doubtful >= 1
    shapes = pd.DataFrame({"elpd": [-1.0, -2.0, -1.0], "pareto_k": [0.2, 0.8, 0.9]})
    for rows, words in (shapes, "in 2 rows: refit without these"), (shapes[:2], "in 1 row: refit without it"), (shapes[:1], ""):
        found = LeaveOneOut(-1.0, 1.0, 1.0, rows)
        assert found.doubts.endswith(words) and bool(words) == bool(found.doubts) and (words or "every Pareto k") in str(found)
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


def test_real_tqdm(monkeypatch, capsys):
    pytest.importorskip("tqdm", reason="tqdm is not installed")
    monkeypatch.setitem(sys.modules, "ipykernel", SimpleNamespace())
    with Progress(None) as line:
        time.sleep(0.15)  # it shows what has changed ten times a second
        line.update("4 chains: 1,000 iterations", 0.25)
        line.update("4 chains: 4,000 iterations", 1.0)
        assert line.bar.n == 100 and line.bar.total == 100
    err = capsys.readouterr().err
    assert "4 chains: 1,000 iterations:  25%" in err and "25/100" in err
    nm.fit("waiting_min ~ 1", nm.datasets.load_faithful(), **RUN, progress=True)
    assert "0/100" in capsys.readouterr().err
    nm.fit("waiting_min ~ 1", nm.datasets.load_faithful(), **RUN, progress=False)
    assert capsys.readouterr().err == ""


def test_models_and_fits_in_notebooks():
    """What `_repr_html_` gives: names from the data are escaped, and nothing is left open."""
    model = nm.Model(data={"<b>y&": np.arange(9.0)})
    fit = model.fit(**RUN)
    for one in (model, fit, model.fit("ibhc", rng=1), model.fit("memoized_vb", rng=1)):
        page = one._repr_html_()
        assert "&lt;b&gt;y&amp;" in page and "<b>y" not in page
        for tag in ("pre", "table", "tr", "td", "th"):
            assert page.count(f"<{tag}>") + page.count(f"<{tag} ") == page.count(f"</{tag}>")
    assert model._repr_html_().startswith("<pre>") and "<table" in fit._repr_html_()
