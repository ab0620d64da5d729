"""How the defaults of the Gaussian family were chosen: held-out log density on six problems.

Candidates: r, nu - d, the spread s with scale = s nu S, and S the diagonal of the sample variances or the whole sample covariance.
Responses are held out in five random tenths; the regret of a candidate is its distance from the best on each problem, in nats an
observation.  `python -m benchmarks.default_scale` takes about ten minutes.
"""

from __future__ import annotations

import itertools
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pandas as pd

import nrmmix as nm

R = (0.01, 0.1)
EXTRA_NU = (1.0, 2.0, 4.0)
SPREAD = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
FOLDS = 5


def problems() -> dict[str, tuple[str, pd.DataFrame, object]]:
    iris = nm.datasets.load_iris().drop(columns="species")
    mcycle = nm.datasets.load_mcycle()
    galaxy = nm.datasets.load_galaxy()[["velocity_km_s"]]
    return {
        "galaxy": ("velocity_km_s ~ 1", galaxy, None),
        "acidity": ("log_anc ~ 1", nm.datasets.load_acidity(), None),
        "faithful": ("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), None),
        "iris": (" + ".join(iris.columns) + " ~ 1", iris, None),
        "mcycle, SE(0.05)": ("accel_g ~ times_ms", mcycle, nm.SquaredExponential(0.05)),
        "mcycle, Box(0.2)": ("accel_g ~ times_ms", mcycle, nm.Box(0.2)),
    }


def score(task: tuple[str, tuple[float, float, float, str], int]) -> float:
    name, (r, extra, spread, shape), fold = task
    formula, data, kernel = problems()[name]
    out = np.random.default_rng(fold).choice(len(data), len(data) // 10, replace=False)
    train, test = data.drop(index=data.index[out]), data.iloc[np.sort(out)]
    y = train[[c.strip() for c in formula.split("~")[0].split("+")]].to_numpy()
    d = y.shape[1]
    S = np.cov(y.T).reshape(d, d)
    scale = spread * (d + extra) * (S if shape == "covariance" else np.diag(np.diag(S)))
    family = nm.Gaussian(r=r, nu=d + extra, scale=scale)
    fit = nm.fit(formula, train, kernel=kernel, family=family, draws=700, tune=300, chains=1, cores=1, rng=fold)
    return float(fit.log_density(test).mean())


def run() -> None:
    candidates = [
        (*c, shape) for shape in ("diagonal", "covariance") for c in itertools.product(R, EXTRA_NU, SPREAD)
    ]
    one_response = {"galaxy", "acidity", "mcycle, SE(0.05)", "mcycle, Box(0.2)"}
    tasks = [
        (name, c, fold) for name in problems() for c in candidates for fold in range(FOLDS)
        if not (name in one_response and c[3] == "covariance")  # the same scale
    ]
    with ProcessPoolExecutor() as pool:
        values = dict(zip(tasks, pool.map(score, tasks, chunksize=8), strict=True))
    rows = []
    for name in problems():
        for c in candidates:
            key = (*c[:3], "diagonal") if name in one_response else c
            rows.append((name, *c, np.mean([values[name, key, fold] for fold in range(FOLDS)])))
    table = pd.DataFrame(rows, columns=["problem", "r", "nu - d", "s", "S", "score"])
    wide = table.pivot(index=["S", "r", "nu - d", "s"], columns="problem", values="score")
    regret = wide.max() - wide
    wide["mean regret"], wide["worst regret"] = regret.mean(axis=1), regret.max(axis=1)
    with pd.option_context("display.width", 160, "display.max_rows", 200, "display.float_format", "{:.3f}".format):
        sys.stdout.write(wide.sort_values("mean regret").to_string() + "\n")


if __name__ == "__main__":
    run()
