"""Command line: JSON, fits compared, vignettes as pages and notebooks."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.cli import main
from nrmmix.cli import pages as command
from nrmmix.report import recorded

ROOT = Path(__file__).resolve().parent.parent
SMALL = ["--draws", "30", "--tune", "10", "--chains", "2", "--seed", "5", "--cores", "1", "--no-progress"]
SCRIPT = '''# %% [markdown]
# # A <small> page
#
# One *line*, `a < b`, a [link](other.md).
#
# | a | b |
# |---|---|
# | 1 | 2 |

# %%
x = 2.345
print("said")

# %% [prose]
# The value is {x:.1f}, and twice that {2 * x:.2f} "so" {{braces}} \\alpha.

# %%
from matplotlib import pyplot

_, axes = pyplot.subplots()
axes

# %% [bash]
# echo ümlaut

# %% raises
1 / 0
'''


def refused(capsys, arguments):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and "Traceback" not in err
    return err


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fits")
    paths = []
    for name, formula in (("regression", "waiting_min ~ eruptions_min"), ("mixture", "waiting_min ~ 1")):
        paths.append(folder / f"{name}.npz")
        assert main(["fit", formula, "--data", "faithful", *SMALL, "--save", str(paths[-1])]) == 0
    return paths


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder of vignettes that has one of each group, and one that fails."""
    (tmp_path / "v" / "papers").mkdir(parents=True)
    (tmp_path / "v" / "page.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "v" / "papers" / "paper.py").write_text(
        "# short: fast = False -> fast = True\n# %% [markdown]\n# # Paper\n\n# %%\nfast = False\nfast\n", encoding="utf-8")
    (tmp_path / "v" / "papers" / "broken.py").write_text("# %%\n1 / 0\n", encoding="utf-8")
    (tmp_path / "v" / "papers" / "lacking.py").write_text(
        "# %%\nfrom nrmmix.report.recorded import recorded\n\nrecorded('nowhere')\n", encoding="utf-8")
    monkeypatch.setattr(recorded, "vignettes", lambda: tmp_path / "v")
    return tmp_path


# ---- JSON


def test_a_fit_and_its_summary_as_json(capsys, saved):
    assert main(["summary", str(saved[1]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    fit = nm.load(saved[1])
    assert found["fit"]["n_obs"] == 272 and found["fit"]["seed"] == 5 and found["fit"]["formula"] == "waiting_min ~ 1"
    tidy = fit.tidy()
    assert [row["term"] for row in found["estimates"]] == tidy["term"].tolist()
    np.testing.assert_allclose([row["estimate"] for row in found["estimates"]], tidy["estimate"])
    assert sum(row["size"] for row in found["clusters"]) == 272
    assert {"mean waiting_min", "sd waiting_min"} <= set(found["clusters"][0]["parameters"])
    assert "Run longer" in found["notes"][-1]
    assert main(["fit", "waiting_min ~ 1", "--data", "faithful", *SMALL, "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["estimates"] == found["estimates"] and again["clusters"] == found["clusters"]


@pytest.mark.parametrize("method", ["ibhc", "vb"])
def test_searches_and_variational_fits_as_json(capsys, method):
    assert main(["fit", "waiting_min ~ 1", "--data", "faithful", "--method", method, "--seed", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fit"]["method"] == method and found["estimates"] == []
    assert sum(row["size"] for row in found["clusters"]) == 272


def test_predictions_and_data_sets_as_json(capsys, saved):
    options = ["--kind", "density", "--at", "55", "80", "--draws", "9"]
    assert main(["predict", str(saved[1]), *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = nm.load(saved[1]).predict(kind="density", at=[55, 80], draws=9)
    np.testing.assert_allclose([row["estimate"] for row in found], expected["estimate"])
    assert main(["datasets", "--json"]) == 0
    assert {"name": "faithful", "rows": 272, "columns": ["eruptions_min", "waiting_min"]} in json.loads(capsys.readouterr().out)


def test_json_beside_other_outputs_is_refused(capsys, saved):
    assert "leave one of them out" in refused(capsys, ["summary", str(saved[0]), "--json", "--format", "html"])
    assert "leave one of them out" in refused(capsys, ["predict", str(saved[0]), "--json", "--out", "x.csv"])


# ---- compare


def test_fits_are_compared_as_in_python(capsys, saved, tmp_path):
    new = nm.datasets.load_faithful().iloc[:40]
    new.to_csv(tmp_path / "new.csv", index=False)
    names = [str(path) for path in saved]
    with pytest.warns(UserWarning, match="has seen 40 of 40 rows"):
        expected = nm.compare({name: nm.load(name) for name in names}, newdata=new)
    assert main(["compare", *names, "--data", str(tmp_path / "new.csv"), "--json"]) == 0
    written = capsys.readouterr()
    assert "warning: compare: " in written.err and written.err.count("has seen 40 of 40 rows") == 2
    found = pd.DataFrame(json.loads(written.out)).set_index("fit")
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert found.index[0] == names[0]
    assert main(["compare", *names, "--data", str(tmp_path / "new.csv")]) == 0
    out = capsys.readouterr().out
    assert "elpd" in out and "difference_se" in out and names[1] in out


def test_what_compare_refuses(capsys, saved, tmp_path):
    assert "needs two saved fits" in refused(capsys, ["compare", str(saved[0])])
    assert "is given twice" in refused(capsys, ["compare", str(saved[0]), str(saved[0])])
    assert "there is no file 'none.npz'" in refused(capsys, ["compare", str(saved[0]), "none.npz"])
    other = tmp_path / "galaxy.npz"
    assert main(["fit", "velocity_km_s ~ 1", "--data", "galaxy", *SMALL, "--save", str(other)]) == 0
    capsys.readouterr()
    assert "different responses" in refused(capsys, ["compare", str(saved[0]), str(other), "--data", "faithful"])


# ---- vignettes


class Tags(HTMLParser):
    """Every tag that opens closes, in order."""

    VOID = ("meta", "img", "br")

    def __init__(self):
        super().__init__()
        self.open, self.links, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_vignette_as_three_files(capsys, own):
    assert main(["vignettes", "page", "--to", str(own / "out")]) == 0
    names = [Path(line).name for line in capsys.readouterr().out.splitlines()]
    assert names == ["page.md", "page.html", "page.ipynb"]
    text = (own / "out" / "page.md").read_text(encoding="utf-8")
    assert 'The value is 2.3, and twice that 4.69 "so" {braces} \\alpha.' in text and "ümlaut" in text
    page = Tags()
    page.feed((own / "out" / "page.html").read_text(encoding="utf-8"))
    assert page.open == [] and {link[:22] for link in page.links} == {"other.md", "data:image/png;base64,"}
    assert "A <small> page" in page.text and "a < b" in page.text and "ZeroDivisionError" in page.text and "|" not in page.text
    notebook = json.loads((own / "out" / "page.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4 and notebook["nbformat_minor"] == 5
    kinds = [cell["cell_type"] for cell in notebook["cells"]]
    assert kinds == ["markdown", "code", "code", "code", "code", "code"]
    filled = notebook["cells"][2]
    assert "".join(filled["outputs"][0]["data"]["text/markdown"]) in text
    assert notebook["cells"][4]["source"][0] == "%%bash\n" and "image/png" in notebook["cells"][3]["outputs"][0]["data"]


def test_notebooks_are_valid_and_run(own):
    nbformat = pytest.importorskip("nbformat")
    assert main(["vignettes", "page", "--to", str(own / "out"), "--format", "ipynb"]) == 0
    nbformat.validate(nbformat.read(own / "out" / "page.ipynb", as_version=4))


def test_cells_of_a_notebook_compute_the_prose(own):
    """The Python of a notebook, run without Jupyter, gives the text of the page."""
    assert main(["vignettes", "page", "--to", str(own / "out"), "--format", "ipynb"]) == 0
    cells = json.loads((own / "out" / "page.ipynb").read_text(encoding="utf-8"))["cells"]
    source = "".join(cells[2]["source"])
    expression = source.split("Markdown(", 1)[1].rsplit(")", 1)[0]
    assert eval(expression, {"x": 2.345}).strip() == "".join(cells[2]["outputs"][0]["data"]["text/markdown"])


def test_groups_short_forms_and_failures(capsys, own, monkeypatch):
    monkeypatch.delenv(recorded.FAST, raising=False)
    out = ["--to", str(own / "out"), "--format", "md"]
    assert main(["vignettes", "paper", "--fast", *out]) == 0
    assert "\nTrue\n" in (own / "out" / "paper.md").read_text(encoding="utf-8") and recorded.FAST not in os.environ
    assert main(["vignettes", "paper", *out]) == 0
    assert "\nFalse\n" in (own / "out" / "paper.md").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["vignettes", "papers", *out]) == 2  # one fails, one lacks its results, the third is written
    shown, err = capsys.readouterr()
    assert shown.splitlines() == [str(own / "out" / "paper.md")]
    assert "ZeroDivisionError" in err and "python -m benchmarks.nowhere --json" in err and "3 of 3: paper" in err
    assert main(["vignettes", "broken", *out]) == 1


def test_remedies_on_a_page_are_python(own):
    code = "nm.fit('velocity_km_s ~ 1', nm.datasets.load_galaxy(), draws=20, tune=0, chains=2, rng=1).summary()"
    (own / "v" / "papers" / "paper.py").write_text(f"# %%\nimport nrmmix as nm\n\n{code}\n", encoding="utf-8")
    assert main(["vignettes", "paper", "--to", str(own / "out"), "--format", "md"]) == 0
    text = (own / "out" / "paper.md").read_text(encoding="utf-8")
    assert "Run longer: tune=500, draws=" in " ".join(text.split()) and "--draws" not in text


def test_the_list_of_vignettes(capsys, own):
    assert main(["vignettes", "--list"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^page +guide +A <small> page$", out, re.MULTILINE) and re.search(r"^paper +papers +Paper$", out, re.MULTILINE)


def test_what_vignettes_refuses(capsys, own):
    err = refused(capsys, ["vignettes", "papre"])
    assert "there is no vignette 'papre'" in err and "did you mean 'paper'" in err and "page, broken, lacking, paper" in err
    assert "--fast is for vignettes that have a short form" in refused(capsys, ["vignettes", "page", "--fast"])
    assert "there is no folder" in refused(capsys, ["vignettes", "page", "--to", str(own / "no" / "out")])
    (own / "file").write_text("")
    assert "is a file" in refused(capsys, ["vignettes", "page", "--to", str(own / "file")])


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(capsys, own):
    (own / "out").mkdir(mode=0o555)
    assert "permission denied" in refused(capsys, ["vignettes", "page", "--to", str(own / "out")])


def test_without_vignettes_the_message_says_so(capsys, monkeypatch):
    def none():
        raise FileNotFoundError("this installation of nrmmix has no vignettes, and there is no checkout around it")

    monkeypatch.setattr(recorded, "vignettes", none)
    assert "has no vignettes" in refused(capsys, ["vignettes", "--list"])


def test_a_locale_without_utf8(tmp_path):
    folder = tmp_path / "v" / "papers"
    folder.mkdir(parents=True)
    (folder.parent / "page.py").write_text(SCRIPT, encoding="utf-8")
    code = (
        "import pathlib, sys\nfrom nrmmix.report import recorded\nrecorded.vignettes = lambda: pathlib.Path(sys.argv[1])\n"
        "from nrmmix.cli import main\nraise SystemExit(main(['vignettes', 'page', '--to', sys.argv[2]]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder.parent), str(tmp_path / "out")], capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "ümlaut" in (tmp_path / "out" / "page.md").read_text(encoding="utf-8")


def test_every_vignette_of_the_package_is_known():
    known = command.scripts()
    assert {path.stem for path in (ROOT / "vignettes").glob("*.py")} == {name for name, (group, _) in known.items() if group == "guide"}
    assert all(command.title_of(path) != name for name, (_, path) in known.items())
