"""Pages of docs/ belong to their scripts, and their links lead somewhere."""

import difflib
import re
from pathlib import Path

import pytest
from support.pages import parts_of

from nrmmix.plots import KINDS
from nrmmix.report.vignette import cells, made_by, run

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted((ROOT / "vignettes").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OF_SITE = sorted((ROOT / "docs" / "site" / "pages").glob("*.md"))
GENERATED = {"gallery.md", "api/index.md"}  # by docs/site/build.py


def test_every_script_has_its_page_and_no_page_is_left_over():
    measured = ("calibration", "exactness", "exactness_regression", "nightly")  # written by `make nightly`
    assert sorted([*(script.stem for script in SCRIPTS), *measured]) == [page.stem for page in PAGES[1:]]
    folders = {path.name for path in (ROOT / "docs").iterdir() if path.is_dir()}
    assert folders - {"papers", "site"} <= {script.stem for script in SCRIPTS}  # docs/site makes a site of them


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_page_has_all_cells_of_its_script(script):
    page = (ROOT / "docs" / f"{script.stem}.md").read_text(encoding="utf-8")
    for cell in cells(script.read_text(encoding="utf-8")):
        assert all(part in page for part in parts_of(cell)), f"line {cell.line}: run `make docs`"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_page_was_made_by_the_code_that_is_there(script):
    """Code, tables and version are those of the last `make docs`; whether it prints the same still, the night compares."""
    *_, last = (ROOT / "docs" / f"{script.stem}.md").read_text(encoding="utf-8").splitlines()
    wanted = made_by(script.read_text(encoding="utf-8"))
    assert last == wanted, f"code, a table or the version has changed since the page was made: run `make docs`, which ends it in {wanted}"


@pytest.mark.parametrize("page", [*PAGES, *OF_SITE], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    targets = [target for target in targets if page not in OF_SITE or target not in GENERATED]
    missing = [target for target in targets if not target.startswith("http") and not (page.parent / target).exists()]
    assert not missing


SHORT = (pytest.param("formulas", marks=pytest.mark.nightly), "priors")


@pytest.mark.slow
@pytest.mark.parametrize("name", SHORT)
def test_vignettes_run(name, tmp_path):
    """The shortest by day; all of them by night, and by `make docs`."""
    assert run(ROOT / "vignettes" / f"{name}.py", tmp_path).stat().st_size > 1000


NUMBER = r"[\d.,]*\d"
OF_MACHINE = (  # times, rates, sizes in memory, versions, and what is said of compiling
    (rf"{NUMBER} ?(?:ns|µs|ms|s|seconds?|min|minutes?|h|hours?)\b", "(time)"),
    (rf"a second {NUMBER}", "a second (rate)"),
    (rf"(?m)^(\"?[Ss]econds\"?:?) +{NUMBER}", r"\1 (time)"),
    (rf"{NUMBER} [kMG]B\b", "(size)"),
    (r"\b(Python|NumPy|SciPy|numba|pandas) \d+(\.\d+)+", r"\1 (version)"),
    (r"(?m)^nrmmix: compiling .*\n(?:[^\n]+ disk \.\.\.\n)?", ""),
    (r"(?m)^<!-- .*\n", ""),
    (r"[ ]{2,}|-{4,}", " "),  # columns are as wide as what is in them
)


def without_machine(page):
    """A page without what another run would say otherwise."""
    for pattern, instead in OF_MACHINE:
        page = re.sub(pattern, instead, page)
    return page


def test_what_is_of_the_machine_does_not_count_and_numbers_do():
    page = "4 chains, 3.6 s, seed 1\nrates  1.00\neffective draws a second 0.60 of Gibbs\n"
    page += "nrmmix: compiling kernels, about 30 s; later runs find them on disk ...\nmean 2.5\n"
    other = "4 chains, 12 s, seed 1\nrates 1.00\neffective draws a second 0.7 of Gibbs\nmean 2.5\n"
    assert without_machine(page) == without_machine(other) != without_machine(other.replace("2.5", "2.6"))
    assert without_machine(other) != without_machine(other.replace("seed 1", "seed 2"))


@pytest.mark.nightly
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_page_shows_what_its_script_prints_now(script, tmp_path):
    """On the kind of processor that pages were made on: elsewhere last bits of sums differ, and chains with them."""
    now = without_machine(run(script, tmp_path).read_text(encoding="utf-8")).splitlines()
    shown = without_machine((ROOT / "docs" / f"{script.stem}.md").read_text(encoding="utf-8")).splitlines()
    changes = list(difflib.unified_diff(shown, now, "the page", "its script now", lineterm="", n=0))
    assert not changes, "run `make docs`:\n" + "\n".join(changes[:60])


def shortened(command):
    """A command whose chains, if it fits, are of 20 draws."""
    command = re.sub(r" --(?:draws|tune|thin) \d+", "", command)
    return re.sub(r"(nrmmix fit .*?) --seed", r"\1 --draws 20 --tune 20 --seed", command)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("command_line", marks=pytest.mark.nightly), "reliability"])
def test_shell_commands_of_pages_run(name, tmp_path, monkeypatch):
    """In their order, with short chains; those that must fail do, and what is written is there.

    Not those which run vignettes, as other tests do.
    """
    lines = []
    for cell in cells((ROOT / "vignettes" / f"{name}.py").read_text(encoding="utf-8")):
        if cell.kind == "bash" and "--to pages" not in cell.text:
            lines += [f"# %% [bash]{' raises' if cell.raises else ''}", *(f"# {line}" for line in shortened(cell.text).splitlines()), ""]
    script = tmp_path / f"{name}.py"
    script.write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    page = run(script, tmp_path).read_text(encoding="utf-8")
    assert page.count("```console") == len([line for line in lines if line.startswith("# %%")])
    if name == "command_line":
        written = {path.name for path in Path().iterdir()}
        mcycle = {"mcycle.npz", "mcycle.html", "mcycle.png", "again.html", "new.csv", "quantiles.csv"}
        compared = {"se.npz", "se.txt", "later.csv"}
        assert written == mcycle | compared | {"faithful.npz", "faithful.txt"}
        assert "did you mean" in page


@pytest.mark.parametrize("page", [PAGES[0], *OF_SITE], ids=lambda page: page.stem)
def test_python_of_other_pages_is_python(page):
    """What scripts do not make: it parses, and what it names of the package is there."""
    import ast

    import nrmmix

    for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "nm":
                assert hasattr(nrmmix, node.attr)


def test_the_page_on_plots_shows_every_kind():
    shown = re.findall(r'\.plot\("(\w+)"', (ROOT / "vignettes" / "plots.py").read_text(encoding="utf-8"))
    assert set(shown) == set(KINDS)
