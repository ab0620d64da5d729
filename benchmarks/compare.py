"""This checkout beside another one: sweeps, trees and start-up in turn, and their ratios.

`python -m benchmarks.compare ../other [--rounds 7]`, the other one a checkout of any commit.  Only public names are used, so that its
layout does not matter.  Figures are processor seconds, medians over rounds in which the two take turns; the ratio is the median of those of
the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

# Fits that are the same in both checkouts, after a first one that loads all that is compiled.
SAMPLING = """
import json, time, warnings
import numpy as np
import nrmmix as nm

warnings.simplefilter("ignore")


def points(n, d, K):
    rng = np.random.default_rng(1)
    return rng.normal(size=(n, d)) + 4.0 * rng.normal(size=(K, d))[rng.integers(0, K, n)]


def search(model):
    model.fit("ibhc", rng=1)
    started = time.process_time()
    model.fit("ibhc", rng=1)
    return time.process_time() - started


def seconds(model, method, **run):
    model.fit(method, draws=1, tune=1, chains=1, rng=1)
    started = time.process_time()
    model.fit(method, chains=1, cores=1, rng=1, **run)
    return time.process_time() - started


small, middle, large = (nm.Model(data=points(*shape), prior=nm.NGGP()) for shape in ((4000, 2, 20), (2000, 6, 20), (400, 50, 8)))
curve = nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle())
found = {
    "gibbs, 4,000 x 2": seconds(small, "gibbs", draws=30, tune=10),
    "gibbs, 2,000 x 6": seconds(middle, "gibbs", draws=40, tune=10),
    "gibbs, 400 x 50": seconds(large, "gibbs", draws=60, tune=10),
    "gibbs, density regression": seconds(curve, "gibbs", draws=300, tune=100),
    "split_merge, 4,000 x 2": seconds(small, "split_merge", draws=30, tune=10),
    "slice, 4,000 x 2": seconds(small, "slice", draws=60, tune=20),
    "permutation, 400 x 50": seconds(large, "permutation", draws=10, tune=5),
    "tree, 2,000 x 6": seconds(middle, "tree", draws=30, tune=20),
    "tree_published, 400 x 50": seconds(large, "tree_published", draws=20, tune=10),
    "ibhc, 2,000 x 6": search(middle),
}
print(json.dumps(found))
"""
# Whole processes with a warm cache.
START = {
    "start-up: import nrmmix": "import nrmmix",
    "start-up: a first short fit": (
        "import nrmmix as nm; nm.fit('velocity_km_s ~ 1', nm.datasets.load_galaxy(), draws=10, tune=10, chains=1, rng=1)"
    ),
    "start-up: fit and summary": (
        "import warnings; warnings.simplefilter('ignore'); import nrmmix as nm; "
        "nm.fit('accel_g ~ times_ms', nm.datasets.load_mcycle(), draws=10, tune=10, chains=1, rng=1).summary().as_text()"
    ),
}


def measured(checkout: Path, cache: str) -> dict[str, float]:
    """Processor seconds of all that is measured, in a checkout with a cache of its own."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "NUMBA_CACHE_DIR": cache, "MPLBACKEND": "Agg"}

    def run(code: str) -> tuple[str, float]:
        before = os.times()
        done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=checkout, capture_output=True, text=True, check=True)
        after = os.times()
        return done.stdout, after.children_user + after.children_system - before.children_user - before.children_system

    found = json.loads(run(SAMPLING)[0])
    return found | {name: run(code)[1] for name, code in START.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="a checkout of another commit")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    trees = {"other": options.other.resolve(), "this": HERE}
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    with tempfile.TemporaryDirectory() as folder:
        for name, checkout in trees.items():
            measured(checkout, f"{folder}/{name}")  # compiles
        for number in range(options.rounds):
            for name in sorted(trees, reverse=bool(number % 2)):
                rounds[name].append(measured(trees[name], f"{folder}/{name}"))
    print("| seconds | other | this | this / other |\n|---|---|---|---|")
    for what in rounds["this"][0]:
        old, new = ([one[what] for one in rounds[name]] for name in ("other", "this"))
        ratio = statistics.median(b / a for a, b in zip(old, new, strict=True))
        print(f"| {what} | {statistics.median(old):.3g} | {statistics.median(new):.3g} | {ratio:.3f} |")


if __name__ == "__main__":
    main()
