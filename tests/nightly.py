"""What takes hours, in parts that are kept: `python -m tests.nightly [PART ...]`, as `make nightly` calls it.

A part that has passed is run again when the sources that it depends on have changed: `tests/nightly.json` has their digest beside the
result.  So a night that was ended goes on where it was, and a part that fails does not keep the others from running.  docs/nightly.md is
written from that file after every part.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
FILE, PAGE = "tests/nightly.json", "docs/nightly.md"
LIMIT = 90 * 60.0  # seconds; parts are made for 60 minutes, and a machine may be slower
PACKAGE = ("nrmmix/**/*.py", "data/*")
OF_TESTS = ("tests/conftest.py", "tests/support/*.py", "tests/naive/**/*.py")
WRITTEN = ("docs/exactness*.md", "docs/calibration.md", PAGE)  # by parts themselves


class Part(NamedTuple):
    """A part of the night: arguments of Python, the sources beside the package, and what is set in the environment."""

    name: str
    about: str
    command: tuple[str, ...]
    sources: tuple[str, ...]
    environment: Mapping[str, str] = {}


def _paths(root: Path, pattern: str) -> list[str]:
    """Names of files relative to a root, with slashes."""
    return [path.relative_to(root).as_posix() for path in root.glob(pattern) if path.is_file()]


def of_tests(
    name: str, about: str, *targets: str, sources: Sequence[str] = (), run: str = "nightly", processes: int = 2, **environment: str,
) -> Part:
    """Return a part that runs tests: files, patterns of them or functions, those of them that `run` marks."""
    found = [one for target in targets for one in (sorted(_paths(ROOT, target)) if "*" in target else [target])]
    workers = ("-n", str(processes)) if processes > 1 else ()
    files = tuple(dict.fromkeys(one.partition("::")[0] for one in found))
    command = ("-m", "pytest", "-q", *workers, *(("-m", run) if run else ()), *found)
    return Part(name, about, command, (*OF_TESTS, *files, *sources), environment)


EXACT, GEWEKE = "tests/exact/*.py", "tests/geweke/test_geweke.py"
AT_LENGTH = {"run": "nightly or not nightly", "NRMMIX_TEST_LENGTH": "1"}
EVERY = {"run": "nightly or not nightly", "NRMMIX_GEWEKE_ITERATIONS": "15000"}
PARTS = (
    Part("matrix", "Every prior with every family and every move against enumeration: [Exactness](exactness.md)",
         ("-m", "exact.matrix", "--to", "docs/exactness.md"), (*OF_TESTS, EXACT)),
    Part("matrix_regression", "Samplers of density regression against quadrature: [Exactness](exactness_regression.md)",
         ("-m", "exact.regression_matrix", "--to", "docs/exactness_regression.md"), (*OF_TESTS, EXACT)),
    Part("calibration", "Ranks of true parameters among draws: [Calibration](calibration.md)",
         ("-m", "calibration", "--processes", "2", "--to", "docs/calibration.md"), (*OF_TESTS, "tests/calibration/*.py")),
    of_tests("calibration_tests", "Ranks of four more models are in range", "tests/calibration/test_calibration.py",
             sources=["tests/calibration/*.py"]),
    of_tests("exact_trees", "Tree-guided moves against enumeration", "tests/exact/test_tree*.py", sources=[EXACT], **AT_LENGTH),
    of_tests("exact_moves", "Split-merge and other moves against enumeration", "tests/exact/test_moves.py", sources=[EXACT], **AT_LENGTH),
    of_tests("exact_measures", "Permutation-augmented and slice sampling against enumeration", "tests/exact/test_permutation.py",
             "tests/exact/test_slice.py", sources=[EXACT], **AT_LENGTH),
    of_tests("exact_rest", "Families, predictions, variational bounds, density regression against exact values",
             "tests/exact/test_[a-l]*.py", "tests/exact/test_matrix.py", "tests/exact/test_n*.py", "tests/exact/test_pr*.py",
             "tests/exact/test_r*.py", "tests/exact/test_s[!l]*.py", "tests/exact/test_ti*.py", "tests/exact/test_[u-v]*.py",
             sources=[EXACT], **AT_LENGTH),
    of_tests("geweke_priors", "Joint distribution tests, 15,000 iterations: priors and kernels",
             f"{GEWEKE}::test_joint_distribution", **EVERY),
    of_tests("geweke_moves", "Joint distribution tests: moves of mixtures", f"{GEWEKE}::test_joint_distribution_of_moves", **EVERY),
    of_tests("geweke_regression", "Joint distribution tests: moves of density regression",
             f"{GEWEKE}::test_joint_distribution_of_moves_of_a_regression", **EVERY),
    of_tests("geweke_rest", "Joint distribution tests: censored values, and errors that must be found",
             f"{GEWEKE}::test_joint_distribution_of_censored_values", f"{GEWEKE}::test_values_drawn_beside_their_limits_are_found",
             f"{GEWEKE}::test_a_biased_sampler_is_found", **EVERY),
    of_tests("fuzz", "A thousand made-up formulas, tables and options for each property", "tests/test_fuzz.py", run="", processes=1,
             NRMMIX_FUZZ_EXAMPLES="1000"),
    of_tests("laws", "Hurdles, memberships, moves of the measure against exact laws, ten times as many draws as by day",
             "tests/test_families_discrete.py", "tests/test_families_hurdle.py", "tests/test_families_semiconjugate.py",
             "tests/test_kernels_measure.py", "tests/test_posterior_simulate.py", "tests/test_results_clustering.py", **AT_LENGTH),
    of_tests("units", "Long tests of kernels, models, families, executors and streams", "tests/test_bad_input_numbers.py",
             "tests/test_censored.py", "tests/test_families_[gm-rt]*.py", "tests/test_families_s[hp]*.py", "tests/test_inference_*.py",
             "tests/test_kernels_[!m]*.py", "tests/test_kernels_masses.py", "tests/test_model_*.py", "tests/test_outside_family.py"),
    of_tests("results", "Long tests of results, predictions, plots, files and the command line", "tests/test_arviz.py", "tests/test_cli.py",
             "tests/test_coming_from.py", "tests/test_extending.py", "tests/test_files.py", "tests/test_plots*.py",
             "tests/test_posterior_[!s]*.py", "tests/test_posterior_states.py", "tests/test_predict_*.py", "tests/test_report*.py",
             "tests/test_results_[!c]*.py", "tests/test_sklearn.py", "tests/test_weights.py"),
    of_tests("reliability", "Kills, interrupts, hostile tables and damaged files, half an hour of chains", "tests/reliability/test_*.py",
             sources=["tests/reliability/*.py"]),
    of_tests("pages", "Pages of the guide print what their scripts print now", "tests/test_pages.py",
             sources=["vignettes/*.py", "docs/*.md"], processes=1),
    of_tests("documents", "Examples of docstrings, and the recipes of CONTRIBUTING.md done in a copy of the tree",
             "tests/test_docstrings.py", "tests/test_recipes.py", sources=["CONTRIBUTING.md", "tests/**/*.py"]),
    of_tests("papers", "Pages on papers and benchmarks run in their short forms", "tests/test_paper_pages.py", "tests/test_benchmarks.py",
             sources=["vignettes/papers/*.py", "vignettes/results/*.json", "benchmarks/*.py"]),
)

HEAD = """# What ran by night

`make nightly` runs what takes hours, in parts. A part whose sources are as when it last passed is not run again; the others are, and a part
that fails does not keep the rest from running. This page is written by that command: when each part last passed, from which commit, how
long it took and on what machine. A plus sign after a commit means that sources differed from it.

| part | what it is | last passed | commit | minutes | machine | since then |
|---|---|---|---|---|---|---|
"""


def sources(part: Part, root: Path = ROOT) -> list[str]:
    """Return the files that a part depends on; a ValueError where a pattern names none."""
    found: set[str] = set()
    for pattern in (*PACKAGE, *part.sources):
        names = [name for name in _paths(root, pattern) if not any(fnmatch.fnmatch(name, one) for one in WRITTEN)]
        if not names:
            raise ValueError(f"part {part.name!r}: {pattern!r} names no file in {str(root)!r}.")
        found.update(names)
    return sorted(found)


def digest(part: Part, root: Path = ROOT) -> str:
    """Return what changes when a part's command, its environment, or a file that it depends on does."""
    found = hashlib.sha256(repr((part.command, sorted(part.environment.items()))).encode())
    for name in sources(part, root):
        found.update(f"{name} {hashlib.sha256((root / name).read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:16]


def read(root: Path = ROOT) -> dict[str, dict[str, Any]]:
    """Return results by the name of a part: `passed`, the last time that it did, and `failed`, where it has failed since."""
    path = root / FILE
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def is_passed(part: Part, kept: Mapping[str, Mapping[str, Any]], root: Path = ROOT) -> bool:
    """Whether a part has passed with the sources that are there, and not failed since."""
    own = kept.get(part.name, {})
    return "failed" not in own and own.get("passed", {}).get("digest") == digest(part, root)


def page(parts: Sequence[Part], kept: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page on results."""
    lines = []
    for part in parts:
        passed, failed = (kept.get(part.name, {}).get(which) for which in ("passed", "failed"))
        cells = [f"`{part.name}`", part.about]
        if passed:
            cells += [passed["date"], passed["commit"], f"{passed['seconds'] / 60:.1f}", passed["machine"]]
        else:
            cells += ["never" if failed else "not run yet", *3 * ["–"]]
        cells.append(f"**failed** on {failed['date']}, commit {failed['commit']}: {failed['why']}" if failed else "–")
        lines.append(f"| {' | '.join(cells)} |\n")
    return HEAD + "".join(lines)


def write(parts: Sequence[Part], kept: Mapping[str, Mapping[str, Any]], root: Path = ROOT) -> None:
    """Write results and their page."""
    (root / FILE).write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    (root / PAGE).write_text(page(parts, kept), encoding="utf-8")


def ended(part: Part, root: Path = ROOT, limit: float = LIMIT) -> str:
    """Run a part and say why it failed; an empty text where it has passed."""
    own = dict(part.environment) | {"PYTHONPATH": os.pathsep.join([str(root), str(root / "tests")])}
    process = subprocess.Popen([sys.executable, *part.command], cwd=root, env=os.environ | own, start_new_session=True)
    try:
        status = process.wait(limit)
    except BaseException as error:  # its own processes end with it, and with this one
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return f"longer than {limit / 60:.0f} minutes"
    return f"exit status {status}" if status else ""


def run(parts: Sequence[Part], of: Sequence[Part], about: Mapping[str, str], root: Path = ROOT, limit: float = LIMIT) -> int:
    """Run the parts that have not passed with these sources, keep what came of each, and return 1 if any has failed.

    `of` has all parts of the page, and `about` the machine, and the commit where it is not asked of git for every part.
    """
    kept, failed = read(root), []
    for part in parts:
        if is_passed(part, kept, root):
            print(f"{part.name}: passed on {kept[part.name]['passed']['date']} with the same sources", flush=True)
            continue
        print(f"{part.name}: {' '.join(part.command)}", flush=True)
        before, started = digest(part, root), time.monotonic()
        found = {"digest": before, "date": date.today().isoformat(), "commit": commit(part, root), **about}
        why = ended(part, root, limit) or ("" if digest(part, root) == before else "sources changed while it ran")
        found["seconds"] = round(time.monotonic() - started, 1)
        kept = read(root)  # another command may have kept other parts meanwhile
        own = kept.setdefault(part.name, {})
        own.pop("failed", None)
        own["failed" if why else "passed"] = found | ({"why": why} if why else {})
        failed += [part.name] if why else []
        write(of, kept, root)
        print(f"{part.name}: {'FAILED, ' + why if why else 'passed'} after {found['seconds']:.0f} s", flush=True)
    print(f"failed: {', '.join(failed)}" if failed else "all have passed", flush=True)
    return 1 if failed else 0


def commit(part: Part, root: Path = ROOT) -> str:
    """Return the commit, with a plus sign where a source of the part differs from it; "none" without git."""
    def git(*words: str) -> str:
        return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True).stdout

    try:
        head, changed = git("rev-parse", "--short=12", "HEAD").strip(), git("status", "--porcelain", "--untracked-files=all").splitlines()
    except (OSError, subprocess.CalledProcessError):
        return "none"
    return f"{head}+" if {line[3:].split(" -> ")[-1] for line in changed} & set(sources(part, root)) else head


def machine() -> str:
    """Return processor, cores, system and versions."""
    from benchmarks import record

    found = record.machine()
    return f"{found['processor']}, {found['usable']} cores, {found['system']}, Python {found['python']}, numba {found['numba']}"


def main(arguments: Sequence[str] | None = None) -> int:
    by_name = {part.name: part for part in PARTS}
    parser = argparse.ArgumentParser(prog="python -m tests.nightly", description="Run what takes hours, in parts that are kept.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"default: all; {', '.join(by_name)}")
    parser.add_argument("--page", action="store_true", help="write docs/nightly.md from what is kept, and run nothing")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.parts) - set(by_name)):
        parser.error(f"there is no part {', '.join(unknown)}; parts are {', '.join(by_name)}")
    if options.page:
        write(PARTS, read())
        return 0
    chosen = [by_name[name] for name in options.parts or by_name]
    return run(chosen, PARTS, {"machine": machine()})


if __name__ == "__main__":
    sys.exit(main())
