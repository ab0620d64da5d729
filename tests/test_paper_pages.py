"""Pages on papers: they belong to their scripts and to the results that they show, and quote no figure by hand."""

import hashlib
import json
import re
import statistics
from pathlib import Path

import pytest
from support.pages import parts_of

import nrmmix as nm
from nrmmix.plots import kinds
from nrmmix.report.recorded import FAST
from nrmmix.report.vignette import cells, made_by, play, shortened

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted((ROOT / "vignettes" / "papers").glob("*.py"))
RESULTS = sorted((ROOT / "vignettes" / "results").glob("*.json"))
CHEAP = ("permutation",)  # short forms that take some ten seconds



def seconds_of_compiling(results):
    cold = [row["this"] for row in results["seconds"] if row["part"] == "cold"]
    return min(cold), max(cold)


def coverage(shape, where):
    """The least and the largest share of bands that hold the mean, over numbers of rows."""

    def of(results):
        shares = [row["coverage"] for row in results["bands"] if (row["shape"], row["where"]) == (shape, where)]
        return min(shares), max(shares)

    return of


def beside(data, other):
    """Mean over splits of our score less that of another method, and its standard error."""

    def of(results):
        differences = [row["density regression"] - row[other] for row in results["splits"] if row["set"] == data]
        return statistics.mean(differences), statistics.stdev(differences) / len(differences) ** 0.5

    return of


# Figures that README and pages of docs/ quote by hand: file, text with blanks for the figures, results, and what the figures are of them.
SITE = "docs/site/pages/what_works.md"
QUOTED = [
    ("README.md", "compiles for {:.0f} to {:.0f} seconds", "compare", seconds_of_compiling),
    ("docs/command_line.md", "compiles for {:.0f} to {:.0f} seconds", "compare", seconds_of_compiling),
    ("README.md", "; ours less the heteroscedastic one is {:.2f} ± {:.2f}, undecided |", "density_regression",
     beside("motorcycle", "heteroscedastic GP")),
    ("README.md", "; ours less the joint mixture is {:.3f} ± {:.3f}, undecided |", "density_regression",
     beside("bimodal", "joint mixture")),
    (SITE, "90% bands hold the turn of a wave in {:.2f} to {:.2f} of tables", "bands", coverage("wave", "just beyond")),
    (SITE, "90% bands hold it at {:.2f} to {:.2f} of the points", "bands", coverage("step", "edge")),
    (SITE, "90% bands hold a wave at {:.2f} to {:.2f} of the points", "bands", coverage("wave", "inside")),
    (SITE, "a line at {:.2f} to {:.2f} (`python -m benchmarks.bands`)", "bands", coverage("line", "inside")),
]

names = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)


def page_of(script):
    return (ROOT / "docs" / "papers" / f"{script.stem}.md").read_text(encoding="utf-8")


def test_every_script_has_its_page_and_no_page_is_left_over():
    folder = ROOT / "docs" / "papers"
    assert {path.stem for path in folder.glob("*.md")} == {script.stem for script in SCRIPTS}
    assert {path.name for path in folder.iterdir() if path.is_dir()} <= {script.stem for script in SCRIPTS}
    for script in SCRIPTS:
        shown = set(re.findall(rf"!\[[^\]]*\]\({script.stem}/([^)]+)\)", page_of(script)))
        assert shown == {path.name for path in (folder / script.stem).glob("*")}


@names
def test_a_page_has_all_cells_of_its_script(script):
    page = page_of(script)
    for cell in cells(script.read_text(encoding="utf-8")):
        assert all(part in page for part in parts_of(cell)), f"line {cell.line}: run `make vignettes`"


@names
def test_a_page_shows_the_results_that_are_there(script):
    """Prose is computed from results, so a page is right where it was made from these very files."""
    stated = dict(re.findall(r"^<!-- recorded: (\S+) (\S+) -->$", page_of(script), re.MULTILINE))
    assert set(stated) == set(re.findall(r"recorded\(\"(\w+)\"\)", script.read_text(encoding="utf-8")))
    for name, digest in stated.items():
        content = (ROOT / "vignettes" / "results" / f"{name}.json").read_bytes()
        assert hashlib.sha256(content).hexdigest()[:16] == digest, f"{name}.json has changed: run `make vignettes`"


@names
def test_a_page_was_made_by_the_code_that_is_there(script):
    *_, last = page_of(script).splitlines()
    wanted = made_by(script.read_text(encoding="utf-8"))
    assert last == wanted, f"code, a table or the version has changed since it was made: run `make vignettes`, which ends it in {wanted}"


@names
def test_text_quotes_no_figure_by_hand(script):
    """Decimals stand in code, from where prose takes them: measured ones come from results, those of a paper from a table of it."""
    for cell in cells(script.read_text(encoding="utf-8")):
        if cell.kind in ("markdown", "prose"):
            text = re.sub(r"\{(?:[^{}]|\{[^{}]*\})*\}|`[^`]*`|[Ss]ections? [\d.]+|(?m:^    .*$)", "", cell.text)
            assert not re.findall(r"\d\.\d", text), f"line {cell.line} of {script.name}"


@names
def test_links_lead_somewhere(script):
    targets = re.findall(r"\]\(([^)#]+)\)", page_of(script))
    assert not [one for one in targets if not one.startswith("http") and not (ROOT / "docs" / "papers" / one).exists()]


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_results_say_how_and_where_they_were_measured(path):
    found = json.loads(path.read_text(encoding="utf-8"))
    assert {"benchmark", "nrmmix", "commit", "date", "settings", "machine", "results"} == set(found)
    assert (ROOT / "benchmarks" / f"{found['benchmark']}.py").is_file()
    assert found["settings"] and found["machine"]["processor"] and all(found["results"].values())
    assert not re.search(r"/(home|work|Users|tmp)/", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("file", "text", "results", "figures"), QUOTED)
def test_quoted_figures_are_those_of_the_results(file, text, results, figures):
    found = json.loads((ROOT / "vignettes" / "results" / f"{results}.json").read_text(encoding="utf-8"))
    assert text.format(*figures(found["results"])) in " ".join((ROOT / file).read_text(encoding="utf-8").split())


@names
def test_short_forms_are_no_part_of_the_code_that_is_shown(script):
    """Comments at the head say what is shorter; each finds its code, so the short form is another script."""
    source = script.read_text(encoding="utf-8")
    assert (shortened(source) != source) == ("# short: " in source)
    assert "is_fast" not in source and "# short" not in page_of(script) and "NRMMIX_FAST" not in source


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("name", CHEAP)
def test_short_forms_run(name, monkeypatch):
    monkeypatch.setenv(FAST, "1")
    page = play(ROOT / "vignettes" / "papers" / f"{name}.py")
    assert page.recorded and page.pictures and len(page.markdown()) > 3000


@pytest.mark.nightly
@names
def test_all_short_forms_run(script, monkeypatch):
    monkeypatch.setenv(FAST, "1")
    for module in (kinds, nm.plots):  # a picture of a page's own is gone after it
        monkeypatch.setattr(module, "KINDS", dict(kinds.KINDS))
    assert len(play(script).markdown()) > 3000
