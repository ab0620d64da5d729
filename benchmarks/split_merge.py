"""Split-merge: time of an iteration on the toy data, and two clusters found from one in 7 to 40 dimensions."""

from __future__ import annotations

import time
from statistics import median

import numpy as np

import nrmmix as nm
from benchmarks.floor import frozen_sweep
from benchmarks.gibbs import data_sets
from nrmmix.inference.mcmc.chain import Chain, Record, new_chain
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.methods import named
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core.state import Count

SEEDS = 5
# Of the authors' C++ on this kind of machine, milliseconds: a Gibbs sweep, and ten restricted scans with a sweep.
PUBLISHED = {"gibbs": 19.0, "split_merge": 26.7}
METHODS = {
    "gibbs": nm.Gibbs(),
    "split_merge": [nm.SplitMerge(scans=10), nm.Gibbs()],
    "split_merge, sequential": [nm.SplitMerge(proposal="sequential"), nm.Gibbs()],
}


def chain_of(model: nm.Model, method: object, labels: np.ndarray, seed: int, draws: int) -> Chain:
    return new_chain(model, named(method)[1], labels, np.random.default_rng(seed), Record.allocate(model, draws))


def seconds_a_pair(model: nm.Model, labels: np.ndarray) -> float:
    """Of scoring and sampling at the true partition, statistics frozen."""
    chain = chain_of(model, nm.Gibbs(), labels, 0, 1)
    frozen_sweep(chain.data, chain.state, chain.rng)
    times = []
    for _ in range(SEEDS):
        t = time.process_time()
        for _ in range(100):
            frozen_sweep(chain.data, chain.state, chain.rng)
        times.append((time.process_time() - t) / 100)
    return median(times) / (len(labels) * (labels.max() + 1))


def toy() -> None:
    name, (X, given) = next(iter(data_sets().items()))
    model = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=nm.lee_choi_base(X))
    labels = np.unique(given, return_inverse=True)[1]
    updates, pair = update_addresses(model), seconds_a_pair(model, labels)
    sweeps = 1500
    print(f"{name}, DP(1), published base measure, from one cluster, medians of {SEEDS} seeds; floor: the pairs scored, statistics frozen;")
    print("target: 20 times faster than the authors' C++")
    for method, moves in METHODS.items():
        each, ratio, passed = [], [], []
        for seed in range(SEEDS):
            chain = chain_of(model, moves, np.zeros(len(X), np.int64), seed, sweeps)
            chain.control[loop.LIMIT] = 0
            chain.run(updates, 0, 1)
            chain.control[loop.LIMIT] = sweeps
            t = time.process_time()
            chain.run(updates, 0, 1)
            each.append((time.process_time() - t) / sweeps)
            ratio.append(each[-1] * sweeps / (int(chain.state.num[Count.SCORED]) * pair))
            over = np.flatnonzero(chain.record.scalars[:, loop.R_JOINT] > -1600)
            passed.append((over[0] + 1) * each[-1] if len(over) else np.inf)
        theirs = PUBLISHED.get(method, PUBLISHED["split_merge"])
        print(
            f"  {method:<24} {median(each) * 1e3:7.3f} ms an iteration   {median(ratio):.2f} of the floor   "
            f"{theirs / median(each) / 1e3:5.0f} times faster than {theirs} ms   log joint above -1600 after {median(passed):.3f} s"
        )


def stress() -> None:
    limit = 3000
    print("50 points, unit clusters at +-10/sqrt(d), DP(1), from one cluster; target: at most 200 sweeps until no cluster mixes them")
    print(f"(of {limit}, medians of {SEEDS} seeds; from d = 20 on the posterior parts each of the two further, the truth is no mode)")
    for base in ("default", "unit"):
        for d in (7, 11, 20, 40):
            found: dict[str, list[float]] = {method: [] for method in METHODS}
            for seed in range(SEEDS):
                X = np.random.default_rng(seed).normal(size=(50, d)) + np.repeat([[10.0], [-10.0]], 25, axis=0) / np.sqrt(d)
                family = nm.Gaussian() if base == "default" else nm.Gaussian(m=np.zeros(d), r=0.1, nu=d + 3.0, scale=np.eye(d))
                model = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=family)
                for method, moves in METHODS.items():
                    chain = chain_of(model, moves, np.zeros(50, np.int64), seed, limit)
                    chain.run(update_addresses(model), 0, 1)
                    hit = np.flatnonzero([not np.isin(labels[:25], labels[25:]).any() for labels in chain.record.labels])
                    found[method].append(hit[0] + 1 if len(hit) else np.inf)
            print(f"  {base:>7} prior, d = {d:2d}   " + "   ".join(f"{method} {median(hits):g}" for method, hits in found.items()))


def run() -> None:
    toy()
    stress()


if __name__ == "__main__":
    run()
