"""Tree-guided moves that are exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nrmmix.common.messages import between, count
from nrmmix.common.registry import plugin
from nrmmix.inference.mcmc.moves.base import MAX_COLUMNS, MAX_PER_CALL, Move, ScratchSize, only_families_with_unions, over_limit
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import Entry
from nrmmix.kernels.moves import gibbs
from nrmmix.kernels.trees import guide_tree, guided, splits, sweep
from nrmmix.model.guide import size_of
from nrmmix.model.pack import arrays_of
from nrmmix.model.specification import Specification

MIN_REFRESH = 2000  # global moves by one guide tree, unless it is said otherwise


@plugin
@dataclass(frozen=True)
class TreeGuided(Move):
    """Tree-guided MCMC that leaves the posterior invariant: clusters are split along trees, and like ones merged, by Metropolis-Hastings.

    After Lee & Choi (2015), whose sampler does not converge to the posterior (see `PublishedTreeGuided`).  Here all trees are
    restrictions of one guide tree, which is made from the data in a random order and never from the partition; so every proposal
    probability is an ordinary function of partitions.  In each iteration there are `global_moves` proposals, then Gibbs on the leaves
    of a subtree of the guide tree.  For mixtures and density regressions by every prior, of families whose component parameters are
    integrated out; so are the locations of a density regression, whose guide tree knows the covariates by a Gaussian beside the families.

    `method="tree"` is `nm.Cycle([nm.TreeGuided(global_moves=3, depth=5), nm.Gibbs()], share="work")`, which divides the
    work between global moves and sweeps.

    Parameters
    ----------
    global_moves : int, default 20
        Splits and merges proposed in each iteration.
    depth : int, default 2
        The subtree whose leaves are visited is drawn from the whole tree, then from what was drawn, so many times: the larger, the fewer
        observations.
    scan_share : float, default 0.95
        Share of the global moves in which a split is a restricted Gibbs scan of two clusters that begin at two places of the tree; in
        the others whole subtrees are distributed over two or more clusters.
    scans : int, default 1
        Restricted Gibbs scans of such a split, the last of which counts.
    refresh : int, optional
        Global moves after which the guide tree is made anew, in another order; default as many as there are rows, and at least 2000.
    eta : float, default 0.5
        Clusters join the one that is picked with odds proportional to d^-eta, d their dissimilarity (1 in the paper).

    Raises
    ------
    ValueError
        If an option is out of range: counts must be 1 or more and at most 10^6, scan_share in [0, 1], eta in [0.01, 10].

    Examples
    --------
    >>> import nrmmix as nm
    >>> galaxy = nm.datasets.load_galaxy()
    >>> fit = nm.fit("velocity_km_s ~ 1", galaxy, method=[nm.TreeGuided(), nm.Gibbs()], draws=50, tune=50, chains=2, rng=1)
    >>> fit.method
    'tree + gibbs'
    """

    name: ClassVar[str] = "tree"
    entry: ClassVar[Entry] = sweep.tree_guided
    calls: ClassVar[tuple[int, ...]] = (*layout.OF_UNIONS, *layout.OF_SWEEPS)
    kinds: ClassVar[tuple[str, ...]] = ("split", "merge")
    global_moves: int = 20
    depth: int = 2
    scan_share: float = 0.95
    scans: int = 1
    refresh: int | None = None
    eta: float = 0.5

    def __post_init__(self) -> None:
        for name in ("global_moves", "depth", "scans", "refresh"):
            if name != "refresh" or self.refresh is not None:
                object.__setattr__(self, name, count(name, getattr(self, name), 1, MAX_PER_CALL))
        object.__setattr__(self, "scan_share", between("scan_share", self.scan_share, 0.0, 1.0))
        object.__setattr__(self, "eta", between("eta", self.eta, 0.01, 10.0))

    def options(self, model: Specification) -> tuple[float, ...]:
        _, start = arrays_of(model, 1, entries=())
        mass, sigma, tau = (float(start.hyper[place]) for place in (layout.Hyper.MASS, layout.Hyper.SIGMA, layout.Hyper.TAU))
        # the guide's constants without tuning: u is about n
        log_cluster = math.log(max(mass, 1e-3)) + max(sigma, 0.0) * math.log(tau + model.n_obs)
        parts = (sweep.begin, guided.global_move, gibbs.gibbs, guided.by_scan, guided.into_blocks, guided.merge, guided.split_back)
        return (
            float(self.global_moves), float(self.depth), float(self.scans), float(self.refresh or max(MIN_REFRESH, model.n_obs)),
            self.eta, log_cluster, sigma, self.scan_share, *(float(part.address) for part in parts),
        )

    def scratch_size(self, model: Specification) -> ScratchSize:
        n_stat, _ = size_of(model, True)
        P = 0 if model.grid is None else len(model.grid.locations)
        floats, ints = splits.scratch_size(model.n_obs, n_stat, P)
        return ScratchSize(floats, ints, trial=splits.TRIAL, guide=True)

    def parts(self, model: Specification) -> tuple[layout.Memory, ...]:
        """Move of each part: the Gibbs sweep over the leaves of a subtree."""
        return (layout.Memory(
            np.zeros(2), np.zeros(layout.LEARNT), np.zeros(layout.TALLY), np.zeros(0), np.zeros(max(model.n_obs, 1), np.int64)),)

    def divided(self, model: Specification, floats: np.ndarray, ints: np.ndarray) -> splits.Guide:
        P = 0 if model.grid is None else len(model.grid.locations)
        return splits.guide_of(floats, ints, model.n_obs, size_of(model, True)[0], P)

    def can_have_learnt(self, learnt: np.ndarray, model: Specification) -> bool:
        tree = learnt[splits.TREE]
        return bool(
            learnt[splits.GUIDE_SIGMA] < 1 and guided.LOWEST_LOG_RHO <= learnt[splits.LOG_RHO] <= 0
            and (tree == 0 or (tree == math.floor(tree) and 1 <= tree // sweep.AGES <= guide_tree.ORDERS))
        )

    def refusal(self, model: Specification) -> str:
        return only_families_with_unions(model)

    def option_error(self, model: Specification) -> str:
        size = 8 * model.n_obs * size_of(model, True)[0]
        return over_limit("the statistics of its trees", size, MAX_COLUMNS, "; take nm.SplitMerge()")
