"""Moves on partitions by themselves and in lists, against enumeration of all partitions; wrong ones are found.

The matrix has every move with several priors and families; here are the options of `SplitMerge` and `Gibbs`, every prior, and cycles.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
import pytest
from exact import matrix
from exact.enumeration import partition_posterior, total_variation
from numba import njit
from support import finite_mixtures
from support.cover import by_turns, each_once

import nrmmix as nm
from nrmmix.kernels.core.state import ACCEPTED, CALLS, PROPOSED, TALLY
from nrmmix.kernels.moves import split_merge

CHAINS, DRAWS = 16, 900
MOVES = {
    "no scans": nm.SplitMerge(proposals=3, scans=0),
    "one scan": nm.SplitMerge(proposals=3, scans=1),
    "five scans": nm.SplitMerge(proposals=3, scans=5),
    "sequential": nm.SplitMerge(proposals=3, proposal="sequential"),
    "subset": nm.Gibbs(subset=2),
    "cycle": nm.Cycle([nm.SplitMerge(proposals=3), nm.Gibbs(subset=3)]),
    "by work": nm.Cycle([nm.SplitMerge(scans=1), nm.Gibbs(subset=1)], share="work"),
}
FAMILY = "Gaussian, full, d = 2"
FAMILIES = ("Gaussian, diagonal", "Gaussian, known covariance", "Multinomial", "blocks of three families, cells missing")
CELLS_MISSING = "Gaussian, full, cells missing"
LONGEST = "Regression"  # of seven observations


def run(move, prior, family, *, draws=DRAWS, rng=1, **options):
    return matrix.families()[family].build(prior).fit(move, draws=draws, tune=100, chains=CHAINS, rng=rng, **options)


def tally(fit, move=0):
    return sum(checkpoint.state["tally"][move] for checkpoint in fit.checkpoints)


def check(fit, law, most=0.08):
    distance, limit = total_variation(law, fit.draws["labels"], matrix.DEVIATIONS)
    assert limit < most, "too few draws to tell"
    assert distance < limit
    for number, move in enumerate(fit.cycle.moves):
        counts = tally(fit, number)
        if isinstance(move, nm.SplitMerge):
            proposed, accepted = counts[PROPOSED::TALLY], counts[ACCEPTED::TALLY]
            assert (accepted > 0).all() and (accepted <= proposed).all()
            if len(fit.cycle.moves) == 1:  # what is parted must be joined again
                assert abs(accepted[0] - accepted[1]) <= CHAINS * (fit.model.n_obs - 1)


@pytest.mark.parametrize(("move", "prior"), by_turns(each_once(MOVES, matrix.PRIORS)))
def test_priors(move, prior):
    check(run(MOVES[move], matrix.PRIORS[prior][0], FAMILY), matrix.law(prior, FAMILY))


@cache
def law_of_mixtures():
    case = matrix.families()[FAMILY]
    return partition_posterior(case.n, lambda sizes: finite_mixtures.log_eppf(sizes, 0.7), case.log_marginal)


@pytest.mark.parametrize("move", by_turns(MOVES))
def test_a_prior_by_its_table(move):
    check(run(MOVES[move], finite_mixtures.Mixtures(0.7), FAMILY), law_of_mixtures())


@pytest.mark.parametrize(("move", "family"), by_turns(each_once(MOVES, [*FAMILIES, LONGEST])))
def test_families(move, family):
    prior = "NGGP(0.8, 0.2)"
    check(run(MOVES[move], matrix.PRIORS[prior][0], family), matrix.law(prior, family), 0.12 if family == LONGEST else 0.08)


@pytest.mark.parametrize(("move", "prior"), by_turns(each_once(MOVES, ["DP(1)", "NGGP(0.5, 0.6, tau 2)", "PY(0.9, 0.3)"])))
def test_cells_that_are_drawn(move, prior):
    """Cells of a full Gaussian are part of the state: every move draws them too, Gibbs those of the rows that it visits."""
    check(run(MOVES[move], matrix.PRIORS[prior][0], CELLS_MISSING, init="each"), matrix.law(prior, CELLS_MISSING))


@pytest.mark.parametrize(("move", "init"), each_once(["one scan", "sequential", "cycle"], ["one", "each", "sequential"]))
def test_any_start_leads_to_the_same_law(move, init):
    prior = "NGGP(0.5, 0.6, tau 2)"
    check(run(MOVES[move], matrix.PRIORS[prior][0], FAMILY, rng=2, init=init), matrix.law(prior, FAMILY))


def test_calls_by_work():
    """The cheaper move is called more often; as often in every iteration after tuning as at its end."""
    fit = run(MOVES["by work"], matrix.PRIORS["DP(1)"][0], FAMILY)
    for checkpoint in fit.checkpoints:
        calls = checkpoint.state["work"][:, CALLS]
        assert calls.min() == 1.0 and (calls == np.floor(calls)).all()
        splits = checkpoint.state["tally"][0, PROPOSED::TALLY].sum()
        assert splits == calls[0] * DRAWS
        assert checkpoint.state["tally"][1, PROPOSED] == calls[1] * DRAWS
    assert max(checkpoint.state["work"][:, CALLS].max() for checkpoint in fit.checkpoints) > 1.0


# ---- wrong moves

CALL = "call_move(int(memory.option[2]), data, state, memory, rng)"
WRONG = (  # what stands in `split_merge`, and what takes its place
    ("log_split - log_q if splits else log_q - log_split", "log_split if splits else -log_split"),  # not the proposal's probability
    ("state.size[k_j]", "state.size[k_j] + 1"),  # a size in the prior
    ("K - 1", "K"),  # the number of other clusters
    (CALL, CALL.replace("call_move", "without_scans") + f" if not splits else {CALL}"),  # merges forget the scans
)
WHICH = "memory.option[5]"


@njit
def without_scans(address, data, state, memory, rng):
    scans, memory.option[1] = memory.option[1], 0.0
    status = split_merge.call_move(address, data, state, memory, rng)
    memory.option[1] = scans
    return status


@cache
def mutant():
    """The entry point, wrong in the way that its sixth option says; right for 0."""
    move = inspect.getsource(split_merge.split_merge.function)
    for number, (right, wrong) in enumerate(WRONG, 1):
        assert move.count(right) == 1, right
        move = move.replace(right, f"(({wrong}) if {WHICH} == {number}.0 else ({right}))")
    space = dict(vars(split_merge)) | {"without_scans": without_scans}
    exec(move, space)
    return space["split_merge"]


@dataclass(frozen=True)
class Mutant(nm.SplitMerge):
    entry: ClassVar = None

    wrong: int = 0

    def options(self, model):
        return (*super().options(model), 0.0, 0.0, float(self.wrong))


@pytest.mark.parametrize(("wrong", "prior"), by_turns([
    (1, "DP(1)"), (0, "NGGP(0.8, 0.2)"), (1, "PY(0.9, 0.3)"), (2, "DP(1)"), (2, "NIG(0.7)"), (3, "PY(0.9, 0.3)"), (4, "DP(1)"),
], 8, 7))
def test_wrong_proposals_are_found(monkeypatch, wrong, prior):
    monkeypatch.setattr(Mutant, "entry", mutant())
    scans, draws = (5, 8000) if wrong == 4 else (0, 2500)
    fit = run(Mutant(proposals=3, scans=scans, wrong=wrong), matrix.PRIORS[prior][0], FAMILY, draws=draws)
    distance, limit = total_variation(matrix.law(prior, FAMILY), fit.draws["labels"], matrix.DEVIATIONS)
    assert distance > 1.5 * limit if wrong else distance < limit
