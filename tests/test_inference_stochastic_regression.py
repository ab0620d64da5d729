"""Stochastic variational inference of density regressions: the same numbers whoever does the work, and near coordinate ascent."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from support.cover import by_turns, each_once

import nrmmix as nm
from nrmmix.inference.variational_regression import run
from nrmmix.model.frame.sources.base import SourceChanged

RNG = np.random.default_rng(5)
N = 900
TABLE = pd.DataFrame({"x": RNG.uniform(-2, 2, N), "t": RNG.standard_normal(N).round(1), "g": RNG.choice(list("abc"), N)})
TABLE["y"] = np.sin(2 * TABLE["x"]) + np.where(TABLE["g"] == "a", 1.5, 0) + np.where(TABLE["x"] > 0, 0.4, 0.1) * RNG.standard_normal(N)
HERE, NEW = TABLE[:700], TABLE[700:]
PARTS = [HERE[:300], HERE[300:301], HERE[301:]]


@pytest.fixture(scope="module", autouse=True)
def quick_starts():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "OF_SAMPLE", 8)
        yield


def fitted(data=HERE, formula="y ~ x + t + g", rng=1, **options):
    given = {"batches": 6, "round_size": 2, "starts": 2, "passes": 5, "components": 15} | options
    return nm.fit(formula, data, method=nm.StochasticVB(**given), rng=rng)


@pytest.fixture(scope="module")
def fit():
    return fitted()


def same(fit, other):
    assert fit.elbo == other.elbo and fit.starts.equals(other.starts) and fit.passes.equals(other.passes)
    for one, two in zip(fit.fits, other.fits, strict=True):
        assert all(np.array_equal(getattr(one, name), getattr(two, name)) for name in ("N", "s", "A", "codes"))


def named(value):
    return "parts" if value is PARTS else "memory" if value is HERE else str(value)


@pytest.mark.parametrize(("data", "executor"), by_turns(each_once([HERE, PARTS], [None, 2, "threads"]), 3, 1), ids=named)
def test_neither_sources_nor_workers_change_a_bit(fit, data, executor):
    found = fitted(data, executor=executor)
    same(fit, found)
    assert found.options.executor is None


def test_rows_that_change_end_the_fit():
    turn = []

    def parts():
        turn.append(1)
        return iter([HERE if len(turn) < 9 else HERE.assign(t=HERE["t"] + 0.5)])

    model = nm.Model("y ~ x + t + g", parts)
    turn.clear()
    with pytest.raises(SourceChanged, match="other values of the covariate 't' than"):
        model.fit(nm.StochasticVB(batches=6, starts=1, components=9), rng=1)


@pytest.mark.nightly
def test_rounds_are_part_of_the_numbers_and_seeds_too(fit):
    assert len({fit.elbo, fitted(round_size=1).elbo, fitted(rng=2).elbo}) == 3


@pytest.mark.parametrize(("batches", "formula"), each_once([None, 1, 50], ["y ~ x", "y + t ~ x", "y ~ g"]))
def test_other_formulas_and_batches(formula, batches):
    fit = fitted(formula=formula, batches=batches, round_size=None, starts=1)
    assert np.isfinite(fit.elbo) and fit.factors.N.sum() == pytest.approx(700) and not fit.has_converged
    assert np.isfinite(fit.log_density(NEW)).all()


@pytest.mark.parametrize("kappa", by_turns([0.5, 0.7, 1.0], 3, 1))
def test_ends_near_coordinate_ascent(kappa):
    full = nm.fit("y ~ x + t + g", HERE, method=nm.VB(starts=1, components=15), rng=1)
    found = fitted(starts=1, passes=30, kappa=kappa, round_size=1)
    assert found.elbo > full.elbo - 0.1 * 700 and found.log_density(NEW).mean() > full.log_density(NEW).mean() - 0.05
    assert found.passes["elbo"].iloc[-5:].mean() == pytest.approx(found.elbo, abs=0.05 * 700)  # estimates, and what is exact


def test_from_more_rows_than_starts_are_found_on(monkeypatch):
    monkeypatch.setattr(run, "SAMPLE", 250)
    one, other = fitted(starts=1), fitted(PARTS, starts=1)
    same(one, other)
    assert one.factors.N.sum() == pytest.approx(700)


def test_saved_and_stopped(fit, tmp_path):
    fit.save(tmp_path / "fit.npz")
    same(fit, nm.load(tmp_path / "fit.npz"))
    assert "stochastic_vb" in str(fit.summary()) + repr(fit)
    stopped = nm.fit("y ~ x + t + g", HERE, method=nm.StochasticVB(starts=40, passes=2000, components=15), rng=1, time_limit=2.0)
    assert stopped.interrupted and len(stopped.starts) < 40
    assert stopped.factors.N.sum() == pytest.approx(700) and np.isfinite(stopped.elbo)


@pytest.mark.parametrize(("options", "message"), [
    ({"kappa": 0.4}, "kappa must be from 0.5 to 1"), ({"delay": 0.0}, "delay must be a finite number greater than 0"),
    ({"batches": 701}, "batches=701 for 700 rows"), ({"components": 701}, "components=701 for 700 rows"),
    ({"executor": "all"}, "executor must be None"), ({"round_size": 0}, "round_size must be an integer of at least 1"),
    ({"combine": "mean"}, "combine must be one of"),
])
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        fitted(**options)


@pytest.mark.parametrize(("model", "message"), [
    ({"prior": nm.NGGP()}, "gamma weights of nm.DirichletProcess.*those of NGGP have no"),
    ({"prior": nm.PitmanYor()}, "gamma weights of nm.DirichletProcess.*those of PitmanYor have no"),
    ({"kernel": nm.Box(0.3), "formula": "y ~ x"}, "is 0 beyond its width"),
    ({"family": nm.SemiconjugateGaussian()}, "not integrated out"),
])
def test_models_that_have_no_factors_in_closed_form(model, message):
    with pytest.raises(ValueError, match=message):
        nm.fit(model.pop("formula", "y ~ x + t"), HERE, method="stochastic_vb", **model)
