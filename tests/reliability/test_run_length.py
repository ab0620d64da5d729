"""Runs that find their own length."""

from __future__ import annotations

import math
import pickle
import re
import warnings

import numpy as np
import pytest

import nrmmix as nm
from nrmmix.cli import main
from nrmmix.posterior import diagnostics
from nrmmix.posterior.convergence import converged, verdict


@pytest.fixture(scope="module")
def galaxy():
    return nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())


def same(a, b):
    return set(a.draws) == set(b.draws) and all(np.array_equal(a.draws[name], b.draws[name]) for name in a.draws)


def said(fit):
    return verdict(fit.evidence, fit.diagnostics(), fit.curve_diagnostics())


@pytest.mark.nightly
def test_a_fit_without_arguments_agrees(galaxy):
    fit = galaxy.fit(rng=1)
    assert not fit.interrupted and converged(fit.diagnostics()) and fit.draws.n_draws <= 1000
    text = said(fit)
    assert text.startswith("Density: chains agree: ") and " Clusters: chains agree: " in text and "Run longer" not in text
    assert same(fit, galaxy.fit(rng=1, cores=1)) and same(fit, nm.fit(galaxy.formula, galaxy.frame.source, rng=1))
    assert same(fit, galaxy.fit(rng=1, draws=fit.draws.n_draws, thin=fit.thin)), "it is a run of so many draws, thinned"


@pytest.mark.nightly
def test_python_and_shell_have_one_default(galaxy, tmp_path, capsys):
    path = tmp_path / "fit.npz"
    assert main(["fit", "velocity_km_s ~ 1", "--data", "galaxy", "--seed", "1", "--save", str(path)]) == 0
    assert same(nm.load(path), galaxy.fit(rng=1))
    assert "Clusters: chains agree" in capsys.readouterr().out


def test_python_and_shell_have_one_default_of_components(tmp_path):
    path = tmp_path / "fit.npz"
    run = ["--draws", "5", "--tune", "5", "--chains", "2", "--seed", "1"]
    assert main(["fit", "accel_g ~ times_ms", "--data", "mcycle", *run, "--save", str(path)]) == 0
    assert same(nm.load(path), nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=5, tune=5, chains=2, rng=1))


@pytest.mark.nightly
def test_a_limit_of_time_ends_tuning_too_and_the_fit_goes_on(galaxy):
    fit = galaxy.fit(rng=1, tune=10**6, time_limit=0.05)  # a machine five times faster does not reach the goal in it
    assert fit.interrupted and 0 < fit.tune < 10**6 and fit.draws.n_draws > 0
    text, shown = said(fit), fit.summary().as_text()
    assert "The time limit of 0.05 s ended sampling before the goal, an effective sample size of 400 and R-hat 1.01. Go on: fit =" in text
    assert re.search(r"Ended by: +time limit", shown) and "Interrupted" not in shown and "stopped early by its time limit" in repr(fit)
    again = pickle.loads(pickle.dumps(fit))
    assert said(again) == text and again.summary().as_text() == shown
    longer = fit.extend(time_limit=math.inf)
    assert not longer.interrupted and converged(longer.diagnostics())
    assert "time limit" not in said(longer) and re.search(r"Interrupted: +no", longer.summary().as_text())


def test_a_run_of_few_draws_goes_on_until_they_agree(galaxy):
    """The few draws that there are were all that was kept: ever fewer of ever more iterations."""
    fit = galaxy.fit(draws=15, tune=50, rng=1).extend(time_limit=60)
    assert not fit.interrupted and converged(fit.diagnostics()) and fit.draws.n_draws >= 100
    assert same(fit, galaxy.fit(rng=1, tune=50, draws=fit.draws.n_draws, thin=fit.thin))


@pytest.mark.nightly
def test_what_ended_a_run_of_so_many_draws(galaxy):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nm.ConvergenceWarning)
        fit = galaxy.fit(rng=1, tune=10, draws=10**6, time_limit=1.0)
    assert "The time limit of 1 s ended sampling before the goal." in said(fit)
    few = galaxy.fit(rng=1, tune=10**8, draws=10, time_limit=0.2)
    assert said(few).startswith("Convergence cannot be judged from 0 draws a chain. The time limit of 0.2 s ended")


def test_progress_shows_where_it_is(galaxy, capsys):
    galaxy.fit(rng=1, progress=True)
    err = capsys.readouterr().err
    assert re.search(r"4 chains: [\d,]+ iterations, ESS \d+ of 400, R-hat 1\.\d+ of 1\.01, \d+ s, \d+ s left", err)


def test_what_never_varies_ends():
    """Of one row and a fixed mass nothing varies, and no number of draws would tell more."""
    model = nm.Model(data=np.zeros((1, 1)), prior=nm.DirichletProcess(1.0), family=nm.Gaussian(m=0, r=1, nu=3, scale=1))
    fit = model.fit(rng=1)
    assert not fit.interrupted and fit.draws.n_draws == 1000 and "nothing varied" in said(fit)


def test_the_remedy_is_a_call_that_works(galaxy):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nm.ConvergenceWarning)
        fit = galaxy.fit(draws=100, tune=50, rng=1)
        text = said(fit)
        call = re.search(r"or go on: (fit = fit\.extend\(\d+\)), about \d+ (s|min)\.", text)
        scope = {"fit": fit}
        exec(call[1], scope)
        assert scope["fit"].draws.n_draws > 400
        short = galaxy.fit(rng=1, time_limit=0.1)
        call = re.search(r'Go on: (fit = fit\.extend\("auto", time_limit=\d+\)), about \d+ (s|min|h)\.', said(short))
        scope = {"fit": short}
        exec(call[1], scope)
    assert converged(scope["fit"].diagnostics())


@pytest.mark.nightly
def test_the_remedy_of_the_shell_is_a_command_that_works(tmp_path, capsys):
    path = tmp_path / "fit.npz"
    fit = ["fit", "velocity_km_s ~ 1", "--data", "galaxy", "--draws", "100", "--tune", "50", "--seed", "1"]
    assert main([*fit, "--save", str(path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert re.search(r"Run longer: --tune 500 --draws \d+; or go on: nrmmix resume", text)
    command = re.search(r"or go on: nrmmix (resume \S+ --draws \d+), about", text)[1]
    assert main(command.split()) == 0 and nm.load(path).draws.n_draws > 400
    capsys.readouterr()
    assert main(fit) == 0
    assert "go on" not in capsys.readouterr().out


@pytest.mark.nightly
def test_the_curves_of_a_regression_count(monkeypatch):
    """The number of clusters may agree while the curves do not: both are looked at."""
    from nrmmix.inference.mcmc.length import Look, look

    fit = nm.fit("accel_g ~ times_ms", nm.datasets.load_mcycle(), draws=300, tune=20, rng=1)
    rng = np.random.default_rng(1)
    values = dict(fit.draws) | {name: rng.normal(size=(4, 300)) for name in ("log_joint", "mass")}
    monkeypatch.setattr("nrmmix.inference.mcmc.length.diagnostics.table", lambda named, usual=diagnostics.table: usual(
        {name: rng.normal(size=np.shape(one)) if name == "n_clusters" else one for name, one in named.items()}))
    found = look(fit.model, values, 1)
    assert not found.is_enough and found.ess < 400
    assert Look(401, 1.009).is_enough and not Look(401, 1.02).is_enough and not Look(399, 1.0).is_enough
