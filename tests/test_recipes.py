"""The recipes of CONTRIBUTING.md for a family and a move, done to the letter in a copy of the tree, where the tests of its form then pass.

Nothing is compiled there: kernels run as Python.  That the same family and move are exact is tested outside the package.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
RECIPES = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# A step: the file and what is said of it, the kind of block, and the block.
STEP = re.compile(r"^`([^`\n]+)`([^\n]*):\n\n```(python|diff)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SWEEP = re.compile(r"^@entry\(MOVE_T\)\ndef sweep_backwards.*?^    return DONE\n", re.MULTILINE | re.DOTALL)
# What holds the form of the package: layers, lists of names, examples, docstrings, the matrix.
FORM = (
    "tests/test_layers.py", "tests/test_protocol.py", "tests/exact/test_matrix.py::test_every_prior_and_family_meets_every_method",
    "tests/exact/test_matrix.py::test_what_is_left_out_is_refused", "tests/test_packaging.py::test_every_package_folder_is_installed",
    "tests/test_docstrings.py::test_public_names_have_docstrings_with_examples",
    "tests/test_docstrings.py::test_first_lines_are_a_verb_or_a_noun_with_its_object",
)


class Step(NamedTuple):
    """One block of a recipe, and the file that it is for."""

    file: str
    about: str
    kind: str
    block: str


def steps(heading: str) -> list[Step]:
    """Steps of a section."""
    _, _, text = RECIPES.partition(f"\n{heading}\n")
    assert text, heading
    return [Step(*found) for found in STEP.findall(re.split(r"\n##+ ", text)[0])]


def changed(text: str, diff: str) -> str:
    """A text with the hunks of a diff; lines that are to stay or to go must be there, in one place."""
    for hunk in re.split(r"^@@\n", diff, flags=re.MULTILINE):
        lines = hunk.splitlines()
        assert all(line[:1] in "+- " for line in lines), hunk
        before, after = ("\n".join(line[1:] for line in lines if line[0] != sign) for sign in "+-")
        assert before and text.count(before) == 1, f"these lines are in {text.count(before)} places, not in one:\n{before}"
        text = text.replace(before, after)
    return text


def part_of(about: str) -> str:
    """What a step says stands after its block: a part of a file, or the kernel of the move."""
    if found := re.search(r'the part "([^"]+)" of `([^`]+)`', about):
        name, file = found.groups()
        text = (ROOT / file).read_text(encoding="utf-8")
        parts = [part for part in re.split(r"(?m)^# ---- ", text) if part.startswith(name)]
        assert len(parts) == 1, about
        return f"# ---- {parts[0].rstrip()}\n"
    assert "`sweep_backwards`" in about or not about, about
    return "\n" + SWEEP.findall(RECIPES)[0] if about else ""


def follow(step: Step, tree: Path) -> None:
    path = tree / step.file
    if step.kind == "diff":
        path.write_text(changed(path.read_text(encoding="utf-8"), step.block), encoding="utf-8")
    else:
        assert not path.exists(), path
        path.write_text(step.block + part_of(step.about), encoding="utf-8")


def run(tree: Path, *arguments: str) -> str:
    """What Python prints in the tree, as it is there, without compiling."""
    environment = os.environ | {
        "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "tests")]), "MPLBACKEND": "Agg",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    made = subprocess.run(
        [sys.executable, *arguments], cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900
    )
    assert made.returncode == 0, made.stdout
    return made.stdout


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of what makes the package and its tests, with the family and the move."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("nrmmix", "tests", "data", "vignettes"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("setup.cfg", "pyproject.toml", "CONTRIBUTING.md"):
        shutil.copy(ROOT / file, tree / file)
    found = steps("### A family"), steps("### A move")
    assert [len(each) for each in found] == [8, 6], "a block without its file above it"
    for step in [*found[0], *found[1]]:
        follow(step, tree)
    return tree


FIT = """
import numpy as np, nrmmix as nm, nrmmix.extending
assert nrmmix.__file__.startswith({tree!r}), nrmmix.__file__
y = np.random.default_rng(0).exponential(np.repeat([1.0, 50.0], 6))
fit = nm.Model("wait ~ 1", {{"wait": y}}, family=nm.Exponential()).fit([nm.Backwards(), nm.SplitMerge()], draws=5, tune=5, chains=1, rng=1)
assert nm.load(fit.save({tree!r} + "/fit.npz")).cycle == fit.cycle
print(fit.method, type(fit.model.family).__module__, (fit.predict(kind="quantile", q=0.5, draws=5)["estimate"] > 0).all())
"""
# the kernel of a move from outside, and its class, as the section on moves has them
OUTSIDE = """
from nrmmix.extending import *
import numpy as np, nrmmix as nm, nrmmix.extending
from nrmmix.extending import MOVE_T
{block}
model = nm.Model(data=np.random.default_rng(0).normal(size=(12, 1)))
print(model.fit([Backwards(), nm.SplitMerge()], draws=3, tune=3, chains=1, rng=1).method)
"""


def test_a_family_and_a_move_as_the_recipes_say(tree):
    assert run(tree, "-c", FIT.format(tree=str(tree))).split() == [
        "backwards", "+", "split_merge", "nrmmix.model.families.waiting_times", "True"
    ]


@pytest.mark.nightly
def test_the_form_of_the_package_is_kept(tree):
    chosen = "not saved_fit or Backwards"  # fits of all others take long without the compiler
    printed = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", chosen, *FORM)
    assert "passed" in printed and "failed" not in printed
    for module in ("nrmmix.model.families.waiting_times", "nrmmix.inference.mcmc.moves.backwards"):
        run(tree, "-m", "doctest", "-o", "NORMALIZE_WHITESPACE", str(tree / f"{module.replace('.', '/')}.py"))


MARGINALS = """
import numpy as np, nrmmix as nm
from exact.matrix import families, PRIORS
from exact.enumeration import partitions
case, (prior, log_eppf) = families()["Exponential"], PRIORS["DP(1)"]
model = case.build(prior)
gaps = []
for labels in partitions(case.n):
    blocks = [[i for i in range(case.n) if labels[i] == c] for c in range(max(labels) + 1)]
    gaps.append(model.log_joint(labels) - log_eppf([len(b) for b in blocks]) - sum(map(case.log_marginal, blocks)))
print(len(gaps), np.ptp(gaps) < 1e-9)
"""


@pytest.mark.nightly
def test_the_case_of_the_matrix_is_that_family(tree):
    assert run(tree, "-c", MARGINALS).split() == ["52", "True"]


@pytest.mark.nightly
def test_a_move_of_ones_own_as_it_stands():
    section = RECIPES.partition("\n## A move of your own\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    assert run(ROOT, "-c", OUTSIDE.format(block=block)).strip() == "backwards + split_merge"


def test_recipes_that_are_out_of_date_are_told():
    with pytest.raises(AssertionError, match=r"these lines are in 0 places, not in one:\s+EXAMPLES = \{"):
        changed("EXAMPLES = [\n", " EXAMPLES = {\n+    nm.Exponential(),\n")
    with pytest.raises(AssertionError, match="in 2 places"):
        changed("a\na\n", "-a\n+b\n")
    assert changed("a\nb\nc\n", " a\n+x\n@@\n-c\n+d\n") == "a\nx\nb\nd\n"
