"""The table that formulas are tried on."""

from __future__ import annotations

import numpy as np
import pandas as pd


def example_table():
    """Twelve rows: numbers, counts, true and false, groups, and a name with a space."""
    rng = np.random.default_rng(1)
    n = 12
    return pd.DataFrame(
        {
            "y": rng.normal(size=n),
            "z": rng.normal(size=n),
            "x": np.linspace(1.0, 9.0, n),
            "count": np.arange(n) % 5,
            "flag": np.arange(n) % 2 == 0,
            "group": ["b", "a", "c"] * (n // 3),
            "my col": rng.normal(size=n),
        },
        index=pd.Index([f"r{i}" for i in range(n)]),
    )
