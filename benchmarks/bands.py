"""Coverage of bands of the conditional mean inside the data, in a gap and beyond: simulated tables of which the mean is known.

    python -m benchmarks.bands [SHAPES] [--method NAME] [--sizes N ...] [--sets N] [--draws N] [--seconds S] [--json FILE.json]

Shapes of one covariate: a line, a wave, and a step at 0.25, of which x within 0.02 of it is an `edge`; it is uniform on (0, 0.4) and
(0.6, 1). Shape `four`: a wave in x1 whose size is x2, and two covariates, x3 and x4, that do not matter; x1 has the gap, the others are
uniform on (0, 1). Noise is normal, with standard deviation 0.2. `nm.fit` has its defaults but for its length: two chains of as many draws
as tuning sweeps, or with `--seconds` all defaults and so many seconds of sampling. With `--method vb` fits are variational, and bands of
as many random measures drawn from them. Bands are of 90%; coverage is the share of points and tables in which they hold the mean, width
their mean width there. Standard errors are over tables. Where the file is there, tables that it holds are not fitted again.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import nrmmix as nm
from benchmarks import record

SIZES, SETS, DRAWS, NOISE = (50, 100, 400), 20, 250, 0.2
SHOWN = (("coverage", 2), ("width", 3))  # figures and their digits
SHAPES: dict[str, Callable[..., np.ndarray]] = {
    "line": lambda x: 2.0 * x, "wave": lambda x: np.sin(6.0 * x), "step": lambda x: np.where(x > 0.25, 1.0, 0.0),
    "four": lambda x1, x2, x3, x4: 2.0 * x2 * np.sin(6.0 * x1),
}
PLACES = {
    "inside": np.r_[np.linspace(0.03, 0.37, 12), np.linspace(0.63, 0.97, 12)], "gap": np.linspace(0.45, 0.55, 5),
    "just beyond": np.array([-0.1, 1.1]), "beyond": np.array([-0.5, 1.5]), "far": np.array([-5.0, 6.0]),
}
EDGE = np.array([0.235, 0.245, 0.255, 0.265])
OTHERS = np.random.default_rng(4).uniform(0.03, 0.97, (3, 24))  # of x2 to x4


def places_of(shape: str) -> dict[str, dict[str, np.ndarray]]:
    """Rows of new data by the name of where they are."""
    if shape == "four":
        return {where: {"x1": PLACES[where]} | _others(len(PLACES[where])) for where in ("inside", "gap")}
    return {where: {"x": x} for where, x in (({"edge": EDGE} if shape == "step" else {}) | PLACES).items()}


def _others(n: int) -> dict[str, np.ndarray]:
    return {f"x{j + 2}": column[:n] for j, column in enumerate(OTHERS)}


def table(shape: str, n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng([seed, n])
    x = rng.uniform(0, 0.8, n)
    x = np.where(x > 0.4, x + 0.2, x)
    columns = {"x1": x} | {f"x{j}": rng.uniform(0, 1, n) for j in (2, 3, 4)} if shape == "four" else {"x": x}
    return pd.DataFrame({**columns, "y": SHAPES[shape](*columns.values()) + NOISE * rng.normal(size=n)})


def one(shape: str, n: int, seed: int, draws: int, method: str | None, seconds: float | None) -> list[dict[str, Any]]:
    """Of each place the share of points in their bands, their mean width, and the share of estimates in their bands."""
    length = {"time_limit": seconds} if seconds else {"draws": draws, "tune": draws, "chains": 2}
    rows, start, cpu = table(shape, n, seed), time.perf_counter(), time.process_time()
    formula = "y ~ " + " + ".join(rows.columns[:-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: chains are short; of components that are used up
        fit = nm.fit(formula, rows, method=method or "auto", rng=seed, progress=False, **(length if method is None else {}))
    of_factors = {} if method is None else {"draws": draws}
    found: list[dict[str, Any]] = []
    for where, x in places_of(shape).items():
        band, truth = fit.predict(x, rng=seed, **of_factors), SHAPES[shape](*x.values())
        holds = (band["lower"] <= truth) & (truth <= band["upper"])
        own = (band["lower"] <= band["estimate"]) & (band["estimate"] <= band["upper"])
        found.append({
            "shape": shape, "n": n, "seed": seed, "where": where, "coverage": float(holds.mean()),
            "width": float((band["upper"] - band["lower"]).mean()), "estimates inside": float(own.mean()),
        })
    took = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    return [row | took for row in found]


def run(
    shapes: list[str] | None = None, sizes: list[int] | None = None, sets: int = SETS, draws: int = DRAWS, path: str | None = None,
    method: str | None = None, seconds: float | None = None,
) -> list[dict[str, Any]]:
    settings: dict[str, Any] = {"sets": sets, "draws": draws, "noise": NOISE, "interval": 0.9}
    settings |= {"seconds": seconds} if seconds else {"tune": draws, "chains": 2} if method is None else {"method": method}
    tables = kept(path, settings)
    print(f"{'':<8}{'n':>5}  {'where':<13}{'coverage':>16}{'width':>18}")
    for shape in shapes or SHAPES:
        for n in sizes or SIZES:
            for seed in range(sets):
                if all((row["shape"], row["n"], row["seed"]) != (shape, n, seed) for row in tables):
                    tables += one(shape, n, seed, draws, method, seconds)
                    if path:
                        record.write(path, "bands", settings, {"bands": summary(tables), "tables": tables})
            for row in summary([row for row in tables if (row["shape"], row["n"]) == (shape, n)]):
                coverage, width = (f"{row[name]:.{digits}f} ± {row[f'{name} standard error']:.{digits}f}" for name, digits in SHOWN)
                print(f"{shape:<8}{n:>5}  {row['where']:<13}{coverage:>16}{width:>18}", flush=True)
    return summary(tables)


def summary(tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over tables with their standard errors, a row for each shape, size and place."""
    out = []
    for (shape, n, where), own in pd.DataFrame(tables).groupby(["shape", "n", "where"], sort=False):
        numbers = own[["coverage", "width", "estimates inside", "seconds", "cpu"]]
        mean, error = numbers.mean(), numbers.sem()
        out.append({
            "shape": shape, "n": n, "where": where, "coverage": mean["coverage"], "coverage standard error": error["coverage"],
            "width": mean["width"], "width standard error": error["width"], "estimates inside": mean["estimates inside"],
            "seconds a table": mean["seconds"], "cpu a table": mean["cpu"],
        })
    return out


def kept(path: str | None, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """What an earlier run has left in the file: the rows of its tables."""
    if not path or not Path(path).is_file():
        return []
    before = record.read(path)
    if before["settings"] != settings or "tables" not in before["results"]:
        raise ValueError(f"{path!r} is of a run with {before['settings']}, not {settings}; name another file.")
    return before["results"]["tables"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", choices=[*SHAPES, []])
    parser.add_argument("--method", choices=["vb", "memoized_vb"])
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--sets", type=int, default=SETS)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--seconds", type=float)
    record.option(parser)
    given = parser.parse_args()
    run(given.shapes, given.sizes, given.sets, given.draws, given.json, given.method, given.seconds)
