"""Every example in a docstring runs and prints what it says; first lines are a verb or a noun with its object."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nrmmix

MODULES = sorted(
    m.name for m in pkgutil.walk_packages(nrmmix.__path__, "nrmmix.") if not m.name.startswith(("nrmmix.data", "nrmmix.__main__"))
)


LONG = (  # of seconds
    "results.variational_regression", "plots.effects", "results.mcmc", "results.clustering", "results.base", "results.variational",
    "report.frames", "plots.regressions", "plots.importance",
)


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.nightly if name.removeprefix("nrmmix.") in LONG else ()) for name in ("nrmmix", *MODULES)
])
def test_examples(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, extraglobs={"np": np}, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_public_names_have_docstrings_with_examples():
    for name in nrmmix.__all__:
        thing = getattr(nrmmix, name)
        if callable(thing):
            assert thing.__doc__, name
            assert ">>>" in thing.__doc__, f"{name} has no example"


def test_fit_explains_every_argument():
    """Those of the model and of the run, each under its own name, as `nrmmix.Model` and `Model.fit` explain them."""
    explained = inspect.getdoc(nrmmix.fit).split("Returns\n-------")[0]
    names = [name for line in explained.splitlines() if re.match(r"\w+(, \w+)* : ", line) for name in line.split(" : ")[0].split(", ")]
    assert sorted(names) == sorted(inspect.signature(nrmmix.fit).parameters)
    assert "tune, thin, chains : int, default 1000, 1 and 4" in explained and "{parameters}" not in explained
    assert "Fits of sources are variational." in explained and "`nrmmix.resume` goes on from there" in explained


# Words with which a first line says neither what a thing is nor what it does.
OPENINGS = ("By", "For", "From", "How", "In", "Of", "That", "The same", "To", "What", "When", "Where", "Which", "With")


@pytest.fixture(scope="module")
def trees():
    """Every file of the package, parsed."""
    files = sorted(Path(nrmmix.__file__).parent.rglob("*.py"))
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in files]


def first_lines(node: ast.AST, within: str) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{within}.{child.name}"
            if text := ast.get_docstring(child):
                yield name, text.splitlines()[0]
            yield from first_lines(child, name)
        else:
            yield from first_lines(child, within)


def test_first_lines_are_a_verb_or_a_noun_with_its_object(trees):
    found = []
    for path, tree in trees:
        lines = [(path.name, (ast.get_docstring(tree) or "-").splitlines()[0]), *first_lines(tree, path.name)]
        found += [(name, line) for name, line in lines if line.startswith(tuple(f"{word} " for word in OPENINGS))]
    assert found == []


def torn_rows(text: str) -> Iterator[str]:
    """Rows of the tables of a docstring with text between two columns; Sphinx refuses them."""
    border = ""
    for line in text.splitlines():
        if re.fullmatch(r"=+( +=+)+", line):
            border = line
        elif not line:
            border = ""
        elif any(mark == " " and letter != " " for mark, letter in zip(border, line, strict=False)):
            yield line


def test_tables_in_docstrings_keep_to_their_columns(trees):
    assert list(torn_rows("=== ==\na   b\nabcd e\n=== ==\n\nabcdefg")) == ["abcd e"]
    found, tables = [], 0
    for path, tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
                tables += re.search(r"^=+( +=+)+$", text, re.MULTILINE) is not None
                found += [(path.name, row) for row in torn_rows(text)]
    assert found == [] and tables >= 2
