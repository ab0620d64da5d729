"""Bayesian hierarchical clustering in plain Python: trees as objects, potentials from sets of rows, nothing kept or updated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import logsumexp

LogH = Callable[[frozenset], float]
LogMarginal = Callable[[list[int]], float]


@dataclass(eq=False)
class Tree:
    rows: frozenset[int]
    log_phi: float
    children: tuple[Tree, ...] = ()

    @property
    def nodes(self) -> Iterator[Tree]:
        yield self
        for child in self.children:
            yield from child.nodes

    @property
    def clades(self) -> dict[frozenset[int], float]:
        """Sets of rows below the nodes, with the potentials of their trees."""
        return {node.rows: node.log_phi for node in self.nodes}


class Gardener:
    """Potentials kappa(|c|, u) p(X_c), and what is done with trees."""

    def __init__(self, log_marginal: LogMarginal, log_cluster: float, sigma: float) -> None:
        def log_h(rows: frozenset[int]) -> float:
            m = len(rows)
            return log_cluster + math.lgamma(m - sigma) - math.lgamma(1 - sigma) + log_marginal(sorted(rows))

        self.log_h: LogH = cache(log_h)
        self.gap = math.inf  # the closest decision so far: two that are equal are decided by rounding

    def least(self, values: list[float]) -> int:
        """Index of the smallest."""
        ordered = sorted(values)
        if len(ordered) > 1:
            self.gap = min(self.gap, ordered[1] - ordered[0])
        return values.index(ordered[0])

    def is_far(self, log_d: float) -> bool:
        self.gap = min(self.gap, abs(log_d))
        return log_d > 0

    def leaf(self, i: int) -> Tree:
        rows = frozenset([i])
        return Tree(rows, self.log_h(rows))

    def join(self, a: Tree, b: Tree) -> Tree:
        rows = a.rows | b.rows
        return Tree(rows, float(np.logaddexp(self.log_h(rows), a.log_phi + b.log_phi)), (a, b))

    def again(self, tree: Tree) -> Tree:
        """A tree of the same shape, its potentials computed here."""
        return self.join(*map(self.again, tree.children)) if tree.children else self.leaf(min(tree.rows))

    def log_d(self, a: Tree, b: Tree) -> float:
        return a.log_phi + b.log_phi - self.log_h(a.rows | b.rows)

    def bhc(self, trees: list[Tree]) -> Tree:
        trees = sorted(trees, key=lambda tree: min(tree.rows))
        while len(trees) > 1:
            pairs = list(itertools.combinations(trees, 2))
            a, b = pairs[self.least([self.log_d(*pair) for pair in pairs])]
            trees[trees.index(a)] = self.join(a, b)
            trees.remove(b)
        return trees[0]

    def insert(self, tree: Tree, x: Tree) -> Tree:
        """SeqInsert."""
        if not tree.children:
            return self.join(tree, x)
        left, right = tree.children
        case = self.least([self.log_d(left, right), self.log_d(left, x), self.log_d(right, x)])
        if case == 0:
            return self.join(tree, x)
        return self.join(self.insert(left, x), right) if case == 1 else self.join(left, self.insert(right, x))

    def parts(self, tree: Tree, x: Tree) -> list[Tree]:
        """What is left when a tree is cut at the lowest node above x whose d exceeds 1: none where it is not cut."""
        if tree is x:
            return []
        left, right = tree.children
        inner, other = (left, right) if x.rows <= left.rows else (right, left)
        found = self.parts(inner, x)
        if found:
            return [*found, other]
        return [left, right] if self.is_far(self.log_d(left, right)) else []

    def ibhc(self, order: list[int], most: int, most_splits: int) -> tuple[list[Tree], dict[str, int]]:
        trees: list[Tree] = []
        seen = {"new": 0, "top": 0, "left": 0, "right": 0, "split": 0}
        for i in order:
            pending, splits = [self.leaf(i)], 0
            while pending:
                x = pending.pop(0)
                best = trees[self.least([self.log_d(tree, x) for tree in trees])] if trees else None
                full = len(trees) == most
                if best is None or (self.is_far(self.log_d(best, x)) and not full):
                    trees.append(x)
                    seen["new"] += 1
                    continue
                trees.remove(best)
                grown = self.insert(best, x)
                left, right = grown.children
                seen["top" if right is x else "left" if x.rows <= left.rows else "right"] += 1
                parts = [] if splits == most_splits or full else self.parts(grown, x)
                if parts:
                    pending, splits = parts + pending, splits + 1
                    seen["split"] += 1
                else:
                    trees.append(grown)
        return trees, seen

    def cut(self, tree: Tree) -> list[Tree]:
        """From the root down while d > 1."""
        if not tree.children or self.log_d(*tree.children) <= 0:
            return [tree]
        return [part for child in tree.children for part in self.cut(child)]


def partitions_of_tree(tree: Tree) -> Iterator[tuple[frozenset[int], ...]]:
    """Every partition whose clusters are nodes of the tree."""
    yield (tree.rows,)
    if tree.children:
        left, right = tree.children
        for a in partitions_of_tree(left):
            for b in partitions_of_tree(right):
                yield (*a, *b)


def log_sum(terms: list[float]) -> float:
    return float(logsumexp(terms))
