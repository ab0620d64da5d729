"""Held-out log density of density regression by its defaults, beside Gaussian processes and a joint mixture conditioned on x.

    python -m benchmarks.density_regression [SETS] [--splits N] [--json FILE.json]

Motorcycle, simulated sets and tables of statsmodels, five splits each, responses standardised by the training rows.  Densities are on
the standardised scale, in nats a held-out row. Where sets are named others stay in the file as they are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import nrmmix as nm
from benchmarks import motorcycle, record
from benchmarks.gaussian_processes import GaussianProcess, Heteroscedastic

Split = tuple[pd.DataFrame, pd.DataFrame]
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


RUN = {"draws": 500, "thin": 4, "tune": 800, "chains": 2}


def ours(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> dict[str, float]:
    covariates = [name for name in train if name != "y"]
    start = time.process_time()
    fit = nm.fit("y ~ " + " + ".join(covariates), train, **RUN, rng=seed)
    bands = fit.predict(test, kind="quantile", q=[0.05, 0.95], draws=200)["estimate"].unstack("q").to_numpy()
    inside = ((test["y"].to_numpy() >= bands[:, 0]) & (test["y"].to_numpy() <= bands[:, 1])).mean()
    scores = {"log_density": float(fit.log_density(test, draws=None).mean()), "cover": float(inside)}
    scores["rhat"] = float(fit.curve_diagnostics()["rhat"].max())
    return {**scores, "clusters": float(fit.draws["n_clusters"].mean()), "cpu_s": time.process_time() - start}


def joint_mixture(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> float:
    """p(y | x) = p(x, y) / p(x) under a Dirichlet process mixture of Gaussians."""
    fit = nm.fit(" + ".join(train) + " ~ 1", train, draws=1000, tune=500, chains=2, rng=seed)
    return float((fit.log_density(test, draws=None) - fit.log_density(test.assign(y=np.nan), draws=None)).mean())


def process(kind: type) -> Callable[[pd.DataFrame, pd.DataFrame, int], float]:
    def score(train: pd.DataFrame, test: pd.DataFrame, seed: int) -> float:
        covariates = [name for name in train if name != "y"]
        low, span = train[covariates].min(), np.ptp(train[covariates].to_numpy(), axis=0)
        x, new = (((part[covariates] - low) / span).to_numpy() for part in (train, test))
        return float(kind(x, train["y"].to_numpy()).log_density(new, test["y"].to_numpy()).mean())

    return score


METHODS = {
    "density regression": ours,
    "GP": process(GaussianProcess),
    "heteroscedastic GP": process(Heteroscedastic),
    "joint mixture": joint_mixture,
}


def run(sets: list[str] | None = None, splits: int = SPLITS, path: str | None = None) -> None:
    """Print means over splits and their standard errors; write each split to `path`, set by set."""
    print(f"{'':<12}" + "".join(f"{name:>22}" for name in METHODS) + f"{'cover 90%':>11}{'clusters':>10}{'CPU s':>8}")
    kept = record.read(path)["results"]["splits"] if path and sets and Path(path).is_file() else []
    rows: list[dict[str, object]] = [row for row in kept if row["set"] not in (sets or SETS)]
    for name in sets or SETS:
        found = []
        for split, (train, test) in list(enumerate(SETS[name]()))[:splits]:
            more = ours(train, test, split)
            scores = {method: more.pop("log_density") if fit is ours else fit(train, test, split) for method, fit in METHODS.items()}
            rows.append({"set": name, "split": split, "rows": len(train), "held_out": len(test), **scores, **more})
            found.append(rows[-1])
        table = pd.DataFrame(found)
        cells = [f"{table[method].mean():.3f} +- {table[method].sem():.3f}" for method in METHODS]
        rest = f"{table['cover'].mean():11.2f}{table['clusters'].mean():10.1f}{table['cpu_s'].median():8.1f}"
        print(f"{name:<12}" + "".join(f"{cell:>22}" for cell in cells) + rest, flush=True)
        if path:
            record.write(path, "density_regression", {"splits": splits, **RUN}, {"splits": rows})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("sets", nargs="*", choices=[*SETS, []])
    parser.add_argument("--splits", type=int, default=SPLITS)
    record.option(parser)
    given = parser.parse_args()
    run(given.sets, given.splits, given.json)
