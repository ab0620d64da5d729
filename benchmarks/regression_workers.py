"""What of a pass of a density regression is done by workers, and what travels: CPU seconds, bytes.

    python -m benchmarks.regression_workers [--rows N ...] [--components M ...] [--clock N ...] [--workers W] [--json FILE.json]

Of a simulated table of six covariates, in 20 rounds of W batches, coordinate ascent from one start: CPU microseconds a row and pass of
the visits, which workers do, and of all else, which the process of the fit does between them; the share of the latter, and how many times
as fast W workers can be at most by these two, (visits + rest) / (visits / W + rest).  Nothing is said of what the workers wait for.  Of a
message its bytes, as it is sent, and by the formula of `message`; milliseconds of a sum of two messages.

Of the numbers of rows of `--clock` seconds of the same passes by the clock, of the fewest components, for one process, W threads and W
processes of a Dask cluster on this machine, and how many times as fast as the first the others are; for what the machine can do, the same
of W processes that do all passes each, W times the work, and know nothing of each other.  Medians of three runs that take turns, of two
passes each.  A round has a twentieth of the rows: what is done between rounds, and what travels, is the smaller a share the more rows there
are.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import pickle
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import numpy as np

import nrmmix as nm
from benchmarks import record
from benchmarks.variational_regression import simulated
from nrmmix.inference.executors import Dask, OneProcess, Span, Threads
from nrmmix.inference.variational_regression.climb import Climb
from nrmmix.inference.variational_regression.memory import BinnedRows, LocalStep, Memory, added, sample_of
from nrmmix.inference.variational_regression.run import binned_of, rows_of_model
from nrmmix.inference.variational_regression.start import cut
from nrmmix.posterior.kernel_factors import KernelFactors

ROUNDS, START = 20, 5000  # rounds of a pass, rows that a start is found on
PASSES, CLOCKED, RUNS = 5, 2, 3  # passes whose work is measured, those that are clocked, and how often


class Measured(OneProcess):
    """One process that knows how much of its work workers would do."""

    def __init__(self) -> None:
        self.visits = 0.0

    def gather(self, rows: Any, spans: Sequence[Span], task: Callable[[Any, Span], Any], join: Callable[[Any, Any], Any]) -> Any:
        def timed(part: Any, span: Span) -> Any:
            begun = time.process_time()
            found = task(part, span)
            self.visits += time.process_time() - begun
            return found

        return super().gather(rows, spans, timed, join)


def message(components: int, covariates: int, places: int, statistics: int) -> float:
    """Bytes of the sums over a batch: counts, statistics, H and G by places of the covariates, and four numbers."""
    return 8.0 * (components * (1 + statistics + 2 * covariates * places) + 4)


class Case(NamedTuple):
    """A simulated table and the factors that its fit starts from."""

    rows: BinnedRows
    start: KernelFactors

    @classmethod
    def of(cls, n: int, components: int) -> Case:
        rng = np.random.default_rng(1)
        model = nm.Model("y ~ x0 + x1 + x2 + x3 + x4 + x5", simulated(n, rng)[0])
        binned = binned_of(model)
        rows = cast(BinnedRows, rows_of_model(model, binned))
        start = cut(binned, rows.statistics.exponential, model.prior.mass, sample_of(rows, START, rng), components, rng, 0.0)
        return cls(rows, start)

    def climb(self, workers: int, executor: OneProcess) -> Climb:
        """Coordinate ascent from the start, in ROUNDS of as many batches as there are workers, after a pass in which all is compiled."""
        climb = Climb(Memory(self.rows, ROUNDS * workers, workers, executor), self.start, np.random.default_rng(1), search=False)
        climb.run(1, 0.0)
        return climb


def measured(n: int, components: int, workers: int, passes: int) -> dict[str, float]:
    """Of n rows, after a pass in which everything is compiled."""
    executor = Measured()
    with executor.open():
        climb = Case.of(n, components).climb(workers, executor)
        executor.visits, begun = 0.0, time.process_time()
        climb.run(1 + passes, 0.0)
        whole, visits = time.process_time() - begun, executor.visits
        found = LocalStep.of(climb.factors)(climb.memory.rows.part(0, 100))
        begun = time.process_time()
        for _ in range(20):
            added(found, found)
        of_sum = (time.process_time() - begun) / 20
    rest, each = whole - visits, 1e6 / (n * passes)
    q, B, _ = found.H.shape
    return {
        "rows": n, "components": components, "visits": visits * each, "rest": rest * each, "share": rest / whole,
        "at most": whole / (visits / workers + rest), "bytes": float(len(pickle.dumps(found))),
        "formula": message(components, q, B, found.s.shape[1]), "parameters": float(len(pickle.dumps(LocalStep.of(climb.factors)))),
        "sum, ms": 1e3 * of_sum,
    }


def by_the_clock(n: int, components: int, workers: int, passes: int, runs: int) -> dict[str, float]:
    """Seconds of the passes by executor, after one in which everything is compiled and every worker has its rows."""
    case = Case.of(n, components)
    seconds: dict[str, list[float]] = {"one process": [], "threads": [], "processes": [], "independent": []}
    for _ in range(runs):
        seconds["one process"].append(case_seconds(case, workers, passes, OneProcess()))
        seconds["threads"].append(case_seconds(case, workers, passes, Threads(workers)))
        with cluster_of(workers) as client:  # an idle cluster takes a fifth of a core: it is there for its own turn alone
            seconds["processes"].append(case_seconds(case, workers, passes, Dask(client)))
        seconds["independent"].append(independent_seconds(case, workers, passes))
    median = {name: statistics.median(own) for name, own in seconds.items()}
    times = {name: median["one process"] / median[name] for name in ("threads", "processes")}
    times["independent"] = workers * median["one process"] / median["independent"]
    return {"rows": n, "components": components} | median | {f"{name}, times as fast": value for name, value in times.items()}


def case_seconds(
    case: Case, workers: int, passes: int, executor: OneProcess, ready: Callable[[], object] = lambda: None,
) -> float:
    with executor.open() as opened:
        climb = case.climb(workers, opened)
        ready()
        begun = time.perf_counter()
        climb.run(1 + passes, 0.0)
        return time.perf_counter() - begun


def independent_seconds(case: Case, workers: int, passes: int) -> float:
    """Seconds of the slowest of so many processes that do all of it each, all at once."""
    context = multiprocessing.get_context("fork")
    barrier, found = context.Barrier(workers), context.Queue()

    def one() -> None:
        found.put(case_seconds(case, workers, passes, OneProcess(), barrier.wait))

    made = [context.Process(target=one) for _ in range(workers)]
    for process in made:
        process.start()
    slowest = max(found.get() for _ in made)
    for process in made:
        process.join()
    return slowest


@contextmanager
def cluster_of(workers: int) -> Iterator[Any]:
    """Give the client of a Dask cluster of so many processes on this machine."""
    from dask.distributed import Client, LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        yield client


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=lambda text: int(float(text)), nargs="*", default=[100_000, 400_000])
    parser.add_argument("--components", type=int, nargs="*", default=[40, 100])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clock", type=lambda text: int(float(text)), nargs="*", default=[])
    record.option(parser)
    given = parser.parse_args()
    results: dict[str, list[dict[str, float]]] = {"work": [], "clock": []}
    for table, sizes, components in (("work", given.rows, given.components), ("clock", given.clock, [min(given.components)])):
        for n, m in itertools.product(sizes, components):
            row = measured(n, m, given.workers, PASSES) if table == "work" else by_the_clock(n, m, given.workers, CLOCKED, RUNS)
            results[table].append(row)
            print("  ".join(f"{name} {value:.4g}" for name, value in row.items()), flush=True)
    if given.json:
        settings = {"workers": given.workers, "rounds": ROUNDS, "passes": PASSES, "clocked passes": CLOCKED, "runs": RUNS}
        record.write(given.json, "regression_workers", settings, {table: rows for table, rows in results.items() if rows})
