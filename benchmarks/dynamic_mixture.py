"""Held-out log density on the synthetic data of Foti & Williamson (2012), against the true density.

    python -m benchmarks.dynamic_mixture [--sets 30] [--only "the kernel of the data"]

Each set holds out a tenth of the rows of every stamp.  The target is to come within 0.08 nats a row of the true density on each set.  On
60 rows a difference of two log densities has a Monte Carlo error of about 0.04 itself, so it is given by quadrature too: the expectation
under the true density, the mean over stamps of the Kullback-Leibler divergence, which is what so many held-out rows estimate.  Fits
by the default kernel; by the kernel that the data have; by a Dirichlet process with the kernel, the variance and the law of means of the
data; and by the very model that made them, 12 components of equal sizes, from which no method can be better on average over sets.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd

import nrmmix as nm

OUT = 6  # rows of each stamp
STEP, REACH = 0.5, 16.0  # of the quadrature in y: about five standard deviations beyond the outermost mean
TRUE_KERNEL = nm.Box(0.2, scale=None)
TRUE_FAMILY = nm.Gaussian(known_covariance=10.0, m=0, r=0.1)
MODELS = {
    "widths of atoms": {"kernel": nm.SquaredExponential()},
    "the kernel of the data": {"kernel": TRUE_KERNEL},
    "kernel and family of the data": {"kernel": TRUE_KERNEL, "family": TRUE_FAMILY},
    # 12 components of equal sizes, for those of a Dirichlet law with a large mass are.  Chains that begin elsewhere stay in other modes.
    "the model of the data": {
        "kernel": TRUE_KERNEL, "family": TRUE_FAMILY, "prior": nm.FiniteMixture(12, 12_000.0),
    },
}


def divergence(fit: nm.MCMCResult, truth: Any, times: np.ndarray) -> float:
    """Mean over stamps of E[log true density - log density of the fit] under the true density, by the trapezoid rule."""
    low, high = float(truth.means.min()) - REACH, float(truth.means.max()) + REACH
    y = np.arange(low, high, STEP)
    at = pd.DataFrame({"y": np.tile(y, len(times)), "time": np.repeat(times, len(y))})
    true = truth.density(at["time"], at["y"])
    gap = np.where(true > 0, true * (np.log(np.maximum(true, 1e-300)) - fit.log_density(at, draws=300).to_numpy()), 0.0)
    return STEP * float(gap.sum()) / len(times)


def scores(seed: int, model: dict) -> tuple[float, float, float, float]:
    """Mean log density of the held-out rows, the truth's, the fit's, and the mean over draws of the fit's log densities; the divergence."""
    data, truth = nm.datasets.simulate_dynamic_mixture(rng=seed)
    test = data.groupby("time").sample(OUT, random_state=seed)
    train = data.drop(test.index)
    run = {"draws": 500, "thin": 4, "tune": 1000, "chains": 2, "rng": seed}
    if "prior" in model:
        run["init"] = np.unique(train["component"], return_inverse=True)[1]
    fit = nm.fit("y ~ time", train, **{"family": nm.Gaussian(), **model}, **run)
    true = float(np.log(truth.density(test["time"], test["y"])).mean())
    logs = float(fit.log_density(test, average="log").mean())
    return true, float(fit.log_density(test).mean()), logs, divergence(fit, truth, np.unique(data["time"]))


def run(sets: int = 30, only: str | None = None) -> None:
    for name, model in MODELS.items():
        if only and name != only:
            continue
        found = np.array([scores(seed, model) for seed in range(sets)])
        gap = found[:, 0] - found[:, 1]
        print(f"{name}: {sets} sets, held-out log density a row (sd over sets): truth {found[:, 0].mean():.2f} "
              f"({found[:, 0].std(ddof=1):.2f}), fit {found[:, 1].mean():.2f} ({found[:, 1].std(ddof=1):.2f}), "
              f"mean of logs {found[:, 2].mean():.2f}")
        near = (gap <= 0.08).sum()
        print(f"  truth less fit: mean {gap.mean():.3f}, largest {gap.max():.3f}, within 0.08 on {near} of {sets}")
        far = found[:, 3]
        near = (far <= 0.08).sum()
        print(f"  its expectation: mean {far.mean():.3f}, largest {far.max():.3f}, within 0.08 on {near} of {sets}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=30)
    parser.add_argument("--only", choices=tuple(MODELS))
    chosen = parser.parse_args()
    run(chosen.sets, chosen.only)
