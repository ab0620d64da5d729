"""The house: rooms, the one direction of imports, and what only some rooms may know.

Every import counts: when a module is loaded, within functions, and for type checking.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import nrmmix

ROOT = Path(nrmmix.__file__).parent
RANKS = (
    {"kernels"},
    {"common"},
    {"datasets", "model"},
    {"posterior"},
    {"inference"},
    {"results"},
    {"plots"},
    {"report"},
    {"front"},  # api, extending, and short names of modules
    {"cli"},
)
RANK = {name: number for number, names in enumerate(RANKS) for name in names}
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.name != "__init__.py" or path.parent != ROOT)
# Methods of results hand over to what shows, and `api` to what wraps: within functions these may look up.
FACES = {"results"}
# Modules and folders that know the arrays of kernels by their fields and columns; what they hand on does not.  May only become shorter.
KNOW_STATE = (
    "nrmmix.model.pack", "nrmmix.model.guide", "nrmmix.model.families.blocks", "nrmmix.model.log_joint", "nrmmix.model.prior_predictive",
    "nrmmix.model.priors",  # kinds of measures and of hyperpriors have their numbers there
    "nrmmix.posterior.predict.kernel_states", "nrmmix.posterior.predict.factor_states",
    "nrmmix.inference.mcmc", "nrmmix.inference.search.grower", "nrmmix.inference.search.run",
    "nrmmix.results.saving", "nrmmix.extending",
)
# Of what reads states of the posterior, who may call kernels at all.
CALL_KERNELS = {"nrmmix.posterior.predict.kernel_states", "nrmmix.posterior.predict.factor_states", "nrmmix.results.saving"}
LONGEST, ENTRIES = 600, 15  # lines of a module, entries of a folder


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def room_of(module: str) -> str:
    """Its folder; modules beside the rooms are the front of the house, and `python -m nrmmix` is the command line."""
    if module == "nrmmix.__main__":
        return "cli"
    name = module.split(".")[1] if "." in module else ""
    return name if (ROOT / name).is_dir() and name else "front"


class Imports(ast.NodeVisitor):
    """Modules that a module imports, and whether within a function."""

    def __init__(self, path: Path):
        self.found: list[tuple[str, bool]] = []
        self.depth = 0
        self.visit(ast.parse(path.read_text(encoding="utf-8")))

    def visit_FunctionDef(self, node: ast.AST) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef

    def visit_Import(self, node: ast.Import) -> None:
        self.found += [(alias.name, self.depth > 0) for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        assert node.level == 0, "imports are absolute"
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            self.found.append((whole if whole in NAMES else node.module, self.depth > 0))


NAMES = {name_of(path) for path in ROOT.rglob("*.py")}
IMPORTS = {name_of(path): Imports(path).found for path in MODULES}


def looks_up() -> set[tuple[str, str]]:
    found = set()
    for module, imports in IMPORTS.items():
        own = room_of(module)
        for other, within in imports:
            if other.split(".")[0] != "nrmmix" or (within and own in FACES) or other == "nrmmix":
                continue
            there = room_of(other)
            if there != own and RANK[there] >= RANK[own]:
                found.add((module, other))
    return found


def test_every_room_has_a_rank():
    assert {room_of(name) for name in IMPORTS} <= set(RANK)


def test_imports_go_one_way():
    assert looks_up() == set()


def circles(imports: dict[str, set[str]]) -> set[frozenset[str]]:
    """Sets of modules each of which leads to each other."""

    def reached(module: str) -> set[str]:
        found: set[str] = set()
        ahead = [*imports[module]]
        while ahead:
            if (other := ahead.pop()) not in found:
                found.add(other)
                ahead += imports.get(other, ())
        return found

    leads = {module: reached(module) for module in imports}
    return {frozenset(other for other in found if module in leads.get(other, ())) for module, found in leads.items() if module in found}


def test_no_module_leads_back_to_itself():
    """But by the methods of results, within functions, as above."""
    own = {
        module: {other for other, within in imports if other in NAMES and other != module and not (within and room_of(module) in FACES)}
        for module, imports in IMPORTS.items()
    }
    assert circles(own) == set()


def test_circles_are_found():
    found = circles({"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": {"e"}, "e": set(), "f": {"a"}})
    assert found == {frozenset("bc")}


def test_kernels_import_little():
    for module, imports in IMPORTS.items():
        if room_of(module) == "kernels":
            for other, _ in imports:
                files = ("atexit", "shutil", "sys", "tempfile", "threading", "time")
                more = {"nrmmix.kernels.compiling.disk": files, "nrmmix.kernels.compiling.handles": ("operator",)}.get(module, ())
                assert other.startswith(
                    ("nrmmix.kernels", "numpy", "math", "numba", "llvmlite", "os", "typing", "collections", "contextlib", "functools",
                     "hashlib", "itertools", "pathlib", "types", "__future__", *more)
                ), (module, other)


def importing(name: str) -> set[str]:
    """Modules outside `kernels` that import a module, or anything within a package."""
    return {
        module for module, imports in IMPORTS.items()
        if room_of(module) != "kernels" and any(f"{other}.".startswith(f"{name}.") for other, _ in imports)
    }


def test_few_know_the_arrays_of_kernels():
    who = importing("nrmmix.kernels.core.state")
    own = {name: {module for module in who if f"{module}.".startswith(f"{name}.")} for name in KNOW_STATE}
    assert who - set().union(*own.values()) == set(), "these take what others make of kernel arrays"
    assert {name for name, modules in own.items() if not modules} == set(), "these no longer know them"


def test_what_reads_states_calls_no_kernels():
    rooms = ("nrmmix.posterior.predict.", "nrmmix.results.", "nrmmix.plots.", "nrmmix.report.")
    assert {module for module in importing("nrmmix.kernels") if module.startswith(rooms)} == CALL_KERNELS


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_are_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= LONGEST


def test_folders_are_small():
    entries = Counter(path.parent for path in ROOT.rglob("*.py") if path.name != "__init__.py")
    entries += Counter(path.parent for path in ROOT.rglob("*") if path.is_dir() and any(path.glob("*.py")))
    del entries[ROOT]  # the rooms, and the front doors
    assert {str(folder.relative_to(ROOT)): count for folder, count in entries.items() if count > ENTRIES} == {}


# ---- one room for the random measure

KINDS = {"MEASURE", "CRM", "PITMAN_YOR", "FINITE", "STABLE", "GIBBS_TYPE"}
PACKS = "nrmmix.model.pack"  # writes what kernels read
KNOWS_KINDS = ("nrmmix.kernels.core.state", "nrmmix.kernels.measure.", "nrmmix.model.priors.", PACKS)
KNOWS_JOINT = ("nrmmix.kernels.core.state", "nrmmix.kernels.measure.", PACKS)


@cache
def mentioned(path: Path) -> set[str]:
    """Names that a module uses, and `location_probability.shape`, which asks whether there are locations."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add(node.name)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
            if node.attr == "shape" and isinstance(node.value, ast.Attribute):
                found.add(f"{node.value.attr}.shape")
    return found


@pytest.mark.parametrize(("names", "knows"), [
    (KINDS, KNOWS_KINDS), ({"JOINT_WITH_V", "is_mixture", "is_integrated"}, KNOWS_JOINT),
    ({"location_probability.shape"}, ("nrmmix.kernels.measure.",)),
], ids=["kinds", "joint", "locations"])
def test_only_the_room_of_the_measure_asks_for_its_kind(names, knows):
    users = {name_of(path) for path in MODULES if mentioned(path) & names}
    assert {name for name in users if not name.startswith(knows)} == set()
    assert any(name.startswith("nrmmix.kernels.measure.") for name in users)
