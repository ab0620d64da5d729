"""This checkout beside another commit: sweeps, trees, models, predictions and start-up in turn, and their ratios.

`python -m benchmarks.compare OTHER [PARTS] [--rounds 7] [--json FILE]`, OTHER a commit or a folder with a checkout of one.  Only public
names are used, so that its layout does not matter.  Figures are processor seconds, or those of the clock where it is said, medians over
rounds in which the two take turns; the ratio is the median of those of the rounds.  The parts are sampling, after (what comes before and
after sampling), start (processes with a warm cache) and cold (first fits with an empty cache, in one process; as many rounds, at most two).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import record

HERE = Path(__file__).resolve().parents[1]

# Fits that are the same in both checkouts, after a first one that loads all that is compiled.
SAMPLING = """
import json, time, warnings
import numpy as np
import pandas as pd
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
    model.fit(method, draws=1, tune=1, chains=1, rng=1, init=run.get("init", "sequential"))
    started = time.process_time()
    model.fit(method, chains=1, cores=1, rng=1, **run)
    return time.process_time() - started


def wave(n):
    x = np.random.default_rng(1).uniform(0, 1, n)
    return pd.DataFrame({"x": x, "y": np.sin(6 * x) + (0.1 + 0.6 * x**2) * np.random.default_rng(2).normal(size=n)})


def curve(formula, table, width):
    return nm.Model(formula, table, kernel=nm.SquaredExponential(width), family=nm.Gaussian())


def crowd(n, d, size):
    rng = np.random.default_rng(1)
    labels = rng.permutation(np.arange(n) // size)
    data = 30.0 * rng.normal(size=(labels.max() + 1, d))[labels] + rng.normal(size=(n, d))
    family = nm.Gaussian(m=np.zeros(d), r=1.0 / 900.0, nu=d + 6.0, scale=5.0 * np.eye(d))
    return nm.Model(data=data, prior=nm.DirichletProcess(100.0), family=family), np.unique(labels, return_inverse=True)[1]


def of_points(*shape):
    # with a scale that is fixed, as the default of few responses is
    X = points(*shape)
    return nm.Model(data=X, prior=nm.NGGP(), family=nm.Gaussian(scale=0.02 * (X.shape[1] + 1) * np.diag(X.var(axis=0, ddof=1))))


small, middle, large = (of_points(*shape) for shape in ((4000, 2, 20), (2000, 6, 20), (400, 50, 8)))
sampled = nm.Model(data=points(2000, 6, 20), prior=nm.NGGP())
many = nm.Model(data=points(100_000, 2, 50), prior=nm.DirichletProcess(1.0))
motorcycle, waves = curve("accel_g ~ times_ms", nm.datasets.load_mcycle(), 0.05), wave(10_000)
crowded, labels = crowd(100_000, 3, 30)
found = {
    "gibbs, 100,000 x 2": seconds(many, "gibbs", draws=15, tune=5),
    "gibbs, 4,000 x 2": seconds(small, "gibbs", draws=180, tune=20),
    "gibbs, 2,000 x 6": seconds(middle, "gibbs", draws=450, tune=50),
    "gibbs, 2,000 x 6, scale sampled": seconds(sampled, "gibbs", draws=450, tune=50),
    "gibbs, 400 x 50": seconds(large, "gibbs", draws=4500, tune=100),
    "gibbs, motorcycle": seconds(motorcycle, "gibbs", draws=300, tune=100),
    "gibbs, 10,000 values of x": seconds(curve("y ~ x", waves, 0.05), "gibbs", draws=15, tune=5),
    "the same, width sampled": seconds(curve("y ~ x", waves, nm.LogNormal(-3, 1)), "gibbs", draws=15, tune=15),
    "split_merge, 4,000 x 2": seconds(small, "split_merge", draws=30, tune=10),
    "slice, 4,000 x 2": seconds(small, "slice", draws=450, tune=50),
    "permutation, 400 x 50": seconds(large, "permutation", draws=10, tune=5),
    "tree, 2,000 x 6": seconds(middle, "tree", draws=200, tune=50),
    "tree, 100,000 x 3 in 3,334 clusters": seconds(crowded, "tree", draws=29, tune=1, init=labels),
    "tree_published, 400 x 50": seconds(large, "tree_published", draws=20, tune=10),
    "ibhc, 2,000 x 6": search(middle),
}
print(json.dumps(found))
"""
# What comes before and after sampling.
AFTER = """
import json, tempfile, time, warnings
import numpy as np
import pandas as pd
import nrmmix as nm

warnings.simplefilter("ignore")


def seconds(work, first=None, clock=time.process_time):
    (first or work)()
    started = clock()
    work()
    return clock() - started


def wall(work):
    return seconds(work, clock=time.perf_counter)


rng = np.random.default_rng(1)
many, wide = rng.normal(size=(1_000_000, 2)), rng.normal(size=(100_000, 25))
toy = nm.Model(data=nm.datasets.simulate_toy(rng=1)[0]).fit("gibbs", draws=250, tune=250, chains=4, rng=1)
kernel, x = nm.SquaredExponential(0.05), pd.DataFrame({"times_ms": np.linspace(2.0, 57.0, 1000)})
curve = nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle(), kernel=kernel, family=nm.Gaussian())
curve = curve.fit("gibbs", draws=1000, tune=500, chains=4, rng=1)


def quantiles(x):
    return curve.predict(x, kind="quantile", rng=1)


with tempfile.TemporaryDirectory() as folder:
    found = {
        "model of 1,000,000 x 2": seconds(lambda: nm.Model(data=many), lambda: nm.Model(data=many[:100])),
        "model of 100,000 x 25": seconds(lambda: nm.Model(data=wide), lambda: nm.Model(data=wide[:100])),
        "mean at 1,000 x, 4,000 draws": seconds(lambda: curve.predict(x, rng=1), lambda: curve.predict(x[:3], rng=1)),
        "quantiles at 1,000 x": seconds(lambda: quantiles(x), lambda: quantiles(x[:3])),
        "similarity of 1,300 rows, 1,000 draws": seconds(toy.similarity),
        "the same by wall clock": wall(toy.similarity),
        "partition of 1,300 rows": seconds(lambda: toy.partition(rng=1)),
        "partition by wall clock": wall(lambda: toy.partition(rng=1)),
        "report of mcycle": seconds(lambda: curve.report(folder + "/report.html")),
    }
print(json.dumps(found))
"""
# Whole processes with a warm cache.
START = {
    "import nrmmix": "import nrmmix",
    "a first short fit": "import nrmmix as nm; nm.fit('velocity_km_s ~ 1', nm.datasets.load_galaxy(), draws=10, tune=10, chains=1, rng=1)",
    "fit and summary": (
        "import warnings; warnings.simplefilter('ignore'); import nrmmix as nm; "
        "nm.fit('accel_g ~ times_ms', nm.datasets.load_mcycle(), draws=10, tune=10, chains=1, rng=1).summary().as_text()"
    ),
}
# Whole processes with nothing compiled.
FAITHFUL = (
    "import nrmmix as nm; "
    "nm.fit('eruptions_min + waiting_min ~ 1', nm.datasets.load_faithful(), method={!r}, draws=20, tune=20, chains=1, rng=1)"
)
COLD = {
    "Gibbs": FAITHFUL.format("gibbs"),
    "tree": FAITHFUL.format("tree"),
    "density regression and its picture": (
        "import warnings; warnings.simplefilter('ignore'); import nrmmix as nm; "
        "nm.fit('accel_g ~ times_ms', nm.datasets.load_mcycle(), draws=20, tune=20, chains=1, rng=1).plot()"
    ),
}
PARTS = ("sampling", "after", "start", "cold")
MOST_COLD = 2


def run(checkout: Path, cache: str, code: str) -> tuple[str, float]:
    """What a process prints, and its processor seconds."""
    alone = {"MPLBACKEND": "Agg", "NRMMIX_COMPILE_PROCESSES": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment = os.environ | alone | {"PYTHONPATH": str(checkout), "NUMBA_CACHE_DIR": cache}
    before = os.times()
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=checkout, capture_output=True, text=True, check=True)
    after = os.times()
    return done.stdout, after.children_user + after.children_system - before.children_user - before.children_system


def measured(checkout: Path, cache: str, parts: Sequence[str], number: int) -> dict[tuple[str, str], float]:
    """Processor seconds of all that is measured in one round, in a checkout with a cache of its own."""
    found: dict[tuple[str, str], float] = {}
    for part, code in (("sampling", SAMPLING), ("after", AFTER)):
        if part in parts:
            found |= {(part, name): value for name, value in json.loads(run(checkout, cache, code)[0]).items()}
    if "start" in parts:
        found |= {("start", name): run(checkout, cache, code)[1] for name, code in START.items()}
    for name, code in COLD.items() if "cold" in parts and 0 < number <= MOST_COLD else ():
        with tempfile.TemporaryDirectory() as empty:
            found["cold", name] = run(checkout, empty, code)[1]
    return found


def commit_of(checkout: Path) -> str:
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def checkout_of(other: str, folder: str) -> Iterator[Path]:
    """The folder itself, or a temporary checkout of a commit."""
    if Path(other).is_dir():
        yield Path(other).resolve()
        return
    place = Path(folder) / "checkout"
    subprocess.run(["git", "worktree", "add", "--detach", "--quiet", str(place), other], cwd=HERE, check=True)
    try:
        yield place
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(place)], cwd=HERE, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", help="another commit, or a folder with a checkout of one")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="default: all of them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()
    parts = options.parts or PARTS
    rounds: dict[str, list[dict[tuple[str, str], float]]] = {"other": [], "this": []}
    with tempfile.TemporaryDirectory() as folder, checkout_of(options.other, folder) as other:
        trees = {"other": other, "this": HERE}
        commit = commit_of(other)
        for name, checkout in trees.items():
            measured(checkout, f"{folder}/{name}", parts, 0)  # compiles
        for number in range(1, options.rounds + 1):
            for name in sorted(trees, reverse=bool(number % 2)):
                rounds[name].append(measured(trees[name], f"{folder}/{name}", parts, number))
    rows = []
    print("| seconds | | other | this | this / other |\n|---|---|---|---|---|")
    for part, what in rounds["this"][0]:
        old, new = ([one[part, what] for one in rounds[name] if (part, what) in one] for name in ("other", "this"))
        ratio = statistics.median(b / a for a, b in zip(old, new, strict=True))
        rows.append({"part": part, "what": what, "other": statistics.median(old), "this": statistics.median(new), "ratio": ratio})
        print(f"| {part} | {what} | {rows[-1]['other']:.3g} | {rows[-1]['this']:.3g} | {ratio:.3f} |")
    if options.json:
        record.write(options.json, "compare", {"other": commit, "rounds": options.rounds}, {"seconds": rows})


if __name__ == "__main__":
    main()
