"""Models and tables as JSON and plain arrays, and back.

Only the classes listed here, and those that the caller has registered, are ever made from what a file says.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.common.warnings import warn
from nrmmix.inference.mcmc import cycle as methods
from nrmmix.inference.mcmc import moves
from nrmmix.model import families
from nrmmix.model.frame import arrays
from nrmmix.model.frame.formula import ModelFrame, restored_frame
from nrmmix.model.priors import covariate_kernels as covariates
from nrmmix.model.priors import measures as priors

# Classes that a file may name, with the arguments that make an object again.
ARGUMENTS: dict[type, tuple[str, ...]] = {
    priors.Gamma: ("shape", "rate"),
    priors.Beta: ("a", "b"),
    priors.LogNormal: ("mu", "sd"),
    priors.DirichletProcess: ("mass",),
    priors.NGGP: ("mass", "sigma", "tau"),
    priors.NormalizedInverseGaussian: ("mass", "tau"),
    priors.PitmanYor: ("mass", "sigma"),
    priors.NormalizedStable: ("sigma",),
    priors.FiniteMixture: ("components", "mass"),
    families.Gaussian: families.Gaussian.arguments,
    families.Multinomial: families.Multinomial.arguments,
    families.Poisson: families.Poisson.arguments,
    families.Bernoulli: families.Bernoulli.arguments,
    families.Categorical: families.Categorical.arguments,
    families.Regression: families.Regression.arguments,
    families.SemiconjugateGaussian: families.SemiconjugateGaussian.arguments,
    covariates.SquaredExponential: ("width", "locations", "scale"),
    covariates.Box: ("width", "locations", "scale"),
    moves.Gibbs: ("subset",),
    moves.SplitMerge: ("proposals", "scans", "proposal"),
    moves.Slice: ("max_atoms",),
    moves.Permutation: ("dynamic_program", "beam", "order", "integrate_mass"),
    moves.TreeGuided: ("global_moves", "depth", "scan_share", "scans", "refresh", "eta"),
    moves.PublishedTreeGuided: ("global_moves", "depth", "repaired"),
    methods.Cycle: ("moves", "share"),
}
_CLASSES = {kind.__name__: kind for kind in ARGUMENTS}


class UnknownClass(ValueError):
    """A file names a class that is not registered."""


def register(kind: type, arguments: tuple[str, ...]) -> None:
    """Let saved fits hold objects of a class of one's own, such as a prior derived from `nrmmix.GibbsType`.

    To be called before such a fit is saved, and in every session before `nrmmix.load` reads one.

    Parameters
    ----------
    kind : type
        Its name must be that of no other class that files may hold.
    arguments : tuple of str
        Arguments of the class that make an object again; each is also the name of an attribute that holds it.  They may be
        numbers, strings, lists and other objects that can be saved.

    Raises
    ------
    ValueError
        If kind is no class, its name is taken, or arguments are not names.

    Examples
    --------
    >>> import nrmmix as nm
    >>> class Antoniak(nm.GibbsType):
    ...     def __init__(self, mass):
    ...         super().__init__(sigma=0.0)
    ...         self.concentration = mass
    >>> register(Antoniak, ("concentration",))
    Traceback (most recent call last):
    ValueError: Antoniak has no argument 'concentration'; its arguments are mass.
    """
    if not isinstance(kind, type):
        raise ValueError(f"a class is needed, not {kind!r}.")
    known = _CLASSES.get(kind.__name__)
    if known is not None and known.__module__.startswith("nrmmix."):
        raise ValueError(f"files name the package's own {kind.__name__} so; give the class another name.")
    if isinstance(arguments, str) or not all(isinstance(name, str) for name in arguments):
        raise ValueError(f"arguments must be a tuple of names, not {arguments!r}.")
    accepted = inspect.signature(kind).parameters
    for name in arguments:
        if name not in accepted:
            raise ValueError(f"{kind.__name__} has no argument {name!r}; its arguments are {', '.join(accepted)}.")
    if known is not None:  # defined anew, as in a notebook
        ARGUMENTS.pop(known)
    ARGUMENTS[kind], _CLASSES[kind.__name__] = tuple(arguments), kind


def encode(value: Any) -> Any:
    """A part of a model as JSON; floats keep every bit.

    Raises
    ------
    TypeError
        For an object of a class that cannot be saved.

    Examples
    --------
    >>> encode(priors.NGGP(mass=2.0))
    {'class': 'NGGP', 'mass': 2.0, 'sigma': {'class': 'Beta', 'a': 1.0, 'b': 2.0}, 'tau': 1.0}
    """
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, dict):  # families by the names of responses
        return {"families": [[list(key) if isinstance(key, tuple) else key, encode(item)] for key, item in value.items()]}
    if isinstance(value, (np.ndarray, list, tuple)):
        return [encode(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]
    if type(value) not in ARGUMENTS:
        raise TypeError(
            f"a model with {value!r} cannot be saved; only {', '.join(_CLASSES)} can, and classes registered by nm.register."
        )
    return {"class": type(value).__name__} | {name: encode(getattr(value, name)) for name in ARGUMENTS[type(value)]}


def decode(value: Any) -> Any:
    """What `encode` was given.

    Examples
    --------
    >>> decode({"class": "Gamma", "shape": 1.0, "rate": 2.0})
    Gamma(shape=1.0, rate=2.0)
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if isinstance(value, dict) and "families" in value:
        return {tuple(key) if isinstance(key, list) else key: decode(item) for key, item in value["families"]}
    if isinstance(value, dict):
        kind = _CLASSES.get(value["class"])
        if kind is None:
            raise UnknownClass(
                f"it holds an object of the class {value['class']!r}, which is not known here; if it is one of your own, import it and "
                f"call nrmmix.model.encoding.register({value['class']}, arguments) first."
            )
        return kind(**{name: decode(value[name]) for name in ARGUMENTS[kind] if name in value})  # older files have fewer
    return value


# ---- data


def encode_source(frame: ModelFrame, put: Callable[[np.ndarray], str]) -> dict[str, Any]:
    """The data of a model as JSON; `put` keeps an array and returns its name."""
    common = {"used": put(frame.used), "from_array": frame.from_array, "reads": sorted(set(frame.reads)), "designs": list(frame.designs)}
    if frame.is_sparse:
        counts = frame.response
        spec = common | {"sparse": [put(counts.indptr), put(counts.indices), put(counts.data)], "shape": list(counts.shape)}
        if frame.from_array:
            return spec
        return spec | {"names": list(frame.response_names)} | encode_table(pd.DataFrame(index=frame.index), put)
    return common | encode_table(frame.source, put) | {"reads": list(frame.reads)}


def decode_source(formula: str | None, spec: dict[str, Any], get: Callable[[str], np.ndarray]) -> ModelFrame:
    """The data of `encode_source`; files of format 1 hold numbers only."""
    if "sparse" in spec:
        from scipy.sparse import csr_array

        indptr, indices, counts = map(get, spec["sparse"])
        source = csr_array((counts, indices, indptr), shape=spec["shape"])
        source.check_format(full_check=True)
        reads = ["composition"] * source.shape[1]
        if "names" in spec:
            source = pd.DataFrame.sparse.from_spmatrix(source, decode_table(spec, get).index, spec["names"])
    else:
        source, reads = decode_table(spec, get), spec.get("reads")
    return restored_frame(formula, source, get(spec["used"]), bool(spec["from_array"]), reads, spec.get("designs", ()))


# ---- tables


def encode_table(frame: pd.DataFrame, put: Callable[[np.ndarray], str]) -> dict[str, Any]:
    """A table of numbers, text and categories as JSON; `put` keeps an array and returns its name.

    Text becomes categories, and of numbers only those types stay that NumPy has: models read both alike.
    """
    columns = [{"name": name} | _encode_column(frame[name], name, put) for name in frame]
    levels = [frame.index.get_level_values(level) for level in range(frame.index.nlevels)]
    return {"columns": columns, "index": [_encode_index(level, put) for level in levels]}


def decode_table(spec: dict[str, Any], get: Callable[[str], np.ndarray]) -> pd.DataFrame:
    """The table of `encode_table`; `get` finds an array by its name."""
    levels = [_decode_index(level, get) for level in spec["index"]]
    index = levels[0] if len(levels) == 1 else pd.MultiIndex.from_arrays(levels)
    columns = {column["name"]: _decode_column(column, get) for column in spec["columns"]}
    return pd.DataFrame(columns, index=index)


def _encode_column(values: pd.Series, name: str, put: Callable[[np.ndarray], str]) -> dict[str, Any]:
    read = arrays.column(values, name)
    if isinstance(read, np.ndarray):
        plain = values.to_numpy() if isinstance(values.dtype, np.dtype) and values.dtype.kind in "biuf" else read
        return {"values": put(plain)}
    categories = _encode_labels(read.categories, put)
    if categories is None:
        kind = type(read.categories[0]).__name__
        raise TypeError(f"the column {name!r} has categories of type {kind}, which cannot be saved; make them text or numbers.")
    return {"codes": put(np.asarray(read.codes)), "categories": categories, "ordered": bool(read.ordered)}


def _decode_column(spec: dict[str, Any], get: Callable[[str], np.ndarray]) -> Any:
    if "values" in spec:
        return get(spec["values"])
    return pd.Categorical.from_codes(get(spec["codes"]), categories=_decode_labels(spec["categories"], get), ordered=spec["ordered"])


def _encode_index(level: pd.Index, put: Callable[[np.ndarray], str]) -> dict[str, Any]:
    name = level.name if level.name is None or isinstance(level.name, (str, int)) else str(level.name)
    labels = _encode_labels(level, put)
    if labels is None:
        warn(f"row labels such as {level[0]!r} are saved as text")
        labels = {"items": [str(item) for item in level]}
    return {"name": name} | labels


def _decode_index(spec: dict[str, Any], get: Callable[[str], np.ndarray]) -> pd.Index:
    return _decode_labels(spec, get).rename(spec["name"])


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
