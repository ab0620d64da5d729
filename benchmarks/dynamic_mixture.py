"""Held-out log density on the synthetic data of Foti & Williamson (2012), against the true density.

    python -m benchmarks.dynamic_mixture [--sets 30]

Each set holds out a tenth of the rows of every stamp.  The target is to come within 0.08 nats a row of the true density on each set, by the
default kernel and by the kernel that the data have.
"""

from __future__ import annotations

import argparse

import numpy as np

import nrmmix as nm

OUT = 6  # rows of each stamp
KERNELS = {"widths of atoms": nm.SquaredExponential(), "box, the truth": nm.Box(0.2, scale=None)}


def scores(seed: int, kernel: nm.SquaredExponential | nm.Box) -> tuple[float, float, float]:
    """Mean log density of the held-out rows: the truth's, the fit's, and the mean over draws of the fit's log densities."""
    data, truth = nm.datasets.simulate_dynamic_mixture(rng=seed)
    test = data.groupby("time").sample(OUT, random_state=seed)
    run = {"draws": 500, "thin": 4, "tune": 1000, "chains": 2, "rng": seed}
    fit = nm.fit("y ~ time", data.drop(test.index), kernel=kernel, family=nm.Gaussian(), **run)
    true = float(np.log(truth.density(test["time"], test["y"])).mean())
    return true, float(fit.log_density(test).mean()), float(fit.log_density(test, average="log").mean())


def run(sets: int = 30) -> None:
    for name, kernel in KERNELS.items():
        found = np.array([scores(seed, kernel) for seed in range(sets)])
        gap = found[:, 0] - found[:, 1]
        print(f"{name}: {sets} sets, held-out log density a row (sd over sets): truth {found[:, 0].mean():.2f} "
              f"({found[:, 0].std(ddof=1):.2f}), fit {found[:, 1].mean():.2f} ({found[:, 1].std(ddof=1):.2f}), "
              f"mean of logs {found[:, 2].mean():.2f}")
        near = (gap <= 0.08).sum()
        print(f"  truth less fit: mean {gap.mean():.3f}, largest {gap.max():.3f}, within 0.08 on {near} of {sets}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=30)
    run(parser.parse_args().sets)
