"""Responses that are rounded: the unit is learnt from repeats, and no component of a variational fit is narrower than it."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.integrate import quad
from support.cover import by_turns

import nrmmix as nm
from nrmmix.model.families.exponential import Stacked
from nrmmix.model.frame.unusual import rounding_unit, rounding_units


@pytest.mark.parametrize("unit", [1.0, 0.1, 0.05, 2.5, 1e-6])
def test_unit_is_learnt_in_any_scale_and_place(unit):
    rng = np.random.default_rng(1)
    assert rounding_unit(np.repeat(unit * np.array([3, 1, -2, -4]), 20)) == pytest.approx(unit), "no two values are neighbours"
    for shift in (0.0, 1e3 * unit, -7.5 * unit):
        y = unit * np.rint(rng.normal(0, 6, 400)) + shift
        assert rounding_unit(y) == pytest.approx(unit, rel=1e-6)


def test_what_is_not_rounded_has_no_unit():
    rng = np.random.default_rng(1)
    y = rng.normal(size=400)
    assert rounding_unit(y) == 0 and rounding_unit(np.round(y, 4)) == 0, "few repeats"
    assert rounding_unit(np.repeat(y[:40], 10)) == 0, "repeats on no grid"
    assert rounding_unit(np.where(rng.random(400) < 0.7, 0.0, np.abs(y))) == 0, "a point mass, and no other repeats"
    assert rounding_unit(np.round(y[:20])) == 0 and rounding_unit(np.full(50, np.nan)) == 0
    np.testing.assert_allclose(rounding_units(np.column_stack([y, np.round(y, 1)])), [0, 0.1])


@pytest.mark.filterwarnings("ignore:.*a continuous family has no point masses")
def test_statistics_are_the_mean_over_the_cell():
    """E log N(y + e) over the cell is below the log of the mean density there, and so the bound of the rounded rows."""
    rng = np.random.default_rng(2)
    data = pd.DataFrame({"x": rng.uniform(-1, 1, 200)})
    data["y"] = np.round(0.3 * data["x"] + 0.05 * rng.standard_normal(200), 1)
    for names in (["y"], ["y", "z"]):  # of which ties are said
        both = data.assign(z=np.round(2 * data["y"] + rng.standard_normal(200)))
        model = nm.Model(" + ".join(names) + " ~ x", both)
        exponential = model.exponential()
        exact = Stacked([one.of_rounded(None) for one in exponential.forms])
        T, plain = (model.statistics(one).whole().dense for one in (exponential, exact))
        kernels, units = model.statistics(exact).dense, rounding_units(both[names].to_numpy())
        np.testing.assert_allclose(units, [0.1, 1.0][: len(names)])
        of_cell, cell = plain.copy(), (np.arange(2000) + 0.5) / 2000 - 0.5
        for j, name in enumerate(names):
            error = cell * units[j] * np.ptp(kernels[j]) / np.ptp(both[name])  # in the units of the kernels
            of_cell[0 if j == 0 else 2] += np.mean(error**2)
        np.testing.assert_allclose(T, of_cell, rtol=1e-6, atol=1e-9)
    for mu, sd in ((0.0, 0.03), (0.04, 0.05), (0.3, 1.0)):
        mean = quad(lambda e, mu=mu, sd=sd: stats.norm.logpdf(e, mu, sd), -0.05, 0.05)[0] / 0.1
        assert mean == pytest.approx(stats.norm.logpdf(0, mu, sd) - 0.1**2 / 12 / (2 * sd**2), abs=1e-9)
        assert mean < np.log((stats.norm.cdf(0.05, mu, sd) - stats.norm.cdf(-0.05, mu, sd)) / 0.1)


def spiked(n=600, unit=0.1):
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, n)
    t = rng.standard_normal(n)
    return pd.DataFrame({"x": x, "t": t, "y": unit * np.where(x > 0, np.where(t > 0, 3, 1), np.where(t > 0, -2, -4))})


@pytest.mark.filterwarnings("ignore:.*a continuous family has no point masses")
def test_density_does_not_grow_at_single_values():
    data = spiked()
    with pytest.warns(UserWarning, match=r"values of 'y' are rounded to 0\.1, and \d\d+% of the rows are in components as narrow as that"):
        fit = nm.fit("y ~ x + t", data, method=nm.VB(starts=2), rng=1)
    peak = np.exp(fit.log_density(data.head(100).assign(t=lambda one: one["t"] + 0.01))).max()
    floor = rounding_unit(data["y"].to_numpy()) / np.sqrt(12)
    assert peak <= 1.05 / (np.sqrt(2 * np.pi) * floor), "no narrower than the rounding error"
    new = pd.DataFrame({"x": [0.5, -0.5], "t": [1.0, -1.0]})
    np.testing.assert_allclose(fit.predict(new)["estimate"], [0.3, -0.4], atol=0.03)


def test_values_that_are_not_repeated_are_as_before():
    rng = np.random.default_rng(3)
    data = pd.DataFrame(rng.standard_normal((200, 2)), columns=["x", "t"]).assign(y=lambda one: one["x"])
    exponential = nm.Model("y ~ x + t", data).exponential()
    assert exponential.forms[0].rounding is None


@pytest.mark.nightly
def test_mixtures_of_regressions_have_the_rule_too(recwarn):
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"x": rng.standard_normal(300)}).assign(y=lambda one: np.round(one["x"] + 0.3 * rng.standard_normal(300), 1))
    model = nm.Model("y ~ 1", data, family=nm.Regression("1 + x"))
    assert model.exponential().forms[0].rounding is not None
    fit = model.fit(method="vb", rng=1)
    assert fit.n_clusters == 1 and not recwarn.list


@pytest.mark.filterwarnings("ignore:.*a continuous family has no point masses")
@pytest.mark.parametrize("names", by_turns([["y"], ["y", "z"]]))
def test_rows_that_are_loaded_part_by_part_have_it_too(names, tmp_path):
    data = spiked().assign(z=lambda one: np.round(one["y"] + np.random.default_rng(4).standard_normal(600)))
    formula = " + ".join(names) + " ~ x + t"
    whole, part = nm.Model(formula, data), nm.Model(formula, [data[:100], data[100:]])
    one, other = (model.exponential().forms[0].rounding for model in (whole, part))
    assert np.diagonal(one).all()
    np.testing.assert_allclose(one, other, rtol=1e-12)
    data.to_csv(tmp_path / "data.csv", index=False)
    with pytest.warns(UserWarning, match=r"values of 'y' are rounded to 0\.1.* as narrow as that"):
        fit = nm.fit(formula, tmp_path / "data.csv", method=nm.VB(starts=1), rng=1)
    fit.save(tmp_path / "fit.npz")
    again = nm.load(tmp_path / "fit.npz")
    np.testing.assert_array_equal(again.model.exponential().forms[0].rounding, fit.factors.exponential.forms[0].rounding)
    new = data.iloc[:5]
    np.testing.assert_array_equal(again.log_density(new), fit.log_density(new))
