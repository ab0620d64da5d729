"""Kernels that other processes compile for the one that needs them."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.processes import subprocess_of

from nrmmix.kernels.compiler import ahead
from nrmmix.kernels.compiler.ahead import Claims, Needed, Team, helped
from nrmmix.kernels.core import jit

compiled = pytest.mark.skipif(not jit.ROOTS_ONLY, reason="kernels are not compiled in our way")

CALLED = """
import json, sys, warnings
import numpy as np
import nrmmix as nm
from nrmmix.inference.mcmc.cycle import kernels_of
from nrmmix.inference.methods import method_of
from nrmmix.kernels import chain
from nrmmix.kernels.compiler import backend
from nrmmix.kernels.core import entry
from nrmmix.kernels.moves import gibbs

asked = []
entry.wait_for = backend.wait_for = lambda function: asked.append(function.__qualname__)
x = np.linspace(0, 1, 9)
table = {"y": x**2, "z": (1 - x) ** 3, "x": x}
models = {
    "mixture": lambda: nm.Model("y + z ~ 1", table),
    "regression": lambda: nm.Model("y ~ x", table, prior=nm.NGGP(), kernel=nm.SquaredExponential(nm.LogNormal(-2, 1))),
    "parameters": lambda: nm.Model("y + z ~ 1", table, family={"y": nm.SemiconjugateGaussian(), "z": nm.Gaussian("diagonal")}),
}
model = models[sys.argv[1]]()
del asked[:]  # what building a model compiles
name, cycle = method_of(sys.argv[2], model)
warnings.simplefilter("ignore")  # the run is short, but long enough for verdicts on curves
listed = [one.name for one in kernels_of(cycle, model)]
model.fit(method=name, draws=400, tune=100, chains=2, rng=1, progress=False)
as_types = chain.run.signatures == [entry.RUN_T], chain.start.signatures == [entry.START_T], gibbs.enter.signatures == [entry.ENTER_T]
print(json.dumps([asked, listed, as_types]))
"""
# Small ones, that look at starts, results and curves and draw held parameters: what needs them compiles them.
LEFT_OUT = {"redraw", "beyond_reach", "fill_log_prior_predictive", "empty_column", "fill_means", "regression_mean"}


@compiled
@pytest.mark.parametrize(
    "form, method", [("mixture", "gibbs"), ("mixture", "split_merge"), ("regression", "gibbs"), ("parameters", "gibbs")]
)
def test_the_list_is_what_a_fit_calls(form, method):
    asked, listed, as_types = json.loads(subprocess_of(CALLED, form, method))
    assert len(listed) == len(set(listed)) >= 10
    assert set(listed) <= set(asked)
    assert set(asked) - set(listed) <= LEFT_OUT
    assert all(as_types)


SMALL = [Needed("nrmmix.kernels.core.covariates", name) for name in ("box", "triangular", "epanechnikov", "laplace")]


@compiled
def test_each_kernel_is_compiled_by_one_process(tmp_path):
    """This one takes the first, and finds the others on disk when it comes to them."""
    script = """
import json, os, sys, time
from pathlib import Path
from nrmmix.kernels.compiler import ahead
from nrmmix.kernels.core import covariates
from nrmmix.kernels.compiler.ahead import Claims, Needed, helped

needed = [Needed("nrmmix.kernels.core.covariates", name) for name in sys.argv[1:]]
with helped(lambda: needed[1:], 2, print):
    assert covariates.box.address  # nobody else compiles it
    team = ahead._team
    while not all(team.claims.is_finished(one[:2]) for one in needed[1:]):
        assert any(helper.poll() is None for helper in team.helpers)
        time.sleep(0.01)
    for one in needed[1:]:
        assert getattr(covariates, one.name).address
    folder = team.claims.folder
    assert folder.exists()
assert not folder.exists() and ahead._team is None and all(helper.returncode is not None for helper in team.helpers)
found = [getattr(covariates, one.name)._compiled._cache_hits for one in needed]
print(json.dumps(found))
"""
    given = {"NUMBA_CACHE_DIR": str(tmp_path), "NRMMIX_COMPILE_PROCESSES": "2"}
    expected, found = subprocess_of(script, *(one.name for one in SMALL), **given).splitlines()
    assert json.loads(found) == [0, 1, 1, 1]
    assert float(expected) == pytest.approx(3 / (1 + ahead.GAIN))


@pytest.fixture
def team(tmp_path):
    made = Team(str(tmp_path), [Needed("no_such_module", "kernel"), *SMALL[:1]], 0)
    yield made
    made.end()


def sleeper(seconds):
    return subprocess.Popen([sys.executable, "-c", f"import time; time.sleep({seconds})"], stdin=subprocess.DEVNULL)


def test_who_waits_goes_on_when_the_other_is_done_or_dead(team):
    one, other = ("no_such_module", "kernel"), SMALL[0][:2]
    assert team.claims.claim(one) and not team.claims.claim(one)
    team.helpers = [sleeper(0.5)]
    began = time.perf_counter()
    team.wait_for(one)  # never finished
    assert 0.3 < time.perf_counter() - began < 30
    assert team.helpers[0].poll() == 0

    team.helpers = [sleeper(60)]
    team.claims.claim(other)
    team.claims.finish(other)
    began = time.perf_counter()
    team.wait_for(other)
    team.wait_for(other)  # once more, and for another one that nobody is to compile
    team.wait_for(("module", "of nobody"))
    assert time.perf_counter() - began < 10


def test_what_this_process_has_claimed_it_never_waits_for(team):
    team.helpers = [sleeper(60)]
    began = time.perf_counter()
    for _ in range(2):
        team.wait_for(SMALL[0][:2])
    assert time.perf_counter() - began < 10
    assert not Claims(team.claims.folder).claim(SMALL[0][:2])


def test_a_kernel_that_a_helper_cannot_compile_is_left_to_who_needs_it(tmp_path):
    made = Team(str(tmp_path), [Needed("no_such_module", "kernel")], 1)
    try:
        assert made.helpers[0].wait(timeout=60) == 0
        assert made.claims.is_finished(("no_such_module", "kernel"))
    finally:
        made.end()


def test_a_helper_ends_with_the_process_that_it_helps(tmp_path):
    script = f"""
import os, sys
from nrmmix.kernels.compiler.ahead import Needed, Team
team = Team({str(tmp_path)!r}, [Needed("time", "sleep")] * 3, 1)
print(team.helpers[0].pid, flush=True)
os._exit(0)
"""
    pid = int(subprocess_of(script))
    deadline = time.perf_counter() + 60
    while Path(f"/proc/{pid}").exists() and time.perf_counter() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(("processes", "cores"), [("1", 8), ("0", 8), ("", 1), ("8", 1)])
def test_helpers_are_no_more_than_wanted_and_needed(processes, cores, monkeypatch):
    monkeypatch.setenv(ahead.PROCESSES, processes)
    told = []
    for missing in ([], [Needed("no_such_module", "kernel", seconds=7.0)]):  # there is nothing for a second process
        with helped(lambda missing=missing: missing, cores, told.append):
            with helped(lambda: pytest.fail("the outer list counts"), cores, told.append):
                ahead.begins()
            assert ahead._team is None
    assert told == [0.0, 7.0]
    with helped(lambda: pytest.fail("nothing is compiled"), cores, told.append):
        pass


@compiled
def test_what_is_ready_is_not_compiled(tmp_path):
    """Loaded, or on disk, by the same signature; not by another."""
    script = """
from nrmmix.kernels.compiler.ahead import Needed
from nrmmix.kernels.core import covariates
from nrmmix.kernels.core.entry import START_T
from nrmmix.kernels import chain
one = Needed("nrmmix.kernels.core.covariates", "box")
root = Needed("nrmmix.kernels.measure.nrm", "set_kernel", START_T[:2])
print(one.is_ready(), root.is_ready())
one.compile(), root.compile()
print(one.is_ready(), root.is_ready())
print(root._replace(types=START_T).is_ready(), one._replace(module="no_such_module").is_ready())
"""
    first = subprocess_of(script, NUMBA_CACHE_DIR=str(tmp_path)).split()
    assert first == ["False", "False", "True", "True", "False", "False"]
    assert subprocess_of(script, NUMBA_CACHE_DIR=str(tmp_path)).split()[:2] == ["True", "True"]


@compiled
def test_what_numba_compiles_in_its_own_way_is_listed_too(tmp_path):
    script = """
from numba import float64
from nrmmix.common import compiling
from nrmmix.kernels.compiler.ahead import Needed
from nrmmix.kernels.core import jit
import nrmmix.api
root, one = Needed("nrmmix.kernels.measure.nrm", "power_of_tau", (float64, float64)), Needed("nrmmix.kernels.core.covariates", "box")
print(jit.ROOTS_ONLY, root.is_ready(), one.is_ready())
root.compile(), one.compile()
print(root.is_ready(), one.is_ready())
compiling.expect(10.0)
print(compiling._ANNOUNCER.time)
"""
    said = subprocess_of(script, NRMMIX_COMPILE="plain", NUMBA_CACHE_DIR=str(tmp_path)).split()
    assert said == ["False", "False", "False", "True", "True", "about", "60", "s"]


@pytest.mark.nightly
@compiled
def test_a_fit_in_numba_s_own_way_is_the_same(tmp_path):
    script = """
import nrmmix as nm
fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="gibbs", draws=20, tune=20, chains=1, rng=1, progress=False)
print(fit.draws["log_joint"].sum().hex(), fit.draws["labels"].sum())
"""
    said = [subprocess_of(script, NRMMIX_COMPILE=way, NUMBA_CACHE_DIR=str(tmp_path / way)) for way in ("roots", "plain")]
    assert said[0] == said[1]


def test_no_folder_is_no_reason_to_fail(tmp_path):
    script = """
from nrmmix.kernels.compiler import ahead
from nrmmix.kernels.core import covariates
with ahead.helped(lambda: [], 2, lambda seconds: None):
    print(covariates.box.address != 0)
"""
    (tmp_path / "cache").mkdir()
    given = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(tmp_path / "nowhere"))
    given |= {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NRMMIX_COMPILE_PROCESSES": "2"}
    assert subprocess_of(script, **given).strip() == "True"
