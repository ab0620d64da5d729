"""Variational inference of density regression: held-out scores and coverage beside chains, and what a row costs.

    python -m benchmarks.variational_regression [TABLES] [--splits N] [--chains S] [--moves] [--rows N ...] [--files N ...]
        [--starts N] [--places N] [--widths W ...] [--boosting] [--json FILE.json]

The tables of `benchmarks.several_covariates`. Of each: `nm.VB()` by its starts combined in all three ways, and on average one start alone;
with `--chains` chains by the defaults for so many seconds. Log densities (nats a row) and RMSE are in units of the response's standard
deviation; coverage is of the 80% and 90% predictive intervals; CPU seconds are of the fit. `--moves` fits the tables without merges and
births, with merges, and with both, and prints the bound of the best start and its components with rows beside the score. `--rows` adds a
simulated table of so many rows by six covariates, whose law is known, with so many `--starts`, by a kernel of so many `--places` and these
`--widths` if given: seconds of a start, microseconds a row and pass, proposals included, peak memory of the process, held-out log density
and that of the law itself; with `--boosting` that of NGBoost too, its CPU seconds and its version. `--files` writes such a table to a
Parquet file and fits 30 components from there in a fresh process: CPU microseconds a row before the fit, a row and pass, and a row of
reading alone, and megabytes at most, beyond the imports.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import nrmmix as nm
from benchmarks import record
from benchmarks.several_covariates import ngboost, tables, versions
from nrmmix.inference.variational_regression.combine import weights_of
from nrmmix.results import VariationalRegressionResult

WAYS = ("stacking", "equal", "best")
LEVELS = (0.8, 0.9)
HELD_OUT = 5000
GROUP, COMPONENTS = 65_536, 30  # rows of a group of a file; components of its fit
HEAD = ("log density", "rmse", "coverage 80", "coverage 90", "cpu")


def scores(fit: Any, test: pd.DataFrame, cpu: float) -> dict[str, float]:
    """Held-out scores of a fit."""
    y, q = test["y"].to_numpy(), [0.5 - 0.5 * LEVELS[1], 0.5 - 0.5 * LEVELS[0], 0.5 + 0.5 * LEVELS[0], 0.5 + 0.5 * LEVELS[1]]
    ends = fit.predict(test, kind="quantile", q=q, draws=60)["estimate"].to_numpy().reshape(-1, 4).T
    inside = [float(((y >= low) & (y <= high)).mean()) for low, high in ((ends[1], ends[2]), (ends[0], ends[3]))]
    error = y - fit.predict(test, draws=60)["estimate"].to_numpy()
    values = float(fit.log_density(test).mean()), float(np.sqrt((error**2).mean())), *inside, cpu
    return dict(zip(HEAD, values, strict=True))


def combined(fit: VariationalRegressionResult, how: str) -> VariationalRegressionResult:
    """The same starts, averaged over in another way."""
    outcome = fit._outcome
    weights = weights_of(how, outcome.rows, list(outcome.fits), outcome.bounds, np.random.default_rng(0))
    return VariationalRegressionResult(fit.model, outcome._replace(weights=weights, method=replace(outcome.method, combine=how)))


def of_table(name: str, splits: int | None, seconds: float | None) -> list[dict[str, Any]]:
    rows = []
    for split, (train, test) in list(enumerate(tables()[name]()))[:splits]:
        formula = f"y ~ {' + '.join(column for column in train if column != 'y')}"
        model = nm.Model(formula, train)
        begun = time.process_time()
        fit = model.fit(nm.VB(), rng=split)
        cpu = time.process_time() - begun
        own = {how: scores(combined(fit, how), test, cpu) for how in WAYS}
        alone = [combined(VariationalRegressionResult(model, fit._outcome._replace(
            fits=(fit.fits[k],), bounds=fit._outcome.bounds[[k]], weights=np.ones(1), passes=[fit._outcome.passes[k]],
            has_converged=fit._outcome.has_converged[[k]],
        )), "equal") for k in range(len(fit.fits))]
        own["one start"] = pd.DataFrame([scores(one, test, cpu / len(alone)) for one in alone]).mean().to_dict()
        if seconds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of convergence
                begun = time.process_time()
                chains = model.fit(rng=split, time_limit=seconds)
            own["chains"] = scores(chains, test, time.process_time() - begun)
        rows += [{"table": name, "split": split, "rows": len(train), "covariates": train.shape[1] - 1, "how": how} | found
                 for how, found in own.items()]
    return rows


MOVES = {"neither": (False, False), "merges": (False, True), "merges and births": (True, True)}


def moves_of_table(name: str, splits: int | None) -> list[dict[str, Any]]:
    """What merges and births do to the bound and to held-out rows."""
    rows = []
    for split, (train, test) in list(enumerate(tables()[name]()))[:splits]:
        model = nm.Model(f"y ~ {' + '.join(column for column in train if column != 'y')}", train)
        for how, (births, merges) in MOVES.items():
            begun = time.process_time()
            fit = model.fit(nm.MemoizedVB(births=births, merges=merges), rng=split)
            best = fit.starts.loc[fit.starts["elbo"].idxmax()]
            rows.append({
                "table": name, "split": split, "how": how, "log density": float(fit.log_density(test).mean()),
                "bound": best["elbo"], "components": best["n_clusters"], "cpu": time.process_time() - begun,
            })
    return rows


def simulated(n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of six covariates, and the log density of each response by the law that it comes from."""
    x = rng.standard_normal((n, 6))
    x[:, 3] = np.round(x[:, 3])
    mean = np.where(x[:, 0] > 0.3, 2 * x[:, 1], -x[:, 2]) + np.sin(2 * x[:, 1])
    sd, far = np.where(x[:, 3] > 0, 0.6, 0.2), np.where(x[:, 0] < -1, 0.3, 0.0)
    y = mean + 3 * (rng.random(n) < far) + sd * rng.standard_normal(n)
    density = sum(share * np.exp(-0.5 * ((y - mean - shift) / sd) ** 2) for share, shift in ((1 - far, 0.0), (far, 3.0)))
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(6)]).assign(y=y), np.log(density / (sd * np.sqrt(2 * np.pi)))


def of_rows(
    n: int, starts: int = 1, kernel: dict[str, Any] | None = None, boosting: bool = False, passes: int = 20
) -> dict[str, Any]:
    """So many starts and passes over n rows, with what samples propose; NGBoost beside them if wanted."""
    rng = np.random.default_rng(1)
    test, truth = simulated(HELD_OUT, rng)
    train, _ = simulated(n, rng)
    formula = "y ~ x0 + x1 + x2 + x3 + x4 + x5"
    model = nm.Model(formula, train, kernel=nm.SparseProduct(**kernel) if kernel else None)
    out: dict[str, Any] = {"rows": n}
    cpu = []
    for number in (1, 1 + passes):  # the start costs the same both times
        begun = time.process_time()
        fit = model.fit(nm.VB(starts=starts, passes=number, tol=1e-12), rng=1)
        cpu.append(time.process_time() - begun)
    out |= {"starts": starts, "start": cpu[0] / starts, "microseconds": 1e6 * (cpu[1] - cpu[0]) / (n * passes * starts)}
    out |= {"components": fit.n_components}
    out["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    out |= {"log density": float(fit.log_density(test).mean()), "truth": float(truth.mean()), "kernel": str(model.kernel)}
    if boosting:
        begun = time.process_time()
        found = ngboost(train, test, 1, 0.0).log_density
        assert found is not None  # it has a density
        cpu_seconds = time.process_time() - begun
        out |= {"NGBoost": float(found.mean()), "NGBoost, CPU s": cpu_seconds, "NGBoost, version": str(versions()["ngboost"])}
    return out


def of_file(n: int) -> dict[str, Any]:
    """A fit of n rows of a Parquet file."""
    import pyarrow
    from pyarrow import parquet

    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        path, writer = Path(folder) / "rows.parquet", None
        for first in range(0, n, GROUP):
            table = pyarrow.Table.from_pandas(simulated(min(GROUP, n - first), rng)[0], preserve_index=False)
            writer = writer or parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
        writer.close()
        with multiprocessing.get_context("spawn").Pool(1) as pool:  # whose peak of memory is that of the fit
            return {"rows": n, "file": path.stat().st_size / 1e6} | pool.apply(fitted_from, (str(path),))


def fitted_from(path: str) -> dict[str, Any]:
    """What a fit from a file takes in this process."""
    imports, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.process_time()
    model = nm.Model("y ~ x0 + x1 + x2 + x3 + x4 + x5", path)
    out, cpu = {"before": 1e6 * (time.process_time() - begun) / model.n_obs}, []
    for number in (1, 2):
        begun = time.process_time()
        fit = model.fit(nm.MemoizedVB(starts=1, passes=number, components=COMPONENTS), rng=1)
        cpu.append(time.process_time() - begun)
    out["microseconds"] = 1e6 * (cpu[1] - cpu[0]) / model.n_obs
    begun = time.process_time()
    for _ in fit.posterior.rows.parts():
        pass
    out["reading"] = 1e6 * (time.process_time() - begun) / model.n_obs
    return out | {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - imports}


def run(
    names: list[str] | None, splits: int | None, seconds: float | None, sizes: list[int], files: list[int], path: str | None,
    starts: int = 1, moves: bool = False, kernel: dict[str, Any] | None = None, boosting: bool = False,
) -> None:
    every, large, streamed, moved = [], [], [], []
    if moves:
        for name in names or tables():
            moved += moves_of_table(name, splits)
            for how in MOVES:
                own = pd.DataFrame([row for row in moved if row["table"] == name and row["how"] == how]).mean(numeric_only=True)
                print(f"{name:<15}{how:<19}" + "  ".join(f"{one} {own[one]:.3f}" for one in own.index[1:]), flush=True)
        names = []
    names = names or ([] if sizes or files or moves else list(tables()))
    if names:
        print(f"{'':<26}" + "".join(f"{name:>14}" for name in HEAD))
    for name in names:
        rows = of_table(name, splits, seconds)
        every += rows
        for how in dict.fromkeys(row["how"] for row in rows):
            own = pd.DataFrame([row for row in rows if row["how"] == how])[list(HEAD)].mean()
            print(f"{name:<15}{how:<11}" + "".join(f"{own[one]:>14.3f}" for one in HEAD), flush=True)
    for n in sizes:
        large.append(of_rows(n, starts, kernel, boosting))
        print("  ".join(f"{name} {value if isinstance(value, str) else f'{value:.4g}'}" for name, value in large[-1].items()), flush=True)
    for n in files:
        streamed.append(of_file(n))
        print("  ".join(f"{name} {value:.4g}" for name, value in streamed[-1].items()), flush=True)
    if path:
        found = {name: rows for name, rows in (("runs", every), ("rows", large), ("files", streamed), ("moves", moved)) if rows}
        record.write(path, "variational_regression", {"splits": splits, "seconds of chains": seconds}, found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", choices=[*tables(), []])
    parser.add_argument("--splits", type=int)
    parser.add_argument("--chains", type=float, metavar="SECONDS")
    parser.add_argument("--moves", action="store_true")
    parser.add_argument("--starts", type=int, default=1, help="of --rows")
    parser.add_argument("--places", type=int, help="of the kernel of --rows")
    parser.add_argument("--widths", type=float, nargs="*", help="of the kernel of --rows")
    parser.add_argument("--boosting", action="store_true", help="NGBoost beside --rows")
    parser.add_argument("--rows", type=lambda text: int(float(text)), nargs="*", default=[])
    parser.add_argument("--files", type=lambda text: int(float(text)), nargs="*", default=[])
    record.option(parser)
    given = parser.parse_args()
    finer = {name: value for name in ("places", "widths") if (value := getattr(given, name))}
    run(given.tables, given.splits, given.chains, given.rows, given.files, given.json, given.starts, given.moves, finer, given.boosting)
