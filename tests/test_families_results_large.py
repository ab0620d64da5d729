"""Results of large counts and of many columns."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

import nrmmix as nm
from nrmmix.posterior.predict.states import states_of

RUN = {"draws": 25, "tune": 40, "chains": 2, "rng": 1}


def test_cdf_of_large_counts():
    """More counts than the grid of quantiles has points."""
    rng = np.random.default_rng(0)
    fit = nm.fit("y ~ 1", {"y": rng.poisson(np.repeat([5e3, 9e5], 20))}, family=nm.Poisson(), **RUN)
    table = fit.predict(kind="quantile", q=[0.05, 0.25, 0.75, 0.95], draws=50)
    assert (table.to_numpy() == np.floor(table.to_numpy())).all()
    cdf = fit.predict(kind="cdf", at=table["estimate"].to_numpy(), draws=50)["estimate"]
    np.testing.assert_allclose(cdf, table.index, atol=0.01)


def test_many_columns_in_the_summary():
    rng = np.random.default_rng(0)
    counts = np.vstack([rng.multinomial(50, np.r_[np.full(10, 0.09), np.full(10, 0.01)][:: 1 if i % 2 else -1]) for i in range(30)])
    fit = nm.Model(data=csr_array(counts), family=nm.Multinomial()).fit(**RUN)
    text = fit.summary().as_text()
    line = next(line for line in text.splitlines() if line.startswith("Cluster  Largest shares"))
    first = text.split(line)[1].splitlines()[2]
    assert first.count("y") >= 6 and len(text.splitlines()) < 70
    top = {word.split()[0] for word in first.split("  ", 1)[1].split(", ")}
    assert top <= {f"y{j}" for j in range(1, 11)} or top <= {f"y{j}" for j in range(11, 21)}


# ---- parameters of many numbers


def test_atoms_are_bounded_for_wide_families(monkeypatch):
    from nrmmix.kernels.predictive import MAX_THETA

    rng = np.random.default_rng(0)
    counts = rng.poisson(0.5, (12, 4000))
    fit = nm.Model(data=csr_array(counts), family=nm.Multinomial(), prior=nm.NGGP(500.0, 0.5)).fit(draws=2, tune=2, chains=1, rng=1)
    (state,) = states_of(fit.posterior, 1)
    atoms = state.measure(np.random.SeedSequence(1))
    K = int(fit.draws["n_clusters"].max())
    assert atoms.theta.shape[1] - K <= 1.3 * MAX_THETA / 4000 + 60
    assert np.isfinite(atoms.log_weight).all() and np.isfinite(fit.predict(draws=2).to_numpy()).all()
