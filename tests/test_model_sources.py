"""Sources of rows: what is read from them is what is read from the same table in memory, and what cannot be read is refused in words."""

from __future__ import annotations

import os
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import nrmmix as nm
from nrmmix.model.frame.sources.base import SourceChanged
from nrmmix.model.frame.sources.files import CsvSource
from nrmmix.model.frame.sources.opening import source_of
from nrmmix.model.frame.summary import StreamedSummary, Summary, column_sums

RNG = np.random.default_rng(7)
N = 40_000  # three parts of an array
TABLE = pd.DataFrame(RNG.normal(size=(N, 3)) * [1.0, 1e3, 1e-3] + [0.0, 1e4, 1.0], columns=list("abc"))
COUNTS = pd.DataFrame({"v": RNG.poisson(4.0, N), "w": RNG.poisson(0.1, N), "t": RNG.random(N) + 0.5, "yes": RNG.integers(2, size=N),
                       "kind": RNG.choice(["b", "a", "c"], N)})
FORMULA = "a + b + c ~ 1"


class Own:
    """A source as a user writes it."""

    n_batches = 5

    def load(self, b):
        return TABLE.iloc[b * N // 5 : (b + 1) * N // 5]


SPENT = iter([TABLE])


def chunks():
    yield from np.array_split(TABLE.to_numpy(), 7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("sources")
    TABLE.to_csv(where / "t.csv", index=False)
    np.save(where / "t.npy", TABLE.to_numpy())
    return where


def parquet(frame, path, **options):
    pytest.importorskip("pyarrow", reason="pyarrow reads and writes Parquet")
    path.parent.mkdir(exist_ok=True)
    frame.to_parquet(path, **options)
    return path


def whole(model):
    """All rows of a model as statistics."""
    rows = model.statistics(model.exponential())
    return rows, rows.part(0, rows.n)


def same_rows(model, other):
    (rows, found), (_, want) = whole(model), whole(other)
    assert np.array_equal(found.dense, want.dense) and np.array_equal(found.log_h, want.log_h)
    some = np.sort(np.random.default_rng(1).choice(rows.n, 50, replace=False))
    assert np.array_equal(rows.take(some).dense, want.dense[:, some])
    assert np.array_equal(rows.part(17, rows.n - 5).dense, want.dense[:, 17:-5])


SOURCES = {
    "csv": lambda where: where / "t.csv", "list": lambda where: [TABLE[:10], TABLE[10:10], TABLE[10:30_000], TABLE[30_000:]],
    "own": lambda where: Own(), "parquet": lambda where: parquet(TABLE, where / "t.parquet", row_group_size=9000),
    "one row group": lambda where: parquet(TABLE, where / "one.parquet"),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_rows_and_defaults_are_those_of_the_table_in_memory(kind, folder):
    model, streamed = nm.Model(FORMULA, TABLE), nm.Model(FORMULA, SOURCES[kind](folder))
    assert np.array_equal(model.family.m, streamed.family.m) and np.array_equal(model.family.scale, streamed.family.scale)
    assert streamed.n_obs == N and str(streamed) == str(model) and streamed.frame.response.shape[0] < 100
    same_rows(streamed, model)


@pytest.mark.parametrize("kind", ["npy", "memmap", "function"])
def test_arrays(kind, folder):
    data = {"npy": str(folder / "t.npy"), "memmap": np.load(folder / "t.npy", mmap_mode="r"), "function": chunks}[kind]
    model, streamed = nm.Model(data=TABLE.to_numpy()), nm.Model(data=data)
    assert streamed.frame.response_names == ("y1", "y2", "y3") and np.array_equal(model.family.scale, streamed.family.scale)
    same_rows(streamed, model)
    same_rows(nm.Model("y3 ~ 1", data), nm.Model("y3 ~ 1", {"y3": TABLE["c"]}))


def test_parquet_with_an_index_that_has_a_name(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"z": rng.normal(size=60), "w": rng.normal(size=60), "x": np.arange(60.0)})
    path, plain = str(tmp_path / "named.parquet"), str(tmp_path / "plain.parquet")
    table.set_index("x").to_parquet(path)
    table.to_parquet(plain)
    for formula in ("z ~ x", "z ~ ."):
        named, same = (nm.fit(formula, file, method="memoized_vb", rng=1) for file in (path, plain))
        assert named.elbo == pytest.approx(same.elbo)
    assert nm.fit("z ~ x", path, draws=2, tune=2, chains=1, rng=1).model.frame.covariate_names == ("x",)
    (tmp_path / "bad.parquet").write_text("abcde")
    with pytest.raises(ValueError, match=r"bad\.parquet' cannot be read as Parquet"):
        nm.fit("z ~ x", str(tmp_path / "bad.parquet"))


def test_a_folder_of_parquet(folder):
    for i, part in enumerate(np.array_split(np.arange(N), 3)):
        parquet(TABLE.iloc[part], folder / "parts" / f"{i}.parquet")
    same_rows(nm.Model(FORMULA, folder / "parts"), nm.Model(FORMULA, TABLE))


@pytest.mark.parametrize("formula", ["log(b) ~ 1", "I(a * c) + b ~ 1", "exp(c) ~ 1"])
def test_computed_responses(formula, folder):
    model, streamed = nm.Model(formula, TABLE), nm.Model(formula, folder / "t.csv")
    assert np.array_equal(model.family.scale, streamed.family.scale) and model.frame.response_names == streamed.frame.response_names
    same_rows(streamed, model)


FAMILIES = {
    "diagonal": (FORMULA, lambda: nm.Gaussian("diagonal"), TABLE), "known mean": (FORMULA, lambda: nm.Gaussian(known_mean=0.5), TABLE),
    "known covariance": ("a ~ 1", lambda: nm.Gaussian(known_covariance=[[2.0]]), TABLE),
    "poisson": ("v + w ~ 1", nm.Poisson, COUNTS), "exposure": ("v + w ~ 1", lambda: nm.Poisson(exposure="t"), COUNTS),
    "rate": ("v ~ 1", lambda: nm.Poisson(rate=2.0), COUNTS), "bernoulli": ("yes ~ 1", nm.Bernoulli, COUNTS),
    "categories": ("kind ~ 1", nm.Categorical, COUNTS),
    "several": ("v + yes + kind ~ 1", lambda: {"v": nm.Poisson(), "yes": nm.Bernoulli(), "kind": nm.Categorical()}, COUNTS),
}


@pytest.mark.parametrize("case", FAMILIES)
def test_families(case):
    formula, family, data = FAMILIES[case]
    model, streamed = (nm.Model(formula, one, family=family()) for one in (data, [data[:11], data[11:]]))
    assert str(model) == str(streamed)
    for one, other in zip(model.blocks.blocks, streamed.blocks.blocks, strict=True):
        for name in ("m", "scale", "shape", "rate", "a", "b", "r"):
            assert np.array_equal(getattr(one.family, name, 0), getattr(other.family, name, 0))
    (_, found), (_, want) = whole(streamed), whole(model)
    assert np.array_equal(found.log_h, want.log_h) and (found.sparse is None or (found.sparse != want.sparse).nnz == 0)


def test_sparse_counts():
    counts = csr_array(RNG.poisson(0.2, (5000, 30)) + (np.arange(30) == np.arange(5000)[:, None] % 30))
    model = nm.Model(data=counts, family=nm.Multinomial())
    streamed = nm.Model(data=[counts[:77], counts[77:]], family=nm.Multinomial())
    (_, found), (_, want) = whole(streamed), whole(model)
    assert (found.sparse != want.sparse).nnz == 0 and streamed.n_obs == 5000


def test_rows_with_gaps_are_dropped_counted_or_kept(folder):
    table = TABLE.copy()
    table.loc[[3, 20_000, 39_999], "b"] = np.nan
    table.loc[[20_000, 35_000], "c"] = np.nan
    table.to_csv(folder / "gaps.csv", index=False)
    for data in (folder / "gaps.csv", [table[:20_000], table[20_000:]]):
        with pytest.warns(UserWarning, match=r"4 of 40000 rows dropped: missing values in b \(3\), c \(2\)"):
            streamed = nm.Model(FORMULA, data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = nm.Model(FORMULA, table)
        assert streamed.n_obs == N - 4 and str(streamed) == str(model) and np.array_equal(streamed.family.scale, model.family.scale)
        same_rows(streamed, model)
        with pytest.raises(ValueError, match=r"The column 'b' misses row 3.*part"):
            nm.Model(FORMULA, data, missing="raise")
        family = nm.Gaussian("diagonal")
        model, streamed = (nm.Model(FORMULA, one, family=family, missing="marginalize") for one in (table, data))
        assert np.array_equal(streamed.family.scale, model.family.scale)
        same_rows(streamed, model)


def test_rows_that_are_dropped_are_not_checked(tmp_path):
    """A level, or a value of which a formula has none, that no row used has: as of the table in memory."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"y": rng.normal(size=30), "x": rng.uniform(1, 2, 30), "g": ["b", "c"] * 15, "w": 1 + np.arange(30) % 2})
    gap, idle = table.copy(), table.copy()
    gap.loc[3, ["y", "g", "x"]] = [np.nan, "rare", -1.0]
    idle.loc[3, ["g", "x", "w"]] = ["rare", -1.0, 0]
    gap.to_csv(tmp_path / "gap.csv", index=False)
    for formula in ("y ~ g", "y ~ log(x)"):
        for given, weights, what in ((gap, None, "1 of 30 rows dropped"), (idle, "w", "1 of 30 rows left out")):
            for source in ([given], [given[:10], given[3:4], given[10:]], *([tmp_path / "gap.csv"] if weights is None else [])):
                with pytest.warns(UserWarning, match=what.replace("1 of 30", r"\d of 3\d")):
                    own, model = nm.Model(formula, given, weights=weights), nm.Model(formula, source, weights=weights)
                assert model.n_obs == own.n_obs == 29
                piece = list(model.frame.pieces())
                assert np.array_equal(np.concatenate([one.covariates for one in piece]), own.frame.covariates)
                assert np.array_equal(np.concatenate([one.response for one in piece]), own.frame.response)


def test_errors_of_rows_used_count_those_that_are_dropped():
    parts = [pd.DataFrame({"y": [1.0, 2.0], "x": [1.0, 2.0]}), pd.DataFrame({"y": [np.nan, 0.5, 3.0], "x": [1.0, 3.0, -1.0]})]
    from nrmmix.model.frame.formula import model_frame
    from nrmmix.model.frame.rows import read_part

    frame = model_frame("y ~ log(x)", parts[0])
    with pytest.raises(ValueError, match=r"in row 2 \(index label 7\)"):
        read_part(frame, parts[1].set_axis(pd.RangeIndex(5, 8)), "drop")
    with pytest.raises(ValueError, match=r"in row 2 \(index label 'c'\)"):
        read_part(frame, parts[1].set_axis(list("abc")), "drop")
    assert not read_part(frame, parts[1][:1], "drop").used.any()


def test_sums_are_those_of_numpy():
    for d in (1, 2, 5):
        y = RNG.normal(size=(30_011, d)) * RNG.lognormal(size=(30_011, 1))
        y[RNG.random(y.shape) < 0.01] = np.nan
        def pieces(y=y):
            return ((part, np.zeros((len(part), 0)), None) for part in np.array_split(y, 9))

        span = np.nanmin(y, axis=0), np.nanmax(y, axis=0)
        one, other = Summary(y), StreamedSummary(len(y), pieces, span, True)
        assert np.array_equal(one.means(), np.nanmean(y, axis=0)) and np.array_equal(one.variances(), np.nanvar(y, axis=0, ddof=1))
        assert np.array_equal(one.means(), other.means()) and np.array_equal(one.variances(), other.variances())
        centre, spread = np.zeros(d), np.full(d, 3.0)
        assert one.max_distance(centre, spread) == other.max_distance(centre, spread) == np.nanmax(np.abs(y / 3.0))
    for n in (1, 7, 8191, 8193, 100_003):
        x = RNG.normal(size=(n, 1))
        assert column_sums(n, iter(np.array_split(x, 5)))[0] == x.sum(axis=0)[0]


def test_a_csv_file_in_any_dialect(folder):
    text = 'name;"x\ny";z\n' + "".join(f'"a ""{i}""\n;b";{i},5;{"NA" if i % 900 == 3 else i}\n' for i in range(100_000))
    (folder / "odd.csv").write_text(text, encoding="latin-1")
    source = CsvSource(str(folder / "odd.csv"), sep=";", decimal=",", encoding="latin-1")
    assert source.n_batches > 1 and source.names == ("name", "x\ny", "z")
    table = pd.concat(source.parts())
    assert len(table) == 100_000 and table["x\ny"].iloc[-1] == 99_999.5 and table["z"].isna().sum() == 112
    assert table["name"].iloc[7] == 'a "7"\n;b'


def test_models_of_sources_can_be_pickled(folder):
    model = nm.Model(FORMULA, folder / "t.csv")
    packed = pickle.dumps(model.statistics(model.exponential()))
    rows = pickle.loads(packed)
    assert len(packed) < 0.05 * TABLE.to_numpy().nbytes  # nothing in it is as long as the data
    assert np.array_equal(rows.part(30_000, 30_010).dense, whole(model)[1].dense[:, 30_000:30_010])


# ---- bad input

def parts_of(*tables):
    return [pd.DataFrame(table) for table in tables]


GOOD = {"a": [1.0, 2.0], "b": [0.5, 4.0]}


@pytest.mark.parametrize(("data", "kind", "message"), [
    (lambda: (part for part in [TABLE]), TypeError, "a generator, which can be gone through once only.*give the function that makes it"),
    (lambda: SPENT.__iter__, TypeError, "the same iterator every time"),
    (lambda: (lambda: 3), TypeError, "must return an iterator over tables"),
    (lambda: "nowhere.parquet", FileNotFoundError, r"there is no file 'nowhere\.parquet'; give the path of one"),
    (lambda: "nowhere.csv", TypeError, r"read the file first: pandas\.read_csv.*There is no such file"),
    (lambda: "nowhere", TypeError, "cannot be a name or path such as 'nowhere'; read the file first"),
    (lambda: __file__, ValueError, r"ends in none of \.parquet, \.pq, \.csv, \.tsv, \.npy"),
    (lambda: parts_of(GOOD, {"a": [1.0]}), ValueError, r"part 1: ?There is no column 'b'|no column 'b' in part 1"),
    (lambda: parts_of(GOOD, {"a": [1.0, 2.0], "b": ["x", "y"]}), ValueError, "'b' holds numbers in part 0 and text here.*part 1"),
    (lambda: parts_of(GOOD, {"a": [1.0, np.inf], "b": [1.0, 2.0]}), ValueError, r"'a' is inf in row 1 \(index label 3\).*part 1"),
    (lambda: parts_of({"a": [1.0, 1.0], "b": [1.0, 2.0]}, {"a": [1.0], "b": [3.0]}), ValueError, "'a' is constant"),
    (lambda: parts_of({"a": [1.0, 2.0], "b": [1.0, 2.0]}, {"a": [3.0], "b": [3.0]}), ValueError, "'a' and 'b' are equal in every row"),
    (lambda: parts_of({"a": [], "b": []}, {"a": [], "b": []}), ValueError, "has no rows"),
    (lambda: parts_of({"a": [np.nan], "b": [1.0]}, {"a": [1.0], "b": [np.nan]}), ValueError, r"of 2 is complete: .*a \(1\), b \(1\)"),
    (lambda: parts_of({"a": [np.nan], "b": [1.0]}, {"a": [np.nan], "b": [2.0]}), ValueError, "No row of 2 is complete"),
])
def test_bad_sources(data, kind, message):
    with pytest.raises(kind, match=message):
        nm.Model("a + b ~ 1", data())


def test_formulas_that_need_all_rows_are_refused(folder):
    path = folder / "t.csv"
    with pytest.raises(ValueError, match=r"'scale' learns from the whole column"):
        nm.Model("scale(a) ~ 1", path)
    with pytest.raises(ValueError, match="Regression takes its hyperparameters from the whole table"):
        nm.Model("a ~ 1", path, family=nm.Regression("1 + b", shrinkage=None))
    with pytest.raises(ValueError, match=r"There is no column 'd' in the data\. The columns are a, b, c"):
        nm.Model("a + d ~ 1", path)
    model = nm.Model("a ~ 1", CsvSource(str(path)))  # what is given as a source is not read
    with pytest.raises(ValueError, match=r"not in memory, where chains and searches need it.*'vb', 'stochastic_vb', 'memoized_vb'"):
        model.fit()
    with pytest.raises(ValueError, match="log_joint needs the rows in memory"):
        model.log_joint(np.zeros(N, int))
    assert not model.methods().loc["gibbs", "suits"] and model.methods().loc["memoized_vb", "suits"]


def test_text_among_the_numbers_of_a_csv_file(folder):
    path = folder / "text.csv"
    path.write_text("a,b\n" + "1.5,2\n" * 200_000 + "oops,3\n1.25,4\n")
    with pytest.raises(ValueError, match=r"'a' holds numbers in the first rows and 'oops' in row \d+ of .*text\.csv.*na="):
        nm.Model("a + b ~ 1", path)
    for text, message in (("", "its first line must name the columns"), ("a,b\n", "has no rows"), ("a\n1\n", "no column 'b'")):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            nm.Model("a + b ~ 1", path)


def test_parts_of_parquet_that_differ(folder):
    good = parquet(TABLE[:10], folder / "differ" / "0.parquet")
    parquet(TABLE[:10].drop(columns="b"), folder / "differ" / "1.parquet")
    with pytest.raises(ValueError, match=r"the column 'b' of .*0\.parquet' is not in .*1\.parquet'"):
        nm.Model(FORMULA, good.parent)
    parquet(TABLE[:10].assign(b="x"), folder / "differ" / "1.parquet")
    with pytest.raises(ValueError, match=r"'b' holds numbers in .*0\.parquet' and text in .*1\.parquet'"):
        nm.Model(FORMULA, good.parent)
    (folder / "bad.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        nm.Model(FORMULA, folder / "bad.parquet")
    (folder / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"holds no \.parquet file"):
        nm.Model(FORMULA, folder / "empty")


@pytest.mark.parametrize(("options", "method", "message"), [
    ({"missing": "marginalize"}, "vb", "chains fit it with the rows in memory: give one table of all rows[.]$"),
    ({"family": nm.Gaussian("tied")}, "memoized_vb", "chains fit it with the rows in memory: give one table of all rows[.]$"),
    ({"missing": "marginalize"}, "gibbs", "not in memory, where chains and searches need it: give one table of all rows[.]$"),
])
def test_models_for_chains_alone_are_to_be_read_into_memory(options, method, message):
    table = pd.DataFrame({"a": [1.0, None, 2.0, 4.0] if "missing" in options else [1.0, 3.0, 2.0, 4.0], "b": [2.0, 1.0, 4.0, 3.0]})
    with pytest.raises(ValueError, match=message):
        nm.fit("a + b ~ 1", [table[:2], table[2:]], method=method, **options)


@pytest.mark.parametrize("kind", ["csv", "npy"])
def test_files_that_change_are_found_out(kind, folder):
    path = folder / f"changing.{kind}"
    other = TABLE.copy()
    other.iloc[35_000, 1] += 1.0
    for table in (TABLE, other):
        if kind == "csv":
            table.to_csv(path, index=False)
        else:
            np.save(path, table.to_numpy())
        if table is TABLE:
            model = nm.Model("a + b + c ~ 1" if kind == "csv" else None, path)
            time = os.stat(path).st_mtime_ns
    os.utime(path, ns=(time, time + 10**9))
    with pytest.raises(SourceChanged, match="has been changed since it was first read"):
        model.statistics(model.exponential()).part(0, 10)


def test_a_fingerprint_of_ones_own():
    class Marked(Own):
        mark = 1

        def fingerprint(self):
            return self.mark

    source = Marked()
    rows = nm.Model(FORMULA, source)
    rows = rows.statistics(rows.exponential())
    assert rows.part(0, 5).n == 5
    source.mark = 2
    with pytest.raises(SourceChanged, match="Marked has been changed since it was first read"):
        rows.part(0, 5)


def test_iterators_that_end_early():
    parts = [TABLE[:10], TABLE[10:20], TABLE[20:30]]
    model = nm.Model(FORMULA, lambda: iter(parts))
    del parts[2]
    with pytest.raises(SourceChanged, match="had 3 parts when it was first gone through, and now ends before part 2"):
        whole(model)
    assert source_of([1.0, 2.0]) is None and source_of(TABLE) is None
