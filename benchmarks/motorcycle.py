"""Held-out log density, autocorrelation and speed of kernel density regression on the motorcycle data."""

from __future__ import annotations

import time
from statistics import median

import numpy as np

import nrmmix as nm
from nrmmix.posterior import diagnostics

SPLITS = 5


def splits():
    """Training and test frames, accelerations standardised by the training rows."""
    data = nm.datasets.load_mcycle()
    for s in range(SPLITS):
        out = np.random.default_rng(s).choice(133, 13, replace=False)
        train, test = data.drop(index=out), data.loc[np.sort(out)]
        mean, sd = train["accel_g"].mean(), train["accel_g"].std()
        yield train.assign(accel_g=(train["accel_g"] - mean) / sd), test.assign(accel_g=(test["accel_g"] - mean) / sd)


def run(draws: int = 4000) -> None:
    print("Motorcycle, 5 splits, 13 of 133 rows held out; targets: SE(0.05) at least -0.55, Box(0.2) at least -0.50, "
          "iact(K) at most 80 (median), 2,000 sweeps a CPU second")
    for kernel in (nm.SquaredExponential(0.05), nm.Box(0.2), nm.SquaredExponential(nm.LogNormal(-3, 1))):
        scores, taus, speed = [], [], []
        for train, test in splits():
            t = time.process_time()
            fit = nm.fit("accel_g ~ times_ms", train, kernel=kernel, draws=draws, tune=1000, chains=1, cores=1, rng=1)
            speed.append((draws + 1000) / (time.process_time() - t))
            scores.append(float(fit.log_density(test).mean()))
            taus.append(diagnostics.iact(fit.draws["n_clusters"].astype(float)))
        print(f"  {kernel!s:<36} held-out {np.mean(scores):.3f} (splits {' '.join(f'{x:.2f}' for x in scores)})   "
              f"iact(K) {median(taus):.0f}   {median(speed):,.0f} sweeps a CPU second")


if __name__ == "__main__":
    run()
