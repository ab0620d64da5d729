"""Slice sampler against collapsed Gibbs: effective samples of the number of clusters per CPU second on the galaxy velocities."""

from __future__ import annotations

import time
from statistics import median
from typing import NamedTuple

import numpy as np

import nrmmix as nm
from nrmmix.inference.mcmc.chain import Record, new_chain
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.methods import CYCLES
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core import state as layout
from nrmmix.posterior import diagnostics

PRIORS = {
    "DP(1)": nm.DirichletProcess(1.0),
    "NGGP(1, 0.25)": nm.NGGP(1.0, 0.25),
    "NGGP(0.5, 0.5)": nm.NGGP(0.5, 0.5),
    "PY(1, 0.25)": nm.PitmanYor(1.0, 0.25),
}
TUNE, SEEDS = 1000, 5


class Outcome(NamedTuple):
    """Of several seeds."""

    mean: float  # of K
    sweep: float  # median seconds
    rate: float  # median effective samples of K a second
    skipped: float  # share of the calls


def measure(model: nm.Model, method: str, draws: int) -> Outcome:
    updates = update_addresses(model)
    means, sweeps, rates, skipped = [], [], [], 0.0
    for seed in range(SEEDS):
        record = Record.allocate(model, draws)
        chain = new_chain(model, CYCLES[method], np.zeros(model.n_obs, np.int64), np.random.default_rng(seed), record)
        chain.run(updates, TUNE, 1)
        chain.program.tally[:] = 0.0
        chain.control[: loop.LIMIT] = 0  # again from iteration 0
        t = time.process_time()
        chain.run(updates, 0, 1)
        seconds = time.process_time() - t
        K = chain.record.scalars[:, loop.R_CLUSTERS]
        means.append(K.mean())
        sweeps.append(seconds / draws)
        rates.append(diagnostics.ess(K[None], kind="raw") / seconds)
        skipped += chain.program.tally[0, layout.SKIPPED] / (draws * SEEDS)
    return Outcome(float(np.mean(means)), median(sweeps), median(rates), skipped)


def run(draws: int = 20_000) -> None:
    print(f"Galaxy velocities / 1000, Gaussian(20, 0.01, 4, 2), {draws:,} draws, medians of {SEEDS} seeds")
    print("                    mean K           sweep, ms         ESS of K a CPU second     slice calls")
    print("  prior             gibbs   slice    gibbs   slice     gibbs    slice   ratio    skipped")
    X = nm.datasets.load_galaxy()[["velocity_km_s"]].to_numpy() / 1000
    family = nm.Gaussian(m=20, r=0.01, nu=4, scale=2)
    for name, prior in PRIORS.items():
        model = nm.Model(data=X, prior=prior, family=family)
        a, b = measure(model, "gibbs", draws), measure(model, "slice", draws)
        print(f"  {name:<16}{a.mean:7.2f} {b.mean:7.2f}  {a.sweep * 1e3:7.4f} {b.sweep * 1e3:7.4f}  {a.rate:8,.0f} {b.rate:8,.0f}  "
              f"{b.rate / a.rate:6.3f}    {b.skipped:7.2%}")


if __name__ == "__main__":
    run()
