"""Locations with the level of all masses on one side, against quadrature over v for every partition and set of locations."""

from __future__ import annotations

import inspect
from functools import cache

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import KernelJoint, location_posterior, total_variation
from exact.priors import Y, log_marginal, regression, states
from support.cover import only
from support.length import by_day, coarser

import nrmmix as nm
from nrmmix.inference.mcmc import cycle
from nrmmix.kernels.measure import sides
from nrmmix.model.pack import has_sides

CHAINS, LENGTH = 8, 20_000
DRAWS = by_day(LENGTH)
AT, WIDTHS = (0.0, 0.5, 1.0), (0.25, 0.5)
SELDOM = nm.Gibbs(subset=1)  # opens and closes clusters, and does little else


@cache
def law_of(group):
    d = np.abs(np.subtract.outer(AT, AT))
    K = np.stack([np.exp(-(d[:, p] ** 2) / (2 * w**2)) for p in range(len(AT)) for w in WIDTHS], axis=1)
    return location_posterior(KernelJoint(K, group, 1.3, 0.0, 81), log_marginal)


def law_and_fit(group, seed, draws=DRAWS):
    law = law_of(group)
    data = pd.DataFrame({"x": np.array(AT)[list(group)], "y": Y[: len(group)]})
    kernel = nm.SquaredExponential(nm.PerAtom(WIDTHS), locations=list(AT))
    fit = regression(data, kernel, nm.DirichletProcess(1.3)).fit([SELDOM], draws=draws, tune=500, chains=CHAINS, rng=seed)
    return total_variation(law, states(fit), deviations=6.0)


MANY = ("MOVED = 3 ", "MOVED = 40 ")  # so that what the other updates bring does not hide what these do

WRONG = {  # what stands in the update, and what takes its place
    "rows on the side": ("(n_side + shape) * shift", "shape * shift"),
    "the mass of the cluster": ("value += n * change + ", "value += "),
    "the tail of the masses": ("value -= tau * (mass - exp_any(log_mass) + (scale - exp_any(log_scale)) * mass_side)", "value -= 0.0"),
}
FOUND_SOON = "the tail of the masses"


@pytest.mark.parametrize("name", only([None, *WRONG], FOUND_SOON))
def test_partition_and_locations(monkeypatch, name):
    source = inspect.getsource(sides).replace("from __future__ import annotations", "")
    for old, new in [MANY, WRONG[name]] if name else [MANY]:
        assert source.count(old) == 1
        source = source.replace(old, new)
    space = {"__name__": "changed", "__file__": f"{name}.py"}
    exec(source, space)
    monkeypatch.setattr(cycle.sides, "update_sides", space["update_sides"])
    length = {None: DRAWS, FOUND_SOON: max(DRAWS, LENGTH // 5)}.get(name, LENGTH)
    distance, limit = law_and_fit((0, 1, 2), 3, length)
    assert limit < coarser(0.05), "too few draws to tell"
    assert distance > 1.5 * limit if name else distance < limit, (distance, limit)


def test_as_it_is():
    distance, limit = law_and_fit((0, 1, 2), 3)
    assert distance < limit < coarser(0.03)


def test_only_along_one_number_and_of_gamma_masses():
    data = pd.DataFrame({"x": np.linspace(0, 1, 12), "g": list("ab") * 6, "y": np.arange(12.0) % 5})
    assert has_sides(nm.Model("y ~ x", data))
    assert not has_sides(nm.Model("y ~ x", data, prior=nm.NGGP(1.0, 0.3)))
    assert not has_sides(nm.Model("y ~ x", data, prior=nm.FiniteMixture(5)))
    assert not has_sides(nm.Model("y ~ g", data))
    assert not has_sides(nm.Model("y ~ x + g", data))
    assert not has_sides(nm.Model("y ~ 1", data))
