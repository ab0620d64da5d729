"""How arguments are checked: what passes, and that a refusal says what was given and what would work."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from nrmmix.common import messages
from nrmmix.common.progress import Progress


@pytest.mark.parametrize("value", [1, 1.0, np.float32(1), np.int64(1), Decimal(1), Fraction(1)], ids=repr)
def test_numbers(value):
    found = [messages.positive("x", value), messages.between("x", value, 0, 1), messages.seconds("x", value)]
    assert found == [1.0, 1.0, 1.0] and {type(one) for one in found} == {float}


@pytest.mark.parametrize("value", ["1", True, np.True_, None, 1j, [1.0], math.nan, 10**400], ids=lambda value: repr(value)[:8])
def test_what_is_no_number(value):
    assert math.isnan(messages.number(value))
    for check, message in (
        (lambda: messages.positive("x", value, ", says the law"), "x must be a finite number greater than 0, not .*, says the law."),
        (lambda: messages.between("x", value, 0.5, 2), "x must be a number from 0.5 to 2, not "),
        (lambda: messages.probability("x", value), "x must be between 0 and 1, not "),
    ):
        with pytest.raises(ValueError, match=message):
            check()


def test_flags_and_words():
    assert messages.flag("x", np.True_) is True and messages.seconds("x", None) is None
    with pytest.raises(ValueError, match="x must be True or False, not 1"):
        messages.flag("x", 1)
    for value in ("ones", None, ["one"], np.array(["one", "two"])):
        with pytest.raises(ValueError, match="x must be one of 'one', 'two', not "):
            messages.one_of("x", value, ("one", "two"))
    with pytest.raises(ValueError, match=r"unknown plot 'ONES'; there are 'one', 'two'; did you mean 'one'\?"):
        messages.known_name("plot", "ONES", ("one", "two"))
    with pytest.raises(ValueError, match=r"unknown plot 'x'; there are none\."):
        messages.known_name("plot", "x", ())


def test_a_line_of_progress(capsys):
    with Progress(True) as line:
        line.update("half", 0.5)
        line.update("all", 1.0)
    shown = capsys.readouterr().err
    assert shown.startswith("\rhalf, 0 s, 0 s left") and "\rall, 0 s      \n" in shown
    with Progress(None) as line:  # no terminal
        line.update("half", 0.5)
    assert capsys.readouterr().err == ""
