"""Claims of papers beside what was measured: one rule decides every verdict on the pages about papers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

MIN_RUNS = 3  # runs that can decide
ERRORS = 2.0  # standard errors beyond which a mean has a sign
RULE = (
    "Margins are positive in runs where the claim holds: differences of two methods on the same split or by the same seed, one number a "
    f"run, with their mean and its standard error. *Yes*: the mean is above zero by more than {ERRORS:g} standard errors; *no*: it is "
    f"below by as much; *undecided* otherwise, and by fewer than {MIN_RUNS} runs. With three runs and no difference at all chance decides "
    "in 18 of 100 cases."
)


def verdict(margins: Iterable[float]) -> str:
    """Decide a claim by paired differences: "yes", "no" or "undecided".

    Parameters
    ----------
    margins : iterable of float
        One number a run (a seed, a split, an image), positive where the claim holds in that run.

    Returns
    -------
    str
        "yes" where the mean is above zero by more than two of its standard errors, "no" where it is below by as much, and "undecided"
        otherwise; also "undecided" with fewer than three runs, whose standard error says little.

    Raises
    ------
    ValueError
        Where a number is not finite: a run that did not arrive needs a bound in its place.

    Examples
    --------
    >>> verdict([0.3, 0.2, 0.4]), verdict([-0.3, -0.2, -0.4]), verdict([0.3, -0.2, 0.1]), verdict([0.3, 0.2])
    ('yes', 'no', 'undecided', 'undecided')
    """
    mean, error, n = _summary(margins)
    if n < MIN_RUNS or abs(mean) <= ERRORS * error:
        return "undecided"
    return "yes" if mean > 0 else "no"


def table(claims: Sequence[tuple[str, Iterable[float] | None, str]]) -> str:
    """Write a table in Markdown: each claim, the verdict on it, the mean of its margins with the standard error, and what was measured.

    Parameters
    ----------
    claims : sequence of tuple
        Claim, margins as for `verdict`, and text with the figures they are from.  None in place of margins says that the runs cannot
        decide, such as runs that still climb at their ends.

    Examples
    --------
    >>> print(table([("A is above B", [0.3, 0.2, 0.4], "A 1.3, B 1.0")]))
    | the paper | here too | margin | runs | measured |
    |---|---|---|---|---|
    | A is above B | yes | 0.3 ± 0.058 | 3 | A 1.3, B 1.0 |
    """
    lines = ["| the paper | here too | margin | runs | measured |", "|---|---|---|---|---|"]
    for claim, margins, measured in claims:
        if margins is None:
            lines.append(f"| {claim} | **undecided** | | | {measured} |")
            continue
        values = [float(one) for one in margins]
        mean, error, n = _summary(values)
        decided = verdict(values)
        size = _text(mean, 3) + (f" ± {_text(error, 2)}" if n > 1 else "")
        lines.append(f"| {claim} | {decided if decided == 'yes' else f'**{decided}**'} | {size} | {n} | {measured} |")
    return "\n".join(lines)


def _text(value: float, digits: int) -> str:
    """A number to so many digits, or whole where it has more before the point."""
    return f"{value:,.0f}" if abs(value) >= 10**digits - 0.5 else f"{value:.{digits}g}"


def _summary(margins: Iterable[float]) -> tuple[float, float, int]:
    """Mean, its standard error, and the number of runs."""
    values = [float(one) for one in margins]
    if not values:
        raise ValueError("margins: there is no run")
    if not all(map(math.isfinite, values)):
        raise ValueError(f"margins: {values} are not all finite; put the bound that is known in the place of a run that did not arrive")
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, math.inf, 1
    squares = math.fsum((one - mean) ** 2 for one in values)
    return mean, math.sqrt(squares / (len(values) - 1) / len(values)), len(values)
