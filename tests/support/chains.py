"""Draws of chains without what results add to them."""

import numpy as np

from nrmmix.inference.mcmc import sampling


def draws_of(model, method, *, draws=60, tune=20, chains=1, rng=1, **options):
    options = {"thin": 1, "init": "one", "cores": 1, "progress": False, "time_limit": None} | options
    return sampling.sample(model, method, draws=draws, tune=tune, chains=chains, rng=rng, **options).draws


def same_draws(a, b):
    assert list(a) == list(b)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
