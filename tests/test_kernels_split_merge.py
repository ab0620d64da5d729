"""Split-merge proposals against the reference in `naive`, at the edges of the data, and in chains."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import naive
import numpy as np
import pytest
from exact.enumeration import dirichlet_log_eppf, gaussian_log_marginal, nrm_log_eppf, partition_posterior, total_variation
from support.chains import draws_of, same_draws
from support.cover import by_turns, each_once
from support.models import far_away, mixture, spread
from support.processes import subprocess_of
from support.states import check_columns, copy_of, point_of, problem_of, started_with_move

import nrmmix as nm
from nrmmix.kernels import chain
from nrmmix.kernels.core import clusters
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.state import ACCEPTED, PROPOSED, TALLY

# rows far out, and ties, are what is tested
pytestmark = pytest.mark.filterwarnings("ignore:.*(quartile ranges away|point masses):UserWarning")

PROPOSALS = {
    "no scans": nm.SplitMerge(scans=0),
    "two scans": nm.SplitMerge(scans=2),
    "sequential": nm.SplitMerge(proposal="sequential"),
}
PRIORS = {
    "dp": nm.DirichletProcess(1.2),
    "nggp": nm.NGGP(1.5, 0.45),
    "nig": nm.NormalizedInverseGaussian(0.7, tau=0.5),
    "stable": nm.NormalizedStable(0.45),
    "py": nm.PitmanYor(1.2, 0.45),
    "finite": nm.FiniteMixture(3, 2.0),
}


def same_steps(model, move, labels, times, rng):
    """Both go through the same partitions from the same generator; how often each kind of proposal was made."""
    data, state, program = started_with_move(model, move, labels)
    # moves on the partition do without u where the mass is integrated out, be it in the state or not
    given_u = model.has_u and not isinstance(model.prior, nm.NormalizedStable)
    problem, point = replace(problem_of(model, data), marginal=not given_u), point_of(state)
    ours, theirs = np.random.default_rng(rng), np.random.default_rng(rng)
    seen = Counter()
    for _ in range(times):
        point, what = naive.split_merge(problem, point, move.scans, move.proposal == "sequential", theirs)
        assert chain.one_move(data, state, ours, program, 0) == layout.DONE
        assert naive.canonical(state.labels) == naive.canonical(point.labels)
        assert ours.bit_generator.state == theirs.bit_generator.state
        seen[what] += 1
    tally = program.tally[0]
    for kind, which in enumerate(("split", "merge")):
        assert tally[kind * TALLY + ACCEPTED] == seen[f"{which}, accepted"]
        assert tally[kind * TALLY + PROPOSED] == seen[f"{which}, accepted"] + seen[which]
    check_columns(model, data, state)
    return seen


@pytest.mark.parametrize(("proposal", "prior"), each_once(PROPOSALS, PRIORS))
def test_proposals_are_those_of_the_reference(proposal, prior):
    model = mixture(8, 2, seed=4, prior=PRIORS[prior])
    seen = same_steps(model, PROPOSALS[proposal], [0, 0, 0, 1, 1, 0, 2, 2], 150, 3)
    assert min(seen["split, accepted"], seen["merge, accepted"]) > 2
    assert seen["split"] > 0 and seen["merge"] > 3


@pytest.mark.parametrize(("n", "proposal"), each_once([1, 2, 3], PROPOSALS))
def test_few_observations(proposal, n):
    y = np.array([[0.4], [-0.3], [1.6]])[:n]
    model = mixture(n, 1, y=y, prior=nm.DirichletProcess(1.0))
    if n == 1:
        data, state, program = started_with_move(model, PROPOSALS[proposal], [0])
        assert chain.one_move(data, state, np.random.default_rng(0), program, 0) == layout.DONE
        assert state.labels.tolist() == [0] and not program.tally.any()
        return
    seen = same_steps(model, PROPOSALS[proposal], [0] * n, 200, n)
    assert min(seen["split, accepted"], seen["merge, accepted"]) > 20


def law_of(y, family, log_eppf):
    law = partition_posterior(len(y), log_eppf, lambda b: gaussian_log_marginal(y[b], family.m, family.r, family.nu, family.scale))
    return {labels: p for labels, p in law.items() if p > 0}


@pytest.mark.parametrize(("n", "prior", "proposal"), each_once([3, 5], ["nggp", "finite"], PROPOSALS))
def test_identical_observations(proposal, prior, n):
    y = np.append(np.full(n - 1, 0.7), 1.9)[:, None]  # a constant column is refused
    model = mixture(n, 1, y=y, prior=PRIORS[prior])
    fit = model.fit(PROPOSALS[proposal], draws=3000, tune=50, chains=12, rng=n)
    law = law_of(y, model.family, (lambda s: nrm_log_eppf(s, 1.5, 0.45)) if prior == "nggp" else lambda s: dirichlet_log_eppf(s, 3, 2.0))
    distance, limit = total_variation(law, fit.draws["labels"], 5.0)
    assert distance < limit < 0.05


@pytest.mark.parametrize("proposal", by_turns(PROPOSALS, 3, 1))
def test_statistics_that_lose_their_digits(proposal):
    """An observation so far out that taking it from its part leaves nothing of the others: the part is built anew."""
    y = np.array([[0.0], [0.3], [-0.2], [3e4], [0.1]])
    family = nm.Gaussian(m=0.0, r=1e-9, nu=0.3, scale=1.0)
    base = naive.Base(np.zeros(1), 1e-9, 0.3, np.eye(1))
    near = [0, 1, 2, 4]
    inside = naive.log_predictive(y[3], y[near], base) + math.log(4)
    model = mixture(5, 1, y=y, family=family, prior=nm.DirichletProcess(math.exp(inside - naive.log_marginal(y[3:4], base))))
    data, state, _ = started_with_move(model, PROPOSALS[proposal], [0] * 5)
    out = np.zeros(len(state.size))
    clusters.score_columns(data, state.stat, state.scratch.work, out, 1, 3, 0)
    assert math.isnan(out[0])
    seen = same_steps(model, PROPOSALS[proposal], [0] * 5, 400, 1)
    assert min(seen["split, accepted"], seen["merge, accepted"]) > 5


@pytest.mark.parametrize("proposal", PROPOSALS)
@pytest.mark.parametrize(("d", "distance"), by_turns([(1, 1e9), (3, 1e6)]))
def test_far_observations_leave_correct_statistics_behind(proposal, d, distance):
    family = nm.Gaussian(m=np.zeros(d), r=0.1, nu=d + 2.0, scale=np.eye(d))
    model = mixture(10, d, y=far_away(d, distance), family=family, prior=nm.DirichletProcess(0.5))
    data, state, program = started_with_move(model, PROPOSALS[proposal], [0] * 10)
    rng, rows = np.random.default_rng(1), 4 + d + d * (d + 1) // 2  # below them is scratch
    for _ in range(300):
        assert chain.one_move(data, state, rng, program, 0) == layout.DONE
        K = int(state.num[layout.Count.CLUSTERS])
        fresh = copy_of(state)
        clusters.rebuild(data, fresh)
        for k in range(K):
            if k != state.labels[4]:  # the factor of the scatter matrix with the far one is ill-conditioned
                np.testing.assert_allclose(state.stat[:rows, k], fresh.stat[:rows, k], rtol=1e-9, atol=1e-9)
            wanted = clusters.marginal_column(data, fresh.stat, k)
            assert clusters.marginal_column(data, state.stat, k) == pytest.approx(wanted, rel=1e-4)
    assert program.tally[0, ACCEPTED::TALLY].min() > 0


@pytest.mark.parametrize("proposal", by_turns(PROPOSALS, 3))
def test_statistics_after_many_proposals(proposal):
    model = mixture(60, 3, seed=2, prior=nm.NGGP(2.0, 0.3))
    data, state, program = started_with_move(model, PROPOSALS[proposal], np.arange(60) % 5, room=100)
    rng = np.random.default_rng(0)
    for _ in range(10_000):
        assert chain.one_move(data, state, rng, program, 0) == layout.DONE
    assert program.tally[0, PROPOSED::TALLY].sum() == 10_000
    assert program.tally[0, ACCEPTED::TALLY].min() > 20
    check_columns(model, data, state)


CYCLES = {
    "many proposals": nm.SplitMerge(proposals=20),
    "sequential": nm.SplitMerge(proposals=20, proposal="sequential"),
    "cycle": [nm.SplitMerge(proposals=5), nm.Gibbs(subset=7), nm.Gibbs()],
    "by work": nm.Cycle([nm.SplitMerge(proposals=2), nm.Gibbs(subset=30)], share="work"),
}


@pytest.mark.parametrize("name", CYCLES)
def test_a_chain_that_runs_out_of_room_goes_on_as_if_it_had_not(monkeypatch, name):
    model, original, enlarged = spread(), layout.enlarged, []

    def counted(state):
        enlarged.append(len(state.size))
        return original(state)

    monkeypatch.setattr(layout, "enlarged", counted)
    monkeypatch.setattr(layout, "capacity", lambda n_clusters: 7)
    small = draws_of(model, CYCLES[name])
    assert enlarged and small["n_clusters"].max() > 15
    enlarged.clear()
    monkeypatch.setattr(layout, "capacity", lambda n_clusters: 400)
    same_draws(draws_of(model, CYCLES[name]), small)
    assert not enlarged


@pytest.mark.parametrize("name", CYCLES)
def test_the_same_seed_gives_the_same_draws_on_any_number_of_cores(name):
    model = mixture(30, 2, prior=nm.NGGP(3.0))
    one = draws_of(model, CYCLES[name], chains=3, rng=7)
    same_draws(one, draws_of(model, CYCLES[name], chains=3, cores=2, rng=7))
    assert not np.array_equal(one["labels"][0], one["labels"][1])
    assert not np.array_equal(one["labels"], draws_of(model, CYCLES[name], chains=3, rng=8)["labels"])


@pytest.mark.parametrize("name", CYCLES)
def test_going_on_is_as_if_the_chain_had_never_stopped(name):
    model = mixture(30, 2, prior=nm.NGGP(3.0))
    options = {"tune": 30, "chains": 2, "rng": 3, "cores": 1}
    whole = model.fit(CYCLES[name], draws=40, **options)
    parts = model.fit(CYCLES[name], draws=25, **options).extend(15)
    same_draws(whole.draws, parts.draws)
    for a, b in zip(whole.checkpoints, parts.checkpoints, strict=True):
        for what in ("tally", "work", "labels"):
            np.testing.assert_array_equal(a.state[what], b.state[what])


PLAIN = '''
from test_kernels_split_merge import PRIORS, PROPOSALS, same_steps
from support.models import mixture
for move in PROPOSALS.values():
    for name in ("nggp", "finite"):
        same_steps(mixture(8, 2, seed=4, prior=PRIORS[name]), move, [0, 0, 0, 1, 1, 0, 2, 2], 40, 3)
'''


def test_without_compilation():
    """The same steps in plain Python, which checks every index."""
    subprocess_of(PLAIN, NUMBA_DISABLE_JIT="1")
