"""`python -m calibration`: all cells, their p values, and docs/calibration.md; it fails where ranks are not uniform, or where they are
although model or sampler is wrong on purpose.

With `--to` each cell is kept in `kept.json` when it is done, and the page written from there, so that a run that was ended goes on.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import scipy

from calibration.cells import BY_NAME, CELLS, CHAINS, DRAWS, Cell, Replicate, replicate
from calibration.ranks import Uniformity, holm, spread_out, uniformity
from tests.nightly import PARTS, digest

KEPT = Path(__file__).with_name("kept.json")  # of cells of the page
LEVEL = 0.01  # of all tests together
WRONG_SHARE = 3  # what is wrong on purpose gets a third of the replicates

HEAD = """# Calibration

Do credible intervals hold what they say? Parameters are drawn from the prior and data given them; a fit of the data then gives {draws}
draws from the posterior, and the rank of the truth among them is uniform if the sampler draws from the posterior of that model, and not
in general if model, sampler or record has an error (simulation-based calibration: Talts et al. 2018; Modrák et al. 2023 for quantities
that depend on the data, such as the log joint density). The data come from simulators of their own,
[tests/calibration/simulators.py](../tests/calibration/simulators.py), exact and without anything of the package's samplers. Cells called
`default` fit what a formula alone gives; defaults take the units of the responses from the data, and here these units are given.

`mean` is that of the ranks, as shares: 0.5 where they are uniform, less where draws are too large. `spread` is their standard deviation
as a multiple of the uniform's: more than 1 where the posterior drawn is too narrow, or draws depend on each other. `p` is of three tests
together, Kolmogorov-Smirnov, mean and spread, by Bonferroni; the verdict adjusts all p values for their number by Holm's method and fails
below {level}. `draws` is the median effective number of the {draws} draws. `make calibration` writes this page, and goes on where an
earlier run was ended; a cell is run again where the package or the cells have changed.

{about}

"""
TABLE = "| model | method | n | replicates | quantity | mean | spread | draws | p |\n|---|---|---|---|---|---|---|---|---|\n"


class Row(NamedTuple):
    cell: Cell
    replicates: int
    quantity: str
    found: Uniformity
    effective: float

    @property
    def plain(self) -> dict[str, Any]:
        """What a file keeps of it."""
        return {"quantity": self.quantity, **self.found._asdict(), "draws": self.effective}

    def __str__(self) -> str:
        cell, found = self.cell, self.found
        p = f"{found.p:.3f}" if found.p >= 0.001 else f"{found.p:.0e}"
        return (
            f"| {cell.name}: {cell.description} | {cell.method} | {cell.n} | {self.replicates} | {self.quantity} | {found.mean:.3f} "
            f"| {found.spread:.3f} | {self.effective:.0f} | {p} |"
        )


def rows_of(cell: Cell, replicates: list[Replicate]) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    for quantity in replicates[0].ranks:
        u = spread_out(np.array([one.ranks[quantity] for one in replicates]), CHAINS * DRAWS, rng)
        effective = np.array([one.effective[quantity] for one in replicates])
        yield Row(cell, len(replicates), quantity, uniformity(u), float(np.nanmedian(effective)))


def verdict(rows: list[Row]) -> tuple[str, bool]:
    """What is said in the end, and whether all is well."""
    right, wrong = [row for row in rows if not row.cell.wrong], [row for row in rows if row.cell.wrong]
    lines, failed = [], []
    if right:
        adjusted = holm(np.array([row.found.p for row in right]))
        failed = [f"{row.cell.name}: {row.quantity}" for row, p in zip(right, adjusted, strict=True) if p < LEVEL]
        lines.append(f"{len(right)} tests; the smallest p value, adjusted for their number, is {adjusted.min():.2g}.")
        lines += [f"FAILED: RANKS ARE NOT UNIFORM IN {name}." for name in failed]
    for cell in dict.fromkeys(row.cell for row in wrong):
        p = min(row.found.p for row in wrong if row.cell is cell) * len(rows)
        if p < LEVEL:
            lines.append(f"Found, as it must be: {cell.name}, adjusted p value {p:.0e}.")
        else:
            failed.append(cell.name)
            lines.append(f"FAILED: {cell.name.upper()} WAS NOT FOUND, adjusted p value {min(p, 1):.2g}.")
    return "\n\n".join(lines), not failed


def place() -> dict[str, str]:
    """Date, commit and versions."""
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], capture_output=True, text=True, cwd=Path(__file__).parent, check=True).stdout.strip()

    changed = "+" if git("status", "--porcelain", "--untracked-files=no", "--", ":/nrmmix", ":/tests/*.py") else ""
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, numba {numba.__version__}"
    return {"date": datetime.date.today().isoformat(), "commit": git("rev-parse", "--short=12", "HEAD") + changed, "versions": versions}


Kept = dict[str, dict[str, Any]]  # of each cell where and when it ran, its rows, and the digest of what they depend on


def read_kept() -> Kept:
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else {}


def rows_kept(kept: Kept) -> list[Row]:
    """Rows of all cells that there are, in their order."""
    return [
        Row(cell, kept[cell.name]["replicates"], row["quantity"], Uniformity(row["mean"], row["spread"], row["p"]), row["draws"])
        for cell in CELLS if cell.name in kept for row in kept[cell.name]["rows"]
    ]


def about(kept: Kept) -> str:
    """Say where and when cells ran, those alike together, and which have not run."""
    runs: dict[str, list[str]] = {}
    for cell in CELLS:
        own = kept.get(cell.name)
        where = f"{own['date']}, commit {own['commit']}; {own['versions']}" if own else "Not run yet"
        runs.setdefault(where, []).append(cell.name)
    return "\n".join(f"- {where}: {'; '.join(names)}." for where, names in runs.items())


def page(kept: Kept) -> str:
    """Return the page on all cells that have run."""
    rows = rows_kept(kept)
    right, wrong = ("\n".join(str(row) for row in rows if row.cell.wrong is is_wrong) for is_wrong in (False, True))
    text = HEAD.format(draws=CHAINS * DRAWS, level=LEVEL, about=about(kept)) + f"{TABLE}{right}\n\n## Wrong on purpose\n\n"
    text += f"A prior other than the data's, and a sampler that is known not to be exact: ranks must show it.\n\n{TABLE}{wrong}\n\n"
    return f"{text}## Verdict\n\n{verdict(rows)[0]}\n"


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m calibration", description="Simulation-based calibration.")
    parser.add_argument("--replicates", type=int, default=200, help="data sets of each cell; a third where model or sampler is wrong")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=BY_NAME, default=list(BY_NAME), help=", ".join(BY_NAME))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--to", type=Path, help="the page to write, such as docs/calibration.md")
    options = parser.parse_args(arguments)
    if options.replicates < WRONG_SHARE or options.processes < 1:
        parser.error(f"--replicates must be at least {WRONG_SHARE}, --processes at least 1")
    if options.to is not None and not options.to.parent.is_dir():  # said before the work, not after it
        parser.error(f"there is no directory {str(options.to.parent)!r}")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    sources = digest(next(part for part in PARTS if part.name == "calibration"))
    kept = read_kept() if options.to is not None else {}
    where = place()  # a commit while it runs does not count
    with ProcessPoolExecutor(options.processes) as pool:
        for cell in [BY_NAME[name] for name in options.only]:
            count = options.replicates // WRONG_SHARE if cell.wrong else options.replicates
            own, started = kept.get(cell.name, {}), time.perf_counter()
            if (own.get("digest"), own.get("replicates")) == (sources, count):
                sys.stderr.write(f"{cell.name}: ran on {own['date']} with the same sources\n")
                continue
            if options.processes > 1:  # one compiles, the others find it on disk
                pool.submit(replicate, cell.name, 0).result()
            rows = list(rows_of(cell, list(pool.map(replicate, [cell.name] * count, range(count), chunksize=5))))
            kept[cell.name] = {**where, "digest": sources, "replicates": count, "rows": [row.plain for row in rows]}
            print("\n".join(map(str, rows)), flush=True)
            sys.stderr.write(f"{cell.name}: done after {time.perf_counter() - started:.0f} s\n")
            if options.to is not None:
                KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
                options.to.write_text(page(kept), encoding="utf-8")
    said, well = verdict([row for row in rows_kept(kept) if row.cell.name in options.only])
    print(f"\n{said}")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
