"""Runs that are killed: what they leave can be read, and goes on to the same bits."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from reliability.amount import note, times
from support.cover import by_turns, each_once

import nrmmix as nm
from nrmmix.common import files

RUN = {"draws": 150, "tune": 40, "chains": 2, "rng": 4}
DATA = nm.datasets
MODELS = {
    "mixture": ("velocity_km_s ~ 1", DATA.load_galaxy, {}),
    "regression": ("accel_g ~ times_ms", DATA.load_mcycle, {}),
}


def same(a, b):
    return set(a.draws) == set(b.draws) and all(np.array_equal(a.draws[name], b.draws[name], equal_nan=True) for name in a.draws)


@pytest.fixture(scope="module")
def models():
    return {name: nm.Model(formula, load(), **options) for name, (formula, load, options) in MODELS.items()}


def stopped_again_and_again(model, path, **run):
    """A run that is stopped after a moment, and taken up from its file, until it has come to its end."""
    fit = model.fit(**run, checkpoint=path, every=1e-6, time_limit=1e-4)
    for again in range(10_000):
        if not fit.interrupted:
            return fit, again
        fit = nm.resume(path, every=1e-6, time_limit=0.002 * 1.3**again)
    raise AssertionError("it does not end")


@pytest.mark.parametrize(("name", "method"), by_turns(each_once(MODELS, ["auto", "split_merge", "slice"]), 3))
def test_a_run_that_goes_on_from_its_file_ends_with_the_same_bits(models, name, method, tmp_path):
    model = models[name]
    whole = model.fit(method, **RUN)
    fit, parts = stopped_again_and_again(model, tmp_path / "run.npz", method=method, **RUN)
    assert parts > 3 and same(fit, whole) and (fit.moved, fit.tune, fit.thin) == (whole.moved, whole.tune, whole.thin)
    assert same(nm.load(tmp_path / "run.npz"), whole) and same(nm.resume(tmp_path / "run.npz"), whole)
    assert same(fit.extend(20), whole.extend(20))


@pytest.mark.parametrize("init", by_turns(["sequential", "each", "ibhc"], 3))
def test_starts_and_kept_parameters_go_on_too(init, tmp_path):
    family = None if init == "ibhc" else nm.SemiconjugateGaussian()
    model = nm.Model("eruptions_min + waiting_min ~ 1", DATA.load_faithful(), family=family)
    run = {"draws": 30, "tune": 5, "chains": 2, "rng": 1, "init": init}
    fit, _ = stopped_again_and_again(model, tmp_path / "run.npz", method="gibbs", **run)
    assert same(fit, model.fit("gibbs", **run))


@pytest.mark.nightly
def test_a_run_of_its_own_length_goes_on_too(models, tmp_path):
    """To the same bits, wherever it was stopped; and it is a run of so many draws, thinned."""
    model, path, stopped = models["mixture"], tmp_path / "run.npz", 0
    run = {"tune": 200, "rng": 3}
    whole = model.fit(**run)
    for seconds in (0.15, 0.4):
        timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
        usual = signal.signal(signal.SIGINT, lambda *_: None)  # for one that comes too late
        timer.start()
        try:
            fit = model.fit(**run, checkpoint=path, every=1e-6)
        except KeyboardInterrupt as error:
            fit = error.fit
        timer.join()
        signal.signal(signal.SIGINT, usual)
        stopped += fit.interrupted
        again = nm.resume(path)
        assert again.thin == whole.thin and same(again, whole)
    assert stopped > 0 and same(whole, model.fit(draws=whole.draws.n_draws, thin=whole.thin, **run))


def killed(model, path, after):
    """A fit in a process of its own, which is killed after so many seconds; whether it had come to its end."""
    process = multiprocessing.get_context("fork").Process(target=lambda: model.fit(**RUN, checkpoint=path, every=1e-3))
    process.start()
    time.sleep(after)
    process.kill()
    process.join()
    return process.exitcode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_kill_at_any_moment_loses_an_interval_at_most(models, tmp_path):
    model, path = models["mixture"], tmp_path / "run.npz"
    whole = model.fit(**RUN)
    rng, tried, torn, part = np.random.default_rng(5), times(6, 300), 0, 0
    for _ in range(tried):
        before = path.exists()
        killed(model, path, float(rng.uniform(0.0, 0.6)))
        if not path.exists():  # killed before the first one
            assert not before
            continue
        part += nm.load(path).interrupted
        torn += not same(nm.resume(path), whole)
        assert {one.name for one in tmp_path.iterdir()} <= {"run.npz"}, "what dead processes have left is swept by the next one"
    assert torn == 0
    note(kills={"tried": tried, "left part of a run": part, "torn or changed": torn})


def test_a_checkpoint_that_cannot_be_written_later_costs_no_run(models, tmp_path, monkeypatch, capsys):
    usual, calls = files.replaced, []

    def full(path):
        calls.append(path)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return usual(path)

    monkeypatch.setattr(files, "replaced", full)
    fit = models["mixture"].fit(**RUN, checkpoint=tmp_path / "run.npz", every=1e-6)
    assert not fit.interrupted and fit.draws.n_draws == RUN["draws"]
    assert capsys.readouterr().err.count("the checkpoint could not be written (OSError: [Errno 28] No space left on device)") >= 1


@pytest.mark.parametrize(("options", "message"), [
    ({"checkpoint": "run.csv"}, r"name of a checkpoint must end in \.npz"),
    ({"checkpoint": "no/run.npz"}, "no folder"),
    ({"checkpoint": "x" * 300 + ".npz"}, "file name too long"),
    ({"every": "soon"}, "every must be seconds, or a text such as"),
    ({"every": 0}, "every must be"),
    ({"store": "less"}, "store must be one of"),
    ({"draws": "all"}, 'draws must be an integer of at least 1 or "auto"'),
    ({"method": "bhc", "checkpoint": "run.npz", "draws": "auto"}, "checkpoint"),
])
def test_what_cannot_be_done_is_refused_before_sampling(models, monkeypatch, tmp_path, options, message):
    monkeypatch.setattr("nrmmix.inference.mcmc.sampling.new_chain", lambda *_: pytest.fail("it was sampled"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, OSError), match=message):
        models["mixture"].fit(**options)
    assert list(tmp_path.iterdir()) == []


# ---- copies


def of_seed(seed):
    return nm.Model("velocity_km_s ~ 1", DATA.load_galaxy()).fit(draws=9, tune=5, chains=2, rng=seed)


@pytest.mark.parametrize("name", MODELS)
def test_models_and_fits_are_copied_by_their_format(models, name):
    model = models[name]
    fit = model.fit(draws=20, tune=10, chains=2, rng=1)
    for again in (pickle.loads(pickle.dumps(fit)), copy.deepcopy(fit), copy.copy(fit)):
        assert same(again, fit) and same(again.extend(5), fit.extend(5)) and again.predict(draws=5).equals(fit.predict(draws=5))
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert type(again) is nm.Model and str(again) == str(model)
        assert same(again.fit(draws=20, tune=10, chains=2, rng=1), fit)


def test_searches_are_copied_too():
    fit = nm.fit("velocity_km_s ~ 1", DATA.load_galaxy(), method="ibhc", rng=1)
    again = pickle.loads(pickle.dumps(fit))
    assert np.array_equal(again.labels, fit.labels) and again.log_joint == fit.log_joint


@pytest.mark.nightly
def test_fits_come_back_from_other_processes(models):
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        fits = list(pool.map(of_seed, [1, 2]))
    assert all(same(fit, of_seed(seed)) for seed, fit in zip((1, 2), fits, strict=True))


def test_an_unwritable_place_is_known_before(models, tmp_path):
    with pytest.raises(ValueError, match="is no file that can be replaced, but a pipe"):
        os.mkfifo(tmp_path / "pipe.npz")
        models["mixture"].fit(checkpoint=tmp_path / "pipe.npz")
    (tmp_path / "real.npz").write_bytes(b"old")
    (tmp_path / "link.npz").symlink_to(tmp_path / "real.npz")
    models["mixture"].fit(draws=4, tune=1, rng=1, checkpoint=tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink() and nm.load(tmp_path / "real.npz").draws.n_draws == 4
    (tmp_path / "a.npz").symlink_to("b.npz")
    (tmp_path / "b.npz").symlink_to("a.npz")
    with pytest.raises(OSError, match="cannot be written: too many levels of symbolic links"):
        models["mixture"].fit(checkpoint=tmp_path / "a.npz")


def test_files_are_on_the_disk_before_they_take_the_place(tmp_path, monkeypatch):
    order = []
    monkeypatch.setattr(files.os, "fsync", lambda handle: order.append("fsync"))
    usual = os.replace
    monkeypatch.setattr(files.os, "replace", lambda a, b: (order.append("replace"), usual(a, b)))
    with files.replaced(tmp_path / "x.npz") as file:
        file.write(b"new")
    assert order == ["fsync", "replace", "fsync"] and (tmp_path / "x.npz").read_bytes() == b"new"


def test_what_the_dead_have_left_is_swept(tmp_path):
    target = Path(tmp_path / "fit.npz")
    process = multiprocessing.get_context("fork").Process(target=lambda: None)
    process.start()
    process.join()
    name = files.prefix_of(target)
    dead, alive, other = (tmp_path / f"{prefix}-aa.tmp" for prefix in (f"{name}{process.pid}", f"{name}{os.getppid()}", ".nrmmix-0-0-1"))
    for path in (dead, alive, other):
        path.write_bytes(b"half")
    with files.replaced(target) as file:
        file.write(b"whole")
    assert not dead.exists() and alive.exists() and other.exists()


def test_the_shell_goes_on_with_what_was_killed(tmp_path, capsys):
    import subprocess
    import sys

    from nrmmix.cli import main

    path, kept = tmp_path / "fit.npz", tmp_path / "fit.checkpoint.npz"
    arguments = ["fit", "velocity_km_s ~ 1", "--data", "galaxy", "--draws", "3000", "--tune", "10", "--chains", "2", "--seed", "1"]
    process = subprocess.Popen([sys.executable, "-m", "nrmmix", *arguments, "--save", str(path), "--every", "0.05s"])
    while not kept.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not path.exists()
    assert main(["resume", str(path)]) == 0
    assert "Chains" in capsys.readouterr().out and not kept.exists()
    assert same(nm.load(path), nm.fit("velocity_km_s ~ 1", DATA.load_galaxy(), draws=3000, tune=10, chains=2, rng=1))
    assert main(["resume", str(path), "--draws", "10"]) == 0
    assert nm.load(path).draws.n_draws == 3010
