"""Sparse products: codes of the slots, v and inclusion against enumeration and quadrature, and against the prior where data say nothing."""

from __future__ import annotations

import types
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from support.cover import only
from support.length import by_day, coarser
from support.sparse_posterior import SparsePosterior

import nrmmix as nm
from nrmmix.inference.mcmc import chain, cycle
from nrmmix.kernels.measure import codes

Y = np.array([-0.9, 0.4, 0.1, 1.3])
TABLE = pd.DataFrame({"y": Y, "a": [0.0, 0.0, 1.0, 1.0], "b": [0.6, 0.6, 0.0, 0.0]})
S, R = 0.5, 0.5  # y ~ N(mu, S), mu ~ N(0, S / R)
A0, B0 = 6.0, 3.0  # log v has tails of order x^-(a0 + K)
SLOW = 4.0  # autocorrelation time that tolerances allow for


def log_marginal(rows):
    y, n = Y[list(rows)], len(rows)
    C = S * np.eye(n) + S / R
    return -0.5 * (n * np.log(2 * np.pi) + np.linalg.slogdet(C)[1] + y @ np.linalg.solve(C, y))


def log_K(at, widths, places=(0.0, 1.0)):
    """(1 + N, 2): widths in turn, and for each the places."""
    rows = [[-0.5 * ((x - place) / w) ** 2 for x in at] for w in widths for place in places]
    return np.maximum(np.array([[0.0, 0.0], *rows]), -80.0)


def family():
    return nm.Gaussian(known_covariance=[[S]], m=[0.0], r=R)


def prior(sigma):
    mass = nm.Gamma(A0, B0)
    return nm.DirichletProcess(mass) if sigma == 0 else nm.NGGP(mass, sigma)


def model(sigma=0.0, inclusion=None, formula="y ~ a + b", widths=(0.6, 0.5)):
    kernels = {name: nm.SquaredExponential(w) for name, w in zip("ab", widths) if name in formula}
    return nm.Model(formula, TABLE, family=family(), prior=prior(sigma), kernel=nm.SparseProduct(kernels, slots=2, inclusion=inclusion))


def distance(found, exact, draws):
    """Total variation over what it has by chance, in standard deviations of its mean."""
    n = draws / SLOW
    p = np.array(list(exact.values()))
    tv = 0.5 * sum(abs(found.get(key, 0) / draws - one) for key, one in exact.items())
    expected = 0.5 * np.sqrt(2 / np.pi * p * (1 - p) / n).sum()
    return tv / expected


def compare(fit, exact):
    labels, drawn = fit.draws.flat("labels"), fit.draws.flat("codes")
    by_partition = distance(Counter(map(tuple, labels.tolist())), exact.by_partition(), len(labels))
    by_use = distance(Counter(map(tuple, (drawn > 0).sum(axis=1).tolist())), exact.by_use(), len(labels))
    return max(by_partition, by_use)


TABLES = [log_K((0.0, 1.0), (0.6,)), log_K((1.0, 0.0), (0.5,))]
CASES = [("gibbs", 0.0, 0.45), ("split_merge", 0.3, None), ("slice", 0.3, 0.45), ("sngp", 0.0, None), ("tree", 0.3, None)]


@pytest.mark.parametrize(("method", "sigma", "inclusion"), only(CASES, CASES[0], CASES[3]))
def test_partitions_and_codes_against_quadrature(method, sigma, inclusion):
    exact = SparsePosterior(TABLES, log_marginal, sigma=sigma, a0=A0, b0=B0, inclusion=(1.0, 1.0) if inclusion is None else inclusion)
    fit = model(sigma, inclusion).fit(method, draws=by_day(15_000), tune=100, chains=2, rng=3)
    assert compare(fit, exact) < 1.5
    if inclusion is None:  # that of the prior given the codes, which are alike
        assert abs(fit.draws["inclusion"].mean() - 0.5) < coarser(0.02)


@pytest.mark.nightly
def test_more_codes_than_are_tried_at_once():
    widths = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
    exact = SparsePosterior([log_K((0.0, 1.0), widths)], log_marginal, a0=A0, b0=B0, inclusion=0.6)
    fit = model(inclusion=0.6, formula="y ~ a", widths=(nm.PerAtom(widths),)).fit("gibbs", draws=by_day(15_000), tune=100, chains=2, rng=4)
    assert len(exact.by_use()) == 3 and codes.SUBSET < 2 * len(widths)
    assert compare(fit, exact) < 1.5


def test_a_factor_against_quadrature():
    table = TABLE.assign(a=["u", "u", "v", "v"])
    rho = (0.02, 0.2)
    rows = [[0.0, 0.0]] + [[np.log(r) * (x != place) for x in (0, 1)] for r in rho for place in (0, 1)]
    exact = SparsePosterior([np.array(rows)], log_marginal, a0=A0, b0=B0, inclusion=0.5)
    kernel = nm.SparseProduct({"a": nm.Matching(nm.PerAtom(rho))}, slots=2, inclusion=0.5)
    made = nm.Model("y ~ a", table, family=family(), prior=prior(0.0), kernel=kernel)
    assert compare(made.fit("gibbs", draws=by_day(15_000), tune=100, chains=2, rng=5), exact) < 1.5


# ---- where the data say nothing the posterior is the prior, of more rows and codes than can be enumerated


def blank(prior, n=30, q=3, **options):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(size=(n, q)), columns=list("abc"[:q])).assign(y=rng.normal(size=n))
    flat = nm.Gaussian(known_covariance=[[1.0]], m=[0.0], r=1e9)  # mu is 0
    return nm.Model("y ~ a + b + c", table, family=flat, prior=prior, kernel=nm.SparseProduct(**options))


PRIORS = [nm.DirichletProcess(nm.Gamma(4, 3)), nm.NGGP(nm.Gamma(4, 3), 0.4), nm.FiniteMixture(6, 1.5), nm.PitmanYor(1.0, 0.3)]


@pytest.mark.nightly
@pytest.mark.parametrize("prior", only(PRIORS, PRIORS[0]), ids=str)
def test_without_information_clusters_and_codes_have_their_prior(prior):
    made = blank(prior)
    before = made.prior_n_clusters()
    fit = made.fit("gibbs", draws=by_day(4000), tune=200, chains=4, rng=1)
    K = fit.draws["n_clusters"]
    error = K.mean(axis=1).std(ddof=1) / 2 + 0.05  # the prior is simulated too
    assert abs(K.mean() - (before.index * before).sum()) < 4 * error
    share = (fit.draws["codes"] > 0).mean(axis=(2, 3))
    assert abs(share.mean() - 0.5) < 4 * (share.mean(axis=1).std(ddof=1) / 2 + 0.005)
    of_code = np.bincount(fit.draws["codes"].ravel(), minlength=45)[1:]
    assert np.abs(of_code / of_code.mean() - 1).max() < coarser(0.1)  # each place and width alike


# ---- mutants


def mutant(monkeypatch, before, after):
    """Chains whose updates are those of the module with a line changed."""
    text = Path(codes.__file__).read_text(encoding="utf-8")
    assert text.count(before) == 1
    made = types.ModuleType("mutant_codes")
    exec(compile(text.replace(before, after), "<mutant>", "exec"), vars(made))
    right, wrong, original = codes.update_codes_and_v.address, made.update_codes_and_v.address, cycle.update_addresses

    def addresses(*given):
        return np.where(original(*given) == right, wrong, original(*given))

    monkeypatch.setattr(cycle, "update_addresses", addresses)
    monkeypatch.setattr(chain, "update_addresses", addresses)


MUTANTS = {
    "masses are not carried": ("weight += of_members + power * shift", "weight += of_members"),
    "chances of subsets are forgotten": ("tried[WEIGHT, x] += math.log(N / count)", "tried[WEIGHT, x] += 0.0"),
}


@pytest.mark.parametrize("name", only(MUTANTS, "masses are not carried"))
def test_mutants_are_found(monkeypatch, name):
    mutant(monkeypatch, *MUTANTS[name])
    widths = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
    exact = SparsePosterior([log_K((0.0, 1.0), widths)], log_marginal, a0=A0, b0=B0, inclusion=0.6)
    fit = model(inclusion=0.6, formula="y ~ a", widths=(nm.PerAtom(widths),)).fit(
        "gibbs", draws=15_000, tune=100, chains=1, cores=1, rng=4)
    assert compare(fit, exact) > 2.5
