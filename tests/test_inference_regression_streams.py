"""Density regression of rows that are not in memory: the numbers are those of the same rows in memory, whoever visits the batches, and
whatever stops the fit in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns

import nrmmix as nm
from nrmmix.inference import executors
from nrmmix.inference.variational_regression import climb as climbing
from nrmmix.inference.variational_regression import run
from nrmmix.model.frame import streaming
from nrmmix.model.frame.sources.base import SourceChanged
from nrmmix.model.frame.summary import Means

FORMULA = "y ~ x + t + g"
RNG = np.random.default_rng(5)
N = 700
TABLE = pd.DataFrame({"x": RNG.uniform(-2, 2, N), "t": RNG.standard_normal(N).round(1), "g": RNG.choice(list("abc"), N)})
TABLE["y"] = np.sin(2 * TABLE["x"]) + np.where(TABLE["g"] == "a", 1.5, 0) + np.where(TABLE["x"] > 0, 0.4, 0.1) * RNG.standard_normal(N)
PARTS = [TABLE[:300], TABLE[300:301], TABLE[301:]]


class Source:
    n_batches = 5

    def load(self, b):
        return TABLE.iloc[b * N // 5 : (b + 1) * N // 5]


def method(**options):
    return nm.MemoizedVB(**{"batches": 6, "round_size": 2, "starts": 2, "passes": 5, "components": 8} | options)


def fitted(data=TABLE, rng=1, formula=FORMULA, kernel=None, **options):
    return nm.fit(formula, data, kernel=kernel, method=method(**options), rng=rng)


@pytest.fixture(scope="module", autouse=True)
def quick_starts():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "OF_SAMPLE", 8)
        yield


@pytest.fixture(scope="module")
def fit():
    return fitted()


@pytest.fixture
def few(monkeypatch):
    """More rows than starts are found on."""
    monkeypatch.setattr(run, "SAMPLE", 250)


def same(fit, other):
    assert fit.elbo == other.elbo and fit.starts.equals(other.starts) and fit.passes.equals(other.passes) and fit.seed == other.seed
    for one, two in zip(fit.fits, other.fits, strict=True):
        for name in ("N", "s", "A", "codes"):
            assert np.array_equal(getattr(one, name), getattr(two, name))


# ---- sources

def parquet(path):
    pytest.importorskip("pyarrow", reason="pyarrow reads and writes Parquet")
    TABLE.to_parquet(path, row_group_size=200)
    return path


def folder(path):
    path.mkdir()
    for i, part in enumerate(PARTS):
        pytest.importorskip("pyarrow", reason="pyarrow reads and writes Parquet")
        part.to_parquet(path / f"{i}.parquet")
    return path


def csv(path):
    TABLE.to_csv(path.with_suffix(".csv"), index=False)
    return path.with_suffix(".csv")


SOURCES = {"list": lambda _: PARTS, "one batch": lambda _: [TABLE], "own": lambda _: Source(), "csv": csv, "parquet": parquet,
           "folder": folder, "function": lambda _: lambda: iter(PARTS)}


@pytest.mark.parametrize("kind", [
    kind if kind in ("csv", "parquet") else pytest.param(kind, marks=pytest.mark.nightly) for kind in SOURCES
])
def test_sources_change_no_bit(fit, kind, tmp_path):
    data = SOURCES[kind](tmp_path / "t.parquet")
    model = nm.Model(FORMULA, data)
    assert model.frame.is_streamed and model.n_obs == N and len(model.frame.response) < 120
    same(fit, model.fit(method(), rng=1))


class Counting(Source):
    def __init__(self):
        self.loaded = 0

    def load(self, b):
        self.loaded += 1
        return super().load(b)


@pytest.mark.parametrize(("formula", "options"), [
    (FORMULA, {}), ("y + t ~ x", {}), ("y ~ 1", {"family": nm.Gaussian()}), ("y ~ x", {"family": nm.Regression("1 + x + t")}),
    ("y + t ~ x", {"family": {"y": nm.Regression("1 + x"), "t": nm.Gaussian()}}),
], ids=str)
def test_sources_are_gone_through_three_times_before_a_fit(formula, options, monkeypatch):
    source = Counting()
    model = nm.Model(formula, source, **options)
    assert source.loaded <= 4 * source.n_batches - 2 + (2 * source.n_batches if isinstance(options.get("family"), dict) else 0)
    monkeypatch.setattr(streaming, "Means", lambda n: Means(n + 1))  # as if rows had turned out to miss what is computed of them
    again = nm.Model(formula, Source(), **options)
    assert again.frame.sums.keys() == model.frame.sums.keys()
    assert all(np.array_equal(model.frame.sums[name], values) for name, values in again.frame.sums.items())


@pytest.mark.nightly
@pytest.mark.parametrize("options", by_turns([{}, {"batches": 1}, {"batches": 1, "round_size": 1}], 3), ids=str)
def test_starts_on_a_sample_are_those_in_memory(options, few):
    same(fitted(**options), fitted(PARTS, **options))
    vb = nm.VB(starts=1, components=8, passes=3)
    same(nm.fit(FORMULA, TABLE, method=vb, rng=1), nm.fit(FORMULA, PARTS, method=vb, rng=1))


@pytest.mark.nightly
def test_all_rows_at_once_where_they_are_few():
    same(fitted(batches=1, round_size=1), fitted(PARTS, batches=1, round_size=1))
    same(nm.fit(FORMULA, TABLE, method=nm.VB(starts=2, passes=5), rng=1), nm.fit(FORMULA, PARTS, method=nm.VB(starts=2, passes=5), rng=1))


@pytest.mark.parametrize(("formula", "kernel"), by_turns([
    ("y ~ t", None), ("y ~ x", None), ("y ~ g", None), ("y ~ x", nm.SquaredExponential(0.1, groups=1000)),
    ("y ~ x + g", nm.SparseProduct(places=5, inclusion=0.4)), ("y ~ t", nm.Laplace(0.1)),
], 2, 1), ids=str)
def test_formulas_and_kernels(formula, kernel):
    model, streamed = (nm.Model(formula, data, kernel=kernel) for data in (TABLE, PARTS))
    assert str(model.family) == str(streamed.family) and str(model.kernel) == str(streamed.kernel)
    same(model.fit(method(starts=1, components=16), rng=1), streamed.fit(method(starts=1, components=16), rng=1))


@pytest.mark.parametrize("formula", by_turns(["y + x ~ t + g", "log(y + 9) ~ I(x * t) + C(g)"]))
def test_others_are_those_in_memory_to_rounding(formula):
    """Means of several responses are added up row by row, and in memory column by column; designs are solved for in parts."""
    fits = [nm.fit(formula, data, method=method(starts=1, components=25), rng=1) for data in (TABLE, PARTS)]
    assert fits[0].elbo == pytest.approx(fits[1].elbo, rel=1e-10)
    np.testing.assert_allclose(*(one.log_density(TABLE) for one in fits), rtol=1e-7, atol=1e-7)


@pytest.mark.nightly
def test_more_values_than_groups_are_taken_in_bins_at_quantiles():
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"x": rng.exponential(size=3000)}).assign(y=lambda one: np.sin(one["x"]) + 0.1 * rng.standard_normal(3000))
    parts = [table[:2000], table[2000:]]
    model, streamed = nm.Model("y ~ x", table), nm.Model("y ~ x", parts)
    assert len(streamed.grid.values) == 1000 and streamed.grid.binned and not model.grid.binned
    fits = [one.fit(method(starts=1, components=25), rng=1) for one in (model, streamed)]
    new = pd.DataFrame({"x": np.linspace(0.1, 3.0, 7)})
    np.testing.assert_allclose(*(one.predict(new)["estimate"] for one in fits), atol=0.05)  # half the noise


def test_rows_with_gaps_are_dropped_and_counted():
    table = TABLE.copy()
    table.loc[[3, 400], "x"] = np.nan
    table.loc[[400, 500], "g"] = None
    table.loc[650, "t"] = np.nan
    for data in (table, [table[:350], table[350:]]):
        with pytest.warns(UserWarning, match=r"4 of 700 rows dropped: missing values in x \(2\), t \(1\), g \(2\)"):
            found = fitted(data)
        assert found.model.n_obs == N - 4
        want = found if data is table else want  # noqa: F821
    same(want, found)
    with pytest.raises(ValueError, match=r"The column 'x' misses row 3.*part 0"):
        nm.Model("y ~ x", [table], missing="raise")


@pytest.mark.nightly
def test_batches_of_one_row_and_one_component(few):
    source = [TABLE.iloc[[i]] for i in range(20)]
    one = fitted(source, batches=20, round_size=None, components=3, starts=1)
    assert one.elbo == pytest.approx(fitted(TABLE[:20], batches=20, round_size=None, components=3, starts=1).elbo, rel=1e-10)
    alone = fitted(PARTS, components=1, starts=1)
    assert alone.n_components == 1 and alone.fits[0].N == pytest.approx([N]) and np.isfinite(alone.log_density(TABLE)).all()


# ---- executors

@pytest.mark.nightly
@pytest.mark.parametrize("executor", by_turns(["threads", 2], 2, 1))
def test_threads_change_no_bit(fit, executor, tmp_path):
    same(fit, fitted(executor=executor))
    same(fit, fitted(csv(tmp_path / "t"), executor=executor))


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="dask.distributed has the clusters")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="1GB", host="127.0.0.1",
    ) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the libraries of the cluster
def test_a_cluster_changes_no_bit_and_neither_does_the_death_of_a_worker(fit, client, tmp_path):
    same(fit, fitted(executor=client))
    path = csv(tmp_path / "t")
    real, calls = executors.Dask.gather, []

    def gather(self, *arguments):
        calls.append(1)
        if len(calls) == 4:
            victim = next(iter(client.run(os.getpid).values()))
            threading.Timer(0.02, os.kill, (victim, signal.SIGKILL)).start()
        return real(self, *arguments)

    executors.Dask.gather = gather
    try:
        same(fit, fitted(path, executor=client))
    finally:
        executors.Dask.gather = real
    assert len(calls) > 4


# ---- checkpoints

class Stopped(Exception):
    pass


def stopped_after(visits, path, monkeypatch, **options):
    """A fit that comes to an end in a way that it cannot notice beforehand."""
    real, calls = climbing.Memory.visit, []

    def visit(*arguments):
        calls.append(1)
        if len(calls) > visits:
            raise Stopped
        return real(*arguments)

    monkeypatch.setattr(climbing.Memory, "visit", visit)
    try:
        fitted(checkpoint=path, **options)
        return True
    except Stopped:
        return False
    finally:
        monkeypatch.setattr(climbing.Memory, "visit", real)


STOPS = 1, 12, 30, 50, 70, 90, 10**6


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("batches", "stops"), [(6, STOPS[::3]), (6, STOPS), (1, STOPS)], ids=["three times", "often", "one batch"])
def test_a_fit_goes_on_wherever_it_was_stopped(batches, stops, tmp_path, monkeypatch):
    """In the first start and in the second, between rounds, before any pass has come to its end."""
    options = {"batches": batches, "tol": 1e-3, "passes": 12}
    want, seen = fitted(**options), set()
    assert want.starts["converged"].any(), "of what has converged less is kept"
    for visits in stops:
        path = tmp_path / f"{visits}.npz"
        done = stopped_after(visits, path, monkeypatch, **options)
        seen.add(path.exists())
        same(want, fitted(checkpoint=path, **options))
        same(want, fitted(checkpoint=path, **options))  # which is at its end
    assert done and seen == {True, False}


def test_a_fit_goes_on_from_any_source_and_executor(fit, tmp_path, monkeypatch):
    stopped_after(40, tmp_path / "run.npz", monkeypatch)
    assert (tmp_path / "run.npz").exists()
    same(fit, fitted(PARTS, checkpoint=tmp_path / "run.npz", executor=2))


@pytest.mark.nightly
def test_resume(fit, tmp_path, monkeypatch):
    stopped_after(40, tmp_path / "run.npz", monkeypatch)
    same(fit, nm.resume(tmp_path / "run.npz"))  # a small table is in the file
    stopped_after(40, tmp_path / "of_parts.npz", monkeypatch, data=PARTS)
    with pytest.raises(ValueError, match="does not hold its data: give them as data="):
        nm.resume(tmp_path / "of_parts.npz")
    same(fit, nm.resume(tmp_path / "of_parts.npz", data=TABLE))


@pytest.mark.nightly
def test_resume_of_files(fit, tmp_path, monkeypatch):
    """By day: `test_a_process_that_is_killed`."""
    stopped_after(40, tmp_path / "of_file.npz", monkeypatch, data=csv(tmp_path / "t"))
    same(fit, nm.resume(tmp_path / "of_file.npz", executor=2))
    kernel = nm.SparseProduct(places=4)
    stopped_after(45, tmp_path / "kernel.npz", monkeypatch, data=csv(tmp_path / "t"), kernel=kernel)
    same(fitted(kernel=kernel), nm.resume(tmp_path / "kernel.npz"))


@pytest.mark.nightly
def test_more_passes_go_on(tmp_path):
    path = tmp_path / "run.npz"
    short = fitted(PARTS, checkpoint=path, passes=2)
    assert short.starts["passes"].tolist() == [2, 2]
    same(fitted(), fitted(PARTS, checkpoint=path))


def test_a_time_limit_and_a_checkpoint(fit, tmp_path):
    path, model = tmp_path / "run.npz", nm.Model(FORMULA, PARTS)
    stopped_early = None
    for limit in (0.2, 0.5, 1.0, 3.0, 10.0):
        try:
            stopped_early = model.fit(method(checkpoint=path), rng=1, time_limit=limit)
            break
        except TimeoutError:
            continue
    assert stopped_early is not None and path.exists()
    same(fit, fitted(PARTS, checkpoint=path))


@pytest.mark.parametrize(("options", "why"), [
    ({"data": TABLE[1:]}, "other data, of 700 rows;"), ({"data": TABLE.assign(t=TABLE["t"] + 1e-9)}, "other data, of 700 rows that differ"),
    ({"components": 11}, "a fit with components=8, not 11"), ({"rng": 2}, "a fit with rng=1, not 2"),
    ({"kernel": nm.SparseProduct(places=4)}, "another model: its kernel differs"),
    ({"formula": "y ~ x + t"}, "another model: its formula differs"),
    ({"formula": "y ~ 1"}, "another model: its formula differs"),
])
def test_checkpoints_of_another_fit_are_refused(options, why, tmp_path):
    fitted(checkpoint=tmp_path / "run.npz", passes=1, starts=1)
    with pytest.raises(ValueError, match=rf"run\.npz' is of {why}.*delete it to begin anew"):
        fitted(checkpoint=tmp_path / "run.npz", starts=None if options.get("formula") == "y ~ 1" else 1, **options)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_process_that_is_killed(fit, tmp_path):
    """By SIGKILL in the middle of a pass, after so many visits."""
    path, saved = csv(tmp_path / "t"), tmp_path / "run.npz"
    script = tmp_path / "killed.py"
    script.write_text(textwrap.dedent("""
        import os, signal, sys
        import nrmmix as nm
        from nrmmix.inference.variational_regression import run
        from nrmmix.inference.variational_regression.climb import Memory

        run.OF_SAMPLE = 8

        real, calls = Memory.visit, []

        def visit(*arguments):
            calls.append(1)
            if len(calls) > int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments)

        Memory.visit = visit
        method = nm.MemoizedVB(batches=6, round_size=2, starts=2, passes=5, components=8, checkpoint=sys.argv[3])
        nm.fit("y ~ x + t + g", sys.argv[1], method=method, rng=1)
    """))
    done = subprocess.run([sys.executable, str(script), str(path), "40", str(saved)], capture_output=True, timeout=300, check=False)
    assert done.returncode == -9 and saved.exists(), done.stderr
    same(fit, nm.resume(saved))


# ---- what goes wrong

class Changing:
    """Rows that are others after so many loads."""

    n_batches = 2

    def __init__(self, calls, change):
        self.left, self.change = calls, change

    def load(self, b):
        self.left -= 1
        table = TABLE.iloc[b * N // 2 : (b + 1) * N // 2]
        return self.change(table.copy()) if b and self.left < 0 else table


def shifted(table):
    return table.assign(t=table["t"].to_numpy()[::-1])


def other_response(table):
    return table.assign(y=table["y"] + 1.0)


def new_level(table):
    table.iloc[7, table.columns.get_loc("g")] = "z"
    return table


@pytest.mark.parametrize(("change", "kind", "message"), [
    (shifted, SourceChanged, "part 1 of Changing has other values of the covariate 't' than when it was first read"),
    (other_response, SourceChanged, "part 1 of Changing has other values than when it was first read"),
    (new_level, ValueError, r"The column 'g' holds the level 'z' in row 7 \(index label 357\).*are 'a', 'b', 'c' \(part 1 of Changing\)"),
])
def test_rows_that_change_between_passes_are_found_out(change, kind, message):
    model = nm.Model(FORMULA, source := Changing(10**6, change))
    source.left = 30
    with pytest.raises(kind, match=message):
        model.fit(method(starts=1, passes=50), rng=1)


@pytest.mark.parametrize("change", [shifted, other_response, lambda table: table.assign(x=table["x"] * (1 + 1e-12))])
@pytest.mark.parametrize("left", [0, 3])
def test_rows_that_are_loaded_once_are_those_that_were_first_read(change, left):
    """Few rows are loaded at the start and for the weights of the starts; covariates may change within their bins."""
    model = nm.Model(FORMULA, source := Changing(10**6, change))
    source.left = left
    with pytest.raises(SourceChanged, match=r"part 1 of Changing has other values.* than when it was first read; fit again"):
        model.fit(nm.VB(starts=2, passes=3), rng=1)


def parts_of(*tables):
    return [pd.DataFrame(table) for table in tables]


GOOD = {"y": [1.0, 2.0, 2.5], "x": [0.5, 4.0, 1.0], "g": ["a", "b", "a"]}


@pytest.mark.parametrize(("formula", "data", "message"), [
    ("y ~ x + g", parts_of(GOOD, GOOD | {"x": ["a", "b", "c"]}), "'x' holds numbers in part 0 and text here.*part 1"),
    ("y ~ x + g", parts_of(GOOD, GOOD | {"x": [1.0, np.inf, 2.0]}), r"'x' is inf in row 1 \(index label 4\).*part 1"),
    ("y ~ x + w", parts_of(GOOD, GOOD), "There is no column 'w' in the data"),
    ("y ~ x", parts_of(GOOD | {"x": [3.0] * 3}, GOOD | {"x": [3.0] * 3}), "The covariate 'x' is constant .3 in all 6 rows used"),
    ("y ~ g", parts_of(GOOD | {"g": ["a"] * 3}, GOOD | {"g": ["a"] * 3}), "The covariate 'g' is constant"),
    ("y ~ x + z", parts_of(GOOD | {"z": GOOD["x"]}, GOOD | {"z": GOOD["x"]}), "'x' and 'z' are equal in every row"),
    ("y ~ scale(x)", parts_of(GOOD, GOOD), "'scale' learns from the whole column"),
    ("y ~ log(x)", parts_of(GOOD, GOOD | {"x": [1.0, -1.0, 2.0]}), "log"),
    ("y ~ d", parts_of(GOOD | {"d": ["1", "2", "3"]}, GOOD | {"d": ["1", "x", "3"]}), "holds numbers as text"),
])
def test_bad_sources(formula, data, message):
    with pytest.raises(ValueError, match=message), np.errstate(all="ignore"):
        nm.Model(formula, data)


LONG = {"y": np.sin(np.arange(400.0)), "x": np.arange(400.0)}


def with_one(name, value):
    values = [str(one) if isinstance(value, str) else one for one in LONG[name].tolist()]
    return pd.DataFrame(LONG | {name: [*values[:333], value, *values[334:]]})


@pytest.mark.parametrize(("formula", "table", "options", "message"), [
    ("y ~ x", with_one("y", 1e200), {}, r"'y' is 1e\+200 in row 133 \(index label 333\); .* \(part 1 of"),
    ("y ~ sqrt(398.5 - x)", with_one("y", 0.0), {}, r"is nan in row 199 \(index label 399\); .* \(part 1 of"),
    ("x ~ 1", with_one("x", -1.0), {"family": nm.Poisson()}, r"'x' is -1 in row 133 \(index label 333\), not a count: .* \(part 1 of"),
    ("x ~ 1", with_one("x", -1.0)[::-1], {"family": nm.Poisson()}, r"'x' is -1 in row 66, not a count: .* \(part 0 of"),
    ("y ~ x", with_one("x", "q"), {}, r"apart from 'q' in row 133 \(index label 333\).*\(part 1 of"),
    ("a + x ~ 1", with_one("y", 0.0).assign(a=1.0), {}, r"'a' is constant \(1 in all 400 rows used\)"),
    ("y ~ g", with_one("y", 0.0).assign(g="u"), {}, r"'g' is constant \('u' in all 400 rows used\)"),
])
def test_errors_name_rows_of_parts_and_counts_of_all_rows(formula, table, options, message):
    with pytest.raises(ValueError, match=message), np.errstate(all="ignore"):
        nm.Model(formula, [table[:200], table[200:]], **options)


def test_columns_that_are_alike_for_long_are_told_apart():
    alike = pd.DataFrame({"y": RNG.random(300), "x": np.arange(300.0) % 7, "g": np.array(["a", "b"])[np.arange(300) % 2]})
    alike = alike.assign(z=alike["x"], h=np.array(["u", "v"])[np.arange(300) % 2])
    alike.loc[250, "z"] = 3.5
    alike.loc[260, "h"] = "u" if alike["h"][260] == "v" else "v"
    assert nm.Model("y ~ x + z + g + h", [alike[:100], alike[100:]]).frame.covariate_names == ("x", "z", "g", "h")


def test_levels_of_numbers_are_all_learnt():
    table = pd.DataFrame({"y": RNG.random(400), "k": np.repeat([5.0, 1.0, 3.0, 2.0], 100)})
    names = [nm.Model("y ~ C(k)", data).frame.covariate_names for data in (table, [table[:150], table[150:]])]
    assert names[0] == names[1] == ("C(k)[T.2]", "C(k)[T.3]", "C(k)[T.5]")


@pytest.mark.parametrize(("options", "message"), [
    ({"prior": nm.NGGP()}, "gamma weights of nm.DirichletProcess.*those of NGGP have no"),
    ({"prior": nm.PitmanYor()}, "gamma weights of nm.DirichletProcess.*those of PitmanYor have no"),
    ({"kernel": nm.Box(0.1), "formula": "y ~ t"}, "is 0 beyond its width, and the bound then minus infinity; take nm.SquaredExponential"),
    ({"kernel": nm.SquaredExponential(), "formula": "y ~ x + t"}, "goes by their distinct rows, not in memory; take nm.SparseProduct"),
    ({"family": nm.Regression("0 + x")}, "the design needs an intercept"),
    ({"method": "auto"}, "not in memory, where chains and searches need it.*'vb', 'stochastic_vb', 'memoized_vb'"),
    ({"components": 10**4}, "components=10000 for 700 rows"),
])
def test_what_has_no_fit_is_refused_in_words(options, message):
    options = dict(options)
    method_ = options.pop("method", None) or method(**({"components": options.pop("components")} if "components" in options else {}))
    with pytest.raises(ValueError, match=message):
        nm.fit(options.pop("formula", FORMULA), PARTS, method=method_, **options)


def test_a_factor_of_very_many_levels_is_refused():
    n = 3000
    table = pd.DataFrame({"y": np.arange(n) % 7.0, "g": [f"level {i}" for i in range(n)]})
    with pytest.raises(ValueError, match="there is room for 1000; 'g' has 3000 levels; use fewer"):
        nm.Model("y ~ g", [table[:1300], table[1300:]])
