"""Ranks, and whether they are uniform."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import stats


def rank(truth: float, draws: np.ndarray, rng: np.random.Generator) -> int:
    """Number of draws below the truth, 0..L; of those equal to it a random number counts as below."""
    return int((draws < truth).sum() + rng.integers((draws == truth).sum() + 1))


def spread_out(ranks: np.ndarray, L: int, rng: np.random.Generator) -> np.ndarray:
    """Numbers in (0, 1), uniform where ranks are uniform on 0..L."""
    return (ranks + rng.random(len(ranks))) / (L + 1)


class Uniformity(NamedTuple):
    mean: float  # 0.5 where uniform; below where draws exceed the truth
    spread: float  # standard deviation as a multiple of the uniform's; above 1 where draws are too close together, or dependent
    p: float


def uniformity(u: np.ndarray) -> Uniformity:
    """Kolmogorov-Smirnov, and two-sided tests of mean and spread; p is Bonferroni's of the three."""
    n, centred = len(u), u - 0.5
    z_mean = centred.mean() * math.sqrt(12 * n)
    z_spread = (np.mean(centred**2) - 1 / 12) * math.sqrt(180 * n)
    p = 3 * min(stats.kstest(u, "uniform").pvalue, *(2 * stats.norm.sf(abs(z)) for z in (z_mean, z_spread)))
    return Uniformity(float(u.mean()), float(math.sqrt(12 * np.mean(centred**2))), min(1.0, p))


def holm(p: np.ndarray) -> np.ndarray:
    """p values adjusted for their number (Holm 1979)."""
    order = np.argsort(p)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted
