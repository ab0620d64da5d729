"""Trees in plain Python: nested pairs of observations, potentials computed from the sets of leaves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

TIE = 1e-9  # relative difference of log d that rounding explains


class Tree(NamedTuple):
    shape: object  # an observation, or a pair of shapes
    log_h: float
    log_phi: float
    parts: tuple[Tree, ...]

    @property
    def leaves(self) -> tuple[int, ...]:
        return leaves(self.shape)


def leaves(shape: object) -> tuple[int, ...]:
    return shape_leaves(shape) if isinstance(shape, tuple) else (shape,)


def shape_leaves(shape: tuple) -> tuple[int, ...]:
    return leaves(shape[0]) + leaves(shape[1])


class Trees:
    """Trees for a log phi of sets of observations."""

    def __init__(self, log_h: Callable[[tuple[int, ...]], float]):
        self.log_h = cache(log_h)

    def h(self, *trees: Tree) -> float:
        return self.log_h(tuple(sorted(i for tree in trees for i in tree.leaves)))

    def leaf(self, i: int) -> Tree:
        return Tree(i, self.log_h((i,)), self.log_h((i,)), ())

    def of(self, shape: object) -> Tree:
        return self.pair(self.of(shape[0]), self.of(shape[1])) if isinstance(shape, tuple) else self.leaf(shape)

    def pair(self, a: Tree, b: Tree) -> Tree:
        h = self.h(a, b)
        return Tree((a.shape, b.shape), h, float(np.logaddexp(h, a.log_phi + b.log_phi)), (a, b))

    def log_d(self, a: Tree, b: Tree) -> float:
        return a.log_phi + b.log_phi - self.h(a, b)

    def insertions(self, tree: Tree, x: Tree) -> Iterator[Tree]:
        """SeqInsert: the tree with x in it, and those that come of ties, which rounding breaks."""
        if not tree.parts:
            yield self.pair(tree, x)
            return
        a, b = tree.parts
        on_top, into_a, into_b = self.log_d(a, b), self.log_d(a, x), self.log_d(b, x)
        least = min(on_top, into_a, into_b)
        least += TIE * (1.0 + abs(least))
        if on_top <= least:
            yield self.pair(tree, x)
        if into_a <= least:
            yield from (self.pair(new, b) for new in self.insertions(a, x))
        if into_b <= least:
            yield from (self.pair(a, new) for new in self.insertions(b, x))

    def insert(self, tree: Tree, x: Tree, shape: object) -> Tree:
        """The one of these that has a shape."""
        found = list(self.insertions(tree, x))
        assert shape in [new.shape for new in found]
        return next(new for new in found if new.shape == shape)

    def without(self, tree: Tree, shape: object) -> Tree | None:
        """The tree with one of its subtrees taken out."""
        if tree.shape == shape:
            return None
        for one, other, pair in ((*tree.parts, True), (*tree.parts[::-1], False)) if tree.parts else ():
            if set(leaves(shape)) <= set(one.leaves):
                left = self.without(one, shape)
                return other if left is None else self.pair(left, other) if pair else self.pair(other, left)
        raise KeyError(shape)

    def nodes(self, tree: Tree) -> Iterator[Tree]:
        """All subtrees, children before parents."""
        for part in tree.parts:
            yield from self.nodes(part)
        yield tree


def log_product_form(log_cluster: float, sigma: float, log_marginal: Callable[[list[int]], float]) -> Callable[[tuple[int, ...]], float]:
    """log phi of a set: log kappa(c, u) + log p(X_c), log_cluster being what does not depend on its size."""
    return lambda rows: log_cluster + math.lgamma(len(rows) - sigma) - math.lgamma(1 - sigma) + log_marginal(list(rows))
