"""Fits as files: a zip archive of plain NumPy arrays with a JSON header, never pickle.

A file is checked whole before any of it reaches compiled code: what it claims to hold is compared with its size before memory is
taken, its formula passes the same check as one that is typed in, and labels, locations and parameters must be in range.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from nrmmix.common import files
from nrmmix.inference.mcmc.chain import BY_CLUSTER, PROGRAM, WHOLE, Checkpoint, Record, generator
from nrmmix.inference.mcmc.cycle import Cycle, program
from nrmmix.inference.mcmc.sampling import Run
from nrmmix.inference.methods import CYCLES
from nrmmix.kernels import chain as loop
from nrmmix.kernels.checks import numbered_by_appearance, one_location_each
from nrmmix.kernels.core import state as layout
from nrmmix.model.encoding import NotKnown, decode, decode_source, encode, encode_source
from nrmmix.model.pack import arrays_of
from nrmmix.model.specification import Specification
from nrmmix.posterior.draws import Draws
from nrmmix.results import older
from nrmmix.results import variational_file as variational
from nrmmix.results.mcmc import MCMCResult
from nrmmix.results.variational import VariationalResult

FORMAT, VERSION, OLDEST = "nrmmix fit", 5, 3  # format 3 may lack options of moves, which is found where they are read
HEADER = "header"
WRITTEN = {"explicit": "held"}  # names in files that differ from those of fields
RUN = ("method", "tune", "thin", "seed", "seconds", "moved", "interrupted")


def save(fit: MCMCResult | VariationalResult, path: Any) -> Path:
    """Write a fit to a file: model, data used, draws, and where the chains stand; of a variational fit the factors and passes.

    Parameters
    ----------
    fit : MCMCResult or VariationalResult
    path : str or path-like
        File to write, its name ending in .npz; one that exists is replaced once the new one is complete.

    Returns
    -------
    Path
        Of the file.

    Raises
    ------
    ValueError, TypeError
        If the name ends otherwise, or the model or a column holds what cannot be saved.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, nrmmix as nm
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = nm.load(fit.save(f"{folder}/galaxy.npz"))
    >>> again.predict(kind="density").equals(fit.predict(kind="density"))
    True
    """
    from nrmmix import __version__

    where = files.target(path, ".npz", "a saved fit")
    held: dict[str, np.ndarray] = {}

    def put(array: np.ndarray, name: str = "") -> str:
        name = name or f"data/{len(held)}"
        held[name] = array
        return name

    model, frame = fit.model, fit.model.frame
    header = {
        "format": FORMAT,
        "version": VERSION,
        "nrmmix": __version__,
        "model": {"formula": model.formula} | {part: encode(getattr(model, part)) for part in ("prior", "family", "kernel")},
        "data": encode_source(frame, put),
    } | (variational.header_of(fit, put) if isinstance(fit, VariationalResult) else _chains(fit, put))
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8)
    with files.replaced(where) as file:
        np.savez_compressed(file, **{HEADER: text}, **held)
    return where


def _chains(fit: MCMCResult, put: Callable[..., str]) -> dict[str, Any]:
    """Draws, and where the chains stand."""
    return {
        "run": {name: getattr(fit, name) for name in RUN} | {"cycle": encode(fit.cycle)},
        "draws": {name: put(_narrow(values), f"draws/{name}") for name, values in fit.draws.items()},
        "chains": [
            {
                "iteration": checkpoint.iteration,
                "generator": checkpoint.generator,
                "state": {name: put(values, f"chain{c}/{name}") for name, values in checkpoint.state.items()},
                "spare": {
                    WRITTEN.get(name, name): put(_narrow(values), f"chain{c}/spare_{WRITTEN.get(name, name)}")
                    for name, values in checkpoint.ahead._asdict().items()
                },
            }
            for c, checkpoint in enumerate(fit.checkpoints)
        ],
    }


def load(path: Any, *, max_bytes: float = 16e9) -> MCMCResult | VariationalResult:
    """Read a fit that its method `save` has written: it predicts the same to the bit, and chains can be extended.

    Parameters
    ----------
    path : str or path-like
    max_bytes : float, default 16e9
        Refuse a file whose arrays would take more memory than this.

    Returns
    -------
    MCMCResult or VariationalResult

    Raises
    ------
    ValueError
        If the file is damaged, is none of these, was written by a newer version or one too old, or is too large; the message says which.
    OSError
        If there is no such file, or it cannot be read.

    Examples
    --------
    >>> import tempfile, nrmmix as nm
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     nm.load(fit.save(f"{folder}/galaxy.npz")).draws.n_draws
    50
    """
    where = Path(path)
    if where.is_dir():
        raise IsADirectoryError(f"{str(where)!r} is a folder, not a saved fit.")
    if not where.is_file():
        raise FileNotFoundError(f"there is no file {str(where)!r}.")
    with where.open("rb") as file:
        try:
            held = _arrays(file, max_bytes)
            header = json.loads(bytes(held[HEADER]))
            if header["format"] != FORMAT:
                raise ValueError(f"it holds {header['format']!r}")
        except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, TypeError, ValueError, RuntimeError, OSError) as error:
            if isinstance(error, _TooLarge):
                raise ValueError(f"{str(where)!r}: {error}") from None
            raise ValueError(f"{str(where)!r} is no saved fit, or damaged: {_reason(error)}.") from None
    version = header.get("version")
    by_whom = f"{str(where)!r} was written by nrmmix {header.get('nrmmix')} in format {version}; this version reads formats"
    if not isinstance(version, int) or version > VERSION:
        raise ValueError(f"{by_whom} up to {VERSION}: install a newer nrmmix.")
    if version < OLDEST:
        raise ValueError(f"{by_whom} from {OLDEST} on: fit the model again.")
    try:
        return _restored(header, held)
    except NotKnown as error:
        raise ValueError(f"{str(where)!r} cannot be read: {error}") from None
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ValueError(f"{str(where)!r} is damaged: {_reason(error)}.") from error


class _TooLarge(ValueError):
    pass


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(".") if str(error) else type(error).__name__


def _narrow(values: np.ndarray) -> np.ndarray:
    """Labels and locations in the smallest type that holds them."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0)))) if values.dtype == np.int32 else values


# ---- reading

def _arrays(file: BinaryIO, max_bytes: float) -> dict[str, np.ndarray]:
    """All arrays of the archive, once what their headers claim agrees with the sizes of the archive's members and with the limit."""
    total = 0
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            with archive.open(member) as stream:
                version = np.lib.format.read_magic(stream)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(stream)
                claimed = dtype.itemsize
                for length in shape:
                    claimed *= length
                if dtype.hasobject or claimed + stream.tell() != member.file_size:
                    raise ValueError(f"{member.filename} is not what it claims to be")
            total += claimed
            if total > max_bytes:
                raise _TooLarge(f"its arrays would take more than {max_bytes / 1e9:.3g} GB; give max_bytes= if you trust the file.")
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _restored(header: dict[str, Any], held: dict[str, np.ndarray]) -> MCMCResult | VariationalResult:
    spec, data = header["model"], header["data"]
    get = held.__getitem__
    of_v = header["version"] < older.OF_A
    frame = decode_source(spec["formula"], data, get, by_level=not of_v)
    used = frame.used
    _insist(used.dtype == bool and used.ndim == 1 and int(used.sum()) == frame.response.shape[0], "mask of used rows")
    from nrmmix.api import Model

    if of_v:
        spec = spec | {"kernel": older.with_all_options(spec["kernel"])}
    model = Model(spec["formula"], frame, **{part: decode(spec[part]) for part in ("prior", "family", "kernel")})
    if "factors" in header:
        return variational.restored(header, get, model, _insist)
    draws = {name: get(key) for name, key in header["draws"].items()}
    draws |= {name: draws[name].astype(np.int32) for name in ("labels", "locations") if name in draws}
    if of_v and model.is_regression:
        widths = np.stack([draws[name] for name in model.width_names], axis=-1)
        draws["A"], draws["log_joint"] = older.A_and_log_joint(model, draws.pop("v"), draws["log_joint"], widths)
    _check_draws(model, draws)
    shape = draws["n_clusters"].shape
    run = {name: header["run"][name] for name in RUN}
    run["label_changes"] = run.pop("moved")
    cycle = decode(header["run"]["cycle"])
    _insist(isinstance(cycle, Cycle) and run["method"] in (cycle.name, *CYCLES), f"method {run['method']!r}")
    _insist(not cycle.refusal(model), f"method {run['method']!r}")
    cycle.check(model, run["tune"], has_name=run["method"] in CYCLES)
    for name in ("tune", "thin", "seed"):
        _insist(type(run[name]) is int and run[name] >= (name == "thin"), name)
    checkpoints = tuple(_checkpoint(model, cycle, chain, get, of_v) for chain in header["chains"])
    _insist(len(checkpoints) == shape[0], "chains")
    _insist(all(checkpoint.iteration >= run["tune"] + run["thin"] * shape[1] for checkpoint in checkpoints), "iterations")
    return MCMCResult(model, Run(Draws(draws), **run, cycle=cycle, checkpoints=checkpoints))


def _insist(sound: bool, what: str) -> None:
    if not sound:
        raise ValueError(f"its {what} cannot be right")


def _check_draws(model: Specification, draws: dict[str, np.ndarray]) -> None:
    """Names, shapes and ranges: compiled code trusts them."""
    n = model.n_obs
    P = 1 if model.grid is None else model.grid.distance.shape[2]
    per_row: dict[str, tuple[int, ...]] = {"labels": (n,)} | ({"locations": (n,), "A": (P,)} if model.is_regression else {})
    scalars = ("n_clusters", "log_joint", "mass", "sigma", *model.width_names, *(("u",) if model.has_u else ()))
    packed = model.packed
    per_row |= {"theta": (int(draws["n_clusters"].max()), len(packed.explicit))} if len(packed.explicit) else {}
    per_row |= {"precision": (len(packed.shared),)} if len(packed.shared) else {}
    per_row |= {"imputed": (np.count_nonzero(packed.rows.missing),)} if packed.rows.missing.any() else {}
    _insist(set(draws) == {*per_row, *scalars}, "list of draws")
    shape = draws["n_clusters"].shape
    _insist(len(shape) == 2 and min(shape) > 0, "number of draws")
    for name, values in draws.items():
        _insist(values.shape == shape + per_row.get(name, ()), f"shape of the draws of {name}")
        if name == "theta":
            there = np.arange(values.shape[2]) < draws["n_clusters"][..., None]
            _insist(values.dtype.kind == "f" and np.array_equal(np.isfinite(values).all(axis=3), there), "draws of theta")
        elif name not in ("labels", "locations"):
            _insist(values.dtype.kind in "if" and bool(np.isfinite(values).all()), f"draws of {name}")
        _insist(name != "A" or bool((values >= 0).all()), "draws of A")
        if name in ("u", "precision", *model.width_names):
            _insist(bool((values > 0).all()), f"draws of {name}")
    _insist(bool(np.all(model.prior.permits(draws["mass"], draws["sigma"]))), "draws of mass or draws of sigma")
    _insist(model.prior.components == 0 or draws["n_clusters"].max() <= model.prior.components, "numbers of clusters")
    _check_labels(draws["labels"].reshape(-1, n), draws["n_clusters"].reshape(-1))
    if model.is_regression:
        _check_locations(draws["labels"].reshape(-1, n), draws["locations"].reshape(-1, n), P)


def _check_labels(labels: np.ndarray, n_clusters: np.ndarray | None = None) -> None:
    found = numbered_by_appearance(labels)
    _insist(bool((found > 0).all()) and (n_clusters is None or bool((found == n_clusters).all())), "labels")


def _check_locations(labels: np.ndarray, locations: np.ndarray, P: int) -> None:
    _insist(bool(((locations >= 0) & (locations < P)).all()) and one_location_each(labels, locations), "locations")


def _checkpoint(
    model: Specification, cycle: Cycle, spec: dict[str, Any], get: Callable[[str], np.ndarray], of_v: bool = False
) -> Checkpoint:
    """Where a chain stood; shapes are those of the model's arrays, cut to the clusters there are."""
    room = Record.room(model, 1, 0).part(0)
    ahead = {name: get(key) for name, key in spec["spare"].items()}
    if of_v:
        ahead["A"] = ahead.pop("v")
        if model.is_regression:
            scalars = ahead["scalars"].copy()
            widths = scalars[:, [loop.R_WIDTH + j for j in model.width_columns.values()]]
            ahead["A"], scalars[:, loop.R_JOINT] = older.A_and_log_joint(model, ahead["A"], scalars[:, loop.R_JOINT], widths)
            ahead["scalars"] = scalars
    spare = Record(*(_spare(name, ahead[WRITTEN.get(name, name)], empty) for name, empty in room._asdict().items()))
    _insist(len({len(values) for values in spare}) == 1, "spare draws")
    if len(spare.labels):
        _check_labels(spare.labels)
        if spare.location.shape[1]:
            _check_locations(spare.labels, spare.location, model.grid.distance.shape[2])
    state = {name: get(spec["state"][name]) for name in (*BY_CLUSTER, *WHOLE, "shared", "imputed")}
    K = state["size"].shape[0]
    _, like = arrays_of(model, K, entries=())
    for name, values in state.items():
        wanted = {"shared": model.packed.shared * 1.0, "imputed": np.zeros(room.imputed.shape[1])}.get(name, getattr(like, name, None))
        shape = wanted.shape[:-1] + (K,) if name in BY_CLUSTER else wanted.shape
        _insist(values.shape == shape and values.dtype == wanted.dtype, f"chain's {name}")
        _insist(bool(np.isfinite(values).all()), f"chain's {name}")
    labels, hyper = state["labels"], state["hyper"]
    _insist(labels.min() >= 0 and np.array_equal(np.bincount(labels, minlength=K), state["size"]), "chain's labels")
    _insist(int(state["num"][layout.N_CLUSTERS]) == K and int(state["num"][layout.CURSOR]) == 0, "chain's clusters")
    P = like.A.shape[0]
    _insist(bool(((state["location"] >= 0) & (state["location"] < P)).all()), "chain's locations")
    mass, sigma = float(hyper[layout.MASS]), float(hyper[layout.SIGMA])
    recorded = sigma if model.prior.records_sigma else 0.0  # what follows from the mass is recorded as 0
    right = model.prior.kernel_values(mass, recorded) == (mass, sigma) and bool(model.prior.permits(mass, recorded))
    _insist(right, "chain's hyperparameters")
    _insist(hyper[layout.TAU] == model.prior.tau and bool((hyper[layout.WIDTH :] > 0).all()), "chain's hyperparameters")
    _insist(model.prior.components == 0 or K <= model.prior.components, "chain's clusters")
    _insist(bool((state["v"] > 0).all() and (state["A"] >= 0).all()), "chain's v")
    memory = program(cycle, model)
    for name, field in PROGRAM.items():
        empty, state[name] = getattr(memory, field), get(spec["state"][name])
        _insist(state[name].shape == empty.shape and state[name].dtype == empty.dtype, f"chain's {name}")
        _insist(bool(np.isfinite(state[name]).all()), f"chain's {name}")
    for move, learnt in zip(cycle.moves, state["kept"], strict=True):
        _insist(move.can_have_learnt(learnt, model), "chain's kept")
    calls = state["work"][:, layout.CALLS]
    _insist(bool((calls == np.floor(calls)).all() and (calls >= 1).all() and (calls <= loop.MOST_CALLS).all()), "chain's calls of moves")
    generator(spec["generator"])
    _insist(type(spec["iteration"]) is int, "iterations")
    return Checkpoint(spec["iteration"], spec["generator"], state, spare)


def _spare(name: str, values: np.ndarray, empty: np.ndarray) -> np.ndarray:
    values = values.astype(empty.dtype) if values.dtype.kind in "iu" else values
    _insist(values.ndim == empty.ndim and values.shape[1:] == empty.shape[1:] and values.dtype == empty.dtype, f"spare {name}")
    return values
