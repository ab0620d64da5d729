"""Gaussian components of tied covariance; exactness of their samplers is in tests/exact/test_tied.py."""

from __future__ import annotations

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import nrmmix as nm
from nrmmix.inference.mcmc import cuts
from nrmmix.plots.kinds import KINDS

RNG = np.random.default_rng(4)
SIGMA = np.array([[1.0, 0.6], [0.6, 0.8]])
Z = np.repeat([0, 1, 2], [30, 40, 20])
Y = np.array([[0.0, 0.0], [7.0, 1.0], [0.0, 8.0]])[Z] + RNG.multivariate_normal(np.zeros(2), SIGMA, len(Z))
TABLE = pd.DataFrame(Y, columns=["a", "b"]).assign(x=Z + RNG.normal(0, 0.1, len(Z)), c=RNG.normal(size=len(Z)), d=RNG.normal(size=len(Z)))
RUN = {"draws": 40, "tune": 40, "chains": 2, "rng": 1}
TIED = nm.Gaussian("tied")


@pytest.fixture(scope="module")
def fit():
    return nm.fit("a + b ~ 1", TABLE, family="tied", draws=100, tune=100, chains=2, rng=1)


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("method", ["gibbs", "split_merge", "tree", "slice", "permutation", "bhc", "ibhc"])
def test_groups_are_found_by_every_method(method):
    found = nm.fit("a + b ~ 1", TABLE, family=TIED, method=method, rng=1, **({} if "bhc" in method else {"draws": 40, "tune": 60}))
    labels = found.partition().labels if "bhc" not in method else found.labels
    assert pd.crosstab(labels, Z).to_numpy().max(axis=0).sum() >= len(Z) - 2
    drawn = found.draws["covariance"].reshape(-1, 3).mean(axis=0)
    assert np.abs(drawn - [1.0, 0.6, 0.8]).max() < (0.8 if "bhc" in method else 0.5)


@pytest.mark.filterwarnings("ignore:.*")
@pytest.mark.parametrize("d", [1, 5, pytest.param(12, marks=pytest.mark.nightly)])
def test_one_lump_is_one_cluster(d):
    y = np.random.default_rng(d).normal(size=(120, d)) @ np.random.default_rng(1).normal(size=(d, d))
    found = nm.fit(None, y, family=TIED, draws=100, tune=150, chains=2, rng=1)
    assert found.partition().n_clusters == 1 and nm.fit(None, y, family=TIED, method="ibhc", rng=1).n_clusters == 1


def test_starts_are_cuts_of_a_tree():
    one, other = cuts.spread(nm.Model("a + b ~ 1", TABLE, family=TIED), 3)[:2]
    assert (pd.crosstab(one[0], Z).to_numpy() > 0).sum() == 3 and other[0].max() == 6
    many = np.arange(3600) % 3  # more than the tree has
    rows = np.array([[0.0, 0.0], [9.0, 1.0], [0.0, 9.0]])[many] + RNG.multivariate_normal(np.zeros(2), SIGMA, 3600)
    assert (pd.crosstab(cuts.best_cuts(nm.Model(data=rows, family=TIED))[0], many).to_numpy() > 0).sum() == 3
    assert cuts.best_cuts(nm.Model(data=Y[:2], family=nm.Gaussian("tied", scale=SIGMA)))[0].shape == (2,)
    assert cuts.spread(nm.Model(data=Y), 2) is None
    few = nm.Model(data=Y, family=TIED, prior=nm.FiniteMixture(2))
    assert max(labels.max() for labels, _ in cuts.spread(few, 2)) == 1


def test_defaults_follow_the_units():
    one, other = (nm.Model(data=data, family=TIED) for data in (Y, 1000.0 * Y - 3.0))
    np.testing.assert_allclose(other.family.scale, 1e6 * one.family.scale)
    assert one.family.nu == 3.0 and one.family.r == 0.01
    np.testing.assert_allclose(one.family.scale, 0.02 * 3.0 * np.diag(Y.var(axis=0, ddof=1)))
    fits = [nm.fit(None, data, family=TIED, **RUN) for data in (Y, 1024.0 * Y)]
    np.testing.assert_array_equal(fits[0].draws["labels"], fits[1].draws["labels"])
    np.testing.assert_allclose(fits[1].draws["covariance"], 1024.0**2 * fits[0].draws["covariance"])


def test_parameters_are_those_of_the_definition(fit):
    """Given the partition Sigma is inverse Wishart: a mean is t, a variance inverse gamma, both by all rows."""
    family, labels = fit.model.family, fit.partition().labels
    psi = family.scale.copy()
    for k in range(3):
        z = Y[labels == k] - family.m
        psi += z.T @ z - np.outer(z.sum(axis=0), z.sum(axis=0)) / (family.r + len(z))
    nu = family.nu + len(Y)
    table = fit.parameters(interval=0.9)
    law = stats.invgamma((nu - 1) / 2, scale=psi[1, 1] / 2)
    for k in range(3):
        own = table.loc[k]
        n = own.loc["size", "mean"]
        assert own.loc["sd b", "lower"] == pytest.approx(np.sqrt(law.ppf(0.05)))
        rows = Y[labels == k] if (labels == k).sum() == n else None
        mean = (rows[:, 0].sum() + family.r * family.m[0]) / (family.r + n)
        of_mean = stats.t(nu - 1, mean, np.sqrt(psi[0, 0] / ((nu - 1) * (family.r + n))))
        assert own.loc["mean a", "mean"] == pytest.approx(mean) and own.loc["mean a", "upper"] == pytest.approx(of_mean.ppf(0.95))
        assert abs(own.loc["corr a, b", "mean"] - psi[0, 1] / np.sqrt(psi[0, 0] * psi[1, 1])) < 0.01


def test_predictions_agree_with_one_another(fit):
    new = TABLE[["a", "b"]].iloc[[0, 40]]
    joint = fit.log_density(new)
    marginal = fit.log_density(new.assign(b=np.nan))
    assert np.isfinite(joint).all() and (joint < marginal).all()
    simulated = fit.simulate(new.iloc[[0]], 400, rng=1).to_numpy()
    assert np.allclose(simulated.mean(axis=0), Y.mean(axis=0), atol=0.5)
    given = fit.predict(new[["a"]].iloc[[1]], "quantile", given=["a"], q=[0.5])["estimate"].to_numpy()
    assert abs(given[0] - (1.0 + 0.6 * (new["a"].iloc[1] - 7.0))) < 0.6
    kept = [fit.predict(new, kind="mean", draws=40)["estimate"].to_numpy(), fit.simulate(new, 2, rng=3).to_numpy()]
    assert all(np.isfinite(values).all() for values in kept)


@pytest.mark.nightly
def test_pictures(fit):
    kinds = [kind for kind, one in KINDS.items() if one.refusal(fit.model) is None]
    assert {"trace", "clusters", "ppc", "density", "uncertainty"} <= {*kinds}
    for kind in kinds:
        fit.plot(kind)
        plt.close("all")


@pytest.mark.nightly
def test_reports_and_exports(fit, tmp_path):
    assert "one covariance Sigma of all components" in str(fit.model) and "sd a" in str(fit.summary())
    fit.report(tmp_path / "report.html")
    tree = pytest.importorskip("xarray") and fit.to_datatree(log_likelihood=False)
    assert list(tree["posterior"]["covariance_of"].values) == ["a, a", "b, a", "b, b"]


def test_saved_resumed_and_extended(tmp_path):
    settings = {"draws": 12, "tune": 6, "chains": 2, "rng": 5}
    one = nm.fit("a + b ~ 1", TABLE, family=TIED, **settings)
    again = nm.load(one.save(tmp_path / "fit.npz"))
    np.testing.assert_array_equal(one.draws["covariance"], again.draws["covariance"])
    np.testing.assert_array_equal(one.log_density(TABLE[:3]), again.log_density(TABLE[:3]))
    longer = nm.fit("a + b ~ 1", TABLE, family=TIED, **settings | {"draws": 20})
    np.testing.assert_array_equal(one.extend(8).draws["covariance"], longer.draws["covariance"])
    np.testing.assert_array_equal(again.extend(8).draws["labels"], longer.draws["labels"])
    search = nm.fit("a + b ~ 1", TABLE, family=TIED, method="ibhc", rng=1)
    kept = nm.load(search.save(tmp_path / "search.npz"))
    np.testing.assert_array_equal(search.draws["covariance"], kept.draws["covariance"])
    with np.load(tmp_path / "fit.npz") as file:
        values = dict(file)
    name = next(key for key in values if key.endswith("covariance"))
    values[name] = values[name][..., ::-1] * [1.0, 50.0, 1.0]
    np.savez(tmp_path / "damaged.npz", **values)
    with pytest.raises(ValueError, match=r"covariance|damaged|changed"):
        nm.load(tmp_path / "damaged.npz")


@pytest.mark.parametrize("method", ["gibbs", "split_merge", "slice"])
def test_density_regression(method):
    found = nm.fit("a + b ~ x", TABLE, family=TIED, method=method, **RUN)
    assert found.draws["covariance"].shape == (2, 40, 3) and np.isfinite(found.log_density(TABLE[:5])).all()
    mean = found.predict(pd.DataFrame({"x": [0.0, 1.0]}))
    assert np.isfinite(mean["estimate"]).all()


def test_several_blocks():
    """Each has its own covariance; the draws are those of one behind those of the other."""
    blocks = {("a", "b"): TIED, ("c", "d"): nm.Gaussian("tied", r=0.2)}
    found = nm.fit("a + b + c + d ~ 1", TABLE, family=blocks, **RUN)
    assert found.draws["covariance"].shape == (2, 40, 6) and "corr c, d" in found.parameters().index.get_level_values(1)
    middle = found.draws.flat("covariance").mean(axis=0)
    assert np.isfinite(found.model.log_joint(found.draws["labels"][0, 0], covariance=middle, mass=1.0))
    with pytest.raises(ValueError, match="covariance must hold"):
        found.model.log_joint(found.draws["labels"][0, 0], covariance=middle * [1, 1, 1, 1, 50, 1], mass=1.0)


def test_whole_weights_repeat_rows():
    weights = np.ones(len(Y), int)
    weights[[0, 50]] = 2
    one = nm.fit("a + b ~ 1", TABLE, family=TIED, weights=weights, **RUN)
    other = nm.fit("a + b ~ 1", TABLE.loc[np.repeat(TABLE.index, weights)], family=TIED, **RUN)
    np.testing.assert_array_equal(one.draws["covariance"], other.draws["covariance"])


@pytest.mark.nightly
def test_of_the_command_line(tmp_path):
    TABLE.to_csv(tmp_path / "table.csv", index=False)
    command = [sys.executable, "-m", "nrmmix", "fit", "a + b ~ 1", "--data", str(tmp_path / "table.csv"), "--family", "tied"]
    done = subprocess.run([*command, "--draws", "20", "--tune", "20", "--seed", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "one covariance Sigma of all components" in done.stdout, done.stderr


TIMES = TABLE.assign(a=np.exp(TABLE["a"]), event=TABLE["c"] > 0)
GAPS = TABLE.assign(a=TABLE["a"].where(TABLE.index > 2))


@pytest.mark.parametrize(("call", "message"), [
    (lambda: nm.Model("a + b ~ 1", GAPS, family=TIED, missing="marginalize"), r'has no way with missing responses \(a, b\); .*="full"'),
    (lambda: nm.Model("Surv(a, event) + b ~ 1", TIMES, family=TIED), "has no way with censored responses"),
    (lambda: nm.fit("a + b ~ 1", TABLE, family=TIED, method="vb"), 'the covariance that "tied" components share is drawn by chains'),
    (lambda: nm.fit("a + b ~ 1", TABLE, family=TIED, method="tree_published"), "its trees do not follow a covariance that is drawn"),
    (lambda: nm.Hurdle(TIED), "Gaussian has no way with missing responses"),
    (lambda: nm.Model("a + b ~ 1", TABLE, family=nm.Gaussian("tied", scale=[1.0, 2.0])), r"scale must have shape \(2, 2\)"),
    (lambda: nm.Model("a + b ~ 1", TABLE, family=nm.Gaussian("tied", scale=-SIGMA)), "scale must be positive definite"),
    (lambda: nm.Model("a + b ~ 1", TABLE, family=nm.Gaussian("tied", nu=1.0)), "nu must be greater than d - 1 = 1"),
])
def test_what_it_does_not_do_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call()
