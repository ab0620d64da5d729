"""How kernels are compiled: by numba's public means, wrappers for roots alone, and only what a run calls."""

import dis
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import types
from itertools import chain
from pathlib import Path

import numba
import numpy as np
import pytest
from support.processes import subprocess_of

import nrmmix as nm
from nrmmix.inference.mcmc.moves.base import Move
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core import clusters, entry, jit, locations, slots
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.measure import atoms, masses, nrm, weights
from nrmmix.kernels.moves import gibbs, split_merge
from nrmmix.kernels.moves.atoms import relocation
from nrmmix.kernels.trees import guided
from nrmmix.model.pack import arrays_of

ROOT = Path(__file__).parents[1]
compiled = pytest.mark.skipif(not jit.JIT, reason="nothing is compiled")
COLUMNS = {
    getattr(entry, f"call_{name}"): columns
    for name, columns in {
        "empty": {layout.Block.EMPTY}, "update": {layout.Block.UPDATE}, "score": {layout.Block.SCORE}, "marginal": {layout.Block.MARGINAL},
        "sample": {layout.Block.SAMPLE}, "density": {layout.Block.DENSITY}, "mean": set(layout.OF_MEANS),
        "alone": {layout.Block.ALONE}, "impute": {layout.Block.IMPUTE}, "redraw": {layout.Block.REDRAW}, "combine": {layout.Block.COMBINE},
        "affinity": {layout.Block.AFFINITY}, "score_four": {layout.Block.SCORE_FOUR}, "transfer": {layout.Block.TRANSFER},
        "bound": {layout.Block.BOUND},
    }.items()
}


# ---- roots, and what they call


@jit.kernel
def doubled(x):
    return x + x


@jit.root
@jit.kernel
def one_more_than_doubled(x):
    return doubled(x) + 1.0


@numba.njit
def by_numba(x):
    return one_more_than_doubled(x) * 2.0


@jit.allocating
def ones(n):
    return np.ones(n)


@jit.allocating
def three_more(n):
    return ones(n) + 3.0


@jit.kernel
def by_constant(x):
    return doubled(1) + doubled(2) + doubled(x)


def test_the_version_of_numba_is_one_of_those_that_are_tested():
    wanted = re.search(r"numba>=([\d.]+),<([\d.]+)", (ROOT / "setup.cfg").read_text())
    assert jit.LOWEST == ".".join(wanted[1].split(".")[:2]) and jit.NEWEST.split(".")[1] == str(int(wanted[2].split(".")[1]) - 1)
    assert jit.untested() == ""


@pytest.mark.parametrize("version", ["0.60.0", "0.69.1", "1.0.0", "0.7.0"])
def test_another_version_is_named_in_one_sentence(version, monkeypatch):
    monkeypatch.setattr(numba, "__version__", version)
    assert jit.untested().endswith(f"and this is numba {version}: take one of those if anything fails.")
    monkeypatch.setattr(numba, "__version__", "0.64.2")
    assert jit.untested() == ""


@compiled
def test_kernels_are_called_from_everywhere():
    assert one_more_than_doubled(4.0) == 9.0
    assert doubled(4.0) == 8.0 and doubled(4) == 8  # after it was compiled for another one, and with another type
    assert by_numba(4.0) == 18.0
    assert three_more(2).tolist() == [4.0, 4.0] and ones(2).tolist() == [1.0, 1.0]


@compiled
def test_a_constant_is_a_number_like_others():
    assert by_constant(3) == 12
    assert len([one for one in doubled.nested.signatures if one == (numba.int64,)]) == 1
    assert not [one for one in doubled.nested.signatures if "Literal" in str(one)]


@jit.kernel
def sum_of_squares(x, n):
    total = 0.0
    for k in range(n):
        total += (x + k) * (x + k)
    return total


def three_squares(x):
    return sum_of_squares(x, 3)


@compiled
def test_a_kernel_has_options_of_its_own(monkeypatch, tmp_path):
    """numba hands those of the function that calls it first on to it."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))  # compiled here, and not loaded
    jit.callback(numba.float64(numba.float64), three_squares, fastmath=True, forceinline=True, _nrt=False)
    text = "".join(sum_of_squares.nested.inspect_llvm().values())
    assert "fmul double" in text and "fmul fast" not in text and "alwaysinline" not in text


def called_by_python():
    """Kernels by the functions that run as Python and name them."""
    for one in pkgutil.walk_packages(nm.__path__, "nrmmix."):
        if not one.name.endswith("__main__"):
            for function in functions_of(importlib.import_module(one.name)):
                yield from ((value, f"{one.name}.{function.__qualname__}") for value in named_by(function) if isinstance(value, jit.Kernel))


def named_by(function):
    """What a function reads by a name of its module, or by an attribute of another module; with what functions within it read."""
    codes = [function.__code__]
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        before = None
        for step in dis.get_instructions(code):
            if step.opname == "LOAD_GLOBAL":
                before = function.__globals__.get(step.argval)
                yield before
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(before, types.ModuleType):
                before = getattr(before, step.argval, None)
                yield before
            else:
                before = None


@compiled
def test_what_python_calls_is_a_root_and_nothing_else_is():
    found = {}
    for value, where in called_by_python():
        found.setdefault(value, where)
    assert {where: value.__name__ for value, where in found.items() if not value.is_root} == {}
    everything = {value for module in list(sys.modules.values()) for value in vars(module).values() if isinstance(value, jit.Kernel)}
    own = {value for value in everything if value.__module__.startswith("nrmmix.") and value.is_root}
    others = "".join(file.read_text() for file in (ROOT / "nrmmix").rglob("*.py") if "kernels" not in file.parts)
    unused = {value.__name__ for value in own - set(found) if not re.search(rf"\b{value.__name__}\(", others)}
    assert unused == set(), "Python does not call these"


KERNELS = """
import numba.core.event as event
import numpy as np
from nrmmix.kernels.core import jit

@jit.kernel
def power(x, n):
    found = 1.0
    for _ in range(n):
        found *= x
    return found

@jit.root
@jit.fast
def polynomial(coefficients, x):
    total = 0.0
    for n in range(coefficients.shape[0]):
        total += coefficients[n] * power(x, n)
    return total

@jit.root
@jit.allocating
def ones(n):
    return np.ones(n)

@jit.root
@jit.allocating
def three_more(n):
    return ones(n) + 3.0

if __name__ == "__main__":
    with event.install_recorder("numba:compile") as recorder:
        assert (three_more(2) == 4.0).all() and (ones(2) == 1.0).all()
        print(polynomial(np.linspace(0.1, 0.7, 9), 1.1).hex(), end=" ")
    print(len(recorder.buffer))
"""


@pytest.mark.nightly
@compiled
def test_another_process_finds_all_on_disk(tmp_path):
    path = tmp_path / "own_kernels.py"
    path.write_text(KERNELS)

    def result():
        script = f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r}); runpy.run_module('own_kernels', run_name='__main__')"
        return subprocess_of(script, NUMBA_CACHE_DIR=str(tmp_path / "cache")).split()

    number, events = result()
    assert int(events) > 0
    assert result() == [number, "0"]


THREADS = """
import sys, threading
import numba
import nrmmix as nm

def others(n):
    for k in range(n):
        made = numba.njit(lambda x, k=k: x + k)
        assert made(1) == 1 + k and made(0.5) == 0.5 + k

thread = threading.Thread(target=others, args=(40,))
thread.start()
fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="gibbs", draws=5, tune=5, chains=2, rng=1, progress=False)
thread.join()
print(fit.draws["log_joint"].sum().hex())
"""
PROCESSES = """
import multiprocessing
import nrmmix as nm

def fitted(seed):
    fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="gibbs", draws=5, tune=5, chains=2, rng=seed, progress=False)
    return float(fit.draws["log_joint"].sum()).hex()

if __name__ == "__main__":
    print(fitted(1), end=" ")  # what is compiled, and tables of addresses, are there when the process forks
    for way in ("fork", "spawn"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            print(*pool.map(fitted, [1]), end=" ")
"""


@pytest.mark.nightly
@compiled
def test_fits_beside_threads_that_compile_and_in_processes(tmp_path):
    (tmp_path / "several.py").write_text(PROCESSES)  # `spawn` needs a file
    given = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONWARNINGS": "ignore", "PYTHONPATH": str(ROOT)}
    alone = subprocess_of(THREADS, **given).strip()
    done = subprocess.run([sys.executable, tmp_path / "several.py"], capture_output=True, text=True, check=True, env=os.environ | given)
    assert done.stdout.split() == [alone] * 3


# ---- entry points

MOVES = [move for move in Move.__subclasses__() if move.__module__.startswith("nrmmix.")]


def constituents(function):
    """Objects that a function names, with those that functions within it name: globals, attributes of modules, and cells."""
    codes, names = [function.__code__], set()
    for code in codes:
        names |= set(code.co_names)
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    for value in [*(function.__globals__[name] for name in names if name in function.__globals__), *cells]:
        if isinstance(value, types.ModuleType):
            yield from (vars(value)[name] for name in names if name in vars(value))
        else:
            yield value


def plain(value):
    """The Python function of what is compiled, or may be."""
    value = value.function if isinstance(value, entry.Entry) else getattr(value, "py_func", value)
    return value if isinstance(value, types.FunctionType) else None


def reached(functions):
    """What functions name, and what is named by all that they call in `nrmmix.kernels`, but for calls by address."""
    todo, seen = list(functions), set()
    while todo:
        for value in constituents(todo.pop()):
            if getattr(value, "__hash__", None) is None or value in seen:
                continue
            seen.add(value)
            if (inner := plain(value)) and inner.__module__.startswith("nrmmix.kernels"):
                todo.append(inner)
    return seen


def called(functions):
    """Columns of `Data.block` whose entry points may be called by functions and by all that they call in `nrmmix.kernels`."""
    return set().union(*(COLUMNS.get(value, set()) for value in reached(functions)))


def functions_of(module):
    """Those of a module, and methods of its classes."""
    own = [value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__]
    methods = chain.from_iterable(vars(value).values() for value in own if isinstance(value, type))
    for value in chain(own, methods):
        value = getattr(value, "__func__", getattr(value, "fget", value))
        if isinstance(value, types.FunctionType):
            yield value


@compiled
@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
def test_moves_name_the_entry_points_that_they_call(move):
    """An address that is not filled in and called would end the process."""
    found = called([move.entry.function, *functions_of(importlib.import_module(move.__module__))])
    assert found <= {*layout.OF_COLUMNS, *move.calls}
    assert set(move.calls) <= {*layout.OF_COLUMNS, *found}  # and no others


FILLED_IN = {  # beside those of columns, by the modules that call kernels which call entry points
    "nrmmix.inference.search.grower": {layout.Block.COMBINE}, "nrmmix.model.prior_predictive": {layout.Block.SAMPLE},
    "nrmmix.posterior.predict.kernel_states": {*layout.OF_ATOMS, *layout.OF_MEANS},
    "nrmmix.inference.mcmc.chain": set(layout.OF_SWEEPS), "nrmmix.inference.mcmc.cycle": set(layout.OF_SWEEPS),  # starts, which do without
}


@compiled
def test_what_calls_kernels_has_their_entry_points_filled_in():
    callers = {}
    for module in pkgutil.walk_packages(nm.__path__, "nrmmix."):
        if module.name.startswith(("nrmmix.kernels", "nrmmix.inference.mcmc.moves", "nrmmix.__main__")):
            continue
        found = called(functions_of(importlib.import_module(module.name)))
        if found - set(layout.OF_COLUMNS):
            callers[module.name] = found - set(layout.OF_COLUMNS)
    assert callers == FILLED_IN


OF_ALL = (layout.Setup.REFRESH, layout.Setup.GROWTH)
OF_LOCATIONS = (
    layout.Setup.SET_KERNEL, layout.Setup.REFRESH_LOCATIONS, layout.Setup.REBUILD_LOG_K, layout.Setup.ADD_LOG_K,
    layout.Setup.LOCATION_SUM, layout.Setup.JOIN, layout.Setup.WITHOUT, layout.Setup.DRAW_UNSEEN,
)


@compiled
def test_a_mixture_compiles_nothing_of_locations():
    """By address, what runs of both kinds of models have in common calls what only one of them needs, and what several kernels do."""
    mixture, _ = arrays_of(nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy()), 1)
    regression, _ = arrays_of(nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle()), 1)
    assert not mixture.setup[[*OF_LOCATIONS]].any() and (mixture.setup[[*OF_ALL]] != 0).all()
    assert (regression.setup[[*OF_ALL, *OF_LOCATIONS]] != 0).all()
    of_draws, _ = arrays_of(nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle()), 1, moves=False)
    assert not of_draws.setup[[*OF_LOCATIONS, layout.Setup.STRETCH_DENSITY]].any() and (of_draws.setup[[*OF_ALL]] != 0).all()
    roots = [loop.run.py_func, loop.start.py_func, gibbs.gibbs.function, guided.global_move.function, split_merge.split_merge.function]
    found = reached(roots)
    assert clusters.attach in found and weights.log_join_weights in found
    assert not found & {
        locations.log_terms, locations.log_row, locations.sum_log_K, locations.sums_without, locations.four_weighted_sums,
        nrm.set_log_kernel, nrm.power_sums, nrm.total_psi1,
    }


@compiled
def test_the_default_of_density_regression_compiles_nothing_of_other_models():
    """Restricted Gibbs scans, codes of slots, and unseen atoms of other measures than Dirichlet processes wait behind entry points."""
    roots = [split_merge.split_merge.function, relocation.relocate.function, nrm.set_kernel_entry.function, atoms.draw_atoms.py_func]
    found = reached(roots)
    assert split_merge.sequential_allocation in found and masses.draw_masses in found and nrm.set_log_kernel in found
    assert not found & {
        split_merge.scan_parts, slots.fill_slots, masses.draw_tempered_stable, atoms.shares_of_locations, atoms.draw_finite,
    }


@compiled
def test_entry_points_of_predictions_wait_for_predictions():
    model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())
    data, _ = arrays_of(model, 1, entries=layout.OF_COLUMNS)
    block = data.block[0]
    assert (block[[layout.Block.EMPTY, layout.Block.UPDATE, layout.Block.SCORE, layout.Block.MARGINAL]] != 0).all()
    assert not block[[*layout.OF_ATOMS, *layout.OF_UNIONS, *layout.OF_MEANS]].any()
    everything, _ = arrays_of(model, 1)
    assert (everything.block[0, layout.Block.EMPTY : layout.Block.ALONE] != 0).all()
