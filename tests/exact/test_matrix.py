"""Every prior with every family: the enumeration matrix, with fewer draws than the page of the documentation."""

from __future__ import annotations

import pytest
from exact.matrix import PRIORS, families, run_cell

CASES = families()


@pytest.mark.parametrize("family", CASES)
@pytest.mark.parametrize("prior", PRIORS)
def test_cell(prior, family):
    cell = run_cell(prior, family, CASES[family], draws=2500)
    assert cell.limit < 0.06, "too few draws to tell"
    assert cell.distance < cell.limit
