"""Of processes that share a cache of numba, such as those of pytest-xdist, one compiles a function; the others wait for what it saves."""

import hashlib
import os
import time
from pathlib import Path

from numba.core.caching import Cache

PATIENCE = 150.0  # seconds; the one that compiles may have been interrupted


def once_for_all(folder: Path) -> None:
    """Who is the first to miss a function in the cache claims it by a file in the folder."""
    load, save = Cache.load_overload, Cache.save_overload

    def claim_of(cache, signature):
        return folder / hashlib.sha256(f"{cache._cache_file._index_path} {signature}".encode()).hexdigest()

    def load_overload(cache, signature, context):
        found = load(cache, signature, context)
        claim = claim_of(cache, signature)
        if found is None:
            try:
                os.close(os.open(claim, os.O_CREAT | os.O_EXCL))
                claims.add(claim)
            except FileExistsError:
                until = time.monotonic() + (0.0 if claim in claims else PATIENCE)
                while not claim.with_suffix(".saved").exists() and time.monotonic() < until:
                    time.sleep(0.02)
                found = load(cache, signature, context)
        return found

    def save_overload(cache, signature, compiled):
        save(cache, signature, compiled)
        claim_of(cache, signature).with_suffix(".saved").touch()

    claims: set[Path] = set()
    folder.mkdir(parents=True, exist_ok=True)
    Cache.load_overload, Cache.save_overload = load_overload, save_overload
