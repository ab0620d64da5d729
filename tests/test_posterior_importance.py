"""What covariates matter: their use by rows and atoms, the size of their effects, the picture and the table of the summary."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

import nrmmix as nm
from nrmmix import plots
from nrmmix.diagnostics import rhat

RUN = {"draws": 50, "tune": 150, "chains": 2, "rng": 1, "cores": 1}
COLUMNS = [f"{name}{bound}" for name in ("use", "inclusion", "effect") for bound in ("", "_lower", "_upper")]


@cache
def table():
    """y depends on a strongly, and on g; not on b."""
    rng = np.random.default_rng(3)
    g = rng.choice(["u", "v", "w"], 150, p=[0.5, 0.3, 0.2])
    data = pd.DataFrame({"a": rng.uniform(0, 10, 150), "b": rng.uniform(size=150), "g": g})
    y = 3 * np.sin(data["a"]) + 2 * (data["g"] == "u") + rng.normal(0, 0.3, 150)
    return data.assign(y=y, z=y > 0, c=np.where(y > 1, "high", np.where(y < -1, "low", "middle")))


@cache
def fitted(formula="y ~ a + b + g", **options):
    return nm.fit(formula, table(), **options, **RUN)


@cache
def found():
    return fitted().importance(draws=100, rows=20)


@pytest.fixture(autouse=True)
def figures():
    yield
    pyplot.close("all")


def test_columns_and_rows():
    assert list(found()) == [*COLUMNS, "effect_q05", "effect_q95", "rhat"]
    assert found().index.tolist() == ["a", "b", "g"] and found().index.name == "covariate"
    assert found().notna().all().all() and "probabilities" in found().attrs["units"]
    for name in ("use", "inclusion", "effect"):
        assert (found()[f"{name}_lower"] <= found()[f"{name}_upper"]).all()


def test_use_and_inclusion_are_those_of_the_draws():
    draws, n = fitted().draws, 150
    share = np.zeros((2, 50, 3))
    for chain in range(2):
        for t in range(50):
            for i in range(n):
                share[chain, t] += draws["codes"][chain, t, draws["locations"][chain, t, i]] > 0
    share /= n  # once, or equal shares would differ in the last bit, and so in their ranks
    for name, values in (("use", share), ("inclusion", draws["inclusion"])):
        of_all = values.reshape(100, 3)
        np.testing.assert_allclose(found()[name], of_all.mean(axis=0))
        np.testing.assert_allclose(found()[[f"{name}_lower", f"{name}_upper"]].T, np.quantile(of_all, [0.05, 0.95], axis=0))
    each = [max(rhat(share[..., j]), rhat(draws["inclusion"][..., j])) for j in range(3)]
    np.testing.assert_allclose(found()["rhat"], each)


def test_what_matters_matters():
    of = found()
    assert of["effect_lower"]["a"] > 5 * of["effect"]["b"] and of["effect_lower"]["g"] > 2 * of["effect"]["b"]
    assert 1.4 < of["effect"]["a"] < 2.6 and 0.5 < of["effect"]["g"] < 1.5  # 3 sd(sin) = 2.1, 2 sd(g is u) = 1
    assert of["use"]["a"] > 0.8 > 0.4 > of["use"]["b"]
    assert of["effect_q05"]["a"] > 3 * of["effect_q05"]["b"] and of["effect_q95"]["a"] > 3 * of["effect_q95"]["b"]


@pytest.mark.parametrize("name", ["a", "g"])
def test_effects_are_spreads_of_predictions(name):
    fit, data = fitted(), table()
    rows = data.iloc[np.unique(np.linspace(0, 149, 7).astype(int))]
    if name == "a":
        values = np.sort(data["a"])[np.round((np.arange(9) + 0.5) / 9 * 149).astype(int)]
        weights = np.full(9, 1 / 9)
    else:
        values, size = np.unique(data["g"], return_counts=True)
        weights = size / 150

    def spread(kind, **options):
        at = np.stack([fit.predict(rows.assign(**{name: value}), kind, draws=1, **options)["estimate"] for value in values])
        centre = weights @ at
        return np.sqrt((weights @ (at - centre) ** 2).mean())

    one = fit.importance(draws=1, rows=7).loc[name]
    np.testing.assert_allclose(one[["effect", "effect_lower", "effect_upper"]], spread("mean"))
    np.testing.assert_allclose(one[["effect_q05", "effect_q95"]], [spread("quantile", q=0.05), spread("quantile", q=0.95)], rtol=0.02)


@pytest.mark.nightly
def test_saved_and_repeated_the_same(tmp_path):
    again = nm.load(fitted().save(tmp_path / "fit.npz")).importance(draws=100, rows=20)
    pd.testing.assert_frame_equal(found(), again)
    one, other = (fitted().importance(draws=5, rows=10, rng=seed, interval=0.5) for seed in (1, 2))
    assert (one["effect"] != other["effect"]).all() and (one["use_upper"] <= found()["use_upper"]).all()


def test_computed_covariates_share_the_effect_of_their_column():
    fit = fitted("y ~ a + I(a ** 2) + a:b + C(g)")
    names = fit.model.frame.covariate_names
    columns = fit.model.frame.columns_of_covariates
    assert set(columns) == set(names) and set(columns.values()) == {("a",), ("a", "b"), ("g",)}
    effect = fit.importance(draws=5, rows=5)["effect"]
    assert effect["a"] == effect["I(a ** 2)"] != effect["a:b"] and effect.notna().all()


@pytest.mark.nightly
def test_other_kernels_use_every_covariate():
    kernel = nm.Product({"a": nm.Box(0.2), "b": nm.Box(0.2)})  # corners are out of reach
    of = fitted("y ~ a + b", kernel=kernel).importance(draws=5, rows=10)
    assert (of[COLUMNS[:6]] == 1).all().all() and of["rhat"].isna().all()
    assert np.isfinite(of[[*COLUMNS[6:], "effect_q05", "effect_q95"]]).all().all() and of["effect"]["a"] > of["effect"]["b"]
    assert fitted("y ~ a").importance(draws=5, rows=10)["use"].tolist() == [1.0]


def test_binary_and_categories():
    of = fitted("z ~ a + b", family=nm.Bernoulli()).importance(draws=5, rows=10)
    assert 0.2 < of["effect"]["a"] < 0.5 and of["effect"]["b"] < of["effect"]["a"]
    of = fitted("c ~ a + b", family=nm.Categorical()).importance(draws=5, rows=10)
    assert 0.1 < of["effect"]["a"] < 0.5 and of[["effect_q05", "effect_q95"]].isna().all().all()


def test_responses_have_effects_of_their_own():
    fit = fitted("y + b ~ a + g")
    first, same, second = (fit.importance(draws=5, rows=10, response=name) for name in (None, "y", "b"))
    pd.testing.assert_frame_equal(first, same)
    assert second["effect"]["a"] < 0.3 * first["effect"]["a"] and (second["use"] == first["use"]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"response": "x"}, "unknown response 'x'; there are 'y'"), ({"interval": 1.5}, "interval must be between 0 and 1"),
        ({"draws": 0}, "draws must be an integer of at least 1"), ({"rows": 0}, "rows must be an integer of at least 1"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        fitted().importance(**options)


def test_refusals():
    with pytest.raises(ValueError, match="importance is of covariates, and this model is a mixture"):
        fitted("y ~ 1").importance()
    little = nm.fit("y ~ a + b", table(), store="partition", **RUN | {"draws": 5, "tune": 5})
    with pytest.raises(ValueError, match=r"has no draws of .*codes.*left out by store="):
        little.importance()
    assert "Inclusion" not in little.summary().as_text()
    with pytest.raises(TypeError, match="importance"):
        fitted().importance(seed=1)


# ---- how it is shown

@pytest.mark.nightly
def test_picture():
    fit = fitted()
    axes = fit.plot("importance", draws=5)
    labels = [tick.get_text() for tick in axes[0].get_yticklabels()]
    of = fit.importance(draws=5)["effect"].sort_values(ascending=False)
    assert labels == of.index.tolist() and axes[0].get_ylim()[0] > axes[0].get_ylim()[1]
    dots = next(line for line in axes[1].get_lines() if line.get_label() == "posterior mean")
    np.testing.assert_allclose(dots.get_xdata(), of)
    assert "E[y | x]" in axes[1].get_xlabel()
    given = Figure().subplots(1, 2)
    assert fit.plot("importance", given, draws=5, interval=0.5)[1] is given[1] and given[1].get_yticklabels()[0].get_text()
    with pytest.raises(ValueError, match="ax holds 1 axes for 2 pictures"):
        fit.plot("importance", Figure().subplots(), draws=5)
    with pytest.raises(ValueError, match="unknown response 'q'"):
        fit.plot("importance", response="q")


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("y ~ 1", {}, "needs density regression, and this is a mixture"), ("y ~ g", {}, "needs two covariates or more"),
        ("y ~ a + b", {"kernel": nm.SquaredExponential(0.2)}, "needs the kernel nm.SparseProduct"),
    ],
)
def test_models_without_a_picture(formula, options, message):
    with pytest.raises(ValueError, match=f"plot 'importance' {message}"):
        plots.check(nm.Model(formula, table(), **options), "importance")


def test_summary_has_a_table_of_covariates():
    text = fitted().summary().as_text()
    (line,) = [line for line in text.splitlines() if line.startswith("Covariate  ")]
    assert line.split() == ["Covariate", "Use", "by", "rows", "5%", "95%", "Inclusion", "5%", "95%", "R-hat"]
    of = found().loc["a"]
    row = [line for line in text.splitlines() if line.split()[:2] == ["a", f"{of['use']:.2f}"]]
    assert len(row) == 1 and row[0].split()[4] == f"{of['inclusion']:.2f}" and "fit.importance()" in text
    assert "Inclusion" not in fitted("y ~ a").summary().as_text()
