"""Samplers of density regression on the settings of Foti & Williamson (2012), each on the same model where it suits one.

    [NRMMIX_DATA_DIR=...] python -m benchmarks.kernel_samplers [--splits 2] [--sweeps 4000] [--only motorcycle] [--kernel SE] [--paper]
                                                               [--json FILE.json]
    python -m benchmarks.kernel_samplers --agreement [--sweeps 20000] [--only motorcycle] [--kernel SE] [--json FILE.json]

Held-out log density a row as the log of the mean density over draws and, as the paper has it, the mean of the logs; clusters; integrated
autocorrelation times of the number of clusters and of the log joint in sweeps; CPU seconds of 100 sweeps; and effective draws a CPU second
of the number of clusters and of the held-out log density.  Means over splits.  The cosmic microwave background needs the folder of
wmap_tt_1yr.csv.  With --paper only its samplers and kernels and Gibbs; --json writes every split, with the number of clusters'
autocorrelation time if it is not centred, and the score of the true density where the data are simulated.

With --agreement, the posterior means of the number of clusters, of the mass and of the held-out log density a row of the first split, by
all samplers of one model from four chains each, with their Monte Carlo errors, and the difference from Gibbs in errors: samplers of
one posterior agree where they have converged.

The paper's own autocorrelation times, 2,159 to 2,497 of 5,000 draws, are of a number of clusters that was not centred: independent draws
have about half of the number of draws, as the last line shows.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

import nrmmix as nm
from benchmarks import microwave_background, motorcycle, record
from nrmmix.posterior import diagnostics
from nrmmix.posterior.predict.densities import log_terms
from nrmmix.posterior.predict.rows import prediction_rows
from nrmmix.posterior.predict.states import states_of

BOX, SE = nm.Box(0.2), nm.SquaredExponential(0.05)
INFINITE = ("gibbs", "split_merge", "tree", "slice", "sngp")
FINITE = ("gibbs", "blocked")
COMPONENTS, CHAINS = 100, 4
OF_AGREEMENT = ("number of clusters", "mass", "held-out log density a row")
PRIORS = (
    ("", nm.DirichletProcess(), INFINITE), (f", {COMPONENTS} atoms", nm.FiniteMixture(COMPONENTS, nm.Gamma(1, 1)), FINITE))
OF_PAPER = (*((label, prior, ("gibbs", "slice", "sngp")) for label, prior, _ in PRIORS[:1]), (*PRIORS[1][:2], ("blocked",)))
PAPER = {  # log of densities / clusters
    ("synthetic", "box"): "slice -2.70 / 11.6, SNGP -2.67 / 43.3, finite -2.78 / 11.7",
    ("microwave background", "box"): "slice -0.15 / 14.4, SNGP -0.22 / 79.1, finite -0.41 / 18.2",
    ("microwave background", "SE"): "slice -0.28 / 14.7, finite -0.29 / 9.5",
    ("motorcycle", "box"): "slice -0.90 / 10.3, finite -1.19 / 16.4", ("motorcycle", "SE"): "slice -0.87 / 8.2, finite -0.99 / 7.3",
}


def synthetic() -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    for seed in range(motorcycle.SPLITS):
        data, truth = nm.datasets.simulate_dynamic_mixture(rng=seed)
        test = data.groupby("time").sample(10, random_state=seed)
        test.attrs["true score"] = float(np.log(truth.density(test["time"], test["y"])).mean())
        yield data.drop(test.index), test


def microwave() -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    data = microwave_background.table()
    for seed in range(motorcycle.SPLITS):
        test = data.sample(60, random_state=seed)
        yield data.drop(test.index), test


SETTINGS = {  # formula, family, kernels, splits
    "motorcycle": (
        "accel_g ~ times_ms", nm.Gaussian(), {"box": BOX, "SE": SE, "widths of atoms": nm.SquaredExponential()}, motorcycle.splits),
    "synthetic": ("y ~ time", nm.Gaussian(known_covariance=10.0, m=0, r=0.1), {"box": BOX, "SE": SE}, synthetic),
    "microwave background": (
        "power ~ moment", nm.Gaussian(known_covariance=0.02, m=0, r=0.02), {"box": BOX, "SE": SE}, microwave),
}


COLUMNS = (
    "score", "mean_of_logs", "clusters", "tau_clusters", "tau_joint", "seconds_100", "ess_clusters", "ess_score", "uncentred_tau")


def fitted(model: nm.Model, method: str, sweeps: int, seed: int) -> tuple[nm.MCMCResult, float]:
    """A chain, and the CPU seconds of a sweep."""
    model.fit(method, draws=1, tune=1, chains=1, rng=1)  # what is compiled is loaded
    began = time.process_time()
    fit = model.fit(method, draws=sweeps, tune=sweeps // 4, chains=1, cores=1, rng=seed)
    return fit, (time.process_time() - began) / (1.25 * sweeps)


def measure(fit: nm.MCMCResult, seconds: float, test: pd.DataFrame) -> list[float]:
    """What a chain says of held-out rows, and how it mixes, in the order of COLUMNS."""
    sweeps = fit.draws.n_draws
    logs = held_out_logs(fit, test)
    K, joint, held_out = (
        diagnostics.iact(np.asarray(x, float)) for x in (fit.draws["n_clusters"][0], fit.draws["log_joint"][0], logs.mean(axis=1)))
    thinned = sweeps / len(logs)
    return [
        float(np.mean(logsumexp(logs, axis=0) - np.log(len(logs)))), float(logs.mean()), float(fit.draws["n_clusters"].mean()), K, joint,
        100 * seconds, 1 / (K * seconds), 1 / (held_out * thinned * seconds), uncentred_tau(fit.draws["n_clusters"][0].astype(float)),
    ]


def bands(fit: nm.MCMCResult) -> dict[str, Any]:
    """Mean and 95% interval of the predictive distribution at the values of the covariate."""
    x = fit.model.frame.covariate_names[0]
    at = (0.05 * np.arange(1, 19)).round(2)  # the stamps of the microwave background
    found = fit.predict({x: at}, "quantile", q=[0.025, 0.975], draws=200, rng=1)["estimate"].to_numpy().reshape(-1, 2)
    return {"x": at, "mean": fit.predict({x: at}, "mean", draws=200, rng=1)["estimate"], "low": found[:, 0], "high": found[:, 1]}


def held_out_logs(fit: nm.MCMCResult, test: pd.DataFrame, at_most: int = 1000) -> np.ndarray:
    """Log densities (draws, rows) of held-out rows under draws of the posterior."""
    rows, y = prediction_rows(fit.model, test), test[fit.model.frame.response_names[0]].to_numpy()[:, None]
    return np.array([logsumexp(terms, axis=1) for terms in log_terms(states_of(fit.posterior, at_most), rows, y)])


def means(model: nm.Model, test: pd.DataFrame, method: str, sweeps: int) -> list[tuple[float, float]]:
    """Posterior mean and its Monte Carlo error, of K, the mass, and the mean of held-out log densities (thinned: errors of chain means)."""
    fit = model.fit(method, draws=sweeps // CHAINS, tune=sweeps // CHAINS // 2, chains=CHAINS, cores=1, rng=1)
    logs = held_out_logs(fit, test).mean(axis=1).reshape(CHAINS, -1)
    return [(float(x.mean()), float(diagnostics.mcse(x))) for x in (fit.draws["n_clusters"].astype(float), fit.draws["mass"], logs)]


def uncentred_tau(x: np.ndarray) -> float:
    """The autocorrelation time of draws whose mean is not taken away."""
    power = np.abs(np.fft.rfft(x, 2 * len(x))) ** 2
    covariance = np.fft.irfft(power)[: len(x)] / len(x)
    return 0.5 + float(covariance[1:].sum() / covariance[0])


def uncentred(sweeps: int = 5000) -> float:
    """That of independent draws of a number of clusters about 12."""
    return uncentred_tau(np.random.default_rng(1).poisson(12, sweeps).astype(float))


def models(only: str | None, of_kernel: str | None, paper: bool = False) -> Iterator[tuple[str, str, list, Any]]:
    """Setting, kernel, [(label, method, arguments of the model)] and the pairs of tables."""
    for name, (formula, family, kernels, pairs) in SETTINGS.items():
        if (only and name != only) or (name == "microwave background" and not os.environ.get("NRMMIX_DATA_DIR")):
            continue
        for kernel_name, kernel in kernels.items():
            if (not of_kernel or kernel_name == of_kernel) and not (paper and kernel_name == "widths of atoms"):
                yield name, kernel_name, [
                    (method + label, method, {"formula": formula, "family": family, "kernel": kernel, "prior": prior})
                    for label, prior, methods in (OF_PAPER if paper else PRIORS) for method in methods
                ], pairs


def run(
    splits: int, sweeps: int, only: str | None = None, of_kernel: str | None = None, paper: bool = False, path: str | None = None
) -> None:
    print(f"means over {splits} splits, {sweeps:,} sweeps after {sweeps // 4:,}; ESS a CPU second")
    rows, curves = [], []
    for name, kernel_name, cases, pairs in models(only, of_kernel, paper):
        print(f"\n{name}, {kernel_name}\n  {'':<22}{'score':>7}{'of logs':>9}{'K':>7}{'tau K':>8}{'tau joint':>11}{'s/100':>8}"
              f"{'ESS K':>8}{'ESS score':>11}")
        for label, method, model in cases:
            found = []
            for seed, (train, test) in zip(range(splits), pairs(), strict=False):
                fit, seconds = fitted(nm.Model(data=train, **model), method, sweeps, seed)
                found.append(measure(fit, seconds, test))
                if path is not None and seed == 0 and name == "microwave background":
                    curves.append({"kernel": kernel_name, "sampler": label, **bands(fit)})
                rows.append({
                    "data": name, "kernel": kernel_name, "sampler": label, "split": seed, **dict(zip(COLUMNS, found[-1], strict=True)),
                    "true_score": test.attrs.get("true score"),
                })
            a, b, c, d, e, f, g, h, _ = np.mean(found, axis=0)
            print(f"  {label:<22}{a:7.2f}{b:9.2f}{c:7.1f}{d:8.0f}{e:11.0f}{f:8.3f}{g:8.1f}{h:11.1f}", flush=True)
        if (name, kernel_name) in PAPER:
            print(f"  the paper: {PAPER[name, kernel_name]}")
    print(f"\nautocorrelation time of 5,000 independent draws that are not centred: {uncentred():,.0f}")
    if path is not None:
        settings = {"splits": splits, "sweeps": sweeps, "tune": sweeps // 4, "atoms": COMPONENTS, "paper": paper}
        results = {"runs": rows, "uncentred": [{"draws": 5000, "tau": uncentred()}], **({"bands": curves} if curves else {})}
        record.write(path, "kernel_samplers", settings, results)


def agreement(sweeps: int, only: str | None, of_kernel: str | None, path: str | None = None) -> None:
    rows = []
    print(f"{CHAINS} chains, {sweeps:,} sweeps; posterior mean (Monte Carlo error), and the difference from Gibbs on that prior in errors")
    for name, kernel_name, cases, pairs in models(only, of_kernel):
        train, test = next(iter(pairs()))
        print(f"\n{name}, {kernel_name}\n  {'':<22}{'K':>22}{'mass':>22}{'held-out log density':>24}")
        for label, method, model in cases:
            found = means(nm.Model(data=train, **model), test, method, sweeps)
            if method == "gibbs":
                reference = found
            apart = [abs(a - c) / math.hypot(b, d) for (a, b), (c, d) in zip(found, reference, strict=True)]
            told = "".join(f"{f'{a:.3f} ({b:.3f}) {z:.1f}':>{w}}" for (a, b), z, w in zip(found, apart, (22, 22, 24), strict=True))
            print(f"  {label:<22}{told}", flush=True)
            rows.append({
                "data": name, "kernel": kernel_name, "sampler": label, "quantity": OF_AGREEMENT, "mean": [a for a, _ in found],
                "error": [b for _, b in found], "apart": apart,
            })
    if path is not None:
        record.write(path, "kernel_samplers", {"agreement": True, "chains": CHAINS, "sweeps": sweeps}, {"agreement": rows})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--sweeps", type=int)
    parser.add_argument("--only", choices=tuple(SETTINGS))
    parser.add_argument("--kernel", choices=("box", "SE", "widths of atoms"))
    parser.add_argument("--agreement", action="store_true")
    parser.add_argument("--paper", action="store_true", help="only the samplers and kernels of the paper, and Gibbs")
    record.option(parser)
    chosen = parser.parse_args()
    if chosen.agreement:
        agreement(chosen.sweeps or 20_000, chosen.only, chosen.kernel, chosen.json)
    else:
        run(chosen.splits, chosen.sweeps or 4000, chosen.only, chosen.kernel, chosen.paper, chosen.json)
