"""Eight doubles at once, for kernels whose innermost loops LLVM would not keep in registers.

What kernels do with lanes, vectors of LLVM, stays in registers, and is the same arithmetic as that of a loop over eight numbers.  `at` is a
place in the memory of an array, by rows, or of `special.local_numbers`; eight numbers from there on are read or written, and nothing is
checked.  Without compilation lanes are small arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from nrmmix.kernels.core.jit import JIT

LANES = 8  # doubles in the widest vector register
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_FUSED = ("contract",)  # multiply and add may be one operation, as in `jit.FAST`


class _Lanes(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Lanes")


_lanes = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Any) -> None:
        super().__init__(manager, lanes, _VECTOR)


def _place(context: Any, builder: Any, where: Any, value: Any, at: Any) -> Any:
    start = value if isinstance(where, types.CPointer) else context.make_array(where)(context, builder, value).data
    return builder.gep(start, [at])


def _pointer(context: Any, builder: Any, where: Any, value: Any, at: Any) -> Any:
    return builder.bitcast(_place(context, builder, where, value, at), _VECTOR.as_pointer())


def _folded(builder: Any, lanes: Any, join: Callable[[Any, Any], Any]) -> Any:
    """One number of eight: those four apart are joined first, then those two apart."""
    number = ir.IntType(32)
    for apart in (4, 2, 1):
        moved = ir.Constant(ir.VectorType(number, LANES), [(lane + apart) % LANES for lane in range(LANES)])
        lanes = join(lanes, builder.shuffle_vector(lanes, lanes, moved))
    return builder.extract_element(lanes, number(0))


if JIT:

    @intrinsic
    def number_at(typingctx, where, at):
        """The number at a place: an index of numba's is looked at, whether it is negative, each time."""

        def codegen(context, builder, signature, values):
            return builder.load(_place(context, builder, signature.args[0], *values))

        return types.float64(where, types.int64), codegen

    @intrinsic
    def put_number(typingctx, where, at, x):
        """Write a number to a place."""

        def codegen(context, builder, signature, values):
            builder.store(values[2], _place(context, builder, signature.args[0], *values[:2]))
            return context.get_dummy_value()

        return types.void(where, types.int64, types.float64), codegen

    @intrinsic
    def lanes_at(typingctx, where, at):
        """The eight numbers at a place."""

        def codegen(context, builder, signature, values):
            found = builder.load(_pointer(context, builder, signature.args[0], *values))
            found.align = 8
            return found

        return _lanes(where, types.int64), codegen

    @intrinsic
    def put_lanes(typingctx, where, at, lanes):
        """Write eight numbers to a place."""

        def codegen(context, builder, signature, values):
            builder.store(values[2], _pointer(context, builder, signature.args[0], *values[:2])).align = 8
            return context.get_dummy_value()

        return types.void(where, types.int64, _lanes), codegen

    @intrinsic
    def all_lanes(typingctx, x):
        """One number eight times."""

        def codegen(context, builder, signature, values):
            anything = ir.Constant(_VECTOR, ir.Undefined)
            one = builder.insert_element(anything, values[0], ir.Constant(ir.IntType(32), 0))
            return builder.shuffle_vector(one, anything, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

        return _lanes(types.float64), codegen

    @intrinsic
    def less(typingctx, a, b):
        """a - b"""
        return _lanes(_lanes, _lanes), lambda context, builder, signature, values: builder.fsub(*values, flags=_FUSED)

    @intrinsic
    def times(typingctx, a, b):
        """a b"""
        return _lanes(_lanes, _lanes), lambda context, builder, signature, values: builder.fmul(*values, flags=_FUSED)

    @intrinsic
    def plus_product(typingctx, c, a, b):
        """c + a b"""

        def codegen(context, builder, signature, values):
            return builder.fadd(values[0], builder.fmul(values[1], values[2], flags=_FUSED), flags=_FUSED)

        return _lanes(_lanes, _lanes, _lanes), codegen

    @intrinsic
    def less_product(typingctx, c, a, b):
        """c - a b"""

        def codegen(context, builder, signature, values):
            return builder.fsub(values[0], builder.fmul(values[1], values[2], flags=_FUSED), flags=_FUSED)

        return _lanes(_lanes, _lanes, _lanes), codegen

    @intrinsic
    def larger(typingctx, a, b):
        """The larger of two; a where it is not a number."""

        def codegen(context, builder, signature, values):
            a, b = values
            return builder.select(builder.fcmp_ordered("<", a, b), b, a)

        return _lanes(_lanes, _lanes), codegen

    @intrinsic
    def smaller(typingctx, a, b):
        """The smaller of two; a where it is not a number."""

        def codegen(context, builder, signature, values):
            a, b = values
            return builder.select(builder.fcmp_ordered(">", a, b), b, a)

        return _lanes(_lanes, _lanes), codegen

    @intrinsic
    def zero_unless_above(typingctx, x, a, b):
        """0 where a <= b, else x."""

        def codegen(context, builder, signature, values):
            x, a, b = values
            return builder.select(builder.fcmp_ordered("<=", a, b), ir.Constant(_VECTOR, [0.0] * LANES), x)

        return _lanes(_lanes, _lanes, _lanes), codegen

    @intrinsic
    def times_power_of_two(typingctx, x, n):
        """x 2^n, of whole n in the low bits of numbers to which 1.5 * 2^52 has been added."""

        def codegen(context, builder, signature, values):
            bits = ir.VectorType(ir.IntType(64), LANES)
            shifted = builder.shl(builder.bitcast(values[1], bits), ir.Constant(bits, [52] * LANES))
            power = builder.add(shifted, ir.Constant(bits, [0x3FF0000000000000] * LANES))
            return builder.fmul(values[0], builder.bitcast(power, _VECTOR), flags=_FUSED)

        return _lanes(_lanes, _lanes), codegen

    @intrinsic
    def plus(typingctx, a, b):
        """a + b"""
        return _lanes(_lanes, _lanes), lambda context, builder, signature, values: builder.fadd(*values, flags=_FUSED)

    @intrinsic
    def sum_of_lanes(typingctx, x):
        """Sum the eight lanes, those four apart first, then those two apart."""

        def codegen(context, builder, signature, values):
            return _folded(builder, values[0], lambda a, b: builder.fadd(a, b, flags=_FUSED))

        return types.float64(_lanes), codegen

    @intrinsic
    def any_less(typingctx, a, b):
        """Whether a < b in any of the eight."""

        def codegen(context, builder, signature, values):
            found = builder.bitcast(builder.fcmp_ordered("<", *values), ir.IntType(LANES))
            return builder.icmp_unsigned("!=", found, ir.IntType(LANES)(0))

        return types.boolean(_lanes, _lanes), codegen

    @intrinsic
    def largest_lane(typingctx, x):
        """The largest of the eight, where all are numbers."""

        def codegen(context, builder, signature, values):
            return _folded(builder, values[0], lambda a, b: builder.select(builder.fcmp_ordered("<", a, b), b, a))

        return types.float64(_lanes), codegen

else:

    def number_at(where, at):
        return where.reshape(-1)[at]

    def put_number(where, at, x):
        where.reshape(-1)[at] = x

    def lanes_at(where, at):
        return where.reshape(-1)[at : at + LANES].copy()

    def put_lanes(where, at, lanes):
        where.reshape(-1)[at : at + LANES] = lanes

    def all_lanes(x):
        return np.full(LANES, x)

    def less(a, b):
        return a - b

    def times(a, b):
        return a * b

    def plus_product(c, a, b):
        return c + a * b

    def less_product(c, a, b):
        return c - a * b

    def larger(a, b):
        return np.where(a < b, b, a)

    def smaller(a, b):
        return np.where(a > b, b, a)

    def zero_unless_above(x, a, b):
        return np.where(a <= b, 0.0, x)

    def times_power_of_two(x, n):
        with np.errstate(invalid="ignore"):
            return x * 2.0 ** (n - 6755399441055744.0)

    def plus(a, b):
        return a + b

    def any_less(a, b):
        return bool((a < b).any())

    def largest_lane(x):
        return x.max()

    def sum_of_lanes(x):
        return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]))


__all__ = [
    "LANES", "all_lanes", "any_less", "lanes_at", "larger", "largest_lane", "less", "less_product", "number_at", "plus", "plus_product",
    "put_lanes", "put_number", "smaller", "sum_of_lanes", "times", "times_power_of_two", "zero_unless_above",
]
