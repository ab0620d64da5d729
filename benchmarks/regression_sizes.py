"""Sweeps of density regression of 1,000 to 20,000 rows whose covariates are all different, and the memory they take.

    python -m benchmarks.regression_sizes

Each size runs in a process of its own, 200 places: the time of a sweep of one chain, the median over seven runs, and the peak
memory of a process with two chains, to be at most 0.2 s and 1 GB at 20,000.
"""

from __future__ import annotations

import subprocess
import sys

SIZES = (1000, 2000, 5000, 10_000, 20_000)
KERNELS = {
    "per-atom widths": "nm.SquaredExponential(nm.PerAtom((.02, .04, .08, .16)), locations=('spaced', 50))",
    "width 0.05": "nm.SquaredExponential(0.05)",
    "box, width 0.2": "nm.Box(0.2)",
}

FIT = """
import resource
import numpy as np, pandas as pd
import nrmmix as nm

n = {n}
rng = np.random.default_rng(1)
x = rng.uniform(0, 1, n)
table = pd.DataFrame({{"x": x, "y": np.sin(6 * x) + (0.1 + 0.6 * x**2) * rng.normal(size=n)}})
fit = nm.fit("y ~ x", table, kernel={kernel}, draws=10, tune=30, chains=1, rng=1)
sweeps = max(10, 20_000 // n)
seconds = []
for _ in range(7):
    before = fit.seconds
    fit = fit.extend(sweeps)
    seconds.append((fit.seconds - before) / sweeps)
fit = nm.fit("y ~ x", table, kernel={kernel}, draws=100, tune=0, chains=2, rng=1)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(np.median(seconds), peak, fit.draws["n_clusters"][:, -1].mean())
"""


def measured(n: int, kernel: str) -> tuple[float, float, float]:
    """Seconds a sweep, GB, clusters."""
    done = subprocess.run([sys.executable, "-c", FIT.format(n=n, kernel=kernel)], capture_output=True, text=True, check=True)
    seconds, peak, clusters = map(float, done.stdout.split())
    return seconds, peak, clusters


def run() -> None:
    print(f"{'':<18}{'rows':>8}{'ms a sweep':>12}{'us a row':>10}{'peak GB':>9}{'clusters':>10}")
    for name, kernel in KERNELS.items():
        for n in SIZES:
            seconds, peak, clusters = measured(n, kernel)
            print(f"{name:<18}{n:8,}{1e3 * seconds:12.1f}{1e6 * seconds / n:10.1f}{peak:9.2f}{clusters:10.0f}", flush=True)


if __name__ == "__main__":
    run()
