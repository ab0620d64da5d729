"""Agreement of two partitions."""

from __future__ import annotations

import numpy as np


def adjusted_rand(a: np.ndarray, b: np.ndarray) -> float:
    """Adjusted Rand index of two label vectors (n,), 1 where they are the same partition (Hubert & Arabie 1985)."""
    def pairs(size: np.ndarray) -> float:
        return float((size * (size - 1) / 2).sum())

    table = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(table, (a, b), 1)
    first, second = pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    expected, most = first * second / pairs(np.array([len(a)])), (first + second) / 2
    return 1.0 if most == expected else (pairs(table) - expected) / (most - expected)
