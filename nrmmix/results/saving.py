"""Fits as files: a zip archive of plain NumPy arrays with a JSON header, never pickle.

A file is checked whole before any of it reaches compiled code: what it claims to hold is compared with its size before memory is
taken, its formula passes the same check as one that is typed in, and labels, locations and parameters must be in range.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nrmmix import __version__
from nrmmix.common import archive, files
from nrmmix.common.seeds import acquire, release
from nrmmix.inference.mcmc import length
from nrmmix.inference.mcmc.chain import BY_CLUSTER, IN_STEPS, PROGRAM, SUMS, WHOLE, Checkpoint, Record
from nrmmix.inference.mcmc.cycle import Cycle, uncalled_program
from nrmmix.inference.mcmc.driving import REASONS
from nrmmix.inference.mcmc.moves.gibbs import Gibbs
from nrmmix.inference.mcmc.sampling import MAX_ITERATIONS, Run
from nrmmix.inference.mcmc.store import KINDS
from nrmmix.inference.methods import CYCLES
from nrmmix.inference.search.grower import STARTS
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.moves.gibbs import HEATED_SWEEPS
from nrmmix.kernels.partitions import numbered_by_appearance, one_location_each
from nrmmix.model.encoding import NotKnown, decode, decode_model, encode, encode_model, keeper
from nrmmix.model.pack import arrays_of
from nrmmix.model.specification import Specification
from nrmmix.posterior.draws import Draws, label_type
from nrmmix.results import search_file
from nrmmix.results import variational_file as variational
from nrmmix.results.mcmc import MCMCResult
from nrmmix.results.search import SearchResult
from nrmmix.results.variational import VariationalResult

FORMAT, VERSION, OLDEST = "nrmmix fit", 6, 6
PLAN = ("goal", "time_limit", "store", "most", "stopped")  # of a run that may go on
OF_START = ("one_start", "init_given")  # which files of before do not have
LABELS = ("labels", "locations")
OF_COLUMN, OF_ROW = 500, 100  # bytes, about, that a model takes for each column of sparse counts and each row beyond the data themselves
MAX_BITS = 4096  # of a seed
LONGEST = 300  # characters of a reason
RUN = ("method", "tune", "thin", "seed", "seconds", "moved", "interrupted")


def save(fit: MCMCResult | SearchResult | VariationalResult, path: Any) -> Path:
    """Write a fit to a file: model, data used, draws, and where the chains stand; of a variational fit the factors and passes, of a search
    the tree.

    Parameters
    ----------
    fit : MCMCResult, SearchResult or VariationalResult
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
    where = files.target(path, ".npz", "a saved fit")
    with files.replaced(where) as file:
        archive.write(file, *_of(fit))
    return where


def write(model: Specification, run: Run, path: Path) -> None:
    """Write a run on a model to a file whose path has been checked: whole or not at all."""
    header, arrays = encoded(model, partial(_chains, run))
    with files.replaced(path) as file:
        archive.write(file, header, arrays)


def check_model(model: Specification) -> None:
    """A TypeError where a model holds what cannot be saved; to be called before long work."""
    encode_model(model, keeper({}))


def encoded(
    model: Specification, more: Callable[[Callable[..., str]], dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a file; `more` is what the header has beside the model."""
    arrays: dict[str, np.ndarray] = {}
    put = keeper(arrays)
    return {"format": FORMAT, "version": VERSION, "nrmmix": __version__, **encode_model(model, put)} | more(put), arrays


def _chains(run: Run, put: Callable[..., str]) -> dict[str, Any]:
    """Draws, and where the chains stand."""
    values = {name: getattr(run, "label_changes" if name == "moved" else name) for name in (*RUN, *PLAN, *OF_START)}
    values["time_limit"] = None if run.time_limit is None or np.isinf(run.time_limit) else run.time_limit
    return {
        "run": values | {"cycle": encode(run.cycle)},
        "draws": {name: put(_narrow(values) if name in LABELS else values, f"draws/{name}") for name, values in run.draws.items()},
        "chains": [
            {
                "iteration": checkpoint.iteration,
                "within": list(checkpoint.within),
                "way": checkpoint.init,
                "generator": checkpoint.generator,
                "order": put(checkpoint.order, f"chain{c}/order"),
                "state": {name: put(values, f"chain{c}/{name}") for name, values in checkpoint.state.items()},
                "spare": {
                    name: put(_narrow(values) if name in ("labels", "location") else values, f"chain{c}/spare_{name}")
                    for name, values in checkpoint.extra_draws._asdict().items()
                },
            }
            for c, checkpoint in enumerate(run.checkpoints)
        ],
    }


def _of(fit: MCMCResult | SearchResult | VariationalResult) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a fit."""
    if isinstance(fit, VariationalResult):
        return encoded(fit.model, lambda put: variational.header_of(fit, put))
    if isinstance(fit, SearchResult):
        return encoded(fit.model, lambda put: search_file.header_of(fit, put))
    return encoded(fit.model, partial(_chains, replace(fit.run, checkpoints=fit.checkpoints)))


def to_bytes(fit: MCMCResult | SearchResult | VariationalResult) -> bytes:
    """A fit as pickle and copy keep it."""
    archive.write(file := io.BytesIO(), *_of(fit))
    return file.getvalue()


def from_bytes(content: bytes) -> MCMCResult | SearchResult | VariationalResult:
    """The fit of `to_bytes`."""
    return _restored(*archive.read(io.BytesIO(content), np.inf))


def load(path: Any, *, max_bytes: float = 16e9) -> MCMCResult | SearchResult | VariationalResult:
    """Read a fit that its method `save` has written: it predicts the same to the bit, and chains can be extended.

    Parameters
    ----------
    path : str or path-like
    max_bytes : float, default 16e9
        Refuse a file whose arrays would take more memory than this.

    Returns
    -------
    MCMCResult, SearchResult or VariationalResult

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
    archive.limit_of(max_bytes)
    try:
        where = Path(path)
    except TypeError:
        raise TypeError(f"the path of a saved fit must be a string or a path, not {path!r}.") from None
    if where.is_dir():
        raise IsADirectoryError(f"{str(where)!r} is a folder, not a saved fit.")
    if not where.is_file():
        raise FileNotFoundError(f"there is no file {str(where)!r}." if not where.exists() else f"{str(where)!r} is no file of its own.")
    from nrmmix.inference.variational.checkpoint import is_checkpoint

    if is_checkpoint(where):
        raise ValueError(f"{str(where)!r} is the checkpoint of a variational fit and no saved one; nrmmix.resume of it goes on to the fit.")
    with where.open("rb") as file:
        try:
            header, arrays = archive.read(file, max_bytes, _besides)
            if header["format"] != FORMAT:
                raise ValueError(f"it holds {header['format']!r}")
        except archive.TooLarge as error:
            raise ValueError(f"{str(where)!r}: {error}") from None
        except archive.BROKEN as error:
            raise ValueError(f"{str(where)!r} is no saved fit, or damaged: {_reason(error)}.") from None
    version = header.get("version")
    by_whom = f"{str(where)!r} was written by nrmmix {header.get('nrmmix')} in format {version}; this version reads formats"
    if type(version) is not int or version < 1:
        raise ValueError(f"{str(where)!r} is damaged: its version cannot be right.")
    if version > VERSION:
        raise ValueError(f"{by_whom} up to {VERSION}: install a newer nrmmix.")
    if version < OLDEST:
        raise ValueError(f"{by_whom} from {OLDEST} on: fit the model again.")
    try:
        return _restored(header, arrays)
    except NotKnown as error:
        raise ValueError(f"{str(where)!r} cannot be read: {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ValueError(f"{str(where)!r} is damaged: {_reason(error)}.") from error


def _reason(error: BaseException) -> str:
    text = str(error) if len(str(error)) < LONGEST else f"{str(error)[:LONGEST]} ..."
    return f"{type(error).__name__}: {text}".rstrip(".") if text else type(error).__name__


def _narrow(values: np.ndarray) -> np.ndarray:
    """Labels and locations in the smallest type that holds them."""
    kind = np.min_scalar_type(int(values.max(initial=0)))
    return values.view(kind) if values.dtype.itemsize == kind.itemsize else values.astype(kind)


# ---- reading

def _besides(header: dict[str, Any], claims: dict[str, tuple[tuple[int, ...], np.dtype]]) -> float:
    """Bytes that a fit takes beside the arrays of its file: labels of a wider type, and what a model makes of its data."""
    total = 0.0
    for name in LABELS:
        shape, dtype = claims.get(f"draws/{name}", ((0,), np.dtype(np.uint8)))
        wide = label_type(shape, 2 ** (8 * dtype.itemsize) - 1 if dtype.itemsize < 4 else 2**31 - 1)
        total += float(np.prod([float(length) for length in shape])) * wide.itemsize if wide != dtype else 0.0
    data = header["data"]
    total += OF_ROW * float(np.prod([float(length) for length in claims[data["used"]][0]]))
    if "sparse" in data:
        total += OF_COLUMN * float(data["shape"][1])
    return total


def _restored(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> MCMCResult | SearchResult | VariationalResult:
    get = arrays.__getitem__
    from nrmmix.api import Model

    with warnings.catch_warnings():  # what was dropped then is marked so, and nothing else can be dropped now
        warnings.filterwarnings("error", r".*rows? dropped", UserWarning)
        try:
            model = decode_model(Model, header, get)
        except UserWarning as warning:
            raise ValueError(f"its mask of used rows cannot be right: {warning}") from None
    if "factors" in header:
        return variational.restored(header, get, model, _insist)
    if "tree" in header:
        return search_file.restored(header, get, model, _insist)
    draws = {name: get(key) for name, key in header["draws"].items()}
    draws |= {name: _labels(draws[name], name) for name in LABELS if name in draws}
    run = {name: header["run"][name] for name in (*RUN, *PLAN)} | {name: header["run"].get(name, False) for name in OF_START}
    cycle = decode(header["run"]["cycle"])
    _check_run(model, run, cycle)
    _check_draws(model, draws, run["store"])
    shape = draws["n_clusters"].shape
    run["label_changes"] = run.pop("moved")
    checkpoints = tuple(_checkpoint(model, cycle, chain, get, run["store"]) for chain in header["chains"])
    _insist(len(checkpoints) == shape[0], "chains")
    for checkpoint in checkpoints:
        drawn = (checkpoint.iteration - run["tune"]) // run["thin"]
        _insist(drawn >= shape[1] if shape[1] else checkpoint.iteration >= 0, "iterations")
        _insist(len(checkpoint.extra_draws.scalars) == max(drawn, 0) - shape[1], "spare draws")
    return MCMCResult(model, Run(Draws(draws), **run, cycle=cycle, checkpoints=checkpoints))


def _labels(values: np.ndarray, name: str) -> np.ndarray:
    """Labels or locations in the type that they are kept in, without a copy where their bytes are the same."""
    _insist(values.dtype.kind in "iu" and values.dtype.isnative, f"draws of {name}")
    most = int(values.max(initial=0))
    _insist(most < 2**31 and int(values.min(initial=0)) >= 0, name)
    kind = label_type(values.shape, most)
    return values.view(kind) if values.dtype.itemsize == kind.itemsize else values.astype(kind)


def _check_run(model: Specification, run: dict[str, Any], cycle: Any) -> None:
    """Check what is said of a run: types and ranges."""
    for name, least in (("tune", 0), ("thin", 1), ("seed", 0)):
        _insist(type(run[name]) is int and run[name] >= least, name)
    _insist(run["tune"] <= MAX_ITERATIONS and run["thin"] <= MAX_ITERATIONS and run["seed"].bit_length() <= MAX_BITS, "tune, thin or seed")
    _insist(all(type(run[name]) in (int, float) and 0 <= run[name] < np.inf for name in ("seconds", "moved")), "seconds")
    _insist(all(type(run[name]) is bool for name in ("interrupted", *OF_START)) and type(run["method"]) is str, "run")
    goal, limit = run["goal"], run["time_limit"]
    _insist(goal == length.AUTO or (type(goal) is int and 0 <= goal <= MAX_ITERATIONS), "goal")
    _insist(limit is None or (type(limit) in (int, float) and limit > 0), "limit of time")
    _insist(type(run["most"]) is int and 0 <= run["most"] <= MAX_ITERATIONS and run["most"] % length.QUARTERS == 0, "number of draws")
    _insist(goal != length.AUTO or run["most"] > 0, "number of draws")
    _insist(run["store"] in KINDS, "list of what is kept")
    _insist(run["stopped"] in ("", *REASONS), "reason to stop")
    _insist(isinstance(cycle, Cycle) and run["method"] in (cycle.name, *CYCLES), f"method {run['method']!r}")
    _insist(not cycle.refusal(model), f"method {run['method']!r}")
    cycle.check(model, run["tune"], has_name=run["method"] in CYCLES)


def _insist(sound: bool, what: str) -> None:
    if not sound:
        raise ValueError(f"its {what} cannot be right")


def _check_draws(model: Specification, draws: dict[str, np.ndarray], store: str) -> None:
    """Names, shapes and ranges: compiled code trusts them."""
    n = model.n_obs
    P = 1 if model.grid is None else model.grid.distance.shape[2]
    per_row: dict[str, tuple[int, ...]] = {"labels": (n,)}
    if model.is_regression:
        per_row |= {"locations": (n,), "A": (P,)}
    if (slots := model.slots) is not None:
        per_row |= {"codes": (P, len(slots.n_codes)), "inclusion": slots.n_codes.shape}
    scalars = ("n_clusters", "log_joint", "mass", "sigma", *model.width_names, *(("u",) if model.has_u else ()))
    packed = model.packed
    per_row |= {"theta": (int(draws["n_clusters"].max(initial=0)), len(packed.explicit))} if len(packed.explicit) else {}
    per_row |= {name: (len(those),) for name, those in packed.shared_names.items()}
    per_row |= {"imputed": (int(np.count_nonzero(packed.rows.missing)),)} if packed.rows.missing.any() else {}
    per_row = {name: shape for name, shape in per_row.items() if store == "all" or (store == "partition" and name == "labels")}
    _insist(set(draws) == {*per_row, *scalars}, "list of draws")
    shape = draws["n_clusters"].shape
    _insist(len(shape) == 2 and shape[0] > 0, "number of draws")
    for name, values in draws.items():
        _insist(values.shape == shape + per_row.get(name, ()), f"shape of the draws of {name}")
        if name == "theta":
            there = np.arange(values.shape[2]) < draws["n_clusters"][..., None]
            _insist(values.dtype.kind == "f" and np.array_equal(np.isfinite(values).all(axis=3), there), "draws of theta")
        elif name == "codes":
            _insist(values.dtype == np.int16 and _are_codes(model, values), "draws of codes")
        elif name == "inclusion":
            _insist(values.dtype.kind == "f" and bool(((values >= 0) & (values <= 1)).all()), "draws of inclusion")
        elif name not in ("labels", "locations"):
            _insist(values.dtype.kind in "if" and bool(np.isfinite(values).all()), f"draws of {name}")
        _insist(name != "A" or bool((values >= 0).all()), "draws of A")
        if name in packed.shared_names:
            _insist(packed.permits(values, packed.shared_names[name]), f"draws of {name}")
        elif name in ("u", *model.width_names):
            _insist(bool((values > 0).all()), f"draws of {name}")
    _insist(bool(np.all(model.prior.permits(draws["mass"], draws["sigma"]))), "draws of mass or draws of sigma")
    _insist(model.prior.components == 0 or draws["n_clusters"].max(initial=0) <= model.prior.components, "numbers of clusters")
    if store == "scalars" or shape[1] == 0:
        return
    _check_labels(draws["labels"].reshape(-1, n), draws["n_clusters"].reshape(-1))
    if model.is_regression and store == "all":
        _check_locations(draws["labels"].reshape(-1, n), draws["locations"].reshape(-1, n), P)


def _are_codes(model: Specification, codes: np.ndarray) -> bool:
    return model.slots is None or codes.size == 0 or bool(((codes >= 0) & (codes <= model.slots.n_codes)).all())


def _check_labels(labels: np.ndarray, n_clusters: np.ndarray | None = None) -> None:
    found = numbered_by_appearance(labels)
    _insist(bool((found > 0).all()) and (n_clusters is None or bool((found == n_clusters).all())), "labels")


def _check_locations(labels: np.ndarray, locations: np.ndarray, P: int) -> None:
    _insist(bool(((locations >= 0) & (locations < P)).all()) and one_location_each(labels, locations), "locations")


def _checkpoint(model: Specification, cycle: Cycle, spec: dict[str, Any], get: Callable[[str], np.ndarray], store: str) -> Checkpoint:
    """Return where a chain stood; shapes are those of the model's arrays, cut to the clusters there are."""
    like_draws = Record.allocate(model, 0)
    extra = {name: get(key) for name, key in spec["spare"].items()}
    left_out = tuple(name for name in KINDS[store] if name != "A" or model.is_regression)
    spare = Record(*(_spare(name, extra[name], empty, left_out) for name, empty in like_draws._asdict().items()))
    _insist(len({len(values) for values in spare}) == 1, "spare draws")
    if len(spare.labels) and spare.labels.shape[1]:
        _check_labels(spare.labels)
        if spare.location.shape[1] and model.grid is not None:
            _check_locations(spare.labels, spare.location, model.grid.distance.shape[2])
    names = (*BY_CLUSTER, *WHOLE, "shared", "imputed")
    state = {name: get(spec["state"][name]) for name in names}
    K = state["size"].shape[0]
    _insist(K <= model.n_obs, "chain's clusters")
    within, order, init = _within(spec, get, state["labels"], cycle)
    midway = any(within) or len(order) > 0
    state |= {name: get(spec["state"][name]) for name in IN_STEPS if midway or (name == SUMS and name in spec["state"])}
    _, like = arrays_of(model, K, entries=())
    beside = {"shared": model.packed.shared * 1.0, "imputed": np.zeros(like_draws.imputed.shape[1])}
    for name, values in state.items():
        wanted = beside[name] if name in beside else layout.array_of(like, name)
        shape = wanted.shape[:-1] + (K,) if name in BY_CLUSTER else (K, *wanted.shape[1:]) if name in IN_STEPS else wanted.shape
        _insist(values.shape == shape and values.dtype == wanted.dtype, f"chain's {name}")
        sound = not np.isnan(values).any() if name in IN_STEPS else np.isfinite(values).all()  # logarithms of 0 are -inf
        _insist(bool(sound), f"chain's {name}")
    _insist(_are_codes(model, spare.codes) and _are_codes(model, state["codes"]), "chain's codes")
    _insist(bool(((state["inclusion"] >= 0) & (state["inclusion"] <= 1)).all()), "chain's inclusion")
    _insist(model.packed.permits(state["shared"]), "chain's shared")
    labels, hyper = state["labels"], state["hyper"]
    entered = labels[labels >= 0]
    _insist(labels.min(initial=0) >= -1 and labels.max(initial=-1) < K, "chain's labels")
    heat, still = int(state["num"][layout.Count.HEAT]), np.flatnonzero(labels < 0)
    redrawn = heat > 0 and len(still) == 0  # in a sweep at a power of the likelihood
    to_come = np.arange(len(labels) - len(order), len(labels)) if redrawn and len(order) <= len(labels) else still
    _insist(np.array_equal(np.sort(order), to_come), "chain's labels")
    _insist(np.array_equal(np.bincount(entered, minlength=K), state["size"]) and bool((state["size"] > 0).all()), "chain's labels")
    cursor = int(state["num"][layout.Count.CURSOR])
    _insist(int(state["num"][layout.Count.CLUSTERS]) == K and int(state["num"][layout.Count.HALT]) == 0, "chain's clusters")
    _insist(0 <= cursor < max(model.n_obs, 1) if within[2] else cursor == 0, "chain's clusters")
    _insist(0 <= heat <= HEATED_SWEEPS and (heat == 0 or len(order) > 0), "chain's start")
    P = like.cache.A.shape[0]
    _insist(bool(((state["location"] >= 0) & (state["location"] < P)).all()), "chain's locations")
    mass, sigma = float(hyper[layout.Hyper.MASS]), float(hyper[layout.Hyper.SIGMA])
    recorded = sigma if model.prior.records_sigma else 0.0  # what follows from the mass is recorded as 0
    right = model.prior.kernel_values(mass, recorded) == (mass, sigma) and bool(model.prior.permits(mass, recorded))
    _insist(right, "chain's hyperparameters")
    _insist(hyper[layout.Hyper.TAU] == model.prior.tau and bool((hyper[layout.Hyper.WIDTH :] > 0).all()), "chain's hyperparameters")
    _insist(model.prior.components == 0 or K <= model.prior.components, "chain's clusters")
    _insist(bool((state["v"] > 0).all() and (state["A"] >= 0).all()), "chain's v")
    _insist(bool((state["step"] > 0).all()), "chain's steps")
    memory = uncalled_program(cycle, model)
    for name, field in PROGRAM.items():
        empty, state[name] = getattr(memory, field), get(spec["state"][name])
        _insist(state[name].shape == empty.shape and state[name].dtype == empty.dtype, f"chain's {name}")
        _insist(bool(np.isfinite(state[name]).all()), f"chain's {name}")
    for move, learnt in zip(cycle.moves, state["kept"], strict=True):
        _insist(move.can_have_learnt(learnt, model), "chain's kept")
    calls = state["work"][:, layout.CALLS]
    _insist(bool((calls == np.floor(calls)).all() and (calls >= 1).all() and (calls <= loop.MAX_CALLS).all()), "chain's calls of moves")
    _insist(all(within[1] < calls[within[0]] for _ in range(within != (0, 0, 0))), "chain's calls of moves")
    release(acquire(spec["generator"]))
    _insist(type(spec["iteration"]) is int and 0 <= spec["iteration"] <= 2 * MAX_ITERATIONS, "iterations")
    return Checkpoint(spec["iteration"], spec["generator"], state, spare, within, order, init)


def _within(
    spec: dict[str, Any], get: Callable[[str], np.ndarray], labels: np.ndarray, cycle: Cycle
) -> tuple[tuple[int, int, int], np.ndarray, str]:
    """Return where in an iteration a chain stands, who has still to enter, and how."""
    within, init = tuple(spec.get("within", (0, 0, 0))), spec.get("way", "")
    order = get(spec["order"]) if "order" in spec else np.zeros(0, np.int64)
    sound = len(within) == 3 and all(type(place) is int and place >= 0 for place in within) and within[2] <= 1
    _insist(sound and within[0] < len(cycle.moves), "chain's place")
    # a call that has begun can only be taken up again where nothing is lost between calls: of a sweep over all rows
    _insist(within[2] == 0 or cycle.moves[within[0]] == Gibbs(), "chain's place")
    _insist(order.dtype == np.int64 and order.ndim == 1 and labels.ndim == 1 and init in ("", *STARTS), "chain's start")
    return within, order, init


def _spare(name: str, values: np.ndarray, empty: np.ndarray, left_out: tuple[str, ...]) -> np.ndarray:
    if values.dtype.kind in "iu":
        most = np.iinfo(empty.dtype if empty.dtype.kind == "i" else np.int32).max
        _insist(int(values.max(initial=0)) <= most and int(values.min(initial=0)) >= 0, f"spare {name}")
        values = values.astype(empty.dtype)
    shape = (0,) * (empty.ndim - 1) if name in left_out else empty.shape[1:]
    if name == "explicit" and values.ndim == 3 and shape[0]:
        shape = (min(max(values.shape[1], 1), shape[0]), shape[1])  # room for as many clusters as there have been
    _insist(values.ndim == empty.ndim and values.shape[1:] == shape and values.dtype == empty.dtype, f"spare {name}")
    return values
