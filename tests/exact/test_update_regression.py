"""New rows for the kernel model: coordinate ascent on the bound of all rows seen, in which the earlier rows stay as they are."""

import itertools

import numpy as np
import pytest
from support.cover import by_turns, each_once
from support.variational_regression import MODELS, begun, log_evidence, parts, random_start, simulated, toy

from nrmmix.inference.executors import OneProcess
from nrmmix.inference.variational_regression.climb import Climb
from nrmmix.inference.variational_regression.memory import Memory, added
from nrmmix.inference.variational_regression.update import Continued, Further

SLACK = 1e-9  # relative, of a step


def further(climb, new, batches=3):
    return Further(Continued(new, batches, 1, OneProcess(), climb.total), climb.factors, np.random.default_rng(1))


def halves(which, passes, seed=1):
    """A climb of the first rows, from codes that have nothing to do with them, and the others."""
    climb = begun(MODELS[which](simulated()), seed=seed)
    rows = climb.memory.rows
    first = Climb(Memory(rows.part(0, 200), 2), climb.factors, climb.rng, search=False)
    first.run(passes, 0.0)
    return first, rows.part(200, rows.n), rows


@pytest.mark.parametrize("which", by_turns(MODELS))
@pytest.mark.parametrize(("passes", "batches"), [(1, 3), (6, 3), (1, 1)])
def test_no_step_lowers_the_bound_of_all_rows_seen(which, passes, batches):
    first, new, rows = halves(which, passes)
    climb = further(first, new, batches)
    climb.begin()
    steps = [climb.bound()]
    climb.run(25, 0.0, watch=lambda _, bound: steps.append(bound))
    assert np.diff(steps).min() > -SLACK * abs(steps[-1]) and steps[-1] > steps[0]
    assert climb.total.n == rows.n and climb.total.N.sum() == pytest.approx(rows.n)
    whole = Climb(Memory(rows), climb.factors, np.random.default_rng(1), search=False)
    whole.begin()
    assert whole.bound() >= climb.bound() - SLACK * abs(steps[-1])  # earlier rows may move now


@pytest.mark.parametrize("which", MODELS)
def test_the_first_sums_are_those_of_a_pass_over_all(which):
    """Where the earlier rows have been visited at the factors that new rows are, update begins where a memoized fit of both is."""
    first, new, rows = halves(which, 3)
    held = Memory(first.memory.rows)
    earlier = held.visit(0, first.factors)
    both = added(earlier, Memory(new).visit(0, first.factors))
    climb = Further(Continued(new, 3, 1, OneProcess(), earlier), first.factors, np.random.default_rng(1))
    whole = Climb(Memory(rows), first.factors, np.random.default_rng(1), search=False)
    whole.begin()
    climb.may_move[:] = True  # of rates at these factors, which are those before the weights were made anew
    climb.begin()
    for one, other, sums in zip(climb.total[:-1], whole.total[:-1], both[:-1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.abs(other).max())
        np.testing.assert_allclose(one, sums, rtol=1e-9, atol=1e-9 * np.abs(other).max())
    assert climb.bound() == pytest.approx(whole.bound(), rel=1e-10)


def test_codes_whose_gain_is_not_known_stay():
    """A mutant that moves them lowers the bound."""
    found = {}
    for known in (True, False):
        first, new, _ = halves("products", 1)
        steps, climb = [], further(first, new)
        assert climb.may_move.any(axis=0).all() and not climb.may_move.all()
        if not known:
            climb.allowed = lambda gains: gains
        climb.run(25, 0.0, watch=lambda *step, steps=steps: steps.append(step))
        found[known] = min(b - a for (_, a), (step, b) in itertools.pairwise(steps) if step in ("codes", "scale"))
    assert found[True] > -1e-6 and found[False] < -1e-3


def test_a_component_that_moves_keeps_its_other_codes():
    moved = 0
    for seed in range(4):
        climb = further(*halves("products", 1, seed)[:2])
        climb.begin()
        codes, before = climb.factors.codes, climb.may_move.copy()
        climb.run(15, 0.0)
        differ = (climb.factors.codes != codes).sum(axis=1)
        moved += (differ > 0).sum()
        assert differ.max() <= 1 and (climb.may_move.sum(axis=0)[differ > 0] == 1).all() and (climb.may_move <= before).all()
    assert moved > 0


@pytest.mark.parametrize(("q", "batches"), each_once([1, 2], [1, 2]))
def test_the_bound_is_below_the_evidence_of_all_rows(q, batches):
    model = toy(q, 1.0)
    binned, rows = parts(model)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        first = Climb(Memory(rows.part(0, 2)), random_start(model, binned, rows, rng), rng, search=False)
        first.run(20, 1e-12)
        climb = further(first, rows.part(2, 4), batches)
        climb.run(40, 1e-12)
        assert 0 < log_evidence(model, binned, rows, climb.factors.exponential) - climb.bound() < 25
