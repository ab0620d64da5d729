"""Predictions of some responses given others: ratios of densities, quadrature, drawn measures, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from support.cover import by_turns

import nrmmix as nm
from nrmmix.model.families.distributions import Elliptical, Normal
from nrmmix.posterior.given import weighted_band

RUN = {"draws": 12, "tune": 30, "chains": 2, "rng": 1}
N = 40


def table():
    rng = np.random.default_rng(3)
    z = rng.integers(0, 2, N)
    a = rng.normal(4.0 * z, 1.0)
    return pd.DataFrame({
        "a": a, "b": 2.0 * a * (1 - z) - a * z + rng.normal(0, 0.5, N), "e": rng.normal(z, 0.7), "x": rng.normal(size=N),
        "k": rng.poisson(2 + 6 * z), "s": rng.random(N) < 0.2 + 0.6 * z, "c": np.where(rng.random(N) < 0.2 + 0.6 * z, "red", "blue"),
        "w1": 1 + rng.poisson(1 + 3 * z), "w2": rng.poisson(3 - 2 * z),
    })


DATA = table()
COVARIANCE = np.cov(DATA[["a", "b", "e"]].T) / 4
FAMILIES = {
    "full": nm.Gaussian(), "diagonal": nm.Gaussian("diagonal"), "known_mean": nm.Gaussian(known_mean=[1.0, 2.0, 0.0]),
    "known_covariance": nm.Gaussian(known_covariance=COVARIANCE), "known_diagonal": nm.Gaussian("diagonal", known_covariance=[1.0, 2, 1]),
    "semiconjugate": nm.SemiconjugateGaussian(), "shared": nm.SemiconjugateGaussian(shared_precision=True),
}
BLOCKS = {"a + b": nm.Gaussian(), "k": nm.Poisson(), "s": nm.Bernoulli(), "c": nm.Categorical(), "w1 + w2": nm.Multinomial()}


@pytest.fixture(scope="module")
def fits():
    found = {}

    def fit(name):
        if name not in found:
            if name in FAMILIES:
                found[name] = nm.fit("a + b + e ~ 1", DATA, family=FAMILIES[name], **RUN)
            elif name == "regression":
                found[name] = nm.fit("a + b ~ 1", DATA, family=nm.Regression("1 + x"), **RUN)
            elif name == "exposure":
                family = {"k": nm.Poisson(exposure="w1"), "a": nm.Gaussian()}
                found[name] = nm.fit("k + a ~ 1", DATA, family=family, **RUN)
            elif name == "over_x":
                found[name] = nm.fit("a + b ~ x", DATA, family=nm.Gaussian(), **RUN)
            else:
                found[name] = nm.fit("a + b + k + s + c + w1 + w2 ~ 1", DATA, family=BLOCKS, **RUN)
        return found[name]

    return fit


def ratio(fit, rows, known):
    """Of each row the joint density over that of what is known."""
    marginal = rows.assign(**{name: (None if rows[name].dtype == object else np.nan) for name in rows if name not in known})
    return np.exp(fit.log_density(rows, draws=None) - fit.log_density(marginal, draws=None)).to_numpy()


@pytest.mark.parametrize("name", by_turns(FAMILIES, 4))
def test_joint_over_marginal(fits, name):
    """The joint density of the rest is the ratio of densities; that of one response and its cdf follow from it by quadrature."""
    fit, rows = fits(name), DATA[["a", "b", "e"]].iloc[:4]
    found = fit.predict(rows, "density", given=["a"], draws=10**6)
    assert found.index.names == [None, "b", "e"]
    np.testing.assert_allclose(found["estimate"], ratio(fit, rows, ["a"]), rtol=1e-9)
    found = fit.predict(rows[["a", "e"]], "density", given=["a", "e"], at=rows["b"], draws=10**6)["estimate"].to_numpy().reshape(4, 4)
    np.testing.assert_allclose(np.diag(found), ratio(fit, rows, ["a", "e"]), rtol=1e-9)

    b = np.linspace(-100.0, 100.0, 2001)
    one = rows.iloc[[1]]
    density = fit.predict(one[["a", "e"]], "density", given=["a", "e"], at=b)["estimate"].to_numpy()
    step = b[1] - b[0]
    cumulated = np.concatenate([[0.0], np.cumsum(0.5 * step * (density[1:] + density[:-1]))])
    assert cumulated[-1] == pytest.approx(1.0, abs=1e-3)
    at = b[[980, 1003, 1020]]
    cdf = fit.predict(one[["a", "e"]], "cdf", given=["a", "e"], at=at)["estimate"]
    np.testing.assert_allclose(cdf, np.interp(at, b, cumulated), atol=1e-3)
    above = fit.predict(one[["a", "e"]], "exceedance", given=["a", "e"], at=at)["estimate"]
    np.testing.assert_allclose(above, 1 - cdf, atol=1e-12)
    mean = fit.predict(one[["a", "e"]], given=["a", "e"])["estimate"].iloc[0]
    assert mean == pytest.approx((density * b).sum() * step, abs=0.02)
    q = fit.predict(one[["a", "e"]], "quantile", given=["a", "e"], q=[0.1, 0.5])["estimate"].to_numpy()
    back = fit.predict(one[["a", "e"]], "cdf", given=["a", "e"], at=q)["estimate"]
    np.testing.assert_allclose(back, [0.1, 0.5], atol=2e-3)


def test_blocks_of_several_kinds(fits):
    fit, rows = fits("blocks"), DATA[["a", "b", "k", "s", "c", "w1", "w2"]].iloc[:5]
    for known in (["a"], ["k", "c"], ["w1", "w2", "s"], ["b", "w1", "w2"]):
        found = fit.predict(rows, "density", given=known, draws=10**6)["estimate"]
        np.testing.assert_allclose(found, ratio(fit, rows.astype({"k": float, "s": object, "c": object, "w1": float, "w2": float}), known),
                                   rtol=1e-9)
    levels = fit.predict(rows, given=["a", "b"], response="c")
    assert levels.index.get_level_values("response")[:2].tolist() == ["c[blue]", "c[red]"]
    np.testing.assert_allclose(levels["estimate"].to_numpy().reshape(-1, 2).sum(axis=1), 1.0)
    of_level = fit.predict(rows[["a", "b"]], "density", given=["a", "b"], response="c", at=["red"])["estimate"]
    np.testing.assert_allclose(of_level, levels["estimate"].iloc[1::2], rtol=1e-9)
    counts = fit.predict(rows[["a"]], "cdf", given="a", response="k", at=[0, 3, 10**6])["estimate"].to_numpy().reshape(-1, 3)
    assert (np.diff(counts, axis=1) >= 0).all() and np.allclose(counts[:, 2], 1)
    assert fit.predict(rows[["a"]], "quantile", given="a", response="k")["estimate"].mod(1).eq(0).all()
    assert fit.predict(rows[["a"]], "cluster", given="a")["probability"].between(0, 1).all()


def test_regression_of_two_responses_by_quadrature(fits):
    """The law of one given the other and the input, whose marginal kernels have no name for."""
    fit, b = fits("regression"), np.linspace(-150.0, 150.0, 6001)
    row = DATA[["x", "a"]].iloc[[2]]
    rows = pd.DataFrame({"x": row["x"].iloc[0], "a": row["a"].iloc[0], "b": b})
    joint = np.exp(fit.log_density(rows, draws=None).to_numpy())
    at = b[[1990, 2020, 2060]]
    found = fit.predict(row, "density", given="a", at=at, draws=10**6)["estimate"]
    np.testing.assert_allclose(found, joint[[1990, 2020, 2060]] / (joint.sum() * (b[1] - b[0])), rtol=1e-4)
    mean = fit.predict(row, given="a", draws=10**6)["estimate"].iloc[0]
    assert mean == pytest.approx((joint * b).sum() / joint.sum(), abs=0.01)


def test_exposures_and_covariates_count(fits):
    exposed = fits("exposure")
    new = pd.DataFrame({"a": [0.0, 0.0], "w1": [1.0, 10.0]})
    mean = exposed.predict(new, given="a", response="k")["estimate"].to_numpy()
    assert mean[1] == pytest.approx(10 * mean[0])
    fit, rows = fits("over_x"), DATA[["x", "a", "b"]].iloc[:3]
    found = fit.predict(rows, "density", given="b", draws=10**6)["estimate"]
    np.testing.assert_allclose(found, ratio(fit, rows, ["x", "b"]), rtol=1e-9)


def insist_on_the_same_apart(fit, rows, **options):
    """Estimates and bands of rows one by one are those of all together, but for the last digits: no more than sums in another order.

    Distribution functions of t distributions are read off tables where there are many points, within 1e-8.
    """
    together = fit.predict(rows, rng=4, **options)
    apart = pd.concat([fit.predict(rows.iloc[[i]], rng=4, **options) for i in range(len(rows))])
    pd.testing.assert_frame_equal(together, apart, rtol=1e-6, atol=1e-7)
    return together


KINDS = [{"kind": "mean"}, {"kind": "quantile"}, *({"kind": kind, "at": [0.0, 1.0]} for kind in ("density", "cdf", "exceedance"))]


@pytest.mark.parametrize("name", by_turns([*FAMILIES, "regression", "over_x", "blocks"], 6, 2))
def test_rows_apart_and_together_given_a_response(fits, name):
    """A row's band does not depend on the rows that are predicted beside it, one far away among them."""
    rows = DATA.iloc[:3].copy()
    rows.loc[rows.index[1], "a"] = 40.0
    rows = rows[["a", "x"] if name in ("regression", "over_x") else ["a"]]
    for options in KINDS if name in ("full", "over_x") else KINDS[:1]:
        found = insist_on_the_same_apart(fits(name), rows, given="a", response="b", draws=24, **options)
        assert found["upper"].sub(found["lower"]).gt(0).any()
    twice = fits(name).predict(rows.iloc[[0, 0]], given="a", response="b", draws=24)
    np.testing.assert_array_equal(*twice.to_numpy())


@pytest.mark.nightly
def test_rows_apart_and_together_given_counts_and_levels(fits):
    rows = DATA[["k", "c"]].iloc[:3]
    for response in ("a", "s", "w1"):
        insist_on_the_same_apart(fits("blocks"), rows, given=["k", "c"], response=response, draws=24)
    insist_on_the_same_apart(fits("blocks"), DATA[["w1", "w2"]].iloc[:3], given=["w1", "w2"], response="k", kind="quantile", draws=24)


@pytest.mark.parametrize(("formula", "family", "method"), by_turns([
    ("b ~ x", None, "auto"), ("b ~ x + e + c", None, "auto"), pytest.param("b ~ x + c", None, "vb", marks=pytest.mark.nightly),
    ("k ~ x", nm.Poisson(), "auto"),
    ("b ~ 1", nm.Regression("1 + x"), "auto"),
], 2, 1))
@pytest.mark.filterwarnings("ignore:.*components.*")
def test_rows_apart_and_together(formula, family, method):
    run = {"rng": 1} if method == "vb" else RUN
    fit, rows = nm.fit(formula, DATA, family=family, method=method, **run), DATA[["x", "e", "c"]].iloc[:3].copy()
    rows.loc[rows.index[1], "x"] = 8.0
    for options in KINDS:
        insist_on_the_same_apart(fit, rows, draws=24, **options)


def test_simulated_rows_have_the_law_of_predict(fits):
    for name, known in (("full", ["a"]), ("blocks", ["a", "w1", "w2"])):
        fit = fits(name)
        row = DATA[list(fit.model.frame.response_names)].iloc[[7]]
        drawn = fit.simulate(row, 4000, rng=2, given=known)
        assert all((drawn[one] == row[one].iloc[0]).all() for one in known)
        at = [-2.0, 0.0, 3.0]
        cdf = fit.predict(row, "cdf", given=known, response="b", at=at, draws=10**6)["estimate"].to_numpy()
        shares = np.array([(drawn["b"] <= point).mean() for point in at])
        assert (np.abs(shares - cdf) < 4.5 * np.sqrt(np.maximum(cdf * (1 - cdf), 1e-4) / 4000)).all()
    # two responses of one block are drawn together
    joint = fits("full").simulate(DATA[["e"]].iloc[[7]], 4000, rng=2, given="e")
    assert abs(np.corrcoef(joint["a"], joint["b"])[0, 1]) > 0.2


def test_elliptical_laws():
    rng = np.random.default_rng(0)
    half = rng.normal(size=(2, 3, 3))
    scale = half @ np.swapaxes(half, 1, 2)
    centre, y = rng.normal(size=(2, 3)), np.array([[0.3, np.nan, -0.4], [2.0, np.nan, 1.0]])
    b = np.linspace(-300, 300, 60001)
    for df in (np.array([3.0, 7.5]), np.full(2, np.inf)):
        log_known, laws = Elliptical(centre[None], scale[None], df).given(y)
        assert laws[0] is None and laws[2] is None and isinstance(laws[1], Normal) == np.isinf(df[0])
        for k in range(2):
            law = stats.multivariate_normal(centre[k], scale[k]) if np.isinf(df[k]) else stats.multivariate_t(centre[k], scale[k], df[k])
            for i in range(2):
                density = law.pdf(np.column_stack([np.full(len(b), y[i, 0]), b, np.full(len(b), y[i, 2])]))
                norm = density.sum() * 0.01
                assert log_known[i, k] == pytest.approx(np.log(norm), abs=1e-4)
                at = laws[1].density(np.array([0.5]))[i, k]
                assert at == pytest.approx(np.interp(0.5, b, density) / norm, rel=1e-4)


@pytest.mark.nightly
def test_band_of_a_single_component():
    """Draws of mean and precision given data and the row's known response, by importance: bands of E[b | a] and of the density."""
    rng, data = np.random.default_rng(5), DATA.loc[DATA["c"] == "red", ["a", "b"]].iloc[:12]
    family = nm.Gaussian(m=[1.0, 2.0], r=0.5, nu=4.0, scale=[[2.0, 0.3], [0.3, 3.0]])
    fit = nm.fit("a + b ~ 1", data, family=family, prior=nm.FiniteMixture(1), draws=1000, tune=5, chains=1, rng=1)
    X, a = data.to_numpy(), 7.0
    n, mean = len(X), X.mean(axis=0)
    gap = mean - [1.0, 2.0]
    psi = np.array([[2.0, 0.3], [0.3, 3.0]]) + (X - mean).T @ (X - mean) + 0.5 * n / (0.5 + n) * np.outer(gap, gap)
    S = stats.invwishart(4.0 + n, psi).rvs(40_000, random_state=rng)
    m = (n * mean + 0.5 * np.array([1.0, 2.0])) / (n + 0.5)
    mu = m + np.einsum("sij,sj->si", np.linalg.cholesky(S), rng.normal(size=(len(S), 2))) / np.sqrt(n + 0.5)
    weight = stats.norm(mu[:, 0], np.sqrt(S[:, 0, 0])).pdf(a)
    given = mu[:, 1] + S[:, 0, 1] / S[:, 0, 0] * (a - mu[:, 0])
    order = np.argsort(given)
    steps = np.cumsum(weight[order]) / weight.sum()
    exact = given[order][np.searchsorted(steps, [0.05, 0.95])]
    found = fit.predict({"a": [a]}, given="a", draws=1000, rng=2)
    band = found[["lower", "upper"]].to_numpy()[0]
    width = exact[1] - exact[0]
    assert np.abs(band - exact).max() < 0.1 * width
    assert found["estimate"].iloc[0] == pytest.approx((weight * given).sum() / weight.sum(), abs=0.03 * width)


def test_weighted_quantiles():
    values = np.random.default_rng(1).normal(size=(1000, 3))
    repeats = 4 * (values[:, 0] > 0) + 1
    lower, upper = weighted_band(values, repeats[:, None].astype(float), 0.8)
    repeated = np.repeat(values, repeats, axis=0)
    np.testing.assert_allclose(lower, np.quantile(repeated, 0.1, axis=0), atol=0.03)
    np.testing.assert_allclose(upper, np.quantile(repeated, 0.9, axis=0), atol=0.03)


def test_what_is_missing_is_nan_and_order_is_the_callers(fits):
    new = pd.DataFrame({"a": [1.0, np.nan, 3.0]}, index=pd.Index([7, "q", 7], name="id"))
    found = fits("full").predict(new, given="a", draws=5)
    assert found.index.names == ["id", "response"] and found.index.get_level_values("response")[:2].tolist() == ["b", "e"]
    assert found["estimate"].isna().tolist() == [False] * 2 + [True] * 2 + [False] * 2
    assert fits("full").simulate(new, 2, rng=1, given="a")["b"].isna().sum() == 2
    assert len(fits("full").predict(new.head(0), given="a", draws=5)) == 0
    single = fits("full").predict(new.assign(b=1.0), given=["a", "b"], draws=5)
    assert single.index.name == "id"


@pytest.mark.parametrize(("new", "options", "message"), [
    ({"a": [1.0]}, {"given": "z"}, "given: 'z' is no response; the responses are a, b, e"),
    ({"a": [1.0]}, {"given": ["a", "b", "e"]}, "given names every response"),
    ({"a": [1.0]}, {"given": []}, "given is empty"),
    ({"a": [1.0]}, {"given": ["a", "a"]}, "'a' stands twice"),
    ({"a": [1.0]}, {"given": "b"}, "newdata has no column 'b', which given names"),
    ({"a": [1.0]}, {"given": "a", "response": "a"}, "the response 'a' is given; ask for others by response=: 'b', 'e'"),
    ({"a": [1.0]}, {"given": "a", "kind": "density"}, "newdata does not hold all of b, e; give the points of the joint density"),
    ({"a": [1.0]}, {"given": "a", "kind": "cdf"}, "newdata does not hold all of b, e; give points as at=, or name one"),
    ({"a": [1.0]}, {}, "newdata holds 'a', on which this prediction would not depend: add given='a'"),
    ({"a": [1.0], "b": [2.0]}, {"response": "e", "kind": "quantile"}, r"add given=\['a', 'b'\]"),
    ({"a": [1.0]}, {"response": "e", "kind": "density"}, "add given='a'"),
    ({"a": ["much"]}, {"given": "a"}, "a"),
])
def test_what_is_refused(fits, new, options, message):
    with pytest.raises(ValueError, match=message):
        fits("full").predict(pd.DataFrame(new), **options)


def test_rows_that_hold_every_response_are_told_that_nothing_looks_at_them(fits):
    fit, rows = fits("full"), DATA[["a", "b", "e"]].iloc[:3]
    for options in ({}, {"kind": "quantile"}, {"kind": "cdf", "response": "b", "at": [0.0]}, {"kind": "density", "at": np.zeros((1, 3))}):
        with pytest.warns(UserWarning, match=r"is the same in every row: .* Take given= some of them .* or leave newdata out") as caught:
            found = fit.predict(rows, draws=5, **options)
        assert caught[0].filename == __file__ and len(found) % 3 == 0
    one = nm.fit(data=DATA["a"].to_numpy(), **RUN)
    with pytest.warns(UserWarning, match=r"that newdata holds\. Take kind=\"cluster\" or"):
        one.predict(np.zeros((2, 1)), draws=5)
    # what looks at them, and rows whose inputs tell them apart
    fit.predict(rows, "density", draws=5)
    fit.predict(rows, "cluster", draws=5)
    fits("regression").predict(DATA[["a", "b", "x"]].iloc[:3], draws=5)
    fits("over_x").predict(DATA[["a", "b", "x"]].iloc[:3], draws=5)


def test_what_blocks_refuse(fits):
    with pytest.raises(ValueError, match="w1, w2 are counts given the total of their row"):
        fits("blocks").predict({"w1": [3]}, given="w1")
    with pytest.raises(ValueError, match="'x' is no response but a column"):
        fits("over_x").predict({"x": [1.0]}, given="x")
    with pytest.raises(TypeError, match="given must be the name"):
        fits("full").predict({"a": [1.0]}, given=3)
    fits("full").predict({"a": [1.0]}, "density", response="a", draws=5)  # its own response is looked at
