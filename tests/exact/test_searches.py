"""Searches against plain Python and enumeration: the trees of every family, and lower bounds of every prior."""

from __future__ import annotations

import math

import numpy as np
import pytest
from exact.enumeration import gaussian_log_marginal, partitions, psi1
from exact.matrix import PRIORS, families
from naive.searches import log_sum, partitions_of_tree
from scipy.special import gammaln
from support import finite_mixtures
from support.cover import by_turns, each_once
from support.finite_mixtures import FAMILY, Y
from support.search_trees import TIE, agree, gardener, naive_tree

import nrmmix as nm
from nrmmix.inference.search.grower import TreeGrower
from nrmmix.kernels.trees import ibhc

CONJUGATE = [name for name in families() if not name.startswith("semiconjugate") and name != "Gaussian, full, cells missing"]
CONTINUOUS = [name for name in CONJUGATE if name.startswith(("Gaussian", "Regression")) and "missing" not in name]
REFUSED = sorted(set(families()) - set(CONJUGATE))


@pytest.mark.parametrize("prior", ["DP(1)", "NGGP(0.8, 0.2)", "PY(0.9, 0.3)", "finite(3, 1.2)"])
@pytest.mark.parametrize("family", CONJUGATE)
def test_trees_are_those_of_plain_python(family, prior):
    case = families()[family]
    model = case.build(PRIORS[prior][0])
    grower = TreeGrower(model)
    naive = gardener(grower, case.log_marginal)
    grower.plant()
    for _ in grower.agglomerate(np.arange(case.n)):
        pass
    assert agree(naive_tree(grower.tree()), naive.bhc([naive.leaf(i) for i in range(case.n)]), naive)
    ties = [naive.gap < TIE]
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(case.n)
        for _ in (*grower.insert_all(order), *grower.agglomerate(grower.roots_grown)):
            pass
        naive.gap = math.inf
        grown, _ = naive.ibhc(order.tolist(), grower.most, ibhc.MAX_SPLITS)
        assert agree(naive_tree(grower.tree()), naive.bhc(grown), naive)
        ties.append(naive.gap < TIE)
    assert not any(ties) or family not in CONTINUOUS


@pytest.mark.parametrize("family", REFUSED)
def test_parameters_and_cells_that_are_drawn_are_refused(family):
    model = families()[family].build(nm.DirichletProcess(1.0))
    with pytest.raises(ValueError, match=r"it needs component parameters|missing cells of the family are drawn"):
        model.fit("ibhc")


def log_prior_with_u(sizes, u, mass, sigma, tau):
    """log p(partition, u) of a normalised random measure."""
    n, K, s = sum(sizes), len(sizes), np.array(sizes)
    clusters = K * math.log(mass) + (gammaln(s - sigma) - gammaln(1 - sigma)).sum() - (n - sigma * K) * math.log(u + tau)
    return (n - 1) * math.log(u) - gammaln(n) - mass * float(psi1(np.array(u), sigma, tau)) + clusters


@pytest.mark.parametrize(("prior", "method"), by_turns(each_once([*PRIORS, "mixture of finite mixtures"], ["bhc", "ibhc"])))
def test_lower_bound_sums_over_the_partitions_of_the_tree(prior, method):
    """It is the sum of the joint over them, and so no more than that over all partitions."""
    if prior in PRIORS:
        case = families()["Gaussian, full, d = 2"]
        (given, log_eppf), log_marginal, n = PRIORS[prior], case.log_marginal, case.n
        model = case.build(given)
    else:
        given, log_eppf, n = finite_mixtures.Mixtures(0.7), finite_mixtures.log_eppf, len(Y)
        model = nm.Model(data=Y[:, None], prior=given, family=nm.Gaussian(**FAMILY))

        def log_marginal(rows):
            return gaussian_log_marginal(Y[rows][:, None], FAMILY["m"], FAMILY["r"], FAMILY["nu"], FAMILY["scale"])

    fit = model.fit(method, rng=3)
    if model.has_u and "u" in fit.hyper:
        def log_prior(sizes):
            return log_prior_with_u(sizes, fit.hyper["u"], given.mass, given.sigma, given.tau)
    else:
        log_prior = log_eppf

    def log_joint(clusters):
        return log_prior(tuple(map(len, clusters))) + sum(log_marginal(sorted(c)) for c in clusters)

    of_tree = [log_joint(clusters) for clusters in partitions_of_tree(naive_tree(fit.tree))]
    assert fit.lower_bound == pytest.approx(log_sum(of_tree), abs=1e-7)
    everything = [[[i for i in range(n) if labels[i] == c] for c in range(max(labels) + 1)] for labels in partitions(n)]
    evidence = log_sum([log_joint(clusters) for clusters in everything])
    assert fit.lower_bound <= evidence + 1e-9
    assert fit.lower_bound > evidence - 1.5  # and not an empty one: of five to seven rows a tree holds much of the sum
    own = [[i for i in range(n) if fit.labels[i] == c] for c in range(fit.n_clusters)]
    assert fit.log_joint == pytest.approx(log_joint(own), abs=1e-7)
    assert fit.log_joint <= fit.lower_bound
    if given.components:
        assert fit.n_clusters <= given.components
