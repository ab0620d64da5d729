"""States are gone through in several threads at once, with the same numbers whatever the number of cores."""

from __future__ import annotations

import threading

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns

import nrmmix as nm
from nrmmix.common.machine import in_threads
from nrmmix.posterior.predict import functionals
from nrmmix.posterior.predict.kernel_states import RecordedDraws
from nrmmix.posterior.predict.rows import prediction_rows
from nrmmix.posterior.predict.states import states_of

rng = np.random.default_rng(4)
X = np.linspace(0.0, 1.0, 40)
TABLE = pd.DataFrame({"x": X, "y": np.sin(6 * X) + 0.2 * rng.normal(size=40), "z": rng.normal(size=40)})
GAPS = TABLE.assign(z=np.where(np.arange(40) % 7 == 0, np.nan, TABLE["z"]))
RUN = {"draws": 15, "tune": 40, "chains": 3, "rng": 2}
FITS = {
    "mixture": lambda: nm.fit("y + z ~ 1", TABLE, **RUN),
    "means": lambda: nm.fit("y ~ x", TABLE, family=nm.Gaussian(), kernel=nm.SquaredExponential(nm.LogNormal(-1.0, 0.5)), **RUN),
    "lines": lambda: nm.fit("y ~ x", TABLE, **RUN),
    "cells drawn": lambda: nm.fit("y + z ~ x", GAPS, missing="marginalize", family=nm.Gaussian(), **RUN),
    "one variance": lambda: nm.fit("y ~ x", TABLE, family=nm.SemiconjugateGaussian(shared_precision=True), **RUN),
    "variational": lambda: nm.fit("y + z ~ 1", TABLE, method="vb", rng=2),
}


@pytest.fixture(params=by_turns(FITS), scope="module")
def fit(request):
    return FITS[request.param]()


@pytest.fixture(scope="module")
def lines():
    return FITS["lines"]()


@pytest.mark.parametrize("kind", by_turns(["mean", "quantile", "density", "cdf"], 4, 1))
def test_as_many_cores_as_you_like(fit, kind, monkeypatch):
    """Threads where states are worth them, and this one alone where they are not."""
    newdata = TABLE.iloc[::3] if kind in ("density", "cdf") or fit.model.is_regression else None
    if newdata is None and kind == "mean":
        newdata = TABLE.iloc[:2]
    response = None if kind in ("mean", "quantile") else "y"
    found = []
    for cores, worth in ((1, -1.0), (2, -1.0), (5, -1.0), (5, np.inf)):
        monkeypatch.setattr("nrmmix.common.machine.available_cores", lambda cores=cores: cores)
        monkeypatch.setattr(functionals, "WORTH_THREADS", worth)
        found.append(fit.predict(newdata, kind=kind, response=response, rng=3, draws=40))
    for other in found[1:]:
        pd.testing.assert_frame_equal(found[0], other, check_exact=True)


def test_an_error_of_a_state_arrives():
    fit = nm.fit("y ~ x", TABLE, family=nm.Gaussian(), kernel=nm.Box(0.2), **RUN)
    with pytest.raises(ValueError, match="out of reach"):
        fit.predict(pd.DataFrame({"x": [9.0]}))


def test_after_an_interrupt_threads_stop(lines, monkeypatch):
    loaded = []
    load = RecordedDraws._load

    def interrupted(self, t):
        loaded.append(t)
        if t == 10:  # not one of those that are tried before there are threads
            raise KeyboardInterrupt
        load(self, t)

    monkeypatch.setattr("nrmmix.common.machine.available_cores", lambda: 2)
    monkeypatch.setattr(functionals, "WORTH_THREADS", -1.0)
    monkeypatch.setattr(RecordedDraws, "_load", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lines.predict(TABLE)
    assert len(loaded) < 40


def test_what_runs_is_told_to_stop_before_it_is_waited_for():
    stopped = threading.Event()

    def work(number):
        if number == 0:
            raise KeyError("nought")
        assert stopped.wait(20.0)

    with pytest.raises(KeyError, match="nought"):
        in_threads(work, range(2), 2, stopped.set)


def test_estimates_and_bands_are_those_of_all_components(lines, monkeypatch):
    """Distribution functions that are added up, and quantiles that are solved for, against arrays of all components."""
    new = pd.DataFrame({"x": np.linspace(0.0, 1.0, 7)})
    quick = lines.predict(new, kind="quantile", q=[0.02, 0.5, 0.9], draws=30, rng=1)
    monkeypatch.setattr(functionals.Quantile, "shortcut", lambda *_: None)
    slow = lines.predict(new, kind="quantile", q=[0.02, 0.5, 0.9], draws=30, rng=1)
    np.testing.assert_allclose(quick["estimate"], slow["estimate"], atol=1e-7)
    width = (slow["upper"] - slow["lower"]).to_numpy()
    assert (np.abs(quick[["lower", "upper"]].to_numpy() - slow[["lower", "upper"]].to_numpy()) < 0.1 * width[:, None]).all()


def test_a_row_alone_has_the_quantiles_that_it_has_among_others(lines):
    new = pd.DataFrame({"x": np.linspace(0.0, 1.0, 7)})
    among, alone = (lines.predict(rows, kind="quantile", draws=30, rng=1) for rows in (new, new.iloc[[3]]))
    np.testing.assert_allclose(alone, among.loc[3], rtol=1e-6)


def test_quantiles_of_a_measure_are_where_its_distribution_function_says(lines):
    q = np.array([1e-4, 0.05, 0.5, 0.99])
    states, rows = states_of(lines.posterior, 10), prediction_rows(lines.model, pd.DataFrame({"x": [0.03, 0.4, 0.41, 0.97]}))
    functional = functionals.Quantile(states, np.array([0]), q, rows.inputs)
    cases = functionals.Cases(lines.model, rows, np.arange(rows.n_cases), rows.given)
    for t, state in enumerate(states):
        measure = state.measure(np.random.SeedSequence(t))
        _, found = functional.shortcut(state, measure, cases)
        share, rest = measure.shares(cases.covariates)
        (normal,), (t_new,) = measure.distributions(rows.inputs), state.distributions(rows.inputs)
        for c, i in enumerate(cases.given):
            for a, y in enumerate(found[c]):
                new = type(t_new)(*(np.ravel(part)[-1] if np.size(part) == part.shape[-1] else part[i, -1] for part in t_new))
                own = type(normal)(*(np.broadcast_to(part, (len(rows.inputs), len(share[c])))[i] for part in normal))
                assert share[c] @ own.cdf(y) + rest[c] * new.cdf(y) == pytest.approx(q[a], abs=1e-7)
