"""Pitman-Yor, normalised stable and finite measures against enumeration and quadrature, for mixtures and density regression.

Probabilities of partitions come from definitions other than those the package computes with: the Pitman-Yor urn row by row, a gamma
process or Dirichlet weights integrated over, and sums over the locations of all atoms of a finite measure.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from exact.enumeration import (
    KernelJoint,
    normalised,
    partition_posterior,
    partitions,
    total_variation,
    z_score,
)
from exact.hyperparameters import GAMMA, mass_nodes, sigma_nodes
from exact.hyperparameters import HYPER_OF_PARTITIONS as HYPER
from exact.priors import (
    DESIGNS,
    MEASURES,
    PRIORS,
    SPREAD,
    FiniteJoint,
    StableJoint,
    clusters_of,
    log_marginal,
    mixture,
    of_measure,
    possible,
    regression,
    setting,
    states,
    with_likelihood,
)
from scipy import stats
from scipy.special import gammaln, logsumexp
from support.cover import each_once, only
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.kernels.core.clusters import attach, detach, score_columns
from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import draw_index
from nrmmix.kernels.core.state import DONE, Count
from nrmmix.kernels.measure.weights import log_join_weights

CHAINS, DRAWS = 16, by_day(2500)


# ---- laws of partitions


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
    assert limit < coarser(0.04), "too few draws to tell"
    assert distance < limit or len(exact) == 1


@kernel
def _forgetful(data, state, i, rng):
    """Gibbs that forgets how many clusters there are."""
    K, k_old = state.num[Count.CLUSTERS], state.labels[i]
    alone = state.size[k_old] == 1
    own = -1 if alone else k_old
    p = state.scratch.score
    log_join_weights(data, state, K, 0, own)
    score_columns(data, state.stat, state.scratch.work, p, K, i, own)
    new = k_old if alone else K
    p[new] = data.log_prior_predictive[i] + state.cache.log_new[0] + state.cache.log_next[1]
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
    fit = mixture(measure).fit(ForgetfulGibbs(), draws=2_500, tune=200, chains=CHAINS, init="one", rng=3)
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
            assert fit.draws[name].mean(axis=1).std() < coarser(0.1 * value), "too few draws to tell"
    assert fit.draws["n_clusters"].max() <= (measure.components or 6)


# ---- density regression


@pytest.mark.parametrize(("design", "measure"), only(each_once(DESIGNS, MEASURES), ("se", "stable")))
def test_partition_and_locations(design, measure):
    data, K, group, kernel = setting(design)
    prior, law = of_measure(K, group, **SPREAD.get(measure, {"points": 161}))[measure]
    fit = regression(data, kernel, prior).fit("gibbs", draws=DRAWS, tune=300, chains=CHAINS, rng=11)
    log_p = with_likelihood(law(), len(data))
    distance, limit = total_variation(normalised(list(log_p), list(log_p.values())), states(fit))
    assert limit < coarser(0.045), "too few draws to tell"
    assert distance < limit


REGRESSION_HYPER = {
    "PY-mass": (nm.PitmanYor(nm.Gamma(2, 1), 0.4), GAMMA, 0.4),
    "PY-sigma": (nm.PitmanYor(0.9, nm.Beta(2, 2)), 0.9, stats.beta(2, 2)),
    "stable": (nm.NormalizedStable(nm.Beta(3, 2)), 0.0, stats.beta(3, 2)),
    "finite": (nm.FiniteMixture(3, nm.Gamma(2, 1)), GAMMA, 0.0),
}


@pytest.mark.parametrize("case", only(REGRESSION_HYPER, "finite"))
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
            assert fit.draws[name].mean(axis=1).std() < coarser(0.06 * value), "too few draws to tell"


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
