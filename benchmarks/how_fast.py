"""How long things take by the number of rows, clusters and dimensions, beside the least that they could.

    python -m benchmarks.how_fast [--json vignettes/results/how_fast.json]

A Gibbs sweep scores every row in every cluster.  Its floor is the same work with the statistics frozen (`benchmarks.floor`); below that
stands the roofline: a loop that only reads the statistics, as often as a sweep does, once a row or once for four, and one that only takes
the logarithm and the exponential that a pair needs.  All start from the true partition, and times are processor time of one thread, medians
over seven runs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
import pandas as pd

import nrmmix as nm
from benchmarks import record
from benchmarks.floor import frozen_sweep
from nrmmix.inference.mcmc.chain import Record, new_chain
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.methods import CYCLES, named
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core.jit import fast
from nrmmix.kernels.core.special import exp_any, log_pos
from nrmmix.kernels.core.state import FOUR, Count
from nrmmix.kernels.moves.gibbs import MIN_FOR_FOUR, can_score_four

RUNS = 7
GIBBS = {  # rows, columns, clusters
    "rows": [(1000, 2, 50), (10_000, 2, 50), (100_000, 2, 50)],
    "clusters": [(10_000, 6, 10), (10_000, 6, 50), (10_000, 6, 200), (10_000, 6, 500)],
    "columns": [(10_000, 1, 50), (10_000, 2, 50), (10_000, 6, 50), (10_000, 20, 50), (10_000, 50, 50)],
}
KERNELS = {  # of density regression: widths of atoms by 160 locations, one for all by 200; the last kernel is 0 beyond its width
    "of atoms": nm.SquaredExponential(), "fixed": nm.SquaredExponential(0.05), "one, sampled": nm.SquaredExponential(nm.LogNormal(-3, 1)),
    "one, compact": nm.Epanechnikov(nm.LogNormal(-2, 1)),
}
MOVES = ("gibbs", "split_merge", "slice", "permutation", "tree")


@fast
def read_all(stat, out, K, n):
    """Read the first K columns n times: every number is added to one of K sums, four rows at a time."""
    for _ in range(n):
        for r in range(0, stat.shape[0] - 3, 4):
            for k in range(K):
                out[k] += (stat[r, k] + stat[r + 1, k]) + (stat[r + 2, k] + stat[r + 3, k])


@fast
def take_all(x, out, K, n):
    """A logarithm and an exponential for each of K numbers, n times."""
    for _ in range(n):
        for k in range(K):
            out[k] = exp_any(-log_pos(x[k]))
        x[0] = out[0] * 0.0 + x[0]


def points(n: int, d: int, K: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    labels = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    return rng.normal(size=(n, d)) + 4.0 * rng.normal(size=(K, d))[labels], labels


def seconds(work: Callable[[], Any], runs: int = RUNS) -> float:
    """Processor time of this thread, the median after a first time."""
    work()
    found = []
    for _ in range(runs):
        began = time.thread_time()
        work()
        found.append(time.thread_time() - began)
    return median(found)


def sweep(n: int, d: int, K: int) -> dict[str, float]:
    """A Gibbs sweep, its floor and the roofline, for so many rows, columns and clusters."""
    X, labels = points(n, d, K)
    model = nm.Model(data=X, prior=nm.DirichletProcess(1.0))
    sweeps = max(2, 20_000_000 // (n * K * max(d, 4)))
    chain = new_chain(model, CYCLES["gibbs"], labels, np.random.default_rng(1), Record.allocate(model, sweeps))
    updates, state = update_addresses(model), chain.state

    def ours() -> None:
        chain.control[: loop.LIMIT] = 0  # again from iteration 0
        chain.control[loop.LIMIT] = sweeps
        chain.run(updates, 0, 1)

    def floor() -> None:
        for _ in range(sweeps):
            frozen_sweep(chain.data, chain.state, chain.rng)

    each = seconds(ours) / sweeps
    state = chain.state
    now = int(state.num[Count.CLUSTERS])
    at_once = FOUR if now >= MIN_FOR_FOUR and can_score_four(chain.data, state) else 1
    pairs = 1e-9 * n * now
    x, out = np.full(now, 1.5), np.empty(now)
    return {
        "n": n, "d": d, "K": now, "ms a sweep": 1e3 * each, "ns a pair": each / pairs, "floor": seconds(floor) / sweeps / pairs,
        "reading": seconds(lambda: read_all(state.stat, out, now, n // at_once)) / pairs,
        "log and exp": seconds(lambda: take_all(x, out, now, n)) / pairs,
        "bytes a pair": 8 * len(state.stat), "rows at once": at_once,
    }


def moves() -> list[dict[str, Any]]:
    """Iterations of each method on one table, from the truth."""
    X, labels = points(10_000, 6, 100)
    model = nm.Model(data=X)
    rows = []
    for name in MOVES:
        chain = new_chain(model, named(name)[1], labels, np.random.default_rng(1), Record.allocate(model, 1))
        updates = update_addresses(model)

        def ten(chain: Any = chain, updates: np.ndarray = updates) -> None:
            chain.control[loop.LIMIT] = chain.iteration + 10
            chain.run(updates, 10**9, 1)

        rows.append({"method": name, "ms an iteration": 1e2 * seconds(ten, 5)})
    return rows


def variational() -> list[dict[str, Any]]:
    """Passes of full variational Bayes by the number of rows."""
    rows = []
    for n in (10_000, 100_000, 400_000):
        model = nm.Model(data=points(n, 16, 20)[0])
        found = []
        for passes in (5, 25):
            began = time.process_time()
            model.fit(nm.VB(components=20, passes=passes, tol=1e-300, merges=False), init="random", rng=1)
            found.append(time.process_time() - began)
        rows.append({"n": n, "d": 16, "K": 20, "us a row and pass": 1e6 * (found[1] - found[0]) / 20 / n})
    return rows


def curves() -> list[dict[str, Any]]:
    """Sweeps of density regression by Gibbs, every x its own."""
    rows = []
    for n in (1000, 10_000):
        rng = np.random.default_rng(1)
        x = rng.uniform(0, 1, n)
        table = pd.DataFrame({"x": x, "y": np.sin(6 * x) + (0.1 + 0.6 * x**2) * rng.normal(size=n)})
        for name, width in KERNELS.items():
            fit = nm.fit("y ~ x", table, method="gibbs", kernel=width, draws=5, tune=30, chains=1, rng=1)
            sweeps = max(5, 20_000 // n)
            found = []
            for _ in range(5):
                before = fit.seconds
                fit = fit.extend(sweeps)
                found.append((fit.seconds - before) / sweeps)
            rows.append({"n": n, "widths": name, "ms a sweep": 1e3 * median(found)})
    return rows


def run(path: str | None = None) -> None:
    results: dict[str, Sequence[dict[str, Any]]] = {}
    for what, sizes in GIBBS.items():
        results[what] = [sweep(*size) for size in sizes]
        print(f"Gibbs sweeps by {what}, ns a pair of row and cluster")
        print(pd.DataFrame(results[what]).round(2).to_string(index=False), flush=True)
    for name, measure in (("moves", moves), ("curves", curves), ("variational", variational)):
        results[name] = measure()
        print(pd.DataFrame(results[name]).round(2).to_string(index=False), flush=True)
    if path:
        record.write(path, "how_fast", {"runs": RUNS}, results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="write the figures to this file")
    run(parser.parse_args().json)
