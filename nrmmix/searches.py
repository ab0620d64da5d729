"""Searches for one good partition by trees: options, the trees they find, and how they grow them."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nrmmix.kernels import bhc, ibhc, nrm, trees
from nrmmix.kernels import state as layout
from nrmmix.kernels.chain import start
from nrmmix.kernels.moving import log_cluster, take_over
from nrmmix.moves import count, only_with_unions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nrmmix.model import Model

STARTS = ("ibhc", "ibhc_noisy")  # of chains
MOST_PASSES = 10**6
MOST_ROWS = 20_000  # of BHC, which tries about n^2 unions in a pass
MOST_BANK = 2**33  # bytes of the statistics of internal nodes
UNIONS, ROWS = 2**20, 1000  # tried by BHC, taken up by IBHC, before Ctrl-C is heard
NEGLIGIBLE = 60.0  # nats below the largest sum of partitions of a tree into so many clusters


# ---- what is found


@dataclass(frozen=True, eq=False)
class Tree:
    """A binary tree over all rows used.  Nodes 0..n-1 are the rows, node n + j is the j-th internal one, children before parents.

    Attributes
    ----------
    left, right : ndarray of int64, (n - 1,)
        Children of the internal nodes, as in the first two columns of SciPy's linkage matrices.
    count : ndarray of int64, (2n - 1,)
        Rows below each node.
    log_h : ndarray, (2n - 1,)
        Log potential of the rows below as one cluster: kappa(|c|, u) p(X_c), up to a constant to the power |c|.
    log_phi : ndarray, (2n - 1,)
        Log potential of the tree below, phi(t) = phi(h) + phi(left) phi(right).
    log_d : ndarray, (n - 1,)
        Log dissimilarity of the children of the internal nodes, d = phi(left) phi(right) / phi(h); the rows below are one cluster with
        probability 1 / (1 + d).
    order : ndarray of int64, (n,)
        The rows from left to right.

    Examples
    --------
    >>> import nrmmix as nm
    >>> tree = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="ibhc", rng=1).tree
    >>> tree.n_leaves, tree.left.shape, int(tree.count[tree.root])
    (82, (81,), 82)
    """

    left: np.ndarray
    right: np.ndarray
    count: np.ndarray
    log_h: np.ndarray
    log_phi: np.ndarray
    log_d: np.ndarray
    order: np.ndarray
    _first: np.ndarray = field(repr=False)  # (2n - 1,) place in `order` of the leftmost row below

    @property
    def n_leaves(self) -> int:
        return len(self.order)

    @property
    def root(self) -> int:
        return len(self.count) - 1

    def rows(self, node: int) -> np.ndarray:
        """The rows below a node, from left to right."""
        return self.order[self._first[node] : self._first[node] + self.count[node]]

    def cut(self, most: int | None = None) -> np.ndarray:
        """The nodes that stand for clusters: from the root down, those whose children have d > 1 give way to their children.

        Parameters
        ----------
        most : int, optional
            As many clusters at most; the largest d gives way first.

        Returns
        -------
        ndarray of int64, (K,)
            From left to right.
        """
        whole, n = [self.root], self.n_leaves
        waiting: list[tuple[float, int]] = []
        found = []
        while whole or waiting:
            for node in whole:
                if node >= n and self.log_d[node - n] > 0:
                    heapq.heappush(waiting, (-self.log_d[node - n], node))
                else:
                    found.append(node)
            whole = []
            if waiting and (most is None or len(found) + len(waiting) < most):
                _, node = heapq.heappop(waiting)
                whole = [int(self.left[node - n]), int(self.right[node - n])]
            elif waiting:
                found += [node for _, node in waiting]
                break
        return np.array(sorted(found, key=lambda node: self._first[node]), np.int64)

    def labels(self, most: int | None = None) -> np.ndarray:
        """The partition of `cut`, (n,), clusters numbered by first appearance."""
        from nrmmix.partition import canonical

        out = np.empty(self.n_leaves, np.int64)
        for k, node in enumerate(self.cut(most)):
            out[self.rows(node)] = k
        return canonical(out)[0]

    def log_sums(self, most: int | None = None) -> np.ndarray:
        """log of the sum, over the partitions of the tree into k clusters, of products of phi(h), for k = 0, ..., n.

        Sums that are negligible, less than exp(-60) times the largest one of a node, are left out.

        Parameters
        ----------
        most : int, optional
            Only up to so many clusters.

        Returns
        -------
        ndarray, (n + 1,)
            Minus infinity where there is none.
        """
        n = self.n_leaves
        most = n if most is None else most
        # of each node whose parent is still to come: fewest clusters, and the logs from there on
        sums: dict[int, tuple[int, np.ndarray]] = {i: (1, self.log_h[i : i + 1]) for i in range(n)}
        for j in range(n - 1):
            (first, a), (other, b) = sorted((sums.pop(int(side[j])) for side in (self.left, self.right)), key=lambda own: len(own[1]))
            products = np.full(len(a) + len(b) - 1, -math.inf)
            for shift, term in enumerate(a):
                products[shift : shift + len(b)] = np.logaddexp(products[shift : shift + len(b)], term + b)
            terms = np.concatenate([[self.log_h[n + j]], np.full(first + other - 2, -math.inf), products])[:most]
            kept = np.flatnonzero(terms > terms.max() - NEGLIGIBLE)
            least = 0 if most < n else int(kept[0])  # where there may not be many clusters the fewest can be what counts
            sums[n + j] = (1 + least, terms[least : kept[-1] + 1])
        first, terms = sums[self.root]
        out = np.full(n + 1, -math.inf)
        out[first : first + len(terms)] = terms
        return out


# ---- methods


@dataclass(frozen=True)
class Search:
    """What the searches have in common."""

    name: ClassVar[str]
    is_random: ClassVar[bool] = True  # whether passes at the same u and hyperparameters differ
    passes: int = 1

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, count(one.name, getattr(self, one.name), 1, MOST_PASSES))

    def refusal(self, model: Model) -> str:
        """Why it cannot run on a model; empty where it can."""
        if why := refusal(model):
            return why
        if model.packed.rows.missing.any():
            return "missing cells of the family are drawn, not integrated out, and a search draws nothing"
        return ""

    def complaint(self, model: Model) -> str:
        """What is too large; empty if nothing."""
        return too_large(model)

    def __str__(self) -> str:
        given = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if getattr(self, one.name) != one.default]
        return f"{type(self).__name__}({', '.join(given)})"


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

    def complaint(self, model: Model) -> str:
        n = model.n_obs
        if n > MOST_ROWS:
            return (
                f"it compares all pairs of rows, and {n:,} rows have {n * (n - 1) / 2:.1g} pairs, of which a core tries some millions in a "
                f"second; at most {MOST_ROWS:,} rows can be joined so, nm.IBHC() takes more"
            )
        return super().complaint(model)

    def build(self, wood: Wood, rng: np.random.Generator) -> Iterator[None]:
        """Grow trees; hands back from time to time, so that it can be stopped."""
        wood.plant()
        return wood.joined(np.arange(wood.n))


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

    def build(self, wood: Wood, rng: np.random.Generator) -> Iterator[None]:
        """Grow trees; hands back from time to time, so that it can be stopped."""
        yield from wood.grown(rng.permutation(wood.n).astype(np.int64))
        yield from wood.joined(wood.roots_grown)


SEARCHES: dict[str, Search] = {"bhc": BHC(), "ibhc": IBHC()}


def search_of(method: Any) -> Search | None:
    """The search that is meant by what `Model.fit` was given; None where it is another method.

    Raises
    ------
    ValueError
        If it is the class of a search, or a list with one.
    """
    if isinstance(method, type) and issubclass(method, Search):
        raise ValueError(f"method is the class {method.__name__}; make an object of it, nm.{method.__name__}().")
    if isinstance(method, (list, tuple)) and any(isinstance(one, Search) for one in method):
        raise ValueError("a search runs alone, not in a list of moves: method=nm.IBHC(); chains can start from one, init=\"ibhc\".")
    if isinstance(method, str):
        return SEARCHES.get(method)
    return method if isinstance(method, Search) else None


def refusal(model: Model) -> str:
    """Why trees cannot be grown for a model; empty where they can."""
    return only_with_unions(model)


def too_large(model: Model) -> str:
    needed = 8 * model.n_obs * model.packed.n_stat
    if needed > MOST_BANK:
        return (
            f"the statistics of the tree's {model.n_obs:,} nodes would take {needed / 2**30:.1f} GiB, and {MOST_BANK / 2**30:g} GiB is "
            "the limit"
        )
    return ""


# ---- how trees are grown


class Wood:
    """Kernel arrays of a model, at its hyperparameters' start, and trees over its rows."""

    def __init__(self, model: Model, with_trees: bool = True) -> None:
        self.model, self.n = model, model.n_obs
        n, m = self.n, self.n if with_trees else 1
        self.data, self.state = model.arrays(8, trees.SIDE)
        start(self.data, self.state, np.full(n, -1, np.int64))
        self.forest = trees.Forest(
            *(np.zeros(n + m, np.int64) for _ in range(4)), np.zeros(n + m), np.zeros(n + m), np.zeros((m, model.packed.n_stat, 1)),
            np.zeros(m + 1, np.int64), self.state.log_grown, np.zeros(trees.GUIDE),
        )
        self.grove = ibhc.Grove(
            np.zeros(n, np.int64), np.zeros(n), np.zeros(n), np.zeros(n, np.int64), np.zeros(ibhc.NUM, np.int64)
        )
        self.set_guide(_expected_clusters(self.state))

    @property
    def most(self) -> int:
        """As many clusters as the prior permits."""
        impossible = np.flatnonzero(np.isneginf(self.state.log_next[1 : self.n]))
        return int(impossible[0]) + 1 if len(impossible) else self.n

    def set_guide(self, n_clusters: int) -> None:
        """What every cluster brings to the potentials, beside its size and its rows.

        Where the mass is integrated out, which leaves no product over clusters, it is the weight of a new cluster beside so many.
        """
        K = max(min(n_clusters, self.most - 1), 1)
        of_next = float(self.state.log_next[K])
        self.forest.guide[0] = log_cluster(self.state) + (of_next if math.isfinite(of_next) else 0.0)

    def plant(self) -> None:
        """Every row alone; no internal nodes."""
        trees.clear_forest(self.forest)
        ibhc.plant(self.data, self.state.side, self.forest)

    def grown(self, order: np.ndarray) -> Iterator[None]:
        """IBHC: observations enter in an order."""
        trees.clear_forest(self.forest)
        self._clear()
        until, most = 0, self.most
        while True:
            until = min(until + ROWS, len(order))
            while ibhc.grow(self.data, self.state, self.forest, self.grove, order, until, most) == layout.NEED_ROOM:
                self.state = layout.enlarged(self.state)
            yield
            if until == len(order):
                return

    def heaped(self, order: np.ndarray) -> np.ndarray:
        """The noisy start: labels."""
        self._clear()
        while ibhc.heap_up(self.data, self.state, self.grove, self.forest.guide[0], order, self.most) == layout.NEED_ROOM:
            self.state = layout.enlarged(self.state)
        return self.state.labels

    def _clear(self) -> None:
        self.grove.num[:] = 0
        self.state.num[layout.N_CLUSTERS] = 0
        self.state.labels[:] = -1

    @property
    def roots_grown(self) -> np.ndarray:
        return self.grove.root[: self.state.num[layout.N_CLUSTERS]]

    def grown_labels(self) -> np.ndarray:
        """Of each row the number of the tree that it is in."""
        out = np.zeros(self.n, np.int64)
        ibhc.read_labels(self.state, self.forest, self.grove, out, np.zeros(self.n, np.int64))
        return out

    def compile(self, updates: np.ndarray) -> None:
        """Have all that passes call compiled or loaded: none of it takes long here."""
        for _ in (*self.grown(np.zeros(0, np.int64)), *self.joined(np.zeros(0, np.int64))):
            pass
        self.grown_labels()
        self.plant()
        bhc.internal_nodes(self.forest, 0, np.zeros(1, np.int64))
        trees.leaves(self.forest, 0, np.zeros(1, np.int64))
        take_over(self.data, self.state, np.zeros(self.n, np.int64), 1)
        ibhc.resample(self.data, self.state, updates[:0], np.random.default_rng(0))

    def joined(self, roots: np.ndarray) -> Iterator[None]:
        """BHC of trees: to one."""
        number = len(roots)
        self.roots = bhc.Roots(
            np.array(roots, np.int64), np.zeros(number), np.zeros(number, np.int64), np.zeros(number, np.int64),
            np.zeros(number, np.int64), np.zeros(1, np.int64),
        )
        bhc.gather(self.roots, number)
        while True:
            bhc.agglomerate(self.data, self.state.side, self.forest, self.roots, UNIONS)
            if self.roots.num[0] <= 1:
                return
            yield

    def tree(self) -> Tree:
        """The tree that all were joined to."""
        n, forest, root = self.n, self.forest, int(self.roots.node[0])
        inner = np.zeros(n, np.int64)
        bhc.internal_nodes(forest, root, inner)
        nodes = np.concatenate([np.arange(n), inner[: n - 1]])
        number = np.empty(2 * n, np.int64)
        number[nodes] = np.arange(2 * n - 1)
        order = np.zeros(n, np.int64)
        trees.leaves(forest, root, order)
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
        kind, mass = int(data.setup[layout.MEASURE]), float(state.hyper[layout.MASS])
        if not nrm.is_integrated(data):
            if data.setup[layout.JOINT_WITH_V] == 0:  # a Dirichlet process
                base = math.lgamma(mass) - math.lgamma(mass + n)
            else:
                u, tau = float(state.v[0]), float(state.hyper[layout.TAU])
                psi = mass * nrm.total_psi1(data, state, state.hyper[layout.SIGMA])
                base = (n - 1) * math.log(u) - math.lgamma(n) - psi - n * math.log(u + tau)
            return base + float(tree.log_phi[tree.root])
        # V_n(1), and of each further cluster the factor exp(log_next) in place of the guide's
        theta = 0.0 if kind == layout.STABLE else mass
        base = float(data.log_V[0, 1]) if kind == layout.TABLE else math.lgamma(theta + 1) - math.lgamma(theta + n)
        sums = tree.log_sums(self.most)
        k = np.flatnonzero(np.isfinite(sums))
        log_next = np.concatenate([[0.0, 0.0], np.cumsum(state.log_next[1:n])])
        return base + float(np.logaddexp.reduce(sums[k] + log_next[k] - k * self.forest.guide[0]))

    def log_hyperprior(self) -> float:
        """Of the hyperparameters that are sampled, up to a constant."""
        rows, hyper = self.data.hyperprior, self.state.hyper
        return sum(float(nrm.log_hyperprior(rows[j], hyper[j])) for j in (layout.MASS, layout.SIGMA))

    def resample(self, labels: np.ndarray, updates: np.ndarray, rng: np.random.Generator) -> None:
        """u and the hyperparameters given a partition, and the guide that follows from them."""
        n_clusters = int(labels.max()) + 1
        while n_clusters > self.state.size.shape[0] - 3:
            self.state = layout.enlarged(self.state)
        take_over(self.data, self.state, labels, n_clusters)
        ibhc.resample(self.data, self.state, updates, rng)
        self.set_guide(n_clusters)


def _expected_clusters(state: layout.State) -> int:
    """About the number of clusters under the prior, where the weight of a new one depends on how many there are."""
    sigma, clusters = float(state.hyper[layout.SIGMA]), 1.0
    weights = np.exp(state.log_next)
    for m in range(1, len(weights) - 2):
        weight = weights[min(int(clusters), m)]
        clusters += weight / (weight + m - sigma * clusters)
    return int(clusters)


def first_labels(model: Model, way: str, order: np.ndarray) -> np.ndarray:
    """Labels (n,) of a chain that starts by one of STARTS, from all rows in an order; of none it has compiled what is needed."""
    wood = Wood(model, way == "ibhc")
    if way == "ibhc_noisy":
        return wood.heaped(order)
    if not len(order):
        wood.compile(np.zeros(0, np.int64))
        return order
    for _ in wood.grown(order):
        pass
    return wood.grown_labels()
