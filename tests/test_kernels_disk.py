"""Machine code on disk, where the folder is full, broken, or belongs to another user."""

import os
import threading
import time

import pytest
from numba.core import event
from support.cover import by_turns
from support.processes import subprocess_of

from nrmmix.cli import compiling as warmup
from nrmmix.cli import main
from nrmmix.common import compiling
from nrmmix.kernels.compiling import disk
from nrmmix.kernels.core import jit

compiled = pytest.mark.skipif(not jit.JIT, reason="nothing is compiled")

SCRIPT = """
import errno, os, shutil, sys, tempfile
from pathlib import Path
from nrmmix.kernels.compiling import disk

where = Path(sys.argv[1])
written = open
if "full" in sys.argv or "full for code" in sys.argv:
    class Full:  # of files that code is written to
        def __init__(self, file):
            self.file = file
        def __enter__(self):
            return self
        def __exit__(self, *exception):
            self.file.close()
        def write(self, *bytes):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    import builtins
    ends = (".nbi.tmp.", ".nbc.tmp.") if "full" in sys.argv else (".nbc.tmp.",)
    def limited(name, mode="r", *more, **further):
        made = written(name, mode, *more, **further)
        return Full(made) if "w" in mode and any(end in str(name) for end in ends) else made
    builtins.open = limited
if "beside" in sys.argv:
    disk.PACKAGE_CACHE = where / "beside"
if "read only" in sys.argv:  # whoever runs the tests may be allowed to write anywhere
    before = disk._can_be_written
    disk._can_be_written = lambda path: where / "beside" not in path.parents and before(path)
if "shared" in sys.argv:
    disk.share(disk.Claims(where))
    disk.PATIENCE = 0.5
if "version" in sys.argv:
    disk.digest = lambda: "of_another_version"
sys.path.insert(0, sys.argv[1])
import module
value = module.scaled(3.0), module.halved.address and module.halved._compiled.ctypes(8.0)
hits = sum(module.scaled._compiled.stats.cache_hits.values()) + module.halved._compiled.cache_hits
reasons = (one.strerror.replace(' ', '_') for one in disk.unsaved[:1])
print(*value, hits, disk.is_kept(), *reasons)
"""
MODULE = """
from numba import float64
from nrmmix.kernels.core.entry import entry
from nrmmix.kernels.core.jit import kernel, root

@root
@kernel
def scaled(x):
    return {factor} * x

@entry(float64(float64))
def halved(x):
    return 0.5 * x
"""
NOWHERE = {"NUMBA_CACHE_DIR": "", "HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none"}


@pytest.fixture
def run(tmp_path):
    """The value of a kernel, how often it and an entry point were found on disk, and whether there is a folder for code."""
    (tmp_path / "module.py").write_text(MODULE.format(factor=2.0))

    def result(*ways, **places):
        given = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")} | places
        value, half, hits, kept, *why = subprocess_of(SCRIPT, tmp_path, *ways, PYTHONDONTWRITEBYTECODE="1", **given).split()
        assert half == "4.0"
        return float(value), int(hits), kept == "True", *why

    return result


@pytest.mark.nightly
@compiled
@pytest.mark.parametrize("way", ["full", pytest.param("full for code", marks=pytest.mark.nightly)])
def test_a_full_folder_costs_the_time_of_compiling(run, way):
    assert run(way) == run(way) == (6.0, 0, True, "No_space_left_on_device")
    assert run() == (6.0, 0, True)
    assert run(way) == (6.0, 2, True)


@compiled
@pytest.mark.parametrize(("suffix", "harm", "name"), by_turns([
    ("nbi", "cut", "scaled"), ("nbi", b"", "scaled"), ("nbi", b"no pickle", "halved"), ("nbi", "folder", "halved"),
    ("nbc", b"no pickle", "halved"), ("nbc", b"", "halved"), ("nbc", "cut", "scaled"), ("nbc", "folder", "scaled"),
], 8, 6))
def test_broken_files_are_made_anew(run, tmp_path, suffix, harm, name):
    run()
    (file,) = (tmp_path / "cache").rglob(f"module.{name}*.{suffix}")
    content = file.read_bytes()
    if harm == "folder":  # may be neither read nor replaced
        file.unlink()
        (file / "within").mkdir(parents=True)
        assert run()[:3] == run()[:3] == (6.0, 1, True)
        return
    file.write_bytes(content[: len(content) // 2] if harm == "cut" else harm)
    assert run() == (6.0, 1, True)
    assert run() == (6.0, 2, True)


@compiled
def test_code_of_another_version_is_not_taken(run, tmp_path):
    run()
    assert run("version") == (6.0, 0, True)
    assert run("version") == run() == (6.0, 2, True)
    (tmp_path / "module.py").write_text(MODULE.format(factor=50.0))
    assert run() == (150.0, 0, True)
    assert run() == (150.0, 2, True)


@pytest.mark.nightly
@compiled
def test_code_beside_the_package_serves_those_who_may_only_read_it(run, tmp_path):
    assert run("beside", "read only", **NOWHERE) == (6.0, 0, False)
    assert run("beside", NUMBA_CACHE_DIR="") == (6.0, 0, True)  # who installs it
    assert list((tmp_path / "beside").rglob("module.scaled*.nbc"))
    assert run("beside", "read only", **NOWHERE) == (6.0, 2, False)
    assert run("beside", "read only", **NOWHERE | {"XDG_CACHE_HOME": str(tmp_path / "own")}) == (6.0, 2, True)
    assert list((tmp_path / "own").rglob("module.scaled*.nbc"))
    assert run("beside", "read only") == (6.0, 0, True), "a folder that is named is the only one"


@pytest.mark.nightly
@compiled
def test_processes_that_share_claims_wait_for_who_compiles_but_not_for_ever(run, tmp_path):
    assert run("shared") == (6.0, 0, True)
    claimed, finished = (next(tmp_path.glob(f"module.scaled*.{end}")) for end in ("claimed", "finished"))
    assert run("shared") == (6.0, 2, True)
    for file in (tmp_path / "cache").rglob("module.*"):
        file.unlink()
    finished.unlink()  # whoever claimed it has died
    assert run("shared") == (6.0, 0, True)
    assert claimed.exists() and finished.exists()


def test_a_claim_is_waited_for_until_it_is_finished(tmp_path):
    mine, other, one = disk.Claims(tmp_path), disk.Claims(tmp_path), "module.kernel"
    assert mine.claim(one) and not other.claim(one)
    began = time.perf_counter()
    mine.wait(one, 60.0)
    assert time.perf_counter() - began < 30.0
    threading.Timer(0.3, lambda: mine.finish(one)).start()
    other.wait(one, 60.0)
    assert 0.2 < time.perf_counter() - began < 30.0 and other.is_finished(one)


def test_folders_of_old_versions_go(tmp_path):
    for age in range(6):
        folder = tmp_path / f"{disk.PREFIX}{age}"
        (folder / disk.READY).mkdir(parents=True)
        os.utime(folder, (1e9 - age, 1e9 - age))
    (tmp_path / "something else").mkdir()
    disk._forget_old(tmp_path, tmp_path / f"{disk.PREFIX}5")
    kept = {one.name for one in tmp_path.iterdir()}
    assert kept == {"something else", *(f"{disk.PREFIX}{age}" for age in (0, 1, 2, 5))}


def said_of(estimate, capsys, monkeypatch, times=1):
    monkeypatch.setattr(compiling, "ANNOUNCER", compiling.Announcer())
    with compiling.announced(estimate), compiling.announced(lambda: pytest.fail("the outer one counts")):
        for _ in range(times):
            with event.trigger_event("numba:compile"):
                pass
    return capsys.readouterr().err.splitlines()


def test_the_same_words_come_once_and_say_how_long(capsys, monkeypatch):
    words_of = {None: "a few seconds", 1.0: "a few seconds", 21.0: "about 20 s", 130.0: "about 2 min"}
    for time_, words in words_of.items():
        estimate = None if time_ is None else (lambda seconds=time_: seconds)
        assert said_of(estimate, capsys, monkeypatch, 2) == [f"nrmmix: compiling kernels, {words}; later runs find them on disk ..."]
    assert said_of(lambda: pytest.fail("nothing is compiled"), capsys, monkeypatch, 0) == []


def test_where_nothing_can_be_kept_that_is_said(capsys, monkeypatch):
    monkeypatch.setattr(disk, "is_kept", lambda: False)
    assert said_of(lambda: 20.0, capsys, monkeypatch) == [
        "nrmmix: compiling kernels, about 20 s; in each process anew, until NUMBA_CACHE_DIR names a folder that can be written ..."
    ]
    monkeypatch.undo()
    monkeypatch.setattr(disk, "unsaved", [OSError(28, "No space left on device")])
    assert said_of(None, capsys, monkeypatch, 2)[1:] == [
        "nrmmix: what was compiled cannot be kept for later runs: No space left on device"
    ]


IN_VAIN = ["is_kept", "unsaved"]


@pytest.mark.parametrize("known", IN_VAIN)
def test_warmup_says_when_it_was_in_vain(known, capsys, monkeypatch):
    monkeypatch.setattr(disk, known, (lambda: False) if known == "is_kept" else [OSError(28, "no space")])
    monkeypatch.setattr(warmup, "JOBS", {list: 1.0})
    assert main(["warmup"]) == 1
    said = capsys.readouterr().err
    assert "can be written; NUMBA_CACHE_DIR" in said if known == "is_kept" else "cannot be kept: no space" in said


READY = """
import sys
import nrmmix as nm
from nrmmix.inference.mcmc.cycle import seconds_to_compile
from nrmmix.inference.methods import method_of

galaxy, mcycle = nm.datasets.load_galaxy(), nm.datasets.load_mcycle()
models = [nm.Model("velocity_km_s ~ 1", galaxy), nm.Model("accel_g ~ times_ms", mcycle)]
cycles = [method_of("gibbs", model)[1] for model in models]
before = [seconds_to_compile(*one) for one in zip(cycles, models)]
models[0].fit(method="gibbs", draws=5, tune=5, chains=1, rng=1, progress=False)
print(*before, *(seconds_to_compile(*one) for one in zip(cycles, models)))
"""


@pytest.mark.nightly
@compiled
def test_what_is_on_disk_takes_no_time(tmp_path):
    given = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    first, second = ([float(one) for one in subprocess_of(READY, **given).split()] for _ in range(2))
    assert 8 < first[0] < first[1] < 40 and first[2] == 0.0 < first[3] < first[1]
    assert second == [0.0, first[3], 0.0, first[3]]


BOUNDS = """
import numpy as np
import nrmmix as nm

rng = np.random.default_rng(0)
x = rng.uniform(size=120)
fit = nm.fit("y ~ x", {"x": x, "y": np.sin(6 * x) + 0.2 * rng.normal(size=120)}, method="vb", rng=1, progress=False)
print(repr(fit.elbo))
"""


@pytest.mark.nightly
@compiled
def test_bits_are_those_of_the_process_that_compiled(tmp_path):
    """Sums of variational fits may be reordered: compiled and loaded kernels must not take copies that are reordered in other ways."""
    given = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    assert subprocess_of(BOUNDS, **given) == subprocess_of(BOUNDS, **given)
