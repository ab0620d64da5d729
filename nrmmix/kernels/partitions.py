"""Counts that partitions are compared by, and the search for the partition of least expected loss.

Both losses have the form sum_k phi(n_k) + sum_j phi(m_j) - 2 sum_kj phi(n_kj), with n_k and m_j the cluster sizes of the two
partitions and n_kj those of their intersections.  Kernels see phi only by its increments `gain[m]` = phi(m + 1) - phi(m).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from nrmmix.kernels.core.jit import allocating, fast, kernel, root

# ---- partitions side by side


@root
@kernel
def renumber(labels, number, n_clusters):
    """Number the labels of every row by first appearance, in place.  `number` holds -1 for every label, before and after."""
    for t in range(labels.shape[0]):
        K = 0
        for i in range(labels.shape[1]):
            k = labels[t, i]
            if number[k] < 0:
                number[k] = K
                K += 1
            labels[t, i] = number[k]
        n_clusters[t] = K
        for k in range(number.shape[0]):
            number[k] = -1


@kernel
def overlaps(order, end, labels, n_clusters, gain, count, out):
    """out[t] = sum_kj phi(n_kj) of a partition with row t; its cluster k is order[end[k-1]:end[k]].  `count` holds zeros."""
    for t in range(labels.shape[0]):
        total = 0.0
        begin = 0
        for k in range(end.shape[0]):
            for p in range(begin, end[k]):
                j = labels[t, order[p]]
                total += gain[count[j]]
                count[j] += 1
            if end[k] - begin < n_clusters[t]:
                for p in range(begin, end[k]):
                    count[labels[t, order[p]]] = 0
            else:
                for j in range(n_clusters[t]):
                    count[j] = 0
            begin = end[k]
        out[t] = total


@root
@kernel
def overlaps_of_rows(order, end, K, labels, n_clusters, gain, count, out):
    """out[c] = overlaps of row c of other partitions, grouped as `group_members` does, K[c] clusters each."""
    for c in range(order.shape[0]):
        overlaps(order[c], end[c, 1 : K[c] + 1], labels, n_clusters, gain, count, out[c])


@root
@kernel
def group_members(labels, order, end):
    """order[t, end[t, k]:end[t, k + 1]] are the members of cluster k of row t, ascending.  `end` holds zeros."""
    for t in range(labels.shape[0]):
        for i in range(labels.shape[1]):
            end[t, labels[t, i] + 1] += 1
        for k in range(1, end.shape[1]):
            end[t, k] += end[t, k - 1]
        for i in range(labels.shape[1]):  # end[t, k] runs from the begin of cluster k to that of the next
            k = labels[t, i]
            order[t, end[t, k]] = i
            end[t, k] += 1
        for k in range(end.shape[1] - 1, 0, -1):
            end[t, k] = end[t, k - 1]
        end[t, 0] = 0


@root
@kernel
def coclustering(labels, order, end, first, last, out):
    """Share of the rows in which i and j <= i have the same label, for observations i in first..last-1.  `out` holds zeros."""
    T = labels.shape[0]
    for i0 in range(first, last, 16):  # rows of counts that stay in the cache, and observations that share members of clusters
        i1 = min(i0 + 16, last)
        for t in range(T):
            for i in range(i0, i1):
                k = labels[t, i]
                for p in range(end[t, k], end[t, k + 1]):
                    j = order[t, p]
                    if j > i:
                        break
                    out[i, j] += np.float32(1.0)
        for i in range(i0, i1):
            for j in range(i + 1):
                out[i, j] = np.float32(out[i, j] / T)


@root
@kernel
def mirror(out):
    """out[j, i] = out[i, j] for j < i, by tiles, whose columns stay in the cache."""
    n = out.shape[0]
    for i0 in range(0, n, 64):
        for j0 in range(0, i0 + 1, 64):
            for i in range(i0, min(i0 + 64, n)):
                for j in range(j0, min(j0 + 64, i)):
                    out[j, i] = out[i, j]


# ---- a partition that changes, and its intersections with the draws

ATTEMPTS = 10  # clusters that are destroyed in turn


class Table(NamedTuple):
    """A partition of some or all observations, and its intersections with the clusters of all draws.

    A cluster of a draw is a row, a cluster of the partition a column; clusters are columns 0..K-1, and all further columns are empty.
    """

    labels: np.ndarray  # (n,) column of each observation, -1 where it has none
    number: np.ndarray  # (1,) K
    size: np.ndarray  # (columns,)
    score: np.ndarray  # (columns,) workspace
    count: np.ndarray  # (rows, columns) int32
    value: np.ndarray  # (rows, columns) gain[count]: read in order for every observation that is scored
    row: np.ndarray  # (n, draws) int32, the clusters that an observation belongs to
    weight: np.ndarray  # (draws,) how often each occurs
    gain: np.ndarray  # (n + 1,)
    total: float  # of the weights


@root
@kernel
def empty(table):
    """No observation is in any cluster."""
    table.number[0] = 0
    for i in range(table.labels.shape[0]):
        table.labels[i] = -1
    for k in range(table.size.shape[0]):
        table.size[k] = 0
    for r in range(table.count.shape[0]):
        for k in range(table.size.shape[0]):
            table.count[r, k] = 0
            table.value[r, k] = table.gain[0]


@kernel
def place(table, i, k):
    """Put observation i, which is in no cluster, in cluster k; k = K opens one."""
    table.labels[i] = k
    table.size[k] += 1
    if k == table.number[0]:
        table.number[0] = k + 1
    for t in range(table.weight.shape[0]):
        r = table.row[i, t]
        m = table.count[r, k] + 1
        table.count[r, k] = m
        table.value[r, k] = table.gain[m]


@kernel
def withdraw(table, i):
    """Take observation i out of its cluster, and return what putting it back would add to the loss.

    Where the cluster is left empty, the last cluster takes its number.
    """
    a = table.labels[i]
    table.labels[i] = -1
    table.size[a] -= 1
    shared = 0.0
    for t in range(table.weight.shape[0]):
        r = table.row[i, t]
        m = table.count[r, a] - 1
        table.count[r, a] = m
        table.value[r, a] = table.gain[m]
        shared += table.weight[t] * table.gain[m]
    cost = table.total * table.gain[table.size[a]] - 2.0 * shared
    if table.size[a] == 0:
        last = table.number[0] - 1
        table.number[0] = last
        if a != last:
            for r in range(table.count.shape[0]):
                table.count[r, a] = table.count[r, last]
                table.value[r, a] = table.value[r, last]
                table.count[r, last] = 0
                table.value[r, last] = table.gain[0]
            table.size[a] = table.size[last]
            table.size[last] = 0
            for j in range(table.labels.shape[0]):
                if table.labels[j] == last:
                    table.labels[j] = a
    return cost


@fast
def score_clusters(table, i, m):
    """score[k] = what observation i adds to the loss in cluster k < m, itself not counted where it is."""
    for k in range(m):
        table.score[k] = 0.0
    for t in range(table.weight.shape[0]):
        r = table.row[i, t]
        w = table.weight[t]
        for k in range(m):
            table.score[k] += w * table.value[r, k]
    for k in range(m):
        table.score[k] = table.total * table.gain[table.size[k]] - 2.0 * table.score[k]
    a = table.labels[i]
    if a >= 0:
        shared = 0.0
        for t in range(table.weight.shape[0]):
            shared += table.weight[t] * table.gain[table.count[table.row[i, t], a] - 1]
        table.score[a] = table.total * table.gain[table.size[a] - 1] - 2.0 * shared


@root
@kernel
def sweep(table, order, begin, limit, least, report):
    """Move the observations order[begin:] in turn to the cluster of least expected loss, if that saves more than `least`.

    An observation without a cluster gets one.  Adds to `report` the number of moves and what the observations cost where they were
    put.  Returns the position in `order` where room for one more of the `limit` clusters is missing, else its length.
    """
    for p in range(begin, order.shape[0]):
        K = table.number[0]
        if K == table.size.shape[0] and K < limit:
            return p
        i = order[p]
        m = min(K + 1, limit)
        score_clusters(table, i, m)
        a = table.labels[i]
        best, cost = a, (table.score[a] - least if a >= 0 else math.inf)
        for k in range(m):
            if table.score[k] < cost:
                best, cost = k, table.score[k]
        if best == a:
            continue
        if a >= 0:
            withdraw(table, i)
            if best == table.number[0] and best == K - 1:  # it has just taken the number of the cluster that was left empty
                best = a
        place(table, i, best)
        report[0] += 1.0
        report[1] += cost
    return order.shape[0]


@root
@kernel
def withdraw_all(table, members):
    """Take observations out of their clusters; the sum of what putting each back would add."""
    total = 0.0
    for p in range(members.shape[0]):
        total += withdraw(table, members[p])
    return total


@root
@kernel
def join(table, members):
    """Make observations that are in no cluster a cluster."""
    k = table.number[0]
    for p in range(members.shape[0]):
        place(table, members[p], k)


# ---- the search, driven from Python: a sweep is long


def enlarged(table, columns):
    """The table with room for more clusters."""
    old = len(table.size)

    def wider(array, fill):
        new = np.full((*array.shape[:-1], columns), fill, array.dtype)
        new[..., :old] = array
        return new

    return table._replace(
        size=wider(table.size, 0),
        score=wider(table.score, 0.0),
        count=wider(table.count, 0),
        value=wider(table.value, table.gain[0]),
    )


class Search:
    """A partition on its way to a least expected loss, and its contingency tables with the draws."""

    def __init__(self, rows: np.ndarray, weight: np.ndarray, gain: np.ndarray, limit: int) -> None:
        n_clusters = rows.max(axis=1) + 1
        offset = np.cumsum(n_clusters) - n_clusters
        R, n = int(n_clusters.sum()), rows.shape[1]
        columns = min(limit, int(n_clusters.max()) + 4)
        total = float(weight.sum())
        self.limit, self.least = limit, 1e-9 * total  # savings below this are rounding
        self.table = Table(
            labels=np.empty(n, np.int64),
            number=np.zeros(1, np.int64),
            size=np.zeros(columns, np.int64),
            score=np.zeros(columns),
            count=np.zeros((R, columns), np.int32),
            value=np.zeros((R, columns)),
            row=np.ascontiguousarray((rows + offset[:, None]).T, np.int32),
            weight=weight,
            gain=gain,
            total=total,
        )

    @property
    def cells(self) -> int:
        """Cells of the contingency tables, with as many clusters as are allowed."""
        return len(self.table.count) * self.limit

    def another(self) -> Search:
        """A search with tables of its own, and the same draws."""
        table, new = self.table, Search.__new__(Search)
        new.limit, new.least = self.limit, self.least
        changing = ("labels", "number", "size", "score", "count", "value")
        new.table = table._replace(**{name: np.empty_like(getattr(table, name)) for name in changing})
        return new

    def run(self, start: np.ndarray, rng: np.random.Generator, scans: int | None = None) -> np.ndarray:
        """Labels of the best partition found from `start`, where -1 is an observation that is yet to be allocated.

        Of so many scans, if they are given, observations are moved only, and no cluster is destroyed.
        """
        K = int(start.max()) + 1
        if K > len(self.table.size):
            self.table = enlarged(self.table, K)
        empty(self.table)
        for k in range(K):
            join(self.table, np.flatnonzero(start == k))
        self._sweep(np.flatnonzero(start < 0), rng)
        everything = np.arange(len(start))
        for _ in range(scans or 0):
            if not self._sweep(everything, rng)[0]:
                break
        improved = scans is None
        while improved:
            while self._sweep(everything, rng)[0]:
                pass
            improved = self._destroy(rng)
        return self.table.labels.copy()

    def _sweep(self, members: np.ndarray, rng: np.random.Generator) -> tuple[int, float]:
        """Number of moves, and the sum of what the observations moved have added to the loss."""
        report, order, position = np.zeros(2), rng.permutation(members), 0
        while True:
            position = sweep(self.table, order, position, self.limit, self.least, report)
            if position == len(order):
                return int(report[0]), float(report[1])
            self.table = enlarged(self.table, min(2 * len(self.table.size), self.limit))

    def _destroy(self, rng: np.random.Generator) -> bool:
        """Allocate the observations of some clusters anew; whether that lowered the loss."""
        improved = False
        # A cluster is known by one of its observations: its number changes as others come and go.
        _, first = np.unique(self.table.labels, return_index=True)
        for i in rng.permutation(first)[:ATTEMPTS]:
            members = np.flatnonzero(self.table.labels == self.table.labels[i])
            before = withdraw_all(self.table, members)
            _, after = self._sweep(members, rng)
            if after < before - self.least:
                improved = True
            else:
                withdraw_all(self.table, members)
                join(self.table, members)
        return improved


# ---- draws that come from a file


@root
@allocating
def numbered_by_appearance(labels):
    """(draws,): number of clusters of each row of labels (draws, n), 0 where they are not numbered 0, 1, ... by first appearance."""
    T, n = labels.shape
    out = np.zeros(T, np.int64)
    for t in range(T):
        K = 0
        for i in range(n):
            k = labels[t, i]
            if k < 0 or k > K:
                K = 0
                break
            if k == K:
                K += 1
        out[t] = K
    return out


@root
@allocating
def one_location_each(labels, locations):
    """Whether all members of a cluster have its location."""
    T, n = labels.shape
    of = np.empty(n, np.int64)
    for t in range(T):
        K = 0
        for i in range(n):
            k = labels[t, i]
            if k == K:
                of[K] = locations[t, i]
                K += 1
            elif of[k] != locations[t, i]:
                return False
    return True
