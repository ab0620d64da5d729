"""How many clusters the default finds where the truth is known: one lump of several shapes, separated groups, groups in few of the columns.

    python -m benchmarks.number_of_clusters [SHAPES] [--columns D ...] [--rows N ...] [--methods NAMES] [--seconds S] [--seeds R]
        [--json FILE.json] [--again]

Beside it are the Dirichlet process mixture of scikit-learn (`BayesianGaussianMixture`, 20 components, full covariance) and Gaussian
mixtures of 1 to 8 components and four kinds of covariance, of which BIC chooses.  Of each: the number of clusters, for chains on average
over the draws; that of the point estimate; the share of rows outside clusters that hold a twentieth of them; the adjusted Rand index of
the point estimate against the truth; seconds.  Cells that the file holds are left as they are, each with its commit and the limit of its
chains, but for those whose chains had no draw within a shorter limit: without one there is no answer.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import nrmmix as nm
from benchmarks import record

APART = 6.0  # standard deviations between the centres of two groups that are nearest
COLUMNS, ROWS = (1, 2, 5, 10, 20, 50), (60, 200, 1000)
NO_DRAW = "no draw"
MAIN = 0.05  # share of the rows in a cluster that counts as one of the main ones

Drawn = Callable[[int, int, np.random.Generator], tuple[np.ndarray, np.ndarray]]  # data (n, d) and labels (n,) of n rows, d columns


# ---- data


def normal(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(n, d)), np.zeros(n, int)


def skewed(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.gamma(2.0, size=(n, d)), np.zeros(n, int)


def heavy(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Multivariate t with 4 degrees of freedom."""
    return rng.normal(size=(n, d)) / np.sqrt(rng.chisquare(4, (n, 1)) / 4), np.zeros(n, int)


def uniform(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return rng.random((n, d)), np.zeros(n, int)


def groups(K: int) -> Drawn:
    """Normal groups, whose centres differ in all columns."""

    def drawn(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        centres = np.arange(K)[:, None] * 1.0 if d == 1 else rng.normal(size=(K, d))
        gaps = np.linalg.norm(centres[:, None] - centres[None, :], axis=2)[np.triu_indices(K, 1)]
        labels = rng.integers(0, K, n)
        return APART / gaps.min() * centres[labels] + rng.normal(size=(n, d)), labels

    return drawn


def in_few_columns(K: int) -> Drawn:
    """Normal groups on a circle in the first two columns; the others are noise."""

    def drawn(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        y, labels = rng.normal(size=(n, d)), rng.integers(0, K, n)
        radius = APART / (2.0 * np.sin(np.pi / K))
        angle = 2.0 * np.pi * labels / K
        y[:, 0] += radius * np.cos(angle) if d > 1 else APART * labels
        if d > 1:
            y[:, 1] += radius * np.sin(angle)
        return y, labels

    return drawn


SHAPES: dict[str, Drawn] = {
    "normal": normal, "skewed": skewed, "t4": heavy, "uniform": uniform, "2 groups": groups(2), "4 groups": groups(4),
    "6 groups": groups(6), "3 groups in 2 columns": in_few_columns(3),
}


# ---- methods: mean number of clusters, labels of the point estimate, what the verdict is


def default(y: np.ndarray, seconds: float, seed: int) -> tuple[float, np.ndarray | None, str]:
    fit = nm.Model(data=y).fit(draws=500, tune=500, rng=seed, time_limit=seconds)
    if fit.draws.n_draws == 0:
        return np.nan, None, NO_DRAW
    return float(fit.draws["n_clusters"].mean()), np.asarray(fit.partition().labels), fit.method


def variational(y: np.ndarray, seconds: float, seed: int) -> tuple[float, np.ndarray, str]:
    labels = np.asarray(nm.Model(data=y).fit("vb", rng=seed).partition().labels)
    return float(labels.max() + 1), labels, "vb"


def dirichlet(y: np.ndarray, seconds: float, seed: int) -> tuple[float, np.ndarray, str]:
    from sklearn.mixture import BayesianGaussianMixture

    labels = BayesianGaussianMixture(n_components=min(20, len(y)), max_iter=500, random_state=seed).fit_predict(y)
    return float(len(np.unique(labels))), labels, ""


def by_bic(y: np.ndarray, seconds: float, seed: int) -> tuple[float, np.ndarray, str]:
    from sklearn.mixture import GaussianMixture

    fits = [
        GaussianMixture(n_components=K, covariance_type=kind, random_state=seed).fit(y)
        for kind, K in itertools.product(("full", "diag", "tied", "spherical"), range(1, 9))
    ]
    best = min(fits, key=lambda fit: fit.bic(y))
    return float(best.n_components), best.predict(y), best.covariance_type


METHODS: dict[str, Callable[..., tuple[float, np.ndarray | None, str]]] = {
    "nrmmix": default, "nrmmix, vb": variational, "BayesianGaussianMixture": dirichlet, "BIC": by_bic,
}


def measured(shape: str, n: int, d: int, method: str, seconds: float, seed: int) -> dict[str, Any]:
    from sklearn.metrics import adjusted_rand_score

    y, truth = SHAPES[shape](n, d, np.random.default_rng([seed, n, d]))
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mean, labels, how = METHODS[method](y, seconds, seed)
    told: dict[str, Any] = {"in the estimate": None, "outside": None, "adjusted Rand": None}
    if labels is not None:
        sizes = np.bincount(np.unique(labels, return_inverse=True)[1])
        outside, agreement = sizes[sizes < MAIN * n].sum() / n, adjusted_rand_score(truth, labels)
        told = {"in the estimate": len(sizes), "outside": float(outside), "adjusted Rand": float(agreement)}
    return {
        "shape": shape, "rows": n, "columns": d, "method": method, "seed": seed, "truth": int(truth.max() + 1), "clusters": mean,
        **told, "how": how, "seconds": round(time.perf_counter() - started, 2),
    }


def run(
    shapes: Sequence[str], columns: Sequence[int], rows: Sequence[int], methods: Sequence[str], seconds: float, seeds: int, path: str = "",
    again: bool = False,
) -> None:
    before = record.read(path) if path and Path(path).is_file() else {"commit": None, "settings": {}, "results": {"cells": []}}
    found = [{"commit": before["commit"], "limit": before["settings"].get("seconds")} | cell for cell in before["results"]["cells"]]
    keys = ("shape", "rows", "columns", "method", "seed")
    for seed, n, d, shape, method in itertools.product(range(seeds), rows, columns, shapes, methods):
        same = [old for old in found if tuple(old[key] for key in keys) == (shape, n, d, method, seed)]
        if any(old["how"] != NO_DRAW or old["limit"] >= seconds for old in same) and not again:
            continue
        others = [old for old in found if old not in same]
        one = {"commit": record.commit(), "limit": seconds} | measured(shape, n, d, method, seconds, seed)
        sys.stdout.write("  ".join(f"{value:.3g}" if isinstance(value, float) else str(value) for value in one.values()) + "\n")
        sys.stdout.flush()
        found = [*others, one]
        if path:
            record.write(path, "number_of_clusters", {"apart": APART}, {"cells": found})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=list(SHAPES), metavar="SHAPES")
    parser.add_argument("--columns", nargs="+", type=int, default=COLUMNS)
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="measure those cells too that the file holds")
    record.option(parser)
    given = parser.parse_args()
    run(given.shapes, given.columns, given.rows, given.methods, given.seconds, given.seeds, given.json, given.again)
