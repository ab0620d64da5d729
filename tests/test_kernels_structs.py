"""Named tuples that kernels hand on by address: what is read is what was handed on, whatever becomes of the variables."""

import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core.caching import NullCache
from numba.core.datamodel import default_manager
from numba.core.datamodel.models import TupleModel

from nrmmix.kernels.compiler import structs
from nrmmix.kernels.core import jit
from nrmmix.kernels.core.entry import START_T
from nrmmix.kernels.core.state import Memory

by_address = pytest.mark.skipif(not (jit.JIT and jit.ROOTS_ONLY), reason="compiled in numba's own way, or not at all")


def memory(x):
    return Memory(np.array([x]), np.array([2 * x]), np.array([3 * x]), np.array([4 * x]), np.array([5, 6]))


@jit.kernel
def total(m):
    return m.option[0] + m.learnt[0] + m.tally[0] + m.floats[0]


@jit.kernel
def handed_on(m, more):
    return total(m) + more * m.ints[1]


@jit.kernel
def changed(m, other):
    """The first field of another."""
    return Memory(other.option, m.learnt, m.tally, m.floats, m.ints)


@jit.kernel
def one_or_the_other(m, other, first):
    if first:
        m = changed(m, other)
    return handed_on(m, 1.0) + total(other)


@jit.kernel
def one_before(m, other, n):
    """Of tuples that take turns, a sum over the one that was current a step before: an address would show the present one."""
    found, last = 0.0, other
    for t in range(n):
        found = 10.0 * found + last.option[0]
        last = m
        m = changed(m, other) if t % 2 == 0 else m
        found += 0.1 * total(last)
    return found


@jit.kernel
def exchanged(m, other, n):
    for _ in range(n):
        m, other = other, m
    return 100.0 * handed_on(m, 1.0) + handed_on(other, 1.0)


@jit.kernel
def kept_in_a_pair(m, other, first):
    pair = (m, other)
    m = changed(m, other)
    return total(pair[0]) + 10.0 * total(pair[1]) + 100.0 * total(m) + (1000.0 if first else 0.0)


@jit.kernel
def written_to(m):
    """What the arrays hold changes, and who reads it after that sees it."""
    before = total(m)
    m.option[0] += 1.0
    return before + 100.0 * total(m)


@jit.kernel
def half_way(m, n):
    """A function of itself."""
    return total(m) if n == 0 else half_way(changed(m, m), n - 1) + 1.0


CASES = [
    (handed_on, lambda: (memory(1.0), 0.5)),
    (one_or_the_other, lambda: (memory(1.0), memory(7.0), True)), (one_or_the_other, lambda: (memory(1.0), memory(7.0), False)),
    *((one_before, lambda n=n: (memory(1.0), memory(7.0), n)) for n in (0, 1, 2, 5)),
    *((exchanged, lambda n=n: (memory(1.0), memory(7.0), n)) for n in (0, 1, 2)),
    (kept_in_a_pair, lambda: (memory(1.0), memory(7.0), True)), (written_to, lambda: (memory(1.0),)), (half_way, lambda: (memory(1.0), 3)),
]


def plain(kernel):
    return getattr(kernel, "py_func", kernel)


@pytest.mark.parametrize(("kernel", "given"), CASES, ids=[plain(kernel).__name__ for kernel, _ in CASES])
def test_as_in_plain_python(kernel, given):
    assert kernel(*given()) == pytest.approx(plain(kernel)(*given()), rel=1e-14)


@by_address
def test_a_call_hands_on_an_address_and_copies_nothing():
    handed_on(memory(1.0), 0.5)
    nested = handed_on.nested
    module = nested.overloads[nested.signatures[0]].library.own_module()
    (own,) = [function for function in module.functions if "handed_on" in function.name and not function.is_declaration]
    assert [argument.name for argument in own.arguments] == ["retptr", "excinfo", "arg.m", "arg.more"]
    assert "insertvalue" not in str(own) and "extractvalue" not in str(own)
    (call,) = [line for line in str(own).splitlines() if " call " in line and "total" in line]
    assert call.count("ptr ") == 3 and "%arg.m" in call


class Pair(NamedTuple):
    inner: Memory
    line: np.ndarray
    box: np.ndarray
    mask: np.ndarray


@jit.kernel
def all_of(pair, more):
    """Elements, lengths and what lies where, of views too."""
    found = total(pair.inner) + 10.0 * pair.inner.ints[1] + more
    for i in range(pair.line.shape[0]):
        found += 100.0 * (i + 1) * pair.line[i]
    for i in range(pair.box.shape[0]):
        for j in range(pair.box.shape[1]):
            found += 1000.0 * (3 * i + j) * pair.box[i, j]
    return found + (1e6 if pair.mask[pair.mask.shape[0] - 1] else 0.0)


def pair(line, columns):
    box = np.arange(12.0).reshape(3, 4)[:, columns]
    return Pair(memory(1.0), np.arange(9.0)[line], box, np.array([False, True]))


@pytest.mark.parametrize(("line", "columns"), [
    (slice(None), slice(None)), (slice(2, 2), slice(None)), (slice(8, 1, -3), slice(1, 3)), (slice(3), slice(None, None, -1)),
])
def test_what_python_gives_is_taken_as_it_is(line, columns):
    given = pair(line, columns)
    assert all_of(given, 0.5) == pytest.approx(plain(all_of)(given, 0.5), rel=1e-14)


@by_address
def test_what_is_no_such_tuple_is_refused_before_anything_is_read():
    """numba looks up the code by the types; who calls it directly may give anything."""
    given = memory(1.0)
    total(given)
    made = total.overloads[total.signatures[0]].entry_point
    assert made(given) == 10.0
    references = [sys.getrefcount(array) for array in given]
    for wrong in (tuple(given)[:4], (*given, given[0]), (*given[:2], None, *given[3:]), (*given[:4], "text"), ()):
        with pytest.raises(TypeError, match="Memory must hold 5 arrays"):
            made(wrong)
    with pytest.raises(TypeError):
        made(3.0)
    assert made(given) == 10.0 and [sys.getrefcount(array) for array in given] == references


@by_address
def test_python_hands_tuples_over_in_few_instructions(monkeypatch):
    """Not in numba's way, which gives the same numbers."""
    counts, (_, state, *_) = [], START_T

    def first(state):
        return state.size[0]

    for _ in range(2):
        kernel, given = jit.kernel(first), (state,)
        kernel._cache = NullCache()
        kernel.compile(given)
        (wrapper,) = [one for one in kernel.overloads[given].library._final_module.functions if one.name.startswith("_ZN7cpython")]
        counts.append(sum(1 for block in wrapper.blocks for _ in block.instructions))
        monkeypatch.setattr(structs, "_holds_arrays", lambda *_: False)
    assert counts[0] < 0.2 * counts[1], counts


@by_address
def test_tuples_of_others_are_as_numba_has_them():
    class Pair(NamedTuple):
        a: float
        b: int

    @numba.njit
    def added(pair):
        return pair.a + pair.b

    assert added(Pair(1.5, 2)) == 3.5
    assert type(default_manager[numba.typeof(Pair(1.5, 2))]) is TupleModel
