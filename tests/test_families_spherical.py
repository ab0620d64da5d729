"""Gaussian components of spherical covariance; exactness of their samplers is in tests/exact/matrix.py."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact.enumeration import partitions
from exact.marginals import spherical_log_marginal
from scipy import stats

import nrmmix as nm

RNG = np.random.default_rng(5)
Y = np.vstack([RNG.normal(0, 1, (25, 3)), RNG.normal(7, 0.4, (20, 3))])
RUN = {"draws": 40, "tune": 40, "chains": 2, "rng": 1}


@pytest.mark.parametrize("missing", [False, True])
def test_log_joint_with_known_means(missing):
    y, r = np.array([[-1.2, 0.3], [-0.9, 0.8], [0.1, -0.4], [1.4, 1.1]]), math.inf
    if missing:
        y[[0, 2], [1, 0]] = np.nan
    family = nm.Gaussian("spherical", known_mean=[0.1, 0.4], nu=3.0, scale=1.4)
    model = nm.Model(data=y, family=family, prior=nm.DirichletProcess(1.0), missing="marginalize" if missing else "drop")
    free = nm.Model(data=y, family=nm.Gaussian("spherical", m=[0.1, 0.4], r=0.7, nu=3.0, scale=1.4), prior=nm.DirichletProcess(1.0),
                    missing="marginalize" if missing else "drop")
    for labels in partitions(4):
        blocks = [y[np.array(labels) == k] for k in range(max(labels) + 1)]
        eppf = sum(math.lgamma(len(own)) for own in blocks) - math.lgamma(5.0)
        for one, weight in ((model, r), (free, 0.7)):
            want = eppf + sum(spherical_log_marginal(own, np.array([0.1, 0.4]), weight, 3.0, 1.4) for own in blocks)
            assert one.log_joint(labels) == pytest.approx(want, abs=1e-9)


def test_of_one_response_it_is_the_diagonal_family():
    given = {"m": 1.0, "r": 0.2, "nu": 3.0}
    one = nm.Model(data=Y[:, :1], family=nm.Gaussian("spherical", scale=2.0, **given), prior=nm.NGGP())
    other = nm.Model(data=Y[:, :1], family=nm.Gaussian("diagonal", scale=[2.0], **given), prior=nm.NGGP())
    labels = np.arange(45) % 3
    joint = [model.log_joint(labels, u=2.0, mass=1.0, sigma=0.3) for model in (one, other)]
    assert joint[0] == pytest.approx(joint[1], abs=1e-8)


@pytest.mark.parametrize("method", ["gibbs", "split_merge", "tree", "slice", "ibhc", "vb"])
def test_groups_are_found_by_every_method(method):
    fit = nm.fit(None, Y, family="spherical", method=method, rng=1, **({} if method in ("ibhc", "vb") else {"draws": 40, "tune": 100}))
    labels = fit.partition().labels
    assert len(set(labels[:25])) == 1 == len(set(labels[25:])) and labels[0] != labels[-1]


def test_units_that_all_responses_share_do_not_matter():
    one, other = (nm.Model(data=data, family="spherical") for data in (Y, 1000.0 * Y - 3.0))
    assert other.family.scale == pytest.approx(1e6 * one.family.scale)
    assert one.family.scale == pytest.approx(0.02 * 2 * Y.var(axis=0, ddof=1).mean()) and one.family.nu == 2.0


@pytest.mark.nightly
def test_predictions_agree_with_one_another_and_the_definition(tmp_path):
    """One row, one cluster: a multivariate t, its marginals and conditional laws; and draws have its moments."""
    family = nm.Gaussian("spherical", m=[0.0, 1.0], r=0.5, nu=5.0, scale=2.0)
    y = np.array([[0.3, 0.4], [1.0, -0.5], [0.2, 0.9]])
    fit = nm.fit(None, y, family=family, prior=nm.DirichletProcess(1e-300), method="gibbs", init="one", **RUN)
    r, nu = 0.5 + 3, 5.0 + 6
    mean = (y.sum(axis=0) + 0.5 * np.array([0.0, 1.0])) / r
    psi = 2.0 + ((y - y.mean(axis=0)) ** 2).sum() + 0.5 * 3 / 3.5 * ((y.mean(axis=0) - [0.0, 1.0]) ** 2).sum()
    law = stats.multivariate_t(mean, psi / nu * (1 + 1 / r) * np.eye(2), df=nu)
    new = np.array([[0.0, 0.0], [2.0, -1.0]])
    assert np.allclose(fit.log_density(new), law.logpdf(new), atol=1e-9)
    assert np.allclose(fit.predict(new[:1], draws=80)["estimate"], mean)
    simulated = fit.simulate(new[:1], 4000, rng=1).to_numpy()
    assert np.allclose(simulated.mean(axis=0), mean, atol=0.1) and abs(np.corrcoef(simulated.T)[0, 1]) < 0.08
    gap = fit.log_density(np.array([[2.0, np.nan]])).to_numpy()
    assert gap == pytest.approx(stats.t.logpdf(2.0, nu, mean[0], np.sqrt(psi / nu * (1 + 1 / r))), abs=1e-9)
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    assert np.array_equal(again.log_density(new), fit.log_density(new))


def test_given_responses_narrow_the_others_by_their_precision():
    """A far first response says that the component is wide, so that the second spreads more."""
    data = {"a": Y[:, 0], "b": Y[:, 1]}
    fit = nm.fit("a + b ~ 1", data, family=nm.Gaussian("spherical", r=0.5, nu=3.0, scale=1.0), prior=nm.DirichletProcess(1e-300),
                 method="gibbs", init="one", **RUN)
    near, far = (fit.predict({"a": [a]}, "quantile", given=["a"], q=[0.05, 0.95])["estimate"].to_numpy() for a in (3.0, 60.0))
    assert far[1] - far[0] > near[1] - near[0]


def test_cells_that_miss_are_integrated_out():
    gaps = Y.copy()
    gaps[[0, 3, 30], [0, 1, 2]] = np.nan
    fit = nm.fit(None, gaps, family="spherical", missing="marginalize", **RUN)
    assert len(set(fit.partition().labels[:25])) == 1
    vb = nm.fit(None, gaps, family="spherical", missing="marginalize", method="vb", rng=1)
    assert vb.n_clusters >= 2 and np.isfinite(vb.log_density()).all()


@pytest.mark.parametrize(("options", "what"), [
    ({"known_covariance": 1.0}, "known_covariance is of"),
    ({"scale": [1.0, 2.0]}, "scale must be"),
    ({"scale": -1.0}, "scale must be"),
    ({"nu": 0.01}, "so near 0"),
])
def test_what_does_not_apply_is_refused(options, what):
    with pytest.raises((ValueError, TypeError), match=what):
        nm.Model(data=Y, family=nm.Gaussian("spherical", **options))
