"""Entry points: functions compiled apart with fixed signatures, cached on disk, called by address.

Families, covariate kernels and moves are entry points.  So the chain is compiled once, whatever is plugged into it, and a
family or move from outside the package is one more address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nrmmix.kernels.compiling import disk
from nrmmix.kernels.core.jit import FAST, JIT, callback
from nrmmix.kernels.core.state import Data, Memory, Rows, State

_f8, _i8 = types.float64, types.int64
_F1, _F2, _F3 = (types.Array(_f8, d, "C") for d in (1, 2, 3))
_I1 = types.Array(_i8, 1, "C")
_RNG = numba.typeof(np.random.default_rng(0))
_ROWS, _DATA, _STATE, _MEMORY = Rows.type, Data.type, State.type, Memory.type

# (rows, stat, block, k): make column k the statistics of no observation; parameters held in it stay
EMPTY_T = _i8(_ROWS, _F2, _I1, _i8)
# (rows, stat, block, k, i, sign): add (+1) or remove (-1) observation i; LOST_PRECISION when a removal has
UPDATE_T = _i8(_ROWS, _F2, _I1, _i8, _i8, _f8)
# (rows, stat, work, out, block, K, i, own): add to out[:K] the log predictives of i, without i itself in column `own` (or -1);
# out[K:] may be overwritten
SCORE_T = _i8(_ROWS, _F2, _F2, _F1, _I1, _i8, _i8, _i8)
# (rows, stat, block, k): log p(y_c)
MARGINAL_T = _f8(_ROWS, _F2, _I1, _i8)
# (rows, stat, theta, block, k, m, rng): theta[:, m] ~ p(theta | y_c) of column k
SAMPLE_T = _i8(_ROWS, _F2, _F2, _I1, _i8, _i8, _RNG)
# (rows, theta, work, out, block, M, i): add to out[:M] the log densities of i under M parameters
DENSITY_T = _i8(_ROWS, _F2, _F2, _F1, _I1, _i8, _i8)
# (rows, stat or theta, out, block, k, i): the expected responses of column k into out, at the inputs of row i
MEAN_T = _i8(_ROWS, _F2, _F1, _I1, _i8, _i8)
# (rows, block, i): log p(y_i)
ALONE_T = _f8(_ROWS, _I1, _i8)
# (rows, stat, work, block, k, i, rng): draw the missing cells of i, which is not in column k, from that column's predictive
IMPUTE_T = _i8(_ROWS, _F2, _F2, _I1, _i8, _i8, _RNG)
# (rows, stat, block, k, rng): draw the parameters held in column k given its members, from the prior where it has none
REDRAW_T = _i8(_ROWS, _F2, _I1, _i8, _RNG)
# (rows, stat, block, K, rng): draw the parameters that all columns share given the first K, from the prior where K = 0; STALE where
# statistics depend on them, which then have to be made anew
REDRAW_SHARED_T = _i8(_ROWS, _F2, _I1, _i8, _RNG)
# (rows, source, target, block, k, m): add the observations in column k of `source` to those in column m of `target`, two columns
# that may belong to one array
COMBINE_T = _i8(_ROWS, _F2, _F2, _I1, _i8, _i8)
# (rows, stat, other, out, block, k, K): add to out[:K] what `nrmmix.kernels.core.clusters.affinities` says; columns that share observations
# may get any number
AFFINITY_T = _i8(_ROWS, _F2, _F2, _F1, _I1, _i8, _i8)
# (rows, stat, work, out, block, K, i, own): add to out[r, :K] the log predictives of row i[r], r = 0..3, without the row itself in column
# own[r] (or -1), as SCORE_T does; none of its cells is missing, and out[:, K:] may be overwritten
SCORE_FOUR_T = _i8(_ROWS, _F2, _F2, _F2, _I1, _i8, _I1, _I1)
# (rows, stat, block, k, m, i): observation i leaves column k and enters another, m: what UPDATE_T does to each, with its results
TRANSFER_T = _i8(_ROWS, _F2, _I1, _i8, _i8, _i8)
# (rows, stat, work, reach, out, block, first, K, members): without members, fill reach[first:K] with what the bounds of those columns need
# beside their statistics; else add to out[:K] for each column what the log predictive of none of these rows exceeds, all of which are
# outside the column; other numbers of reach and out, up to whole vectors of eight, may be overwritten
BOUND_T = _i8(_ROWS, _F2, _F2, _F1, _F1, _I1, _i8, _i8, _I1)
# (distance, width, log_K): covariate kernel, log K of groups by locations, all of them or some
COVARIATE_T = _i8(_F3, _F1, _F2)
# (distance, setup, hyper, by_location, g, first, last): status of `nrmmix.kernels.core.locations.evaluate_log_K`
ROW_T = _i8(_F3, _I1, _F1, _F2, _i8, _i8, _i8)
# What several kernels call, each entry point by the function of its name in the same module:
# (data, state): status of making anew what is kept, of all clusters or groups
ALL_T = _i8(_DATA, _STATE)
# (data, state, sigma): `nrmmix.kernels.measure.nrm.total_growth`
GROWTH_T = _f8(_DATA, _STATE, _f8)
# of `nrmmix.kernels.core.locations`: (data, state, g, sign, out): status of `add_log_K`
ADD_T = _i8(_DATA, _STATE, _i8, _f8, _F1)
# (state, log_K_sum, size, probability): `log_location_sum`
SUM_T = _f8(_STATE, _F1, _i8, _F1)
# (state, K, g): status of `location_weights`
JOIN_T = _i8(_STATE, _i8, _i8)
# (data, state, log_K_sum, probability_over_b, size, g): `location_weight_without`
WITHOUT_T = _f8(_DATA, _STATE, _F1, _F1, _i8, _i8)
# (data, state, which, z): a log density at z
SCALAR_T = _f8(_DATA, _STATE, _i8, _f8)
# (data, state, i, k, rng): status of a redraw of row i, which is in cluster k or shares it
ONE_T = _i8(_DATA, _STATE, _i8, _i8, _RNG)
# (data, state, memory, rng): status
MOVE_T = _i8(_DATA, _STATE, _MEMORY, _RNG)
# (data, state, rng): status of an update of all else than the partition
STEP_T = _i8(_DATA, _STATE, _RNG)

_python_functions: dict[int, Callable[..., Any]] = {}  # by stand-in address, when nothing is compiled


class Entry:
    """A function with an address.  Compiled when the address is first asked for."""

    def __init__(self, signature: Any, function: Callable[..., Any], fast: bool):
        self.signature = signature
        self.fast = fast
        self.function = function
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self._compiled: Any = None

    @property
    def address(self) -> int:
        if not JIT:
            _python_functions[id(self)] = self.function
            return id(self)
        if self._compiled is None:
            if _listed is not None:
                _listed.append(self)
                return 0
            options = {"fastmath": set(FAST)} if self.fast else {}
            self._compiled = callback(self.signature, self.function, _nrt=False, **options)
        return self._compiled.address

    @property
    def is_ready(self) -> bool:
        """Whether it is compiled, or on disk."""
        return self._compiled is not None or disk.is_ready(self.function)


_listed: list[Entry] | None = None


@contextmanager
def listed() -> Iterator[list[Entry]]:
    """Within the block entry points are not compiled when their address is asked for, but put into this list."""
    global _listed
    before, _listed = _listed, []
    try:
        yield _listed
    finally:
        _listed = before


def entry(signature: Any, *, fast: bool = False) -> Callable[[Callable[..., Any]], Entry]:
    """Decorator: make a function an entry point with one of the signatures of this module; `fast` as in `jit.fast`."""
    return lambda function: Entry(signature, function, fast)


def _caller(wanted: Any) -> Any:
    """A function (address, *args) for kernels that calls an entry point."""
    if not JIT:
        return lambda address, *args: _python_functions[int(address)](*args)

    @intrinsic
    def call(typingctx, address, *args):
        def codegen(context, builder, signature, values):
            function = ir.FunctionType(context.get_value_type(wanted.return_type), [context.get_value_type(t) for t in wanted.args])
            pointer = builder.inttoptr(values[0], function.as_pointer())
            return builder.call(pointer, cgutils.unpack_tuple(builder, values[1]))

        return wanted.return_type(types.int64, types.StarArgTuple(wanted.args)), codegen

    return call


call_empty = _caller(EMPTY_T)
call_update = _caller(UPDATE_T)
call_score = _caller(SCORE_T)
call_marginal = _caller(MARGINAL_T)
call_sample = _caller(SAMPLE_T)
call_density = _caller(DENSITY_T)
call_mean = _caller(MEAN_T)
call_alone = _caller(ALONE_T)
call_impute = _caller(IMPUTE_T)
call_redraw = _caller(REDRAW_T)
call_redraw_shared = _caller(REDRAW_SHARED_T)
call_combine = _caller(COMBINE_T)
call_affinity = _caller(AFFINITY_T)
call_score_four = _caller(SCORE_FOUR_T)
call_transfer = _caller(TRANSFER_T)
call_bound = _caller(BOUND_T)
call_covariate = _caller(COVARIATE_T)
call_row = _caller(ROW_T)
call_all = _caller(ALL_T)
call_growth = _caller(GROWTH_T)
call_add = _caller(ADD_T)
call_sum = _caller(SUM_T)
call_join = _caller(JOIN_T)
call_without = _caller(WITHOUT_T)
call_scalar = _caller(SCALAR_T)
call_move = _caller(MOVE_T)
call_step = _caller(STEP_T)
call_one = _caller(ONE_T)
