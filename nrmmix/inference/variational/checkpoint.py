"""Checkpoints of variational fits: after each pass all that the next ones depend on, in one file that is replaced whole.

What is kept are the sums of the rounds, the order of the components, the generator, what has been tried, and a digest of the data: a fit
that goes on from there gives the numbers of one that was never stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nrmmix import __version__
from nrmmix.common import archive, files
from nrmmix.inference.variational import births
from nrmmix.inference.variational.climb import Climb, Pass, Settings
from nrmmix.inference.variational.memory import Batches, Memory, Snapshot
from nrmmix.inference.variational.options import MemoizedVB
from nrmmix.model.encoding import decode, encode, encode_source, keeper
from nrmmix.model.frame.sources.digests import add_to_digest
from nrmmix.model.frame.streaming import StreamedFrame
from nrmmix.model.specification import Specification
from nrmmix.posterior.factors import Factors

FORMAT, VERSION = "nrmmix variational checkpoint", 1
OWN_DATA = 2e7  # bytes of a table in memory that a checkpoint holds itself
FREE = ("passes", "executor", "checkpoint")  # options that may change when a fit goes on
BUILDING = ("quick", "thorough")


class Saved(NamedTuple):
    """A checkpoint that was found."""

    path: Path
    header: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def seed(self) -> int:
        return self.header["seed"]

    @property
    def seconds(self) -> float:
        return float(self.header["seconds"])


def digest_of(model: Specification) -> str:
    """Return a digest of the rows used: the same whatever source they came from."""
    frame = model.frame
    if isinstance(frame, StreamedFrame):
        return frame.places.digest
    found = hashlib.blake2b(digest_size=16)
    further = [] if frame.covariates is None else [frame.covariates]
    further += [] if frame.weight is None else [frame.weight[:, None]]
    add_to_digest(found, frame.response, frame.inputs, *further)
    if frame.is_sparse and frame.weight is not None:
        found.update(frame.weight.tobytes())
    return found.hexdigest()


def name_of(start: str | np.ndarray) -> str:
    """Name a start: labels by a digest of them."""
    return start if isinstance(start, str) else f"labels {hashlib.blake2b(start.tobytes(), digest_size=16).hexdigest()}"


class Saver:
    """Writes the checkpoints of one fit."""

    def __init__(self, model: Specification, method: MemoizedVB, name: str, seed: int, start: str):
        self.path = files.target(method.checkpoint, ".npz", "a checkpoint")
        self.arrays: dict[str, np.ndarray] = {}
        put = keeper(self.arrays)
        self.header = {
            "format": FORMAT, "version": VERSION, "nrmmix": __version__, "method": name, "seed": seed, "digest": digest_of(model),
            "start": start, "n": model.n_obs, "options": encode(replace(method, executor=None, checkpoint=None)), **_of_model(model, put),
        }

    def __call__(self, of: Callable[[Callable[..., str]], dict[str, Any]], seconds: float) -> None:
        """Write what `of` puts into the file, and what it says in the header."""
        arrays = dict(self.arrays)
        header = self.header | {"seconds": seconds} | of(keeper(arrays))
        try:
            with files.replaced(self.path) as file:
                archive.write(file, header, arrays)
        except OSError as error:
            raise type(error)(
                error.errno, f"the checkpoint {str(self.path)!r} cannot be written ({error.strerror}); the one of the pass before is whole"
            ) from None


def _parts_of(model: Specification) -> dict[str, Any]:
    return {"formula": model.formula} | {part: encode(getattr(model, part)) for part in ("prior", "family", "kernel")}


def _of_model(model: Specification, put: Any) -> dict[str, Any]:
    """The model, with its data where these are small, or where they are."""
    header = {"model": _parts_of(model), "responses": list(model.frame.response_names)}
    if isinstance(model.frame, StreamedFrame):
        rows = model.frame.rows
        return header | {"path": None if rows is None else rows.path, "missing": model.frame.missing}
    size = model.frame.response.nbytes if isinstance(model.frame.response, np.ndarray) else model.frame.response.data.nbytes
    return header | ({"data": encode_source(model.frame, put)} if size <= OWN_DATA else {})


def of_climb(climb: Climb, passes: list[Pass], put: Callable[..., str]) -> dict[str, Any]:
    """Return what a mixture's fit goes on from."""
    memory, batches = climb.memory, climb.memory.batches
    put_passes(passes, put)
    for name in ("N", "s", "H"):
        put(getattr(memory, name), f"memory/{name}")
    for name, values in memory.exponential.shared.items():
        put(values, f"shared/{name}")
    put(batches._log_h, "log_h")
    put(np.array([climb.last, np.nan if climb.kept is None else climb.kept[1]]), "bounds")
    if climb.kept is not None:
        put(climb.kept[0].N, "kept/N")
        put(climb.kept[0].s, "kept/s")
    header: dict[str, Any] = {
        "ids": memory.ids, "next_id": memory.next_id, "is_exact": memory.is_exact, "generator": climb.rng.bit_generator.state,
        "number": climb.number, "has_converged": climb.has_converged, "is_thorough": climb.is_thorough,
        "creation": BUILDING[climb.creation is births.THOROUGH], "failed": sorted(climb.targets.failed.items()),
        "resting": [[a, b, until] for (a, b), until in sorted(climb.resting.until.items())], "not_deleted": sorted(climb.not_deleted),
        "has_tried_others": climb.has_tried_others,
        "rounds": [len(own) for own in batches.rounds],
    }
    if climb.adopted is not None:
        bound, kept, changed = climb.adopted
        for name in ("N", "s", "H"):
            put(getattr(kept, name), f"adopted/{name}")
        header["adopted"] = {"bound": bound, "ids": kept.ids, "changed": changed}
    return {"climb": header}


def put_passes(passes: Sequence[Any], put: Callable[..., str], where: str = "passes") -> None:
    """Passes as a column for each of their fields."""
    for name, values in zip(passes[0]._fields, zip(*passes, strict=True), strict=True):
        put(np.array(values), f"{where}/{name}")


def passes_of(arrays: dict[str, np.ndarray], kind: type, where: str = "passes") -> list[Any]:
    """The passes of `put_passes`, of their kind."""
    columns = [arrays[f"{where}/{name}"].tolist() for name in kind._fields]  # type: ignore[attr-defined]
    return [kind(*values) for values in zip(*columns, strict=True)]


def find(path: Any) -> Saved | None:
    """The checkpoint of a path; None where there is no file, a ValueError where it is something else, or damaged."""
    where = Path(path)
    if not where.is_file():
        return None
    try:
        with where.open("rb") as file:
            header, arrays = archive.read(file, np.inf)
        if header.get("format") != FORMAT:
            raise ValueError(f"it holds {header.get('format')!r}")
    except archive.BROKEN as error:
        raise ValueError(f"{str(where)!r} is no checkpoint of a variational fit, or damaged: {error}. Give another name.") from None
    if header["version"] != VERSION:
        raise ValueError(f"{str(where)!r} is of version {header['version']} of the format of checkpoints, and this one reads {VERSION}.")
    return Saved(where, header, arrays)


def is_checkpoint(path: Any) -> bool:
    """Whether a file is a checkpoint of a variational fit."""
    try:
        with Path(path).open("rb") as file:
            header = archive.header_of(file)
            return isinstance(header, dict) and header.get("format") == FORMAT
    except archive.BROKEN:
        return False


def insist_on(saved: Saved, model: Specification, method: MemoizedVB, seed: int | None, start: str | np.ndarray | None) -> None:
    """A ValueError where a checkpoint is of another model, other data, other options, another seed or another start.

    None is whatever seed or start the checkpoint has.
    """
    header, why = saved.header, ""
    for part, value in json.loads(json.dumps(_parts_of(model))).items():
        if header["model"][part] != value:
            why = f"another model: its {part} differs"
            break
    else:
        if header["digest"] != digest_of(model):
            why = f"other data, of {header['n']} rows" + ("" if header["n"] != model.n_obs else " that differ")
        then, now = decode(header["options"]), replace(method, executor=None, checkpoint=None)
        moves = [dict(zip(("births", "merges"), one.moves(model.is_regression), strict=True)) for one in (then, now)]
        for name in now.__dataclass_fields__:
            before, wanted = (own.get(name, getattr(one, name)) for own, one in zip(moves, (then, now), strict=True))
            if not why and name not in FREE and before != wanted:
                why = f"a fit with {name}={before!r}, not {wanted!r}"
        if not why and seed is not None and seed != header["seed"]:
            why = f"a fit with rng={header['seed']}, not {seed}"
        if not why and start is not None and name_of(start) != header["start"]:
            before, wanted = ("labels" if name.startswith("labels ") else repr(name) for name in (header["start"], name_of(start)))
            why = f"a fit with init={before}, not {'others' if before == wanted else wanted}"
    if why:
        raise ValueError(f"the checkpoint {str(saved.path)!r} is of {why}; give another name, or delete it to begin anew.")


def climb_of(saved: Saved, model: Specification, batches: Batches, settings: Settings) -> Climb:
    """The climb that was saved."""
    header, get = saved.header["climb"], saved.arrays.__getitem__
    exponential = batches.rows.exponential.with_shared({name: get(f"shared/{name}") for name in batches.rows.exponential.shared})
    memory = Memory(exponential, model.prior.mass, batches)
    if [len(own) for own in batches.rounds] != header["rounds"]:
        raise ValueError(f"the checkpoint {str(saved.path)!r} has other rounds of batches; give another name, or delete it to begin anew.")
    memory.N, memory.s, memory.H = (get(f"memory/{name}") for name in ("N", "s", "H"))
    memory.ids, memory.next_id, memory.is_exact = header["ids"], header["next_id"], header["is_exact"]
    memory.total()
    batches._log_h[:] = get("log_h")
    rng = np.random.default_rng(0)
    rng.bit_generator.state = header["generator"]
    climb = Climb(memory, settings, rng)
    climb.last, bound = get("bounds").tolist()
    climb.number, climb.most, climb.has_converged = header["number"], settings.passes, header["has_converged"]
    climb.is_thorough, climb.creation = header["is_thorough"], births.THOROUGH if header["creation"] == BUILDING[1] else births.QUICK
    climb.targets.failed = {name: count for name, count in header["failed"]}
    climb.resting.until = {(a, b): until for a, b, until in header["resting"]}
    climb.not_deleted = set(header["not_deleted"])
    climb.has_tried_others = bool(header.get("has_tried_others", False))
    if "kept/N" in saved.arrays:
        climb.kept = Factors(memory.exponential, memory.mass, get("kept/N"), get("kept/s")), bound
    if "adopted" in header:
        own = header["adopted"]
        kept = Snapshot(get("adopted/N"), get("adopted/s"), get("adopted/H"), own["ids"])
        climb.adopted = own["bound"], kept, [tuple(pair) for pair in own["changed"]]
    return climb
