"""Names of columns: one everywhere, in quotes or not; and what dates are counted from."""

from __future__ import annotations

import datetime
import pickle

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns

import nrmmix as nm
from nrmmix.common.names import bare, meant, quoted_name
from nrmmix.model.frame.columns.dates import in_days_since
from nrmmix.model.frame.rows import NewRows
from nrmmix.sklearn import NRMRegressor

RNG = np.random.default_rng(0)
N = 24
DATA = pd.DataFrame({
    "Solar.R": RNG.normal(size=N), "a": RNG.normal(size=N), "my x": RNG.random(N), "it's": RNG.random(N) + 1,
    "my g": np.tile(["u", "v"], N // 2), "when": pd.date_range("2020-01-03", periods=N, freq="7D"),
})
SHORT = {"draws": 10, "tune": 5, "chains": 1, "rng": 1}
SPELT = ("Solar.R", "Q('Solar.R')", 'Q("Solar.R")')


@pytest.fixture(scope="module")
def mixture():
    return nm.fit('Q("Solar.R") + a ~ 1', DATA, **SHORT)


@pytest.fixture(scope="module")
def regression():
    return nm.fit("a ~ Q('my x') + log(Q(\"it's\")) + Q('my g')", DATA, **SHORT)


@pytest.fixture(scope="module")
def dated():
    return nm.fit("a ~ when", DATA, **SHORT)


@pytest.mark.parametrize("name", SPELT)
def test_families_by_every_spelling(name):
    for families in ({name: nm.Gaussian(), "a": nm.Poisson()}, {f"a + {name}": nm.Gaussian()}, {(name, "a"): nm.Gaussian()}):
        if "a" in families:
            families = {name: nm.Gaussian(), "a": nm.SemiconjugateGaussian()}
        model = nm.Model("Q('Solar.R') + a ~ 1", DATA, family=families)
        assert model.frame.response_names == ("Solar.R", "a")
    with pytest.raises(ValueError, match=r"no response; the responses are Solar\.R, a"):
        nm.Model("Q('Solar.R') + a ~ 1", DATA, family={"Q('Solar')": nm.Gaussian(), "a": nm.Gaussian()})


@pytest.mark.parametrize("name", SPELT)
def test_weights_by_every_spelling(name, tmp_path):
    table = pd.DataFrame(DATA).assign(**{"Solar.R": 2})[["a", "Solar.R"]]
    table.to_parquet(tmp_path / "weighed.parquet")
    for data in (table, tmp_path / "weighed.parquet"):
        assert nm.Model("a ~ 1", data, weights=name).frame.weighed_by == "Solar.R"


@pytest.mark.parametrize("name", SPELT)
def test_predictions_and_pictures_by_every_spelling(mixture, name):
    np.testing.assert_array_equal(mixture.predict(response=name), mixture.predict(response="Solar.R"))
    plain = mixture.predict({"Solar.R": [0.0, 1.0]}, given="Solar.R")
    np.testing.assert_array_equal(mixture.predict({name: [0.0, 1.0]}, given=[name]), plain)
    assert mixture.plot("ppc", response=name) is not None


def test_kernels_and_covariates_by_every_spelling(regression):
    frame = regression.model.frame
    assert frame.covariate_names == ("my x", 'log(Q("it\'s"))', "my g") and list(frame.is_category) == [False, False, True]
    kernels = {"Q('my x')": nm.Box(0.5), "log(Q('it\\'s'))": nm.Box(0.5), 'Q("my g")': nm.Matching(0.1)}
    for kernel in (nm.Product(kernels), nm.SparseProduct({"Q('my x')": nm.SquaredExponential(0.2)})):
        made = nm.Model(regression.model.formula, DATA, kernel=kernel).kernel
        assert set(made.kernels) <= set(frame.covariate_names)
    with pytest.raises(ValueError, match=r"there is no covariate 'Q\(\"other\"\)'"):
        nm.Model("a ~ Q('my x')", DATA, kernel=nm.Product({'Q("other")': nm.Box(0.5)}))
    contrast = regression.contrasts({"Q('my x')": [0.2, 0.8]})
    np.testing.assert_array_equal(contrast, regression.contrasts({"my x": [0.2, 0.8]}))
    assert regression.plot("effects", at={"Q('my g')": "u"}, draws=5) is not None


def test_quoted_text_is_a_category_as_unquoted_text_is():
    quoted = nm.Model("a ~ Q('my g')", DATA)
    plain = nm.Model("a ~ g", DATA.rename(columns={"my g": "g"}))
    assert quoted.frame.is_category.all() and type(quoted.kernel) is type(plain.kernel)
    np.testing.assert_array_equal(quoted.frame.covariates, plain.frame.covariates)
    np.testing.assert_array_equal(quoted.frame.inputs, plain.frame.inputs)


@pytest.mark.parametrize("name", ["Intercept", "nan", "Infinity", "~", "a ~ b"])
def test_names_that_formulas_take_for_something_else(name):
    table = pd.DataFrame({"y": np.linspace(0, 1, 12) ** 2, name: np.linspace(2, 3, 12), "z": np.arange(12.0) % 5})
    model = nm.Model("y ~ .", table)
    assert model.frame.covariate_names == (name, "z") and nm.Model(f"Q({name!r}) ~ z", table).frame.response_names == (name,)
    if name.isidentifier():
        with pytest.raises(ValueError, match=rf"write Q\('{name}'\)"):
            nm.Model(f"y ~ {name}", table)
    regressor = NRMRegressor(draws=3, tune=3, chains=1, random_state=1).fit(table[[name, "z"]], table["y"])
    assert np.isfinite(regressor.predict(table[[name, "z"]])).all()


def test_names():
    assert bare(" Q( 'a b' ) ") == "a b" and bare("Q('a') + b") == "Q('a') + b" and bare("Q(") == "Q("
    assert quoted_name("x") == "x" and quoted_name("lambda") == "Q('lambda')"
    assert meant(3, ["3"]) is None and meant("FSC-A", ["FSC-A", "FSC"]) == "FSC-A"
    assert meant("log(x+1)", ["x", "log(x + 1)"]) == "log(x + 1)"


# ------------------------------------------------------------------------------------------------------------- dates

def test_dates_are_days_since_the_first(dated):
    days = (DATA["when"] - DATA["when"].min()) / pd.Timedelta(days=1)
    plain = nm.fit("a ~ when", DATA.assign(when=days), **SHORT)
    np.testing.assert_array_equal(dated.draws["log_joint"], plain.draws["log_joint"])
    assert "when: days since 2020-01-03" in str(dated.model) and "when: days since 2020-01-03" in dated.summary().as_text()
    assert "when: days since" in str(nm.Model("a ~ 1", DATA, family=nm.Regression("1 + when")))
    for kind in ("mean", "conditional"):
        assert np.ravel(dated.plot(kind, draws=5, points=9))[0].get_xlabel() == "when: days since 2020-01-03"


NEW = ["2020-02-01", "2019-12-01"]
SPELLINGS = {
    "numpy": np.array(NEW, "M8[D]"), "pandas": pd.to_datetime(NEW), "text": NEW,
    "python": [datetime.date.fromisoformat(one) for one in NEW],
    "periods": pd.PeriodIndex(NEW, freq="D"), "days": [29.0, -33.0],
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_new_dates_are_counted_from_the_same_day(dated, name):
    x, _ = NewRows(dated.model.frame, {"when": SPELLINGS[name]}).covariates()
    assert x.ravel().tolist() == [29.0, -33.0]
    if name != "days" and name != "text":
        trained = nm.Model("a ~ when", DATA.head(2).assign(when=SPELLINGS[name])).frame
        assert trained.covariates.ravel().tolist() == [62.0, 0.0]


@pytest.mark.parametrize("kind", ["date32[pyarrow]", "date64[pyarrow]", "timestamp[us][pyarrow]"])
def test_dates_of_pyarrow_are_dates(dated, kind):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    days = [*map(datetime.date.fromisoformat, NEW), None]
    x, _ = NewRows(dated.model.frame, pd.DataFrame({"when": pd.array(days[:2], dtype=kind)})).covariates()
    assert x.ravel().tolist() == [29.0, -33.0]
    with pytest.warns(UserWarning, match="1 of 3 rows dropped"):
        trained = nm.Model("a ~ when", DATA.head(3).assign(when=pd.array(days, dtype=kind))).frame
    assert trained.covariates.ravel().tolist() == [62.0, 0.0]


def test_dates_are_dates_beside_what_the_fit_says(dated):
    assert (dated.augment()["when"] == DATA["when"]).all()
    for when in (pd.date_range("1024-05-06 07:08:09.123456", periods=N, freq="10000D"), DATA["when"].dt.tz_localize("Europe/Rome")):
        table = DATA.assign(when=when, z=np.where(np.arange(N) == 2, np.nan, 1.0) * DATA["my x"])
        table.loc[1, "when"] = None
        with pytest.warns(UserWarning, match="2 of .* rows dropped"):
            found = nm.fit("a ~ when + z", table, **SHORT).augment()
        assert (found["when"] == table["when"].drop([1, 2])).all()


def test_dates_survive_files_and_copies(dated, tmp_path):
    new = {"when": pd.to_datetime(NEW)}
    wanted = dated.predict(new)
    for again in (nm.load(dated.save(tmp_path / "fit.npz")), pickle.loads(pickle.dumps(dated))):
        np.testing.assert_array_equal(again.predict(new), wanted)
        assert str(again.model) == str(dated.model)


@pytest.mark.parametrize("kind", by_turns(["parts", "parquet"]))
def test_dates_of_rows_that_are_loaded_part_by_part(kind, tmp_path):
    """The first day is that of all rows, those left out too, whichever part it is in."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"y": rng.normal(size=40), "when": pd.Timestamp("2020-01-03") + pd.to_timedelta(rng.permutation(40), "D")})
    table.loc[np.argmin(table["when"]), "y"] = np.nan
    if kind == "parquet":
        pytest.importorskip("pyarrow")
        table.to_parquet(tmp_path / "dated.parquet", row_group_size=9)
    source = [table[:7], table[7:]] if kind == "parts" else tmp_path / "dated.parquet"
    with pytest.warns(UserWarning, match="1 of .* rows dropped"):
        whole = nm.Model("y ~ when", table)
    with pytest.warns(UserWarning, match="1 of .* rows dropped"):
        fit = nm.fit("y ~ when", source, method=nm.VB(starts=1), rng=1)
    model = fit.model
    assert model.frame.first_dates == whole.frame.first_dates and "days since" in str(model)
    np.testing.assert_array_equal(np.concatenate([piece.covariates for piece in model.frame.pieces()]), whole.frame.covariates)
    np.testing.assert_array_equal(model.grid.scales.ends, whole.grid.scales.ends)
    fit.save(tmp_path / "fit.npz")
    again = nm.load(tmp_path / "fit.npz")
    new = pd.DataFrame({"when": [table["when"].min() + pd.Timedelta(days=3.5)]})
    pd.testing.assert_frame_equal(again.predict(new), fit.predict({"when": [3.5]}), check_exact=False)


def test_parts_that_are_no_dates_are_named():
    day = pd.to_datetime(["2020-01-01", "2020-03-01", "2020-02-01"])
    first = pd.DataFrame({"y": [1.0, 2.0, 4.0], "when": day})
    for column, what in ((["2020-01-01", "2020-01-02", "2020-01-03"], "text"), ([1.0, 2.0, 3.0], "numbers")):
        with pytest.raises(ValueError, match=f"'when' holds dates in part 0 and {what} here"):
            nm.Model("y ~ when", [first, first.assign(when=column)])
    with pytest.raises(ValueError, match="'when' have a time zone"):
        nm.Model("y ~ when", [first, first.assign(when=day.tz_localize("UTC"))])
    with pytest.raises(ValueError, match="time since some date"):
        nm.Model("when ~ y", [first, first])


def test_missing_and_wrong_dates(dated):
    with pytest.warns(UserWarning, match=r"1 of 24 rows dropped: missing values in when \(1\)"):
        frame = nm.Model("a ~ when", DATA.assign(when=DATA["when"].where(np.arange(N) != 3))).frame
    assert frame.n_used == N - 1
    with pytest.raises(ValueError, match="'when' holds dates, and '2020-13-01' in row 1 is none"):
        dated.predict({"when": ["2020-01-01", "2020-13-01"]})
    with pytest.raises(ValueError, match="have a time zone, and those that were fitted had none"):
        dated.predict({"when": pd.to_datetime(NEW, utc=True)})
    first = {"when": pd.Timestamp("2020-01-01", tz="UTC")}
    zoned = pd.DataFrame({"when": pd.to_datetime(["2020-01-02 01:00"]).tz_localize("Europe/Berlin")})
    assert in_days_since(zoned, first)["when"].tolist() == [1.0]
    with pytest.raises(ValueError, match="have no time zone, and those that were fitted had one"):
        in_days_since(pd.DataFrame({"when": pd.to_datetime(NEW)}), first)
    with pytest.raises(ValueError, match=r"holds Timestamp.*time since some date"):
        nm.Model("when ~ a", DATA)


def in_zone(hours, day):
    return datetime.datetime(2020, 1, day, tzinfo=datetime.timezone(datetime.timedelta(hours=hours)))


def test_dates_of_several_offsets_are_instants(dated):
    days = [in_zone(1 + i % 2, 1 + i) for i in range(N)]
    frame = nm.Model("a ~ when", DATA.assign(when=days)).frame
    np.testing.assert_allclose(frame.covariates[:3, 0], [0.0, 23 / 24, 2.0])
    new = {"when": ["2020-01-01T00:00:00+01:00", "2020-01-02T00:00:00+02:00"]}
    np.testing.assert_allclose(NewRows(frame, new).covariates()[0].ravel(), [0.0, 23 / 24])
    with pytest.raises(ValueError, match="'when' have a time zone, and those that were fitted had none"):
        dated.predict(new)


def test_dates_of_which_some_have_a_zone(dated):
    days = [*DATA["when"][:-1], in_zone(1, 1)]
    message = r"'when' holds dates with a time zone, as .* in row 23, and without, as .* in row 0; give all of them one, or none"
    with pytest.raises(ValueError, match=message):
        nm.Model("a ~ when", DATA.assign(when=days))
    with pytest.raises(ValueError, match=message.replace("23", "1")):
        dated.predict({"when": ["2020-01-01", "2020-01-01T00:00Z"]})


def test_text_without_a_zone_is_not_taken_for_utc():
    first = {"when": pd.Timestamp("2020-01-01", tz="UTC")}
    with pytest.raises(ValueError, match="have no time zone, and those that were fitted had one"):
        in_days_since(pd.DataFrame({"when": ["2020-01-05"]}), first)
    assert in_days_since(pd.DataFrame({"when": ["2020-01-05T01:00+01:00"]}), first)["when"].tolist() == [4.0]
    for missing in (pd.Categorical([None]), [pd.NaT], [None]):
        assert in_days_since(pd.DataFrame({"when": missing}), first)["when"].isna().all()


def test_dates_and_text_together(dated):
    mixed = {"when": ["2020-01-05", pd.Timestamp("2020-01-06"), None, datetime.date(2020, 1, 7), pd.Period("2020-01-08")]}
    assert NewRows(dated.model.frame, mixed).table["when"].dropna().tolist() == [2.0, 3.0, 4.0, 5.0]
    with pytest.raises(ValueError, match="'when' holds dates, and 3 in row 1 is none"):
        dated.predict({"when": [pd.Timestamp("2020-01-06"), 3]})


@pytest.mark.parametrize("far", [1578182400000000000, -1.6e9])
def test_numbers_that_are_no_days_are_refused(dated, far):
    message = r"'when' holds -?1\d+ in row 1, farther than any date; give dates, or when: days since 2020-01-03"
    with pytest.raises(ValueError, match=message):
        dated.predict({"when": [3, far]})
    with pytest.raises(ValueError, match=r"'when' holds b'2020' \(bytes\) in row 0, not a real number; decode it"):
        dated.predict({"when": [b"2020"]})
