"""Very many small clusters: sweeps that leave out far clusters beside those that score every row in all.

    python -m benchmarks.many_clusters [--sets plane apart near] [--methods gibbs tree] [--rows 100000] [--seconds 60] [--tune 60]

Rows belong to clusters of 30, normal with variance 1 about normal means, and are fitted by a Dirichlet process of mass 100 with
the base measure that they come from.  A chain of the new way goes from the true partition through tuning, by `tree`; from there one
chain of each way goes on for so many CPU seconds.  Printed are CPU seconds of an iteration, the median; how many rows change clusters in a
second; mean squared steps of the number of clusters K in a second, which need few iterations to be told; and effective draws of K and of
the log joint in a second, which need long runs (`--rows 20000 --seconds 200`): an effective size under some 50 says nothing, and the longer
of two chains sees slower changes, which make its effective size the smaller for its length.

Sweeps have the same law both ways but for the order of the rows.  `tree` divides its work between sweeps and global moves: where sweeps
take less, there are fewer global moves in an iteration, and not in a second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

import numpy as np

import nrmmix as nm
from benchmarks.trees import Runner, begun, ess_of, short, table
from nrmmix.kernels.core.state import Count
from nrmmix.kernels.moves import nearby

SETS = {"plane": (2, 100.0), "apart": (3, 30.0), "near": (6, 10.0), "line": (1, 3000.0), "wide": (12, 10.0)}  # responses, distance
EACH, MASS = 30, 100.0


@contextmanager
def way(new: bool) -> Iterator[None]:
    """Models that are made within know of far clusters, or not."""
    least = nearby.MIN_ROWS
    nearby.MIN_ROWS = 1 if new else 10**9
    try:
        yield
    finally:
        nearby.MIN_ROWS = least


def points(n: int, d: int, distance: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % (n // EACH)
    rng.shuffle(labels)
    X = distance * rng.normal(size=(n // EACH, d))[labels] + rng.normal(size=(n, d))
    return X, np.unique(labels, return_inverse=True)[1]


def runner(X: np.ndarray, distance: float, method: str, labels: np.ndarray, new: bool) -> Runner:
    d = X.shape[1]
    family = nm.Gaussian(m=np.zeros(d), r=1.0 / distance**2, nu=d + 6.0, scale=5.0 * np.eye(d))
    with way(new):
        return begun(nm.Model(data=X, prior=nm.DirichletProcess(MASS), family=family), method, labels, 2)


class Course:
    """A chain that goes on for some time."""

    def __init__(self, chain: Runner, seconds: float) -> None:
        chain.go(5)
        each, seen, num = [], [], chain.chain.state.num
        moved = int(num[Count.MOVED])
        while sum(each) < seconds or len(each) < 4:
            began = time.thread_time()
            chain.go(1)  # in tuning still, but what is adapted hardly changes any more
            each.append(time.thread_time() - began)
            num = chain.chain.state.num
            seen.append((float(chain.n_clusters), chain.log_joint))
        K, joint = np.array(seen).T
        self.each, self.K, self.iterations = median(each), K.mean(), len(each)
        self.size_of_K, self.size_of_joint = ess_of(K), ess_of(joint)
        self.rates = {
            "rows moved a s": (int(num[Count.MOVED]) - moved) / sum(each),
            "squared steps of K a s": float((np.diff(K) ** 2).mean()) / self.each,
            "ESS of K a s": self.size_of_K / sum(each), "ESS of log joint a s": self.size_of_joint / sum(each),
        }

    @property
    def sizes(self) -> str:
        return f"{self.size_of_K:.0f}, {self.size_of_joint:.0f} of {self.iterations}"


def run(sets: list[str], methods: list[str], n: int, seconds: float, tune: int) -> None:
    print(f"## {n:,} rows, clusters of {EACH}, chains of {seconds:g} CPU seconds after {tune} iterations\n")
    rows: list[tuple[str, ...]] = []
    for name in sets:
        d, distance = SETS[name]
        X, labels = points(n, d, distance)
        first = runner(X, distance, "tree", labels, True)
        first.go(tune)
        labels = np.unique(first.chain.state.labels, return_inverse=True)[1]
        for method in methods:
            old, new = (Course(runner(X, distance, method, labels, is_new), seconds) for is_new in (False, True))
            what = (f"{name}, d = {d}", method)
            rows.append((*what, "ms an iteration", f"{1e3 * old.each:.0f}", f"{1e3 * new.each:.0f}", f"**{old.each / new.each:.1f}**"))
            for rate, value in old.rates.items():
                ratio = f"**{new.rates[rate] / value:.1f}**" if value else ""
                rows.append((*what, rate, short(value), short(new.rates[rate]), ratio))
            rows.append((*what, "ESS of K, log joint, of iterations", old.sizes, new.sizes, ""))
            rows.append((*what, "mean K", f"{old.K:.1f}", f"{new.K:.1f}", ""))
    table(("set", "method", "", "before", "after", "ratio"), rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["plane", "apart", "near"])
    parser.add_argument("--methods", nargs="+", default=["gibbs", "tree"])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--tune", type=int, default=60)
    options = parser.parse_args()
    run(options.sets, options.methods, options.rows, options.seconds, options.tune)
