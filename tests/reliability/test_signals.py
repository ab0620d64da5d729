"""Interrupts at any moment of a fit: what was drawn is kept, and the process goes on as before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from reliability.amount import note, times
from support.cover import by_turns

import nrmmix as nm

RUN = {"draws": 400, "tune": 50, "chains": 2, "rng": 1}


@pytest.fixture(scope="module")
def galaxy():
    model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())
    model.fit(draws=2, tune=1, rng=1)
    return model


@pytest.fixture
def heard():
    """SIGINT that comes before or after a fit is counted, and does nothing."""
    found = []
    usual = signal.signal(signal.SIGINT, lambda *_: found.append(1))
    yield found
    signal.signal(signal.SIGINT, usual)


def interrupted(model, after, count):
    """A fit, while so many signals come so many seconds after its start; None where it was stopped before the first draw, and kept."""

    def send():
        time.sleep(after)
        for _ in range(count):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        return model.fit(**RUN)
    except KeyboardInterrupt as error:
        return error.fit
    finally:
        thread.join()


@pytest.mark.filterwarnings("ignore::nrmmix.ConvergenceWarning")
@pytest.mark.parametrize("count", by_turns([1, 2, 5], 3, 1))
def test_an_interrupt_at_any_moment_keeps_the_fit(galaxy, heard, count):
    whole = galaxy.fit(**RUN)
    started = time.perf_counter()
    galaxy.fit(**RUN)
    took = time.perf_counter() - started
    rng, tried, stopped = np.random.default_rng(count), times(15, 300), 0
    threads = threading.active_count()
    for _ in range(tried):
        fit = interrupted(galaxy, float(rng.uniform(0, 1.1 * took)), count)
        kept = fit.draws.n_draws
        stopped += fit.interrupted
        assert kept == RUN["draws"] or fit.interrupted
        for name, values in fit.draws.items():
            np.testing.assert_array_equal(values, whole.draws[name][:, :kept])
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert threading.active_count() == threads and stopped > tried / 10
    note(**{f"interrupts, {count} at a time": {"tried": tried, "stopped a fit": stopped, "lost": 0}})


def test_an_interrupt_in_tuning_says_where_the_fit_is(galaxy):
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt, match=r"before the first draw.*`fit` can be extended") as caught:
        galaxy.fit(draws=5, tune=10**7, chains=2, rng=1)
    timer.join()
    signal.signal(signal.SIGINT, usual)
    fit = caught.value.fit
    assert fit.interrupted and fit.draws.n_draws == 0 and min(one.iteration for one in fit.checkpoints) > 0


def test_a_call_of_a_long_sweep_ends_early():
    """Of one sweep over a million rows only a part is done; the rest is done when the fit goes on, to the same bits."""
    X = np.random.default_rng(1).normal(size=(200_000, 1))
    model = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=nm.Gaussian(m=0, r=0.1, nu=3, scale=1))
    run = {"draws": 2, "tune": 1, "chains": 1, "rng": 2, "init": np.arange(200_000) % 3}
    whole = model.fit("gibbs", **run)
    fit = model.fit("gibbs", time_limit=1e-6, **run)
    (point,) = fit.checkpoints
    assert fit.interrupted and fit.draws.n_draws == 0 and point.iteration == 0
    again = fit.extend(2)
    for name, values in whole.draws.items():
        np.testing.assert_array_equal(again.draws[name], values)


@pytest.mark.skipif(os.name != "posix", reason="there are no such signals")
@pytest.mark.parametrize(("number", "status"), [
    (signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.nightly),
])
def test_signals_that_end_the_process_save_first(number, status, tmp_path):
    """Through the API with a checkpoint, and through the shell with --save."""
    code = f"""
        import os, signal, threading, nrmmix as nm
        model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())
        model.fit(draws=2, tune=1, rng=1)
        threading.Timer(0.3, os.kill, (os.getpid(), {int(number)})).start()
        model.fit(draws=10**6, tune=10, chains=2, rng=1, checkpoint=r"{tmp_path / 'run.npz'}")
        print("not reached")
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert found.returncode == status and "not reached" not in found.stdout
    assert 0 < nm.load(tmp_path / "run.npz").draws.n_draws < 10**6
    path = tmp_path / "fit.npz"
    arguments = ["fit", "velocity_km_s ~ 1", "--data", "galaxy", "--draws", "1000000", "--tune", "10", "--save", str(path)]
    process = subprocess.Popen([sys.executable, "-m", "nrmmix", *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "fit.checkpoint.npz").exists():
        time.sleep(0.05)
    time.sleep(0.6)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == status and "fit saved to" in err
    assert not (tmp_path / "fit.checkpoint.npz").exists() and nm.load(path).draws.n_draws > 0
