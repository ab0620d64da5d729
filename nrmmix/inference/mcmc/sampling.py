"""Runs of chains: from their start, from where another stood, to their end; status codes turned into exceptions."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from nrmmix.common.compiling import announced
from nrmmix.common.interrupts import Stop, stoppable
from nrmmix.common.messages import count, one_of, seconds
from nrmmix.common.progress import Progress
from nrmmix.common.seeds import acquire, entropy, release, seed_sequence
from nrmmix.common.warnings import warn
from nrmmix.inference.mcmc import cuts, length
from nrmmix.inference.mcmc.chain import Chain, Checkpoint, compiled, new_chain, resumed_chain
from nrmmix.inference.mcmc.cycle import Cycle, seconds_to_compile
from nrmmix.inference.mcmc.driving import REASONS, Driver, Saver
from nrmmix.inference.mcmc.length import AUTO
from nrmmix.inference.mcmc.moves.gibbs import Gibbs
from nrmmix.inference.mcmc.start import SPREAD, is_one, starts_of
from nrmmix.inference.mcmc.store import KINDS, Store, check_memory, joined
from nrmmix.inference.mcmc.workers import Cluster, Threads, workers_of
from nrmmix.inference.variational_regression.spread import spread
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core import state as layout
from nrmmix.model.specification import Specification
from nrmmix.posterior.convergence import ESS_GOOD
from nrmmix.posterior.draws import Draws

MAX_ITERATIONS = 10**15  # iterations of a chain: more take years, and counts must fit 64 bits


@dataclass
class Run:
    """Result of sampling."""

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
    goal: int | str = 0  # draws of each chain that were asked for, or "auto"
    time_limit: float | None = None
    store: str = "all"
    most: int = 0  # draws of each chain that are kept at most, where the goal is "auto"
    stopped: str = ""  # by what, of `driving`, where it was before the goal
    one_start: bool = False  # whether all chains started from the same partition
    init_given: bool = False  # whether the caller has named a start


@dataclass
class _Session:
    """A run on its way: chains, where their draws go, and the draws there were before."""

    model: Specification
    run: Run  # what does not change on the way, and what was drawn before
    store: Store
    runs: list[Chain] = field(default_factory=list)
    head: dict[str, np.ndarray] | None = None
    seconds: float = 0.0

    @property
    def before(self) -> int:
        return 0 if self.head is None else self.head["n_clusters"].shape[1]

    @property
    def origin(self) -> int:
        """The iteration after which the store's draws begin."""
        return self.run.tune + self.before * self.run.thin

    @property
    def wanted(self) -> int:
        """Draws of each chain that are to be made, of a run with a number of them."""
        assert not isinstance(self.run.goal, str)
        return self.run.goal - self.before

    def recorded(self) -> list[int]:
        """Draws of each chain in the store."""
        return [run.first for run in self.runs]

    def values(self, draws: int, chains: list[int] | None = None) -> dict[str, np.ndarray]:
        head = self.head if self.head is None or chains is None else {name: values[chains] for name, values in self.head.items()}
        return joined(head, self.store.named(draws, chains))

    def outcome(self, stopped: str, chains: list[int] | None = None, most: int | None = None) -> Run:
        """The run as it stands, of all chains or of some; of a snapshot that is written while chains go on too."""
        done = self.recorded()
        runs = self.runs if chains is None else [self.runs[c] for c in chains]
        which = range(len(self.runs)) if chains is None else chains
        kept = min([done[c] for c in which] + ([] if most is None else [most]))
        # where a chain waits for others its draws are in the store; what it has beyond the shortest goes with it
        checkpoints = tuple(run.checkpoint(self.store.rows(c, kept, done[c])) for c, run in zip(which, runs, strict=True))
        return replace(
            self.run, draws=Draws({name: values[:] for name, values in self.values(kept, chains).items()}), seconds=self.seconds,
            label_changes=_label_changes(self.model, runs), interrupted=bool(stopped), checkpoints=checkpoints,
            stopped=stopped if stopped in REASONS else "",
        )

    def halve(self) -> None:
        """Every second draw goes."""
        done, drawn = self.recorded(), min(self.recorded())
        extra = [self.store.rows(c, drawn, one).part(np.s_[1::2]) for c, one in enumerate(done)]
        self.head = {name: values[:, 1::2].copy() for name, values in self.values(drawn).items()}
        self.run = replace(self.run, thin=2 * self.run.thin, draws=Draws({}), checkpoints=())
        self.store.allocate(self.store.draws)
        for c, run in enumerate(self.runs):
            self.store.attach(run, c, extra[c])


def sample(
    model: Specification, cycle: Cycle, name: str, *, draws: int | str, tune: int, thin: int, chains: int, init: Any, rng: Any,
    cores: Any, progress: bool | None, time_limit: float | None, checkpoint: Saver | None = None, store: str = "all",
) -> Run:
    """Run the chains of a model by a cycle of moves under its name; see `nrmmix.Model.fit`."""
    draws, tune = length.checked(draws), count("tune", tune, 0)
    thin, chains, store = count("thin", thin, 1), count("chains", chains, 1), one_of("store", store, KINDS)
    workers, limit = workers_of(cores, chains, cycle), seconds("time_limit", time_limit)
    cycle.check(model, tune, has_name=name != cycle.name)
    seeds = seed_sequence(rng)
    if not isinstance(draws, str) and tune + draws * thin > MAX_ITERATIONS:
        asked = tune + draws * thin
        raise ValueError(f"tune + draws * thin would be {asked:.0e} iterations of each chain; at most {MAX_ITERATIONS:.0e} can be run.")
    run = Run(Draws({}), name, tune, thin, entropy(seeds), 0.0, 0.0, False, (), cycle, draws, limit, store)
    with stoppable() as stop:
        kept, run.most = _store(model, chains, draws, store)
        session = _Session(model, run, kept)
        with announced(partial(seconds_to_compile, cycle, model)), stop.preparing():  # kernels must not be loaded halfway
            of_chains = seeds.spawn(chains)
            optima = lambda: spread(model, chains, seeds.spawn(1)[0]) or cuts.spread(model, chains)  # noqa: E731
            starts = starts_of(model, init, chains, tune, optima)
            run.one_start, run.init_given = is_one(starts), not (isinstance(init, str) and init == SPREAD)
            session.runs = [
                new_chain(model, cycle, start.labels, acquire(seed), session.store.each, start.codes, start.heated)
                for start, seed in zip(starts, of_chains, strict=True)
            ]
            for c, chain in enumerate(session.runs):
                session.store.attach(chain, c)
            updates = compiled(model, cycle)
        return _finished(session, updates, stop, workers, progress, limit, checkpoint)


def go_on(
    model: Specification, run: Run, draws: int | str | None, *, cores: Any, progress: bool | None, time_limit: float | None,
    checkpoint: Saver | None = None,
) -> Run:
    """Go on with a run: by so many draws, until "auto" is content, or up to its own goal where `draws` is None.

    See `nrmmix.MCMCResult.extend` and `nrmmix.resume`.
    """
    before, chains = run.draws.n_draws, run.draws.n_chains
    if draws is None and run.goal == AUTO:
        draws = AUTO
        time_limit = run.time_limit if time_limit is None else time_limit
    if draws is None:
        assert not isinstance(run.goal, str)
        if run.goal <= before and not any(point.iteration < run.tune for point in run.checkpoints):
            return run
        draws = run.goal - before
    draws = length.checked(draws)
    workers, limit = workers_of(cores, chains, run.cycle), seconds("time_limit", time_limit)
    run = replace(run, goal=draws if isinstance(draws, str) else before + draws, time_limit=limit)
    least = -(-before // length.QUARTERS) * length.QUARTERS
    extra = max(len(point.extra_draws.scalars) for point in run.checkpoints)
    with stoppable() as stop:
        kept, run.most = _store(model, chains, draws, run.store, extra, run.most, least)
        session = _Session(model, run, kept, head=dict(run.draws) if before else None, seconds=run.seconds)
        with announced(partial(seconds_to_compile, run.cycle, model)), stop.preparing():
            session.runs = [resumed_chain(model, run.cycle, point, session.store.each) for point in run.checkpoints]
            for c, (chain, point) in enumerate(zip(session.runs, run.checkpoints, strict=True)):
                session.store.attach(chain, c, point.extra_draws)
            updates = compiled(model, run.cycle)
        return _finished(session, updates, stop, workers, progress, limit, checkpoint, most=None if isinstance(draws, str) else draws)


def _store(
    model: Specification, chains: int, draws: int | str, kind: str, extra: int = 0, most: int = 0, least: int = 0
) -> tuple[Store, int]:
    """A store of draws, if this machine has the memory, and how many are kept at most where they are not counted.

    These are `most` where that is known, of a run that was to find its length before, and no fewer than `least`, which there are.
    """
    store = Store(model, chains, 0, kind)
    store.draws = length.MAX_DRAWS if isinstance(draws, str) else max(draws, extra)
    if draws == AUTO:
        most = max(most or length.most_draws(store), least)
        store.draws = max(most, extra)
    else:
        most = 0
        check_memory(store)
    store.allocate(store.draws)
    return store, most


def _finished(
    session: _Session, updates: np.ndarray, stop: Stop, workers: Threads | Cluster, progress: bool | None, limit: float | None,
    saver: Saver | None, most: int | None = None,
) -> Run:
    """Run the chains to their goal, or until they are stopped."""
    try:
        with workers.open(session.model, session.run.cycle, updates):
            return _driven(session, stop, workers, progress, limit, saver, most)
    finally:
        release(*(chain.rng for chain in session.runs))


def _driven(
    session: _Session, stop: Stop, workers: Threads | Cluster, progress: bool | None, limit: float | None, saver: Saver | None,
    most: int | None,
) -> Run:
    began, before = time.perf_counter(), session.seconds
    automatic = session.run.goal == AUTO
    most_seconds = length.SECONDS if limit is None else limit  # of a run without a number of draws
    limit = most_seconds if automatic else limit
    deadline = None if limit is None or limit == np.inf else began + limit

    def snapshot() -> Run:
        session.seconds = before + time.perf_counter() - began
        return session.outcome("" if is_there() else "on its way", most=most)

    def is_there() -> bool:
        return not automatic and min(session.recorded()) >= session.wanted

    with Progress(progress) as line, saver or nullcontext():
        with Driver(session.runs, workers, stop, deadline, line, saver, snapshot) as driver:
            reached = _until_content(session, driver, began, most_seconds) if automatic else _to_the_end(session, driver)
        stopped = "" if reached else driver.stopped
        _check(session.model, session.runs, stopped or reached)
        if saver is not None:
            saver.save(replace(snapshot(), interrupted=bool(stopped), stopped=stopped))
            saver.finish()
            driver.tell()
        session.seconds = before + time.perf_counter() - began
    done = session.recorded()
    if session.before or min(done) > 0 or max(done) == 0:
        return session.outcome(stopped, most=most)
    missing = [number for number, recorded in enumerate(done) if recorded == 0]
    warn(f"stopped before chains {missing} had recorded a draw; they are left out")
    return session.outcome(stopped, [number for number, recorded in enumerate(done) if recorded], most)


def _to_the_end(session: _Session, driver: Driver) -> bool:
    end = session.origin + session.run.thin * session.wanted
    began = min(run.iteration for run in session.runs)
    tuned = driver.to(min(session.run.tune, end), session.origin, session.run.thin, of=(began, end))
    return tuned and driver.to(end, session.origin, session.run.thin, of=(began, end))


def _until_content(session: _Session, driver: Driver, began: float, limit: float) -> bool:
    """Rounds of draws until they are worth as many as are wanted; see `nrmmix.inference.mcmc.length`."""
    model, most = session.model, session.run.most
    driver.goal = f", until ESS {ESS_GOOD}"
    if session.before == 0 and not driver.to(session.run.tune, session.run.tune, session.run.thin, began + limit * length.OF_TUNING):
        if driver.stopped or driver.is_broken:
            return False
        # a third of the time has gone by: what has been done is the tuning
        tune = max(1, *(run.iteration + run.is_midway for run in session.runs))
        session.run = replace(session.run, tune=tune)
        if not driver.to(tune, tune, session.run.thin):
            return False
    drawn, next_look = session.before + min(session.recorded()), 0.0
    while True:
        if drawn and drawn % length.size_of_round(most) == 0 and drawn * session.run.thin >= next_look:
            found = length.look(model, session.values(drawn - session.before), session.run.seed)
            driver.goal = str(found)
            next_look = drawn * session.run.thin * found.growth if model.is_regression or found.is_costly else 0.0
            if found.is_enough or (not found.varied and drawn >= most):
                return True
        if drawn >= most:
            session.halve()
            drawn = session.before
        drawn = length.next_round(drawn, most)
        if not driver.to(session.run.tune + drawn * session.run.thin, session.origin, session.run.thin):
            return False


def _check(model: Specification, runs: list[Chain], at_end: Any) -> None:
    """An exception where a chain broke."""
    for number, run in enumerate(runs):
        if run.control[loop.STATUS] == layout.BROKEN:
            row = int(run.state.num[layout.Count.BAD_ROW])
            where = f"chain {number}, iteration {run.iteration}: row {model.frame.index[row]!r}"
            if model.is_regression and (run.state.labels < 0).any() and run.state.num[layout.Count.CLUSTERS] == model.prior.components > 0:
                raise ValueError(
                    f"{where} entered when all {model.prior.components} components of {model.prior} were in use, and none reaches it "
                    f"through {model.kernel}; take more components, a wider kernel, or give starting labels as init=."
                )
            raise FloatingPointError(f"{where} has no finite score in any cluster; rescale the data or widen the prior.")
        if run.control[loop.STATUS] != 0 or run.failed or not at_end:
            raise RuntimeError(
                f"chain {number} broke off at iteration {run.iteration}: a move failed with status "
                f"{int(run.control[loop.STATUS])}; the message above, if any, says where."
            )


def _label_changes(model: Specification, runs: list[Chain]) -> float:
    """Label changes for each observation and iteration, since the start."""
    return sum(int(run.state.num[layout.Count.MOVED]) for run in runs) / max(sum(run.iteration for run in runs) * model.n_obs, 1)
