"""Chains that run for long: memory does not grow."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from reliability.amount import note, times
from support.cover import by_turns

import nrmmix as nm


def resident():
    """kB in memory."""
    return 4 * int(Path("/proc/self/statm").read_text().split()[1])


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say how much memory is in use")
def test_chains_on_ten_thousand_rows_have_flat_memory(tmp_path):
    """With checkpoints, of which each is as large as the last once the draws are as many as are kept."""
    seconds = times(60, 1800)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(10_000, 6)) + 4 * rng.normal(size=(8, 6))[rng.integers(0, 8, 10_000)]
    model = nm.Model(data=X)
    fit = model.fit("gibbs", tune=10, rng=1, time_limit=seconds / 10, checkpoint=tmp_path / "run.npz", every=seconds / 60)
    found, started = [], time.perf_counter()
    while time.perf_counter() - started < 0.9 * seconds:
        fit = fit.extend(20, checkpoint=tmp_path / "run.npz", every=seconds / 60)
        if fit.draws.n_draws > 200:  # a run of its own again
            fit = model.fit("gibbs", draws=20, tune=10, rng=1)
        found.append(resident())
    assert nm.load(tmp_path / "run.npz").draws.n_draws > 0
    half = len(found) // 2
    assert max(found[half:]) < 1.1 * max(found[:half])
    note(**{"chains on 10,000 x 6": {"seconds": seconds, "MB in the first half": max(found[:half]) // 1000, "MB in the second":
                                     max(found[half:]) // 1000}})


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix", reason="paths are those of POSIX")
@pytest.mark.parametrize("places", by_turns([
    {"HOME": "/nonexistent", "NUMBA_CACHE_DIR": "/proc/none"}, {"HOME": "/nonexistent"}, {"HOME": None},
], 3))
def test_places_that_cannot_be_written_to_cost_no_fit(places, tmp_path):
    """Compiled code that cannot be kept is compiled anew, and pictures are drawn; here without compilation, for it takes long."""
    environment = {name: value for name, value in (os.environ | places).items() if value is not None and name != "MPLCONFIGDIR"}
    environment |= {"NUMBA_DISABLE_JIT": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = (
        "import numpy as np, nrmmix as nm\n"
        "fit = nm.Model(data=np.arange(8.0)[:, None]).fit(draws=4, tune=1, chains=1, rng=1)\n"
        "np.ravel(fit.plot('trace'))[0].figure.savefig('trace.png')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and (tmp_path / "trace.png").exists()


def test_kernels_are_compiled_where_no_cache_can_be_written(tmp_path):
    code = (
        "from nrmmix.kernels.core.jit import kernel\n"
        "@kernel\n"
        "def plus_one(x):\n"
        "    return x + 1.0\n"
        "print(plus_one(1.0))\n"
    )
    (tmp_path / "script.py").write_text(code)
    environment = os.environ | {"HOME": "/nonexistent", "NUMBA_CACHE_DIR": "/proc/none"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0 and done.stdout == "2.0\n", done.stderr
