"""Tree-guided moves of density regression, locations integrated out, against quadrature over v on five rows; and wrong ones."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from exact import priors
from exact.enumeration import KernelJoint, location_posterior, normalised, total_variation
from exact.priors import Y, log_marginal, regression, states
from support.cover import each_once, only
from support.global_moves import GlobalMoves
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.inference.mcmc.moves import TreeGuided
from nrmmix.kernels.core.state import ACCEPTED, PROPOSED, TALLY
from nrmmix.kernels.trees import guided

CHAINS, DRAWS = 8, by_day(8_000)
MOVES = {
    "blocks": GlobalMoves(global_moves=3, scan_share=0.0), "scan": GlobalMoves(global_moves=3, scan_share=1.0, scans=2),
    "both, and Gibbs": TreeGuided(global_moves=3, refresh=1),
}
DESIGNS = {
    "se": ([0.0, 0.0, 1.0, 1.0, 0.0], [0.0, 1.0], nm.SquaredExponential(0.5, locations=[0.0, 1.0])),
    "box": ([0.0, 0.0, 1.0, 1.0, 1.0], [-0.5, 0.5, 1.5], nm.Box(0.8, locations=[-0.5, 0.5, 1.5])),
}


@cache
def law_of(design, sigma):
    _, K, group, _ = priors.setting(design, DESIGNS)
    return location_posterior(KernelJoint(K, group, 1.3, sigma, 161), log_marginal)


@pytest.mark.parametrize(("design", "sigma", "move"), only(
    each_once(DESIGNS, [0.0, 0.3], MOVES), ("box", 0.3, "scan"),
))
def test_partition_and_locations(design, sigma, move):
    data, _, _, kernel = priors.setting(design, DESIGNS)
    fit = regression(data, kernel, priors.nggp(sigma)).fit(MOVES[move], draws=DRAWS, tune=500, chains=CHAINS, rng=11)
    tally = sum(checkpoint.state["tally"][0] for checkpoint in fit.checkpoints)
    assert (tally[ACCEPTED::TALLY] > 0).all() and (tally[ACCEPTED::TALLY] <= tally[PROPOSED::TALLY]).all()
    priors.compare(fit, law_of(design, sigma), 0.09)


@pytest.mark.nightly
@pytest.mark.parametrize(("measure", "move"), only(
    each_once(priors.MEASURES, MOVES), ("finite-3", "both, and Gibbs"),
))
def test_other_measures(measure, move):
    data, K, group, kernel = priors.setting("se")
    prior, law = priors.of_measure(K, group, **priors.SPREAD.get(measure, {"points": 161}))[measure]
    fit = regression(data, kernel, prior).fit(MOVES[move], draws=DRAWS, tune=500, chains=CHAINS, rng=5)
    log_p = priors.with_likelihood(law(), len(data))
    priors.compare(fit, normalised(list(log_p), list(log_p.values())), 0.09)


@pytest.mark.nightly
def test_a_category_and_a_number():
    """The guide has a coordinate for each level."""
    data = pd.DataFrame({"x": [0.0, 1.0, 0.0, 1.0], "g": ["a", "a", "b", "b"], "y": Y[:4]})
    kernel = nm.Product({"x": nm.SquaredExponential(0.7), "g": nm.Matching(0.4)})
    model = nm.Model("y ~ x + g", data, kernel=kernel, prior=nm.DirichletProcess(1.3), family=nm.Gaussian(**priors.FAMILY))
    fits = [model.fit(method, draws=2 * DRAWS, tune=300, chains=CHAINS, rng=7) for method in (MOVES["blocks"], "gibbs")]
    means = [fit.draws["n_clusters"].mean(axis=1) for fit in fits]
    error = np.sqrt(sum(mean.var(ddof=1) / CHAINS for mean in means))
    assert abs(means[0].mean() - means[1].mean()) < 5 * error
    assert error < coarser(0.02 * means[1].mean()), "too few draws to tell"


def test_goes_on_after_a_stop():
    """The guide's statistics are no part of a saved chain."""
    data, _, _, kernel = priors.setting("se", DESIGNS)
    model = regression(data, kernel, nm.NGGP(1.3, 0.3))
    whole = model.fit("tree", draws=60, tune=30, chains=2, rng=4)
    parts = model.fit("tree", draws=25, tune=30, chains=2, rng=4).extend(35)
    np.testing.assert_array_equal(whole.draws["labels"], parts.draws["labels"])


# ---- wrong moves


@dataclass(frozen=True)
class Mutant(GlobalMoves):
    into_blocks: ClassVar = None

    def options(self, model):
        option = list(super().options(model))
        option[guided.splits.BLOCK] = float(self.into_blocks.address)
        return tuple(option)


@pytest.mark.nightly
def test_wrong_moves_are_found(monkeypatch):
    """Splits whose ratio has the marginals of the guide, with covariates, for those of the posterior."""
    source = inspect.getsource(guided.into_blocks.function)
    assert source.count("data.views[POSTERIOR]") == 1
    space = dict(vars(guided))
    exec(source.replace("data.views[POSTERIOR]", "data.views[GUIDE]"), space)
    monkeypatch.setattr(Mutant, "into_blocks", space["into_blocks"])
    data, _, _, kernel = priors.setting("se", DESIGNS)
    move = Mutant(global_moves=3, scan_share=0.0)
    fit = regression(data, kernel, nm.NGGP(1.3, 0.3)).fit(move, draws=DRAWS, tune=500, chains=CHAINS, rng=2)
    distance, limit = total_variation(law_of("se", 0.3), states(fit), deviations=6.0)
    assert distance > 1.5 * limit
