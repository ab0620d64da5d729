"""Sticks and mass as one factor, against quadrature and draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import betaln, gammaln
from support.cover import by_turns

import nrmmix as nm
from nrmmix.model.priors.sticks import Sticks

COUNTS = {
    "three": [3.2, 2.1, 0.7], "one": [6.0], "empty last": [4.0, 2.0, 0.0], "fractions": [0.4, 0.3, 1e-3],
    "many": np.geomspace(900.0, 0.01, 80),
}
PRIORS = {
    "Gamma(1, 1)": nm.Gamma(1.0, 1.0), "Gamma(0.05, 2)": nm.Gamma(0.05, 2.0), "Gamma(1.5, 0.8)": nm.Gamma(1.5, 0.8),
    "Gamma(200, 0.1)": nm.Gamma(200.0, 0.1), "LogNormal(1, 2)": nm.LogNormal(1.0, 2.0), "LogNormal(-3, 0.1)": nm.LogNormal(-3.0, 0.1),
}


def log_given_mass(a, N):
    """log of prod_k a B(1 + N_k, a + N_>k): each stick integrated out by itself."""
    tail = np.cumsum(N[::-1])[::-1]
    return float(np.sum(math.log(a) + betaln(1.0 + N, a + tail - N)))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("counts", COUNTS)
def test_evidence_and_moments_against_quadrature(counts, prior):
    N, law = np.asarray(COUNTS[counts], float), PRIORS[prior]
    found = Sticks(law, N)
    ends = law.distribution.ppf([1e-290, 1 - 1e-16])
    u = np.linspace(math.log(max(ends[0], 1e-290)), math.log(ends[1]) + 5.0, 20_001)
    tail = np.cumsum(N[::-1])[::-1]
    f = law.distribution.logpdf(np.exp(u)) + u + len(N) * u + gammaln(np.exp(u)) - gammaln(np.exp(u) + tail[0])
    for t in tail:
        f -= np.log(np.exp(u) + t)
    top = f.max()
    p = np.exp(f - top)
    total = integrate.simpson(p, x=u)
    assert found.log_evidence == pytest.approx(gammaln(1 + N).sum() + top + math.log(total), abs=1e-8)
    assert found.expected_mass == pytest.approx(integrate.simpson(p * np.exp(u), x=u) / total, rel=1e-8)


def test_a_fixed_mass_against_the_formula():
    N = np.asarray(COUNTS["three"])
    assert Sticks(0.8, N).log_evidence == pytest.approx(log_given_mass(0.8, N), abs=1e-12)


def test_one_stick_by_quadrature():
    """The sticks themselves, and the mass, by brute force."""
    N, law = np.array([2.5, 1.5]), nm.Gamma(1.5, 0.8)

    def integrand(a):
        # both in x = v^a turned round, where the density of Beta(1, a) is flat
        first = integrate.quad(lambda x: (1 - x ** (1 / a)) ** N[0] * x ** (N[1] / a), 0, 1, epsabs=0, epsrel=1e-11)[0]
        second = integrate.quad(lambda x: (1 - x ** (1 / a)) ** N[1], 0, 1, epsabs=0, epsrel=1e-11)[0]
        return stats.gamma.pdf(a, 1.5, scale=1 / 0.8) * first * second

    want = math.log(integrate.quad(integrand, 0, 60, epsabs=0, epsrel=1e-9, limit=300)[0])
    assert Sticks(law, N).log_evidence == pytest.approx(want, abs=1e-7)


@pytest.mark.parametrize("mass", by_turns([0.9, nm.Gamma(1.0, 1.0)]))
def test_expectations_are_those_of_draws(mass):
    sticks, rng = Sticks(mass, np.array([5.3, 2.2, 0.6])), np.random.default_rng(1)
    drawn = [sticks.draw(rng) for _ in range(20_000)]
    w, left = np.array([one[0] for one in drawn]), np.array([one[1] for one in drawn])
    mean, rest = sticks.expected_weights
    assert mean.sum() + rest == pytest.approx(1.0, abs=1e-12)
    masses = [one[2] for one in drawn]
    for found, want in ((w, mean), (left, rest), (np.log(w), sticks.expected_log_weights), (masses, sticks.expected_mass)):
        error = np.std(found, axis=0) / math.sqrt(len(drawn))
        assert np.all(np.abs(np.mean(found, axis=0) - want) < 5 * error + 1e-12)


def test_expected_log_weights_are_the_gradient_of_the_evidence():
    N, e = np.array([5.3, 2.2, 0.6]), 1e-5
    for mass in (0.9, nm.Gamma(1.0, 1.0), nm.LogNormal(0.0, 1.0)):
        slopes = [
            (Sticks(mass, N + e * step).log_evidence - Sticks(mass, N - e * step).log_evidence) / (2 * e) for step in np.eye(3)
        ]
        assert Sticks(mass, N).expected_log_weights == pytest.approx(slopes, abs=1e-7)
