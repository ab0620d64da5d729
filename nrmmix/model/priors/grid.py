"""Covariates as kernels read them: groups of rows, candidate locations with their weights and widths, distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nrmmix.model.frame.arrays import LARGEST
from nrmmix.model.frame.quantiles import Counted
from nrmmix.model.frame.unusual import fences_of, without_far


@dataclass(frozen=True)
class Scales:
    """Scales of distances in each covariate: (x - offset) / span of numbers, 0 or 1 of categories."""

    offset: np.ndarray  # (q,)
    span: np.ndarray
    category: np.ndarray  # (q,) bool
    ends: np.ndarray  # (2, q) smallest and largest values, apart from those far from all others

    @classmethod
    def of(cls, x: np.ndarray, category: np.ndarray, unit: np.ndarray, weight: np.ndarray | None = None) -> Scales:
        """Make scales for covariates x (n, q): to [0, 1] where `unit` (q,) says so, else as they are.  Far values lie beyond."""
        usual = without_far(x, weight)
        return cls._between(np.stack([np.nanmin(usual, axis=0), np.nanmax(usual, axis=0)]), category, unit)

    @classmethod
    def of_counted(cls, counted: Sequence[Counted], category: np.ndarray, unit: np.ndarray) -> Scales:
        """Make the scales of rows that are not in memory, by the values of each covariate."""
        usual = [own.without(fences_of(*own).far(own.values)).values for own in counted]
        return cls._between(np.array([[values[0], values[-1]] for values in usual]).T, category, unit)

    @classmethod
    def _between(cls, ends: np.ndarray, category: np.ndarray, unit: np.ndarray) -> Scales:
        span = ends[1] - ends[0]
        scaled = unit & ~category & (span > 0)
        return cls(np.where(scaled, ends[0], 0.0), np.where(scaled, span, 1.0), category, ends)

    def distances(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Distances (q, m, p) of rows x (m, q) from rows y (p, q)."""
        gap = np.abs(((x - self.offset) / self.span).T[:, :, None] - ((y - self.offset) / self.span).T[:, None, :])
        gap[self.category] = gap[self.category] != 0
        return np.ascontiguousarray(gap)

    def coordinates(self, x: np.ndarray) -> np.ndarray:
        """Coordinates of rows x (m, q) whose Euclidean distances are those of numbers, and 1 between categories."""
        numbers = ((x - self.offset) / self.span)[:, ~self.category]
        codes = [x[:, [j]] == np.unique(x[:, j]) for j in np.flatnonzero(self.category)]
        return np.hstack([numbers, *(np.sqrt(0.5) * code for code in codes)])


@dataclass(frozen=True)
class Grid:
    """Covariates as kernels read them.

    Where atoms have widths of their own a candidate location is a pair of a place and widths: `locations` holds the place of each pair,
    `width` its widths, and distances are measured in them.
    """

    values: np.ndarray  # (G, q) covariates of the groups, in the data's units: distinct rows, or means of bins
    group: np.ndarray  # (n,) int64: row of `values` of each observation
    locations: np.ndarray  # (P, q) places of the candidate locations, in the data's units
    weights: np.ndarray  # (P,) their prior probabilities
    width: np.ndarray  # (P, q) widths of atoms there, NaN in covariates whose width all atoms share
    factor: np.ndarray  # (P, q) by which distances are multiplied
    scales: Scales
    binned: bool  # whether groups are bins of unlike rows
    distance: np.ndarray  # (q, G, P)

    def distances(self, x: np.ndarray) -> np.ndarray:
        """Distances (q, m, P) of covariate rows x (m, q) from the locations, in their widths where they have any."""
        gap = self.scales.distances(x, self.locations)
        gap *= self.factor.T[:, None, :]
        return gap


# ---- groups


def counted_groups(own: Counted, x: np.ndarray, scales: Scales, groups: int | None) -> tuple[np.ndarray, np.ndarray, bool]:
    """Group one covariate whose rows are not in memory, by its values, as `grouped` does; the groups are those of rows x (n, 1)."""
    values, binned = own.values[:, None], False
    if groups is not None and len(own.values) > groups:
        parts, binned = bins(values, own.sizes, scales, groups), True
        values = np.array([[np.average(own.values[rows], weights=own.sizes[rows])] for rows in parts])
    return values, nearest(values[:, 0], x[:, 0]), binned


def nearest(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return for each of x (n,) the number of the nearest of some values, which ascend."""
    return np.searchsorted((values[1:] + values[:-1]) / 2, x).astype(np.int64)


def grouped(
    x: np.ndarray, scales: Scales, groups: int | None, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Distinct rows of x (n, q), the row of each observation, and whether they are means of bins, of which there are at most `groups`."""
    values, group = np.unique(x, axis=0, return_inverse=True)
    group = group.reshape(-1).astype(np.int64)
    if groups is None or len(values) <= groups:
        return values, group, False
    of_value = np.empty(len(values), np.int64)
    for b, rows in enumerate(bins(values, np.bincount(group, weight), scales, groups)):
        of_value[rows] = b
    group = of_value[group]
    size = np.bincount(group, weight)
    means = np.stack([np.bincount(group, column if weight is None else column * weight) / size for column in x.T], axis=1)
    for j in np.flatnonzero(scales.category):
        means[group, j] = x[:, j]  # equal within a bin
    return means, group, True


def bins(values: np.ndarray, size: np.ndarray, scales: Scales, most: int) -> list[np.ndarray]:
    """Rows of distinct `values` (m, q) in at most so many bins of about as many observations each; categories are never mixed.

    Of one number by its quantiles; of several the largest bin is halved at the median of what varies most in it, again and again.
    """
    _, stratum = np.unique(values[:, scales.category], axis=0, return_inverse=True)
    parts = [np.flatnonzero(stratum.reshape(-1) == s) for s in range(stratum.max() + 1)]
    if len(parts) > most:
        raise ValueError(f"{most} bins are too few: the categories alone have {len(parts)} combinations; give more.")
    scaled = ((values - scales.offset) / scales.span)[:, ~scales.category]
    if len(parts) == scaled.shape[1] == 1:
        steps = np.cumsum(size[np.argsort(scaled[:, 0], kind="stable")])
        number = np.minimum((most * (steps - 0.5) / steps[-1]).astype(np.int64), most - 1)
        return [np.flatnonzero(number == b) for b in np.unique(number)]
    weight = [float(size[rows].sum()) for rows in parts]
    while len(parts) < most and max(map(len, parts)) > 1:
        largest = max(range(len(parts)), key=lambda b: weight[b] if len(parts[b]) > 1 else -1.0)
        rows = parts[largest]
        rows = rows[np.argsort(scaled[rows, np.ptp(scaled[rows], axis=0).argmax()], kind="stable")]
        steps = np.cumsum(size[rows])
        cut = int(np.abs(steps[:-1] - steps[-1] / 2).argmin()) + 1
        parts[largest], weight[largest] = rows[:cut], float(steps[cut - 1])
        parts.append(rows[cut:])
        weight.append(float(steps[-1] - steps[cut - 1]))
    return parts


# ---- places


def places_of(values: np.ndarray, scales: Scales, rule: str, most: int) -> np.ndarray:
    """Places (P, q) for atoms, at most so many, in the data's units."""
    if rule == "spaced" and values.shape[1] == 1 and not scales.category[0]:
        (low,), (high,) = scales.ends
        beyond = values[(values < low) | (values > high)]  # far from all others: an atom there needs a place of its own
        if len(beyond) > most // 4:
            beyond = beyond[np.linspace(0, len(beyond) - 1, most // 4).astype(np.int64)]
        return np.sort(np.r_[np.linspace(low, high, most - len(beyond)), beyond])[:, None]
    if len(values) <= most:
        return values
    if rule == "quantiles":
        return np.array([values[rows].mean(axis=0) for rows in bins(values, np.ones(len(values)), scales, most)])
    return values[farthest_points(scales.coordinates(values), most)]


def farthest_points(x: np.ndarray, count: int) -> np.ndarray:
    """Indices of `count` rows of x (m, q), each the farthest from those before it, the first nearest to the mean."""
    chosen = [int(((x - x.mean(axis=0)) ** 2).sum(axis=1).argmin())]
    gap = ((x - x[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count:
        chosen.append(int(gap.argmax()))
        gap = np.minimum(gap, ((x - x[chosen[-1]]) ** 2).sum(axis=1))
    return np.sort(np.array(chosen))


def own_places(
    locations: np.ndarray, weights: np.ndarray | None, values: np.ndarray, category: np.ndarray, names: Sequence[str], who: str
) -> tuple[np.ndarray, np.ndarray]:
    """A user's places, in order, and their weights; `values` (m, q) are the covariates of the data.

    A ValueError if they have the wrong shape, are not finite, or one of them is there twice.
    """
    q = len(names)
    places = locations[:, None] if locations.ndim == 1 and q == 1 else locations
    if places.ndim != 2 or places.shape[1] != q or len(places) == 0:
        raise ValueError(f"{who}: locations must have shape (P, {q}) with P >= 1, not {locations.shape}.")
    if not (np.abs(places) <= LARGEST).all():  # NaN is not
        raise ValueError(f"{who}: locations must be finite, and not beyond {LARGEST:g}.")
    for j in np.flatnonzero(category).tolist():
        strange = places[~np.isin(places[:, j], values[:, j]), j]
        if len(strange):
            raise ValueError(f"{who}: locations in {names[j]!r} are numbers of its levels, from 0 on; {strange[0]:g} is none.")
    order = np.lexsort(places.T[::-1])
    places = places[order]
    same = np.flatnonzero((places[1:] == places[:-1]).all(axis=1))
    if len(same):
        raise ValueError(f"{who}: the location {places[same[0]].tolist()} is there twice; give it once, with a larger weight if need be.")
    if weights is None:
        return places, np.full(len(places), 1.0 / len(places))
    if len(weights) != len(places):
        raise ValueError(f"{who}: {len(weights)} weights for {len(places)} locations; give one for each.")
    return places, weights[order]
