"""Default components of a density regression: functions of the covariates, and how much these are shrunk."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any, NamedTuple, cast

import pandas as pd

from nrmmix.model.families import Family, Gaussian, Regression
from nrmmix.model.frame import arrays, tables
from nrmmix.model.frame.columns import dates
from nrmmix.model.frame.formula import is_text
from nrmmix.model.frame.sparse import is_sparse
from nrmmix.model.frame.syntax import Syntax, parse
from nrmmix.model.priors.hyperpriors import Gamma

# The work of a row grows with the square of the number of columns:
MAX_LEVELS = 40  # of factors, beside their first ones
MAX_SQUARES, MAX_SQUARED_ROWS = 20, 2000  # with many rows components are for small regions, where lines suffice
MAX_MULTIPLIED, MAX_MULTIPLIED_ROWS = 5, 200  # numbers, and rows, of which there are products
SQUARE = "square"
DIGITS = 6  # of a middle, in terms of the range: units hardly matter, and names stay short
SHRINKAGE = Gamma(0.5, 0.0005)  # with squares, most of which are without an effect: Cauchy coefficients of scale 0.03


def default_family(formula: str | None, data: Any, by_slots: bool = False, rows: int | None = None) -> Family:
    """Regression on an intercept and the numeric covariates of a formula; constant means where there are none, or it cannot be read.

    With `by_slots`, where atoms are at slots of sparse products, one response has more in it.  Factors that stand as they are come one
    after the other as long as they have together no more than MAX_LEVELS levels beside their first ones.  Of several covariates numbers
    that stand as they are have their squares, about the middle of their range, if they have more than two values and there are no more
    than MAX_SQUARES of them and MAX_SQUARED_ROWS rows; then all coefficients are shrunk more, by SHRINKAGE.  A number, or two, of which
    the formula has a function itself, as I(x**2) or x:z, have none besides: with it the columns would span the constant, or nearly.
    `data` may be some rows of so many `rows`, the ends of all columns among them.

    Examples
    --------
    >>> data = {"y": [1.0, 2.0, 4.0], "x": [1.0, 3.0, 4.1], "group": ["a", "b", "b"]}
    >>> default_family("y ~ x + group", data).design, default_family("y ~ x + group", data, by_slots=True).design
    ('1 + x', '1 + x + group + square(x - 2.55)')
    >>> default_family("y ~ x + z", data | {"z": [0.0, 1.0, 0.5]}, by_slots=True).design
    '1 + x + z + square(x - 2.55) + square(z - 0.5) + I((x - 2.55) * (z - 0.5))'
    """
    if not isinstance(formula, str) or is_sparse(data):
        return Gaussian()
    try:
        frame = tables.as_frame(data)
        known = list(frame.columns)
        responses, terms = parse(formula, known)
        checks = [[Syntax(factor.code, known) for factor in term.factors] for term in terms]
        read = list(dict.fromkeys(name for own in checks for one in own for name in one.columns))
        frame, _ = dates.in_days(frame, read)
        by_slots = by_slots and len(responses) == 1
        names, numbers, levels_left = [], [], MAX_LEVELS if by_slots else 0
        curved: set[frozenset[str]] = set()
        for term, own in zip(terms, checks, strict=True):
            if not own:
                continue
            columns = list(dict.fromkeys(name for one in own for name in one.columns))
            is_plain = len(columns) == len(own) == 1 and not own[0].computed and not own[0].called - {"Q"}
            if not (any(one.coded for one in own) or is_text(frame, columns)):
                names.append(term.name())
                if not is_plain:
                    curved.add(frozenset(columns))
                elif not {SQUARE, "I"} & {*read}:  # a name is that of a function or of a column
                    numbers += _number(columns[0], term.name(), frame[columns[0]][frame[read].notna().all(axis=1)])
            elif is_plain and is_text(frame, columns):
                levels = len(cast(pd.Categorical, arrays.column(frame[columns[0]], columns[0])).categories) - 1
                if levels <= levels_left:
                    names, levels_left = [*names, term.name()], levels_left - levels
    except (ValueError, TypeError):  # said by `model_frame`
        return Gaussian()
    size, several = len(frame) if rows is None else rows, sum(map(bool, checks)) > 1
    more = _curved(numbers, curved, size) if by_slots and several else []
    design = " + ".join(["1", *names, *more])
    return Regression(design, shrinkage=SHRINKAGE if more else "auto") if names else Gaussian()


class _Number(NamedTuple):
    """A column of numbers about the middle of its range, in terms of the formula."""

    column: str
    centred: str
    has_square: bool  # of two values the square is on a line


def _number(column: str, name: str, values: pd.Series) -> list[_Number]:
    """The column, if it varies."""
    low, high = float(values.min()), float(values.max())
    if not 0.0 < high - low < math.inf:
        return []
    middle = round(low + (high - low) / 2, DIGITS - 1 - math.floor(math.log10(high - low)))
    shift = f" {'-' if middle > 0 else '+'} {abs(middle):.15g}" if middle else ""
    return [_Number(column, f"{name}{shift}", bool(((values > low) & (values < high)).any()))]


def _curved(numbers: list[_Number], there: set[frozenset[str]], rows: int) -> list[str]:
    """Squares of the numbers, and products of two, as far as there are few of them and few rows, and the formula has none itself."""
    squares = [f"{SQUARE}({one.centred})" for one in numbers if one.has_square and {one.column} not in there]
    if not squares or len(squares) > MAX_SQUARES or rows > MAX_SQUARED_ROWS:
        return []
    if len(numbers) > MAX_MULTIPLIED or rows > MAX_MULTIPLIED_ROWS:
        return squares
    pairs = [pair for pair in combinations(numbers, 2) if {one.column for one in pair} not in there]
    factors = {one: f"({one.centred})" if " " in one.centred else one.centred for one in numbers}
    return squares + [f"I({factors[a]} * {factors[b]})" for a, b in pairs]
