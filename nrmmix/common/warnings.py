"""Warnings that point at the line of the user's code that called the package."""

from __future__ import annotations

import sys
import warnings
from types import FrameType


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Give a warning at the innermost line outside of the package.

    Examples
    --------
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn("2 of 9 rows dropped")
    >>> str(caught[0].message)
    '2 of 9 rows dropped'
    """
    # Python 3.12 has skip_file_prefixes for this; 3.11 does not
    frame: FrameType | None = sys._getframe()
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "nrmmix":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
