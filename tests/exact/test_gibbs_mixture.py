"""Collapsed Gibbs for mixtures against all partitions of 6 and 7 observations."""

from __future__ import annotations

import numpy as np
import pytest
from exact.enumeration import (
    gaussian_log_marginal,
    nrm_log_eppf,
    partition_posterior,
    total_variation,
    urn_log_eppf,
    z_score,
)
from exact.hyperparameters import HYPER, base, hyper_posterior, observations
from support.biased_gibbs import BiasedGibbs
from support.cover import by_turns, each_once
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.inference.mcmc.chain import Record, enter, new_chain
from nrmmix.inference.methods import CYCLES
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.moves import gibbs

CHAINS, DRAWS = 16, by_day(5_000)


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


@pytest.mark.parametrize(("prior", "n", "d"), each_once(PRIORS, [6, 7], [1, 2]))
def test_partition_posterior(prior, n, d):
    measure, mass, sigma = PRIORS[prior]
    X, family = observations(n, d), base(d)
    model = nm.Model(data=X, prior=measure, family=nm.Gaussian(**family))
    fit = model.fit("gibbs", draws=DRAWS, tune=200, chains=CHAINS, rng=n + d)
    distance, limit = total_variation(posterior(X, family, mass, sigma, measure.tau), fit.draws["labels"])
    assert limit < coarser(0.04), "too few draws to tell"
    assert distance < limit


@pytest.mark.parametrize("heat", by_turns([gibbs.HEATED_SWEEPS, 28, 10], 3, 2))
def test_sweeps_at_a_power_of_the_likelihood(heat):
    """Those of a start: where the power stays as it is their partitions have the prior times that power of the likelihood."""
    n, labels = 6, []
    X, family = observations(n, 2), base(2)
    power = 1.0 - (1.0 - gibbs.LOWEST_POWER) * heat / gibbs.HEATED_SWEEPS
    model = nm.Model(data=X, prior=nm.PitmanYor(0.8, 0.3), family=nm.Gaussian(**family))
    for seed in range(CHAINS):
        rng, rows = np.random.default_rng(seed), np.arange(n)
        chain = new_chain(model, CYCLES["gibbs"], np.zeros(n, np.int64), rng, Record.allocate(model, 1))
        chain.state.num[layout.Count.HEAT] = heat
        labels.append(np.empty((DRAWS // 2, n), int))
        for t in range(DRAWS // 2):
            assert enter(chain.data, chain.state, rows, rng) == layout.DONE
            labels[-1][t] = np.unique(chain.state.labels, return_inverse=True)[1]
    first = [[list(dict.fromkeys(row)).index(k) for k in row] for one in labels for row in one.tolist()]
    drawn = np.array(first).reshape(CHAINS, -1, n)

    def posterior_at(beta):
        return partition_posterior(n, lambda sizes: urn_log_eppf(sizes, 0.8, 0.3), lambda b: beta * gaussian_log_marginal(X[b], **family))

    law, other = posterior_at(power), posterior_at(1.0)
    distance, limit = total_variation(law, drawn)
    assert limit < coarser(0.05), "too few draws to tell"
    assert distance < limit < total_variation(other, drawn)[0]


@pytest.mark.parametrize("prior", ["DP", "NGGP-0.6"])
def test_biased_sampler_is_rejected(prior):
    measure, mass, sigma = PRIORS[prior]
    X, family = observations(6, 1), base(1)
    model = nm.Model(data=X, prior=measure, family=nm.Gaussian(**family))
    fit = model.fit(BiasedGibbs(), draws=5_000, tune=200, chains=CHAINS, init="one", rng=7)
    distance, limit = total_variation(posterior(X, family, mass, sigma), fit.draws["labels"])
    assert distance > 2 * limit


@pytest.mark.parametrize("prior", by_turns(HYPER))
def test_sampled_hyperparameters(prior):
    measure, mass_prior, sigma_prior = HYPER[prior]
    X, family = observations(6, 1), base(1)
    fit = nm.Model(data=X, prior=measure, family=nm.Gaussian(**family)).fit(draws=DRAWS, tune=500, chains=CHAINS, rng=5)
    mass, sigma, K = hyper_posterior(X, family, mass_prior, sigma_prior)
    assert abs(z_score(fit.draws["mass"], mass)) < 4
    assert abs(z_score(fit.draws["n_clusters"].astype(float), K)) < 4
    if "NGGP" in prior:
        assert abs(z_score(fit.draws["sigma"], sigma)) < 4
    assert fit.draws["mass"].mean(axis=1).std() < coarser(0.1 * mass), "too few draws to tell"


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
    assert limit < coarser(0.014), "too few draws to tell"
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
            hyper = {"mass": float(d["mass"]), "scale": d["scale"]}
            hyper |= ({} if "u" not in d else {"sigma": float(d["sigma"]), "u": float(d["u"])})
            assert fit.model.log_joint(d["labels"], **hyper) == pytest.approx(float(d["log_joint"]), abs=1e-9)
