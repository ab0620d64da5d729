"""Import, cold compilation, and the first fit of a fresh process against later ones."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from statistics import median

CODE = """
import time
t0 = time.perf_counter()
import nrmmix as nm
t1 = time.perf_counter()
data = nm.datasets.load_{name}()
def fit():
    t = time.perf_counter()
    nm.fit({formula!r}, data, draws=200, tune=200, rng=1)
    return time.perf_counter() - t
first = fit()
later = sorted(fit() for _ in range(5))[2]
print(t1 - t0, first, later)
"""
FITS = {"mcycle": "accel_g ~ times_ms", "faithful": "eruptions_min + waiting_min ~ 1"}


def measure(name: str, cache: str) -> tuple[float, ...]:
    code = CODE.format(name=name, formula=FITS[name])
    out = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=os.environ | {"NUMBA_CACHE_DIR": cache}
    )
    return tuple(map(float, out.stdout.split()))


def run() -> None:
    print("Startup (wall clock); targets: import under 1 s, cold compilation under 30 s, warm first fit within 1 s of later ones")
    with tempfile.TemporaryDirectory() as cache:
        cold = measure("mcycle", cache)
        print(f"  cold: first fit {cold[1]:.1f} s, a later one {cold[2]:.2f} s: compilation {cold[1] - cold[2]:.1f} s")
        measure("faithful", cache)
        for name in FITS:
            warm = [measure(name, cache) for _ in range(5)]
            imported, first, later = (median(w[j] for w in warm) for j in range(3))
            print(f"  warm, {name}: import {imported:.2f} s, first fit {first:.2f} s, later {later:.2f} s, gap {first - later:.2f} s")


if __name__ == "__main__":
    run()
