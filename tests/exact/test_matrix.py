"""Cells of the enumeration matrix, with fewer draws than the page of the documentation, which has them all; a third of them by day."""

from __future__ import annotations

from itertools import product

import pytest
from exact.matrix import FINITE, HELD, METHODS, MOVES, OF_FINITE, PRIORS, cover, families, run_cell, suits
from support.cover import by_turns, each_once

METHOD_OF = {move: method for method, moves in METHODS.items() for move in moves}


@pytest.mark.parametrize(("prior", "family", "move"), by_turns(cover(), 3))
def test_posterior_of_partitions(prior, family, move):
    cell = run_cell(prior, family, move, draws=900)
    assert cell.limit < 0.11, "too few draws to tell"
    assert cell.distance < cell.limit


@pytest.mark.parametrize(("family", "prior", "move"), each_once(families(), FINITE, OF_FINITE)[::2])
def test_samplers_of_finite_priors(prior, family, move):
    test_posterior_of_partitions(prior, family, move)


def test_every_prior_and_family_meets_every_method():
    cells = {(prior, family, METHOD_OF[move]) for prior, family, move in cover()}
    assert {(prior, method) for prior, _, method in cells} == set(product(PRIORS, METHODS))
    pairs = {pair for pair in product(families(), METHODS) if suits(*pair)}
    assert {(family, method) for _, family, method in cells} == pairs
    assert {move for _, _, move in cover()} == set(MOVES) == set(METHOD_OF)
    assert len(cover()) <= 1.05 * len(pairs), "each of which takes a cell"


@pytest.mark.parametrize("family", HELD)
def test_what_is_left_out_is_refused(family):
    table = families()[family].build(PRIORS["DP(1)"][0]).methods()
    assert {method: table["suits"][method] for method in METHODS} == {method: suits(family, method) for method in METHODS}
