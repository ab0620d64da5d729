"""Files that must agree with each other; nothing is built here."""

import ast
import configparser
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Tables that may be handed on; everything else stays out of the repository.
TABLES = {"acidity.csv", "faithful.csv", "galaxy.csv", "iris.csv", "mcycle.csv"}
ARRAYS = {"digits.npz", "reuters.npz"}


@pytest.fixture(scope="module")
def setup():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return config


def version():
    """The literal in nrmmix/__init__.py: setuptools reads it without an import."""
    tree = ast.parse((ROOT / "nrmmix" / "__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__version__" for target in targets):
            return ast.literal_eval(node.value)
    raise AssertionError("no literal __version__ in nrmmix/__init__.py")


def test_the_lowest_versions_are_those_that_are_tested(setup):
    required = dict(re.findall(r"^([a-z]+)>=([\d.]+)", setup["options"]["install_requires"].strip(), re.MULTILINE))
    pinned = dict(re.findall(r"^([a-z]+)==([\d.]+)", (ROOT / ".ci" / "lowest.txt").read_text(encoding="utf-8"), re.MULTILINE))
    assert required and {name: pinned[name].removesuffix(".0") for name in required} == required


def test_only_known_tables_are_in_data():
    assert {path.name for path in (ROOT / "data").glob("*.csv")} == TABLES
    others = {path.name for path in (ROOT / "data").iterdir() if path.suffix in {".npz", ".npy", ".gz", ".zip"}}
    assert others == ARRAYS


@pytest.mark.parametrize("document", ["LICENSES.md", "README.md"])
def test_every_table_has_licence_and_provenance(document):
    text = (ROOT / "data" / document).read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w.]+)` \|", text, flags=re.MULTILINE)
    assert TABLES | ARRAYS <= set(rows)


def test_loaders_know_every_table():
    from nrmmix import datasets

    assert {f"{name}.csv" for name in datasets.names()} == TABLES


def test_every_package_folder_is_installed(setup):
    folders = {
        ".".join(Path(folder).relative_to(ROOT).parts)
        for folder, _, files in os.walk(ROOT / "nrmmix")
        if any(file.endswith(".py") for file in files)
    }
    packages = set(setup["options"]["packages"].split())
    assert packages == folders | {"nrmmix.data", "nrmmix.vignettes"}
    places = dict(line.split(" = ") for line in setup["options"]["package_dir"].strip().splitlines())
    assert places == {"nrmmix.data": "data", "nrmmix.vignettes": "vignettes"}


def test_package_data_is_declared(setup):
    declared = setup["options.package_data"]
    assert {"*.csv", "*.npz", "*.md"} == set(declared["nrmmix.data"].split(", "))
    assert {"*.py", "papers/*.py", "results/*.json", "results/*.png"} == set(declared["nrmmix.vignettes"].split(", "))
    assert declared["nrmmix"] == "py.typed"
    assert (ROOT / "nrmmix" / "py.typed").is_file()


def test_version_is_said_once(setup):
    assert setup["metadata"]["version"] == "attr: nrmmix.__version__"
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited is not None and cited[1].strip("\"'") == version()
    assert version() in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_classifiers_name_what_is_tested(setup):
    named = re.findall(r"Python :: (3\.\d+)", setup["metadata"]["classifiers"])
    lowest = setup["options"]["python_requires"].removeprefix(">=")
    assert named[0] == lowest and named == sorted(named, key=lambda one: int(one[2:]))
    assert "4 - Beta" in setup["metadata"]["classifiers"] and version().startswith("0.")


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_extras_resolve_on_every_python(setup, python):
    """ArviZ 1.0 needs Python 3.12: of its requirements one and only one counts on each version, and it is one that there is."""
    requirements = pytest.importorskip("packaging.requirements")
    for name, text in setup["options.extras_require"].items():
        wanted = [requirements.Requirement(line) for line in text.strip().splitlines()]
        own = [one for one in wanted if one.marker is None or one.marker.evaluate({"python_version": python})]
        assert own, name
        if name == "arviz":
            (arviz,) = [one for one in own if one.name == "arviz"]
            assert arviz.specifier.contains("0.23.1") == (python == "3.11") and arviz.specifier.contains("1.0.0") == (python != "3.11")


def test_a_release_is_built_and_checked_by_make_dist():
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndist:")[2].partition("\n\n")[0]
    assert "-m build" in recipe and "twine check --strict" in recipe
    assert re.search(r"^make dist$", (ROOT / ".ci" / "run").read_text(encoding="utf-8"), re.MULTILINE)
    assert "`make dist`" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## A release")[2]


def test_the_demo_leaves_reports_beside_pictures():
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndemo:")[2].partition("\n\n")[0]
    pictures = re.findall(r"--plot demo/(\w+)\.png", recipe)
    assert len(pictures) == 2 and re.findall(r"--report demo/(\w+)\.html", recipe) == pictures


def test_licence_is_said_alike(setup):
    assert setup["metadata"]["license"] == "BSD-3-Clause"
    assert "license: BSD-3-Clause" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("BSD 3-Clause License")


def test_ci_runs_make_test():
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = script.read_text(encoding="utf-8").splitlines()
    assert "set -e" in lines and "env -u NRMMIX_DATA_DIR make test" in lines  # what the README says, without files from elsewhere


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=lambda path: path.stem)
def test_tests_do_not_import_from_each_other(path):
    """What several of them need is in tests/support."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
        elif isinstance(node, ast.Import):
            found += [name.name for name in node.names]
    found = [module for module in found if module.split(".")[-1].startswith("test_")]
    assert not found
