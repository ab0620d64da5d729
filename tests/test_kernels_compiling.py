"""How kernels are compiled: machine code of roots alone, and only what a run calls."""

import importlib
import pkgutil
import types
from itertools import chain

import llvmlite.binding
import numba
import numpy as np
import pytest
from support.processes import subprocess_of

import nrmmix as nm
from nrmmix.inference.mcmc.moves.base import Move
from nrmmix.kernels import chain as loop
from nrmmix.kernels.compiler import backend
from nrmmix.kernels.core import clusters, entry, jit, locations
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.measure import nrm, weights
from nrmmix.kernels.moves import gibbs, split_merge
from nrmmix.kernels.trees import guided
from nrmmix.model.pack import arrays_of

compiled = pytest.mark.skipif(not jit.JIT, reason="nothing is compiled")
COLUMNS = {
    getattr(entry, f"call_{name}"): columns
    for name, columns in {
        "empty": {layout.EMPTY}, "update": {layout.UPDATE}, "score": {layout.SCORE}, "marginal": {layout.MARGINAL},
        "sample": {layout.SAMPLE}, "density": {layout.DENSITY}, "mean": set(layout.OF_MEANS), "alone": {layout.ALONE},
        "impute": {layout.IMPUTE}, "redraw": {layout.REDRAW}, "combine": {layout.COMBINE}, "affinity": {layout.AFFINITY},
        "score_four": {layout.SCORE_FOUR}, "transfer": {layout.TRANSFER}, "bound": {layout.BOUND},
    }.items()
}


# ---- roots


@jit.kernel
def doubled(x):
    return x + x


@jit.kernel
def one_more_than_doubled(x):
    return doubled(x) + 1.0


@jit.kernel
def factorial(n):
    return 1.0 if n <= 1 else n * factorial(n - 1)


@jit.kernel
def two_factorials(n):
    return factorial(n) + factorial(n + 1)


@numba.njit
def by_numba(x):
    return one_more_than_doubled(x) * 2.0


@numba.njit
def given(f, x):
    return f(x)


@jit.allocating
def ones(n):
    return np.ones(n)


@jit.allocating
def three_more(n):
    return ones(n) + 3.0


@compiled
def test_numba_is_as_the_backend_knows_it():
    """Where not, kernels are compiled in numba's own way, which takes longer: time to look at `kernels/compiler/backend.py`."""
    assert jit.FITS


@compiled
def test_kernels_are_called_from_everywhere():
    assert one_more_than_doubled(4.0) == 9.0
    assert doubled(4.0) == 8.0 and doubled(4) == 8  # after it was compiled for another one, and with another type
    assert by_numba(4.0) == 18.0
    assert given(one_more_than_doubled, 1.0) == 3.0
    assert factorial(5) == 120.0 and two_factorials(4) == 144.0
    assert three_more(2).tolist() == [4.0, 4.0] and ones(2).tolist() == [1.0, 1.0]


@compiled
@pytest.mark.skipif(not jit.ROOTS_ONLY, reason="numba's own way was asked for")
def test_a_nested_function_has_no_machine_code():
    one_more_than_doubled(4.0)
    (result,) = one_more_than_doubled.overloads.values()
    names = [function.name for function in result.library.get_defined_functions()]
    assert not [name for name in names if "15doubled" in name or "7doubled" in name], names
    assert set(doubled.nested.overloads) <= set(doubled.signatures)
    with pytest.raises(RuntimeError, match="no machine code of its own"):
        next(iter(doubled.nested.overloads.values())).library.get_pointer_to_function("doubled")


@jit.kernel
def larger(x, y):
    return max(x, y)


@jit.fast
def smaller(x, y):
    return min(max(x, y), y)


@numba.njit
def larger_by_numba(x, y):
    return max(larger(x, y), max(x, y - 1.0)) + min(smaller(x, y), x)


@compiled
@pytest.mark.skipif(not jit.ROOTS_ONLY, reason="numba's own way was asked for")
def test_functions_of_numba_have_no_machine_code_either():
    """Nor has what they leave to functions that numba compiles harmed those."""
    assert larger(1.0, 2.0) == 2.0 and larger(3, 2) == 3 and smaller(4.0, 3.0) == 3.0
    libraries = [made.library for one in (larger, smaller) for made in one.nested.overloads.values()]
    parts = {part.name: type(part) for library in libraries for part in library.parts(set()) if part.name.startswith("ol_")}
    assert parts == {"ol_max.<locals>.impl": backend.Nested, "ol_min.<locals>.impl": backend.Nested}
    assert larger_by_numba(1.0, 2.0) == 3.0 and larger_by_numba(5.0, 2.0) == 7.0
    assert numba.njit(lambda x, y: max(x, y))(1.0, 2.0) == 2.0


@compiled
@pytest.mark.skipif(not jit.ROOTS_ONLY, reason="numba's own way was asked for")
def test_files_hold_machine_code_and_names_alone(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    made = jit.callback(entry.MOVE_T, nothing_moves, _nrt=False)
    name, kind, (code, names) = made._library.serialize_using_object_code()
    assert kind == "object" and len(code) > 0
    module = llvmlite.binding.parse_bitcode(names)
    assert [one.name for one in module.functions] == []
    assert made._wrapper_name in [one.name for one in module.global_variables]
    assert max(len(one.name) for one in module.global_variables) < 300, "not with all types of a State, written out"
    loaded = jit.callback(entry.MOVE_T, nothing_moves, _nrt=False)
    assert loaded._cache_hits == 1 and loaded.address != 0


def nothing_moves(data, state, memory, rng):
    return layout.DONE if state.num[layout.N_CLUSTERS] >= 0 else layout.BROKEN


@jit.kernel
def sum_of_powers(x, n):
    total = 0.0
    for k in range(n):
        total += x**k
    return total


def sum_of_five_powers(x):
    return sum_of_powers(x, 5)


@compiled
@pytest.mark.skipif(not jit.ROOTS_ONLY, reason="numba's own way was asked for")
def test_an_entry_point_has_its_machine_code_once(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))  # compiled here, and not loaded
    made = jit.callback(numba.float64(numba.float64), sum_of_five_powers, _nrt=False)
    assert made.ctypes(0.5) == 1.9375
    names = [function.name for function in made._library.get_defined_functions() if "sum_of_five_powers" in function.name]
    assert len(names) == 1 and names[0].startswith("cfunc."), names


@jit.kernel
def sum_of_squares(x, n):
    total = 0.0
    for k in range(n):
        total += (x + k) * (x + k)
    return total


def three_squares(x):
    return sum_of_squares(x, 3)


@compiled
@pytest.mark.skipif(not jit.ROOTS_ONLY, reason="numba's own way was asked for")
def test_a_kernel_has_options_of_its_own(monkeypatch, tmp_path):
    """numba hands those of the function that calls it first on to it."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))  # compiled here, and not loaded
    jit.callback(numba.float64(numba.float64), three_squares, fastmath=True, forceinline=True, _nrt=False)
    (result,) = sum_of_squares.nested.overloads.values()
    text = str(result.library.own_module())
    assert "fmul double" in text and "fmul fast" not in text and "alwaysinline" not in text


KERNELS = """
import sys
import numba.core.event as event
import numpy as np
from nrmmix.kernels.core import jit

@jit.kernel
def power(x, n):
    return 1.0 if n == 0 else x * power(x, n - 1)

@jit.fast
def polynomial(coefficients, x):
    total = 0.0
    for n in range(coefficients.shape[0]):
        total += coefficients[n] * power(x, n)
    return total

@jit.allocating
def ones(n):
    return np.ones(n)

@jit.allocating
def three_more(n):
    return ones(n) + 3.0

if __name__ == "__main__":
    assert jit.ROOTS_ONLY == (sys.argv[1] == "roots")
    with event.install_recorder("numba:compile") as recorder:
        assert (three_more(2) == 4.0).all() and (ones(2) == 1.0).all()
        print(polynomial(np.linspace(0.1, 0.7, 9), 1.1).hex(), end=" ")
    print(len(recorder.buffer))
"""


@compiled
def test_another_process_finds_all_on_disk(tmp_path):
    """In either way, and with the same numbers."""
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)

    def result(way):
        cache = str(tmp_path / way)
        return subprocess_of(f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')", way,
                             NRMMIX_COMPILE=way, NUMBA_CACHE_DIR=cache).split()

    number, events = result("roots")
    assert int(events) > 0
    assert result("roots") == [number, "0"]
    assert result("plain")[0] == number


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
    "nrmmix.inference.search.grower": {layout.COMBINE}, "nrmmix.model.prior_predictive": {layout.SAMPLE},
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


OF_ALL = (layout.REFRESH, layout.GROWTH)
OF_LOCATIONS = (
    layout.SET_KERNEL, layout.REFRESH_LOCATIONS, layout.REBUILD_LOG_K, layout.ADD_LOG_K, layout.LOCATION_SUM, layout.JOIN, layout.WITHOUT
)


@compiled
def test_a_mixture_compiles_nothing_of_locations():
    """By address, what runs of both kinds of models have in common calls what only one of them needs, and what several kernels do."""
    mixture, _ = arrays_of(nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy()), 1)
    regression, _ = arrays_of(nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle()), 1)
    assert not mixture.setup[[*OF_LOCATIONS]].any() and (mixture.setup[[*OF_ALL]] != 0).all()
    assert (regression.setup[[*OF_ALL, *OF_LOCATIONS]] != 0).all()
    of_draws, _ = arrays_of(nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle()), 1, moves=False)
    assert not of_draws.setup[[*OF_LOCATIONS, layout.STRETCH_DENSITY]].any() and (of_draws.setup[[*OF_ALL]] != 0).all()
    roots = [loop.run.py_func, loop.start.py_func, gibbs.gibbs.function, guided.global_move.function, split_merge.split_merge.function]
    found = reached(roots)
    assert clusters.attach in found and weights.log_join_weights in found
    assert not found & {
        locations.log_terms, locations.log_row, locations.sum_log_K, locations.sums_without, locations.four_weighted_sums,
        nrm.set_log_kernel, nrm.power_sums, nrm.total_psi1,
    }


@compiled
def test_entry_points_of_predictions_wait_for_predictions():
    model = nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy())
    data, _ = arrays_of(model, 1, entries=layout.OF_COLUMNS)
    block = data.block[0]
    assert (block[[layout.EMPTY, layout.UPDATE, layout.SCORE, layout.MARGINAL]] != 0).all()
    assert not block[[*layout.OF_ATOMS, *layout.OF_UNIONS, *layout.OF_MEANS]].any()
    everything, _ = arrays_of(model, 1)
    assert (everything.block[0, layout.EMPTY : layout.ALONE] != 0).all()
