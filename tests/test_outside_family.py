"""A component family from outside the package, in `support/exponential_family.py`, passes what the package's own have to pass."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from exact.enumeration import nrm_log_eppf, partition_posterior, total_variation
from scipy.special import gammaln
from support.cover import by_turns
from support.exponential_family import Exponential

import nrmmix as nm

Y = np.array([[0.2, 1.0], [0.3, 9.0], [4.0, 8.0], [5.0, np.nan], [0.1, 1.5]])
SHAPE, RATE = 2.0, np.array([1.5, 4.0])


def log_marginal(rows: np.ndarray) -> float:
    total = 0.0
    for j, rate in enumerate(RATE):
        y = rows[:, j][np.isfinite(rows[:, j])]
        total += gammaln(SHAPE + len(y)) - gammaln(SHAPE) + SHAPE * math.log(rate) - (SHAPE + len(y)) * math.log(rate + y.sum())
    return total


@pytest.mark.parametrize("prior", by_turns([nm.DirichletProcess(1.0), nm.NGGP(0.8, 0.4)], 2, 1), ids=str)
def test_posterior_of_partitions(prior):
    model = nm.Model(data=Y, family=Exponential(SHAPE, RATE), prior=prior, missing="marginalize")
    fit = model.fit("gibbs", draws=8000, tune=200, chains=12, rng=1)
    exact = partition_posterior(len(Y), lambda sizes: nrm_log_eppf(sizes, prior.mass, prior.sigma), lambda b: log_marginal(Y[b]))
    distance, limit = total_variation(exact, fit.draws["labels"])
    assert distance < limit < 0.03


def test_saved(tmp_path):
    model = nm.Model(data=Y, family=Exponential(SHAPE, RATE), missing="marginalize")
    fit = model.fit(draws=20, tune=20, chains=2, rng=1)
    with pytest.raises(TypeError, match="register"):
        fit.save(tmp_path / "fit.npz")
    nm.register(Exponential)
    again = nm.load(fit.save(tmp_path / "fit.npz"))
    assert again.log_density().equals(fit.log_density())


def test_results():
    data = pd.DataFrame({"wait": np.random.default_rng(0).exponential(np.repeat([1.0, 20.0], 30)), "z": np.repeat([0.0, 3.0], 30)})
    data["z"] += np.random.default_rng(1).normal(size=60)
    fit = nm.fit("wait + z ~ 1", data, family={"wait": Exponential(), "z": nm.Gaussian()}, draws=300, tune=200, chains=2, rng=1)
    assert "wait: Exponential: rate ~ Gamma(2, [" in str(fit.model)
    assert "rate wait" in fit.summary().as_text()
    table = fit.predict(kind="quantile", q=[0.1, 0.5, 0.9], response="wait")["estimate"]
    assert (np.diff(table) > 0).all() and table.min() > 0
    cdf = fit.predict(kind="cdf", at=table.to_numpy(), response="wait")["estimate"]
    np.testing.assert_allclose(cdf, [0.1, 0.5, 0.9], atol=2e-3)
    drawn = fit.simulate(draws=40, rng=1)
    assert (drawn["wait"] > 0).all()
    with pytest.raises(ValueError, match="'wait' has negative values"):
        nm.Model("wait ~ 1", data.assign(wait=-data["wait"]), family=Exponential())
