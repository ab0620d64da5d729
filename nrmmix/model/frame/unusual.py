"""Values of a column that a continuous model does not expect: those far from all others, codes for missing ones among them, and ties.

Far away is told by quartiles, so that neither units nor zero matter, and by a gap, so that long tails, which thin out step by step, and
groups far from others are not taken for errors of typing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from nrmmix.common.messages import plain, printable, shown
from nrmmix.common.warnings import warn
from nrmmix.model.frame.columns.weights import quantiles
from nrmmix.model.frame.quantiles import Counted, Tally

FAR = 10.0  # quartile ranges beyond a quartile, and times as far as any value before it: where what is far away begins
MIN_VALUES = 10  # values, below which none is far away
MAX_FAR = 0.05  # share of the values, at least one of them, that may be far away: more are a group
MAX_CODED = 0.5  # the same of codes for missing values
CODES = np.array([  # for missing values in many files
    -1, *(sign * (10.0**k - 1) for k in range(1, 6) for sign in (1, -1)), -99.9, -999.9, -9999.9, 99.9, 999.9, 9999.9, 1e20, -1e20, 1e30,
    -1e30, 32767, -32768, 2147483647, -2147483648, -(2.0**63), np.finfo(np.float32).min, np.finfo(np.float32).max,
])

ENOUGH = 30  # values, below which ties are not counted
LARGE = 0.25  # share of the rows of one value that is a point mass, whatever the others are
STEP = 10  # times as many rows as its neighbours that a value has which is a point mass among others
NEIGHBOURS = 2  # values on either side
SPIKE, SPIKE_ROWS, SPIKE_ALONE = 0.02, 20, 0.15  # share and rows that it has at least, or a share that does without that many rows
MATCHES = 0.25  # share of the rows of the largest point mass from which on a second one matters as much
ROWS_A_VALUE = 10.0  # rows for each distinct value from which on all are ties, where these are few
MAX_COUNTS, ROWS_A_COUNT = 20, 3  # distinct whole numbers, and rows for each, of what may be counts
# Default components that hold m rows of one value narrow to 0.2 / sqrt(m) standard deviations, and values are about 4 / u apart when
# there are u: beyond m = u^2 / 32 clusters of single values fit better than clusters of several
OF_SQUARE = 32.0

REPEATED, MIN_REPEATED_VALUES = 0.6, 3  # share of the rows whose value others have too, and distinct values, from which on they are rounded
COPIED = 0.5  # share of the rows that are the same as others from which on they may be copies
MAX_UNITS, OFF_GRID = 10_000, 1e-2  # of a range; of a unit, by which a difference may be no multiple of it

Recount: TypeAlias = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]  # values and how many rows have each, by name

SHOWN_ROWS, SHOWN_COLUMNS, SHOWN_VALUES = 4, 5, 3
OF_CENSORED = "Censored counts are for nm.Poisson(); interval(lower, upper) has the limits that a time in whole days or years lies between."


# ---- values far from all others

class Fences(NamedTuple):
    """Quartiles of a column, and the distance beyond them, in quartile ranges, from which on values are far from all others."""

    low: float
    high: float
    most: float  # infinite where none is far away

    def distance(self, values: np.ndarray) -> np.ndarray:
        """Distance of each value beyond the nearer quartile, in quartile ranges."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.maximum(np.maximum(self.low - values, values - self.high), 0.0) / (self.high - self.low)

    def far(self, values: np.ndarray) -> np.ndarray:
        """Mask of the values that are far away; NaN are not."""
        return self.distance(values) > self.most if self.most < np.inf else np.zeros(values.shape, bool)


NO_FENCES = Fences(0.0, 1.0, np.inf)


def fences_of(values: np.ndarray, weight: np.ndarray | None = None) -> Fences:
    """Return the limits of values (n,), NaN where missing, beyond which they are far from all others; each counts by its weight (n,).

    With e the distance beyond the nearer quartile in quartile ranges (of the values that are no usual codes for missing ones), sorted, they
    begin at the first e > 10 max(1, the e before it).  There are none where quartiles coincide, where these are more than 5% of the values
    (codes: 50%), or of fewer than 10 values.
    """
    here = ~np.isnan(values)
    n = _size(here, weight)
    if n < MIN_VALUES:
        return NO_FENCES
    trusted = here & ~np.isin(values, CODES)
    chosen = trusted if _size(trusted, weight) > 0.5 * n else here
    low, high = map(float, quantiles(values[chosen], [0.25, 0.75], None if weight is None else weight[chosen]))
    if not high > low:
        return NO_FENCES
    beyond = Fences(low, high, np.inf).distance(values)
    if not (beyond > FAR).any():  # as nearly always: nothing is to be put in order
        return NO_FENCES
    order = np.sort(beyond[~np.isnan(beyond)])
    before = FAR * np.maximum(order[:-1], 1.0)
    first = np.flatnonzero(order[1:] > before)
    if not len(first):
        return NO_FENCES
    found = Fences(low, high, float(before[first[0]]))
    is_far = beyond > found.most
    share = MAX_CODED if np.isin(values[is_far], CODES).all() else MAX_FAR
    return found if _size(is_far, weight) <= max(share * n, 1.0) else NO_FENCES


def far(values: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Mask of the values (n,), NaN where missing, that are far from all others; see `fences_of`.

    Examples
    --------
    >>> y = np.r_[np.linspace(0, 1, 50), 30.0]
    >>> np.flatnonzero(far(y)).tolist(), np.flatnonzero(far(1000 * y - 3)).tolist(), far(np.exp(np.linspace(-3, 3, 50))).any()
    ([50], [50], np.False_)
    """
    return fences_of(values, weight).far(values)


def _size(which: np.ndarray, weight: np.ndarray | None) -> float:
    """Rows that a mask has, each as often as it counts."""
    return float(which.sum() if weight is None else weight[which].sum())


def far_cells(values: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Find the far values in each column of (n, d)."""
    out = np.zeros(values.shape, bool)
    for j in range(values.shape[1]):
        out[:, j] = far(values[:, j], weight)
    return out


def without_far(values: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """The table (n, d) with NaN in cells that are far from all others of their columns; the table itself where there are none."""
    found = far_cells(values, weight)
    return np.where(found, np.nan, values) if found.any() else values


def counted(values: np.ndarray, weight: np.ndarray | None = None) -> Counted:
    """The values (n,) of a column, NaN where missing, and how often each stands there, every row as often as its weight (n,) says."""
    here = ~np.isnan(values)
    return Counted.of(values[here], None if weight is None else weight[here])


# ---- ties

class Ties(NamedTuple):
    """Ties of a column: how many values there are, which of them are point masses, and whether all are ties."""

    n: float
    values: np.ndarray  # distinct ones, the most frequent first
    counts: np.ndarray
    is_mass: np.ndarray  # bool
    is_discrete: bool


def ties(column: Counted, is_exact: bool = True) -> Ties | None:
    """Return the ties of a column by its values; None where they are such as rounding makes.

    A value is a point mass that 25% of the rows have; or 2%, ten times as many as the values beside it, and 20 rows or 15%.  All are ties
    where u distinct values have each 10 rows and u^2 / 32 on average, unless the values are quantiles and not all there are (`is_exact`
    is false).  Of fewer than 30 values nothing is said.

    Examples
    --------
    >>> found = ties(counted(np.r_[np.zeros(40), np.linspace(1, 2, 60)]))
    >>> found.values[found.is_mass], found.is_discrete
    (array([0.]), False)
    >>> ties(counted(np.round(np.random.default_rng(0).normal(5, 1, 150), 1))) is None
    True
    """
    (distinct, counts), n = column, float(column.sizes.sum())
    if n < ENOUGH:
        return None
    u, is_mass = len(distinct), counts >= LARGE * n
    for i in np.flatnonzero((counts >= SPIKE * n) & ((counts >= SPIKE_ROWS) | (counts >= SPIKE_ALONE * n))).tolist():
        beside = np.sort(np.delete(counts[max(i - NEIGHBOURS, 0) : i + NEIGHBOURS + 1], min(i, NEIGHBOURS)))
        is_mass[i] |= not len(beside) or counts[i] >= STEP * beside[(len(beside) - 1) // 2]
    is_discrete = is_exact and u > 1 and n >= u * max(ROWS_A_VALUE, u**2 / OF_SQUARE)
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
    return rounding_of(counted(values))


def rounding_of(column: Counted, repeated: float = REPEATED) -> float:
    """Return the rounding unit of a column by its values, where others have those of a share of the rows; 0 if there is none."""
    found = ties(column)
    if found is not None and not found.is_discrete:
        column = column.without(np.isin(column.values, found.values[found.is_mass]))
    distinct, counts = column
    n = counts.sum()
    if n < ENOUGH or len(distinct) < MIN_REPEATED_VALUES or counts[counts > 1].sum() < repeated * n:
        return 0.0
    steps, off = np.diff(distinct) / (distinct[-1] - distinct[0]), OFF_GRID / MAX_UNITS
    if len(steps) > MAX_UNITS:
        return 0.0
    unit = 0.0  # Euclid's algorithm, of numbers that are nearly whole multiples
    for step in np.unique(steps)[::-1]:
        larger, smaller = max(unit, step), min(unit, step)
        while smaller > off:
            larger, smaller = smaller, abs(larger - smaller * np.rint(larger / smaller))
        unit = larger
    return float((distinct[-1] - distinct[0]) / np.rint(1.0 / unit)) if unit * MAX_UNITS >= 1.0 else 0.0


def rounding_units(values: np.ndarray) -> np.ndarray:
    """Return the rounding unit of each column of (n, d)."""
    return np.array([rounding_unit(one) for one in values.T])


# ---- what is said of them

def warn_of_ties(
    columns: Mapping[str, Counted], censored: Collection[str], hurdles: Mapping[str, float], recount: Recount | None
) -> None:
    """Warn of columns of continuous responses whose values are ties; of `censored` ones few families know.

    Of `hurdles`, by their numbers of rows at the point itself, only columns are named of which a large share has another value.
    Where columns hold quantiles of more values than are counted `recount` gives how often values stand in them, by name.
    """
    found, asked = {}, []
    for name, column in columns.items():
        usual = column.without(fences_of(*column).far(column.values))  # codes are not point masses
        one = ties(usual, recount is None)
        if one is not None and name in hurdles and (one.is_discrete or one.counts[0] < LARGE * (one.n + hurdles[name])):
            continue
        if one is not None:
            found[name] = one
        elif (question := _question(name, usual)):
            asked.append(question)
    if found and recount is not None:
        found = {name: found[name]._replace(counts=counts) for name, counts in recount({k: one.values for k, one in found.items()}).items()}
    if asked:
        warn(f"{_together(asked)}. A continuous family takes them for numbers that may lie anywhere between.")
    if not found:
        return
    name, first = next(((name, one) for name, one in found.items() if one.is_mass.any()), next(iter(found.items())))
    warn(
        f"{_together([_of_ties(name, one) for name, one in found.items()])}: a continuous family has no point masses, and clusters, "
        "densities, quantiles and probabilities there are of spikes at single values. "
        f"{OF_CENSORED if name in censored else _families_of(name, first, columns[name].values, name in hurdles)}"
        f"{_of_rounding(found, columns)}"
    )


def _families_of(name: str, tied: Ties, values: np.ndarray, is_hurdle: bool) -> str:
    """Say what suits a column of such distinct values, the likeliest first; those of a hurdle are beside its point."""
    if len(values) == 2:
        return "Two values are for nm.Bernoulli(), 0 and 1, or for nm.Categorical()."
    at = float(tied.values[0]) + 0.0  # of -0 too
    side = ">" if at <= tied.values.min() else "<" if at >= tied.values.max() else "!="
    of_one = (
        f"Where one value stands out, nm.Hurdle(nm.Gaussian(), at={at!r}) suits, or first a column that says whether {printable(name)} "
        f"{side} {at:g}, by nm.Bernoulli()."
    )
    masses = tied.counts[tied.is_mass]
    if is_hurdle or (len(masses) > 1 and masses[1] >= MATCHES * masses[0]):
        of_several = (
            f"A hurdle has one point: where several values stand out, first a column that says which of them {printable(name)} is, if any, "
            "by nm.Categorical(), then the other rows."
        )
        of_one = of_several if is_hurdle else f"{of_one} {of_several}"
    of_all = "Counts are for nm.Poisson(), answers and levels for nm.Categorical()."
    may_be_counts = values[0] >= 0.0 and (values == np.floor(values)).all()
    return f"{of_all} {of_one}" if may_be_counts else f"{of_one} {of_all}"


def _of_rounding(found: Mapping[str, Ties], columns: Mapping[str, Counted]) -> str:
    """Say what does for measurements that are ties because they are rounded; empty where none are."""
    for name, one in found.items():
        if one.is_discrete and (said := on_rounding(name, columns[name])):
            return f" {said}"
    return ""


def on_rounding(name: str, column: Counted) -> str:
    """Say what does for a column if it is a measurement that is rounded; empty where repeats do not say that it is, or of few values.

    Examples
    --------
    >>> on_rounding("weight", counted(np.repeat([1.5, 2.0, 2.5, 3.0], 20)))[:66]
    'Where weight is a measurement that is rounded to 0.5, interval(low'
    """
    unit = rounding_of(column) if len(column.values) > MIN_REPEATED_VALUES else 0.0
    return (
        f"Where {printable(name)} is a measurement that is rounded to {unit:.6g}, interval(low, high) on the left of the formula, with "
        f"columns of {printable(name)} - {unit / 2:.6g} and {printable(name)} + {unit / 2:.6g}, has chains draw the values before rounding."
    ) if unit > 0.0 else ""


def may_be_copies(columns: Iterable[Counted], as_they_are: Iterable[Counted]) -> bool:
    """Whether rows may be copies: values are the same as others in as many, and in a column that is not computed in no other way."""
    return all(map(_may_repeat, columns)) and any(map(_never_repeats, as_they_are))


def _may_repeat(column: Counted) -> bool:
    """Whether values of a column are the same as others in as many rows as where rows are copies."""
    return bool(column.sizes.sum() >= ENOUGH and column.sizes[column.sizes > 1].sum() >= COPIED * column.sizes.sum())


def _never_repeats(column: Counted) -> bool:
    """Whether a column holds measurements that are neither rounded nor ties, so that values are the same in copies of rows alone."""
    usual = column.without(fences_of(*column).far(column.values))  # which would hide the unit of the others
    return ties(usual) is None and rounding_of(usual, COPIED) == 0.0


def warn_of_copies(rows: np.ndarray) -> None:
    """Warn where half of the complete rows (n, d) or more hold the same values as others."""
    table = pd.DataFrame(rows[~np.isnan(rows).any(axis=1)])
    repeated, n = int(table.duplicated(keep=False).sum()), len(table)
    if n < ENOUGH or repeated < COPIED * n:
        return
    distinct = n - int(table.duplicated().sum())
    warn(
        f"{repeated:,} of {n:,} rows are the same as others in all that the formula names, and {distinct:,} are distinct: are they copies, "
        "by a join or a bootstrap? A continuous family takes copies for clusters of single values and for further evidence; "
        "data.drop_duplicates() leaves one of each."
    )


def _question(name: str, column: Counted) -> str:
    """Whether a column may be meant as counts, from 0 on; empty where there is no reason to ask."""
    distinct, n = column.values, float(column.sizes.sum())
    if not 2 < len(distinct) <= MAX_COUNTS or distinct[0] != 0.0 or (distinct != np.floor(distinct)).any():
        return ""
    if n < max(ENOUGH, ROWS_A_COUNT * len(distinct)):
        return ""
    return (
        f"{name!r} holds {len(distinct)} whole numbers from 0 to {distinct[-1]:g} in {n:.10g} rows: are they counts? Then nm.Poisson() "
        "suits, whose mixtures spread as widely as the counts do, or nm.Categorical() where they are levels"
    )


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


class FarValues:
    """Values of a column that are far from all others, found in parts of any size."""

    def __init__(self, ends: Fences):
        self.fences, self.n, self.n_far, self.found = ends, 0, 0, Tally()
        self.rows: list[tuple[int, Any]] = []  # the first of them, and their labels

    def add(self, values: np.ndarray, labels: Any, rows: np.ndarray) -> None:
        """Further values (b,), NaN where missing; `labels` (b,) are the caller's labels of the rows, and `rows` (b,) their positions."""
        self.n += int((~np.isnan(values)).sum())
        place = np.flatnonzero(self.fences.far(values))
        if len(place):
            self.n_far += len(place)
            self.found.add(values[place])
            self.rows += [(int(rows[i]), plain(labels[i])) for i in place[: SHOWN_ROWS - len(self.rows)]]

    def text(self, name: str) -> str:
        """Warning of the far values; empty where there are none."""
        if not self.n_far:
            return ""
        distinct, counts = self.found.total()
        distance = self.fences.distance(distinct)
        low, high = (f"{end:.3g}" for end in (distance.min(), distance.max()))
        several = self.n_far > 1
        text = (
            f"{self.n_far} of {self.n} values of {name!r} {'are' if several else 'is'} "
            f"{low if low == high else f'{low} to {high}'} quartile ranges away ({self._rows()}"
            f"{')' if several else f': {shown(distinct[0])})'}"
        )
        coded = distinct[np.isin(distinct, CODES) | (counts > 1)][:SHOWN_VALUES]
        if not len(coded):
            return text
        which = " and ".join(map(shown, coded))
        which = f"all of them {which}" if len(coded) == len(distinct) else f"{which} among them"
        text = f"{text}, {which}" if several else text
        return f"{text}: a code for missing? Then give NaN in its place, as by data.replace({shown(coded[0])}, float('nan'))"

    def _rows(self) -> str:
        names = [str(row) if label == row else f"{row} (index label {shown(label)})" for row, label in self.rows]
        return f"row{'s' if self.n_far > 1 else ''} {', '.join(names)}" + (", ..." if self.n_far > len(names) else "")


def warn_of_far(columns: Mapping[str, FarValues], consequence: str) -> None:
    """Warn of values far from all others."""
    found = [text for name, own in columns.items() if (text := own.text(name))]
    if found:
        warn(f"{_together(found)}; {consequence}.")


def _together(facts: Sequence[str]) -> str:
    more = len(facts) - SHOWN_COLUMNS
    return "; ".join(facts[:SHOWN_COLUMNS]) + (f"; {more} column{'s' if more > 1 else ''} more are alike" if more > 0 else "")
