"""The first fit on a machine, with nothing compiled, and the first fit of a process, with all compiled: CPU time and wall clock."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

CODE = """
import os, time
clock = lambda: (sum(os.times()[:4]), time.perf_counter())
begun = clock()
import warnings
import nrmmix as nm
warnings.simplefilter("ignore")
imported = clock()
{fit}
first = clock()
{fit}
again = clock()
print(*(b - a for pair in ((begun, imported), (imported, first), (first, again)) for a, b in zip(*pair)))
"""
RUN = "draws=200, tune=200, rng=1, progress=False"
FITS = {
    "faithful by Gibbs": f'nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), method="gibbs", {RUN})',
    "faithful by auto": f'nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), {RUN})',
    "faithful by tree": f'nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), method="tree", {RUN})',
    "mcycle": f'fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), {RUN})',
    "mcycle, plot": f'nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), {RUN}).plot()',
}


def measure(fit: str, cache: str) -> list[float]:
    """CPU seconds and wall clock of the import, of a first fit, and of a later one, in a fresh process."""
    environment = {"NUMBA_CACHE_DIR": cache, "MPLBACKEND": "Agg"}
    out = subprocess.run(
        [sys.executable, "-c", CODE.format(fit=fit)], check=True, capture_output=True, text=True, env=os.environ | environment
    )
    return [float(number) for number in out.stdout.split()]


def run() -> None:
    print("The first fit, 200 + 200 iterations of 4 chains: CPU s (wall)")
    for name, fit in FITS.items():
        with tempfile.TemporaryDirectory() as cache:
            _, _, cold, cold_wall, later, _ = measure(fit, cache)
            cpu, wall, warm, warm_wall, _, _ = measure(fit, cache)
            size = sum(path.stat().st_size for path in Path(cache).rglob("*") if path.is_file())
        print(
            f"  {name:18s} nothing compiled {cold:6.1f} ({cold_wall:6.1f})   all compiled {warm:5.2f} ({warm_wall:5.2f}), "
            f"import {cpu:.2f} ({wall:.2f}), later fits {later:.2f}   cache {size / 2**20:.1f} MiB"
        )


if __name__ == "__main__":
    run()
