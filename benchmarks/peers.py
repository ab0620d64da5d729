"""Other packages on the same data with the same priors: exactness, mixing and held-out densities, bounds.

    python -m benchmarks.peers [--pyrichlet PYTHON] [--bnpy PYTHON] [--seeds 3] [--json FILE.json]

PYTHON is an interpreter that has the package: each peer runs in its own environment, as it wants other versions of numpy.  Without one its
part is left out.  `python3 -m venv A && A/bin/pip install pyrichlet` makes the first.  bnpy 0.1.7 is of 2022: it needs Python 3.11 at most,
numpy 1.23, scipy 1.10, Cython 0.29 to build, its shipped C files removed, and `inspect.getargspec`, which Python has given up and which is
put back here.

exact: six rows, DP(1): how often samplers have each number of clusters, beside the posterior by enumeration of the 203 partitions.
faithful: two columns, DP(1), nine of ten rows: effective draws of the number of clusters a CPU second, and the mean log predictive density
of the others.
edges: patches of 5 x 5 pixels of 8 components, births and merges from one component on: components, bound, CPU seconds.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp

import nrmmix as nm
from benchmarks import record
from nrmmix.posterior.diagnostics import ess

MIXTURE = """
import sys, time
from importlib.metadata import version
import numpy as np
from pyrichlet import mixture_models

told = np.load(sys.argv[1])
X, new, iterations, burn = told["X"], told["new"], int(told["iterations"]), int(told["burn"])
K, seconds, log_p = [], [], []
for chain in range(int(told["chains"])):
    mixture = mixture_models.DirichletProcessMixture(
        alpha=1.0, mu_prior=told["m"], lambda_prior=float(told["r"]), psi_prior=told["psi"], nu_prior=float(told["nu"]),
        total_iter=iterations, burn_in=burn, rng=int(told["seed"]) * 100 + chain,
    )
    began = time.process_time()
    mixture.fit_gibbs(X)
    seconds.append(time.process_time() - began)
    K.append(mixture.n_groups[-(iterations - burn):])
    if len(new):
        log_p.append(np.log(mixture.gibbs_eap_density(new)))
np.savez(sys.argv[2], K=K, seconds=seconds, log_p=log_p, version=version("pyrichlet"))
"""

MEMOIZED = """
import inspect, os, sys, time
inspect.getargspec = lambda function: tuple(inspect.getfullargspec(function)[:4])  # Python 3.11 has it no more
os.environ["BNPYOUTDIR"], os.environ["MPLBACKEND"] = os.path.dirname(sys.argv[2]), "Agg"
from importlib.metadata import version
import numpy as np
import bnpy

told = np.load(sys.argv[1])
began = time.process_time()
model, info = bnpy.run(
    bnpy.data.XData(told["X"]), "DPMixtureModel", "ZeroMeanGauss", "memoVB", K=1, nLap=100, nBatch=20, moves="birth,merge,shuffle",
    ECovMat="eye", sF=1.0, nu=int(told["nu"]), gamma0=1.0, taskid=int(told["seed"]), printEvery=1000,
)
seconds = time.process_time() - began
np.savez(sys.argv[2], K=model.allocModel.K, elbo=-info["loss"] * told["X"].size, seconds=seconds, version=version("bnpy"))
"""


def by_peer(python: str, script: str, **told: Any) -> dict[str, np.ndarray]:
    """What a script of a peer has saved, given arrays, run by the interpreter that has it."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(given, **told)
        done = subprocess.run([python, "-c", script, str(given), str(found)], capture_output=True, text=True, check=False)
        if done.returncode or not found.is_file():
            raise SystemExit(f"{python} could not run the peer:\n{done.stderr[-2000:]}")
        with np.load(found) as kept:
            return dict(kept)


def shares(K: np.ndarray, n: int) -> np.ndarray:
    return np.bincount(K.ravel(), minlength=n + 1)[1:] / K.size


def explained(chains: np.ndarray, n: int) -> float:
    """Distance of shares from the posterior that the spread of the chains explains: its mean and three standard deviations, roughly."""
    each = np.array([shares(one, n) for one in chains])
    return float(1.5 * (each.std(axis=0, ddof=1) / np.sqrt(len(each))).sum())


def exact(python: str, iterations: int = 6_000, chains: int = 8) -> list[dict[str, Any]]:
    six = np.array([[-2.1, 0.3], [-1.7, -0.4], [-0.2, 0.9], [0.1, -1.1], [1.6, 0.2], [2.4, 1.3]])
    n, d = six.shape
    prior = {"m": np.zeros(d), "r": 0.2, "nu": d + 2.0, "psi": np.eye(d)}
    model = nm.Model(data=six, prior=nm.DirichletProcess(1.0), family=nm.Gaussian(m=prior["m"], r=0.2, nu=d + 2.0, scale=np.eye(d)))
    states = [s for s in itertools.product(range(n), repeat=n) if all(k <= max(s[:i], default=-1) + 1 for i, k in enumerate(s))]
    log_p = np.array([model.log_joint(s) for s in states])
    posterior = np.bincount([max(s) + 1 for s in states], np.exp(log_p - logsumexp(log_p)), minlength=n + 1)[1:]
    found = by_peer(python, MIXTURE, X=six, new=np.empty((0, d)), iterations=iterations + 500, burn=500, chains=chains, seed=1, **prior)
    drawn = {f"pyrichlet {found['version']}": found["K"].astype(np.int64)}
    for method in ("gibbs", "slice", "tree"):
        fit = model.fit(method, draws=iterations, tune=500, chains=chains, rng=1)
        drawn[f"nrmmix, {method}"] = fit.draws["n_clusters"]
    rows: list[dict[str, Any]] = [{"sampler": "posterior", "shares": posterior, "distance": None, "explained": None}]
    for name, K in drawn.items():
        share = shares(K, n)
        rows.append({
            "sampler": name, "shares": share, "distance": float(np.abs(share - posterior).sum() / 2), "explained": explained(K, n),
        })
    return rows


def faithful(python: str, seeds: int, iterations: int = 2_000, chains: int = 2) -> list[dict[str, Any]]:
    X = nm.datasets.load_faithful().to_numpy()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    d, rows = X.shape[1], list[dict[str, Any]]()
    prior = {"m": np.zeros(d), "r": 0.1, "nu": d + 2.0, "psi": 0.2 * np.eye(d)}
    for seed in range(1, seeds + 1):
        held = np.random.default_rng(seed).random(len(X)) < 0.1
        found = by_peer(
            python, MIXTURE, X=X[~held], new=X[held], iterations=iterations + 200, burn=200, chains=chains, seed=seed, **prior
        )
        model = nm.Model(
            data=X[~held], prior=nm.DirichletProcess(1.0), family=nm.Gaussian(m=np.zeros(d), r=0.1, nu=d + 2.0, scale=0.2 * np.eye(d))
        )
        rows.append({
            "sampler": f"pyrichlet {found['version']}", "seed": seed, "clusters": found["K"].mean(), "CPU s": found["seconds"].sum(),
            "ess a second": float(ess(found["K"].astype(float))) / found["seconds"].sum(),
            "held out": float(logsumexp(found["log_p"], axis=0).mean() - np.log(chains)),
        })
        for method in ("gibbs", "slice", "tree"):
            model.fit(method, draws=5, tune=5, chains=1, cores=1, rng=1)  # compiles
            began = time.process_time()
            fit = model.fit(method, draws=iterations, tune=200, chains=chains, cores=1, rng=seed)
            seconds = time.process_time() - began
            rows.append({
                "sampler": f"nrmmix, {method}", "seed": seed, "clusters": fit.draws["n_clusters"].mean(), "CPU s": seconds,
                "ess a second": float(ess(fit.draws["n_clusters"].astype(float))) / seconds,
                "held out": float(np.mean(fit.log_density(X[held]))),
            })
    return rows


def edges(python: str, seeds: int, n: int = 100_000) -> list[dict[str, Any]]:
    X, _, _ = nm.datasets.simulate_edge_patches(n, rng=1)
    d, rows = X.shape[1], list[dict[str, Any]]()
    model = nm.Model(data=X, family=nm.Gaussian(known_mean=0.0, nu=d + 2.0, scale=np.eye(d)), prior=nm.DirichletProcess(1.0))
    nm.fit(data=X[:200], family=nm.Gaussian(known_mean=0.0), method=nm.MemoizedVB(), rng=1)  # compiles
    for seed in range(1, seeds + 1):
        found = by_peer(python, MEMOIZED, X=X, nu=d + 2, seed=seed)
        rows.append({
            "method": f"bnpy {found['version']}", "seed": seed, "components": int(found["K"]), "bound": float(found["elbo"]),
            "CPU s": float(found["seconds"]),
        })
        began = time.process_time()
        fit = model.fit(nm.MemoizedVB(), rng=seed)
        rows.append({
            "method": "nrmmix", "seed": seed, "components": fit.n_components, "bound": fit.elbo, "CPU s": time.process_time() - began,
        })
    return rows


def run(pyrichlet: str | None, bnpy: str | None, seeds: int, json: str | None = None) -> None:
    results = dict[str, list[dict[str, Any]]]()
    if pyrichlet:
        results["exact"] = exact(pyrichlet)
        results["faithful"] = faithful(pyrichlet, seeds)
    if bnpy:
        results["edges"] = edges(bnpy, seeds)
    for name, rows in results.items():
        print(name)
        for row in rows:
            print("  ", {key: np.round(value, 4) if isinstance(value, (float, np.ndarray)) else value for key, value in row.items()})
    if json:
        record.write(json, "peers", {"seeds": seeds}, results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pyrichlet", metavar="PYTHON", help="interpreter that has pyrichlet")
    parser.add_argument("--bnpy", metavar="PYTHON", help="interpreter that has bnpy")
    parser.add_argument("--seeds", type=int, default=3)
    record.option(parser)
    options = parser.parse_args()
    run(options.pyrichlet, options.bnpy, options.seeds, options.json)


if __name__ == "__main__":
    main()
