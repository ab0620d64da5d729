"""Variational inference beyond memory and beyond one process: CPU time of a row and pass, peak memory, what two processes gain.

    python -m benchmarks.streams [pass memory scaling messages ...] [--rows 5000000] [--folder FOLDER] [--json FILE.json]

`pass`: a Parquet file of so many rows of 16 responses and half of it, 20 components of full covariance; CPU microseconds a row and pass, of
reading alone and of the rest, of the pass before the fit, and peak memory above that of the imports.  `memory`: a fit in a process that may
not take as much address space as the file has bytes.  `scaling`: the same passes of a fifth of the rows by one and two processes of a Dask
cluster on this machine, beside what two independent processes gain here.  `messages`: sizes and times behind the projection of
`docs/beyond_memory.md`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import nrmmix as nm
from benchmarks import record
from nrmmix.common.machine import one_blas_thread
from nrmmix.inference.executors import OneProcess, Span, executor_of
from nrmmix.inference.variational.climb import Climb, Settings
from nrmmix.inference.variational.memory import Batches, LocalStep, Memory, added
from nrmmix.inference.variational.start import seeded

D, K = 16, 20


def write(path: Path, n: int, d: int = D, seed: int = 1) -> None:
    """Rows about 20 centres, in row groups of 65,536."""
    import pyarrow
    from pyarrow import parquet

    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(K, d)) * 3
    writer = None
    for first in range(0, n, 65_536):
        size = min(65_536, n - first)
        X = centres[rng.integers(K, size=size)] + rng.normal(size=(size, d))
        table = pyarrow.table({f"x{j}": X[:, j] for j in range(d)})
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    writer.close()


def formula(d: int = D) -> str:
    return " + ".join(f"x{j}" for j in range(d)) + " ~ 1"


def peak() -> float:
    """Bytes of memory that this process has had at most."""
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def cpu() -> float:
    return time.process_time()


def started(model: Any, executor: OneProcess, components: int = K) -> Climb:
    """A climb of so many components, without births and merges."""
    rows = model.statistics(model.exponential())
    batches, size = nm.MemoizedVB().division(rows.n)
    memory = Memory(rows.exponential, model.prior.mass, Batches(rows, batches, round_size=size, executor=executor))
    some = rows.take(np.arange(min(20_000, rows.n)))
    N, s = seeded(some, components, np.random.default_rng(1), "k-means++")
    memory.start(N * rows.n / N.sum(), s * rows.n / N.sum())
    return Climb(memory, Settings(10**6, 0.0), np.random.default_rng(2))


def of_a_pass(folder: Path, n: int) -> list[dict[str, float]]:
    """CPU microseconds a row and pass, and what is reading of it, of half of the rows and of all."""
    found = []
    for rows in (n // 2, n):
        path = folder / f"{rows}.parquet"
        if not path.exists():
            _in_process(write, path, rows)
        found.append(said(_in_process(_passes_over, path, rows)))
    return found


def _passes_over(path: Path, rows: int, passes: int = 3) -> dict[str, float]:
    above, begun = peak(), cpu()
    model = nm.Model(formula(), path)
    before = (cpu() - begun) / rows
    with OneProcess().open() as one:
        climb = started(model, one)
        climb.one_pass()
        begun = cpu()
        for _ in range(passes):
            climb.one_pass()
        whole = (cpu() - begun) / passes / rows
        begun = cpu()
        for span in climb.memory.batches.spans:
            climb.memory.batches.rows.part(span.first, span.last)
        reading = (cpu() - begun) / rows
    return {
        "rows": rows, "MB": path.stat().st_size / 1e6, "components": climb.memory.n_components, "us a row and pass": 1e6 * whole,
        "of these reading": 1e6 * reading, "us a row before the fit": 1e6 * before, "peak MB above the imports": (peak() - above) / 1e6,
    }


def said(row: dict[str, float]) -> dict[str, float]:
    """Print a row of a table, and give it back."""
    print("  ".join(f"{name} {value:,.4g}" for name, value in row.items()), flush=True)
    return row


def _in_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process of its own: what memory it takes is not this process's."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as one:
        return one.submit(function, *arguments).result()


def _limited(path: Path, extra: float) -> dict[str, float]:
    few = path.with_name("few.parquet")
    write(few, 5000)
    method = nm.MemoizedVB(components=K, births=False, passes=3)
    nm.fit(formula(), few, method=method, rng=1)  # whatever has to be loaded for a fit is there
    before = peak()
    space = 1024 * int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * 4  # pages of 4,096 bytes
    resource.setrlimit(resource.RLIMIT_AS, (int(space + extra), int(space + extra)))
    fit = nm.fit(formula(), path, method=method, rng=1)
    return {
        "rows": fit.model.n_obs, "MB": path.stat().st_size / 1e6, "MB of address space": extra / 1e6, "passes": len(fit.passes),
        "clusters": fit.n_clusters, "peak MB above the imports": (peak() - before) / 1e6,
    }


def memory(folder: Path, n: int, extra: float = 400e6) -> list[dict[str, float]]:
    """A limit of address space that the file alone would break."""
    path = folder / f"{n}.parquet"
    if not path.exists():
        _in_process(write, path, n)
    return [said(_in_process(_limited, path, extra))]


def _climb(model: Any, executor: OneProcess, rows: int) -> Climb:
    """A climb by batches of so many rows, in five rounds."""
    climb = started(model, executor)
    batches = -(-climb.memory.batches.rows.n // rows)
    climb.memory.batches = Batches(climb.memory.batches.rows, batches, round_size=max(batches // 5, 1), executor=executor)
    climb.memory.start(climb.memory.factors.N, climb.memory.factors.s)
    return climb


def _seconds(climb: Climb, passes: int) -> float:
    """Seconds a pass, after one that is not counted."""
    climb.one_pass()
    begun = time.perf_counter()
    for _ in range(passes):
        climb.one_pass()
    return (time.perf_counter() - begun) / passes


def _alone(path: Path, rows: int, passes: int, ready: Any = None, results: Any = None) -> float:
    """The same in one process; where others run beside it, all begin at once."""
    model = nm.Model(formula(), path)
    with OneProcess().open() as one:
        climb = _climb(model, one, rows)
        if ready is not None:
            ready.wait()
        took = _seconds(climb, passes)
    if results is not None:
        results.put(took)
    return took


def scaling(folder: Path, n: int, passes: int = 3) -> list[dict[str, float]]:
    """Seconds a pass by size of batch: this process, two independent ones at once, and clusters of one and two workers."""
    from distributed import Client, LocalCluster

    n //= 5
    path = folder / f"{n}.parquet"
    if not path.exists():
        _in_process(write, path, n)
    context, model, found = multiprocessing.get_context("spawn"), nm.Model(formula(), path), []
    for rows in (n // 20, n // 80, n // 400):
        alone = _alone(path, rows, passes)
        queue, ready = context.Queue(), context.Barrier(2)
        both = [context.Process(target=_alone, args=(path, rows, passes, ready, queue)) for _ in range(2)]
        for process in both:
            process.start()
        gain = 2 * alone / max(queue.get() for _ in both)
        for process in both:
            process.join()
        took, bounds = {}, set()
        for workers in (1, 2):
            with LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit="2GB",
            ) as cluster, Client(cluster) as client, executor_of(client).open() as run:
                climb = _climb(model, run, rows)
                took[workers] = _seconds(climb, passes)
                bounds.add(climb.memory.bound())
        assert len(bounds) == 1, "bounds of one and two workers differ"
        fast = took[1] / took[2]
        found.append(said({
            "rows": n, "rows of a batch": rows, "seconds of a batch": alone * rows / n, "seconds a pass": alone,
            "two independent, times the work": gain, "one worker, seconds": took[1], "two workers, seconds": took[2],
            "two workers, times as fast": fast, "of two independent": fast / gain,
        }))
    return found


def messages(d: int = 64, components: int = 200, rows: int = 2048) -> list[dict[str, float]]:
    """Sizes and times behind a projection: of d zero-mean responses and so many components."""
    X = np.random.default_rng(1).normal(size=(rows, d))
    model = nm.Model(data=X, family=nm.Gaussian(known_mean=0.0, nu=d + 2.0, scale=np.eye(d)))
    exponential = model.exponential()
    statistics = model.statistics(exponential)
    with one_blas_thread():
        N, s = seeded(statistics, components, np.random.default_rng(1), "random")
        held = Memory(exponential, model.prior.mass, Batches(statistics, 1))
        held.start(N, s)
        step = LocalStep(held.factors.eta, held.factors.const, None, None)
        begun = cpu()
        found = step(statistics, Span(0, 0, rows))
        of_row = (cpu() - begun) / rows
        begun = cpu()
        added(found, found)
        of_sum = cpu() - begun
        begun = cpu()
        held.refresh()
        of_factors = cpu() - begun
    return [said({
        "d": d, "components": components, "MB of a result": len(pickle.dumps(found)) / 1e6,
        "MB of parameters": len(pickle.dumps(step)) / 1e6, "us a row": 1e6 * of_row, "ms of a sum": 1e3 * of_sum,
        "ms of new factors": 1e3 * of_factors,
    })]


PARTS = {"pass": of_a_pass, "memory": memory, "scaling": scaling, "messages": lambda folder, n: messages()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=list(PARTS), metavar=" ".join(PARTS))
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--folder", type=Path, default=None)
    record.option(parser)
    options = parser.parse_args()
    if wrong := [what for what in options.what if what not in PARTS]:
        parser.error(f"there is no {wrong[0]!r}; there are {', '.join(PARTS)}")
    print(f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, NumPy {np.__version__}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        found = {what: PARTS[what](folder, options.rows) for what in options.what}
    if options.json:
        record.write(options.json, "streams", {"rows": options.rows, "responses": D, "components": K}, found)


if __name__ == "__main__":
    main()
