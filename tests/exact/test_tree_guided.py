"""Tree-guided moves against all partitions of five to seven observations: every prior and family, both kinds of splits, wrong ones."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
from exact import matrix
from exact.enumeration import gaussian_log_marginal, partition_posterior, total_variation, z_score
from exact.hyperparameters import HYPER, base, hyper_posterior, observations
from support import finite_mixtures
from support.cover import by_turns, each_once
from support.global_moves import GlobalMoves, stay

import nrmmix as nm
from nrmmix.inference.mcmc.moves.tree_guided import TreeGuided
from nrmmix.kernels.core.entry import Entry
from nrmmix.kernels.core.state import ACCEPTED, PROPOSED, TALLY
from nrmmix.kernels.trees import guided as tree_guided
from nrmmix.kernels.trees import splits as tree_splits
from nrmmix.kernels.trees import sweep as tree_cycle

CHAINS = 16
FULL, CELLS_MISSING, LONGEST = "Gaussian, full, d = 2", "Gaussian, full, cells missing", "Regression"
CONJUGATE = [family for family in matrix.families() if family not in matrix.HELD]
SPLIT, MERGE = 0, 1


MOVES = {
    "blocks": TreeGuided(global_moves=3, scan_share=0.0),
    "scan": TreeGuided(global_moves=3, scan_share=1.0),
    "both": TreeGuided(global_moves=3),
    "global, blocks": GlobalMoves(global_moves=3, scan_share=0.0),
    "global, scan": GlobalMoves(global_moves=3, scan_share=1.0),
    "global, both": GlobalMoves(global_moves=3),
}


def run(move, prior, family, *, draws, tune=100, rng=1, **options):
    return matrix.families()[family].build(prior).fit(move, draws=draws, tune=tune, chains=CHAINS, rng=rng, **options)


def tally(fit):
    return sum(checkpoint.state["tally"][0] for checkpoint in fit.checkpoints)


def check(fit, law, most):
    distance, limit = total_variation(law, fit.draws["labels"], matrix.DEVIATIONS)
    assert limit < most, "too few draws to tell"
    assert distance < limit
    proposed, accepted = tally(fit)[PROPOSED::TALLY], tally(fit)[ACCEPTED::TALLY]
    assert (accepted > 0).all() and (accepted <= proposed).all()


# ---- every prior and family


@pytest.mark.nightly
@pytest.mark.parametrize(("prior", "family"), list(product(matrix.PRIORS, CONJUGATE)))
def test_every_prior_and_family(prior, family):
    """By day test_matrix.py has cells of this move in which each of them occurs."""
    check(run(TreeGuided(global_moves=5), matrix.PRIORS[prior][0], family, draws=800), matrix.law(prior, family), 0.11)


@pytest.mark.parametrize("family", matrix.HELD)
def test_parameters_that_are_not_integrated_out(family):
    with pytest.raises(ValueError, match="component parameters that are integrated out"):
        run(TreeGuided(), nm.DirichletProcess(1.0), family, draws=1)


@pytest.mark.parametrize(("move", "prior"), by_turns(each_once(MOVES, ["NGGP(0.8, 0.2)", "PY(-0.2, 0.5)", "finite(3, 1.2)"])))
def test_every_kind(move, prior):
    check(run(MOVES[move], matrix.PRIORS[prior][0], FULL, draws=900), matrix.law(prior, FULL), 0.12)


@pytest.mark.parametrize("move", by_turns(["global, blocks", "global, scan"]))
def test_more_clusters_than_components(move):
    """Seven observations and three components: splits into more are proposed, and refused."""
    fit = run(MOVES[move], nm.FiniteMixture(3, 1.2), LONGEST, draws=2500)
    check(fit, matrix.law("finite(3, 1.2)", LONGEST), 0.1)
    assert fit.draws["n_clusters"].max() == 3
    counts = tally(fit).reshape(-1, TALLY)
    assert counts[SPLIT, ACCEPTED] < counts[SPLIT, PROPOSED]


@cache
def law_of_mixtures():
    case = matrix.families()[FULL]
    return partition_posterior(case.n, lambda sizes: finite_mixtures.log_eppf(sizes, 0.7), case.log_marginal)


@pytest.mark.parametrize("move", by_turns(MOVES))
def test_a_prior_by_its_table(move):
    check(run(MOVES[move], finite_mixtures.Mixtures(0.7), FULL, draws=900), law_of_mixtures(), 0.08)


@pytest.mark.parametrize(("move", "prior"), each_once(["blocks", "scan"], ["DP(1)", "PY(0.9, 0.3)"]))
def test_cells_that_are_drawn(move, prior):
    """The guide tree does not see them; the trees of clusters do."""
    fit = run(MOVES[move], matrix.PRIORS[prior][0], CELLS_MISSING, draws=1500, init="each")
    check(fit, matrix.law(prior, CELLS_MISSING), 0.07)


@pytest.mark.parametrize(("move", "init"), each_once(["both", "global, both"], ["one", "each", "sequential"]))
def test_any_start_leads_to_the_same_law(move, init):
    prior = "NGGP(0.5, 0.6, tau 2)"
    check(run(MOVES[move], matrix.PRIORS[prior][0], FULL, draws=900, rng=2, init=init), matrix.law(prior, FULL), 0.08)


TIES = np.array([[0.3, 0.1], [0.3, 0.1], [0.3, 0.1], [1.9, -0.4], [1.9, -0.4], [-1.0, 0.8]])


@pytest.mark.parametrize("move", by_turns(["blocks", "scan", "global, both"]))
def test_identical_observations(move):
    family = nm.Gaussian(m=np.array([0.2, 0.4]), r=0.3, nu=4.0, scale=np.eye(2))
    law = partition_posterior(
        6, matrix.PRIORS["NGGP(0.8, 0.2)"][1], lambda c: gaussian_log_marginal(TIES[c], family.m, 0.3, 4.0, family.scale))
    fit = nm.Model(data=TIES, family=family, prior=nm.NGGP(0.8, 0.2)).fit(MOVES[move], draws=1200, tune=100, chains=CHAINS, rng=3)
    check(fit, law, 0.07)


# ---- the guide


@pytest.mark.parametrize(("prior", "refresh", "tune"), each_once(["DP(1)", "PY(0.9, 0.3)"], [1, 10, 1000], [100, 0]))
def test_how_often_the_guide_tree_is_made_anew(prior, refresh, tune):
    """From any guide, adapted in tuning or not."""
    move = TreeGuided(global_moves=2, refresh=refresh)
    check(run(move, matrix.PRIORS[prior][0], FULL, draws=900, tune=tune, rng=4), matrix.law(prior, FULL), 0.09)


@pytest.mark.parametrize("options", by_turns([
    {"eta": 1.0}, {"eta": 0.1}, {"scans": 3}, {"depth": 1}, {"depth": 5}, {"global_moves": 1}, {"global_moves": 20},
]))
def test_options(options):
    move = TreeGuided(**({"global_moves": 3} | options))
    check(run(move, matrix.PRIORS["DP(1)"][0], FULL, draws=900, rng=5), matrix.law("DP(1)", FULL), 0.08)


@pytest.mark.parametrize(("prior", "kind", "tune"), by_turns([
    ("DP", "tree", 200), ("NGGP", "tree", 200), ("NGGP", "tree", 0), ("NGGP", "global", 200), ("NIG", "tree", 200),
]))
def test_sampled_hyperparameters(prior, kind, tune):
    """The guide's constants stay as the chain had them at the end of tuning; mass and sigma go on."""
    measure, mass_prior, sigma_prior = HYPER[prior]
    X, family = observations(6, 1), base(1)
    move = (GlobalMoves if kind == "global" else TreeGuided)(global_moves=3, refresh=30)
    fit = nm.Model(data=X, prior=measure, family=nm.Gaussian(**family)).fit(move, draws=1500, tune=tune, chains=24, rng=5)
    mass, sigma, K = hyper_posterior(X, family, mass_prior, sigma_prior)
    assert abs(z_score(fit.draws["mass"], mass)) < 4
    assert abs(z_score(fit.draws["n_clusters"].astype(float), K)) < 4
    if prior == "NGGP":
        assert abs(z_score(fit.draws["sigma"], sigma)) < 4
    assert fit.draws["mass"].mean(axis=1).std() < 0.14 * mass, "too few draws to tell"


@pytest.mark.nightly
def test_splits_into_several_blocks():
    """One global move an iteration and nothing else: clusters come by twos and more, and are merged by as many."""
    steps = {}
    for share in (0.0, 1.0):
        fit = run(GlobalMoves(global_moves=1, scan_share=share), nm.DirichletProcess(3.0), LONGEST, draws=3500)
        steps[share] = np.bincount(np.diff(fit.draws["n_clusters"], axis=1).ravel() + 7, minlength=15)
        moves = int(steps[share][:7].sum()), int(steps[share][8:].sum())
        counts = tally(fit).reshape(-1, TALLY)[:, ACCEPTED]
        assert abs(moves[1] - counts[SPLIT]) <= CHAINS and abs(moves[0] - counts[MERGE]) <= CHAINS  # the first step is not in the draws
    assert steps[0.0][9:].sum() > 1000 and steps[0.0][:6].sum() > 1000  # two clusters more, or fewer, at once
    assert steps[0.0][10:].sum() > 50 and steps[0.0][:5].sum() > 50
    assert not steps[1.0][9:].any() and not steps[1.0][:6].any()


# ---- wrong moves: a text of the kernels, its place, and another text in its stead

WRONG = {
    "other first picks of a merge are forgotten": (
        tree_guided, ["merge"], tree_splits.MERGE, "            if chosen[m] != 0 and m != k:\n                log_other",
        "            if False:\n                log_other"),
    "blocks of a split are as good as certain": (
        tree_guided, ["into_blocks"], tree_splits.BLOCK, "log_node + log_path", "log_node"),
    "the last scan is as good as certain": (
        tree_guided, ["by_scan"], tree_splits.SCAN, "log_q += run_scans(", "log_q += 0.0 * run_scans("),
    "to undo a split anchors are drawn until they are parted": (
        tree_guided, ["split_back"], tree_splits.BACK, "    if state.labels[member[a]] ==",
        "    while state.labels[member[a]] == state.labels[member[b]]:\n"
        "        a, b = set_out(data, state, guide, count, rng)\n"
        "    if state.labels[member[a]] =="),
    "rho is adapted for ever": (
        tree_guided, ["adapt", "global_move"], tree_splits.GLOBAL, "    if state.num[Count.TUNING] != 0:\n",
        "    if True:\n        joined *= 5\n"),
    "the guide tree follows the partition": (
        tree_cycle, ["tree_guided"], None, "        if call_move(int(memory.option[splits.PLANT])",
        "        number = 1\n"
        "        for i in range(1, n):\n"
        "            number += number + (1 if state.labels[i] == state.labels[i - 1] else 0)\n"
        "        memory.learnt[TREE] = float(number * AGES)\n"
        "        if call_move(int(memory.option[splits.PLANT])"),
    "local moves visit a cluster": (
        tree_cycle, ["tree_guided"], None, "        memory.ints[splits.IS_LOCAL], state.num[Count.CURSOR] = 1, 0\n",
        "        memory.ints[splits.IS_LOCAL], state.num[Count.CURSOR] = 1, 0\n"
        "        order = memory.ints[splits.place_of_order(n) :]\n"
        "        first = state.labels[order[0]]\n"
        "        memory.ints[splits.FIRST_LEAF], memory.ints[splits.LAST_LEAF] = 0, 1\n"
        "        while memory.ints[splits.LAST_LEAF] < n and state.labels[order[memory.ints[splits.LAST_LEAF]]] == first:\n"
        "            memory.ints[splits.LAST_LEAF] += 1\n"),
}


def wrong_entry(name):
    """Entry point of a wrong move: the last of the functions that its text is in, compiled anew."""
    module, functions, _, right, instead = WRONG[name]
    made = [getattr(module, function) for function in functions]
    source = "\n\n".join(inspect.getsource(part.function if isinstance(part, Entry) else part.py_func) for part in made)
    assert source.count(right) == 1, right
    space = dict(vars(module))
    exec(source.replace(right, instead), space)
    return space[functions[-1]]


@dataclass(frozen=True)
class Mutant(TreeGuided):
    entry: ClassVar = tree_cycle.tree_guided
    addresses: tuple = ()  # of (place in the options, address of an entry point)

    def options(self, model):
        option = list(super().options(model))
        for place, address in self.addresses:
            option[place] = float(address)
        return tuple(option)


@pytest.mark.parametrize(("wrong", "options", "local_moves"), by_turns([
    ("", {"global_moves": 2}, False),
    ("", {"global_moves": 1}, True),
    ("other first picks of a merge are forgotten", {"global_moves": 2}, False),
    ("blocks of a split are as good as certain", {"global_moves": 2, "scan_share": 0.0}, False),
    ("the last scan is as good as certain", {"global_moves": 2, "scan_share": 1.0}, False),
    ("to undo a split anchors are drawn until they are parted", {"global_moves": 2, "scan_share": 1.0}, False),
    ("rho is adapted for ever", {"global_moves": 3, "eta": 1.0}, False),
    ("the guide tree follows the partition", {"global_moves": 2, "scan_share": 0.0}, False),
    ("local moves visit a cluster", {"global_moves": 1}, True),
], 10, 9))
def test_wrong_moves_are_found(monkeypatch, wrong, options, local_moves):
    addresses = [] if local_moves else [(tree_splits.LOCAL, stay.address)]
    if wrong:
        entry, place = wrong_entry(wrong), WRONG[wrong][2]
        if place is None:
            monkeypatch.setattr(Mutant, "entry", entry)
        else:
            addresses.append((place, entry.address))
    fit = run(Mutant(**options, addresses=tuple(addresses)), nm.DirichletProcess(1.0), FULL, draws=4000)
    distance, limit = total_variation(matrix.law("DP(1)", FULL), fit.draws["labels"], matrix.DEVIATIONS)
    assert distance > 1.5 * limit if wrong else distance < limit < 0.05
