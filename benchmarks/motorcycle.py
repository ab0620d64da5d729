"""Held-out log density, autocorrelation and speed of density regression on the motorcycle data, by covariate kernel.

The last row, split_merge, has widths of atoms as the first.
"""

from __future__ import annotations

import time

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


KERNELS = {
    "per-atom widths": nm.SquaredExponential(), "width 0.05": nm.SquaredExponential(0.05),
    "sampled width": nm.SquaredExponential(nm.LogNormal(-3, 1)), "box, width 0.2": nm.Box(0.2),
}


def held_out(draws: int = 4000) -> None:
    print(f"Motorcycle, {SPLITS} splits, 13 of 133 rows held out: log density a row, the target -0.51 for the default, per-atom widths")
    for name, kernel in KERNELS.items():
        scores = []
        for train, test in splits():
            fit = nm.fit("accel_g ~ times_ms", train, kernel=kernel, draws=draws, tune=1000, chains=1, cores=1, rng=1)
            scores.append(float(fit.log_density(test).mean()))
        print(f"  {name:<16} {np.mean(scores):.3f} (splits {' '.join(f'{x:.2f}' for x in scores)})", flush=True)


def mixing(sweeps: int = 20_000, chains: int = 3) -> None:
    print(f"Motorcycle, all rows, {chains} chains of {sweeps:,} sweeps, medians; tau in sweeps, effective draws of a minute of one core\n"
          f"  {'':<16}{'tau K':>8}{'tau log_joint':>15}{'ESS log_joint':>15}{'sweeps/s':>10}    targets of per-atom widths: 60, 40, 1,500; "
          "with split-merge 30, 15, 4,000")
    for name, kernel, method in [*((name, kernel, "gibbs") for name, kernel in KERNELS.items()), ("split_merge", None, "split_merge")]:
        found = []
        model = nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle(), kernel=kernel or KERNELS["per-atom widths"])
        for chain in range(chains):
            model.fit(method, draws=1, tune=1, chains=1, rng=1)  # what is compiled is loaded
            t = time.process_time()
            fit = model.fit(method, draws=sweeps, tune=2000, chains=1, cores=1, rng=chain)
            seconds = (time.process_time() - t) * sweeps / (sweeps + 2000)
            taus = [diagnostics.iact(fit.draws[key].astype(float)) for key in ("n_clusters", "log_joint")]
            found.append([*taus, 60 * sweeps / taus[1] / seconds, sweeps / seconds])
        K, joint, ess, speed = np.median(found, axis=0)
        print(f"  {name:<16}{K:8.0f}{joint:15.0f}{ess:15,.0f}{speed:10,.0f}", flush=True)


def run() -> None:
    held_out()
    mixing()


if __name__ == "__main__":
    run()
