"""Machine code on disk, where the folder is full, broken, or belongs to another user."""

import threading
import time

import pytest
from numba.core import event
from support.processes import subprocess_of

from nrmmix.cli import compiling as warmup
from nrmmix.cli import main
from nrmmix.common import compiling
from nrmmix.kernels.compiler import disk
from nrmmix.kernels.compiler.ahead import Claims, before_first
from nrmmix.kernels.core import jit

compiled = pytest.mark.skipif(not jit.ROOTS_ONLY, reason="kernels are not compiled in our way")

SCRIPT = """
import errno, os, sys
from numba.core import caching
from nrmmix.kernels.compiler import ahead, disk
from nrmmix.kernels.core import jit

def refuse(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

if "full" in sys.argv:  # for indices too
    disk.CacheFile._open_for_write = refuse
if "full for code" in sys.argv:
    disk.CacheFile._save_data = refuse
if "read only" in sys.argv:  # whoever runs the tests may be allowed to write anywhere
    caching.InTreeCacheLocator.ensure_cache_path = disk.CacheFile._open_for_write = refuse
if "shared" in sys.argv:
    disk.share(ahead.Claims(sys.argv[1]))
    disk.PATIENCE = 0.5
if "version" in sys.argv:
    disk.digest = lambda: "of another version"
sys.path.insert(0, sys.argv[1])
import module
reasons = (one.strerror.replace(' ', '_') for one in jit.unsaved())
print(module.scaled(3.0), sum(module.scaled.stats.cache_hits.values()), disk.is_kept(), *reasons)
"""
MODULE = """
from nrmmix.kernels.core import jit

@jit.kernel
def scaled(x):
    return {factor} * x
"""


@pytest.fixture
def run(tmp_path):
    """The value of a kernel, how often it was found on disk, and whether there is a folder for code."""
    (tmp_path / "module.py").write_text(MODULE.format(factor=2.0))

    def result(*ways, **places):
        given = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")} | places
        value, hits, kept, *why = subprocess_of(SCRIPT, tmp_path, *ways, PYTHONDONTWRITEBYTECODE="1", **given).split()
        return float(value), int(hits), kept == "True", *why

    return result


@compiled
@pytest.mark.parametrize("way", ["full", "full for code"])
def test_a_full_folder_costs_the_time_of_compiling(run, way):
    assert run(way) == run(way) == (6.0, 0, True, "No_space_left_on_device")
    assert run() == (6.0, 0, True)
    assert run(way) == (6.0, 1, True)


@compiled
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("harm", [b"", b"no pickle", "cut", "folder"])
def test_broken_files_are_made_anew(run, tmp_path, suffix, harm):
    run()
    (file,) = (tmp_path / "cache").rglob(f"module.scaled*.{suffix}")
    content = file.read_bytes()
    if harm == "folder":  # may be neither read nor replaced
        file.unlink()
        (file / "within").mkdir(parents=True)
        assert run()[:3] == run()[:3] == (6.0, 0, True)
        return
    file.write_bytes(content[: len(content) // 2] if harm == "cut" else harm)
    assert run() == (6.0, 0, True)
    assert run() == (6.0, 1, True)


@compiled
def test_code_of_another_version_is_not_taken_even_where_the_new_cannot_be_written(run, tmp_path):
    """An index is written before the code, whose file may have the name of one that is there."""
    run()
    (tmp_path / "module.py").write_text(MODULE.format(factor=50.0))
    assert run("full for code")[:3] == (150.0, 0, True)
    assert run() == (150.0, 0, True)
    assert run() == (150.0, 1, True)
    assert run("version") == (150.0, 0, True)
    assert run("version") == run() == (150.0, 1, True)


@compiled
def test_code_beside_the_source_serves_those_who_may_only_read_it(run, tmp_path):
    nowhere = {"NUMBA_CACHE_DIR": "", "HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none"}
    assert run("read only", **nowhere) == (6.0, 0, False)
    assert run(NUMBA_CACHE_DIR="") == (6.0, 0, True)  # who installs it
    assert list((tmp_path / "__pycache__").glob("module.scaled*.nbc"))
    assert run("read only", **nowhere) == (6.0, 1, False)
    assert run("read only", **nowhere | {"XDG_CACHE_HOME": str(tmp_path)}) == (6.0, 1, True)


@compiled
def test_processes_that_share_claims_wait_for_who_compiles_but_not_for_ever(run, tmp_path):
    assert run("shared") == (6.0, 0, True)
    claimed, finished = (next(tmp_path.glob(f"module.scaled*.{end}")) for end in ("claimed", "finished"))
    assert run("shared") == (6.0, 1, True)
    for file in (tmp_path / "cache").rglob("module.scaled*"):
        file.unlink()
    finished.unlink()  # whoever claimed it has died
    assert run("shared") == (6.0, 0, True)
    assert claimed.exists() and finished.exists()


def test_a_claim_is_waited_for_until_it_is_finished(tmp_path):
    mine, other, one = Claims(tmp_path), Claims(tmp_path), ("module", "kernel")
    assert mine.claim(one) and not other.claim(one)
    began = time.perf_counter()
    mine.wait(one, 60.0)
    assert time.perf_counter() - began < 30.0
    threading.Timer(0.3, lambda: mine.finish(one)).start()
    other.wait(one, 60.0)
    assert 0.2 < time.perf_counter() - began < 30.0 and other.is_finished(one)


@compiled
def test_where_nothing_can_be_kept_that_is_said_and_nobody_helps(tmp_path):
    script = """
import sys
from numba.core import caching, event
from nrmmix.inference.mcmc import sampling
from nrmmix.kernels.compiler import ahead, disk

def refuse(*arguments):
    raise OSError

sys.stderr = sys.stdout
caching.InTreeCacheLocator.ensure_cache_path = refuse
assert not disk.is_kept()
sampling.available_cores = lambda: 4
sampling.kernels_of = lambda *_: [ahead.Needed("no_module", name, seconds=10.0) for name in ("one", "other")]
with sampling._compiling(None, None):
    assert ahead._team is None
    event.start_event("numba:compile")
    event.end_event("numba:compile")
"""
    nowhere = {"NUMBA_CACHE_DIR": "", "HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none", "NRMMIX_COMPILE_PROCESSES": ""}
    assert subprocess_of(script, **nowhere) == (
        "nrmmix: compiling kernels, about 20 s; in each process anew, until NUMBA_CACHE_DIR names a folder that can be written ...\n"
    )


def test_the_same_words_come_once_and_say_how_long(capsys):
    made = compiling._Announcer()
    for time_ in (compiling.text(0), compiling.text(10), compiling.text(0)):
        made.time = time_
        made.on_start(None)
    assert capsys.readouterr().err.splitlines() == [
        f"nrmmix: compiling kernels, {words}; later runs find them on disk ..." for words in ("a few seconds", "about 10 s")
    ]


def test_what_cannot_be_kept_is_said_once(capsys):
    for _ in range(2):
        compiling.say_not_kept(OSError(28, "No space left on device"))
    assert capsys.readouterr().err == "nrmmix: what was compiled cannot be kept for later runs: No space left on device\n"


IN_VAIN = [{"is_kept": lambda: False}, {"unsaved": lambda: [OSError(28, "no space")], "JOBS": {list: 1.0}}]


@pytest.mark.parametrize("known", IN_VAIN, ids=list)
def test_warmup_says_when_it_was_in_vain(known, capsys, monkeypatch):
    for name, value in known.items():
        monkeypatch.setattr(warmup, name, value)
    assert main(["warmup"]) == 1
    said = capsys.readouterr().err
    assert "can be written; NUMBA_CACHE_DIR" in said if "is_kept" in known else "cannot be kept: no space" in said


def test_what_takes_long_is_expected_before_it_is_said(capsys, monkeypatch):
    """Also by the words of the first kernel that Python itself calls, which numba speaks of before it compiles."""
    made = compiling._Announcer()
    monkeypatch.setattr(compiling, "_ANNOUNCER", made)
    with before_first(lambda: compiling.expect(21.0)), compiling.announced():
        for _ in range(2):
            event.start_event("numba:compile")
            event.end_event("numba:compile")
    with compiling.announced(), compiling.announced():
        event.start_event("numba:compile")
        event.end_event("numba:compile")
    assert [line.split("; ")[0] for line in capsys.readouterr().err.splitlines()] == [
        "nrmmix: compiling kernels, about 20 s", "nrmmix: compiling kernels, a few seconds",
    ]
    assert disk.is_kept()
