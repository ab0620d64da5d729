"""Run of a search: trees in passes, u and the hyperparameters in between."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nrmmix.common.compiling import announced
from nrmmix.common.interrupts import interrupts_delayed
from nrmmix.common.messages import seconds
from nrmmix.common.progress import Progress
from nrmmix.common.seeds import acquire, entropy, release, seed_sequence
from nrmmix.inference.mcmc.cuts import best_cuts
from nrmmix.inference.mcmc.cycle import update_addresses
from nrmmix.inference.mcmc.start import check_rows
from nrmmix.inference.search.grower import TreeGrower
from nrmmix.inference.search.options import Search
from nrmmix.inference.search.tree import Tree
from nrmmix.kernels.core import state as layout
from nrmmix.model.families.exponential import NotExponential
from nrmmix.model.specification import Specification

COMPILING = 12.0  # seconds that kernels of trees take, about


@dataclass(frozen=True)
class Found:
    """A tree, and the values that it was built at."""

    tree: Tree
    labels: np.ndarray
    lower_bound: float
    score: float  # the bound with the log density of the hyperparameters
    values: dict[str, float]  # of hyperparameters and u
    shared: dict[str, np.ndarray]  # parameters of all clusters, by what draws call them


class SearchOutcome(NamedTuple):
    """Result of a search."""

    search: Search
    found: Found
    bounds: list[float]  # of each pass, the log density of the hyperparameters added up to a constant
    seed: int
    seconds: float
    interrupted: bool


def run_search(model: Specification, search: Search, *, rng: Any, progress: bool | None, time_limit: float | None) -> SearchOutcome:
    """Run a search on a model; see `Model.fit`.  A ValueError if the model is too large for it, or an argument is out of range."""
    if why := search.option_error(model):
        raise ValueError(f"nm.{search}: {why}.")
    limit = seconds("time_limit", time_limit)
    seeds = seed_sequence(rng)
    random = acquire(seeds.spawn(1)[0])
    with announced(lambda: COMPILING), interrupts_delayed():
        grower, updates = TreeGrower(model), update_addresses(model)
        check_rows(model, grower.data)
        grower.compile(updates)
    started = time.perf_counter()
    with Progress(progress) as line:
        best, bounds, stopped = _best(grower, search, updates, random, line, math.inf if limit is None else started + limit)
    release(random)
    if best is None:
        if stopped == "time limit":
            raise TimeoutError("time_limit was over before the first tree was built; give more seconds.")
        raise KeyboardInterrupt("stopped before the first tree was built")
    return SearchOutcome(search, best, bounds, entropy(seeds), time.perf_counter() - started, bool(stopped))


def _best(
    grower: TreeGrower, search: Search, updates: np.ndarray, random: np.random.Generator, line: Progress, deadline: float
) -> tuple[Found | None, list[float], str]:
    """The best tree of the passes, their scores, and why they were stopped: "", "interrupt" or "time limit"."""
    best: Found | None = None
    bounds: list[float] = []
    if (cuts := best_cuts(grower.model)) is not None:
        grower.resample(cuts[0], updates, random)
    for number in range(1, search.passes + 1):
        before = _changing(grower)
        try:
            for _ in search.build(grower, random):
                if time.perf_counter() > deadline:
                    return best, bounds, "time limit"
            found = _found(grower)
            bounds.append(found.score)
            if best is None or found.score > best.score:
                best = found
            line.update(f"pass {number} of {search.passes}", number / search.passes)
            if number < search.passes:
                grower.resample(found.labels, updates, random)
        except KeyboardInterrupt:
            return best, bounds, "interrupt"
        if not search.is_random and np.array_equal(before, _changing(grower)):
            break  # the next tree would be the same
        if time.perf_counter() > deadline and number < search.passes:
            return best, bounds, "time limit"
    return best, bounds, ""


def _changing(grower: TreeGrower) -> np.ndarray:
    """Return the quantities that potentials depend on beside the data."""
    return np.array([*grower.state.hyper, *grower.state.v, grower.forest.guide[0], *grower.data.rows.constant[grower.data.shared]])


def _found(grower: TreeGrower) -> Found:
    tree, hyper = grower.tree(), grower.state.hyper
    bound = grower.lower_bound(tree)
    if not math.isfinite(bound):
        raise FloatingPointError("the potentials of the tree are no finite numbers; rescale the data or widen the prior.")
    prior = grower.model.prior
    values = {"mass": float(hyper[layout.Hyper.MASS]), "sigma": float(hyper[layout.Hyper.SIGMA]) if prior.records_sigma else 0.0}
    if grower.model.has_u and not prior.integrates_mass:
        values["u"] = float(grower.state.v[0])
    constant, shared = grower.data.rows.constant, grower.data.shared
    of_all = {name: constant[shared[those]] for name, those in grower.model.packed.shared_names.items()}
    score = bound + grower.log_hyperprior() + _log_prior(grower.model, of_all)
    return Found(tree, tree.labels(grower.most), bound, score, values, of_all)


def _log_prior(model: Specification, shared: dict[str, np.ndarray]) -> float:
    """Log prior of the logs of parameters of all clusters; families without an exponential form, which has it, leave it out."""
    try:
        return model.exponential().with_shared(shared).log_prior if shared else 0.0
    except NotExponential:
        return 0.0
