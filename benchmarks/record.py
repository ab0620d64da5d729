"""What a benchmark has measured, as a file: `write(path, name, settings, results)` and `read(path)`.

A file is JSON: the name of the benchmark, what it was told (`settings`), the version and commit of nrmmix, the date, the machine, and
`results`: tables by name, each a list of rows, each a dict of numbers and text.  Pages read these files, so that no figure is quoted by
hand; `vignettes/results/` has those of the pages.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import nrmmix as nm
from nrmmix.common import files
from nrmmix.common.machine import available_cores

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "vignettes" / "results"
PACKAGES = ("numpy", "scipy", "numba", "llvmlite", "pandas")
DIGITS = 8  # of numbers that are no integers


def write(path: Any, name: str, settings: Mapping[str, Any], results: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    """Write what a benchmark has measured to a JSON file, whole or not at all; give back its path.

    Parameters
    ----------
    path : path
        A file that ends in .json, in a folder that exists.
    name : str
        The benchmark, as in `python -m benchmarks.NAME`.
    settings : dict
        What it was told: sizes, seeds, lengths.
    results : dict of lists of dicts
        Tables by name; of each the rows, whose values are numbers, text, truth values, None, or lists of these.  NumPy's numbers and
        arrays become Python's; what is no finite number becomes null.

    Raises
    ------
    ValueError
        Where a table is no list of rows, is empty, or has a row with other columns than its first; where the name ends in something else.
    TypeError
        Where a value is none of the above.
    OSError
        Where the file cannot be written.
    """
    out = files.target(path, ".json", "a file of results")
    for table, rows in results.items():
        _checked(table, rows)
    text = json.dumps(_plain({**about(name), "settings": dict(settings), "results": dict(results)}), indent=1, allow_nan=False)
    with files.replaced(out) as file:
        file.write((text + "\n").encode())
    return out


def read(path: Any) -> dict[str, Any]:
    """What `write` has written; a name without a folder or an ending is one of `vignettes/results/`.

    A FileNotFoundError says which benchmark makes a file that is not there.
    """
    place = Path(path)
    if place.suffix != ".json":
        place = FOLDER / f"{path}.json"
    if not place.is_file():
        raise FileNotFoundError(f"there is no file of results {str(place)!r}; `python -m benchmarks.{place.stem} --json {place}` makes it.")
    return json.loads(place.read_text(encoding="utf-8"))


def kept(path: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Read what an earlier run with these settings has left in a file: its tables by name; none where there is no file.

    A ValueError says so where the file is of a run with other settings.
    """
    if not path or not Path(path).is_file():
        return {}
    before = read(path)
    told = {name: before["settings"].get(name) for name in settings}
    if told != _plain(settings):
        raise ValueError(f"{str(path)!r} is of a run with {told}, not {dict(settings)}; name another file.")
    return before["results"]


def option(parser: argparse.ArgumentParser) -> None:
    """Give a parser the option `--json FILE`."""
    parser.add_argument("--json", metavar="FILE.json", help="write what was measured to this file too")


def about(name: str) -> dict[str, Any]:
    """The benchmark, and where and when it ran."""
    return {"benchmark": name, "nrmmix": nm.__version__, "commit": commit(), "date": date.today().isoformat(), "machine": machine()}


def commit() -> str | None:
    """The commit of the checkout, with a plus sign where files differ from it; None without git or a checkout."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return f"{head}+" if _git("status", "--porcelain", "--untracked-files=no", "--", "nrmmix", "benchmarks") else head
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True).stdout.strip()


def machine() -> dict[str, Any]:
    """Processor, cores, operating system, Python and packages."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = None
    return {
        "processor": _processor(), "cores": os.cpu_count(), "usable": available_cores(),
        "system": f"{platform.system()} {platform.machine()}", "python": platform.python_version(), **versions,
    }


def _processor() -> str:
    """The name of the processor; of Linux's own list, where there is one, else what Python knows."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _checked(table: str, rows: Any) -> None:
    if isinstance(rows, (str, Mapping)) or not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError(f"table {table!r} must be a list of rows, each a dict of its columns.")
    if not rows:
        raise ValueError(f"table {table!r} has no rows.")
    for j, row in enumerate(rows):
        if list(row) != list(rows[0]):
            raise ValueError(f"table {table!r}: row {j} has the columns {list(row)}, and the first row {list(rows[0])}.")


def _plain(value: Any) -> Any:
    """The same by what JSON has."""
    if hasattr(value, "tolist"):  # numbers and arrays of NumPy
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if value is None or isinstance(value, (str, bool, int)):
        return value
    raise TypeError(f"results are numbers and text, not {type(value).__name__}: {value!r}")
