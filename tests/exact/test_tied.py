"""Gaussian components of tied covariance, against sums over partitions: means and covariance are integrated out in closed form."""

from __future__ import annotations

import inspect
import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import nrm_log_eppf, partitions, total_variation, z_score
from exact.marginals import known_covariance_log_marginal
from scipy import stats
from scipy.special import multigammaln
from support.cover import by_turns, only
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.kernels.core.state import DONE
from nrmmix.kernels.families.gaussian import tied

Y = np.array([[-1.1, 0.2], [0.9, 1.3], [0.2, -0.7], [0.6, 0.4], [1.9, 1.6], [-0.4, 1.2]])
N, M, R, NU = len(Y), np.array([0.2, 0.5]), 0.3, 3.5
SCALE = np.array([[0.7, 0.3], [0.3, 1.1]])
PRIORS = {"DP": (nm.DirichletProcess(1.0), 1.0, 0.0), "NGGP": (nm.NGGP(0.8, 0.4), 0.8, 0.4)}
CHAINS, DRAWS = 16, by_day(4_000)


def family(d):
    return nm.Gaussian("tied", m=M[:d], r=R, nu=NU, scale=SCALE[:d, :d])


def blocks_of(labels):
    return [np.flatnonzero(np.array(labels) == c) for c in range(max(labels) + 1)]


def scale_of(y, blocks):
    """Psi_n: given the partition Sigma ~ inverse Wishart(nu + n, Psi_n)."""
    z = y - M[: y.shape[1]]
    total = SCALE[: y.shape[1], : y.shape[1]] + z.T @ z
    for own in blocks:
        sums = z[own].sum(axis=0)
        total = total - np.outer(sums, sums) / (R + len(own))
    return total


def log_marginal(y, blocks):
    """log p(y | partition): the integral over Sigma of the inverse Wishart kernel that is left when the means are integrated out."""
    n, d = y.shape
    value = multigammaln((NU + n) / 2, d) - multigammaln(NU / 2, d) - n * d / 2 * math.log(math.pi)
    value += NU / 2 * np.linalg.slogdet(SCALE[:d, :d])[1] - (NU + n) / 2 * np.linalg.slogdet(scale_of(y, blocks))[1]
    return value + sum(d / 2 * math.log(R / (R + len(own))) for own in blocks)


def given_covariance(y, blocks, S):
    return sum(known_covariance_log_marginal(y[own], M[: y.shape[1]], R, S) for own in blocks)


@cache
def posterior(prior, d):
    """Partitions, and posterior means of the lower triangle of Sigma and of its log determinant."""
    (_, mass, sigma), y, states = PRIORS[prior], Y[:, :d], list(partitions(N))
    logs = np.array([log_marginal(y, bs := blocks_of(s)) + nrm_log_eppf([len(b) for b in bs], mass, sigma) for s in states])
    weight = np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum()
    scales = np.array([scale_of(y, blocks_of(s)) for s in states])
    mean = np.einsum("s,sij->ij", weight, scales) / (NU + N - d - 1)
    digammas = sum(stats.loggamma(0.5 * (NU + N - j)).mean() for j in range(d))  # E log chi^2 less log 2
    log_det = weight @ np.linalg.slogdet(scales)[1] - d * math.log(2.0) - digammas
    return dict(zip(states, weight, strict=True)), mean[np.tril_indices(d)], log_det


def run(method, prior, d, rng=1, **options):
    data = pd.DataFrame(Y[:, :d], columns=[f"y{j}" for j in range(d)])
    model = nm.Model(" + ".join(data.columns) + " ~ 1", data, prior=PRIORS[prior][0], family=family(d))
    return model.fit(method, **({"draws": DRAWS, "tune": 200, "chains": CHAINS, "rng": rng} | options))


def log_det_of(triangles):
    """Of triangles (..., 1 or 3)."""
    return np.log(triangles[..., 0] if triangles.shape[-1] == 1 else triangles[..., 0] * triangles[..., 2] - triangles[..., 1] ** 2)


def check(fit, *of):
    law, mean, log_det = posterior(*of)
    distance, limit = total_variation(law, fit.draws["labels"])
    assert limit < coarser(0.06), "too few draws to tell"
    assert distance < limit
    drawn = fit.draws["covariance"]
    for j in range(len(mean)):
        assert abs(z_score(drawn[..., j], mean[j])) < 4
        assert drawn[..., j].mean(axis=1).std() < coarser(0.2), "too few draws to tell"
    assert abs(z_score(log_det_of(drawn), log_det)) < 4
    assert log_det_of(drawn).mean(axis=1).std() < coarser(0.1), "too few draws to tell"


@pytest.mark.parametrize("labels", [pytest.param((0, 0, 0, 0, 0, 0), marks=pytest.mark.nightly), (0, 1, 0, 2, 1, 2)])
def test_the_closed_form_is_the_integral_over_covariances(labels):
    blocks = blocks_of(labels)
    drawn = stats.invwishart(NU, SCALE).rvs(100_000, random_state=np.random.default_rng(2))
    values = np.exp(np.array([given_covariance(Y, blocks, S) for S in drawn[:by_day(20_000)]]) - log_marginal(Y, blocks))
    error = values.std() / math.sqrt(len(values))
    assert error < coarser(0.06) and abs(values.mean() - 1.0) < 4 * error


TREE = [nm.TreeGuided(global_moves=2, refresh=4), nm.Gibbs(subset=2)]
CELLS = {
    "gibbs": ("gibbs", "DP", 2), "gibbs, one response": ("gibbs", "NGGP", 1), "split_merge": ("split_merge", "NGGP", 2),
    "split_merge, one response": ("split_merge", "DP", 1), "slice": ("slice", "DP", 2), "permutation": ("permutation", "DP", 2),
    "tree": (TREE, "NGGP", 2), "tree, one response": (TREE, "DP", 1),
}


@pytest.mark.parametrize("cell", by_turns(CELLS))
def test_partitions_and_covariances(cell):
    method, *of = CELLS[cell]
    check(run(method, *of, init="one" if "one" in cell else "sequential"), *of)


WRONG = {
    "degrees of freedom of the prior alone": ("nu_n += stat[s + MEAN + d + 1, k]", "nu_n += 0.0"),
    "degrees of freedom of Bartlett's factor": ("(nu_n - (d - 1 - a))", "(nu_n - a)"),
    "statistics stay": ("return STALE", "return DONE"),
    "scatter of the prior's mean": ("weight = sign * ((r_n - sign) / r_n)", "weight = sign"),
}


@pytest.mark.parametrize("wrong", only(WRONG, "scatter of the prior's mean"))
def test_wrong_draws_are_found(monkeypatch, wrong):
    right, instead = WRONG[wrong]
    source = inspect.getsource(tied)
    assert source.count(right) == 1
    space = dict(vars(tied), DONE=DONE)
    exec(source.replace(right, instead), space)
    monkeypatch.setattr(tied, "tied_redraw_shared", space["tied_redraw_shared"])
    monkeypatch.setattr(tied, "tied_update", space["tied_update"])
    with pytest.raises((AssertionError, RuntimeError)) as found:  # statistics of another factor end in roots of negative numbers
        check(run("gibbs", "DP", 2, init="one"), "DP", 2)
    assert "too few" not in str(found.value)


def test_joint_density():
    """log p(X, partition | Sigma), in the units of the data."""
    model = nm.Model(data=Y, prior=PRIORS["NGGP"][0], family=family(2))
    S, labels = np.array([[0.8, -0.2], [-0.2, 0.5]]), (0, 1, 0, 2, 1, 2)
    wanted = given_covariance(Y, blocks_of(labels), S) + nrm_log_eppf([2, 2, 2], 0.8, 0.4)
    assert model.log_joint(labels, covariance=[0.8, -0.2, 0.5]) == pytest.approx(wanted, abs=1e-8)
    with pytest.raises(ValueError, match="covariance is not integrated out"):
        model.log_joint(labels)
    for wrong in ([0.8, 0.9, 0.5], [-0.8, 0.1, -0.5]):
        with pytest.raises(ValueError, match="covariance must hold"):
            model.log_joint(labels, covariance=wrong)


@pytest.mark.parametrize("missing", [False, True])
def test_density_of_a_new_row(missing):
    """With a response that is not known too: the others are those of the marginal."""
    fit = run("gibbs", "DP", 2, draws=40, chains=2)
    new, at = np.array([[0.3, np.nan if missing else 0.9]]), slice(0, 1 if missing else 2)
    total = []
    for labels, (a, b, c) in zip(fit.draws["labels"].reshape(-1, N), fit.draws["covariance"].reshape(-1, 3), strict=True):
        S, density = np.array([[a, b], [b, c]]), 0.0
        for own in [Y[labels == c] for c in range(labels.max() + 1)] + [Y[:0]]:
            r_n = R + len(own)
            mean, cov = (R * M + own.sum(axis=0)) / r_n, S * (1.0 + 1.0 / r_n)
            density += max(len(own), 1.0) / (N + 1.0) * stats.multivariate_normal(mean[at], cov[at, at]).pdf(new[0, at])
        total.append(density)
    frame = pd.DataFrame(new, columns=["y0", "y1"])
    assert float(fit.log_density(frame).iloc[0]) == pytest.approx(math.log(np.mean(total)), abs=1e-8)
