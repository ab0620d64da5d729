"""Elements, views, slices and ranges are what they are in Python, and numba is afterwards as it was."""

import gc
import threading
from itertools import product

import numba
import numpy as np
import pytest
from numba import types

from nrmmix.kernels.compiler import lowering, pipeline
from nrmmix.kernels.core import jit

made_here = pytest.mark.skipif(not (jit.JIT and jit.ROOTS_ONLY), reason="compiled in numba's own way, or not at all")
ENDS = (None, -9, -5, -4, -1, 0, 1, 3, 4, 5, 9)  # of slices of four


@jit.kernel
def element(a, i):
    return a[i]


@jit.kernel
def set_element(a, i, value):
    a[i] = value
    a[0] += 1


@jit.kernel
def element_of_three(a, i, j, k):
    return a[i, j, k]


@jit.kernel
def set_element_of_three(a, i, j, k, value):
    a[i, j, k] = value
    a[-1, -1, 0] *= 2


@jit.kernel
def total(a):
    """With lengths, strides and what is contiguous, in one number."""
    found = 0.0
    for i in range(a.shape[0]):
        found = 3.0 * found + a[i]
    return found + 1000.0 * a.size + 1e6 * a.shape[0]


@jit.kernel
def total_of_two(a):
    found = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            found = 1.1 * found + a[i, j]
    return found + 1000.0 * a.size + 1e6 * a.shape[1]


@jit.kernel
def of_row(a, i):
    return total(a[i])


@jit.kernel
def of_plane(a, i):
    return total_of_two(a[i])


@jit.kernel
def of_line(a, i, j):
    return total(a[i, j])


@jit.kernel
def between(a, first, last):
    return total(a[first:last])


@jit.kernel
def up_to(a, last):
    return total(a[:last])


@jit.kernel
def from_(a, first):
    return total(a[first:])


@jit.kernel
def part_of_row(a, i, first, last):
    return total(a[i, first:last])


@jit.kernel
def some_rows(a, first, last):
    return total_of_two(a[first:last])


@jit.kernel
def written_through(a, first, last):
    """A view is of the same numbers."""
    part = a[first:last]
    for i in range(part.shape[0]):
        part[i] += 10.0
    return total(part[1:]) if part.shape[0] > 1 else 0.0


@jit.kernel
def counted(first, last):
    """The numbers of a range, in one; and what the variable is afterwards."""
    found, i = 7, 100
    for i in range(first, last):
        found = (5 * found + i) % 10007
    return found + 100000 * i


@jit.kernel
def counted_down(n, step):
    found = 7
    for i in range(n, -1, step):
        found = (5 * found + i) % 10007
    return found


@jit.kernel
def loops_within(n):
    """With a range that stands before the loop, `break`, `continue` and a change of the variable."""
    found, outer = 1, range(n)
    for i in outer:
        for j in range(i):
            if j == 3:
                continue
            if j == 6:
                break
            found = (7 * found + j) % 10007
            j += 1
            found += j
    return found


@jit.kernel
def either_range(up, n):
    """Which range it is turns out at run time."""
    which = range(n) if up else range(2, n, 2)
    found = 1
    for i in which:
        found = (7 * found + i) % 10007
    return found


def plain(kernel):
    return getattr(kernel, "py_func", kernel)


def agree(kernel, *given):
    """Results, and what becomes of arrays."""
    mine, others = ([one.copy() if isinstance(one, np.ndarray) else one for one in given] for _ in range(2))
    assert kernel(*mine) == plain(kernel)(*others)
    for one, other in zip(mine, others, strict=True):
        np.testing.assert_array_equal(one, other)


LINE, PLANE, BOX = np.arange(1.0, 5.0), np.arange(12.0).reshape(4, 3), np.arange(24.0).reshape(2, 4, 3)


@pytest.mark.parametrize("array", [LINE, np.arange(1, 5), np.arange(1, 5, dtype=np.uint8), np.arange(1, 5, dtype=np.int32), LINE > 2])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint64, np.uint8])
def test_elements(array, kind):
    for i in range(4):
        agree(element, array, kind(i))
        agree(set_element, array, kind(i), array.dtype.type(1))
    if kind(0).dtype.kind == "i":
        for i in range(-4, 0):
            agree(element, array, kind(i))


def test_elements_of_other_layouts():
    backwards = LINE[::-1]
    for i in range(-4, 4):
        assert element(backwards, i) == backwards[i]
        assert element_of_three(np.asfortranarray(BOX), i % 2, i, i % 3) == BOX[i % 2, i, i % 3]


def test_elements_of_three():
    for i, j, k in product((-2, 0, 1), (-4, -1, 0, 3), (-3, 0, 2)):
        agree(element_of_three, BOX, i, j, k)
        agree(element_of_three, BOX, np.uint8(i % 2), j, np.int32(k))
        agree(set_element_of_three, BOX, i, j, k, 5.5)
        agree(set_element_of_three, BOX.astype(int), i, j, k, 5)


def test_views():
    for i in range(-2, 2):
        agree(of_row, PLANE, i)
        agree(of_plane, BOX, i)
        for j in range(-4, 4):
            agree(of_line, BOX, i, j)
    agree(of_row, np.asfortranarray(PLANE), 1)


def test_slices():
    for first, last in product(ENDS, ENDS):
        agree(between, LINE, first, last)
        agree(some_rows, PLANE, first, last)
        for i in (-1, 0):
            agree(part_of_row, PLANE.T.copy(), i, first, last)
        if first is not None and last is not None:
            agree(written_through, LINE, first, last)
    for end in ENDS[1:]:
        agree(up_to, LINE, end)
        agree(from_, LINE, end)
    agree(between, LINE[::-1], 1, 3)
    agree(between, np.empty(0), 0, 2)


def test_ranges():
    for first, last in product((-3, 0, 2, 7), (-5, 0, 3, 9)):
        agree(counted, first, last)
    for n, step in ((5, -1), (5, -2), (-1, -1), (0, -3)):
        agree(counted_down, n, step)
    for n in (0, 1, 3, 9):
        agree(loops_within, n)
        agree(either_range, True, n)
        agree(either_range, False, n)


def instructions(function, given):
    kernel, kinds = jit.kernel(function).nested, tuple(map(numba.typeof, given))
    kernel.compile(kinds)
    (own,) = [one for one in kernel.overloads[kinds].library.own_module().functions if function.__name__ in one.name]
    return sum(1 for block in own.blocks for _ in block.instructions)


@made_here
@pytest.mark.parametrize(("kernel", "given"), [
    (element_of_three, (BOX, 0, 1, 2)), (set_element, (LINE, 1, 2.0)), (between, (LINE, 1, 3)), (counted, (1, 3)),
])
def test_they_are_written_in_few_instructions(monkeypatch, kernel, given):
    """Not in numba's way, which would give the same numbers."""
    ours = instructions(plain(kernel), given)
    monkeypatch.setattr(lowering.Lower, "WAYS", {})
    monkeypatch.setattr(lowering.Lower, "place_of", lambda *_: None)
    monkeypatch.setattr(lowering.Lower, "view_of", lambda *_: None)
    numbas = instructions(plain(kernel), given)
    assert ours < 0.65 * numbas, (ours, numbas)


# ---- numba


def numbas_own():
    return [getattr(owner, name) for owner, name, _ in pipeline.QUICK], gc.isenabled()


@made_here
def test_numba_is_afterwards_as_it_was():
    seen = []

    before = numbas_own()

    def told(x):
        return x

    @numba.extending.overload(told)
    def _(x):
        seen.append(numbas_own())
        return lambda x: x + 1

    @jit.kernel
    def asks(x):
        return told(x)

    @jit.kernel
    def cannot(x):
        return told(x).nothing

    assert asks(1) == 2
    with pytest.raises(numba.TypingError, match="nothing"):
        cannot(1.0)
    assert numbas_own() == before and len(seen) >= 2
    assert len(before[0]) > 5 and not any(set(one[0]) & set(before[0]) or one[1] for one in seen)
    assert "__hash__" not in vars(types.NamedTuple)  # inherited


@made_here
def test_what_numba_is_told_while_it_compiles_counts():
    """A function that one kernel has brought with it, and an implementation that typing a second one registers."""

    def told(x):
        return x

    def told_later(x):
        return x

    @numba.extending.overload(told)
    def _(x):
        @numba.extending.overload(told_later)
        def _(x):
            return lambda x: 10 * x

        return lambda x: x + 1

    @jit.kernel
    def asks_later(x):
        return told_later(x)

    @jit.kernel
    def asks_both(x):
        return told(x) + asks_later(x)

    assert asks_both(3) == 34


@made_here
def test_who_has_switched_the_collector_off_finds_it_off():
    @jit.kernel
    def thrice(x):
        return 3 * x

    gc.disable()
    try:
        assert thrice(2) == 6
        assert not gc.isenabled()
    finally:
        gc.enable()


@made_here
def test_threads_compile_one_after_the_other():
    @jit.kernel
    def plus(x, y):
        return x + y

    before, found = numbas_own(), []
    kinds = [np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.float32, np.float64]
    threads = [threading.Thread(target=lambda kind=kind: found.append(plus(kind(2), kind(3)))) for kind in kinds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [5] * len(kinds) and numbas_own() == before


def test_a_kernel_may_have_a_function_of_its_own():
    @jit.kernel
    def squares(n):
        def square(i):
            return i * i

        total = 0
        for i in range(n):
            total += square(i)
        return total

    assert squares(4) == 14
