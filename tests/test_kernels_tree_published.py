"""The published tree-guided sampler: its trees and statistics, the edges of the data, chains, and what it refuses."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest
from exact.enumeration import gaussian_log_marginal, nrm_log_eppf, partition_posterior, total_variation
from naive.trees import Trees, log_product_form
from support.chains import draws_of, same_draws
from support.cover import by_turns, each_once
from support.forests import Case, check, check_free, shape_of
from support.models import far_away, mixture
from support.processes import subprocess_of
from support.states import check_columns, started_with_move

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.state import ACCEPTED, PROPOSED, TALLY
from nrmmix.kernels.measure import nrm, weights
from nrmmix.kernels.trees import published_trees

# rows far out, and ties, are what is tested
pytestmark = pytest.mark.filterwarnings("ignore:.*(quartile ranges away|point masses):UserWarning")

REPAIRS = ("subset", "tree", "first_pick")
MOVES = {
    "published": nm.PublishedTreeGuided(3),
    "global": nm.PublishedTreeGuided(5, moves="global"),
    "local": nm.PublishedTreeGuided(1, 1, moves="local"),
    "repaired": nm.PublishedTreeGuided(3, repaired=REPAIRS),
    "tree": nm.PublishedTreeGuided(3, repaired=("tree",)),
}
PRIORS = {"dp": nm.DirichletProcess(1.2), "nggp": nm.NGGP(1.5, 0.45), "nig": nm.NormalizedInverseGaussian(0.7, tau=0.5)}


def forest_of(program):
    """The move's trees, and what else it has."""
    scratch = program.memory[0].divided
    return scratch.forest, scratch


def check_trees(model, data, state, program):
    """The trees are those of the clusters, with their statistics, and the potentials of the present u, mass and sigma."""
    forest, scratch = forest_of(program)
    K = int(state.num[layout.Count.CLUSTERS])
    assert scratch.head[published_trees.BUILT] == 1 and scratch.head[published_trees.TREES] == K
    roots = [int(v) for v in scratch.root[:K]]
    check_free(Case(data, state, forest, None, model.n_obs), *roots)
    family = model.family
    base = naive.Base(family.m, family.r, family.nu, family.scale)
    mass, sigma, tau = state.hyper[: layout.Hyper.TAU + 1]
    log_cluster = math.log(mass) + sigma * math.log(tau + state.cache.A[0])
    log_h = log_product_form(log_cluster, sigma, lambda rows: naive.log_marginal(model.frame.response[rows], base))
    case = Case(data, state, forest, Trees(log_h), model.n_obs)
    for k, v in enumerate(roots):
        tree = case.trees.of(shape_of(forest, v))
        assert sorted(tree.leaves) == np.flatnonzero(state.labels == k).tolist()
        check(case, v, tree)


@pytest.mark.parametrize(("move", "prior"), each_once(MOVES, PRIORS))
def test_trees_and_statistics_after_many_calls(move, prior):
    model = mixture(30, 2, seed=4, prior=PRIORS[prior])
    data, state, program = started_with_move(model, MOVES[move], np.arange(30) % 4)
    rng = np.random.default_rng(3)
    for step in range(200):
        if model.has_u:
            state.v[:] = rng.gamma(2.0)
            state.hyper[layout.Hyper.MASS] = rng.gamma(2.0)
            nrm.recompute_A(state)
            weights.refresh_caches(data, state)
        assert chain.one_move(data, state, rng, program, 0) == layout.DONE
        if step % 40 == 0:
            check_columns(model, data, state)
            check_trees(model, data, state, program)
    tally = program.tally[0]
    if MOVES[move].moves != "local":
        assert tally[ACCEPTED::TALLY].min() > 2 and (tally[ACCEPTED::TALLY] < tally[PROPOSED::TALLY]).all()
    else:
        assert not tally.any()
    assert state.num[layout.Count.MOVED] > 20


def test_trees_persist():
    """Between calls trees stay as they were; those of another partition are made anew."""
    model = mixture(30, 2, seed=4)
    data, state, program = started_with_move(model, nm.PublishedTreeGuided(2), np.arange(30) % 4)
    rng = np.random.default_rng(0)
    for _ in range(50):
        chain.one_move(data, state, rng, program, 0)
    forest, scratch = forest_of(program)
    assert published_trees.fits(state, forest, scratch)
    before = [shape_of(forest, v) for v in scratch.root[: state.num[layout.Count.CLUSTERS]]]
    anew = started_with_move(model, nm.PublishedTreeGuided(1, moves="global"), state.labels.copy())
    chain.one_move(*anew[:2], rng, anew[2], 0)
    other_forest, other_grove = forest_of(anew[2])
    assert before != [shape_of(other_forest, v) for v in other_grove.root[: anew[1].num[layout.Count.CLUSTERS]]]
    chain.start(data, state, (np.arange(30) % 3).astype(np.int64))
    assert not published_trees.fits(state, forest, scratch)
    assert chain.one_move(data, state, rng, program, 0) == layout.DONE
    check_trees(model, data, state, program)


# ---- the edges of the data


@pytest.mark.parametrize(("n", "move"), each_once([1, 2, 3], MOVES))
def test_few_observations(move, n):
    y = np.array([[0.4], [-0.3], [1.6]])[:n]
    model = mixture(n, 1, y=y, prior=nm.DirichletProcess(1.0))
    if n == 1:
        data, state, program = started_with_move(model, MOVES[move], [0])
        assert chain.one_move(data, state, np.random.default_rng(0), program, 0) == layout.DONE
        assert state.labels.tolist() == [0] and not program.tally.any()
        return
    fit = model.fit(MOVES[move], draws=3000, tune=50, chains=12, rng=n)
    assert fit.draws["n_clusters"].min() == 1 and fit.draws["n_clusters"].max() == n
    if move == "repaired":
        law = law_of(model, lambda s: nrm_log_eppf(s, 1.0, 0.0))
        distance, limit = total_variation(law, fit.draws["labels"], 5.0)
        assert distance < limit < 0.05


def law_of(model, log_eppf):
    y, family = model.frame.response, model.family
    return partition_posterior(len(y), log_eppf, lambda b: gaussian_log_marginal(y[b], family.m, family.r, family.nu, family.scale))


@pytest.mark.parametrize("n", by_turns([3, 5]))
def test_identical_observations(n):
    y = np.append(np.full(n - 1, 0.7), 1.9)[:, None]
    model = mixture(n, 1, y=y, prior=nm.NGGP(1.5, 0.45))
    fit = model.fit(MOVES["repaired"], draws=3000, tune=50, chains=12, rng=n)
    distance, limit = total_variation(law_of(model, lambda s: nrm_log_eppf(s, 1.5, 0.45)), fit.draws["labels"], 5.0)
    assert distance < limit < 0.05


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("distance", [1e3, 1e7])
def test_far_observations(move, distance):
    """Dissimilarities beyond the range of floats: nothing overflows, and what is far apart is parted."""
    model = nm.Model(
        data=far_away(1, distance), family=nm.Gaussian(known_covariance=np.eye(1), m=0.0, r=1e-3), prior=nm.DirichletProcess(1.0))
    data, state, program = started_with_move(model, MOVES[move], [0] * 10)
    rng = np.random.default_rng(1)
    for _ in range(300):
        assert chain.one_move(data, state, rng, program, 0) == layout.DONE
    far = int(np.argmax(np.abs(model.frame.response[:, 0])))
    assert (state.labels == state.labels[far]).sum() == 1
    assert np.isfinite(program.tally[0]).all()


# ---- chains


@pytest.mark.parametrize("name", [name for name in MOVES if name != "global"])  # which hardly ever leaves one cluster
def test_a_chain_that_runs_out_of_room_goes_on_as_if_it_had_not(monkeypatch, name):
    family = nm.Gaussian(known_covariance=np.full((1, 1), 0.5), m=0.0, r=0.1)
    model = mixture(30, 1, y=np.linspace(-3.0, 3.0, 30)[:, None], family=family, prior=nm.NGGP(20.0, 0.3))
    original, enlarged = layout.enlarged, []

    def counted(state):
        enlarged.append(len(state.size))
        return original(state)

    monkeypatch.setattr(layout, "enlarged", counted)
    monkeypatch.setattr(layout, "capacity", lambda n_clusters: 7)
    small = draws_of(model, MOVES[name])
    assert enlarged and small["n_clusters"].max() > 10
    enlarged.clear()
    monkeypatch.setattr(layout, "capacity", lambda n_clusters: 400)
    same_draws(draws_of(model, MOVES[name]), small)
    assert not enlarged


@pytest.mark.parametrize("name", by_turns(MOVES))
def test_the_same_seed_gives_the_same_draws_on_any_number_of_cores(name):
    model = mixture(30, 2, prior=nm.NGGP(3.0))
    one = draws_of(model, MOVES[name], chains=3, rng=7)
    same_draws(one, draws_of(model, MOVES[name], chains=3, cores=2, rng=7))
    assert not np.array_equal(one["labels"][0], one["labels"][1])
    assert not np.array_equal(one["labels"], draws_of(model, MOVES[name], chains=3, rng=8)["labels"])


def test_going_on_after_a_stop():
    """The draws that there were stay; the trees are made anew, so the others differ from those of a longer chain."""
    model = mixture(30, 2, prior=nm.NGGP(3.0))
    options = {"tune": 30, "chains": 2, "rng": 3, "cores": 1}
    fit = model.fit(MOVES["published"], draws=25, **options)
    longer = fit.extend(15)
    np.testing.assert_array_equal(longer.draws["labels"][:, :25], fit.draws["labels"])
    again = model.fit(MOVES["published"], draws=25, **options).extend(15)
    same_draws(longer.draws, again.draws)


# ---- what it says of itself, and refuses


def test_not_exact_and_alone():
    move = nm.PublishedTreeGuided()
    assert not move.exact and move.runs_alone and "distance of 0.15" in move.bias
    assert nm.Gibbs().exact and not nm.Gibbs().runs_alone
    assert str(nm.PublishedTreeGuided(5, repaired=("tree", "subset"))) == (
        "PublishedTreeGuided(global_moves=5, repaired=('subset', 'tree'))")
    for moves in ([move, nm.Gibbs()], [nm.SplitMerge(), move], [move, move]):
        with pytest.raises(ValueError, match="runs alone"):
            nm.Cycle(moves)
    assert nm.Cycle([move]).name == "tree_published"


@pytest.mark.parametrize(("options", "message"), [
    ({"global_moves": 0}, "global_moves must be an integer of at least 1"),
    ({"depth": 0}, "depth must be an integer of at least 1"),
    ({"global_moves": 10**7}, "at most 1,000,000"),
    ({"depth": 1.5}, "depth must be an integer"),
    ({"repaired": ("trees",)}, "repaired must be a tuple of some of 'subset', 'tree', 'first_pick'"),
    ({"repaired": "tree"}, "repaired must be a tuple"),
    ({"repaired": 3}, "repaired must be a tuple"),
    ({"moves": "locals"}, "moves must be one of 'both', 'global', 'local'"),
])
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        nm.PublishedTreeGuided(**options)


GAPS = np.where(np.arange(12).reshape(6, 2) == 3, math.nan, np.random.default_rng(0).normal(size=(6, 2)))


@pytest.mark.parametrize(("model", "message"), [
    (lambda: mixture(6, 1, prior=nm.PitmanYor(0.9, 0.3)), "PitmanYor is sampled without u"),
    (lambda: mixture(6, 1, prior=nm.FiniteMixture(3)), "FiniteMixture is sampled without u"),
    (lambda: mixture(6, 1, prior=nm.NormalizedStable(0.4)), "DirichletProcess, NGGP and NormalizedInverseGaussian are"),
    (lambda: nm.Model(data=GAPS[:, :1], family=nm.SemiconjugateGaussian(), missing="drop"), "parameters that are integrated out"),
    (lambda: nm.Model(data=GAPS, missing="marginalize"), "missing cells that are drawn"),
    (lambda: nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle()), "density regression"),
])
def test_models_that_it_does_not_suit(model, message):
    with pytest.raises(ValueError, match=message):
        model().fit(nm.PublishedTreeGuided(), draws=5, tune=5)


PLAIN = '''
import numpy as np
from test_kernels_tree_published import MOVES, PRIORS, chain, check_trees, mixture, started_with_move
for name, move in MOVES.items():
    model = mixture(8, 2, seed=4, prior=PRIORS["nggp"])
    data, state, program = started_with_move(model, move, [0, 0, 0, 1, 1, 0, 2, 2])
    rng = np.random.default_rng(1)
    for _ in range(15):
        assert chain.one_move(data, state, rng, program, 0) == 1
    check_trees(model, data, state, program)
'''


@pytest.mark.nightly
def test_without_compilation():
    """The same in plain Python, which checks every index."""
    subprocess_of(PLAIN, NUMBA_DISABLE_JIT="1")
