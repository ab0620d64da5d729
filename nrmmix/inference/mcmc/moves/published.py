"""Tree-guided MCMC as Lee & Choi (2015) published it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nrmmix.common.messages import count, one_of
from nrmmix.common.registry import plugin
from nrmmix.inference.mcmc.moves.base import MAX_PER_CALL, Move, ScratchSize, only_with_unions
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.core.entry import Entry
from nrmmix.kernels.trees import published, published_trees
from nrmmix.kernels.trees.forest import TRIAL
from nrmmix.model.specification import Specification

REPAIRS = ("subset", "tree", "first_pick")


@plugin
@dataclass(frozen=True)
class PublishedTreeGuided(Move):
    """Tree-guided MCMC as published: a Bayesian hierarchical clustering of every cluster guides splits and merges (Lee & Choi 2015).

    It is here to be compared with, and **not exact**: its draws do not follow the posterior, although the paper says so.  Over the
    partitions of 6 observations the total variation distance between its draws and the posterior is 0.15: 0.14 by the splits and merges
    alone, 0.21 by the local moves alone (benchmarks/published_bias.py).  There are three causes, which `repaired` takes away:

    - "subset": the local moves redraw the clusters of observations below nodes drawn from the trees, so which observations they are
      depends on what the moves change.  Repaired, they redraw all observations.
    - "tree": the trees that guide a proposal depend on the chain's past, and what undoes a proposal starts from other trees.  Repaired,
      the tree of a cluster is a function of the cluster: that of sequential insertion in the order of the rows.
    - "first_pick": a merge can be proposed from each of its clusters; the paper counts one of these ways in the forward probability and
      all of them in the reverse.  Repaired, all are counted in both.

    Without any of them the sampler is that of the paper, with the trees kept from iteration to iteration.  Two things the paper does not
    say.  When u, the mass, sigma or a scale that is sampled has changed, all potentials are computed anew and the trees keep their
    shapes.  Where there are no trees, at the start and where a chain goes on after a stop, those of sequential insertion in the order of
    the rows are taken: a fit that is extended has not the draws of one that ran on.

    It runs alone, in no list of moves: others would not keep its trees.  For mixtures by a `DirichletProcess`, `NGGP` or
    `NormalizedInverseGaussian`, of families whose component parameters are integrated out.

    Parameters
    ----------
    global_moves : int, default 20
        Proposals of a split or merge in each iteration.
    depth : int, default 2
        The local moves redraw, in each cluster, the observations below a node of a node ... of the tree, so many times drawn.
    repaired : tuple of {"subset", "tree", "first_pick"}, default ()
        Which causes of the bias are taken away; with all three of them the posterior is invariant.
    moves : {"both", "global", "local"}
        Which are made: the paper makes both.

    Raises
    ------
    ValueError
        If global_moves or depth is not in 1..10^6, or repaired or moves names something else.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method=nm.PublishedTreeGuided(), draws=50, tune=50, chains=2, rng=1)
    >>> fit.method
    'tree_published'
    """

    name: ClassVar[str] = "tree_published"
    entry: ClassVar[Entry] = published.published
    calls: ClassVar[tuple[int, ...]] = (layout.Block.COMBINE, layout.Block.TRANSFER)
    kinds: ClassVar[tuple[str, ...]] = ("split", "merge")
    runs_alone: ClassVar[bool] = True
    bias: ClassVar[str] = (
        "the published tree-guided sampler does not leave the posterior invariant: on 6 observations its draws are at a total variation "
        "distance of 0.15 from it"
    )
    global_moves: int = 20
    depth: int = 2
    repaired: tuple[str, ...] = ()
    moves: str = "both"

    def __post_init__(self) -> None:
        object.__setattr__(self, "global_moves", count("global_moves", self.global_moves, 1, MAX_PER_CALL))
        object.__setattr__(self, "depth", count("depth", self.depth, 1, MAX_PER_CALL))
        if not isinstance(self.repaired, (tuple, list)) or not set(self.repaired) <= set(REPAIRS):
            raise ValueError(f"repaired must be a tuple of some of {', '.join(map(repr, REPAIRS))}, not {self.repaired!r}.")
        object.__setattr__(self, "repaired", tuple(name for name in REPAIRS if name in self.repaired))
        one_of("moves", self.moves, ("both", "global", "local"))

    @property
    def exact(self) -> bool:  # type: ignore[override]
        return len(self.repaired) == len(REPAIRS)

    def options(self, model: Specification) -> tuple[float, ...]:
        repaired = (float(name in self.repaired) for name in REPAIRS)
        proposals = 0 if self.moves == "local" else self.global_moves
        return (float(proposals), float(self.depth), *repaired, float(self.moves == "global"))

    def scratch_size(self, model: Specification) -> ScratchSize:
        floats, ints = published_trees.scratch_size(model.n_obs, model.packed.n_stat)
        return ScratchSize(floats, ints, TRIAL)

    def divided(self, model: Specification, floats: np.ndarray, ints: np.ndarray) -> published_trees.PublishedScratch:
        return published_trees.scratch_of(floats, ints, model.n_obs, model.packed.n_stat)

    def refusal(self, model: Specification) -> str:
        if why := only_with_unions(model):
            return why
        if "shrinkage" in model.packed.shared_names:
            return "its trees do not follow shrinkage that is drawn; use nm.Regression(..., shrinkage=None)"
        if "covariance" in model.packed.shared_names:
            return 'its trees do not follow a covariance that is drawn; use nm.Gaussian() with scale=, or nm.TreeGuided()'
        if model.frame.limits is not None:
            return "its trees do not follow censored responses, which are drawn; nm.TreeGuided() does"
        if model.packed.rows.missing.size:
            return "its trees do not follow missing cells that are drawn; a diagonal covariance integrates them out"
        if model.prior.integrates_mass:
            return (
                f"it needs a prior that is a product over clusters given u, and {type(model.prior).__name__} is sampled without u; "
                "DirichletProcess, NGGP and NormalizedInverseGaussian are such products"
            )
        return ""
