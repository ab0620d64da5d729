"""Experiments of Lee & Choi (2015, figures 3 to 5): its samplers, and the tree-guided moves that are exact, on its three data sets.

    [NRMMIX_DATA_DIR=...] python -m benchmarks.tree_figures [--toy 2] [--large 12] [--words 20] [--seeds 3] [--json FILE.json]

Every chain starts as the paper's do, from trees on which points are put at random (words: from incremental clustering), and is followed for
so many CPU seconds of one thread, the start included.  Of each: the joint log likelihood against time; the best of it; then, from where it
has got to, effective draws of the number of clusters, the mean log ratio of proposals, and seconds an iteration.  log p(X, partition) is
under DP(1) for the toy data by a Dirichlet process, and under DP(1) too where an NGGP is sampled, so that all have one scale; for words it
is log p(X, partition, u) of the chain.  Without the files of the paper's data simulated twins are taken.

"published" is the sampler as the paper describes it (G = 20, D = 2), whose draws do not follow the posterior; "exact" is method "tree".
SM is a split or merge by Jain & Neal's proposal, then a Gibbs sweep.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np

import nrmmix as nm
from benchmarks import record, trees
from benchmarks.gibbs import data_sets

POINTS = 30
BLOCKS = {"3": 200, "4": 60, "5": 10}  # iterations of half of what is measured at least after the climb, by figure
SPLIT_MERGE = [nm.SplitMerge(), nm.Gibbs()]
PUBLISHED = nm.PublishedTreeGuided(global_moves=20, depth=2)


def methods(subset: int | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"Gibbs": "gibbs", "SM": SPLIT_MERGE}
    if subset is not None:
        part = nm.Gibbs(subset=subset)
        found |= {"Gibbs_sub": part, "SM_sub": [nm.SplitMerge(), part]}
    return found | {"published": PUBLISHED, "exact": "tree"}


def followed(
    model: nm.Model, of_dp: nm.Model | None, method: Any, start: str, seed: int, seconds: float, truth: float | None, block: int
) -> dict[str, Any]:
    """The climb of one chain, and what it does where it has got to."""
    runner = trees.begun(model, method, start, seed, block)
    see = (lambda r: r.log_joint) if of_dp is None else (lambda r: of_dp.log_joint(np.unique(r.chain.state.labels, return_inverse=True)[1]))
    course = trees.follow(runner, seconds, see=see)
    wanted = np.geomspace(max(course.at[0], seconds / 1000), seconds, POINTS)
    shown = np.unique(np.searchsorted(course.at, wanted).clip(max=len(course.at) - 1))
    labels = np.unique(runner.chain.state.labels, return_inverse=True)[1]
    taken, K = trees.mixed(runner, seconds / 3, trees.n_clusters_of)
    fit = model.fit(method, draws=max(10, int(0.2 * seconds / course.each)), tune=3, chains=1, cores=1, init=labels, rng=seed)
    proposals = fit.proposals()
    proposals = proposals[np.isfinite(proposals["log_ratio"]) & proposals["kind"].isin(["split", "merge"])]
    ratio = float(np.average(proposals["log_ratio"], weights=proposals["proposed"])) if len(proposals) else None
    return {
        "seconds": course.at[shown], "log_joint": course.seen[shown], "best": course.best(np.inf), "start": course.at[0],
        "reached": np.inf if truth is None else course.reached(truth - 0.01), "each": course.each, "clusters": int(labels.max() + 1),
        "iterations": len(K), "ess": trees.ess_of(K), "ess_a_second": trees.ess_of(K) / taken, "log_ratio": ratio,
    }


def table(figure: str, prior: str, model: nm.Model, of_dp: nm.Model | None, chosen: dict[str, Any], start: str, seconds: float, seeds: int,
          truth: float | None) -> Iterator[dict[str, Any]]:
    for method, moves in chosen.items():
        rows = [followed(model, of_dp, moves, start, seed, seconds, truth, BLOCKS[figure]) for seed in range(seeds)]
        best, reached, rate, each = (median(row[name] for row in rows) for name in ("best", "reached", "ess_a_second", "each"))
        print(f"{figure} {prior:<5}{method:<12}best {best:13.2f}  truth after {reached:7.3g} s  ESS a second {rate:8.3g}  "
              f"{1e3 * each:9.3g} ms  log r {rows[0]['log_ratio']}  K {[row['clusters'] for row in rows]}", flush=True)
        for seed, row in enumerate(rows):
            yield {"figure": figure, "prior": prior, "method": method, "seed": seed, "truth": truth, **row}


def dials(model: nm.Model, seeds: int, iterations: int = 100) -> list[dict[str, Any]]:
    """The published sampler by iterations, for numbers of global moves and depths of local ones: mean log joints over seeds."""
    rows = []
    chosen = [("G", G, nm.PublishedTreeGuided(global_moves=G, depth=2)) for G in (1, 5, 10, 15, 20)]
    chosen += [("D", D, nm.PublishedTreeGuided(global_moves=20, depth=D)) for D in (1, 2, 3, 4)]
    for dial, value, move in chosen:
        seen = []
        for seed in range(seeds):
            runner = trees.begun(model, move, "ibhc_noisy", seed)
            one = [runner.log_joint]
            for _ in range(iterations):
                runner.go(1)
                one.append(runner.log_joint)
            seen.append(one)
        rows.append({"dial": dial, "value": value, "log_joint": np.mean(seen, axis=0)})
    return rows


def run(toy: float, large: float, words: float, seeds: int, path: str | None) -> None:
    (name, (X, labels)), (large_name, (Y, of_large)) = list(data_sets().items())[:2]
    results: dict[str, list[dict[str, Any]]] = {"runs": []}
    settings = {"toy": toy, "large": large, "words": words, "seeds": seeds, "data": [name, large_name, ""]}

    def keep() -> None:
        if path is not None:
            record.write(path, "tree_figures", settings, results)

    of_dp, truth = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=nm.lee_choi_base(X)), trees.at_true_clusters(labels)
    of_nggp = nm.Model(data=X, prior=trees.sampled_nggp(), family=nm.lee_choi_base(X))
    for prior, model in (("DP", of_dp), ("NGGP", of_nggp)):
        results["runs"] += table("3", prior, model, of_dp, methods(), "ibhc_noisy", toy, seeds, of_dp.log_joint(truth))
    results["dials"] = dials(of_dp, seeds)
    keep()
    if large:
        family = nm.lee_choi_base(Y)
        of_dp = nm.Model(data=Y, prior=nm.DirichletProcess(1.0), family=family)
        model = nm.Model(data=Y, prior=trees.sampled_nggp(), family=family)
        level = of_dp.log_joint(trees.at_true_clusters(of_large))
        results["runs"] += table("4", "NGGP", model, of_dp, methods(2000), "ibhc_noisy", large, seeds, level)
        keep()
    if words:
        has_files = bool(os.environ.get("NRMMIX_DATA_DIR"))
        settings["data"][2], counts = ("NIPS", trees.nips()) if has_files else ("simulated documents", trees.twin())
        model = nm.Model(data=counts, prior=trees.sampled_nggp(), family=nm.Multinomial(0.1))
        results["runs"] += table("5", "NGGP", model, None, methods(300), "ibhc", words, 1, None)
        keep()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, seconds in (("toy", 2.0), ("large", 12.0), ("words", 20.0)):
        parser.add_argument(f"--{option}", type=float, default=seconds, help=f"CPU seconds of each chain (default {seconds:g}; 0: none)")
    parser.add_argument("--seeds", type=int, default=3)
    record.option(parser)
    chosen = parser.parse_args()
    run(chosen.toy, chosen.large, chosen.words, chosen.seeds, chosen.json)
