"""Records of benchmarks, for vignettes: figures on their pages are computed from these files, and none is quoted by hand."""

from __future__ import annotations

import hashlib
import json
import os
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from nrmmix.common.messages import did_you_mean

FAST = "NRMMIX_FAST"  # environment variable that asks vignettes for their short forms
USED: ContextVar[dict[str, str] | None] = ContextVar("USED", default=None)  # names and digests that a page has read


class MissingResults(FileNotFoundError):
    """A file of results that is not there."""


def vignettes() -> Path:
    """The folder of vignettes: of the installed package, or of the checkout; a FileNotFoundError where there is neither."""
    installed = find_spec("nrmmix.vignettes")  # a folder without an __init__ may be in several places
    found = [] if installed is None else [Path(place) for place in installed.submodule_search_locations or ()]
    for place in (Path(__file__).resolve().parents[2] / "vignettes", *found):
        if (place / "papers").is_dir():
            return place
    raise FileNotFoundError(
        "this installation of nrmmix has no vignettes, and there is no checkout around it; install a wheel or work in a checkout"
    )


def recorded(name: str) -> dict[str, Any]:
    """Return the record of a benchmark: `benchmark`, `settings`, `machine`, `date`, `commit` and `results`, tables as lists of rows.

    Parameters
    ----------
    name : str
        Of a file in `vignettes/results/`, without its ending.

    Raises
    ------
    MissingResults
        A FileNotFoundError, where there is no such file; it says what makes one.
    ValueError
        Where the file is no JSON, or not that of a benchmark.

    Examples
    --------
    >>> sorted(recorded("permutation"))
    ['benchmark', 'commit', 'date', 'machine', 'nrmmix', 'results', 'settings']
    """
    folder = vignettes() / "results"
    path = folder / f"{name}.json"
    if not path.is_file():
        known = sorted(one.stem for one in folder.glob("*.json"))
        raise MissingResults(
            f"there is no file of results {str(path)!r}; in a checkout `python -m benchmarks.{name} --json {path}` makes one of that "
            f"name{did_you_mean(name, known)}"
        )
    content = path.read_bytes()
    try:
        found = json.loads(content)
        found["results"], found["settings"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{str(path)!r} is no file of results") from None
    if (used := USED.get()) is not None:
        used[name] = hashlib.sha256(content).hexdigest()[:16]
    return found


def is_fast() -> bool:
    """Whether vignettes should compute their short forms: NRMMIX_FAST is set, as by `nrmmix vignettes --fast`."""
    return bool(os.environ.get(FAST))
