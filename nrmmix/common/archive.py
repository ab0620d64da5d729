"""Arrays with a JSON header in one zip archive, as `numpy.savez` makes it: written as a stream, and checked before it takes memory."""

from __future__ import annotations

import json
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

from nrmmix.common.messages import number

HEADER = "header"
MAX_HEADER = 1e9  # bytes of JSON, which takes some ten times as many as objects
OF_JSON = 10
BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, TypeError, ValueError, RuntimeError, OSError, RecursionError,
          MemoryError, NotImplementedError, OverflowError)


class TooLarge(ValueError):
    """Error of an archive whose contents would take more memory than is allowed."""


def limit_of(max_bytes: Any) -> float:
    """A checked limit of memory."""
    if not number(max_bytes) > 0:
        raise ValueError(f"max_bytes must be a number greater than 0, not {max_bytes!r}.")
    return float(max_bytes)


def write(file: BinaryIO, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays, and before them what they mean.

    Examples
    --------
    >>> import io
    >>> write(file := io.BytesIO(), {"what": "squares"}, {"x": np.arange(3) ** 2})
    >>> read(file, 1e6)[1]["x"]
    array([0, 1, 4])
    """
    text = np.frombuffer(json.dumps(header, allow_nan=False).encode(), np.uint8)
    members: dict[str, Any] = {HEADER: text, **arrays}
    np.savez_compressed(file, **members)


def read(
    file: BinaryIO, max_bytes: float, also: Callable[[dict[str, Any], dict[str, tuple[tuple[int, ...], np.dtype]]], float] | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of an archive.

    Before memory is taken, what the arrays claim to be is compared with the sizes of the archive's members and with the limit.  `also` says
    from the header, and from shapes and types by name, how many bytes are needed besides.  A TooLarge, or one of BROKEN, where it fails.
    """
    limit = limit_of(max_bytes)
    with zipfile.ZipFile(file) as archive:
        claims: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
        total = 0.0
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if name in claims or not member.filename.endswith(".npy"):
                raise ValueError(f"its member {member.filename!r} does not belong there")
            claims[name] = shape, dtype = _claim(archive, member)
            total += math.prod(shape) * dtype.itemsize * (OF_JSON if name == HEADER else 1)
            if total > limit:
                raise too_large(limit)
        if claims[HEADER][1] != np.uint8 or math.prod(claims[HEADER][0]) > MAX_HEADER:
            raise ValueError("its header is none")
        header = json.loads(bytes(_array(archive, HEADER)))
        if not isinstance(header, dict):
            raise ValueError("its header is none")
        if also is not None and total + also(header, claims) > limit:
            raise too_large(limit)
        return header, {name: _array(archive, name) for name in claims if name != HEADER}


def header_of(file: BinaryIO) -> dict[str, Any]:
    """The header alone; one of BROKEN where there is none."""
    with zipfile.ZipFile(file) as archive:
        _claim(archive, archive.getinfo(f"{HEADER}.npy"))
        return json.loads(bytes(_array(archive, HEADER)))


def too_large(limit: float) -> TooLarge:
    return TooLarge(f"what it holds would take more than {limit / 1e9:.3g} GB; give max_bytes= if you trust the file.")


def _claim(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[tuple[int, ...], np.dtype]:
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read_header(stream)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize + stream.tell() != member.file_size or min(shape, default=0) < 0:
            raise ValueError(f"{member.filename} is not what it claims to be")
        return shape, dtype


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(f"{name}.npy") as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)
