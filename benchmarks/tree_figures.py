"""Experiments of Lee & Choi (2015, figures 3 to 5): its samplers, and the tree-guided moves that are exact, on its three data sets.

    [NRMMIX_DATA_DIR=...] python -m benchmarks.tree_figures [--toy 10] [--large 120] [--words 60] [--seeds 10 3 3] [--json FILE.json]

Every chain starts as the paper's do, from trees on which points are put at random (words: from incremental clustering), and is followed for
so many CPU seconds of one thread, the start included.  Of each: the joint log likelihood against time; the best of it; then, from where it
has got to, effective draws of the number of clusters, the mean log ratio of proposals, and seconds an iteration.  log p(X, partition) is
under DP(1) for the toy data by a Dirichlet process, and under DP(1) too where an NGGP is sampled, so that all have one scale; for words it
is log p(X, partition, u) of the chain.  Without the files of the paper's data simulated twins are taken.

"published" is the sampler as the paper describes it (G = 20, D = 2), whose draws do not follow the posterior; "exact" is method "tree".
SM is a split or merge by Jain & Neal's proposal, then a Gibbs sweep.

Seeds are those of the three data sets, in this order.  Where the file of `--json` has runs already, those that it lacks are added: more
seeds, or what a run that was ended has left.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
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


def table(
    rows: list[dict[str, Any]], keep: Callable[[], None], figure: str, prior: str, model: nm.Model, of_dp: nm.Model | None,
    chosen: dict[str, Any], start: str, seconds: float, seeds: int, truth: float | None,
) -> None:
    """Add the runs that `rows` lacks, seed by seed, so that a run that is ended has some of every method."""
    for seed in range(seeds):
        for method, moves in chosen.items():
            told = {"figure": figure, "prior": prior, "method": method, "seed": seed}
            if any(told.items() <= row.items() for row in rows):
                continue
            row = followed(model, of_dp, moves, start, seed, seconds, truth, BLOCKS[figure])
            rows.append({**told, "truth": truth, **row})
            keep()
            print(f"{figure} {prior:<5}{method:<12}seed {seed}: best {row['best']:13.2f}  truth after {row['reached']:7.3g} s  ESS a s "
                  f"{row['ess_a_second']:8.3g}  {1e3 * row['each']:9.3g} ms  log r {row['log_ratio']}  K {row['clusters']}", flush=True)


def dials(model: nm.Model, seeds: int, iterations: int = 100) -> list[dict[str, Any]]:
    """The published sampler by iterations, for numbers of global moves and depths of local ones: log joints of each seed."""
    rows = []
    chosen = [("G", G, nm.PublishedTreeGuided(global_moves=G, depth=2)) for G in (1, 5, 10, 15, 20)]
    chosen += [("D", D, nm.PublishedTreeGuided(global_moves=20, depth=D)) for D in (1, 2, 3, 4)]
    for dial, value, move in chosen:
        for seed in range(seeds):
            runner = trees.begun(model, move, "ibhc_noisy", seed)
            one = [runner.log_joint]
            for _ in range(iterations):
                runner.go(1)
                one.append(runner.log_joint)
            rows.append({"dial": dial, "value": value, "seed": seed, "log_joint": one})
    return rows


def run(toy: float, large: float, words: float, seeds: tuple[int, int, int], path: str | None) -> None:
    (name, (X, labels)), (large_name, (Y, of_large)) = list(data_sets().items())[:2]
    texts = "NIPS" if os.environ.get("NRMMIX_DATA_DIR") else "simulated documents"
    settings = {"toy": toy, "large": large, "words": words, "data": [name, large_name, texts]}
    results = record.kept(path, settings)
    runs = results.setdefault("runs", [])

    def keep() -> None:
        if path is not None:
            record.write(path, "tree_figures", settings | {"seeds": list(seeds)}, results)

    of_dp, truth = nm.Model(data=X, prior=nm.DirichletProcess(1.0), family=nm.lee_choi_base(X)), trees.at_true_clusters(labels)
    of_nggp = nm.Model(data=X, prior=trees.sampled_nggp(), family=nm.lee_choi_base(X))
    for prior, model in (("DP", of_dp), ("NGGP", of_nggp)):
        table(runs, keep, "3", prior, model, of_dp, methods(), "ibhc_noisy", toy, seeds[0], of_dp.log_joint(truth))
    if "dials" not in results:
        results["dials"] = dials(of_dp, seeds[0])
        keep()
    if large:
        family = nm.lee_choi_base(Y)
        of_dp = nm.Model(data=Y, prior=nm.DirichletProcess(1.0), family=family)
        model = nm.Model(data=Y, prior=trees.sampled_nggp(), family=family)
        level = of_dp.log_joint(trees.at_true_clusters(of_large))
        table(runs, keep, "4", "NGGP", model, of_dp, methods(2000), "ibhc_noisy", large, seeds[1], level)
    if words:
        model = nm.Model(data=trees.nips() if texts == "NIPS" else trees.twin(), prior=trees.sampled_nggp(), family=nm.Multinomial(0.1))
        table(runs, keep, "5", "NGGP", model, None, methods(300), "ibhc", words, seeds[2], None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option, seconds in (("toy", 10.0), ("large", 120.0), ("words", 60.0)):
        parser.add_argument(f"--{option}", type=float, default=seconds, help=f"CPU seconds of each chain (default {seconds:g}; 0: none)")
    parser.add_argument("--seeds", type=int, nargs=3, default=(10, 3, 3), help="runs of each method by data set (default 10 3 3)")
    record.option(parser)
    chosen = parser.parse_args()
    run(chosen.toy, chosen.large, chosen.words, tuple(chosen.seeds), chosen.json)
