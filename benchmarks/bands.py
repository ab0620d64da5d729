"""Coverage of bands of the conditional mean inside the data, in a gap and beyond: simulated tables of which the mean is known.

    python -m benchmarks.bands [SHAPES] [--method NAME] [--sizes N ...] [--sets N] [--draws N] [--json FILE.json]

Covariates are uniform on (0, 0.4) and (0.6, 1). Shapes: a line, a wave, and a step at 0.25, of which x within 0.02 of it is an
`edge`; noise is normal, with standard deviation 0.2. `nm.fit` has its defaults but for its length: two chains of as many draws as tuning
sweeps. With `--method vb` fits are variational, and bands of as many random measures drawn from them. Bands are of 90%; coverage is the
share of points and tables in which they hold the mean, width their mean width there. Standard errors are over tables.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import nrmmix as nm
from benchmarks import record

SIZES, SETS, DRAWS, NOISE = (50, 100, 400), 20, 250, 0.2
SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "line": lambda x: 2.0 * x, "wave": lambda x: np.sin(6.0 * x), "step": lambda x: np.where(x > 0.25, 1.0, 0.0),
}
PLACES = {
    "inside": np.r_[np.linspace(0.03, 0.37, 12), np.linspace(0.63, 0.97, 12)], "gap": np.linspace(0.45, 0.55, 5),
    "just beyond": np.array([-0.1, 1.1]), "beyond": np.array([-0.5, 1.5]), "far": np.array([-5.0, 6.0]),
}
EDGE = np.array([0.235, 0.245, 0.255, 0.265])


def places_of(shape: str) -> dict[str, np.ndarray]:
    return {"edge": EDGE} | PLACES if shape == "step" else PLACES


def table(shape: str, n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng([seed, n])
    x = rng.uniform(0, 0.8, n)
    x = np.where(x > 0.4, x + 0.2, x)
    return pd.DataFrame({"x": x, "y": SHAPES[shape](x) + NOISE * rng.normal(size=n)})


def one(shape: str, n: int, seed: int, draws: int, method: str | None = None) -> dict[str, tuple[float, float, float]]:
    """Of each place the share of points in their bands, the mean width, and the share of estimates in their bands."""
    of_chains = {"draws": draws, "tune": draws, "chains": 2} if method is None else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: chains are short; of components that are used up
        fit = nm.fit("y ~ x", table(shape, n, seed), method=method or "auto", rng=seed, progress=False, **of_chains)
    found, of_factors = {}, {} if method is None else {"draws": draws}
    for where, x in places_of(shape).items():
        band, truth = fit.predict({"x": x}, rng=seed, **of_factors), SHAPES[shape](x)
        holds = (band["lower"] <= truth) & (truth <= band["upper"])
        own = (band["lower"] <= band["estimate"]) & (band["estimate"] <= band["upper"])
        found[where] = float(holds.mean()), float((band["upper"] - band["lower"]).mean()), float(own.mean())
    return found


def run(
    shapes: list[str] | None = None, sizes: list[int] | None = None, sets: int = SETS, draws: int = DRAWS, path: str | None = None,
    method: str | None = None,
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    print(f"{'':<8}{'n':>5}  {'where':<13}{'coverage':>16}{'width':>18}")
    for shape in shapes or SHAPES:
        for n in sizes or SIZES:
            start, cpu = time.perf_counter(), time.process_time()
            found = [one(shape, n, seed, draws, method) for seed in range(sets)]
            seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
            for where in places_of(shape):
                values = np.array([each[where] for each in found])
                error = values.std(axis=0, ddof=1) / np.sqrt(sets) if sets > 1 else np.full(3, np.nan)
                rows.append({
                    "shape": shape, "n": n, "where": where, "coverage": values[:, 0].mean(), "coverage standard error": error[0],
                    "width": values[:, 1].mean(), "width standard error": error[1], "estimates inside": values[:, 2].mean(),
                    "seconds a table": seconds / sets, "cpu a table": cpu / sets,
                })
                coverage, width, _ = values.mean(axis=0)
                print(f"{shape:<8}{n:>5}  {where:<13}{coverage:>9.2f} ± {error[0]:.2f}{width:>11.3f} ± {error[1]:.3f}", flush=True)
    if path:
        settings: dict[str, Any] = {"sets": sets, "draws": draws, "noise": NOISE, "interval": 0.9}
        settings |= {"tune": draws, "chains": 2} if method is None else {"method": method}
        record.write(path, "bands", settings, {"bands": rows})
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", choices=[*SHAPES, []])
    parser.add_argument("--method", choices=["vb", "memoized_vb"])
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--sets", type=int, default=SETS)
    parser.add_argument("--draws", type=int, default=DRAWS)
    record.option(parser)
    given = parser.parse_args()
    run(given.shapes, given.sizes, given.sets, given.draws, given.json, given.method)
