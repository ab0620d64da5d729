"""Where batches are visited, and from what source they come, changes no bit of a fit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from functools import reduce
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns, only

import nrmmix as nm
from nrmmix.common.machine import one_blas_thread
from nrmmix.inference import executors
from nrmmix.inference.executors import Span, Tree, executor_of
from nrmmix.model.families.exponential import Features
from nrmmix.model.frame.sources.base import SourceChanged
from nrmmix.posterior.factors import local_step

FORMULA = "a + b ~ 1"
RNG = np.random.default_rng(5)
N = 6000
Z = RNG.integers(4, size=N)
TABLE = pd.DataFrame(RNG.normal(size=(N, 2)) + 6.0 * np.stack([Z % 2, Z // 2], axis=1), columns=["a", "b"])


def parts(size):
    return [TABLE.iloc[first : first + size] for first in range(0, N, size)]


def method(**options):
    return nm.MemoizedVB(batches=8, round_size=4, **options)


@pytest.fixture(scope="module")
def fit():
    return nm.fit(FORMULA, TABLE, method=method(), rng=1)


def same(fit, other):
    assert fit.n_clusters == 4 and fit.elbo == other.elbo and fit.passes.equals(other.passes)
    assert np.array_equal(fit.factors.N, other.factors.N) and np.array_equal(fit.factors.s, other.factors.s)


@pytest.mark.parametrize("executor", only([1, 2, 4, "threads"], 2, "threads"))
def test_threads_change_no_bit(fit, executor):
    same(fit, nm.fit(FORMULA, TABLE, method=method(executor=executor), rng=1))


def test_sources_change_no_bit(fit, tmp_path):
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    np.save(tmp_path / "t.npy", TABLE.to_numpy())
    for data in (tmp_path / "t.csv", parts(2000), lambda: iter(parts(570))):
        same(fit, nm.fit(FORMULA, data, method=method(executor=2), rng=1))
    same(fit, nm.fit(None, tmp_path / "t.npy", method=method(), rng=1))
    same(fit, nm.fit(None, TABLE.to_numpy(), method=method(), rng=1))
    pytest.importorskip("pyarrow", reason="pyarrow reads Parquet")
    TABLE.to_parquet(tmp_path / "t.parquet", row_group_size=1000)
    same(fit, nm.fit(FORMULA, tmp_path / "t.parquet", method=method(), rng=1))


@pytest.mark.parametrize("name", ["vb", pytest.param("stochastic_vb", marks=pytest.mark.nightly)])
def test_the_other_methods_take_sources_too(name):
    one, other = (nm.fit(FORMULA, data, method=name, rng=1) for data in (TABLE, [TABLE[:1000], TABLE[1000:]]))
    assert one.elbo == other.elbo and np.array_equal(one.factors.s, other.factors.s)


@pytest.mark.parametrize("name", ["vb", "memoized_vb", "stochastic_vb"])
@pytest.mark.parametrize("weights", by_turns([None, "w"], 2, 1))
def test_sources_start_from_labels_and_from_earlier_fits(name, weights):
    table = TABLE.assign(w=1.0 + Z % 2)[:3000]
    options = {"vb": nm.VB(passes=3), "memoized_vb": method(passes=3, executor=2), "stochastic_vb": nm.StochasticVB(passes=2)}[name]
    init: object = Z[:3000] + 5 * (np.arange(3000) > 2990)  # labels that most parts do not show
    for _ in range(2):
        one, other = (
            nm.fit(FORMULA, data, method=options, init=init, rng=1, weights=weights) for data in (table, [table[:1000], table[1000:]])
        )
        assert one.elbo == (other.elbo if weights is None else pytest.approx(other.elbo, rel=1e-12))  # defaults of weighed rows are rounded
        assert np.allclose(one.factors.N, other.factors.N) and np.allclose(one.factors.s, other.factors.s)
        init = other


def test_numbers_depend_on_rounds_and_the_bound_never_falls():
    found = [nm.fit(FORMULA, TABLE, method=nm.MemoizedVB(components=6, births=False, merges=False, batches=8, round_size=size), rng=1)
             for size in (1, 3, 8)]
    assert len({fit.elbo for fit in found}) == 3
    for fit in found:
        bounds = fit.passes["elbo"].to_numpy()
        assert (np.diff(bounds) > -1e-9 * abs(bounds[-1])).all() and len(bounds) > 2


def test_by_default_no_batch_is_large_and_there_are_twenty_rounds():
    method = nm.MemoizedVB()
    assert method.division(900) == (1, 1) and method.division(5000) == (4, 1) and method.division(10**6) == (20, 1)
    assert method.division(5 * 10**6) == (80, 4) and nm.VB().division(10**6) == (16, 16) and nm.StochasticVB().division(10**6) == (100, 1)
    assert nm.MemoizedVB(batches=100).division(10**7) == (100, 1) and nm.MemoizedVB(batches=9, round_size=4).division(10**4) == (9, 4)
    assert nm.MemoizedVB(round_size=4).division(10**6) == (80, 4)


def test_trees_have_one_form():
    for n in range(1, 20):
        tree = Tree(lambda a, b: f"({a}{b})")
        for one in range(n):
            tree.add(f"{one % 10}")
        text = tree.total()
        assert text.replace("(", "").replace(")", "") == "".join(str(one % 10) for one in range(n)) and text.count("(") == n - 1
    assert text == "(((((01)(23))((45)(67)))(((89)(01))((23)(45))))((67)8))"


class Rows:
    n, is_streamed = 100, False

    def part(self, first, last):
        return np.arange(first, last)


def test_threads_keep_the_order():
    spans = [Span(i, 10 * i, 10 * i + 10) for i in range(10)]
    with executor_of(3).open() as run:
        found = run.gather(Rows(), spans, lambda part, span: (span.number, part.sum()), lambda a, b: a + b)
    assert found == reduce(lambda a, b: a + b, [(i, 100 * i + 45) for i in range(10)])


def test_blas_has_one_thread_within():
    from nrmmix.common import machine

    pools = machine.blas_pools()
    if not pools:
        pytest.skip("no library of linear algebra whose threads can be counted")
    before = [get() for _, get in pools]
    for put, _ in pools:
        put(2)
    two = [get() for _, get in pools]
    with one_blas_thread(), one_blas_thread():
        assert [get() for _, get in pools] == [1] * len(pools)
    assert [get() for _, get in pools] == two
    for (put, _), size in zip(pools, before, strict=True):
        put(size)


def test_rows_that_change_between_passes_are_found_out():
    class Changing:
        n_batches, calls = 2, 0

        def load(self, b):
            self.calls += 1
            return TABLE.iloc[b * 3000 : (b + 1) * 3000] + (0.5 if self.calls > 40 and b else 0.0)

    with pytest.raises(SourceChanged, match="part 1 of Changing has other values than when it was first read; fit again"):
        nm.fit(FORMULA, Changing(), method=nm.MemoizedVB(components=6, births=False, batches=4, tol=1e-12), rng=1)


@pytest.mark.parametrize("name", ["vb", "memoized_vb", "stochastic_vb"])
def test_rows_that_change_before_the_fit_are_found_out(name):
    tables = [table.copy() for table in parts(3000)]
    model = nm.Model(FORMULA, tables)
    tables[1]["a"] *= 100.0
    with pytest.raises(SourceChanged, match="part 1 of the iterator has other values than when it was first read; fit again"):
        model.fit(name, rng=1)


@pytest.mark.parametrize("executor", ["fork", 0, -1, True, 2.5, object()])
def test_what_is_no_executor_is_refused(executor):
    with pytest.raises(ValueError, match=r'executor must be None, "threads", a number of threads, or a Client of dask\.distributed'):
        nm.MemoizedVB(executor=executor)


def test_greedy_merges_are_of_memoized_inference_alone():
    assert nm.MemoizedVB(merges="greedy").merges == "greedy"
    with pytest.raises(ValueError, match="merges must be True or False"):
        nm.VB(merges="greedy")


# ---- a cluster

@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="dask.distributed has the clusters")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="1GB", host="127.0.0.1",
    ) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.filterwarnings("ignore")  # of the libraries of the cluster
def test_a_cluster_of_one_thread_changes_no_bit(fit):
    distributed = pytest.importorskip("distributed", reason="dask.distributed has the clusters")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            same(fit, nm.fit(FORMULA, TABLE, method=method(executor=client), rng=1))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_changes_no_bit_and_neither_does_the_death_of_a_worker(fit, client, tmp_path):
    same(fit, nm.fit(FORMULA, TABLE, method=method(executor=client), rng=1))
    TABLE.to_csv(tmp_path / "t.csv", index=False)
    real, calls = executors.Dask.gather, []

    def gather(self, *arguments):
        calls.append(1)
        if len(calls) == 4:
            victim = next(iter(client.run(os.getpid).values()))
            threading.Timer(0.02, os.kill, (victim, signal.SIGKILL)).start()
        return real(self, *arguments)

    executors.Dask.gather = gather
    try:
        same(fit, nm.fit(FORMULA, tmp_path / "t.csv", method=method(executor=client), rng=1))
    finally:
        executors.Dask.gather = real
    assert len(calls) > 4


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_goes_wrong_on_a_cluster_is_said(client, monkeypatch):
    monkeypatch.setattr(executors, "__version__", "0.0.1")
    with pytest.raises(ValueError, match=r"the worker .* has nrmmix .* and this process 0\.0\.1; install one version everywhere"):
        nm.fit(FORMULA, TABLE, method=method(executor=client), rng=1)


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_work_that_kills_its_workers_is_given_up(client):
    def deadly(part, span):
        os.kill(os.getpid(), signal.SIGKILL)

    run = executor_of(client)
    with run.open(), pytest.raises(RuntimeError, match=r"died again and again over the same part.*give them more of it, or more"):
        run.gather(Rows(), [Span(0, 0, 10)], deadly, max)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_scheduler_that_is_gone(tmp_path):
    """In a process of its own, which may be left in any state."""
    pytest.importorskip("distributed", reason="dask.distributed has the clusters")
    script = tmp_path / "gone.py"
    script.write_text(textwrap.dedent("""
        import numpy as np
        import nrmmix as nm
        from distributed import Client, LocalCluster

        if __name__ == "__main__":
            cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
            client = Client(cluster)
            client.close()
            cluster.close()
            try:
                nm.fit(None, np.random.default_rng(1).normal(size=(50, 2)), method=nm.MemoizedVB(executor=client))
            except ValueError as error:
                print(error)
    """))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert "executor= is a Client that is closed: its scheduler cannot be reached; connect a new one" in done.stdout, done.stderr


# ---- a seam for accelerators

class Elsewhere:
    """An array that NumPy does not see: operators, indexing and the six functions of its namespace are all there is."""

    def __init__(self, values):
        self.values = values

    def __array__(self, *_, **__):
        raise TypeError("this array is not in memory")

    def __array_namespace__(self):
        return SimpleNamespace(
            **{name: wrapped(getattr(np, name)) for name in ("exp", "log", "max", "sum", "matmul", "take")}, asarray=Elsewhere
        )

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        return Elsewhere(self.values[key])

    @property
    def T(self):
        return Elsewhere(self.values.T)


def wrapped(function):
    def call(*given, **named):
        return Elsewhere(function(*(one.values if isinstance(one, Elsewhere) else one for one in given), **named))

    return call


for name in ("add", "radd", "sub", "mul", "rmul", "truediv", "rtruediv", "matmul", "neg"):
    setattr(Elsewhere, f"__{name}__", wrapped(getattr(np.ndarray, f"__{name}__")))


def test_the_local_step_asks_little_of_arrays():
    rng = np.random.default_rng(3)
    T, eta, const, pairs = rng.normal(size=(5, 40)), rng.normal(size=(3, 5)), rng.normal(size=3), np.array([[0, 1], [1, 2]])
    want = local_step(Features(T, None), eta, const, pairs)
    found = local_step(Features(Elsewhere(T), None), Elsewhere(eta), Elsewhere(const), pairs)
    for one, other in zip(found, want, strict=True):
        assert np.array_equal(one.values, other)
    assert want.N.sum() == pytest.approx(40)
