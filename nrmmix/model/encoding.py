"""Models and tables as JSON and plain arrays, and back.

Only classes of the registry are ever made from what a file says.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common import archive, registry
from nrmmix.common.warnings import warn
from nrmmix.model.frame import arrays
from nrmmix.model.frame.formula import ModelFrame, restored_frame
from nrmmix.model.frame.quantiles import Counted
from nrmmix.model.frame.sources.opening import found_again
from nrmmix.model.frame.streaming import Index, StreamedFrame, restored_stream


class NotKnown(ValueError):
    """A file names a class, or options of it, that are not known here."""


def encode(value: Any) -> Any:
    """A part of a model as JSON; floats keep every bit.  A TypeError for an object of a class that cannot be saved.

    Examples
    --------
    >>> import nrmmix as nm
    >>> encode(nm.NGGP(mass=2.0))
    {'class': 'NGGP', 'mass': 2.0, 'sigma': {'class': 'Beta', 'a': 1.0, 'b': 2.0}, 'tau': 1.0}
    """
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, dict):  # families by the names of responses
        return {"families": [[list(key) if isinstance(key, tuple) else key, encode(item)] for key, item in value.items()]}
    if isinstance(value, (np.ndarray, list, tuple)):
        return [encode(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]
    known = registry.plugin_of(value)
    if known is None:
        there = ", ".join(one.made.__name__ for one in registry.plugins())
        raise TypeError(f"a model with {value!r} cannot be saved; only {there} can, and classes registered by nm.register.")
    for name in known.arguments:
        if not hasattr(value, name):
            raise TypeError(f"{value!r} cannot be saved: its class has the argument {name!r}, and the object no attribute of that name.")
    return {"class": known.made.__name__} | {name: encode(getattr(value, name)) for name in known.arguments}


def decode(value: Any) -> Any:
    """Return what `encode` was given; NotKnown if a class or an option is not known, or missing: defaults may not be those of then.

    Examples
    --------
    >>> import nrmmix as nm
    >>> decode({"class": "Gamma", "shape": 1.0, "rate": 2.0})
    Gamma(shape=1.0, rate=2.0)
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if isinstance(value, dict) and "families" in value:
        return {tuple(key) if isinstance(key, list) else key: decode(item) for key, item in value["families"]}
    return _made(dict(value)) if isinstance(value, dict) else value


def _made(values: dict[str, Any]) -> Any:
    name = values.pop("class")
    known = registry.named(name)
    if known is None:
        raise NotKnown(
            f"it holds an object of the class {name!r}, which is not known here; if it is one of your own, import it and call "
            f"nm.register({name}) first."
        )
    for one in known.arguments:
        if one not in values:
            raise NotKnown(f"it holds a {name} without the option {one!r}, which was not saved; fit the model again.")
    for one in values:
        if one not in known.arguments:
            raise NotKnown(f"it holds a {name} with {one!r}, which is no option of the class {name} that is known here.")
    return known.made(**{one: decode(values[one]) for one in known.arguments})


# ---- models

def encode_model(model: Any, put: Callable[[np.ndarray], str]) -> dict[str, Any]:
    """A specification with its data as JSON; `put` keeps an array and returns its name.  A TypeError for what cannot be saved."""
    parts = {part: encode(getattr(model, part)) for part in ("prior", "family", "kernel")}
    return {"model": {"formula": model.formula} | parts, "data": encode_source(model.frame, put)}


def decode_model(made: type, spec: dict[str, Any], get: Callable[[str], np.ndarray]) -> Any:
    """The specification of `encode_model`, as an object of the class `made`."""
    parts, frame = spec["model"], decode_source(spec["model"]["formula"], spec["data"], get)
    used = frame.used
    if not (used.dtype == bool and used.ndim == 1 and int(used.sum()) == frame.response.shape[0]):
        raise ValueError("its mask of used rows cannot be right")
    return made(parts["formula"], frame, **{part: decode(parts[part]) for part in ("prior", "family", "kernel")})


def to_bytes(model: Any) -> bytes:
    """A specification with its data, as pickle and copy keep it."""
    stored: dict[str, np.ndarray] = {}
    archive.write(file := io.BytesIO(), encode_model(model, keeper(stored)), stored)
    return file.getvalue()


def from_bytes(made: type, content: bytes) -> Any:
    """The specification of `to_bytes`."""
    header, stored = archive.read(io.BytesIO(content), math.inf)
    return decode_model(made, header, stored.__getitem__)


def keeper(stored: dict[str, np.ndarray]) -> Callable[..., str]:
    """A function that keeps arrays in `stored`, and returns the names that they are kept by."""

    def put(array: np.ndarray, name: str = "") -> str:
        name = name or f"data/{len(stored)}"
        stored[name] = array
        return name

    return put


# ---- data

def encode_source(frame: ModelFrame, put: Callable[[np.ndarray], str]) -> dict[str, Any]:
    """The data of a model as JSON; `put` keeps an array and returns its name."""
    common = {"used": put(frame.used), "from_array": frame.from_array, "reads": sorted(set(frame.reads)), "designs": list(frame.designs)}
    if frame.first_dates:
        common["first_dates"] = {name: date.isoformat() for name, date in frame.first_dates.items()}
    if frame.weight is not None:
        common["weight"] = put(frame.weight)
    if frame.weighed_by is not None:
        common["weighed_by"] = frame.weighed_by
    if isinstance(frame, StreamedFrame):  # the few rows that stand for the others, and where these are
        places = frame.places
        common["stream"] = {
            "path": None if frame.rows is None else frame.rows.path, "missing": frame.missing, "digest": places.digest,
            "has_gaps": places.has_missing, **{name: put(getattr(places, name)) for name in ("rows", "used", "checks", "low", "high")},
            "covariates": [[put(array) for array in counted] for counted in places.covariates], "size": places.size,
            "sums": {name: put(values) for name, values in frame.sums.items()}, "has_first": frame.has_first,
        }
    if frame.is_sparse:
        counts = frame.response
        spec = common | {"sparse": [put(counts.indptr), put(counts.indices), put(counts.data)], "shape": list(counts.shape)}
        if frame.from_array:
            return spec
        return spec | {"names": list(frame.response_names)} | encode_table(pd.DataFrame(index=frame.index), put)
    return common | encode_table(frame.source, put) | {"reads": list(frame.reads)}


def decode_source(formula: str | None, spec: dict[str, Any], get: Callable[[str], np.ndarray]) -> ModelFrame:
    """The data of `encode_source`."""
    if "sparse" in spec:
        from scipy.sparse import csr_array

        indptr, indices, counts = map(get, spec["sparse"])
        source = csr_array((counts, indices, indptr), shape=spec["shape"])
        source.check_format(full_check=True)
        reads = ["composition"] * source.shape[1]
        if "names" in spec:
            source = pd.DataFrame.sparse.from_spmatrix(source, decode_table(spec, get).index, spec["names"])
    else:
        source, reads = decode_table(spec, get), spec["reads"]
    first_dates = {name: pd.Timestamp(date) for name, date in spec.get("first_dates", {}).items()}
    weight = get(spec["weight"]) if "weight" in spec else None
    if weight is not None and not (weight.shape == (source.shape[0],) and weight.dtype == np.float64 and bool((weight > 0).all())):
        raise ValueError("its weights of rows cannot be right")
    of_rows = weight, spec.get("weighed_by"), first_dates
    few = formula, source, get(spec["used"]), bool(spec["from_array"]), reads, spec["designs"], *of_rows
    if "stream" not in spec:
        return restored_frame(*few)
    own = spec["stream"]
    rows, used, checks, low, high = (get(own[name]) for name in ("rows", "used", "checks", "low", "high"))
    if not (rows.ndim == 1 and rows.shape == used.shape and len(rows) > 1 and (np.diff(rows) >= 0).all() and (np.diff(used) >= 0).all()):
        raise ValueError("its places of rows cannot be right")
    counted = tuple(Counted(*map(get, names)) for names in own.get("covariates", []))
    for one in counted:
        sound = one.values.ndim == 1 and one.values.shape == one.sizes.shape and len(one.values) > 0 and one.sizes.dtype.kind in "if"
        if not (sound and (np.diff(one.values) > 0).all() and (one.sizes > 0).all()):
            raise ValueError("its values of covariates cannot be right")
    size = own.get("size")
    ends = low, high, bool(own["has_gaps"])
    places = Index(rows, used, str(own["digest"]), *ends, counted, None if size is None else float(size), checks)
    sums = {name: get(key) for name, key in own.get("sums", {}).items()}
    return restored_stream(*few, found_again(own["path"]), places, str(own["missing"]), None, sums, bool(own.get("has_first", False)))


# ---- tables

def encode_table(frame: pd.DataFrame, put: Callable[[np.ndarray], str]) -> dict[str, Any]:
    """A table of numbers, text and categories as JSON; `put` keeps an array and returns its name.

    Of numbers only those types stay that NumPy has, which models read alike.
    """
    columns = [{"name": name} | _encode_column(frame[name], name, put) for name in frame]
    levels = [frame.index.get_level_values(level) for level in range(frame.index.nlevels)]
    return {"columns": columns, "index": [_encode_index(level, put) for level in levels]}


def decode_table(spec: dict[str, Any], get: Callable[[str], np.ndarray]) -> pd.DataFrame:
    """The table of `encode_table`; `get` finds an array by its name."""
    levels = [_decode_labels(level, get).rename(level["name"]) for level in spec["index"]]
    index = levels[0] if len(levels) == 1 else pd.MultiIndex.from_arrays(levels)
    columns = {column["name"]: _decode_column(column, get) for column in spec["columns"]}
    return pd.DataFrame(columns, index=index)


def _encode_column(values: pd.Series, name: str, put: Callable[[np.ndarray], str]) -> dict[str, Any]:
    declared = isinstance(values.dtype, pd.CategoricalDtype)  # also levels that do not occur
    read = values.array if declared else arrays.column(values, name, finite=False)  # ends of intervals may be infinite
    if isinstance(read, np.ndarray):
        plain = values.to_numpy() if isinstance(values.dtype, np.dtype) and values.dtype.kind in "biuf" else read
        return {"values": put(plain)}
    categories = _encode_labels(read.categories, put)
    if categories is None:
        kind = type(read.categories[0]).__name__
        raise TypeError(f"the column {name!r} has categories of type {kind}, which cannot be saved; make them text or numbers.")
    return {"codes": put(np.asarray(read.codes)), "categories": categories, "ordered": bool(read.ordered), "declared": declared}


def _decode_column(spec: dict[str, Any], get: Callable[[str], np.ndarray]) -> Any:
    if "values" in spec:
        return get(spec["values"])
    read = pd.Categorical.from_codes(get(spec["codes"]), categories=_decode_labels(spec["categories"], get), ordered=spec["ordered"])
    return read if spec.get("declared", True) else list(read)  # text


def _encode_index(level: pd.Index, put: Callable[[np.ndarray], str]) -> dict[str, Any]:
    name = level.name if level.name is None or isinstance(level.name, (str, int)) else str(level.name)
    labels = _encode_labels(level, put)
    if labels is None:
        warn(f"row labels such as {level[0]!r} are saved as text")
        labels = {"items": [str(item) for item in level]}
    return {"name": name} | labels


def _encode_labels(labels: pd.Index, put: Callable[[np.ndarray], str]) -> dict[str, Any] | None:
    """Row labels or categories; None where they are of a type that files do not hold."""
    if isinstance(labels, pd.IntervalIndex):
        ends = [_encode_labels(end, put) for end in (labels.left, labels.right)]
        return None if None in ends else {"left": ends[0], "right": ends[1], "closed": labels.closed}
    zone = getattr(labels, "tz", None)
    if zone is not None:
        if not _is_named(str(zone)):
            return None
        return {"values": put(labels.tz_convert("UTC").tz_localize(None).to_numpy()), "zone": str(zone)}
    if isinstance(labels.dtype, np.dtype) and labels.dtype.kind in "biufmM":
        return {"values": put(labels.to_numpy())}
    items = labels.tolist()
    plain = all(item is None or isinstance(item, (str, bool, int)) or (isinstance(item, float) and math.isfinite(item)) for item in items)
    return {"items": items} if plain else None


def _decode_labels(spec: dict[str, Any], get: Callable[[str], np.ndarray]) -> pd.Index:
    if "left" in spec:
        return pd.IntervalIndex.from_arrays(*(_decode_labels(spec[end], get) for end in ("left", "right")), closed=spec["closed"])
    if "items" in spec:
        return pd.Index(spec["items"])
    labels = pd.Index(get(spec["values"]))
    return labels.tz_localize("UTC").tz_convert(spec["zone"]) if "zone" in spec else labels


def _is_named(zone: str) -> bool:
    """Whether the name alone finds a time zone again."""
    try:
        pd.Timestamp(0, tz="UTC").tz_convert(zone)
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError
        return False
    return True
