"""How much the tests of this folder try: little by day, much under `make soak`."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

LONG = bool(os.environ.get("NRMMIX_SOAK"))


def times(short: int, long: int) -> int:
    """How often something is tried."""
    return long if LONG else short


def note(**found: object) -> None:
    """Keep what a long run has found, where NRMMIX_SOAK names a file."""
    if not LONG:
        return
    path = Path(os.environ["NRMMIX_SOAK"])
    there = json.loads(path.read_text()) if path.exists() and path.stat().st_size else {}
    path.write_text(json.dumps({"date": datetime.date.today().isoformat()} | there | found, indent=1) + "\n")
