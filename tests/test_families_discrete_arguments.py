"""Families of counts, yes and no, and categories: hyperparameters from the data, and what is refused."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import pytest
from exact.marginals import categorical_log_marginal
from scipy import stats
from scipy.sparse import coo_array, csr_array
from support.discrete_cases import CASES, frame, with_gaps, word_counts

import nrmmix as nm

# ---- hyperparameters from the data


def test_poisson_default_follows_the_unit_of_the_exposure():
    y, e = np.array([[0, 4], [2, 9], [5, 1]]), np.array([1.0, 2.0, 0.5])
    small, large = (nm.Model(data=frame(y, e=s * e), family=nm.Poisson(exposure="e")) for s in (1.0, 1000.0))
    np.testing.assert_allclose(large.family.rate, 1000 * small.family.rate)
    np.testing.assert_allclose(small.family.shape / small.family.rate, y.sum(axis=0) / e.sum())
    assert large.log_joint([0, 0, 1], mass=1.0) == pytest.approx(small.log_joint([0, 0, 1], mass=1.0), rel=1e-12)


def test_poisson_rate_alone_keeps_the_mean():
    model = nm.Model(data=frame(np.array([[2, 4], [4, 8]])), family=nm.Poisson(rate=3.0))
    np.testing.assert_allclose(model.family.shape, [9.0, 18.0])


def test_poisson_column_of_zeros():
    model = nm.Model(data=frame(np.array([[0, 4], [0, 8], [0, 1]])), family=nm.Poisson())
    shape, rate = model.family.shape, model.family.rate
    np.testing.assert_allclose(shape / rate, [1 / 6, 13 / 3])
    assert np.isfinite(model.fit(draws=5, tune=5, chains=1, rng=1).draws["log_joint"]).all()


def test_bernoulli_default_does_not_tell_0_from_1():
    rng = np.random.default_rng(12)
    y = with_gaps(rng.random((30, 4)) < [0.1, 0.5, 0.8, 1.1], rng)  # the last column is constant
    labels = rng.integers(0, 3, 30)
    swapped = [nm.Model(data=frame(table), family=nm.Bernoulli(), missing="marginalize") for table in (y, 1 - y)]
    np.testing.assert_allclose(swapped[0].family.a, swapped[1].family.b, rtol=1e-14)
    joints = [model.log_joint(labels, mass=1.0) for model in swapped]
    assert joints[0] == pytest.approx(joints[1], rel=1e-12) and math.isfinite(joints[0])


def test_categorical_default_does_not_depend_on_names():
    rng = np.random.default_rng(13)
    codes = rng.integers(0, 4, 30)
    labels = rng.integers(0, 3, 30)
    tables = [{"v": np.array(names)[codes]} for names in (["a", "b", "c", "d"], ["z", "q", "a", "m"], [7, 3, 9, 1])]
    joints = [nm.Model(data=table, family=nm.Categorical()).log_joint(labels, mass=1.0) for table in tables]
    np.testing.assert_allclose(joints, joints[0], rtol=1e-12)


@pytest.mark.parametrize(("dtype", "kind"), [("int64", "i"), ("uint8", "i"), ("float64", "f")])
def test_levels_are_numbers_as_the_data_have_them(dtype, kind):
    frame = nm.Model(data={"v": np.array([2, 10, 3, 3], dtype)}, family=nm.Categorical()).frame
    assert frame.levels == ((2, 3, 10),) and pd.Index(frame.levels[0]).dtype.kind == kind


def test_concentration_of_each_level():
    data = pd.DataFrame({"v": pd.Categorical(["lo", "hi", "lo", "mid"], categories=["lo", "mid", "hi", "never"])})
    model = nm.Model(data=data, family=nm.Categorical([1.0, 2.0, 3.0]))
    assert model.family.mean_names() == ("v[lo]", "v[mid]", "v[hi]")
    codes = np.array([[0], [2], [0], [1]])
    wanted = categorical_log_marginal(codes, [np.array([1.0, 2.0, 3.0])])
    assert model.log_joint([0, 0, 0, 0], mass=1.0) == pytest.approx(wanted + math.log(6 / 24), rel=1e-12)


def test_log_coefficient():
    y, _ = word_counts()
    wanted = [stats.multinomial(row.sum(), np.full(12, 1 / 12)).logpmf(row) + row.sum() * math.log(12) for row in y]
    np.testing.assert_allclose(nm.Model(data=frame(y), family=nm.Multinomial()).family.log_coefficient(y), wanted, rtol=1e-9)


def test_the_printed_model_shows_the_numbers():
    visits = {"visits": [0, 1, 9, 12], "months": [6, 6, 12, 12]}
    text = str(nm.Model("visits ~ 1", visits, family=nm.Poisson(2.0, exposure="months")))
    assert "Poisson(months lambda)" in text and "shape = 2, rate = 3.2727" in text
    assert "a = 0.5, b = 0.5" in str(nm.Model(data={"x": [0, 1]}, family=nm.Bernoulli()))
    assert "colour has 2 levels" in str(nm.Model(data={"colour": ["a", "b"]}, family=nm.Categorical()))
    assert "concentration = 0.1 for each of 12 columns" in str(nm.Model(data=csr_array(word_counts()[0]), family=nm.Multinomial()))


def test_means_of_several_blocks_are_in_the_order_of_the_responses():
    data = pd.DataFrame({"kind": ["a", "b", "c", "a"], "n": [1, 2, 3, 4], "sex": ["m", "f", "f", "m"], "ok": [True, False, True, True]})
    family = {"sex + kind": nm.Categorical(), "ok": nm.Bernoulli(), "n": nm.Poisson()}
    model = nm.Model("kind + n + sex + ok ~ 1", data, family=family)
    assert model.blocks.mean_names() == ("kind[a]", "kind[b]", "kind[c]", "n", "sex[f]", "sex[m]", "ok")
    assert model.blocks.mean_responses().tolist() == [0, 0, 0, 1, 2, 2, 3]
    values = np.arange(7.0)  # as kernels write them: sex, kind, ok, n
    assert model.blocks.means(values, model.packed).tolist() == [2, 3, 4, 6, 0, 1, 5]


@pytest.mark.parametrize("name", CASES)
def test_a_saved_fit_is_the_fit(name, tmp_path):
    model = CASES[name]().model
    fit = model.fit(draws=6, tune=4, chains=2, rng=1)
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    assert str(again.model) == str(fit.model)
    labels = fit.draws["labels"][1, 3]
    assert again.model.log_joint(labels, mass=1.0) == fit.model.log_joint(labels, mass=1.0)
    np.testing.assert_array_equal(again.draws["labels"], fit.draws["labels"])


# ---- what is refused


def refuse(match, data, family, **more):
    with pytest.raises(ValueError, match=match):
        nm.Model(data=data, family=family, **more)


def test_bad_hyperparameters():
    for bad in (0, -1, True, "x", 1e60, [1, 0], [[1, 2]], [], float("nan")):
        with pytest.raises(ValueError, match="Poisson: rate"):
            nm.Poisson(1.0, bad)
    with pytest.raises(ValueError, match="both a and b"):
        nm.Bernoulli(1.0)
    with pytest.raises(ValueError, match="concentration"):
        nm.Multinomial(None)
    with pytest.raises(ValueError, match="exposure"):
        nm.Poisson(exposure=2.0)
    y = frame(np.array([[0, 1], [1, 0], [1, 1]]))
    refuse("shape has 3 numbers for 2 responses", y, nm.Poisson([1, 2, 3]))
    refuse("a has 3 numbers for 2 responses", y, nm.Bernoulli([1, 2, 3], [1, 2, 3]))
    refuse("concentration has 3 numbers for 2 columns", y, nm.Multinomial([1, 2, 3]))
    refuse("concentration has 3 numbers for 2 levels of 'y1'", y, nm.Categorical([1, 2, 3]))


@pytest.mark.parametrize("family", [nm.Poisson(), nm.Multinomial()], ids=lambda family: type(family).__name__)
def test_what_is_no_count(family):
    refuse("'y2' is -1 in row 1, not a count", frame(np.array([[1, 2], [3, -1]])), family)
    refuse("'y1' is 0.5 in row 0, not a count", frame(np.array([[0.5, 2], [3, 1]])), family)
    refuse("'y1' is 1000000000 in row 0, not a count: .* less than 1e9", frame(np.array([[1e9, 2], [3, 1]])), family)
    refuse("True and False", pd.DataFrame({"a": [True, False], "b": [1, 2]}), family)
    refuse("not categorical|holds 'x'|not a real number", pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}), family)


def test_what_is_not_binary():
    refuse("'y1' is 2 in row 1, not 0 or 1", frame(np.array([[1, 0], [2, 1]])), nm.Bernoulli())
    refuse("'y1' is 0.5 in row 0, not 0 or 1", frame(np.array([[0.5, 0], [1, 1]])), nm.Bernoulli())


def test_exposures_that_are_none():
    def table(e):
        return pd.DataFrame({"y": [1, 2, 3], "e": e}, index=["a", "b", "c"])

    refuse(r"exposure 'e' is 0 in row 1 \(index label 'b'\)", table([1, 0, 2]), nm.Poisson(exposure="e"))
    refuse("exposure 'e' is -2 in row 2", table([1, 1, -2]), nm.Poisson(exposure="e"))
    refuse("exposure 'e' makes 3 columns", table(["u", "v", "w"]), nm.Poisson(exposure="e"))
    refuse("exposure 'e [+] y2' makes 2 columns", table([1, 2, 3]).assign(y2=[4, 5, 7]), nm.Poisson(exposure="e + y2"))
    refuse("months", table([1, 2, 3]), nm.Poisson(exposure="months"))
    model = nm.Model("y ~ 1", table([1, 2, 3]), family=nm.Poisson(exposure="np.exp(e)"))
    np.testing.assert_allclose(model.frame.inputs[:, 0], np.exp([1, 2, 3]))


def test_documents_that_say_nothing():
    y = np.array([[1, 2, 0], [0, 0, 0], [0, 1, 1]])
    refuse("all counts are 0 in row 1", csr_array(y), nm.Multinomial())
    table = frame(y)
    table.index = ["a", "b", "c"]
    refuse(r"all counts are 0 in row 1 \(index label 'b'\)", table, nm.Multinomial())
    refuse("one column of counts", csr_array(y[:, :1] + 1), nm.Multinomial())
    for bad in (-1.0, 0.5, np.nan):
        refuse("'y2' is .* in row 2, not a count", csr_array(np.where(np.arange(9).reshape(3, 3) == 7, bad, y)), nm.Multinomial())
    refuse("True and False", csr_array(y > 0), nm.Multinomial())
    refuse("complex numbers", csr_array(y * 1j), nm.Multinomial())
    for shape in ((3,), (3, 0), (0, 3)):
        refuse(f"shape {re.escape(str(shape))}; give a matrix", coo_array(np.zeros(shape)), nm.Multinomial())
    torn = np.array([[1, 2, 1], [np.nan, 3, 0], [0, 1, 1]])
    refuse("'y1' is missing in row 1", frame(torn), nm.Multinomial(), missing="marginalize")


@pytest.mark.parametrize("kind", ["mean", "quantile", "density", "cluster", "log_density", "simulate"])
def test_new_rows_are_named_as_the_caller_knows_them(kind):
    """Rows that miss something, or equal others, are not looked at: what is wrong is in the third row all the same."""

    def ask(fit, new):
        if kind == "simulate":
            return fit.simulate(new, rng=1)
        return fit.log_density(new) if kind == "log_density" else fit.predict(new, kind=kind)

    run = {"draws": 3, "tune": 2, "chains": 1, "rng": 1}
    visits = {"visits": [0, 1, 9, 12], "months": [6, 6, 12, 12]}
    fit = nm.fit("visits ~ 1", visits, family=nm.Poisson(exposure="months"), **run)
    with pytest.raises(ValueError, match=r"'months' is 0 in row 2 \(index label 'c'\)") as error:
        ask(fit, pd.DataFrame({"visits": 1, "months": [np.nan, 6, 0, 6]}, index=list("abcd")))
    assert type(error.value) is ValueError
    if kind in ("density", "cluster", "log_density"):
        fit = nm.fit("a + b ~ 1", {"a": [1, 2, 3], "b": [2, 2, 1]}, family=nm.Multinomial(), **run)
        with pytest.raises(ValueError, match=r"'a' is missing in row 2 \(index label 'c'\)"):
            ask(fit, pd.DataFrame({"a": [np.nan, 1, np.nan], "b": [np.nan, 2, 1]}, index=list("abc")))


def test_a_response_of_one_level():
    refuse("'v' has one level only, 'a'", {"v": ["a", "a"], "w": ["p", "q"]}, nm.Categorical())


def test_levels_that_the_training_data_do_not_have():
    fit = nm.fit("v ~ 1", {"v": ["a", "b", "b", "a"]}, family=nm.Categorical(), draws=5, tune=5, chains=1, rng=1)
    with pytest.raises(ValueError, match="'c' in row 1"):
        fit.log_density({"v": ["a", "c"]})
    with pytest.raises(ValueError, match="no probability"):
        fit.model.family.observe(np.array([[2.0]]))
    with pytest.raises(ValueError, match="no probability"):
        nm.Model(data={"x": [0, 1]}, family=nm.Bernoulli()).family.observe(np.array([[0.0], [3.0]]))
