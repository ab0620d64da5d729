"""Named tuples that kernels get by address: what is read is what was handed on, and what is no such tuple is refused in words."""

import copy
import pickle
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest
from support.processes import subprocess_of

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.compiling import handles
from nrmmix.kernels.compiling.handles import F1, F2, I1, U2, handle
from nrmmix.kernels.core import jit
from nrmmix.kernels.core.state import Data, Memory, Rows
from nrmmix.model.pack import arrays_of

compiled = pytest.mark.skipif(not jit.JIT, reason="nothing is compiled")


def memory(x, *parts):
    return Memory(np.array([x]), np.array([2 * x]), np.array([3 * x]), np.array([4 * x]), np.array([5, 6]), parts)


@jit.kernel
def total(m):
    return m.option[0] + m.learnt[0] + m.tally[0] + m.floats[0]


@jit.kernel
def handed_on(m, more):
    return total(m) + more * m.ints[1]


@jit.kernel
def one_or_the_other(m, other, first):
    if first:
        m = other
    return handed_on(m, 1.0) + total(other)


@jit.kernel
def one_before(m, other, n):
    """Of tuples that take turns, a sum over the one that was current a step before."""
    found, last = 0.0, other
    for t in range(n):
        found = 10.0 * found + last.option[0]
        last = m
        m = other if t % 2 == 0 else m
        found += 0.1 * total(last)
    return found


@jit.kernel
def exchanged(m, other, n):
    for _ in range(n):
        m, other = other, m
    return 100.0 * handed_on(m, 1.0) + handed_on(other, 1.0)


@jit.kernel
def kept_in_a_pair(m, other):
    pair = (m, other)
    m = other
    return total(pair[0]) + 10.0 * total(pair[1]) + 100.0 * total(m)


@jit.kernel
def written_to(m):
    """What the arrays hold changes, and who reads it after that sees it."""
    before = total(m)
    m.option[0] += 1.0
    return before + 100.0 * total(m)


@jit.kernel
def of_parts(m, k):
    """One of several, by a number that is known when this is compiled, and by one that is not."""
    return 10.0 * total(m.parts[0]) + total(m.parts[k]) + 1000.0 * total(m)


CASES = [
    (handed_on, lambda: (memory(1.0), 0.5)),
    (one_or_the_other, lambda: (memory(1.0), memory(7.0), True)), (one_or_the_other, lambda: (memory(1.0), memory(7.0), False)),
    *((one_before, lambda n=n: (memory(1.0), memory(7.0), n)) for n in (0, 1, 2, 5)),
    *((exchanged, lambda n=n: (memory(1.0), memory(7.0), n)) for n in (0, 1, 2)),
    (kept_in_a_pair, lambda: (memory(1.0), memory(7.0))), (written_to, lambda: (memory(1.0),)),
    *((of_parts, lambda k=k: (memory(1.0, memory(2.0), memory(3.0)), k)) for k in (0, 1)),
]


def plain(kernel):
    return getattr(kernel, "py_func", kernel)


@pytest.mark.parametrize(("kernel", "given"), CASES, ids=[plain(kernel).__name__ for kernel, _ in CASES])
def test_as_in_plain_python(kernel, given):
    assert kernel(*given()) == pytest.approx(plain(kernel)(*given()), rel=1e-14)


@handle
class Pair(NamedTuple):
    inner: Memory
    line: F1
    box: F2
    mask: U2
    order: I1

    @property
    def doubled(self) -> Memory:
        """What follows from a field."""
        return memory(2.0 * self.inner.option[0])


@jit.kernel
def all_of(pair, more):
    """Elements, lengths, rows and parts."""
    found = total(pair.inner) + 1e7 * total(pair.doubled) + 10.0 * pair.inner.ints[1] + more
    for i in range(pair.line.shape[0]):
        found += 100.0 * (i + 1) * pair.line[i]
    for i in range(pair.box.shape[0]):
        row = pair.box[i]
        for j in range(row.shape[0]):
            found += 1000.0 * (3 * i + j) * row[j] + pair.box[i, j - 1]
    for p in pair.line[1:-1]:
        found += p
    flat = pair.box.reshape(pair.box.size)
    return found + flat[flat.shape[0] - 1] + (1e6 if pair.mask[0, 1] != 0 else 0.0) + pair.order[-1]


def pair(**other):
    whole = np.arange(24.0).reshape(6, 4)
    fields = {
        "inner": memory(1.0), "line": np.arange(9.0)[2:8], "box": whole[1:4], "mask": np.array([[0, 1]], np.uint8), "order": np.arange(3),
    }
    return Pair(**fields | other)


@pytest.mark.parametrize("other", [{}, {"line": np.zeros(0)}, {"box": np.zeros((1, 3))[:, :3] + 2.0}, {"box": np.ones((1, 1))}])
def test_what_python_gives_is_taken_as_it_is(other):
    given = pair(**other)
    assert all_of(given, 0.5) == pytest.approx(plain(all_of)(given, 0.5), rel=1e-14)


def test_what_follows_from_fields_follows_when_they_are_replaced():
    given = pair()
    before = all_of(given, 0.5)
    other = given._replace(inner=memory(3.0))
    assert all_of(other, 0.5) - before == pytest.approx(2e7 * 20.0 + 20.0) and given.doubled is given.doubled
    assert all_of(given, 0.5) == before


WRONG = {
    "dtype": ({"line": np.arange(3)}, r"Pair\.line must be a writable array of float64 in C order with 1 dimension.* of int64"),
    "dimensions": ({"box": np.zeros(3)}, r"Pair\.box .* with 2 dimensions; it is 1-dimensional of float64"),
    "order": ({"box": np.zeros((3, 2)).T}, r"Pair\.box .* not in C order"),
    "steps": ({"line": np.zeros(6)[::2]}, r"Pair\.line .* not in C order"),
    "no array": ({"order": [1, 2]}, r"Pair\.order .* it is a list"),
    "bytes": ({"mask": np.zeros((1, 1), bool)}, r"Pair\.mask .* uint8 .* of bool"),
    "another tuple": ({"inner": Rows(*(np.zeros(1),) * 6)}, r"Pair\.inner must be a Memory, not a Rows"),
    "within": ({"inner": memory(1.0)._replace(ints=np.zeros(2))}, r"Memory\.ints must be a writable array of int64"),
    "several": ({"inner": memory(1.0)._replace(parts=(3,))}, r"Memory\.parts must be a tuple of Memory"),
}


@compiled
@pytest.mark.parametrize("what", WRONG)
def test_a_field_of_another_type_is_an_error_in_words(what):
    other, message = WRONG[what]
    assert all_of(pair(), 0.5) > 0
    given = pair(**other)
    references = sys.getrefcount(given.line)
    for _ in range(9):
        with pytest.raises(TypeError, match=message):
            all_of(given, 0.5)
    assert sys.getrefcount(given.line) <= references + 1, "but for that of the last exception"


@compiled
def test_an_array_that_may_not_be_written_is_refused():
    line = np.arange(3.0)
    line.flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        all_of(pair(line=line), 0.5)


@compiled
def test_another_tuple_than_is_due_is_refused():
    data, state = arrays_of(nm.Model("velocity_km_s ~ 1", nm.datasets.load_galaxy()), 1)
    with pytest.raises(numba.TypingError, match="Unknown attribute"):
        jit.kernel(chain.log_joint.py_func)(state, data)
    with pytest.raises(numba.TypingError, match="Unknown attribute"):
        jit.kernel(total.py_func)(data)
    with pytest.raises(numba.TypingError):
        jit.kernel(total.py_func)(tuple(memory(1.0)))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), lambda m: m._replace(ints=m.ints)])
def test_a_copy_has_a_table_of_its_own(copied):
    """Where arrays are is no part of a tuple that is sent to another process."""
    given = memory(1.0, memory(2.0))
    before = of_parts(given, 0)
    other = copied(given)
    assert type(other) is Memory and not vars(other)
    del given
    assert of_parts(other, 0) == before


@compiled
def test_names_of_types_say_how_they_are_read(monkeypatch):
    """Machine code of another convention, or of other fields, is not taken for theirs."""
    names = {made.type.name for made in (Data, Rows, Memory, Pair)}
    assert len(names) == 4

    @handle
    class Memory_(NamedTuple):
        option: F1
        learnt: F2

    Memory_.__name__ = "Memory"
    assert handles.Handle(Memory_).name != Memory.type.name
    before = handles.Handle(Memory).name
    assert before == Memory.type.name
    monkeypatch.setattr(handles, "CONVENTION", "another one")
    assert handles.Handle(Memory).name != before


BY_A_USER = """
import sys
import numpy as np
from nrmmix.kernels.compiling import handles

if sys.argv[1] == "fields":  # numba's own convention for named tuples: field by field
    handles.handle = lambda cls: cls
from numba import njit
from nrmmix.kernels.core.state import Memory

@njit(cache=True)
def total(m):
    return m.option[0] + m.floats[1] + m.ints[1]

if __name__ == "__main__":
    given = Memory(np.array([1.0]), np.zeros(1), np.zeros(1), np.array([0.0, 20.0]), np.array([0, 300]))
    if sys.argv[1] == "fields":
        given = given._replace(parts=(0,))  # numba has no type for an empty tuple of nobody knows what
    print(total(given), sum(total.stats.cache_hits.values()))
"""


@pytest.mark.nightly
@compiled
def test_a_user_s_function_on_disk_is_not_taken_for_another_convention(tmp_path):
    (tmp_path / "own.py").write_text(BY_A_USER)
    script = f"import runpy; runpy.run_path({str(tmp_path / 'own.py')!r}, run_name='__main__')"
    said = [subprocess_of(script, way, NUMBA_CACHE_DIR=str(tmp_path / "cache")).split() for way in ("address", "fields") * 2]
    assert said == [["321.0", "0"], ["321.0", "0"], ["321.0", "1"], ["321.0", "1"]]


@compiled
def test_tuples_of_others_are_as_numba_has_them():
    class Pair(NamedTuple):
        a: float
        b: int

    @numba.njit
    def added(pair):
        return pair.a + pair.b

    assert added(Pair(1.5, 2)) == 3.5
