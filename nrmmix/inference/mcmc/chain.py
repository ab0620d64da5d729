"""One Markov chain: its start, its arrays, and where it stands when a run ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nrmmix.common.seeds import acquire, release
from nrmmix.inference.mcmc.cycle import Cycle, entries_of, program, scratch, update_addresses
from nrmmix.inference.mcmc.moves.base import only_with_unions
from nrmmix.inference.mcmc.start import BY_TREES, UNASSIGNED, check_rows, check_start
from nrmmix.inference.search.grower import first_labels, too_large
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.families.shared_parameters import redraw_shared
from nrmmix.kernels.moves import gibbs
from nrmmix.kernels.moves.algorithm8 import redraw
from nrmmix.model.pack import arrays_of
from nrmmix.model.specification import Specification

# Of Program, what moves have learnt and counted: names in checkpoints and files, and fields.
PROGRAM = {"kept": "learnt", "tally": "tally", "work": "work"}
# What the posterior is of, and A: over clusters, and the others.
BY_CLUSTER, WHOLE = ("size", "stat", "location"), ("labels", "v", "A", "hyper", "num", "step", "codes", "inclusion")
# What is kept up to date in steps, whose last bits are not those of sums made anew; within an iteration those too that follow from it.
SUMS, WITHIN = "log_K_sum", ("log_weight", "location_probability")
IN_STEPS = (SUMS, *WITHIN)  # (clusters, ...)
AT_ONCE = 4096  # observations that enter before the chain looks whether it is to stop


class Record(NamedTuple):
    """Draws as the kernels write them: of one chain, or with a leading axis of several."""

    labels: np.ndarray  # (draws, n) int32
    location: np.ndarray  # (draws, n) int32, of each observation's cluster; n = 0 where there is one location
    A: np.ndarray  # (draws, P), of a mixture u; P = 0 where the joint has none
    scalars: np.ndarray  # (draws, R_WIDTH + widths)
    explicit: np.ndarray  # (draws, n, H) parameters held by cluster, the first n_clusters rows of each draw; n = 0 where none are
    shared: np.ndarray  # (draws, S) parameters that all clusters share
    imputed: np.ndarray  # (draws, cells) missing cells that are drawn, in the kernels' coordinates and order
    codes: np.ndarray  # (draws, P, q) int16 of the slots of sparse products; (draws, 0, 0) for other kernels
    inclusion: np.ndarray  # (draws, q), likewise

    @classmethod
    def allocate(cls, model: Specification, draws: int) -> Record:
        """An empty record of one chain."""
        data, state = arrays_of(model, 1, entries=())
        n, P = model.n_obs, data.distance.shape[2]
        return cls(
            np.zeros((draws, n), np.int32),
            np.zeros((draws, n if P > 1 else 0), np.int32),
            np.zeros((draws, P if model.has_v else 0)),
            np.zeros((draws, loop.R_WIDTH + len(model.widths))),
            np.zeros((draws, n if len(data.explicit) else 0, len(data.explicit))),
            np.zeros((draws, len(data.shared))),
            np.zeros((draws, np.count_nonzero(data.rows.missing))),
            np.zeros((draws, *state.codes.shape), np.int16),
            np.zeros((draws, *state.inclusion.shape)),
        )

    def part(self, which: Any) -> Record:
        """Return the same part of every array."""
        return Record(*(array[which] for array in self))


@dataclass(frozen=True)
class Checkpoint:
    """Position of a chain: a run goes on from here as if it had never stopped."""

    iteration: int
    generator: dict[str, Any]  # state of the bit generator
    state: dict[str, np.ndarray]  # of BY_CLUSTER and WHOLE, cut to the clusters there are, `shared` parameters, `imputed` cells, PROGRAM
    extra_draws: Record  # draws recorded beyond those of the shortest chain
    within: tuple[int, int, int] = (0, 0, 0)  # move, call, and 1 where that call has begun: where in an iteration it stands
    order: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # observations that the start has still to go through
    init: str = ""  # trees by which they do, or one by one

    @property
    def is_midway(self) -> bool:
        """Whether it stands within an iteration, or within its start."""
        return any(self.within) or len(self.order) > 0


@dataclass
class Chain:
    """A chain on the way, and the control array that it shares with the main thread."""

    data: layout.Data
    state: layout.State
    rng: np.random.Generator
    order: np.ndarray  # observations that the start has still to go through: they enter one by one, or are redrawn at a power
    program: layout.Program
    record: Record
    control: np.ndarray
    enter: Callable[[np.ndarray], np.ndarray] | None = None  # labels of those in an order, where trees tell them
    init: str = ""  # which trees
    sink: Callable[[Record, int], None] | None = None  # takes draws out of the record, and the number of the first of them
    first: int = 0  # draws that it has taken
    failed: bool = False  # a move has ended with an exception, which compiled code does not pass on
    back_to: Callable[[Chain, Checkpoint], None] | None = None  # puts it where it stood at a checkpoint

    @property
    def iteration(self) -> int:
        return int(self.control[loop.ITERATION])

    @property
    def is_midway(self) -> bool:
        """Whether it stands within an iteration."""
        return bool(self.control[[loop.MOVE, loop.CALL, loop.WITHIN]].any())

    def stop(self, give_up: bool = False) -> None:
        """As soon as it can; from another thread, and again and again: a chain that only begins to run may not have heard.

        A move that cannot go on later ends at once where it has to give up, and the chain goes back to where its run began.
        """
        self.control[loop.STOP] = 1
        self.state.num[layout.Count.HALT] = layout.GIVE_UP if give_up else 1

    def run(self, updates: np.ndarray, tune: int, thin: int) -> None:
        """Up to the control's limit; the draw of iteration i, counted from 1, goes to row (i - tune) / thin - 1.

        Where there is a sink the record is as short as it likes, and that row is one of all that the sink has been given.
        """
        self._start()
        began = self.checkpoint(self.record.part(np.s_[:0])), self.first
        while not self.control[loop.STATUS] and not len(self.order):
            before, from_ = self.iteration, tune + self.first * thin
            loop.run(self.data, self.state, self.rng, self.program, updates, from_, thin, *self.record, self.control)
            if self.sink is not None and self.iteration >= from_ + thin:
                count = (self.iteration - from_) // thin
                self.sink(self.record.part(np.s_[:count]), self.first)
                self.first += count
            status = int(self.control[loop.STATUS])
            # where there is no iteration to do, a call that halted in a run before waits for the next one
            self.failed = status == 0 and self.control[loop.WITHIN] != 0 and self.iteration < self.control[loop.LIMIT]
            if status in (layout.NEED_ROOM, layout.HALTED, layout.GIVEN_UP):
                self.control[loop.STATUS] = 0
            if status == layout.NEED_ROOM:
                self.state = layout.enlarged(self.state)
            elif status == layout.GIVEN_UP and self.back_to is not None:
                self.back_to(self, began[0])
                self.first = began[1]
                break
            elif status or self.sink is None or self.control[loop.STOP] or self.iteration in (before, self.control[loop.LIMIT]):
                break

    def _start(self) -> None:
        """Observations that are not in a cluster enter, as far as there is time."""
        if self.enter is not None and len(self.order) and not self.control[loop.STOP]:
            labels = self.enter(self.order)
            while labels.max() + 1 > self.state.size.shape[0] - 3:
                self.state = layout.enlarged(self.state)
            loop.start(self.data, self.state, labels)
            self.order = self.order[:0]
        while len(self.order) and not self.control[loop.STOP]:
            few = self.order[:AT_ONCE]
            status = enter(self.data, self.state, few, self.rng)
            if status == layout.NEED_ROOM:
                self.state = layout.enlarged(self.state)
                continue
            if status == layout.GIVEN_UP:
                self.order, self.state.num[layout.Count.CURSOR] = self.order[int(self.state.num[layout.Count.CURSOR]) :], 0
                return
            self.order = self.order[len(few) :]
            if status != layout.DONE:
                self.control[loop.STATUS] = status
                self.order = self.order[:0]
            elif not len(self.order) and self.state.num[layout.Count.HEAT] > 0:  # the next sweep, at a higher power of the likelihood
                self.state.num[layout.Count.HEAT] -= 1
                self.order = np.arange(len(self.state.labels) if self.state.num[layout.Count.HEAT] > 0 else 0, dtype=np.int64)

    def checkpoint(self, extra_draws: Record) -> Checkpoint:
        K = int(self.state.num[layout.Count.CLUSTERS])
        kept = {name: layout.array_of(self.state, name)[..., :K].copy() for name in BY_CLUSTER}
        if self.data.guide.size:  # the guide's statistics, the last block's, are made anew
            kept["stat"] = kept["stat"][: self.data.guide[0, -1, layout.Block.STAT]].copy()
        kept |= {name: layout.array_of(self.state, name).copy() for name in WHOLE}
        kept["shared"] = self.data.rows.constant[self.data.shared]
        kept["imputed"] = self.data.rows.y[layout.drawn(self.data.rows)]
        kept |= {name: getattr(self.program, field).copy() for name, field in PROGRAM.items()}
        kept["num"][layout.Count.HALT] = 0
        move, call, within = (int(self.control[place]) for place in (loop.MOVE, loop.CALL, loop.WITHIN))
        generator = dict(self.rng.bit_generator.state)
        found = Checkpoint(self.iteration, generator, kept, extra_draws, (move, call, within), self.order.copy(), self.init)
        kept |= {name: layout.array_of(self.state, name)[:K].copy() for name in (IN_STEPS if found.is_midway else (SUMS,))}
        return found


def enter(data: layout.Data, state: layout.State, some: np.ndarray, rng: np.random.Generator) -> int:
    """Some observations enter one by one, each given those before it, as far as there is room; a status."""
    option = np.zeros(layout.OPTIONS)
    option[:2] = len(some), 1.0  # so many, and just these
    order = some if len(some) else np.zeros(1, np.int64)  # none would be all
    memory = layout.Memory(option, np.zeros(layout.LEARNT), np.zeros(layout.KINDS * layout.TALLY), np.zeros(0), order)
    return gibbs.enter(gibbs.gibbs.address, data, state, memory, rng)


def new_chain(
    model: Specification, cycle: Cycle, labels: np.ndarray, rng: np.random.Generator, record: Record, codes: np.ndarray | None = None,
    heated: bool = False,
) -> Chain:
    """A chain that starts from labels, as those of `initial_labels`, and if they are given from codes (K, q) of the first slots.

    Where it is heated, sweeps at rising powers of the likelihood come first.
    """
    n_clusters = int(labels.max(initial=-1)) + 1
    data, state = arrays_of(model, max(n_clusters, 8), *scratch(cycle, model), entries=entries_of(cycle))
    check_start(model, data, labels, state.hyper[layout.Hyper.WIDTH :])
    if model.slots is not None:
        state.codes[:] = model.slots.draw_codes(state.inclusion, rng)
        if codes is not None and codes.shape[1] == state.codes.shape[1]:
            state.codes[: len(codes)] = codes[: len(state.codes)]
    loop.start(data, state, labels)
    check_rows(model, data)
    if n_clusters and len(data.explicit):
        redraw(data, state, rng)
    if n_clusters and len(data.shared):
        redraw_shared(data, state, rng)
    trees = [init for init, label in BY_TREES.items() if labels.min(initial=UNASSIGNED) == label]
    control = np.zeros(loop.CONTROL, np.int64)
    control[loop.LIMIT] = np.iinfo(np.int64).max
    order = rng.permutation(np.flatnonzero(labels < 0)).astype(np.int64)
    if heated:
        state.num[layout.Count.HEAT] = gibbs.HEATED_SWEEPS
        order = order if len(order) else np.arange(len(labels), dtype=np.int64)
    chain = Chain(data, state, rng, order, program(cycle, model), record, control, back_to=partial(put_back, model, cycle))
    if trees:
        _enters_by(chain, model, trees[0])
    return chain


def _enters_by(chain: Chain, model: Specification, init: str) -> None:
    """Observations that have still to enter do so by trees."""
    if why := only_with_unions(model) or too_large(model):
        raise ValueError(f'init="{init}": {why}; other starts are "sequential", "one", "each" or labels.')
    chain.init, chain.enter = init, partial(first_labels, model, init)
    chain.enter(np.zeros(0, np.int64))  # kernels are compiled in this thread


def compiled(model: Specification, cycle: Cycle) -> np.ndarray:
    """Addresses of the updates.  All that a chain calls is compiled, or loaded, in this thread and before the clock starts."""
    updates = update_addresses(model, cycle)
    nobody, rng = np.full(model.n_obs, UNASSIGNED, np.int64), acquire(np.random.SeedSequence(0))
    chain = new_chain(model, cycle, nobody, rng, Record.allocate(model, 1))
    chain.order = chain.order[:0]
    chain.control[loop.STOP] = 1  # a run of no iterations
    enter(chain.data, chain.state, chain.order, chain.rng)
    chain.run(updates, 0, 1)
    release(rng)
    return updates


def resumed_chain(model: Specification, cycle: Cycle, checkpoint: Checkpoint, record: Record) -> Chain:
    """A chain that goes on from where another stood; its spare draws go to whoever gathers draws."""
    nobody = np.full(model.n_obs, UNASSIGNED, np.int64)
    chain = new_chain(model, cycle, nobody, acquire(checkpoint.generator), record)
    chain.order = checkpoint.order.copy()
    if checkpoint.init and len(checkpoint.order):
        _enters_by(chain, model, checkpoint.init)
    # nobody enters one by one: the permutation that `new_chain` drew does not count
    put_back(model, cycle, chain, checkpoint)
    return chain


def put_back(model: Specification, cycle: Cycle, chain: Chain, checkpoint: Checkpoint) -> None:
    """Make a chain stand where one stood at a checkpoint; what moves keep in their scratch begins anew."""
    _, state = arrays_of(model, checkpoint.state["size"].shape[0], *scratch(cycle, model), entries=())
    for name in BY_CLUSTER:
        kept = checkpoint.state[name]
        array = layout.array_of(state, name)
        array[tuple(map(slice, kept.shape))] = kept
    for name in WHOLE:
        layout.array_of(state, name)[:] = checkpoint.state[name]
    chain.data.rows.constant[chain.data.shared] = checkpoint.state["shared"]
    chain.data.rows.y[layout.drawn(chain.data.rows)] = checkpoint.state["imputed"]
    for name, part in PROGRAM.items():
        getattr(chain.program, part)[:] = checkpoint.state[name]
    loop.resume(chain.data, state, checkpoint.state.get(SUMS, state.cache.log_K_sum[:0]))  # those of old files lack them
    for name in WITHIN if checkpoint.is_midway else ():
        layout.array_of(state, name)[: len(checkpoint.state[name])] = checkpoint.state[name]
    state.cache.probability_over_b[:] = state.cache.location_probability * state.cache.inverse_b
    chain.state = state
    chain.program.floats.fill(0.0)
    chain.program.ints.fill(0)
    chain.rng.bit_generator.state = checkpoint.generator
    chain.control[loop.ITERATION] = checkpoint.iteration
    for place, value in zip((loop.MOVE, loop.CALL, loop.WITHIN), checkpoint.within, strict=True):
        chain.control[place] = value
