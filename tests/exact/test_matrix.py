"""Every prior with every family, and every move: the enumeration matrix, with fewer draws than the page of the documentation."""

from __future__ import annotations

import pytest
from exact.matrix import MOVE_FAMILIES, MOVE_PRIORS, MOVES, PRIORS, families, run_cell


def check(cell, most):
    assert cell.limit < most, "too few draws to tell"
    assert cell.distance < cell.limit


@pytest.mark.parametrize("family", families())
@pytest.mark.parametrize("prior", PRIORS)
def test_gibbs(prior, family):
    check(run_cell(prior, family, draws=2500), 0.06)


@pytest.mark.parametrize("family", MOVE_FAMILIES)
@pytest.mark.parametrize("prior", MOVE_PRIORS)
@pytest.mark.parametrize("move", list(MOVES)[1:])
def test_moves(move, prior, family):
    check(run_cell(prior, family, move, draws=1000), 0.08)
