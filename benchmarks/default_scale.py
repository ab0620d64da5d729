"""How the defaults of the Gaussian family were chosen: held-out log density on several problems for each of its forms.

The regret of a candidate is its distance from the best on each problem, in nats an observation, responses being held out in random tenths.
`python -m benchmarks.default_scale full` takes about ten minutes, the others, `many`, `diagonal`, `known-mean` and `known-covariance`,
up to five.  `many` is a full covariance of many responses, with a scale that is fixed or sampled, on tables that come with scikit-learn.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import nrmmix as nm


class Problem(NamedTuple):
    formula: str
    data: pd.DataFrame
    kernel: Any = None
    share: float = 0.0  # of the sample variances that known variances are


class Study(NamedTuple):
    columns: tuple[str, ...]  # what a candidate consists of
    candidates: list[tuple[Any, ...]]
    problems: Callable[[], dict[str, Problem]]
    family: Callable[[tuple[Any, ...], np.ndarray, Problem], nm.Gaussian]  # of a candidate and responses
    folds: int
    draws: int


def mixture(data: pd.DataFrame, share: float = 0.0) -> Problem:
    return Problem(" + ".join(data.columns) + " ~ 1", data, share=share)


def table(values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(values, columns=[f"y{j}" for j in range(values.shape[1])])


def small() -> dict[str, pd.DataFrame]:
    return {
        "galaxy": nm.datasets.load_galaxy()[["velocity_km_s"]], "faithful": nm.datasets.load_faithful(),
        "iris": nm.datasets.load_iris().drop(columns="species"),
    }


def laws(means: np.ndarray, shape: float) -> list[nm.Gamma]:
    return [nm.Gamma(shape, shape / one) for one in means]


# ---- full: r, nu - d, s with scale = s nu S, or the mean of its law, the law's shape, and S the diagonal of the sample variances or the
# whole sample covariance


def full_problems() -> dict[str, Problem]:
    mcycle = nm.datasets.load_mcycle()
    return {name: mixture(data) for name, data in small().items()} | {
        "acidity": mixture(nm.datasets.load_acidity()),
        "mcycle, SE(0.05)": Problem("accel_g ~ times_ms", mcycle, nm.SquaredExponential(0.05)),
        "mcycle, Box(0.2)": Problem("accel_g ~ times_ms", mcycle, nm.Box(0.2)),
    }


def full(candidate: tuple[Any, ...], y: np.ndarray, problem: Problem) -> nm.Gaussian:
    r, extra, spread, shape, matrix = candidate
    d = y.shape[1]
    S = np.cov(y.T).reshape(d, d)
    scale = spread * (d + extra) * (S if matrix == "covariance" else np.diag(np.diag(S)))
    return nm.Gaussian(r=r, nu=d + extra, scale=laws(np.diag(scale), shape) if shape else scale)


# ---- many responses: r, and the scale over nu times the variances: fixed, or the mean of its law, and the law's shape


def many_problems() -> dict[str, Problem]:
    from sklearn import datasets

    rng = np.random.default_rng(0)
    centres, loadings = 2.0 * rng.normal(size=(3, 8)), rng.normal(size=(3, 8))
    correlated = centres[rng.integers(0, 3, 400)] + rng.normal(size=(400, 3)) @ loadings + 0.3 * rng.normal(size=(400, 8))
    separate = 3.0 * rng.normal(size=(6, 20))[rng.integers(0, 6, 300)] + rng.normal(size=(300, 20))
    tables = {"wine": datasets.load_wine().data, "breast cancer": datasets.load_breast_cancer().data,
              "diabetes": np.delete(datasets.load_diabetes().data, 1, axis=1), "correlated": correlated, "separate groups": separate}
    return {name: mixture(table((X - X.mean(axis=0)) / X.std(axis=0))) for name, X in tables.items()}


def many(candidate: tuple[Any, ...], y: np.ndarray, problem: Problem) -> nm.Gaussian:
    r, mean, shape = candidate
    d = y.shape[1]
    scale = mean * (d + 1) * y.var(axis=0, ddof=1)
    return nm.Gaussian(r=r, nu=d + 1, scale=laws(scale, shape) if shape else np.diag(scale))


# ---- diagonal: r, nu - 1, and the spread, or the mean of its law and the law's shape


def diagonal_problems() -> dict[str, Problem]:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(8, 30)) * 1.5
    found = small() | {"simulated, d = 30": table(centres[rng.integers(0, 8, 300)] + rng.normal(size=(300, 30)) * rng.gamma(4, 0.25, 30))}
    folder = Path(os.environ.get("NRMMIX_DATA_DIR", ""))
    if (folder / "digits8x8.npz").is_file():
        with np.load(folder / "digits8x8.npz") as archive:
            X = next(archive[name] for name in archive.files if archive[name].ndim > 1).reshape(-1, 64)[:400].astype(float)
        found["digits"] = table(X[:, X.var(axis=0) > 1.0])
    return {name: mixture(data) for name, data in found.items()}


def diagonal(candidate: tuple[Any, ...], y: np.ndarray, problem: Problem) -> nm.Gaussian:
    r, extra, spread, shape = candidate
    scale = spread * (1 + extra) * y.var(axis=0, ddof=1)
    return nm.Gaussian("diagonal", r=r, nu=1 + extra, scale=laws(scale, shape) if shape else scale)


# ---- known mean: nu - d, and the spread, or the mean of its law and the law's shape


def known_mean_problems() -> dict[str, Problem]:
    rng = np.random.default_rng(0)
    mcycle = nm.datasets.load_mcycle()[["accel_g"]]
    heavy = rng.normal(size=(300, 2)) / np.sqrt(rng.gamma(1.0, 1.0, (300, 1)))
    two = rng.normal(size=(300, 1)) * rng.choice([0.1, 1.0], (300, 1))
    found = {"mcycle": mcycle, "galaxy": small()["galaxy"], "iris": small()["iris"]}
    found |= {"simulated, t with 2 df": table(heavy), "simulated, two scales": table(two)}
    return {name: mixture(data - data.mean()) for name, data in found.items()}


def known_mean(candidate: tuple[Any, ...], y: np.ndarray, problem: Problem) -> nm.Gaussian:
    extra, spread, shape = candidate
    nu = y.shape[1] + extra
    scale = spread * nu * (y**2).mean(axis=0)
    return nm.Gaussian(known_mean=0.0, nu=nu, scale=laws(scale, shape) if shape else np.diag(scale))


# ---- known covariance: c with r = c / mean(V_j / S_jj), V the sample variances


def known_covariance_problems() -> dict[str, Problem]:
    rng = np.random.default_rng(0)
    toy, _ = nm.datasets.simulate_toy(rng=1)
    data = small() | {"simulated toy": table(toy[rng.permutation(len(toy))[:300]])}
    return {f"{name}, S = {share} V": mixture(own, share) for name, own in data.items() for share in (0.01, 0.1)} | {
        "one cluster, S = V": mixture(table(rng.normal(size=(100, 2))), 1.0)
    }


def known_covariance(candidate: tuple[Any, ...], y: np.ndarray, problem: Problem) -> nm.Gaussian:
    return nm.Gaussian("diagonal", known_covariance=problem.share * y.var(axis=0, ddof=1), r=candidate[0] * problem.share)


STUDIES = {
    "full": Study(
        ("r", "nu - d", "s", "shape", "S"),
        [(*c, 0.0, S) for S in ("diagonal", "covariance")
         for c in itertools.product((0.01, 0.1), (1.0, 2.0, 4.0), (0.01, 0.02, 0.05, 0.1, 0.2, 0.4))]
        + [(r, 1.0, s, shape, "diagonal") for r in (0.01, 0.1) for s in (0.05, 0.1, 0.2, 0.4) for shape in (0.5, 2.0)],
        full_problems, full, 5, 700,
    ),
    "many": Study(
        ("r", "mean", "shape"),
        [*itertools.product((0.01, 0.1), (0.02, 0.2), (0.0, 0.5)), (0.1, 0.05, 0.5), (0.1, 0.2, 2.0), (0.3, 0.2, 0.5)], many_problems, many,
        2, 200,
    ),
    "diagonal": Study(
        ("r", "nu - 1", "s", "shape"),
        [*itertools.product((0.01, 0.1), (1.0, 2.0, 4.0), (0.01, 0.02, 0.05, 0.1, 0.2), (0.0,)),
         *itertools.product((0.01, 0.1), (1.0,), (0.05, 0.1, 0.2, 0.4), (0.5, 2.0))],
        diagonal_problems, diagonal, 3, 300,
    ),
    "known-mean": Study(
        ("nu - d", "s", "shape"),
        [*itertools.product((1.0, 2.0, 4.0), (0.02, 0.05, 0.1, 0.2, 0.5, 1.0), (0.0,)),
         *itertools.product((1.0,), (0.05, 0.1, 0.2, 0.4), (0.5, 2.0))],
        known_mean_problems, known_mean, 3, 400,
    ),
    "known-covariance": Study(
        ("c",), [(c,) for c in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)], known_covariance_problems, known_covariance, 3, 300
    ),
}


def score(task: tuple[str, str, tuple[Any, ...], int]) -> float:
    of, name, candidate, fold = task
    study = STUDIES[of]
    problem = study.problems()[name]
    formula, data = problem.formula, problem.data
    out = np.random.default_rng(fold).choice(len(data), len(data) // 10, replace=False)
    train, test = data.drop(index=data.index[out]), data.iloc[np.sort(out)]
    y = train[[c.strip() for c in formula.split("~")[0].split("+")]].to_numpy(float)
    family = study.family(candidate, y, problem)
    fit = nm.fit(formula, train, kernel=problem.kernel, family=family, draws=study.draws, tune=300, chains=1, cores=1, rng=fold)
    return float(fit.log_density(test).mean())


def run(of: str) -> None:
    study = STUDIES[of]
    problems = study.problems()

    def key(name: str, candidate: tuple[Any, ...]) -> tuple[Any, ...]:
        """One response: the diagonal is the whole covariance."""
        return (*candidate[:-1], "diagonal") if of == "full" and "+" not in problems[name].formula else candidate

    tasks = sorted({(of, name, key(name, c), fold) for name in problems for c in study.candidates for fold in range(study.folds)}, key=repr)
    with ProcessPoolExecutor() as pool:
        values = dict(zip(tasks, pool.map(score, tasks, chunksize=8), strict=True))
    rows = [
        (name, *c, np.mean([values[of, name, key(name, c), fold] for fold in range(study.folds)]))
        for name in problems for c in study.candidates
    ]
    scores = pd.DataFrame(rows, columns=["problem", *study.columns, "score"])
    wide = scores.pivot(index=list(study.columns), columns="problem", values="score")
    regret = wide.max() - wide
    wide["mean regret"], wide["worst regret"] = regret.mean(axis=1), regret.max(axis=1)
    sys.stdout.write(wide.sort_values("mean regret").to_string(float_format="{:.3f}".format) + "\n")


if __name__ == "__main__":
    run(sys.argv[1] if len(sys.argv) > 1 else "full")
