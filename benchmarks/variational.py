"""Variational inference on problems with a known answer: CPU seconds of `fit`, clusters and bound.

    python -m benchmarks.variational [PROBLEM ...] [--seeds 3] [--components K] [--others] [--random] [--json FILE.json]

Of each problem first full inference started at the true labels; then fits from one component with births and merges, where `--components`
is given also from K with merges alone, and with `--others` full and stochastic inference and GreedyMerge from K or 25; with `--random`
these start from K rows at random too, beside those that k-means++ chooses.  Steps of stochastic inference are (t + delay)^-kappa in the
three settings of the paper: a) kappa 0.5, delay 10, b) 0.5, 100, c) 0.9, 10.  Where the file of `--json` has fits already, those that it
lacks are added: more seeds, other methods (`--only`), or what a run that was ended has left.  `--means` draws the mean images of the
clusters of the best fit from one component, where rows are images.  A problem called `pass` compares a pass with its two products and the
forming of statistics, and with twice the rows.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

import nrmmix as nm
from benchmarks import record
from nrmmix.inference.variational.climb import Climb, Settings
from nrmmix.inference.variational.memory import Batches, Memory
from nrmmix.inference.variational.start import of_labels
from nrmmix.model.families.exponential import BLOCK


class Problem(NamedTuple):
    data: Any
    labels: np.ndarray
    family: Any
    mass: Any
    images: np.ndarray | None = None  # (n, height, width) that rows were made of


def zero_mean(n: int, d: int, K: int, seed: int) -> Problem:
    """Components that differ in covariance alone: some factors, and noise, of their own."""
    rng = np.random.default_rng(seed)
    labels, X = rng.choice(K, n, p=rng.dirichlet(np.full(K, 4.0))), np.empty((n, d))
    for k in range(K):
        rows, factors = np.flatnonzero(labels == k), d // 4
        loadings, sd = 1.2 * rng.normal(size=(d, factors)) / np.sqrt(factors), np.exp(0.4 * rng.normal(size=d))
        X[rows] = rng.normal(size=(len(rows), factors)) @ loadings.T + rng.normal(size=(len(rows), d)) * sd
    return Problem(X, labels, nm.Gaussian(known_mean=0.0, nu=d + 2.0, scale=np.eye(d)), 1.0)


def plane(n: int = 100_000, K: int = 50, seed: int = 7) -> Problem:
    """Overlapping components in two dimensions."""
    rng = np.random.default_rng(seed)
    labels, X, means = rng.choice(K, n, p=rng.dirichlet(np.full(K, 3.0))), np.empty((n, 2)), rng.uniform(-10, 10, (K, 2))
    for k in range(K):
        rows = np.flatnonzero(labels == k)
        root = rng.normal(size=(2, 2)) * 0.5 + np.eye(2) * 0.4
        X[rows] = means[k] + rng.normal(size=(len(rows), 2)) @ root.T
    return Problem(X, labels, nm.Gaussian(), nm.Gamma(1.0, 1.0))


def topics(n: int = 20_000, words: int = 500, K: int = 30, seed: int = 11) -> Problem:
    """Sparse counts."""
    rng = np.random.default_rng(seed)
    labels, base = rng.choice(K, n, p=rng.dirichlet(np.full(K, 3.0))), rng.dirichlet(np.ones(words))
    shares = [0.5 * rng.dirichlet(np.full(words, 0.05)) + 0.5 * base for _ in range(K)]
    lengths = rng.poisson(60, n) + 5
    counts = np.array([rng.multinomial(length, shares[k]) for k, length in zip(labels, lengths, strict=True)])
    return Problem(csr_array(counts), labels, nm.Multinomial(0.1), nm.Gamma(1.0, 1.0))


def edges() -> Problem:
    """The toy problem of the paper."""
    X, labels, _ = nm.datasets.simulate_edge_patches(100_000, rng=1)
    d = X.shape[1]
    return Problem(X, labels, nm.Gaussian(known_mean=0.0, nu=d + 2.0, scale=np.eye(d)), 1.0)


def mnist() -> Problem:
    """Handwritten digits, their 50 principal components, as in section 4.2 of the paper; labels are the digits."""
    folder = os.environ.get("NRMMIX_DATA_DIR")
    if not folder:
        raise SystemExit("NRMMIX_DATA_DIR must name the folder of mnist_train60k.npz, which does not come with the package.")
    with np.load(Path(folder) / "mnist_train60k.npz") as kept:
        images, labels = kept["images"].reshape(-1, 28, 28), kept["labels"].astype(np.int64)
    X = images.reshape(len(images), -1) / 255.0
    X -= X.mean(axis=0)
    _, axes = np.linalg.eigh(X.T @ X)
    return Problem(X @ axes[:, :-51:-1], labels, nm.Gaussian(), nm.Gamma(1.0, 1.0), images)


STEPS = {"a": (0.5, 10.0), "b": (0.5, 100.0), "c": (0.9, 10.0)}  # kappa and delay (Hughes and Sudderth 2013, section 4)

PROBLEMS: dict[str, Callable[[], Problem]] = {
    "zero_mean": lambda: zero_mean(100_000, 25, 8, 101),
    "zero_mean_50": lambda: zero_mean(60_000, 50, 8, 101),
    "zero_mean_many": lambda: zero_mean(100_000, 30, 30, 102),
    "topics": topics,
    "plane": plane,
    "edges": edges, "mnist": mnist,
}


def _fit(model: nm.Model, method: Any, seed: int, init: Any = "k-means++") -> tuple[Any, float]:
    started = time.process_time()
    fit = model.fit(method, init=init, rng=seed)
    return fit, time.process_time() - started


def _say(name: str, fit: Any, seconds: float, best: float, model: nm.Model, labels: np.ndarray) -> dict[str, Any]:
    below, alignment = (best - fit.elbo) / model.n_obs, _alignment(fit.labels, labels)
    print(f"{name:<34} {fit.n_clusters:>4} clusters  bound {fit.elbo:.2f} ({below:+.1e} nats a row below)  {seconds:6.2f} CPU s  "
          f"{len(fit.passes):>3} passes  alignment {alignment:.3f}", flush=True)
    return {
        "fit": name.strip(), "clusters": fit.n_clusters, "bound": fit.elbo, "nats a row below the start at the true labels": below,
        "CPU s": seconds, "passes": len(fit.passes), "alignment": alignment,
    }


def _alignment(found: np.ndarray, labels: np.ndarray) -> float:
    """Share of the rows that have the most frequent label of their cluster."""
    table = np.zeros((found.max() + 1, labels.max() + 1), np.int64)
    np.add.at(table, (found, labels), 1)
    return float(table.max(axis=1).sum() / len(labels))


def methods_of(n: int, components: int | None, others: bool) -> dict[str, Any]:
    """Methods that start from several components, of a problem of n rows, by what is said of them."""
    start, methods = components or 25, dict[str, Any]()
    if components is not None:
        methods[f"memoized, from {components}"] = nm.MemoizedVB(components=components, births=False)
    if others:
        methods[f"full, from {start}"] = nm.VB(components=start, merges=False)
        for name, (kappa, delay) in STEPS.items():
            methods[f"stochastic {name}, from {start}"] = nm.StochasticVB(components=start, kappa=kappa, delay=delay)
        greedy = nm.MemoizedVB(components=start, births=False, merges="greedy", batches=max(n // 1000, 1))
        methods[f"GreedyMerge, from {start}"] = greedy
    return methods


def run(
    names: tuple[str, ...] = ("zero_mean", "topics"), seeds: int = 1, components: int | None = None, others: bool = False,
    json: str | None = None, random: bool = False, means: str | None = None, only: tuple[str, ...] = (),
) -> None:
    settings = {"components": components}
    tables = record.kept(json, settings)
    for name in names:
        problem, rows = PROBLEMS[name](), tables.setdefault(name, [])
        started = time.process_time()
        model = nm.Model(data=problem.data, family=problem.family, prior=nm.DirichletProcess(problem.mass))
        print(f"{name}: {model.n_obs:,} x {model.n_dim}, {len(np.unique(problem.labels))} components; model made in "
              f"{time.process_time() - started:.2f} CPU s")
        if not rows:
            truth, seconds = _fit(model, nm.MemoizedVB(births=False, passes=300), 0, problem.labels)
            rows.append(_say("  from the true labels", truth, seconds, truth.elbo, model, problem.labels))
        several = methods_of(model.n_obs, components, others)
        chosen = {"memoized, from 1": (nm.MemoizedVB(), "k-means++")} | {what: (method, "k-means++") for what, method in several.items()}
        if random:
            chosen |= {f"{what} at random": (method, "random") for what, method in several.items()}
        for seed in range(1, seeds + 1):
            for what, (method, init) in chosen.items():
                if (only and not what.startswith(only)) or any(row["fit"] == f"{what}, seed {seed}" for row in rows):
                    continue
                fit, seconds = _fit(model, method, seed, init)
                rows.append(_say(f"  {what}, seed {seed}", fit, seconds, rows[0]["bound"], model, problem.labels))
                born = [row["bound"] for row in rows if row["fit"].startswith("memoized, from 1,")]
                if means and what == "memoized, from 1" and fit.elbo >= max(born):
                    _draw_means(problem.images, fit.labels, means)
                if json:
                    record.write(json, "variational", settings, tables)


def _draw_means(images: np.ndarray | None, labels: np.ndarray, path: str, columns: int = 16) -> None:
    """Mean images of clusters, largest first, with the numbers of their rows."""
    import matplotlib.pyplot as plt

    if images is None:
        raise SystemExit("--means is for problems whose rows are images: mnist.")
    sizes = np.bincount(labels)
    fig, axes = plt.subplots(-(-len(sizes) // columns), columns, figsize=(0.62 * columns, 0.8 * -(-len(sizes) // columns)), squeeze=False)
    for ax in axes.flat:
        ax.set_axis_off()
    for ax, k in zip(axes.flat, np.argsort(-sizes), strict=False):
        ax.imshow(images[labels == k].mean(axis=0), cmap="gray_r")
        ax.set_title(f"{sizes[k]:,}", fontsize=6, pad=1.5)
    fig.subplots_adjust(0.005, 0.005, 0.995, 0.95, wspace=0.05, hspace=0.3)
    fig.savefig(path, dpi=140)
    plt.close(fig)


def of_a_pass() -> None:
    """A pass against its two products with the forming of statistics, by blocks of 1,024 rows, and for half the rows."""
    for K in (8, 25):
        memories = {n: _memory(n, K) for n in (50_000, 100_000)}
        half, whole = (min(_seconds(_pass(memory)) for _ in range(5)) for memory in memories.values())
        least = min(_seconds(_floor(memories[100_000])) for _ in range(5))
        print(f"a pass over 100,000 x 25 with {K} components: {whole:.3f} CPU s; statistics and two products {least:.3f} "
              f"({whole / least:.2f} times); half the rows {half:.3f}")


def _memory(n: int, K: int) -> Memory:
    problem = zero_mean(n, 25, 8, 101)
    model = nm.Model(data=problem.data, family=problem.family, prior=nm.DirichletProcess(1.0))
    exponential = model.exponential()
    memory = Memory(exponential, 1.0, Batches(model.statistics(exponential), 20))
    memory.start(*of_labels(memory.batches.rows, problem.labels if K == 8 else np.arange(n) % K))
    return memory


def _pass(memory: Memory) -> Callable[[], Any]:
    return Climb(memory, Settings(1, 0.0), np.random.default_rng(1)).one_pass


def _floor(memory: Memory) -> Callable[[], Any]:
    r = np.random.default_rng(1).random((memory.n_components, BLOCK))

    def products() -> None:
        for start, stop, features in memory.batches.rows.blocks(0, memory.batches.rows.n):
            features.scores(memory.factors.eta)
            features.totals(r[:, : stop - start])

    return products


def _seconds(call: Callable[[], Any]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", nargs="*", default=["zero_mean", "topics"], choices=[*PROBLEMS, "pass"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--components", type=int, help="start from so many too, with merges alone")
    parser.add_argument("--others", action="store_true", help="full and stochastic inference and GreedyMerge beside it")
    parser.add_argument("--random", action="store_true", help="start from rows at random too, beside those of k-means++")
    parser.add_argument("--only", nargs="+", default=(), metavar="METHOD", help="first words of the methods to run, such as memoized")
    parser.add_argument("--means", metavar="FILE.png", help="draw mean images of the clusters of the best fit from one component")
    record.option(parser)
    options = parser.parse_args()
    names = [options.problem] if isinstance(options.problem, str) else options.problem
    if "pass" in names:
        of_a_pass()
    chosen = tuple(name for name in names if name != "pass")
    run(chosen, options.seeds, options.components, options.others, options.json, options.random, options.means,
        tuple(options.only))


if __name__ == "__main__":
    main()
