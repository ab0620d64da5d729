"""The first section of a report: what was found, in sentences whose figures are those of the fit."""

import re

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.report.findings import DRAWS, PROVISIONAL, findings

RUN = {"draws": 60, "tune": 40, "chains": 2, "rng": 1}


@pytest.fixture(scope="module")
def mixture():
    return nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), **RUN)


@pytest.fixture(scope="module")
def regression():
    return nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), **RUN)


def one_of(sentences, start):
    (found,) = [sentence for sentence in sentences if sentence.startswith(start)]
    return found


def test_clusters_are_counted_and_described(mixture):
    said = findings(mixture)
    counts = mixture.draws["n_clusters"].ravel()
    values, times = np.unique(counts, return_counts=True)
    most = one_of(said, "The most probable number of clusters is")
    assert f"is {values[times.argmax()]}, with a probability of {times.max() / counts.size:.2f}." in most
    share, low, high = re.search(r"With a probability of ([\d.]+) it is (\d+)(?: to (\d+))?\.", most).groups()
    inside = (counts >= int(low)) & (counts <= int(high or low))
    assert f"{inside.mean():.2f}" == share and inside.mean() >= 0.9
    partition = mixture.partition()
    sizes = sorted(partition.sizes, reverse=True)
    assert one_of(said, "The partition that stands best").endswith(f"of {', '.join(map(str, sizes))} rows.")
    largest = mixture.model.frame.source.loc[partition.labels == np.argmax(partition.sizes)]
    shown = one_of(said, f"Cluster {np.argmax(partition.sizes)}, {sizes[0]} rows ({sizes[0] / 272:.0%})")
    means = [float(text) for text in re.findall(r"mean \w+ (-?\d+\.\d+)", shown)]
    # shrunk towards the prior by a hundredth of an observation
    np.testing.assert_allclose(means, largest[["eruptions_min", "waiting_min"]].mean(), rtol=0.005)


def test_a_verdict_that_is_bad_comes_first(mixture):
    assert findings(mixture, is_sound=False) == [PROVISIONAL, *findings(mixture)]


def test_a_regression_says_what_it_predicts(regression):
    said = findings(regression)
    lines = [line for line in said if line.startswith("At times_ms = ")]
    times = [float(re.match(r"At times_ms = ([\d.]+) ", line)[1]) for line in lines]
    observed = np.sort(regression.model.frame.source["times_ms"])
    assert times == [observed[round(place * 132)] for place in (0.1, 0.5, 0.9)]
    table = regression.predict(pd.DataFrame({"times_ms": times}), kind="quantile", q=(0.05, 0.5, 0.95), draws=DRAWS)
    for line, rows in zip(lines, table.to_numpy().reshape(3, 3, 3), strict=True):
        shown = [float(text) for text in re.findall(r"(?:is|band|to|between|and) (-?[\d.]+\d)", line)]
        wanted = [rows[1, 0], rows[1, 1], rows[1, 2], rows[0, 0], rows[2, 0]]
        np.testing.assert_allclose(shown, wanted, atol=0.02 * (rows[2, 0] - rows[0, 0]))


def test_several_covariates_and_responses_are_held_to_a_few_sentences():
    table = nm.datasets.load_iris().rename(columns={"petal_length_cm": "x", "petal_width_cm": "z\n"})
    fit = nm.fit("sepal_length_cm + sepal_width_cm ~ x + Q('z\\n') + species", table, **RUN)
    said = findings(fit)
    assert len([line for line in said if line.startswith("At ")]) <= 9 and not any("\n" in line for line in said)
    assert said[-1].startswith("The other covariates are at their medians")
    assert one_of(said, "Shares of the rows").count("%") == 3


@pytest.mark.parametrize(("formula", "family", "start"), [
    ("species ~ 1", nm.Categorical(), r"Cluster \d, \d+ rows \(\d+%\): probability species\[setosa\]"),
    ("n ~ 1", nm.Poisson(), r"Cluster \d, \d+ rows \(\d+%\): rate n \d"),
    ("n ~ species", nm.Poisson(), r"At species = setosa the median of n is \d"),
])
def test_other_kinds_of_responses(formula, family, start):
    table = nm.datasets.load_iris().assign(n=np.random.default_rng(1).poisson(3, 150))
    assert any(re.match(start, line) for line in findings(nm.fit(formula, table, family=family, **RUN)))


def test_categories_have_no_quantiles_and_scalars_no_clusters():
    table = nm.datasets.load_iris()
    assert len(findings(nm.fit("species ~ sepal_length_cm", table, family=nm.Categorical(), **RUN))) == 1
    said = findings(nm.fit("sepal_length_cm ~ 1", table, store="scalars", **RUN))
    assert len(said) == 2 and said[1].startswith("The most probable number")


def test_dates_say_from_when_they_are_counted():
    table = nm.datasets.load_iris().assign(day=pd.date_range("2024-03-01", periods=150))
    assert findings(nm.fit("sepal_length_cm ~ day", table, **RUN))[0].endswith("day: days since 2024-03-01.")


def test_searches_and_variational_fits_and_rows_that_are_not_in_memory(tmp_path):
    table = nm.datasets.load_faithful()
    of_search = findings(nm.fit("waiting_min ~ 1", table, method="ibhc", rng=1))
    assert not any("probability" in line for line in of_search), "a search says nothing of how sure it is"
    assert any(line.startswith("The partition has") for line in findings(nm.fit("waiting_min ~ 1", table, method="vb", rng=1)))
    table.to_csv(tmp_path / "rows.csv", index=False)
    streamed = nm.fit("waiting_min ~ 1", tmp_path / "rows.csv", method="memoized_vb", rng=1)
    last = findings(streamed)[-1]
    assert re.fullmatch(r"(One cluster|\d+ clusters) holds? rows; the largest (have|has) [\d%, ]+ of them\.", last), last


def test_a_report_opens_with_what_was_found(mixture, tmp_path, monkeypatch):
    from nrmmix import plots

    monkeypatch.setattr(plots, "available", lambda model: ("trace",))
    text = mixture.report(tmp_path / "fit.html").read_text(encoding="utf-8")
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings[0] == "What was found" and text.index(headings[0]) < text.index("<nav")
    assert f"<li>{PROVISIONAL}</li>" in text and 'class="verdict doubtful"' in text


def test_pictures_and_tables_fit_a_narrow_screen(mixture, tmp_path, monkeypatch):
    """Pictures are as wide as the page until they are tapped; tables of many columns have smaller letters."""
    from nrmmix import plots

    monkeypatch.setattr(plots, "available", lambda model: ("trace",))
    text = mixture.report(tmp_path / "fit.html").read_text(encoding="utf-8")
    narrow = text[text.index("@media (max-width: 40em)"):text.index("@media print")]
    fixed = [line for line in narrow.splitlines() if re.search(r"(?<![-\w])width: [\d.]+(rem|px|em)", line)]
    assert "img { width: 100%; }" in narrow and fixed and all("input:checked" in line for line in fixed)
    assert re.search(r'<label class="enlarge"><input type="checkbox"[^>]*><img', text)
    wide = [table for table in re.findall(r"<table.*?</table>", text, re.DOTALL) if table.split("</tr>")[0].count("<th") >= 8]
    assert wide and all(table.startswith('<table class="many">') for table in wide)
