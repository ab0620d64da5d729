"""The one decorator through which every kernel is compiled."""

from __future__ import annotations

from numba import config, njit

# Reassociation lets sums vectorise.  Never `nnan` or `ninf`: kernels use infinities as values.
FAST = frozenset({"reassoc", "contract", "arcp", "nsz"})

JIT = not config.DISABLE_JIT


def _compiled(function, **options):
    try:
        return njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    except RuntimeError:  # no directory in which a cache could be written
        return njit(nogil=True, error_model="numpy", **options)(function)


def kernel(function):
    """Compile a kernel in strict floating point.  It may not allocate: arrays are borrowed, and no references counted."""
    return _compiled(function, _nrt=False)


def allocating(function):
    """Compile a kernel that makes arrays of its own."""
    return _compiled(function)


def inlined(function):
    """Compile a small function into its callers, so that their loops vectorise; fused multiply-add allowed."""
    return _compiled(function, fastmath={"contract"}, forceinline=True, _nrt=False)


def fast(function):
    """Compile a kernel whose sums may be reordered."""
    return _compiled(function, fastmath=set(FAST), _nrt=False)


@inlined
def variable(x):
    """An integer that the compiler does not take for a constant: each constant argument is one more compilation of the callee."""
    return x + 0


__all__ = ["JIT", "allocating", "fast", "inlined", "kernel", "variable"]
