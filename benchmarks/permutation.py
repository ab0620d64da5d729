"""Experiments of Liang, Jordan & Taskar (2007, figure 3): burn-in and mixing of four hybrids of Gibbs, split-merge and permutation moves.

    [NRMMIX_DATA_DIR=...] python -m benchmarks.permutation [--seconds 3] [--seeds 3] [--draws 1000] [--json FILE.json]

Burn-in: 10,000 points around means from N(0, 2 I) with identity covariance, N(0, 100 I) as prior of the means, the mass sampled under
Gamma(1, 1); log p(X, partition) under DP(1) against CPU seconds of one thread, by random projections.  Digits are 10,000 of MNIST with each
pixel standardised, by 50 principal components, covariance 16 I; words are 2,246 news stories of the AP.  Without the folder of these files
the digits and stories that come with the package stand in.

Mixing: 1,000 digits by two principal components, permutations drawn uniformly, which leaves the posterior as it is; autocorrelation of the
number of clusters and of the size of the largest.

What the paper leaves open and was chosen here: the prior of the mass, the prior of the means of digits (variance 100), the base measure of
words (0.1), pixels standardised, which start is which panel, and the shares of moves (equal work).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np

import nrmmix as nm
from benchmarks import record
from nrmmix.inference.mcmc.chain import Record, new_chain
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.mcmc.start import initial_labels
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core.state import Count
from nrmmix.posterior import diagnostics

N = 10_000
POINTS = 24  # of a curve, even in the logarithm of time
LONGER = {"i": 3.0, "j": 3.0}  # panels of real data take so many times as long
LAGS = (0, 1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50)
SPLIT_MERGE = nm.SplitMerge(proposal="sequential")


def hybrids(permutation: nm.Permutation) -> dict[str, nm.Cycle]:
    return {
        "Gibbs": nm.Cycle([nm.Gibbs()]),
        "Gibbs + split-merge": nm.Cycle([SPLIT_MERGE, nm.Gibbs()], share="work"),
        "Gibbs + permutation": nm.Cycle([permutation, nm.Gibbs()], share="work"),
        "all three": nm.Cycle([SPLIT_MERGE, permutation, nm.Gibbs()], share="work"),
    }


SEARCHING = hybrids(nm.Permutation(order="projection", beam=1e-32))
EXACT = hybrids(nm.Permutation(order="uniform"))


def simulated(dim: int, clusters: int) -> Callable[[int], tuple[Any, Any, np.ndarray | None]]:
    def data(seed: int) -> tuple[Any, Any, np.ndarray | None]:
        rng = np.random.default_rng([clusters, seed] if dim == 40 else [clusters, seed, dim])
        labels = rng.integers(0, clusters, N)
        X = np.sqrt(2.0) * rng.normal(size=(clusters, dim))[labels] + rng.normal(size=(N, dim))
        return X, nm.Gaussian(known_covariance=np.eye(dim), m=np.zeros(dim), r=0.01), labels

    return data


def projected(images: np.ndarray, dim: int) -> np.ndarray:
    """Principal components of pixels that are standardised; pixels that never change are left out."""
    pixels = images[:, images.std(axis=0) > 0].astype(float)
    pixels = (pixels - pixels.mean(axis=0)) / pixels.std(axis=0)
    _, vectors = np.linalg.eigh(np.cov(pixels.T))
    return pixels @ vectors[:, ::-1][:, :dim]


def digits(n: int, dim: int) -> tuple[str, np.ndarray]:
    """What was taken, and principal components of its pixels."""
    if os.environ.get("NRMMIX_DATA_DIR"):
        with np.load(nm.datasets.external("mnist_train60k.npz")) as z:
            images = z["images"]
        chosen = images[np.random.default_rng(0).choice(len(images), n, replace=False)]
        return f"{n:,} MNIST digits", projected(chosen, dim)
    images = nm.datasets.load_digits().drop(columns="digit").to_numpy()
    return f"{min(n, len(images)):,} digits of 8 x 8", projected(images[:n], dim)


def of_digits(dim: int) -> nm.Gaussian:
    return nm.Gaussian(known_covariance=16.0 * np.eye(dim), m=np.zeros(dim), r=0.16)


def words() -> tuple[str, Any]:
    from scipy.sparse import csr_array

    if os.environ.get("NRMMIX_DATA_DIR"):
        with np.load(nm.datasets.external("ap_blei.npz")) as z:
            return "2,246 AP stories", csr_array(
                (z["counts"].astype(float), z["indices"].astype(np.int64), z["indptr"]), shape=tuple(z["shape"]))
    return "395 Reuters stories", nm.datasets.load_reuters().counts


def panels() -> Iterator[tuple[str, str, str, Callable[[int], tuple[Any, Any, np.ndarray | None]]]]:
    """Panel, what is in it, start, and data, family and truth by seed."""
    for panel, start in zip("abc", ("one", "sequential", "each"), strict=True):
        yield panel, f"40 clusters, 40 dimensions, start {start!r}", start, simulated(40, 40)
    for panel, clusters in zip("def", (10, 40, 80), strict=True):
        yield panel, f"{clusters} clusters, 40 dimensions", "sequential", simulated(40, clusters)
    for panel, dim in zip("gh", (10, 80), strict=True):
        yield panel, f"40 clusters, {dim} dimensions", "sequential", simulated(dim, 40)
    name, X = digits(N, 50)
    yield "i", f"{name}, 50 dimensions", "sequential", lambda _seed: (X, of_digits(50), None)
    name, counts = words()
    yield "j", name, "sequential", lambda _seed: (counts, nm.Multinomial(0.1), None)


def climb(X: Any, family: Any, hybrid: nm.Cycle, start: str, seed: int, seconds: float) -> tuple[list[float], list[float], int, int]:
    """CPU seconds at which the chain was looked at, and log p(X, partition) under DP(1) there; iterations, and clusters at the end."""
    model, scored = (nm.Model(data=X, prior=prior, family=family) for prior in (nm.DirichletProcess(), nm.DirichletProcess(1.0)))
    labels = initial_labels(start, model.n_obs, 1)[0]
    chain = new_chain(model, hybrid, labels, np.random.default_rng(seed), Record.allocate(model, 1))
    updates, wanted = update_addresses(model), list(np.geomspace(seconds / 300, seconds, POINTS))
    at, value, used, iterations = list[float](), list[float](), 0.0, 0
    while wanted:
        chain.control[loop.LIMIT] = iterations
        began = time.thread_time()
        chain.run(updates, 10**9, 1)  # all of it tuning: projections search
        used, iterations = used + time.thread_time() - began, iterations + 1
        if used >= wanted[0]:
            at.append(used)
            value.append(scored.log_joint(np.unique(chain.state.labels, return_inverse=True)[1]))
            wanted = [when for when in wanted if when > used]
    return at, value, iterations - 1, int(chain.state.num[Count.CLUSTERS])


def reached(at: list[float], value: list[float], level: float) -> float | None:
    """The first look at which the level was there."""
    return next((when for when, what in zip(at, value, strict=True) if what >= level), None)


def burn_in(seconds: float, seeds: int, only: str | None = None) -> list[dict[str, Any]]:
    rows = []
    for panel, name, start, data in panels():
        if only and panel not in only:
            continue
        for seed in range(seeds):
            X, family, truth = data(seed)
            scored = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=family)
            one = scored.log_joint(np.zeros(scored.n_obs, int))
            true = None if truth is None else scored.log_joint(np.unique(truth, return_inverse=True)[1])
            climb(X, family, SEARCHING["all three"], start, seed, 0.01)  # what is compiled is loaded
            length = seconds * LONGER.get(panel, 1.0)
            found = {hybrid: climb(X, family, cycle, start, seed, length) for hybrid, cycle in SEARCHING.items()}
            best = max(max(value) for _, value, _, _ in found.values())
            level = one + 0.99 * ((best if true is None else true) - one)
            for hybrid, (at, value, iterations, clusters) in found.items():
                rows.append({
                    "panel": panel, "name": name, "start": start, "hybrid": hybrid, "seed": seed, "one": one, "truth": true, "best": best,
                    "seconds": at, "log_joint": value, "reached": reached(at, value, level), "iterations": iterations,
                    "clusters": clusters,
                })
        told = {
            hybrid: median(float("inf") if row["reached"] is None else row["reached"] for row in rows
                           if row["panel"] == panel and row["hybrid"] == hybrid) for hybrid in SEARCHING
        }
        print(f"({panel}) {name:<52}" + "  ".join(f"{hybrid} {when:.3g} s" for hybrid, when in told.items()), flush=True)
    return rows


def autocorrelation(x: np.ndarray) -> list[float]:
    """Of one chain, its mean taken away."""
    x = x - x.mean()
    return [float((x[: len(x) - lag] * x[lag:]).sum() / (x * x).sum()) for lag in LAGS]


def mixing(draws: int, seeds: int) -> list[dict[str, Any]]:
    name, X = digits(1000, 2)
    model = nm.Model(data=X, prior=nm.DirichletProcess(), family=of_digits(2))
    print(f"mixing on {name}, 2 dimensions: {draws:,} draws of {seeds} chains")
    rows = []
    for hybrid, cycle in EXACT.items():
        for seed in range(seeds):
            began = time.process_time()
            fit = model.fit(cycle, draws=draws, tune=draws // 5, chains=1, cores=1, rng=seed, init="sequential")
            seconds = (time.process_time() - began) / 1.2 / draws
            labels = fit.draws["labels"][0]
            shown = {"clusters": fit.draws["n_clusters"][0].astype(float),
                     "largest": np.array([np.bincount(one).max() for one in labels], float)}
            for what, x in shown.items():
                rows.append({
                    "hybrid": hybrid, "seed": seed, "statistic": what, "lags": LAGS, "autocorrelation": autocorrelation(x),
                    "tau": float(diagnostics.iact(x)), "mean": x.mean(), "seconds": seconds,
                })
        told = {what: median(row["tau"] for row in rows if row["hybrid"] == hybrid and row["statistic"] == what) for what in shown}
        print(f"  {hybrid:<22}{1e3 * seconds:8.1f} ms an iteration   tau " + "  ".join(f"{k} {v:.1f}" for k, v in told.items()), flush=True)
    return rows


def run(seconds: float, seeds: int, draws: int, only: str | None, path: str | None) -> None:
    results = {}
    if only is None or set(only) - set("kl"):
        results["burn_in"] = burn_in(seconds, seeds, only)
    if only is None or set(only) & set("kl"):
        results["mixing"] = mixing(draws, seeds)
    if path is not None:
        settings = {"seconds": seconds, "longer": LONGER, "seeds": seeds, "draws": draws, "points": N}
        record.write(path, "permutation", settings, results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="CPU seconds of each run of burn-in")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=1000, help="of each chain of mixing")
    parser.add_argument("--only", metavar="PANELS", help="letters of panels, such as abij or kl")
    record.option(parser)
    chosen = parser.parse_args()
    run(chosen.seconds, chosen.seeds, chosen.draws, chosen.only, chosen.json)
