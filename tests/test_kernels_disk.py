"""Machine code on disk, where the folder is full, broken, or belongs to another user."""

import pytest
from support.processes import subprocess_of

from nrmmix.common import compiling
from nrmmix.kernels.compiler import disk
from nrmmix.kernels.core import jit

compiled = pytest.mark.skipif(not jit.ROOTS_ONLY, reason="kernels are not compiled in our way")

SCRIPT = """
import errno, os, sys
from numba.core import caching
from nrmmix.kernels.compiler import disk
from nrmmix.kernels.core import jit

def refuse(*arguments):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

if "full" in sys.argv:  # for indices too
    disk.CacheFile._open_for_write = refuse
if "full for code" in sys.argv:
    disk.CacheFile._save_data = refuse
if "read only" in sys.argv:  # whoever runs the tests may be allowed to write anywhere
    caching.InTreeCacheLocator.ensure_cache_path = disk.CacheFile._open_for_write = refuse
if "version" in sys.argv:
    disk.digest = lambda: "of another version"
sys.path.insert(0, sys.argv[1])
import module
print(module.scaled(3.0), sum(module.scaled.stats.cache_hits.values()), disk.is_kept())
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
        value, hits, kept = subprocess_of(SCRIPT, tmp_path, *ways, PYTHONDONTWRITEBYTECODE="1", **given).split()
        return float(value), int(hits), kept == "True"

    return result


@compiled
@pytest.mark.parametrize("way", ["full", "full for code"])
def test_a_full_folder_costs_the_time_of_compiling(run, way):
    assert run(way) == run(way) == (6.0, 0, True)
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
        assert run() == run() == (6.0, 0, True)
        return
    file.write_bytes(content[: len(content) // 2] if harm == "cut" else harm)
    assert run() == (6.0, 0, True)
    assert run() == (6.0, 1, True)


@compiled
def test_code_of_another_version_is_not_taken_even_where_the_new_cannot_be_written(run, tmp_path):
    """An index is written before the code, whose file may have the name of one that is there."""
    run()
    (tmp_path / "module.py").write_text(MODULE.format(factor=50.0))
    assert run("full for code") == (150.0, 0, True)
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
with sampling._compiling(None, None):  # helpers would ask the model what it needs
    assert ahead._team is None
    event.start_event("numba:compile")
    event.end_event("numba:compile")
"""
    said = subprocess_of(script, NUMBA_CACHE_DIR="", HOME="/proc/none", XDG_CACHE_HOME="/proc/none")
    assert said == "nrmmix: compiling kernels; in each process anew, until NUMBA_CACHE_DIR names a folder that can be written ...\n"


def test_what_is_compiled_is_said_to_be_kept_elsewhere():
    assert compiling._Announcer.later == "later runs find them on disk"
    assert disk.is_kept()
