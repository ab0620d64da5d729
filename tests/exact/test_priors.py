"""Pitman-Yor, normalised stable and finite measures against enumeration and quadrature, for mixtures and density regression.

Probabilities of partitions come from definitions other than those the package computes with: the Pitman-Yor urn row by row, a gamma
process or Dirichlet weights integrated over, and sums over the locations of all atoms of a finite measure.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import (
    KernelJoint,
    dirichlet_log_eppf,
    gaussian_log_marginal,
    normalised,
    nrm_log_eppf,
    partition_posterior,
    partitions,
    total_variation,
    urn_log_eppf,
    z_score,
)
from exact.hyperparameters import GAMMA, mass_nodes, sigma_nodes
from exact.hyperparameters import HYPER_OF_PARTITIONS as HYPER
from scipy import stats
from scipy.special import gammaln, logsumexp

import nrmmix as nm
from nrmmix.kernels.core.clusters import attach, detach, score_columns
from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import draw_index
from nrmmix.kernels.core.state import DONE, N_CLUSTERS
from nrmmix.kernels.measure.weights import log_join_weights
from nrmmix.kernels.predictive import draw_measure
from nrmmix.model.prior_predictive import _partitions
from nrmmix.posterior.predict.rows import CovariateWeights, prediction_rows
from nrmmix.posterior.predict.states import states_of

CHAINS, DRAWS = 16, 4000
FAMILY = {"m": np.array([0.0]), "r": 0.4, "nu": 3.0, "scale": np.array([[0.6]])}
Y = np.array([-0.6, 0.5, 0.7, -1.2, 1.4, 0.1, -2.0])
POINTS = np.array([-1.0, 0.3, 2.5])


def log_marginal(block, y=Y):
    return gaussian_log_marginal(np.asarray(y)[block][:, None], **FAMILY)


def clusters_of(labels):
    return [[i for i in range(len(labels)) if labels[i] == c] for c in range(max(labels) + 1)]


# ---- laws of partitions


PRIORS = {
    "PY-0.2": (nm.PitmanYor(1.0, 0.2), lambda s: urn_log_eppf(s, 1.0, 0.2)),
    "PY-0.6": (nm.PitmanYor(0.7, 0.6), lambda s: urn_log_eppf(s, 0.7, 0.6)),
    "PY-negative": (nm.PitmanYor(-0.15, 0.3), lambda s: urn_log_eppf(s, -0.15, 0.3)),
    "PY-zero": (nm.PitmanYor(0.0, 0.4), lambda s: urn_log_eppf(s, 0.0, 0.4)),
    "PY-Dirichlet": (nm.PitmanYor(1.3, 0.0), lambda s: nrm_log_eppf(s, 1.3, 0.0)),
    "stable": (nm.NormalizedStable(0.4), lambda s: urn_log_eppf(s, 0.0, 0.4)),
    "finite-1": (nm.FiniteMixture(1), lambda s: dirichlet_log_eppf(s, 1, 1.0)),
    "finite-2": (nm.FiniteMixture(2), lambda s: dirichlet_log_eppf(s, 2, 1.0)),
    "finite-4": (nm.FiniteMixture(4, 6.0), lambda s: dirichlet_log_eppf(s, 4, 6.0)),
    "finite-9": (nm.FiniteMixture(9, 0.8), lambda s: dirichlet_log_eppf(s, 9, 0.8)),
    "NGGP-0": (nm.NGGP(1.3, 0.0), lambda s: nrm_log_eppf(s, 1.3, 0.0)),  # u in the state, of which the Dirichlet process has none
    "PY-as-NGGP": (nm.NGGP(nm.Gamma(1.0 / 0.4, 1 / 0.4), 0.4), lambda s: urn_log_eppf(s, 1.0, 0.4)),
}


def possible(posterior):
    """Without partitions of probability 0, which a sampler must never visit."""
    return {state: p for state, p in posterior.items() if p > 0}


def mixture(prior, n=6):
    return nm.Model(data=Y[:n, None], prior=prior, family=nm.Gaussian(**FAMILY))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("n", [5, 7])
def test_laws_sum_to_one(prior, n):
    _, log_eppf = PRIORS[prior]
    total = sum(math.exp(log_eppf([len(b) for b in clusters_of(labels)])) for labels in partitions(n))
    assert total == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("prior", PRIORS)
def test_partition_posterior(prior):
    measure, log_eppf = PRIORS[prior]
    fit = mixture(measure).fit("gibbs", draws=DRAWS, tune=200, chains=CHAINS, rng=3)
    exact = possible(partition_posterior(6, log_eppf, log_marginal))
    distance, limit = total_variation(exact, fit.draws["labels"])
    assert limit < 0.04, "too few draws to tell"
    assert distance < limit or len(exact) == 1


@kernel
def _forgetful(data, state, i, rng):
    """Gibbs that forgets how many clusters there are."""
    K, k_old = state.num[N_CLUSTERS], state.labels[i]
    alone = state.size[k_old] == 1
    own = -1 if alone else k_old
    p = state.score
    log_join_weights(state, K, 0, own)
    score_columns(data, state.stat, state.work, p, K, i, own)
    new = k_old if alone else K
    p[new] = data.log_prior_predictive[i] + state.log_new[0] + state.log_next[1]
    k = draw_index(p, K if alone else K + 1, rng.random())
    if k == k_old:
        return DONE
    last = K - 1
    detach(data, state, i)
    if alone and k == last:
        k = k_old
    attach(data, state, i, k)
    return DONE


@entry(MOVE_T)
def forgetful_sweep(data, state, memory, rng):
    for i in range(state.labels.shape[0]):
        _forgetful(data, state, i, rng)
    return DONE


class ForgetfulGibbs(nm.Gibbs):
    entry = forgetful_sweep


@pytest.mark.parametrize("prior", ["PY-0.2", "finite-9", "stable"])
def test_a_sampler_that_forgets_the_number_of_clusters_is_rejected(prior):
    measure, log_eppf = PRIORS[prior]
    fit = mixture(measure).fit(ForgetfulGibbs(), draws=DRAWS, tune=200, chains=CHAINS, init="one", rng=3)
    distance, limit = total_variation(possible(partition_posterior(6, log_eppf, log_marginal)), fit.draws["labels"])
    assert distance > 2 * limit


def test_log_joint_is_the_enumerated_one():
    for measure, log_eppf in PRIORS.values():
        model = mixture(measure)
        if model.sampled:
            continue
        for labels in list(partitions(6))[::17]:
            blocks = clusters_of(labels)
            wanted = log_eppf([len(b) for b in blocks]) + sum(map(log_marginal, blocks))
            assert model.log_joint(labels) == (pytest.approx(wanted, abs=1e-7) if wanted > -math.inf else -math.inf)
    with pytest.raises(ValueError, match="u is integrated out of a Pitman-Yor process mixture"):
        mixture(nm.PitmanYor(1.0, 0.2)).log_joint([0] * 6, u=1.0)


def test_joint_of_the_stable_process_at_u():
    """The integral over u of the joint at u is that without u; and recorded joints are those of the recorded draws."""
    model = mixture(nm.NormalizedStable())
    labels, sigma = [0, 0, 1, 2, 2, 1], 0.4
    x = np.linspace(-40, 25, 1301)
    at_u = np.array([model.log_joint(labels, u=math.exp(t), sigma=sigma) + t for t in x])
    assert logsumexp(at_u) + math.log(x[1] - x[0]) == pytest.approx(model.log_joint(labels, sigma=sigma), abs=1e-9)
    for prior in (nm.NormalizedStable(), nm.PitmanYor(), nm.FiniteMixture(4, nm.Gamma(1, 1))):
        model = mixture(prior)
        fit = model.fit(draws=20, tune=20, chains=2, rng=1)
        for c, t in ((0, 0), (1, 17)):
            d = {name: values[c, t] for name, values in fit.draws.items()}
            given = {name: float(d[name]) for name in (*prior.parameters, *(["u"] if "u" in d else []))}
            assert model.log_joint(d["labels"], **given) == pytest.approx(float(d["log_joint"]), abs=1e-9)


# ---- sampled hyperparameters


@pytest.mark.parametrize("prior", HYPER)
def test_sampled_hyperparameters(prior):
    measure, mass_prior, sigma_prior, log_eppf = HYPER[prior]
    likelihood = Counter()  # summed over the partitions of the same sizes
    for labels in partitions(6):
        blocks = clusters_of(labels)
        likelihood[tuple(sorted(map(len, blocks)))] += math.exp(sum(map(log_marginal, blocks)))
    total = np.zeros(4)
    for mass, w in mass_nodes(mass_prior):
        for sigma, ws in sigma_nodes(sigma_prior):
            for sizes, p in likelihood.items():
                q = w * ws * p * math.exp(log_eppf(sizes, mass, sigma))
                total += q * np.array([1.0, mass, sigma, len(sizes)])
    fit = mixture(measure).fit(draws=DRAWS, tune=300, chains=CHAINS, rng=5)
    assert abs(z_score(fit.draws["n_clusters"].astype(float), total[3] / total[0])) < 4
    for name, value in (("mass", total[1] / total[0]), ("sigma", total[2] / total[0])):
        if name in fit.model.sampled:
            assert abs(z_score(fit.draws[name], value)) < 4
            assert fit.draws[name].mean(axis=1).std() < 0.1 * value, "too few draws to tell"
    assert fit.draws["n_clusters"].max() <= (measure.components or 6)


# ---- density regression


class StableJoint(KernelJoint):
    """tau = 0 and mass = sigma."""

    def __init__(self, K, group, sigma, **grid):
        super().__init__(K, group, sigma, sigma, **grid)
        A = [sum(self.v[g] * K[g, p] for g in range(len(K))) for p in range(K.shape[1])]
        self.log_b = [np.log(a) for a in A]
        self.total = sum(self.R0[p] * A[p] ** sigma / sigma for p in range(K.shape[1]))


class FiniteJoint:
    """M atoms with sizes Gamma(mass / M, 1) integrated out: all assignments of the rows to atoms, and all locations of all atoms."""

    def __init__(self, K, group, M, mass, points=161, lo=-30.0, hi=50.0):
        self.K, self.group, self.M, self.a = K, list(group), M, mass / M
        axis = np.linspace(lo, hi, points)
        log_v = np.meshgrid(*([axis] * len(K)), indexing="ij")
        n_g = np.bincount(self.group, minlength=len(K))
        self.base = sum(n_g[g] * log_v[g] - gammaln(n_g[g]) for g in range(len(K))) + len(K) * math.log(axis[1] - axis[0])
        self.log_b = [np.log1p(sum(np.exp(log_v[g]) * K[g, p] for g in range(len(K)))) for p in range(K.shape[1])]
        self._cache = {}

    def log_integral(self, atoms):
        """Over V, of a sorted tuple (size, location) of all atoms."""
        if atoms not in self._cache:
            f = self.base
            for size, p in atoms:
                f = f + gammaln(size + self.a) - gammaln(self.a) - (size + self.a) * self.log_b[p]
            self._cache[atoms] = logsumexp(f)
        return self._cache[atoms]

    def posterior(self, log_likelihood):
        """Of (labels, location of each observation)."""
        n, P = len(self.group), self.K.shape[1]
        logs = {}
        for z in itertools.product(range(self.M), repeat=n):
            number = {}
            labels = tuple(number.setdefault(m, len(number)) for m in z)
            sizes = np.bincount(z, minlength=self.M)
            for mu in itertools.product(range(P), repeat=self.M):
                reach = [self.K[self.group[i], mu[z[i]]] for i in range(n)]
                if min(reach) > 0:
                    log_p = self.log_integral(tuple(sorted(zip(sizes.tolist(), mu, strict=True)))) - self.M * math.log(P)
                    logs.setdefault(labels + tuple(mu[m] for m in z), []).append(log_p + np.log(reach).sum())
        summed = {state: logsumexp(values) + sum(map(log_likelihood, clusters_of(state[:n]))) for state, values in logs.items()}
        return summed


DESIGNS = {
    "se": ([0.0, 0.0, 1.0, 1.0], [0.0, 1.0], nm.SquaredExponential(0.7, locations=[0.0, 1.0])),
    "box": ([0.0, 0.0, 1.0, 1.0], [-0.5, 0.5, 1.5], nm.Box(0.8, locations=[-0.5, 0.5, 1.5])),
}


def kernel_matrix(kernel, groups, locations):
    d = np.abs(np.subtract.outer(groups, locations))
    width = kernel.widths[0]
    return (d < width).astype(float) if isinstance(kernel, nm.Box) else np.exp(-(d**2) / (2 * width**2))


def setting(design):
    x, locations, kernel = DESIGNS[design]
    groups, group = np.unique(x, return_inverse=True)
    return pd.DataFrame({"x": x, "y": Y[: len(x)]}), kernel_matrix(kernel, groups, locations), group, kernel


def regression(data, kernel, prior):
    return nm.Model("y ~ x", data, kernel=kernel, prior=prior, family=nm.Gaussian(**FAMILY))


def states(fit):
    return np.concatenate([fit.draws["labels"], fit.draws["locations"]], axis=-1)


def of_measure(K, group, **grid):
    """Each measure with the law that it should have, as log weights of (labels, locations)."""
    sigma = 0.4

    def pairs(joint):
        return {labels + tuple(where[c] for c in labels): joint.log_joint(labels, where) for labels, where in joint.states()}

    return {
        "PY": (nm.PitmanYor(0.9, sigma), lambda: pairs(KernelJoint(K, group, (0.9 / sigma, 1 / sigma), sigma, **grid))),
        "PY-Dirichlet": (nm.PitmanYor(1.3, 0.0), lambda: pairs(KernelJoint(K, group, 1.3, 0.0, **grid))),
        "stable": (nm.NormalizedStable(sigma), lambda: pairs(StableJoint(K, group, sigma, **grid))),
        "finite-2": (nm.FiniteMixture(2, 1.5), lambda: FiniteJoint(K, group, 2, 1.5, **grid).posterior(lambda block: 0.0)),
        "finite-3": (nm.FiniteMixture(3, 0.9), lambda: FiniteJoint(K, group, 3, 0.9, **grid).posterior(lambda block: 0.0)),
    }


MEASURES = tuple(of_measure(np.ones((2, 1)), [0, 1]))
SPREAD = {"stable": {"points": 281, "lo": -70.0, "hi": 70.0}}  # of V: without tilt its tails are those of powers


def with_likelihood(law, n, y=Y):
    return {s: value + sum(log_marginal(b, y) for b in clusters_of(s[:n])) for s, value in law.items()}


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("design", DESIGNS)
def test_partition_and_locations(design, measure):
    data, K, group, kernel = setting(design)
    prior, law = of_measure(K, group, **SPREAD.get(measure, {"points": 161}))[measure]
    fit = regression(data, kernel, prior).fit("gibbs", draws=DRAWS, tune=300, chains=CHAINS, rng=11)
    log_p = with_likelihood(law(), len(data))
    distance, limit = total_variation(normalised(list(log_p), list(log_p.values())), states(fit))
    assert limit < 0.045, "too few draws to tell"
    assert distance < limit


REGRESSION_HYPER = {
    "PY-mass": (nm.PitmanYor(nm.Gamma(2, 1), 0.4), GAMMA, 0.4),
    "PY-sigma": (nm.PitmanYor(0.9, nm.Beta(2, 2)), 0.9, stats.beta(2, 2)),
    "stable": (nm.NormalizedStable(nm.Beta(3, 2)), 0.0, stats.beta(3, 2)),
    "finite": (nm.FiniteMixture(3, nm.Gamma(2, 1)), GAMMA, 0.0),
}


@pytest.mark.parametrize("case", REGRESSION_HYPER)
def test_sampled_hyperparameters_of_density_regression(case):
    prior, mass_prior, sigma_prior = REGRESSION_HYPER[case]
    data, K, group, kernel = setting("se")
    grid = SPREAD.get(case, {"points": 101})
    total = np.zeros(4)
    for mass, w in mass_nodes(mass_prior, 40):
        for sigma, ws in sigma_nodes(sigma_prior, 10):
            if case == "finite":
                law = FiniteJoint(K, group, 3, mass, **grid).posterior(lambda block: 0.0)
            else:
                joint = StableJoint(K, group, sigma, **grid) if case == "stable" else KernelJoint(
                    K, group, (mass / sigma, 1 / sigma), sigma, **grid)
                law = {labels + tuple(where[c] for c in labels): joint.log_joint(labels, where) for labels, where in joint.states()}
            for state, log_p in with_likelihood(law, 4).items():
                total += w * ws * math.exp(log_p) * np.array([1.0, mass, sigma, max(state[:4]) + 1])
    fit = regression(data, kernel, prior).fit(draws=DRAWS, tune=300, chains=CHAINS, rng=9)
    assert abs(z_score(fit.draws["n_clusters"].astype(float), total[3] / total[0])) < 4
    for name, value in (("mass", total[1] / total[0]), ("sigma", total[2] / total[0])):
        if name in fit.model.sampled:
            assert abs(z_score(fit.draws[name], value)) < 4
            assert fit.draws[name].mean(axis=1).std() < 0.06 * value, "too few draws to tell"


def test_log_joint_of_density_regression():
    """Densities in V at one point, against the integrands of the references."""
    data, K, group, kernel = setting("se")
    labels, where, at = (0, 1, 0, 1), (1, 0), (1, 3)
    likelihood = sum(map(log_marginal, clusters_of(labels)))
    grid = {"points": 5, "lo": -1.0, "hi": 1.0}
    joint = KernelJoint(K, group, (0.9 / 0.4, 1 / 0.4), 0.4, **grid)
    log_v = [np.log(joint.v[g][at]) for g in range(2)]
    stable, finite = StableJoint(K, group, 0.4, **grid), FiniteJoint(K, group, 3, 0.9, **grid)
    of_finite = []  # the third atom anywhere, and the ways to name two clusters of three atoms
    for p in range(2):
        f = finite.base[at] - 2 * math.log(0.5) - 3 * math.log(2) + math.log(6)
        for size, q in ((2, where[0]), (2, where[1]), (0, p)):
            f += gammaln(size + 0.3) - gammaln(0.3) - (size + 0.3) * finite.log_b[q][at]
        of_finite.append(f + sum(math.log(K[group[i], where[labels[i]]]) for i in range(4)))
    for prior, wanted in (
        (nm.PitmanYor(0.9, 0.4), joint.log_integrand(labels, where)[at]),
        (nm.NormalizedStable(0.4), stable.log_integrand(labels, where)[at]),
        (nm.FiniteMixture(3, 0.9), logsumexp(of_finite)),
    ):
        found = regression(data, kernel, prior).log_joint(labels, v=np.exp(log_v), locations=where)
        assert found == pytest.approx(wanted - sum(log_v) + likelihood, abs=1e-10)


# ---- predictions


@pytest.mark.parametrize("prior", [name for name in PRIORS if name != "PY-as-NGGP"])
def test_predictive_weights_are_ratios_of_probabilities(prior):
    measure, log_eppf = PRIORS[prior]
    fit = mixture(measure).fit(draws=15, tune=20, chains=2, rng=2)
    states, covariates = states_of(fit.posterior, None), CovariateWeights(fit.model, prediction_rows(fit.model, None))
    for state, labels in zip(states, states.partitions(), strict=True):
        sizes = np.bincount(labels).tolist()
        longer = [[*sizes[:k], sizes[k] + 1, *sizes[k + 1 :]] for k in range(len(sizes))] + [[*sizes, 1]]
        wanted = np.exp([log_eppf(s) - log_eppf(sizes) for s in longer])
        np.testing.assert_allclose(state.weights(covariates)[0], wanted, atol=1e-8)


def by_chain(fit, evaluate):
    out = []
    for c in range(fit.draws.n_chains):
        one = nm.MCMCResult.__new__(nm.MCMCResult)
        one.__dict__ = dict(fit.__dict__)
        one.draws = type(fit.draws)({name: values[c : c + 1].copy() for name, values in fit.draws.items()})
        out.append(evaluate(one))
    return np.array(out)


def close(values, exact):
    error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    assert (error < 0.03 * exact).all(), "too few draws to tell"
    assert (np.abs(values.mean(axis=0) - exact) < 5 * error).all()


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("x_new", [0.0, 0.6])
def test_regression_density(measure, x_new):
    """Ratios of evidences, at a covariate of the training data and at another: one group more."""
    x, locations = np.array([0.0, 0.0, 1.0]), np.array([0.0, 1.0])
    kernel = nm.SquaredExponential(0.6, locations=locations)

    def evidence(values, y):
        groups, group = np.unique(values, return_inverse=True)
        grid = SPREAD.get(measure, {"points": 161}) if len(groups) == 2 else {"points": 81}
        if measure == "stable" and len(groups) == 3:
            grid = {"points": 101, "lo": -50.0, "hi": 50.0}
        law = of_measure(kernel_matrix(kernel, groups, locations), group, **grid)[measure][1]()
        return [logsumexp(list(with_likelihood(law, len(values), each).values())) for each in y]

    prior = of_measure(np.ones((2, 1)), [0, 1])[measure][0]
    exact = np.exp(np.array(evidence(np.append(x, x_new), [np.append(Y[:3], y) for y in POINTS])) - evidence(x, [Y[:3]])[0])
    fit = regression(pd.DataFrame({"x": x, "y": Y[:3]}), kernel, prior).fit(draws=300, tune=300, thin=6, chains=16, rng=2)
    rows = pd.DataFrame({"x": x_new, "y": POINTS})
    close(by_chain(fit, lambda one: np.exp(one.log_density(rows))), exact)


@pytest.mark.parametrize("kernel", [None, nm.SquaredExponential(0.05), nm.Box(0.2)])
@pytest.mark.parametrize("prior", [nm.PitmanYor(), nm.NormalizedStable(), nm.FiniteMixture(5), nm.FiniteMixture(200, nm.Gamma(1, 1))])
def test_weights_sum_to_one_in_every_draw(kernel, prior):
    data = nm.datasets.load_mcycle()
    fit = nm.fit("accel_g ~ 1" if kernel is None else "accel_g ~ times_ms", data, prior=prior, kernel=kernel,
                 draws=10, tune=50, chains=2, rng=1)
    new = None if kernel is None else pd.DataFrame({"times_ms": [2.4, 20.0, 33.3, 57.6]})
    covariates = CovariateWeights(fit.model, prediction_rows(fit.model, new))
    for state in states_of(fit.posterior, None):
        weights = state.weights(covariates)
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-6)
        if state.n_components - 1 == prior.components:
            assert (weights[:, -1] == 0).all()


@pytest.mark.parametrize("prior", [
    "PY-0.2", "PY-0.6", "PY-negative", "PY-zero", "PY-Dirichlet", "stable", "finite-2", "finite-4", "finite-9",
])
def test_measure_has_the_predictive_weights_as_its_mean(prior):
    """Given a partition normalised weights do not depend on u, and their means are the predictive weights."""
    measure, _ = PRIORS[prior]
    fit = mixture(measure).fit(init=[0, 0, 1, 1, 1, 0], draws=1, tune=0, chains=1, rng=1)
    (state,) = states_of(fit.posterior, None)
    covariates, K = CovariateWeights(fit.model, prediction_rows(fit.model, None)), state.n_components - 1
    rng, shares = np.random.default_rng(1), np.zeros((20_000, K))
    for t in range(len(shares)):
        weight, _, _, rest = draw_measure(state.data, state.state, fit.model.packed.n_theta, 0.02, rng)
        shares[t] = weight[:K] / (weight.sum() + rest.sum())
    wanted = state.weights(covariates)[0, :K]
    error = shares.std(axis=0, ddof=1) / math.sqrt(len(shares))
    # where all components are occupied, and the shares of two sum to 1, the error is that of one of them
    assert (np.abs(shares.mean(axis=0) - wanted) < 4.5 * error).all()
    assert (error < 0.015 * wanted).all(), "too few draws to tell"


@pytest.mark.parametrize("measure", ["PY", "stable", "finite-3"])
@pytest.mark.parametrize("with_kernel", [False, True])
def test_random_measure_has_the_estimate_as_its_mean(measure, with_kernel):
    """Averages over draws of the random measure given one recorded state of u or v, over many states."""
    prior = of_measure(np.ones((2, 1)), [0, 1])[measure][0]
    data = pd.DataFrame({"x": [0.0, 0.0, 1.0, 1.0, 0.5], "y": Y[:5]})
    kernel = nm.SquaredExponential(0.6, locations=[0.0, 1.0]) if with_kernel else None
    model = nm.Model("y ~ x" if with_kernel else "y ~ 1", data, prior=prior, kernel=kernel, family=nm.Gaussian(**FAMILY))
    fit = model.fit(draws=800, tune=300, thin=5, chains=4, rng=3)
    new = pd.DataFrame({"x": [0.2]})
    table = fit.predict(new, kind="mean", draws=3200, interval=0.9)
    states, covariates = states_of(fit.posterior, None), CovariateWeights(model, prediction_rows(model, new))
    points, sampled = states.points(None, np.zeros((1, 0))), []
    for state, seed in zip(states, np.random.SeedSequence(5).spawn(len(states)), strict=True):
        atoms = state.measure(seed)
        values = model.family.means(atoms.means(points)[0])
        share, rest = atoms.shares(covariates)
        sampled.append(float((share @ values)[0, 0] + rest[0] * FAMILY["m"][0]))
    sampled = np.array(sampled).reshape(8, -1)
    error = sampled.mean(axis=1).std(ddof=1) / math.sqrt(8)
    assert abs(sampled.mean() - float(table["estimate"].iloc[0])) < 4 * error + 0.002
    np.testing.assert_allclose(np.quantile(sampled, [0.05, 0.95]), table[["lower", "upper"]].iloc[0], atol=0.08)


def test_pitman_yor_predicts_as_the_generalised_gamma_process_with_a_gamma_mass():
    theta, sigma = 0.8, 0.5
    densities = [
        by_chain(mixture(prior).fit(draws=250, tune=200, thin=6, chains=16, rng=seed), lambda one: np.exp(one.log_density(POINTS[:, None])))
        for seed, prior in ((1, nm.PitmanYor(theta, sigma)), (2, nm.NGGP(nm.Gamma(theta / sigma, 1 / sigma), sigma)))
    ]
    means = [values.mean(axis=0) for values in densities]
    error = np.sqrt(sum(values.var(axis=0, ddof=1) / len(values) for values in densities))
    assert (np.abs(means[0] - means[1]) < 4.5 * error).all()
    assert (error < 0.03 * means[0]).all(), "too few draws to tell"


# ---- what the prior says


@pytest.mark.parametrize("prior", [*(name for name in PRIORS if "NGGP" not in name), *HYPER])
def test_prior_law_of_the_number_of_clusters(prior):
    n = 7
    if prior in PRIORS:
        measure, log_eppf = PRIORS[prior]
        nodes = [(1.0, log_eppf)]
    else:
        measure, mass_prior, sigma_prior, general = HYPER[prior]
        nodes = [
            (w * ws, lambda s, mass=mass, sigma=sigma: general(s, mass, sigma))
            for mass, w in mass_nodes(mass_prior) for sigma, ws in sigma_nodes(sigma_prior, 20)
        ]
    count = Counter(tuple(sorted(map(len, clusters_of(labels)))) for labels in partitions(n))
    law = np.zeros(n)
    for weight, log_eppf in nodes:
        for sizes, times in count.items():
            law[len(sizes) - 1] += weight * times * math.exp(log_eppf(sizes))
    found = mixture(measure, n).prior_n_clusters()
    np.testing.assert_allclose(found, law[: len(found)], atol=2e-6)
    assert law[len(found) :].sum() < 2e-9 and found.sum() == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("prior", [nm.PitmanYor(), nm.PitmanYor(nm.Gamma(0.05, 0.05), 0.5), nm.FiniteMixture(30, nm.Gamma(50, 1)),
                                   nm.NormalizedStable(), nm.FiniteMixture(10**6, 2.0), nm.PitmanYor(5e11, 0.1)])
def test_laws_of_many_rows_sum_to_one(prior):
    model = nm.Model(data=np.random.default_rng(0).normal(size=(400, 1)), prior=prior)
    assert model.prior_n_clusters().sum() == pytest.approx(1.0, abs=1e-8)


@pytest.mark.parametrize("prior", ["PY-0.6", "PY-negative", "stable", "finite-4"])
def test_partitions_from_the_prior(prior):
    measure, log_eppf = PRIORS[prior]
    drawn = np.array([labels for labels, _, _ in _partitions(mixture(measure, 5), 16_000, np.random.SeedSequence(3))])
    exact = possible(partition_posterior(5, log_eppf, lambda block: 0.0))
    distance, limit = total_variation(exact, drawn.reshape(16, -1, 5))
    assert limit < 0.04, "too few draws to tell"
    assert distance < limit


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("design", DESIGNS)
def test_partitions_and_locations_from_the_prior(design, measure):
    data, K, group, kernel = setting(design)
    prior, law = of_measure(K, group, **SPREAD.get(measure, {"points": 161}))[measure]
    exact = law()
    if "finite" not in measure:  # a finite measure may have no atom in reach of a row
        assert logsumexp(list(exact.values())) == pytest.approx(0.0, abs=1e-4)
    model = regression(data, kernel, prior)
    drawn = np.array([
        np.concatenate([labels, where[labels]]) for labels, where, _ in _partitions(model, 16_000, np.random.SeedSequence(4))
    ])
    distance, limit = total_variation(normalised(list(exact), list(exact.values())), drawn.reshape(16, -1, 8))
    assert limit < 0.06, "too few draws to tell"
    assert distance < limit
