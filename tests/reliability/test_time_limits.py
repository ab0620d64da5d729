"""Time limits within calls of moves: what has begun is given up, and nothing is lost but that."""

from __future__ import annotations

import itertools
import pickle
import threading
import time

import numpy as np
import pytest
from support.cover import by_turns

import nrmmix as nm
from nrmmix.inference.mcmc import chain, driving
from nrmmix.kernels.core import state as layout

rng = np.random.default_rng(5)
MANY = nm.Model(data=np.concatenate([rng.normal(size=(3000, 2)), rng.normal(size=(3000, 2)) + 9]))
FEW = nm.Model(data=rng.normal(size=(500, 2)))
LINE = nm.Model(
    "y ~ x", {"x": rng.uniform(size=6000), "y": rng.normal(size=6000)}, family=nm.Gaussian(), kernel=nm.Box(0.2),
    prior=nm.FiniteMixture(200),
)
SNGP = nm.Model("y ~ x", {"x": rng.uniform(size=3000), "y": rng.normal(size=3000)}, family=nm.Gaussian(), kernel=nm.Box(0.2))

MOVES = {
    "split_merge": (FEW, [nm.SplitMerge(200), nm.Gibbs()]),
    "tree": (FEW, [nm.TreeGuided(global_moves=300, depth=1), nm.Gibbs()]),
    "subset": (MANY, [nm.Gibbs(subset=5500), nm.Gibbs()]),
    "slice": (MANY, [nm.Slice()]),
    "permutation": (FEW, [nm.Permutation(), nm.Gibbs()]),
    "blocked": (LINE, [nm.Blocked()]),
    "sngp": (SNGP, [nm.SNGP()]),
}


def same(a, b):
    return set(a.draws) == set(b.draws) and all(np.array_equal(a.draws[name], b.draws[name]) for name in a.draws)


@pytest.mark.parametrize("name", by_turns(MOVES))
def test_a_call_that_is_given_up_begins_anew(name, monkeypatch):
    """Calls are given up at their beginning and at moments that only the clock knows; draws are those of a run that never was."""
    model, moves = MOVES[name]
    run = {"draws": 4, "tune": 1, "chains": 1, "rng": 3}
    whole = model.fit(moves, **run)
    runs, given_up = itertools.count(), []
    put_back, usual = chain.put_back, chain.Chain.run

    def hurried(self, *arguments):
        number = next(runs)
        give_up = threading.Timer(rng.uniform(0, whole.seconds / 5), self.state.num.__setitem__, (layout.Count.HALT, layout.GIVE_UP))
        if number % 3 == 1:
            self.state.num[layout.Count.HALT] = layout.GIVE_UP
        elif number % 3 == 2:
            give_up.start()
        usual(self, *arguments)
        give_up.cancel()

    monkeypatch.setattr(chain, "put_back", lambda *arguments: given_up.append(arguments) or put_back(*arguments))
    monkeypatch.setattr(chain.Chain, "run", hurried)
    monkeypatch.setattr(driving, "TURN", 0.0)  # one iteration a turn
    assert same(model.fit(moves, **run), whole)
    assert given_up


def test_a_sweep_that_halts_goes_on(monkeypatch):
    """Gibbs sweeps of all rows lose nothing: they go on in the middle, from a file too."""
    monkeypatch.setattr(driving, "LOOK", 1e-4)
    run = {"draws": 30, "tune": 1, "chains": 1, "rng": 3}
    whole, halted = MANY.fit("gibbs", **run), 0
    fit = MANY.fit("gibbs", **run, time_limit=0.1 * whole.seconds)
    for again in range(200):
        if not fit.interrupted:
            break
        halted += fit.checkpoints[0].within[2]
        fit = pickle.loads(pickle.dumps(fit)).extend(run["draws"] - fit.draws.n_draws, time_limit=(0.05 + 0.01 * again) * whole.seconds)
    assert same(fit, whole) and halted > 0


@pytest.mark.parametrize("moves", [[nm.SplitMerge(10**6), nm.Gibbs()], [nm.TreeGuided(global_moves=10**6), nm.Gibbs()]])
def test_a_long_call_ends_with_the_time(moves):
    FEW.fit(moves[1:] + [type(moves[0])()], draws=1, tune=1, chains=1, rng=1)  # compiled before the clock is looked at
    started = time.perf_counter()
    fit = FEW.fit(moves, draws=3, tune=1, chains=1, rng=1, time_limit=0.5)
    assert time.perf_counter() - started < 3 and fit.interrupted and fit.draws.n_draws == 0
