"""Rows that stand for all, and what is looked at there."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.inference.mcmc.length import look
from nrmmix.posterior import curves
from nrmmix.posterior.representatives import OF_SEVERAL, coordinates, nearest, representatives

NUMBERS = np.array([False, False])


def energy(points, chosen):
    """The energy distance between some points and all, but for what does not depend on the choice."""
    def gap(a, b):
        return np.sqrt(((a[:, None] - b[None]) ** 2).sum(axis=2)).mean()

    return 2 * gap(points[chosen], points) - gap(points[chosen], points[chosen])


def test_representatives_of_one_covariate_are_its_quantiles():
    x = np.random.default_rng(0).permutation(np.exp(np.linspace(0, 9, 101)))[:, None]
    rank = np.argsort(np.argsort(x[:, 0]))
    assert sorted(rank[representatives(x, NUMBERS[:1])]) == [10, 30, 50, 70, 90]


def test_representatives_minimise_the_energy_distance():
    """Of few rows no eight are nearer to all, and of many none of a thousand at random are."""
    rng = np.random.default_rng(1)
    few = rng.normal(size=(12, 2))
    points, found = coordinates(few, NUMBERS), representatives(few, NUMBERS)
    each = [energy(points, list(some)) for some in itertools.combinations(range(12), OF_SEVERAL)]
    assert len(found) == OF_SEVERAL and energy(points, found) <= np.quantile(each, 0.02)
    many = np.column_stack([rng.normal(size=400), rng.gamma(1.0, size=400), rng.integers(3, size=400)])
    category = np.array([False, False, True])
    points, found = coordinates(many, category), representatives(many, category)
    at_random = [energy(points, rng.choice(400, len(found), replace=False)) for _ in range(1000)]
    assert energy(points, found) < min(at_random)
    assert set(many[found, 2]) == {0.0, 1.0, 2.0}, "every level is there"
    assert (np.ptp(points[found, :2], axis=0) > 0.6).all(), "and both columns are gone along"


def test_representatives_are_distinct_and_repeat_themselves():
    levels = np.repeat([[0.0], [1.0], [2.0]], [50, 30, 20], axis=0)
    found = representatives(levels, np.array([True]))
    assert sorted(levels[found, 0]) == [0.0, 1.0, 2.0]
    gaps = np.random.default_rng(2).normal(size=(60, 2))
    gaps[::7, 1] = np.nan
    np.testing.assert_array_equal(representatives(gaps, NUMBERS), representatives(gaps.copy(), NUMBERS))
    (beside,) = nearest(np.arange(50.0)[:, None], NUMBERS[:1], [20], 0.1)
    assert sorted(beside) == [18, 19, 20, 21, 22, 23] or sorted(beside) == [17, 18, 19, 20, 21, 22]


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"a": rng.uniform(size=90), "b": rng.uniform(size=90), "soil": rng.choice(["clay", "loam", "sand"], 90)})
    data["y"] = np.sin(6 * data["b"]) + (data["soil"] == "loam") + rng.normal(0, 0.3, 90)
    return nm.fit("y ~ a + b + soil", data, draws=20, tune=20, chains=2, rng=1)


def test_curves_are_looked_at_along_all_covariates(regression):
    """Not only along the first; levels by their names, and a place named by its row where covariates are many."""
    names = [name for name in regression.curve_diagnostics().index if name.startswith("mean y at ")]
    assert len(names) == OF_SEVERAL
    values = [dict(part.split(" = ") for part in name.removeprefix("mean y at ").split(", ")) for name in names]
    assert all({float(one[name]) > 0.5 for one in values} == {True, False} for name in "ab")
    assert {one["soil"] for one in values} == {"clay", "loam", "sand"}
    data = regression.model.frame.source.assign(c=np.arange(90) % 7)
    wide = nm.fit("y ~ a + b + c + soil", data, draws=6, tune=6, chains=2, rng=1)
    assert wide.curve_diagnostics().index[0].startswith("mean y at row ")


def test_tables_of_clusters_have_levels_not_codes(regression):
    shown = regression.summary().as_text()
    assert "mean soil" not in shown and "Levels of soil" in shown
    found = nm.report.clusters.clusters(regression)
    (words,) = (one for one in found.words if one.name == "Levels of soil")
    labels, soil = regression.partition().labels, regression.model.frame.source["soil"].to_numpy()
    for k, top in zip(found.label, words.top, strict=True):
        share = pd.Series(soil[labels == k]).value_counts(normalize=True)
        assert dict(top) == pytest.approx(share.to_dict())


def test_densities_are_looked_at_over_all_responses():
    iris = nm.datasets.load_iris()
    fit = nm.fit("sepal_width_cm + petal_length_cm ~ 1", iris, draws=10, tune=10, chains=2, rng=1)
    rows = [int(name.rsplit(" ", 1)[1]) for name in fit.curve_diagnostics().index]
    assert len(rows) == OF_SEVERAL and set(iris["species"].iloc[rows]) == set(iris["species"])


def test_many_rows_take_fewer_draws_and_threads(regression, monkeypatch):
    """The same numbers from threads; fewer draws, evenly spread over each chain, where rows are many."""
    whole = curves.curve_diagnostics(regression.posterior)
    monkeypatch.setattr(curves, "WORTH_THREADS", 0)
    monkeypatch.setattr(curves, "available_cores", lambda: 3)
    pd.testing.assert_frame_equal(curves.curve_diagnostics(regression.posterior), whole)
    monkeypatch.setattr(curves, "WORK", 0)
    monkeypatch.setattr(curves, "MIN_DRAWS", 20)
    half = curves.density_diagnostics(nm.fit("y ~ 1", regression.model.frame.source, draws=20, tune=9, chains=2, rng=1).posterior)
    assert (half["ess"] < 60).all() and len(half) == 5
    assert curves._by_draws(regression.posterior, lambda states: np.zeros(len(states)), curves.MAX_DRAWS).shape == (2, 10)


def test_a_run_goes_on_while_densities_differ_although_numbers_agree():
    rng, n = np.random.default_rng(2), 600
    fit = nm.fit("y ~ 1", {"y": np.r_[rng.normal(-4, 1, 10), rng.normal(4, 1, 10)]}, draws=n, tune=20, chains=2, rng=1)
    values = {name: fit.draws[name].copy() for name in fit.draws}
    for name in fit.scalars:
        if np.ptp(values[name]) > 0:
            values[name] = np.exp(0.1 * rng.normal(size=(2, n)))  # independent
    values["labels"][1] = 0
    values["n_clusters"][:] = 2
    found = look(fit.model, values, 1)
    assert found.is_costly and found.rhat > 1.5 and not found.is_enough
    assert look(fit.model, {name: one for name, one in values.items() if name != "labels"}, 1).is_enough  # as where they are not kept
