"""Results that vignettes read, and prose that is filled in from them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nrmmix.report import recorded
from nrmmix.report.vignette import VignetteError, cells, play

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "results").mkdir()
    (tmp_path / "papers").mkdir()
    monkeypatch.setattr(recorded, "vignettes", lambda: tmp_path)
    return tmp_path


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def test_a_page_says_which_results_it_has_read(folder):
    path = write(folder / "results" / "mixing.json", {"settings": {}, "results": {"t": [{"tau": 2.5}]}})
    script = write(folder / "papers" / "page.py", (
        '# %%\nfrom nrmmix.report import recorded\n\ntau = recorded.recorded("mixing")["results"]["t"][0]["tau"]\n\n'
        "# %% [prose]\n# A time of {tau:.2f}.\n"))
    page = play(script)
    assert "A time of 2.50." in page.markdown() and f"<!-- recorded: mixing {page.recorded['mixing']} -->" in page.markdown()
    write(path, {"settings": {}, "results": {"t": [{"tau": 3.0}]}})
    assert "A time of 3.00." in play(script).markdown() and play(script).recorded != page.recorded


def test_results_that_are_not_there_or_damaged(folder):
    write(folder / "results" / "mixing.json", "{")
    with pytest.raises(recorded.MissingResults, match=r"python -m benchmarks\.mixin --json .* did you mean 'mixing'"):
        recorded.recorded("mixin")
    for content in ("{", "[]", {"settings": {}}):
        write(folder / "results" / "mixing.json", content)
        with pytest.raises(ValueError, match="is no file of results"):
            recorded.recorded("mixing")


def test_results_are_read_outside_pages_too(folder):
    write(folder / "results" / "mixing.json", {"settings": {"n": 1}, "results": {}})
    assert recorded.recorded("mixing")["settings"] == {"n": 1} and recorded.USED.get() is None


def test_prose_that_cannot_be_filled_in(tmp_path):
    script = write(tmp_path / "page.py", "# %%\nx = 1\n# %% [prose]\n# one\n# and {y:.1f}\n")
    with pytest.raises(VignetteError, match=r"page\.py: the text at line 4 cannot be filled in: NameError: name 'y'"):
        play(script)
    with pytest.raises(VignetteError, match="three double quotes"):
        play(write(tmp_path / "quotes.py", '# %% [prose]\n# """\n'))


def test_prose_is_text_and_keeps_what_is_no_figure(tmp_path):
    assert [cell.kind for cell in cells("# %% [prose]\n# a {1 + 1} b\n")] == ["prose"]
    page = play(write(tmp_path / "page.py", '# %% [prose]\n# "a" {1 + 1} {{x}} \\n \'b\'\n#\n# {"q" * 2} c"\n'))
    assert page.parts[0].text == '"a" 2 {x} \\n \'b\'\n\nqq c"'


@pytest.mark.parametrize("value", ["", "1"])
def test_short_forms_are_asked_for_by_the_environment(monkeypatch, value):
    monkeypatch.setenv(recorded.FAST, value)
    assert recorded.is_fast() == bool(value)


def test_the_folder_of_vignettes_has_those_of_papers():
    assert list((recorded.vignettes() / "papers").glob("*.py"))


def test_an_installed_package_finds_its_vignettes(tmp_path):
    """The layout of a wheel, where there is no checkout around the package."""
    shutil.copytree(ROOT / "nrmmix", tmp_path / "nrmmix", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "vignettes", tmp_path / "nrmmix" / "vignettes")
    code = "from nrmmix.report.recorded import recorded, vignettes; print(vignettes()); recorded('permutation')"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, check=True)
    assert Path(done.stdout.strip()) == tmp_path / "nrmmix" / "vignettes"
