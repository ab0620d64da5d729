"""Ties, and values far from all others: what is said of them when a model is made, and that defaults do not follow them."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns

import nrmmix as nm
from nrmmix.model.frame.unusual import CODES, counted, far, ties, without_far
from nrmmix.model.priors.grid import Scales
from nrmmix.report.clusters import clusters, tie_notes

RUN = {"draws": 300, "tune": 300, "chains": 2, "rng": 1, "progress": False}
rng = np.random.default_rng(0)
GROUPS = np.r_[rng.normal(0, 1, 100), rng.normal(8, 1, 100)]


def said(formula, data, **options):
    """The model, and what is said when it is made."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = nm.Model(formula, data, **options)
    return model, [str(one.message) for one in caught]


# ---- which values are far from all others

@pytest.mark.parametrize("wild", [[1000.0], [-1000.0], [1e6, -3e7], [1e90], [-999.0] * 4, [9999.0] * 30, [-99.0] * 60, [-999.0, 1e5]])
def test_far_values_are_found(wild):
    y = np.r_[GROUPS, wild]
    assert np.flatnonzero(far(y)).tolist() == list(range(200, len(y)))
    usual = without_far(np.column_stack([y, np.arange(len(y))]))
    assert np.isnan(usual).sum() == len(wild) and np.array_equal(usual[:200, 0], GROUPS)


def test_the_rule_as_it_stands():
    """Quartiles 0 and 1: far begins beyond 11, or at ten times as many ranges as the value before it is away."""
    y = np.r_[np.zeros(10), np.ones(10)] + np.r_[0.0, np.full(18, 1e-9), 0.0]
    with_one = [np.r_[y, 0.5, value] for value in (10.9, 11.1, -9.9, -10.1)]
    assert [far(values).any() for values in with_one] == [False, True, False, True]
    assert not far(np.r_[y, 6.0, 50.0]).any() and np.flatnonzero(far(np.r_[y, 6.0, 52.0])).tolist() == [21]
    assert not far(np.r_[y, 100.0, 101.0, 102.0]).any(), "3 of 23 are a group"
    assert not far(np.r_[np.zeros(30), 5.0, 9.0]).any(), "quartiles coincide"
    assert not far(np.array([0.0, 1.0, 2.0, 3.0, 1e6])).any(), "too few to tell"
    assert not far(np.full(20, np.nan)).any()


def test_units_and_zero_do_not_matter():
    y = np.r_[GROUPS, np.nan, 700.0, 650.0]
    for a, b in ((1e-6, 0.0), (-3.0, 1e3), (1e8, -5.0)):
        np.testing.assert_array_equal(far(a * y + b), far(y))


def test_long_tails_and_far_groups_are_not_far():
    """Of columns of 300 values; with tails as heavy as Cauchy's one largest value in ten is ten times as far as the next."""
    draws = {
        "normal": lambda: rng.normal(size=300), "t, 3": lambda: rng.standard_t(3, 300), "lognormal": lambda: rng.lognormal(0, 1, 300),
        "exponential": lambda: rng.exponential(size=300), "uniform": lambda: rng.uniform(size=300),
        "negative binomial": lambda: rng.negative_binomial(0.5, 0.02, 300).astype(float),
        "a fifth far away": lambda: np.where(rng.random(300) < 0.2, 1000.0, 0.0) + rng.normal(size=300),
        "a tenth far away": lambda: np.where(np.arange(300) < 30, 1000.0, 0.0) + rng.normal(size=300),
    }
    for name, draw in draws.items():
        assert sum(far(draw()).any() for _ in range(100)) <= 3, name
    assert sum(far(rng.standard_cauchy(300)).any() for _ in range(300)) < 60


# ---- defaults

@pytest.mark.parametrize("family", [
    nm.Gaussian(), nm.Gaussian("diagonal"), nm.SemiconjugateGaussian(), nm.Gaussian(known_mean=0), nm.Gaussian(known_covariance=[[1.0]]),
])
def test_default_priors_are_those_without_far_values(family):
    (alone, none), (model, messages) = (said("y ~ 1", {"y": values}, family=family) for values in (GROUPS, np.r_[GROUPS, 1000.0]))
    assert not none and len(messages) == 1 and "1 of 201 values of 'y' is 126 quartile ranges away (row 200: 1000)" in messages[0]
    assert [*map(str, model.family.describe())] == [*map(str, alone.family.describe())]


def test_several_responses_have_each_their_own():
    X = np.column_stack([GROUPS, rng.normal(size=200), rng.normal(size=200)])
    wild = X.copy()
    wild[3, 1], wild[7, 2] = 1e4, -999.0
    model, (message,) = said(None, wild)
    assert "of 'y2'" in message and "(row 3: 10000)" in message and "of 'y3'" in message and "a code for missing?" in message
    marked = np.where(np.isin(wild, [1e4, -999.0]), np.nan, wild)
    wanted = said(None, marked, missing="marginalize")[0]
    np.testing.assert_allclose([law.mean for law in model.family.scale], [law.mean for law in wanted.family.scale])
    np.testing.assert_allclose(model.family.m, wanted.family.m)


def test_counts_too():
    y = np.r_[rng.poisson(5, 100), 9999]
    model, (message,) = said("y ~ 1", {"y": y}, family=nm.Poisson())
    assert "9999): a code for missing?" in message and model.family.shape / model.family.rate == pytest.approx(y[:-1].mean())


@pytest.mark.parametrize("shrinkage", ["sampled", None])
def test_regressions(shrinkage):
    x = rng.uniform(size=80)
    data = pd.DataFrame({"x": x, "y": 3 * x + rng.normal(0, 0.1, 80)})
    wild = pd.concat([data, pd.DataFrame({"x": [0.5, -999.0], "y": [1e4, 1.0]})], ignore_index=True)
    family = nm.Regression("1 + x", shrinkage=shrinkage)
    model, messages = said("y ~ x", wild, family=family)
    assert len(messages) == 2 and "(row 80: 10000)" in messages[0] and "of 'x'" in messages[1] and "(row 81: -999)" in messages[1]
    form, alone = model.family.form, said("y ~ x", data.iloc[:80], family=family)[0].family.form
    assert form.level == pytest.approx(np.r_[data["y"], 1.0].mean()) and form.scale == pytest.approx(alone.scale, rel=0.05)
    np.testing.assert_allclose(np.abs(form.factor), np.abs(alone.factor), rtol=0.1)


def test_a_model_without_far_values_is_to_the_bit_as_it_was():
    data = {"y": GROUPS}
    family = said("y ~ 1", data)[0].family
    assert family.m[0] == GROUPS[:, None].sum(axis=0)[0] / 200
    gap = GROUPS[:, None] - family.m
    assert family.scale[0].rate == 0.5 / (0.1 * 2.0 * (np.sum(gap * gap, axis=0) / 199)[0])


@pytest.mark.parametrize("wild", [[1000.0], [-999.0] * 4])
def test_groups_are_found_beside_far_rows(wild):
    with warnings.catch_warnings(action="ignore"):
        fit = nm.fit("y ~ 1", {"y": np.r_[GROUPS, wild]}, **RUN)
    labels = fit.partition().labels
    assert len({labels[0], labels[150], labels[200]}) == 3 and (labels[200:] == labels[200]).all() and (labels[:200] != labels[200]).all()


def test_messages_name_rows_by_label_and_after_transformations():
    table = pd.DataFrame({"y": np.exp(np.r_[GROUPS / 8, 200.0])}, index=[f"r{i}" for i in range(201)])
    _, (message,) = said("log(y) ~ 1", table)
    assert "of 'log(y)'" in message and "row 200 (index label 'r200'): 200" in message
    table.loc["r5"] = np.nan
    _, messages = said("log(y) ~ 1", table)
    assert "1 of 200 values" in messages[1] and "row 200 (index label 'r200')" in messages[1], "dropped rows are counted in positions"
    wide = np.column_stack([np.r_[rng.normal(size=50), 1e5] for _ in range(9)])
    _, (message,) = said(None, wide)
    assert message.count("quartile ranges away") == 5 and "4 columns more are alike" in message


def test_saved_models_say_nothing(tmp_path):
    with warnings.catch_warnings(action="ignore"):
        fit = nm.fit("y ~ 1", {"y": np.r_[GROUPS, 1000.0]}, draws=2, tune=2, chains=1, rng=1)
    fit.save(tmp_path / "fit.npz")
    again = nm.load(tmp_path / "fit.npz")  # warnings are errors
    assert again.model.family.scale == fit.model.family.scale


# ---- covariates

def test_ranges_of_covariates():
    x = np.r_[np.linspace(0, 1, 50), -999.0][:, None]
    scales = Scales.of(x, np.array([False]), np.array([True]))
    assert scales.offset[0] == 0.0 and scales.span[0] == 1.0 and scales.ends.ravel().tolist() == [0.0, 1.0]


@pytest.mark.parametrize("formula", by_turns(["y ~ x", "y ~ x + z"], 2, 1))
def test_a_covariate_far_away_takes_no_resolution_from_the_others(formula):
    x, z = np.linspace(0, 1, 120), rng.uniform(size=120)
    data = pd.DataFrame({"x": x, "z": z, "y": np.sin(9 * x) + rng.normal(0, 0.1, 120)})
    wild = pd.concat([data, pd.DataFrame({"x": [-999.0], "z": [0.5], "y": [0.0]})], ignore_index=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = nm.fit(formula, wild, family=nm.Gaussian(), **RUN | {"draws": 100, "tune": 150})
    assert any("covariates are scaled by the other rows" in str(one.message) for one in caught)
    mean = fit.predict(data.drop(columns="y"))["estimate"]
    assert np.sqrt(np.mean((mean - np.sin(9 * x)) ** 2)) < 0.2
    there = fit.predict(wild.iloc[[120]].drop(columns="y"))
    assert np.isfinite(there.to_numpy()).all()
    grid = fit.model.grid
    if formula == "y ~ x":
        assert -999.0 in grid.locations and len(np.unique(grid.locations[grid.locations >= 0])) > 20
    else:
        (of_x, _), usual = grid.tables, grid.tables[0].measured(x)
        assert np.ptp(usual) > 0.9 and (np.unique(of_x.place) >= usual[0]).sum() == 11 and (of_x.place < usual[0]).any()


# ---- ties

def test_point_masses():
    y = np.where(np.arange(600) < 450, 0.0, rng.choice([1.0, 2.0, 3.0, 7.0, 12.0], 600))
    _, (message,) = said("y ~ 1", {"y": y})
    assert "450 of 600 values of 'y' are exactly 0" in message
    for remedy in ("nm.Hurdle(nm.Gaussian(), at=0.0)", "y > 0", "nm.Bernoulli()", "nm.Poisson()", "nm.Categorical()"):
        assert remedy in message
    for family in (nm.Poisson(), nm.Categorical()):
        assert not said("y ~ 1", {"y": y}, family=family)[1]
    _, messages = said("a + y ~ 1", {"a": GROUPS, "y": y[::3]}, family={"a": nm.Gaussian(), "y": nm.SemiconjugateGaussian()})
    assert len(messages) == 1 and "'a'" not in messages[0]


def test_a_point_mass_at_an_end_and_two_of_them():
    inner = rng.uniform(0, 100, 900)
    found = ties(counted(np.r_[inner, np.full(60, 100.0), np.full(15, 0.0)]))
    assert found.values[found.is_mass].tolist() == [100.0] and not found.is_discrete, "15 of 975 values are below 2%"
    _, (message,) = said("y ~ 1", {"y": np.r_[inner, np.full(100, 100.0), np.full(80, 0.0)]})
    assert "180 of 1080 values of 'y' are exactly 100 (100) or 0 (80)" in message and "whether y < 100" in message
    _, (message,) = said("y ~ x", {"y": np.r_[inner, np.full(400, 50.0)], "x": rng.uniform(size=1300)})
    assert "400 of 1300 values of 'y' are exactly 50" in message and "whether y != 50" in message


@pytest.mark.parametrize(("y", "words"), [
    (rng.integers(1, 6, 300), "the 300 values of 'y' are 5 distinct ones"),
    (rng.integers(2, 14, 400), "are 12 distinct ones"),
    (np.round(rng.gamma(3, 1, 300)) + 1, "values are distinct"),
    (np.repeat([0.0, 1.0], 40), "80 of 80 values of 'y' are exactly 0 (40) or 1 (40)"),
])
def test_answers_and_rounded_durations(y, words):
    _, (message,) = said("y ~ 1", {"y": y})
    assert words in message and "nm.Categorical()" in message


def test_codes_for_missing_values_are_not_point_masses():
    _, (message,) = said("y ~ 1", {"y": np.r_[GROUPS, [-999.0] * 60]})
    assert "60 of 260 values of 'y'" in message and "all of them -999: a code for missing?" in message


def test_families_with_point_masses_are_not_told_of_them():
    y = np.r_[np.zeros(50), rng.normal(5, 1, 50)]
    assert not said("y ~ 1", {"y": y}, family=nm.Hurdle(nm.Gaussian()))[1] and said("y ~ 1", {"y": y}, family=nm.Gaussian())[1]


def test_codes_among_censored_times_are_named():
    time, seen = np.r_[np.random.default_rng(0).exponential(5, 100), [9999.0] * 5], np.r_[np.ones(100), np.zeros(5)]
    for formula, data in (
        ("Surv(t, e) ~ 1", {"t": time, "e": seen}), ("interval(t, u) ~ 1", {"t": time, "u": np.where(seen == 1, time, np.inf)}),
    ):
        with pytest.warns(UserWarning, match=r"5 of 105 values .* all of them 9999: a code for missing\?"):
            nm.Model(formula, data)
    nm.Model("Surv(t, e) ~ 1", {"t": np.minimum(time, 20.0), "e": seen})


def test_point_masses_beside_that_of_a_hurdle():
    rng = np.random.default_rng(0)
    one, two = np.r_[np.zeros(200), rng.gamma(2, 2, 200)], np.r_[np.zeros(200), np.full(100, 9.0), rng.gamma(2, 2, 100)]
    hurdle = nm.Hurdle(nm.Gaussian())
    nm.Model("y ~ 1", {"y": one}, family=hurdle)
    nm.Model("y ~ 1", {"y": np.where(np.arange(600) < 450, 0.0, rng.choice([1.0, 2.0, 3.0, 7.0, 12.0], 600))}, family=hurdle)
    for y, family, words in (
        (one, None, r"200 of 400 .* exactly 0: .*nm.Hurdle\(nm.Gaussian\(\), at=0.0\) suits"),
        (-one, None, r"nm.Hurdle\(nm.Gaussian\(\), at=0.0\) suits.* y < 0"),
        (two, None, r"exactly 0 \(200\) or 9 \(100\): .*A hurdle has one point: .*nm.Categorical\(\)"),
        (two, hurdle, r"100 of 200 .* exactly 9: .*A hurdle has one point"),
    ):
        with pytest.warns(UserWarning, match=words):
            nm.Model("y ~ 1", {"y": y}, family=family)


def test_ties_of_censored_responses_are_for_families_that_take_them():
    table = {"t": np.repeat(np.arange(1.0, 9.0), 40), "e": np.tile([0, 1], 160), "x": rng.normal(size=320)}
    _, (message,) = said("Surv(t, e) ~ x", table)
    assert "nm.Hurdle" not in message and "nm.Categorical" not in message and "interval(lower, upper)" in message
    assert not said("Surv(t, e) ~ x", table, family=nm.Poisson())[1]


def test_tables_of_the_package_are_not_said_to_be_tied_or_far():
    load = nm.datasets
    iris = load.load_iris().iloc[:, :4]
    for table in (load.load_galaxy(), load.load_acidity(), load.load_faithful(), iris, iris.iloc[::3]):
        for name in table:
            assert not said("y ~ 1", {"y": table[name]})[1], name
    assert not said("accel_g ~ times_ms", load.load_mcycle())[1]
    _, messages = said("height + visits ~ 1", load.simulate_mixed(rng=1)[0], family={"height": nm.Gaussian(), "visits": nm.Poisson()})
    assert not messages
    assert not said("y ~ x", load.simulate_regression(rng=1))[1]


def test_rounded_measurements_are_not_ties():
    for draw in (
        lambda: np.round(rng.normal(170, 10, 1000)), lambda: np.round(rng.normal(20, 3, 200), 1), lambda: np.round(rng.gamma(2, 20, 500)),
        lambda: rng.integers(18, 90, 2000), lambda: np.round(rng.lognormal(0, 1, 1000), 1),
        lambda: 5 * np.round(rng.normal(120, 15, 80) / 5),
    ):
        assert ties(counted(draw().astype(float))) is None


def test_a_summary_says_what_does_for_values_that_are_rounded_and_it_does():
    """One lump, rounded to a quarter of its spread: point masses have clusters, and none do where the values are intervals."""
    y = np.round(np.random.default_rng([1, 60]).normal(size=60) * 4) / 4
    run = {"draws": 300, "tune": 500, "thin": 4, "rng": 1}
    note = " ".join(nm.fit("y ~ 1", {"y": y}, **run).summary().as_text().split())
    assert "these are ties, not groups. Where y is a measurement that is rounded to 0.25, interval(low, high)" in note
    fit = nm.fit("interval(low, high) ~ 1", {"low": y - 0.125, "high": y + 0.125}, **run)
    assert fit.partition().n_clusters == 1 and "ties" not in fit.summary().as_text()


def test_chains_whose_clusters_are_ties_are_counted():
    """Of chains in two modes, a cluster for each value or one for all."""
    y = np.round(np.random.default_rng(4).normal(size=300) * 2) / 2
    one, each = np.zeros(300, int), np.unique(y, return_inverse=True)[1]
    labels = np.stack([np.tile(each, (40, 1)), np.tile(one, (40, 1)), np.r_[np.tile(each, (20, 1)), np.tile(one, (20, 1))]])
    with warnings.catch_warnings(action="ignore"):
        fit = nm.fit("y ~ 1", {"y": y}, family=nm.Gaussian(scale=20.0), **RUN, init=one)
    found = clusters(fit)
    assert found.partition.n_clusters == 1
    (note,) = tie_notes(fit.model, found, labels)
    assert note.startswith("In 1 of 3 chains clusters hold one value of 'y' each, repeated: these are ties, not groups. Where y is a meas")
    assert tie_notes(fit.model, found, labels[1:]) == tie_notes(fit.model, found, fit.draws["labels"]) == []


def test_summaries_say_which_clusters_are_ties():
    y = np.r_[rng.integers(1, 6, 300)]
    with warnings.catch_warnings(action="ignore"):
        fit = nm.fit("y ~ 1", {"y": y}, **RUN, init=y - 1)
        search, variational = (nm.fit("y ~ 1", {"y": y}, method=name, rng=1) for name in ("ibhc", "memoized_vb"))
        both = nm.fit("y + z ~ 1", {"y": y, "z": rng.normal(size=300)}, family=nm.Gaussian("diagonal"), **RUN, init=y - 1)
        usual = nm.fit("y ~ 1", {"y": GROUPS}, **RUN)
    note = " ".join(fit.summary().as_text().split())
    assert "Clusters 0 to 4 hold one value of 'y' each, repeated: these are ties, not groups." in note
    for other in (search, variational):
        assert "one value of 'y'" in " ".join(other.summary().as_text().split())
    assert "hold one value of 'y' each" in " ".join(both.summary().as_text().split()) and "'z' each" not in both.summary().as_text()
    assert "these are ties" not in usual.summary().as_text()


@pytest.mark.parametrize("rows", [np.repeat(np.arange(50), 3), np.random.default_rng(2).integers(0, 50, 150)], ids=["copies", "bootstrap"])
def test_copies_of_rows_are_asked_about(rows):
    """Rows that a join has repeated, or a bootstrap, whose continuous values stand there several times."""
    own = np.random.default_rng(5)
    table = pd.DataFrame(own.normal(size=(50, 2)), columns=["a", "b"]).assign(x=own.random(50))
    for formula in ("a ~ 1", "a + b ~ 1", "a ~ x", "log(a + 9) + b ~ x"):
        _, (message,) = said(formula, table.loc[rows])
        assert f"of 150 rows are the same as others in all that the formula names, and {len(np.unique(rows))} are distinct" in message
        assert "data.drop_duplicates()" in message and not said(formula, table)[1]


def test_a_covariate_that_names_the_rows():
    own = np.random.default_rng(7)
    names = [f"subject {i}" for i in range(60)]
    table = pd.DataFrame({"y": own.normal(size=60), "x": own.random(60), "id": names, "g": own.choice(["u", "v"], 60)})
    _, (message,) = said("y ~ .", table)
    assert "covariate 'id' has 60 levels in 60 rows: does it number or name the rows?" in message
    assert not said("y ~ x + g", table)[1] and not said("y ~ id", table.assign(id=np.repeat(names[:20], 3)))[1]


def test_rows_that_are_no_copies():
    """Rounded values, a formula that gives many rows one value, other values of x, weights, and a few copies."""
    own = np.random.default_rng(6)
    table = pd.DataFrame({"a": np.repeat(own.normal(size=40), 3), "x": own.random(120), "money": own.integers(10, 80, 120) * 100.0})
    few = pd.DataFrame({"a": np.r_[own.normal(size=80)]})
    assert not said("a ~ x", table)[1], "x differs"
    assert not said("log(money) ~ 1", table)[1] and not said("money ~ 1", table)[1]
    assert not said("a ~ 1", pd.concat([few, few.head(15)], ignore_index=True))[1]
    assert not said("a ~ 1", table, weights=np.full(len(table), 2))[1]
    assert not said("times_ms ~ 1", nm.datasets.load_mcycle())[1], "half of the times are rounded to that of another"
    waits = nm.datasets.load_faithful()[["waiting_min"]].astype(float)
    waits.iloc[7] = 1e7
    _, (message,) = said("waiting_min ~ 1", waits)
    assert "quartile ranges away" in message, "whole minutes are no copies, whatever lies far from them"


def test_codes_are_distinct():
    assert len(np.unique(CODES)) == len(CODES) and {-9.0, -99.0, -999.0, 999.0, 9999.0, -1.0} <= set(CODES)


def test_few_counts_are_asked_about():
    """Rows that are too few for ties; once they are enough, these are what is said, and nothing twice."""
    y, question = np.repeat(np.arange(12), 4), "12 whole numbers from 0 to 11 in 48 rows: are they counts? Then nm.Poisson() suits"
    _, (message,) = said("y ~ 1", {"y": y})
    assert question in message
    _, (message,) = said("y ~ 1", {"y": np.tile(y, 40)})
    assert "nm.Bernoulli()" in message and "nm.Poisson()" in message and question not in message
    for family in (nm.Poisson(), nm.Categorical()):
        assert said("y ~ 1", {"y": y}, family=family)[1] == []
    assert said("y ~ 1", {"y": np.asarray(y) + 0.5})[1] == [] == said("y ~ 1", {"y": np.asarray(y)[:8]})[1]


def test_summaries_say_where_few_rows_follow_the_default_scale():
    def said(y, **options):
        fit = nm.fit("y ~ 1", {"y": y}, **RUN, **{"family": nm.Gaussian("spherical")} | options)
        return fit, "default scale of the prior" in " ".join(fit.summary().as_text().split())

    lump = np.random.default_rng(101).normal(size=20)
    fit, few = said(lump)
    assert few and fit.partition().n_clusters > 1
    wider, still = said(lump, family=nm.Gaussian("spherical", scale=10 * fit.model.family.scale))
    assert not still and wider.partition().n_clusters == 1
    assert not said(GROUPS)[1] and not said(lump, family=nm.Gaussian())[1]


@pytest.mark.nightly
def test_summaries_say_which_clusters_are_wider_than_their_rows():
    def said(y):
        fit = nm.Model(data=y).fit(**RUN)
        return fit, " ".join(fit.summary().as_text().split())

    groups = np.repeat([0.0, 20.0, 1000.0], 60)[:, None] + np.random.default_rng(11).normal(size=(180, 1))
    fit, text = said(groups)
    assert fit.partition().n_clusters == 2 and "Cluster 1 is wider by the prior" in text
    words = text[text.index("family=nm.Gaussian(scale=v, r=") :]
    r, v = float(words[30 : words.index(")")]), float(words.split("v being ")[1].split()[0].rstrip("."))
    wider = nm.Model(data=groups, family=nm.Gaussian(scale=v, r=r)).fit(**RUN)
    assert wider.partition().n_clusters == 3 and "wider by the prior" not in wider.summary().as_text()
    for usual in (GROUPS[:, None], nm.datasets.load_galaxy().to_numpy(dtype=float)):
        assert "wider by the prior" not in said(usual)[1]


def test_summaries_say_which_cluster_is_stretched_towards_the_mean():
    """Columns that are independent within groups, some of which are far off: r of the prior makes them correlated there."""
    rng = np.random.default_rng(103)

    def said(far, **options):
        y = np.concatenate([rng.normal(size=(150, 5)), far + rng.normal(size=(20, 5)), -far + rng.normal(size=(20, 5))])
        fit = nm.Model(data=y, **options).fit(draws=100, tune=100, chains=2, rng=1)
        assert fit.partition().n_clusters == 3
        return " ".join(fit.summary().as_text().split())

    assert re.search(r"Cluster [12] is stretched by the prior .* See what stays with family=nm.Gaussian\(r=0.00\d+\)\.", said(12.0))
    assert "stretched" not in said(12.0, family=nm.Gaussian(r=1e-3)) and "stretched" not in said(3.0)


@pytest.mark.nightly
def test_summaries_say_what_a_fit_expects_where_no_value_is():
    own = np.random.default_rng(0)
    x = own.uniform(-2, 2, 150)
    share = 1 / (1 + np.exp(-2 * x))

    def said(formula, data, family=None):
        return " ".join(nm.fit(formula, data, family=family, **RUN | {"draws": 100, "tune": 150}).summary().as_text().split())

    skewed = np.exp(2 * own.normal(size=200))
    wide = nm.Gaussian(scale=0.04 * skewed.var())
    for formula, data, family, words in (
        ("y ~ 1", {"y": skewed}, wide, r"'y' has no value below 0, where the fit expects [12]\d%: log\(y\) on the left"),
        ("p ~ x", {"x": x, "p": own.beta(10 * share, 10 * (1 - share))}, None,
         r"outside 0 to 1, where the fit expects up to \d+% at a row"),
    ):
        assert re.search(words, said(formula, data, family))
    assert "has no value" not in said("log(y) ~ 1", {"y": skewed}) + said("eruptions_min ~ 1", nm.datasets.load_faithful())


def test_summaries_say_what_a_fit_of_times_expects_below_0():
    rng = np.random.default_rng(1)
    time, end = np.round(300 * rng.weibull(0.8, 120)) + 1, np.round(rng.uniform(50, 900, 120))
    days = np.minimum(time, end)
    data = {"days to it": days, "seen": (time <= end) * 1, "zeros": days - days.min()}

    def said(formula):
        return " ".join(nm.fit(formula, data, **RUN | {"draws": 100, "tune": 100}).summary().as_text().split())

    words = r"'days to it' has no value below 0, where the fit expects \d%: Surv\(log\(Q\('days to it'\)\), seen\) on the left"
    assert re.search(words, said("Surv(Q('days to it'), seen) ~ 1"))
    assert "has no value" not in said("Surv(log(Q('days to it')), seen) ~ 1")
    assert (text := said("Surv(zeros, seen) ~ 1")).count("below 0, where") == 1 and "log(" not in text  # of 0 there is none


def test_summaries_of_given_priors_and_of_weights_say_nothing_of_widths():
    y = np.tile([-2.0, -1.0, 0.0, 1.0, 2.5], 8)
    given = nm.fit("y ~ 1", {"y": y}, family=nm.Gaussian(m=0.0, scale=1000.0, r=0.1), method="vb", rng=1)
    with warnings.catch_warnings(action="ignore"):
        counted = nm.fit("y ~ 1", {"y": np.r_[y[:5], y[:5] + 100.0], "n": np.full(10, 1000)}, weights="n", method="vb", rng=1)
    for fit in (given, counted):
        assert "wider by the prior" not in fit.summary().as_text()
