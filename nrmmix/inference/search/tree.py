"""A tree over the rows of a model, and the partitions that it can be cut into."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field

import numpy as np

from nrmmix.model.frame.labels import canonical

NEGLIGIBLE = 60.0  # nats below the largest sum of partitions of a tree into so many clusters


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
        """The nodes (K,) that stand for clusters, from left to right: from the root down, those whose children have d > 1 give way to them.

        Of at most `most` clusters, if that is given, the largest d gives way first.
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
        out = np.empty(self.n_leaves, np.int64)
        for k, node in enumerate(self.cut(most)):
            out[self.rows(node)] = k
        return canonical(out)[0]

    def log_sums(self, most: int | None = None) -> np.ndarray:
        """log of the sum, over the partitions of the tree into k clusters, of products of phi(h), (n + 1,) for k = 0, ..., n.

        Minus infinity where there is none, and beyond `most` clusters.  Sums that are negligible, less than exp(-60) times the largest one
        of a node, are left out.
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
