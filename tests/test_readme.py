"""The README: figures that it quotes stand in the pages that they are from, and its calls exist."""

import ast
import re
from pathlib import Path

import nrmmix as nm

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(heading):
    return README.split(f"## {heading}\n")[1].split("\n## ")[0]


def quoted(text):
    """Figures of a table of claims, and the files they are from."""
    rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")][2:]
    return [(cells[1].strip().strip("`").replace(r"\|", "|"), re.search(r"\]\(([^)]+)\)", cells[2])[1]) for cells in rows]


def test_figures_are_those_of_the_pages():
    found = quoted(section("What shows that it is right"))
    assert len(found) >= 4 and all(re.search(r"\d", figure) for figure, _ in found)
    for figure, page in found:
        assert figure in (ROOT / page).read_text(encoding="utf-8"), f"{page} does not say {figure!r}"


def test_a_figure_that_differs_is_found():
    (figure, page), *_ = quoted(section("What shows that it is right"))
    assert figure.replace("0 beyond", "1 beyond") not in (ROOT / page).read_text(encoding="utf-8")


def test_no_other_figure_of_results_is_quoted():
    """Numbers of several digits or with decimals are in the table of claims, in calls, in years or in versions."""
    text = README.replace(section("What shows that it is right"), "")
    text = re.sub(r"```.*?```|`[^`]*`|^    [^\n]*$|\]\([^)]*\)|\(\d{4}\)", "", text, flags=re.DOTALL | re.MULTILINE)
    numbers = set(re.findall(r"(?<![\w.,])\d[\d.,]*\d(?!\w)", text))
    compiling = {"18", "38"}  # tests/test_paper_pages.py compares them with what is recorded
    assert numbers <= {"3.11", "30", "20,000", "20", "50", "300", *compiling}


def test_calls_parse_and_name_what_is_there(monkeypatch):
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    results = {"fit", "curve", "several"}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = nm.MCMCResult if node.value.id in results else nm
            assert hasattr(owner, node.attr) or node.attr == "draws", f"{node.value.id}.{node.attr}"


def test_the_example_runs(tmp_path, monkeypatch):
    """With fewer draws."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(nm.plots, "available", lambda model: ("trace",))  # pictures of reports have tests of their own
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    code = code.replace("draws=1000, tune=2000, thin=20", "draws=20, tune=20, chains=2")
    code = code.replace("load_faithful(), rng=1", "load_faithful(), draws=20, tune=20, chains=2, rng=1")
    names = {}
    exec(code, names)
    assert names["curve"].draws.n_draws == names["fit"].draws.n_draws == 20
    assert (tmp_path / "faithful.html").is_file() and (tmp_path / "faithful.npz").is_file()
