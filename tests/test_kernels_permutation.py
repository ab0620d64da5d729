"""The permutation sampler's kernels against a readable reference, and its behaviour as a move."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from exact.enumeration import gaussian_log_marginal, z_score
from exact.hyperparameters import HYPER, base, hyper_posterior, observations
from scipy.sparse import csr_array
from scipy.special import digamma, gammaln, logsumexp
from support.cover import by_turns

import nrmmix as nm
from nrmmix.inference.mcmc.cycle import Cycle, program, scratch
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.state import DONE, NEED_ROOM, Count
from nrmmix.kernels.moves.permutation import orders, permutation, segments
from nrmmix.kernels.moves.shared import sort_together
from nrmmix.model.frame.labels import canonical
from nrmmix.model.pack import arrays_of

X = np.random.default_rng(3).normal(size=(10, 2)) + np.repeat([[0.0, 0.0], [2.0, 1.0]], 5, axis=0)
LABELS = np.array([0, 0, 1, 0, 2, 2, 2, 1, 3, 2])
BASE = {"m": np.array([0.5, 0.2]), "r": 0.3, "nu": 4.0, "scale": np.array([[1.0, 0.3], [0.3, 1.5]])}
PRIORS = {
    "DP": nm.DirichletProcess(1.3), "NGGP": nm.NGGP(0.8, 0.3), "PY": nm.PitmanYor(0.9, 0.3), "finite": nm.FiniteMixture(5, 2.0),
}
APART = {"rtol": 0, "atol": 1e-10}


class Bench:
    """One chain at given labels, with the memory of one move."""

    def __init__(self, model: nm.Model, move: nm.Permutation, labels: Any, columns: int | None = None):
        cycle = Cycle([move, nm.Gibbs()])
        self.data, self.state = arrays_of(model, columns or model.n_obs + 3, *scratch(cycle, model))
        loop.start(self.data, self.state, canonical(np.asarray(labels))[0])
        whole = program(cycle, model)
        self.memory = whole.memory[0]
        python = getattr(permutation.plan_of, "py_func", permutation.plan_of)
        self.plan = python(self.memory, model.n_obs)
        self.rng = np.random.default_rng(4)

    def prepared(self) -> Bench:
        assert permutation.prepare(self.data, self.state, self.memory, self.plan, self.rng) == DONE
        return self

    def move(self) -> None:
        while permutation.move(self.data, self.state, self.memory, True, self.rng) == NEED_ROOM:
            self.state = layout.enlarged(self.state)


def gaussian(prior: nm.Prior, X: np.ndarray = X) -> nm.Model:
    return nm.Model(data=X, family=nm.Gaussian(**BASE), prior=prior)


def log_pairs(X: np.ndarray) -> np.ndarray:
    """log p(x_t | x_s) in row s, but for p(x_s), which cancels."""
    n = range(len(X))
    return np.array([[gaussian_log_marginal(X[[s, t]], **BASE) if s != t else 0.0 for t in n] for s in n])


def scan_log_probability(log_next_to: np.ndarray, points: tuple[int, ...]) -> float:
    """Of a Markov scan through all these points in this order."""
    value = -math.log(len(points))
    for t in range(len(points) - 1):
        value += log_next_to[points[t], points[t + 1]] - logsumexp([log_next_to[points[t], s] for s in points[t + 1 :]])
    return value


def naive_log_B(bench: Bench, prior: nm.Prior, markov: bool) -> Callable[[int, int], float]:
    """log B of the segment from position i to j, relative to its observations each alone."""
    points = [tuple(bench.plan.order[i : j + 1]) for i in range(len(X)) for j in range(i, len(X))]
    u = bench.state.v[0]
    pairs = log_pairs(X)
    alone = [gaussian_log_marginal(X[[i]], **BASE) for i in range(len(X))]

    def one(c: tuple[int, ...]) -> float:
        m, mass = len(c), prior.mass
        sigma = -mass / 5 if isinstance(prior, nm.FiniteMixture) else prior.sigma
        value = gaussian_log_marginal(X[list(c)], **BASE) - sum(alone[i] for i in c) + gammaln(m - sigma) - gammaln(1 - sigma)
        if isinstance(prior, (nm.DirichletProcess, nm.NGGP)):  # kappa(m, u) but for (u + 1)^-m, which all partitions share
            value += math.log(mass) + sigma * math.log1p(u)
        return value + (scan_log_probability(pairs, c) if markov else -gammaln(m + 1))

    values = {c: one(c) for c in points}
    return lambda i, j: values[tuple(bench.plan.order[i : j + 1])]


@pytest.mark.parametrize("order", ["uniform", "markov"])
@pytest.mark.parametrize("name", PRIORS)
def test_sums_over_segments(name, order):
    prior = PRIORS[name]
    bench = Bench(gaussian(prior), nm.Permutation(order=order), LABELS).prepared()
    K = 4
    theta = {"PY": 0.9 + 0.3 * K, "finite": 2.0 * (5 - K) / 5}.get(name, 1.0)
    slope = bench.plan.value[segments.SLOPE]
    assert slope == pytest.approx(math.log(theta) - digamma(K + 1), abs=1e-10)
    log_B = naive_log_B(bench, prior, order == "markov")
    log_g = [0.0]
    for r in range(len(X)):
        log_g.append(logsumexp([log_g[i] + log_B(i, r) + slope for i in range(r + 1)]))
    assert segments.sum_forward(bench.data, bench.state, bench.plan, -1.0, True, bench.rng) == DONE
    np.testing.assert_allclose(bench.plan.log_g, log_g, **APART)


@pytest.mark.parametrize("order", ["uniform", "markov"])
@pytest.mark.parametrize("name", PRIORS)
def test_table_by_the_number_of_segments(name, order):
    prior, n = PRIORS[name], len(X)
    bench = Bench(gaussian(prior), nm.Permutation("table", order=order), LABELS).prepared()
    log_B = naive_log_B(bench, prior, order == "markov")
    log_g = np.full((n + 1, n + 1), -np.inf)
    log_g[0, 0] = 0.0
    for r in range(n):
        for K in range(1, r + 2):
            log_g[r + 1, K] = logsumexp([log_g[i, K - 1] + log_B(i, r) for i in range(r + 1)])
    assert permutation.draw_by_number(bench.data, bench.state, bench.memory, bench.plan, bench.rng) == DONE
    most = 5 if name == "finite" else n
    for r in range(n + 1):
        found = bench.plan.table[r * (r + 1) // 2 :][: min(r, most) + 1]
        np.testing.assert_allclose(found, log_g[r, : min(r, most) + 1], **APART)


@pytest.mark.parametrize("beam", by_turns([0.5, 0.1, 1e-3, 1e-32]))
def test_beam_sets(beam):
    """The smallest sets of live segments that hold all but this share, and whether the old partition is among them."""
    prior, n = PRIORS["NGGP"], len(X)
    outside = 0
    for seed in range(10):
        bench = Bench(gaussian(prior), nm.Permutation(beam=beam), LABELS)
        bench.rng = np.random.default_rng(seed)
        bench.prepared()
        log_B, slope = naive_log_B(bench, prior, False), bench.plan.value[segments.SLOPE]
        log_g, live, old_is_in = [0.0], [], True
        for r in range(n):
            weight = {i: log_g[i] + log_B(i, r) + slope for i in [*live, r]}
            total = logsumexp(list(weight.values()))
            share = {i: math.exp(w - total) for i, w in weight.items()}
            ordered = sorted(share, key=share.get, reverse=True)
            size = next(size for size in range(1, r + 2) if sum(share[i] for i in ordered[size:]) <= beam)
            live = ordered[:size]
            log_g.append(logsumexp([weight[i] for i in live]))
            begin = bench.plan.old_begin[r]
            old_is_in = old_is_in and (begin < 0 or begin in live)
        status = segments.sum_forward(bench.data, bench.state, bench.plan, beam, True, bench.rng)
        assert status == (DONE if old_is_in else segments.OUTSIDE)
        outside += not old_is_in
        bench.state.num[Count.CURSOR] = 0
        bench.plan.count[segments.LIVE] = 0
        segments.sum_forward(bench.data, bench.state, bench.plan, beam, False, bench.rng)
        np.testing.assert_allclose(bench.plan.log_g, log_g, **APART)
    assert outside > 0 if beam > 0.05 else outside < 10


def compositions(n: int) -> list[tuple[int, ...]]:
    """Where the segments of n positions may begin."""
    return [(0, *rest) for size in range(n) for rest in itertools.combinations(range(1, n), size)]


def test_segments_are_drawn_by_their_weights():
    """Forward draws followed back have the law of the weights: frequencies of all partitions of 10 positions into 1, 2 or 3 segments."""
    prior, n, draws = PRIORS["NGGP"], len(X), 20_000
    bench = Bench(gaussian(prior), nm.Permutation(), LABELS).prepared()
    log_B, slope = naive_log_B(bench, prior, False), bench.plan.value[segments.SLOPE]
    law = {}
    for begins in compositions(n):
        ends = [*(b - 1 for b in begins[1:]), n - 1]
        law[begins] = sum(log_B(b, e) + slope for b, e in zip(begins, ends, strict=True))
    total = logsumexp(list(law.values()))
    counts = dict.fromkeys(law, 0)
    for _ in range(draws):
        bench.state.num[Count.CURSOR] = 0
        bench.plan.count[segments.LIVE] = 0
        segments.sum_forward(bench.data, bench.state, bench.plan, -1.0, True, bench.rng)
        begins, last = [], n - 1
        while last >= 0:
            begins.insert(0, int(bench.plan.chosen[last]))
            last = begins[0] - 1
        counts[tuple(begins)] += 1
    p = np.exp(np.array(list(law.values())) - total)
    found = np.array(list(counts.values())) / draws
    common = p > 5 / draws
    z = (found - p)[common] / np.sqrt(p * (1 - p) / draws)[common]
    assert common.sum() > 20
    assert np.abs(z).max() < 4.5
    assert abs(found[~common].sum() - p[~common].sum()) < 4.5 * math.sqrt(p[~common].sum() / draws)


def test_uniform_orders():
    """Every order that keeps clusters together is as likely."""
    bench = Bench(gaussian(PRIORS["DP"], X[:4]), nm.Permutation(), [0, 0, 0, 1])
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(12_000):
        orders.uniform_order(bench.state, bench.plan.order, bench.plan.labels, bench.plan.begin, bench.plan.chosen, bench.rng)
        key = tuple(bench.plan.order)
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 2 * 6
    assert max(abs(c - 1000) for c in counts.values()) < 4 * math.sqrt(1000)


def test_markov_orders():
    """Frequencies of all 24 orders of a cluster of four, against products of pairs' predictives."""
    points = X[[0, 2, 6, 8]]
    bench = Bench(gaussian(PRIORS["DP"], points), nm.Permutation(order="markov"), [0, 0, 0, 0])
    pairs = log_pairs(points)
    plan, draws = bench.plan, 12_000
    counts = dict.fromkeys(itertools.permutations(range(4)), 0)
    for _ in range(draws):
        orders.markov_order(bench.data, bench.state, plan.order, plan.labels, plan.begin, plan.chosen, plan.weight, bench.rng)
        counts[tuple(plan.order)] += 1
    p = np.exp([scan_log_probability(pairs, c) for c in counts])
    assert p.sum() == pytest.approx(1.0)
    assert p.max() > 2.5 * p.min()
    z = (np.array(list(counts.values())) / draws - p) / np.sqrt(p * (1 - p) / draws)
    assert np.abs(z).max() < 4


def test_projected_orders():
    """Clusters by mean projection, members by their own; NaN counts as 0."""
    holes = X.copy()
    holes[[1, 5], [0, 1]] = np.nan
    model = nm.Model(data=holes, family=nm.Gaussian("diagonal"), prior=PRIORS["DP"], missing="marginalize")
    check_projection(model, np.nan_to_num(model.packed.rows.y), LABELS)
    words = np.random.default_rng(1).poisson(1.0, size=(10, 6)) + np.eye(10, 6, dtype=int)
    check_projection(nm.Model(data=csr_array(words), family=nm.Multinomial()), words / words.sum(axis=1, keepdims=True), LABELS)


def check_projection(model: nm.Model, values: np.ndarray, labels: np.ndarray) -> None:
    bench = Bench(model, nm.Permutation(order="projection"), labels)
    bench.state.num[Count.TUNING] = 1
    bench.prepared()
    along = values @ bench.plan.direction[: values.shape[1]]
    mean = np.array([along[labels == k].mean() for k in range(labels.max() + 1)])
    np.testing.assert_array_equal(bench.plan.order, np.lexsort((along, mean[labels])))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 257])
def test_sort(n):
    rng = np.random.default_rng(n)
    key, index = rng.normal(size=n), np.arange(n)
    wanted = np.argsort(key)
    sort_together(key, index, -1.0)
    np.testing.assert_array_equal(index, wanted)


def test_digamma():
    x = np.concatenate([np.linspace(1.0, 12.0, 111), [1e3, 1e6]])
    np.testing.assert_allclose([permutation.digamma(z) for z in x], digamma(x), rtol=0, atol=1e-10)


def blob(n: int, rng: int = 1) -> np.ndarray:
    generator = np.random.default_rng(rng)
    return 4.0 * generator.integers(3, size=(n, 1)) + generator.normal(size=(n, 1))


# log g without a beam less log g with it, 300 observations: measured, and rounded up
LOST = {
    "uniform": {1e-2: 0.5, 1e-4: 0.01, 1e-6: 1e-6, 1e-12: 1e-10},
    "projection": {1e-2: 4.0, 1e-4: 1.5, 1e-6: 0.2, 1e-12: 1e-5},
}


@pytest.mark.parametrize("order", LOST)
def test_beam_loses_little(order):
    X = blob(300)
    model, log_g = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=nm.Gaussian(scale=0.04 * X.var(ddof=1))), {}
    for beam in (None, *LOST[order]):
        bench = Bench(model, nm.Permutation(beam=beam, order=order), X[:, 0] // 3)
        bench.state.num[Count.TUNING] = 1
        bench.prepared()
        segments.sum_forward(bench.data, bench.state, bench.plan, bench.memory.option[permutation.BEAM], False, bench.rng)
        assert (bench.state.num[layout.Count.SCORED] < 100 * 300) == (beam is not None)
        log_g[beam] = bench.plan.log_g[-1]
    for beam, limit in LOST[order].items():
        assert -1e-9 < log_g[None] - log_g[beam] < limit


# ---- as a move

KINDS = {
    "table": nm.Permutation("table"), "table, markov": nm.Permutation("table", order="markov"),
    "metropolis": nm.Permutation(), "markov": nm.Permutation(order="markov"),
    "beam": nm.Permutation(beam=1e-12), "beam, markov": nm.Permutation(beam=1e-12, order="markov"),
    "beam, projection": nm.Permutation(beam=1e-12, order="projection"), "beam of nothing": nm.Permutation(beam=0.0),
}


@pytest.mark.parametrize("kind", KINDS)
def test_more_room_on_the_way_changes_nothing(kind):
    """Moves that are called again after NEED_ROOM, many live segments or many clusters, draw what those with room enough draw."""
    X = np.arange(60.0)[:, None] + np.random.default_rng(2).normal(size=(60, 1))
    model = nm.Model(data=X, prior=nm.DirichletProcess(200.0), family=nm.Gaussian(m=np.zeros(1), r=1e-3, nu=5.0, scale=np.eye(1)))
    small, large = (Bench(model, KINDS[kind], np.arange(60) // 4, columns) for columns in (1, 100))
    before = small.state.size.shape[0]
    for tuning in (1, 1, 0, 0):
        for bench in (small, large):
            bench.state.num[Count.TUNING] = tuning
            bench.move()
        np.testing.assert_array_equal(small.state.labels, large.state.labels)
    assert small.state.size.shape[0] > before
    K = small.state.num[layout.Count.CLUSTERS]
    np.testing.assert_allclose(small.state.stat[:, :K], large.state.stat[:, :K])
    np.testing.assert_array_equal(small.state.size[:K], np.bincount(small.state.labels))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2])
def test_one_and_two_observations(n, kind):
    model = gaussian(nm.NGGP(0.8, 0.3), X[:n])
    fit = model.fit([KINDS[kind], nm.Gibbs()], draws=50, tune=20, chains=2, rng=1)
    assert fit.draws["labels"].shape == (2, 50, n)
    assert set(np.unique(fit.draws["n_clusters"])) == set(range(1, n + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_draws(kind):
    """On any number of cores, and in two runs as in one."""
    model = nm.Model(data=blob(40), prior=nm.NGGP(nm.Gamma(2, 1), 0.3))
    move = nm.Permutation(**{f: getattr(KINDS[kind], f) for f in ("dynamic_program", "beam", "order")}, integrate_mass=True)
    runs = [{"draws": 20, "cores": 1}, {"draws": 20, "cores": 2}, {"draws": 8, "cores": 2}]
    fits = [model.fit([move, nm.Gibbs()], tune=20, chains=2, rng=7, **run) for run in runs]
    fits[2] = fits[2].extend(12)
    for fit in fits[1:]:
        for name in ("labels", "mass", "u"):
            np.testing.assert_array_equal(fit.draws[name], fits[0].draws[name])


def test_slope_is_fixed_after_tuning():
    model = nm.Model(data=blob(40), prior=nm.DirichletProcess(1.0))
    bench = Bench(model, nm.Permutation(), np.arange(40) % 4)
    seen = []
    bench.state.num[Count.TUNING] = 1
    proposed = 4.0
    for _ in range(30):
        seen.append(bench.state.num[layout.Count.CLUSTERS])
        bench.move()
        assert bench.plan.value[segments.SLOPE] == pytest.approx(-digamma(proposed + 1), abs=1e-9)
        proposed = bench.memory.learnt[permutation.LAST]
    weights = np.arange(1, 31)
    assert bench.memory.learnt[permutation.USUAL] == pytest.approx(np.average(seen, weights=weights))
    bench.state.num[Count.TUNING] = 0
    fixed = -digamma(int(np.average(seen, weights=weights) + 0.5) + 1)
    after = set()
    for _ in range(30):
        bench.move()
        after.add(int(bench.state.num[layout.Count.CLUSTERS]))
        assert bench.plan.value[segments.SLOPE] == pytest.approx(fixed, abs=1e-9)
    assert len(after) > 1
    untuned = Bench(model, nm.Permutation(), np.arange(40) % 4)
    for _ in range(5):
        untuned.move()
        assert untuned.plan.value[segments.SLOPE] == pytest.approx(-digamma(5), abs=1e-9)


def test_counts_of_proposals():
    """Tables are always accepted; a beam that the old partition is outside of skips."""
    X = blob(30)
    model = nm.Model(data=X, prior=nm.DirichletProcess(1.0))
    tally = {}
    for kind in ("table", "metropolis", "beam"):
        bench = Bench(model, nm.Permutation(beam=0.2) if kind == "beam" else KINDS[kind], X[:, 0] // 3)
        for _ in range(200):
            before = bench.state.labels.copy()
            skipped, moved = bench.memory.tally[layout.SKIPPED], bench.state.num[layout.Count.MOVED]
            bench.move()
            stayed = canonical(before)[0].tolist() == canonical(bench.state.labels)[0].tolist()
            assert stayed or bench.memory.tally[layout.SKIPPED] == skipped
            assert stayed == (bench.state.num[layout.Count.MOVED] == moved)
        tally[kind] = bench.memory.tally[: layout.TALLY]
        assert tally[kind][layout.PROPOSED] == 200
    assert tally["table"][layout.ACCEPTED] == 200
    assert tally["table"][layout.LOG_RATIO_2] == 0
    assert 100 < tally["metropolis"][layout.ACCEPTED] < 200
    assert tally["metropolis"][layout.FINITE_RATIOS] == 200
    assert 0 < tally["beam"][layout.SKIPPED] == 200 - tally["beam"][layout.FINITE_RATIOS]


def test_search_finds_what_gibbs_does_not():
    """Twelve clusters in 20 dimensions from one cluster: a few projections find them, Gibbs does not in as many sweeps."""
    rng = np.random.default_rng(5)
    z = rng.integers(12, size=400)
    X = rng.normal(0.0, math.sqrt(2.0), (12, 20))[z] + rng.normal(size=(400, 20))
    model = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=nm.Gaussian(known_covariance=np.eye(20), m=np.zeros(20), r=0.01))
    reached = {}
    for moves in ("gibbs", [nm.Permutation(beam=1e-32, order="projection"), nm.Gibbs()]):
        fit = model.fit(moves, draws=1, tune=20, chains=1, init="one", rng=1)
        reached[str(moves)] = float(fit.draws["log_joint"][0, 0])
    truth = model.log_joint(z)
    assert max(reached.values()) > truth - 1.0
    assert reached["gibbs"] < truth - 100.0


@pytest.mark.nightly
def test_mass_that_the_move_draws():
    """The move alone, u of a Dirichlet process and the mass drawn within it, has the posterior of mass and K."""
    X, family = observations(6, 1), base(1)
    measure, mass_prior, sigma_prior = HYPER["DP"]
    model = nm.Model(data=X, prior=measure, family=nm.Gaussian(**family))
    bench = Bench(model, nm.Permutation("table", integrate_mass=True), np.zeros(6, int))
    draws = np.zeros((2, 24_000))
    for t in range(-100, draws.shape[1]):
        bench.move()
        if t >= 0:
            draws[:, t] = bench.state.hyper[layout.Hyper.MASS], bench.state.num[layout.Count.CLUSTERS]
    mass, _, K = hyper_posterior(X, family, mass_prior, sigma_prior)
    assert draws[0].reshape(24, -1).mean(axis=1).std() / math.sqrt(24) < 0.02 * mass, "too few draws to tell"
    assert abs(z_score(draws[0].reshape(24, -1), mass)) < 4
    assert abs(z_score(draws[1].reshape(24, -1), K)) < 4


def test_bad_options():
    cases = [
        ({"dynamic_program": "tables"}, "did you mean 'table'"),
        ({"order": "random"}, "order must be one of 'uniform', 'markov', 'projection'"),
        ({"beam": 1.0}, r"beam must be None or a number in \[0, 1\)"), ({"beam": -0.1}, "beam must be"), ({"beam": True}, "beam must be"),
        ({"beam": math.nan}, "beam must be"), ({"dynamic_program": "table", "beam": 0.1}, "a beam needs dynamic_program"),
        ({"integrate_mass": 1}, "integrate_mass must be True or False"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            nm.Permutation(**options)


def test_models_that_it_does_not_suit():
    for prior in (nm.DirichletProcess(1.0), nm.PitmanYor(nm.Gamma(2, 1), 0.3), nm.DirichletProcess(nm.LogNormal(0.0, 1.0))):
        with pytest.raises(ValueError, match="integrate_mass needs a mass with a gamma prior"):
            gaussian(prior).fit(nm.Permutation(integrate_mass=True), draws=1)
    large = nm.Model(data=np.random.default_rng(1).normal(size=(12_000, 1)))
    with pytest.raises(ValueError, match=r"the table of 12000 observations would take 1.1 GiB in each chain"):
        large.fit(nm.Permutation("table"), draws=1)
    with pytest.raises(ValueError, match="component parameters that are integrated out"):
        nm.Model(data=X[:, :1], family=nm.SemiconjugateGaussian()).fit(nm.Permutation(), draws=1)
    with pytest.raises(ValueError, match="moves partitions of mixtures"):
        nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle()).fit(nm.Permutation(), draws=1)
    with pytest.raises(ValueError, match=r"Permutation\(beam=1e-06\) alone does not reach every partition"):
        gaussian(nm.DirichletProcess(1.0)).fit(nm.Permutation(beam=1e-6), draws=1)
