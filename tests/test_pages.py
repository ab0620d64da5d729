"""Pages of docs/ belong to their scripts, and their links lead somewhere."""

import re
from pathlib import Path

import pytest

from nrmmix.report.vignette import cells, run

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted((ROOT / "vignettes").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OF_SITE = sorted((ROOT / "docs" / "site" / "pages").glob("*.md"))
GENERATED = {"gallery.md", "api/index.md"}  # by docs/site/build.py


def test_every_script_has_its_page_and_no_page_is_left_over():
    measured = ("calibration", "exactness", "exactness_regression")  # written by `make calibration` and `make matrix`
    assert sorted([*(script.stem for script in SCRIPTS), *measured]) == [page.stem for page in PAGES[1:]]
    folders = {path.name for path in (ROOT / "docs").iterdir() if path.is_dir()}
    assert folders - {"papers", "site"} <= {script.stem for script in SCRIPTS}  # docs/site makes a site of them


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_page_has_all_cells_of_its_script(script):
    page = (ROOT / "docs" / f"{script.stem}.md").read_text(encoding="utf-8")
    for cell in cells(script.read_text(encoding="utf-8")):
        parts = re.split(r"(?<!\\)\n", cell.text) if cell.kind == "bash" else [cell.text]
        assert all(part in page for part in parts), f"line {cell.line}: run `make docs`"


@pytest.mark.parametrize("page", [*PAGES, *OF_SITE], ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8"))
    targets = [target for target in targets if page not in OF_SITE or target not in GENERATED]
    missing = [target for target in targets if not target.startswith("http") and not (page.parent / target).exists()]
    assert not missing


@pytest.mark.slow
@pytest.mark.parametrize("name", ["formulas", "priors"])
def test_vignettes_run(name, tmp_path):
    """The two short ones; `make docs` runs all of them."""
    assert run(ROOT / "vignettes" / f"{name}.py", tmp_path).stat().st_size > 1000
