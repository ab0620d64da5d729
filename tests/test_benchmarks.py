"""Benchmarks run; nothing is asserted about time."""

import importlib
import re

import numpy as np
import pytest

import nrmmix as nm

NAMES = [
    "bands", "burn_in", "cold_start", "default_discrete", "default_regression", "default_scale", "density_regression", "dynamic_mixture",
    "families", "floor", "galaxy", "gaussian_processes", "gibbs", "kernel_samplers", "many_clusters", "microwave_background", "motorcycle",
    "patches", "peers", "permutation", "published_bias", "record", "regression_sizes", "several_covariates", "slice", "split_merge",
    "tree_figures",
]


@pytest.mark.parametrize("name", NAMES)
def test_modules_can_be_imported(name):
    assert importlib.import_module(f"benchmarks.{name}").__doc__


@pytest.mark.nightly
def test_a_sweep_against_its_floor(capsys, monkeypatch):
    from benchmarks import gibbs

    monkeypatch.setattr(gibbs, "data_sets", lambda: {"small": nm.datasets.simulate_mixture(4000, dim=2, n_clusters=5, rng=1)[:2]})
    gibbs.run()
    assert re.search(r"small +ours +\d+\.\d+ ms +floor +\d+\.\d+ ms .* ratio \d+\.\d+", capsys.readouterr().out)


def rows_of(page):
    """Cells of the tables of a page in Markdown, the heads and rules left out."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    rules = {j for j, row in enumerate(cells) if set("".join(row)) == {"-"}}
    return [row for j, row in enumerate(cells) if not {j, j + 1} & rules]


@pytest.fixture
def small_sets(monkeypatch):
    from benchmarks import auto, trees

    sets = {
        "few": nm.datasets.simulate_mixture(60, dim=2, n_clusters=3, rng=1)[:2],
        "more": nm.datasets.simulate_mixture(120, dim=3, n_clusters=4, rng=2)[:2],
    }
    monkeypatch.setattr(trees, "data_sets", lambda: sets)
    monkeypatch.setattr(auto, "data_sets", lambda: sets)


def test_very_many_clusters(capsys):
    from benchmarks import many_clusters

    many_clusters.run(["line", "plane"], ["gibbs", "tree"], n=90, seconds=0.02, tune=2)
    rows = rows_of(capsys.readouterr().out)
    assert len(rows) == 2 * 2 * 7
    assert [row[2] for row in rows[:2]] == ["ms an iteration", "rows moved a s"]
    assert all(re.fullmatch(r"(\*\*[\d.]+(e[+-]\d+)?\*\*)?", row[5]) for row in rows)


@pytest.mark.nightly
def test_burn_in_and_mixing_of_trees(capsys, small_sets):
    from benchmarks import trees

    trees.toy(seconds=0.05, seeds=2, least=40)
    page = capsys.readouterr().out
    rows = rows_of(page)
    assert len(rows) == 3 * 4 + 3 + 4
    assert all(re.fullmatch(r"\*\*(\d\S*|inf)\*\* \((\d\S*|inf), (\d\S*|inf)\)", cell) for row in rows[:12] for cell in row[3:])
    assert [row[0] for row in rows[-4:]] == ["tree", "gibbs", "split_merge", "tree_published"]
    trees.large(seconds=0.05, seeds=1)
    assert len(rows_of(capsys.readouterr().out)) == 3 * 5


@pytest.mark.nightly
def test_switches_between_two_modes(capsys):
    from benchmarks import trees, two_modes

    def two():
        """Six rows."""
        truth = np.repeat(np.arange(2), 3)
        model = nm.Model(data=np.array([[0.0], [0.1], [0.2], [0.9], [1.0], [1.1]]), prior=nm.DirichletProcess(1.0))
        return two_modes.pair_of(model, truth)

    trees.modes(seconds=0.3, seeds=2, sets=[two])
    rows = rows_of(capsys.readouterr().out)
    assert len(rows) == 6
    assert all(float(row[1]) > 0 for row in rows)
    first = rows[:3]  # an iteration of the others has too much work for so short a run
    assert all(float(re.match(r"\*\*(\S+)\*\*", row[2])[1]) > 0 for row in first)  # six rows mix
    assert all(0 <= float(row[4].split()[0]) < 1 for row in first)


def test_modes_between_the_thresholds_are_those_before():
    from benchmarks import two_modes

    labels = np.array([[0, 0], [0, 1]])
    assert two_modes.together(labels, np.array([0]), np.array([1])).tolist() == [1.0, 0.0]
    two = two_modes.TwoModes(None, None, None, 0.25, 0.75)
    assert two.modes_of(np.array([0.6, 0.5, 0.2, 0.7, 0.75, 0.3, 0.1])).tolist() == [1, 1, 0, 0, 1, 1, 0]


def test_starts_are_in_their_modes():
    from benchmarks.two_modes import TWO_MODES

    for make in TWO_MODES:
        starts_are_in_their_modes(make())


def starts_are_in_their_modes(two):
    value = two.statistic(np.array(two.starts))
    assert value[0] >= two.high and value[1] <= two.low
    assert abs(two.model.log_joint(two.starts[0]) - two.model.log_joint(two.starts[1])) < 12


@pytest.mark.nightly
def test_many_clusters(capsys):
    from benchmarks import trees

    sizes = [trees.crp(200, 3.0, 0.8, np.random.default_rng(seed)).max() + 1 for seed in range(400)]
    expected = 3.0 / 0.8 * (np.prod([(3.8 + i) / (3.0 + i) for i in range(200)]) - 1)
    assert abs(np.mean(sizes) - expected) < 4 * np.std(sizes) / 20
    trees.many(seconds=0.05, seeds=1, n=100)
    assert len(rows_of(capsys.readouterr().out)) == 2 * 4


def test_words(capsys):
    from benchmarks import trees

    counts = trees.twin(40, 50, 30.0)
    assert counts.shape == (40, 50) and counts.sum() > 40 * 10
    trees.words(seconds=0.05, corpora={"few": counts})
    page = capsys.readouterr().out
    rows = rows_of(page)
    assert len(rows) == 5
    assert min(-float(row[3]) for row in rows) == 0.0  # the best of all is one of them


def test_table_behind_auto(capsys, small_sets):
    from benchmarks import auto

    known = auto.models()
    assert len(known) >= 8
    chosen = {name: known[name] for name in ("galaxy, 82 x 1, DP", "toy, 1,300 x 2, NGGP")}
    auto.run(seconds=0.05, seeds=1, problems=chosen)
    rows = rows_of(capsys.readouterr().out)
    assert [len(row) for row in rows] == [6, 6]
    assert all(re.fullmatch(r"(\d\S*|inf); \(?\d\S*", cell) for row in rows for cell in row[1:5])


@pytest.mark.nightly
def test_patches_and_noise():
    """Patterns of the basis, patches put together again, and a mixture of patches that takes noise away, better than one Gaussian does."""
    from benchmarks import patches

    to = patches.basis()
    np.testing.assert_allclose(to @ to.T, np.eye(63), atol=1e-12)
    np.testing.assert_allclose(to.sum(axis=1), 0.0, atol=1e-12)
    y, x = np.mgrid[:64, :64] / 64
    image = 0.3 + 0.3 * x * y + 0.3 * (np.hypot(x - 0.5, y - 0.5) < 0.3)
    once = np.ones_like(patches.patches_of(image))
    np.testing.assert_allclose(patches.added(patches.patches_of(image), image.shape) / patches.added(once, image.shape), image)

    rows = patches.patches_of(image.T[::-1]) @ to.T
    rows += np.random.default_rng(1).normal(size=rows.shape) / 255
    fits = [
        nm.fit(data=rows, family=patches.centred(rows), method=nm.VB(components=K, passes=20), rng=1) for K in (1, 8)
    ]
    weights, covariances = patches.mixture_of(fits[0])
    np.testing.assert_allclose(covariances[0], rows.T @ rows / len(rows), rtol=0.03, atol=1e-4)
    assert weights == pytest.approx([1.0])
    noisy = image + patches.SIGMA * np.random.default_rng(2).normal(size=image.shape)
    found = [noisy, *(patches.denoised(noisy, patches.mixture_of(fit)) for fit in fits)]
    before, one, several = (patches.psnr(each, image) for each in found)
    assert before == pytest.approx(20 * np.log10(1 / patches.SIGMA), abs=0.5)
    assert several > one + 0.5 > before + 5


@pytest.mark.nightly  # by day its page is made in its short form: test_paper_pages.py
def test_figures_of_the_permutation_paper(monkeypatch, tmp_path):
    from benchmarks import permutation, record

    monkeypatch.delenv("NRMMIX_DATA_DIR", raising=False)
    monkeypatch.setattr(permutation, "N", 150)
    permutation.run(0.02, 1, 60, "dkl", str(tmp_path / "permutation.json"))
    found = record.read(tmp_path / "permutation.json")["results"]
    assert [row["hybrid"] for row in found["burn_in"]] == list(permutation.SEARCHING)
    for row in found["burn_in"]:
        assert len(row["seconds"]) == len(row["log_joint"]) >= 1 and row["iterations"] >= 1
        assert row["one"] < row["truth"] and row["best"] >= max(row["log_joint"])
    assert {row["statistic"] for row in found["mixing"]} == {"clusters", "largest"}
    assert all(row["autocorrelation"][0] == 1.0 for row in found["mixing"])


def test_an_autocorrelation_by_hand():
    from benchmarks import permutation

    x = np.tile([1.0, -1.0], 100)
    found = permutation.autocorrelation(x)
    assert found[:3] == [1.0, pytest.approx(-199 / 200), pytest.approx(198 / 200)]


@pytest.mark.nightly
def test_figures_of_the_tree_paper(monkeypatch, tmp_path):
    from benchmarks import record, tree_figures

    sets = {name: nm.datasets.simulate_mixture(80, dim=2, n_clusters=3, rng=seed)[:2] for seed, name in enumerate(("few", "more"))}
    monkeypatch.setattr(tree_figures, "data_sets", lambda: sets)
    monkeypatch.setattr(tree_figures, "BLOCKS", {"3": 10, "4": 10})
    path = str(tmp_path / "trees.json")
    tree_figures.run(0.05, 0.0, 0.0, (1, 1, 1), path)
    found = record.read(path)
    rows = found["results"]["runs"]
    assert [(row["prior"], row["method"]) for row in rows] == [(prior, m) for prior in ("DP", "NGGP") for m in tree_figures.methods()]
    assert all(row["best"] >= max(row["log_joint"]) - 1e-4 for row in rows)
    assert {row["dial"] for row in found["results"]["dials"]} == {"G", "D"} and found["settings"]["data"][:2] == ["few", "more"]

    tree_figures.run(0.05, 0.0, 0.0, (2, 1, 1), path)  # the seed that is lacking, and no other
    more = record.read(path)["results"]["runs"]
    assert more[: len(rows)] == rows and {row["seed"] for row in more[len(rows) :]} == {1} and len(more) == 2 * len(rows)
    with pytest.raises(ValueError, match=r"is of a run with .*'toy': 0\.05"):
        tree_figures.run(0.06, 0.0, 0.0, (2, 1, 1), path)


def test_an_autocorrelation_time_that_is_not_centred():
    from benchmarks.kernel_samplers import uncentred_tau

    x = np.full(100, 3.0)
    assert uncentred_tau(x) == pytest.approx(0.5 + sum(1 - h / 100 for h in range(1, 100)))
