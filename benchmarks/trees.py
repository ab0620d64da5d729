"""Tree-guided moves beside Gibbs, split-merge and the published sampler: `python -m benchmarks.trees toy|large|modes|many|words`.

Every part prints tables in Markdown.  Times are CPU seconds of one thread, kernels compiled beforehand; the making of a start is on the
clock, looking at the chain is not.  Searching for a level, a chain is in tuning all the time; mixing is measured after tuning.  One cluster
is a hard start for Gibbs and an easy one for split-merge; the two others are the trees of incremental Bayesian hierarchical clustering and
the noisy start of Lee & Choi (2015).  Of the data, those of the paper and the words of NIPS are read from $NRMMIX_DATA_DIR; without it
simulated twins are taken.  What is simulated here is drawn by fixed seeds, so the tables say nothing about data unlike these.

toy: 1,300 x 2, DP(1): seconds to the mode, and how the number of clusters mixes there.
large: 10,000 x 6, NGGP with sampled parameters: seconds until log p(X, partition) under DP(1), after every iteration, is that of the truth.
modes: two modes of the posterior that both have weight: switches between them per second.  Two sets where the clusters at stake stand
    apart, which suits trees, and two where they overlap, which does not.
many: 10,000 x 6, a Pitman-Yor partition of some 2,000 clusters.
words: documents, the best log joint against time.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

import nrmmix as nm
from benchmarks.gibbs import data_sets
from benchmarks.two_modes import TWO_MODES, TwoModes
from nrmmix.inference.mcmc.chain import Record, new_chain
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.mcmc.start import initial_labels
from nrmmix.inference.methods import named
from nrmmix.kernels import chain as loop
from nrmmix.kernels.core.state import Count
from nrmmix.kernels.measure.joint import log_joint
from nrmmix.posterior.diagnostics import ess

ALWAYS = 10**9  # iterations of tuning: more than are run
# Of the authors' C++ on the toy data, noisy start.
AUTHORS = {"gibbs": "19", "split_merge": "26.7", "tree_published": "5.2 | 0.3 to 0.8 | 1.2 to 2.9"}


class Runner:
    """One chain, run in pieces, and the seconds that it has taken."""

    def __init__(self, model: nm.Model, method: Any, start: Any, seed: int, draws: int = 1) -> None:
        labels = initial_labels(start, model.n_obs, 1)[0]
        self.record = Record.allocate(model, draws)
        self.chain = new_chain(model, named(method)[1], labels, np.random.default_rng(seed), self.record)
        self.updates = update_addresses(model)
        self.seconds = 0.0

    def go(self, iterations: int, tune: int = ALWAYS) -> None:
        """So many iterations more; none makes the start."""
        chain = self.chain
        chain.control[loop.LIMIT] = chain.iteration + iterations
        began = time.thread_time()
        chain.run(self.updates, tune, 1)
        self.seconds += time.thread_time() - began
        if chain.control[loop.STATUS]:
            raise RuntimeError(f"the chain broke off with status {chain.control[loop.STATUS]}.")

    def fill(self) -> Record:
        """As many iterations after tuning as there is room for, all recorded."""
        self.go(len(self.record.labels), tune=self.chain.iteration)
        return self.record

    @property
    def log_joint(self) -> float:
        return float(log_joint(self.chain.data, self.chain.state))

    @property
    def n_clusters(self) -> int:
        return int(self.chain.state.num[Count.CLUSTERS])


@dataclass
class Course:
    """What was seen after the start and after each iteration."""

    at: np.ndarray  # CPU seconds
    seen: np.ndarray
    n_clusters: int  # at the end

    def reached(self, level: float) -> float:
        """CPU seconds until a level."""
        there = np.flatnonzero(self.seen >= level)
        return float(self.at[there[0]]) if len(there) else np.inf

    def best(self, seconds: float) -> float:
        """The best that was seen up to a time; minus infinity where the start took longer."""
        return float(self.seen[self.at <= seconds].max(initial=-np.inf))

    @property
    def each(self) -> float:
        """CPU seconds of an iteration."""
        return float((self.at[-1] - self.at[0]) / max(len(self.at) - 1, 1))


def begun(model: nm.Model, method: Any, start: Any, seed: int, draws: int = 1) -> Runner:
    """A chain that has made its start, its kernels loaded before."""
    Runner(model, method, "one", seed).go(1)
    runner = Runner(model, method, start, seed, draws)
    runner.go(0)
    return runner


def follow(
    runner: Runner, seconds: float, until: float = np.inf, see: Callable[[Runner], float] = lambda runner: runner.log_joint
) -> Course:
    """A chain in tuning until a level or a time is reached."""
    at, seen = [runner.seconds], [see(runner)]
    while at[-1] < seconds and seen[-1] < until:
        runner.go(1)
        at.append(runner.seconds)
        seen.append(see(runner))
    return Course(np.array(at), np.array(seen), runner.n_clusters)


def mixed(runner: Runner, seconds: float, see: Callable[[Record], np.ndarray]) -> tuple[float, np.ndarray]:
    """Seconds of two or more blocks of draws after tuning, and what was seen of each draw."""
    runner.seconds = 0.0
    seen: list[np.ndarray] = []
    while len(seen) < 2 or runner.seconds < seconds:
        seen.append(see(runner.fill()).copy())
    return runner.seconds, np.concatenate(seen)


def n_clusters_of(record: Record) -> np.ndarray:
    return record.scalars[:, loop.R_CLUSTERS]


def ess_of(x: np.ndarray) -> float:
    """Effective sample size; 0 of what never moved."""
    size = float(ess(x))
    return size if np.isfinite(size) else 0.0


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print(flush=True)


def short(x: float) -> str:
    return f"{x:.3g}" if abs(x) < 1000 else f"{x:.0f}"


def spelt(times: Sequence[float]) -> str:
    """The median in bold, then all."""
    return f"**{short(median(times))}** ({', '.join(map(short, times))})"


def at_true_clusters(labels: np.ndarray) -> np.ndarray:
    return np.unique(labels, return_inverse=True)[1]


# ---- toy


def toy(seconds: float = 10.0, seeds: int = 5, least: int = 2000) -> None:
    name, (X, given) = next(iter(data_sets().items()))
    labels = at_true_clusters(given)
    model = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=nm.lee_choi_base(X))
    truth = model.log_joint(labels)
    near = truth - 22.43  # -1600 on the published data
    methods = ("tree", "gibbs", "split_merge", "tree_published")
    print(f"## {name}, DP(1), base measure of Lee & Choi: CPU seconds to a log joint of {near:.2f} and {truth - 0.01:.2f} (the truth)\n")
    print(f"Medians of {seeds} seeds (all of them), at most {seconds:g} s.\n")
    rows = []
    for start in ("one", "ibhc_noisy", "ibhc"):
        for method in methods:
            courses = [follow(begun(model, method, start, seed), seconds, truth - 0.01) for seed in range(seeds)]
            rows.append((
                start, method, short(median(1e3 * course.each for course in courses)), spelt([course.reached(near) for course in courses]),
                spelt([course.reached(truth - 0.01) for course in courses]),
            ))
    rows += [("ibhc_noisy", f"{method}, the authors' C++", *(AUTHORS[method] + " | | ").split(" | ")[:3]) for method in AUTHORS]
    table(("start", "method", "ms an iteration", f"> {near:.0f}", "truth"), rows)
    print(f"## The same at the truth, {least} iterations or more after 500 of tuning: effective draws of K per CPU second\n")
    print("Target: tree has half of gibbs.\n")
    rates: dict[str, list[float]] = {method: [] for method in methods}
    each: dict[str, list[float]] = {method: [] for method in methods}
    for method in methods:
        for seed in range(seeds):
            runner = begun(model, method, labels, seed, (least + 1) // 2)
            runner.go(500)
            taken, K = mixed(runner, seconds / 4, n_clusters_of)
            rates[method].append(ess_of(K) / taken)
            each[method].append(1e3 * taken / len(K))
    table(
        ("method", "ms an iteration", "ESS of K per s", "to gibbs"),
        [(m, short(median(each[m])), spelt(rates[m]), f"{median(rates[m]) / median(rates['gibbs']):.2f}") for m in methods],
    )


# ---- large


def sampled_nggp() -> nm.NGGP:
    return nm.NGGP(mass=nm.Gamma(1.0, 1.0), sigma=nm.Beta(1.0, 2.0))


def large(seconds: float = 20.0, seeds: int = 5) -> None:
    name, (X, given) = list(data_sets().items())[1]
    labels, family, n = at_true_clusters(given), nm.lee_choi_base(X), len(X)
    model = nm.Model(data=X, prior=sampled_nggp(), family=family)
    of_dp = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=family)
    truth = of_dp.log_joint(labels) - 0.005
    part = nm.Gibbs(subset=n // 5)  # `Gibbs_sub` and `SM_sub` of the paper
    methods = {
        "tree": "tree", "gibbs": "gibbs", "split_merge": "split_merge", f"gibbs of {n // 5}": part,
        f"split_merge, gibbs of {n // 5}": [nm.SplitMerge(), part],
    }
    print(f"## {name}, {model.prior}, base measure of Lee & Choi: CPU seconds to the truth\n")
    print(f"That is log p(X, partition) = {truth:.2f} under DP(1); target of tree: 5 s.")
    print(f"Medians of {seeds} seeds (all of them), at most {seconds:g} s.\n")

    def rows() -> Iterator[tuple[str, ...]]:
        for start in ("ibhc_noisy", "ibhc", "one"):
            for method, moves in methods.items():
                courses = [
                    follow(begun(model, moves, start, seed), seconds, truth, lambda r: of_dp.log_joint(r.chain.state.labels))
                    for seed in range(seeds)
                ]
                yield (
                    start, method, short(median(course.at[0] for course in courses)),
                short(median(1e3 * course.each for course in courses)),
                    spelt([course.reached(truth) for course in courses]), spelt([course.best(np.inf) - truth for course in courses]),
                    spelt([course.n_clusters for course in courses]),
                )

    table(("start", "method", "start, s", "ms an iteration", "truth", "best beside the truth", f"K ({labels.max() + 1})"), rows())


# ---- modes


def by_trees(scan_share: float) -> nm.Cycle:
    """Method "tree", its splits of one kind only."""
    return nm.Cycle([nm.TreeGuided(global_moves=3, depth=5, scan_share=scan_share), nm.Gibbs()], share="work")


def modes(seconds: float = 20.0, seeds: int = 6, sets: Sequence[Callable[[], TwoModes]] = TWO_MODES) -> None:
    print(f"## Two modes, DP(1): switches per CPU second, {seeds} chains of {seconds:g} s, every other one from the other mode\n")
    print("Target: tree 5 times as many as split-merge.")
    print("Weight: of the mode that the first chain starts from, with the Monte Carlo error by the spread of the chains.\n")
    methods = {
        "[SplitMerge(), Gibbs()]": [nm.SplitMerge(), nm.Gibbs()], "split_merge": "split_merge", "gibbs": "gibbs", "tree": "tree",
        "tree, blocks": by_trees(0.0), "tree, scans": by_trees(1.0),
    }
    for make in sets:
        print(f"{make.__doc__}\n")
        two = make()
        rows = []
        split_merge = np.nan
        for method, moves in methods.items():
            rates, weights, each = list[float](), list[float](), list[float]()
            for seed in range(seeds):
                runner = begun(two.model, moves, two.starts[seed % 2], seed, 500)
                runner.go(500)
                taken, value = mixed(runner, seconds, two.see)
                mode = two.modes_of(value)
                rates.append(float(np.count_nonzero(np.diff(mode))) / taken)
                weights.append(mode.mean())
                each.append(1e3 * taken / len(mode))
            split_merge = float(np.mean(rates)) if np.isnan(split_merge) else split_merge
            error = np.std(weights, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.nan
            rows.append((
                method, short(median(each)), f"**{short(float(np.mean(rates)))}** ({', '.join(map(short, rates))})",
                f"{np.mean(rates) / split_merge:.2f}" if split_merge else "", f"{np.mean(weights):.3f} ± {error:.3f}",
            ))
        table(("method", "ms an iteration", "switches per s", "to split-merge", "weight"), rows)


# ---- many clusters


def crp(n: int, theta: float, sigma: float, rng: np.random.Generator) -> np.ndarray:
    """Labels of a Pitman-Yor partition, numbered by first appearance."""
    labels, size = np.zeros(n, np.int64), [1]
    for i in range(1, n):
        if rng.random() < (theta + sigma * len(size)) / (theta + i):
            labels[i] = len(size)
            size.append(1)
            continue
        while True:  # a member of a cluster, thinned by the discount
            k = labels[rng.integers(i)]
            if rng.random() < (size[k] - sigma) / size[k]:
                break
        labels[i] = k
        size[k] += 1
    return labels


def pitman_yor_mixture(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, nm.Gaussian]:
    """A Pitman-Yor(3, 0.8) partition, and 6-dimensional clusters from the base measure, means 10 times as far apart as points.

    Large clusters can be told apart, but not all of the many of one or two points, which fall within others.
    """
    from scipy.stats import invwishart

    rng = np.random.default_rng(seed)
    labels = crp(n, 3.0, 0.8, rng)
    d, r, nu = 6, 0.01, 12.0
    scale = (nu - d - 1.0) * np.eye(d)
    covariance = invwishart.rvs(nu, scale, size=labels.max() + 1, random_state=rng)
    root = np.linalg.cholesky(covariance)
    means = np.einsum("kij,kj->ki", root, rng.normal(size=(len(root), d))) / np.sqrt(r)
    X = means[labels] + np.einsum("kij,kj->ki", root[labels], rng.normal(size=(n, d)))
    return X, labels, nm.Gaussian(m=np.zeros(d), r=r, nu=nu, scale=scale)


def many(seconds: float = 60.0, seeds: int = 3, n: int = 10_000) -> None:
    X, labels, family = pitman_yor_mixture(n, 1)
    model = nm.Model(data=X, prior=sampled_nggp(), family=family)
    of_truth = nm.Model(data=X, prior=nm.PitmanYor(3.0, 0.8), family=family)
    truth = of_truth.log_joint(labels)
    methods = {"tree": "tree", "gibbs": "gibbs", "split_merge": "split_merge", f"gibbs of {n // 10}": nm.Gibbs(subset=n // 10)}
    K = labels.max() + 1
    print(f"## {n:,} x 6, PitmanYor(3, 0.8), {K:,} clusters; sampled with {model.prior}, base measure of the truth\n")
    print(
        f"log p(X, partition) under PitmanYor(3, 0.8) less that of the truth, {truth:.2f}: at the start and the best after so many CPU\n"
        f"seconds; and CPU seconds to that of the truth.  Medians of {seeds} seeds.\n"
    )
    points = (seconds / 6, seconds / 2, seconds)

    def rows() -> Iterator[tuple[str, ...]]:
        for start in ("one", "ibhc"):
            for method, moves in methods.items():
                courses = [
                    follow(begun(model, moves, start, seed), seconds, see=lambda r: of_truth.log_joint(r.chain.state.labels))
                    for seed in range(seeds)
                ]
                yield (
                    start, method, short(median(course.at[0] for course in courses)),
                short(median(1e3 * course.each for course in courses)),
                    short(median(course.seen[0] - truth for course in courses)),
                    *(f"{median(course.best(point) - truth for course in courses):.0f}" for point in points),
                    spelt([course.reached(truth) for course in courses]), spelt([course.n_clusters for course in courses]),
                )

    table(("from", "method", "start, s", "ms an iteration", "start", *(f"{point:g} s" for point in points), "truth", f"K ({K:,})"), rows())


# ---- words


def nips() -> Any:
    from scipy.sparse import csr_array

    with np.load(nm.datasets.external("nips_uci_gt20.npz")) as z:
        return csr_array((z["counts"].astype(float), z["indices"].astype(np.int64), z["indptr"]), shape=tuple(z["shape"]))


def twin(documents: int = 1500, words: int = 7605, tokens: float = 1247.0) -> Any:
    """Documents of topics from a Pitman-Yor(3, 0.4) partition, which are Dirichlet around one Zipf law of the words.

    Words come in bursts, as they do in texts: each document has a law of its own, Dirichlet around that of its topic, and no number of
    clusters fits.
    """
    from scipy.sparse import csr_array

    rng = np.random.default_rng(1)
    labels = crp(documents, 3.0, 0.4, rng)
    common = 1.0 / (10.0 + np.arange(words))
    topics = rng.dirichlet(common / common.sum() * 4000.0, labels.max() + 1)
    lengths = 1 + rng.poisson(tokens * rng.gamma(9.0, 1.0 / 9.0, documents))
    laws = (rng.dirichlet(np.maximum(500.0 * topics[k], 1e-9)) for k in labels)
    return csr_array(np.array([rng.multinomial(m, law) for m, law in zip(lengths, laws, strict=True)], dtype=float))


def words(seconds: float = 600.0, seeds: int = 1, corpora: dict[str, Any] | None = None) -> None:
    if corpora is None:
        corpora = {"simulated documents": twin()}
        if os.environ.get("NRMMIX_DATA_DIR"):
            corpora["NIPS"] = nips()
    points = [point for point in (10, 30, 60, 120, 300, 600, 1200, 3600) if point < seconds] + [seconds]
    for name, counts in corpora.items():
        model = nm.Model(data=counts, prior=sampled_nggp(), family=nm.Multinomial(0.1))
        part = nm.Gibbs(subset=max(model.n_obs // 10, 1))
        methods = {
            "tree": "tree", "gibbs": "gibbs", "split_merge": "split_merge", f"gibbs of {part.subset}": part,
            f"split_merge, gibbs of {part.subset}": [nm.SplitMerge(), part],
        }
        print(f"## {name}, {counts.shape[0]:,} x {counts.shape[1]:,}, {model.prior}, Multinomial(0.1), init='ibhc'\n")
        print(f"The best log p(X, partition, u) less that of all, after so many CPU seconds; medians of {seeds} seeds.\n")
        courses = {
            method: [follow(begun(model, moves, "ibhc", seed), seconds) for seed in range(seeds)] for method, moves in methods.items()
        }
        best = max(course.best(np.inf) for of_method in courses.values() for course in of_method)
        table(
            ("method", "start, s", "ms an iteration", *(f"{point:g} s" for point in points), "K"),
            [(
                method, short(median(course.at[0] for course in found)), short(median(1e3 * course.each for course in found)),
                *(f"{median(course.best(point) - best for course in found):.1f}" for point in points),
                spelt([course.n_clusters for course in found]),
            ) for method, found in courses.items()],
        )
        print(f"The best of all: {best:.1f}.\n")


PARTS = {"toy": toy, "large": large, "modes": modes, "many": many, "words": words}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--seconds", type=float, help="CPU seconds of each chain")
    parser.add_argument("--seeds", type=int)
    options = parser.parse_args()
    chosen = {name: value for name, value in vars(options).items() if name != "parts" and value is not None}
    for part in options.parts:
        PARTS[part](**chosen)
