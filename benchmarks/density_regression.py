"""Held-out log density of density regression by its defaults, beside Gaussian processes and a joint mixture conditioned on x.

    python -m benchmarks.density_regression [SETS] [--splits N]

Motorcycle, simulated sets and tables of statsmodels, five splits each, responses standardised by the training rows.  Densities are on
the standardised scale, in nats a held-out row; the target is what trial code of the same model reached.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
import pandas as pd

import nrmmix as nm
from benchmarks import motorcycle
from benchmarks.gaussian_processes import GaussianProcess, Heteroscedastic

Split = tuple[pd.DataFrame, pd.DataFrame]
TARGETS = {"motorcycle": -0.51, "hetero": -0.34, "bimodal": -0.58, "skew": -1.02, "two": -0.76, "three": -0.92}
SPLITS = 5


def standardised(train: pd.DataFrame, test: pd.DataFrame) -> Split:
    mean, sd = train["y"].mean(), train["y"].std(ddof=0)
    return train.assign(y=(train["y"] - mean) / sd), test.assign(y=(test["y"] - mean) / sd)


def of_motorcycle() -> Iterator[Split]:
    for train, test in motorcycle.splits():
        yield tuple(part.rename(columns={"accel_g": "y", "times_ms": "x1"})[["y", "x1"]] for part in (train, test))


def simulated(kind: str) -> Iterator[Split]:
    for s in range(SPLITS):
        rng = np.random.default_rng(100 + s)
        yield standardised(drawn(kind, rng, 350 if kind in ("two", "three") else 250), drawn(kind, rng, 300))


def drawn(kind: str, rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Noise that changes, two modes, skewness; two covariates with a mode that comes and goes, three with noise that changes."""
    q = {"two": 2, "three": 3}.get(kind, 1)
    x = np.round(rng.uniform(0, 1, (n, q) if q > 1 else n), 2)
    if kind == "three":
        y = 2 * x[:, 0] - x[:, 1] + (0.2 + 0.6 * x[:, 2]) * rng.normal(size=n)
    elif kind == "two":
        upper = rng.random(n) < x[:, 1]
        y = np.sin(5 * x[:, 0]) + np.where(upper, 1.5, 0) + (0.15 + 0.3 * x[:, 0]) * rng.normal(size=n)
    elif kind == "hetero":
        y = np.sin(6 * x) + (0.1 + 0.6 * x**2) * rng.normal(size=n)
    elif kind == "bimodal":
        upper = rng.random(n) < x
        y = np.where(upper, 1.5 * x, -1.5 * x + 0.3) + 0.2 * rng.normal(size=n)
    else:
        y = 2 * x + (rng.gamma(1 + 3 * x, 1, n) - (1 + 3 * x)) * 0.4
    x = x.reshape(n, q)
    return pd.DataFrame({"y": y} | {f"x{j + 1}": x[:, j] for j in range(q)})


def of_statsmodels(name: str) -> Iterator[Split]:
    """Engel's food expenditure by income; average credit card expenditure by income and age; a tenth held out."""
    import statsmodels.api as sm

    if name == "engel":
        table = sm.datasets.engel.load_pandas().data.rename(columns={"foodexp": "y", "income": "x1"})[["y", "x1"]]
    else:
        table = sm.datasets.ccard.load_pandas().data.rename(columns={"AVGEXP": "y", "INCOME": "x1", "AGE": "x2"})[["y", "x1", "x2"]]
    for s in range(SPLITS):
        order = np.random.default_rng(s).permutation(len(table))
        out = len(table) // 10
        yield standardised(table.iloc[np.sort(order[out:])], table.iloc[np.sort(order[:out])])


SETS = {
    "motorcycle": of_motorcycle, **{kind: (lambda kind=kind: simulated(kind)) for kind in ("hetero", "bimodal", "skew", "two", "three")},
    **{name: (lambda name=name: of_statsmodels(name)) for name in ("engel", "ccard")},
}


def ours(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> tuple[float, dict[str, float]]:
    covariates = [name for name in train if name != "y"]
    start = time.perf_counter()
    fit = nm.fit("y ~ " + " + ".join(covariates), train, draws=500, thin=4, tune=800, chains=2, rng=seed)
    bands = fit.predict(test, kind="quantile", q=[0.05, 0.95], draws=200)["estimate"].unstack("q").to_numpy()
    inside = ((test["y"].to_numpy() >= bands[:, 0]) & (test["y"].to_numpy() <= bands[:, 1])).mean()
    tau = 4 * fit.diagnostics().loc["n_clusters", "iact"]
    more = {"cover": inside, "K": fit.draws["n_clusters"].mean(), "tau": tau, "s": time.perf_counter() - start}
    return float(fit.log_density(test, draws=None).mean()), more


def joint_mixture(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> float:
    """p(y | x) = p(x, y) / p(x) under a Dirichlet process mixture of Gaussians."""
    fit = nm.fit(" + ".join(train) + " ~ 1", train, draws=1000, tune=500, chains=2, rng=seed)
    return float((fit.log_density(test, draws=None) - fit.log_density(test.assign(y=np.nan), draws=None)).mean())


def process(kind: type, train: pd.DataFrame, test: pd.DataFrame) -> float:
    covariates = [name for name in train if name != "y"]
    low, span = train[covariates].min(), np.ptp(train[covariates].to_numpy(), axis=0)
    x, new = (((part[covariates] - low) / span).to_numpy() for part in (train, test))
    return float(kind(x, train["y"].to_numpy()).log_density(new, test["y"].to_numpy()).mean())


def run(sets: list[str] | None = None, splits: int = SPLITS) -> None:
    head = ["ours", "GP", "hetero GP", "joint", "target", "cover 90%", "clusters", "tau (sweeps)", "seconds"]
    print(f"{'':<12}" + "".join(f"{name:>14}" for name in head))
    for name in sets or SETS:
        rows, others = [], []
        for seed, (train, test) in list(enumerate(SETS[name]()))[:splits]:
            score, more = ours(train, test, seed)
            rivals = [process(GaussianProcess, train, test), process(Heteroscedastic, train, test), joint_mixture(train, test, seed)]
            rows.append([score, *rivals])
            others.append(list(more.values()))
        mean, rest = np.mean(rows, axis=0), np.median(others, axis=0)
        target = f"{TARGETS[name]:14.3f}" if name in TARGETS else f"{'':>14}"
        found = f"{rest[0]:14.2f}{rest[1]:14.1f}{rest[2]:14.0f}{rest[3]:14.1f}"
        print(f"{name:<12}" + "".join(f"{value:14.3f}" for value in mean) + target + found, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="*", choices=[*SETS, []])
    parser.add_argument("--splits", type=int, default=SPLITS)
    given = parser.parse_args()
    run(given.sets, given.splits)
