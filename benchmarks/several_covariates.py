"""Density regression of several covariates and factors beside other methods: held-out log density, RMSE, coverage, seconds.

    python -m benchmarks.several_covariates [TABLES] [--methods NAMES] [--seconds S] [--splits N] [--json FILE.json]

Five simulated tables, iris, and, where NRMMIX_DATA_DIR names a folder with uci_yacht.npz and uci_energy.npz, those too. A simulated table
is drawn anew for each split, with 300 rows more to be predicted (of yacht-like a fifth of its rows are held out). Responses are
standardised by the training rows, so that log densities (nats a row) and RMSE are in units of their standard deviation. Methods: `nm.fit`
by its defaults and with the isotropic kernel, for so many seconds of sampling each; a Gaussian linear model; and of those installed
NGBoost, quantile forests, a Gaussian process with a length scale for each covariate, and a Gaussian additive model (packages ngboost,
quantile-forest, scikit-learn, pygam). Where tables or methods are named others stay in the file as they are.
"""

from __future__ import annotations

import argparse
import io
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from scipy.stats import norm

import nrmmix as nm
from benchmarks import record
from nrmmix.posterior.draws import Draws, Posterior
from nrmmix.posterior.predict.tables import log_density

SPLITS, HELD_OUT = 3, 300  # of simulated tables and iris; rows that are predicted
OF_FILE = 5
SECONDS = 30.0  # of sampling, a third of them for tuning
TAIL = 0.05
PACKAGES = {"ngboost": "ngboost", "forest": "quantile-forest", "process": "scikit-learn", "additive": "pygam"}

Split = tuple[pd.DataFrame, pd.DataFrame]


class Found(NamedTuple):
    """Of each held-out row the mean, the ends of the 90% interval, and the log density where the method has one."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    log_density: np.ndarray | None = None
    more: dict[str, float] | None = None


# ---- tables

def concrete_like(rng: np.random.Generator, n: int = 1030) -> pd.DataFrame:
    """Strength of mixtures: smooth, interactions, noise that grows, three covariates that are zero in many rows, an age of few values."""
    zeros = lambda top, share: np.where(rng.random(n) < share, 0.0, rng.uniform(0.1 * top, top, n))  # noqa: E731
    cement, slag, ash, plasticizer = rng.uniform(100, 540, n), zeros(360, 0.45), zeros(200, 0.55), zeros(32, 0.35)
    water = np.clip(205 - 1.8 * plasticizer + rng.normal(0, 14, n), 120, 250)
    coarse = rng.uniform(800, 1145, n)
    fine = 1750 - 0.55 * coarse - 0.5 * slag - 0.2 * cement + rng.normal(0, 40, n)
    age = rng.choice([3, 7, 14, 28, 56, 90, 180, 365], n, p=[0.13, 0.13, 0.08, 0.42, 0.09, 0.09, 0.03, 0.03]).astype(float)
    binder = cement + 0.75 * slag + 0.4 * ash
    mean = 17 * (binder / water) ** 0.85 * np.log1p(age) / np.log(29) + 4 * np.sin(plasticizer / 6) - 0.01 * (coarse - 970)
    y = mean + (1.0 + 0.09 * mean) * rng.normal(size=n)
    return pd.DataFrame({
        "y": y, "cement": cement, "slag": slag, "ash": ash, "water": water, "plasticizer": plasticizer, "coarse": coarse, "fine": fine,
        "age": age,
    })


def boston_like(rng: np.random.Generator, n: int = 506) -> pd.DataFrame:
    """Thirteen correlated covariates, of which x1, x2, x6 and x9 matter, x9 by the noise alone; a few rows far above the others."""
    common = rng.normal(size=(n, 3))
    x = common @ rng.normal(0, 0.8, (3, 13)) + rng.normal(0, 0.7, (n, 13))
    x[:, 0] = np.exp(0.6 * x[:, 0])
    slope = np.where(x[:, 1] > 0.5, 4.5, 1.0)
    mean = 20 - 4 * np.log(x[:, 0] + 0.2) + slope * (x[:, 1] - 0.5) + 2 * np.tanh(2 * x[:, 5])
    y = mean + np.exp(0.4 * np.tanh(x[:, 8])) * rng.normal(0, 1.6, n) + np.where(rng.random(n) < 0.04, rng.gamma(4, 2.5, n), 0.0)
    return pd.DataFrame({"y": y} | {f"x{j + 1}": x[:, j] for j in range(13)})


def yacht_like(rng: np.random.Generator) -> pd.DataFrame:
    """Hulls of five measures that matter little, at speeds of which the response is an exponential, almost without noise."""
    hulls, speeds = rng.uniform(-1, 1, (22, 5)), np.linspace(0.125, 0.45, 14)
    hull, speed = np.repeat(np.arange(22), 14), np.tile(np.arange(14), 22)
    y = 0.01 * np.exp(19 * speeds[speed]) * (1 + 0.05 * hulls[hull, 0]) + rng.normal(0, 0.15 + 0.02 * np.exp(10 * speeds[speed])) * 0.4
    return pd.DataFrame({"y": y} | {f"hull{j + 1}": hulls[hull, j] for j in range(5)} | {"speed": speeds[speed]})


def factor(rng: np.random.Generator, n: int = 400) -> pd.DataFrame:
    """Levels by which the distribution of y has another shape in x: a line, a wave, two modes, noise that grows."""
    x, level = np.round(rng.uniform(0, 1, n), 3), rng.choice(list("abcd"), n)
    noise = rng.normal(size=n)
    shapes = {
        "a": 2 * x + 0.2 * noise, "b": np.sin(7 * x) + 0.2 * noise,
        "c": np.where(rng.random(n) < x, 1.5 * x, -1.5 * x) + 0.2 * noise, "d": 1 - x + (0.05 + x) * noise,
    }
    return pd.DataFrame({"y": np.select([level == one for one in shapes], list(shapes.values())), "level": level, "x": x})


def levels(rng: np.random.Generator, n: int = 400) -> pd.DataFrame:
    """A wave in x, and twenty levels that shift it, each by its own number; noise is the same everywhere."""
    x, level = rng.uniform(0, 1, n), rng.integers(0, 20, n)
    shift = rng.normal(size=20)
    y = shift[level] + np.sin(6 * x) + 0.4 * rng.normal(size=n)
    return pd.DataFrame({"y": y, "level": [f"l{one:02d}" for one in level], "x": x})


def simulated(make: Callable[..., pd.DataFrame]) -> Iterator[Split]:
    """Tables drawn anew; of hulls, whose rows belong together, a fifth is held out, of others as many rows more."""
    for s in range(SPLITS):
        rng = np.random.default_rng(100 + s)
        if make is yacht_like:
            yield part(make(rng), rng.permutation(308)[:62])
        else:
            n = {concrete_like: 1030, boston_like: 506, factor: 400, levels: 400}[make]
            yield part(make(rng, n + HELD_OUT), np.arange(n, n + HELD_OUT))


def iris() -> Iterator[Split]:
    table = nm.datasets.load_iris()[["petal_length_cm", "species", "sepal_length_cm"]].rename(columns={"petal_length_cm": "y"})
    for s in range(SPLITS):
        yield part(table, np.random.default_rng(s).permutation(len(table))[:30])


def of_file(path: Path) -> Iterator[Split]:
    """Those that come with the file: X, y and rows test_0, test_1 and so on."""
    with np.load(path) as found:
        table = pd.DataFrame({"y": found["y"]} | {f"x{j + 1}": column for j, column in enumerate(found["X"].T)})
        held_out = [found[f"test_{s}"] for s in range(OF_FILE)]
    for rows in held_out:
        yield part(table, np.flatnonzero(rows) if rows.dtype == bool else rows)


def part(table: pd.DataFrame, held_out: np.ndarray) -> Split:
    out = np.zeros(len(table), bool)
    out[held_out] = True
    train, test = table[~out].reset_index(drop=True), table[out].reset_index(drop=True)
    mean, sd = train["y"].mean(), train["y"].std(ddof=0)
    return train.assign(y=(train["y"] - mean) / sd), test.assign(y=(test["y"] - mean) / sd)


def tables() -> dict[str, Callable[[], Iterator[Split]]]:
    out: dict[str, Callable[[], Iterator[Split]]] = {
        "concrete-like": lambda: simulated(concrete_like), "Boston-like": lambda: simulated(boston_like),
        "yacht-like": lambda: simulated(yacht_like), "factor": lambda: simulated(factor), "levels": lambda: simulated(levels),
        "iris": iris,
    }
    if folder := os.environ.get("NRMMIX_DATA_DIR"):
        for name in ("yacht", "energy"):
            if (path := Path(folder) / f"uci_{name}.npz").is_file():
                out[name] = lambda path=path: of_file(path)
    return out


# ---- methods

def formula_of(table: pd.DataFrame) -> str:
    return "y ~ " + " + ".join(name for name in table if name != "y")


def isotropic(train: pd.DataFrame) -> Any:
    """One squared exponential of all numbers; with factors a product of one for each number and matching of levels."""
    factors = [name for name in train if name != "y" and not pd.api.types.is_numeric_dtype(train[name])]
    if not factors:
        return nm.SquaredExponential()
    return nm.Product({name: nm.Matching(0.1) if name in factors else nm.SquaredExponential() for name in train if name != "y"})


def density_regression(kernel: Callable[[pd.DataFrame], Any] = lambda train: None) -> Callable[..., Found]:
    def method(train: pd.DataFrame, test: pd.DataFrame, seed: int, seconds: float) -> Found:
        fit = nm.fit(formula_of(train), train, kernel=kernel(train), time_limit=seconds, rng=seed)
        bands = fit.predict(test, kind="quantile", q=[TAIL, 1 - TAIL], draws=200, rng=seed)["estimate"].unstack("q").to_numpy()
        single = [Draws({name: fit.draws[name][c : c + 1].copy() for name in fit.draws}) for c in range(fit.draws.n_chains)]
        chains = [log_density(Posterior(fit.model, draws, fit.seed), test, 1000, "density") for draws in single]
        curves = fit.curve_diagnostics()
        more = {
            "rhat": float(curves["rhat"].max()), "of one chain": float(np.mean([one.mean() for one in chains])),
            "sweeps": fit.tune + fit.draws.n_draws * fit.thin,
        }
        return Found(fit.predict(test, rng=seed)["estimate"].to_numpy(), *bands.T, np.asarray(fit.log_density(test)), more)

    return method


def normal(mean: Any, sd: Any, test: pd.DataFrame) -> Found:
    mean, sd = np.asarray(mean), np.asarray(sd)
    return Found(mean, *norm.interval(1 - 2 * TAIL, mean, sd), norm.logpdf(test["y"].to_numpy(), mean, sd))


def linear(train: pd.DataFrame, test: pd.DataFrame, seed: int, seconds: float) -> Found:
    found = smf.ols(formula_of(train), train).fit()
    table = found.get_prediction(test)
    return normal(table.predicted_mean, np.sqrt(table.se_mean**2 + found.scale), test)


def numbers(train: pd.DataFrame, test: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Covariates, of factors a column for each level, scaled by the training rows."""
    both = pd.get_dummies(pd.concat([train, test], ignore_index=True).drop(columns="y"), dtype=float)
    x = ((both - both[: len(train)].mean()) / both[: len(train)].std()).to_numpy()
    return x[: len(train)], x[len(train) :]


def ngboost(train: pd.DataFrame, test: pd.DataFrame, seed: int, seconds: float) -> Found:
    """Normal; the number of trees by a tenth of the training rows."""
    from ngboost import NGBRegressor

    x, new = numbers(train, test)
    boost = NGBRegressor(n_estimators=2000, early_stopping_rounds=50, validation_fraction=0.1, random_state=seed, verbose=False)
    found = boost.fit(x, train["y"].to_numpy()).pred_dist(new)
    return normal(found.params["loc"], found.params["scale"], test)


def forest(train: pd.DataFrame, test: pd.DataFrame, seed: int, seconds: float) -> Found:
    """500 trees with leaves of five rows or more."""
    from quantile_forest import RandomForestQuantileRegressor

    x, new = numbers(train, test)
    found = RandomForestQuantileRegressor(500, min_samples_leaf=5, random_state=seed).fit(x, train["y"].to_numpy())
    return Found(found.predict(new, quantiles="mean"), *found.predict(new, quantiles=[TAIL, 1 - TAIL]).T)


def process(train: pd.DataFrame, test: pd.DataFrame, seed: int, seconds: float) -> Found:
    """Squared exponential with a length scale for each covariate and noise, of largest marginal likelihood."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    x, new = numbers(train, test)
    kernel = ConstantKernel(1.0, (1e-3, 1e5)) * RBF(np.full(x.shape[1], 2.0), (0.05, 1e4)) + WhiteKernel(0.1, (1e-6, 10))
    found = GaussianProcessRegressor(kernel, random_state=seed).fit(x, train["y"].to_numpy())
    return normal(*found.predict(new, return_std=True), test)


def additive(train: pd.DataFrame, test: pd.DataFrame, seed: int, seconds: float) -> Found:
    """Splines of each covariate with normal noise, the penalty by generalized cross-validation."""
    from pygam import LinearGAM

    x, new = numbers(train, test)
    found = LinearGAM().gridsearch(x, train["y"].to_numpy(), progress=False)
    lower, upper = found.prediction_intervals(new, width=1 - 2 * TAIL).T
    return normal(found.predict(new), (upper - lower) / (2 * norm.ppf(1 - TAIL)), test)


METHODS: dict[str, Callable[..., Found]] = {
    "nrmmix": density_regression(), "isotropic": density_regression(isotropic), "linear": linear,
    "additive": additive, "process": process, "forest": forest, "ngboost": ngboost,
}


def versions() -> dict[str, str | None]:
    out: dict[str, str | None] = {}
    for package in PACKAGES.values():
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            out[package] = None
    return out


# ---- the runs

def row(table: str, method: str, split: int, sizes: tuple[int, int], y: np.ndarray, found: Found, seconds: float) -> dict[str, Any]:
    out = {
        "table": table, "method": method, "split": split, "rows": sizes[0], "covariates": sizes[1], "held out": len(y),
        "log density": None if found.log_density is None else float(found.log_density.mean()),
        "rmse": float(np.sqrt(((y - found.mean) ** 2).mean())), "coverage": float(((y >= found.lower) & (y <= found.upper)).mean()),
        "seconds": seconds,
    }
    return out | {name: (found.more or {}).get(name) for name in ("rhat", "of one chain", "sweeps")}


def run(
    names: list[str] | None = None, methods: list[str] | None = None, seconds: float = SECONDS, path: str | None = None,
    splits: int | None = None,
) -> None:
    there = versions()
    lacking = [name for name, package in PACKAGES.items() if there[package] is None]
    if lacking:
        print(f"not installed: {', '.join(PACKAGES[name] for name in lacking)}")
    chosen = [name for name in methods or METHODS if name not in lacking]
    before = record.read(path) if path and (names or methods) and Path(path).is_file() else None
    kept = before["results"]["runs"] if before else []
    if before:  # versions that rows of before were made with
        there = {package: now or before["settings"]["packages"].get(package) for package, now in there.items()}
    now = set(names or tables())
    every = [one for one in kept if one["table"] not in now or (methods and one["method"] not in methods)]
    head = "log density", "rmse", "coverage", "seconds", "rhat", "of one chain"
    print(f"{'':<26}" + "".join(f"{name:>18}" for name in head))
    for name in names or tables():
        rows = []
        for s, (train, test) in list(enumerate(tables()[name]()))[:splits]:
            for method in chosen:
                start = time.perf_counter()
                with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
                    warnings.simplefilter("ignore")  # of convergence, which R-hat is shown for
                    found = METHODS[method](train, test, s, seconds)
                took = time.perf_counter() - start
                rows.append(row(name, method, s, (len(train), train.shape[1] - 1), test["y"].to_numpy(), found, took))
        for method in chosen:
            own = pd.DataFrame([one for one in rows if one["method"] == method])[list(head)].astype(float)
            cells = [f"{own[one].mean():.3f} ± {own[one].sem():.3f}" if own[one].notna().all() else "" for one in head]
            print(f"{name:<15}{method:<11}" + "".join(f"{cell:>18}" for cell in cells), flush=True)
        every += rows
        if path:
            settings = {"seconds": seconds, "splits": splits, "chains": 4, "packages": there}
            record.write(path, "several_covariates", settings, {"runs": every})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", choices=[*tables(), []])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS))
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--splits", type=int)
    record.option(parser)
    given = parser.parse_args()
    run(given.tables, given.methods, given.seconds, given.json, given.splits)
