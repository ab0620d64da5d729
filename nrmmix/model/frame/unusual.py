"""What a continuous model does not expect of a column: values far from all others, codes for missing ones among them, and ties.

Far away is told by quartiles, so that neither units nor zero matter, and by a gap, so that long tails, which thin out step by step, and
groups far from others are not taken for errors of typing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nrmmix.common.messages import plain, printable, shown
from nrmmix.common.warnings import warn
from nrmmix.model.frame.columns.weights import quantiles
from nrmmix.model.frame.quantiles import Counted

FAR = 10.0  # quartile ranges beyond a quartile, and times as far as any value before it: where what is far away begins
FEWEST = 10  # values, below which none is far away
MOST_FAR = 0.05  # share of the values, at least one of them, that may be far away: more are a group
MOST_CODED = 0.5  # the same of codes for missing values
CODES = np.array([  # for missing values in many files
    -1, *(sign * (10.0**k - 1) for k in range(1, 6) for sign in (1, -1)), -99.9, -999.9, -9999.9, 99.9, 999.9, 9999.9, 1e20, -1e20, 1e30,
    -1e30, 32767, -32768, 2147483647, -2147483648, -(2.0**63), np.finfo(np.float32).min, np.finfo(np.float32).max,
])

ENOUGH = 30  # values, below which ties are not counted
LARGE = 0.25  # share of the rows of one value that is a point mass, whatever the others are
STEP = 10  # times as many rows as its neighbours that a value has which is a point mass among others
NEIGHBOURS = 2  # values on either side
SPIKE, SPIKE_ROWS, SPIKE_ALONE = 0.02, 20, 0.15  # share and rows that it has at least, or a share that does without that many rows
ROWS_A_VALUE = 10.0  # rows for each distinct value from which on all are ties, where these are few
MOST_COUNTS, ROWS_A_COUNT = 20, 3  # distinct whole numbers, and rows for each, of what may be counts
# Default components that hold m rows of one value narrow to 0.2 / sqrt(m) standard deviations, and values are about 4 / u apart when
# there are u: beyond m = u^2 / 32 clusters of single values fit better than clusters of several
OF_SQUARE = 32.0

REPEATED, FEWEST_VALUES = 0.6, 3  # share of the rows whose value others have too, and distinct values, from which on values are rounded
MOST_UNITS, OFF_GRID = 10_000, 1e-2  # of a range; of a unit, by which a difference may be no multiple of it

SHOWN_ROWS, SHOWN_COLUMNS, SHOWN_VALUES = 4, 5, 3


# ---- values far from all others

def far(values: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Mask of the values (n,), NaN where missing, that are far from all others; each counts as often as its weight (n,) says.

    With e the distance beyond the nearer quartile in quartile ranges (of the values that are no usual codes for missing ones), sorted, they
    begin at the first e > 10 max(1, the e before it).  There are none where quartiles coincide, where these are more than 5% of the values
    (codes: 50%), or of fewer than 10 values.

    Examples
    --------
    >>> y = np.r_[np.linspace(0, 1, 50), 30.0]
    >>> np.flatnonzero(far(y)).tolist(), np.flatnonzero(far(1000 * y - 3)).tolist(), far(np.exp(np.linspace(-3, 3, 50))).any()
    ([50], [50], np.False_)
    """
    return _distance(values, weight)[1]


def _distance(values: np.ndarray, weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Of each value the distance beyond the nearer quartile in quartile ranges, NaN where there is none, and whether it is far away."""
    nowhere = np.full(len(values), np.nan), np.zeros(len(values), bool)
    here = ~np.isnan(values)
    n = _size(here, weight)
    if n < FEWEST:
        return nowhere
    trusted = here & ~np.isin(values, CODES)
    chosen = trusted if _size(trusted, weight) > 0.5 * n else here
    low, high = quantiles(values[chosen], [0.25, 0.75], None if weight is None else weight[chosen])
    if not high > low:
        return nowhere
    with np.errstate(over="ignore", invalid="ignore"):
        beyond = np.maximum(np.maximum(low - values, values - high), 0.0) / (high - low)
    if not (beyond > FAR).any():  # as nearly always: nothing is to be put in order
        return beyond, nowhere[1]
    order = np.sort(beyond[~np.isnan(beyond)])
    first = np.flatnonzero(order[1:] > FAR * np.maximum(order[:-1], 1.0))
    if not len(first):
        return beyond, nowhere[1]
    found = beyond >= order[first[0] + 1]  # NaN is not
    share = MOST_CODED if np.isin(values[found], CODES).all() else MOST_FAR
    return beyond, found if _size(found, weight) <= max(share * n, 1.0) else nowhere[1]


def _size(which: np.ndarray, weight: np.ndarray | None) -> float:
    """Rows that a mask has, each as often as it counts."""
    return float(which.sum() if weight is None else weight[which].sum())


def far_cells(values: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """The same of each column of (n, d)."""
    out = np.zeros(values.shape, bool)
    for j in range(values.shape[1]):
        out[:, j] = far(values[:, j], weight)
    return out


def without_far(values: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """The table (n, d) with NaN in cells that are far from all others of their columns; the table itself where there are none."""
    found = far_cells(values, weight)
    return np.where(found, np.nan, values) if found.any() else values


# ---- ties

class Ties(NamedTuple):
    """Of a column how many values there are, which of them are point masses, and whether all are ties."""

    n: float
    values: np.ndarray  # distinct ones, the most frequent first
    counts: np.ndarray
    is_mass: np.ndarray  # bool
    is_discrete: bool


def ties(values: np.ndarray, weight: np.ndarray | None = None) -> Ties | None:
    """Ties of (n,) values, NaN where missing, each as often as its weight (n,) says; None where they are such as rounding makes.

    A value is a point mass that 25% of the rows have; or 2%, ten times as many as the values beside it, and 20 rows or 15%.  All are ties
    where u distinct values have each 10 rows and u^2 / 32 on average.  Of fewer than 30 values nothing is said.

    Examples
    --------
    >>> found = ties(np.r_[np.zeros(40), np.linspace(1, 2, 60)])
    >>> found.values[found.is_mass], found.is_discrete
    (array([0.]), False)
    >>> ties(np.round(np.random.default_rng(0).normal(5, 1, 150), 1)) is None
    True
    """
    here = ~np.isnan(values)
    n = _size(here, weight)
    if n < ENOUGH:
        return None
    distinct, counts = Counted.of(values[here], None if weight is None else weight[here])
    u, is_mass = len(distinct), counts >= LARGE * n
    for i in np.flatnonzero((counts >= SPIKE * n) & ((counts >= SPIKE_ROWS) | (counts >= SPIKE_ALONE * n))):
        beside = np.sort(np.delete(counts[max(i - NEIGHBOURS, 0) : i + NEIGHBOURS + 1], min(i, NEIGHBOURS)))
        is_mass[i] |= not len(beside) or counts[i] >= STEP * beside[(len(beside) - 1) // 2]
    is_discrete = u > 1 and n >= u * max(ROWS_A_VALUE, u**2 / OF_SQUARE)
    order = np.argsort(-counts, kind="stable")
    return Ties(n, distinct[order], counts[order], is_mass[order], is_discrete) if is_mass.any() or is_discrete else None


# ---- rounded values

def rounding_unit(values: np.ndarray) -> float:
    """The unit that (n,) values, NaN where missing, are rounded to; 0 where repeats do not say that they are.

    It is the largest number that all differences of values are multiples of, at least 1/10,000 of their range.  Repeats say so where 60% of
    the rows have a value that others have too, among at least three distinct ones; point masses are left out where the others are no ties.

    Examples
    --------
    >>> y = np.random.default_rng(0).normal(5, 1, 150)
    >>> rounding_unit(np.round(y, 1)).__round__(9), rounding_unit(y), rounding_unit(np.round(y, 3))
    (0.1, 0.0, 0.0)
    """
    seen = values[~np.isnan(values)]
    found = ties(seen)
    if found is not None and not found.is_discrete:
        seen = seen[~np.isin(seen, found.values[found.is_mass])]
    distinct, counts = np.unique(seen, return_counts=True)
    if len(seen) < ENOUGH or len(distinct) < FEWEST_VALUES or counts[counts > 1].sum() < REPEATED * len(seen):
        return 0.0
    steps, off = np.diff(distinct) / (distinct[-1] - distinct[0]), OFF_GRID / MOST_UNITS
    if len(steps) > MOST_UNITS:
        return 0.0
    unit = 0.0  # Euclid's algorithm, of numbers that are nearly whole multiples
    for step in np.unique(steps)[::-1]:
        larger, smaller = max(unit, step), min(unit, step)
        while smaller > off:
            larger, smaller = smaller, abs(larger - smaller * np.rint(larger / smaller))
        unit = larger
    return float((distinct[-1] - distinct[0]) / np.rint(1.0 / unit)) if unit * MOST_UNITS >= 1.0 else 0.0


def rounding_units(values: np.ndarray) -> np.ndarray:
    """The same of each column of (n, d)."""
    return np.array([rounding_unit(one) for one in values.T])


# ---- what is said of them

def warn_of_ties(columns: Mapping[str, np.ndarray], weight: np.ndarray | None = None) -> None:
    """Warn of columns of continuous responses whose values are ties; each row counts as often as its weight (n,) says."""
    found, asked = {}, []
    for name, values in columns.items():
        known = ~far(values, weight)  # codes are not point masses
        own = None if weight is None else weight[known]
        if (one := ties(values[known], own)) is not None:
            found[name] = one
        elif (question := _question(name, values[known], own)):
            asked.append(question)
    if asked:
        warn(f"{_together(asked)}. A continuous family takes them for numbers that may lie anywhere between.")
    if not found:
        return
    name, first = next(((name, one) for name, one in found.items() if one.is_mass.any()), next(iter(found.items())))
    at = float(first.values[0])
    side = ">" if at <= first.values.min() else "<" if at >= first.values.max() else "!="
    warn(
        f"{_together([_of_ties(name, one) for name, one in found.items()])}: a continuous family has no point masses, and clusters, "
        "densities, quantiles and probabilities there are of spikes at single values. Where one value stands out, "
        f"nm.Hurdle(nm.Gaussian(), at={at!r}) suits, or first a column that says whether {printable(name)} {side} {at:g}, by "
        "nm.Bernoulli(); counts are for nm.Poisson(), answers and levels for nm.Categorical()."
    )


def _question(name: str, values: np.ndarray, weight: np.ndarray | None) -> str:
    """Whether a column may be meant as counts, from 0 on; empty where there is no reason to ask."""
    here = ~np.isnan(values)
    n, seen = _size(here, weight), values[here]
    if not len(seen) or seen.min() != 0.0 or (seen != np.floor(seen)).any():
        return ""
    distinct = np.unique(seen)
    if 2 < len(distinct) <= MOST_COUNTS and n >= max(ENOUGH, ROWS_A_COUNT * len(distinct)):
        return (
            f"{name!r} holds {len(distinct)} whole numbers from 0 to {distinct[-1]:g} in {n:.10g} rows: are they counts? Then nm.Poisson() "
            "suits, whose mixtures spread as widely as the counts do, or nm.Categorical() where they are levels"
        )
    return ""


def _of_ties(name: str, found: Ties) -> str:
    masses = [(shown(value), int(count)) for value, count in zip(found.values[found.is_mass], found.counts[found.is_mass], strict=True)]
    some = masses[:SHOWN_VALUES]
    if len(some) == 1:
        text = f"{some[0][1]} of {found.n:.10g} values of {name!r} are exactly {some[0][0]}"
    elif some:
        text = f"{sum(count for _, count in masses)} of {found.n:.10g} values of {name!r} are exactly "
        text += " or ".join(f"{value} ({count})" for value, count in some) + (" or another such" if len(masses) > len(some) else "")
    else:
        most = ", ".join(f"{shown(value)} ({count:.10g})" for value, count in zip(found.values[:SHOWN_VALUES], found.counts, strict=False))
        return f"the {found.n:.10g} values of {name!r} are {len(found.values)} distinct ones, exactly equal many times: {most}, ..."
    return f"{text}, and only {len(found.values)} values are distinct" if found.is_discrete else text


def warn_of_far(columns: Mapping[str, np.ndarray], labels: Any, rows: np.ndarray, weight: np.ndarray | None, consequence: str) -> None:
    """Warn of values far from all others; `labels` (n,) are the caller's labels of the rows, and `rows` (n,) their positions."""
    found = [text for name, values in columns.items() if (text := _of_far(name, values, labels, rows, weight))]
    if found:
        warn(f"{_together(found)}; {consequence}.")


def _of_far(name: str, values: np.ndarray, labels: Any, rows: np.ndarray, weight: np.ndarray | None) -> str:
    distance, is_far = _distance(values, weight)
    place = np.flatnonzero(is_far)
    if not len(place):
        return ""
    low, high = (f"{end:.3g}" for end in (distance[place].min(), distance[place].max()))
    several = len(place) > 1
    text = (
        f"{len(place)} of {int((~np.isnan(values)).sum())} values of {name!r} {'are' if several else 'is'} "
        f"{low if low == high else f'{low} to {high}'} quartile ranges away ({_rows(labels, rows, place)}"
        f"{')' if several else f': {shown(values[place[0]])})'}"
    )
    distinct, counts = np.unique(values[place], return_counts=True)
    coded = distinct[np.isin(distinct, CODES) | (counts > 1)][:SHOWN_VALUES]
    if not len(coded):
        return text
    which = " and ".join(map(shown, coded))
    which = f"all of them {which}" if len(coded) == len(distinct) else f"{which} among them"
    text = f"{text}, {which}" if several else text
    return f"{text}: a code for missing? Then give NaN in its place, as by data.replace({shown(coded[0])}, float('nan'))"


def _rows(labels: Any, rows: np.ndarray, place: np.ndarray) -> str:
    some = [(int(rows[i]), plain(labels[i])) for i in place[:SHOWN_ROWS]]
    names = [str(row) if label == row else f"{row} (index label {shown(label)})" for row, label in some]
    return f"row{'s' if len(place) > 1 else ''} {', '.join(names)}" + (", ..." if len(place) > len(some) else "")


def _together(facts: Sequence[str]) -> str:
    more = len(facts) - SHOWN_COLUMNS
    return "; ".join(facts[:SHOWN_COLUMNS]) + (f"; {more} column{'s' if more > 1 else ''} more are alike" if more > 0 else "")
