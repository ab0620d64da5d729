"""What of a pass of a density regression is done by workers, and what travels: CPU seconds, bytes.

    python -m benchmarks.regression_workers [--rows N ...] [--components M ...] [--workers W] [--clock] [--passes N] [--runs N]

Of a simulated table of six covariates, in 20 rounds of W batches, coordinate ascent from one start: CPU microseconds a row and pass of
the visits, which workers do, and of all else, which the process of the fit does between them; the share of the latter, and how many times
as fast W workers can be at most by these two, (visits + rest) / (visits / W + rest).  Nothing is said of what the workers wait for.  Of a
message its bytes, as it is sent, and by the formula of `message`; milliseconds of a sum of two messages.

With `--clock`, seconds of the same passes by the clock, for one process, W threads and W processes of a Dask cluster on this machine, and
how many times as fast as the first the others are: medians of runs that take turns, three of five passes each if nothing else is said.
A round has a twentieth of the rows: what is done between rounds, and what travels, is the smaller a share the more rows there are.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import nrmmix as nm
from benchmarks.variational_regression import simulated
from nrmmix.inference.executors import Dask, OneProcess, Span, Threads
from nrmmix.inference.variational_regression.climb import Climb
from nrmmix.inference.variational_regression.memory import LocalStep, Memory, added, sample_of
from nrmmix.inference.variational_regression.run import binned_of, rows_of_model
from nrmmix.inference.variational_regression.start import cut

ROUNDS, START = 20, 5000  # rounds of a pass, rows that a start is found on


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


def climb_of(n: int, components: int, workers: int, executor: OneProcess) -> Climb:
    """Coordinate ascent on a simulated table of n rows, from its start, in ROUNDS of as many batches as there are workers."""
    rng = np.random.default_rng(1)
    model = nm.Model("y ~ x0 + x1 + x2 + x3 + x4 + x5", simulated(n, rng)[0])
    binned = binned_of(model)
    rows = rows_of_model(model, binned)
    start = cut(binned, rows.statistics.side, model.prior.mass, sample_of(rows, START, rng), components, rng, 0.0)
    return Climb(Memory(rows, ROUNDS * workers, workers, executor), start, rng, search=False)


def measured(n: int, components: int, workers: int, passes: int) -> dict[str, float]:
    """Of n rows, after a pass in which everything is compiled."""
    executor = Measured()
    with executor.open():
        climb = climb_of(n, components, workers, executor)
        climb.run(1, 0.0)
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
    from dask.distributed import Client, LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        executors = {"one process": OneProcess(), "threads": Threads(workers), "processes": Dask(client)}
        seconds: dict[str, list[float]] = {name: [] for name in executors}
        for _ in range(runs):
            for name, executor in executors.items():
                with executor.open() as opened:
                    climb = climb_of(n, components, workers, opened)
                    climb.run(1, 0.0)
                    begun = time.perf_counter()
                    climb.run(1 + passes, 0.0)
                    seconds[name].append(time.perf_counter() - begun)
    median = {name: statistics.median(own) for name, own in seconds.items()}
    ratios = {f"{name}, times as fast": median["one process"] / median[name] for name in ("threads", "processes")}
    return {"rows": n, "components": components} | median | ratios


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=lambda text: int(float(text)), nargs="*", default=[100_000, 400_000])
    parser.add_argument("--components", type=int, nargs="*", default=[40, 100])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clock", action="store_true")
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    for n in given.rows:
        for components in given.components:
            asked = n, components, given.workers, given.passes
            figures = by_the_clock(*asked, given.runs) if given.clock else measured(*asked)
            print("  ".join(f"{name} {value:.4g}" for name, value in figures.items()), flush=True)
