"""A Gibbs sweep against its floor, from the true partition."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

import numpy as np

import nrmmix as nm
from benchmarks.floor import frozen_sweep
from nrmmix.inference.mcmc.chain import Record, new_chain
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.methods import CYCLES
from nrmmix.kernels import chain as loop


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The published data where the files are there, else simulated twins."""
    folder = os.environ.get("NRMMIX_DATA_DIR")
    if folder and (Path(folder) / "tgmcmc_toy_1300x2.npz").exists():
        out = {}
        for name, file in (("toy 1,300 x 2", "tgmcmc_toy_1300x2.npz"), ("10,000 x 6", "tgmcmc_10k_10000x6.npz")):
            with np.load(Path(folder) / file) as z:
                out[name] = z["X"], z["labels"]
        return out
    X, labels = nm.datasets.simulate_toy(rng=1)
    Y, truth, _ = nm.datasets.simulate_mixture(10_000, dim=6, n_clusters=119, rng=1)
    return {"simulated toy 1,300 x 2": (X, labels), "simulated 10,000 x 6": (Y, truth)}


def run() -> None:
    print("Gibbs sweep against the floor (score and sample all n x K pairs, statistics frozen); target: ratio at most 2.0")
    for name, (X, labels) in data_sets().items():
        model = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=nm.lee_choi_base(X))
        start = np.unique(labels, return_inverse=True)[1]
        sweeps = max(4, 400_000 // len(X))
        chain = new_chain(model, CYCLES["gibbs"], start, np.random.default_rng(1), Record.allocate(model, sweeps))
        updates = update_addresses(model)
        chain.run(updates, 0, 1)
        frozen_sweep(chain.data, chain.state, chain.rng)
        ours, floor, pairs = [], [], 0
        for _ in range(7):
            chain.control[: loop.LIMIT] = 0  # again from iteration 0
            t = time.process_time()
            chain.run(updates, 0, 1)
            ours.append((time.process_time() - t) / sweeps)
            pairs = len(X) * int(chain.record.scalars[-1, loop.R_CLUSTERS])
            t = time.process_time()
            for _ in range(sweeps):
                frozen_sweep(chain.data, chain.state, chain.rng)
            floor.append((time.process_time() - t) / sweeps)
        a, b = median(ours), median(floor)
        ratio = median(x / y for x, y in zip(ours, floor, strict=True))
        print(f"  {name:<26} ours {a * 1e3:8.3f} ms   floor {b * 1e3:8.3f} ms ({b * 1e9 / pairs:.1f} ns a pair)   ratio {ratio:.2f}")


if __name__ == "__main__":
    run()
