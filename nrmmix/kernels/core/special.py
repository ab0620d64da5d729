"""Elementary functions written so that LLVM vectorises loops over them, and small numeric helpers.

`log_pos` and `exp_any` agree with the C library to 2 units in the last place; `log_rising` is the log-gamma of counts that grow.
Tested in tests/test_kernels_special.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nrmmix.kernels.core.jit import JIT, fast, inlined, kernel, root, woven
from nrmmix.kernels.core.lanes import (
    LANES,
    all_lanes,
    any_less,
    lanes_at,
    larger,
    largest_lane,
    less,
    less_product,
    plus,
    plus_product,
    put_lanes,
    smaller,
    sum_of_lanes,
    times,
    times_power_of_two,
    zero_unless_above,
)

_LN2_HIGH = 6.93147180369123816490e-01  # ln 2 with 21 trailing zero bits: k * _LN2_HIGH is exact
_LN2_LOW = 1.90821492927058770002e-10
_LOG2_E = 1.4426950408889634
_ROUND = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits
_ONE_BITS = 0x3FF0000000000000
_MANTISSA = 0x000FFFFFFFFFFFFF
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
_TWO_52_BITS = 0x4330000000000000
_BIASED_TWO_52 = 4503599627370496.0 + 1023.0


def _same_bits(target, source):
    """A function for kernels that takes a number of 64 bits for one of another type."""

    @intrinsic
    def cast(typingctx, x):
        return target(source), lambda context, builder, signature, args: builder.bitcast(args[0], context.get_value_type(target))

    return cast


_bits, _float = _same_bits(types.int64, types.float64), _same_bits(types.float64, types.int64)


if JIT:

    @inlined
    def log_pos(x):
        """log x for finite normal x > 0: x = 2^k m with m in [sqrt 1/2, sqrt 2), log m by the series of artanh."""
        t = _bits(x) + (_ONE_BITS - _SQRT_HALF_BITS)
        k = _float(_TWO_52_BITS | (t >> 52)) - _BIASED_TWO_52
        f = _float((t & _MANTISSA) + _SQRT_HALF_BITS) - 1.0
        s = f / (2.0 + f)
        z = s * s
        p = 2.0 / 21.0
        p = p * z + 2.0 / 19.0
        p = p * z + 2.0 / 17.0
        p = p * z + 2.0 / 15.0
        p = p * z + 2.0 / 13.0
        p = p * z + 2.0 / 11.0
        p = p * z + 2.0 / 9.0
        p = p * z + 2.0 / 7.0
        p = p * z + 2.0 / 5.0
        p = p * z + 2.0 / 3.0
        # 2s = f - s f, and s f is small: the leading term f stays exact.
        return k * _LN2_HIGH + (f - (s * (f - z * p) - k * _LN2_LOW))

    @inlined
    def exp_any(x):
        """exp x, exactly 0 below -708 (so for minus infinity); x at most 709."""
        c = x if x > -708.0 else -708.0
        shifted = c * _LOG2_E + _ROUND
        n = shifted - _ROUND
        r = (c - n * _LN2_HIGH) - n * _LN2_LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * (r * r) + r + 1.0
        e = p * _float((_bits(shifted) << 52) + _ONE_BITS)
        return e if x > -708.0 else 0.0

else:  # plain Python in place of bit patterns

    def log_pos(x):
        return math.log(x)

    def exp_any(x):
        return math.exp(x) if x > -708.0 else 0.0


@inlined
def log1p_pos(x):
    """log(1 + x) for x >= 0, small x to all digits."""
    y = 1.0 + x
    return log_pos(y) + (x - (y - 1.0)) / y


@kernel
def log_sigmoid(x):
    """log of 1 / (1 + exp -x), for any x."""
    return -math.log1p(math.exp(-x)) if x > 0.0 else x - math.log1p(math.exp(x))


MIN_PRODUCT = 1e-100


@inlined
def with_factor(log_p, product, log_odds, p):
    """log_p + log product with a factor p = 1 / (1 + exp -log_odds) more: few logarithms are taken, and no product is lost.

    Begins with 0 and 1, and ends with log_p + log product.
    """
    if p < MIN_PRODUCT:
        return log_p + log_odds, product
    product *= p
    if product < MIN_PRODUCT:
        return log_p + math.log(product), 1.0
    return log_p, product


_SHIFT = 8.0  # Stirling's series is used from here on


@inlined
def _stirling(x):
    """log Gamma(x) - (x - 1/2) log x + x - log(2 pi)/2 for x >= 8, to 1e-15."""
    z = 1.0 / (x * x)
    p = 1.0 / 156.0
    p = p * z - 691.0 / 360360.0
    p = p * z + 1.0 / 1188.0
    p = p * z - 1.0 / 1680.0
    p = p * z + 1.0 / 1260.0
    p = p * z - 1.0 / 360.0
    p = p * z + 1.0 / 12.0
    return p / x


@inlined
def log_rising(a, c):
    """log Gamma(a + c) - log Gamma(a) for a in [1e-60, 1e60] and c >= 0; exactly 0 at c = 0.

    A difference of two log-gammas would lose the digits of a that is large against c.
    """
    b = a + c
    x, y = a + _SHIFT, b + _SHIFT
    low = (a * (a + 1.0) * (a + 2.0) * (a + 3.0)) / (b * (b + 1.0) * (b + 2.0) * (b + 3.0))
    high = ((a + 4.0) * (a + 5.0) * (a + 6.0) * (a + 7.0)) / ((b + 4.0) * (b + 5.0) * (b + 6.0) * (b + 7.0))
    # of x, to x + c by Stirling's series; the factors that a has below x, and b below y, go in and out
    return (x - 0.5) * log1p_pos(c / x) + c * (log_pos(y) - 1.0) + (_stirling(y) - _stirling(x)) + log_pos(low * high)


def _local_numbers() -> Any:
    if not JIT:
        return np.empty

    @intrinsic(prefer_literal=True)
    def local(typingctx, size):
        def codegen(context, builder, signature, values):
            place = cgutils.alloca_once(builder, ir.DoubleType(), size=size.literal_value)
            place.align = 64  # a cache line, which no vector then straddles
            return place

        return types.CPointer(types.float64)(size), codegen

    return local


local_numbers = _local_numbers()  # so many numbers on the stack, a constant; their values are anything


def _prefetch() -> Any:
    if not JIT:
        return lambda row: None

    @intrinsic
    def ask_for(typingctx, row, p):
        def codegen(context, builder, signature, values):
            number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
            form = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
            function = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0")
            array = context.make_array(signature.args[0])(context, builder, values[0])
            place = builder.bitcast(builder.gep(array.data, [values[1]]), pointer)
            builder.call(function, [place, number(0), number(3), number(1)])  # to read, into all levels of the cache of data
            return context.get_dummy_value()

        return types.void(row, types.int64), codegen

    @inlined
    def prefetch(row):
        for p in range(0, row.shape[0], 8):  # a cache line each
            ask_for(row, p)

    return prefetch


prefetch = _prefetch()  # begins to load a row that will be read soon, and changes nothing: rows in random order are waited for else


@kernel
def draw_log_gamma(shape, rng):
    """Logarithm of a gamma variate with rate 1; a small shape, whose variates underflow, has one too."""
    if shape >= 1.0:
        return math.log(rng.standard_gamma(shape))
    return math.log(rng.standard_gamma(shape + 1.0)) + math.log(1.0 - rng.random()) / shape


@kernel
def top_of(row):
    """The largest of a row, eight at a time: LLVM would go one by one, for a number could be none."""
    P = row.shape[0]
    if P < LANES:
        top = -math.inf
        for p in range(P):
            top = max(top, row[p])
        return top
    tops = lanes_at(row, P - LANES)
    for p in range(0, P - LANES, LANES):
        tops = larger(tops, lanes_at(row, p))
    return largest_lane(tops)


@fast
def to_shares(weight, m):
    """weight[:m] = exp(weight - top); top and the sum; (-inf, nan) where a weight is not a number or all are 0."""
    top, wrong = -math.inf, 0
    for k in range(m):
        top = max(top, weight[k])
        wrong += weight[k] != weight[k]
    if wrong > 0 or top == -math.inf:
        return -math.inf, math.nan
    total = 0.0
    for k in range(m):
        weight[k] = exp_any(weight[k] - top)
        total += weight[k]
    return top, total


@woven
@fast
def draw_index(weight, m, r):
    """Index with probability proportional to exp(weight[:m]), by one uniform r; -1 if a weight is not a number, or all are 0.

    The weights are overwritten.
    """
    top, total = to_shares(weight, m)
    return draw_share(weight, m, r * total) if top > -math.inf else -1


FAR = -2


@inlined
def exp_lanes(x):
    """`exp_any` of eight; what is not a number stays so."""
    low = all_lanes(-708.0)
    c = larger(x, low)
    shifted = plus_product(all_lanes(_ROUND), c, all_lanes(_LOG2_E))
    n = less(shifted, all_lanes(_ROUND))
    r = less_product(less_product(c, n, all_lanes(_LN2_HIGH)), n, all_lanes(_LN2_LOW))
    p = all_lanes(1.0 / 6227020800.0)
    p = plus_product(all_lanes(1.0 / 479001600.0), p, r)
    p = plus_product(all_lanes(1.0 / 39916800.0), p, r)
    p = plus_product(all_lanes(1.0 / 3628800.0), p, r)
    p = plus_product(all_lanes(1.0 / 362880.0), p, r)
    p = plus_product(all_lanes(1.0 / 40320.0), p, r)
    p = plus_product(all_lanes(1.0 / 5040.0), p, r)
    p = plus_product(all_lanes(1.0 / 720.0), p, r)
    p = plus_product(all_lanes(1.0 / 120.0), p, r)
    p = plus_product(all_lanes(1.0 / 24.0), p, r)
    p = plus_product(all_lanes(1.0 / 6.0), p, r)
    p = plus_product(all_lanes(0.5), p, r)
    p = plus(plus_product(r, p, times(r, r)), all_lanes(1.0))
    return zero_unless_above(times_power_of_two(p, shifted), x, low)


@kernel
def take_exp(x, shift):
    """x = exp(x - shift), and the sum; eights that are all so small that they become 0 are passed over, of which there are many."""
    P, total, origin, low = x.shape[0], all_lanes(0.0), all_lanes(shift), all_lanes(-708.0)
    whole = P - P % LANES
    for p in range(0, whole, LANES):
        z, power = less(lanes_at(x, p), origin), all_lanes(0.0)
        if any_less(low, z):
            power = exp_lanes(z)
            total = plus(total, power)
        put_lanes(x, p, power)
    rest = 0.0
    for p in range(P - whole):
        x[whole + p] = exp_any(x[whole + p] - shift)
        rest += x[whole + p]
    return sum_of_lanes(total) + rest


@kernel
def add_exp(out, x, ratio, shift):
    """out += exp(shift + ratio x); as there."""
    P, origin, slope, low = x.shape[0], all_lanes(shift), all_lanes(ratio), all_lanes(-708.0)
    whole = P - P % LANES
    for p in range(0, whole, LANES):
        z = plus_product(origin, slope, lanes_at(x, p))
        if any_less(low, z):
            put_lanes(out, p, plus(lanes_at(out, p), exp_lanes(z)))
    for p in range(whole, P):
        out[p] += exp_any(shift + ratio * x[p])


@woven
@kernel
def to_shares_near(weight, blocks, near):
    """weight = exp(weight - near) in so many blocks of eight; the sum, which is not a number where one of them is not."""
    total, origin, high = all_lanes(0.0), all_lanes(near), all_lanes(700.0)
    for b in range(blocks):
        share = exp_lanes(smaller(less(lanes_at(weight, LANES * b), origin), high))
        put_lanes(weight, LANES * b, share)
        total = plus(total, share)
    return sum_of_lanes(total)


@woven
@kernel
def draw_near(weight, m, near, r):
    """As `draw_index`, in one pass, which a number near the largest weight allows; up to the next multiple of 8 there has to be room.

    FAR where that number is too far away, or a weight is not a number.
    """
    blocks = (m + LANES - 1) // LANES
    for k in range(m, LANES * blocks):
        weight[k] = -math.inf
    total = to_shares_near(weight, blocks, near)
    return draw_share(weight, m, r * total) if total < 1e290 else FAR


@fast
def draw_share(weight, m, r):
    """Index with probability proportional to weight[:m], by r uniform in [0, their sum); -1 if none of them is greater than 0."""
    first = 0
    while first + 8 < m:  # eight at a time, for each subtraction waits for the one before
        some = (weight[first] + weight[first + 1]) + (weight[first + 2] + weight[first + 3])
        some += (weight[first + 4] + weight[first + 5]) + (weight[first + 6] + weight[first + 7])
        if r < some:
            break
        r -= some
        first += 8
    for k in range(first, m - 1):
        r -= weight[k]
        if r < 0.0:
            return k
    for k in range(m - 1, -1, -1):  # rounding: the last index of positive weight
        if weight[k] > 0.0:
            return k
    return -1


@kernel
def draw_integer(n, rng):
    """An integer in 0..n-1, each as likely up to 2^-53 (`Generator.integers` would allocate)."""
    return min(int(rng.random() * n), n - 1)


@inlined
def asinh_any(x):
    """asinh x to 1e-15, absolutely; of a number beyond 1e150 that of 1e150."""
    a = min(abs(x), 1e150)
    y = log_pos(a + math.sqrt(a * a + 1.0))
    return y if x >= 0.0 else -y


@fast
def place_nodes(z, width, scale, out):
    """Place numbers among nodes that are equally spaced in asinh, from -width on."""
    for j in range(z.shape[0]):
        out[j] = (asinh_any(z[j]) + width) * scale


@inlined
def between_nodes(at, values, slopes):
    """Cubic Hermite polynomial of a table at a place among its nodes, in [0, number of nodes - 1)."""
    m = int(at)
    t = at - m
    rise = values[m + 1] - values[m]
    a, b = slopes[m] - rise, rise - slopes[m + 1]
    return values[m] + t * (rise + (1.0 - t) * ((1.0 - t) * a + t * b))


@root
@kernel
def interpolate_columns(z, values, slopes, width, out):
    """out[j] = the function of column k at z[j], j = k modulo K, by `between_nodes` of values and slopes (K, M).

    Nodes are equally spaced in asinh(z), from -width to width, and slopes by node spacing; NaN beyond.
    """
    K, M = values.shape
    place_nodes(z, width, (M - 1) / (2.0 * width), out)
    j = 0
    while j < z.shape[0]:
        for k in range(K):
            at = out[j]
            out[j] = between_nodes(at, values[k], slopes[k]) if z[j] == z[j] and 0.0 <= at < M - 1 else math.nan
            j += 1
