"""Geweke's (2004) joint distribution test: sampler and data taken in turns leave hyperparameters and data at their priors.

A sweep changes partition, auxiliary variables and hyperparameters given the data, then the data are drawn anew given the components of the
clusters.  If every step is exact the chain has the joint prior of all as its stationary law, whose marginals are known.
"""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
from scipy import stats
from support.biased_gibbs import BiasedGibbs
from support.cover import by_turns, each_once, only

import nrmmix as nm
from nrmmix.inference.mcmc.chain import Record, new_chain
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.mcmc.moves.tree_guided import TreeGuided
from nrmmix.inference.methods import OF_LOCATIONS, named
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core.clusters import rebuild
from nrmmix.kernels.core.jit import allocating
from nrmmix.kernels.core.state import OF_ROW, Block, Count
from nrmmix.kernels.predictive import draw_component
from nrmmix.model.pack import provide
from nrmmix.model.prior_predictive import simulate_partitions

N, CHAINS, BURN = 8, 16, 100
ITERATIONS = int(os.environ.get("NRMMIX_GEWEKE_ITERATIONS", "400"))  # of each chain; the tests at length take 15,000
FAMILY = {"m": 0.0, "r": 0.5, "nu": 5.0, "scale": 3.0}
X = np.array([0.0, 0.0, 0.2, 0.4, 0.4, 0.6, 0.9, 1.0])  # with two pairs: six groups of a regression


@allocating
def draw_components(data, state, n_theta, rng):
    theta = np.zeros((n_theta, state.num[Count.CLUSTERS]))
    for k in range(theta.shape[1]):
        draw_component(data, state, theta, k, k, rng)
    return theta


def successive(
    model: nm.Model, cycle: nm.Cycle, iterations: int, edges: np.ndarray | None = None, shift: float = 0.0
) -> list[dict[str, np.ndarray]]:
    """Of each chain draws of the hyperparameters, the number of clusters and one observation; the data of all chains are drawn at once.

    Where values are censored, all that is known of them is between which of the edges, in kernel coordinates, they lie; limits that are
    shifted are wrong ones.
    """
    *rngs, rng_of_data = (np.random.default_rng(seed) for seed in range(CHAINS + 1))
    updates = update_addresses(model, cycle)
    chains = [
        new_chain(model, cycle, rng.integers(0, 2, N).cumsum() // 2, rng, Record.allocate(model, 1)) for rng in rngs
    ]
    for chain in chains:  # rows and limits of its own: the data change
        rows = chain.data.rows._replace(y=chain.data.rows.y.copy())
        chain.data = chain.data._replace(rows=rows, limit=chain.data.limit.copy())
        provide(model, chain.data.block, (Block.SAMPLE,))
    names = ["n_clusters", "log_joint", "mass", "sigma", *model.width_names]
    q = 0 if model.slots is None else len(model.slots.n_codes)
    of_slots = [f"{what} {j}" for what in ("inclusion", "slots in use") for j in range(q)]
    out = np.empty((CHAINS, iterations, len(names) + len(of_slots) + 1))
    theta = np.empty((model.packed.n_theta, CHAINS * N))
    no_inputs = np.zeros((CHAINS * N, 0))
    for t in range(iterations):
        for c, (chain, rng) in enumerate(zip(chains, rngs, strict=True)):
            chain.control[loop.ITERATION] = 0
            chain.run(updates, 0, 1)
            theta[:, c * N : (c + 1) * N] = draw_components(chain.data, chain.state, len(theta), rng)[:, chain.state.labels]
        y = model.blocks.draw_responses(theta, no_inputs, rng_of_data, model.packed)
        rows = model.blocks.to_kernel_arrays(y, no_inputs, model.packed.table)[0].y.reshape(CHAINS, N, -1)
        for c, chain in enumerate(chains):
            data, state = chain.data, chain.state
            data.rows.y[:, : rows.shape[-1]] = rows[c]  # a guide of trees has the covariates behind them
            if edges is not None:
                place = np.searchsorted(edges, data.rows.y[data.censored[:, OF_ROW], 0], side="right")
                data.limit[:] = np.stack([edges[place - 1], edges[place]], axis=1) + shift
            loop.fill_log_prior_predictive(data, state)  # on a column that it empties
            rebuild(data, state)
            slots = [*state.inclusion, *(state.codes > 0).mean(axis=0)] if q else []
            out[c, t] = [*chain.record.scalars[0, : len(names)], *slots, y[c * N + 3, 0]]
    return [dict(zip([*names, *of_slots, "y"], of_chain[BURN:].T, strict=True)) for of_chain in out]


def model_of(prior, kernel) -> nm.Model:
    data = {"y": np.linspace(-1.0, 1.0, N), "x": X}
    return nm.Model("y ~ 1" if kernel is None else "y ~ x", data, prior=prior, kernel=kernel, family=nm.Gaussian(**FAMILY))


def expected(function, prior) -> float:
    return function(prior) if isinstance(prior, float) else prior.distribution.expect(function)


def z_scores(model: nm.Model, draws: list[dict[str, np.ndarray]]) -> dict[str, float]:
    """Of means of bounded functions: draws of chains against what the prior says."""
    found = {}

    def add(name, function, truth, error=0.0):
        means = np.array([function(d[name]).mean() for d in draws])
        found[f"{name}: {function.__name__}"] = (means.mean() - truth) / math.hypot(means.std(ddof=1) / math.sqrt(len(means)), error)

    def share(x):
        return x / (1.0 + x)

    def itself(x):
        return x

    def square(x):
        return x * x

    def inverse(x):
        return 1.0 / x

    if model.slots is not None:
        for j in range(len(model.slots.n_codes)):
            add(f"inclusion {j}", itself, expected(itself, model.slots.prior))
            add(f"inclusion {j}", square, expected(square, model.slots.prior))
            add(f"slots in use {j}", itself, expected(itself, model.slots.prior))
    for name in model.sampled:
        widths = {column: model.widths[j] for column, j in model.width_columns.items()}
        given = {"mass": model.prior.mass, "sigma": model.prior.sigma} | widths
        functions = (itself, square) if name == "sigma" else (share, lambda x: share(x * x))
        for function in functions:
            add(name, function, expected(function, given[name]))
    if model.is_regression:
        drawn = np.array([1.0 / len(locations) for _, locations, _ in simulate_partitions(model, 2500, np.random.SeedSequence(0))])
        add("n_clusters", inverse, drawn.mean(), drawn.std() / math.sqrt(len(drawn)))
    else:
        law = model.prior_n_clusters()
        for function in (inverse, itself):
            add("n_clusters", function, float((law * function(law.index.to_numpy())).sum()))
    if isinstance(model.family, nm.Poisson):
        law = stats.nbinom(SHAPE, RATE / (1.0 + RATE))
        for function in (share, lambda y: share(y * y)):
            add("y", function, law.expect(function))
        return found
    t = stats.t(FAMILY["nu"], scale=math.sqrt(FAMILY["scale"] * (FAMILY["r"] + 1) / (FAMILY["r"] * FAMILY["nu"])))
    add("y", np.tanh, 0.0)
    add("y", lambda y: share(y * y), t.expect(lambda y: share(y * y)))
    return found


def run(model: nm.Model, iterations: int, method="gibbs") -> dict[str, float]:
    _, cycle = named(method)
    return z_scores(model, successive(model, cycle, iterations))


MASS = nm.Gamma(2, 1.5)
PRIORS = {
    "DP": nm.DirichletProcess(MASS),
    "DP-lognormal": nm.DirichletProcess(nm.LogNormal(0.2, 0.7)),
    "NGGP": nm.NGGP(MASS, nm.Beta(2, 3)),
    "NGGP-lognormal-tau": nm.NGGP(nm.LogNormal(0.2, 0.7), nm.Beta(2, 3), tau=2.0),
    "NIG": nm.NormalizedInverseGaussian(MASS),
    "stable": nm.NormalizedStable(nm.Beta(2, 3)),
    "PY": nm.PitmanYor(MASS, nm.Beta(2, 3)),
    "finite": nm.FiniteMixture(5, MASS),
}
KERNELS = {
    "mixture": None, "SE": nm.SquaredExponential(nm.LogNormal(-1.0, 0.5)), "per atom": nm.SquaredExponential(nm.PerAtom((0.15, 0.5))),
    "sparse": nm.SparseProduct(slots=6, places=4, widths=(0.2, 0.5), inclusion=nm.Beta(2, 2)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("prior", "kernel"), only(
    each_once(PRIORS, KERNELS), ("PY", "sparse"),
))
def test_joint_distribution(prior, kernel):
    found = run(model_of(PRIORS[prior], KERNELS[kernel]), ITERATIONS)
    assert all(abs(z) < LIMIT for z in found.values()), found


MOVES = {
    "split-merge": [nm.SplitMerge(scans=2), nm.Gibbs(subset=2)],
    "split-merge, sequential": nm.SplitMerge(proposals=3, proposal="sequential"),
    "slice": nm.Slice(),
    "permutation": [nm.Permutation(), nm.Gibbs(subset=2)],
    "permutation, mass integrated out": nm.Permutation(integrate_mass=True),
    # a new guide tree in every iteration: it must not remember data that the partition was drawn from
    "tree": TreeGuided(global_moves=5, refresh=1),
}


@pytest.mark.slow
@pytest.mark.parametrize(("move", "prior"), by_turns(
    [case for case in each_once(MOVES, ("DP", "NGGP", "NIG", "PY")) if case.values[1] != "PY" or "mass" not in case.values[0]], 3,
))
def test_joint_distribution_of_moves(move, prior):
    found = run(model_of(PRIORS[prior], None), ITERATIONS, MOVES[move])
    assert all(abs(z) < LIMIT for z in found.values()), found


OF_REGRESSION = MOVES | {
    "sngp": nm.SNGP(), "blocked": nm.Blocked(), "relocation": [nm.Relocation(), nm.Gibbs(subset=2)],
    "default cycle": OF_LOCATIONS["split_merge"],
}
OTHER_PRIOR = {"sngp": "DP", "blocked": "finite"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("move", "kernel"),
    only(each_once(
        ["split-merge", "split-merge, sequential", "slice", "sngp", "blocked", "tree", "relocation", "default cycle"],
        ["SE", "per atom", "sparse"],
    ), ("split-merge", "SE")),
)
def test_joint_distribution_of_moves_of_a_regression(move, kernel):
    found = run(model_of(PRIORS[OTHER_PRIOR.get(move, "NGGP")], KERNELS[kernel]), ITERATIONS, OF_REGRESSION[move])
    assert all(abs(z) < LIMIT for z in found.values()), found


# Of all values but the first nothing is known but between which of the edges they lie: below, between and beyond.
SHAPE, RATE = 2.0, 0.6
CENSORED = {
    "Gaussian": (nm.Gaussian(**FAMILY), np.array([-np.inf, -1.0, 0.5, np.inf])),
    "Poisson": (nm.Poisson(shape=SHAPE, rate=RATE), np.array([0.0, 2.0, 5.0, np.inf])),
}


def run_censored(family: str, prior: str, method="gibbs", shift: float = 0.0) -> dict[str, float]:
    components, edges = CENSORED[family]
    y = np.arange(N) - (3.3 if family == "Gaussian" else 0.0)
    place = np.searchsorted(edges, y, side="right")
    data = {"lower": edges[place - 1], "upper": edges[place] - (family == "Poisson")}
    data["lower"][0] = data["upper"][0] = y[0]
    model = nm.Model("interval(lower, upper) ~ 1", data, prior=PRIORS[prior], family=components)
    assert len(model.packed.censored) == N - 1
    own = edges
    if family == "Gaussian":
        inner = np.array([[-1.0], [0.5]])
        own = np.array([-np.inf, *model.blocks.to_kernel_arrays(inner, np.zeros((2, 0)), model.packed.table)[0].y[:, 0], np.inf])
    return z_scores(model, successive(model, named(method)[1], ITERATIONS, own, shift))


@pytest.mark.slow
@pytest.mark.parametrize(("family", "prior", "move"), by_turns([
    pytest.param("Gaussian", "DP", "gibbs", id="Gaussian-DP-gibbs"),
    pytest.param("Poisson", "NGGP", "gibbs", id="Poisson-NGGP-gibbs"),
    pytest.param("Gaussian", "NGGP", "split-merge", id="Gaussian-NGGP-split-merge"),
    pytest.param("Poisson", "DP", "slice", id="Poisson-DP-slice"),
], 4))
def test_joint_distribution_of_censored_values(family, prior, move):
    found = run_censored(family, prior, MOVES.get(move, move))
    assert all(abs(z) < LIMIT for z in found.values()), found


def test_values_drawn_beside_their_limits_are_found():
    found = run_censored("Gaussian", "DP", shift=1.0)
    assert max(abs(z) for z in found.values()) > 1.5 * LIMIT


LIMIT = stats.t(CHAINS - 1).isf(1e-4)  # 4.88: two-sided 2e-4 of each z-score


@pytest.mark.nightly
def test_a_biased_sampler_is_found():
    found = run(model_of(PRIORS["DP"], None), max(2500, ITERATIONS), BiasedGibbs())
    assert max(abs(z) for z in found.values()) > 1.5 * LIMIT
