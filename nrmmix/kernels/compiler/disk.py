"""Where machine code is kept: numba's cache on disk, and what may go wrong with it.

numba keeps it beside the source where that folder may be written, else in a folder of the user, or in that which `NUMBA_CACHE_DIR` names.
Here code that whoever installed the package has left beside the source (`nrmmix warmup`) serves those too who may only read it.  It counts
for one version of the sources, one of numba and one kind of processor.  A folder that is full, or cannot be written or read, costs the time
of compiling, and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
    UserWideCacheLocator,
)
from numba.core.registry import cpu_target

from nrmmix.kernels.compiler.ahead import Claims

PATIENCE = 40.0  # seconds for which a process waits for what another compiles; that one may have been ended
_shared: Claims | None = None
unsaved: list[OSError] = []  # why files could not be written


def share(claims: Claims | None) -> Claims | None:
    """From now on this process and others of the same claims compile nothing twice: others wait for who begins.  What was so before."""
    global _shared
    before, _shared = _shared, claims
    return before


class ReadOnlyLocator(InTreeCacheLocator):
    """The folder beside the source where there is no other; it may only be read."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        return cls(py_func, py_file) if os.path.exists(py_file) else None


class CacheFiles(CompileResultCacheImpl):
    _locator_classes = (*CompileResultCacheImpl._locator_classes, ReadOnlyLocator)


@cache
def digest() -> str:
    """Of the source of all kernels: machine code of others is not taken for theirs, wherever they call each other."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


class CacheFile(IndexDataCacheFile):
    """Machine code of one function, and the index that says for which types and processors; a broken index is an empty one."""

    def _load_index(self) -> dict[Any, str]:
        try:
            return super()._load_index()
        except Exception:  # of any kind where it is broken, or may not be read
            return {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        """The index is written before the code: a file of an older version must not be taken for it if it can then not be written."""
        for name in set(overloads.values()) - set(self._load_index().values()):
            Path(self._data_path(name)).unlink(missing_ok=True)
        super()._save_index(overloads)

    def has(self, key: Any) -> bool:
        name = self._load_index().get(key)
        return name is not None and Path(self._data_path(name)).exists()


class Cache(FunctionCache):
    """numba's cache of one function; numba itself looks at the file alone in which a function stands."""

    _impl_class = CacheFiles

    def __init__(self, py_func: Callable[..., Any]):
        super().__init__(py_func)
        locator = self._impl.locator
        folders, stamp = [locator.get_cache_path()], locator.get_source_stamp()
        if isinstance(locator, UserWideCacheLocator):
            folders.append(InTreeCacheLocator(py_func, locator._py_file).get_cache_path())
        self._cache_file, *self._others = (CacheFile(folder, self._impl.filename_base, stamp) for folder in folders)
        self.keeps = not isinstance(locator, ReadOnlyLocator)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), digest())

    def has(self, sig: Any, codegen: Any) -> bool:
        """Whether there is machine code for a signature."""
        key = self._index_key(sig, codegen)
        return any(file.has(key) for file in (self._cache_file, *self._others))

    def _claim(self, sig: Any) -> tuple[str, str]:
        return self._impl.filename_base, sha256(f"{self._cache_file._index_path} {sig}".encode()).hexdigest()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None and _shared is not None and not _shared.claim(self._claim(sig)):
            _shared.wait(self._claim(sig), PATIENCE)
            found = super().load_overload(sig, target_context)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        super().save_overload(sig, data)
        if _shared is not None:
            _shared.finish(self._claim(sig))

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        key = self._index_key(sig, target_context.codegen())
        for file in (self._cache_file, *self._others) if self._enabled else ():
            try:
                data = file.load(key)
                if data is not None:
                    return self._impl.rebuild(target_context, data)
            except Exception:  # of any kind where a file is broken: its code is made anew
                pass
        return None

    def _save_overload(self, sig: Any, data: Any) -> None:
        if self.keeps:
            try:
                super()._save_overload(sig, data)
            except OSError as error:  # the folder is full, or is gone
                unsaved.append(error)


def on_disk(function: Callable[..., Any], signature: Any) -> bool:
    """Whether there is machine code by a signature as numba asks for it: types of arguments of a dispatcher, all of a callback."""
    try:
        return Cache(function).has(signature, cpu_target.target_context.codegen())
    except RuntimeError:  # a function without a file
        return False


@cache
def is_kept() -> bool:
    """Whether there is a folder in which machine code can be kept."""
    return Cache(on_disk).keeps


# What `nrmmix.kernels.compiler.backend.fits_numba` looks at: parameters of what is overridden or called, names that it reads.
OVERRIDDEN = {
    FunctionCache.__init__: "self py_func", FunctionCache._index_key: "self sig codegen",
    FunctionCache.load_overload: "self sig target_context", FunctionCache.save_overload: "self sig data",
    FunctionCache._load_overload: "self sig target_context", FunctionCache._save_overload: "self sig data",
    IndexDataCacheFile.__init__: "self cache_path filename_base source_stamp", IndexDataCacheFile._load_index: "self",
    IndexDataCacheFile.load: "self key", IndexDataCacheFile._data_path: "self name", IndexDataCacheFile._save_index: "self overloads",
    InTreeCacheLocator.__init__: "self py_func py_file", UserWideCacheLocator.__init__: "self py_func py_file",
}
RELIED_ON = {
    FunctionCache.__init__: "_impl_class _impl locator _cache_file enable", FunctionCache._load_overload: "_enabled _index_key rebuild",
    FunctionCache._save_overload: "_enabled ensure_cache_path _index_key save _cache_file",
    FunctionCache.load_overload: "_load_overload", CompileResultCacheImpl.__init__: "_locator_classes from_function _filename_base",
    IndexDataCacheFile.save: "_load_index _save_index _save_data", IndexDataCacheFile.load: "_load_index _load_data",
}
