"""Draws of chains."""

import numpy as np


def draws_of(model, method, *, draws=60, tune=20, chains=1, rng=1, **options):
    return model.fit(method, draws=draws, tune=tune, chains=chains, rng=rng, **{"init": "one", "cores": 1} | options).draws


def same_draws(a, b):
    assert list(a) == list(b)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)
