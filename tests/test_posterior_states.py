"""Predictions from states that are plain NumPy: normal mixtures with given weights, against closed forms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import nrmmix as nm
from nrmmix.model.families.distributions import Normal
from nrmmix.posterior.predict import membership
from nrmmix.posterior.predict.densities import log_terms
from nrmmix.posterior.predict.functionals import Cdf, Density, MarginalDensity, Mean, Quantile, over_cases, over_rows
from nrmmix.posterior.predict.rows import prediction_rows
from nrmmix.posterior.predict.simulate import replicates

S, R0 = 12, 0.25  # states; weight of the prior mean 0 in observations, of which each has variance 1
WIDTH, LOCATIONS = 0.7, np.array([0.0, 1.0])
DATA = pd.DataFrame({"x": [0.0, 0.0, 1.0, 1.0, 0.5], "y": [-2.0, -1.5, 1.0, 1.4, 1.2]})
FAMILY = nm.Gaussian(known_covariance=[[1.0]], m=0.0, r=R0)
SEED = np.random.SeedSequence(1)


class Normals:
    """Normal components."""

    def __init__(self, mean, sd):
        self.mean, self.sd = mean, sd
        self.n_components = len(mean)

    def log_densities(self, points):
        return stats.norm.logpdf(points, self.mean, self.sd)

    def means(self, points):
        return np.broadcast_to(self.mean[:, None], (len(points), self.n_components, 1))

    def distributions(self, inputs):
        return [Normal(self.mean[None], self.sd[None])]


class PlainMeasure(Normals):
    """Its atoms are the clusters, moved; its rest is what a new cluster had."""

    def __init__(self, state, shift):
        super().__init__(state.mean[:-1] + shift, np.ones(state.n_components - 1))
        self.state, self.theta = state, self.mean[None]

    def shares(self, covariates):
        weights = self.state.weights(covariates)
        return weights[:, :-1], weights[:, -1]

    def seen_from(self, covariates):
        return self


class PlainState(Normals):
    def __init__(self, s):
        rng = np.random.default_rng([s, 5])
        K = 2 + s % 2
        super().__init__(np.append(rng.normal(0, 2, K), 0.0), np.append(1 + rng.random(K) / 2, np.sqrt(1 + 1 / R0)))
        self.weight, self.location = rng.dirichlet(np.ones(K + 1)), rng.integers(0, 2, K + 1)
        self.shift = rng.normal()
        self.labels = np.append(np.arange(K), rng.integers(0, K, len(DATA) - K))

    def weights(self, covariates):
        kernel = covariates.at(np.array([WIDTH]))
        weights = self.weight * (kernel[:, self.location] if kernel.shape[1] > 1 else kernel)
        return weights / weights.sum(axis=1, keepdims=True)

    def measure(self, rng):
        return PlainMeasure(self, self.shift)

    def new_components(self, size, rng):
        return rng.normal(0, np.sqrt(1 / R0), (1, size))

    def exactly(self, x):
        """Weights at a covariate row, from the definition; without one these are `weight`."""
        weight = self.weight if x is None else self.weight * np.exp(-0.5 * ((x - LOCATIONS[self.location]) / WIDTH) ** 2)
        return weight / weight.sum()


class PlainStates:
    most_clusters, most_atoms = 3, 3

    def __init__(self, regression):
        kernel = nm.SquaredExponential(WIDTH, locations=LOCATIONS, scale=None) if regression else None
        self.model = nm.Model("y ~ x" if regression else "y ~ 1", DATA, kernel=kernel, family=FAMILY)
        self.states = [PlainState(s) for s in range(S)]

    def __len__(self):
        return S

    def __iter__(self):
        return iter(self.states)

    def points(self, y, inputs):
        return np.zeros((len(inputs), 1)) if y is None else y

    def partitions(self):
        return (state.labels for state in self.states)


@pytest.fixture(params=[False, True], ids=["mixture", "regression"])
def states(request):
    return PlainStates(request.param)


X = [0.5, 0.0, 0.5, 0.9]  # rows that predictions are wanted for, two of them alike


def exact(states, x, of_normal):
    """Estimate and band of the average of a function of a normal's mean and standard deviation."""
    estimates, drawn = [], []
    for state in states:
        weight = state.exactly(x)
        values = of_normal(state.mean, state.sd)
        estimates.append(weight @ values)
        drawn.append(weight[:-1] @ of_normal(state.mean[:-1] + state.shift, np.ones(len(weight) - 1)) + weight[-1] * values[-1])
    return [np.mean(estimates), *np.quantile(drawn, [0.1, 0.9])]


def cases(states):
    """Rows of predictions, and the covariate of each case."""
    rows = prediction_rows(states.model, pd.DataFrame({"x": X}))
    return rows, rows.covariates[:, 0] if states.model.is_regression else [None]


def by_cases(states, make):
    functional = make(np.zeros((1, 0)))
    return over_cases(make, functional.W, states, cases(states)[0], 0.8, SEED)


AT = np.array([-1.0, 0.2, 3.0])


@pytest.mark.parametrize(("kind", "of_normal"), [
    ("density", lambda y: lambda mean, sd: stats.norm.pdf(y, mean, sd)),
    ("marginal", lambda y: lambda mean, sd: stats.norm.pdf(y, mean, sd)),
    ("cdf", lambda y: lambda mean, sd: stats.norm.cdf(y, mean, sd)),
    ("mean", lambda y: lambda mean, sd: mean),
])
def test_functionals(states, kind, of_normal):
    make = {
        "density": lambda inputs: Density(states, AT[:, None], inputs),
        "marginal": lambda inputs: MarginalDensity(AT, np.zeros(3, int), inputs),
        "cdf": lambda inputs: Cdf(AT, np.zeros(3, int), inputs),
        "mean": lambda inputs: Mean(states, np.array([0]), inputs),
    }[kind]
    wanted = [[exact(states, x, of_normal(y)) for y in AT[: 1 if kind == "mean" else None]] for x in cases(states)[1]]
    np.testing.assert_allclose(by_cases(states, make), wanted, rtol=1e-10)


def test_quantiles(states):
    """Those of the averaged distribution function, and of each drawn measure's for the band."""
    q = np.array([0.1, 0.5, 0.8])
    found = by_cases(states, lambda inputs: Quantile(states, np.array([0]), q, inputs))
    for x, table in zip(cases(states)[1], found, strict=True):
        for p, row in zip(q, table, strict=True):
            def inverse(cdfs, p=p):
                return optimize.brentq(lambda y: np.mean([cdf(y) for cdf in cdfs]) - p, -100, 100)

            of_states = [mixture_cdf(state.exactly(x), state.mean, state.sd) for state in states]
            of_measures = [measure_cdf(state, x) for state in states]
            wanted = [inverse(of_states), *np.quantile([inverse([cdf]) for cdf in of_measures], [0.1, 0.9])]
            np.testing.assert_allclose(row, wanted, atol=2e-3)  # the grid is that fine


def mixture_cdf(weight, mean, sd):
    return lambda y: stats.norm.cdf(np.asarray(y)[..., None], mean, sd) @ weight


def measure_cdf(state, x):
    of_atoms = np.ones(state.n_components - 1)
    return mixture_cdf(state.exactly(x), np.append(state.mean[:-1] + state.shift, 0.0), np.append(of_atoms, state.sd[-1]))


def test_densities_at_rows(states):
    """At each row's own response and covariates."""
    rows, y = prediction_rows(states.model, pd.DataFrame({"x": X})), np.array([0.3, -1.0, 2.0, 0.0])
    positions = np.array([3, 0, 2])
    covariate = [X[i] if states.model.is_regression else None for i in positions]
    wanted = [exact(states, x, lambda m, sd, at=at: stats.norm.pdf(at, m, sd)) for x, at in zip(covariate, y[positions], strict=True)]
    for make in (
        lambda part, inputs: Density(states, y[positions[part], None], inputs, True),
        lambda part, inputs: MarginalDensity(y[positions[part]], np.zeros(len(part), int), inputs, True),
    ):
        np.testing.assert_allclose(over_rows(make, positions, states, rows, 0.8, SEED), wanted, rtol=1e-10)
    total = np.mean([np.exp(terms).sum(axis=1) for terms in log_terms(states, rows.take(positions), y[positions, None])], axis=0)
    np.testing.assert_allclose(total, np.array(wanted)[:, 0], rtol=1e-10)


def test_clusters(states):
    estimate, y = np.array([0, 0, 1, 1, 1]), np.array([-1.0, 0.0, 2.0, 14.0])
    rows = prediction_rows(states.model, pd.DataFrame({"x": X}))
    total, companions = np.zeros((4, 3)), np.zeros(5)
    for state in states:
        for i, (x, at) in enumerate(zip(X, y, strict=True)):
            p = state.exactly(x if states.model.is_regression else None) * stats.norm.pdf(at, state.mean, state.sd)
            for k, of_cluster in enumerate(p[:-1]):
                total[i, :2] += of_cluster * np.bincount(estimate[state.labels == k], minlength=2) / (state.labels == k).sum()
            total[i, 2] += p[-1]
        for i, own in enumerate(state.labels):
            others = (state.labels == own) & (np.arange(5) != i)
            companions[i] += (estimate[others] == estimate[i]).mean() / S if others.any() else 0.0
    found = membership.of_rows(states, estimate, rows, y[:, None])
    assert found["cluster"].tolist() == np.where(total.argmax(axis=1) == 2, -1, total.argmax(axis=1)).tolist()
    assert found["cluster"].iloc[3] == -1
    np.testing.assert_allclose(found["probability"], (total / total.sum(axis=1, keepdims=True)).max(axis=1))
    fitted = membership.of_training_rows(states, estimate)
    np.testing.assert_allclose(fitted["probability"], companions)
    assert fitted["cluster"].tolist() == estimate.tolist()


@pytest.mark.nightly
def test_replicates(states):
    """Of one row, so that replicates are independent: from the measures of all states alike."""
    x = 0.9
    rows = prediction_rows(states.model, pd.DataFrame({"x": [x]}))
    drawn = replicates(states, rows, [None], 500 * S, np.random.SeedSequence(3))["y"].to_numpy()
    cdfs = [measure_cdf(state, x if states.model.is_regression else None) for state in states]
    assert stats.kstest(drawn, lambda y: np.mean([cdf(y) for cdf in cdfs], axis=0)).pvalue > 0.005
    without_rest = [mixture_cdf(state.exactly(None)[:-1], state.mean[:-1], state.sd[:-1]) for state in states]
    assert stats.kstest(drawn, lambda y: np.mean([cdf(y) for cdf in without_rest], axis=0)).pvalue < 1e-6
