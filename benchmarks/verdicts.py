"""False and missed alarms of the verdict on chains: fits of usual length beside very long runs of the same models.

    python -m benchmarks.verdicts [TABLES] [--fits N] [--draws N] [--long N] [--json FILE.json]

A fit is wrong where the posterior mean of a quantity that it reports, of the partition, of a hyperparameter, of the density or of a curve,
is more than OFF posterior standard deviations from that of the long run, SURE standard errors of the long run added. It is short where by
the long run's autocorrelation as many draws are worth fewer than 100 of some quantity: such a fit is off by a tenth of a standard deviation
and more, by luck less. An alarm is a verdict that something is not to be trusted or that chains differ. Missed: wrong without an alarm.
False: an alarm, but the fit is neither wrong nor short. Where the file is there, what it holds is not done again.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import nrmmix as nm
from benchmarks import record
from nrmmix.posterior.convergence import ESS_BAD
from nrmmix.posterior.curves import curve_diagnostics, density_diagnostics
from nrmmix.posterior.draws import Posterior
from nrmmix.report.summary import Checked

OFF, SURE = 0.25, 4.0
KEPT = ("mean", "sd", "mcse", "rhat", "ess", "ess_tail")
LONG_SEED = 1000
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


def fitted(name: str, draws: int, seed: int) -> Any:
    formula, data, arguments = TABLES[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nm.fit(formula, pd.DataFrame(data), draws=draws, tune=min(draws, 2000), rng=seed, progress=False, **arguments)


def reported(fit: Any) -> pd.DataFrame:
    """Diagnostics of all that the fit reports and that varies; of all draws."""
    posterior = Posterior(fit.model, fit.draws, fit.seed)
    of = curve_diagnostics if fit.model.is_regression else density_diagnostics
    found = pd.concat([fit.diagnostics(), of(posterior, most=fit.draws.n_draws)])
    return found[[*KEPT]].dropna()  # shares of proposals and constants have no error


def truth_of(name: str, long: int) -> list[dict[str, Any]]:
    """A row for each quantity: what a run of `long` draws in each chain says."""
    found = reported(fitted(name, long, LONG_SEED))
    return [{"table": name, "quantity": quantity, **row} for quantity, row in found.to_dict("index").items()]


def judged(name: str, seed: int, draws: int, truth: pd.DataFrame, long: int) -> dict[str, Any]:
    """What is said of a fit of usual length, and what is right."""
    fit = fitted(name, draws, seed)
    own = reported(fit).reindex(truth.index)
    away = ((own["mean"] - truth["mean"]) / truth["sd"]).abs()
    surely = away - SURE * truth["mcse"] / truth["sd"]
    worth = truth[["ess", "ess_tail"]].min(axis=1) * draws / long
    verdict = Checked.of(fit).verdict
    return {
        "commit": record.commit(), "table": name, "seed": seed,
        "alarm": any(word in verdict for word in ALARMS), "nearly": "nearly agree" in verdict,
        "wrong": list(away.index[surely > OFF]), "short": list(worth.index[worth < ESS_BAD]), "farthest": float(away.max()),
        "which": str(away.idxmax()), "worth": float(worth.min()), "verdict": verdict,
    }


def is_missed(one: dict[str, Any]) -> bool:
    return bool(one["wrong"]) and not one["alarm"]


def is_false(one: dict[str, Any]) -> bool:
    return bool(one["alarm"]) and not one["wrong"] and not one["short"]


def run(names: list[str], fits: int, draws: int, long: int, path: str = "") -> list[dict[str, Any]]:
    settings = {"draws": draws, "long": long, "off": OFF, "sure": SURE}
    truths, found = kept(path, settings)
    for name in names:
        if all(row["table"] != name for row in truths):
            truths += truth_of(name, long)
        truth = pd.DataFrame([row for row in truths if row["table"] == name]).set_index("quantity")
        for seed in range(fits):
            if all((one["table"], one["seed"]) != (name, seed) for one in found):
                found.append(judged(name, seed, draws, truth, long))
                if path:
                    record.write(path, "verdicts", settings, {"fits": found, "truth": truths})
        own = [one for one in found if one["table"] == name]
        counts = f"alarms {sum(one['alarm'] for one in own)}, wrong {sum(bool(one['wrong']) for one in own)}"
        counts += f", missed {sum(map(is_missed, own))}, false {sum(map(is_false, own))}"
        away = f"farthest {max(one['farthest'] for one in own):.2f} sd; worth {own[0]['worth']:.0f} draws"
        worth = truth[["ess", "ess_tail"]].min(axis=None)
        sys.stdout.write(f"{name:16} {len(own)} fits: {counts}; {away}; long run: R-hat {truth['rhat'].max():.3f}, worth {worth:.0f}\n")
        sys.stdout.flush()
    missed, false = sum(map(is_missed, found)), sum(map(is_false, found))
    sys.stdout.write(f"{len(found)} fits: {missed} missed alarms, {false} false alarms, {sum(one['alarm'] for one in found)} alarms\n")
    return found


def kept(path: str, settings: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What an earlier run has left in the file, its truths and its fits."""
    if not path or not Path(path).is_file():
        return [], []
    before = record.read(path)
    if before["settings"] != settings:
        raise ValueError(f"{path!r} is of a run with {before['settings']}, not {settings}; name another file.")
    return before["results"]["truth"], [{"commit": before["commit"]} | one for one in before["results"]["fits"]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", default=list(TABLES), metavar="TABLES")
    parser.add_argument("--fits", type=int, default=5)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--long", type=int, default=20_000)
    record.option(parser)
    given = parser.parse_args()
    run(given.tables, given.fits, given.draws, given.long, given.json)
