"""How long tests of samplers run: by day a tenth of their full length, by night all of it."""

import os

SHARE = float(os.environ.get("NRMMIX_TEST_LENGTH", "0.1"))


def by_day(full: int) -> int:
    """Draws of a chain whose full length is `full`.

    Tolerances come from Monte Carlo errors, so that a shorter test is as seldom wrong and finds less; tests of wrong samplers, which must
    be found, keep the length that this takes.
    """
    return max(1, round(SHARE * full))


def coarser(error: float) -> float:
    """The Monte Carlo error that such a run may have where one of full length may have `error`."""
    return error / SHARE**0.5
