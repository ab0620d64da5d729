"""The decorators through which every kernel is compiled, by what numba offers for it.

What Python calls is a `root`: it has a wrapper for Python, and its machine code is kept on disk.  What only other kernels call has neither.
A kernel that is no root can be called from Python too, as tests do; then a wrapper is made for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba import cfunc, config, njit, types
from numba.extending import models, register_model, typeof_impl

from nrmmix.kernels.compiling import disk

LOWEST, NEWEST = "0.61", "0.68"  # versions of numba with which the tests pass; those between are expected to do

# Reassociation lets sums vectorise.  Never `nnan` or `ninf`: kernels use infinities as values.
FAST = frozenset({"reassoc", "contract", "arcp", "nsz"})

JIT = not config.DISABLE_JIT
COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
WITHOUT_WRAPPERS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# Options that numba would take from whoever calls a function first, where it has none of its own.
STRICT: dict[str, Any] = {"fastmath": False, "forceinline": False}


def untested() -> str:
    """Say what there is to say of a version of numba with which nothing was tested; empty for others."""
    if LOWEST.split(".") <= numba.__version__.split(".")[:2] <= NEWEST.split("."):
        return ""
    return f"nrmmix is tested with numba {LOWEST} to {NEWEST}, and this is numba {numba.__version__}: take one of those if anything fails."


class NestedType(types.Dispatcher):
    """A function that kernels call.  A constant among its arguments is a number like others; numba would compile it once for each."""

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        return super().get_call_type(
            context, tuple(map(types.unliteral, args)), {name: types.unliteral(one) for name, one in kws.items()}
        )


@register_model(NestedType)
class NestedModel(models.OpaqueModel):
    """Data model of a function that its type says."""


class Kernel:
    """A function to be compiled: for other kernels, which call it by its name, and for Python."""

    is_root = False

    def __init__(self, function: Callable[..., Any], **options: Any):
        self.py_func = function
        self.options = COMMON | options
        self.__name__, self.__qualname__, self.__module__ = function.__name__, function.__qualname__, function.__module__
        self.__doc__ = function.__doc__
        self.nested = njit(**self.options, **WITHOUT_WRAPPERS)(function)
        self.type = NestedType(self.nested)
        self._compiled: Any = None

    def __call__(self, *args: Any) -> Any:
        if self._compiled is None:
            kinds = tuple(numba.typeof(one) for one in args)
            self._compiled = disk.made(self.py_func, lambda keeps: self._for_python(kinds, keeps))
        return self._compiled(*args)

    def _for_python(self, kinds: tuple[Any, ...], keeps: bool) -> Any:
        try:
            made = njit(cache=keeps, **self.options)(self.py_func)
        except RuntimeError:  # a function without a file
            made = njit(**self.options)(self.py_func)
        try:
            made.compile(kinds)
        except OSError as error:
            if not made.overloads:
                raise
            disk.unsaved.append(error)
        return made

    @property
    def is_ready(self) -> bool:
        """Whether Python can call it without compiling."""
        return self._compiled is not None or disk.is_ready(self.py_func)

    @property
    def signatures(self) -> list[Any]:
        """Signatures by which it has been compiled, for Python or for other kernels."""
        return list(dict.fromkeys([*(self._compiled.signatures if self._compiled else []), *self.nested.signatures]))


@typeof_impl.register(Kernel)
def _type_of(kernel: Kernel, _context: Any) -> NestedType:
    return kernel.type


def callback(signature: Any, function: Callable[..., Any], **options: Any) -> Any:
    """Return a function with an address at once, compiled or loaded: a numba `CFunc`."""

    def make(keeps: bool) -> Any:
        try:
            return cfunc(signature, cache=keeps, **COMMON, **options)(function)
        except RuntimeError:  # a function without a file
            return cfunc(signature, **COMMON, **options)(function)

    return disk.made(function, make)


def _decorated(function: Callable[..., Any], **options: Any) -> Any:
    return Kernel(function, **options) if JIT else function


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a kernel in strict floating point.  It may not allocate: arrays are borrowed, and no references counted."""
    return _decorated(function, _nrt=False, **STRICT)


def allocating(function: Callable[..., Any]) -> Any:
    """Compile a kernel that makes arrays of its own."""
    return _decorated(function, **STRICT)


def inlined(function: Callable[..., Any]) -> Any:
    """Compile a small function into its callers, so that their loops vectorise; fused multiply-add allowed."""
    return _decorated(function, fastmath={"contract"}, forceinline=True, _nrt=False)


def fast(function: Callable[..., Any]) -> Any:
    """Compile a kernel whose sums may be reordered.

    Every root has copies of what it calls, each optimised once more than the last, and a process takes the first copy that it has loaded:
    last bits may depend on what it did before.  Where they add up, let `woven` compile the kernel into its callers.
    """
    return _decorated(function, fastmath=set(FAST), forceinline=False, _nrt=False)


def woven(kernel: Any) -> Any:
    """Say of a kernel, as the outermost decorator, that it is compiled into its callers: what each row goes through in few places."""
    return Kernel(kernel.py_func, **kernel.options | {"forceinline": True}) if JIT else kernel


def root(kernel: Any) -> Any:
    """Say of a kernel, as the outermost decorator, that Python calls it."""
    if JIT:
        kernel.is_root = True
    return kernel


__all__ = ["FAST", "JIT", "Kernel", "allocating", "callback", "fast", "inlined", "kernel", "root", "untested", "woven"]
