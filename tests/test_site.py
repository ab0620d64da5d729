"""The documentation as a site: what is assembled, and that its check finds what is wrong.  `make site` builds the whole and checks it."""

import importlib.util
import re
from pathlib import Path

import pytest

import nrmmix

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "docs" / "site"


def loaded(name):
    found = importlib.util.spec_from_file_location(f"site_{name}", HERE / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


build, check, lines = loaded("build"), loaded("check"), loaded("lines")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "source"
    build.assemble(folder)
    return folder


def test_every_public_name_has_a_page(source):
    names = {page.stem for page in (source / "api").glob("*.rst")}
    functions_and_classes = {name for name in nrmmix.__all__ if not name.startswith("__")}
    assert names == functions_and_classes | set(build.MODULES)
    index = (source / "api" / "index.md").read_text(encoding="utf-8")
    assert all(re.search(rf"^{name}$", index, re.MULTILINE) for name in names)


def test_every_page_is_in_the_contents(source):
    text = (source / "index.md").read_text(encoding="utf-8")
    pages = {page.relative_to(source).with_suffix("").as_posix() for page in source.rglob("*.md")} - {"index"}
    listed = set(re.findall(r"^([\w/]+)$", "\n".join(re.findall(r"```{toctree}\n(.*?)```", text, re.DOTALL)), re.MULTILINE))
    assert listed == pages


@pytest.mark.parametrize("papers", [[], ["a", "b"]])
def test_papers_are_listed_where_there_are_some(papers):
    text = build.contents([f"{name}" for name in papers])
    assert (":caption: Papers" in text) == bool(papers) and all(f"\npapers/{name}\n" in text for name in papers)


def test_links_out_of_the_pages_become_text(tmp_path):
    (tmp_path / "a.md").touch()
    text = "[page](a.md#b) [file](../tests/x.py) [tests/x.py](../tests/x.py) [web](https://example.org)\n```\n[file](../y)\n```\n"
    plain = "[page](a.md#b) file `tests/x.py` [web](https://example.org)\n```\n[file](../y)\n```\n"
    assert build.without_links_outside(text, tmp_path / "a.md", tmp_path) == plain


def test_gallery_has_every_picture_of_the_guide(source):
    text = (source / "gallery.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^:::{image} (.+)$", text, re.MULTILINE))
    wanted = {path.relative_to(ROOT / "docs").as_posix() for name in build.GUIDE for path in (ROOT / "docs" / name).glob("*.png")}
    assert wanted and wanted <= shown and all((source / picture).is_file() for picture in shown)


def test_the_front_page_says_how_to_install_and_shows_both_kinds_of_model(source, monkeypatch):
    text = (source / "index.md").read_text(encoding="utf-8")
    assert "$ python -m pip install .\n" in text.split("##")[0] and "\n## For whom\n" in text
    blocks = re.findall(r"```python\n(.*?)```\n\n!\[[^\]]+\]\((\S+)\)", text, re.DOTALL)
    assert len(blocks) == 2 and all((source / picture).is_file() for _, picture in blocks)
    drawn = []

    class Fit:
        def __init__(self, formula, data, rng):
            self.model = nrmmix.Model(formula, data)

        def plot(self, kind):
            assert kind in nrmmix.plots.available(self.model)
            drawn.append(str(self.model).split("\n")[0])

    monkeypatch.setattr(nrmmix, "fit", Fit)
    for code, _ in blocks:
        exec(code, {})
    assert drawn == ["NRM mixture", "Kernel-NRM density regression"]


# ---- output


@pytest.mark.parametrize(("line", "column"), [
    ("UserWarning: 234 of 844 values of 'selfLR' are exactly 4", 0), ("two sentences.  And another", 0), ("  data       272 rows", 13),
    ("             scale = diag([ 0.0782, 11.0894])", 13), ("Family:         Gaussian, full covariance", 16),
    ("n_clusters           4.120     1.167", None), ("1    0.143", None), ("=" * 96, None), ("0.35", None), ("", None),
    (" " * 42 + "NRM mixture", None),
])
def test_text_is_told_from_tables(line, column):
    assert lines.column(line) == column


def test_what_a_summary_has_cut_is_put_together():
    rule, cut = "=" * 96, "posterior probability that two members share a cluster. Purity: of the rows that share a cluster"
    label = "Family:         " + "word " * 15 + "(r"
    text = [rule, cut, "with a member.", "Density: chains agree.", rule, label, " " * 16 + "Lambda)^-1)", ""]
    assert lines.whole(text) == [rule, f"{cut} with a member.", "Density: chains agree.", rule, f"{label} Lambda)^-1)", ""]
    assert lines.whole(text[1:4]) == text[1:4]  # no summary


def test_sentences_of_output_wrap_and_nothing_of_it_is_lost():
    start = '<div class="highlight-text notranslate"><div class="highlight"><pre><span></span>'
    sentence, row = "UserWarning: values &lt; 4 are few, and there is more to say than a telephone has room for", "a  1  2  3" * 6
    page = f"<p>before</p>{start}{sentence}\n{row}\n</pre></div></div>"
    found = lines.wrapped(page)
    span = '<span class="wraps" style="padding-left: 2ch; text-indent: -2ch">'
    assert found == f"<p>before</p>{start}{span}{sentence}\n</span>{row}\n</pre></div></div>"
    assert lines.wrapped(page.replace("highlight-text", "highlight-python")) == page.replace("highlight-text", "highlight-python")


# ---- the check

SOUND = '''<html><head><link rel="stylesheet" href="a.css"></head>
<body id="top"><img src="a.png"><a href="b.html#there">b</a></body></html>'''


@pytest.fixture
def site(tmp_path):
    (tmp_path / "a.css").write_text("body { background: url(a.png) }")
    (tmp_path / "a.png").touch()
    (tmp_path / "a.html").write_text(SOUND)
    (tmp_path / "b.html").write_text('<p id="there"><a href="https://example.org">a paper</a> <a href="a.html">back</a></p>')
    return tmp_path


def test_a_sound_site_has_no_problems(site):
    assert list(check.problems(site)) == []


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("a.png", "https://cdn.example/a.png", "from the network"), ("a.css", "//cdn.example/a.css", "from the network"),
        ("a.png", "/a.png", "not relative"), ("a.png", "c.png", "not there"), ("b.html#there", "c.html", "not there"),
        ("#there", "#nowhere", "a place that is not there"),
        ("<body", "<script src='http://x.example/y.js'></script><body", "from the network"),
        ("<body", "<style>@import 'https://x.example/y.css';</style><body", "from the network"),
    ],
)
def test_what_is_wrong_is_found(site, before, after, problem):
    (site / "a.html").write_text(SOUND.replace(before, after))
    (found,) = check.problems(site)
    assert found.startswith("a.html: ") and problem in found


def test_style_sheets_are_read(site):
    (site / "a.css").write_text("@font-face { src: url('https://fonts.example/x.woff') }")
    (found,) = check.problems(site)
    assert "fonts.example" in found


def test_without_a_browser_a_line_says_so(site, monkeypatch, capsys):
    monkeypatch.setattr(check, "browser", lambda: None)
    assert check.main(site) == 0
    assert capsys.readouterr().out.splitlines() == [
        "no Chromium on this machine: widths of pages are not checked", "2 pages: nothing from the network, no dead link",
    ]


@pytest.mark.slow
@pytest.mark.skipif(check.browser() is None, reason="no Chromium on this machine")
def test_pages_that_are_too_wide_are_found(site, capsys):
    (site / "b.html").write_text('<p id="there" style="width: 700px">wide</p>')
    assert check.main(site) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("b.html: 7") and line.endswith("in a window of 400")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("furo") is None, reason="nrmmix[site] is not installed: make site")
def test_the_site_builds_without_warnings(tmp_path):
    assert build.main(tmp_path) == 0
    assert list(check.problems(tmp_path / "html")) == []
