"""Who does the turns of chains: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from nrmmix.common.messages import count
from nrmmix.common.seeds import release
from nrmmix.inference.executors import PATIENCE, Dask, is_client
from nrmmix.inference.mcmc.chain import Chain, Checkpoint, Record, compiled, resumed_chain
from nrmmix.inference.mcmc.cycle import Cycle, update_addresses
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core import state as layout
from nrmmix.model.specification import Specification

LOOK = 0.02  # seconds between two looks at what a cluster has done
BUFFER = 2**22  # bytes of the record of one chain, which is emptied when it is full
NONE = np.s_[:0]


class Threads:
    """Threads of this process: compiled code lets others run meanwhile."""

    def __init__(self, size: int):
        self.size = size

    @contextmanager
    def open(self, model: Specification, cycle: Cycle, updates: np.ndarray) -> Iterator[Threads]:
        """Within the block they take turns."""
        self.updates = updates
        yield self

    def turn(self, chain: Chain, tune: int, thin: int) -> None:
        """Run a chain up to its limit, see `Chain.run`."""
        chain.run(self.updates, tune, thin)


class Cluster:
    """Workers of a cluster: a chain goes there as a checkpoint, and what comes back is where it stands then, and its draws.

    So a turn is a task that depends on nothing but its arguments, and is done anew where its worker has died.
    """

    def __init__(self, client: Any, chains: int):
        self.size, self.dask = chains, Dask(client, "cores", "chain", "")
        self.numbers: dict[int, int] = {}  # of chains, by their identity

    @contextmanager
    def open(self, model: Specification, cycle: Cycle, updates: np.ndarray) -> Iterator[Cluster]:
        """Kernels are compiled there, or loaded, before the block begins."""
        with self.dask.open():
            self.given = self.dask.submit(pair, model, cycle)
            addresses = list(self.dask.client.nthreads())
            ready = [self.dask.submit(prepared, self.given, workers=[address]) for address in addresses]
            for address, future in zip(addresses, ready, strict=True):
                self.dask.result(future, partial(self._is_gone, address))
            yield self

    def _is_gone(self, address: str) -> bool:
        """Whether a worker has died: what is bound to it would wait for ever."""
        return address not in self.dask.client.nthreads()

    def turn(self, chain: Chain, tune: int, thin: int) -> None:
        """A chain that is told to stop waits for its turn; one that is to give up stays where that began."""
        limit, number = int(chain.control[loop.LIMIT]), self.numbers.setdefault(id(chain), len(self.numbers))
        found = None
        while found is None and not is_given_up(chain):
            # Dask would leave chains together where the model is; a worker of each, as long as there is one
            addresses = sorted(self.dask.client.nthreads())
            address = addresses[number % len(addresses)] if addresses else None
            where = {"workers": [address], "allow_other_workers": True} if address else {}
            point = chain.checkpoint(chain.record.part(NONE))
            future = self.dask.submit(advanced, self.given, point, limit, tune, thin, chain.first, **where)
            found = self.dask.result(future, self._is_over(chain, address), LOOK)
        if found is None:
            return
        point, status, failed, draws = found
        assert chain.back_to is not None and chain.sink is not None  # it was made with one, and attached to a store
        chain.back_to(chain, point)
        chain.order, chain.control[loop.STATUS], chain.failed = point.order, status, failed
        for rows in draws:
            chain.sink(rows, chain.first)
            chain.first += len(rows.scalars)

    def _is_over(self, chain: Chain, address: str | None) -> Callable[[], bool]:
        """Says whether not to wait any longer: what is bound to a worker that has died may wait for ever."""
        asked = time.monotonic()

        def is_over() -> bool:
            nonlocal asked
            if is_given_up(chain):
                return True
            if address is None or time.monotonic() - asked < PATIENCE:
                return False
            asked = time.monotonic()
            return self._is_gone(address)

        return is_over


def is_given_up(chain: Chain) -> bool:
    """Whether the chain is to give up its turn."""
    return bool(chain.state.num[layout.Count.HALT] == layout.GIVE_UP)


def workers_of(cores: Any, chains: int, cycle: Cycle) -> Threads | Cluster:
    """Return the workers for an argument `cores`: a number of threads, or a Client of dask.distributed."""
    if is_client(cores):
        for move in cycle.moves:
            if move.runs_alone:
                raise ValueError(f"cores= is a Client, and what {move} keeps from iteration to iteration does not travel; give threads.")
        return Cluster(cores, chains)
    return Threads(min(chains, os.cpu_count() or 1) if cores is None else count("cores", cores, 1))


def rows_at_once(each: Record, most: int) -> int:
    """Capacity of the record of a chain, in draws."""
    return int(np.clip(BUFFER // max(sum(array.nbytes for array in each), 1), 1, max(most, 1)))


# ---- what workers run


def pair(model: Specification, cycle: Cycle) -> tuple[Specification, Cycle]:
    return model, cycle


def prepared(given: tuple[Specification, Cycle]) -> None:
    """All that a chain calls is compiled, or loaded."""
    compiled(*given)


def advanced(
    given: tuple[Specification, Cycle], point: Checkpoint, limit: int, tune: int, thin: int, first: int,
) -> tuple[Checkpoint, int, bool, list[Record]]:
    """A chain from a checkpoint up to an iteration: where it stands then, its status, whether a move failed, and its draws."""
    model, cycle = given
    draws: list[Record] = []
    capacity = rows_at_once(Record.allocate(model, 1), -(-(limit - point.iteration) // thin))
    chain = resumed_chain(model, cycle, point, Record.allocate(model, capacity))
    chain.first, chain.control[loop.LIMIT] = first, limit
    chain.sink = lambda rows, _: draws.append(Record(*(array.copy() for array in rows)))
    try:
        chain.run(update_addresses(model, cycle), tune, thin)
    finally:
        release(chain.rng)
    return chain.checkpoint(chain.record.part(NONE)), int(chain.control[loop.STATUS]), chain.failed, draws
