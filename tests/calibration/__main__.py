"""`python -m calibration`: all cells, their p values, and docs/calibration.md; it fails where ranks are not uniform, or where they are
although model or sampler is wrong on purpose."""

from __future__ import annotations

import argparse
import datetime
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import scipy

from calibration.cells import BY_NAME, CELLS, CHAINS, DRAWS, Cell, Replicate, replicate
from calibration.ranks import Uniformity, holm, spread_out, uniformity

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
below {level}. `draws` is the median effective number of the {draws} draws. `make calibration` writes this page.

{about}

"""
TABLE = "| model | method | n | replicates | quantity | mean | spread | draws | p |\n|---|---|---|---|---|---|---|---|---|\n"


class Row(NamedTuple):
    cell: Cell
    replicates: int
    quantity: str
    found: Uniformity
    effective: float

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


def about(seconds: float, processes: int) -> str:
    """Date, commit and versions."""
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], capture_output=True, text=True, cwd=Path(__file__).parent, check=True).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--untracked-files=no") else ""
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}, numba {numba.__version__}"
    commit = f"commit {git('rev-parse', '--short', 'HEAD')}{changed}"
    return f"{datetime.date.today()}, {commit}; {versions}; {seconds / 60:.0f} minutes in {processes} process{'es' * (processes > 1)}."


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
    started, rows = time.perf_counter(), []
    where = about(0.0, options.processes).split(";")[0]  # a commit while it runs does not count
    with ProcessPoolExecutor(options.processes) as pool:
        for cell in [cell for cell in CELLS if cell.name in options.only]:
            count = options.replicates // WRONG_SHARE if cell.wrong else options.replicates
            if options.processes > 1:  # one compiles, the others find it on disk
                pool.submit(replicate, cell.name, 0).result()
            rows += rows_of(cell, list(pool.map(replicate, [cell.name] * count, range(count), chunksize=5)))
            own = [row for row in rows if row.cell is cell]
            print("\n".join(map(str, own)), flush=True)
            sys.stderr.write(f"{cell.name}: done after {time.perf_counter() - started:.0f} s\n")
    said, well = verdict(rows)
    print(f"\n{said}")
    if options.to is not None:
        tail = about(time.perf_counter() - started, options.processes).split(";", 1)[1]
        right, wrong = ("\n".join(str(row) for row in rows if row.cell.wrong is is_wrong) for is_wrong in (False, True))
        page = HEAD.format(draws=CHAINS * DRAWS, level=LEVEL, about=f"{where};{tail}") + f"{TABLE}{right}\n\n## Wrong on purpose\n\n"
        page += f"A prior other than the data's, and a sampler that is known not to be exact: ranks must show it.\n\n{TABLE}{wrong}\n\n"
        options.to.write_text(f"{page}## Verdict\n\n{said}\n", encoding="utf-8")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
