"""Levels of factors in formulas: contrasts with one of them, names that tell them apart, and those that no row has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import patsy

from nrmmix.common import messages
from nrmmix.common.names import bare
from nrmmix.model.frame.syntax import CONTRASTS


class _OfALevel:
    """A contrast of patsy with one of the levels; a number that is none would be the place of one."""

    def code_with_intercept(self, levels: Sequence[Any]) -> Any:
        self._check(levels)
        return super().code_with_intercept(levels)  # type: ignore[misc]

    def code_without_intercept(self, levels: Sequence[Any]) -> Any:
        self._check(levels)
        return super().code_without_intercept(levels)  # type: ignore[misc]

    def _check(self, levels: Sequence[Any]) -> None:
        name = type(self).__name__
        level = getattr(self, CONTRASTS[name])
        if level is not None and level not in levels:
            why = "not found" if isinstance(level, str) else "out of range"
            there = f"the levels are {messages.listed(map(messages.shown, levels))}"
            piece = f"{name}({level!r})"
            raise patsy.PatsyError(f"level {level!r} is {why}; {there}", patsy.Origin(piece, 0, len(piece)))


class Treatment(_OfALevel, patsy.Treatment):
    """Differences from one level."""


class Sum(_OfALevel, patsy.Sum):
    """Differences from the mean, of all levels but one."""


def check_texts(levels: Mapping[str, Sequence[Any]]) -> None:
    """Refuse levels of a column that are written alike, which names of its columns could not tell apart."""
    for name, own in levels.items():
        first: dict[str, Any] = {}
        for level in own:
            if (other := first.setdefault(str(level), level)) is not level:
                both = f"{messages.shown(other)} and {messages.shown(level)}"
                raise ValueError(f"The levels {both} of {name!r} are written alike; join or rename them, as by data[{name!r}].astype(str).")


def cells_of(parts: Iterable[Any]) -> dict[str, str]:
    """Remedies where no row has the levels that stand behind a covariate, by names of those that no formula can leave out."""
    found: dict[str, str] = {}
    for part in parts:
        design: Any = getattr(part, "design", None)
        for term, place in design.term_slices.items() if design is not None else ():
            factors = [factor for factor in term.factors if design.factor_infos[factor].type == "categorical"]
            names = [bare(name) for name in design.column_names[place]]
            columns = [name for factor in factors for name in part.checks[factor.code].columns]
            if len(factors) > 1:
                found |= dict.fromkeys(names, (
                    "a formula cannot leave out levels that no row has together: make one column of "
                    f"{messages.quoted(dict.fromkeys(columns))} in the data, with the pairs that occur for its levels, or join levels"
                ))
            elif factors and part.named("coded") - part.named("counted") >= set(columns):
                found |= dict.fromkeys(names, f"if no row has this level of {messages.quoted(columns)}, leave it out of levels=")
    return found
