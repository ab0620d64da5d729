"""Chains in threads: starts, progress, interrupts, and status codes turned into exceptions."""

from __future__ import annotations

import operator
import os
import sys
import time
import warnings
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from nrmmix import arrays
from nrmmix.compiling import announced
from nrmmix.draws import Draws
from nrmmix.kernels import chain as loop
from nrmmix.kernels import state as layout
from nrmmix.kernels.gibbs import allocate
from nrmmix.moves import entry_addresses, moves_of
from nrmmix.partition import canonical

if TYPE_CHECKING:
    from nrmmix.model import Model

TURNS = 20  # of the chains, within a run
TOO_FAR = 1e100  # squares must not overflow
INITS = ("sequential", "one", "each")


@dataclass
class Run:
    """What sampling gives back."""

    draws: Draws
    method: str
    tune: int
    thin: int
    seed: int
    seconds: float  # wall clock of sampling, compilation left out
    moved: float  # share of label updates that changed a label
    interrupted: bool


@dataclass
class Chain:
    """One chain: its arrays, and the control array shared with the main thread."""

    data: layout.Data
    state: layout.State
    rng: np.random.Generator
    order: np.ndarray  # observations that enter one by one at the start; empty for other starts
    labels: np.ndarray
    location: np.ndarray
    v: np.ndarray
    scalars: np.ndarray
    control: np.ndarray

    def run(self, moves: np.ndarray, updates: np.ndarray, tune: int, thin: int) -> None:
        while len(self.order) and not self.control[loop.STOP]:
            status = allocate(self.data, self.state, self.order, self.rng)
            if status != layout.NEED_ROOM:
                self.control[loop.STATUS] = 0 if status == layout.DONE else status
                self.order = self.order[:0]
                break
            self.state = layout.enlarged(self.state)
        while not self.control[loop.STATUS]:
            loop.run(
                self.data, self.state, self.rng, moves, updates, tune, thin, self.labels, self.location, self.v, self.scalars,
                self.control,
            )
            if self.control[loop.STATUS] != layout.NEED_ROOM:
                break
            self.control[loop.STATUS] = 0
            self.state = layout.enlarged(self.state)


def seed_sequence(rng: Any) -> np.random.SeedSequence:
    """A seed sequence of one's own from an int, SeedSequence, Generator or None.

    Raises
    ------
    ValueError
        If rng is none of these.
    """
    if rng is None:
        return np.random.SeedSequence()
    if isinstance(rng, np.random.SeedSequence):  # reduced to one integer: spawning would change the caller's
        return np.random.SeedSequence(int.from_bytes(rng.generate_state(4).tobytes(), "little"))
    if isinstance(rng, np.random.Generator):
        return np.random.SeedSequence(int.from_bytes(rng.bytes(16), "little"))
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0:
        return np.random.SeedSequence(int(rng))
    raise ValueError(f"rng must be a non-negative int, a SeedSequence, a Generator or None, not {rng!r}.")


def count(name: str, value: Any, least: int) -> int:
    """A checked integer argument."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or number < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r}.")
    return number


def initial_labels(init: Any, n: int, chains: int) -> np.ndarray:
    """Labels (chains, n) of the starts; -1 for observations that enter one by one."""
    if isinstance(init, str):
        if init not in INITS:
            raise ValueError(f"init must be one of {', '.join(map(repr, INITS))} or labels, not {init!r}.")
        first = {"sequential": np.full(n, -1), "one": np.zeros(n, int), "each": np.arange(n)}[init]
        return np.tile(first.astype(np.int64), (chains, 1))
    given = np.asarray(init)
    if given.ndim == 2 and given.shape[0] != chains:
        raise ValueError(f"init has labels for {given.shape[0]} chains but chains={chains}.")
    each = given if given.ndim == 2 else np.broadcast_to(given, (chains, *given.shape))
    return np.stack([canonical(arrays.labels(row, n, what="init"))[0] for row in each])


def check_start(model: Model, data: layout.Data, labels: np.ndarray, width: np.ndarray) -> None:
    """Each starting cluster must have a location that reaches all its members."""
    n_clusters = int(labels.max(initial=-1)) + 1
    if not model.is_regression or n_clusters == 0:
        return
    log_K = model.kernel.log_kernel(data.distance, width)
    total = np.zeros((n_clusters, log_K.shape[1]))
    np.add.at(total, labels[labels >= 0], log_K[data.group[labels >= 0]])
    if not np.isfinite(total.max(axis=1)).all():
        cluster = int(np.flatnonzero(~np.isfinite(total.max(axis=1)))[0])
        raise ValueError(
            f"init puts observations into cluster {cluster} that no location of {model.kernel} reaches together; "
            'use init="sequential" or "each".'
        )


def new_chain(model: Model, labels: np.ndarray, rng: np.random.Generator, draws: int) -> Chain:
    n = model.n_obs
    n_clusters = int(labels.max(initial=-1)) + 1
    data, state = model.arrays(max(n_clusters, 8))
    G, P = data.distance.shape[1:]
    far = np.abs(model.packed.y).max(axis=1) > TOO_FAR
    if far.any():
        row = int(np.flatnonzero(far)[0])
        raise ValueError(
            f"row {model.frame.index[row]!r} lies more than {TOO_FAR:g} prior standard deviations out; correct it, or rescale."
        )
    check_start(model, data, labels, state.hyper[layout.WIDTH :])
    loop.start(data, state, labels)
    if not np.isfinite(data.alone).all():
        row = int(np.flatnonzero(~np.isfinite(data.alone))[0])
        raise ValueError(f"row {model.frame.index[row]!r} has no finite density under the prior; check its values and the prior.")
    keeps_v = data.setup[layout.JOINT_WITH_V]
    control = np.zeros(loop.CONTROL, np.int64)
    control[loop.LIMIT] = np.iinfo(np.int64).max
    return Chain(
        data=data,
        state=state,
        rng=rng,
        order=rng.permutation(np.flatnonzero(labels < 0)).astype(np.int64),
        labels=np.zeros((draws, n), np.int32),
        location=np.zeros((draws, n if P > 1 else 0), np.int32),
        v=np.zeros((draws, G if keeps_v else 0)),
        scalars=np.zeros((draws, loop.R_WIDTH + len(model.widths))),
        control=control,
    )


class Progress:
    """A line on stderr, redrawn a few times a second."""

    def __init__(self, show: bool | None, total: int, n_chains: int):
        self.show = sys.stderr.isatty() if show is None else bool(show)
        self.total, self.n_chains = total, n_chains
        self.started = time.perf_counter()

    def update(self, done: int) -> None:
        if not self.show:
            return
        share = done / max(self.total, 1)
        elapsed = time.perf_counter() - self.started
        left = f", {elapsed * (1 - share) / share:.0f} s left" if 0 < share < 1 else ""
        sys.stderr.write(f"\r{self.n_chains} chains: {share:4.0%}, {elapsed:.0f} s{left}      ")
        sys.stderr.flush()

    def close(self) -> None:
        if self.show:
            sys.stderr.write("\n")


def sample(
    model: Model,
    method: Any,
    *,
    draws: int,
    tune: int,
    thin: int,
    chains: int,
    init: Any,
    rng: Any,
    cores: int | None,
    progress: bool | None,
    time_limit: float | None,
) -> Run:
    """Run the chains of a model; see `Model.fit`."""
    moves = moves_of(method)
    draws, tune = count("draws", draws, 1), count("tune", tune, 0)
    thin, chains = count("thin", thin, 1), count("chains", chains, 1)
    cores = min(chains, os.cpu_count() or 1) if cores is None else count("cores", cores, 1)
    if time_limit is not None and not (isinstance(time_limit, Real) and time_limit > 0):
        raise ValueError(f"time_limit must be greater than 0 seconds, not {time_limit!r}.")
    seeds = seed_sequence(rng)
    starts = initial_labels(init, model.n_obs, chains)
    with announced():
        addresses, updates = entry_addresses(moves, model)
        runs = [
            new_chain(model, labels, np.random.default_rng(seed), draws)
            for labels, seed in zip(starts, seeds.spawn(chains), strict=True)
        ]
        _compile(model, addresses, updates)
    started = time.perf_counter()
    stopped = _drive(runs, addresses, updates, tune, thin, cores, progress, time_limit)
    seconds = time.perf_counter() - started
    kept = _recorded(model, runs, tune, thin, draws, stopped)
    iterations = sum(int(run.control[loop.ITERATION]) for run in runs)
    moved = sum(int(run.state.num[layout.N_MOVED]) for run in runs) / max(iterations * model.n_obs, 1)
    name = method if isinstance(method, str) else moves[0].name
    return Run(kept, "gibbs" if name == "auto" else name, tune, thin, int(seeds.entropy), seconds, moved, bool(stopped))


def _compile(model: Model, moves: np.ndarray, updates: np.ndarray) -> None:
    """Compile, or load from the cache, all that a chain calls, in this thread and before the clock starts."""
    chain = new_chain(model, np.zeros(model.n_obs, np.int64) - 1, np.random.default_rng(0), 1)
    chain.order = chain.order[:0]
    chain.control[loop.STOP] = 1  # a run of no iterations
    allocate(chain.data, chain.state, chain.order, chain.rng)
    chain.run(moves, updates, 0, 1)


def _drive(
    runs: list[Chain],
    moves: np.ndarray,
    updates: np.ndarray,
    tune: int,
    thin: int,
    cores: int,
    progress: bool | None,
    time_limit: float | None,
) -> str:
    """Run all chains, in turns, so that none is far behind when they are stopped; why they were: "", "interrupt" or "time limit"."""
    each = tune + thin * len(runs[0].labels)
    line = Progress(progress, len(runs) * each, len(runs))
    deadline = None if time_limit is None else time.perf_counter() + time_limit
    stopped = ""
    with ThreadPoolExecutor(cores) as pool:
        for turn in range(1, TURNS + 1):
            for run in runs:
                run.control[loop.LIMIT] = each * turn // TURNS
            pending: set[Future[None]] = {pool.submit(run.run, moves, updates, tune, thin) for run in runs}
            futures = set(pending)
            while pending:
                reason = ""
                try:
                    _, pending = wait(pending, timeout=0.1, return_when=FIRST_COMPLETED)
                    line.update(sum(int(run.control[loop.ITERATION]) for run in runs))
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
    line.close()
    return "" if all(run.control[loop.ITERATION] >= each for run in runs) else stopped


def _recorded(model: Model, runs: list[Chain], tune: int, thin: int, draws: int, stopped: str) -> Draws:
    """The draws of all chains, cut to the shortest."""
    for number, run in enumerate(runs):
        if run.control[loop.STATUS] == layout.BROKEN:
            row = int(run.state.num[layout.BAD_ROW])
            raise FloatingPointError(
                f"chain {number}, iteration {int(run.control[loop.ITERATION])}: row {model.frame.index[row]!r} has no finite "
                "score in any cluster; rescale the data or widen the prior."
            )
        if run.control[loop.STATUS] != 0 or (not stopped and int(run.control[loop.ITERATION]) < tune + draws * thin):
            raise RuntimeError(
                f"chain {number} broke off at iteration {int(run.control[loop.ITERATION])}: a move failed with status "
                f"{int(run.control[loop.STATUS])}; the message above, if any, says where."
            )
    done = [max(int(run.control[loop.ITERATION]) - tune, 0) // thin for run in runs]
    if max(done) == 0:
        if stopped == "time limit":
            raise TimeoutError("time_limit was over before the first draw was recorded; give more seconds, or less tune.")
        raise KeyboardInterrupt("stopped before the first draw was recorded")
    if min(done) == 0:
        missing = [number for number, count in enumerate(done) if count == 0]
        warnings.warn(f"stopped before chains {missing} had recorded a draw; they are left out", UserWarning, stacklevel=4)
        runs = [run for run, count in zip(runs, done, strict=True) if count]
    kept = min(count for count in done if count)

    def stack(name: str) -> np.ndarray:
        return np.stack([getattr(run, name)[:kept] for run in runs])

    scalars = stack("scalars")
    values = {
        "n_clusters": scalars[..., loop.R_CLUSTERS].astype(np.int64),
        "log_joint": scalars[..., loop.R_JOINT],
        "mass": scalars[..., loop.R_MASS],
        "sigma": scalars[..., loop.R_SIGMA],
    }
    for j, name in enumerate(model.width_names):
        values[name] = scalars[..., loop.R_WIDTH + j]
    if model.is_regression:
        values["v"] = stack("v")
    elif model.has_u:
        values["u"] = stack("v")[..., 0]
    values["labels"] = stack("labels")
    if model.is_regression:
        location = stack("location")
        values["locations"] = location if location.shape[-1] else np.zeros_like(values["labels"])
    return Draws(values)
