"""Checkpoints of variational fits of density regressions: where each start stands after its last pass.

Of a start that has converged its factors are kept, of any other the sums of its rounds too, and what its next passes depend on besides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nrmmix.inference.executors import OneProcess
from nrmmix.inference.variational.checkpoint import Saved, passes_of, put_passes
from nrmmix.inference.variational_regression.climb import Climb, Pass
from nrmmix.inference.variational_regression.memory import Kept, Memory, Seen
from nrmmix.model.priors.binned import Binned
from nrmmix.model.specification import Specification
from nrmmix.posterior.kernel_factors import KernelFactors

SUMS = Seen._fields
OF_START = ("N", "s", "A", "codes")  # of factors


def of_starts(climbs: Sequence[Climb], put: Callable[..., str]) -> dict[str, Any]:
    """Return what a fit goes on from: its starts so far, the last of them in its middle."""
    return {"starts": [_of_start(climb, f"starts/{number}", put) for number, climb in enumerate(climbs)]}


def _of_start(climb: Climb, where: str, put: Callable[..., str]) -> dict[str, Any]:
    now, memory = climb.factors, climb.memory
    for name in OF_START:
        put(getattr(now, name), f"{where}/factors/{name}")
    for name, values in now.exponential.shared.items():
        put(values, f"{where}/shared/{name}")
    for name in SUMS:
        put(np.array(getattr(climb.total, name)), f"{where}/total/{name}")
    put_passes(climb.passes, put, f"{where}/passes")
    if not climb.has_converged:
        for name in SUMS:
            put(np.stack([np.array(getattr(one, name)) for one in memory.seen]), f"{where}/seen/{name}")
        put(climb.changed, f"{where}/changed")
        for name, values in () if climb.kept is None else climb.kept._asdict().items():
            put(values, f"{where}/kept/{name}")
    return {
        "has_converged": climb.has_converged, "generator": climb.rng.bit_generator.state, "rounds": [len(own) for own in memory.rounds],
        "is_kept": climb.kept is not None,
    }


def start_of(
    saved: Saved, number: int, model: Specification, binned: Binned, rows: Any, division: tuple[int, int], executor: OneProcess
) -> Climb | None:
    """A start as it was saved; None where it had not finished a pass."""
    if number >= len(saved.header["starts"]):
        return None
    header, where, rng = saved.header["starts"][number], f"starts/{number}", np.random.default_rng(0)

    def get(name: str) -> np.ndarray:
        return saved.arrays[f"{where}/{name}"]

    memory = Memory(rows, *division, executor)
    if [len(own) for own in memory.rounds] != header["rounds"]:
        raise ValueError(f"the checkpoint {str(saved.path)!r} has other rounds of batches; give another name, or delete it to begin anew.")
    rng.bit_generator.state = header["generator"]
    exponential = rows.statistics.exponential
    exponential = exponential.with_shared({name: get(f"shared/{name}") for name in exponential.shared})
    N, s, A, codes = (get(f"factors/{name}") for name in OF_START)
    climb = Climb(memory, KernelFactors(binned, exponential, model.prior.mass, N, s, A, codes), rng, search=False)
    climb.total, climb.has_converged = _seen({name: get(f"total/{name}") for name in SUMS}), header["has_converged"]
    climb.passes = passes_of(saved.arrays, Pass, f"{where}/passes")
    if not climb.has_converged:
        stacked = {name: get(f"seen/{name}") for name in SUMS}
        memory.seen = [_seen({name: values[b] for name, values in stacked.items()}) for b in range(len(memory.rounds))]
        climb.changed = get("changed")
        if header["is_kept"]:
            climb.kept = Kept(*(get(f"kept/{name}") for name in Kept._fields))
    return climb


def _seen(sums: dict[str, Any]) -> Seen:
    own: dict[str, Any] = {name: values if np.ndim(values) else float(values) for name, values in sums.items()}
    return Seen(**own)
