"""Runs that find their own length: what they say of themselves, and CPU seconds beside 1,000 draws with the remedy followed.

    python -m benchmarks.run_length [NAMES] [--seconds S] [--seeds N] [--remedy]

The remedy is followed as a user would: the call that the verdict proposes, until the chains agree or have run ROUNDS times.  With
`--seconds` a run ends then at the latest.  R-hat of density regressions is the largest of means, and of all curves.  Compilation is left
out.  Three tables are of statsmodels; `yacht` is there where NRMMIX_DATA_DIR names a folder with uci_yacht.npz.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

import nrmmix as nm
from benchmarks import several_covariates
from benchmarks.density_regression import drawn
from nrmmix.posterior.convergence import converged, verdict

ROUNDS = 4


def _statsmodels(name: str) -> Callable[[], pd.DataFrame]:
    def load() -> pd.DataFrame:
        import importlib

        return importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data

    return load


def wave(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 1, n)
    return pd.DataFrame({"x": x, "y": np.sin(6 * x) + 0.2 * rng.normal(size=n)})


TABLES: dict[str, tuple[str, Callable[[], Any]]] = {
    "galaxy": ("velocity_km_s ~ 1", nm.datasets.load_galaxy),
    "faithful": ("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful),
    "acidity": ("log_anc ~ 1", nm.datasets.load_acidity),
    "iris": ("sepal_length_cm + sepal_width_cm + petal_length_cm + petal_width_cm ~ 1", nm.datasets.load_iris),
    "mcycle": ("accel_g ~ times_ms", nm.datasets.load_mcycle),
    "sunspots": ("SUNACTIVITY ~ 1", _statsmodels("sunspots")),
    "engel": ("foodexp ~ income", _statsmodels("engel")),
    "ccard": ("AVGEXP ~ INCOME", _statsmodels("ccard")),
    "wave": ("y ~ x", wave),
    **{kind: (f"y ~ {' + '.join(f'x{j + 1}' for j in range(q))}", partial(drawn, kind, np.random.default_rng(100), 350))
       for kind, q in (("two", 2), ("three", 3))},
    "species": ("petal_length_cm ~ species + sepal_length_cm", nm.datasets.load_iris),
}
if "yacht" in (of_files := several_covariates.tables()):
    TABLES["yacht"] = ("y ~ x1 + x2 + x3 + x4 + x5 + x6", lambda: next(of_files["yacht"]())[0])


def said(fit: Any) -> tuple[bool, str]:
    """Whether the chains agree, on clusters and on curves or the density, and the verdict in words."""
    numbers, curves = fit.diagnostics(), fit.curve_diagnostics()
    return converged(numbers) and (curves is None or converged(curves)), verdict(fit.evidence, numbers, curves)


def measured(fit: Callable[[], Any]) -> tuple[Any, float, float]:
    """A fit, and its CPU and wall seconds."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = fit()
    return found, time.process_time() - cpu, time.perf_counter() - wall


def remedied(model: nm.Model) -> tuple[bool, float, int]:
    """1,000 draws, and what the verdict asks for, again and again: whether they agree, CPU seconds in all, and fits."""
    arguments: dict[str, Any] = {"draws": 1000, "tune": 1000}
    total = 0.0
    for number in range(1, ROUNDS + 1):
        fit, cpu, _ = measured(partial(model.fit, rng=1, **arguments))
        total += cpu
        agree, text = said(fit)
        asked = re.search(r"Run longer: ([^;.]*)", text)
        if agree or asked is None:
            return agree, total, number
        arguments = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", asked[1])}
    return agree, total, ROUNDS


def main(names: list[str], seconds: float | None, seeds: int, remedy: bool) -> None:
    warnings.simplefilter("ignore", nm.ConvergenceWarning)
    limit = {} if seconds is None else {"time_limit": seconds}
    for name in names or TABLES:
        formula, load = TABLES[name]
        model = nm.Model(formula, load())
        model.fit(draws=8, tune=1, rng=1).curve_diagnostics()  # compiled
        for seed in range(1, seeds + 1):
            fit, cpu, wall = measured(partial(model.fit, rng=seed, **limit))
            agree, text = said(fit)
            line = f"{name:<10}{model.n_obs:>5} rows  {'agree' if agree else 'do not agree'}: {cpu:6.1f} CPU s, {wall:6.1f} s, "
            line += f"{fit.draws.n_draws} draws, thin {fit.thin}"
            if model.is_regression:
                curves = fit.curve_diagnostics()
                means = curves[curves.index.str.startswith("mean ")]
                line += f"; R-hat of means {means['rhat'].max():.2f}, of all curves {curves['rhat'].max():.2f}"
            if remedy:
                there, before, fits = remedied(model)
                line += f"; 1,000 draws with the remedy: {before:6.1f} CPU s in {fits} fits, {'agree' if there else 'do not agree'}"
            print(line, flush=True)
            if not agree:
                print(f"          {text}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*TABLES, []])
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--remedy", action="store_true")
    given = parser.parse_args()
    main(given.names, given.seconds, given.seeds, given.remedy)
