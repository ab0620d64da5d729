"""Time to score an observation in a cluster, for every family, against a floor.

The floor reads every statistic that the score depends on once, with one multiply-add each, and takes as many logarithms as the score must:
one a pair, for counts one a cell.  Both run over all n x K pairs with the statistics frozen, clusters innermost.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

import nrmmix as nm
from nrmmix.inference.mcmc.chain import Record, new_chain
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.methods import CYCLES
from nrmmix.kernels import chain as loop
from nrmmix.kernels.chain import start
from nrmmix.kernels.core.clusters import score_columns
from nrmmix.kernels.core.jit import fast, kernel
from nrmmix.kernels.core.special import log_pos
from nrmmix.kernels.core.state import Count
from nrmmix.model.pack import arrays_of


class Case(NamedTuple):
    model: nm.Model
    n_clusters: int
    reads: list[np.ndarray]  # of each observation, the rows of statistics that its score reads
    logs: int


@fast
def least(stat, out, scratch, rows, x, K, logs):
    for r in range(rows.shape[0]):
        column = stat[rows[r]]
        for k in range(K):
            scratch[k] += x * column[k]
    for _ in range(logs):
        for k in range(K):
            out[k] += log_pos(1.0 + scratch[k] * scratch[k])


@fast
def clear(out, scratch, K):
    for k in range(K):
        out[k] = 0.0
        scratch[k] = 0.0


@kernel
def floor_of_all(stat, out, scratch, indptr, rows, x, K, logs):
    for i in range(indptr.shape[0] - 1):
        clear(out, scratch, K)
        least(stat, out, scratch, rows[indptr[i] : indptr[i + 1]], x[i], K, logs)


@kernel
def score_all(data, state, K):
    for i in range(state.labels.shape[0]):
        for k in range(K):
            state.scratch.score[k] = 0.0
        score_columns(data, state.stat, state.scratch.work, state.scratch.score, K, i, -1)


def cases() -> dict[str, Case]:
    rng = np.random.default_rng(1)

    def each(n: int, count: int) -> list[np.ndarray]:
        return [np.arange(count)] * n

    def gaussian(n: int, d: int, K: int, family: nm.Gaussian, reads: int) -> Case:
        return Case(nm.Model(data=rng.normal(size=(n, d)) * 10, family=family), K, each(n, reads), 1)

    n, K = 2000, 50
    out = {}
    for d in (2, 6):
        out[f"Gaussian full, d = {d}"] = gaussian(n, d, K, nm.Gaussian(), 3 + d + d * (d + 1) // 2)
    for d in (4, 256):
        logs = -(-d // 8)  # of products of eight
        case = gaussian(n, d, 20, nm.Gaussian("diagonal"), 2 * d)
        out[f"Gaussian diagonal, d = {d}"] = case._replace(logs=logs)
    out["Gaussian known covariance, d = 40"] = gaussian(n, 40, K, nm.Gaussian(known_covariance=np.eye(40)), 42)._replace(logs=0)
    out["Gaussian known mean, d = 6"] = gaussian(n, 6, K, nm.Gaussian(known_mean=0.0), 24)
    out["Semiconjugate Gaussian, d = 4"] = Case(nm.Model(data=rng.normal(size=(n, 4)), family=nm.SemiconjugateGaussian()), K, each(n, 9), 0)
    y = rng.poisson(20.0, size=(n, 8))
    out["Poisson, d = 8"] = Case(nm.Model(data=y, family=nm.Poisson()), K, each(n, 24), 8)
    out["Bernoulli, d = 64"] = Case(nm.Model(data=rng.integers(0, 2, size=(n, 64)), family=nm.Bernoulli()), K, each(n, 64), 0)
    codes = pd.DataFrame(rng.integers(0, 5, size=(n, 8)), columns=list("abcdefgh"))
    out["Categorical, d = 8"] = Case(nm.Model(data=codes, family=nm.Categorical()), K, each(n, 16), 0)
    x = pd.DataFrame(rng.normal(size=(n, 4)), columns=["x1", "x2", "x3", "y"])
    out["Regression, 4 coefficients"] = Case(nm.Model("y ~ 1", x, family=nm.Regression("1 + x1 + x2 + x3")), K, each(n, 3 + 4 + 10), 1)
    y = x.assign(z=rng.normal(size=n))
    family = nm.Regression("1 + x1 + x2 + x3")
    out["Regression, 4 coefficients, d = 2"] = Case(nm.Model("y + z ~ 1", y, family=family), K, each(n, 2 + 8 + 10 + 3), 2)
    counts = words()
    rows = [counts.indices[counts.indptr[i] : counts.indptr[i + 1]] for i in range(counts.shape[0])]
    tokens = int(np.diff(counts.indptr).mean())
    out[f"Multinomial, {counts.shape[0]:,} x {counts.shape[1]:,}, {tokens} words a row"] = Case(
        nm.Model(data=counts, family=nm.Multinomial()), 100, rows, 1
    )
    return out


def words() -> csr_array:
    """The NIPS words where the file is there, else a simulated twin."""
    folder = os.environ.get("NRMMIX_DATA_DIR")
    if folder and (Path(folder) / "nips_uci_gt20.npz").exists():
        with np.load(Path(folder) / "nips_uci_gt20.npz") as z:
            return csr_array((z["counts"].astype(np.int64), z["indices"].astype(np.int64), z["indptr"].astype(np.int64)), shape=z["shape"])
    rng = np.random.default_rng(1)
    share = np.sort(rng.pareto(1.0, 7605))[::-1]
    return csr_array(rng.multinomial(rng.poisson(1200, 1500) + 1, share / share.sum()))


def measure(case: Case, repeats: int = 7) -> tuple[float, float, float]:
    """Nanoseconds a pair: ours, the floor, and the median of their ratios."""
    model, K = case.model, case.n_clusters
    data, state = arrays_of(model, K)
    start(data, state, np.arange(model.n_obs) % K)
    indptr = np.concatenate([[0], np.cumsum([len(rows) for rows in case.reads])]).astype(np.int64)
    rows = np.concatenate(case.reads).astype(np.int64)
    x, scratch = np.random.default_rng(0).random(model.n_obs), np.zeros_like(state.scratch.score)
    sweeps = max(1, int(2e7 / (len(rows) * K)))
    ours, floor = [], []
    for repeat in range(repeats + 1):
        t = time.process_time()
        for _ in range(sweeps):
            score_all(data, state, K)
        a = time.process_time() - t
        t = time.process_time()
        for _ in range(sweeps):
            floor_of_all(state.stat, state.scratch.score, scratch, indptr, rows, x, K, case.logs)
        b = time.process_time() - t
        if repeat:  # the first compiles
            ours.append(a)
            floor.append(b)
    pairs = sweeps * model.n_obs * K / 1e9
    return median(ours) / pairs, median(floor) / pairs, median(a / b for a, b in zip(ours, floor, strict=True))


def sweeps() -> None:
    """Whole Gibbs sweeps of two wide data sets, the number of clusters held near a hundred and near twenty by finite mixtures."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 256)) + 4 * rng.normal(size=(20, 256))[np.arange(2000) % 20]
    for name, data, family, K, most in (
        ("words, K = 100", words(), nm.Multinomial(), 100, 1.0),
        ("diagonal Gaussian, 2,000 x 256, K = 20", X, nm.Gaussian("diagonal"), 20, 0.1),
    ):
        model = nm.Model(data=data, family=family, prior=nm.FiniteMixture(K, float(K)))
        chain = new_chain(model, CYCLES["gibbs"], np.arange(model.n_obs) % K, np.random.default_rng(1), Record.allocate(model, 1))
        updates = update_addresses(model)
        seconds = []
        for _ in range(8):
            chain.control[loop.ITERATION] = 0
            t = time.process_time()
            chain.run(updates, 0, 1)
            seconds.append(time.process_time() - t)
        found = int(chain.state.num[Count.CLUSTERS])
        print(f"  {name:<52} {median(seconds[1:]) * 1e3:9.1f} ms a sweep, {found} clusters; target {most * 1e3:.0f} ms")


def run() -> None:
    print("Score of an observation in a cluster against the floor, nanoseconds a pair; target: ratio at most 2.0")
    for name, case in cases().items():
        ours, floor, ratio = measure(case)
        print(f"  {name:<52} ours {ours:9.1f}   floor {floor:9.1f}   ratio {ratio:.2f}")
    print("Gibbs sweeps")
    sweeps()


if __name__ == "__main__":
    run()
