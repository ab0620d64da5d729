"""How far the published tree-guided sampler is from the posterior, and what each repair of it does: a table in Markdown.

Total variation between the frequencies of the partitions visited and their posterior probabilities, by enumeration of all partitions of
six observations; in parentheses the largest distance that Monte Carlo error explains.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np

import nrmmix as nm
from benchmarks import record

MASS = 1.3
POINTS = np.array([-2.1, -1.7, -0.2, 0.1, 1.6, 2.4])
VARIANCE, PRIOR_VARIANCE = 0.5, 4.0  # of an observation and of a cluster's mean
CHAINS = 16
DEVIATIONS = 5.0
REPAIRS = ("subset", "tree", "first_pick")
COLUMNS = {
    "global moves": {"global_moves": 1, "moves": "global"},
    "local moves": {"moves": "local"},
    "3 global, local": {"global_moves": 3},
    "20 global, local": {"global_moves": 20},
}


def model() -> nm.Model:
    family = nm.Gaussian(known_covariance=np.full((1, 1), VARIANCE), m=0.0, r=VARIANCE / PRIOR_VARIANCE)
    return nm.Model(data=POINTS[:, None], family=family, prior=nm.DirichletProcess(MASS))


def partitions(n: int) -> Iterator[tuple[int, ...]]:
    """Labels of all partitions, numbered by first appearance."""
    for labels in itertools.product(range(n), repeat=n):
        if all(k <= max(labels[:i], default=-1) + 1 for i, k in enumerate(labels)):
            yield labels


def posterior() -> dict[tuple[int, ...], float]:
    states, fitted = list(partitions(len(POINTS))), model()
    logs = np.array([fitted.log_joint(labels) for labels in states])
    weights = np.exp(logs - logs.max())
    return dict(zip(states, weights / weights.sum(), strict=True))


def distance(law: dict[tuple[int, ...], float], labels: np.ndarray) -> tuple[float, float]:
    """Total variation of draws (chains, draws, n), and its mean and some standard deviations under a right sampler."""
    index = {state: j for j, state in enumerate(law)}
    frequency = np.zeros((len(labels), len(law)))
    for chain, draws in zip(frequency, labels, strict=True):
        for state, times in zip(*np.unique(draws, axis=0, return_counts=True), strict=True):
            chain[index[tuple(map(int, state))]] = times / len(draws)
    error = frequency.std(axis=0, ddof=1) / math.sqrt(len(labels))
    mean, sd = 0.5 * math.sqrt(2 / math.pi) * error.sum(), 0.5 * math.sqrt(1 - 2 / math.pi) * math.sqrt((error**2).sum())
    return 0.5 * float(np.abs(frequency.mean(axis=0) - list(law.values())).sum()), float(mean + DEVIATIONS * sd)


def measured(draws: int) -> list[dict]:
    """A row for each set of repairs and each kind of moves."""
    law, rows = posterior(), []
    for repaired in ((), *combinations(REPAIRS, 1), *combinations(REPAIRS, 2), REPAIRS):
        for name, options in COLUMNS.items():
            move = nm.PublishedTreeGuided(repaired=tuple(repaired), **options)
            fit = model().fit(move, draws=draws, tune=200, chains=CHAINS, rng=1, progress=False)
            apart, explained = distance(law, fit.draws["labels"])
            rows.append({"repaired": ", ".join(repaired) or "nothing", "moves": name, "distance": apart, "explained": explained})
    return rows


def table(rows: list[dict]) -> str:
    page = "| repaired | " + " | ".join(COLUMNS) + " |\n|" + "---|" * (len(COLUMNS) + 1) + "\n"
    for repaired in dict.fromkeys(row["repaired"] for row in rows):
        cells = [f"{row['distance']:.4f} ({row['explained']:.4f})" for row in rows if row["repaired"] == repaired]
        page += f"| {repaired} | {' | '.join(cells)} |\n"
    return page


def run(draws: int = 20_000, path: str | None = None) -> None:
    print(f"{len(POINTS)} observations, DP({MASS}), {CHAINS} chains of {draws:,} draws\n")
    rows = measured(draws)
    print(table(rows))
    if path is not None:
        settings = {"draws": draws, "chains": CHAINS, "mass": MASS, "points": list(POINTS), "deviations": DEVIATIONS}
        record.write(path, "published_bias", settings, {"distances": rows})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20_000, help="of each chain")
    record.option(parser)
    chosen = parser.parse_args()
    run(chosen.draws, chosen.json)
