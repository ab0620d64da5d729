"""One Markov chain: its start, its arrays, and where it stands when a run ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nrmmix import arrays
from nrmmix.kernels import chain as loop
from nrmmix.kernels import state as layout
from nrmmix.kernels.gibbs import allocate
from nrmmix.kernels.held import redraw
from nrmmix.methods import Cycle, program, scratch
from nrmmix.partition import canonical
from nrmmix.searches import STARTS, first_labels, refusal, too_large

if TYPE_CHECKING:
    from nrmmix.model import Model

TOO_FAR = 1e100  # squares must not overflow
UNASSIGNED = -1
BY_TREES = {name: UNASSIGNED - 1 - j for j, name in enumerate(STARTS)}  # labels of observations that enter by trees
INITS = ("sequential", "one", "each", *STARTS)
PROGRAM = ("kept", "tally", "work")  # of the memories of moves: what they have learnt and counted
# Of State, all that is not scratch and does not follow from the rest: over clusters, and the others.
BY_CLUSTER, WHOLE = ("size", "stat", "location"), ("labels", "v", "A", "hyper", "num")


class Record(NamedTuple):
    """Draws as the kernels write them: of one chain, or with a leading axis of several."""

    labels: np.ndarray  # (draws, n) int32
    location: np.ndarray  # (draws, n) int32, of each observation's cluster; n = 0 where there is one location
    v: np.ndarray  # (draws, G); G = 0 where the joint has none
    scalars: np.ndarray  # (draws, R_WIDTH + widths)
    held: np.ndarray  # (draws, n, H) parameters held by cluster, the first n_clusters rows of each draw; n = 0 where none are
    shared: np.ndarray  # (draws, S) parameters that all clusters share
    imputed: np.ndarray  # (draws, cells) missing cells that are drawn, in the kernels' coordinates and order

    @classmethod
    def room(cls, model: Model, chains: int, draws: int) -> Record:
        data, _ = model.arrays(1)
        n, (G, P) = model.n_obs, data.distance.shape[1:]
        return cls(
            np.zeros((chains, draws, n), np.int32),
            np.zeros((chains, draws, n if P > 1 else 0), np.int32),
            np.zeros((chains, draws, G if data.setup[layout.JOINT_WITH_V] else 0)),
            np.zeros((chains, draws, loop.R_WIDTH + len(model.widths))),
            np.zeros((chains, draws, n if len(data.held) else 0, len(data.held))),
            np.zeros((chains, draws, len(data.shared))),
            np.zeros((chains, draws, np.count_nonzero(data.rows.missing))),
        )

    def part(self, which: Any) -> Record:
        """The same part of every array."""
        return Record(*(array[which] for array in self))


@dataclass(frozen=True)
class Standing:
    """Where a chain stands: a run goes on from here as if it had never stopped."""

    iteration: int
    generator: dict[str, Any]  # state of the bit generator
    state: dict[str, np.ndarray]  # of BY_CLUSTER and WHOLE, cut to the clusters there are, `shared` parameters, `imputed` cells, PROGRAM
    spare: Record  # draws recorded beyond those of the shortest chain


@dataclass
class Chain:
    """A chain on the way, and the control array that it shares with the main thread."""

    data: layout.Data
    state: layout.State
    rng: np.random.Generator
    order: np.ndarray  # observations that enter one by one at the start; empty for other starts
    program: layout.Program
    record: Record
    control: np.ndarray
    enter: Callable[[np.ndarray], np.ndarray] | None = None  # labels of those in an order, where trees tell them

    @property
    def iteration(self) -> int:
        return int(self.control[loop.ITERATION])

    def run(self, updates: np.ndarray, tune: int, thin: int) -> None:
        """Up to the control's limit; the draw of iteration i, counted from 1, goes to row (i - tune) / thin - 1."""
        if self.enter is not None and len(self.order) and not self.control[loop.STOP]:
            labels = self.enter(self.order)
            while labels.max() + 1 > self.state.size.shape[0] - 3:
                self.state = layout.enlarged(self.state)
            loop.start(self.data, self.state, labels)
            self.order = self.order[:0]
        while len(self.order) and not self.control[loop.STOP]:
            status = allocate(self.data, self.state, self.order, self.rng)
            if status != layout.NEED_ROOM:
                self.control[loop.STATUS] = 0 if status == layout.DONE else status
                self.order = self.order[:0]
                break
            self.state = layout.enlarged(self.state)
        while not self.control[loop.STATUS]:
            loop.run(self.data, self.state, self.rng, self.program, updates, tune, thin, *self.record, self.control)
            if self.control[loop.STATUS] != layout.NEED_ROOM:
                break
            self.control[loop.STATUS] = 0
            self.state = layout.enlarged(self.state)

    def standing(self, spare: Record) -> Standing:
        K = int(self.state.num[layout.N_CLUSTERS])
        kept = {name: getattr(self.state, name)[..., :K].copy() for name in BY_CLUSTER}
        kept |= {name: getattr(self.state, name).copy() for name in WHOLE}
        kept["shared"] = self.data.rows.constant[self.data.shared]
        kept["imputed"] = self.data.rows.y[layout.drawn(self.data.rows)]
        kept |= {name: getattr(self.program, name).copy() for name in PROGRAM}
        return Standing(self.iteration, self.rng.bit_generator.state, kept, spare)


def initial_labels(init: Any, n: int, chains: int) -> np.ndarray:
    """Labels (chains, n) of the starts; UNASSIGNED for observations that enter one by one, others below it where they do by trees."""
    if isinstance(init, str):
        if init not in INITS:
            raise ValueError(f"init must be one of {', '.join(map(repr, INITS))} or labels, not {init!r}.")
        first = {"one": np.zeros(n, int), "each": np.arange(n)}.get(init, np.full(n, BY_TREES.get(init, UNASSIGNED)))
        return np.tile(first.astype(np.int64), (chains, 1))
    given = arrays.reals(init, "init")
    if given.ndim == 2 and given.shape[0] != chains:
        raise ValueError(f"init has labels for {given.shape[0]} chains but chains={chains}.")
    each = given if given.ndim == 2 else np.broadcast_to(given, (chains, *given.shape))
    return np.stack([canonical(arrays.labels(row, n, what="init"))[0] for row in each])


def check_start(model: Model, data: layout.Data, labels: np.ndarray, width: np.ndarray) -> None:
    """There may not be more clusters than components, and each starting cluster must have a location that reaches all its members."""
    n_clusters = int(labels.max(initial=-1)) + 1
    if 0 < model.prior.components < n_clusters:
        raise ValueError(
            f"init has {n_clusters} clusters, but {model.prior} has {model.prior.components} components; "
            'use init="sequential" or "one", or labels of at most so many clusters.'
        )
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


def check_rows(model: Model, data: layout.Data) -> None:
    """Every row must be near enough for squares, and have a density, data.alone."""
    far = (np.abs(model.packed.rows.y) > TOO_FAR).any(axis=1)
    if far.any():
        row = int(np.flatnonzero(far)[0])
        raise ValueError(
            f"row {model.frame.index[row]!r} lies more than {TOO_FAR:g} prior standard deviations out; correct it, or rescale."
        )
    if not np.isfinite(data.alone).all():
        row = int(np.flatnonzero(~np.isfinite(data.alone))[0])
        raise ValueError(f"row {model.frame.index[row]!r} has no finite density under the prior; check its values and the prior.")


def new_chain(model: Model, cycle: Cycle, labels: np.ndarray, rng: np.random.Generator, record: Record) -> Chain:
    """A chain that starts from labels, as those of `initial_labels`."""
    n_clusters = int(labels.max(initial=-1)) + 1
    data, state = model.arrays(max(n_clusters, 8), *scratch(cycle, model))
    check_start(model, data, labels, state.hyper[layout.WIDTH :])
    loop.start(data, state, labels)
    check_rows(model, data)
    if n_clusters and len(data.held):
        redraw(data, state, rng)
    enter = None
    for way, label in BY_TREES.items():
        if labels.min(initial=UNASSIGNED) == label:
            if why := refusal(model) or too_large(model):
                raise ValueError(f'init="{way}": {why}; other starts are "sequential", "one", "each" or labels.')
            enter = partial(first_labels, model, way)
            enter(np.zeros(0, np.int64))  # kernels are compiled in this thread
    control = np.zeros(loop.CONTROL, np.int64)
    control[loop.LIMIT] = np.iinfo(np.int64).max
    order = rng.permutation(np.flatnonzero(labels < 0)).astype(np.int64)
    return Chain(data, state, rng, order, program(cycle, model), record, control, enter)


def resumed_chain(model: Model, cycle: Cycle, standing: Standing, record: Record) -> Chain:
    """A chain that goes on from where another stood; its spare draws are the first of the record."""
    nobody = np.full(model.n_obs, -1, np.int64)
    chain = new_chain(model, cycle, nobody, generator(standing.generator), record)
    chain.order = chain.order[:0]
    _, state = model.arrays(standing.state["size"].shape[0], *scratch(cycle, model))
    for name in BY_CLUSTER:
        kept = standing.state[name]
        getattr(state, name)[..., : kept.shape[-1]] = kept
    for name in WHOLE:
        getattr(state, name)[:] = standing.state[name]
    chain.data.rows.constant[chain.data.shared] = standing.state["shared"]
    chain.data.rows.y[layout.drawn(chain.data.rows)] = standing.state["imputed"]
    for name in PROGRAM:
        getattr(chain.program, name)[:] = standing.state[name]
    loop.resume(chain.data, state)
    chain.state = state
    # nobody enters one by one: the permutation that `new_chain` drew does not count
    chain.rng = generator(standing.generator)
    chain.control[loop.ITERATION] = standing.iteration
    for array, spare in zip(record, standing.spare, strict=True):
        array[: len(spare)] = spare
    return chain


def generator(state: dict[str, Any]) -> np.random.Generator:
    """A generator in a given state."""
    rng = np.random.default_rng(0)
    rng.bit_generator.state = state
    return rng
