"""Predictions: marginals of several responses, clusters of rows, their tables and their errors."""

from __future__ import annotations

import naive
import numpy as np
import pandas as pd
import pytest

import nrmmix as nm
from nrmmix.model import replicates as of_rows
from nrmmix.posterior.partition import Partition
from nrmmix.posterior.predict.rows import CovariateWeights, prediction_rows
from nrmmix.posterior.predict.states import states_of

RUN = {"draws": 20, "tune": 60, "chains": 2, "rng": 1}


@pytest.fixture(scope="module")
def data():
    """Two responses of very different scales, and a covariate."""
    rng = np.random.default_rng(7)
    x = rng.uniform(0, 10, 60).round(1)
    low = np.where(rng.random(60) < 0.5, 3.0, -1.0) + 0.3 * rng.normal(size=60)
    return pd.DataFrame({"x": x, "small": low, "large": 5000 + 900 * x + 400 * low + 300 * rng.normal(size=60)})


def fixed(data):
    return nm.Gaussian(scale=np.diag(0.06 * data[["small", "large"]].var()))


@pytest.fixture(scope="module")
def mixture(data):
    return nm.fit("small + large ~ 1", data, prior=nm.NGGP(), family=fixed(data), **RUN)


@pytest.fixture(scope="module")
def regression(data):
    return nm.fit("small + large ~ x", data, family=fixed(data), **RUN)


@pytest.fixture(scope="module")
def box(data):
    return nm.fit("small + large ~ x", data, prior=nm.NGGP(1.0, 0.3), kernel=nm.Box(0.3), **RUN)


NEW = pd.DataFrame({"x": [2.0, 7.5]}, index=["a", "b"])


# ---- marginals


@pytest.mark.parametrize("which", ["mixture", "regression", "box"])
def test_marginal_is_the_integral_of_the_joint(which, request):
    """Estimates and, draw by draw of the random measure, the bands."""
    fit = request.getfixturevalue(which)
    other = np.linspace(-30_000, 60_000, 1801)
    at = np.array([-1.0, 1.0, 3.2])
    points = np.column_stack([np.repeat(at, len(other)), np.tile(other, 3)])
    # with one draw lower and upper both are that draw's random density
    joint = fit.predict(NEW, "density", at=points, draws=1, rng=3).to_numpy().reshape(2, 3, len(other), 3)
    marginal = fit.predict(NEW, "density", at=at, draws=1, rng=3, response="small")
    np.testing.assert_allclose(np.trapezoid(joint, other, axis=2).reshape(-1, 3), marginal, rtol=2e-3)
    assert (marginal["lower"] == marginal["upper"]).all()
    assert not np.allclose(marginal["lower"], marginal["estimate"], rtol=1e-3)


def test_cdf_and_quantiles_are_those_of_the_marginal_density(regression):
    grid = np.linspace(-40, 40, 20_001)
    density = regression.predict(NEW, "density", at=grid, draws=10, response="small")["estimate"].to_numpy().reshape(2, -1)
    cdf = regression.predict(NEW, "cdf", at=grid, draws=10, response="small")["estimate"].to_numpy().reshape(2, -1)
    steps = np.cumsum((density[:, 1:] + density[:, :-1]) / 2, axis=1) * (grid[1] - grid[0])
    np.testing.assert_allclose(cdf[:, 1:] - cdf[:, :1], steps, atol=1e-5)
    q = [0.05, 0.5, 0.9]
    quantile = regression.predict(NEW, "quantile", q=q, draws=10, response="small")["estimate"].to_numpy().reshape(2, -1)
    for row in range(2):
        np.testing.assert_allclose(quantile[row], np.interp(q, cdf[row], grid), atol=0.01)


def test_marginal_equals_the_model_of_one_response(data):
    """Data in one cluster: the marginal of a normal-Wishart component is that with d - 1 degrees of freedom less."""
    run = {"method": "gibbs", "init": "one", "draws": 1, "tune": 0, "chains": 1, "rng": 1}
    scale = np.array([[0.5, 20.0], [20.0, 4e6]])
    prior = nm.DirichletProcess(1e-9)
    both = nm.Model(data=data[["small", "large"]], prior=prior, family=nm.Gaussian(m=[0, 8000], r=0.1, nu=4, scale=scale)).fit(**run)
    one = nm.Model(data=data[["large"]], prior=prior, family=nm.Gaussian(m=8000, r=0.1, nu=3, scale=4e6)).fit(**run)
    at = [-2000.0, 9000.0, 21_000.0]
    for kind in ("density", "cdf"):
        found, wanted = both.predict(kind=kind, at=at, response="large"), one.predict(kind=kind, at=at)
        np.testing.assert_allclose(found["estimate"], wanted["estimate"], rtol=1e-6)
    found, wanted = both.predict(kind="quantile", response="large"), one.predict(kind="quantile")
    np.testing.assert_allclose(found["estimate"], wanted["estimate"], rtol=1e-6)


def test_quantiles_follow_the_units_of_each_response(data):
    rescaled = nm.fit("small + large ~ 1", data * [1.0, 1e-9, 1e6], prior=nm.NGGP(), **RUN)
    usual = nm.fit("small + large ~ 1", data, prior=nm.NGGP(), **RUN)
    a, b = (fit.predict(kind="quantile", draws=10).to_numpy().reshape(2, 3, 3) for fit in (usual, rescaled))
    np.testing.assert_allclose(a[0], b[0] / 1e-9, rtol=1e-6)
    np.testing.assert_allclose(a[1], b[1] / 1e6, rtol=1e-6)


# ---- their tables


def test_points_of_several_responses_are_read_by_name(mixture):
    array = mixture.predict(kind="density", at=[[0.5, 9000.0]], draws=5)
    named = {"large": 9000.0, "small": 0.5}
    for at in (pd.DataFrame([named]), named, pd.Series(named)):
        pd.testing.assert_frame_equal(mixture.predict(kind="density", at=at, draws=5), array)
    swapped = mixture.predict(kind="cdf", at=pd.DataFrame({"large": [9000.0, 9100.0], "other": 1, "small": [0.5, 0.6]}), draws=5)
    assert list(swapped.index) == [("small", 0.5), ("small", 0.6), ("large", 9000.0), ("large", 9100.0)]
    assert len(mixture.predict(kind="density", at=pd.DataFrame([[0.5, 9000.0]]), draws=5)) == 1  # columns without names
    with pytest.raises(ValueError, match="at has no column 'large', but 'small', 'big'; it needs one for each response"):
        mixture.predict(kind="density", at=pd.DataFrame({"small": [0.5], "big": [9000.0]}))
    with pytest.raises(ValueError, match="at has several columns 'small'"):
        mixture.predict(kind="density", at=pd.DataFrame([[0.5, 1.0, 9000.0]], columns=["small", "small", "large"]))


def test_an_index_with_the_name_of_a_level(mixture):
    """The levels of a table become columns: no two have one name."""
    rows = pd.DataFrame({"small": [0.0, 1.0], "large": [5.0, 6.0]}, index=pd.Index(["a", "b"], name="q"))
    table = mixture.predict(rows, "quantile", q=[0.1, 0.9]).reset_index()
    assert {"q of the row", "q"} <= set(table.columns) and sorted(set(table["q of the row"])) == ["a", "b"]


def test_contrasts_of_no_such_kind(regression):
    with pytest.raises(ValueError, match=r"not of 'cluster'\.$"):
        regression.contrasts({"x": [0.5, 2.0]}, "cluster")
    with pytest.raises(ValueError, match=r"did you mean 'quantile'\?$"):
        regression.contrasts({"x": [0.5, 2.0]}, "quantil")


@pytest.mark.parametrize(("kind", "options"), [("mean", {}), ("quantile", {"q": [0.1, 0.9]}), ("cdf", {"at": [1.0], "response": "small"})])
def test_contrasts_with_a_missing_value_are_missing(regression, kind, options):
    """And the others are what they are without it."""
    values = [2.0, 4.0, 7.5]
    whole = regression.contrasts({"x": values}, kind, rng=1, **options)
    table = regression.contrasts({"x": [np.nan, *values]}, kind, rng=1, **options)
    lacks = table.index.get_level_values("contrast").str.contains("nan")
    assert lacks.sum() == len(whole) and table[lacks].isna().all(axis=None)
    pd.testing.assert_frame_equal(table[~lacks], whole)
    assert regression.contrasts({"x": [2.0, None]}, kind, rng=1, **options).isna().all(axis=None)


def test_contrasts_at_a_missing_value_of_another_column(data):
    fit = nm.fit("small ~ x + g", data.assign(g=list("ab") * 30), draws=5, tune=5, chains=1, rng=1)
    assert fit.contrasts({"x": [1.0, 3.0], "g": None}).isna().all(axis=None)
    assert fit.contrasts({"g": ["a", None, "b"]}, rng=1)["estimate"].notna().tolist() == [False, True, False]


def test_probabilities_belong_to_quantiles(mixture, regression):
    with pytest.raises(ValueError, match="q belongs to kind=\"quantile\", not to 'mean'"):
        regression.predict(NEW, q=0.5)
    with pytest.raises(ValueError, match="not to 'cdf'"):
        mixture.predict(kind="cdf", q=[0.1, 0.9])
    with pytest.raises(ValueError, match="not to 'mean'"):
        regression.contrasts({regression.model.frame.covariate_names[0]: [0.0, 1.0]}, q=0.5)


def test_levels_of_several_responses(mixture, regression):
    both = ["small", "large"]
    table = mixture.predict(kind="cdf", at=[[0.0, 9000.0], [1.0, 9500.0]], draws=5)
    assert table.index.names == ["response", "y"]
    assert list(table.index) == [("small", 0.0), ("small", 1.0), ("large", 9000.0), ("large", 9500.0)]
    table = mixture.predict(kind="quantile", q=[0.2, 0.8], draws=5)
    assert list(table.index) == [("small", 0.2), ("small", 0.8), ("large", 0.2), ("large", 0.8)]
    assert mixture.predict(kind="quantile", response="large", q=0.5, draws=5).index.equals(pd.Index([0.5], name="q"))
    assert mixture.predict(kind="density", response="large", at=[9000.0], draws=5).index.equals(pd.Index([9000.0], name="y"))
    table = mixture.predict(kind="density", response=["large"], at=[[9000.0]], draws=5)
    assert list(table.index) == [("large", 9000.0)] and table.index.names == ["response", "y"]
    assert mixture.predict(kind="density", draws=5).index.names == [None, "small", "large"]

    table = regression.predict(NEW, "quantile", q=[0.2, 0.8], draws=5)
    assert table.index.names == [None, "response", "q"]
    own = [("small", 0.2), ("small", 0.8), ("large", 0.2), ("large", 0.8)]
    assert list(table.index) == [(row, *level) for row in "ab" for level in own]
    turned = regression.predict(NEW, "quantile", q=[0.2, 0.8], draws=5, response=both[::-1])
    pd.testing.assert_frame_equal(turned.loc[list(table.index)], table)


def test_grids_cover_each_response(mixture, data):
    table = mixture.predict({"z": [1]}, "cdf", draws=5)  # no responses there
    assert len(table) == 200 and table.index.names == [None, "response", "y"]
    for name in ("small", "large"):
        y = table.xs(name, level="response").index.get_level_values("y")
        assert y[0] < data[name].min() < data[name].max() < y[-1]
    assert len(mixture.predict({"z": [1]}, "density", draws=5, response="large")) == 100


def test_means_of_chosen_responses(regression):
    both = regression.predict(NEW, draws=10)
    large = regression.predict(NEW, draws=10, response="large")
    assert large.index.equals(NEW.index)
    np.testing.assert_array_equal(large, both.xs("large", level="response"))
    pd.testing.assert_frame_equal(regression.predict(NEW, draws=10, response=["large"]), both.loc[(slice(None), ["large"]), :])


def test_rows_with_their_own_responses(regression):
    """The same as at points; what is missing is NaN, response by response."""
    index = pd.MultiIndex.from_tuples([("u", 1), ("u", 2), ("v", 1)], names=["run", "step"])
    new = pd.DataFrame({"x": [2.0, np.nan, 7.5], "small": [0.5, 0.5, np.nan], "large": [9000.0, 9000.0, 9900.0]}, index=index)
    for kind in ("density", "cdf"):
        table = regression.predict(new, kind, draws=10, response=["small", "large"])
        assert table.index.names == ["run", "step", "response", "y"] and len(table) == 6
        assert np.isnan(table.to_numpy()).any(axis=1).tolist() == [False, False, True, True, True, False]
        points = regression.predict(NEW, kind, at=[[0.5, 9000.0], [0.0, 9900.0]], draws=10, response=["small", "large"]).to_numpy()
        np.testing.assert_allclose(table.to_numpy()[[0, 1, 5]], points[[0, 2, 7]], rtol=1e-9)
    one = regression.predict(new, "cdf", draws=10, response="large")
    np.testing.assert_array_equal(one, table.xs("large", level="response"))
    joint = regression.predict(new, "density", draws=10)
    assert joint.index.names == ["run", "step", "small", "large"]
    assert np.isnan(joint.to_numpy()).all(axis=1).tolist() == [False, True, False]
    of_large = regression.predict(new, "density", draws=10, response="large")
    np.testing.assert_allclose(joint.to_numpy()[2], of_large.to_numpy()[2], rtol=1e-9)  # the density of what is observed


def test_one_response_may_be_named(data):
    fit = nm.fit("small ~ x", data, **RUN)
    for kind in ("mean", "density", "cdf", "quantile"):
        pd.testing.assert_frame_equal(fit.predict(NEW, kind, draws=5, response="small"), fit.predict(NEW, kind, draws=5))
    assert fit.predict(NEW, "density", draws=5, response=["small"]).index.names == [None, "response", "y"]


def test_empty_new_data(regression):
    for kind in ("mean", "density", "cdf", "quantile", "cluster"):
        assert len(regression.predict(pd.DataFrame({"x": [], "small": [], "large": []}), kind, draws=5)) == 0
    assert len(regression.predict(pd.DataFrame({"x": []}), "cdf", draws=5)) == 0


@pytest.mark.parametrize("which", ["mixture", "regression"])
def test_predictions_do_not_depend_on_the_memory(which, request, monkeypatch):
    fit = request.getfixturevalue(which)
    new = pd.DataFrame({"x": [2.0, 7.5, 2.0, 4.0], "small": [0.5, 1.0, 3.0, 2.0], "large": 9000.0})

    def everything():
        tables = [fit.predict(new, kind, draws=7).to_numpy(dtype=float) for kind in ("mean", "density", "cdf", "quantile", "cluster")]
        return [*tables, fit.predict(new, "cdf", at=[[0, 8000]], draws=7), fit.log_density(new)]

    whole = everything()
    monkeypatch.setattr(of_rows, "MEMORY", 1)
    for a, b in zip(whole, everything()):
        np.testing.assert_allclose(a, b, rtol=1e-9)


# ---- clusters


@pytest.mark.parametrize("which", ["mixture", "regression"])
def test_clusters_against_a_naive_reference(which, request, data):
    """Row by row and draw by draw from the definition."""
    fit = request.getfixturevalue(which)
    estimate, draws = fit.partition().labels, 6
    new = pd.DataFrame({"x": [1.0, 9.0, 5.0], "small": [3.0, 1.0, 60.0], "large": [9000.0, 12_000.0, -8e6]})
    X, family = data[["small", "large"]].to_numpy(), fit.model.family
    base = naive.Base(family.m, family.r, family.nu, family.scale)
    states, rows = states_of(fit.posterior, draws), prediction_rows(fit.model, new)
    covariates = CovariateWeights(fit.model, rows)
    total = np.zeros((3, estimate.max() + 2))
    own = np.zeros(len(X))
    for labels, state in zip(states.partitions(), states, strict=True):
        weights = state.weights(covariates)
        for i in range(len(X)):
            others = (labels == labels[i]) & (np.arange(len(X)) != i)
            alone = (estimate == estimate[i]).sum() == 1
            own[i] += ((estimate[others] == estimate[i]).mean() if others.any() else float(alone)) / draws
        for i, y in enumerate(new[["small", "large"]].to_numpy()):
            members = [X[labels == k] for k in range(labels.max() + 1)] + [X[:0]]
            p = weights[rows.row[i]] * np.exp([naive.log_predictive(y, inside, base) for inside in members])
            total[i, -1] += p[-1]
            for k in range(labels.max() + 1):
                for c in range(estimate.max() + 1):
                    total[i, c] += p[k] * (estimate[labels == k] == c).mean()
    total /= total.sum(axis=1, keepdims=True)
    found = fit.predict(new, "cluster", draws=draws)
    np.testing.assert_allclose(found["probability"], total.max(axis=1), rtol=1e-6)
    wanted = total.argmax(axis=1)
    assert found["cluster"].tolist() == np.where(wanted == total.shape[1] - 1, -1, wanted).tolist()
    assert found["cluster"].iloc[2] == -1

    table = fit.predict(kind="cluster", draws=draws)
    assert table["cluster"].tolist() == estimate.tolist() and table.index.equals(data.index)
    np.testing.assert_allclose(table["probability"], own)


def test_clusters_of_certain_draws(data):
    """One partition in all draws: probabilities 0 and 1, whatever the estimate calls the clusters."""
    fit = nm.fit("small + large ~ 1", data, prior=nm.DirichletProcess(1.0), init="each", draws=1, tune=0, chains=1, rng=1)
    labels = fit.draws["labels"][0, 0].astype(np.int64)
    renamed = (labels + 1) % (labels.max() + 1)
    fit.partition = lambda: Partition(renamed, "vi", 0.0, labels[None, :])
    table = fit.predict(kind="cluster")
    np.testing.assert_array_equal(table["cluster"], renamed)
    np.testing.assert_array_equal(table["probability"], 1.0)


def test_clusters_of_rows_with_missing_values(regression):
    new = pd.DataFrame({"x": [2.0, np.nan, 4.0], "small": [3.0, 3.0, np.nan], "large": 9000.0}, index=list("pqr"))
    table = regression.predict(new, "cluster", draws=10)
    assert str(table["cluster"].dtype) == "Int64" and table.index.equals(new.index)
    assert table["cluster"].isna().tolist() == [False, True, False] and table["probability"].isna().tolist() == [False, True, False]
    nothing = regression.predict(new.assign(small=np.nan, large=np.nan), "cluster", draws=10)
    assert nothing["cluster"].isna().all() and nothing["probability"].isna().all()
    assert str(regression.predict(kind="cluster")["cluster"].dtype) == "Int64"


# ---- errors


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"response": "smal"}, ValueError, "unknown response 'smal'; the responses are small, large; did you mean 'small'"),
        ({"response": ["small", "small"]}, ValueError, "'small' stands twice"),
        ({"response": []}, ValueError, "response is empty"),
        ({"response": 3}, TypeError, "name of a response or a sequence of names, not 3"),
        ({"response": "small", "kind": "cluster"}, ValueError, "leave response= out"),
        ({"kind": "cluster", "at": [1.0]}, ValueError, "a cluster has no points"),
        ({"kind": "clusters"}, ValueError, "did you mean 'cluster'"),
        ({"kind": "cdf", "at": [1.0, 2.0, 3.0]}, ValueError, r"at must have shape \(m, 2\)"),
        ({"kind": "density", "response": "large", "at": [[1.0, 2.0]]}, ValueError, r"at must have shape \(m,\)"),
    ],
)
def test_errors(mixture, options, error, text):
    with pytest.raises(error, match=text):
        mixture.predict(**options)


def test_errors_name_the_columns_that_are_not_there(regression, box):
    with pytest.raises(ValueError, match=r"newdata has no large; kind=.cluster. needs the responses"):
        regression.predict({"x": [1.0], "small": [1.0]}, "cluster")
    with pytest.raises(ValueError, match="newdata has no small, large; give the points of the joint density as at="):
        regression.predict(NEW, "density")
    with pytest.raises(ValueError, match="newdata has no large; log_density"):
        regression.log_density({"x": [1.0], "small": [1.0]})
    for kind in ("mean", "cdf", "cluster"):
        with pytest.raises(ValueError, match=r"row 1 \(x = 99\) is out of reach"):
            box.predict({"x": [1.0, 99.0], "small": [1.0, 1.0], "large": [1.0, 1.0]}, kind)


def test_a_marginal_needs_only_its_own_response(regression, data):
    whole = pd.DataFrame({"x": [2.0, 7.5], "small": [1.0, 3.0], "large": [9000.0, 12_000.0]})
    for kind in ("density", "cdf"):
        found = regression.predict(whole[["x", "small"]], kind, response="small", draws=9)
        assert found.index.get_level_values("y").tolist() == [1.0, 3.0]
        pd.testing.assert_frame_equal(found, regression.predict(whole, kind, response="small", draws=9))
    assert len(regression.predict(whole[["x", "small"]], "cdf", response="large", draws=9)) > 2  # a grid


@pytest.mark.filterwarnings("ignore:.*quartile ranges away:UserWarning")
@pytest.mark.parametrize("case", ["skewed", "outlier", "regression"])
def test_quantiles_are_where_the_cdf_says(case):
    """Whatever the scales: log-normal data, one value a thousand times too large, narrow and wide responses side by side."""
    rng = np.random.default_rng(0)
    if case == "skewed":
        fit, new = nm.fit("y ~ 1", {"y": np.exp(rng.normal(0, 2, 400))}, **RUN), None
    elif case == "outlier":
        data = nm.datasets.load_faithful()[["waiting_min"]]
        data.iloc[3] = 71_000.0
        fit, new = nm.fit("waiting_min ~ 1", data, family=nm.Gaussian(m=70, r=0.01, nu=2, scale=8), **RUN), None
    else:
        x = np.arange(60) % 2
        table = {"y": rng.normal(size=60) * np.where(x, 1e3, 1e-2), "x": x}
        fit, new = nm.fit("y ~ x", table, family=nm.Gaussian(), **RUN), pd.DataFrame({"x": [0, 1]})
    q = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99]
    found = fit.predict(new, "quantile", q=q, draws=40)["estimate"].to_numpy().reshape(-1, len(q))
    for i, at in enumerate(found):
        row = None if new is None else new.iloc[[i]]
        np.testing.assert_allclose(fit.predict(row, "cdf", at=at, draws=40)["estimate"], q, atol=1e-3)
