"""The bound of variational inference against quadrature and enumeration, and what coordinate ascent, batches and merges do to it."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from exact.matrix import families
from scipy import integrate, stats
from scipy.special import betaln, gammaln, logsumexp
from support.cover import by_turns, each_once

import nrmmix as nm
from nrmmix.inference.variational import merges
from nrmmix.inference.variational.climb import Climb, Settings
from nrmmix.inference.variational.memory import Batches, Memory, visit
from nrmmix.inference.variational.start import of_labels, seeded
from nrmmix.inference.variational.stochastic import Descent
from nrmmix.posterior.factors import Factors, local_step
from nrmmix.posterior.partition import vi

WITHOUT = ("Gaussian, full, cells missing", "Gaussian, known covariance, cells missing", "semiconjugate Gaussian")
SIDES = [name for name in families() if name not in WITHOUT]
MASSES = {"fixed": 0.7, "gamma": nm.Gamma(1.5, 0.8)}


def partitions(n):
    def further(labels, K):
        if len(labels) == n:
            yield np.array(labels)
            return
        for k in range(K + 1):
            yield from further([*labels, k], max(K, k + 1))

    yield from further([], 0)


def log_evidence(case, mass):
    """log p(X), all partitions enumerated, the mass by the trapezoid."""
    of_rows = cache(lambda rows: case.log_marginal(list(rows)))
    u = np.linspace(-60.0, 6.0, 20_001)
    total = []
    for labels in partitions(case.n):
        K = labels.max() + 1
        sizes = np.bincount(labels)
        if isinstance(mass, float):
            of_mass = K * math.log(mass) + gammaln(mass) - gammaln(mass + case.n)
        else:
            a = np.exp(u)
            f = mass.distribution.logpdf(a) + u + K * u + gammaln(a) - gammaln(a + case.n)
            of_mass = logsumexp(f) + math.log(u[1] - u[0])
        total.append(of_mass + gammaln(sizes).sum() + sum(of_rows(tuple(np.flatnonzero(labels == k))) for k in range(K)))
    return logsumexp(total)


@pytest.mark.parametrize(("name", "mass"), by_turns(each_once(SIDES, MASSES), 3))
def test_the_bound_is_below_the_enumerated_evidence(name, mass):
    case = families()[name]
    model = case.build(nm.DirichletProcess(MASSES[mass]))
    exponential = model.exponential()
    best = -math.inf
    for labels in (np.zeros(case.n, int), np.arange(case.n) // 3, np.arange(case.n) % 2):
        memory = Memory(exponential, model.prior.mass, Batches(model.statistics(exponential), 3))
        memory.start(*of_labels(memory.batches.rows, labels))
        Climb(memory, Settings(100, 1e-10, merges=True), np.random.default_rng(1)).run()
        best = max(best, memory.bound())
    evidence = log_evidence(case, MASSES[mass])
    assert evidence - 8.0 < best < evidence


@pytest.mark.parametrize("mass", MASSES)
def test_the_bound_by_quadrature(mass):
    """Over precisions, sticks and mass, with probabilities of the rows that are neither 0 nor 1; one-dimensional, mean known."""
    law = MASSES[mass]
    rng = np.random.default_rng(1)
    X, r = rng.normal(size=(6, 1)), rng.dirichlet([1.0, 1.0], 6).T
    model = nm.Model(data=X, family=nm.Gaussian(known_mean=0.0, nu=3.0, scale=0.5), prior=nm.DirichletProcess(law))
    exponential = model.exponential()
    rows = model.statistics(exponential)
    N = r.sum(axis=1)
    found = Factors(exponential, law, N, rows.whole().totals(r)).log_evidence + rows.log_h.sum() - (r * np.log(r)).sum()

    def component(k):
        def integrand(t):
            return math.exp(stats.gamma.logpdf(t, 1.5, scale=4.0) + (r[k] * stats.norm.logpdf(X[:, 0], scale=t**-0.5)).sum())

        return math.log(integrate.quad(integrand, 0, 80, epsabs=0, epsrel=1e-12, limit=500)[0])

    def sticks(a):
        return math.exp(2 * math.log(a) + betaln(1 + N[0], a + N[1]) + betaln(1 + N[1], a))

    if mass == "fixed":
        of_sticks = sticks(law)
    else:
        of_sticks = integrate.quad(lambda a: law.distribution.pdf(a) * sticks(a), 0, 80, epsabs=0, epsrel=1e-11, limit=500)[0]
    want = sum(component(k) for k in range(2)) + math.log(of_sticks) - (r * np.log(r)).sum()
    assert found == pytest.approx(want, abs=1e-7)


def table(scale=1.0):
    rng = np.random.default_rng(5)
    n = 600
    z = rng.integers(3, size=n)
    return {
        "a": scale * (rng.normal(size=n) + 4 * z), "b": scale * (rng.normal(size=n) * (1 + z)), "visits": rng.poisson(1 + 3 * z),
        "kind": np.array(["x", "y", "z"])[(z + (rng.random(n) < 0.2)) % 3], "t": rng.normal(size=n), "y": rng.normal(size=n) + z,
    }


FAMILY = {
    "a + b": nm.Gaussian(scale=np.diag([0.5, 0.3])), "visits": nm.Poisson(), "kind": nm.Categorical(),
    "y": nm.Regression("1 + t", shrinkage=None),
}
FORMULA = "a + b + visits + kind + y ~ 1"


def memory_of(batches, components=8, mass=None, data=None, formula=FORMULA, family=FAMILY):
    model = nm.Model(formula, table() if data is None else data, family=family, prior=nm.DirichletProcess(mass or nm.Gamma(1, 1)))
    exponential = model.exponential()
    memory = Memory(exponential, model.prior.mass, Batches(model.statistics(exponential), batches))
    memory.start(*seeded(memory.batches.rows, components, np.random.default_rng(2), "k-means++"))
    return memory


@pytest.mark.parametrize("mass", [0.7, nm.Gamma(1, 1), nm.LogNormal(0, 1)], ids=str)
def test_the_bound_never_falls_whatever_batch_is_visited(mass):
    memory = memory_of(7, mass=mass)
    climb = Climb(memory, Settings(1, 0.0), np.random.default_rng(3))
    climb.one_pass()
    seen = [memory.bound()]
    for _ in range(8):
        for b in range(7):
            memory.replace(b, visit(memory.batches, b, memory.factors))
            seen.append(memory.bound())
    assert np.diff(seen).min() > -1e-9 * abs(seen[-1]) and seen[-1] > seen[0] + 1


def test_a_mutant_that_leaves_old_entropies_falls():
    memory = memory_of(7)
    Climb(memory, Settings(1, 0.0), np.random.default_rng(3)).one_pass()
    memory.H[3] *= 0.0
    memory.total()
    before = memory.bound()
    memory.replace(4, visit(memory.batches, 4, memory.factors))
    Climb(memory, Settings(1, 0.0), np.random.default_rng(3)).one_pass()
    assert memory.bound() - before > 1.0  # the entropies that were missing: the bound was wrong


def test_one_batch_is_full_inference():
    memory = memory_of(1)
    climb = Climb(memory, Settings(1, 0.0), np.random.default_rng(3))
    rows, factors = memory.batches.rows.whole(), memory.factors
    for _ in range(20):
        climb.one_pass()
        found = local_step(rows, factors.eta, factors.const)
        factors = Factors(memory.exponential, memory.mass, found.N, found.s)
        bound = factors.log_evidence + found.H.sum() + memory.batches.log_h
    assert memory.bound() == pytest.approx(bound, abs=1e-8) and memory.factors.s == pytest.approx(factors.s, rel=1e-9, abs=1e-9)


def test_sums_do_not_drift():
    memory = memory_of(9)
    climb = Climb(memory, Settings(1, 0.0), np.random.default_rng(3))
    for _ in range(50):
        climb.one_pass()
    sums = memory.factors.N.copy(), memory.factors.s.copy(), memory.bound()
    memory.total()
    for found, want in zip(sums, (memory.factors.N, memory.factors.s, memory.bound()), strict=True):
        assert found == pytest.approx(want, rel=1e-12, abs=1e-9)
    assert memory.factors.N.sum() == pytest.approx(memory.batches.rows.n, abs=1e-9)


@pytest.mark.parametrize("mass", [0.7, nm.Gamma(1, 1)], ids=str)
def test_a_merge_gains_what_was_predicted(mass):
    memory = memory_of(5, mass=mass)
    climb = Climb(memory, Settings(1, 0.0), np.random.default_rng(3))
    for _ in range(4):
        climb.one_pass()
    memory.sort()
    pairs = np.stack(np.triu_indices(memory.n_components, 1), axis=1)
    lost, _ = climb.one_pass(pairs)
    kept, before = memory.snapshot(), memory.bound()
    screened = merges.gain_without_entropy(memory, *pairs.T) - lost.sum(axis=0)
    for (a, b), own, gain in zip(pairs, lost.T, screened, strict=True):
        predicted = merges.bound_after(memory, a, b, own.sum())
        memory.join(a, b, own)
        # from the probabilities themselves, of the rows under the factors that they were found with
        assert memory.bound() == pytest.approx(predicted, abs=1e-8)
        assert predicted - before == pytest.approx(gain, abs=1e-8 if isinstance(mass, float) else 1.0)
        memory.restore(kept)
    assert lost.min() > -1e-9  # a merge always loses entropy
    one = local_step(memory.batches.rows.whole(), memory.factors.eta, memory.factors.const, np.array([[0, 1]]))
    both = one.r[0] + one.r[1]
    assert one.H_pairs[0] == pytest.approx(-(both * np.log(both)).sum(), abs=1e-9)


def test_merges_in_chains_never_lower_the_bound():
    memory = memory_of(3, components=20)
    climb = Climb(memory, Settings(1, 0.0), np.random.default_rng(3))
    for _ in range(3):
        climb.one_pass()
    pairs = np.stack(np.triu_indices(memory.n_components, 1), axis=1)
    lost, _ = climb.one_pass(pairs)
    matrix = np.zeros((memory.n_components,) * 2)
    matrix[pairs[:, 0], pairs[:, 1]] = matrix[pairs[:, 1], pairs[:, 0]] = lost.sum(axis=0)
    before = memory.bound()
    assert merges.merge_chains(memory, matrix) > 3
    at_least = memory.bound()
    assert at_least >= before
    climb.one_pass()
    assert memory.bound() >= at_least  # what was taken for lost was lost at most


def test_order_of_rows_and_units_do_not_matter():
    data, order = table(), np.random.default_rng(8).permutation(600)
    labels = np.arange(600) % 4
    fits = {
        "as it is": (data, labels), "other order": ({name: column[order] for name, column in data.items()}, labels[order]),
        "other units": (table(1000.0), labels),
    }
    method = nm.VB(passes=30, tol=1e-12)
    family = FAMILY | {"a + b": nm.Gaussian()}
    found = {name: nm.fit(FORMULA, own, family=family, method=method, init=start, rng=1) for name, (own, start) in fits.items()}
    base = found["as it is"]
    assert found["other order"].elbo == pytest.approx(base.elbo, abs=1e-7)
    assert found["other units"].elbo == pytest.approx(base.elbo - 2 * 600 * math.log(1000.0), abs=1e-6)
    assert vi(found["other order"].labels, base.labels[order]) == 0


def test_stochastic_steps_end_with_an_exact_bound():
    fit = nm.fit(FORMULA, table(), family=FAMILY, method=nm.StochasticVB(components=6, batches=4, passes=15), rng=1)
    model = fit.model
    exponential = model.exponential()
    memory = Memory(exponential, model.prior.mass, Batches(model.statistics(exponential), 1))
    memory.start(fit.factors.N, fit.factors.s)
    Climb(memory, Settings(1, 0.0), np.random.default_rng(1)).one_pass()
    assert fit.elbo <= memory.bound() + 1e-9 and memory.bound() - fit.elbo < 20  # a step of coordinate ascent on it


@pytest.mark.parametrize("batches", [1, 4])
def test_estimates_of_stochastic_steps_have_the_bound_as_their_mean(batches):
    fit = nm.fit(FORMULA, table(), family=FAMILY, method=nm.VB(components=6, passes=500, tol=1e-13), rng=1)
    exponential = fit.model.exponential()
    memory = Memory(exponential, fit.model.prior.mass, Batches(fit.model.statistics(exponential), batches))
    memory.start(fit.factors.N, fit.factors.s)
    descent = Descent(memory, nm.StochasticVB(components=6, batches=batches), np.random.default_rng(1))
    estimates = [descent.step(b, 0.0) for b in range(batches)]  # steps of size 0: all of the same factors
    assert np.mean(estimates) == pytest.approx(fit.elbo, abs=1e-6)
