"""Regression components that learn shrinkage and noise scale, against sums over partitions and quadrature over the logs of both."""

from __future__ import annotations

import inspect
import itertools
import math
from functools import cache

import numba
import numpy as np
import pandas as pd
import pytest
from exact.enumeration import nrm_log_eppf, partitions, total_variation, z_score
from scipy.special import multigammaln
from support.cover import by_turns, only
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.core.clusters import fill_columns, fill_log_prior_predictive
from nrmmix.kernels.families import regression
from nrmmix.kernels.families.shared_parameters import redraw_shared
from nrmmix.model.pack import arrays_of

DATA = pd.DataFrame({
    "x": [3.0, 3.5, 4.1, 5.2, 6.0], "y": [110.0, 114.0, 122.0, 109.0, 131.0], "z": [-0.3, 0.6, 0.1, 0.4, -0.9],
    "w": [1.0, 0.2, 0.9, -0.4, 0.5], "g": ["b", "a", "c", "b", "c"],
})
N, NU = len(DATA), 2.0
PRIORS = {"DP": (nm.DirichletProcess(1.0), 1.0, 0.0), "NGGP": (nm.NGGP(0.8, 0.4), 0.8, 0.4)}
CHAINS, DRAWS = 16, by_day(4_000)
LAW, OTHER = nm.Gamma(0.5, 0.5), nm.Gamma(0.75, 0.05)  # of shrinkage: that of "sampled", and one


class Reference:
    """Joint of a block of rows with two logs of shrinkage and log noise scales of d responses, on a grid of all of these.

    One shrinkage is that of the intercept, the other that of x, or of all levels of the factor g: their effects are independent, less their
    mean, and differences of two have the variance 1 / shrinkage.
    """

    def __init__(self, responses, step=0.5, lo=-16.0, hi=4.5, design="1 + x", law=LAW):
        numbers = DATA.drop(columns="g")
        standard = (numbers - numbers.mean()) / numbers.std(ddof=1)
        levels = np.column_stack([DATA["g"] == level for level in "abc"]) @ (np.eye(3) - 1 / 3) / math.sqrt(2.0)
        self.Z = np.column_stack([np.ones(N), standard["x"] if design == "1 + x" else levels - levels.mean(axis=0)])
        self.Y = standard[responses].to_numpy()
        d = self.d = len(responses)
        self.nu = NU + d - 1
        axis = np.arange(lo, hi, step)
        logs = np.meshgrid(*([axis] * (2 + d)), indexing="ij", sparse=True)
        self.log_shrinkage, self.log_noise = logs[:2], logs[2:]
        self.log_prior = sum(law.shape * v - law.rate * np.exp(v) for v in logs[:2]) + sum(0.5 * v - np.exp(v) for v in logs[2:])

    def of_block(self, rows):
        """Log marginal likelihood of a cluster by the matrix t distribution, up to what depends on nothing but n."""
        Z, Y, d, nu, n, q = self.Z[list(rows)], self.Y[list(rows)], self.d, self.nu, len(rows), self.Z.shape[1]
        one, other = np.broadcast_arrays(*self.log_shrinkage)
        precision = Z.T @ Z + np.exp(np.stack([one] + [other] * (q - 1), axis=-1))[..., None] * np.eye(q)
        fitted = np.einsum("ai,...ab,bj->ij...", Z.T @ Y, np.linalg.inv(precision), Z.T @ Y)

        def of(i, j):
            return Y[:, i] @ Y[:, j] - fitted[i, j] + (np.exp(self.log_noise[i]) if i == j else 0.0)

        S = of(0, 0) if d == 1 else of(0, 0) * of(1, 1) - of(0, 1) ** 2
        value = multigammaln((nu + n) / 2, d) - multigammaln(nu / 2, d)
        value = value + 0.5 * d * (one + (q - 1) * other - np.linalg.slogdet(precision)[1])
        return value + 0.5 * nu * sum(self.log_noise) - 0.5 * (nu + n) * np.log(S)

    def means(self, log_joint):
        """Posterior means of shrinkages and noise scales, then of their logs."""
        weight = np.exp(log_joint - log_joint.max())
        weight /= weight.sum()
        edges = [weight.sum(axis=tuple(b for b in range(weight.ndim) if b != a)) for a in range(weight.ndim)]
        assert all(max(edge[0], edge[-1]) < 1e-4 for edge in edges), "the grid is too short"
        logs = [v.ravel() for v in (*self.log_shrinkage, *self.log_noise)]
        return np.array([edge @ np.exp(v) for edge, v in zip(edges, logs, strict=True)]), np.array(
            [edge @ v for edge, v in zip(edges, logs, strict=True)])


def blocks_of(labels):
    return [tuple(i for i in range(N) if labels[i] == c) for c in range(max(labels) + 1)]


@cache
def posterior(prior, design, law):
    """Partitions, and the means of shrinkage and noise scale and of their logs over all of them."""
    reference, (_, mass, sigma) = Reference(["y"], design=design, law=law, hi=4.5 if law == LAW else 6.5), PRIORS[prior]
    states, logs = list(partitions(N)), []
    whole = 0.0
    for labels in states:
        blocks = blocks_of(labels)
        log_joint = reference.log_prior + sum(map(reference.of_block, blocks)) + nrm_log_eppf([len(b) for b in blocks], mass, sigma)
        logs.append(np.exp(log_joint).sum())
        whole = whole + np.exp(log_joint)
    law = dict(zip(states, np.array(logs) / np.sum(logs), strict=True))
    return law, *reference.means(np.log(whole))


def check(fit, prior, design="1 + x", shrinkage=LAW):
    law, means, of_logs = posterior(prior, design, shrinkage)
    distance, limit = total_variation(law, fit.draws["labels"])
    assert limit < coarser(0.06), "too few draws to tell"
    assert distance < limit
    shrinkage = fit.draws["shrinkage"]
    assert not np.ptp(shrinkage[..., 1:], axis=-1).any()  # that of all levels, in every column
    drawn = np.concatenate([shrinkage[..., :2], fit.draws["noise_scale"]], axis=-1)
    for j in range(3):
        assert abs(z_score(np.log(drawn[..., j]), of_logs[j])) < 4
        assert abs(z_score(drawn[..., j], means[j])) < 4
        assert drawn[..., j].mean(axis=1).std() < coarser(0.2 * means[j]), "too few draws to tell"


def run(method, prior, rng=1, design="1 + x", shrinkage="sampled", **options):
    model = nm.Model("y ~ 1", DATA, prior=PRIORS[prior][0], family=nm.Regression(design, shrinkage=shrinkage))
    return model.fit(method, **({"draws": DRAWS, "tune": 200, "chains": CHAINS, "rng": rng} | options))


METHODS = {
    "gibbs": ("gibbs", "DP"), "gibbs, one start": ("gibbs", "NGGP"), "split_merge": ("split_merge", "NGGP"), "slice": ("slice", "DP"),
    "permutation": ("permutation", "DP"), "tree": ([nm.TreeGuided(global_moves=2, refresh=4), nm.Gibbs(subset=2)], "DP"),
}


@pytest.mark.parametrize("method", by_turns(METHODS, 3))
def test_partitions_shrinkage_and_noise_scale(method):
    check(run(*METHODS[method], init="one" if "one" in method else "sequential"), METHODS[method][1])


@pytest.mark.parametrize("method", ["gibbs", "split_merge"])
def test_levels_of_a_factor_have_one_shrinkage(method):
    check(run(method, "DP", design="1 + g"), "DP", "1 + g")


@pytest.mark.parametrize("method", by_turns(["gibbs", "split_merge"]))
def test_a_law_of_shrinkage_that_is_given(method):
    fit = run(method, "DP", shrinkage=OTHER)
    check(fit, "DP", shrinkage=OTHER)
    with pytest.raises(AssertionError) as found:
        check(fit, "DP")
    assert "too few" not in str(found.value)


WRONG = {
    "shape of shrinkage": ("count += K", "count += K - 1"),
    "shape of the noise scale": ("standard_gamma(0.5 * (1.0 + nu * K))", "standard_gamma(0.5 * (1.0 + K))"),
    "statistics stay": ("return STALE", "return DONE"),
}


@pytest.mark.parametrize("wrong", by_turns(WRONG, 3))
def test_wrong_draws_are_found(monkeypatch, wrong):
    source, (right, instead) = inspect.getsource(regression.regression_redraw_shared.function), WRONG[wrong]
    assert source.count(right) == 1
    space = dict(vars(regression))
    exec(source.replace(right, instead), space)
    monkeypatch.setattr(regression, "regression_redraw_shared", space["regression_redraw_shared"])
    with pytest.raises(AssertionError) as found:
        check(run("gibbs", "DP", init="one"), "DP")
    assert "too few" not in str(found.value)


@cache
def chains_with_a_covariate_kernel(method, sigma):
    prior = nm.NGGP(0.9, sigma) if sigma else nm.DirichletProcess(0.9)
    kernel = nm.SquaredExponential(0.4, locations=[3.0, 4.5, 6.0])
    model = nm.Model("y ~ x", DATA, prior=prior, kernel=kernel, family=nm.Regression("1 + x"))
    moves = [nm.TreeGuided(global_moves=2, refresh=4), nm.Gibbs(subset=2)] if method == "tree" else method
    return model.fit(moves, draws=DRAWS, tune=200, chains=CHAINS, rng=3)


@pytest.mark.parametrize(("sigma", "method"), only(itertools.product([0.0, 0.3], ["split_merge", "slice", "tree"]), (0.3, "split_merge")))
def test_with_a_covariate_kernel(sigma, method):
    """Chains by moves that have little in common agree: of a kernel model the sums would be over locations too."""
    fits = [chains_with_a_covariate_kernel(one, sigma) for one in ("gibbs", method)]
    for name in ("n_clusters", "log_joint", "shrinkage", "noise_scale"):
        first, second = (fit.draws[name].reshape(CHAINS, DRAWS, -1) for fit in fits)
        first, second = ((np.log(v) if name in ("shrinkage", "noise_scale") else v).mean(axis=1) for v in (first, second))
        error = np.sqrt((first.var(axis=0, ddof=1) + second.var(axis=0, ddof=1)) / CHAINS)
        assert (np.abs(first.mean(axis=0) - second.mean(axis=0)) < 4 * error).all(), name


@numba.njit
def _redrawn(data, state, times, rng):
    out = np.empty((times, data.shared.shape[0]))
    for t in range(times):
        redraw_shared(data, state, rng)
        for j in range(out.shape[1]):
            out[t, j] = data.rows.constant[data.shared[j]]
    return out


@pytest.mark.parametrize(("design", "law"), [("1 + x", LAW), ("1 + g", LAW), ("1 + x", OTHER)])
@pytest.mark.parametrize("responses", by_turns([["y"], ["z", "w"]], 2, 1))
@pytest.mark.parametrize("labels", [pytest.param((0, 0, 0, 0, 0), marks=pytest.mark.nightly), (0, 1, 0, 1, 1)])
def test_conditional_law_given_the_partition(responses, labels, design, law):
    model = nm.Model(f"{' + '.join(responses)} ~ 1", DATA, family=nm.Regression(design, shrinkage=law))
    drawn = []
    for rng in np.random.default_rng(4).spawn(CHAINS):
        data, state = arrays_of(model, 8)
        chain.start(data, state, np.array(labels))
        drawn.append(_redrawn(data, state, by_day(20_000), rng)[200:])
        kept, predictive = state.stat[:, :3].copy(), data.log_prior_predictive.copy()
        fill_columns(data, state)
        fill_log_prior_predictive(data, state)
        np.testing.assert_array_equal(predictive, data.log_prior_predictive)
        np.testing.assert_array_equal(kept[:8, : max(labels) + 1], state.stat[:8, : max(labels) + 1])
    reference = Reference(responses, 0.5 if len(responses) == 1 else 0.75, hi=4.5 if law == LAW else 6.5, design=design, law=law)
    means, of_logs = reference.means(reference.log_prior + sum(map(reference.of_block, blocks_of(labels))))
    drawn, q = np.array(drawn), len(model.family.factor)
    drawn = np.delete(drawn, range(2, q), axis=2)  # that of all levels, in every column
    for j in range(drawn.shape[2]):
        assert abs(z_score(np.log(drawn[..., j]), of_logs[j])) < 4
        assert abs(z_score(drawn[..., j], means[j])) < 4
        assert abs(np.log(drawn[..., j]).mean(axis=1).std()) < coarser(0.2), "too few draws to tell"


def test_joint_density():
    """log p(X, partition) at given shrinkage and noise scale, with the units of the data."""
    model = nm.Model("z + w ~ 1", DATA, prior=nm.DirichletProcess(1.0), family=nm.Regression("1 + x"))
    shrinkage, noise = np.array([0.3, 2.0]), np.array([0.05, 0.4])
    numbers = DATA.drop(columns="g")
    standard = (numbers - numbers.mean()) / numbers.std(ddof=1)
    Z, Y = np.column_stack([np.ones(N), standard["x"]]), standard[["z", "w"]].to_numpy()
    from exact.marginals import matrix_regression_log_marginal

    labels = np.array([0, 1, 0, 0, 1])
    wanted = sum(
        matrix_regression_log_marginal(Z[labels == c], Y[labels == c], np.zeros((2, 2)), np.diag(shrinkage), NU + 1, np.diag(noise))
        for c in range(2)
    ) - N * np.log(DATA[["z", "w"]].std(ddof=1)).sum() + nrm_log_eppf([3, 2], 1.0, 0.0)
    assert model.log_joint(labels, shrinkage=shrinkage, noise_scale=noise) == pytest.approx(wanted, abs=1e-10)
    with pytest.raises(ValueError, match="shrinkage is not integrated out"):
        model.log_joint(labels, noise_scale=noise)
    with pytest.raises(ValueError, match="noise_scale must hold finite numbers greater than 0"):
        model.log_joint(labels, shrinkage=shrinkage, noise_scale=-noise)
    assert math.isfinite(wanted)
