"""The rule by which pages on papers decide claims."""

import numpy as np
import pytest

from nrmmix.report import claims


def test_a_mean_beyond_two_standard_errors_decides():
    runs = np.array([1.0, 2.0, 3.0, 4.0])
    mean, error = runs.mean(), runs.std(ddof=1) / 2
    assert claims.verdict(runs - mean + 2.01 * error) == "yes"
    assert claims.verdict(runs - mean + 1.99 * error) == "undecided"
    assert claims.verdict(runs - mean - 1.99 * error) == "undecided"
    assert claims.verdict(runs - mean - 2.01 * error) == "no"


def test_runs_that_are_alike_decide_by_their_sign():
    assert [claims.verdict([value] * 3) for value in (0.5, 0.0, -0.5)] == ["yes", "undecided", "no"]


@pytest.mark.parametrize("n", [1, 2])
def test_few_runs_decide_nothing(n):
    assert claims.verdict([5.0] * n) == "undecided"


def test_the_error_rate_is_that_of_t_with_two_degrees_of_freedom():
    """Without a difference three runs decide, either way, as often as |t| of two degrees of freedom exceeds two: 0.1835."""
    rng = np.random.default_rng(1)
    decided = np.mean([claims.verdict(runs) != "undecided" for runs in rng.normal(size=(4000, 3))])
    assert abs(decided - 0.1835) < 4 * np.sqrt(0.1835 * 0.8165 / 4000)


@pytest.mark.parametrize("margins", [[], [1.0, np.inf, 2.0], [np.nan]])
def test_what_cannot_be_decided_is_refused(margins):
    with pytest.raises(ValueError, match="margins"):
        claims.verdict(margins)


def test_a_table_says_undecided_of_runs_that_cannot_decide():
    rows = claims.table([("A is above B", [0.3, 0.2, 0.4], "A 1.3"), ("it is flat", None, "A climbs")]).splitlines()
    assert rows[2] == "| A is above B | yes | 0.3 ± 0.058 | 3 | A 1.3 |" and rows[3] == "| it is flat | **undecided** | | | A climbs |"
