"""Imports go one way: no module imports one that comes after it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import nrmmix

ROOT = Path(nrmmix.__file__).parent
LAYERS = (
    {"defaults", "files", "interrupts", "kernels", "simulated", "tables", "warn"},
    {"hyperpriors", "moves"},
    {"arrays", "compiling", "convergence", "datasets", "diagnostics", "draws", "formula_syntax", "partition", "priors", "sparse"},
    {"searches", "tree_moves", "tree_published"},
    {"covariates", "families", "formula", "joint", "methods"},
    {"encoding", "model"},
    {"chain"},
    {"sampling"},
    {"replay"},
    {"cluster_laws", "curves", "membership", "points"},
    {"prior_predictive"},
    {"predict"},
    {"datatree", "simulate"},
    {"plots"},
    {"report"},
    {"posterior", "proposals"},
    {"results", "search_result"},
    {"saving"},
    {"api"},
    {"cli"},
    {"__init__", "__main__"},
)
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}
MODULES = sorted(ROOT.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Modules of the package that a module imports when it is loaded: not those of type checking, nor within functions."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in found if name.startswith("nrmmix.")}


def test_every_module_has_a_layer():
    assert {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in MODULES} == set(LAYER)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for name in imported(path) & set(LAYER):
        assert name == own or LAYER[name] < LAYER[own], f"{own} imports {name}"
