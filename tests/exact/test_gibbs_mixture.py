"""Collapsed Gibbs for mixtures against all partitions of 6 and 7 observations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact.enumeration import (
    LOG_U,
    gaussian_log_marginal,
    nrm_log_eppf,
    partition_posterior,
    psi1,
    total_variation,
    z_score,
)
from scipy import stats
from scipy.special import gammaln

import nrmmix as nm
from nrmmix.kernels.core.clusters import attach, detach, score_columns
from nrmmix.kernels.core.entry import MOVE_T, entry
from nrmmix.kernels.core.jit import kernel
from nrmmix.kernels.core.special import draw_index
from nrmmix.kernels.core.state import DONE, N_CLUSTERS
from nrmmix.kernels.moves.gibbs import prior_weights

CHAINS, DRAWS = 16, 25_000


def observations(n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(100 * n + d)
    return np.concatenate([rng.normal(size=(n // 2, d)), 1.5 + 0.5 * rng.normal(size=(n - n // 2, d))])


def base(d: int) -> dict:
    scale = np.eye(d) + (0.3 if d > 1 else 0.0) * (np.ones((d, d)) - np.eye(d))
    return {"m": np.full(d, 0.5), "r": 0.3, "nu": d + 2.0, "scale": scale}


PRIORS = {
    "DP": (nm.DirichletProcess(1.0), 1.0, 0.0),
    "NGGP-0.2": (nm.NGGP(0.8, 0.2), 0.8, 0.2),
    "NGGP-0.6": (nm.NGGP(0.8, 0.6), 0.8, 0.6),
    "NGGP-tau": (nm.NGGP(0.5, 0.4, tau=2.5), 0.5, 0.4),
    "NIG": (nm.NormalizedInverseGaussian(0.7), 0.7, 0.5),
}


def posterior(X: np.ndarray, family: dict, mass: float, sigma: float, tau: float = 1.0) -> dict:
    return partition_posterior(
        len(X), lambda sizes: nrm_log_eppf(sizes, mass, sigma, tau), lambda b: gaussian_log_marginal(X[b], **family)
    )


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("n", [6, 7])
@pytest.mark.parametrize("prior", PRIORS)
def test_partition_posterior(prior, n, d):
    measure, mass, sigma = PRIORS[prior]
    X, family = observations(n, d), base(d)
    model = nm.Model(data=X, prior=measure, family=nm.Gaussian(**family))
    fit = model.fit("gibbs", draws=DRAWS, tune=200, chains=CHAINS, rng=n + d)
    distance, limit = total_variation(posterior(X, family, mass, sigma, measure.tau), fit.draws["labels"])
    assert limit < 0.017, "too few draws to tell"
    assert distance < limit


@kernel
def _biased(data, state, i, rng):
    """Gibbs that forgets to take the observation out of its own cluster's size: n_c for n_c - 1."""
    K, k_old = state.num[N_CLUSTERS], state.labels[i]
    alone = state.size[k_old] == 1
    own = -1 if alone else k_old
    p = state.score
    prior_weights(state, K, 0, -1)
    score_columns(data, state.stat, state.work, p, K, i, own)
    new = k_old if alone else K
    p[new] = data.log_prior_predictive[i] + state.log_new[0]
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
def biased_sweep(data, state, memory, rng):
    for i in range(state.labels.shape[0]):
        _biased(data, state, i, rng)
    return DONE


class BiasedGibbs(nm.Gibbs):
    entry = biased_sweep


@pytest.mark.parametrize("prior", ["DP", "NGGP-0.6"])
def test_biased_sampler_is_rejected(prior):
    measure, mass, sigma = PRIORS[prior]
    X, family = observations(6, 1), base(1)
    model = nm.Model(data=X, prior=measure, family=nm.Gaussian(**family))
    fit = model.fit(BiasedGibbs(), draws=DRAWS, tune=200, chains=CHAINS, init="one", rng=7)
    distance, limit = total_variation(posterior(X, family, mass, sigma), fit.draws["labels"])
    assert distance > 2 * limit


def hyper_posterior(X, family, mass_prior, sigma_prior):
    """Posterior means of mass, sigma and K by quadrature over mass, sigma and u and enumeration of partitions."""
    n = len(X)
    sizes_of = {}
    for labels, p in partition_posterior(n, lambda sizes: 0.0, lambda b: gaussian_log_marginal(X[b], **family)).items():
        key = tuple(sorted(np.bincount(labels)))
        sizes_of[key] = sizes_of.get(key, 0.0) + p  # likelihood summed over the partitions of these sizes
    z = np.linspace(-14, 6, 161)  # log mass
    if sigma_prior is None:
        sigmas, sigma_weight = np.zeros(1), np.ones(1)
    elif isinstance(sigma_prior, float):
        sigmas, sigma_weight = np.array([sigma_prior]), np.ones(1)
    else:
        node, weight = np.polynomial.legendre.leggauss(48)
        sigmas = 0.5 * (node + 1)
        sigma_weight = weight / 2 * sigma_prior.pdf(sigmas)
    u = np.exp(LOG_U)
    total = np.zeros(4)
    for sigma, w in zip(sigmas, sigma_weight, strict=True):
        growth = psi1(u, sigma)
        for sizes, likelihood in sizes_of.items():
            K = len(sizes)
            s = np.array(sizes)
            f = n * LOG_U - (n - sigma * K) * np.log1p(u) + (gammaln(s - sigma) - gammaln(1 - sigma)).sum()
            # over mass at each u, then over u
            mass = np.exp(z)
            log_mass = mass_prior.logpdf(mass) + z + K * z
            values = np.exp(f[:, None] + log_mass[None, :] - growth[:, None] * mass[None, :])
            by_mass = values.sum(axis=0)
            m0, m1 = by_mass.sum(), (by_mass * mass).sum()
            total += w * likelihood * np.array([m0, m1, sigma * m0, K * m0])
    return total[1:] / total[0]


HYPER = {
    "DP": (nm.DirichletProcess(nm.Gamma(2, 1)), stats.gamma(2), None),
    "DP-lognormal": (nm.DirichletProcess(nm.LogNormal(0.2, 0.7)), stats.lognorm(0.7, scale=math.exp(0.2)), None),
    "NGGP": (nm.NGGP(nm.Gamma(2, 1), nm.Beta(1, 2)), stats.gamma(2), stats.beta(1, 2)),
    "NGGP-lognormal": (nm.NGGP(nm.LogNormal(0.2, 0.7), nm.Beta(2, 2)), stats.lognorm(0.7, scale=math.exp(0.2)), stats.beta(2, 2)),
    "NIG": (nm.NormalizedInverseGaussian(nm.Gamma(2, 1)), stats.gamma(2), 0.5),
}


@pytest.mark.parametrize("prior", HYPER)
def test_sampled_hyperparameters(prior):
    measure, mass_prior, sigma_prior = HYPER[prior]
    X, family = observations(6, 1), base(1)
    fit = nm.Model(data=X, prior=measure, family=nm.Gaussian(**family)).fit(draws=20_000, tune=500, chains=CHAINS, rng=5)
    mass, sigma, K = hyper_posterior(X, family, mass_prior, sigma_prior)
    assert abs(z_score(fit.draws["mass"], mass)) < 4
    assert abs(z_score(fit.draws["n_clusters"].astype(float), K)) < 4
    if "NGGP" in prior:
        assert abs(z_score(fit.draws["sigma"], sigma)) < 4
    assert fit.draws["mass"].mean(axis=1).std() < 0.05 * mass, "too few draws to tell"


@pytest.mark.parametrize("prior", PRIORS)
def test_prior_law_of_the_number_of_clusters(prior):
    """Components with all but known parameters: the likelihood is the same for every partition."""
    measure, mass, sigma = PRIORS[prior]
    n = 7
    X = observations(n, 1)
    family = nm.Gaussian(m=0.0, r=1e9, nu=1e9, scale=1e9)
    fit = nm.Model(data=X, prior=measure, family=family).fit(draws=DRAWS, tune=200, chains=CHAINS, rng=3)
    law = partition_posterior(n, lambda sizes: nrm_log_eppf(sizes, mass, sigma, measure.tau), lambda b: 0.0)
    by_count: dict[tuple[int], float] = {(k,): 0.0 for k in range(1, n + 1)}
    for labels, p in law.items():
        by_count[(max(labels) + 1,)] += p
    distance, limit = total_variation(by_count, fit.draws["n_clusters"][..., None])
    assert limit < 0.006, "too few draws to tell"
    assert distance < limit


def test_log_joint_is_the_enumerated_one():
    """Differences of `Model.log_joint` over partitions are those of the enumeration, u integrated out or given."""
    X, family = observations(6, 2), base(2)
    for measure, mass, sigma in PRIORS.values():
        model = nm.Model(data=X, prior=measure, family=nm.Gaussian(**family))
        for labels, p in list(posterior(X, family, mass, sigma, measure.tau).items())[::40]:
            sizes = np.bincount(labels)
            marginal = sum(gaussian_log_marginal(X[np.array(labels) == c], **family) for c in range(len(sizes)))
            assert model.log_joint(labels) == pytest.approx(marginal + nrm_log_eppf(sizes, mass, sigma, measure.tau), abs=1e-8)
            assert p > 0


def test_recorded_log_joint_is_that_of_the_model():
    X = observations(7, 2)
    for prior in (nm.DirichletProcess(), nm.NGGP()):
        fit = nm.Model(data=X, prior=prior).fit(draws=30, tune=30, chains=2, rng=2)
        for c, t in ((0, 0), (1, 17), (1, 29)):
            d = {name: values[c, t] for name, values in fit.draws.items()}
            hyper = {"mass": float(d["mass"])} | ({} if "u" not in d else {"sigma": float(d["sigma"]), "u": float(d["u"])})
            assert fit.model.log_joint(d["labels"], **hyper) == pytest.approx(float(d["log_joint"]), abs=1e-9)
