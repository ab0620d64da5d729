"""Split-merge of density regression, locations integrated out, against quadrature over v for every partition and set of locations."""

from __future__ import annotations

import pytest
from exact.enumeration import KernelJoint, location_posterior, total_variation
from exact.test_gibbs_regression import DESIGNS, log_marginal, model, setting, states
from support.cover import each_once

import nrmmix as nm

CHAINS, DRAWS = 8, 10_000
PROPOSALS = ("sequential", "restricted_gibbs")


def alone(proposal, **options):
    return nm.SplitMerge(proposals=2, proposal=proposal, **options)


@pytest.mark.parametrize(("design", "sigma", "proposal"), each_once(DESIGNS, [0.0, 0.3], PROPOSALS))
def test_partition_and_locations(design, sigma, proposal):
    data, K, group, kernel = setting(design)
    prior = nm.DirichletProcess(1.3) if sigma == 0 else nm.NGGP(1.3, sigma)
    fit = model(data, kernel, prior).fit(alone(proposal, scans=1), draws=DRAWS, tune=500, chains=CHAINS, rng=11)
    assert fit.proposals()["accepted"].min() > 0
    exact = location_posterior(KernelJoint(K, group, 1.3, sigma, 401 if K.shape[0] == 2 else 121), log_marginal)
    distance, limit = total_variation(exact, states(fit))
    assert limit < 0.05, "too few draws to tell"
    assert distance < limit
