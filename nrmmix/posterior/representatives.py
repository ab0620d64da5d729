"""A few rows that stand for all: at these curves and densities are looked at draw by draw."""

from __future__ import annotations

import numpy as np

OF_ONE, OF_SEVERAL = 5, 8  # rows, where there is one column of numbers, and where there is more
MAX_CANDIDATES = 500  # rows that they are chosen among
LEVELS = 0.5  # distance between two levels of a category; ranks of numbers differ by 1 at most
DIGITS = 9  # of a criterion: rows that differ by less are equal, and the first is taken
ROUNDS = 20  # of exchanges, at most


def spaced(n: int, most: int) -> np.ndarray:
    """Positions of so many of n rows, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(most, n)).astype(int))


def representatives(x: np.ndarray, category: np.ndarray) -> np.ndarray:
    """Positions of a few rows of x (n, q) that are spread as all rows are, over all columns together.

    They minimise the energy distance to all rows (Mak & Joseph 2018, Annals of Statistics 46), numbers being measured by their ranks.  Of
    one column of numbers these are five rows at its quantiles; of several columns, or of the categories that `category` (q,) says, eight
    rows at most, found by exchanges.  No random numbers are used; rows that are alike count once.

    Examples
    --------
    >>> x = np.linspace(0.0, 1.0, 11)
    >>> representatives(x[:, None], np.array([False]))
    array([1, 3, 5, 7, 9])
    >>> corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 10, float)
    >>> representatives(corners, np.array([False, False]))
    array([0, 1, 2, 3])
    """
    n = len(x)
    if x.shape[1] == 1 and not category[0]:
        order = np.argsort(x[:, 0], kind="stable")
        return np.unique([order[int((2 * k + 1) / (2 * OF_ONE) * (n - 1))] for k in range(OF_ONE)])
    size = min(n, MAX_CANDIDATES)
    some = (np.arange(size) * n) // size
    distance = _distances(coordinates(x, category)[some])
    mean, m = distance.mean(axis=1), min(OF_SEVERAL, size)
    chosen: list[int] = []
    for k in range(m):  # each the best beside those before it
        chosen.append(_first_least(mean - distance[chosen].sum(axis=0) / (k + 1)))
    for _ in range(ROUNDS):
        before = list(chosen)
        for k in range(m):
            others = [*chosen[:k], *chosen[k + 1 :]]
            chosen[k] = _first_least(mean - distance[others].sum(axis=0) / m)
        if chosen == before:
            break
    found = np.sort(some[np.unique(chosen)])
    _, first = np.unique(np.nan_to_num(x[found]), axis=0, return_index=True)
    return found[np.sort(first)]


def nearest(x: np.ndarray, category: np.ndarray, rows: np.ndarray, share: float) -> list[np.ndarray]:
    """Return, for each of the rows, the positions of those nearest to it, that share of all."""
    points = coordinates(x, category)
    many = min(max(int(share * len(x)), 2) + 1, len(x))
    return [np.argsort(((points - points[row]) ** 2).sum(axis=1), kind="stable")[:many] for row in rows]


def coordinates(x: np.ndarray, category: np.ndarray) -> np.ndarray:
    """Rows (n, r) whose distances are measured: ranks of numbers, between 0 and 1, and codes of categories; missing cells in the middle."""
    columns = []
    for values, is_category in zip(x.T, category, strict=True):
        found, place, count = np.unique(values, return_inverse=True, return_counts=True)  # one NaN is as the other
        if is_category:
            columns += [(place == k) * (LEVELS * np.sqrt(0.5)) for k in range(len(found))]
        else:
            rank = (np.cumsum(count) - 0.5 * count) / len(values)
            columns.append(np.where(np.isnan(values), 0.5, rank[place.reshape(-1)]))
    return np.stack(columns, axis=1)


def _distances(points: np.ndarray) -> np.ndarray:
    """Euclidean distances; column by column, so that the sums are the same on every machine."""
    total = np.zeros((len(points), len(points)))
    for column in points.T:
        total += (column[:, None] - column) ** 2
    return np.sqrt(total)


def _first_least(values: np.ndarray) -> int:
    return int(np.round(values, DIGITS).argmin())
