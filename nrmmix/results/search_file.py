"""Searches in files: the tree, the partition, and the values that the tree was built at."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from nrmmix.inference.search.options import Search
from nrmmix.inference.search.run import Found
from nrmmix.inference.search.tree import Tree
from nrmmix.model.encoding import decode, encode
from nrmmix.model.specification import Specification
from nrmmix.results.search import SearchResult

OF_INTERNAL, OF_NODES = ("left", "right", "log_d"), ("count", "log_h", "log_phi")  # arrays of a tree
NUMBERS = ("left", "right", "count", "order")


def header_of(fit: SearchResult, put: Callable[..., str]) -> dict[str, Any]:
    """Return what the header says of the search, its arrays put beside it."""
    values = {name: float(own[0, 0]) for name, own in fit.draws.items() if name in ("mass", "sigma") or name in fit.hyper}
    return {
        "run": {
            "options": encode(fit.search), "seed": fit.seed, "seconds": fit.seconds, "interrupted": fit.interrupted,
            "lower_bound": fit.lower_bound, "values": values,
        },
        "tree": {name: put(getattr(fit.tree, name), f"tree/{name}") for name in (*OF_INTERNAL, *OF_NODES, "order")},
        "shared": {name: put(fit.draws[name][0, 0], f"tree/{name}_of_all") for name in fit.model.packed.shared_names},
        "labels": put(fit.draws["labels"][0, 0].astype(np.int64), "tree/labels"),
        "bounds": put(fit.bounds, "tree/bounds"),
    }


def restored(
    header: dict[str, Any], get: Callable[[str], np.ndarray], model: Specification, insist: Callable[[bool, str], None]
) -> SearchResult:
    """The search that was saved; `insist` refuses what cannot be right."""
    run, search, n = header["run"], decode(header["run"]["options"]), model.n_obs
    insist(isinstance(search, Search) and not search.refusal(model), "method")
    insist(type(run["seed"]) is int and run["seed"] >= 0 and type(run["interrupted"]) is bool, "run")
    insist(all(type(run[name]) is float and math.isfinite(run[name]) for name in ("seconds", "lower_bound")), "run")
    values = run["values"]
    insist({"mass", "sigma"} <= values.keys() <= {"mass", "sigma", "u"}, "values")
    insist(all(type(value) is float and 0 <= value < math.inf for value in values.values()), "values")
    arrays = {name: get(header["tree"][name]) for name in (*OF_INTERNAL, *OF_NODES, "order")}
    for name, array in arrays.items():
        size = n if name == "order" else n - 1 if name in OF_INTERNAL else 2 * n - 1
        insist(array.shape == (size,) and array.dtype == (np.int64 if name in NUMBERS else np.float64), "tree")
    insist(bool(np.isfinite(arrays["log_h"]).all() and np.isfinite(arrays["log_phi"]).all()), "tree")
    insist(not np.isnan(arrays["log_d"]).any(), "tree")
    tree = Tree(**arrays, _first=_places(n, arrays, insist))
    labels, bounds = get(header["labels"]), get(header["bounds"])
    insist(labels.shape == (n,) and labels.dtype == np.int64 and int(labels.min(initial=0)) >= 0, "labels")
    insist(np.array_equal(np.unique(labels), np.arange(labels.max() + 1)), "labels")
    insist(bounds.ndim == 1 and len(bounds) > 0 and bounds.dtype == np.float64 and not np.isnan(bounds).any(), "bounds")
    shared = {name: get(key) for name, key in header["shared"].items()}
    sizes = {name: places.shape for name, places in model.packed.shared_names.items()}
    insist({name: own.shape for name, own in shared.items()} == sizes, "parameters of all clusters")
    insist(all(own.dtype == np.float64 and bool(np.isfinite(own).all()) for own in shared.values()), "shared")
    insist(all(model.packed.permits(own, model.packed.shared_names[name]) for name, own in shared.items()), "shared")
    found = Found(tree, labels, run["lower_bound"], float(bounds.max()), values, shared)
    return SearchResult(model, search, found, bounds.tolist(), run["seed"], run["seconds"], run["interrupted"])


def _places(n: int, arrays: dict[str, np.ndarray], insist: Callable[[bool, str], None]) -> np.ndarray:
    """Return for each node the place of the leftmost row below; every row and node must be below one parent, and counts add up."""
    left, right, count, order = (arrays[name] for name in NUMBERS)
    children, own = np.concatenate([left, right]), n + np.arange(n - 1)
    insist(np.array_equal(np.sort(children), np.arange(2 * n - 2)) and bool((left < own).all() and (right < own).all()), "tree")
    insist(np.array_equal(np.sort(order), np.arange(n)) and bool((count[:n] == 1).all()), "order of rows")
    insist(np.array_equal(count[n:], count[left] + count[right]), "counts of the tree")
    first = np.empty(2 * n - 1, np.int64)
    first[2 * n - 2] = 0
    for j in range(n - 2, -1, -1):
        first[left[j]] = first[n + j]
        first[right[j]] = first[n + j] + count[left[j]]
    insist(np.array_equal(order[first[:n]], np.arange(n)), "order of rows")
    return first
