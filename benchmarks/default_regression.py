"""How the defaults of Regression and SemiconjugateGaussian were chosen: held-out log density on problems of each.

Candidates of Regression: r, nu and the spread s with scale = s nu var(y); of SemiconjugateGaussian: the variance of the means over the
sample's, and shape and spread s of the precision's Gamma(shape, shape s var(y)).  Responses are held out in three random tenths; the regret
of a candidate is its distance from the best on each problem, in nats an observation.  `python -m benchmarks.default_regression` takes
about ten minutes.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd

import nrmmix as nm

FOLDS = 3
R, NU, SPREAD = (0.001, 0.01, 0.1), (2.0, 3.0), (0.005, 0.01, 0.02, 0.05, 0.1)
VARIANCE, SHAPE = (0.5, 1.0, 2.0, 4.0), (1.0, 2.0)


def lines() -> pd.DataFrame:
    """Three lines, crossing, with residuals of different size."""
    rng = np.random.default_rng(1)
    which, x = rng.integers(0, 3, 200), rng.uniform(0, 10, 200)
    mean = np.array([2.0, 20.0, 8.0])[which] + np.array([2.0, -1.5, 0.0])[which] * x
    return pd.DataFrame({"x": x, "y": mean + np.array([0.5, 1.0, 0.3])[which] * rng.normal(size=200)})


def regressions() -> dict[str, tuple[str, str, pd.DataFrame, object]]:
    """Formula, design, data and covariate kernel."""
    mcycle = nm.datasets.load_mcycle()
    return {
        "lines": ("y ~ 1", "1 + x", lines(), None),
        "iris": ("petal_length_cm ~ 1", "1 + sepal_length_cm", nm.datasets.load_iris(), None),
        "faithful": ("waiting_min ~ 1", "1 + eruptions_min", nm.datasets.load_faithful(), None),
        "galaxy": ("velocity_km_s ~ 1", "1", nm.datasets.load_galaxy(), None),
        "mcycle, clusterwise": ("accel_g ~ 1", "1 + times_ms", mcycle, None),
        "mcycle, SE(0.05)": ("accel_g ~ times_ms", "1 + times_ms", mcycle, nm.SquaredExponential(0.05)),
        "mcycle, Box(0.2)": ("accel_g ~ times_ms", "1 + times_ms", mcycle, nm.Box(0.2)),
    }


def mixtures() -> dict[str, tuple[str, pd.DataFrame]]:
    iris = nm.datasets.load_iris().drop(columns="species")
    return {
        "galaxy": ("velocity_km_s ~ 1", nm.datasets.load_galaxy()),
        "acidity": ("log_anc ~ 1", nm.datasets.load_acidity()),
        "faithful": ("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful()),
        "iris": (" + ".join(iris.columns) + " ~ 1", iris),
    }


def held_out(formula: str, data: pd.DataFrame, fold: int, family: Callable[[pd.DataFrame], nm.Regression], kernel: object) -> float:
    out = np.random.default_rng(fold).choice(len(data), len(data) // 10, replace=False)
    train, test = data.drop(index=data.index[out]), data.iloc[np.sort(out)]
    fit = nm.fit(formula, train, kernel=kernel, family=family(train), draws=400, tune=200, chains=1, cores=1, rng=fold)
    return float(fit.log_density(test).mean())


def score_regression(task: tuple[str, tuple[float, float, float], int]) -> float:
    name, (r, nu, spread), fold = task
    formula, design, data, kernel = regressions()[name]
    response = formula.split(" ~ ")[0]
    return held_out(formula, data, fold, lambda d: nm.Regression(design, r=r, nu=nu, scale=spread * nu * d[response].var()), kernel)


def score_mixture(task: tuple[str, tuple[float, float, float], int]) -> float:
    name, (variance, shape, spread), fold = task
    formula, data = mixtures()[name]
    responses = formula.split(" ~ ")[0].split(" + ")

    def family(d: pd.DataFrame) -> nm.SemiconjugateGaussian:
        of = d[responses].var().to_numpy()
        gammas = [nm.Gamma(shape, shape * spread * float(one)) for one in of]
        return nm.SemiconjugateGaussian((d[responses].mean().to_numpy(), variance * of), gammas)

    return held_out(formula, data, fold, family, None)


def table(score: Callable, problems: list[str], candidates: list[tuple], names: list[str]) -> pd.DataFrame:
    tasks = list(itertools.product(problems, candidates, range(FOLDS)))
    with ProcessPoolExecutor() as pool:
        values = pd.Series(list(pool.map(score, tasks, chunksize=8)), pd.MultiIndex.from_tuples([(t[0], *t[1], t[2]) for t in tasks]))
    wide = values.groupby(level=[0, 1, 2, 3]).mean().unstack(0)
    wide.index.names = names
    regret = wide.max() - wide
    wide["mean regret"], wide["worst regret"] = regret.mean(axis=1), regret.max(axis=1)
    return wide.sort_values("mean regret")


def run() -> None:
    with pd.option_context("display.width", 180, "display.max_columns", 20,
                           "display.max_rows", 200, "display.float_format", "{:.3f}".format):
        found = table(score_regression, list(regressions()), list(itertools.product(R, NU, SPREAD)), ["r", "nu", "s"])
        sys.stdout.write(f"Regression\n{found}\n\n")
        found = table(score_mixture, list(mixtures()), list(itertools.product(VARIANCE, SHAPE, SPREAD)), ["variance", "shape", "s"])
        sys.stdout.write(f"SemiconjugateGaussian\n{found}\n")


if __name__ == "__main__":
    run()
