"""False and missed alarms of the verdict on chains: fits of usual length beside very long runs of the same models.

    python -m benchmarks.verdicts [TABLES] [--fits N] [--draws N] [--long N] [--json FILE.json]

A fit is wrong where the posterior mean of a quantity that it reports, of the partition, of a hyperparameter, of the density or of a curve,
is more than OFF posterior standard deviations from that of the long run, and more than SURE standard errors of both. An alarm is a verdict
that something is not to be trusted or that chains differ. Missed: wrong without an alarm. False: an alarm, but nothing is wrong.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import nrmmix as nm
from benchmarks import record
from nrmmix.report.summary import Checked

OFF, SURE = 0.25, 4.0
ALARMS = "Do not trust", "chains differ", "cannot be judged"

Rows = tuple[str, dict[str, Any], dict[str, Any]]  # formula, data, arguments of the model


def groups(n: int, d: int, K: int, apart: float, seed: int, family: Any = None) -> Rows:
    rng = np.random.default_rng([seed, n, d])
    y = apart * rng.normal(size=(K, d))[rng.integers(0, K, n)] + rng.normal(size=(n, d))
    names = [f"y{j}" for j in range(d)]
    return " + ".join(names) + " ~ 1", dict(zip(names, y.T, strict=True)), {"family": family}


def curve(n: int, of: Callable[[np.ndarray], np.ndarray], noise: float, seed: int) -> Rows:
    rng = np.random.default_rng([seed, n])
    x = rng.uniform(0, 1, n)
    return "y ~ x", {"x": x, "y": of(x) + noise * rng.normal(size=n)}, {}


TABLES: dict[str, Callable[[], Rows]] = {
    "lump": lambda: groups(60, 1, 1, 0.0, 1), "two near": lambda: groups(80, 1, 2, 2.0, 2), "three": lambda: groups(100, 2, 3, 4.0, 3),
    "three near": lambda: groups(100, 2, 3, 1.5, 4), "five": lambda: groups(150, 3, 5, 3.0, 5), "noise": lambda: groups(60, 10, 1, 0.0, 6),
    "diagonal noise": lambda: groups(100, 15, 1, 0.0, 7, nm.Gaussian("diagonal")), "groups of eight": lambda: groups(120, 8, 4, 2.0, 8),
    "diagonal groups": lambda: groups(120, 6, 4, 1.5, 9, nm.Gaussian("diagonal")), "few rows": lambda: groups(20, 2, 2, 3.0, 10),
    "counts": lambda: ("y ~ 1", {"y": np.random.default_rng(11).poisson(np.repeat([2.0, 9.0, 30.0], 30))}, {"family": nm.Poisson()}),
    "galaxy": lambda: ("velocity_km_s ~ 1", nm.datasets.load_galaxy(), {}),
    "galaxy, NGGP": lambda: ("velocity_km_s ~ 1", nm.datasets.load_galaxy(), {"prior": nm.NGGP()}),
    "faithful": lambda: ("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), {}),
    "acidity": lambda: ("log_anc ~ 1", nm.datasets.load_acidity(), {}),
    "iris": lambda: ("sepal_length_cm + sepal_width_cm + petal_length_cm + petal_width_cm ~ 1", nm.datasets.load_iris(), {}),
    "line": lambda: curve(60, lambda x: 2 * x, 0.3, 12), "wave": lambda: curve(80, lambda x: np.sin(6 * x), 0.2, 13),
    "step": lambda: curve(80, lambda x: np.where(x > 0.4, 1.0, 0.0), 0.1, 14),
    "spread": lambda: curve(80, lambda x: np.random.default_rng(15).normal(size=len(x)) * x, 0.1, 15),
}


def reported(fit: Any) -> pd.DataFrame:
    """Mean, posterior standard deviation and standard error of all that a fit reports."""
    parts = [fit.diagnostics(), fit.curve_diagnostics()]
    return pd.concat([part[["mean", "sd", "mcse"]] for part in parts if part is not None])


def fitted(name: str, draws: int, chains: int, seed: int) -> Any:
    formula, data, arguments = TABLES[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nm.fit(formula, pd.DataFrame(data), draws=draws, tune=min(draws, 2000), chains=chains, rng=seed, progress=False, **arguments)


def measured(name: str, fits: int, draws: int, long: int) -> list[dict[str, Any]]:
    truth, found = reported(fitted(name, long, 4, 1000)).dropna(), []  # shares of proposals and constants have no error
    for seed in range(fits):
        fit = fitted(name, draws, 4, seed)
        own = reported(fit).reindex(truth.index)
        away = (own["mean"] - truth["mean"]).abs()
        error = np.hypot(own["mcse"].fillna(0.0), truth["mcse"].fillna(0.0))
        wrong = away[(away > OFF * truth["sd"]) & (away > SURE * error)]
        verdict = Checked.of(fit).verdict
        found.append({
            "table": name, "seed": seed, "alarm": any(word in verdict for word in ALARMS), "nearly": "nearly agree" in verdict,
            "wrong": list(wrong.index), "farthest": float((away / truth["sd"]).replace(np.inf, np.nan).max()), "verdict": verdict,
        })
    return found


def run(names: list[str], fits: int, draws: int, long: int, path: str = "") -> None:
    found: list[dict[str, Any]] = []
    for name in names:
        found += measured(name, fits, draws, long)
        own = found[-fits:]
        alarms, wrong = (sum(bool(one[key]) for one in own) for key in ("alarm", "wrong"))
        sys.stdout.write(f"{name:18} alarms {alarms}, wrong {wrong} of {fits}; farthest {max(one['farthest'] for one in own):.2f} sd\n")
        sys.stdout.flush()
    missed = sum(bool(one["wrong"]) and not one["alarm"] for one in found)
    false = sum(one["alarm"] and not one["wrong"] for one in found)
    sys.stdout.write(f"{len(found)} fits: {missed} missed alarms, {false} false alarms, {sum(one['alarm'] for one in found)} alarms\n")
    if path:
        settings = {"fits": fits, "draws": draws, "long": long, "off": OFF, "sure": SURE}
        record.write(path, "verdicts", settings, {"fits": found})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=list(TABLES), metavar="TABLES")
    parser.add_argument("--fits", type=int, default=5)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--long", type=int, default=20_000)
    record.option(parser)
    given = parser.parse_args()
    run(given.tables, given.fits, given.draws, given.long, given.json)
