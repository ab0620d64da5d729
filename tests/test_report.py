"""Formats of tables, hostile names in them, and the report as one HTML file."""

import csv
import io
import os
import re
import stat
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from support.cover import by_turns

import nrmmix as nm
from nrmmix import plots
from nrmmix.posterior.draws import Draws
from nrmmix.report import html as page
from nrmmix.report.html import reproduce
from nrmmix.report.tables import LATEX, LATEX_ACCENTS, Report, Table, escape_latex

RUN = {"draws": 30, "tune": 20, "chains": 2, "rng": 1, "cores": 1}
HOSTILE = r'<b>$_%&#{}~^\|"[*]</b>'
VOID = {"meta", "img", "input"}


@pytest.fixture(scope="module")
def hostile():
    """Two responses, one with a name of everything that means something somewhere, the other in other scripts on two lines."""
    table = nm.datasets.load_faithful().set_axis([HOSTILE, "é α\n中 ±"], axis="columns")
    return nm.Model(data=table).fit(**RUN)


@pytest.fixture(scope="module")
def regression():
    return nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), kernel=nm.SquaredExponential(nm.LogNormal(-3, 1)), **RUN)


# ---- LaTeX


def check_latex(text):
    """A strict reading of what `as_latex` may write: environments, columns of every row, and nothing that is not escaped."""
    assert text.isascii()
    known = {re.escape(command) for command in LATEX.values()} | {rf"\${letter}\$" for letter in (r"\\alpha",)}
    known |= {rf"\\{re.escape(accent)}\{{[A-Za-z]\}}" for accent in LATEX_ACCENTS.values()}
    known = re.compile("|".join(sorted(known, key=len, reverse=True)))
    outside, tables = text, []
    for whole, spec, body in re.findall(r"(\\begin\{tabular\}\{([^\n]+)\}\n(.*?)\n\\end\{tabular\})", text, flags=re.DOTALL):
        outside = outside.replace(whole, "", 1)
        columns = re.sub(r"p\{0\.75\\linewidth\}", "p", spec)
        assert set(columns) <= set("lrp")
        lines = body.split("\n")
        assert lines[0] == r"\toprule" and lines[-1] == r"\bottomrule"
        rows = [line for line in lines[1:-1] if line != r"\midrule"]
        tables.append([])
        for row in rows:
            assert row.endswith(r" \\")
            cells = re.split(r"(?<!\\)&", row.removesuffix(r"\\"))
            assert len(cells) == len(columns), row
            tables[-1].append([cell.strip() for cell in cells])
        for cell in (cell for row in tables[-1] for cell in row):
            assert not re.search(r"[\\$&%#_{}~^<>|]", known.sub("", cell)), cell
            assert not cell.startswith(("[", "*"))
    outside = re.sub(r"\\noindent\n|\\medskip\n|\\textbf\{[A-Za-z -]+\}", "", outside)
    assert not re.search(r"[\\$&%#_{}~^<>|]", known.sub("", outside)), outside
    return tables


def test_latex_is_sound(hostile, regression):
    for fit in (hostile, regression):
        summary = fit.summary()
        tables = check_latex(summary.as_latex())
        assert len(tables) == len(summary.tables)
        assert [len(rows) for rows in tables] == [len(table.rows) + bool(table.headings) for table in summary.tables]
    assert r"{[}U+4E2D]" in hostile.summary().as_latex() and r" $\pm$ " in hostile.summary().as_latex()


@pytest.mark.parametrize("bad", ["a_b", "50%", "a & b", "$x", "[x", "é", "{", "#1", "x^2", "a~b", "<", r"\x"])
def test_the_reading_of_latex_is_strict(bad):
    sound = Table([["name", "x"]], [4, 4], "lr").as_latex_tabular(center=False)
    check_latex(sound)
    with pytest.raises(AssertionError):
        check_latex(sound.replace("name", bad))
    check_latex(sound.replace("name", escape_latex(bad)))


# ---- HTML and CSV


class Strict(HTMLParser):
    """Tags must be closed in order; collects elements, texts and identifiers."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text, self.attributes = [], [], "", []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data

    def of(self, tag, name):
        return [attributes[name] for found, attributes in self.attributes if found == tag and name in attributes]


def test_html_is_sound_and_names_are_text(hostile):
    found = Strict(hostile._repr_html_())
    assert "b" not in found.tags and HOSTILE in found.text
    assert found.tags.count("table") == len(hostile.summary().tables)
    assert set(found.of("th", "scope")) == {"row", "col"}
    assert all(HOSTILE not in cell for cell in re.findall(r"<t[dh].*?>(.*?)</t[dh]>", hostile.summary().as_html()))
    assert found.text.rstrip().endswith(hostile.summary().notes[-1])


def test_csv_has_the_values_of_the_tables(hostile):
    summary = hostile.summary()
    rows = list(csv.reader(io.StringIO(summary.as_csv())))
    wanted = [row for table in summary.tables for row in ([[table.title]] if table.title else []) + [table.headings or []] + table.rows]
    assert rows == [row for row in wanted if row] + [[note] for note in summary.notes]
    assert any(f"mean {HOSTILE}" in row for row in rows)


def test_text_keeps_a_name_in_a_line(hostile):
    text = hostile.summary().as_text()
    assert HOSTILE in text and "é α 中 ±" in text


@pytest.mark.parametrize(("d", "K"), [(5, 3), (12, 1), (30, 3), (30, 12)])
def test_parameters_are_rows_where_columns_would_not_fit(d, K):
    """Many responses with long names: one table, every response in it, no line longer than a terminal."""
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(K), 5)
    names = [f"response_number_{j}" for j in range(d)]
    data = pd.DataFrame(rng.normal(size=(5 * K, d)) + 9.0 * labels[:, None], columns=names)
    fit = nm.Model(data=data, family=nm.Gaussian("diagonal")).fit(draws=10, tune=0, chains=1, rng=1, init=labels)
    assert max(map(len, fit.summary().as_text().splitlines())) <= 100
    (table,) = [table for table in fit.summary().tables if table.headings and table.headings[0] == "Cluster"]
    assert [row[0] for row in table.rows] == ["Size", "Stability", "Purity", *(f"mean {name}" for name in names)]
    shown = fit.partition().n_clusters if K < 12 else len(table.headings) - 2
    assert (table.headings[1 : shown + 1] == [str(k) for k in range(shown)] and shown > 1) or K == 1
    assert sum(int(size) for size in table.rows[0][1:]) == 5 * K
    if K == 12:
        assert table.headings[-1] == f"others ({fit.partition().n_clusters - shown})" and table.rows[3][-1] == ""


def test_one_column_wider_than_a_line_is_whole():
    name = "x" * 300
    report = Report([Table([["a", name]], [4, 10], "ll")], ["note", "verdict"], 60)
    assert name in report.as_text() and name in report.as_html() and name in report.as_latex() and name in report.as_csv()


# ---- the report


@pytest.fixture
def few(monkeypatch):
    """Two quick pictures: those of other kinds are made in the same way."""
    monkeypatch.setattr(plots, "available", lambda model: ("trace", "autocorrelation"))


def test_report_is_one_page_with_every_picture(tmp_path):
    table = nm.datasets.load_faithful().rename(columns={"waiting_min": HOSTILE})[[HOSTILE]]
    fit = nm.Model(data=table).fit(**RUN)
    mine = pyplot.figure()
    other = pyplot.figure()
    pyplot.figure(mine.number)
    settings = matplotlib.rcParams.copy()
    where = fit.report(tmp_path / "fit.html")
    assert pyplot.get_fignums() == sorted([mine.number, other.number]) and pyplot.gcf() is mine
    assert matplotlib.rcParams == settings
    pyplot.close("all")
    assert where == tmp_path / "fit.html" and os.listdir(tmp_path) == ["fit.html"]
    text = where.read_text(encoding="utf-8")
    found = Strict(text)
    kinds = plots.available(fit.model)
    assert [name for name in found.of("h3", "id")] == list(kinds) and "clusters" in kinds
    assert found.tags.count("img") == len(kinds) and all(found.of("img", "alt")) and "Not drawn" not in text
    assert all(source.startswith("data:image/png;base64,iVBORw0KGgo") for source in found.of("img", "src"))
    assert not re.search(r"(?:src|href)=.?(?:http|//|file)|url\(|@import|<script|<link", text)
    ids = [value for _, attributes in found.attributes for name, value in attributes.items() if name == "id"]
    assert len(ids) == len(set(ids)) and {link.removeprefix("#") for link in found.of("a", "href")} == set(ids)
    assert found.of("html", "lang") == ["en"] and "title" in found.tags and "b" not in found.tags
    assert found.text.count(fit.summary().notes[-1]) == 1, "what is said of convergence stands once, above"
    assert reproduce(fit) in found.text and str(fit.model) in found.text and np.__version__ in found.text


@pytest.mark.parametrize(
    ("method", "kinds"),
    by_turns([
        ("ibhc", ["dendrogram", "clusters", "density"]),
        ("memoized_vb", ["density", "clusters", "uncertainty", "responsibilities", "elbo", "n_clusters"]),
    ], 2, 1),
)
def test_every_result_has_a_report(method, kinds, tmp_path):
    fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), method=method, rng=1)
    text = fit.report(tmp_path / "fit.html").read_text(encoding="utf-8")
    found = Strict(text)
    assert found.of("h3", "id") == kinds and found.tags.count("img") == len(kinds) and "Not drawn" not in text
    assert not re.search(r"(?:src|href)=.?(?:http|//|file)|url\(|@import|<script|<link", text)
    names = {"data": nm.datasets.load_faithful()}
    exec(reproduce(fit), names)
    assert reproduce(fit) in found.text
    np.testing.assert_array_equal(names["fit"].partition().labels, fit.partition().labels)
    said = "not samples from the posterior" if method == "ibhc" else "Variational inference, not samples"
    assert found.text.count(said) == 1, "not again in the summary"


def test_report_of_chains_computes_their_convergence_once(regression, tmp_path, monkeypatch, few):
    calls = []
    kept = nm.MCMCResult.curve_diagnostics
    monkeypatch.setattr(nm.MCMCResult, "curve_diagnostics", lambda self: calls.append(1) or kept(self))
    regression.report(tmp_path / "fit.html")
    assert len(calls) == 1


@pytest.mark.nightly
def test_report_asks_no_more_draws_of_a_picture_than_it_says(regression, tmp_path, monkeypatch):
    asked = {}
    kept = nm.MCMCResult.plot
    monkeypatch.setattr(plots, "available", lambda model: ("mean", "trace"))
    monkeypatch.setattr(nm.MCMCResult, "plot", lambda self, kind, **options: asked.update({kind: options}) or kept(self, kind, **options))
    text = regression.report(tmp_path / "fit.html").read_text()
    assert asked == {"mean": {"draws": page.DRAWS}, "trace": {}} and f"over {page.DRAWS} draws" in text


def test_report_needs_draws(regression, tmp_path):
    none = Draws({name: values[:, :0] for name, values in regression.draws.items()})
    empty = nm.MCMCResult(regression.model, replace(run_of(regression), draws=none))
    with pytest.raises(ValueError, match="has no draws"):
        empty.report(tmp_path / "fit.html")


def test_report_says_why_a_picture_is_missing(regression, tmp_path, monkeypatch):
    def refuse(self, kind, **options):
        raise ValueError("too <many> rows")

    monkeypatch.setattr(plots, "available", lambda model: ("trace",))
    monkeypatch.setattr(nm.MCMCResult, "plot", refuse)
    assert "<p>Not drawn: too &lt;many&gt; rows</p>" in regression.report(tmp_path / "fit.html").read_text()


def test_report_closes_figures_of_pictures_that_fail(regression, tmp_path, monkeypatch):
    def broken(self, kind, **options):
        pyplot.figure()
        raise RuntimeError("no")

    monkeypatch.setattr(plots, "available", lambda model: ("trace",))
    monkeypatch.setattr(nm.MCMCResult, "plot", broken)
    (tmp_path / "fit.html").write_text("old")
    with pytest.raises(RuntimeError):
        regression.report(tmp_path / "fit.html")
    assert pyplot.get_fignums() == [] and (tmp_path / "fit.html").read_text() == "old"


def test_report_shows_the_clusters_whatever_the_size(regression, tmp_path, monkeypatch, few):
    monkeypatch.setattr("nrmmix.report.clusters.WORK_LIMIT", 0)
    fresh = nm.MCMCResult(regression.model, run_of(regression))
    assert "Stability" not in fresh.summary().as_html()
    assert "Stability" in fresh.report(tmp_path / "fit.html").read_text()


def run_of(fit):
    from nrmmix.inference.mcmc.sampling import Run

    return Run(fit.draws, fit.method, fit.tune, fit.thin, fit.seed, fit.seconds, fit.moved, fit.interrupted, fit.checkpoints)


def test_report_refuses_what_it_cannot_write_before_it_works(regression, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "_page", lambda fit: pytest.fail("worked first"))
    for name in ("fit.txt", "fit", "fit.html.gz"):
        with pytest.raises(ValueError, match=r"must end in \.html"):
            regression.report(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="no folder"):
        regression.report(tmp_path / "absent" / "fit.html")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(IsADirectoryError, match="folder"):
        regression.report(tmp_path / "folder.html")
    with pytest.raises(TypeError, match="string or a path"):
        regression.report(3)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_report_names_a_folder_that_is_not_writable(regression, tmp_path):
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(PermissionError, match="cannot be written"):
        regression.report(tmp_path / "fit.html")


@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("velocity_km_s ~ 1", {"prior": nm.NGGP(mass=nm.LogNormal(0, 1), tau=2.0)}),
        (None, {"prior": nm.NormalizedInverseGaussian(0.7)}),
        ("velocity_km_s ~ x", {"kernel": nm.Box(nm.Beta(2, 3), locations=[0.0, 0.5, 1.0], scale=None)}),
        ("velocity_km_s ~ x + z", {"kernel": nm.SquaredExponential((0.3, nm.Gamma(2, 9)))}),
    ],
)
def test_reproduce_draws_the_same_again(formula, options):
    data = nm.datasets.load_galaxy()[["velocity_km_s"]].iloc[:40]
    if formula is not None:
        data = data.assign(x=np.linspace(0, 1, 40), z=np.tile([0.0, 1.0], 20))
    fit = nm.Model(formula, data, **options).fit(draws=5, tune=3, thin=2, chains=2, rng=np.random.default_rng(3))
    names = {"data": data}
    exec(reproduce(fit), names)
    again = names["fit"]
    assert all(np.array_equal(again.draws[name], fit.draws[name]) for name in fit.draws)
