"""Held-out log density on the synthetic data of Foti & Williamson (2012), against the true density.

    python -m benchmarks.dynamic_mixture [--sets 30] [--only "the kernel of the data"]

Each set holds out a tenth of the rows of every stamp.  The target is to come within 0.08 nats a row of the true density on each set.  Fits
by the default kernel; by the kernel that the data have; by a Dirichlet process with the kernel, the variance and the law of means of the
data; and by the very model that made them, 12 components of equal sizes, from which no method can be better on average over sets.
"""

from __future__ import annotations

import argparse

import numpy as np

import nrmmix as nm

OUT = 6  # rows of each stamp
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


def scores(seed: int, model: dict) -> tuple[float, float, float]:
    """Mean log density of the held-out rows: the truth's, the fit's, and the mean over draws of the fit's log densities."""
    data, truth = nm.datasets.simulate_dynamic_mixture(rng=seed)
    test = data.groupby("time").sample(OUT, random_state=seed)
    train = data.drop(test.index)
    run = {"draws": 500, "thin": 4, "tune": 1000, "chains": 2, "rng": seed}
    if "prior" in model:
        run["init"] = np.unique(train["component"], return_inverse=True)[1]
    fit = nm.fit("y ~ time", train, **{"family": nm.Gaussian(), **model}, **run)
    true = float(np.log(truth.density(test["time"], test["y"])).mean())
    return true, float(fit.log_density(test).mean()), float(fit.log_density(test, average="log").mean())


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
        print(f"  truth less fit: mean {gap.mean():.3f}, largest {gap.max():.3f}, within 0.08 on {near} of {sets}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sets", type=int, default=30)
    parser.add_argument("--only", choices=tuple(MODELS))
    chosen = parser.parse_args()
    run(chosen.sets, chosen.only)
