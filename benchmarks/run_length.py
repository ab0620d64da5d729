"""Runs that find their own length: what they say of themselves, and CPU seconds beside 1,000 draws with the remedy followed.

`python -m benchmarks.run_length [NAME ...] [--remedy]`.  The remedy is followed as a user would: the call that the verdict proposes, until
the chains agree or have run ROUNDS times.  Compilation is left out.  Three tables are of statsmodels.
"""

from __future__ import annotations

import re
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd

import nrmmix as nm
from nrmmix.posterior.convergence import converged, verdict

ROUNDS = 4


def _statsmodels(name: str) -> Callable[[], pd.DataFrame]:
    def load() -> pd.DataFrame:
        import importlib

        return importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data

    return load


TABLES: dict[str, tuple[str, Callable[[], Any]]] = {
    "galaxy": ("velocity_km_s ~ 1", nm.datasets.load_galaxy),
    "faithful": ("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful),
    "acidity": ("log_anc ~ 1", nm.datasets.load_acidity),
    "iris": ("sepal_length_cm + sepal_width_cm + petal_length_cm + petal_width_cm ~ 1", nm.datasets.load_iris),
    "mcycle": ("accel_g ~ times_ms", nm.datasets.load_mcycle),
    "sunspots": ("SUNACTIVITY ~ 1", _statsmodels("sunspots")),
    "engel": ("foodexp ~ income", _statsmodels("engel")),
    "ccard": ("AVGEXP ~ INCOME", _statsmodels("ccard")),
}


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


def main() -> None:
    names = [name for name in sys.argv[1:] if not name.startswith("--")] or list(TABLES)
    warnings.simplefilter("ignore", nm.ConvergenceWarning)
    for name in names:
        formula, load = TABLES[name]
        model = nm.Model(formula, load())
        model.fit(draws=8, tune=1, rng=1).curve_diagnostics()  # compiled
        fit, cpu, wall = measured(partial(model.fit, rng=1))
        agree, text = said(fit)
        line = f"{name:<10}{model.n_obs:>5} rows  {'agree' if agree else 'do not agree'}: {cpu:6.1f} CPU s, {wall:6.1f} s, "
        line += f"{fit.draws.n_draws} draws, thin {fit.thin}"
        if "--remedy" in sys.argv:
            there, before, fits = remedied(model)
            line += f"; 1,000 draws with the remedy: {before:6.1f} CPU s in {fits} fits, {'agree' if there else 'do not agree'}"
        print(line, flush=True)
        if not agree:
            print(f"          {text}", flush=True)


if __name__ == "__main__":
    main()
