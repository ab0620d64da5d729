"""Gaussian components whose scale is sampled, against sums over partitions and quadrature over the logs of the scales."""

from __future__ import annotations

import inspect
import itertools
import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import gaussian_log_marginal, nrm_log_eppf, partitions, total_variation, z_score
from scipy import optimize, stats
from support.cover import by_turns
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.kernels.core.state import DONE
from nrmmix.kernels.families.gaussian import sampled_scale
from nrmmix.model.families.exponential import LearntGammaForm, LearntWishartForm

Y = np.array([[-1.1, 0.2], [0.9, 1.3], [0.2, -0.7], [0.6, 0.4], [1.9, 1.6]])
N, M, R, NU = len(Y), 0.2, 0.3, 3.0
LAWS = nm.Gamma(1.5, 0.8), nm.Gamma(0.7, 0.5)
PRIORS = {"DP": (nm.DirichletProcess(1.0), 1.0, 0.0), "NGGP": (nm.NGGP(0.8, 0.4), 0.8, 0.4)}
CHAINS, DRAWS = 16, by_day(4_000)


def family(covariance, d):
    known = {"known_mean": M} if covariance == "known mean" else {"m": [M] * d, "r": R}
    return nm.Gaussian("diagonal" if covariance == "diagonal" else "full", nu=NU, scale=LAWS[:d], **known)


def log_marginal(X, covariance, scale):
    """Of rows (n, d), complete or, with a diagonal covariance, with cells that are missing, given the scales (d,)."""
    d = X.shape[1]
    if covariance == "full":
        return gaussian_log_marginal(X, np.full(d, M), R, NU, np.diag(scale))
    total = 0.0
    for x, s in zip(X.T, scale, strict=True):
        x = x[~np.isnan(x)]
        r = 1e12 if covariance == "known mean" else R
        total += of_column(tuple(x), r, s)
    return total


@cache
def of_column(x, r, s):
    """A scale of one response stands beside many of the other."""
    return gaussian_log_marginal(np.array(x)[:, None], np.array([M]), r, NU, np.array([[s]])) if len(x) else 0.0


def table(d, gaps):
    """The first responses, with cells that are missing."""
    y = Y[:, :d].copy()
    for cell in gaps:
        y[cell] = np.nan
    return y


@cache
def grid(d):
    """Logs of the scales, (points, d), and the logs of their weights."""
    axis = np.linspace(-9.0, 4.5, 37 if d == 1 else 24)  # the law is the same to 1e-6 on three times as many
    points = np.array(list(itertools.product(*[axis] * d)))
    weight = sum(stats.gamma.logpdf(np.exp(points[:, j]), LAWS[j].shape, scale=1 / LAWS[j].rate) + points[:, j] for j in range(d))
    return points, weight


@cache
def of_block(block, covariance, d, gaps):
    """Log marginal likelihoods of some rows at each point of the grid, whatever the prior of partitions."""
    y = table(d, gaps)[list(block)]
    return np.array([log_marginal(y, covariance, scale) for scale in np.exp(grid(d)[0])])


@cache
def posterior(prior, covariance, d, gaps=()):
    """Partitions, and the means of the scales and of their logs over all of them."""
    (_, mass, sigma), (points, weight) = PRIORS[prior], grid(d)
    states, logs, whole = list(partitions(N)), [], 0.0
    for labels in states:
        blocks = [tuple(i for i in range(N) if labels[i] == c) for c in range(max(labels) + 1)]
        joint = np.exp(weight + sum(of_block(b, covariance, d, gaps) for b in blocks) + nrm_log_eppf([len(b) for b in blocks], mass, sigma))
        logs.append(joint.sum())
        whole = whole + joint
    whole = whole / whole.sum()
    assert whole[(points.min(axis=1) == points.min()) | (points.max(axis=1) == points.max())].sum() < 2e-3, "the grid is too short"
    return dict(zip(states, np.array(logs) / np.sum(logs), strict=True)), whole @ np.exp(points), whole @ points


def run(method, prior, covariance, d, gaps=(), rng=1, **options):
    missing = {"missing": "marginalize"} if gaps else {}
    data = pd.DataFrame(table(d, gaps), columns=[f"y{j}" for j in range(d)])
    model = nm.Model(" + ".join(data.columns) + " ~ 1", data, prior=PRIORS[prior][0], family=family(covariance, d), **missing)
    return model.fit(method, **({"draws": DRAWS, "tune": 200, "chains": CHAINS, "rng": rng} | options))


def check(fit, *of):
    law, means, of_logs = posterior(*of)
    distance, limit = total_variation(law, fit.draws["labels"])
    assert limit < coarser(0.06), "too few draws to tell"
    assert distance < limit
    scale = fit.draws["scale"] * [one.mean for one in LAWS[: len(means)]]  # draws are multiples of the prior mean
    for j in range(len(means)):
        assert abs(z_score(np.log(scale[..., j]), of_logs[j])) < 4
        assert abs(z_score(scale[..., j], means[j])) < 4
        assert np.log(scale[..., j]).mean(axis=1).std() < coarser(0.2), "too few draws to tell"


REPAIRED = nm.PublishedTreeGuided(3, repaired=("subset", "tree", "first_pick"))
TREE = [nm.TreeGuided(global_moves=2, refresh=4), nm.Gibbs(subset=2)]
CELLS = {
    "gibbs, full": ("gibbs", "DP", "full", 2), "gibbs, one response": ("gibbs", "NGGP", "full", 1),
    "gibbs, diagonal": ("gibbs", "NGGP", "diagonal", 2), "gibbs, known mean": ("gibbs", "DP", "known mean", 1),
    "gibbs, a cell is missing": ("gibbs", "DP", "diagonal", 2, ((1, 0), (3, 1))),
    "split_merge, full": ("split_merge", "NGGP", "full", 2), "split_merge, diagonal": ("split_merge", "DP", "diagonal", 2),
    "slice, full": ("slice", "DP", "full", 2), "slice, diagonal": ("slice", "NGGP", "diagonal", 2),
    "permutation, full": ("permutation", "DP", "full", 2), "tree, full": (TREE, "NGGP", "full", 2),
    "tree, diagonal": (TREE, "DP", "diagonal", 2),
    "repaired published trees, full": (REPAIRED, "NGGP", "full", 2), "repaired published trees, diagonal": (REPAIRED, "DP", "diagonal", 2),
}


@pytest.mark.parametrize("cell", by_turns(CELLS, 3))
def test_partitions_and_scales(cell):
    method, *of = CELLS[cell]
    check(run(method, *of, init="one" if "diagonal" in cell else "sequential"), *of)


def with_other_draws(monkeypatch, changes):
    """Let chains draw scales of full covariances by the module's source with these changes."""
    source = inspect.getsource(sampled_scale)
    for right, instead in changes:
        assert right in source
        source = source.replace(right, instead)
    space = dict(vars(sampled_scale), DONE=DONE)
    exec(source, space)
    monkeypatch.setattr(sampled_scale, "gaussian_redraw_shared", space["gaussian_redraw_shared"])


OFTEN = ("if least > LOST and most * LOST < 1.0", "if least > 0.6 and most * 0.6 < 1.0")
AS_RIGHT = {"many draws are refused": [OFTEN], "statistics are built anew": [("least < WORN", "True")]}


@pytest.mark.parametrize("case", AS_RIGHT)
def test_care_for_digits_leaves_the_law_as_it_is(monkeypatch, case):
    with_other_draws(monkeypatch, AS_RIGHT[case])
    check(run("gibbs", "DP", "full", 2, init="one"), "DP", "full", 2)


WRONG = {
    "shape": [("0.5 * nu * K", "0.5 * nu * (K - 1)")], "statistics stay": [("rotate(stat, L, row, d, k, sign, j)", "pass")],
    "sizes are left out": [("(nu + n[k])", "nu")], "smaller scales alone are refused": [OFTEN, (" and most * 0.6 < 1.0", "")],
}


@pytest.mark.parametrize("wrong", by_turns(WRONG, 4))
def test_wrong_draws_are_found(monkeypatch, wrong):
    with_other_draws(monkeypatch, WRONG[wrong])
    with pytest.raises(AssertionError) as found:
        check(run("gibbs", "DP", "full", 2, init="one"), "DP", "full", 2)
    assert "too few" not in str(found.value)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_joint_density(covariance):
    """log p(X, partition | scales), in the units of the data."""
    model = nm.Model(data=Y, prior=PRIORS["NGGP"][0], family=family(covariance, 2))
    scale = np.array([0.3, 2.0])
    labels = np.array([0, 1, 0, 0, 1])
    wanted = sum(log_marginal(Y[labels == c], covariance, scale * [law.mean for law in LAWS]) for c in range(2))
    assert model.log_joint(labels, scale=scale) == pytest.approx(wanted + nrm_log_eppf([3, 2], 0.8, 0.4), abs=1e-8)
    with pytest.raises(ValueError, match="scale is not integrated out"):
        model.log_joint(labels)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_density_of_a_new_row(covariance):
    fit = run("gibbs", "DP", covariance, 2, draws=40, chains=2)
    new = np.array([[0.3, 0.9]])
    total = []
    for labels, scale in zip(fit.draws["labels"].reshape(-1, N), fit.draws["scale"].reshape(-1, 2), strict=True):
        s, density = scale * [law.mean for law in LAWS], 0.0
        for rows in [Y[labels == c] for c in range(labels.max() + 1)] + [Y[:0]]:
            rise = log_marginal(np.vstack([rows, new]), covariance, s) - (log_marginal(rows, covariance, s) if len(rows) else 0.0)
            density += max(len(rows), 1.0) / (N + 1.0) * math.exp(rise)
        total.append(density)
    frame = pd.DataFrame(new, columns=["y0", "y1"])
    assert float(fit.log_density(frame).iloc[0]) == pytest.approx(math.log(np.mean(total)), abs=1e-8)


@pytest.mark.parametrize("side", ["full", "diagonal"])
def test_variational_inference_learns_the_best_scale(side):
    """Its slope is that of the bound, and what it finds is not improved upon by a search without slopes."""
    shapes, rng = np.array([1.5, 0.7]), np.random.default_rng(1)
    made = LearntWishartForm(shapes, R, NU, 0.0, False) if side == "full" else LearntGammaForm(shapes, R, NU, np.zeros(2), False, False)
    statistics = np.empty((made.n_stat, N))
    made.fill(made.rows(Y, np.zeros((N, 0))), statistics)
    weights = rng.dirichlet(np.ones(2), N).T
    counts, sums = np.append(weights.sum(axis=1), 0.0), np.vstack([weights @ statistics.T, np.zeros(made.n_stat)])

    def value(logs):
        one = made.with_shared({"scale": np.exp(logs)})
        return one.log_z(counts, sums).sum() + one.log_prior

    best = made.learnt(counts, sums)
    found = optimize.minimize(lambda logs: -value(logs), np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
    np.testing.assert_allclose(np.log(best.shared["scale"]), found.x, atol=1e-3)
    alone = value(np.log(best.shared["scale"])) - best.with_shared({"scale": np.ones(2)}).log_prior
    assert alone > made.log_z(counts, sums).sum()


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
@pytest.mark.parametrize("d", [1, 4, 5, 12])
def test_default_laws(d, covariance):
    y = np.random.default_rng(3).normal(size=(40, d)) * np.arange(1, d + 1)
    resolved = nm.Model(data=y, family=nm.Gaussian(covariance)).family
    np.testing.assert_allclose([law.mean for law in resolved.scale], (0.1 if d < 5 else 0.2) * resolved.nu * y.var(axis=0, ddof=1))
    assert {law.shape for law in resolved.scale} == {0.5}
    assert resolved.r == (0.1 if covariance == "full" and d >= 5 else 0.01)


def test_wrong_laws_are_refused():
    with pytest.raises(ValueError, match=r"one nm\.Gamma\(shape, rate\), or 2 of them"):
        nm.Model(data=Y, family=nm.Gaussian(scale=(nm.Gamma(1, 1),) * 3))
    with pytest.raises(ValueError, match=r"one nm\.Gamma\(shape, rate\), or 2 of them"):
        nm.Model(data=Y, family=nm.Gaussian(scale=(nm.Gamma(1, 1), 2.0)))


def test_saved_resumed_and_extended(tmp_path):
    y = np.random.default_rng(3).normal(size=(40, 6))
    settings = {"draws": 12, "tune": 6, "chains": 2, "rng": 5}
    fit = nm.Model(data=y).fit(**settings)
    fit.save(tmp_path / "fit.npz")
    again = nm.load(tmp_path / "fit.npz")
    np.testing.assert_array_equal(fit.draws["scale"], again.draws["scale"])
    assert str(again.model) == str(fit.model) and "Gamma of shape 0.5, mean" in str(fit.model)
    np.testing.assert_array_equal(fit.log_density(y[:3]), again.log_density(y[:3]))
    longer = nm.Model(data=y).fit(**settings | {"draws": 20})
    np.testing.assert_array_equal(fit.extend(8).draws["scale"], longer.draws["scale"])
    np.testing.assert_array_equal(again.extend(8).draws["labels"], longer.draws["labels"])


def test_searches_draw_the_scale_between_passes():
    """What a search reports is at the scale that its tree was built at, and predictions follow it."""
    rng = np.random.default_rng(2)
    y = np.vstack([rng.normal(size=(25, 5)), rng.normal(size=(25, 5)) + 6.0])
    fit = nm.Model(data=y).fit("ibhc", rng=1)
    scale = fit.draws["scale"][0, 0]
    assert scale.shape == (5,) and not np.allclose(scale, 1.0) and fit.n_clusters == 2
    hyper = {name: value for name, value in fit.hyper.items() if name == "mass"}
    assert fit.log_joint == pytest.approx(fit.model.log_joint(fit.labels, scale=scale, **hyper))
    one = nm.Model(data=y, family=nm.Gaussian(r=fit.model.family.r, scale=np.diag(scale * [law.mean for law in fit.model.family.scale])))
    assert one.log_joint(fit.labels, **hyper) == pytest.approx(fit.log_joint)
