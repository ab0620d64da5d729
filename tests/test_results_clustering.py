"""Clusters, memberships and parameters as tables."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy import stats
from support.cover import by_turns
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.model.families import Parameter
from nrmmix.plots.clustering import Uncertain
from nrmmix.posterior.parameters import mixed

RUN = {"draws": 60, "tune": 60, "chains": 2, "rng": 1, "progress": False}
SHORT = "ignore:.*(converge|agree|R-hat|effective|chains).*"
X = np.array([[0.1], [0.4], [2.9], [3.2]])


@pytest.fixture(scope="module")
def faithful():
    data = nm.datasets.load_faithful()
    data.index = [f"day {i}" for i in range(len(data))]
    return nm.fit("eruptions_min + waiting_min ~ 1", data, **RUN)


def fits():
    rng = np.random.default_rng(5)
    y = np.concatenate([rng.normal(-3, 1, 40), rng.normal(3, 1, 40)])
    x = np.linspace(0, 1, 80)
    counts, colours = rng.poisson(np.where(y > 0, 9, 2)), np.where(y > 0, "red", "blue")
    data = pd.DataFrame({"y": y, "z": y + rng.normal(size=80), "x": x, "n": counts, "c": colours, "h": np.where(x < 0.3, 0.0, y)})
    return {
        "full": nm.Model("y + z ~ 1", data), "diagonal": nm.Model("y + z ~ 1", data, family=nm.Gaussian("diagonal")),
        "known": nm.Model("y ~ 1", data, family=nm.Gaussian(known_covariance=1.0)),
        "semiconjugate": nm.Model("y ~ 1", data, family=nm.SemiconjugateGaussian()),
        "blocks": nm.Model("y + n + c ~ 1", data, family={"y": nm.Gaussian(), "n": nm.Poisson(), "c": nm.Categorical()}),
        "hurdle": nm.Model("h ~ 1", data, family=nm.Hurdle(nm.Gaussian())), "regression": nm.Model("y ~ x", data),
        "lines": nm.Model("y + z ~ x", data),
        "multinomial": nm.Model(data=rng.multinomial(20, [0.2, 0.3, 0.5], 30), family=nm.Multinomial()),
        "pitman_yor": nm.Model("y ~ 1", data, prior=nm.PitmanYor()), "finite": nm.Model("y ~ 1", data, prior=nm.FiniteMixture(5)),
    }


MODELS = fits()


@pytest.mark.parametrize("name", by_turns(MODELS))
@pytest.mark.filterwarnings(SHORT)
def test_tables_of_every_model(name):
    model = MODELS[name]
    fit = model.fit(**RUN)
    clusters, membership, parameters = fit.clusters(), fit.membership(), fit.parameters()
    labels = fit.partition().labels
    assert membership.to_numpy().min() >= 0 and membership.sum(axis=1).to_numpy() == pytest.approx(1.0)
    assert list(membership) == [*range(labels.max() + 1), -1]
    own = membership.to_numpy()[np.arange(len(labels)), labels]
    assert clusters["probability"].to_numpy(float) == pytest.approx(own, abs=1e-12)
    assert clusters["uncertainty"].to_numpy(float) == pytest.approx(1 - own, abs=1e-12)
    assert (clusters["cluster"] == labels).all() and clusters.index.equals(model.frame.index)
    sizes = parameters.xs("size", level="parameter")
    assert sizes["mean"].tolist() == fit.partition().sizes.tolist()
    assert ("weight" in parameters.index.levels[1]) == (not model.is_regression)
    ok = parameters.dropna()
    assert (ok["lower"] <= ok["upper"]).all() and len(ok) > 0.6 * len(parameters)
    assert not parameters[["lower", "upper"]].isna().any(axis=None)


def test_names_of_parameters():
    names = {name: list(dict.fromkeys(MODELS[name].fit("gibbs", draws=5, tune=5, chains=1, rng=1).parameters().index.levels[1]))
             for name in ("blocks", "hurdle", "lines")}
    assert {"size", "weight", "mean y", "sd y", "rate n", "probability c[blue]", "probability c[red]"} == set(names["blocks"])
    assert {"size", "weight", "probability h = 0", "mean h apart from 0", "sd h apart from 0"} == set(names["hurdle"])
    assert {"coef x of y", "coef Intercept of z", "corr y, z"} <= set(names["lines"])


def normal_gamma(rows, m, r, nu, scale):
    """Degrees of freedom, location, precision count and square of the posterior of one response."""
    n = len(rows)
    mean = rows.mean() if n else 0.0
    square = scale + ((rows - mean) ** 2).sum() + r * n / (r + n) * (mean - m) ** 2
    return nu + n, (r * m + n * mean) / (r + n), r + n, square


def predictive(y, rows, *prior):
    df, centre, count, square = normal_gamma(rows, *prior)
    return stats.t(df, centre, math.sqrt(square * (1 + 1 / count) / df)).pdf(y)


def partitions(n):
    found = {tuple(dict((v, k) for k, v in reversed([*enumerate(dict.fromkeys(p))]))[v] for v in p)
             for p in itertools.product(range(n), repeat=n)}
    return sorted(found)


@pytest.mark.nightly
@pytest.mark.filterwarnings(SHORT)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_parameters_where_cells_are_drawn(seed):
    """Those of the completed rows, with what is not known of the cells: neither gaps at a start nor medians of censored values."""
    r = np.random.default_rng(seed)
    Y = r.multivariate_normal([100, 50], [[100, 80], [80, 100]], 100)
    Y[50:] += 60
    gaps = Y.copy()
    gaps[r.random(100) < 0.3, 1] = np.nan
    run = {"draws": 150, "tune": 150, "chains": 2, "rng": seed}
    fit = nm.fit("a + b ~ 1", pd.DataFrame(gaps, columns=["a", "b"]), missing="marginalize", **run)
    found = fit.parameters().unstack("parameter").loc[:1]
    for cluster, row in found.iterrows():
        own = Y[fit.partition().labels == cluster]
        assert abs(row["mean", "mean b"] - own[:, 1].mean()) < 4 * row["sd", "mean b"] < 12
        assert row["lower", "sd b"] < own[:, 1].std() < row["upper", "sd b"] + 3 and row["mean", "corr a, b"] > 0.6
        whole = completed_by_hand(fit, cluster)
        assert row["mean", "mean b"] == pytest.approx(whole[0], abs=0.6) and row["mean", "sd b"] == pytest.approx(whole[1], rel=0.1)
    times = r.normal(3, 1, 150)
    censored = nm.fit("Surv(t, e) ~ 1", {"t": np.minimum(times, 3), "e": (times <= 3).astype(int)}, **run)
    shown = censored.parameters().loc[0].loc["sd t"]
    filled = np.quantile(censored.draws.flat("imputed"), 0.5, axis=0)
    too_narrow = np.r_[times[times <= 3], filled].std()
    assert shown["mean"] > 1.05 * too_narrow and shown["lower"] < times.std() < shown["upper"]


def test_a_mixture_of_laws_has_its_quantiles():
    """Of laws that are alike those of each, of others those of the mixture."""
    def law(mean, sd):
        return Parameter("mean y", np.array([mean]), np.array([sd]), lambda p: np.array([stats.norm.ppf(p, mean, sd)]))

    alike, apart = mixed([law(0.0, 1.0)] * 25), mixed([law(-3.0, 0.5), law(3.0, 0.5)] * 12)
    for p in (0.025, 0.05, 0.3, 0.95):
        assert alike.quantile(p)[0] == pytest.approx(stats.norm.ppf(p), abs=0.03)
    assert apart.mean[0] == pytest.approx(0.0) and apart.sd[0] == pytest.approx(np.sqrt(9.25))
    assert apart.quantile(0.05)[0] == pytest.approx(stats.norm.ppf(0.1, -3.0, 0.5), abs=0.05)


def completed_by_hand(fit, cluster):
    """Mean and standard deviation of b over the members, averaged over draws of the gaps."""
    members, y = fit.partition().labels == cluster, fit.model.frame.response
    found = []
    for cells in fit.draws.flat("imputed")[::10]:
        whole = y.copy()
        whole[np.isnan(y)] = cells
        found.append((whole[members, 1].mean(), whole[members, 1].std()))
    return np.mean(found, axis=0)


def test_membership_is_that_of_all_partitions():
    """Every partition of four rows with its posterior probability; a cluster counts for those of the estimate by its members."""
    prior, mass = (1.5, 0.2, 3.0, 1.0), 1.0
    model = nm.Model(data=X, family=nm.Gaussian(m=prior[0], r=prior[1], nu=prior[2], scale=prior[3]), prior=nm.DirichletProcess(mass))
    fit = model.fit("gibbs", draws=by_day(20_000), tune=200, chains=2, rng=3, progress=False)
    estimate = fit.partition().labels
    C, new = int(estimate.max()) + 1, np.array([0.0, 3.0, 1.5, 40.0])
    own, of_new, total = np.zeros((4, C + 1)), np.zeros((4, C + 1)), np.zeros(4)
    evidence = 0.0
    for p in partitions(4):
        p = np.array(p)
        weight = 1.0
        for i in range(4):  # the urn, row by row
            before = X[:i][p[:i] == p[i], 0]
            weight *= (len(before) or mass) / (i + mass) * predictive(X[i, 0], before, *prior)
        evidence += weight
        for i in range(4):
            others = np.flatnonzero((p == p[i]) & (np.arange(4) != i))
            if len(others):
                own[i, :C] += weight * np.bincount(estimate[others], minlength=C) / len(others)
            else:
                own[i, estimate[i] if (estimate == estimate[i]).sum() == 1 else C] += weight
        for k in range(p.max() + 1):
            members = np.flatnonzero(p == k)
            density = weight * len(members) / (4 + mass) * predictive(new, X[members, 0], *prior)
            of_new[:, :C] += density[:, None] * np.bincount(estimate[members], minlength=C) / len(members)
            total += density
        density = weight * mass / (4 + mass) * predictive(new, np.zeros(0), *prior)
        of_new[:, C] += density
        total += density
    assert fit.membership(draws=2 * by_day(20_000)).to_numpy() == pytest.approx(own / evidence, abs=coarser(0.02))
    found = fit.membership(new[:, None], draws=2 * by_day(20_000))
    assert found.to_numpy() == pytest.approx(of_new / total[:, None], abs=coarser(0.02))
    assert found.to_numpy()[3, -1] > 0.9


def test_membership_of_new_rows(faithful):
    rows = nm.datasets.load_faithful().head(5)
    found, same = faithful.membership(rows), faithful.predict(rows, kind="membership")
    pd.testing.assert_frame_equal(found, same)
    most = faithful.predict(rows, kind="cluster")
    assert (found.idxmax(axis=1) == most["cluster"]).all()
    assert most["probability"].to_numpy(float) == pytest.approx(found.max(axis=1).to_numpy())
    far = faithful.membership({"eruptions_min": [1e6, -1e9], "waiting_min": [50.0, 1e9]})
    assert far.sum(axis=1).tolist() == pytest.approx([1.0, 1.0]) and not far.isna().any(axis=None)
    given = faithful.predict({"eruptions_min": [2.0, 4.5]}, kind="membership", given="eruptions_min")
    assert given.sum(axis=1).to_numpy() == pytest.approx(1.0)
    with pytest.raises(ValueError, match='kind="membership" needs the responses of the rows'):
        faithful.membership({"other": [1.0]})


@pytest.mark.parametrize("method", ["ibhc", "vb", "memoized_vb"])
def test_searches_and_variational_fits(method, tmp_path):
    data = nm.datasets.load_faithful()
    fit = nm.fit("eruptions_min + waiting_min ~ 1", data, method=method, rng=1)
    membership, parameters = fit.membership(), fit.parameters()
    assert membership.sum(axis=1).to_numpy() == pytest.approx(1.0)
    labels = fit.partition().labels
    assert fit.clusters()["probability"].to_numpy(float) == pytest.approx(membership.to_numpy()[np.arange(272), labels], abs=1e-9)
    mean = parameters["mean"].unstack()
    for k in (0, 1):
        assert mean.loc[k, "mean waiting_min"] == pytest.approx(data["waiting_min"][labels == k].mean(), abs=0.2)
    assert mean["weight"].sum() == pytest.approx(1.0, abs=0.03)
    path = fit.membership(data.head(3), out=tmp_path / "rows.parquet")
    assert list(pd.read_parquet(path)) == ["row", *map(str, range(labels.max() + 1)), "-1"]


def test_rows_that_are_not_in_memory(tmp_path):
    data = nm.datasets.load_faithful()
    data.to_parquet(tmp_path / "rows.parquet")
    fit = nm.fit("eruptions_min + waiting_min ~ 1", tmp_path / "rows.parquet", method="memoized_vb", rng=1)
    same = nm.fit("eruptions_min + waiting_min ~ 1", data, method="memoized_vb", rng=1)
    assert fit.membership().to_numpy() == pytest.approx(same.membership().to_numpy(), abs=1e-3)
    assert list(fit.clusters()) == ["cluster", "probability", "uncertainty"]
    ours, theirs = fit.parameters()["mean"].unstack(), same.parameters()["mean"].unstack()
    assert ours["mean waiting_min"].to_numpy() == pytest.approx(theirs["mean waiting_min"].to_numpy(), abs=0.1)


def test_partition_keeps_the_index(faithful):
    found = faithful.partition()
    assert found.to_series().index.tolist() == [f"day {i}" for i in range(272)] and found.to_series().name == "cluster"
    assert "<table" in found._repr_html_() and "expected vi loss" in found._repr_html_()


@pytest.mark.filterwarnings(SHORT)
def test_pictures_of_uncertainty(faithful):
    ax = Figure().subplots()
    faithful.plot("uncertainty", ax)
    sizes = [len(one.get_offsets()) for one in ax.collections]
    ends = [text.get_text().removeprefix("uncertainty ") for text in ax.get_legend().get_texts()]
    assert sum(sizes) == 272 and sizes[2] <= 14 and sizes[0] >= 204 and len({*ends}) == len(ends) == np.count_nonzero(sizes)
    alike = Uncertain(np.zeros(20, np.int64), 1.0 - np.repeat([0.0, 0.017, 0.0171], [16, 3, 1]))
    assert [one.get_label() for one in alike.handles(ax)] == ["uncertainty up to 0", "up to 0.017"]
    one = MODELS["pitman_yor"].fit(**RUN)
    assert one.plot("uncertainty", Figure().subplots()).get_ylabel() == "uncertainty"
    assert MODELS["regression"].fit(**RUN).plot("uncertainty", Figure().subplots()).get_xlabel() == "x"
