"""Growth of trees over the rows of a model."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nrmmix.common.seeds import acquire, release
from nrmmix.inference.mcmc.moves.base import over_limit
from nrmmix.inference.search.tree import Tree
from nrmmix.kernels.chain import start, update_rest
from nrmmix.kernels.core import state as layout
from nrmmix.kernels.measure import nrm
from nrmmix.kernels.measure.weights import log_cluster
from nrmmix.kernels.moves.shared import set_partition
from nrmmix.kernels.trees import bhc, ibhc
from nrmmix.kernels.trees.forest import GUIDE, TRIAL, Forest, clear_forest, nodes_below, plant_leaves, write_labels
from nrmmix.model.pack import arrays_of
from nrmmix.model.specification import Specification

MAX_BANK = 2**33  # bytes of the statistics of internal nodes
UNIONS, ROWS = 2**20, 1000  # tried by BHC, taken up by IBHC, before Ctrl-C is heard
STARTS = ("ibhc", "ibhc_noisy")  # of chains


def too_large(model: Specification) -> str:
    n = model.n_obs
    return over_limit(f"the statistics of the tree's {n:,} nodes", 8 * n * model.packed.n_stat, MAX_BANK, where="")


class TreeGrower:
    """Kernel arrays of a model, at its hyperparameters' start, and trees over its rows."""

    def __init__(self, model: Specification, with_trees: bool = True) -> None:
        self.model, self.n = model, model.n_obs
        n, m = self.n, self.n if with_trees else 1
        self.data, self.state = arrays_of(model, 8, TRIAL, entries=(*layout.OF_COLUMNS, layout.Block.COMBINE))
        start(self.data, self.state, np.full(n, -1, np.int64))
        left, right, up, size = (np.zeros(n + m, np.int64) for _ in range(4))
        self.forest = Forest(
            left, right, up, size, np.zeros(n + m), np.zeros(n + m), np.zeros((m, model.packed.n_stat, 1)),
            np.zeros(m + 1, np.int64), self.state.cache.log_rising, np.zeros(GUIDE),
        )
        self.scratch = ibhc.IbhcScratch(
            np.zeros(n, np.int64), np.zeros(n), np.zeros(n), np.zeros(n, np.int64), np.zeros(ibhc.NUM, np.int64)
        )
        self.set_guide(_expected_clusters(self.state))

    @property
    def most(self) -> int:
        """As many clusters as the prior permits."""
        impossible = np.flatnonzero(np.isneginf(self.state.cache.log_next[1 : self.n]))
        return int(impossible[0]) + 1 if len(impossible) else self.n

    def set_guide(self, n_clusters: int) -> None:
        """Set what every cluster brings to the potentials, beside its size and its rows.

        Where the mass is integrated out, which leaves no product over clusters, it is the weight of a new cluster beside so many.
        """
        K = max(min(n_clusters, self.most - 1), 1)
        of_next = float(self.state.cache.log_next[K])
        self.forest.guide[0] = log_cluster(self.state) + (of_next if math.isfinite(of_next) else 0.0)

    def plant(self) -> None:
        """Every row alone; no internal nodes."""
        plant_leaves(self.data, self.state.scratch.trial, self.forest)

    def insert_all(self, order: np.ndarray) -> Iterator[None]:
        """IBHC: observations enter in an order."""
        clear_forest(self.forest)
        self._clear()
        until, most = 0, self.most
        while True:
            until = min(until + ROWS, len(order))
            while ibhc.grow(self.data, self.state, self.forest, self.scratch, order, until, most) == layout.NEED_ROOM:
                self.state = layout.enlarged(self.state)
            yield
            if until == len(order):
                return

    def insert_noisily(self, order: np.ndarray) -> np.ndarray:
        """The noisy start: labels."""
        self._clear()
        while ibhc.heap_up(self.data, self.state, self.scratch, self.forest.guide[0], order, self.most) == layout.NEED_ROOM:
            self.state = layout.enlarged(self.state)
        return self.state.labels

    def _clear(self) -> None:
        self.scratch.num[:] = 0
        self.state.num[layout.Count.CLUSTERS] = 0
        self.state.labels[:] = -1

    @property
    def roots_grown(self) -> np.ndarray:
        return self.scratch.root[: self.state.num[layout.Count.CLUSTERS]]

    def grown_labels(self) -> np.ndarray:
        """Return the number of the tree of each row."""
        out = np.zeros(self.n, np.int64)
        write_labels(self.forest, self.roots_grown, out, np.zeros(self.n, np.int64))
        return out

    def compile(self, updates: np.ndarray) -> None:
        """Have all that passes call compiled or loaded: none of it takes long here."""
        for _ in (*self.insert_all(np.zeros(0, np.int64)), *self.agglomerate(np.zeros(0, np.int64))):
            pass
        self.grown_labels()
        self.plant()
        nodes_below(self.forest, 0, False, np.zeros(1, np.int64))
        set_partition(self.data, self.state, np.zeros(self.n, np.int64), 1)
        update_rest(self.data, self.state, updates[:0], rng := acquire(np.random.SeedSequence(0)))
        release(rng)

    def agglomerate(self, roots: np.ndarray) -> Iterator[None]:
        """BHC of trees: to one."""
        number = len(roots)
        self.roots = bhc.Roots(
            np.array(roots, np.int64), np.zeros(number), np.zeros(number, np.int64), np.zeros(number, np.int64),
            np.zeros(number, np.int64), np.zeros(1, np.int64),
        )
        bhc.gather(self.roots, number)
        while True:
            bhc.agglomerate(self.data, self.state.scratch.trial, self.forest, self.roots, UNIONS)
            if self.roots.num[0] <= 1:
                return
            yield

    def tree(self) -> Tree:
        """The tree that all were joined to."""
        n, forest, root = self.n, self.forest, int(self.roots.node[0])
        inner = np.zeros(n, np.int64)
        nodes_below(forest, root, True, inner)
        nodes = np.concatenate([np.arange(n), inner[: n - 1]])
        number = np.empty(2 * n, np.int64)
        number[nodes] = np.arange(2 * n - 1)
        order = np.zeros(n, np.int64)
        nodes_below(forest, root, False, order)
        first = np.zeros(2 * n - 1, np.int64)
        first[order] = np.arange(n)
        left, right = number[forest.left[nodes[n:]]], number[forest.right[nodes[n:]]]
        for j in range(n - 1):
            first[n + j] = first[left[j]]
        log_phi, log_h = forest.log_phi[nodes], forest.log_h[nodes]
        return Tree(left, right, forest.count[nodes], log_h, log_phi, log_phi[left] + log_phi[right] - log_h[n:], order, first)

    def lower_bound(self, tree: Tree) -> float:
        """log of the sum over the tree's partitions of p(X, partition), with u where the joint has it; equation 10."""
        data, state, n = self.data, self.state, self.n
        psi1 = float(nrm.total_psi1(data, state, state.hyper[layout.Hyper.SIGMA]))
        base = self.model.prior.lower_bound_constant(n, float(state.hyper[layout.Hyper.MASS]), float(state.v[0]), psi1)
        if not self.model.prior.integrates_mass:
            return base + float(tree.log_phi[tree.root])
        # of each further cluster the factor exp(log_next) in place of the guide's
        sums = tree.log_sums(self.most)
        k = np.flatnonzero(np.isfinite(sums))
        log_next = np.concatenate([[0.0, 0.0], np.cumsum(state.cache.log_next[1:n])])
        return base + float(np.logaddexp.reduce(sums[k] + log_next[k] - k * self.forest.guide[0]))

    def log_hyperprior(self) -> float:
        """Log prior of the hyperparameters that are sampled, up to a constant."""
        rows, hyper = self.data.hyperprior, self.state.hyper
        return sum(float(nrm.log_hyperprior(rows[j], hyper[j])) for j in (layout.Hyper.MASS, layout.Hyper.SIGMA))

    def resample(self, labels: np.ndarray, updates: np.ndarray, rng: np.random.Generator) -> None:
        """u and the hyperparameters given a partition, and the guide that follows from them."""
        n_clusters = int(labels.max()) + 1
        while n_clusters > self.state.size.shape[0] - 3:
            self.state = layout.enlarged(self.state)
        set_partition(self.data, self.state, labels, n_clusters)
        update_rest(self.data, self.state, updates, rng)
        self.set_guide(n_clusters)


def _expected_clusters(state: layout.State) -> int:
    """About the number of clusters under the prior, where the weight of a new one depends on how many there are."""
    sigma, clusters = float(state.hyper[layout.Hyper.SIGMA]), 1.0
    weights = np.exp(state.cache.log_next)
    for m in range(1, len(weights) - 2):
        weight = weights[min(int(clusters), m)]
        clusters += weight / (weight + m - sigma * clusters)
    return int(clusters)


def first_labels(model: Specification, init: str, order: np.ndarray) -> np.ndarray:
    """Labels (n,) of a chain that starts by one of STARTS, from all rows in an order; of none it has compiled what is needed."""
    grower = TreeGrower(model, init == "ibhc")
    if init == "ibhc_noisy":
        return grower.insert_noisily(order)
    if not len(order):
        grower.compile(np.zeros(0, np.int64))
        return order
    for _ in grower.insert_all(order):
        pass
    return grower.grown_labels()
