"""Loaders against the checks in data/README.md, simulations against their laws."""

import doctest

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix import datasets
from nrmmix.datasets import loaders


@pytest.fixture(autouse=True)
def global_generator_is_untouched():
    before = np.random.get_state(legacy=False)  # noqa: NPY002
    yield
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    assert before["state"]["pos"] == after["state"]["pos"]
    np.testing.assert_array_equal(before["state"]["key"], after["state"]["key"])


# --------------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    ("name", "rows", "means"),
    [
        ("acidity", 155, {"log_anc": 5.1051}),
        ("faithful", 272, {"eruptions_min": 3.4878, "waiting_min": 70.8971}),
        ("galaxy", 82, {"velocity_km_s_mass": 20828.1707, "velocity_km_s": 20831.4634}),
        (
            "iris",
            150,
            {
                "sepal_length_cm": 5.8433,
                "sepal_width_cm": 3.0573,
                "petal_length_cm": 3.758,
                "petal_width_cm": 1.1993,
            },
        ),
        ("mcycle", 133, {"times_ms": 25.1789, "accel_g": -25.5459}),
    ],
)
def test_rows_and_means(name, rows, means):
    table = getattr(datasets, f"load_{name}")()
    assert len(table) == rows
    assert table.notna().all(axis=None)
    numbers = table.select_dtypes("number")
    assert list(numbers.columns) == list(means)
    assert numbers.mean().round(4).to_dict() == means
    pd.testing.assert_frame_equal(table, datasets.load(name))


def test_details():
    acidity = datasets.load_acidity()["log_anc"]
    assert (acidity.min(), acidity.max()) == (2.928524, 7.10513)
    assert acidity.std() == pytest.approx(1.0418, abs=5e-5)
    galaxy = datasets.load_galaxy()
    assert galaxy.std().round(2).to_dict() == {"velocity_km_s_mass": 4563.76, "velocity_km_s": 4568.13}
    assert galaxy["velocity_km_s"].is_monotonic_increasing
    assert np.flatnonzero(galaxy["velocity_km_s"] != galaxy["velocity_km_s_mass"]).tolist() == [77]
    iris = datasets.load_iris()
    assert set(iris["species"].value_counts()) == {50}
    # Where the copy at UCI differs from Fisher's table.
    measured = iris.drop(columns="species").to_numpy()
    assert measured[34].tolist() == [4.9, 3.1, 1.5, 0.2]
    assert measured[37].tolist() == [4.9, 3.6, 1.4, 0.1]
    mcycle = datasets.load_mcycle()
    assert mcycle["times_ms"].nunique() == 94
    assert mcycle.agg(["min", "max"]).to_numpy().tolist() == [[2.4, -134.0], [57.6, 75.0]]


def test_digits():
    digits = datasets.load_digits()
    assert np.bincount(digits["digit"]).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    pixels = digits.drop(columns="digit").to_numpy()
    assert pixels.shape == (1797, 64) and (pixels.min(), pixels.max()) == (0, 16)
    assert digits.loc[0, ["p00", "p01", "p02", "p03", "p04"]].tolist() == [0, 0, 5, 13, 9]


def test_reuters():
    corpus = datasets.load_reuters()
    assert corpus.counts.shape == (395, 4258) == (len(corpus.titles), len(corpus.vocabulary))
    assert (corpus.counts.nnz, corpus.counts.sum(), corpus.counts.data.min()) == (60_114, 84_010, 1)
    assert corpus.titles[0].startswith("0 UK: Prince Charles") and len(set(corpus.vocabulary)) == 4258
    words = corpus.vocabulary[np.argsort(-corpus.counts[[0]].toarray()[0])]
    assert {"charles", "prince", "royal"} <= set(words[:10])


def test_examples_run():
    assert doctest.testmod(datasets).failed == 0


def test_copies_are_independent():
    first = datasets.load_faithful()
    first.iloc[0, 0] = -1.0
    assert datasets.load_faithful().iloc[0, 0] == 3.6


def test_names():
    assert datasets.names() == tuple(sorted(datasets.names()))
    for name in datasets.names():
        assert callable(getattr(datasets, f"load_{name}"))


@pytest.mark.parametrize(
    ("wrong", "near"), [("mcycles", "mcycle"), ("Iris", "iris"), ("galaxies", "galaxy")]
)
def test_unknown_name(wrong, near):
    with pytest.raises(ValueError, match=f"did you mean '{near}") as caught:
        datasets.load(wrong)
    assert all(name in str(caught.value) for name in datasets.names())
    with pytest.raises(ValueError, match=r"unknown data set ''; there are [^;]*\.$"):
        datasets.load("")


def test_external_file(tmp_path, monkeypatch):
    monkeypatch.delenv("NRMMIX_DATA_DIR", raising=False)
    with pytest.raises(FileNotFoundError, match=r"some\.npz .* set NRMMIX_DATA_DIR"):
        datasets.external("some.npz")
    monkeypatch.setenv("NRMMIX_DATA_DIR", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"no file some\.npz in"):
        datasets.external("some.npz")
    (tmp_path / "some.npz").write_bytes(b"")
    assert datasets.external("some.npz") == tmp_path / "some.npz"


# ---------------------------------------------------------------------------------------------- simulations

SIMULATIONS = {
    "toy": lambda rng: datasets.simulate_toy(rng=rng)[:2],
    "mixture": lambda rng: datasets.simulate_mixture(200, 3, 4, rng)[:2],
    "regression": lambda rng: (datasets.simulate_regression(200, rng).to_numpy(),),
    "mixed": lambda rng: (datasets.simulate_mixed(200, 4, rng, missing=0.1)[0]["height"].fillna(0).to_numpy(),),
}


@pytest.mark.parametrize("simulate", SIMULATIONS.values(), ids=SIMULATIONS.keys())
def test_simulations_follow_rng(simulate):
    reference = simulate(3)
    for same in (3, np.random.SeedSequence(3), np.random.default_rng(3)):
        for a, b in zip(reference, simulate(same), strict=True):
            np.testing.assert_array_equal(a, b)
    assert (simulate(4)[0] != reference[0]).any()
    assert (simulate(None)[0] != simulate(None)[0]).any()
    generator = np.random.default_rng(3)
    simulate(generator)
    assert (simulate(generator)[0] != reference[0]).any()


def test_mixed_columns_follow_the_truth():
    table, labels, truth = datasets.simulate_mixed(40_000, 3, 5)
    for k in range(3):
        own = table[labels == k]
        n = len(own)
        assert abs(n / 40_000 - truth.weights[k]) < 4.5 * np.sqrt(truth.weights[k] / 40_000)
        assert abs(own["height"].mean() - truth.means[k]) < 4.5 * truth.sds[k] / np.sqrt(n)
        assert own["height"].std() == pytest.approx(truth.sds[k], rel=4.5 / np.sqrt(2 * n))
        assert abs(own["visits"].sum() / own["months"].sum() - truth.rates[k]) < 4.5 * np.sqrt(truth.rates[k] / own["months"].sum())
        for share, p in [(own["smoker"].mean(), truth.probabilities[k])] + [
            ((own["colour"] == name).mean(), truth.shares[k, j]) for j, name in enumerate(["blue", "green", "red"])
        ]:
            assert abs(share - p) < 4.5 * np.sqrt(p * (1 - p) / n) + 4 / n


def test_mixed_columns_with_gaps():
    table, _, _ = datasets.simulate_mixed(5000, 3, 6, missing=0.3)
    gaps = table.isna()
    assert not gaps["months"].any() and not gaps.drop(columns="months").all(axis=1).any()
    assert 0.3 * 0.75 == pytest.approx(gaps.drop(columns="months").to_numpy().mean(), abs=0.02)
    family = {"height": nm.Gaussian(), "visits": nm.Poisson(exposure="months"), "smoker": nm.Bernoulli(), "colour": nm.Categorical()}
    model = nm.Model("height + visits + smoker + colour ~ 1", table[:200], family=family, missing="marginalize")
    assert model.n_obs == 200


def test_toy_has_thirteen_clusters_of_a_hundred():
    X, labels = datasets.simulate_toy(rng=1)
    assert X.shape == (1300, 2) and X.dtype == np.float64
    assert np.bincount(labels).tolist() == [100] * 13
    _, first = np.unique(labels, return_index=True)
    assert (np.diff(first) > 0).all()
    X, labels = datasets.simulate_toy(rng=1, n_clusters=1, size=1)
    assert X.shape == (1, 2) and labels.tolist() == [0]


def test_toy_follows_its_law():
    within, between = [], []
    for seed in range(100):
        X, labels = datasets.simulate_toy(rng=seed)
        groups = [X[labels == k] for k in range(13)]
        within.append(np.mean([np.cov(group.T) for group in groups], axis=0))
        between.append(np.cov(np.array([group.mean(axis=0) for group in groups]).T))
    # E Σ = 0.065 I / (8 - 3); means have covariance E Σ / 0.02, averages of 100 points another E Σ / 100.
    for found, truth in ((within, 0.013), (between, 0.013 / 0.02 + 0.013 / 100)):
        error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
        assert (np.abs(np.mean(found, axis=0) - truth * np.eye(2)) < 4 * error).all()


@pytest.mark.external
def test_toy_is_like_the_published_one():
    with np.load(datasets.external("tgmcmc_toy_1300x2.npz")) as published:
        X, labels = published["X"], published["labels"]
    assert X.shape == (1300, 2)
    groups = [X[labels == k] for k in np.unique(labels)]
    assert [len(group) for group in groups] == [100] * 13
    within = np.mean([np.trace(np.cov(group.T)) for group in groups]) / 2
    assert within == pytest.approx(0.013, rel=0.1)
    assert np.trace(np.cov(np.array([group.mean(axis=0) for group in groups]).T)) / 2 == pytest.approx(
        0.65, rel=0.2
    )


def test_mixture_truth():
    X, labels, truth = datasets.simulate_mixture(20_000, 2, 3, 5, separation=4.0, weights=[1, 2, 5])
    np.testing.assert_allclose(truth.weights, [0.125, 0.25, 0.625])
    distances = np.linalg.norm(truth.means[:, None] - truth.means, axis=2)[np.triu_indices(3, 1)]
    assert distances.min() >= 4.0
    for k in range(3):
        member = X[labels == k]
        n = len(member)
        share = truth.weights[k]
        assert abs(n / 20_000 - share) < 4 * np.sqrt(share * (1 - share) / 20_000)
        assert np.linalg.eigvalsh(truth.covariances[k]).min() >= 0.25 - 1e-12
        assert np.linalg.eigvalsh(truth.covariances[k]).max() <= 1 + 1e-12
        variances = np.diag(truth.covariances[k])
        assert (np.abs(member.mean(axis=0) - truth.means[k]) < 4 * np.sqrt(variances / n)).all()
        # Var of a sample covariance: (Σ_ii Σ_jj + Σ_ij²) / n.
        error = np.sqrt((np.outer(variances, variances) + truth.covariances[k] ** 2) / n)
        assert (np.abs(np.cov(member.T) - truth.covariances[k]) < 4 * error).all()


def test_mixture_log_density_is_normalised_and_matches_scipy():
    from scipy.stats import multivariate_normal

    _, _, truth = datasets.simulate_mixture(10, 2, 3, 5, separation=2.0)
    points = np.random.default_rng(1).normal(scale=4.0, size=(50, 2))
    parts = zip(truth.weights, truth.means, truth.covariances, strict=True)
    direct = sum(w * multivariate_normal(m, c).pdf(points) for w, m, c in parts)
    np.testing.assert_allclose(truth.log_density(points), np.log(direct), rtol=1e-10)
    assert np.isfinite(truth.log_density([[1e4, 0.0]])).all()
    with pytest.raises(ValueError, match=r"\(m, 2\)"):
        truth.log_density([1.0, 2.0])


@pytest.mark.parametrize("separation", [0, 1.0, 12.0])
def test_mixture_ends_with_many_clusters_on_a_line(separation):
    _, _, truth = datasets.simulate_mixture(10, 1, 40, 2, separation=separation)
    assert np.diff(np.sort(truth.means[:, 0])).min() >= separation


def test_regression_follows_its_law():
    table = datasets.simulate_regression(20_000, 9)
    assert list(table.columns) == ["x", "y", "component"]
    assert table["x"].between(0, 1).all() and set(table["component"]) == {0, 1}
    mean = np.where(table["component"] == 1, 6 * table["x"] - 3, 3 - 6 * table["x"])
    residual = (table["y"] - mean) / 0.5
    n = len(table)
    assert abs(residual.mean()) < 4 / np.sqrt(n)
    assert abs(residual.var() - 1) < 4 * np.sqrt(2 / n)
    probability = 1 / (1 + np.exp(2 - 4 * table["x"]))
    error = np.sqrt((probability * (1 - probability)).sum())
    assert abs((table["component"] - probability).sum()) < 4 * error


def test_regression_density_integrates_to_one():
    y = np.linspace(-7, 7, 4001)
    for x in (0.0, 0.3, 0.5, 1.0):
        assert np.trapezoid(datasets.regression_density(x, y), y) == pytest.approx(1, abs=1e-9)
    assert datasets.regression_density([[0.1], [0.2]], y).shape == (2, 4001)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: datasets.simulate_toy(1, size=0), "size must be at least 1"),
        (lambda: datasets.simulate_mixture(0), "n must be at least 1"),
        (lambda: datasets.simulate_mixture(9, separation=-1.0), "separation"),
        (lambda: datasets.simulate_mixture(9, separation=np.nan), "separation"),
        (lambda: datasets.simulate_mixture(9, n_clusters=2, weights=[1.0]), "2 positive numbers"),
        (lambda: datasets.simulate_mixture(9, n_clusters=2, weights=[1.0, 0.0]), "2 positive numbers"),
        (lambda: datasets.simulate_regression(0), "n must be at least 1"),
        (lambda: datasets.simulate_mixed(0), "n must be at least 1"),
        (lambda: datasets.simulate_mixed(9, missing=1.0), "missing must be"),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_data_beside_a_package_that_is_not_installed(monkeypatch):
    def files(package):
        raise ModuleNotFoundError(package)

    monkeypatch.setattr(loaders.resources, "files", files)
    assert len(nm.datasets.load_iris()) == 150
