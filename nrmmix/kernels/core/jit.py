"""The one decorator through which every kernel is compiled."""

from __future__ import annotations

import os
from typing import Any

from numba import cfunc, config, njit

try:
    from nrmmix.kernels.compiler import backend

    FITS = backend.fits_numba()
except (ImportError, AttributeError):  # another numba than those that it knows
    FITS = False

# Reassociation lets sums vectorise.  Never `nnan` or `ninf`: kernels use infinities as values.
FAST = frozenset({"reassoc", "contract", "arcp", "nsz"})

JIT = not config.DISABLE_JIT
# Whether machine code is made of roots alone; the variable is for those who want to compare.
ROOTS_ONLY = FITS and os.environ.get("NRMMIX_COMPILE", "") != "plain"
if ROOTS_ONLY:
    backend.structs.register()
COMMON: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def _compiled(function, **options):
    if JIT and ROOTS_ONLY:
        return backend.kernel(function, COMMON | options)
    try:
        return njit(cache=True, **COMMON, **options)(function)
    except RuntimeError:  # no directory in which a cache could be written
        return njit(**COMMON, **options)(function)


def callback(signature, function, **options):
    """What has an address at once, compiled or loaded: a numba `CFunc`."""
    options = COMMON | options
    if ROOTS_ONLY:
        return backend.callback(signature, function, options)
    try:
        return cfunc(signature, cache=True, **options)(function)
    except RuntimeError:  # no directory in which a cache could be written
        return cfunc(signature, **options)(function)


def on_disk(function, signature):
    """Whether it need not be compiled; where kernels are compiled in numba's own way nobody asks."""
    return ROOTS_ONLY and backend.on_disk(function, signature)


def is_kept():
    """Whether there is a folder for what is compiled; of numba's own way nothing is known."""
    return not ROOTS_ONLY or backend.disk.is_kept()


def unsaved():
    """Why what was compiled could not be written to that folder; an empty list where all is well."""
    return backend.disk.unsaved if ROOTS_ONLY else []


def share(claims):
    """From now on processes of the same claims compile nothing twice, see `disk.share`; in numba's own way each compiles all."""
    return backend.disk.share(claims) if ROOTS_ONLY else None


# Options that numba would take from whoever calls a function first, where it has none of its own.
STRICT: dict[str, Any] = {"fastmath": False, "forceinline": False}


def kernel(function):
    """Compile a kernel in strict floating point.  It may not allocate: arrays are borrowed, and no references counted."""
    return _compiled(function, _nrt=False, **STRICT)


def allocating(function):
    """Compile a kernel that makes arrays of its own."""
    return _compiled(function, **STRICT)


def inlined(function):
    """Compile a small function into its callers, so that their loops vectorise; fused multiply-add allowed."""
    return _compiled(function, fastmath={"contract"}, forceinline=True, _nrt=False)


def fast(function):
    """Compile a kernel whose sums may be reordered."""
    return _compiled(function, fastmath=set(FAST), forceinline=False, _nrt=False)


__all__ = ["FAST", "JIT", "ROOTS_ONLY", "allocating", "callback", "fast", "inlined", "is_kept", "kernel", "on_disk", "share", "unsaved"]
