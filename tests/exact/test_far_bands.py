"""Draws of the random measure where data end, against the whole measure drawn by plain NumPy; and rows known to hold what is far away."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from support.cover import by_turns, only
from support.length import by_day

import nrmmix as nm
from nrmmix.posterior.given import weighted_band
from nrmmix.posterior.predict.rows import CovariateWeights, prediction_rows
from nrmmix.posterior.predict.states import states_of

FAMILY = {"m": 0.5, "r": 0.4, "nu": 5.0, "scale": 1.5}
X = np.array([0.0, 0.1, 0.3, 0.3, 4.6, 4.8, 5.0])
Y = np.array([-1.0, -1.3, -0.8, 1.5, 2.0, 2.2, 1.7])
PLACES, WIDTH = np.linspace(0.0, 5.0, 6), 0.7
AT = {"inside": 0.2, "gap": 2.4, "beyond": 9.0, "far": 40.0, "very far": 1e4}
PRIORS = {
    "gamma": nm.DirichletProcess(0.8), "NGGP, 0.2": nm.NGGP(0.8, 0.2), "NGGP, 0.35": nm.NGGP(0.8, 0.35), "finite": nm.FiniteMixture(7, 0.8),
}
DRAWS = by_day(1500)


def components(rng, members, size):
    """Means and precisions (size,) given some responses, from the normal-gamma law."""
    n, r, nu = len(members), FAMILY["r"], FAMILY["nu"]
    mean = members.mean() if n else 0.0
    centre = (r * FAMILY["m"] + n * mean) / (r + n)
    scale = FAMILY["scale"] + ((members - mean) ** 2).sum() + (r * n / (r + n) * (mean - FAMILY["m"]) ** 2 if n else 0.0)
    precision = rng.gamma((nu + n) / 2, 2 / scale, size)
    return centre + rng.normal(size=size) / np.sqrt((r + n) * precision), precision


def jumps(rng, c, sigma, log_from, log_to):
    """Logarithms and places of the jumps between two levels of Poisson processes of intensities c_p z^(-1-sigma) e^-z, by thinning."""
    span = log_to - log_from
    mean = c * span if sigma == 0 else c / sigma * math.exp(-sigma * log_to) * math.expm1(sigma * span)
    place = np.repeat(np.arange(len(c)), rng.poisson(mean))
    u = rng.random(len(place))
    log_size = log_from + span * u if sigma == 0 else log_to - np.log1p(u * math.expm1(sigma * span)) / sigma
    kept = rng.random(len(place)) < np.exp(-np.exp(log_size))
    return log_size[kept], place[kept]


def unseen(rng, state, prior, log_K):
    """Log weights and locations of unseen atoms: at every row of log_K (R, P) what is left out is 1e-6 of the weight there, or less.

    Levels go down until that is so, jumps above staying as they are: the law does not depend on where they end.
    """
    A, mass, sigma = state.state.cache.A, float(prior.mass), float(prior.sigma)
    P = len(A)
    if prior.components:
        M, K = prior.components, state.n_clusters
        share = (1 + A) ** (-mass / M)
        place = rng.choice(P, M - K, p=share / share.sum())
        log_size = np.log(rng.gamma(mass / M + 1, size=M - K)) + np.log(rng.random(M - K)) * M / mass
        return log_size - np.log1p(A[place]), place
    c = mass / P * (1 + A) ** sigma / math.gamma(1 - sigma)
    log_weight, place = np.zeros(0), np.zeros(0, np.int64)
    log_to = math.log(60.0)
    step = 12.0 if sigma == 0 else 2.0 / sigma
    while True:
        log_size, where = jumps(rng, c, sigma, log_to - step, log_to)
        log_weight, place = np.append(log_weight, log_size - np.log1p(A[where])), np.append(place, where)
        log_to -= step
        lost = np.log(c / (1 - sigma)) + (1 - sigma) * log_to - np.log1p(A)
        total = np.logaddexp.reduce(log_K[:, place] + log_weight, axis=1, initial=-np.inf)
        if (np.logaddexp.reduce(log_K + lost, axis=1) < total - 6 * math.log(10)).all():
            return log_weight, place


def fitted(prior):
    kernel = nm.SquaredExponential(WIDTH, locations=PLACES, scale=None)
    model = nm.Model("y ~ x", pd.DataFrame({"x": X, "y": Y}), kernel=kernel, prior=prior, family=nm.Gaussian(**FAMILY))
    return model.fit(init=[0, 0, 0, 1, 2, 2, 2], draws=1, tune=0, chains=1, rng=3)


@pytest.mark.parametrize("name", by_turns(PRIORS, 4, 1))
def test_draws_are_those_of_the_whole_measure(name):
    """Distribution of the mean and of the distribution function at a point over draws, inside the data, in a gap, and beyond."""
    prior = PRIORS[name]
    fit = fitted(prior)
    (state,) = states_of(fit.posterior, None)
    labels, x = fit.draws["labels"][0, 0], np.array(list(AT.values()))
    at, rows = 1.0, prediction_rows(fit.model, pd.DataFrame({"x": x}))
    covariates, points = CovariateWeights(fit.model, rows), state.points(None, np.zeros((1, 0)))
    found, wanted = np.zeros((2, DRAWS, 2, len(x)))
    for t, seed in enumerate(np.random.SeedSequence(1).spawn(DRAWS)):
        measure = state.measure(seed)
        if t % 2:
            measure = measure.seen_from(covariates)
        share, rest = measure.shares(covariates)
        np.testing.assert_allclose(share.sum(axis=1) + rest, 1.0, rtol=1e-9)
        (law,) = measure.distributions(np.zeros((1, 0)))
        (predictive,) = state.distributions(np.zeros((1, 0)))
        means = fit.model.blocks.means(measure.means(points), fit.model.packed)[0, :, 0]
        found[t, 0] = share @ means + rest * FAMILY["m"]
        found[t, 1] = share @ law.cdf(np.full((1, 1), at))[0] + rest * predictive.cdf(np.full((1, 1), at))[0, -1]

    rng, log_K = np.random.default_rng(2), -0.5 * ((x[:, None] - PLACES) / WIDTH) ** 2
    log_K -= log_K.max(axis=1, keepdims=True)
    b, sigma, K = 1 + state.state.cache.A, float(prior.sigma), state.n_clusters
    a = float(prior.mass) / prior.components if prior.components else -sigma
    place_of = state.state.location[:K]
    for t in range(DRAWS):
        log_weight, place = unseen(rng, state, prior, log_K)
        own = [rng.gamma((labels == k).sum() + a) / b[place_of[k]] for k in range(K)]
        drawn = [components(rng, Y[labels == k], 1) for k in range(K)] + [components(rng, Y[:0], len(place))]
        mean, precision = (np.concatenate(part) for part in zip(*drawn))
        log_share = log_K[:, np.append(place_of, place)] + np.append(np.log(own), log_weight)
        share = np.exp(log_share - log_share.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        wanted[t] = share @ mean, share @ special.ndtr((at - mean) * np.sqrt(precision))
    for r, where in enumerate(AT):
        for f in range(2):
            ours, exact = np.round(found[:, f, r], 8), np.round(wanted[:, f, r], 8)  # probabilities may be 1 but for rounding
            for part in (ours, ours[::2], ours[1::2]):
                assert stats.ks_2samp(part, exact).pvalue > 1e-4, (where, f)
    if name != "finite":
        # by their means lighter atoms would be next to nothing far away: what was drawn before
        assert (found[:, 0, 3:] == FAMILY["m"]).mean() == 0 and np.ptp(np.quantile(found[:, 0, 4], [0.05, 0.95])) > 1.0


@pytest.mark.nightly
@pytest.mark.parametrize("a_known", only([0.3, 3.0, 4.5], 3.0))
def test_band_given_what_is_far_from_the_data(a_known):
    """Dirichlet process, one observation: F ~ DP(mass + 1) by stick breaking, draws weighted by the density of what is known."""
    mass, y = 1.5, np.array([[0.4, -0.2]])
    family = nm.Gaussian("diagonal", m=[0.0, 0.0], r=0.5, nu=5.0, scale=[1.0, 1.0])
    fit = nm.Model("a + b ~ 1", pd.DataFrame(y, columns=["a", "b"]), prior=nm.DirichletProcess(mass), family=family).fit(
        draws=3000, tune=5, chains=1, rng=4)
    band = fit.predict({"a": [a_known]}, given="a", draws=3000, interval=0.8).iloc[0]

    rng, size, sticks = np.random.default_rng(0), 20_000, 30
    v = rng.beta(1, mass + 1, (size, sticks))
    weight = v * np.cumprod(np.hstack([np.ones((size, 1)), 1 - v[:, :-1]]), axis=1)
    seen = rng.random((size, sticks)) < 1 / (mass + 1)  # atoms at the observation's own component, which they share

    def normal_gamma(r, nu, scale, m, shape):
        precision = rng.gamma(nu / 2, 2 / scale, shape)
        return m + rng.normal(size=shape) / np.sqrt(r * precision), precision

    laws = []
    for own in y[0]:
        new = normal_gamma(0.5, 5.0, 1.0, 0.0, (size, sticks))
        one = normal_gamma(1.5, 6.0, 1.0 + 0.5 / 1.5 * own**2, own / 1.5, (size, 1))
        laws.append([np.where(seen, b, a) for a, b in zip(new, one)])
    (mean_a, precision_a), (mean_b, _) = laws
    density = weight * stats.norm.pdf(a_known, mean_a, 1 / np.sqrt(precision_a))
    total = density.sum(axis=1)
    value = (density * mean_b).sum(axis=1) / total
    lower, upper = weighted_band(value, total, 0.8)
    effective = total.sum() ** 2 / (total**2).sum()
    assert effective > 300
    spread = upper - lower
    # standard errors of the quantiles of both, at a density of 1 / (2 spread) or more at the ends
    error = 2 * spread * math.sqrt(0.1 * 0.9) * math.sqrt(1 / effective + 1 / 3000)
    assert abs(band["lower"] - lower) < 4 * error and abs(band["upper"] - upper) < 4 * error
    assert abs(band["estimate"] - np.average(value, weights=total)) < 4 * spread / math.sqrt(effective)
