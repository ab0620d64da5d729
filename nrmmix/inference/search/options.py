"""Searches for one good partition by trees, and their options."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from nrmmix.common.messages import count
from nrmmix.common.registry import plugin, written
from nrmmix.inference.mcmc.moves.base import only_with_unions
from nrmmix.inference.method import Method
from nrmmix.inference.search.grower import TreeGrower, too_large

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nrmmix.model.specification import Specification

MAX_PASSES = 10**6
MAX_ROWS = 20_000  # of BHC, which tries about n^2 unions in a pass

@dataclass(frozen=True)
class Search(Method):
    """Base of the searches."""

    name: ClassVar[str]
    accepts: ClassVar[frozenset[str]] = frozenset(("rng", "progress", "time_limit"))
    why_not: ClassVar[str] = "belongs to chains, and {method} is a search"
    is_random: ClassVar[bool] = True  # whether passes at the same u and hyperparameters differ
    passes: int = 1

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, count(one.name, getattr(self, one.name), 1, MAX_PASSES))

    def refusal(self, model: Specification) -> str:
        if why := only_with_unions(model):
            return f"nm.{self}: {why}"
        if model.frame.limits is not None:
            return f"nm.{self}: censored responses are drawn within their limits, and a search draws nothing"
        if model.packed.rows.missing.any():
            return f"nm.{self}: missing cells of the family are drawn, not integrated out, and a search draws nothing"
        return ""

    def option_error(self, model: Specification) -> str:
        """Say what is too large; empty if nothing."""
        return too_large(model)

    def build(self, grower: TreeGrower, rng: np.random.Generator) -> Iterator[None]:
        """Grow trees; hands back from time to time, so that it can be stopped."""
        raise NotImplementedError

    __str__ = written


@plugin
@dataclass(frozen=True)
class BHC(Search):
    """Bayesian hierarchical clustering (Heller & Ghahramani 2005; for normalized random measures Lee & Choi 2015, section 2.3).

    All pairs of trees are compared and those with the smallest dissimilarity joined, from single rows to one tree; where the
    dissimilarity d exceeds 1, the tree is cut.  A search for one partition: nothing is sampled from the posterior.

    Passes alternate with one update each of u and the hyperparameters given the partition, and the tree with the highest
    lower bound is kept (see `SearchResult`).  A pass takes about n^2 unions of clusters; at most 20,000 rows.

    Parameters
    ----------
    passes : int, default 5
        Trees built.  Where nothing changes from one to the next it is only one.

    Raises
    ------
    ValueError
        If passes is less than 1.

    Examples
    --------
    >>> import nrmmix as nm
    >>> nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method=nm.BHC(passes=2), rng=1).labels.shape
    (82,)
    """

    name: ClassVar[str] = "bhc"
    is_random: ClassVar[bool] = False
    passes: int = 5

    def option_error(self, model: Specification) -> str:
        n = model.n_obs
        if n > MAX_ROWS:
            return (
                f"it compares all pairs of rows, and {n:,} rows have {n * (n - 1) / 2:.1g} pairs, of which a core tries some millions in a "
                f"second; at most {MAX_ROWS:,} rows can be joined so, nm.IBHC() takes more"
            )
        return super().option_error(model)

    def build(self, grower: TreeGrower, rng: np.random.Generator) -> Iterator[None]:
        grower.plant()
        return grower.agglomerate(np.arange(grower.n))


@plugin
@dataclass(frozen=True)
class IBHC(Search):
    """Incremental Bayesian hierarchical clustering for normalized random measures (Lee & Choi 2015, section 2.3).

    Rows enter trees one by one in random order: into the tree with the smallest dissimilarity d, or a new tree where d > 1; there on top
    or, where that is nearer, into one of the subtrees.  Where d then exceeds 1 at a node above the row its tree is split along the path
    from there to the root, and the parts enter anew.  Parts of one row may cause 16 splits; what then still waits enters without
    splitting, so that it comes to an end.  At last the trees are joined by the smallest dissimilarities to one, which is cut where d > 1.
    A search for one partition: nothing is sampled from the posterior.

    Passes have new orders and alternate with one update each of u and the hyperparameters given the partition; the tree with the
    highest lower bound is kept (see `SearchResult`).  Trees of clusters may be as deep as they have rows: a pass takes time in
    proportion to the square of the size of the largest clusters.

    Parameters
    ----------
    passes : int, default 10
        Trees built.

    Raises
    ------
    ValueError
        If passes is less than 1.

    Examples
    --------
    >>> import nrmmix as nm
    >>> fit = nm.fit("eruptions_min + waiting_min ~ 1", nm.datasets.load_faithful(), method=nm.IBHC(passes=3), rng=1)
    >>> fit.n_clusters
    2
    """

    name: ClassVar[str] = "ibhc"
    passes: int = 10

    def build(self, grower: TreeGrower, rng: np.random.Generator) -> Iterator[None]:
        yield from grower.insert_all(rng.permutation(grower.n).astype(np.int64))
        yield from grower.agglomerate(grower.roots_grown)
