"""Probability that a fit puts where responses cannot lie: below 0, or outside 0 to 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import pandas as pd

from nrmmix.common.names import quoted_name
from nrmmix.model.frame.columns.censoring import CensoredPart
from nrmmix.posterior.representatives import spaced
from nrmmix.results.base import Result

OUTSIDE = 0.05  # of the distribution of a row, from which on it is said
OF_TIMES = 0.01  # likewise of times until an event, which cannot be below 0 whatever the sample
ROWS, DRAWS = 50, 20  # rows of a density regression that are looked at, and draws of the measure, for bands that are not shown
LEAST = 30  # values, which show where others can lie


def support_notes(fit: Result) -> list[str]:
    """Say of columns without negative values, times or proportions, how much the fit expects beyond, and what keeps predictions within.

    Examples
    --------
    >>> import nrmmix as nm
    >>> y = np.exp(2 * np.random.default_rng(0).normal(size=100))
    >>> support_notes(nm.fit("y ~ 1", {"y": y}, draws=50, tune=50, chains=2, rng=1))[0][:47]
    "'y' has no value below 0, where the fit expects"
    """
    frame = fit.model.frame
    if frame.is_streamed or frame.is_sparse or fit.model.formula is None:
        return []
    return [note for block in fit.model.blocks.blocks if block.family.reads == "numbers" for j in block.columns for note in _of(fit, j)]


def _of(fit: Result, j: int) -> Iterator[str]:
    frame = fit.model.frame
    name, y, part = frame.response_names[j], frame.response[:, j], frame.parts_of_responses[j]
    seen = y[~np.isnan(y)]
    if name not in frame.source or len(seen) < LEAST or seen.min() < 0.0:
        return
    two_columns = isinstance(part, CensoredPart)
    are_times = isinstance(part, CensoredPart) and part.kind == "Surv" and part.first.is_plain
    if not are_times and (two_columns or (seen == np.floor(seen)).all()):  # counts are ties
        return
    is_share = seen.max() <= 1.0 and not are_times
    rows = frame.source.iloc[spaced(len(y), ROWS)] if fit.model.is_regression else None
    below = _expected(fit, rows, name, "cdf", np.nextafter(0.0, -1.0))
    outside = below + (_expected(fit, rows, name, "exceedance", 1.0) if is_share else 0.0)
    if outside.max() < (OF_TIMES if are_times else OUTSIDE):
        return
    where, function = ("outside 0 to 1", "logit") if is_share else ("below 0", "log")
    share = f"up to {outside.max():.0%} at a row" if rows is not None else f"{outside.max():.0%}"
    within = f"{function}({quoted_name(name)})"
    if are_times:
        event = part.second.name
        within = f"Surv({within}, {quoted_name(event) if part.second.is_plain else event})"
    remedy = f'{within} on the left of the formula keeps predictions within; units="response" has them in the units of the column.'
    has_ends = seen.min() == 0.0 or (is_share and seen.max() == 1.0)  # which have no logarithm
    yield f"{name!r} has no value {where}, where the fit expects {share}{'.' if has_ends else f': {remedy}'}"


def _expected(fit: Result, rows: pd.DataFrame | None, name: str, kind: str, at: float) -> np.ndarray:
    table = fit.predict(rows, kind=kind, at=at, response=name, draws=DRAWS, rng=0)  # type: ignore[arg-type]
    return cast(pd.DataFrame, table)["estimate"].to_numpy(dtype=float)
