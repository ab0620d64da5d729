"""Chains in threads: turns, progress, interrupts, and status codes turned into exceptions."""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nrmmix.common.compiling import announced
from nrmmix.common.interrupts import interrupts_delayed
from nrmmix.common.messages import count, seconds
from nrmmix.common.progress import Progress
from nrmmix.common.seeds import seed_sequence
from nrmmix.common.warnings import warn
from nrmmix.inference.mcmc.chain import Chain, Checkpoint, Record, new_chain, resumed_chain
from nrmmix.inference.mcmc.cycle import Cycle, update_addresses
from nrmmix.inference.mcmc.moves.gibbs import Gibbs
from nrmmix.inference.mcmc.start import initial_labels
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.moves.gibbs import allocate
from nrmmix.model.specification import Specification
from nrmmix.posterior.draws import Draws

MOST = 10**15  # iterations of a chain: more take years, and counts must fit 64 bits
TURNS = 40  # of the chains within a run, the first ones short: every chain soon has draws


@dataclass
class Run:
    """What sampling gives back."""

    draws: Draws
    method: str
    tune: int
    thin: int
    seed: int
    seconds: float  # wall clock of sampling, compilation left out
    label_changes: float  # label changes for each observation and iteration
    interrupted: bool
    checkpoints: tuple[Checkpoint, ...] = ()  # of the chains at the end
    cycle: Cycle = field(default_factory=lambda: Cycle((Gibbs(),)))


def sample(
    model: Specification, cycle: Cycle, name: str, *, draws: int, tune: int, thin: int, chains: int, init: Any, rng: Any, cores: int | None,
    progress: bool | None, time_limit: float | None,
) -> Run:
    """Run the chains of a model by a cycle of moves under its name; see `nrmmix.Model.fit`."""
    draws, tune = count("draws", draws, 1), count("tune", tune, 0)
    thin, chains = count("thin", thin, 1), count("chains", chains, 1)
    limits = _limits(chains, cores, time_limit)
    cycle.check(model, tune, has_name=name != cycle.name)
    seeds = seed_sequence(rng)
    if tune + draws * thin > MOST:
        raise ValueError(f"tune + draws * thin would be {tune + draws * thin:.0e} iterations of each chain; at most {MOST:.0e} can be run.")
    with announced(), interrupts_delayed():  # kernels must not be loaded halfway
        record = _record(model, chains, draws)
        starts = initial_labels(init, model.n_obs, chains)
        runs = [
            new_chain(model, cycle, labels, np.random.default_rng(seed), record.part(c))
            for c, (labels, seed) in enumerate(zip(starts, seeds.spawn(chains), strict=True))
        ]
        updates = _compiled(model, cycle)
    elapsed, stopped = _drive(runs, updates, tune, thin, draws, progress, *limits)
    done = _recorded(model, runs, tune, thin, draws, stopped)
    if max(done) == 0:
        if stopped == "time limit":
            raise TimeoutError("time_limit was over before the first draw was recorded; give more seconds, or less tune.")
        raise KeyboardInterrupt("stopped before the first draw was recorded")
    if min(done) == 0:
        missing = [number for number, recorded in enumerate(done) if recorded == 0]
        warn(f"stopped before chains {missing} had recorded a draw; they are left out")
        record = record.part([number for number, recorded in enumerate(done) if recorded])
        runs = [run for run, recorded in zip(runs, done, strict=True) if recorded]
        done = [recorded for recorded in done if recorded]
    kept = min(done)
    return Run(
        Draws(_named(model, record.part(np.s_[:, :kept]))), name, tune, thin, int(seeds.entropy), elapsed,
        _label_changes(model, runs), bool(stopped), _checkpoints(runs, record, kept, done), cycle,
    )


def extend(model: Specification, fit: Run, draws: int, *, cores: int | None, progress: bool | None, time_limit: float | None) -> Run:
    """Go on with the chains of a run; see `nrmmix.MCMCResult.extend`."""
    thin, before = fit.thin, fit.draws.n_draws
    draws, chains = count("draws", draws, 1), fit.draws.n_chains
    limits = _limits(chains, cores, time_limit)
    # draws that some chains have recorded already come first
    record = _record(model, chains, max([draws, *(len(checkpoint.ahead.labels) for checkpoint in fit.checkpoints)]))
    tune = fit.tune + before * thin
    with announced(), interrupts_delayed():
        runs = [resumed_chain(model, fit.cycle, checkpoint, record.part(c)) for c, checkpoint in enumerate(fit.checkpoints)]
        updates = _compiled(model, fit.cycle)
    elapsed, stopped = _drive(runs, updates, tune, thin, draws, progress, *limits)
    done = _recorded(model, runs, tune, thin, draws, stopped)
    kept = min(*done, draws)
    new = _named(model, record.part(np.s_[:, :kept]))
    joined = {name: np.concatenate(_alike(fit.draws[name], values), axis=1) for name, values in new.items()}
    return Run(
        Draws(joined), fit.method, fit.tune, thin, fit.seed, fit.seconds + elapsed, _label_changes(model, runs), bool(stopped),
        _checkpoints(runs, record, kept, done), fit.cycle,
    )


def _alike(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """Arrays of draws that may have parameters of different numbers of clusters, with NaN for those that are not there."""
    if a.ndim < 4 or a.shape[2] == b.shape[2]:
        return [a, b]
    size = max(a.shape[2], b.shape[2])
    return [np.pad(x, ((0, 0), (0, 0), (0, size - x.shape[2]), (0, 0)), constant_values=np.nan) for x in (a, b)]


def _limits(chains: int, cores: Any, time_limit: Any) -> tuple[int, float | None]:
    """Checked number of threads and seconds."""
    return min(chains, os.cpu_count() or 1) if cores is None else count("cores", cores, 1), seconds("time_limit", time_limit)


def _record(model: Specification, chains: int, draws: int) -> Record:
    """Room for the draws, if this machine has it: pages are taken only as they are written, too late to complain."""
    each = sum(array.nbytes for array in Record.room(model, 1, 1))
    needed, memory = chains * draws * each, _memory()
    if needed > memory:
        raise ValueError(
            f"draws={draws} of {chains} chains would take {needed / 1e9:.1f} GB, and this machine has {memory / 1e9:.1f} GB; "
            f"take fewer draws, with thin= to spread them over as many iterations."
        )
    return Record.room(model, chains, draws)


def _memory() -> float:
    """Bytes of memory of this machine; where the system does not say, what an array may have at most."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return float(sys.maxsize)


def _compiled(model: Specification, cycle: Cycle) -> np.ndarray:
    """Addresses of the updates.  All that a chain calls is compiled, or loaded, in this thread and before the clock starts."""
    updates = update_addresses(model)
    nobody = np.full(model.n_obs, -1, np.int64)
    chain = new_chain(model, cycle, nobody, np.random.default_rng(0), Record.room(model, 1, 1).part(0))
    chain.order = chain.order[:0]
    chain.control[loop.STOP] = 1  # a run of no iterations
    allocate(chain.data, chain.state, chain.order, len(chain.order), chain.rng)
    chain.run(updates, 0, 1)
    return updates


def _drive(
    runs: list[Chain], updates: np.ndarray, tune: int, thin: int, draws: int, progress: bool | None, cores: int, time_limit: float | None
) -> tuple[float, str]:
    """Run all chains, in turns, so that none is far behind when they are stopped.

    Seconds, and why they were stopped: "", "interrupt" or "time limit".
    """
    began, end = min(run.iteration for run in runs), tune + thin * draws
    started = time.perf_counter()
    deadline = None if time_limit is None else started + time_limit
    stopped = ""
    with ThreadPoolExecutor(cores) as pool, Progress(progress) as line:
        for turn in range(1, TURNS + 1):
            for run in runs:
                run.control[loop.LIMIT] = began + (end - began) * turn**2 // TURNS**2
            pending: set[Future[None]] = {pool.submit(run.run, updates, tune, thin) for run in runs}
            futures = set(pending)
            while pending:
                reason = ""
                try:
                    _, pending = wait(pending, timeout=0.1, return_when=FIRST_COMPLETED)
                    share = sum(run.iteration - began for run in runs) / max(len(runs) * (end - began), 1)
                    line.update(f"{len(runs)} chains: {share:4.0%}", share)
                    if deadline is not None and time.perf_counter() > deadline:
                        reason = "time limit"
                except KeyboardInterrupt:
                    reason = "interrupt"
                if reason and not stopped:
                    stopped = reason
                    for run in runs:
                        run.control[loop.STOP] = 1
            for future in futures:
                future.result()
            if stopped or any(run.control[loop.STATUS] for run in runs):
                break
    return time.perf_counter() - started, "" if all(run.iteration >= end for run in runs) else stopped


def _recorded(model: Specification, runs: list[Chain], tune: int, thin: int, draws: int, stopped: str) -> list[int]:
    """Draws that each chain has recorded; an exception where one broke."""
    for number, run in enumerate(runs):
        if run.control[loop.STATUS] == layout.BROKEN:
            row = int(run.state.num[layout.BAD_ROW])
            where = f"chain {number}, iteration {run.iteration}: row {model.frame.index[row]!r}"
            if model.is_regression and (run.state.labels < 0).any() and run.state.num[layout.N_CLUSTERS] == model.prior.components > 0:
                raise ValueError(
                    f"{where} entered when all {model.prior.components} components of {model.prior} were in use, and none reaches it "
                    f"through {model.kernel}; take more components, a wider kernel, or give starting labels as init=."
                )
            raise FloatingPointError(f"{where} has no finite score in any cluster; rescale the data or widen the prior.")
        if run.control[loop.STATUS] != 0 or (not stopped and run.iteration < tune + draws * thin):
            raise RuntimeError(
                f"chain {number} broke off at iteration {run.iteration}: a move failed with status "
                f"{int(run.control[loop.STATUS])}; the message above, if any, says where."
            )
    return [max(run.iteration - tune, 0) // thin for run in runs]


def _label_changes(model: Specification, runs: list[Chain]) -> float:
    """Label changes for each observation and iteration, since the start."""
    return sum(int(run.state.num[layout.N_MOVED]) for run in runs) / max(sum(run.iteration for run in runs) * model.n_obs, 1)


def _checkpoints(runs: list[Chain], record: Record, kept: int, done: list[int]) -> tuple[Checkpoint, ...]:
    return tuple(
        run.checkpoint(Record(*(array[c, kept:recorded].copy() for array in record)))
        for c, (run, recorded) in enumerate(zip(runs, done, strict=True))
    )


def _named(model: Specification, record: Record) -> dict[str, np.ndarray]:
    """Arrays (chain, draw, ...) by the names of `Draws`."""
    scalars = record.scalars
    values = {
        "n_clusters": scalars[..., loop.R_CLUSTERS].astype(np.int64), "log_joint": scalars[..., loop.R_JOINT],
        "mass": scalars[..., loop.R_MASS], "sigma": scalars[..., loop.R_SIGMA],
    }
    for name, j in model.width_columns.items():
        values[name] = scalars[..., loop.R_WIDTH + j]
    if model.is_regression:
        values["A"] = record.A
    elif model.has_u:
        values["u"] = record.A[..., 0]
    values["labels"] = record.labels
    if model.is_regression:
        values["locations"] = record.location if record.location.shape[-1] else np.zeros_like(record.labels)
    if record.explicit.shape[-1]:
        K = values["n_clusters"]
        values["theta"] = np.where(np.arange(K.max()) < K[..., None], 0.0, np.nan)[..., None] + record.explicit[:, :, : K.max()]
    if record.shared.shape[-1]:
        values["precision"] = record.shared
    if record.imputed.shape[-1]:
        values["imputed"] = model.blocks.in_units(record.imputed, model.packed)
    return values
