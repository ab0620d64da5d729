"""What method="auto" is chosen by: burn-in and mixing of the methods on data of several sizes, dimensions and families.

Every chain starts from one cluster and is in tuning for half of its time, draws are recorded in the other half.  Burn-in: CPU seconds until
the log joint is within MARGIN of the best level that a method has, a level being the median log joint of the draws, then of the seeds.
Mixing: effective draws per CPU second of the number of clusters and of the log joint, the smaller of both, 0 where one of them never
changed; in parentheses where the level is more than MARGIN below the best: such chains are stuck, and their mixing says nothing.  Nor does
it where all are stuck alike, in one of several modes.  All are medians of the seeds.  Chains are short and seeds are few: factors below 1.5
mean nothing.  Compilation is left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np
import pandas as pd

import nrmmix as nm
from benchmarks.gibbs import data_sets
from benchmarks.trees import Course, begun, ess_of, follow, mixed, n_clusters_of, sampled_nggp, short, table
from benchmarks.two_modes import documents
from nrmmix.inference.mcmc.chain import Record
from nrmmix.inference.methods import CYCLES, choose
from nrmmix.kernels import chain as loop

METHODS_COMPARED = ("gibbs", "split_merge", "tree", "permutation")
MOST_PERMUTED = 2000  # rows: a permutation move takes n^2 operations
MARGIN = 10.0  # of the log joint
DP = nm.DirichletProcess(1.0)


def models() -> dict[str, Callable[[], nm.Model]]:
    def of(data: object, prior: nm.Prior = DP, **options: object) -> Callable[[], nm.Model]:
        return lambda: nm.Model(data=data, prior=prior, **options)

    (_, (X, _)), (_, (Y, _)) = data_sets().items()
    digits = nm.datasets.load_digits().iloc[:, :64].to_numpy(float)
    mixed = nm.datasets.simulate_mixed(600, 4, rng=1)[0][["height", "smoker", "colour"]]
    codes = pd.DataFrame(categories(), columns=list("abcdefgh"))
    blocks = {"height": nm.Gaussian(), "smoker": nm.Bernoulli(), "colour": nm.Categorical()}
    return {
        "galaxy, 82 x 1, DP": of(nm.datasets.load_galaxy()[["velocity_km_s"]]),
        "acidity, 155 x 1, NGGP": of(nm.datasets.load_acidity(), sampled_nggp()),
        "iris, 150 x 4, DP": of(nm.datasets.load_iris().iloc[:, :4]),
        "faithful, 272 x 2, NGGP": of(nm.datasets.load_faithful(), sampled_nggp()),
        "mixed blocks, 600 x 3, DP": of(mixed, family=blocks),
        "categories, 1,000 x 8, NGGP": of(codes, sampled_nggp(), family=nm.Categorical()),
        "documents, 400 x 60, DP": lambda: documents().model,
        "toy, 1,300 x 2, DP": of(X, family=nm.lee_choi_base(X)),
        "toy, 1,300 x 2, NGGP": of(X, sampled_nggp(), family=nm.lee_choi_base(X)),
        "digits, 1,797 x 64 binary, DP": of((digits > 7).astype(int), family=nm.Bernoulli()),
        "digits, 500 x 20 diagonal, NGGP": of(principal(digits)[:500], sampled_nggp(), family=nm.Gaussian("diagonal")),
        "10,000 x 6, DP": of(Y, family=nm.lee_choi_base(Y)),
    }


def categories() -> np.ndarray:
    """1,000 rows of 8 categorical columns in 6 clusters."""
    rng = np.random.default_rng(1)
    share = rng.dirichlet(np.full(5, 0.5), (6, 8))
    labels = rng.integers(0, 6, 1000)
    return np.array([[rng.choice(5, p=share[k, j]) for j in range(8)] for k in labels])


def principal(X: np.ndarray, dim: int = 20) -> np.ndarray:
    centred = X - X.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:dim].T


class Trial:
    """Chains of one method from one cluster, half of their time tuning."""

    def __init__(self, model: nm.Model, method: str, seconds: float, seeds: int) -> None:
        self.courses, self.levels, self.rates = list[Course](), list[float](), list[float]()
        for seed in range(seeds):
            runner = begun(model, method, "one", seed, 20)
            self.courses.append(follow(runner, seconds / 2))
            taken, draws = mixed(runner, seconds / 2, draws_of)
            self.levels.append(float(np.median(draws[:, 1])))
            self.rates.append(min(ess_of(draws[:, 0]), ess_of(draws[:, 1])) / taken)


def draws_of(record: Record) -> np.ndarray:
    return np.column_stack([n_clusters_of(record), record.scalars[:, loop.R_JOINT]])


def run(seconds: float = 3.0, seeds: int = 3, problems: dict[str, Callable[[], nm.Model]] | None = None) -> None:
    began = time.process_time()
    print(f"## Methods from one cluster, {seeds} chains of {seconds:g} CPU seconds\n")
    print("Each cell: CPU seconds of burn-in; effective draws per CPU second, in parentheses where the chains are below the best level.\n")

    def rows() -> Iterator[tuple[str, ...]]:
        for name, make in (models() if problems is None else problems).items():
            model = make()
            suited = (method for method in METHODS_COMPARED if not CYCLES[method].refusal(model))
            trials = {m: Trial(model, m, seconds, seeds) for m in suited if m != "permutation" or model.n_obs <= MOST_PERMUTED}
            best = max(median(trial.levels) for trial in trials.values())
            cells = []
            for method in METHODS_COMPARED:
                if method not in trials:
                    cells.append("")
                    continue
                trial = trials[method]
                rate = short(median(trial.rates))
                burn_in = short(median(course.reached(best - MARGIN) for course in trial.courses))
                cells.append(f"{burn_in}; {rate if median(trial.levels) > best - MARGIN else f'({rate})'}")
            yield (name, *cells, choose(model))

    table(("data", *METHODS_COMPARED, "auto"), rows())
    print(f"{time.process_time() - began:.0f} s of CPU, compilation among them.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0, help="CPU seconds of each chain")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    run(options.seconds, options.seeds)
