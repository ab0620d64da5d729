"""How often outcomes were seen, against their probabilities."""

from __future__ import annotations

from scipy import stats

MIN_P = 1e-4  # of tests with a fixed seed: they are repeatable, and a wrong kernel gives less than 1e-20


def chi_square(counts: dict, probabilities: dict, least: float = 5.0) -> float:
    """p-value of counts by outcome; those expected fewer than `least` times are pooled.  0 where an impossible one was seen."""
    total = sum(counts.values())
    if any(probabilities.get(outcome, 0.0) == 0.0 for outcome in counts):
        return 0.0
    cells: list[tuple[float, float]] = []
    rare_seen, rare_expected = 0.0, 0.0
    for outcome, p in probabilities.items():
        seen, expected = counts.get(outcome, 0), p * total
        if expected >= least:
            cells.append((seen, expected))
        else:
            rare_seen += seen
            rare_expected += expected
    if rare_expected >= least:
        cells.append((rare_seen, rare_expected))
    elif rare_seen > 0 and stats.poisson.sf(rare_seen - 1, rare_expected) < 1e-4:
        return 0.0  # too rare for a cell, and seen too often
    if len(cells) < 2:
        return 1.0
    statistic = sum((seen - expected) ** 2 / expected for seen, expected in cells)
    return float(stats.chi2.sf(statistic, len(cells) - 1))
