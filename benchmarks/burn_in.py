"""Burn-in of four hybrids of Gibbs, split-merge and permutation moves, as in Liang, Jordan & Taskar (2007, figure 3).

10,000 points in 40 dimensions around 10, 40 or 80 means from N(0, 2), known identity covariance, N(0, 100) as prior of the means, DP(1).
`python -m benchmarks.burn_in [--to FOLDER]` prints CPU seconds until the log joint has made 99 % of its way from one cluster to the truth,
medians of 5 seeds, and draws the curves.  It takes about ten minutes on one core.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np

import nrmmix as nm
from nrmmix.inference.mcmc.chain import Record, new_chain
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.mcmc.start import initial_labels
from nrmmix.kernels import chain as loop
from nrmmix.kernels.measure.joint import log_joint

N, D, SEEDS = 10_000, 40, 5
SPLIT_MERGE = nm.SplitMerge(proposal="sequential")
PERMUTATION = nm.Permutation(order="projection", beam=1e-32)
HYBRIDS = {
    "Gibbs": nm.Cycle([nm.Gibbs()]),
    "Gibbs + split-merge": nm.Cycle([SPLIT_MERGE, nm.Gibbs()], share="work"),
    "Gibbs + permutation": nm.Cycle([PERMUTATION, nm.Gibbs()], share="work"),
    "all three": nm.Cycle([SPLIT_MERGE, PERMUTATION, nm.Gibbs()], share="work"),
}
SETTINGS = [(40, "one"), (40, "each"), (40, "sequential"), (10, "sequential"), (80, "sequential")]  # true clusters, start


def data(clusters: int, seed: int) -> tuple[nm.Model, np.ndarray]:
    rng = np.random.default_rng([clusters, seed])
    labels = rng.integers(0, clusters, N)
    X = np.sqrt(2.0) * rng.normal(size=(clusters, D))[labels] + rng.normal(size=(N, D))
    family = nm.Gaussian(known_covariance=np.eye(D), m=np.zeros(D), r=0.01)
    return nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=family), labels


def curve(clusters: int, start: str, hybrid: str, seed: int, seconds: float) -> tuple[np.ndarray, np.ndarray, float, float]:
    """CPU seconds and log joints after each iteration, with the log joints of one cluster and of the truth."""
    model, labels = data(clusters, seed)
    chain = new_chain(model, HYBRIDS[hybrid], initial_labels(start, N, 1)[0], np.random.default_rng(seed), Record.allocate(model, 1))
    updates = update_addresses(model)
    at, value = [], []
    began = time.thread_time()
    while not at or at[-1] < seconds:
        chain.control[loop.LIMIT] = len(at)
        chain.run(updates, 10**9, 1)  # all of it tuning: projections search
        at.append(time.thread_time() - began)
        value.append(log_joint(chain.data, chain.state))
    return np.array(at), np.array(value), model.log_joint(np.zeros(N, int)), model.log_joint(labels)


def reached(at: np.ndarray, value: np.ndarray, one: float, truth: float) -> float:
    """CPU seconds until 99 % of the way."""
    there = np.flatnonzero(value >= one + 0.99 * (truth - one))
    return float(at[there[0]]) if len(there) else np.inf


def run(seconds: float = 5.0, seeds: int = SEEDS, threads: int = 1, to: str | None = None) -> None:
    print(f"Burn-in, {N:,} x {D}: CPU seconds to 99 % of the log joint's way from one cluster to the truth, medians of {seeds} seeds")
    curves = {}
    for clusters, start in SETTINGS:
        jobs = [(clusters, start, hybrid, seed, seconds) for hybrid in HYBRIDS for seed in range(seeds)]
        curve(*jobs[0][:4], 0.0)  # kernels are compiled
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(lambda job: curve(*job), jobs))
        for job, result in zip(jobs, found, strict=True):
            curves[job[:4]] = result
        times = {
            hybrid: [reached(*curves[clusters, start, hybrid, seed]) for seed in range(seeds)] for hybrid in HYBRIDS
        }
        last = {
            hybrid: median(curves[clusters, start, hybrid, seed][1][-1] - curves[clusters, start, hybrid, seed][3] for seed in range(seeds))
            for hybrid in HYBRIDS
        }
        print(f"  {clusters:2d} clusters, start {start:<10}  " + "   ".join(
            f"{hybrid} {median(t):.3g} s (ends {last[hybrid]:+.0f} of the truth)" for hybrid, t in times.items()), flush=True)
    if to is not None:
        draw(curves, seeds, Path(to) / "burn_in.png")


def draw(curves: dict, seeds: int, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 3, figsize=(11, 6), layout="constrained", sharey=True)
    for ax, (clusters, start) in zip(axes.flat, SETTINGS, strict=False):
        for color, hybrid in zip(("#888888", "#0072b2", "#d55e00", "#009e73"), HYBRIDS, strict=True):
            for seed in range(seeds):
                at, value, one, truth = curves[clusters, start, hybrid, seed]
                ax.plot(at, (value - one) / (truth - one), color=color, lw=1, alpha=0.8, label=hybrid if seed == 0 else None)
        ax.axhline(1.0, color="black", lw=0.6, ls=":")
        ax.set(title=f"{clusters} clusters, start {start!r}", xlabel="CPU seconds", xscale="log", xlim=(5e-3, None), ylim=(-0.05, 1.08))
        ax.set_ylabel("log joint (0: one cluster, 1: truth)" if ax in axes[:, 0] else "")
    axes.flat[-1].set_axis_off()
    axes.flat[-1].legend(*axes.flat[0].get_legend_handles_labels(), loc="center", frameon=False)
    fig.savefig(path, dpi=100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="CPU seconds of each run")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--to", help="folder for the picture")
    options = parser.parse_args()
    run(options.seconds, options.seeds, options.threads, options.to)
